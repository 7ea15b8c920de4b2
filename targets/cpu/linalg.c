// SPDX-License-Identifier: Apache-2.0
// Cholesky factors and triangular systems: blocked, with BLAS for everything but the small diagonal blocks.
#include "targets/cpu/linalg.h"

#include <cblas.h>
#include <complex.h>
#include <math.h>
#include <string.h>

enum { kDiagonalBlock = 64 };

// ---- Cholesky ------------------------------------------------------------------------------------------------------------------

// The lower factor of one n x n block in place, row by row. `conjugate` and `real_part` are identities for real types.
#define CHOLESKY_BLOCK(T, S, conjugate, real_part, root)                                                 \
    static void cholesky_block_##S(T *a, int64_t n, int64_t stride) {                                    \
        for (int64_t i = 0; i < n; i++)                                                                  \
            for (int64_t j = 0; j <= i; j++) {                                                           \
                T sum = a[i * stride + j];                                                               \
                for (int64_t k = 0; k < j; k++) sum -= a[i * stride + k] * conjugate(a[j * stride + k]); \
                if (i == j) a[i * stride + i] = real_part(sum) > 0 ? root(real_part(sum)) : NAN;         \
                else a[i * stride + j] = sum / a[j * stride + j];                                        \
            }                                                                                            \
    }
#define SAME(x) (x)
CHOLESKY_BLOCK(float, f32, SAME, SAME, sqrtf)
CHOLESKY_BLOCK(double, f64, SAME, SAME, sqrt)
CHOLESKY_BLOCK(float _Complex, c64, conjf, crealf, sqrtf)
CHOLESKY_BLOCK(double _Complex, c128, conj, creal, sqrt)

typedef struct CholeskyJob {
    HloType type;
    int64_t n;
    bool lower;
    char *out;
    const char *in;
} CholeskyJob;

static void cholesky_diagonal(HloType type, void *a, int64_t n, int64_t stride) {
    switch (type) {
        case HLO_F32: cholesky_block_f32(a, n, stride); break;
        case HLO_F64: cholesky_block_f64(a, n, stride); break;
        case HLO_C64: cholesky_block_c64(a, n, stride); break;
        default: cholesky_block_c128(a, n, stride); break;
    }
}

// panel (rows x n) = panel * L^-H for the factor L of the diagonal block.
static void solve_panel(HloType type, int rows, int n, const void *l, void *panel, int stride) {
    const float onef[2] = {1, 0};
    const double one[2] = {1, 0};
    switch (type) {
        case HLO_F32: cblas_strsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, rows, n, 1, l, stride, panel, stride); break;
        case HLO_F64: cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, rows, n, 1, l, stride, panel, stride); break;
        case HLO_C64: cblas_ctrsm(CblasRowMajor, CblasRight, CblasLower, CblasConjTrans, CblasNonUnit, rows, n, onef, l, stride, panel, stride); break;
        default: cblas_ztrsm(CblasRowMajor, CblasRight, CblasLower, CblasConjTrans, CblasNonUnit, rows, n, one, l, stride, panel, stride); break;
    }
}

// The lower triangle of rest (n x n) minus panel * panel^H.
static void update_rest(HloType type, int n, int k, const void *panel, void *rest, int stride) {
    switch (type) {
        case HLO_F32: cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, n, k, -1, panel, stride, 1, rest, stride); break;
        case HLO_F64: cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, n, k, -1, panel, stride, 1, rest, stride); break;
        case HLO_C64: cblas_cherk(CblasRowMajor, CblasLower, CblasNoTrans, n, k, -1, panel, stride, 1, rest, stride); break;
        default: cblas_zherk(CblasRowMajor, CblasLower, CblasNoTrans, n, k, -1, panel, stride, 1, rest, stride); break;
    }
}

// Copies the named triangle so that it becomes the lower one (the adjoint of an upper one), zeros above.
#define LOAD_TRIANGLE(T, S, conjugate)                                                                   \
    static void load_triangle_##S(T *to, const T *from, int64_t n, bool lower) {                         \
        for (int64_t i = 0; i < n; i++)                                                                  \
            for (int64_t j = 0; j < n; j++)                                                              \
                to[i * n + j] = j > i ? 0 : lower ? from[i * n + j] : conjugate(from[j * n + i]);        \
    }                                                                                                    \
    static void adjoin_##S(T *a, int64_t n) {                                                            \
        for (int64_t i = 0; i < n; i++)                                                                  \
            for (int64_t j = 0; j < i; j++) {                                                            \
                a[j * n + i] = conjugate(a[i * n + j]);                                                  \
                a[i * n + j] = 0;                                                                        \
            }                                                                                            \
    }
LOAD_TRIANGLE(float, f32, SAME)
LOAD_TRIANGLE(double, f64, SAME)
LOAD_TRIANGLE(float _Complex, c64, conjf)
LOAD_TRIANGLE(double _Complex, c128, conj)

static void load_triangle(const CholeskyJob *job, void *to, const void *from) {
    switch (job->type) {
        case HLO_F32: load_triangle_f32(to, from, job->n, job->lower); break;
        case HLO_F64: load_triangle_f64(to, from, job->n, job->lower); break;
        case HLO_C64: load_triangle_c64(to, from, job->n, job->lower); break;
        default: load_triangle_c128(to, from, job->n, job->lower); break;
    }
}

static void adjoin(const CholeskyJob *job, void *a) {
    switch (job->type) {
        case HLO_F32: adjoin_f32(a, job->n); break;
        case HLO_F64: adjoin_f64(a, job->n); break;
        case HLO_C64: adjoin_c64(a, job->n); break;
        default: adjoin_c128(a, job->n); break;
    }
}

