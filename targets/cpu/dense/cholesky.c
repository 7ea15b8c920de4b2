// SPDX-License-Identifier: Apache-2.0
// Cholesky factors and triangular systems: matrices are halved until small triangles are left, so that everything else
// is matrix products. Inside, a factor is an upper triangle: its rows, and the right-hand sides of systems with its
// adjoint, are then contiguous in memory. Small matrices of a batch are worked on side by side (abreast.h).
#include "targets/cpu/dense/linalg.h"

#include <assert.h>
#include <complex.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/abreast.h"
#include "targets/cpu/dense/lapack.h"
#include "targets/cpu/dense/matrix.h"

// Columns of right-hand sides, and rows of a triangle that is updated, per unit of work; squares that are transposed at
// a time, for the cache.
enum { kStripe = 128, kTile = 16 };

#define SAME(x) (x)

// The parts that depend on the element type. `conjugate` is empty for real types.
#define TRIANGLES(T, S, conjugate)                                                                              \
    /* to[i] = -conj(from[i]) */                                                                                \
    static void negate_adjoint_##S(T *to, const T *from, int64_t n) {                                           \
        for (int64_t i = 0; i < n; i++) to[i] = -conjugate(from[i]);                                            \
    }                                                                                                           \
    /* Stores a triangle for cpu_triangle_solve(), element (i, j) at a[i * down + j * right]. */                \
    static void load_system_##S(T *to, const T *a, int64_t n, int64_t down, int64_t right, bool adjoint) {      \
        for (int64_t i0 = 0; i0 < n; i0 += kTile)                                                               \
            for (int64_t j0 = 0; j0 <= i0; j0 += kTile)                                                         \
                for (int64_t i = i0; i < hlo_smaller(i0 + kTile, n); i++)                                       \
                    for (int64_t j = j0; j <= i && j < j0 + kTile; j++) {                                       \
                        const T value = adjoint ? conjugate(a[i * down + j * right]) : a[i * down + j * right]; \
                        to[i * n + j] = i == j ? value : -value;                                                \
                    }                                                                                           \
    }

TRIANGLES(float, f32, SAME)
TRIANGLES(double, f64, SAME)
TRIANGLES(float _Complex, c64, conjf)
TRIANGLES(double _Complex, c128, conj)

// Calls name_f32(...) and so on, by the matrix's type.
#define BY_TYPE(matrix, name, ...)                    \
    switch ((matrix)->type) {                         \
        case HLO_F32: name##_f32(__VA_ARGS__); break; \
        case HLO_F64: name##_f64(__VA_ARGS__); break; \
        case HLO_C64: name##_c64(__VA_ARGS__); break; \
        default: name##_c128(__VA_ARGS__); break;     \
    }

// Transposes a lower triangle, including the diagonal, into an upper one or the other way round.
static void turn_triangle(const CpuMatrix *matrix, int64_t n, void *to, int64_t to_stride, const void *from,
                          int64_t from_stride, bool from_lower) {
    for (int64_t i = 0; i < n; i += kTile)
        for (int64_t j = from_lower ? 0 : i; j < (from_lower ? i + 1 : n); j += kTile)
            matrix->vector->turn(hlo_smaller(kTile, n - i), hlo_smaller(kTile, n - j),
                                 cpu_matrix_at(matrix, to, j * to_stride + i), to_stride,
                                 cpu_matrix_at(matrix, from, i * from_stride + j), from_stride);
}

// ---- Cholesky

typedef struct CholeskyJob {
    int64_t n;
    bool lower;
    char *out;
    const char *in;
    size_t product_each;
    const CpuBlas *blas;  // NULL: our own kernels
} CholeskyJob;

// The factorisation of one matrix: a's upper triangle becomes the factor.
typedef struct Factoring {
    const CpuMatrix *matrix;
    int64_t stride;
    char *turned, *negative;  // room for the adjoint of half a factor, and for the negated part beside it
    char *product;            // scratch memory of products, for each worker
    size_t product_each;
    // The current step: the corner's first `half` rows are factored, `rest` are not.
    char *corner;
    int64_t half, rest;
} Factoring;

