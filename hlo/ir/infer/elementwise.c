// SPDX-License-Identifier: Apache-2.0
// Shape inference of elementwise ops: equal dimensions everywhere, and element types of the kinds that hlo/ops.def
// allows for the op.
#include <assert.h>

#include "hlo/ir/infer/support.h"

// Refuses operand `index` if it is not an array or is of a kind that the op does not accept.
static HloStatus check_kind(const HloInferRequest *request, int64_t index) {
    assert(index >= 0 && index < request->operand_count);
    HLO_TRY(hlo_infer_need_array(request, index));
    const HloShape *shape = request->operands[index];
    HLO_REFUSE_IF(!(hlo_op_info(request->opcode)->kinds & 1 << hlo_type_kind(shape->type)),
                  "operand %lld is %s: the element type %s is not allowed", (long long)index,
                  hlo_shape_message(request->arena, shape), hlo_type_text(shape->type));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_unary(const HloInferRequest *request, const HloShape **result) {
    assert(request->operand_count == 1);
    HLO_TRY(check_kind(request, 0));
    const HloShape *operand = request->operands[0];
    HloType type = operand->type;
    if (request->opcode == HLO_OP_ABS || request->opcode == HLO_OP_REAL || request->opcode == HLO_OP_IMAG) {
        type = hlo_type_real_part(type);
    } else if (request->opcode == HLO_OP_IS_FINITE) {
        type = HLO_PRED;
    }
    *result = hlo_shape_without_layout(request->arena, hlo_shape_with_type(request->arena, operand, type));
    return HLO_SUCCESS;
}

// Infers the common dimensions of all operands from number `first` on; their element types must mix.
static HloStatus common_shape(const HloInferRequest *request, int64_t first, const HloShape **result) {
    assert(first >= 0 && first < request->operand_count);
    HLO_TRY(hlo_infer_need_arrays(request));
    const HloShape *start = request->operands[first];
    bool is_one = true;  // all operands share one shape, as importers create them
    for (int64_t i = first + 1; i < request->operand_count; i++) is_one &= request->operands[i] == start;
    if (is_one) {
        *result = request->hint == start ? start : hlo_shape_without_layout(request->arena, start);
        return HLO_SUCCESS;
    }
    HloDims dims = hlo_dims_of(request->arena, start);
    HloType type = start->type;
    for (int64_t i = first + 1; i < request->operand_count; i++) {
        const HloShape *shape = request->operands[i];
        HLO_REFUSE_IF(!hlo_types_mix(type, shape->type), "operands of element types %s and %s", hlo_type_text(type),
                      hlo_type_text(shape->type));
        type = hlo_higher_type(type, shape->type);
        HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, shape, i));
    }
    return hlo_dims_shape(request->arena, type, &dims, result);
}

HloStatus hlo_infer_binary(const HloInferRequest *request, const HloShape **result) {
    assert(request->operand_count == 2);
    HLO_TRY(check_kind(request, 0));
    HLO_TRY(check_kind(request, 1));
    HLO_TRY(common_shape(request, 0, result));
    if (request->opcode != HLO_OP_COMPLEX) return HLO_SUCCESS;
    const HloType type = request->operands[0]->type, other = request->operands[1]->type;
    HLO_REFUSE_IF(type != other, "parts of element types %s and %s", hlo_type_text(type), hlo_type_text(other));
    HLO_REFUSE_IF(type != HLO_F32 && type != HLO_F64, "there is no complex type with parts of %s", hlo_type_text(type));
    *result = hlo_shape_with_type(request->arena, *result, type == HLO_F32 ? HLO_C64 : HLO_C128);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_compare(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_COMPARE);
    assert(request->operand_count == 2);
    int32_t type = HLO_INFER_ATTRIBUTES(request, Compare)->type;
    HLO_TRY(common_shape(request, 0, result));
    HloTypeKind kind = hlo_type_kind((*result)->type);
    bool is_float = kind == HLO_KIND_FLOAT;
    bool fits = type == HLO_ComparisonType_DEFAULT ||
                (type == HLO_ComparisonType_FLOAT && (is_float || kind == HLO_KIND_COMPLEX)) ||
                (type == HLO_ComparisonType_TOTALORDER && is_float) ||
                (type == HLO_ComparisonType_SIGNED && kind == HLO_KIND_SIGNED) ||
                (type == HLO_ComparisonType_UNSIGNED && (kind == HLO_KIND_UNSIGNED || kind == HLO_KIND_PRED));
    HLO_REFUSE_IF(!fits, "comparison type %s does not suit elements of type %s",
                  hlo_enum_message(&hlo_enum_ComparisonType, type), hlo_type_text((*result)->type));
    *result = hlo_shape_with_type(request->arena, *result, HLO_PRED);
    return HLO_SUCCESS;
}

