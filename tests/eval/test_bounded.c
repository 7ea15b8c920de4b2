// SPDX-License-Identifier: Apache-2.0
// Arrays of bounded dynamic size in the evaluator. The numbers are those of XLA:CPU (jaxlib 0.10.2) but for reductions
// from another value than the identity, to which XLA adds that value once for every missing element.
#include <criterion/criterion.h>

#include "run.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct SizedCase {
    const char *instructions;
    int64_t count;
    float want[16];
} SizedCase;

// p = 1 … 8, d = p cut to three elements.
static const SizedCase cases[] = {
    {"zero = f32[] constant(0)\n ROOT r = f32[] reduce(d, zero), dimensions={0}, to_apply=add", 1, {6}},
    {"five = f32[] constant(5)\n ROOT r = f32[] reduce(d, five), dimensions={0}, to_apply=add", 1, {11}},
    {"a = f32[<=8] add(d, d)\n k = s32[] constant(8)\n ROOT r = f32[8] set-dimension-size(a, k), dimensions={0}",
     8,
     {2, 4, 6, 8, 10, 12, 14, 16}},
    {"ROOT r = f32[<=8] add(d, d)", 3, {2, 4, 6}},
    {"ROOT r = f32[<=8] reverse(d), dimensions={0}", 3, {3, 2, 1}},
    {"ROOT r = f32[<=16] concatenate(d, d), dimensions={0}", 6, {1, 2, 3, 1, 2, 3}},
    {"zero = f32[] constant(0)\n ROOT r = f32[<=12] pad(d, zero), padding=1_3", 7, {0, 1, 2, 3, 0, 0, 0}},
    {"k = s32[] constant(6)\n e = f32[<=8] set-dimension-size(p, k), dimensions={0}\n ROOT r = f32[<=8] add(d, e)",
     3,
     {2, 4, 6}},
    {"k = s32[] constant(1)\n e = f32[<=8] set-dimension-size(p, k), dimensions={0}\n ROOT r = f32[<=8] add(d, e)",
     3,
     {2, 3, 4}},
    {"ROOT r = f32[<=8] add(p, d)", 3, {2, 4, 6}},
    {"ROOT r = f32[<=6] slice(d), slice={[2:8]}", 1, {3}},
    {"k = s32[] constant(5)\n ROOT r = f32[4] dynamic-slice(d, k), dynamic_slice_sizes={4}", 4, {5, 6, 7, 8}},
    {"ROOT r = f32[] dot(d, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}", 1, {14}},
};

static HloStatus run(const char *instructions, HloLiteral **result) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
                    "ENTRY e { p = f32[8] parameter(0)\n n = s32[] constant(3)\n"
                    " d = f32[<=8] set-dimension-size(p, n), dimensions={0}\n %s }\n",
                    instructions);
    const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    HloStatus status = HLO_SUCCESS;
    *result = run_floats(text.data, values, NULL, &status);
    hlo_text_free(&text);
    return status;
}

CaseList(bounded, is_as_large_as_it_turns_out_to_be) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, bounded, is_as_large_as_it_turns_out_to_be) {
    const SizedCase *test = &cases[*index];
    HloLiteral *result;
    must_succeed(run(test->instructions, &result));
    cr_assert_eq(hlo_shape_elements(result->shape), test->count, "%s: %lld elements", test->instructions,
                 (long long)hlo_shape_elements(result->shape));
    expect_floats(result, test->want, test->count);
    hlo_literal_free(result);
}

typedef struct WrongCase {
    HloCode code;
    const char *instructions, *words;
} WrongCase;

