// SPDX-License-Identifier: Apache-2.0
// Factors and their axes. A dimension of several factors (reshapes, groups of convolutions) is sharded from the major
// factor on: a minor one may have axes only where the major ones are sharded to single elements, since anything else
// would not be one contiguous shard. These factors are exact: their axes must divide them.
//
// A rule relates the dimensions of operands and results: each dimension is a list of factors, and a factor that several
// tensors share must be sharded alike in all of them. Propagation, the cost of a reshard and partitioning all read the
// same rule (docs/architecture.md). The kinds of factors are in rule.h; the rules themselves, one op family a file, in
// rules/.
//
//     %r = f32[6,4] reshape(f32[2,12] %p)
//     factors  f0 = 2, f1 = 3, f2 = 4     %p: [f0], [f1 f2]     %r: [f0 f1], [f2]
//     %p sharded by an axis of 2 along its first dimension means f0 = {x}, and so for %r
//     %p sharded by an axis of 3 along its second means f1 = {y}: %r can take it only after f0 = all of 2
//
// Three operations and their inverses: project (a sharding as axes per factor), settle (remove axes that some tensor
// cannot express) and sharding (axes per factor as a tensor's sharding). All are O(rank x factors of a dimension x
// axes).
#include "spmd_partitioner/rule.h"

#include <assert.h>
#include <string.h>

// A table made from hlo/ops.def: an opcode without a row does not compile.
const SpmdOp *spmd_op(HloOpcode opcode) {
    assert(opcode >= 0 && opcode < HLO_OPCODE_COUNT);
    static const SpmdOp *const ops[] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    &spmd_op_##partition,
#include "hlo/ops.def"
#undef HLO_OP
    };
    return ops[opcode];
}

// Counts the array leaves of a result; -1 when some leaf is not an array. Results like tokens cannot be sharded, so an
// op with such a result has no rule of dimensions.
static int32_t array_leaves(const HloShape *shape) {
    int64_t count = hlo_shape_leaf_count(shape);
    for (int64_t i = 0; i < count; i++) {
        if (!hlo_shape_is_array(hlo_shape_leaf(shape, i))) return -1;
    }
    return (int32_t)count;
}

// Without factors yet: a dimension that no rule maps is one that cannot be sharded.
// Tensors are operands first, then results.
static void set_tensor(SpmdRule *rule, int32_t tensor, const HloShape *shape) {
    assert(hlo_shape_is_array(shape)); /* spmd_rule_new() has looked */
    rule->tensors[tensor].shape = shape;
    rule->tensors[tensor].dims = HLO_ARENA_NEW(rule->arena, SpmdDimFactors, shape->rank);
}

// Dynamic dimensions are not sharded. Their sizes are known at run time only, and each device would need its
// neighbours'.
static void keep_dynamic_whole(SpmdRule *rule) {
    for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
        const SpmdTensor *tensor = &rule->tensors[t];
        for (int32_t d = 0; tensor->shape->dynamic && d < tensor->shape->rank; d++) {
            if (!tensor->shape->dynamic[d]) continue;
            for (int32_t i = 0; i < tensor->dims[d].count; i++) {
                rule->factors.items[tensor->dims[d].items[i]].kind = SPMD_REPLICATE;
            }
        }
    }
}

// NULL where some operand or result is no array: a rule speaks of dimensions.
SpmdRule *spmd_rule_new(HloArena *arena, const HloInstruction *op) {
    const SpmdOp *row = spmd_op(op->opcode);
    int32_t results = array_leaves(op->shape);
    if (!row->rule || results < 0) return NULL;
    for (int32_t i = 0; i < op->operand_count; i++) {
        if (!hlo_shape_is_array(op->operands[i]->shape)) return NULL;
    }
    SpmdRule *rule = HLO_ARENA_NEW(arena, SpmdRule, 1);
    rule->arena = arena;
    rule->op = op;
    rule->operand_count = op->operand_count;
    rule->result_count = results;
    rule->reduction = HLO_OPCODE_COUNT;
    rule->tensors = HLO_ARENA_NEW(arena, SpmdTensor, op->operand_count + results);
    for (int32_t i = 0; i < op->operand_count; i++) set_tensor(rule, i, op->operands[i]->shape);
    for (int32_t i = 0; i < results; i++) set_tensor(rule, op->operand_count + i, hlo_shape_leaf(op->shape, i));
    row->rule(rule, op);
    keep_dynamic_whole(rule);
    return rule;
}

