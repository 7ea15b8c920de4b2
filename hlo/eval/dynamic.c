// SPDX-License-Identifier: Apache-2.0
// Dimensions whose size is known only at run time.
#include <assert.h>
#include <string.h>

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
    sizes[dim] = size;
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

static int64_t product(const int64_t *sizes, int64_t rank) {
    int64_t result = 1;
    for (int64_t i = 0; i < rank; i++) result *= sizes[i];
    return result;
}

// The result's sizes: given as operands, or for a plain reshape of a dynamic array those of the static dimensions with
// the one dynamic dimension taking what is left.
static HloStatus new_sizes(const HloInstruction *instruction, HloEvalValue *const *operands, int64_t count,
                           int64_t *sizes) {
    assert(count >= 0 && sizes);
    const HloShape *shape = instruction->shape;
    int32_t open = -1;
    int64_t known = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        bool dynamic = shape->dynamic && shape->dynamic[i];
        sizes[i] = shape->dims[i];
        if (instruction->operand_count > 1) {
            sizes[i] = hlo_eval_integer_at(operands[1 + i], 0);
        } else if (dynamic && open < 0) {
            open = i;
            continue;
        }
        known *= sizes[i];
    }
    if (open >= 0) sizes[open] = known ? count / known : 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        HLO_FAIL_IF(sizes[i] < 0 || sizes[i] > shape->dims[i], HLO_INVALID_ARGUMENT,
                    "%%%s: size %lld does not fit the bound %lld", instruction->name, (long long)sizes[i],
                    (long long)shape->dims[i]);
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_dynamic_reshape(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                   HloEvalValue **result) {
    const HloEvalValue *operand = operands[0];
    const HloShape *from = operand->shape, *to = instruction->shape;
    int64_t *old_sizes = HLO_EVAL_SCRATCH(device, int64_t, from->rank),
            *sizes = HLO_EVAL_SCRATCH(device, int64_t, to->rank);
    for (int32_t i = 0; i < from->rank; i++) old_sizes[i] = hlo_eval_size(operand, i);
    int64_t count = product(old_sizes, from->rank), bytes = hlo_type_bytes(to->type);
    HLO_TRY(new_sizes(instruction, operands, count, sizes));
    HLO_FAIL_IF(product(sizes, to->rank) != count, HLO_INVALID_ARGUMENT, "%%%s: %lld elements cannot become %lld",
                instruction->name, (long long)count, (long long)product(sizes, to->rank));
    HLO_TRY(hlo_eval_new_zeroed(device, to, result));
    for (int64_t i = 0; i < count; i++) {
        memcpy((char *)(*result)->data + position_of(i, to->dims, sizes, to->rank) * bytes,
               (const char *)operand->data + position_of(i, from->dims, old_sizes, from->rank) * bytes, (size_t)bytes);
    }
    return hlo_eval_set_sizes(device, *result, sizes);
}
