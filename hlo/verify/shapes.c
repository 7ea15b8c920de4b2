// SPDX-License-Identifier: Apache-2.0
// Checks written shapes against inferred ones, and layouts.
//
// Shapes are inferred again from the operands and must agree with the written ones. Two differences are allowed,
// because passes of other compilers change these in place: the precision of floats, and how much is known of dynamic
// dimensions.
#include <assert.h>

#include "hlo/ir/custom_call.h"
#include "hlo/ir/infer/support.h"
#include "hlo/verify/internal.h"

// Checks the entry `index` of the split configuration: a dimension that occurs once, counted from the major one, and
// increasing indices inside of it.
static HloStatus check_split(const HloShape *shape, int64_t index) {
    const HloLayout *layout = shape->layout;
    const HloSplit *split = &layout->splits[index];
    HLO_VERIFY_FAIL_IF(split->dimension < 0 || split->dimension >= shape->rank, "a layout splits dimension %lld of %d",
                       (long long)split->dimension, (int)shape->rank);
    for (int64_t i = 0; i < index; i++)
        HLO_VERIFY_FAIL_IF(layout->splits[i].dimension == split->dimension, "a layout splits dimension %lld twice",
                           (long long)split->dimension);
    const int64_t size = shape->dims[layout->minor_to_major.items[shape->rank - 1 - split->dimension]];
    for (int64_t i = 0; i < split->indices.count; i++) {
        const int64_t at = split->indices.items[i], least = i ? split->indices.items[i - 1] + 1 : 1;
        HLO_VERIFY_FAIL_IF(at < least || (size != HLO_UNBOUNDED && at >= size),
                           "a layout splits dimension %lld, of size %lld, at %lld, which is not between %lld and %lld",
                           (long long)split->dimension, (long long)size, (long long)at, (long long)least,
                           (long long)size - 1);
    }
    return HLO_SUCCESS;
}

// Checks that orders are permutations of the dimensions, and that tiles have sizes whose products do not overflow.
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
            // Sizes are rounded up to tiles and multiplied: no later code checks for overflow.
            bool fits = size == HLO_TILE_COMBINE || !__builtin_mul_overflow(elements, size, &elements);
            HLO_VERIFY_FAIL_IF(!fits || elements > HLO_LARGEST_STEP, "a tile of more than 2^46 elements");
        }
    }
    for (int64_t i = 0; i < layout->split_count; i++) HLO_TRY(check_split(shape, i));
    HLO_VERIFY_FAIL_IF(layout->memory_space < 0, "memory space %lld", (long long)layout->memory_space);
    HLO_VERIFY_FAIL_IF(layout->element_size_in_bits < 0, "a layout with elements of %lld bits",
                       (long long)layout->element_size_in_bits);
    HLO_VERIFY_FAIL_IF(layout->tail_padding_alignment < 1, "a layout padded to a multiple of %lld elements",
                       (long long)layout->tail_padding_alignment);
    HLO_VERIFY_FAIL_IF(layout->dynamic_metadata_bytes < 0, "a layout with %lld bytes of metadata",
                       (long long)layout->dynamic_metadata_bytes);
    return HLO_SUCCESS;
}

// Checks leaf by leaf.
HloStatus hlo_verify_layouts(HloVerifier *verifier, const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        for (int32_t i = 0; i < shape->element_count; i++) HLO_TRY(hlo_verify_layouts(verifier, shape->elements[i]));
        return HLO_SUCCESS;
    }
    if (!hlo_shape_is_array(shape)) return HLO_SUCCESS;
    HLO_TRY(hlo_shape_check_dims(shape->type, shape->dims, shape->rank));
    return shape->layout ? check_layout(verifier, shape) : HLO_SUCCESS;
}

// True for ops that pass arrays on unchanged: they cannot change a precision, so the shapes are equal, as in XLA's
// verifier.
static bool passes_on(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_BITCAST:
        case HLO_OP_CALL:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_CONSTANT:
        case HLO_OP_COPY_DONE:
        case HLO_OP_COPY_START:
        case HLO_OP_CUSTOM_CALL:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_INFEED:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_OUTFEED:
        case HLO_OP_PARAMETER:
        case HLO_OP_RECV:
        case HLO_OP_RECV_DONE:
        case HLO_OP_SEND:
        case HLO_OP_SEND_DONE:
        case HLO_OP_TUPLE:
        case HLO_OP_WHILE: return true;
        default: return hlo_op_is(opcode, HLO_OP_IS_ASYNC_DONE);
    }
}

static bool has_float(const HloShape *shape) {
    for (int32_t i = 0; hlo_shape_is_tuple(shape) && i < shape->element_count; i++)
        if (has_float(shape->elements[i])) return true;
    return hlo_type_is_float(shape->type);
}

// True if passes may have changed the precision of the result in place. Only floats from float operands have a
// precision to change: the parts and the magnitude of a complex number have the type of its parts.
static bool precision_is_free(const HloInstruction *instruction) {
    if (passes_on(instruction->opcode)) return false;
    for (int64_t i = 0; i < instruction->operand_count; i++)
        if (has_float(instruction->operands[i]->shape)) return true;
    return false;
}

// True if the written shape is compatible with the inferred one: the same, except for how much is known of dynamic
// dimensions and, if the op leaves it open, for the precision of floats.
static bool agrees(const HloInstruction *instruction, const HloShape *inferred) {
    const HloShape *written = instruction->shape;
    if (hlo_shape_equal(inferred, written, HLO_COMPARE_IGNORE_LAYOUT) || hlo_shapes_agree(inferred, written))
        return true;
    return precision_is_free(instruction) && hlo_shapes_mix(inferred, written);
}

HloStatus hlo_verify_shape(HloVerifier *verifier, const HloInstruction *instruction) {
    assert(verifier->arena && verifier->module);
    HLO_VERIFY_FAIL_IF(!instruction->shape, "has no shape");
    HLO_TRY(hlo_verify_layouts(verifier, instruction->shape));
    const HloInferRequest request = hlo_infer_request_of(verifier->arena, instruction);
    const HloShape *inferred;
    HLO_TRY(hlo_infer_shape(&request, &inferred));
    HLO_VERIFY_FAIL_IF(!agrees(instruction, inferred), "%s: the shape must be %s, not %s",
                       hlo_op_text(instruction->opcode), hlo_verify_shape_text(verifier, inferred),
                       hlo_verify_shape_text(verifier, instruction->shape));
    // Inference takes a custom call's shape as written: only the target interprets it.
    return hlo_is(instruction, HLO_OP_CUSTOM_CALL) ? hlo_custom_call_check(instruction) : HLO_SUCCESS;
}
