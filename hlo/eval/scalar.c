// SPDX-License-Identifier: Apache-2.0
// Computations on scalars, called many times: each instruction becomes a kernel over a batch of calls. Computations
// with instructions that have no kernel (calls, loops) are interpreted call by call.
//
// The cost of interpreting an instruction, a few hundred nanoseconds, is paid once per batch instead of once per
// element. A computation that consists only of scalar element-wise ops (nearly all do) becomes a list of kernels over
// slots; results of earlier steps stay in slots of the batch's width. Anything else is run element by element through
// hlo_eval_run(), slowly and with the same results.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

typedef struct ScalarStep {
    const HloInstruction *instruction;
    HloEvalKernel *kernel;
    int32_t operands[3];  // slots
    void *data;           // of the result
} ScalarStep;

struct HloEvalScalar {
    HloEvalDevice *device;
    const HloComputation *computation;
    bool interpreted;
    int64_t width;
    ScalarStep *steps;
    int32_t step_count;
    int32_t slot_count;
    const void **slots;        // data by slot: parameters' change with every call
    int32_t *parameter_slots;  // by parameter number; -1 if not used
    int64_t result_count;
    int32_t *result_slots;
    int64_t *result_bytes;
    void **staged;  // results that are parameters go through a copy, because outputs may be inputs
};

// A root that is not a tuple is one result.
int64_t hlo_eval_scalar_results(const HloComputation *computation) {
    return computation->root->shape->type == HLO_TUPLE ? computation->root->shape->element_count : 1;
}

HloOpcode hlo_eval_scalar_opcode(const HloComputation *computation) {
    return hlo_computation_binary_opcode(computation);
}

// Reinterprets a scalar's bits as another type of the same width.
static void bitcast_kernel(const HloInstruction *instruction, const void *const *operands, void *result,
                           int64_t count) {
    hlo_eval_copy_kernel(instruction, operands, result, count);
    if (instruction->operands[0]->shape->type != instruction->shape->type)
        hlo_eval_normalise_bits(instruction->shape->type, result, count);
}

// On scalars, ops that move elements are copies; so is, nearly, a bitcast between types of one width.
static HloEvalKernel *kernel_of(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_BROADCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE: return hlo_eval_copy_kernel;
        case HLO_OP_BITCAST:
        case HLO_OP_BITCAST_CONVERT: {
            int from = hlo_type_bytes(instruction->operands[0]->shape->type);
            return from == hlo_type_bytes(instruction->shape->type) ? bitcast_kernel : NULL;
        }
        default: return hlo_eval_kernel(instruction);
    }
}

// The tuple itself is never made: results are written one by one.
static bool is_root_tuple(const HloInstruction *instruction) {
    return hlo_is(instruction, HLO_OP_TUPLE) && instruction == instruction->parent->root;
}

// Lists the instructions that the root needs and those with effects, operands first. The rest may be anything,
// including things that kernels do not handle (mixed types, an order of complex numbers), since only live instructions
// are checked before a run.
static const HloInstruction **live_order(const HloComputation *computation, HloArena *arena, int64_t *count) {
    int64_t all;
    HloInstruction **order = hlo_computation_post_order(computation, arena, &all);
    HloIntMap needed = {0};
    *count = 0;
    for (int64_t i = all - 1; i >= 0; i--) {
        bool live = order[i] == computation->root || hlo_instruction_has_side_effect(order[i]) ||
                    hlo_int_map_find(&needed, (uint64_t)order[i]->id);
        if (!live) continue;
        hlo_int_map_set(arena, &needed, (uint64_t)order[i]->id, 1);
        for (int32_t k = 0; k < order[i]->operand_count; k++)
            hlo_int_map_set(arena, &needed, (uint64_t)order[i]->operands[k]->id, 1);
    }
    const HloInstruction **live = HLO_ARENA_NEW(arena, const HloInstruction *, all);
    for (int64_t i = 0; i < all; i++)
        if (hlo_int_map_find(&needed, (uint64_t)order[i]->id)) live[(*count)++] = order[i];
    return live;
}

