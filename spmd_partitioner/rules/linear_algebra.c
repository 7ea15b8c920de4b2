// SPDX-License-Identifier: Apache-2.0
// Factorisations and solves: batch dimensions are local, those that the op works on are needed whole.
#include "spmd_partitioner/emit.h"

static void cholesky_rule(SpmdRule *rule, const HloInstruction *op) {
    (void)op;
    spmd_rule_batches(rule, 2);
}
const SpmdOp spmd_op_cholesky = {.name = "cholesky", .rule = cholesky_rule};

// The right-hand sides are independent of each other too.
static void triangular_solve_rule(SpmdRule *rule, const HloInstruction *op) {
    spmd_rule_batches(rule, 2);
    int32_t side = op->shape->rank - (HLO_ATTRIBUTES(op, TriangularSolve)->left_side ? 1 : 2);
    int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[side]);
    spmd_rule_map(rule, 1, side, factor);
    spmd_rule_map(rule, spmd_rule_result(rule, 0), side, factor);
}
const SpmdOp spmd_op_triangular_solve = {.name = "triangular-solve", .rule = triangular_solve_rule};
