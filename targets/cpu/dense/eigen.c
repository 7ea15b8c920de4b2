// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and vectors of Hermitian matrices: reflections make the matrix tridiagonal and real, implicit QL steps
// make that diagonal, and the reflections transform the vectors back.
//
//     A = Q T Q^H        tridiagonalise(): n - 1 reflections, 4/3 n^3 operations, half of them matrix times vector
//     T = S D S^T        by halves (eigen_merge.c) for vectors of more than CPU_EIGEN_SMALL rows, else QL
//     vectors = Q S      turn_back(): blocks of reflections, matrix products
//
// The matrix is scaled by a power of two first, so that no square overflows or vanishes, and values are scaled back.
// Rows that rotations act on are kept as rows of the transposed vectors, so that a rotation reads two contiguous
// stretches of memory; rotations are collected and applied many at a time (CpuRotations), which keeps the rows in the
// cache.
//
// Small real matrices are solved by rotations instead, side by side (isa/abreast.h).
//
// A matrix with elements that are not finite, or for which QL takes too many steps, gives NaN throughout and info 1.
// Vectors are unique up to a phase, which normalise_phases() fixes.
//
// Sources: Golub and Van Loan, Matrix Computations, 8.3 (tridiagonal form, implicit QL with Wilkinson's shift).
#include "targets/cpu/dense/eigen.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/base/memory.h"
#include "targets/cpu/dense/abreast.h"
#include "targets/cpu/dense/lapack.h"
#include "targets/cpu/dense/linalg.h"

// ---- rotations

// A unit is a stripe of columns, to which all collected rotations are applied.
static void rotate_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const CpuRotations *r = argument;
    const bool wide = r->matrix->type == HLO_F64 || r->matrix->type == HLO_C128;
    (void)worker;
    for (int64_t s = begin; s < end; s++) {
        const int64_t first = s * CPU_STRIPE, left = r->columns - first, n = left < CPU_STRIPE ? left : CPU_STRIPE;
        const CpuVectorKernels *kernels = cpu_isa_vector_kernels(r->matrix->features);
        const CpuVectorType *real = wide ? &kernels->f64 : &kernels->f32;
        real->rotate(r->count, r->items, n, r->rows + first * (wide ? 8 : 4), r->stride);
    }
}

// Applies the collected rotations.
static void flush_rotations(CpuRotations *rotations) {
    if (rotations->rows && rotations->count)
        cpu_pool_parallel_for_grain(rotations->matrix->pool, hlo_divide_up(rotations->columns, CPU_STRIPE), 1,
                                    rotate_task, rotations);
    rotations->count = 0;
}

// Adds one rotation; applies all when the list is full.
static void push_rotation(CpuRotations *rotations, int64_t row, double cosine, double sine) {
    if (rotations->count == CPU_ROTATIONS) flush_rotations(rotations);
    rotations->items[rotations->count++] = (CpuRotation){cosine, sine, row};
}

// ---- tridiagonal matrices

// Returns the first zero of e from `from` on (the last row counts as one), after setting negligible elements to zero.
static int64_t end_of_block(const double *d, double *e, int64_t from, int64_t n) {
    assert(from >= 0 && from < n);
    for (int64_t m = from; m < n - 1; m++)
        if (fabs(e[m]) <= DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1]))) {
            e[m] = 0;
            return m;
        }
    return n - 1;
}

// Returns the length of (x, y). hypot() prevents overflow at several times the cost; here elements are at most of the
// order of one (load_hermitian() ensures it), and only very small ones need its care.
static double length(double x, double y) {
    const double squared = x * x + y * y;
    return squared > 1e-280 ? sqrt(squared) : hypot(x, y);
}

