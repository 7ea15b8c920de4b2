// SPDX-License-Identifier: Apache-2.0
// Tangents of matrix decompositions by custom call. The formulas are those of jax/_src/lax/linalg.py. Decompositions
// are not unique: each formula gives the tangent of the one that the call computes.
#include "hlo/transform/structure.h"

// ---- pieces of matrices, the last two dimensions

HloInstruction *hlo_transform_adjoint(HloBuilder *b, HloInstruction *x) {
    return hlo_transform_conjugate(b, hlo_transform_transposed(b, x));
}

HloInstruction *hlo_transform_block(HloBuilder *b, HloInstruction *x, int64_t first_row, int64_t limit_row,
                                    int64_t first_column, int64_t limit_column) {
    int64_t starts[HLO_MAXIMUM_RANK] = {0}, limits[HLO_MAXIMUM_RANK];
    if (!x) return NULL;
    const int64_t rank = x->shape->rank;
    for (int64_t i = 0; i < rank; i++) limits[i] = x->shape->dims[i];
    starts[rank - 2] = first_row;
    limits[rank - 2] = limit_row;
    starts[rank - 1] = first_column;
    limits[rank - 1] = limit_column;
    return hlo_build_slice(b, x, (HloInts){starts, rank}, (HloInts){limits, rank}, HLO_DIMS());
}

HloInstruction *hlo_transform_corner(HloBuilder *b, HloInstruction *x, int64_t rows, int64_t columns) {
    return hlo_transform_block(b, x, 0, rows, 0, columns);
}

HloInstruction *hlo_transform_widened(HloBuilder *b, HloInstruction *x, int64_t rows, int64_t columns) {
    int64_t zeros[HLO_MAXIMUM_RANK] = {0}, high[HLO_MAXIMUM_RANK] = {0};
    if (!x) return NULL;
    const int64_t rank = x->shape->rank;
    high[rank - 2] = rows - x->shape->dims[rank - 2];
    high[rank - 1] = columns - x->shape->dims[rank - 1];
    HloInstruction *zero = hlo_build_scalar(b, x->shape->type, 0);
    return hlo_build_pad(b, x, zero, (HloInts){zeros, rank}, (HloInts){high, rank}, HLO_DIMS());
}

// x made a square matrix of `size` rows by zeros, with ones on the diagonal from row `from` on.
static HloInstruction *extended(HloBuilder *b, HloInstruction *x, int64_t size, int64_t from) {
    x = hlo_transform_widened(b, x, size, size);
    if (!x || from == size) return x;
    HloInstruction *row = hlo_build_iota(b, HLO_S32, hlo_build_dims(x), x->shape->rank - 2);
    HloInstruction *late =
        row ? hlo_build_compare(b, row, hlo_build_splat_like(b, row, (double)from), HLO_ComparisonDirection_GE) : NULL;
    return hlo_build_select(b, hlo_build_and(b, late, hlo_transform_on_diagonal(b, x)), hlo_build_splat_like(b, x, 1),
                            x);
}

HloInstruction *hlo_transform_along(HloBuilder *b, HloInstruction *vector, HloInts dims, bool columns) {
    return hlo_build_spread(b, vector, dims, HLO_DIMS(dims.count - (columns ? 2 : 1)));
}

HloInstruction *hlo_transform_typed(HloBuilder *b, HloInstruction *real, const HloInstruction *x) {
    return real && x && real->shape->type != x->shape->type ? hlo_build_convert(b, real, x->shape->type) : real;
}

// The diagonal of a matrix whose diagonal is real for a Hermitian one.
static HloInstruction *real_diagonal(HloBuilder *b, HloInstruction *d, HloInstruction *on) {
    HloInstruction *diagonal = hlo_build_select(b, on, d, hlo_build_splat_like(b, d, 0));
    diagonal = hlo_build_reduce_op(b, HLO_OP_ADD, diagonal, HLO_DIMS(d->shape->rank - 1));
    return hlo_type_is_complex(d->shape->type) ? hlo_build_real(b, diagonal) : diagonal;
}

// ---- triangular systems, Cholesky, eigenvalues

static bool option_is(const HloInstruction *call, const char *name, char fallback, char value) {
    return hlo_custom_call_option(call, name, fallback) == value;
}

