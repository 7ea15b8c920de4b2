// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random.h"

uint64_t random_next(Random *random) {
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = random->state;
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t random_under(Random *random, uint64_t limit) {
    return random_next(random) % limit;
}
