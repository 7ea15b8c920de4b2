// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/contents.h"

#include <assert.h>

const HloInstruction *hlo_module_find(const HloModule *module, bool (*is_wanted)(const HloInstruction *instruction)) {
    assert(module && is_wanted);
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (is_wanted(at)) return at;
    return NULL;
}

bool hlo_module_has(const HloModule *module, HloOpcode opcode) {
    assert(module);
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (hlo_is(at, opcode)) return true;
    return false;
}

static bool is_collective(const HloInstruction *instruction) {
    return hlo_op_is(instruction->opcode, HLO_OP_IS_COLLECTIVE);
}

bool hlo_module_has_collectives(const HloModule *module) {
    return hlo_module_find(module, is_collective);
}

int64_t hlo_module_instruction_count(const HloModule *module) {
    assert(module);
    int64_t count = 0;
    for (int64_t c = 0; c < module->computations.count; c++) count += module->computations.items[c]->instruction_count;
    return count;
}

const HloInstruction *hlo_passed_element(const HloInstruction *element) {
    assert(hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT));
    const int64_t index = HLO_ATTRIBUTES(element, TupleIndex)->index;
    const HloInstruction *whole = element->operands[0];
    while (hlo_is(whole, HLO_OP_OPTIMIZATION_BARRIER) && whole->operand_count == 1) whole = whole->operands[0];
    const bool lists = hlo_is(whole, HLO_OP_TUPLE) || hlo_is(whole, HLO_OP_OPTIMIZATION_BARRIER);
    return lists && index < whole->operand_count ? whole->operands[index] : element;
}
