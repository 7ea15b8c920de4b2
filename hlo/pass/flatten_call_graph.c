// SPDX-License-Identifier: Apache-2.0
// The call graph as a tree: a computation that several calls, loops or branches use is copied for each but the first.
// Reducers, comparators and fused computations stay shared; they are no code of their own.
//
// Passes that move code across calls, and a partitioner that gives a computation one plan, need to know that what they
// change in a computation concerns one caller only. Copies are made breadth first from the entry, so that the first
// caller in program order keeps the original and its name.
#include <assert.h>

#include "hlo/pass/pass.h"

// Callers whose computation is code that runs in their place, as opposed to a function that is applied to elements.
static bool is_sequential(const HloInstruction *caller) {
    switch (caller->opcode) {
        case HLO_OP_CALL:
        case HLO_OP_WHILE:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_ASYNC_START: return true;
        default: return false;
    }
}

// Gives `caller` copies of what it does not own; `owned` marks computations that a caller has taken.
static bool flatten(HloInstruction *caller, const HloPassEnv *env, HloIntMap *owned) {
    assert(owned && env);
    if (!is_sequential(caller)) return false;
    bool changed = false;
    HloComputation **called = HLO_ARENA_NEW(env->scratch, HloComputation *, caller->called_count);
    for (int64_t i = 0; i < caller->called_count; i++) {
        called[i] = caller->called[i];
        if (hlo_int_map_find(owned, (uint64_t)called[i]->id)) {
            called[i] = hlo_computation_clone(called[i]->module, called[i], called[i]->name);
            changed = true;
        }
        hlo_int_map_set(env->scratch, owned, (uint64_t)called[i]->id, 1);
    }
    if (changed) hlo_instruction_set_called(caller, called, caller->called_count);
    return changed;
}

HloStatus hlo_pass_flatten_call_graph(HloModule *module, const HloPassEnv *env, bool *changed) {
    HloIntMap owned = {0};
    // Callers before callees: copies are then walked too, because they stand behind in the list of computations.
    HLO_VECTOR(HloComputation *) todo = {0};
    hlo_vector_push(env->scratch, &todo, module->entry);
    for (int64_t n = 0; n < todo.count; n++) {
        for (HloInstruction *i = todo.items[n]->first; i; i = i->next) {
            *changed |= flatten(i, env, &owned);
            for (int64_t k = 0; is_sequential(i) && k < i->called_count; k++) {
                hlo_vector_push(env->scratch, &todo, i->called[k]);
            }
        }
        // Calls in call graphs of hostile depth multiply; a million copies is no program any more.
        HLO_FAIL_IF(todo.count > 1000000, HLO_RESOURCE_EXHAUSTED, "the call graph has more than a million paths");
    }
    return HLO_SUCCESS;
}
