// SPDX-License-Identifier: Apache-2.0
// Sorting, top-k and arg-max against comparison of every pair or a plain search.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/ir/literal.h"
#include "targets/cpu/kernels/sort.h"
#include "tests/support/cases.h"

static uint32_t state = 4711;
static uint32_t next_random(void) {
    return state = state * 1664525 + 1013904223;
}

static HloType kTypes[] = {HLO_PRED, HLO_S8,  HLO_U8,   HLO_S16, HLO_U16, HLO_S32,    HLO_U32, HLO_S64,
                           HLO_U64,  HLO_F16, HLO_BF16, HLO_F32, HLO_F64, HLO_F8E5M2, HLO_S4};
enum { kTypeCount = sizeof kTypes / sizeof kTypes[0] };

static double value_of(HloType type, const void *array, int64_t i) {
    uint64_t bits = 0;
    const int width = hlo_type_bytes(type);
    memcpy(&bits, (const char *)array + i * width, (size_t)width);
    if (hlo_type_is_float(type)) return hlo_float_decode(type, bits);
    return hlo_type_kind(type) == HLO_KIND_SIGNED ? (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width))
                                                  : (double)bits;
}

// Many equal values; floats with both zeros, infinities and NaNs of both signs.
static void fill(HloType type, void *array, int64_t count) {
    static const double specials[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0};
    for (int64_t i = 0; i < count; i++) {
        const int number = (int)(next_random() >> 20) % 100 - 50;
        uint64_t bits = type == HLO_U64    ? (uint64_t)(number + 50)
                        : type == HLO_PRED ? (uint64_t)(number & 1)
                        : type == HLO_S4   ? (uint64_t)(int8_t)(number % 8)
                                           : (uint64_t)number;
        if (hlo_type_is_float(type))
            bits = hlo_float_encode(
                type,
                next_random() >> 28
                    ? number / 4.0
                    : specials[next_random() >> 16 & 3 ? 4 + (next_random() >> 20 & 1) : (next_random() >> 20) & 3]);
        memcpy((char *)array + i * hlo_type_bytes(type), &bits, (size_t)hlo_type_bytes(type));
    }
}

// -1, 0, 1 in the requested order.
static int compare(HloType type, CpuSortOrder order, const void *array, int64_t i, int64_t j) {
    const double a = value_of(type, array, i), b = value_of(type, array, j);
    const int nan_a = isnan(a) != 0, nan_b = isnan(b) != 0;
    if (order == CPU_SORT_NUMERIC || !hlo_type_is_float(type))
        return nan_a || nan_b ? nan_a - nan_b : (a > b) - (a < b);
    const int ka = nan_a ? (signbit(a) ? -1 : 1) : 0, kb = nan_b ? (signbit(b) ? -1 : 1) : 0;
    if (ka != kb) return (ka > kb) - (ka < kb);
    if (ka) return 0;  // NaNs of one sign: the fill has one of each
    if (a == 0 && b == 0) return (signbit(b) != 0) - (signbit(a) != 0);
    return (a > b) - (a < b);
}

static void check_sort(CpuPool *pool, HloType type, int64_t outer, int64_t length, int64_t inner, bool descending,
                       CpuSortOrder order) {
    const int64_t total = outer * length * inner, width = hlo_type_bytes(type);
    char *in = hlo_allocate_aligned((size_t)(total * width)), *out = hlo_allocate_aligned((size_t)(total * width));
    int32_t *index = hlo_allocate_aligned((size_t)total * 4), *sorted = hlo_allocate_aligned((size_t)total * 4);
    fill(type, in, total);
    for (int64_t i = 0; i < total; i++) index[i] = (int32_t)i;
    const HloType types[2] = {type, HLO_S32};
    const CpuSortKey key = {0, descending, order};
    CpuSort sort = {
        .outer = outer, .length = length, .inner = inner, .count = 2, .types = types, .key_count = 1, .keys = &key};
    cr_assert_null(cpu_sort(pool, &sort, (void *[]){out, sorted}, (const void *[]){in, index}));
    for (int64_t i = 0; i < total; i++) {
        cr_assert_eq(memcmp(out + i * width, in + sorted[i] * width, (size_t)width), 0);
        if (i / inner % length == 0) continue;
        const int c = compare(type, order, in, sorted[i - inner], sorted[i]) * (descending ? -1 : 1);
        cr_assert(c < 0 || (c == 0 && sorted[i - inner] < sorted[i]), "%s: place %lld of %lld", hlo_type_text(type),
                  (long long)i, (long long)length);
    }
    sort.count = 1;  // keys alone, in place
    cr_assert_null(cpu_sort(pool, &sort, (void *[]){in}, (const void *[]){in}));
    cr_assert_eq(memcmp(in, out, (size_t)(total * width)), 0, "%s keys alone", hlo_type_text(type));
    hlo_free(in), hlo_free(out), hlo_free(index), hlo_free(sorted);
}

