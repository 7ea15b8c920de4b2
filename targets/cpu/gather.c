// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/gather.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/index_plan.h"

enum { kParallelBytes = 64 << 10, kAhead = 32 };  // elements that are fetched ahead

// ---- gather

typedef struct GatherJob {
    CpuFetchPlan fetch;
    CpuIndexPlan plan;
    int width;
    char *result;
    const char *operand;
} GatherJob;

static void copy_run(char *to, const char *from, const CpuWindowStep *step, int width) {
    if (step->operand == 1 && step->result == 1) {
        switch (step->size * width) {  // constant sizes become single moves
            case 1: *to = *from; break;
            case 2: memcpy(to, from, 2); break;
            case 4: memcpy(to, from, 4); break;
            case 8: memcpy(to, from, 8); break;
            default: memcpy(to, from, (size_t)(step->size * width));
        }
        return;
    }
    for (int64_t i = 0; i < step->size; i++)
        memcpy(to + i * step->result * width, from + i * step->operand * width, (size_t)width);
}

static void copy_slice(const GatherJob *job, char *to, const char *from) {
    const CpuIndexPlan *plan = &job->plan;
    int64_t index[CPU_KERNEL_RANK_LIMIT] = {0}, runs = plan->slice_count / plan->window[0].size;
    for (;;) {
        copy_run(to, from, &plan->window[0], job->width);
        if (--runs <= 0) return;
        for (int d = 1; d < plan->window_rank; d++) {
            const CpuWindowStep *step = &plan->window[d];
            to += step->result * job->width;
            from += step->operand * job->width;
            if (++index[d] < step->size) break;
            to -= step->size * step->result * job->width;
            from -= step->size * step->operand * job->width;
            index[d] = 0;
        }
    }
}

// Elements of one width, each at its own place.
#define GATHER_ELEMENTS(T)                                                                  \
    static void gather_##T(const CpuIndexBlock *block, void *result, const void *operand) { \
        T *to = result;                                                                     \
        const T *from = operand;                                                            \
        const int64_t count = block->count, early = count > kAhead ? count - kAhead : 0;    \
        int64_t i = 0;                                                                      \
        for (; i < early; i++) {                                                            \
            __builtin_prefetch(from + block->operands[i + kAhead]);                         \
            to[block->results[i]] = from[block->operands[i]];                               \
        }                                                                                   \
        for (; i < count; i++) to[block->results[i]] = from[block->operands[i]];            \
    }
GATHER_ELEMENTS(uint8_t)
GATHER_ELEMENTS(uint16_t)
GATHER_ELEMENTS(uint32_t)
GATHER_ELEMENTS(uint64_t)

// Rows of 16 to 256 bytes without a call for each: moves of 16 bytes, of which the last two may overlap. One copy of
// the code for each common length.
static inline __attribute__((always_inline)) void gather_rows(const GatherJob *job, const CpuIndexBlock *block,
                                                              const int64_t bytes) {
    enum { kMove = 16 };
    assert(bytes >= kMove);
    for (int64_t i = 0; i < block->count; i++) {
        char *to = job->result + block->results[i] * job->width;
        const char *from = job->operand + block->operands[i] * job->width;
        for (int64_t at = 0; at + kMove <= bytes; at += kMove) memcpy(to + at, from + at, kMove);
        if (bytes % kMove) memcpy(to + bytes - kMove, from + bytes - kMove, kMove);
    }
}

static void gather_block(const GatherJob *job, const CpuIndexBlock *block) {
    const CpuWindowStep *run = &job->plan.window[0];
    const int64_t bytes = run->size * job->width;
    if (job->plan.slice_count == 1 && job->width <= 8) {
        switch (job->width) {
            case 1: gather_uint8_t(block, job->result, job->operand); return;
            case 2: gather_uint16_t(block, job->result, job->operand); return;
            case 4: gather_uint32_t(block, job->result, job->operand); return;
            default: gather_uint64_t(block, job->result, job->operand); return;
        }
    }
    if (job->plan.window_rank == 1 && run->operand == 1 && run->result == 1 && bytes >= 16 && bytes <= 256) {
        for (int64_t i = 0; job->fetch.base && i < block->count; i++) cpu_index_fetch(&job->fetch, block, i);
        switch (bytes) {
            case 16: gather_rows(job, block, 16); return;
            case 32: gather_rows(job, block, 32); return;
            case 64: gather_rows(job, block, 64); return;
            case 128: gather_rows(job, block, 128); return;
            default: gather_rows(job, block, bytes); return;
        }
    }
    for (int64_t i = 0; i < block->count; i++) {
        cpu_index_fetch(&job->fetch, block, i);
        copy_slice(job, job->result + block->results[i] * job->width, job->operand + block->operands[i] * job->width);
    }
}

static void gather_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const GatherJob *job = argument;
    CpuIndexBlock block;
    (void)worker;
    for (int64_t i = begin; i < end; i += block.count) {
        cpu_index_block(&job->plan, i, end, true, &block);
        gather_block(job, &block);
    }
}

HloStatus cpu_gather(CpuPool *pool, const CpuIndexing *indexing, int width, void *result, const void *operand,
                     const void *indices) {
    assert(indexing && width > 0);
    GatherJob job = {.width = width, .result = result, .operand = operand};
    HLO_TRY(cpu_index_plan(indexing, false, indices, &job.plan));
    if (job.plan.batch_count == 0 || job.plan.slice_count == 0) return HLO_SUCCESS;
    const int64_t bytes = job.plan.slice_count * width;
    job.fetch = cpu_index_plan_fetch(&job.plan, operand,
                                     cpu_index_elements(indexing->operand_rank, indexing->operand_sizes), width);
    cpu_pool_parallel_for_grain(job.plan.batch_count * (bytes + 8) < kParallelBytes ? NULL : pool, job.plan.batch_count,
                                kParallelBytes / 4 / (bytes + 8) + 1, gather_task, &job);
    return HLO_SUCCESS;
}
