// SPDX-License-Identifier: Apache-2.0
// Recomputation of activations (hlo/transform/transform.h) as passes. Calls are inlined first, since the forward part
// of a program from JAX calls functions. What loops stack is loop/stacks.c's.
#include "hlo/pass/loop/stacks.h"
#include "hlo/pass/support.h"
#include "hlo/transform/transform.h"

// Whether a loop reads what another one has made.
static bool has_pairs(const HloComputation *computation) {
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        const HloInstruction *initial = hlo_is(i, HLO_OP_WHILE) ? i->operands[0] : NULL;
        for (int32_t k = 0; initial && k < initial->operand_count; k++)
            if (hlo_is(initial->operands[k], HLO_OP_GET_TUPLE_ELEMENT) &&
                hlo_is(initial->operands[k]->operands[0], HLO_OP_WHILE))
                return true;
    }
    return false;
}

// Bodies compute equal positions once each before they are compared; state that is dead afterwards goes.
static HloStatus recompute_stacks(HloModule *module, const HloPassEnv *env, HloRecompute how, bool *changed) {
    bool merged = false, cleaned = false;
    if (!has_pairs(module->entry)) return HLO_SUCCESS;
    HLO_TRY(hlo_pass_cse(module, env, &merged));
    *changed |= merged;
    if (!hlo_pass_recompute_stacks(module->entry, how == HLO_RECOMPUTE_ELEMENTWISE)) return HLO_SUCCESS;
    *changed = true;
    for (int loop = 0; loop < 2; loop++) {  // what the second loop no longer reads is dead in the first
        HLO_TRY(hlo_pass_while_loop_simplifier(module, env, &cleaned));
        HLO_TRY(hlo_pass_dce(module, env, &cleaned));
    }
    return HLO_SUCCESS;
}

static HloStatus recompute(HloModule *module, const HloPassEnv *env, HloRecompute how, bool *changed) {
    bool inlined = false;
    HLO_TRY(hlo_pass_call_inliner(module, env, &inlined));
    if (inlined) hlo_computation_sort(module->entry);
    HLO_TRY(recompute_stacks(module, env, how, changed));
    *changed |= hlo_recompute(module->entry, how) || inlined;
    return HLO_SUCCESS;
}

HloStatus hlo_pass_recompute_elementwise(HloModule *module, const HloPassEnv *env, bool *changed) {
    return recompute(module, env, HLO_RECOMPUTE_ELEMENTWISE, changed);
}

HloStatus hlo_pass_recompute_scopes(HloModule *module, const HloPassEnv *env, bool *changed) {
    return recompute(module, env, HLO_RECOMPUTE_SCOPES, changed);
}

HloStatus hlo_pass_recompute_scopes_offloaded(HloModule *module, const HloPassEnv *env, bool *changed) {
    return recompute(module, env, HLO_RECOMPUTE_SCOPES_OFFLOADED, changed);
}
