// SPDX-License-Identifier: Apache-2.0
// Eigenvalues: Jacobi rotations for Hermitian matrices; Hessenberg and Schur forms by shifted QR steps for all others.
//
// Matrices are n x n in row-major order, in double complex.
//
// Hermitian: rotations from both sides, A := J^H A J, each of which makes one pair of elements zero. They run over all
// pairs ("cyclic Jacobi") until the off-diagonal elements vanish, in practice 6 to 10 sweeps of O(n^3). Golub and Van
// Loan, "Matrix Computations", 8.5.
//
// Other matrices: A = Q H Q^H with reflections (H is zero below the first subdiagonal), then QR steps that move rows of
// H until it is triangular (complex), or has blocks of 2 x 2 for pairs of conjugate eigenvalues (real):
//
//     x x x x x        x x x x x
//     x x x x x        . x x x x       a step chases the bulge that a shift makes at the top down along the
//     . x x x x   ->   . . x x x       diagonal; converged subdiagonal elements split the matrix, and
//     . . x x x        . . x x x       the work goes on in the block [first, last] above
//     . . . x x        . . . . x
//
// The complex form takes single steps with Wilkinson's shift, the real one Francis's double steps, which take two
// conjugate shifts in one step and stay real (Golub and Van Loan 7.5). Eigenvectors are computed from the triangle by
// substitution and transformed back by Q.
//
// Vectors are unique up to a factor: hlo_eval_normalised_phase() picks one, so that results of different algorithms can
// be compared.
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "hlo/base/complex.h"
#include "hlo/eval/linear/matrices.h"

typedef HloEvalComplex Complex;

enum { MAXIMUM_SWEEPS = 60, MAXIMUM_STEPS = 60 };

static Complex times(Complex a, Complex b) {
    return hlo_complex_multiply(a, b);
}

// ---- Hermitian matrices

// The sum of the squares of the off-diagonal elements.
static double off_diagonal(const Complex *a, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++)
        sum += i / n == i % n ? 0 : creal(a[i]) * creal(a[i]) + cimag(a[i]) * cimag(a[i]);
    return sum;
}

void hlo_eval_turn_columns(Complex *a, int64_t rows, int64_t n, int64_t p, int64_t q, double c, double s, Complex e) {
    for (int64_t k = 0; k < rows; k++) {
        const Complex x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * times(conj(e), y);
        a[k * n + q] = s * times(e, x) + c * y;
    }
}

// Rotates the rows to match hlo_eval_turn_columns(): the adjoint rotation from the left.
static void turn_rows(Complex *a, int64_t n, int64_t p, int64_t q, double c, double s, Complex e) {
    for (int64_t k = 0; k < n; k++) {
        const Complex x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * times(e, y);
        a[q * n + k] = s * times(conj(e), x) + c * y;
    }
}

// Squares of elements beyond 2^511 are infinite and those of elements below 2^-538 zero: both would look like a matrix
// that is diagonal already. Scaling by a power of two is exact.
int hlo_eval_normalise(Complex *a, int64_t count) {
    double largest = 0;
    int exponent;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fmax(fabs(creal(a[i])), fabs(cimag(a[i]))));
    if (!isfinite(largest) || largest == 0) return 0;
    frexp(largest, &exponent);
    if (abs(exponent) < 256) return 0;
    for (int64_t i = 0; i < count; i++) a[i] = CMPLX(ldexp(creal(a[i]), -exponent), ldexp(cimag(a[i]), -exponent));
    return exponent;
}

// Applies rotations that each make one pair of elements zero, over all pairs, until the off-diagonal elements are below
// the rounding error of a double (1e-16, squared). Slow and accurate: right for an oracle.
static void jacobi(Complex *a, Complex *v, int64_t n) {
    assert(n >= 0);
    double total = off_diagonal(a, n);
    for (int64_t i = 0; i < n; i++) total += creal(a[i * n + i]) * creal(a[i * n + i]);
    for (int sweep = 0; sweep < MAXIMUM_SWEEPS && off_diagonal(a, n) > 1e-32 * total; sweep++) {
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                const double size = cabs(a[p * n + q]);
                if (size == 0) continue;
                const double d = (creal(a[q * n + q]) - creal(a[p * n + p])) / (2 * size);
                const double t = copysign(1.0, d) / (fabs(d) + sqrt(d * d + 1)), c = 1 / sqrt(t * t + 1);
                const Complex e = a[p * n + q] / size;
                hlo_eval_turn_columns(a, n, n, p, q, c, t * c, e);
                turn_rows(a, n, p, q, c, t * c, e);
                hlo_eval_turn_columns(v, n, n, p, q, c, t * c, e);
            }
        }
    }
}

