// SPDX-License-Identifier: Apache-2.0
// Custom calls of dense linear algebra: every program in tests/cpu/decompositions returns the error of the identities
// that its decomposition must satisfy, which must be small in the engine and in the evaluator. An array that is not
// known, or does not fit, is refused when it is compiled.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/eval/eval.h"
#include "targets/cpu/blas/blas.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

CaseList(decompositions, identities_hold) {
    return cases_files("tests/cpu/decompositions/*.hlo");
}

static void expect_small(const HloLiteral *result, const char *path, const char *how) {
    const double error = hlo_literal_get_double(result, 0);
    cr_expect(error <= (result->shape->type == HLO_F64 ? 1e-12 : 5e-4), "%s, %s: error %g", path, how, error);
}

// In the engine with both choices of MESHLO_BLAS, and in the evaluator.
CaseTest(const CaseFile *program, decompositions, identities_hold) {
    const CpuBlas *blas = NULL;
    hlo_status_free(cpu_blas_open(&blas));
    HloFileContent content;
    HloText message = {0};
    cr_assert_null(hlo_file_read(program->path, 1 << 24, &content));
    HloModule *module = compiled_parse(content.data, &message);
    cr_assert_not_null(module, "%s: %s", program->path, message.data);
    for (int seed = 1; seed < 4; seed++) {
        const CompiledCheck check = {.seed = (uint64_t)seed};
        HloLiteral *compiled[64] = {0}, *evaluated = NULL;
        setenv("MESHLO_BLAS", blas && seed == 2 ? "openblas" : "builtin", 1);
        cr_assert(compiled_run(module, &check, compiled, &message), "%s: %s", program->path, message.data);
        expect_small(compiled[0], program->path, getenv("MESHLO_BLAS"));
        HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, (uint64_t)seed);
        const HloLiteral *arguments[] = {argument};
        cr_assert_null(hlo_evaluate(module, arguments, 1, NULL, &evaluated));
        expect_small(evaluated, program->path, "evaluated");
        hlo_literal_free(argument);
        hlo_literal_free(evaluated);
        hlo_literal_free(compiled[0]);
    }
    unsetenv("MESHLO_BLAS");
    hlo_text_free(&message);
    hlo_module_free(module);
    hlo_file_content_free(&content);
}

// The engine calls the evaluator's routines matrix by matrix: whatever the threads, the numbers are the same ones.
Test(decompositions, batches_are_divided_among_threads) {
    static const char *const texts[] = {
        ("HloModule m\nENTRY e {\n  p = f32[3,3,5,4] parameter(0)\n  ROOT r = (f32[3,3,5,4], f32[3,3,4], f32[3,3,5,4], "
         "f32[3,3,4,4], s32[3,3]) custom-call(p), custom_call_target=\"lapack_sgesdd_ffi\", "
         "api_version=API_VERSION_TYPED_FFI, backend_config={mode = 83 : ui8}\n}\n"),
        ("HloModule m\nENTRY e {\n  p = f64[7,6,6] parameter(0)\n  ROOT r = (f64[7,6,6], f64[7,5], s32[7]) "
         "custom-call(p), custom_call_target=\"lapack_dgehrd_ffi\", api_version=API_VERSION_TYPED_FFI, "
         "backend_config={low = 1 : i32, high = 6 : i32}\n}\n"),
        ("HloModule m\nENTRY e {\n  p = f64[0,6,6] parameter(0)\n  ROOT r = (f64[0,6,6], f64[0,5], s32[0]) "
         "custom-call(p), custom_call_target=\"lapack_dgehrd_ffi\", api_version=API_VERSION_TYPED_FFI\n}\n")};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) {
        HloModule *module = compiled_must_parse(texts[i]);
        for (int threads = 1; threads < 4; threads += 2) {
            const CompiledCheck check = {.seed = 3, .threads = threads, .tolerance = 1e-300};
            HloText message = {0};
            cr_expect(compiled_equals_eval(module, &check, &message), "%s\n%s", message.data, texts[i]);
            hlo_text_free(&message);
        }
        hlo_module_free(module);
    }
}

// A matrix times a power of two has the factors of the matrix, some of them times that power or its root. In f64 the
// squares of elements beyond 1e154 are infinite and those below 1e-162 zero: the QR of a matrix with these was NaN.
typedef struct Scaled {
    const char *name, *form;  // with TYPE, and the matrix as VALUES
    bool hermitian;
} Scaled;

