// SPDX-License-Identifier: Apache-2.0
// Runs Fourier transforms. Lines are transformed side by side, as many as a vector has lanes; real lines twice as many,
// two in one complex line. Single lines and lines that are too long for a cache are split into a matrix, whose columns
// and rows are many lines again. The bits of a line depend on its length, on the number of lines, and on the
// instruction set.
//
//     block   x[point][re, im][lane]: one point of all lines of the block side by side, so that a butterfly is a few
//             instructions on whole vectors, without shuffles
//     real    lines a and b as a + ib; the transforms are separated by symmetry: A[k] = (X[k] + conj X[n-k]) / 2
//     split   n = r c (Cooley, Tukey): c lines of r points down the columns, a factor for each point, r lines of c
//             points
//
// Inverse transforms are forward ones between exchanges of real and imaginary parts (`swap`), times 1 / n. Several
// dimensions are transformed one after the other; IRFFT transforms the outer ones first, in a copy. fft_plan.h has the
// factors of each length, which are computed when a program is compiled.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/kernels/fft_plan.h"

// ---- lines side by side

typedef enum LineForm { LINES_COMPLEX, LINES_FROM_REAL, LINES_TO_REAL } LineForm;

// Lines of [outer][n][inner] points, of which line (o, i) starts at o * outer stride + i: rows where inner is 1. All
// strides in points (real numbers where that side is real).
typedef struct Lines {
    const CpuFftKernels *kernels;
    const CpuFftPlan *plan;
    LineForm form;
    int64_t width;  // bytes of a real number
    int swap_in, swap_out;
    double scale;
    int64_t outer, inner;
    int64_t in_line, in_point, out_line, out_point;  // distances of lines (rows) or of points (columns)
    int64_t in_outer, out_outer;                     // distances of the outer blocks
    bool in_columns, out_columns;
    const char *source, *factors;
    char *target;
    char *scratch;
    size_t scratch_each;
} Lines;

// Returns the bytes of `points` complex points of all lanes.
static int64_t block_bytes(const Lines *l, int64_t points) {
    return 2 * points * l->kernels->lanes * l->width;
}

// Transforms lines first to first + count of one outer block, stored one after the other as rows or as columns.
static void complex_block(const Lines *l, int64_t outer, int64_t first, int count, char *x, char *spare) {
    assert(count > 0);
    const int64_t n = l->plan->n, point = 2 * l->width;
    const char *from = l->source + (outer * l->in_outer + first * (l->in_columns ? 1 : l->in_line)) * point;
    char *to = l->target + (outer * l->out_outer + first * (l->out_columns ? 1 : l->out_line)) * point;
    const char *factors = l->factors ? l->factors + first * point : NULL;
    if (l->in_columns)
        l->kernels->load_columns(x, from, n, count, 2 * l->in_point, l->swap_in);
    else
        l->kernels->load_rows(x, from, n, count, 2 * l->in_line, l->swap_in);
    const void *result = l->kernels->transform(l->plan, x, spare);
    if (l->out_columns)
        l->kernels->store_columns(result, to, n, count, 2 * l->out_point, l->swap_out, l->scale, factors);
    else
        l->kernels->store_rows(result, to, n, count, 2 * l->out_line, l->swap_out, l->scale);
}

