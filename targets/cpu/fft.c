// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: Stockham's self-sorting passes for lengths made of 2, 3, 4 and 5, Bluestein's chirp convolution
// for all others. Lines along memory are transformed alone; lines across memory are taken through a small buffer.
#include <math.h>
#include <string.h>

#include "hlo/base/memory.h"

#include "targets/cpu/copy.h"
#include "targets/cpu/linalg.h"

enum { kMaximumFactors = 64, kMaximumRank = 3 };
static const double kPi = 3.14159265358979323846;

// How one line of `n` points is transformed. Twiddles: for each pass, radix - 1 factors for each of its butterflies.
typedef struct FftPlan {
    int64_t n;
    bool is_double;
    int factor_count;
    int factors[kMaximumFactors];
    void *twiddles;       // forward, of the plan's precision, pass after pass
    int64_t convolution;  // Bluestein: length of the inner transforms, 0 where n factors
    struct FftPlan *inner;
    void *chirp, *filter;  // Bluestein: n and `convolution` points
} FftPlan;

static int factorise(int64_t n, int *factors) {
    static const int radices[] = {4, 2, 3, 5};
    int count = 0;
    for (int r = 0; r < 4; r++)
        while (n % radices[r] == 0) factors[count++] = radices[r], n /= radices[r];
    return n == 1 ? count : -1;
}

