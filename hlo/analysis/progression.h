// SPDX-License-Identifier: Apache-2.0
// Integers that grow evenly: start, start + step, start + 2 step … What indices are made of is read as these.
#ifndef MESHLO_HLO_ANALYSIS_PROGRESSION_H_
#define MESHLO_HLO_ANALYSIS_PROGRESSION_H_

#include "hlo/ir/module.h"

typedef struct HloProgression {
    int64_t start, step;
} HloProgression;

// Whether the type holds the first `count` numbers, of which there is at least one: else they wrapped.
bool hlo_progression_fits(HloProgression progression, int64_t count, HloType type);

// Sets *result to the sum, difference or product (ADD, SUBTRACT, MULTIPLY) of two. False if that is none, since both
// grow in a product, or where 64 bits do not hold it.
bool hlo_progression_combine(HloOpcode opcode, HloProgression a, HloProgression b, HloProgression *result);

#endif
