// SPDX-License-Identifier: Apache-2.0
// Derivatives against two oracles that need no second implementation: differences of values in f64 for forward mode,
// and forward mode for reverse mode, since <cotangent, J tangent> = <J^T cotangent, tangent>. Second derivatives are
// those of the reverse derivative, checked in the same way.
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "hlo/stablehlo/stablehlo.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/random.h"

enum { MOST = 64 };

typedef struct Case {
    const char *name, *parameters, *root, *called;
    bool once;  // no second derivative: it jumps, or has none
} Case;

static const Case kCases[] = {
#include "cases.def"
};

static double uniform(Random *random) {
    return (double)(random_next(random) >> 11) / 9007199254740992.0;
}

static bool continuous(const HloShape *shape) {
    return hlo_type_is_float(shape->type) || hlo_type_is_complex(shape->type);
}

// Values of one shape between `low` and `high`, no two alike; integers count from 0.
static HloLiteral *values(Random *random, const HloShape *shape, double low, double high) {
    HloLiteral *literal = hlo_literal_new(shape);
    cr_assert_not_null(literal);
    for (int64_t i = 0; i < hlo_shape_elements(shape); i++) {
        double re = low + (high - low) * uniform(random), im = low + (high - low) * uniform(random);
        if (hlo_type_is_complex(shape->type))
            hlo_literal_set_complex(literal, i, re + im * I);
        else if (hlo_type_is_float(shape->type))
            hlo_literal_set_double(literal, i, re);
        else
            hlo_literal_set_int64(literal, i, i % 3);
    }
    return literal;
}

// base + factor * direction
static HloLiteral *moved(const HloLiteral *base, const HloLiteral *direction, double factor) {
    HloLiteral *result = hlo_literal_copy(base);
    for (int64_t i = 0; i < hlo_shape_elements(base->shape); i++)
        hlo_literal_set_complex(result, i,
                                hlo_literal_get_complex(base, i) + factor * hlo_literal_get_complex(direction, i));
    return result;
}

// The real part of the product without conjugation, in which JAX's cotangents are measured.
static double product(const HloLiteral *a, const HloLiteral *b) {
    double sum = 0;
    for (int64_t i = 0; i < hlo_shape_elements(a->shape); i++)
        sum += creal(hlo_literal_get_complex(a, i) * hlo_literal_get_complex(b, i));
    return sum;
}

// The results of a computation, leaf by leaf.
static int64_t evaluate(const char *name, const HloComputation *computation, HloLiteral **arguments, int64_t count,
                        HloLiteral **results) {
    HloLiteral *result = NULL;
    HloStatus status =
        hlo_evaluate_computation(computation, (const HloLiteral *const *)arguments, count, NULL, &result);
    cr_assert_null(status, "%s: %s: %s", name, computation->name, hlo_status_message(status));
    int64_t leaves = hlo_shape_leaf_count(computation->root->shape);
    cr_assert_leq(leaves, MOST);
    bool tuple = hlo_shape_is_tuple(result->shape);
    for (int64_t i = 0; i < leaves; i++) results[i] = hlo_literal_copy(tuple ? result->elements[i] : result);
    hlo_literal_free(result);
    return leaves;
}

static void free_all(HloLiteral **literals, int64_t count) {
    for (int64_t i = 0; i < count; i++) hlo_literal_free(literals[i]);
}

static void must_verify(const char *name, HloModule *module, HloComputation *entry) {
    HloComputation *old = module->entry;
    hlo_make_entry(module, entry);
    HloStatus status = hlo_verify(module);
    cr_assert_null(status, "%s: %s: %s", name, entry->name, hlo_status_message(status));
    hlo_make_entry(module, old);
}

// The data of one check: arguments, a direction for each continuous one, the values there, and the tangents.
typedef struct Check {
    const char *name;
    HloComputation *computation;
    int64_t parameters, active, leaves;
    int64_t wrt[MOST];
    HloLiteral *arguments[MOST], *directions[MOST];
    HloLiteral *forward[MOST];
    int64_t forward_count;
} Check;

static void choose(Check *c, uint64_t seed) {
    Random random = {seed};
    c->parameters = hlo_parameter_count(c->computation);
    c->leaves = hlo_shape_leaf_count(c->computation->root->shape);
    for (int64_t i = 0; i < c->parameters; i++) {
        const HloShape *shape = c->computation->parameters.items[i]->shape;
        c->arguments[i] = values(&random, shape, 0.3, 0.9);
        if (!continuous(shape)) continue;
        c->directions[c->active] = values(&random, shape, -1, 1);
        c->wrt[c->active++] = i;
    }
}

static HloGradientOptions options_of(const Check *c) {
    return (HloGradientOptions){.wrt = {c->wrt, c->active}};
}

// Forward mode against (f(x + h t) - f(x - h t)) / 2h.
static void check_forward(Check *c) {
    HloGradientOptions options = options_of(c);
    HloComputation *jvp;
    HloStatus status = hlo_jvp(c->computation, &options, &jvp);
    cr_assert_null(status, "%s: %s", c->name, hlo_status_message(status));
    must_verify(c->name, c->computation->module, jvp);
    HloLiteral *inputs[2 * MOST], *sides[2][MOST], *shifted[MOST];
    memcpy(inputs, c->arguments, sizeof c->arguments);
    for (int64_t i = 0; i < c->active; i++) inputs[c->parameters + i] = c->directions[i];
    c->forward_count = evaluate(c->name, jvp, inputs, c->parameters + c->active, c->forward);
    const double step = 1e-5;
    for (int side = 0; side < 2; side++) {
        memcpy(shifted, c->arguments, sizeof shifted);
        for (int64_t i = 0; i < c->active; i++)
            shifted[c->wrt[i]] = moved(c->arguments[c->wrt[i]], c->directions[i], side ? -step : step);
        evaluate(c->name, c->computation, shifted, c->parameters, sides[side]);
        for (int64_t i = 0; i < c->active; i++) hlo_literal_free(shifted[c->wrt[i]]);
    }
    for (int64_t k = 0, next = c->leaves; k < c->leaves; k++) {
        if (!continuous(sides[0][k]->shape)) continue;
        const HloLiteral *tangent = c->forward[next++];
        for (int64_t i = 0; i < hlo_shape_elements(tangent->shape); i++) {
            double _Complex got = hlo_literal_get_complex(tangent, i);
            double _Complex wanted =
                (hlo_literal_get_complex(sides[0][k], i) - hlo_literal_get_complex(sides[1][k], i)) / (2 * step);
            cr_assert(cabs(got - wanted) <= 1e-6 * (1 + cabs(wanted)),
                      "%s: %s: tangent %lld of result %lld: %g, not %g", c->name, c->computation->name, (long long)i,
                      (long long)k, creal(got), creal(wanted));
        }
    }
    free_all(sides[0], c->leaves);
    free_all(sides[1], c->leaves);
}

// Reverse mode against forward mode. Returns the reverse derivative.
static HloComputation *check_reverse(Check *c, HloRemat remat) {
    HloGradientOptions options = options_of(c);
    HloComputation *vjp;
    options.remat = remat;
    HloStatus status = hlo_vjp(c->computation, &options, &vjp);
    cr_assert_null(status, "%s: %s", c->name, hlo_status_message(status));
    must_verify(c->name, c->computation->module, vjp);
    HloLiteral *inputs[2 * MOST], *reverse[MOST];
    int64_t count = c->parameters;
    Random random = {17};
    double forward = 0, backward = 0, size = 0;
    memcpy(inputs, c->arguments, sizeof c->arguments);
    for (int64_t k = 0, next = c->leaves; k < c->leaves; k++) {
        if (!continuous(c->forward[k]->shape)) continue;
        inputs[count] = values(&random, c->forward[k]->shape, -1, 1);
        forward += product(inputs[count++], c->forward[next++]);
    }
    evaluate(c->name, vjp, inputs, count, reverse);
    for (int64_t i = 0; i < c->active; i++) {
        backward += product(reverse[c->leaves + i], c->directions[i]);
        size += sqrt(fabs(product(reverse[c->leaves + i], reverse[c->leaves + i])));
    }
    cr_assert(fabs(forward - backward) <= 1e-11 * (1 + size), "%s: %s: forward %.15g, reverse %.15g", c->name,
              c->computation->name, forward, backward);
    for (int64_t k = 0; k < c->leaves; k++)
        cr_assert(hlo_literal_equal(reverse[k], c->forward[k]), "%s: value %lld", c->name, (long long)k);
    free_all(inputs + c->parameters, count - c->parameters);
    free_all(reverse, c->leaves + c->active);
    return vjp;
}

static void check_derivatives(const char *name, HloComputation *computation, int depth) {
    Check c = {.name = name, .computation = computation};
    choose(&c, 1 + (uint64_t)depth);
    check_forward(&c);
    HloComputation *vjp = check_reverse(&c, HLO_REMAT_SAVE_EVERYTHING);
    check_reverse(&c, HLO_REMAT_SAVE_NOTHING);
    check_reverse(&c, HLO_REMAT_OFFLOAD_DOTS);
    free_all(c.arguments, c.parameters);
    free_all(c.directions, c.active);
    free_all(c.forward, c.forward_count);
    if (depth > 1) check_derivatives(name, vjp, depth - 1);
}

