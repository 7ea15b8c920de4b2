// SPDX-License-Identifier: Apache-2.0
// Functions shared by the dense decompositions: matrices of any of the four field types with one interface,
// reflections in blocks, and batches over the pool. Scalars are double complex whatever the type of the matrix; work of
// cubic order is in matrix products (matmul_internal.h) and row operations (isa/vector.h).
#ifndef MESHLO_TARGETS_CPU_DENSE_MATRIX_H_
#define MESHLO_TARGETS_CPU_DENSE_MATRIX_H_

#include <stdbool.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/isa/triangle.h"
#include "targets/cpu/isa/vector.h"

HLO_BEGIN_C

// Columns of a panel, and columns of the stripes in which the rest of a matrix is updated.
enum { CPU_PANEL = 32, CPU_STRIPE = 128 };

// The state of work on one matrix.
typedef struct CpuMatrix {
    HloType type;   // F32, F64, C64 or C128
    int64_t width;  // bytes of an element
    bool is_complex;
    const CpuVectorType *vector;
    const CpuTriangleType *triangle;
    CpuFeatures features;
    CpuPool *pool;     // for the work inside one matrix; NULL if matrices run side by side
    char *work, *end;  // the rest of this matrix's scratch memory
} CpuMatrix;

// True for the types that have decompositions.
bool cpu_matrix_has(HloType type);

// Returns the kernels of a type, without pool and scratch memory.
CpuMatrix cpu_matrix_describe(HloType type, CpuFeatures features);

// Works on matrix `index` of a batch.
typedef void CpuMatrixTask(CpuMatrix *matrix, const void *job, int64_t index);

// Runs `task` for each of `count` matrices, side by side, or one after the other with the pool inside each if there are
// fewer matrices than workers and `cost` (operations per matrix) is worth it. Each call has `work_bytes` of scratch
// memory. UNIMPLEMENTED for a type without decompositions, RESOURCE_EXHAUSTED.
HLO_NODISCARD HloStatus cpu_matrix_batch(CpuPool *pool, HloType type, int64_t count, size_t work_bytes, double cost,
                                         CpuMatrixTask *task, const void *job);
// Operations from which a matrix is worth all workers inside.
enum { CPU_MATRIX_SHARED = 10000000 };

// Returns the next `count` elements of `width` bytes of the scratch memory, aligned to 64. The batch's work_bytes must
// include them (each rounded by cpu_work_bytes()).
void *cpu_matrix_work(CpuMatrix *matrix, int64_t count, size_t width);
static inline size_t cpu_work_bytes(int64_t count, size_t width) {
    return hlo_array_bytes((size_t)count, width) / 64 * 64 + 64;
}

// Return element i of a row, and the row from element i on.
double _Complex cpu_matrix_get(const CpuMatrix *matrix, const void *row, int64_t i);
// Sets row[i] = value, rounded to the type of the matrix; the imaginary part is dropped for a real one.
void cpu_matrix_set(const CpuMatrix *matrix, void *row, int64_t i, double _Complex value);
static inline void *cpu_matrix_at(const CpuMatrix *matrix, const void *row, int64_t i) {
    return (char *)row + i * matrix->width;
}

// Computes x[i] /= divisor.
void cpu_matrix_divide(const CpuMatrix *matrix, int64_t n, double _Complex divisor, void *x);
// Computes to[i] = conj(from[i]); both may be one array.
void cpu_matrix_conjugate(const CpuMatrix *matrix, int64_t n, void *to, const void *from);
// Returns the first element of the largest |re| + |im|, LAPACK's choice of pivots.
int64_t cpu_matrix_largest(const CpuMatrix *matrix, int64_t n, const void *x);
// Exchanges the first n elements of two rows.
void cpu_matrix_swap(const CpuMatrix *matrix, int64_t n, void *x, void *y);
// Exchanges n elements that are `stride` apart with those of another such column.
void cpu_matrix_swap_strided(const CpuMatrix *matrix, int64_t n, int64_t stride, void *x, void *y);
// Computes x[i] = -x[i].
void cpu_matrix_negate(const CpuMatrix *matrix, int64_t n, void *x);
// Returns the factor of size 1 that makes the first large element of x real and positive. The phase of an eigenvector
// is arbitrary; this fixes it (the reference evaluator does the same).
double _Complex cpu_normalised_phase(const CpuMatrix *matrix, int64_t n, const void *x);

// ---- triangles

// Returns the rows of the first part of a triangle that is split in two: a multiple of CPU_TRIANGLE, half at least,
// fewer than n (more than CPU_TRIANGLE).
static inline int64_t cpu_triangle_half(int64_t n) {
    return hlo_round_up((n + 1) / 2, CPU_TRIANGLE);
}

// Returns the scratch memory of cpu_triangle_solve() for up to n rows and `count` columns.
size_t cpu_triangle_bytes(HloType type, int64_t n, int64_t count);

// Computes y := M^-1 y on this thread for the lower triangle M whose diagonal (ones if `unit` is set, then not read)
// and whose negated off-diagonal elements are stored in m, any number of rows; y has `count` columns. Halves of the
// triangle are solved one after the other, with a matrix product between.
void cpu_triangle_solve(const CpuMatrix *matrix, int64_t n, const void *m, int64_t m_stride, bool unit, int64_t count,
                        void *y, int64_t y_stride, void *scratch);

// ---- reflections

// Makes I - tau v v^H whose adjoint maps x to beta e_1, beta real: x becomes v (x[0] = 1). Returns tau, 0 if x is
// unchanged.
double _Complex cpu_reflection(const CpuMatrix *matrix, int64_t n, void *x, double *beta);

// `count` (up to CPU_PANEL) reflections H_1 H_2 … = I - V T V^H of vectors of `rows` elements.
typedef struct CpuReflections {
    int64_t rows, count;
    void *v;          // count rows, one per vector: v_j has zeros before element j and 1 there
    void *conjugate;  // of v; v itself for real types
    void *t;          // count x count, -T
    void *adjoint;    // likewise -T^H
    char *stripe;     // scratch memory of the stripes, for each worker
    size_t stripe_each;
} CpuReflections;

// Returns the scratch memory of blocks of reflections of vectors of up to `rows` elements.
size_t cpu_reflections_bytes(const CpuPool *pool, HloType type, int64_t rows);
// Takes this memory.
void cpu_reflections_new(CpuMatrix *matrix, int64_t rows, CpuReflections *block);
// Reads vectors from `count` rows of `v` that start `stride` elements apart, vector j at element j of its row (the
// elements before it and its 1 are not read), and `taus`.
void cpu_reflections_load(const CpuMatrix *matrix, CpuReflections *block, int64_t rows, int64_t count, const void *v,
                          int64_t stride, const void *taus);
// Computes c := (I - V T V^H) c, or the adjoint's product. c has block->rows rows (`stride` elements apart) and any
// number of columns.
void cpu_reflections_apply(const CpuMatrix *matrix, const CpuReflections *block, bool adjoint, void *c, int64_t columns,
                           int64_t stride);

HLO_END_C

#endif
