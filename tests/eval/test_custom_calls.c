// SPDX-License-Identifier: Apache-2.0
// Custom calls with evaluators: decompositions multiply back to their matrix, and operands that do not fit are refused.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/eval/run.h"
#include "tests/support/cases.h"

typedef struct Check {
    char text[1400];
} Check;

// Each program returns the largest error of an identity that the decomposition must satisfy.
#define ERROR_OF(x, shape, dims)     \
    " size = " shape " abs(" x       \
    ")\n zero = f32[] constant(0)\n" \
    " ROOT r = f32[] reduce(size, zero), dimensions=" dims ", to_apply=max }\n"
#define MAXIMUM "HloModule m\nmax { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] maximum(x, y) }\n"

CaseList(custom_calls, identity) {
    static Check checks[] = {
        // q r = a
        {MAXIMUM "ENTRY e { a = f32[2,5,3] parameter(0)\n"
                 " qr = (f32[2,5,3], f32[2,3]) custom-call(a), custom_call_target=\"Qr\"\n"
                 " f = f32[2,5,3] get-tuple-element(qr), index=0\n t = f32[2,3] get-tuple-element(qr), index=1\n"
                 " q = f32[2,5,3] custom-call(f, t), custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n"
                 " top = f32[2,3,3] slice(f), slice={[0:2],[0:3],[0:3]}\n i = s32[2,3,3] iota(), iota_dimension=1\n"
                 " j = s32[2,3,3] iota(), iota_dimension=2\n up = pred[2,3,3] compare(i, j), direction=LE\n nil = "
                 "f32[] constant(0)\n"
                 " nils = f32[2,3,3] broadcast(nil), dimensions={}\n r0 = f32[2,3,3] select(up, top, nils)\n"
                 " p = f32[2,5,3] dot(q, r0), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                 "rhs_contracting_dims={1}\n"
                 " d = f32[2,5,3] subtract(p, a)\n" ERROR_OF("d", "f32[2,5,3]", "{0,1,2}")},
        // v w = a v for the symmetric a whose lower triangle is given
        {MAXIMUM
         "ENTRY e { a = f32[4,4] parameter(0)\n s = f32[4,4] dot(a, a), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={1}\n"
         " vw = (f32[4,4], f32[4]) custom-call(s), custom_call_target=\"Eigh\", backend_config=\"1,1,100,1e-6\"\n"
         " v = f32[4,4] get-tuple-element(vw), index=0\n w = f32[4] get-tuple-element(vw), index=1\n"
         " wb = f32[4,4] broadcast(w), dimensions={1}\n x = f32[4,4] multiply(v, wb)\n"
         " y = f32[4,4] dot(s, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n d = f32[4,4] subtract(x, "
         "y)\n" ERROR_OF("d", "f32[4,4]", "{0,1}")},
        // l u = a[permutation]
        {MAXIMUM
         "ENTRY e { a = f32[3,3] parameter(0)\n"
         " t = (f32[3,3], s32[3], s32[3]) custom-call(a), custom_call_target=\"LuDecomposition\"\n"
         " f = f32[3,3] get-tuple-element(t), index=0\n o = s32[3] get-tuple-element(t), index=2\n"
         " i = s32[3,3] iota(), iota_dimension=0\n j = s32[3,3] iota(), iota_dimension=1\n nil = f32[] constant(0)\n"
         " nils = f32[3,3] broadcast(nil), dimensions={}\n one = f32[] constant(1)\n ones = f32[3,3] broadcast(one), "
         "dimensions={}\n"
         " below = pred[3,3] compare(i, j), direction=GT\n on = pred[3,3] compare(i, j), direction=EQ\n"
         " diag = f32[3,3] select(on, ones, nils)\n l = f32[3,3] select(below, f, diag)\n u = f32[3,3] select(below, "
         "nils, f)\n"
         " p = f32[3,3] dot(l, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         " g = f32[3,3] gather(a, o), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
         "index_vector_dim=1, slice_sizes={1,3}\n"
         " d = f32[3,3] subtract(p, g)\n" ERROR_OF("d", "f32[3,3]", "{0,1}")},
    };
    return cr_make_param_array(Check, checks, HLO_COUNT_OF(checks));
}

