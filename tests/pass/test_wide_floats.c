// SPDX-License-Identifier: Apache-2.0
// The copy of a program in f64: its results, and programs without one.
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/eval/eval.h"
#include "hlo/pass/wide_floats.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct WideCase {
    const char *parameters, *root, *called;
} WideCase;

static const WideCase accepted[] = {
    {"f32[4,4]", "(f32[4,4], s32[4], s32[]) custom-call(p0), custom_call_target=\"lapack_sgetrf_ffi\"", ""},
    {"c64[4,4]", "(c64[4,4], f32[4], s32[]) custom-call(p0), custom_call_target=\"lapack_cheevd_ffi\"", ""},
    {"bf16[4,4];bf16[4,4]",
     "f32[4,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32", ""},
    {"f32[8]", "c64[5] fft(p0), fft_type=RFFT, fft_length={8}", ""},
    {"u32[4]", "f32[4] bitcast-convert(p0)", ""},
    {"f16[4]", "s8[4] convert(p0)", ""},
    {"f32[4]", "f8e4m3fn[4] convert(p0)", ""},
    {"(f32[2], (bf16[], s32[]))", "(bf16[], s32[]) get-tuple-element(p0), index=1", ""},
    {"f32[2,5];f32[]", "f32[2] reduce(p0, p1), dimensions={1}, to_apply=add",
     "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }"},
};

static const WideCase refused[] = {
    {"f32[4]", "s32[4] bitcast-convert(p0)", ""},
    {"f32[];f32[]", "f32[4] rng(p0, p1), distribution=rng_uniform", ""},
    {"f32[4];u32[4]", "bf16[4] stochastic-convert(p0, p1)", ""},
    {"f32[4]", "f32[4] custom-call(p0), custom_call_target=\"unheard of\"", ""},
};

static HloModule *parse(const WideCase *test) {
    HloText text = {0};
    cases_program(&text, test->parameters, test->root, test->called);
    HloModule *module = compiled_must_parse(text.data);
    hlo_text_free(&text);
    return module;
}

static bool has_narrow(const HloShape *shape) {
    for (int32_t i = 0; hlo_shape_is_tuple(shape) && i < shape->element_count; i++)
        if (has_narrow(shape->elements[i])) return true;
    return hlo_wide_float_type(shape->type) != shape->type;
}

CaseList(wide_floats, are_made) {
    return cases_numbered(HLO_COUNT_OF(accepted));
}

CaseTest(const int *index, wide_floats, are_made) {
    HloModule *module = parse(&accepted[*index]), *wide;
    must_succeed(hlo_wide_floats(module, &wide));
    cr_expect_not(has_narrow(wide->entry->root->shape));
    HloArena *arena = hlo_arena_new();
    const HloLiteral *arguments[2];
    HloLiteral *narrow[2], *result;
    const int64_t count = module->entry->parameters.count;
    for (int64_t p = 0; p < count; p++) {
        narrow[p] = compiled_random(module->entry->parameters.items[p]->shape, (uint64_t)p + 1);
        arguments[p] = hlo_wide_floats_literal(arena, narrow[p]);
        cr_expect_not(has_narrow(arguments[p]->shape));
    }
    must_succeed(hlo_evaluate(wide, arguments, count, NULL, &result));
    for (int64_t p = 0; p < count; p++) hlo_literal_free(narrow[p]);
    hlo_literal_free(result);
    hlo_arena_free(arena);
    hlo_module_free(wide);
    hlo_module_free(module);
}

CaseList(wide_floats, are_refused) {
    return cases_numbered(HLO_COUNT_OF(refused));
}

CaseTest(const int *index, wide_floats, are_refused) {
    HloModule *module = parse(&refused[*index]), *wide;
    must_fail(hlo_wide_floats(module, &wide), HLO_UNIMPLEMENTED, "%r (");
    cr_expect_null(wide);
    hlo_module_free(module);
}

// A third of one is rounded to f64 only.
Test(wide_floats, have_the_precision_of_f64) {
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n a = f32[] constant(1)\n b = f32[] constant(3)\n c = f32[] divide(a, b)\n ROOT d = "
        "bf16[] convert(c)\n}\n");
    HloModule *wide;
    HloLiteral *result;
    must_succeed(hlo_wide_floats(module, &wide));
    must_succeed(hlo_evaluate(wide, NULL, 0, NULL, &result));
    cr_expect_eq(hlo_literal_get_double(result, 0), 1.0 / 3.0);
    hlo_literal_free(result);
    hlo_module_free(wide);
    hlo_module_free(module);
}