// Transforms real lines two by two: the first half of the block's lines as real parts, the others as imaginary ones.
static void real_block(const Lines *l, int64_t first, int count, char *x, char *spare) {
    assert(count > 0);
    const CpuFftKernels *k = l->kernels;
    const int64_t n = l->plan->n, half = n / 2 + 1, width = l->width;
    const int low = (count + 1) / 2, high = count - low;
    char *a = spare + block_bytes(l, l->plan->convolution ? 2 * l->plan->convolution : n),
         *b = a + block_bytes(l, half);
    if (l->form == LINES_FROM_REAL) {
        const char *from = l->source + first * n * width;
        char *to = l->target + first * half * 2 * width;
        k->load_reals(x, from, n, low, n, 0);
        k->load_reals(x, from + low * n * width, n, high, n, 1);
        k->split(k->transform(l->plan, x, spare), n, a, b);
        k->store_rows(a, to, half, low, 2 * half, 0, l->scale);
        k->store_rows(b, to + low * half * 2 * width, half, high, 2 * half, 0, l->scale);
        return;
    }
    const char *from = l->source + first * half * 2 * width;
    char *to = l->target + first * n * width;
    k->load_rows(a, from, half, low, 2 * half, 0);
    k->load_rows(b, from + low * half * 2 * width, half, high, 2 * half, 0);
    k->join(x, n, a, b);
    // A forward transform between exchanges of parts is the inverse, so the first lines are the imaginary parts.
    const void *result = k->transform(l->plan, x, spare);
    k->store_reals(result, to, n, low, n, 1, l->scale);
    k->store_reals(result, to + low * n * width, n, high, n, 0, l->scale);
}

// Real lines are transformed two by two.
static int64_t lines_of_block(const Lines *l) {
    return l->form == LINES_COMPLEX ? l->kernels->lanes : 2 * l->kernels->lanes;
}

// A unit is a block of lines.
static void lines_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const Lines *l = argument;
    const int64_t each = lines_of_block(l), blocks = hlo_divide_up(l->inner, each);
    char *x = l->scratch + (size_t)worker * l->scratch_each, *spare = x + block_bytes(l, l->plan->n);
    for (int64_t b = begin; b < end; b++) {
        const int64_t outer = b / blocks, first = b % blocks * each, left = l->inner - first;
        const int count = (int)(left < each ? left : each);
        if (l->form == LINES_COMPLEX)
            complex_block(l, outer, first, count, x, spare);
        else
            real_block(l, first, count, x, spare);
    }
}

static HloStatus run_lines(CpuPool *pool, Lines *l) {
    enum { kWorthSharing = 8192 };
    const int64_t n = l->plan->n, each = lines_of_block(l), blocks = l->outer * hlo_divide_up(l->inner, each);
    const int64_t spare = l->plan->convolution ? 2 * l->plan->convolution : n;
    const int64_t halves = l->form == LINES_COMPLEX ? 0 : 2 * (n / 2 + 1);
    const bool share = l->outer * l->inner * n >= kWorthSharing;
    l->scratch_each = (size_t)(block_bytes(l, n + spare + halves) + 63) / 64 * 64;
    l->scratch =
        cpu_pool_scratch_take(pool, hlo_array_bytes(l->scratch_each, share ? (size_t)cpu_pool_worker_count(pool) : 1));
    HLO_FAIL_IF(!l->scratch, HLO_RESOURCE_EXHAUSTED, "no memory to transform %lld points", (long long)n);
    cpu_pool_parallel_for_grain(share ? pool : NULL, blocks, 4096 / (n * each) + 1, lines_task, l);
    cpu_pool_scratch_give(pool, l->scratch);
    return HLO_SUCCESS;
}

// ---- single lines

typedef struct Run {
    CpuPool *pool;
    const CpuFftKernels *kernels;
    int64_t width;  // bytes of a real number
} Run;

// Sets up the lines of one outer block; the caller sets distances and arrays.
static Lines new_lines(const Run *run, const CpuFftPlan *plan, int swap, double scale) {
    return (Lines){.kernels = run->kernels,
                   .plan = plan,
                   .width = run->width,
                   .swap_in = swap,
                   .swap_out = swap,
                   .scale = scale,
                   .outer = 1};
}