// The factor of magnitude 1 that makes an element of x real and positive: the first whose magnitude is above 0.9 of the
// largest. So the position decides ties of magnitude, not rounding.
Complex hlo_eval_normalised_phase(const Complex *x, int64_t n, int64_t stride) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, cabs(x[i * stride]));
    for (int64_t i = 0; i < n; i++) {
        const double size = cabs(x[i * stride]);
        if (size > 0.9 * largest) return conj(x[i * stride]) / size;
    }
    return 1;
}

static void scale_column(Complex *a, int64_t n, int64_t j, Complex factor) {
    for (int64_t i = 0; i < n; i++) a[i * n + j] = times(a[i * n + j], factor);
}

// First the lower triangle is mirrored to the upper one. Values are sorted by selection, together with their
// eigenvectors.
void hlo_eval_diagonalise(Complex *a, Complex *v, double *values, int64_t n, bool sort) {
    assert(n >= 0);
    for (int64_t i = 0; i < n; i++) {
        a[i * n + i] = creal(a[i * n + i]);
        for (int64_t j = 0; j < i; j++) a[j * n + i] = conj(a[i * n + j]);
    }
    for (int64_t i = 0; i < n * n; i++) v[i] = i / n == i % n;
    const int exponent = hlo_eval_normalise(a, n * n);
    jacobi(a, v, n);
    for (int64_t i = 0; i < n; i++) values[i] = ldexp(creal(a[i * n + i]), exponent);
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n && sort; j++)
            if (values[j] < values[least]) least = j;
        const double held = values[i];
        values[i] = values[least];
        values[least] = held;
        for (int64_t k = 0; k < n && least != i; k++) {
            const Complex x = v[k * n + i];
            v[k * n + i] = v[k * n + least];
            v[k * n + least] = x;
        }
        scale_column(v, n, i, hlo_eval_normalised_phase(v + i, n, n));
    }
}

// Householder reflections from both sides keep the matrix Hermitian; each stores its vector below the diagonal, as in
// LAPACK's zhetrd.
void hlo_eval_tridiagonalise(Complex *a, int64_t n, double *d, double *e, Complex *taus, Complex *v) {
    assert(n >= 0);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) a[j * n + i] = conj(a[i * n + j]);
    for (int64_t k = 0; k < n; k++) {
        d[k] = creal(a[k * n + k]);
        if (k == n - 1) return;
        for (int64_t i = k + 1; i < n; i++) v[i] = a[i * n + k];
        taus[k] = hlo_eval_make_reflection(v, k + 1, n, &e[k]);
        hlo_eval_apply_reflection(a, n, n, false, k + 1, k + 1, n, v, conj(taus[k]));
        hlo_eval_apply_reflection(a, n, n, true, k + 1, k + 1, n, v, taus[k]);
        a[(k + 1) * n + k] = e[k];
        for (int64_t i = k + 2; i < n && taus[k] != 0; i++) a[i * n + k] = v[i];
    }
}

// ---- Hessenberg form

// Reflections from both sides make everything below the first subdiagonal zero; [low, high) are the rows that remain
// after balancing.
void hlo_eval_hessenberg(Complex *a, int64_t n, int64_t low, int64_t high, Complex *taus, Complex *v) {
    assert(n >= 0 && low >= 0 && high <= n);
    for (int64_t k = 0; k + 1 < n; k++) taus[k] = 0;
    for (int64_t k = low; k + 2 < high; k++) {
        double beta;
        for (int64_t i = k + 1; i < high; i++) v[i] = a[i * n + k];
        taus[k] = hlo_eval_make_reflection(v, k + 1, high, &beta);
        if (taus[k] == 0) continue;
        hlo_eval_apply_reflection(a, n, n, true, 0, k + 1, high, v, taus[k]);
        hlo_eval_apply_reflection(a, n, n, false, k + 1, k + 1, high, v, conj(taus[k]));
        a[(k + 1) * n + k] = beta;
        for (int64_t i = k + 2; i < high; i++) a[i * n + k] = v[i];
    }
}

