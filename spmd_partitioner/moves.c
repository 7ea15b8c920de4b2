// SPDX-License-Identifier: Apache-2.0
// Moves: which device sends which elements of a dimension to which other, in rounds of one collective-permute each. A
// permute lets every device send to one and receive from one, so the rounds are an edge colouring of the bipartite
// graph of senders and receivers. By Koenig's theorem there are as many rounds as the busiest device has moves, and
// exchanging two colours along a path (exchange_rounds()) always makes room for one more move. Long moves are coloured
// first, so that the moves of a round have similar lengths: every device sends as much as the longest of the round.
//
// A reversal of ten elements in shards of three; position i needs those of 9 - 3i downwards:
//     holds   0: 0 1 2   1: 3 4 5   2: 6 7 8   3: 9 . .
//     needs   0: 7 8 9   1: 4 5 6   2: 1 2 3   3: 0 (and two that are outside)
//     moves   0 <- 2 (7 8), 0 <- 3 (9), 1 <- 1 (4 5), 1 <- 2 (6), 2 <- 0 (1 2), 2 <- 1 (3), 3 <- 0 (0)
// Positions 0 and 2 send twice and receive twice, so two permutes suffice; 1 <- 1 and the like are in rounds of their
// own, without a message.
//
// With m moves over p positions, of which the busiest has d, planning takes O(m (d + p)), and O(m log m) where d is 2:
// windows of a few elements and strided slices. Tables of more than PLAN_LIMIT entries are not planned at all, and the
// caller gathers. The second half (spmd_emit_moves) writes a planned set of moves as slices, permutes and selects.
#include "spmd_partitioner/moves.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spmd_partitioner/emit.h"

// Entries of the planning tables, positions times rounds; with more, gathering is better.
enum { PLAN_LIMIT = 1 << 22 };

// No moves yet; `positions` is the number of shards along the dimension's axes.
SpmdMoves *spmd_moves_new(HloArena *arena, int64_t positions) {
    assert(positions > 0); /* a group has at least one device */
    SpmdMoves *moves = HLO_ARENA_NEW(arena, SpmdMoves, 1);
    *moves = (SpmdMoves){.positions = positions};
    return moves;
}

// A range is split where shards end, so that each move has one sender. `first` may be negative and the end beyond the
// dimension: these elements are ignored.
void spmd_moves_add(HloArena *arena, SpmdMoves *moves, const SpmdShardedDim *sharded, int64_t to, int64_t first,
                    int64_t size, int64_t target) {
    assert(to >= 0 && to < moves->positions); /* receivers are positions along the axes */
    assert(sharded->shard > 0);               /* a dimension without elements is nothing to move */
    int64_t at = first < 0 ? 0 : first, end = first + size < sharded->global ? first + size : sharded->global;
    while (at < end) {
        int64_t from = at / sharded->shard,
                next = (from + 1) * sharded->shard < end ? (from + 1) * sharded->shard : end;
        assert(from < moves->positions); /* shards cover the dimension */
        SpmdMove move = {.from = from,
                         .to = to,
                         .source = sharded->base + at - from * sharded->shard,
                         .target = target + at - first,
                         .size = next - at};
        hlo_vector_push(arena, &moves->items, move);
        at = next;
    }
}

// ---- rounds: an edge colouring of senders and receivers

// The moves of each sender and of each receiver, by round; -1 for none.
typedef struct Table {
    SpmdMoves *moves;
    int64_t rounds;
    int32_t *of_sender, *of_receiver;
} Table;

// The number of the move that a position sends in a round.
static int32_t *sender_slot(const Table *table, int64_t position, int64_t round) {
    assert(round >= 0 && round < table->rounds); /* as many rounds as the busiest position has moves */
    return &table->of_sender[position * table->rounds + round];
}

// The number of the move that a position receives in a round.
static int32_t *receiver_slot(const Table *table, int64_t position, int64_t round) {
    assert(round >= 0 && round < table->rounds); /* as above */
    return &table->of_receiver[position * table->rounds + round];
}

// The first round in which both (or, with -1 for one of them, the other) are free; -1 if there is none. For a single
// side there always is one: a position has no more moves than there are rounds.
static int64_t free_round(const Table *table, int64_t sender, int64_t receiver) {
    for (int64_t round = 0; round < table->rounds; round++) {
        bool busy = (sender >= 0 && *sender_slot(table, sender, round) >= 0) ||
                    (receiver >= 0 && *receiver_slot(table, receiver, round) >= 0);
        if (!busy) return round;
    }
    return -1;
}

