// SPDX-License-Identifier: Apache-2.0
// Row operations for dense decompositions, per instruction set; dense/matrix.h drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_VECTOR_H_
#define MESHLO_TARGETS_CPU_ISA_VECTOR_H_

#include <complex.h>
#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

// A plane rotation of the rows `row` and `row` + 1: (x, y) becomes (cosine x + sine y, cosine y - sine x).
typedef struct CpuRotation {
    double cosine, sine;
    int64_t row;
} CpuRotation;

// The operations of one element type. Scalars are double complex whatever the type (real types ignore their imaginary
// part); elements are contiguous in memory.
typedef struct CpuVectorType {
    void (*axpy)(int64_t n, double _Complex a, const void *x, void *y);  // y += a x
    // y += a x + b z
    void (*axpy_pair)(int64_t n, double _Complex a, const void *x, double _Complex b, const void *z, void *y);
    double _Complex (*dot)(int64_t n, const void *x, const void *y);  // the sum of conj(x) y
    // Applies `count` rotations, in order, to rows of n elements that start `stride` elements apart.
    void (*rotate)(int64_t count, const CpuRotation *rotations, int64_t n, void *rows, int64_t stride);
    // Sets to[j * to_stride + i] = from[i * from_stride + j] for i below rows and j below columns.
    void (*turn)(int64_t rows, int64_t columns, void *to, int64_t to_stride, const void *from, int64_t from_stride);
} CpuVectorType;

typedef struct CpuVectorKernels {
    CpuVectorType f32, f64, c64, c128;
} CpuVectorKernels;

// cpu_isa_vector_kernels() returns the row operations for an instruction set.
CPU_ISA_TABLES(CpuVectorKernels, vector_kernels)

#endif
