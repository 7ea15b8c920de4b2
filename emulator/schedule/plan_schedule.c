// SPDX-License-Identifier: Apache-2.0
// The order in which the kernels of a plan run, where the program leaves it open. It depends on the graph alone:
// neither the order of the text nor names make a difference, apart from instructions that nothing uses.
//
// A start and its done are one unit while the order is chosen. The units are ordered for little memory: by a list
// scheduler that always runs the unit that frees most, as XLA's does. Afterwards starts move away from their dones, so
// that transfers run beside kernels: as far up as their operands allow, but for results that are larger than their
// operands no further than the transfer takes, since arrays that arrive too early only fill memory; dones move down to
// the first kernel that needs the result.
//
//   k1 [s d] k2 k3(d)      ->      k1 s k2 d k3          s: start, d: done, k3 needs the result
//
// Where the first kernel that needs the result only stores it (an update in place), it moves down too.
//
// The list scheduler takes O(E log E) time for E dependences between kernels.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/cost.h"
#include "emulator/layout/layout.h"
#include "emulator/program.h"
#include "emulator/schedule/plan_order.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"

// A kernel as a node, or a start with its done under the number of the done.
typedef struct Node {
    HloInt64Vector needs, users;  // nodes, without repetition
    int64_t bytes;                // of its results that stay when it has run
    int64_t waiting;              // needs that have not run
    int64_t readers;              // users that have not run, and one more for results of the computation
    int64_t stamp;                // of its latest entry in the heap
    bool has_run;
} Node;

// An entry of the heap; out of date if its stamp is not the node's.
typedef struct Entry {
    int64_t gain;  // bytes freed less bytes made
    int64_t node;
    int64_t stamp;
} Entry;

typedef struct Scheduler {
    HloArena *arena;
    const EmuPlan *plan;
    const EmuChip *chip;
    const int32_t *kernel_of;
    Node *nodes;        // by kernel
    int64_t *unit_of;   // by kernel: its node
    int64_t *start_of;  // by kernel: the start that runs right before it; -1 if none
    int64_t *noted_by;  // by kernel: one more than the node that needs it and was made last
    HLO_VECTOR(Entry) heap;
    HloInt64Vector order;
} Scheduler;

// ---------------------------------------------------------------------------------------------------------------------
// The graph

static void add_need(Scheduler *scheduler, int64_t node, int64_t need) {
    if (node == need || scheduler->noted_by[need] == node + 1) return;
    scheduler->noted_by[need] = node + 1;
    hlo_vector_push(scheduler->arena, &scheduler->nodes[node].needs, need);
}

void emu_list_kernels(EmuWalk *walk, const HloInstruction *from, bool users, HloInt64Vector *kernels) {
    HLO_VECTOR(const HloInstruction *) through = {0};
    hlo_vector_push(walk->arena, &through, from);
    while (through.count) {
        const HloInstruction *at = through.items[--through.count];
        const HloInstructionVector *control = users ? &at->control_successors : &at->control_predecessors;
        HloInstruction *const *values = users ? at->users.items : at->operands;
        const int64_t count = users ? at->users.count : at->operand_count;
        for (int64_t i = 0; i < count + control->count; i++) {
            const HloInstruction *next = i < count ? values[i] : control->items[i - count];
            if (hlo_int_map_find(&walk->seen, (uint64_t)next->id)) continue;
            hlo_int_map_set(walk->arena, &walk->seen, (uint64_t)next->id, 1);
            const int32_t kernel = walk->kernel_of[next->id];
            if (kernel < 0)
                hlo_vector_push(walk->arena, &through, next);
            else
                hlo_vector_push(walk->arena, kernels, kernel);
        }
    }
}

// Adds what an instruction reads to a node.
static void note_reads(Scheduler *scheduler, EmuWalk *walk, int64_t node, const HloInstruction *reader) {
    HloInt64Vector kernels = {0};
    emu_list_kernels(walk, reader, false, &kernels);
    for (int64_t i = 0; i < kernels.count; i++) add_need(scheduler, node, scheduler->unit_of[kernels.items[i]]);
}

