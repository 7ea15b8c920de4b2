// SPDX-License-Identifier: Apache-2.0
// Values that are known, and what devices need because of them.
//
// JAX writes x[::-1] by indices, an upscaled image and a shifted sequence as functions of iotas, which a partitioner
// that looks at ops one by one takes for data. Here the ops that an array is computed from are evaluated, whole, on the
// host:
//
//     %i = s32[8] iota();  %r = 7 - %i;  gather(f32[8,32] %x, %r)    %x and the result are split in 4
//     position 0 needs rows 6 and 7, position 1 rows 4 and 5 ...: one permute of two rows instead of a gather of all
#include "spmd_partitioner/known.h"

#include <assert.h>

#include "spmd_partitioner/emit.h"

enum {
    MOST_NEEDED = 1 << 22,  // positions times elements of a table of needed elements
    MOST_MOVES = 64,        // to a position, in the mean: with more an all-gather is as good
};

// ---- what is needed

// The runs of one position, of which those at most `gap` elements apart are one; their number. Nothing is written where
// `runs` is NULL.
static int64_t find_runs(const uint8_t *needed, int64_t global, int64_t gap, SpmdRun *runs) {
    int64_t count = 0, end = -1;
    for (int64_t i = 0; i < global; i++) {
        if (!needed[i]) continue;
        const bool joins = end >= 0 && i - end <= gap;
        if (!joins) count++;
        if (runs && !joins) runs[count - 1] = (SpmdRun){.first = i};
        end = i + 1;
        if (runs) runs[count - 1].size = end - runs[count - 1].first;
    }
    return count;
}

// The smallest power of two, or zero, that leaves no position with more runs than allowed.
static int64_t find_gap(const uint8_t *needed, int64_t positions, int64_t global, int64_t most_runs) {
    int64_t gap = 0;
    for (int64_t p = 0; p < positions; p++)
        while (find_runs(needed + p * global, global, gap, NULL) > most_runs) gap = gap ? 2 * gap : 1;
    return gap;
}

uint8_t *spmd_need_table(HloArena *arena, int64_t positions, int64_t global) {
    return !global || global > MOST_NEEDED / positions ? NULL : HLO_ARENA_NEW(arena, uint8_t, positions * global);
}

SpmdNeed *spmd_need_new(HloArena *arena, int64_t positions, int64_t global, const uint8_t *needed, int64_t most_runs) {
    const int64_t shard = spmd_shard_size(global, positions);
    assert(positions > 0 && shard > 0 && most_runs > 0);
    SpmdNeed *need = HLO_ARENA_NEW(arena, SpmdNeed, 1);
    *need = (SpmdNeed){.positions = positions, .run_count = most_runs, .size = 1};
    need->runs = HLO_ARENA_NEW(arena, SpmdRun, positions * most_runs);
    need->moves = spmd_moves_new(arena, positions);
    const SpmdShardedDim sharded = {.global = global, .shard = shard};
    const int64_t gap = find_gap(needed, positions, global, most_runs);
    for (int64_t p = 0; p < positions; p++) {
        SpmdRun *runs = need->runs + p * most_runs;
        const int64_t count = find_runs(needed + p * global, global, gap, runs);
        int64_t target = 0;
        for (int64_t r = 0; r < most_runs; r++) {
            if (r >= count) runs[r] = (SpmdRun){.first = r ? global : 0};
            runs[r].target = target;
            spmd_moves_add(arena, need->moves, &sharded, p, runs[r].first, runs[r].size, target);
            target += runs[r].size;
        }
        if (target > need->size) need->size = target;
    }
    if (need->moves->items.count > MOST_MOVES * positions) return NULL;
    return spmd_moves_plan(arena, need->moves) ? need : NULL;
}

int64_t spmd_need_cost(SpmdPartitioner *partitioner, const HloShape *global, const SpmdSharding *sharding, int64_t dim,
                       const SpmdNeed *need) {
    const SpmdAxes *axes = &sharding->dims[dim];
    const int64_t shard = spmd_shard_size(global->dims[dim], need->positions);
    if (shard == 0) return 0;
    const int64_t row = spmd_local_bytes(partitioner->mesh, global, sharding) / shard;
    return spmd_permutes_cost(partitioner->plan->costs, axes, spmd_times_bytes(row, need->moves->sent),
                              need->moves->rounds - need->moves->own_rounds, false);
}
