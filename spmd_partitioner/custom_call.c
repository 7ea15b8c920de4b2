// SPDX-License-Identifier: Apache-2.0
#include "spmd_partitioner/custom_call.h"

#include <string.h>

#include "spmd_partitioner/sdy.h"

// The registry: one row a target.
static const struct {
    const char *target;
    SpmdCustomCall kind;
} targets[] = {
    {"Sharding", SPMD_CALL_IDENTITY},
    {"xla.sdy.FuncResultSharding", SPMD_CALL_IDENTITY},
    {"xla.sdy.PropagationBarrier", SPMD_CALL_IDENTITY},
    {"annotate_device_placement", SPMD_CALL_IDENTITY},
    {"MoveToHost", SPMD_CALL_IDENTITY},
    {"MoveToDevice", SPMD_CALL_IDENTITY},
    {"LayoutConstraint", SPMD_CALL_IDENTITY},
    {"SPMDFullToShardShape", SPMD_CALL_FULL_TO_SHARD},
    {"xla.sdy.GlobalToLocalShape", SPMD_CALL_FULL_TO_SHARD},
    {"SPMDShardToFullShape", SPMD_CALL_SHARD_TO_FULL},
    {"xla.sdy.LocalToGlobalShape", SPMD_CALL_SHARD_TO_FULL},
    {"mhlo.erf", SPMD_CALL_ELEMENTWISE},
    {"mhlo.tan", SPMD_CALL_ELEMENTWISE},
    {"mhlo.sinh", SPMD_CALL_ELEMENTWISE},
    {"mhlo.cosh", SPMD_CALL_ELEMENTWISE},
    {"mhlo.asin", SPMD_CALL_ELEMENTWISE},
    {"mhlo.acos", SPMD_CALL_ELEMENTWISE},
    {"mhlo.atan", SPMD_CALL_ELEMENTWISE},
    {"mhlo.topk", SPMD_CALL_TOPK},
    {"TopK", SPMD_CALL_TOPK},
};

SpmdCustomCall spmd_custom_call_kind(const HloInstruction *op) {
    if (!hlo_is(op, HLO_OP_CUSTOM_CALL)) return SPMD_CALL_UNKNOWN;
    const char *target = HLO_ATTRIBUTES(op, CustomCall)->target;
    for (size_t i = 0; target && i < HLO_COUNT_OF(targets); i++) {
        if (!strcmp(target, targets[i].target)) return targets[i].kind;
    }
    return SPMD_CALL_UNKNOWN;
}

static const SpmdArray *array_of(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf) {
    return spmd_plan_array(plan, op, leaf);
}

// The axes that a call names itself, or those of the annotation with them.
static SpmdAtomSet named_manual(const SpmdPlan *plan, const HloInstruction *op) {
    const char *sdy = hlo_instruction_frontend_attribute(op, "xla.sdy.manual_axes");
    SpmdAtomSet axes = 0;
    if (sdy && spmd_sdy_manual_axes(plan->mesh, sdy, &axes)) return axes;
    SpmdAnnotation annotation;
    if (!op->sharding || op->sharding->kind == HLO_SHARDING_TUPLE) return 0;
    HloStatus status = spmd_annotation_from_hlo(plan->arena, plan->mesh, op->sharding, op->shape->rank, &annotation);
    hlo_status_free(status);
    return status ? 0 : annotation.sharding->manual;
}

// Adds axes to an array; true if that was news.
static bool mark(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf, SpmdAtomSet axes) {
    SpmdSharding *sharding = array_of(plan, op, leaf)->sharding;
    bool news = (axes & ~sharding->manual) != 0;
    sharding->manual |= axes;
    return news;
}

static SpmdAtomSet manual_of_operands(const SpmdPlan *plan, const HloInstruction *op) {
    SpmdAtomSet axes = 0;
    for (int32_t i = 0; i < op->operand_count; i++) {
        int64_t leaves = hlo_shape_leaf_count(op->operands[i]->shape);
        for (int64_t k = 0; k < leaves; k++) axes |= array_of(plan, op->operands[i], k)->sharding->manual;
    }
    return axes;
}

static bool mark_all(const SpmdPlan *plan, const HloInstruction *op, SpmdAtomSet axes) {
    bool news = false;
    int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < leaves; i++) news |= mark(plan, op, i, axes);
    return news;
}

