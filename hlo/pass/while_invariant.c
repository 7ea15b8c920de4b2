// SPDX-License-Identifier: Apache-2.0
// Loop-invariant code: what a body computes from invariant elements and constants alone is computed once, before the
// loop, and carried in as a new element of the state. Cheap ops that make more data than they read stay inside.
//
// find_invariants() marks in one walk what depends on nothing but invariant elements and constants; value_before() then
// copies trees of those in front of the loop, each instruction once. Only the tops that something in the body still
// reads become elements of the state, since each costs memory for as long as the loop runs. A loop that never runs
// computes what was moved all the same: therefore nothing with an effect and no collective moves, and integer division
// by zero, which does not trap in HLO, needs no care.
//
//   body (i, w, x):  y = tanh(w);  (i + 1, w, x + y)
//   ->               state (i, w, x, tanh(w)), made in front of the loop;  body (i, w, x, y):  (i + 1, w, x + y, y)
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "hlo/pass/while_support.h"

typedef struct Hoist {
    HloInstruction *loop;
    HloArena *scratch;
    HloInstruction **outside;    // by instruction id: the value before the loop of what is invariant, or NULL
    HloInstructionVector moved;  // instructions of the body that have one, but for elements and constants
} Hoist;

// Not worth an element of the state on their own.
static bool is_cheap(const HloInstruction *i) {
    switch (i->opcode) {
        case HLO_OP_CONSTANT:
        case HLO_OP_IOTA:
        case HLO_OP_BROADCAST:
        case HLO_OP_BITCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_TUPLE:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_SLICE:
        case HLO_OP_REVERSE: return true;
        default: return false;
    }
}

// Pure, of invariant operands, and not larger than what it reads unless it is a chain link that costs nothing by
// itself.
static bool may_hoist(const Hoist *hoist, const HloInstruction *i) {
    if (i->opcode == HLO_OP_PARAMETER || i == hoist->loop->called[1]->root || i->sharding) return false;
    if (!hlo_pass_may_replace(i) || hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE)) return false;
    if (hlo_instruction_is_nondeterministic(i)) return false;  // every round draws its own numbers
    for (int64_t k = 0; k < i->called_count; k++) {
        if (hlo_computation_has_effects(i->called[k])) return false;
    }
    int64_t read = 0;
    for (int64_t k = 0; k < i->operand_count; k++) {
        if (!hoist->outside[i->operands[k]->id]) return false;
        read += hlo_shape_bytes(i->operands[k]->shape);
    }
    return i->opcode == HLO_OP_CONSTANT || is_cheap(i) || hlo_shape_bytes(i->shape) <= read;
}

// Finds what is invariant; makes nothing yet but the values that chains need.
static void find_invariants(Hoist *hoist) {
    assert(hoist->loop);
    HloComputation *body = hoist->loop->called[1];
    const HloInstruction *parameter = hlo_pass_loop_parameter(hoist->loop, 1);
    for (HloInstruction *i = body->first; i; i = i->next) {
        bool element = i->opcode == HLO_OP_GET_TUPLE_ELEMENT && i->operands[0] == parameter;
        if (element) {
            int64_t index = HLO_ATTRIBUTES(i, TupleIndex)->index;
            if (hlo_loop_element_is_invariant(hoist->loop, index)) hoist->outside[i->id] = i;
        } else if (may_hoist(hoist, i)) {
            hoist->outside[i->id] = i;
            if (!is_cheap(i)) hlo_vector_push(hoist->scratch, &hoist->moved, i);
        }
    }
}

// Copies one instruction in front of the loop; the values of its operands are known.
static HloInstruction *copy_before(const Hoist *hoist, HloInstruction *i) {
    if (i->opcode == HLO_OP_GET_TUPLE_ELEMENT && i->operands[0]->opcode == HLO_OP_PARAMETER) {
        return hlo_pass_loop_initial(hoist->loop, HLO_ATTRIBUTES(i, TupleIndex)->index);
    }
    HloInstruction **operands = HLO_ARENA_NEW(hoist->scratch, HloInstruction *, i->operand_count);
    for (int64_t k = 0; k < i->operand_count; k++) operands[k] = hoist->outside[i->operands[k]->id];
    HloInstruction *value = hlo_instruction_clone(hoist->loop->parent, i, i->shape, operands, i->operand_count);
    hlo_instruction_move_before(value, hoist->loop);
    return value;
}

// The value of `top` in front of the loop: copies it and what it needs, once. With a stack of its own, since a chain in
// the body may be longer than C's stack is deep. An instruction stays on it until its operands have their values.
static HloInstruction *value_before(Hoist *hoist, HloInstruction *top) {
    assert(hoist->loop && hoist->outside[top->id]);
    HloInstructionVector todo = {0};
    hlo_vector_push(hoist->scratch, &todo, top);
    while (todo.count) {
        HloInstruction *i = todo.items[todo.count - 1];
        const int64_t waiting = todo.count;
        for (int64_t k = 0; k < i->operand_count && hoist->outside[i->id] == i; k++) {
            HloInstruction *operand = i->operands[k];
            if (hoist->outside[operand->id] == operand) hlo_vector_push(hoist->scratch, &todo, operand);
        }
        if (todo.count > waiting) continue;
        todo.count--;
        if (hoist->outside[i->id] == i) hoist->outside[i->id] = copy_before(hoist, i);
    }
    return hoist->outside[top->id];
}

