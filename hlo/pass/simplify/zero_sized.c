// SPDX-License-Identifier: Apache-2.0
// Arrays without elements: nothing needs to be computed for them.
//
// They come from frontends that slice at a bound, and they obscure the data flow: a concatenation with an empty part is
// not recognised as a copy, and a loop that carries one is not a simple loop. So this pass runs early in the pipeline.
// Only the result is checked; an op of empty operands whose result has elements (a reduction, a pad) is left to its own
// rules. Dynamic arrays stay: their bound does not determine how many elements there are.
#include "hlo/pass/support.h"

static bool is_empty_array(const HloShape *shape) {
    return hlo_shape_is_array(shape) && !hlo_shape_is_dynamic(shape) && hlo_shape_elements(shape) == 0;
}

// An empty broadcast replaces any empty array. Collectives stay: the other devices wait for this one whatever it sends.
static bool eliminate(HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_CONSTANT:
        case HLO_OP_PARAMETER:
        case HLO_OP_BROADCAST: return false;
        default: break;
    }
    if (!is_empty_array(instruction->shape) || !hlo_pass_may_replace(instruction)) return false;
    if (instruction->sharding || hlo_op_is(instruction->opcode, HLO_OP_IS_COLLECTIVE)) return false;
    HloInstruction *empty =
        hlo_pass_splat(instruction, instruction->shape->type, hlo_shape_dims(instruction->shape), 0);
    return hlo_pass_replace(instruction, empty);
}

HloStatus hlo_pass_zero_sized_hlo_elimination(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *i = module->computations.items[c]->first, *next; i; i = next) {
            next = i->next;
            *changed |= eliminate(i);
        }
    }
    return HLO_SUCCESS;
}
