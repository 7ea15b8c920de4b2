// SPDX-License-Identifier: Apache-2.0
// LAPACK's routines on one row-major matrix each, for the decompositions of linalg.h.
//
// Each function returns false, with its results undefined, if the matrix is left to our own kernels: it has elements
// that are not finite, for which LAPACK promises nothing (some routines do not return), or the routine failed. So both
// engines give the same results where these are not numbers. Scratch memory comes from the matrix.
#ifndef MESHLO_TARGETS_CPU_DENSE_LAPACK_H_
#define MESHLO_TARGETS_CPU_DENSE_LAPACK_H_

#include "targets/cpu/blas/blas.h"
#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matrix.h"

HLO_BEGIN_C

// Does the work of cpu_matrix_batch(), for tasks that call the library unless `blas` is NULL; these need `lapack_bytes`
// of scratch memory, and compute a matrix on one thread.
HLO_NODISCARD HloStatus cpu_lapack_batch(const CpuBlas *blas, CpuPool *pool, HloType type, int64_t count,
                                         size_t work_bytes, size_t lapack_bytes, double cost, CpuMatrixTask *task,
                                         const void *job);

// True if none of `count` elements is infinite or NaN.
bool cpu_lapack_finite(HloType type, int64_t count, const void *a);
// The same for one triangle of an n x n matrix, with its diagonal.
bool cpu_lapack_finite_triangle(HloType type, int64_t n, bool lower, const void *a);

// The functions below take the arguments of linalg.h, for one matrix.
size_t cpu_lapack_lu_bytes(HloType type, int64_t rows, int64_t columns);
bool cpu_lapack_lu(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, void *factors, int32_t *pivots,
                   int64_t *singular, const void *in);
size_t cpu_lapack_cholesky_bytes(HloType type, int64_t n);
bool cpu_lapack_cholesky(CpuMatrix matrix, const CpuBlas *blas, int64_t n, bool lower, void *out, const void *in);
// Solves in place: x holds the right-hand sides. Needs no scratch memory.
bool cpu_lapack_solve(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, bool left_side, bool lower,
                      bool unit_diagonal, CpuTranspose transpose, void *x, const void *a);
size_t cpu_lapack_qr_bytes(HloType type, int64_t rows, int64_t columns);
bool cpu_lapack_qr(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, void *factors, void *taus,
                   const void *in);
bool cpu_lapack_householder_product(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, int64_t count,
                                    void *q, const void *factors, const void *taus);
// Values are ascending; vectors (NULL: none) have any phases.
size_t cpu_lapack_eigh_bytes(HloType type, int64_t n);
bool cpu_lapack_eigh(CpuMatrix matrix, const CpuBlas *blas, int64_t n, bool lower, void *vectors, void *values,
                     const void *in);

HLO_END_C

#endif
