// SPDX-License-Identifier: Apache-2.0
// Expands batch normalisation to plain arithmetic, by the formula that derivatives use too.
#include "hlo/pass/expand/formula.h"

// All operands must have one float type, in which everything is computed: XLA allows mixtures here, but does not
// specify the rounding of intermediate values.
static bool is_known(const HloInstruction *i) {
    const bool is_norm = i->opcode == HLO_OP_BATCH_NORM_TRAINING || i->opcode == HLO_OP_BATCH_NORM_INFERENCE ||
                         i->opcode == HLO_OP_BATCH_NORM_GRAD;
    if (!is_norm || !hlo_pass_may_replace(i)) return false;
    for (int64_t k = 0; k < i->operand_count; k++) {
        const HloShape *shape = i->operands[k]->shape;
        if (shape->type != i->operands[0]->shape->type) return false;
        // Vectors of features are static, and so is x along that dimension.
        const int64_t feature = shape->rank == 1 ? 0 : HLO_ATTRIBUTES(i, BatchNorm)->feature_index;
        if (hlo_shape_dimension_is_dynamic(shape, feature)) return false;
    }
    return true;
}

HloStatus hlo_pass_batch_norm_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        if (is_known(i)) HLO_TRY(hlo_pass_replace_by_formula(i, env, changed));
    }
    return HLO_SUCCESS;
}