// Tuples pass each element's axes on by sharing arrays; everything else takes those of all its operands.
static bool mark_instruction(const SpmdPlan *plan, const HloInstruction *op) {
    bool news = false;
    SpmdAtomSet axes = manual_of_operands(plan, op);
    if (spmd_custom_call_kind(op) == SPMD_CALL_FULL_TO_SHARD) return mark_all(plan, op, axes | named_manual(plan, op));
    if (spmd_custom_call_kind(op) == SPMD_CALL_SHARD_TO_FULL) return false;
    if (hlo_is(op, HLO_OP_TUPLE) || hlo_is(op, HLO_OP_GET_TUPLE_ELEMENT)) return false;
    if (!axes) return false;
    if (spmd_is_flow_op(op->opcode)) {
        for (int32_t c = 0; c < op->called_count; c++) {
            for (int64_t p = 0; p < op->called[c]->parameters.count; p++) {
                news |= mark_all(plan, op->called[c]->parameters.items[p], axes);
            }
        }
    }
    return mark_all(plan, op, axes) || news;
}

void spmd_plan_manual(SpmdPlan *plan) {
    bool any = false;
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            any |= spmd_custom_call_kind(at) == SPMD_CALL_FULL_TO_SHARD;
        }
    }
    while (any) {
        any = false;
        for (int64_t c = plan->computation_count - 1; c >= 0; c--) {
            for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) any |= mark_instruction(plan, at);
        }
    }
}

// The sharding at the border that the call's own attribute or the operand's and result's annotations give.
static const SpmdSharding *declared(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf, int64_t rank) {
    bool entering = spmd_custom_call_kind(op) == SPMD_CALL_FULL_TO_SHARD;
    const char *text = hlo_instruction_frontend_attribute(op, entering ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings");
    SpmdAnnotation annotation;
    if (text && spmd_sdy_sharding(plan->arena, plan->mesh, text, leaf, rank, &annotation)) return annotation.sharding;
    if (entering) return array_of(plan, op->operands[leaf], 0)->sharding;
    return array_of(plan, op, leaf)->sharding;
}

HloStatus spmd_manual_border(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf, SpmdAtomSet *manual,
                             SpmdSharding **global) {
    bool entering = spmd_custom_call_kind(op) == SPMD_CALL_FULL_TO_SHARD;
    const HloShape *inside = entering ? hlo_shape_leaf(op->shape, leaf) : op->operands[leaf]->shape;
    const HloShape *outside = entering ? op->operands[leaf]->shape : hlo_shape_leaf(op->shape, leaf);
    *manual = named_manual(plan, op);
    if (!entering && !*manual) {
        *manual = array_of(plan, op->operands[leaf], 0)->sharding->manual & ~array_of(plan, op, leaf)->sharding->manual;
    }
    HLO_FAIL_IF(inside->rank != outside->rank, HLO_INVALID_ARGUMENT, "instruction %%%s: rank changes at a manual region",
                op->name);
    const SpmdSharding *said = declared(plan, op, leaf, outside->rank);
    *global = spmd_sharding_copy(plan->arena, said);
    for (int32_t dim = 0; dim < outside->rank; dim++) {
        const SpmdAxes *axes = &said->dims[dim];
        int32_t count = 0;
        while (count < axes->count && (*manual >> axes->items[count] & 1)) count++;
        SpmdAxes head = spmd_axes_head(axes, count), tail = spmd_axes_tail(axes, count);
        int64_t parts = spmd_axes_product(plan->mesh, &head);
        HLO_FAIL_IF(spmd_axes_set(&tail) & *manual, HLO_UNIMPLEMENTED,
                    "instruction %%%s: manual axes behind others in dimension %d", op->name, dim);
        HLO_FAIL_IF(inside->dims[dim] * parts != outside->dims[dim], HLO_INVALID_ARGUMENT,
                    "instruction %%%s: dimension %d is %lld inside and %lld outside of a manual region of %lld shards",
                    op->name, dim, (long long)inside->dims[dim], (long long)outside->dims[dim], (long long)parts);
        if (inside->dims[dim] % spmd_axes_product(plan->mesh, &tail)) (*global)->dims[dim] = head;
    }
    return HLO_SUCCESS;
}
