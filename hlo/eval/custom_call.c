// SPDX-License-Identifier: Apache-2.0
// Custom calls: a table from target to evaluator. Targets without an entry are rejected by name.
//
// hlo/ir/custom_calls.def has one row per target: its shapes, which hlo_custom_call_check() compares, and the name of
// its evaluator, from which the table below is made. Several targets share an evaluator; those of decompositions are in
// decompositions.c, those of dynamic sizes in dynamic.c.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/custom_call.h"

// Annotations return the operand itself.
HloStatus hlo_eval_call_first_operand(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalValue **result) {
    (void)device;
    (void)instruction;
    *result = hlo_eval_take(operands, 0);
    return HLO_SUCCESS;
}

// A call that only affects compilation: there is nothing to run.
HloStatus hlo_eval_call_nothing(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                HloEvalValue **result) {
    (void)operands;
    return hlo_eval_new_zeroed(device, instruction->shape, result);
}

// An unspecified result: zeros are as good as any value, and the same everywhere.
HloStatus hlo_eval_call_zeros(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    (void)operands;
    return hlo_eval_new_zeroed(device, instruction->shape, result);
}

// TopK: k follows from the result; a `less` comparator selects the smallest elements.
HloStatus hlo_eval_call_top_k(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    const HloShape *shape = instruction->shape;
    const bool largest = hlo_custom_call_takes_largest(instruction);
    const HloShape *values = shape->elements[0];
    HloEvalValue *arrays[2];
    HLO_TRY(hlo_eval_new_results(device, shape, 2, result, arrays));
    hlo_eval_topk_rows(device, operands[0], values->dims[values->rank - 1], largest, arrays[0], arrays[1]);
    return HLO_SUCCESS;
}

// ApproxTopK(arrays.., init values..): returns exactly the first elements in the comparator's order, as many as the
// size of the one dimension in which the result is smaller.
HloStatus hlo_eval_call_approximate_top_k(HloEvalDevice *device, const HloInstruction *instruction,
                                          HloEvalValue **operands, HloEvalValue **result) {
    const int64_t count = instruction->operand_count / 2, dim = hlo_custom_call_top_k_dimension(instruction);
    const HloShape *shape = instruction->shape;
    HloEvalValue **sorted = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int64_t a = 0; a < count; a++) HLO_TRY(hlo_eval_new(device, operands[a]->shape, &sorted[a]));
    HLO_TRY(hlo_eval_sort_arrays(device, instruction->called[0], dim, operands, count, sorted));
    HLO_TRY(hlo_eval_new(device, shape, result));
    for (int64_t a = 0; a < count; a++) {
        const HloShape *part = shape->elements[a], *whole = sorted[a]->shape;
        int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, 2 * whole->rank);
        HLO_TRY(hlo_eval_new(device, part, &(*result)->elements[a]));
        hlo_eval_strides(whole->dims, whole->rank, strides);
        hlo_eval_strides(part->dims, part->rank, strides + whole->rank);
        if (hlo_shape_elements(part) > 0) {
            hlo_eval_copy_strided((*result)->elements[a]->data, strides + whole->rank, sorted[a]->data, strides,
                                  part->dims, part->rank, hlo_type_bytes(part->type));
        }
        hlo_eval_release(device, sorted[a]);
    }
    return HLO_SUCCESS;
}

// A call whose body is the called computation (custom_partitioning, composites).
HloStatus hlo_eval_call_called_body(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                    HloEvalValue **result) {
    return hlo_eval_call(device, instruction, operands, result);
}

// Element-wise functions that have an opcode of their own.
static HloStatus unary_function(HloEvalDevice *device, const HloInstruction *instruction, HloOpcode opcode,
                                HloEvalValue **operands, HloEvalValue **result) {
    HloInstruction as_op = *instruction;
    as_op.opcode = opcode;
    as_op.attributes = NULL;
    return hlo_eval_unary(device, &as_op, operands, result);
}

#define UNARY_FUNCTION(name, opcode)                                                                                  \
    HloStatus hlo_eval_call_##name(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands, \
                                   HloEvalValue **result) {                                                           \
        return unary_function(device, instruction, opcode, operands, result);                                         \
    }
UNARY_FUNCTION(acos, HLO_OP_ACOS)
UNARY_FUNCTION(acosh, HLO_OP_ACOSH)
UNARY_FUNCTION(asin, HLO_OP_ASIN)
UNARY_FUNCTION(asinh, HLO_OP_ASINH)
UNARY_FUNCTION(atanh, HLO_OP_ATANH)
UNARY_FUNCTION(cosh, HLO_OP_COSH)
UNARY_FUNCTION(erf, HLO_OP_ERF)
UNARY_FUNCTION(sinh, HLO_OP_SINH)
UNARY_FUNCTION(tan, HLO_OP_TAN)

static HloEvalFunction *const evaluators[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) hlo_eval_call_##evaluator,
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
};

HloStatus hlo_eval_custom_call(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL) && result);
    if (hlo_custom_call_is_unknown(instruction)) return hlo_custom_call_refuse(instruction);
    const int32_t row = hlo_custom_call_row(instruction);
    HLO_TRY(hlo_custom_call_check(instruction));
    return evaluators[row](device, instruction, operands, result);
}
