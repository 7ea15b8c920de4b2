// SPDX-License-Identifier: Apache-2.0
// A gather is a list of slices. The plan (index_plan.h) computes, for blocks of slices, where each begins in operand
// and result, with starts clamped so that a slice never leaves the operand. The rest is copying: short contiguous
// slices are copied by the kernels of the instruction set (one call per block), others run by run. Where slices are
// runs at equal distances in the result (embedding tables, x[i, j]), they are lines: only their offsets in the operand
// are computed, as 32-bit numbers.
#include "targets/cpu/kernels/gather.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/kernels/index_plan.h"

enum { kParallelBytes = 64 << 10 };

// ---- gather

typedef struct GatherJob {
    const CpuIndexKernels *kernels;
    CpuFetchPlan fetch;
    CpuIndexPlan plan;
    CpuIndexLine line;  // all slices where they are lines
    bool shares;        // all lines have the same indices
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

// Copies a slice of several dimensions: runs along the innermost, the rest counted like an odometer with pointers that
// step back at each carry.
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

// True if slices are runs that the kernels copy without a call for each.
static bool has_kernel(const GatherJob *job) {
    enum { kLongBytes = 256 };
    const CpuWindowStep *run = &job->plan.window[0];
    return job->plan.window_rank == 1 && run->operand == 1 && run->result == 1 && run->size * job->width <= kLongBytes;
}

static void gather_block(const GatherJob *job, const CpuIndexBlock *block) {
    if (has_kernel(job)) {
        const CpuIndexLine line = cpu_index_line_of_block(&job->plan, block, &job->fetch);
        job->kernels->gather[CPU_INDEX_PLACES](&line, job->width, job->result, job->operand);
        return;
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

// Copies `count` slices of one line from number `first` on, and those with the same indices in the lines that follow,
// `lines` in all: the offsets are computed once.
static void copy_lines(const GatherJob *job, int64_t first, int64_t count, int64_t lines) {
    int32_t offsets[CPU_INDEX_OFFSETS_AT_ONCE];
    for (int64_t at = 0; at < count; at += CPU_INDEX_OFFSETS_AT_ONCE) {
        const int64_t n = count - at < CPU_INDEX_OFFSETS_AT_ONCE ? count - at : CPU_INDEX_OFFSETS_AT_ONCE;
        cpu_index_line_offsets(&job->plan, first + at, n, true, offsets);
        for (int64_t i = 0; i < lines; i++) {
            const int64_t slice = first + i * job->line.count + at;
            int64_t result, operand;
            CpuIndexLine part = cpu_index_line_part(&job->plan, &job->line, slice, slice + n, &result, &operand);
            part.offsets = offsets;
            job->kernels->gather[CPU_INDEX_OFFSETS](&part, job->width, job->result + result * job->width,
                                                    job->operand + operand * job->width);
        }
    }
}

static bool shares_indices(const GatherJob *job) {
    bool same = job->plan.batch_rank > 1;
    for (int d = 1; d < job->plan.batch_rank; d++) same = same && job->plan.batch[d].indices == 0;
    return same;
}

// Copies slices that are lines. A long line's part of the operand leaves the caches while many others are copied, so
// that lines with the same indices are copied a few at a time.
static void line_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const GatherJob *job = argument;
    enum { kLines = 16 };
    const int64_t count = job->line.count;
    (void)worker;
    for (int64_t i = begin; i < end;) {
        const int64_t whole = job->shares && i % count == 0 ? (end - i) / count : 0;
        const int64_t lines = whole > kLines ? kLines : whole > 1 ? whole : 1;
        const int64_t left = count - i % count, slices = left < end - i ? left : end - i;
        copy_lines(job, i, slices, lines);
        i += slices * lines;
    }
}

// Threads share the slices. Eight bytes per slice are added for reading its index, so that gathers of single elements
// do not seem to cost nothing.
HloStatus cpu_gather(CpuPool *pool, const CpuIndexing *indexing, int width, void *result, const void *operand,
                     const void *const *indices) {
    assert(indexing && width > 0 && indices);
    GatherJob job = {.kernels = cpu_isa_index_kernels(cpu_pool_features(pool)),
                     .width = width,
                     .result = result,
                     .operand = operand};
    HLO_TRY(cpu_index_plan(indexing, false, indices, &job.plan));
    job.plan.kernels = job.kernels;
    if (job.plan.batch_count == 0 || job.plan.slice_count == 0) return HLO_SUCCESS;
    const int64_t bytes = job.plan.slice_count * width;
    const int64_t elements = cpu_index_elements(indexing->operand_rank, indexing->operand_sizes);
    const bool is_line = cpu_index_line(&job.plan, elements, width, &job.line);
    job.shares = is_line && shares_indices(&job);
    job.fetch = cpu_index_plan_fetch(&job.plan, operand, elements, width);
    cpu_pool_parallel_for_grain(job.plan.batch_count * (bytes + 8) < kParallelBytes ? NULL : pool, job.plan.batch_count,
                                kParallelBytes / 4 / (bytes + 8) + 1, is_line ? line_task : gather_task, &job);
    return HLO_SUCCESS;
}

// ---- masked slices

typedef struct FillJob {
    CpuIndexPlan plan;
    const bool *mask;
    const char *element;
    char *result;
    int width;
} FillJob;

// Fills the slice that begins at element `place` of the result.
static void fill_slice(const FillJob *job, int64_t place) {
    const CpuIndexPlan *plan = &job->plan;
    const CpuWindowStep *run = &plan->window[0];
    int64_t index[CPU_KERNEL_RANK_LIMIT] = {0}, runs = plan->slice_count / run->size;
    for (;;) {
        if (run->result == 1)
            cpu_fill_run(job->result + place * job->width, job->element, run->size, job->width);
        else
            cpu_copy_run(job->result + place * job->width, run->result, job->element, 0, run->size, job->width);
        if (--runs <= 0) return;
        for (int d = 1; d < plan->window_rank; d++) {
            place += plan->window[d].result;
            if (++index[d] < plan->window[d].size) break;
            place -= plan->window[d].size * plan->window[d].result;
            index[d] = 0;
        }
    }
}

static void fill_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const FillJob *job = argument;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const bool *masked = memchr(job->mask + i, false, (size_t)(end - i));
        if (!masked) return;
        i = masked - job->mask;
        fill_slice(job, cpu_index_result_place(&job->plan, i));
    }
}

// Nearly all masks are true throughout.
HloStatus cpu_gather_fill(CpuPool *pool, const CpuIndexing *indexing, int width, void *result, const bool *mask,
                          const void *element) {
    assert(indexing && width > 0 && mask && element);
    FillJob job = {.mask = mask, .element = element, .result = result, .width = width};
    HLO_TRY(cpu_index_plan(indexing, true, NULL, &job.plan));  // as for a scatter: the batch has only index vectors
    if (job.plan.batch_count == 0 || job.plan.slice_count == 0) return HLO_SUCCESS;
    const int64_t bytes = job.plan.slice_count * width;
    cpu_pool_parallel_for_grain(job.plan.batch_count * (bytes + 1) < kParallelBytes ? NULL : pool, job.plan.batch_count,
                                kParallelBytes / (bytes + 1) + 1, fill_task, &job);
    return HLO_SUCCESS;
}
