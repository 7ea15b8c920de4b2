// SPDX-License-Identifier: Apache-2.0
// The walk that rewrites a program to its per-device form, and what partition functions work with.
#ifndef MESHLO_SPMD_PARTITIONER_PARTITIONER_H_
#define MESHLO_SPMD_PARTITIONER_PARTITIONER_H_

#include "spmd_partitioner/propagate.h"
#include "spmd_partitioner/reshard.h"

// A partitioned array: what one device holds of it.
typedef struct SpmdLocal {
    HloInstruction *hlo;           // NULL for a free array: spmd_reshard() makes it
    const HloInstruction *source;  // of a free array, or the op whose only result the array is; NULL if it is not known
    const HloShape *global;
    const SpmdSharding *sharding;
    SpmdAtomSet partial;           // axes over which the devices' values still have to be combined
    HloOpcode reduction;           // with this op
    const HloInstruction *summed;  // the source op that left it partial; NULL if it is not
    bool waits;                    // partial, and left so to the only user (later.h)
} SpmdLocal;

// The computation that is being written.
typedef struct SpmdScope {
    HloComputation *target;
    HloInstruction *device;   // partition-id, made when first needed
    HloIntMap indices;        // hash of an axis list -> its shard index instruction (as intptr)
    HloIntMap reshards;       // by id of an instruction in the scope: SpmdCached chain of its reshards
    HloIntMap scalars;        // type and value -> constant
    HloIntMap frees;          // by source instruction id: SpmdCached chain of a free array's forms
    HloIntMap shifts;         // by id of a source array: its shifts, cut out of one array (halo.c)
    HloIntMap splits;         // by id of a source slice: its part of what several exchange together (split.c)
    HloIntMap overlaps;       // the same for slices that overlap (overlap.c)
    HloIntMap siblings;       // by id of a source array and a dimension: its slices, sorted (siblings.c)
    HloIntMap open_siblings;  // by id of a source array: where those that are not partitioned begin (siblings.c)
} SpmdScope;

// Why a collective is emitted; shown by explain.
typedef struct SpmdReason {
    const HloInstruction *op;       // source instruction
    const char *what;               // "operand 1", "result", "while carry 2"
    const SpmdSharding *from, *to;  // NULL where they do not say anything
    const HloInstruction *summed;   // of partial results: the op that sums over a sharded dimension
    bool is_own;                    // the op itself moves elements between its parts: no annotation would spare it that
} SpmdReason;

struct SpmdPartitioner {
    HloArena *arena;  // scratch
    const SpmdPlan *plan;
    const SpmdMesh *mesh;
    HloModule *module;             // being written
    SpmdLocal **locals;            // by leaf number of the plan
    bool *needed;                  // by source instruction id: whether anything that is kept uses it
    struct SpmdWritten **written;  // by source computation id: the partitioned forms of it, as a list
    HloComputation **clones;       // by source computation id: a plain copy (reducers, comparators), or NULL
    HloIntMap reducers;            // opcode, type -> computation
    SpmdPaths paths;
    SpmdScope *scope;
    const HloInstruction *op;     // being partitioned
    const HloMetadata *metadata;  // its metadata, in the new module
    int64_t next_channel;
    SpmdPlaces places;  // along the axes that were last moved along
};

// Writes into the header on how many devices the module runs.
void spmd_set_device_count(HloModule *module, int64_t device_count);
// Partitions `module` by `plan` into a new module.
HloStatus spmd_partition_plan(const SpmdPlan *plan, HloModule **partitioned);

// ---- arrays ----

// The partitioned form of leaf `leaf` of a source instruction.
SpmdLocal *spmd_local(SpmdPartitioner *partitioner, const HloInstruction *source, int64_t leaf);
// The partitioned form of operand `index` of the current op (an array), as it is.
static inline SpmdLocal spmd_operand(SpmdPartitioner *partitioner, int64_t index) {
    return *spmd_local(partitioner, partitioner->op->operands[index], 0);
}
// The manual axes of an op: those of its operands.
SpmdAtomSet spmd_manual_axes(SpmdPartitioner *partitioner, const HloInstruction *op);
// The cheapest way from one sharding to another, after which nothing is partial.
static inline const SpmdPath *spmd_path(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *from,
                                        SpmdAtomSet partial, const SpmdSharding *to) {
    return spmd_reshard_path(&partitioner->paths, partitioner->arena, partitioner->mesh, global, from, partial, to, 0);
}
// Reshards to `to`, finishing partial results except over `keep`. Free arrays are made.
SpmdLocal spmd_reshard(SpmdPartitioner *partitioner, SpmdLocal local, const SpmdSharding *to, SpmdAtomSet keep,
                       SpmdReason reason);
