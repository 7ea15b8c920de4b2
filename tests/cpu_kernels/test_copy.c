// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/isa.h"
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

// Rows of `length` elements side by side, at an odd address, between bytes that must stay as they are. Either the rows
// or the elements of each are in reverse order.
static void check_reversed_rows(const CpuMoveKernels *moves, int64_t count, int64_t length, int width, bool backward) {
    enum { kAround = 40 };
    const int64_t bytes = count * length * width;
    unsigned char *in = hlo_allocate((size_t)bytes + 1), *out = hlo_allocate((size_t)bytes + 2 * kAround + 1);
    for (int64_t i = 0; i < bytes; i++) in[1 + i] = (unsigned char)random_below(256);
    memset(out, 9, (size_t)bytes + 2 * kAround + 1);
    const int64_t first = backward ? (count - 1) * length : length - 1;
    const bool done = cpu_copy_reversed_rows(moves, count, length, width, out + kAround + 1, in + 1 + first * width,
                                             backward ? 1 : -1, backward ? -length : length);
    cr_assert(!done || (moves->shuffle && length * width <= CPU_SHUFFLE_BYTES));
    cr_assert(done || !moves->shuffle || length * width > CPU_SHUFFLE_BYTES || bytes < 4 * CPU_SHUFFLE_BYTES);
    for (int64_t i = 0; i < count * length && done; i++) {
        const int64_t row = i / length, at = i % length;
        const int64_t from = backward ? (count - 1 - row) * length + at : row * length + length - 1 - at;
        cr_assert_eq(memcmp(out + kAround + 1 + i * width, in + 1 + from * width, (size_t)width), 0,
                     "width %d, %lld rows of %lld, %s, element %lld", width, (long long)count, (long long)length,
                     backward ? "backward" : "forward", (long long)i);
    }
    for (int64_t i = 0; i < bytes + 2 * kAround + 1; i++)
        cr_assert(out[i] == 9 || (done && i > kAround && i < kAround + 1 + bytes), "byte %lld", (long long)i);
    hlo_free(in);
    hlo_free(out);
}

Test(cpu_copy, short_rows_in_reverse_order) {
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int width = 1; width <= 16; width *= 2)
            for (int64_t length = 1; length <= 18; length++)
                for (int64_t count = 1; count < 300; count += count < 70 ? 1 : 53) {
                    check_reversed_rows(cpu_isa_move_kernels((CpuFeatures)set), count, length, width, true);
                    check_reversed_rows(cpu_isa_move_kernels((CpuFeatures)set), count, length, width, false);
                }
}

// Rows that are apart, or whose elements are, are others.
Test(cpu_copy, rows_that_are_not_reversed_are_left) {
    const CpuMoveKernels *moves = cpu_isa_move_kernels((CpuFeatures)levels_last());
    static const int64_t kOthers[][2] = {{1, 3}, {1, -4}, {-1, 4}, {-1, -3}, {2, -3}, {-2, 3}, {0, 3}};
    char in[2000] = {0}, out[2000];
    for (size_t i = 0; i < sizeof kOthers / sizeof *kOthers; i++)
        cr_assert_not(cpu_copy_reversed_rows(moves, 100, 3, 1, out, in + 1000, kOthers[i][0], kOthers[i][1]));
}

// [a][b][rows][run] with a short dimension of rows, whose neighbours are far apart in one of the arrays, and long ones
// around it: blocks of pixels, heads of attention.
Test(cpu_copy, few_rows_in_each_of_many_groups) {
    static const int64_t kGroups[][2] = {{3, 9}, {2, 112}, {1, 4096}, {5, 1021}, {1, 30000}, {64, 8}};
    for (int set = levels_first(); set <= levels_last(); set++) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(3, (CpuFeatures)set, &pool));
        for (size_t g = 0; g < sizeof kGroups / sizeof *kGroups; g++)
            for (int64_t rows = 2; rows <= 8; rows += 3)
                for (int64_t run = 1; run <= 6; run += 5)
                    for (int width = 1; width <= 16; width *= 4) {
                        const int64_t a = kGroups[g][0], b = kGroups[g][1], sizes[] = {a, b, rows, run};
                        const int64_t from[] = {rows * b * run, run, b * run, 1}, total = a * b * rows * run;
                        int64_t to[4];
                        row_major(4, sizes, to);
                        unsigned char *in = hlo_allocate((size_t)(total * width)),
                                      *out = hlo_allocate((size_t)(total * width));
                        for (int64_t i = 0; i < total * width; i++) in[i] = (unsigned char)random_below(256);
                        cpu_copy_strided(pool, 4, sizes, width, out, to, in, from);
                        for (int64_t i = 0; i < total; i++)
                            cr_assert_eq(
                                memcmp(out + i * width, in + element_at(4, sizes, from, i) * width, (size_t)width), 0,
                                "width %d, %lld x %lld, %lld rows of %lld, element %lld", width, (long long)a,
                                (long long)b, (long long)rows, (long long)run, (long long)i);
                        hlo_free(in);
                        hlo_free(out);
                    }
        cpu_pool_free(pool);
    }
}

// Runs of any number of words that fit a vector, any number of times, at odd addresses, and nothing beside them.
static void check_repeated(const CpuMoveKernels *moves, int64_t words, int64_t times) {
    const int64_t bytes = words * times * 4;
    unsigned char *in = hlo_allocate((size_t)words * 4 + 1), *out = hlo_allocate((size_t)bytes + 2);
    for (int64_t i = 0; i < words * 4; i++) in[1 + i] = (unsigned char)random_below(256);
    memset(out, 9, (size_t)bytes + 2);
    moves->repeat(out + 1, in + 1, words, times);
    for (int64_t i = 0; i < times; i++)
        cr_assert_eq(memcmp(out + 1 + i * words * 4, in + 1, (size_t)words * 4), 0, "%lld words, time %lld of %lld",
                     (long long)words, (long long)i, (long long)times);
    cr_assert(out[0] == 9 && out[bytes + 1] == 9);
    hlo_free(in);
    hlo_free(out);
}

Test(cpu_copy, runs_of_words_are_repeated) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        const CpuMoveKernels *moves = cpu_isa_move_kernels((CpuFeatures)set);
        for (int64_t words = 1; words <= moves->repeat_words; words++)
            for (int64_t times = 0; times < 400; times += times < 70 ? 1 : 41) check_repeated(moves, words, times);
    }
}

// Every other element and reversed ones are copied as vectors, beside steps that are not.
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
