// SPDX-License-Identifier: Apache-2.0
// Common subexpression elimination: within a computation, equal instructions with equal operands are computed once.
//
// Computations that are applied to elements (the `to_apply` of reductions, comparators of sorts) are merged first:
// StableHLO writes a region at every use, so that equal reductions call different but identical computations. All of
// them are changed to call the first one. Bodies of loops and branches are not merged: passes treat them as belonging
// to their caller.
//
// Only instructions with the very same operands are compared, in list order, so that equal trees are merged from the
// leaves up. Instructions with effects, random numbers, control edges or Shardy's constraints are not merged; nor are
// those with different shardings, because the partitioner reads each of them.
//
// Numbering values by what they compute (global value numbering) would find more across reassociation, but that is the
// algebraic simplifier's work, which brings equal values into equal forms first. Here one walk with one map is enough:
// linear in the program, as hashes include attributes and called computations.
//
//   a = add(x, y); b = add(x, y); c = multiply(a, b)   ->   a = add(x, y); c = multiply(a, a)
#include "hlo/analysis/redundant.h"
#include "hlo/pass/support.h"

// Parameters are distinct by nature; a domain marks a boundary in the graph that must stay where it is.
static bool may_share(const HloInstruction *instruction) {
    if (instruction->opcode == HLO_OP_PARAMETER || instruction->opcode == HLO_OP_DOMAIN) return false;
    if (hlo_instruction_is_nondeterministic(instruction)) return false;
    return hlo_pass_may_replace(instruction);
}

// Compares a + b with b + a, which hlo_instruction_identical() does not treat as equal.
static bool swapped_twin(const HloInstruction *a, const HloInstruction *b) {
    return hlo_op_is(a->opcode, HLO_OP_IS_COMMUTES) && a->opcode == b->opcode && a->operands[0] == b->operands[1] &&
           a->operands[1] == b->operands[0] && hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_ALL) &&
           hlo_sharding_equal(a->sharding, b->sharding);
}

// Whether two instructions that may be shared compute the same.
static bool is_twin(const HloInstruction *a, const HloInstruction *b) {
    return (hlo_instruction_identical(a, b) || swapped_twin(a, b)) && hlo_pass_same_frontend_attributes(a, b);
}

// Walks once over a computation. The map goes from a hash to the first instruction that has it; collisions are resolved
// by probing the next number, which is why nothing is ever removed from it.
static bool share(HloComputation *computation, const HloPassEnv *env) {
    HloIntMap known = {0};  // hash -> the first instruction with it
    bool changed = false;
    for (HloInstruction *i = computation->first, *next; i; i = next) {
        next = i->next;
        if (!may_share(i)) continue;
        uint64_t hash = hlo_instruction_hash(i);
        // Two different instructions may have the same hash: then the next number is tried.
        for (int64_t *found; (found = hlo_int_map_find(&known, hash)); hash++) {
            HloInstruction *twin = (HloInstruction *)(intptr_t)*found;
            if (!is_twin(i, twin)) continue;
            changed |= hlo_pass_replace(i, twin);
            break;
        }
        if (i->parent && !hlo_int_map_find(&known, hash)) hlo_int_map_set(env->scratch, &known, hash, (intptr_t)i);
    }
    return changed;
}

// A value that has got other users.
typedef struct Shared {
    HloInstruction *value;
    int64_t first;  // of the new users
} Shared;

// Only those that use the value that two instructions have become can have become equal themselves.
void hlo_pass_share_users(HloInstruction *value, int64_t first, HloArena *scratch) {
    assert(value && first >= 0);
    const HloArenaMark mark = hlo_arena_mark(scratch);
    HLO_VECTOR(Shared) waiting = {0};
    hlo_vector_push(scratch, &waiting, ((Shared){value, first}));
    while (waiting.count) {
        const Shared shared = waiting.items[--waiting.count];
        if (!shared.value->parent) continue;  // it has become another one, which waits too
        const int64_t count = shared.value->users.count;
        HloInstruction **users =
            hlo_arena_copy(scratch, shared.value->users.items, (size_t)count * sizeof(HloInstruction *));
        for (int64_t i = shared.first; i < count; i++) {
            if (!users[i]->parent || !may_share(users[i])) continue;
            for (int64_t k = 0; k < i; k++) {
                if (!users[k]->parent || users[k]->opcode != users[i]->opcode || !may_share(users[k]) ||
                    !is_twin(users[i], users[k]))
                    continue;
                HloInstruction *kept = users[k]->id < users[i]->id ? users[k] : users[i];
                const int64_t before = kept->users.count;
                if (hlo_pass_replace(kept == users[i] ? users[k] : users[i], kept))
                    hlo_vector_push(scratch, &waiting, ((Shared){kept, before}));
                if (!users[i]->parent) break;
            }
        }
    }
    hlo_arena_reset(scratch, mark);
}

