// SPDX-License-Identifier: Apache-2.0
// The fused-loop engine against plain scalar loops, on several instruction sets and numbers of workers.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "targets/cpu/isa/isa.h"
#include "targets/cpu/loop/loop.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/levels.h"

enum { kMaximumElements = 1 << 20 };

typedef struct Setting {
    int workers;
    int features;
} Setting;

// One worker on the least set that is tried, and the best one.
static const Setting kOneWorker = {1, CPU_FEATURES_BASELINE}, kBestOfOneWorker = {1, CPU_FEATURES_AMX};

// Every set on one worker, and the last on three.
static struct criterion_test_params all_settings(void) {
    Setting *settings = cr_malloc(sizeof(Setting) * (CPU_FEATURES_COUNT + 1));
    size_t count = 0;
    for (int set = levels_first(); set <= levels_last(); set++) settings[count++] = (Setting){1, set};
    settings[count++] = (Setting){3, levels_last()};
    return cr_make_param_array(Setting, settings, count);
}

static HloArena *arena;
static CpuPool *pool;

static void open_setting(const Setting *setting) {
    arena = hlo_arena_new();
    cr_assert_null(cpu_pool_new_with(setting->workers, (CpuFeatures)setting->features, &pool));
}

static void close_setting(void) {
    cpu_pool_free(pool);
    hlo_arena_free(arena);
}

static CpuLoopBuilder *new_builder(int outer, int reduced, int inner, const int64_t *dims) {
    const CpuLoopDomain domain = {.outer = outer, .reduced = reduced, .inner = inner, .dims = dims};
    return cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
}

static void run(CpuLoopBuilder *builder, void *const *buffers) {
    CpuLoop *loop;
    const HloStatus status = cpu_loop_finish(builder, &loop);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(cpu_loop_run(loop, pool, buffers));
}

static CpuValue load(CpuLoopBuilder *b, int buffer, HloType type, int64_t offset, const int64_t *strides) {
    return cpu_loop_load(b, buffer, type, &(CpuIndexMap){offset, strides});
}

static void store(CpuLoopBuilder *b, int buffer, CpuValue value, int64_t offset, const int64_t *strides) {
    cpu_loop_store(b, buffer, value, &(CpuIndexMap){offset, strides});
}

static CpuValue constant_f32(CpuLoopBuilder *b, float value) {
    return cpu_loop_constant(b, HLO_F32, &value);
}

static float *random_floats(int64_t count, unsigned seed) {
    float *values = hlo_arena_allocate(arena, sizeof(float) * (size_t)count);
    uint32_t state = seed * 2654435761u + 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = (float)(int32_t)state * 0x1p-30f;
    }
    return values;
}

#define SETTINGS(name)         \
    CaseList(cpu_loop, name) { \
        return all_settings(); \
    }                          \
    CaseTest(Setting *setting, cpu_loop, name)

SETTINGS(adds_contiguous_arrays) {
    open_setting(setting);
    static const int64_t sizes[] = {0, 1, 5, 1024, 1025, 100000};
    for (int s = 0; s < 6; s++) {
        const int64_t n = sizes[s], one[] = {1};
        float *a = random_floats(n + 1, 1), *b = random_floats(n + 1, 2), *out = random_floats(n + 1, 3);
        const float guard = out[n];
        CpuLoopBuilder *builder = new_builder(1, 0, 0, &n);
        const CpuValue sum =
            cpu_loop_op(builder, CPU_OP_ADD, load(builder, 0, HLO_F32, 0, one), load(builder, 1, HLO_F32, 0, one), -1);
        store(builder, 2, cpu_loop_op(builder, CPU_OP_MULTIPLY, sum, constant_f32(builder, 2), -1), 0, one);
        run(builder, (void *[]){a, b, out});
        for (int64_t i = 0; i < n; i++) cr_assert_eq(out[i], (a[i] + b[i]) * 2);
        cr_assert_eq(out[n], guard);
    }
    close_setting();
}

