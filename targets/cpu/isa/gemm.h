// SPDX-License-Identifier: Apache-2.0
// The inner parts of matrix products, per instruction set and precision; gemm.c drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_GEMM_H_
#define MESHLO_TARGETS_CPU_ISA_GEMM_H_

#include <stdint.h>

#include "targets/cpu/features.h"

// Rows and columns of one tile of the result that stays in registers are `mr` and `nr`.
typedef struct CpuGemmKernels {
    int width;  // bytes of an element
    int mr, nr;
    // Writes `lanes` x `depth` elements, from[lane * lane_stride + k * depth_stride], as panels of `panel` lanes:
    // to[lane / panel][k][lane % panel], missing lanes as zeros. Up to 64 bytes behind the last panel are overwritten.
    void (*pack)(void *to, int64_t panel, const void *from, int64_t lanes, int64_t depth, int64_t lane_stride,
                 int64_t depth_stride);
    // c[m][n] (row stride ldc), m <= mr and n <= nr, is set to or raised by the product of one panel of each operand.
    // Each element is one chain of fused multiply-adds in rising k.
    void (*tile)(int64_t depth, const void *a, const void *b, void *c, int64_t ldc, int64_t m, int64_t n,
                 int accumulate);
} CpuGemmKernels;

extern const CpuGemmKernels cpu_gemm_f32_baseline, cpu_gemm_f64_baseline;
#if defined(__x86_64__)
extern const CpuGemmKernels cpu_gemm_f32_avx2, cpu_gemm_f64_avx2;
extern const CpuGemmKernels cpu_gemm_f32_avx512, cpu_gemm_f64_avx512;
#endif

// The kernels for a set, for f64 or f32.
const CpuGemmKernels *cpu_isa_gemm_kernels(CpuFeatures features, int is_double);

#endif
