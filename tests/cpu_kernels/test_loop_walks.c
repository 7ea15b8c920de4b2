// SPDX-License-Identifier: Apache-2.0
// How fused loops read and write arrays of short runs, and how they reduce a few columns, against plain scalar loops.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "targets/cpu/loop/loop.h"
#include "tests/support/levels.h"

static HloArena *arena;
static CpuPool *pool;

static void open_set(int set) {
    arena = hlo_arena_new();
    cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)set, &pool));
}

static void close_set(void) {
    cpu_pool_free(pool);
    hlo_arena_free(arena);
}

static void run(CpuLoopBuilder *builder, void *const *buffers) {
    CpuLoop *loop;
    const HloStatus status = cpu_loop_finish(builder, &loop);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(cpu_loop_run(loop, pool, buffers));
}

// ---- walks

enum { kRank = 3, kBytes = 1 << 20 };
static const HloType kTypes[] = {HLO_U8, HLO_U16, HLO_F32, HLO_F64, HLO_C128};  // of 1, 2, 4, 8 and 16 bytes
static unsigned char array[kBytes], dense[kBytes], want[kBytes];

// A map over a domain of {kOuter, kMiddle, length}; `shape` chooses what its dimensions mean in the array.
enum { kOuter = 17, kMiddle = 29 };
typedef struct Map {
    int64_t offset, strides[kRank];
} Map;

enum {
    kRows,
    kRepeated,
    kRepeatedRows,
    kElements,
    kReversed,
    kBackwards,
    kTurned,
    kSecond,
    kThird,
    kFourth,
    kShapeCount
};
static Map map_of(int shape, int64_t length) {
    switch (shape) {
        case kRows: return (Map){0, {(length + 2) * kMiddle, length + 2, 1}};  // rows with a space after each
        case kRepeated: return (Map){5, {length, 0, 1}};                       // each row kMiddle times
        case kRepeatedRows: return (Map){0, {0, 0, 1}};                        // one row again and again
        case kElements: return (Map){3, {kMiddle, 1, 0}};                      // each element `length` times
        case kReversed: return (Map){length - 1, {length * kMiddle, length, -1}};
        case kTurned: return (Map){0, {1, kOuter, kOuter * kMiddle}};
        case kBackwards: return (Map){kOuter * kMiddle * length - 1, {-length * kMiddle, -length, -1}};
        default: {  // every second, third or fourth element
            const int64_t step = shape - kSecond + 2;
            return (Map){0, {step * length * kMiddle, step * length, step}};
        }
    }
}

static int64_t element_at(const Map *map, int64_t flat, int64_t length) {
    return map->offset + flat / (length * kMiddle) * map->strides[0] + flat / length % kMiddle * map->strides[1] +
           flat % length * map->strides[2];
}

static void check_walk(HloType type, int width, int64_t length, int shape, bool stores) {
    const int64_t dims[kRank] = {kOuter, kMiddle, length}, count = kOuter * kMiddle * length;
    const int64_t row_major[kRank] = {kMiddle * length, length, 1};
    const Map map = map_of(shape, length);
    const CpuIndexMap there = {map.offset, map.strides}, here = {0, row_major};
    const CpuLoopDomain domain = {.outer = kRank, .dims = dims};
    for (int i = 0; i < kBytes; i++) array[i] = (unsigned char)(i * 7 + i / 251), dense[i] = (unsigned char)(i * 11);
    memcpy(want, stores ? array : dense, kBytes);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = element_at(&map, i, length) * width;
        cr_assert(at >= 0 && at + width <= kBytes);
        memcpy(want + (stores ? at : i * width), (stores ? dense + i * width : array + at), (size_t)width);
    }
    CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
    cpu_loop_store(b, 1, cpu_loop_load(b, 0, type, stores ? &here : &there), stores ? &there : &here);
    run(b, (void *[]){stores ? dense : array, stores ? array : dense});
    cr_expect(memcmp(want, stores ? array : dense, kBytes) == 0, "%d bytes, runs of %lld, shape %d, %s", width,
              (long long)length, shape, stores ? "stored" : "loaded");
}

static void check_walks(void) {
    static const int64_t kLengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 70};
    for (int t = 0; t < 5; t++)
        for (size_t l = 0; l < sizeof kLengths / sizeof *kLengths; l++)
            for (int shape = 0; shape < kShapeCount; shape++)
                for (int stores = 0; stores < 2; stores++) {
                    if ((kTypes[t] == HLO_C128 || shape == kFourth) && kLengths[l] > 16) continue;  // too large
                    if (stores && (shape == kRepeated || shape == kRepeatedRows || shape == kElements)) continue;
                    check_walk(kTypes[t], 1 << t, kLengths[l], shape, stores != 0);
                }
}

