// SPDX-License-Identifier: Apache-2.0
// Computations: lists of instructions with a root and parameters by number, and their copies. The order of the list is
// guaranteed only between passes: parsers, the pass runner and schedules leave operands before their users, while a
// running pass may append its new instructions at the end (hlo_computation_sort restores the order).
#include "hlo/ir/computation.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/custom_call.h"
#include "hlo/ir/module.h"
#include "hlo/ir/names.h"

void hlo_computation_set_name(HloComputation *computation, const char *name) {
    assert(computation && !computation->removed);
    HloModule *module = computation->module;
    computation->name = hlo_unique_name(module->arena, &module->computation_names, name, computation);
}

HloComputation *hlo_computation_new(HloModule *module, const char *name) {
    assert(module);
    HloComputation *computation = HLO_ARENA_NEW(module->arena, HloComputation, 1);
    computation->module = module;
    computation->id = module->computation_limit++;
    hlo_computation_set_name(computation, name ? name : "region");
    hlo_vector_push(module->arena, &module->computations, computation);
    return computation;
}

void hlo_computation_set_root(HloComputation *computation, HloInstruction *root) {
    assert(root && root->parent == computation);
    HLO_BUG_IF(root->parent != computation);
    computation->root = root;
}

void hlo_computation_remove(HloComputation *computation) {
    assert(!computation->removed);
    assert(computation != computation->module->entry);
    HLO_BUG_IF(computation->callers.count > 0 || computation->module->entry == computation);
    for (HloInstruction *i = computation->first; i; i = i->next) {
        if (i->called_count) hlo_instruction_set_called(i, NULL, 0);
    }
    HloComputationVector *all = &computation->module->computations;
    for (int64_t i = 0; i < all->count; i++) {
        if (all->items[i] != computation) continue;
        memmove(&all->items[i], &all->items[i + 1], (size_t)(all->count - i - 1) * sizeof(*all->items));
        all->count--;
        break;
    }
    computation->removed = true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Order

typedef struct Walk {
    HloArena *arena;
    HLO_VECTOR(HloInstruction *) stack;
    HloInstruction **order;
    int64_t count;
    uint8_t *state;  // by instruction id minus first_id: 0 unseen, 1 on the stack, 2 placed
    int64_t first_id, last_id;
} Walk;

static uint8_t *state_of(Walk *walk, const HloInstruction *instruction) {
    HLO_BUG_IF(instruction->id < walk->first_id || instruction->id > walk->last_id);  // of another computation
    return &walk->state[instruction->id - walk->first_id];
}

static void push_unseen(Walk *walk, HloInstruction *const *items, int64_t count) {
    for (int64_t i = count - 1; i >= 0; i--) {
        if (*state_of(walk, items[i]) == 0) hlo_vector_push(walk->arena, &walk->stack, items[i]);
    }
}

static void visit(Walk *walk, HloInstruction *start) {
    hlo_vector_push(walk->arena, &walk->stack, start);
    while (walk->stack.count) {
        HloInstruction *top = walk->stack.items[walk->stack.count - 1];
        uint8_t *state = state_of(walk, top);
        if (*state == 0) {
            *state = 1;
            push_unseen(walk, top->control_predecessors.items, top->control_predecessors.count);
            push_unseen(walk, top->operands, top->operand_count);
            continue;
        }
        walk->stack.count--;
        if (*state == 1) walk->order[walk->count++] = top;
        *state = 2;
    }
}

// Finds the smallest and the largest id of the computation's instructions: tables span only its own ids, because a
// module may have thousands of computations.
static void find_ids(const HloComputation *computation, int64_t *first, int64_t *last) {
    *first = INT64_MAX;
    *last = -1;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        *first = i->id < *first ? i->id : *first;
        *last = i->id > *last ? i->id : *last;
    }
}

// Operands come before users, in the order of the list wherever there is a choice, so that equal programs are walked
// alike.
HloInstruction **hlo_computation_post_order(const HloComputation *computation, HloArena *arena, int64_t *count) {
    assert(computation && arena && count);
    Walk walk = {.arena = arena};
    walk.order = HLO_ARENA_NEW(arena, HloInstruction *, computation->instruction_count);
    int64_t first, last;
    find_ids(computation, &first, &last);
    walk.first_id = first;
    walk.last_id = last;
    walk.state = HLO_ARENA_NEW(arena, uint8_t, last < first ? 0 : last - first + 1);
    for (HloInstruction *i = computation->first; i; i = i->next) {
        if (*state_of(&walk, i) == 0) visit(&walk, i);
    }
    assert(walk.count == computation->instruction_count);
    *count = walk.count;
    return walk.order;
}

