// SPDX-License-Identifier: Apache-2.0
// Distributions: floats and integers from bits by the steps of jax.random (jax/_src/random.py), so that the values
// agree, to the last bit where the steps are exact.
//
//   uniform      random mantissa bits under the exponent of 1 are 1 <= x < 2; (x - 1) (high - low) + low
//   normal       sqrt(2) erf_inv(u), u uniform between -1 and 1
//   bernoulli    u < p
//   exponential  -log1p(-u)
//   integers     the remainder of twice as many random bits as the type has
//   shuffle      sorted by random keys, several times
#include <assert.h>
#include <math.h>

#include "hlo/random/internal.h"

// The construction of a float type from bits: an exponent of 0 and random mantissa bits give 1 <= x < 2.
typedef struct FloatLayout {
    HloType type;
    HloType word;   // as wide as `type`
    HloType drawn;  // the type of the random bits; narrower than `word` if the mantissa is short
    int mantissa_bits;
    uint64_t one;      // the bits of 1.0
    double below_one;  // the largest value below 1
    double smallest;   // the smallest normal value
} FloatLayout;

static const FloatLayout layouts[] = {
    {HLO_F16, HLO_U16, HLO_U16, 10, 0x3C00, 0x1.ffcp-1, 0x1p-14},
    {HLO_BF16, HLO_U16, HLO_U8, 7, 0x3F80, 0x1.fep-1, 0x1p-126},
    {HLO_F32, HLO_U32, HLO_U32, 23, 0x3F800000, 0x1.fffffep-1, 0x1p-126},
    {HLO_F64, HLO_U64, HLO_U64, 52, 0x3FF0000000000000, 0x1.fffffffffffffp-1, 0x1p-1022},
};

static const FloatLayout *layout_of(HloBuilder *builder, HloType type, const char *function) {
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].type == type) return &layouts[i];
    hlo_random_refuse(builder, function, "the element type must be f16, bf16, f32 or f64");
    return NULL;
}

HloInstruction *hlo_random_uniform(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                   HloInts dims, double low, double high) {
    assert(builder);
    if (!key) return NULL;
    const FloatLayout *layout = layout_of(builder, type, "uniform");
    if (!layout) return NULL;
    HloInstruction *bits = hlo_random_bits(builder, form, key, layout->drawn, dims);
    if (layout->drawn != layout->word) bits = hlo_build_convert(builder, bits, layout->word);
    int drawn_bits = hlo_type_info(layout->drawn)->bits;
    bits =
        hlo_random_with(builder, hlo_build_shift_right_logical, bits, (uint64_t)(drawn_bits - layout->mantissa_bits));
    bits = hlo_random_with(builder, hlo_build_or, bits, layout->one);
    HloInstruction *x =
        hlo_build_with_number(builder, hlo_build_sub, hlo_build_bitcast_convert(builder, bits, type), 1);
    // The width is a difference of rounded ends, as in JAX.
    HloInstruction *width =
        hlo_build_sub(builder, hlo_build_scalar(builder, type, high), hlo_build_scalar(builder, type, low));
    x = hlo_build_mul(builder, x, hlo_build_broadcast(builder, width, dims, HLO_DIMS()));
    // Rounding may give a value below `low`.
    return hlo_build_with_number(builder, hlo_build_max, hlo_build_with_number(builder, hlo_build_add, x, low), low);
}

HloInstruction *hlo_random_normal(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                  HloInts dims) {
    if (!key) return NULL;
    const FloatLayout *layout = layout_of(builder, type, "normal");
    if (!layout) return NULL;
    HloInstruction *x = hlo_random_uniform(builder, form, key, type, dims, -layout->below_one, 1);
    return hlo_build_with_number(builder, hlo_build_mul, hlo_build_erf_inv(builder, x), sqrt(2));
}

HloInstruction *hlo_random_bernoulli(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloInts dims,
                                     double probability) {
    HloInstruction *x = hlo_random_uniform(builder, form, key, HLO_F32, dims, 0, 1);
    if (!x) return NULL;
    return hlo_build_compare(builder, x, hlo_build_splat_like(builder, x, probability), HLO_ComparisonDirection_LT);
}

HloInstruction *hlo_random_exponential(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                       HloInts dims) {
    // log1p(-x) and not log(x): x = 0 occurs, x = 1 does not.
    HloInstruction *x = hlo_random_uniform(builder, form, key, type, dims, 0, 1);
    return hlo_build_negate(builder, hlo_build_log1p(builder, hlo_build_negate(builder, x)));
}

