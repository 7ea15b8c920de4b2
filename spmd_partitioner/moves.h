// SPDX-License-Identifier: Apache-2.0
// Ranges of one dimension that go from device to device, in rounds of a collective-permute each: a window, a rotation
// or a concatenation along a sharded dimension whose shards do not simply follow each other.
#ifndef MESHLO_SPMD_PARTITIONER_MOVES_H_
#define MESHLO_SPMD_PARTITIONER_MOVES_H_

#include "spmd_partitioner/partitioner.h"

// Elements that one position along a dimension's axes needs from another one, or has itself (`from` == `to`).
typedef struct SpmdMove {
    int64_t from, to;        // positions along the axes
    int64_t source, target;  // first element in the sender's array, and in the receiver's
    int64_t size;            // elements, at least 1
    int64_t round;  // set by spmd_moves_plan(): below `own_rounds` for moves that stay, above for those that are sent
} SpmdMove;

typedef struct SpmdMoves {
    int64_t positions;  // along the axes
    HLO_VECTOR(SpmdMove) items;
    int64_t own_rounds, rounds;  // those in which nothing is sent come first; all of them
    int64_t *sizes;              // by round: elements of its longest move, which every device sends
    int64_t sent;                // elements that one device sends in all rounds together
} SpmdMoves;

// One sharded dimension of an array, as part of the array that devices send from: after `base` other elements.
typedef struct SpmdShardedDim {
    int64_t global, shard;  // elements of the dimension, and of one shard (the last may hold fewer)
    int64_t base;
} SpmdShardedDim;

// No moves yet; lives in `arena`.
SpmdMoves *spmd_moves_new(HloArena *arena, int64_t positions);
// Position `to` needs elements [first, first + size) of a sharded dimension at `target` of its array. Elements outside
// of the dimension are left out.
void spmd_moves_add(HloArena *arena, SpmdMoves *moves, const SpmdShardedDim *sharded, int64_t to, int64_t first,
                    int64_t size, int64_t target);
// Gives each move a round so that no position sends twice or receives twice in one, in the fewest rounds possible, with
// long moves together. False if there are too many moves to plan: nothing is set then.
bool spmd_moves_plan(HloArena *arena, SpmdMoves *moves);
// The moves of an uneven slice or gather of dimension `dim`, whose axes are the first `wide` of `narrow` on its wider
// side and all of `narrow` on its other one: positions are those along `narrow`. A slice gives each position its shard
// of the other side; a gather gives it its part of the wider shard, so that an all-gather over the rest of the axes
// joins them. Planned; NULL if there are too many. `size` is that of the dimension.
SpmdMoves *spmd_uneven_moves(HloArena *arena, const SpmdMesh *mesh, int64_t size, const SpmdAxes *narrow, int32_t wide,
                             SpmdStepKind kind);
// Carries planned moves out on dimension `dim` of `local`: the receiver's array has `size` elements there. Elements
// that no move gives are undefined. `axes` are those of the positions.
HloInstruction *spmd_emit_moves(SpmdPartitioner *partitioner, HloInstruction *local, int64_t dim, const SpmdAxes *axes,
                                const SpmdMoves *moves, int64_t size, const SpmdReason *reason);

// The pairs of a collective-permute in which position i along `axes` receives from position sources[i] (-1: from none),
// on all devices; allocated in the module's arena.
HloPairs spmd_pairs_of_positions(SpmdPartitioner *partitioner, const SpmdAxes *axes, const int64_t *sources);

#endif
