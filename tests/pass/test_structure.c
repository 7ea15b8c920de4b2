// SPDX-License-Identifier: Apache-2.0
// Passes on calls, loops, branches and tuples; common subexpressions, dead code, folding.
#include <criterion/criterion.h>

#include "check.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

Test(pass_structure, dce_keeps_roots_parameters_and_effects) {
    check_body("dce",
               "  x = f32[4] parameter(0)\n  unused = f32[4] parameter(1)\n  dead = f32[4] add(x, x)\n"
               "  t = token[] after-all()\n  o = token[] outfeed(x, t), outfeed_shape=f32[4]{0}\n"
               "  ROOT r = f32[4] negate(x)\n",
               "  x = f32[4] parameter(0)\n  unused = f32[4] parameter(1)\n"
               "  t = token[] after-all()\n  o = token[] outfeed(x, t), outfeed_shape=f32[4]{0}\n"
               "  ROOT r = f32[4] negate(x)\n");
}

Test(pass_structure, cse_shares_equal_and_swapped_ops) {
    check_body("cse,dce",
               "  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  a = f32[4] add(x, y)\n  b = f32[4] add(y, x)\n"
               "  c = f32[4] subtract(x, y)\n  d = f32[4] subtract(y, x)\n"
               "  ROOT r = (f32[4], f32[4], f32[4], f32[4]) tuple(a, b, c, d)\n",
               "  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  a = f32[4] add(x, y)\n"
               "  c = f32[4] subtract(x, y)\n  d = f32[4] subtract(y, x)\n"
               "  ROOT r = (f32[4], f32[4], f32[4], f32[4]) tuple(a, a, c, d)\n");
}

