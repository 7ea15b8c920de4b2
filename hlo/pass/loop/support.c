// SPDX-License-Identifier: Apache-2.0
// The loop as a pattern: a tuple that is only taken apart inside and assembled at the end of the body. In that form
// element i is a variable of the loop, and adding or dropping variables requires that four shapes agree: those of the
// loop, of both parameters and of the body's root.
#include "hlo/pass/loop/support.h"

#include <assert.h>

#include "hlo/analysis/redundant.h"

// True if no user reads the tuple as a whole, so that the number of its elements may change.
static bool only_taken_apart(const HloInstruction *tuple) {
    for (int64_t i = 0; i < tuple->users.count; i++) {
        if (tuple->users.items[i]->opcode != HLO_OP_GET_TUPLE_ELEMENT) return false;
    }
    return !hlo_instruction_is_root(tuple);
}

HloInstruction *hlo_pass_loop_parameter(const HloInstruction *loop, int64_t called) {
    return loop->called[called]->parameters.items[0];
}

// A computation that another instruction also calls must not be changed for this loop.
bool hlo_pass_is_plain_loop(const HloInstruction *loop) {
    assert(hlo_is(loop, HLO_OP_WHILE) && loop->called_count == 2);
    if (loop->opcode != HLO_OP_WHILE || !hlo_shape_is_tuple(loop->shape) || loop->sharding) return false;
    if (hlo_pass_has_partitioner_attributes(loop)) return false;
    if (loop->control_predecessors.count || loop->control_successors.count) return false;
    if (loop->operands[0]->opcode == HLO_OP_TUPLE && loop->operands[0]->sharding) return false;  // by element
    const HloComputation *condition = loop->called[0], *body = loop->called[1];
    if (condition->callers.count != 1 || body->callers.count != 1 || condition == body) return false;
    if (body->root->opcode != HLO_OP_TUPLE || body->root->users.count || body->root->sharding) return false;
    for (int64_t i = 0; i < 2; i++) {
        const HloInstruction *parameter = hlo_pass_loop_parameter(loop, i);
        if (!only_taken_apart(parameter) || parameter->sharding) return false;
    }
    return true;
}

// New instructions are placed before the loop, so that a schedule stays valid.
HloInstruction *hlo_pass_loop_initial(HloInstruction *loop, int64_t index) {
    assert(hlo_is(loop, HLO_OP_WHILE) && index >= 0);
    HloInstruction *initial = loop->operands[0];
    if (initial->opcode == HLO_OP_TUPLE) return initial->operands[index];
    HloInstruction *element = hlo_pass_get(loop, initial, index);
    hlo_instruction_move_before(element, loop);
    return element;
}

// Sets all four shapes; between the caller's change of the root and this call the module is not valid.
void hlo_pass_loop_set_state(HloInstruction *loop, const HloShape *state, HloInstruction *initial) {
    assert(hlo_is(loop, HLO_OP_WHILE) && hlo_shape_equal(state, initial->shape, HLO_COMPARE_IGNORE_LAYOUT));
    loop->shape = state;
    hlo_pass_loop_parameter(loop, 0)->shape = state;
    hlo_pass_loop_parameter(loop, 1)->shape = state;
    loop->called[1]->root->shape = state;
    hlo_instruction_move_before(initial, loop);
    hlo_instruction_set_operand(loop, 0, initial);
}

bool hlo_pass_loop_may_renumber(const HloInstruction *loop) {
    return only_taken_apart(loop);
}

// Assigns the new numbers to what takes the tuple apart.
static void renumber(HloInstruction *tuple, const int64_t *new_index) {
    for (int64_t u = 0; u < tuple->users.count; u++) {
        HloTupleIndexAttributes attributes = {new_index[HLO_ATTRIBUTES(tuple->users.items[u], TupleIndex)->index]};
        hlo_instruction_set_attributes(tuple->users.items[u], &attributes);
    }
}

void hlo_pass_loop_keep_elements(HloInstruction *loop, const int64_t *elements, int64_t count, HloArena *scratch) {
    assert(hlo_is(loop, HLO_OP_WHILE) && count > 0);
    HloArena *arena = loop->parent->module->arena;
    int64_t *new_index = HLO_ARENA_NEW(scratch, int64_t, loop->shape->element_count);
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count);
    HloInstruction **initial = HLO_ARENA_NEW(scratch, HloInstruction *, count);
    HloInstruction **next = HLO_ARENA_NEW(scratch, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) {
        new_index[elements[i]] = i;
        shapes[i] = loop->shape->elements[elements[i]];
        initial[i] = hlo_pass_loop_initial(loop, elements[i]);
        next[i] = loop->called[1]->root->operands[elements[i]];
    }
    hlo_instruction_set_operands(loop->called[1]->root, next, count);
    hlo_pass_remove_unused(loop->called[0]);
    hlo_pass_remove_unused(loop->called[1]);
    renumber(loop, new_index);
    renumber(hlo_pass_loop_parameter(loop, 0), new_index);
    renumber(hlo_pass_loop_parameter(loop, 1), new_index);
    hlo_pass_loop_set_state(loop, hlo_shape_tuple(arena, shapes, count), hlo_pass_tuple(loop, initial, count));
}

// The calls are removed first, or else the removed loop would keep the computations alive.
bool hlo_pass_loop_replace(HloInstruction *loop, HloInstruction *result) {
    assert(hlo_is(loop, HLO_OP_WHILE) && result);
    if (loop->sharding && !hlo_sharding_equal(loop->sharding, result->sharding)) {
        if (result->sharding || result->users.count || result->opcode == HLO_OP_PARAMETER) return false;
        result->sharding = loop->sharding;
    }
    hlo_instruction_replace_uses(loop, result);
    hlo_instruction_set_called(loop, NULL, 0);
    hlo_instruction_remove(loop);
    return true;
}

// Walks from the end, so that operands that lose their last user are visited later.
void hlo_pass_remove_unused(HloComputation *computation) {
    assert(!computation->removed);
    hlo_computation_sort(computation);
    hlo_computation_remove_dead(computation);
}
