// SPDX-License-Identifier: Apache-2.0
// The decompositions that programs request by custom call (hlo/ir/custom_calls.def gives their shapes): in double
// complex, matrix by matrix. Options are LAPACK's characters.
//
// An operand is a batch of matrices in row-major order, f32[batch.., m, n]. For each matrix of the batch run_matrix()
// decodes its part of every operand into double complex, runs one function of the table at the end, and encodes the
// contents of call->out. So functions do not depend on the types of the program, and a real matrix is a complex one
// whose imaginary parts stay zero. Functions have the names and conventions of LAPACK, applied to rows instead of
// columns:
//
//   getrf   P A = L U       L below the diagonal (ones on it are not stored), U on and above it; pivots counted from 1
//   geqrf   A = Q R         R on and above the diagonal; below it the vectors v of the reflections I - tau v v^H,
//                           with v[k] = 1 not stored
//   potrf   A = L L^H       or U^H U; the other triangle keeps what the operand holds
//   syevd   A = V D V^H     sytrd: the tridiagonal form, gehrd: the Hessenberg form, gees: the Schur form Q T Q^H
//   gesdd   A = U S V^H
//
// Where LAPACK has an `info` it is the last result: 0 on success.
//
// This is the oracle that targets/cpu is compared with, so algorithms are chosen for accuracy and brevity: Jacobi
// rotations for Hermitian matrices and singular values, O(n^3) for each of some ten sweeps. The CPU target itself calls
// hlo_decompose() where it does not have a kernel, and divides the batch among threads (`first`, `count`).
#include "hlo/eval/linear/decompositions.h"

#include <assert.h>
#include <math.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"
#include "hlo/eval/linear/matrices.h"
#include "hlo/ir/custom_call.h"

typedef HloEvalComplex Complex;

enum { MOST_ARRAYS = 6 };

// One matrix of a call: the operands, and the results to be filled in (integers too are stored as complex numbers).
typedef struct Call {
    const HloInstruction *instruction;
    HloArena *arena;  // scratch of this matrix
    const Complex *in[MOST_ARRAYS];
    Complex *out[MOST_ARRAYS];
    const HloShape *out_shapes[MOST_ARRAYS];
    bool is_real;
    int64_t m, n;  // rows and columns of the last operand that is a matrix
} Call;

typedef void CallFunction(const Call *call);

// Scratch memory lives until the matrix is done, and is not cleared.
static void *scratch_bytes(const Call *call, int64_t count, size_t bytes_each) {
    return hlo_arena_allocate_uninitialised(call->arena, hlo_array_bytes((size_t)count, bytes_each));
}
#define SCRATCH(call, type, count) ((type *)scratch_bytes((call), (count), sizeof(type)))

static Complex *scratch(const Call *call, int64_t count) {
    return SCRATCH(call, Complex, count);
}

static int64_t option(const Call *call, const char *name, int64_t fallback) {
    return hlo_custom_call_option(call->instruction, name, fallback);
}

static void copy(Complex *to, const Complex *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
}

static bool all_finite(const Complex *a, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(creal(a[i])) || !isfinite(cimag(a[i]))) return false;
    return true;
}

// to := the adjoint of from, which is rows x columns.
static void adjoint(Complex *to, const Complex *from, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[j * rows + i] = conj(from[i * columns + j]);
}

// ---- the frame

// Elements of one matrix of an array.
static int64_t each_of(const HloShape *shape, int64_t batch) {
    return batch ? hlo_shape_elements(shape) / batch : 0;
}

// Results of real types take the real parts. The only integer type is s32, for pivots and info.
static void store(const Complex *numbers, int64_t count, HloType type, char *target) {
    if (hlo_type_is_complex(type)) {
        hlo_eval_encode_complex(type, numbers, count, target);
        return;
    }
    for (int64_t i = 0; i < count; i++, target += hlo_type_bytes(type)) {
        const double real = creal(numbers[i]);
        const int64_t integer = (int64_t)(type == HLO_S32 ? real : 0);
        if (type == HLO_S32)
            hlo_eval_encode_int64(type, &integer, 1, target);
        else
            hlo_eval_encode_double(type, &real, 1, target);
    }
}