CaseList(cpu_sort, sorts_every_type) {
    return cr_make_param_array(HloType, kTypes, kTypeCount);
}

CaseTest(HloType *type, cpu_sort, sorts_every_type) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 2, 2}, {5, 100, 3}, {2, 1000, 1}, {1, 40000, 1}};
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_AMX, &pool));
    for (int s = 0; s < 5; s++)
        for (int form = 0; form < 4; form++)
            check_sort(pool, *type, shapes[s][0], shapes[s][1], shapes[s][2], form & 1,
                       form & 2 ? CPU_SORT_NUMERIC : CPU_SORT_TOTAL);
    cpu_pool_free(pool);
}

static bool by_remainder(void *context, const void *const *left, const void *const *right) {
    const int32_t modulus = *(const int32_t *)context;
    return *(const int32_t *)left[1] % modulus < *(const int32_t *)right[1] % modulus;
}

Test(cpu_sort, sorts_by_several_keys_and_by_comparators) {
    enum { kCount = 5000 };
    static int32_t a[kCount], b[kCount], a_out[kCount], b_out[kCount];
    for (int i = 0; i < kCount; i++) a[i] = (int32_t)(next_random() >> 28), b[i] = (int32_t)(next_random() >> 20);
    const HloType types[2] = {HLO_S32, HLO_S32};
    const CpuSortKey keys[2] = {{0, true, CPU_SORT_TOTAL}, {1, false, CPU_SORT_TOTAL}};
    CpuSort sort = {.outer = 1, .length = kCount, .inner = 1, .count = 2, .types = types, .key_count = 2, .keys = keys};
    cr_assert_null(cpu_sort(NULL, &sort, (void *[]){a_out, b_out}, (const void *[]){a, b}));
    for (int i = 1; i < kCount; i++)
        cr_assert(a_out[i - 1] > a_out[i] || (a_out[i - 1] == a_out[i] && b_out[i - 1] <= b_out[i]));
    int32_t modulus = 7;
    for (int i = 0; i < kCount; i++) a[i] = i;
    sort.key_count = 0, sort.less = by_remainder, sort.context = &modulus;
    cr_assert_null(cpu_sort(NULL, &sort, (void *[]){a_out, b_out}, (const void *[]){a, b}));
    for (int i = 1; i < kCount; i++)
        cr_assert(b_out[i - 1] % 7 < b_out[i] % 7 || (b_out[i - 1] % 7 == b_out[i] % 7 && a_out[i - 1] < a_out[i]));
}

CaseList(cpu_sort, selects_the_largest) {
    return cr_make_param_array(HloType, kTypes, kTypeCount);
}

