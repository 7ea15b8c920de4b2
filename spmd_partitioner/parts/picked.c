// SPDX-License-Identifier: Apache-2.0
// Elements that indices pick out of a sharded dimension. Runs of elements (known.h) send what lies between the elements
// too; where these are scattered, each device first puts those that another one needs side by side:
//
//     %r = gather(f32[8] %x, {0, 4, 2, 6, 1, 5, 3, 7}), %x and %r split in 4: position 0 needs elements 0 and 4
//     position 0 has 0 and 1, picks 0 for itself and 1 for position 2; everyone sends one element
//
// They go by an all-to-all of blocks as long as the longest, or in rounds of permutes (moves.h), whichever costs less:
// a permutation has something for everyone, every second element something for two.
#include "spmd_partitioner/parts/picked.h"

#include <assert.h>

#include "spmd_partitioner/emit.h"

enum { MOST_PAIRS = 1 << 20 };  // of positions

// How many elements each position gets of each other one: counts[from * positions + to]. The longest.
static int64_t count_pairs(int64_t positions, int64_t shard, int64_t size, const uint8_t *needed, int64_t *counts) {
    int64_t longest = 0;
    for (int64_t to = 0; to < positions; to++) {
        for (int64_t i = 0; i < size; i++) {
            const int64_t from = i / shard;
            if (!needed[to * size + i] || from == to) continue;
            const int64_t count = ++counts[from * positions + to];
            if (count > longest) longest = count;
        }
    }
    return longest;
}

// Moves of as many elements as each pair has; NULL if they cannot be planned.
static SpmdMoves *moves_of(HloArena *arena, int64_t positions, const int64_t *counts) {
    SpmdMoves *moves = spmd_moves_new(arena, positions);
    int64_t *received = HLO_ARENA_NEW(arena, int64_t, positions);
    for (int64_t from = 0; from < positions; from++) {
        int64_t source = 0;
        for (int64_t to = 0; to < positions; to++) {
            const int64_t size = counts[from * positions + to];
            if (!size) continue;
            const SpmdMove move = {.from = from, .to = to, .source = source, .target = received[to], .size = size};
            hlo_vector_push(arena, &moves->items, move);
            source += size;
            received[to] += size;
        }
    }
    return spmd_moves_plan(arena, moves) ? moves : NULL;
}

// Where the elements of each pair begin: in what `from` picks, and in what `to` receives.
typedef struct Starts {
    int64_t *sources, *targets;  // by from * positions + to
} Starts;

static Starts starts_of(HloArena *arena, SpmdPicks *picks, int64_t block, const int64_t *counts) {
    const int64_t positions = picks->positions;
    const Starts starts = {HLO_ARENA_NEW(arena, int64_t, positions * positions),
                           HLO_ARENA_NEW(arena, int64_t, positions * positions)};
    int64_t *received = HLO_ARENA_NEW(arena, int64_t, positions);
    picks->count = picks->received = picks->moves ? 1 : positions * block;
    for (int64_t from = 0; from < positions; from++) {
        int64_t source = 0;
        for (int64_t to = 0; to < positions; to++) {
            const int64_t pair = from * positions + to;
            starts.sources[pair] = picks->moves ? source : to * block;
            starts.targets[pair] = picks->moves ? received[to] : from * block;
            source += counts[pair];
            received[to] += counts[pair];
            if (received[to] > picks->received) picks->received = received[to];
        }
        if (source > picks->count) picks->count = source;
    }
    return starts;
}

static void fill_in(HloArena *arena, SpmdPicks *picks, int64_t size, const uint8_t *needed, const Starts *starts) {
    const int64_t positions = picks->positions;
    picks->picked = HLO_ARENA_NEW(arena, int64_t, positions * picks->count);
    picks->places = HLO_ARENA_NEW(arena, int64_t, positions * size);
    for (int64_t to = 0; to < positions; to++) {
        for (int64_t i = 0, next = 0; i < size; i++, next++) {
            const int64_t from = i / picks->shard, pair = from * positions + to;
            if (i % picks->shard == 0) next = 0;
            int64_t *place = &picks->places[to * size + i];
            *place = -1;
            if (!needed[to * size + i]) {
                next--;
            } else if (from == to) {
                *place = i - from * picks->shard;
            } else {
                picks->picked[from * picks->count + starts->sources[pair] + next] = i - from * picks->shard;
                *place = picks->shard + starts->targets[pair] + next;
            }
        }
    }
}

