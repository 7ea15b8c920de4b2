// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "tests/support/levels.h"

enum { kMaximumRank = 6 };

static uint32_t state = 12345;
static int64_t random_below(int64_t n) {
    state = state * 1664525 + 1013904223;
    return (int64_t)(state >> 8) % n;
}

static void row_major(int rank, const int64_t *sizes, int64_t *strides) {
    int64_t next = 1;
    for (int d = rank - 1; d >= 0; d--) strides[d] = next, next *= sizes[d];
}

static int64_t element_at(int rank, const int64_t *sizes, const int64_t *strides, int64_t flat) {
    int64_t element = 0;
    for (int d = rank - 1; d >= 0; d--) element += flat % sizes[d] * strides[d], flat /= sizes[d];
    return element;
}

// A random permutation of the dimensions, some reversed, in every width.
static void check_one(CpuPool *pool, int rank, const int64_t *sizes, int width) {
    int64_t order[kMaximumRank], permuted[kMaximumRank], of_permuted[kMaximumRank], to[kMaximumRank],
        from[kMaximumRank];
    int64_t total = 1, offset = 0;
    for (int d = 0; d < rank; d++) order[d] = d, total *= sizes[d];
    for (int d = rank - 1; d > 0; d--) {
        const int64_t other = random_below(d + 1), swap = order[d];
        order[d] = order[other], order[other] = swap;
    }
    for (int d = 0; d < rank; d++) permuted[d] = sizes[order[d]];
    row_major(rank, permuted, of_permuted);
    row_major(rank, sizes, to);
    for (int d = 0; d < rank; d++) from[order[d]] = of_permuted[d];
    for (int d = 0; d < rank; d++) {
        if (random_below(3)) continue;
        offset += from[d] * (sizes[d] - 1);
        from[d] = -from[d];
    }
    unsigned char *in = hlo_allocate((size_t)(total * width) + 1), *out = hlo_allocate((size_t)(total * width) + 1);
    for (int64_t i = 0; i < total * width; i++) in[i] = (unsigned char)random_below(256);
    cpu_copy_strided(pool, rank, sizes, width, out, to, in + offset * width, from);
    for (int64_t i = 0; i < total; i++)
        cr_assert_eq(memcmp(out + i * width, in + (offset + element_at(rank, sizes, from, i)) * width, (size_t)width),
                     0, "width %d element %lld", width, (long long)i);
    hlo_free(in);
    hlo_free(out);
}

Test(cpu_copy, permutes_and_reverses) {
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_AMX, &pool));
    static const int64_t shapes[][kMaximumRank] = {
        {5},         {100000},     {65536},        {33, 65},           {300, 200}, {4, 1, 7},
        {7, 40, 90}, {3, 4, 5, 6}, {2, 3, 32, 32}, {2, 1, 3, 2, 3, 5}, {0, 4}};
    static const int ranks[] = {1, 1, 1, 2, 2, 3, 3, 4, 4, 6, 2}, widths[] = {1, 2, 4, 8, 16};
    for (int s = 0; s < 11; s++)
        for (int w = 0; w < 5; w++)
            for (int round = 0; round < 4; round++) check_one(pool, ranks[s], shapes[s], widths[w]);
    cpu_pool_free(pool);
}

// Every other element and reversed ones are copied as vectors, beside steps that are not.
// [count][n] becomes [n][count], as coordinates become points.
static void check_few_rows(CpuPool *pool, int64_t count, int64_t n, int width) {
    const int64_t sizes[] = {n, count}, to[] = {count, 1}, from[] = {1, n};
    unsigned char *in = hlo_allocate((size_t)(count * n * width)), *out = hlo_allocate((size_t)(count * n * width));
    for (int64_t i = 0; i < count * n * width; i++) in[i] = (unsigned char)random_below(256);
    cpu_copy_strided(pool, 2, sizes, width, out, to, in, from);
    for (int64_t i = 0; i < n * count; i++)
        cr_assert_eq(memcmp(out + i * width, in + (i % count * n + i / count) * width, (size_t)width), 0,
                     "width %d, %lld rows of %lld, element %lld", width, (long long)count, (long long)n, (long long)i);
    hlo_free(in);
    hlo_free(out);
}

