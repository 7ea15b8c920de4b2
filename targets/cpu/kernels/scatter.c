// SPDX-License-Identifier: Apache-2.0
// A scatter applies windows of updates at positions of the operand that are known only when it runs, and any two
// windows may overlap. Overlapping updates are applied in the order of the index vectors, on any number of workers:
// sums of floats depend on it. So workers share the output rather than the updates, in one of two ways (ScatterSplit):
// every worker goes through all windows and applies its part of each. If neither way keeps two workers from writing the
// same element (windows that overlap shifted), one worker does everything.
//
//     operand f32[6,8], windows of one row, indices 2 0 2    by owners: worker A rows 0-2, worker B rows 3-5
//     worker A   window 0 -> row 2, window 1 -> row 0, window 2 -> row 2      in this order
//     worker B   the same three windows, none of which is its own
//     by columns: worker A columns 0-3 of every window, worker B columns 4-7
//
// The forms, from the most general to the fastest: any windows run by run, with a computation of the program called for
// each element; blocks of a few hundred windows by one call of a kernel; windows whose position is given by one 32-bit
// index, without blocks (a line: index_plan.h); and for long rows of an operand that must be copied anyway, the updates
// sorted by row first, so that each row passes through the cache once (run_rows()).
//
// Narrow types are decoded, combined in f32 and encoded for each update, so that each update rounds as HLO's definition
// requires. Windows that are not entirely inside the operand have offset -1 in the index plan and are skipped.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/element/integer.h"
#include "targets/cpu/kernels/gather.h"
#include "targets/cpu/kernels/index_plan.h"

enum { kCombineBlock = 512 };

// How workers share a scatter without changing the order in which any element is updated.
typedef enum ScatterSplit {
    SPLIT_COLUMNS,  // columns that windows never share otherwise: each worker applies every update to its own columns
    SPLIT_OWNERS,   // windows that coincide or are disjoint: each worker updates its own part of the operand
} ScatterSplit;

typedef struct ScatterJob {
    CpuIndexPlan plan;
    CpuFetchPlan fetch;  // of the first operand
    const CpuScatter *scatter;
    const CpuLoopKernels *kernels;
    const CpuIndexKernels *index_kernels;
    void *const *operands;
    const void *const *updates;
    ScatterSplit split;
    bool shared;                  // by several workers
    int64_t operand_count;        // elements
    CpuScatterKernel *runs;       // of windows of one short run, or NULL
    CpuIndexLine line;            // such windows if one index gives each position,
    bool widened;                 // or many lines with the same indices and elements of their own,
    CpuScatterKernel *line_runs;  // and their kernel, or NULL
    CpuScatterKernel *points;     // the kernel of a line of points that are added in `padded`, or NULL
    float *padded;                // the operand with CPU_POINT_ROOM numbers for each point
    CpuBlockKernel *kernel;       // of windows of one run of a type that computes in its stored form, or NULL
    // By rows: the source, and the updates in the order of their rows, those of row r from starts[r] to before
    // starts[r + 1].
    const char *source;
    int32_t *starts;
    int64_t *order;
} ScatterJob;

// Returns the block kernel of an operation that is neither an assignment nor a call; NULL if the type has none.
static CpuBlockKernel *builtin_kernel(const CpuScatter *scatter, const CpuLoopKernels *kernels, int which) {
    static const CpuLoopOp kOps[] = {[CPU_SCATTER_ADD] = CPU_OP_ADD,
                                     [CPU_SCATTER_MULTIPLY] = CPU_OP_MULTIPLY,
                                     [CPU_SCATTER_MINIMUM] = CPU_OP_MINIMUM,
                                     [CPU_SCATTER_MAXIMUM] = CPU_OP_MAXIMUM};
    assert(scatter->op != CPU_SCATTER_ASSIGN && scatter->op != CPU_SCATTER_CALL);
    return kernels->operation[kOps[scatter->op]][cpu_register_of(scatter->types[which])];
}