// True if something that stays in the body reads it.
static bool is_read_inside(const Hoist *hoist, const HloInstruction *i) {
    for (int64_t u = 0; u < i->users.count; u++) {
        const HloInstruction *user = i->users.items[u];
        if (!hoist->outside[user->id] || is_cheap(user)) return true;
    }
    return false;
}

// Puts `count` values behind the loop's state, and reads them in the body instead of computing them.
static void widen(Hoist *hoist, HloInstruction *const *inside, int64_t count) {
    assert(count > 0 && inside);
    HloInstruction *loop = hoist->loop, *root = loop->called[1]->root;
    HloArena *arena = loop->parent->module->arena;
    int64_t old = loop->shape->element_count, total = old + count;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, total);
    HloInstruction **initial = HLO_ARENA_NEW(hoist->scratch, HloInstruction *, total);
    HloInstruction **next = HLO_ARENA_NEW(hoist->scratch, HloInstruction *, total);
    for (int64_t i = 0; i < total; i++) {
        initial[i] = i < old ? hlo_pass_loop_initial(loop, i) : value_before(hoist, inside[i - old]);
        shapes[i] = i < old ? loop->shape->elements[i] : inside[i - old]->shape;
        next[i] = i < old ? root->operands[i] : NULL;
    }
    hlo_pass_loop_set_state(loop, hlo_shape_tuple(arena, shapes, total), hlo_pass_tuple(loop, initial, total));
    HloInstruction *parameter = hlo_pass_loop_parameter(loop, 1);
    for (int64_t i = old; i < total; i++) {
        next[i] = hlo_pass_get(root, parameter, i);
        hlo_instruction_move_after(next[i], parameter);
        hlo_instruction_replace_uses(inside[i - old], next[i]);
    }
    for (int64_t i = 0; i < old; i++) next[i] = root->operands[i];
    hlo_instruction_set_operands(root, next, total);
    hlo_pass_remove_unused(loop->called[1]);
}

// Readers of the whole state see the old part of it.
static void keep_old_state(HloInstruction *loop, int64_t old, HloArena *scratch) {
    assert(hlo_is(loop, HLO_OP_WHILE) && old >= 0);
    HloInstructionVector readers = {0};
    for (int64_t u = 0; u < loop->users.count; u++) {
        HloInstruction *user = loop->users.items[u];
        if (user->opcode != HLO_OP_GET_TUPLE_ELEMENT) hlo_vector_push(scratch, &readers, user);
    }
    bool is_root = hlo_instruction_is_root(loop);
    if (readers.count == 0 && !is_root) return;
    HloInstruction **elements = HLO_ARENA_NEW(scratch, HloInstruction *, old);
    HloInstruction *position = loop;
    for (int64_t i = 0; i < old; i++) {
        elements[i] = hlo_pass_get(loop, loop, i);
        hlo_instruction_move_after(elements[i], position);
        position = elements[i];
    }
    HloInstruction *state = hlo_pass_tuple(loop, elements, old);
    hlo_instruction_move_after(state, position);
    for (int64_t i = 0; i < readers.count; i++) hlo_instruction_replace_use(loop, readers.items[i], state);
    if (is_root) hlo_computation_set_root(loop->parent, state);
}

// False, and nothing changed, when nothing that is read inside can leave.
static bool hoist_from(HloInstruction *loop, HloArena *scratch) {
    assert(hlo_is(loop, HLO_OP_WHILE) && scratch);
    if (!hlo_pass_is_plain_loop(loop)) return false;
    Hoist hoist = {.loop = loop, .scratch = scratch};
    hlo_computation_sort(loop->called[1]);
    hoist.outside = HLO_ARENA_NEW(scratch, HloInstruction *, loop->parent->module->instruction_limit);
    find_invariants(&hoist);
    HloInstructionVector inside = {0};
    for (int64_t i = 0; i < hoist.moved.count; i++) {
        if (is_read_inside(&hoist, hoist.moved.items[i])) hlo_vector_push(scratch, &inside, hoist.moved.items[i]);
    }
    if (inside.count == 0) return false;
    int64_t old = loop->shape->element_count;
    widen(&hoist, inside.items, inside.count);
    keep_old_state(loop, old, scratch);
    return true;
}

// The state grows at its end, so element numbers that users have stay right.
HloStatus hlo_pass_while_loop_invariant_code_motion(HloModule *module, const HloPassEnv *env, bool *changed) {
    int64_t count;
    // Inner loops first: what leaves them may leave the outer ones too.
    HloComputation **order = hlo_module_post_order(module, env->scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *i = order[c]->first, *next; i; i = next) {
            next = i->next;
            if (i->opcode != HLO_OP_WHILE) continue;
            HloArenaMark mark = hlo_arena_mark(env->scratch);
            *changed |= hoist_from(i, env->scratch);
            hlo_arena_reset(env->scratch, mark);
        }
    }
    return HLO_SUCCESS;
}
