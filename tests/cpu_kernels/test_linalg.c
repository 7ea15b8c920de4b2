// SPDX-License-Identifier: Apache-2.0
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/linalg.h"
#include "tests/support/levels.h"

static uint32_t state = 9;
static double unit_random(void) {
    state = state * 1664525 + 1013904223;
    return (double)(int32_t)state * 0x1p-31;
}

static CpuPool *pool;
static void open_pool(void) {
    cr_assert_null(cpu_pool_new_with(2, CPU_FEATURES_AMX, &pool));
}
static void close_pool(void) {
    cpu_pool_free(pool);
}

// ---- factors and systems: residuals in double complex

static const HloType kTypes[] = {HLO_F32, HLO_F64, HLO_C64, HLO_C128};

static double _Complex element(HloType type, const void *a, int64_t i) {
    switch (type) {
        case HLO_F32: return ((const float *)a)[i];
        case HLO_F64: return ((const double *)a)[i];
        case HLO_C64: return ((const float _Complex *)a)[i];
        default: return ((const double _Complex *)a)[i];
    }
}

static void set_element(HloType type, void *a, int64_t i, double _Complex value) {
    switch (type) {
        case HLO_F32: ((float *)a)[i] = (float)creal(value); break;
        case HLO_F64: ((double *)a)[i] = creal(value); break;
        case HLO_C64: ((float _Complex *)a)[i] = (float _Complex)value; break;
        default: ((double _Complex *)a)[i] = value; break;
    }
}

Test(cpu_cholesky, factors_multiply_back, .init = open_pool, .fini = close_pool) {
    enum { kLargest = 150 };
    double _Complex *a = hlo_allocate_aligned(sizeof *a * 2 * kLargest * kLargest),
                    *l = hlo_allocate_aligned(sizeof *l * 2 * kLargest * kLargest);
    static const int64_t sizes[] = {1, 2, 9, 64, 150};
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 5; s++)
            for (int form = 0; form < (levels_have_blas() ? 4 : 2); form++) {
                const int64_t n = sizes[s];
                const bool lower = form % 2;
                cpu_pool_set_blas(pool, form / 2 ? CPU_BLAS_OPENBLAS : CPU_BLAS_BUILTIN);
                for (int64_t i = 0; i < 2 * n * n; i++) {
                    const int64_t r = i / n % n, c = i % n;
                    const bool named = lower ? c <= r : c >= r;
                    const double im = kTypes[t] >= HLO_C64 && r != c ? unit_random() : 0;
                    set_element(kTypes[t], a, i,
                                named ? (r == c ? (double)n + 2 : unit_random()) + im * _Complex_I : 1e30);
                }
                cr_assert_null(cpu_cholesky(pool, kTypes[t], 2, n, lower, l, a));
                for (int64_t i = 0; i < 2 * n * n; i++) {
                    const int64_t base = i / (n * n) * n * n, r = i / n % n, c = i % n;
                    double _Complex sum = 0;
                    if (lower ? c > r : c < r) {
                        cr_assert(element(kTypes[t], l, i) == 0);
                        continue;
                    }
                    for (int64_t k = 0; k < n; k++)
                        sum += lower ? element(kTypes[t], l, base + r * n + k) *
                                           conj(element(kTypes[t], l, base + c * n + k))
                                     : conj(element(kTypes[t], l, base + k * n + r)) *
                                           element(kTypes[t], l, base + k * n + c);
                    cr_assert(cabs(sum - element(kTypes[t], a, i)) < 1e-4 * (double)n, "type %d n %lld at %lld", t,
                              (long long)n, (long long)i);
                }
            }
    hlo_free(a), hlo_free(l);
}

Test(cpu_cholesky, an_indefinite_matrix_gives_nan) {
    const float a[4] = {1, 2, 2, 1};
    float l[4];
    cr_assert_null(cpu_cholesky(NULL, HLO_F32, 1, 2, true, l, a));
    cr_assert(isnan(l[3]));
}

