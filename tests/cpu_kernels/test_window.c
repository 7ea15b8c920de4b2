// SPDX-License-Identifier: Apache-2.0
// Scans and windows against their definitions, on whole numbers so that any order of additions is exact.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/ir/literal.h"
#include "targets/cpu/kernels/window.h"
#include "tests/support/levels.h"

static CpuPool *pool;
static void open_pool(void) {
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_AMX, &pool));
}
static void close_pool(void) {
    cpu_pool_free(pool);
}

static uint32_t state = 17;
static int small_random(void) {
    state = state * 1664525 + 1013904223;
    return (int)(state >> 24) % 7 - 3;
}

static void put(HloType type, void *array, int64_t i, double value) {
    const uint64_t bits = hlo_type_is_float(type) ? hlo_float_encode(type, value) : (uint64_t)(int64_t)value;
    memcpy((char *)array + i * hlo_type_bytes(type), &bits, (size_t)hlo_type_bytes(type));
}

static double get(HloType type, const void *array, int64_t i) {
    uint64_t bits = 0;
    const int width = hlo_type_bytes(type);
    memcpy(&bits, (const char *)array + i * width, (size_t)width);
    return hlo_type_is_float(type) ? hlo_float_decode(type, bits)
                                   : (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
}

static double combine(CpuReduceOp op, double a, double b) {
    return op == CPU_REDUCE_ADD ? a + b : op == CPU_REDUCE_MAXIMUM ? fmax(a, b) : fmin(a, b);
}

static const HloType kTypes[] = {HLO_F32, HLO_F64, HLO_S32, HLO_S64, HLO_S16, HLO_BF16};

Test(cpu_window, scans_every_form, .init = open_pool, .fini = close_pool) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 1}, {20, 50, 1}, {2, 30, 600}, {1, 100, 3}, {2, 100000, 1}};
    for (int t = 0; t < 6; t++)
        for (int s = 0; s < 6; s++)
            for (int form = 0; form < 6; form++) {
                const int64_t *d = shapes[s], total = d[0] * d[1] * d[2], width = hlo_type_bytes(kTypes[t]);
                if (width < 4 && d[1] > 1000) continue;
                const CpuReduceOp op =
                    (CpuReduceOp[]){CPU_REDUCE_ADD, CPU_REDUCE_MAXIMUM, CPU_REDUCE_MINIMUM}[form / 2];
                char *in = hlo_allocate_aligned((size_t)(total * width)),
                     *out = hlo_allocate_aligned((size_t)(total * width)), init[8];
                for (int64_t i = 0; i < total; i++) put(kTypes[t], in, i, small_random());
                put(kTypes[t], init, 0, op == CPU_REDUCE_ADD ? 1 : op == CPU_REDUCE_MAXIMUM ? -2 : 2);
                cr_assert_null(cpu_scan(pool, kTypes[t], op, form & 1, d[0], d[1], d[2], init, out, in));
                for (int64_t c = 0; c < d[0] * d[2]; c++) {
                    double sum = get(kTypes[t], init, 0);
                    for (int64_t i = 0; i < d[1]; i++) {
                        const int64_t at = (c / d[2] * d[1] + (form & 1 ? d[1] - 1 - i : i)) * d[2] + c % d[2];
                        sum = combine(op, sum, get(kTypes[t], in, at));
                        const double want =
                            kTypes[t] == HLO_BF16 ? hlo_float_decode(HLO_BF16, hlo_float_encode(HLO_BF16, sum)) : sum;
                        cr_assert_eq(get(kTypes[t], out, at), want, "%s form %d shape %d at %lld",
                                     hlo_type_text(kTypes[t]), form, s, (long long)at);
                    }
                }
                hlo_free(in), hlo_free(out);
            }
}

