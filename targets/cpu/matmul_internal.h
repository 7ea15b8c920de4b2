// SPDX-License-Identifier: Apache-2.0
// The product of two packed or directly addressable matrices on one thread: what cpu_matmul() and cpu_convolution() share.
#ifndef MESHLO_TARGETS_CPU_MATMUL_INTERNAL_H_
#define MESHLO_TARGETS_CPU_MATMUL_INTERNAL_H_

#include "targets/cpu/isa/isa.h"
#include "targets/cpu/matmul.h"

// The type that products are accumulated in: f32, f64, c64, c128, or the result's integer type. HLO_INVALID where the
// operands and the result have no product.
HloType cpu_matmul_compute_type(HloType lhs, HloType rhs, HloType out);

// Copies a strided matrix to a row-major one of the compute type: target[r * columns + c] from source[r, c].
void cpu_matmul_pack(const CpuLoopKernels *kernels, HloType from, HloType compute, void *target, const void *source,
                     int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

// The reverse of packing: row-major compute type to a strided matrix of the result's type.
void cpu_matmul_unpack(const CpuLoopKernels *kernels, HloType compute, HloType to, void *target, const void *source,
                       int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

// c[m][n] (row stride ldc) = beta * c + a * b with a stored as [m][k] (row stride lda) or, transposed, as [k][m], and b as
// [k][n] or, transposed, as [n][k]. beta is 0 or 1. All of the compute type; serial.
typedef struct CpuProduct {
    HloType type;
    int64_t m, n, k, lda, ldb, ldc;
    bool a_transposed, b_transposed, accumulate;
} CpuProduct;
void cpu_matmul_serial(const CpuProduct *product, void *c, const void *a, const void *b);

// Parts of f32 operands for the bf16 passes: `part` 0 is the highest. Rounds `count` elements of `source` to `target`.
void cpu_matmul_split(CpuPrecision precision, int part, float *target, const float *source, int64_t count);

// c = product of f32 operands with a precision; row-major packed operands. Needs 6 * (m + n) * k floats of scratch for
// the passes (none for EXACT). Serial.
void cpu_matmul_passes(CpuPrecision precision, const CpuProduct *product, float *c, const float *a, const float *b,
                       float *scratch);

#endif
