// SPDX-License-Identifier: Apache-2.0
// LU, QR and eigenvalues: factors multiply back, over all types, shapes around the panels' boundaries, and batches; the
// bits do not depend on the number of workers.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matrix.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

typedef double _Complex Complex;

typedef struct Case {
    HloType type;
    int64_t batch, rows, columns;
    CpuFeatures features;
    CpuBlasChoice blas;
} Case;

// Our own kernels at each instruction set, and OpenBLAS at the highest one, if it is installed.
static Case *all_cases(const int64_t (*sizes)[3], size_t count, size_t *total) {
    static const HloType types[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};
    Case *cases = cr_malloc(sizeof(Case) * 4 * (CPU_FEATURES_COUNT + 1) * count);
    const bool has_blas = levels_have_blas();
    *total = 0;
    for (size_t s = 0; s < count && has_blas; s++)
        for (size_t t = 0; t < 4; t++)
            cases[(*total)++] =
                (Case){types[t], sizes[s][0], sizes[s][1], sizes[s][2], (CpuFeatures)levels_last(), CPU_BLAS_OPENBLAS};
    for (size_t s = 0; s < count; s++)
        for (size_t t = 0; t < 4; t++)
            for (int set = levels_first(); set <= levels_last(); set++)
                cases[(*total)++] =
                    (Case){types[t], sizes[s][0], sizes[s][1], sizes[s][2], (CpuFeatures)set, CPU_BLAS_BUILTIN};
    return cases;
}

static Complex get(HloType type, const void *a, int64_t i) {
    const CpuMatrix matrix = {.type = type};
    return cpu_matrix_get(&matrix, a, i);
}

// All elements at once, where a reference reads each of them many times.
static Complex *decoded(HloType type, const void *array, int64_t count) {
    Complex *values = hlo_allocate((size_t)count * sizeof *values);
    cr_assert_not_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = get(type, array, i);
    return values;
}

static double *reals(HloType type, const void *array, int64_t count) {
    double *values = hlo_allocate((size_t)count * sizeof *values);
    cr_assert_not_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = creal(get(type, array, i));
    return values;
}

static void *new_array(const Case *c, int64_t count) {
    void *array = hlo_allocate_aligned((size_t)(count * hlo_type_bytes(c->type)) + 64);
    cr_assert_not_null(array);
    return array;
}

static void *new_random(const Case *c, int64_t count) {
    const CpuMatrix matrix = {.type = c->type};
    uint32_t state = 12345;
    void *array = new_array(c, count);
    for (int64_t i = 0; i < count; i++) {
        double part[2];
        for (int p = 0; p < 2; p++) {
            state = state * 1664525 + 1013904223;
            part[p] = (double)(int32_t)state * 0x1p-31;
        }
        cpu_matrix_set(&matrix, array, i, CMPLX(part[0], part[1]));
    }
    return array;
}

static double tolerance(const Case *c) {
    const double size = (double)(c->rows + c->columns);
    return size * (c->type == HLO_F64 || c->type == HLO_C128 ? 1e-15 : 6e-7);
}

// Runs `decompose` on one worker and on three, into arrays[] of `bytes` each, and compares all bits.
typedef HloStatus Decompose(CpuPool *pool, const Case *c, const void *in, void **arrays);
static void run(const Case *c, Decompose *decompose, const void *in, void **arrays, const size_t *bytes, int count) {
    void *again[3] = {0};
    for (int workers = 1; workers < 4; workers += 2) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(workers, c->features, &pool));
        cpu_pool_set_blas(pool, c->blas);
        for (int i = 0; i < count; i++) again[i] = workers == 1 ? arrays[i] : hlo_allocate_aligned(bytes[i] + 64);
        cr_assert_null(decompose(pool, c, in, again));
        cpu_pool_free(pool);
    }
    for (int i = 0; i < count; i++) {
        cr_expect(memcmp(arrays[i], again[i], bytes[i]) == 0, "array %d has other bits on three workers", i);
        hlo_free(again[i]);
    }
}

static const int64_t rectangles[][3] = {{1, 1, 1},   {3, 5, 5},    {2, 7, 3},    {2, 3, 7},
                                        {1, 32, 33}, {1, 100, 70}, {1, 70, 200}, {1, 300, 257}};

// ---- LU

static HloStatus decompose_lu(CpuPool *pool, const Case *c, const void *in, void **arrays) {
    return cpu_lu(pool, c->type, c->batch, c->rows, c->columns, arrays[0], arrays[1], arrays[2], NULL, in);
}

CaseList(decompositions, lu) {
    size_t count;
    Case *cases = all_cases(rectangles, HLO_COUNT_OF(rectangles), &count);
    return cr_make_param_array(Case, cases, count);
}

