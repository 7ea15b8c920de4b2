// SPDX-License-Identifier: Apache-2.0
// Chance that is the same on every machine. Without Criterion: fuzzers use it too.
#ifndef MESHLO_TESTS_SUPPORT_RANDOM_H_
#define MESHLO_TESTS_SUPPORT_RANDOM_H_

#include <stdint.h>

// A generator of numbers: splitmix64.
typedef struct Random {
    uint64_t state;
} Random;

// 64 bits; a number under `limit`.
uint64_t random_next(Random *random);
uint64_t random_under(Random *random, uint64_t limit);

#endif
