// SPDX-License-Identifier: Apache-2.0
// Functions that JAX's programs call by name, and to which JAX gives a derivative of their own: a program has their
// values alone. A row of NAMED is the name and its rule. A user's function may have the same name, so that a rule looks
// at the function's parameters and results, and for what JAX's formula alone contains: an operation, or a constant of
// an approximation. JAX leaves out results that the program does not use, so that those of a function may be fewer.
//
// Values stay calls where the formula has no derivative, or another one, so that the rule holds again if the result is
// differentiated.
#include <ctype.h>
#include <float.h>
#include <math.h>

#include "hlo/transform/structure.h"

enum { MOST_COEFFICIENTS = 64 };  // of a polynomial in one constant

// Coefficients of the approximations, by which JAX's functions are known.
static const double bessel_coefficient = 0.676795274409476085;  // the last one of Cephes' i0e up to 8
static const double sine_integral_coefficient = -0.0413470316229406539,
                    cosine_integral_coefficient = 0.0289159652607555242;
static const double gamma_squeeze = 0.0331;  // of Marsaglia and Tsang's rejection

static bool is_float(const HloShape *shape) {
    return hlo_shape_is_array(shape) && hlo_type_is_float(shape->type);
}

// The value: a call, as in the program.
static HloInstruction *called_value(HloJvp *j) {
    const HloInstruction *call = j->old;
    HloInstruction **operands = HLO_ARENA_NEW(j->scratch, HloInstruction *, call->operand_count + 1);
    for (int32_t i = 0; i < call->operand_count; i++) operands[i] = hlo_jvp_operand(j, i);
    return hlo_build_call(j->b, operands, call->operand_count, call->called[0]);
}

static bool has_one_float(const HloComputation *f) {
    return hlo_parameter_count(f) == 1 && is_float(f->parameters.items[0]->shape);
}

// ---- what a formula contains

// Whether the constant is near enough to `value` to be that number in the constant's type.
static bool is_constant_near(const HloInstruction *i, double value) {
    if (!hlo_is(i, HLO_OP_CONSTANT) || !is_float(i->shape)) return false;
    const HloLiteral *literal = HLO_ATTRIBUTES(i, Constant)->literal;
    const double rounding = hlo_type_info(i->shape->type)->bits < 32 ? 0x1p-8 : 0x1p-20;
    const int64_t count = hlo_shape_elements(i->shape);
    if (literal->elided || count > MOST_COEFFICIENTS) return false;
    for (int64_t k = 0; k < count; k++)
        if (fabs(hlo_literal_get_double(literal, k) - value) <= rounding * fabs(value)) return true;
    return false;
}

// Whether `root` follows from such a constant of its computation, or of a function that it calls. Functions of which a
// program needs some results alone may have code for the others. `seen` are the roots of functions looked at, by id.
static bool follows_from(HloArena *scratch, HloIntMap *seen, const HloInstruction *root, double value) {
    HloIntMap needed = {0};  // ids
    if (hlo_int_map_find(seen, (uint64_t)root->id)) return false;
    hlo_int_map_set(scratch, seen, (uint64_t)root->id, 1);
    hlo_int_map_set(scratch, &needed, (uint64_t)root->id, 1);
    for (const HloInstruction *i = root; i; i = i->previous) {
        if (!hlo_int_map_find(&needed, (uint64_t)i->id)) continue;
        if (is_constant_near(i, value)) return true;
        for (int32_t k = 0; k < i->operand_count; k++)
            hlo_int_map_set(scratch, &needed, (uint64_t)i->operands[k]->id, 1);
        for (int32_t k = 0; k < i->called_count; k++)
            if (follows_from(scratch, seen, i->called[k]->root, value)) return true;
    }
    return false;
}

bool hlo_transform_follows_from(HloArena *scratch, const HloInstruction *root, double value) {
    HloIntMap seen = {0};
    return follows_from(scratch, &seen, root, value);
}

// Whether the called function calculates with a number of an approximation.
static bool contains(const HloJvp *j, double value) {
    return hlo_transform_follows_from(j->scratch, j->old->called[0]->root, value);
}

static bool has_operation(const HloComputation *f, HloOpcode opcode) {
    for (const HloInstruction *i = f->first; i; i = i->next)
        if (hlo_is(i, opcode)) return true;
    return false;
}

// ---- rules

// The bound of a rectifier: a maximum with 0, and for relu6 a minimum of it.
static bool is_rectifier(const HloComputation *f) {
    const HloInstruction *root = f->root;
    const HloLiteral *bound;
    if (hlo_is(root, HLO_OP_MINIMUM) && hlo_is_splat(root->operands[1], &bound)) root = root->operands[0];
    return hlo_parameter_count(f) == 1 && hlo_is(root, HLO_OP_MAXIMUM) && hlo_is(root->operands[0], HLO_OP_PARAMETER) &&
           hlo_is_splat(root->operands[1], &bound) && hlo_literal_get_double(bound, 0) == 0;
}

