// SPDX-License-Identifier: Apache-2.0
// cholesky and triangular-solve, in double complex, matrix by matrix. All forms are reduced to one. cholesky becomes
// that of the lower triangle, by the adjoint before and after. triangular-solve becomes a x = b, by transposing a and
// b, and is solved by substitution in O(n^2 m).
#include <assert.h>
#include <math.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"
#include "hlo/eval/linear/matrices.h"

typedef double _Complex Complex;

static void decode(HloType type, const char *data, int64_t first, int64_t count, Complex *out) {
    hlo_eval_decode_complex(type, data + first * hlo_type_bytes(type), count, out);
}

static void encode(HloType type, const Complex *values, int64_t count, char *data, int64_t first) {
    assert(count >= 0 && first >= 0);
    int64_t bytes = hlo_type_bytes(type);
    if (hlo_type_is_complex(type)) {
        hlo_eval_encode_complex(type, values, count, data + first * bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double real = creal(values[i]);
        hlo_eval_encode_double(type, &real, 1, data + (first + i) * bytes);
    }
}

// Factors the matrix given by its lower triangle. A matrix that is not positive definite becomes all NaN, without
// imaginary parts if complex (XLA's NaNs are real numbers that were converted).
static void factor(Complex *a, int64_t n) {
    if (!hlo_eval_factor_cholesky(a, n)) return;
    for (int64_t i = 0; i < n * n; i++) a[i] = CMPLX(NAN, 0);
}

// Computes the adjoint in place; without `conjugate` the transposed matrix.
static void adjoint(Complex *a, int64_t n, bool conjugate) {
    assert(n >= 0);
    for (int64_t i = 0; i < n; i++) {
        if (conjugate) a[i * n + i] = conj(a[i * n + i]);
        for (int64_t j = 0; j < i; j++) {
            Complex low = a[i * n + j], high = a[j * n + i];
            a[i * n + j] = conjugate ? conj(high) : high;
            a[j * n + i] = conjugate ? conj(low) : low;
        }
    }
}

HloStatus hlo_eval_cholesky(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                            HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_CHOLESKY));
    const HloShape *shape = instruction->shape;
    HLO_TRY(hlo_eval_new(device, shape, result));
    int64_t n = shape->dims[shape->rank - 1], count = hlo_shape_elements(shape);
    bool lower = HLO_ATTRIBUTES(instruction, Cholesky)->lower;
    if (count == 0) return HLO_SUCCESS;
    Complex *a = HLO_EVAL_SCRATCH(device, Complex, n * n);
    for (int64_t first = 0; first < count; first += n * n) {
        decode(shape->type, operands[0]->data, first, n * n, a);
        if (!lower) adjoint(a, n, true);
        factor(a, n);
        if (!lower) adjoint(a, n, true);
        encode(shape->type, a, n * n, (*result)->data, first);
    }
    return HLO_SUCCESS;
}

// Solves a x = b for x in place of b (n x m, columns apart by 1), where a is triangular.
static void substitute(const Complex *a, Complex *b, int64_t n, int64_t m, bool lower, bool unit) {
    assert(n >= 0 && m >= 0);
    for (int64_t step = 0; step < n; step++) {
        int64_t i = lower ? step : n - 1 - step;
        int64_t from = lower ? 0 : i + 1, to = lower ? i : n;
        for (int64_t column = 0; column < m; column++) {
            Complex sum = b[i * m + column];
            for (int64_t k = from; k < to; k++) sum -= hlo_complex_multiply(a[i * n + k], b[k * m + column]);
            b[i * m + column] = unit ? sum : sum / a[i * n + i];
        }
    }
}

static void transpose(const Complex *from, Complex *to, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
    }
}

// Solves in double complex, by substitution. A transposed or adjoint matrix is transposed first, which exchanges lower
// and upper; a system from the right is that of the transposes.
HloStatus hlo_eval_triangular_solve(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                    HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_TRIANGULAR_SOLVE));
    const HloTriangularSolveAttributes *solve = HLO_ATTRIBUTES(instruction, TriangularSolve);
    const HloShape *shape = instruction->shape;
    HLO_TRY(hlo_eval_new(device, shape, result));
    int64_t rows = shape->dims[shape->rank - 2], columns = shape->dims[shape->rank - 1];
    int64_t n = solve->left_side ? rows : columns, m = solve->left_side ? columns : rows;
    int64_t count = hlo_shape_elements(shape);
    if (count == 0) return HLO_SUCCESS;
    Complex *a = HLO_EVAL_SCRATCH(device, Complex, n * n), *b = HLO_EVAL_SCRATCH(device, Complex, n * m);
    Complex *turned = HLO_EVAL_SCRATCH(device, Complex, n * m);
    bool flip = solve->transpose_a == HLO_Transpose_TRANSPOSE || solve->transpose_a == HLO_Transpose_ADJOINT;
    for (int64_t batch = 0; batch < count / (n * m); batch++) {
        decode(shape->type, operands[0]->data, batch * n * n, n * n, a);
        decode(shape->type, operands[1]->data, batch * n * m, n * m, b);
        bool lower = solve->lower != flip;
        if (flip) adjoint(a, n, solve->transpose_a == HLO_Transpose_ADJOINT);
        if (solve->left_side) {
            substitute(a, b, n, m, lower, solve->unit_diagonal);
        } else {
            // x a = b is a^T x^T = b^T
            transpose(b, turned, m, n);
            adjoint(a, n, false);
            substitute(a, turned, n, m, !lower, solve->unit_diagonal);
            transpose(turned, b, n, m);
        }
        encode(shape->type, b, n * m, (*result)->data, batch * n * m);
    }
    return HLO_SUCCESS;
}