// Performs one implicit QL step with Wilkinson's shift on rows [first, last].
static void ql_step(double *d, double *e, int64_t first, int64_t last, CpuRotations *rotations) {
    assert(first >= 0 && first <= last);
    const double slope = (d[first + 1] - d[first]) / (2 * e[first]);
    double g = d[last] - d[first] + e[first] / (slope + copysign(hypot(slope, 1), slope));
    double sine = 1, cosine = 1, shift = 0;
    for (int64_t i = last - 1; i >= first; i--) {
        const double f = sine * e[i], b = cosine * e[i], r = length(f, g);
        e[i + 1] = r;
        if (r == 0) {  // the block splits here
            d[i + 1] -= shift;
            e[last] = 0;
            return;
        }
        sine = f / r, cosine = g / r;
        g = d[i + 1] - shift;
        const double t = (d[i] - g) * sine + 2 * cosine * b;
        shift = sine * t;
        d[i + 1] = g + shift;
        g = cosine * t - b;
        push_rotation(rotations, i, cosine, -sine);
    }
    d[first] -= shift;
    e[first] = g;
    e[last] = 0;
}

// Computes the eigenvalues of rows [first, end) of the tridiagonal matrix of diagonal d and off-diagonal e (the last
// one of those rows is spare) into d, unsorted. Row i of the rotated rows becomes eigenvector i. False if it does not
// converge.
static bool tridiagonal_values(double *d, double *e, int64_t first, int64_t end, CpuRotations *rotations) {
    assert(first >= 0 && first <= end);
    enum { kMaximumSteps = 60 };
    for (int64_t l = first; l < end; l++) {
        int steps = 0;
        for (int64_t m; (m = end_of_block(d, e, l, end)) != l;) {
            if (steps++ == kMaximumSteps) return false;
            ql_step(d, e, l, m, rotations);
        }
    }
    flush_rotations(rotations);
    return true;
}

// ---- Hermitian matrices

typedef struct EighJob {
    int64_t n;
    bool lower, sort;
    char *vectors, *values;  // `vectors` NULL: values only
    const char *in;
    int32_t *info;
    const CpuBlas *blas;  // NULL: our own kernels
} EighJob;

// Zeroes faint numbers. Rounding errors of a matrix of low rank fade from row to row until they are subnormal, where no
// step converges: numbers far below significance (the largest element is near one) become zero.
static void drop_faint(int64_t n, double *x) {
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) < 1e-140) x[i] = 0;
}

// Loads the whole matrix from one triangle; returns the size of its largest element, or NAN if one is not finite.
static double load_complex(const CpuMatrix *matrix, int64_t n, bool lower, char *a, const char *in) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double _Complex value =
                lower ? cpu_matrix_get(matrix, in, i * n + j) : conj(cpu_matrix_get(matrix, in, j * n + i));
            if (i == j) value = creal(value);
            const double size = fmax(fabs(creal(value)), fabs(cimag(value)));
            if (!isfinite(creal(value)) || !isfinite(cimag(value))) return NAN;
            largest = fmax(largest, size);
            cpu_matrix_set(matrix, a, i * n + j, value);
            cpu_matrix_set(matrix, a, j * n + i, conj(value));
        }
    return largest;
}

// The same, and the vectors and their signs, for a real type.
#define REAL_MATRICES(T, S)                                                                               \
    static double load_##S(int64_t n, bool lower, T *a, const T *in) {                                    \
        double largest = 0;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                                   \
            for (int64_t j = 0; j <= i; j++) {                                                            \
                const T value = lower ? in[i * n + j] : in[j * n + i];                                    \
                const double size = fabs((double)value);                                                  \
                if (!(size <= DBL_MAX)) return NAN;                                                       \
                if (size > largest) largest = size;                                                       \
                a[i * n + j] = a[j * n + i] = value;                                                      \
            }                                                                                             \
        return largest;                                                                                   \
    }                                                                                                     \
    /* Row number pairs[j].place becomes column j. */                                                     \
    static void turn_rows_##S(int64_t n, const Pair *pairs, const T *rows, T *z) {                        \
        for (int64_t i = 0; i < n; i++)                                                                   \
            for (int64_t j = 0; j < n; j++) z[i * n + j] = rows[pairs[j].place * n + i];                  \
    }                                                                                                     \
    /* Does the work of cpu_normalised_phase() for all columns; `largest` and `signs` have room for n. */ \
    static void normalise_signs_##S(int64_t n, T *z, T *largest, T *signs) {                              \
        for (int64_t j = 0; j < n; j++) largest[j] = signs[j] = 0;                                        \
        for (int64_t i = 0; i < n; i++)                                                                   \
            for (int64_t j = 0; j < n; j++) {                                                             \
                const T size = z[i * n + j] < 0 ? -z[i * n + j] : z[i * n + j];                           \
                largest[j] = size > largest[j] ? size : largest[j];                                       \
            }                                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                   \
            for (int64_t j = 0; j < n; j++)                                                               \
                if (signs[j] == 0 && fabs((double)z[i * n + j]) > 0.9 * (double)largest[j])               \
                    signs[j] = z[i * n + j] < 0 ? -1 : 1;                                                 \
        for (int64_t i = 0; i < n; i++)                                                                   \
            for (int64_t j = 0; j < n; j++) z[i * n + j] = signs[j] < 0 ? -z[i * n + j] : z[i * n + j];   \
    }