// out[i, j, k] = row[j] + transposed[k, j, i] * reversed[i, j, K-1-k], for inner sizes around the block size.
SETTINGS(reads_through_index_maps) {
    open_setting(setting);
    static const int64_t shapes[][3] = {{3, 4, 5}, {2, 3, 700}, {7, 2, 1500}, {1, 1, 1}, {40, 50, 2}};
    for (int s = 0; s < 5; s++) {
        const int64_t *d = shapes[s], total = d[0] * d[1] * d[2];
        float *row = random_floats(d[1], 1), *turned = random_floats(total, 2), *back = random_floats(total, 3);
        float *out = random_floats(total, 4);
        CpuLoopBuilder *b = new_builder(3, 0, 0, d);
        const CpuValue r = load(b, 0, HLO_F32, 0, (int64_t[]){0, 1, 0});
        const CpuValue t = load(b, 1, HLO_F32, 0, (int64_t[]){1, d[0], d[0] * d[1]});
        const CpuValue v = load(b, 2, HLO_F32, d[2] - 1, (int64_t[]){d[1] * d[2], d[2], -1});
        const CpuValue product = cpu_loop_op(b, CPU_OP_MULTIPLY, t, v, -1);
        store(b, 3, cpu_loop_op(b, CPU_OP_ADD, r, product, -1), 0, (int64_t[]){d[1] * d[2], d[2], 1});
        run(b, (void *[]){row, turned, back, out});
        for (int64_t i = 0; i < total; i++) {
            const int64_t x = i / (d[1] * d[2]), y = i / d[2] % d[1], z = i % d[2];
            const float want = row[y] + turned[(z * d[1] + y) * d[0] + x] * back[(x * d[1] + y) * d[2] + d[2] - 1 - z];
            cr_assert_eq(out[i], want, "shape %d element %lld", s, (long long)i);
        }
    }
    close_setting();
}

SETTINGS(writes_in_place_and_several_outputs) {
    open_setting(setting);
    const int64_t n = 5000, one[] = {1}, two[] = {2};
    float *a = random_floats(n, 1), *was = random_floats(n, 1), *b2 = random_floats(2 * n, 2);
    CpuLoopBuilder *b = new_builder(1, 0, 0, &n);
    const CpuValue x = load(b, 0, HLO_F32, 0, one);
    const CpuValue next = cpu_loop_op(b, CPU_OP_ADD, x, constant_f32(b, 1), -1);
    store(b, 0, next, 0, one);
    store(b, 1, cpu_loop_op(b, CPU_OP_MULTIPLY, x, x, -1), 1, two);
    run(b, (void *[]){a, b2});
    for (int64_t i = 0; i < n; i++) {
        cr_assert_eq(a[i], was[i] + 1);
        cr_assert_eq(b2[2 * i + 1], was[i] * was[i]);
    }
    close_setting();
}

// Arrays that no cache holds together: results go past the caches, but where one is written over its operand.
SETTINGS(adds_and_copies_large_arrays) {
    open_setting(setting);
    const int64_t n = 5500013, one[] = {1};
    float *a = random_floats(n, 1), *b = random_floats(n, 2), *sum = random_floats(n + 1, 3),
          *copy = random_floats(n, 4);
    const float guard = sum[n];
    for (int in_place = 0; in_place < 2; in_place++) {
        CpuLoopBuilder *builder = new_builder(1, 0, 0, &n);
        const CpuValue x = load(builder, 0, HLO_F32, 0, one), y = load(builder, 1, HLO_F32, 0, one);
        store(builder, 2, cpu_loop_op(builder, CPU_OP_ADD, x, y, -1), 0, one);
        store(builder, 3, y, 0, one);
        run(builder, (void *[]){a, b, in_place ? a : sum, copy});
        for (int64_t i = 0; i < n; i++) {
            if (in_place)
                cr_assert_eq(a[i], sum[i]);
            else
                cr_assert_eq(sum[i], a[i] + b[i]);
            cr_assert_eq(copy[i], b[i]);
        }
        memset(copy, 0, sizeof(float) * (size_t)n);
    }
    cr_assert_eq(sum[n], guard);
    close_setting();
}

SETTINGS(iota_in_all_widths) {
    open_setting(setting);
    const int64_t dims[] = {30, 70}, strides[] = {70, 1};
    uint32_t out32[2100];
    uint64_t out64[2100];
    float outf[2100];
    CpuLoopBuilder *b = new_builder(2, 0, 0, dims);
    store(b, 0, cpu_loop_index(b, HLO_U32, &(CpuIndexMap){3, (int64_t[]){0, 2}}), 0, strides);
    store(b, 1, cpu_loop_index(b, HLO_U64, &(CpuIndexMap){INT64_C(1) << 40, (int64_t[]){100, 1}}), 0, strides);
    store(b, 2, cpu_loop_index(b, HLO_F32, &(CpuIndexMap){0, (int64_t[]){1, 0}}), 0, strides);
    run(b, (void *[]){out32, out64, outf});
    for (int i = 0; i < 2100; i++) {
        cr_assert_eq(out32[i], (uint32_t)(3 + 2 * (i % 70)));
        cr_assert_eq(out64[i], (UINT64_C(1) << 40) + 100 * (uint64_t)(i / 70) + (uint64_t)(i % 70));
        cr_assert_eq(outf[i], (float)(i / 70));
    }
    close_setting();
}

// ---- reductions

