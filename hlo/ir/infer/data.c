// SPDX-License-Identifier: Apache-2.0
// Shape inference of leaves, random numbers and data movement.
//
//   broadcast      the hint; its dimension dimensions[i] has the size of operand dimension i
//   concatenate    the sum of the sizes along the dimension
//   dynamic-slice  the sizes of the attribute
//   pad            low + size + high + interior * (size - 1)
//   slice          (limit - start - 1) / stride + 1
//   transpose      result dimension i is operand dimension permutation[i]
//
// A dimension of dynamic size stays dynamic only if all of it is taken: a slice of it has a known size.
#include <assert.h>

#include "hlo/ir/infer/support.h"

HloStatus hlo_infer_constant(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CONSTANT);
    const HloLiteral *literal = HLO_INFER_ATTRIBUTES(request, Constant)->literal;
    if (!literal) {
        HLO_TRY(hlo_infer_need_hint(request, false));
        *result = request->hint;
        return HLO_SUCCESS;
    }
    *result = hlo_shape_without_layout(request->arena, literal->shape);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_iota(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_IOTA);
    HLO_TRY(hlo_infer_need_hint(request, true));
    int64_t dimension = HLO_INFER_ATTRIBUTES(request, Iota)->dimension;
    HLO_REFUSE_IF(request->hint->rank == 0, "a scalar has no iota dimension");
    HLO_REFUSE_IF(dimension < 0 || dimension >= request->hint->rank, "iota_dimension %lld of %s", (long long)dimension,
                  hlo_shape_message(request->arena, request->hint));
    HLO_REFUSE_IF(request->hint->type == HLO_PRED, "element type pred is not allowed");
    *result = request->hint;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_parameter(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_PARAMETER);
    HLO_TRY(hlo_infer_need_hint(request, false));
    int64_t number = HLO_INFER_ATTRIBUTES(request, Parameter)->number;
    HLO_REFUSE_IF(number < 0, "parameter number %lld", (long long)number);
    *result = request->hint;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_device_id(const HloInferRequest *request, const HloShape **result) {
    *result = hlo_shape_scalar(request->arena, HLO_U32);
    return HLO_SUCCESS;
}

// Without a hint the result can be inferred only if no dimensions are added.
HloStatus hlo_infer_broadcast(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_BROADCAST);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    const HloShape *operand = request->operands[0], *hint = request->hint;
    HLO_REFUSE_IF(dimensions.count != operand->rank, "%lld dimensions for %s", (long long)dimensions.count,
                  hlo_shape_message(request->arena, operand));
    if (!hint) {
        for (int64_t i = 0; i < dimensions.count; i++) {
            HLO_REFUSE_IF(dimensions.items[i] != i, "the result shape cannot be inferred from dimensions %s",
                          hlo_ints_message(request->arena, dimensions));
        }
        *result = hlo_shape_without_layout(request->arena, operand);
        return HLO_SUCCESS;
    }
    HLO_TRY(hlo_infer_need_hint(request, true));
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dimensions, hint->rank, "dimensions"));
    HLO_REFUSE_IF(!hlo_types_mix(hint->type, operand->type), "elements of type %s from %s", hlo_type_text(hint->type),
                  hlo_type_text(operand->type));
    for (int64_t i = 0; i < dimensions.count; i++) {
        int64_t to = dimensions.items[i];
        HLO_REFUSE_IF(!hlo_sizes_agree(hint->dims[to], operand->dims[i]),
                      "dimension %lld of %s has size %lld, but becomes dimension %lld of size %lld", (long long)i,
                      hlo_shape_message(request->arena, operand), (long long)operand->dims[i], (long long)to,
                      (long long)hint->dims[to]);
    }
    *result = hlo_shape_with_type(request->arena, hint, operand->type);
    return HLO_SUCCESS;
}

