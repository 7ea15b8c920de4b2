// SPDX-License-Identifier: Apache-2.0
// How much of a device's HBM its arrays and running programs take.
//
// What is counted is what a chip would hold, not what this host does: an array that all devices have is on the meter of
// each, though its bytes stand in one place here, and so are views of the caller's memory. Each buffer puts its bytes
// on the meter of its device while it has a content (targets/buffer.c), a running program its temporaries on the meters
// of its devices (targets/execution.c). Bytes are dense: the padding of tiles, which emulator/memory.h counts, comes on
// top on a chip.
#ifndef MESHLO_TARGETS_METER_H_
#define MESHLO_TARGETS_METER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// The meter of one device. All bytes; used by many threads at once.
typedef struct TargetMeter {
    _Atomic int64_t in_use, peak, largest;
    _Atomic int64_t count;  // of what is on the meter now
    int64_t limit;          // HBM of the device; 0: unlimited (a host's)
} TargetMeter;

// Puts `bytes` on the meter. False, and the meter stays as it is, where the limit leaves less than that.
bool target_meter_add(TargetMeter *meter, int64_t bytes);
// Takes off what was put on.
void target_meter_remove(TargetMeter *meter, int64_t bytes);
// What the limit leaves at the moment; 0 for an unlimited meter.
int64_t target_meter_free(TargetMeter *meter);
// An amount of memory, at least 0, as the TPU runtime's messages spell it: `512B`, `1.50K`, `7.98G`. Two decimals
// behind powers of 1024. By value, so that a message about a lack of memory needs none for its parts.
typedef struct TargetAmount {
    char text[24];
} TargetAmount;
TargetAmount target_amount(int64_t bytes);

HLO_END_C

#endif
