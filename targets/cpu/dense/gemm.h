// SPDX-License-Identifier: Apache-2.0
// Products of matrices of f32, f64 and 32- and 64-bit integers with any strides, by our own packed kernels.
//
// Every element of the result is one chain of fused multiply-adds per block of depth, blocks in order; so it does not
// depend on the division of the work, on the number of workers, or on the size of the matrices around it. Subnormal
// numbers are the exception: products of more than CPU_GEMM_SMALL multiplications count them as zero.
#ifndef MESHLO_TARGETS_CPU_DENSE_GEMM_H_
#define MESHLO_TARGETS_CPU_DENSE_GEMM_H_

#include <stdbool.h>
#include <stddef.h>

#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/gemm.h"

HLO_BEGIN_C

// Up to this many multiplications, packing takes longer than it saves.
enum { CPU_GEMM_SMALL = 32 * 1024 };
// Blocks of the depth.
enum { CPU_GEMM_DEPTH = 384 };

// c[m][n] (row stride ldc, columns contiguous) = a * b, added to c if `accumulate` is set. Strides of a and b are in
// elements and may have any value. c must not overlap a or b.
typedef struct CpuGemm {
    CpuGemmElement element;
    bool accumulate;
    int64_t m, n, k;
    int64_t a_m_stride, a_k_stride, b_k_stride, b_n_stride, ldc;
} CpuGemm;

// Returns the bytes of scratch memory that cpu_gemm_serial() needs, a multiple of 64.
size_t cpu_gemm_scratch_bytes(const CpuGemm *gemm);

// Multiplies on this thread. `scratch` is aligned to 64.
void cpu_gemm_serial(CpuFeatures features, const CpuGemm *gemm, void *c, const void *a, const void *b, void *scratch);

// True if cpu_gemm_serial() reads the operands directly: then it needs no scratch memory, and calling the element's
// kernel `small` does the same with less overhead.
bool cpu_gemm_is_small(const CpuGemm *gemm);

// Multiplies on the pool. RESOURCE_EXHAUSTED if there is no memory for packing.
HLO_NODISCARD HloStatus cpu_gemm(CpuPool *pool, const CpuGemm *gemm, void *c, const void *a, const void *b);

HLO_END_C

#endif
