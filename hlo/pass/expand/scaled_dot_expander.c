// SPDX-License-Identifier: Apache-2.0
// Expands scaled-dot to the dot of its sides times their scales, in f32 (f64 if a side is f64).
//
// Scales are the block formats of "microscaling" types: one scale per block of neighbours along each dimension, whose
// size is the side's divided by the scale's. Repeated over their blocks they multiply element by element, as the op is
// defined; multiplying blocks first and scaling sums would round differently.
#include <assert.h>

#include "hlo/pass/support.h"

// The scales, one per block of neighbours, repeated to the sizes of their side.
static HloInstruction *spread(const HloInstruction *like, HloInstruction *scale, HloInts dims) {
    const HloShape *shape = scale->shape;
    if (shape->rank == 0) return hlo_pass_broadcast(like, scale, dims, (HloInts){0});
    assert(shape->rank == dims.count); /* shape inference checks it */
    int64_t *blocks = hlo_pass_ints(like, 2 * dims.count), *mapping = hlo_pass_ints(like, dims.count);
    for (int64_t d = 0; d < dims.count; d++) {
        mapping[d] = 2 * d;
        blocks[2 * d] = shape->dims[d];
        blocks[2 * d + 1] = shape->dims[d] ? dims.items[d] / shape->dims[d] : 1;
    }
    HloInstruction *repeated =
        hlo_pass_broadcast(like, scale, (HloInts){blocks, 2 * dims.count}, (HloInts){mapping, dims.count});
    return hlo_pass_reshape(like, repeated, dims);
}

// One side with its scale applied, in `type`: narrow floats are exact in f32, and so is their product with a power of
// two.
static HloInstruction *scaled(const HloInstruction *like, HloInstruction *side, HloInstruction *scale, HloType type) {
    HloInstruction *numbers = hlo_pass_convert(like, side, type), *scales = hlo_pass_convert(like, scale, type);
    return hlo_pass_binary(like, HLO_OP_MULTIPLY, numbers, spread(like, scales, hlo_shape_dims(side->shape)));
}

// The product is converted to the result's type once, at the end.
static bool expand(HloInstruction *dot) {
    if (!hlo_pass_may_replace(dot)) return false;
    HloType type = HLO_F32;
    for (int32_t k = 0; k < dot->operand_count; k++) {
        if (!hlo_type_is_float(dot->operands[k]->shape->type) || hlo_shape_is_dynamic(dot->operands[k]->shape))
            return false;
        if (dot->operands[k]->shape->type == HLO_F64) type = HLO_F64;
    }
    HloDotAttributes attributes = *HLO_ATTRIBUTES(dot, Dot);
    // A TPU must not round the scaled values like f32 operands of the user's own dots.
    attributes.algorithm = HLO_DotAlgorithm_F32_F32_F32;
    HloInstruction *sides[] = {scaled(dot, dot->operands[0], dot->operands[2], type),
                               scaled(dot, dot->operands[1], dot->operands[3], type)};
    HloInstruction *product = hlo_pass_make(
        dot, &(HloBuildRequest){
                 .opcode = HLO_OP_DOT, .operands = sides, .operand_count = 2, .attributes = &attributes, .type = type});
    return hlo_pass_replace(dot, hlo_pass_convert(dot, product, dot->shape->type));
}

HloStatus hlo_pass_scaled_dot_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        if (i->opcode == HLO_OP_SCALED_DOT) *changed |= expand(i);
    }
    return HLO_SUCCESS;
}