// jax.nn.relu and relu6: the derivative at their kinks is 0 instead of 1/2.
static bool rectified(HloJvp *j, HloInstruction **out) {
    const bool outer = j->ties_have_no_slope;
    if (!is_rectifier(j->old->called[0])) return false;
    j->ties_have_no_slope = true;
    hlo_jvp_inline(j, j->old->called[0], 0, out);
    j->ties_have_no_slope = outer;
    return true;
}

// jax.numpy.frexp takes the exponent of a number from its bits. The slope of the mantissa is one by 2^exponent, which
// is the mantissa by the number. Zeros, infinities and NaN are their own mantissas.
static bool mantissa(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 0), *x = hlo_jvp_operand(j, 0);
    const HloComputation *f = j->old->called[0];
    const HloShape *result = j->old->shape;
    const bool both = hlo_shape_is_tuple(result);
    HloBuilder *b = j->b;
    if (both && (result->element_count != 2 || result->elements[1]->type != HLO_S32)) return false;
    if (!has_one_float(f) || !is_float(both ? result->elements[0] : result) ||
        !has_operation(f, HLO_OP_BITCAST_CONVERT))
        return false;
    j->result = called_value(j);
    if (!j->result || !t) return true;
    HloInstruction *m = both ? hlo_build_get(b, j->result, 0) : j->result, *one = hlo_build_splat_like(b, x, 1);
    HloInstruction *is_scaled = hlo_build_and(b, hlo_build_compare(b, m, x, HLO_ComparisonDirection_NE),
                                              hlo_build_compare(b, x, x, HLO_ComparisonDirection_EQ));
    HloInstruction *slope = hlo_build_select(b, is_scaled, hlo_build_div(b, m, x), one);
    out[0] = hlo_build_mul(b, t, slope);
    return true;
}

// jax.numpy.i0 is even, and 1 at 0, where its formula divides by x and has the derivative of |x|.
static bool bessel(HloJvp *j, HloInstruction **out) {
    const HloComputation *f = j->old->called[0];
    HloBuilder *b = j->b;
    HloInstruction *x = hlo_jvp_operand(j, 0), *root = NULL;
    if (!has_one_float(f) || !is_float(j->old->shape) || !contains(j, bessel_coefficient)) return false;
    HloInstruction *zero = hlo_build_splat_like(b, x, 0), *one = hlo_build_splat_like(b, x, 1);
    HloInstruction *middle = hlo_build_compare(b, x, zero, HLO_ComparisonDirection_EQ);
    hlo_jvp_bind(j, f->parameters.items[0], hlo_build_select(b, middle, one, x), hlo_jvp_tangents(j, 0));
    hlo_jvp_walk(j, f, hlo_jvp_needed(j), &root, out);
    j->result = hlo_build_select(b, middle, one, root);
    if (out[0]) out[0] = hlo_build_select(b, middle, zero, out[0]);
    return true;
}

// The integrals of sine and cosine of jax.scipy.special.sici: sin(x) / x and cos(x) / x. The formulas divide by x.
static bool integrals(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    HloInstruction *t = hlo_jvp_tangent(j, 0), *x = hlo_jvp_operand(j, 0);
    const HloShape *result = j->old->shape;
    const bool both = hlo_shape_is_tuple(result);
    const bool has_sine = contains(j, sine_integral_coefficient), has_cosine = contains(j, cosine_integral_coefficient);
    if (both && (result->element_count != 2 || !is_float(result->elements[1]))) return false;
    if (!has_one_float(j->old->called[0]) || !is_float(both ? result->elements[0] : result)) return false;
    if (both ? !has_sine || !has_cosine : has_sine == has_cosine) return false;
    j->result = called_value(j);
    if (!x || !t) return true;
    HloInstruction *one = hlo_build_splat_like(b, x, 1), *zero = hlo_build_splat_like(b, x, 0);
    if (has_sine) {
        HloInstruction *middle = hlo_build_compare(b, x, zero, HLO_ComparisonDirection_EQ);
        HloInstruction *safe = hlo_build_select(b, middle, one, x);
        HloInstruction *sine = hlo_build_div(b, hlo_build_sin(b, safe), safe);
        out[0] = hlo_build_mul(b, hlo_build_select(b, middle, one, sine), t);
    }
    if (has_cosine) out[both] = hlo_build_mul(b, hlo_build_div(b, hlo_build_cos(b, x), x), t);
    return true;
}

// ---- samples of a gamma distribution

static bool is_resizing(const HloInstruction *i) {
    return hlo_is(i, HLO_OP_BROADCAST) || hlo_is(i, HLO_OP_RESHAPE) || hlo_is(i, HLO_OP_CONVERT);
}