static void check_row_sums(int64_t rows, int64_t n) {
    float *a = random_floats(rows * n + 1, 5), *out = random_floats(rows, 6), *maxima = random_floats(rows, 7);
    const int64_t dims[] = {rows, n}, full[] = {n, 1}, kept[] = {1, 0};
    CpuLoopBuilder *b = new_builder(1, 1, 0, dims);
    const CpuValue x = load(b, 0, HLO_F32, 0, full);
    const CpuValue square = cpu_loop_op(b, CPU_OP_MULTIPLY, x, x, -1);
    const CpuValue sum = cpu_loop_reduce(b, CPU_REDUCE_ADD, square, constant_f32(b, 1));
    const CpuValue maximum = cpu_loop_reduce(b, CPU_REDUCE_MAXIMUM, x, constant_f32(b, -INFINITY));
    store(b, 1, cpu_loop_op(b, CPU_OP_ADD, sum, constant_f32(b, 0.5f), -1), 0, kept);
    store(b, 2, maximum, 0, kept);
    run(b, (void *[]){a, out, maxima});
    for (int64_t r = 0; r < rows; r++) {
        double exact = 1.5;
        float largest = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            exact += (double)a[r * n + i] * a[r * n + i];
            largest = a[r * n + i] > largest ? a[r * n + i] : largest;
        }
        cr_assert_float_eq(out[r], exact, 1e-5 * exact, "%lld x %lld: %g, not %g", (long long)rows, (long long)n,
                           out[r], exact);
        cr_assert_eq(maxima[r], largest);
    }
}

SETTINGS(reduces_rows) {
    open_setting(setting);
    static const int64_t shapes[][2] = {{1, 1},    {7, 0},    {1000, 3},   {33, 64},
                                        {5, 1024}, {3, 5000}, {2, 200000}, {1, 500001}};
    for (int s = 0; s < 8; s++) check_row_sums(shapes[s][0], shapes[s][1]);
    close_setting();
}

// One number for each row, as either operand of operations over the row, beside one that all rows share.
static void check_row_numbers(int64_t rows, int64_t n) {
    float *a = random_floats(rows * n, 5), *c = random_floats(rows, 6), *out = random_floats(3 * rows * n, 7);
    float *maxima = random_floats(rows, 8);
    const int64_t dims[] = {rows, n}, full[] = {n, 1}, kept[] = {1, 0};
    CpuLoopBuilder *b = new_builder(1, 1, 0, dims);
    const CpuValue x = load(b, 0, HLO_F32, 0, full), y = load(b, 1, HLO_F32, 0, kept), half = constant_f32(b, 0.5f);
    const CpuValue sum = cpu_loop_op(b, CPU_OP_ADD, y, x, -1), difference = cpu_loop_op(b, CPU_OP_SUBTRACT, y, x, -1);
    const CpuValue scaled = cpu_loop_op(b, CPU_OP_DIVIDE, cpu_loop_op(b, CPU_OP_MULTIPLY, half, x, -1), y, -1);
    const CpuValue maximum = cpu_loop_reduce(b, CPU_REDUCE_MAXIMUM, sum, constant_f32(b, -INFINITY));
    store(b, 2, sum, 0, full);
    store(b, 2, difference, rows * n, full);
    store(b, 2, scaled, 2 * rows * n, full);
    store(b, 3, maximum, 0, kept);
    run(b, (void *[]){a, c, out, maxima});
    for (int64_t r = 0; r < rows; r++) {
        float largest = -INFINITY;
        for (int64_t i = r * n; i < (r + 1) * n; i++) {
            const float want[] = {c[r] + a[i], c[r] - a[i], 0.5f * a[i] / c[r]};
            for (int k = 0; k < 3; k++)
                cr_assert_eq(out[k * rows * n + i], want[k], "%lld x %lld, result %d", (long long)rows, (long long)n,
                             k);
            largest = want[0] > largest ? want[0] : largest;
        }
        cr_assert_eq(maxima[r], largest);
    }
}

SETTINGS(combines_rows_with_one_number) {
    open_setting(setting);
    static const int64_t shapes[][2] = {{40, 3}, {9, 127}, {9, 128}, {33, 200}, {5, 700}, {3, 1500}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) check_row_numbers(shapes[s][0], shapes[s][1]);
    close_setting();
}

