// SPDX-License-Identifier: Apache-2.0
#include "advice/repair.h"

#include <assert.h>

#include "hlo/pass/pass.h"
#include "hlo/transform/transform.h"

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

typedef struct Request {
    HloModule *module;
    AdviceRepair repair;
    bool changed;
} Request;

static HloStatus make(void *argument) {
    static const char *const kAfter[] = {"dce"};
    static const HloRecompute kHow[] = {
        [ADVICE_REPAIR_ELEMENTWISE] = HLO_RECOMPUTE_ELEMENTWISE,
        [ADVICE_REPAIR_SCOPES] = HLO_RECOMPUTE_SCOPES,
        [ADVICE_REPAIR_OFFLOAD] = HLO_RECOMPUTE_SCOPES_OFFLOADED,
    };
    Request *request = argument;
    const HloPassOptions options = {.skip_verify = true};
    request->changed = hlo_recompute(request->module->entry, kHow[request->repair]);
    return request->changed ? hlo_run_passes(request->module, kAfter, HLO_COUNT_OF(kAfter), &options) : HLO_SUCCESS;
}

HloStatus advice_repair_make(const HloModule *module, AdviceRepair repair, HloModule **repaired) {
    assert(module && repair > ADVICE_REPAIR_NONE && repair < ADVICE_REPAIR_COUNT && repaired);
    Request request = {.repair = repair};
    *repaired = NULL;
    if (!module->entry || module->is_scheduled) return HLO_SUCCESS;
    HLO_TRY(advice_inlined(module, &request.module));
    HloStatus status = hlo_protect(make, &request);
    if (status || !request.changed)
        hlo_module_free(request.module);
    else
        *repaired = request.module;
    return status;
}