static const Scaled scaled_calls[] = {
    {"bug_qr", "(TYPE[3,3], TYPE[3]) custom-call(p), custom_call_target=\"Qr\"", false},
    {"lu", "(TYPE[3,3], s32[3], s32[3]) custom-call(p), custom_call_target=\"LuDecomposition\"", false},
    {"eigh", "(TYPE[3,3], TYPE[3]) custom-call(p), custom_call_target=\"Eigh\"", true},
    {"cholesky", "TYPE[3,3] cholesky(p), lower=true", true},
    {"solve", "TYPE[3,3] triangular-solve(p, p), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", true},
    {"svd",
     "(TYPE[3,3], TYPE[3], TYPE[3,3], TYPE[3,3], s32[]) custom-call(p), custom_call_target=\"lapack_PRECgesdd_ffi\", "
     "api_version=API_VERSION_TYPED_FFI, backend_config={mode = 83 : ui8}",
     false},
};

// The elements of all results of the call on the matrix times 2^exponent, one after another; how many there are.
static int64_t run_scaled(const Scaled *call, bool wide, int exponent, bool evaluate, double *elements) {
    static const double general[9] = {4, 1, -2, 3, 8, 0.5, 1.5, -1, 5},
                        hermitian[9] = {6, 1, -2, 1, 5, 0.5, -2, 0.5, 4};
    HloText text = {0}, message = {0};
    hlo_text_format(&text, "HloModule m\nENTRY e {\n p = %s[3,3] parameter(0)\n ROOT r = ", wide ? "f64" : "f32");
    for (const char *at = call->form; *at;) {
        if (!strncmp(at, "TYPE[", 5)) {
            hlo_text_string(&text, wide ? "f64" : "f32");
            at += 4;
        } else if (!strncmp(at, "PREC", 4)) {
            hlo_text_string(&text, wide ? "d" : "s");
            at += 4;
        } else {
            hlo_text_char(&text, *at++);
        }
    }
    hlo_text_string(&text, "\n}\n");
    HloModule *module = compiled_must_parse(text.data);
    HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1);
    for (int64_t i = 0; i < 9; i++)
        hlo_literal_set_double(argument, i, ldexp((call->hermitian ? hermitian : general)[i], exponent));
    HloLiteral *whole = NULL, *arguments[] = {argument};
    if (evaluate) {
        must_succeed(hlo_evaluate(module, (const HloLiteral *const *)arguments, 1, NULL, &whole));
    } else {
        const CompiledCheck check = {.allow_fallback = true};
        cr_assert(compiled_run_on_one(module, arguments, &check, &whole, &message), "%s", message.data);
    }
    int64_t total = 0;
    for (int64_t i = 0; i == 0 || i < whole->shape->element_count; i++) {
        const HloLiteral *part = whole->shape->element_count ? whole->elements[i] : whole;
        for (int64_t e = 0; e < hlo_shape_elements(part->shape); e++)
            elements[total++] = hlo_literal_get_double(part, e);
    }
    hlo_literal_free(whole);
    hlo_literal_free(argument);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&message);
    return total;
}

CaseList(decompositions, powers_of_two_pass_through) {
    return cases_numbered(HLO_COUNT_OF(scaled_calls) * 4);
}
CaseTest(const int *number, decompositions, powers_of_two_pass_through) {
    static const int narrow_exponents[] = {-100, -70, 30, 70, 110}, wide_exponents[] = {-900, -560, 200, 560, 1000};
    const Scaled *call = &scaled_calls[*number / 4];
    const bool wide = *number % 2, evaluate = *number / 2 % 2;
    double plain[64], scaled[64];
    const int64_t count = run_scaled(call, wide, 0, evaluate, plain);
    for (int i = 0; i < 5; i++) {
        const int exponent = wide ? wide_exponents[i] : narrow_exponents[i];
        cr_assert_eq(run_scaled(call, wide, exponent, evaluate, scaled), count);
        for (int64_t e = 0; e < count; e++) {
            const double near = (wide ? 1e-12 : 1e-4) * (1 + fabs(plain[e]));
            const bool fits = fabs(scaled[e] - plain[e]) <= near ||
                              fabs(ldexp(scaled[e], -exponent) - plain[e]) <= near ||
                              fabs(ldexp(scaled[e], -exponent / 2) - plain[e]) <= near;
            cr_expect(fits, "%s of %s times 2^%d%s: element %lld is %g; without the power it is %g", call->name,
                      wide ? "f64" : "f32", exponent, evaluate ? ", evaluated" : "", (long long)e, scaled[e], plain[e]);
        }
    }
}

