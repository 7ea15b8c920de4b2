// SPDX-License-Identifier: Apache-2.0
// Leaves, tuples, calls, loops, branches and the two halves of asynchronous ops.
//
// Values are reference-counted: passing a tuple on, taking it apart or iterating a loop copies nothing. A handler may
// overwrite a value that it takes over from its operands (hlo_eval_take), which is what makes updates of a loop's state
// happen in place.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

// A view of the literal: constants are never copied.
HloStatus hlo_eval_constant(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                            HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_CONSTANT));
    (void)operands;
    const HloLiteral *literal = hlo_constant_literal(instruction);
    assert(literal); /* the module is verified */
    return hlo_eval_borrow(device, literal, result);
}

// hlo_eval_run() puts parameters into their slots, and hlo_evaluate_instruction() rejects them.
HloStatus hlo_eval_parameter(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_PARAMETER));
    (void)device;
    (void)operands;
    (void)result;
    HLO_BUG_IF(true);
    return HLO_SUCCESS;
}

// Devices are numbered replica by replica.
HloStatus hlo_eval_device_id(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_PARTITION_ID) || hlo_is(instruction, HLO_OP_REPLICA_ID));
    (void)operands;
    int64_t partitions = device->world->partition_count;
    bool partition = hlo_is(instruction, HLO_OP_PARTITION_ID);
    int64_t id = partition ? device->number % partitions : device->number / partitions;
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    hlo_eval_encode_int64(instruction->shape->type, &id, 1, (*result)->data);
    return HLO_SUCCESS;
}

// The elements are shared with their other owners.
HloStatus hlo_eval_tuple(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    return hlo_eval_new_tuple(device, instruction->shape, operands, instruction->operand_count, result);
}

// The general form; in a computation get_element() of interpret.c moves the element out where possible.
HloStatus hlo_eval_get_tuple_element(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                     HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_GET_TUPLE_ELEMENT));
    (void)device;
    *result = hlo_eval_retain(operands[0]->elements[HLO_ATTRIBUTES(instruction, TupleIndex)->index]);
    return HLO_SUCCESS;
}

// Returns the value of the first operand (add-dependency, opt-barrier, domain, all-reduce-done).
HloStatus hlo_eval_identity(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                            HloEvalValue **result) {
    (void)device;
    (void)instruction;
    *result = hlo_eval_take(operands, 0);
    return HLO_SUCCESS;
}

// Tokens order effects and have no data: here everything runs in order anyway.
HloStatus hlo_eval_token(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    (void)operands;
    return hlo_eval_new(device, instruction->shape, result);
}

// Runs a computation on operands and takes over their references.
static HloStatus call_with(HloEvalDevice *device, const HloComputation *computation, HloEvalValue **operands,
                           int64_t count, HloEvalValue **result) {
    HloEvalValue **arguments = HLO_EVAL_SCRATCH(device, HloEvalValue *, count);
    for (int64_t k = 0; k < count; k++) arguments[k] = hlo_eval_take(operands, k);
    return hlo_eval_run(device, computation, arguments, result);
}

HloStatus hlo_eval_call(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    return call_with(device, instruction->called[0], operands, instruction->operand_count, result);
}

// The condition reads the state, the body takes it over. An infinite loop does not end here either.
HloStatus hlo_eval_while(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_WHILE));
    const HloComputation *condition = instruction->called[0], *body = instruction->called[1];
    HloEvalValue *state = hlo_eval_take(operands, 0);
    for (;;) {
        HloEvalValue *again, *argument = hlo_eval_retain(state);
        HLO_TRY(hlo_eval_run(device, condition, &argument, &again));
        bool run = *(const uint8_t *)again->data != 0;
        hlo_eval_release(device, again);
        if (!run) break;
        argument = state;
        HLO_TRY(hlo_eval_run(device, body, &argument, &state));
    }
    *result = state;
    return HLO_SUCCESS;
}

// true is branch 0 of two; an index out of range takes the last one.
HloStatus hlo_eval_conditional(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_CONDITIONAL));
    int64_t branches = instruction->called_count, branch;
    if (operands[0]->shape->type == HLO_PRED) {
        branch = *(const uint8_t *)operands[0]->data ? 0 : 1;
    } else {
        branch = hlo_eval_integer_at(operands[0], 0);
        if (branch < 0 || branch >= branches) branch = branches - 1;
    }
    return call_with(device, instruction->called[branch], operands + 1 + branch, 1, result);
}

// ---- asynchronous ops do all their work at the start

// The start's result: (operands, result, further context). Context values are zero.
static HloStatus wrap_start(HloEvalDevice *device, const HloShape *shape, HloEvalValue *operand, HloEvalValue *value,
                            HloEvalValue **result) {
    HLO_TRY(hlo_eval_new(device, shape, result));
    (*result)->elements[0] = operand;
    (*result)->elements[1] = value;
    for (int32_t i = 2; i < shape->element_count; i++) {
        HLO_TRY(hlo_eval_new_zeroed(device, shape->elements[i], &(*result)->elements[i]));
    }
    return HLO_SUCCESS;
}

// The result keeps the operands as long as the start lives, since other instructions may read them from its tuple.
HloStatus hlo_eval_async_start(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_ASYNC_START));
    HloEvalValue *inputs, *value;
    HLO_TRY(hlo_eval_new_tuple(device, instruction->shape->elements[0], operands, instruction->operand_count, &inputs));
    HLO_TRY(call_with(device, instruction->called[0], operands, instruction->operand_count, &value));
    return wrap_start(device, instruction->shape, inputs, value, result);
}

HloStatus hlo_eval_async_update(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                HloEvalValue **result) {
    return hlo_eval_identity(device, instruction, operands, result);
}

// Element 1 of the start's tuple is the result.
HloStatus hlo_eval_async_done(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    (void)device;
    (void)instruction;
    *result = hlo_eval_retain(operands[0]->elements[1]);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_collective_done(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                   HloEvalValue **result) {
    return hlo_eval_async_done(device, instruction, operands, result);
}

// (destination, source, context)
HloStatus hlo_eval_copy_start(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    HloEvalValue *source = hlo_eval_take(operands, 0);
    return wrap_start(device, instruction->shape, hlo_eval_retain(source), source, result);
}

// Element 0 of the start's tuple is the destination.
HloStatus hlo_eval_copy_done(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                             HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_COPY_DONE));
    (void)device;
    (void)instruction;
    *result = hlo_eval_retain(operands[0]->elements[0]);
    return HLO_SUCCESS;
}
