// SPDX-License-Identifier: Apache-2.0
// Cholesky factors and triangular systems: blocked, so that all but the diagonal blocks are matrix products. Inside a
// block the loops run along right-hand sides or rows, which are neighbours in memory.
#include "targets/cpu/linalg.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "hlo/base/memory.h"
#include "targets/cpu/matmul_internal.h"

enum { kBlock = 32 };

static size_t round_64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

#define SAME(x) (x)

// Everything that depends on the element type. `conjugate` and `real_part` are identities for real types.
#define LINEAR_ALGEBRA(T, S, conjugate, real_part, root)                                                               \
    /* The lower factor of one block in place. */                                                                      \
    static void factor_block_##S(T *a, int64_t n, int64_t stride) {                                                    \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t j = 0; j <= i; j++) {                                                                         \
                T sum = a[i * stride + j];                                                                             \
                for (int64_t k = 0; k < j; k++) sum -= a[i * stride + k] * conjugate(a[j * stride + k]);               \
                if (i == j)                                                                                            \
                    a[i * stride + i] = real_part(sum) > 0 ? root(real_part(sum)) : NAN;                               \
                else                                                                                                   \
                    a[i * stride + j] = sum / a[j * stride + j];                                                       \
            }                                                                                                          \
    }                                                                                                                  \
    /* panel (rows x n) = panel * L^-H; `turned` (n x rows) and `negative` (rows x n) get its transpose and -conj. */  \
    static void solve_panel_##S(const T *l, T *panel, int64_t rows, int64_t n, int64_t stride, T *turned,              \
                                T *negative) {                                                                         \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            T *column = turned + j * rows;                                                                             \
            for (int64_t r = 0; r < rows; r++) column[r] = panel[r * stride + j];                                      \
            for (int64_t k = 0; k < j; k++) {                                                                          \
                const T factor = conjugate(l[j * stride + k]);                                                         \
                for (int64_t r = 0; r < rows; r++) column[r] -= turned[k * rows + r] * factor;                         \
            }                                                                                                          \
            for (int64_t r = 0; r < rows; r++) {                                                                       \
                column[r] /= l[j * stride + j];                                                                        \
                panel[r * stride + j] = column[r];                                                                     \
                negative[r * n + j] = -conjugate(column[r]);                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Copies the named triangle so that it becomes the lower one (the adjoint of an upper one), zeros above. */       \
    static void load_triangle_##S(T *to, const T *from, int64_t n, bool lower) {                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t j = 0; j < n; j++)                                                                            \
                to[i * n + j] = j > i ? 0 : lower ? from[i * n + j] : conjugate(from[j * n + i]);                      \
    }                                                                                                                  \
    static void store_triangle_##S(T *a, int64_t n, bool lower) {                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t j = 0; j < i; j++) {                                                                          \
                const T below = a[i * n + j];                                                                          \
                a[j * n + i] = lower ? 0 : conjugate(below);                                                           \
                a[i * n + j] = lower ? below : 0;                                                                      \
            }                                                                                                          \
    }                                                                                                                  \
    static void cholesky_##S(HloType type, CpuFeatures features, T *a, int64_t n, T *work, void *scratch) {            \
        for (int64_t k = 0; k < n; k += kBlock) {                                                                      \
            const int64_t size = n - k < kBlock ? n - k : kBlock, rows = n - k - size;                                 \
            T *diagonal = a + k * n + k, *panel = diagonal + size * n, *turned = work, *negative = work + rows * size; \
            factor_block_##S(diagonal, size, n);                                                                       \
            solve_panel_##S(diagonal, panel, rows, size, n, turned, negative);                                         \
            for (int64_t j = 0; j < rows; j += 4 * kBlock) {                                                           \
                const int64_t columns = rows - j < 4 * kBlock ? rows - j : 4 * kBlock;                                 \
                const CpuProduct rest = {.type = type,                                                                 \
                                         .features = features,                                                         \
                                         .accumulate = true,                                                           \
                                         .m = rows - j,                                                                \
                                         .n = columns,                                                                 \
                                         .k = size,                                                                    \
                                         .a_m_stride = n,                                                              \
                                         .a_k_stride = 1,                                                              \
                                         .b_k_stride = 1,                                                              \
                                         .b_n_stride = size,                                                           \
                                         .ldc = n};                                                                    \
                cpu_product_serial(&rest, panel + j * n + size + j, panel + j * n, negative + j * size, scratch);      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Element (i, j) of op(A), or of its transpose. */                                                                \
    static T matrix_at_##S(const T *a, int64_t n, int64_t i, int64_t j, bool turn, bool adjoint) {                     \
        const T value = turn ? a[j * n + i] : a[i * n + j];                                                            \
        return adjoint ? conjugate(value) : value;                                                                     \
    }                                                                                                                  \
    /* Y = M^-1 Y for a lower triangle M whose negative is `m` (diagonal not negated); `count` right-hand sides a row. \
     */                                                                                                                \
    static void substitute_##S(HloType type, CpuFeatures features, const T *m, T *y, int64_t n, int64_t count,         \
                               bool unit, void *scratch) {                                                             \
        for (int64_t k = 0; k < n; k += kBlock) {                                                                      \
            const int64_t end = n - k < kBlock ? n : k + kBlock;                                                       \
            for (int64_t i = k; i < end; i++) {                                                                        \
                T *row = y + i * count;                                                                                \
                for (int64_t j = k; j < i; j++) {                                                                      \
                    const T factor = m[i * n + j];                                                                     \
                    for (int64_t c = 0; c < count; c++) row[c] += factor * y[j * count + c];                           \
                }                                                                                                      \
                for (int64_t c = 0; c < count && !unit; c++) row[c] /= m[i * n + i];                                   \
            }                                                                                                          \
            const CpuProduct rest = {.type = type,                                                                     \
                                     .features = features,                                                             \
                                     .accumulate = true,                                                               \
                                     .m = n - end,                                                                     \
                                     .n = count,                                                                       \
                                     .k = end - k,                                                                     \
                                     .a_m_stride = n,                                                                  \
                                     .a_k_stride = 1,                                                                  \
                                     .b_k_stride = count,                                                              \
                                     .b_n_stride = 1,                                                                  \
                                     .ldc = count};                                                                    \
            cpu_product_serial(&rest, y + end * count, m + end * n + k, y + k * count, scratch);                       \
        }                                                                                                              \
    }                                                                                                                  \
    /* Brings one system into the lower, left-hand form, solves it and writes the solution back. */                    \
    static void solve_##S(const SolveJob *job, const T *a, T *x, int64_t count, T *work, void *scratch) {              \
        const int64_t n = job->left_side ? job->rows : job->columns, ldx = job->columns;                               \
        const bool turn = (job->transpose != CPU_NO_TRANSPOSE) != !job->left_side, lower = job->lower != turn;         \
        T *m = work, *y = work + n * n;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t j = 0; j <= i; j++) {                                                                         \
                const int64_t p = lower ? i : n - 1 - i, q = lower ? j : n - 1 - j;                                    \
                const T value = matrix_at_##S(a, n, p, q, turn, job->transpose == CPU_ADJOINT);                        \
                m[i * n + j] = i == j ? value : -value;                                                                \
            }                                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t c = 0; c < count; c++) {                                                                      \
                const int64_t p = lower ? i : n - 1 - i;                                                               \
                y[i * count + c] = job->left_side ? x[p * ldx + c] : x[c * ldx + p];                                   \
            }                                                                                                          \
        substitute_##S(job->type, job->features, m, y, n, count, job->unit_diagonal, scratch);                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t c = 0; c < count; c++) {                                                                      \
                const int64_t p = lower ? i : n - 1 - i;                                                               \
                *(job->left_side ? &x[p * ldx + c] : &x[c * ldx + p]) = y[i * count + c];                              \
            }                                                                                                          \
    }

