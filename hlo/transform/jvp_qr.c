// SPDX-License-Identifier: Apache-2.0
// Tangents of QR decompositions. A program calls geqrf, whose result holds R on and above the diagonal and the
// Householder vectors below it, and then orgqr, which multiplies the reflectors. The tangents are those of Q and R
// (jax/_src/lax/linalg.py, qr_jvp_rule): the rule of geqrf computes both, and the rule of orgqr finds that of Q. The
// reflectors have none, so every other use of them is refused.
#include "hlo/transform/structure.h"

// The matrix with zeros below the diagonal, in the form that sees_only_r() knows.
static HloInstruction *upper_triangle(HloBuilder *b, HloInstruction *x) {
    if (!x) return NULL;
    HloInts dims = hlo_build_dims(x);
    HloInstruction *row = hlo_build_iota(b, HLO_S32, dims, dims.count - 2);
    HloInstruction *column = hlo_build_iota(b, HLO_S32, dims, dims.count - 1);
    HloInstruction *below = hlo_build_compare(b, row, column, HLO_ComparisonDirection_GT);
    return hlo_build_select(b, below, hlo_build_splat_like(b, x, 0), x);
}

static HloInstruction *side_by_side(HloBuilder *b, HloInstruction *x, HloInstruction *y) {
    return x && y ? hlo_build_concatenate(b, (HloInstruction *[]){x, y}, 2, x->shape->rank - 1) : NULL;
}

// ---- uses of the reflectors

// The leading part of an array, or the array with zeros after it, that an instruction makes; NULL for another one.
static const HloInstruction *extent_source(const HloInstruction *i) {
    if (hlo_is(i, HLO_OP_SLICE)) {
        const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
        for (int64_t k = 0; k < slice->starts.count; k++)
            if (slice->starts.items[k] || (slice->strides.count && slice->strides.items[k] != 1)) return NULL;
        return i->operands[0];
    }
    if (hlo_is(i, HLO_OP_PAD)) {
        const HloPadding *padding = &HLO_ATTRIBUTES(i, Pad)->padding;
        for (int64_t k = 0; k < padding->count; k++)
            if (padding->items[k].low || padding->items[k].high < 0 || padding->items[k].interior) return NULL;
        return i->operands[0];
    }
    return hlo_is(i, HLO_OP_COPY) ? i->operands[0] : NULL;
}

static bool multiplies_reflectors(const HloInstruction *i) {
    return hlo_transform_calls(i, "orgqr_ffi") || hlo_transform_calls(i, "ungqr_ffi") ||
           hlo_transform_calls(i, "ProductOfElementaryHouseholderReflectors");
}

static bool is_pivoted(const HloInstruction *qr) {
    return hlo_transform_calls(qr, "geqp3_ffi");
}

// The decomposition of which `i` is element `index`, or NULL.
static const HloInstruction *decomposition_of(const HloInstruction *i, int64_t index) {
    if (!hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT)) return NULL;
    const HloInstruction *qr = i->operands[0];
    const int64_t wanted = index && is_pivoted(qr) ? 2 : index;
    bool decomposes = hlo_transform_calls(qr, "geqrf_ffi") || hlo_transform_calls(qr, "Qr") || is_pivoted(qr);
    return decomposes && HLO_ATTRIBUTES(i, TupleIndex)->index == wanted ? qr : NULL;
}

// The decomposition whose reflectors a call multiplies, all of them; NULL if they come from elsewhere.
static const HloInstruction *decomposition_multiplied(const HloInstruction *call) {
    const HloInstruction *vectors = call->operands[0];
    for (const HloInstruction *source; (source = extent_source(vectors));) vectors = source;
    const HloInstruction *qr = decomposition_of(vectors, 0);
    if (!qr || qr != decomposition_of(call->operands[1], 1)) return NULL;
    const HloShape *whole = vectors->shape, *q = call->shape;
    const int64_t rows = whole->dims[whole->rank - 2], columns = whole->dims[whole->rank - 1];
    const int64_t reduced = rows < columns ? rows : columns;
    const bool fits = q->dims[q->rank - 2] == rows && (q->dims[q->rank - 1] == reduced || q->dims[q->rank - 1] == rows);
    return fits ? qr : NULL;
}

