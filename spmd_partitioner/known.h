// SPDX-License-Identifier: Apache-2.0
// Arrays whose values are known while a program is partitioned, because it computes them from constants and iotas
// alone: indices of a gather, weights of an interpolation. What each device needs of the arrays that they select from
// is then known too, and only that is sent.
#ifndef MESHLO_SPMD_PARTITIONER_KNOWN_H_
#define MESHLO_SPMD_PARTITIONER_KNOWN_H_

#include "spmd_partitioner/moves.h"

// Consecutive elements of a dimension that a device needs, and where they are in its own array.
typedef struct SpmdRun {
    int64_t first, size, target;
} SpmdRun;

// What each position along a dimension's axes needs of that dimension, and the planned moves that bring it there.
typedef struct SpmdNeed {
    int64_t positions, run_count;
    SpmdRun
        *runs;     // run_count for each position, ascending; a missing run begins after the dimension, with no elements
    int64_t size;  // elements of the array that a device receives: the most that any position needs, at least 1
    SpmdMoves *moves;
} SpmdNeed;

// A table of zeros for what positions need of a dimension of `global` elements; NULL if it would be too large.
uint8_t *spmd_need_table(HloArena *arena, int64_t positions, int64_t global);
// Plans what positions need of a dimension of `global` elements that is sharded over them: needed[position * global +
// i] is nonzero if position needs element i. At most `most_runs` runs each; small gaps are sent too where there are
// more. NULL if that cannot be planned.
SpmdNeed *spmd_need_new(HloArena *arena, int64_t positions, int64_t global, const uint8_t *needed, int64_t most_runs);
// What it costs to move that along dimension `dim` of an array in sharding `sharding`, whose axes there are the
// positions.
int64_t spmd_need_cost(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *sharding, int64_t dim,
                       const SpmdNeed *need);

#endif
