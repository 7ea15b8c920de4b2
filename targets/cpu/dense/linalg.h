// SPDX-License-Identifier: Apache-2.0
// Triangular systems and decompositions over row-major batches of matrices.
#ifndef MESHLO_TARGETS_CPU_DENSE_LINALG_H_
#define MESHLO_TARGETS_CPU_DENSE_LINALG_H_

#include <stdbool.h>

#include "hlo/ir/types.h"
#include "targets/cpu/host/pool.h"

HLO_BEGIN_C

// Computes the lower (or upper) Cholesky factor of each of `batch` n x n matrices. The other triangle is zero, and only
// the named triangle of the input is read; a matrix that is not positive definite gives NaN. f32, f64, c64, c128.
HLO_NODISCARD HloStatus cpu_cholesky(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, void *out,
                                     const void *in);

typedef enum CpuTranspose { CPU_NO_TRANSPOSE, CPU_TRANSPOSE, CPU_ADJOINT } CpuTranspose;

// Solves op(A) X = B (left_side) or X op(A) = B for `batch` systems; B and X are rows x columns. f32, f64, c64, c128.
HLO_NODISCARD HloStatus cpu_triangular_solve(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns,
                                             bool left_side, bool lower, bool unit_diagonal, CpuTranspose transpose,
                                             void *x, const void *a, const void *b);

// Computes the packed factors of P A = L U for `batch` rows x columns matrices (L has a unit diagonal): step i
// exchanged row i with row pivots[i] (counted from 0; min(rows, columns) of them), so that row i of L U is row
// permutation[i] of A. info is the number of the first column without a pivot, counted from 1, or 0. permutation and
// info may be NULL. Pivots are the largest |re| + |im|. f32, f64, c64, c128, as for all below; `factors` and `in` may
// be one array.
HLO_NODISCARD HloStatus cpu_lu(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns, void *factors,
                               int32_t *pivots, int32_t *permutation, int32_t *info, const void *in);

// Computes QR in the form of LAPACK's geqrf: R on and above the diagonal, the vectors of the reflections I - tau v v^H
// below it (their 1 is not stored), and min(rows, columns) taus.
HLO_NODISCARD HloStatus cpu_qr(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns, void *factors,
                               void *taus, const void *in);

// Computes the first `columns` (at most `rows`) columns of the product of `count` (at most `columns`) reflections,
// stored in `factors` (rows x columns) as by cpu_qr().
HLO_NODISCARD HloStatus cpu_householder_product(CpuPool *pool, HloType type, int64_t batch, int64_t rows,
                                                int64_t columns, int64_t count, void *q, const void *factors,
                                                const void *taus);

// Computes eigenvalues (of the real part's type), ascending if `sort` is set, and, unless `vectors` is NULL, unit
// eigenvectors in columns, of n x n Hermitian matrices of which only the named triangle is read. Unsorted, blocks
// between which all elements are zero keep theirs in place. A matrix with elements that are not finite gives NaN. info
// (may be NULL): 0, or 1 if there are no values. `vectors` and `in` may be one array.
HLO_NODISCARD HloStatus cpu_eigh(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, bool sort,
                                 void *vectors, void *values, int32_t *info, const void *in);

HLO_END_C

#endif