// Computes the rows beside the factored triangle, by stripes of columns: W_12 = W_11^-H A_12.
static void beside_task(void *argument, int64_t begin, int64_t end, int worker) {
    const Factoring *f = argument;
    for (int64_t s = begin; s < end; s++) {
        const int64_t first = s * kStripe;
        cpu_triangle_solve(f->matrix, f->half, f->turned, f->half, false, hlo_smaller(kStripe, f->rest - first),
                           cpu_matrix_at(f->matrix, f->corner, f->half + first), f->stride,
                           f->product + (size_t)worker * f->product_each);
    }
}

static CpuProduct below_product(const CpuMatrix *matrix, int64_t rows, int64_t columns, int64_t half, int64_t rest,
                                int64_t stride) {
    return (CpuProduct){.type = matrix->type,
                        .features = matrix->features,
                        .accumulate = true,
                        .m = rows,
                        .n = columns,
                        .k = half,
                        .a_m_stride = 1,
                        .a_k_stride = rest,
                        .b_k_stride = stride,
                        .b_n_stride = 1,
                        .ldc = stride};
}

// Updates the triangle below, by stripes of rows: A_22 -= W_12^H W_12.
static void below_task(void *argument, int64_t begin, int64_t end, int worker) {
    const Factoring *f = argument;
    for (int64_t s = begin; s < end; s++) {
        const int64_t first = s * kStripe, rows = hlo_smaller(kStripe, f->rest - first);
        const CpuProduct product = below_product(f->matrix, rows, f->rest - first, f->half, f->rest, f->stride);
        cpu_product_serial(&product, cpu_matrix_at(f->matrix, f->corner, (f->half + first) * (f->stride + 1)),
                           cpu_matrix_at(f->matrix, f->negative, first),
                           cpu_matrix_at(f->matrix, f->corner, f->half + first),
                           f->product + (size_t)worker * f->product_each);
    }
}

// Writes the adjoint of the factored triangle in the form that cpu_triangle_solve() requires.
static void turn_factor(const Factoring *f) {
    const CpuMatrix *matrix = f->matrix;
    turn_triangle(matrix, f->half, f->turned, f->half, f->corner, f->stride, false);
    for (int64_t i = 0; i < f->half; i++) {
        void *row = cpu_matrix_at(matrix, f->turned, i * f->half);
        BY_TYPE(matrix, negate_adjoint, row, row, i)
    }
}

// Factors the corner first, solves the part beside it with that, subtracts their product from the triangle below, and
// then factors the rest.
static void factor_upper(Factoring *f, char *corner, int64_t n) {
    if (n <= CPU_TRIANGLE) {
        f->matrix->triangle->factor(n, corner, f->stride);
        return;
    }
    const int64_t half = cpu_triangle_half(n), rest = n - half, stripes = hlo_divide_up(rest, kStripe);
    factor_upper(f, corner, half);
    f->corner = corner, f->half = half, f->rest = rest;
    turn_factor(f);
    cpu_pool_parallel_for_grain(f->matrix->pool, stripes, 1, beside_task, f);
    for (int64_t i = 0; i < half; i++)
        BY_TYPE(f->matrix, negate_adjoint, (void *)cpu_matrix_at(f->matrix, f->negative, i * rest),
                (const void *)cpu_matrix_at(f->matrix, corner, i * f->stride + half), rest)
    cpu_pool_parallel_claim(f->matrix->pool, stripes, below_task, f);
    factor_upper(f, cpu_matrix_at(f->matrix, corner, half * (f->stride + 1)), rest);
}

// Loads the upper triangle from the named one. A lower triangle is transposed, and conjugated since the factor of the
// adjoint is the adjoint of the factor.
static void load_upper(const CpuMatrix *matrix, int64_t n, bool lower, void *to, const void *from) {
    if (lower) turn_triangle(matrix, n, to, n, from, n, true);
    for (int64_t i = 0; i < n; i++) {
        void *diagonal = cpu_matrix_at(matrix, to, i * n + i);
        if (lower)
            cpu_matrix_conjugate(matrix, n - i, diagonal, diagonal);
        else
            memcpy(diagonal, cpu_matrix_at(matrix, from, i * n + i), (size_t)((n - i) * matrix->width));
    }
}

