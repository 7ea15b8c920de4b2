// SPDX-License-Identifier: Apache-2.0
// The arithmetic of matrix products: accumulators, passes, and one blocked loop for the types that multiply.c does not
// handle.
//
// A product is accumulated in the type of its kind (double, int64_t modulo 2^64, double complex) and rounded to the
// result's type once: more exact than any device, so that it can serve as their reference.
//
// With numerics=TPU the products of f32 are instead those of a matrix unit with bf16 inputs. A number is split into
// bf16 parts, x = x0 + x1 + x2 (each the rounding of the remainder after the parts before it), and products of parts
// are added:
//
//   DEFAULT, X1   x0 y0
//   HIGH, X3      x1 y0 + x0 y1 + x0 y0
//   HIGHEST, X6   the three of HIGH and x0 y2, x2 y0, x1 y1
//   X9            all nine
//
// The smallest products come first, so that they are not lost in the sum (Henry, Tang and Heinecke, "Leveraging the
// bfloat16 artificial intelligence datatype for higher-precision computations", ARITH 2019).
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"
#include "hlo/eval/internal.h"
#include "hlo/ir/infer/support.h"

HloEvalAccumulator hlo_eval_accumulator(HloType lhs, HloType rhs) {
    if (hlo_type_is_complex(lhs) || hlo_type_is_complex(rhs)) return HLO_EVAL_COMPLEX;
    return hlo_type_is_float(lhs) || hlo_type_is_float(rhs) ? HLO_EVAL_DOUBLE : HLO_EVAL_INT64;
}

int64_t hlo_eval_accumulator_bytes(HloEvalAccumulator accumulator) {
    return accumulator == HLO_EVAL_COMPLEX ? 16 : 8;
}

void hlo_eval_to_accumulator(HloEvalAccumulator accumulator, HloType type, const void *data, int64_t count, void *out) {
    switch (accumulator) {
        case HLO_EVAL_DOUBLE: hlo_eval_decode_double(type, data, count, out); return;
        case HLO_EVAL_INT64: hlo_eval_decode_int64(type, data, count, out); return;
        default: hlo_eval_decode_complex(type, data, count, out);
    }
}

// Rounds sums to the result's type, once.
void hlo_eval_from_accumulator(HloEvalAccumulator accumulator, HloType type, const void *data, int64_t count,
                               void *out) {
    assert(count >= 0);
    int64_t bytes = hlo_type_bytes(type);
    if (accumulator == HLO_EVAL_COMPLEX) {
        hlo_eval_encode_complex(type, data, count, out);
    } else if (accumulator == HLO_EVAL_INT64 && !hlo_type_is_float(type) && !hlo_type_is_complex(type)) {
        hlo_eval_encode_int64(type, data, count, out);
    } else if (accumulator == HLO_EVAL_DOUBLE && hlo_type_is_float(type)) {
        hlo_eval_encode_double(type, data, count, out);
    } else {
        // Integers into floats, reals into complex numbers.
        for (int64_t i = 0; i < count; i++) {
            double real =
                accumulator == HLO_EVAL_DOUBLE ? ((const double *)data)[i] : (double)((const int64_t *)data)[i];
            char *target = (char *)out + i * bytes;
            if (hlo_type_is_float(type)) {
                hlo_eval_encode_double(type, &real, 1, target);
            } else {
                double _Complex number = real;
                hlo_eval_encode_complex(type, &number, 1, target);
            }
        }
    }
}

// ---- conversions inside

// The factors and the result of the plain product have the product's own type.
HloStatus hlo_eval_converting_product(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                      HloEvalFunction *plain, HloEvalValue **result) {
    HloEvalValue *sides[2], *sum;
    HloInstruction product = *instruction;
    const HloType type = hlo_product_type(operands[0]->shape->type, operands[1]->shape->type, instruction->shape->type);
    for (int k = 0; k < 2; k++) {
        const HloShape *shape = operands[k]->shape;
        sides[k] = operands[k];
        if (hlo_product_converts_side(shape->type, type))
            HLO_TRY(
                hlo_eval_converted(device, operands[k], hlo_shape_with_type(device->scratch, shape, type), &sides[k]));
    }
    product.shape = hlo_shape_with_type(device->scratch, instruction->shape, type);
    HLO_TRY(plain(device, &product, sides, &sum));
    HLO_TRY(hlo_eval_converted(device, sum, instruction->shape, result));
    hlo_eval_release(device, sum);
    for (int k = 0; k < 2; k++)
        if (sides[k] != operands[k]) hlo_eval_release(device, sides[k]);
    return HLO_SUCCESS;
}

// ---- passes

// The list for this number of parts of each number and, for three parts, this number of products.
static HloEvalPasses passes_of(int parts, int count) {
    assert(parts > 0 && count > 0);
    // Smallest products first; with three parts: 0 high, 1 middle, 2 low.
    static const HloEvalPasses one = {1, {0}, {0}};
    static const HloEvalPasses three = {3, {1, 0, 0}, {0, 1, 0}};
    static const HloEvalPasses six = {6, {1, 0, 2, 0, 1, 0}, {1, 2, 0, 1, 0, 0}};
    static const HloEvalPasses nine = {9, {2, 2, 1, 1, 0, 2, 0, 1, 0}, {2, 1, 2, 1, 2, 0, 1, 0, 0}};
    if (parts == 1) return one;
    if (parts == 2) return three;
    return count == 6 ? six : nine;
}

