// SPDX-License-Identifier: Apache-2.0
// Single elements of a sharded dimension that other devices need, known while the program is partitioned: each device
// puts those for the others side by side and sends nothing between them.
#ifndef MESHLO_SPMD_PARTITIONER_PARTS_PICKED_H_
#define MESHLO_SPMD_PARTITIONER_PARTS_PICKED_H_

#include "spmd_partitioner/moves.h"

// What positions along a dimension's axes get of each other. An array of a device is its shard, followed by what it
// receives.
typedef struct SpmdPicks {
    int64_t positions, shard;  // elements of a shard
    int64_t count;             // elements that a device picks, for all others together
    int64_t *picked;           // `count` elements of its shard for each position
    int64_t received;          // elements that a device receives
    SpmdMoves *moves;          // from what is picked to what is received; NULL: an all-to-all of equal blocks
    int64_t *places;           // by position and element of the dimension: its place in the device's array; -1: none
    int64_t cost;
} SpmdPicks;

// Plans what positions need of dimension `dim` of an array in `sharding`, whose axes there are the positions:
// needed[position * size + i] is nonzero if position needs element i. NULL if there is nothing to pick, or too much.
SpmdPicks *spmd_picks_new(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *sharding,
                          int64_t dim, const uint8_t *needed);
// Sends what is picked along dimension `dim` of a shard; the device's array.
HloInstruction *spmd_emit_picks(SpmdPartitioner *partitioner, HloInstruction *shard, int64_t dim, const SpmdAxes *axes,
                                const SpmdPicks *picks, const SpmdReason *reason);

#endif