Test(cpu_loop_walks, short_runs_are_moved_element_for_element) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        open_set(set);
        check_walks();
        close_set();
    }
}

// Copies kMany matrices of middle x length elements that are turned, repeated or have gaps.
enum { kMany = 300, kForms = 5 };
static void check_groups(HloType type, int width, int64_t middle, int64_t length, int form) {
    const int64_t size = middle * length, dims[kRank] = {kMany, middle, length};
    const int64_t row_major[kRank] = {size, length, 1};
    const int64_t strides[kForms][kRank] = {
        {size, 1, middle}, {length, 0, 1}, {middle, 1, 0}, {3 * size, 2 * length, 2}, {1, kMany, kMany * middle}};
    const CpuIndexMap there = {2, strides[form]}, here = {0, row_major};
    const CpuLoopDomain domain = {.outer = kRank, .dims = dims};
    for (int i = 0; i < kBytes; i++) array[i] = (unsigned char)(i * 7 + i / 251), dense[i] = 0;
    CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
    cpu_loop_store(b, 1, cpu_loop_load(b, 0, type, &there), &here);
    run(b, (void *[]){array, dense});
    for (int64_t i = 0; i < kMany * size; i++) {
        const int64_t at =
            2 + i / size * strides[form][0] + i / length % middle * strides[form][1] + i % length * strides[form][2];
        cr_assert_arr_eq(dense + i * width, array + at * width, (size_t)width, "%d bytes, %lld x %lld, form %d", width,
                         (long long)middle, (long long)length, form);
    }
}

// Blocks end inside of some of the matrices.
Test(cpu_loop_walks, small_matrices_are_moved_element_for_element) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        open_set(set);
        for (int i = 0; i < 5 * kForms; i++)
            for (int64_t size = 0; size < 16; size++)
                check_groups(kTypes[i / kForms], 1 << (i / kForms), 2 + size % 4, 2 + size / 4, i % kForms);
        close_set();
    }
}

// One element for all, an array that is read in place, and one whose copy is reversed, over more than a block of
// copies.
static void check_copies(HloType type, int width, int64_t count) {
    const int64_t forward = 1, backward = -1, nothing = 0;
    const CpuIndexMap here = {0, &forward}, there = {count - 1, &backward}, one = {3, &nothing};
    const CpuLoopDomain domain = {.outer = 1, .dims = &count};
    for (int i = 0; i < kBytes; i++) array[i] = (unsigned char)(i * 7 + i / 251);
    CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
    enum { kPart = kBytes / 3 / 64 * 64 };
    unsigned char *const out[] = {dense, dense + kPart, dense + 2 * kPart};
    cpu_loop_store(b, 1, cpu_loop_load(b, 0, type, &one), &here);
    cpu_loop_store(b, 2, cpu_loop_load(b, 0, type, &here), &here);
    cpu_loop_store(b, 3, cpu_loop_load(b, 0, type, &there), &here);
    run(b, (void *[]){array, out[0], out[1], out[2]});
    for (int64_t i = 0; i < count; i++) {
        cr_assert_arr_eq(out[0] + i * width, array + 3 * width, (size_t)width);
        cr_assert_arr_eq(out[1] + i * width, array + i * width, (size_t)width);
        cr_assert_arr_eq(out[2] + i * width, array + (count - 1 - i) * width, (size_t)width);
    }
}

Test(cpu_loop_walks, copies_are_longer_than_blocks) {
    static const int64_t kCounts[] = {5, 1024, 1025, 16384, 16385, 20001};
    for (int set = levels_first(); set <= levels_last(); set++) {
        open_set(set);
        for (int t = 0; t < 5; t++)
            for (size_t c = 0; c < sizeof kCounts / sizeof *kCounts; c++) check_copies(kTypes[t], 1 << t, kCounts[c]);
        close_set();
    }
}

Test(cpu_loop_walks, indices_of_short_runs_are_counted) {
    open_set(levels_last());
    for (int64_t length = 1; length < 100; length += length < 5 ? 1 : 31)
        for (int shape = 0; shape < kShapeCount; shape++)
            for (int wide = 0; wide < 2; wide++) {
                const int64_t dims[kRank] = {kOuter, kMiddle, length}, row_major[kRank] = {kMiddle * length, length, 1};
                const Map map = map_of(shape, length);
                const CpuLoopDomain domain = {.outer = kRank, .dims = dims};
                CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));
                const CpuIndexMap there = {map.offset, map.strides}, here = {0, row_major};
                cpu_loop_store(b, 0, cpu_loop_index(b, wide ? HLO_S64 : HLO_S32, &there), &here);
                run(b, (void *[]){dense});
                for (int64_t i = 0; i < kOuter * kMiddle * length; i++) {
                    const int64_t expected = element_at(&map, i, length);
                    const int64_t got = wide ? ((int64_t *)(void *)dense)[i] : ((int32_t *)(void *)dense)[i];
                    cr_assert_eq(got, expected, "runs of %lld, shape %d, element %lld", (long long)length, shape,
                                 (long long)i);
                }
            }
    close_set();
}