// What the function does to its parameter before it samples: the shape of the distribution gets the sizes of the
// result.
static const HloInstruction *sized(const HloInstruction *parameter, int64_t elements) {
    const HloInstruction *at = parameter;
    while (hlo_shape_elements(at->shape) != elements) {
        const HloInstruction *next = NULL;
        for (int64_t u = 0; u < at->users.count; u++)
            if (is_resizing(at->users.items[u])) next = at->users.items[u];
        if (!next) return NULL;
        at = next;
    }
    return at;
}

// `x`, a value or a tangent of `parameter`, at `at`, which sized() has found.
static HloInstruction *resized(HloBuilder *b, const HloInstruction *parameter, const HloInstruction *at,
                               HloInstruction *x) {
    if (at == parameter || !x) return x;
    HloInstruction *operand = resized(b, parameter, at->operands[0], x);
    return operand ? hlo_instruction_clone(b->computation, at, at->shape, &operand, 1) : NULL;
}

// jax.random.gamma and loggamma (and what is made of them: beta, dirichlet, chisquare, f, t) reject candidates until
// one fits: the derivative is not that of the formula at fixed random numbers, but that of the sample at a fixed
// probability to be less than it.
static bool gamma_sample(HloJvp *j, HloInstruction **out) {
    const HloComputation *f = j->old->called[0];
    HloBuilder *b = j->b;
    if (hlo_parameter_count(f) != 2 || !is_float(j->old->shape) || !is_float(f->parameters.items[1]->shape) ||
        is_float(f->parameters.items[0]->shape) || !contains(j, gamma_squeeze))
        return false;
    const HloInstruction *alpha = f->parameters.items[1], *root = f->root;
    while (hlo_is(root, HLO_OP_RESHAPE) || hlo_is(root, HLO_OP_COPY)) root = root->operands[0];
    const HloInstruction *at = sized(alpha, hlo_shape_elements(j->old->shape));
    if (!at || (!hlo_is(root, HLO_OP_MULTIPLY) && !hlo_is(root, HLO_OP_ADD))) {
        hlo_jvp_fail(
            j, HLO_UNIMPLEMENTED,
            "%s: %s samples a gamma distribution in a form whose derivative is not known: JAX has a rule for it",
            j->old->name, f->name);
        return true;
    }
    j->result = called_value(j);
    HloInstruction *t = resized(b, alpha, at, hlo_jvp_tangent(j, 1));
    HloInstruction *shape = resized(b, alpha, at, hlo_jvp_operand(j, 1));
    if (!t || !shape || !j->result) return true;
    const HloInts dims = hlo_shape_dims(j->old->shape);
    const HloType type = j->old->shape->type, wide = type == HLO_F64 ? HLO_F64 : HLO_F32;
    HloInstruction *a = hlo_build_convert(b, hlo_build_reshape(b, shape, dims), wide);
    HloInstruction *x = hlo_build_convert(b, j->result, wide);
    const bool is_log = hlo_is(root, HLO_OP_ADD);
    if (is_log && x) {
        // A sample may be so small that its exponential is zero, which the slope is divided by.
        HloInstruction *least = hlo_build_splat_like(b, x, wide == HLO_F64 ? DBL_MIN : FLT_MIN);
        HloInstruction *sample = hlo_build_exp(b, x);
        HloInstruction *is_zero =
            hlo_build_compare(b, sample, hlo_build_splat_like(b, x, 0), HLO_ComparisonDirection_EQ);
        x = hlo_build_select(b, is_zero, least, sample);
    }
    HloInstruction *slope = hlo_transform_gamma_slope(b, a, x);
    if (is_log) slope = hlo_build_div(b, slope, x);
    t = hlo_build_convert(b, hlo_build_reshape(b, t, dims), type);
    out[0] = hlo_build_mul(b, t, hlo_build_convert(b, slope, type));
    return true;
}

// ---- the table

static const struct {
    const char *name;
    bool (*rule)(HloJvp *j, HloInstruction **out);
} NAMED[] = {
    {"relu", rectified}, {"relu6", rectified}, {"frexp", mantissa},
    {"i0", bessel},      {"sici", integrals},  {"_gamma", gamma_sample},
};

// True for a name, or that name with a number that makes it unique: relu, relu_0, relu.12.
static bool is_name(const char *text, const char *name) {
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0) return false;
    text += length;
    if (*text == '.' || *text == '_') text++;
    while (isdigit((unsigned char)*text) || (*text == '.' && isdigit((unsigned char)text[1]))) text++;
    return !*text;
}

bool hlo_transform_is_named(const HloComputation *function) {
    for (size_t i = 0; i < HLO_COUNT_OF(NAMED); i++)
        if (is_name(function->name, NAMED[i].name)) return true;
    return false;
}

bool hlo_transform_named(HloJvp *j, HloInstruction **out) {
    const char *name = j->old->called[0]->name;
    for (size_t i = 0; i < HLO_COUNT_OF(NAMED); i++)
        if (is_name(name, NAMED[i].name) && NAMED[i].rule(j, out)) return true;
    return hlo_transform_log_product(j, out) || hlo_transform_owens_t(j, out);
}
