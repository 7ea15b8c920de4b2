// SPDX-License-Identifier: Apache-2.0
// Halo exchange in its general form: each device gets an interval of the global array that moves with its position. The
// interval of position i begins at step * floor((scale * i + offset) / divisor) + shift and has `size` elements, some
// of which may lie outside of the array (spmd_partitioner/emit.h). Three ways are priced, by the elements that one
// device sends: gathering the whole dimension; sending whole shards, or the parts of them that are needed, as
// collective-permutes (PIECES, one for each distance or index); and sending exactly what each position lacks in rounds
// that are an edge colouring (MOVES, moves.c). Elements outside of the array are set to a fill at the very end, where
// the caller requests it; until then they are undefined.
//
// A window of 3 with padding 1 over f32[10] in shards of 3: {scale 3, offset -1, divisor 1, size 5}
//     shards      0 1 2 | 3 4 5 | 6 7 8 | 9 . .
//     position 0  [-1, 4): element -1 is fill
//     position 1  [2, 7):  one element of each neighbour
//     position 3  [8, 13): elements 10 to 12 are fill
// By distance -1, 0 and 1 all intervals begin 2 elements into the three joined shards, so that one element is sent to
// each side (2 in all; gathering would send 9):
//     slice {[2:3]}, permute i -> i+1; slice {[0:1]}, permute i+1 -> i; concatenate; select
//
// Planning is O(shards x pieces), or that of moves.c; PIECE_LIMIT and PLAN_LIMIT stop plans that would not pay.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"

// How the elements come to where they are needed.
typedef enum Way {
    GATHER,  // the whole dimension on every device
    PIECES,  // whole or trimmed shards that, joined, hold the interval
    MOVES,   // exactly what each position lacks, in rounds
} Way;

// The interval of every position along the dimension's axes, and the way it is exchanged. `way` is GATHER where nothing
// else was cheaper, as in a dimension that is not sharded at all.
typedef struct Window {
    SpmdInterval interval;
    int64_t shards, shard, global;  // their number and size; size of the whole dimension
    int64_t pieces;
    int64_t *sources;  // sources[piece * shards + i]: whose shard, -1 for none
    int64_t *starts;   // where the interval starts in the joined pieces, by position
    SpmdMoves *moves;
    Way way;
    int64_t sent;  // elements of the dimension that one device sends
} Window;

// The window and the array that it is taken from.
typedef struct Taking {
    SpmdPartitioner *partitioner;
    const SpmdLocal *local;
    int64_t dim;
    const SpmdAxes *axes;
    const SpmdReason *reason;
    const Window *window;
} Taking;

// Entries of a table of pieces: beyond it the moves are planned one by one.
enum { PIECE_LIMIT = 1 << 20 };

// Iterations towards minus infinity: intervals may begin before the array.
static int64_t floor_divide(int64_t a, int64_t b) {
    assert(b > 0); /* shards and divisors are positive */
    return a / b - (a % b != 0 && a < 0);
}

// How many whole divisors position i is along.
static int64_t multiple_of(const SpmdInterval *interval, int64_t i) {
    return floor_divide(interval->scale * i + interval->offset, interval->divisor);
}

int64_t spmd_interval_first(const SpmdInterval *interval, int64_t i) {
    return interval->step * multiple_of(interval, i) + interval->shift;
}

// (scale * i + offset) mod divisor, at least 0.
static int64_t interval_phase(const SpmdInterval *interval, int64_t i) {
    return interval->scale * i + interval->offset - multiple_of(interval, i) * interval->divisor;
}

// The first element that position i needs; negative before the array.
static int64_t first_of(const Window *window, int64_t i) {
    return spmd_interval_first(&window->interval, i);
}

// Where that ends; not after first_of() for a position that needs none.
static int64_t end_of(const Window *window, int64_t i) {
    const int64_t end = first_of(window, i) + window->interval.size;
    return window->interval.end && end > window->interval.end ? window->interval.end : end;
}

static bool needs_some(const Window *window, int64_t i) {
    return first_of(window, i) < end_of(window, i);
}

static int64_t first_shard(const Window *window, int64_t i) {
    return floor_divide(first_of(window, i), window->shard);
}

