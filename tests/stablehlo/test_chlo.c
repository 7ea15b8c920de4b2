// SPDX-License-Identifier: Apache-2.0
// Functions of chlo that HLO has no operation for, and become formulas: beside mpmath 1.4.1 at 40 digits (dps = 40;
// lgamma is log(abs(gamma(x)))), in f64 and f32, and at the ends of their ranges.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/pass/pass.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/verify/verify.h"
#include "tests/stablehlo/golden.h"

enum { MOST = 12 };

typedef struct Function {
    const char *name;
    double x[MOST], y[MOST];  // y: the second operand, or nothing
    double expected[MOST];
    int64_t count;
    bool is_binary;
} Function;

static const Function functions[] = {
    {.name = "lgamma",
     .x = {0.25, 0.5, 1, 1.5, 2, 3.75, 10, 100.5, 1e10, -0.5, -1.5, -10.25},
     .expected = {1.2880225246980774, 0.5723649429247001, 0, -0.12078223763524522, 0, 1.486815578593417,
                  12.801827480081469, 361.4355404677776, 220258509288.81058, 1.2655121234846454, 0.860047015376481,
                  -14.20399790093109},
     .count = 12},
    {.name = "digamma",
     .x = {0.25, 0.5, 1, 1.5, 2, 10.25, 1000, -0.5, -1.25, -10.75},
     .expected = {-4.2274535333762655, -1.9635100260214235, -0.5772156649015329, 0.03648997397857652,
                  0.42278433509846713, 2.277704790686724, 6.907255195648812, 0.03648997397857652, 3.714139120213528,
                  -0.7208957601671612},
     .count = 10},
    {.name = "erfc",
     .x = {-3, -0.5, 0, 0.25, 0.75, 1, 1.5, 2, 3, 4, 5},
     .expected = {1.9999779095030015, 1.5204998778130465, 1, 0.7236736098317631, 0.28884436634648486,
                  0.15729920705028513, 0.033894853524689274, 0.004677734981047266, 2.209049699858544e-05,
                  1.541725790028002e-08, 1.537459794428035e-12},
     .count = 11},
    {.name = "erf_inv",
     .x = {-0.9375, -0.5, -0.0625, 0, 0.25, 0.5, 0.75, 0.9921875, -1, 1},
     .expected = {-1.3171503349861307, -0.4769362762044699, -0.05544594877278202, 0, 0.2253120550121781,
                  0.4769362762044699, 0.8134198475976185, 1.8809517454731395, -INFINITY, INFINITY},
     .count = 10},
    {.name = "bessel_i1e",
     .x = {-10, -8, -1, 0, 0.125, 1, 3.5, 7.75, 8.25, 20, 100},
     .expected = {-0.12126268138445552, -0.13414249329269817, -0.20791041534970844, 0, 0.05526385324160324,
                  0.20791041534970844, 0.18739997660305, 0.1360511000803391, 0.13231017396500142, 0.08750622218328867,
                  0.03974415302513025},
     .count = 11},
    {.name = "atan",
     .x = {-100, -1, -0.25, 0, 0.5, 1, 3, INFINITY},
     .expected = {-1.5607966601082315, -0.7853981633974483, -0.24497866312686414, 0, 0.4636476090008061,
                  0.7853981633974483, 1.2490457723982544, 1.5707963267948966},
     .count = 8},
    {.name = "tan",
     .x = {-1, -0.25, 0, 0.5, 1, 1.5},
     .expected = {-1.5574077246549023, -0.25534192122103627, 0, 0.5463024898437905, 1.5574077246549023,
                  14.101419947171719},
     .count = 6},
    {.name = "square", .x = {-3, 0, 0.5, INFINITY}, .expected = {9, 0, 0.25, INFINITY}, .count = 4},
    {.name = "zeta",
     .x = {1.5, 2, 2, 3, 4, 10, 2.5, 20, 1},
     .y = {1, 1, 0.25, 2.5, 10, 1, 100, 0.5, 2},
     .expected = {2.612375348685488, 1.6449340668482264, 17.19732915450711, 0.1181020258208637, 0.00038665021738164474,
                  1.000994575127818, 0.0006716874994531716, 1048576.0003007397, INFINITY},
     .count = 9,
     .is_binary = true},
    {.name = "polygamma",
     .x = {0, 0, 1, 1, 2, 3, 4, 1, -1, 0.5},
     .y = {1, 2.5, 1, 0.5, 3, 10, 0.75, 100, 1, 1},
     .expected = {-0.5772156649015329, 0.7031566406452432, 1.6449340668482264, 4.934802200544679, -0.15411380631918858,
                  0.0023199013042898686, -102.80060581541747, 0.010050166663333571, NAN, NAN},
     .count = 10,
     .is_binary = true},
};

