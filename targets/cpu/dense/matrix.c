// SPDX-License-Identifier: Apache-2.0
// Functions shared by the decompositions: batches, rows, triangles, reflections. One code serves four element types:
// where it is time-critical there are kernels by type (isa/vector.h, isa/triangle.h); elsewhere elements pass through
// double complex, which represents all four exactly.
//
// Reflections. H = I - tau v v^H with v[0] = 1 maps a vector to (beta, 0, ...), beta real. A block of up to CPU_PANEL
// of them is applied together in the compact form of Schreiber and Van Loan, H_1 H_2 ... = I - V T V^H with T upper
// triangular, which turns nearly all the work into matrix products:
//     c := c + V (-T (V^H c))      in stripes of CPU_STRIPE columns, which workers share
//
// Callers count the memory before they start (cpu_work_bytes, cpu_reflections_bytes) and take it in order from the
// worker's part of one block (cpu_matrix_work); taking more than was counted is a bug, and is detected.
#include "targets/cpu/dense/matrix.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/base/memory.h"

bool cpu_matrix_has(HloType type) {
    return type == HLO_F32 || type == HLO_F64 || type == HLO_C64 || type == HLO_C128;
}

// ---- batches

typedef struct BatchJob {
    CpuMatrix matrix;
    CpuMatrixTask *task;
    const void *job;
    char *scratch;
    size_t bytes;
} BatchJob;

// Processes matrices [begin, end), each with this worker's memory from its beginning.
static void batch_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const BatchJob *batch = argument;
    for (int64_t i = begin; i < end; i++) {
        CpuMatrix matrix = batch->matrix;
        matrix.work = batch->scratch + (size_t)worker * batch->bytes;
        matrix.end = matrix.work + batch->bytes;
        batch->task(&matrix, batch->job, i);
    }
}

CpuMatrix cpu_matrix_describe(HloType type, CpuFeatures features) {
    const CpuVectorKernels *kernels = cpu_isa_vector_kernels(features);
    const CpuTriangleKernels *triangles = cpu_isa_triangle_kernels(features);
    return (CpuMatrix){.type = type,
                       .width = hlo_type_bytes(type),
                       .is_complex = hlo_type_is_complex(type),
                       .vector = type == HLO_F32   ? &kernels->f32
                                 : type == HLO_F64 ? &kernels->f64
                                 : type == HLO_C64 ? &kernels->c64
                                                   : &kernels->c128,
                       .triangle = type == HLO_F32   ? &triangles->f32
                                   : type == HLO_F64 ? &triangles->f64
                                   : type == HLO_C64 ? &triangles->c64
                                                     : &triangles->c128,
                       .features = features};
}

// Gives each worker a whole matrix. Only if there are fewer matrices than workers, and each is large, does a matrix get
// all workers inside: those that share one wait for each other.
HloStatus cpu_matrix_batch(CpuPool *pool, HloType type, int64_t count, size_t work_bytes, double cost,
                           CpuMatrixTask *task, const void *job) {
    enum { kWorthCutting = 200000 };
    assert(cpu_matrix_has(type)); /* lowering checks; the evaluator runs others */
    if (count == 0) return HLO_SUCCESS;
    const int workers = cpu_pool_worker_count(pool);
    const bool inside = count < workers && cost >= CPU_MATRIX_SHARED;
    const bool beside = !inside && cost * (double)count >= kWorthCutting;
    const size_t bytes = (work_bytes + 63) / 64 * 64;
    BatchJob batch = {cpu_matrix_describe(type, cpu_pool_features(pool)), task, job, NULL, bytes};
    batch.scratch = cpu_pool_scratch_take(pool, hlo_array_bytes(bytes, beside ? (size_t)workers : 1));
    HLO_FAIL_IF(!batch.scratch, HLO_RESOURCE_EXHAUSTED, "no memory for a decomposition");
    batch.matrix.pool = inside ? pool : NULL;
    if (beside)
        cpu_pool_parallel_for_grain(pool, count, 1, batch_task, &batch);
    else
        batch_task(&batch, 0, count, 0);
    cpu_pool_scratch_give(pool, batch.scratch);
    return HLO_SUCCESS;
}

