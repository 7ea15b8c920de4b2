// SPDX-License-Identifier: Apache-2.0
// Constructions that tangents and their transposes share.
#ifndef MESHLO_HLO_TRANSFORM_STRUCTURE_H_
#define MESHLO_HLO_TRANSFORM_STRUCTURE_H_

#include "hlo/ir/custom_call.h"
#include "hlo/transform/internal.h"

// Returns, for each window of x, the element of `carried` at the position of the greatest element of x (direction GE)
// or of the least one (LE).
HloInstruction *hlo_transform_window_gather(HloBuilder *b, HloInstruction *x, HloInstruction *carried,
                                            const HloWindow *window, int32_t direction);
// Returns the elements of x along `dimension` at `indices`, which has x's sizes in the other dimensions.
HloInstruction *hlo_transform_take_along(HloBuilder *b, HloInstruction *x, HloInstruction *indices, int64_t dimension);
// Returns the rows of a matrix, or of each of a batch, in the order of `rows`, which has a row number for each.
HloInstruction *hlo_transform_take_rows(HloBuilder *b, HloInstruction *x, HloInstruction *rows);
// Returns the gather that reads from an array of x's sizes what the scatter of `attributes` writes for `updates`.
HloInstruction *hlo_transform_gather_updates(HloBuilder *b, HloInstruction *x, HloInstruction *indices,
                                             const HloScatterAttributes *attributes, const HloShape *updates);
// Sets the tangents of a reduce-window by any computation of elementwise ops whose initial values are its identity.
void hlo_transform_expand_window(HloJvp *j, HloInstruction **out);
// Sets the value and the tangents of a reduction by any computation of elementwise ops.
void hlo_transform_expand_reduce(HloJvp *j, HloInstruction **out);
// Returns the conjugate; x itself if it is real.
HloInstruction *hlo_transform_conjugate(HloBuilder *b, HloInstruction *x);
// Returns a matrix (the last two dimensions) with only its elements below the diagonal (`lower`) or above it, and those
// on the diagonal multiplied by `diagonal`.
HloInstruction *hlo_transform_triangle(HloBuilder *b, HloInstruction *x, bool lower, double diagonal);
// Returns the product of two matrices, or of two batches of them, at the highest precision.
HloInstruction *hlo_transform_product(HloBuilder *b, HloInstruction *x, HloInstruction *y);
// Returns the tangent of the lower or the upper Cholesky factor of a matrix with the tangent `t`.
HloInstruction *hlo_transform_cholesky_tangent(HloBuilder *b, HloInstruction *factor, HloInstruction *t, bool is_lower);
// Returns the tangent of the solution of a triangular system, j->old, whose operands are the matrix and the right-hand
// side.
HloInstruction *hlo_transform_solution_tangent(HloJvp *j, const HloTriangularSolveAttributes *attributes);
// Returns the tangent of the solution of A x = b, if j->old is the second of two triangular solves by the factors of
// one LU decomposition; NULL if it is not. Without it the tangent would come through those of L and U, with five times
// the products.
HloInstruction *hlo_transform_system_tangent(HloJvp *j, const HloTriangularSolveAttributes *attributes);
// Returns the tangents of the LU decomposition of a square matrix whose packed factors `matrix` is, at least where the
// decomposition succeeded; NULL if it is none.
const HloFactorTangents *hlo_transform_factors(const HloJvp *j, const HloInstruction *matrix);
// Returns true if a leaf of the result of a computation, which is not differentiated yet, will have tangents by
// hlo_transform_factors(), or none. `taken` tells which leaves of its parameter are factors; NULL for none.
bool hlo_transform_returns_factors(const HloJvp *j, const HloComputation *computation, const bool *taken, int64_t leaf);
// Returns the tangent of the packed factors of P A = L U, given P A'. Sets *solved to L^-1 P A' U^-1.
HloInstruction *hlo_transform_factors_tangent(HloBuilder *b, HloInstruction *lu, HloInstruction *permuted,
                                              HloInstruction **solved);
