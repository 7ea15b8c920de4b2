// SPDX-License-Identifier: Apache-2.0
// Factor rules: how the dimensions of an op's operands and results belong together, einsum-like. One rule an op family;
// propagation, cost and partitioning all read it.
#ifndef MESHLO_SPMD_PARTITIONER_RULE_H_
#define MESHLO_SPMD_PARTITIONER_RULE_H_

#include "spmd_partitioner/sharding.h"

typedef enum SpmdFactorKind {
    SPMD_PASS,       // local work: shards of operands give shards of results
    SPMD_REDUCE,     // only in operands: shards give partial results
    SPMD_REPLICATE,  // the op needs all of it
    SPMD_PERMUTE,    // shards need some of their neighbours' elements: a partition function knows how
} SpmdFactorKind;

typedef struct SpmdFactor {
    SpmdFactorKind kind;
    int64_t size;
    bool exact;    // part of a dimension of several factors: shards must divide it
    bool blocked;  // propagation leaves it alone
} SpmdFactor;

// The factors of one dimension, major to minor; empty for a dimension that cannot be sharded.
typedef struct SpmdDimFactors {
    int32_t count;
    int32_t *items;
} SpmdDimFactors;

typedef struct SpmdTensor {
    const HloShape *shape;
    SpmdDimFactors *dims;
} SpmdTensor;

// Tensors are the array operands, then the array leaves of the result.
typedef struct SpmdRule {
    HloArena *arena;
    const HloInstruction *op;
    HLO_VECTOR(SpmdFactor) factors;
    int32_t operand_count, result_count;
    SpmdTensor *tensors;
    HloOpcode reduction;  // what combines partial results; HLO_OPCODE_COUNT if nothing can
    bool unreadable;      // the program brings a rule of its own, which does not fit the op
} SpmdRule;

typedef struct SpmdPartitioner SpmdPartitioner;

// What the `partition` column of hlo/ops.def names: a rule and, where the local form is more than the op on local
// shapes, a function. `adjust` changes a copy of the attributes to local sizes.
typedef struct SpmdOp {
    const char *name;  // of the family, for messages
    void (*rule)(SpmdRule *rule, const HloInstruction *op);
    HloStatus (*partition)(SpmdPartitioner *partitioner, const HloInstruction *op);
    // Bytes that one device sends for windowed dimensions if the factors get these axes; NULL where nothing is
    // windowed.
    int64_t (*moved)(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors);
    void (*adjust)(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *local_operands,
                   const HloShape *local_result);
    // Into how many exchanges of an operand's shard a choice goes that brings the axes of its dimension `from`, which
    // the op needs whole, to dimension `to` of the result; 0 if there is none. NULL for ops with a partition function
    // whose results take no axes aside (contraction.h).
    int32_t (*exchanges)(const SpmdMesh *mesh, const SpmdRule *rule, const SpmdSharding *operand, int32_t from,
                         int32_t to);
    // Propagation starts with the ops that determine how their operands are best sharded, as elementwise ones do. A dot
    // or a reduction only guesses, and takes part once everything certain has been propagated.
    bool is_certain;
} SpmdOp;

#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    extern const SpmdOp spmd_op_##partition;
#include "hlo/ops.def"
#undef HLO_OP

// The row of an opcode.
const SpmdOp *spmd_op(HloOpcode opcode);
// Builds the rule of an instruction; NULL when its op has none (data-flow ops, leaves, unsupported ops).
SpmdRule *spmd_rule_new(HloArena *arena, const HloInstruction *op);

// A new factor; its number.
int32_t spmd_rule_factor(SpmdRule *rule, SpmdFactorKind kind, int64_t size);
// Appends a factor to a dimension of a tensor.
void spmd_rule_map(SpmdRule *rule, int32_t tensor, int64_t dim, int32_t factor);
// False for f8e8m0fnu, which has powers of two only: a device without a part of a sum has no value of that type to
// contribute.
bool spmd_type_has_zero(HloType type);
// Maps the leading dimensions of all tensors to batch factors; the last `whole` dimensions have none.
void spmd_rule_batches(SpmdRule *rule, int32_t whole);
// The opcode of a reducer whose partial results a collective can combine (its order does not matter but for rounding);
// HLO_OPCODE_COUNT for other computations.
HloOpcode spmd_rule_combiner(const HloComputation *reducer);
// `opcode` if it is one of these, of elements of that type; HLO_OPCODE_COUNT otherwise.
HloOpcode spmd_rule_combining(HloOpcode opcode, HloType type);
// The op that combines an array of which one device has each element and the others the op's identity: a sum where the
// type has a zero.
HloOpcode spmd_rule_joiner(HloType type);
// The tensor number of a result.
static inline int32_t spmd_rule_result(const SpmdRule *rule, int32_t index) {
    return rule->operand_count + index;
}
static inline int32_t spmd_rule_tensors(const SpmdRule *rule) {
    return rule->operand_count + rule->result_count;
}
// The only factor of a dimension of a tensor; -1 if it has several, or none.
static inline int32_t spmd_only_factor(const SpmdTensor *tensor, int32_t dim) {
    return tensor->dims[dim].count == 1 ? tensor->dims[dim].items[0] : -1;
}
// The dimension of a tensor that is `factor` and nothing else; -1 if there is none.
int32_t spmd_dim_of_factor(const SpmdTensor *tensor, int32_t factor);

// Reads a tensor's sharding as axes per factor (`factors` has one entry a factor; those of other tensors are left as
// they are). Axes that do not fall on factor boundaries are dropped; returns false if any were.
bool spmd_rule_project(const SpmdRule *rule, const SpmdMesh *mesh, int32_t tensor, const SpmdSharding *sharding,
                       SpmdAxes *factors);
// Takes away axes that some tensor cannot express: a minor factor's where the major one of its dimension is not sharded
// to the end, and those that do not divide a factor that must be exact.
void spmd_rule_resolve(const SpmdRule *rule, const SpmdMesh *mesh, SpmdAxes *factors);
// The axes of one dimension of a tensor for given factors: as many as fit (minor factors only after full major ones).
SpmdAxes spmd_rule_dim_axes(const SpmdRule *rule, const SpmdMesh *mesh, int32_t tensor, int64_t dim,
                            const SpmdAxes *factors);
// The sharding of a tensor for given factors.
SpmdSharding *spmd_rule_sharding(const SpmdRule *rule, HloArena *arena, const SpmdMesh *mesh, int32_t tensor,
                                 const SpmdAxes *factors, SpmdAtomSet manual);

#endif
