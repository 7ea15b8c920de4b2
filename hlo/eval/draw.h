// SPDX-License-Identifier: Apache-2.0
// The random numbers of `rng` and the states of `rng-get-and-update-state`: the values that a device draws while a
// program runs, the same in every engine.
#ifndef MESHLO_HLO_EVAL_DRAW_H_
#define MESHLO_HLO_EVAL_DRAW_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

// The draws of one device during one run: a counter of 128 bits, low half first. `rng` draws from it in the same way as
// the ops that the partitioner writes for it (spmd_partitioner/rules/random.c): element i of an array is word i of
// philox with the key HLO_DRAW_KEY from the counter on, two words of 64 bits per block.
typedef struct HloDraws {
    uint64_t state[2];
} HloDraws;

// The philox key of every `rng`: the counter distinguishes draws.
#define HLO_DRAW_KEY UINT64_C(0x9E3779B97F4A7C15)

// The distance by which an `rng` of this many elements advances the counter.
static inline int64_t hlo_draw_delta(int64_t elements) {
    return elements / 2 + 1;
}

// The state of a device of replica `replica` before its first draw. Without a seed, replica 0 starts where XLA's CPU
// target does. All partitions of a replica start alike, since together they compute one program.
static inline HloDraws hlo_draws_start(uint64_t seed, int64_t replica) {
    return (HloDraws){.state = {0x7012395, seed + ((uint64_t)replica << 32)}};
}

// Fills a row-major array of `shape` (no complex type): uniform in [a, b), or normal with mean a and deviation b. `a`
// and `b` point to one element of the type.
void hlo_draw_numbers(HloDraws *draws, const HloShape *shape, bool normal, const void *a, const void *b, void *out);
// Writes the state, its low half first (`bytes` of it, at most 16), and adds `delta` to it.
void hlo_draw_state(HloDraws *draws, uint64_t delta, void *out, int64_t bytes);

HLO_END_C

#endif
