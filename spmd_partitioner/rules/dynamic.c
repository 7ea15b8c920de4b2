// SPDX-License-Identifier: Apache-2.0
// Dynamic slices and updates: dimensions taken whole are local, the others are indexed by run-time values.
#include "spmd_partitioner/emit.h"

static void dynamic_slice_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *operand = op->operands[0]->shape;
    for (int32_t d = 0; d < operand->rank; d++) {
        if (operand->dims[d] != op->shape->dims[d]) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, operand->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}

static void dynamic_slice_adjust(const SpmdRule *rule, HloArena *arena, void *attributes,
                                 const HloShape *const *operands, const HloShape *result) {
    HloDynamicSliceAttributes *slice = attributes;
    (void)rule;
    (void)operands;
    slice->sizes = hlo_ints(arena, result->dims, result->rank);
}
const SpmdOp spmd_op_dynamic_slice = {.name = "dynamic-slice", .rule = dynamic_slice_rule,
                                      .adjust = dynamic_slice_adjust};

static void dynamic_update_slice_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *operand = op->operands[0]->shape, *update = op->operands[1]->shape;
    for (int32_t d = 0; d < operand->rank; d++) {
        if (operand->dims[d] != update->dims[d]) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, operand->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, 1, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}
const SpmdOp spmd_op_dynamic_update_slice = {.name = "dynamic-update-slice", .rule = dynamic_update_slice_rule};
