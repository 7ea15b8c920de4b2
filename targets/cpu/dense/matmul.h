// SPDX-License-Identifier: Apache-2.0
// Matrix products with any strides: f32, f64, c64 and c128 by packed kernels of our own (gemm.h says why not OpenBLAS),
// narrow floats with f32 accumulation, integers in the width of the result. The work is cut by the problem's size
// alone, so results do not depend on the number of workers.
#ifndef MESHLO_TARGETS_CPU_DENSE_MATMUL_H_
#define MESHLO_TARGETS_CPU_DENSE_MATMUL_H_

#include "hlo/base/memory.h"
#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// How f32 operands are multiplied. BF16_n rounds them as a TPU does: 1 pass of bf16 operands, or 3 or 6 passes over
// their parts, each rounded to nearest even, all with f32 accumulation. Six passes are as exact as f32 arithmetic,
// which takes their place where no part is infinite.
typedef enum CpuPrecision {
    CPU_PRECISION_EXACT,
    CPU_PRECISION_BF16_1,
    CPU_PRECISION_BF16_3,
    CPU_PRECISION_BF16_6
} CpuPrecision;

// out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]. Strides in elements; any may be 0 or negative for operands.
typedef struct CpuMatmul {
    HloType lhs_type, rhs_type, out_type;
    CpuPrecision precision;
    int64_t batch, m, n, k;
    int64_t lhs_batch_stride, lhs_m_stride, lhs_k_stride;
    int64_t rhs_batch_stride, rhs_k_stride, rhs_n_stride;
    int64_t out_batch_stride, out_m_stride, out_n_stride;
} CpuMatmul;

// Computes the product. Operands of different types are brought to a common one: f32 for floats narrower than f64, for
// integers the result's type or, where that is narrower, one of 32 bits. RESOURCE_EXHAUSTED when packing finds no
// memory, UNIMPLEMENTED for a type pair.
HLO_NODISCARD HloStatus cpu_matmul(CpuPool *pool, const CpuMatmul *matmul, void *out, const void *lhs, const void *rhs);

// A single product of elements that a kernel takes as it is, in nanoseconds.
typedef struct CpuSmallMatmul CpuSmallMatmul;
// What cpu_matmul_small() needs to compute it without asking anything, with the bits of cpu_matmul(); NULL for others.
const CpuSmallMatmul *cpu_matmul_plan_small(HloArena *arena, CpuFeatures features, const CpuMatmul *matmul);
void cpu_matmul_small(const CpuSmallMatmul *small, void *out, const void *lhs, const void *rhs);  // on this thread

// One of them said in elements, so that code of its own gives its bits:
// out[i * out_step] = the sum over k of matrix[i * i_step + k * k_step] * vector[k * vector_step], for i below count
// and k below depth. Sums are in order, from 0 on, or `by_halves`: while there are more than one, product i and product
// i + half are added, half being the powers of two from the largest below depth down to 1, and 0 is added at the end.
typedef struct CpuMatmulElements {
    HloType type;
    bool vector_first;  // the vector is the left operand
    bool by_halves;
    int64_t count, depth, i_step, k_step, vector_step, out_step;
} CpuMatmulElements;
// False for products of more than `most` multiplications, and for others that cannot be said so.
bool cpu_matmul_small_elements(const CpuSmallMatmul *small, int64_t most, CpuMatmulElements *elements);

HLO_END_C

#endif
