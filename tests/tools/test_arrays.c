// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>

#include "hlo/analysis/closeness.h"
#include "hlo/ir/literal_values.h"
#include "tools/arrays.h"
#include "tools/machine.h"
#include "tools/program.h"

static HloLiteral *new_array(HloType type, int64_t count) {
    HloArena *arena = hlo_arena_new();
    HloLiteral *literal = hlo_literal_new(hlo_shape_array(arena, type, &count, 1));
    hlo_arena_free(arena);
    cr_assert_not_null(literal);
    return literal;
}

// The first output of splitmix64 from seed 0 is 0xE220A8397B1DCDAF (Vigna's reference code); it seeds input 0.
static uint64_t reference_splitmix64(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

Test(tools_arrays, the_filler_is_what_the_help_says) {
    uint64_t seed = 0;
    uint64_t state = reference_splitmix64(&seed);
    cr_assert_eq(state, UINT64_C(0xE220A8397B1DCDAF));
    HloLiteral *literal = new_array(HLO_F64, 4);
    hlo_literal_fill_random(literal, 0, 0);
    for (int i = 0; i < 4; ++i) {
        double u = (double)(reference_splitmix64(&state) >> 11) * 0x1p-53;
        cr_assert_eq(hlo_literal_get_double(literal, i), 2 * u - 1);
    }
    hlo_literal_free(literal);
}

Test(tools_arrays, the_filler_stays_in_range) {
    static const struct {
        HloType type;
        int64_t limit;
    } cases[] = {{HLO_S32, 16}, {HLO_U8, 16}, {HLO_S4, 8}, {HLO_U4, 16}, {HLO_S2, 2}, {HLO_U2, 4}, {HLO_PRED, 2}};
    for (size_t c = 0; c < HLO_COUNT_OF(cases); ++c) {
        HloLiteral *literal = new_array(cases[c].type, 1000);
        int64_t largest = -1;
        hlo_literal_fill_random(literal, 7, 3);
        for (int64_t i = 0; i < 1000; ++i) {
            int64_t value = hlo_literal_get_int64(literal, i);
            cr_assert(value >= 0 && value < cases[c].limit, "%s", hlo_type_text(cases[c].type));
            if (value > largest) largest = value;
        }
        cr_assert_eq(largest, cases[c].limit - 1);
        hlo_literal_free(literal);
    }
}

static HloDifference compare(HloType type, double expected, double actual, double relative, double absolute) {
    HloLiteral *a = new_array(type, 3), *b = new_array(type, 3);
    HloTolerance tolerance = {relative, absolute, type, false, 0};
    hlo_literal_set_double(a, 2, expected);
    hlo_literal_set_double(b, 2, actual);
    HloDifference difference = hlo_literal_compare(a, b, &tolerance);
    hlo_literal_free(a);
    hlo_literal_free(b);
    return difference;
}

Test(tools_arrays, compares_within_tolerances) {
    cr_assert_eq(compare(HLO_F32, 1.0, 1.0 + 1e-6, -1, -1).count, 0);
    cr_assert_eq(compare(HLO_F32, 1.0, 1.01, -1, -1).count, 1);
    cr_assert_eq(compare(HLO_F32, 1.0, 1.01, 0.02, -1).count, 0);
    cr_assert_eq(compare(HLO_F32, 1.0, 1.01, -1, 0.02).count, 0);
    cr_assert_eq(compare(HLO_F32, 1.0, 1.0 + 1e-6, 0, 0).count, 1);
    cr_assert_eq(compare(HLO_BF16, 1.0, 1.0078125, -1, -1).count, 0);
    cr_assert_eq(compare(HLO_S32, 7, 8, -1, -1).count, 1);
    cr_assert_eq(compare(HLO_S32, 7, 8, -1, 1).count, 0);
    cr_assert_eq(compare(HLO_F32, NAN, NAN, -1, -1).count, 0);
    cr_assert_eq(compare(HLO_F32, NAN, 1, -1, -1).count, 1);
    cr_assert_eq(compare(HLO_F32, INFINITY, INFINITY, -1, -1).count, 0);
    cr_assert_eq(compare(HLO_F32, INFINITY, -INFINITY, -1, -1).count, 1);
    cr_assert_eq(compare(HLO_F32, INFINITY, 1, -1, -1).count, 1);
}

Test(tools_arrays, says_where_the_first_difference_is) {
    HloDifference difference = compare(HLO_F64, 2.0, 3.0, -1, -1);
    cr_assert_eq(difference.first, 2);
    cr_assert_eq(difference.expected, 2.0);
    cr_assert_eq(difference.actual, 3.0);
    cr_assert_eq(difference.error, 1.0);
    cr_assert_float_eq(difference.largest_relative, 1.0 / (2.0 / sqrt(3.0)), 1e-12);
}

Test(tools_program, formats_are_recognised_by_content) {
    static const struct {
        const char *text;
        size_t size;
        CliFormat format;
    } cases[] = {
        {"HloModule m\n", 12, CLI_FORMAT_HLO_TEXT},
        {"// a comment\n\nHloModule m\n", 26, CLI_FORMAT_HLO_TEXT},
        {"ENTRY e {}", 10, CLI_FORMAT_HLO_TEXT},
        {"", 0, CLI_FORMAT_HLO_TEXT},
        {"module @jit_f {\n", 16, CLI_FORMAT_STABLEHLO_TEXT},
        {"// c\nmodule {\n", 14, CLI_FORMAT_STABLEHLO_TEXT},
        {"#loc1 = loc(\"x\")\n", 17, CLI_FORMAT_STABLEHLO_TEXT},
        {"ML\xEFR\x0DStableHLO_v1", 18, CLI_FORMAT_BYTECODE},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); ++i) {
        cr_assert_eq(cli_format_detect(cases[i].text, cases[i].size), cases[i].format, "%s", cases[i].text);
    }
}

