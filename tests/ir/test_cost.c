// SPDX-License-Identifier: Apache-2.0
// Costs against XLA's (jaxlib 0.10.2, hlo_module_cost_analysis on the same texts).
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hlo/analysis/cost.h"
#include "hlo/analysis/loop.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"

typedef struct CostCase {
    const char *parameters;  // separated by semicolons
    const char *root;
    const char *called;
    double flops, transcendentals, bytes;
} CostCase;

#define ADD "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a, b)\n}\n"
#define LESS "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = pred[] compare(a, b), direction=LT\n}\n"
#define BODY                                                                                       \
    "c {\n a = f32[10,20] parameter(0)\n b = f32[10,20] parameter(1)\n d = f32[10,20] add(a, b)\n" \
    " ROOT t = f32[10,20] exponential(d)\n}\n"

static const CostCase cases[] = {
    {"f32[10,20];f32[10,20]", "f32[10,20] add(p0, p1)", "", 200, 0, 2400},
    {"f32[10,20]", "f32[10,20] exponential(p0)", "", 0, 200, 1600},
    {"f32[10,20];f32[10,20]", "f32[10,20] power(p0, p1)", "", 0, 200, 2400},
    {"f32[10,20]", "f32[20,10] transpose(p0), dimensions={1,0}", "", 0, 0, 1600},
    {"f32[10,20]", "f32[200] bitcast(p0)", "", 0, 0, 0},
    {"f32[10]", "f32[10,20] broadcast(p0), dimensions={0}", "", 0, 0, 840},
    {"f32[10,20]", "bf16[10,20] convert(p0)", "", 200, 0, 1200},
    {"pred[10,20];f32[10,20];f32[10,20]", "f32[10,20] select(p0, p1, p2)", "", 200, 0, 2600},
    {"f32[10,20]", "f32[5,20] slice(p0), slice={[0:5],[0:20]}", "", 0, 0, 800},
    {"f32[10,20];f32[]", "f32[12,20] pad(p0, p1), padding=1_1x0_0", "", 0, 0, 1764},
    {"f32[10,20];f32[20,30]", "f32[10,30] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", 12000,
     0, 4400},
    {"f32[10,20];f32[]", "f32[10] reduce(p0, p1), dimensions={1}, to_apply=c", ADD, 190, 0, 844},
    {"f32[10,20];f32[]", "f32[9,20] reduce-window(p0, p1), window={size=2x1}, to_apply=c", ADD, 180, 0, 1524},
    {"f32[4,8,8,3];f32[3,3,3,16]",
     "f32[4,4,4,16] convolution(p0, p1), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", "",
     46464, 0, 8896},
    {"f32[4,8,8,3];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0, p1), window={size=3x3}, dim_labels=b01f_01io->b01f",
     "", 124416, 0, 14016},
    {"f32[10,20]", "c64[10,11] fft(p0), fft_type=RFFT, fft_length={20}", "", 6400, 0, 1680},
    {"f32[10,10]", "f32[10,10] cholesky(p0), lower=true", "", 333, 0, 400},
    {"f32[10,10];f32[10,20]",
     "f32[10,20] triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "", 4000, 0, 1800},
    {"f32[100]", "f32[100] sort(p0), dimensions={0}, to_apply=c", LESS, 700, 0, 800},
    {"f32[30,40,5];s32[6,2]",
     "f32[6,5] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0,1}, start_index_map={0,1}, "
     "index_vector_dim=1, slice_sizes={1,1,5}",
     "", 0, 0, 288},
    {"f32[30,40,5];s32[6,2];f32[6,5]",
     "f32[30,40,5] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0,1}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=c",
     ADD, 30, 0, 408},
    {"f32[10,20];f32[10,20]", "f32[10,20] map(p0, p1), dimensions={0,1}, to_apply=c", ADD, 200, 0, 2400},
    {"f32[10,20]", "f32[10,20] all-reduce(p0), replica_groups={}, to_apply=c", ADD, 200, 0, 1600},
    {"f32[10,20]", "f32[20,20] all-gather(p0), replica_groups={{0,1}}, dimensions={0}", "", 0, 0, 2400},
    {"u64[2]", "(u64[2], u32[50]) rng-bit-generator(p0), algorithm=rng_default", "", 0, 52, 232},
    {"f32[10,20];f32[10,20]", "f32[10,20] fusion(p0, p1), kind=kLoop, calls=c", BODY, 200, 200, 2400},
    {"f32[10,20];f32[10,20]", "f32[10,20] call(p0, p1), to_apply=c", BODY, 200, 200, 4000},
};

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

CaseList(ir_cost, is_what_xla_counts) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, ir_cost, is_what_xla_counts) {
    const CostCase *one = &cases[*index];
    HloText text = {0};
    cases_program(&text, one->parameters, one->root, one->called);
    HloModule *module = parse(text.data);
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    HloCost cost = hlo_cost_of_computation(analysis, module->entry);
    cr_expect_eq(cost.flops, one->flops, "%s: %g flops", one->root, cost.flops);
    cr_expect_eq(cost.transcendentals, one->transcendentals, "%s: %g", one->root, cost.transcendentals);
    double bytes = cost.bytes_read + cost.bytes_written;
    cr_expect_eq(bytes, one->bytes, "%s: %g bytes", one->root, bytes);
    hlo_cost_analysis_free(analysis);
    hlo_module_free(module);
    hlo_text_free(&text);
}