// The result of one chlo operation of parameters that hold x and y.
static HloLiteral *compute(const char *name, HloType type, const char *result_type, const Function *function) {
    char text[512], argument[64];
    const char *word = type == HLO_F32 ? "f32" : "f64";
    snprintf(argument, sizeof(argument), "tensor<%lldx%s>", (long long)function->count, word);
    const bool two = function->is_binary;
    snprintf(text, sizeof(text),
             "func.func @main(%%x: %s, %%y: %s) -> tensor<%lldx%s> {\n  %%0 = chlo.%s %%x%s : %s%s%s -> "
             "tensor<%lldx%s>\n  return %%0 : tensor<%lldx%s>\n}\n",
             argument, argument, (long long)function->count, result_type ? result_type : word, name, two ? ", %y" : "",
             argument, two ? ", " : "", two ? argument : "", (long long)function->count,
             result_type ? result_type : word, (long long)function->count, result_type ? result_type : word);
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_text(text, strlen(text), NULL, &module), text);
    must(hlo_verify(module), text);
    const HloShape *shape = module->entry->parameters.items[0]->shape;
    HloLiteral *x = hlo_literal_new(shape), *y = hlo_literal_new(shape), *result = NULL;
    for (int64_t i = 0; i < function->count; i++) {
        hlo_literal_set_double(x, i, function->x[i]);
        hlo_literal_set_double(y, i, function->y[i]);
    }
    must(hlo_evaluate(module, (const HloLiteral *const[]){x, y}, 2, NULL, &result), text);
    hlo_literal_free(x);
    hlo_literal_free(y);
    hlo_module_free(module);
    return result;
}

static void check(const Function *function, HloType type, double tolerance) {
    HloLiteral *result = compute(function->name, type, NULL, function);
    for (int64_t i = 0; i < function->count; i++) {
        const double value = hlo_literal_get_double(result, i), expected = function->expected[i];
        const double error = fabs(value - expected) / (expected == 0 ? 1 : fabs(expected));
        const bool same = value == expected || (isnan(value) && isnan(expected));
        cr_expect(same || error <= tolerance, "%s of %s(%g, %g) = %.17g, not %.17g: off by %g", hlo_type_text(type),
                  function->name, function->x[i], function->y[i], value, expected, error);
    }
    hlo_literal_free(result);
}

Test(stablehlo_chlo, formulas_are_near_the_functions) {
    for (size_t i = 0; i < HLO_COUNT_OF(functions); i++) {
        check(&functions[i], HLO_F64, 1e-12);
        check(&functions[i], HLO_F32, 4e-6);
    }
}