// True if `instruction` applies its computations to elements, rather than passing control to them.
static bool applies(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START:
        case HLO_OP_MAP:
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SCATTER:
        case HLO_OP_SELECT_AND_SCATTER:
        case HLO_OP_SORT: return true;
        default: return false;
    }
}

static bool is_applied(const HloComputation *computation) {
    for (int64_t i = 0; i < computation->callers.count; i++)
        if (!applies(computation->callers.items[i])) return false;
    return computation->callers.count > 0;
}

// The positions of instructions in the lists of their computations.
typedef int32_t *Positions;

static uint64_t hash_of_computation(const HloComputation *computation, Positions positions) {
    uint64_t hash = (uint64_t)computation->instruction_count;
    int32_t position = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next, position++) {
        positions[i->id] = position;
        hash = hlo_hash_mix(hlo_hash_mix(hash, (uint64_t)i->opcode), hlo_shape_hash(i->shape));
        if (i->attributes)
            hash = hlo_hash_mix(hash, hlo_attributes_hash(hlo_op_info(i->opcode)->family, i->attributes));
        for (int32_t k = 0; k < i->operand_count; k++)
            hash = hlo_hash_mix(hash, (uint64_t)positions[i->operands[k]->id]);
    }
    return hash;
}

// True if two computations are identical except for names. Ones with control edges or effects are never identical.
static bool same_computation(const HloComputation *a, const HloComputation *b, const int32_t *positions) {
    if (a->instruction_count != b->instruction_count || positions[a->root->id] != positions[b->root->id]) return false;
    const HloInstruction *y = b->first;
    for (const HloInstruction *x = a->first; x; x = x->next, y = y->next) {
        if (!hlo_instruction_same_operation(x, y) || hlo_instruction_has_side_effect(x)) return false;
        if (x->control_predecessors.count || y->control_predecessors.count) return false;
        for (int32_t k = 0; k < x->operand_count; k++)
            if (positions[x->operands[k]->id] != positions[y->operands[k]->id]) return false;
    }
    return true;
}

// Makes every caller of `from` call `to`. Callers leave the list of `from` on the way.
static void move_callers(HloComputation *from, HloComputation *to, HloArena *scratch) {
    while (from->callers.count) {
        HloInstruction *caller = from->callers.items[from->callers.count - 1];
        HloComputation **called = HLO_ARENA_NEW(scratch, HloComputation *, caller->called_count);
        for (int32_t i = 0; i < caller->called_count; i++)
            called[i] = caller->called[i] == from ? to : caller->called[i];
        hlo_instruction_set_called(caller, called, caller->called_count);
    }
}

// Makes all callers of equal applied computations call the first; dead code elimination removes the others. If two
// different ones have the same hash, the second and its equals stay unchanged.
static bool share_computations(HloModule *module, HloArena *scratch) {
    HloIntMap known = {0};  // hash -> position of the first computation with it
    Positions positions = HLO_ARENA_NEW(scratch, int32_t, module->instruction_limit);
    bool changed = false;
    for (int64_t c = 0; c < module->computations.count; c++) {
        HloComputation *computation = module->computations.items[c];
        if (computation == module->entry || !is_applied(computation)) continue;
        uint64_t hash = hash_of_computation(computation, positions);
        int64_t *found = hlo_int_map_find(&known, hash);
        if (!found) {
            hlo_int_map_set(scratch, &known, hash, c);
        } else if (same_computation(module->computations.items[*found], computation, positions)) {
            move_callers(computation, module->computations.items[*found], scratch);
            changed = true;
        }
    }
    return changed;
}

HloStatus hlo_pass_cse(HloModule *module, const HloPassEnv *env, bool *changed) {
    *changed |= share_computations(module, env->scratch);
    for (int64_t i = 0; i < module->computations.count; i++) {
        HloArenaMark mark = hlo_arena_mark(env->scratch);
        *changed |= share(module->computations.items[i], env);
        hlo_arena_reset(env->scratch, mark);
    }
    return HLO_SUCCESS;
}
