// SPDX-License-Identifier: Apache-2.0
// Joins kernels into kernels with several results, as XLA's multi-output fusion does. A kernel joins another one that
// makes an array which it reads (the array is written for others, but need not be read again), or that reads an array
// which it reads too (the array is read once for both).
//
//   a = dot(x, w)                          a, g = …                 one kernel of the members g, d, t, a with the
//   t = tanh(a)    used by g and d   ->    reads x, w, y and   ->   results g and d; t and a, which nothing else
//   g = t * a                              writes g, d              reads, stay inside
//   d = (1 - t * t) * y
//
// The pass takes kernels in their order and joins each with the candidate that saves the most bytes. Joining is legal
// if no third kernel needs the one and is needed by the other. Kernels between the two that need the earlier one move
// after the joined one, so that the order stays valid:
//
//   P  u  v  C    where v needs P   ->   u  P+C  v
#include "emulator/schedule/multi_output.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/schedule/plan_order.h"
#include "hlo/base/map.h"

// The most kernels between two that are joined: arrays must not wait long for those that are made together with them.
#define MAX_DISTANCE 128
// The most results of a kernel. XLA's compiler for GPUs has the same bound for operands and results together.
#define MAX_RESULTS 96

// A kernel of the plan, by its number there.
typedef struct Node {
    EmuKernel kernel;
    HloInt64Vector needs;  // numbers of the kernels that run before
    int64_t elements;      // that the kernel steps over
    int64_t joined_to;     // itself, or a number nearer to that of the kernel that it is part of
    int64_t place;         // in Joiner.order
    bool needs_first;      // it waits for the earlier one of the two kernels that are about to be joined
} Node;

typedef struct Joiner {
    HloArena *arena;
    const EmuPlan *plan;
    const int32_t *stages;
    const int32_t *kernel_of;
    Node *nodes;
    int64_t *order;     // numbers of kernels; -1 where one has joined another
    HloIntMap holders;  // from an instruction's id to its list: the kernels that it is a member of
    HloIntMap readers;  // likewise: the kernels that read its result, among other arrays of their size
    HLO_VECTOR(HloInt64Vector) lists;
} Joiner;

// A kernel that another one may join, and the bytes that this saves.
typedef struct Candidate {
    int64_t number;
    double bytes;
} Candidate;

typedef HLO_VECTOR(Candidate) Candidates;

static int64_t find(const Joiner *joiner, int64_t number) {
    Node *nodes = joiner->nodes;
    while (nodes[number].joined_to != number)
        number = nodes[number].joined_to = nodes[nodes[number].joined_to].joined_to;
    return number;
}

static void add_to_list(Joiner *joiner, HloIntMap *lists, const HloInstruction *key, int64_t number) {
    const int64_t *found = hlo_int_map_find(lists, (uint64_t)key->id);
    const int64_t index = found ? *found : joiner->lists.count;
    if (!found) {
        hlo_int_map_set(joiner->arena, lists, (uint64_t)key->id, index);
        hlo_vector_push(joiner->arena, &joiner->lists, (HloInt64Vector){0});
    }
    HloInt64Vector *list = &joiner->lists.items[index];
    if (!list->count || list->items[list->count - 1] != number) hlo_vector_push(joiner->arena, list, number);
}

static HloInt64Vector list_of(const Joiner *joiner, const HloIntMap *lists, const HloInstruction *key) {
    const int64_t *found = hlo_int_map_find(lists, (uint64_t)key->id);
    return found ? joiner->lists.items[*found] : (HloInt64Vector){0};
}

static bool is_member(const Joiner *joiner, const HloInstruction *instruction, int64_t number) {
    const HloInt64Vector holders = list_of(joiner, &joiner->holders, instruction);
    for (int64_t i = 0; i < holders.count; i++)
        if (find(joiner, holders.items[i]) == number) return true;
    return false;
}

