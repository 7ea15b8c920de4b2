// SPDX-License-Identifier: Apache-2.0
// Windows of arrays that are put together from parts of another one, taken directly from that one.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_COMPOSED_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_COMPOSED_H_

#include "spmd_partitioner/emit.h"

// The planned windows of an array; it lives in the partitioner's arena.
typedef struct SpmdComposed SpmdComposed;

// Plans the windows that `users` of the users of `array`, the current op's operand, need of it, from the array that
// slices, concatenations, reversals and repetitions make it of. `sharding` is that of both; each position along the
// axes of dimension d needs intervals[d] of the composed array, and all of a dimension without axes. NULL where it is
// no composition, or cannot be planned.
SpmdComposed *spmd_composed_plan(SpmdPartitioner *partitioner, const HloInstruction *array, int64_t users,
                                 const SpmdSharding *sharding, const SpmdInterval *intervals);
// What they cost, with the array that they are taken from as it is now; and what putting the array together has cost,
// if nothing else needs it.
int64_t spmd_composed_cost(const SpmdComposed *composed);
int64_t spmd_composed_saving(const SpmdComposed *composed);
// Takes them. Along the dimensions that are `windowed` (NULL: none), elements outside of the composed array are set to
// `fill`; otherwise they are undefined.
HloInstruction *spmd_emit_composed(SpmdPartitioner *partitioner, const SpmdComposed *composed, const bool *windowed,
                                   HloInstruction *fill, const SpmdReason *reason);

#endif