static void trsm(HloJvp *j, HloInstruction **out) {
    bool plain = option_is(j->old, "trans_x", 'N', 'N'), adjoint = option_is(j->old, "trans_x", 'N', 'C');
    HloTriangularSolveAttributes attributes = {.left_side = option_is(j->old, "side", 'L', 'L'),
                                               .lower = option_is(j->old, "uplo", 'L', 'L'),
                                               .unit_diagonal = option_is(j->old, "diag", 'N', 'U'),
                                               .transpose_a = plain     ? HLO_Transpose_NO_TRANSPOSE
                                                              : adjoint ? HLO_Transpose_ADJOINT
                                                                        : HLO_Transpose_TRANSPOSE};
    out[0] = hlo_transform_solution_tangent(j, &attributes);
}

// Whether the array counts along a dimension: an iota, perhaps with zeros added to it.
static bool counts_along(const HloInstruction *i, int64_t dimension) {
    const HloLiteral *number;
    while (hlo_is(i, HLO_OP_ADD) && hlo_is_splat(i->operands[1], &number) && hlo_literal_get_double(number, 0) == 0)
        i = i->operands[0];
    return hlo_is(i, HLO_OP_IOTA) && HLO_ATTRIBUTES(i, Iota)->dimension == dimension;
}

// Whether a select takes its first choice in one triangle of a matrix only.
static bool keeps_triangle(const HloInstruction *select, bool lower) {
    const HloInstruction *mask = select->operands[0];
    const int64_t rank = select->shape->rank;
    if (!hlo_is(mask, HLO_OP_COMPARE)) return false;
    const int32_t wanted = lower ? HLO_ComparisonDirection_GE : HLO_ComparisonDirection_LE;
    return HLO_ATTRIBUTES(mask, Compare)->direction == wanted && counts_along(mask->operands[0], rank - 2) &&
           counts_along(mask->operands[1], rank - 1);
}

// Whether one triangle is all that is used of a matrix: what JAX does with LAPACK's factors, after a choice of NaN
// where there is no factor.
static bool only_triangle_is_used(const HloInstruction *matrix, bool lower) {
    if (matrix->parent->root == matrix) return false;
    for (int64_t u = 0; u < matrix->users.count; u++) {
        const HloInstruction *user = matrix->users.items[u];
        if (!hlo_is(user, HLO_OP_SELECT) || user->operands[1] != matrix || user->operands[2] == matrix) return false;
        if (!keeps_triangle(user, lower) && !only_triangle_is_used(user, lower)) return false;
    }
    return true;
}

static bool other_triangle_is_used(const HloInstruction *call, bool lower) {
    for (int64_t u = 0; u < call->users.count; u++) {
        const HloInstruction *element = call->users.items[u];
        if (!hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT)) return true;
        if (HLO_ATTRIBUTES(element, TupleIndex)->index == 0 && !only_triangle_is_used(element, lower)) return true;
    }
    return call->parent->root == call;
}

// The result keeps the operand's elements in the other triangle.
static void potrf(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *factor = hlo_build_get(b, hlo_jvp_result(j), 0);
    if (!factor) return;
    const bool lower = option_is(j->old, "uplo", 'L', 'L');
    HloInstruction *tangent = hlo_transform_cholesky_tangent(b, hlo_transform_triangle(b, factor, lower, 1), t, lower);
    out[0] = other_triangle_is_used(j->old, lower)
                 ? hlo_transform_sum(b, tangent, hlo_transform_triangle(b, t, !lower, 0))
                 : tangent;
}

// Values and vectors of a Hermitian matrix, A V = V diag(w): w' is the diagonal of D = V^H A' V, and V' = V (F * D)
// with F[i,j] = 1 / (w[j] - w[i]) off the diagonal and 0 on it.
static void eigh(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *result = hlo_jvp_result(j), *t = hlo_jvp_tangent(j, 0);
    HloInstruction *v = hlo_build_get(b, result, 0), *w = hlo_build_get(b, result, 1);
    if (!v || !w) return;
    HloInts dims = hlo_build_dims(v);
    HloInstruction *d = hlo_transform_product(b, hlo_transform_product(b, hlo_transform_adjoint(b, v), t), v);
    HloInstruction *on = hlo_transform_on_diagonal(b, v);
    HloInstruction *gap =
        hlo_build_sub(b, hlo_transform_along(b, w, dims, true), hlo_transform_along(b, w, dims, false));
    if (!gap || !d) return;
    HloInstruction *one = hlo_build_splat_like(b, gap, 1);
    HloInstruction *f = hlo_build_select(b, on, hlo_build_splat_like(b, gap, 0),
                                         hlo_build_div(b, one, hlo_build_select(b, on, one, gap)));
    out[0] = hlo_transform_product(b, v, hlo_build_mul(b, d, hlo_transform_typed(b, f, d)));
    out[1] = real_diagonal(b, d, on);
}