// Transforms one line as a matrix: columns, factors, rows, transposition.
static HloStatus split_line(const Run *run, const CpuFftLine *line, int swap, double scale, char *target,
                            const char *source) {
    const int64_t rows = line->rows, columns = line->n / rows;
    char *middle = cpu_pool_scratch_take(run->pool, hlo_array_bytes((size_t)line->n, 2 * (size_t)run->width));
    HLO_FAIL_IF(!middle, HLO_RESOURCE_EXHAUSTED, "no memory to transform %lld points", (long long)line->n);
    Lines first = new_lines(run, line->column, 0, 1), second = new_lines(run, line->row, 0, scale);
    first.swap_in = swap;
    first.inner = first.in_point = first.out_point = columns;
    first.in_columns = first.out_columns = true;
    first.source = source, first.target = middle, first.factors = line->factors;
    second.swap_out = swap;
    second.inner = second.out_point = rows;
    second.in_line = columns;
    second.out_columns = true;
    second.source = middle, second.target = target;
    HloStatus status = run_lines(run->pool, &first);
    if (!status) status = run_lines(run->pool, &second);
    cpu_pool_scratch_give(run->pool, middle);
    return status;
}

// Sets z[i] = x[i] * y[i], with the parts of x (before) and of z (after) exchanged if requested.
#define MULTIPLY(T)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                  \
        const T *a = (const T *)x + 2 * i, *b = (const T *)y + 2 * i;                                  \
        const T re = a[swap_in], im = a[!swap_in];                                                     \
        const T product[2] = {(re * b[0] - im * b[1]) * (T)scale, (re * b[1] + im * b[0]) * (T)scale}; \
        ((T *)z)[2 * i] = product[swap_out];                                                           \
        ((T *)z)[2 * i + 1] = product[!swap_out];                                                      \
    }
static void multiply_points(int64_t width, int64_t n, void *z, const void *x, int swap_in, const void *y, int swap_out,
                            double scale) {
    if (width == 8) {
        MULTIPLY(double)
    } else {
        MULTIPLY(float)
    }
}

static HloStatus one_line(const Run *run, const CpuFftLine *line, int swap, double scale, char *target,
                          const char *source);

// Transforms one line as a convolution with a chirp.
static HloStatus bent_line(const Run *run, const CpuFftLine *line, int swap, double scale, char *target,
                           const char *source) {
    const int64_t n = line->n, length = line->inner->n, width = run->width;
    char *work = cpu_pool_scratch_take(run->pool, hlo_array_bytes((size_t)length, 2 * (size_t)width));
    HLO_FAIL_IF(!work, HLO_RESOURCE_EXHAUSTED, "no memory to transform %lld points", (long long)n);
    multiply_points(width, n, work, source, swap, line->chirp, 0, 1);
    memset(work + 2 * n * width, 0, (size_t)(2 * (length - n) * width));
    HloStatus status = one_line(run, line->inner, 0, 1, work, work);
    if (!status) {
        multiply_points(width, length, work, work, 0, line->filter, 0, 1);
        status = one_line(run, line->inner, 1, 1, work, work);
    }
    if (!status) multiply_points(width, n, target, work, 0, line->chirp, swap, scale);
    cpu_pool_scratch_give(run->pool, work);
    return status;
}

static HloStatus one_line(const Run *run, const CpuFftLine *line, int swap, double scale, char *target,
                          const char *source) {
    if (line->rows) return split_line(run, line, swap, scale, target, source);
    if (line->inner) return bent_line(run, line, swap, scale, target, source);
    Lines l = new_lines(run, line->whole, swap, scale);
    l.inner = 1;
    l.in_line = l.out_line = line->n;
    l.source = source, l.target = target;
    return run_lines(run->pool, &l);
}

HloStatus cpu_fft_one_line(const CpuFftLine *line, bool is_double, void *points) {
    const Run run = {NULL, cpu_isa_fft_kernels(cpu_pool_features(NULL), is_double), is_double ? 8 : 4};
    return one_line(&run, line, 0, 1, points, points);
}

// ---- a dimension of an array

