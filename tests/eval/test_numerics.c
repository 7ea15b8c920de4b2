// SPDX-License-Identifier: Apache-2.0
// Matrix products as a TPU computes them, NaN traps, and errors that evaluation reports.
#include <criterion/criterion.h>
#include <math.h>

#include "tests/eval/run.h"

#define DOT(k, more)                                                    \
    "HloModule m\nENTRY e { a = f32[2," k "] parameter(0)\n b = f32[" k \
    ",2] parameter(1)\n"                                                \
    " ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}" more " }\n"

static const float g7[8] = {.3744f, .1656f, .4707f, .1663f, .3946f, .1186f, .1569f, .3145f};

static void check_dot(const char *text, const float *values, HloNumerics numerics, const float *want) {
    HloEvalOptions options = {.numerics = numerics};
    HloStatus status;
    HloLiteral *result = run_floats(text, values, &options, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    expect_floats(result, want, 4);
    hlo_literal_free(result);
}

// G7: jax#9973, printed on a TPU and on a CPU.
Test(numerics, one_bf16_pass_gives_what_a_tpu_printed) {
    const float want[4] = {.17405128f, .09669876f, .21180916f, .10805416f};
    check_dot(DOT("2", ""), g7, HLO_NUMERICS_TPU, want);
}

Test(numerics, exact_gives_what_a_cpu_printed) {
    const float want[4] = {.17372088f, .09648504f, .21183069f, .10812637f};
    check_dot(DOT("2", ""), g7, HLO_NUMERICS_EXACT, want);
}

// G8: jax#16349, printed on a TPU v3-8; the operands are normal(1,2,4) and (4,2) of PRNGKey(0) split in three.
Test(numerics, issue_16349_reproduced) {
    const float values[16] = {-1.619368553161621f,   1.2838611602783203f,  -1.136875033378601f,   -0.4885568618774414f,
                              -0.19522805511951447f, 1.5411550998687744f,  -0.37026986479759216f, -0.17854981124401093f,
                              -0.38537442684173584f, -1.4707388877868652f, 0.5467919707298279f,   2.095505475997925f,
                              1.1165616512298584f,   0.1611746996641159f,  -0.5371373891830444f,  -0.8921382427215576f};
    const float want[4] = {.31184387f, 5.3089447f, .5985794f, 3.6086464f};
    check_dot(DOT("4", ""), values, HLO_NUMERICS_TPU, want);
}

// Three passes leave an error near 2^-17, six one of f32: the parts are rounded (cut ones gave 2^-16 and 2^-22).
Test(numerics, more_passes_come_closer) {
    const char *texts[] = {DOT("2", ", operand_precision={high,high}"),
                           DOT("2", ", operand_precision={highest,default}"),
                           DOT("2", ", algorithm=dot_bf16_bf16_f32_x9")};
    const double limits[] = {8e-6, 3e-8, 3e-8};
    const double want[4] = {.3744 * .3946 + .1656 * .1569, .3744 * .1186 + .1656 * .3145, .4707 * .3946 + .1663 * .1569,
                            .4707 * .1186 + .1663 * .3145};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) {
        HloEvalOptions options = {.numerics = HLO_NUMERICS_TPU};
        HloStatus status;
        HloLiteral *result = run_floats(texts[i], g7, &options, &status);
        cr_assert_null(status);
        for (int e = 0; e < 4; e++)
            cr_expect_float_eq(hlo_literal_get_double(result, e), want[e], limits[i] * want[e] + 1e-8);
        hlo_literal_free(result);
    }
}