// The last shard that the interval of position i touches; the one before the first if it needs none.
static int64_t last_shard(const Window *window, int64_t i) {
    return needs_some(window, i) ? floor_divide(end_of(window, i) - 1, window->shard) : first_shard(window, i) - 1;
}

// Room for the sources of `pieces` pieces; false if those would be too many.
static bool make_pieces(HloArena *arena, Window *window, int64_t pieces) {
    window->pieces = pieces;
    if (pieces > PIECE_LIMIT / window->shards) return false;
    window->sources = HLO_ARENA_NEW(arena, int64_t, pieces * window->shards);
    return true;
}

// True if no position sends one piece twice.
static bool sources_differ(HloArena *arena, const Window *window) {
    bool *asked = HLO_ARENA_NEW(arena, bool, window->shards);
    for (int64_t k = 0; k < window->pieces; k++) {
        memset(asked, 0, (size_t)window->shards * sizeof(bool));
        for (int64_t i = 0; i < window->shards; i++) {
            int64_t source = window->sources[k * window->shards + i];
            if (source >= 0 && asked[source]) return false;
            if (source >= 0) asked[source] = true;
        }
    }
    return true;
}

// Pieces by their index in the interval: piece k of position i is the k-th shard that the interval touches. This is for
// intervals that move by a shard or more a position (strided slices, reversals), which would need many pieces by
// distance. False where one shard is needed twice for one piece, which a permute cannot send.
static bool plan_by_place(HloArena *arena, Window *window) {
    int64_t pieces = 0;
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t count = last_shard(window, i) - first_shard(window, i) + 1;
        if (count > pieces) pieces = count;
    }
    if (!make_pieces(arena, window, pieces)) return false;
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t from = first_shard(window, i), to = last_shard(window, i);
        window->starts[i] = first_of(window, i) - from * window->shard;
        for (int64_t k = 0; k < window->pieces; k++) {
            bool there = from + k >= 0 && from + k < window->shards && from + k <= to;
            window->sources[k * window->shards + i] = there ? from + k : -1;
        }
    }
    return sources_differ(arena, window);
}

// Pieces by distance: piece k of position i is the shard `lowest + k` positions further on. This is for intervals that
// move with their position, as those of windows do: `starts` is the same everywhere if they move by a shard a position.
// Positions that need nothing take what lies where the first one's interval does.
static bool plan_by_distance(HloArena *arena, Window *window) {
    int64_t lowest = window->shards, highest = -window->shards;
    for (int64_t i = 0; i < window->shards; i++) {
        if (!needs_some(window, i)) continue;
        int64_t from = first_shard(window, i) - i, to = last_shard(window, i) - i;
        if (from < lowest) lowest = from;
        if (to > highest) highest = to;
    }
    if (highest < lowest || !make_pieces(arena, window, highest - lowest + 1)) return false;
    int64_t first = 0;
    while (!needs_some(window, first)) first++;
    for (int64_t i = 0; i < window->shards; i++) {
        const bool needs = needs_some(window, i);
        const int64_t alike = needs ? i : first;
        window->starts[i] = first_of(window, alike) - (alike + lowest) * window->shard;
        for (int64_t k = 0; k < window->pieces; k++) {
            int64_t source = i + lowest + k;
            window->sources[k * window->shards + i] = needs && source >= 0 && source < window->shards ? source : -1;
        }
    }
    return true;
}

// NULL moves when they would be too many to plan.
static void plan_by_moves(HloArena *arena, Window *window) {
    SpmdShardedDim sharded = {.global = window->global, .shard = window->shard};
    SpmdMoves *moves = spmd_moves_new(arena, window->shards);
    for (int64_t i = 0; i < window->shards; i++) {
        spmd_moves_add(arena, moves, &sharded, i, first_of(window, i), end_of(window, i) - first_of(window, i), 0);
    }
    window->moves = spmd_moves_plan(arena, moves) ? moves : NULL;
}

// True if the interval begins at the same index of the joined pieces on every device: then it is a plain slice.
static bool same_starts(const Window *window) {
    for (int64_t i = 1; i < window->shards; i++) {
        if (window->starts[i] != window->starts[0]) return false;
    }
    return true;
}

