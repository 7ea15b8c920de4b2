// SPDX-License-Identifier: Apache-2.0
// Dense decompositions of one row-major matrix in double complex: plain algorithms of cubic order, with LAPACK's
// conventions for packed results. Matrices of a real type have zero imaginary parts and keep them.
#ifndef MESHLO_HLO_EVAL_LINEAR_MATRICES_H_
#define MESHLO_HLO_EVAL_LINEAR_MATRICES_H_

#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/complex.h"

typedef double _Complex HloEvalComplex;

// ---- factors (factor.c)

// Computes the lower factor of the Hermitian matrix given by its lower triangle, in place, zeros above. Returns 0, or
// the number (from 1) of the row that shows that the matrix is not positive definite; the rest is then unchanged.
int64_t hlo_eval_factor_cholesky(HloEvalComplex *a, int64_t n);
// Computes P A = L U in place; pivots[] (min(rows, columns)) counted from 0. Returns 0, or the number (from 1) of the
// first column without a pivot.
int64_t hlo_eval_factor_lu(HloEvalComplex *a, int64_t rows, int64_t columns, int64_t *pivots);
// Computes A = Q R in place by reflections I - tau v v^H; `v` is scratch of `rows`.
void hlo_eval_factor_qr(HloEvalComplex *a, int64_t rows, int64_t columns, HloEvalComplex *taus, HloEvalComplex *v);
// Computes A P = Q R, the column with the largest remainder first: order[j] (from 0) is the column that was moved to j.
// The first `fixed` columns stay where they are.
void hlo_eval_factor_pivoted_qr(HloEvalComplex *a, int64_t rows, int64_t columns, int64_t fixed, HloEvalComplex *taus,
                                int64_t *order, HloEvalComplex *v);
// Computes c := H c, or c := c H if `right`, for H = I - tau v v^H on rows (columns) [from, to) of a rows x columns
// matrix; v[from, to). `first` is the first column (row) that is changed.
void hlo_eval_apply_reflection(HloEvalComplex *c, int64_t rows, int64_t columns, bool right, int64_t first,
                               int64_t from, int64_t to, const HloEvalComplex *v, HloEvalComplex tau);
// Makes the reflection whose adjoint maps v[from, to) to beta e_from: v becomes its vector (v[from] = 1), *beta real.
HloEvalComplex hlo_eval_make_reflection(HloEvalComplex *v, int64_t from, int64_t to, double *beta);

// ---- eigenvalues (eigen.c)

// Rotates columns p and q of a matrix of `rows` x n: (p, q) := (c p - s conj(e) q, s e p + c q).
void hlo_eval_turn_columns(HloEvalComplex *a, int64_t rows, int64_t n, int64_t p, int64_t q, double c, double s,
                           HloEvalComplex e);
// Divides the numbers by 2^e and returns e, if squares of the largest would leave the range of a double; else e is 0.
// Finite numbers only.
int hlo_eval_normalise(HloEvalComplex *a, int64_t count);

// Diagonalises the Hermitian matrix given by its lower triangle: a := diagonal, v := unitary, with phases fixed by
// hlo_eval_normalised_phase(). Values are ascending if `sort` is set; else blocks between which all elements are zero
// keep their values and vectors in their own rows and columns. All elements must be finite.
void hlo_eval_diagonalise(HloEvalComplex *a, HloEvalComplex *v, double *values, int64_t n, bool sort);
// The factor of magnitude 1 that makes the first large element of the column x (elements `stride` apart) real and
// positive.
HloEvalComplex hlo_eval_normalised_phase(const HloEvalComplex *x, int64_t n, int64_t stride);
// Computes A = Q T Q^H from the lower triangle, packed as in LAPACK's sytrd. d (n), e and taus (n - 1); `v` is scratch
// of n.
void hlo_eval_tridiagonalise(HloEvalComplex *a, int64_t n, double *d, double *e, HloEvalComplex *taus,
                             HloEvalComplex *v);
// Computes A = Q H Q^H within rows and columns [low, high), packed as in LAPACK's gehrd. taus (n - 1).
void hlo_eval_hessenberg(HloEvalComplex *a, int64_t n, int64_t low, int64_t high, HloEvalComplex *taus,
                         HloEvalComplex *v);
// Computes the Schur form of a: a := T, upper triangular, z := Z with A = Z T Z^H; `taus` and `v` are scratch of n.
// False if it does not converge.
bool hlo_eval_complex_schur(HloEvalComplex *a, HloEvalComplex *z, int64_t n, HloEvalComplex *taus, HloEvalComplex *v);
// The real Schur form of a real matrix: blocks of 1 and of 2 (complex pairs, equal diagonals) on the diagonal.
bool hlo_eval_real_schur(HloEvalComplex *a, HloEvalComplex *z, int64_t n, HloEvalComplex *taus, HloEvalComplex *v);
// Makes a real Schur form triangular; of a pair the value with positive imaginary part comes first.
void hlo_eval_schur_to_complex(HloEvalComplex *t, HloEvalComplex *z, int64_t n);
// Computes eigenvectors of a triangular t in the columns of `vectors`, through z, of unit length with their largest
// element real and positive; `left`: u^H A = value u^H.
void hlo_eval_schur_vectors(const HloEvalComplex *t, const HloEvalComplex *z, int64_t n, bool left,
                            HloEvalComplex *vectors, HloEvalComplex *x);

// ---- singular values (singular.c)

// Computes A = U S V^H of a rows x columns matrix with rows >= columns, by one-sided rotations: `a` becomes U's first
// `columns` columns, v (columns x columns) V, values descending. Phases are fixed on the columns of U.
void hlo_eval_singular_values(HloEvalComplex *a, HloEvalComplex *v, double *values, int64_t rows, int64_t columns);
// Extends the first `have` orthonormal columns of q (rows x want) to `want`; `v` and `taus` are scratch of `rows`,
// `work` of rows x have.
void hlo_eval_complete_basis(HloEvalComplex *q, int64_t rows, int64_t want, int64_t have, HloEvalComplex *work,
                             HloEvalComplex *taus, HloEvalComplex *v);

#endif
