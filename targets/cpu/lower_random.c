// SPDX-License-Identifier: Apache-2.0
// Random bits.
#include "targets/cpu/lower.h"
#include "targets/cpu/random.h"

typedef struct RandomKernel {
    bool threefry;
    int state_words, rank, bits;
    const int64_t *sizes;
} RandomKernel;

static HloStatus run_random(const void *data, void *const *arguments, CpuPool *pool) {
    const RandomKernel *kernel = data;
    if (kernel->threefry)
        cpu_rng_threefry(pool, arguments[0], arguments[1], kernel->rank, kernel->sizes, kernel->bits, arguments[2]);
    else
        cpu_rng_philox(pool, kernel->state_words, arguments[0], arguments[1], kernel->rank, kernel->sizes, kernel->bits,
                       arguments[2]);
    return HLO_SUCCESS;
}

HloStatus cpu_lower_random_bits(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const int32_t algorithm = HLO_ATTRIBUTES(node->instruction, RngBits)->algorithm;
    const HloShape *state = node->operands[0]->shape;
    const bool threefry = algorithm == HLO_RandomAlgorithm_THREE_FRY;
    if (node->result_count != 2 || state->type != HLO_U64 || state->rank != 1 ||
        (threefry ? state->dims[0] != 2 : state->dims[0] < 2 || state->dims[0] > 3))
        return cpu_lower_give_up(lowering, node);
    const HloShape *shape = node->results[1]->shape;
    RandomKernel *kernel = HLO_ARENA_NEW(lowering->arena, RandomKernel, 1);
    *kernel = (RandomKernel){threefry, (int)state->dims[0], shape->rank, hlo_type_info(shape->type)->bits,
                             hlo_arena_copy(lowering->arena, shape->dims, sizeof(int64_t) * (size_t)shape->rank)};
    cpu_step_kernel(lowering, node, step, run_random, kernel);
    step->cost *= 16;
    return HLO_SUCCESS;
}
