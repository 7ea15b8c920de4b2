// SPDX-License-Identifier: Apache-2.0
// Known answers of the generators. Sources: Random123's kat_vectors (zero key), the StableHLO specification's
// rng_bit_generator example, JAX's tests/random_test.py (key 1701).
#include <criterion/criterion.h>
#include <string.h>

#include "targets/cpu/kernels/random.h"
#include "tests/support/levels.h"

static CpuPool *pools[CPU_FEATURES_COUNT];
static int pool_count;

static void open_pools(void) {
    for (int set = levels_first(); set <= levels_last(); set++)
        cr_assert_null(cpu_pool_new_with(1 + set % 2 * 2, (CpuFeatures)set, &pools[pool_count++]));
}

static void close_pools(void) {
    for (int i = 0; i < pool_count; i++) cpu_pool_free(pools[i]);
}

Test(cpu_random, threefry_known_answers, .init = open_pools, .fini = close_pools) {
    for (int p = 0; p < pool_count; p++) {
        const uint32_t zero[2] = {0, 0};
        uint32_t a = 0, b = 0;
        cpu_threefry_blocks(pools[p], zero, 1, &a, &b, &a, &b);
        cr_assert(a == 0x6b200159 && b == 0x99ba4efe);
        const uint64_t state[2] = {1, 2};
        uint64_t next[2], out[4];
        cpu_rng_threefry(pools[p], state, next, 2, (int64_t[]){2, 2}, 64, out);
        cr_assert(out[0] == UINT64_C(9236835810183407956) && out[1] == UINT64_C(16087790271692313299));
        cr_assert(out[2] == UINT64_C(18212823393184779219) && out[3] == UINT64_C(2658481902456610144));
        cr_assert(next[0] == 1 && next[1] == 6);
    }
}

Test(cpu_random, philox_known_answer, .init = open_pools, .fini = close_pools) {
    for (int p = 0; p < pool_count; p++) {
        const uint64_t state[3] = {0, 0, 0};
        uint64_t next[3];
        uint32_t out[4];
        cpu_rng_philox(pools[p], 3, state, next, 1, (int64_t[]){4}, 32, out);
        cr_assert(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
        cr_assert(next[1] == 1 && next[2] == 0);
    }
}

// The definition, one element at a time.
static uint32_t threefry_element(uint64_t key, uint64_t counter, int word) {
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t w[2] = {(uint32_t)counter, (uint32_t)(counter >> 32)};
    cpu_threefry_blocks(NULL, k, 1, &w[0], &w[1], &w[0], &w[1]);
    return w[word];
}

Test(cpu_random, threefry_halves_a_dimension, .init = open_pools, .fini = close_pools) {
    static const int64_t shapes[][3] = {{4, 6, 5}, {3, 6, 5}, {3, 5, 7}, {1, 1, 1}, {3, 5, 40000}};
    static uint16_t out16[600000];
    static uint32_t out32[600000];
    for (int s = 0; s < 5; s++) {
        const int64_t *d = shapes[s], total = d[0] * d[1] * d[2];
        const int dim = d[0] % 2 == 0                 ? 0
                        : d[1] % 2 == 0               ? 1
                        : d[2] % 2 == 0               ? 2
                        : d[2] >= d[1] && d[2] > d[0] ? 2
                        : d[1] > d[0]                 ? 1
                                                      : 0;
        int64_t half[3] = {d[0], d[1], d[2]};
        half[dim] = (half[dim] + 1) / 2;
        const uint64_t state[2] = {0x123456789abcdef0, 0xfffffff0};
        uint64_t next[2];
        cpu_rng_threefry(pools[pool_count - 1], state, next, 3, d, 32, out32);
        cpu_rng_threefry(pools[0], state, next, 3, d, 16, out16);
        cr_assert_eq(next[1], state[1] + (uint64_t)(half[0] * half[1] * half[2]));
        for (int64_t i = 0; i<total; i += total> 10000 ? 97 : 1) {
            int64_t index[3] = {i / (d[1] * d[2]), i / d[2] % d[1], i % d[2]};
            const int word = (int)(index[dim] % 2);
            index[dim] /= 2;
            const uint64_t counter = state[1] + (uint64_t)((index[0] * half[1] + index[1]) * half[2] + index[2]);
            cr_assert_eq(out32[i], threefry_element(state[0], counter, word), "shape %d element %lld", s, (long long)i);
            cr_assert_eq(out16[i], (uint16_t)out32[i]);
        }
    }
}

// jax.random.bits of key 1701, the partitionable form, computed with JAX 0.10.2.
Test(cpu_random, jax_partitionable_bits, .init = open_pools, .fini = close_pools) {
    const uint32_t key[2] = {0, 1701};
    for (int p = 0; p < pool_count; p++) {
        uint32_t out32[3];
        uint64_t out64[3];
        uint8_t out8[3];
        cpu_threefry_counter_bits(pools[p], key, 0, 3, 32, out32);
        cpu_threefry_counter_bits(pools[p], key, 0, 3, 64, out64);
        cpu_threefry_counter_bits(pools[p], key, 0, 3, 8, out8);
        static const uint32_t want32[3] = {1111271205u, 2679469115u, 974515252u};
        static const uint64_t want64[3] = {UINT64_C(3182764935064573181), UINT64_C(366096495144982249),
                                           UINT64_C(241365115613244543)};
        static const uint8_t want8[3] = {37, 59, 52};
        cr_assert_eq(memcmp(out32, want32, sizeof out32), 0);
        cr_assert_eq(memcmp(out64, want64, sizeof out64), 0);
        cr_assert_eq(memcmp(out8, want8, sizeof out8), 0);
    }
}

Test(cpu_random, counters_carry_into_the_high_word, .init = open_pools, .fini = close_pools) {
    const uint32_t key[2] = {7, 8};
    uint32_t whole[100], high[50];
    cpu_threefry_counter_bits(NULL, key, UINT64_C(0x2ffffffce), 100, 32, whole);
    cpu_threefry_counter_bits(NULL, key, UINT64_C(0x300000000), 50, 32, high);
    cr_assert_eq(memcmp(whole + 50, high, sizeof high), 0);
}
