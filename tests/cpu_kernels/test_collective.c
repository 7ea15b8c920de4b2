// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "hlo/ir/literal.h"
#include "targets/cpu/collective.h"

enum { kRanks = 5, kCount = 100000 };

static float *ins[kRanks], *outs[kRanks];
static CpuPool *pool;

static void open_buffers(void) {
    cr_assert_null(cpu_pool_new_with(3, CPU_FEATURES_AMX, &pool));
    uint32_t state = 5;
    for (int r = 0; r < kRanks; r++) {
        ins[r] = hlo_allocate_aligned(sizeof(float) * kCount);
        outs[r] = hlo_allocate_aligned(sizeof(float) * kCount * kRanks);
        for (int i = 0; i < kCount; i++) {
            state = state * 1664525 + 1013904223;
            ins[r][i] = (float)(int32_t)state * 0x1p-30f;
        }
    }
}

static void close_buffers(void) {
    for (int r = 0; r < kRanks; r++) hlo_free(ins[r]), hlo_free(outs[r]);
    cpu_pool_free(pool);
}

static float in_order_sum(int i) {
    float sum = ins[0][i];
    for (int r = 1; r < kRanks; r++) sum += ins[r][i];
    return sum;
}

Test(cpu_collective, all_reduce_adds_in_rank_order, .init = open_buffers, .fini = close_buffers) {
    cr_assert_null(
        cpu_all_reduce(pool, HLO_F32, CPU_REDUCE_ADD, kRanks, kCount, (void *const *)outs, (const void *const *)ins));
    for (int r = 0; r < kRanks; r++)
        for (int i = 0; i < kCount; i++) cr_assert_eq(outs[r][i], in_order_sum(i));
    float first = in_order_sum(0), last = in_order_sum(kCount - 1);
    cr_assert_null(
        cpu_all_reduce(pool, HLO_F32, CPU_REDUCE_ADD, kRanks, kCount, (void *const *)ins, (const void *const *)ins));
    for (int r = 0; r < kRanks; r++) cr_assert(ins[r][0] == first && ins[r][kCount - 1] == last);
}

Test(cpu_collective, all_reduce_of_shared_output_and_narrow_floats, .init = open_buffers, .fini = close_buffers) {
    void *shared[kRanks] = {outs[0], outs[0], outs[0], outs[0], outs[0]};
    cr_assert_null(cpu_all_reduce(pool, HLO_F32, CPU_REDUCE_MAXIMUM, kRanks, kCount, shared, (const void *const *)ins));
    float largest = ins[0][77];
    for (int r = 1; r < kRanks; r++) largest = ins[r][77] > largest ? ins[r][77] : largest;
    cr_assert_eq(outs[0][77], largest);
    uint16_t small[kRanks], result;
    const void *sources[kRanks];
    void *targets[kRanks] = {&result, &result, &result, &result, &result};
    for (int r = 0; r < kRanks; r++)
        small[r] = (uint16_t)hlo_float_encode(HLO_BF16, r == 0 ? 256 : 0.5), sources[r] = &small[r];
    cr_assert_null(cpu_all_reduce(pool, HLO_BF16, CPU_REDUCE_ADD, kRanks, 1, targets, sources));
    cr_assert_eq(hlo_float_decode(HLO_BF16, result), 258);
    HloStatus status = cpu_all_reduce(pool, HLO_F32, CPU_REDUCE_AND, kRanks, 1, targets, sources);
    cr_assert_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    hlo_status_free(status);
}

Test(cpu_collective, reduce_scatter_and_all_gather, .init = open_buffers, .fini = close_buffers) {
    const int64_t outer = 4, part = kCount / kRanks / outer;
    cr_assert_null(cpu_reduce_scatter(pool, HLO_F32, CPU_REDUCE_ADD, kRanks, outer, part, (void *const *)outs,
                                      (const void *const *)ins));
    for (int r = 0; r < kRanks; r++)
        for (int64_t i = 0; i < outer * part; i++)
            cr_assert_eq(outs[r][i], in_order_sum((int)((i / part * kRanks + r) * part + i % part)));
    cpu_all_gather(pool, kRanks, outer, part * 4, (void *const *)outs, (const void *const *)ins);
    for (int r = 0; r < kRanks; r++)
        for (int64_t i = 0; i < outer * kRanks * part; i++)
            cr_assert_eq(outs[r][i], ins[i / part % kRanks][i / part / kRanks * part + i % part]);
}

Test(cpu_collective, all_to_all_permute_broadcast, .init = open_buffers, .fini = close_buffers) {
    const int64_t before = 3, middle = 7, part = 11;
    cpu_all_to_all(pool, kRanks, before, middle, part * 4, (void *const *)outs, (const void *const *)ins);
    for (int r = 0; r < kRanks; r++)
        for (int64_t i = 0; i < before * middle * kRanks * part; i++) {
            const int64_t p = i % part, s = i / part % kRanks, m = i / part / kRanks % middle,
                          b = i / part / kRanks / middle;
            cr_assert_eq(outs[r][i], ins[s][((b * kRanks + r) * middle + m) * part + p]);
        }
    const int64_t sources[] = {0, 1, 2}, targets[] = {3, 0, 2};
    cpu_collective_permute(pool, kRanks, kCount * 4, 3, sources, targets, (void *const *)outs,
                           (const void *const *)ins);
    cr_assert(outs[3][9] == ins[0][9] && outs[0][9] == ins[1][9] && outs[2][9] == ins[2][9] && outs[1][9] == 0 &&
              outs[4][9] == 0);
    cpu_collective_broadcast(pool, kRanks, kCount * 4, (void *const *)outs, ins[2]);
    for (int r = 0; r < kRanks; r++) cr_assert_eq(outs[r][kCount - 1], ins[2][kCount - 1]);
}