static const HloInstruction *without_broadcast(const HloInstruction *i) {
    while (hlo_is(i, HLO_OP_BROADCAST)) i = i->operands[0];
    return i;
}

// True if the last dimensions of a position are those of the last two of a matrix: a count along the rows (`along` 2)
// or the columns (1), to which `offset` is added.
static bool counts(const HloInstruction *i, int64_t along, int64_t *offset) {
    *offset = 0;
    if (hlo_is(i, HLO_OP_ADD)) {
        const HloInstruction *constant = without_broadcast(i->operands[1]);
        if (!hlo_is(constant, HLO_OP_CONSTANT)) return false;
        const HloLiteral *value = HLO_ATTRIBUTES(constant, Constant)->literal;
        if (!hlo_type_is_integer(value->shape->type) || !hlo_literal_is_splat(value)) return false;
        *offset = hlo_literal_get_int64(value, 0);
        i = i->operands[0];
    }
    return hlo_is(i, HLO_OP_IOTA) && HLO_ATTRIBUTES(i, Iota)->dimension == i->shape->rank - along;
}

// True if a predicate (of a matrix or a batch) is true exactly below the diagonal or further down.
static bool is_below_diagonal(const HloInstruction *predicate) {
    int64_t row, column;
    const HloInstruction *test = predicate;
    if (hlo_is(test, HLO_OP_BROADCAST)) {  // batch dimensions in front
        HloInts mapping = HLO_ATTRIBUTES(test, Dimensions)->dimensions;
        for (int64_t i = 0; i < mapping.count; i++)
            if (mapping.items[i] != test->shape->rank - mapping.count + i) return false;
        test = test->operands[0];
    }
    if (!hlo_is(test, HLO_OP_COMPARE) || test->shape->rank < 2) return false;
    if (!counts(test->operands[0], 2, &row) || !counts(test->operands[1], 1, &column)) return false;
    switch (HLO_ATTRIBUTES(test, Compare)->direction) {
        case HLO_ComparisonDirection_GE: return row - column <= -1;  // row + offset >= column
        case HLO_ComparisonDirection_GT: return row - column <= 0;
        default: return false;
    }
}

// True if a use of the packed factors sees only R: it chooses something else below the diagonal, or multiplies the
// reflectors as orgqr does.
static bool sees_only_r(const HloInstruction *use, const HloInstruction *value) {
    if (multiplies_reflectors(use)) return use->operands[0] == value && decomposition_multiplied(use);
    if (hlo_is(use, HLO_OP_SELECT))
        return use->operands[1] != value && use->operands[2] == value && is_below_diagonal(use->operands[0]);
    if (hlo_is(use, HLO_OP_TRIANGULAR_SOLVE)) {
        const HloTriangularSolveAttributes *a = HLO_ATTRIBUTES(use, TriangularSolve);
        return use->operands[1] != value && !a->lower && !a->unit_diagonal;
    }
    if (extent_source(use) != value || use->shape->rank < 2) return false;
    for (int64_t i = 0; i < use->users.count; i++)
        if (!sees_only_r(use->users.items[i], use)) return false;
    return use->parent->root != use;
}