// Transforms complex lines of [outer][n][inner] points.
static HloStatus complex_lines(const Run *run, const CpuFftLine *line, int swap, int64_t outer, int64_t inner,
                               char *target, const char *source) {
    assert(outer >= 0 && inner > 0);
    const int64_t n = line->n, bytes = 2 * n * run->width;
    const double scale = swap ? 1 / (double)n : 1;
    const bool few = inner == 1 && 2 * outer <= run->kernels->lanes && line->rows;
    if (!line->whole || few) {
        for (int64_t o = 0; o < outer; o++)
            HLO_TRY(one_line(run, line, swap, scale, target + o * bytes, source + o * bytes));
        return HLO_SUCCESS;
    }
    Lines l = new_lines(run, line->whole, swap, scale);
    l.source = source, l.target = target;
    if (inner == 1) {
        l.inner = outer;
        l.in_line = l.out_line = n;
    } else {
        l.outer = outer, l.inner = inner;
        l.in_columns = l.out_columns = true;
        l.in_point = l.out_point = inner;
        l.in_outer = l.out_outer = n * inner;
    }
    return run_lines(run->pool, &l);
}

// A real line of n points is a complex one of half as many points. Its spectrum z is separated by X[k] = E + exp(-2 pi
// i k / n) O, E and O being the spectra of the points with even and odd numbers, and merged again the other way.
#define TAKE_APART(T)                                                                                \
    const T *z = from, *turn = turns;                                                                \
    T *x = to;                                                                                       \
    for (int64_t k = 0; k <= h; k++) {                                                               \
        const T *a = z + 2 * (k == h ? 0 : k), *b = z + 2 * (k == 0 ? 0 : h - k), *w = turn + 2 * k; \
        const T even_re = (a[0] + b[0]) / 2, even_im = (a[1] - b[1]) / 2;                            \
        const T odd_re = (a[1] + b[1]) / 2, odd_im = (b[0] - a[0]) / 2;                              \
        x[2 * k] = even_re + (odd_re * w[0] - odd_im * w[1]);                                        \
        x[2 * k + 1] = even_im + (odd_re * w[1] + odd_im * w[0]);                                    \
    }
#define PUT_TOGETHER(T)                                                                             \
    const T *x = from, *turn = turns;                                                               \
    T *z = to;                                                                                      \
    for (int64_t k = 0; k < h; k++) {                                                               \
        const T *a = x + 2 * k, *b = x + 2 * (h - k), *w = turn + 2 * k;                            \
        const T a_im = k ? a[1] : 0, b_im = k ? b[1] : 0;                                           \
        const T even_re = (a[0] + b[0]) / 2, even_im = (a_im - b_im) / 2;                           \
        const T side_re = (a[0] - b[0]) / 2, side_im = (a_im + b_im) / 2;                           \
        const T odd_re = side_re * w[0] + side_im * w[1], odd_im = side_im * w[0] - side_re * w[1]; \
        z[2 * k] = even_re - odd_im;                                                                \
        z[2 * k + 1] = even_im + odd_re;                                                            \
    }

static void take_apart(int64_t width, int64_t h, const void *turns, void *to, const void *from) {
    if (width == 8) {
        TAKE_APART(double)
    } else {
        TAKE_APART(float)
    }
}

static void put_together(int64_t width, int64_t h, const void *turns, void *to, const void *from) {
    if (width == 8) {
        PUT_TOGETHER(double)
    } else {
        PUT_TOGETHER(float)
    }
}

// Transforms a real line of 2 h points as a complex one of h: even points are real parts, odd ones imaginary; the two
// transforms are separated by symmetry, or merged before the inverse.
static HloStatus real_line_alone(const Run *run, const CpuFftLine *line, bool to_real, char *target,
                                 const char *source) {
    const int64_t h = line->half->n, width = run->width;
    char *work = cpu_pool_scratch_take(run->pool, hlo_array_bytes((size_t)h + 1, 2 * (size_t)width));
    HLO_FAIL_IF(!work, HLO_RESOURCE_EXHAUSTED, "no memory to transform %lld points", (long long)line->n);
    HloStatus status;
    if (to_real) {
        put_together(width, h, line->turns, work, source);
        status = complex_lines(run, line->half, 1, 1, 1, target, work);
    } else {
        status = complex_lines(run, line->half, 0, 1, 1, work, source);
        if (!status) take_apart(width, h, line->turns, target, work);
    }
    cpu_pool_scratch_give(run->pool, work);
    return status;
}