Test(cpu_copy, few_rows_become_columns) {
    static const int64_t kSizes[] = {1, 2, 7, 16, 33, 4096, 9001};
    for (int set = levels_first(); set <= levels_last(); set++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(3, (CpuFeatures)set, &pool));
        for (int64_t count = 2; count <= 5; count++)
            for (size_t s = 0; s < sizeof kSizes / sizeof *kSizes; s++)
                for (int width = 1; width <= 16; width *= 2) check_few_rows(pool, count, kSizes[s], width);
        cpu_pool_free(pool);
    }
}

Test(cpu_copy, runs_of_any_steps) {
    enum { kMost = 70, kWidest = 16, kCentre = 4 * kMost };
    static const int kSteps[][2] = {{1, 1}, {1, -1}, {1, 2}, {1, -2}, {1, 3}, {2, 1}, {-1, 1}, {2, -1}};
    unsigned char in[2 * kCentre * kWidest], out[2 * kCentre * kWidest];
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 7 + i / 256);
    for (int width = 1; width <= kWidest; width *= 2)
        for (size_t s = 0; s < sizeof kSteps / sizeof kSteps[0]; s++)
            for (int n = 0; n < kMost; n += 1 + n / 20) {
                const int to = kSteps[s][0], from = kSteps[s][1];
                memset(out, 9, sizeof out);
                cpu_copy_run(out + kCentre * width, to, in + kCentre * width, from, n, width);
                for (int i = 0; i < n; i++)
                    cr_assert_arr_eq(out + (kCentre + i * to) * width, in + (kCentre + i * from) * width, width);
                const int after = kCentre + (to > 0 ? n * to : to * n);
                for (int i = 0; i < width; i++) cr_assert_eq(out[after * width + i], 9);
            }
}

// Large enough to go past the caches, at addresses off every boundary.
Test(cpu_copy, any_number_of_bytes_at_any_address) {
    enum { kLargest = (9 << 20) + 100 };
    static const int64_t sizes[] = {0, 1, 63, 4096, (1 << 19) + 5, (9 << 20) + 17};
    char *from = hlo_allocate(kLargest), *to = hlo_allocate(kLargest);
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_AMX, &pool));
    for (int i = 0; i < kLargest; i++) from[i] = (char)(i * 31 + i / 4096);
    for (int s = 0; s < 6; s++)
        for (int shift = 0; shift < 3; shift++) {
            memset(to, 7, kLargest);
            cpu_copy_bytes(pool, to + 1 + shift, from + 2 * shift, sizes[s]);
            cr_assert_arr_eq(to + 1 + shift, from + 2 * shift, (size_t)sizes[s]);
            cr_assert(to[shift] == 7 && to[1 + shift + sizes[s]] == 7);
        }
    cpu_pool_free(pool);
    hlo_free(from), hlo_free(to);
}

Test(cpu_copy, fills_any_number_of_elements) {
    enum { kMost = 9000, kWidest = 16 };
    static const int64_t kCounts[] = {0, 1, 2, 7, 31, 64, 255, 256, 257, 511, 513, 1025, 4096, 4097, 8191, kMost};
    static unsigned char out[(kMost + 2) * kWidest];
    unsigned char element[kWidest];
    for (int i = 0; i < kWidest; i++) element[i] = (unsigned char)(17 * i + 3);
    for (int width = 1; width <= kWidest; width *= 2)
        for (size_t c = 0; c < sizeof kCounts / sizeof *kCounts; c++) {
            const int64_t count = kCounts[c];
            memset(out, 9, sizeof out);
            cpu_fill_run(out + width, element, count, width);
            for (int64_t i = 1; i <= count; i++)
                cr_assert(memcmp(out + i * width, element, (size_t)width) == 0, "%d bytes, element %lld of %lld", width,
                          (long long)i, (long long)count);
            for (int i = 0; i < width; i++) cr_assert(out[i] == 9 && out[(count + 1) * width + i] == 9);
        }
}
