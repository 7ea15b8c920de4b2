// SPDX-License-Identifier: Apache-2.0
// The inner parts of matrix products, per instruction set and element; dense/gemm.c drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_GEMM_H_
#define MESHLO_TARGETS_CPU_ISA_GEMM_H_

#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

// The type of the elements. Unsigned integers wrap, and signed ones have the same bits.
typedef enum CpuGemmElement { CPU_GEMM_F32, CPU_GEMM_F64, CPU_GEMM_U32, CPU_GEMM_U64 } CpuGemmElement;

// The windows of neighbouring outputs of a convolution: `runs` runs of `depth` elements each, the r-th from offsets[r]
// on, counted from the window's start; the windows' starts are row_step elements apart.
typedef struct CpuWindows {
    int64_t runs, depth, row_step;
    const int64_t *offsets;
} CpuWindows;

// Features that are summed together if there are only so few.
enum { CPU_WINDOW_DOTS = 4 };

// A tile of the result that stays in registers has `mr` rows and `nr` columns.
typedef struct CpuGemmKernels {
    int width;  // bytes of an element
    int mr, nr;
    // Writes `lanes` x `depth` elements, from[lane * lane_stride + k * depth_stride], as panels of `panel` lanes:
    // to[lane / panel][k][lane % panel], missing lanes as zeros. Up to 64 bytes after the last panel are overwritten.
    void (*pack)(void *to, int64_t panel, const void *from, int64_t lanes, int64_t depth, int64_t lane_stride,
                 int64_t depth_stride);
    // Sets c[m][n] (row stride ldc), m <= mr and n <= nr, to the product of one panel of each operand, or adds it to c;
    // each element is one chain of fused multiply-adds in rising k.
    void (*tile)(int64_t depth, const void *a, const void *b, void *c, int64_t ldc, int64_t m, int64_t n,
                 int accumulate);
    // Does the same for n = nr columns of b that are read in place, b[k * b_step + j], and packs them to `copy`, as
    // pack() would, unless that is NULL.
    void (*tile_in_place)(int64_t depth, const void *a, const void *b, int64_t b_step, void *copy, void *c, int64_t ldc,
                          int64_t m, int accumulate);
    // Sets c[m][n] (row stride ldc) to the product of a[i * row_step + k * k_step], any steps, and rows of b `b_step`
    // elements apart, both read in place, or adds it to c: same bits as tile() with one block of depth.
    void (*small)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t row_step, int64_t k_step, const void *b,
                  int64_t b_step, void *c, int64_t ldc, int accumulate);
    // Sets c[i * c_row_step + j * c_step], for 2 to narrow_columns j, to the product of a[i * row_step + k * k_step],
    // one of whose steps is 1, and b[k * n + j], or adds it to c: same bits as tile() with one block of depth. Vectors
    // are along the rows of a.
    int narrow_columns;
    void (*narrow)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t row_step, int64_t k_step, const void *b,
                   void *c, int64_t c_row_step, int64_t c_step, int accumulate);
    // Sets c[m][n] (row stride ldc), m <= mr and n <= nr, to the product of m windows, the first one at `a`, and a
    // panel of b: a chain of fused multiply-adds in the order of the runs. NULL for integers.
    void (*window)(const CpuWindows *windows, const void *a, const void *b, void *c, int64_t ldc, int64_t m, int64_t n);
    // Does the same for up to CPU_WINDOW_DOTS features and any number of windows: the weights of feature j start at b[j
    // * b_step]. Sums of lanes, added in a fixed order. NULL for integers.
    void (*window_dots)(const CpuWindows *windows, const void *a, const void *b, int64_t b_step, void *c, int64_t ldc,
                        int64_t m, int64_t n);
    // Sets y[i * y_step] to the sum over k of a[i * row_step + k] * x[k], or adds it: 4 vectors of lanes, added in a
    // fixed order.
    void (*rows_by_vector)(void *y, int64_t y_step, const void *a, int64_t row_step, const void *x, int64_t rows,
                           int64_t depth, int accumulate);
    // Sets y[i] to the sum over k of a[k * depth_step + i] * x[k * x_step], or adds it: a chain in rising k.
    void (*columns_by_vector)(void *y, const void *a, int64_t depth_step, const void *x, int64_t x_step, int64_t count,
                              int64_t depth, int accumulate);
} CpuGemmKernels;

CPU_ISA_TABLES(CpuGemmKernels, gemm_f32)
CPU_ISA_TABLES(CpuGemmKernels, gemm_f64)
CPU_ISA_TABLES(CpuGemmKernels, gemm_u32)
CPU_ISA_TABLES(CpuGemmKernels, gemm_u64)

// Returns the kernels for an instruction set and an element.
const CpuGemmKernels *cpu_isa_gemm_kernels(CpuFeatures features, CpuGemmElement element);

#endif