// Programs take the same time whether JAX wrote them as StableHLO text, in which these functions are operations, or as
// bytecode or HLO, in which they are expanded. The counts are those of the HLO of jax 0.10.2 after the simplifier. With
// other operations the times of the forms differed by up to 0.5 %.
Test(stablehlo_chlo, formulas_have_as_many_operations_as_in_hlo) {
    enum { MOST_KINDS = 14 };
    static const struct {
        const char *name;
        struct {
            HloOpcode opcode;
            int64_t counts[2];  // of f32 and f64
        } ops[MOST_KINDS];      // ends with counts of 0
        bool is_binary;         // of x and x
    } kExpansions[] = {
        {"erf_inv",
         {{HLO_OP_ABS, {1, 1}},
          {HLO_OP_ADD, {8, 22}},
          {HLO_OP_COMPARE, {2, 3}},
          {HLO_OP_LOG1P, {1, 1}},
          {HLO_OP_MULTIPLY, {11, 25}},
          {HLO_OP_NEGATE, {2, 2}},
          {HLO_OP_SELECT, {11, 41}},
          {HLO_OP_SQRT, {1, 1}},
          {HLO_OP_SUBTRACT, {2, 2}}},
         false},
        {"erfc",
         {{HLO_OP_ABS, {1, 1}},
          {HLO_OP_ADD, {21, 36}},
          {HLO_OP_COMPARE, {4, 4}},
          {HLO_OP_DIVIDE, {2, 3}},
          {HLO_OP_EXP, {1, 1}},
          {HLO_OP_MULTIPLY, {25, 37}},
          {HLO_OP_NEGATE, {1, 1}},
          {HLO_OP_SELECT, {4, 4}},
          {HLO_OP_SUBTRACT, {2, 2}}},
         false},
        {"lgamma",
         {{HLO_OP_ABS, {1, 1}},
          {HLO_OP_ADD, {21, 21}},
          {HLO_OP_COMPARE, {3, 3}},
          {HLO_OP_DIVIDE, {10, 10}},
          {HLO_OP_FLOOR, {1, 1}},
          {HLO_OP_IS_FINITE, {1, 1}},
          {HLO_OP_LOG, {2, 2}},
          {HLO_OP_LOG1P, {1, 1}},
          {HLO_OP_MULTIPLY, {2, 2}},
          {HLO_OP_NEGATE, {2, 2}},
          {HLO_OP_SELECT, {5, 5}},
          {HLO_OP_SIN, {1, 1}},
          {HLO_OP_SUBTRACT, {6, 6}}},
         false},
        {"digamma",
         {{HLO_OP_ABS, {1, 1}},
          {HLO_OP_ADD, {21, 21}},
          {HLO_OP_AND, {1, 1}},
          {HLO_OP_COMPARE, {3, 3}},
          {HLO_OP_COS, {1, 1}},
          {HLO_OP_DIVIDE, {20, 20}},
          {HLO_OP_FLOOR, {2, 2}},
          {HLO_OP_LOG1P, {1, 1}},
          {HLO_OP_MULTIPLY, {10, 10}},
          {HLO_OP_NEGATE, {1, 1}},
          {HLO_OP_SELECT, {3, 3}},
          {HLO_OP_SIN, {1, 1}},
          {HLO_OP_SUBTRACT, {11, 11}}},
         false},
        {"bessel_i1e",
         {{HLO_OP_ABS, {1, 1}},
          {HLO_OP_ADD, {24, 54}},
          {HLO_OP_COMPARE, {1, 1}},
          {HLO_OP_DIVIDE, {2, 2}},
          {HLO_OP_MULTIPLY, {29, 59}},
          {HLO_OP_SELECT, {1, 1}},
          {HLO_OP_SIGN, {1, 1}},
          {HLO_OP_SQRT, {1, 1}},
          {HLO_OP_SUBTRACT, {24, 54}}},
         false},
        {"zeta",
         {{HLO_OP_ABS, {2, 2}},
          {HLO_OP_ADD, {54, 54}},
          {HLO_OP_AND, {3, 3}},
          {HLO_OP_COMPARE, {7, 7}},
          {HLO_OP_DIVIDE, {3, 3}},
          {HLO_OP_FLOOR, {1, 1}},
          {HLO_OP_MULTIPLY, {38, 38}},
          {HLO_OP_NEGATE, {1, 1}},
          {HLO_OP_POWER, {11, 11}},
          {HLO_OP_REMAINDER, {1, 1}},
          {HLO_OP_SELECT, {6, 6}},
          {HLO_OP_SUBTRACT, {1, 1}}},
         true},
    };
    for (size_t row = 0; row < 2 * HLO_COUNT_OF(kExpansions); row++) {
        const size_t f = row / 2, wide = row % 2;
        const char *word = wide ? "f64" : "f32";
        char text[400], type[16];
        snprintf(type, sizeof(type), "tensor<4x%s>", word);
        const bool two = kExpansions[f].is_binary;
        snprintf(text, sizeof(text),
                 "func.func @main(%%x: %s) -> %s {\n  %%0 = chlo.%s %%x%s : %s%s%s -> %s\n  return %%0 : %s\n}\n", type,
                 type, kExpansions[f].name, two ? ", %x" : "", type, two ? ", " : "", two ? type : "", type, type);
        HloModule *module = NULL;
        must(hlo_module_from_stablehlo_text(text, strlen(text), NULL, &module), text);
        must(hlo_run_passes(module, (const char *const[]){"simplify"}, 1, NULL), text);
        int64_t counts[HLO_OPCODE_COUNT] = {0};
        for (const HloInstruction *i = module->entry->first; i; i = i->next) counts[i->opcode]++;
        counts[HLO_OP_PARAMETER] = counts[HLO_OP_CONSTANT] = counts[HLO_OP_BROADCAST] = 0;
        for (int k = 0; k < MOST_KINDS && kExpansions[f].ops[k].counts[1]; k++) {
            const HloOpcode opcode = kExpansions[f].ops[k].opcode;
            const int64_t expected = kExpansions[f].ops[k].counts[wide];
            cr_expect_eq(counts[opcode], expected, "%s of %s: %lld %s, not %lld", word, kExpansions[f].name,
                         (long long)counts[opcode], hlo_op_text(opcode), (long long)expected);
            counts[opcode] = 0;
        }
        for (HloOpcode opcode = 0; opcode < HLO_OPCODE_COUNT; opcode++)
            cr_expect_eq(counts[opcode], 0, "%s of %s: %lld %s", word, kExpansions[f].name, (long long)counts[opcode],
                         hlo_op_text(opcode));
        hlo_module_free(module);
    }
}

