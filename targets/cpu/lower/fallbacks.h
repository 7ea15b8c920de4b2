// SPDX-License-Identifier: Apache-2.0
// Ops and custom calls without a compiled form, which the reference evaluator runs (lowerings.def).
#ifndef MESHLO_TARGETS_CPU_LOWER_FALLBACKS_H_
#define MESHLO_TARGETS_CPU_LOWER_FALLBACKS_H_

#include <stdint.h>

#include "hlo/ir/opcode.h"

HLO_BEGIN_C

// Returns when the evaluator runs the op, as in "with a comparator that has loops"; NULL if all its forms are compiled.
// Static storage, any thread.
const char *cpu_fallback_reason(HloOpcode opcode);
// Returns the target of number `index` among the custom calls that the evaluator runs whatever their types; NULL after
// the last.
const char *cpu_fallback_custom_call(int64_t index);

HLO_END_C

#endif