// Sizes of windows [size, stride, low, high, base dilation, window dilation] on 5 x 9 x 4 arrays.
static const CpuWindowDim kWindows[][3] = {
    {{1, 1, 0, 0, 1, 1}, {3, 1, 1, 1, 1, 1}, {1, 1, 0, 0, 1, 1}},
    {{2, 2, 0, 0, 1, 1}, {3, 2, 1, 0, 1, 2}, {1, 1, 0, 0, 1, 1}},
    {{1, 1, 0, 0, 1, 1}, {2, 1, 0, 1, 3, 1}, {2, 3, 2, -1, 1, 1}},
    {{1, 1, 0, 0, 1, 1}, {9, 1, 8, 0, 1, 1}, {1, 1, 0, 0, 1, 1}},
    {{1, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}, {4, 1, 0, 3, 1, 1}},
    {{5, 1, 4, 0, 1, 1}, {9, 1, 0, 8, 1, 1}, {2, 2, 0, 0, 2, 1}},
};

static int64_t windows_along(const CpuWindowDim *w, int64_t n) {
    const int64_t dilated = (n - 1) * w->base_dilation + 1 + w->padding_low + w->padding_high,
                  reach = (w->size - 1) * w->window_dilation + 1;
    return dilated < reach ? 0 : (dilated - reach) / w->stride + 1;
}

static int64_t under(const CpuWindowDim *window, const int64_t *sizes, const int64_t *index, const int64_t *place) {
    int64_t element = 0;
    for (int d = 0; d < 3; d++) {
        const int64_t p = index[d] * window[d].stride + place[d] * window[d].window_dilation - window[d].padding_low;
        if (p < 0 || p % window[d].base_dilation || p / window[d].base_dilation >= sizes[d]) return -1;
        element = element * sizes[d] + p / window[d].base_dilation;
    }
    return element;
}

static void add_call(void *context, int count, void *const *accumulators, const void *const *elements) {
    (void)context;
    for (int i = 0; i < count; i++) *(float *)accumulators[i] += *(const float *)elements[i];
}

Test(cpu_window, reduces_windows, .init = open_pool, .fini = close_pool) {
    const int64_t sizes[3] = {5, 9, 4};
    char in[180 * 8], out[4000 * 8], init[8];
    for (int t = 0; t < 6; t++)
        for (int w = 0; w < 6; w++)
            for (int form = 0; form < 3; form++) {
                const CpuReduceOp op = (CpuReduceOp[]){CPU_REDUCE_ADD, CPU_REDUCE_MAXIMUM, CPU_REDUCE_MINIMUM}[form];
                int64_t outs[3];
                for (int d = 0; d < 3; d++) outs[d] = windows_along(&kWindows[w][d], sizes[d]);
                for (int i = 0; i < 180; i++) put(kTypes[t], in, i, small_random());
                put(kTypes[t], init, 0, 1);
                cr_assert_null(cpu_reduce_window(pool, kTypes[t], op, 3, sizes, outs, kWindows[w], init, out, in));
                for (int64_t i = 0; i < outs[0] * outs[1] * outs[2]; i++) {
                    const int64_t index[3] = {i / (outs[1] * outs[2]), i / outs[2] % outs[1], i % outs[2]};
                    double sum = 1;
                    for (int64_t p = 0; p < kWindows[w][0].size * kWindows[w][1].size * kWindows[w][2].size; p++) {
                        const int64_t place[3] = {p / (kWindows[w][1].size * kWindows[w][2].size),
                                                  p / kWindows[w][2].size % kWindows[w][1].size,
                                                  p % kWindows[w][2].size};
                        const int64_t element = under(kWindows[w], sizes, index, place);
                        if (element >= 0) sum = combine(op, sum, get(kTypes[t], in, element));
                    }
                    cr_assert_eq(get(kTypes[t], out, i), sum, "%s window %d op %d at %lld: %g, not %g",
                                 hlo_type_text(kTypes[t]), w, form, (long long)i, get(kTypes[t], out, i), sum);
                }
                if (kTypes[t] != HLO_F32 || form) continue;
                float called[4000];
                cr_assert_null(cpu_reduce_window_call(pool, 1, &kTypes[t], 3, sizes, outs, kWindows[w],
                                                      (const void *[]){init}, (void *[]){called}, (const void *[]){in},
                                                      add_call, NULL));
                cr_assert_eq(memcmp(called, out, sizeof(float) * (size_t)(outs[0] * outs[1] * outs[2])), 0);
            }
}