// Computes target[i] = op(target[i], update[i]) for a contiguous run of operand number `which`.
static void combine_run(const ScatterJob *job, int which, char *target, const char *update, int64_t count) {
    const HloType type = job->scatter->types[which];
    const int width = hlo_type_bytes(type);
    if (job->scatter->op == CPU_SCATTER_ASSIGN) {
        memcpy(target, update, (size_t)(count * width));
        return;
    }
    CpuBlockKernel *kernel = builtin_kernel(job->scatter, job->kernels, which);
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

// Updates one element by the program's computation, all operands together.
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

// Applies part [begin, end) of one run along the innermost window dimension.
static void apply_run(const ScatterJob *job, int64_t operand, int64_t update, int64_t begin, int64_t end) {
    assert(begin >= 0 && begin <= end);
    const CpuWindowStep *step = &job->plan.window[0];
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
        if (!contiguous && s->op == CPU_SCATTER_ASSIGN) {
            cpu_copy_run(target, step->operand, source, step->result, end - begin, width);
            continue;
        }
        for (int64_t i = begin; i < end && !contiguous;
             i++, target += step->operand * width, source += step->result * width)
            combine_run(job, which, target, source, 1);
    }
}

// Applies columns [begin, end) of one window; runs along the innermost dimension are applied one after the other.
static void apply_slice(const ScatterJob *job, int64_t operand, int64_t update, int64_t begin, int64_t end) {
    assert(begin >= 0 && begin <= end);
    const CpuIndexPlan *plan = &job->plan;
    int64_t index[CPU_KERNEL_RANK_LIMIT] = {0}, runs = plan->slice_count / plan->window[0].size;
    for (;;) {
        apply_run(job, operand, update, begin, end);
        if (--runs <= 0) return;
        for (int d = 1; d < plan->window_rank; d++) {
            const CpuWindowStep *step = &plan->window[d];
            operand += step->operand;
            update += step->result;
            if (++index[d] < step->size) break;
            operand -= step->size * step->operand;
            update -= step->size * step->result;
            index[d] = 0;
        }
    }
}

// ---- windows of one short run

// Returns the kernel of such windows for the kind of their positions; NULL if the operation and the type have none.
static CpuScatterKernel *run_kernel(const ScatterJob *job, CpuIndexKind kind) {
    static const CpuIndexOp kOps[] = {[CPU_SCATTER_ASSIGN] = CPU_INDEX_ASSIGN,
                                      [CPU_SCATTER_ADD] = CPU_INDEX_ADD,
                                      [CPU_SCATTER_MULTIPLY] = CPU_INDEX_MULTIPLY,
                                      [CPU_SCATTER_MINIMUM] = CPU_INDEX_MINIMUM,
                                      [CPU_SCATTER_MAXIMUM] = CPU_INDEX_MAXIMUM};
    static const CpuRegisterType kUnsigned[] = {
        [1] = CPU_REGISTER_U8, [2] = CPU_REGISTER_U16, [4] = CPU_REGISTER_U32, [8] = CPU_REGISTER_U64};
    const CpuScatter *scatter = job->scatter;
    const HloType type = scatter->types[0];
    const int width = hlo_type_bytes(type);
    if (scatter->op == CPU_SCATTER_CALL || width > 8) return NULL;
    const bool assigns = scatter->op == CPU_SCATTER_ASSIGN;
    if (!assigns && (job->kernels->decode[type] || job->kernels->wrap[type])) return NULL;
    const bool by_width = assigns || (scatter->op == CPU_SCATTER_ADD && hlo_type_is_integer(type));
    return job->index_kernels->scatter[kind][kOps[scatter->op]][by_width ? kUnsigned[width] : cpu_register_of(type)];
}