typedef struct SolveJob {
    HloType type;
    CpuFeatures features;
    int64_t rows, columns, parts;  // parts: how many pieces the independent right-hand sides of one system are cut in
    bool left_side, lower, unit_diagonal;
    CpuTranspose transpose;
    char *x;
    const char *a;
    char *scratch;
    size_t scratch_each, work_bytes;
} SolveJob;

LINEAR_ALGEBRA(float, f32, SAME, SAME, sqrtf)
LINEAR_ALGEBRA(double, f64, SAME, SAME, sqrt)
LINEAR_ALGEBRA(float _Complex, c64, conjf, crealf, sqrtf)
LINEAR_ALGEBRA(double _Complex, c128, conj, creal, sqrt)

static bool is_solvable(HloType type) {
    return type == HLO_F32 || type == HLO_F64 || type == HLO_C64 || type == HLO_C128;
}

// Runs `call` with the function of the job's type.
#define BY_TYPE(type, name, ...)                      \
    switch (type) {                                   \
        case HLO_F32: name##_f32(__VA_ARGS__); break; \
        case HLO_F64: name##_f64(__VA_ARGS__); break; \
        case HLO_C64: name##_c64(__VA_ARGS__); break; \
        default: name##_c128(__VA_ARGS__); break;     \
    }

// ---- Cholesky

typedef struct CholeskyJob {
    HloType type;
    CpuFeatures features;
    int64_t n;
    bool lower;
    char *out;
    const char *in;
    char *scratch;
    size_t scratch_each, work_bytes;
} CholeskyJob;

