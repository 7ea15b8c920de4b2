// SPDX-License-Identifier: Apache-2.0
// Products of batches of which one operand would be gathered, because the result has its axes along a free dimension of
// the other. Attention over a sharded sequence is the common case: scores that are sharded by queries need all keys,
// and what follows needs all values. Sharded by heads or batches, everything between the products is local.
#ifndef MESHLO_SPMD_PARTITIONER_BATCHES_H_
#define MESHLO_SPMD_PARTITIONER_BATCHES_H_

#include "spmd_partitioner/contest.h"

// An array whose axes move from one dimension to another.
typedef struct SpmdMovedAxes {
    int32_t array, from, to;
} SpmdMovedAxes;

// The arrays between products that change together.
typedef struct SpmdBatches {
    SpmdAxes axes;
    HLO_VECTOR(SpmdMovedAxes) moved;
} SpmdBatches;

// True if the result of product `node`, and what is computed from it up to the next products, should have its axes
// along a batch dimension instead, because exchanging what goes in and comes out sends less than gathering; *batches
// says which arrays change, in the arena of `consequences`. Changes nothing.
bool spmd_find_batches(SpmdConsequences *consequences, int32_t node, SpmdBatches *batches);

#endif
