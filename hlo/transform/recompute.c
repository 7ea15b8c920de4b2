// SPDX-License-Identifier: Apache-2.0
// Which activations of a training step are kept, and which its backward part computes again.
//
// Terms:
//   place       the position of an instruction in the order of a run.
//   boundary    the last place of the forward part: where the most bytes are held of values that have been used before
//               and are used again after it.
//   activation  a value of the forward part that is used after the boundary.
//   crossing    at a place: the values that the rest of the forward part still needs.
//   cut         a place of the forward part; what crosses it is kept. Parts between cuts are the scopes.
//
// Scopes are not read from names. A cut is where the least crosses, which in a stack of layers is between two of them.
// How many cuts there are is tried: with more of them less is computed at a time, but more is kept. What comes after
// the last cut is kept too: the backward part needs it at once, so that computing it again would free nothing.
//
// Places are those in the order of a run, into which the list is put: an operation runs when its operands are there,
// and what follows cheaply from parameters when it is needed.
#include <assert.h>

#include "hlo/ir/build/internal.h"
#include "hlo/transform/remat.h"
#include "hlo/transform/transform.h"

enum { MOST_SCOPES = 64 };

typedef struct Places {
    HloComputation *computation;
    HloArena *scratch;
    HloInstruction **list;  // by place
    int64_t *bytes;         // by place: 0 for what costs nothing to make again
    int64_t *last_forward;  // by place: of the uses up to the boundary; -1 if there are none
    int64_t *last_use;      // by place: of all
    int64_t *held;          // by place: bytes of activations made up to it
    int64_t *crossing;      // by place: bytes
    int64_t count, boundary;
} Places;

typedef HLO_VECTOR(int64_t) Cuts;

// ---- the order

// Values that follow cheaply from parameters and constants: weights in another type, masks, positions. `free` has those
// of its operands, by id.
static bool is_free(const HloIntMap *free, const HloInstruction *i) {
    if (hlo_remat_is_given(i)) return true;
    const bool cheap = hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE | HLO_OP_IS_REARRANGES) ||
                       hlo_is(i, HLO_OP_BROADCAST) || hlo_is(i, HLO_OP_SLICE) || hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT);
    bool all = cheap && i->control_predecessors.count == 0;
    for (int32_t k = 0; k < i->operand_count && all; k++)
        all = hlo_int_map_find(free, (uint64_t)i->operands[k]->id) != NULL;
    return all;
}

// The new order in the making.
typedef struct Ordering {
    HloArena *scratch;
    HloIntMap free;     // ids
    HloIntMap waiting;  // by id of what is not free: how many operands and predecessors have not run
    HloIntMap done;     // ids
    HloInstructionVector order, ready;
} Ordering;

// Appends an instruction, after what it needs of free values.
static void append(Ordering *o, HloInstruction *i) {
    HloInstructionVector stack = {0};
    hlo_vector_push(o->scratch, &stack, i);
    while (stack.count) {
        HloInstruction *at = stack.items[stack.count - 1];
        const int64_t before = stack.count;
        for (int32_t k = 0; k < at->operand_count; k++)
            if (!hlo_int_map_find(&o->done, (uint64_t)at->operands[k]->id))
                hlo_vector_push(o->scratch, &stack, at->operands[k]);
        if (stack.count > before) continue;
        stack.count--;
        if (hlo_int_map_find(&o->done, (uint64_t)at->id)) continue;
        hlo_int_map_set(o->scratch, &o->done, (uint64_t)at->id, 1);
        hlo_vector_push(o->scratch, &o->order, at);
    }
}

static void note_done(Ordering *o, const HloInstruction *i, HloInstruction *user) {
    int64_t *waiting = hlo_int_map_find(&o->waiting, (uint64_t)user->id);
    if (!waiting) return;  // it is free
    for (int32_t k = 0; k < user->operand_count; k++) *waiting -= user->operands[k] == i;
    for (int64_t k = 0; k < user->control_predecessors.count; k++) *waiting -= user->control_predecessors.items[k] == i;
    if (!*waiting) hlo_vector_push(o->scratch, &o->ready, user);
}