// True if kernels can do all of it.
static bool has_kernels(const HloInstruction *const *order, int64_t count) {
    for (int64_t n = 0; n < count; n++) {
        const HloInstruction *i = order[n];
        if (is_root_tuple(i)) continue;
        if (!hlo_shape_is_scalar(i->shape)) return false;
        if (hlo_is(i, HLO_OP_PARAMETER)) continue;
        if (hlo_is(i, HLO_OP_CONSTANT)) {
            if (hlo_constant_literal(i)->elided) return false;
            continue;
        }
        if (!kernel_of(i)) return false;
    }
    return true;
}

// Operands come before their users in the order, so they have a slot.
static int32_t slot_of(const HloIntMap *map, const HloInstruction *instruction) {
    return (int32_t)*hlo_int_map_find(map, (uint64_t)instruction->id);
}

// Only results that are parameters need a copy before anything is written: others have memory of their own.
static void prepare_results(HloEvalScalar *scalar, const HloIntMap *map) {
    HloArena *arena = scalar->device->scratch;
    const HloInstruction *root = scalar->computation->root;
    scalar->result_slots = HLO_ARENA_NEW(arena, int32_t, scalar->result_count);
    scalar->staged = HLO_ARENA_NEW(arena, void *, scalar->result_count);
    for (int64_t r = 0; r < scalar->result_count; r++) {
        const HloInstruction *value = hlo_is(root, HLO_OP_TUPLE) ? root->operands[r] : root;
        scalar->result_slots[r] = slot_of(map, value);
        if (hlo_is(value, HLO_OP_PARAMETER)) {
            scalar->staged[r] = hlo_eval_scratch(scalar->device, scalar->width, (size_t)scalar->result_bytes[r]);
        }
    }
}

// Constants are filled in once, for the whole width.
static void prepare_kernels(HloEvalScalar *scalar, const HloInstruction *const *order, int64_t count) {
    HloArena *arena = scalar->device->scratch;
    HloIntMap map = {0};
    scalar->steps = HLO_ARENA_NEW(arena, ScalarStep, count);
    scalar->slots = HLO_ARENA_NEW(arena, const void *, count);
    for (int64_t i = 0; i < count; i++) {
        const HloInstruction *instruction = order[i];
        if (is_root_tuple(instruction)) continue;
        int32_t slot = scalar->slot_count++;
        hlo_int_map_set(arena, &map, (uint64_t)instruction->id, slot);
        if (hlo_is(instruction, HLO_OP_PARAMETER)) {
            scalar->parameter_slots[hlo_parameter_number(instruction)] = slot;
            continue;
        }
        int64_t bytes = hlo_type_bytes(instruction->shape->type);
        void *data = hlo_eval_scratch(scalar->device, scalar->width, (size_t)bytes);
        scalar->slots[slot] = data;
        if (hlo_is(instruction, HLO_OP_CONSTANT)) {
            hlo_eval_fill(data, hlo_constant_literal(instruction)->data, bytes, scalar->width);
            continue;
        }
        ScalarStep *step = &scalar->steps[scalar->step_count++];
        *step = (ScalarStep){.instruction = instruction, .kernel = kernel_of(instruction), .data = data};
        for (int32_t k = 0; k < instruction->operand_count; k++)
            step->operands[k] = slot_of(&map, instruction->operands[k]);
    }
    prepare_results(scalar, &map);
}