CaseTest(Case *c, decompositions, lu) {
    const int64_t m = c->rows, n = c->columns, k = m < n ? m : n, width = hlo_type_bytes(c->type);
    void *a = new_random(c, c->batch * m * n), *f = new_array(c, c->batch * m * n);
    int32_t *pivots = new_array(c, c->batch * k), *order = new_array(c, c->batch * m);
    const size_t bytes[] = {(size_t)(c->batch * m * n * width), (size_t)(4 * c->batch * k), (size_t)(4 * c->batch * m)};
    run(c, decompose_lu, a, (void *[]){f, pivots, order}, bytes, 3);
    double worst = 0;
    Complex *factors = decoded(c->type, f, c->batch * m * n);
    for (int64_t i = 0; i < c->batch * m * n; i++) {
        const int64_t base = i / (m * n) * m * n, row = i / n % m, column = i % n;
        Complex sum = 0;
        if (column < row && column < k) cr_assert(cabs(factors[i]) < 1.5, "a pivot was not the largest");
        for (int64_t j = 0; j < k && j <= row && j <= column; j++)
            sum += hlo_complex_multiply(j == row ? 1 : factors[base + row * n + j], factors[base + j * n + column]);
        const int32_t from = order[i / (m * n) * m + row];
        worst = fmax(worst, cabs(sum - get(c->type, a, base + from * n + column)));
    }
    cr_expect(worst < tolerance(c), "error %g", worst);
    hlo_free(a), hlo_free(f), hlo_free(pivots), hlo_free(order), hlo_free(factors);
}

Test(decompositions, lu_of_a_singular_matrix) {
    const float a[9] = {1, 2, 3, 2, 4, 6, 1, 1, 1};
    float f[9];
    int32_t pivots[3], info = 0;
    cr_assert_null(cpu_lu(NULL, HLO_F32, 1, 3, 3, f, pivots, NULL, &info, a));
    cr_expect_eq(info, 3);
    cr_expect_eq(f[8], 0);
}

// ---- QR

static HloStatus decompose_qr(CpuPool *pool, const Case *c, const void *in, void **arrays) {
    const int64_t k = c->rows < c->columns ? c->rows : c->columns;
    HLO_TRY(cpu_qr(pool, c->type, c->batch, c->rows, c->columns, arrays[0], arrays[1], in));
    if (c->columns > c->rows) return HLO_SUCCESS;
    return cpu_householder_product(pool, c->type, c->batch, c->rows, c->columns, k, arrays[2], arrays[0], arrays[1]);
}

CaseList(decompositions, qr) {
    size_t count;
    Case *cases = all_cases(rectangles, HLO_COUNT_OF(rectangles), &count);
    return cr_make_param_array(Case, cases, count);
}

// For a wide matrix, R^H R = A^H A is checked instead of Q R = A.
CaseTest(Case *c, decompositions, qr) {
    const int64_t m = c->rows, n = c->columns, k = m < n ? m : n, all = c->batch * m * n;
    const size_t width = (size_t)hlo_type_bytes(c->type);
    void *a = new_random(c, all), *f = new_array(c, all), *taus = new_array(c, c->batch * k), *q = new_array(c, all);
    const size_t bytes[] = {(size_t)all * width, (size_t)(c->batch * k) * width, (size_t)all * width};
    run(c, decompose_qr, a, (void *[]){f, taus, q}, bytes, m >= n ? 3 : 2);
    double worst = 0;
    Complex *whole = decoded(c->type, a, all), *factors = decoded(c->type, f, all), *unitary = decoded(c->type, q, all);
    for (int64_t i = 0; i < c->batch * m * n && m >= n; i++) {
        const int64_t base = i / (m * n) * m * n, row = i / n % m, column = i % n;
        Complex sum = 0;
        for (int64_t j = 0; j <= column; j++)
            sum += hlo_complex_multiply(unitary[base + row * n + j], factors[base + j * n + column]);
        worst = fmax(worst, cabs(sum - whole[i]));
    }
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j += 3) {
                const int64_t base = b * m * n;
                Complex got = 0, want = m >= n && i == j;
                for (int64_t r = 0; r < m && m >= n; r++)
                    got += hlo_complex_multiply(conj(unitary[base + r * n + i]), unitary[base + r * n + j]);
                for (int64_t r = 0; r < m && m < n; r++) {
                    want += hlo_complex_multiply(conj(whole[base + r * n + i]), whole[base + r * n + j]);
                    if (r <= i && r <= j)
                        got += hlo_complex_multiply(conj(factors[base + r * n + i]), factors[base + r * n + j]);
                }
                worst = fmax(worst, cabs(got - want) / (m < n ? (double)m : 1));
            }
    cr_expect(worst < tolerance(c), "error %g", worst);
    hlo_free(a), hlo_free(f), hlo_free(taus), hlo_free(q);
    hlo_free(whole), hlo_free(factors), hlo_free(unitary);
}