// a := H, z := Q of A = Q H Q^H.
static void unpacked_hessenberg(Complex *a, Complex *z, int64_t n, Complex *taus, Complex *v) {
    hlo_eval_hessenberg(a, n, 0, n, taus, v);
    for (int64_t i = 0; i < n * n; i++) z[i] = i / n == i % n;
    for (int64_t k = n - 3; k >= 0; k--) {
        v[k + 1] = 1;
        for (int64_t i = k + 2; i < n; i++) {
            v[i] = a[i * n + k];
            a[i * n + k] = 0;
        }
        hlo_eval_apply_reflection(z, n, n, false, k + 1, k + 1, n, v, taus[k]);
    }
}

// Sets negligible elements below the diagonal to zero; returns the first row of the block that ends in row `last`. An
// element is negligible if it is below an ulp of its two neighbours on the diagonal.
static int64_t start_of_block(Complex *h, int64_t n, int64_t last) {
    assert(last >= 0 && last < n);
    for (int64_t i = last; i > 0; i--) {
        double around = cabs(h[i * n + i]) + cabs(h[(i - 1) * n + i - 1]);
        if (around == 0) around = 1;
        if (cabs(h[i * n + i - 1]) <= DBL_EPSILON * around) {
            h[i * n + i - 1] = 0;
            return i;
        }
    }
    return 0;
}

// ---- complex Schur form

// The eigenvalue of rows i and i + 1 that is nearer to the last element.
static Complex near_value(const Complex *h, int64_t n, int64_t i) {
    const Complex a = h[i * n + i], b = h[i * n + i + 1], c = h[(i + 1) * n + i], d = h[(i + 1) * n + i + 1];
    const Complex half = (a - d) / 2, root = csqrt(times(half, half) + times(b, c));
    const Complex x = d + half + root, y = d + half - root;
    return cabs(x - d) < cabs(y - d) ? x : y;
}

// Computes (x, y) := (c x + s y, -conj(s) x + c y) of two rows, or of two columns with the adjoint rotation.
static void plane_rows(Complex *a, int64_t n, int64_t row, int64_t from, double c, Complex s) {
    for (int64_t j = from; j < n; j++) {
        const Complex x = a[row * n + j], y = a[(row + 1) * n + j];
        a[row * n + j] = c * x + times(s, y);
        a[(row + 1) * n + j] = c * y - times(conj(s), x);
    }
}

static void plane_columns(Complex *a, int64_t n, int64_t column, int64_t to, double c, Complex s) {
    for (int64_t i = 0; i < to; i++) {
        const Complex x = a[i * n + column], y = a[i * n + column + 1];
        a[i * n + column] = c * x + times(conj(s), y);
        a[i * n + column + 1] = c * y - times(s, x);
    }
}

// The rotation that maps (x, y) to (r, 0).
static void plane_of(Complex x, Complex y, double *c, Complex *s) {
    const double size = hypot(cabs(x), cabs(y));
    *c = 1, *s = 0;
    if (size == 0 || y == 0) return;
    *c = cabs(x) / size;
    *s = x == 0 ? conj(y) / size : times(x / cabs(x), conj(y)) / size;
}

// Does one QR step with a shift on rows [first, last] of the Hessenberg matrix.
static void complex_step(Complex *h, Complex *z, int64_t n, int64_t first, int64_t last, Complex shift) {
    assert(first >= 0 && first <= last && last < n);
    Complex x = h[first * n + first] - shift, y = h[(first + 1) * n + first];
    for (int64_t k = first; k < last; k++) {
        double c;
        Complex s;
        if (k > first) x = h[k * n + k - 1], y = h[(k + 1) * n + k - 1];
        plane_of(x, y, &c, &s);
        plane_rows(h, n, k, k > first ? k - 1 : k, c, s);
        if (k > first) h[(k + 1) * n + k - 1] = 0;
        plane_columns(h, n, k, k + 3 <= last + 1 ? k + 3 : last + 1, c, s);
        plane_columns(z, n, k, n, c, s);
    }
}

