// SPDX-License-Identifier: Apache-2.0
// Replaces conditionals whose choice is known, or whose branches are the same, by the branch.
//
// The choice follows HLO's definition: `true` selects the first of two, an index out of range the last. Only the branch
// that runs is kept, with its effects; the others are dropped with theirs, which would not have happened either. A
// conditional with control edges stays, since the instructions of a branch could not all inherit them.
//
//   r = conditional(pred[] constant(true), a, b), true_computation=f, false_computation=g   ->   the body of f, with a
#include <assert.h>

#include "hlo/analysis/calls.h"
#include "hlo/pass/support.h"

// The branch that always runs, or -1.
static int64_t known_branch(const HloInstruction *conditional) {
    assert(hlo_is(conditional, HLO_OP_CONDITIONAL));
    const HloInstruction *index = conditional->operands[0];
    int64_t value, last = conditional->called_count - 1;
    if (last == 0) return 0;
    if (hlo_pass_integer_value(index, &value)) return hlo_selected_branch(conditional, value);
    for (int64_t i = 1; i <= last; i++) {
        bool same = conditional->called[i] == conditional->called[0] &&
                    conditional->operands[i + 1] == conditional->operands[1];
        if (!same) return -1;
    }
    return 0;
}

// Replaces the conditional by the branch that always runs. A branch reads only its operand, so nothing else of the
// conditional matters.
static bool simplify(HloInstruction *conditional, const HloPassEnv *env) {
    assert(hlo_is(conditional, HLO_OP_CONDITIONAL));
    if (conditional->control_predecessors.count || conditional->control_successors.count) return false;
    if (hlo_pass_has_partitioner_attributes(conditional)) return false;
    int64_t branch = known_branch(conditional);
    if (branch < 0) return false;
    HloArenaMark mark = hlo_arena_mark(env->scratch);
    HloInstruction *result =
        hlo_pass_inline(conditional, conditional->called[branch], &conditional->operands[branch + 1], env->scratch);
    hlo_arena_reset(env->scratch, mark);
    if (conditional->sharding && !result->sharding && result->users.count == 0) {
        result->sharding = conditional->sharding;
    }
    hlo_instruction_replace_uses(conditional, result);
    hlo_instruction_set_called(conditional, NULL, 0);
    hlo_instruction_remove(conditional);
    return true;
}

HloStatus hlo_pass_conditional_simplifier(HloModule *module, const HloPassEnv *env, bool *changed) {
    *changed |= hlo_pass_change_each(module, env, HLO_OP_CONDITIONAL, simplify);
    if (*changed) hlo_module_remove_unreachable(module);
    return HLO_SUCCESS;
}
