// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/gather.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/copy.h"
#include "targets/cpu/loop_internal.h"
#include "targets/cpu/number.h"

enum { kParallelBytes = 64 << 10, kCombineBlock = 512 };

// One dimension of the slices: how far a step goes in the operand and in the result (or the updates).
typedef struct WindowStep {
    int64_t size, operand, result;
} WindowStep;

// One batch dimension: a step in the result, in the indices and (batching dimensions) in the operand.
typedef struct BatchStep {
    int64_t size, result, indices, operand;
} BatchStep;

typedef struct StartStep {
    int64_t operand;  // stride of the dimension that the index counts
    int64_t largest;  // last start at which the slice fits
} StartStep;

typedef struct IndexPlan {
    int window_rank, batch_rank, start_count;
    WindowStep window[CPU_KERNEL_RANK_LIMIT];  // innermost first
    BatchStep batch[CPU_KERNEL_RANK_LIMIT];    // innermost first
    StartStep starts[CPU_KERNEL_RANK_LIMIT];
    int64_t start_stride;  // between the components of one index vector
    int64_t batch_count;   // slices
    int64_t slice_count;   // elements of one slice
    HloType index_type;
    const char *indices;
} IndexPlan;

static bool contains(const int64_t *list, int count, int64_t value) {
    for (int i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

static void row_major(int rank, const int64_t *sizes, int64_t *strides) {
    int64_t next = 1;
    for (int d = rank - 1; d >= 0; d--) strides[d] = next, next *= sizes[d];
}

// Sizes of a slice in every operand dimension; a scatter's come from its updates.
static void slice_sizes_of(const CpuIndexing *x, bool scatter, int64_t *sizes) {
    for (int d = 0, w = 0; d < x->operand_rank; d++) {
        const bool hidden = contains(x->collapsed_dims, x->collapsed_count, d) ||
                            contains(x->operand_batching_dims, x->batching_count, d);
        if (!scatter)
            sizes[d] = x->slice_sizes[d];
        else
            sizes[d] = hidden ? 1 : x->result_sizes[x->window_dims[w++]];
    }
}

static void plan_window(IndexPlan *plan, const CpuIndexing *x, const int64_t *operand_strides,
                        const int64_t *result_strides) {
    plan->slice_count = 1;
    int w = 0;
    WindowStep steps[CPU_KERNEL_RANK_LIMIT];
    for (int d = 0; d < x->operand_rank; d++) {
        if (contains(x->collapsed_dims, x->collapsed_count, d) ||
            contains(x->operand_batching_dims, x->batching_count, d))
            continue;
        const int64_t result_dim = x->window_dims[w];
        steps[w++] = (WindowStep){x->result_sizes[result_dim], operand_strides[d], result_strides[result_dim]};
        plan->slice_count *= x->result_sizes[result_dim];
    }
    while (w-- > 0) {  // innermost first, neighbours merged
        WindowStep *top = plan->window_rank ? &plan->window[plan->window_rank - 1] : NULL;
        if (steps[w].size == 1) continue;
        if (top && steps[w].operand == top->operand * top->size && steps[w].result == top->result * top->size)
            top->size *= steps[w].size;
        else
            plan->window[plan->window_rank++] = steps[w];
    }
    if (plan->window_rank == 0) plan->window[plan->window_rank++] = (WindowStep){1, 1, 1};
}

static void plan_batch(IndexPlan *plan, const CpuIndexing *x, const int64_t *operand_strides,
                       const int64_t *result_strides, const int64_t *indices_strides) {
    BatchStep steps[CPU_KERNEL_RANK_LIMIT];
    int count = 0, indices_dim = 0;
    plan->batch_count = 1;
    for (int d = 0; d < x->result_rank; d++) {
        if (contains(x->window_dims, x->window_count, d)) continue;
        if (indices_dim == x->index_vector_dim) indices_dim++;
        BatchStep step = {x->result_sizes[d], result_strides[d], indices_strides[indices_dim], 0};
        for (int b = 0; b < x->batching_count; b++)
            if (x->indices_batching_dims[b] == indices_dim)
                step.operand += operand_strides[x->operand_batching_dims[b]];
        steps[count++] = step;
        plan->batch_count *= step.size;
        indices_dim++;
    }
    while (count-- > 0) plan->batch[plan->batch_rank++] = steps[count];
}

static HloStatus make_plan(const CpuIndexing *x, bool scatter, const void *indices, IndexPlan *plan) {
    assert(x && plan);
    int64_t operand_strides[CPU_KERNEL_RANK_LIMIT], result_strides[CPU_KERNEL_RANK_LIMIT];
    int64_t indices_strides[CPU_KERNEL_RANK_LIMIT], sizes[CPU_KERNEL_RANK_LIMIT];
    HLO_FAIL_IF(x->operand_rank > CPU_KERNEL_RANK_LIMIT || x->result_rank > CPU_KERNEL_RANK_LIMIT ||
                    x->indices_rank > CPU_KERNEL_RANK_LIMIT,
                HLO_UNIMPLEMENTED, "%s of more than %d dimensions", scatter ? "scatter" : "gather",
                CPU_KERNEL_RANK_LIMIT);
    *plan =
        (IndexPlan){.index_type = x->index_type, .indices = indices, .start_count = x->map_count, .start_stride = 1};
    row_major(x->operand_rank, x->operand_sizes, operand_strides);
    row_major(x->result_rank, x->result_sizes, result_strides);
    row_major(x->indices_rank, x->indices_sizes, indices_strides);
    slice_sizes_of(x, scatter, sizes);
    plan_window(plan, x, operand_strides, result_strides);
    plan_batch(plan, x, operand_strides, result_strides, indices_strides);
    if (x->index_vector_dim < x->indices_rank) plan->start_stride = indices_strides[x->index_vector_dim];
    for (int i = 0; i < x->map_count; i++) {
        const int64_t d = x->start_index_map[i];
        plan->starts[i] = (StartStep){operand_strides[d], x->operand_sizes[d] - sizes[d]};
    }
    return HLO_SUCCESS;
}

// Element offsets of slice number `flat` in the result and in the operand. False when it does not fit and `clamp` is
// off.
static bool locate(const IndexPlan *plan, int64_t flat, bool clamp, int64_t *result, int64_t *operand) {
    int64_t indices = 0;
    *result = *operand = 0;
    for (int d = 0; d < plan->batch_rank; d++) {
        const BatchStep *step = &plan->batch[d];
        const int64_t index = flat % step->size;
        flat /= step->size;
        *result += index * step->result;
        *operand += index * step->operand;
        indices += index * step->indices;
    }
    for (int i = 0; i < plan->start_count; i++) {
        int64_t start = cpu_read_integer(plan->indices, plan->index_type, indices + i * plan->start_stride);
        if (start < 0 || start > plan->starts[i].largest) {
            if (!clamp) return false;
            start = start < 0 ? 0 : plan->starts[i].largest;
        }
        *operand += start * plan->starts[i].operand;
    }
    return true;
}

// ---- fetching early

// Rows that indices point to lie anywhere: the memory of the next ones is asked for while one is copied or updated.
typedef struct FetchPlan {
    const char *base;  // NULL: the array is small or its rows are not whole runs
    int64_t slices;    // how many slices ahead
    int64_t bytes;     // of a run, at most kMostBytes
    int width;
} FetchPlan;

static FetchPlan plan_fetch(const IndexPlan *plan, const void *operand, int64_t operand_elements, int width) {
    enum { kNearBytes = 1 << 20, kMostBytes = 4096, kMostSlices = 16 };
    const WindowStep *run = &plan->window[0];
    const int64_t bytes = run->size * width;
    FetchPlan fetch = {.width = width};
    if (operand_elements * width <= kNearBytes || run->operand != 1) return fetch;
    fetch.base = operand;
    fetch.bytes = bytes < kMostBytes ? bytes : kMostBytes;
    fetch.slices = kMostBytes / fetch.bytes < kMostSlices ? kMostBytes / fetch.bytes : kMostSlices;
    assert(fetch.bytes > 0 && fetch.slices > 0);  // runs have elements
    return fetch;
}

// Asks for the slice that lies `slices` behind number `flat` of [.., end).
static void fetch_slice(const FetchPlan *fetch, const IndexPlan *plan, int64_t flat, int64_t end, bool clamp) {
    enum { kLine = 64 };
    int64_t result, operand;
    if (!fetch->base || flat + fetch->slices >= end) return;
    if (!locate(plan, flat + fetch->slices, clamp, &result, &operand)) return;
    const char *at = fetch->base + operand * fetch->width;
    for (int64_t i = 0; i < fetch->bytes; i += kLine) __builtin_prefetch(at + i, 0, 2);
}

static int64_t element_count(int rank, const int64_t *sizes) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= sizes[d];
    return count;
}

// ---- gather

typedef struct GatherJob {
    FetchPlan fetch;
    IndexPlan plan;
    int width;
    char *result;
    const char *operand;
} GatherJob;

static void copy_run(char *to, const char *from, const WindowStep *step, int width) {
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
    const IndexPlan *plan = &job->plan;
    int64_t index[CPU_KERNEL_RANK_LIMIT] = {0}, runs = plan->slice_count / plan->window[0].size;
    for (;;) {
        copy_run(to, from, &plan->window[0], job->width);
        if (--runs <= 0) return;
        for (int d = 1; d < plan->window_rank; d++) {
            const WindowStep *step = &plan->window[d];
            to += step->result * job->width;
            from += step->operand * job->width;
            if (++index[d] < step->size) break;
            to -= step->size * step->result * job->width;
            from -= step->size * step->operand * job->width;
            index[d] = 0;
        }
    }
}

static void gather_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const GatherJob *job = argument;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t to, from;
        fetch_slice(&job->fetch, &job->plan, i, end, true);
        (void)locate(&job->plan, i, true, &to, &from);
        copy_slice(job, job->result + to * job->width, job->operand + from * job->width);
    }
}

