// SPDX-License-Identifier: Apache-2.0
// Positions of the slices of gathers and scatters. Dimension numbers become strides once per call, and offsets are
// computed for a block of slices at a time, so that the index type is checked once per block rather than once per
// index.
#ifndef MESHLO_TARGETS_CPU_KERNELS_INDEX_PLAN_H_
#define MESHLO_TARGETS_CPU_KERNELS_INDEX_PLAN_H_

#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/index.h"
#include "targets/cpu/kernels/gather.h"

HLO_BEGIN_C

// One dimension of the slices: the stride in the operand and in the result (or the updates), in elements.
typedef struct CpuWindowStep {
    int64_t size, operand, result;
} CpuWindowStep;

// One batch dimension: the stride in the result, in the indices and (batching dimensions) in the operand.
typedef struct CpuBatchStep {
    int64_t size, result, indices, operand;
} CpuBatchStep;

typedef struct CpuStartStep {
    int64_t operand;  // stride of the dimension that the index counts
    int64_t largest;  // last start at which the slice fits
    int64_t wrap;     // added to starts below 0
    const char *indices;
    int64_t first;  // the component's first element in them
} CpuStartStep;

// Strides are in elements. Points to the indices and to nothing else that the caller owns.
typedef struct CpuIndexPlan {
    int window_rank, batch_rank, start_count;
    CpuWindowStep window[CPU_KERNEL_RANK_LIMIT];  // innermost first, neighbours merged, at least one
    CpuBatchStep batch[CPU_KERNEL_RANK_LIMIT];    // the same
    CpuStartStep starts[CPU_KERNEL_RANK_LIMIT];
    int64_t start_stride;  // between the components of one index vector
    int64_t batch_count;   // slices
    int64_t slice_count;   // elements of one slice
    HloType index_type;
    const char *indices;             // of the first component
    const CpuIndexKernels *kernels;  // set by the caller before positions are computed
} CpuIndexPlan;

// Plans a gather, or a scatter, whose slices have the sizes of its updates. `indices` is as for cpu_gather(), or NULL
// for a plan that only describes. UNIMPLEMENTED beyond the rank limit.
HLO_NODISCARD HloStatus cpu_index_plan(const CpuIndexing *indexing, bool scatter, const void *const *indices,
                                       CpuIndexPlan *plan);

// Makes batch levels of the outer levels of a scatter's windows, as is done for gathers: updates of columns become
// lines, one for each row. Returns false, with *widened unchanged, if there are none, or if windows are shifted along
// them, since updates of one element would change their order.
bool cpu_index_widen_scatter(const CpuIndexPlan *plan, CpuIndexPlan *widened);

// Returns the element of the result, or of the updates, at which slice number `slice` begins.
int64_t cpu_index_result_place(const CpuIndexPlan *plan, int64_t slice);

// Consecutive slices.
enum { CPU_INDEX_BLOCK = 256 };
typedef struct CpuIndexBlock {
    int64_t count;
    int64_t results[CPU_INDEX_BLOCK];   // element offsets in the result or the updates
    int64_t operands[CPU_INDEX_BLOCK];  // in the operand; below 0 where a slice does not fit and is not clamped
} CpuIndexBlock;

// Computes the slices from number `first` on, as many as fit in a block and lie before `end` (above `first`). With
// `clamp`, starts are moved to the nearest position at which the slice fits.
void cpu_index_block(const CpuIndexPlan *plan, int64_t first, int64_t end, bool clamp, CpuIndexBlock *block);

// Indices point to rows anywhere in memory, so the next rows are prefetched while one is copied or updated.
typedef struct CpuFetchPlan {
    const char *base;  // NULL: the array is small, or its rows are short or not contiguous
    int64_t slices;    // how many slices ahead
    int64_t bytes;     // of a run, up to a limit
    int width;         // bytes of an element
} CpuFetchPlan;
// Returns what to prefetch during a walk over `plan`: nothing if the operand is small or its runs are short.
CpuFetchPlan cpu_index_plan_fetch(const CpuIndexPlan *plan, const void *operand, int64_t operand_elements, int width);

// Prefetches the slice that is `slices` after number `at` of the block, if the block contains it.
static inline void cpu_index_fetch(const CpuFetchPlan *fetch, const CpuIndexBlock *block, int64_t at) {
    enum { kLine = 64 };
    if (!fetch->base || at + fetch->slices >= block->count || block->operands[at + fetch->slices] < 0) return;
    const char *from = fetch->base + block->operands[at + fetch->slices] * fetch->width;
    for (int64_t i = 0; i < fetch->bytes; i += kLine) __builtin_prefetch(from + i, 0, 2);
}

// True if each slice is a short run whose position is given by 32-bit indices, in an array whose offsets fit in 32
// bits. Sets *line to the slices of one step of the outer batch dimensions (all of them if there is only one such
// dimension), for the kernels of OFFSETS. `width` is that of an element, `operand_elements` the operand's size.
bool cpu_index_line(const CpuIndexPlan *plan, int64_t operand_elements, int width, CpuIndexLine *line);
// Returns the part of the plan's slices [first, end) that the first one's line contains: `count` slices of the result.
// *result and *operand are the elements from which the line's own offsets and strides count.
CpuIndexLine cpu_index_line_part(const CpuIndexPlan *plan, const CpuIndexLine *line, int64_t first, int64_t end,
                                 int64_t *result, int64_t *operand);
// Computes the offsets of `count` slices of one line from number `first` on, counted from the part's *operand. A slice
// that does not fit is moved if `clamp`, else its offset is -1.
enum { CPU_INDEX_OFFSETS_AT_ONCE = 1024 };
void cpu_index_line_offsets(const CpuIndexPlan *plan, int64_t first, int64_t count, bool clamp, int32_t *offsets);
// Returns the line of a block's slices, for the kernels of PLACES; it points into the block.
CpuIndexLine cpu_index_line_of_block(const CpuIndexPlan *plan, const CpuIndexBlock *block, const CpuFetchPlan *fetch);

// Returns the product of `rank` sizes.
int64_t cpu_index_elements(int rank, const int64_t *sizes);

HLO_END_C

#endif