// True if a piece is every device's own shard, or none's.
static bool is_own(const Window *window, int64_t piece) {
    for (int64_t i = 0; i < window->shards; i++) {
        int64_t source = window->sources[piece * window->shards + i];
        if (source >= 0 && source != i) return false;
    }
    return true;
}

// The part of piece `piece` that is needed: all of it, unless all intervals lie alike in the pieces.
// Empty (from >= to) for a piece that no interval reaches into.
static void needed_part(const Window *window, int64_t piece, int64_t *from, int64_t *to) {
    bool trim = same_starts(window) && window->starts[0] >= 0;
    *from = trim ? window->starts[0] - piece * window->shard : 0;
    *to = trim ? window->starts[0] + window->interval.size - piece * window->shard : window->shard;
    if (*from < 0) *from = 0;
    if (*to > window->shard) *to = window->shard;
}

// Elements of the dimension that one device sends.
static int64_t sent_elements(const Window *window) {
    int64_t sent = 0, from, to;
    for (int64_t k = 0; k < window->pieces; k++) {
        needed_part(window, k, &from, &to);
        if (from < to && !is_own(window, k)) sent += to - from;
    }
    return sent;
}

// The permutes in which the elements are sent.
static int64_t messages(const Window *window) {
    int64_t count = 0, from, to;
    if (window->way == MOVES) return window->moves->rounds - window->moves->own_rounds;
    for (int64_t k = 0; k < window->pieces; k++) {
        needed_part(window, k, &from, &to);
        count += from < to && !is_own(window, k);
    }
    return count;
}

// Messages cost more than their bytes: many of them must save half of what fewer would send. A gather of many shards
// takes as many steps as a few messages.
static int64_t weighed(const Window *window, int64_t sent, int64_t count) {
    enum { FEW = 3, SOME = 8 };
    const bool many = count > FEW && (count > SOME || 2 * count > window->shards);
    return many ? 2 * sent : sent;
}

// The most elements that a position needs of other shards: no way sends less.
static int64_t most_needed(const Window *window) {
    int64_t most = 0;
    for (int64_t i = 0; i < window->shards; i++) {
        const int64_t first = first_of(window, i), end = end_of(window, i);
        const int64_t own = i * window->shard, own_end = own + window->shard;
        const int64_t from = first > 0 ? first : 0, to = end < window->global ? end : window->global;
        const int64_t kept_from = from > own ? from : own, kept_to = to < own_end ? to : own_end;
        const int64_t needed = (to > from ? to - from : 0) - (kept_to > kept_from ? kept_to - kept_from : 0);
        if (needed > most) most = needed;
    }
    return most;
}

// Whether a machine takes less time for the moves of a plan than for the permutes of its pieces: what comes in rounds
// is put together by selections, which read and write all of the interval once more. `bytes` are those of an element.
static bool moves_faster(const Window *window, SpmdCosts *costs, const SpmdAxes *axes, int64_t bytes) {
    const SpmdMoves *moves = window->moves;
    const int64_t now = spmd_times_bytes(window->sent, bytes), then = spmd_times_bytes(moves->sent, bytes);
    const int64_t cost = spmd_permutes_cost(costs, axes, now, messages(window), true);
    const double work = spmd_work_price(costs, 2 * (double)window->interval.size * (double)bytes, 0);
    return spmd_permutes_cost(costs, axes, then, moves->rounds - moves->own_rounds, true) + spmd_price_cost(work) <
           cost;
}

