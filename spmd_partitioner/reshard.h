// SPDX-License-Identifier: Apache-2.0
// The reshard planner: the cheapest sequence of collectives from one sharding to another, by exact search.
#ifndef MESHLO_SPMD_PARTITIONER_RESHARD_H_
#define MESHLO_SPMD_PARTITIONER_RESHARD_H_

#include "spmd_partitioner/costs.h"

typedef enum SpmdStepKind {
    SPMD_STEP_SLICE,           // keep a part of a dimension: no communication
    SPMD_STEP_ALL_GATHER,      // remove the last axes of a dimension
    SPMD_STEP_ALL_TO_ALL,      // move the last axes of one dimension to the end of another one
    SPMD_STEP_PERMUTE,         // other axes, same tiles
    SPMD_STEP_PERMUTE_PARTS,   // a permute and then an all-to-all, as one permute for each part of a tile
    SPMD_STEP_REDUCE_SCATTER,  // finish partial results, each device a part of a dimension
    SPMD_STEP_ALL_REDUCE,      // finish partial results
    SPMD_STEP_UNEVEN_SLICE,    // keep a part of a dimension; elements of it that other shards hold come by permutes
    SPMD_STEP_UNEVEN_GATHER,   // permutes to where the parts of the wider shards begin, then an all-gather
} SpmdStepKind;

typedef struct SpmdStep {
    SpmdStepKind kind;
    int32_t dim;                // the dimension it works on; the source dimension of an all-to-all
    int32_t target;             // the target dimension of an all-to-all
    SpmdAxes axes;              // the axes that it communicates over, major to minor; of parts: those of the all-to-all
    const SpmdSharding *after;  // sharding when it is done
    SpmdAtomSet partial;        // partial axes when it is done
    int64_t messages;           // collectives that it takes
} SpmdStep;

typedef struct SpmdPath {
    const SpmdStep *steps;
    int32_t count;
    int64_t bytes;     // that one device sends in all
    int64_t cost;      // the same with a machine's prices; without a machine the bytes
    int64_t messages;  // collectives that it takes
    bool fell_back;    // the search gave up: everything is gathered first
} SpmdPath;

// The cheapest path for an array of `global` shape that is sharded `from` with partial results over `partial`, to `to`
// without partial results (atoms in `keep_partial` and those over which `to` is unreduced excepted). Bytes are weighed
// as spmd_collective_bytes() counts them, by the prices of `costs` (NULL: all alike). Never fails: gathering everything
// is always a path.
SpmdPath spmd_reshard_plan(HloArena *arena, SpmdCosts *costs, const SpmdMesh *mesh, const HloShape *global,
                           const SpmdSharding *from, SpmdAtomSet partial, const SpmdSharding *to,
                           SpmdAtomSet keep_partial);
// The paths on one mesh that were asked for before: programs repeat their layers, and with them their reshards.
typedef struct SpmdPaths {
    HloArena *arena;     // keeps the paths
    SpmdCosts *costs;    // that they are compared by
    HloStringMap paths;  // what was asked -> SpmdPath
} SpmdPaths;
// The same path, searched once; it lives as long as `paths`. The search works in `scratch`.
const SpmdPath *spmd_reshard_path(SpmdPaths *paths, HloArena *scratch, const SpmdMesh *mesh, const HloShape *global,
                                  const SpmdSharding *from, SpmdAtomSet partial, const SpmdSharding *to,
                                  SpmdAtomSet keep_partial);
// How many steps, of the `count` >= 1 from `steps` on, are made as one: all-to-alls that move axes from some dimensions
// to others that divide evenly. One exchange among all of their devices sends less than one after the other. Axes of
// one dimension may come to another in another order. Gathers that deliver one element of each dimension are one
// broadcast. `from` is the sharding before the first. At least 1.
int32_t spmd_steps_together(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *from,
                            const SpmdStep *steps, int32_t count);
// True if gathering dimension `dim` over `axes`, to the sharding `after`, delivers one element, which its owner
// broadcasts: the other shards are padding. In a group of two an all-gather sends as much.
bool spmd_gather_has_owner(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *after, int32_t dim,
                           const SpmdAxes *axes);
// True if shards of a dimension of `size` split `few` ways are exactly `times` shards of it split few * times ways.
static inline bool spmd_split_is_even(int64_t size, int64_t few, int64_t times) {
    return few == 1 || spmd_shard_size(size, few) == times * spmd_shard_size(size, few * times);
}

#endif
