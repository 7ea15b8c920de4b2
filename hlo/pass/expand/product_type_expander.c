// SPDX-License-Identifier: Apache-2.0
// Makes the conversions explicit in products whose result is of another kind than their operands: a float dot of s32
// operands multiplies floats, an s32 dot of float operands adds floats and converts the sum.
#include <assert.h>

#include "hlo/pass/support.h"

// Converts the operands to the type in which they are multiplied, and the product from it to the result's type.
static bool spell_out(HloInstruction *product, const HloPassEnv *env) {
    (void)env;
    if (!hlo_product_converts(product) || !hlo_pass_may_replace(product)) return false;
    const HloType type =
        hlo_product_type(product->operands[0]->shape->type, product->operands[1]->shape->type, product->shape->type);
    HloInstruction *operands[2];
    for (int k = 0; k < 2; k++) {
        HloInstruction *side = product->operands[k];
        operands[k] = hlo_product_converts_side(side->shape->type, type) ? hlo_pass_convert(product, side, type) : side;
    }
    HloInstruction *plain = hlo_pass_make(product, &(HloBuildRequest){.opcode = product->opcode,
                                                                      .operands = operands,
                                                                      .operand_count = 2,
                                                                      .attributes = product->attributes,
                                                                      .type = type});
    return hlo_pass_replace(product, hlo_pass_convert(product, plain, product->shape->type));
}

HloStatus hlo_pass_product_type_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, spell_out, changed);
}
