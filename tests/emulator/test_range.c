// SPDX-License-Identifier: Apache-2.0
// The range of a step time: the values in it, the causes that widen it, and the sources that it names.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/emulator.h"
#include "emulator/report/range.h"
#include "hlo/text/text.h"
#include "tests/emulator/simulated.h"

static double share_of(const EmuReport *report, const char *name, int64_t *rows, int64_t *here) {
    for (int64_t i = 0; i < report->range_part_count; i++) {
        if (strcmp(report->range_parts[i].name, name) != 0) continue;
        *rows = report->range_parts[i].rows;
        *here = report->range_parts[i].rows_here;
        return report->range_parts[i].share;
    }
    return 0;
}

// High minus low over the step.
static double width_of(const EmuReport *report) {
    cr_assert(report->step_low_picoseconds > 0 && report->step_low_picoseconds <= report->step_picoseconds);
    cr_assert_geq(report->step_high_picoseconds, report->step_picoseconds);
    return (double)(report->step_high_picoseconds - report->step_low_picoseconds) / (double)report->step_picoseconds;
}

#define DOT(n)                                                                          \
    "HloModule d\nENTRY e { a = bf16[" #n "," #n "] parameter(0)\n b = bf16[" #n "," #n \
    "] parameter(1)\n"                                                                  \
    " ROOT c = bf16[" #n "," #n "] dot(a,b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"

static const char kSort[] =
    "HloModule s\nless { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT c = pred[] compare(x,y), direction=LT "
    "}\n"
    "ENTRY e { a = f32[1048576] parameter(0)\n ROOT r = f32[1048576] sort(a), dimensions={0}, to_apply=less }";

Test(emulator_range, products_are_measured_and_sorts_guessed) {
    int64_t rows = 0, here = 0;
    EmuReport *product = simulated(DOT(8192), "v6e-1"), *sort = simulated(kSort, "v6e-1");
    cr_expect_gt(share_of(product, "matrix products", &rows, &here), 0.95);
    cr_expect(rows >= 5 && here >= 1);
    cr_expect_gt(share_of(sort, "sorts, gathers and others", &rows, &here), 0.95);
    cr_expect_eq(rows, 0);
    cr_expect_lt(width_of(product), 0.3);
    cr_expect_gt(width_of(sort), 1, "half or twice the time");
    emu_report_free(product);
    emu_report_free(sort);
}

// Where a kind of work was never measured on a generation, its range is wider.
Test(emulator_range, is_wider_where_nothing_was_measured) {
    int64_t rows = 0, here = 0;
    EmuReport *known = simulated(DOT(8192), "v6e-1"), *unknown = simulated(DOT(8192), "v4-8");
    share_of(unknown, "matrix products", &rows, &here);
    cr_expect_eq(here, 0);
    cr_expect_gt(width_of(unknown), 1.3 * width_of(known));
    emu_report_free(known);
    emu_report_free(unknown);
}

// 200 products of 8192^3 take 0.3 s: the step is compared with published steps.
static void steps(HloText *text, bool routes) {
    hlo_text_string(text,
                    "HloModule steps\n"
                    "more { s = (s32[], bf16[8192,8192]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                    " n = s32[] constant(200)\n ROOT c = pred[] compare(i,n), direction=LT }\n"
                    "body { s = (s32[], bf16[8192,8192]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                    " x = bf16[8192,8192] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
                    " y = bf16[8192,8192] dot(x,x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                    " j = s32[] add(i,one)\n ROOT t = (s32[], bf16[8192,8192]) tuple(j,y) }\n"
                    "ENTRY e { x = bf16[8192,8192] parameter(0)\n zero = s32[] constant(0)\n"
                    " s = (s32[], bf16[8192,8192]) tuple(zero,x)\n"
                    " w = (s32[], bf16[8192,8192]) while(s), condition=more, body=body\n"
                    " y = bf16[8192,8192] get-tuple-element(w), index=1\n");
    hlo_text_string(text, routes ? " k = (bf16[8192,4], s32[8192,4]) topk(y), k=4, largest=true\n"
                                   " ROOT r = bf16[8192,4] get-tuple-element(k), index=0 }"
                                 : " ROOT r = bf16[8192,8192] negate(y) }");
}