typedef struct Pair {
    double value;
    int64_t place;
} Pair;

REAL_MATRICES(float, f32)
REAL_MATRICES(double, f64)

// Loads the whole matrix from one triangle, divided by the power of two 2^*exponent, which brings its elements near
// one. False if an element is not finite.
static bool load_hermitian(const CpuMatrix *matrix, int64_t n, bool lower, char *a, const char *in, int *exponent) {
    const double largest = matrix->type == HLO_F32   ? load_f32(n, lower, (void *)a, (const void *)in)
                           : matrix->type == HLO_F64 ? load_f64(n, lower, (void *)a, (const void *)in)
                                                     : load_complex(matrix, n, lower, a, in);
    *exponent = 0;
    if (isnan(largest)) return false;
    int power;
    frexp(largest, &power);
    if (largest == 0 || (power > -30 && power < 30)) return true;
    for (int64_t i = 0; i < n * n; i++) {
        const double _Complex value = cpu_matrix_get(matrix, a, i);
        cpu_matrix_set(matrix, a, i, CMPLX(ldexp(creal(value), -power), ldexp(cimag(value), -power)));
    }
    *exponent = power;
    return true;
}

// One reflection's effect on the rows after it: p = A v, then A -= v w^H + w v^H.
typedef struct RankTwo {
    const CpuMatrix *matrix;
    char *a;  // the corner of the remaining rows
    int64_t stride, n;
    const char *v, *v_conjugate, *w, *w_conjugate;
    char *p;
} RankTwo;

enum { kRows = 64 };  // rows per unit of work

// Computes p = A v, rows [begin, end) in parts of kRows.
static void multiply_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const RankTwo *r = argument;
    (void)worker;
    for (int64_t i = begin * kRows; i < end * kRows && i < r->n; i++)
        cpu_matrix_set(r->matrix, r->p, i,
                       r->matrix->vector->dot(r->n, r->v_conjugate, cpu_matrix_at(r->matrix, r->a, i * r->stride)));
}

// Computes A -= v w^H + w v^H, rows in parts.
static void subtract_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end && worker >= 0);
    const RankTwo *r = argument;
    (void)worker;
    for (int64_t i = begin * kRows; i < end * kRows && i < r->n; i++) {
        char *row = cpu_matrix_at(r->matrix, r->a, i * r->stride);
        r->matrix->vector->axpy_pair(r->n, -cpu_matrix_get(r->matrix, r->v, i), r->w_conjugate,
                                     -cpu_matrix_get(r->matrix, r->w, i), r->v_conjugate, row);
    }
}

