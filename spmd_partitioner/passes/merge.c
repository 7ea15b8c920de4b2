// SPDX-License-Identifier: Apache-2.0
// Computes equal collectives once: different users request the same reshard independently, and programs compute values
// twice (a mean, and a variance that takes the mean again). Permutes that follow each other, as those of a reversal
// along two sharded dimensions do, become one, also if elements change places between them, or none.
#include <assert.h>

#include "hlo/pass/support.h"
#include "spmd_partitioner/passes/passes.h"

// True if two collectives do the same to whatever they are given: they differ in names, numbers of channels and
// operands only. Computations are compared by identity.
static bool same_exchange(const HloInstruction *a, const HloInstruction *b) {
    assert(a != b);
    if (a->opcode != b->opcode || a->operand_count != b->operand_count) return false;
    for (int32_t i = 0; i < a->called_count; i++) {
        if (a->called[i] != b->called[i]) return false;
    }
    const HloFamily family = hlo_op_info(a->opcode)->family;
    if (family != HLO_FAMILY_Permute && family != HLO_FAMILY_Collective) return false;
    const SpmdExchange x = spmd_exchange_of(a), y = spmd_exchange_of(b);
    return hlo_attributes_equal(family, &x, &y);
}

// Operands are compared by identity.
static bool same_collective(const HloInstruction *a, const HloInstruction *b) {
    if (!same_exchange(a, b) || !hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_IGNORE_LAYOUT)) return false;
    for (int32_t i = 0; i < a->operand_count; i++) {
        if (a->operands[i] != b->operands[i]) return false;
    }
    return true;
}

static bool have_common_user(const HloInstruction *a, const HloInstruction *b) {
    for (int64_t i = 0; i < a->users.count; i++)
        if (hlo_instruction_vector_contains(&b->users, a->users.items[i])) return true;
    return false;
}

// Only the users of an operand can include a twin. Of two equal collectives the earlier stays: everything that needs it
// comes after both. True if there was a twin.
static bool merge_one(HloInstruction *at, HloArena *scratch) {
    assert(at->parent);
    const HloInstruction *operand = at->operands[0];
    for (int64_t i = 0; i < operand->users.count; i++) {
        HloInstruction *other = operand->users.items[i];
        if (other == at || other->id > at->id || !same_collective(other, at)) continue;
        // A user of both changes in its place among the users of `other`.
        const int64_t users = have_common_user(other, at) ? 0 : other->users.count;
        spmd_join_reasons(other, at);
        hlo_instruction_replace_uses(at, other);
        hlo_instruction_remove(at);
        hlo_pass_share_users(other, users, scratch);
        return true;
    }
    return false;
}

// all-reduce(reshape(x)) beside an all-reduce(x) is a reshape of the latter: the sum was finished late for one user,
// after its reshape, and immediately for the other. The twin may come after `at`, so the list must be sorted again.
static bool merge_reshaped(HloInstruction *at, HloArena *scratch) {
    HloInstruction *reshape = at->operands[0];
    if (!hlo_is(at, HLO_OP_ALL_REDUCE) || at->operand_count != 1 || !hlo_is(reshape, HLO_OP_RESHAPE)) return false;
    const HloInstruction *summed = reshape->operands[0];
    for (int64_t i = 0; i < summed->users.count; i++) {
        HloInstruction *other = summed->users.items[i];
        if (!hlo_is(other, HLO_OP_ALL_REDUCE) || !same_exchange(other, at)) continue;
        spmd_join_reasons(other, at);
        HloInstruction *made = hlo_instruction_clone(at->parent, reshape, at->shape, &other, 1);
        hlo_instruction_move_before(made, at);
        hlo_instruction_replace_uses(at, made);
        spmd_remove_unused(at);
        hlo_pass_share_users(other, 0, scratch);
        return true;
    }
    return false;
}

// The permute whose result `at` sends on, itself or with its elements in another order; NULL if there is none that
// nothing else uses.
static HloInstruction *permute_before(const HloInstruction *at) {
    HloInstruction *before = at->operand_count == 1 ? at->operands[0] : NULL;
    while (before && before->operand_count == 1 && before->users.count == 1 &&
           (hlo_is(before, HLO_OP_REVERSE) || hlo_op_is(before->opcode, HLO_OP_IS_REARRANGES)))
        before = before->operands[0];
    return before && before->users.count == 1 && hlo_is(before, HLO_OP_COLLECTIVE_PERMUTE) && spmd_may_replace(before)
               ? before
               : NULL;
}

