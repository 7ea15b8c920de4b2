// SPDX-License-Identifier: Apache-2.0
// Checks the graph itself: lists, edges, order, names, calls.
//
// First the properties that later checks rely on: lists are linked both ways and contain every instruction once,
// parameters are numbered without gaps, operands come before their users. Then edges, counted from both ends: each
// entry of a list of users is right and occurs once, and there are as many entries as there are distinct operands, so
// none is missing. Names are unique, callers match calls, and no computation calls itself, even indirectly.
#include <assert.h>
#include <string.h>

#include "hlo/verify/internal.h"

// Checks that the list of a computation is complete, and that its ids are in range and used once.
static HloStatus check_list(const HloComputation *computation, uint8_t *used) {
    assert(computation && used);
    const HloInstruction *previous = NULL;
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i; previous = i, i = i->next, count++) {
        HLO_VERIFY_FAIL_IF(i->parent != computation, "%s is listed in computation %s, but belongs to another", i->name,
                           computation->name);
        HLO_VERIFY_FAIL_IF(i->previous != previous, "the instruction list of computation %s is broken at %s",
                           computation->name, i->name);
        HLO_VERIFY_FAIL_IF(i->id < 0 || i->id >= computation->module->instruction_limit || used[i->id],
                           "%s has id %d, which is out of range or taken", i->name, (int)i->id);
        used[i->id] = 1;
    }
    HLO_VERIFY_FAIL_IF(count != computation->instruction_count || computation->last != previous,
                       "computation %s counts %lld instructions, but lists %lld", computation->name,
                       (long long)computation->instruction_count, (long long)count);
    HLO_VERIFY_FAIL_IF(!computation->root || computation->root->parent != computation,
                       "computation %s has no root of its own", computation->name);
    return HLO_SUCCESS;
}

// Checks that the computation's list of parameters agrees with the instructions.
static HloStatus check_parameters(const HloComputation *computation) {
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        if (i->opcode != HLO_OP_PARAMETER) continue;
        int64_t number = hlo_parameter_number(i);
        HLO_VERIFY_FAIL_IF(
            number < 0 || number >= computation->parameters.count || computation->parameters.items[number] != i,
            "%s is not parameter %lld of computation %s", i->name, (long long)number, computation->name);
        count++;
    }
    HLO_VERIFY_FAIL_IF(count != computation->parameters.count, "computation %s has %lld parameters of %lld",
                       computation->name, (long long)count, (long long)computation->parameters.count);
    return HLO_SUCCESS;
}

// Combines two instructions of one module into one number.
static uint64_t pair_key(const HloInstruction *first, const HloInstruction *second) {
    return (uint64_t)(uint32_t)first->id << 32 | (uint32_t)second->id;
}

// The control edges (before, after) listed as successors. A map, because searching the list of an instruction that
// precedes n others would take n^2 steps.
static HloIntMap successor_edges(const HloVerifier *verifier, const HloComputation *computation) {
    HloIntMap map = {0};
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int64_t k = 0; k < i->control_successors.count; k++) {
            hlo_int_map_set(verifier->arena, &map, pair_key(i, i->control_successors.items[k]), 1);
        }
    }
    return map;
}

// Checks that every edge listed as a successor was also listed on the other side: `edges` has a 2 for those.
static HloStatus check_successors(const HloComputation *computation, const HloIntMap *edges) {
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int64_t k = 0; k < i->control_successors.count; k++) {
            const HloInstruction *after = i->control_successors.items[k];
            if (*hlo_int_map_find(edges, pair_key(i, after)) == 2) continue;
            return hlo_verify_place(
                hlo_error(HLO_INVALID_ARGUMENT, "its control successor %s does not list it", after->name), i);
        }
    }
    return HLO_SUCCESS;
}

