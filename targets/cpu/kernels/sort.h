// SPDX-License-Identifier: Apache-2.0
// Sorting, top-k and arg-max along one dimension. Arrays are row-major seen as [outer][length][inner].
#ifndef MESHLO_TARGETS_CPU_KERNELS_SORT_H_
#define MESHLO_TARGETS_CPU_KERNELS_SORT_H_

#include <stdbool.h>

#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// The order of floats in a key. TOTAL: IEEE total order (-NaN < -inf < ... < -0 < +0 < ... < inf < NaN). NUMERIC: -0
// equals +0, all NaNs are equal and above infinity (as in jnp.sort's comparator).
typedef enum CpuSortOrder { CPU_SORT_TOTAL, CPU_SORT_NUMERIC } CpuSortOrder;

// One key of a lexicographic comparison; for pred, integers and floats.
typedef struct CpuSortKey {
    int operand;
    bool descending;
    CpuSortOrder order;
} CpuSortKey;

// Returns true if the tuple at `left` comes before the one at `right`; each points to one element of every operand.
typedef bool CpuLess(void *context, const void *const *left, const void *const *right);

typedef struct CpuSort {
    int64_t outer, length, inner;
    int count;  // operands
    const HloType *types;
    int key_count;  // 0: use `less`
    const CpuSortKey *keys;
    CpuLess *less;  // merge sort with this comparator; called from several threads at once
    void *context;
} CpuSort;

// Returns UNIMPLEMENTED for rows longer than cpu_sort() supports: positions are 32-bit numbers.
HLO_NODISCARD HloStatus cpu_sort_check(int64_t length);
// Sorts all operands together, always stably. Inputs and outputs may be the same arrays. RESOURCE_EXHAUSTED if there is
// no memory for keys and permutations.
HLO_NODISCARD HloStatus cpu_sort(CpuPool *pool, const CpuSort *sort, void *const *outputs, const void *const *inputs);

// Writes the k largest (or smallest) of every row of [rows][length] in order, and their positions as s32; among equals
// the lower position comes first. Floats are in total order. values or positions may be NULL.
HLO_NODISCARD HloStatus cpu_top_k(CpuPool *pool, HloType type, int64_t rows, int64_t length, int64_t k, bool largest,
                                  void *values, int32_t *positions, const void *input);
// Does the same with floats in the given order: in NUMERIC order zeros are equal regardless of sign, and so are NaNs.
HLO_NODISCARD HloStatus cpu_top_k_in_order(CpuPool *pool, HloType type, CpuSortOrder order, int64_t rows,
                                           int64_t length, int64_t k, bool largest, void *values, int32_t *positions,
                                           const void *input);

// Writes position (as `position_type`, s32 or s64, u32, u64) and value of the largest or smallest element over the
// middle of [outer][length][inner]. NaN wins; among equals the lower position. length >= 1. values may be NULL.
HLO_NODISCARD HloStatus cpu_argminmax(CpuPool *pool, HloType type, bool largest, int64_t outer, int64_t length,
                                      int64_t inner, HloType position_type, void *values, void *positions,
                                      const void *input);

HLO_END_C

#endif