// Reduces a to d and e; reflection k's vector is stored in row k of a, after the diagonal, and its factor in taus[k].
static void tridiagonalise(CpuMatrix *matrix, char *a, int64_t n, double *d, double *e, char *taus) {
    assert(n >= 0);
    const size_t width = (size_t)matrix->width;
    char *p = cpu_matrix_work(matrix, n, width), *p_conjugate = cpu_matrix_work(matrix, n, width);
    char *v_conjugate = cpu_matrix_work(matrix, n, width);
    for (int64_t k = 0; k < n; k++) {
        d[k] = creal(cpu_matrix_get(matrix, a, k * n + k));
        e[k] = 0;
        if (k == n - 1) return;
        const int64_t left = n - k - 1;
        char *v = cpu_matrix_at(matrix, a, k * n + k + 1);
        cpu_matrix_conjugate(matrix, left, v, v);  // the row is the column's adjoint
        const double _Complex tau = cpu_reflection(matrix, left, v, &e[k]);
        cpu_matrix_set(matrix, taus, k, tau);
        if (tau == 0) continue;
        cpu_matrix_conjugate(matrix, left, v_conjugate, v);
        RankTwo r = {matrix, cpu_matrix_at(matrix, a, (k + 1) * n + k + 1), n, left, v, v_conjugate, p, p_conjugate, p};
        cpu_pool_parallel_for(left < 4 * kRows ? NULL : matrix->pool, hlo_divide_up(left, kRows), multiply_task, &r);
        for (int64_t i = 0; i < left; i++)
            cpu_matrix_set(matrix, p, i, hlo_complex_multiply(tau, cpu_matrix_get(matrix, p, i)));
        const double _Complex overlap = matrix->vector->dot(left, p, v);
        matrix->vector->axpy(left, -hlo_complex_multiply(tau / 2, overlap), v, p);
        cpu_matrix_conjugate(matrix, left, p_conjugate, p);
        cpu_pool_parallel_for(left < 4 * kRows ? NULL : matrix->pool, hlo_divide_up(left, kRows), subtract_task, &r);
    }
}

// Computes z := H_1 H_2 … z, with the reflections that tridiagonalise() stored in a.
static void turn_back(CpuMatrix *matrix, const char *a, const char *taus, int64_t n, char *z) {
    CpuReflections block;
    cpu_reflections_new(matrix, n, &block);
    for (int64_t k = (n - 2) / CPU_PANEL * CPU_PANEL; n > 1 && k >= 0; k -= CPU_PANEL) {
        const int64_t count = n - 1 - k < CPU_PANEL ? n - 1 - k : CPU_PANEL;
        cpu_reflections_load(matrix, &block, n - 1 - k, count, cpu_matrix_at(matrix, a, k * n + k + 1), n,
                             cpu_matrix_at(matrix, taus, k));
        cpu_reflections_apply(matrix, &block, false, cpu_matrix_at(matrix, z, (k + 1) * n), n, n);
    }
}

