// SPDX-License-Identifier: Apache-2.0
// Simplifies loops: loops that run at most once disappear; users read elements of the state that never change from
// before the loop, and the body reads constants among them inside it; unused elements are dropped.
//
// There are five rewrites. A loop with a known trip count of zero or one becomes its initial state or its body. Users
// after a loop read invariant elements from before it, and the counter of a counted loop as a constant. Unchanged
// constants become constants inside, where other rules see them (state.c). Elements on which neither users, nor the
// condition, nor effects of the body depend, even through other elements in later iterations, are dropped
// (live_elements() is a fixed point over iterations). The unroller below expands loops of a few small iterations
// completely.
//
//   state (i, w, unused, x)   ->   (i, w, x), where nothing reads `unused`; after the loop, w is read from before it
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "hlo/pass/loop/support.h"

// The body's effects happen once or never, as in the loop; those of the condition would be lost.
static bool run_at_most_once(HloInstruction *loop, const HloPassEnv *env) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    if (loop->control_predecessors.count || loop->control_successors.count || loop->sharding) return false;
    if (hlo_pass_has_partitioner_attributes(loop)) return false;
    HloCountedLoop counted;
    if (!hlo_counted_loop(loop, &counted) || counted.trip_count > 1) return false;
    if (hlo_computation_has_effects(loop->called[0])) return false;
    HloInstruction *result = loop->operands[0];
    if (counted.trip_count == 1) result = hlo_pass_inline(loop, loop->called[1], loop->operands, env->scratch);
    return hlo_pass_loop_replace(loop, result);
}

static bool is_read(const HloInstruction *element) {
    return element->users.count > 0 || hlo_instruction_is_root(element);
}

// Users outside of the loop need not wait for an element that the loop does not change.
static bool read_invariants_before(HloInstruction *loop) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    bool changed = false;
    for (int64_t i = loop->users.count - 1; i >= 0; i--) {
        HloInstruction *user = loop->users.items[i];
        if (user->opcode != HLO_OP_GET_TUPLE_ELEMENT) continue;
        int64_t index = HLO_ATTRIBUTES(user, TupleIndex)->index;
        if (loop->operands[0]->opcode != HLO_OP_TUPLE || !hlo_loop_element_is_invariant(loop, index)) continue;
        changed |= is_read(user) && hlo_pass_replace(user, hlo_pass_loop_initial(loop, index));
    }
    return changed;
}

// The last value of the counter that ends a loop is known.
static bool read_counter_after(HloInstruction *loop) {
    HloCountedLoop counted;
    bool changed = false;
    if (!hlo_counted_loop(loop, &counted) || counted.index < 0) return false;
    const int64_t last = counted.start + counted.step * counted.trip_count;
    for (int64_t i = loop->users.count - 1; i >= 0; i--) {
        HloInstruction *user = loop->users.items[i];
        if (user->opcode != HLO_OP_GET_TUPLE_ELEMENT || HLO_ATTRIBUTES(user, TupleIndex)->index != counted.index)
            continue;
        changed |= is_read(user) && hlo_pass_replace(user, hlo_pass_integer(user, user->shape->type, last));
    }
    return changed;
}

// ---------------------------------------------------------------------------------------------------------------------
// Dropping unused state

// Marks the instructions, by id, that the computation of `start` needs.
static void mark_needed(HloInstruction *start, bool *needed, HloArena *scratch) {
    HloInstructionVector todo = {0};
    hlo_vector_push(scratch, &todo, start);
    while (todo.count) {
        HloInstruction *i = todo.items[--todo.count];
        if (needed[i->id]) continue;
        needed[i->id] = true;
        for (int64_t k = 0; k < i->operand_count; k++) hlo_vector_push(scratch, &todo, i->operands[k]);
    }
}