static int32_t result_count(const HloInstruction *instruction) {
    return hlo_shape_is_tuple(instruction->shape) ? instruction->shape->element_count : 1;
}

// Makes a call without its matrices: sizes, and memory for one matrix of each array.
static Call new_call(const HloInstruction *instruction, int64_t batch, HloArena *arena) {
    const HloShape *first = instruction->operands[0]->shape;
    const HloShape *last = instruction->operands[instruction->operand_count - 1]->shape;
    const HloShape *matrix = last->rank < first->rank ? first : last;
    assert(matrix->rank >= 2 && instruction->operand_count <= MOST_ARRAYS); /* the signatures ask for it */
    Call call = {.instruction = instruction, .arena = arena, .is_real = !hlo_type_is_complex(matrix->type)};
    call.m = matrix->dims[matrix->rank - 2];
    call.n = matrix->dims[matrix->rank - 1];
    for (int32_t i = 0; i < instruction->operand_count; i++)
        call.in[i] = scratch(&call, each_of(instruction->operands[i]->shape, batch));
    for (int32_t i = 0; i < result_count(instruction); i++) {
        call.out_shapes[i] = hlo_shape_value(instruction->shape, i);
        call.out[i] = scratch(&call, each_of(call.out_shapes[i], batch));
    }
    return call;
}

// Reads matrix `number` of every operand into call->in, and writes that of every result from call->out; `batch` is the
// number of matrices, by which the elements of each array are divided.
static void run_matrix(const Call *call, CallFunction *function, const void *const *operands, void *const *results,
                       int64_t batch, int64_t number) {
    for (int32_t i = 0; i < call->instruction->operand_count; i++) {
        const HloShape *shape = call->instruction->operands[i]->shape;
        const int64_t each = each_of(shape, batch);
        hlo_eval_decode_complex(shape->type, (const char *)operands[i] + number * each * hlo_type_bytes(shape->type),
                                each, (Complex *)(uintptr_t)call->in[i]);
    }
    function(call);
    for (int32_t i = 0; i < result_count(call->instruction); i++) {
        const HloType type = call->out_shapes[i]->type;
        const int64_t each = each_of(call->out_shapes[i], batch);
        store(call->out[i], each, type, (char *)results[i] + number * each * hlo_type_bytes(type));
    }
}

// ---- Cholesky factors, triangular systems, tridiagonal systems

// The other triangle keeps the elements of the operand.
static void potrf(const Call *call) {
    const int64_t n = call->n;
    const bool lower = option(call, "uplo", 'L') == 'L';
    Complex *a = scratch(call, n * n);
    if (lower)
        copy(a, call->in[0], n * n);
    else
        adjoint(a, call->in[0], n, n);
    const int64_t bad = hlo_eval_factor_cholesky(a, n);
    copy(call->out[0], call->in[0], n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            call->out[0][lower ? i * n + j : j * n + i] = lower ? a[i * n + j] : conj(a[i * n + j]);
    call->out[1][0] = (double)bad;
}

// op(A)[i][j], with the diagonal and the triangle that the options select.
static Complex triangle_at(const Call *call, int64_t order, int64_t i, int64_t j) {
    const int64_t form = option(call, "trans_x", 'N');
    const int64_t row = form == 'N' ? i : j, column = form == 'N' ? j : i;
    const bool lower = option(call, "uplo", 'L') == 'L';
    if (row == column && option(call, "diag", 'N') == 'U') return 1;
    if (lower ? column > row : column < row) return 0;
    const Complex value = call->in[0][row * order + column];
    return form == 'C' ? conj(value) : value;
}

// Solves op(A) X = B, or X op(A) = B with side 'R', by substitution: each unknown needs those before it in the
// direction in which the triangle is traversed. From the right the triangle acts as its transpose, which is traversed
// in the opposite direction: hence forward = (lower == left). Each right-hand side is a column of B on the left, a row
// of B on the right.
static void trsm(const Call *call) {
    const bool left = option(call, "side", 'L') == 'L';
    const bool lower = (option(call, "uplo", 'L') == 'L') == (option(call, "trans_x", 'N') == 'N');
    const int64_t order = left ? call->m : call->n, sides = left ? call->n : call->m;
    const int64_t step = left ? call->n : 1, side_step = left ? 1 : call->n;
    const bool forward = lower == left;
    Complex *x = call->out[0], *a = scratch(call, order * order);
    copy(x, call->in[1], call->m * call->n);
    for (int64_t i = 0; i < order * order; i++) a[i] = triangle_at(call, order, i / order, i % order);
    for (int64_t s = 0; s < sides; s++)
        for (int64_t k = 0; k < order; k++) {
            const int64_t i = forward ? k : order - 1 - k;
            Complex sum = x[s * side_step + i * step];
            for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : order); j++)
                sum -= hlo_complex_multiply(left ? a[i * order + j] : a[j * order + i], x[s * side_step + j * step]);
            x[s * side_step + i * step] = sum / a[i * order + i];
        }
}