// bug: the power of two that a matrix is divided by did not fit in a double, and everything was NaN.
Test(decompositions, bug_eigenvalues_beyond_two_to_the_1023) {
    const Scaled *eigh = &scaled_calls[2];
    for (int evaluate = 0; evaluate < 2; evaluate++) {
        double plain[64], scaled[64];
        cr_assert_eq(run_scaled(eigh, true, 0, evaluate, plain), 12);
        cr_assert_eq(run_scaled(eigh, true, 1021, evaluate, scaled), 12);
        for (int e = 0; e < 12; e++) {
            const double want = e < 9 ? plain[e] : ldexp(plain[e], 1021);
            cr_expect_leq(fabs(scaled[e] - want), 1e-12 * fabs(want), "%g, not %g", scaled[e], want);
        }
    }
}

// Top-k by custom call has a compiled form (no fallback is allowed here), along any dimension.
typedef struct TopK {
    char text[900];
} TopK;

#define MORE                                                                                         \
    "HloModule m\nmore { x = f32[] parameter(0)\n y = f32[] parameter(1)\n i = s32[] parameter(2)\n" \
    " j = s32[] parameter(3)\n ROOT z = pred[] compare(x, y), direction=GT }\n"

CaseList(custom_calls, top_k) {
    static TopK programs[] = {
        {MORE
         "ENTRY e { a = f32[3,70] parameter(0)\n n = s32[3,70] iota(), iota_dimension=1\n l = f32[] constant(-inf)\n"
         " m = s32[] constant(-1)\n ROOT t = (f32[3,4], s32[3,4]) custom-call(a, n, l, m), "
         "custom_call_target=\"ApproxTopK\", called_computations={more} }\n"},
        {MORE
         "ENTRY e { a = f32[70,3] parameter(0)\n n = s32[70,3] iota(), iota_dimension=0\n l = f32[] constant(-inf)\n"
         " m = s32[] constant(-1)\n ROOT t = (f32[5,3], s32[5,3]) custom-call(a, n, l, m), "
         "custom_call_target=\"ApproxTopK\", called_computations={more} }\n"},
        {"HloModule m\nless { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), "
         "direction=LT }\nENTRY e { a = f32[3,70] parameter(0)\n ROOT t = (f32[3,4], s32[3,4]) custom-call(a), "
         "custom_call_target=\"TopK\", called_computations={less} }\n"},
        // The evaluator and the partitioner looked at the direction alone: `right < left` is `left > right`.
        {"HloModule m\nbug_more { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(y, x), "
         "direction=LT }\nENTRY e { a = f32[3,70] parameter(0)\n ROOT t = (f32[3,4], s32[3,4]) custom-call(a), "
         "custom_call_target=\"TopK\", called_computations={bug_more} }\n"},
        {"HloModule m\nbug_less { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(y, x), "
         "direction=GT }\nENTRY e { a = f32[3,70] parameter(0)\n ROOT t = (f32[3,4], s32[3,4]) custom-call(a), "
         "custom_call_target=\"TopK\", called_computations={bug_less} }\n"},
    };
    return cr_make_param_array(TopK, programs, HLO_COUNT_OF(programs));
}

CaseTest(TopK *program, custom_calls, top_k) {
    HloText message = {0};
    HloModule *module = compiled_parse(program->text, &message);
    cr_assert_not_null(module, "%s", message.data);
    const CompiledCheck check = {.seed = 5};
    cr_expect(compiled_equals_eval(module, &check, &message), "%s", message.data);
    hlo_text_free(&message);
    hlo_module_free(module);
}

typedef struct Refusal {
    char text[400];
    char part[128];
} Refusal;

