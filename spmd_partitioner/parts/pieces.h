// SPDX-License-Identifier: Apache-2.0
// Arrays that slices, concatenations, short reversals and short repetitions put together from parts of one other array,
// as ranges of it.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_PIECES_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_PIECES_H_

#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"

// Elements [target, target + size) of a dimension are those of the base from `source` on.
typedef struct SpmdPiece {
    int64_t target, size, source;
} SpmdPiece;

// The pieces of one dimension, ascending by target, as few as possible.
typedef struct SpmdPieces {
    HLO_VECTOR(SpmdPiece) list;
} SpmdPieces;

// An array as parts of another: element (i, j …) is that of the base to which `dims` map i, j …
typedef struct SpmdPiecewise {
    const HloInstruction *base;
    SpmdPieces *dims;  // one for each dimension
} SpmdPiecewise;

// True if an op may be computed from the operands of `at` instead of from its result, where that sends less.
// Annotations do not matter: they say where the result is to be, if it is made.
static inline bool spmd_may_follow(const HloInstruction *at) {
    return at->operand_count && hlo_shape_is_array(at->shape) && spmd_is_free_to_move(at);
}
// Appends a piece, joined with the last one if it continues that.
void spmd_pieces_add(HloArena *arena, SpmdPieces *pieces, SpmdPiece piece);
// Appends the part [start, start + size) of `from`, so that it begins at `target`.
void spmd_pieces_add_part(HloArena *arena, SpmdPieces *pieces, const SpmdPieces *from, int64_t start, int64_t size,
                          int64_t target);
// True if both list the same pieces.
bool spmd_pieces_equal(const SpmdPieces *a, const SpmdPieces *b);
// True if the pieces are all of a dimension of `size` elements, as it is.
bool spmd_pieces_are_whole(const SpmdPieces *pieces, int64_t size);
// Follows slices, concatenations, reversals and repetitions to the array that they take parts of: the array itself
// where it is no such part. The op that is being partitioned and what spmd_may_follow() are looked through, but
// nothing that cuts a dimension of `keep` (one entry for each). The array has elements.
SpmdPiecewise spmd_piecewise(SpmdPartitioner *partitioner, const HloInstruction *at, const bool *keep);
// The moves of a dimension of `base` elements that give each position its interval of the array that is these pieces;
// NULL if they cannot be planned.
SpmdMoves *spmd_pieces_moves(SpmdPartitioner *partitioner, const SpmdPieces *pieces, int64_t base,
                             const SpmdInterval *interval, int64_t positions);
// The pieces of dimension `dim` of a whole array, in `extent` elements. What no piece covers is zero.
HloInstruction *spmd_emit_pieces(SpmdPartitioner *partitioner, HloInstruction *array, int64_t dim,
                                 const SpmdPieces *pieces, int64_t extent);

#endif
