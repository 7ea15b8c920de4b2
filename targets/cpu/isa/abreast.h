// SPDX-License-Identifier: Apache-2.0
// Decompositions of several small matrices at once, per instruction set: element (i, j) of all of them is one vector,
// so that loops as short as a matrix is small still fill vectors. Each matrix gets the same bits whatever the others
// are; by lu, cholesky and solve those that the kernels for one matrix give it (isa/triangle.h, isa/vector.h).
// dense/abreast.h drives them.
#ifndef MESHLO_TARGETS_CPU_ISA_ABREAST_H_
#define MESHLO_TARGETS_CPU_ISA_ABREAST_H_

#include <stdbool.h>
#include <stdint.h>

#include "targets/cpu/host/features.h"
#include "targets/cpu/isa/each.h"

// Where the elements of a triangle and of the right-hand sides are: element (i, j) of the lower triangle at
// first + i * down + j * right, element i of side s at side_first + i * side_down + s * side_right.
typedef struct CpuAbreastPlaces {
    int64_t first, down, right, side_first, side_down, side_right;
} CpuAbreastPlaces;

// The operations of one element type on `lanes` matrices. Arrays contain `lanes` elements, one of each matrix, for each
// position, and are aligned as their elements are.
typedef struct CpuAbreastType {
    int lanes;
    // Factors rows x columns matrices, at least as many rows as columns, in place, as cpu_lu() does. pivots: for each
    // step the rows of all matrices, counted from 0; singular: of each matrix the first column without a pivot, counted
    // from 1, or 0.
    void (*lu)(int64_t rows, int64_t columns, void *a, int32_t *pivots, int32_t *singular);
    // Computes the upper factor of n x n matrices in place of their upper triangles; with `lower` the lower factor in
    // place of the lower triangles. The other triangle becomes zero. From the first pivot on that is not positive all
    // numbers of the factor are NaN.
    void (*cholesky)(int64_t n, bool lower, void *a);
    // Computes y := M^-1 y for lower triangles M of n rows, whose diagonals are ones that are not read if `unit` is
    // set.
    void (*solve)(int64_t n, int64_t sides, bool unit, CpuAbreastPlaces places, const void *m, void *y);
    // Computes the QR form of rows x columns matrices in place, as cpu_qr() does, and min(rows, columns) taus.
    void (*qr)(int64_t rows, int64_t columns, void *a, void *taus);
    // Computes the first `columns` columns of the product of `count` of these reflections, as
    // cpu_householder_product() does.
    void (*householder_product)(int64_t rows, int64_t columns, int64_t count, const void *factors, const void *taus,
                                void *q);
    // Computes the n eigenvalues of n x n symmetric matrices, in no order, and unit eigenvectors in rows unless `rows`
    // is NULL. Only the named triangle of `a` is read; all of it is used up. Matrices that are not finite give NaN.
    void (*eigen)(int64_t n, bool lower, void *a, void *values, void *rows);
} CpuAbreastType;

typedef struct CpuAbreastKernels {
    CpuAbreastType f32, f64;
} CpuAbreastKernels;

// cpu_isa_abreast_kernels() returns the kernels for an instruction set.
CPU_ISA_TABLES(CpuAbreastKernels, abreast_kernels)

#endif