static void check_text(const char *name, const char *text, int depth) {
    HloModule *module = compiled_must_parse(text);
    check_derivatives(name, module->entry, depth);
    hlo_module_free(module);
}

CaseList(derivatives, of_each_op) {
    return cases_numbered(HLO_COUNT_OF(kCases));
}

CaseTest(int *number, derivatives, of_each_op) {
    const Case *c = &kCases[*number];
    HloText text = {0};
    cases_program(&text, c->parameters, c->root, c->called);
    check_text(c->name, text.data, c->once ? 1 : 2);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Random programs

typedef HloInstruction *Unary(HloBuilder *b, HloInstruction *x);
typedef HloInstruction *Binary(HloBuilder *b, HloInstruction *x, HloInstruction *y);

static HloInstruction *softened(HloBuilder *b, HloInstruction *x) {
    return hlo_build_sqrt(b, hlo_build_add(b, hlo_build_mul(b, x, x), hlo_build_splat_like(b, x, 1)));
}

static HloInstruction *moved_about(HloBuilder *b, Random *random, HloInstruction *x) {
    switch (random_under(random, 6)) {
        case 0: return hlo_build_transpose(b, x, HLO_DIMS(1, 0));
        case 1: return hlo_build_reverse(b, x, HLO_DIMS(0));
        case 2:
            return hlo_build_pad(b, hlo_build_slice(b, x, HLO_DIMS(0, 1), HLO_DIMS(3, 3), HLO_DIMS(2, 1)),
                                 hlo_build_scalar(b, HLO_F64, 0.5), HLO_DIMS(0, 1), HLO_DIMS(0, 0), HLO_DIMS(1, 0));
        case 3: return hlo_build_reshape(b, hlo_build_transpose(b, x, HLO_DIMS(1, 0)), HLO_DIMS(3, 3));
        case 4:
            return hlo_build_broadcast(b, hlo_build_reduce_op(b, HLO_OP_ADD, x, HLO_DIMS(0)), HLO_DIMS(3, 3),
                                       HLO_DIMS(1));
        default: {
            HloInstruction *parts[] = {hlo_build_slice(b, x, HLO_DIMS(1, 0), HLO_DIMS(3, 3), HLO_DIMS()),
                                       hlo_build_slice(b, x, HLO_DIMS(0, 0), HLO_DIMS(1, 3), HLO_DIMS())};
            return hlo_build_concatenate(b, parts, 2, 0);
        }
    }
}

// A program on f64[3,3] whose values stay of moderate size.
static HloComputation *random_program(HloModule *module, uint64_t seed) {
    static Unary *const kUnary[] = {hlo_build_sin, hlo_build_cos,    hlo_build_tanh, hlo_build_logistic,
                                    hlo_build_erf, hlo_build_negate, softened};
    static Binary *const kBinary[] = {hlo_build_add, hlo_build_sub, hlo_build_mul, hlo_build_atan2};
    Random random = {seed};
    HloInstruction *pool[32];
    HloBuilder *b = hlo_builder_new(module, "random");
    int64_t count = 2;
    for (int64_t i = 0; i < count; i++) pool[i] = hlo_build_parameter(b, i, HLO_F64, HLO_DIMS(3, 3), "x");
    while (count < 20) {
        HloInstruction *x = pool[random_under(&random, (uint64_t)count)],
                       *y = pool[random_under(&random, (uint64_t)count)];
        switch (random_under(&random, 5)) {
            case 0: pool[count] = kUnary[random_under(&random, 7)](b, x); break;
            case 1: pool[count] = kBinary[random_under(&random, 3)](b, hlo_build_sin(b, x), y); break;
            case 2: pool[count] = hlo_build_atan2(b, x, softened(b, y)); break;
            case 3: pool[count] = hlo_build_matmul(b, hlo_build_tanh(b, x), hlo_build_sin(b, y)); break;
            default: pool[count] = moved_about(b, &random, x);
        }
        pool[count] = hlo_build_tanh(b, pool[count]);
        count++;
    }
    HloInstruction *results[] = {pool[count - 1], hlo_build_reduce_op(b, HLO_OP_ADD, pool[count - 2], HLO_DIMS(0, 1))};
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 2));
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module->entry;
}

