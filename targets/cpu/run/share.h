// SPDX-License-Identifier: Apache-2.0
// Work that several devices would repeat. Devices whose arguments are in the same memory (replicated parameters)
// compute the same values until a value that differs enters. Costly kernels among these run once and their results are
// copied. Which arrays are equal on which devices follows from the program and from which argument addresses are equal,
// so sharing is always right, whatever the arguments contain.
#ifndef MESHLO_TARGETS_CPU_RUN_SHARE_H_
#define MESHLO_TARGETS_CPU_RUN_SHARE_H_

#include "targets/cpu/run/internal.h"

HLO_BEGIN_C

struct CpuSharePlan {
    int64_t devices;
    int64_t argument_count;
    int16_t *pattern;         // [argument][device]: the first device with the same address
    const int16_t **leaders;  // by share index: [device] the first device with the same value; NULL: nothing to share
    const int16_t *result_leaders;  // [result][device]
};

// Returns the number of members of a device's class.
static inline int64_t cpu_share_class_size(const int16_t *leaders, int64_t devices, int64_t device) {
    int64_t count = 0;
    for (int64_t d = 0; d < devices; d++) count += leaders[d] == leaders[device];
    return count;
}

HLO_END_C

#endif