// Eliminates with exchanges of neighbouring rows; dl[0] and du[m - 1] are ignored. The first three results are the
// factors: the second superdiagonal, the diagonal, the first superdiagonal.
static void gtsv(const Call *call) {
    const int64_t m = call->m, n = call->n;
    Complex *second = call->out[0], *d = call->out[1], *du = call->out[2], *b = call->out[3];
    for (int64_t k = 0; k < 3; k++) copy(call->out[k], call->in[k], m);
    copy(b, call->in[3], m * n);
    call->out[4][0] = 0;
    for (int64_t i = 0; i + 1 < m; i++) {
        const Complex below = call->in[0][i + 1];
        const bool exchange = fabs(creal(below)) + fabs(cimag(below)) > fabs(creal(d[i])) + fabs(cimag(d[i]));
        const Complex pivot = exchange ? below : d[i], right = exchange ? d[i + 1] : du[i];
        const Complex factor = pivot == 0 ? 0 : (exchange ? d[i] : below) / pivot;
        const Complex other = exchange ? du[i] : d[i + 1];
        const Complex far = exchange && i + 2 < m ? du[i + 1] : 0;
        d[i] = pivot;
        du[i] = right;
        second[i + 1] = far;
        d[i + 1] = other - hlo_complex_multiply(factor, right);
        if (exchange && i + 2 < m) du[i + 1] = -hlo_complex_multiply(factor, far);
        for (int64_t c = 0; c < n; c++) {
            const Complex here = b[i * n + c], next = b[(i + 1) * n + c];
            b[i * n + c] = exchange ? next : here;
            b[(i + 1) * n + c] = (exchange ? here : next) - hlo_complex_multiply(factor, b[i * n + c]);
        }
    }
    for (int64_t i = m - 1; i >= 0; i--) {
        if (d[i] == 0) call->out[4][0] = (double)(i + 1);
        for (int64_t c = 0; c < n; c++) {
            Complex sum = b[i * n + c];
            if (i + 1 < m) sum -= hlo_complex_multiply(du[i], b[(i + 1) * n + c]);
            if (i + 2 < m) sum -= hlo_complex_multiply(second[i + 1], b[(i + 2) * n + c]);
            b[i * n + c] = sum / d[i];
        }
    }
}

// ---- LU and QR

static int64_t factor_lu(const Call *call, int64_t *pivots) {
    copy(call->out[0], call->in[0], call->m * call->n);
    return hlo_eval_factor_lu(call->out[0], call->m, call->n, pivots);
}

// Returns pivots and the permutation that they make, counted from 0.
static void lu(const Call *call) {
    const int64_t steps = hlo_smaller(call->m, call->n);
    int64_t *pivots = SCRATCH(call, int64_t, steps);
    factor_lu(call, pivots);
    Complex *order = call->out[2];
    for (int64_t i = 0; i < call->m; i++) order[i] = (double)i;
    for (int64_t i = 0; i < steps; i++) {
        const Complex held = order[i];
        call->out[1][i] = (double)pivots[i];
        order[i] = order[pivots[i]];
        order[pivots[i]] = held;
    }
}