// The elements that a kernel steps over: those of its result, or of what it reduces. 0 for kernels that are not joined:
// those with effects, calls and collectives, and those that update arrays in place or only rename them.
static int64_t elements_of(const EmuKernel *kernel) {
    const HloInstruction *root = kernel->members[0];
    const bool is_simple = kernel->kind == EMU_OP_VECTOR || kernel->kind == EMU_OP_MOVE ||
                           kernel->kind == EMU_OP_MATRIX || kernel->kind == EMU_OP_REDUCE;
    if (!is_simple || hlo_op_is(root->opcode, HLO_OP_IS_SIDE_EFFECT) || emu_is_view(root)) return 0;
    for (int64_t m = 0; m < kernel->member_count; m++) {
        const HloOpcode opcode = kernel->members[m]->opcode;
        if (opcode == HLO_OP_DYNAMIC_UPDATE_SLICE || opcode == HLO_OP_SCATTER) return 0;
    }
    if (kernel->kind != EMU_OP_REDUCE) return hlo_shape_is_array(root->shape) ? hlo_shape_elements(root->shape) : 0;
    int64_t most = 0;
    for (int32_t i = 0; i < root->operand_count; i++) {
        const HloShape *shape = root->operands[i]->shape;
        if (hlo_shape_is_array(shape) && hlo_shape_elements(shape) > most) most = hlo_shape_elements(shape);
    }
    return most;
}

// Whether `operand` is an array from outside of kernel `number` and of the size that the kernel steps over.
static bool is_full_input(const Joiner *joiner, int64_t number, const HloInstruction *operand) {
    const int64_t elements = joiner->nodes[number].elements;
    return hlo_shape_is_array(operand->shape) && hlo_shape_elements(operand->shape) == elements &&
           operand->opcode != HLO_OP_CONSTANT && !is_member(joiner, operand, number);
}

static void make_nodes(Joiner *joiner) {
    for (int64_t k = 0; k < joiner->plan->kernel_count; k++) {
        Node *node = &joiner->nodes[k];
        *node = (Node){.kernel = joiner->plan->kernels[k], .joined_to = k, .place = k};
        joiner->order[k] = k;
        node->elements = elements_of(&node->kernel);
        EmuWalk walk = {joiner->arena, joiner->kernel_of, {0}};
        for (int64_t m = 0; m < node->kernel.member_count; m++) {
            const HloInstruction *member = node->kernel.members[m];
            emu_list_kernels(&walk, member, false, &node->needs);
            add_to_list(joiner, &joiner->holders, member, k);
        }
    }
    for (int64_t k = 0; k < joiner->plan->kernel_count; k++) {
        const EmuKernel *kernel = &joiner->nodes[k].kernel;
        for (int64_t m = 0; joiner->nodes[k].elements && m < kernel->member_count; m++)
            for (int32_t i = 0; i < kernel->members[m]->operand_count; i++)
                if (is_full_input(joiner, k, kernel->members[m]->operands[i]))
                    add_to_list(joiner, &joiner->readers, kernel->members[m]->operands[i], k);
    }
}

// Whether kernel `late` may be part of kernel `early`, which makes an array that it reads, or reads one too.
static bool may_share(const Joiner *joiner, int64_t early, int64_t late, bool makes) {
    const Node *a = &joiner->nodes[early], *b = &joiner->nodes[late];
    if (early == late || !a->elements || a->elements != b->elements) return false;
    if (joiner->stages[early] != joiner->stages[late] || b->place - a->place > MAX_DISTANCE) return false;
    if (a->kernel.member_count + b->kernel.member_count > EMU_MAX_MEMBERS) return false;
    if (a->kernel.root_count + b->kernel.root_count > MAX_RESULTS) return false;
    return makes ? a->kernel.kind != EMU_OP_REDUCE : a->kernel.kind != EMU_OP_MATRIX;
}

static void add_candidate(Joiner *joiner, Candidates *candidates, int64_t number, double bytes) {
    for (int64_t i = 0; i < candidates->count; i++)
        if (candidates->items[i].number == number) {
            candidates->items[i].bytes += bytes;
            return;
        }
    hlo_vector_push(joiner->arena, candidates, ((Candidate){number, bytes}));
}

