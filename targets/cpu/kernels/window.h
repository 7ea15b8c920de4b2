// SPDX-License-Identifier: Apache-2.0
// Cumulative scans, reduce-window and select-and-scatter.
#ifndef MESHLO_TARGETS_CPU_KERNELS_WINDOW_H_
#define MESHLO_TARGETS_CPU_KERNELS_WINDOW_H_

#include <stdbool.h>

#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/ops.h"

HLO_BEGIN_C

// Scans inclusively over the middle of a row-major [outer][length][inner]: out[i] = in[0] op ... op in[i], or from the
// far end when `reverse`. O(length). `init` (one element) is combined first. Narrow floats accumulate in f32. In place
// allowed. UNIMPLEMENTED for an op that the type does not have.
HLO_NODISCARD HloStatus cpu_scan(CpuPool *pool, HloType type, CpuReduceOp op, bool reverse, int64_t outer,
                                 int64_t length, int64_t inner, const void *init, void *out, const void *in);

// One dimension of a window. Padding may be negative.
typedef struct CpuWindowDim {
    int64_t size, stride, padding_low, padding_high, base_dilation, window_dilation;
} CpuWindowDim;

// Computes HLO reduce-window with a built-in reduction over row-major arrays. Windows are reduced one dimension after
// the other. The out sizes are those of HLO shape inference.
HLO_NODISCARD HloStatus cpu_reduce_window(CpuPool *pool, HloType type, CpuReduceOp op, int rank,
                                          const int64_t *in_sizes, const int64_t *out_sizes, const CpuWindowDim *window,
                                          const void *init, void *out, const void *in);

// Sets accumulators[i] = combiner(accumulators[i], elements[i]) for one element of each of `count` operands.
typedef void CpuWindowCombine(void *context, int count, void *const *accumulators, const void *const *elements);

// Does the same with any combiner and several operands; windows are visited in row-major order, padding is skipped.
HLO_NODISCARD HloStatus cpu_reduce_window_call(CpuPool *pool, int count, const HloType *types, int rank,
                                               const int64_t *in_sizes, const int64_t *out_sizes,
                                               const CpuWindowDim *window, const void *const *inits, void *const *outs,
                                               const void *const *ins, CpuWindowCombine *combine, void *context);

// Sets results[i] = combiner(accumulators[i], elements[i]) for as many neighbouring elements of each of `count`
// operands as the context was created for. Results share no memory with the inputs.
typedef void CpuLanesCombine(void *context, int count, const void *const *accumulators, const void *const *elements,
                             void *const *results);

// The scan of cpu_scan() with any combiner and several operands (at most CPU_KERNEL_RANK_LIMIT). It processes `lanes`
// columns at a time, the number that `combine` processes: outs = combiner(outs of the previous step, ins), starting
// with the inits; from the far end, combiner(ins, outs of the following step), so that operands keep their order.
// RESOURCE_EXHAUSTED.
typedef struct CpuLanesScan {
    int count;
    const HloType *types;
    bool reverse;
    int64_t outer, length, inner, lanes;
    CpuLanesCombine *combine;
    void *context;
} CpuLanesScan;
// Runs the scan on the pool. No out may be an in.
HLO_NODISCARD HloStatus cpu_scan_lanes(CpuPool *pool, const CpuLanesScan *scan, const void *const *inits,
                                       void *const *outs, const void *const *ins);

// Computes HLO select-and-scatter: for each window of `operand`, combines the element of `source` by `op` into `out` at
// the first element that `select` prefers (GE for max pooling, LE for min). `out` starts as `init` everywhere.
HLO_NODISCARD HloStatus cpu_select_and_scatter(CpuPool *pool, HloType type, CpuLoopOp select, CpuReduceOp op, int rank,
                                               const int64_t *operand_sizes, const int64_t *source_sizes,
                                               const CpuWindowDim *window, const void *init, void *out,
                                               const void *operand, const void *source);

// Returns true if the element chosen so far in a window is kept when compared with `element`.
typedef bool CpuWindowKeeps(void *context, const void *chosen, const void *element);

// Does the same with any computations: `keeps` chooses, and `combine` adds to `out`, window after window in row-major
// order. UNIMPLEMENTED only beyond the rank limit.
HLO_NODISCARD HloStatus cpu_select_and_scatter_call(CpuPool *pool, HloType type, int rank, const int64_t *operand_sizes,
                                                    const int64_t *source_sizes, const CpuWindowDim *window,
                                                    const void *init, void *out, const void *operand,
                                                    const void *source, CpuWindowKeeps *keeps, void *keeps_context,
                                                    CpuWindowCombine *combine, void *combine_context);

HLO_END_C

#endif