// Applies one block of windows; [begin, end) as in scatter_task().
static void scatter_block(const ScatterJob *job, const CpuIndexBlock *block, int64_t begin, int64_t end) {
    const bool owners = job->split == SPLIT_OWNERS;
    const int64_t first = owners ? 0 : begin, columns = owners ? job->plan.window[0].size : end - begin,
                  width = hlo_type_bytes(job->scatter->types[0]);
    if (job->runs) {
        const CpuIndexLine line = cpu_index_line_of_block(&job->plan, block, &job->fetch);
        job->runs(&line, begin, end, job->operands[0], job->updates[0]);
        return;
    }
    for (int64_t i = 0; i < block->count; i++) {
        const int64_t operand = block->operands[i], update = block->results[i];
        if (operand < 0 || (owners && (operand < begin || operand >= end))) continue;
        if (owners || !job->shared) cpu_index_fetch(&job->fetch, block, i);
        if (job->kernel) {
            char *target = (char *)job->operands[0] + (operand + first) * width;
            job->kernel(target, target, (const char *)job->updates[0] + (update + first) * width, NULL, columns, 0);
        } else
            apply_slice(job, operand, update, first, first + columns);
    }
}

// [begin, end) is a part of the columns or of the operand's elements.
static void scatter_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ScatterJob *job = argument;
    CpuIndexBlock block;
    (void)worker;
    for (int64_t i = 0; i < job->plan.batch_count; i += block.count) {
        cpu_index_block(&job->plan, i, job->plan.batch_count, false, &block);
        scatter_block(job, &block, begin, end);
    }
}

// Applies the windows of a line to the elements [begin, end) of the operand by this kernel.
static void apply_line(const ScatterJob *job, CpuScatterKernel *kernel, void *operand, int64_t begin, int64_t end) {
    int32_t offsets[CPU_INDEX_OFFSETS_AT_ONCE];
    const int64_t width = hlo_type_bytes(job->scatter->types[0]), bytes = job->line.result_step * width;
    CpuIndexLine line = job->line;
    line.offsets = offsets;
    for (int64_t i = 0; i < job->line.count; i += line.count) {
        line.count = job->line.count - i < CPU_INDEX_OFFSETS_AT_ONCE ? job->line.count - i : CPU_INDEX_OFFSETS_AT_ONCE;
        cpu_index_line_offsets(&job->plan, i, line.count, false, offsets);
        kernel(&line, begin, end, operand, (const char *)job->updates[0] + i * bytes);
    }
}

static void line_task(void *argument, int64_t begin, int64_t end, int worker) {
    const ScatterJob *job = argument;
    (void)worker;
    apply_line(job, job->line_runs, job->operands[0], begin, end);
}

// Returns how many elements of the operand a line of the plan reaches from its first one on.
static int64_t line_reach(const CpuIndexPlan *plan) {
    int64_t reach = plan->window[0].size;
    for (int s = 0; s < plan->start_count; s++) reach += plan->starts[s].largest * plan->starts[s].operand;
    return reach;
}

// Does the same for many lines, all with the same indices and each with elements of its own: the offsets of some slices
// are applied in each line before those of the next.
static void lines_task(void *argument, int64_t begin, int64_t end, int worker) {
    const ScatterJob *job = argument;
    int32_t offsets[CPU_INDEX_OFFSETS_AT_ONCE];
    const int64_t width = hlo_type_bytes(job->scatter->types[0]), count = job->line.count,
                  lines = job->plan.batch_count / count, reach = line_reach(&job->plan);
    (void)worker;
    for (int64_t at = 0; at < count; at += CPU_INDEX_OFFSETS_AT_ONCE) {
        const int64_t n = count - at < CPU_INDEX_OFFSETS_AT_ONCE ? count - at : CPU_INDEX_OFFSETS_AT_ONCE;
        cpu_index_line_offsets(&job->plan, at, n, false, offsets);
        for (int64_t i = 0; i < lines; i++) {
            const int64_t slice = i * count + at;
            int64_t update, operand;
            CpuIndexLine part = cpu_index_line_part(&job->plan, &job->line, slice, slice + n, &update, &operand);
            if (operand + reach <= begin || operand >= end) continue;
            part.offsets = offsets;
            job->line_runs(&part, begin > operand ? begin - operand : 0, end - operand,
                           (char *)job->operands[0] + operand * width, (const char *)job->updates[0] + update * width);
        }
    }
}

