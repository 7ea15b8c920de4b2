// SPDX-License-Identifier: Apache-2.0
// Tangents of elementwise ops: each is the operand's tangent times a derivative, as jax/_src/lax/lax.py defines them.
#include "hlo/transform/structure.h"

// A rule for one operand `x` with tangent `t` and result `y`.
#define UNARY(name, expression)                                                                        \
    void hlo_jvp_##name(HloJvp *j, HloInstruction **out) {                                             \
        HloBuilder *b = j->b;                                                                          \
        HloInstruction *x = hlo_jvp_operand(j, 0), *y = hlo_jvp_result(j), *t = hlo_jvp_tangent(j, 0); \
        (void)x;                                                                                       \
        (void)y;                                                                                       \
        out[0] = expression;                                                                           \
    }

static HloInstruction *number(HloBuilder *b, HloInstruction *like, double value) {
    return like ? hlo_build_splat_like(b, like, value) : NULL;
}

static HloInstruction *square(HloBuilder *b, HloInstruction *x) {
    return hlo_build_mul(b, x, x);
}

// 1 - x^2
static HloInstruction *one_minus_square(HloBuilder *b, HloInstruction *x) {
    return hlo_build_sub(b, number(b, x, 1), square(b, x));
}

// x + value
static HloInstruction *plus(HloBuilder *b, HloInstruction *x, double value) {
    return hlo_build_add(b, x, number(b, x, value));
}

UNARY(acos, hlo_build_mul(b, t, hlo_build_negate(b, hlo_build_rsqrt(b, one_minus_square(b, x)))))
UNARY(acosh,
      hlo_build_mul(b, t, hlo_build_mul(b, hlo_build_rsqrt(b, plus(b, x, -1)), hlo_build_rsqrt(b, plus(b, x, 1)))))
UNARY(asin, hlo_build_mul(b, t, hlo_build_rsqrt(b, one_minus_square(b, x))))
UNARY(asinh, hlo_build_mul(b, t, hlo_build_rsqrt(b, plus(b, square(b, x), 1))))
UNARY(atanh, hlo_build_div(b, t, one_minus_square(b, x)))
UNARY(cbrt, hlo_build_mul(b, t, hlo_build_div(b, number(b, y, 1.0 / 3), square(b, y))))
UNARY(cos, hlo_build_mul(b, t, hlo_build_negate(b, hlo_build_sin(b, x))))
UNARY(cosh, hlo_build_mul(b, t, hlo_build_sinh(b, x)))
// 2 / sqrt(pi) * exp(-x^2)
UNARY(erf, hlo_build_mul(b, t,
                         hlo_transform_scale(b, hlo_build_exp(b, hlo_build_negate(b, square(b, x))),
                                             1.12837916709551257389615890312154517)))
UNARY(exp, hlo_build_mul(b, t, y))
UNARY(expm1, hlo_build_mul(b, t, plus(b, y, 1)))
UNARY(log, hlo_build_div(b, t, x))
UNARY(log1p, hlo_build_div(b, t, plus(b, x, 1)))
UNARY(logistic, hlo_build_mul(b, t, hlo_build_mul(b, y, hlo_build_sub(b, number(b, y, 1), y))))
UNARY(rsqrt, hlo_build_mul(b, t, hlo_transform_scale(b, hlo_build_div(b, y, x), -0.5)))
UNARY(sin, hlo_build_mul(b, t, hlo_build_cos(b, x)))
UNARY(sinh, hlo_build_mul(b, t, hlo_build_cosh(b, x)))
UNARY(sqrt, hlo_build_mul(b, t, hlo_build_div(b, number(b, y, 0.5), y)))
UNARY(tan, hlo_build_mul(b, t, plus(b, square(b, y), 1)))
UNARY(tanh, hlo_build_mul(b, t, one_minus_square(b, y)))

