// SPDX-License-Identifier: Apache-2.0
// Dead code elimination: removes instructions without users that are not the root, a parameter, or an effect, and
// computations that are not reachable from the entry.
//
// One walk from the end of each list finds everything, because operands come before their users (the runner ensures
// that after every pass): when an instruction is visited, all its possible users have been visited. A work list would
// find the same in any order, but takes memory for programs of millions of instructions. Computations are removed last,
// because the caller that kept one alive may have been dead.
#include "hlo/analysis/redundant.h"
#include "hlo/pass/pass.h"

// True if some computation has no caller. There is no recursion, so if all except the entry have one, all are
// reachable.
static bool has_uncalled(const HloModule *module) {
    for (int64_t i = 0; i < module->computations.count; i++) {
        const HloComputation *computation = module->computations.items[i];
        if (computation != module->entry && computation->callers.count == 0) return true;
    }
    return false;
}

HloStatus hlo_pass_dce(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    for (int64_t i = 0; i < module->computations.count; i++) {
        *changed |= hlo_computation_remove_dead(module->computations.items[i]);
    }
    if (!has_uncalled(module)) return HLO_SUCCESS;
    int64_t before = module->computations.count;
    hlo_module_remove_unreachable(module);
    *changed |= module->computations.count != before;
    return HLO_SUCCESS;
}