int32_t spmd_rule_factor(SpmdRule *rule, SpmdFactorKind kind, int64_t size) {
    assert(size >= 0); /* of a dimension, or of a part of one */
    SpmdFactor factor = {.kind = kind, .size = size};
    hlo_vector_push(rule->arena, &rule->factors, factor);
    return (int32_t)rule->factors.count - 1;
}

// Factors of a dimension are given major first. Copying the list keeps it as long as it is; lists have one to three
// items.
void spmd_rule_map(SpmdRule *rule, int32_t tensor, int64_t dim, int32_t factor) {
    assert(tensor >= 0 && tensor < spmd_rule_tensors(rule));     /* operands, then results */
    assert(dim >= 0 && dim < rule->tensors[tensor].shape->rank); /* one of its dimensions */
    assert(factor >= 0 && factor < rule->factors.count);         /* made before it is used */
    SpmdDimFactors *factors = &rule->tensors[tensor].dims[dim];
    int32_t *items = HLO_ARENA_NEW(rule->arena, int32_t, factors->count + 1);
    if (factors->count) memcpy(items, factors->items, (size_t)factors->count * sizeof(*items));
    items[factors->count] = factor;
    factors->items = items;
    factors->count++;
    if (factors->count < 2) return;
    for (int32_t i = 0; i < factors->count; i++) rule->factors.items[items[i]].exact = true;
}

