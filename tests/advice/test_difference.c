// SPDX-License-Identifier: Apache-2.0
// Where two runs first differ: the instruction must be the one at which the runs were made to differ.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

#include "advice/difference.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

#define HEAD "HloModule m\n"
#define SUM "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
// Products of one row stay f32 under a TPU's numerics, so these differ at `rounded` and nowhere before.
#define PRODUCT(name, lhs, rhs) \
    " " name " = f32[4,4] dot(" lhs ", " rhs "), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
#define AT(line) ", metadata={op_name=\"jit(f)/here\" source_file=\"model.py\" source_line=" #line "}\n"

typedef struct Case {
    const char *name, *program;
    const char *first, *place, *source;
    const char *machine;  // of b; NULL: the evaluator with a TPU's products
} Case;

static const Case cases[] = {
    {"product",
     HEAD "ENTRY e {\n x = f32[4,4] parameter(0)\n t = f32[4,4] tanh(x)\n" PRODUCT("rounded", "t", "t")
         AT(17) " ROOT r = f32[4,4] exponential(rounded)\n}\n",
     "rounded", "", "model.py:17", NULL},
    {"the same on virtual devices",
     HEAD "ENTRY e {\n x = f32[4,4] parameter(0)\n t = f32[4,4] tanh(x)\n" PRODUCT("rounded", "t", "t")
         AT(17) " ROOT r = f32[4,4] exponential(rounded)\n}\n",
     "rounded", "", "model.py:17", "v5e-1"},
    {"call",
     HEAD "f {\n p = f32[4,4] parameter(0)\n n = f32[4,4] tanh(p)\n" PRODUCT("inner", "n", "n")
         AT(3) " ROOT q = f32[4,4] negate(inner)\n}\nENTRY e {\n x = f32[4,4] parameter(0)\n c = f32[4,4] call(x), "
               "to_apply=f\n "
               "ROOT r = f32[4,4] exponential(c)\n}\n",
     "inner", "c", "model.py:3", NULL},
    {"branch",
     HEAD
     "yes {\n p = f32[4,4] parameter(0)\n ROOT n = f32[4,4] tanh(p)\n}\nno {\n p = f32[4,4] parameter(0)\n" PRODUCT(
         "inner", "p", "p") AT(4) " ROOT q = f32[4,4] negate(inner)\n}\nENTRY e {\n x = f32[4,4] parameter(0)\n "
                                  "z = s32[] constant(7)\n c = f32[4,4] conditional(z, x, x), "
                                  "branch_computations={yes, no}\n ROOT r = f32[4,4] "
                                  "exponential(c)\n}\n",
     "inner", "c, branch 1", "model.py:4", NULL},
    // The fourth iteration multiplies; the others take a step that both ways make alike.
    {"loop",
     HEAD "turn {\n p = f32[4,4] parameter(0)\n" PRODUCT("inner", "p", "p")
         AT(9) " ROOT q = f32[4,4] tanh(inner)\n}\n"
               "step {\n p = f32[4,4] parameter(0)\n ROOT q = f32[4,4] sine(p)\n}\n"
               "below {\n s = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] "
               "constant(9)\n "
               "ROOT l = pred[] compare(i, n), direction=LT\n}\n"
               "body {\n s = (s32[], f32[4,4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n v = f32[4,4] "
               "get-tuple-element(s), index=1\n three = s32[] constant(3)\n is = pred[] compare(i, three), "
               "direction=EQ\n c = "
               "f32[4,4] conditional(is, v, v), true_computation=turn, false_computation=step\n one = s32[] "
               "constant(1)\n j = "
               "s32[] add(i, one)\n ROOT t = (s32[], f32[4,4]) tuple(j, c)\n}\n"
               "ENTRY e {\n x = f32[4,4] parameter(0)\n zero = s32[] constant(0)\n init = (s32[], f32[4,4]) "
               "tuple(zero, x)\n w = "
               "(s32[], f32[4,4]) while(init), condition=below, body=body\n ROOT r = f32[4,4] get-tuple-element(w), "
               "index=1\n}\n",
     "inner", "w, iteration 4; c, branch 0", "model.py:9", NULL},
    {"loop of one array",
     HEAD SUM
     "below {\n s = f32[4,4] parameter(0)\n z = f32[] constant(0)\n m = f32[] reduce(s, z), dimensions={0,1}, "
     "to_apply=sum\n n = f32[] constant(1e3)\n ROOT l = pred[] compare(m, n), direction=LT\n}\n"
     "body {\n s = f32[4,4] parameter(0)\n" PRODUCT("inner", "s", "s")
         AT(2) " a = f32[4,4] abs(inner)\n o = f32[] "
               "constant(1)\n b = f32[4,4] broadcast(o), dimensions={}\n ROOT t = f32[4,4] add(a, b)\n}\n"
               "ENTRY e {\n x = f32[4,4] parameter(0)\n ROOT w = f32[4,4] while(x), condition=below, body=body\n}\n",
     "inner", "w, iteration 1", "model.py:2", NULL},
};

static HloLiteral *argument_of(const HloModule *module) {
    return compiled_random(module->entry->parameters.items[0]->shape, 3);
}