Test(cpu_triangular_solve, solutions_satisfy_the_system, .init = open_pool, .fini = close_pool) {
    enum { kRows = 20, kColumns = 300, kBatch = 2 };
    double _Complex *a = hlo_allocate_aligned(sizeof *a * kBatch * kColumns * kColumns),
                    *b = hlo_allocate_aligned(sizeof *b * kBatch * kRows * kColumns);
    double _Complex *x = hlo_allocate_aligned(sizeof *x * kBatch * kRows * kColumns);
    for (int form = 0; form < 4 * 2 * 2 * 2 * 3 * (levels_have_blas() ? 2 : 1); form++) {
        cpu_pool_set_blas(pool, form < 96 ? CPU_BLAS_BUILTIN : CPU_BLAS_OPENBLAS);
        const HloType type = kTypes[form % 4];
        const bool left = form / 4 % 2, lower = form / 8 % 2, unit = form / 16 % 2;
        const CpuTranspose transpose = (CpuTranspose)(form / 32 % 3);
        const int64_t rows = left ? kRows : kColumns, columns = left ? kColumns : kRows, n = kRows;
        for (int64_t i = 0; i < kBatch * n * n; i++)
            set_element(type, a, i,
                        (i / n % n == i % n ? 4 : 0.2 * unit_random()) +
                            (type >= HLO_C64 ? 0.1 * unit_random() : 0) * _Complex_I);
        for (int64_t i = 0; i < kBatch * rows * columns; i++) set_element(type, b, i, unit_random());
        cr_assert_null(cpu_triangular_solve(pool, type, kBatch, rows, columns, left, lower, unit, transpose, x, a, b));
        for (int64_t i = 0; i < kBatch * rows * columns; i += 7) {
            const int64_t batch = i / (rows * columns), r = i / columns % rows, c = i % columns;
            double _Complex sum = 0;
            for (int64_t k = 0; k < n; k++) {
                const int64_t p = left ? r : k, q = left ? k : c;  // op(A)[p, q]
                const int64_t y = transpose == CPU_NO_TRANSPOSE ? p : q, z = transpose == CPU_NO_TRANSPOSE ? q : p;
                if (lower ? z > y : z < y) continue;
                double _Complex value = y == z && unit ? 1 : element(type, a, (batch * n + y) * n + z);
                if (transpose == CPU_ADJOINT) value = conj(value);
                sum += value * element(type, x, batch * rows * columns + (left ? k * columns + c : r * columns + k));
            }
            cr_assert(cabs(sum - element(type, b, i)) < 1e-4, "form %d element %lld", form, (long long)i);
        }
    }
    hlo_free(a), hlo_free(b), hlo_free(x);
}

// ---- the boundaries of blocks, every instruction set, any number of workers

static bool is_wide(HloType type) {
    return type == HLO_F64 || type == HLO_C128;
}

// n x n elements: an upper and a lower triangle of a positive definite matrix.
static void *definite(HloType type, int64_t n) {
    void *a = hlo_allocate_aligned((size_t)(n * n * hlo_type_bytes(type)) + 64);
    cr_assert_not_null(a);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double _Complex value = i == j ? (double)n + 3 : unit_random() + unit_random() * _Complex_I;
            set_element(type, a, i * n + j, value);
            set_element(type, a, j * n + i, conj(value));
        }
    return a;
}

static const int64_t kSizes[] = {1, 3, 16, 31, 32, 33, 47, 64, 65, 70, 96, 130, 257};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0] };

// The largest error of L L^H over n, in units of the type's rounding.
static double factor_error(HloType type, int64_t n, bool lower, const void *l, const void *a) {
    double worst = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c <= r; c += 1 + n / 40) {
            double _Complex sum = 0;
            for (int64_t k = 0; k <= c; k++)
                sum += lower ? element(type, l, r * n + k) * conj(element(type, l, c * n + k))
                             : conj(element(type, l, k * n + r)) * element(type, l, k * n + c);
            worst = fmax(worst, cabs(sum - element(type, a, r * n + c)));
        }
    return worst / (double)(n + 3) / (is_wide(type) ? 0x1p-52 : 0x1p-23);
}

Test(cpu_cholesky, every_instruction_set_factors_at_block_boundaries) {
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int i = 0; i < 4 * kSizeCount; i++) {
            const HloType type = kTypes[i % 4];
            const int64_t n = kSizes[i / 4];
            void *a = definite(type, n), *l = definite(type, n);
            CpuPool *local;
            cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)set, &local));
            for (int lower = 0; lower < 2; lower++) {
                cr_assert_null(cpu_cholesky(local, type, 1, n, lower, l, a));
                cr_assert_lt(factor_error(type, n, lower, l, a), 8, "set %d, %s, %lld rows", set, hlo_type_text(type),
                             (long long)n);
                for (int64_t r = 0; r < n; r++)
                    for (int64_t c = r + 1; c < n; c++) cr_assert(element(type, l, lower ? r * n + c : c * n + r) == 0);
            }
            cpu_pool_free(local);
            hlo_free(a), hlo_free(l);
        }
}

Test(cpu_cholesky, what_is_not_definite_stays_nan_from_there_on) {
    enum { kRows = 70 };
    static const int64_t bad[] = {0, 5, 31, 32, 69};
    for (int t = 0; t < 4; t++)
        for (int b = 0; b < 5; b++) {
            void *a = definite(kTypes[t], kRows), *l = definite(kTypes[t], kRows);
            set_element(kTypes[t], a, bad[b] * (kRows + 1), -1);
            cr_assert_null(cpu_cholesky(NULL, kTypes[t], 1, kRows, true, l, a));
            for (int64_t i = 0; i < kRows; i++)
                cr_assert_eq(isnan(creal(element(kTypes[t], l, i * (kRows + 1)))), i >= bad[b],
                             "%s: pivot %lld of %lld", hlo_type_text(kTypes[t]), (long long)i, (long long)bad[b]);
            hlo_free(a), hlo_free(l);
        }
}