// Whether all of low <= x < high are values of the type.
static bool holds_range(HloType type, int64_t low, int64_t high) {
    int bits = hlo_type_info(type)->bits;
    if (hlo_type_kind(type) == HLO_KIND_UNSIGNED) return low >= 0 && (bits == 64 || high - 1 < (int64_t)1 << bits);
    int64_t limit = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    return low >= -limit - 1 && high - 1 <= limit;
}

HloInstruction *hlo_random_integers(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                    HloInts dims, int64_t low, int64_t high) {
    assert(builder);
    if (!key) return NULL;
    int bits = hlo_type_info(type)->bits;
    if (!hlo_type_is_integer(type) || bits < 8)
        return hlo_random_refuse(builder, "random integers", "the element type must be an integer of 8 to 64 bits");
    if (low < high && !holds_range(type, low, high))
        return hlo_random_refuse(builder, "random integers", "the range does not fit in the type");
    // Narrow integers are drawn with 32 bits, and each width uses twice as many bits as it has, to keep the bias small.
    // The remainder is computed from those of two words: (upper · 2^bits + lower) mod span, where 2^bits mod span is a
    // square that does not overflow. (A span of all 2^32 numbers wraps to a divisor of 0, which leaves x unchanged:
    // again correct.)
    HloType word = bits == 64 ? HLO_U64 : HLO_U32;
    uint64_t mask = bits == 64 ? UINT64_MAX : UINT32_MAX;
    uint64_t span = low < high ? (uint64_t)high - (uint64_t)low : 1;
    uint64_t half = ((uint64_t)1 << (bits == 64 ? 32 : 16)) % span;
    uint64_t factor = (half * half & mask) % span;
    HloInstruction *keys = hlo_random_split(builder, form, key, 2);
    HloInstruction *upper = hlo_random_bits(builder, form, hlo_random_row(builder, keys, 0), word, dims);
    HloInstruction *lower = hlo_random_bits(builder, form, hlo_random_row(builder, keys, 1), word, dims);
    upper = hlo_random_with(builder, hlo_build_rem, upper, span);
    lower = hlo_random_with(builder, hlo_build_rem, lower, span);
    HloInstruction *offset = hlo_build_add(builder, hlo_random_with(builder, hlo_build_mul, upper, factor), lower);
    offset = hlo_build_convert(builder, hlo_random_with(builder, hlo_build_rem, offset, span), type);
    return hlo_random_with(builder, hlo_build_add, offset, (uint64_t)low);
}

// The comparator of two (key, value) pairs by their keys.
static HloComputation *compare_keys(HloBuilder *builder, HloType value_type) {
    HloBuilder *inner = hlo_builder_new(hlo_builder_module(builder), "compare_keys");
    if (!inner) {
        hlo_builder_fail(builder, hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory"));
        return NULL;
    }
    HloInstruction *a = hlo_build_parameter(inner, 0, HLO_U32, HLO_DIMS(), "a");
    HloInstruction *b = hlo_build_parameter(inner, 1, HLO_U32, HLO_DIMS(), "b");
    hlo_build_parameter(inner, 2, value_type, HLO_DIMS(), "x");
    hlo_build_parameter(inner, 3, value_type, HLO_DIMS(), "y");
    HloComputation *comparator = NULL;
    HloStatus status =
        hlo_builder_finish(inner, hlo_build_compare(inner, a, b, HLO_ComparisonDirection_LT), &comparator);
    if (status) hlo_builder_fail(builder, status);
    return status ? NULL : comparator;
}

HloInstruction *hlo_random_shuffle(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloInstruction *x,
                                   int64_t dimension) {
    assert(builder);
    if (!key || !x) return NULL;
    if (!hlo_shape_is_array(x->shape) || dimension < 0 || dimension >= x->shape->rank)
        return hlo_random_refuse(builder, "shuffle", "the array has no such dimension");
    HloInts dims = hlo_build_dims(x);
    double elements = 1;
    for (int64_t i = 0; i < dims.count; i++) elements *= (double)dims.items[i];
    // 32-bit keys collide; this number of iterations gives an order that is fair to within elements^-3, as in JAX.
    int64_t rounds = elements > 1 ? (int64_t)ceil(3 * log(elements) / log((double)UINT32_MAX)) : 0;
    HloComputation *comparator = rounds ? compare_keys(builder, x->shape->type) : NULL;
    for (int64_t round = 0; round < rounds && comparator; round++) {
        HloInstruction *keys = hlo_random_split(builder, form, key, 2);
        key = hlo_random_row(builder, keys, 0);
        HloInstruction *pair[] = {hlo_random_bits(builder, form, hlo_random_row(builder, keys, 1), HLO_U32, dims), x};
        x = hlo_build_get(builder, hlo_build_sort(builder, pair, 2, dimension, true, comparator), 1);
    }
    return rounds && !comparator ? NULL : x;
}