// Refuses a decomposition whose reflectors are used otherwise.
static bool reflectors_are_hidden(HloJvp *j) {
    const HloInstruction *qr = j->old;
    for (int64_t i = 0; i < qr->users.count; i++) {
        const HloInstruction *element = qr->users.items[i];
        const bool packed = decomposition_of(element, 0), factors = decomposition_of(element, 1);
        bool hidden = packed || factors || hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT);
        for (int64_t k = 0; k < element->users.count && hidden && (packed || factors); k++) {
            const HloInstruction *use = element->users.items[k];
            hidden = packed
                         ? sees_only_r(use, element)
                         : multiplies_reflectors(use) && use->operands[1] == element && decomposition_multiplied(use);
        }
        if (hidden && (element->parent->root != element || !(packed || factors))) continue;
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s: there is no derivative of the Householder vectors of a QR decomposition, only of Q and R",
                     qr->name);
        return false;
    }
    return true;
}

// ---- tangents

// Q with `columns` columns, by the call that the program itself uses.
static HloInstruction *orthogonal_factor(HloJvp *j, HloInstruction *packed, HloInstruction *factors) {
    static const char LETTERS[] = {[HLO_F32] = 's', [HLO_F64] = 'd', [HLO_C64] = 'c', [HLO_C128] = 'z'};
    if (!packed || !factors) return NULL;
    const HloShape *shape = packed->shape;
    const char *target = "ProductOfElementaryHouseholderReflectors";
    if (!hlo_transform_calls(j->old, "Qr"))
        target = hlo_arena_format(j->scratch, "lapack_%c%s_ffi", LETTERS[shape->type],
                                  hlo_type_is_complex(shape->type) ? "ungqr" : "orgqr");
    return hlo_build_custom_call(j->b, target, (HloInstruction *[]){packed, factors}, 2, shape);
}

// The tangents of Q and R of a matrix with at least as many rows as columns: with X = A' R^-1 and S = Q^H X, let W be
// the skew part that the triangle of S below the diagonal determines; Q' = Q (W - S) + X and R' = (S - W) R.
static void thin_tangents(HloBuilder *b, HloInstruction *q, HloInstruction *r, HloInstruction *t, HloInstruction **dq,
                          HloInstruction **dr) {
    static const HloTriangularSolveAttributes by_r = {.transpose_a = HLO_Transpose_NO_TRANSPOSE};
    HloInstruction *x = hlo_build_triangular_solve(b, r, t, &by_r);
    HloInstruction *s = hlo_transform_product(b, hlo_transform_adjoint(b, q), x);
    HloInstruction *lower = hlo_transform_triangle(b, s, true, 0);
    HloInstruction *skew = hlo_build_sub(b, lower, hlo_transform_adjoint(b, lower));
    if (s && hlo_type_is_complex(s->shape->type)) {
        HloInstruction *imaginary = hlo_build_sub(b, s, hlo_build_convert(b, hlo_build_real(b, s), s->shape->type));
        imaginary = hlo_build_select(b, hlo_transform_on_diagonal(b, s), imaginary, hlo_build_splat_like(b, s, 0));
        skew = hlo_build_add(b, skew, imaginary);
    }
    HloInstruction *rest = hlo_build_sub(b, s, skew);
    *dq = hlo_build_sub(b, x, hlo_transform_product(b, q, rest));
    *dr = hlo_transform_product(b, rest, upper_triangle(b, r));
}

// The tangent of the columns of a square Q after those of the reduced one (arXiv 2409.13374). With the vectors V1 above
// V2, Z = V2 V1^-1: it is (Q' Z^H) - (Q + P Z) (Q2' - Z Q1')^H for the columns P.
static HloInstruction *complement_tangent(HloBuilder *b, HloInstruction *packed, HloInstruction *whole,
                                          HloInstruction *dq) {
    static const HloTriangularSolveAttributes by_unit = {
        .lower = true, .unit_diagonal = true, .transpose_a = HLO_Transpose_NO_TRANSPOSE};
    if (!packed || !whole || !dq) return NULL;
    const int64_t rank = packed->shape->rank, m = packed->shape->dims[rank - 2], n = packed->shape->dims[rank - 1];
    HloInstruction *z = hlo_build_triangular_solve(b, hlo_transform_block(b, packed, 0, n, 0, n),
                                                   hlo_transform_block(b, packed, n, m, 0, n), &by_unit);
    HloInstruction *q = hlo_transform_block(b, whole, 0, m, 0, n), *rest = hlo_transform_block(b, whole, 0, m, n, m);
    HloInstruction *inner = hlo_build_sub(b, hlo_transform_block(b, dq, n, m, 0, n),
                                          hlo_transform_product(b, z, hlo_transform_block(b, dq, 0, n, 0, n)));
    HloInstruction *left = hlo_build_add(b, q, hlo_transform_product(b, rest, z));
    return hlo_build_sub(b, hlo_transform_product(b, dq, hlo_transform_adjoint(b, z)),
                         hlo_transform_product(b, left, hlo_transform_adjoint(b, inner)));
}

