// SPDX-License-Identifier: Apache-2.0
// Slices of one array, found without a look at all others: there may be thousands.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_SIBLINGS_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_SIBLINGS_H_

#include "spmd_partitioner/partitioner.h"

// Where a slice begins along a dimension.
typedef struct SpmdSibling {
    int64_t start;
    const HloInstruction *slice;
} SpmdSibling;

// The slices of the array that `slice` takes a part of which begin less than `distance` before or after it along `dim`,
// itself among them, by where they begin. Returns how many; they live as long as the scope.
int64_t spmd_near_siblings(SpmdPartitioner *partitioner, const HloInstruction *slice, int32_t dim, int64_t distance,
                           const SpmdSibling **siblings);

// The position in the array's users before which there are no slices that have yet to be partitioned.
int64_t spmd_first_open_sibling(SpmdPartitioner *partitioner, const HloInstruction *array);

#endif