SETTINGS(reduces_columns) {
    open_setting(setting);
    static const int64_t shapes[][3] = {{1, 9, 5}, {3, 2000, 70}, {2, 17, 1500}, {4, 1, 3},
                                        {2, 0, 3}, {90, 40, 3},   {2, 1300, 3},  {2, 7, 300}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const int64_t *d = shapes[s], kept = d[0] * d[2];
        float *a = random_floats(kept * d[1] + 1, 5), *bias = random_floats(d[2], 6), *out = random_floats(kept, 7);
        CpuLoopBuilder *b = new_builder(1, 1, 1, d);
        const CpuValue x = load(b, 0, HLO_F32, 0, (int64_t[]){d[1] * d[2], d[2], 1});
        const CpuValue shift = load(b, 1, HLO_F32, 0, (int64_t[]){0, 0, 1});
        const CpuValue moved = cpu_loop_op(b, CPU_OP_ADD, x, shift, -1);
        const CpuValue sum = cpu_loop_reduce(b, CPU_REDUCE_ADD, moved, constant_f32(b, 2));
        store(b, 2, cpu_loop_op(b, CPU_OP_MULTIPLY, sum, shift, -1), 0, (int64_t[]){d[2], 0, 1});
        run(b, (void *[]){a, bias, out});
        for (int64_t k = 0; k < kept; k++) {
            double exact = 2, magnitude = 2;
            for (int64_t r = 0; r < d[1]; r++) {
                const double term = (double)a[(k / d[2] * d[1] + r) * d[2] + k % d[2]] + bias[k % d[2]];
                exact += term;
                magnitude += fabs(term);
            }
            cr_assert_float_eq(out[k], exact * bias[k % d[2]], 1e-5 * magnitude, "shape %zu column %lld", s,
                               (long long)k);
        }
    }
    close_setting();
}

SETTINGS(fuses_softmax) {
    open_setting(setting);
    static const int64_t shapes[][2] = {{50, 10}, {3, 1000}, {4, 30000}};
    for (int s = 0; s < 3; s++) {
        const int64_t rows = shapes[s][0], n = shapes[s][1], full[] = {n, 1};
        float *a = random_floats(rows * n, 8), *out = random_floats(rows * n, 9);
        CpuLoopBuilder *b = new_builder(1, 1, 0, shapes[s]);
        const CpuValue x = load(b, 0, HLO_F32, 0, full);
        const CpuValue maximum = cpu_loop_reduce(b, CPU_REDUCE_MAXIMUM, x, constant_f32(b, -INFINITY));
        const CpuValue e = cpu_loop_op(b, CPU_OP_EXP, cpu_loop_op(b, CPU_OP_SUBTRACT, x, maximum, -1), -1, -1);
        const CpuValue sum = cpu_loop_reduce(b, CPU_REDUCE_ADD, e, constant_f32(b, 0));
        store(b, 1, cpu_loop_op(b, CPU_OP_DIVIDE, e, sum, -1), 0, full);
        run(b, (void *[]){a, out});
        for (int64_t r = 0; r < rows; r++) {
            double total = 0;
            for (int64_t i = 0; i < n; i++) total += exp(a[r * n + i]);
            for (int64_t i = 0; i < n; i++)
                cr_assert_float_eq(out[r * n + i], exp(a[r * n + i]) / total, 4e-6 * exp(a[r * n + i]) / total);
        }
    }
    close_setting();
}

Test(cpu_loop, refuses_rows_that_do_not_fit) {
    open_setting(&kOneWorker);
    const int64_t dims[] = {1, 1 << 24}, full[] = {1 << 24, 1};
    CpuLoopBuilder *b = new_builder(1, 1, 0, dims);
    const CpuValue x = load(b, 0, HLO_F32, 0, full);
    const CpuValue sum = cpu_loop_reduce(b, CPU_REDUCE_ADD, x, constant_f32(b, 0));
    store(b, 1, cpu_loop_op(b, CPU_OP_DIVIDE, cpu_loop_op(b, CPU_OP_EXP, x, -1, -1), sum, -1), 0, full);
    CpuLoop *loop;
    must_fail(cpu_loop_finish(b, &loop), HLO_RESOURCE_EXHAUSTED, "rows of 16777216 elements are too long to be kept");
    close_setting();
}

// Arg-max as a generic reduction of two operands, over the first dimension.
static void check_combiner(int rows, int columns) {
    const int64_t dims[] = {rows, columns}, full[] = {columns, 1}, kept[] = {0, 1};
    float *a = random_floats(rows * columns, 11), best[64];
    int32_t where[64];
    for (int i = 0; i < rows * columns; i++) a[i] = floorf(a[i] * 10);
    CpuLoopBuilder *b = new_builder(0, 1, 1, dims);
    const CpuValue values[] = {load(b, 0, HLO_F32, 0, full),
                               cpu_loop_index(b, HLO_S32, &(CpuIndexMap){0, (int64_t[]){1, 0}})};
    const int32_t zero = 0;
    const CpuValue inits[] = {constant_f32(b, -INFINITY), cpu_loop_constant(b, HLO_S32, &zero)};
    CpuValue acc[2], element[2], results[2];
    cpu_loop_combine_begin(b, 2, values, inits, acc, element);
    const CpuValue better = cpu_loop_op(b, CPU_OP_GE, acc[0], element[0], -1);
    const CpuValue combined[] = {cpu_loop_op(b, CPU_OP_SELECT, better, acc[0], element[0]),
                                 cpu_loop_op(b, CPU_OP_SELECT, better, acc[1], element[1])};
    cpu_loop_combine_end(b, 2, combined, results);
    store(b, 1, results[0], 0, kept);
    store(b, 2, results[1], 0, kept);
    run(b, (void *[]){a, best, where});
    for (int c = 0; c < columns; c++) {
        int want = 0;
        for (int r = 1; r < rows; r++)
            if (a[r * columns + c] > a[want * columns + c]) want = r;
        cr_assert_eq(where[c], want);
        cr_assert_eq(best[c], a[want * columns + c]);
    }
}