static const CliVerb kVerb = {.name = "try"};

Test(tools_machine, reads_meshes) {
    CliContext context = {.verb = &kVerb, .arena = hlo_arena_new()};
    CliMesh mesh;
    cr_assert_null(cli_mesh_parse(&context, "x=4,y=2", &mesh));
    cr_assert_eq(mesh.count, 2);
    cr_assert_eq(mesh.devices, 8);
    cr_assert_str_eq(mesh.axes[1].name, "y");
    cr_assert_null(cli_mesh_parse(&context, "4,2", &mesh));
    cr_assert_str_eq(mesh.axes[0].name, "axis0");
    cr_assert_null(cli_mesh_parse(&context, NULL, &mesh));
    cr_assert_eq(mesh.count, 0);
    static const char *const kBad[] = {"", "x=", "=4", "x=0", "x=-1", "x=4,", "x=4,x=2", "x=4y", "x=1024,y=1024,z=2"};
    for (size_t i = 0; i < HLO_COUNT_OF(kBad); ++i) {
        HloStatus status = cli_mesh_parse(&context, kBad[i], &mesh);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", kBad[i]);
        hlo_status_free(status);
    }
    hlo_arena_free(context.arena);
}

// Distances of three elements from a run in f64, and whether that makes the arrays ill-conditioned.
static bool ill_conditioned(const double *reference, const double *expected, const double *actual) {
    HloLiteral *r = new_array(HLO_F64, 3), *e = new_array(HLO_F32, 3), *a = new_array(HLO_F32, 3);
    for (int i = 0; i < 3; ++i) {
        hlo_literal_set_double(r, i, reference[i]);
        hlo_literal_set_double(e, i, expected[i]);
        hlo_literal_set_double(a, i, actual[i]);
    }
    const HloTolerance tolerance = {-1, -1, HLO_F32, false, 0};
    const HloDistances distances = hlo_literal_distances(r, e, a, &tolerance);
    hlo_literal_free(r);
    hlo_literal_free(e);
    hlo_literal_free(a);
    return distances.ill_conditioned;
}

// Four units in the last place of bf16 cover four roundings in a row. The tolerance of single elements grows with the
// square root of more, up to eight times; a wrong factor, which moves all elements, is found at any depth.
Test(tools_arrays, bug_tolerances_follow_the_number_of_roundings) {
    enum { COUNT = 64 };
    static const struct {
        HloType type;
        double relative_error;
        int moved;
        double roundings;
        int64_t differing;
    } kCases[] = {{HLO_BF16, 0.20, 1, 0, 1},
                  {HLO_BF16, 0.20, 1, 4, 1},
                  {HLO_BF16, 0.20, 1, 400, 0},
                  {HLO_BF16, 0.75, 1, 1e12, 1},
                  {HLO_BF16, 0.05, COUNT, 400, 0},
                  {HLO_BF16, 0.10, COUNT, 400, COUNT},
                  {HLO_BF16, 0.10, COUNT, 1e15, COUNT},
                  {HLO_BF16, -2, COUNT, 1e15, COUNT},
                  {HLO_BF16, -1, COUNT, 1e15, COUNT},
                  {HLO_F32, 5e-4, 1, 1000, 1},
                  {HLO_F32, 5e-4, 1, 1e8, 0},
                  {HLO_F32, 5e-4, COUNT, 1e8, COUNT},
                  {HLO_F32, NAN, 1, 1e8, 1}};
    for (size_t c = 0; c < HLO_COUNT_OF(kCases); c++) {
        HloLiteral *a = new_array(kCases[c].type, COUNT), *b = new_array(kCases[c].type, COUNT);
        const HloTolerance tolerance = {-1, -1, kCases[c].type, false, kCases[c].roundings};
        for (int i = 0; i < COUNT; i++) {
            hlo_literal_set_double(a, i, 1);
            hlo_literal_set_double(b, i, i < kCases[c].moved ? 1 + kCases[c].relative_error : 1);
        }
        cr_expect_eq(hlo_literal_compare(a, b, &tolerance).count, kCases[c].differing, "case %zu", c);
        hlo_literal_free(a);
        hlo_literal_free(b);
    }
}

Test(tools_arrays, only_rounding_errors_of_both_runs_are_ill_conditioned) {
    const double reference[] = {1, -2, 3};
    const double far[] = {1.1, -2.1, 2.9}, farther[] = {1.2, -1.8, 3.1}, beyond[] = {1, -2, 9};
    const double near[] = {1.0000001, -2, 3}, one_wrong[] = {1, -2, 3.1}, none[] = {NAN, -2, 3};
    cr_expect(ill_conditioned(reference, far, farther));
    cr_expect(ill_conditioned(reference, farther, far));
    // A mistake in the engine: the evaluator is where f64 is.
    cr_expect_not(ill_conditioned(reference, near, one_wrong));
    cr_expect_not(ill_conditioned(reference, reference, one_wrong));
    // Farther by more than rounding explains, or no number at all.
    cr_expect_not(ill_conditioned(reference, far, beyond));
    cr_expect_not(ill_conditioned(reference, far, none));
}
