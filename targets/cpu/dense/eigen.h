// SPDX-License-Identifier: Apache-2.0
// Rotations of rows, collected and then applied to stripes of columns over the pool. They rotate the vectors of small
// (tri- and bidiagonal) problems during the iteration.
#ifndef MESHLO_TARGETS_CPU_DENSE_EIGEN_H_
#define MESHLO_TARGETS_CPU_DENSE_EIGEN_H_

#include "targets/cpu/dense/matrix.h"

HLO_BEGIN_C

// Rotations that are applied together: enough to amortise one fork, few enough to stay in a cache.
enum { CPU_ROTATIONS = 16 * 1024 };

// Rows of real numbers of the matrix's precision.
typedef struct CpuRotations {
    const CpuMatrix *matrix;
    CpuRotation *items;  // CPU_ROTATIONS entries
    int64_t count;
    char *rows;               // NULL: nothing is rotated
    int64_t columns, stride;  // that are rotated; the distance of two rows
} CpuRotations;

// Matrices with more rows are solved by halves: below, rotating the vectors costs less than merging.
enum { CPU_EIGEN_SMALL = 48 };

// A symmetric tridiagonal matrix that is reduced to its eigenvalues and vectors. The caller sets the first part.
typedef struct CpuEigenHalves {
    CpuMatrix *matrix;
    bool is_double;  // the type of the rows: f64 or f32
    int64_t n;
    double *d, *e;  // the diagonal, then the eigenvalues; the n - 1 elements beside it, which are used up
    char *rows;     // n x n: ones on the diagonal, then the eigenvectors, one a row
    // Solves rows [first, first + n) of the matrix in place, at most CPU_EIGEN_SMALL of them. Returns false on failure.
    bool (*small)(void *context, int64_t first, int64_t n);
    void *context;
    // Scratch memory, which cpu_eigen_halves() takes from the matrix.
    char *held, *coefficients, *scratch;
    size_t scratch_each;
    double *gaps, *roots, *z, *weights, *shifted;
    int64_t *grouped;
    struct Pole *poles, *all, *stay;
} CpuEigenHalves;

// Returns the scratch memory that it needs.
size_t cpu_eigen_halves_bytes(const CpuPool *pool, bool is_double, int64_t n);
// Solves the problem; eigenvalues are in no order. The bits do not depend on the pool. False if `small` failed.
bool cpu_eigen_halves(CpuEigenHalves *halves);

HLO_END_C

#endif
