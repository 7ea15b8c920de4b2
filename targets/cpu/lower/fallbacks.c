// SPDX-License-Identifier: Apache-2.0
// The ops that the evaluator runs, as a table; custom_call.c has the custom calls.
#include "targets/cpu/lower/fallbacks.h"

static const char *const kEvaluated[HLO_OPCODE_COUNT] = {
#define CPU_LOWERING(opcode, lowering, evaluated) [HLO_OP_##opcode] = (evaluated),
#include "targets/cpu/lower/lowerings.def"
#undef CPU_LOWERING
};

const char *cpu_fallback_reason(HloOpcode opcode) {
    return kEvaluated[opcode];
}