// Moves rows [i, i + kTile) of an upper triangle to columns of the lower one. The tile on the diagonal is copied first,
// as it is both source and target.
static void turn_row_of_tiles(const CpuMatrix *matrix, int64_t n, void *a, int64_t i) {
    double _Complex held[kTile * kTile];
    const int64_t rows = hlo_smaller(kTile, n - i);
    char *tile = cpu_matrix_at(matrix, a, i * n + i);
    matrix->vector->turn(rows, rows, held, kTile, tile, n);
    for (int64_t r = 0; r < rows; r++)
        memcpy(cpu_matrix_at(matrix, tile, r * n), cpu_matrix_at(matrix, held, r * kTile),
               (size_t)((r + 1) * matrix->width));
    if (n > i + rows)
        matrix->vector->turn(rows, n - i - rows, cpu_matrix_at(matrix, tile, rows * n), n,
                             cpu_matrix_at(matrix, tile, rows), n);
}

// Zeroes the part below the diagonal of an upper factor; or the part above it if the lower factor, its adjoint, is
// requested.
static void store_named(const CpuMatrix *matrix, int64_t n, bool lower, void *a) {
    if (lower) {
        for (int64_t i = 0; i < n; i += kTile) turn_row_of_tiles(matrix, n, a, i);
    }
    for (int64_t i = 0; i < n; i++) {
        if (lower) {
            cpu_matrix_conjugate(matrix, i + 1, cpu_matrix_at(matrix, a, i * n), cpu_matrix_at(matrix, a, i * n));
            memset(cpu_matrix_at(matrix, a, i * n + i + 1), 0, (size_t)((n - i - 1) * matrix->width));
        } else
            memset(cpu_matrix_at(matrix, a, i * n), 0, (size_t)(i * matrix->width));
    }
}

// Bounds the elements beside any factored part: fewer rows have fewer, however they are divided.
static int64_t most_beside(int64_t n) {
    return n * n / 4;
}

static void cholesky_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const CholeskyJob *job = argument;
    const int64_t n = job->n, half = n > CPU_TRIANGLE ? cpu_triangle_half(n) : 0, bytes = n * n * matrix->width;
    void *a = job->out + index * bytes;
    const void *in = job->in + index * bytes;
    if (job->blas && cpu_lapack_cholesky(*matrix, job->blas, n, job->lower, a, in)) return;
    Factoring f = {.matrix = matrix, .stride = n, .product_each = job->product_each};
    f.turned = cpu_matrix_work(matrix, half * half, (size_t)matrix->width);
    f.negative = cpu_matrix_work(matrix, most_beside(n), (size_t)matrix->width);
    f.product = cpu_matrix_work(matrix, cpu_pool_worker_count(matrix->pool), job->product_each);
    load_upper(matrix, n, job->lower, a, in);
    factor_upper(&f, a, n);
    store_named(matrix, n, job->lower, a);
}

static void cholesky_together(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *argument, int64_t first,
                              int64_t count) {
    const CholeskyJob *job = argument;
    const int64_t n = job->n;
    void *a = cpu_abreast_load(matrix, kernels, n * n, job->in, first, count);
    kernels->cholesky(n, job->lower, a);
    cpu_abreast_store(matrix, kernels, n * n, job->out, first, count, a);
}

// Bounds the memory of any product for a matrix of n rows: at most half the rows are beside or below a factored part.
static size_t factor_product_bytes(HloType type, int64_t n) {
    const CpuMatrix matrix = {.type = type, .features = CPU_FEATURES_AMX};
    if (n <= CPU_TRIANGLE) return 64;
    const CpuProduct below = below_product(&matrix, hlo_smaller(kStripe, n / 2), n / 2, cpu_triangle_half(n), n / 2, n);
    const size_t a = cpu_product_scratch_bytes(&below), b = cpu_triangle_bytes(type, n, kStripe);
    return a > b ? a : b;
}

