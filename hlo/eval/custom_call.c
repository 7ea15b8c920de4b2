// SPDX-License-Identifier: Apache-2.0
// Custom calls: a table from target to evaluator. What is not in it is refused by name.
#include <string.h>

#include "hlo/eval/internal.h"

static HloStatus first_operand(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    (void)device;
    HLO_FAIL_IF(instruction->operand_count < 1, HLO_INVALID_ARGUMENT, "%%%s has no operand", instruction->name);
    HLO_FAIL_IF(!hlo_shape_equal(instruction->shape, instruction->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT),
                HLO_INVALID_ARGUMENT, "%%%s (custom-call %s): the result must have the operand's shape", instruction->name,
                HLO_ATTRIBUTES(instruction, CustomCall)->target);
    *result = hlo_eval_take(operands, 0);
    return HLO_SUCCESS;
}

static HloStatus zeros(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    (void)operands;
    return hlo_eval_new_zeroed(device, instruction->shape, result);
}

// TopK: k follows from the result; a comparator that says `less` asks for the smallest.
static HloStatus top_k(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    const HloShape *shape = instruction->shape;
    HLO_FAIL_IF(shape->type != HLO_TUPLE || shape->element_count != 2 || instruction->operand_count < 1 ||
                    operands[0]->shape->rank < 1,
                HLO_INVALID_ARGUMENT, "%%%s (custom-call TopK): an array and a tuple of two are wanted", instruction->name);
    bool largest = true;
    if (instruction->called_count == 1 && hlo_is(instruction->called[0]->root, HLO_OP_COMPARE)) {
        int32_t direction = HLO_ATTRIBUTES(instruction->called[0]->root, Compare)->direction;
        largest = direction != HLO_ComparisonDirection_LT && direction != HLO_ComparisonDirection_LE;
    }
    int64_t k = shape->elements[0]->dims[shape->elements[0]->rank - 1];
    HLO_FAIL_IF(k > operands[0]->shape->dims[operands[0]->shape->rank - 1], HLO_INVALID_ARGUMENT,
                "%%%s: k is larger than the row", instruction->name);
    HloEvalValue *arrays[2];
    HLO_TRY(hlo_eval_new_results(device, shape, 2, result, arrays));
    hlo_eval_topk_rows(device, operands[0], k, largest, arrays[0], arrays[1]);
    return HLO_SUCCESS;
}

// Element-wise functions that have an opcode of their own.
static HloStatus unary_function(HloEvalDevice *device, const HloInstruction *instruction, HloOpcode opcode,
                                HloEvalValue **operands, HloEvalValue **result) {
    HLO_FAIL_IF(instruction->operand_count != 1, HLO_INVALID_ARGUMENT, "%%%s takes one operand", instruction->name);
    HloInstruction as_op = *instruction;
    as_op.opcode = opcode;
    as_op.attributes = NULL;
    return hlo_eval_unary(device, &as_op, operands, result);
}

#define UNARY_FUNCTION(name, opcode)                                                                              \
    static HloStatus name(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,      \
                          HloEvalValue **result) {                                                                \
        return unary_function(device, instruction, opcode, operands, result);                                     \
    }
UNARY_FUNCTION(call_acos, HLO_OP_ACOS)
UNARY_FUNCTION(call_acosh, HLO_OP_ACOSH)
UNARY_FUNCTION(call_asin, HLO_OP_ASIN)
UNARY_FUNCTION(call_asinh, HLO_OP_ASINH)
UNARY_FUNCTION(call_atanh, HLO_OP_ATANH)
UNARY_FUNCTION(call_cosh, HLO_OP_COSH)
UNARY_FUNCTION(call_erf, HLO_OP_ERF)
UNARY_FUNCTION(call_sinh, HLO_OP_SINH)
UNARY_FUNCTION(call_tan, HLO_OP_TAN)

static const struct {
    const char *target;
    HloEvalFunction *evaluate;
} registry[] = {
    {"AllocateBuffer", zeros},
    {"AssumeGatherIndicesInBound", first_operand},
    {"LayoutConstraint", first_operand},
    {"MoveToDevice", first_operand},
    {"MoveToHost", first_operand},
    {"SPMDFullToShardShape", hlo_eval_full_to_shard},
    {"SPMDShardToFullShape", hlo_eval_shard_to_full},
    {"Sharding", first_operand},
    {"TopK", top_k},
    {"annotate_device_placement", first_operand},
    {"mhlo.acos", call_acos},
    {"mhlo.acosh", call_acosh},
    {"mhlo.asin", call_asin},
    {"mhlo.asinh", call_asinh},
    {"mhlo.atanh", call_atanh},
    {"mhlo.cosh", call_cosh},
    {"mhlo.erf", call_erf},
    {"mhlo.sinh", call_sinh},
    {"mhlo.tan", call_tan},
    {"mhlo.topk", top_k},
    {"xla.sdy.FuncResultSharding", first_operand},
    {"xla.sdy.GlobalToLocalShape", hlo_eval_full_to_shard},
    {"xla.sdy.LocalToGlobalShape", hlo_eval_shard_to_full},
    {"xla.sdy.PropagationBarrier", first_operand},
};

HloStatus hlo_eval_custom_call(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    const char *target = HLO_ATTRIBUTES(instruction, CustomCall)->target;
    for (size_t i = 0; target && i < HLO_COUNT_OF(registry); i++) {
        if (!strcmp(registry[i].target, target)) return registry[i].evaluate(device, instruction, operands, result);
    }
    return hlo_error(HLO_UNIMPLEMENTED, "%%%s: custom call \"%s\" has no evaluator", instruction->name,
                     target ? target : "");
}
