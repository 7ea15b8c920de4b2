// SPDX-License-Identifier: Apache-2.0
// Inlines calls: the body replaces the call. These calls stay: those with inlineable="false", calls to another thread
// of execution, calls with control edges, and those that the partitioner must see.
//
// Callees are processed first, so a body that is copied contains no calls any more, and every copy is made once.
//
//   r = f32[4] call(x), to_apply={ p = parameter(0), ROOT add(p, p) }   ->   r = f32[4] add(x, x)
#include <assert.h>
#include <string.h>

#include "hlo/analysis/calls.h"
#include "hlo/analysis/contents.h"
#include "hlo/pass/support.h"

// A sharding on the call is no obstacle: it moves to the value that replaces it.
static bool may_inline(const HloInstruction *call) {
    if (call->opcode != HLO_OP_CALL || call->called_count != 1) return false;
    if (call->control_predecessors.count || call->control_successors.count) return false;
    if (hlo_pass_has_partitioner_attributes(call)) return false;
    const char *inlineable = hlo_instruction_frontend_attribute(call, "inlineable");
    if (inlineable && strcmp(inlineable, "false") == 0) return false;
    const char *thread = call->called[0]->execution_thread;
    return !thread || strcmp(thread, "main") == 0;
}

// Inlines the calls of one computation; their bodies have no calls, because callees were processed first.
static void inline_calls(HloComputation *computation, const HloPassEnv *env, bool *changed) {
    assert(env->scratch);
    for (HloInstruction *i = computation->first, *next; i; i = next) {
        next = i->next;
        if (!may_inline(i)) continue;
        HloArenaMark mark = hlo_arena_mark(env->scratch);
        HloInstruction *result = hlo_pass_inline(i, i->called[0], i->operands, env->scratch);
        hlo_arena_reset(env->scratch, mark);
        if (i->sharding && !result->sharding && result->users.count == 0) result->sharding = i->sharding;
        hlo_instruction_replace_uses(i, result);
        hlo_instruction_set_called(i, NULL, 0);
        hlo_instruction_remove(i);
        *changed = true;
    }
}

HloStatus hlo_pass_call_inliner(HloModule *module, const HloPassEnv *env, bool *changed) {
    int64_t count;
    if (!hlo_module_find(module, may_inline)) return HLO_SUCCESS;
    HLO_TRY(hlo_check_call_copies(module, env->scratch));
    HloComputation **order = hlo_module_post_order(module, env->scratch, &count);
    for (int64_t i = 0; i < count; i++) inline_calls(order[i], env, changed);
    if (*changed) hlo_module_remove_unreachable(module);
    return HLO_SUCCESS;
}
