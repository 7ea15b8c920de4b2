// SPDX-License-Identifier: Apache-2.0
// Tangents of general systems: those solved by an LU decomposition, its diagonal, tridiagonal ones, and eigenvalues of
// matrices that are not Hermitian.
#include <complex.h>
#include <math.h>

#include "hlo/eval/known.h"
#include "hlo/transform/structure.h"

// ---- systems that are solved by an LU decomposition

enum { MOST_FACTORS = 32 };  // of the sizes of an array, and moves after each other

// A triangular solve of the program.
typedef struct Solution {
    HloTriangularSolveAttributes attributes;
    const HloInstruction *matrix;
    HloInstruction *right;  // the tangent of its right-hand side; NULL for zero
} Solution;

static bool is_nan(const HloInstruction *i) {
    while (hlo_is(i, HLO_OP_BROADCAST)) i = i->operands[0];
    if (!hlo_is(i, HLO_OP_CONSTANT) || hlo_shape_elements(i->shape) == 0) return false;
    const HloLiteral *literal = HLO_ATTRIBUTES(i, Constant)->literal;
    return hlo_transform_is_continuous(i->shape->type) && hlo_literal_is_splat(literal) &&
           isnan(creal(hlo_literal_get_complex(literal, 0)));
}

// The factors, of a choice between them and NaN where the decomposition failed.
static const HloInstruction *where_decomposed(const HloInstruction *matrix) {
    return hlo_is(matrix, HLO_OP_SELECT) && is_nan(matrix->operands[2]) ? matrix->operands[1] : matrix;
}

const HloFactorTangents *hlo_transform_factors(const HloJvp *j, const HloInstruction *matrix) {
    const HloFactorTangents *passed = hlo_transform_lookup(&j->factors, matrix);
    matrix = where_decomposed(matrix);
    if (!passed) passed = hlo_transform_lookup(&j->factors, matrix);
    if (passed) return passed;
    const bool first = hlo_is(matrix, HLO_OP_GET_TUPLE_ELEMENT) && HLO_ATTRIBUTES(matrix, TupleIndex)->index == 0;
    const HloFactorTangents *tangents = first ? hlo_transform_lookup(&j->factors, matrix->operands[0]) : NULL;
    const int64_t rank = matrix->shape->rank;
    return tangents && matrix->shape->dims[rank - 1] == matrix->shape->dims[rank - 2] ? tangents : NULL;
}

bool hlo_transform_returns_factors(const HloJvp *j, const HloComputation *computation, const bool *taken,
                                   int64_t leaf) {
    const HloInstruction *i = computation->root;
    for (;;) {
        const HloInstruction *before = i;
        if (hlo_is(i, HLO_OP_TUPLE)) {
            int32_t element = i->operand_count - 1;
            while (hlo_shape_first_leaf(i->shape, element) > leaf) element--;
            leaf -= hlo_shape_first_leaf(i->shape, element);
            i = i->operands[element];
        } else if (hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT)) {
            leaf += hlo_shape_first_leaf(i->operands[0]->shape, HLO_ATTRIBUTES(i, TupleIndex)->index);
            i = i->operands[0];
        } else if (hlo_jvp_is_inlined(j, i)) {
            i = i->called[0]->root;
        } else {
            i = where_decomposed(i);
        }
        if (i == before) break;
    }
    if (i == computation->parameters.items[0]) return taken && taken[leaf];
    if (leaf != 0 || (!hlo_transform_calls(i, "getrf_ffi") && !hlo_transform_calls(i, "LuDecomposition"))) return false;
    const HloShape *shape = i->shape->elements[0];
    return shape->dims[shape->rank - 1] == shape->dims[shape->rank - 2];
}

// True if `inner` and `outer` together are the inverse of L U, or of its transpose.
static bool are_both_factors(const HloTriangularSolveAttributes *inner, const HloTriangularSolveAttributes *outer) {
    const bool plain = outer->transpose_a == HLO_Transpose_NO_TRANSPOSE;
    return inner->left_side && outer->left_side && inner->transpose_a == outer->transpose_a && inner->lower == plain &&
           outer->lower != plain && inner->unit_diagonal == inner->lower && outer->unit_diagonal == outer->lower;
}

// Where the elements of an array come from: for each dimension some factors of its size, with their strides in the
// array that the elements come from.
typedef struct Places {
    int64_t sizes[MOST_FACTORS], strides[MOST_FACTORS], count;
    int64_t ends[HLO_MAXIMUM_RANK];  // of each dimension's factors
} Places;

static bool add_factor(Places *p, int64_t size, int64_t stride) {
    if (p->count == MOST_FACTORS) return false;
    p->sizes[p->count] = size;
    p->strides[p->count++] = stride;
    return true;
}