// ---- LU

// The loop over the pivots of LAPACK's routines: its state is (i, rows, pivots), and row i changes places with row
// pivots[i] - 1. All matrices of a batch at once.
typedef struct Swaps {
    HloBuilder *b;
    const HloShape *state;
    HloInstruction *root;
} Swaps;

static HloStatus more_swaps(void *argument) {
    Swaps *s = argument;
    const HloShape *pivots = s->state->elements[2];
    HloInstruction *i = hlo_build_get(s->b, hlo_build_parameter_shape(s->b, 0, s->state, "state"), 0);
    HloInstruction *count = hlo_build_scalar_int64(s->b, HLO_S32, pivots->dims[pivots->rank - 1]);
    s->root = hlo_build_compare(s->b, i, count, HLO_ComparisonDirection_LT);
    return hlo_transform_status(s->b);
}

// Element i along the last dimension, which the result lacks.
static HloInstruction *element_at(HloBuilder *b, HloInstruction *x, HloInstruction *i) {
    HloInstruction *starts[HLO_MAXIMUM_RANK];
    int64_t sizes[HLO_MAXIMUM_RANK];
    if (!x) return NULL;
    const int64_t last = x->shape->rank - 1;
    for (int64_t d = 0; d <= last; d++) {
        starts[d] = d < last ? hlo_build_scalar(b, HLO_S32, 0) : i;
        sizes[d] = d < last ? x->shape->dims[d] : 1;
    }
    HloInstruction *slice = hlo_build_dynamic_slice(b, x, starts, (HloInts){sizes, last + 1});
    return hlo_build_reshape(b, slice, (HloInts){sizes, last});
}

static HloStatus swap_rows(void *argument) {
    Swaps *s = argument;
    HloBuilder *b = s->b;
    int64_t mapping[HLO_MAXIMUM_RANK];
    HloInstruction *state = hlo_build_parameter_shape(b, 0, s->state, "state");
    HloInstruction *i = hlo_build_get(b, state, 0), *rows = hlo_build_get(b, state, 1),
                   *pivots = hlo_build_get(b, state, 2);
    if (b->status) return hlo_transform_status(b);
    HloInts dims = hlo_build_dims(rows), batch = {mapping, dims.count - 1};
    for (int64_t d = 0; d < batch.count; d++) mapping[d] = d;
    HloInstruction *one = hlo_build_scalar(b, HLO_S32, 1), *pivot = element_at(b, pivots, i);
    if (pivot) pivot = hlo_build_sub(b, pivot, hlo_build_splat_like(b, pivot, 1));
    if (batch.count == 0) {
        HloInstruction *here = hlo_build_reshape(b, element_at(b, rows, i), HLO_DIMS(1)),
                       *there = hlo_build_reshape(b, element_at(b, rows, pivot), HLO_DIMS(1));
        HloInstruction *exchanged = hlo_build_dynamic_update_slice(b, rows, there, &i);
        exchanged = hlo_build_dynamic_update_slice(b, exchanged, here, &pivot);
        s->root = hlo_build_tuple(b, (HloInstruction *[]){hlo_build_add(b, i, one), exchanged, pivots}, 3);
        return hlo_transform_status(b);
    }
    HloInstruction *position = hlo_build_iota(b, HLO_S32, dims, batch.count);
    HloInstruction *at_pivot =
        hlo_build_compare(b, position, hlo_build_broadcast(b, pivot, dims, batch), HLO_ComparisonDirection_EQ);
    HloInstruction *at_i =
        hlo_build_compare(b, position, hlo_build_broadcast(b, i, dims, HLO_DIMS()), HLO_ComparisonDirection_EQ);
    HloInstruction *other = hlo_build_select(b, at_pivot, rows, hlo_build_splat(b, HLO_S32, dims, 0));
    other = hlo_build_reduce_op(b, HLO_OP_ADD, other, HLO_DIMS(batch.count));
    HloInstruction *swapped =
        hlo_build_select(b, at_pivot, hlo_build_broadcast(b, element_at(b, rows, i), dims, batch), rows);
    swapped = hlo_build_select(b, at_i, hlo_build_broadcast(b, other, dims, batch), swapped);
    s->root = hlo_build_tuple(b, (HloInstruction *[]){hlo_build_add(b, i, one), swapped, pivots}, 3);
    return hlo_transform_status(b);
}