// Transforms `count` lines of contiguous points, real on one side.
static HloStatus real_lines(const Run *run, const CpuFftLine *line, bool to_real, int64_t count, char *target,
                            const char *source) {
    assert(count >= 0);
    const int64_t n = line->n, real = n * run->width, half = (n / 2 + 1) * 2 * run->width;
    if (line->half && (!line->whole || 2 * count <= run->kernels->lanes)) {
        for (int64_t i = 0; i < count; i++)
            HLO_TRY(real_line_alone(run, line, to_real, target + i * (to_real ? real : half),
                                    source + i * (to_real ? half : real)));
        return HLO_SUCCESS;
    }
    Lines l = new_lines(run, line->whole, 0, to_real ? 1 / (double)n : 1);
    l.form = to_real ? LINES_TO_REAL : LINES_FROM_REAL;
    l.inner = count;
    l.source = source, l.target = target;
    return run_lines(run->pool, &l);
}

// ---- arrays

// Transforms all dimensions except the last, over arrays whose last dimension has `last` points.
static HloStatus outer_dimensions(const Run *run, const CpuFft *f, int64_t batch, int64_t last, char *target,
                                  const char *source) {
    const int swap = f->kind == CPU_IFFT || f->kind == CPU_IRFFT;
    for (int d = 0; d < f->rank - 1; d++) {
        const int64_t inner = hlo_product(f->lengths + d + 1, f->rank - d - 2) * last;
        HLO_TRY(complex_lines(run, f->lines[d], swap, batch * hlo_product(f->lengths, d), inner, target, source));
        source = target;
    }
    return HLO_SUCCESS;
}

static HloStatus last_dimension(const Run *run, const CpuFft *f, int64_t batch, char *target, const char *source) {
    const CpuFftLine *line = f->lines[f->rank - 1];
    const int64_t count = batch * hlo_product(f->lengths, f->rank - 1);
    if (f->kind == CPU_RFFT || f->kind == CPU_IRFFT)
        return real_lines(run, line, f->kind == CPU_IRFFT, count, target, source);
    return complex_lines(run, line, f->kind == CPU_IFFT, count, 1, target, source);
}

// Transforms the complex side of IRFFT in a copy, since its outer dimensions come first.
static HloStatus inverse_real(const Run *run, const CpuFft *f, int64_t batch, char *out, const char *in) {
    const int64_t half = f->lengths[f->rank - 1] / 2 + 1;
    if (f->rank == 1) return last_dimension(run, f, batch, out, in);
    const size_t points = hlo_array_bytes((size_t)(batch * hlo_product(f->lengths, f->rank - 1)), (size_t)half);
    char *copy = cpu_pool_scratch_take(run->pool, hlo_array_bytes(points, 2 * (size_t)run->width));
    HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
    HloStatus status = outer_dimensions(run, f, batch, half, copy, in);
    if (!status) status = last_dimension(run, f, batch, out, copy);
    cpu_pool_scratch_give(run->pool, copy);
    return status;
}

HloStatus cpu_fft_run(CpuPool *pool, const CpuFft *f, int64_t batch, void *out, const void *in) {
    assert(f && batch >= 0);
    const int64_t last = f->lengths[f->rank - 1];
    if (batch == 0 || hlo_product(f->lengths, f->rank) == 0) return HLO_SUCCESS;
    const bool is_double = f->type == HLO_F64;
    const Run run = {pool, cpu_isa_fft_kernels(cpu_pool_features(pool), is_double), is_double ? 8 : 4};
    if (f->kind == CPU_IRFFT) return inverse_real(&run, f, batch, out, in);
    HLO_TRY(last_dimension(&run, f, batch, out, in));
    return outer_dimensions(&run, f, batch, f->kind == CPU_RFFT ? last / 2 + 1 : last, out, out);
}
