// SPDX-License-Identifier: Apache-2.0
// The algebraic simplifier: a work list over the rules of the other files here.
//
// Every instruction is looked at once, operands first, and again whenever something that it reads was replaced, so that
// one run reaches a fixed point of all rules together. Of several rules that apply the first one in the tables wins;
// the order of the tables decides which form of a program is preferred, never what it computes.
//
// What rules make is appended to the computation and stands behind its users for a while: the runner sorts at the end
// of the pass, and no rule may rely on the order of the list.
//
//   z = add(negate(negate(s32 x)), broadcast(0))   ->   x, in one run: the two negations, then, visited again, the sum
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

typedef struct Simplifier {
    HloArena *scratch;
    HloSimplifyFunction *const *rules[HLO_OPCODE_COUNT];  // of each opcode, in the order of the tables; NULL at the end
    HloInstructionVector todo;
    int64_t budget;  // rewrites that are left: an end in case two rules undo each other
    bool changed;
} Simplifier;

// Rules read sizes off shapes, which are only bounds where a dimension is dynamic: such instructions are left to the
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

// Sorts the rules of all tables by opcode, once a run: programs have many more instructions than there are rules.
static void sort_rules(Simplifier *simplifier, const HloPassEnv *env) {
    static const HloSimplifyTable none = {0};
    const HloSimplifyTable products = env->before_partitioning ? none : hlo_simplify_products();
    const HloSimplifyTable tables[] = {hlo_simplify_arithmetic(),
                                       hlo_simplify_logic(),
                                       hlo_simplify_convert(),
                                       hlo_simplify_shape(),
                                       hlo_simplify_slice(),
                                       hlo_simplify_compute(),
                                       products,
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

// An instruction may stand in the list several times, and may be gone when its turn comes: removed ones have no parent.
static void push(Simplifier *simplifier, HloInstruction *instruction) {
    hlo_vector_push(simplifier->scratch, &simplifier->todo, instruction);
}

// Nothing reads it any more. (Parameters and effects were sorted out before.)
static bool is_dead(const HloInstruction *instruction) {
    return instruction->users.count == 0 && !hlo_instruction_is_root(instruction) &&
           instruction->opcode != HLO_OP_PARAMETER;
}

// Looks at one instruction. Dead ones go at once: a value that takes the place of others collects their users, and if
// the dead among these stayed, each replacement would look at all that were there before it.
static void visit(Simplifier *simplifier, HloInstruction *instruction) {
    if (!instruction->parent || !is_static(instruction) || !hlo_pass_may_replace(instruction)) return;
    if (is_dead(instruction)) {
        hlo_instruction_remove(instruction);
        simplifier->changed = true;
        return;
    }
    HloInstruction *last = instruction->parent->last;
    HloInstruction *replacement = simpler(simplifier, instruction);
    if (!replacement) return;
    // New instructions stand behind `last`; the rules may apply to them too, and to whoever sees the replacement for
    // the first time. Not to all of its users: one value that takes the place of n others would be n^2 visits.
    const HloInstructionVector users = instruction->users;
    bool made = instruction->parent->last != last;
    for (HloInstruction *i = last->next; i; i = i->next) push(simplifier, i);
    bool replaced = hlo_pass_replace(instruction, replacement);
    simplifier->changed |= replaced || made;
    if (!replaced) return;
    simplifier->budget--;
    push(simplifier, replacement);
    for (int64_t u = 0; u < users.count; u++) push(simplifier, users.items[u]);
}

// The rules on one computation, until none applies or the budget is used up. Twenty rewrites an instruction are far
// more than any program was seen to need; the bound is there for pairs of rules that undo each other.
static void simplify(Simplifier *simplifier, HloComputation *computation) {
    assert(computation && !computation->removed);
    simplifier->todo = (HloInstructionVector){0};
    simplifier->budget = 20 * computation->instruction_count + 100;
    // Operands first: the end of the list is taken first.
    for (HloInstruction *i = computation->last; i; i = i->previous) push(simplifier, i);
    while (simplifier->todo.count && simplifier->budget > 0) {
        visit(simplifier, simplifier->todo.items[--simplifier->todo.count]);
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
