// SPDX-License-Identifier: Apache-2.0
// Dimensions whose size is known only at run time.
//
// An array f32[<=4,3] is stored with all of its 12 elements, and a separate value holds the actual number of rows
// (value.c). The bounds determine the layout in memory, the sizes determine the meaning:
//
//   bounds 4 x 3, sizes 2 x 3       a b c      set-dimension-size changes the sizes only;
//                                   d e f      a reshape to f32[<=12] must move rows together, as the padding
//                                   . . .      between them is no part of the result
//                                   . . .
//
// bounded.c defines the meaning of other ops on these arrays.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/eval/internal.h"

HloStatus hlo_eval_get_dimension_size(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_GET_DIMENSION_SIZE));
    int64_t size = hlo_eval_size(operands[0], HLO_ATTRIBUTES(instruction, Dimensions)->dimensions.items[0]);
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_eval_encode_int64(instruction->shape->type, &size, 1, (*result)->data);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_set_dimension_size(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SET_DIMENSION_SIZE));
    const HloShape *shape = instruction->shape;
    int64_t dim = HLO_ATTRIBUTES(instruction, Dimensions)->dimensions.items[0],
            size = hlo_eval_integer_at(operands[1], 0);
    HLO_FAIL_IF(size < 0 || size > shape->dims[dim], HLO_INVALID_ARGUMENT,
                "%%%s: size %lld is beyond the bound %lld of dimension %lld", instruction->name, (long long)size,
                (long long)shape->dims[dim], (long long)dim);
    int64_t *sizes = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) sizes[i] = hlo_eval_size(operands[0], i);
    // A dimension that the shape declares static is treated as static, as in inference: XLA writes it like this if the
    // size is known to be the bound.
    sizes[dim] = shape->dynamic && shape->dynamic[dim] ? size : shape->dims[dim];
    HLO_TRY(hlo_eval_with_shape(device, operands[0], shape, result));
    return hlo_eval_set_sizes(device, *result, sizes);
}

// The linear position, in an array of bounds `dims`, of element number `linear` of an array of actual sizes `sizes`.
static int64_t position_of(int64_t linear, const int64_t *dims, const int64_t *sizes, int64_t rank) {
    assert(linear >= 0 && rank >= 0);
    int64_t position = 0, stride = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        position += linear % sizes[i] * stride;
        linear /= sizes[i];
        stride *= dims[i];
    }
    return position;
}

// Computes the sizes of a group of dimensions of a plain reshape: those of the static dimensions are known, and the
// dynamic one takes the rest. If there are several dynamic ones the attribute names it, or it is the first, and the
// others are at their bounds.
static HloStatus group_sizes(const HloInstruction *instruction, const int64_t *old_sizes, const HloReshapeGroup *group,
                             int64_t *sizes) {
    assert(group->to_begin <= group->to_end && group->from_begin <= group->from_end);
    const HloShape *shape = instruction->shape;
    const int64_t inferred =
        hlo_is(instruction, HLO_OP_RESHAPE) ? HLO_ATTRIBUTES(instruction, Reshape)->inferred_dimension : HLO_ABSENT;
    int64_t count = hlo_product(old_sizes + group->from_begin, group->from_end - group->from_begin), known = 1;
    int32_t open = -1;
    for (int32_t d = group->to_begin; d < group->to_end; d++) {
        sizes[d] = shape->dims[d];
        if (shape->dynamic && shape->dynamic[d] && (open < 0 || d == inferred)) open = d;
    }
    for (int32_t d = group->to_begin; d < group->to_end; d++) known *= d == open ? 1 : sizes[d];
    if (open >= 0) sizes[open] = known ? count / known : 0;
    HLO_FAIL_IF(hlo_product(sizes + group->to_begin, group->to_end - group->to_begin) != count, HLO_INVALID_ARGUMENT,
                "%%%s: %lld elements do not fill the dimensions that are not of dynamic size", instruction->name,
                (long long)count);
    return HLO_SUCCESS;
}