// Which row of the matrix is row i of the factors, by LAPACK's pivots (from 1).
static HloInstruction *permutation_of(HloJvp *j, HloInstruction *pivots, int64_t rows) {
    HloBuilder *b = j->b;
    HloModule *module = hlo_builder_module(b);
    HloComputation *condition = NULL, *body = NULL;
    int64_t dims[HLO_MAXIMUM_RANK];
    if (!pivots) return NULL;
    const int64_t rank = pivots->shape->rank;
    for (int64_t d = 0; d < rank; d++) dims[d] = d < rank - 1 ? pivots->shape->dims[d] : rows;
    HloInstruction *start = hlo_build_scalar(b, HLO_S32, 0);
    HloInstruction *order = hlo_build_iota(b, HLO_S32, (HloInts){dims, rank}, rank - 1);
    HloInstruction *initial = hlo_build_tuple(b, (HloInstruction *[]){start, order, pivots}, 3);
    if (!initial) return NULL;
    Swaps test = {.state = initial->shape}, swap = {.state = initial->shape};
    HloStatus status = hlo_transform_build(module, "more_swaps", more_swaps, &test, &test.b, &test.root, &condition);
    if (!status) status = hlo_transform_build(module, "swap_rows", swap_rows, &swap, &swap.b, &swap.root, &body);
    if (status) hlo_builder_fail(b, status);
    return status ? NULL : hlo_build_get(b, hlo_build_while(b, initial, condition, body), 1);
}

// P A = L U: (L^-1 P A' U^-1) has the tangent of L below the diagonal, left of L, and that of U on and above it, right
// of U. Both factors are made square, with ones on the diagonal where A has no row or column.
HloInstruction *hlo_transform_factors_tangent(HloBuilder *b, HloInstruction *lu, HloInstruction *permuted,
                                              HloInstruction **solved) {
    static const HloTriangularSolveAttributes by_lower = {.left_side = true,
                                                          .lower = true,
                                                          .unit_diagonal = true,
                                                          .transpose_a = HLO_Transpose_NO_TRANSPOSE},
                                              by_upper = {.transpose_a = HLO_Transpose_NO_TRANSPOSE};
    if (!lu || !permuted) return NULL;
    HloInts dims = hlo_build_dims(lu);
    const int64_t m = dims.items[dims.count - 2], n = dims.items[dims.count - 1], k = m < n ? m : n;
    HloInstruction *lower = extended(b, hlo_transform_triangle(b, hlo_transform_corner(b, lu, m, k), true, 0), m, m);
    if (lower)
        lower = hlo_build_select(b, hlo_transform_on_diagonal(b, lower), hlo_build_splat_like(b, lower, 1), lower);
    HloInstruction *upper = extended(b, hlo_transform_triangle(b, hlo_transform_corner(b, lu, k, n), false, 1), n, k);
    HloInstruction *x = hlo_build_triangular_solve(b, lower, permuted, &by_lower);
    *solved = x = hlo_build_triangular_solve(b, upper, x, &by_upper);
    if (!x) return NULL;
    HloInstruction *left = hlo_transform_product(b, lower, hlo_transform_triangle(b, x, true, 0));
    return hlo_build_add(b, left, hlo_transform_product(b, hlo_transform_triangle(b, x, false, 1), upper));
}

// `permutation` tells which row of A is row i of L U.
static HloInstruction *lu_tangent(HloJvp *j, HloInstruction *lu, HloInstruction *permutation) {
    HloInstruction *t = hlo_jvp_tangent(j, 0);
    if (!lu || !permutation || !t) return NULL;
    HloFactorTangents tangents = {.matrix = t, .permutation = permutation};
    tangents.permuted = hlo_transform_take_rows(j->b, t, permutation);
    HloInstruction *result = hlo_transform_factors_tangent(j->b, lu, tangents.permuted, &tangents.solved);
    if (result)
        hlo_transform_store(j->scratch, &j->factors, hlo_jvp_result(j),
                            hlo_arena_copy(j->scratch, &tangents, sizeof tangents));
    return result;
}

static void getrf(HloJvp *j, HloInstruction **out) {
    HloInstruction *result = hlo_jvp_result(j);
    if (!result) return;
    HloInstruction *lu = hlo_build_get(j->b, result, 0), *pivots = hlo_build_get(j->b, result, 1);
    if (lu) out[0] = lu_tangent(j, lu, permutation_of(j, pivots, lu->shape->dims[lu->shape->rank - 2]));
}