HloStatus cpu_gather(CpuPool *pool, const CpuIndexing *indexing, int width, void *result, const void *operand,
                     const void *indices) {
    assert(indexing && width > 0);
    GatherJob job = {.width = width, .result = result, .operand = operand};
    HLO_TRY(make_plan(indexing, false, indices, &job.plan));
    if (job.plan.batch_count == 0 || job.plan.slice_count == 0) return HLO_SUCCESS;
    const int64_t bytes = job.plan.slice_count * width;
    job.fetch = plan_fetch(&job.plan, operand, element_count(indexing->operand_rank, indexing->operand_sizes), width);
    cpu_pool_parallel_for_grain(job.plan.batch_count * (bytes + 8) < kParallelBytes ? NULL : pool, job.plan.batch_count,
                                kParallelBytes / 4 / (bytes + 8) + 1, gather_task, &job);
    return HLO_SUCCESS;
}

// ---- scatter

// How several workers share a scatter without changing the order in which any element is updated.
typedef enum ScatterSplit {
    SPLIT_NOT,
    SPLIT_COLUMNS,  // each worker applies every update to its own part of the innermost window dimension
    SPLIT_OWNERS,   // windows of one element: each worker applies the updates to its own part of the operand
} ScatterSplit;

typedef struct ScatterJob {
    IndexPlan plan;
    FetchPlan fetch;  // of the first operand
    const CpuScatter *scatter;
    const CpuLoopKernels *kernels;
    void *const *operands;
    const void *const *updates;
    ScatterSplit split;
    int64_t operand_count;
} ScatterJob;