// Allocates memory for the largest step before anything runs: workers must not fail to find any.
HloStatus cpu_cholesky(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, void *out, const void *in) {
    assert(batch >= 0 && n >= 0);
    assert(cpu_matrix_has(type)); /* narrower ones are widened before the kernel */
    if (batch == 0 || n == 0) return HLO_SUCCESS;
    assert(out != in); /* the named triangle is read while the other is written; empty arrays may share an address */
    CholeskyJob job = {n, lower, out, in, factor_product_bytes(type, n), NULL};
    HLO_TRY(cpu_blas_find(pool, CPU_BLAS_CHOLESKY, type, n, n, &job.blas));
    const int64_t half = n > CPU_TRIANGLE ? cpu_triangle_half(n) : 0;
    const size_t width = (size_t)hlo_type_bytes(type);
    const size_t bytes = cpu_work_bytes(half * half, width) + cpu_work_bytes(most_beside(n), width) +
                         cpu_work_bytes(cpu_pool_worker_count(pool), job.product_each);
    const double cost = (double)n * (double)n * (double)n / 3;
    const CpuAbreastType *kernels = cpu_abreast_kernels(type, cpu_pool_features(pool), batch, n, n);
    if (kernels && !job.blas)
        return cpu_abreast_batch(pool, kernels, type, batch, bytes + cpu_abreast_bytes(kernels, type, n * n), cost,
                                 cholesky_task, cholesky_together, &job);
    return cpu_lapack_batch(job.blas, pool, type, batch, bytes, cpu_lapack_cholesky_bytes(type, n), cost, cholesky_task,
                            &job);
}

// ---- triangular systems

typedef struct SolveJob {
    int64_t rows, columns, n, sides;  // of x; of the triangle; right-hand sides
    bool left_side, lower, unit_diagonal;
    CpuTranspose transpose;
    char *x;
    const char *a;
    size_t side_bytes, product_each;
    const CpuBlas *blas;  // NULL: our own kernels
} SolveJob;

// One system: the triangle is ready.
typedef struct Solving {
    const CpuMatrix *matrix;
    const SolveJob *job;
    char *x, *triangle;
    bool backwards;  // the triangle is upper: rows are taken from the last to the first
    char *work;      // for each worker: right-hand sides, and the products' scratch memory
} Solving;

// Moves some right-hand sides to rows of a separate matrix, in the order in which they are solved, or back.
static void move_sides(const Solving *s, char *y, int64_t first, int64_t count, bool back) {
    const CpuMatrix *matrix = s->matrix;
    const SolveJob *job = s->job;
    const int64_t n = job->n, ldx = job->columns;
    if (job->left_side) {
        for (int64_t i = 0; i < n; i++) {
            char *row = cpu_matrix_at(matrix, s->x, (s->backwards ? n - 1 - i : i) * ldx + first),
                 *held = cpu_matrix_at(matrix, y, i * count);
            memcpy(back ? row : held, back ? held : row, (size_t)(count * matrix->width));
        }
        return;
    }
    char *x = cpu_matrix_at(matrix, s->x, first * ldx);
    char *start = s->backwards ? cpu_matrix_at(matrix, y, (n - 1) * count) : y;
    const int64_t step = s->backwards ? -count : count;
    if (back)
        matrix->vector->turn(n, count, x, ldx, start, step);
    else
        matrix->vector->turn(count, n, start, step, x, ldx);
}

static void sides_task(void *argument, int64_t begin, int64_t end, int worker) {
    const Solving *s = argument;
    const SolveJob *job = s->job;
    char *y = s->work + (size_t)worker * (job->side_bytes + job->product_each), *scratch = y + job->side_bytes;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = part * kStripe, count = hlo_smaller(kStripe, job->sides - first);
        if (job->left_side && !s->backwards) {
            cpu_triangle_solve(s->matrix, job->n, s->triangle, job->n, job->unit_diagonal, count,
                               cpu_matrix_at(s->matrix, s->x, first), job->columns, scratch);
            continue;
        }
        move_sides(s, y, first, count, false);
        cpu_triangle_solve(s->matrix, job->n, s->triangle, job->n, job->unit_diagonal, count, y, count, scratch);
        move_sides(s, y, first, count, true);
    }
}

// Where a system's triangle is lower, perhaps after it is transposed, and how its elements are read.
typedef struct Direction {
    bool lower;
    int64_t start, down, right;
} Direction;

// X op(A) = B is op(A)^T X^T = B^T; an upper triangle is a lower one seen from its other end.
static Direction direction_of(const SolveJob *job) {
    const int64_t n = job->n;
    const bool turn = (job->transpose != CPU_NO_TRANSPOSE) != !job->left_side, lower = job->lower != turn;
    const int64_t sign = lower ? 1 : -1;
    return (Direction){lower, lower ? 0 : n * n - 1, sign * (turn ? 1 : n), sign * (turn ? n : 1)};
}

