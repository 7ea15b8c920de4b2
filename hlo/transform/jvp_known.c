// SPDX-License-Identifier: Apache-2.0
// Functions to which JAX gives a derivative of their own, recognised in programs, where only their values are left:
// log(exp(a) + exp(b)), whose formula has a kink of each part at a = b, the logistic function, whose formula overflows,
// products with logarithms that are zero at zero, and Owen's T function, which is a quadrature. jvp_named.c has those
// that programs call by name.
#include <math.h>

#include "hlo/transform/structure.h"

// The real constant of which an array consists; false if it is none.
static bool constant_value(const HloInstruction *i, double *value) {
    const HloLiteral *literal;
    if (!hlo_is_splat(i, &literal) || !hlo_type_is_float(literal->shape->type)) return false;
    *value = hlo_literal_get_double(literal, 0);
    return true;
}

static bool same_value(const HloInstruction *x, const HloInstruction *y) {
    double a, b;
    return x == y || (constant_value(x, &a) && constant_value(y, &b) && a == b);
}

// Strips products with constants, and returns the product of these in *factor.
static const HloInstruction *unscaled(const HloInstruction *i, double *factor) {
    double one;
    for (;;) {
        if (hlo_is(i, HLO_OP_MULTIPLY) && constant_value(i->operands[0], &one))
            i = i->operands[1];
        else if (hlo_is(i, HLO_OP_MULTIPLY) && constant_value(i->operands[1], &one))
            i = i->operands[0];
        else
            return i;
        *factor *= one;
    }
}

// The operands a and b of max(a, b) + log1p(exp(-s |a - b|)) / s, and s; false for anything else.
static bool smooth_maximum(const HloInstruction *sum, const HloInstruction *of[2], double *scale) {
    double outer = 1, inner = 1;
    if (!hlo_is(sum, HLO_OP_ADD)) return false;
    for (int64_t k = 0; k < 2; k++) {
        const HloInstruction *most = sum->operands[k], *rest = unscaled(sum->operands[1 - k], &outer);
        if (!hlo_is(most, HLO_OP_MAXIMUM) || !hlo_is(rest, HLO_OP_LOG1P)) continue;
        if (!hlo_is(rest->operands[0], HLO_OP_EXP)) return false;
        const HloInstruction *negated = unscaled(rest->operands[0]->operands[0], &inner);
        if (!hlo_is(negated, HLO_OP_NEGATE) || !hlo_is(negated->operands[0], HLO_OP_ABS)) return false;
        const HloInstruction *difference = negated->operands[0]->operands[0];
        *scale = inner;
        for (int64_t i = 0; i < 2; i++) of[i] = most->operands[i];
        return hlo_is(difference, HLO_OP_SUBTRACT) && same_value(difference->operands[0], of[0]) &&
               same_value(difference->operands[1], of[1]) && inner > 0 && outer * inner > 0.999 &&
               outer * inner < 1.001;
    }
    return false;
}

// x, and 0 where `magnitude`, which is x or its absolute value, is positive infinity.
static HloInstruction *without_infinity(HloBuilder *b, HloInstruction *x, HloInstruction *magnitude) {
    if (!x) return NULL;
    HloInstruction *infinite =
        hlo_build_compare(b, magnitude, hlo_build_splat_like(b, x, INFINITY), HLO_ComparisonDirection_EQ);
    return hlo_build_select(b, infinite, hlo_build_splat_like(b, x, 0), x);
}

// jnp.logaddexp and logaddexp2, and so softplus and log_sigmoid: select(a - b is NaN, a + b, smooth maximum). The
// derivative in each is exp(s (operand - result)). Both operands are negative infinity in windows that hold padding
// alone: the derivative is 0 there, where JAX, which does not differentiate windows so, has NaN.
bool hlo_transform_smooth_maximum(HloJvp *j, HloInstruction **out) {
    const HloInstruction *old = j->old, *test = old->operands[0], *of[2];
    HloBuilder *b = j->b;
    double scale;
    if (!hlo_is(test, HLO_OP_COMPARE) || test->operands[0] != test->operands[1] ||
        HLO_ATTRIBUTES(test, Compare)->direction != HLO_ComparisonDirection_NE || !hlo_is(old->operands[1], HLO_OP_ADD))
        return false;
    if (!hlo_is(test->operands[0], HLO_OP_SUBTRACT) || !smooth_maximum(old->operands[2], of, &scale)) return false;
    HloInstruction *plain = hlo_jvp_result(j), *result = without_infinity(b, plain, hlo_build_abs(b, plain));
    for (int64_t i = 0; i < 2; i++) {
        HloInstruction **t = hlo_jvp_tangents_of(j, of[i]), *operand = hlo_jvp_primal_of(j, of[i]);
        if (!t || !t[0]) continue;
        HloInstruction *distance = hlo_build_sub(b, without_infinity(b, operand, operand), result);
        if (scale != 1) distance = hlo_transform_scale(b, distance, scale);
        out[0] = hlo_transform_sum(b, out[0], hlo_build_mul(b, t[0], hlo_build_exp(b, distance)));
    }
    return true;
}