// All dimensions except one are merged (a dynamic one agrees with a static one of its bound); along that one sizes are
// added, and the sum is dynamic if any operand's size is.
HloStatus hlo_infer_concatenate(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CONCATENATE);
    HLO_REFUSE_IF(request->operand_count == 0, "nothing to concatenate");
    HLO_TRY(hlo_infer_need_arrays(request));
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    const HloShape *start = request->operands[0];
    HLO_REFUSE_IF(dimensions.count != 1, "%lld dimensions instead of one", (long long)dimensions.count);
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dimensions, start->rank, "dimensions"));
    int64_t along = dimensions.items[0];
    HloDims dims = hlo_dims_of(request->arena, start);
    HloType type = start->type;
    for (int64_t i = 1; i < request->operand_count; i++) {
        const HloShape *shape = request->operands[i];
        HLO_REFUSE_IF(!hlo_types_mix(type, shape->type), "operands of element types %s and %s", hlo_type_text(type),
                      hlo_type_text(shape->type));
        type = hlo_higher_type(type, shape->type);
        int64_t total = dims.sizes[along];
        bool dynamic = dims.dynamic[along];
        if (shape->rank == dims.rank) hlo_dims_take(&dims, along, shape, along);
        HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, shape, i));
        dims.dynamic[along] |= dynamic;
        if (total == HLO_UNBOUNDED || dims.sizes[along] == HLO_UNBOUNDED) {
            dims.sizes[along] = HLO_UNBOUNDED;
        } else {
            HLO_REFUSE_IF(__builtin_add_overflow(dims.sizes[along], total, &dims.sizes[along]),
                          "dimension %lld overflows", (long long)along);
        }
    }
    return hlo_dims_shape(request->arena, type, &dims, result);
}

// True if both have the same number of elements (by bounds), or one is unbounded.
static bool same_elements(const HloShape *a, const HloShape *b) {
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] == HLO_UNBOUNDED) return true;
    }
    for (int32_t i = 0; i < b->rank; i++) {
        if (b->dims[i] == HLO_UNBOUNDED) return true;
    }
    return hlo_shape_elements(a) == hlo_shape_elements(b);
}

HloStatus hlo_infer_reshape(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RESHAPE);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_TRY(hlo_infer_need_hint(request, true));
    const HloShape *operand = request->operands[0], *hint = request->hint;
    int64_t inferred = HLO_INFER_ATTRIBUTES(request, Reshape)->inferred_dimension;
    HLO_REFUSE_IF(!hlo_types_mix(operand->type, hint->type), "elements of type %s from %s", hlo_type_text(hint->type),
                  hlo_type_text(operand->type));
    HLO_REFUSE_IF(inferred != HLO_ABSENT && inferred >= hint->rank, "inferred_dimension %lld of %s",
                  (long long)inferred, hlo_shape_message(request->arena, hint));
    HLO_REFUSE_IF(!same_elements(operand, hint), "%s has %lld elements, %s has %lld",
                  hlo_shape_message(request->arena, operand), (long long)hlo_shape_elements(operand),
                  hlo_shape_message(request->arena, hint), (long long)hlo_shape_elements(hint));
    *result = hlo_shape_with_type(request->arena, hint, operand->type);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_dynamic_reshape(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_DYNAMIC_RESHAPE);
    HLO_REFUSE_IF(request->operand_count < 1, "no operand");
    HLO_TRY(hlo_infer_need_hint(request, true));
    HLO_REFUSE_IF(request->operand_count - 1 != request->hint->rank, "%lld sizes for %s",
                  (long long)(request->operand_count - 1), hlo_shape_message(request->arena, request->hint));
    for (int64_t i = 1; i < request->operand_count; i++) HLO_TRY(hlo_infer_need_index_scalar(request, i));
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_REFUSE_IF(request->operands[0]->type != request->hint->type, "elements of type %s from %s",
                  hlo_type_text(request->hint->type), hlo_type_text(request->operands[0]->type));
    // If sizes are bounds, the numbers of elements can be compared only at run time.
    const bool known = !hlo_shape_is_dynamic(request->operands[0]) && !hlo_shape_is_dynamic(request->hint);
    HLO_REFUSE_IF(known && !same_elements(request->operands[0], request->hint), "%s has %lld elements, %s has %lld",
                  hlo_shape_message(request->arena, request->operands[0]),
                  (long long)hlo_shape_elements(request->operands[0]), hlo_shape_message(request->arena, request->hint),
                  (long long)hlo_shape_elements(request->hint));
    *result = request->hint;
    return HLO_SUCCESS;
}