CaseTest(Check *check, custom_calls, identity) {
    float values[32];
    for (int i = 0; i < 32; i++) values[i] = (float)((i * 7919 + 13) % 31) / 16 - 1;
    HloStatus status;
    HloLiteral *result = run_floats(check->text, values, NULL, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_lt(hlo_literal_get_double(result, 0), 1e-5, "error %g", hlo_literal_get_double(result, 0));
    hlo_literal_free(result);
}

Test(custom_calls, approximate_top_k_is_exact) {
    const float values[6] = {3, 1, 2, 5, 9, 7}, want[4] = {3, 2, 9, 7};
    HloStatus status;
    HloLiteral *result = run_floats(
        "HloModule m\nmore { x = f32[] parameter(0)\n y = f32[] parameter(1)\n i = s32[] parameter(2)\n j = s32[] "
        "parameter(3)\n"
        " ROOT z = pred[] compare(x, y), direction=GT }\n"
        "ENTRY e { a = f32[2,3] parameter(0)\n n = s32[2,3] iota(), iota_dimension=1\n low = f32[] constant(-inf)\n"
        " none = s32[] constant(-1)\n t = (f32[2,2], s32[2,2]) custom-call(a, n, low, none), "
        "custom_call_target=\"ApproxTopK\", "
        "called_computations={more}\n ROOT r = f32[2,2] get-tuple-element(t), index=0 }\n",
        values, NULL, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    expect_floats(result, want, 4);
    hlo_literal_free(result);
}

// Calls that are an operation, a body or just their operand, each beside its equivalent.
Test(custom_calls, calls_that_have_another_form) {
    static const struct {
        const char *target, *root;  // root: what the call is to give, of %a
    } calls[] = {
        {"Sharding", "copy(a)"},
        {"mhlo.acos", "acos(a)"},
        {"mhlo.acosh", "acosh(a)"},
        {"mhlo.asin", "asin(a)"},
        {"mhlo.asinh", "asinh(a)"},
        {"mhlo.atanh", "atanh(a)"},
        {"mhlo.cosh", "cosh(a)"},
        {"mhlo.erf", "erf(a)"},
        {"mhlo.sinh", "sinh(a)"},
        {"mhlo.tan", "tan(a)"},
        {"AllocateBuffer", "subtract(a, a)"},
        {"CustomSPMDPartitioning\", called_computations={body}, backend_config=\"", "negate(a)"},
    };
    const float values[6] = {-0.75F, 0, 0.25F, 0.5F, 0.875F, 1};
    for (size_t i = 0; i < HLO_COUNT_OF(calls); i++) {
        char text[1024];
        HloStatus status;
        snprintf(
            text, sizeof text,
            "HloModule m\nbody { x = f32[6] parameter(0)\n ROOT y = f32[6] negate(x) }\n"
            "ENTRY e { a = f32[6] parameter(0)\n b = f32[6] custom-call(a), custom_call_target=\"%s\"\n c = f32[6] "
            "%s\n ROOT t = (f32[6], f32[6]) tuple(b, c) }\n",
            calls[i].target, calls[i].root);
        HloLiteral *result = run_floats(text, values, NULL, &status);
        cr_assert_null(status, "%s: %s", calls[i].target, hlo_status_message(status));
        cr_expect_arr_eq(result->elements[0]->data, result->elements[1]->data, sizeof(values), "%s", calls[i].target);
        hlo_literal_free(result);
    }
}

// bug: a call that keeps as many elements as there are sorted along the last dimension whatever its configuration said.
Test(custom_calls, bug_approximate_top_k_of_all_along_its_dimension) {
    static const char *const configs[] = {"{\\\"top_k\\\":2,\\\"reduction_dim\\\":0}",
                                          "{top_k = 2 : i64, reduction_dim = 0 : i64}"};
    const float values[6] = {3, 1, 2, 5, 0, 7}, want[6] = {5, 1, 7, 3, 0, 2};
    for (size_t i = 0; i < HLO_COUNT_OF(configs); i++) {
        char text[1024];
        HloStatus status;
        snprintf(text, sizeof text,
                 "HloModule m\nmore { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), "
                 "direction=GT }\nENTRY e { a = f32[2,3] parameter(0)\n low = f32[] constant(-inf)\n"
                 " t = (f32[2,3]) custom-call(a, low), custom_call_target=\"ApproxTopK\", called_computations={more}, "
                 "backend_config=\"%s\"\n ROOT r = f32[2,3] get-tuple-element(t), index=0 }\n",
                 configs[i]);
        HloLiteral *result = run_floats(text, values, NULL, &status);
        cr_assert_null(status, "%s", hlo_status_message(status));
        expect_floats(result, want, 6);
        hlo_literal_free(result);
    }
}

// JAX pads with zeros and cuts the padding's values off by their place.
Test(custom_calls, eigh_unsorted_keeps_padding_in_place) {
    HloStatus status;
    HloLiteral *result = run_floats(
        "HloModule m\nENTRY e { a = f32[3,3] constant({{2,1,0},{1,2,0},{0,0,0}})\n"
        " t = (f32[3,3], f32[3]) custom-call(a), custom_call_target=\"Eigh\", backend_config=\"1,0,100,1e-6\"\n"
        " ROOT w = f32[3] get-tuple-element(t), index=1 }\n",
        NULL, NULL, &status);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(hlo_literal_get_double(result, 2), 0);
    hlo_literal_free(result);
}

// bug: squares of large elements were infinite and those of small ones zero, and their matrices were taken for
// diagonal, their columns for orthogonal. Eigenvalues and singular values grow with the matrix.
Test(custom_calls, bug_decompositions_at_the_ends_of_the_range) {
    static const struct {
        const char *matrix, *call;
        int64_t values, index;
    } calls[] = {
        {"{{1,1,0.5},{1,2,0.25},{0.5,0.25,-1}}",
         "(f64[3,3], f64[3]) custom-call(a), custom_call_target=\"Eigh\", backend_config=\"1,1,100,1e-6\"", 3, 1},
        {"{{1,1,3},{1,2,5},{0,1,0}}",
         "(f64[3,3], f64[3], f64[3,3], f64[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_dgesdd_ffi\", "
         "api_version=API_VERSION_TYPED_FFI, backend_config={mode = 83 : ui8}",
         3, 1},
        {"{{1,1,0},{2,2,1},{3,0,1}}",
         "(f64[3], f64[3], c128[3,3], c128[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_dgeev_ffi\", "
         "api_version=API_VERSION_TYPED_FFI, backend_config={compute_left = 86 : ui8, compute_right = 86 : ui8}",
         3, 0},
        {"{{1,1,0},{2,2,1},{3,0,1}}",
         "(f64[3], f64[3], c128[3,3], c128[3,3], s32[]) custom-call(a), custom_call_target=\"lapack_dgeev_ffi\", "
         "api_version=API_VERSION_TYPED_FFI, backend_config={compute_left = 86 : ui8, compute_right = 86 : ui8}",
         3, 1},
    };
    static const char *const scales[] = {"1", "1e200", "1e-200", "1e153", "1e-300", "1e307"};
    for (size_t c = 0; c < HLO_COUNT_OF(calls); c++) {
        double plain[3];
        for (size_t s = 0; s < HLO_COUNT_OF(scales); s++) {
            HloText text = {0};
            HloStatus status;
            hlo_text_format(&text,
                            "HloModule m\nENTRY e { m = f64[3,3] constant(%s)\n s = f64[] constant(%s)\n"
                            " b = f64[3,3] broadcast(s), dimensions={}\n a = f64[3,3] multiply(m, b)\n t = %s\n"
                            " ROOT r = f64[3] get-tuple-element(t), index=%lld }\n",
                            calls[c].matrix, scales[s], calls[c].call, (long long)calls[c].index);
            HloLiteral *result = run_floats(text.data, NULL, NULL, &status);
            cr_assert_null(status, "%s", hlo_status_message(status));
            for (int64_t i = 0; i < calls[c].values; i++) {
                double value = hlo_literal_get_double(result, i);
                if (s == 0) plain[i] = value;
                cr_expect_float_eq(value / atof(scales[s]), plain[i], 1e-12, "case %zu, times %s: value %lld is %g", c,
                                   scales[s], (long long)i, value);
            }
            hlo_literal_free(result);
            hlo_text_free(&text);
        }
    }
}

CaseList(custom_calls, misfit) {
    static Check checks[] = {
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n"
         " ROOT t = (f32[3,3], s32[1], s32[3]) custom-call(a), custom_call_target=\"LuDecomposition\" }\n"},
        {"HloModule m\nENTRY e { a = f32[3,3] parameter(0)\n"
         " ROOT t = (f32[3,3], f64[3]) custom-call(a), custom_call_target=\"Eigh\" }\n"},
        {"HloModule m\nENTRY e { a = f32[9] parameter(0)\n ROOT t = (f32[9], f32[3]) custom-call(a), "
         "custom_call_target=\"Qr\" }\n"},
        {"HloModule m\nENTRY e { a = f32[2,4] parameter(0)\n"
         " ROOT t = (f32[2,5], s32[2,5]) custom-call(a), custom_call_target=\"TopK\" }\n"},
        {"HloModule m\nENTRY e { a = f32[2,4] parameter(0)\n ROOT t = f32[9] custom-call(a), "
         "custom_call_target=\"Sharding\" }\n"},
        {"HloModule m\nENTRY e { a = f32[2,4] parameter(0)\n ROOT t = f64[2,4] custom-call(a), "
         "custom_call_target=\"mhlo.erf\" }\n"},
    };
    return cr_make_param_array(Check, checks, HLO_COUNT_OF(checks));
}

CaseTest(Check *check, custom_calls, misfit) {
    const float values[16] = {0};
    HloStatus status;
    HloLiteral *result = run_floats(check->text, values, NULL, &status);
    cr_expect_null(result);
    expect_error(status, HLO_INVALID_ARGUMENT, "%t");
}
