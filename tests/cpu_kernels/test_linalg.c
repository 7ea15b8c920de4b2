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

// The transform of one line by its definition.
static void naive(int64_t n, bool inverse, const double _Complex *in, double _Complex *out) {
    for (int64_t k = 0; k < n; k++) {
        out[k] = 0;
        for (int64_t j = 0; j < n; j++) {
            const double angle = (inverse ? 2 : -2) * 3.14159265358979323846 * (double)(j * k % n) / (double)n;
            const double _Complex w = cos(angle) + sin(angle) * _Complex_I;
            out[k] += in[j] * w;
        }
        if (inverse) out[k] /= (double)n;
    }
}

static double load(bool wide, const void *from, int64_t i) {
    return wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
}
static void save(bool wide, void *to, int64_t i, double value) {
    if (wide)
        ((double *)to)[i] = value;
    else
        ((float *)to)[i] = (float)value;
}

enum { kMaximum = 1100 };

static void check_line(int64_t n, CpuFftKind kind, bool wide) {
    static double _Complex in[kMaximum], out[kMaximum];
    static double source[2 * kMaximum * 3], result[2 * kMaximum * 3];
    const int64_t half = n / 2 + 1;
    for (int batch = 0; batch < 3; batch++)
        for (int64_t i = 0; i < 2 * n; i++) save(wide, source, batch * 2 * n + i, unit_random());
    cr_assert_null(cpu_fft(pool, kind, wide ? HLO_F64 : HLO_F32, 3, 1, &n, result, source));
    for (int64_t batch = 0; batch < 3; batch++) {
        for (int64_t i = 0; i < n; i++) {
            if (kind == CPU_RFFT)
                in[i] = load(wide, source, batch * n + i);
            else if (kind == CPU_IRFFT) {
                const int64_t at = i < half ? i : n - i;
                const double im = at == 0 || 2 * at == n ? 0 : load(wide, source, 2 * (batch * half + at) + 1);
                in[i] = load(wide, source, 2 * (batch * half + at)) + (i < half ? im : -im) * _Complex_I;
            } else
                in[i] =
                    load(wide, source, 2 * (batch * n + i)) + load(wide, source, 2 * (batch * n + i) + 1) * _Complex_I;
        }
        naive(n, kind == CPU_IFFT || kind == CPU_IRFFT, in, out);
        const double limit = (wide ? 1e-13 : 3e-6) * (kind == CPU_IFFT || kind == CPU_IRFFT ? 1 : sqrt((double)n) + 1);
        for (int64_t i = 0; i < (kind == CPU_RFFT ? half : n); i++) {
            if (kind == CPU_IRFFT) {
                cr_assert_float_eq(load(wide, result, batch * n + i), creal(out[i]), limit);
                continue;
            }
            const int64_t at = 2 * (batch * (kind == CPU_RFFT ? half : n) + i);
            cr_assert_float_eq(load(wide, result, at), creal(out[i]), limit, "n %lld kind %d point %lld", (long long)n,
                               (int)kind, (long long)i);
            cr_assert_float_eq(load(wide, result, at + 1), cimag(out[i]), limit, "n %lld kind %d point %lld",
                               (long long)n, (int)kind, (long long)i);
        }
    }
}

Test(cpu_fft, lines_of_any_length, .init = open_pool, .fini = close_pool) {
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 17, 30, 64, 97, 120, 128, 243, 251, 1000, 1024};
    for (int l = 0; l < 20; l++)
        for (int kind = CPU_FFT; kind <= CPU_IRFFT; kind++)
            for (int wide = 0; wide < 2; wide++) check_line(lengths[l], (CpuFftKind)kind, wide);
}

Test(cpu_fft, three_dimensions_and_back, .init = open_pool, .fini = close_pool) {
    enum { kPoints = 2 * 6 * 5 * 8 };
    const int64_t lengths[3] = {6, 5, 8};
    float real[kPoints], back[kPoints];
    float _Complex line[2 * 6 * 5 * 5];
    for (int i = 0; i < kPoints; i++) real[i] = (float)unit_random();
    cr_assert_null(cpu_fft(pool, CPU_RFFT, HLO_F32, 2, 3, lengths, line, real));
    double sum = 0;
    for (int i = 0; i < kPoints / 2; i++) sum += (double)real[i];
    cr_assert_float_eq(crealf(line[0]), sum, 1e-4);
    cr_assert_null(cpu_fft(pool, CPU_IRFFT, HLO_F32, 2, 3, lengths, back, line));
    for (int i = 0; i < kPoints; i++) cr_assert_float_eq(real[i], back[i], 1e-6);
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
