// SPDX-License-Identifier: Apache-2.0
// Tuples that are taken apart immediately: an element of a tuple is the operand; a tuple of all elements of a tuple, in
// order, is that tuple.
//
//   get-tuple-element(tuple(a, b)), index=1   ->   b
#include <assert.h>

#include "hlo/pass/support.h"

// The tuple that `tuple` only rebuilds, or NULL.
static HloInstruction *rebuilt(const HloInstruction *tuple) {
    assert(hlo_is(tuple, HLO_OP_TUPLE));
    HloInstruction *source = NULL;
    for (int64_t i = 0; i < tuple->operand_count; i++) {
        const HloInstruction *element = tuple->operands[i];
        if (element->opcode != HLO_OP_GET_TUPLE_ELEMENT || HLO_ATTRIBUTES(element, TupleIndex)->index != i) return NULL;
        if (i > 0 && element->operands[0] != source) return NULL;
        source = element->operands[0];
    }
    return source && source->shape->element_count == tuple->operand_count ? source : NULL;
}

// Simplifies a get-tuple-element of a tuple, or a tuple of all elements of another one; both may leave the inner tuple
// without users, for dead code elimination to remove.
static bool simplify(HloInstruction *instruction) {
    if (instruction->opcode == HLO_OP_GET_TUPLE_ELEMENT) {
        const HloInstruction *tuple = instruction->operands[0];
        if (tuple->opcode != HLO_OP_TUPLE) return false;
        return hlo_pass_replace(instruction, tuple->operands[HLO_ATTRIBUTES(instruction, TupleIndex)->index]);
    }
    if (instruction->opcode != HLO_OP_TUPLE) return false;
    HloInstruction *source = rebuilt(instruction);
    return source && hlo_pass_replace(instruction, source);
}

HloStatus hlo_pass_tuple_simplifier(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *i = module->computations.items[c]->first, *next; i; i = next) {
            next = i->next;
            *changed |= simplify(i);
        }
    }
    return HLO_SUCCESS;
}