// For a complex number the derivative of the modulus along t is the real part of t * conj(x) / |x|; 0 at 0.
void hlo_jvp_abs(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_jvp_operand(j, 0), *t = hlo_jvp_tangent(j, 0);
    if (!hlo_type_is_complex(x->shape->type)) {
        HloInstruction *positive = hlo_build_compare(b, x, number(b, x, 0), HLO_ComparisonDirection_GE);
        out[0] = hlo_build_select(b, positive, t, hlo_build_negate(b, t));
        return;
    }
    HloInstruction *y = hlo_jvp_result(j);
    HloInstruction *is_zero = hlo_build_compare(b, y, number(b, y, 0), HLO_ComparisonDirection_EQ);
    HloInstruction *divisor = hlo_build_select(b, is_zero, number(b, y, 1), y);
    HloInstruction *conjugate = hlo_build_complex(b, hlo_build_div(b, hlo_build_real(b, x), divisor),
                                                  hlo_build_negate(b, hlo_build_div(b, hlo_build_imag(b, x), divisor)));
    out[0] = hlo_build_real(b, hlo_build_mul(b, t, conjugate));
}

void hlo_jvp_linear(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 0);
    out[0] = hlo_jvp_apply(j, &t, 1);
}

void hlo_jvp_add(HloJvp *j, HloInstruction **out) {
    out[0] = hlo_transform_sum(j->b, hlo_jvp_tangent(j, 0), hlo_jvp_tangent(j, 1));
}

void hlo_jvp_subtract(HloJvp *j, HloInstruction **out) {
    HloInstruction *a = hlo_jvp_tangent(j, 0), *c = hlo_jvp_tangent(j, 1);
    out[0] = a && c ? hlo_build_sub(j->b, a, c) : a ? a : hlo_build_negate(j->b, c);
}

void hlo_jvp_complex(HloJvp *j, HloInstruction **out) {
    out[0] = hlo_build_complex(j->b, hlo_jvp_tangent_or_zeros(j, 0), hlo_jvp_tangent_or_zeros(j, 1));
}

void hlo_jvp_select(HloJvp *j, HloInstruction **out) {
    if (hlo_transform_smooth_maximum(j, out) || hlo_transform_log_product(j, out) || hlo_transform_owens_t(j, out))
        return;
    HloInstruction *t = hlo_jvp_tangent_or_zeros(j, 1), *f = hlo_jvp_tangent_or_zeros(j, 2);
    // JAX maps a switch to branches that all run, each on select(chosen, x, x), of which the second x has no tangent.
    // Reverse mode keeps this, since its transpose drops what is not a number where the branch is not chosen.
    const bool guards = j->split && j->old->operands[1] == j->old->operands[2];
    out[0] = t == f && !guards ? t : hlo_build_select(j->b, hlo_jvp_operand(j, 0), t, f);
}

// The sum of the tangents' products with the derivatives in the operands; a derivative is built only for a tangent.
static void binary(HloJvp *j, HloInstruction **out, HloInstruction *(*derivative)(HloJvp *j, int64_t operand)) {
    for (int64_t i = 0; i < 2; i++) {
        HloInstruction *t = hlo_jvp_tangent(j, i);
        if (t) out[0] = hlo_transform_sum(j->b, out[0], hlo_build_mul(j->b, t, derivative(j, i)));
    }
}

static HloInstruction *of_multiply(HloJvp *j, int64_t operand) {
    return hlo_jvp_operand(j, 1 - operand);
}

void hlo_jvp_multiply(HloJvp *j, HloInstruction **out) {
    binary(j, out, of_multiply);
}

void hlo_jvp_divide(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    if (hlo_transform_logistic(j, out)) return;
    HloInstruction *y = hlo_jvp_operand(j, 1), *t = hlo_jvp_tangent(j, 0), *u = hlo_jvp_tangent(j, 1);
    if (t) out[0] = hlo_build_div(b, t, y);
    if (!u) return;
    HloInstruction *factor = hlo_build_div(b, hlo_build_negate(b, hlo_jvp_result(j)), y);
    out[0] = hlo_transform_sum(b, out[0], hlo_build_mul(b, u, factor));
}

static HloInstruction *of_atan2(HloJvp *j, int64_t operand) {
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_jvp_operand(j, 0), *y = hlo_jvp_operand(j, 1);
    HloInstruction *sum = hlo_build_add(b, square(b, x), square(b, y));
    return hlo_build_div(b, operand == 0 ? y : hlo_build_negate(b, x), sum);
}

void hlo_jvp_atan2(HloJvp *j, HloInstruction **out) {
    binary(j, out, of_atan2);
}

