// SPDX-License-Identifier: Apache-2.0
// Computes equal collectives once: different users ask for the same reshard without knowing of one another.
#include <assert.h>

#include "spmd_partitioner/passes/passes.h"

// True if two collectives differ in name and channel only.
// Operands and computations are compared by identity.
static bool same_collective(const HloInstruction *a, const HloInstruction *b) {
    assert(a != b);
    if (a->opcode != b->opcode || a->operand_count != b->operand_count) return false;
    if (!hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_IGNORE_LAYOUT)) return false;
    for (int32_t i = 0; i < a->operand_count; i++) {
        if (a->operands[i] != b->operands[i]) return false;
    }
    for (int32_t i = 0; i < a->called_count; i++) {
        if (a->called[i] != b->called[i]) return false;
    }
    HloFamily family = hlo_op_info(a->opcode)->family;
    if (family == HLO_FAMILY_Permute) {
        HloPermuteAttributes x = *HLO_ATTRIBUTES(a, Permute);
        x.channel_id = HLO_ATTRIBUTES(b, Permute)->channel_id;
        return hlo_attributes_equal(family, &x, b->attributes);
    }
    if (family != HLO_FAMILY_Collective) return false;
    HloCollectiveAttributes x = *HLO_ATTRIBUTES(a, Collective);
    x.channel_id = HLO_ATTRIBUTES(b, Collective)->channel_id;
    return hlo_attributes_equal(family, &x, b->attributes);
}

// The users of an operand are the only places where a twin can be.
static void merge_one(HloInstruction *at) {
    assert(at->parent);
    const HloInstruction *operand = at->operands[0];
    for (int64_t i = 0; i < operand->users.count; i++) {
        HloInstruction *other = operand->users.items[i];
        if (other == at || other->id > at->id || !same_collective(other, at)) continue;
        spmd_join_reasons(other, at);
        hlo_instruction_replace_uses(at, other);
        hlo_instruction_remove(at);
        return;
    }
}

// Of two equal ones the earlier stays: everything that needs it stands behind both.
void spmd_merge_collectives(HloModule *module, HloArena *scratch) {
    (void)scratch;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && at->operand_count && at != at->parent->root)
                merge_one(at);
        }
    }
}