// ---- columns

// Whole numbers, so that sums are exact in any order, with the elements that sums and maxima treat specially.
enum { kBatches = 3, kReduced = 700, kMostColumns = 1100 };  // more than one segment, more than one block
static unsigned char matrix[sizeof(float) * kBatches * kReduced * kMostColumns];
static double element(int64_t i, int64_t columns, bool special) {
    const int64_t column = i % columns, row = i / columns % kReduced;
    if (special && column == 1) return row == 650 ? NAN : (double)row;
    if (special && column == 0) return -0.0;
    return (double)(i * 7919 % 201 - 100);
}

static double combined(CpuReduceOp op, double x, double y) {
    if (op == CPU_REDUCE_ADD) return x + y;
    if (isnan(x) || isnan(y)) return NAN;
    if (x == y) return (op == CPU_REDUCE_MAXIMUM) == (signbit(x) != 0) ? y : x;
    return (op == CPU_REDUCE_MAXIMUM) == (x > y) ? x : y;
}

#define CHECK_COLUMNS(T, TYPE, name)                                                                                   \
    static void name(CpuReduceOp op, int64_t columns, bool special) {                                                  \
        const int64_t dims[kRank] = {kBatches, kReduced, columns};                                                     \
        const int64_t all[kRank] = {kReduced * columns, columns, 1}, kept[kRank] = {columns, 0, 1};                    \
        const CpuLoopDomain domain = {.outer = 1, .reduced = 1, .inner = 1, .dims = dims};                             \
        T *in = (T *)(void *)matrix, *out = (T *)(void *)dense;                                                        \
        for (int64_t i = 0; i < kBatches * kReduced * columns; i++) in[i] = (T)element(i, columns, special);           \
        CpuLoopBuilder *b = cpu_loop_builder_new(arena, &domain, cpu_pool_features(pool));                             \
        const T first = (T)-0.0;                                                                                       \
        const CpuValue init = cpu_loop_constant(b, TYPE, &first);                                                      \
        const CpuValue x = cpu_loop_load(b, 0, TYPE, &(CpuIndexMap){0, all});                                          \
        cpu_loop_store(b, 1, cpu_loop_reduce(b, op, x, init), &(CpuIndexMap){0, kept});                                \
        run(b, (void *[]){in, out});                                                                                   \
        for (int64_t i = 0; i < kBatches * columns; i++) {                                                             \
            double expected = (double)first;                                                                           \
            for (int64_t r = 0; r < kReduced; r++)                                                                     \
                expected = combined(op, expected, (double)in[(i / columns * kReduced + r) * columns + i % columns]);   \
            const double got = (double)out[i];                                                                         \
            cr_expect(isnan(expected) ? isnan(got) : got == expected && !signbit(got) == !signbit(expected),           \
                      "operation %d, column %lld of %lld: %g, expected %g", (int)op, (long long)i, (long long)columns, \
                      got, expected);                                                                                  \
        }                                                                                                              \
    }
CHECK_COLUMNS(float, HLO_F32, check_f32)
CHECK_COLUMNS(double, HLO_F64, check_f64)
CHECK_COLUMNS(int32_t, HLO_S32, check_s32)

Test(cpu_loop_walks, columns_are_reduced_in_order) {
    static const CpuReduceOp kOps[] = {CPU_REDUCE_ADD, CPU_REDUCE_MAXIMUM, CPU_REDUCE_MINIMUM};
    static const int64_t kColumns[] = {2, 3, 4, 5, 7, 16, 23, 64, 77, kMostColumns};
    for (int set = levels_first(); set <= levels_last(); set++) {
        open_set(set);
        for (int op = 0; op < 3; op++)
            for (size_t c = 0; c < sizeof kColumns / sizeof *kColumns; c++) {
                check_f32(kOps[op], kColumns[c], true);
                if (kColumns[c] <= kMostColumns / 2) check_f64(kOps[op], kColumns[c], true);
                check_s32(kOps[op], kColumns[c], false);
            }
        close_set();
    }
}
