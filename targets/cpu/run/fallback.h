// SPDX-License-Identifier: Apache-2.0
// Nodes without a compiled form: the reference evaluator runs them, device by device.
#ifndef MESHLO_TARGETS_CPU_RUN_FALLBACK_H_
#define MESHLO_TARGETS_CPU_RUN_FALLBACK_H_

#include "targets/cpu/graph/graph.h"

HLO_BEGIN_C

typedef struct CpuFallback CpuFallback;

// What is kept to run the node later. Its instruction must stay: the executable keeps a copy of the module.
const CpuFallback *cpu_fallback_new(HloArena *arena, const CpuNode *node);
// Evaluates it: `arguments` are the addresses of its operands' leaves, then of its results'.
HLO_NODISCARD HloStatus cpu_fallback_run(const CpuFallback *fallback, void *const *arguments, bool tpu_numerics);

// One row of lower/fallbacks.def.
typedef struct CpuFallbackRow {
    HloOpcode opcode;
    const char *when;
} CpuFallbackRow;

// The ops that the evaluator runs in some cases; `count` gets how many. Static storage, any thread.
const CpuFallbackRow *cpu_fallback_rows(int64_t *count);
// Whether the op has a row.
bool cpu_fallback_is_listed(HloOpcode opcode);
// Target number `index` of the custom calls that the evaluator runs whatever their types; NULL behind the last.
const char *cpu_fallback_custom_call(int64_t index);

HLO_END_C

#endif