// ---- points

// Returns the kernel for a line of points if these are several for each point of an operand that stays in the caches:
// then its copy with room for a vector each takes less time than adding the numbers one by one.
static CpuScatterKernel *points_kernel(const ScatterJob *job) {
    enum { kEach = 2, kMostBytes = 1 << 18 };
    const int64_t points = job->operand_count / CPU_POINT, bytes = (int64_t)sizeof(float) * CPU_POINT_ROOM;
    if (job->scatter->op != CPU_SCATTER_ADD || job->scatter->types[0] != HLO_F32) return NULL;
    if (job->line.columns != CPU_POINT || job->plan.start_count != 1 || job->plan.starts[0].operand != CPU_POINT ||
        job->operand_count % CPU_POINT)
        return NULL;
    const bool few = points * bytes > kMostBytes || job->line.count < kEach * points;
    return few ? NULL : job->index_kernels->add_points;
}

// Makes points [begin, end) of the result.
static void points_task(void *argument, int64_t begin, int64_t end, int worker) {
    const ScatterJob *job = argument;
    const float *from = (const float *)(const void *)job->source;
    float *to = job->operands[0], *padded = job->padded;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        for (int k = 0; k < CPU_POINT_ROOM; k++)
            padded[i * CPU_POINT_ROOM + k] = k < CPU_POINT ? from[i * CPU_POINT + k] : 0;
    apply_line(job, job->points, padded, begin * CPU_POINT_ROOM, end * CPU_POINT_ROOM);
    for (int64_t i = begin; i < end; i++)
        for (int k = 0; k < CPU_POINT; k++) to[i * CPU_POINT + k] = padded[i * CPU_POINT_ROOM + k];
}

static HloStatus run_points(CpuPool *pool, ScatterJob *job) {
    const int64_t points = job->operand_count / CPU_POINT;
    job->padded = cpu_pool_scratch_take(pool, sizeof(float) * (size_t)(points * CPU_POINT_ROOM));
    HLO_FAIL_IF(!job->padded, HLO_RESOURCE_EXHAUSTED, "no memory for the points of a scatter");
    job->plan.starts[0].operand = CPU_POINT_ROOM;
    if (job->shared)
        cpu_pool_parallel_for(pool, points, points_task, job);
    else
        points_task(job, 0, points, 0);
    cpu_pool_scratch_give(pool, job->padded);
    return HLO_SUCCESS;
}

// True if windows are runs of which any two coincide or are disjoint.
static bool has_owners(const CpuIndexPlan *plan) {
    const CpuWindowStep *run = &plan->window[0];
    bool apart = plan->window_rank == 1 && run->operand == 1;
    for (int i = 0; i < plan->start_count; i++) apart = apart && plan->starts[i].operand % run->size == 0;
    for (int i = 0; i < plan->batch_rank; i++) apart = apart && plan->batch[i].operand % run->size == 0;
    return apart;
}

// True if an element that two windows share is in the same column of both, so that workers may share the columns: all
// offsets between windows are multiples of a number that no column reaches. Windows that are shifted along their
// columns overlap in different columns, so workers would update an element concurrently, in any order.
static bool columns_are_apart(const CpuIndexPlan *plan) {
    int64_t move = 0;
    for (int i = 0; i < plan->start_count; i++) move = hlo_gcd(move, plan->starts[i].operand);
    for (int i = 0; i < plan->batch_rank; i++) move = hlo_gcd(move, plan->batch[i].operand);
    for (int d = 1; d < plan->window_rank; d++) move = hlo_gcd(move, plan->window[d].operand);
    return move == 0 || move > (plan->window[0].size - 1) * plan->window[0].operand;
}

// ---- whole rows