SpmdPicks *spmd_picks_new(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *sharding,
                          int64_t dim, const uint8_t *needed) {
    HloArena *arena = partitioner->arena;
    SpmdCosts *costs = partitioner->plan->costs;
    const SpmdAxes *axes = &sharding->dims[dim];
    const int64_t positions = spmd_axes_product(partitioner->mesh, axes), size = global->dims[dim];
    if (positions > MOST_PAIRS / positions || !hlo_shape_elements(global)) return NULL;
    SpmdPicks *picks = HLO_ARENA_NEW(arena, SpmdPicks, 1);
    *picks = (SpmdPicks){.positions = positions, .shard = spmd_shard_size(size, positions)};
    int64_t *counts = HLO_ARENA_NEW(arena, int64_t, positions * positions);
    const int64_t block = count_pairs(positions, picks->shard, size, needed, counts);
    if (!block) return NULL;
    const int64_t row = spmd_local_bytes(partitioner->mesh, global, sharding) / picks->shard;
    const int64_t exchanged = spmd_times_bytes(row, (positions - 1) * block);
    const int64_t exchange = spmd_transfer_cost(costs, SPMD_TRANSFER_EXCHANGE, spmd_axes_set(axes), exchanged, true);
    SpmdMoves *moves = moves_of(arena, positions, counts);
    const int64_t sent = moves ? spmd_times_bytes(row, moves->sent) : 0;
    if (moves && spmd_permutes_cost(costs, axes, sent, moves->rounds, true) <= exchange) picks->moves = moves;
    picks->cost = picks->moves
                      ? spmd_permutes_cost(costs, axes, sent, moves->rounds, false)
                      : spmd_transfer_cost(costs, SPMD_TRANSFER_EXCHANGE, spmd_axes_set(axes), exchanged, false);
    const Starts starts = starts_of(arena, picks, block, counts);
    fill_in(arena, picks, size, needed, &starts);
    // What is picked, and the shard with what is received, are read and written.
    const double moved = 2.0 * (double)row * (double)(picks->count + picks->shard + picks->received);
    picks->cost = spmd_add_bytes(picks->cost, spmd_price_cost(spmd_work_price(costs, moved, 0)));
    return picks;
}

// ---- carrying them out

// Elements `indices`, a vector, of dimension `dim`.
static HloInstruction *emit_take(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim,
                                 HloInstruction *indices) {
    HloArena *arena = spmd_arena(partitioner);
    const HloShape *shape = array->shape;
    int64_t *others = HLO_ARENA_NEW(arena, int64_t, shape->rank), *sizes = HLO_ARENA_NEW(arena, int64_t, shape->rank),
            *one = HLO_ARENA_NEW(arena, int64_t, 1), count = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        sizes[d] = d == dim ? 1 : shape->dims[d];
        if (d != dim) others[count++] = d;
    }
    one[0] = dim;
    const HloGatherAttributes gather = {.offset_dims = {others, count},
                                        .collapsed_slice_dims = {one, 1},
                                        .start_index_map = {one, 1},
                                        .index_vector_dim = 1,
                                        .slice_sizes = {sizes, shape->rank}};
    HloInstruction *operands[] = {array, indices};
    return spmd_emit(partitioner, HLO_OP_GATHER, spmd_resized(partitioner, shape, dim, indices->shape->dims[0]),
                     operands, 2, &gather);
}

// The entries of this device's position in a table of `count` for each.
static HloInstruction *emit_row(SpmdPartitioner *partitioner, const SpmdAxes *axes, const int64_t *table,
                                int64_t positions, int64_t count) {
    const HloType type = HLO_S32;
    HloInstruction *whole = spmd_emit_integers(partitioner, type, table, (int64_t[]){positions, count}, 2);
    HloInstruction *row = spmd_emit_dynamic_slice(partitioner, whole, 0, spmd_emit_index(partitioner, axes), 1);
    return spmd_emit_reshape(partitioner, row, &count, 1);
}

// An all-to-all of the blocks of dimension `dim`, one for each position.
static HloInstruction *emit_exchange(SpmdPartitioner *partitioner, HloInstruction *blocks, int64_t dim,
                                     const SpmdAxes *axes, int64_t positions, const SpmdReason *reason) {
    const HloShape *shape = blocks->shape;
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, shape->rank + 1);
    for (int32_t d = 0; d < shape->rank; d++) dims[d < dim ? d : d + 1] = shape->dims[d];
    dims[dim] = positions;
    dims[dim + 1] = shape->dims[dim] / positions;
    HloInstruction *made = spmd_emit_reshape(partitioner, blocks, dims, shape->rank + 1);
    made = spmd_emit_all_to_all(partitioner, made, dim, axes, reason);
    return spmd_emit_reshape(partitioner, made, shape->dims, shape->rank);
}

HloInstruction *spmd_emit_picks(SpmdPartitioner *partitioner, HloInstruction *shard, int64_t dim, const SpmdAxes *axes,
                                const SpmdPicks *picks, const SpmdReason *reason) {
    assert(shard->shape->dims[dim] == picks->shard);
    HloInstruction *indices = emit_row(partitioner, axes, picks->picked, picks->positions, picks->count);
    HloInstruction *picked = emit_take(partitioner, shard, dim, indices);
    HloInstruction *received =
        picks->moves ? spmd_emit_moves(partitioner, picked, dim, axes, picks->moves, picks->received, reason)
                     : emit_exchange(partitioner, picked, dim, axes, picks->positions, reason);
    return spmd_emit_concatenate(partitioner, (HloInstruction *[]){shard, received}, 2, dim);
}
