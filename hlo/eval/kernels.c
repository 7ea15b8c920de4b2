// SPDX-License-Identifier: Apache-2.0
// Element-wise ops: chooses the kernel of an instruction and runs it over whole arrays.
//
// A kernel is a function (instruction, operands' memory, result's memory, count) of `count` contiguous elements, chosen
// by opcode and type once for the whole array. It does not depend on shapes: equal shapes mean equal order, and the
// scalars that select and clamp allow are copied out to chunks here.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

void hlo_eval_copy_kernel(const HloInstruction *instruction, const void *const *operands, void *result, int64_t count) {
    memmove(result, operands[0], (size_t)(count * hlo_type_bytes(instruction->shape->type)));
}

// complex(real, imaginary): interleaves two arrays.
static void complex_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                           int64_t count) {
    bool wide = instruction->shape->type == HLO_C128;
    for (int64_t i = 0; i < count; i++) {
        if (wide) {
            double parts[2] = {((const double *)operands[0])[i], ((const double *)operands[1])[i]};
            memcpy((double *)result + 2 * i, parts, sizeof(parts));
        } else {
            float parts[2] = {((const float *)operands[0])[i], ((const float *)operands[1])[i]};
            memcpy((float *)result + 2 * i, parts, sizeof(parts));
        }
    }
}

HloEvalKernel *hlo_eval_kernel(const HloInstruction *instruction) {
    HloOpcode opcode = instruction->opcode;
    switch (opcode) {
        case HLO_OP_CONVERT: return hlo_eval_convert_kernel;
        case HLO_OP_COMPARE: return hlo_eval_compare_kernel;
        case HLO_OP_SELECT: return hlo_eval_select_kernel;
        case HLO_OP_CLAMP: return hlo_eval_clamp_kernel;
        case HLO_OP_COPY: return hlo_eval_copy_kernel;
        case HLO_OP_COMPLEX: return complex_kernel;
        case HLO_OP_REDUCE_PRECISION: return hlo_eval_reduce_precision_kernel;
        case HLO_OP_STOCHASTIC_CONVERT: return hlo_eval_stochastic_convert_kernel;
        default: break;
    }
    if (!hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE)) return NULL;
    if (hlo_op_info(opcode)->arity == 1) return hlo_eval_unary_kernel(instruction);
    return hlo_eval_binary_kernel(opcode, instruction->operands[0]->shape->type);
}

// Runs elementwise ops with any number of operands: one call of the op's kernel over all elements or, if an operand is
// a scalar that applies to all, chunk by chunk.
HloStatus hlo_eval_unary(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    HloEvalKernel *kernel = hlo_eval_kernel(instruction);
    if (!kernel) return hlo_eval_unsupported(instruction, hlo_type_text(operands[0]->shape->type));
    int64_t bytes = hlo_type_bytes(instruction->shape->type);
    const void *data[3];
    const HloEvalValue *scalar[3];
    bool any_scalar = false;
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        data[k] = operands[k]->data;
        scalar[k] = operands[k]->shape->rank == 0 && instruction->shape->rank > 0 ? operands[k] : NULL;
        any_scalar = any_scalar || scalar[k];
    }
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    int64_t count = hlo_eval_elements(*result);
    if (!any_scalar) {
        kernel(instruction, data, (*result)->data, count);
        return HLO_SUCCESS;
    }
    // Scalar predicates and bounds of select and clamp apply to all elements: a chunk of copies at a time.
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        if (!scalar[k]) continue;
        void *copies = hlo_eval_scratch(device, HLO_EVAL_CHUNK, 16);
        hlo_eval_fill(copies, scalar[k]->data, hlo_type_bytes(scalar[k]->shape->type), HLO_EVAL_CHUNK);
        data[k] = copies;
    }
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        kernel(instruction, data, (char *)(*result)->data + start * bytes, length);
        for (int32_t k = 0; k < instruction->operand_count; k++) {
            if (!scalar[k]) data[k] = (const char *)data[k] + length * hlo_type_bytes(operands[k]->shape->type);
        }
    }
    return HLO_SUCCESS;
}

// The other element-wise families differ in their kernels only.
#define SAME_AS_UNARY(family)                                                                                      \
    HloStatus hlo_eval_##family(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands, \
                                HloEvalValue **result) {                                                           \
        return hlo_eval_unary(device, instruction, operands, result);                                              \
    }
SAME_AS_UNARY(binary)
SAME_AS_UNARY(compare)
SAME_AS_UNARY(convert)
SAME_AS_UNARY(reduce_precision)
SAME_AS_UNARY(stochastic_convert)
SAME_AS_UNARY(clamp)

// A scalar predicate may choose between tuples too: the value itself is passed on.
HloStatus hlo_eval_select(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                          HloEvalValue **result) {
    if (hlo_shape_is_array(instruction->shape)) return hlo_eval_unary(device, instruction, operands, result);
    *result = hlo_eval_take(operands, *(const uint8_t *)operands[0]->data ? 1 : 2);
    return HLO_SUCCESS;
}

// A copy only changes memory space or layout, and the evaluator has one of each: the value is passed on.
HloStatus hlo_eval_copy(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_COPY));
    (void)device;
    (void)instruction;
    *result = hlo_eval_take(operands, 0);
    return HLO_SUCCESS;
}
