// SPDX-License-Identifier: Apache-2.0
// Loops over a handful of elements, which run as a list of calls: the same bits as the interpreter gives, over all
// shapes up to the limit and beyond.
#include <criterion/criterion.h>
#include <string.h>

#include "targets/cpu/loop/internal.h"
#include "tests/support/levels.h"

enum { kMost = 80, kRoom = 128 };

static HloArena *arena;

static void fill(float *values, int count, float first) {
    for (int i = 0; i < count; i++) values[i] = first + 0.37f * (float)(i * i % 29) - 0.11f * (float)i;
}

static CpuLoop *finish(CpuLoopBuilder *builder) {
    CpuLoop *loop = NULL;
    const HloStatus status = cpu_loop_finish(builder, &loop);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return loop;
}

// Runs it both ways, the last two buffers being results.
static void compare(CpuLoop *loop, void **buffers, int count, const char *what, int64_t rows, int64_t columns) {
    static float listed[2][kRoom], interpreted[2][kRoom];
    const CpuSmallLoop *small = loop->small_loop;
    cr_assert_eq(small != NULL, rows * columns <= CPU_SMALL_ELEMENTS, "%s of %lld x %lld", what, (long long)rows,
                 (long long)columns);
    for (int i = 0; i < 2; i++) {
        memset(listed[i], 0x55, sizeof listed[i]);
        memset(interpreted[i], 0x55, sizeof interpreted[i]);
        buffers[count - 2 + i] = listed[i];
    }
    cr_assert_null(cpu_loop_run(loop, NULL, buffers));
    loop->small_loop = NULL;
    for (int i = 0; i < 2; i++) buffers[count - 2 + i] = interpreted[i];
    cr_assert_null(cpu_loop_run(loop, NULL, buffers));
    cr_assert_arr_eq(listed, interpreted, sizeof listed, "%s of %lld x %lld", what, (long long)rows,
                     (long long)columns);
}

static CpuLoopBuilder *open_builder(int outer, int reduced, const int64_t *dims, int set) {
    arena = hlo_arena_new();
    return cpu_loop_builder_new(arena, &(CpuLoopDomain){.outer = outer, .reduced = reduced, .dims = dims},
                                (CpuFeatures)set);
}

// Broadcasts, transposes, reversals, indices and constants; results in order and turned.
Test(cpu_small_loop, elements_are_those_of_the_interpreter) {
    float row[kMost], turned[kMost], scalar[2] = {3.5f, 7};
    fill(row, kMost, 1);
    fill(turned, kMost, -2);
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int64_t m = 1; m <= kMost; m++)
            for (int64_t n = 1; m * n <= kMost; n++) {
                CpuLoopBuilder *b = open_builder(2, 0, (int64_t[]){m, n}, set);
                const CpuIndexMap broadcast = {0, (int64_t[]){0, 1}}, transposed = {0, (int64_t[]){1, m}},
                                  reversed = {m * n - 1, (int64_t[]){-n, -1}}, once = {1, (int64_t[]){0, 0}},
                                  rising = {0, (int64_t[]){n, 1}};
                const float constant = 0.75f;
                const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &broadcast),
                               y = cpu_loop_load(b, 1, HLO_F32, &transposed),
                               z = cpu_loop_load(b, 1, HLO_F32, &reversed), u = cpu_loop_load(b, 2, HLO_F32, &once),
                               i = cpu_loop_index(b, HLO_F32, &transposed),
                               c = cpu_loop_constant(b, HLO_F32, &constant);
                const CpuValue sum = cpu_loop_op(b, CPU_OP_ADD, cpu_loop_op(b, CPU_OP_MULTIPLY, x, y, -1), z, -1);
                const CpuValue all = cpu_loop_op(b, CPU_OP_SUBTRACT, cpu_loop_op(b, CPU_OP_MULTIPLY, i, c, -1),
                                                 cpu_loop_op(b, CPU_OP_MULTIPLY, sum, u, -1), -1);
                cpu_loop_store(b, 3, cpu_loop_op(b, CPU_OP_TANH, all, -1, -1), &rising);
                cpu_loop_store(b, 4, all, &transposed);
                void *buffers[] = {row, turned, scalar, NULL, NULL};
                compare(finish(b), buffers, 5, "elements", m, n);
                hlo_arena_free(arena);
            }
}

