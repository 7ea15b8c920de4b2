// SPDX-License-Identifier: Apache-2.0
// Writes out ops that the engine has no form for, and needs none: a pass replaces them by others before the graph is
// built. Dynamic sizes become static ones with masks in the same way. Reductions over stacked arrays become operations
// on these, which fused loops compute in registers. Costly loop-invariant work is hoisted out of loops.
#include "targets/cpu/graph/expand.h"

#include "hlo/analysis/contents.h"
#include "hlo/ir/infer/support.h"
#include "hlo/pass/pass.h"

typedef struct ExpandRow {
    HloOpcode opcode;
    const char *pass;
} ExpandRow;

// The pass that eliminates each op.
static const ExpandRow kRows[] = {
    {HLO_OP_BATCH_NORM_TRAINING, "batch-norm-expander"},
    {HLO_OP_BATCH_NORM_INFERENCE, "batch-norm-expander"},
    {HLO_OP_BATCH_NORM_GRAD, "batch-norm-expander"},
    {HLO_OP_SCAN, "scan-expander"},
    {HLO_OP_BITCAST, "bitcast-expander"},
    {HLO_OP_SCALED_DOT, "scaled-dot-expander"},
};

static bool is_spelled_out(const HloInstruction *instruction) {
    for (size_t r = 0; r < HLO_COUNT_OF(kRows); r++)
        if (kRows[r].opcode == instruction->opcode) return true;
    return hlo_product_converts(instruction);
}

// Moves an op's control edges to its neighbours, because passes skip ops with control edges. These ops have no effect
// of their own, so their edges only order their neighbours.
static void pass_edges_on(HloInstruction *op) {
    const HloInstructionVector *before = &op->control_predecessors, *after = &op->control_successors;
    for (int64_t s = 0; s < after->count; s++) {
        for (int64_t p = 0; p < before->count; p++) hlo_instruction_add_control_edge(before->items[p], after->items[s]);
        for (int32_t k = 0; k < op->operand_count; k++)
            hlo_instruction_add_control_edge(op->operands[k], after->items[s]);
    }
    for (int64_t p = 0; p < before->count; p++)
        for (int64_t u = 0; u < op->users.count; u++)
            hlo_instruction_add_control_edge(before->items[p], op->users.items[u]);
    while (before->count) hlo_instruction_remove_control_edge(before->items[0], op);
    while (after->count) hlo_instruction_remove_control_edge(op, after->items[0]);
}

static void free_of_edges(const HloModule *module) {
    for (int64_t c = 0; c < module->computations.count; c++)
        for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
            if (is_spelled_out(i)) pass_edges_on(i);
}

static bool has_dynamic_sizes(const HloInstruction *instruction) {
    return hlo_shape_is_dynamic(instruction->shape);
}

// Compares pointers of the table: a pass that serves several ops is one string there.
static bool is_listed(const char *const *names, int64_t count, const char *name) {
    for (int64_t i = 0; i < count; i++)
        if (names[i] == name) return true;
    return false;
}

// The hoisting passes. Before them, calls must be inlined (a callee is part of the loop body) and equal values merged
// (else each would become a separate loop-carried value).
static const char *const kHoists[] = {"call-inliner", "tuple-simplifier", "cse",
                                      "while-loop-expensive-invariant-code-motion"};

// Reductions of stacks, and what simplifies the operations on their numbers.
static const char *const kStacks[] = {
    "stack-expander", "algebraic-simplifier", "constant-folding", "algebraic-simplifier", "cse", "dce"};

// Scans the module once per row; programs without these ops stay as they are. The passes run in the order of the table.
// The padder runs after them, since the ops they write out may have dynamic sizes too; loops come last, since these
// passes create some of them.
HloStatus cpu_expand(HloModule *module) {
    const char *names[HLO_COUNT_OF(kRows) + 2 + HLO_COUNT_OF(kStacks) + HLO_COUNT_OF(kHoists)];
    int64_t count = 0;
    for (size_t r = 0; r < HLO_COUNT_OF(kRows); r++)
        if (!is_listed(names, count, kRows[r].pass) && hlo_module_has(module, kRows[r].opcode))
            names[count++] = kRows[r].pass;
    if (hlo_module_has_converting_product(module)) names[count++] = "product-type-expander";
    if (hlo_module_find(module, has_dynamic_sizes)) names[count++] = "dynamic-padder";
    const bool stacks = hlo_module_find(module, hlo_is_reduction_of_stacks) != NULL;
    for (size_t s = 0; stacks && s < HLO_COUNT_OF(kStacks); s++) names[count++] = kStacks[s];
    const bool loops = hlo_module_has(module, HLO_OP_WHILE) || hlo_module_has(module, HLO_OP_SCAN);
    for (size_t h = 0; loops && h < HLO_COUNT_OF(kHoists); h++) names[count++] = kHoists[h];
    if (count == 0) return HLO_SUCCESS;
    free_of_edges(module);
    const HloPassOptions options = {.skip_verify = true, .keep_products = true};
    return hlo_run_passes(module, names, count, &options);
}
