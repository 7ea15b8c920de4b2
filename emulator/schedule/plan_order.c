// SPDX-License-Identifier: Apache-2.0
// Another order of a plan's kernels: depth first from the results, operands that free most first. XLA's depth-first
// memory scheduler orders instructions in this way if they do not have a schedule.
#include <assert.h>
#include <stdlib.h>

#include "emulator/fusion.h"
#include "emulator/layout/layout.h"
#include "emulator/schedule/plan_order.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"

// A kernel as a node.
typedef struct Node {
    HloInt64Vector needs;  // kernels that must run before, without repetition
    double bytes;          // of the results of this kernel and of all that it depends on (shared parts count each time)
    double extra_users;    // uses beyond the first, likewise
    int64_t users;
    int64_t next;  // of `needs` to visit
    bool visited;
} Node;

typedef struct Orderer {
    HloArena *arena;
    const EmuPlan *plan;
    const int32_t *kernel_of;
    Node *nodes;
    HloIntMap seen;  // instruction ids looked through for the current kernel
} Orderer;

// Records the values that an instruction reads: kernels that it waits for are added to `node`, and instructions that
// are in no kernel of their own (tuples, views and the like) to `through`, to be examined later.
static void note_reads(Orderer *orderer, Node *node, const HloInstruction *operand, HloInstructionVector *through) {
    if (hlo_int_map_find(&orderer->seen, (uint64_t)operand->id)) return;
    hlo_int_map_set(orderer->arena, &orderer->seen, (uint64_t)operand->id, 1);
    const int32_t kernel = orderer->kernel_of[operand->id];
    if (kernel < 0) {
        hlo_vector_push(orderer->arena, through, (HloInstruction *)(uintptr_t)operand);
    } else if (&orderer->nodes[kernel] != node) {
        hlo_vector_push(orderer->arena, &node->needs, kernel);
        orderer->nodes[kernel].users++;
    }
}

// The pending values are in a list, because chains of tuples may be as long as the program. The order in which needs
// are found does not matter: sort_needs() reorders them.
static void look_through(Orderer *orderer, Node *node, HloInstructionVector *through) {
    assert(node && through);
    while (through->count) {
        const HloInstruction *at = through->items[--through->count];
        for (int32_t i = 0; i < at->operand_count; i++) note_reads(orderer, node, at->operands[i], through);
        for (int64_t i = 0; i < at->control_predecessors.count; i++)
            note_reads(orderer, node, at->control_predecessors.items[i], through);
    }
}

// The order in which a kernel's needs are visited: those with more extra users, then those with more bytes, first.
typedef struct Rank {
    double extra_users, bytes;
    int64_t kernel;
} Rank;

static int compare_ranks(const void *left, const void *right) {
    const Rank *a = left, *b = right;
    if (a->extra_users != b->extra_users) return a->extra_users < b->extra_users ? 1 : -1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

static void sort_needs(Orderer *orderer, Node *node) {
    Rank *ranks = HLO_ARENA_NEW(orderer->arena, Rank, node->needs.count);
    for (int64_t i = 0; i < node->needs.count; i++) {
        const Node *need = &orderer->nodes[node->needs.items[i]];
        ranks[i] = (Rank){need->extra_users, need->bytes, node->needs.items[i]};
    }
    qsort(ranks, (size_t)node->needs.count, sizeof(*ranks), compare_ranks);
    for (int64_t i = 0; i < node->needs.count; i++) node->needs.items[i] = ranks[i].kernel;
}

// Visits a kernel and what it needs, without recursion; appends in post order.
static void visit(Orderer *orderer, int64_t kernel, HloInt64Vector *order) {
    assert(kernel >= 0 && order);
    HloInt64Vector stack = {0};
    if (orderer->nodes[kernel].visited) return;
    orderer->nodes[kernel].visited = true;
    hlo_vector_push(orderer->arena, &stack, kernel);
    while (stack.count) {
        Node *node = &orderer->nodes[stack.items[stack.count - 1]];
        if (node->next == node->needs.count) {
            hlo_vector_push(orderer->arena, order, stack.items[--stack.count]);
            continue;
        }
        const int64_t need = node->needs.items[node->next++];
        if (orderer->nodes[need].visited) continue;
        orderer->nodes[need].visited = true;
        hlo_vector_push(orderer->arena, &stack, need);
    }
}

// Links the kernels, and adds up the bytes and extra users of the needs of each. The given order is already valid, so
// needs come first.
static void make_nodes(Orderer *orderer, const EmuChip *chip) {
    const EmuPlan *plan = orderer->plan;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        Node *node = &orderer->nodes[k];
        orderer->seen = (HloIntMap){0};
        HloInstructionVector through = {0};
        for (int64_t m = 0; m < plan->kernels[k].member_count; m++)
            hlo_vector_push(orderer->arena, &through, plan->kernels[k].members[m]);
        look_through(orderer, node, &through);
    }
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        Node *node = &orderer->nodes[k];
        node->bytes = (double)emu_padded_bytes(chip, plan->kernels[k].members[0]->shape);
        node->extra_users = node->users > 1 ? (double)(node->users - 1) : 0;
        for (int64_t i = 0; i < node->needs.count; i++) {
            node->bytes += orderer->nodes[node->needs.items[i]].bytes;
            node->extra_users += orderer->nodes[node->needs.items[i]].extra_users;
        }
        sort_needs(orderer, node);
    }
}

EmuPlan *emu_plan_with_order(HloArena *arena, const EmuPlan *plan, const HloInt64Vector *order) {
    assert(order->count == plan->kernel_count);
    EmuPlan *reordered = HLO_ARENA_NEW(arena, EmuPlan, 1);
    *reordered = *plan;
    reordered->starts_after = NULL;
    reordered->kernels = HLO_ARENA_NEW(arena, EmuKernel, plan->kernel_count);
    for (int64_t i = 0; i < order->count; i++) reordered->kernels[i] = plan->kernels[order->items[i]];
    return reordered;
}

// Orders the kernels depth first from the result: a branch is finished before the next begins, so that fewer arrays are
// alive at the same time. Of the needs of a kernel, the one whose branch has the most users elsewhere comes first, then
// the one with the most bytes (sort_needs()), as in XLA's scheduler.
EmuPlan *emu_plan_depth_first(HloArena *arena, HloArena *scratch, const EmuPlan *plan, const EmuChip *chip,
                              const int32_t *kernel_of) {
    assert(plan && chip && kernel_of);
    const HloArenaMark mark = hlo_arena_mark(scratch);
    Orderer orderer = {.arena = scratch, .plan = plan, .kernel_of = kernel_of};
    orderer.nodes = HLO_ARENA_NEW(scratch, Node, plan->kernel_count);
    make_nodes(&orderer, chip);
    // The result comes last; kernels that it does not need keep their relative order.
    Node result = {0};
    HloInt64Vector order = {0};
    orderer.seen = (HloIntMap){0};
    HloInstructionVector through = {0};
    note_reads(&orderer, &result, plan->computation->root, &through);
    look_through(&orderer, &result, &through);
    sort_needs(&orderer, &result);
    for (int64_t i = 0; i < result.needs.count; i++) visit(&orderer, result.needs.items[i], &order);
    for (int64_t k = 0; k < plan->kernel_count; k++) visit(&orderer, k, &order);
    EmuPlan *reordered = emu_plan_with_order(arena, plan, &order);
    hlo_arena_reset(scratch, mark);
    return reordered;
}
