// SPDX-License-Identifier: Apache-2.0
// LAPACK stores matrices column by column: a row-major matrix is its transposed one. Where a routine has a form for
// that (a triangle, the other side, the adjoint), the array is used as it is; otherwise it is copied.
#include "targets/cpu/dense/lapack.h"

#include <math.h>
#include <string.h>

#include "hlo/base/arithmetic.h"

// Columns of workspace that routines with blocks use at most (their blocks have 32 or 64).
enum { kBlock = 64 };

HloStatus cpu_lapack_batch(const CpuBlas *blas, CpuPool *pool, HloType type, int64_t count, size_t work_bytes,
                           size_t lapack_bytes, double cost, CpuMatrixTask *task, const void *job) {
    if (!blas) return cpu_matrix_batch(pool, type, count, work_bytes, cost, task, job);
    return cpu_matrix_batch(pool, type, count, work_bytes > lapack_bytes ? work_bytes : lapack_bytes,
                            cost < CPU_MATRIX_SHARED ? cost : CPU_MATRIX_SHARED - 1, task, job);
}

// ---- finite numbers

#define FINITE(U, exponent)                                                          \
    const U *bits = a;                                                               \
    U bad = 0;                                                                       \
    for (int64_t i = 0; i < reals; i++) bad |= (bits[i] & (exponent)) == (exponent); \
    return !bad

bool cpu_lapack_finite(HloType type, int64_t count, const void *a) {
    const int64_t reals = hlo_type_is_complex(type) ? 2 * count : count;
    if (cpu_blas_precision(type) == CPU_BLAS_F32) {
        FINITE(uint32_t, UINT32_C(0x7f800000));
    }
    FINITE(uint64_t, UINT64_C(0x7ff0000000000000));
}

bool cpu_lapack_finite_triangle(HloType type, int64_t n, bool lower, const void *a) {
    const int64_t width = hlo_type_bytes(type);
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = lower ? 0 : i, count = lower ? i + 1 : n - i;
        if (!cpu_lapack_finite(type, count, (const char *)a + (i * n + first) * width)) return false;
    }
    return true;
}

static void copy_triangle(const CpuMatrix *matrix, int64_t n, bool lower, void *to, const void *from) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * n + (lower ? 0 : i), count = lower ? i + 1 : n - i;
        memcpy(cpu_matrix_at(matrix, to, at), cpu_matrix_at(matrix, from, at), (size_t)(count * matrix->width));
    }
}

// ---- factors

size_t cpu_lapack_lu_bytes(HloType type, int64_t rows, int64_t columns) {
    return cpu_work_bytes(rows * columns, (size_t)hlo_type_bytes(type));
}

// Pivots are counted from 1 in LAPACK.
bool cpu_lapack_lu(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, void *factors, int32_t *pivots,
                   int64_t *singular, const void *in) {
    const int32_t m = (int32_t)rows, n = (int32_t)columns;
    int32_t info = 0;
    if (!cpu_lapack_finite(matrix.type, rows * columns, in)) return false;
    void *turned = cpu_matrix_work(&matrix, rows * columns, (size_t)matrix.width);
    matrix.vector->turn(rows, columns, turned, rows, in, columns);
    cpu_blas_enter();
    blas->getrf[cpu_blas_type(matrix.type)](&m, &n, turned, &m, pivots, &info);
    cpu_blas_leave();
    if (info < 0) return false;
    matrix.vector->turn(columns, rows, factors, columns, turned, rows);
    for (int64_t i = 0; i < hlo_smaller(rows, columns); i++) pivots[i]--;
    *singular = info;
    return true;
}

size_t cpu_lapack_cholesky_bytes(HloType type, int64_t n) {
    return cpu_work_bytes(n * n, (size_t)hlo_type_bytes(type));
}