// Both slots must be free, by free_round() or because they were just cleared.
static void put(const Table *table, int32_t number, int64_t round) {
    SpmdMove *move = &table->moves->items.items[number];
    move->round = round;
    *sender_slot(table, move->from, round) = number;
    *receiver_slot(table, move->to, round) = number;
}

// A walk along a chain of moves in two rounds, from one of its ends.
typedef struct Walk {
    int64_t round;   // of the next move
    bool to_sender;  // whether the next move is the one that its receiver has, and its sender comes after it
    int32_t number;  // of the next move, -1 at the end
    int64_t count;   // of moves so far
    int32_t *path;   // their numbers
} Walk;

// Goes on to the next move of the chain in rounds `a` and `b`.
static void walk_on(const Table *table, Walk *walk, int64_t a, int64_t b) {
    const SpmdMove *move = &table->moves->items.items[walk->number];
    walk->path[walk->count++] = walk->number;
    walk->round = walk->round == a ? b : a;
    walk->number =
        walk->to_sender ? *sender_slot(table, move->from, walk->round) : *receiver_slot(table, move->to, walk->round);
    walk->to_sender = !walk->to_sender;
}

// Exchanges two rounds along a chain of moves, so that one round is free at both ends of a new move, and returns that
// round. `sender` is free in round `a`, `receiver` in `b`. The chains of moves in both rounds that begin at them are
// paths, and not the same one. Both are walked together and the shorter one is exchanged: all moves of two rounds take
// O(m log m), as a move that is exchanged is in a chain of at least twice the length afterwards.
static int64_t exchange_rounds(const Table *table, const SpmdMove *added, int64_t a, int64_t b, int32_t *paths) {
    assert(a != b);
    Walk receiver = {a, true, *receiver_slot(table, added->to, a), 0, paths};
    Walk sender = {b, false, *sender_slot(table, added->from, b), 0, paths + table->moves->items.count};
    while (receiver.number >= 0 && sender.number >= 0) {
        walk_on(table, &receiver, a, b);
        walk_on(table, &sender, a, b);
    }
    const Walk *walk = receiver.number < 0 ? &receiver : &sender;
    for (int64_t i = 0; i < walk->count; i++) {
        const SpmdMove *move = &table->moves->items.items[walk->path[i]];
        *sender_slot(table, move->from, move->round) = -1;
        *receiver_slot(table, move->to, move->round) = -1;
    }
    for (int64_t i = 0; i < walk->count; i++)
        put(table, walk->path[i], table->moves->items.items[walk->path[i]].round == a ? b : a);
    return walk == &receiver ? a : b;
}

// For qsort().
static int largest_first(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

// Sorts the moves by length; equal ones keep their order, so that the rounds do not depend on the library's sort. There
// are few lengths: counting them takes time in proportion to the moves.
static void sort_longest_first(HloArena *arena, SpmdMoves *moves) {
    const int64_t count = moves->items.count;
    SpmdMove *sorted = HLO_ARENA_NEW(arena, SpmdMove, count);
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, count), size_count = 0, next = 0;
    HloIntMap places = {0};  // size -> how many, then where the next one goes
    for (int64_t i = 0; i < count; i++) {
        const int64_t size = moves->items.items[i].size;
        int64_t *number = hlo_int_map_find(&places, (uint64_t)size);
        if (number)
            ++*number;
        else
            hlo_int_map_set(arena, &places, (uint64_t)(sizes[size_count++] = size), 1);
    }
    qsort(sizes, (size_t)size_count, sizeof(*sizes), largest_first);
    for (int64_t i = 0; i < size_count; i++) {
        int64_t *number = hlo_int_map_find(&places, (uint64_t)sizes[i]);
        const int64_t many = *number;
        *number = next;
        next += many;
    }
    for (int64_t i = 0; i < count; i++)
        sorted[(*hlo_int_map_find(&places, (uint64_t)moves->items.items[i].size))++] = moves->items.items[i];
    memcpy(moves->items.items, sorted, (size_t)count * sizeof(*sorted));
}

// The number of sent moves of the busiest position; moves that stay on their device get their rounds here.
static int64_t busiest(HloArena *arena, SpmdMoves *moves) {
    int64_t *counts = HLO_ARENA_NEW(arena, int64_t, 3 * moves->positions), most = 0;
    for (int64_t i = 0; i < moves->items.count; i++) {
        SpmdMove *move = &moves->items.items[i];
        if (move->from == move->to) {
            move->round = counts[2 * moves->positions + move->to]++;
            if (move->round >= moves->own_rounds) moves->own_rounds = move->round + 1;
            continue;
        }
        int64_t sends = ++counts[move->from], receives = ++counts[moves->positions + move->to];
        if (sends > most) most = sends;
        if (receives > most) most = receives;
    }
    return most;
}

