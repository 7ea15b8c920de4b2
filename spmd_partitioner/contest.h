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
    HloArena *scratch;  // of each search: given back when it ends
    const int32_t *first_node, *touching;
    double *iterations;  // by computation id: how often it runs; 0 where that is not known yet
    HloIntMap known;     // by array, dimension and first axis: a position in `answers`
    HLO_VECTOR(double) answers;
    bool sent_only;  // the work that is divided does not count
} SpmdConsequences;

// The worth, in bytes on a link, of sharding dimension `dim` of an array by `axes`: the local work that this divides,
// in this array and in all to which propagation would carry it, less what the devices would have to send because of it.
// Node `origin`, where the contest arose, is not counted. Answers are kept, so that a contest that is looked at again
// costs nothing; they are not updated when shardings grow.
double spmd_consequences(SpmdConsequences *consequences, int32_t origin, int32_t array, int32_t dim,
                         const SpmdAxes *axes);
// How often a computation runs: the product of the known trip counts around it.
double spmd_runs(SpmdConsequences *consequences, const HloComputation *computation);
// The loop whose body `op` is in, if the operand is an element of its carry that stays the same: what brings such an
// operand into another sharding runs once, before the loop (passes/hoist.c). NULL where that is not so.
const HloInstruction *spmd_loop_around(const HloInstruction *op, int32_t operand);
// How often operand `operand` of `op` is moved if it has to be: an array that a loop does not change is moved once,
// before the loop (passes/hoist.c).
double spmd_operand_moves(SpmdConsequences *consequences, const HloInstruction *op, int32_t operand);
// The array of a node's tensor; NULL for a free one.
static inline const SpmdArray *spmd_node_array(const SpmdConsequences *consequences, const SpmdNode *node,
                                               int32_t tensor) {
    return node->arrays[tensor] < 0 ? NULL : &consequences->plan->arrays.items[node->arrays[tensor]];
}
// Bytes of a device's part of an array, were it not sharded by `atoms`.
double spmd_part_bytes(const SpmdConsequences *consequences, const SpmdArray *array, SpmdAtomSet atoms);
// Whether propagation would shard dimension `dim` of an array by `atoms`, which are `shards` parts.
bool spmd_array_accepts(const SpmdArray *array, int32_t dim, SpmdAtomSet atoms, int64_t shards);

#endif
