// SPDX-License-Identifier: Apache-2.0
// Slices of one array that are exchanged together: those that split it along a sharded dimension, and those that
// overlap.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_SPLIT_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_SPLIT_H_

#include "spmd_partitioner/partitioner.h"

// Defines the result of the current op, a slice, as a part of what it and other slices of the same array exchange
// together. False, with nothing emitted, where it is not one of several that take different parts of one dimension, or
// where that sends no less than each for itself, with `factors` (spmd_choose()) for this one.
bool spmd_split(SpmdPartitioner *partitioner, const SpmdAxes *factors);
// The same for slices of one shape that overlap.
bool spmd_overlap(SpmdPartitioner *partitioner, const SpmdAxes *factors);
// The same where the array is put together of another one, from that one alone (composed.h).
bool spmd_overlap_composed(SpmdPartitioner *partitioner, const SpmdAxes *factors);
// What slices of one array, the first of which is the current op, cost one by one, all with their result in `sharding`;
// the first one with `factors`.
int64_t spmd_slices_cost(SpmdPartitioner *partitioner, const HloInstruction *const *slices, int64_t count,
                         const SpmdSharding *sharding, const SpmdAxes *factors);

// Returns the stride of a slice along a dimension. One beyond the end takes the first element only, as does the
// operand's size, which is returned then: it stays small enough to count with.
int64_t spmd_slice_stride(const HloInstruction *op, int32_t dim);

#endif