// The longest move of each round, and the total of what is sent.
static void measure(HloArena *arena, SpmdMoves *moves) {
    moves->sizes = HLO_ARENA_NEW(arena, int64_t, moves->rounds + 1);
    for (int64_t i = 0; i < moves->items.count; i++) {
        const SpmdMove *move = &moves->items.items[i];
        if (move->size > moves->sizes[move->round]) moves->sizes[move->round] = move->size;
    }
    for (int64_t round = moves->own_rounds; round < moves->rounds; round++) moves->sent += moves->sizes[round];
}

// Iterations from 0 on are what stays where it is (own_rounds of them, without a message), then the permutes.
bool spmd_moves_plan(HloArena *arena, SpmdMoves *moves) {
    assert(moves->rounds == 0); /* planned once */
    if (moves->items.count > 0) sort_longest_first(arena, moves);
    Table table = {.moves = moves, .rounds = busiest(arena, moves)};
    int64_t entries;
    if (__builtin_mul_overflow(moves->positions, table.rounds, &entries) || entries > PLAN_LIMIT) return false;
    table.of_sender = HLO_ARENA_NEW(arena, int32_t, entries);
    table.of_receiver = HLO_ARENA_NEW(arena, int32_t, entries);
    for (int64_t i = 0; i < entries; i++) table.of_sender[i] = table.of_receiver[i] = -1;
    int32_t *paths = HLO_ARENA_NEW(arena, int32_t, 2 * moves->items.count + 1);
    for (int32_t i = 0; i < (int32_t)moves->items.count; i++) {
        const SpmdMove *move = &moves->items.items[i];
        if (move->from == move->to) continue;
        int64_t round = free_round(&table, move->from, move->to);
        if (round < 0) {
            const int64_t of_sender = free_round(&table, move->from, -1);
            round = exchange_rounds(&table, move, of_sender, free_round(&table, -1, move->to), paths);
        }
        put(&table, i, round);
    }
    moves->rounds = moves->own_rounds + table.rounds;
    for (int64_t i = 0; i < moves->items.count; i++) {
        SpmdMove *move = &moves->items.items[i];
        if (move->from != move->to) move->round += moves->own_rounds;
    }
    measure(arena, moves);
    return true;
}

// ---- uneven slices and gathers

// What position `to` lacks of elements [first, end) comes from the position that holds it with the same place along the
// minor axes: the holders of one wider shard share the work.
static void add_moves_of_copies(HloArena *arena, SpmdMoves *moves, int64_t to, int64_t minor, int64_t shard,
                                int64_t first, int64_t end) {
    assert(minor > 1 && shard > 0);
    for (int64_t at = first, next; at < end; at = next) {
        const int64_t tile = at / shard;
        next = (tile + 1) * shard < end ? (tile + 1) * shard : end;
        const SpmdMove move = {.from = tile * minor + to % minor,
                               .to = to,
                               .source = at - tile * shard,
                               .target = at - first,
                               .size = next - at};
        hlo_vector_push(arena, &moves->items, move);
    }
}

SpmdMoves *spmd_uneven_moves(HloArena *arena, const SpmdMesh *mesh, int64_t size, const SpmdAxes *narrow, int32_t wide,
                             SpmdStepKind kind) {
    assert(size > 0 && wide > 0 && wide < narrow->count);
    const SpmdAxes major = spmd_axes_head(narrow, wide);
    const int64_t positions = spmd_axes_product(mesh, narrow), minor = positions / spmd_axes_product(mesh, &major);
    const int64_t part = spmd_shard_size(size, positions), shard = spmd_shard_size(size, positions / minor);
    const SpmdShardedDim sharded = {.global = size, .shard = part};
    SpmdMoves *moves = spmd_moves_new(arena, positions);
    for (int64_t to = 0; to < positions; to++) {
        if (kind == SPMD_STEP_UNEVEN_SLICE) {
            const int64_t first = to * part, end = hlo_smaller(first + part, size);
            add_moves_of_copies(arena, moves, to, minor, shard, first, end);
        } else {
            const int64_t inside = (to % minor) * part, left = shard - inside;
            spmd_moves_add(arena, moves, &sharded, to, to / minor * shard + inside, hlo_smaller(part, left), 0);
        }
    }
    return spmd_moves_plan(arena, moves) ? moves : NULL;
}

