// SPDX-License-Identifier: Apache-2.0
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/linalg.h"

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
            for (int lower = 0; lower < 2; lower++) {
                const int64_t n = sizes[s];
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
    for (int form = 0; form < 4 * 2 * 2 * 2 * 3; form++) {
        const HloType type = kTypes[form % 4];
        const bool left = form / 4 % 2, lower = form / 8 % 2, unit = form / 16 % 2;
        const CpuTranspose transpose = (CpuTranspose)(form / 32);
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
