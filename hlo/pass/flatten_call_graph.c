// SPDX-License-Identifier: Apache-2.0
// Turns the call graph into a tree: a computation that several calls, loops or branches use is copied for each except
// the first. Reducers, comparators and fused computations stay shared; they are not separate code.
//
// Passes that move code across calls, and a partitioner that has one plan per computation, rely on the fact that a
// change in a computation affects only one caller. Copies are made breadth first from the entry, so that the first
// caller in program order keeps the original and its name.
//
//   a = call(x), to_apply=f;  b = call(y), to_apply=f   ->   a = call(x), to_apply=f;  b = call(y), to_apply=f.1
#include <assert.h>

#include "hlo/analysis/calls.h"
#include "hlo/pass/pass.h"

typedef struct Flattening {
    const HloPassEnv *env;
    HloIntMap owned;  // computations that already have a caller, by id
    bool changed;
} Flattening;

// Gives `caller` copies of the called computations that it does not own.
static void flatten(Flattening *flattening, HloInstruction *caller) {
    HloArena *scratch = flattening->env->scratch;
    HloComputation **called = HLO_ARENA_NEW(scratch, HloComputation *, caller->called_count);
    bool changed = false;
    assert(hlo_runs_what_it_calls(caller));
    for (int64_t i = 0; i < caller->called_count; i++) {
        called[i] = caller->called[i];
        if (hlo_int_map_find(&flattening->owned, (uint64_t)called[i]->id)) {
            called[i] = hlo_computation_clone(called[i]->module, called[i], called[i]->name);
            changed = true;
        }
        hlo_int_map_set(scratch, &flattening->owned, (uint64_t)called[i]->id, 1);
    }
    if (changed) hlo_instruction_set_called(caller, called, caller->called_count);
    flattening->changed |= changed;
}

HloStatus hlo_pass_flatten_call_graph(HloModule *module, const HloPassEnv *env, bool *changed) {
    HLO_TRY(hlo_check_call_copies(module, env->scratch));
    Flattening flattening = {.env = env};
    // Callers before callees: copies are appended to the list of computations, so they are visited too.
    HLO_VECTOR(HloComputation *) todo = {0};
    hlo_vector_push(env->scratch, &todo, module->entry);
    for (int64_t n = 0; n < todo.count; n++) {
        for (HloInstruction *i = todo.items[n]->first; i; i = i->next) {
            if (!hlo_runs_what_it_calls(i)) continue;
            flatten(&flattening, i);
            for (int64_t k = 0; k < i->called_count; k++) hlo_vector_push(env->scratch, &todo, i->called[k]);
        }
    }
    *changed |= flattening.changed;
    return HLO_SUCCESS;
}
