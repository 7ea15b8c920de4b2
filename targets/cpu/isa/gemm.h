// SPDX-License-Identifier: Apache-2.0
// The inner parts of matrix products, per instruction set and element; dense/gemm.c drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_GEMM_H_
#define MESHLO_TARGETS_CPU_ISA_GEMM_H_

#include <stdint.h>

#include "targets/cpu/host/features.h"

// What is multiplied. Unsigned integers wrap, and signed ones have the same bits.
typedef enum CpuGemmElement { CPU_GEMM_F32, CPU_GEMM_F64, CPU_GEMM_U32, CPU_GEMM_U64 } CpuGemmElement;

// What the windows of neighbouring outputs of a convolution read: `runs` runs of `depth` elements each, the r-th from
// offsets[r] on, counted from the window's start; the windows' starts are row_step elements apart.
typedef struct CpuWindows {
    int64_t runs, depth, row_step;
    const int64_t *offsets;
} CpuWindows;

// Features that are summed at once where there are only so few.
enum { CPU_WINDOW_DOTS = 4 };

// Rows and columns of one tile of the result that stays in registers are `mr` and `nr`.
typedef struct CpuGemmKernels {
    int width;  // bytes of an element
    int mr, nr;
    // Writes `lanes` x `depth` elements, from[lane * lane_stride + k * depth_stride], as panels of `panel` lanes:
    // to[lane / panel][k][lane % panel], missing lanes as zeros. Up to 64 bytes behind the last panel are overwritten.
    void (*pack)(void *to, int64_t panel, const void *from, int64_t lanes, int64_t depth, int64_t lane_stride,
                 int64_t depth_stride);
    // c[m][n] (row stride ldc), m <= mr and n <= nr, is set to or raised by the product of one panel of each operand;
    // that of b has `b_step` elements (at least nr) from one k to the next. Each element is one chain of fused
    // multiply-adds in rising k.
    void (*tile)(int64_t depth, const void *a, const void *b, int64_t b_step, void *c, int64_t ldc, int64_t m,
                 int64_t n, int accumulate);
    // c[m][n] (row stride ldc) is set to or raised by the product of a[i * row_step + k * k_step], any steps, and rows
    // of b `b_step` elements apart, from where they are: bits as of tile() of one block of depth.
    void (*small)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t row_step, int64_t k_step, const void *b,
                  int64_t b_step, void *c, int64_t ldc, int accumulate);
    // c[m][n] (row stride ldc), m <= mr and n <= nr, is set to the product of m windows, the first one at `a`, and a
    // panel of b: a chain of fused multiply-adds in the order of the runs. NULL for integers.
    void (*window)(const CpuWindows *windows, const void *a, const void *b, void *c, int64_t ldc, int64_t m, int64_t n);
    // The same for up to CPU_WINDOW_DOTS features and any number of windows: the weights of feature j stand from
    // b[j * b_step] on. Sums of lanes, added up in a fixed order. NULL for integers.
    void (*window_dots)(const CpuWindows *windows, const void *a, const void *b, int64_t b_step, void *c, int64_t ldc,
                        int64_t m, int64_t n);
    // y[i * y_step] is set to or raised by the sum over k of a[i * row_step + k] * x[k]: 4 vectors of lanes, added up
    // in a fixed order.
    void (*rows_by_vector)(void *y, int64_t y_step, const void *a, int64_t row_step, const void *x, int64_t rows,
                           int64_t depth, int accumulate);
    // y[i] is set to or raised by the sum over k of a[k * depth_step + i] * x[k * x_step]: a chain in rising k.
    void (*columns_by_vector)(void *y, const void *a, int64_t depth_step, const void *x, int64_t x_step, int64_t count,
                              int64_t depth, int accumulate);
} CpuGemmKernels;

extern const CpuGemmKernels cpu_gemm_f32_baseline, cpu_gemm_f64_baseline, cpu_gemm_u32_baseline, cpu_gemm_u64_baseline;
#if defined(__x86_64__)
extern const CpuGemmKernels cpu_gemm_f32_avx2, cpu_gemm_f64_avx2, cpu_gemm_u32_avx2, cpu_gemm_u64_avx2;
extern const CpuGemmKernels cpu_gemm_f32_avx512, cpu_gemm_f64_avx512, cpu_gemm_u32_avx512, cpu_gemm_u64_avx512;
#endif

// The kernels for a set and an element.
const CpuGemmKernels *cpu_isa_gemm_kernels(CpuFeatures features, CpuGemmElement element);

#endif
