// SPDX-License-Identifier: Apache-2.0
// The ops and custom calls that the evaluator runs, as tables.
#include "targets/cpu/lower/fallbacks.h"

#include <string.h>

static const CpuFallbackRow kRows[] = {
#define CPU_FALLBACK(opcode, when) {HLO_OP_##opcode, when},
#include "targets/cpu/lower/fallbacks.def"
#undef CPU_FALLBACK
};

const CpuFallbackRow *cpu_fallback_rows(int64_t *count) {
    *count = (int64_t)HLO_COUNT_OF(kRows);
    return kRows;
}

// Searches linearly, as there are a dozen rows.
bool cpu_fallback_is_listed(HloOpcode opcode) {
    for (size_t i = 0; i < HLO_COUNT_OF(kRows); i++)
        if (kRows[i].opcode == opcode) return true;
    return false;
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
