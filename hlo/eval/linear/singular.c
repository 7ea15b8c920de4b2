// SPDX-License-Identifier: Apache-2.0
// Singular values by one-sided Jacobi rotations, which compute even tiny ones to full relative precision.
//
// Rotations from the right, A := A J, make two columns orthogonal each. When all are, A V = U S: the lengths of the
// columns are the singular values, the normalised columns are U, and the product of the rotations is V. It is Jacobi's
// method for A^H A, which is never formed (Golub and Van Loan 8.6.3; Demmel and Veselic, "Jacobi's method is more
// accurate than QR", 1992). O(rows n^2) per sweep, about ten sweeps.
#include <assert.h>
#include <float.h>
#include <math.h>

#include "hlo/base/complex.h"
#include "hlo/eval/linear/matrices.h"

typedef HloEvalComplex Complex;

// Makes columns p and q orthogonal; true if they were not. Orthogonal means that the product is below rounding error
// relative to the lengths, however different these are.
static bool separate(Complex *a, Complex *v, int64_t rows, int64_t n, int64_t p, int64_t q) {
    assert(p < q && q < n);
    double alpha = 0, beta = 0;
    Complex overlap = 0;
    for (int64_t k = 0; k < rows; k++) {
        const Complex x = a[k * n + p], y = a[k * n + q];
        alpha += creal(hlo_complex_multiply(conj(x), x));
        beta += creal(hlo_complex_multiply(conj(y), y));
        overlap += hlo_complex_multiply(conj(x), y);
    }
    const double size = cabs(overlap);
    if (!(size > 4 * DBL_EPSILON * sqrt(alpha) * sqrt(beta))) return false;
    const double d = (beta - alpha) / (2 * size), t = copysign(1, d) / (fabs(d) + hypot(d, 1)), c = 1 / hypot(t, 1);
    hlo_eval_turn_columns(a, rows, n, p, q, c, t * c, overlap / size);
    hlo_eval_turn_columns(v, n, n, p, q, c, t * c, overlap / size);
    return true;
}

static void swap_columns(Complex *a, int64_t rows, int64_t n, int64_t i, int64_t j) {
    for (int64_t k = 0; k < rows; k++) {
        const Complex held = a[k * n + i];
        a[k * n + i] = a[k * n + j];
        a[k * n + j] = held;
    }
}

static void scale_column(Complex *a, int64_t rows, int64_t n, int64_t j, Complex factor) {
    for (int64_t k = 0; k < rows; k++) a[k * n + j] = hlo_complex_multiply(a[k * n + j], factor);
}

// One-sided Jacobi: pairs of columns are rotated until all are orthogonal. Their lengths are then the singular values,
// the normalised columns U, and the product of the rotations V. It ends after a sweep over all pairs that rotates
// nothing, usually after a handful. Small values keep their digits beside large ones, which is why the oracle uses this
// algorithm. Values are in descending order. The phase of each vector is arbitrary, so it is fixed
// (hlo_eval_normalised_phase()).
void hlo_eval_singular_values(Complex *a, Complex *v, double *values, int64_t rows, int64_t n) {
    assert(rows >= n && n >= 0);
    enum { MAXIMUM_SWEEPS = 60 };
    bool turned = true;
    const int exponent = hlo_eval_normalise(a, rows * n);
    for (int64_t i = 0; i < n * n; i++) v[i] = i / n == i % n;
    for (int sweep = 0; sweep < MAXIMUM_SWEEPS && turned; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) turned |= separate(a, v, rows, n, p, q);
    }
    for (int64_t j = 0; j < n; j++) {
        values[j] = 0;
        for (int64_t k = 0; k < rows; k++) values[j] = hypot(values[j], cabs(a[k * n + j]));
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++)
            if (values[j] > values[best]) best = j;
        const double held = values[i];
        values[i] = values[best];
        values[best] = held;
        if (best != i) swap_columns(a, rows, n, i, best), swap_columns(v, n, n, i, best);
        const Complex phase = hlo_eval_normalised_phase(a + i, rows, n);
        scale_column(a, rows, n, i, values[i] > 0 ? phase / values[i] : 0);
        scale_column(v, n, n, i, phase);
        values[i] = ldexp(values[i], exponent);
    }
}

// Takes the last columns of the Q of a QR decomposition of the given ones.
void hlo_eval_complete_basis(Complex *q, int64_t rows, int64_t want, int64_t have, Complex *work, Complex *taus,
                             Complex *v) {
    assert(have <= want && want <= rows);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < have; j++) work[i * have + j] = q[i * want + j];
    hlo_eval_factor_qr(work, rows, have, taus, v);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = have; j < want; j++) q[i * want + j] = i == j;
    for (int64_t k = have - 1; k >= 0; k--) {
        v[k] = 1;
        for (int64_t i = k + 1; i < rows; i++) v[i] = work[i * have + k];
        hlo_eval_apply_reflection(q, rows, want, false, have, k, rows, v, taus[k]);
    }
}