static void solve_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const SolveJob *job = argument;
    const int64_t n = job->n;
    const Direction at = direction_of(job);
    Solving s = {.matrix = matrix, .job = job, .backwards = !at.lower};
    s.x = cpu_matrix_at(matrix, job->x, index * job->rows * job->columns);
    if (job->blas &&
        cpu_lapack_solve(*matrix, job->blas, job->rows, job->columns, job->left_side, job->lower, job->unit_diagonal,
                         job->transpose, s.x, cpu_matrix_at(matrix, job->a, index * n * n)))
        return;
    s.triangle = cpu_matrix_work(matrix, n * n, (size_t)matrix->width);
    s.work = cpu_matrix_work(matrix, cpu_pool_worker_count(matrix->pool), job->side_bytes + job->product_each);
    const char *a = cpu_matrix_at(matrix, job->a, index * n * n + at.start);
    BY_TYPE(matrix, load_system, (void *)s.triangle, (const void *)a, n, at.down, at.right,
            job->transpose == CPU_ADJOINT)
    cpu_pool_parallel_for_grain(matrix->pool, hlo_divide_up(job->sides, kStripe), 1, sides_task, &s);
}

static void solve_together(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *argument, int64_t first,
                           int64_t count) {
    const SolveJob *job = argument;
    const int64_t n = job->n, size = job->rows * job->columns, step = job->left_side ? job->columns : 1;
    const Direction at = direction_of(job);
    const CpuAbreastPlaces places = {at.start,
                                     at.down,
                                     at.right,
                                     at.lower ? 0 : (n - 1) * step,
                                     at.lower ? step : -step,
                                     job->left_side ? 1 : job->columns};
    const void *a = cpu_abreast_load(matrix, kernels, n * n, job->a, first, count);
    void *x = cpu_abreast_load(matrix, kernels, size, job->x, first, count);
    kernels->solve(n, job->sides, job->unit_diagonal, places, a, x);
    cpu_abreast_store(matrix, kernels, size, job->x, first, count, x);
}

// Solves in place of b's copy: each worker takes a stripe of right sides, and solves it by halves of the triangle, of
// which all but the smallest are matrix products (cpu_triangle_solve()).
HloStatus cpu_triangular_solve(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns,
                               bool left_side, bool lower, bool unit_diagonal, CpuTranspose transpose, void *x,
                               const void *a, const void *b) {
    assert(batch >= 0 && rows >= 0 && columns >= 0);
    assert(cpu_matrix_has(type)); /* as above */
    if (batch == 0 || rows == 0 || columns == 0) return HLO_SUCCESS;
    const size_t width = (size_t)hlo_type_bytes(type);
    if (x != b) memcpy(x, b, (size_t)(batch * rows * columns) * width);
    SolveJob job = {.rows = rows,
                    .columns = columns,
                    .n = left_side ? rows : columns,
                    .sides = left_side ? columns : rows,
                    .left_side = left_side,
                    .lower = lower,
                    .unit_diagonal = unit_diagonal,
                    .transpose = transpose,
                    .x = x,
                    .a = a};
    HLO_TRY(cpu_blas_find(pool, CPU_BLAS_TRSM, type, rows, columns, &job.blas));
    const int64_t most = hlo_smaller(kStripe, job.sides);
    job.side_bytes = cpu_work_bytes(job.n * most, width);
    job.product_each = (cpu_triangle_bytes(type, job.n, most) + 63) / 64 * 64;
    const size_t bytes = cpu_work_bytes(job.n * job.n, width) +
                         cpu_work_bytes(cpu_pool_worker_count(pool), job.side_bytes + job.product_each);
    const double cost = (double)job.sides * (double)job.n * (double)job.n;
    const CpuAbreastType *kernels = cpu_abreast_kernels(type, cpu_pool_features(pool), batch, rows, columns);
    if (kernels && !job.blas)
        return cpu_abreast_batch(
            pool, kernels, type, batch,
            bytes + cpu_abreast_bytes(kernels, type, job.n * job.n) + cpu_abreast_bytes(kernels, type, rows * columns),
            cost, solve_task, solve_together, &job);
    return cpu_lapack_batch(job.blas, pool, type, batch, bytes, 0, cost, solve_task, &job);
}