// ---- carrying them out

// One pair for each receiving device of the mesh: what holds for positions holds in every group.
HloPairs spmd_pairs_of_positions(SpmdPartitioner *partitioner, const SpmdAxes *axes, const int64_t *sources) {
    const SpmdMesh *mesh = partitioner->mesh;
    SpmdPlaces *places = &partitioner->places;
    HloPair *pairs = HLO_ARENA_NEW(spmd_arena(partitioner), HloPair, mesh->device_count);
    int64_t count = 0;
    if (!places->position || !spmd_axes_equal(&places->axes, axes))
        *places = spmd_places(partitioner->arena, mesh, axes);
    for (int64_t device = 0; device < mesh->device_count; device++) {
        const int64_t source = sources[places->position[device]];
        if (source >= 0) pairs[count++] = (HloPair){spmd_device_at(places, device, source), device};
    }
    return (HloPairs){pairs, count};
}

// One round, by position.
typedef struct Round {
    int64_t *starts;       // first element that the position sends
    int64_t *sources;      // the position that it receives from, -1: none
    int64_t *shifts;       // the index in its array of the first element that it receives
    int64_t *first, *end;  // the part of its array that this round fills
} Round;

// The five tables have an entry a position; `length` is the size of the dimension in the sender's
// array.
static Round round_of(SpmdPartitioner *partitioner, const SpmdMoves *moves, int64_t number, int64_t length) {
    int64_t *table = HLO_ARENA_NEW(partitioner->arena, int64_t, 5 * moves->positions), n = moves->positions;
    Round round = {table, table + n, table + 2 * n, table + 3 * n, table + 4 * n};
    for (int64_t i = 0; i < n; i++) {
        round.sources[i] = -1;
        round.starts[i] = -1;
    }
    int64_t any_start = 0;
    for (int64_t i = 0; i < moves->items.count; i++) {
        const SpmdMove *move = &moves->items.items[i];
        if (move->round != number) continue;
        // All devices send as much as the longest move: shorter ones begin earlier where the end would be passed.
        int64_t start = move->source;
        if (start + moves->sizes[number] > length) start = length - moves->sizes[number];
        assert(start >= 0); /* no move is longer than the array that it comes from */
        round.starts[move->from] = any_start = start;
        round.sources[move->to] = move->from;
        round.shifts[move->to] = move->target - (move->source - start);
        round.first[move->to] = move->target;
        round.end[move->to] = move->target + move->size;
    }
    // Positions that send nothing do as one that sends: where all begin at one element, it is a constant.
    for (int64_t i = 0; i < n; i++)
        if (round.starts[i] < 0) round.starts[i] = any_start;
    return round;
}

// Moves `part`, which a round delivers, to its position in the receiver's array by padding on both sides and slicing
// out a window: a shift by a different distance on every device.
static HloInstruction *place(SpmdPartitioner *partitioner, HloInstruction *part, int64_t dim, const SpmdAxes *axes,
                             const SpmdMoves *moves, const Round *round, int64_t size) {
    bool there = part->shape->dims[dim] == size;
    for (int64_t i = 0; i < moves->positions; i++) there &= round->sources[i] < 0 || round->shifts[i] == 0;
    if (there) return part;
    int64_t *starts = HLO_ARENA_NEW(partitioner->arena, int64_t, moves->positions);
    for (int64_t i = 0; i < moves->positions; i++) starts[i] = round->sources[i] < 0 ? 0 : size - round->shifts[i];
    part = spmd_emit_pad(partitioner, part, dim, size, size, NULL);
    HloInstruction *start = spmd_emit_look_up(partitioner, axes, starts, moves->positions);
    return spmd_emit_dynamic_slice(partitioner, part, dim, start, size);
}

// `given` where the round delivers elements, `before` elsewhere.
static HloInstruction *overlay(SpmdPartitioner *partitioner, HloInstruction *before, HloInstruction *given, int64_t dim,
                               const SpmdAxes *axes, const SpmdMoves *moves, const Round *round) {
    const HloShape *shape = given->shape;
    HloType type = spmd_place_type(shape->dims[dim]);
    HloInstruction *count = spmd_emit_iota(partitioner, type, shape->dims, shape->rank, dim), *inside = NULL;
    for (int side = 0; side < 2; side++) {
        const int64_t *limits = side ? round->end : round->first;
        HloInstruction *limit = spmd_emit_look_up(partitioner, axes, limits, moves->positions);
        limit = spmd_emit_convert(partitioner, limit, type);
        int32_t direction = side ? HLO_ComparisonDirection_LT : HLO_ComparisonDirection_GE;
        HloInstruction *test = spmd_emit_compare(partitioner, direction, count,
                                                 spmd_emit_splat(partitioner, limit, shape->dims, shape->rank));
        inside = inside ? spmd_emit_binary(partitioner, HLO_OP_AND, inside, test) : test;
    }
    return spmd_emit_select(partitioner, inside, given, before);
}

