// SPDX-License-Identifier: Apache-2.0
// Products of matrices of f32, f64 and 32- and 64-bit integers with any strides, by our own packed kernels: OpenBLAS's
// serial build may not be called from several threads at once (its buffers are not locked: measured, wrong results),
// and we bring our own threads.
//
// Every element of the result is one chain of fused multiply-adds per block of depth, blocks in order; so it does not
// depend on how the work is cut, on the number of workers, or on the size of the matrices around it; but for subnormal
// numbers, which products of more than 32,768 multiplications count as zero.
#ifndef MESHLO_TARGETS_CPU_DENSE_GEMM_H_
#define MESHLO_TARGETS_CPU_DENSE_GEMM_H_

#include <stdbool.h>
#include <stddef.h>

#include "targets/cpu/host/pool.h"
#include "targets/cpu/isa/gemm.h"

HLO_BEGIN_C

// c[m][n] (row stride ldc, columns next to each other) = a * b, added to c where `accumulate` is set. Strides of a and
// b in elements, any value. c must not overlap a or b.
typedef struct CpuGemm {
    CpuGemmElement element;
    bool accumulate;
    int64_t m, n, k;
    int64_t a_m_stride, a_k_stride, b_k_stride, b_n_stride, ldc;
} CpuGemm;

// Bytes of scratch memory that cpu_gemm_serial() needs, a multiple of 64.
size_t cpu_gemm_scratch_bytes(const CpuGemm *gemm);

// On this thread alone. `scratch` is aligned to 64.
void cpu_gemm_serial(CpuFeatures features, const CpuGemm *gemm, void *c, const void *a, const void *b, void *scratch);

// Whether cpu_gemm_serial() multiplies from where the operands are: then it needs no scratch memory, and calling the
// element's kernel `small` does the same with less around it.
bool cpu_gemm_is_small(const CpuGemm *gemm);

// On the pool. RESOURCE_EXHAUSTED when packing finds no memory.
HLO_NODISCARD HloStatus cpu_gemm(CpuPool *pool, const CpuGemm *gemm, void *c, const void *a, const void *b);

HLO_END_C

#endif
