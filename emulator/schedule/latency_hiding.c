// SPDX-License-Identifier: Apache-2.0
// The kernels of a plan are run in its order on a clock of their own, with transfers on the links that they use. Where
// the clock would stop at a done, the first later kernel that can run already, and takes no more than about as long as
// the wait, runs before it, with what it needs. Then the same from the end to the beginning, where a transfer starts at
// its done and kernels wait for it at its start: so kernels are put off until later waits.
//
//   forwards     s k1 d k2(d) k3        ->   s k1 k3 d k2(d)         k3 needs neither
//   backwards    k3 k1 s k2 d k4(d)     ->   k1 s k2 k3 d k4(d)
//
// No kernel of an iteration of a loop waits for transfers that cross into the next one (pipelining.h). They start where
// their links are free for long enough, so that no other transfer waits for them.
//
// The order depends on the plan alone, and so not on the program's text. Each wait looks at MOST_LOOKED_AT kernels at
// most, so that a plan of n kernels takes O(n) time.
#include "emulator/schedule/latency_hiding.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/amount.h"
#include "emulator/link_sets.h"
#include "emulator/schedule/pipelining.h"
#include "emulator/schedule/plan_order.h"
#include "hlo/base/arithmetic.h"

enum {
    MOST_LOOKED_AT = 2048,  // kernels for a wait
    MOST_MOVED = 64,        // kernels at a time: one, and what it needs
    LEAST_SHARE = 32,       // of a wait, that a kernel fills if it is worth moving
    MOST_WAITS = 2,         // as long as kernels that move may take, in waits
};

// A kernel on the clock. What a search for kernels to move reads of every slot comes first.
typedef struct Slot {
    EmuOpClass kind;
    bool has_run;
    bool crosses;          // the next iteration waits for the transfer
    bool is_made;          // it sends what this iteration computes
    int64_t picoseconds;   // on the device
    int64_t route;         // of the transfer that it starts, or of a collective without halves; -1: none
    int64_t seen;          // the number of the last search that came here
    int64_t stuck;         // the number of the last wait into which neither it nor what needs it can move
    HloInt64Vector needs;  // kernels that run before it
    int64_t opener;        // the kernel that starts the transfer that this one waits for; -1: none
    int64_t transfer;      // picoseconds that it takes
    int64_t end;           // when it ends
    int64_t begin;         // when it gets its links
    int64_t end_of_work;   // when the kernel has run
} Slot;

// The sets of links that transfers of a plan use.
typedef struct Routes {
    HLO_VECTOR(int32_t) sets;  // their numbers in the network
    bool *meet;                // whether the sets of a row and a column share a link
} Routes;

// Kernels in an order of theirs, forwards or backwards.
typedef struct Clock {
    HloArena *arena;
    Slot *slots;
    int64_t count;
    const Routes *routes;
    int64_t *free_at;  // by route: when all of its links are free
    int64_t now, waited;
    int64_t search, fill;  // the numbers of the current ones
    HloInt64Vector order;
} Clock;

// What a plan is read with.
typedef struct Reader {
    EmuProgram *program;
    EmuNetwork *network;
    EmuKernelCosts costs;
    const EmuPlan *plan;
    Routes *routes;
    int64_t headroom;  // bytes that the program leaves free for what crosses iterations
    bool has_late;     // whether a sum ends late
} Reader;

// ---- reading the plan

// Finds out whether a transfer crosses the boundary of two iterations: what it needs meanwhile must find memory.
static void read_crossing(Reader *reader, const HloInstruction *start, Slot *slot) {
    const HloComputation *body = reader->plan->computation;
    const HloInstruction *loop = body->callers.count == 1 ? body->callers.items[0] : NULL;
    if (!loop || !hlo_is(loop, HLO_OP_WHILE) || loop->called[1] != body) return;
    const int64_t bytes = emu_crossing_bytes(&reader->program->topology->chip, start);
    if (bytes > reader->headroom) return;
    slot->is_made = reader->program->sums_end_late && emu_ends_late(start, loop);
    slot->crosses = slot->is_made || emu_starts_early(reader->program->arena, start, loop);
    reader->has_late |= slot->is_made;
    if (slot->crosses) reader->headroom -= bytes;
}

