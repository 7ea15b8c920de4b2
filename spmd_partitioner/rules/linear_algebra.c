// SPDX-License-Identifier: Apache-2.0
// Factorisations, solves and transforms: batch dimensions are local, those that the op works on are needed whole.
#include "spmd_partitioner/emit.h"

// Leading dimensions of all tensors are batch; the last `whole` of them are not.
static void batch_rule(SpmdRule *rule, int32_t whole) {
    int32_t result = spmd_rule_result(rule, 0);
    int32_t batch = rule->tensors[result].shape->rank - whole;
    for (int32_t d = 0; d < batch; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, rule->tensors[result].shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}

static void cholesky_rule(SpmdRule *rule, const HloInstruction *op) {
    (void)op;
    batch_rule(rule, 2);
}
const SpmdOp spmd_op_cholesky = {.name = "cholesky", .rule = cholesky_rule};

// The right-hand sides are independent of each other too.
static void triangular_solve_rule(SpmdRule *rule, const HloInstruction *op) {
    batch_rule(rule, 2);
    int32_t side = op->shape->rank - (HLO_ATTRIBUTES(op, TriangularSolve)->left_side ? 1 : 2);
    int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[side]);
    spmd_rule_map(rule, 1, side, factor);
    spmd_rule_map(rule, spmd_rule_result(rule, 0), side, factor);
}
const SpmdOp spmd_op_triangular_solve = {.name = "triangular-solve", .rule = triangular_solve_rule};

static void fft_rule(SpmdRule *rule, const HloInstruction *op) {
    batch_rule(rule, (int32_t)HLO_ATTRIBUTES(op, Fft)->length.count);
}
const SpmdOp spmd_op_fft = {.name = "fft", .rule = fft_rule};
