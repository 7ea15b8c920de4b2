// SPDX-License-Identifier: Apache-2.0
// Expands scan to a loop over the positions of its dimension. Its state: the position, the inputs, the outputs so far,
// the carried values.
//
// A scan applies its computation to the slices of its inputs at one position after the other: (slices, carries) to
// (output slices, carries). Outputs are collected in arrays of zeros, of which every iteration writes one slice; no
// zero remains, since every position is written.
#include <assert.h>

#include "hlo/analysis/scan.h"
#include "hlo/pass/expand/indexed_loop.h"
#include "hlo/pass/support.h"

typedef struct ScanLoop {
    const HloInstruction *scan;
    HloScanParts parts;
} ScanLoop;

// Start indices of a step: `at` along the scanned dimension, zero along the others, after `first` operands.
static HloInstruction **with_starts(const ScanLoop *loop, HloInstruction *at, HloInstruction **operands, int64_t first,
                                    int64_t rank) {
    HloInstruction *zero = rank > 1 ? hlo_pass_integer(at, HLO_S64, 0) : NULL;
    for (int64_t d = 0; d < rank; d++) operands[first + d] = d == loop->parts.dimension ? at : zero;
    return operands;
}

// `shape` with the scanned dimension of size one, or without it.
static HloInts step_dims(const ScanLoop *loop, const HloShape *shape, bool keep) {
    int64_t *dims = hlo_pass_ints(loop->scan, shape->rank), count = 0;
    for (int64_t d = 0; d < shape->rank; d++) {
        if (d != loop->parts.dimension) dims[count++] = shape->dims[d];
        if (d == loop->parts.dimension && keep) dims[count++] = 1;
    }
    return (HloInts){dims, count};
}

// The slice of an input at position `at`, without the scanned dimension, as the computation expects it.
static HloInstruction *take_step(const ScanLoop *loop, HloInstruction *input, HloInstruction *at) {
    assert(loop && input && at);
    const HloShape *shape = input->shape;
    HloInstruction **operands = HLO_ARENA_NEW(at->parent->module->arena, HloInstruction *, shape->rank + 1);
    operands[0] = input;
    HloDynamicSliceAttributes attributes = {step_dims(loop, shape, true)};
    HloInstruction *slice =
        hlo_pass_make(at, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                             .operands = with_starts(loop, at, operands, 1, shape->rank),
                                             .operand_count = shape->rank + 1,
                                             .attributes = &attributes});
    return hlo_pass_reshape(at, slice, step_dims(loop, shape, false));
}

// `output` with `part` at position `at`.
static HloInstruction *put_step(const ScanLoop *loop, HloInstruction *output, HloInstruction *part,
                                HloInstruction *at) {
    assert(loop && output && part && at);
    const HloShape *shape = output->shape;
    HloInstruction **operands = HLO_ARENA_NEW(at->parent->module->arena, HloInstruction *, shape->rank + 2);
    operands[0] = output;
    operands[1] = hlo_pass_reshape(at, part, step_dims(loop, shape, true));
    return hlo_pass_make(at, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_UPDATE_SLICE,
                                                .operands = with_starts(loop, at, operands, 2, shape->rank),
                                                .operand_count = shape->rank + 2});
}

// Makes the body of the loop. In reverse the row counter still runs upwards, and the position is counted down from it.
static void run_step(void *context, HloInstruction *row, HloInstruction **state) {
    const ScanLoop *loop = context;
    HloInstruction *at = row;
    if (loop->parts.is_reverse) {
        at = hlo_pass_binary(row, HLO_OP_SUBTRACT, hlo_pass_integer(row, HLO_S64, loop->parts.length - 1), row);
    }
    int64_t arguments = loop->parts.inputs + loop->parts.carries;
    HloInstruction **operands = HLO_ARENA_NEW(row->parent->module->arena, HloInstruction *, arguments);
    for (int64_t i = 0; i < loop->parts.inputs; i++) operands[i] = take_step(loop, state[i], at);
    for (int64_t c = 0; c < loop->parts.carries; c++)
        operands[loop->parts.inputs + c] = state[loop->parts.inputs + loop->parts.outputs + c];
    HloInstruction *call = hlo_pass_make(row, &(HloBuildRequest){.opcode = HLO_OP_CALL,
                                                                 .operands = operands,
                                                                 .operand_count = arguments,
                                                                 .called = loop->scan->called,
                                                                 .called_count = 1});
    bool tuple = hlo_shape_is_tuple(call->shape);
    for (int64_t i = 0; i < loop->parts.outputs + loop->parts.carries; i++) {
        HloInstruction *part = tuple ? hlo_pass_get(row, call, i) : call;
        HloInstruction **slot = &state[loop->parts.inputs + i];
        *slot = i < loop->parts.outputs ? put_step(loop, *slot, part, at) : part;
    }
}

// A call's types are those of its computation, but a scan's floats may have another precision.
static bool mixes_precision(const HloInstruction *scan) {
    const HloComputation *step = scan->called[0];
    for (int64_t i = 0; i < scan->operand_count; i++)
        if (step->parameters.items[i]->shape->type != scan->operands[i]->shape->type) return true;
    const HloScanParts parts = hlo_scan_parts(scan);
    for (int64_t i = 0; i < parts.outputs + parts.carries; i++) {
        const HloType type = hlo_shape_value(step->root->shape, i)->type;
        if (type != hlo_shape_value(scan->shape, i)->type) return true;
        const int64_t carry = i - parts.outputs;
        if (carry >= 0 && type != scan->operands[parts.inputs + carry]->shape->type) return true;
    }
    return false;
}

// `state` has room for the results after the loop's own state.
static bool expand(HloInstruction *scan) {
    assert(scan->parent);
    if (scan->opcode != HLO_OP_SCAN || !hlo_pass_may_replace(scan) || mixes_precision(scan)) return false;
    for (int64_t i = 0; i < scan->operand_count; i++) {
        if (hlo_shape_is_dynamic(scan->operands[i]->shape)) return false;
    }
    ScanLoop loop = {scan, hlo_scan_parts(scan)};
    int64_t results = loop.parts.outputs + loop.parts.carries, count = loop.parts.inputs + results;
    HloInstruction **state = HLO_ARENA_NEW(scan->parent->module->arena, HloInstruction *, count + results);
    for (int64_t i = 0; i < loop.parts.inputs; i++) state[i] = scan->operands[i];
    for (int64_t o = 0; o < loop.parts.outputs; o++) {
        const HloShape *shape = hlo_shape_value(scan->shape, o);
        state[loop.parts.inputs + o] = hlo_pass_splat(scan, shape->type, hlo_shape_dims(shape), 0);
    }
    for (int64_t c = 0; c < loop.parts.carries; c++)
        state[loop.parts.inputs + loop.parts.outputs + c] = scan->operands[loop.parts.inputs + c];
    HloInstruction *made = hlo_pass_row_loop(scan, loop.parts.length, state, count, run_step, &loop);
    HloInstruction **parts = state + count;
    for (int64_t i = 0; i < results; i++) parts[i] = hlo_pass_get(scan, made, 1 + loop.parts.inputs + i);
    bool tuple = hlo_shape_is_tuple(scan->shape);
    return hlo_pass_replace(scan, tuple ? hlo_pass_tuple(scan, parts, results) : parts[0]);
}

HloStatus hlo_pass_scan_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) {
        *changed |= expand(i);
    }
    return HLO_SUCCESS;
}