void *cpu_matrix_work(CpuMatrix *matrix, int64_t count, size_t width) {
    void *work = matrix->work;
    const size_t bytes = cpu_work_bytes(count, width);
    HLO_BUG_IF(bytes > (size_t)(matrix->end - matrix->work));
    matrix->work += bytes;
    return work;
}

// ---- elements and rows

double _Complex cpu_matrix_get(const CpuMatrix *matrix, const void *row, int64_t i) {
    switch (matrix->type) {
        case HLO_F32: return ((const float *)row)[i];
        case HLO_F64: return ((const double *)row)[i];
        case HLO_C64: return ((const float _Complex *)row)[i];
        default: return ((const double _Complex *)row)[i];
    }
}

void cpu_matrix_set(const CpuMatrix *matrix, void *row, int64_t i, double _Complex value) {
    switch (matrix->type) {
        case HLO_F32: ((float *)row)[i] = (float)creal(value); return;
        case HLO_F64: ((double *)row)[i] = creal(value); return;
        case HLO_C64: ((float _Complex *)row)[i] = CMPLXF(creal(value), cimag(value)); return;
        default: ((double _Complex *)row)[i] = value; return;
    }
}

void cpu_matrix_divide(const CpuMatrix *matrix, int64_t n, double _Complex divisor, void *x) {
    const float f = (float)creal(divisor);
    const double d = creal(divisor);
    switch (matrix->type) {
        case HLO_F32:
            for (int64_t i = 0; i < n; i++) ((float *)x)[i] /= f;
            return;
        case HLO_F64:
            for (int64_t i = 0; i < n; i++) ((double *)x)[i] /= d;
            return;
        case HLO_C64:
            for (int64_t i = 0; i < n; i++) cpu_matrix_set(matrix, x, i, cpu_matrix_get(matrix, x, i) / divisor);
            return;
        default:
            for (int64_t i = 0; i < n; i++) ((double _Complex *)x)[i] /= divisor;
            return;
    }
}

void cpu_matrix_conjugate(const CpuMatrix *matrix, int64_t n, void *to, const void *from) {
    if (to != from) memcpy(to, from, (size_t)(n * matrix->width));
    if (matrix->type == HLO_C64)
        for (int64_t i = 0; i < n; i++) ((float *)to)[2 * i + 1] *= -1;
    if (matrix->type == HLO_C128)
        for (int64_t i = 0; i < n; i++) ((double *)to)[2 * i + 1] *= -1;
}

// Returns the Euclidean length, without intermediate overflow. Squares of floats cannot overflow in doubles, so the
// simple sum is right. Those of doubles can, and can vanish: then, and only then, everything is scaled by the largest.
static double euclidean_norm(const CpuMatrix *matrix, int64_t n, const void *x) {
    const int64_t reals = matrix->is_complex ? 2 * n : n;
    double sum = 0, largest = 0;
    if (matrix->type == HLO_F32 || matrix->type == HLO_C64) {
        double sums[8] = {0};  // side by side: one chain would wait for each addition
        int64_t i = 0;
        for (; i + 8 <= reals; i += 8)
            for (int j = 0; j < 8; j++) {
                const double value = (double)((const float *)x)[i + j];
                sums[j] += value * value;
            }
        for (; i < reals; i++) sum += (double)((const float *)x)[i] * (double)((const float *)x)[i];
        for (int j = 0; j < 8; j++) sum += sums[j];
        return sqrt(sum);
    }
    const double *values = x;
    for (int64_t i = 0; i < reals; i++) sum += values[i] * values[i];
    if (sum > 1e-280 && sum < 1e280) return sqrt(sum);
    for (int64_t i = 0; i < reals; i++) largest = fmax(largest, fabs(values[i]));
    if (isnan(sum) || isinf(largest)) return NAN;  // not for an infinite sum: scaling handles that
    if (largest == 0) return 0;
    sum = 0;
    for (int64_t i = 0; i < reals; i++) sum += values[i] / largest * (values[i] / largest);
    return largest * sqrt(sum);
}