Test(numerics, matrix_vector_products_stay_f32) {
    // A dimension of one element does not make a matrix: numpy.cov of one variable is checked to 1e-6 by JAX on TPUs.
    const char *texts[] = {
        "HloModule m\nENTRY e { a = f32[2,2] parameter(0)\n b = f32[2] parameter(1)\n"
        " ROOT r = f32[2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n",
        "HloModule m\nENTRY e { a = f32[2,2] parameter(0)\n b = f32[2,1] parameter(1)\n"
        " ROOT r = f32[2,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n",
    };
    const float want[2] = {.3744f * .3946f + .1656f * .1186f, .4707f * .3946f + .1663f * .1186f};
    for (size_t t = 0; t < HLO_COUNT_OF(texts); t++) {
        HloEvalOptions options = {.numerics = HLO_NUMERICS_TPU};
        HloStatus status;
        HloLiteral *result = run_floats(texts[t], g7, &options, &status);
        cr_assert_null(status);
        for (int i = 0; i < 2; i++) cr_expect_float_eq(((float *)result->data)[i], want[i], 3e-8);
        hlo_literal_free(result);
    }
}

Test(numerics, nan_trap_names_the_instruction) {
    HloEvalOptions options = {.trap_nan = true};
    HloStatus status;
    const float value = -1;
    HloLiteral *result = run_floats(
        "HloModule m\nENTRY e { a = f32[] parameter(0)\n culprit = f32[] log(a)\n"
        " ROOT r = f32[] add(culprit, a) }\n",
        &value, &options, &status);
    cr_expect_null(result);
    expect_error(status, HLO_FAILED_PRECONDITION, "%culprit (log) produces a NaN");
}

// bug: only arrays were checked: a NaN among several results was missed, or its user was named.
Test(numerics, bug_a_nan_among_several_results_is_trapped) {
    const char *texts[] = {
        "HloModule m\nENTRY e { a = f32[2,2] parameter(0)\n l = f32[2,2] abs(a)\n"
        " culprit = (f32[2,2], f32[2]) custom-call(l), custom_call_target=\"Eigh\", backend_config=\"1,1,100,1e-6\"\n"
        " ROOT w = f32[2] get-tuple-element(culprit), index=1 }\n",
        "HloModule m\nENTRY e { a = f32[2,2] parameter(0)\n s = f32[2] constant({1,1})\n"
        " culprit = (f32[2,2], f32[2], f32[2]) batch-norm-training(a, s, s), epsilon=0, feature_index=1\n"
        " n = f32[2,2] get-tuple-element(culprit), index=0\n ROOT r = f32[2,2] negate(n) }\n"};
    const float values[] = {INFINITY, 1, 1, 1};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) {
        HloStatus status;
        cr_expect_null(run_floats(texts[i], values, &(HloEvalOptions){.trap_nan = true}, &status));
        expect_error(status, HLO_FAILED_PRECONDITION, "%culprit (");
    }
}

// A NaN that is an argument is reported only once something is computed with it.
Test(numerics, handing_a_nan_on_is_not_making_one) {
    const char *text =
        "HloModule m\nf { x = f32[] parameter(0)\n ROOT c = f32[] copy(x) }\n"
        "ENTRY e { a = f32[] parameter(0)\n t = (f32[], f32[]) tuple(a, a)\n b = (f32[], f32[]) opt-barrier(t)\n"
        " g = f32[] get-tuple-element(b), index=1\n c = f32[] call(g), to_apply=f\n ROOT r = f32[] %s(c) }\n";
    const float value = NAN;
    for (int computes = 0; computes < 2; computes++) {
        HloText program = {0};
        HloStatus status;
        hlo_text_format(&program, text, computes ? "negate" : "copy");
        HloLiteral *result = run_floats(program.data, &value, &(HloEvalOptions){.trap_nan = true}, &status);
        if (computes) {
            expect_error(status, HLO_FAILED_PRECONDITION, "%r (negate) produces a NaN");
        } else {
            cr_assert_null(status, "%s", hlo_status_message(status));
            cr_expect(isnan(hlo_literal_get_double(result, 0)));
        }
        hlo_literal_free(result);
        hlo_text_free(&program);
    }
}