// Instructions that differ in a window, labels, aliases, shapes or an accuracy are not equal.
Test(pass_structure, cse_compares_attributes_of_every_kind) {
    static const char *const pairs[][3] = {
        {"f32[1,8,3] parameter(0)", "convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f",
         "convolution(x, k), window={size=2 pad=1_0 rhs_reversal=1}, dim_labels=b0f_0io->b0f"},
        {"f32[1,8,3] parameter(0)", "convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f",
         "convolution(x, k), window={size=2}, dim_labels=b0f_0oi->b0f"},
        {"f32[4] parameter(0)", "f32[4]{0} reduce-precision(x), exponent_bits=8, mantissa_bits=7",
         "f32[4]{0} reduce-precision(x), exponent_bits=8, mantissa_bits=10"},
        {"f32[4] parameter(0)", "exponential(x), result_accuracy={tolerance={atol=0,rtol=0,ulps=2}}",
         "exponential(x), result_accuracy={tolerance={atol=0,rtol=0,ulps=3}}"},
        {"c64[8,8] parameter(0)", "fft(x), fft_type=FFT, fft_length={8}", "fft(x), fft_type=IFFT, fft_length={8}"},
        {"f32[4] parameter(0)",
         "f32[4]{0} custom-call(x), custom_call_target=\"mhlo.erf\", output_to_operand_aliasing={{}: (0, {})}",
         "f32[4]{0} custom-call(x), custom_call_target=\"mhlo.erf\""},
        {"f32[4] parameter(0)",
         "f32[4]{0} custom-call(x), custom_call_target=\"mhlo.erf\", operand_layout_constraints={f32[4]{0}}",
         "f32[4]{0} custom-call(x), custom_call_target=\"mhlo.erf\""},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(pairs); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\n\nENTRY main {\n  x = %s\n  k = f32[2,3,3] parameter(1)\n  a = %s\n  b = %s\n"
                        "  c = %s\n  ROOT t = () tuple()\n}\n",
                        pairs[i][0], pairs[i][1], pairs[i][1], pairs[i][2]);
        HloModule *module = check_parse(text.data);
        const char *names[] = {"cse"};
        cr_assert_null(hlo_run_passes(module, names, 1, NULL));
        int64_t count = 0;
        for (const HloInstruction *at = module->entry->first; at; at = at->next)
            count += !hlo_is(at, HLO_OP_PARAMETER) && !hlo_is(at, HLO_OP_TUPLE);
        cr_expect_eq(count, 2, "%s: %lld are left", pairs[i][1], (long long)count);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

static int64_t count_of(const HloComputation *computation, HloOpcode opcode) {
    int64_t count = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next) count += i->opcode == opcode;
    return count;
}

// StableHLO writes a region at every use: the computations of reductions are compared as text.
Test(pass_structure, cse_shares_reductions_by_equal_computations) {
#define REGION(name, op) \
    name " {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] " op "(x, y)\n}\n\n"
    HloModule *module =
        check_parse("HloModule m\n\n" REGION("sum", "add") REGION("more", "add") REGION("product", "multiply") REGION(
            "called",
            "add") "ENTRY main {\n  p = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
                   "  a = f32[] reduce(p, z), dimensions={0}, to_apply=sum\n"
                   "  b = f32[] reduce(p, z), dimensions={0}, to_apply=more\n"
                   "  c = f32[] reduce(p, z), dimensions={0}, to_apply=product\n"
                   "  d = f32[] call(a, b), to_apply=called\n"
                   "  ROOT t = (f32[], f32[], f32[], f32[]) tuple(a, b, c, d)\n}\n");
#undef REGION
    const char *names[] = {"cse", "dce"};
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    const HloInstruction *root = module->entry->root;
    cr_expect_eq(root->operands[0], root->operands[1]);
    cr_expect_eq(count_of(module->entry, HLO_OP_REDUCE), 2);
    cr_expect_eq(module->computations.count, 4, "bodies of calls are left alone");
    hlo_module_free(module);
}

Test(pass_structure, cse_leaves_random_numbers_alone) {
    const char *text =
        "  a = f32[] constant(0)\n  b = f32[] constant(1)\n  x = f32[4] rng(a, b), distribution=rng_uniform\n"
        "  y = f32[4] rng(a, b), distribution=rng_uniform\n  ROOT r = f32[4] add(x, y)\n";
    check_body("cse,dce", text, text);
}

// A computation that draws random numbers, and its callers: each call must give different numbers.
#define DRAWS                                                                     \
    "HloModule m\n\ndraw {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n" \
    "  ROOT r = f32[4] rng(a, b), distribution=rng_uniform\n}\n\n"                \
    "twice {\n  c = f32[] parameter(0)\n  d = f32[] parameter(1)\n  ROOT s = f32[4] call(c, d), to_apply=draw\n}\n\n"

Test(pass_structure, bug_calls_that_draw_random_numbers_were_shared) {
    HloModule *module = check_parse(DRAWS
                                    "ENTRY main {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                                    "  p = f32[4] call(x, y), to_apply=twice\n  q = f32[4] call(x, y), to_apply=twice\n"
                                    "  ROOT t = f32[4] subtract(p, q)\n}\n");
    cr_assert(hlo_instruction_is_nondeterministic(module->entry->root->operands[0]));
    cr_assert_not(hlo_instruction_is_nondeterministic(module->entry->root));
    const char *names[] = {"cse", "dce"};
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    cr_expect_eq(count_of(module->entry, HLO_OP_CALL), 2);
    hlo_module_free(module);
}

Test(pass_structure, bug_calls_that_draw_random_numbers_left_their_loop) {
    HloModule *module =
        check_parse(DRAWS
                    "condition {\n  s = (s32[], f32[4], f32[], f32[]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(9)\n"
                    "  ROOT l = pred[] compare(i, n), direction=LT\n}\n\n"
                    "body {\n  s = (s32[], f32[4], f32[], f32[]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(s), index=0\n  v = f32[4] get-tuple-element(s), index=1\n"
                    "  x = f32[] get-tuple-element(s), index=2\n  y = f32[] get-tuple-element(s), index=3\n"
                    "  f = f32[4] call(x, y), to_apply=twice\n  w = f32[4] add(v, f)\n"
                    "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
                    "  ROOT t = (s32[], f32[4], f32[], f32[]) tuple(j, w, x, y)\n}\n\n"
                    "ENTRY main {\n  s = (s32[], f32[4], f32[], f32[]) parameter(0)\n"
                    "  ROOT w = (s32[], f32[4], f32[], f32[]) while(s), condition=condition, body=body\n}\n");
    const char *names[] = {"while-loop-invariant-code-motion"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_eq(count_of(module->entry, HLO_OP_CALL), 0);
    cr_expect_eq(count_of(module->entry->root->called[1], HLO_OP_CALL), 1);
    hlo_module_free(module);
}

// `depth` computations with two calls of the one before in each: 2^depth paths.
static HloModule *call_tree(int depth) {
    HloText text = {0};
    cases_call_tree(&text, "", depth);
    HloModule *module = check_parse(text.data);
    hlo_text_free(&text);
    return module;
}

Test(pass_structure, bug_looking_for_effects_took_every_path_of_the_call_graph) {
    HloModule *module = call_tree(60);
    const char *names[] = {"cse", "algebraic-simplifier", "dce"};
    cr_assert_null(hlo_run_passes(module, names, 3, NULL));
    cr_expect_eq(count_of(module->entry, HLO_OP_CALL), 2);
    cr_expect_not(hlo_instruction_has_side_effect(module->entry->root->operands[0]));
    hlo_module_free(module);
}

Test(pass_structure, bug_inlining_nested_calls_had_no_end) {
    HloModule *module = call_tree(60);
    const char *names[] = {"call-inliner"};
    HloStatus status = hlo_run_passes(module, names, 1, NULL);
    must_fail(status, HLO_UNIMPLEMENTED, "%b.17 in %c18: with a copy of %c17 there are more than 1048576 instructions");
    hlo_module_free(module);
}

// Programs of MANY instructions are the oracle for "linear": a pass that looks at all users of a value, or joins one
// neighbour at a time, takes minutes for them and gigabytes, and is found by anybody who runs the tests. No time is
// asserted, since machines differ; the program that remains is.
enum { MANY = 20000 };

// Runs `names` on a program of MANY instructions; how many are left of it.
static int64_t left_of(HloText *body, const char *const *names, int64_t count) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n\nENTRY main {\n%s}\n", body->data);
    HloModule *module = check_parse(text.data);
    cr_assert_null(hlo_run_passes(module, names, count, NULL));
    int64_t left = module->entry->instruction_count;
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(body);
    return left;
}

Test(pass_structure, bug_neighbouring_slices_were_joined_one_at_a_time) {
    const char *names[] = {"algebraic-simplifier", "dce"};
    HloText body = {0};
    hlo_text_format(&body, "  x = f32[%d] parameter(0)\n", MANY);
    for (int i = 0; i < MANY; i++) hlo_text_format(&body, "  p%d = f32[1] slice(x), slice={[%d:%d]}\n", i, i, i + 1);
    hlo_text_format(&body, "  ROOT r = f32[%d] concatenate(p0", MANY);
    for (int i = 1; i < MANY; i++) hlo_text_format(&body, ", p%d", i);
    hlo_text_format(&body, "), dimensions={0}\n");
    cr_expect_eq(left_of(&body, names, 2), 1);
}

Test(pass_structure, bug_dead_reshapes_were_looked_at_again_and_again) {
    const char *names[] = {"algebraic-simplifier", "dce"};
    HloText body = {0};
    hlo_text_format(&body, "  v0 = f32[4] parameter(0)\n");
    for (int i = 1; i < MANY; i++)
        hlo_text_format(&body, "  %sv%d = f32[%s] reshape(v%d)\n", i + 1 < MANY ? "" : "ROOT ", i, i % 2 ? "2,2" : "4",
                        i - 1);
    cr_expect_eq(left_of(&body, names, 2), 2);
}

// An edge to any link of the chain orders that half alone: one op in the place of all could not keep it.
Test(pass_structure, bug_control_edges_of_an_async_update_were_dropped) {
    static const char *const edges[][3] = {{", control-predecessors={k}", "", ""},
                                           {"", ", control-predecessors={k}", ""},
                                           {"", "", ", control-predecessors={k}"}};
    for (size_t i = 0; i < HLO_COUNT_OF(edges); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\n\nc {\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] sine(p)\n}\n\n"
                        "ENTRY main {\n  x = f32[4] parameter(0)\n  k = f32[4] cosine(x)\n"
                        "  s = ((f32[4]), f32[4], u32[]) async-start(x), calls=c%s\n"
                        "  u = ((f32[4]), f32[4], u32[]) async-update(s)%s\n  d = f32[4] async-done(u)%s\n"
                        "  ROOT r = f32[4] add(d, k)\n}\n",
                        edges[i][0], edges[i][1], edges[i][2]);
        check_pass("async-to-sync", text.data, text.data);
        hlo_text_free(&text);
    }
}