// Sorts the updates by row, stably, by counting.
static void sort_updates(ScatterJob *job, int64_t rows) {
    const int64_t size = job->plan.window[0].size;
    int32_t *starts = job->starts;
    CpuIndexBlock block;
    memset(starts, 0, sizeof(int32_t) * (size_t)(rows + 2));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < job->plan.batch_count; i += block.count) {
            cpu_index_block(&job->plan, i, job->plan.batch_count, false, &block);
            for (int64_t s = 0; s < block.count; s++) {
                if (block.operands[s] < 0) continue;
                const int64_t row = block.operands[s] / size;
                assert(row < rows); /* the slice fits */
                if (pass == 0)
                    starts[row + 2]++;
                else
                    job->order[starts[row + 1]++] = block.results[s];
            }
        }
        // The second pass moves each row's start to its end, which is the next one's start.
        for (int64_t row = 0; pass == 0 && row < rows; row++) starts[row + 2] += starts[row + 1];
    }
}

// Combines the updates of row number `row`, which has some, a piece at a time in the first-level cache.
static void combine_row(const ScatterJob *job, int64_t row, int64_t width) {
    enum { kPieceBytes = 4096, kLine = 64 };
    _Alignas(64) char piece[kPieceBytes];
    const int64_t size = job->plan.window[0].size, most = kPieceBytes / width;
    for (int64_t at = 0; at < size; at += most) {
        const int64_t count = size - at < most ? size - at : most, offset = row * size + at;
        const void *from = job->source + offset * width;
        for (int32_t k = job->starts[row]; k < job->starts[row + 1]; k++, from = piece)
            job->kernel(piece, from, (const char *)job->updates[0] + (job->order[k] + at) * width, NULL, count, 0);
        job->kernels->stream((char *)job->operands[0] + offset * width, piece, (size_t)(count * width));
    }
    // The update after the next one, whose row may follow immediately.
    const char *next = (const char *)job->updates[0] + job->order[job->starts[row + 1] + 1] * width;
    for (int64_t i = 0; i < size * width && i < kPieceBytes; i += kLine) __builtin_prefetch(next + i, 0, 2);
}

// Copies rows without updates in long stretches; combines the others during the copy.
static void rows_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ScatterJob *job = argument;
    const int64_t width = hlo_type_bytes(job->scatter->types[0]), bytes = job->plan.window[0].size * width;
    (void)worker;
    for (int64_t row = begin; row < end;) {
        int64_t plain = row;
        while (plain < end && job->starts[plain] == job->starts[plain + 1]) plain++;
        job->kernels->stream((char *)job->operands[0] + row * bytes, job->source + row * bytes,
                             (size_t)((plain - row) * bytes));
        for (row = plain; row < end && job->starts[row] < job->starts[row + 1]; row++) combine_row(job, row, width);
    }
    job->kernels->streamed();
}

// True for a large operand that must be copied anyway, with rows of more than a few cache lines.
static bool goes_by_rows(const ScatterJob *job) {
    enum { kLeastBytes = 256 };
    const int64_t width = hlo_type_bytes(job->scatter->types[0]), size = job->plan.window[0].size;
    return job->kernel && job->source != job->operands[0] && has_owners(&job->plan) &&
           job->operand_count * width >= CPU_COPY_STREAMED_BYTES && size * width >= kLeastBytes &&
           job->plan.batch_count < INT32_MAX;
}

// Needs O(rows + updates) memory for sorting by counting.
static HloStatus run_rows(CpuPool *pool, ScatterJob *job) {
    enum { kRowsEach = 64 };
    const int64_t rows = job->operand_count / job->plan.window[0].size;
    assert(job->operand_count % job->plan.window[0].size == 0); /* the row is a product of dimensions */
    // Two more updates: those after the last are prefetched too.
    const size_t order = sizeof(int64_t) * (size_t)(job->plan.batch_count + 2);
    char *memory = cpu_pool_scratch_take(pool, order + sizeof(int32_t) * (size_t)(rows + 2));
    HLO_FAIL_IF(!memory, HLO_RESOURCE_EXHAUSTED, "no memory to sort the updates of a scatter");
    job->order = (int64_t *)(void *)memory;
    job->starts = (int32_t *)(void *)(memory + order);
    memset(job->order, 0, order);
    sort_updates(job, rows);
    cpu_pool_parallel_for_grain(pool, rows, kRowsEach, rows_task, job);
    cpu_pool_scratch_give(pool, memory);
    return HLO_SUCCESS;
}

