// SPDX-License-Identifier: Apache-2.0
// The algebraic simplifier: a work list over the rules of the other files here.
//
// Every instruction is visited once, operands first, and again whenever one of its operands is replaced later, so that
// one run reaches a fixed point of all rules together. If several rules apply, the first one in the tables is used; the
// order of the tables determines which form of a program is preferred, never what it computes.
//
// New instructions of rules are appended to the computation and so are temporarily after their users: the runner sorts
// at the end of the pass, and no rule may rely on the order of the list.
//
//     z = add(negate(negate(s32 x)), broadcast(0))   ->   x, in one run: first the negations, then the sum (revisited)
#include <assert.h>

#include "hlo/analysis/redundant.h"
#include "hlo/base/map.h"
#include "hlo/pass/simplify/simplify.h"

typedef struct Simplifier {
    HloArena *scratch;
    HloSimplifyFunction *const *rules[HLO_OPCODE_COUNT];  // of each opcode, in the order of the tables; NULL at the end
    HloInstructionVector todo;
    HloIntMap waiting;  // ids of instructions that are still to be visited for the first time
    int64_t budget;     // remaining rewrites: a limit in case two rules undo each other
    bool changed;
} Simplifier;

// Rules read sizes from shapes, which are only bounds if a dimension is dynamic: these instructions are left to the
// padder.
static bool is_static(const HloInstruction *instruction) {
    if (hlo_shape_is_dynamic(instruction->shape)) return false;
    for (int64_t i = 0; i < instruction->operand_count; i++) {
        if (hlo_shape_is_dynamic(instruction->operands[i]->shape)) return false;
    }
    return true;
}

// The first replacement that a rule offers, or NULL.
static HloInstruction *simpler(const Simplifier *simplifier, HloInstruction *instruction) {
    HloSimplifyFunction *const *rules = simplifier->rules[instruction->opcode];
    for (; rules && *rules; rules++) {
        HloInstruction *replacement = (*rules)(instruction);
        if (replacement) return replacement;
    }
    return NULL;
}

// Sorts the rules of all tables by opcode, once per run: programs have many more instructions than there are rules.
static void sort_rules(Simplifier *simplifier, const HloPassEnv *env) {
    static const HloSimplifyTable none = {0};
    const HloSimplifyTable products = env->before_partitioning ? none : hlo_simplify_products();
    const HloSimplifyTable accumulate = env->before_partitioning ? none : hlo_simplify_accumulate();
    const HloSimplifyTable batching = env->before_partitioning ? hlo_simplify_batching() : none;
    const HloSimplifyTable tables[] = {hlo_simplify_arithmetic(),
                                       hlo_simplify_logic(),
                                       hlo_simplify_convert(),
                                       hlo_simplify_shape(),
                                       hlo_simplify_slice(),
                                       hlo_simplify_gather(),
                                       hlo_simplify_scatter(),
                                       batching,
                                       hlo_simplify_compute(),
                                       products,
                                       accumulate,
                                       hlo_simplify_pairs(),
                                       hlo_simplify_order(),
                                       hlo_simplify_repeated()};
    int64_t counts[HLO_OPCODE_COUNT] = {0};
    HloSimplifyFunction **lists[HLO_OPCODE_COUNT] = {0};
    for (size_t t = 0; t < HLO_COUNT_OF(tables); t++)
        for (int64_t r = 0; r < tables[t].count; r++) counts[tables[t].rules[r].opcode]++;
    for (size_t t = 0; t < HLO_COUNT_OF(tables); t++) {
        for (int64_t r = 0; r < tables[t].count; r++) {
            const HloSimplifyRule *rule = &tables[t].rules[r];
            HloSimplifyFunction ***list = &lists[rule->opcode];
            if (!*list) {
                *list = HLO_ARENA_NEW(simplifier->scratch, HloSimplifyFunction *, counts[rule->opcode] + 1);
                simplifier->rules[rule->opcode] = *list;
            }
            *(*list)++ = rule->apply;
        }
    }
}

// An instruction may be in the list several times, and may have been removed before its turn: removed ones have no
// parent.
static void push(Simplifier *simplifier, HloInstruction *instruction) {
    hlo_vector_push(simplifier->scratch, &simplifier->todo, instruction);
}

// Whether an instruction is still to be visited for the first time.
static bool is_waiting(const Simplifier *simplifier, const HloInstruction *instruction) {
    const int64_t *found = hlo_int_map_find(&simplifier->waiting, (uint64_t)instruction->id);
    return found && *found;
}

// Visits an instruction again. One that has not been visited comes after all of its operands, wherever the text of the
// program has them: which rules apply to it must not depend on the order of the text.
static void push_again(Simplifier *simplifier, HloInstruction *instruction) {
    if (!is_waiting(simplifier, instruction)) push(simplifier, instruction);
}

// Visits one instruction. Dead ones are removed immediately: a value that replaces others collects their users, and if
// dead users stayed, each replacement would visit all previous ones again.
static void visit(Simplifier *simplifier, HloInstruction *instruction) {
    if (!instruction->parent || !is_static(instruction) || !hlo_pass_may_replace(instruction)) return;
    if (hlo_instruction_is_dead(instruction)) {
        hlo_instruction_remove(instruction);
        simplifier->changed = true;
        return;
    }
    HloInstruction *last = instruction->parent->last;
    HloInstruction *replacement = simpler(simplifier, instruction);
    if (!replacement) return;
    // New instructions are after `last`; the rules may apply to them too, and to the users that see the replacement for
    // the first time. But not to all of its users: one value that replaces n others would cause n^2 visits.
    const HloInstructionVector users = instruction->users;
    bool made = instruction->parent->last != last;
    for (HloInstruction *i = last->next; i; i = i->next) push(simplifier, i);
    bool replaced = hlo_pass_replace(instruction, replacement);
    simplifier->changed |= replaced || made;
    if (!replaced) return;
    simplifier->budget--;
    push_again(simplifier, replacement);
    for (int64_t u = 0; u < users.count; u++) push_again(simplifier, users.items[u]);
}

// Applies the rules to one computation until none matches or the budget is used up. Twenty rewrites per instruction are
// far more than any known program needs; the bound is for pairs of rules that undo each other.
static void simplify(Simplifier *simplifier, HloComputation *computation) {
    assert(computation && !computation->removed);
    simplifier->todo = (HloInstructionVector){0};
    simplifier->waiting = (HloIntMap){0};
    simplifier->budget = 20 * computation->instruction_count + 100;
    // Operands first: the list is popped from its end.
    for (HloInstruction *i = computation->last; i; i = i->previous) {
        hlo_int_map_set(simplifier->scratch, &simplifier->waiting, (uint64_t)i->id, true);
        push(simplifier, i);
    }
    while (simplifier->todo.count && simplifier->budget > 0) {
        HloInstruction *next = simplifier->todo.items[--simplifier->todo.count];
        if (is_waiting(simplifier, next))
            hlo_int_map_set(simplifier->scratch, &simplifier->waiting, (uint64_t)next->id, false);
        visit(simplifier, next);
    }
}

HloStatus hlo_pass_algebraic_simplifier(HloModule *module, const HloPassEnv *env, bool *changed) {
    Simplifier simplifier = {.scratch = env->scratch};
    sort_rules(&simplifier, env);
    for (int64_t c = 0; c < module->computations.count; c++) {
        HloArenaMark mark = hlo_arena_mark(env->scratch);
        simplify(&simplifier, module->computations.items[c]);
        hlo_arena_reset(env->scratch, mark);
    }
    *changed |= simplifier.changed;
    return HLO_SUCCESS;
}