// Joins factors that lie one in another, deals them out to new dimensions, and splits them where sizes want that. False
// if a size does not divide.
static bool reshape_places(Places *p, HloInts dims) {
    Places from = {0};
    for (int64_t k = 0; k < p->count; k++) {
        const int64_t last = from.count - 1;
        if (last >= 0 && from.strides[last] == p->sizes[k] * p->strides[k]) {
            from.sizes[last] *= p->sizes[k];
            from.strides[last] = p->strides[k];
        } else {
            add_factor(&from, p->sizes[k], p->strides[k]);
        }
    }
    int64_t next = 0, size = from.count > 0 ? from.sizes[0] : 1;
    p->count = 0;
    for (int64_t d = 0; d < dims.count; d++) {
        for (int64_t rest = dims.items[d]; rest > 1;) {
            const int64_t own = size < rest ? size : rest;
            if (next == from.count || size % own != 0 || rest % own != 0) return false;
            size /= own;
            rest /= own;
            if (!add_factor(p, own, from.strides[next] * size)) return false;
            if (size == 1 && ++next < from.count) size = from.sizes[next];
        }
        p->ends[d] = p->count;
    }
    return next == from.count;
}

static void transpose_places(Places *p, HloInts order) {
    const Places from = *p;
    p->count = 0;
    for (int64_t d = 0; d < order.count; d++) {
        const int64_t old = order.items[d];
        for (int64_t k = old > 0 ? from.ends[old - 1] : 0; k < from.ends[old]; k++)
            add_factor(p, from.sizes[k], from.strides[k]);
        p->ends[d] = p->count;
    }
}

// What an array is that reshapes and transposes move back to where it was, as those of a mapped function do.
static const HloInstruction *unmoved(const HloInstruction *i) {
    const HloInstruction *moves[MOST_FACTORS];
    Places p = {0};
    int64_t count = 0, stride = 1;
    const HloInstruction *from = i;
    for (; hlo_is(from, HLO_OP_RESHAPE) || hlo_is(from, HLO_OP_TRANSPOSE); from = from->operands[0]) {
        if (count == MOST_FACTORS) return i;
        moves[count++] = from;
    }
    // One factor: the whole array.
    if (hlo_shape_elements(from->shape) < 2) return from;
    add_factor(&p, hlo_shape_elements(from->shape), 1);
    if (!reshape_places(&p, hlo_shape_dims(from->shape))) return i;
    while (count-- > 0) {
        if (hlo_is(moves[count], HLO_OP_TRANSPOSE))
            transpose_places(&p, HLO_ATTRIBUTES(moves[count], Dimensions)->dimensions);
        else if (!reshape_places(&p, hlo_shape_dims(moves[count]->shape)))
            return i;
    }
    for (int64_t k = p.count; k-- > 0; stride *= p.sizes[k])
        if (p.strides[k] != stride) return i;
    return from;
}

// With op the transpose that both solves name, op(L U) x = r: x' = op(L U)^-1 (r' - op(P A') x).
HloInstruction *hlo_transform_system_tangent(HloJvp *j, const HloTriangularSolveAttributes *attributes) {
    HloBuilder *b = j->b;
    HloInstruction *matrix = hlo_jvp_operand(j, 0), *x = hlo_jvp_result(j), *right = hlo_jvp_operand(j, 1);
    if (!matrix || !x || !right) return NULL;
    Solution own = {*attributes, matrix, hlo_jvp_tangent(j, 1)};
    const HloInstruction *inner = unmoved(right);
    hlo_transform_store(j->scratch, &j->solutions, x, hlo_arena_copy(j->scratch, &own, sizeof own));
    const Solution *first = hlo_transform_lookup(&j->solutions, inner);
    const HloFactorTangents *tangents = first && first->matrix == matrix ? hlo_transform_factors(j, matrix) : NULL;
    if (!tangents || !are_both_factors(&first->attributes, attributes) ||
        !hlo_shape_equal(inner->shape, x->shape, HLO_COMPARE_IGNORE_LAYOUT))
        return NULL;
    HloInstruction *product;
    if (attributes->transpose_a == HLO_Transpose_NO_TRANSPOSE) {
        // There are fewer right-hand sides than columns of the matrix as a rule.
        product = hlo_transform_product(b, tangents->matrix ? tangents->matrix : tangents->permuted, x);
        if (tangents->permutation) product = hlo_transform_take_rows(b, product, tangents->permutation);
    } else {
        HloInstruction *t = hlo_transform_transposed(b, tangents->permuted);
        if (attributes->transpose_a == HLO_Transpose_ADJOINT) t = hlo_transform_conjugate(b, t);
        product = hlo_transform_product(b, t, x);
    }
    HloInstruction *rest = hlo_transform_sum(b, first->right, hlo_build_negate(b, product));
    return hlo_build_triangular_solve(b, matrix, hlo_build_triangular_solve(b, matrix, rest, &first->attributes),
                                      attributes);
}