// The steps after which every position has its interval. `bytes` are those of an element of the dimension.
// Messages are weighed in (weighed()), so `sent` of the way that wins need not be the least.
static Window plan(SpmdPartitioner *partitioner, const SpmdAxes *axes, int64_t global, int64_t bytes,
                   SpmdInterval interval) {
    HloArena *arena = partitioner->arena;
    SpmdCosts *costs = partitioner->plan->costs;
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes);
    assert(interval.divisor > 0 && interval.size >= 0 && interval.step > 0); /* the caller's arithmetic */
    Window window = {.interval = interval, .shards = shards, .global = global};
    window.shard = spmd_shard_size(global, shards);
    window.starts = HLO_ARENA_NEW(arena, int64_t, shards);
    window.sent = (shards - 1) * window.shard;
    if (shards < 2 || window.shard == 0 || interval.size == 0) return window;
    int64_t cost = window.sent;
    int64_t step = interval.scale / interval.divisor * interval.step;
    bool apart = step >= window.shard || step <= -window.shard;
    if ((apart && plan_by_place(arena, &window)) || plan_by_distance(arena, &window)) {
        window.way = PIECES;
        const int64_t sent = sent_elements(&window), weight = weighed(&window, sent, messages(&window));
        window.way = GATHER;
        // Of two devices, a permute sends as much as a gather, and leaves nothing to be cut out.
        if (weight < cost || (weight == cost && window.pieces == 1)) {
            cost = weight;
            window.sent = sent;
            window.way = PIECES;
        }
    }
    if (cost <= most_needed(&window)) return window;
    plan_by_moves(arena, &window);
    if (!window.moves ||
        weighed(&window, window.moves->sent, window.moves->rounds - window.moves->own_rounds) >= cost ||
        (costs->machine && window.way == PIECES && !moves_faster(&window, costs, axes, bytes)))
        return window;
    window.sent = window.moves->sent;
    window.way = MOVES;
    return window;
}

// ---- taking it

// `part` is what this device sends of the piece; a permute delivers it.
static HloInstruction *emit_piece(const Taking *taking, int64_t piece, HloInstruction *part) {
    assert(piece >= 0);
    const Window *window = taking->window;
    const int64_t *sources = &window->sources[piece * window->shards];
    // Without a source, the contents are masked later.
    if (is_own(window, piece)) return part;
    HloPairs pairs = spmd_pairs_of_positions(taking->partitioner, taking->axes, sources);
    return spmd_emit_permute(taking->partitioner, part, pairs, taking->reason);
}

// The index of each element is compared with 0 and with the size of the dimension, only on the sides where some
// interval extends beyond it.
HloInstruction *spmd_emit_fill_outside(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim,
                                       const SpmdAxes *axes, const SpmdInterval *interval, int64_t global,
                                       HloInstruction *fill) {
    assert(dim >= 0 && dim < array->shape->rank);
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes);
    bool below = false, above = false;
    int64_t *firsts = HLO_ARENA_NEW(partitioner->arena, int64_t, shards), reach = global;
    for (int64_t i = 0; i < shards; i++) {
        firsts[i] = spmd_interval_first(interval, i);
        if (llabs(firsts[i]) > reach) reach = llabs(firsts[i]);
        below |= firsts[i] < 0;
        above |= firsts[i] + interval->size > global;
    }
    if (!fill || (!below && !above)) return array;
    const HloShape *shape = array->shape;
    HloType type = spmd_place_type(reach > shape->dims[dim] ? reach : shape->dims[dim]);
    HloInstruction *first = spmd_emit_look_up(partitioner, axes, firsts, shards);
    first = spmd_emit_splat(partitioner, spmd_emit_convert(partitioner, first, type), shape->dims, shape->rank);
    HloInstruction *count = spmd_emit_iota(partitioner, type, shape->dims, shape->rank, dim);
    HloInstruction *position = spmd_emit_binary(partitioner, HLO_OP_ADD, count, first);
    HloInstruction *inside = NULL;
    for (int side = 0; side < 2; side++) {
        if (!(side ? above : below)) continue;
        HloInstruction *limit = spmd_emit_scalar(partitioner, type, side ? global : 0);
        HloInstruction *spread = spmd_emit_splat(partitioner, limit, shape->dims, shape->rank);
        int32_t direction = side ? HLO_ComparisonDirection_LT : HLO_ComparisonDirection_GE;
        HloInstruction *test = spmd_emit_compare(partitioner, direction, position, spread);
        inside = inside ? spmd_emit_binary(partitioner, HLO_OP_AND, inside, test) : test;
    }
    return spmd_emit_select(partitioner, inside, array, spmd_emit_splat(partitioner, fill, shape->dims, shape->rank));
}