static bool is_number(const HloInstruction *i, double number) {
    double value;
    return constant_value(i, &value) && value == number;
}

// JAX's lax.logistic. Its slope is y (1 - y): by the formula it would be -1 / d^2 times exp(-x), which is zero times
// infinity where exp(-x) overflows, and needs another division.
bool hlo_transform_logistic(HloJvp *j, HloInstruction **out) {
    const HloInstruction *sum = j->old->operands[1], *power = NULL;
    HloBuilder *b = j->b;
    if (!hlo_is(sum, HLO_OP_ADD) || !is_number(j->old->operands[0], 1)) return false;
    for (int64_t k = 0; k < 2; k++)
        if (is_number(sum->operands[k], 1)) power = sum->operands[1 - k];
    if (!power || !hlo_is(power, HLO_OP_EXP) || !hlo_is(power->operands[0], HLO_OP_NEGATE)) return false;
    HloInstruction **t = hlo_jvp_tangents_of(j, power->operands[0]->operands[0]), *y = hlo_jvp_result(j);
    if (!t || !t[0]) return false;
    HloInstruction *slope = hlo_build_mul(b, y, hlo_build_sub(b, hlo_build_splat_like(b, y, 1), y));
    out[0] = hlo_build_mul(b, t[0], slope);
    return true;
}

// Whether an instruction only repeats its operand along new first dimensions, or removes or adds some of size 1.
static bool is_repeating(const HloInstruction *i) {
    const HloInts dims = hlo_shape_dims(i->shape);
    if (hlo_is(i, HLO_OP_RESHAPE)) {
        const HloInts from = hlo_shape_dims(i->operands[0]->shape);
        const int64_t common = from.count < dims.count ? from.count : dims.count;
        return hlo_ints_equal((HloInts){from.items + from.count - common, common},
                              (HloInts){dims.items + dims.count - common, common});
    }
    if (!hlo_is(i, HLO_OP_BROADCAST)) return false;
    const HloInts mapping = HLO_ATTRIBUTES(i, Dimensions)->dimensions;
    for (int64_t d = 0; d < mapping.count; d++)
        if (mapping.items[d] != d + dims.count - mapping.count) return false;
    return true;
}

// Where a function is mapped, what all items share is repeated along new first dimensions.
static const HloInstruction *repeated(const HloInstruction *i) {
    while (is_repeating(i)) i = i->operands[0];
    return i;
}

// The operands of a select, or of a call of a function that is one, as jax.numpy.where is; NULL for anything else.
// These may be smaller than the result, which repeats them.
static HloInstruction *const *selected(const HloInstruction *i) {
    if (hlo_is(i, HLO_OP_SELECT)) return i->operands;
    const HloInstruction *root = hlo_is(i, HLO_OP_CALL) ? i->called[0]->root : NULL;
    if (!root || !hlo_is(root, HLO_OP_SELECT) || i->operand_count != 3) return NULL;
    for (int32_t k = 0; k < 3; k++)
        if (repeated(root->operands[k]) != i->called[0]->parameters.items[k]) return NULL;
    return i->operands;
}

// x != y; NULL for 0.
static bool compares_unequal(const HloInstruction *i, const HloInstruction *x, const HloInstruction *y) {
    double zero;
    i = repeated(i);
    return hlo_is(i, HLO_OP_COMPARE) && HLO_ATTRIBUTES(i, Compare)->direction == HLO_ComparisonDirection_NE &&
           repeated(i->operands[0]) == x &&
           (y ? repeated(i->operands[1]) == y : constant_value(i->operands[1], &zero) && zero == 0);
}

// xlogy and xlog1py of jax.scipy.special, and so its entropies: x log(y), and 0 where x is 0 and y a number. The
// derivatives are those of the product there too, as if nothing were selected; those of x log(x) are log(x) + 1.
bool hlo_transform_log_product(HloJvp *j, HloInstruction **out) {
    HloInstruction *const *of = selected(j->old);
    double zero;
    if (!of || !hlo_is(of[0], HLO_OP_OR) || !hlo_is(of[1], HLO_OP_MULTIPLY) || !constant_value(of[2], &zero))
        return false;
    const HloInstruction *x = repeated(of[1]->operands[0]), *log = repeated(of[1]->operands[1]);
    if (zero != 0 || (!hlo_is(log, HLO_OP_LOG) && !hlo_is(log, HLO_OP_LOG1P))) return false;
    const HloInstruction *y = repeated(log->operands[0]);
    const bool is_same = of[1]->operands[0] == log->operands[0] && of[1]->operands[1] == log && hlo_is(log, HLO_OP_LOG);
    if (!compares_unequal(of[0]->operands[0], x, NULL) || !compares_unequal(of[0]->operands[1], y, y)) return false;
    HloInstruction **t = hlo_jvp_tangents_of(j, is_same ? log->operands[0] : of[1]);
    if (!t) return false;
    if (hlo_is(j->old, HLO_OP_CALL)) hlo_jvp_inline(j, j->old->called[0], 0, out);
    out[0] = t[0];
    if (t[0] && is_same) {
        HloInstruction *value = hlo_jvp_primal_of(j, log);
        HloInstruction *slope = hlo_build_add(j->b, value, hlo_build_splat_like(j->b, value, 1));
        out[0] = hlo_build_mul(j->b, t[0], slope);
    }
    if (out[0]) out[0] = hlo_build_broadcast_to(j->b, out[0], hlo_shape_dims(j->old->shape));
    return true;
}