// Whether a kernel's results take over the memory of what it reads: loops and updates in place.
static bool is_in_place(const EmuKernel *kernel) {
    const HloOpcode opcode = kernel->members[0]->opcode;
    return opcode == HLO_OP_WHILE || opcode == HLO_OP_DYNAMIC_UPDATE_SLICE || opcode == HLO_OP_SCATTER ||
           opcode == HLO_OP_ALL_REDUCE;
}

static int64_t result_bytes(const Scheduler *scheduler, const EmuKernel *kernel) {
    int64_t bytes = 0;
    for (int64_t r = 0; r < kernel->root_count; r++)
        if (!emu_is_view(kernel->members[r])) bytes += emu_hbm_bytes(scheduler->chip, kernel->members[r]->shape);
    return bytes;
}

// The start of a done in the same plan; -1 if there is none.
static int64_t start_of_done(const Scheduler *scheduler, const EmuKernel *kernel) {
    const HloInstruction *at = kernel->members[0];
    if (kernel->kind != EMU_OP_DONE || !at->operand_count) return -1;
    for (at = at->operands[0]; at->opcode == HLO_OP_ASYNC_UPDATE;) at = at->operands[0];
    const int32_t start = scheduler->kernel_of[at->id];
    if (start < 0) return -1;
    const EmuOpClass kind = scheduler->plan->kernels[start].kind;
    return kind == EMU_OP_COLLECTIVE_START || kind == EMU_OP_TRANSFER_START ? start : -1;
}

static void join_halves(Scheduler *scheduler) {
    const EmuPlan *plan = scheduler->plan;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        scheduler->unit_of[k] = k;
        scheduler->start_of[k] = -1;
    }
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        const int64_t start = start_of_done(scheduler, &plan->kernels[k]);
        if (start < 0 || scheduler->unit_of[start] != start) continue;  // a second done waits by itself
        scheduler->unit_of[start] = k;
        scheduler->start_of[k] = start;
    }
}

static void make_nodes(Scheduler *scheduler) {
    const EmuPlan *plan = scheduler->plan;
    join_halves(scheduler);
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        if (scheduler->unit_of[k] != k) continue;
        const int64_t start = scheduler->start_of[k];
        EmuWalk walk = {scheduler->arena, scheduler->kernel_of, {0}};
        if (start >= 0) note_reads(scheduler, &walk, k, plan->kernels[start].members[0]);
        for (int64_t m = 0; m < plan->kernels[k].member_count; m++)
            note_reads(scheduler, &walk, k, plan->kernels[k].members[m]);
        scheduler->nodes[k].bytes = result_bytes(scheduler, &plan->kernels[k]);
    }
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        Node *node = &scheduler->nodes[k];
        node->waiting = node->needs.count;
        for (int64_t i = 0; i < node->needs.count; i++) {
            Node *need = &scheduler->nodes[node->needs.items[i]];
            hlo_vector_push(scheduler->arena, &need->users, k);
            need->readers++;
        }
    }
    // In place, the result is no larger than what is read.
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        Node *node = &scheduler->nodes[k];
        if (scheduler->unit_of[k] != k || !is_in_place(&plan->kernels[k])) continue;
        int64_t taken = 0;
        for (int64_t i = 0; i < node->needs.count; i++) taken += scheduler->nodes[node->needs.items[i]].bytes;
        if (taken < node->bytes) node->bytes = taken;
    }
}

