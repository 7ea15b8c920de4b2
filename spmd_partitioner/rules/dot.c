// SPDX-License-Identifier: Apache-2.0
// Matrix products: batch and free dimensions are local, contracted ones give partial sums.
#include "spmd_partitioner/emit.h"

static void dot_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    const HloShape *lhs = op->operands[0]->shape, *rhs = op->operands[1]->shape;
    int32_t result = spmd_rule_result(rule, 0);
    int64_t at = 0;
    for (int64_t i = 0; i < dot->lhs_batch.count; i++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, lhs->dims[dot->lhs_batch.items[i]]);
        spmd_rule_map(rule, 0, dot->lhs_batch.items[i], factor);
        spmd_rule_map(rule, 1, dot->rhs_batch.items[i], factor);
        spmd_rule_map(rule, result, at++, factor);
    }
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_REDUCE, lhs->dims[dot->lhs_contracting.items[i]]);
        spmd_rule_map(rule, 0, dot->lhs_contracting.items[i], factor);
        spmd_rule_map(rule, 1, dot->rhs_contracting.items[i], factor);
    }
    for (int32_t side = 0; side < 2; side++) {
        const HloShape *shape = side ? rhs : lhs;
        HloInts batch = side ? dot->rhs_batch : dot->lhs_batch;
        HloInts contracting = side ? dot->rhs_contracting : dot->lhs_contracting;
        for (int32_t d = 0; d < shape->rank; d++) {
            if (hlo_ints_contain(batch, d) || hlo_ints_contain(contracting, d)) continue;
            int32_t factor = spmd_rule_factor(rule, SPMD_PASS, shape->dims[d]);
            spmd_rule_map(rule, side, d, factor);
            spmd_rule_map(rule, result, at++, factor);
        }
    }
    rule->reduction = op->shape->type == HLO_PRED ? HLO_OP_OR : HLO_OP_ADD;
}
const SpmdOp spmd_op_dot = {.name = "dot", .rule = dot_rule};