// The number of a transfer's links among the sets that the plan's transfers use.
static int64_t find_route(const Reader *reader, const EmuTransfer *transfer) {
    Routes *routes = reader->routes;
    for (int64_t i = 0; i < routes->sets.count; i++)
        if (routes->sets.items[i] == transfer->set) return i;
    hlo_vector_push(reader->program->scratch, &routes->sets, transfer->set);
    return routes->sets.count - 1;
}

static void find_meetings(const Reader *reader) {
    Routes *routes = reader->routes;
    const int64_t count = routes->sets.count;
    routes->meet = HLO_ARENA_NEW(reader->program->scratch, bool, count *count);
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b < count; b++)
            routes->meet[a * count + b] =
                emu_link_sets_meet(reader->network->sets, routes->sets.items[a], routes->sets.items[b]);
}

// Reads the transfer of a kernel; copies between memories, and what the network refuses, take no time.
static void read_transfer(Reader *reader, const EmuKernel *kernel, Slot *slot) {
    const HloInstruction *at = kernel->members[0], *inner = emu_synchronous_instruction(at);
    EmuNetwork *network = reader->network;
    if (!hlo_op_is(inner->opcode, HLO_OP_IS_COLLECTIVE) && at->opcode != HLO_OP_SEND) return;
    if (kernel->kind != EMU_OP_COLLECTIVE) read_crossing(reader, at, slot);
    const HloArenaMark mark = hlo_arena_mark(network->arena);
    EmuTransfer transfer;
    HloStatus status = emu_transfer(network, at, &transfer);
    if (!status && transfer.link_count) {
        slot->transfer = transfer.picoseconds;
        slot->route = find_route(reader, &transfer);
    }
    hlo_status_free(status);
    hlo_arena_reset(network->arena, mark);
}

// A kernel that reads an array stays before a later one that updates it in place: the update would have to copy it.
static void read_updates(const Reader *reader, int64_t number, Slot *slot) {
    const EmuKernel *kernel = &reader->plan->kernels[number];
    HloArena *arena = reader->program->scratch;
    for (int64_t m = 0; m < kernel->member_count; m++) {
        const HloInstruction *at = kernel->members[m];
        if (!hlo_is(at, HLO_OP_DYNAMIC_UPDATE_SLICE) && !hlo_is(at, HLO_OP_SCATTER)) continue;
        EmuWalk walk = {arena, reader->program->kernel_of, {0}};
        HloInt64Vector readers = {0};
        emu_list_kernels(&walk, at->operands[0], true, &readers);
        for (int64_t i = 0; i < readers.count; i++)
            if (readers.items[i] < number) hlo_vector_push(arena, &slot->needs, readers.items[i]);
    }
}

// Whether a kernel starts a transfer that others of its iteration wait for.
static bool occupies_links(const Slot *slot) {
    return slot->route >= 0 && !slot->crosses;
}

static void read_kernel(Reader *reader, Slot *slots, int64_t number) {
    const EmuKernel *kernel = &reader->plan->kernels[number];
    EmuProgram *program = reader->program;
    Slot *slot = &slots[number];
    EmuWalk walk = {program->scratch, program->kernel_of, {0}};
    HloInt64Vector found = {0};
    *slot = (Slot){.opener = -1, .route = -1, .kind = kernel->kind};
    for (int64_t m = 0; m < kernel->member_count; m++) emu_list_kernels(&walk, kernel->members[m], false, &found);
    for (int64_t i = 0; i < found.count; i++)
        if (found.items[i] != number) hlo_vector_push(program->scratch, &slot->needs, found.items[i]);
    if (kernel->kind == EMU_OP_COLLECTIVE || kernel->kind == EMU_OP_COLLECTIVE_START ||
        kernel->kind == EMU_OP_TRANSFER_START)
        read_transfer(reader, kernel, slot);
    for (int64_t i = 0; i < slot->needs.count && kernel->kind == EMU_OP_DONE; i++)
        if (occupies_links(&slots[slot->needs.items[i]])) slot->opener = slot->needs.items[i];
    if (kernel->kind >= EMU_OP_CONTROL) return;
    slot->picoseconds = emu_program_kernel_cost(program, kernel, reader->costs).picoseconds;
    read_updates(reader, number, slot);
}