// The results of the computation are never freed.
static void hold_results(Scheduler *scheduler) {
    HloIntMap seen = {0};
    HLO_VECTOR(const HloInstruction *) through = {0};
    hlo_vector_push(scheduler->arena, &through, scheduler->plan->computation->root);
    while (through.count) {
        const HloInstruction *at = through.items[--through.count];
        if (hlo_int_map_find(&seen, (uint64_t)at->id)) continue;
        hlo_int_map_set(scheduler->arena, &seen, (uint64_t)at->id, 1);
        const int32_t kernel = scheduler->kernel_of[at->id];
        if (kernel >= 0) {
            scheduler->nodes[scheduler->unit_of[kernel]].readers++;
            continue;
        }
        for (int32_t i = 0; i < at->operand_count; i++) hlo_vector_push(scheduler->arena, &through, at->operands[i]);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The list scheduler

// More gain first, then the earlier in the plan, which is the order of a walk through the graph.
static bool precedes(const Entry *a, const Entry *b) {
    return a->gain != b->gain ? a->gain > b->gain : a->node < b->node;
}

static void push_entry(Scheduler *scheduler, Entry entry) {
    hlo_vector_push(scheduler->arena, &scheduler->heap, entry);
    Entry *items = scheduler->heap.items;
    for (int64_t i = scheduler->heap.count - 1; i > 0 && precedes(&entry, &items[(i - 1) / 2]); i = (i - 1) / 2) {
        items[i] = items[(i - 1) / 2];
        items[(i - 1) / 2] = entry;
    }
}

static Entry pop_entry(Scheduler *scheduler) {
    Entry *items = scheduler->heap.items;
    const Entry top = items[0], last = items[--scheduler->heap.count];
    const int64_t count = scheduler->heap.count;
    int64_t at = 0;
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && precedes(&items[child + 1], &items[child])) child++;
        if (!precedes(&items[child], &last)) break;
        items[at] = items[child];
        at = child;
    }
    if (count) items[at] = last;
    return top;
}

// (Re)enters a node that is ready, with its current gain.
static void enter(Scheduler *scheduler, int64_t number) {
    Node *node = &scheduler->nodes[number];
    int64_t gain = -node->bytes;
    for (int64_t i = 0; i < node->needs.count; i++) {
        const Node *need = &scheduler->nodes[node->needs.items[i]];
        if (need->readers == 1) gain += need->bytes;
    }
    push_entry(scheduler, (Entry){gain, number, ++node->stamp});
}

static void run(Scheduler *scheduler, int64_t number) {
    Node *node = &scheduler->nodes[number];
    node->has_run = true;
    if (scheduler->start_of[number] >= 0)
        hlo_vector_push(scheduler->arena, &scheduler->order, scheduler->start_of[number]);
    hlo_vector_push(scheduler->arena, &scheduler->order, number);
    for (int64_t i = 0; i < node->needs.count; i++) {
        Node *need = &scheduler->nodes[node->needs.items[i]];
        if (--need->readers != 1) continue;
        // Its last reader now frees it.
        for (int64_t u = 0; u < need->users.count; u++) {
            Node *user = &scheduler->nodes[need->users.items[u]];
            if (!user->has_run && user->waiting == 0) enter(scheduler, need->users.items[u]);
        }
    }
    for (int64_t u = 0; u < node->users.count; u++)
        if (--scheduler->nodes[node->users.items[u]].waiting == 0) enter(scheduler, node->users.items[u]);
}

EmuPlan *emu_plan_list_schedule(HloArena *arena, HloArena *scratch, const EmuPlan *plan, const EmuChip *chip,
                                const int32_t *kernel_of) {
    assert(plan && chip && kernel_of);
    const HloArenaMark mark = hlo_arena_mark(scratch);
    Scheduler *scheduler = HLO_ARENA_NEW(scratch, Scheduler, 1);
    *scheduler = (Scheduler){.arena = scratch, .plan = plan, .chip = chip, .kernel_of = kernel_of};
    scheduler->nodes = HLO_ARENA_NEW(scratch, Node, plan->kernel_count);
    scheduler->unit_of = HLO_ARENA_NEW(scratch, int64_t, plan->kernel_count);
    scheduler->start_of = HLO_ARENA_NEW(scratch, int64_t, plan->kernel_count);
    scheduler->noted_by = HLO_ARENA_NEW(scratch, int64_t, plan->kernel_count);
    make_nodes(scheduler);
    hold_results(scheduler);
    for (int64_t k = 0; k < plan->kernel_count; k++)
        if (scheduler->unit_of[k] == k && scheduler->nodes[k].waiting == 0) enter(scheduler, k);
    while (scheduler->heap.count) {
        const Entry entry = pop_entry(scheduler);
        const Node *node = &scheduler->nodes[entry.node];
        if (!node->has_run && node->stamp == entry.stamp) run(scheduler, entry.node);
    }
    // A cycle through a start and its done, which another kernel links, leaves the order as it is.
    const bool is_whole = scheduler->order.count == plan->kernel_count;
    EmuPlan *reordered = is_whole ? emu_plan_with_order(arena, plan, &scheduler->order) : NULL;
    hlo_arena_reset(scratch, mark);
    return reordered;
}

