// SPDX-License-Identifier: Apache-2.0
// Nodes without a compiled form: the reference evaluator runs them, device by device.
#ifndef MESHLO_TARGETS_CPU_RUN_FALLBACK_H_
#define MESHLO_TARGETS_CPU_RUN_FALLBACK_H_

#include "hlo/ir/instruction.h"

HLO_BEGIN_C

// Evaluates an instruction of the executable's own module: `arguments` are the addresses of its operands' leaves, then
// of its results'.
HLO_NODISCARD HloStatus cpu_fallback_run(const HloInstruction *instruction, void *const *arguments, bool tpu_numerics);

HLO_END_C

#endif