// `lu` with LAPACK's results: pivots from 1, and the first step without a pivot.
static void getrf(const Call *call) {
    const int64_t steps = hlo_smaller(call->m, call->n);
    int64_t *pivots = SCRATCH(call, int64_t, steps);
    call->out[2][0] = (double)factor_lu(call, pivots);
    for (int64_t i = 0; i < steps; i++) call->out[1][i] = (double)(pivots[i] + 1);
}

static void geqrf(const Call *call) {
    copy(call->out[0], call->in[0], call->m * call->n);
    hlo_eval_factor_qr(call->out[0], call->m, call->n, call->out[1], scratch(call, call->m));
}

// Columns with a nonzero number are moved to the front.
static void geqp3(const Call *call) {
    const int64_t m = call->m, n = call->n;
    int64_t *order = SCRATCH(call, int64_t, n), fixed = 0;
    for (int64_t j = 0; j < n; j++)
        if (call->in[1][j] != 0) order[fixed++] = j;
    for (int64_t j = 0, next = fixed; j < n; j++)
        if (call->in[1][j] == 0) order[next++] = j;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) call->out[0][i * n + j] = call->in[0][i * n + order[j]];
    hlo_eval_factor_pivoted_qr(call->out[0], m, n, fixed, call->out[2], order, scratch(call, m));
    for (int64_t j = 0; j < n; j++) call->out[1][j] = (double)(order[j] + 1);
}

// Vector k of reflections packed in a matrix of `columns`, from its row k on.
static void unpack_vector(const Complex *a, int64_t rows, int64_t columns, int64_t k, Complex *v) {
    v[k] = 1;
    for (int64_t i = k + 1; i < rows; i++) v[i] = a[i * columns + k];
}

static int64_t last_dimension(const Call *call, int32_t operand) {
    const HloShape *shape = call->instruction->operands[operand]->shape;
    return shape->dims[shape->rank - 1];
}

// The first columns of H0 H1 ….
static void orgqr(const Call *call) {
    const int64_t m = call->m, n = call->n;
    Complex *q = call->out[0], *v = scratch(call, m);
    for (int64_t i = 0; i < m * n; i++) q[i] = i / n == i % n;
    for (int64_t k = last_dimension(call, 1) - 1; k >= 0; k--) {
        unpack_vector(call->in[0], m, n, k, v);
        hlo_eval_apply_reflection(q, m, n, false, 0, k, m, v, call->in[1][k]);
    }
}

// Q C, Q^H C, C Q or C Q^H.
static void ormqr(const Call *call) {
    const bool left = option(call, "left", 1) != 0, turned = option(call, "transpose", 0) != 0;
    const int64_t order = left ? call->m : call->n, count = last_dimension(call, 1);
    Complex *v = scratch(call, order);
    copy(call->out[0], call->in[2], call->m * call->n);
    for (int64_t step = 0; step < count; step++) {
        const int64_t k = left == turned ? step : count - 1 - step;
        const Complex tau = call->in[1][k];
        unpack_vector(call->in[0], order, last_dimension(call, 0), k, v);
        hlo_eval_apply_reflection(call->out[0], call->m, call->n, !left, 0, k, order, v, turned ? conj(tau) : tau);
    }
}

// ---- eigenvalues

// Computes vectors and values of the Hermitian matrix; true on success.
static bool diagonalise(const Call *call, bool lower, bool sort, Complex *vectors, Complex *values) {
    const int64_t n = call->n;
    Complex *a = scratch(call, n * n);
    double *d = SCRATCH(call, double, n);
    if (lower)
        copy(a, call->in[0], n * n);
    else
        adjoint(a, call->in[0], n, n);
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite = finite && all_finite(a + i * n, i + 1);
    if (finite) hlo_eval_diagonalise(a, vectors, d, n, sort);
    for (int64_t i = 0; i < n * n && !finite; i++) vectors[i] = CMPLX(NAN, NAN);
    for (int64_t i = 0; i < n; i++) values[i] = finite ? d[i] : NAN;
    return finite;
}

