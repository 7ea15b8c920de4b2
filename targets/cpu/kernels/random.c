// SPDX-License-Identifier: Apache-2.0
// Random numbers that depend only on key and counter, so that threads can begin anywhere and every division of the work
// yields the same bits: those of XLA and JAX.
#include "targets/cpu/kernels/random.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/isa/random.h"

enum { kBlock = 512, kParallelElements = 16384 };

// ---- Threefry on given pairs

typedef struct PairJob {
    const CpuRandomKernels *kernels;
    const uint32_t *key, *x0, *x1;
    uint32_t *y0, *y1;
} PairJob;

static void pair_task(void *argument, int64_t begin, int64_t end, int worker) {
    const PairJob *job = argument;
    (void)worker;
    job->kernels->threefry_pairs(job->key, end - begin, job->x0 + begin, job->x1 + begin, job->y0 + begin,
                                 job->y1 + begin);
}

void cpu_threefry_blocks(CpuPool *pool, const uint32_t key[2], int64_t count, const uint32_t *x0, const uint32_t *x1,
                         uint32_t *y0, uint32_t *y1) {
    PairJob job = {cpu_isa_random_kernels(cpu_pool_features(pool)), key, x0, x1, y0, y1};
    cpu_pool_parallel_for_grain(pool, count, kParallelElements, pair_task, &job);
}

// ---- JAX's counters

typedef struct CounterJob {
    const CpuRandomKernels *kernels;
    const uint32_t *key;
    uint64_t first;
    int bits;
    char *out;
} CounterJob;

static void store_words(int bits, char *out, int64_t at, const uint32_t *words, int64_t count) {
    switch (bits) {
        case 8:
            for (int64_t i = 0; i < count; i++) ((uint8_t *)out)[at + i] = (uint8_t)words[i];
            break;
        case 16:
            for (int64_t i = 0; i < count; i++) ((uint16_t *)(void *)out)[at + i] = (uint16_t)words[i];
            break;
        default: memcpy(out + at * 4, words, (size_t)count * 4); break;
    }
}

// Returns how many of `count` counters from `first` on share the high word.
static int64_t same_high_word(uint64_t first, int64_t count) {
    const uint64_t left = (UINT64_C(1) << 32) - (first & UINT32_MAX);
    return (uint64_t)count < left ? count : (int64_t)left;
}

static void counter_block(const CounterJob *job, int64_t at, int64_t count) {
    uint32_t y0[kBlock], y1[kBlock];
    if (job->bits != 64) {
        job->kernels->threefry_counters_xor(job->key, job->first + (uint64_t)at, count, y0);
        store_words(job->bits, job->out, at, y0, count);
        return;
    }
    job->kernels->threefry_counters(job->key, job->first + (uint64_t)at, count, 0, y0, y1);
    uint64_t *out = (uint64_t *)(void *)job->out + at;
    for (int64_t i = 0; i < count; i++) out[i] = (uint64_t)y0[i] << 32 | y1[i];
}

static void counter_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const CounterJob *job = argument;
    (void)worker;
    while (begin < end) {
        const int64_t block = end - begin < kBlock ? end - begin : kBlock;
        const int64_t count = same_high_word(job->first + (uint64_t)begin, block);
        counter_block(job, begin, count);
        begin += count;
    }
}

void cpu_threefry_counter_bits(CpuPool *pool, const uint32_t key[2], uint64_t first, int64_t count, int bits,
                               void *out) {
    CounterJob job = {cpu_isa_random_kernels(cpu_pool_features(pool)), key, first, bits, out};
    cpu_pool_parallel_for_grain(pool, count, kParallelElements, counter_task, &job);
}

// ---- rng-bit-generator, Threefry

// For elements of up to 32 bits one dimension (the first even one, else the largest) is halved, rounded up. Counters
// number the half-sized array, and the two words of a block are neighbours along that dimension.
typedef struct ThreefryJob {
    const CpuRandomKernels *kernels;
    uint32_t key[2];
    uint64_t counter;
    int bits;
    int64_t split, inner;  // size of the halved dimension (whole), elements of one of its steps
    char *out;
} ThreefryJob;

static void place_pair(const ThreefryJob *job, int64_t half_index, uint32_t w0, uint32_t w1) {
    const int64_t half = (job->split + 1) / 2;
    const int64_t column = half_index % job->inner, k = half_index / job->inner % half;
    const int64_t outer = half_index / job->inner / half;
    const int64_t at = (outer * job->split + 2 * k) * job->inner + column;
    store_words(job->bits, job->out, at, &w0, 1);
    if (2 * k + 1 < job->split) store_words(job->bits, job->out, at + job->inner, &w1, 1);
}

// True in the common case that blocks become neighbouring words.
static int pairs_are_neighbours(const ThreefryJob *job) {
    return job->inner == 1 && job->split % 2 == 0 && job->bits == 32;
}

