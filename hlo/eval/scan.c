// SPDX-License-Identifier: Apache-2.0
// scan: a computation run along one dimension with carried values.
//
//   (outputs.., carries..) = scan(inputs.., initial carries..), dimensions={d}, to_apply=body
//
// The body takes element i of every input along d (a block without that dimension) and the carries of the step before,
// and returns the outputs' elements i and the next carries; is_reverse runs from the last element to the first. Values
// of a step live until the next one, the carries are passed on by reference.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

// Element `step` along a dimension: a block with that dimension left out, between two arrays of row-major order.
static void copy_step(const HloShape *whole, int64_t dimension, int64_t step, char *array, char *part, bool to_part) {
    assert(dimension >= 0 && dimension < whole->rank);
    assert(step >= 0);
    int64_t outer = 1, inner = hlo_type_bytes(whole->type);
    for (int64_t i = 0; i < dimension; i++) outer *= whole->dims[i];
    for (int64_t i = dimension + 1; i < whole->rank; i++) inner *= whole->dims[i];
    // If there are no elements after the dimension, `outer` may be immense.
    for (int64_t o = 0; o < outer && inner > 0; o++) {
        char *in_array = array + (o * whole->dims[dimension] + step) * inner, *in_part = part + o * inner;
        memcpy(to_part ? in_part : in_array, to_part ? in_array : in_part, (size_t)inner);
    }
}

typedef struct Scan {
    const HloInstruction *instruction;
    const HloComputation *body;
    int64_t dimension, inputs, carries, outputs, length;
    HloEvalValue **operands;
    HloEvalValue **carried;
    HloEvalValue **gathered;  // outputs
} Scan;

// The shape of result `index`: a tuple's element, or the only one.
static const HloShape *result_part(const HloShape *shape, int64_t index) {
    return shape->type == HLO_TUPLE ? shape->elements[index] : shape;
}

static HloStatus run_step(HloEvalDevice *device, Scan *scan, int64_t step) {
    assert(step >= 0 && step < scan->length);
    HloEvalValue **arguments = HLO_EVAL_SCRATCH(device, HloEvalValue *, scan->inputs + scan->carries);
    for (int64_t i = 0; i < scan->inputs; i++) {
        const HloInstruction *parameter = scan->body->parameters.items[i];
        HLO_TRY(hlo_eval_new(device, parameter->shape, &arguments[i]));
        copy_step(scan->operands[i]->shape, scan->dimension, step, scan->operands[i]->data, arguments[i]->data, true);
    }
    for (int64_t c = 0; c < scan->carries; c++) arguments[scan->inputs + c] = scan->carried[c];
    HloEvalValue *root;
    HLO_TRY(hlo_eval_run(device, scan->body, arguments, &root));
    for (int64_t o = 0; o < scan->outputs; o++) {
        HloEvalValue *part = root->elements ? root->elements[o] : root;
        copy_step(scan->gathered[o]->shape, scan->dimension, step, scan->gathered[o]->data, part->data, false);
    }
    for (int64_t c = 0; c < scan->carries; c++) {
        scan->carried[c] = hlo_eval_retain(root->elements ? root->elements[scan->outputs + c] : root);
    }
    hlo_eval_release(device, root);
    return HLO_SUCCESS;
}

// Runs step by step, from the other end if it is reversed: the body takes slices of the inputs and the carries, and
// returns slices of the outputs and the next carries.
HloStatus hlo_eval_scan(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SCAN));
    const HloScanAttributes *attributes = HLO_ATTRIBUTES(instruction, Scan);
    const HloShape *shape = instruction->shape;
    Scan scan = {.instruction = instruction, .body = instruction->called[0], .operands = operands};
    scan.carries = attributes->num_carries;
    scan.inputs = instruction->operand_count - scan.carries;
    scan.outputs = (shape->type == HLO_TUPLE ? shape->element_count : 1) - scan.carries;
    scan.dimension = attributes->dimensions.items[0];
    scan.length = operands[0]->shape->dims[scan.dimension];
    scan.carried = HLO_EVAL_SCRATCH(device, HloEvalValue *, scan.carries);
    scan.gathered = HLO_EVAL_SCRATCH(device, HloEvalValue *, scan.outputs);
    for (int64_t o = 0; o < scan.outputs; o++) HLO_TRY(hlo_eval_new(device, result_part(shape, o), &scan.gathered[o]));
    for (int64_t c = 0; c < scan.carries; c++) scan.carried[c] = hlo_eval_take(operands, scan.inputs + c);
    for (int64_t step = 0; step < scan.length; step++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        HLO_TRY(run_step(device, &scan, attributes->is_reverse ? scan.length - 1 - step : step));
        hlo_arena_reset(device->scratch, mark);
    }
    if (shape->type != HLO_TUPLE) {
        *result = scan.outputs ? scan.gathered[0] : scan.carried[0];
        return HLO_SUCCESS;
    }
    HLO_TRY(hlo_eval_new(device, shape, result));
    for (int64_t o = 0; o < scan.outputs; o++) (*result)->elements[o] = scan.gathered[o];
    for (int64_t c = 0; c < scan.carries; c++) (*result)->elements[scan.outputs + c] = scan.carried[c];
    return HLO_SUCCESS;
}