static void lu_decomposition(HloJvp *j, HloInstruction **out) {
    HloInstruction *result = hlo_jvp_result(j);
    if (result) out[0] = lu_tangent(j, hlo_build_get(j->b, result, 0), hlo_build_get(j->b, result, 2));
}

// ---- singular values

// The call with the reduced factors, m by k and k by n: that of the program if it has them, else another one.
static HloInstruction *reduced_svd(HloJvp *j, int64_t m, int64_t n) {
    HloBuilder *b = j->b;
    const HloShape *old = j->old->shape, *elements[5];
    const int64_t k = m < n ? m : n, rank = old->elements[0]->rank;
    int64_t dims[HLO_MAXIMUM_RANK];
    const bool complete = old->elements[2]->dims[rank - 1] == k && old->elements[3]->dims[rank - 2] == k;
    if (complete && hlo_custom_call_option(j->old, "mode", 'S') != 'N') return hlo_jvp_result(j);
    for (int i = 0; i < 5; i++) elements[i] = old->elements[i];
    for (int64_t d = 0; d < rank; d++) dims[d] = old->elements[0]->dims[d];
    dims[rank - 1] = k;
    elements[2] = hlo_shape_array(j->scratch, old->elements[2]->type, dims, rank);
    dims[rank - 2] = k;
    dims[rank - 1] = n;
    elements[3] = hlo_shape_array(j->scratch, old->elements[3]->type, dims, rank);
    HloInstruction *operand = hlo_jvp_operand(j, 0);
    HloInstruction *call = hlo_build_custom_call(b, HLO_ATTRIBUTES(j->old, CustomCall)->target, &operand, 1,
                                                 hlo_shape_tuple(j->scratch, elements, 5));
    if (call) {
        call->backend_config = hlo_arena_text(hlo_builder_module(b)->arena, "{\"mode\":83}");  // 'S'
        call->backend_config_is_json = true;
    }
    return call;
}

// 1 / x, and 0 where x is.
static HloInstruction *inverse_or_zero(HloBuilder *b, HloInstruction *x) {
    if (!x) return NULL;
    HloInstruction *zero = hlo_build_splat_like(b, x, 0), *one = hlo_build_splat_like(b, x, 1);
    HloInstruction *none = hlo_build_compare(b, x, zero, HLO_ComparisonDirection_EQ);
    return hlo_build_select(b, none, zero, hlo_build_div(b, one, hlo_build_select(b, none, one, x)));
}

// The part of a tangent that leaves the space of the columns of `factor`: (x - F F^H x) / s, a column a singular value.
static HloInstruction *outside(HloBuilder *b, HloInstruction *factor, HloInstruction *x, HloInstruction *s) {
    HloInstruction *inside =
        hlo_transform_product(b, factor, hlo_transform_product(b, hlo_transform_adjoint(b, factor), x));
    HloInstruction *rest = hlo_build_sub(b, x, inside);
    return rest ? hlo_build_div(b, rest,
                                hlo_transform_typed(b, hlo_transform_along(b, s, hlo_build_dims(rest), true), rest))
                : NULL;
}