// The instructions in the order in which they become ready; parameters come first.
static HloInstructionVector order_of(const HloComputation *computation, HloArena *scratch) {
    Ordering o = {.scratch = scratch};
    for (HloInstruction *i = computation->first; i; i = i->next) {
        if (is_free(&o.free, i)) {
            hlo_int_map_set(scratch, &o.free, (uint64_t)i->id, 1);
            if (hlo_is(i, HLO_OP_PARAMETER)) append(&o, i);
            continue;
        }
        int64_t waiting = i->control_predecessors.count;
        for (int32_t k = 0; k < i->operand_count; k++)
            waiting += !hlo_int_map_find(&o.free, (uint64_t)i->operands[k]->id);
        hlo_int_map_set(scratch, &o.waiting, (uint64_t)i->id, waiting);
        if (!waiting) hlo_vector_push(scratch, &o.ready, i);
    }
    for (int64_t r = 0; r < o.ready.count; r++) {
        HloInstruction *i = o.ready.items[r];
        append(&o, i);
        for (int64_t u = 0; u < i->users.count; u++) note_done(&o, i, i->users.items[u]);
        for (int64_t u = 0; u < i->control_successors.count; u++) note_done(&o, i, i->control_successors.items[u]);
    }
    for (HloInstruction *i = computation->first; i; i = i->next) append(&o, i);  // free values that nothing needs
    return o.order;
}

// ---- what the program holds

// Sums what is added at places where it begins and taken away where it ends.
static void accumulate(int64_t *values, int64_t count) {
    for (int64_t p = 1; p < count; p++) values[p] += values[p - 1];
}

// The place after which the most bytes wait that have been used before.
static int64_t find_boundary(const Places *places, const int64_t *first_use) {
    int64_t *waiting = HLO_ARENA_NEW(places->scratch, int64_t, places->count + 1), best = 0;
    for (int64_t p = 0; p < places->count; p++) {
        if (first_use[p] < 0) continue;
        waiting[first_use[p]] += places->bytes[p];
        waiting[places->last_use[p]] -= places->bytes[p];
    }
    accumulate(waiting, places->count);
    for (int64_t p = 1; p < places->count; p++)
        if (waiting[p] > waiting[best]) best = p;
    return best;
}

static void measure(Places *places) {
    HloArena *scratch = places->scratch;
    const int64_t most = places->computation->instruction_count + 1;
    HloIntMap place_of = {0}, free = {0};
    int64_t *first_use = HLO_ARENA_NEW(scratch, int64_t, most);
    places->list = order_of(places->computation, scratch).items;
    places->bytes = HLO_ARENA_NEW(scratch, int64_t, most);
    places->last_forward = HLO_ARENA_NEW(scratch, int64_t, most);
    places->last_use = HLO_ARENA_NEW(scratch, int64_t, most);
    places->held = HLO_ARENA_NEW(scratch, int64_t, most);
    places->crossing = HLO_ARENA_NEW(scratch, int64_t, most);
    for (; places->count < places->computation->instruction_count; places->count++) {
        const int64_t place = places->count;
        HloInstruction *i = places->list[place];
        hlo_int_map_set(scratch, &place_of, (uint64_t)i->id, place);
        if (is_free(&free, i))
            hlo_int_map_set(scratch, &free, (uint64_t)i->id, 1);
        else if (hlo_shape_is_array(i->shape))
            places->bytes[place] = hlo_shape_bytes(i->shape);
        first_use[place] = places->last_use[place] = places->last_forward[place] = -1;
        for (int32_t k = 0; k < i->operand_count; k++) {
            const int64_t operand = *hlo_int_map_find(&place_of, (uint64_t)i->operands[k]->id);
            if (first_use[operand] < 0) first_use[operand] = place;
            places->last_use[operand] = place;
        }
    }
    places->boundary = find_boundary(places, first_use);
    for (int64_t p = 0; p <= places->boundary; p++) {
        for (int32_t k = 0; k < places->list[p]->operand_count; k++)
            places->last_forward[*hlo_int_map_find(&place_of, (uint64_t)places->list[p]->operands[k]->id)] = p;
        if (places->last_use[p] > places->boundary) places->held[p] = places->bytes[p];
    }
    for (int64_t p = 0; p <= places->boundary; p++) {
        if (places->last_forward[p] < 0) continue;
        places->crossing[p] += places->bytes[p];
        places->crossing[places->last_forward[p]] -= places->bytes[p];
    }
    accumulate(places->held, places->boundary + 1);
    accumulate(places->crossing, places->boundary + 1);
}

// ---- cuts

static int64_t held_between(const Places *places, int64_t begin, int64_t end) {
    return places->held[end] - (begin < 0 ? 0 : places->held[begin]);
}

// Cuts such that a scope holds `most` bytes at most, and half of them at least, where that is possible.
static Cuts cut_every(const Places *places, int64_t most) {
    Cuts cuts = {0};
    int64_t begin = -1;
    while (held_between(places, begin, places->boundary) > most) {
        int64_t best = -1;
        for (int64_t p = begin + 1; p < places->boundary; p++) {
            const int64_t held = held_between(places, begin, p);
            if (2 * held < most) continue;
            if (held > most && best >= 0) break;
            if (best < 0 || places->crossing[p] <= places->crossing[best]) best = p;
            if (held > most) break;
        }
        if (best < 0) break;
        hlo_vector_push(places->scratch, &cuts, best);
        begin = best;
    }
    return cuts;
}