// Checks the start indices from operand `first` on: one integer scalar per dimension, or (an old form) one vector of
// them.
static HloStatus check_start_indices(const HloInferRequest *request, int64_t first, int64_t rank) {
    assert(first >= 1 && rank >= 0);
    int64_t given = request->operand_count - first;
    if (given == 1 && hlo_shape_is_array(request->operands[first]) && request->operands[first]->rank == 1) {
        const HloShape *starts = request->operands[first];
        HLO_REFUSE_IF(!hlo_type_is_integer(starts->type) || starts->dims[0] != rank,
                      "start indices %s for an array of rank %lld", hlo_shape_message(request->arena, starts),
                      (long long)rank);
        return HLO_SUCCESS;
    }
    HLO_REFUSE_IF(given != rank, "%lld start indices for an array of rank %lld", (long long)given, (long long)rank);
    for (int64_t i = 0; i < given; i++) {
        HLO_TRY(hlo_infer_need_index_scalar(request, first + i));
        HLO_REFUSE_IF(request->operands[first + i]->type != request->operands[first]->type,
                      "start indices of types %s and %s", hlo_type_text(request->operands[first]->type),
                      hlo_type_text(request->operands[first + i]->type));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_infer_dynamic_slice(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_DYNAMIC_SLICE);
    HLO_REFUSE_IF(request->operand_count < 1, "no operand");
    HLO_TRY(hlo_infer_need_array(request, 0));
    HloInts sizes = HLO_INFER_ATTRIBUTES(request, DynamicSlice)->sizes;
    const HloShape *operand = request->operands[0];
    HLO_TRY(check_start_indices(request, 1, operand->rank));
    HLO_REFUSE_IF(sizes.count != operand->rank, "%lld slice sizes for %s", (long long)sizes.count,
                  hlo_shape_message(request->arena, operand));
    HloDims dims = hlo_dims_new(request->arena, operand->rank);
    for (int64_t i = 0; i < dims.rank; i++) {
        int64_t size = sizes.items[i];
        bool known = operand->dims[i] != HLO_UNBOUNDED;
        HLO_REFUSE_IF(size < 0 || (known && size > operand->dims[i]),
                      "slice size %lld of dimension %lld, which has size %lld", (long long)size, (long long)i,
                      (long long)operand->dims[i]);
        dims.sizes[i] = size;
        dims.dynamic[i] = known && size == operand->dims[i] && hlo_shape_dimension_is_dynamic(operand, i);
    }
    return hlo_dims_shape(request->arena, operand->type, &dims, result);
}

HloStatus hlo_infer_dynamic_update_slice(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_DYNAMIC_UPDATE_SLICE);
    HLO_REFUSE_IF(request->operand_count < 2, "%lld operands", (long long)request->operand_count);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_TRY(hlo_infer_need_array(request, 1));
    const HloShape *operand = request->operands[0], *update = request->operands[1];
    HLO_TRY(check_start_indices(request, 2, operand->rank));
    HLO_REFUSE_IF(update->rank != operand->rank, "the update %s and the operand %s differ in rank",
                  hlo_shape_message(request->arena, update), hlo_shape_message(request->arena, operand));
    HLO_REFUSE_IF(!hlo_types_mix(update->type, operand->type), "an update of element type %s for an array of %s",
                  hlo_type_text(update->type), hlo_type_text(operand->type));
    for (int64_t i = 0; i < operand->rank; i++) {
        bool known = operand->dims[i] != HLO_UNBOUNDED && update->dims[i] != HLO_UNBOUNDED;
        HLO_REFUSE_IF(known && update->dims[i] > operand->dims[i],
                      "the update has size %lld in dimension %lld, the operand only %lld", (long long)update->dims[i],
                      (long long)i, (long long)operand->dims[i]);
    }
    *result = hlo_shape_without_layout(request->arena, operand);
    return HLO_SUCCESS;
}