// QR steps from the end: once the last subdiagonal element is negligible, one eigenvalue is found. The shift is the
// nearer eigenvalue of the last two rows (Wilkinson's). Every tenth step takes another one, since shifts could
// otherwise cycle forever.
bool hlo_eval_complex_schur(Complex *a, Complex *z, int64_t n, Complex *taus, Complex *v) {
    assert(n >= 0);
    unpacked_hessenberg(a, z, n, taus, v);
    int steps = 0;
    for (int64_t last = n - 1; last > 0;) {
        const int64_t first = start_of_block(a, n, last);
        if (first == last) {
            last--, steps = 0;
            continue;
        }
        if (steps++ == MAXIMUM_STEPS) return false;
        const bool stuck = steps % 10 == 0;
        const Complex shift = stuck ? a[last * n + last] + cabs(a[last * n + last - 1]) : near_value(a, n, last - 1);
        complex_step(a, z, n, first, last, shift);
    }
    return true;
}

// ---- real Schur form

// Transforms the block of rows i and i + 1 to its standard form: triangular for real eigenvalues, else with equal
// elements on the diagonal.
static void standardise(Complex *t, Complex *z, int64_t n, int64_t i) {
    assert(i >= 0 && i + 1 < n);
    const double a = creal(t[i * n + i]), b = creal(t[i * n + i + 1]);
    const double c = creal(t[(i + 1) * n + i]), d = creal(t[(i + 1) * n + i + 1]), half = (a - d) / 2;
    const double inside = half * half + b * c;
    double cosine = 1, sine = 0;
    if (inside >= 0) {
        const double root = half + copysign(sqrt(inside), half), size = hypot(c, root);
        if (size > 0) cosine = root / size, sine = c / size;
    } else if (half != 0) {
        const double sum = b + c, size = hypot(sum, 2 * half);
        cosine = sqrt(0.5 * (1 + fabs(sum) / size));
        sine = -(half / (size * cosine)) * copysign(1, sum);
    }
    plane_rows(t, n, i, i, cosine, sine);
    plane_columns(t, n, i, i + 2, cosine, sine);
    plane_columns(z, n, i, n, cosine, sine);
    if (inside >= 0)
        t[(i + 1) * n + i] = 0;
    else
        t[i * n + i] = t[(i + 1) * n + i + 1] = (creal(t[i * n + i]) + creal(t[(i + 1) * n + i + 1])) / 2;
}

// Does one double step (two shifts of given sum and product) on rows [first, last].
static void double_step(Complex *h, Complex *z, int64_t n, int64_t first, int64_t last, double sum, double product,
                        Complex *v) {
    assert(first >= 0 && first <= last && last < n);
    const double a = creal(h[first * n + first]), b = creal(h[first * n + first + 1]);
    const double c = creal(h[(first + 1) * n + first]), d = creal(h[(first + 1) * n + first + 1]);
    double beta, x = a * a + b * c - sum * a + product, y = c * (a + d - sum);
    double w = c * creal(h[(first + 2) * n + first + 1]);
    for (int64_t k = first; k < last; k++) {
        const int64_t end = k + 3 <= last + 1 ? k + 3 : last + 1;
        if (k > first) {
            x = creal(h[k * n + k - 1]);
            y = creal(h[(k + 1) * n + k - 1]);
            w = end - k == 3 ? creal(h[(k + 2) * n + k - 1]) : 0;
        }
        v[k] = x, v[k + 1] = y;
        if (end - k == 3) v[k + 2] = w;
        const Complex tau = hlo_eval_make_reflection(v, k, end, &beta);
        hlo_eval_apply_reflection(h, n, n, false, k > first ? k - 1 : first, k, end, v, tau);
        for (int64_t i = k + 1; i < end && k > first; i++) h[i * n + k - 1] = 0;
        hlo_eval_apply_reflection(h, end < last + 1 ? end + 1 : end, n, true, 0, k, end, v, tau);
        hlo_eval_apply_reflection(z, n, n, true, 0, k, end, v, tau);
    }
}

