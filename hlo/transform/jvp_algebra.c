// SPDX-License-Identifier: Apache-2.0
// Tangents of factorisations and of solutions of triangular systems, as ops and as custom calls.
#include "hlo/transform/structure.h"

HloInstruction *hlo_transform_conjugate(HloBuilder *b, HloInstruction *x) {
    if (!x || !hlo_type_is_complex(x->shape->type)) return x;
    return hlo_build_complex(b, hlo_build_real(b, x), hlo_build_negate(b, hlo_build_imag(b, x)));
}

// A matrix whose elements below the diagonal (`lower`) or above it are kept, those on it multiplied by `diagonal`.
static HloInstruction *triangle(HloBuilder *b, HloInstruction *x, bool lower, double diagonal) {
    HloInts dims = hlo_transform_dims(x);
    HloInstruction *row = hlo_build_iota(b, HLO_S32, dims, dims.count - 2);
    HloInstruction *column = hlo_build_iota(b, HLO_S32, dims, dims.count - 1);
    int32_t direction = lower ? HLO_ComparisonDirection_GT : HLO_ComparisonDirection_LT;
    HloInstruction *side = hlo_build_compare(b, row, column, direction);
    HloInstruction *on = hlo_build_compare(b, row, column, HLO_ComparisonDirection_EQ);
    HloInstruction *zero = hlo_build_splat_like(b, x, 0);
    HloInstruction *factor = hlo_build_select(b, on, hlo_build_splat_like(b, x, diagonal), zero);
    return hlo_build_mul(b, x, hlo_build_select(b, side, hlo_build_splat_like(b, x, 1), factor));
}

static HloInstruction *product(HloBuilder *b, HloInstruction *x, HloInstruction *y) {
    if (!x || !y) return NULL;
    int64_t batch[HLO_MAXIMUM_RANK], count = x->shape->rank - 2;
    for (int64_t i = 0; i < count; i++) batch[i] = i;
    static const int32_t HIGHEST[] = {HLO_Precision_HIGHEST, HLO_Precision_HIGHEST};
    HloDotAttributes attributes = {.lhs_batch = {batch, count},
                                   .rhs_batch = {batch, count},
                                   .lhs_contracting = HLO_DIMS(count + 1),
                                   .rhs_contracting = HLO_DIMS(count),
                                   .precision = {HIGHEST, 2}};
    return hlo_build_dot(b, x, y, &attributes, HLO_INVALID);
}

// The tangent of the lower Cholesky factor l: L' = L Phi(L^-1 A' L^-H), where Phi takes the lower triangle and half of
// the diagonal.
static HloInstruction *cholesky_tangent(HloBuilder *b, HloInstruction *l, HloInstruction *t) {
    HloTriangularSolveAttributes right = {.lower = true, .transpose_a = HLO_Transpose_ADJOINT};
    HloTriangularSolveAttributes left = {.left_side = true, .lower = true, .transpose_a = HLO_Transpose_NO_TRANSPOSE};
    HloInstruction *inner = hlo_build_triangular_solve(b, l, hlo_build_triangular_solve(b, l, t, &right), &left);
    return inner ? product(b, l, triangle(b, inner, true, 0.5)) : NULL;
}

void hlo_jvp_cholesky(HloJvp *j, HloInstruction **out) {
    if (HLO_ATTRIBUTES(j->old, Cholesky)->lower)
        out[0] = cholesky_tangent(j->b, hlo_jvp_result(j), hlo_jvp_tangent(j, 0));
    else
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative of a cholesky with lower=false", j->old->name);
}

// op(A) X = B: X' = op(A)^-1 (B' - op(A') X), of A' only the triangle that is read.
static HloInstruction *solution_tangent(HloJvp *j, const HloTriangularSolveAttributes *attributes) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *right = hlo_jvp_tangent(j, 1);
    if (t) {
        int64_t swap[HLO_MAXIMUM_RANK], rank = t->shape->rank;
        HloInstruction *x = hlo_jvp_result(j);
        t = triangle(b, t, attributes->lower, attributes->unit_diagonal ? 0 : 1);
        for (int64_t i = 0; i < rank; i++) swap[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        if (attributes->transpose_a != HLO_Transpose_NO_TRANSPOSE) t = hlo_build_transpose(b, t, (HloInts){swap, rank});
        if (attributes->transpose_a == HLO_Transpose_ADJOINT) t = hlo_transform_conjugate(b, t);
        t = hlo_build_negate(b, attributes->left_side ? product(b, t, x) : product(b, x, t));
        right = hlo_transform_sum(b, right, t);
    }
    return hlo_build_triangular_solve(b, hlo_jvp_operand(j, 0), right, attributes);
}