// No passes (count 0) means exact: types other than f32, other numerics, and products of a matrix and a vector, which a
// TPU computes outside its matrix unit. The algorithm of a dot takes precedence over its precision.
HloEvalPasses hlo_eval_passes(const HloEvalDevice *device, HloType lhs, HloType rhs, HloPrecisions precision,
                              int32_t algorithm, bool matrix_vector) {
    HloEvalPasses exact = {0};
    bool rounds = (lhs == HLO_F32 && (rhs == HLO_F32 || rhs == HLO_BF16)) || (lhs == HLO_BF16 && rhs == HLO_F32);
    if (device->world->options.numerics != HLO_NUMERICS_TPU || !rounds) return exact;
    switch (algorithm) {
        case HLO_DotAlgorithm_UNSET: break;
        case HLO_DotAlgorithm_BF16_BF16_BF16:
        case HLO_DotAlgorithm_BF16_BF16_F32: return passes_of(1, 1);
        case HLO_DotAlgorithm_BF16_BF16_F32_X3: return passes_of(2, 3);
        case HLO_DotAlgorithm_BF16_BF16_F32_X6: return passes_of(3, 6);
        case HLO_DotAlgorithm_BF16_BF16_F32_X9: return passes_of(3, 9);
        default: return exact;
    }
    if (matrix_vector) return exact;
    int32_t highest = HLO_Precision_DEFAULT;
    for (int64_t i = 0; i < precision.count; i++) {
        if (precision.items[i] <= HLO_Precision_HIGHEST && precision.items[i] > highest) highest = precision.items[i];
    }
    if (highest == HLO_Precision_HIGHEST) return passes_of(3, 6);
    return highest == HLO_Precision_HIGH ? passes_of(2, 3) : passes_of(1, 1);
}

// Computes part `part` of each value: the remainder after the larger parts, rounded to nearest even. (XLA's
// dot_algorithm_rewriter truncates instead; but the first part must be the one that a single pass multiplies, and three
// rounded parts hold all of an f32.)
static void split_part(const double *values, int64_t count, int part, double *out) {
    assert(part >= 0 && count >= 0);
    for (int64_t i = 0; i < count; i++) {
        float rest = (float)values[i];
        for (int p = 0; p < part; p++) rest -= hlo_eval_round_bf16(rest);
        out[i] = hlo_eval_round_bf16(rest);
    }
}

// ---- the loop

// Computes c += a b for a[m][k], b[k][n], c[m][n]: blocks of b stay in the cache while all rows of a pass over them,
// and the innermost loop runs along rows of b and c. k is added in order, so the result does not depend on the blocks.
#define BLOCK_K 256
#define BLOCK_N 512

#define MULTIPLY_BODY(type, multiply_add)                                                         \
    for (int64_t n0 = 0; n0 < n; n0 += BLOCK_N) {                                                 \
        int64_t columns = n - n0 < BLOCK_N ? n - n0 : BLOCK_N;                                    \
        for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K) {                                             \
            int64_t k1 = k - k0 < BLOCK_K ? k : k0 + BLOCK_K;                                     \
            for (int64_t i = 0; i < m; i++) {                                                     \
                type *restrict row = c + i * n + n0;                                              \
                for (int64_t x = k0; x < k1; x++) {                                               \
                    type factor = a[i * k + x];                                                   \
                    const type *restrict other = b + x * n + n0;                                  \
                    for (int64_t j = 0; j < columns; j++) multiply_add(row[j], factor, other[j]); \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }

#define REAL_MULTIPLY_ADD(total, x, y) (total) += (x) * (y)

// Unsigned, so that overflow wraps; the lower bits are those of the signed product too.
static void multiply_integer(const uint64_t *a, const uint64_t *b, uint64_t *c, int64_t m, int64_t n, int64_t k) {
    MULTIPLY_BODY(uint64_t, REAL_MULTIPLY_ADD)
}

// The plain formula: C's own product would repair infinities.
#define COMPLEX_MULTIPLY_ADD(total, x, y) \
    (total) += CMPLX(creal(x) * creal(y) - cimag(x) * cimag(y), creal(x) * cimag(y) + cimag(x) * creal(y))

static void multiply_complex(const double _Complex *a, const double _Complex *b, double _Complex *c, int64_t m,
                             int64_t n, int64_t k) {
    MULTIPLY_BODY(double _Complex, COMPLEX_MULTIPLY_ADD)
}

void hlo_eval_matrix_multiply(HloEvalAccumulator accumulator, const void *a, const void *b, void *c, int64_t m,
                              int64_t n, int64_t k) {
    assert(m >= 0 && n >= 0 && k >= 0);
    switch (accumulator) {
        case HLO_EVAL_DOUBLE: hlo_eval_multiply_double(a, b, c, m, n, k); return;
        case HLO_EVAL_INT64: multiply_integer(a, b, c, m, n, k); return;
        default: multiply_complex(a, b, c, m, n, k);
    }
}

// Before the last pass, x0 y0, NaNs become 0: they come from infinities, whose lower parts are inf - inf. The last pass
// makes them again if the product itself has them.
void hlo_eval_multiply_passes(HloEvalDevice *device, const HloEvalPasses *passes, const double *a, const double *b,
                              double *c, int64_t m, int64_t n, int64_t k) {
    assert(m >= 0 && n >= 0 && k >= 0);
    HloArenaMark mark = hlo_arena_mark(device->scratch);
    double *part_a = HLO_EVAL_SCRATCH(device, double, m *k), *part_b = HLO_EVAL_SCRATCH(device, double, k *n);
    for (int p = 0; p < passes->count; p++) {
        if (p > 0 && p == passes->count - 1) {
            for (int64_t i = 0; i < m * n; i++) c[i] = isnan(c[i]) ? 0 : c[i];
        }
        split_part(a, m * k, passes->lhs[p], part_a);
        split_part(b, k * n, passes->rhs[p], part_b);
        hlo_eval_matrix_multiply(HLO_EVAL_DOUBLE, part_a, part_b, c, m, n, k);
    }
    hlo_arena_reset(device->scratch, mark);
}