// Computes size + low + high + interior * (size - 1).
static HloStatus padded_size(const HloPadDimension *padding, int64_t dimension, int64_t size, int64_t *result) {
    assert(size >= 0 || size == HLO_UNBOUNDED);
    HLO_REFUSE_IF(padding->interior < 0, "negative interior padding %lld in dimension %lld",
                  (long long)padding->interior, (long long)dimension);
    HLO_REFUSE_IF(!hlo_is_step(padding->low) || !hlo_is_step(padding->high) || !hlo_is_step(padding->interior),
                  "padding beyond 2^46 in dimension %lld", (long long)dimension);
    int64_t gaps = size > 1 ? size - 1 : 0, total;
    bool fits = !__builtin_mul_overflow(gaps, padding->interior, &total) &&
                !__builtin_add_overflow(total, size, &total) && !__builtin_add_overflow(total, padding->low, &total) &&
                !__builtin_add_overflow(total, padding->high, &total);
    HLO_REFUSE_IF(!fits, "dimension %lld overflows", (long long)dimension);
    HLO_REFUSE_IF(total < 0, "padding %lld_%lld_%lld of dimension %lld, which has size %lld, leaves size %lld",
                  (long long)padding->low, (long long)padding->high, (long long)padding->interior, (long long)dimension,
                  (long long)size, (long long)total);
    *result = total;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_pad(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_PAD);
    assert(request->operand_count == 2);
    HLO_TRY(hlo_infer_need_arrays(request));
    HloPadding padding = HLO_INFER_ATTRIBUTES(request, Pad)->padding;
    const HloShape *operand = request->operands[0], *value = request->operands[1];
    HLO_REFUSE_IF(value->rank != 0, "the padding value must be a scalar, not %s",
                  hlo_shape_message(request->arena, value));
    HLO_REFUSE_IF(!hlo_types_mix(operand->type, value->type), "a padding value of type %s for elements of type %s",
                  hlo_type_text(value->type), hlo_type_text(operand->type));
    HLO_REFUSE_IF(padding.count != operand->rank, "padding of %lld dimensions for %s", (long long)padding.count,
                  hlo_shape_message(request->arena, operand));
    HloDims dims = hlo_dims_of(request->arena, operand);
    for (int64_t i = 0; i < dims.rank; i++) {
        if (dims.sizes[i] != HLO_UNBOUNDED) HLO_TRY(padded_size(&padding.items[i], i, dims.sizes[i], &dims.sizes[i]));
    }
    return hlo_dims_shape(request->arena, hlo_higher_type(operand->type, value->type), &dims, result);
}

HloStatus hlo_infer_reverse(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_REVERSE);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dimensions, request->operands[0]->rank, "dimensions"));
    *result = hlo_shape_without_layout(request->arena, request->operands[0]);
    return HLO_SUCCESS;
}

// A dimension of dynamic size stays dynamic if all of it is taken; the dynamic size of a part of it is unknown.
HloStatus hlo_infer_slice(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SLICE);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    const HloSliceAttributes *slice = HLO_INFER_ATTRIBUTES(request, Slice);
    const HloShape *operand = request->operands[0];
    HLO_REFUSE_IF(slice->starts.count != operand->rank || slice->limits.count != operand->rank ||
                      slice->strides.count != operand->rank,
                  "%lld starts, %lld limits and %lld strides for %s", (long long)slice->starts.count,
                  (long long)slice->limits.count, (long long)slice->strides.count,
                  hlo_shape_message(request->arena, operand));
    HloDims dims = hlo_dims_new(request->arena, operand->rank);
    for (int64_t i = 0; i < dims.rank; i++) {
        int64_t start = slice->starts.items[i], limit = slice->limits.items[i], stride = slice->strides.items[i];
        bool known = operand->dims[i] != HLO_UNBOUNDED;
        HLO_REFUSE_IF(start < 0 || limit < start || (known && limit > operand->dims[i]),
                      "slice [%lld:%lld] of dimension %lld, which has size %lld", (long long)start, (long long)limit,
                      (long long)i, (long long)operand->dims[i]);
        HLO_REFUSE_IF(stride < 1, "stride %lld in dimension %lld", (long long)stride, (long long)i);
        dims.sizes[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
        bool whole = known && start == 0 && limit == operand->dims[i];
        dims.dynamic[i] = whole && hlo_shape_dimension_is_dynamic(operand, i);
    }
    return hlo_dims_shape(request->arena, operand->type, &dims, result);
}

HloStatus hlo_infer_transpose(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_TRANSPOSE);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HloInts permutation = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    const HloShape *operand = request->operands[0];
    HLO_REFUSE_IF(permutation.count != operand->rank, "permutation %s of %s",
                  hlo_ints_message(request->arena, permutation), hlo_shape_message(request->arena, operand));
    HLO_TRY(hlo_infer_check_dimensions(request->arena, permutation, operand->rank, "permutation"));
    HloDims dims = hlo_dims_new(request->arena, operand->rank);
    for (int64_t i = 0; i < dims.rank; i++) hlo_dims_take(&dims, i, operand, permutation.items[i]);
    return hlo_dims_shape(request->arena, operand->type, &dims, result);
}

// Sets *dimension to the single dimension of get- and set-dimension-size.
static HloStatus one_dimension(const HloInferRequest *request, int64_t *dimension) {
    HLO_TRY(hlo_infer_need_array(request, 0));
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Dimensions)->dimensions;
    HLO_REFUSE_IF(dimensions.count != 1, "%lld dimensions instead of one", (long long)dimensions.count);
    HLO_TRY(hlo_infer_check_dimensions(request->arena, dimensions, request->operands[0]->rank, "dimensions"));
    *dimension = dimensions.items[0];
    return HLO_SUCCESS;
}