Test(derivatives, of_random_programs) {
    int64_t count = cases_count("MESHLO_RANDOM_PROGRAMS", 40);
    int64_t first = cases_setting("MESHLO_RANDOM_SEED", 1);
    for (int64_t i = 0; i < count; i++) {
        char name[32];
        HloModule *module = hlo_module_new("random");
        snprintf(name, sizeof name, "seed %lld", (long long)(first + i));
        check_derivatives(name, random_program(module, (uint64_t)(first + i)), 2);
        hlo_module_free(module);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Ops that have no derivative, which are refused by name

typedef struct Refused {
    const char *parameters, *root, *called, *part;
    int64_t wrt;
    bool has_aux;
} Refused;

static const Refused kRefused[] = {
    {"f32[4]", "negate(p0)", "", "is f32[4]: a gradient is that of one number (of an array, the modes vjp", 0, false},
    {"s32[]", "negate(p0)", "", "is s32[]: a gradient is that of a real number", 0, false},
    {"c64[]", "negate(p0)", "", "is c64[]: a gradient is that of a real number", 0, false},
    {"f32[]", "negate(p0)", "", "there is no parameter 1", 1, false},
    {"f32[];s32[]", "negate(p0)", "", "its type is s32", 1, false},
    {"f32[];f32[]", "tuple(p0, p1)", "", "need has_aux", 0, false},
    {"f32[]", "f32[] rng(p0, p0), distribution=rng_uniform", "", "there is no derivative of rng", 0, false},
    {"f32[]", "f32[] custom-call(p0), custom_call_target=\"mine\"", "", "custom call to mine", 0, false},
    {"f32[2,2]", "f32[] call(p0), to_apply=c",
     "c {\n  x = f32[2,2] parameter(0)\n  l = (f32[2,2], f32[2]) custom-call(x), custom_call_target=\"Qr\"\n"
     "  a = f32[2,2] get-tuple-element(l), index=0\n  s = f32[1,1] slice(a), slice={[1:2],[0:1]}\n"
     "  ROOT r = f32[] reshape(s)\n}\n",
     "no derivative of the Householder vectors", 0, false},
    {"f32[2,2];f32[2]", "f32[] call(p0, p1), to_apply=c",
     "c {\n  x = f32[2,2] parameter(0)\n  t = f32[2] parameter(1)\n"
     "  q = f32[2,2] custom-call(x, t), custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n"
     "  s = f32[1,1] slice(q), slice={[0:1],[0:1]}\n  ROOT r = f32[] reshape(s)\n}\n",
     "only if a QR decomposition makes them", 0, false},
    {"f32[]", "f32[] fusion(p0), kind=kLoop, calls=c", "c {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n",
     "there is no derivative of fusion", 0, false},
    {"f32[]", "while(p0), condition=less, body=twice",
     "less {\n  x = f32[] parameter(0)\n  c = f32[] constant(9)\n  ROOT y = pred[] compare(x, c), direction=LT\n}\n"
     "twice {\n  x = f32[] parameter(0)\n  ROOT y = f32[] add(x, x)\n}\n",
     "reverse mode needs the number of iterations", 0, false},
    {"f32[4]", "f32[] call(p0), to_apply=c",
     "always {\n  x = f32[] parameter(0)\n  ROOT y = pred[] constant(true)\n}\n"
     "same {\n  ROOT x = f32[] parameter(0)\n}\n"
     "endless {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
     "  w = f32[] while(a), condition=always, body=same\n  ROOT r = f32[] multiply(w, b)\n}\n"
     "all {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n"
     "c {\n  x = f32[4] parameter(0)\n  i = f32[] constant(1)\n"
     "  y = f32[4] reduce-window(x, i), window={size=4 pad=3_0}, to_apply=endless\n  z = f32[] constant(0)\n"
     "  ROOT s = f32[] reduce(y, z), dimensions={0}, to_apply=all\n}\n",
     "there is no derivative of a window by endless", 0, false},
};

CaseList(derivatives, refused) {
    return cases_numbered(HLO_COUNT_OF(kRefused));
}

CaseTest(int *number, derivatives, refused) {
    const Refused *r = &kRefused[*number];
    HloText text = {0};
    cases_program(&text, r->parameters, r->root, r->called);
    HloModule *module = compiled_must_parse(text.data);
    HloComputation *result = module->entry;
    HloStatus status = hlo_value_and_gradient(
        module->entry, &(HloGradientOptions){.wrt = {&r->wrt, 1}, .has_aux = r->has_aux}, &result);
    cr_assert_not_null(status, "%s", r->root);
    cr_expect_null(result);
    cr_expect_not_null(strstr(hlo_status_message(status), r->part), "%s: %s", r->root, hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Results, marks and rules

static double number_of(const HloLiteral *literal) {
    return hlo_literal_get_double(literal, 0);
}

// The derivative at 3 of a computation f64[] -> f64[] by the options.
static double slope(HloComputation *computation, const HloGradientOptions *options) {
    HloComputation *gradient;
    HloStatus status = hlo_gradient(computation, options, &gradient);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloLiteral *x = hlo_literal_of(HLO_F64, HLO_DIMS(), &(double){3}), *results[MOST];
    cr_assert_eq(evaluate("slope", gradient, &x, 1, results), 1);
    double result = number_of(results[0]);
    free_all(results, 1);
    hlo_literal_free(x);
    return result;
}

Test(derivatives, stop_at_marks) {
    HloModule *module = hlo_module_new("stop");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *x = hlo_build_parameter(b, 0, HLO_F64, HLO_DIMS(), "x");
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_mul(b, x, hlo_build_stop_gradient(b, x)));
    cr_assert_null(status);
    cr_expect_eq(slope(module->entry, NULL), 3.0);
    hlo_module_free(module);
}

static HloComputation *built(HloBuilder *b, HloInstruction *root) {
    HloComputation *computation;
    HloStatus status = hlo_builder_finish(b, root, &computation);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return computation;
}

static HloInstruction *parameter(HloBuilder *b, int64_t number) {
    return hlo_build_parameter(b, number, HLO_F64, HLO_DIMS(), NULL);
}

// f(x) = sin(x) called twice, with rules that say that its derivative is 5 and 7.
Test(derivatives, follow_the_user_s_rules) {
    HloModule *module = hlo_module_new("rules");
    HloBuilder *b = hlo_builder_new(module, "f");
    HloComputation *f = built(b, hlo_build_sin(b, parameter(b, 0)));
    b = hlo_builder_new(module, "f_jvp");
    HloInstruction *x = parameter(b, 0), *t = parameter(b, 1);
    HloInstruction *pair[] = {hlo_build_sin(b, x), hlo_build_mul(b, t, hlo_build_scalar(b, HLO_F64, 5))};
    HloComputation *jvp = built(b, hlo_build_tuple(b, pair, 2));
    b = hlo_builder_new(module, "f_forward");
    x = parameter(b, 0);
    pair[0] = hlo_build_sin(b, x);
    pair[1] = x;
    HloComputation *forward = built(b, hlo_build_tuple(b, pair, 2));
    b = hlo_builder_new(module, "f_backward");
    x = parameter(b, 0);
    pair[0] = hlo_build_mul(b, hlo_build_mul(b, parameter(b, 1), x), hlo_build_scalar(b, HLO_F64, 7));
    HloComputation *backward = built(b, hlo_build_tuple(b, pair, 1));
    b = hlo_builder_new(module, "main");
    x = parameter(b, 0);
    HloInstruction *once = hlo_build_call(b, &x, 1, f);
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_add(b, once, hlo_build_mul(b, x, x)));
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloDerivativeRule rule = {.computation = f, .jvp = jvp};
    cr_expect_eq(slope(module->entry, &(HloGradientOptions){.rules = &rule, .rule_count = 1}), 5.0 + 6.0);
    rule = (HloDerivativeRule){.computation = f, .forward = forward, .backward = backward};
    cr_expect_eq(slope(module->entry, &(HloGradientOptions){.rules = &rule, .rule_count = 1}), 7 * 3.0 + 6.0);
    rule.backward = NULL;
    HloComputation *result;
    status = hlo_gradient(module->entry, &(HloGradientOptions){.rules = &rule, .rule_count = 1}, &result);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    hlo_status_free(status);
    hlo_module_free(module);
}

// The number of instructions of an opcode in a computation.
static int64_t count_of(const HloComputation *computation, HloOpcode opcode) {
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next) count += i->opcode == opcode;
    return count;
}

// Of two layers tanh(x w): which policy computes the products and the functions again.
Test(derivatives, compute_again_what_the_policy_does_not_save) {
    static const struct {
        HloRemat remat;
        int64_t dots, functions, offloaded;
    } kWanted[] = {{HLO_REMAT_SAVE_EVERYTHING, 5, 2, 0}, {HLO_REMAT_SAVE_DOTS, 5, 4, 0},
                   {HLO_REMAT_SAVE_NAMED, 6, 3, 0},      {HLO_REMAT_SAVE_NOTHING, 7, 4, 0},
                   {HLO_REMAT_OFFLOAD_DOTS, 5, 4, 2},    {HLO_REMAT_OFFLOAD_NAMED, 6, 3, 1}};
    HloModule *module = hlo_module_new("remat");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloInstruction *w = hlo_build_parameter(b, 0, HLO_F64, HLO_DIMS(4, 4), "w");
    HloInstruction *x = hlo_build_parameter(b, 1, HLO_F64, HLO_DIMS(4, 4), "x");
    HloInstruction *first = hlo_build_checkpoint_name(b, hlo_build_tanh(b, hlo_build_matmul(b, x, w)), "first");
    HloInstruction *second = hlo_build_tanh(b, hlo_build_matmul(b, first, w));
    HloStatus status = hlo_builder_finish_entry(b, hlo_build_reduce_op(b, HLO_OP_ADD, second, HLO_DIMS(0, 1)));
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (size_t i = 0; i < HLO_COUNT_OF(kWanted); i++) {
        HloComputation *gradient;
        status = hlo_value_and_gradient(module->entry, &(HloGradientOptions){.remat = kWanted[i].remat}, &gradient);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_expect_eq(count_of(gradient, HLO_OP_DOT), kWanted[i].dots, "policy %zu: %lld dots", i,
                     (long long)count_of(gradient, HLO_OP_DOT));
        cr_expect_eq(count_of(gradient, HLO_OP_TANH), kWanted[i].functions, "policy %zu: %lld functions", i,
                     (long long)count_of(gradient, HLO_OP_TANH));
        int64_t there = 0, back = 0;
        for (const HloInstruction *n = gradient->first; n; n = n->next) {
            there += hlo_is(n, HLO_OP_COPY) && hlo_shape_memory_space(n->shape) == HLO_SPACE_PINNED_HOST;
            back += hlo_is(n, HLO_OP_COPY) && hlo_shape_memory_space(n->operands[0]->shape) == HLO_SPACE_PINNED_HOST;
        }
        cr_expect_eq(there, kWanted[i].offloaded, "policy %zu: %lld values on the host", i, (long long)there);
        cr_expect_eq(back, there);
    }
    hlo_module_free(module);
}

// The first while of a computation.
static const HloInstruction *loop_of(const HloComputation *computation) {
    const HloInstruction *i = computation->first;
    while (i && !hlo_is(i, HLO_OP_WHILE)) i = i->next;
    return i;
}

// A loop over three layers sin(tanh(h w)): each policy stacks h and what it saves in a layer, and no slice of the
// weights. The numbers of stacks are those of jax.grad of a scan of jax.checkpoint with the policy of that name.
Test(derivatives, loops_stack_what_the_policy_saves) {
    static const struct {
        HloRemat remat;
        int64_t stacks, dots, offloaded;  // dots: of the backward body
    } kWanted[] = {{HLO_REMAT_SAVE_NOTHING, 1, 3, 0},  {HLO_REMAT_SAVE_DOTS, 2, 2, 0},
                   {HLO_REMAT_SAVE_NAMED, 2, 2, 0},    {HLO_REMAT_OFFLOAD_DOTS, 2, 2, 1},
                   {HLO_REMAT_OFFLOAD_NAMED, 2, 2, 1}, {HLO_REMAT_SAVE_EVERYTHING, 3, 2, 0}};
    HloModule *module = compiled_must_parse(
        "HloModule m\nless {\n  s = (s32[], f64[2,4], f64[3,4,4]) parameter(0)\n  i = s32[] get-tuple-element(s), "
        "index=0\n"
        "  n = s32[] constant(3)\n  ROOT y = pred[] compare(i, n), direction=LT\n}\n"
        "layer {\n  s = (s32[], f64[2,4], f64[3,4,4]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  h = f64[2,4] get-tuple-element(s), index=1\n  w = f64[3,4,4] get-tuple-element(s), index=2\n"
        "  o = s32[] constant(1)\n  j = s32[] add(i, o)\n  z = s32[] constant(0)\n"
        "  r = f64[1,4,4] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,4,4}\n  m = f64[4,4] reshape(r)\n"
        "  d = f64[2,4] dot(h, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  t = f64[2,4] tanh(d)\n"
        "  c = f64[2,4] copy(t), frontend_attributes={checkpoint_name=\"t\"}\n  k = f64[2,4] sine(c)\n"
        "  ROOT q = (s32[], f64[2,4], f64[3,4,4]) tuple(j, k, w)\n}\n"
        "ENTRY e {\n  x = f64[2,4] parameter(0)\n  w = f64[3,4,4] parameter(1)\n  z = s32[] constant(0)\n"
        "  s = (s32[], f64[2,4], f64[3,4,4]) tuple(z, x, w)\n"
        "  l = (s32[], f64[2,4], f64[3,4,4]) while(s), condition=less, body=layer\n"
        "  ROOT h = f64[2,4] get-tuple-element(l), index=1\n}\n");
    Check c = {.name = "layers", .computation = module->entry};
    choose(&c, 1);
    check_forward(&c);
    for (size_t p = 0; p < HLO_COUNT_OF(kWanted); p++) {
        const HloInstruction *forward = loop_of(check_reverse(&c, kWanted[p].remat)), *backward = forward->next;
        while (!hlo_is(backward, HLO_OP_WHILE)) backward = backward->next;
        int64_t stacks = 0, offloaded = 0;
        for (int32_t k = 0; k < forward->shape->element_count; k++)
            stacks += forward->shape->elements[k]->rank == 3 && forward->shape->elements[k]->dims[1] == 2;
        for (const HloInstruction *i = forward->called[1]->first; i; i = i->next)
            offloaded += hlo_is(i, HLO_OP_COPY) && hlo_shape_memory_space(i->shape) == HLO_SPACE_PINNED_HOST;
        cr_expect_eq(stacks, kWanted[p].stacks, "policy %zu: %lld stacks", p, (long long)stacks);
        cr_expect_eq(offloaded, kWanted[p].offloaded, "policy %zu: %lld offloaded", p, (long long)offloaded);
        cr_expect_eq(count_of(backward->called[1], HLO_OP_DOT), kWanted[p].dots, "policy %zu: %lld dots", p,
                     (long long)count_of(backward->called[1], HLO_OP_DOT));
    }
    free_all(c.arguments, c.parameters);
    free_all(c.directions, c.active);
    free_all(c.forward, c.forward_count);
    hlo_module_free(module);
}

// The gradient of the entry of a program with a scalar result, by all continuous parameters, which must agree with
// forward mode and differences.
static const HloComputation *checked_gradient(const char *name, HloModule *module) {
    Check c = {.name = name, .computation = module->entry};
    choose(&c, 1);
    check_forward(&c);
    const HloComputation *gradient = check_reverse(&c, HLO_REMAT_SAVE_EVERYTHING);
    free_all(c.arguments, c.parameters);
    free_all(c.directions, c.active);
    free_all(c.forward, c.forward_count);
    return gradient;
}

// One product for the matrix of a system that is solved by its LU factors, and none for the factors: also where moves
// between the solves, as vmap makes them, leave every element where it is. Others are not that system.
Test(derivatives, systems_need_one_product) {
    static const struct {
        const char *moves;
        int64_t products;
    } kBetween[] = {
        {"  v = f64[3,2] reshape(y)\n", 1},
        {"  m1 = f64[3,2,1] reshape(y)\n  m2 = f64[2,3,1] transpose(m1), dimensions={1,0,2}\n"
         "  m3 = f64[2,1,3] transpose(m2), dimensions={0,2,1}\n  m4 = f64[2,3] reshape(m3)\n"
         "  v = f64[3,2] transpose(m4), dimensions={1,0}\n",
         1},
        {"  m1 = f64[6] reshape(y)\n  m2 = f64[1,2,3] reshape(m1)\n  m3 = f64[3,1,2] transpose(m2), "
         "dimensions={2,0,1}\n"
         "  m4 = f64[1,2,3] transpose(m3), dimensions={1,2,0}\n  v = f64[3,2] reshape(m4)\n",
         1},
        {"  m1 = f64[2,3] reshape(y)\n  v = f64[3,2] transpose(m1), dimensions={1,0}\n", 4},
    };
    for (size_t k = 0; k < HLO_COUNT_OF(kBetween); k++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\nadd {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
                        "  ROOT c = f64[] add(a, b)\n}\nENTRY e {\n  a = f64[3,3] parameter(0)\n"
                        "  r = f64[3,2] parameter(1)\n"
                        "  l = (f64[3,3], s32[3], s32[3]) custom-call(a), custom_call_target=\"LuDecomposition\"\n"
                        "  f = f64[3,3] get-tuple-element(l), index=0\n"
                        "  y = f64[3,2] triangular-solve(f, r), left_side=true, lower=true, unit_diagonal=true, "
                        "transpose_a=NO_TRANSPOSE\n%s"
                        "  x = f64[3,2] triangular-solve(f, v), left_side=true, transpose_a=NO_TRANSPOSE\n"
                        "  q = f64[3,2] sine(x)\n  z = f64[] constant(0)\n"
                        "  ROOT s = f64[] reduce(q, z), dimensions={0,1}, to_apply=add\n}\n",
                        kBetween[k].moves);
        HloModule *module = compiled_must_parse(text.data);
        cr_expect_eq(count_of(checked_gradient("system", module), HLO_OP_DOT), kBetween[k].products, "moves %zu", k);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// The number of products in what a gradient runs, each branch once.
static int64_t products_of(const HloComputation *computation) {
    int64_t count = count_of(computation, HLO_OP_DOT);
    for (const HloInstruction *i = computation->first; i; i = i->next)
        for (int64_t k = 0; k < i->called_count; k++) count += products_of(i->called[k]);
    return count;
}

// Factors that leave one conditional and enter another, as in JAX's gradient of expm, or pass through one, as in its
// gradient of that: again one product for the matrix of each system. Where other branches run, the zeros that they
// return as factors have a finite tangent, also outside.
Test(derivatives, factors_pass_from_branch_to_branch) {
    static const struct {
        const char *first, *second, *direction, *other;
        int64_t products;  // -1: not counted
    } kForms[] = {
        {"decomposed, other", NULL, "GT", "z", 2},           {"decomposed, other", NULL, "LT", "z", 2},
        {"decomposed, other", NULL, "GT", "y", -1},          {"decomposed, other", NULL, "LT", "y", -1},
        {"other, decomposed", NULL, "GT", "y", -1},          {"decomposed, decomposed", NULL, "GT", "z", -1},
        {"decomposed, other", "kept, other", "GT", "z", 3},  {"decomposed, other", "kept, other", "LT", "z", 3},
        {"decomposed, other", "kept, other", "GT", "y", -1}, {"other, decomposed", "other, kept", "GT", "z", -1},
    };
    static const char kTaken[] =
        "  t = (f64[3,3], f64[3,2]) parameter(0)\n  f = f64[3,3] get-tuple-element(t), index=0\n"
        "  r = f64[3,2] get-tuple-element(t), index=1\n";
    for (size_t k = 0; k < HLO_COUNT_OF(kForms); k++) {
        HloText text = {0};
        const char *last = kForms[k].second ? "k" : "u";
        hlo_text_format(
            &text,
            "HloModule m\nadd {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] add(a, b)\n}\n"
            "decomposed {\n%s  l = (f64[3,3], s32[3], s32[3]) custom-call(f), custom_call_target=\"LuDecomposition\"\n"
            "  g = f64[3,3] get-tuple-element(l), index=0\n  y = f64[3,2] triangular-solve(g, r), left_side=true, "
            "lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE\n"
            "  x = f64[3,2] triangular-solve(g, y), left_side=true, transpose_a=NO_TRANSPOSE\n"
            "  ROOT o = (f64[3,3], f64[3,2]) tuple(g, x)\n}\nother {\n%s  z = f64[] constant(0)\n"
            "  g = f64[3,3] broadcast(z), dimensions={}\n  ROOT o = (f64[3,3], f64[3,2]) tuple(g, r)\n}\n"
            "solved {\n%s  y = f64[3,2] triangular-solve(f, r), left_side=true, transpose_a=TRANSPOSE\n  ROOT x = "
            "f64[3,2] triangular-solve(f, y), left_side=true, lower=true, unit_diagonal=true, "
            "transpose_a=TRANSPOSE\n}\n"
            "kept {\n%s  y = f64[3,2] triangular-solve(f, r), left_side=true, lower=true, unit_diagonal=true, "
            "transpose_a=NO_TRANSPOSE\n  x = f64[3,2] triangular-solve(f, y), left_side=true, "
            "transpose_a=NO_TRANSPOSE\n  ROOT o = (f64[3,3], f64[3,2]) tuple(f, x)\n}\n"
            "same {\n%s  ROOT x = f64[3,2] copy(r)\n}\nENTRY e {\n  a = f64[3,3] parameter(0)\n"
            "  r = f64[3,2] parameter(1)\n  z = f64[] constant(0)\n  m = f64[] constant(1000)\n"
            "  n = f64[] reduce(a, z), dimensions={0,1}, to_apply=add\n  p = pred[] compare(n, m), direction=%s\n"
            "  d = s32[] convert(p)\n  t = (f64[3,3], f64[3,2]) tuple(a, r)\n"
            "  c = (f64[3,3], f64[3,2]) conditional(d, t, t), branch_computations={%s}\n"
            "  f = f64[3,3] get-tuple-element(c), index=0\n  x = f64[3,2] get-tuple-element(c), index=1\n"
            "  q = f64[3,2] sine(x)\n  u = (f64[3,3], f64[3,2]) tuple(f, q)\n"
            "  k = (f64[3,3], f64[3,2]) conditional(d, u, u), branch_computations={%s}\n"
            "  v = f64[3,2] conditional(d, %s, %s), branch_computations={%s}\n  w = f64[3,2] sine(v)\n"
            "  h = f64[3,3] sine(f)\n  y = f64[] reduce(h, z), dimensions={0,1}, to_apply=add\n"
            "  s = f64[] reduce(w, z), dimensions={0,1}, to_apply=add\n  ROOT e = f64[] add(s, %s)\n}\n",
            kTaken, kTaken, kTaken, kTaken, kTaken, kForms[k].direction, kForms[k].first,
            kForms[k].second ? kForms[k].second : "other, other", last, last,
            kForms[k].first[0] == 'd' ? "solved, same" : "same, solved", kForms[k].other);
        HloModule *module = compiled_must_parse(text.data);
        const int64_t products = products_of(checked_gradient("factors", module));
        if (kForms[k].products >= 0) cr_expect_eq(products, kForms[k].products, "form %zu", k);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// A determinant reads the diagonal of the factors alone, by indices that are computed from iotas.
Test(derivatives, determinants_need_no_product) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nmul {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] multiply(a, b)\n}\n"
        "ENTRY e {\n  a = f64[3,3] parameter(0)\n"
        "  l = (f64[3,3], s32[3], s32[3]) custom-call(a), custom_call_target=\"LuDecomposition\"\n"
        "  f = f64[3,3] get-tuple-element(l), index=0\n  i = s32[3,1] iota(), iota_dimension=0\n"
        "  j = s32[3,2] concatenate(i, i), dimensions={1}\n"
        "  d = f64[3] gather(f, j), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, "
        "index_vector_dim=1, slice_sizes={1,1}\n"
        "  o = f64[] constant(1)\n  ROOT p = f64[] reduce(d, o), dimensions={0}, to_apply=mul\n}\n");
    const HloComputation *gradient = checked_gradient("determinant", module);
    cr_expect_eq(count_of(gradient, HLO_OP_DOT), 0);
    cr_expect_eq(count_of(gradient, HLO_OP_TRIANGULAR_SOLVE), 2);
    hlo_module_free(module);
}

// JAX's lax.platform_dependent is a switch by a constant; here a value of it selects a branch in turn.
Test(derivatives, known_branches_are_inlined) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nzero {\n  a = f64[] parameter(0)\n  ROOT c = s32[] constant(0)\n}\n"
        "one {\n  a = f64[] parameter(0)\n  ROOT c = s32[] constant(1)\n}\n"
        "sine {\n  a = f64[] parameter(0)\n  ROOT c = f64[] sine(a)\n}\n"
        "same {\n  ROOT a = f64[] parameter(0)\n}\n"
        "ENTRY e {\n  a = f64[] parameter(0)\n  k = s32[] constant(1)\n"
        "  i = s32[] conditional(k, a, a), branch_computations={zero, one}\n"
        "  ROOT r = f64[] conditional(i, a, a), branch_computations={same, sine}\n}\n");
    cr_expect_eq(count_of(checked_gradient("known branches", module), HLO_OP_CONDITIONAL), 0);
    hlo_module_free(module);
}

