// SPDX-License-Identifier: Apache-2.0
// LU with row exchanges and QR by reflections, in panels of columns: a panel is transposed into a separate buffer, so
// that its columns are contiguous in memory; everything to its right is updated by matrix products, in stripes of
// columns over the pool.
//
//            first
//     +-------+---+-----------+
//     | done  | U |           |    LU, one step of CPU_PANEL columns:
//     +-------+---+-----------+      factor_panel()   the panel P by itself, pivot by pivot: P = L U, rows exchanged
//     |       |   |  U' <- L^-1      update_stripe()  in every other stripe the same exchanges; to the right
//     | L     | P |-----------+                       U' := L^-1 (rows of the panel), then rest := rest - P_below U'
//     |       |   |  rest     |
//     +-------+---+-----------+    Almost all of the work is that last product.
//
// QR does the same with reflections H = 1 - tau v v^H for a panel: those of a panel are applied to the rest as one
// block (CpuReflections, the compact WY form: 1 - V T V^H). The results are stored as by LAPACK's getrf, geqrf and
// orgqr: factors and the v below the diagonal, in place in the matrix.
//
// Small matrices of a batch are factored side by side (abreast.h).
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/abreast.h"
#include "targets/cpu/dense/lapack.h"
#include "targets/cpu/dense/linalg.h"
#include "targets/cpu/dense/matrix.h"

// ---- LU

typedef struct LuJob {
    int64_t rows, columns;
    char *factors;
    const char *in;
    int32_t *pivots, *permutation, *info;
    size_t stripe_each;
    const CpuBlas *blas;  // NULL: our own kernels
} LuJob;

// Factors the transposed panel (columns x rows): pivot[j] is counted from the panel's first row. Returns the number of
// the first column without a pivot, counted from 1, or 0.
static int64_t factor_panel(const CpuMatrix *matrix, char *panel, int64_t rows, int64_t columns, int64_t *pivot) {
    assert(rows >= 0 && columns >= 0);
    int64_t singular = 0;
    for (int64_t j = 0; j < columns && j < rows; j++) {
        char *column = cpu_matrix_at(matrix, panel, j * rows), *below = cpu_matrix_at(matrix, column, j + 1);
        pivot[j] = j + cpu_matrix_largest(matrix, rows - j, cpu_matrix_at(matrix, column, j));
        if (pivot[j] != j)
            cpu_matrix_swap_strided(matrix, columns, rows, cpu_matrix_at(matrix, panel, j),
                                    cpu_matrix_at(matrix, panel, pivot[j]));
        const double _Complex value = cpu_matrix_get(matrix, column, j);
        if (value == 0 && !singular) singular = j + 1;
        if (value == 0) continue;
        cpu_matrix_divide(matrix, rows - j - 1, value, below);
        for (int64_t c = j + 1; c < columns; c++) {
            const char *row = cpu_matrix_at(matrix, panel, c * rows);
            matrix->vector->axpy(rows - j - 1, -cpu_matrix_get(matrix, row, j), below,
                                 cpu_matrix_at(matrix, row, j + 1));
        }
    }
    return singular;
}

// One panel's effect on the rest of the matrix.
typedef struct LuUpdate {
    const CpuMatrix *matrix;
    char *a;               // row `first` of the matrix
    const char *panel;     // factored
    const char *negative;  // of the panel
    const int64_t *pivot;
    int64_t rows, count, first, columns;
    char *scratch;
    size_t scratch_each;
} LuUpdate;