// ---- eigenvalues

static HloStatus decompose_eigh(CpuPool *pool, const Case *c, const void *in, void **arrays) {
    return cpu_eigh(pool, c->type, c->batch, c->rows, c->rows % 2 == 0, true, arrays[0], arrays[1], NULL, in);
}

CaseList(decompositions, eigh) {
    static const int64_t squares[][3] = {{1, 1, 1}, {3, 2, 2}, {2, 9, 9}, {1, 34, 34}, {1, 129, 129}, {1, 200, 200}};
    size_t count;
    Case *cases = all_cases(squares, HLO_COUNT_OF(squares), &count);
    return cr_make_param_array(Case, cases, count);
}

// Only the triangle that is named (lower for even sizes) may be read.
CaseTest(Case *c, decompositions, eigh) {
    const int64_t n = c->rows, all = c->batch * n * n;
    const HloType real = hlo_type_real_part(c->type);
    void *a = new_random(c, all), *v = new_array(c, all), *w = new_array(c, c->batch * n);
    const size_t bytes[] = {(size_t)(all * hlo_type_bytes(c->type)), (size_t)(c->batch * n * hlo_type_bytes(real))};
    run(c, decompose_eigh, a, (void *[]){v, w}, bytes, 2);
    double worst = 0;
    Complex *whole = decoded(c->type, a, all), *vectors = decoded(c->type, v, all);
    for (int64_t i = 0; i<all; i += n> 100 ? 3 : 1) {
        const int64_t b = i / (n * n), base = b * n * n, row = i / n % n, column = i % n;
        Complex sum = 0, overlap = 0;
        for (int64_t j = 0; j < n; j++) {
            const bool here = n % 2 == 0 ? row >= j : row <= j;
            Complex h = here ? whole[base + row * n + j] : conj(whole[base + j * n + row]);
            if (row == j) h = creal(h);
            sum += hlo_complex_multiply(h, vectors[base + j * n + column]);
            overlap += hlo_complex_multiply(conj(vectors[base + j * n + row]), vectors[base + j * n + column]);
        }
        sum -= creal(get(real, w, b * n + column)) * vectors[i];
        worst = fmax(worst, fmax(cabs(sum) / sqrt((double)n), cabs(overlap - (row == column))));
        if (column > 0) cr_assert(creal(get(real, w, b * n + column)) >= creal(get(real, w, b * n + column - 1)));
    }
    cr_expect(worst < tolerance(c), "error %g", worst);
    hlo_free(a), hlo_free(v), hlo_free(w), hlo_free(whole), hlo_free(vectors);
}

Test(decompositions, eigh_of_extreme_sizes_and_nan) {
    for (int exponent = -126; exponent <= 126; exponent += 63) {
        const float a[4] = {ldexpf(2, exponent), ldexpf(1, exponent), ldexpf(1, exponent), ldexpf(2, exponent)};
        float v[4], w[2];
        cr_assert_null(cpu_eigh(NULL, HLO_F32, 1, 2, true, true, v, w, NULL, a));
        cr_expect_float_eq(w[0] / ldexpf(1, exponent), 1, 1e-6);
        cr_expect_float_eq(w[1] / ldexpf(3, exponent), 1, 1e-6);
    }
    const float bad[4] = {1, 0, NAN, 1};
    float v[4], w[2];
    int32_t info;
    cr_assert_null(cpu_eigh(NULL, HLO_F32, 1, 2, true, true, v, w, &info, bad));
    cr_expect(isnan(w[0]) && isnan(w[1]) && isnan(v[3]));
    cr_expect_eq(info, 1);
}

// JAX pads the blocks of large matrices with zeros and cuts the results off again: nothing may leave its block.
Test(decompositions, eigh_unsorted_keeps_padding_in_place) {
    enum { kSize = 40, kBlock = 25 };
    const Case c = {HLO_F64, 1, kSize, kSize, CPU_FEATURES_BASELINE, CPU_BLAS_BUILTIN};
    double *a = new_random(&c, kSize * kSize), v[kSize * kSize], w[kSize];
    for (int i = 0; i < kSize * kSize; i++)
        if (i / kSize >= kBlock || i % kSize >= kBlock) a[i] = 0;
    cr_assert_null(cpu_eigh(NULL, HLO_F64, 1, kSize, true, false, v, w, NULL, a));
    for (int i = 0; i < kSize; i++) {
        cr_expect((w[i] == 0) == (i >= kBlock));
        for (int j = 0; j < kSize; j++)
            if ((i >= kBlock) != (j >= kBlock)) cr_expect_eq(v[i * kSize + j], 0);
    }
    hlo_free(a);
}