static void threefry_block(const ThreefryJob *job, int64_t begin, int64_t count) {
    uint32_t y0[kBlock], y1[kBlock];
    job->kernels->threefry_counters(job->key, job->counter + (uint64_t)begin, count, 1, y0, y1);
    if (job->bits == 64) {
        uint64_t *out = (uint64_t *)(void *)job->out + begin;
        for (int64_t i = 0; i < count; i++) out[i] = y0[i] | (uint64_t)y1[i] << 32;
    } else if (pairs_are_neighbours(job)) {
        uint32_t *out = (uint32_t *)(void *)job->out + 2 * begin;
        for (int64_t i = 0; i < count; i++) out[2 * i] = y0[i], out[2 * i + 1] = y1[i];
    } else {
        for (int64_t i = 0; i < count; i++) place_pair(job, begin + i, y0[i], y1[i]);
    }
}

static void threefry_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ThreefryJob *job = argument;
    (void)worker;
    while (begin < end) {
        const int64_t block = end - begin < kBlock ? end - begin : kBlock;
        const int64_t count = same_high_word(job->counter + (uint64_t)begin, block);
        threefry_block(job, begin, count);
        begin += count;
    }
}

// Returns the dimension to halve; -1 for a scalar.
static int split_dimension(int rank, const int64_t *sizes) {
    int largest = rank ? 0 : -1;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] % 2 == 0) return d;
        if (sizes[d] > sizes[largest]) largest = d;
    }
    return largest;
}

// XLA's rng-bit-generator by Threefry: the state is a key and a counter. A block of two words makes one element of 64
// bits, or two narrower ones, one in each half of one dimension: the first of even size, else the largest.
void cpu_rng_threefry(CpuPool *pool, const uint64_t state[2], uint64_t new_state[2], int rank, const int64_t *sizes,
                      int bits, void *out) {
    ThreefryJob job = {
        .kernels = cpu_isa_random_kernels(cpu_pool_features(pool)), .counter = state[1], .bits = bits, .out = out};
    job.key[0] = (uint32_t)state[0];
    job.key[1] = (uint32_t)(state[0] >> 32);
    const int64_t total = hlo_product(sizes, rank);
    int64_t blocks = total;
    if (bits != 64 && total > 0) {
        const int dim = split_dimension(rank, sizes);
        job.split = dim < 0 ? 1 : sizes[dim];
        job.inner = dim < 0 ? 1 : hlo_product(sizes + dim + 1, rank - dim - 1);
        blocks = total / job.split * ((job.split + 1) / 2);
    }
    const uint64_t key = state[0];
    cpu_pool_parallel_for_grain(pool, blocks, kParallelElements, threefry_task, &job);
    new_state[0] = key;
    new_state[1] = job.counter + (uint64_t)blocks;
}

// ---- rng-bit-generator, Philox

typedef struct PhiloxJob {
    const CpuRandomKernels *kernels;
    uint32_t key[2];
    uint64_t low, high;
    int bits;
    int64_t total;  // elements
    char *out;
} PhiloxJob;

static void philox_block(const PhiloxJob *job, int64_t block, int64_t count) {
    uint32_t words[4][kBlock], *const rows[4] = {words[0], words[1], words[2], words[3]};
    const uint64_t low = job->low + (uint64_t)block;
    job->kernels->philox_counters(job->key, low, job->high + (low < job->low), count, rows);
    const int64_t each = job->bits == 64 ? 2 : 4;
    for (int64_t i = 0; i < count; i++)
        for (int64_t w = 0; w < each && (block + i) * each + w < job->total; w++) {
            const int64_t at = (block + i) * each + w;
            if (job->bits == 64)
                ((uint64_t *)(void *)job->out)[at] = words[2 * w][i] | (uint64_t)words[2 * w + 1][i] << 32;
            else
                store_words(job->bits, job->out, at, &words[w][i], 1);
        }
}

static void philox_task(void *argument, int64_t begin, int64_t end, int worker) {
    (void)worker;
    for (; begin < end; begin += kBlock) philox_block(argument, begin, end - begin < kBlock ? end - begin : kBlock);
}

void cpu_rng_philox(CpuPool *pool, int state_words, const uint64_t *state, uint64_t *new_state, int rank,
                    const int64_t *sizes, int bits, void *out) {
    PhiloxJob job = {
        .kernels = cpu_isa_random_kernels(cpu_pool_features(pool)), .low = state[1], .bits = bits, .out = out};
    job.key[0] = (uint32_t)state[0];
    job.key[1] = (uint32_t)(state[0] >> 32);
    job.high = state_words > 2 ? state[2] : state[0];  // with two words the key is the counter's high half too
    job.total = hlo_product(sizes, rank);
    const int64_t each = bits == 64 ? 2 : 4, blocks = hlo_divide_up(job.total, each);
    const uint64_t key = state[0], low = job.low + (uint64_t)blocks, high = job.high + (low < job.low);
    cpu_pool_parallel_for_grain(pool, blocks, kParallelElements / 2, philox_task, &job);
    new_state[0] = key;
    new_state[1] = low;
    if (state_words > 2) new_state[2] = high;
}