#define LOOP(start, compare, step)                                                                        \
    "HloModule m\n\nb {\n s = (s32[], f32[100]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" \
    " x = f32[100] get-tuple-element(s), index=1\n k = s32[] constant(" step                              \
    ")\n n = s32[] add(i, k)\n"                                                                           \
    " y = f32[100] add(x, x)\n ROOT t = (s32[], f32[100]) tuple(n, y)\n}\n"                               \
    "c {\n s = (s32[], f32[100]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"                \
    " l = s32[] constant(10)\n ROOT t = pred[] compare(" compare                                          \
    "\n}\n"                                                                                               \
    "ENTRY e {\n z = s32[] constant(" start                                                               \
    ")\n x = f32[100] parameter(0)\n"                                                                     \
    " t = (s32[], f32[100]) tuple(z, x)\n ROOT w = (s32[], f32[100]) while(t), condition=c, body=b\n}\n"

static int64_t trips(const char *text) {
    HloModule *module = parse(text);
    int64_t count = hlo_trip_count(module->entry->root);
    hlo_module_free(module);
    return count;
}

Test(ir_cost, counts_loops) {
    cr_expect_eq(trips(LOOP("0", "i, l), direction=LT", "1")), 10);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=LE", "1")), 11);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=LT", "3")), 4);
    cr_expect_eq(trips(LOOP("0", "l, i), direction=GT", "3")), 4);
    cr_expect_eq(trips(LOOP("12", "i, l), direction=LT", "1")), 0);
    cr_expect_eq(trips(LOOP("12", "i, l), direction=GT", "-1")), 2);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=NE", "5")), 2);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=NE", "3")), -1);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=GT", "1")), -1);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=LT", "0")), -1);
    cr_expect_eq(trips(LOOP("0", "i, l), direction=LT", "2147483647")), 1);
    cr_expect_eq(trips(LOOP("9", "i, l), direction=LT", "2147483647")), -1);
}

// Computations that several callers share run for each of them; one that a loop calls as often as the loop runs.
Test(ir_cost, counts_runs_of_computations) {
    HloModule *module = parse(
        "HloModule m\n"
        "f {\n x = f32[] parameter(0)\n ROOT y = f32[] add(x, x)\n}\n"
        "b {\n s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " x = f32[] get-tuple-element(s), index=1\n k = s32[] constant(1)\n n = s32[] add(i, k)\n"
        " y = f32[] call(x), to_apply=f\n ROOT t = (s32[], f32[]) tuple(n, y)\n}\n"
        "c {\n s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " l = s32[] constant(10)\n ROOT t = pred[] compare(i, l), direction=LT\n}\n"
        "ENTRY e {\n z = s32[] constant(0)\n x = f32[] parameter(0)\n y = f32[] call(x), to_apply=f\n"
        " t = (s32[], f32[]) tuple(z, y)\n ROOT w = (s32[], f32[]) while(t), condition=c, body=b\n}\n");
    double runs[16] = {0};
    cr_assert_leq(module->computation_limit, 16);
    for (int64_t i = 0; i < module->computations.count; i++) {
        const HloComputation *computation = module->computations.items[i];
        const double expected = strcmp(computation->name, "f") == 0 ? 11 : computation == module->entry ? 1 : 10;
        cr_expect_eq(hlo_computation_runs(computation, runs), expected, "%s", computation->name);
    }
    hlo_module_free(module);
}

static int64_t bound_of(const char *join) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\nb {\n s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                    " x = f32[] get-tuple-element(s), index=1\n k = s32[] constant(1)\n n = s32[] add(i, k)\n"
                    " y = f32[] add(x, x)\n ROOT t = (s32[], f32[]) tuple(n, y)\n}\n"
                    "c {\n s = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                    " x = f32[] get-tuple-element(s), index=1\n l = s32[] constant(10)\n m = s32[] constant(8)\n"
                    " p = pred[] compare(i, l), direction=LT\n q = pred[] compare(i, m), direction=LT\n"
                    " h = f32[] constant(100)\n r = pred[] compare(x, h), direction=LT\n"
                    " no = pred[] constant(false)\n u = pred[] compare(q, no), direction=NE\n"
                    " v = pred[] convert(u)\n a = pred[] %s(p, r)\n ROOT t = pred[] %s(v, a)\n}\n"
                    "ENTRY e {\n z = s32[] constant(0)\n x = f32[] parameter(0)\n t = (s32[], f32[]) tuple(z, x)\n"
                    " ROOT w = (s32[], f32[]) while(t), condition=c, body=b\n}\n",
                    join, join);
    HloModule *module = parse(text.data);
    cr_expect_eq(hlo_trip_count(module->entry->root), -1);
    int64_t bound = hlo_trip_bound(module->entry->root);
    hlo_module_free(module);
    hlo_text_free(&text);
    return bound;
}

