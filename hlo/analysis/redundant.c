// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/redundant.h"

#include <assert.h>

#include "hlo/base/map.h"

enum { MOST_PAIRS = 32 };  // of a permute that its hash looks at

// Control edges keep an instruction alive: something is ordered relative to it.
bool hlo_instruction_is_dead(const HloInstruction *instruction) {
    assert(instruction);
    if (instruction->users.count || hlo_instruction_is_root(instruction)) return false;
    if (instruction->opcode == HLO_OP_PARAMETER) return false;
    if (instruction->control_predecessors.count || instruction->control_successors.count) return false;
    return !hlo_instruction_has_side_effect(instruction);
}

// Walks from the end: when an instruction is visited, all that could use it have been visited.
bool hlo_computation_remove_dead(HloComputation *computation) {
    assert(computation);
    bool removed = false;
    for (HloInstruction *i = computation->last, *previous; i; i = previous) {
        previous = i->previous;
        if (!hlo_instruction_is_dead(i)) continue;
        hlo_instruction_remove(i);
        removed = true;
    }
    return removed;
}

// The ends are among the pairs that are looked at: shifts differ there.
uint64_t hlo_pairs_hash(HloPairs pairs) {
    const int64_t looks = pairs.count < MOST_PAIRS ? pairs.count : MOST_PAIRS;
    uint64_t hash = (uint64_t)pairs.count;
    for (int64_t i = 0; i < looks; i++) {
        const HloPair *pair = &pairs.items[looks > 1 ? i * (pairs.count - 1) / (looks - 1) : 0];
        hash = hlo_hash_mix(hlo_hash_mix(hash, (uint64_t)pair->source), (uint64_t)pair->target);
    }
    return hash;
}

uint64_t hlo_instruction_hash(const HloInstruction *instruction) {
    assert(instruction);
    const HloFamily family = hlo_op_info(instruction->opcode)->family;
    const bool commutes = hlo_op_is(instruction->opcode, HLO_OP_IS_COMMUTES);
    uint64_t hash = hlo_hash_mix((uint64_t)instruction->opcode, hlo_shape_hash(instruction->shape)), sum = 0;
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const uint64_t id = (uint64_t)instruction->operands[i]->id + 1;
        if (commutes)
            sum += hlo_hash_mix(17, id);
        else
            hash = hlo_hash_mix(hash, id);
    }
    // Otherwise reductions of one array by many computations would all collide in a map.
    for (int32_t i = 0; i < instruction->called_count; i++)
        hash = hlo_hash_mix(hash, (uint64_t)instruction->called[i]->id + 1);
    if (family == HLO_FAMILY_Permute)
        hash = hlo_hash_mix(hash, hlo_pairs_hash(HLO_ATTRIBUTES(instruction, Permute)->source_target_pairs));
    else if (instruction->attributes)
        hash = hlo_hash_mix(hash, hlo_attributes_hash(family, instruction->attributes));
    return hlo_hash_mix(hash, sum);
}
