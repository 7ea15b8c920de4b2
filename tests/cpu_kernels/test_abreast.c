// SPDX-License-Identifier: Apache-2.0
// Small matrices of a batch get the bits that each gets alone, whatever their number: also matrices without pivots,
// ones that are not definite, and ones with NaN and infinities.
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/dense/abreast.h"
#include "targets/cpu/dense/linalg.h"
#include "tests/support/levels.h"

static uint32_t state = 77;
static double unit_random(void) {
    state = state * 1664525 + 1013904223;
    return (double)(int32_t)state * 0x1p-31;
}

typedef struct Sizes {
    CpuPool *pool;
    HloType type;
    int64_t count, rows, columns;
} Sizes;

static void *new_array(const Sizes *s, int64_t elements) {
    void *array = hlo_allocate_aligned((size_t)(s->count * elements * hlo_type_bytes(s->type)) + 64);
    cr_assert_not_null(array);
    return array;
}

static void set(const Sizes *s, void *array, int64_t i, double value) {
    const CpuMatrix matrix = {.type = s->type};
    cpu_matrix_set(&matrix, array, i, value);
}

// Every fifth matrix has rows in which all is zero, and every seventh something that is not finite.
static void *new_matrices(const Sizes *s, double diagonal) {
    const int64_t size = s->rows * s->columns;
    void *array = new_array(s, size);
    for (int64_t i = 0; i < s->count * size; i++) {
        const int64_t index = i / size, row = i % size / s->columns, column = i % s->columns;
        double value = unit_random() + (row == column ? diagonal : 0);
        if (index % 5 == 3 && row >= s->rows / 2) value = 0;
        if (index % 7 == 5 && i % size == size / 3) value = index % 2 ? INFINITY : NAN;
        set(s, array, i, value);
    }
    return array;
}

// All bits are the same, or both numbers are NaN.
static bool same(const Sizes *s, int64_t count, const void *a, const void *b) {
    const CpuMatrix matrix = {.type = s->type};
    const int64_t width = hlo_type_bytes(s->type);
    for (int64_t i = 0; i < count; i++) {
        const bool nan = isnan(creal(cpu_matrix_get(&matrix, a, i))) && isnan(creal(cpu_matrix_get(&matrix, b, i)));
        if (!nan && memcmp((const char *)a + i * width, (const char *)b + i * width, (size_t)width) != 0) return false;
    }
    return true;
}

static const char *at(const Sizes *s, const void *array, int64_t i) {
    return (const char *)array + i * hlo_type_bytes(s->type);
}

static void check_lu(const Sizes *s) {
    const int64_t size = s->rows * s->columns, steps = s->columns;
    void *a = new_matrices(s, 0), *all = new_array(s, size), *one = new_array(s, size);
    int32_t *pivots = new_array(s, steps), *order = new_array(s, s->rows), *info = new_array(s, 1);
    int32_t pivot[CPU_ABREAST_ROWS], permutation[2 * CPU_ABREAST_ROWS], singular;
    cr_assert_null(cpu_lu(s->pool, s->type, s->count, s->rows, s->columns, all, pivots, order, info, a));
    for (int64_t i = 0; i < s->count; i++) {
        cr_assert_null(
            cpu_lu(s->pool, s->type, 1, s->rows, s->columns, one, pivot, permutation, &singular, at(s, a, i * size)));
        cr_assert(same(s, size, at(s, all, i * size), one), "matrix %lld of %lld of %lld x %lld", (long long)i,
                  (long long)s->count, (long long)s->rows, (long long)s->columns);
        cr_assert_arr_eq(pivots + i * steps, pivot, (size_t)steps * sizeof *pivot);
        cr_assert_arr_eq(order + i * s->rows, permutation, (size_t)s->rows * sizeof *permutation);
        cr_assert_eq(info[i], singular);
    }
    hlo_free(a), hlo_free(all), hlo_free(one), hlo_free(pivots), hlo_free(order), hlo_free(info);
}

static void check_cholesky(const Sizes *s, bool lower) {
    const int64_t size = s->rows * s->rows;
    void *a = new_matrices(s, (double)s->rows), *all = new_array(s, size), *one = new_array(s, size);
    cr_assert_null(cpu_cholesky(s->pool, s->type, s->count, s->rows, lower, all, a));
    for (int64_t i = 0; i < s->count; i++) {
        cr_assert_null(cpu_cholesky(s->pool, s->type, 1, s->rows, lower, one, at(s, a, i * size)));
        cr_assert(same(s, size, at(s, all, i * size), one), "matrix %lld of %lld of %lld", (long long)i,
                  (long long)s->count, (long long)s->rows);
    }
    hlo_free(a), hlo_free(all), hlo_free(one);
}