// Maps x -> a x + b of whole numbers, one after the other: associative, but their order matters. `context` has the
// lanes.
static void compose_lanes(void *context, int count, const void *const *first, const void *const *second,
                          void *const *results) {
    cr_assert_eq(count, 2);
    const uint32_t *a = first[0], *b = first[1], *c = second[0], *d = second[1];
    for (int64_t l = 0; l < *(const int64_t *)context; l++) {
        ((uint32_t *)results[0])[l] = a[l] * c[l];
        ((uint32_t *)results[1])[l] = b[l] * c[l] + d[l];
    }
}

static void check_composed(const CpuLanesScan *s, uint32_t *const *ins, uint32_t *const *outs) {
    for (int64_t c = 0; c < s->outer * s->inner; c++) {
        uint32_t a = 3, b = 5;  // the inits
        for (int64_t i = 0; i < s->length; i++) {
            const int64_t row = s->reverse ? s->length - 1 - i : i,
                          at = (c / s->inner * s->length + row) * s->inner + c % s->inner;
            const uint32_t x = ins[0][at], y = ins[1][at];
            b = s->reverse ? y * a + b : b * x + y;
            a *= x;
            cr_assert_eq(outs[0][at], a, "column %lld, step %lld", (long long)c, (long long)i);
            cr_assert_eq(outs[1][at], b, "column %lld, step %lld", (long long)c, (long long)i);
        }
    }
}

Test(cpu_window, scans_by_any_combiner, .init = open_pool, .fini = close_pool) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 1}, {20, 50, 1}, {2, 33, 6}, {1, 100, 13}, {1, 500, 1}};
    static const HloType types[] = {HLO_U32, HLO_U32};
    const uint32_t inits[2] = {3, 5};
    for (size_t shape = 0; shape < HLO_COUNT_OF(shapes); shape++)
        for (int form = 0; form < 6; form++) {
            const int64_t *d = shapes[shape], total = d[0] * d[1] * d[2];
            int64_t lanes = (int64_t[]){1, 4, 128}[form / 2];
            const CpuLanesScan scan = {2, types, form & 1, d[0], d[1], d[2], lanes, compose_lanes, &lanes};
            uint32_t *ins[2], *outs[2];
            for (int i = 0; i < 2; i++) {
                ins[i] = hlo_allocate_aligned(sizeof(uint32_t) * (size_t)total);
                outs[i] = hlo_allocate_aligned(sizeof(uint32_t) * (size_t)total);
                for (int64_t k = 0; k < total; k++) ins[i][k] = (uint32_t)(2 * small_random() + 1);
            }
            cr_assert_null(cpu_scan_lanes(pool, &scan, (const void *[]){&inits[0], &inits[1]},
                                          (void *[]){outs[0], outs[1]}, (const void *[]){ins[0], ins[1]}));
            check_composed(&scan, ins, outs);
            for (int i = 0; i < 2; i++) hlo_free(ins[i]), hlo_free(outs[i]);
        }
}

Test(cpu_window, scans_nothing_by_any_combiner, .init = open_pool, .fini = close_pool) {
    int64_t lanes = 4;
    const HloType type = HLO_U32;
    const CpuLanesScan none = {1, &type, false, 3, 0, 2, lanes, compose_lanes, &lanes};
    cr_assert_null(cpu_scan_lanes(pool, &none, NULL, NULL, NULL));
}

