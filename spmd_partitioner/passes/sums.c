// SPDX-License-Identifier: Apache-2.0
// Sums of two arrays that are sums over the same devices: the parts are added first, and one collective finishes both.
// Gradients with respect to what two products read, of which each leaves parts, are the common case.
//
//     %a = f32[16] reduce-scatter(%x)               %p = f32[64] add(%x, %y)
//     %b = f32[16] reduce-scatter(%y)    becomes    %s = f32[16] reduce-scatter(%p)
//     %s = f32[16] add(%a, %b)
//
// Nothing else may use either. Differences are such sums too. The program is walked once, operands first, so that a sum
// of many becomes one collective step by step.
#include <assert.h>

#include "spmd_partitioner/passes/passes.h"

// A collective that finishes a sum for one user.
static bool finishes_sum(const HloInstruction *at) {
    const bool kind = hlo_is(at, HLO_OP_ALL_REDUCE) || hlo_is(at, HLO_OP_REDUCE_SCATTER);
    return kind && hlo_shape_is_array(at->shape) && at->users.count == 1 && spmd_may_replace(at) &&
           spmd_adds(at->called[0]);
}

// Whether one collective can finish both.
static bool are_alike(const HloInstruction *a, const HloInstruction *b) {
    const SpmdExchange x = spmd_exchange_of(a), y = spmd_exchange_of(b);
    return a != b && a->opcode == b->opcode &&
           hlo_shape_equal(a->operands[0]->shape, b->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT) &&
           hlo_attributes_equal(HLO_FAMILY_Collective, &x, &y);
}

// Replaces the sum `at` of two collectives by the collective of a sum, which gets its annotations. Returns that sum,
// which may be one of collectives again.
static HloInstruction *join(HloInstruction *at) {
    HloInstruction *a = at->operands[0], *b = at->operands[1];
    HloInstruction *operands[2] = {a->operands[0], b->operands[0]};
    // A device's parts are no array of the program: its annotations go to the finished sum.
    HloInstruction *parts =
        hlo_instruction_new(at->parent, at->opcode, operands[0]->shape, operands, 2, at->attributes, NULL);
    parts->metadata = at->metadata;
    HloInstruction *whole = hlo_instruction_clone(at->parent, a, at->shape, &parts, 1);
    hlo_instruction_move_before(parts, at);
    hlo_instruction_move_before(whole, at);
    spmd_join_reasons(whole, b);
    spmd_take_annotations(whole, at);
    hlo_instruction_replace_uses(at, whole);
    hlo_instruction_remove(at);
    hlo_instruction_remove(a);
    hlo_instruction_remove(b);
    return parts;
}

void spmd_join_sums(HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            const bool adds = hlo_is(at, HLO_OP_ADD) || hlo_is(at, HLO_OP_SUBTRACT);
            if (!adds || at->control_predecessors.count || at->control_successors.count) continue;
            if (!finishes_sum(at->operands[0]) || !finishes_sum(at->operands[1])) continue;
            if (are_alike(at->operands[0], at->operands[1])) next = join(at);
        }
    }
}