// As in the complex form, except that a block of two rows counts as done: it is a pair of conjugate eigenvalues, or
// standardise() makes it triangular. Every tenth step takes EISPACK's exceptional shifts. False if some value does not
// converge.
bool hlo_eval_real_schur(Complex *a, Complex *z, int64_t n, Complex *taus, Complex *v) {
    assert(n >= 0);
    unpacked_hessenberg(a, z, n, taus, v);
    int steps = 0;
    for (int64_t last = n - 1; last > 0;) {
        const int64_t first = start_of_block(a, n, last);
        if (first >= last - 1) {
            if (first == last - 1) standardise(a, z, n, first);
            last = first - 1, steps = 0;
            continue;
        }
        if (steps++ == MAXIMUM_STEPS) return false;
        const double p = creal(a[(last - 1) * n + last - 1]), q = creal(a[(last - 1) * n + last]);
        const double r = creal(a[last * n + last - 1]), s = creal(a[last * n + last]);
        const double odd = fabs(r) + fabs(creal(a[(last - 1) * n + last - 2]));
        const bool stuck = steps % 10 == 0;
        double_step(a, z, n, first, last, stuck ? 1.5 * odd : p + s, stuck ? odd * odd : p * s - q * r, v);
    }
    return true;
}

// ---- vectors

// Rotates each 2 x 2 block of a real form to a triangle, so that the eigenvalues are on the diagonal.
void hlo_eval_schur_to_complex(Complex *t, Complex *z, int64_t n) {
    for (int64_t i = 0; i + 1 < n; i++) {
        const Complex c = t[(i + 1) * n + i];
        if (c == 0) continue;
        const Complex half = (t[i * n + i] - t[(i + 1) * n + i + 1]) / 2;
        Complex root = csqrt(times(half, half) + times(t[i * n + i + 1], c));
        if (cimag(root) < 0) root = -root;
        double cosine;
        Complex sine;
        plane_of(half + root, c, &cosine, &sine);  // (value - d, c) is the block's eigenvector
        plane_rows(t, n, i, i, cosine, sine);
        plane_columns(t, n, i, i + 2, cosine, sine);
        plane_columns(z, n, i, n, cosine, sine);
        t[(i + 1) * n + i] = 0;
    }
}

// Computes the k-th eigenvector of the triangle itself; x[i] for all i. Right vectors solve (T - t_kk) x = 0 upwards
// from x[k] = 1, left ones T^H x = conj(t_kk) x downwards. If two values are equal, their difference becomes
// `smallest`, as in LAPACK's ztrevc: a matrix with too few vectors then gives two that are parallel except for
// rounding.
static void triangle_vector(const Complex *t, int64_t n, int64_t k, bool left, double smallest, Complex *x) {
    assert(k >= 0 && k < n);
    for (int64_t i = 0; i < n; i++) x[i] = i == k;
    for (int64_t step = 1; step < n; step++) {
        const int64_t i = left ? k + step : k - step;
        if (i < 0 || i >= n) return;
        Complex sum = 0, apart = t[i * n + i] - t[k * n + k];
        for (int64_t j = left ? k : i + 1; j < (left ? i : k + 1); j++)
            sum += left ? times(conj(t[j * n + i]), x[j]) : times(t[i * n + j], x[j]);
        if (cabs(apart) < smallest) apart = smallest;
        x[i] = -sum / (left ? conj(apart) : apart);
    }
}

void hlo_eval_schur_vectors(const Complex *t, const Complex *z, int64_t n, bool left, Complex *vectors, Complex *x) {
    assert(n >= 0);
    double largest = 0;
    for (int64_t i = 0; i < n * n; i++) largest = fmax(largest, cabs(t[i]));
    const double smallest = fmax(DBL_EPSILON * largest, DBL_MIN);
    for (int64_t k = 0; k < n; k++) {
        triangle_vector(t, n, k, left, smallest, x);
        double size = 0;
        for (int64_t i = 0; i < n; i++) {
            Complex sum = 0;
            for (int64_t j = 0; j < n; j++) sum += times(z[i * n + j], x[j]);
            vectors[i * n + k] = sum;
            size = hypot(size, cabs(sum));
        }
        scale_column(vectors, n, k, hlo_eval_normalised_phase(vectors + k, n, n) / size);
    }
}