SETTINGS(reduces_with_any_combiner) {
    open_setting(setting);
    check_combiner(1300, 37);
    check_combiner(1300, 3);
    check_combiner(5, 2);
    close_setting();
}

Test(cpu_loop, results_do_not_depend_on_workers) {
    float results[3][64];
    for (int w = 0; w < 3; w++) {
        open_setting(&(Setting){w == 0 ? 1 : w * 4 - 1, CPU_FEATURES_AMX});
        const int64_t dims[] = {1, 600000}, columns[] = {9000, 63};
        float *a = random_floats(600000, 21);
        CpuLoopBuilder *b = new_builder(1, 1, 0, dims);
        store(b, 1, cpu_loop_reduce(b, CPU_REDUCE_ADD, load(b, 0, HLO_F32, 0, (int64_t[]){0, 1}), constant_f32(b, 0)),
              63, (int64_t[]){0, 0});
        run(b, (void *[]){a, results[w]});
        b = new_builder(0, 1, 1, columns);
        store(b, 1, cpu_loop_reduce(b, CPU_REDUCE_ADD, load(b, 0, HLO_F32, 0, (int64_t[]){63, 1}), constant_f32(b, 0)),
              0, (int64_t[]){0, 1});
        run(b, (void *[]){a, results[w]});
        close_setting();
    }
    cr_assert_eq(memcmp(results[0], results[1], sizeof results[0]), 0);
    cr_assert_eq(memcmp(results[0], results[2], sizeof results[0]), 0);
}

// ---- rounds of Threefry, which become one kernel with two results

enum { kGroups = 5, kRoundsEach = 4 };

typedef struct MixSetting {
    int first_turn;     // the groups' rotations are kTurns[(first_turn + group) % 3]
    bool apart;         // the key's second part and the group's number are added one after the other
    int seen;           // this group's sum after two rounds is stored too, so that the group is not joined; -1: none
    bool added_before;  // the constant is the first operand of the sum
} MixSetting;

static const uint32_t kTurns[3][kRoundsEach] = {{13, 15, 26, 6}, {17, 29, 16, 24}, {1, 31, 8, 5}};

static CpuValue constant_u32(CpuLoopBuilder *b, uint32_t value) {
    return cpu_loop_constant(b, HLO_U32, &value);
}

// The shifts are in the form in which programs have them.
static CpuValue turned(CpuLoopBuilder *b, CpuValue x, uint32_t by) {
    return cpu_loop_op(b, CPU_OP_OR, cpu_loop_op(b, CPU_OP_SHIFT_LEFT, x, constant_u32(b, by), -1),
                       cpu_loop_op(b, CPU_OP_SHIFT_RIGHT_LOGICAL, x, constant_u32(b, 32 - by), -1), -1);
}

