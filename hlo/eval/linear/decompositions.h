// SPDX-License-Identifier: Apache-2.0
// The decompositions that programs request by custom call, on plain memory: one implementation for every engine.
#ifndef MESHLO_HLO_EVAL_LINEAR_DECOMPOSITIONS_H_
#define MESHLO_HLO_EVAL_LINEAR_DECOMPOSITIONS_H_

#include "hlo/ir/instruction.h"

HLO_BEGIN_C

// Checks that the call is a decomposition that hlo_decompose() supports, with supported options: UNIMPLEMENTED naming
// the instruction otherwise; INVALID_ARGUMENT when shapes do not fit (hlo_custom_call_check()). Any thread.
HLO_NODISCARD HloStatus hlo_decompose_check(const HloInstruction *call);
// The number of matrices (each of its operands' last dimensions) in the call. The call must have been checked.
int64_t hlo_decompose_batch(const HloInstruction *call);
// Decomposes matrices first, first + 1, … first + count - 1 of a checked call, in double complex arithmetic. `operands`
// and `results` are the whole row-major arrays, the leaves of the call's result in order. Temporary memory comes from
// `scratch`, which jumps to hlo_protect() when memory is short. Several threads may compute parts of one call at the
// same time, each with its own scratch.
void hlo_decompose(const HloInstruction *call, const void *const *operands, void *const *results, int64_t first,
                   int64_t count, HloArena *scratch);

HLO_END_C

#endif