static const WrongCase wrong[] = {
    {HLO_INVALID_ARGUMENT, "k = s32[] constant(9)\n ROOT r = f32[<=8] set-dimension-size(p, k), dimensions={0}",
     "beyond the bound"},
    {HLO_INVALID_ARGUMENT, "k = s32[] constant(9)\n ROOT r = f32[<=8] dynamic-reshape(d, k)", "does not fit the bound"},
    {HLO_INVALID_ARGUMENT, "k = s32[] constant(2)\n ROOT r = f32[<=8] dynamic-reshape(d, k)", "cannot become"},
    {HLO_INVALID_ARGUMENT, "ROOT r = f32[<=4,2] reshape(d)", "do not fill"},
    {HLO_INVALID_ARGUMENT, "z = f32[] constant(0)\n ROOT r = f32[<=2] pad(d, z), padding=-4_-2",
     "does not fit the sizes"},
    {HLO_UNIMPLEMENTED, "ROOT r = (f32[<=8]) custom-call(d), custom_call_target=\"other\"", "dynamic size"},
    {HLO_INVALID_ARGUMENT, "ROOT r = f32[<=8] custom-call(p, n, n), custom_call_target=\"SliceToDynamic\"",
     "SliceToDynamic"},
    {HLO_INVALID_ARGUMENT, "ROOT r = (f32[4], s32[]) custom-call(d), custom_call_target=\"PadToStatic\"",
     "PadToStatic"},
};

CaseList(bounded, refuses_sizes_that_do_not_fit) {
    return cases_numbered(HLO_COUNT_OF(wrong));
}

CaseTest(const int *index, bounded, refuses_sizes_that_do_not_fit) {
    const WrongCase *test = &wrong[*index];
    HloLiteral *result;
    expect_error(run(test->instructions, &result), test->code, test->words);
}

#define CUT(name, of, size)                                                                            \
    " " name "_size = s32[] constant(" size ")\n " name " = f32[<=8] set-dimension-size(" of ", " name \
    "_size), "                                                                                         \
    "dimensions={0}\n"

// bug: a scatter into several arrays ended in an assertion, which took their tuple for an array.
Test(bounded, bug_a_scatter_into_several_arrays_keeps_the_size_of_each) {
    HloStatus status;
    const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    HloLiteral *result = run_floats(
        "HloModule m\nboth { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
        " d = f32[] parameter(3)\n s = f32[] add(a, c)\n t = f32[] add(b, d)\n ROOT r = (f32[], f32[]) tuple(s, t) }\n"
        "ENTRY e { p = f32[8] parameter(0)\n" CUT("x", "p", "5") CUT("y", "p", "3")
        " i = s32[2,1] constant({{1},{2}})\n u = f32[2] constant({10, 20})\n"
        " ROOT r = (f32[<=8], f32[<=8]) scatter(x, y, i, u, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both }\n",
        values, NULL, &status);
    must_succeed(status);
    expect_floats(result->elements[0], (const float[]){1, 12, 23, 4, 5}, 5);
    expect_floats(result->elements[1], (const float[]){1, 12, 23}, 3);
    hlo_literal_free(result);
}

// bug: windows of updates of several sizes were read with the size of the first, past the ends of the others.
Test(bounded, bug_windows_of_several_updates_have_one_size) {
    const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int first = 0; first < 2; first++) {  // which of the updates has the smaller windows
        HloStatus status;
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule m\nboth { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
            " d = f32[] parameter(3)\n s = f32[] add(a, c)\n t = f32[] add(b, d)\n ROOT r = (f32[], f32[]) tuple(s, t) "
            "}\n"
            "ENTRY e { p = f32[8] parameter(0)\n i = s32[1] constant({2})\n u = f32[5] constant({10, 20, 30, 40, 50})\n"
            " three = s32[] constant(3)\n v = f32[<=5] set-dimension-size(u, three), dimensions={0}\n"
            " ROOT r = (f32[8], f32[8]) scatter(p, p, i, %s), update_window_dims={0}, inserted_window_dims={}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=both }\n",
            first ? "v, u" : "u, v");
        HloLiteral *result = run_floats(text.data, values, NULL, &status);
        must_succeed(status);
        for (int k = 0; k < 2; k++) expect_floats(result->elements[k], (const float[]){1, 2, 13, 24, 35, 6, 7, 8}, 8);
        hlo_literal_free(result);
        hlo_text_free(&text);
    }
}

