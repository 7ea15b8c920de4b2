// SPDX-License-Identifier: Apache-2.0
// The random numbers of `rng` and the states of `rng-get-and-update-state`: what a device draws while a program runs,
// the same in every engine.
#ifndef MESHLO_HLO_EVAL_DRAW_H_
#define MESHLO_HLO_EVAL_DRAW_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

// What one device remembers of its draws during one run.
typedef struct HloDraws {
    uint64_t count;     // of `rng` so far
    uint64_t state[2];  // of `rng-get-and-update-state`: low, high
} HloDraws;

// A device that has drawn nothing yet. The state is the one that XLA's CPU target starts from.
static inline HloDraws hlo_draws_start(void) {
    return (HloDraws){.state = {0x7012395, 0}};
}

// Fills a row-major array of `shape` (no complex type) by philox keyed with `seed`, the device's number and the number
// of the draw: uniform in [a, b), or normal with mean a and deviation b. `a` and `b` point to one element of the type.
void hlo_draw_numbers(HloDraws *draws, uint64_t seed, int64_t device, const HloShape *shape, bool normal, const void *a,
                      const void *b, void *out);
// Gives the state, its low half first (`bytes`, at most 16, of it), and adds `delta` to it.
void hlo_draw_state(HloDraws *draws, uint64_t delta, void *out, int64_t bytes);

HLO_END_C

#endif
