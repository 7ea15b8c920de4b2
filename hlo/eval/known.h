// SPDX-License-Identifier: Apache-2.0
// Arrays whose values are known before a program runs, because it computes them from constants and iotas alone: indices
// of a gather, weights of an interpolation.
#ifndef MESHLO_HLO_EVAL_KNOWN_H_
#define MESHLO_HLO_EVAL_KNOWN_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The value of an array that depends on constants and iotas alone; NULL if it depends on anything else, or would take
// long to evaluate (a million elements, or 96 ops). With `exact` every engine computes the same bits; otherwise sums
// may be rounded in another order. It lives in `arena`.
const HloLiteral *hlo_known_value(HloArena *arena, const HloInstruction *op, bool exact);

// As hlo_known_value(), on one partition of a program: the number of the partition counts as known, and so do parts of
// arrays that it chooses.
const HloLiteral *hlo_known_value_on(HloArena *arena, const HloInstruction *op, bool exact, int64_t partition);

HLO_END_C

#endif