// Computes the result's sizes: given as operands, or derived for a plain reshape.
static HloStatus new_sizes(const HloInstruction *instruction, HloEvalValue *const *operands, const int64_t *old_sizes,
                           int64_t *sizes) {
    assert(old_sizes && sizes);
    const HloShape *shape = instruction->shape;
    HloReshapeGroup group = {0};
    if (instruction->operand_count == 1) {
        while (hlo_reshape_next_group(operands[0]->shape, shape, &group))
            HLO_TRY(group_sizes(instruction, old_sizes, &group, sizes));
        return HLO_SUCCESS;
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        sizes[i] = hlo_eval_integer_at(operands[1 + i], 0);
        HLO_FAIL_IF(sizes[i] < 0 || sizes[i] > shape->dims[i], HLO_INVALID_ARGUMENT,
                    "%%%s: size %lld does not fit the bound %lld", instruction->name, (long long)sizes[i],
                    (long long)shape->dims[i]);
    }
    return HLO_SUCCESS;
}

// Element number i, counted over the sizes in row-major order, becomes element number i of the result. The elements
// after the sizes are zeros.
HloStatus hlo_eval_dynamic_reshape(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                   HloEvalValue **result) {
    const HloEvalValue *operand = operands[0];
    const HloShape *from = operand->shape, *to = instruction->shape;
    int64_t *old_sizes = HLO_EVAL_SCRATCH(device, int64_t, from->rank),
            *sizes = HLO_EVAL_SCRATCH(device, int64_t, to->rank);
    for (int32_t i = 0; i < from->rank; i++) old_sizes[i] = hlo_eval_size(operand, i);
    int64_t count = hlo_product(old_sizes, from->rank), bytes = hlo_type_bytes(to->type);
    HLO_TRY(new_sizes(instruction, operands, old_sizes, sizes));
    HLO_FAIL_IF(hlo_product(sizes, to->rank) != count, HLO_INVALID_ARGUMENT, "%%%s: %lld elements cannot become %lld",
                instruction->name, (long long)count, (long long)hlo_product(sizes, to->rank));
    HLO_TRY(hlo_eval_new_zeroed(device, to, result));
    for (int64_t i = 0; i < count; i++) {
        memcpy((char *)(*result)->data + position_of(i, to->dims, sizes, to->rank) * bytes,
               (const char *)operand->data + position_of(i, from->dims, old_sizes, from->rank) * bytes, (size_t)bytes);
    }
    return hlo_eval_set_sizes(device, *result, sizes);
}

// ---- the boundary of padded programs

// Returns (array up to its bounds, the size of each dimension).
HloStatus hlo_eval_call_pad_to_static(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    const HloShape *shape = instruction->shape;
    assert(shape->element_count == operands[0]->shape->rank + 1); /* hlo_custom_call_check() */
    HLO_TRY(hlo_eval_new(device, shape, result));
    for (int32_t d = 0; d + 1 < shape->element_count; d++) {
        const int64_t size = hlo_eval_size(operands[0], d);
        HLO_TRY(hlo_eval_new(device, shape->elements[d + 1], &(*result)->elements[d + 1]));
        hlo_eval_encode_int64(HLO_S32, &size, 1, (*result)->elements[d + 1]->data);
    }
    HLO_TRY(hlo_eval_with_shape(device, operands[0], shape->elements[0], &(*result)->elements[0]));
    return hlo_eval_set_sizes(device, (*result)->elements[0], shape->elements[0]->dims);
}

// Makes an array of dynamic size from (array up to its bounds, the size of each dimension).
HloStatus hlo_eval_call_slice_to_dynamic(HloEvalDevice *device, const HloInstruction *instruction,
                                         HloEvalValue **operands, HloEvalValue **result) {
    const HloShape *shape = instruction->shape;
    assert(instruction->operand_count == shape->rank + 1); /* hlo_custom_call_check() */
    int64_t *sizes = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++) {
        sizes[d] = hlo_eval_integer_at(operands[d + 1], 0);
        HLO_FAIL_IF(sizes[d] < 0 || sizes[d] > shape->dims[d], HLO_INVALID_ARGUMENT,
                    "%%%s: size %lld does not fit the bound %lld", instruction->name, (long long)sizes[d],
                    (long long)shape->dims[d]);
    }
    HLO_TRY(hlo_eval_with_shape(device, operands[0], shape, result));
    return hlo_eval_set_sizes(device, *result, sizes);
}