static Clock read_plan(Reader *reader) {
    HloArena *arena = reader->program->scratch;
    Clock clock = {.arena = arena, .count = reader->plan->kernel_count, .routes = reader->routes};
    clock.slots = HLO_ARENA_NEW(arena, Slot, clock.count);
    for (int64_t k = 0; k < clock.count; k++) read_kernel(reader, clock.slots, k);
    find_meetings(reader);
    clock.free_at = HLO_ARENA_NEW(arena, int64_t, clock.routes->sets.count);
    return clock;
}

// The same kernels in another order: `order` has the old number of each. Backwards, kernels need their users, and
// transfers start at their dones.
static Clock reordered(const Clock *clock, const HloInt64Vector *order, bool backwards) {
    Clock other = *clock;
    const int64_t last = clock->count - 1;
    int64_t *places = HLO_ARENA_NEW(clock->arena, int64_t, clock->count);
    other.slots = HLO_ARENA_NEW(clock->arena, Slot, clock->count);
    for (int64_t k = 0; k <= last; k++) places[order->items[k]] = backwards ? last - k : k;
    for (int64_t k = 0; k <= last; k++) {
        Slot *slot = &other.slots[places[k]];
        *slot = clock->slots[k];
        slot->needs = (HloInt64Vector){0};
        slot->opener = -1;
        slot->seen = slot->stuck = 0;
        if (backwards && slot->kind != EMU_OP_COLLECTIVE) slot->route = -1;
    }
    for (int64_t k = 0; k <= last; k++) {
        const Slot *slot = &clock->slots[k];
        for (int64_t i = 0; i < slot->needs.count; i++) {
            const int64_t from = places[k], to = places[slot->needs.items[i]];
            hlo_vector_push(clock->arena, &other.slots[backwards ? to : from].needs, backwards ? from : to);
        }
        if (slot->opener < 0) continue;
        const int64_t start = places[slot->opener];
        other.slots[backwards ? start : places[k]].opener = backwards ? places[k] : start;
        Slot *opener = &other.slots[backwards ? places[k] : start];
        opener->route = clock->slots[slot->opener].route;
        opener->transfer = clock->slots[slot->opener].transfer;
    }
    return other;
}

// ---- the clock

// Puts a transfer on its links and returns when it ends.
static int64_t put_on_links(Clock *clock, Slot *slot) {
    const int64_t count = clock->routes->sets.count;
    if (!occupies_links(slot)) return clock->now;
    const int64_t free_at = clock->free_at[slot->route];
    if (free_at > clock->now) slot->begin = free_at;
    const int64_t end = emu_add(slot->begin, slot->transfer);
    const bool *meet = &clock->routes->meet[slot->route * count];
    for (int64_t i = 0; i < count; i++)
        if (meet[i] && clock->free_at[i] < end) clock->free_at[i] = end;
    return end;
}

// How long a kernel waits for the transfer that brings what it needs, or for links if it keeps the device waiting.
static int64_t wait_of(const Clock *clock, const Slot *slot) {
    const bool needs_links = slot->kind == EMU_OP_COLLECTIVE && occupies_links(slot);
    int64_t left = 0;
    if (slot->opener >= 0) left = clock->slots[slot->opener].end - clock->now;
    if (needs_links) left = clock->free_at[slot->route] - clock->now;
    return left > 0 ? left : 0;
}

static void run(Clock *clock, int64_t number) {
    Slot *slot = &clock->slots[number];
    const int64_t wait = wait_of(clock, slot);
    clock->waited = emu_add(clock->waited, wait);
    clock->now = slot->begin = emu_add(clock->now, emu_add(wait, slot->picoseconds));
    slot->end = put_on_links(clock, slot);
    if (slot->kind == EMU_OP_COLLECTIVE) clock->now = slot->end;
    slot->end_of_work = clock->now;
    slot->has_run = true;
    hlo_vector_push(clock->arena, &clock->order, number);
}