// A = U diag(s) V^H, with D = U^H A' V: s' is the diagonal of D, and with F[i,j] = 1 / (s[j]^2 - s[i]^2) off the
// diagonal U' = U (F * (D S + S D^H)) and V' = V (F * (S D + D^H S)); what is imaginary on the diagonal of D turns U,
// and what A' has outside of the space of the reduced factors is added.
static void gesdd(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    const HloShape *whole = j->old->shape->elements[0], *old_u = j->old->shape->elements[2],
                   *old_v = j->old->shape->elements[3];
    const int64_t rank = whole->rank, m = whole->dims[rank - 2], n = whole->dims[rank - 1], k = m < n ? m : n;
    const bool vectors = hlo_custom_call_option(j->old, "mode", 'S') != 'N';
    if (vectors && (old_u->dims[rank - 1] != k || old_v->dims[rank - 2] != k)) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s: there is no derivative of a singular value decomposition with full matrices", j->old->name);
        return;
    }
    HloInstruction *result = reduced_svd(j, m, n), *t = hlo_jvp_tangent(j, 0);
    if (!result || !t) return;
    HloInstruction *s = hlo_build_get(b, result, 1), *u = hlo_build_get(b, result, 2),
                   *vt = hlo_build_get(b, result, 3);
    const bool turns_u = vectors && hlo_jvp_needed(j)[2], turns_v = vectors && hlo_jvp_needed(j)[3];
    // Of the two orders of a product of three, the one with fewer multiply-adds; U' needs A' V anyway.
    HloInstruction *v = hlo_transform_adjoint(b, vt), *ut = hlo_transform_adjoint(b, u), *av = NULL, *d;
    if (!turns_u && m > n) {
        d = hlo_transform_product(b, hlo_transform_product(b, ut, t), v);
    } else {
        av = hlo_transform_product(b, t, v);
        d = hlo_transform_product(b, ut, av);
    }
    if (!d) return;
    HloInts dims = hlo_build_dims(d);
    HloInstruction *on = hlo_transform_on_diagonal(b, d);
    out[1] = real_diagonal(b, d, on);
    if (!turns_u && !turns_v) return;
    HloInstruction *by_column = hlo_transform_along(b, s, dims, true), *by_row = hlo_transform_along(b, s, dims, false);
    HloInstruction *gap = hlo_build_mul(b, hlo_build_add(b, by_column, by_row), hlo_build_sub(b, by_column, by_row));
    if (!gap) return;
    HloInstruction *one = hlo_build_splat_like(b, gap, 1), *zero = hlo_build_splat_like(b, gap, 0);
    HloInstruction *f = hlo_transform_typed(
        b, hlo_build_select(b, on, zero, hlo_build_div(b, one, hlo_build_select(b, on, one, gap))), d);
    HloInstruction *ds = hlo_build_mul(b, d, hlo_transform_typed(b, by_column, d)),
                   *sd = hlo_build_mul(b, d, hlo_transform_typed(b, by_row, d));
    HloInstruction *turn = hlo_build_sub(b, d, hlo_transform_adjoint(b, d)),
                   *inverse = hlo_transform_typed(b, inverse_or_zero(b, by_column), d);
    turn = hlo_build_mul(b, hlo_transform_scale(b, turn, 0.5),
                         hlo_build_select(b, on, inverse, hlo_build_splat_like(b, d, 0)));
    HloInstruction *du =
        hlo_build_add(b, hlo_build_mul(b, f, hlo_build_add(b, ds, hlo_transform_adjoint(b, ds))), turn);
    du = hlo_transform_product(b, u, du);
    HloInstruction *dv =
        hlo_transform_product(b, v, hlo_build_mul(b, f, hlo_build_add(b, sd, hlo_transform_adjoint(b, sd))));
    if (m > n && turns_u) du = hlo_build_add(b, du, outside(b, u, av, s));
    if (n > m) dv = hlo_build_add(b, dv, outside(b, v, hlo_transform_product(b, hlo_transform_adjoint(b, t), u), s));
    out[2] = turns_u ? du : NULL;
    out[3] = turns_v ? hlo_transform_adjoint(b, dv) : NULL;
}

bool hlo_transform_calls(const HloInstruction *i, const char *part) {
    if (!hlo_is(i, HLO_OP_CUSTOM_CALL)) return false;
    const char *target = HLO_ATTRIBUTES(i, CustomCall)->target, *found = strstr(target, part);
    return found && !found[strlen(part)] && hlo_custom_call_row(i) >= 0;
}

bool hlo_transform_decomposition(HloJvp *j, HloInstruction **out) {
    static const struct {
        const char *part;  // of the target
        HloJvpRule *rule;
    } RULES[] = {{"trsm_ffi", trsm},
                 {"potrf_ffi", potrf},
                 {"syevd_ffi", eigh},
                 {"heevd_ffi", eigh},
                 {"Eigh", eigh},
                 {"getrf_ffi", getrf},
                 {"LuDecomposition", lu_decomposition},
                 {"gesdd_ffi", gesdd},
                 {"gesvd_ffi", gesdd},
                 {"geqrf_ffi", hlo_transform_qr},
                 {"geqp3_ffi", hlo_transform_qr},
                 {"Qr", hlo_transform_qr},
                 {"orgqr_ffi", hlo_transform_reflectors},
                 {"ungqr_ffi", hlo_transform_reflectors},
                 {"ProductOfElementaryHouseholderReflectors", hlo_transform_reflectors},
                 {"gtsv_ffi", hlo_transform_tridiagonal},
                 {"geev_ffi", hlo_transform_eigenvalues}};
    for (size_t i = 0; i < HLO_COUNT_OF(RULES); i++) {
        if (!hlo_transform_calls(j->old, RULES[i].part)) continue;
        RULES[i].rule(j, out);
        return true;
    }
    return false;
}
