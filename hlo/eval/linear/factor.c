// SPDX-License-Identifier: Apache-2.0
// Cholesky, LU and QR factors, and the reflections that other decompositions use. These are the textbook algorithms,
// unblocked and in place, O(n^3): Golub and Van Loan, "Matrix Computations", 4.2, 3.4 and 5.2. Signs, pivots and the
// form of reflections are those of LAPACK (zpotf2, zgetf2, zlarfg), so that results can be compared element by element.
//
// A reflection is H = I - tau v v^H with v[from] = 1. It maps its vector to beta e, where beta is real and has the sign
// opposite to that of the first element, so that nothing cancels.
#include <assert.h>
#include <math.h>

#include "hlo/base/complex.h"
#include "hlo/eval/linear/matrices.h"

typedef HloEvalComplex Complex;

// |re| + |im|, which LAPACK compares to choose pivots.
static double rough_size(Complex value) {
    return fabs(creal(value)) + fabs(cimag(value));
}

// Column by column; stops at the bad pivot and leaves the rest as it is.
int64_t hlo_eval_factor_cholesky(Complex *a, int64_t n) {
    assert(n >= 0);
    for (int64_t j = 0; j < n; j++) {
        double pivot = creal(a[j * n + j]);
        for (int64_t k = 0; k < j; k++) pivot -= creal(hlo_complex_multiply(a[j * n + k], conj(a[j * n + k])));
        if (!(pivot > 0)) return j + 1;
        const double root = sqrt(pivot);
        a[j * n + j] = root;
        for (int64_t i = j + 1; i < n; i++) {
            Complex sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++) sum -= hlo_complex_multiply(a[i * n + k], conj(a[j * n + k]));
            a[i * n + j] = CMPLX(creal(sum) / root, cimag(sum) / root);
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) a[i * n + j] = 0;
    return 0;
}

static void swap_rows(Complex *a, int64_t columns, int64_t i, int64_t j) {
    assert(i >= 0 && j >= 0 && columns >= 0);
    for (int64_t k = 0; k < columns; k++) {
        const Complex held = a[i * columns + k];
        a[i * columns + k] = a[j * columns + k];
        a[j * columns + k] = held;
    }
}

// A column without a pivot is skipped, and the others continue.
int64_t hlo_eval_factor_lu(Complex *a, int64_t rows, int64_t columns, int64_t *pivots) {
    assert(rows >= 0 && columns >= 0);
    int64_t singular = 0;
    for (int64_t k = 0; k < rows && k < columns; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < rows; i++)
            if (rough_size(a[i * columns + k]) > rough_size(a[best * columns + k])) best = i;
        pivots[k] = best;
        swap_rows(a, columns, k, best);
        if (a[k * columns + k] == 0) {
            if (!singular) singular = k + 1;
            continue;
        }
        for (int64_t i = k + 1; i < rows; i++) {
            const Complex factor = a[i * columns + k] /= a[k * columns + k];
            for (int64_t j = k + 1; j < columns; j++)
                a[i * columns + j] -= hlo_complex_multiply(factor, a[k * columns + j]);
        }
    }
    return singular;
}

// ---- reflections

// If there is nothing to reflect, tau is 0 and v is not scaled.
Complex hlo_eval_make_reflection(Complex *v, int64_t from, int64_t to, double *beta) {
    assert(from <= to);
    const Complex alpha = v[from];
    double below = 0;
    for (int64_t i = from + 1; i < to; i++) below = hypot(below, cabs(v[i]));
    *beta = creal(alpha);
    v[from] = 1;
    if (below == 0 && cimag(alpha) == 0) return 0;
    *beta = -copysign(hypot(cabs(alpha), below), creal(alpha));
    for (int64_t i = from + 1; i < to; i++) v[i] /= alpha - *beta;
    return CMPLX((*beta - creal(alpha)) / *beta, -cimag(alpha) / *beta);
}

void hlo_eval_apply_reflection(Complex *c, int64_t rows, int64_t columns, bool right, int64_t first, int64_t from,
                               int64_t to, const Complex *v, Complex tau) {
    assert(from <= to && first >= 0);
    if (tau == 0) return;
    for (int64_t j = first; j < (right ? rows : columns); j++) {
        Complex *line = right ? c + j * columns : c + j;
        const int64_t step = right ? 1 : columns;
        Complex sum = 0;
        for (int64_t i = from; i < to; i++) sum += hlo_complex_multiply(right ? v[i] : conj(v[i]), line[i * step]);
        sum = hlo_complex_multiply(tau, sum);
        for (int64_t i = from; i < to; i++) line[i * step] -= hlo_complex_multiply(right ? conj(v[i]) : v[i], sum);
    }
}

// Step k of a QR decomposition.
static void qr_step(Complex *a, int64_t rows, int64_t columns, int64_t k, Complex *taus, Complex *v) {
    assert(k >= 0 && k < columns);
    double beta;
    for (int64_t i = k; i < rows; i++) v[i] = a[i * columns + k];
    taus[k] = hlo_eval_make_reflection(v, k, rows, &beta);
    hlo_eval_apply_reflection(a, rows, columns, false, k + 1, k, rows, v, conj(taus[k]));
    a[k * columns + k] = beta;
    for (int64_t i = k + 1; i < rows && taus[k] != 0; i++) a[i * columns + k] = v[i];
}

void hlo_eval_factor_qr(Complex *a, int64_t rows, int64_t columns, Complex *taus, Complex *v) {
    for (int64_t k = 0; k < rows && k < columns; k++) qr_step(a, rows, columns, k, taus, v);
}

// The norm of a column from row `from` on, without overflow.
static double column_norm(const Complex *a, int64_t rows, int64_t columns, int64_t from, int64_t column) {
    double norm = 0;
    for (int64_t i = from; i < rows; i++) norm = hypot(norm, cabs(a[i * columns + column]));
    return norm;
}

// Selects the largest of the remaining columns next, but the first `fixed` keep their order; order[j] moves with column
// j. Norms are recomputed at each step, where LAPACK updates them.
void hlo_eval_factor_pivoted_qr(Complex *a, int64_t rows, int64_t columns, int64_t fixed, Complex *taus, int64_t *order,
                                Complex *v) {
    assert(fixed >= 0 && fixed <= columns);
    for (int64_t k = 0; k < rows && k < columns; k++) {
        int64_t best = k;
        double largest = column_norm(a, rows, columns, k, k);
        for (int64_t j = k + 1; j < columns && k >= fixed; j++) {
            const double norm = column_norm(a, rows, columns, k, j);
            if (norm > largest) best = j, largest = norm;
        }
        for (int64_t i = 0; i < rows && best != k; i++) {
            const Complex held = a[i * columns + k];
            a[i * columns + k] = a[i * columns + best];
            a[i * columns + best] = held;
        }
        const int64_t held = order[k];
        order[k] = order[best];
        order[best] = held;
        qr_step(a, rows, columns, k, taus, v);
    }
}
