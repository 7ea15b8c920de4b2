// SPDX-License-Identifier: Apache-2.0
// The product of two packed or directly addressable matrices on one thread, shared by cpu_matmul() and
// cpu_convolution().
#ifndef MESHLO_TARGETS_CPU_DENSE_MATMUL_INTERNAL_H_
#define MESHLO_TARGETS_CPU_DENSE_MATMUL_INTERNAL_H_

#include <stdbool.h>
#include <stddef.h>

#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/isa/gemm.h"
#include "targets/cpu/isa/isa.h"

// Returns the type that products are accumulated in: f32, f64, c64, c128, an integer of 32 or 64 bits, or pred.
// HLO_INVALID if the operands and the result have no product.
HloType cpu_matmul_compute_type(HloType lhs, HloType rhs, HloType out);

// True if products of the compute type use one of the elements of gemm.h (cpu_matmul_element()). Signed integers are
// multiplied as unsigned ones.
bool cpu_matmul_has_element(HloType compute);
CpuGemmElement cpu_matmul_element(HloType compute);  // of a type that has an element

// Multiplications from which sharing the work pays.
enum { CPU_MATMUL_SHARED = 200000 };

// Sets the sizes of the tiles that a product is divided into, multiples of 16.
void cpu_matmul_choose_tiles(const CpuMatmul *mm, int64_t *tile_m, int64_t *tile_n);

// Computes the product by OpenBLAS and sets *done, if that is chosen for its type and sizes and can read its arrays.
HLO_NODISCARD HloStatus cpu_matmul_by_blas(CpuPool *pool, const CpuMatmul *mm, void *out, const void *lhs,
                                           const void *rhs, bool *done);

// Copies a strided matrix to a row-major one of the compute type: target[r * columns + c] from source[r, c].
void cpu_matmul_pack(const CpuLoopKernels *kernels, HloType from, HloType compute, void *target, const void *source,
                     int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

// Does the reverse of packing: row-major compute type to a strided matrix of the result's type.
void cpu_matmul_unpack(const CpuLoopKernels *kernels, HloType compute, HloType to, void *target, const void *source,
                       int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

// True if an array of f32 (false for other types) with these sizes, and strides in elements, has a finite number so
// large that it becomes infinite as bf16: then six passes over parts differ from f32 arithmetic.
bool cpu_matmul_has_infinite_part(const void *array, HloType type, const int64_t sizes[3], const int64_t strides[3]);

// c[m][n] (row stride ldc) = a * b, added to c if `accumulate` is set, all of the compute type, with the precision of
// the f32 passes. Strides of a and b are in elements.
typedef struct CpuProduct {
    HloType type;
    CpuPrecision precision;
    CpuFeatures features;
    bool accumulate;
    int64_t m, n, k;
    int64_t a_m_stride, a_k_stride, b_k_stride, b_n_stride, ldc;
    const void *b_tiles;  // b as cpu_tiles_pack_right() packed it, or NULL
} CpuProduct;

// A matrix of elements times a vector, by one call of a kernel.
typedef struct CpuVectorProduct {
    const CpuGemmKernels *kernels;
    bool right_first;  // the matrix is the right side, the vector the left one
    bool by_rows;      // the matrix's rows are contiguous, else its columns
    int64_t count, depth;
    int64_t step;  // between those rows or columns
    int64_t x_step, y_step;
} CpuVectorProduct;

// Plans a product with m = 1 or n = 1 of a type that has elements; false if no kernel supports the strides.
bool cpu_product_plan_vector(const CpuProduct *product, CpuVectorProduct *vector);
// Computes c, or adds to it, as planned, on this thread.
void cpu_product_by_vector(const CpuVectorProduct *vector, void *c, const void *a, const void *b, bool accumulate);
// Returns the bytes of scratch memory for cpu_product_serial(), a multiple of 64. Products of no larger sizes on no
// higher instruction set need no more: if the set is not known yet, pass CPU_FEATURES_AMX.
size_t cpu_product_scratch_bytes(const CpuProduct *product);

// Rounds f32 numbers to bf16, to nearest even; `to` may be `from`.
void cpu_product_round(float *to, const float *from, int64_t count);

// Computes the product on this thread. `scratch` is aligned to 64.
void cpu_product_serial(const CpuProduct *product, void *c, const void *a, const void *b, void *scratch);

#endif
