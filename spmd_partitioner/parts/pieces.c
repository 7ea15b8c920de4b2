// SPDX-License-Identifier: Apache-2.0
// Slices and concatenations of one array as ranges of it, dimension by dimension:
//
//     %h = f32[1,8] slice(f32[64,8] %x), slice={[63:64],[0:8]}     %p = f32[65,8] concatenate(%h, %x), dimensions={0}
//     %p     dimension 0: [0,1) from 63, [1,65) from 0; dimension 1: as it is
//     slice(%p), slice={[0:64],[0:8]}     dimension 0: [0,1) from 63, [1,64) from 0, a rotation
//
// A concatenation has such a form where its operands are parts of one array that differ in its dimension alone.
// Mirrored and repeated elements are pieces of one element each: they are followed where they are few, as those beside
// an array for a stencil are.
//
//     %e = f32[2,8] reshape(broadcast(slice(%x), [0:1])), the first row twice     dimension 0: [0,1) from 0, [1,2) from
//     0
#include "spmd_partitioner/parts/pieces.h"

#include <assert.h>

#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"

enum {
    MOST_DEPTH = 16,
    MOST_PIECES = 64,
    MOST_JOINED = 64,
    MOST_SINGLE = 8,  // elements of a reversed or repeated part
};

void spmd_pieces_add(HloArena *arena, SpmdPieces *pieces, SpmdPiece piece) {
    assert(piece.size > 0);
    SpmdPiece *last = pieces->list.count ? &pieces->list.items[pieces->list.count - 1] : NULL;
    if (last && last->target + last->size == piece.target && last->source + last->size == piece.source) {
        last->size += piece.size;
        return;
    }
    hlo_vector_push(arena, &pieces->list, piece);
}

void spmd_pieces_add_part(HloArena *arena, SpmdPieces *pieces, const SpmdPieces *from, int64_t start, int64_t size,
                          int64_t target) {
    for (int64_t i = 0; i < from->list.count; i++) {
        const SpmdPiece *piece = &from->list.items[i];
        const int64_t first = piece->target > start ? piece->target : start;
        const int64_t end = piece->target + piece->size < start + size ? piece->target + piece->size : start + size;
        if (first >= end) continue;
        const SpmdPiece part = {target + first - start, end - first, piece->source + first - piece->target};
        spmd_pieces_add(arena, pieces, part);
    }
}

bool spmd_pieces_equal(const SpmdPieces *a, const SpmdPieces *b) {
    if (a->list.count != b->list.count) return false;
    for (int64_t i = 0; i < a->list.count; i++) {
        const SpmdPiece *x = &a->list.items[i], *y = &b->list.items[i];
        if (x->target != y->target || x->size != y->size || x->source != y->source) return false;
    }
    return true;
}

bool spmd_pieces_are_whole(const SpmdPieces *pieces, int64_t size) {
    const SpmdPiece *first = pieces->list.items;
    return pieces->list.count == 1 && !first->target && !first->source && first->size == size;
}

// The array as all of itself.
static SpmdPiecewise itself(HloArena *arena, const HloInstruction *at) {
    const SpmdPiecewise whole = {at, HLO_ARENA_NEW(arena, SpmdPieces, at->shape->rank)};
    for (int32_t d = 0; d < at->shape->rank; d++)
        spmd_pieces_add(arena, &whole.dims[d], (SpmdPiece){0, at->shape->dims[d], 0});
    return whole;
}

// What is followed, and how far. Each concatenation is followed once: in a chain of them every slice of one leads to
// the one before.
typedef struct Following {
    HloArena *arena;
    const bool *keep;  // by dimension: its pieces must be the whole
    int32_t joined_count;
    struct {
        const HloInstruction *at;
        SpmdPiecewise pieces;
    } joined[MOST_JOINED];
} Following;

static SpmdPiecewise follow(Following *following, const HloInstruction *at, int32_t depth);

static SpmdPiecewise follow_slice(Following *following, const HloInstruction *at, int32_t depth) {
    HloArena *arena = following->arena;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(at, Slice);
    for (int32_t d = 0; d < at->shape->rank; d++) {
        const bool strided = slice->strides.count && slice->strides.items[d] != 1 && at->shape->dims[d] > 1;
        const bool cuts = at->shape->dims[d] != at->operands[0]->shape->dims[d];
        if (strided || (cuts && following->keep[d])) return itself(arena, at);
    }
    const SpmdPiecewise inner = follow(following, at->operands[0], depth + 1);
    const SpmdPiecewise part = {inner.base, HLO_ARENA_NEW(arena, SpmdPieces, at->shape->rank)};
    for (int32_t d = 0; d < at->shape->rank; d++)
        spmd_pieces_add_part(arena, &part.dims[d], &inner.dims[d], slice->starts.items[d], at->shape->dims[d], 0);
    return part;
}

