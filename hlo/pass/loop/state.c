// SPDX-License-Identifier: Apache-2.0
// The state of a loop in one form, whichever front end wrote it: constants are inside, and what the loop never changes
// comes last.
//
// A front end chooses the order of the elements. JAX puts what a body only reads first, and XLA's reader of StableHLO
// last, in the order in which the body first uses it, without the constants. Schedules and buffers follow that order,
// so that one program in two forms would take different times.
//
//   state (w, i, 3, x), w and 3 unchanged   ->   state (i, x, w), and 3 a constant in the body
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "hlo/pass/loop/support.h"

// ---------------------------------------------------------------------------------------------------------------------
// Constants

// Returns the copy of a constant, or of a repeated one, at the start of a computation.
static HloInstruction *copy_inside(HloComputation *computation, const HloInstruction *constant) {
    HloInstruction *operand =
        hlo_is(constant, HLO_OP_BROADCAST) ? copy_inside(computation, constant->operands[0]) : NULL;
    HloInstruction *copy =
        hlo_instruction_clone(computation, constant, constant->shape, operand ? &operand : NULL, operand != NULL);
    if (operand)
        hlo_instruction_move_after(copy, operand);
    else
        hlo_instruction_move_before(copy, computation->first);
    return copy;
}

static bool is_constant(const HloInstruction *i) {
    return i->opcode == HLO_OP_CONSTANT || (hlo_pass_repeats_scalar(i) && i->operands[0]->opcode == HLO_OP_CONSTANT);
}

bool hlo_pass_loop_sink_constants(HloInstruction *loop) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    bool changed = false;
    if (loop->operands[0]->opcode != HLO_OP_TUPLE) return false;
    for (int64_t called = 0; called < 2; called++) {
        HloInstruction *parameter = hlo_pass_loop_parameter(loop, called);
        for (int64_t i = parameter->users.count - 1; i >= 0; i--) {
            HloInstruction *user = parameter->users.items[i];
            int64_t index = HLO_ATTRIBUTES(user, TupleIndex)->index;
            const HloInstruction *initial = loop->operands[0]->operands[index];
            if (!is_constant(initial) || initial->sharding || user->sharding ||
                !hlo_loop_element_is_invariant(loop, index))
                continue;
            // The body's root still passes the element on; other users read the constant.
            HloInstruction *inside = NULL;
            for (int64_t u = user->users.count - 1; u >= 0; u--) {
                HloInstruction *reader = user->users.items[u];
                if (reader == loop->called[1]->root) continue;
                if (!inside) inside = copy_inside(user->parent, initial);
                hlo_instruction_replace_use(user, reader, inside);
                changed = true;
            }
        }
    }
    return changed;
}

// ---------------------------------------------------------------------------------------------------------------------
// Order

typedef struct Order {
    HloArena *scratch;
    const HloInstruction *parameter;  // of the computation that is walked
    bool *seen;                       // by instruction id
    bool *placed;                     // by element
    int64_t *elements, count;         // in the new order, by their old numbers
} Order;

static void place(Order *order, int64_t element) {
    if (!order->placed[element]) order->elements[order->count++] = element;
    order->placed[element] = true;
}

// Places the elements that `start` depends on, in the order in which a walk from its first operand to its last meets
// them.
static void place_used(Order *order, HloInstruction *start) {
    HloInstructionVector todo = {0};
    hlo_vector_push(order->scratch, &todo, start);
    while (todo.count) {
        HloInstruction *i = todo.items[--todo.count];
        if (order->seen[i->id]) continue;
        order->seen[i->id] = true;
        if (i->opcode == HLO_OP_GET_TUPLE_ELEMENT && i->operands[0] == order->parameter)
            place(order, HLO_ATTRIBUTES(i, TupleIndex)->index);
        for (int64_t k = i->operand_count - 1; k >= 0; k--) hlo_vector_push(order->scratch, &todo, i->operands[k]);
    }
}

// Elements that change keep their order. The others follow as the condition and then the body, for the elements that
// change, need them; those without use are last.
static bool order_elements(HloInstruction *loop, const HloPassEnv *env) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    const int64_t count = loop->shape->element_count;
    if (!hlo_pass_loop_may_renumber(loop)) return false;
    Order order = {.scratch = env->scratch,
                   .seen = HLO_ARENA_NEW(env->scratch, bool, loop->parent->module->instruction_limit),
                   .placed = HLO_ARENA_NEW(env->scratch, bool, count),
                   .elements = HLO_ARENA_NEW(env->scratch, int64_t, count)};
    for (int64_t i = 0; i < count; i++)
        if (!hlo_loop_element_is_invariant(loop, i)) place(&order, i);
    const int64_t changing = order.count;
    order.parameter = hlo_pass_loop_parameter(loop, 0);
    place_used(&order, loop->called[0]->root);
    order.parameter = hlo_pass_loop_parameter(loop, 1);
    for (int64_t i = 0; i < changing; i++) place_used(&order, loop->called[1]->root->operands[order.elements[i]]);
    for (int64_t i = 0; i < count; i++) place(&order, i);
    assert(order.count == count);
    bool same = true;
    for (int64_t i = 0; i < count; i++) same &= order.elements[i] == i;
    if (!same) hlo_pass_loop_keep_elements(loop, order.elements, count, env->scratch);
    return !same;
}

static bool put_in_form(HloInstruction *loop, const HloPassEnv *env) {
    if (!hlo_pass_is_plain_loop(loop)) return false;
    const bool sunk = hlo_pass_loop_sink_constants(loop);
    return order_elements(loop, env) || sunk;
}

// Inner loops first: the order of their elements is part of what the body of an outer one uses first.
HloStatus hlo_pass_while_loop_state(HloModule *module, const HloPassEnv *env, bool *changed) {
    *changed |= hlo_pass_change_each(module, env, HLO_OP_WHILE, put_in_form);
    return HLO_SUCCESS;
}