#define LARGEST(T, size_of)                     \
    for (int64_t i = 0; i < n; i++) {           \
        const T value = ((const T *)x)[i];      \
        const double here = (double)(size_of);  \
        if (here > size) best = i, size = here; \
    }                                           \
    break

int64_t cpu_matrix_largest(const CpuMatrix *matrix, int64_t n, const void *x) {
    int64_t best = 0;
    double size = -1;
    switch (matrix->type) {
        case HLO_F32: LARGEST(float, fabsf(value));
        case HLO_F64: LARGEST(double, fabs(value));
        case HLO_C64: LARGEST(float _Complex, fabs((double)crealf(value)) + fabs((double)cimagf(value)));
        default: LARGEST(double _Complex, fabs(creal(value)) + fabs(cimag(value)));
    }
    return best;
}

void cpu_matrix_swap(const CpuMatrix *matrix, int64_t n, void *x, void *y) {
    char held[256], *a = x, *b = y;
    for (int64_t left = n * matrix->width; left > 0; a += sizeof held, b += sizeof held, left -= (int64_t)sizeof held) {
        const size_t bytes = left < (int64_t)sizeof held ? (size_t)left : sizeof held;
        memcpy(held, a, bytes);
        memcpy(a, b, bytes);
        memcpy(b, held, bytes);
    }
}

#define SWAP_STRIDED(T)                                       \
    for (int64_t i = 0; i < n; i++) {                         \
        T *a = (T *)x + i * stride, *b = (T *)y + i * stride; \
        const T held = *a;                                    \
        *a = *b, *b = held;                                   \
    }                                                         \
    break

void cpu_matrix_swap_strided(const CpuMatrix *matrix, int64_t n, int64_t stride, void *x, void *y) {
    switch (matrix->width) {
        case 4: SWAP_STRIDED(uint32_t);
        case 8: SWAP_STRIDED(uint64_t);
        default: SWAP_STRIDED(double _Complex);
    }
}

void cpu_matrix_negate(const CpuMatrix *matrix, int64_t n, void *x) {
    const int64_t reals = matrix->is_complex ? 2 * n : n;
    if (matrix->type == HLO_F32 || matrix->type == HLO_C64)
        for (int64_t i = 0; i < reals; i++) ((float *)x)[i] = -((float *)x)[i];
    else
        for (int64_t i = 0; i < reals; i++) ((double *)x)[i] = -((double *)x)[i];
}

// Eigenvectors are correct up to a factor of size one. That factor is determined by the first of the large elements, so
// that small differences in rounding do not flip whole vectors; the first within 10 % of the largest is chosen, since
// rounding may decide which of two nearly equal ones is larger.
double _Complex cpu_normalised_phase(const CpuMatrix *matrix, int64_t n, const void *x) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, cabs(cpu_matrix_get(matrix, x, i)));
    for (int64_t i = 0; i < n; i++) {
        const double _Complex value = cpu_matrix_get(matrix, x, i);
        const double size = cabs(value);
        if (size > 0.9 * largest) return conj(value) / size;
    }
    return 1;
}

// ---- triangles

// Describes the product between the halves.
static CpuProduct between_halves(HloType type, CpuFeatures features, int64_t n, int64_t count, int64_t m_stride,
                                 int64_t y_stride) {
    const int64_t half = cpu_triangle_half(n);
    assert(n > CPU_TRIANGLE && half < n && n - half <= n / 2); /* cpu_triangle_bytes() relies on it */
    return (CpuProduct){.type = type,
                        .features = features,
                        .accumulate = true,
                        .m = n - half,
                        .n = count,
                        .k = half,
                        .a_m_stride = m_stride,
                        .a_k_stride = 1,
                        .b_k_stride = y_stride,
                        .b_n_stride = 1,
                        .ldc = y_stride};
}

