// SPDX-License-Identifier: Apache-2.0
// The effects of an instruction besides its value, including those of its callees: passes query them before they
// remove, merge or move something.
//
// An answer is a walk over the call graph below the instruction that visits every computation once, however many paths
// lead to it: if each computation calls the next one twice, forty computations have 2^40 paths. Nothing is cached
// between queries, because passes change computations all the time. When memory is short the answer is "yes", which
// never permits a pass to do something wrong.
#include <assert.h>

#include "hlo/ir/module.h"

// The property tested on one instruction, callees not included.
typedef bool Test(const HloInstruction *instruction);

// True if an instruction of this computation itself passes the test; sets *calls if there are callees to visit.
static bool passes_here(const HloComputation *computation, Test *test, bool *calls) {
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        if (test(i)) return true;
        *calls |= i->called_count > 0;
    }
    return false;
}

// The computations found so far, and among them those still to be visited.
typedef struct Reached {
    const HloComputation **waiting;
    bool *known;  // by computation id
    int64_t count;
} Reached;

static void reach(Reached *reached, HloComputation *const *called, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (reached->known[called[i]->id]) continue;
        reached->known[called[i]->id] = true;
        reached->waiting[reached->count++] = called[i];
    }
}

// True if an instruction of `called`, or of anything reachable from them, passes the test.
static bool passes_below(HloComputation *const *called, int64_t count, Test *test) {
    bool deeper = false, found = false;
    // Reducers and comparators call nothing, and they are the majority: they need no memory.
    for (int64_t i = 0; i < count; i++) {
        if (passes_here(called[i], test, &deeper)) return true;
    }
    if (!deeper) return false;
    const size_t limit = (size_t)called[0]->module->computation_limit;
    Reached reached = {.waiting = hlo_allocate_zeroed(limit, sizeof(HloComputation *)),
                       .known = hlo_allocate_zeroed(limit, sizeof(bool))};
    found = !reached.waiting || !reached.known;
    if (!found) reach(&reached, called, count);
    while (reached.count > 0 && !found) {
        const HloComputation *computation = reached.waiting[--reached.count];
        found = passes_here(computation, test, &deeper);
        for (const HloInstruction *i = computation->first; i && !found; i = i->next) {
            reach(&reached, i->called, i->called_count);
        }
    }
    hlo_free(reached.waiting);
    hlo_free(reached.known);
    return found;
}

static bool has_own_side_effect(const HloInstruction *i) {
    if (hlo_op_is(i->opcode, HLO_OP_IS_SIDE_EFFECT)) return true;
    return hlo_is(i, HLO_OP_CUSTOM_CALL) && HLO_ATTRIBUTES(i, CustomCall)->has_side_effect;
}

static bool is_collective_or_effect(const HloInstruction *i) {
    return hlo_op_is(i->opcode, HLO_OP_IS_COLLECTIVE) || has_own_side_effect(i);
}

static bool draws(const HloInstruction *i) {
    return hlo_op_is(i->opcode, HLO_OP_IS_NONDETERMINISTIC);
}

bool hlo_instruction_has_side_effect(const HloInstruction *instruction) {
    assert(instruction);
    return has_own_side_effect(instruction) ||
           passes_below(instruction->called, instruction->called_count, has_own_side_effect);
}

bool hlo_instruction_is_nondeterministic(const HloInstruction *instruction) {
    assert(instruction);
    return draws(instruction) || passes_below(instruction->called, instruction->called_count, draws);
}

bool hlo_computation_has_effects(const HloComputation *computation) {
    assert(computation && !computation->removed);
    HloComputation *self = (HloComputation *)computation;  // only read
    return passes_below(&self, 1, is_collective_or_effect);
}
