// SPDX-License-Identifier: Apache-2.0
// Slices that split an array along a sharded dimension, exchanged together.
#ifndef MESHLO_SPMD_PARTITIONER_SPLIT_H_
#define MESHLO_SPMD_PARTITIONER_SPLIT_H_

#include "spmd_partitioner/partitioner.h"

// Defines the result of the current op, a slice, as a part of what it and other slices of the same array exchange
// together. False, with nothing emitted, where it is not one of several that take different parts of one dimension, or
// where that sends no less than each for itself, with `factors` (spmd_choose()) for this one.
bool spmd_split(SpmdPartitioner *partitioner, const SpmdAxes *factors);

#endif
