// SPDX-License-Identifier: Apache-2.0
// The ops and custom calls that the evaluator runs, as tables.
#include "targets/cpu/lower/fallbacks.h"

#include <string.h>

static const char *const kEvaluated[HLO_OPCODE_COUNT] = {
#define CPU_LOWERING(opcode, lowering, evaluated) [HLO_OP_##opcode] = (evaluated),
#include "targets/cpu/lower/lowerings.def"
#undef CPU_LOWERING
};

const char *cpu_fallback_reason(HloOpcode opcode) {
    return kEvaluated[opcode];
}

// Returns number `index` among those that the evaluator computes, in the order of custom_calls.def; NULL after the
// last.
const char *cpu_fallback_custom_call(int64_t index) {
    static const struct {
        const char *target, *kernel;
    } kCalls[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) {target, #kernel},
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kCalls); i++)
        if (!strcmp(kCalls[i].kernel, "evaluator") && index-- == 0) return kCalls[i].target;
    return NULL;
}