// bug: signalling NaNs of f32 became quiet ones on their way to double, and equal to others. XLA compares the bits.
Test(numerics, bug_the_total_order_tells_nans_apart) {
    const char *ascending[] = {"-nan", "-nan(0x400001)", "-nan(0x1)",     "-inf", "-1",           "-0", "0", "1",
                               "inf",  "nan(0x1)",       "nan(0x3fffff)", "nan",  "nan(0x400001)"};
    const int order[] = {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // -nan(0x400001) is below -nan, 0x400000
    for (size_t i = 0; i < HLO_COUNT_OF(order); i++) {
        for (size_t j = 0; j < HLO_COUNT_OF(order); j++) {
            HloText text = {0};
            hlo_text_format(&text,
                            "HloModule m\nENTRY e { a = f32[] constant(%s)\n b = f32[] constant(%s)\n"
                            " l = pred[] compare(a, b), direction=LT, type=TOTALORDER\n"
                            " q = pred[] compare(a, b), direction=EQ, type=TOTALORDER\n"
                            " ROOT r = (pred[], pred[]) tuple(l, q) }\n",
                            ascending[order[i]], ascending[order[j]]);
            HloStatus status;
            HloLiteral *result = run_floats(text.data, NULL, NULL, &status);
            cr_assert_null(status, "%s", hlo_status_message(status));
            cr_expect_eq(hlo_literal_get_int64(result->elements[0], 0), i < j, "%s", text.data);
            cr_expect_eq(hlo_literal_get_int64(result->elements[1], 0), i == j, "%s", text.data);
            hlo_literal_free(result);
            hlo_text_free(&text);
        }
    }
}

// bug: the gradients of scale and offset are sums, which were taken from means: those of nothing are NaN.
Test(numerics, bug_gradients_of_a_batch_norm_of_nothing_are_zero) {
    HloStatus status;
    HloLiteral *result = run_floats(
        "HloModule m\nENTRY e {\n x = f32[0,2] parameter(0)\n s = f32[2] constant({1, 2})\n"
        " v = f32[2] constant({3, 4})\n"
        " ROOT r = (f32[0,2], f32[2], f32[2]) batch-norm-grad(x, s, s, v, x), epsilon=0.5, feature_index=1\n}\n",
        NULL, NULL, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    for (int i = 1; i < 3; i++) expect_floats(result->elements[i], (const float[]){0, 0}, 2);
    hlo_literal_free(result);
}

// bug: instructions that a reducer does not need were computed anyway, by kernels that assume checked types.
Test(numerics, bug_dead_code_of_a_reducer_may_be_anything) {
    const char *dead[] = {"c = c64[] convert(x)\n d = c64[] clamp(c, c, c)",
                          "d = f64[] convert(x)\n w = f64[] add(d, x)\n v = f64[] atan2(w, y)",
                          "d = c64[] convert(y)\n o = pred[] compare(d, d), direction=LT"};
    const float values[] = {1, 2, 3, 4}, want = 10;
    for (size_t i = 0; i < HLO_COUNT_OF(dead); i++) {
        HloText text = {0};
        HloStatus status;
        hlo_text_format(&text,
                        "HloModule m\nf { x = f32[] parameter(0)\n y = f32[] parameter(1)\n %s\n s = f32[] add(y, x)\n"
                        " ROOT r = f32[] copy(s) }\nENTRY e { p = f32[4] parameter(0)\n z = f32[] constant(0)\n"
                        " ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f }\n",
                        dead[i]);
        HloLiteral *result = run_floats(text.data, values, NULL, &status);
        cr_assert_null(status, "%s", hlo_status_message(status));
        expect_floats(result, &want, 1);
        hlo_literal_free(result);
        hlo_text_free(&text);
    }
}

Test(numerics, wrong_arguments_are_refused) {
    HloModule *module = parse_text("HloModule m\nENTRY e { a = f32[2] parameter(0)\n ROOT r = f32[2] negate(a) }\n");
    HloLiteral *result = NULL;
    expect_error(hlo_evaluate(module, NULL, 0, NULL, &result), HLO_INVALID_ARGUMENT,
                 "takes 1 arguments, but 0 are given");
    HloArena *arena = hlo_arena_new();
    const int64_t dims[1] = {3};
    const HloLiteral *argument = hlo_literal_in_arena(arena, hlo_shape_array(arena, HLO_F32, dims, 1));
    expect_error(hlo_evaluate(module, &argument, 1, NULL, &result), HLO_INVALID_ARGUMENT,
                 "f32[3] given, expected f32[2]");
    hlo_arena_free(arena);
    hlo_module_free(module);
}

Test(numerics, transfers_are_refused_by_name) {
    HloStatus status;
    HloLiteral *result = run_floats(
        "HloModule m\nENTRY e { t = token[] after-all()\n"
        " i = (f32[2], token[]) infeed(t)\n ROOT r = f32[2] get-tuple-element(i), index=0 }\n",
        NULL, NULL, &status);
    cr_expect_null(result);
    expect_error(status, HLO_UNIMPLEMENTED, "%i (infeed)");
}

// Found by mutating golden programs: the verifier lets float types mix.
Test(numerics, mixed_float_types_are_refused) {
    const char *texts[] = {
        "HloModule m\nENTRY e { p = f32[4] parameter(0)\n ROOT r = f64[4] log(p) }\n",
        "HloModule m\nENTRY e { p = f32[2,2] parameter(0)\n q = f64[2,2] convert(p)\n"
        " ROOT r = f64[2,2] triangular-solve(p, q), left_side=true, lower=true, transpose_a=NO_TRANSPOSE }\n",
        "HloModule m\nENTRY e { p = f32[4] parameter(0)\n t = (f32[4]) tuple(p)\n"
        " ROOT r = f64[4] get-tuple-element(t), index=0 }\n",
        "HloModule m\nENTRY e { p = f32[2,2] parameter(0)\n s = s32[1] constant({2})\n"
        " ROOT r = s32[1,2,2] ragged-dot(p, p, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "lhs_ragged_dims={1} }\n",
        "HloModule m\nmost { x = f64[] parameter(0)\n y = f64[] parameter(1)\n ROOT z = f64[] maximum(x, y) }\n"
        "ENTRY e { p = f32[4] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=most }\n",
    };
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) {
        HloStatus status;
        HloLiteral *result = run_floats(texts[i], values, NULL, &status);
        cr_expect_null(result);
        expect_error(status, HLO_UNIMPLEMENTED, "a mixture of");
    }
}

