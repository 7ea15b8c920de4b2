// SPDX-License-Identifier: Apache-2.0
// Recomputation of activations (hlo/transform/transform.h) as passes. Calls are inlined first, since the forward part
// of a program from JAX calls functions.
#include "hlo/pass/support.h"
#include "hlo/transform/transform.h"

static HloStatus recompute(HloModule *module, const HloPassEnv *env, HloRecompute how, bool *changed) {
    bool inlined = false;
    HLO_TRY(hlo_pass_call_inliner(module, env, &inlined));
    if (inlined) hlo_computation_sort(module->entry);
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
