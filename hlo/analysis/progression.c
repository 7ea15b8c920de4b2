// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/progression.h"

#include <assert.h>

bool hlo_progression_fits(HloProgression progression, int64_t count, HloType type) {
    assert(count > 0);
    int64_t last;
    return !__builtin_mul_overflow(progression.step, count - 1, &last) &&
           !__builtin_add_overflow(last, progression.start, &last) && hlo_type_holds(type, progression.start) &&
           hlo_type_holds(type, last);
}

bool hlo_progression_combine(HloOpcode opcode, HloProgression a, HloProgression b, HloProgression *result) {
    assert(opcode == HLO_OP_ADD || opcode == HLO_OP_SUBTRACT || opcode == HLO_OP_MULTIPLY);
    HloProgression made = {0, 0};
    bool failed;
    if (opcode == HLO_OP_ADD) {
        failed =
            __builtin_add_overflow(a.start, b.start, &made.start) || __builtin_add_overflow(a.step, b.step, &made.step);
    } else if (opcode == HLO_OP_SUBTRACT) {
        failed =
            __builtin_sub_overflow(a.start, b.start, &made.start) || __builtin_sub_overflow(a.step, b.step, &made.step);
    } else {
        const HloProgression many = b.step ? b : a, one = b.step ? a : b;
        failed = one.step || __builtin_mul_overflow(many.start, one.start, &made.start) ||
                 __builtin_mul_overflow(many.step, one.start, &made.step);
    }
    *result = made;
    return !failed;
}
