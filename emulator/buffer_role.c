// SPDX-License-Identifier: Apache-2.0
// Says what a buffer is for. The graph decides first: what a gather or a copy is made from, and which loop fills or
// reads the stack of a loop's state. Scopes, where the program has them, say more: JAX marks what belongs to the
// backward pass
// ("transpose(…)") and what is computed again for it ("rematted_computation"; jax/_src/ad_checkpoint.py).
#include <assert.h>
#include <string.h>

#include "emulator/op_class.h"
#include "emulator/program.h"
#include "hlo/analysis/loop.h"
#include "hlo/ir/attributes.h"

// Instructions between a value and what it is made from.
#define MOST_STEPS 64

// Whether an instruction moves or converts its first operand and computes nothing.
static bool passes_on(const HloInstruction *at) {
    switch (at->opcode) {
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_GATHER_START:
        case HLO_OP_ALL_GATHER_DONE:
        case HLO_OP_BITCAST:
        case HLO_OP_CONVERT:
        case HLO_OP_COPY:
        case HLO_OP_COPY_DONE:
        case HLO_OP_COPY_START:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_OPTIMIZATION_BARRIER:
        case HLO_OP_REDUCE_PRECISION:
        case HLO_OP_RESHAPE:
        case HLO_OP_SLICE:
        case HLO_OP_TRANSPOSE: return true;
        default: return false;
    }
}

// What an element of a tuple is, looked up where the tuple is made, or before the loop that does not change it.
static const HloInstruction *element_of(const HloInstruction *get) {
    const int64_t index = HLO_ATTRIBUTES(get, TupleIndex)->index;
    const HloInstruction *tuple = get->operands[0];
    const HloInstruction *loop = hlo_is(tuple, HLO_OP_PARAMETER) ? hlo_loop_around(tuple) : NULL;
    if (hlo_is(tuple, HLO_OP_WHILE)) loop = tuple;
    if (loop && !hlo_loop_element_is_invariant(loop, index)) return NULL;
    if (loop) tuple = loop->operands[0];
    if (hlo_is(tuple, HLO_OP_OPTIMIZATION_BARRIER) && tuple->operand_count == 1) tuple = tuple->operands[0];
    const bool lists = hlo_is(tuple, HLO_OP_TUPLE) || hlo_is(tuple, HLO_OP_OPTIMIZATION_BARRIER);
    return lists && index < tuple->operand_count ? tuple->operands[index] : NULL;
}

// The parameter of the entry that a value is a copy, slice or conversion of; NULL if it is none.
static const HloInstruction *parameter_of(const HloInstruction *value) {
    for (int i = 0; i < MOST_STEPS && value; i++) {
        if (hlo_is(value, HLO_OP_PARAMETER)) return value->parent == value->parent->module->entry ? value : NULL;
        if (hlo_is(value, HLO_OP_GET_TUPLE_ELEMENT))
            value = element_of(value);
        else if (hlo_is(value, HLO_OP_ASYNC_START) || hlo_is(value, HLO_OP_ASYNC_DONE) || passes_on(value))
            value = value->operand_count ? value->operands[0] : NULL;
        else
            return NULL;
    }
    return NULL;
}

static const char *scope_of(const HloInstruction *at) {
    return at->metadata && at->metadata->op_name ? at->metadata->op_name : "";
}

// "parameter 3 (params['w'])".
static const char *parameter_text(HloArena *arena, const HloInstruction *parameter) {
    const char *name = *scope_of(parameter) ? scope_of(parameter) : parameter->name;
    return hlo_arena_format(arena, "parameter %lld (%s)", (long long)hlo_parameter_number(parameter), name);
}

static bool is_backward(const HloInstruction *at) {
    return strstr(scope_of(at), "transpose(") != NULL;
}