size_t cpu_triangle_bytes(HloType type, int64_t n, int64_t count) {
    if (n <= CPU_TRIANGLE) return 64;
    CpuProduct product = between_halves(type, CPU_FEATURES_AMX, n, count, n, count);
    product.m = n / 2;  // a smaller part can be split into more equal halves
    return cpu_product_scratch_bytes(&product);
}

// Divide and conquer: solve the upper half, subtract its part from the lower half by one product, solve the lower half.
// Nearly all of the work is then in products, which are fast.
void cpu_triangle_solve(const CpuMatrix *matrix, int64_t n, const void *m, int64_t m_stride, bool unit, int64_t count,
                        void *y, int64_t y_stride, void *scratch) {
    if (n <= CPU_TRIANGLE) {
        matrix->triangle->solve(n, m, m_stride, unit, count, y, y_stride);
        return;
    }
    const int64_t half = cpu_triangle_half(n);
    const CpuProduct product = between_halves(matrix->type, matrix->features, n, count, m_stride, y_stride);
    char *rest = cpu_matrix_at(matrix, y, half * y_stride);
    cpu_triangle_solve(matrix, half, m, m_stride, unit, count, y, y_stride, scratch);
    cpu_product_serial(&product, rest, cpu_matrix_at(matrix, m, half * m_stride), y, scratch);
    cpu_triangle_solve(matrix, n - half, cpu_matrix_at(matrix, m, half * m_stride + half), m_stride, unit, count, rest,
                       y_stride, scratch);
}

// ---- reflections

// Scales up a vector so small that quotients of its elements would be those of subnormal numbers; returns the factor, a
// power of two.
static double raise_faint(const CpuMatrix *matrix, int64_t n, void *x, double size) {
    const bool narrow = matrix->type == HLO_F32 || matrix->type == HLO_C64;
    if (!(size > 0) || size > (narrow ? 1e-30 : 1e-280)) return 1;
    const double factor = narrow ? 0x1p64 : 0x1p300;
    for (int64_t i = 0; i < n; i++) cpu_matrix_set(matrix, x, i, cpu_matrix_get(matrix, x, i) * factor);
    return factor;
}

// Like LAPACK's larfg: replaces x = (alpha, y) by v = (1, y / (alpha - beta)), beta = -sign(re alpha) |x|, and returns
// tau = (beta - alpha) / beta, so that (1 - conj(tau) v v^H) x = (beta, 0). tau is 0 if there is nothing to reflect.
// Columns near the smallest numbers are scaled up first, or the norm would lose its digits.
double _Complex cpu_reflection(const CpuMatrix *matrix, int64_t n, void *x, double *beta) {
    double _Complex alpha = cpu_matrix_get(matrix, x, 0);
    double below = euclidean_norm(matrix, n - 1, cpu_matrix_at(matrix, x, 1));
    const double raised = raise_faint(matrix, n, x, hypot(cabs(alpha), below));
    if (raised != 1) {
        alpha = cpu_matrix_get(matrix, x, 0);
        below = euclidean_norm(matrix, n - 1, cpu_matrix_at(matrix, x, 1));
    }
    *beta = creal(alpha) / raised;
    cpu_matrix_set(matrix, x, 0, 1);
    if (below == 0 && cimag(alpha) == 0) {
        memset(cpu_matrix_at(matrix, x, 1), 0, (size_t)((n - 1) * matrix->width));
        return 0;
    }
    const double size = -copysign(hypot(cabs(alpha), below), creal(alpha));
    *beta = size / raised;
    cpu_matrix_divide(matrix, n - 1, alpha - size, cpu_matrix_at(matrix, x, 1));
    return CMPLX((size - creal(alpha)) / size, -cimag(alpha) / size);
}

