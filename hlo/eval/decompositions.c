// SPDX-License-Identifier: Apache-2.0
// The dense decompositions that JAX asks for by custom call: LuDecomposition, Qr,
// ProductOfElementaryHouseholderReflectors, Eigh. In double complex, matrix by matrix, with LAPACK's conventions for
// packed factors.
#include <complex.h>
#include <math.h>

#include "hlo/eval/internal.h"

typedef double _Complex Complex;

#define MAX_JACOBI_SWEEPS 60

// A batch of matrices: the last two dimensions.
typedef struct Matrices {
    HloType type;
    int64_t count, rows, columns;
} Matrices;

static HloStatus describe(const HloInstruction *instruction, const HloShape *shape, Matrices *matrices) {
    HLO_FAIL_IF(shape->rank < 2 || !(hlo_type_is_float(shape->type) || hlo_type_is_complex(shape->type)),
                HLO_INVALID_ARGUMENT, "%%%s: matrices of floats are wanted", instruction->name);
    *matrices = (Matrices){
        .type = shape->type, .count = 1, .rows = shape->dims[shape->rank - 2], .columns = shape->dims[shape->rank - 1]};
    for (int32_t i = 0; i + 2 < shape->rank; i++) matrices->count *= shape->dims[i];
    return HLO_SUCCESS;
}

static HloStatus need_results(const HloInstruction *instruction, int32_t operands, int32_t results) {
    int32_t given = instruction->shape->type == HLO_TUPLE ? instruction->shape->element_count : 1;
    HLO_FAIL_IF(given != results || instruction->operand_count != operands, HLO_INVALID_ARGUMENT,
                "%%%s: %d operands and %d results are wanted", instruction->name, (int)operands, (int)results);
    return HLO_SUCCESS;
}

// Nothing infers a custom call's result shapes: they are checked before they are written to.
static HloStatus check_result(const HloInstruction *instruction, const HloEvalValue *value, HloType type,
                              int64_t count) {
    HLO_FAIL_IF(value->shape->type != type || hlo_eval_elements(value) != count, HLO_INVALID_ARGUMENT,
                "%%%s: a result of %lld %s is wanted", instruction->name, (long long)count, hlo_type_text(type));
    return HLO_SUCCESS;
}

// Numbers [first, first + count) of a value as complex ones, and back (the real part for real types).
static void load(const HloEvalValue *value, int64_t first, int64_t count, Complex *out) {
    HloType type = value->shape->type;
    hlo_eval_decode_complex(type, (const char *)value->data + first * hlo_type_bytes(type), count, out);
}

static void store(const Complex *numbers, int64_t first, int64_t count, HloEvalValue *value) {
    HloType type = value->shape->type;
    char *target = (char *)value->data + first * hlo_type_bytes(type);
    if (hlo_type_is_complex(type)) {
        hlo_eval_encode_complex(type, numbers, count, target);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double real = creal(numbers[i]);
        hlo_eval_encode_double(type, &real, 1, target + i * hlo_type_bytes(type));
    }
}

// ---- LU with row exchanges

static void swap_rows(Complex *a, int64_t columns, int64_t i, int64_t j) {
    for (int64_t k = 0; k < columns; k++) {
        Complex held = a[i * columns + k];
        a[i * columns + k] = a[j * columns + k];
        a[j * columns + k] = held;
    }
}

static void factor_lu(Complex *a, int64_t rows, int64_t columns, int64_t *pivots, int64_t *order) {
    int64_t steps = rows < columns ? rows : columns;
    for (int64_t i = 0; i < rows; i++) order[i] = i;
    for (int64_t k = 0; k < steps; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < rows; i++) {
            if (cabs(a[i * columns + k]) > cabs(a[best * columns + k])) best = i;
        }
        pivots[k] = best;
        swap_rows(a, columns, k, best);
        int64_t held = order[k];
        order[k] = order[best];
        order[best] = held;
        if (a[k * columns + k] == 0) continue;
        for (int64_t i = k + 1; i < rows; i++) {
            Complex factor = a[i * columns + k] /= a[k * columns + k];
            for (int64_t j = k + 1; j < columns; j++) a[i * columns + j] -= factor * a[k * columns + j];
        }
    }
}