// The last weight of the quadrature by which JAX computes Owen's T function (method T5 of Patefield and Tandy, 2000).
static const double owens_t_weight = 0.0016793031084546090;

// The array that is tested for NaN; NULL if nothing is.
static const HloInstruction *tested_for_nan(const HloInstruction *i) {
    const HloInstruction *x = repeated(i);
    if (!hlo_is(x, HLO_OP_COMPARE)) return NULL;
    x = repeated(x->operands[0]);
    return compares_unequal(i, x, x) ? x : NULL;
}

// Whether one factor of a product is the sign of x.
static bool has_sign_of(const HloInstruction *product, const HloInstruction *x) {
    for (int32_t k = 0; hlo_is(product, HLO_OP_MULTIPLY) && k < 2; k++) {
        const HloInstruction *sign = product->operands[k];
        while (is_repeating(sign) || hlo_is(sign, HLO_OP_CONVERT)) sign = sign->operands[0];
        if (hlo_is(sign, HLO_OP_SIGN) && repeated(sign->operands[0]) == x) return true;
    }
    return false;
}

// The derivatives of Owen's T function, T(h, a), the integral of exp(-h^2 (1 + x^2) / 2) / (2 pi (1 + x^2)) from 0 to
// a, in h: -exp(-h^2 / 2) erf(a h / sqrt(2)) / sqrt(8 pi), and in a: the integrand at a.
static HloInstruction *owens_t_slope(HloBuilder *b, HloInstruction *h, HloInstruction *a, bool in_h) {
    HloInstruction *exponent = hlo_transform_scale(b, hlo_build_mul(b, h, h), -0.5);
    if (in_h) {
        HloInstruction *erf = hlo_build_erf(b, hlo_transform_scale(b, hlo_build_mul(b, a, h), M_SQRT1_2));
        return hlo_transform_scale(b, hlo_build_mul(b, hlo_build_exp(b, exponent), erf), -1 / sqrt(8 * M_PI));
    }
    HloInstruction *sum = hlo_build_add(b, hlo_build_mul(b, a, a), hlo_build_splat_like(b, a, 1));
    return hlo_build_div(b, hlo_build_exp(b, hlo_build_mul(b, exponent, sum)), hlo_transform_scale(b, sum, 2 * M_PI));
}

// owens_t of jax.scipy.special: select(a is NaN or |h| is NaN, NaN, sign(a) times a quadrature over |h| and |a|). That
// of the quadrature has kinks at 0 and where it changes sides, and needs twice the products.
bool hlo_transform_owens_t(HloJvp *j, HloInstruction **out) {
    HloInstruction *const *of = selected(j->old);
    HloBuilder *b = j->b;
    double none;
    if (!of || !hlo_is(of[0], HLO_OP_OR) || !constant_value(of[1], &none) || !isnan(none)) return false;
    const HloInstruction *a = tested_for_nan(of[0]->operands[0]), *size = tested_for_nan(of[0]->operands[1]);
    if (!a || !size || !hlo_is(size, HLO_OP_ABS) || !has_sign_of(of[2], a)) return false;
    if (!hlo_transform_follows_from(j->scratch, of[2], owens_t_weight)) return false;
    const HloInstruction *const arguments[] = {size->operands[0], a};
    const HloInts dims = hlo_shape_dims(j->old->shape);
    const HloType type = j->old->shape->type;  // of 16-bit arguments a wider one, and so are the slopes
    HloInstruction *values[2];
    if (size->operands[0]->shape->type != a->shape->type) return false;
    for (int k = 0; k < 2; k++) {
        values[k] = hlo_build_broadcast_to(b, hlo_jvp_primal_of(j, arguments[k]), dims);
        values[k] = hlo_build_convert(b, values[k], type);
    }
    if (hlo_is(j->old, HLO_OP_CALL)) hlo_jvp_inline(j, j->old->called[0], 0, out);
    out[0] = NULL;
    for (int k = 0; k < 2; k++) {
        HloInstruction **t = hlo_jvp_tangents_of(j, arguments[k]);
        if (!t || !t[0]) continue;
        HloInstruction *slope = owens_t_slope(b, values[0], values[1], k == 0);
        HloInstruction *moved = hlo_build_convert(b, hlo_build_broadcast_to(b, t[0], dims), type);
        out[0] = hlo_transform_sum(b, out[0], hlo_build_mul(b, moved, slope));
    }
    return true;
}