// Returns the memory of the larger product of one stripe, on the instruction set that needs most.
static size_t stripe_product_bytes(HloType type, int64_t rows) {
    const CpuFeatures any = CPU_FEATURES_AMX;
    const CpuProduct inner = {
        .type = type, .features = any, .m = CPU_PANEL, .n = CPU_STRIPE, .k = rows, .ldc = CPU_STRIPE};
    const CpuProduct outer = {
        .type = type, .features = any, .m = rows, .n = CPU_STRIPE, .k = CPU_PANEL, .ldc = CPU_STRIPE};
    const size_t a = cpu_product_scratch_bytes(&inner), b = cpu_product_scratch_bytes(&outer);
    return a > b ? a : b;
}

// Returns the bytes of two blocks of CPU_PANEL x CPU_STRIPE elements and the products' scratch memory.
static size_t stripe_bytes(HloType type, int64_t rows) {
    return 2 * cpu_work_bytes(CPU_PANEL * CPU_STRIPE, (size_t)hlo_type_bytes(type)) + stripe_product_bytes(type, rows);
}

size_t cpu_reflections_bytes(const CpuPool *pool, HloType type, int64_t rows) {
    const size_t width = (size_t)hlo_type_bytes(type);
    return 2 * cpu_work_bytes(CPU_PANEL * rows, width) + 2 * cpu_work_bytes(CPU_PANEL * CPU_PANEL, width) +
           cpu_work_bytes(cpu_pool_worker_count(pool), stripe_bytes(type, rows));
}

void cpu_reflections_new(CpuMatrix *matrix, int64_t rows, CpuReflections *block) {
    const size_t width = (size_t)matrix->width;
    block->v = cpu_matrix_work(matrix, CPU_PANEL * rows, width);
    block->conjugate = matrix->is_complex ? cpu_matrix_work(matrix, CPU_PANEL * rows, width) : block->v;
    block->t = cpu_matrix_work(matrix, CPU_PANEL * CPU_PANEL, width);
    block->adjoint = cpu_matrix_work(matrix, CPU_PANEL * CPU_PANEL, width);
    block->stripe_each = stripe_bytes(matrix->type, rows);
    block->stripe = cpu_matrix_work(matrix, cpu_pool_worker_count(matrix->pool), block->stripe_each);
}

// Computes V^H V in the stripes' scratch memory, which is unused now.
static char *inner_products(const CpuMatrix *matrix, const CpuReflections *block) {
    const int64_t count = block->count, rows = block->rows;
    const CpuProduct product = {.type = matrix->type,
                                .features = matrix->features,
                                .m = count,
                                .n = count,
                                .k = rows,
                                .a_m_stride = rows,
                                .a_k_stride = 1,
                                .b_k_stride = 1,
                                .b_n_stride = rows,
                                .ldc = count};
    char *inner = block->stripe;
    cpu_product_serial(&product, inner, block->conjugate, block->v,
                       inner + 2 * cpu_work_bytes(CPU_PANEL * CPU_STRIPE, (size_t)matrix->width));
    return inner;
}

// Column i of T is -tau_i T (V^H v_i) above its diagonal. Columns of T are stored as rows here, as sums over columns
// have no dependency chains.
#define MAKE_T(name, T, MULTIPLY, NARROW)                                                                             \
    static void name(const CpuMatrix *matrix, T(*t)[CPU_PANEL], const char *inner, int64_t count, const void *taus) { \
        for (int64_t i = 0; i < count; i++) {                                                                         \
            const T tau = NARROW(cpu_matrix_get(matrix, taus, i));                                                    \
            for (int64_t j = 0; j < i; j++) {                                                                         \
                const T overlap = NARROW(cpu_matrix_get(matrix, inner, j * count + i));                               \
                for (int64_t r = 0; r <= j; r++) t[i][r] += MULTIPLY(t[j][r], overlap);                               \
            }                                                                                                         \
            for (int64_t r = 0; r < i; r++) t[i][r] = -MULTIPLY(tau, t[i][r]);                                        \
            t[i][i] = tau;                                                                                            \
        }                                                                                                             \
    }
#define TIMES(a, b) ((a) * (b))
#define SAME(x) (x)
MAKE_T(make_real_t, double, TIMES, creal)
MAKE_T(make_complex_t, double _Complex, hlo_complex_multiply, SAME)