// ---- filling waits

static bool is_movable(const Slot *slot) {
    return slot->kind < EMU_OP_CONTROL;
}

// Whether a kernel starts a transfer whose links are all free.
static bool may_open(const Clock *clock, const Slot *slot) {
    return slot->kind != EMU_OP_COLLECTIVE && occupies_links(slot) && clock->free_at[slot->route] <= clock->now;
}

// Lists what has to run before a kernel can, and the kernel: false if something of it cannot run now, or if it takes
// longer than `most`. What needs a kernel that is stuck is stuck too.
static bool list_moved(Clock *clock, int64_t number, int64_t most, HloInt64Vector *moved) {
    int64_t total = 0;
    moved->count = 0;
    clock->search++;
    hlo_vector_push(clock->arena, moved, number);
    clock->slots[number].seen = clock->search;
    for (int64_t next = 0; next < moved->count; next++) {
        const Slot *slot = &clock->slots[moved->items[next]];
        const bool has_arrived = slot->opener >= 0 && clock->slots[slot->opener].has_run && !wait_of(clock, slot);
        total = emu_add(total, slot->picoseconds);
        const bool may_run = is_movable(slot) || has_arrived || next == 0;
        if (!may_run || total > most || moved->count > MOST_MOVED) return false;
        for (int64_t i = 0; i < slot->needs.count; i++) {
            Slot *need = &clock->slots[slot->needs.items[i]];
            if (need->has_run || need->seen == clock->search) continue;
            if (need->stuck == clock->fill) return false;
            need->seen = clock->search;
            hlo_vector_push(clock->arena, moved, slot->needs.items[i]);
        }
    }
    return true;
}

// Runs a kernel from after `number` that fills a part of the wait before it, or starts a transfer beside it; false if
// there is none. Nothing moves over a loop, whose state it would be alive beside.
static bool fill(Clock *clock, int64_t number, int64_t wait) {
    HloInt64Vector moved = {0};
    const int64_t last = number + MOST_LOOKED_AT;
    clock->fill++;
    for (int64_t k = number + 1; k < clock->count && k < last; k++) {
        Slot *slot = &clock->slots[k];
        if (slot->kind == EMU_OP_CONTROL) return false;
        const bool fills = is_movable(slot) && slot->picoseconds >= wait / LEAST_SHARE;
        if (slot->has_run || (!fills && !may_open(clock, slot))) continue;
        if (!list_moved(clock, k, emu_times(wait, MOST_WAITS), &moved)) {
            slot->stuck = clock->fill;
            continue;
        }
        qsort(moved.items, (size_t)moved.count, sizeof(*moved.items), hlo_compare_int64);
        for (int64_t i = 0; i < moved.count; i++) run(clock, moved.items[i]);
        return true;
    }
    return false;
}

// Runs the kernels, with waits filled or as they are.
static void run_all(Clock *clock, bool fills) {
    clock->now = clock->waited = 0;
    clock->order = (HloInt64Vector){0};
    for (int64_t i = 0; i < clock->routes->sets.count; i++) clock->free_at[i] = 0;
    for (int64_t k = 0; k < clock->count; k++) clock->slots[k].has_run = false;
    for (int64_t k = 0; k < clock->count; k++) {
        if (clock->slots[k].has_run) continue;
        for (int64_t wait; fills && (wait = wait_of(clock, &clock->slots[k])) > 0;)
            if (!fill(clock, k, wait)) break;
        run(clock, k);
    }
    assert(clock->order.count == clock->count);
}

// ---- orders

// An order of the kernels of a plan, and its time.
typedef struct Order {
    HloInt64Vector numbers;
    int64_t picoseconds;
} Order;