// The pieces of a concatenation whose operands' pieces continue each other.
static SpmdPiecewise join(Following *following, const HloInstruction *at, int32_t depth) {
    HloArena *arena = following->arena;
    const int64_t along = HLO_ATTRIBUTES(at, Dimensions)->dimensions.items[0];
    if (following->keep[along]) return itself(arena, at);
    SpmdPiecewise joined = {0};
    int64_t target = 0;
    for (int32_t i = 0; i < at->operand_count; i++) {
        const int64_t size = at->operands[i]->shape->dims[along];
        if (size == 0) continue;
        const SpmdPiecewise part = follow(following, at->operands[i], depth + 1);
        if (!joined.base) {
            joined = (SpmdPiecewise){part.base, HLO_ARENA_NEW(arena, SpmdPieces, at->shape->rank)};
            for (int32_t d = 0; d < at->shape->rank; d++)
                if (d != along) joined.dims[d] = part.dims[d];
        }
        if (part.base != joined.base) return itself(arena, at);
        for (int32_t d = 0; d < at->shape->rank; d++)
            if (d != along && !spmd_pieces_equal(&part.dims[d], &joined.dims[d])) return itself(arena, at);
        spmd_pieces_add_part(arena, &joined.dims[along], &part.dims[along], 0, size, target);
        if (joined.dims[along].list.count > MOST_PIECES) return itself(arena, at);
        target += size;
    }
    return joined;
}

static SpmdPiecewise follow_concatenate(Following *following, const HloInstruction *at, int32_t depth) {
    for (int32_t i = 0; i < following->joined_count; i++)
        if (following->joined[i].at == at) return following->joined[i].pieces;
    if (following->joined_count == MOST_JOINED) return itself(following->arena, at);
    const SpmdPiecewise joined = join(following, at, depth);
    if (following->joined_count == MOST_JOINED) return joined;
    following->joined[following->joined_count].at = at;
    following->joined[following->joined_count++].pieces = joined;
    return joined;
}

// The pieces of a reversed array, element by element.
static SpmdPiecewise follow_reverse(Following *following, const HloInstruction *at, int32_t depth) {
    HloArena *arena = following->arena;
    const HloInts reversed = HLO_ATTRIBUTES(at, Dimensions)->dimensions;
    for (int64_t i = 0; i < reversed.count; i++) {
        const int64_t d = reversed.items[i], size = at->shape->dims[d];
        if (size > 1 && (size > MOST_SINGLE || following->keep[d])) return itself(arena, at);
    }
    const SpmdPiecewise inner = follow(following, at->operands[0], depth + 1);
    const SpmdPiecewise part = {inner.base, HLO_ARENA_NEW(arena, SpmdPieces, at->shape->rank)};
    for (int32_t d = 0; d < at->shape->rank; d++) {
        const int64_t size = at->shape->dims[d];
        if (!hlo_ints_contain(reversed, d)) part.dims[d] = inner.dims[d];
        for (int64_t i = 0; hlo_ints_contain(reversed, d) && i < size; i++)
            spmd_pieces_add_part(arena, &part.dims[d], &inner.dims[d], size - 1 - i, 1, i);
    }
    return part;
}

static bool is_ascending(HloInts ints) {
    for (int64_t i = 1; i < ints.count; i++)
        if (ints.items[i] <= ints.items[i - 1]) return false;
    return true;
}

