// SPDX-License-Identifier: Apache-2.0
// Arrays shifted along several sharded dimensions, cut out of one array with margins.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_HALO_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_HALO_H_

#include "spmd_partitioner/partitioner.h"

// Defines the result of the current op, a concatenation, a slice of one or a pad that shifts an array, as a part of the
// array's shard with margins that hold what its neighbours have, corners too. False, with nothing emitted, where it is
// not one of several shifts of the array of which some go along two sharded dimensions, or where margins send no less.
bool spmd_shift(SpmdPartitioner *partitioner);

#endif