static void build_mixing(CpuLoopBuilder *b, const MixSetting *how) {
    const int64_t one[] = {1}, none[] = {0};
    const uint64_t half = 32;
    const CpuValue place = cpu_loop_index(b, HLO_U64, &(CpuIndexMap){7, one});
    CpuValue x = cpu_loop_convert(
        b, HLO_U32, cpu_loop_op(b, CPU_OP_SHIFT_RIGHT_LOGICAL, place, cpu_loop_constant(b, HLO_U64, &half), -1));
    CpuValue y = cpu_loop_op(b, CPU_OP_XOR, cpu_loop_convert(b, HLO_U32, place), load(b, 0, HLO_U32, 0, one), -1);
    const CpuValue key[] = {load(b, 1, HLO_U32, 0, none), load(b, 1, HLO_U32, 1, none)};
    for (int g = 0; g < kGroups; g++) {
        const uint32_t *turns = kTurns[(how->first_turn + g) % 3];
        for (int r = 0; r < kRoundsEach; r++) {
            x = cpu_loop_op(b, CPU_OP_ADD, x, y, -1);
            y = cpu_loop_op(b, CPU_OP_XOR, x, turned(b, y, turns[r]), -1);
            if (g == how->seen && r == 1) store(b, 4, x, 0, one);
        }
        x = cpu_loop_op(b, CPU_OP_ADD, x, key[g % 2], -1);
        const CpuValue number = constant_u32(b, (uint32_t)g + 1);
        if (how->apart && how->added_before)
            y = cpu_loop_op(b, CPU_OP_ADD, number, cpu_loop_op(b, CPU_OP_ADD, y, key[(g + 1) % 2], -1), -1);
        else if (how->apart)
            y = cpu_loop_op(b, CPU_OP_ADD, cpu_loop_op(b, CPU_OP_ADD, y, key[(g + 1) % 2], -1),
                            constant_u32(b, (uint32_t)g + 1), -1);
        else
            y = cpu_loop_op(b, CPU_OP_ADD, y, cpu_loop_op(b, CPU_OP_ADD, key[(g + 1) % 2], number, -1), -1);
    }
    store(b, 2, x, 0, one);
    store(b, 3, y, 0, one);
}

static void mix_one(const MixSetting *how, uint32_t place, uint32_t value, const uint32_t key[2], uint32_t results[3]) {
    uint32_t x = 0, y = (7 + place) ^ value;
    results[2] = 0;
    for (int g = 0; g < kGroups; g++) {
        const uint32_t *turns = kTurns[(how->first_turn + g) % 3];
        for (int r = 0; r < kRoundsEach; r++) {
            x += y;
            y = x ^ (y << turns[r] | y >> (32 - turns[r]));
            if (g == how->seen && r == 1) results[2] = x;
        }
        x += key[g % 2];
        y += key[(g + 1) % 2] + (uint32_t)g + 1;
    }
    results[0] = x;
    results[1] = y;
}

SETTINGS(mixes_as_threefry_does) {
    open_setting(setting);
    static const int64_t sizes[] = {1, 64, 65, 511, 512, 513, 5000};
    static const MixSetting hows[] = {{0, false, -1, false}, {0, true, -1, false}, {1, true, -1, true},
                                      {2, false, -1, false}, {0, true, 0, false},  {0, true, 2, true},
                                      {1, false, 4, false}};
    for (size_t h = 0; h < sizeof hows / sizeof hows[0]; h++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            const int64_t n = sizes[s];
            uint32_t *results[3], *values = hlo_arena_allocate(arena, sizeof(uint32_t) * (size_t)n);
            const uint32_t key[2] = {0xdeadbeef, 0x12345679};
            for (int i = 0; i < 3; i++) {
                results[i] = hlo_arena_allocate(arena, sizeof(uint32_t) * (size_t)n);
                memset(results[i], 0, sizeof(uint32_t) * (size_t)n);
            }
            for (int64_t i = 0; i < n; i++) values[i] = (uint32_t)i * 2654435761u;
            CpuLoopBuilder *b = new_builder(1, 0, 0, &n);
            build_mixing(b, &hows[h]);
            run(b, (void *[]){values, (void *)(uintptr_t)key, results[0], results[1], results[2]});
            for (int64_t i = 0; i < n; i++) {
                uint32_t want[3];
                mix_one(&hows[h], (uint32_t)i, values[i], key, want);
                for (int k = 0; k < 3; k++)
                    cr_assert_eq(results[k][i], want[k], "setting %zu, %lld elements: result %d of %lld", h,
                                 (long long)n, k, (long long)i);
            }
        }
    close_setting();
}

// Combines one element as the operation does, in the width of the type.
static uint32_t combined(CpuReduceOp op, uint32_t x, uint32_t y, uint32_t mask) {
    switch (op) {
        case CPU_REDUCE_ADD: return (x + y) & mask;
        case CPU_REDUCE_MULTIPLY: return (x * y) & mask;
        case CPU_REDUCE_MAXIMUM: return x > y ? x : y;
        case CPU_REDUCE_MINIMUM: return x < y ? x : y;
        case CPU_REDUCE_AND: return x & y;
        case CPU_REDUCE_OR: return x | y;
        default: return x ^ y;
    }
}