// A branch whose argument is an array without a tangent was reported as a bug of Meshlo.
Test(derivatives, arguments_of_branches_may_have_no_tangent) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nfirst {\n  a = f64[] parameter(0)\n  ROOT c = f64[] cosine(a)\n}\n"
        "second {\n  a = (f64[], f64[]) parameter(0)\n  b = f64[] get-tuple-element(a), index=0\n"
        "  c = f64[] get-tuple-element(a), index=1\n  ROOT d = f64[] multiply(b, c)\n}\n"
        "ENTRY e {\n  a = f64[] parameter(0)\n  p = s32[] parameter(1)\n  k = f64[] constant(0.5)\n"
        "  t = (f64[], f64[]) tuple(a, k)\n"
        "  ROOT r = f64[] conditional(p, k, t), branch_computations={first, second}\n}\n");
    cr_expect_eq(count_of(checked_gradient("branches", module), HLO_OP_CONDITIONAL), 2);
    hlo_module_free(module);
}

// Of two results of branches, and of two values that a loop carries and computes in a call, one is not used: no product
// is made for its tangent.
Test(derivatives, what_no_result_needs_has_no_cotangent) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nproducts {\n  a = (f64[2,2], f64[2]) parameter(0)\n"
        "  w = f64[2,2] get-tuple-element(a), index=0\n  b = f64[2] get-tuple-element(a), index=1\n"
        "  c = f64[2] dot(w, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  d = f64[2] sine(b)\n"
        "  ROOT t = (f64[2], f64[2]) tuple(c, d)\n}\n"
        "others {\n  a = (f64[2,2], f64[2]) parameter(0)\n  b = f64[2] get-tuple-element(a), index=1\n"
        "  ROOT t = (f64[2], f64[2]) tuple(b, b)\n}\n"
        "step {\n  w = f64[2,2] parameter(0)\n  b = f64[2] parameter(1)\n  m = f64[2] parameter(2)\n"
        "  c = f64[2] dot(w, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  n = f64[2] add(m, c)\n"
        "  d = f64[2] sine(b)\n  ROOT t = (f64[2], f64[2]) tuple(d, n)\n}\n"
        "less {\n  s = (s32[], f64[2,2], f64[2], f64[2]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant(3)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n"
        "body {\n  s = (s32[], f64[2,2], f64[2], f64[2]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  w = f64[2,2] get-tuple-element(s), index=1\n  b = f64[2] get-tuple-element(s), index=2\n"
        "  m = f64[2] get-tuple-element(s), index=3\n  k = s32[] constant(1)\n  j = s32[] add(i, k)\n"
        "  q = (f64[2], f64[2]) call(w, b, m), to_apply=step\n  d = f64[2] get-tuple-element(q), index=0\n"
        "  n = f64[2] get-tuple-element(q), index=1\n"
        "  ROOT t = (s32[], f64[2,2], f64[2], f64[2]) tuple(j, w, d, n)\n}\n"
        "sum {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] add(a, b)\n}\n"
        "ENTRY e {\n  w = f64[2,2] parameter(0)\n  b = f64[2] parameter(1)\n  p = s32[] parameter(2)\n"
        "  t = (f64[2,2], f64[2]) tuple(w, b)\n"
        "  r = (f64[2], f64[2]) conditional(p, t, t), branch_computations={products, others}\n"
        "  x = f64[2] get-tuple-element(r), index=1\n  i = s32[] constant(0)\n"
        "  s = (s32[], f64[2,2], f64[2], f64[2]) tuple(i, w, x, b)\n"
        "  l = (s32[], f64[2,2], f64[2], f64[2]) while(s), condition=less, body=body\n"
        "  y = f64[2] get-tuple-element(l), index=2\n  z = f64[] constant(0)\n"
        "  ROOT u = f64[] reduce(y, z), dimensions={0}, to_apply=sum\n}\n");
    const HloComputation *gradient = checked_gradient("unused", module);
    int64_t dots = 0;
    for (const HloInstruction *i = gradient->first; i; i = i->next)
        for (int32_t k = 0; k < i->called_count; k++) dots += count_of(i->called[k], HLO_OP_DOT);
    cr_expect_eq(dots, 2, "%lld products, of which the forward parts have two", (long long)dots);
    hlo_module_free(module);
}

