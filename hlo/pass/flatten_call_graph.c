// SPDX-License-Identifier: Apache-2.0
// The call graph as a tree: a computation that several calls, loops or branches use is copied for each but the first.
// Reducers, comparators and fused computations stay shared; they are no code of their own.
//
// Passes that move code across calls, and a partitioner that gives a computation one plan, need to know that what they
// change in a computation concerns one caller only. Copies are made breadth first from the entry, so that the first
// caller in program order keeps the original and its name.
//
//   a = call(x), to_apply=f;  b = call(y), to_apply=f   ->   a = call(x), to_apply=f;  b = call(y), to_apply=f.1
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

// Calls of calls multiply: forty computations that each call the next one twice would be 2^40 copies.
enum { MOST_COPIED = 1 << 20 };  // instructions

typedef struct Flattening {
    const HloPassEnv *env;
    HloIntMap owned;  // computations that a caller has taken, by id
    int64_t copied;   // instructions
    bool changed;
} Flattening;

// Gives `caller` copies of what it does not own.
static HloStatus flatten(Flattening *flattening, HloInstruction *caller) {
    HloArena *scratch = flattening->env->scratch;
    HloComputation **called = HLO_ARENA_NEW(scratch, HloComputation *, caller->called_count);
    bool changed = false;
    assert(is_sequential(caller));
    for (int64_t i = 0; i < caller->called_count; i++) {
        called[i] = caller->called[i];
        if (hlo_int_map_find(&flattening->owned, (uint64_t)called[i]->id)) {
            flattening->copied += called[i]->instruction_count;
            HLO_FAIL_IF(flattening->copied > MOST_COPIED, HLO_RESOURCE_EXHAUSTED,
                        "%%%s in %%%s: with a copy of %%%s there are more than %d instructions in copies", caller->name,
                        caller->parent->name, called[i]->name, MOST_COPIED);
            called[i] = hlo_computation_clone(called[i]->module, called[i], called[i]->name);
            changed = true;
        }
        hlo_int_map_set(scratch, &flattening->owned, (uint64_t)called[i]->id, 1);
    }
    if (changed) hlo_instruction_set_called(caller, called, caller->called_count);
    flattening->changed |= changed;
    return HLO_SUCCESS;
}

HloStatus hlo_pass_flatten_call_graph(HloModule *module, const HloPassEnv *env, bool *changed) {
    Flattening flattening = {.env = env};
    // Callers before callees: copies are then walked too, because they stand behind in the list of computations.
    HLO_VECTOR(HloComputation *) todo = {0};
    hlo_vector_push(env->scratch, &todo, module->entry);
    for (int64_t n = 0; n < todo.count; n++) {
        for (HloInstruction *i = todo.items[n]->first; i; i = i->next) {
            if (!is_sequential(i)) continue;
            HLO_TRY(flatten(&flattening, i));
            for (int64_t k = 0; k < i->called_count; k++) hlo_vector_push(env->scratch, &todo, i->called[k]);
        }
    }
    *changed |= flattening.changed;
    return HLO_SUCCESS;
}