// Solves for s->columns sides in one of 16 forms.
static void check_solve(const Sizes *s, int form) {
    const bool left = form & 1, lower = form & 2, unit = form & 4;
    const CpuTranspose transpose = form & 8 ? CPU_TRANSPOSE : CPU_NO_TRANSPOSE;
    const int64_t n = s->rows, sides = s->columns, rows = left ? n : sides, columns = left ? sides : n;
    const Sizes triangles = {s->pool, s->type, s->count, n, n}, many = {s->pool, s->type, s->count, rows, columns};
    void *a = new_matrices(&triangles, 2), *b = new_matrices(&many, 0);
    void *all = new_array(s, n * sides), *one = new_array(s, n * sides);
    cr_assert_null(
        cpu_triangular_solve(s->pool, s->type, s->count, rows, columns, left, lower, unit, transpose, all, a, b));
    for (int64_t i = 0; i < s->count; i++) {
        cr_assert_null(cpu_triangular_solve(s->pool, s->type, 1, rows, columns, left, lower, unit, transpose, one,
                                            at(s, a, i * n * n), at(s, b, i * n * sides)));
        cr_assert(same(s, n * sides, at(s, all, i * n * sides), one), "system %lld of %lld of %lld, form %d",
                  (long long)i, (long long)s->count, (long long)n, form);
    }
    hlo_free(a), hlo_free(b), hlo_free(all), hlo_free(one);
}

static void check_qr(const Sizes *s) {
    const int64_t size = s->rows * s->columns, steps = s->rows < s->columns ? s->rows : s->columns;
    void *a = new_matrices(s, 0), *all = new_array(s, size), *one = new_array(s, size), *taus = new_array(s, steps),
         *tau = new_array(s, steps), *q = new_array(s, size), *one_q = new_array(s, size);
    const bool tall = s->rows >= s->columns;
    cr_assert_null(cpu_qr(s->pool, s->type, s->count, s->rows, s->columns, all, taus, a));
    if (tall)
        cr_assert_null(cpu_householder_product(s->pool, s->type, s->count, s->rows, s->columns, steps, q, all, taus));
    for (int64_t i = 0; i < s->count; i++) {
        cr_assert_null(cpu_qr(s->pool, s->type, 1, s->rows, s->columns, one, tau, at(s, a, i * size)));
        cr_assert(same(s, size, at(s, all, i * size), one) && same(s, steps, at(s, taus, i * steps), tau),
                  "matrix %lld of %lld of %lld x %lld", (long long)i, (long long)s->count, (long long)s->rows,
                  (long long)s->columns);
        if (!tall) continue;
        cr_assert_null(cpu_householder_product(s->pool, s->type, 1, s->rows, s->columns, steps, one_q, one, tau));
        cr_assert(same(s, size, at(s, q, i * size), one_q), "product %lld of %lld of %lld x %lld", (long long)i,
                  (long long)s->count, (long long)s->rows, (long long)s->columns);
    }
    hlo_free(a), hlo_free(all), hlo_free(one), hlo_free(taus), hlo_free(tau), hlo_free(q), hlo_free(one_q);
}

// With vectors and without, values are the same; they are NaN and `info` is set where a matrix is not finite.
static void check_eigh(const Sizes *s, bool lower) {
    const int64_t n = s->rows, size = n * n;
    void *a = new_matrices(s, 1), *all = new_array(s, size), *one = new_array(s, size), *values = new_array(s, n),
         *value = new_array(s, n), *alone = new_array(s, n);
    int32_t *info = new_array(s, 1), bad;
    cr_assert_null(cpu_eigh(s->pool, s->type, s->count, n, lower, true, all, values, info, a));
    cr_assert_null(cpu_eigh(s->pool, s->type, s->count, n, lower, true, NULL, alone, NULL, a));
    cr_assert(n > CPU_ABREAST_EIGEN || same(s, n * s->count, values, alone));
    for (int64_t i = 0; i < s->count; i++) {
        cr_assert_null(cpu_eigh(s->pool, s->type, 1, n, lower, true, one, value, &bad, at(s, a, i * size)));
        cr_assert(same(s, size, at(s, all, i * size), one) && same(s, n, at(s, values, i * n), value),
                  "matrix %lld of %lld of %lld", (long long)i, (long long)s->count, (long long)n);
        const CpuMatrix matrix = {.type = s->type};
        cr_assert_eq(bad, info[i]);
        cr_assert_eq(bad != 0, isnan(creal(cpu_matrix_get(&matrix, value, 0))));
    }
    hlo_free(a), hlo_free(all), hlo_free(one), hlo_free(values), hlo_free(value), hlo_free(alone), hlo_free(info);
}