#define PRECISION(R, S)                                                                                            \
    typedef struct Point_##S {                                                                                     \
        R re, im;                                                                                                  \
    } Point_##S;                                                                                                   \
    static inline Point_##S times_##S(Point_##S a, Point_##S b) {                                                  \
        return (Point_##S){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};                                  \
    }                                                                                                              \
    static inline Point_##S plus_##S(Point_##S a, Point_##S b) {                                                   \
        return (Point_##S){a.re + b.re, a.im + b.im};                                                              \
    }                                                                                                              \
    static inline Point_##S minus_##S(Point_##S a, Point_##S b) {                                                  \
        return (Point_##S){a.re - b.re, a.im - b.im};                                                              \
    }                                                                                                              \
    static inline Point_##S scale_##S(Point_##S a, R f) {                                                          \
        return (Point_##S){a.re * f, a.im * f};                                                                    \
    }                                                                                                              \
    /* -i * a */                                                                                                   \
    static inline Point_##S turn_##S(Point_##S a) {                                                                \
        return (Point_##S){a.im, -a.re};                                                                           \
    }                                                                                                              \
    static inline void butterfly2_##S(Point_##S *x) {                                                              \
        const Point_##S a = x[0], b = x[1];                                                                        \
        x[0] = plus_##S(a, b);                                                                                     \
        x[1] = minus_##S(a, b);                                                                                    \
    }                                                                                                              \
    static inline void butterfly3_##S(Point_##S *x) {                                                              \
        const R half_root = (R)0.86602540378443864676;                                                             \
        const Point_##S sum = plus_##S(x[1], x[2]), difference = turn_##S(minus_##S(x[1], x[2]));                  \
        const Point_##S middle = minus_##S(x[0], scale_##S(sum, (R)0.5)), side = scale_##S(difference, half_root); \
        x[0] = plus_##S(x[0], sum);                                                                                \
        x[1] = plus_##S(middle, side);                                                                             \
        x[2] = minus_##S(middle, side);                                                                            \
    }                                                                                                              \
    static inline void butterfly4_##S(Point_##S *x) {                                                              \
        const Point_##S a = plus_##S(x[0], x[2]), b = minus_##S(x[0], x[2]);                                       \
        const Point_##S c = plus_##S(x[1], x[3]), d = turn_##S(minus_##S(x[1], x[3]));                             \
        x[0] = plus_##S(a, c);                                                                                     \
        x[1] = plus_##S(b, d);                                                                                     \
        x[2] = minus_##S(a, c);                                                                                    \
        x[3] = minus_##S(b, d);                                                                                    \
    }                                                                                                              \
    static inline void butterfly5_##S(Point_##S *x) {                                                              \
        const R c1 = (R)0.30901699437494742410, c2 = (R)-0.80901699437494742410;                                   \
        const R s1 = (R)0.95105651629515357212, s2 = (R)0.58778525229247312917;                                    \
        const Point_##S a = plus_##S(x[1], x[4]), b = plus_##S(x[2], x[3]);                                        \
        const Point_##S c = turn_##S(minus_##S(x[1], x[4])), d = turn_##S(minus_##S(x[2], x[3]));                  \
        const Point_##S m1 = plus_##S(x[0], plus_##S(scale_##S(a, c1), scale_##S(b, c2)));                         \
        const Point_##S m2 = plus_##S(x[0], plus_##S(scale_##S(a, c2), scale_##S(b, c1)));                         \
        const Point_##S t1 = plus_##S(scale_##S(c, s1), scale_##S(d, s2));                                         \
        const Point_##S t2 = minus_##S(scale_##S(c, s2), scale_##S(d, s1));                                        \
        x[0] = plus_##S(x[0], plus_##S(a, b));                                                                     \
        x[1] = plus_##S(m1, t1);                                                                                   \
        x[2] = plus_##S(m2, t2);                                                                                   \
        x[3] = minus_##S(m2, t2);                                                                                  \
        x[4] = minus_##S(m1, t1);                                                                                  \
    }                                                                                                              \
    STOCKHAM_PASS(S, 2)                                                                                            \
    STOCKHAM_PASS(S, 3)                                                                                            \
    STOCKHAM_PASS(S, 4)                                                                                            \
    STOCKHAM_PASS(S, 5)                                                                                            \
    /* Forward transform of `x` (n points); `spare` is as long. The result is in x. */                             \
    static void stockham_##S(const FftPlan *plan, Point_##S *x, Point_##S *spare) {                                \
        int64_t n = plan->n, stride = 1;                                                                           \
        const Point_##S *w = plan->twiddles;                                                                       \
        Point_##S *from = x, *to = spare;                                                                          \
        for (int f = 0; f < plan->factor_count; f++) {                                                             \
            const int radix = plan->factors[f];                                                                    \
            const int64_t m = n / radix;                                                                           \
            switch (radix) {                                                                                       \
                case 2: pass2_##S(m, stride, w, from, to); break;                                                  \
                case 3: pass3_##S(m, stride, w, from, to); break;                                                  \
                case 4: pass4_##S(m, stride, w, from, to); break;                                                  \
                default: pass5_##S(m, stride, w, from, to); break;                                                 \
            }                                                                                                      \
            w += m * (radix - 1);                                                                                  \
            n = m, stride *= radix;                                                                                \
            Point_##S *swap = from;                                                                                \
            from = to, to = swap;                                                                                  \
        }                                                                                                          \
        if (from != x) memcpy(x, from, sizeof(Point_##S) * (size_t)plan->n);                                       \
    }                                                                                                              \
    static void make_twiddles_##S(const FftPlan *plan, Point_##S *w) {                                             \
        int64_t n = plan->n;                                                                                       \
        for (int f = 0; f < plan->factor_count; n /= plan->factors[f++])                                           \
            for (int64_t p = 0; p < n / plan->factors[f]; p++)                                                     \
                for (int j = 1; j < plan->factors[f]; j++) {                                                       \
                    const double angle = -2 * kPi * (double)(p * j) / (double)n;                                   \
                    *w++ = (Point_##S){(R)cos(angle), (R)sin(angle)};                                              \
                }                                                                                                  \
    }                                                                                                              \
    static void bluestein_##S(const FftPlan *plan, Point_##S *x, Point_##S *spare) {                               \
        const int64_t n = plan->n, length = plan->convolution;                                                     \
        const Point_##S *chirp = plan->chirp, *filter = plan->filter;                                              \
        Point_##S *work = spare, *inner_spare = spare + length;                                                    \
        for (int64_t i = 0; i < n; i++) work[i] = times_##S(x[i], chirp[i]);                                       \
        memset(work + n, 0, sizeof(Point_##S) * (size_t)(length - n));                                             \
        stockham_##S(plan->inner, work, inner_spare);                                                              \
        /* conj(FFT(conj(z))) is the inverse transform without its scale, which the filter holds. */               \
        for (int64_t i = 0; i < length; i++) {                                                                     \
            const Point_##S z = times_##S(work[i], filter[i]);                                                     \
            work[i] = (Point_##S){z.re, -z.im};                                                                    \
        }                                                                                                          \
        stockham_##S(plan->inner, work, inner_spare);                                                              \
        for (int64_t i = 0; i < n; i++) x[i] = times_##S((Point_##S){work[i].re, -work[i].im}, chirp[i]);          \
    }                                                                                                              \
    static void make_chirp_##S(FftPlan *plan, Point_##S *chirp, Point_##S *filter, Point_##S *spare) {             \
        const int64_t n = plan->n, length = plan->convolution;                                                     \
        memset(filter, 0, sizeof(Point_##S) * (size_t)length);                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            const double angle = -kPi * (double)((i * i) % (2 * n)) / (double)n;                                   \
            chirp[i] = (Point_##S){(R)cos(angle), (R)sin(angle)};                                                  \
            const Point_##S back = {chirp[i].re / (R)length, -chirp[i].im / (R)length};                            \
            filter[i] = back;                                                                                      \
            if (i) filter[length - i] = back;                                                                      \
        }                                                                                                          \
        stockham_##S(plan->inner, filter, spare);                                                                  \
    }                                                                                                              \
    /* Points [0, n) in place; an inverse transform is a forward one between two conjugations. */                  \
    static void line_##S(const FftPlan *plan, bool inverse, Point_##S *x, Point_##S *spare) {                      \
        const R scale = (R)1 / (R)plan->n;                                                                         \
        if (inverse)                                                                                               \
            for (int64_t i = 0; i < plan->n; i++) x[i].im = -x[i].im;                                              \
        if (plan->convolution)                                                                                     \
            bluestein_##S(plan, x, spare);                                                                         \
        else                                                                                                       \
            stockham_##S(plan, x, spare);                                                                          \
        if (inverse)                                                                                               \
            for (int64_t i = 0; i < plan->n; i++) x[i] = (Point_##S){x[i].re * scale, -x[i].im * scale};           \
    }                                                                                                              \
    static void widen_##S(Point_##S *to, const R *from, int64_t n) {                                               \
        for (int64_t i = 0; i < n; i++) to[i] = (Point_##S){from[i], 0};                                           \
    }                                                                                                              \
    static void take_real_##S(R *to, const Point_##S *from, int64_t n) {                                           \
        for (int64_t i = 0; i < n; i++) to[i] = from[i].re;                                                        \
    }                                                                                                              \
    /* The missing half of a line whose result is real. */                                                         \
    static void mirror_##S(Point_##S *x, int64_t n) {                                                              \
        x[0].im = 0;                                                                                               \
        if (n % 2 == 0) x[n / 2].im = 0;                                                                           \
        for (int64_t i = n / 2 + 1; i < n; i++) x[i] = (Point_##S){x[n - i].re, -x[n - i].im};                     \
    }

// One pass: m butterflies of `radix` points for each of `stride` interleaved transforms.
#define STOCKHAM_PASS(S, radix)                                                                               \
    static void pass##radix##_##S(int64_t m, int64_t stride, const Point_##S *w, const Point_##S *from,       \
                                  Point_##S *to) {                                                            \
        for (int64_t p = 0; p < m; p++, w += radix - 1)                                                       \
            for (int64_t q = 0; q < stride; q++) {                                                            \
                Point_##S x[radix];                                                                           \
                for (int j = 0; j < radix; j++) x[j] = from[q + stride * (p + m * j)];                        \
                butterfly##radix##_##S(x);                                                                    \
                to[q + stride * radix * p] = x[0];                                                            \
                for (int j = 1; j < radix; j++) to[q + stride * (radix * p + j)] = times_##S(x[j], w[j - 1]); \
            }                                                                                                 \
    }

PRECISION(float, f32)
PRECISION(double, f64)

// ---- plans

static void plan_free(FftPlan *plan) {
    if (!plan) return;
    plan_free(plan->inner);
    hlo_free(plan->twiddles);
    hlo_free(plan->chirp);
    hlo_free(plan->filter);
    hlo_free(plan);
}

static size_t point_bytes(const FftPlan *plan) {
    return plan->is_double ? sizeof(Point_f64) : sizeof(Point_f32);
}

static FftPlan *plan_new(int64_t n, bool is_double);

static bool plan_bluestein(FftPlan *plan) {
    plan->convolution = 1;
    while (plan->convolution < 2 * plan->n) plan->convolution *= 2;
    plan->inner = plan_new(plan->convolution, plan->is_double);
    const size_t each = point_bytes(plan);
    plan->chirp = hlo_allocate_aligned(hlo_array_bytes((size_t)plan->n, each));
    plan->filter = hlo_allocate_aligned(hlo_array_bytes((size_t)plan->convolution, each));
    void *spare = hlo_allocate_aligned(hlo_array_bytes((size_t)plan->convolution, each));
    const bool fits = plan->inner && plan->chirp && plan->filter && spare;
    if (fits && plan->is_double) make_chirp_f64(plan, plan->chirp, plan->filter, spare);
    if (fits && !plan->is_double) make_chirp_f32(plan, plan->chirp, plan->filter, spare);
    hlo_free(spare);
    return fits;
}

// NULL when memory is short.
static FftPlan *plan_new(int64_t n, bool is_double) {
    FftPlan *plan = hlo_allocate_zeroed(1, sizeof *plan);
    if (!plan) return NULL;
    plan->n = n;
    plan->is_double = is_double;
    plan->factor_count = factorise(n, plan->factors);
    if (plan->factor_count < 0) {
        if (plan_bluestein(plan)) return plan;
        plan_free(plan);
        return NULL;
    }
    plan->twiddles = hlo_allocate_aligned(hlo_array_bytes((size_t)(2 * n), point_bytes(plan)));
    if (!plan->twiddles) {
        plan_free(plan);
        return NULL;
    }
    if (is_double)
        make_twiddles_f64(plan, plan->twiddles);
    else
        make_twiddles_f32(plan, plan->twiddles);
    return plan;
}

// Points of spare memory that a line needs.
static int64_t spare_points(const FftPlan *plan) {
    return plan->convolution ? 2 * plan->convolution : plan->n;
}

// ---- lines of an array

// Lines of [outer][n][inner] points, in place or from another array. real_in: source elements are real; half_in: the
// source holds n / 2 + 1 points of a line; real_out and half_out the same for the target.
typedef struct LineJob {
    const FftPlan *plan;
    bool inverse, real_in, half_in, real_out, half_out;
    int64_t inner;
    char *target;
    const char *source;
    char *scratch;
    size_t scratch_each;
} LineJob;

static void transform_line(const LineJob *job, char *x) {
    const FftPlan *plan = job->plan;
    char *spare = x + (size_t)plan->n * point_bytes(plan);
    if (plan->is_double) {
        if (job->half_in) mirror_f64((Point_f64 *)(void *)x, plan->n);
        line_f64(plan, job->inverse, (Point_f64 *)(void *)x, (Point_f64 *)(void *)spare);
    } else {
        if (job->half_in) mirror_f32((Point_f32 *)(void *)x, plan->n);
        line_f32(plan, job->inverse, (Point_f32 *)(void *)x, (Point_f32 *)(void *)spare);
    }
}

// Reals to points and back, in the line's buffer: the reals stand in the spare memory behind the points.
static void widen_line(const LineJob *job, char *x, const char *reals) {
    if (job->plan->is_double)
        widen_f64((Point_f64 *)(void *)x, (const double *)(const void *)reals, job->plan->n);
    else
        widen_f32((Point_f32 *)(void *)x, (const float *)(const void *)reals, job->plan->n);
}

static void take_real_line(const LineJob *job, char *reals, const char *x) {
    if (job->plan->is_double)
        take_real_f64((double *)(void *)reals, (const Point_f64 *)(const void *)x, job->plan->n);
    else
        take_real_f32((float *)(void *)reals, (const Point_f32 *)(const void *)x, job->plan->n);
}

static void line_task(void *argument, int64_t begin, int64_t end, int worker) {
    const LineJob *job = argument;
    const int64_t n = job->plan->n, half = n / 2 + 1;
    const int point = (int)point_bytes(job->plan);
    const int in_width = job->real_in ? point / 2 : point, out_width = job->real_out ? point / 2 : point;
    const int64_t in_length = job->half_in ? half : n, out_length = job->half_out ? half : n;
    char *x = job->scratch + (size_t)worker * job->scratch_each, *behind = x + n * point;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t outer = unit / job->inner, column = unit % job->inner;
        const char *from = job->source + (outer * in_length * job->inner + column) * in_width;
        char *to = job->target + (outer * out_length * job->inner + column) * out_width;
        cpu_copy_strided(NULL, 1, &in_length, in_width, job->real_in ? behind : x, (int64_t[]){1}, from, &job->inner);
        if (job->real_in) widen_line(job, x, behind);
        transform_line(job, x);
        if (job->real_out) take_real_line(job, behind, x);
        cpu_copy_strided(NULL, 1, &out_length, out_width, to, &job->inner, job->real_out ? behind : x, (int64_t[]){1});
    }
}

static HloStatus run_lines(CpuPool *pool, LineJob *job, int64_t n, bool is_double, int64_t outer) {
    FftPlan *plan = plan_new(n, is_double);
    HLO_FAIL_IF(!plan, HLO_RESOURCE_EXHAUSTED, "no memory to transform %lld points", (long long)n);
    job->plan = plan;
    job->scratch_each = ((size_t)(n + spare_points(plan)) * point_bytes(plan) + 127) / 64 * 64;
    job->scratch = cpu_pool_scratch_take(pool, job->scratch_each * (size_t)cpu_pool_worker_count(pool));
    if (job->scratch) {
        const int64_t lines = outer * job->inner;
        cpu_pool_parallel_for_grain(lines * n < 8192 ? NULL : pool, lines, 4096 / n + 1, line_task, job);
    }
    const bool done = job->scratch != NULL;
    cpu_pool_scratch_give(pool, job->scratch);
    plan_free(plan);
    HLO_FAIL_IF(!done, HLO_RESOURCE_EXHAUSTED, "no memory to transform %lld points", (long long)n);
    return HLO_SUCCESS;
}

static int64_t product(const int64_t *sizes, int count) {
    int64_t result = 1;
    for (int i = 0; i < count; i++) result *= sizes[i];
    return result;
}

typedef struct FftJob {
    CpuPool *pool;
    CpuFftKind kind;
    bool is_double;
    int64_t batch;
    int rank;
    const int64_t *lengths;
    int64_t half;  // points of the last dimension on the complex side
} FftJob;

// All dimensions but the last, over arrays whose last dimension has `last` points.
static HloStatus outer_dimensions(const FftJob *f, int64_t last, void *target, const void *source) {
    const void *from = source;
    for (int d = 0; d < f->rank - 1; d++) {
        LineJob job = {.inverse = f->kind == CPU_IFFT || f->kind == CPU_IRFFT,
                       .target = target,
                       .source = from,
                       .inner = product(f->lengths + d + 1, f->rank - d - 2) * last};
        HLO_TRY(run_lines(f->pool, &job, f->lengths[d], f->is_double, f->batch * product(f->lengths, d)));
        from = target;
    }
    return HLO_SUCCESS;
}

static HloStatus last_dimension(const FftJob *f, void *target, const void *source) {
    LineJob job = {
        .inverse = f->kind == CPU_IFFT || f->kind == CPU_IRFFT, .inner = 1, .target = target, .source = source};
    job.real_in = job.half_out = f->kind == CPU_RFFT;
    job.half_in = job.real_out = f->kind == CPU_IRFFT;
    const int64_t outer = f->batch * product(f->lengths, f->rank - 1);
    return run_lines(f->pool, &job, f->lengths[f->rank - 1], f->is_double, outer);
}

// The complex side of IRFFT is transformed in a copy: its outer dimensions come first.
static HloStatus inverse_real(const FftJob *f, void *out, const void *in) {
    if (f->rank == 1) return last_dimension(f, out, in);
    const size_t points = hlo_array_bytes((size_t)(f->batch * product(f->lengths, f->rank - 1)), (size_t)f->half);
    void *copy = cpu_pool_scratch_take(f->pool, hlo_array_bytes(points, f->is_double ? 16 : 8));
    HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory for a Fourier transform");
    HloStatus status = outer_dimensions(f, f->half, copy, in);
    if (!status) status = last_dimension(f, out, copy);
    cpu_pool_scratch_give(f->pool, copy);
    return status;
}

HloStatus cpu_fft(CpuPool *pool, CpuFftKind kind, HloType type, int64_t batch, int rank, const int64_t *lengths,
                  void *out, const void *in) {
    HLO_FAIL_IF(type != HLO_F32 && type != HLO_F64, HLO_UNIMPLEMENTED, "Fourier transform of %s", hlo_type_text(type));
    HLO_FAIL_IF(rank < 1 || rank > kMaximumRank, HLO_INVALID_ARGUMENT, "Fourier transform of %d dimensions", rank);
    if (batch == 0 || product(lengths, rank) == 0) return HLO_SUCCESS;
    const FftJob f = {pool, kind, type == HLO_F64, batch, rank, lengths, lengths[rank - 1] / 2 + 1};
    if (kind == CPU_IRFFT) return inverse_real(&f, out, in);
    HLO_TRY(last_dimension(&f, out, in));
    return outer_dimensions(&f, kind == CPU_RFFT ? f.half : lengths[rank - 1], out, out);
}