// The index of a number in a list in ascending order.
static int64_t index_of(const HloInt64Vector *list, int64_t number) {
    int64_t low = 0, high = list->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list->items[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Adds the kernels that make or read one of the arrays that kernel `late` reads.
static void add_candidates(Joiner *joiner, int64_t late, const HloInstruction *array, Candidates *candidates) {
    const double bytes = (double)hlo_shape_elements(array->shape) * hlo_type_info(array->shape->type)->bits / 8;
    if (joiner->kernel_of[array->id] >= 0) {
        const int64_t maker = find(joiner, joiner->kernel_of[array->id]);
        if (may_share(joiner, maker, late, true)) add_candidate(joiner, candidates, maker, bytes);
    }
    // Those farther back in the list are too far away.
    const HloInt64Vector readers = list_of(joiner, &joiner->readers, array);
    int64_t end = index_of(&readers, late);
    for (int64_t steps = 0; end > 0 && steps < MAX_DISTANCE; steps++) {
        const int64_t reader = find(joiner, readers.items[--end]);
        if (may_share(joiner, reader, late, false)) add_candidate(joiner, candidates, reader, bytes);
    }
}

// Marks the kernels between two that need the first one, and so must run after the two: false if the second needs one
// of them.
static bool mark_between(const Joiner *joiner, int64_t first, int64_t second) {
    Node *nodes = joiner->nodes;
    for (int64_t p = nodes[first].place; p <= nodes[second].place; p++)
        if (joiner->order[p] >= 0) nodes[joiner->order[p]].needs_first = false;
    for (int64_t p = nodes[first].place + 1; p <= nodes[second].place; p++) {
        const int64_t number = joiner->order[p];
        if (number < 0) continue;
        Node *node = &nodes[number];
        for (int64_t i = 0; i < node->needs.count; i++) {
            const int64_t need = find(joiner, node->needs.items[i]);
            if (number != second && need == first) node->needs_first = true;
            if (nodes[need].place > nodes[first].place && nodes[need].needs_first) node->needs_first = true;
        }
    }
    return !nodes[second].needs_first;
}

// Puts the first kernel before those that mark_between() marked and the others before it; the second one's place stays
// empty.
static void reorder(const Joiner *joiner, int64_t first, int64_t second) {
    Node *nodes = joiner->nodes;
    const int64_t start = nodes[first].place, end = nodes[second].place;
    int64_t late[MAX_DISTANCE + 1];
    int64_t late_count = 0, place = start;
    for (int64_t p = start + 1; p < end; p++) {
        const int64_t number = joiner->order[p];
        if (number >= 0 && nodes[number].needs_first) {
            late[late_count++] = number;
        } else if (number >= 0) {
            nodes[number].place = place;
            joiner->order[place++] = number;
        }
    }
    nodes[first].place = place;
    joiner->order[place++] = first;
    for (int64_t i = 0; i < late_count; i++) {
        nodes[late[i]].place = place;
        joiner->order[place++] = late[i];
    }
    while (place <= end) joiner->order[place++] = -1;
}

// Whether a result must be in memory: something outside of its kernel reads it.
static bool is_read_outside(const Joiner *joiner, const HloInstruction *result, int64_t number) {
    if (hlo_instruction_is_root(result) || !result->users.count) return true;
    for (int64_t u = 0; u < result->users.count; u++) {
        const HloInt64Vector holders = list_of(joiner, &joiner->holders, result->users.items[u]);
        if (!holders.count) return true;
        for (int64_t i = 0; i < holders.count; i++)
            if (find(joiner, holders.items[i]) != number) return true;
    }
    return false;
}

// Lists the members of two kernels, which now have one number, each once and results first.
static EmuKernel unite(const Joiner *joiner, const EmuKernel *first, const EmuKernel *second, int64_t number) {
    const EmuKernel *kernels[] = {first, second};
    EmuKernel united = {.kind = first->kind};
    united.members = HLO_ARENA_NEW(joiner->arena, HloInstruction *, first->member_count + second->member_count);
    HloIntMap listed = {0};
    if (united.kind != EMU_OP_MATRIX) united.kind = EMU_OP_REDUCE;  // if all results are reductions
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < 2; k++)
            for (int64_t m = 0; m < kernels[k]->member_count; m++) {
                HloInstruction *member = kernels[k]->members[m];
                const bool is_result = m < kernels[k]->root_count && is_read_outside(joiner, member, number);
                if (is_result != (pass == 0) || hlo_int_map_find(&listed, (uint64_t)member->id)) continue;
                hlo_int_map_set(joiner->arena, &listed, (uint64_t)member->id, 1);
                united.members[united.member_count++] = member;
                united.root_count += is_result;
                if (is_result && united.kind == EMU_OP_REDUCE) united.kind = emu_instruction_class(member);
            }
    assert(united.root_count > 0);
    return united;
}

static void join(const Joiner *joiner, int64_t first, int64_t second) {
    Node *a = &joiner->nodes[first], *b = &joiner->nodes[second];
    reorder(joiner, first, second);
    b->joined_to = first;
    a->kernel = unite(joiner, &a->kernel, &b->kernel, first);
    for (int64_t i = 0; i < b->needs.count; i++)
        if (find(joiner, b->needs.items[i]) != first) hlo_vector_push(joiner->arena, &a->needs, b->needs.items[i]);
}

// The candidate that saves the most, of those the latest; NULL if all have been refused.
static Candidate *best_candidate(const Joiner *joiner, const Candidates *candidates) {
    Candidate *best = NULL;
    for (int64_t i = 0; i < candidates->count; i++) {
        Candidate *at = &candidates->items[i];
        if (at->bytes <= 0) continue;
        const bool is_later = best && joiner->nodes[at->number].place > joiner->nodes[best->number].place;
        if (!best || at->bytes > best->bytes || (at->bytes == best->bytes && is_later)) best = at;
    }
    return best;
}

// Whether `late` reads from `early` only arrays that both step over, and so no sum that is complete only at the end.
static bool reads_in_step(const Joiner *joiner, int64_t early, int64_t late) {
    const EmuKernel *kernel = &joiner->nodes[late].kernel;
    EmuWalk walk = {joiner->arena, joiner->kernel_of, {0}};
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            const HloInstruction *operand = kernel->members[m]->operands[i];
            if (is_member(joiner, operand, late)) continue;
            if (joiner->kernel_of[operand->id] >= 0) {
                const bool in_step =
                    is_full_input(joiner, late, operand) && emu_instruction_class(operand) != EMU_OP_REDUCE;
                if (!in_step && find(joiner, joiner->kernel_of[operand->id]) == early) return false;
                continue;
            }
            HloInt64Vector makers = {0};
            emu_list_kernels(&walk, operand, false, &makers);
            for (int64_t k = 0; k < makers.count; k++)
                if (find(joiner, makers.items[k]) == early) return false;
        }
    return true;
}