// ---- the whole

// Makes lines of columns if there is a kernel for them.
static void widen(ScatterJob *job) {
    const CpuIndexPlan *plan = &job->plan;
    const bool plain = job->scatter->count == 1 && plan->batch_rank == 1 && plan->batch[0].operand == 0;
    const int width = hlo_type_bytes(job->scatter->types[0]);
    CpuIndexPlan widened;
    if (!plain || !run_kernel(job, CPU_INDEX_OFFSETS) || !cpu_index_widen_scatter(plan, &widened)) return;
    job->widened = has_owners(&widened) && cpu_index_line(&widened, job->operand_count, width, &job->line);
    if (job->widened) job->plan = widened;
}

// Chooses how workers share the scatter, and the kernel of windows that have one.
static void choose_split(ScatterJob *job, const CpuPool *pool) {
    enum { kWorthSharing = 16384, kManyColumns = 256 };
    const CpuIndexPlan *plan = &job->plan;
    widen(job);
    const bool owners = has_owners(plan), wide = plan->window[0].size >= kManyColumns;
    job->split = owners && !wide ? SPLIT_OWNERS : SPLIT_COLUMNS;
    job->shared = cpu_pool_worker_count(pool) > 1 && plan->batch_count * plan->slice_count >= kWorthSharing &&
                  !job->scatter->serial && (owners || (wide && columns_are_apart(plan)));
    const CpuWindowStep *run = &plan->window[0];
    const HloType type = job->scatter->types[0];
    const bool one_run = plan->window_rank == 1 && run->operand == 1 && run->result == 1 && job->scatter->count == 1;
    if (one_run && job->split == SPLIT_OWNERS) {
        job->runs = run_kernel(job, CPU_INDEX_PLACES);
        const bool whole = plan->batch_rank == 1 && plan->batch[0].operand == 0;
        if (job->widened)
            job->line_runs = run_kernel(job, CPU_INDEX_OFFSETS);
        else if (whole && cpu_index_line(plan, job->operand_count, hlo_type_bytes(type), &job->line))
            job->line_runs = run_kernel(job, CPU_INDEX_OFFSETS), job->points = points_kernel(job);
    }
    if (one_run && job->scatter->op != CPU_SCATTER_ASSIGN && job->scatter->op != CPU_SCATTER_CALL &&
        !job->kernels->decode[type] && !job->kernels->wrap[type])
        job->kernel = builtin_kernel(job->scatter, job->kernels, 0);
}

// Assignments and calls take any type.
static HloStatus check_types(const ScatterJob *job) {
    const CpuScatter *s = job->scatter;
    assert(s->count >= 1 && s->count <= CPU_KERNEL_RANK_LIMIT); /* more have no scalar function */
    for (int i = 0; i < s->count && s->op != CPU_SCATTER_CALL && s->op != CPU_SCATTER_ASSIGN; i++)
        assert(builtin_kernel(s, job->kernels, i)); /* lowering checks */
    return HLO_SUCCESS;
}

