// SPDX-License-Identifier: Apache-2.0
// Removes shardings, which have no meaning on one device: annotations are deleted, and custom calls that only have an
// annotation are replaced by their operand.
//
//   y = f32[8] custom-call(x), custom_call_target="Sharding"   ->   x in place of y
#include <string.h>

#include "hlo/ir/custom_call.h"
#include "hlo/pass/support.h"

// True for custom calls that compute nothing: constraints, and the boundaries of manual regions.
static bool carries_sharding(const HloInstruction *instruction) {
    if (instruction->operand_count != 1) return false;
    return hlo_custom_call_kind(instruction) == HLO_CALL_SHARDING || hlo_custom_call_is_region_boundary(instruction);
}

// Removes shardings that Shardy writes as frontend attributes.
static bool drop_sharding_attributes(HloInstruction *instruction) {
    HloKeyValues *attributes = &instruction->frontend_attributes;
    HloKeyValue *kept = HLO_ARENA_NEW(instruction->parent->module->arena, HloKeyValue, attributes->count);
    int64_t count = 0;
    for (int64_t i = 0; i < attributes->count; i++) {
        if (strncmp(attributes->items[i].key, "xla.sdy.", 8) != 0) kept[count++] = attributes->items[i];
    }
    if (count == attributes->count) return false;
    *attributes = (HloKeyValues){kept, count};
    return true;
}

// Always removes the annotation, and the call if its operand can replace it.
static bool clean(HloInstruction *instruction) {
    bool changed = instruction->sharding != NULL;
    instruction->sharding = NULL;
    changed |= instruction->frontend_attributes.count > 0 && drop_sharding_attributes(instruction);
    if (!carries_sharding(instruction) || instruction->control_predecessors.count ||
        instruction->control_successors.count) {
        return changed;
    }
    HloInstruction *operand = instruction->operands[0];
    // If the program is for several devices, a manual region has smaller shapes inside: it stays.
    if (!hlo_shape_equal(operand->shape, instruction->shape, HLO_COMPARE_IGNORE_LAYOUT)) return changed;
    hlo_instruction_replace_uses(instruction, operand);
    hlo_instruction_remove(instruction);
    return true;
}

HloStatus hlo_pass_sharding_remover(HloModule *module, const HloPassEnv *env, bool *changed) {
    (void)env;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *i = module->computations.items[c]->first, *next; i; i = next) {
            next = i->next;
            *changed |= clean(i);
        }
    }
    return HLO_SUCCESS;
}
