// SPDX-License-Identifier: Apache-2.0
// Expansion of ops whose meaning is a formula of other ops (hlo/transform/expansions.h).
#ifndef MESHLO_HLO_PASS_EXPAND_FORMULA_H_
#define MESHLO_HLO_PASS_EXPAND_FORMULA_H_

#include "hlo/pass/support.h"
#include "hlo/transform/expansions.h"

// Replaces `op` by its formula and sets *changed. Errors as hlo_write_out().
static inline HloStatus hlo_pass_replace_by_formula(HloInstruction *op, const HloPassEnv *env, bool *changed) {
    HloComputation *formula = NULL;
    HLO_TRY(hlo_write_out(op, env->scratch, &formula));
    HloInstruction *result = hlo_pass_inline(op, formula, op->operands, env->scratch);
    hlo_computation_remove(formula);
    *changed |= hlo_pass_replace(op, result);
    return HLO_SUCCESS;
}

#endif
