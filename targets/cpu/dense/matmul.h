// SPDX-License-Identifier: Apache-2.0
// Matrix products with any strides: f32, f64, c64 and c128 by our own packed kernels, or by OpenBLAS where it is faster
// (targets/cpu/blas/auto.def), narrow floats with f32 accumulation, integers in the width of the result. The work is
// divided only by the problem's size, so results do not depend on the number of workers.
#ifndef MESHLO_TARGETS_CPU_DENSE_MATMUL_H_
#define MESHLO_TARGETS_CPU_DENSE_MATMUL_H_

#include "hlo/base/memory.h"
#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// The multiplication of f32 operands. BF16_n rounds them as a TPU does: 1 pass of bf16 operands, or 3 or 6 passes over
// their parts, each rounded to nearest even, all with f32 accumulation. Six passes are as exact as f32 arithmetic,
// which replaces them if no part is infinite.
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
    bool accumulate;  // adds to the result, if cpu_matmul_depth_part() is not 0
    int64_t batch, m, n, k;
    int64_t lhs_batch_stride, lhs_m_stride, lhs_k_stride;
    int64_t rhs_batch_stride, rhs_k_stride, rhs_n_stride;
    int64_t out_batch_stride, out_m_stride, out_n_stride;
} CpuMatmul;

// Computes the product. Operands of different types are converted to a common one: f32 for floats narrower than f64,
// for integers the result's type or, if that is narrower, one of 32 bits. RESOURCE_EXHAUSTED if there is no memory for
// packing, UNIMPLEMENTED for a type pair.
HLO_NODISCARD HloStatus cpu_matmul(CpuPool *pool, const CpuMatmul *matmul, void *out, const void *lhs, const void *rhs);

// Whether each element of a product with f32 sums has the same bits in a part of the product: in one with fewer of its
// rows, columns or batches, and otherwise as `part` describes it. Numbers above 2^48 are excepted, for which tiles of
// bf16 parts may be replaced by f32 arithmetic in one of both (tiles.c). False if another way to multiply is chosen.
bool cpu_matmul_keeps_bits(CpuFeatures features, const CpuMatmul *matmul, const CpuMatmul *part);

// Returns a depth such that products of parts of the depth, each of a multiple of it except the last, add up to the
// bits of the whole: the first computed, the others with `accumulate`. 0 if there is none.
int64_t cpu_matmul_depth_part(CpuFeatures features, const CpuMatmul *matmul);

// A single small product whose elements a kernel reads directly, in nanoseconds.
typedef struct CpuSmallMatmul CpuSmallMatmul;
// Prepares everything that cpu_matmul_small() needs to compute the product with the bits of cpu_matmul(); NULL if the
// product is not small.
const CpuSmallMatmul *cpu_matmul_plan_small(HloArena *arena, CpuFeatures features, const CpuMatmul *matmul);
void cpu_matmul_small(const CpuSmallMatmul *small, void *out, const void *lhs, const void *rhs);  // on this thread

// A small product described element by element, so that generated code can reproduce it bit for bit:
//
//     out[i * out_step] = the sum over k of matrix[i * i_step + k * k_step] * vector[k * vector_step]
//
// for i below count and k below depth. Sums are in order, from 0 on, or `by_halves`: while there are more than one,
// product i and product i + half are added, half being the powers of two from the largest below depth down to 1, and 0
// is added at the end.
typedef struct CpuMatmulElements {
    HloType type;
    bool vector_first;  // the vector is the left operand
    bool by_halves;
    int64_t count, depth, i_step, k_step, vector_step, out_step;
} CpuMatmulElements;
// Describes a small product; false for more than `most` multiplications, and for products without such a description.
bool cpu_matmul_small_elements(const CpuSmallMatmul *small, int64_t most, CpuMatmulElements *elements);

HLO_END_C

#endif
