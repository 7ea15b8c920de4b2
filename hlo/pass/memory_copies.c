// SPDX-License-Identifier: Apache-2.0
// Splits copies between memory spaces (layouts with different S(n)) into copy-start and copy-done, so that the
// instructions between them can run meanwhile: offloading to the host is a copy of this kind.
//
//   c = f32[8]{0:S(5)} copy(x)   ->   s = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(x);  c = copy-done(s)
#include <assert.h>

#include "hlo/pass/support.h"

// True for a copy of one array into another memory space that may be replaced.
static bool is_candidate(const HloInstruction *at) {
    return at->opcode == HLO_OP_COPY && hlo_shape_is_array(at->shape) &&
           hlo_shape_memory_space(at->shape) != hlo_shape_memory_space(at->operands[0]->shape) &&
           hlo_pass_may_replace(at);
}

// The start's tuple is (destination, source, context) as in XLA: the context is a number without a meaning here. The
// two halves are adjacent, at the position of the copy; moving them apart is a scheduler's work.
static void split(HloInstruction *copy) {
    assert(hlo_is(copy, HLO_OP_COPY));
    HloArena *arena = copy->parent->module->arena;
    HloInstruction *operand = copy->operands[0];
    const HloShape *parts[] = {copy->shape, operand->shape, hlo_shape_scalar(arena, HLO_U32)};
    const HloCopyStartAttributes attributes = {HLO_ABSENT};
    HloInstruction *start = hlo_instruction_new(copy->parent, HLO_OP_COPY_START, hlo_shape_tuple(arena, parts, 3),
                                                &operand, 1, &attributes, NULL);
    HloInstruction *done = hlo_instruction_new(copy->parent, HLO_OP_COPY_DONE, copy->shape, &start, 1, NULL, NULL);
    start->metadata = copy->metadata;
    hlo_instruction_copy_annotations(done, copy);
    hlo_instruction_move_before(start, copy);
    hlo_instruction_move_before(done, copy);
    hlo_instruction_replace_uses(copy, done);
    hlo_instruction_remove(copy);
}

HloStatus hlo_pass_memory_copies(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            if (!is_candidate(at)) continue;
            split(at);
            *changed = true;
        }
    }
    return HLO_SUCCESS;
}