// Memory is scratch of the current instruction.
HloStatus hlo_eval_scalar_prepare(HloEvalDevice *device, const HloComputation *computation, int64_t width,
                                  HloEvalScalar **result) {
    assert(width > 0 && result);
    HloArena *arena = device->scratch;
    HloEvalScalar *scalar = HLO_ARENA_NEW(arena, HloEvalScalar, 1);
    *scalar = (HloEvalScalar){.device = device, .computation = computation, .width = width > 0 ? width : 1};
    int64_t parameters = computation->parameters.count;
    scalar->parameter_slots = HLO_ARENA_NEW(arena, int32_t, parameters);
    for (int64_t p = 0; p < parameters; p++) scalar->parameter_slots[p] = -1;
    scalar->result_count = hlo_eval_scalar_results(computation);
    scalar->result_bytes = HLO_ARENA_NEW(arena, int64_t, scalar->result_count);
    const HloShape *root = computation->root->shape;
    for (int64_t r = 0; r < scalar->result_count; r++) {
        const HloShape *shape = hlo_shape_value(root, r);
        scalar->result_bytes[r] = hlo_type_bytes(shape->type);
        HLO_FAIL_IF(!hlo_shape_is_scalar(shape), HLO_INVALID_ARGUMENT, "computation %%%s must return scalars",
                    computation->name);
    }
    int64_t count;
    const HloInstruction **order = live_order(computation, arena, &count);
    scalar->interpreted = !has_kernels(order, count);
    if (!scalar->interpreted) prepare_kernels(scalar, order, count);
    *result = scalar;
    return HLO_SUCCESS;
}

// Runs call number `index` of a batch through values.
static HloStatus interpret_call(HloEvalScalar *scalar, const void *const *inputs, void *const *outputs, int64_t index) {
    assert(index >= 0);
    HloEvalDevice *device = scalar->device;
    const HloInstructionVector *parameters = &scalar->computation->parameters;
    HloArenaMark mark = hlo_arena_mark(device->scratch);
    HloEvalValue **arguments = HLO_EVAL_SCRATCH(device, HloEvalValue *, parameters->count);
    for (int64_t p = 0; p < parameters->count; p++) {
        const HloShape *shape = parameters->items[p]->shape;
        int64_t bytes = hlo_type_bytes(shape->type);
        HLO_TRY(hlo_eval_new(device, shape, &arguments[p]));
        memcpy(arguments[p]->data, (const char *)inputs[p] + index * bytes, (size_t)bytes);
    }
    HloEvalValue *root;
    HLO_TRY(hlo_eval_run(device, scalar->computation, arguments, &root));
    for (int64_t r = 0; r < scalar->result_count; r++) {
        const HloEvalValue *value = root->elements ? root->elements[r] : root;
        memcpy((char *)outputs[r] + index * scalar->result_bytes[r], value->data, (size_t)scalar->result_bytes[r]);
    }
    hlo_eval_release(device, root);
    hlo_arena_reset(device->scratch, mark);
    return HLO_SUCCESS;
}

// Everything that is read from an input is read before any output is written.
static void write_results(const HloEvalScalar *scalar, void *const *outputs, int64_t count) {
    for (int64_t r = 0; r < scalar->result_count; r++) {
        if (!scalar->staged[r]) continue;
        memcpy(scalar->staged[r], scalar->slots[scalar->result_slots[r]], (size_t)(count * scalar->result_bytes[r]));
    }
    for (int64_t r = 0; r < scalar->result_count; r++) {
        const void *data = scalar->staged[r] ? scalar->staged[r] : scalar->slots[scalar->result_slots[r]];
        memcpy(outputs[r], data, (size_t)(count * scalar->result_bytes[r]));
    }
}

// Step by step over the batch.
HloStatus hlo_eval_scalar_call(HloEvalScalar *scalar, const void *const *inputs, void *const *outputs, int64_t count) {
    assert(count >= 0 && inputs && outputs);
    HLO_BUG_IF(count > scalar->width);
    if (scalar->interpreted) {
        for (int64_t i = 0; i < count; i++) HLO_TRY(interpret_call(scalar, inputs, outputs, i));
        return HLO_SUCCESS;
    }
    for (int64_t p = 0; p < scalar->computation->parameters.count; p++) {
        if (scalar->parameter_slots[p] >= 0) scalar->slots[scalar->parameter_slots[p]] = inputs[p];
    }
    for (int32_t s = 0; s < scalar->step_count; s++) {
        const ScalarStep *step = &scalar->steps[s];
        const void *operands[3] = {scalar->slots[step->operands[0]], scalar->slots[step->operands[1]],
                                   scalar->slots[step->operands[2]]};
        step->kernel(step->instruction, operands, step->data, count);
    }
    write_results(scalar, outputs, count);
    return HLO_SUCCESS;
}