// ---------------------------------------------------------------------------------------------------------------------
// Starts and dones

// The seconds that a transfer takes about, to place its halves: over one axis of the torus both ways, to a neighbour,
// or to the host.
static double transfer_seconds(const EmuChip *chip, const HloInstruction *start, int64_t bytes) {
    const HloInstruction *inner = emu_synchronous_instruction(start);
    if (hlo_is(inner, HLO_OP_COLLECTIVE_PERMUTE))
        return (double)bytes / (chip->link_bytes_per_second * chip->link_efficiency);
    if (hlo_op_is(inner->opcode, HLO_OP_IS_COLLECTIVE) || start->opcode == HLO_OP_SEND)
        return (double)bytes / (2 * chip->link_bytes_per_second * chip->link_efficiency);
    return (double)bytes * (double)chip->devices_per_chip / chip->host_bytes_per_second_per_chip;
}

typedef struct Mover {
    HloArena *arena;
    const EmuPlan *plan;
    const EmuChip *chip;
    const int32_t *kernel_of;  // of the plan's order
    bool *stays;               // by kernel: one that a start reads
    bool *is_unit;             // by kernel: a done right after its start, which move
    bool *is_chained;          // by kernel: a start that reads such dones
    int64_t *places;           // by kernel: before which one it will run, if it is a half that moves
} Mover;

// A transfer of what another transfer brings, and so on: the done that the start reads moves down with it, so that the
// device need not wait between them.
//
//   [s1 d1] [s2 d2] k1 k2(d1) k3(d2)      ->      s1 k1 d1 s2 k2 d2 k3
typedef struct Chain {
    HloInt64Vector dones;  // that the start reads
    int64_t last;          // of the other kernels that it reads; -1 if there are none
} Chain;

// What a start reads. It stays where it is, but for dones that move with the start.
static Chain read_chain(Mover *mover, const HloInstruction *start) {
    EmuWalk walk = {mover->arena, mover->kernel_of, {0}};
    Chain chain = {.last = -1};
    HloInt64Vector kernels = {0};
    emu_list_kernels(&walk, start, false, &kernels);
    for (int64_t i = 0; i < kernels.count; i++) {
        mover->stays[kernels.items[i]] = true;
        if (mover->is_unit[kernels.items[i]])
            hlo_vector_push(mover->arena, &chain.dones, kernels.items[i]);
        else if (kernels.items[i] > chain.last)
            chain.last = kernels.items[i];
    }
    return chain;
}

static bool is_start(const EmuKernel *kernel) {
    return kernel->kind == EMU_OP_COLLECTIVE_START || kernel->kind == EMU_OP_TRANSFER_START;
}

// The first kernel but `but` that reads a value, starts apart if `no_starts`; the end of the plan if none does. The
// member of a kernel that is not its root has no number: its kernel is found through its users.
static int64_t first_reader(Mover *mover, const HloInstruction *value, int64_t but, bool no_starts) {
    EmuWalk walk = {mover->arena, mover->kernel_of, {0}};
    HloInt64Vector kernels = {0};
    int64_t first = mover->plan->kernel_count;
    emu_list_kernels(&walk, value, true, &kernels);
    for (int64_t i = 0; i < kernels.count; i++) {
        const int64_t kernel = kernels.items[i];
        if (kernel < first && kernel != but && !(no_starts && is_start(&mover->plan->kernels[kernel]))) first = kernel;
    }
    return first;
}