static void cholesky_task(void *argument, int64_t begin, int64_t end, int worker) {
    const CholeskyJob *job = argument;
    const int64_t n = job->n, bytes = n * n * hlo_type_bytes(job->type);
    char *work = job->scratch + (size_t)worker * job->scratch_each, *scratch = work + job->work_bytes;
    for (int64_t b = begin; b < end; b++) {
        void *a = job->out + b * bytes;
        const void *from = job->in + b * bytes;
        BY_TYPE(job->type, load_triangle, a, from, n, job->lower)
        BY_TYPE(job->type, cholesky, job->type, job->features, a, n, (void *)work, scratch)
        BY_TYPE(job->type, store_triangle, a, n, job->lower)
    }
}

HloStatus cpu_cholesky(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, void *out, const void *in) {
    HLO_FAIL_IF(!is_solvable(type), HLO_UNIMPLEMENTED, "Cholesky factor of %s", hlo_type_text(type));
    if (batch == 0 || n == 0) return HLO_SUCCESS;
    CholeskyJob job = {.type = type, .features = cpu_pool_features(pool), .n = n, .lower = lower, .out = out, .in = in};
    const CpuProduct largest = {.type = type, .m = n, .n = 4 * kBlock, .k = kBlock};
    job.work_bytes = round_64((size_t)(2 * n * kBlock * hlo_type_bytes(type)));
    job.scratch_each = job.work_bytes + cpu_product_scratch_bytes(&largest);
    job.scratch = cpu_pool_scratch_take(pool, job.scratch_each * (size_t)cpu_pool_worker_count(pool));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory to factor %lld rows", (long long)n);
    cpu_pool_parallel_for_grain((double)batch * (double)n * (double)n * (double)n < 100000 ? NULL : pool, batch, 1,
                                cholesky_task, &job);
    cpu_pool_scratch_give(pool, job.scratch);
    return HLO_SUCCESS;
}

// ---- triangular systems

// Unit = system * parts + part.
static void solve_task(void *argument, int64_t begin, int64_t end, int worker) {
    const SolveJob *job = argument;
    const int64_t width = hlo_type_bytes(job->type), n = job->left_side ? job->rows : job->columns;
    const int64_t sides = job->left_side ? job->columns : job->rows;
    char *work = job->scratch + (size_t)worker * job->scratch_each, *scratch = work + job->work_bytes;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t system = unit / job->parts, part = unit % job->parts;
        const int64_t first = sides * part / job->parts, count = sides * (part + 1) / job->parts - first;
        void *x = job->x + (system * job->rows * job->columns + first * (job->left_side ? 1 : job->columns)) * width;
        const void *a = job->a + system * n * n * width;
        BY_TYPE(job->type, solve, job, a, x, count, (void *)work, scratch)
    }
}

HloStatus cpu_triangular_solve(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns,
                               bool left_side, bool lower, bool unit_diagonal, CpuTranspose transpose, void *x,
                               const void *a, const void *b) {
    HLO_FAIL_IF(!is_solvable(type), HLO_UNIMPLEMENTED, "triangular system of %s", hlo_type_text(type));
    if (batch == 0 || rows == 0 || columns == 0) return HLO_SUCCESS;
    const size_t bytes = (size_t)(batch * rows * columns * hlo_type_bytes(type));
    if (x != b) memcpy(x, b, bytes);
    const int64_t sides = left_side ? columns : rows, n = left_side ? rows : columns;
    SolveJob job = {.type = type,
                    .features = cpu_pool_features(pool),
                    .rows = rows,
                    .columns = columns,
                    .parts = sides >= 256 ? (sides + 127) / 128 : 1,
                    .left_side = left_side,
                    .lower = lower,
                    .unit_diagonal = unit_diagonal,
                    .transpose = transpose,
                    .x = x,
                    .a = a};
    const int64_t most = (sides + job.parts - 1) / job.parts;
    const CpuProduct largest = {.type = type, .m = n, .n = most, .k = kBlock};
    job.work_bytes = round_64((size_t)((n * n + n * most) * hlo_type_bytes(type)));
    job.scratch_each = job.work_bytes + cpu_product_scratch_bytes(&largest);
    job.scratch = cpu_pool_scratch_take(pool, hlo_array_bytes(job.scratch_each, (size_t)cpu_pool_worker_count(pool)));
    HLO_FAIL_IF(!job.scratch, HLO_RESOURCE_EXHAUSTED, "no memory to solve systems of %lld rows", (long long)n);
    const double work = (double)batch * (double)sides * (double)n * (double)n;
    cpu_pool_parallel_for_grain(work < 100000 ? NULL : pool, batch * job.parts, 1, solve_task, &job);
    cpu_pool_scratch_give(pool, job.scratch);
    return HLO_SUCCESS;
}