CaseTest(HloType *type, cpu_sort, selects_the_largest) {
    static const int64_t sizes[][2] = {{1, 1}, {700, 5}, {700, 200}, {3000, 3000}, {9000, 7}};
    const int width = hlo_type_bytes(*type);
    CpuPool *pool;
    cr_assert_null(cpu_pool_new_with(2, CPU_FEATURES_AMX, &pool));
    for (int s = 0; s < 5; s++)
        for (int largest = 0; largest < 2; largest++) {
            const int64_t n = sizes[s][0], k = sizes[s][1];
            char *in = hlo_allocate_aligned((size_t)(3 * n * width)),
                 *values = hlo_allocate_aligned((size_t)(3 * k * width));
            int32_t *positions = hlo_allocate_aligned((size_t)(3 * k * 4));
            fill(*type, in, 3 * n);
            cr_assert_null(cpu_top_k(pool, *type, 3, n, k, largest, values, positions, in));
            for (int64_t i = 0; i < 3 * k; i++) {
                const char *row = in + i / k * n * width;
                cr_assert_eq(memcmp(values + i * width, row + positions[i] * width, (size_t)width), 0);
                if (i % k == 0) continue;
                const int c = compare(*type, CPU_SORT_TOTAL, row, positions[i - 1], positions[i]) * (largest ? -1 : 1);
                cr_assert(c < 0 || (c == 0 && positions[i - 1] < positions[i]));
            }
            for (int64_t r = 0; r < 3; r++)  // nothing better was left out
                for (int64_t i = 0; i < n; i++) {
                    const char *row = in + r * n * width;
                    int64_t better = 0;
                    if (compare(*type, CPU_SORT_TOTAL, row, i, positions[r * k + k - 1]) * (largest ? 1 : -1) <= 0)
                        continue;
                    for (int64_t j = 0; j < k; j++) better += positions[r * k + j] == i;
                    cr_assert_eq(better, 1);
                }
            hlo_free(in), hlo_free(values), hlo_free(positions);
        }
    cpu_pool_free(pool);
}

CaseList(cpu_sort, finds_argmax_and_argmin) {
    return cr_make_param_array(HloType, kTypes, kTypeCount);
}

CaseTest(HloType *type, cpu_sort, finds_argmax_and_argmin) {
    static const int64_t shapes[][3] = {{4, 1, 1}, {5, 30, 1}, {3, 9000, 1}, {2, 30, 300}, {1, 7, 5}};
    for (int s = 0; s < 5; s++)
        for (int largest = 0; largest < 2; largest++) {
            const int64_t *d = shapes[s], kept = d[0] * d[2];
            const int width = hlo_type_bytes(*type);
            char *in = hlo_allocate_aligned((size_t)(kept * d[1] * width)),
                 *values = hlo_allocate_aligned((size_t)(kept * width));
            int64_t *positions = hlo_allocate_aligned((size_t)(kept * 8));
            fill(*type, in, kept * d[1]);
            cr_assert_null(cpu_argminmax(NULL, *type, largest, d[0], d[1], d[2], HLO_S64, values, positions, in));
            for (int64_t c = 0; c < kept; c++) {
                const int64_t base = c / d[2] * d[1] * d[2] + c % d[2];
                int64_t best = 0;
                for (int64_t r = 1; r < d[1]; r++) {
                    const double x = value_of(*type, in, base + r * d[2]), y = value_of(*type, in, base + best * d[2]);
                    if (!isnan(y) && (isnan(x) || (largest ? x > y : x < y))) best = r;
                }
                cr_assert_eq(positions[c], best, "%s column %lld", hlo_type_text(*type), (long long)c);
                cr_assert_eq(memcmp(values + c * width, in + (base + best * d[2]) * width, (size_t)width), 0);
            }
            hlo_free(in), hlo_free(values), hlo_free(positions);
        }
}

// Blocks are skipped by their largest element: NaNs of both signs, zeros of both signs and ties must not mislead that.
Test(cpu_sort, selects_among_specials_in_skipped_blocks) {
    enum { kLength = 8192, kBest = 5 };
    static const float kRows[][2] = {{0.0f, -0.0f}, {-1.0f, NAN}, {-1.0f, -NAN}, {2.0f, 2.0f}, {-INFINITY, -0.0f}};
    static float in[kLength];
    for (size_t r = 0; r < sizeof kRows / sizeof kRows[0]; r++)
        for (int largest = 0; largest < 2; largest++)
            for (int at = 5000; at < kLength; at += 777) {
                float values[kBest];
                int32_t positions[kBest];
                for (int i = 0; i < kLength; i++) in[i] = kRows[r][0];
                in[at] = kRows[r][1];
                cr_assert_null(cpu_top_k(NULL, HLO_F32, 1, kLength, kBest, largest, values, positions, in));
                const int order = compare(HLO_F32, CPU_SORT_TOTAL, (const char *)in, at, 0) * (largest ? 1 : -1);
                cr_expect_eq(positions[0], order > 0 ? at : 0, "row %zu, largest %d, at %d", r, largest, at);
                cr_expect_eq(positions[kBest - 1], order > 0 ? kBest - 2 : kBest - 1, "row %zu, largest %d, at %d", r,
                             largest, at);
            }
}