Test(numerics, memory_limit_is_kept) {
    HloEvalOptions options = {.memory_limit = 1 << 20};
    HloStatus status;
    HloLiteral *result = run_floats(
        "HloModule m\nENTRY e { z = f32[] constant(1)\n b = f32[1024,1024] broadcast(z), dimensions={}\n"
        " ROOT r = f32[4,4] slice(b), slice={[0:4],[0:4]} }\n",
        NULL, &options, &status);
    cr_expect_null(result);
    expect_error(status, HLO_RESOURCE_EXHAUSTED, "4194304 bytes");
}

// Every allocation in turn fails: the run must end with RESOURCE_EXHAUSTED or succeed, and leak nothing.
Test(numerics, short_memory_is_an_error_not_a_crash) {
    HloModule *module = parse_text(DOT("2", ""));
    HloLiteral *arguments[2];
    for (int p = 0; p < 2; p++) arguments[p] = hlo_literal_new(module->entry->parameters.items[p]->shape);
    bool finished = false;
    for (int64_t n = 0; n < 1000 && !finished; n++) {
        HloLiteral *result = NULL;
        hlo_allocation_fail_after(n);
        HloStatus status = hlo_evaluate(module, (const HloLiteral *const *)arguments, 2, NULL, &result);
        hlo_allocation_fail_after(-1);
        finished = !status;
        if (status) cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
        hlo_status_free(status);
        hlo_literal_free(result);
    }
    cr_expect(finished);
    for (int p = 0; p < 2; p++) hlo_literal_free(arguments[p]);
    hlo_module_free(module);
}

// Group sizes are data. bug: negative ones aborted the evaluator, and immense ones overflowed in both engines.
#define RAGGED(type, sizes)                                                                      \
    "HloModule m\nENTRY e { a = f32[4,2] parameter(0)\n b = f32[2,2,1] parameter(1)\n s = " type \
    "[2] constant({" sizes                                                                       \
    "})\n ROOT r = f32[4,1] ragged-dot(a, b, s), lhs_contracting_dims={1}, "                     \
    "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0} }\n"