static void cholesky_task(void *argument, int64_t begin, int64_t end, int worker) {
    const CholeskyJob *job = argument;
    const int64_t n = job->n, width = hlo_type_bytes(job->type);
    (void)worker;
    for (int64_t b = begin; b < end; b++) {
        char *a = job->out + b * n * n * width;
        load_triangle(job, a, job->in + b * n * n * width);
        for (int64_t k = 0; k < n; k += kDiagonalBlock) {
            const int64_t size = n - k < kDiagonalBlock ? n - k : kDiagonalBlock, rest = n - k - size;
            char *diagonal = a + (k * n + k) * width, *panel = diagonal + size * n * width;
            cholesky_diagonal(job->type, diagonal, size, n);
            if (rest == 0) break;
            solve_panel(job->type, (int)rest, (int)size, diagonal, panel, (int)n);
            update_rest(job->type, (int)rest, (int)size, panel, panel + size * width, (int)n);
        }
        if (!job->lower) adjoin(job, a);
    }
}

static bool is_solvable(HloType type) { return type == HLO_F32 || type == HLO_F64 || type == HLO_C64 || type == HLO_C128; }

HloStatus cpu_cholesky(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, void *out, const void *in) {
    HLO_FAIL_IF(!is_solvable(type), HLO_UNIMPLEMENTED, "Cholesky factor of %s", hlo_type_text(type));
    HLO_FAIL_IF(n > INT32_MAX, HLO_UNIMPLEMENTED, "Cholesky factor of %lld rows", (long long)n);
    CholeskyJob job = {type, n, lower, out, in};
    cpu_pool_parallel_for_grain(batch * n * n * n < 100000 ? NULL : pool, n ? batch : 0, 1, cholesky_task, &job);
    return HLO_SUCCESS;
}

// ---- triangular systems --------------------------------------------------------------------------------------------------------------

typedef struct SolveJob {
    HloType type;
    int64_t rows, columns, parts;  // parts: how many pieces the independent right-hand sides of one system are cut in
    bool left_side, lower, unit_diagonal;
    CpuTranspose transpose;
    char *x;
    const char *a;
} SolveJob;

static void solve_part(const SolveJob *job, const void *a, void *x, int rows, int columns) {
    const CBLAS_SIDE side = job->left_side ? CblasLeft : CblasRight;
    const CBLAS_UPLO uplo = job->lower ? CblasLower : CblasUpper;
    const CBLAS_TRANSPOSE op = job->transpose == CPU_NO_TRANSPOSE ? CblasNoTrans : job->transpose == CPU_TRANSPOSE ? CblasTrans : CblasConjTrans;
    const CBLAS_DIAG diagonal = job->unit_diagonal ? CblasUnit : CblasNonUnit;
    const int lda = (int)(job->left_side ? job->rows : job->columns), ldx = (int)job->columns;
    const float onef[2] = {1, 0};
    const double one[2] = {1, 0};
    switch (job->type) {
        case HLO_F32: cblas_strsm(CblasRowMajor, side, uplo, op, diagonal, rows, columns, 1, a, lda, x, ldx); break;
        case HLO_F64: cblas_dtrsm(CblasRowMajor, side, uplo, op, diagonal, rows, columns, 1, a, lda, x, ldx); break;
        case HLO_C64: cblas_ctrsm(CblasRowMajor, side, uplo, op, diagonal, rows, columns, onef, a, lda, x, ldx); break;
        default: cblas_ztrsm(CblasRowMajor, side, uplo, op, diagonal, rows, columns, one, a, lda, x, ldx); break;
    }
}

// Unit = system * parts + part.
static void solve_task(void *argument, int64_t begin, int64_t end, int worker) {
    const SolveJob *job = argument;
    const int64_t width = hlo_type_bytes(job->type), n = job->left_side ? job->rows : job->columns;
    const int64_t sides = job->left_side ? job->columns : job->rows;
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t system = unit / job->parts, part = unit % job->parts;
        const int64_t first = sides * part / job->parts, count = sides * (part + 1) / job->parts - first;
        char *x = job->x + (system * job->rows * job->columns + first * (job->left_side ? 1 : job->columns)) * width;
        const char *a = job->a + system * n * n * width;
        if (job->left_side) solve_part(job, a, x, (int)job->rows, (int)count);
        else solve_part(job, a, x, (int)count, (int)job->columns);
    }
}

HloStatus cpu_triangular_solve(CpuPool *pool, HloType type, int64_t batch, int64_t rows, int64_t columns, bool left_side,
                               bool lower, bool unit_diagonal, CpuTranspose transpose, void *x, const void *a, const void *b) {
    HLO_FAIL_IF(!is_solvable(type), HLO_UNIMPLEMENTED, "triangular system of %s", hlo_type_text(type));
    HLO_FAIL_IF(rows > INT32_MAX || columns > INT32_MAX, HLO_UNIMPLEMENTED, "triangular system above 2^31");
    if (batch * rows * columns == 0) return HLO_SUCCESS;
    if (x != b) memcpy(x, b, (size_t)(batch * rows * columns * hlo_type_bytes(type)));
    const int64_t sides = left_side ? columns : rows;
    SolveJob job = {type, rows, columns, sides >= 256 ? (sides + 127) / 128 : 1, left_side, lower, unit_diagonal, transpose, x, a};
    const int64_t work = batch * rows * columns * (left_side ? rows : columns);
    cpu_pool_parallel_for_grain(work < 100000 ? NULL : pool, batch * job.parts, 1, solve_task, &job);
    return HLO_SUCCESS;
}
