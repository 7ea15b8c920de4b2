// SPDX-License-Identifier: Apache-2.0
// The HBM that a device's arrays and running programs take.
//
// This counts the bytes that a chip would hold, not those of this host: an array that all devices have is counted for
// each, though its bytes are stored once here, and so are views of the caller's memory. Each buffer adds its bytes to
// the meter of its device while it has a content (targets/buffer.c), a running program its temporaries to the meters of
// its devices (targets/execution.c). Bytes are dense: on a chip the padding of tiles, which emulator/memory/ counts,
// is added.
#ifndef MESHLO_TARGETS_METER_H_
#define MESHLO_TARGETS_METER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// The meter of one device. All in bytes; used by many threads concurrently.
typedef struct TargetMeter {
    _Atomic int64_t in_use, peak, largest;
    _Atomic int64_t count;  // number of current allocations
    int64_t limit;          // HBM that the device has for programs; 0: unlimited (a host's)
} TargetMeter;

// Adds `bytes`. Returns false, and leaves the meter unchanged, if the limit leaves less than that.
bool target_meter_add(TargetMeter *meter, int64_t bytes);
// Subtracts bytes that were added.
void target_meter_remove(TargetMeter *meter, int64_t bytes);
// Returns the bytes that the limit leaves at the moment; 0 for an unlimited meter.
int64_t target_meter_free(TargetMeter *meter);
// An amount of memory, at least 0, in the format of the TPU runtime's messages: `512B`, `1.50K`, `7.98G`. Two decimals
// after powers of 1024. By value, so that a message about a lack of memory needs none for its parts.
typedef struct TargetAmount {
    char text[24];
} TargetAmount;
TargetAmount target_amount(int64_t bytes);

HLO_END_C

#endif