// target[i] = op(target[i], update[i]) for a contiguous run of operand number `which`.
static void combine_run(const ScatterJob *job, int which, char *target, const char *update, int64_t count) {
    const HloType type = job->scatter->types[which];
    const int width = hlo_type_bytes(type);
    static const CpuLoopOp ops[] = {[CPU_SCATTER_ADD] = CPU_OP_ADD,
                                    [CPU_SCATTER_MULTIPLY] = CPU_OP_MULTIPLY,
                                    [CPU_SCATTER_MINIMUM] = CPU_OP_MINIMUM,
                                    [CPU_SCATTER_MAXIMUM] = CPU_OP_MAXIMUM};
    if (job->scatter->op == CPU_SCATTER_ASSIGN) {
        memcpy(target, update, (size_t)(count * width));
        return;
    }
    CpuBlockKernel *kernel = job->kernels->operation[ops[job->scatter->op]][cpu_register_of(type)];
    if (!job->kernels->decode[type]) {
        kernel(target, target, update, NULL, count, 0);
        if (job->kernels->wrap[type]) job->kernels->wrap[type](target, target, NULL, NULL, count, 0);
        return;
    }
    float left[kCombineBlock], right[kCombineBlock];
    for (int64_t i = 0; i < count; i += kCombineBlock) {
        const int64_t n = count - i < kCombineBlock ? count - i : kCombineBlock;
        job->kernels->decode[type](left, target + i * width, NULL, NULL, n, 0);
        job->kernels->decode[type](right, update + i * width, NULL, NULL, n, 0);
        kernel(left, left, right, NULL, n, 0);
        job->kernels->encode[type](target + i * width, left, NULL, NULL, n, 0);
    }
}

static void call_one(const ScatterJob *job, int64_t operand, int64_t update) {
    void *targets[CPU_KERNEL_RANK_LIMIT];
    const void *sources[CPU_KERNEL_RANK_LIMIT];
    const CpuScatter *s = job->scatter;
    for (int i = 0; i < s->count; i++) {
        targets[i] = (char *)job->operands[i] + operand * hlo_type_bytes(s->types[i]);
        sources[i] = (const char *)job->updates[i] + update * hlo_type_bytes(s->types[i]);
    }
    s->combine(s->context, s->count, targets, sources);
}