// Questions about a number, and the next one.
Test(stablehlo_chlo, questions_about_numbers) {
    const Function numbers = {.x = {-INFINITY, -1, -0.0, 0, 1, INFINITY, NAN}, .count = 7};
    static const struct {
        const char *name;
        bool expected[7];
    } questions[] = {{"is_inf", {true, false, false, false, false, true, false}},
                     {"is_pos_inf", {false, false, false, false, false, true, false}},
                     {"is_neg_inf", {true, false, false, false, false, false, false}}};
    for (size_t i = 0; i < HLO_COUNT_OF(questions); i++) {
        HloLiteral *result = compute(questions[i].name, HLO_F32, "i1", &numbers);
        for (int64_t k = 0; k < numbers.count; k++) {
            cr_expect_eq(hlo_literal_get_int64(result, k), questions[i].expected[k], "%s(%g)", questions[i].name,
                         numbers.x[k]);
        }
        hlo_literal_free(result);
    }
    const Function steps = {.x = {0, 1, 1, -1, 5, 0, -0.0, INFINITY, 3e38, 1, NAN},
                            .y = {1, 2, 0, -2, 5, -1, 0, 0, INFINITY, NAN, 1},
                            .count = 11,
                            .is_binary = true};
    HloLiteral *next = compute("next_after", HLO_F32, NULL, &steps);
    for (int64_t k = 0; k < steps.count; k++) {
        const float expected = nextafterf((float)steps.x[k], (float)steps.y[k]);
        const float value = (float)hlo_literal_get_double(next, k);
        cr_expect(value == expected || (isnan(value) && isnan(expected)), "next_after(%g, %g) = %.9g, not %.9g",
                  steps.x[k], steps.y[k], (double)value, (double)expected);
    }
    hlo_literal_free(next);
}

Test(stablehlo_chlo, the_conjugate) {
    static const char text[] =
        "func.func @main() -> tensor<2xcomplex<f32>> {\n  %x = stablehlo.constant dense<[(1.0, 2.0), (-3.0, -0.5)]> : "
        "tensor<2xcomplex<f32>>\n  %0 = chlo.conj %x : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>\n  return %0 : "
        "tensor<2xcomplex<f32>>\n}\n";
    HloModule *module = NULL;
    HloLiteral *result = NULL;
    must(hlo_module_from_stablehlo_text(text, sizeof(text) - 1, NULL, &module), "conj");
    must(hlo_verify(module), "conj");
    must(hlo_evaluate(module, NULL, 0, NULL, &result), "conj");
    const float expected[] = {1, -2, -3, 0.5F};
    cr_expect_arr_eq(result->data, expected, sizeof(expected));
    hlo_literal_free(result);
    hlo_module_free(module);
}