// The array of which `at` repeats the only element along *dim, and keeps all else as it is; NULL if there is none. A
// repetition is a broadcast along a new dimension beside that one, and a reshape that joins the two. *dim is -1 where
// each element is there once.
static const HloInstruction *repeated_array(const HloInstruction *at, int64_t *dim) {
    const HloInstruction *broadcast = at->operands[0];
    if (!hlo_is(at, HLO_OP_RESHAPE) || !hlo_is(broadcast, HLO_OP_BROADCAST) || !spmd_is_free_to_move(broadcast))
        return NULL;
    const HloInstruction *array = broadcast->operands[0];
    const HloInts dims = HLO_ATTRIBUTES(broadcast, Dimensions)->dimensions;
    const int32_t rank = array->shape->rank;
    if (rank != at->shape->rank || broadcast->shape->rank != rank + 1) return NULL;
    *dim = -1;
    if (hlo_shape_equal(array->shape, at->shape, HLO_COMPARE_DIMS_ONLY) && is_ascending(dims)) return array;
    *dim = spmd_sliced_dim(array->shape, at->shape);
    if (*dim < 0 || array->shape->dims[*dim] != 1) return NULL;
    int64_t added = -1;
    for (int32_t b = 0, next = 0; b <= rank; b++) {
        if (next < rank && dims.items[next] == b)
            next++;
        else if (added < 0)
            added = b;
        else
            return NULL;
    }
    return added == *dim || added == *dim + 1 ? array : NULL;
}

static SpmdPiecewise follow_repetition(Following *following, const HloInstruction *at, int32_t depth) {
    HloArena *arena = following->arena;
    int64_t repeated;
    const HloInstruction *array = repeated_array(at, &repeated);
    if (!array || (repeated >= 0 && (at->shape->dims[repeated] > MOST_SINGLE || following->keep[repeated])))
        return itself(arena, at);
    const SpmdPiecewise inner = follow(following, array, depth + 1);
    if (repeated < 0) return inner;
    const SpmdPiecewise part = {inner.base, HLO_ARENA_NEW(arena, SpmdPieces, at->shape->rank)};
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (d != repeated) part.dims[d] = inner.dims[d];
        for (int64_t i = 0; d == repeated && i < at->shape->dims[d]; i++)
            spmd_pieces_add_part(arena, &part.dims[d], &inner.dims[d], 0, 1, i);
    }
    return part;
}

static SpmdPiecewise follow(Following *following, const HloInstruction *at, int32_t depth) {
    if (depth < MOST_DEPTH && at->operand_count && (depth == 0 || spmd_may_follow(at))) {
        if (hlo_is(at, HLO_OP_SLICE)) return follow_slice(following, at, depth);
        if (hlo_is(at, HLO_OP_CONCATENATE)) return follow_concatenate(following, at, depth);
        if (hlo_is(at, HLO_OP_REVERSE)) return follow_reverse(following, at, depth);
        if (hlo_is(at, HLO_OP_RESHAPE)) return follow_repetition(following, at, depth);
    }
    return itself(following->arena, at);
}

SpmdPiecewise spmd_piecewise(SpmdPartitioner *partitioner, const HloInstruction *at, const bool *keep) {
    assert(hlo_shape_is_array(at->shape) && hlo_shape_elements(at->shape) > 0);
    Following following = {.arena = partitioner->arena, .keep = keep};
    return follow(&following, at, at == partitioner->op ? 0 : 1);
}

SpmdMoves *spmd_pieces_moves(SpmdPartitioner *partitioner, const SpmdPieces *pieces, int64_t base,
                             const SpmdInterval *interval, int64_t positions) {
    HloArena *arena = partitioner->arena;
    SpmdMoves *moves = spmd_moves_new(arena, positions);
    const SpmdShardedDim sharded = {.global = base, .shard = spmd_shard_size(base, positions)};
    for (int64_t to = 0; to < positions; to++) {
        SpmdPieces own = {0};
        spmd_pieces_add_part(arena, &own, pieces, spmd_interval_first(interval, to), interval->size, 0);
        for (int64_t i = 0; i < own.list.count; i++) {
            const SpmdPiece *piece = &own.list.items[i];
            spmd_moves_add(arena, moves, &sharded, to, piece->source, piece->size, piece->target);
        }
    }
    return spmd_moves_plan(arena, moves) ? moves : NULL;
}

HloInstruction *spmd_emit_pieces(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim,
                                 const SpmdPieces *pieces, int64_t extent) {
    const int64_t count = pieces->list.count;
    HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    for (int64_t i = 0, end = 0; i < count; i++) {
        const SpmdPiece *piece = &pieces->list.items[i];
        const int64_t after = i + 1 == count ? extent - piece->target - piece->size : 0;
        parts[i] = spmd_emit_slice(partitioner, array, dim, piece->source, piece->source + piece->size, 1);
        parts[i] = spmd_emit_pad(partitioner, parts[i], dim, piece->target - end, after, NULL);
        end = piece->target + piece->size;
    }
    return spmd_emit_concatenate(partitioner, parts, count, dim);
}