// Exchanges rows in columns [from, to); to the right of the panel also solves with its triangle and subtracts the
// product from the rows below.
static void update_stripe(const LuUpdate *u, int64_t from, int64_t to, char *scratch) {
    assert(from >= 0 && from <= to);
    const CpuMatrix *matrix = u->matrix;
    for (int64_t j = 0; j < u->count; j++)
        if (u->pivot[j] != j)
            cpu_matrix_swap(matrix, to - from, cpu_matrix_at(matrix, u->a, j * u->columns + from),
                            cpu_matrix_at(matrix, u->a, u->pivot[j] * u->columns + from));
    if (from < u->first) return;
    for (int64_t i = 1; i < u->count; i++)
        for (int64_t j = 0; j < i; j++)
            matrix->vector->axpy(to - from, cpu_matrix_get(matrix, u->negative, j * u->rows + i),
                                 cpu_matrix_at(matrix, u->a, j * u->columns + from),
                                 cpu_matrix_at(matrix, u->a, i * u->columns + from));
    const CpuProduct product = {.type = matrix->type,
                                .features = matrix->features,
                                .accumulate = true,
                                .m = u->rows - u->count,
                                .n = to - from,
                                .k = u->count,
                                .a_m_stride = 1,
                                .a_k_stride = u->rows,
                                .b_k_stride = u->columns,
                                .b_n_stride = 1,
                                .ldc = u->columns};
    cpu_product_serial(&product, cpu_matrix_at(matrix, u->a, u->count * u->columns + from),
                       cpu_matrix_at(matrix, u->negative, u->count), cpu_matrix_at(matrix, u->a, from), scratch);
}

// The stripes left of the panel come first, then those to its right.
static void update_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const LuUpdate *u = argument;
    const int64_t left = hlo_divide_up(u->first, CPU_STRIPE), right = u->first + u->count;
    for (int64_t s = begin; s < end; s++) {
        const int64_t from = s < left ? s * CPU_STRIPE : right + (s - left) * CPU_STRIPE;
        const int64_t to = hlo_smaller(from + CPU_STRIPE, s < left ? u->first : u->columns);
        update_stripe(u, from, to, u->scratch + (size_t)worker * u->scratch_each);
    }
}

// Factors by panels of CPU_PANEL columns: factoring a panel is slow and small, updating the rest is a product and fast.
// Exchanges of rows are applied to whole stripes, left of the panel too, so that the factors come out in order. Returns
// the number of the first column without a pivot, counted from 1, or 0.
static int64_t factor_panels(CpuMatrix *matrix, const LuJob *job, int64_t index) {
    const int64_t rows = job->rows, columns = job->columns, steps = hlo_smaller(rows, columns), size = rows * columns;
    char *a = job->factors + index * size * matrix->width,
         *panel = cpu_matrix_work(matrix, rows * CPU_PANEL, matrix->width);
    int64_t pivot[CPU_PANEL], singular = 0;
    LuUpdate update = {.matrix = matrix, .panel = panel, .negative = panel, .pivot = pivot, .columns = columns};
    update.scratch_each = job->stripe_each;
    update.scratch = cpu_matrix_work(matrix, cpu_pool_worker_count(matrix->pool), job->stripe_each);
    if (a != job->in + index * size * matrix->width)
        memcpy(a, job->in + index * size * matrix->width, (size_t)(size * matrix->width));
    int32_t *pivots = job->pivots + index * steps;
    for (int64_t k = 0; k < steps; k += CPU_PANEL) {
        const int64_t count = hlo_smaller(CPU_PANEL, steps - k), left = rows - k;
        update.a = cpu_matrix_at(matrix, a, k * columns);
        matrix->vector->turn(left, count, panel, left, cpu_matrix_at(matrix, update.a, k), columns);
        const int64_t bad = factor_panel(matrix, panel, left, count, pivot);
        if (bad && !singular) singular = k + bad;
        matrix->vector->turn(count, left, cpu_matrix_at(matrix, update.a, k), columns, panel, left);
        cpu_matrix_negate(matrix, count * left, panel);
        update.rows = left, update.count = count, update.first = k;
        const int64_t stripes = hlo_divide_up(k, CPU_STRIPE) + hlo_divide_up(columns - k - count, CPU_STRIPE);
        cpu_pool_parallel_for_grain(matrix->pool, stripes, 1, update_task, &update);
        for (int64_t j = 0; j < count; j++) pivots[k + j] = (int32_t)(k + pivot[j]);
    }
    return singular;
}

