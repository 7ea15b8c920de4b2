// SPDX-License-Identifier: Apache-2.0
// The dimension numbers of gather and scatter as strides. Operand, indices and result (or updates) are walked by two
// loop nests, over the index vectors (batch) and inside one slice (window), with a stride per level in each array.
// Adjacent levels that are contiguous in every array are merged, so that most programs have one level of each. The
// start of a slice is the batch's own offset plus each component of its index vector times the stride of the dimension
// that it indexes. Starts are computed for blocks of slices at a time (cpu_index_block()). A gather clamps them; a
// scatter skips windows that do not fit, which are marked by an offset far below zero.
//
// Rows of a table: f32[100,8] gathered by s32[3,4,1] to f32[3,4,8], slice_sizes {1, 8}, dimension 0 collapsed:
//
//     batch    one level of 12 slices (3 and 4 are merged): strides 8 in the result, 1 in the indices, 0 in the operand
//     window   one level of 8 elements: stride 1 in operand and result
//     offset   of slice b: its index, clamped to 0 .. 99, times 8
#include "targets/cpu/kernels/index_plan.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/element/integer.h"

static bool contains(const int64_t *list, int count, int64_t value) {
    for (int i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

static void row_major(int rank, const int64_t *sizes, int64_t *strides) {
    int64_t next = 1;
    for (int d = rank - 1; d >= 0; d--) strides[d] = next, next *= sizes[d];
}

// Computes the sizes of a slice in every operand dimension; a scatter's come from its updates.
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

// Does the same for the dimensions inside a slice, in operand and result.
static void plan_window(CpuIndexPlan *plan, const CpuIndexing *x, const int64_t *operand_strides,
                        const int64_t *result_strides) {
    plan->slice_count = 1;
    int w = 0;
    CpuWindowStep steps[CPU_KERNEL_RANK_LIMIT];
    for (int d = 0; d < x->operand_rank; d++) {
        if (contains(x->collapsed_dims, x->collapsed_count, d) ||
            contains(x->operand_batching_dims, x->batching_count, d))
            continue;
        const int64_t result_dim = x->window_dims[w];
        steps[w++] = (CpuWindowStep){x->result_sizes[result_dim], operand_strides[d], result_strides[result_dim]};
        plan->slice_count *= x->result_sizes[result_dim];
    }
    while (w-- > 0) {  // innermost first, neighbours merged
        CpuWindowStep *top = plan->window_rank ? &plan->window[plan->window_rank - 1] : NULL;
        if (steps[w].size == 1) continue;
        if (top && steps[w].operand == top->operand * top->size && steps[w].result == top->result * top->size)
            top->size *= steps[w].size;
        else
            plan->window[plan->window_rank++] = steps[w];
    }
    if (plan->window_rank == 0) plan->window[plan->window_rank++] = (CpuWindowStep){1, 1, 1};
}

// True if a step of `outer` is the whole extent of `inner`, in every array.
static bool goes_on(const CpuBatchStep *inner, const CpuBatchStep *outer) {
    return outer->result == inner->result * inner->size && outer->indices == inner->indices * inner->size &&
           outer->operand == inner->operand * inner->size;
}

// Plans the dimensions of the result that are not window dimensions, from the innermost out. A dimension that continues
// where the next inner one ends, in all three arrays, is merged with it.
static void plan_batch(CpuIndexPlan *plan, const CpuIndexing *x, const int64_t *operand_strides,
                       const int64_t *result_strides, const int64_t *indices_strides) {
    CpuBatchStep steps[CPU_KERNEL_RANK_LIMIT];
    int count = 0, indices_dim = 0;
    plan->batch_count = 1;
    for (int d = 0; d < x->result_rank; d++) {
        if (contains(x->window_dims, x->window_count, d)) continue;
        if (indices_dim == x->index_vector_dim) indices_dim++;
        CpuBatchStep step = {x->result_sizes[d], result_strides[d], indices_strides[indices_dim], 0};
        for (int b = 0; b < x->batching_count; b++)
            if (x->indices_batching_dims[b] == indices_dim)
                step.operand += operand_strides[x->operand_batching_dims[b]];
        steps[count++] = step;
        plan->batch_count *= step.size;
        indices_dim++;
    }
    while (count-- > 0) {
        CpuBatchStep *top = plan->batch_rank ? &plan->batch[plan->batch_rank - 1] : NULL;
        if (steps[count].size == 1) continue;
        if (top && goes_on(top, &steps[count]))
            top->size *= steps[count].size;
        else
            plan->batch[plan->batch_rank++] = steps[count];
    }
    if (plan->batch_rank == 0) plan->batch[plan->batch_rank++] = (CpuBatchStep){.size = 1};
}

// Returns how many levels of the window are inside of the innermost one of the batch in the result: all of a few
// slices.
static int inner_levels(const CpuIndexPlan *plan) {
    enum { kLeastSlices = 16 };
    const int64_t inner = plan->batch[0].result * plan->batch[0].size;
    int levels = plan->window_rank;
    if (plan->batch[0].size < kLeastSlices) return levels;
    while (levels > 0 && plan->window[levels - 1].size != 1 && plan->window[levels - 1].result >= inner) levels--;
    return levels;
}

// Makes batch levels of those of the window that are outside of the innermost one of the batch in the result. Columns
// of a matrix, x[:, ids], are then lines, one from each row, in the order of the result: a slice would be a whole
// column. Of a few slices only, each with a start of its own, that is more work than copying them.
static void widen_batch(CpuIndexPlan *plan) {
    for (const int levels = inner_levels(plan); plan->window_rank > levels; plan->window_rank--) {
        const CpuWindowStep step = plan->window[plan->window_rank - 1];
        int at = plan->batch_rank++;
        for (; plan->batch[at - 1].result > step.result; at--) plan->batch[at] = plan->batch[at - 1];
        plan->batch[at] = (CpuBatchStep){.size = step.size, .result = step.result, .operand = step.operand};
        plan->batch_count *= step.size;
        plan->slice_count /= step.size;
    }
    if (plan->window_rank == 0) plan->window[plan->window_rank++] = (CpuWindowStep){1, 1, 1};
}

// True if windows are at the same place of this level, whatever their indices.
static bool is_fixed(const CpuIndexPlan *plan, const CpuWindowStep *level) {
    for (int s = 0; s < plan->start_count; s++) {
        const CpuStartStep *start = &plan->starts[s];
        if (start->largest != 0 && start->operand >= level->operand && start->operand < level->operand * level->size)
            return false;
    }
    return true;
}

bool cpu_index_widen_scatter(const CpuIndexPlan *plan, CpuIndexPlan *widened) {
    const int levels = inner_levels(plan);
    if (levels == plan->window_rank) return false;
    for (int d = levels; d < plan->window_rank; d++)
        if (!is_fixed(plan, &plan->window[d])) return false;
    *widened = *plan;
    widen_batch(widened);
    return true;
}

HloStatus cpu_index_plan(const CpuIndexing *x, bool scatter, const void *const *indices, CpuIndexPlan *plan) {
    assert(x && plan);
    int64_t operand_strides[CPU_KERNEL_RANK_LIMIT], result_strides[CPU_KERNEL_RANK_LIMIT];
    int64_t indices_strides[CPU_KERNEL_RANK_LIMIT], sizes[CPU_KERNEL_RANK_LIMIT];
    assert(x->operand_rank <= CPU_KERNEL_RANK_LIMIT && x->result_rank <= CPU_KERNEL_RANK_LIMIT &&
           x->indices_rank <= CPU_KERNEL_RANK_LIMIT); /* no array has more dimensions */
    *plan = (CpuIndexPlan){.index_type = x->index_type,
                           .indices = indices ? indices[0] : NULL,
                           .start_count = x->map_count,
                           .start_stride = 1};
    row_major(x->operand_rank, x->operand_sizes, operand_strides);
    row_major(x->result_rank, x->result_sizes, result_strides);
    row_major(x->indices_rank, x->indices_sizes, indices_strides);
    slice_sizes_of(x, scatter, sizes);
    plan_window(plan, x, operand_strides, result_strides);
    plan_batch(plan, x, operand_strides, result_strides, indices_strides);
    if (!scatter && plan->slice_count > 0) widen_batch(plan);
    if (x->index_vector_dim < x->indices_rank) plan->start_stride = indices_strides[x->index_vector_dim];
    for (int i = 0; i < x->map_count; i++) {
        const int64_t d = x->start_index_map[i];
        plan->starts[i] = (CpuStartStep){.operand = operand_strides[d],
                                         .largest = x->operand_sizes[d] - sizes[d],
                                         .wrap = x->wraps ? x->wraps[i] : 0,
                                         .indices = plan->indices};
        if (x->split && indices)
            plan->starts[i].indices = indices[i];
        else
            plan->starts[i].first = i * plan->start_stride;
    }
    return HLO_SUCCESS;
}

// ---- blocks of slices

// An offset so far below zero that neither the other components nor other offsets of this kind bring it back, and that
// the sum of as many of them as there are dimensions does not overflow.
static const int64_t kNowhere = -(INT64_C(1) << 56);

static inline int64_t placed(CpuStartStep step, int64_t start, bool clamp) {
    start += start < 0 ? step.wrap : 0;
    if (!clamp) return start >= 0 && start <= step.largest ? start * step.operand : kNowhere;
    const int64_t low = start < 0 ? 0 : start;  // no branches: indices may be in any order
    return (low > step.largest ? step.largest : low) * step.operand;
}

// One component of the index vectors of consecutive slices.
typedef struct Component {
    CpuStartStep start;
    int64_t at, step;  // the first slice's element in the indices, and from slice to slice
} Component;

// Adds the component's places to `operands`. Nearly all indices are s32: their loop has no switch inside. It is inlined
// for each `clamp`.
__attribute__((always_inline)) static inline void add_places_s32(Component component, const int32_t *indices,
                                                                 int64_t count, bool clamp, int64_t *operands) {
    const CpuStartStep start = component.start;
    const int64_t step = component.step;
    indices += component.at;
    for (int64_t i = 0; i < count; i++) operands[i] += placed(start, indices[i * step], clamp);
}

static CpuIndexComponent component32(const CpuIndexPlan *plan, Component component) {
    const CpuStartStep start = component.start;
    assert(start.largest >= 0 && start.operand <= INT32_MAX);
    return (CpuIndexComponent){
        .indices = (const int32_t *)(const void *)start.indices + component.at,
        .index_step = component.step,
        .is_unsigned = plan->index_type == HLO_U32,
        .wrap = (int32_t)start.wrap,
        .largest = start.largest < INT32_MAX ? (int32_t)start.largest : INT32_MAX,
        .stride = (int32_t)start.operand,
    };
}

static void add_places(const CpuIndexPlan *plan, Component component, int64_t count, bool clamp, int64_t *operands) {
    assert(count >= 0);
    const int32_t *narrow = (const int32_t *)(const void *)component.start.indices;
    const CpuStartStep start = component.start;
    const bool plain = component.step == 1 && start.largest >= 0 && start.operand <= INT32_MAX;
    if (plan->index_type == HLO_S32 && clamp && plain) {
        const CpuIndexComponent row = component32(plan, component);
        plan->kernels->add_places(&row, count, operands);
    } else if (plan->index_type == HLO_S32 && clamp) {
        add_places_s32(component, narrow, count, true, operands);
    } else if (plan->index_type == HLO_S32) {
        add_places_s32(component, narrow, count, false, operands);
    } else {
        for (int64_t i = 0, at = component.at; i < count; i++, at += component.step)
            operands[i] +=
                placed(component.start, cpu_read_integer(component.start.indices, plan->index_type, at), clamp);
    }
}

static void set_steps(int64_t *offsets, int64_t first, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; i++, first += step) offsets[i] = first;
}

// Offset of a slice of the batch in each array, in elements, without its index vector.
typedef struct BatchPlace {
    int64_t result, operand, indices;
} BatchPlace;

static BatchPlace batch_place(const CpuIndexPlan *plan, int64_t slice) {
    BatchPlace place = {0};
    for (int d = 0; d < plan->batch_rank; d++) {
        const CpuBatchStep *step = &plan->batch[d];
        const int64_t index = slice % step->size;
        slice /= step->size;
        place.result += index * step->result;
        place.operand += index * step->operand;
        place.indices += index * step->indices;
    }
    return place;
}

int64_t cpu_index_result_place(const CpuIndexPlan *plan, int64_t slice) {
    assert(plan && slice >= 0 && slice < plan->batch_count);
    return batch_place(plan, slice).result;
}

// Computes the offsets of the slices `first` to `first + count` of the batch in operand and result. Slices of one run
// of the innermost level have equal strides, so that everything except the index vectors is an arithmetic sequence.
void cpu_index_block(const CpuIndexPlan *plan, int64_t first, int64_t end, bool clamp, CpuIndexBlock *block) {
    assert(first >= 0 && first < end && end <= plan->batch_count);
    const CpuBatchStep inner = plan->batch[0];
    const int64_t count = end - first < CPU_INDEX_BLOCK ? end - first : CPU_INDEX_BLOCK;
    for (block->count = 0; block->count < count;) {
        const int64_t slice = first + block->count, left = inner.size - slice % inner.size;
        const int64_t run = count - block->count < left ? count - block->count : left;
        const BatchPlace place = batch_place(plan, slice);
        int64_t *operands = block->operands + block->count;
        set_steps(block->results + block->count, place.result, inner.result, run);
        set_steps(operands, place.operand, inner.operand, run);
        for (int s = 0; s < plan->start_count; s++)
            add_places(plan, (Component){plan->starts[s], place.indices + plan->starts[s].first, inner.indices}, run,
                       clamp, operands);
        block->count += run;
    }
}

// ---- fetching early

CpuFetchPlan cpu_index_plan_fetch(const CpuIndexPlan *plan, const void *operand, int64_t operand_elements, int width) {
    // Loads of short rows overlap by themselves.
    enum { kNearBytes = 1 << 20, kShortBytes = 64, kMostBytes = 4096, kMostSlices = 16 };
    const CpuWindowStep *run = &plan->window[0];
    const int64_t bytes = run->size * width;
    CpuFetchPlan fetch = {.width = width};
    if (operand_elements * width <= kNearBytes || run->operand != 1 || bytes < kShortBytes) return fetch;
    fetch.base = operand;
    fetch.bytes = bytes < kMostBytes ? bytes : kMostBytes;
    fetch.slices = kMostBytes / fetch.bytes < kMostSlices ? kMostBytes / fetch.bytes : kMostSlices;
    assert(fetch.bytes > 0 && fetch.slices > 0); /* runs have elements */
    return fetch;
}

// ---- lines

// Recognises the form of embedding tables, table[ids], and of single elements, x[i, j]: slices that are rows, all in a
// line; or many lines, one from each row of an operand, or with one element from each column. For long rows copying
// takes nearly all the time, so that nothing is gained over the general plan: as in gather.c, rows above kLongBytes are
// left to it.
bool cpu_index_line(const CpuIndexPlan *plan, int64_t operand_elements, int width, CpuIndexLine *line) {
    assert(plan && line && width > 0);
    enum { kLongBytes = 256, kLongLine = 16 };
    const CpuWindowStep *run = &plan->window[0];
    const CpuBatchStep *batch = &plan->batch[0];
    if (plan->batch_rank > 1 && batch->size < kLongLine) return false;  // each begins with some divisions
    if (plan->window_rank != 1 || run->operand != 1 || run->result != 1 || run->size * width > kLongBytes ||
        operand_elements > INT32_MAX || (plan->index_type != HLO_S32 && plan->index_type != HLO_U32))
        return false;
    for (int s = 0; s < plan->start_count; s++)
        if (plan->starts[s].largest < 0) return false;
    const CpuFetchPlan fetch = cpu_index_plan_fetch(plan, plan->indices, operand_elements, width);
    *line = (CpuIndexLine){.count = batch->size,
                           .columns = run->size,
                           .result_step = batch->result,
                           .ahead = fetch.base ? fetch.slices : 0};
    return true;
}

CpuIndexLine cpu_index_line_part(const CpuIndexPlan *plan, const CpuIndexLine *line, int64_t first, int64_t end,
                                 int64_t *result, int64_t *operand) {
    assert(first >= 0 && first < end && end <= plan->batch_count);
    CpuIndexLine part = *line;
    const BatchPlace place = batch_place(plan, first);
    const int64_t left = line->count - first % line->count;
    part.count = end - first < left ? end - first : left;
    *result = place.result;
    *operand = place.operand;
    return part;
}

void cpu_index_line_offsets(const CpuIndexPlan *plan, int64_t first, int64_t count, bool clamp, int32_t *offsets) {
    assert(first >= 0 && count >= 0 && first + count <= plan->batch_count && plan->kernels && offsets);
    const int64_t at = batch_place(plan, first).indices;
    const int32_t step = (int32_t)plan->batch[0].operand;  // the operand's elements are counted in 32 bits
    if (step == 0)
        memset(offsets, 0, sizeof *offsets * (size_t)count);
    else
        for (int64_t i = 0; i < count; i++) offsets[i] = (int32_t)i * step;
    for (int s = 0; s < plan->start_count; s++) {
        const CpuIndexComponent part =
            component32(plan, (Component){plan->starts[s], at + plan->starts[s].first, plan->batch[0].indices});
        plan->kernels->add_offsets(&part, clamp, count, offsets);
    }
}

CpuIndexLine cpu_index_line_of_block(const CpuIndexPlan *plan, const CpuIndexBlock *block, const CpuFetchPlan *fetch) {
    assert(plan->window_rank == 1 && plan->window[0].operand == 1); /* slices are runs */
    return (CpuIndexLine){.count = block->count,
                          .columns = plan->window[0].size,
                          .offsets = block->operands,
                          .result_places = block->results,
                          .ahead = fetch->base ? fetch->slices : 0};
}

int64_t cpu_index_elements(int rank, const int64_t *sizes) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= sizes[d];
    return count;
}