// A row minus its largest element, and the row's sum.
Test(cpu_small_loop, rows_are_those_of_the_interpreter) {
    float values[kMost];
    fill(values, kMost, 1);
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int64_t m = 1; m <= kMost; m++)
            for (int64_t n = 1; m * n <= kMost; n++) {
                CpuLoopBuilder *b = open_builder(1, 1, (int64_t[]){m, n}, set);
                const CpuIndexMap whole = {0, (int64_t[]){n, 1}}, kept = {0, (int64_t[]){1, 0}};
                const float least = -1e30f, zero = 0;
                const CpuValue x = cpu_loop_load(b, 0, HLO_F32, &whole);
                const CpuValue largest =
                    cpu_loop_reduce(b, CPU_REDUCE_MAXIMUM, x, cpu_loop_constant(b, HLO_F32, &least));
                const CpuValue rest = cpu_loop_op(b, CPU_OP_SUBTRACT, x, largest, -1);
                cpu_loop_store(b, 1, rest, &whole);
                cpu_loop_store(b, 2, cpu_loop_reduce(b, CPU_REDUCE_ADD, rest, cpu_loop_constant(b, HLO_F32, &zero)),
                               &kept);
                void *buffers[] = {values, NULL, NULL};
                compare(finish(b), buffers, 3, "rows", m, n);
                hlo_arena_free(arena);
            }
}

// Fills a block with numbers of a register type, with zeros, ones and negative ones among them.
static void fill_register(char *to, int type, int count, int shift) {
    for (int i = 0; i < count; i++) {
        const int number = (i * 37 + shift) % 11 - 4;
        switch (type) {
            case CPU_REGISTER_PRED: ((uint8_t *)to)[i] = number & 1; break;
            case CPU_REGISTER_F32: ((float *)to)[i] = 0.37f * (float)number; break;
            case CPU_REGISTER_F64: ((double *)to)[i] = 0.37 * number; break;
            case CPU_REGISTER_C64:
                ((float *)to)[2 * i] = 0.37f * (float)number;
                ((float *)to)[2 * i + 1] = 0.11f * (float)(number - 2);
                break;
            case CPU_REGISTER_C128:
                ((double *)to)[2 * i] = 0.37 * number;
                ((double *)to)[2 * i + 1] = 0.11 * (number - 2);
                break;
            default:
                for (int k = 0, width = cpu_register_bytes((CpuRegisterType)type); k < width; k++)
                    to[i * width + k] = (char)(k ? number < 0 ? -1 : 0 : number);
        }
    }
}

static void compare_of_one(CpuBlockKernel *kernel, CpuBlockKernel *one, int type, const char *what, int number) {
    enum { kCount = 33 };
    _Alignas(64) char sides[3][kCount * 16] = {{0}}, all[kCount * 16] = {0}, each[kCount * 16] = {0};
    cr_assert_eq(!kernel, !one, "%s %d of %d", what, number, type);
    if (!kernel) return;
    const int width = cpu_register_bytes((CpuRegisterType)type);
    for (int i = 0; i < 3; i++) fill_register(sides[i], type, kCount, 5 * i);
    // A selection's first operand is a predicate, which is stored one by one.
    const bool selects = number == CPU_OP_SELECT && !strcmp(what, "operation");
    if (selects) fill_register(sides[0], CPU_REGISTER_PRED, kCount, 0);
    int step = 0;  // of results: the width of the first one that is written
    char probe[32];
    memset(probe, 0x55, sizeof probe);
    one(probe, sides[0], sides[1], sides[2], 1, 3);
    for (step = 16; step > 1 && probe[step - 1] == 0x55;) step /= 2;
    for (int i = 0; i < kCount; i++) {
        const char *const from[] = {sides[0] + i * (selects ? 1 : width), sides[1] + i * width, sides[2] + i * width};
        kernel(all + i * step, from[0], from[1], from[2], 1, 3);
        one(each + i * step, from[0], from[1], from[2], 1, 3);
    }
    cr_assert_arr_eq(all, each, (size_t)(kCount * step), "%s %d of %d", what, number, type);
}

// A kernel for one element gives the bits of the block kernel that is called for one.
Test(cpu_small_loop, kernels_of_one_element_are_those_of_blocks) {
    for (int set = levels_first(); set <= levels_last(); set++) {
        const CpuLoopKernels *blocks = cpu_isa_loop_kernels((CpuFeatures)set),
                             *ones = cpu_isa_loop_kernels_one((CpuFeatures)set);
        for (int type = 0; type < CPU_REGISTER_COUNT; type++) {
            for (int op = 0; op < CPU_OP_COUNT; op++)
                compare_of_one(blocks->operation[op][type], ones->operation[op][type], type, "operation", op);
            for (int to = 0; to < CPU_REGISTER_COUNT; to++)
                compare_of_one(blocks->convert[type][to], ones->convert[type][to], type, "conversion", to);
        }
        for (int inner = 0; inner < CPU_PAIR_INNER_COUNT; inner++)
            for (int outer = 0; outer < CPU_PAIR_OUTER_COUNT; outer++)
                compare_of_one(blocks->pair[inner][outer][CPU_ONES_NONE], ones->pair[inner][outer][CPU_ONES_NONE],
                               CPU_REGISTER_F32, "pair", inner * CPU_PAIR_OUTER_COUNT + outer);
    }
}