// The operand's dimensions with the element type of the hint.
static HloStatus retyped(const HloInferRequest *request, const HloShape **result) {
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_TRY(hlo_infer_need_hint(request, true));
    const HloShape *plain = hlo_shape_without_layout(request->arena, request->operands[0]);
    *result = hlo_shape_with_type(request->arena, plain, request->hint->type);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_convert(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CONVERT);
    assert(request->operand_count == 1);
    return retyped(request, result);
}

HloStatus hlo_infer_stochastic_convert(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_STOCHASTIC_CONVERT);
    assert(request->operand_count == 2);
    HLO_TRY(retyped(request, result));
    HLO_TRY(hlo_infer_need_array(request, 1));
    const HloShape *operand = request->operands[0], *random = request->operands[1];
    HLO_REFUSE_IF(!hlo_type_is_float(operand->type), "operand 0 must be floating point, not %s",
                  hlo_shape_message(request->arena, operand));
    HLO_REFUSE_IF(hlo_type_kind(random->type) != HLO_KIND_UNSIGNED ||
                      hlo_type_info(random->type)->bits != hlo_type_info(operand->type)->bits,
                  "random bits must be unsigned and %d bits wide, not %s", hlo_type_info(operand->type)->bits,
                  hlo_shape_message(request->arena, random));
    HloDims dims = hlo_dims_of(request->arena, operand);
    return hlo_infer_merge_dims(request->arena, &dims, random, 1);
}

// Bits are regrouped in the innermost dimension: f32[2,3] <-> u8[2,3,4], and f32[2,3] <-> s32[2,3].
HloStatus hlo_infer_bitcast_convert(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_BITCAST_CONVERT);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_TRY(hlo_infer_need_hint(request, true));
    const HloShape *operand = request->operands[0], *hint = request->hint;
    HLO_REFUSE_IF(hlo_type_is_complex(operand->type) != hlo_type_is_complex(hint->type),
                  "cannot reinterpret %s as %s: one is complex, the other is not", hlo_type_text(operand->type),
                  hlo_type_text(hint->type));
    int64_t from = hlo_type_info(operand->type)->bits, to = hlo_type_info(hint->type)->bits;
    int64_t rank = operand->rank + (from > to) - (from < to);
    HLO_REFUSE_IF(rank < 0, "cannot make a %s from a scalar %s", hlo_type_text(hint->type),
                  hlo_type_text(operand->type));
    int64_t minor = from > to ? from / to : to / from;
    if (from < to) {
        int64_t last = operand->dims[operand->rank - 1];
        HLO_REFUSE_IF(!hlo_sizes_agree(last, minor), "%lld elements of %s make one %s, but the last dimension is %lld",
                      (long long)minor, hlo_type_text(operand->type), hlo_type_text(hint->type), (long long)last);
    }
    HloDims dims = hlo_dims_new(request->arena, rank);
    for (int64_t i = 0; i < rank && i < operand->rank; i++) hlo_dims_take(&dims, i, operand, i);
    if (from > to) dims.sizes[rank - 1] = minor;
    return hlo_dims_shape(request->arena, hint->type, &dims, result);
}

HloStatus hlo_infer_reduce_precision(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_REDUCE_PRECISION);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    const HloReducePrecisionAttributes *attributes = HLO_INFER_ATTRIBUTES(request, ReducePrecision);
    const HloShape *operand = request->operands[0];
    HLO_REFUSE_IF(!hlo_type_is_float(operand->type), "operand 0 must be floating point, not %s",
                  hlo_shape_message(request->arena, operand));
    HLO_REFUSE_IF(attributes->exponent_bits < 1 || attributes->mantissa_bits < 0,
                  "%lld exponent and %lld mantissa bits are not enough", (long long)attributes->exponent_bits,
                  (long long)attributes->mantissa_bits);
    // More bits than the type has change nothing. XLA and StableHLO keep both numbers in 32 bits.
    HLO_REFUSE_IF(attributes->exponent_bits > INT32_MAX || attributes->mantissa_bits > INT32_MAX,
                  "%lld exponent and %lld mantissa bits do not fit in 32 bits", (long long)attributes->exponent_bits,
                  (long long)attributes->mantissa_bits);
    *result = hlo_shape_without_layout(request->arena, operand);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_copy(const HloInferRequest *request, const HloShape **result) {
    *result = hlo_shape_without_layout(request->arena, request->operands[0]);
    return HLO_SUCCESS;
}

