// SPDX-License-Identifier: Apache-2.0
// Block functions of the counter-based generators, written so that loops over them become vectors. Rotation constants
// and key schedules: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), as XLA uses them.
#include <stdint.h>

#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/random.h"

static inline uint32_t rotate_left(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

#define MIX(by)               \
    x0 += x1;                 \
    x1 = rotate_left(x1, by); \
    x1 ^= x0;
#define FOUR_ROUNDS(a, b, c, d) MIX(a) MIX(b) MIX(c) MIX(d)

static inline void threefry(uint32_t k0, uint32_t k1, uint32_t in0, uint32_t in1, uint32_t *out0, uint32_t *out1) {
    const uint32_t k2 = k0 ^ k1 ^ 0x1BD11BDAu;
    uint32_t x0 = in0 + k0, x1 = in1 + k1;
    FOUR_ROUNDS(13, 15, 26, 6)
    x0 += k1, x1 += k2 + 1;
    FOUR_ROUNDS(17, 29, 16, 24)
    x0 += k2, x1 += k0 + 2;
    FOUR_ROUNDS(13, 15, 26, 6)
    x0 += k0, x1 += k1 + 3;
    FOUR_ROUNDS(17, 29, 16, 24)
    x0 += k1, x1 += k2 + 4;
    FOUR_ROUNDS(13, 15, 26, 6)
    *out0 = x0 + k2;
    *out1 = x1 + k0 + 5;
}

static void threefry_pairs(const uint32_t key[2], int64_t count, const uint32_t *x0, const uint32_t *x1, uint32_t *y0,
                           uint32_t *y1) {
    const uint32_t k0 = key[0], k1 = key[1];
    CPU_INDEPENDENT for (int64_t i = 0; i < count; i++) {
        uint32_t a, b;
        threefry(k0, k1, x0[i], x1[i], &a, &b);
        y0[i] = a;
        y1[i] = b;
    }
}

// Computes blocks of consecutive 64-bit counters with a common high word: [first, first + count) must not cross 2^32.
// `low_first`: the low word of the counter is the block's word 0.
static void threefry_counters(const uint32_t key[2], uint64_t first, int64_t count, int low_first, uint32_t *y0,
                              uint32_t *y1) {
    const uint32_t k0 = key[0], k1 = key[1], high = (uint32_t)(first >> 32), low = (uint32_t)first;
    if (low_first) {
        CPU_INDEPENDENT for (int64_t i = 0; i < count; i++) threefry(k0, k1, low + (uint32_t)i, high, &y0[i], &y1[i]);
        return;
    }
    CPU_INDEPENDENT for (int64_t i = 0; i < count; i++) threefry(k0, k1, high, low + (uint32_t)i, &y0[i], &y1[i]);
}

static void threefry_counters_xor(const uint32_t key[2], uint64_t first, int64_t count, uint32_t *out) {
    const uint32_t k0 = key[0], k1 = key[1], high = (uint32_t)(first >> 32), low = (uint32_t)first;
    CPU_INDEPENDENT for (int64_t i = 0; i < count; i++) {
        uint32_t a, b;
        threefry(k0, k1, high, low + (uint32_t)i, &a, &b);
        out[i] = a ^ b;
    }
}

// Computes Philox-4x32, 10 rounds, of the 128-bit counters (low + i, high) with carry; out[word][i].
static void philox_counters(const uint32_t key[2], uint64_t low, uint64_t high, int64_t count, uint32_t *const out[4]) {
    uint32_t *o0 = out[0], *o1 = out[1], *o2 = out[2], *o3 = out[3];
    CPU_INDEPENDENT for (int64_t i = 0; i < count; i++) {
        const uint64_t counter = low + (uint64_t)i, upper = high + (counter < low);
        uint32_t k0 = key[0], k1 = key[1];
        uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = (uint32_t)upper,
                 c3 = (uint32_t)(upper >> 32);
        for (int round = 0; round < 10; round++) {
            const uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
            const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        o0[i] = c0, o1[i] = c1, o2[i] = c2, o3[i] = c3;
    }
}

const CpuRandomKernels CPU_ISA_NAME(cpu_random_kernels) = {
    .threefry_pairs = threefry_pairs,
    .threefry_counters = threefry_counters,
    .threefry_counters_xor = threefry_counters_xor,
    .philox_counters = philox_counters,
};
