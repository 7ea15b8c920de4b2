// SPDX-License-Identifier: Apache-2.0
// Expands scaled-dot to the dot of its sides times their scales, in f32 (f64 if a side is f64), by the formula that
// derivatives use too.
//
// Scales are the block formats of "microscaling" types: one scale per block of neighbours along each dimension, whose
// size is the side's divided by the scale's. Repeated over their blocks they multiply element by element, as the op is
// defined; multiplying blocks first and scaling sums would round differently. Narrow floats are exact in f32, and so is
// their product with a power of two. The product is converted to the result's type once, at the end.
#include "hlo/pass/expand/formula.h"

static HloStatus expand(HloInstruction *dot, const HloPassEnv *env, bool *changed) {
    if (!hlo_pass_may_replace(dot)) return HLO_SUCCESS;
    for (int32_t k = 0; k < dot->operand_count; k++)
        if (!hlo_type_is_float(dot->operands[k]->shape->type) || hlo_shape_is_dynamic(dot->operands[k]->shape))
            return HLO_SUCCESS;
    return hlo_pass_replace_by_formula(dot, env, changed);
}

HloStatus hlo_pass_scaled_dot_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));)
        if (i->opcode == HLO_OP_SCALED_DOT) HLO_TRY(expand(i, env, changed));
    return HLO_SUCCESS;
}
