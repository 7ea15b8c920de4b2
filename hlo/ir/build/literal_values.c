// SPDX-License-Identifier: Apache-2.0
// One loop over the elements each. The formulas of the made-up values must not change: anyone can make the same numbers
// with a few lines of Python, and a comparison between machines needs no files.
#include "hlo/ir/literal_values.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/base/complex.h"

// The splitmix64 generator's output number `counter` from this seed.
// Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014; the constants are Java's
// SplittableRandom. Counter-based, so that element i needs no elements before it.
static uint64_t splitmix64(uint64_t seed, uint64_t counter) {
    uint64_t x = seed + (counter + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

// 53 random bits in [0, 1).
// The upper 53 bits, so that every value is a double exactly.
static double uniform(uint64_t seed, uint64_t counter) {
    return (double)(splitmix64(seed, counter) >> 11) * 0x1p-53;
}

// One more than the largest integer that the filler uses for a type.
static int64_t integer_limit(HloType type) {
    const HloTypeInfo *info = hlo_type_info(type);
    int value_bits = info->bits - (info->kind == HLO_KIND_SIGNED);
    return value_bits >= 4 ? 16 : (int64_t)1 << value_bits;
}

// sqrt(3/n) gives elements of variance 1/n: a product over n of them keeps the size of its operand, and deep networks
// stay in range. n is the last dimension but one, which is what x·W sums over.
void hlo_literal_fill_random(HloLiteral *literal, uint64_t seed, int64_t input) {
    assert(literal && input >= 0);
    const HloShape *shape = literal->shape;
    int64_t count = hlo_shape_elements(shape);
    uint64_t stream = splitmix64(seed, (uint64_t)input);
    HloTypeKind kind = hlo_type_kind(shape->type);
    double scale = shape->rank >= 2
                       ? sqrt(3.0 / (double)(shape->dims[shape->rank - 2] > 0 ? shape->dims[shape->rank - 2] : 1))
                       : 1.0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t counter = (uint64_t)i;
        if (kind == HLO_KIND_COMPLEX) {
            double real = (2 * uniform(stream, 2 * counter) - 1) * scale;
            double imaginary = (2 * uniform(stream, 2 * counter + 1) - 1) * scale;
            hlo_literal_set_complex(literal, i, CMPLX(real, imaginary));
        } else if (kind == HLO_KIND_FLOAT) {
            hlo_literal_set_double(literal, i, (2 * uniform(stream, counter) - 1) * scale);
        } else {
            int64_t limit = kind == HLO_KIND_PRED ? 2 : integer_limit(shape->type);
            hlo_literal_set_int64(literal, i, (int64_t)(uniform(stream, counter) * (double)limit));
        }
    }
}

void hlo_literal_fill(HloLiteral *literal, double value) {
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) hlo_literal_set_double(literal, i, value);
}

void hlo_literal_set_floats(HloLiteral *literal, const float *values) {
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) hlo_literal_set_double(literal, i, (double)values[i]);
}

void hlo_literal_set_doubles(HloLiteral *literal, const double *values) {
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) hlo_literal_set_double(literal, i, values[i]);
}

void hlo_literal_get_floats(const HloLiteral *literal, float *values) {
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) values[i] = (float)hlo_literal_get_double(literal, i);
}

void hlo_literal_get_doubles(const HloLiteral *literal, double *values) {
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) values[i] = hlo_literal_get_double(literal, i);
}

static bool is_integer(HloType type) {
    const HloTypeKind kind = hlo_type_kind(type);
    return kind == HLO_KIND_SIGNED || kind == HLO_KIND_UNSIGNED || kind == HLO_KIND_PRED;
}

HloLiteral *hlo_literal_convert(const HloLiteral *literal, HloType type) {
    assert(hlo_shape_is_array(literal->shape) && literal->data);
    HloLiteral *result = hlo_literal_of(type, hlo_shape_dims(literal->shape), NULL);
    if (!result) return NULL;
    const int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) {
        if (is_integer(literal->shape->type) && is_integer(type))
            hlo_literal_set_int64(result, i, hlo_literal_get_int64(literal, i));
        else if (hlo_type_is_complex(type))
            hlo_literal_set_complex(result, i, hlo_literal_get_complex(literal, i));
        else
            hlo_literal_set_double(result, i, hlo_literal_get_double(literal, i));
    }
    return result;
}
