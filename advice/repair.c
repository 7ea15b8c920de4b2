// SPDX-License-Identifier: Apache-2.0
#include "advice/repair.h"

#include <assert.h>

#include "hlo/pass/pass.h"

static const AdviceRepairInfo kRepairs[] = {
    [ADVICE_REPAIR_NONE] = {"", ""},
    [ADVICE_REPAIR_ELEMENTWISE] = {"recompute-elementwise", "the backward pass computes cheap activations again"},
    [ADVICE_REPAIR_SCOPES] = {"recompute-scopes",
                              "the backward pass computes activations again, but those passed between layers"},
    [ADVICE_REPAIR_OFFLOAD] = {"recompute-scopes-offloaded",
                               "the backward pass computes activations again, but those passed between layers, which "
                               "wait in host memory"},
};

const AdviceRepairInfo *advice_repair_info(AdviceRepair repair) {
    return &kRepairs[repair];
}

HloStatus advice_inlined(const HloModule *module, HloModule **inlined) {
    static const char *const kPasses[] = {"call-inliner"};
    const HloPassOptions options = {.skip_verify = true};
    assert(module && inlined);
    HloModule *copy = hlo_module_clone(module);
    HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory for a copy of the program");
    HloStatus status = hlo_run_passes(copy, kPasses, HLO_COUNT_OF(kPasses), &options);
    if (status)
        hlo_module_free(copy);
    else
        *inlined = copy;
    return status;
}

HloStatus advice_repair_make(const HloModule *module, AdviceRepair repair, HloModule **repaired) {
    assert(module && repair > ADVICE_REPAIR_NONE && repair < ADVICE_REPAIR_COUNT && repaired);
    const HloPass *const passes[] = {hlo_pass_find(kRepairs[repair].pass), hlo_pass_find("dce")};
    const HloPassOptions options = {.skip_verify = true};
    HloModule *copy;
    bool changed = false, cleaned = false;
    *repaired = NULL;
    if (!module->entry || module->is_scheduled) return HLO_SUCCESS;
    HLO_TRY(advice_inlined(module, &copy));
    HloStatus status = hlo_run_pass_list(copy, passes, 1, &options, &changed);
    if (!status && changed) status = hlo_run_pass_list(copy, passes + 1, 1, &options, &cleaned);
    if (status || !changed)
        hlo_module_free(copy);
    else
        *repaired = copy;
    return status;
}