// Sends what `second` sends of what `first` has sent.
static HloPairs compose(HloArena *arena, HloPairs first, HloPairs second, HloArena *scratch) {
    HloPair *pairs = HLO_ARENA_NEW(arena, HloPair, second.count + 1);
    HloIntMap senders = {0};  // target -> source
    int64_t count = 0;
    for (int64_t i = 0; i < first.count; i++)
        hlo_int_map_set(scratch, &senders, (uint64_t)first.items[i].target + 1, first.items[i].source);
    for (int64_t i = 0; i < second.count; i++) {
        const int64_t *source = hlo_int_map_find(&senders, (uint64_t)second.items[i].source + 1);
        if (source) pairs[count++] = (HloPair){*source, second.items[i].target};
    }
    return (HloPairs){pairs, count};
}

// Two permutes become one, the second, if that has the only use of the first's result. A device that receives nothing
// gets zeros from either, in whatever order. True if `at` was the second of two, and now does both.
static bool merge_permutes(HloInstruction *at, HloArena *scratch) {
    if (!hlo_is(at, HLO_OP_COLLECTIVE_PERMUTE) || !spmd_may_replace(at)) return false;
    HloInstruction *before = permute_before(at);
    if (!before) return false;
    HloPermuteAttributes attributes = *HLO_ATTRIBUTES(at, Permute);
    attributes.source_target_pairs =
        compose(at->parent->module->arena, HLO_ATTRIBUTES(before, Permute)->source_target_pairs,
                attributes.source_target_pairs, scratch);
    if (!attributes.source_target_pairs.count) return false;
    spmd_join_reasons(at, before);
    hlo_instruction_set_attributes(at, &attributes);
    hlo_instruction_replace_uses(before, before->operands[0]);
    hlo_instruction_remove(before);
    return true;
}

// Removes a permute that gives each device what it sends. A parameter cannot take over what the result says of itself.
static bool remove_identity(HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_COLLECTIVE_PERMUTE) || !spmd_may_replace(at)) return false;
    HloInstruction *operand = at->operands[0];
    const HloPairs pairs = HLO_ATTRIBUTES(at, Permute)->source_target_pairs;
    const bool is_root = at == at->parent->root;
    if (pairs.count != at->parent->module->num_partitions || (is_root && hlo_is(operand, HLO_OP_PARAMETER)))
        return false;
    for (int64_t i = 0; i < pairs.count; i++)
        if (pairs.items[i].source != pairs.items[i].target) return false;
    if (is_root) {
        operand->sharding = at->sharding;
        const char *dims = hlo_instruction_frontend_attribute(at, "meshlo.global_dims");
        if (dims) hlo_instruction_set_frontend_attribute(operand, "meshlo.global_dims", dims);
    }
    hlo_instruction_replace_uses(at, operand);
    hlo_instruction_remove(at);
    return true;
}

// Whether every instruction comes after its operands.
static bool is_in_order(const HloComputation *computation, HloArena *scratch) {
    const HloArenaMark mark = hlo_arena_mark(scratch);
    bool *seen = HLO_ARENA_NEW(scratch, bool, computation->module->instruction_limit), ordered = true;
    for (const HloInstruction *at = computation->first; at && ordered; at = at->next) {
        for (int32_t i = 0; i < at->operand_count; i++) ordered &= seen[at->operands[i]->id];
        seen[at->id] = true;
    }
    hlo_arena_reset(scratch, mark);
    return ordered;
}

// One walk over a computation. What a merge makes equal, and so may remove, comes after it.
static bool merge_in(HloComputation *computation, HloArena *scratch) {
    bool merged = false;
    for (HloInstruction *at = computation->first, *before = NULL; at;) {
        const bool exchanges = hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) && at->operand_count;
        while (exchanges && merge_permutes(at, scratch)) merged = true;
        HloInstruction *next = at->next;
        if (exchanges && (remove_identity(at) ||
                          (at != computation->root && (merge_one(at, scratch) || merge_reshaped(at, scratch))))) {
            merged = true;
            // What was merged is gone; its neighbours may be too.
            if (next && next->parent) {
                at = next;
                continue;
            }
            if (before && !before->parent) before = NULL;
        } else {
            before = at;
        }
        at = before ? before->next : computation->first;
    }
    if (merged && !is_in_order(computation, scratch)) hlo_computation_sort(computation);
    return merged;
}

static bool merge_once(HloModule *module, HloArena *scratch) {
    bool merged = false;
    for (int64_t c = 0; c < module->computations.count; c++) merged |= merge_in(module->computations.items[c], scratch);
    return merged;
}

// What two equal collectives feed is equal only when they are one, and so on along the program.
HloStatus spmd_merge_collectives(HloModule *module, HloArena *scratch) {
    const HloPassEnv env = {.scratch = scratch};
    bool changed = false;
    do {
        HLO_TRY(hlo_pass_cse(module, &env, &changed));
    } while (merge_once(module, scratch));
    if (changed) hlo_module_remove_unreachable(module);
    return HLO_SUCCESS;
}