// The elements of the state on which the rest of the program, the condition, or effects in the body depend.
static bool *live_elements(HloInstruction *loop, HloArena *scratch) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    HloModule *module = loop->parent->module;
    int64_t count = loop->shape->element_count;
    bool *live = HLO_ARENA_NEW(scratch, bool, count), *needed = HLO_ARENA_NEW(scratch, bool, module->instruction_limit);
    const HloInstruction *readers[] = {loop, hlo_pass_loop_parameter(loop, 0)};
    for (int64_t r = 0; r < 2; r++) {
        for (int64_t u = 0; u < readers[r]->users.count; u++) {
            const HloInstruction *element = readers[r]->users.items[u];
            // If the condition does not use an element, its reader there is removed with the element.
            bool unused = r == 1 && element->users.count == 0 && !hlo_instruction_is_root(element) &&
                          element->control_predecessors.count + element->control_successors.count == 0;
            if (!unused) live[HLO_ATTRIBUTES(element, TupleIndex)->index] = true;
        }
    }
    HloComputation *body = loop->called[1];
    for (HloInstruction *i = body->first; i; i = i->next) {
        bool effect =
            i->control_predecessors.count || i->control_successors.count || hlo_instruction_has_side_effect(i);
        if (effect) mark_needed(i, needed, scratch);
    }
    const HloInstruction *parameter = hlo_pass_loop_parameter(loop, 1);
    for (bool grown = true; grown;) {
        grown = false;
        for (int64_t i = 0; i < count; i++) {
            if (live[i]) mark_needed(body->root->operands[i], needed, scratch);
        }
        for (int64_t u = 0; u < parameter->users.count; u++) {
            const HloInstruction *element = parameter->users.items[u];
            int64_t index = HLO_ATTRIBUTES(element, TupleIndex)->index;
            if (element == body->root || live[index] || !needed[element->id]) continue;
            live[index] = grown = true;
        }
    }
    return live;
}

// Drops dead elements; the others keep their order. At least one stays, or the loop could not be expressed.
static bool drop_dead_state(HloInstruction *loop, const HloPassEnv *env) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    const int64_t count = loop->shape->element_count;
    if (!hlo_pass_loop_may_renumber(loop)) return false;
    const bool *live = live_elements(loop, env->scratch);
    int64_t *elements = HLO_ARENA_NEW(env->scratch, int64_t, count), kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (live[i]) elements[kept++] = i;
    if (kept == count || kept == 0) return false;
    hlo_pass_loop_keep_elements(loop, elements, kept, env->scratch);
    return true;
}

// If the loop itself has been removed, there is nothing left to simplify.
static bool simplify(HloInstruction *loop, const HloPassEnv *env) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    if (run_at_most_once(loop, env)) return true;
    if (!hlo_pass_is_plain_loop(loop)) return false;
    bool changed = read_invariants_before(loop);
    changed |= read_counter_after(loop);
    changed |= hlo_pass_loop_sink_constants(loop);
    return drop_dead_state(loop, env) || changed;
}

// Inner loops first: once simplified, they may make an outer one plain.
HloStatus hlo_pass_while_loop_simplifier(HloModule *module, const HloPassEnv *env, bool *changed) {
    *changed |= hlo_pass_change_each(module, env, HLO_OP_WHILE, simplify);
    if (*changed) hlo_module_remove_unreachable(module);
    return HLO_SUCCESS;
}

// Unrolls loops whose iterations together stay below a number of instructions; one iteration after the other, each on
// the state that the previous one returned.
HloStatus hlo_pass_while_loop_unroller(HloModule *module, const HloPassEnv *env, bool *changed) {
    int64_t count;
    HloComputation **order = hlo_module_post_order(module, env->scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        for (HloInstruction *i = order[c]->first, *next; i; i = next) {
            next = i->next;
            HloCountedLoop counted;
            if (i->control_predecessors.count || i->control_successors.count || i->sharding) continue;
            if (hlo_pass_has_partitioner_attributes(i)) continue;
            if (!hlo_counted_loop(i, &counted) || hlo_computation_has_effects(i->called[0])) continue;
            int64_t size = i->called[1]->instruction_count;
            if (size == 0 || counted.trip_count > env->unroll_instructions / size) continue;
            HloInstruction *state = i->operands[0];
            for (int64_t trip = 0; trip < counted.trip_count; trip++) {
                HloArenaMark mark = hlo_arena_mark(env->scratch);
                state = hlo_pass_inline(i, i->called[1], &state, env->scratch);
                hlo_arena_reset(env->scratch, mark);
            }
            *changed |= hlo_pass_loop_replace(i, state);
        }
    }
    if (*changed) hlo_module_remove_unreachable(module);
    return HLO_SUCCESS;
}