// What a softmax, a log of a sum of exponentials, and an attention subtract has no derivative; what only looks like
// them has one.
// Of one function, callers need different results; what was found for one caller held for the other.
Test(derivatives, callers_of_a_function_need_different_results) {
    HloModule *module = compiled_must_parse(
        "HloModule m\ninner {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  s = f64[] sine(a)\n"
        "  c = f64[] cosine(b)\n  ROOT t = (f64[], f64[]) tuple(s, c)\n}\n"
        "first {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
        "  t = (f64[], f64[]) call(a, b), to_apply=inner\n  ROOT s = f64[] get-tuple-element(t), index=0\n}\n"
        "second {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
        "  t = (f64[], f64[]) call(a, b), to_apply=inner\n  ROOT c = f64[] get-tuple-element(t), index=1\n}\n"
        "ENTRY e {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  f = f64[] call(a, b), to_apply=first\n"
        "  g = f64[] call(a, b), to_apply=second\n  h = f64[] call(b, f), to_apply=first\n  p = f64[] multiply(f, g)\n"
        "  ROOT r = f64[] multiply(p, h)\n}\n");
    checked_gradient("callers", module);
    hlo_module_free(module);
}

// JAX calls isinf with the tangent of a determinant, which does not matter there; the product for it stayed.
Test(derivatives, ignored_operands_of_calls_are_not_computed) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nignores {\n  a = f64[3] parameter(0)\n  b = f64[3] parameter(1)\n  n = f64[3] negate(b)\n"
        "  c = f64[] constant(0)\n  d = f64[3] broadcast(c), dimensions={}\n  ROOT e = pred[3] compare(a, d), "
        "direction=GT\n}\n"
        "ENTRY e {\n  x = f64[3] parameter(0)\n  m = f64[3,3] constant({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})\n"
        "  y = f64[3] dot(m, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  p = pred[3] call(x, y), to_apply=ignores\n  s = f64[3] sine(x)\n  ROOT r = f64[3] select(p, s, x)\n}\n");
    cr_expect_eq(products_of(checked_gradient("ignored", module)), 0);
    hlo_module_free(module);
}

