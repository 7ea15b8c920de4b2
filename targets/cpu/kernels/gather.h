// SPDX-License-Identifier: Apache-2.0
// HLO gather and scatter over row-major arrays, with batching dimensions, exactly as the operation semantics define:
// gather clamps start indices so that slices fit, scatter drops updates whose window does not fit.
#ifndef MESHLO_TARGETS_CPU_KERNELS_GATHER_H_
#define MESHLO_TARGETS_CPU_KERNELS_GATHER_H_

#include <stdbool.h>

#include "hlo/base/memory.h"
#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// The dimension numbers of a gather (slice_sizes given; collapsed = collapsed_slice_dims) or of a scatter (window =
// update_window_dims, collapsed = inserted_window_dims). Lists are as in the HLO attributes.
typedef struct CpuIndexing {
    int operand_rank, indices_rank, result_rank;  // result: of the gather's output or the scatter's updates
    const int64_t *operand_sizes, *indices_sizes, *result_sizes;
    HloType index_type;
    int index_vector_dim;
    bool split;  // each component of the index vectors is in an array of its own; indices_sizes are those of one
    int window_count;
    const int64_t *window_dims;  // offset_dims / update_window_dims
    int collapsed_count;
    const int64_t *collapsed_dims;  // collapsed_slice_dims / inserted_window_dims
    int map_count;
    const int64_t *start_index_map;  // scatter_dims_to_operand_dims
    int batching_count;
    const int64_t *operand_batching_dims;
    const int64_t *indices_batching_dims;
    const int64_t *slice_sizes;  // of the gather, one per operand dimension; ignored by scatter
    const int64_t *wraps;        // by component: what is added to an index below 0 first, 0 to 2^31 - 1; NULL: nothing
} CpuIndexing;

// Computes result = gather(operand, indices); elements have `width` bytes. `indices` points to one array or, if they
// are split, to one for each component.
HLO_NODISCARD HloStatus cpu_gather(CpuPool *pool, const CpuIndexing *indexing, int width, void *result,
                                   const void *operand, const void *const *indices);

// Writes `element` over the slices of a gather's result whose predicate is false: `mask` has one for each index vector.
HLO_NODISCARD HloStatus cpu_gather_fill(CpuPool *pool, const CpuIndexing *indexing, int width, void *result,
                                        const bool *mask, const void *element);

typedef enum CpuScatterOp {
    CPU_SCATTER_ASSIGN,
    CPU_SCATTER_ADD,
    CPU_SCATTER_MULTIPLY,
    CPU_SCATTER_MINIMUM,
    CPU_SCATTER_MAXIMUM,
    CPU_SCATTER_CALL,  // `combine`
} CpuScatterOp;

// Replaces the elements that `targets` points to by combine(targets, updates), one of each operand.
typedef void CpuCombine(void *context, int count, void *const *targets, const void *const *updates);

// A scatter that assigns one run of elements of a small array, in nanoseconds.
typedef struct CpuSmallScatter CpuSmallScatter;

// Applies the updates to the operands (count arrays of `types`, one update array each), in row-major order of the index
// vectors: the result is the same for any number of workers. CALL may be used from several threads at once unless
// `serial` is set.
typedef struct CpuScatter {
    CpuIndexing indexing;
    int count;
    const HloType *types;
    CpuScatterOp op;
    CpuCombine *combine;
    void *context;
    bool serial;
    const CpuSmallScatter *small;  // for cpu_scatter_small(), or NULL
} CpuScatter;
// Runs the scatter on the pool. A result is its operand's array, or another one that shares no memory with it.
// UNIMPLEMENTED for an operation that one of the types does not have, RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_scatter(CpuPool *pool, const CpuScatter *scatter, void *const *results,
                                    const void *const *operands, const void *indices, const void *const *updates);

enum { CPU_SMALL_SCATTER_STARTS = 4 };  // start indices of such a scatter at most
// Plans a small scatter; NULL if the scatter is not small enough.
const CpuSmallScatter *cpu_scatter_plan_small(HloArena *arena, const CpuScatter *scatter);
void cpu_scatter_small(const CpuSmallScatter *small, void *result, const void *operand, const void *indices,
                       const void *updates);  // on this thread

HLO_END_C

#endif