// Marks each value that crosses a cut, and returns the bytes of all of them.
static int64_t mark_kept(const Places *places, const Cuts *cuts, bool *kept) {
    int64_t bytes = 0;
    for (int64_t c = 0; c < cuts->count; c++) {
        for (int64_t p = 0; p <= cuts->items[c]; p++) {
            if (kept[p] || places->last_forward[p] <= cuts->items[c] || !places->bytes[p]) continue;
            kept[p] = true;
            bytes += places->bytes[p];
        }
    }
    return bytes;
}

// The most that is held at a time: what is kept, and the activations of one scope.
static int64_t peak_with(const Places *places, const Cuts *cuts) {
    bool *kept = HLO_ARENA_NEW(places->scratch, bool, places->count);
    int64_t most = 0;
    for (int64_t c = 0; c <= cuts->count; c++) {
        const int64_t begin = c ? cuts->items[c - 1] : -1, end = c < cuts->count ? cuts->items[c] : places->boundary;
        const int64_t held = held_between(places, begin, end);
        most = held > most ? held : most;
    }
    return most + mark_kept(places, cuts, kept);
}

// The cuts with which the least is held at a time; none if none of them help.
static Cuts find_cuts(const Places *places) {
    const int64_t all = places->held[places->boundary];
    Cuts best = {0};
    int64_t least = all;
    for (int64_t scopes = 2; scopes <= MOST_SCOPES; scopes += (scopes + 3) / 4) {
        const Cuts cuts = cut_every(places, all / scopes);
        const int64_t peak = peak_with(places, &cuts);
        if (peak >= least) continue;
        least = peak;
        best = cuts;
    }
    return best;
}

// ---- what is kept

bool hlo_recompute_is_expensive(const HloInstruction *i) {
    if (hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE | HLO_OP_IS_REARRANGES)) return false;
    switch (i->opcode) {
        case HLO_OP_BROADCAST:
        case HLO_OP_CONCATENATE:
        case HLO_OP_GET_TUPLE_ELEMENT:
        case HLO_OP_IOTA:
        case HLO_OP_PAD:
        case HLO_OP_REDUCE:
        case HLO_OP_REVERSE:
        case HLO_OP_SLICE:
        case HLO_OP_TUPLE: return false;
        default: return true;
    }
}

static HloIntMap keep_expensive(const Places *places) {
    HloIntMap kept = {0};
    for (int64_t p = 0; p <= places->boundary; p++)
        if (hlo_recompute_is_expensive(places->list[p]))
            hlo_int_map_set(places->scratch, &kept, (uint64_t)places->list[p]->id, HLO_REMAT_KEPT);
    return kept;
}

// What crosses the cuts, and all of the last scope.
static HloIntMap keep_crossing(const Places *places, const Cuts *cuts, bool offload) {
    HloIntMap kept = {0};
    bool *marked = HLO_ARENA_NEW(places->scratch, bool, places->count);
    mark_kept(places, cuts, marked);
    for (int64_t p = 0; p <= places->boundary; p++) {
        const bool last = p > cuts->items[cuts->count - 1];
        if (!last && !marked[p]) continue;
        hlo_int_map_set(places->scratch, &kept, (uint64_t)places->list[p]->id,
                        offload && !last ? HLO_REMAT_KEPT_ON_HOST : HLO_REMAT_KEPT);
    }
    return kept;
}

bool hlo_recompute(HloComputation *computation, HloRecompute how) {
    assert(computation);
    Places places = {.computation = computation, .scratch = hlo_arena_scratch_new()};
    HloBuilder builder = {.module = computation->module, .computation = computation, .scratch = places.scratch};
    bool changed = false;
    measure(&places);
    HloIntMap kept = {0};
    if (how == HLO_RECOMPUTE_ELEMENTWISE) {
        kept = keep_expensive(&places);
    } else {
        const Cuts cuts = find_cuts(&places);
        if (cuts.count) kept = keep_crossing(&places, &cuts, how == HLO_RECOMPUTE_SCOPES_OFFLOADED);
    }
    if (kept.count && places.held[places.boundary]) {
        for (int64_t p = 1; p < places.count; p++) hlo_instruction_move_after(places.list[p], places.list[p - 1]);
        hlo_remat_keeping(&builder, places.scratch, &kept, places.list, places.boundary + 1);
        changed = true;
    }
    hlo_arena_free(places.scratch);
    return changed;
}
