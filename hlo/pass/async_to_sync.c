// SPDX-License-Identifier: Apache-2.0
// Merges the halves of asynchronous ops into one op, at the position of the second half; partitioning makes new ones.
//
// A start and its done are two instructions only so that something can run between them. Before partitioning it is not
// yet known what that will be, shardings are easier to follow through one op than through the tuple between two, and
// the partitioner splits its own ops. Halves with references from outside their chain (a second user, control edges)
// stay unchanged.
//
//   s = (f32[4], f32[8]) all-gather-start(x)
//   d = f32[8] all-gather-done(s)              ->   d = f32[8] all-gather(x)
#include <assert.h>

#include "hlo/pass/support.h"

// The synchronous op for a done; HLO_OPCODE_COUNT for other ops.
static HloOpcode whole_of(HloOpcode done) {
    switch (done) {
        case HLO_OP_ALL_GATHER_DONE: return HLO_OP_ALL_GATHER;
        case HLO_OP_ALL_REDUCE_DONE: return HLO_OP_ALL_REDUCE;
        case HLO_OP_COLLECTIVE_PERMUTE_DONE: return HLO_OP_COLLECTIVE_PERMUTE;
        case HLO_OP_COPY_DONE: return HLO_OP_COPY;
        case HLO_OP_ASYNC_DONE: return HLO_OP_CALL;
        default: return HLO_OPCODE_COUNT;
    }
}

// Control edges order one half relative to other instructions, which a single op in place of both could not preserve.
static bool has_control_edges(const HloInstruction *instruction) {
    return instruction->control_predecessors.count || instruction->control_successors.count;
}

HloInstruction *hlo_pass_async_start_of(const HloInstruction *done) {
    if (whole_of(done->opcode) == HLO_OPCODE_COUNT) return NULL;
    HloInstruction *at = done->operands[0];
    while (hlo_is(at, HLO_OP_ASYNC_UPDATE) && at->users.count == 1 && !has_control_edges(at)) at = at->operands[0];
    const bool plain = at->users.count == 1 && !has_control_edges(at);
    return plain && hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_START) ? at : NULL;
}

// The async form calls a computation, so the merged op is a plain call; the dedicated forms have the attributes of
// their family on the start.
bool hlo_pass_join_async(HloInstruction *done) {
    HloOpcode opcode = whole_of(done->opcode);
    HloInstruction *start = hlo_pass_async_start_of(done);
    if (!start || has_control_edges(done)) return false;
    bool same_family = hlo_op_info(opcode)->family == hlo_op_info(start->opcode)->family;
    HloInstruction *whole = hlo_instruction_new(done->parent, opcode, done->shape, start->operands,
                                                start->operand_count, same_family ? start->attributes : NULL, NULL);
    if (start->called_count) hlo_instruction_set_called(whole, start->called, start->called_count);
    whole->metadata = start->metadata;
    whole->sharding = done->sharding;
    hlo_instruction_move_before(whole, done);
    hlo_instruction_replace_uses(done, whole);
    for (HloInstruction *at = done; at;) {
        HloInstruction *before = at == start ? NULL : at->operands[0];
        hlo_instruction_remove(at);
        at = before;
    }
    return true;
}

HloStatus hlo_pass_async_to_sync(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    for (int64_t c = 0; c < module->computations.count; c++) {
        // Removed instructions are always before the current one, never after it.
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            *changed |= hlo_pass_join_async(at);
        }
    }
    return HLO_SUCCESS;
}