// Rows of narrow integers, few and many, narrow and wide, with and without gaps between them; what comes after a row of
// the result stays as it is.
static void check_narrow_columns(CpuColumnKernel *kernel, CpuReduceOp op, int width, int64_t rows, int64_t n,
                                 int64_t stride) {
    enum { kMost = 20 * 600 };
    static unsigned char from[2 * kMost], to[2 * kMost], wanted[2 * kMost];
    const uint32_t mask = width == 1 ? 0xff : 0xffff;
    for (int i = 0; i < 2 * kMost; i++) {
        from[i] = (unsigned char)(i * 37 + i / 251);
        to[i] = wanted[i] = (unsigned char)(i * 11 + 3);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            uint32_t x = 0, y = 0;
            memcpy(&x, wanted + i * width, (size_t)width);
            memcpy(&y, from + (r * stride + i) * width, (size_t)width);
            x = combined(op, x, y, mask);
            memcpy(wanted + i * width, &x, (size_t)width);
        }
    kernel(to, from, rows, n, stride);
    cr_assert_eq(memcmp(to, wanted, sizeof to), 0, "operation %d, width %d, %d rows of %d", (int)op, width, (int)rows,
                 (int)n);
}

Test(cpu_loop, columns_of_narrow_integers) {
    static const int64_t sizes[] = {1, 3, 15, 16, 17, 63, 64, 65, 130, 512, 577};
    static const CpuReduceOp ops[] = {CPU_REDUCE_ADD, CPU_REDUCE_MULTIPLY, CPU_REDUCE_MAXIMUM, CPU_REDUCE_MINIMUM,
                                      CPU_REDUCE_AND, CPU_REDUCE_OR,       CPU_REDUCE_XOR};
    for (int set = levels_first(); set <= levels_last(); set++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
            for (int form = 0; form < 4; form++) {
                const CpuRegisterType type = form / 2 ? CPU_REGISTER_U16 : CPU_REGISTER_U8;
                CpuColumnKernel *kernel = cpu_isa_loop_kernels((CpuFeatures)set)->columns[ops[o]][type];
                for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                    for (int64_t rows = 0; rows <= 19; rows++)
                        check_narrow_columns(kernel, ops[o], form / 2 + 1, rows, sizes[s], sizes[s] + form % 2 * 5);
            }
}

Test(cpu_loop, converts_stochastically) {
    open_setting(&kBestOfOneWorker);
    const int64_t n = 6, one[] = {1};
    const float in[6] = {1.25f, 1.25f, -1.25f, -1.25f, NAN, 300};
    const uint32_t random[6] = {0x3fffffff, 0x40000000, 0x3fffffff, 0x40000000, 0, 0};
    int8_t out[6];
    CpuLoopBuilder *b = new_builder(1, 0, 0, &n);
    const CpuValue value =
        cpu_loop_stochastic_convert(b, HLO_S8, load(b, 0, HLO_F32, 0, one), load(b, 1, HLO_U32, 0, one));
    store(b, 2, value, 0, one);
    run(b, (void *[]){(void *)(uintptr_t)in, (void *)(uintptr_t)random, out});
    cr_assert(out[0] == 2 && out[1] == 1 && out[2] == -2 && out[3] == -1 && out[4] == 0 && out[5] == 127);
    close_setting();
}

// The operands of the next value, and the message about it.
typedef CpuValue Misuse(CpuLoopBuilder *b, CpuValue x);

static CpuValue count_bits(CpuLoopBuilder *b, CpuValue x) {
    return cpu_loop_op(b, CPU_OP_POPCNT, x, -1, -1);
}
static CpuValue to_another_width(CpuLoopBuilder *b, CpuValue x) {
    return cpu_loop_bitcast(b, HLO_S64, x);
}
static CpuValue to_fewer_bits(CpuLoopBuilder *b, CpuValue x) {
    return cpu_loop_reduce_precision(b, 5, 3, cpu_loop_convert(b, HLO_S32, x));
}
static CpuValue to_floats_by_chance(CpuLoopBuilder *b, CpuValue x) {
    return cpu_loop_stochastic_convert(b, HLO_F16, x, cpu_loop_convert(b, HLO_U32, x));
}
static CpuValue by_a_signed_number(CpuLoopBuilder *b, CpuValue x) {
    return cpu_loop_stochastic_convert(b, HLO_S8, x, cpu_loop_convert(b, HLO_S32, x));
}
static CpuValue all_bits_of_floats(CpuLoopBuilder *b, CpuValue x) {
    return cpu_loop_reduce(b, CPU_REDUCE_XOR, x, constant_f32(b, 0));
}
static CpuValue two_errors(CpuLoopBuilder *b, CpuValue x) {
    return to_another_width(b, count_bits(b, x));
}

// Values are returned after an error, too, and the first error is reported.
Test(cpu_loop, reports_misuse) {
    static const struct {
        Misuse *misuse;
        const char *wanted;
    } kMisuses[] = {{count_bits, "fused loop: POPCNT of f32"},
                    {to_another_width, "fused loop: BITCAST to another width of s64"},
                    {to_fewer_bits, "fused loop: REDUCE_PRECISION of s32"},
                    {to_floats_by_chance, "fused loop: STOCHASTIC_CONVERT of f16"},
                    {by_a_signed_number, "fused loop: STOCHASTIC_CONVERT of s8"},
                    {all_bits_of_floats, "fused loop: reduction of f32"},
                    {two_errors, "fused loop: POPCNT of f32"}};
    open_setting(&kOneWorker);
    const int64_t n = 4, one[] = {1};
    CpuLoop *loop;
    CpuLoopBuilder *b;
    for (size_t i = 0; i < HLO_COUNT_OF(kMisuses); i++) {
        b = new_builder(0, 1, 0, &n);
        cr_expect(kMisuses[i].misuse(b, load(b, 0, HLO_F32, 0, one)) >= 0);
        must_fail(cpu_loop_finish(b, &loop), HLO_UNIMPLEMENTED, kMisuses[i].wanted);
    }
    b = new_builder(0, 1, 0, &n);
    cpu_loop_store(b, 0, load(b, 0, HLO_F32, 0, one), &(CpuIndexMap){0, (int64_t[]){0}});
    must_fail(cpu_loop_finish(b, &loop), HLO_INVALID_ARGUMENT, "a store drops the reduced dimensions of its value");
    int64_t ones[65];
    for (int i = 0; i < 65; i++) ones[i] = 1;
    must_fail(cpu_loop_finish(new_builder(65, 0, 0, ones), &loop), HLO_UNIMPLEMENTED, "65 dimensions, more than 64");
    // Columns: no sum at all, and a sum that its own elements are divided by.
    const int64_t dims[] = {3, 4}, full[] = {4, 1};
    b = new_builder(0, 1, 1, dims);
    store(b, 1, load(b, 0, HLO_F32, 0, full), 0, full);
    must_fail(cpu_loop_finish(b, &loop), HLO_INVALID_ARGUMENT, "the columns form needs a reduction");
    b = new_builder(0, 1, 1, dims);
    const CpuValue x = load(b, 0, HLO_F32, 0, full), sum = cpu_loop_reduce(b, CPU_REDUCE_ADD, x, constant_f32(b, 0));
    store(b, 1, cpu_loop_op(b, CPU_OP_DIVIDE, x, sum, -1), 0, full);
    must_fail(cpu_loop_finish(b, &loop), HLO_INVALID_ARGUMENT,
              "the columns form cannot use a sum for its own elements");
    enum { kMany = 17 };
    CpuValue values[kMany], inits[kMany], accumulators[kMany], elements[kMany];
    b = new_builder(0, 1, 1, dims);
    for (int i = 0; i < kMany; i++) values[i] = load(b, i, HLO_F32, 0, full), inits[i] = constant_f32(b, 0);
    cpu_loop_combine_begin(b, kMany, values, inits, accumulators, elements);
    must_fail(cpu_loop_finish(b, &loop), HLO_UNIMPLEMENTED, "have 1 to 16 operands");
    close_setting();
}

// Loops over large arrays prefetch loads and stores, between kernels and between parts of slow ones:
// that must not change the numbers, whatever the length of the last block.
SETTINGS(fetching_ahead_changes_nothing) {
    enum { kLarge = 300000 + 77, kSmall = 4096 };
    open_setting(setting);
    const int64_t one[] = {1};
    float *x = random_floats(kLarge, 5), *y = random_floats(kLarge, 6);
    float *large = hlo_arena_allocate(arena, sizeof(float) * (kLarge + 1)), small[kSmall];
    large[kLarge] = 42;
    for (int64_t at = -kSmall; at < kLarge; at += kSmall) {
        const int64_t rest = at < 0 ? kLarge : kLarge - at, count = at < 0 || rest < kSmall ? rest : kSmall;
        CpuLoopBuilder *b = new_builder(1, 0, 0, &count);
        const CpuValue a = load(b, 0, HLO_F32, 0, one), c = load(b, 1, HLO_F32, 0, one);
        const CpuValue e = cpu_loop_op(b, CPU_OP_EXP, cpu_loop_op(b, CPU_OP_NEGATE, a, 0, 0), 0, 0);
        const CpuValue power = cpu_loop_op(b, CPU_OP_POWER, cpu_loop_op(b, CPU_OP_ADD, e, constant_f32(b, 1), 0), c, 0);
        store(b, 2, cpu_loop_op(b, CPU_OP_DIVIDE, constant_f32(b, 1), cpu_loop_op(b, CPU_OP_TANH, power, 0, 0), 0), 0,
              one);
        run(b, at < 0 ? (void *[]){x, y, large} : (void *[]){x + at, y + at, small});
        if (at >= 0) cr_assert_eq(memcmp(small, large + at, sizeof(float) * (size_t)count), 0, "from %d on", (int)at);
    }
    cr_expect_eq(large[kLarge], 42);
    close_setting();
}