// Where the start of a done may run: after `earliest`, and for a result larger than its operands only `ahead` times as
// early as the transfer takes.
static int64_t place_start(Mover *mover, int64_t start, int64_t done, int64_t earliest, double ahead) {
    const HloInstruction *at = mover->plan->kernels[start].members[0];
    const int64_t bytes = emu_hbm_bytes(mover->chip, mover->plan->kernels[done].members[0]->shape);
    int64_t given = 0;
    for (int32_t i = 0; i < at->operand_count; i++) given += emu_hbm_bytes(mover->chip, at->operands[i]->shape);
    if (earliest >= start || bytes <= given) return earliest < start ? earliest : start;
    double left = ahead * transfer_seconds(mover->chip, at, bytes);
    int64_t place = start;
    while (place > earliest && left > 0) left -= mover->plan->kernels[--place].seconds;
    return place;
}

// Where the start of `done` runs that reads other dones: after these, which come as late as their transfers take, but
// not after kernels that need what either brings.
static int64_t place_chained(Mover *mover, const Chain *chain, int64_t done) {
    const EmuKernel *kernels = mover->plan->kernels;
    const int64_t needed = first_reader(mover, kernels[done].members[0], -1, true);
    int64_t place = chain->last + 1;
    for (int64_t i = 0; i < chain->dones.count; i++) {
        const int64_t other = chain->dones.items[i];
        const HloInstruction *value = kernels[other].members[0];
        int64_t latest = first_reader(mover, value, -1, true), at = mover->places[other - 1];
        if (latest > needed) latest = needed < mover->plan->kernel_count ? needed : done - 1;
        double left =
            transfer_seconds(mover->chip, kernels[other - 1].members[0], emu_hbm_bytes(mover->chip, value->shape));
        while (at < latest && left > 0) left -= kernels[at++].seconds;
        if (at < other) at = other;
        if (mover->places[other] < 0 || at < mover->places[other]) mover->places[other] = at;
        if (mover->places[other] > place) place = mover->places[other];
    }
    return place;
}

// Where an update in place may run that stores what a transfer brings: as late as the transfer takes after its start,
// but not after what reads the updated array, or else what arrives. Other readers of what arrives stay where they are,
// since they would keep all that they read.
static int64_t place_update(Mover *mover, int64_t start, int64_t done, int64_t update) {
    const EmuKernel *kernel = &mover->plan->kernels[update];
    if (kernel->members[0]->opcode != HLO_OP_DYNAMIC_UPDATE_SLICE) return update;
    const HloInstruction *at = mover->plan->kernels[start].members[0];
    int64_t bytes = emu_hbm_bytes(mover->chip, mover->plan->kernels[done].members[0]->shape);
    for (int32_t i = 0; i < at->operand_count; i++) {
        const int64_t given = emu_hbm_bytes(mover->chip, at->operands[i]->shape);
        if (given > bytes) bytes = given;
    }
    double left = transfer_seconds(mover->chip, at, bytes);
    for (int64_t k = start + 1; k < update; k++) left -= mover->plan->kernels[k].seconds;
    if (left <= 0) return update;
    int64_t latest = first_reader(mover, mover->plan->kernels[done].members[0], update, false), place = update;
    for (int64_t r = 0; r < kernel->root_count; r++) {
        const int64_t reader = first_reader(mover, kernel->members[r], update, false);
        if (reader < latest) latest = reader;
    }
    while (place < latest && left > 0) left -= mover->plan->kernels[place++].seconds;
    return place;
}

void emu_plan_estimate(EmuPlan *plan, const EmuChip *chip, EmuBodies *bodies) {
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        EmuKernel *kernel = &plan->kernels[k];
        if (kernel->kind == EMU_OP_CONTROL) kernel->seconds = HUGE_VAL;
        if (kernel->kind >= EMU_OP_CONTROL) continue;
        const EmuCost cost = emu_kernel_cost(chip, kernel, EMU_KERNEL_COSTS_BODY, NULL, bodies);
        kernel->seconds = (double)cost.picoseconds * 1e-12;
        kernel->matrix_seconds = cost.matrix_seconds;
    }
}