Test(numerics, bug_group_sizes_of_ragged_dots_may_be_anything) {
    static const struct {
        const char *text;
        float want[4];
    } cases[] = {{RAGGED("s32", "1, 2"), {2, 20, 20, 0}},
                 {RAGGED("s32", "-1, 3"), {20, 20, 0, 0}},
                 {RAGGED("s32", "3, 9"), {2, 2, 2, 20}},
                 {RAGGED("s32", "0, -5"), {0, 0, 0, 0}},
                 {RAGGED("s64", "9223372036854775807, 9223372036854775807"), {2, 2, 2, 2}},
                 {RAGGED("s64", "-9223372036854775808, -9223372036854775808"), {0, 0, 0, 0}}};
    const float values[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 10, 10};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HloStatus status;
        HloLiteral *result = run_floats(cases[i].text, values, NULL, &status);
        cr_assert_null(status, "%s", hlo_status_message(status));
        expect_floats(result, cases[i].want, 4);
        hlo_literal_free(result);
    }
}

// bug: sizes for each batch, as in a vmapped jax.lax.ragged_dot, were refused; so were those for each index of
// dimensions before the ragged one.
Test(numerics, bug_ragged_dots_with_sizes_for_each_batch) {
    static const struct {
        const char *shapes, *sizes, *result;
        float want[12];
    } cases[] = {
        {"a = f32[2,3,1] parameter(0)\n  b = f32[2,2,1,1] parameter(1)",
         "{1, 2}, {0, 2}",
         "f32[2,3,1] ragged-dot(a, b, s), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
         "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}",
         {1, 200, 300, 4000, 5000, 0}},
        {"a = f32[2,3,1] parameter(0)\n  b = f32[2,1,2] parameter(1)",
         "{1, 2}, {0, 1}",
         "f32[2,3,2] ragged-dot(a, b, s), lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, "
         "rhs_group_dims={0}",
         {1, 10, 200, 2000, 300, 3000, 400, 4000, 0, 0, 0, 0}},
        {"a = f32[1,2,3] parameter(0)\n  b = f32[2,3,1] parameter(1)",
         "{1, 2}, {0, 1}",
         "f32[2,1,1] ragged-dot(a, b, s), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}, lhs_ragged_dims={2}",
         {1, 2 * 10 + 3 * 100 + 4 * 1000}},
    };
    static const int64_t counts[] = {6, 12, 2};
    const float values[12] = {1, 2, 3, 4, 5, 6, 1, 10, 100, 1000, 10000, 100000};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\n\nENTRY e {\n  %s\n  s = s32[2,2] constant({%s})\n  ROOT r = %s\n}\n",
                        cases[i].shapes, cases[i].sizes, cases[i].result);
        HloStatus status = NULL;
        HloLiteral *result = run_floats(text.data, values, NULL, &status);
        cr_assert_null(status, "%s", hlo_status_message(status));
        expect_floats(result, cases[i].want, counts[i]);
        hlo_literal_free(result);
        hlo_text_free(&text);
    }
}

// As unsigned numbers they are beyond the end, and not before the beginning.
Test(numerics, starts_beyond_the_signed_numbers_are_clamped_to_the_end) {
    static const char *const starts[] = {"18446744073709551615", "9223372036854775808", "6"};
    const float values[] = {0, 1, 2, 3, 4, 5, 6, 7}, want[] = {0, 1, 2, 3, 4, 5, -6, -7};
    for (size_t i = 0; i < HLO_COUNT_OF(starts); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\n\nENTRY e {\n  a = f32[8] parameter(0)\n  i = u64[] constant(%s)\n"
                        "  s = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}\n  n = f32[2] negate(s)\n"
                        "  ROOT d = f32[8] dynamic-update-slice(a, n, i)\n}\n",
                        starts[i]);
        HloStatus status = NULL;
        HloLiteral *result = run_floats(text.data, values, NULL, &status);
        cr_assert_null(status, "%s", hlo_status_message(status));
        expect_floats(result, want, 8);
        hlo_literal_free(result);
        hlo_text_free(&text);
    }
}