// True if a gather reads nothing of matrices, the last two dimensions of its operand, but their diagonal: both indices
// are known and equal.
static bool reads_diagonal(const HloJvp *j) {
    const HloGatherAttributes *g = HLO_ATTRIBUTES(j->old, Gather);
    const int64_t rank = j->old->operands[0]->shape->rank, map = g->start_index_map.count;
    int64_t row = -1, column = -1, stride = 1;
    for (int64_t i = 0; i < map; i++) {
        if (g->start_index_map.items[i] == rank - 2) row = i;
        if (g->start_index_map.items[i] == rank - 1) column = i;
    }
    if (row < 0 || column < 0 || g->slice_sizes.items[rank - 2] != 1 || g->slice_sizes.items[rank - 1] != 1)
        return false;
    const HloLiteral *indices = hlo_known_value(j->scratch, hlo_jvp_operand(j, 1), true);
    if (!indices) return false;
    // An index array has an element of each vector, `stride` elements apart.
    for (int64_t d = g->index_vector_dim + 1; d < indices->shape->rank; d++) stride *= indices->shape->dims[d];
    for (int64_t first = 0; first < hlo_shape_elements(indices->shape); first += stride * map)
        for (int64_t i = first; i < first + stride; i++)
            if (hlo_literal_get_int64(indices, i + row * stride) != hlo_literal_get_int64(indices, i + column * stride))
                return false;
    return true;
}

// On the diagonal, of which determinants are made, the tangent of L U's factors is that of U, and it has one term only:
// (L^-1 P A' U^-1)_ii U_ii.
HloInstruction *hlo_transform_pivots_tangent(HloJvp *j) {
    HloInstruction *matrix = hlo_jvp_operand(j, 0);
    const HloFactorTangents *tangents = matrix && matrix->shape->rank > 1 ? hlo_transform_factors(j, matrix) : NULL;
    return tangents && reads_diagonal(j) ? hlo_build_mul(j->b, tangents->solved, matrix) : NULL;
}

// ---- tridiagonal systems

static const HloShape *const *system_shapes(HloArena *scratch, const HloShape *diagonal, const HloShape *right) {
    const HloShape **shapes = HLO_ARENA_NEW(scratch, const HloShape *, 5);
    const int64_t batch = diagonal->rank - 1;
    for (int64_t i = 0; i < 3; i++) shapes[i] = diagonal;
    shapes[3] = right;
    shapes[4] = hlo_shape_array(scratch, HLO_S32, diagonal->dims, batch);
    return shapes;
}

// The solution of the system with these diagonals (lower, main, upper) by the call of the program.
static HloInstruction *solved(HloBuilder *b, HloArena *scratch, const char *target, HloInstruction *const *diagonals,
                              HloInstruction *right) {
    if (!diagonals[0] || !diagonals[1] || !diagonals[2] || !right) return NULL;
    const HloShape *shape = hlo_shape_tuple(scratch, system_shapes(scratch, diagonals[0]->shape, right->shape), 5);
    HloInstruction *operands[] = {diagonals[0], diagonals[1], diagonals[2], right};
    return hlo_build_get(b, hlo_build_custom_call(b, target, operands, 4, shape), 3);
}

// x with its elements along dimension d moved by one: y[i] = x[i + by], and 0 at the end that is free.
static HloInstruction *shifted(HloBuilder *b, HloInstruction *x, int64_t d, int64_t by) {
    int64_t low[HLO_MAXIMUM_RANK] = {0}, high[HLO_MAXIMUM_RANK] = {0};
    if (!x) return NULL;
    low[d] = -by;
    high[d] = by;
    return hlo_build_pad(b, x, hlo_build_scalar(b, x->shape->type, 0), (HloInts){low, x->shape->rank},
                         (HloInts){high, x->shape->rank}, HLO_DIMS());
}

// A diagonal times the rows of x.
static HloInstruction *scaled_rows(HloBuilder *b, HloInstruction *diagonal, HloInstruction *x) {
    return x ? hlo_build_mul(b, hlo_transform_along(b, diagonal, hlo_build_dims(x), false), x) : NULL;
}

