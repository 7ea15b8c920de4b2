// SPDX-License-Identifier: Apache-2.0
#include "spmd_partitioner/passes/passes.h"

// The start op of a collective, HLO_OPCODE_COUNT if it has none of its own; its done op.
static HloOpcode start_of(HloOpcode opcode, HloOpcode *done) {
    switch (opcode) {
        case HLO_OP_ALL_GATHER: *done = HLO_OP_ALL_GATHER_DONE; return HLO_OP_ALL_GATHER_START;
        case HLO_OP_ALL_REDUCE: *done = HLO_OP_ALL_REDUCE_DONE; return HLO_OP_ALL_REDUCE_START;
        case HLO_OP_COLLECTIVE_PERMUTE: *done = HLO_OP_COLLECTIVE_PERMUTE_DONE; return HLO_OP_COLLECTIVE_PERMUTE_START;
        default: return HLO_OPCODE_COUNT;
    }
}

// The user that stands first in the list, NULL if there is none.
static HloInstruction *first_user(const HloInstruction *at, const int32_t *place) {
    HloInstruction *first = NULL;
    for (int64_t i = 0; i < at->users.count; i++) {
        HloInstruction *user = at->users.items[i];
        if (!first || place[user->id] < place[first->id]) first = user;
    }
    return first;
}

// all-reduce-start has its result's shape; the others hold operand and result.
static const HloShape *start_shape(HloArena *arena, const HloInstruction *at) {
    if (hlo_is(at, HLO_OP_ALL_REDUCE)) return at->shape;
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, 2);
    elements[0] = at->operands[0]->shape;
    elements[1] = at->shape;
    return hlo_shape_tuple(arena, elements, 2);
}

static void split(HloInstruction *at, const int32_t *place) {
    HloOpcode done_opcode = HLO_OPCODE_COUNT, opcode = start_of(at->opcode, &done_opcode);
    HloInstruction *user = first_user(at, place);
    if (opcode == HLO_OPCODE_COUNT || at->operand_count != 1 || !hlo_shape_is_array(at->shape) || !user) return;
    HloComputation *computation = at->parent;
    HloInstruction *start = hlo_instruction_new(computation, opcode, start_shape(computation->module->arena, at),
                                                at->operands, 1, at->attributes, NULL);
    if (at->called_count) hlo_instruction_set_called(start, at->called, at->called_count);
    hlo_instruction_copy_annotations(start, at);
    HloInstruction *done = hlo_instruction_new(computation, done_opcode, at->shape, &start, 1, NULL, NULL);
    done->metadata = at->metadata;
    hlo_instruction_move_after(start, at->operands[0]);
    hlo_instruction_move_before(done, user);
    hlo_instruction_replace_uses(at, done);
    hlo_instruction_remove(at);
}

void spmd_make_async(HloModule *module, HloArena *scratch) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        HloComputation *computation = module->computations.items[c];
        int32_t *place = HLO_ARENA_NEW(scratch, int32_t, module->instruction_limit);
        int32_t next_place = 0;
        for (HloInstruction *at = computation->first; at; at = at->next) place[at->id] = next_place++;
        for (HloInstruction *at = computation->first, *next; at; at = next) {
            next = at->next;
            bool ours = hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && at != computation->root;
            if (ours) split(at, place);
        }
    }
}