Test(cpu_window, selects_and_scatters, .init = open_pool, .fini = close_pool) {
    const int64_t sizes[3] = {5, 9, 4};
    const CpuWindowDim windows[2][3] = {{{1, 1, 0, 0, 1, 1}, {3, 2, 1, 1, 1, 1}, {2, 2, 0, 0, 1, 1}},
                                        {{2, 1, 0, 0, 1, 1}, {3, 3, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}}};
    for (int t = 0; t < 6; t++)
        for (int w = 0; w < 2; w++) {
            int64_t outs[3];
            char operand[180 * 8], source[400 * 8], out[180 * 8], init[8];
            double want[180];
            for (int d = 0; d < 3; d++) outs[d] = windows_along(&windows[w][d], sizes[d]);
            for (int i = 0; i < 180; i++) put(kTypes[t], operand, i, small_random()), want[i] = 2;
            for (int i = 0; i < outs[0] * outs[1] * outs[2]; i++) put(kTypes[t], source, i, small_random());
            put(kTypes[t], init, 0, 2);
            cr_assert_null(cpu_select_and_scatter(pool, kTypes[t], CPU_OP_GE, CPU_REDUCE_ADD, 3, sizes, outs,
                                                  windows[w], init, out, operand, source));
            for (int64_t i = 0; i < outs[0] * outs[1] * outs[2]; i++) {
                const int64_t index[3] = {i / (outs[1] * outs[2]), i / outs[2] % outs[1], i % outs[2]};
                int64_t best = -1;
                for (int64_t p = 0; p < windows[w][0].size * windows[w][1].size * windows[w][2].size; p++) {
                    const int64_t place[3] = {p / (windows[w][1].size * windows[w][2].size),
                                              p / windows[w][2].size % windows[w][1].size, p % windows[w][2].size};
                    const int64_t element = under(windows[w], sizes, index, place);
                    if (element >= 0 && (best < 0 || get(kTypes[t], operand, element) > get(kTypes[t], operand, best)))
                        best = element;
                }
                want[best] += get(kTypes[t], source, i);
            }
            for (int i = 0; i < 180; i++) cr_assert_eq(get(kTypes[t], out, i), want[i]);
        }
}

static bool keeps_larger(void *context, const void *chosen, const void *element) {
    (void)context;
    return *(const float *)chosen >= *(const float *)element;
}

static bool keeps_smaller(void *context, const void *chosen, const void *element) {
    (void)context;
    return *(const float *)chosen <= *(const float *)element;
}

// Overlapping windows, padding, NaN, ties, more neighbours than are taken side by side and none: the gradient of
// pooling is the definition's to the bit, for any number of workers.
Test(cpu_window, selects_as_the_definition_does) {
    enum { kMost = 3 * 9 * 11 * 70 };
    static float operand[kMost], source[kMost], out[kMost], wanted[kMost];
    static const CpuWindowDim windows[][4] = {
        {{1, 1, 0, 0, 1, 1}, {3, 2, 1, 1, 1, 1}, {2, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}},
        {{1, 1, 0, 0, 1, 1}, {2, 2, 0, 0, 1, 1}, {3, 3, 2, 1, 1, 2}, {1, 1, 0, 0, 1, 1}},
        {{1, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}, {3, 2, 1, 1, 2, 1}, {4, 3, 1, 2, 1, 1}},
        {{1, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}},
    };
    const int64_t sizes[4] = {3, 9, 11, 70};
    const HloType type = HLO_F32;
    const float init = 0.5f;
    for (int i = 0; i < kMost; i++) {
        operand[i] = i % 97 == 0 ? NAN : (float)small_random();
        source[i] = (float)(i % 23) / 7;
    }
    for (size_t w = 0; w < HLO_COUNT_OF(windows); w++)
        for (int form = 0; form < 4; form++) {
            int64_t sources[4];
            CpuPool *workers;
            for (int d = 0; d < 4; d++) sources[d] = windows_along(&windows[w][d], sizes[d]);
            cr_assert_null(cpu_pool_new_with(form % 2 ? 3 : 1, CPU_FEATURES_AMX, &workers));
            cr_assert_null(cpu_select_and_scatter(workers, type, form < 2 ? CPU_OP_GE : CPU_OP_LE, CPU_REDUCE_ADD, 4,
                                                  sizes, sources, windows[w], &init, out, operand, source));
            cr_assert_null(cpu_select_and_scatter_call(workers, type, 4, sizes, sources, windows[w], &init, wanted,
                                                       operand, source, form < 2 ? keeps_larger : keeps_smaller, NULL,
                                                       add_call, NULL));
            cr_assert_eq(memcmp(out, wanted, sizeof out), 0, "window %zu, form %d", w, form);
            cpu_pool_free(workers);
        }
}

