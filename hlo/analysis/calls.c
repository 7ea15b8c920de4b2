// SPDX-License-Identifier: Apache-2.0
// Computes the size of the call graph as a tree from the sizes of its parts: callees first, each computation once.
#include "hlo/analysis/calls.h"

#include <assert.h>

enum { MOST_COPIED = 1 << 20 };  // instructions

bool hlo_runs_what_it_calls(const HloInstruction *caller) {
    switch (caller->opcode) {
        case HLO_OP_CALL:
        case HLO_OP_WHILE:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_ASYNC_START: return true;
        default: return false;
    }
}

// The evaluator and the engine have the rule of their own: neither would judge the other if they shared it.
int64_t hlo_selected_branch(const HloInstruction *conditional, int64_t selector) {
    assert(hlo_is(conditional, HLO_OP_CONDITIONAL));
    const int64_t last = conditional->called_count - 1;
    if (conditional->operands[0]->shape->type == HLO_PRED) return selector ? 0 : 1;
    return selector < 0 || selector > last ? last : selector;
}

// Marks the computations that a computation calls, including functions of elements: fusions are expanded in place, and
// the function of a reduction runs for each element. Callers come first, so `reached` of a computation is final when it
// is visited.
static void reach(const HloComputation *computation, bool *reached) {
    assert(reached[computation->id]);
    for (const HloInstruction *at = computation->first; at; at = at->next) {
        for (int32_t i = 0; i < at->called_count; i++) reached[at->called[i]->id] = true;
    }
}

// Sums stay below the limit and a computation's size, so they do not overflow.
HloStatus hlo_check_call_copies(const HloModule *module, HloArena *scratch) {
    assert(module && scratch);
    if (!module->entry) return HLO_SUCCESS;
    int64_t count, limit = MOST_COPIED;
    HloComputation **order = hlo_module_post_order(module, scratch, &count);
    bool *reached = HLO_ARENA_NEW(scratch, bool, module->computation_limit);
    int64_t *sizes = HLO_ARENA_NEW(scratch, int64_t, module->computation_limit);
    reached[module->entry->id] = true;
    for (int64_t c = count - 1; c >= 0; c--) {
        if (!reached[order[c]->id]) continue;
        limit += order[c]->instruction_count;
        reach(order[c], reached);
    }
    for (int64_t c = 0; c < count; c++) {
        if (!reached[order[c]->id]) continue;
        int64_t size = order[c]->instruction_count;
        for (const HloInstruction *at = order[c]->first; at; at = at->next) {
            for (int32_t i = 0; i < at->called_count; i++) {
                size += sizes[at->called[i]->id];
                if (size <= limit) continue;
                return hlo_status_at_instruction(
                    hlo_error(HLO_UNIMPLEMENTED,
                              "%%%s in %%%s: with a copy of %%%s there are more than %d instructions in copies",
                              at->name, order[c]->name, at->called[i]->name, MOST_COPIED),
                    at);
            }
        }
        sizes[order[c]->id] = size;
    }
    return HLO_SUCCESS;
}
