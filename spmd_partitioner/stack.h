// SPDX-License-Identifier: Apache-2.0
// Stacks: arrays that a loop takes apart, or builds, one slice an iteration. A scan has one for each of its inputs and
// outputs. Sharded along the dimension of the slices they are of no use to the loop: every device computes every
// iteration. Sharded along another dimension each device computes its part of all of them.
#ifndef MESHLO_SPMD_PARTITIONER_STACK_H_
#define MESHLO_SPMD_PARTITIONER_STACK_H_

#include "spmd_partitioner/contest.h"

// A dimension of one of the plan's arrays.
typedef struct SpmdStackDim {
    int32_t array, dim;
} SpmdStackDim;

// Stacks that a loop builds and that are looked at, at most; each has two arrays, before and after the update.
enum { SPMD_MOST_BUILT = 64 };

// A stack whose axes should move, and those that loops build, which hold the same axes now.
typedef struct SpmdStack {
    SpmdStackDim from;
    int32_t to;     // the dimension that should get the axes
    SpmdAxes axes;  // of `from`
    int32_t built_count;
    SpmdStackDim built[SPMD_MOST_BUILT];
} SpmdStack;

// True if `node` takes slices of a loop's array along a sharded dimension, and if exchanging the axes for those of
// another dimension before the loop costs less than what it takes to have each slice everywhere; *stack says which.
// Weighs what follows in the loop and after it, by spmd_consequences(). Changes nothing.
bool spmd_find_stack(SpmdConsequences *consequences, int32_t node, SpmdStack *stack);

#endif