Test(emulator_range, long_steps_are_compared_with_published_ones) {
    int64_t rows = 0, here = 0;
    HloText dense = {0}, experts = {0};
    steps(&dense, false);
    steps(&experts, true);
    EmuReport *of_dense = simulated(dense.data, "v6e-1"), *of_experts = simulated(experts.data, "v6e-1");
    cr_expect_eq(share_of(of_dense, "steps of dense models", &rows, &here), 1);
    cr_expect(rows >= 8 && here >= 7);
    cr_expect_eq(share_of(of_experts, "steps of mixtures of experts", &rows, &here), 1);
    cr_expect_gt(width_of(of_experts), width_of(of_dense));
    emu_report_free(of_dense);
    emu_report_free(of_experts);
    hlo_text_free(&dense);
    hlo_text_free(&experts);
}

Test(emulator_range, has_no_upper_end_with_unknown_calls) {
    EmuReport *report = simulated(
        "HloModule u\nENTRY e { a = f32[1024] parameter(0)\n ROOT r = f32[1024] custom-call(a), "
        "custom_call_target=\"unknown\" }",
        "v5e-1");
    cr_expect_eq(report->step_high_picoseconds, 0);
    cr_expect_gt(report->step_low_picoseconds, 0);
    HloText text = {0};
    emu_report_write_summary(report, &text);
    cr_expect_not_null(strstr(text.data, " or more"), "%s", text.data);
    text.length = 0;
    emu_report_write_json(report, &text);
    cr_expect_not_null(strstr(text.data, "\"step_high_seconds\":null"), "%s", text.data);
    hlo_text_free(&text);
    emu_report_free(report);
}

// "likely 913–1e+03 µs" of a step just below a millisecond.
Test(emulator_range, bug_numbers_from_a_thousand_on_had_an_exponent) {
    static const struct {
        EmuReport report;
        const char *expected;
    } kCases[] = {
        {{.step_picoseconds = 944000000, .step_low_picoseconds = 912600000, .step_high_picoseconds = 1001900000},
         "likely 913–1002 µs"},
        {{.step_picoseconds = 1234500000000000, .step_low_picoseconds = 1000400000000000}, "likely 1000 s or more"},
        {{.step_picoseconds = 999900000, .step_low_picoseconds = 99900000, .step_high_picoseconds = 999600000},
         "likely 99.9–1000 µs"},
    };
    for (size_t i = 0; i < sizeof(kCases) / sizeof(*kCases); i++) {
        HloText text = {0};
        emu_range_print(&kCases[i].report, &text);
        cr_expect_str_eq(text.data, kCases[i].expected);
        hlo_text_free(&text);
    }
}

// bug: both branches of a conditional were parts of the range, more than all of the step in sum, and the shorter one
// was listed as if it ran.
Test(emulator_range, bug_branches_that_are_not_taken_were_part_of_the_step) {
    EmuReport *report = simulated(
        "HloModule t\nlong { a = f32[2048,2048] parameter(0)\n ROOT b = f32[2048,2048] dot(a,a), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
        "short { a = f32[2048,2048] parameter(0)\n ROOT s = f32[2048,2048] sine(a) }\n"
        "ENTRY e { k = s32[] parameter(0)\n a = f32[2048,2048] parameter(1)\n"
        " ROOT r = f32[2048,2048] conditional(k,a,a), branch_computations={long,short} }",
        "tpu7x-2");
    int64_t rows = 0, here = 0;
    bool sine_is_shorter = false;
    for (int64_t i = 0; i < report->op_count; i++)
        if (!strcmp(report->ops[i].opcode, "sine")) sine_is_shorter = report->ops[i].in_shorter_branch;
    const double sines = share_of(report, "elementwise functions", &rows, &here);
    const double products = share_of(report, "matrix products", &rows, &here);
    cr_expect((sines == 0) == sine_is_shorter, "%g", sines);
    cr_expect((products == 0) == !sine_is_shorter, "%g", products);
    HloText summary = {0};
    emu_report_write_summary(report, &summary);
    cr_expect_not_null(strstr(summary.data, "in a shorter branch, which does not count"), "%s", summary.data);
    hlo_text_free(&summary);
    emu_report_free(report);
}