// Fills the waits of an order, forwards or backwards.
static Order filled(const Clock *clock, const Order *order, bool backwards) {
    int64_t *numbers = HLO_ARENA_NEW(clock->arena, int64_t, clock->count);
    const HloArenaMark mark = hlo_arena_mark(clock->arena);
    Order result = {{.items = numbers, .count = clock->count, .capacity = clock->count}, 0};
    Clock other = reordered(clock, &order->numbers, backwards);
    run_all(&other, true);
    for (int64_t k = 0; k < clock->count; k++) {
        const int64_t at = backwards ? clock->count - 1 - k : k, place = other.order.items[at];
        numbers[k] = order->numbers.items[backwards ? clock->count - 1 - place : place];
    }
    Clock timed = reordered(clock, &result.numbers, false);
    run_all(&timed, false);
    result.picoseconds = timed.now;
    hlo_arena_reset(clock->arena, mark);
    return result;
}

enum { MOST_ORDERS = 3 };

// Lists orders that take less time than the plan's, in which `clock` has run, the best first: waits filled backwards
// and then forwards, in either way alone. Returns how many.
static int64_t list_orders(const Clock *clock, Order *orders) {
    const Order plain = {clock->order, clock->now};
    int64_t count = 0;
    if (!clock->waited) return 0;
    const Order backwards = filled(clock, &plain, true);
    const Order candidates[MOST_ORDERS] = {filled(clock, &backwards, false), backwards, filled(clock, &plain, false)};
    for (int i = 0; i < MOST_ORDERS; i++) {
        int64_t at = count;
        if (candidates[i].picoseconds >= plain.picoseconds) continue;
        for (; at > 0 && orders[at - 1].picoseconds > candidates[i].picoseconds; at--) orders[at] = orders[at - 1];
        orders[at] = candidates[i];
        count++;
    }
    return count;
}

// ---- transfers for the next iteration

// When links are in use.
typedef struct Use {
    int64_t from, to, route;
} Use;

typedef struct Uses {
    HLO_VECTOR(Use) items;  // by their beginnings
    const Clock *clock;     // that has run
} Uses;

static int compare_uses(const void *a, const void *b) {
    const Use *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->route > y->route) - (x->route < y->route);
}

static void add_use(Uses *uses, Use use) {
    hlo_vector_push(uses->clock->arena, &uses->items, use);
    int64_t at = uses->items.count - 1;
    for (; at > 0 && compare_uses(&uses->items.items[at - 1], &use) > 0; at--)
        uses->items.items[at] = uses->items.items[at - 1];
    uses->items.items[at] = use;
}

// The number of the first use from `at` on that shares a link with a route.
static int64_t next_use(const Uses *uses, int64_t at, int64_t route) {
    const Routes *routes = uses->clock->routes;
    while (at < uses->items.count && !routes->meet[route * routes->sets.count + uses->items.items[at].route]) at++;
    return at;
}

// The kernel after which the links of a crossing transfer are free for as long as it takes: the first one, or the one
// with the longest time if there is none. -1 if they are never free.
static int64_t find_place(const Uses *uses, const Slot *slot) {
    const Clock *clock = uses->clock;
    int64_t best = -1, longest = 0, until = 0, use = next_use(uses, 0, slot->route);
    for (int64_t k = slot->is_made ? slot - clock->slots : 0; k < clock->count; k++) {
        const int64_t now = clock->slots[k].end_of_work;
        for (; use < uses->items.count && uses->items.items[use].from <= now;
             use = next_use(uses, use + 1, slot->route))
            if (uses->items.items[use].to > until) until = uses->items.items[use].to;
        if (until > now) continue;
        const int64_t next = use < uses->items.count ? uses->items.items[use].from : clock->now;
        if (next - now <= longest) continue;
        longest = next - now;
        best = k;
        if (longest >= slot->transfer) break;
    }
    return best;
}

static int compare_slots(const void *a, const void *b) {
    const Slot *const *x = a, *const *y = b;
    if ((*x)->transfer != (*y)->transfer) return (*x)->transfer < (*y)->transfer ? 1 : -1;
    return (*x > *y) - (*x < *y);
}