CaseList(decompositions, refused_before_running) {
    static Refusal refusals[] = {
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n ROOT t = f32[3,3] custom-call(a), "
         "custom_call_target=\"cusolver_geqrf_ffi\" }\n",
         "there is no implementation of a library call of NVIDIA GPUs (custom call \"cusolver_geqrf_ffi\"); lower"},
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n ROOT t = f32[3,3] custom-call(a), "
         "custom_call_target=\"tpu_custom_call\", frontend_attributes={kernel_name=\"add_one\"} }\n",
         "Pallas kernel, compiled for the cores of a TPU (custom call \"tpu_custom_call\", kernel \"add_one\")"},
        {"HloModule m\nENTRY e { a = f32[3] parameter(0)\n n = s32[] constant(2)\n d = f32[<=3] set-dimension-size(a, "
         "n), "
         "dimensions={0}\n ROOT t = f32[3] custom-call(d), custom_call_target=\"DynamicConvolutionForward\" }\n",
         "%t: there is no implementation of a convolution whose sizes"},
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n ROOT t = f32[3,3] custom-call(a), "
         "custom_call_target=\"CustomSPMDPartitioning\" }\n",
         "jax.experimental.custom_partitioning"},
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n ROOT t = (f32[3,3], s32[3]) custom-call(a), "
         "custom_call_target=\"lapack_sgetrf_ffi\" }\n",
         "%t: the shapes of custom call \"lapack_sgetrf_ffi\""},
        {"HloModule m\nENTRY e { a = f64[3,3] parameter(0)\n ROOT t = (f64[3,3], f64[3]) custom-call(a), "
         "custom_call_target=\"lapack_sgeqrf_ffi\" }\n",
         "%t: the shapes of custom call \"lapack_sgeqrf_ffi\""},
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n b = f32[4,5] parameter(1)\n ROOT t = f32[4,5] "
         "custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\" }\n",
         "%t: the shapes of custom call \"lapack_strsm_ffi\""},
        {"HloModule m\nENTRY e { a = f32[2,3,3] parameter(0)\n ROOT t = (f32[3,3], f32[3]) custom-call(a), "
         "custom_call_target=\"Eigh\" }\n",
         "%t: the shapes of custom call \"Eigh\""},
    };
    return cr_make_param_array(Refusal, refusals, HLO_COUNT_OF(refusals));
}

CaseTest(Refusal *refusal, decompositions, refused_before_running) {
    HloText message = {0};
    HloModule *module = compiled_parse(refusal->text, &message);
    cr_assert_not_null(module, "%s", message.data);
    const CompiledCheck check = {.allow_fallback = true};
    HloLiteral *results[64] = {0};
    cr_expect_not(compiled_run(module, &check, results, &message));
    cr_expect(message.data && strstr(message.data, refusal->part), "%s", message.data);
    hlo_text_free(&message);
    hlo_module_free(module);
}

// A matrix that cannot be factored is reported by its info, not by an error.
Test(decompositions, info_tells_what_failed) {
    HloText message = {0};
    HloModule *module = compiled_parse(
        "HloModule m\nENTRY e { c = f32[2,2] constant({{1, 2}, {2, 1}})\n z = f32[2,2] constant({{1, 1}, {1, 1}})\n"
        " p = (f32[2,2], s32[]) custom-call(c), custom_call_target=\"lapack_spotrf_ffi\", backend_config={uplo = 76 : "
        "ui8}\n"
        " l = (f32[2,2], s32[2], s32[]) custom-call(z), custom_call_target=\"lapack_sgetrf_ffi\", backend_config={}\n"
        " i = s32[] get-tuple-element(p), index=1\n j = s32[] get-tuple-element(l), index=2\n"
        " ROOT t = (s32[], s32[]) tuple(i, j) }\n",
        &message);
    cr_assert_not_null(module, "%s", message.data);
    const CompiledCheck check = {.allow_fallback = true};
    HloLiteral *compiled[64] = {0}, *evaluated = NULL;
    cr_assert(compiled_run(module, &check, compiled, &message), "%s", message.data);
    cr_assert_null(hlo_evaluate(module, NULL, 0, NULL, &evaluated));
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(hlo_literal_get_int64(compiled[0]->elements[i], 0), 2);
        cr_expect_eq(hlo_literal_get_int64(evaluated->elements[i], 0), 2);
    }
    hlo_literal_free(compiled[0]);
    hlo_literal_free(evaluated);
    hlo_text_free(&message);
    hlo_module_free(module);
}