// XLA's "Eigh": the options are in the call's own backend config, results are (vectors, values).
static void eigh(const Call *call) {
    bool lower, sort;
    hlo_custom_call_eigh(call->instruction, &lower, &sort);
    diagonalise(call, lower, sort, call->out[0], call->out[1]);
}

// Without vectors the first result keeps the matrix.
static void syevd(const Call *call) {
    const int64_t n = call->n;
    const bool vectors = option(call, "mode", 'V') == 'V';
    Complex *v = vectors ? call->out[0] : scratch(call, n * n);
    call->out[2][0] = !diagonalise(call, option(call, "uplo", 'L') == 'L', true, v, call->out[1]);
    if (!vectors) copy(call->out[0], call->in[0], n * n);
}

// The upper form is the lower one of the matrix with rows and columns reversed.
static void sytrd(const Call *call) {
    const int64_t n = call->n;
    const bool lower = option(call, "uplo", 'L') == 'L';
    Complex *a = scratch(call, n * n), *taus = scratch(call, n);
    double *d = SCRATCH(call, double, n), *e = SCRATCH(call, double, n);
    for (int64_t i = 0; i < n * n; i++) a[i] = call->in[0][lower ? i : n * n - 1 - i];
    hlo_eval_tridiagonalise(a, n, d, e, taus, scratch(call, n));
    copy(call->out[0], call->in[0], n * n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) call->out[0][lower ? i * n + j : n * n - 1 - (i * n + j)] = a[i * n + j];
        call->out[1][lower ? i : n - 1 - i] = d[i];
        if (i + 1 == n) break;
        call->out[2][lower ? i : n - 2 - i] = e[i];
        call->out[3][lower ? i : n - 2 - i] = taus[i];
    }
    call->out[4][0] = 0;
}

// Rows and columns outside [low, high], counted from 1, are upper triangular already (check_balanced_rows()).
static void gehrd(const Call *call) {
    const int64_t n = call->n, low = option(call, "low", 1), high = option(call, "high", n);
    copy(call->out[0], call->in[0], n * n);
    if (n > 0) hlo_eval_hessenberg(call->out[0], n, low - 1, high, call->out[1], scratch(call, n));
    call->out[2][0] = 0;
}

// Computes the form of the matrix divided by 2^exponent, which keeps products of its elements in range.
static bool schur(const Call *call, Complex *t, Complex *z, int *exponent) {
    const int64_t n = call->n;
    Complex *taus = scratch(call, n), *v = scratch(call, n);
    copy(t, call->in[0], n * n);
    *exponent = hlo_eval_normalise(t, n * n);
    return call->is_real ? hlo_eval_real_schur(t, z, n, taus, v) : hlo_eval_complex_schur(t, z, n, taus, v);
}

// The inverse of hlo_eval_normalise().
static void scale_up(Complex *a, int64_t count, int exponent) {
    for (int64_t i = 0; i < count && exponent; i++)
        a[i] = CMPLX(ldexp(creal(a[i]), exponent), ldexp(cimag(a[i]), exponent));
}

// Stores the values on the diagonal of a Schur form: real and imaginary parts separately for real types.
static void schur_values(const Call *call, const Complex *t, Complex *values, Complex *imaginary) {
    const int64_t n = call->n;
    for (int64_t i = 0; i < n; i++) {
        values[i] = t[i * n + i];
        if (!call->is_real) continue;
        const double above = i > 0 ? creal(t[i * n + i - 1]) : 0, below = i + 1 < n ? creal(t[(i + 1) * n + i]) : 0;
        imaginary[i] = below != 0   ? sqrt(fabs(below)) * sqrt(fabs(creal(t[i * n + i + 1])))
                       : above != 0 ? -imaginary[i - 1]
                                    : 0;
    }
}

// (t, z, values …, number of sorted values, info)
static void gees(const Call *call) {
    const int32_t following = call->is_real ? 4 : 3;
    int exponent;
    const bool done = schur(call, call->out[0], call->out[1], &exponent);
    scale_up(call->out[0], call->n * call->n, exponent);
    call->out[following][0] = 0;
    call->out[following + 1][0] = done ? 0 : 1;
    schur_values(call, call->out[0], call->out[2], call->out[3]);
}

