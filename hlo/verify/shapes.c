// SPDX-License-Identifier: Apache-2.0
// Written shapes against inferred ones, and layouts.
//
// Shapes are inferred anew from the operands and must agree with what is written. Agreement leaves two freedoms,
// because other compilers' passes use them in place: the precision of floats, and how much is known of dynamic
// dimensions.
#include <assert.h>

#include "hlo/ir/infer_support.h"
#include "hlo/verify/internal.h"

// Orders are permutations of the dimensions, tiles have a size that can be counted with.
static HloStatus check_layout(HloVerifier *verifier, const HloShape *shape) {
    assert(shape->layout && hlo_shape_is_array(shape));
    const HloLayout *layout = shape->layout;
    HLO_VERIFY_FAIL_IF(layout->minor_to_major.count != shape->rank, "the layout of %s orders %lld dimensions",
                       hlo_verify_shape_text(verifier, shape), (long long)layout->minor_to_major.count);
    HLO_TRY(hlo_infer_check_dimensions(verifier->arena, layout->minor_to_major, shape->rank, "layout"));
    for (int64_t i = 0; i < layout->tile_count; i++) {
        int64_t elements = 1;
        for (int64_t d = 0; d < layout->tiles[i].count; d++) {
            int64_t size = layout->tiles[i].items[d];
            HLO_VERIFY_FAIL_IF(size < 1 && size != HLO_TILE_COMBINE, "a tile of size %lld", (long long)size);
            // Sizes are rounded up to tiles and multiplied: nobody behind looks for overflow.
            bool fits = size == HLO_TILE_COMBINE || !__builtin_mul_overflow(elements, size, &elements);
            HLO_VERIFY_FAIL_IF(!fits || elements > HLO_LARGEST_STEP, "a tile of more than 2^46 elements");
        }
    }
    HLO_VERIFY_FAIL_IF(layout->memory_space < 0, "memory space %lld", (long long)layout->memory_space);
    return HLO_SUCCESS;
}

// Leaf by leaf.
HloStatus hlo_verify_layouts(HloVerifier *verifier, const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        for (int32_t i = 0; i < shape->element_count; i++) HLO_TRY(hlo_verify_layouts(verifier, shape->elements[i]));
        return HLO_SUCCESS;
    }
    if (!hlo_shape_is_array(shape)) return HLO_SUCCESS;
    HLO_TRY(hlo_shape_check_dims(shape->type, shape->dims, shape->rank));
    return shape->layout ? check_layout(verifier, shape) : HLO_SUCCESS;
}

// True when a written shape may stand where another one was inferred: the same, but for the precision of floats (which
// passes of other compilers change in place) and for how much is known of dynamic dimensions.
static bool agrees(const HloShape *inferred, const HloShape *written) {
    if (hlo_shape_equal(inferred, written, HLO_COMPARE_IGNORE_LAYOUT)) return true;
    return hlo_shapes_mix(inferred, written);
}

HloStatus hlo_verify_shape(HloVerifier *verifier, const HloInstruction *instruction) {
    assert(verifier->arena && verifier->module);
    HLO_VERIFY_FAIL_IF(!instruction->shape, "has no shape");
    HLO_TRY(hlo_verify_layouts(verifier, instruction->shape));
    const HloInferRequest request = hlo_infer_request_of(verifier->arena, instruction);
    const HloShape *inferred;
    HLO_TRY(hlo_infer_shape(&request, &inferred));
    HLO_VERIFY_FAIL_IF(!agrees(inferred, instruction->shape), "%s: the shape must be %s, not %s",
                       hlo_op_text(instruction->opcode), hlo_verify_shape_text(verifier, inferred),
                       hlo_verify_shape_text(verifier, instruction->shape));
    return HLO_SUCCESS;
}