// ---- windows of the innermost dimension

// Rows of whole numbers, zeros of both signs and NaN, which any order of additions gives the same sums of. The numbers
// of rows are no multiples of those that are joined.
typedef struct PooledRows {
    int64_t rows, length;
    CpuWindowDim window;
    int64_t beside;  // numbers of one position, whose windows are side by side
} PooledRows;

static const PooledRows kPooled[] = {
    // They tile their row: side by side, with gaps between them, dilated, one row, long rows.
    {301, 28, {2, 2, 0, 0, 1, 1}, 1},
    {701, 5, {5, 5, 0, 0, 1, 1}, 1},
    {997, 12, {2, 4, 0, 0, 1, 1}, 1},
    {501, 9, {2, 3, 0, 0, 1, 2}, 1},
    {333, 8, {1, 2, 0, 0, 1, 1}, 1},
    {1, 64, {2, 2, 0, 0, 1, 1}, 1},
    {3, 6000, {3, 3, 0, 0, 1, 1}, 1},
    {1500, 7, {7, 7, 0, 0, 1, 1}, 1},
    // They do not: a rest, overlaps, padding of either or no side, which a window may consist of.
    {97, 29, {2, 2, 0, 0, 1, 1}, 1},
    {97, 28, {3, 2, 0, 1, 1, 1}, 1},
    {97, 28, {3, 2, 1, 0, 1, 1}, 1},
    {97, 28, {2, 2, 0, 2, 1, 1}, 1},
    {97, 28, {2, 2, 2, 0, 1, 1}, 1},
    {97, 28, {3, 4, 0, 0, 1, 2}, 1},
    {97, 28, {2, 1, 0, 0, 1, 3}, 1},
    {97, 28, {2, 2, -2, 2, 1, 1}, 1},
    {97, 28, {2, 2, 0, 0, 2, 1}, 1},
    // Several numbers at each position, in more than one block: overlaps, padding, cuts, gaps, windows of padding.
    {3, 40, {2, 1, 0, 0, 1, 1}, 33},
    {3, 40, {3, 1, 1, 1, 1, 1}, 33},
    {1, 700, {3, 1, 2, 0, 1, 1}, 3},
    {3, 40, {2, 1, -3, -1, 1, 2}, 33},
    {3, 40, {2, 1, 5, 5, 1, 3}, 33},
    {5, 20, {2, 2, 0, 1, 1, 1}, 35},
    {5, 20, {2, 1, 1, 0, 2, 1}, 35},
    {2, 5, {9, 1, 4, 4, 1, 1}, 300},
};
static const CpuReduceOp kPoolings[] = {CPU_REDUCE_ADD, CPU_REDUCE_MAXIMUM, CPU_REDUCE_MINIMUM};

// Extremes take a NaN, and +0 is larger than -0.
static double pooled(CpuReduceOp op, double a, double b) {
    if (op == CPU_REDUCE_ADD || isnan(a) || isnan(b)) return a + b;
    const bool larger = a > b || (a == b && signbit(b) && !signbit(a));
    return larger == (op == CPU_REDUCE_MAXIMUM) ? a : b;
}