// The columns of x in the order of LAPACK's pivots, which count from 1.
static HloInstruction *in_pivot_order(HloBuilder *b, HloInstruction *x, HloInstruction *pivots) {
    if (!x || !pivots) return NULL;
    HloInstruction *order = hlo_build_sub(b, pivots, hlo_build_splat_like(b, pivots, 1));
    return hlo_transform_take_along(b, x, hlo_transform_along(b, order, hlo_build_dims(x), true), x->shape->rank - 1);
}

void hlo_transform_qr(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *result = hlo_jvp_result(j), *t = hlo_jvp_tangent(j, 0), *a = hlo_jvp_operand(j, 0);
    if (!t || !result || !reflectors_are_hidden(j)) return;
    const bool pivoted = is_pivoted(j->old);
    HloInstruction *packed = hlo_build_get(b, result, 0), *factors = hlo_build_get(b, result, pivoted ? 2 : 1);
    if (pivoted) {
        HloInstruction *pivots = hlo_build_get(b, result, 1);
        t = in_pivot_order(b, t, pivots);
        a = in_pivot_order(b, a, pivots);
    }
    if (!packed || !factors) return;
    const int64_t rank = packed->shape->rank, m = packed->shape->dims[rank - 2], n = packed->shape->dims[rank - 1],
                  k = m < n ? m : n;
    HloInstruction *q = orthogonal_factor(j, k < n ? hlo_transform_block(b, packed, 0, m, 0, k) : packed, factors), *dq,
                   *dr;
    thin_tangents(b, q, hlo_transform_corner(b, packed, k, k), k < n ? hlo_transform_block(b, t, 0, m, 0, k) : t, &dq,
                  &dr);
    if (k < n) {
        HloInstruction *rest =
            hlo_transform_product(b, hlo_transform_adjoint(b, dq), hlo_transform_block(b, a, 0, m, k, n));
        rest = hlo_build_add(
            b, rest, hlo_transform_product(b, hlo_transform_adjoint(b, q), hlo_transform_block(b, t, 0, m, k, n)));
        dr = side_by_side(b, dr, rest);
    }
    out[0] = hlo_transform_widened(b, dr, m, n);
    if (dq) hlo_transform_store(j->scratch, &j->orthogonal, j->old, dq);
}

void hlo_transform_reflectors(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    const HloInstruction *qr = decomposition_multiplied(j->old);
    const int64_t *found = qr ? hlo_int_map_find(&j->orthogonal, (uint64_t)qr->id) : NULL;
    if (!found) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s: there is a derivative of a product of Householder reflectors only if a QR decomposition "
                     "makes them",
                     j->old->name);
        return;
    }
    HloInstruction *dq = (HloInstruction *)(intptr_t)*found, *whole = hlo_jvp_result(j);
    const int64_t rank = j->old->shape->rank;
    out[0] = dq;
    if (!whole || dq->shape->dims[rank - 1] == whole->shape->dims[rank - 1]) return;
    const HloInstruction *packed = j->old->operands[0];
    for (const HloInstruction *source; (source = extent_source(packed));) packed = source;
    out[0] = side_by_side(b, dq, complement_tangent(b, hlo_jvp_primal_of(j, packed), whole, dq));
}