static void check_qr_and_eigh(Sizes s, size_t i) {
    enum { kLargest = 17 };
    if (s.rows > kLargest) return;
    for (s.columns = s.rows; s.columns > 0; s.columns /= 2) check_qr(&s);
    s.columns = s.rows + 1;
    check_qr(&s);
    s.columns = s.rows;
    check_eigh(&s, i % 4 < 2);
}

// Sizes on both sides of the largest, and numbers of matrices that fill vectors and leave some.
Test(cpu_abreast, matrices_of_a_batch_have_the_bits_of_one, .timeout = 120) {
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33}, counts[] = {1, 2, 3, 8, 21, 67},
                         sides[] = {1, 3, 32};
    for (int set = levels_first(); set <= levels_last(); set++) {
        Sizes s = {.pool = NULL};
        cr_assert_null(cpu_pool_new_with(2, (CpuFeatures)set, &s.pool));
        cpu_pool_set_blas(s.pool, CPU_BLAS_BUILTIN);
        for (size_t i = 0; i < HLO_COUNT_OF(sizes) * HLO_COUNT_OF(counts) * 2; i++) {
            s.type = i % 2 ? HLO_F64 : HLO_F32;
            s.count = counts[i / 2 % HLO_COUNT_OF(counts)];
            s.rows = sizes[i / 2 / HLO_COUNT_OF(counts)];
            for (s.columns = s.rows; s.rows <= CPU_ABREAST_ROWS && s.columns > 0; s.columns /= 2) check_lu(&s);
            s.columns = s.rows;
            check_cholesky(&s, i % 4 < 2);
            check_qr_and_eigh(s, i);
            s.columns = sides[i % HLO_COUNT_OF(sides)];
            for (int form = (int)(i % 5); form < 16; form += 5) check_solve(&s, form);
        }
        cpu_pool_free(s.pool);
    }
}

// Reflects a vector by itself, as a matrix with one column, and below it zeros.
static void check_reflection(Sizes *s, const double *x, int64_t n) {
    enum { kLarge = CPU_ABREAST_QR + 1 };
    const CpuMatrix matrix = {.type = s->type};
    void *array = new_array(s, kLarge), *small = new_array(s, kLarge), *large = new_array(s, kLarge),
         *tau = new_array(s, 1), *large_tau = new_array(s, 1);
    for (int64_t i = 0; i < kLarge; i++) set(s, array, i, i < n ? x[i] : 0);
    cr_assert_null(cpu_qr(s->pool, s->type, 1, n, 1, small, tau, array));
    cr_assert_null(cpu_qr(s->pool, s->type, 1, kLarge, 1, large, large_tau, array));
    for (int64_t i = 0; i <= n; i++) {
        const double here = creal(i < n ? cpu_matrix_get(&matrix, small, i) : cpu_matrix_get(&matrix, tau, 0)),
                     there = creal(i < n ? cpu_matrix_get(&matrix, large, i) : cpu_matrix_get(&matrix, large_tau, 0));
        cr_assert(fabs(here - there) <= 1e-5 * fabs(there) + 2 * FLT_TRUE_MIN, "%g %g %g: element %d is %g and not %g",
                  x[0], x[1], x[2], (int)i, here, there);
        cr_assert(!here || signbit(here) == signbit(there));
    }
    hlo_free(array), hlo_free(small), hlo_free(large), hlo_free(tau), hlo_free(large_tau);
}

// The diagonal of R has the sign that is opposite to that of a first element of zero, and is reflected to if the others
// are faint, as in large matrices and in LAPACK.
Test(cpu_abreast, reflections_have_the_signs_of_large_matrices) {
    static const double numbers[] = {0, -0.0, 1, -3, 1e-30, -1e-30, 1e30, -1e37, 1e-44};
    enum { kNumbers = HLO_COUNT_OF(numbers) };
    for (int set = levels_first(); set <= levels_last(); set++) {
        Sizes s = {.pool = NULL, .count = 1};
        cr_assert_null(cpu_pool_new_with(1, set, &s.pool));
        for (int i = 0; i < 2 * kNumbers * kNumbers * kNumbers; i++) {
            const double x[] = {numbers[i / 2 % kNumbers], numbers[i / 2 / kNumbers % kNumbers],
                                numbers[i / 2 / kNumbers / kNumbers]};
            s.type = i % 2 ? HLO_F64 : HLO_F32;
            for (int64_t n = 1; n <= 3; n++) check_reflection(&s, x, n);
        }
        cpu_pool_free(s.pool);
    }
}