// Whether a free array or one that has been made in a sharding before costs nothing in it.
bool spmd_has_form(const SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to);
// What spmd_reshard() of an array that must be complete costs.
int64_t spmd_form_cost(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to);
// Whether it costs less to compute an array in another sharding from operands that are sent than to send it.
bool spmd_should_remake(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to);
// Computes it there. Only after spmd_should_remake().
SpmdLocal spmd_remake(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to);
// "operand 1": what a reason calls it.
const char *spmd_operand_name(SpmdPartitioner *partitioner, int64_t index);
// Operand `index` of the current op in sharding `to`, complete.
HloInstruction *spmd_operand_as(SpmdPartitioner *partitioner, int64_t index, const SpmdSharding *to);
// Operand `index` of the current op, whole on every device.
HloInstruction *spmd_operand_whole(SpmdPartitioner *partitioner, int64_t index);
// The sharding that the plan gives to leaf `leaf` of the current op.
const SpmdSharding *spmd_planned(SpmdPartitioner *partitioner, int64_t leaf);
// Says what leaf `leaf` of the current op's result is; reshards it if the plan insists.
void spmd_define(SpmdPartitioner *partitioner, int64_t leaf, HloInstruction *hlo, const SpmdSharding *sharding,
                 SpmdAtomSet partial, HloOpcode reduction);
// Defines leaf `leaf` of the current op's result as `local`, whatever its planned sharding.
void spmd_define_as(SpmdPartitioner *partitioner, int64_t leaf, const SpmdLocal *local);
// The shape of a tree of arrays as one device holds it; *leaf is the op's leaf that it begins with, and moves on.
const HloShape *spmd_local_tree(SpmdPartitioner *partitioner, const HloInstruction *op, const HloShape *shape,
                                int64_t *leaf);
// The tuple tree of `shape` over leaves; each is given in its local form.
HloInstruction *spmd_emit_tree(SpmdPartitioner *partitioner, const HloShape *shape, HloInstruction *const *leaves);
// The leaves of an instruction in order, taken out of its tuples.
void spmd_emit_leaves(SpmdPartitioner *partitioner, HloInstruction *tree, HloInstruction **leaves);
// An op of the source with new operands and shape; annotations are kept but those that sharding used up.
HloInstruction *spmd_clone(SpmdPartitioner *partitioner, const HloInstruction *op, const HloShape *shape,
                           HloInstruction *const *operands, int64_t operand_count);
// A plain copy of a reducer, comparator or the like in the new module.
HloComputation *spmd_called(SpmdPartitioner *partitioner, const HloComputation *called);
// Partitions a body; leaf i of its result gets the sharding of wanted[i]. Made once for equal demands.
HloStatus spmd_partition_computation(SpmdPartitioner *partitioner, const HloComputation *source,
                                     const SpmdArray *const *wanted, HloComputation **made);

// ---- by the rule ----

// Axes for each factor of the current op, chosen by communicated bytes among those that operands and results suggest.
// Windowed (SPMD_PERMUTE) factors get axes only if `windows`.
SpmdAxes *spmd_choose(SpmdPartitioner *partitioner, const SpmdRule *rule, bool windows);
// What it costs to send the current op's operands to these factors and its results to what the plan wants.
int64_t spmd_factors_cost(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors);
// All axes that some factor has.
SpmdAtomSet spmd_factor_atoms(const SpmdRule *rule, const SpmdAxes *factors);
// The axes over which the current op may leave sums unfinished: its operands are sums over them, it is linear in those,
// and the users of its result take it as a sum.
SpmdAtomSet spmd_passed_sums(SpmdPartitioner *partitioner, const HloInstruction *op);
// Whether an op with one operand gives a partial result of a partial operand: it rearranges elements, or negates the
// terms of a sum.
bool spmd_keeps_partial(HloOpcode opcode, HloOpcode reduction);
// What operand number `operand` must be for these factors, complete and not masked.
SpmdLocal spmd_factor_operand(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                              int32_t operand);
// Sets the elements beyond uneven reduced dimensions of an operand to a scalar.
HloInstruction *spmd_mask_reduced(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                  int32_t operand, HloInstruction *hlo, HloInstruction *value);
// Axes over which results are partial: those of the reduced factors.
SpmdAtomSet spmd_partial_axes(const SpmdRule *rule, const SpmdAxes *factors);
// Emits the current op on local operands and defines its results for these factors.
HloStatus spmd_emit_by_factors(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                               HloInstruction *const *operands);
// All of it: what ops without a partition function do.
HloStatus spmd_partition_default(SpmdPartitioner *partitioner, const HloInstruction *op);
// Hands the leaves of operand 0 on as the op's own: what ops do that mean nothing to each single array.
HloStatus spmd_partition_data_flow(SpmdPartitioner *partitioner, const HloInstruction *op);

#endif