// Whether the size of an array in memory follows from its dimensions: that of tiled ones depends on the padding.
static bool has_plain_layout(const HloShape *shape) {
    const HloLayout *layout = shape->layout;
    return !layout || (layout->tile_count == 0 && layout->element_size_in_bits == 0);
}

// Whether two arrays certainly take different numbers of bytes. Elements of less than a byte may be packed or not.
static bool differ_in_bytes(const HloShape *a, const HloShape *b) {
    if (!hlo_shape_is_array(a) || !hlo_shape_is_array(b) || !has_plain_layout(a) || !has_plain_layout(b)) return false;
    if (hlo_shape_is_dynamic(a) || hlo_shape_is_dynamic(b) || hlo_shape_bytes(a) == hlo_shape_bytes(b)) return false;
    return (uint64_t)hlo_shape_elements(a) * (uint64_t)hlo_type_info(a->type)->bits !=
           (uint64_t)hlo_shape_elements(b) * (uint64_t)hlo_type_info(b->type)->bits;
}

HloStatus hlo_infer_bitcast(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_BITCAST);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_hint(request, false));
    HLO_REFUSE_IF((!hlo_shape_is_array(request->operands[0]) || !hlo_shape_is_array(request->hint)) &&
                      !hlo_shape_equal(request->operands[0], request->hint, HLO_COMPARE_IGNORE_LAYOUT),
                  "cannot reinterpret %s as %s", hlo_shape_message(request->arena, request->operands[0]),
                  hlo_shape_message(request->arena, request->hint));
    HLO_REFUSE_IF(differ_in_bytes(request->operands[0], request->hint),
                  "cannot reinterpret %s as %s, which has another number of bytes",
                  hlo_shape_message(request->arena, request->operands[0]),
                  hlo_shape_message(request->arena, request->hint));
    *result = request->hint;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_clamp(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CLAMP);
    assert(request->operand_count == 3);
    HLO_TRY(hlo_infer_need_arrays(request));
    const HloShape *operand = request->operands[1];
    HloDims dims = hlo_dims_of(request->arena, operand);
    for (int64_t i = 0; i < 3; i += 2) {
        const HloShape *bound = request->operands[i];
        HLO_REFUSE_IF(!hlo_types_mix(bound->type, operand->type), "bound %s of element type %s for elements of type %s",
                      i == 0 ? "min" : "max", hlo_type_text(bound->type), hlo_type_text(operand->type));
        if (bound->rank > 0) HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, bound, i));
    }
    return hlo_dims_shape(request->arena, operand->type, &dims, result);
}

HloStatus hlo_infer_select(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SELECT);
    assert(request->operand_count == 3);
    const HloShape *predicate = request->operands[0];
    HLO_REFUSE_IF(predicate->type != HLO_PRED, "operand 0 must be of type pred, not %s",
                  hlo_shape_message(request->arena, predicate));
    bool structures = predicate->rank == 0 && !hlo_shape_is_array(request->operands[1]);
    if (structures) {
        HLO_REFUSE_IF(!hlo_shape_equal(request->operands[1], request->operands[2], HLO_COMPARE_IGNORE_LAYOUT),
                      "cannot select between %s and %s", hlo_shape_message(request->arena, request->operands[1]),
                      hlo_shape_message(request->arena, request->operands[2]));
        *result = hlo_shape_without_layout(request->arena, request->operands[1]);
        return HLO_SUCCESS;
    }
    HLO_TRY(common_shape(request, 1, result));
    if (predicate->rank == 0) return HLO_SUCCESS;
    HloDims dims = hlo_dims_of(request->arena, *result);
    HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, predicate, 0));
    return hlo_dims_shape(request->arena, (*result)->type, &dims, result);
}
