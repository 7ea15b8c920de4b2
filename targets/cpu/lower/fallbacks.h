// SPDX-License-Identifier: Apache-2.0
// Ops and custom calls without a compiled form, which the reference evaluator runs (fallbacks.def).
#ifndef MESHLO_TARGETS_CPU_LOWER_FALLBACKS_H_
#define MESHLO_TARGETS_CPU_LOWER_FALLBACKS_H_

#include <stdbool.h>
#include <stdint.h>

#include "hlo/ir/opcode.h"

HLO_BEGIN_C

// One row of fallbacks.def.
typedef struct CpuFallbackRow {
    HloOpcode opcode;
    const char *when;
} CpuFallbackRow;

// Returns the ops that the evaluator runs in some cases; `count` receives their number. Static storage, any thread.
const CpuFallbackRow *cpu_fallback_rows(int64_t *count);
// Whether the op has a row.
bool cpu_fallback_is_listed(HloOpcode opcode);
// Returns the target of number `index` among the custom calls that the evaluator runs whatever their types; NULL after
// the last.
const char *cpu_fallback_custom_call(int64_t index);

HLO_END_C

#endif