// Compares by value. Equal values keep the order in which they are stored: no other order would be the same on every
// machine.
static int by_value(const void *a, const void *b) {
    const Pair *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

// Stores a value in the real type that belongs to the matrix.
static void set_real(const CpuMatrix *matrix, void *to, int64_t i, double value) {
    if (matrix->width == 4 || matrix->type == HLO_C64)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

static double get_real(const CpuMatrix *matrix, const void *from, int64_t i) {
    return matrix->width == 4 || matrix->type == HLO_C64 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

// Makes each column's first large element real and positive: a vector's phase is arbitrary, and this fixes it.
static void normalise_phases(CpuMatrix *matrix, int64_t n, char *z) {
    char *column = cpu_matrix_work(matrix, n, (size_t)matrix->width),
         *other = cpu_matrix_work(matrix, n, (size_t)matrix->width);
    if (matrix->type == HLO_F32) {
        normalise_signs_f32(n, (void *)z, (void *)column, (void *)other);
        return;
    }
    if (matrix->type == HLO_F64) {
        normalise_signs_f64(n, (void *)z, (void *)column, (void *)other);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        matrix->vector->turn(n, 1, column, n, cpu_matrix_at(matrix, z, j), n);
        const double _Complex phase = cpu_normalised_phase(matrix, n, column);
        if (phase == 1) continue;
        for (int64_t i = 0; i < n; i++)
            cpu_matrix_set(matrix, z, i * n + j, hlo_complex_multiply(phase, cpu_matrix_get(matrix, column, i)));
    }
}

// Sorts the rotated rows into vectors and transforms them back.
static void finish_vectors(CpuMatrix *matrix, const char *a, const char *taus, int64_t n, const Pair *pairs,
                           const char *rows, char *z) {
    if (matrix->type == HLO_F32)
        turn_rows_f32(n, pairs, (const void *)rows, (void *)z);
    else if (matrix->type == HLO_F64)
        turn_rows_f64(n, pairs, (const void *)rows, (void *)z);
    else
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                cpu_matrix_set(matrix, z, i * n + j, get_real(matrix, rows, pairs[j].place * n + i));
    turn_back(matrix, a, taus, n, z);
    normalise_phases(matrix, n, z);
}

// The context of solve_small().
typedef struct SmallParts {
    double *d, *e;
    CpuRotations *rotations;
} SmallParts;

// Solves rows [first, first + n) of a matrix that is solved by halves.
static bool solve_small(void *context, int64_t first, int64_t n) {
    const SmallParts *parts = context;
    CpuRotations *all = parts->rotations, part = *all;
    // The rows' other columns are zero.
    const int64_t real = all->matrix->type == HLO_F64 || all->matrix->type == HLO_C128 ? 8 : 4;
    part.rows = all->rows + first * real, part.columns = n, part.stride = all->stride;
    return tridiagonal_values(parts->d, parts->e, first, first + n, &part);
}

// Solves by halves; the rotations' rows become the vectors.
static bool values_by_halves(CpuMatrix *matrix, double *d, double *e, int64_t n, CpuRotations *rotations) {
    SmallParts parts = {d, e, rotations};
    CpuEigenHalves halves = {.matrix = matrix,
                             .is_double = matrix->type == HLO_F64 || matrix->type == HLO_C128,
                             .n = n,
                             .d = d,
                             .e = e,
                             .rows = rotations->rows,
                             .small = solve_small,
                             .context = &parts};
    return cpu_eigen_halves(&halves);
}

// Solves matrix number `index` of the batch by LAPACK; false if it is left to our own kernels.
static bool solve_by_lapack(CpuMatrix *matrix, const EighJob *job, int64_t index) {
    const int64_t n = job->n, size = n * n * matrix->width;
    char *vectors = job->vectors ? job->vectors + index * size : NULL;
    char *values = job->values + index * n * (matrix->is_complex ? matrix->width / 2 : matrix->width);
    if (!cpu_lapack_eigh(*matrix, job->blas, n, job->lower, vectors, values, job->in + index * size)) return false;
    if (vectors) normalise_phases(matrix, n, vectors);
    if (job->info) job->info[index] = 0;
    return true;
}

// Solves matrix number `index` of the batch.
static void eigh_task(CpuMatrix *matrix, const void *argument, int64_t index) {
    const EighJob *job = argument;
    if (job->blas && solve_by_lapack(matrix, job, index)) return;
    const int64_t n = job->n, real = matrix->is_complex ? matrix->width / 2 : matrix->width;
    char *values = job->values + index * n * real,
         *z = job->vectors ? job->vectors + index * n * n * matrix->width : NULL;
    char *a = cpu_matrix_work(matrix, n * n, (size_t)matrix->width),
         *taus = cpu_matrix_work(matrix, n, (size_t)matrix->width);
    char *rows = cpu_matrix_work(matrix, z ? n * n : 0, (size_t)real);
    double *d = cpu_matrix_work(matrix, n, sizeof(double)), *e = cpu_matrix_work(matrix, n, sizeof(double));
    Pair *pairs = cpu_matrix_work(matrix, n, sizeof(Pair));
    CpuRotations rotations = {
        matrix, cpu_matrix_work(matrix, CPU_ROTATIONS, sizeof(CpuRotation)), 0, z ? rows : NULL, n, n};
    int exponent;
    bool done = load_hermitian(matrix, n, job->lower, a, job->in + index * n * n * matrix->width, &exponent);
    if (done) {
        if (z) memset(rows, 0, (size_t)(n * n * real));
        for (int64_t i = 0; z && i < n; i++) set_real(matrix, rows, i * n + i, 1);
        tridiagonalise(matrix, a, n, d, e, taus);
        drop_faint(n, d);
        drop_faint(n, e);
        done = z && job->sort && n > CPU_EIGEN_SMALL ? values_by_halves(matrix, d, e, n, &rotations)
                                                     : tridiagonal_values(d, e, 0, n, &rotations);
    }
    for (int64_t i = 0; i < n; i++) pairs[i] = (Pair){done ? d[i] : NAN, i};
    if (done && job->sort) qsort(pairs, (size_t)n, sizeof(Pair), by_value);
    for (int64_t i = 0; i < n; i++) set_real(matrix, values, i, ldexp(pairs[i].value, exponent));
    if (job->info) job->info[index] = !done;
    if (z && done) finish_vectors(matrix, a, taus, n, pairs, rows, z);
    for (int64_t i = 0; z && !done && i < n * n; i++) cpu_matrix_set(matrix, z, i, CMPLX(NAN, NAN));
}

// Stores the values and vectors (in rows) of a small matrix.
static void finish_small(CpuMatrix *matrix, const EighJob *job, int64_t index, const char *values, const char *rows) {
    const int64_t n = job->n;
    Pair pairs[CPU_ABREAST_EIGEN];
    for (int64_t i = 0; i < n; i++) {
        const Pair pair = {get_real(matrix, values, i), i};
        int64_t place = i;
        for (; job->sort && place > 0 && pairs[place - 1].value > pair.value; place--) pairs[place] = pairs[place - 1];
        pairs[place] = pair;
    }
    for (int64_t i = 0; i < n; i++) set_real(matrix, job->values, index * n + i, pairs[i].value);
    if (job->info) job->info[index] = n > 0 && isnan(pairs[0].value);
    if (!job->vectors) return;
    char *z = cpu_matrix_at(matrix, job->vectors, index * n * n);
    if (matrix->type == HLO_F32)
        turn_rows_f32(n, pairs, (const void *)rows, (void *)z);
    else
        turn_rows_f64(n, pairs, (const void *)rows, (void *)z);
    CpuMatrix scratch = *matrix;
    normalise_phases(&scratch, n, z);
}

static void eigh_together(CpuMatrix *matrix, const CpuAbreastType *kernels, const void *argument, int64_t first,
                          int64_t count) {
    const EighJob *job = argument;
    const int64_t n = job->n, lanes = kernels->lanes;
    const size_t width = (size_t)matrix->width;
    void *a = cpu_abreast_load(matrix, kernels, n * n, job->in, first, count);
    void *values = cpu_matrix_work(matrix, n * lanes, width),
         *rows = job->vectors ? cpu_matrix_work(matrix, n * n * lanes, width) : NULL;
    kernels->eigen(n, job->lower, a, values, rows);
    char *each_values = cpu_matrix_work(matrix, n * lanes, width), *each_rows = a;  // which is used up
    cpu_abreast_store(matrix, kernels, n, each_values, 0, count, values);
    if (rows) cpu_abreast_store(matrix, kernels, n * n, each_rows, 0, count, rows);
    for (int64_t i = 0; i < count; i++)
        finish_small(matrix, job, first + i, cpu_matrix_at(matrix, each_values, i * n),
                     cpu_matrix_at(matrix, each_rows, i * n * n));
}

HloStatus cpu_eigh(CpuPool *pool, HloType type, int64_t batch, int64_t n, bool lower, bool sort, void *vectors,
                   void *values, int32_t *info, const void *in) {
    assert(batch >= 0 && n >= 0);
    EighJob job = {n, lower, sort, vectors, values, in, info, NULL};
    if (sort) HLO_TRY(cpu_blas_find(pool, CPU_BLAS_EIGH, type, n, n, &job.blas));
    const size_t width = (size_t)hlo_type_bytes(type);
    const double cost = 9.0 * (double)n * (double)n * (double)n;
    const CpuAbreastType *kernels = cpu_abreast_any(type, cpu_pool_features(pool));
    if (kernels && !job.blas && n <= CPU_ABREAST_EIGEN)
        return cpu_abreast_batch(pool, kernels, type, batch,
                                 2 * cpu_abreast_bytes(kernels, type, n * n) + 2 * cpu_abreast_bytes(kernels, type, n) +
                                     2 * cpu_work_bytes(n, width),
                                 cost, NULL, eigh_together, &job);
    const size_t bytes =
        2 * cpu_work_bytes(n * n, width) + 6 * cpu_work_bytes(n, width) + 2 * cpu_work_bytes(n, sizeof(double)) +
        cpu_work_bytes(n, sizeof(Pair)) + cpu_work_bytes(CPU_ROTATIONS, sizeof(CpuRotation)) +
        cpu_reflections_bytes(pool, type, n) +
        (vectors && sort && n > CPU_EIGEN_SMALL ? cpu_eigen_halves_bytes(pool, type == HLO_F64 || type == HLO_C128, n)
                                                : 0);
    return cpu_lapack_batch(job.blas, pool, type, batch, bytes, cpu_lapack_eigh_bytes(type, n), cost, eigh_task, &job);
}