void hlo_jvp_triangular_solve(HloJvp *j, HloInstruction **out) {
    out[0] = solution_tangent(j, HLO_ATTRIBUTES(j->old, TriangularSolve));
}

// ---------------------------------------------------------------------------------------------------------------------
// Decompositions by custom call

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
    out[0] = solution_tangent(j, &attributes);
}

// The result keeps the operand's elements above the diagonal.
static void potrf(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *l = hlo_build_get(b, hlo_jvp_result(j), 0);
    if (!l) return;
    if (!option_is(j->old, "uplo", 'L', 'L')) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative of potrf with uplo=U", j->old->name);
        return;
    }
    HloInstruction *lower = cholesky_tangent(b, triangle(b, l, true, 1), t);
    out[0] = hlo_transform_sum(b, lower, triangle(b, t, false, 0));
}

// Values and vectors of a Hermitian matrix, A V = V diag(w): w' is the diagonal of D = V^H A' V, and V' = V (F * D)
// with F[i,j] = 1 / (w[j] - w[i]) off the diagonal and 0 on it.
static void eigh(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *result = hlo_jvp_result(j), *t = hlo_jvp_tangent(j, 0);
    HloInstruction *v = hlo_build_get(b, result, 0), *w = hlo_build_get(b, result, 1);
    if (!v || !w) return;
    int64_t swap[HLO_MAXIMUM_RANK], rows[HLO_MAXIMUM_RANK], columns[HLO_MAXIMUM_RANK], rank = v->shape->rank;
    for (int64_t i = 0; i < rank; i++) {
        swap[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        rows[i] = i;
        columns[i] = i < rank - 2 ? i : rank - 1;
    }
    HloInts dims = hlo_transform_dims(v);
    HloInstruction *adjoint = hlo_transform_conjugate(b, hlo_build_transpose(b, v, (HloInts){swap, rank}));
    HloInstruction *d = product(b, product(b, adjoint, t), v);
    HloInstruction *row = hlo_build_iota(b, HLO_S32, dims, rank - 2),
                   *column = hlo_build_iota(b, HLO_S32, dims, rank - 1);
    HloInstruction *on = hlo_build_compare(b, row, column, HLO_ComparisonDirection_EQ);
    HloInstruction *gap = hlo_build_sub(b, hlo_build_broadcast(b, w, dims, (HloInts){columns, rank - 1}),
                                        hlo_build_broadcast(b, w, dims, (HloInts){rows, rank - 1}));
    if (!gap || !d) return;
    HloInstruction *one = hlo_build_splat_like(b, gap, 1);
    HloInstruction *f = hlo_build_select(b, on, hlo_build_splat_like(b, gap, 0),
                                         hlo_build_div(b, one, hlo_build_select(b, on, one, gap)));
    if (hlo_type_is_complex(d->shape->type)) f = hlo_build_convert(b, f, d->shape->type);
    out[0] = product(b, v, hlo_build_mul(b, d, f));
    HloInstruction *diagonal = hlo_build_select(b, on, d, hlo_build_splat_like(b, d, 0));
    diagonal = hlo_build_reduce_op(b, HLO_OP_ADD, diagonal, HLO_DIMS(rank - 1));
    out[1] = hlo_type_is_complex(d->shape->type) ? hlo_build_real(b, diagonal) : diagonal;
}

bool hlo_transform_decomposition(HloJvp *j, HloInstruction **out) {
    static const struct {
        const char *part;  // of the target
        HloJvpRule *rule;
    } RULES[] = {{"trsm_ffi", trsm}, {"potrf_ffi", potrf}, {"syevd_ffi", eigh}, {"heevd_ffi", eigh}, {"Eigh", eigh}};
    const char *target = HLO_ATTRIBUTES(j->old, CustomCall)->target;
    for (size_t i = 0; i < HLO_COUNT_OF(RULES); i++) {
        const char *found = strstr(target, RULES[i].part);
        if (!found || found[strlen(RULES[i].part)] || hlo_custom_call_row(j->old) < 0) continue;
        RULES[i].rule(j, out);
        return true;
    }
    return false;
}