// Cuts the interval out of the joined pieces, which may have to be padded for intervals that stick out. `starts` says
// where it begins in them, by position.
static HloInstruction *slice_interval(const Taking *taking, HloInstruction *joined, const int64_t *starts) {
    const Window *window = taking->window;
    int64_t low = 0, high = 0, length = joined->shape->dims[taking->dim], size = window->interval.size;
    for (int64_t i = 0; i < window->shards; i++) {
        if (-starts[i] > low) low = -starts[i];
        if (starts[i] + size - length > high) high = starts[i] + size - length;
    }
    joined = spmd_emit_pad(taking->partitioner, joined, taking->dim, low, high, NULL);
    int64_t *moved = HLO_ARENA_NEW(taking->partitioner->arena, int64_t, window->shards);
    bool alike = true;
    for (int64_t i = 0; i < window->shards; i++) {
        moved[i] = starts[i] + low;
        alike &= moved[i] == moved[0];
    }
    if (alike) return spmd_emit_slice(taking->partitioner, joined, taking->dim, moved[0], moved[0] + size, 1);
    HloInstruction *start = spmd_emit_look_up(taking->partitioner, taking->axes, moved, window->shards);
    return spmd_emit_dynamic_slice(taking->partitioner, joined, taking->dim, start, size);
}

// Sends pieces to where they are needed. Where all intervals have the same start, only the needed part of a piece is
// sent.
static HloInstruction *exchange(const Taking *taking) {
    SpmdPartitioner *partitioner = taking->partitioner;
    const Window *window = taking->window;
    HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, window->pieces);
    int64_t *starts = HLO_ARENA_NEW(partitioner->arena, int64_t, window->shards);
    int64_t dropped = 0, count = 0;
    for (int64_t k = 0; k < window->pieces; k++) {
        int64_t from, to;
        needed_part(window, k, &from, &to);
        if (from >= to) {
            if (count == 0) dropped += window->shard;
            continue;
        }
        if (count == 0) dropped += from;
        HloInstruction *part = spmd_emit_slice(partitioner, taking->local->hlo, taking->dim, from, to, 1);
        parts[count++] = emit_piece(taking, k, part);
    }
    for (int64_t i = 0; i < window->shards; i++) starts[i] = window->starts[i] - dropped;
    return slice_interval(taking, spmd_emit_concatenate(partitioner, parts, count, taking->dim), starts);
}

// The whole dimension on every device, then the interval.
static HloInstruction *gather_all(const Taking *taking) {
    HloInstruction *all = taking->local->hlo;
    if (taking->local->sharding->dims[taking->dim].count) {
        all = spmd_emit_all_gather(taking->partitioner, all, taking->dim, taking->axes, taking->reason);
    }
    int64_t *starts = HLO_ARENA_NEW(taking->partitioner->arena, int64_t, taking->window->shards);
    for (int64_t i = 0; i < taking->window->shards; i++) starts[i] = first_of(taking->window, i);
    return slice_interval(taking, all, starts);
}

// The fill is applied to what comes out of any of the three ways: they differ in what they leave outside of the array.
HloInstruction *spmd_emit_window(SpmdPartitioner *partitioner, SpmdLocal local, int64_t dim, const SpmdAxes *axes,
                                 SpmdInterval interval, HloInstruction *fill, const SpmdReason *reason) {
    assert(dim >= 0 && dim < local.hlo->shape->rank);
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes), global = local.global->dims[dim];
    const bool whole = !local.sharding->dims[dim].count;
    const int64_t shard = local.hlo->shape->dims[dim], bytes = hlo_shape_bytes(local.hlo->shape);
    const Window window = whole ? (Window){.interval = interval, .shards = shards, .global = global}
                                : plan(partitioner, axes, global, shard ? bytes / shard : 0, interval);
    const Taking taking = {partitioner, &local, dim, axes, reason, &window};
    HloInstruction *result = NULL;
    switch (window.way) {
        case GATHER: result = gather_all(&taking); break;
        case PIECES: result = exchange(&taking); break;
        case MOVES:
            result = spmd_emit_moves(partitioner, local.hlo, dim, axes, window.moves, interval.size, reason);
            break;
    }
    return spmd_emit_fill_outside(partitioner, result, dim, axes, &window.interval, window.global, fill);
}

