// SPDX-License-Identifier: Apache-2.0
// Sort and top-k: the sorted dimension is needed whole; where another dimension can take its axes, they move there.
#include "spmd_partitioner/emit.h"

static void sort_rule(SpmdRule *rule, const HloInstruction *op) {
    HloInts dimensions = HLO_ATTRIBUTES(op, Sort)->dimensions;
    const HloShape *shape = op->operands[0]->shape;
    for (int32_t d = 0; d < shape->rank; d++) {
        SpmdFactorKind kind = hlo_ints_contain(dimensions, d) ? SPMD_REPLICATE : SPMD_PASS;
        int32_t factor = spmd_rule_factor(rule, kind, shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}
const SpmdOp spmd_op_sort = {.name = "sort", .rule = sort_rule};

static void topk_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *shape = op->operands[0]->shape;
    for (int32_t d = 0; d + 1 < shape->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}
const SpmdOp spmd_op_topk = {.name = "topk", .rule = topk_rule};