// Stores what is known of a matrix beside its factors.
static void finish_lu(const LuJob *job, int64_t index, int64_t singular) {
    const int64_t rows = job->rows, steps = hlo_smaller(rows, job->columns);
    const int32_t *pivots = job->pivots + index * steps;
    if (job->info) job->info[index] = (int32_t)singular;
    if (!job->permutation) return;
    int32_t *order = job->permutation + index * rows;
    for (int64_t i = 0; i < rows; i++) order[i] = (int32_t)i;
    for (int64_t j = 0; j < steps; j++) {
        const int32_t held = order[j];
        order[j] = order[pivots[j]];
        order[pivots[j]] = held;
    }
}

static void lu_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const LuJob *job = argument;
    const int64_t rows = job->rows, first = index * rows * job->columns;
    int32_t *pivots = job->pivots + index * hlo_smaller(rows, job->columns);
    int64_t singular;
    if (!job->blas || !cpu_lapack_lu(*matrix, job->blas, rows, job->columns, cpu_matrix_at(matrix, job->factors, first),
                                     pivots, &singular, cpu_matrix_at(matrix, job->in, first)))
        singular = factor_panels(matrix, job, index);
    finish_lu(job, index, singular);
}

static void lu_together(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *argument, int64_t first,
                        int64_t count) {
    const LuJob *job = argument;
    const int64_t lanes = kernels->lanes, columns = job->columns, size = job->rows * columns;
    void *a = cpu_abreast_load(matrix, kernels, size, job->in, first, count);
    int32_t *pivots = cpu_matrix_work(matrix, columns * lanes, sizeof *pivots);
    int32_t *singular = cpu_matrix_work(matrix, lanes, sizeof *singular);
    kernels->lu(job->rows, columns, a, pivots, singular);
    cpu_abreast_store(matrix, kernels, size, job->factors, first, count, a);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < columns; j++) job->pivots[(first + i) * columns + j] = pivots[j * lanes + i];
        finish_lu(job, first + i, singular[i]);
    }
}

static size_t lu_together_bytes(const CpuAbreastType *kernels, HloType type, int64_t rows, int64_t columns) {
    return cpu_abreast_bytes(kernels, type, rows * columns) +
           cpu_work_bytes((columns + 1) * kernels->lanes, sizeof(int32_t)) + 64;
}

HloStatus cpu_lu(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns, void *factors,
                 int32_t *pivots, int32_t *permutation, int32_t *info, const void *in) {
    assert(batch >= 0 && rows >= 0 && columns >= 0);
    const CpuProduct product = {.type = type, .features = CPU_FEATURES_AMX, .m = rows, .n = CPU_STRIPE, .k = CPU_PANEL};
    LuJob job = {rows, columns, factors, in, pivots, permutation, info, cpu_product_scratch_bytes(&product), NULL};
    HLO_TRY(cpu_blas_find(pool, CPU_BLAS_LU, type, rows, columns, &job.blas));
    const size_t bytes = cpu_work_bytes(rows * CPU_PANEL, (size_t)hlo_type_bytes(type)) +
                         cpu_work_bytes(cpu_pool_worker_count(pool), job.stripe_each);
    const double cost = (double)rows * (double)columns * (double)hlo_smaller(rows, columns);
    const CpuAbreastType *kernels = cpu_abreast_kernels(type, cpu_pool_features(pool), batch, rows, columns);
    if (kernels && !job.blas && columns <= rows)
        return cpu_abreast_batch(pool, kernels, type, batch, bytes + lu_together_bytes(kernels, type, rows, columns),
                                 cost, lu_task, lu_together, &job);
    return cpu_lapack_batch(job.blas, pool, type, batch, bytes, cpu_lapack_lu_bytes(type, rows, columns), cost, lu_task,
                            &job);
}

// ---- QR