// The second vector of a pair of a real matrix is the conjugate of the first; real values have real vectors.
static void pair_up(const Complex *imaginary, int64_t n, Complex *vectors) {
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < n; i++) {
            if (creal(imaginary[k]) == 0) vectors[i * n + k] = creal(vectors[i * n + k]);
            if (creal(imaginary[k]) < 0) vectors[i * n + k] = conj(vectors[i * n + k - 1]);
        }
}

// (values …, left vectors, right vectors, info)
static void geev(const Call *call) {
    const int64_t n = call->n;
    const int32_t following = call->is_real ? 2 : 1;
    Complex *t = scratch(call, n * n), *z = scratch(call, n * n), *x = scratch(call, n);
    int exponent;
    const bool done = schur(call, t, z, &exponent);
    schur_values(call, t, call->out[0], call->out[1]);
    if (call->is_real) hlo_eval_schur_to_complex(t, z, n);
    for (int side = 0; side < 2; side++) {
        Complex *vectors = call->out[following + side];
        for (int64_t i = 0; i < n * n; i++) vectors[i] = 0;
        if (option(call, side ? "compute_right" : "compute_left", 'V') != 'V' || !done) continue;
        hlo_eval_schur_vectors(t, z, n, side == 0, vectors, x);
        if (call->is_real) pair_up(call->out[1], n, vectors);
    }
    for (int32_t part = 0; part < following; part++) scale_up(call->out[part], n, exponent);
    call->out[following + 2][0] = done ? 0 : 1;
}

// ---- singular values

// The singular values and vectors of a matrix with rows >= columns: s, u (rows x u_columns), v^H (columns x columns).
static void singular_tall(const Call *call, const Complex *a, int64_t rows, int64_t columns, double *s, Complex *u,
                          int64_t u_columns, Complex *v) {
    Complex *factor = scratch(call, rows * columns), *work = scratch(call, rows * columns), *x = scratch(call, rows);
    copy(factor, a, rows * columns);
    hlo_eval_singular_values(factor, v, s, rows, columns);
    int64_t rank = 0;
    while (rank < columns && s[rank] > 0) rank++;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) u[i * u_columns + j] = factor[i * columns + j];
    hlo_eval_complete_basis(u, rows, u_columns, rank, work, scratch(call, columns), x);
}

// (the matrix, s, u, v^H, info); a wide matrix is the adjoint of a tall one. Without vectors u and v^H are zeros.
static void gesdd(const Call *call) {
    const int64_t m = call->m, n = call->n, k = hlo_smaller(m, n), larger = m + n - k;
    const HloShape *u_shape = call->out_shapes[2], *v_shape = call->out_shapes[3];
    const int64_t u_columns = u_shape->dims[u_shape->rank - 1], v_rows = v_shape->dims[v_shape->rank - 2];
    const bool vectors = option(call, "mode", 'S') != 'N', finite = all_finite(call->in[0], m * n);
    const int64_t columns = vectors ? (m >= n ? u_columns : v_rows) : k;
    Complex *a = scratch(call, m * n), *u = scratch(call, larger * columns), *v = scratch(call, k * k);
    double *s = SCRATCH(call, double, k);
    copy(call->out[0], call->in[0], m * n);
    if (m >= n)
        copy(a, call->in[0], m * n);
    else
        adjoint(a, call->in[0], m, n);
    if (finite) singular_tall(call, a, larger, k, s, u, columns, v);
    for (int64_t i = 0; i < k; i++) call->out[1][i] = finite ? s[i] : NAN;
    call->out[4][0] = !finite;
    const bool filled = vectors && finite;
    for (int64_t i = 0; i < m * u_columns; i++) {
        const int64_t row = i / u_columns, column = i % u_columns;
        call->out[2][i] = !filled ? 0 : m >= n ? u[row * columns + column] : v[row * k + column];
    }
    for (int64_t i = 0; i < v_rows * n; i++) {
        const int64_t row = i / n, column = i % n;
        call->out[3][i] = !filled ? 0 : m >= n ? conj(v[column * k + row]) : conj(u[column * columns + row]);
    }
}

