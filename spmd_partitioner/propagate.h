// SPDX-License-Identifier: Apache-2.0
// Propagation: from the annotations to a sharding for every array of a module.
#ifndef MESHLO_SPMD_PARTITIONER_PROPAGATE_H_
#define MESHLO_SPMD_PARTITIONER_PROPAGATE_H_

#include "spmd_partitioner/convert.h"
#include "spmd_partitioner/costs.h"
#include "spmd_partitioner/rule.h"

// One array of the program: instructions that only pass it on (tuples, loops) share it.
typedef struct SpmdArray {
    const HloShape *shape;
    SpmdSharding *sharding;
    bool *open;                 // per dimension
    const int32_t *priorities;  // per dimension: first priority pass in which it gives and takes; NULL: all in pass 0
    SpmdAtomSet replicated;     // never added
    bool annotated;             // by the user
    bool free;                  // made where it is needed: propagation ignores it
    const int64_t *devices;     // of a foreign device order (entry boundary only)
} SpmdArray;

// Where an instruction lets shardings through; a set of bits.
typedef enum SpmdDirections {
    SPMD_NOWHERE = 0,
    SPMD_FORWARD = 1,   // from operands to results
    SPMD_BACKWARD = 2,  // from results to operands
    SPMD_BOTH_WAYS = 3,
} SpmdDirections;

// A tie between arrays: an instruction with a rule, or an edge (rule NULL) between two arrays of one shape, such as the
// initial value and the carry of a loop.
typedef struct SpmdNode {
    const SpmdRule *rule;
    int32_t *arrays;  // by tensor of the rule; -1 where the array is free
    int32_t count;
    int32_t stage;  // first stage of propagation in which it takes part
    SpmdDirections directions;
    // The boundary of a manual region: arrays[0] is the array inside, arrays[1] the one outside, whose dimensions start
    // with these manual axes. NULL for other nodes.
    const SpmdAxes *boundary;
    bool is_asked;  // a custom partitioner infers the results' shardings from those of the operands
} SpmdNode;

// How propagation decided between two dimensions of one array that claimed the same axes. Tensors are numbered as in
// the op's rule: those whose shardings the two claims come from.
typedef struct SpmdDecision {
    SpmdAtomSet atoms;
    int32_t winner, loser;
} SpmdDecision;

// The shardings of a whole module. Instructions are found by id, their arrays by leaf.
typedef struct SpmdPlan {
    HloArena *arena;
    const HloModule *module;
    const SpmdMesh *mesh;
    SpmdCosts *costs;                 // by which plans are compared; NULL in a plan without propagation
    const struct SpmdShardy *shardy;  // what Shardy's attributes say
    const SpmdOptions *options;       // of the call, which they outlive
    HloComputation **computations;    // callees first
    int64_t computation_count;
    int32_t *first_leaf;  // by instruction id
    int32_t *array_of_leaf;
    HLO_VECTOR(SpmdArray) arrays;
    SpmdRule **rules;  // by instruction id; NULL where it has no rule
    bool *free;        // by instruction id: a function of the element's index and of scalars, made where needed
    HLO_VECTOR(SpmdNode) nodes;  // what propagation works on
    int32_t *results;            // arrays of the entry's results, by leaf, with the shardings that the caller requests
    int64_t result_count;
    HloIntMap decisions;  // by instruction id + 1: SpmdDecision, where there was a conflict
} SpmdPlan;

// Takes the module apart into arrays and nodes and seeds them with the annotations; spmd_plan_new() does the rest.
HloStatus spmd_plan_build(HloArena *arena, const HloModule *module, const SpmdMesh *mesh, const SpmdOptions *options,
                          SpmdPlan **plan);
// Builds the plan and runs propagation to its fixpoint. It lives in `arena`; the mesh of `costs` must too.
// INVALID_ARGUMENT for annotations that do not fit.
HloStatus spmd_plan_new(HloArena *arena, const HloModule *module, SpmdCosts *costs, const SpmdOptions *options,
                        SpmdPlan **plan);
// The array that is leaf `leaf` of an instruction's result.
const SpmdArray *spmd_plan_array(const SpmdPlan *plan, const HloInstruction *instruction, int64_t leaf);
// True if a computation is partitioned itself: the entry, and bodies of calls, loops and branches.
bool spmd_is_flow_op(HloOpcode opcode);
// True of a broadcast unless it adds nothing but dimensions of size 1: those are reshapes, as XLA writes what StableHLO
// calls a broadcast.
bool spmd_repeats_elements(const HloInstruction *op);
// The number of leaves of a tuple shape before its element `index`.
int64_t spmd_leaf_offset(const HloShape *tuple, int64_t index);

#endif