bool spmd_has_whole(SpmdPartitioner *partitioner, int32_t operand, int32_t dim, const SpmdAxes *axes) {
    const SpmdLocal local = spmd_operand(partitioner, operand);
    return local.hlo && !local.partial && !local.sharding->dims[dim].count &&
           !(spmd_sharding_used(local.sharding) & spmd_axes_set(axes));
}

SpmdLocal spmd_windowed_operand(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                                int32_t operand, const bool *windowed) {
    SpmdSharding *wanted = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, operand, factors,
                                              spmd_manual_axes(partitioner, partitioner->op));
    bool whole = false;
    for (int32_t d = 0; d < wanted->rank; d++) {
        if (!windowed[d] || !wanted->dims[d].count || !spmd_has_whole(partitioner, operand, d, &wanted->dims[d]))
            continue;
        wanted->dims[d] = (SpmdAxes){0};
        whole = true;
    }
    if (!whole) return spmd_factor_operand(partitioner, rule, factors, operand);
    const SpmdReason reason = {.op = partitioner->op, .what = spmd_operand_name(partitioner, operand)};
    return spmd_reshard(partitioner, spmd_operand(partitioner, operand), wanted, 0, reason);
}

// A phase is the distance from a multiple of the divisor to where a position begins: the hole of a dilated dimension in
// which it starts.
void spmd_interval_phases(const SpmdMesh *mesh, const SpmdAxes *axes, const SpmdInterval *interval, int64_t *least,
                          int64_t *largest) {
    int64_t shards = spmd_axes_product(mesh, axes);
    *least = *largest = interval_phase(interval, 0);
    for (int64_t i = 1; i < shards; i++) {
        int64_t phase = interval_phase(interval, i);
        if (phase < *least) *least = phase;
        if (phase > *largest) *largest = phase;
    }
    assert(*least >= 0 && *largest < interval->divisor); /* it is a remainder */
}

// Devices run one program, so those with another phase look it up in a table by their index.
HloInstruction *spmd_emit_phase(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim, const SpmdAxes *axes,
                                const SpmdInterval *interval, int64_t size) {
    assert(dim >= 0 && dim < array->shape->rank && size >= 0);
    int64_t shards = spmd_axes_product(partitioner->mesh, axes), least, largest;
    spmd_interval_phases(partitioner->mesh, axes, interval, &least, &largest);
    assert(array->shape->dims[dim] >= largest + size); /* the caller made room for the largest */
    if (least == largest) return spmd_emit_slice(partitioner, array, dim, least, least + size, 1);
    int64_t *phases = HLO_ARENA_NEW(partitioner->arena, int64_t, shards);
    for (int64_t i = 0; i < shards; i++) phases[i] = interval_phase(interval, i);
    HloInstruction *start = spmd_emit_look_up(partitioner, axes, phases, shards);
    return spmd_emit_dynamic_slice(partitioner, array, dim, start, size);
}

int64_t spmd_window_bytes(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *sharding,
                          int64_t dim, SpmdInterval interval) {
    assert(dim >= 0 && dim < global->rank);
    HloArenaMark mark = hlo_arena_mark(partitioner->arena);
    const SpmdAxes *axes = &sharding->dims[dim];
    const int64_t shard = spmd_shard_size(global->dims[dim], spmd_axes_product(partitioner->mesh, axes));
    int64_t bytes = spmd_local_bytes(partitioner->mesh, global, sharding);
    const Window window = plan(partitioner, axes, global->dims[dim], shard ? bytes / shard : 0, interval);
    const int64_t count = window.way == GATHER ? 0 : messages(&window);
    hlo_arena_reset(partitioner->arena, mark);
    if (window.shard == 0) return 0;
    bytes = spmd_times_bytes(bytes / window.shard, window.sent);
    if (window.way == GATHER)
        return spmd_transfer_cost(partitioner->plan->costs, SPMD_TRANSFER_GATHER, spmd_axes_set(axes), bytes, false);
    return spmd_permutes_cost(partitioner->plan->costs, axes, bytes, count, false);
}