// ---- the table

#define ROUTINES(ROW) \
    ROW(potrf, 2)     \
    ROW(trsm, 2)      \
    ROW(gtsv, 1)      \
    ROW(lu, 2)        \
    ROW(getrf, 2)     \
    ROW(geqrf, 2)     \
    ROW(geqp3, 2)     \
    ROW(orgqr, 2)     \
    ROW(ormqr, 2)     \
    ROW(eigh, 2)      \
    ROW(syevd, 2)     \
    ROW(sytrd, 2)     \
    ROW(gehrd, 2)     \
    ROW(geev, 2)      \
    ROW(gesdd, 2)     \
    ROW(gees, 2)

// The evaluators of the calls, on values.
#define EVALUATOR(name, own)                                                                                          \
    HloStatus hlo_eval_call_##name(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands, \
                                   HloEvalValue **result) {                                                           \
        return evaluate(device, instruction, operands, result);                                                       \
    }

typedef struct Routine {
    int32_t own;  // dimensions of the first operand after those of the batch
    CallFunction *run;
} Routine;

// NULL if the call is none of these.
static const Routine *routine_of(const HloInstruction *call) {
    static const Routine routines[HLO_CALL_ROUTINE_COUNT] = {
#define ROW(name, own) [HLO_CALL_ROUTINE_##name] = {own, name},
        ROUTINES(ROW)
#undef ROW
    };
    const Routine *routine = &routines[hlo_custom_call_routine(call)];
    return routine->run ? routine : NULL;
}

HloStatus hlo_decompose_check(const HloInstruction *call) {
    HLO_TRY(hlo_custom_call_check(call));
    const Routine *routine = routine_of(call);
    assert(routine); /* the rows of custom_calls.def that come here name one */
    HLO_FAIL_IF(routine->run == gees && hlo_custom_call_option(call, "sort", 'N') != 'N', HLO_UNIMPLEMENTED,
                "%%%s: a Schur form with sorted eigenvalues", call->name);
    return HLO_SUCCESS;
}

int64_t hlo_decompose_batch(const HloInstruction *call) {
    const Routine *routine = routine_of(call);
    const HloShape *first = call->operands[0]->shape;
    assert(routine); /* hlo_decompose_check() found one */
    // A batch of 10^15 matrices without elements is a valid shape: nothing is walked if the results are empty.
    int64_t batch = 1, results = 0;
    for (int32_t i = 0; i < result_count(call); i++) results += hlo_shape_elements(hlo_shape_value(call->shape, i)) > 0;
    if (results == 0) return 0;
    for (int32_t i = 0; i + routine->own < first->rank; i++) batch *= first->dims[i];
    return batch;
}

void hlo_decompose(const HloInstruction *call, const void *const *operands, void *const *results, int64_t first,
                   int64_t count, HloArena *arena) {
    const Routine *routine = routine_of(call);
    const int64_t batch = hlo_decompose_batch(call);
    assert(first >= 0 && first + count <= batch); /* the caller cuts the batch */
    const Call matrix = new_call(call, batch, arena);
    const HloArenaMark mark = hlo_arena_mark(arena);
    for (int64_t b = first; b < first + count; b++) {
        run_matrix(&matrix, routine->run, operands, results, batch, b);
        hlo_arena_reset(arena, mark);
    }
}

static HloStatus evaluate(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                          HloEvalValue **result) {
    HLO_TRY(hlo_decompose_check(instruction));
    HloEvalValue *arrays[MOST_ARRAYS];
    const void *from[MOST_ARRAYS];
    void *to[MOST_ARRAYS];
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, result_count(instruction), result, arrays));
    for (int32_t i = 0; i < instruction->operand_count; i++) from[i] = operands[i]->data;
    for (int32_t i = 0; i < result_count(instruction); i++) to[i] = arrays[i]->data;
    hlo_decompose(instruction, from, to, 0, hlo_decompose_batch(instruction), device->scratch);
    return HLO_SUCCESS;
}

ROUTINES(EVALUATOR)
