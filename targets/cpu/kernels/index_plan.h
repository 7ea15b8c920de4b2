// SPDX-License-Identifier: Apache-2.0
// Where the slices of gathers and scatters lie: dimension numbers become strides once a call, and places are worked out
// a block of slices at a time, so that the type of the indices is asked for once a block and not once an index.
#ifndef MESHLO_TARGETS_CPU_KERNELS_INDEX_PLAN_H_
#define MESHLO_TARGETS_CPU_KERNELS_INDEX_PLAN_H_

#include "targets/cpu/element/copy.h"
#include "targets/cpu/isa/index.h"
#include "targets/cpu/kernels/gather.h"

HLO_BEGIN_C

// One dimension of the slices: elements that a step goes in the operand and in the result (or the updates).
typedef struct CpuWindowStep {
    int64_t size, operand, result;
} CpuWindowStep;

// One batch dimension: a step in the result, in the indices and (batching dimensions) in the operand.
typedef struct CpuBatchStep {
    int64_t size, result, indices, operand;
} CpuBatchStep;

typedef struct CpuStartStep {
    int64_t operand;  // stride of the dimension that the index counts
    int64_t largest;  // last start at which the slice fits
} CpuStartStep;

// Strides are in elements. It points to the indices and otherwise stands alone.
typedef struct CpuIndexPlan {
    int window_rank, batch_rank, start_count;
    CpuWindowStep window[CPU_KERNEL_RANK_LIMIT];  // innermost first, neighbours merged, at least one
    CpuBatchStep batch[CPU_KERNEL_RANK_LIMIT];    // the same
    CpuStartStep starts[CPU_KERNEL_RANK_LIMIT];
    int64_t start_stride;  // between the components of one index vector
    int64_t batch_count;   // slices
    int64_t slice_count;   // elements of one slice
    HloType index_type;
    const char *indices;
} CpuIndexPlan;

// Plans a gather, or a scatter, whose slices are as large as its updates say. UNIMPLEMENTED beyond the rank limit.
HLO_NODISCARD HloStatus cpu_index_plan(const CpuIndexing *indexing, bool scatter, const void *indices,
                                       CpuIndexPlan *plan);

// Some slices that follow each other.
enum { CPU_INDEX_BLOCK = 256 };
typedef struct CpuIndexBlock {
    int64_t count;
    int64_t results[CPU_INDEX_BLOCK];   // element offsets in the result or the updates
    int64_t operands[CPU_INDEX_BLOCK];  // in the operand; below 0 where a slice does not fit and is not clamped
} CpuIndexBlock;

// The slices from number `first` on, as many as a block holds and `end` (above `first`) lets through; starts are moved
// to the nearest place where the slice fits if `clamp` is set.
void cpu_index_block(const CpuIndexPlan *plan, int64_t first, int64_t end, bool clamp, CpuIndexBlock *block);

// Rows that indices point to lie anywhere: the memory of the next ones is asked for while one is copied or updated.
typedef struct CpuFetchPlan {
    const char *base;  // NULL: the array is small, or its rows are short or no whole runs
    int64_t slices;    // how many slices ahead
    int64_t bytes;     // of a run, cut at a limit
    int width;         // bytes of an element
} CpuFetchPlan;
// What is worth fetching ahead of a walk over `plan`: nothing where the operand is near or its runs are short.
CpuFetchPlan cpu_index_plan_fetch(const CpuIndexPlan *plan, const void *operand, int64_t operand_elements, int width);

// Asks for the slice that comes `slices` behind number `at` of the block, if it is in it.
static inline void cpu_index_fetch(const CpuFetchPlan *fetch, const CpuIndexBlock *block, int64_t at) {
    enum { kLine = 64 };
    if (!fetch->base || at + fetch->slices >= block->count || block->operands[at + fetch->slices] < 0) return;
    const char *from = fetch->base + block->operands[at + fetch->slices] * fetch->width;
    for (int64_t i = 0; i < fetch->bytes; i += kLine) __builtin_prefetch(from + i, 0, 2);
}

// Whether each slice is a short run at the place that one index of 32 bits says: *line is then those of one step of the
// outer batch dimensions, all of them where there is one such dimension, for the kernels of *kind. `width` is that of
// an element, `operand_elements` how many the operand has.
bool cpu_index_line(const CpuIndexPlan *plan, int64_t operand_elements, int width, CpuIndexKind *kind,
                    CpuIndexLine *line);
// Of the plan's slices [first, end) as many as one line has, from the first on: `count` of the result. *result and
// *operand are the elements from which the line's own strides count.
CpuIndexLine cpu_index_line_part(const CpuIndexPlan *plan, const CpuIndexLine *line, int64_t first, int64_t end,
                                 int64_t *result, int64_t *operand);
// The line of a block's slices, for the kernels of PLACES; it points into the block.
CpuIndexLine cpu_index_line_of_block(const CpuIndexPlan *plan, const CpuIndexBlock *block, const CpuFetchPlan *fetch);

// The product of `rank` sizes.
int64_t cpu_index_elements(int rank, const int64_t *sizes);

HLO_END_C

#endif