// Chooses when the transfers of a plan that cross iterations start, the longest first. In `arena`; NULL if there are
// none.
static int64_t *place_crossing(HloArena *arena, const Clock *clock) {
    HLO_VECTOR(const Slot *) crossing = {0};
    Uses uses = {.clock = clock};
    for (int64_t k = 0; k < clock->count; k++) {
        const Slot *slot = &clock->slots[k];
        if (slot->route < 0) continue;
        if (slot->crosses)
            hlo_vector_push(clock->arena, &crossing, slot);
        else
            hlo_vector_push(clock->arena, &uses.items, ((Use){slot->begin, slot->end, slot->route}));
    }
    if (!crossing.count) return NULL;
    if (uses.items.count) qsort(uses.items.items, (size_t)uses.items.count, sizeof(Use), compare_uses);
    qsort(crossing.items, (size_t)crossing.count, sizeof(*crossing.items), compare_slots);
    int64_t *places = HLO_ARENA_NEW(arena, int64_t, clock->count);
    for (int64_t k = 0; k < clock->count; k++) places[k] = -1;
    for (int64_t i = 0; i < crossing.count; i++) {
        const Slot *slot = crossing.items[i];
        const int64_t place = find_place(&uses, slot);
        if (place < 0) continue;
        places[slot - clock->slots] = place;
        const int64_t from = clock->slots[place].end_of_work;
        add_use(&uses, (Use){from, emu_add(from, slot->transfer), slot->route});
    }
    return places;
}

// Makes `plan` that of its computation.
static void use_plan(EmuProgram *program, EmuPlan *plan) {
    program->plans[plan->computation->id] = plan;
    emu_plan_number(plan, program->kernel_of);
    emu_program_forget_peaks(program);
}

// Uses the best of the orders of a plan with which the program needs no more memory than `most`; returns its numbers.
static HloInt64Vector choose_order(const Reader *reader, const Clock *clock, int64_t most) {
    EmuProgram *program = reader->program;
    EmuPlan *before = program->plans[reader->plan->computation->id];
    Order orders[MOST_ORDERS];
    const int64_t count = list_orders(clock, orders);
    for (int64_t i = 0; i < count; i++) {
        use_plan(program, emu_plan_with_order(program->arena, before, &orders[i].numbers));
        if (emu_program_peak(program) <= most) return orders[i].numbers;
    }
    if (count) use_plan(program, before);
    return clock->order;
}

static void hide_transfers(Reader *reader, int64_t most) {
    EmuProgram *program = reader->program;
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    Clock clock = read_plan(reader);
    run_all(&clock, false);
    const HloInt64Vector order = choose_order(reader, &clock, most);
    Clock timed = reordered(&clock, &order, false);
    run_all(&timed, false);
    program->plans[reader->plan->computation->id]->starts_after = place_crossing(program->arena, &timed);
    hlo_arena_reset(program->scratch, mark);
}

// The bytes of temporaries while the entry runs what calls the computation.
static int64_t alive_beside(const Reader *reader, const EmuMemory *memory) {
    const HloComputation *at = reader->plan->computation, *entry = at->module->entry;
    const HloInstruction *caller = NULL;
    for (; at != entry && at->callers.count == 1; at = caller->parent) caller = at->callers.items[0];
    return at == entry && caller ? memory->alive[reader->program->kernel_of[caller->id]] : memory->temp_bytes;
}

bool emu_program_hide_transfers(EmuProgram *program, EmuNetwork *network, EmuKernelCosts costs) {
    assert(program && network);
    EmuMemory memory;
    const HloModule *module = program->module;
    emu_program_usage(program, &memory);
    const int64_t most = memory.peak_bytes > program->capacity ? memory.peak_bytes : program->capacity;
    bool has_late = false;
    for (int64_t c = 0; c < module->computations.count; c++) {
        const int32_t id = module->computations.items[c]->id;
        Routes routes = {0};
        Reader reader = {program, network, costs, program->plans[id], &routes, program->capacity, false};
        if (!program->tight[id]) continue;
        reader.headroom -= memory.peak_bytes - memory.temp_bytes + alive_beside(&reader, &memory);
        hide_transfers(&reader, most);
        has_late |= reader.has_late;
    }
    return has_late;
}