ParameterizedTestParameters(first_difference, is_found) {
    return cases_numbered(HLO_COUNT_OF(cases));
}
ParameterizedTest(const int *number, first_difference, is_found) {
    const Case *one = &cases[*number];
    HloModule *module = compiled_must_parse(one->program);
    HloLiteral *argument = argument_of(module);
    const AdviceRun exact = {0}, rounded = {.machine = one->machine, .numerics = TARGET_NUMERICS_TPU};
    AdviceDifference *difference = NULL;
    must_succeed(
        advice_first_difference(module, (const HloLiteral *const *)&argument, 1, &exact, &rounded, NULL, &difference));
    HloText text = {0};
    advice_difference_print(&text, difference);
    cr_expect(difference->found && !strcmp(difference->first.name, one->first), "%s: %s", one->name, text.data);
    cr_expect_str_eq(difference->place, one->place, "%s: %s", one->name, text.data);
    cr_expect_str_eq(difference->first.source, one->source, "%s: %s", one->name, text.data);
    cr_expect_neq(difference->a, difference->b);
    cr_expect(difference->first.error > 1e-4 && difference->first.error < 0.1, "%s", text.data);
    hlo_text_free(&text);
    advice_difference_free(difference);
    // A run does not differ from itself.
    must_succeed(advice_first_difference(module, (const HloLiteral *const *)&argument, 1, &rounded, &rounded, NULL,
                                         &difference));
    cr_expect_not(difference->found, "%s", one->name);
    advice_difference_free(difference);
    hlo_literal_free(argument);
    hlo_module_free(module);
}

// A sum over devices is taken in another order: without a tolerance it is where a sharded run differs, and what comes
// before it is equal.
Test(first_difference, of_a_sharded_sum) {
    HloModule *module = compiled_must_parse(
        HEAD SUM
        "ENTRY e {\n x = f32[8,64] parameter(0)\n n = f32[8,64] negate(x)\n z = f32[] constant(0)\n s = f32[8] "
        "reduce(n, z), dimensions={1}, to_apply=sum\n ROOT r = (f32[8], f32[8,64]) tuple(s, n)\n}\n");
    HloLiteral *argument = argument_of(module);
    const SpmdMeshAxis mesh[] = {{"x", 4}};
    const char *shards[] = {"p0=-,x"};
    const AdviceRun whole = {0};
    const AdviceRun sharded = {.machine = "cpu:4",
                               .spmd = {.mesh = mesh, .mesh_axis_count = 1, .shards = shards, .shard_count = 1}};
    const AdviceDifferenceOptions options = {.is_relative_set = true, .is_absolute_set = true, .memory_bytes = 1};
    AdviceDifference *difference = NULL;
    must_succeed(advice_first_difference(module, (const HloLiteral *const *)&argument, 1, &whole, &sharded, &options,
                                         &difference));
    cr_expect(difference->found && !strcmp(difference->first.name, "s"), "%s", difference->first.name);
    cr_expect_eq(difference->result_count, 2);
    cr_expect(difference->results[0].differs && !difference->results[1].differs);
    cr_expect(difference->first.error < 1e-5);
    HloText json = {0};
    advice_difference_write_json(difference, &json);
    cr_expect(strstr(json.data, "\"opcode\":\"reduce\""), "%s", json.data);
    hlo_text_free(&json);
    advice_difference_free(difference);
    must_succeed(
        advice_first_difference(module, (const HloLiteral *const *)&argument, 1, &whole, &sharded, NULL, &difference));
    cr_expect_not(difference->found);
    advice_difference_free(difference);
    hlo_literal_free(argument);
    hlo_module_free(module);
}

// Passes keep every bit; the values of a program that they have rewritten are still found.
Test(first_difference, of_passes) {
    HloModule *module = compiled_must_parse(cases[4].program);
    HloLiteral *argument = argument_of(module);
    const char *passes[] = {"simplify", "dce"}, *unknown[] = {"no-such-pass"};
    const AdviceRun as_read = {0}, after = {.passes = passes, .pass_count = 2},
                    wrong = {.passes = unknown, .pass_count = 1};
    const AdviceRun sharded = {.spmd = {.mesh = (const SpmdMeshAxis[]){{"x", 4}}, .mesh_axis_count = 1}};
    const AdviceDifferenceOptions options = {.is_relative_set = true, .is_absolute_set = true};
    const HloLiteral *const *arguments = (const HloLiteral *const *)&argument;
    AdviceDifference *difference = NULL;
    must_succeed(advice_first_difference(module, arguments, 1, &as_read, &after, &options, &difference));
    cr_expect_not(difference->found);
    cr_expect(difference->value_count > 0);
    advice_difference_free(difference);
    must_fail(advice_first_difference(module, arguments, 1, &as_read, &wrong, NULL, &difference), HLO_NOT_FOUND,
              "no-such-pass");
    must_fail(advice_first_difference(module, arguments, 0, &as_read, &after, NULL, &difference), HLO_INVALID_ARGUMENT,
              "0 arguments");
    must_fail(advice_first_difference(module, arguments, 1, &as_read, &sharded, NULL, &difference),
              HLO_INVALID_ARGUMENT, "machine");
    hlo_literal_free(argument);
    hlo_module_free(module);
}