EmuPlan *emu_plan_spread(HloArena *arena, HloArena *scratch, const EmuPlan *plan, const EmuChip *chip,
                         const int32_t *kernel_of, double ahead) {
    assert(plan && chip && kernel_of && ahead >= 0);
    const HloArenaMark mark = hlo_arena_mark(scratch);
    Mover mover = {.arena = scratch, .plan = plan, .chip = chip, .kernel_of = kernel_of};
    const int64_t count = plan->kernel_count;
    HloInt64Vector *before = HLO_ARENA_NEW(scratch, HloInt64Vector, count + 1), order = {0};
    bool *moved = HLO_ARENA_NEW(scratch, bool, count);
    mover.stays = HLO_ARENA_NEW(scratch, bool, count);
    mover.is_unit = HLO_ARENA_NEW(scratch, bool, count);
    mover.is_chained = HLO_ARENA_NEW(scratch, bool, count);
    mover.places = HLO_ARENA_NEW(scratch, int64_t, count);
    const Scheduler scheduler = {.plan = plan, .kernel_of = kernel_of};
    for (int64_t k = 1; k < count; k++)
        mover.is_unit[k] = start_of_done(&scheduler, &plan->kernels[k]) == k - 1;  // only halves that are side by side
    for (int64_t k = 1; k < count; k++) {
        if (!mover.is_unit[k]) continue;
        const Chain chain = read_chain(&mover, plan->kernels[k - 1].members[0]);
        mover.places[k] = -1;
        mover.places[k - 1] =
            chain.dones.count ? place_chained(&mover, &chain, k) : place_start(&mover, k - 1, k, chain.last + 1, ahead);
        mover.is_chained[k - 1] = chain.dones.count > 0;
        if (!chain.dones.count) hlo_vector_push(scratch, &before[mover.places[k - 1]], k - 1);
        moved[k - 1] = true;
    }
    for (int64_t k = 1; k < count; k++) {
        if (!mover.is_unit[k]) continue;
        // Starts of what others bring come after these.
        if (mover.is_chained[k - 1]) hlo_vector_push(scratch, &before[mover.places[k - 1]], k - 1);
        if (mover.stays[k]) {
            hlo_vector_push(scratch, &before[mover.places[k]], k);
            moved[k] = true;
        }
        if (mover.stays[k] || plan->kernels[k].kind != EMU_OP_DONE) continue;
        const int64_t reader = first_reader(&mover, plan->kernels[k].members[0], k, false);
        int64_t place = reader > k ? reader : k;
        if (reader > k && reader < count && !moved[reader] && !mover.stays[reader]) {
            place = place_update(&mover, k - 1, k, reader);
            if (place > reader) {
                hlo_vector_push(scratch, &before[place], reader);
                moved[reader] = true;
            }
        }
        hlo_vector_push(scratch, &before[place], k);
        moved[k] = true;
    }
    // Starts that move to one place keep their order and come before dones and the starts that read these, which are
    // read by the kernel that follows, or by an update that moved with them.
    for (int64_t k = 0; k <= count; k++) {
        for (int pass = 0; pass < 3; pass++)
            for (int64_t i = 0; i < before[k].count; i++) {
                const int64_t moving = before[k].items[i];
                const EmuKernel *kernel = &plan->kernels[moving];
                const int wanted = is_start(kernel) ? mover.is_chained[moving] : kernel->kind == EMU_OP_DONE ? 1 : 2;
                if (wanted == pass) hlo_vector_push(scratch, &order, moving);
            }
        if (k < count && !moved[k]) hlo_vector_push(scratch, &order, k);
    }
    EmuPlan *spread = emu_plan_with_order(arena, plan, &order);
    hlo_arena_reset(scratch, mark);
    return spread;
}