typedef struct QrJob {
    int64_t rows, columns, count;  // count: of reflections
    char *out, *taus;
    const char *in;
    const CpuBlas *blas;  // NULL: our own kernels
} QrJob;

// Reduces the transposed panel (columns x rows) to its triangle, reflection by reflection.
static void reflect_panel(const CpuMatrix *matrix, char *panel, int64_t rows, int64_t columns, char *taus) {
    assert(rows >= 0 && columns >= 0);
    for (int64_t j = 0; j < columns; j++) {
        char *v = cpu_matrix_at(matrix, panel, j * rows + j);
        double beta;
        const double _Complex tau = cpu_reflection(matrix, rows - j, v, &beta);
        for (int64_t c = j + 1; c < columns && tau != 0; c++) {
            char *x = cpu_matrix_at(matrix, panel, c * rows + j);
            const double _Complex overlap = matrix->vector->dot(rows - j, v, x);
            matrix->vector->axpy(rows - j, -hlo_complex_multiply(conj(tau), overlap), v, x);
        }
        cpu_matrix_set(matrix, v, 0, beta);
        cpu_matrix_set(matrix, taus, j, tau);
    }
}

// Computes each panel's reflections, stores them in the matrix, and applies them (conjugated) to all columns to the
// right.
static void qr_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const QrJob *job = argument;
    const int64_t rows = job->rows, columns = job->columns, size = rows * columns;
    char *a = cpu_matrix_at(matrix, job->out, index * size),
         *taus = cpu_matrix_at(matrix, job->taus, index * job->count);
    const char *in = cpu_matrix_at(matrix, job->in, index * size);
    if (job->blas && cpu_lapack_qr(*matrix, job->blas, rows, columns, a, taus, in)) return;
    char *panel = cpu_matrix_work(matrix, rows * CPU_PANEL, (size_t)matrix->width);
    CpuReflections block;
    cpu_reflections_new(matrix, rows, &block);
    if (a != in) memcpy(a, in, (size_t)(size * matrix->width));
    for (int64_t k = 0; k < job->count; k += CPU_PANEL) {
        const int64_t count = hlo_smaller(CPU_PANEL, job->count - k), left = rows - k;
        char *corner = cpu_matrix_at(matrix, a, k * columns + k), *tau = cpu_matrix_at(matrix, taus, k);
        matrix->vector->turn(left, count, panel, left, corner, columns);
        reflect_panel(matrix, panel, left, count, tau);
        matrix->vector->turn(count, left, corner, columns, panel, left);
        if (k + count == columns) break;
        cpu_reflections_load(matrix, &block, left, count, panel, left, tau);
        cpu_reflections_apply(matrix, &block, true, cpu_matrix_at(matrix, corner, count), columns - k - count, columns);
    }
}

static size_t qr_bytes(const CpuPool *pool, HloType type, int64_t rows) {
    return cpu_work_bytes(rows * CPU_PANEL, (size_t)hlo_type_bytes(type)) + cpu_reflections_bytes(pool, type, rows);
}

static void qr_together(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *argument, int64_t first,
                        int64_t count) {
    const QrJob *job = argument;
    const int64_t size = job->rows * job->columns;
    void *a = cpu_abreast_load(matrix, kernels, size, job->in, first, count);
    void *taus = cpu_matrix_work(matrix, job->count * kernels->lanes, (size_t)matrix->width);
    kernels->qr(job->rows, job->columns, a, taus);
    cpu_abreast_store(matrix, kernels, size, job->out, first, count, a);
    cpu_abreast_store(matrix, kernels, job->count, job->taus, first, count, taus);
}

static void householder_together(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *argument, int64_t first,
                                 int64_t count) {
    const QrJob *job = argument;
    const int64_t size = job->rows * job->columns;
    const void *factors = cpu_abreast_load(matrix, kernels, size, job->in, first, count),
               *taus = cpu_abreast_load(matrix, kernels, job->count, job->taus, first, count);
    void *q = cpu_matrix_work(matrix, size * kernels->lanes, (size_t)matrix->width);
    kernels->householder_product(job->rows, job->columns, job->count, factors, taus, q);
    cpu_abreast_store(matrix, kernels, size, job->out, first, count, q);
}