// Joins a kernel with the best candidate, if there is a legal one.
static void place_kernel(Joiner *joiner, int64_t late) {
    const EmuKernel *kernel = &joiner->nodes[late].kernel;
    if (!joiner->nodes[late].elements || kernel->kind == EMU_OP_MATRIX) return;
    Candidates candidates = {0};
    HloIntMap seen = {0};
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            const HloInstruction *operand = kernel->members[m]->operands[i];
            if (!is_full_input(joiner, late, operand) || hlo_int_map_find(&seen, (uint64_t)operand->id)) continue;
            hlo_int_map_set(joiner->arena, &seen, (uint64_t)operand->id, 1);
            add_candidates(joiner, late, operand, &candidates);
        }
    for (Candidate *best; (best = best_candidate(joiner, &candidates)); best->bytes = 0)
        if (reads_in_step(joiner, best->number, late) && mark_between(joiner, best->number, late)) {
            join(joiner, best->number, late);
            return;
        }
}

void emu_join_outputs(HloArena *arena, EmuPlan *plan, const int32_t *stages, int32_t *kernel_of) {
    assert(plan && stages && kernel_of);
    Joiner joiner = {.arena = arena, .plan = plan, .stages = stages, .kernel_of = kernel_of};
    joiner.nodes = HLO_ARENA_NEW(arena, Node, plan->kernel_count);
    joiner.order = HLO_ARENA_NEW(arena, int64_t, plan->kernel_count);
    make_nodes(&joiner);
    for (int64_t k = 0; k < plan->kernel_count; k++) place_kernel(&joiner, k);
    for (int64_t k = 0; k < plan->kernel_count; k++)
        for (int64_t r = 0; r < plan->kernels[k].root_count; r++) kernel_of[plan->kernels[k].members[r]->id] = -1;
    const int64_t count = plan->kernel_count;
    plan->kernel_count = 0;
    for (int64_t p = 0; p < count; p++)
        if (joiner.order[p] >= 0) plan->kernels[plan->kernel_count++] = joiner.nodes[joiner.order[p]].kernel;
    emu_plan_number(plan, kernel_of);
}