// (lu, pivots, permutation), both counted from 0.
HloStatus hlo_eval_lu(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                      HloEvalValue **result) {
    Matrices m;
    HloEvalValue *arrays[3];
    HLO_TRY(need_results(instruction, 1, 3));
    HLO_TRY(describe(instruction, operands[0]->shape, &m));
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 3, result, arrays));
    int64_t size = m.rows * m.columns, steps = m.rows < m.columns ? m.rows : m.columns;
    HLO_TRY(check_result(instruction, arrays[0], m.type, m.count * size));
    HLO_TRY(check_result(instruction, arrays[1], HLO_S32, m.count * steps));
    HLO_TRY(check_result(instruction, arrays[2], HLO_S32, m.count * m.rows));
    Complex *a = HLO_EVAL_SCRATCH(device, Complex, size);
    int64_t *pivots = HLO_EVAL_SCRATCH(device, int64_t, steps), *order = HLO_EVAL_SCRATCH(device, int64_t, m.rows);
    for (int64_t b = 0; b < m.count; b++) {
        load(operands[0], b * size, size, a);
        factor_lu(a, m.rows, m.columns, pivots, order);
        store(a, b * size, size, arrays[0]);
        hlo_eval_encode_int64(HLO_S32, pivots, steps, (int32_t *)arrays[1]->data + b * steps);
        hlo_eval_encode_int64(HLO_S32, order, m.rows, (int32_t *)arrays[2]->data + b * m.rows);
    }
    return HLO_SUCCESS;
}

// ---- QR by reflections H = I - tau v v^H, v[k] = 1; v stands below the diagonal

static void apply_reflection(Complex *a, int64_t rows, int64_t columns, int64_t from_column, int64_t k,
                             const Complex *v, Complex tau) {
    for (int64_t j = from_column; j < columns; j++) {
        Complex sum = 0;
        for (int64_t i = k; i < rows; i++) sum += conj(v[i]) * a[i * columns + j];
        for (int64_t i = k; i < rows; i++) a[i * columns + j] -= tau * v[i] * sum;
    }
}

static void factor_qr(Complex *a, int64_t rows, int64_t columns, Complex *taus, Complex *v) {
    int64_t steps = rows < columns ? rows : columns;
    for (int64_t k = 0; k < steps; k++) {
        Complex alpha = a[k * columns + k];
        double below = 0;
        for (int64_t i = k + 1; i < rows; i++) below = hypot(below, cabs(a[i * columns + k]));
        taus[k] = 0;
        if (below == 0 && cimag(alpha) == 0) continue;
        double beta = -copysign(hypot(cabs(alpha), below), creal(alpha));
        taus[k] = CMPLX((beta - creal(alpha)) / beta, -cimag(alpha) / beta);
        v[k] = 1;
        for (int64_t i = k + 1; i < rows; i++) v[i] = a[i * columns + k] / (alpha - beta);
        apply_reflection(a, rows, columns, k + 1, k, v, conj(taus[k]));
        a[k * columns + k] = beta;
        for (int64_t i = k + 1; i < rows; i++) a[i * columns + k] = v[i];
    }
}

// (packed factors, taus)
HloStatus hlo_eval_qr(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                      HloEvalValue **result) {
    Matrices m;
    HloEvalValue *arrays[2];
    HLO_TRY(need_results(instruction, 1, 2));
    HLO_TRY(describe(instruction, operands[0]->shape, &m));
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 2, result, arrays));
    int64_t size = m.rows * m.columns, steps = m.rows < m.columns ? m.rows : m.columns;
    HLO_TRY(check_result(instruction, arrays[0], m.type, m.count * size));
    HLO_TRY(check_result(instruction, arrays[1], m.type, m.count * steps));
    Complex *a = HLO_EVAL_SCRATCH(device, Complex, size), *taus = HLO_EVAL_SCRATCH(device, Complex, steps);
    Complex *v = HLO_EVAL_SCRATCH(device, Complex, m.rows);
    for (int64_t b = 0; b < m.count; b++) {
        load(operands[0], b * size, size, a);
        factor_qr(a, m.rows, m.columns, taus, v);
        store(a, b * size, size, arrays[0]);
        store(taus, b * steps, steps, arrays[1]);
    }
    return HLO_SUCCESS;
}

// The first columns of H0 H1 …, from packed factors and taus.
HloStatus hlo_eval_householder_product(HloEvalDevice *device, const HloInstruction *instruction,
                                       HloEvalValue **operands, HloEvalValue **result) {
    Matrices m;
    HLO_TRY(need_results(instruction, 2, 1));
    HLO_TRY(describe(instruction, operands[0]->shape, &m));
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    const HloShape *scales = operands[1]->shape;
    int64_t size = m.rows * m.columns, steps = scales->rank > 0 ? scales->dims[scales->rank - 1] : 0;
    HLO_TRY(check_result(instruction, *result, m.type, m.count * size));
    HLO_FAIL_IF(steps > m.columns || steps > m.rows || hlo_eval_elements(operands[1]) != m.count * steps,
                HLO_INVALID_ARGUMENT, "%%%s: the shapes do not agree", instruction->name);
    Complex *a = HLO_EVAL_SCRATCH(device, Complex, size), *taus = HLO_EVAL_SCRATCH(device, Complex, steps);
    Complex *q = HLO_EVAL_SCRATCH(device, Complex, size), *v = HLO_EVAL_SCRATCH(device, Complex, m.rows);
    for (int64_t b = 0; b < m.count; b++) {
        load(operands[0], b * size, size, a);
        load(operands[1], b * steps, steps, taus);
        for (int64_t i = 0; i < size; i++) q[i] = i / m.columns == i % m.columns;
        for (int64_t k = steps - 1; k >= 0; k--) {
            v[k] = 1;
            for (int64_t i = k + 1; i < m.rows; i++) v[i] = a[i * m.columns + k];
            apply_reflection(q, m.rows, m.columns, 0, k, v, taus[k]);
        }
        store(q, b * size, size, *result);
    }
    return HLO_SUCCESS;
}