// Runs one of both for matrices that are small enough; false if they are not.
static bool run_together(CpuPool *pool, HloType type, int64_t batch, double cost, CpuAbreastTask *task,
                         const QrJob *job, HloStatus *status) {
    const CpuAbreastType *kernels = cpu_abreast_any(type, cpu_pool_features(pool));
    if (!kernels || job->blas || job->rows > CPU_ABREAST_QR || job->columns > CPU_ABREAST_QR) return false;
    const size_t bytes =
        2 * cpu_abreast_bytes(kernels, type, job->rows * job->columns) + cpu_abreast_bytes(kernels, type, job->count);
    *status = cpu_abreast_batch(pool, kernels, type, batch, bytes, cost, NULL, task, job);
    return true;
}

HloStatus cpu_qr(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns, void *factors, void *taus,
                 const void *in) {
    QrJob job = {rows, columns, hlo_smaller(rows, columns), factors, taus, in, NULL};
    HLO_TRY(cpu_blas_find(pool, CPU_BLAS_QR, type, rows, columns, &job.blas));
    const double cost = 2.0 * (double)rows * (double)columns * (double)job.count;
    HloStatus status;
    if (run_together(pool, type, batch, cost, qr_together, &job, &status)) return status;
    return cpu_lapack_batch(job.blas, pool, type, batch, qr_bytes(pool, type, rows),
                            cpu_lapack_qr_bytes(type, rows, columns), cost, qr_task, &job);
}

// Applies blocks from the last to the first: each one affects the columns from its own on, as those before are still
// unit vectors.
static void householder_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const QrJob *job = argument;
    const int64_t rows = job->rows, columns = job->columns, size = rows * columns;
    char *q = cpu_matrix_at(matrix, job->out, index * size),
         *taus = cpu_matrix_at(matrix, job->taus, index * job->count);
    const char *in = cpu_matrix_at(matrix, job->in, index * size);
    if (job->blas && cpu_lapack_householder_product(*matrix, job->blas, rows, columns, job->count, q, in, taus)) return;
    char *panel = cpu_matrix_work(matrix, rows * CPU_PANEL, (size_t)matrix->width);
    CpuReflections block;
    cpu_reflections_new(matrix, rows, &block);
    memset(q, 0, (size_t)(size * matrix->width));
    for (int64_t i = 0; i < rows && i < columns; i++) cpu_matrix_set(matrix, q, i * columns + i, 1);
    for (int64_t k = (job->count - 1) / CPU_PANEL * CPU_PANEL; job->count && k >= 0; k -= CPU_PANEL) {
        const int64_t count = hlo_smaller(CPU_PANEL, job->count - k), left = rows - k, corner = k * columns + k;
        matrix->vector->turn(left, count, panel, left, cpu_matrix_at(matrix, in, corner), columns);
        cpu_reflections_load(matrix, &block, left, count, panel, left, cpu_matrix_at(matrix, taus, k));
        cpu_reflections_apply(matrix, &block, false, cpu_matrix_at(matrix, q, corner), columns - k, columns);
    }
}

HloStatus cpu_householder_product(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns,
                                  int64_t count, void *q, const void *factors, const void *taus) {
    QrJob job = {rows, columns, count, q, (char *)taus, factors, NULL};
    HLO_TRY(cpu_blas_find(pool, CPU_BLAS_Q, type, count, rows, &job.blas));
    const double cost = 4.0 * (double)rows * (double)columns * (double)count;
    HloStatus status;
    if (run_together(pool, type, batch, cost, householder_together, &job, &status)) return status;
    return cpu_lapack_batch(job.blas, pool, type, batch, qr_bytes(pool, type, rows),
                            cpu_lapack_qr_bytes(type, rows, columns), cost, householder_task, &job);
}