// Checks that operands and control predecessors come before the instruction; `passed` marks the previous instructions.
static HloStatus check_order(const HloInstruction *instruction, const uint8_t *passed, const HloIntMap *edges) {
    for (int64_t i = 0; i < instruction->operand_count; i++) {
        const HloInstruction *operand = instruction->operands[i];
        HLO_VERIFY_FAIL_IF(!operand || operand->parent != instruction->parent,
                           "operand %lld is not in the same computation", (long long)i);
        HLO_VERIFY_FAIL_IF(!passed[operand->id], "precedes its operand %s", operand->name);
    }
    for (int64_t i = 0; i < instruction->control_predecessors.count; i++) {
        const HloInstruction *before = instruction->control_predecessors.items[i];
        HLO_VERIFY_FAIL_IF(before->parent != instruction->parent, "control predecessor %s is in another computation",
                           before->name);
        HLO_VERIFY_FAIL_IF(!passed[before->id], "precedes its control predecessor %s", before->name);
        int64_t *edge = hlo_int_map_find(edges, pair_key(before, instruction));
        HLO_VERIFY_FAIL_IF(!edge, "its control predecessor %s does not list it", before->name);
        *edge = 2;
    }
    return HLO_SUCCESS;
}

// More operands than are searched linearly: those of wide instructions go into a map first, or checking that each user
// entry of a tuple's operands is right would be quadratic.
enum { WIDE = 32 };

// The operands of all wide instructions of a computation.
static HloIntMap wide_uses(const HloVerifier *verifier, const HloComputation *computation) {
    HloIntMap map = {0};
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int64_t k = 0; k < i->operand_count && i->operand_count > WIDE; k++) {
            hlo_int_map_set(verifier->arena, &map, pair_key(i, i->operands[k]), 1);
        }
    }
    return map;
}

static bool uses(const HloInstruction *user, const HloInstruction *operand, const HloIntMap *wide) {
    if (user->operand_count > WIDE) return hlo_int_map_find(wide, pair_key(user, operand)) != NULL;
    for (int64_t i = 0; i < user->operand_count; i++) {
        if (user->operands[i] == operand) return true;
    }
    return false;
}

// Checks that each user entry is right and occurs once. Together with equal totals (below) the entries are complete.
static HloStatus check_users(HloVerifier *verifier, const HloInstruction *instruction, const HloIntMap *wide) {
    for (int64_t i = 0; i < instruction->users.count; i++) {
        const HloInstruction *user = instruction->users.items[i];
        HLO_VERIFY_FAIL_IF(user->parent != instruction->parent || !uses(user, instruction, wide),
                           "%s is not a user of it", user->name);
        HLO_VERIFY_FAIL_IF(verifier->seen[user->id] == instruction->id + 1, "lists its user %s twice", user->name);
        verifier->seen[user->id] = instruction->id + 1;
    }
    return HLO_SUCCESS;
}

// The number of operands of an instruction, each counted once.
static int64_t distinct_operands(const HloInstruction *instruction, int32_t *last_user) {
    int64_t count = 0;
    for (int64_t i = 0; i < instruction->operand_count; i++) {
        int32_t *mark = &last_user[instruction->operands[i]->id];
        if (*mark == instruction->id + 1) continue;
        *mark = instruction->id + 1;
        count++;
    }
    return count;
}

// Checks all edges of a computation, in one walk.
static HloStatus check_edges(HloVerifier *verifier, const HloComputation *computation, uint8_t *passed,
                             int32_t *last_user) {
    assert(passed && last_user);
    int64_t uses_count = 0, users_count = 0;
    const HloIntMap wide = wide_uses(verifier, computation), edges = successor_edges(verifier, computation);
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        HLO_TRY(hlo_verify_place(check_order(i, passed, &edges), i));
        HLO_TRY(hlo_verify_place(check_users(verifier, i, &wide), i));
        uses_count += distinct_operands(i, last_user);
        users_count += i->users.count;
        passed[i->id] = 1;
    }
    HLO_VERIFY_FAIL_IF(uses_count != users_count, "computation %s has %lld uses, but its instructions list %lld",
                       computation->name, (long long)uses_count, (long long)users_count);
    return check_successors(computation, &edges);
}