// 1 where the operand is the result, 1/2 where both are, else 0.
static HloInstruction *of_extremum(HloJvp *j, int64_t operand) {
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_jvp_operand(j, operand), *y = hlo_jvp_operand(j, 1 - operand), *z = hlo_jvp_result(j);
    HloInstruction *chosen = hlo_build_compare(b, x, z, HLO_ComparisonDirection_EQ);
    HloInstruction *tie = hlo_build_compare(b, y, z, HLO_ComparisonDirection_EQ);
    HloInstruction *half = number(b, x, j->ties_have_no_slope ? 0 : 0.5);
    HloInstruction *share = hlo_build_select(b, tie, half, number(b, x, 1));
    return hlo_build_select(b, chosen, share, number(b, x, 0));
}

void hlo_jvp_extremum(HloJvp *j, HloInstruction **out) {
    binary(j, out, of_extremum);
}

static HloInstruction *is_zero(HloBuilder *b, HloInstruction *x) {
    return hlo_build_compare(b, x, number(b, x, 0), HLO_ComparisonDirection_EQ);
}

static HloInstruction *one_for_zero(HloBuilder *b, HloInstruction *x) {
    return hlo_build_select(b, is_zero(b, x), number(b, x, 1), x);
}

// An integer exponent is one that was converted, for JAX has no other way to write it.
static bool was_integer(const HloInstruction *i) {
    while (hlo_is(i, HLO_OP_BROADCAST) || hlo_is(i, HLO_OP_RESHAPE)) i = i->operands[0];
    return hlo_is(i, HLO_OP_CONVERT) && hlo_type_is_integer(i->operands[0]->shape->type);
}

// y x^(y-1), and x^y log x, where the logarithm of 0 counts as 0. For integer exponents y = 0 gives 0 even where x is.
static HloInstruction *of_power(HloJvp *j, int64_t operand) {
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_jvp_operand(j, 0), *y = hlo_jvp_operand(j, 1);
    if (operand == 1) return hlo_build_mul(b, hlo_build_log(b, one_for_zero(b, x)), hlo_jvp_result(j));
    HloInstruction *exponent = was_integer(j->old->operands[1]) ? one_for_zero(b, y) : y;
    return hlo_build_mul(b, y, hlo_build_pow(b, x, plus(b, exponent, -1)));
}

void hlo_jvp_power(HloJvp *j, HloInstruction **out) {
    binary(j, out, of_power);
}

// The remainder is x - y * trunc(x / y).
void hlo_jvp_remainder(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *u = hlo_jvp_tangent(j, 1);
    if (u) {
        HloInstruction *quotient = hlo_build_div(b, hlo_jvp_operand(j, 0), hlo_jvp_operand(j, 1));
        HloInstruction *whole = hlo_build_floor(b, hlo_build_abs(b, quotient));
        HloInstruction *factor = hlo_build_mul(b, hlo_build_sign(b, quotient), whole);
        u = hlo_build_mul(b, u, hlo_build_negate(b, factor));
    }
    out[0] = hlo_transform_sum(b, t, u);
}

// x repeated to the sizes of `like` if it is a scalar.
static HloInstruction *spread(HloBuilder *b, HloInstruction *x, const HloInstruction *like) {
    if (!x || x->shape->rank == like->shape->rank) return x;
    return hlo_build_broadcast(b, x, hlo_build_dims(like), HLO_DIMS());
}

void hlo_jvp_clamp(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_jvp_operand(j, 1), *zero = number(b, x, 0);
    HloInstruction *low = spread(b, hlo_jvp_operand(j, 0), x), *high = spread(b, hlo_jvp_operand(j, 2), x);
    HloInstruction *above = hlo_build_compare(b, x, low, HLO_ComparisonDirection_GT);
    HloInstruction *below = hlo_build_compare(b, x, high, HLO_ComparisonDirection_LT);
    HloInstruction *lower = hlo_build_and(b, hlo_build_compare(b, low, x, HLO_ComparisonDirection_GT),
                                          hlo_build_compare(b, low, high, HLO_ComparisonDirection_LT));
    HloInstruction *upper = hlo_build_compare(b, high, hlo_build_max(b, x, low), HLO_ComparisonDirection_LT);
    HloInstruction *masks[] = {lower, hlo_build_and(b, above, below), upper};
    for (int64_t i = 0; i < 3; i++) {
        HloInstruction *t = hlo_jvp_tangent(j, i);
        if (t) out[0] = hlo_transform_sum(b, out[0], hlo_build_select(b, masks[i], spread(b, t, x), zero));
    }
}