// One value replaces MANY others: its old users need not be visited again each time.
Test(pass_structure, bug_users_of_a_replacement_were_visited_a_quadratic_number_of_times) {
    const char *names[] = {"algebraic-simplifier", "dce"};
    HloText body = {0};
    hlo_text_format(&body,
                    "  x = f32[4] parameter(0)\n  z = f32[] constant(-0)\n  zs = f32[4] broadcast(z), dimensions={}\n");
    for (int i = 0; i < MANY; i++)
        hlo_text_format(&body, "  a%d = f32[4] add(x, zs)\n  v%d = f32[4] sine(a%d)\n", i, i, i);
    hlo_text_format(&body, "  ROOT r = (f32[4]");
    for (int i = 1; i < MANY; i++) hlo_text_format(&body, ", f32[4]");
    hlo_text_format(&body, ") tuple(v0");
    for (int i = 1; i < MANY; i++) hlo_text_format(&body, ", v%d", i);
    hlo_text_format(&body, ")\n");
    cr_expect_eq(left_of(&body, names, 2), MANY + 2);
}

// bug: copying the operands of the end of a chain recursed along the chain.
Test(pass_structure, bug_a_long_invariant_chain_overflowed_the_stack) {
    enum { LONG = 200000 };
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\n\nbody {\n  p = (s32[], f32[4], f32[4]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(p), index=0\n  v0 = f32[4] get-tuple-element(p), index=1\n"
                    "  w = f32[4] get-tuple-element(p), index=2\n  one = s32[] constant(1)\n"
                    "  j = s32[] add(i, one)\n");
    for (int i = 1; i <= LONG; i++) hlo_text_format(&text, "  v%d = f32[4] sine(v%d)\n", i, i - 1);
    hlo_text_format(&text,
                    "  x = f32[4] add(w, v%d)\n  ROOT t = (s32[], f32[4], f32[4]) tuple(j, v0, x)\n}\n\n"
                    "condition {\n  p = (s32[], f32[4], f32[4]) parameter(0)\n"
                    "  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(10)\n"
                    "  ROOT l = pred[] compare(i, n), direction=LT\n}\n\n"
                    "ENTRY main {\n  s = (s32[], f32[4], f32[4]) parameter(0)\n"
                    "  ROOT r = (s32[], f32[4], f32[4]) while(s), condition=condition, body=body\n}\n",
                    LONG);
    HloModule *module = check_parse(text.data);
    const char *names[] = {"while-loop-invariant-code-motion"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_gt(module->entry->instruction_count, LONG);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// Two runs with a gap between them, and a single slice.
Test(pass_structure, neighbouring_slices_are_joined) {
    check_body("algebraic-simplifier,dce",
               "  x = f32[9] parameter(0)\n  a = f32[2] slice(x), slice={[0:2]}\n  b = f32[1] slice(x), slice={[2:3]}\n"
               "  c = f32[3] slice(x), slice={[6:9]}\n  d = f32[1] slice(x), slice={[3:4]}\n"
               "  e = f32[2] slice(x), slice={[4:6]}\n  ROOT r = f32[9] concatenate(a, b, c, d, e), dimensions={0}\n",
               "  x = f32[9] parameter(0)\n  slice = f32[3] slice(x), slice={[0:3]}\n"
               "  c = f32[3] slice(x), slice={[6:9]}\n  slice.1 = f32[3] slice(x), slice={[3:6]}\n"
               "  ROOT r = f32[9] concatenate(slice, c, slice.1), dimensions={0}\n");
}

Test(pass_structure, bug_reductions_by_many_computations_had_one_hash) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n\n");
    for (int i = 0; i < MANY; i++)
        hlo_text_format(&text,
                        "h%d {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = f32[] constant(%d)\n"
                        "  d = f32[] add(a, c)\n  ROOT s = f32[] add(d, b)\n}\n\n",
                        i, i);
    hlo_text_format(&text, "ENTRY main {\n  x = f32[2] parameter(0)\n  z = f32[] constant(0)\n");
    for (int i = 0; i < MANY; i++)
        hlo_text_format(&text, "  r%d = f32[] reduce(x, z), dimensions={0}, to_apply=h%d\n", i, i);
    hlo_text_format(&text, "  ROOT e = f32[] add(r0, r1)\n}\n");
    HloModule *module = check_parse(text.data);
    const char *names[] = {"cse"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_eq(count_of(module->entry, HLO_OP_REDUCE), MANY);
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(pass_structure, folds_constants) {
    check_body("constant-folding,dce",
               "  a = s32[2] constant({1, 2})\n  b = s32[2] constant({10, 20})\n  ROOT r = s32[2] add(a, b)\n",
               "  ROOT r = s32[2] constant({11, 22})\n");
}

Test(pass_structure, folds_repeated_scalars_of_any_size) {
    check_body("constant-folding,dce",
               "  a = f32[] constant(3)\n  x = f32[100000,100000] broadcast(a), dimensions={}\n"
               "  ROOT r = f32[100000,100000] multiply(x, x)\n",
               "  a = f32[] constant(9)\n  ROOT r = f32[100000,100000] broadcast(a), dimensions={}\n");
}

Test(pass_structure, folds_no_elided_values) {
    const char *text = "  a = f32[2] constant({...})\n  ROOT r = f32[2] add(a, a)\n";
    HloModule *module = NULL;
    HloParseOptions options = {.elided = HLO_ELIDED_KEEP};
    char *whole = check_module(text);
    cr_assert_null(hlo_parse(whole, strlen(whole), &options, &module));
    const char *names[] = {"constant-folding"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_eq(module->entry->root->opcode, HLO_OP_ADD);
    hlo_module_free(module);
    hlo_free(whole);
}

// bug: the bound on elements let a window of a billion elements through, or a product with a kernel of 20,000, and a
// reduction whose computation does not end. They would take minutes; only cheap ops are folded.
static const struct {
    const char *name, *text;
    bool folds;
} work[] = {
    {"a small window",
     "  c = s32[4] constant({1, 2, 3, 4})\n  z = s32[] constant(0)\n"
     "  ROOT r = s32[4] reduce-window(c, z), window={size=4 pad=3_0}, to_apply=sum\n",
     true},
    {"a large window",
     "  c = s32[4] constant({1, 2, 3, 4})\n  z = s32[] constant(0)\n"
     "  ROOT r = s32[30000] reduce-window(c, z), window={size=1000000000 pad=1000000000_29995}, to_apply=sum\n",
     false},
    {"a small kernel",
     "  c = f32[1,4,1] constant({{{1}, {2}, {3}, {4}}})\n  k = f32[2,1,1] constant({{{1}}, {{2}}})\n"
     "  ROOT r = f32[1,3,1] convolution(c, k), window={size=2}, dim_labels=b0f_0io->b0f\n",
     true},
    {"a large kernel",
     "  s = f32[1,1,1] constant({{{1}}})\n  z = f32[] constant(0)\n"
     "  c = f32[1,20001,1] pad(s, z), padding=0_0x0_20000x0_0\n  u = f32[1,1,1] constant({{{1}}})\n"
     "  k = f32[20000,1,1] pad(u, z), padding=0_19999x0_0x0_0\n"
     "  ROOT r = f32[1,20002,1] convolution(c, k), window={size=20000 pad=10000_10000}, dim_labels=b0f_0io->b0f\n",
     false},
    {"a transform of prime length",
     "  s = c64[1] constant({(1, 0)})\n  z = c64[] constant((0, 0))\n  c = c64[32749] pad(s, z), padding=0_32748\n"
     "  ROOT r = c64[32749] fft(c), fft_type=FFT, fft_length={32749}\n",
     false},
    {"a computation that does not end",
     "  c = s32[4] constant({1, 2, 3, 4})\n  z = s32[] constant(0)\n"
     "  ROOT r = s32[] reduce(c, z), dimensions={0}, to_apply=endless\n",
     false},
};

CaseList(pass_structure, folds_no_more_than_a_little_work) {
    return cases_numbered(HLO_COUNT_OF(work));
}

CaseTest(const int *number, pass_structure, folds_no_more_than_a_little_work) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\n\nsum {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
                    "  ROOT s = s32[] add(a, b)\n}\n\nalways {\n  p = s32[] parameter(0)\n"
                    "  ROOT t = pred[] constant(true)\n}\n\nsame {\n  ROOT p = s32[] parameter(0)\n}\n\n"
                    "endless {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  s = s32[] add(a, b)\n"
                    "  ROOT w = s32[] while(s), condition=always, body=same\n}\n\nENTRY main {\n%s}\n",
                    work[*number].text);
    HloModule *module = check_parse(text.data);
    const char *names[] = {"constant-folding"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_eq(module->entry->root->opcode == HLO_OP_CONSTANT, work[*number].folds, "%s", work[*number].name);
    hlo_module_free(module);
    hlo_text_free(&text);
}

#define DOUBLED "f {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] add(a, a)\n}\n\n"

Test(pass_structure, inlines_calls) {
    check_pass("call-inliner",
               "HloModule m\n\n" DOUBLED
               "g {\n  a = f32[4] parameter(0)\n  ROOT c = f32[4] call(a), to_apply=f\n}\n\n"
               "ENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] call(x), to_apply=g\n"
               "  ROOT z = f32[4] call(y), to_apply=f\n}\n",
               "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] add(x, x)\n"
               "  ROOT z = f32[4] add(y, y)\n}\n");
}

Test(pass_structure, leaves_calls_that_must_stay) {
    const char *text = "HloModule m\n\n" DOUBLED
                       "ENTRY main {\n  x = f32[4] parameter(0)\n"
                       "  ROOT y = f32[4] call(x), to_apply=f, frontend_attributes={inlineable=\"false\"}\n}\n";
    check_pass("call-inliner", text, text);
}

Test(pass_structure, flattens_the_call_graph) {
    HloModule *module = check_parse("HloModule m\n\n" DOUBLED
                                    "ENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] call(x), to_apply=f\n"
                                    "  ROOT z = f32[4] call(y), to_apply=f\n}\n");
    const char *names[] = {"flatten-call-graph"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_eq(module->computations.count, 3);
    for (int64_t i = 0; i < 3; i++) cr_expect_leq(module->computations.items[i]->callers.count, 1);
    hlo_module_free(module);
}

// bug: a million computations were copied first.
Test(pass_structure, bug_copies_of_calls_of_calls_were_counted_by_computation) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m\n\nstep0 {\n  p = f32[4] parameter(0)\n  n0 = f32[4] negate(p)\n");
    for (int i = 1; i < 1000; i++) hlo_text_format(&text, "  n%d = f32[4] negate(n%d)\n", i, i - 1);
    hlo_text_format(&text, "  ROOT r = f32[4] negate(n999)\n}\n\n");
    for (int i = 1; i <= 40; i++)
        hlo_text_format(&text,
                        "step%d {\n  p = f32[4] parameter(0)\n  c = f32[4] call(p), to_apply=step%d\n"
                        "  ROOT r = f32[4] call(c), to_apply=step%d\n}\n\n",
                        i, i - 1, i - 1);
    hlo_text_format(&text, "ENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] call(x), to_apply=step40\n}\n");
    HloModule *module = check_parse(text.data);
    const char *names[] = {"flatten-call-graph"};
    HloStatus status = hlo_run_passes(module, names, 1, NULL);
    must_fail(status, HLO_UNIMPLEMENTED, "there are more than 1048576 instructions in copies");
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(pass_structure, looks_through_tuples) {
    check_body("tuple-simplifier,dce",
               "  x = (f32[4], s32[]) parameter(0)\n  a = f32[4] get-tuple-element(x), index=0\n"
               "  b = s32[] get-tuple-element(x), index=1\n  ROOT t = (f32[4], s32[]) tuple(a, b)\n",
               "  ROOT x = (f32[4], s32[]) parameter(0)\n");
}

Test(pass_structure, takes_the_branch_that_is_known) {
    check_pass("conditional-simplifier,dce",
               "HloModule m\n\n" DOUBLED
               "g {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a)\n}\n\n"
               "ENTRY main {\n  x = f32[4] parameter(0)\n  p = pred[] constant(false)\n"
               "  ROOT c = f32[4] conditional(p, x, x), true_computation=f, false_computation=g\n}\n",
               "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] negate(x)\n}\n");
}

Test(pass_structure, an_index_out_of_range_takes_the_last_branch) {
    check_pass("conditional-simplifier,dce",
               "HloModule m\n\n" DOUBLED
               "g {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a)\n}\n\n"
               "ENTRY main {\n  x = f32[4] parameter(0)\n  p = s32[] constant(-3)\n"
               "  ROOT c = f32[4] conditional(p, x, x), branch_computations={f, g}\n}\n",
               "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] negate(x)\n}\n");
}

// A loop of `trips` iterations over (i, x, w, unread): x += w * w, while w never changes.
#define LOOP(trips)                                                                                               \
    "HloModule m\n\nbody {\n  s = (s32[], f32[4], f32[4], f32[]) parameter(0)\n"                                  \
    "  i = s32[] get-tuple-element(s), index=0\n  x = f32[4] get-tuple-element(s), index=1\n"                     \
    "  w = f32[4] get-tuple-element(s), index=2\n  u = f32[] get-tuple-element(s), index=3\n"                     \
    "  one = s32[] constant(1)\n  n = s32[] add(i, one)\n  ww = f32[4] multiply(w, w)\n"                          \
    "  y = f32[4] add(x, ww)\n  v = f32[] add(u, u)\n"                                                            \
    "  ROOT t = (s32[], f32[4], f32[4], f32[]) tuple(n, y, w, v)\n}\n\n"                                          \
    "condition {\n  s = (s32[], f32[4], f32[4], f32[]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n" \
    "  k = s32[] constant(" trips                                                                                 \
    ")\n  ROOT c = pred[] compare(i, k), direction=LT\n}\n\n"                                                     \
    "ENTRY main {\n  x = f32[4] parameter(0)\n  w = f32[4] parameter(1)\n  u = f32[] parameter(2)\n"              \
    "  z = s32[] constant(0)\n  t = (s32[], f32[4], f32[4], f32[]) tuple(z, x, w, u)\n"                           \
    "  l = (s32[], f32[4], f32[4], f32[]) while(t), condition=condition, body=body\n"                             \
    "  y = f32[4] get-tuple-element(l), index=1\n  v = f32[4] get-tuple-element(l), index=2\n"                    \
    "  ROOT r = (f32[4], f32[4]) tuple(y, v)\n}\n"

Test(pass_structure, loops_that_never_run_go) {
    check_pass("while-loop-simplifier,tuple-simplifier,dce", LOOP("0"),
               "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  w = f32[4] parameter(1)\n"
               "  u = f32[] parameter(2)\n  ROOT r = (f32[4], f32[4]) tuple(x, w)\n}\n");
}

Test(pass_structure, loops_that_run_once_are_straight_code) {
    check_pass("while-loop-simplifier,tuple-simplifier,dce", LOOP("1"),
               "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  w = f32[4] parameter(1)\n"
               "  u = f32[] parameter(2)\n  ww = f32[4] multiply(w, w)\n  y = f32[4] add(x, ww)\n"
               "  ROOT r = (f32[4], f32[4]) tuple(y, w)\n}\n");
}

static HloInstruction *find(HloModule *module, HloOpcode opcode) {
    for (HloInstruction *i = module->entry->first; i; i = i->next) {
        if (i->opcode == opcode) return i;
    }
    return NULL;
}

Test(pass_structure, state_that_nothing_reads_is_dropped) {
    HloModule *module = check_parse(LOOP("5"));
    const char *names[] = {"while-loop-simplifier", "dce"};
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    cr_expect_eq(find(module, HLO_OP_WHILE)->shape->element_count, 3);
    hlo_module_free(module);
    check_same_results("while-loop-simplifier,dce", LOOP("5"), 0);
}

// A loop over (w, i, k, x, v): x = sin(x + w + k) + v, while w, k = {1, 1, 1, 1} and v never change. JAX's HLO text has
// what does not change last and k in the body, its StableHLO has them first: 829 and 833 us for the same attention.
#define STATE "(f32[4], s32[], f32[4], f32[4], f32[4])"
#define MIXED_STATE_WITH(sharding)                                                                         \
    "HloModule m\n\nbody {\n  s = " STATE                                                                  \
    " parameter(0)\n  w = f32[4] get-tuple-element(s), index=0\n"                                          \
    "  i = s32[] get-tuple-element(s), index=1\n  k = f32[4] get-tuple-element(s), index=2\n"              \
    "  x = f32[4] get-tuple-element(s), index=3\n  v = f32[4] get-tuple-element(s), index=4\n"             \
    "  one = s32[] constant(1)\n  n = s32[] add(i, one)\n  a = f32[4] add(x, v)\n  b = f32[4] add(w, k)\n" \
    "  c = f32[4] sine(a)\n  y = f32[4] add(c, b)\n  ROOT t = " STATE                                      \
    " tuple(w, n, k, y, v)\n}\n\n"                                                                         \
    "condition {\n  s = " STATE                                                                            \
    " parameter(0)\n  i = s32[] get-tuple-element(s), index=1\n"                                           \
    "  k = s32[] constant(5)\n  ROOT c = pred[] compare(i, k), direction=LT\n}\n\n"                        \
    "ENTRY main {\n  x = f32[4] parameter(0)\n  w = f32[4] parameter(1)\n  v = f32[4] parameter(2)\n"      \
    "  z = s32[] constant(0)\n  o = f32[] constant(1)\n  k = f32[4] broadcast(o), dimensions={}\n"         \
    "  t = " STATE " tuple(w, z, k, x, v)" sharding "\n  l = " STATE                                       \
    " while(t), condition=condition, body=body\n"                                                          \
    "  ROOT y = f32[4] get-tuple-element(l), index=3\n}\n"
#define MIXED_STATE MIXED_STATE_WITH("")

Test(pass_structure, what_a_loop_never_changes_comes_last_in_the_order_of_use) {
    HloModule *module = check_parse(MIXED_STATE);
    const char *names[] = {"while-loop-state"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    const HloInstruction *loop = find(module, HLO_OP_WHILE);
    const char *const wanted[] = {"z", "x.1", "v.1", "w.1", "k.2"};
    for (int i = 0; i < 5; i++) cr_expect_str_eq(loop->operands[0]->operands[i]->name, wanted[i]);
    for (const HloInstruction *i = loop->called[1]->first; i; i = i->next) {
        if (i->opcode == HLO_OP_GET_TUPLE_ELEMENT && HLO_ATTRIBUTES(i, TupleIndex)->index == 4)
            cr_expect_eq(i->users.count, 1, "the body reads a constant as state");
    }
    HloText once = {0}, twice = {0};
    cr_assert_null(hlo_print(module, NULL, &once));
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_assert_null(hlo_print(module, NULL, &twice));
    cr_expect_str_eq(twice.data, once.data);
    hlo_text_free(&once);
    hlo_text_free(&twice);
    hlo_module_free(module);
    check_same_results("while-loop-state", MIXED_STATE, 0);
    check_same_results("simplify", MIXED_STATE, 0);
}

// The initial state of the annotated loop was made anew without its shardings: each device computed all of it.
Test(pass_structure, bug_annotated_initial_state_lost_its_shardings) {
    HloModule *module = check_parse(MIXED_STATE_WITH(
        ", sharding={{replicated}, {replicated}, {replicated}, {devices=[2]<=[2]}, {devices=[2]<=[2]}}"));
    const char *names[] = {"while-loop-state", "while-loop-simplifier"};
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    cr_expect_not_null(find(module, HLO_OP_WHILE)->operands[0]->sharding);
    hlo_module_free(module);
}

// The last value of an inner counter is appended to the outer body, which the same pass then inlines.
Test(pass_structure, bug_a_body_that_its_pass_has_changed_is_inlined) {
#define PAIR "(s32[], s32[])"
#define COUNTED(name, limit)                                                      \
    name "_condition {\n  s = " PAIR                                              \
         " parameter(0)\n  i = s32[] get-tuple-element(s), index=1\n  k = s32[] " \
         "constant(" limit ")\n  ROOT c = pred[] compare(i, k), direction=LT\n}\n\n"
#define COUNT(operation)                                                                           \
    "  s = " PAIR                                                                                  \
    " parameter(0)\n  v = s32[] get-tuple-element(s), index=0\n  i = s32[] get-tuple-element(s), " \
    "index=1\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n" operation
    check_same_results(
        "while-loop-simplifier",
        "HloModule m\n\n" COUNTED("inner", "3") COUNTED("outer", "1") "inner {\n" COUNT(
            "  w = s32[] add(v, i)\n") "  ROOT t = " PAIR
                                       " tuple(w, j)\n}\n\nouter {\n" COUNT(
                                           "  z = s32[] constant(0)\n") "  t = " PAIR " tuple(v, z)\n  l = " PAIR
                                                                        " while(t), condition=inner_condition, "
                                                                        "body=inner\n"
                                                                        "  n = s32[] get-tuple-element(l), index=1\n  "
                                                                        "m = s32[] multiply(n, v)\n  ROOT r = " PAIR
                                                                        " tuple(m, j)\n}\n\nENTRY main {\n  x = s32[] "
                                                                        "parameter(0)\n  z = s32[] constant(0)\n  t "
                                                                        "= " PAIR " tuple(x, z)\n  l = " PAIR
                                                                        " while(t), condition=outer_condition, "
                                                                        "body=outer\n"
                                                                        "  ROOT r = s32[] get-tuple-element(l), "
                                                                        "index=0\n}\n",
        0);
}

typedef struct Counter {
    const char *type, *start, *step, *limit, *direction;
} Counter;

// Steps that end beyond the limit, counts downwards, unsigned ones and the ends of narrow types.
static const Counter counters[] = {
    {"s32", "0", "1", "5", "LT"},  {"s32", "1", "3", "11", "LE"},   {"s32", "9", "-2", "0", "GT"},
    {"s64", "5", "1", "2", "LT"},  {"u8", "250", "2", "254", "LT"}, {"s8", "-120", "-4", "-128", "GT"},
    {"u32", "3", "4", "20", "LE"}, {"s32", "-3", "1", "4", "NE"},
};

Test(pass_structure, what_a_counter_ends_with_is_known) {
    for (size_t k = 0; k < HLO_COUNT_OF(counters); k++) {
        const Counter *c = &counters[k];
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule m\n\nbody {\n  s = (%s[], f32[]) parameter(0)\n  i = %s[] get-tuple-element(s), index=0\n"
            "  x = f32[] get-tuple-element(s), index=1\n  d = %s[] constant(%s)\n  n = %s[] add(i, d)\n"
            "  y = f32[] negate(x)\n  ROOT t = (%s[], f32[]) tuple(n, y)\n}\n\n",
            c->type, c->type, c->type, c->step, c->type, c->type);
        hlo_text_format(&text,
                        "condition {\n  s = (%s[], f32[]) parameter(0)\n  i = %s[] get-tuple-element(s), index=0\n"
                        "  k = %s[] constant(%s)\n  ROOT c = pred[] compare(i, k), direction=%s\n}\n\n",
                        c->type, c->type, c->type, c->limit, c->direction);
        hlo_text_format(
            &text,
            "ENTRY main {\n  x = f32[] parameter(0)\n  z = %s[] constant(%s)\n  t = (%s[], f32[]) tuple(z, x)\n"
            "  l = (%s[], f32[]) while(t), condition=condition, body=body\n"
            "  ROOT r = %s[] get-tuple-element(l), index=0\n}\n",
            c->type, c->start, c->type, c->type, c->type);
        HloModule *module = check_parse(text.data);
        const char *names[] = {"while-loop-simplifier", "tuple-simplifier", "dce"};
        cr_assert_null(hlo_run_passes(module, names, 3, NULL));
        cr_expect(hlo_is(module->entry->root, HLO_OP_CONSTANT), "%s", text.data);
        check_same_results("while-loop-simplifier,dce", text.data, 0);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

Test(pass_structure, invariant_code_leaves_the_loop) {
    HloModule *module = check_parse(LOOP("5"));
    const char *names[] = {"while-loop-invariant-code-motion", "while-loop-simplifier", "dce"};
    cr_assert_null(hlo_run_passes(module, names, 3, NULL));
    cr_expect_not_null(find(module, HLO_OP_MULTIPLY));
    hlo_module_free(module);
    check_same_results("while-loop-invariant-code-motion,while-loop-simplifier,simplify", LOOP("5"), 0);
}

// A loop over (i, x, p) that adds up `made`, a value f32[2,4] that `body` makes of the invariant p, at the places i.
#define TABLE_LOOP(p, body)                                                                          \
    "HloModule m\n\nbody {\n  s = (s32[], f32[2,4], " p                                              \
    ") parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"                                    \
    "  x = f32[2,4] get-tuple-element(s), index=1\n  p = " p " get-tuple-element(s), index=2\n" body \
    "  one = s32[] constant(1)\n  n = s32[] add(i, one)\n  y = f32[2,4] add(x, made)\n"              \
    "  ROOT t = (s32[], f32[2,4], " p                                                                \
    ") tuple(n, y, p)\n}\n\n"                                                                        \
    "condition {\n  s = (s32[], f32[2,4], " p                                                        \
    ") parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"                                    \
    "  k = s32[] constant(7)\n  ROOT c = pred[] compare(i, k), direction=LT\n}\n\n"                  \
    "ENTRY main {\n  x = f32[2,4] parameter(0)\n  p = " p                                            \
    " parameter(1)\n  z = s32[] constant(0)\n"                                                       \
    "  t = (s32[], f32[2,4], " p                                                                     \
    ") tuple(z, x, p)\n"                                                                             \
    "  l = (s32[], f32[2,4], " p                                                                     \
    ") while(t), condition=condition, body=body\n"                                                   \
    "  ROOT r = f32[2,4] get-tuple-element(l), index=1\n}\n"

// bug: the numbers of a rotary embedding's table became complex on the way, twice as large as their operands.
#define ROTATIONS                                                                                               \
    TABLE_LOOP("f32[4]",                                                                                        \
               "  a = f32[8,4] broadcast(p), dimensions={1}\n  b = f32[8,4] iota(), iota_dimension=0\n"         \
               "  ab = f32[8,4] multiply(a, b)\n  c = c64[8,4] convert(ab)\n  unit = c64[] constant((0, 1))\n"  \
               "  units = c64[8,4] broadcast(unit), dimensions={}\n  d = c64[8,4] multiply(c, units)\n"         \
               "  angle = f32[8,4] imag(d)\n  sine = f32[8,4] sine(angle)\n  cosine = f32[8,4] cosine(angle)\n" \
               "  same = pred[8,4] compare(angle, a), direction=EQ\n"                                           \
               "  height = f32[8,4] select(same, angle, sine)\n  e = c64[8,4] complex(cosine, height)\n"        \
               "  zero = s32[] constant(0)\n"                                                                   \
               "  g = c64[2,4] dynamic-slice(e, i, zero), dynamic_slice_sizes={2,4}\n  made = f32[2,4] imag(g)\n")

Test(pass_structure, bug_a_table_of_complex_numbers_was_made_again_each_round) {
    HloModule *module = check_parse(ROTATIONS);
    const char *names[] = {"while-loop-invariant-code-motion", "dce"};
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    const HloInstruction *loop = find(module, HLO_OP_WHILE);
    cr_expect_eq(count_of(module->entry, HLO_OP_SIN), 1);
    cr_expect_eq(count_of(loop->called[1], HLO_OP_COMPLEX), 0);
    cr_expect_eq(count_of(loop->called[1], HLO_OP_CONVERT), 0);
    cr_expect_eq(loop->shape->element_count, 4, "the table alone is new");
    hlo_module_free(module);
    check_same_results("while-loop-invariant-code-motion,while-loop-simplifier,simplify", ROTATIONS, 0);
}

// They would take four times their memory for as long as the loop runs.
#define WIDENED                                                            \
    TABLE_LOOP("s8[2,4]",                                                  \
               "  a = f32[2,4] convert(p)\n  half = f32[] constant(0.5)\n" \
               "  halves = f32[2,4] broadcast(half), dimensions={}\n  made = f32[2,4] multiply(a, halves)\n")

Test(pass_structure, weights_are_widened_where_they_are_used) {
    HloModule *module = check_parse(WIDENED);
    const char *names[] = {"while-loop-invariant-code-motion"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_eq(find(module, HLO_OP_WHILE)->shape->element_count, 3);
    hlo_module_free(module);
    check_same_results("while-loop-invariant-code-motion,simplify", WIDENED, 0);
}

// A product of two numbers is made again sooner than it is read; a table of sines is not, nor what they
// are part of.
Test(pass_structure, what_takes_long_leaves_the_loop_alone) {
    const char *names[] = {"while-loop-expensive-invariant-code-motion"};
    HloModule *products = check_parse(LOOP("5")), *table = check_parse(ROTATIONS);
    cr_assert_null(hlo_run_passes(products, names, 1, NULL));
    cr_expect_eq(find(products, HLO_OP_WHILE)->shape->element_count, 4);
    cr_assert_null(hlo_run_passes(table, names, 1, NULL));
    const HloInstruction *loop = find(table, HLO_OP_WHILE);
    cr_expect_eq(loop->shape->element_count, 4);
    cr_expect_eq(count_of(loop->called[1], HLO_OP_COMPLEX), 0);
    hlo_module_free(products);
    hlo_module_free(table);
    check_same_results("while-loop-expensive-invariant-code-motion", ROTATIONS, 0);
}

// A product reads its operands from memory in any case.
#define SCALED_OPERAND                                                                                   \
    "HloModule scaled_operand\n"                                                                         \
    "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"         \
    "ahead {\n  s = (s32[], f32[4], f32[4,4]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n" \
    "  n = s32[] constant(3)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\n"                        \
    "body {\n  s = (s32[], f32[4], f32[4,4]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"  \
    "  x = f32[4] get-tuple-element(s), index=1\n  w = f32[4,4] get-tuple-element(s), index=2\n"         \
    "  half = f32[] constant(0.5)\n  halves = f32[4,4] broadcast(half), dimensions={}\n"                 \
    "  scaled = f32[4,4] multiply(w, halves)\n  added = f32[4,4] add(w, halves)\n"                       \
    "  y = f32[4] dot(x, scaled), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"                  \
    "  zero = f32[] constant(0)\n  sums = f32[4] reduce(added, zero), dimensions={0}, to_apply=sum\n"    \
    "  z = f32[4] add(y, sums)\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"                    \
    "  ROOT t = (s32[], f32[4], f32[4,4]) tuple(j, z, w)\n}\n"                                           \
    "ENTRY main {\n  x = f32[4] parameter(0)\n  w = f32[4,4] parameter(1)\n  zero = s32[] constant(0)\n" \
    "  s = (s32[], f32[4], f32[4,4]) tuple(zero, x, w)\n"                                                \
    "  l = (s32[], f32[4], f32[4,4]) while(s), condition=ahead, body=body\n"                             \
    "  ROOT y = f32[4] get-tuple-element(l), index=1\n}\n"

Test(pass_structure, operands_of_products_leave_the_loop) {
    const char *names[] = {"while-loop-expensive-invariant-code-motion", "dce"};
    HloModule *module = check_parse(SCALED_OPERAND);
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    cr_expect_eq(count_of(find(module, HLO_OP_WHILE)->called[1], HLO_OP_MULTIPLY), 0);
    hlo_module_free(module);
    check_same_results("while-loop-expensive-invariant-code-motion", SCALED_OPERAND, 0);
}

Test(pass_structure, small_loops_are_unrolled) {
    HloModule *module = check_parse(LOOP("5"));
    const char *names[] = {"while-loop-unroller", "simplify"};
    cr_assert_null(hlo_run_passes(module, names, 2, NULL));
    cr_expect_null(find(module, HLO_OP_WHILE));
    hlo_module_free(module);
    check_same_results("while-loop-unroller,simplify", LOOP("5"), 0);
}

Test(pass_structure, long_loops_stay) {
    HloModule *module = check_parse(LOOP("5000"));
    const char *names[] = {"while-loop-unroller"};
    cr_assert_null(hlo_run_passes(module, names, 1, NULL));
    cr_expect_not_null(find(module, HLO_OP_WHILE));
    hlo_module_free(module);
}

Test(pass_structure, arrays_without_elements_are_constants) {
    check_body("zero-sized-hlo-elimination,dce",
               "  x = f32[0,4] parameter(0)\n  y = f32[0,4] exponential(x)\n  ROOT r = f32[0,4] add(y, x)\n",
               "  x = f32[0,4] parameter(0)\n  z = f32[] constant(0)\n"
               "  ROOT r = f32[0,4] broadcast(z), dimensions={}\n");
}

Test(pass_structure, shardings_go) {
    check_body("sharding-remover",
               "  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
               "  y = f32[4] custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}\n"
               "  ROOT r = f32[4] negate(y)\n",
               "  x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x)\n");
}

Test(pass_structure, rewrites_keep_shardings_and_control_edges) {
    const char *sharded =
        "  x = f32[4] parameter(0)\n  n = f32[4] negate(x), sharding={devices=[2]<=[2]}\n"
        "  ROOT r = f32[4] negate(n), sharding={replicated}\n";
    check_body("simplify", sharded, sharded);
    const char *ordered =
        "  x = f32[4] parameter(0)\n  n = f32[4] negate(x)\n"
        "  r = f32[4] negate(n), control-predecessors={n}\n  ROOT s = f32[4] maximum(r, n)\n";
    check_body("simplify", ordered, ordered);
}

Test(pass_structure, constraints_of_shardy_are_not_shared) {
    const char *text =
        "  x = f32[4] parameter(0)\n"
        "  a = f32[4] custom-call(x), custom_call_target=\"Sharding\", "
        "frontend_attributes={xla.sdy.sharding=\"p\"}\n"
        "  b = f32[4] custom-call(x), custom_call_target=\"Sharding\", "
        "frontend_attributes={xla.sdy.sharding=\"q\"}\n"
        "  ROOT r = f32[4] add(a, b)\n";
    check_body("simplify", text, text);
    check_body("sharding-remover", text, "  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n");
}

Test(pass_structure, copies_between_memories_get_a_start_and_a_done) {
    check_body("memory-copies,dce",
               "p = f32[4]{0} parameter(0)\nh = f32[4]{0:S(5)} copy(p)\nk = f32[4]{0:S(5)} copy(h)\n"
               "ROOT d = f32[4]{0} copy(k)\n",
               "p = f32[4]{0} parameter(0)\ns = (f32[4]{0:S(5)}, f32[4]{0}, u32[]) copy-start(p)\n"
               "h = f32[4]{0:S(5)} copy-done(s)\nk = f32[4]{0:S(5)} copy(h)\n"
               "t = (f32[4]{0}, f32[4]{0:S(5)}, u32[]) copy-start(k)\nROOT d = f32[4]{0} copy-done(t)\n");
}
