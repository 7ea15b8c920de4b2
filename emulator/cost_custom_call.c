// SPDX-License-Identifier: Apache-2.0
// The cost of custom calls. The table of known calls (hlo/ir/custom_calls.def) records how a call is partitioned, which
// tells enough about its work. Kernels that users write themselves declare their cost in their configuration.
#include <assert.h>
#include <string.h>

#include "emulator/cost.h"
#include "hlo/base/json.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/custom_call.h"

// The last column of the table.
typedef enum CallKind {
    CALL_IDENTITY,
    CALL_FULL_TO_SHARD,
    CALL_SHARD_TO_FULL,
    CALL_SINK,
    CALL_INSPECT,
    CALL_ELEMENTWISE,
    CALL_TOPK,
    CALL_BATCHED,
    CALL_UNKNOWN
} CallKind;

// CALL_UNKNOWN for targets that are not in the table.
static CallKind kind_of(const HloInstruction *call) {
    assert(hlo_is(call, HLO_OP_CUSTOM_CALL));
    static const CallKind kinds[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, partition, configuration) CALL_##partition,
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
    };
    assert(call->opcode == HLO_OP_CUSTOM_CALL);
    const int32_t row = hlo_custom_call_row(call);
    return row < 0 ? CALL_UNKNOWN : kinds[row];
}

// The kinds up to CALL_INSPECT do no work.
bool emu_call_is_annotation(const HloInstruction *call) {
    return call->opcode == HLO_OP_CUSTOM_CALL && kind_of(call) <= CALL_INSPECT;
}

HloOpcode emu_call_opcode(const HloInstruction *call) {
    assert(hlo_is(call, HLO_OP_CUSTOM_CALL));
    static const char dialect[] = "mhlo.";
    const char *target = HLO_ATTRIBUTES(call, CustomCall)->target;
    switch (kind_of(call)) {
        case CALL_TOPK: return HLO_OP_TOPK;
        // All of them are of the order n^3.
        case CALL_BATCHED: return HLO_OP_CHOLESKY;
        case CALL_ELEMENTWISE:
            if (strncmp(target, dialect, strlen(dialect)) != 0) return HLO_OPCODE_COUNT;
            target += strlen(dialect);
            return hlo_op_from_text(target, strlen(target));
        default: return HLO_OPCODE_COUNT;
    }
}

// A member of the estimate; 0 where it is missing or makes no sense.
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
