// SPDX-License-Identifier: Apache-2.0
// Fourier transforms against their definition: all kinds, both precisions, every instruction set, lengths for each way
// that a line can take (passes, odd radices, Bluestein, cut lines), any number of lines and dimensions.
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "targets/cpu/kernels/fft.h"
#include "tests/support/cases.h"
#include "tests/support/levels.h"

typedef double _Complex Complex;

static uint32_t state = 9;
static double unit_random(void) {
    state = state * 1664525 + 1013904223;
    return (double)(int32_t)state * 0x1p-31;
}

static double load(bool wide, const void *from, int64_t i) {
    return wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static void *new_random(bool wide, int64_t count) {
    void *array = hlo_allocate_aligned((size_t)count * 8 + 64);
    cr_assert_not_null(array);
    for (int64_t i = 0; i < count; i++) {
        if (wide)
            ((double *)array)[i] = unit_random();
        else
            ((float *)array)[i] = (float)unit_random();
    }
    return array;
}

// The transform of one line (points `step` apart, in place) by its definition, in O(n) sums of O(n).
static void by_definition(Complex *line, int64_t n, int64_t step, bool inverse) {
    Complex *roots = hlo_allocate((size_t)n * sizeof *roots), *sums = hlo_allocate((size_t)n * sizeof *sums);
    cr_assert(roots && sums);
    for (int64_t k = 0; k < n; k++) {
        const double angle = (inverse ? 2 : -2) * 3.14159265358979323846 * (double)k / (double)n;
        roots[k] = cos(angle) + sin(angle) * _Complex_I;
    }
    for (int64_t k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0, at = 0; j < n; j++, at = at + k >= n ? at + k - n : at + k) {
            const Complex x = line[j * step], w = roots[at];
            re += creal(x) * creal(w) - cimag(x) * cimag(w);
            im += creal(x) * cimag(w) + cimag(x) * creal(w);
        }
        sums[k] = (re + im * _Complex_I) / (inverse ? (double)n : 1);
    }
    for (int64_t k = 0; k < n; k++) line[k * step] = sums[k];
    hlo_free(roots), hlo_free(sums);
}

typedef struct Case {
    int rank;
    int64_t batch, lengths[3];
    CpuFeatures features;
    bool wide;
} Case;

typedef struct Planned {
    HloArena *arena;
    const Case *c;
    CpuFftKind kind;
    const CpuFft *fft;
} Planned;

static HloStatus plan_protected(void *argument) {
    Planned *p = argument;
    p->fft = cpu_fft_new(p->arena, p->kind, p->c->wide ? HLO_F64 : HLO_F32, p->c->rank, p->c->lengths);
    return HLO_SUCCESS;
}

static void run(const Case *c, CpuFftKind kind, void *out, const void *in, int workers) {
    Planned p = {hlo_arena_new(), c, kind, NULL};
    CpuPool *pool;
    cr_assert_null(hlo_protect(plan_protected, &p));
    cr_assert_null(cpu_pool_new_with(workers, c->features, &pool));
    cr_assert_null(cpu_fft_run(pool, p.fft, c->batch, out, in));
    cpu_pool_free(pool);
    hlo_arena_free(p.arena);
}

// The whole complex array that the transform is of: what IRFFT's operand leaves out follows from symmetry.
static Complex *whole_input(const Case *c, CpuFftKind kind, const void *in) {
    int64_t points = 1, last = c->lengths[c->rank - 1], half = last / 2 + 1;
    for (int d = 0; d < c->rank; d++) points *= c->lengths[d];
    Complex *whole = hlo_allocate((size_t)(c->batch * points) * sizeof *whole);
    cr_assert_not_null(whole);
    for (int64_t i = 0; i < c->batch * points; i++) {
        const int64_t row = i / last, k = i % last;
        if (kind == CPU_RFFT) whole[i] = load(c->wide, in, i);
        if (kind == CPU_FFT || kind == CPU_IFFT)
            whole[i] = load(c->wide, in, 2 * i) + load(c->wide, in, 2 * i + 1) * _Complex_I;
        if (kind != CPU_IRFFT) continue;
        const int64_t at = 2 * (row * half + (k < half ? k : last - k));
        const Complex x = load(c->wide, in, at) + load(c->wide, in, at + 1) * _Complex_I;
        whole[i] = k < half ? x : conj(x);
    }
    return whole;
}

