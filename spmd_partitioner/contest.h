// SPDX-License-Identifier: Apache-2.0
// Contests: two dimensions of one array that propagation wants to shard by the same axis. They are decided by what
// follows from each: the communication that it causes down the graph, and the work that it divides.
#ifndef MESHLO_SPMD_PARTITIONER_CONTEST_H_
#define MESHLO_SPMD_PARTITIONER_CONTEST_H_

#include "spmd_partitioner/propagate.h"

// What the search needs to know of a plan. `first_node` and `touching` list the nodes by array: those of array i are
// touching[first_node[i]] to touching[first_node[i + 1] - 1].
typedef struct SpmdConsequences {
    SpmdPlan *plan;
    HloArena *arena;
    const int32_t *first_node, *touching;
    double *iterations;  // by computation id: how often it runs; 0 where that is not known yet
    HloIntMap known;     // by array, dimension and first axis: a position in `answers`
    HLO_VECTOR(double) answers;
} SpmdConsequences;

// The worth, in bytes on a link, of sharding dimension `dim` of an array by `axes`: the local work that this divides,
// in this array and in all to which propagation would carry it, less what the devices would have to send because of it.
// Node `origin`, where the contest arose, is not counted. Answers are kept, so that a contest that is looked at again
// costs nothing; they are not updated when shardings grow.
double spmd_consequences(SpmdConsequences *consequences, int32_t origin, int32_t array, int32_t dim,
                         const SpmdAxes *axes);

#endif