void spmd_rule_batches(SpmdRule *rule, int32_t whole) {
    int32_t result = spmd_rule_result(rule, 0);
    int32_t batch = rule->tensors[result].shape->rank - whole;
    assert(whole >= 0 && batch >= 0); /* of its dimensions */
    for (int32_t d = 0; d < batch; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, rule->tensors[result].shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}

bool spmd_type_has_zero(HloType type) {
    return type != HLO_F8E8M0FNU;
}

// Both parameters must be the operands of the root, in either order.
// HLO_OPCODE_COUNT for reducers that are no plain binary op: partial results of theirs cannot be combined by a
// collective.
HloOpcode spmd_rule_combining(HloOpcode opcode, HloType type) {
    switch (opcode) {
        case HLO_OP_ADD: return spmd_type_has_zero(type) ? opcode : HLO_OPCODE_COUNT;
        case HLO_OP_MULTIPLY:
        case HLO_OP_MINIMUM:
        case HLO_OP_MAXIMUM:
        case HLO_OP_AND:
        case HLO_OP_OR:
        case HLO_OP_XOR: return opcode;
        default: return HLO_OPCODE_COUNT;
    }
}

HloOpcode spmd_rule_combiner(const HloComputation *reducer) {
    return spmd_rule_combining(hlo_computation_binary_opcode(reducer), reducer->root->shape->type);
}

// The op that puts parts together of which all but one are zero.
HloOpcode spmd_rule_joiner(HloType type) {
    if (type == HLO_PRED) return HLO_OP_OR;
    return spmd_type_has_zero(type) ? HLO_OP_ADD : HLO_OP_MAXIMUM;
}

// How many of `axes` from `first` on fit a factor: all of them, or those that divide it if it must be exact. *left is
// the remainder of the factor's size after those axes; 1 means that it is sharded into single elements.
static int32_t fitting(const SpmdFactor *factor, const SpmdMesh *mesh, const SpmdAxes *axes, int32_t first,
                       int64_t *left) {
    *left = factor->size;
    int32_t count = 0;
    assert(first >= 0 && first <= axes->count); /* where the last factor ended */
    while (first + count < axes->count) {
        int64_t size = mesh->atoms[axes->items[first + count]].size;
        if (factor->exact && *left % size) break;
        *left /= size;
        count++;
    }
    return count;
}

// True of nearly all dimensions: those of one factor that takes any axes.
static bool is_plain(const SpmdRule *rule, const SpmdDimFactors *list) {
    return list->count == 1 && !rule->factors.items[list->items[0]].exact;
}

// False when some axes of the tensor's sharding match no factor: the tensor is then resharded.
int32_t spmd_dim_of_factor(const SpmdTensor *tensor, int32_t factor) {
    for (int32_t d = 0; d < tensor->shape->rank; d++) {
        if (spmd_only_factor(tensor, d) == factor) return d;
    }
    return -1;
}

bool spmd_rule_project(const SpmdRule *rule, const SpmdMesh *mesh, int32_t tensor, const SpmdSharding *sharding,
                       SpmdAxes *factors) {
    assert(sharding->rank == rule->tensors[tensor].shape->rank); /* of that tensor */
    bool complete = true;
    for (int32_t dim = 0; dim < sharding->rank; dim++) {
        const SpmdAxes *axes = &sharding->dims[dim];
        const SpmdDimFactors *list = &rule->tensors[tensor].dims[dim];
        if (!axes->count) continue;
        if (is_plain(rule, list)) {
            factors[list->items[0]] = *axes;
            continue;
        }
        int32_t at = 0;
        for (int32_t i = 0; i < list->count && at < axes->count; i++) {
            int64_t left;
            int32_t count = fitting(&rule->factors.items[list->items[i]], mesh, axes, at, &left);
            SpmdAxes part = spmd_axes_tail(axes, at);
            factors[list->items[i]] = spmd_axes_head(&part, count);
            at += count;
            if (left != 1) break;
        }
        complete &= at == axes->count;
    }
    return complete;
}

// Removes axes from one dimension of several factors; true if there were any to remove. Once a factor keeps more than
// single elements, the minor ones after it lose all of theirs.
static bool resolve_dim(const SpmdRule *rule, const SpmdMesh *mesh, const SpmdDimFactors *list, SpmdAxes *factors) {
    bool changed = false, complete = true;
    for (int32_t i = 0; i < list->count; i++) {
        int64_t left;
        SpmdAxes *axes = &factors[list->items[i]];
        int32_t count = fitting(&rule->factors.items[list->items[i]], mesh, axes, 0, &left);
        if (!complete) count = 0;
        changed |= count != axes->count;
        *axes = spmd_axes_head(axes, count);
        complete &= left == 1;
    }
    return changed;
}

// Repeats until nothing changes, because a factor that loses axes in one tensor breaks the condition for a minor factor
// of another. It ends, because every pass removes axes; there are seldom more than two passes.
void spmd_rule_resolve(const SpmdRule *rule, const SpmdMesh *mesh, SpmdAxes *factors) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
            for (int32_t d = 0; d < rule->tensors[t].shape->rank; d++) {
                const SpmdDimFactors *list = &rule->tensors[t].dims[d];
                if (list->count > 1) changed |= resolve_dim(rule, mesh, list, factors);
            }
        }
    }
}

// The inverse of projecting, for one dimension.
SpmdAxes spmd_rule_dim_axes(const SpmdRule *rule, const SpmdMesh *mesh, int32_t tensor, int64_t dim,
                            const SpmdAxes *factors) {
    assert(dim >= 0 && dim < rule->tensors[tensor].shape->rank); /* one of its dimensions */
    SpmdAxes axes = {0};
    const SpmdDimFactors *list = &rule->tensors[tensor].dims[dim];
    if (is_plain(rule, list)) return factors[list->items[0]];
    for (int32_t i = 0; i < list->count; i++) {
        int64_t left;
        const SpmdAxes *wanted = &factors[list->items[i]];
        int32_t count = fitting(&rule->factors.items[list->items[i]], mesh, wanted, 0, &left);
        SpmdAxes head = spmd_axes_head(wanted, count);
        spmd_axes_append(&axes, &head);
        if (left != 1) break;
    }
    return axes;
}

// Axes that a dimension cannot express are left out (spmd_rule_dim_axes()).
SpmdSharding *spmd_rule_sharding(const SpmdRule *rule, HloArena *arena, const SpmdMesh *mesh, int32_t tensor,
                                 const SpmdAxes *factors, SpmdAtomSet manual) {
    SpmdSharding *sharding = spmd_sharding_new(arena, rule->tensors[tensor].shape->rank, manual);
    for (int32_t dim = 0; dim < sharding->rank; dim++) {
        sharding->dims[dim] = spmd_rule_dim_axes(rule, mesh, tensor, dim, factors);
    }
    return sharding;
}