// Part [begin, end) of one run along the innermost window dimension.
static void apply_run(const ScatterJob *job, int64_t operand, int64_t update, int64_t begin, int64_t end) {
    assert(begin >= 0 && begin <= end);
    const WindowStep *step = &job->plan.window[0];
    const CpuScatter *s = job->scatter;
    if (s->op == CPU_SCATTER_CALL) {
        for (int64_t i = begin; i < end; i++) call_one(job, operand + i * step->operand, update + i * step->result);
        return;
    }
    const bool contiguous = step->operand == 1 && step->result == 1;
    for (int which = 0; which < s->count; which++) {
        const int width = hlo_type_bytes(s->types[which]);
        char *target = (char *)job->operands[which] + (operand + begin * step->operand) * width;
        const char *source = (const char *)job->updates[which] + (update + begin * step->result) * width;
        if (contiguous) combine_run(job, which, target, source, end - begin);
        for (int64_t i = begin; i < end && !contiguous;
             i++, target += step->operand * width, source += step->result * width)
            combine_run(job, which, target, source, 1);
    }
}

static void apply_slice(const ScatterJob *job, int64_t operand, int64_t update, int64_t begin, int64_t end) {
    assert(begin >= 0 && begin <= end);
    const IndexPlan *plan = &job->plan;
    int64_t index[CPU_KERNEL_RANK_LIMIT] = {0}, runs = plan->slice_count / plan->window[0].size;
    for (;;) {
        apply_run(job, operand, update, begin, end);
        if (--runs <= 0) return;
        for (int d = 1; d < plan->window_rank; d++) {
            const WindowStep *step = &plan->window[d];
            operand += step->operand;
            update += step->result;
            if (++index[d] < step->size) break;
            operand -= step->size * step->operand;
            update -= step->size * step->result;
            index[d] = 0;
        }
    }
}

// [begin, end) is a part of the columns, of the operand's elements, or of nothing (the one call does all).
static void scatter_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ScatterJob *job = argument;
    const IndexPlan *plan = &job->plan;
    (void)worker;
    for (int64_t i = 0; i < plan->batch_count; i++) {
        int64_t update, operand;
        if (job->split == SPLIT_NOT) fetch_slice(&job->fetch, plan, i, plan->batch_count, false);
        if (!locate(plan, i, false, &update, &operand)) continue;
        if (job->split == SPLIT_OWNERS) {
            if (operand >= begin && operand < end) apply_run(job, operand, update, 0, 1);
        } else if (job->split == SPLIT_COLUMNS)
            apply_slice(job, operand, update, begin, end);
        else
            apply_slice(job, operand, update, 0, plan->window[0].size);
    }
}

static ScatterSplit choose_split(const ScatterJob *job, CpuPool *pool) {
    const int64_t work = job->plan.batch_count * job->plan.slice_count;
    if (cpu_pool_worker_count(pool) == 1 || work < 16384 || job->scatter->serial) return SPLIT_NOT;
    if (job->plan.slice_count == 1) return SPLIT_OWNERS;
    return job->plan.window[0].size >= 64 ? SPLIT_COLUMNS : SPLIT_NOT;
}

static HloStatus check_types(const ScatterJob *job) {
    static const CpuLoopOp ops[] = {CPU_OP_ADD, CPU_OP_ADD, CPU_OP_MULTIPLY, CPU_OP_MINIMUM, CPU_OP_MAXIMUM};
    const CpuScatter *s = job->scatter;
    HLO_FAIL_IF(s->count < 1 || s->count > CPU_KERNEL_RANK_LIMIT, HLO_UNIMPLEMENTED, "scatter of %d operands",
                s->count);
    for (int i = 0; i < s->count && s->op != CPU_SCATTER_CALL && s->op != CPU_SCATTER_ASSIGN; i++)
        HLO_FAIL_IF(!job->kernels->operation[ops[s->op]][cpu_register_of(s->types[i])], HLO_UNIMPLEMENTED,
                    "scatter combining %s", hlo_type_text(s->types[i]));
    return HLO_SUCCESS;
}

HloStatus cpu_scatter(CpuPool *pool, const CpuScatter *scatter, void *const *operands, const void *indices,
                      const void *const *updates) {
    assert(scatter && operands && updates);
    ScatterJob job = {.scatter = scatter,
                      .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)),
                      .operands = operands,
                      .updates = updates};
    HLO_TRY(check_types(&job));
    HLO_TRY(make_plan(&scatter->indexing, true, indices, &job.plan));
    if (job.plan.batch_count == 0 || job.plan.slice_count == 0) return HLO_SUCCESS;
    job.operand_count = element_count(scatter->indexing.operand_rank, scatter->indexing.operand_sizes);
    job.fetch = plan_fetch(&job.plan, operands[0], job.operand_count, hlo_type_bytes(scatter->types[0]));
    job.split = choose_split(&job, pool);
    switch (job.split) {
        case SPLIT_NOT: scatter_task(&job, 0, 1, 0); break;
        case SPLIT_COLUMNS: cpu_pool_parallel_for(pool, job.plan.window[0].size, scatter_task, &job); break;
        case SPLIT_OWNERS: cpu_pool_parallel_for(pool, job.operand_count, scatter_task, &job); break;
    }
    return HLO_SUCCESS;
}