// Returns an array with the tangent of the factors of an LU decomposition on its diagonal, and other numbers elsewhere,
// if the gather j->old reads that diagonal; NULL if it does not. Without it the tangent would come through two products
// of matrices.
HloInstruction *hlo_transform_pivots_tangent(HloJvp *j);
// Returns the transpose of a matrix, or of each of a batch.
HloInstruction *hlo_transform_transposed(HloBuilder *b, HloInstruction *x);
// Returns its conjugate.
HloInstruction *hlo_transform_adjoint(HloBuilder *b, HloInstruction *x);
// Returns the rows and columns of a matrix from the first ones up to the limits.
HloInstruction *hlo_transform_block(HloBuilder *b, HloInstruction *x, int64_t first_row, int64_t limit_row,
                                    int64_t first_column, int64_t limit_column);
// Returns the first `rows` rows and `columns` columns of a matrix.
HloInstruction *hlo_transform_corner(HloBuilder *b, HloInstruction *x, int64_t rows, int64_t columns);
// Returns a matrix with rows and columns of zeros appended, up to these sizes.
HloInstruction *hlo_transform_widened(HloBuilder *b, HloInstruction *x, int64_t rows, int64_t columns);
// Returns a vector with an element for each column, or for each row, repeated over a matrix of sizes `dims`.
HloInstruction *hlo_transform_along(HloBuilder *b, HloInstruction *vector, HloInts dims, bool columns);
// Converts a real array to the type of x.
HloInstruction *hlo_transform_typed(HloBuilder *b, HloInstruction *real, const HloInstruction *x);
// Returns preds, true on the diagonal of a matrix like x.
HloInstruction *hlo_transform_on_diagonal(HloBuilder *b, const HloInstruction *x);
// Applies the instruction itself to the cotangent.
HloInstruction *hlo_transpose_applied(HloTransposer *t, HloInstruction *cotangent);
// Returns a channel that no collective of the module has.
int64_t hlo_transposer_channel(HloTransposer *t);
// Transposes a boundary of a manual region.
void hlo_transpose_boundary(HloTransposer *t, HloInstruction *cotangent);
// Sets the tangent of a select that is log(exp(a) + exp(b)); false for another one.
bool hlo_transform_smooth_maximum(HloJvp *j, HloInstruction **out);
// True if the result of the program does not depend on j->old, an extreme value, other than in ways that cancel: it is
// what a softmax or a log of a sum of exponentials subtracts.
bool hlo_transform_cancels(HloJvp *j);
// Sets the tangent of a quotient that is the logistic function, 1 / (1 + exp(-x)); false for another one.
bool hlo_transform_logistic(HloJvp *j, HloInstruction **out);
// Sets the tangent of a select, or of a call of one, that is x log(y) and 0 where x is 0; false for another one.
bool hlo_transform_log_product(HloJvp *j, HloInstruction **out);
// Sets the tangent of a select, or of a call of one, that is Owen's T function as JAX computes it; false for another
// one.
bool hlo_transform_owens_t(HloJvp *j, HloInstruction **out);
// True if `root` is calculated from a constant with an element near `value`, also in functions that it calls.
bool hlo_transform_follows_from(HloArena *scratch, const HloInstruction *root, double value);
// Sets the value and the tangents of a call of a function to which JAX gives a derivative of its own; false for another
// one.
bool hlo_transform_named(HloJvp *j, HloInstruction **out);
// True if the function has the name of one of these.
bool hlo_transform_is_named(const HloComputation *function);
// Returns the derivative of samples x of gamma distributions, f32 or f64, with respect to their shapes a.
HloInstruction *hlo_transform_gamma_slope(HloBuilder *b, HloInstruction *a, HloInstruction *x);
// Rules of custom calls: geqrf and its kin, orgqr after them, gtsv, and geev without vectors.
void hlo_transform_qr(HloJvp *j, HloInstruction **out);
void hlo_transform_reflectors(HloJvp *j, HloInstruction **out);
void hlo_transform_tridiagonal(HloJvp *j, HloInstruction **out);
void hlo_transform_eigenvalues(HloJvp *j, HloInstruction **out);
// True for a custom call of the table whose target ends with `part`.
bool hlo_transform_calls(const HloInstruction *i, const char *part);
// Sets the tangents of a decomposition by custom call; false if its target has none.
bool hlo_transform_decomposition(HloJvp *j, HloInstruction **out);

#endif