// Computes T and its adjoint, negated, as apply_stripe() requires.
static void make_t(const CpuMatrix *matrix, CpuReflections *block, const void *taus) {
    const int64_t count = block->count;
    double real[CPU_PANEL][CPU_PANEL] = {{0}};
    double _Complex both[CPU_PANEL][CPU_PANEL];
    assert(count <= CPU_PANEL);
    const char *inner = inner_products(matrix, block);
    if (matrix->is_complex) {
        memset(both, 0, sizeof both);
        make_complex_t(matrix, both, inner, count, taus);
    } else
        make_real_t(matrix, real, inner, count, taus);
    for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < count; c++) {
            const double _Complex value = matrix->is_complex ? both[c][r] : real[c][r];
            cpu_matrix_set(matrix, block->t, r * count + c, -value);
            cpu_matrix_set(matrix, block->adjoint, c * count + r, -conj(value));
        }
}

void cpu_reflections_load(const CpuMatrix *matrix, CpuReflections *block, int64_t rows, int64_t count, const void *v,
                          int64_t stride, const void *taus) {
    block->rows = rows;
    block->count = count;
    for (int64_t j = 0; j < count; j++) {
        char *to = cpu_matrix_at(matrix, block->v, j * rows);
        memset(to, 0, (size_t)(j * matrix->width));
        memcpy(to + (j + 1) * matrix->width, cpu_matrix_at(matrix, v, j * stride + j + 1),
               (size_t)((rows - j - 1) * matrix->width));
        cpu_matrix_set(matrix, to, j, 1);
    }
    if (matrix->is_complex) cpu_matrix_conjugate(matrix, count * rows, block->conjugate, block->v);
    make_t(matrix, block, taus);
}

typedef struct ApplyJob {
    const CpuMatrix *matrix;
    const CpuReflections *block;
    const void *t;
    char *c;
    int64_t columns, stride;
} ApplyJob;

// Computes c += V (-T (V^H c)) for the columns of one stripe.
static void apply_stripe(const ApplyJob *job, int64_t first, int64_t columns, char *work) {
    const CpuReflections *block = job->block;
    const CpuMatrix *matrix = job->matrix;
    const size_t each = cpu_work_bytes(CPU_PANEL * CPU_STRIPE, (size_t)matrix->width);
    char *overlap = work, *scaled = work + each, *scratch = scaled + each;
    char *c = job->c + first * matrix->width;
    CpuProduct product = {.type = matrix->type,
                          .features = matrix->features,
                          .m = block->count,
                          .n = columns,
                          .k = block->rows,
                          .a_m_stride = block->rows,
                          .a_k_stride = 1,
                          .b_k_stride = job->stride,
                          .b_n_stride = 1,
                          .ldc = columns};
    cpu_product_serial(&product, overlap, block->conjugate, c, scratch);
    product.k = product.a_m_stride = block->count;
    product.b_k_stride = columns;
    cpu_product_serial(&product, scaled, job->t, overlap, scratch);
    product.m = product.a_k_stride = block->rows;
    product.a_m_stride = 1;
    product.ldc = job->stride;
    product.accumulate = true;
    cpu_product_serial(&product, c, block->v, scaled, scratch);
}

// A unit is a stripe of columns.
static void apply_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const ApplyJob *job = argument;
    for (int64_t s = begin; s < end; s++) {
        const int64_t first = s * CPU_STRIPE, left = job->columns - first;
        apply_stripe(job, first, left < CPU_STRIPE ? left : CPU_STRIPE,
                     job->block->stripe + (size_t)worker * job->block->stripe_each);
    }
}

void cpu_reflections_apply(const CpuMatrix *matrix, const CpuReflections *block, bool adjoint, void *c, int64_t columns,
                           int64_t stride) {
    ApplyJob job = {matrix, block, adjoint ? block->adjoint : block->t, c, columns, stride};
    cpu_pool_parallel_for_grain(matrix->pool, hlo_divide_up(columns, CPU_STRIPE), 1, apply_task, &job);
}