// A loop ends when one part of a conjunction does, also where JAX compares that part with false once more.
Test(ir_cost, bounds_loops) {
    cr_expect_eq(bound_of("and"), 8);
    cr_expect_eq(bound_of("or"), -1);
}

// 2^32-1 is above ten as u32 and below it as s32, which is how the condition reads it.
Test(ir_cost, bug_a_counter_read_as_another_type_was_counted) {
    cr_expect_eq(
        trips("HloModule m\nb {\n s = (u32[]) parameter(0)\n i = u32[] get-tuple-element(s), index=0\n"
              " k = u32[] constant(1)\n n = u32[] add(i, k)\n ROOT t = (u32[]) tuple(n)\n}\n"
              "c {\n s = (u32[]) parameter(0)\n i = u32[] get-tuple-element(s), index=0\n"
              " j = s32[] bitcast(i)\n l = s32[] constant(10)\n ROOT t = pred[] compare(j, l), direction=LT\n}\n"
              "ENTRY e {\n z = u32[] constant(4294967295)\n t = (u32[]) tuple(z)\n"
              " ROOT w = (u32[]) while(t), condition=c, body=b\n}\n"),
        -1);
}

Test(ir_cost, loops_cost_their_trips) {
    HloModule *module = parse(LOOP("0", "i, l), direction=LT", "1"));
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    HloCost cost = hlo_cost_of_instruction(analysis, module->entry->root);
    // Ten bodies of 101 additions, eleven comparisons.
    cr_expect_eq(cost.flops, 10 * 101 + 11);
    hlo_cost_analysis_free(analysis);
    hlo_module_free(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// Convolutions

static double convolution_flops(const char *input, const char *kernel, const char *output, const char *window) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m\nENTRY e {\n p = s8[1,%s,1] parameter(0)\n q = s8[%s,1,1] parameter(1)\n"
                    " ROOT c = s8[1,%s,1] convolution(p, q), window={%s}, dim_labels=b0f_0io->b0f\n}\n",
                    input, kernel, output, window);
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
    cr_assert_null(status, "%s: %s", text.data, hlo_status_message(status));
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    HloCost cost = hlo_cost_of_instruction(analysis, module->entry->root);
    hlo_cost_analysis_free(analysis);
    hlo_module_free(module);
    hlo_text_free(&text);
    return cost.flops;
}

// Each pair of an output and a window position is looked at here.
Test(ir_cost, convolutions_count_the_positions_that_meet_an_element) {
    uint32_t state = 1;
    int64_t tried = 0;
    while (tried < 300) {
        int64_t n[7];
        for (int i = 0; i < 7; i++) state = state * 1664525 + 1013904223, n[i] = state >> 16 & 0xff;
        const int64_t base = n[0] % 12 + 1, size = n[1] % 12 + 1, stride = n[2] % 3 + 1, low = n[3] % 10 - 2;
        const int64_t high = n[4] % 10 - 2, dilation = n[5] % 3 + 1, gaps = n[6] % 3 + 1;
        const int64_t extent = (base - 1) * gaps + 1, room = extent + low + high - (size - 1) * dilation - 1;
        if (room < 0) continue;
        const int64_t output = room / stride + 1;
        double pairs = 0;
        for (int64_t o = 0; o < output; o++) {
            for (int64_t k = 0; k < size; k++) {
                const int64_t at = o * stride + k * dilation - low;
                pairs += at >= 0 && at < extent && at % gaps == 0;
            }
        }
        char input[24], kernel[24], result[24], window[160];
        snprintf(input, sizeof input, "%lld", (long long)base);
        snprintf(kernel, sizeof kernel, "%lld", (long long)size);
        snprintf(result, sizeof result, "%lld", (long long)output);
        snprintf(window, sizeof window, "size=%lld stride=%lld pad=%lld_%lld lhs_dilate=%lld rhs_dilate=%lld",
                 (long long)size, (long long)stride, (long long)low, (long long)high, (long long)gaps,
                 (long long)dilation);
        cr_expect_eq(convolution_flops(input, kernel, result, window), 2 * pairs, "%s of %s", window, input);
        tried++;
    }
}

// bug: the positions of a window were visited one by one, whatever their number; these took hours.
Test(ir_cost, bug_windows_of_any_size_take_no_time) {
    // Every element meets each position once.
    const double all = convolution_flops("1000000000000", "1000000000000", "1999999999999",
                                         "size=1000000000000 pad=999999999999_999999999999");
    cr_expect(fabs(all - 2e24) < 1e18, "%g", all);
    cr_expect_eq(convolution_flops("3", "1000000000000", "2", "size=1000000000000 pad=999999999998_0"), 10);
    cr_expect_eq(convolution_flops("1", "1000000000000", "0", "size=1000000000000 lhs_dilate=2"), 0);
    // The middle half of a window that sticks out on both sides of every place of it.
    const double flops = convolution_flops("1000000000000", "1000000000000", "1000000000001",
                                           "size=1000000000000 pad=500000000000_500000000000");
    cr_expect(fabs(flops - 1.5e24) < 1e20, "%g", flops);
}