// ---- halves

// Matrices whose eigenvalues coincide, nearly coincide, or differ by many orders: what a solver by halves leaves out,
// turns away or must keep apart.
static double hard_element(int kind, int64_t n, int64_t i, int64_t j) {
    const double distance = fabs((double)(i - j));
    switch (kind) {
        case 0: return 0;
        case 1: return i == j ? 3 : 0;
        case 2: return 1;                                                                      // rank one
        case 3: return distance == 0 ? 2 : distance == 1 ? -1 : 0;                             // a string
        case 4: return distance == 0 ? fabs((double)i - (double)(n - 1) / 2) : distance == 1;  // Wilkinson's: pairs
        case 5: return i / 7 == j / 7 ? 1 + distance : 0;                                      // equal blocks
        case 6: return distance == 0 ? ldexp(1, (int)(-i % 40)) : distance == 1 ? ldexp(1, (int)(-(i + j) % 60)) : 0;
        case 7: return distance == 0 ? (double)(i % 3) : distance == 1 ? 1e-9 : 0;  // three clusters
        case 8: return distance == 0 ? 1 : distance == 1 && (i + j) / 2 % 20 == 0 ? 1e-3 : 0;
        default: return cos((double)(i * j));
    }
}
enum { kHardCount = 10 };

typedef struct HardCase {
    int kind;
    HloType type;
    int64_t n;
} HardCase;

CaseList(decompositions, eigh_of_hard_matrices) {
    static const int64_t sizes[] = {2, 3, 5, 8, 49, 50, 97, 130, 211};
    HardCase *cases = cr_malloc(sizeof(HardCase) * kHardCount * 2 * HLO_COUNT_OF(sizes));
    size_t count = 0;
    for (int kind = 0; kind < kHardCount; kind++)
        for (size_t s = 0; s < HLO_COUNT_OF(sizes); s++)
            for (int wide = 0; wide < 2; wide++) cases[count++] = (HardCase){kind, wide ? HLO_F64 : HLO_F32, sizes[s]};
    return cr_make_param_array(HardCase, cases, count);
}

// Vectors are orthogonal and solve, values ascend, and two workers give the bits of one.
CaseTest(HardCase *c, decompositions, eigh_of_hard_matrices) {
    const int64_t n = c->n, all = n * n;
    const Case as = {c->type, 1, n, n, CPU_FEATURES_BASELINE, CPU_BLAS_BUILTIN};
    void *a = new_array(&as, all), *v = new_array(&as, all), *w = new_array(&as, n), *again = new_array(&as, all);
    for (int64_t i = 0; i < all; i++) {
        const double value = hard_element(c->kind, n, i / n, i % n) + hard_element(c->kind, n, i % n, i / n);
        if (c->type == HLO_F64)
            ((double *)a)[i] = value;
        else
            ((float *)a)[i] = (float)value;
    }
    for (int workers = 2; workers >= 1; workers--) {
        CpuPool *pool;
        cr_assert_null(cpu_pool_new_with(workers, cpu_pool_features(NULL), &pool));
        cr_assert_null(cpu_eigh(pool, c->type, 1, n, true, true, workers == 2 ? again : v, w, NULL, a));
        cpu_pool_free(pool);
    }
    cr_expect_eq(memcmp(v, again, (size_t)(all * hlo_type_bytes(c->type))), 0);
    double worst = 0, largest = 1;
    double *whole = reals(c->type, a, all), *vectors = reals(c->type, v, all);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(creal(get(c->type, w, i))));
    for (int64_t i = 0; i < all; i++) {
        const int64_t row = i / n, column = i % n;
        double sum = 0, overlap = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += whole[row * n + j] * vectors[j * n + column];
            overlap += vectors[j * n + row] * vectors[j * n + column];
        }
        sum -= creal(get(c->type, w, column)) * vectors[i];
        worst = fmax(worst, fmax(fabs(sum) / largest, fabs(overlap - (row == column))));
        if (column > 0) cr_assert(creal(get(c->type, w, column)) >= creal(get(c->type, w, column - 1)));
    }
    cr_expect(worst < (c->type == HLO_F64 ? 2e-13 : 2e-5), "kind %d, n %d: error %g", c->kind, (int)n, worst);
    hlo_free(a), hlo_free(v), hlo_free(w), hlo_free(again);
    hlo_free(whole), hlo_free(vectors);
}