// The array as columns is the transposed, that is the conjugate matrix: M = U^H U of its upper triangle, our lower one,
// gives A = M^T = U^T (U^T)^H, and U^T is U's array as rows. Likewise for the other triangle.
bool cpu_lapack_cholesky(CpuMatrix matrix, const CpuBlas *blas, int64_t n, bool lower, void *out, const void *in) {
    const int32_t order = (int32_t)n;
    int32_t info = 0;
    if (!cpu_lapack_finite_triangle(matrix.type, n, lower, in)) return false;
    char *factor = cpu_matrix_work(&matrix, n * n, (size_t)matrix.width);
    copy_triangle(&matrix, n, lower, factor, in);
    cpu_blas_enter();
    blas->potrf[cpu_blas_type(matrix.type)](lower ? "U" : "L", &order, factor, &order, &info, 1);
    cpu_blas_leave();
    if (info) return false;
    memset(out, 0, (size_t)(n * n * matrix.width));
    copy_triangle(&matrix, n, lower, out, factor);
    return true;
}

// ---- triangular systems

// True if the reciprocals of the diagonal, by which the library multiplies, are normal numbers.
static bool has_reciprocals(const CpuMatrix *matrix, int64_t n, const void *a) {
    const bool narrow = cpu_blas_precision(matrix->type) == CPU_BLAS_F32;
    const double least = narrow ? 0x1p-125 : 0x1p-1021, most = narrow ? 0x1p125 : 0x1p1021;
    for (int64_t i = 0; i < n; i++) {
        const double _Complex value = cpu_matrix_get(matrix, a, i * (n + 1));
        const double size = fmax(fabs(creal(value)), fabs(cimag(value)));
        if (!(size >= least && size <= most)) return false;
    }
    return true;
}

// The transposed system: op(A) X = B is X^T op(A)^T = B^T, from the other side, with the other triangle of the array
// read as columns, and the same op.
bool cpu_lapack_solve(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, bool left_side, bool lower,
                      bool unit_diagonal, CpuTranspose transpose, void *x, const void *a) {
    const int64_t order = left_side ? rows : columns;
    const int32_t m = (int32_t)columns, n = (int32_t)rows, lda = (int32_t)order;
    const char *trans = transpose == CPU_NO_TRANSPOSE ? "N" : transpose == CPU_TRANSPOSE ? "T" : "C";
    if (!cpu_lapack_finite_triangle(matrix.type, order, lower, a) ||
        !cpu_lapack_finite(matrix.type, rows * columns, x) || (!unit_diagonal && !has_reciprocals(&matrix, order, a)))
        return false;
    cpu_blas_enter();
    blas->trsm[cpu_blas_type(matrix.type)](left_side ? "R" : "L", lower ? "U" : "L", trans, unit_diagonal ? "U" : "N",
                                           &m, &n, cpu_blas_one(matrix.type), a, &lda, x, &m, 1, 1, 1, 1);
    cpu_blas_leave();
    return true;
}

// ---- QR

size_t cpu_lapack_qr_bytes(HloType type, int64_t rows, int64_t columns) {
    const size_t width = (size_t)hlo_type_bytes(type);
    return cpu_work_bytes(rows * columns, width) + cpu_work_bytes(kBlock * columns, width);
}

bool cpu_lapack_qr(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, void *factors, void *taus,
                   const void *in) {
    const int32_t m = (int32_t)rows, n = (int32_t)columns, work_count = (int32_t)(kBlock * columns);
    int32_t info = 0;
    if (!cpu_lapack_finite(matrix.type, rows * columns, in)) return false;
    void *turned = cpu_matrix_work(&matrix, rows * columns, (size_t)matrix.width);
    void *work = cpu_matrix_work(&matrix, work_count, (size_t)matrix.width);
    matrix.vector->turn(rows, columns, turned, rows, in, columns);
    cpu_blas_enter();
    blas->geqrf[cpu_blas_type(matrix.type)](&m, &n, turned, &m, taus, work, &work_count, &info);
    cpu_blas_leave();
    if (info) return false;
    matrix.vector->turn(columns, rows, factors, columns, turned, rows);
    return true;
}