// bug: the smallest size was passed on to its neighbours only, so that four operands or more were said not to match.
Test(bounded, bug_the_smallest_of_many_operands_is_the_size_of_all) {
    const char *sizes[] = {"8", "7", "6", "5", "3"};
    const float values[] = {8, 7, 6, 5, 4, 3, 2, 1};
    for (int smallest = 0; smallest < 5; smallest++) {  // whichever operand it is
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\nless { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
                        " d = f32[] parameter(3)\n e = f32[] parameter(4)\n f = f32[] parameter(5)\n"
                        " g = f32[] parameter(6)\n h = f32[] parameter(7)\n i = f32[] parameter(8)\n"
                        " j = f32[] parameter(9)\n ROOT t = pred[] compare(a, b), direction=LT }\n"
                        "ENTRY e { p = f32[8] parameter(0)\n");
        for (int k = 0; k < 5; k++)
            hlo_text_format(&text,
                            " n%d = s32[] constant(%s)\n d%d = f32[<=8] set-dimension-size(p, n%d), dimensions={0}\n",
                            k, sizes[(k + 4 - smallest + 5) % 5], k, k);
        hlo_text_string(
            &text,
            " r = (f32[<=8], f32[<=8], f32[<=8], f32[<=8], f32[<=8]) sort(d0, d1, d2, d3, d4), dimensions={0}, "
            "to_apply=less\n ROOT x = f32[<=8] get-tuple-element(r), index=1 }\n");
        HloStatus status;
        HloLiteral *result = run_floats(text.data, values, NULL, &status);
        must_succeed(status);
        expect_floats(result, (const float[]){6, 7, 8}, 3);
        hlo_literal_free(result);
        hlo_text_free(&text);
    }
}

// bug: upper bits of a byte that holds a narrow number came in where the argument is smaller than its bound.
Test(bounded, bug_small_arguments_of_narrow_numbers_have_their_width) {
    HloModule *module = parse_text(
        "HloModule m\nENTRY e { p = s4[<=4] parameter(0)\n w = s32[<=4] convert(p)\n n = s32[] constant(2)\n"
        " ROOT r = s32[<=4] set-dimension-size(w, n), dimensions={0} }\n");
    const int64_t two = 2;
    HloLiteral *argument = hlo_literal_of(HLO_S4, (HloInts){&two, 1}, (const uint8_t[]){0x1F, 0xF7}), *result = NULL;
    must_succeed(hlo_evaluate(module, (const HloLiteral *const[]){argument}, 1, NULL, &result));
    cr_expect_eq(hlo_literal_get_int64(result, 0), -1);
    cr_expect_eq(hlo_literal_get_int64(result, 1), 7);
    hlo_literal_free(argument);
    hlo_literal_free(result);
    hlo_module_free(module);
}

// An argument may be smaller than its bound, in tuples too, and no larger.
Test(bounded, arguments_are_smaller_than_their_bounds) {
    HloModule *module = parse_text(
        "HloModule m\nENTRY e { t = (f32[<=4,2], f32[]) parameter(0)\n a = f32[<=4,2] get-tuple-element(t), index=0\n"
        " s = s32[] get-dimension-size(a), dimensions={0}\n ROOT r = (s32[], f32[<=4,2]) tuple(s, a) }\n");
    HloArena *arena = hlo_arena_new();
    for (int64_t rows = 0; rows <= 5; rows++) {
        const HloShape *parts[] = {hlo_shape_array(arena, HLO_F32, (const int64_t[]){rows, 2}, 2),
                                   hlo_shape_scalar(arena, HLO_F32)};
        HloLiteral *argument = compiled_random(hlo_shape_tuple(arena, parts, 2), 3), *result = NULL;
        const HloLiteral *arguments[] = {argument};
        HloStatus status = hlo_evaluate(module, arguments, 1, NULL, &result);
        if (rows > 4) {
            expect_error(status, HLO_INVALID_ARGUMENT, "expected");
        } else {
            must_succeed(status);
            cr_expect_eq(hlo_literal_get_int64(result->elements[0], 0), rows);
            cr_expect(hlo_literal_equal(result->elements[1], argument->elements[0]), "%lld rows", (long long)rows);
        }
        hlo_literal_free(argument);
        hlo_literal_free(result);
    }
    hlo_arena_free(arena);
    hlo_module_free(module);
}
