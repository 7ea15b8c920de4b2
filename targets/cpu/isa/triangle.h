// SPDX-License-Identifier: Apache-2.0
// Factors of, and systems with, small triangles, per instruction set: the parts of blocked algorithms that are not
// matrix products. dense/cholesky.c and dense/lu_qr.c drive them.
#ifndef MESHLO_TARGETS_CPU_ISA_TRIANGLE_H_
#define MESHLO_TARGETS_CPU_ISA_TRIANGLE_H_

#include <stdbool.h>
#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

// Rows of the largest triangle: its rows stay in the first-level cache during the work on it.
enum { CPU_TRIANGLE = 32 };

// The operations of one element type; strides are in elements, n is at most CPU_TRIANGLE.
typedef struct CpuTriangleType {
    // Computes the upper factor W, W^H W = a, of the Hermitian matrix whose upper triangle is stored in a: in place;
    // the lower triangle is neither read nor written. From the first pivot on that is not positive all rows are NaN.
    void (*factor)(int64_t n, void *a, int64_t stride);
    // Computes y := M^-1 y for the lower triangle M whose diagonal (ones if `unit` is set, then not read) and whose
    // negated off-diagonal elements are stored in m. y has n rows of `count` elements. An element's arithmetic does not
    // depend on count.
    void (*solve)(int64_t n, const void *m, int64_t m_stride, bool unit, int64_t count, void *y, int64_t y_stride);
} CpuTriangleType;

typedef struct CpuTriangleKernels {
    CpuTriangleType f32, f64, c64, c128;
} CpuTriangleKernels;

// cpu_isa_triangle_kernels() returns the kernels for an instruction set.
CPU_ISA_TABLES(CpuTriangleKernels, triangle_kernels)

#endif