// Which values have tangents is found once for what was asked, though each of the loops around a body asks.
Test(derivatives, of_twenty_loops_in_each_other) {
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m\nonce {\n  s = (s32[], f64[], f64[]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(1)\n"
                    "  ROOT c = pred[] compare(i, n), direction=LT\n}\n"
                    "body0 {\n  s = (s32[], f64[], f64[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
                    "  x = f64[] get-tuple-element(s), index=1\n  y = f64[] get-tuple-element(s), index=2\n"
                    "  k = s32[] constant(1)\n  j = s32[] add(i, k)\n  z = f64[] sine(x)\n"
                    "  ROOT t = (s32[], f64[], f64[]) tuple(j, z, x)\n}\n");
    for (int d = 1; d <= 20; d++)
        hlo_text_format(
            &text,
            "body%d {\n  s = (s32[], f64[], f64[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
            "  x = f64[] get-tuple-element(s), index=1\n  y = f64[] get-tuple-element(s), index=2\n"
            "  k = s32[] constant(1)\n  j = s32[] add(i, k)\n  o = s32[] constant(0)\n"
            "  u = (s32[], f64[], f64[]) tuple(o, x, y)\n"
            "  l = (s32[], f64[], f64[]) while(u), condition=once, body=body%d\n"
            "  p = f64[] get-tuple-element(l), index=1\n  q = f64[] get-tuple-element(l), index=2\n"
            "  ROOT t = (s32[], f64[], f64[]) tuple(j, p, q)\n}\n",
            d, d - 1);
    hlo_text_string(&text,
                    "ENTRY e {\n  x = f64[] parameter(0)\n  c = f64[] constant(2)\n  o = s32[] constant(0)\n"
                    "  u = (s32[], f64[], f64[]) tuple(o, x, c)\n"
                    "  l = (s32[], f64[], f64[]) while(u), condition=once, body=body20\n"
                    "  p = f64[] get-tuple-element(l), index=1\n  q = f64[] get-tuple-element(l), index=2\n"
                    "  ROOT r = f64[] multiply(p, q)\n}\n");
    HloModule *module = compiled_must_parse(text.data);
    checked_gradient("loops", module);
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(derivatives, maxima_that_cancel_have_none) {
    static const struct {
        const char *name, *rest;
        bool cancels;
    } kPrograms[] = {
        {"softmax", "  y = f64[3,4] divide(e, t)\n", true},
        {"log_softmax", "  l = f64[3,4] log(t)\n  y = f64[3,4] subtract(d, l)\n", true},
        {"logsumexp", "  l = f64[3,4] log(t)\n  y = f64[3,4] add(l, c)\n", true},
        {"attention",
         "  v = f64[4,4] parameter(1)\n  o = f64[3,4] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  y = f64[3,4] divide(o, t)\n",
         true},
        {"masked",
         "  h = f64[] constant(0.5)\n  b = f64[3,4] broadcast(h), dimensions={}\n"
         "  p = pred[3,4] compare(x, b), direction=GT\n  n = f64[3,4] broadcast(z), dimensions={}\n"
         "  f = f64[3,4] select(p, e, n)\n  y = f64[3,4] divide(f, t)\n",
         true},
        {"not divided", "  y = f64[3,4] multiply(e, t)\n", false},
        {"divided twice", "  f = f64[3,4] divide(e, t)\n  y = f64[3,4] divide(f, t)\n", false},
        {"also used", "  f = f64[3,4] divide(e, t)\n  y = f64[3,4] multiply(f, c)\n", false},
        {"of all rows",
         "  u = f64[] reduce(e, z), dimensions={0,1}, to_apply=sum\n  w = f64[3,4] broadcast(u), dimensions={}\n"
         "  y = f64[3,4] divide(e, w)\n",
         false},
        {"transposed",
         "  g = f64[4,3] broadcast(s), dimensions={1}\n  f = f64[4,3] reshape(e)\n  q = f64[4,3] divide(f, g)\n"
         "  y = f64[3,4] reshape(q)\n",
         false}};
    for (size_t p = 0; p < HLO_COUNT_OF(kPrograms); p++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "HloModule m\nsum {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
                 "  ROOT c = f64[] add(a, b)\n}\nmost {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
                 "  ROOT c = f64[] maximum(a, b)\n}\nENTRY entry {\n  x = f64[3,4] parameter(0)\n"
                 "  i = f64[] constant(-inf)\n  z = f64[] constant(0)\n"
                 "  r = f64[3] reduce(x, i), dimensions={1}, to_apply=most\n  j = f64[3] broadcast(i), dimensions={}\n"
                 "  m = f64[3] maximum(j, r)\n  k = f64[3,1] broadcast(m), dimensions={0}\n"
                 "  a = f64[3] reshape(k)\n  c = f64[3,4] broadcast(a), dimensions={0}\n"
                 "  d = f64[3,4] subtract(x, c)\n  e = f64[3,4] exponential(d)\n"
                 "  s = f64[3] reduce(e, z), dimensions={1}, to_apply=sum\n"
                 "  t = f64[3,4] broadcast(s), dimensions={0}\n%s"
                 "  sine = f64[3,4] sine(y)\n  last = f64[3,4] multiply(sine, x)\n"
                 "  ROOT result = f64[] reduce(last, z), dimensions={0,1}, to_apply=sum\n}\n",
                 kPrograms[p].rest);
        HloModule *module = compiled_must_parse(text);
        const HloComputation *gradient = checked_gradient(kPrograms[p].name, module);
        int64_t chosen = 0;
        for (const HloInstruction *i = gradient->first; i; i = i->next)
            chosen += hlo_is(i, HLO_OP_COMPARE) && HLO_ATTRIBUTES(i, Compare)->direction == HLO_ComparisonDirection_EQ;
        cr_expect_eq(chosen == 0, kPrograms[p].cancels, "%s", kPrograms[p].name);
        hlo_module_free(module);
    }
}

// The parts of an array come back together, not as a sum of arrays of its size; parts that overlap are summed.
Test(derivatives, of_a_split_is_a_concatenation) {
    static const struct {
        const char *slices;
        int64_t concatenations, pads;
    } kPrograms[] = {{"[0:2]}|[2:3]}|[3:6]}", 1, 0}, {"[0:2]}|[2:4]}|[4:5]}", 1, 1}, {"[0:3]}|[2:5]}|[3:6]}", 0, 3}};
    for (size_t p = 0; p < HLO_COUNT_OF(kPrograms); p++) {
        HloText text = {0};
        static const char *const kUses[] = {"sine", "cosine", "tanh"};
        const char *at = kPrograms[p].slices;
        hlo_text_string(&text,
                        "HloModule m\nsum {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
                        "  ROOT c = f64[] add(a, b)\n}\nENTRY e {\n  x = f64[2,6] parameter(0)\n"
                        "  y = f64[2,6] multiply(x, x)\n  z = f64[] constant(0)\n");
        for (int i = 0; i < 3; i++) {
            const int first = at[1] - '0', limit = at[3] - '0';
            hlo_text_format(&text, "  part%d = f64[2,%d] slice(y), slice={[0:2], [%d:%d]}\n", i, limit - first, first,
                            limit);
            hlo_text_format(&text, "  use%d = f64[2,%d] %s(part%d)\n", i, limit - first, kUses[i], i);
            hlo_text_format(&text, "  total%d = f64[] reduce(use%d, z), dimensions={0,1}, to_apply=sum\n", i, i);
            at += 7;
        }
        hlo_text_string(&text, "  v = f64[] add(total2, total0)\n  ROOT w = f64[] add(v, total1)\n}\n");
        HloModule *module = compiled_must_parse(text.data);
        const HloComputation *gradient = checked_gradient("split", module);
        cr_expect_eq(count_of(gradient, HLO_OP_CONCATENATE), kPrograms[p].concatenations, "%s", kPrograms[p].slices);
        cr_expect_eq(count_of(gradient, HLO_OP_PAD), kPrograms[p].pads, "%s", kPrograms[p].slices);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}

// Joining the cotangents of slices takes a bounded time for each, however many there are.
Test(derivatives, many_neighbouring_slices_are_joined_in_groups) {
    enum { kSlices = 1000 };
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\nENTRY entry {\n  x = f64[%d] parameter(0)\n  s = f64[] constant(0)\n",
                    kSlices);
    for (int i = 0; i < kSlices; i++)
        hlo_text_format(
            &text,
            "  x%d = f64[1] slice(x), slice={[%d:%d]}\n  y%d = f64[1] sine(x%d)\n  r%d = f64[] reshape(y%d)\n"
            "  sum%d = f64[] add(%s%.0d, r%d)\n",
            i, i, i + 1, i, i, i, i, i + 1, i ? "sum" : "s", i, i);
    hlo_text_format(&text, "  ROOT r = f64[] copy(sum%d)\n}\n", kSlices);
    HloModule *module = compiled_must_parse(text.data);
    const HloComputation *gradient = checked_gradient("slices", module);
    for (const HloInstruction *i = gradient->first; i; i = i->next) cr_expect_leq(i->operand_count, 128, "%s", i->name);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// A gradient has the sharding of its parameter, a cotangent that of the value.
Test(derivatives, keep_shardings) {
    HloModule *module = compiled_must_parse(
        "HloModule m, num_partitions=2\nsum {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n"
        "  ROOT c = f64[] add(a, b)\n}\nENTRY e {\n  w = f64[4] parameter(0), sharding={devices=[2]<=[2]}\n"
        "  s = f64[4] sine(w), sharding={devices=[2]<=[2]}\n  t = f64[4] multiply(s, s)\n  z = f64[] constant(0)\n"
        "  ROOT r = f64[] reduce(t, z), dimensions={0}, to_apply=sum\n}\n");
    HloComputation *gradient;
    HloStatus status = hlo_gradient(module->entry, NULL, &gradient);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_not_null(gradient->parameters.items[0]->sharding);
    cr_expect_not_null(gradient->root->operands[0]->sharding);
    hlo_module_free(module);
}

// Embeddings that are looked up and multiplied by: if they are sharded, the gradient of the look-up is added to that of
// the product, which would have to be summed over the devices before it could be written into.
Test(derivatives, of_sharded_embeddings_are_summed_once) {
    static const char *const kShardings[] = {"", ", sharding={devices=[2,1]<=[2]}"};
    for (int sharded = 0; sharded < 2; sharded++) {
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule m\nadd {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] add(a, b)\n}\n"
            "ENTRY e {\n  w = f64[4,2] parameter(0)%s\n  i = s32[3] parameter(1)\n"
            "  x = f64[3,2] gather(w, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1,2}\n"
            "  y = f64[3,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
            "  s = f64[3,4] multiply(y, y)\n  z = f64[] constant(0)\n"
            "  ROOT r = f64[] reduce(s, z), dimensions={0,1}, to_apply=add\n}\n",
            kShardings[sharded]);
        HloModule *module = compiled_must_parse(text.data);
        const HloComputation *gradient = checked_gradient("embeddings", module);
        for (const HloInstruction *i = gradient->first; i; i = i->next) {
            if (!hlo_is(i, HLO_OP_SCATTER)) continue;
            cr_expect_eq(hlo_is(i->operands[0], HLO_OP_BROADCAST), sharded);
        }
        cr_expect_eq(count_of(gradient, HLO_OP_SCATTER), 1);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// Functions made of formulas for several ranges, where the slope of the one that is not chosen is infinite: each NaN
// that a select hid would come back as 0 times infinity. The slopes are exact values.
Test(derivatives, where_formulas_of_a_function_meet) {
    static const double kZeta2 = 1.6449340668482264365, kEuler = 0.57721566490153286061;
    static const struct {
        const char *name;
        double at[4], slope[4];
    } kFunctions[] = {
        {"erf_inv", {0, 1, -1, 0}, {0.88622692545275801365, INFINITY, INFINITY, 0.88622692545275801365}},
        {"erfc", {0, -0.0, 1, 30}, {-1.1283791670955125739, -1.1283791670955125739, -0.41510749742059470334, 0}},
        {"bessel_i1e", {0, -0.0, 0, 0}, {0.5, 0.5, 0.5, 0.5}},
        {"lgamma", {1, 2, 3, 0.5}, {-kEuler, 1 - kEuler, 1.5 - kEuler, -1.9635100260214234794}},
        {"digamma", {1, 2, 3, 0.5}, {kZeta2, kZeta2 - 1, kZeta2 - 1.25, 4.9348022005446793094}}};
    for (size_t f = 0; f < HLO_COUNT_OF(kFunctions); f++) {
        for (int wide = 0; wide < 2; wide++) {
            const char *type = wide ? "f64" : "f32";
            char text[600];
            snprintf(text, sizeof(text),
                     "func.func @main(%%a: tensor<4x%s>) -> tensor<%s> {\n"
                     "  %%z = stablehlo.constant dense<0.0> : tensor<%s>\n"
                     "  %%b = chlo.%s %%a : tensor<4x%s> -> tensor<4x%s>\n"
                     "  %%r = stablehlo.reduce(%%b init: %%z) applies stablehlo.add across dimensions = [0] : "
                     "(tensor<4x%s>, tensor<%s>) -> tensor<%s>\n  return %%r : tensor<%s>\n}\n",
                     type, type, type, kFunctions[f].name, type, type, type, type, type, type);
            HloModule *module;
            HloStatus status = hlo_module_from_stablehlo_text(text, strlen(text), NULL, &module);
            cr_assert_null(status, "%s", hlo_status_message(status));
            HloComputation *gradient;
            status = hlo_gradient(module->entry, NULL, &gradient);
            cr_assert_null(status, "%s", hlo_status_message(status));
            HloLiteral *argument = hlo_literal_new(module->entry->parameters.items[0]->shape), *result;
            for (int i = 0; i < 4; i++) hlo_literal_set_double(argument, i, kFunctions[f].at[i]);
            status = hlo_evaluate_computation(gradient, (const HloLiteral *const *)&argument, 1, NULL, &result);
            cr_assert_null(status, "%s", hlo_status_message(status));
            for (int i = 0; i < 4; i++) {
                const double got = creal(hlo_literal_get_complex(result->elements[0], i)),
                             wanted = kFunctions[f].slope[i];
                const bool near = got == wanted || fabs(got - wanted) <= (wide ? 1e-9 : 2e-5) * (1 + fabs(wanted));
                cr_expect(near, "%s of %s at %g: %.17g, not %.17g", kFunctions[f].name, type, kFunctions[f].at[i], got,
                          wanted);
            }
            hlo_literal_free(argument);
            hlo_literal_free(result);
            hlo_module_free(module);
        }
    }
}

// The formula of log(exp(a) + exp(b)) has a kink of each part where a = b, and NaN where both are infinite; the
// function has neither. That of the logistic function overflows. A function called relu has the slope 0 at 0, any other
// maximum with 0 the slope 1/2. All have the same slopes where they are mapped over an axis.
Test(derivatives, of_functions_with_a_rule_of_their_own) {
    static const struct {
        const char *text;
        double at[3], slope[3];
    } kFunctions[] = {
        {"HloModule m\nENTRY e {\n  a = f64[3] parameter(0)\n  z = f64[] constant(0)\n  b = f64[3] broadcast(z), "
         "dimensions={}\n  c = f64[3] broadcast(z), dimensions={}\n  m = f64[3] maximum(a, b)\n"
         "  d = f64[3] subtract(a, c)\n  n = pred[3] compare(d, d), direction=NE\n  s = f64[3] add(a, b)\n"
         "  v = f64[3] abs(d)\n  w = f64[3] negate(v)\n  x = f64[3] exponential(w)\n"
         "  y = f64[3] log-plus-one(x)\n  t = f64[3] add(m, y)\n  ROOT r = f64[3] select(n, s, t)\n}\n",
         {0, 1, -1},
         {0.5, 0.73105857863000487925, 0.26894142136999512075}},
        {"HloModule m\nENTRY e {\n  a = f64[3] parameter(0)\n  m = f64[3] maximum(a, a)\n"
         "  d = f64[3] subtract(a, a)\n  n = pred[3] compare(d, d), direction=NE\n  s = f64[3] add(a, a)\n"
         "  v = f64[3] abs(d)\n  w = f64[3] negate(v)\n  k = f64[] constant(0.69314718055994529)\n"
         "  l = f64[3] broadcast(k), dimensions={}\n  p = f64[3] multiply(l, w)\n  x = f64[3] exponential(p)\n"
         "  y = f64[3] log-plus-one(x)\n  i = f64[] constant(1.4426950408889634)\n"
         "  j = f64[3] broadcast(i), dimensions={}\n  q = f64[3] multiply(j, y)\n  t = f64[3] add(m, q)\n"
         "  ROOT r = f64[3] select(n, s, t)\n}\n",
         {0, INFINITY, -3},
         {1, 2, 1}},
        {"HloModule m\nrelu.7 {\n  a = f64[3] parameter(0)\n  z = f64[] constant(0)\n  b = f64[3] broadcast(z), "
         "dimensions={}\n  ROOT m = f64[3] maximum(a, b)\n}\nENTRY e {\n  a = f64[3] parameter(0)\n"
         "  ROOT r = f64[3] call(a), to_apply=relu.7\n}\n",
         {0, 1, -1},
         {0, 1, 0}},
        {"HloModule m\nrelus {\n  a = f64[3] parameter(0)\n  z = f64[] constant(0)\n  b = f64[3] broadcast(z), "
         "dimensions={}\n  ROOT m = f64[3] maximum(a, b)\n}\nENTRY e {\n  a = f64[3] parameter(0)\n"
         "  ROOT r = f64[3] call(a), to_apply=relus\n}\n",
         {0, 1, -1},
         {0.5, 1, 0}},
        {"HloModule m\nENTRY e {\n  a = f64[3] parameter(0)\n  o = f64[] constant(1)\n"
         "  b = f64[3] broadcast(o), dimensions={}\n  n = f64[3] negate(a)\n  x = f64[3] exponential(n)\n"
         "  d = f64[3] add(b, x)\n  ROOT r = f64[3] divide(b, d)\n}\n",
         {0, -1000, 1000},
         {0.25, 0, 0}},
        // A branch of a mapped switch: it computes NaN where it is not chosen.
        {"HloModule m\nENTRY e {\n  a = f64[3] parameter(0)\n  h = f64[] constant(0.5)\n"
         "  b = f64[3] broadcast(h), dimensions={}\n  p = pred[3] compare(a, b), direction=GT\n"
         "  s = f64[3] select(p, a, a)\n  l = f64[3] log(s)\n  ROOT r = f64[3] select(p, l, b)\n}\n",
         {0, 1, 4},
         {0, 1, 0.25}},
        // The mantissa of jax.numpy.frexp is made of bits.
        {"HloModule m\nfrexp {\n  a = f64[3] parameter(0)\n  i = s64[3] bitcast-convert(a)\n  k = s64[] constant(52)\n"
         "  kb = s64[3] broadcast(k), dimensions={}\n  h = s64[3] shift-right-arithmetic(i, kb)\n"
         "  m = s64[] constant(2047)\n  mb = s64[3] broadcast(m), dimensions={}\n  e0 = s64[3] and(h, mb)\n"
         "  c = s64[] constant(1022)\n  cb = s64[3] broadcast(c), dimensions={}\n  e1 = s64[3] subtract(e0, cb)\n"
         "  e = s32[3] convert(e1)\n  n = s64[] constant(-9218868437227405313)\n"
         "  nb = s64[3] broadcast(n), dimensions={}\n  r = s64[3] and(i, nb)\n  o = s64[] "
         "constant(4602678819172646912)\n"
         "  ob = s64[3] broadcast(o), dimensions={}\n  b = s64[3] or(r, ob)\n  f = f64[3] bitcast-convert(b)\n"
         "  ROOT t = (f64[3], s32[3]) tuple(f, e)\n}\nENTRY e {\n  a = f64[3] parameter(0)\n"
         "  t = (f64[3], s32[3]) call(a), to_apply=frexp\n  ROOT r = f64[3] get-tuple-element(t), index=0\n}\n",
         {0.75, 3, -10},
         {1, 0.25, 0.0625}},
        // x log(2) and x log(x), as jax.scipy.special's xlogy and entr are: with the slope of the product at 0.
        {"HloModule m\nENTRY e {\n  a = f64[3] parameter(0)\n  o = f64[] constant(2)\n"
         "  y = f64[3] broadcast(o), dimensions={}\n  z = f64[] constant(0)\n  b = f64[3] broadcast(z), dimensions={}\n"
         "  p = pred[3] compare(a, b), direction=NE\n  n = pred[3] compare(y, y), direction=NE\n  q = pred[3] or(p, "
         "n)\n"
         "  l = f64[3] log(y)\n  m = f64[3] multiply(a, l)\n  ROOT r = f64[3] select(q, m, b)\n}\n",
         {0, 1, -1},
         {M_LN2, M_LN2, M_LN2}},
        {"HloModule m\n_where.3 {\n  p = pred[3] parameter(0)\n  x = f64[3] parameter(1)\n  y = f64[3] parameter(2)\n"
         "  ROOT r = f64[3] select(p, x, y)\n}\nENTRY e {\n  a = f64[3] parameter(0)\n  z = f64[] constant(0)\n"
         "  b = f64[3] broadcast(z), dimensions={}\n  p = pred[3] compare(a, b), direction=NE\n"
         "  n = pred[3] compare(a, a), direction=NE\n  q = pred[3] or(p, n)\n  l = f64[3] log(a)\n"
         "  m = f64[3] multiply(a, l)\n  ROOT r = f64[3] call(q, m, b), to_apply=_where.3\n}\n",
         {1, 2, 0},
         {1, 1.6931471805599453, -INFINITY}},
        // A sample of jax.random.gamma, here half as much again as its shape: the slope is that at a fixed probability.
        {"HloModule m\n_gamma.3 {\n  k = u32[2] parameter(0)\n  a = f64[3] parameter(1)\n  h = f64[] constant(1.5)\n"
         "  q = f64[] constant(0.0331)\n  z = f64[] subtract(q, q)\n  s = f64[] add(h, z)\n"
         "  b = f64[3] broadcast(s), dimensions={}\n  ROOT r = f64[3] multiply(a, b)\n}\nENTRY e {\n"
         "  a = f64[3] parameter(0)\n  k = u32[2] constant({0, 3})\n  ROOT r = f64[3] call(k, a), "
         "to_apply=_gamma.3\n}\n",
         {0.5, 1, 4},
         {1.6410129763808734, 1.4309374423012802, 1.2681319669760756}},
        // Owen's T function of (x, x), here with one point of its quadrature, as JAX's jnp.where calls the selection.
        {"HloModule m\n_where.2 {\n  p = pred[3] parameter(0)\n  x = f64[] parameter(1)\n  y = f64[3] parameter(2)\n"
         "  b = f64[3] broadcast(x), dimensions={}\n  ROOT r = f64[3] select(p, b, y)\n}\nENTRY e {\n"
         "  a = f64[3] parameter(0)\n  h = f64[3] abs(a)\n  w = f64[] constant(0.0016793031084546090)\n"
         "  b = f64[3] broadcast(w), dimensions={}\n  m = f64[3] multiply(h, b)\n  s = f64[3] sign(a)\n"
         "  y = f64[3] multiply(s, m)\n  n = pred[3] compare(a, a), direction=NE\n"
         "  k = pred[3] compare(h, h), direction=NE\n  o = pred[3] or(n, k)\n  u = f64[] constant(nan)\n"
         "  ROOT r = f64[3] call(o, u, y), to_apply=_where.2\n}\n",
         {0, 1, -2},
         {0.15915494309189535, -0.053320519754848764, -0.026992328170989243}},
        // JAX leaves the exponent out where the program does not use it.
        {"HloModule m\nfrexp {\n  a = f64[3] parameter(0)\n  i = s64[3] bitcast-convert(a)\n"
         "  n = s64[] constant(-9218868437227405313)\n  nb = s64[3] broadcast(n), dimensions={}\n"
         "  r = s64[3] and(i, nb)\n  o = s64[] constant(4602678819172646912)\n"
         "  ob = s64[3] broadcast(o), dimensions={}\n  b = s64[3] or(r, ob)\n  f = f64[3] bitcast-convert(b)\n"
         "  z = f64[] constant(0)\n  zb = f64[3] broadcast(z), dimensions={}\n"
         "  p = pred[3] compare(a, zb), direction=EQ\n  ROOT s = f64[3] select(p, a, f)\n}\nENTRY e {\n"
         "  a = f64[3] parameter(0)\n  ROOT r = f64[3] call(a), to_apply=frexp\n}\n",
         {0, 3, -10},
         {1, 0.25, 0.0625}},
        // One of two integrals, with a coefficient of its approximation; that of the other is in code without use.
        {"HloModule m\nsici.1 {\n  a = f64[3] parameter(0)\n  c = f64[2] constant({1, -0.0413470316229406539})\n"
         "  d = f64[2] constant({1, 0.0289159652607555242})\n  s = f64[1] slice(c), slice={[1:2]}\n"
         "  n = f64[] reshape(s)\n  b = f64[3] broadcast(n), dimensions={}\n  ROOT r = f64[3] add(a, b)\n}\n"
         "ENTRY e {\n  a = f64[3] parameter(0)\n  ROOT r = f64[3] call(a), to_apply=sici.1\n}\n",
         {0, 1, -2},
         {1, 0.8414709848078965, 0.45464871341284085}},
        // Functions of users with the same names.
        {"HloModule m\ni0 {\n  a = f64[3] parameter(0)\n  ROOT r = f64[3] add(a, a)\n}\nENTRY e {\n"
         "  a = f64[3] parameter(0)\n  ROOT r = f64[3] call(a), to_apply=i0\n}\n",
         {0, 1, 2},
         {2, 2, 2}},
        {"HloModule m\nsici {\n  a = f64[3] parameter(0)\n  b = f64[3] add(a, a)\n"
         "  ROOT r = (f64[3], f64[3]) tuple(b, a)\n}\nENTRY e {\n  a = f64[3] parameter(0)\n"
         "  t = (f64[3], f64[3]) call(a), to_apply=sici\n  ROOT r = f64[3] get-tuple-element(t), index=0\n}\n",
         {0, 1, 2},
         {2, 2, 2}},
        {"HloModule m\nfrexp {\n  a = f64[3] parameter(0)\n  b = f64[3] add(a, a)\n  e = s32[3] convert(a)\n"
         "  ROOT r = (f64[3], s32[3]) tuple(b, e)\n}\nENTRY e {\n  a = f64[3] parameter(0)\n"
         "  t = (f64[3], s32[3]) call(a), to_apply=frexp\n  ROOT r = f64[3] get-tuple-element(t), index=0\n}\n",
         {0, 1, 2},
         {2, 2, 2}},
        {"HloModule m\n_gamma {\n  k = s32[] parameter(0)\n  a = f64[3] parameter(1)\n  c = f64[] convert(k)\n"
         "  b = f64[3] broadcast(c), dimensions={}\n  ROOT r = f64[3] multiply(a, b)\n}\nENTRY e {\n"
         "  a = f64[3] parameter(0)\n  k = s32[] constant(3)\n  ROOT r = f64[3] call(k, a), to_apply=_gamma\n}\n",
         {0.5, 1, 4},
         {3, 3, 3}}};
    for (size_t k = 0; k < 2 * HLO_COUNT_OF(kFunctions); k++) {
        const size_t f = k / 2;
        HloModule *module = compiled_must_parse(kFunctions[f].text);
        HloComputation *function = module->entry, *vjp;
        const HloInts dims = k % 2 ? HLO_DIMS(1, 3) : HLO_DIMS(3);
        HloStatus status = HLO_SUCCESS;
        if (k % 2) status = hlo_vmap(module->entry, &(HloVmapOptions){.size = 1}, &function);
        if (!status) status = hlo_vjp(function, NULL, &vjp);
        cr_assert_null(status, "%s", hlo_status_message(status));
        HloLiteral *arguments[] = {hlo_literal_of(HLO_F64, dims, kFunctions[f].at),
                                   hlo_literal_of(HLO_F64, dims, (const double[]){1, 1, 1})},
                   *results[MOST];
        cr_assert_eq(evaluate("rule", vjp, arguments, 2, results), 2);
        for (int i = 0; i < 3; i++) {
            const double got = creal(hlo_literal_get_complex(results[1], i)), wanted = kFunctions[f].slope[i];
            cr_expect(got == wanted || fabs(got - wanted) <= 2e-14, "function %zu%s at %g: %.17g, not %.17g", f,
                      k % 2 ? ", mapped," : "", kFunctions[f].at[i], got, wanted);
        }
        free_all(arguments, 2);
        free_all(results, 2);
        hlo_module_free(module);
    }
}