void hlo_computation_sort(HloComputation *computation) {
    HloArena *scratch = computation->module->arena;
    int64_t count;
    HloArenaMark mark = hlo_arena_mark(scratch);
    HloInstruction **order = hlo_computation_post_order(computation, scratch, &count);
    for (int64_t i = 0; i < count; i++) {
        order[i]->previous = i > 0 ? order[i - 1] : NULL;
        order[i]->next = i + 1 < count ? order[i + 1] : NULL;
    }
    computation->first = count ? order[0] : NULL;
    computation->last = count ? order[count - 1] : NULL;
    hlo_arena_reset(scratch, mark);
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies

typedef struct CloneState {
    HloModule *module;
    const HloModule *from;
    HloComputation **computations;  // clones by source computation id, when the modules differ
} CloneState;

static HloComputation *clone_computation(CloneState *state, const HloComputation *computation, const char *name);

static void clone_calls(CloneState *state, HloInstruction *clone, const HloInstruction *from) {
    assert(clone->opcode == from->opcode);
    HloComputation **called = HLO_ARENA_NEW(state->module->arena, HloComputation *, from->called_count);
    for (int32_t i = 0; i < from->called_count; i++) {
        const HloComputation *source = from->called[i];
        if (!state->computations[source->id]) {
            state->computations[source->id] = clone_computation(state, source, source->name);
        }
        called[i] = state->computations[source->id];
    }
    hlo_instruction_set_called(clone, called, from->called_count);
}

// Clones in list order, in which operands come before users, so that one table from old ids to clones suffices. Called
// computations are cloned only into another module: within one module, clones call what the originals call.
static HloComputation *clone_computation(CloneState *state, const HloComputation *computation, const char *name) {
    assert(computation && computation->root);
    HloModule *module = state->module;
    HloArena *scratch = hlo_arena_scratch_new();
    HloComputation *copy = hlo_computation_new(module, name);
    copy->execution_thread = hlo_arena_text(module->arena, computation->execution_thread);
    int64_t first, last;
    find_ids(computation, &first, &last);
    HloInstruction **clones = HLO_ARENA_NEW(scratch, HloInstruction *, last < first ? 0 : last - first + 1);
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        HloInstruction **operands = HLO_ARENA_NEW(scratch, HloInstruction *, i->operand_count);
        for (int32_t j = 0; j < i->operand_count; j++) {
            operands[j] = clones[i->operands[j]->id - first];
            assert(operands[j]);  // operands come before their users
        }
        HloInstruction *clone = hlo_instruction_clone(copy, i, i->shape, operands, i->operand_count);
        if (i->called_count && module != state->from) clone_calls(state, clone, i);
        for (int64_t j = 0; j < i->control_predecessors.count; j++) {
            HloInstruction *before = clones[i->control_predecessors.items[j]->id - first];
            assert(before);
            hlo_instruction_add_control_edge(before, clone);
        }
        clones[i->id - first] = clone;
        if (i == computation->root) copy->root = clone;
    }
    hlo_arena_free(scratch);
    return copy;
}

HloComputation *hlo_computation_clone(HloModule *module, const HloComputation *computation, const char *name) {
    assert(module && computation);
    CloneState state = {.module = module, .from = computation->module};
    if (module != computation->module) {
        state.computations = HLO_ARENA_NEW(module->arena, HloComputation *, computation->module->computation_limit);
    }
    return clone_computation(&state, computation, name ? name : computation->name);
}

void hlo_module_clone_computations(HloModule *module, const HloModule *from) {
    CloneState state = {.module = module, .from = from};
    state.computations = HLO_ARENA_NEW(module->arena, HloComputation *, from->computation_limit);
    int64_t count;
    HloComputation **order = hlo_module_post_order(from, module->arena, &count);
    for (int64_t i = 0; i < count; i++) {
        if (!state.computations[order[i]->id]) {
            state.computations[order[i]->id] = clone_computation(&state, order[i], order[i]->name);
        }
    }
    module->entry = from->entry ? state.computations[from->entry->id] : NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

HloOpcode hlo_computation_binary_opcode(const HloComputation *computation) {
    assert(computation);
    const HloInstruction *root = computation->root;
    while (root && hlo_custom_call_returns_operand(root)) root = root->operands[0];
    if (!root || computation->parameters.count != 2 || root->operand_count != 2 ||
        !hlo_op_is(root->opcode, HLO_OP_IS_ELEMENTWISE) || !hlo_shape_is_scalar(root->shape) ||
        hlo_op_info(root->opcode)->family != HLO_FAMILY_None) {
        return HLO_OPCODE_COUNT;
    }
    const HloInstruction *a = root->operands[0], *b = root->operands[1];
    if (!hlo_is(a, HLO_OP_PARAMETER) || !hlo_is(b, HLO_OP_PARAMETER) || a == b) return HLO_OPCODE_COUNT;
    bool in_order = hlo_parameter_number(a) == 0;
    return in_order || hlo_op_is(root->opcode, HLO_OP_IS_COMMUTES) ? root->opcode : HLO_OPCODE_COUNT;
}

HloComputation *hlo_computation_new_binary(HloModule *module, const char *name, HloOpcode opcode,
                                           const HloShape *scalar, const char *const *names) {
    assert(hlo_op_info(opcode)->arity == 2);
    assert(scalar->rank == 0); /* reducers see one element of each side */
    HloComputation *computation = hlo_computation_new(module, name);
    HloInstruction *parameters[2];
    for (int64_t i = 0; i < 2; i++) {
        const HloParameterAttributes attributes = {.number = i};
        parameters[i] =
            hlo_instruction_new(computation, HLO_OP_PARAMETER, scalar, NULL, 0, &attributes, names ? names[i] : NULL);
    }
    hlo_computation_set_root(computation, hlo_instruction_new(computation, opcode, scalar, parameters, 2, NULL, NULL));
    return computation;
}

HloComputation *hlo_computation_find_binary(const HloModule *module, HloOpcode opcode, HloType type) {
    assert(module && hlo_type_is_array(type));
    for (int64_t i = 0; i < module->computations.count; i++) {
        HloComputation *computation = module->computations.items[i];
        if (computation->root && computation->root->shape->type == type && computation->instruction_count == 3 &&
            hlo_computation_binary_opcode(computation) == opcode) {
            return computation;
        }
    }
    return NULL;
}
