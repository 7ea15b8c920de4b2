// SPDX-License-Identifier: Apache-2.0
// Tangents of Cholesky factors and of solutions of triangular systems. jvp_decompositions.c has the custom calls.
#include "hlo/transform/structure.h"

HloInstruction *hlo_transform_conjugate(HloBuilder *b, HloInstruction *x) {
    if (!x || !hlo_type_is_complex(x->shape->type)) return x;
    return hlo_build_complex(b, hlo_build_real(b, x), hlo_build_negate(b, hlo_build_imag(b, x)));
}

HloInstruction *hlo_transform_transposed(HloBuilder *b, HloInstruction *x) {
    int64_t swap[HLO_MAXIMUM_RANK];
    if (!x) return NULL;
    const int64_t rank = x->shape->rank;
    for (int64_t i = 0; i < rank; i++) swap[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return hlo_build_transpose(b, x, (HloInts){swap, rank});
}

HloInstruction *hlo_transform_on_diagonal(HloBuilder *b, const HloInstruction *x) {
    HloInts dims = hlo_build_dims(x);
    HloInstruction *row = hlo_build_iota(b, HLO_S32, dims, dims.count - 2);
    HloInstruction *column = hlo_build_iota(b, HLO_S32, dims, dims.count - 1);
    return hlo_build_compare(b, row, column, HLO_ComparisonDirection_EQ);
}

HloInstruction *hlo_transform_triangle(HloBuilder *b, HloInstruction *x, bool lower, double diagonal) {
    if (!x) return NULL;
    HloInts dims = hlo_build_dims(x);
    HloInstruction *row = hlo_build_iota(b, HLO_S32, dims, dims.count - 2);
    HloInstruction *column = hlo_build_iota(b, HLO_S32, dims, dims.count - 1);
    int32_t direction = lower ? HLO_ComparisonDirection_GT : HLO_ComparisonDirection_LT;
    HloInstruction *side = hlo_build_compare(b, row, column, direction);
    HloInstruction *on = hlo_build_compare(b, row, column, HLO_ComparisonDirection_EQ);
    HloInstruction *zero = hlo_build_splat_like(b, x, 0);
    HloInstruction *factor = hlo_build_select(b, on, hlo_build_splat_like(b, x, diagonal), zero);
    return hlo_build_mul(b, x, hlo_build_select(b, side, hlo_build_splat_like(b, x, 1), factor));
}

HloInstruction *hlo_transform_product(HloBuilder *b, HloInstruction *x, HloInstruction *y) {
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

// L' = L Phi(L^-1 A' L^-H), where Phi takes the lower triangle and half of the diagonal. The upper factor is L^H.
HloInstruction *hlo_transform_cholesky_tangent(HloBuilder *b, HloInstruction *l, HloInstruction *t, bool is_lower) {
    if (!is_lower)
        return hlo_transform_adjoint(b, hlo_transform_cholesky_tangent(b, hlo_transform_adjoint(b, l), t, true));
    HloTriangularSolveAttributes right = {.lower = true, .transpose_a = HLO_Transpose_ADJOINT};
    HloTriangularSolveAttributes left = {.left_side = true, .lower = true, .transpose_a = HLO_Transpose_NO_TRANSPOSE};
    HloInstruction *inner = hlo_build_triangular_solve(b, l, hlo_build_triangular_solve(b, l, t, &right), &left);
    return inner ? hlo_transform_product(b, l, hlo_transform_triangle(b, inner, true, 0.5)) : NULL;
}

void hlo_jvp_cholesky(HloJvp *j, HloInstruction **out) {
    out[0] = hlo_transform_cholesky_tangent(j->b, hlo_jvp_result(j), hlo_jvp_tangent(j, 0),
                                            HLO_ATTRIBUTES(j->old, Cholesky)->lower);
}

// op(A) X = B: X' = op(A)^-1 (B' - op(A') X), of A' only the triangle that is read.
HloInstruction *hlo_transform_solution_tangent(HloJvp *j, const HloTriangularSolveAttributes *attributes) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *right = hlo_jvp_tangent(j, 1);
    HloInstruction *system = t ? hlo_transform_system_tangent(j, attributes) : NULL;
    if (system) return system;
    if (t) {
        HloInstruction *x = hlo_jvp_result(j);
        t = hlo_transform_triangle(b, t, attributes->lower, attributes->unit_diagonal ? 0 : 1);
        if (attributes->transpose_a != HLO_Transpose_NO_TRANSPOSE) t = hlo_transform_transposed(b, t);
        if (attributes->transpose_a == HLO_Transpose_ADJOINT) t = hlo_transform_conjugate(b, t);
        t = hlo_build_negate(b,
                             attributes->left_side ? hlo_transform_product(b, t, x) : hlo_transform_product(b, x, t));
        right = hlo_transform_sum(b, right, t);
    }
    return hlo_build_triangular_solve(b, hlo_jvp_operand(j, 0), right, attributes);
}

void hlo_jvp_triangular_solve(HloJvp *j, HloInstruction **out) {
    out[0] = hlo_transform_solution_tangent(j, HLO_ATTRIBUTES(j->old, TriangularSolve));
}
