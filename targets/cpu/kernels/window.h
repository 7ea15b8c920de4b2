// SPDX-License-Identifier: Apache-2.0
// Cumulative scans, reduce-window and select-and-scatter.
#ifndef MESHLO_TARGETS_CPU_KERNELS_WINDOW_H_
#define MESHLO_TARGETS_CPU_KERNELS_WINDOW_H_

#include <stdbool.h>

#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/ops.h"

HLO_BEGIN_C

// Inclusive scan over the middle of a row-major [outer][length][inner]: out[i] = in[0] op ... op in[i], or from the far
// end when `reverse`. O(length). `init` (one element) is combined first. Narrow floats accumulate in f32. In place
// allowed. UNIMPLEMENTED for an op that the type does not have.
HLO_NODISCARD HloStatus cpu_scan(CpuPool *pool, HloType type, CpuReduceOp op, bool reverse, int64_t outer,
                                 int64_t length, int64_t inner, const void *init, void *out, const void *in);

// One dimension of a window. Padding may be negative.
typedef struct CpuWindowDim {
    int64_t size, stride, padding_low, padding_high, base_dilation, window_dilation;
} CpuWindowDim;

// HLO reduce-window with a built-in reduction over row-major arrays. Windows are reduced one dimension after the other.
// out sizes are those that HLO shape inference gives.
HLO_NODISCARD HloStatus cpu_reduce_window(CpuPool *pool, HloType type, CpuReduceOp op, int rank,
                                          const int64_t *in_sizes, const int64_t *out_sizes, const CpuWindowDim *window,
                                          const void *init, void *out, const void *in);

// accumulators[i] = combiner(accumulators[i], elements[i]) for one element of each of `count` operands.
typedef void CpuWindowCombine(void *context, int count, void *const *accumulators, const void *const *elements);

// The same with any combiner and several operands; windows are visited in row-major order, padding is skipped.
HLO_NODISCARD HloStatus cpu_reduce_window_call(CpuPool *pool, int count, const HloType *types, int rank,
                                               const int64_t *in_sizes, const int64_t *out_sizes,
                                               const CpuWindowDim *window, const void *const *inits, void *const *outs,
                                               const void *const *ins, CpuWindowCombine *combine, void *context);

// results[i] = combiner(accumulators[i], elements[i]) for as many neighbouring elements of each of `count` operands as
// the context was made for. No results share memory with what is combined.
typedef void CpuLanesCombine(void *context, int count, const void *const *accumulators, const void *const *elements,
                             void *const *results);

// The scan of cpu_scan() with any combiner and several operands (at most CPU_KERNEL_RANK_LIMIT), of `lanes` columns at
// a time, which `combine` has too: outs = combiner(outs of the step before, ins), from the inits on; from the far end,
// combiner(ins, outs of the step behind), so that operands stay in their order. RESOURCE_EXHAUSTED.
typedef struct CpuLanesScan {
    int count;
    const HloType *types;
    bool reverse;
    int64_t outer, length, inner, lanes;
    CpuLanesCombine *combine;
    void *context;
} CpuLanesScan;
// Does so on the pool. An out is not an in.
HLO_NODISCARD HloStatus cpu_scan_lanes(CpuPool *pool, const CpuLanesScan *scan, const void *const *inits,
                                       void *const *outs, const void *const *ins);

// HLO select-and-scatter: for each window of `operand` the first element that `select` (GE for max pooling, LE for min)
// prefers gets the element of `source` combined by `op` into `out`, which starts as `init` everywhere.
HLO_NODISCARD HloStatus cpu_select_and_scatter(CpuPool *pool, HloType type, CpuLoopOp select, CpuReduceOp op, int rank,
                                               const int64_t *operand_sizes, const int64_t *source_sizes,
                                               const CpuWindowDim *window, const void *init, void *out,
                                               const void *operand, const void *source);

// True when the element that a window has chosen so far stays chosen beside `element`.
typedef bool CpuWindowKeeps(void *context, const void *chosen, const void *element);

// The same with any computations: `keeps` chooses, `combine` adds to `out` what belongs there, window after window in
// row-major order. Never UNIMPLEMENTED but for the rank.
HLO_NODISCARD HloStatus cpu_select_and_scatter_call(CpuPool *pool, HloType type, int rank, const int64_t *operand_sizes,
                                                    const int64_t *source_sizes, const CpuWindowDim *window,
                                                    const void *init, void *out, const void *operand,
                                                    const void *source, CpuWindowKeeps *keeps, void *keeps_context,
                                                    CpuWindowCombine *combine, void *combine_context);

HLO_END_C

#endif