// Dimensions before the last of IRFFT first, on the half that is given: then the rest follows by symmetry line by line.
static void check(const Case *c, CpuFftKind kind) {
    const bool inverse = kind == CPU_IFFT || kind == CPU_IRFFT;
    int64_t points = c->batch, last = c->lengths[c->rank - 1], half = last / 2 + 1;
    for (int d = 0; d < c->rank; d++) points *= c->lengths[d];
    const int64_t reals = 2 * (points / last) * (last + 2);
    void *in = new_random(c->wide, reals), *out = new_random(c->wide, reals), *again = new_random(c->wide, reals);
    run(c, kind, out, in, 1);
    run(c, kind, again, in, 3);
    Complex *want = whole_input(c, kind, in);
    for (int d = kind == CPU_IRFFT ? c->rank - 1 : 0; d < c->rank; d++) {
        int64_t inner = 1;
        for (int e = d + 1; e < c->rank; e++) inner *= c->lengths[e];
        for (int64_t i = 0; i < points; i += c->lengths[d] * inner)
            for (int64_t j = 0; j < inner; j++) {
                Complex *line = want + i + j;
                if (kind == CPU_IRFFT) line[0] = creal(line[0]);
                if (kind == CPU_IRFFT && last % 2 == 0) line[last / 2] = creal(line[last / 2]);
                by_definition(line, c->lengths[d], inner, inverse);
            }
    }
    double worst = 0;
    const int64_t width = kind == CPU_RFFT ? half : last, numbers = points / last * width;
    for (int64_t i = 0; i < numbers; i++) {
        const int64_t at = kind == CPU_IRFFT ? i : 2 * i;
        const Complex got = load(c->wide, out, at) + (kind == CPU_IRFFT ? 0 : load(c->wide, out, at + 1)) * _Complex_I;
        const Complex wanted = want[i / width * last + i % width];
        worst = fmax(worst, cabs(got - (kind == CPU_IRFFT ? creal(wanted) : wanted)));
        cr_assert(!isnan(cabs(got)));
        cr_assert(load(c->wide, out, at) == load(c->wide, again, at), "other bits on three workers");
    }
    const double size = inverse ? 1 : sqrt((double)(points / c->batch)) + 1;
    cr_expect(worst < size * (c->wide ? 2e-14 : 5e-6), "kind %d: error %g", (int)kind, worst);
    hlo_free(in), hlo_free(out), hlo_free(again), hlo_free(want);
}

CaseList(cpu_fft, equals_its_definition) {
    static const int64_t shapes[][4] = {// batch and lengths of one line
                                        {3, 1, 0, 0},
                                        {5, 2, 0, 0},
                                        {20, 3, 0, 0},
                                        {3, 4, 0, 0},
                                        {40, 5, 0, 0},
                                        {2, 7, 0, 0},
                                        {9, 8, 0, 0},
                                        {33, 12, 0, 0},
                                        {17, 16, 0, 0},
                                        {1, 30, 0, 0},
                                        {3, 31, 0, 0},
                                        {40, 37, 0, 0},
                                        {4, 64, 0, 0},
                                        {33, 77, 0, 0},
                                        {1, 97, 0, 0},
                                        {20, 120, 0, 0},
                                        {1, 128, 0, 0},
                                        {3, 243, 0, 0},
                                        {2, 251, 0, 0},
                                        {1, 500, 0, 0},
                                        {50, 512, 0, 0},
                                        {1, 1000, 0, 0},
                                        {1, 1009, 0, 0},
                                        {18, 1024, 0, 0},
                                        {2, 2048, 0, 0},
                                        // several dimensions
                                        {2, 6, 5, 8},
                                        {3, 4, 9, 0},
                                        {1, 16, 48, 0},
                                        {2, 3, 2, 5},
                                        {1, 64, 64, 0},
                                        {1, 5, 40, 3},
                                        {4, 1, 1, 6}};
    Case *cases = cr_malloc(sizeof(Case) * HLO_COUNT_OF(shapes) * 2 * CPU_FEATURES_COUNT);
    size_t count = 0;
    for (size_t s = 0; s < HLO_COUNT_OF(shapes); s++)
        for (int form = 2 * levels_first(); form <= 2 * levels_last() + 1; form++) {
            Case *c = &cases[count++];
            *c = (Case){1, shapes[s][0], {shapes[s][1], shapes[s][2], shapes[s][3]}, (CpuFeatures)(form / 2), form % 2};
            while (c->rank < 3 && c->lengths[c->rank]) c->rank++;
        }
    return cr_make_param_array(Case, cases, count);
}