static double pooled_window(const PooledRows *p, CpuReduceOp op, HloType type, const char *in, int64_t row, int64_t o,
                            double init) {
    const int64_t beside = p->beside, number = o % beside;
    double sum = init;
    o /= beside;
    for (int64_t k = 0; k < p->window.size; k++) {
        const int64_t at = o * p->window.stride + k * p->window.window_dilation - p->window.padding_low;
        if (at < 0 || at % p->window.base_dilation || at / p->window.base_dilation >= p->length) continue;
        sum = pooled(op, sum, get(type, in, (row * p->length + at / p->window.base_dilation) * beside + number));
    }
    return sum;
}

static void check_pooled(const PooledRows *p, CpuReduceOp op, HloType type, double init) {
    static const double kSpecial[] = {0.0, -0.0, NAN, -0.0};
    const int64_t beside = p->beside, along = windows_along(&p->window, p->length), windows = along * beside,
                  total = p->rows * p->length * beside, width = hlo_type_bytes(type);
    const int64_t in_sizes[3] = {p->rows, p->length, beside}, out_sizes[3] = {p->rows, along, beside};
    const CpuWindowDim dims[3] = {{1, 1, 0, 0, 1, 1}, p->window, {1, 1, 0, 0, 1, 1}};
    char *in = hlo_allocate_aligned((size_t)(total * width)),
         *out = hlo_allocate_aligned((size_t)(p->rows * windows * width)), start[8];
    for (int64_t i = 0; i < total; i++) {
        const int number = small_random();
        const bool special = hlo_type_is_float(type) && i / 40 % 2 == 0;
        put(type, in, i, special ? kSpecial[number == 2 ? 2 : (number + 3) % 2] : number);
    }
    put(type, start, 0, init);
    cr_assert_null(cpu_reduce_window(pool, type, op, 3, in_sizes, out_sizes, dims, start, out, in));
    for (int64_t i = 0; i < p->rows * windows; i++) {
        const double want = pooled_window(p, op, type, in, i / windows, i % windows, init), got = get(type, out, i);
        cr_assert(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want),
                  "%s windows of %lld by %lld, op %d, init %g, at %lld: %g, not %g", hlo_type_text(type),
                  (long long)p->window.size, (long long)p->window.stride, op, init, (long long)i, got, want);
    }
    hlo_free(in), hlo_free(out);
}

Test(cpu_window, pools_rows_of_any_length) {
    static const HloType types[] = {HLO_F32, HLO_F64, HLO_BF16, HLO_F16, HLO_S8, HLO_S16, HLO_S32, HLO_S64};
    static const double inits[] = {0.0, -0.0, -INFINITY, INFINITY};
    for (int set = levels_first(); set <= levels_last(); set++) {
        cr_assert_null(cpu_pool_new_with(3, (CpuFeatures)set, &pool));
        for (size_t t = 0; t < HLO_COUNT_OF(types); t++)
            for (size_t w = 0; w < HLO_COUNT_OF(kPooled); w++)
                for (size_t op = 0; op < HLO_COUNT_OF(kPoolings); op++)
                    for (size_t i = 0; i < (hlo_type_is_float(types[t]) ? HLO_COUNT_OF(inits) : 1); i++)
                        check_pooled(&kPooled[w], kPoolings[op], types[t], inits[i]);
        close_pool();
    }
}

// An array without elements whose padding has windows: they are the initial value.
Test(cpu_window, pools_an_array_without_elements, .init = open_pool, .fini = close_pool) {
    const int64_t in_sizes[3] = {3, 4, 0}, out_sizes[3] = {3, 3, 5};
    const CpuWindowDim dims[3] = {{1, 1, 0, 0, 1, 1}, {2, 1, 0, 0, 1, 1}, {2, 1, 3, 3, 1, 1}};
    const float init = 7, in = 0;
    float out[45];
    cr_assert_null(cpu_reduce_window(pool, HLO_F32, CPU_REDUCE_ADD, 3, in_sizes, out_sizes, dims, &init, out, &in));
    for (int i = 0; i < 45; i++) cr_assert_eq(out[i], 7);
}