bool cpu_lapack_householder_product(CpuMatrix matrix, const CpuBlas *blas, int64_t rows, int64_t columns, int64_t count,
                                    void *q, const void *factors, const void *taus) {
    const int32_t m = (int32_t)rows, n = (int32_t)columns, k = (int32_t)count, work_count = (int32_t)(kBlock * columns);
    int32_t info = 0;
    if (!cpu_lapack_finite(matrix.type, rows * columns, factors) || !cpu_lapack_finite(matrix.type, count, taus))
        return false;
    void *turned = cpu_matrix_work(&matrix, rows * columns, (size_t)matrix.width);
    void *work = cpu_matrix_work(&matrix, work_count, (size_t)matrix.width);
    matrix.vector->turn(rows, columns, turned, rows, factors, columns);
    cpu_blas_enter();
    blas->orgqr[cpu_blas_type(matrix.type)](&m, &n, &k, turned, &m, taus, work, &work_count, &info);
    cpu_blas_leave();
    if (info) return false;
    matrix.vector->turn(columns, rows, q, columns, turned, rows);
    return true;
}

// ---- Hermitian matrices

// Elements of the three workspaces: of the matrix's type, of its real part, and integers.
typedef struct EighWork {
    int64_t own, real, integers;
} EighWork;

static EighWork eigh_work(HloType type, int64_t n) {
    const int64_t large = 1 + (kBlock + 6) * n + 2 * n * n;  // enough for either workspace, with or without vectors
    return hlo_type_is_complex(type) ? (EighWork){(kBlock + 2) * n + n * n, large, 3 + 5 * n}
                                     : (EighWork){large, 0, 3 + 5 * n};
}

size_t cpu_lapack_eigh_bytes(HloType type, int64_t n) {
    const EighWork work = eigh_work(type, n);
    const size_t width = (size_t)hlo_type_bytes(type), real = (size_t)hlo_type_bytes(hlo_type_real_part(type));
    return cpu_work_bytes(n * n, width) + cpu_work_bytes(work.own, width) + cpu_work_bytes(work.real, real) +
           cpu_work_bytes(work.integers, sizeof(int32_t));
}

// The array as columns is the conjugate matrix, whose vectors are the conjugates of ours.
bool cpu_lapack_eigh(CpuMatrix matrix, const CpuBlas *blas, int64_t n, bool lower, void *vectors, void *values,
                     const void *in) {
    const EighWork count = eigh_work(matrix.type, n);
    const int32_t order = (int32_t)n, own_count = (int32_t)count.own, real_count = (int32_t)count.real,
                  integer_count = (int32_t)count.integers;
    const int precision = cpu_blas_precision(matrix.type);
    const char *job = vectors ? "V" : "N", *uplo = lower ? "U" : "L";
    int32_t info = 0;
    if (!cpu_lapack_finite_triangle(matrix.type, n, lower, in)) return false;
    char *a = cpu_matrix_work(&matrix, n * n, (size_t)matrix.width);
    void *own = cpu_matrix_work(&matrix, count.own, (size_t)matrix.width);
    void *real = cpu_matrix_work(&matrix, count.real, (size_t)hlo_type_bytes(hlo_type_real_part(matrix.type)));
    int32_t *integers = cpu_matrix_work(&matrix, count.integers, sizeof(int32_t));
    copy_triangle(&matrix, n, lower, a, in);
    cpu_blas_enter();
    if (matrix.is_complex)
        blas->heevd[precision](job, uplo, &order, a, &order, values, own, &own_count, real, &real_count, integers,
                               &integer_count, &info, 1, 1);
    else
        blas->syevd[precision](job, uplo, &order, a, &order, values, own, &own_count, integers, &integer_count, &info,
                               1, 1);
    cpu_blas_leave();
    if (info) return false;
    if (!vectors) return true;
    matrix.vector->turn(n, n, vectors, n, a, n);
    cpu_matrix_conjugate(&matrix, n * n, vectors, vectors);
    return true;
}