// The transposed matrix has the upper diagonal, one further down, as its lower one, and conversely.
static void transpose_system(HloTransposer *t, const HloLinear *linear, HloInstruction *const *cotangents) {
    HloInstruction *diagonals[3];
    for (int64_t i = 0; i < 3; i++) diagonals[i] = hlo_transposer_residual(t, i);
    if (!diagonals[0] || !diagonals[2] || !cotangents[0]) return;
    const int64_t last = diagonals[0]->shape->rank - 1;
    HloInstruction *lower = shifted(t->b, diagonals[2], last, -1), *upper = shifted(t->b, diagonals[0], last, 1);
    hlo_transposer_give(
        t, 3,
        solved(t->b, t->scratch, linear->target, (HloInstruction *[]){lower, diagonals[1], upper}, cotangents[0]));
}

// T x = r: x' = T^-1 (r' - T' x).
void hlo_transform_tridiagonal(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_build_get(b, hlo_jvp_result(j), 3), *right = hlo_jvp_tangent(j, 3), *diagonals[3];
    const char *target = HLO_ATTRIBUTES(j->old, CustomCall)->target;
    if (!x) return;
    const int64_t rows = x->shape->rank - 2;
    for (int64_t i = 0; i < 3; i++) {
        HloInstruction *t = hlo_jvp_tangent(j, i);
        diagonals[i] = hlo_jvp_operand(j, i);
        if (!t) continue;
        HloInstruction *row = i == 1 ? x : shifted(b, x, rows, i - 1);
        right = hlo_transform_sum(b, right, hlo_build_negate(b, scaled_rows(b, t, row)));
    }
    if (!right) return;
    if (j->split) {
        HloLinear linear = {.transpose = transpose_system, .residual_count = 3, .tangent_count = 1, .target = target};
        HloInstruction *operands[] = {diagonals[0], diagonals[1], diagonals[2], right};
        hlo_jvp_placeholder(j, &linear, operands, (const HloShape *const[]){right->shape}, 1, &out[3]);
    } else {
        out[3] = solved(b, j->scratch, target, diagonals, right);
    }
}

// ---- eigenvalues

// a^-1 x, for complex matrices.
static HloInstruction *solution(HloJvp *j, HloInstruction *a, HloInstruction *x) {
    static const HloTriangularSolveAttributes by_lower = {.left_side = true,
                                                          .lower = true,
                                                          .unit_diagonal = true,
                                                          .transpose_a = HLO_Transpose_NO_TRANSPOSE},
                                              by_upper = {.left_side = true, .transpose_a = HLO_Transpose_NO_TRANSPOSE};
    HloBuilder *b = j->b;
    if (!a || !x) return NULL;
    const int64_t rank = a->shape->rank;
    const HloShape *rows = hlo_shape_array(j->scratch, HLO_S32, a->shape->dims, rank - 1);
    const HloShape *shape = hlo_shape_tuple(j->scratch, (const HloShape *const[]){a->shape, rows, rows}, 3);
    HloInstruction *result = hlo_build_custom_call(b, "LuDecomposition", &a, 1, shape);
    HloInstruction *lu = hlo_build_get(b, result, 0), *order = hlo_build_get(b, result, 2);
    x = hlo_transform_take_rows(b, x, order);
    return hlo_build_triangular_solve(b, lu, hlo_build_triangular_solve(b, lu, x, &by_lower), &by_upper);
}

// A V = V diag(w): w' is the diagonal of V^-1 A' V. The vectors are those of another call if this one computes none.
void hlo_transform_eigenvalues(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *operand = hlo_jvp_operand(j, 0);
    const int64_t values = j->old->shape->element_count == 5 ? 2 : 1;
    if (hlo_custom_call_option(j->old, "compute_left", 'N') == 'V' ||
        hlo_custom_call_option(j->old, "compute_right", 'N') == 'V') {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s: there is no derivative of the eigenvectors of a matrix that is not Hermitian, only of the "
                     "eigenvalues by themselves",
                     j->old->name);
        return;
    }
    HloInstruction *call =
        hlo_build_custom_call(b, HLO_ATTRIBUTES(j->old, CustomCall)->target, &operand, 1, j->old->shape);
    if (!call) return;
    call->backend_config = hlo_arena_text(hlo_builder_module(b)->arena, "{\"compute_left\":78,\"compute_right\":86}");
    call->backend_config_is_json = true;
    HloInstruction *v = hlo_build_get(b, call, values + 1);
    HloInstruction *d = hlo_build_mul(b, solution(j, v, hlo_transform_typed(b, t, v)), hlo_transform_transposed(b, v));
    if (!d) return;
    HloInstruction *w = hlo_build_reduce_op(b, HLO_OP_ADD, d, HLO_DIMS(d->shape->rank - 1));
    out[0] = values == 2 ? hlo_build_real(b, w) : w;
    if (values == 2) out[1] = hlo_build_imag(b, w);
}