// Element (i, j) of op(A), of a triangle whose other elements are not to be seen.
static double _Complex triangle_at(HloType type, const void *a, int64_t n, int64_t i, int64_t j, bool lower,
                                   CpuTranspose transpose, bool unit) {
    const bool turn = transpose != CPU_NO_TRANSPOSE;
    const int64_t r = turn ? j : i, c = turn ? i : j;
    if (lower ? c > r : c < r) return 0;
    if (unit && r == c) return 1;
    const double _Complex value = element(type, a, r * n + c);
    return transpose == CPU_ADJOINT ? conj(value) : value;
}

static double system_error(HloType type, int64_t n, int64_t sides, int form, const void *a, const void *x,
                           const void *b) {
    const bool left = form & 1, lower = form & 2, unit = form & 4;
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t s = 0; s < sides; s += 1 + sides / 9) {
            double _Complex sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += left ? triangle_at(type, a, n, i, k, lower, (CpuTranspose)(form / 8), unit) *
                                  element(type, x, k * sides + s)
                            : element(type, x, s * n + k) *
                                  triangle_at(type, a, n, k, i, lower, (CpuTranspose)(form / 8), unit);
            worst = fmax(worst, cabs(sum - element(type, b, left ? i * sides + s : s * n + i)));
        }
    return worst / (is_wide(type) ? 0x1p-52 : 0x1p-23);
}

Test(cpu_triangular_solve, every_instruction_set_solves_at_block_boundaries) {
    enum { kForms = 24 };
    static const int64_t sides[] = {1, 2, 17, 64, 131};
    for (int set = levels_first(); set <= levels_last(); set++)
        for (int i = 0; i < 4 * kSizeCount - 4; i++) {
            const HloType type = kTypes[i % 4];
            const int64_t n = kSizes[i / 4], count = sides[i % 5];
            const size_t bytes = (size_t)(n * count * hlo_type_bytes(type)) + 64;
            void *a = definite(type, n), *x = hlo_allocate_aligned(bytes), *b = hlo_allocate_aligned(bytes);
            for (int64_t k = 0; k < n * n; k++)
                if (k / n != k % n) set_element(type, a, k, element(type, a, k) / (double)n);
            for (int64_t k = 0; k < n * count; k++) set_element(type, b, k, unit_random() + unit_random() * _Complex_I);
            CpuPool *local;
            cr_assert_null(cpu_pool_new_with(1, (CpuFeatures)set, &local));
            for (int form = i % 3; form < kForms; form += 3) {
                const bool left = form & 1;
                cr_assert_null(cpu_triangular_solve(local, type, 1, left ? n : count, left ? count : n, left, form & 2,
                                                    form & 4, (CpuTranspose)(form / 8), x, a, b));
                cr_assert_lt(system_error(type, n, count, form, a, x, b), 40, "set %d, %s, %lld rows, form %d", set,
                             hlo_type_text(type), (long long)n, form);
            }
            cpu_pool_free(local);
            hlo_free(a), hlo_free(x), hlo_free(b);
        }
}

Test(cpu_linalg, bits_do_not_depend_on_the_workers) {
    enum { kRows = 330 };
    for (int t = 0; t < 4; t++) {
        const size_t bytes = (size_t)(kRows * kRows * hlo_type_bytes(kTypes[t]));
        void *a = definite(kTypes[t], kRows);
        char *factor[2], *solution[2];
        for (int i = 0; i < 2; i++) {
            CpuPool *local;
            cr_assert_null(cpu_pool_new_with(i ? 4 : 1, CPU_FEATURES_AMX, &local));
            factor[i] = hlo_allocate_aligned(bytes), solution[i] = hlo_allocate_aligned(bytes);
            cr_assert_null(cpu_cholesky(local, kTypes[t], 1, kRows, true, factor[i], a));
            cr_assert_null(cpu_triangular_solve(local, kTypes[t], 1, kRows, kRows, false, true, false, CPU_ADJOINT,
                                                solution[i], factor[i], a));
            cpu_pool_free(local);
        }
        cr_assert_arr_eq(factor[0], factor[1], bytes);
        cr_assert_arr_eq(solution[0], solution[1], bytes);
        for (int i = 0; i < 2; i++) hlo_free(factor[i]), hlo_free(solution[i]);
        hlo_free(a);
    }
}
