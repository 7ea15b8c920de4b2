// SPDX-License-Identifier: Apache-2.0
// Initial weights: the rows of initializers.def.
#include <math.h>

#include "hlo/nn/internal.h"

typedef enum Fan { FAN_IN, FAN_OUT, FAN_MEAN } Fan;
typedef enum Distribution { DISTRIBUTION_TRUNCATED, DISTRIBUTION_UNIFORM } Distribution;

static const struct {
    const char *name;
    double scale;
    Fan fan;
    Distribution distribution;
} kInitializers[] = {
#define HLO_INITIALIZER(name, text, scale, fan, distribution) {text, scale, FAN_##fan, DISTRIBUTION_##distribution},
#include "hlo/nn/initializers.def"
#undef HLO_INITIALIZER
};

const char *hlo_initializer_name(HloInitializer initializer) {
    return kInitializers[initializer].name;
}

static double variance(HloInitializer initializer, double in, double out) {
    const Fan fan = kInitializers[initializer].fan;
    return kInitializers[initializer].scale / fmax(1, fan == FAN_IN ? in : fan == FAN_OUT ? out : (in + out) / 2);
}

// A normal distribution cut off at two deviations, by the inverse of its distribution function, as
// jax.random.truncated_normal(key, -2, 2). Results that rounding brings to the limits are moved inside.
static HloInstruction *truncated_normal(HloBuilder *builder, HloRandomForm form, HloInstruction *key, HloType type,
                                        HloInts dims) {
    // The number before 2, of a significand with this many bits.
    const double limit = erf(sqrt(2)), inside = 2 - ldexp(1, -hlo_type_info(type)->mantissa_bits);
    HloInstruction *u = hlo_random_uniform(builder, form, key, type, dims, -limit, limit);
    HloInstruction *x = hlo_build_with_number(builder, hlo_build_mul, hlo_build_erf_inv(builder, u), sqrt(2));
    if (!x) return NULL;
    return hlo_build_clamp(builder, hlo_build_scalar(builder, type, -inside), x,
                           hlo_build_scalar(builder, type, inside));
}

static HloInstruction *initial(HloBuilder *builder, HloRandomForm form, HloInitializer initializer, HloInstruction *key,
                               HloType type, HloInts dims, double variance) {
    if (kInitializers[initializer].distribution == DISTRIBUTION_UNIFORM)
        return hlo_build_with_number(builder, hlo_build_mul, hlo_random_uniform(builder, form, key, type, dims, -1, 1),
                                     sqrt(3 * variance));
    // The deviation of a normal distribution that is cut off at two of its own (scipy.stats.truncnorm.std(-2, 2)).
    return hlo_build_with_number(builder, hlo_build_mul, truncated_normal(builder, form, key, type, dims),
                                 sqrt(variance) / 0.87962566103423978);
}

// The product of dimensions `first` up to `limit`.
static double product(HloInts dims, int64_t first, int64_t limit) {
    double result = 1;
    for (int64_t d = first; d < limit; d++) result *= (double)dims.items[d];
    return result;
}

HloInstruction *hlo_nn_initial(HloBuilder *builder, HloRandomForm form, HloInitializer initializer, HloInstruction *key,
                               HloType type, HloInts dims) {
    if (!key) return NULL;
    if (dims.count < 2)
        return hlo_nn_refuse(builder, "%s: weights need a dimension of inputs and one of outputs",
                             hlo_initializer_name(initializer));
    const double field = product(dims, 0, dims.count - 2);
    const double in = field * (double)dims.items[dims.count - 2], out = field * (double)dims.items[dims.count - 1];
    return initial(builder, form, initializer, key, type, dims, variance(initializer, in, out));
}

HloInstruction *hlo_nn_initial_dense(HloBuilder *builder, HloRandomForm form, HloInitializer initializer,
                                     HloInstruction *key, HloType type, HloInts dims, int64_t inputs) {
    if (!key) return NULL;
    if (inputs < 1 || inputs >= dims.count)
        return hlo_nn_refuse(builder, "%s: %lld of %lld dimensions cannot be the inputs",
                             hlo_initializer_name(initializer), (long long)inputs, (long long)dims.count);
    const double in = product(dims, 0, inputs), out = product(dims, inputs, dims.count);
    return initial(builder, form, initializer, key, type, dims, variance(initializer, in, out));
}
