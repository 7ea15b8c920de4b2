// SPDX-License-Identifier: Apache-2.0
// The cost of custom calls. The table of known calls (hlo/ir/custom_calls.def) records how a call is partitioned, which
// tells enough about its work. Kernels that users write themselves declare their cost in their configuration.
#include <assert.h>
#include <string.h>

#include "emulator/cost.h"
#include "hlo/base/json.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/custom_call.h"

bool emu_call_is_annotation(const HloInstruction *call) {
    const HloCustomCallKind kind = hlo_custom_call_kind(call);
    return hlo_custom_call_returns_operand(call) || hlo_custom_call_is_region_boundary(call) || kind == HLO_CALL_SINK ||
           kind == HLO_CALL_INSPECT;
}

HloOpcode emu_call_opcode(const HloInstruction *call) {
    assert(hlo_is(call, HLO_OP_CUSTOM_CALL));
    switch (hlo_custom_call_kind(call)) {
        case HLO_CALL_TOPK: return HLO_OP_TOPK;
        // All of them are of the order n^3.
        case HLO_CALL_BATCHED: return HLO_OP_CHOLESKY;
        default: return hlo_custom_call_opcode(call);
    }
}

// A member of the estimate; 0 if it is missing or invalid.
static double estimated(const HloJsonValue *estimate, const char *name) {
    const HloJsonValue *value = hlo_json_get(estimate, name);
    return value && value->kind == HLO_JSON_NUMBER && value->number > 0 ? value->number : 0;
}

bool emu_call_estimate(const HloInstruction *call, EmuCallEstimate *estimate) {
    const char *config = call->backend_config;
    // The configuration also holds the kernel's program, often 100 kB: this test decides most calls without parsing it.
    if (call->opcode != HLO_OP_CUSTOM_CALL || !config || !strstr(config, "cost_estimate")) return false;
    HloArena *arena = hlo_arena_new();
    HloJsonValue *root = NULL;
    HloStatus status = arena ? hlo_json_parse(arena, "backend_config", config, strlen(config), &root) : NULL;
    // A configuration that is not JSON gives no costs; the program may still be valid.
    if (status) hlo_status_free(status);
    const HloJsonValue *found = hlo_json_get(hlo_json_get(root, "custom_call_config"), "cost_estimate");
    if (found)
        *estimate = (EmuCallEstimate){estimated(found, "flops"), estimated(found, "transcendentals"),
                                      estimated(found, "bytes_accessed")};
    hlo_arena_free(arena);
    return found != NULL;
}