// The loop that has a value in its initial state, and the element of the state; NULL if there is none.
static const HloInstruction *loop_with(const HloInstruction *value, int64_t *index) {
    for (int64_t u = 0; u < value->users.count; u++) {
        const HloInstruction *tuple = value->users.items[u];
        if (!hlo_is(tuple, HLO_OP_TUPLE)) continue;
        for (int64_t k = 0; k < tuple->users.count; k++) {
            if (!hlo_is(tuple->users.items[k], HLO_OP_WHILE)) continue;
            for (*index = 0; tuple->operands[*index] != value;) (*index)++;
            return tuple->users.items[k];
        }
    }
    return NULL;
}

// A later loop that reads element `index` of a loop's result; NULL if there is none.
static const HloInstruction *reader_of(const HloInstruction *loop, int64_t index) {
    for (int64_t u = 0; u < loop->users.count; u++) {
        const HloInstruction *get = loop->users.items[u];
        int64_t unused;
        if (!hlo_is(get, HLO_OP_GET_TUPLE_ELEMENT) || HLO_ATTRIBUTES(get, TupleIndex)->index != index) continue;
        const HloInstruction *reader = loop_with(get, &unused);
        if (reader) return reader;
    }
    return NULL;
}

// The element of a loop's state that is leaf number `leaf` of it; -1 if that is a part of an element, or -1.
static int64_t element_of_leaf(const HloShape *state, int64_t leaf) {
    int64_t begin = 0;
    for (int64_t i = 0; i < state->element_count; i++) {
        if (begin == leaf && hlo_shape_is_array(state->elements[i])) return i;
        begin += hlo_shape_leaf_count(state->elements[i]);
    }
    return -1;
}

// What a loop makes of an array in its state, which begins as this buffer, or which the loop makes; NULL if the array
// is not there.
static const char *stack_role(HloArena *arena, const EmuBuffer *buffer) {
    const HloInstruction *value = buffer->instruction;
    int64_t index = hlo_is(value, HLO_OP_WHILE) ? element_of_leaf(value->shape, buffer->leaf) : -1;
    const HloInstruction *loop = index >= 0 ? value : loop_with(value, &index);
    if (!loop || hlo_loop_element_is_invariant(loop, index)) return NULL;
    const HloInstruction *reader = reader_of(loop, index);
    if (reader)
        return hlo_arena_format(arena, "saved by the loop %s for the loop %s%s", loop->name, reader->name,
                                is_backward(reader) ? ", the backward pass" : "");
    return hlo_arena_format(arena, "state of the loop %s", loop->name);
}

// What the scopes of a value and of its readers say.
static const char *scope_role(const HloInstruction *value) {
    if (strstr(scope_of(value), "rematted_computation")) return "recomputed for the backward pass";
    if (is_backward(value)) return "of the backward pass";
    for (int64_t u = 0; u < value->users.count; u++)
        if (is_backward(value->users.items[u])) return "saved for the backward pass";
    return "";
}

const char *emu_buffer_role(HloArena *arena, const EmuBuffer *buffer) {
    assert(arena && buffer);
    const HloInstruction *value = buffer->instruction;
    if (buffer->kind == EMU_BUFFER_ARGUMENT) return parameter_text(arena, value);
    if (buffer->kind == EMU_BUFFER_TABLE) return "table of addresses";
    if (buffer->kind == EMU_BUFFER_OUTPUT)
        return hlo_is(value, HLO_OP_PARAMETER) ? hlo_arena_format(arena, "copy of %s", parameter_text(arena, value))
                                               : "result";
    const HloInstruction *parameter = parameter_of(value);
    const bool gathers = emu_synchronous_opcode(value) == HLO_OP_ALL_GATHER;
    if (parameter)
        return hlo_arena_format(arena, "%s of %s", gathers ? "gathered copy" : "copy",
                                parameter_text(arena, parameter));
    if (gathers) return "gathered array";
    const char *stack = stack_role(arena, buffer);
    return stack ? stack : scope_role(value);
}