// ---- eigenvalues of Hermitian matrices by Jacobi rotations

static double off_diagonal(const Complex *a, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++)
        sum += i / n == i % n ? 0 : creal(a[i]) * creal(a[i]) + cimag(a[i]) * cimag(a[i]);
    return sum;
}

// Turns columns p and q of a matrix: (p, q) := (c p - s conj(e) q, s e p + c q).
static void turn_columns(Complex *a, int64_t n, int64_t p, int64_t q, double c, double s, Complex e) {
    for (int64_t k = 0; k < n; k++) {
        Complex x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * conj(e) * y;
        a[k * n + q] = s * e * x + c * y;
    }
}

static void turn_rows(Complex *a, int64_t n, int64_t p, int64_t q, double c, double s, Complex e) {
    for (int64_t k = 0; k < n; k++) {
        Complex x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * e * y;
        a[q * n + k] = s * conj(e) * x + c * y;
    }
}

static void diagonalise(Complex *a, Complex *v, int64_t n) {
    double total = off_diagonal(a, n);
    for (int64_t i = 0; i < n; i++) total += creal(a[i * n + i]) * creal(a[i * n + i]);
    for (int sweep = 0; sweep < MAX_JACOBI_SWEEPS && off_diagonal(a, n) > 1e-32 * total; sweep++) {
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                double size = cabs(a[p * n + q]);
                if (size == 0) continue;
                double d = (creal(a[q * n + q]) - creal(a[p * n + p])) / (2 * size);
                double t = copysign(1.0, d) / (fabs(d) + sqrt(d * d + 1)), c = 1 / sqrt(t * t + 1);
                Complex e = a[p * n + q] / size;
                turn_columns(a, n, p, q, c, t * c, e);
                turn_rows(a, n, p, q, c, t * c, e);
                turn_columns(v, n, p, q, c, t * c, e);
            }
        }
    }
}

// Only one triangle of the matrix counts.
static void mirror(Complex *a, int64_t n, bool lower) {
    for (int64_t i = 0; i < n; i++) {
        a[i * n + i] = creal(a[i * n + i]);
        for (int64_t j = 0; j < i; j++) {
            if (lower) {
                a[j * n + i] = conj(a[i * n + j]);
            } else {
                a[i * n + j] = conj(a[j * n + i]);
            }
        }
    }
}

// Ascending eigenvalues, their vectors in columns.
static void sort_pairs(Complex *values, Complex *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++) {
            if (creal(values[j]) < creal(values[least])) least = j;
        }
        Complex held = values[i];
        values[i] = values[least];
        values[least] = held;
        for (int64_t k = 0; k < n; k++) {
            held = v[k * n + i];
            v[k * n + i] = v[k * n + least];
            v[k * n + least] = held;
        }
    }
}

// (vectors, values); the configuration says "lower,sort,sweeps,tolerance".
HloStatus hlo_eval_eigh(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                        HloEvalValue **result) {
    Matrices m;
    HloEvalValue *arrays[2];
    HLO_TRY(need_results(instruction, 1, 2));
    HLO_TRY(describe(instruction, operands[0]->shape, &m));
    HLO_FAIL_IF(m.rows != m.columns, HLO_INVALID_ARGUMENT, "%%%s: the matrices are not square", instruction->name);
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 2, result, arrays));
    bool lower = !instruction->backend_config || instruction->backend_config[0] != '0';
    int64_t n = m.rows, size = n * n;
    HLO_TRY(check_result(instruction, arrays[0], m.type, m.count * size));
    HLO_TRY(check_result(instruction, arrays[1], hlo_type_real_part(m.type), m.count * n));
    Complex *a = HLO_EVAL_SCRATCH(device, Complex, size), *v = HLO_EVAL_SCRATCH(device, Complex, size);
    Complex *values = HLO_EVAL_SCRATCH(device, Complex, n);
    for (int64_t b = 0; b < m.count; b++) {
        load(operands[0], b * size, size, a);
        mirror(a, n, lower);
        for (int64_t i = 0; i < size; i++) v[i] = i / n == i % n;
        diagonalise(a, v, n);
        for (int64_t i = 0; i < n; i++) values[i] = a[i * n + i];
        sort_pairs(values, v, n);
        store(v, b * size, size, arrays[0]);
        store(values, b * n, n, arrays[1]);
    }
    return HLO_SUCCESS;
}