CaseTest(Case *c, cpu_fft, equals_its_definition) {
    for (int kind = CPU_FFT; kind <= CPU_RFFT; kind++) check(c, (CpuFftKind)kind);
    if (c->rank == 1) check(c, CPU_IRFFT);
}

// Lines beyond a cache: cut, halved, and bent around a large prime. An impulse has a known transform, and back again is
// where it was.
CaseList(cpu_fft, long_lines) {
    static int64_t lengths[] = {1 << 17, 3 * 5 * 7 * 11 * 64, 65537, 2 * 32771, 17 * 17 * 17 * 17};
    return cr_make_param_array(int64_t, lengths, HLO_COUNT_OF(lengths));
}

CaseTest(int64_t *length, cpu_fft, long_lines) {
    const int64_t n = *length, impulse = 12345;
    const Case c = {1, 2, {n, 0, 0}, cpu_pool_features(NULL), true};
    double *line = hlo_allocate_aligned((size_t)n * 32), *spectrum = hlo_allocate_aligned((size_t)n * 32 + 64);
    double *back = hlo_allocate_aligned((size_t)n * 32);
    cr_assert(line && spectrum && back);
    memset(line, 0, (size_t)n * 32);
    line[2 * impulse] = 1;
    line[2 * (n + 1)] = 1;  // of the second line
    run(&c, CPU_FFT, spectrum, line, 2);
    run(&c, CPU_IFFT, back, spectrum, 2);
    for (int64_t k = 0; k < n; k++) {
        const double angle = -2 * 3.14159265358979323846 * (double)(k * impulse % n) / (double)n;
        cr_assert_float_eq(spectrum[2 * k], cos(angle), 1e-12);
        cr_assert_float_eq(spectrum[2 * k + 1], sin(angle), 1e-12);
    }
    for (int64_t i = 0; i < 4 * n; i++) cr_assert_float_eq(back[i], line[i], 1e-12);
    for (int64_t i = 0; i < 2 * n; i++) line[i] = unit_random();
    run(&c, CPU_RFFT, spectrum, line, 2);
    run(&c, CPU_IRFFT, back, spectrum, 2);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += line[i];
    cr_assert_float_eq(spectrum[0], sum, 1e-9);
    for (int64_t i = 0; i < 2 * n; i++) cr_assert_float_eq(back[i], line[i], 1e-12);
    hlo_free(line), hlo_free(spectrum), hlo_free(back);
}

Test(cpu_fft, three_dimensions_and_back) {
    enum { kPoints = 2 * 6 * 5 * 8 };
    const Case c = {3, 2, {6, 5, 8}, cpu_pool_features(NULL), false};
    float real[kPoints], back[kPoints];
    float _Complex spectrum[2 * 6 * 5 * 5];
    for (int i = 0; i < kPoints; i++) real[i] = (float)unit_random();
    run(&c, CPU_RFFT, spectrum, real, 2);
    run(&c, CPU_IRFFT, back, spectrum, 2);
    for (int i = 0; i < kPoints; i++) cr_assert_float_eq(real[i], back[i], 1e-6);
}