// What a round delivers, not moved to its place yet.
static HloInstruction *deliver(SpmdPartitioner *partitioner, HloInstruction *local, int64_t dim, const SpmdAxes *axes,
                               const SpmdMoves *moves, int64_t number, const Round *round, const SpmdReason *reason) {
    HloInstruction *part = local;
    if (moves->sizes[number] < local->shape->dims[dim]) {
        HloInstruction *start = spmd_emit_look_up(partitioner, axes, round->starts, moves->positions);
        part = spmd_emit_dynamic_slice(partitioner, local, dim, start, moves->sizes[number]);
    }
    if (number < moves->own_rounds) return part;
    HloPairs pairs = spmd_pairs_of_positions(partitioner, axes, round->sources);
    return spmd_emit_permute(partitioner, part, pairs, reason);
}

// The place of what a round delivers, if it is the same on every device that receives; -1 if it is not.
static int64_t common_place(const SpmdMoves *moves, const Round *round) {
    int64_t place = -1;
    for (int64_t i = 0; i < moves->positions; i++) {
        if (round->sources[i] < 0) continue;
        if (round->shifts[i] < 0 || (place >= 0 && round->shifts[i] != place)) return -1;
        place = round->shifts[i];
    }
    return place;
}

// Rounds whose parts follow each other in the receiver's array on every device, and fill it: order[k] is the k-th of
// them, of *count. False if there are none that do. Elements outside of what a round delivers are undefined, or another
// round's that is overlaid later.
static bool find_sequence(const SpmdMoves *moves, const Round *rounds, int64_t size, int64_t *order, int64_t *count) {
    *count = 0;
    for (int64_t at = 0, next; at < size; at = next) {
        next = at;
        for (int64_t number = 0; number < moves->rounds && next == at; number++) {
            if (!moves->sizes[number] || common_place(moves, &rounds[number]) != at) continue;
            order[(*count)++] = number;
            next = at + moves->sizes[number];
        }
        if (next == at || next > size) return false;
    }
    return *count > 1;
}

// For each round: slice out the elements to send, send them, move them to their position in an array of the wanted
// size, and overlay the result of earlier rounds. The first round needs no overlay, and those that make a sequence are
// joined before all others; elements that no round delivers are undefined.
HloInstruction *spmd_emit_moves(SpmdPartitioner *partitioner, HloInstruction *local, int64_t dim, const SpmdAxes *axes,
                                const SpmdMoves *moves, int64_t size, const SpmdReason *reason) {
    assert(dim >= 0 && dim < local->shape->rank && size >= 0);
    HloArena *arena = partitioner->arena;
    HloInstruction *made = NULL, **parts = HLO_ARENA_NEW(arena, HloInstruction *, moves->rounds + 1);
    Round *rounds = HLO_ARENA_NEW(arena, Round, moves->rounds + 1);
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, moves->rounds + 1), joined = 0;
    bool *is_joined = HLO_ARENA_NEW(arena, bool, moves->rounds + 1);
    for (int64_t number = 0; number < moves->rounds; number++)
        rounds[number] = round_of(partitioner, moves, number, local->shape->dims[dim]);
    if (find_sequence(moves, rounds, size, order, &joined)) {
        for (int64_t k = 0; k < joined; k++) {
            parts[k] = deliver(partitioner, local, dim, axes, moves, order[k], &rounds[order[k]], reason);
            is_joined[order[k]] = true;
        }
        made = spmd_emit_concatenate(partitioner, parts, joined, dim);
    }
    for (int64_t number = 0; number < moves->rounds; number++) {
        if (is_joined[number]) continue;
        const Round *round = &rounds[number];
        HloInstruction *part = deliver(partitioner, local, dim, axes, moves, number, round, reason);
        HloInstruction *given = place(partitioner, part, dim, axes, moves, round, size);
        made = made ? overlay(partitioner, made, given, dim, axes, moves, round) : given;
    }
    if (made) return made;
    // No device needs anything: any array of that size will do.
    HloInstruction *padded = spmd_emit_pad(partitioner, local, dim, 0, size, NULL);
    return spmd_emit_slice(partitioner, padded, dim, 0, size, 1);
}