HloStatus hlo_infer_get_dimension_size(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_GET_DIMENSION_SIZE);
    assert(request->operand_count == 1);
    int64_t dimension = 0;
    HLO_TRY(one_dimension(request, &dimension));
    HLO_REFUSE_IF(request->operands[0]->dims[dimension] > INT32_MAX, "size %lld of dimension %lld does not fit in s32",
                  (long long)request->operands[0]->dims[dimension], (long long)dimension);
    *result = hlo_shape_scalar(request->arena, HLO_S32);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_set_dimension_size(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SET_DIMENSION_SIZE);
    assert(request->operand_count == 2);
    int64_t dimension = 0;
    HLO_TRY(one_dimension(request, &dimension));
    const HloShape *size = request->operands[1];
    HLO_REFUSE_IF(!hlo_shape_is_scalar(size) || size->type != HLO_S32, "the size must be s32[], not %s",
                  hlo_shape_message(request->arena, size));
    HloDims dims = hlo_dims_of(request->arena, request->operands[0]);
    // A size equal to the bound makes the dimension static again; only the written shape shows it.
    const HloShape *hint = request->hint;
    dims.dynamic[dimension] = !(hint && hint->rank == dims.rank && !hlo_shape_dimension_is_dynamic(hint, dimension));
    return hlo_dims_shape(request->arena, request->operands[0]->type, &dims, result);
}

HloStatus hlo_infer_rng(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RNG);
    HLO_TRY(hlo_infer_need_hint(request, true));
    HLO_REFUSE_IF(request->operand_count != 2, "%lld parameters of the distribution instead of two",
                  (long long)request->operand_count);
    for (int64_t i = 0; i < 2; i++) {
        HLO_REFUSE_IF(!hlo_shape_is_scalar(request->operands[i]) ||
                          !hlo_types_mix(request->operands[i]->type, request->hint->type),
                      "operand %lld must be a scalar of type %s, not %s", (long long)i,
                      hlo_type_text(request->hint->type), hlo_shape_message(request->arena, request->operands[i]));
    }
    bool normal = HLO_INFER_ATTRIBUTES(request, Rng)->distribution == HLO_RandomDistribution_NORMAL;
    HLO_REFUSE_IF(normal && !hlo_type_is_float(request->hint->type), "normally distributed numbers of type %s",
                  hlo_type_text(request->hint->type));
    *result = request->hint;
    return HLO_SUCCESS;
}

// The hint gives the number and type of the bits, by itself or after the new state.
HloStatus hlo_infer_rng_bit_generator(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RNG_BIT_GENERATOR);
    assert(request->operand_count == 1);
    HLO_TRY(hlo_infer_need_array(request, 0));
    HLO_TRY(hlo_infer_need_hint(request, false));
    const HloShape *state = request->operands[0], *hint = request->hint;
    const HloRngBitsAttributes *rng = HLO_INFER_ATTRIBUTES(request, RngBits);
    const bool is_state =
        state->type == HLO_U64 && state->rank == 1 && (hlo_sizes_agree(state->dims[0], 2) || state->dims[0] == 3);
    HLO_REFUSE_IF(!is_state, "the state must be u64[2] or u64[3], not %s", hlo_shape_message(request->arena, state));
    HLO_REFUSE_IF(rng->algorithm == HLO_RandomAlgorithm_THREE_FRY && state->dims[0] == 3,
                  "the state of rng_three_fry must be u64[2], not %s", hlo_shape_message(request->arena, state));
    const HloShape *bits = hint;
    if (hlo_shape_is_tuple(hint)) {
        HLO_REFUSE_IF(hint->element_count != 2 || !hlo_shape_equal(hint->elements[0], state, HLO_COMPARE_IGNORE_LAYOUT),
                      "the result must be (state, bits) with state %s, not %s",
                      hlo_shape_message(request->arena, state), hlo_shape_message(request->arena, hint));
        bits = hint->elements[1];
    }
    HLO_REFUSE_IF(!hlo_shape_is_array(bits) || hlo_type_is_complex(bits->type) || bits->type == HLO_PRED,
                  "cannot generate random bits as %s", hlo_shape_message(request->arena, bits));
    *result = hint;
    return HLO_SUCCESS;
}

HloStatus hlo_infer_rng_state(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RNG_GET_AND_UPDATE_STATE);
    static const int64_t two = 2;
    *result = hlo_shape_array(request->arena, HLO_U64, &two, 1);
    return HLO_SUCCESS;
}