// Checks that names are unique: people and texts refer to things by them. Computations and instructions have separate
// name spaces.
static HloStatus check_names(HloVerifier *verifier) {
    HloStringMap computations = {0}, instructions = {0};
    static const char present = 0;  // any address that is not NULL
    for (int64_t c = 0; c < verifier->module->computations.count; c++) {
        const HloComputation *computation = verifier->module->computations.items[c];
        HLO_VERIFY_FAIL_IF(hlo_string_map_set(verifier->arena, &computations, computation->name,
                                              strlen(computation->name), (void *)(uintptr_t)&present),
                           "two computations are named %s", computation->name);
        for (const HloInstruction *i = computation->first; i; i = i->next) {
            HLO_VERIFY_FAIL_IF(hlo_string_map_set(verifier->arena, &instructions, i->name, strlen(i->name),
                                                  (void *)(uintptr_t)&present),
                               "two instructions are named %s", i->name);
        }
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Recursion: a computation must not reach itself. Removes computations that call nothing, then those whose callees are
// all removed, and so on; any that remain are recursive.

// True if `called[index]` also occurs earlier in the list.
static bool called_before(const HloInstruction *instruction, int64_t index) {
    assert(index >= 0 && index < instruction->called_count);
    for (int64_t i = 0; i < index; i++) {
        if (instruction->called[i] == instruction->called[index]) return true;
    }
    return false;
}

// The number of calls in a computation, each caller counted once per callee, as listed in `callers`.
static int64_t distinct_calls(const HloComputation *computation) {
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        for (int64_t k = 0; k < i->called_count; k++) count += !called_before(i, k);
    }
    return count;
}

// Returns a computation that this one calls and that still calls others.
static const HloComputation *pending_callee(const HloComputation *computation, const int64_t *pending) {
    for (const HloInstruction *i = computation->first; i; i = i->next)
        for (int64_t k = 0; k < i->called_count; k++)
            if (pending[i->called[k]->id] > 0) return i->called[k];
    assert(!"a computation without calls is not pending");
    return NULL;
}

// Removes computations that call nothing, and their calls, until none is left, or only cycles and their callers.
static HloStatus check_recursion(HloVerifier *verifier) {
    const HloComputationVector *all = &verifier->module->computations;
    int64_t *pending = HLO_ARENA_NEW(verifier->arena, int64_t, verifier->module->computation_limit);
    const HloComputation **ready = HLO_ARENA_NEW(verifier->arena, const HloComputation *, all->count);
    int64_t count = 0;
    for (int64_t c = 0; c < all->count; c++) {
        pending[all->items[c]->id] = distinct_calls(all->items[c]);
        if (pending[all->items[c]->id] == 0) ready[count++] = all->items[c];
    }
    for (int64_t next = 0; next < count; next++) {
        for (int64_t i = 0; i < ready[next]->callers.count; i++) {
            const HloComputation *caller = ready[next]->callers.items[i]->parent;
            if (--pending[caller->id] == 0) ready[count++] = caller;
        }
    }
    if (count == all->count) return HLO_SUCCESS;
    int64_t c = 0;
    while (pending[all->items[c]->id] == 0) c++;
    // A caller of a cycle is not in it: as many steps along calls as there are computations end in one.
    const HloComputation *at = all->items[c];
    for (int64_t step = 0; step < all->count; step++) at = pending_callee(at, pending);
    return hlo_error(HLO_INVALID_ARGUMENT, "computation %s is part of a cycle of calls", at->name);
}

// ---------------------------------------------------------------------------------------------------------------------
// Callers

// Combines callee and caller into one number.
static uint64_t call_key(const HloComputation *called, const HloInstruction *caller) {
    return (uint64_t)(uint32_t)called->id << 32 | (uint32_t)caller->id;
}

// Checks that each entry of a computation's callers is right and occurs once; all of them go into `calls`.
static HloStatus collect_callers(HloVerifier *verifier, const HloComputation *computation, HloIntMap *calls) {
    for (int64_t i = 0; i < computation->callers.count; i++) {
        const HloInstruction *caller = computation->callers.items[i];
        bool really = false;
        for (int64_t k = 0; k < caller->called_count; k++) really |= caller->called[k] == computation;
        HLO_VERIFY_FAIL_IF(!really || !caller->parent, "%s does not call computation %s", caller->name,
                           computation->name);
        HLO_VERIFY_FAIL_IF(hlo_int_map_find(calls, call_key(computation, caller)),
                           "computation %s lists its caller %s twice", computation->name, caller->name);
        hlo_int_map_set(verifier->arena, calls, call_key(computation, caller), 1);
    }
    return HLO_SUCCESS;
}

// Checks that each callee is in the module and lists the instruction as a caller.
static HloStatus check_call(const HloInstruction *instruction, const HloIntMap *calls) {
    assert(instruction->parent);
    const HloOpInfo *info = hlo_op_info(instruction->opcode);
    HLO_VERIFY_FAIL_IF(instruction->called_count > 0 && !(info->flags & HLO_OP_IS_CALLS), "%s calls nothing",
                       info->text);
    for (int64_t i = 0; i < instruction->called_count; i++) {
        const HloComputation *called = instruction->called[i];
        HLO_VERIFY_FAIL_IF(!called || called->removed || called->module != instruction->parent->module,
                           "calls a computation that is not in the module");
        HLO_VERIFY_FAIL_IF(!hlo_int_map_find(calls, call_key(called, instruction)),
                           "computation %s does not list its caller", called->name);
    }
    return HLO_SUCCESS;
}

// Checks both directions: first all callers that callees list, then all calls of callers.
static HloStatus check_calls(HloVerifier *verifier) {
    HloIntMap calls = {0};
    const HloComputationVector *all = &verifier->module->computations;
    for (int64_t c = 0; c < all->count; c++) HLO_TRY(collect_callers(verifier, all->items[c], &calls));
    for (int64_t c = 0; c < all->count; c++) {
        for (const HloInstruction *i = all->items[c]->first; i; i = i->next) {
            HLO_TRY(hlo_verify_place(check_call(i, &calls), i));
        }
    }
    return HLO_SUCCESS;
}

// Checks everything that does not depend on the meaning of ops.
HloStatus hlo_verify_structure(HloVerifier *verifier) {
    const HloModule *module = verifier->module;
    HLO_VERIFY_FAIL_IF(!module->entry, "module %s has no entry computation", module->name);
    HLO_VERIFY_FAIL_IF(module->entry->removed || module->entry->module != module,
                       "the entry computation of %s is not in it", module->name);
    uint8_t *used = HLO_ARENA_NEW(verifier->arena, uint8_t, module->instruction_limit);
    uint8_t *passed = HLO_ARENA_NEW(verifier->arena, uint8_t, module->instruction_limit);
    int32_t *last_user = HLO_ARENA_NEW(verifier->arena, int32_t, module->instruction_limit);
    for (int64_t c = 0; c < module->computations.count; c++) {
        const HloComputation *computation = module->computations.items[c];
        HLO_VERIFY_FAIL_IF(computation->module != module || computation->removed,
                           "computation %s does not belong to module %s", computation->name, module->name);
        HLO_TRY(check_list(computation, used));
        HLO_TRY(check_parameters(computation));
        HLO_TRY(check_edges(verifier, computation, passed, last_user));
    }
    HLO_TRY(check_calls(verifier));
    HLO_TRY(check_names(verifier));
    return check_recursion(verifier);
}
