// SPDX-License-Identifier: Apache-2.0
// Slices of few elements of a sharded dimension, which all devices need: their owners broadcast them.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_OWNED_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_OWNED_H_

#include "spmd_partitioner/partitioner.h"

// Defines the result of the current op, a slice, as what the one or two shards broadcast that it lies in. False, with
// nothing emitted, where it lies in more, or where it costs at most `limit` otherwise and a broadcast no less.
bool spmd_broadcast_slice(SpmdPartitioner *partitioner, int64_t limit);
// What owners have sent of a slice that was partitioned before, which every device has whole along a dimension that
// shards its operand; 0 for others. An op that is computed from the slice's operand instead saves that.
int64_t spmd_owned_cost(SpmdPartitioner *partitioner, const HloInstruction *slice);

#endif
