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

#include "hlo/analysis/scan.h"
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
    HloScanParts parts;
    HloEvalValue **operands;
    HloEvalValue **carried;
    HloEvalValue **gathered;  // outputs
} Scan;

static HloStatus run_step(HloEvalDevice *device, Scan *scan, int64_t step) {
    assert(step >= 0 && step < scan->parts.length);
    HloEvalValue **arguments = HLO_EVAL_SCRATCH(device, HloEvalValue *, scan->parts.inputs + scan->parts.carries);
    for (int64_t i = 0; i < scan->parts.inputs; i++) {
        const HloInstruction *parameter = scan->body->parameters.items[i];
        HLO_TRY(hlo_eval_new(device, parameter->shape, &arguments[i]));
        copy_step(scan->operands[i]->shape, scan->parts.dimension, step, scan->operands[i]->data, arguments[i]->data,
                  true);
    }
    for (int64_t c = 0; c < scan->parts.carries; c++) arguments[scan->parts.inputs + c] = scan->carried[c];
    HloEvalValue *root;
    HLO_TRY(hlo_eval_run(device, scan->body, arguments, &root));
    for (int64_t o = 0; o < scan->parts.outputs; o++) {
        HloEvalValue *part = root->elements ? root->elements[o] : root;
        copy_step(scan->gathered[o]->shape, scan->parts.dimension, step, scan->gathered[o]->data, part->data, false);
    }
    for (int64_t c = 0; c < scan->parts.carries; c++) {
        scan->carried[c] = hlo_eval_retain(root->elements ? root->elements[scan->parts.outputs + c] : root);
    }
    hlo_eval_release(device, root);
    return HLO_SUCCESS;
}

// Runs step by step, from the other end if it is reversed: the body takes slices of the inputs and the carries, and
// returns slices of the outputs and the next carries.
HloStatus hlo_eval_scan(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SCAN));
    const HloShape *shape = instruction->shape;
    Scan scan = {.instruction = instruction,
                 .body = instruction->called[0],
                 .operands = operands,
                 .parts = hlo_scan_parts(instruction)};
    scan.parts.length = operands[0]->shape->dims[scan.parts.dimension];  // of the value: a bound may be larger
    scan.carried = HLO_EVAL_SCRATCH(device, HloEvalValue *, scan.parts.carries);
    scan.gathered = HLO_EVAL_SCRATCH(device, HloEvalValue *, scan.parts.outputs);
    for (int64_t o = 0; o < scan.parts.outputs; o++)
        HLO_TRY(hlo_eval_new(device, hlo_shape_value(shape, o), &scan.gathered[o]));
    for (int64_t c = 0; c < scan.parts.carries; c++) scan.carried[c] = hlo_eval_take(operands, scan.parts.inputs + c);
    for (int64_t step = 0; step < scan.parts.length; step++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        HLO_TRY(run_step(device, &scan, scan.parts.is_reverse ? scan.parts.length - 1 - step : step));
        hlo_arena_reset(device->scratch, mark);
    }
    if (shape->type != HLO_TUPLE) {
        *result = scan.parts.outputs ? scan.gathered[0] : scan.carried[0];
        return HLO_SUCCESS;
    }
    HLO_TRY(hlo_eval_new(device, shape, result));
    for (int64_t o = 0; o < scan.parts.outputs; o++) (*result)->elements[o] = scan.gathered[o];
    for (int64_t c = 0; c < scan.parts.carries; c++) (*result)->elements[scan.parts.outputs + c] = scan.carried[c];
    return HLO_SUCCESS;
}