// Copies the operands to the results and applies the updates there, in the order of the indices if it matters. Workers
// share parts of the array (owners: a worker skips updates elsewhere) or parts of the window, so that no element has
// two writers; or results are made row by row in one pass without the copy.
HloStatus cpu_scatter(CpuPool *pool, const CpuScatter *scatter, void *const *results, const void *const *operands,
                      const void *indices, const void *const *updates) {
    assert(scatter && results && operands && updates);
    ScatterJob job = {.scatter = scatter,
                      .kernels = cpu_isa_loop_kernels(cpu_pool_features(pool)),
                      .index_kernels = cpu_isa_index_kernels(cpu_pool_features(pool)),
                      .operands = results,
                      .updates = updates,
                      .source = operands[0]};
    HLO_TRY(check_types(&job));
    HLO_TRY(cpu_index_plan(&scatter->indexing, true, &indices, &job.plan));
    job.plan.kernels = job.index_kernels;
    job.operand_count = cpu_index_elements(scatter->indexing.operand_rank, scatter->indexing.operand_sizes);
    const bool any = job.plan.batch_count > 0 && job.plan.slice_count > 0;
    if (any) choose_split(&job, pool);
    if (any && goes_by_rows(&job)) return run_rows(pool, &job);
    if (any && job.points) return run_points(pool, &job);
    for (int i = 0; i < scatter->count; i++)
        if (results[i] != operands[i])
            cpu_copy_bytes(pool, results[i], operands[i], job.operand_count * hlo_type_bytes(scatter->types[i]));
    if (!any) return HLO_SUCCESS;
    job.fetch = cpu_index_plan_fetch(&job.plan, results[0], job.operand_count, hlo_type_bytes(scatter->types[0]));
    const int64_t parts = job.split == SPLIT_OWNERS ? job.operand_count : job.plan.window[0].size;
    CpuTask *task = !job.line_runs ? scatter_task : job.widened ? lines_task : line_task;
    if (job.shared)
        cpu_pool_parallel_for(pool, parts, task, &job);
    else
        task(&job, 0, parts, 0);
    return HLO_SUCCESS;
}

// ---- one run

// A scatter that assigns one run, with everything needed to find its position.
struct CpuSmallScatter {
    int64_t operand_bytes, bytes;  // of the run
    int width;
    HloType index_type;
    int start_count;
    int64_t start_stride;
    CpuStartStep starts[CPU_SMALL_SCATTER_STARTS];
};

// Plans one window that is assigned to a contiguous run of a small array, as in loops that write an element per
// iteration: two memcpy calls. NULL for any other scatter.
const CpuSmallScatter *cpu_scatter_plan_small(HloArena *arena, const CpuScatter *scatter) {
    enum { kMostBytes = 4096 };
    CpuIndexPlan plan;
    if (scatter->count != 1 || scatter->op != CPU_SCATTER_ASSIGN) return NULL;
    const HloStatus status = cpu_index_plan(&scatter->indexing, true, NULL, &plan);
    hlo_status_free(status);
    if (status || plan.batch_count != 1 || plan.slice_count < 1 || plan.window_rank != 1 ||
        plan.window[0].operand != 1 || plan.window[0].result != 1 || plan.start_count > CPU_SMALL_SCATTER_STARTS)
        return NULL;
    const int width = hlo_type_bytes(scatter->types[0]);
    const int64_t elements = cpu_index_elements(scatter->indexing.operand_rank, scatter->indexing.operand_sizes);
    if (elements > kMostBytes / width) return NULL;
    CpuSmallScatter *small = HLO_ARENA_NEW(arena, CpuSmallScatter, 1);
    *small = (CpuSmallScatter){.operand_bytes = elements * width,
                               .bytes = plan.window[0].size * width,
                               .width = width,
                               .index_type = plan.index_type,
                               .start_count = plan.start_count,
                               .start_stride = plan.start_stride};
    for (int i = 0; i < plan.start_count; i++) small->starts[i] = plan.starts[i];
    return small;
}

// Skips a run that does not fit.
void cpu_scatter_small(const CpuSmallScatter *small, void *result, const void *operand, const void *indices,
                       const void *updates) {
    int64_t place = 0;
    if (result != operand) memcpy(result, operand, (size_t)small->operand_bytes);
    for (int i = 0; i < small->start_count; i++) {
        int64_t start = cpu_read_integer(indices, small->index_type, i * small->start_stride);
        start += start < 0 ? small->starts[i].wrap : 0;
        if (start < 0 || start > small->starts[i].largest) return;
        place += start * small->starts[i].operand;
    }
    memcpy((char *)result + place * small->width, updates, (size_t)small->bytes);
}
