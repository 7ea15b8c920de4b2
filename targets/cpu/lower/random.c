// SPDX-License-Identifier: Apache-2.0
// Lowers random bits (rng-bit-generator): the algorithm, the state's length and the result's sizes in the form of
// kernels/random.h. Bits are functions of state and index, and must equal XLA's exactly, since programs are tested by
// their seeds. Of the two algorithms that have a definition, Threefry is used by name and Philox for all other
// requests, which is XLA:CPU's choice too. States of other lengths than theirs are rejected by name here, before
// anything runs. The state that follows is a result only of tuples: an array is the bits alone.
#include "targets/cpu/kernels/random.h"
#include "targets/cpu/element/integer.h"
#include "targets/cpu/lower/lower.h"

enum { kFewestWords = 2, kMostWords = 3 };  // of a state

typedef struct RandomKernel {
    bool threefry, returns_state;
    int state_words, rank, bits;
    const int64_t *sizes;
    HloType type;
    int64_t elements;
} RandomKernel;

// Elements below 8 bits keep the low bits of a byte of randomness.
static void narrow_bytes(const RandomKernel *kernel, uint8_t *bytes) {
    for (int64_t i = 0; i < kernel->elements; i++) bytes[i] = cpu_narrow_byte(kernel->type, bytes[i]);
}

static HloStatus run_random(const void *data, void *const *arguments, CpuPool *pool) {
    const RandomKernel *kernel = data;
    uint64_t unused[kMostWords];
    uint64_t *const state = kernel->returns_state ? arguments[1] : unused;
    void *const bits = arguments[kernel->returns_state ? 2 : 1];
    if (kernel->threefry)
        cpu_rng_threefry(pool, arguments[0], state, kernel->rank, kernel->sizes, kernel->bits, bits);
    else
        cpu_rng_philox(pool, kernel->state_words, arguments[0], state, kernel->rank, kernel->sizes, kernel->bits, bits);
    if (hlo_type_info(kernel->type)->bits < 8) narrow_bytes(kernel, bits);
    return HLO_SUCCESS;
}

HloStatus cpu_lower_random_bits(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const int32_t algorithm = HLO_ATTRIBUTES(node->instruction, RngBits)->algorithm;
    const bool threefry = algorithm == HLO_RandomAlgorithm_THREE_FRY;
    const int64_t words = node->operands[0]->bytes / (int64_t)sizeof(uint64_t);
    const bool returns_state = node->result_count == 2;
    HLO_FAIL_IF(node->operands[0]->bytes % (int64_t)sizeof(uint64_t) || words < kFewestWords || words > kMostWords ||
                    (returns_state && node->results[0]->bytes != node->operands[0]->bytes),
                HLO_INVALID_ARGUMENT, "%%%s: the state must be u64[2] or u64[3]", node->instruction->name);
    const CpuArray *bits = node->results[returns_state];
    const HloShape *shape = bits->shape;
    RandomKernel *kernel = HLO_ARENA_NEW(lowering->arena, RandomKernel, 1);
    *kernel = (RandomKernel){.threefry = threefry,
                             .returns_state = returns_state,
                             .state_words = (int)words,
                             .rank = shape->rank,
                             .bits = 8 * hlo_type_bytes(shape->type),
                             .sizes = cpu_copy_dims(lowering->arena, shape),
                             .type = shape->type,
                             .elements = bits->elements};
    cpu_step_kernel(lowering, node, step, run_random, kernel);
    step->cost *= 16;
    return HLO_SUCCESS;
}
