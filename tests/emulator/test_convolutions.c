// SPDX-License-Identifier: Apache-2.0
// Temporaries and times of convolutions, beside those that libtpu 0.0.42 states for the same programs.
#include <criterion/criterion.h>
#include <stdio.h>

#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "tests/emulator/simulated.h"

#define MIB 1048576

#define CONVOLUTION(type, image, kernel, result, window, labels)                         \
    "HloModule t\nENTRY e { x = " type "[" image "] parameter(0)\n w = " type "[" kernel \
    "] parameter(1)\n ROOT c = " type "[" result "] convolution(x,w), window={" window "}, " labels " }"
#define FORWARD "dim_labels=b01f_01io->b01f"
#define SAME3 "size=3x3 pad=1_1x1_1"

// `microseconds` are the estimated cycles of the kernels and copies over the clock.
typedef struct Stated {
    const char *name, *text, *slice;
    double mib, microseconds;
} Stated;

static const Stated stated[] = {
    {"stem of 32 features",
     CONVOLUTION("bf16", "64,224,224,3", "3,3,3,32", "64,112,112,32", "size=3x3 stride=2x2 pad=0_1x0_1", FORWARD),
     "v6e-1", 98, 788},
    {"stem with a batch of 128",
     CONVOLUTION("bf16", "128,224,224,3", "7,7,3,64", "128,112,112,64", "size=7x7 stride=2x2 pad=2_3x2_3", FORWARD),
     "v6e-1", 0, 513},
    {"stem with a batch of 128 on two cores",
     CONVOLUTION("bf16", "128,224,224,3", "7,7,3,64", "128,112,112,64", "size=7x7 stride=2x2 pad=2_3x2_3", FORWARD),
     "v5p-8", 0, 0},
    {"3x3 of 64 on v4", CONVOLUTION("bf16", "64,56,56,64", "3,3,64,64", "64,56,56,64", SAME3, FORWARD), "v4-8", 0, 493},
    {"stem in f32",
     CONVOLUTION("f32", "64,224,224,3", "7,7,3,64", "64,112,112,64", "size=7x7 stride=2x2 pad=2_3x2_3", FORWARD),
     "v6e-1", 392, 1351},
    {"32 groups of 4",
     CONVOLUTION("bf16", "32,56,56,128", "3,3,4,128", "32,56,56,128", SAME3, FORWARD ", feature_group_count=32"),
     "v6e-1", 196, 1595},
    {"32 groups of 8",
     CONVOLUTION("bf16", "32,28,28,256", "3,3,8,256", "32,28,28,256", SAME3, FORWARD ", feature_group_count=32"),
     "v6e-1", 49, 422},
    {"8 groups of 32",
     CONVOLUTION("bf16", "32,28,28,256", "3,3,32,256", "32,28,28,256", SAME3, FORWARD ", feature_group_count=8"),
     "v6e-1", 49, 246},
    {"3x3 of 64 with a batch of 128", CONVOLUTION("bf16", "128,28,28,64", "3,3,64,64", "128,28,28,64", SAME3, FORWARD),
     "v5e-1", 0, 68},
    {"3x3 of 32 with a batch of 64", CONVOLUTION("bf16", "64,28,28,32", "3,3,32,32", "64,28,28,32", SAME3, FORWARD),
     "v5e-1", 0, 36},
    {"gradient of a kernel with the batch in the lanes",
     CONVOLUTION("bf16", "64,28,28,32", "64,28,28,32", "3,3,32,32", "size=28x28 pad=1_1x1_1",
                 "dim_labels=f01b_i01o->01bf"),
     "v5e-1", 0, 43},
    {"4 groups of 128",
     CONVOLUTION("bf16", "32,28,28,512", "3,3,128,512", "32,28,28,512", SAME3, FORWARD ", feature_group_count=4"),
     "v6e-1", 0, 142},
    {"depthwise",
     CONVOLUTION("bf16", "32,28,28,256", "7,7,1,256", "32,28,28,256", "size=7x7 pad=3_3x3_3",
                 FORWARD ", feature_group_count=256"),
     "v6e-1", 0, 356},
    {"depthwise of wide images",
     CONVOLUTION("bf16", "32,112,112,96", "3,3,1,96", "32,112,112,96", SAME3, FORWARD ", feature_group_count=96"),
     "v6e-1", 196, 1765},
    {"3x3 of 64", CONVOLUTION("bf16", "64,56,56,64", "3,3,64,64", "64,56,56,64", SAME3, FORWARD), "v6e-1", 0, 258},
    {"3x3 of wide images", CONVOLUTION("bf16", "16,112,112,64", "3,3,64,64", "16,112,112,64", SAME3, FORWARD), "v6e-1",
     49, 464},
    {"gradient of a kernel",
     CONVOLUTION("bf16", "64,56,56,64", "64,56,56,64", "3,3,64,64", "size=56x56 pad=1_1x1_1",
                 "dim_labels=f01b_i01o->01bf"),
     "v6e-1", 0, 78},
    {"gradient of a wide kernel",
     CONVOLUTION("bf16", "64,14,14,256", "64,14,14,256", "3,3,256,256", "size=14x14 pad=1_1x1_1",
                 "dim_labels=f01b_i01o->01bf"),
     "v6e-1", 0, 24},
    {"gradient of a stem",
     CONVOLUTION("bf16", "64,224,224,3", "64,112,112,64", "7,7,3,64", "size=112x112 pad=2_3x2_3 rhs_dilate=2x2",
                 "dim_labels=f01b_i01o->01bf"),
     "v6e-1", 196, 1190},
    {"gradient of an image under a strided convolution",
     CONVOLUTION("bf16", "64,14,14,256", "3,3,256,256", "64,28,28,256", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", FORWARD),
     "v5e-1", 0, 130},
    {"transposed convolution",
     CONVOLUTION("bf16", "16,32,32,128", "4,4,128,64", "16,64,64,64", "size=4x4 pad=2_2x2_2 lhs_dilate=2x2", FORWARD),
     "v5e-1", 0, 160},
    {"gradient of the image of a stem",
     CONVOLUTION("bf16", "32,112,112,64", "7,7,64,3", "32,224,224,3", "size=7x7 pad=4_3x4_3 lhs_dilate=2x2", FORWARD),
     "v5e-1", 49, 1628},
};

// bug: groups had no copies of what they read and make, and shared products that they do not share; kernel gradients
// were padded to the lanes at each position of their window, depthwise convolutions computed by the systolic arrays,
// and stems made with the features in the lanes where the batch fills them. Copies took the time of their bytes only,
// and an operand was copied to have another dimension in the sublanes.
// Later, the gaps that dilation puts into an image were multiplied, and images made with their few features in the
// lanes.
Test(emulator_convolutions, bug_groups_gradients_and_depthwise_ones_as_libtpu_compiles_them) {
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++) {
        EmuReport *report = simulated(stated[i].text, stated[i].slice);
        cr_expect_float_eq((double)report->temp_bytes / MIB, stated[i].mib, 0.01 * stated[i].mib + 0.1, "%s: %.1f MiB",
                           stated[i].name, (double)report->temp_bytes / MIB);
        const double ratio =
            (double)(report->step_picoseconds - report->launch_picoseconds) / 1e6 / stated[i].microseconds;
        cr_expect(stated[i].microseconds == 0 || (ratio > 0.5 && ratio < 2), "%s: %.2f of the time", stated[i].name,
                  ratio);
        emu_report_free(report);
    }
}

// bug: with the batch in the lanes positions of a window were gathered as fast on all generations, a cycle for each
// register: 0.4 to 0.7 of libtpu's time on v4, v5e and v5p.
Test(emulator_convolutions, bug_positions_are_gathered_at_the_speed_of_v6e) {
    static const char groups[] =
        CONVOLUTION("bf16", "32,28,28,256", "3,3,8,256", "32,28,28,256", SAME3, FORWARD ", feature_group_count=32");
    static const char few[] = CONVOLUTION("bf16", "128,32,32,16", "3,3,16,16", "128,32,32,16", SAME3, FORWARD);
    static const struct {
        const char *text, *slice;
        double microseconds;  // the estimated cycles of kernels and copies over the clock
    } times[] = {{groups, "v5e-1", 507}, {groups, "v5p-8", 377}, {groups, "v6e-1", 422}, {few, "v4-8", 38.9},
                 {few, "v5e-1", 26},     {few, "v5p-8", 11.5},   {few, "v6e-1", 16}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        EmuReport *report = simulated(times[i].text, times[i].slice);
        const double overheads = 1.6;
        const double ratio =
            ((double)(report->step_picoseconds - report->launch_picoseconds) / 1e6 - overheads) / times[i].microseconds;
        cr_expect(ratio > 0.75 && ratio < 1.15, "row %zu on %s: %.2f of the time", i, times[i].slice, ratio);
        emu_report_free(report);
    }
}

// bug: on v7 copies into other layouts cost nothing: convolutions of images took 0.1 to 0.5 of libtpu's time.
// SparseCores make copies of large results, which take only the time of their bytes.
Test(emulator_convolutions, bug_copies_cost_nothing_on_v7) {
    static const struct {
        const char *text;
        double microseconds;  // the estimated cycles of kernels and copies over the clock
    } times[] = {
        {CONVOLUTION("bf16", "16,224,224,3", "7,7,3,64", "16,112,112,64", "size=7x7 stride=2x2 pad=2_3x2_3", FORWARD),
         445.7},
        {CONVOLUTION("bf16", "32,224,224,3", "16,16,3,768", "32,14,14,768", "size=16x16 stride=16x16", FORWARD), 242.4},
        {CONVOLUTION("bf16", "16,32,32,160", "3,3,160,160", "16,32,32,160", SAME3, FORWARD), 32.8},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        EmuReport *report = simulated(times[i].text, "tpu7x-2");
        const double ratio = (double)report->step_picoseconds / 1e6 / times[i].microseconds;
        cr_expect(ratio > 0.65 && ratio < 1.15, "row %zu: %.2f of the time", i, ratio);
        emu_report_free(report);
    }
    // A stem's results of 411 MB, as padded: written, copied and read at HBM's rate, and no longer.
    EmuReport *report =
        simulated(CONVOLUTION("f32", "64,112,112,64", "1,1,64,64", "64,112,112,64", "size=1x1", FORWARD), "tpu7x-2");
    const double bytes = 64.0 * 112 * 112 * 128 * 4;
    const double moved = (double)report->step_picoseconds / 1e12 * 3.2e12 / bytes;
    cr_expect(moved > 4 && moved < 6, "%.1f times the bytes", moved);
    emu_report_free(report);
}

// bug: what a kernel reads was not put where its result will be, although the result is copied there after the kernel.
Test(emulator_convolutions, bug_operands_are_where_copied_results_will_be) {
    EmuReport *report =
        simulated(CONVOLUTION("bf16", "16,112,112,64", "1,1,64,128", "16,112,112,128", "size=1x1", FORWARD), "v5p-8");
    cr_assert_float_eq((double)report->temp_bytes, 49.0 * MIB, MIB);
    emu_report_free(report);
}

// bug: the gradient of a pool had no copies of what it reads and makes.
Test(emulator_convolutions, bug_select_and_scatter_copies_to_other_layouts) {
    static const char program[] =
        "HloModule t\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a,b) }\n"
        "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a,b), direction=GE }\n"
        "ENTRY e { x = f32[32,112,112,64] parameter(0)\n one = f32[] constant(1)\n g = f32[32,56,56,64] "
        "broadcast(one), dimensions={}\n zero = f32[] constant(0)\n ROOT s = f32[32,112,112,64] "
        "select-and-scatter(x,g,zero), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, select=ge, "
        "scatter=add }";
    EmuReport *report = simulated(program, "v6e-1");
    cr_assert_eq(report->temp_bytes, 392 * MIB);
    emu_report_free(report);
}

// bug: gradients of pools had the features in the lanes also where a larger batch fills these: the gradients of a small
// network of a batch of 256 took 320 MiB.
Test(emulator_convolutions, bug_select_and_scatter_has_large_batches_in_the_lanes) {
    static const char program[] =
        "HloModule t\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a,b) }\n"
        "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a,b), direction=GE }\n"
        "ENTRY e { x = f32[256,32,32,32] parameter(0)\n one = f32[] constant(1)\n g = f32[256,16,16,32] "
        "broadcast(one), dimensions={}\n zero = f32[] constant(0)\n ROOT s = f32[256,32,32,32] "
        "select-and-scatter(x,g,zero), window={size=1x2x2x1 stride=1x2x2x1}, select=ge, scatter=add }";
    EmuReport *report = simulated(program, "v5e-1");
    cr_assert_lt(report->temp_bytes, 9 * MIB, "%.1f MiB", (double)report->temp_bytes / MIB);
    emu_report_free(report);
}

// bug: a convolution whose result only the gradient of its kernel reads was written on v6e, where libtpu computes it
// inside of that.
Test(emulator_convolutions, bug_gradients_compute_their_convolution_inside) {
    static const char program[] =
        "HloModule t\nENTRY e { w = bf16[7,7,3,64] parameter(0)\n x = bf16[64,224,224,3] parameter(1)\n"
        " y = bf16[64,112,112,64] convolution(x,w), window={size=7x7 stride=2x2 pad=2_3x2_3}, " FORWARD
        "\n"
        " g = bf16[64,112,112,64] add(y,y)\n"
        " ROOT d = bf16[7,7,3,64] convolution(x,g), window={size=112x112 pad=2_3x2_3 rhs_dilate=2x2}, "
        "dim_labels=f01b_i01o->01bf }";
    EmuReport *report = simulated(program, "v6e-1");
    cr_assert_eq(report->temp_bytes, 0, "%.1f MiB", (double)report->temp_bytes / MIB);
    emu_report_free(report);
}

// bug: an array whose positions are in the sublanes was read as it is by a convolution and by the gradient of its
// kernel: libtpu copies it for both, with the batch in the lanes, and the result of the convolution then has no room in
// VMEM.
Test(emulator_convolutions, bug_convolution_and_gradient_share_a_copy) {
    static const char program[] =
        "HloModule t\nENTRY e { w = bf16[1,1,64,256] parameter(0)\n x = bf16[64,56,56,64] parameter(1)\n"
        " y = bf16[64,56,56,256] convolution(x,w), window={size=1x1}, " FORWARD
        "\n"
        " g = bf16[64,56,56,256] add(y,y)\n"
        " ROOT d = bf16[1,1,64,256] convolution(x,g), window={size=56x56}, dim_labels=f01b_i01o->01bf }";
    static const struct {
        const char *slice;
        int64_t mib;
    } places[] = {{"v4-8", 98}, {"v5e-1", 98}, {"v5p-8", 147}, {"v6e-1", 0}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        EmuReport *report = simulated(program, places[i].slice);
        cr_expect_eq(report->temp_bytes, places[i].mib * MIB, "%s: %.1f MiB", places[i].slice,
                     (double)report->temp_bytes / MIB);
        emu_report_free(report);
    }
}

// bug: a scheduled program of XLA:CPU took a third of the time of the same program without a schedule: only layouts
// with tiles are those of a TPU compiler.
Test(emulator_convolutions, bug_schedules_of_other_machines_have_layouts_of_their_own) {
    static const char program[] =
        "ENTRY e { x = f32[8,8,64,3]{3,2,1,0} parameter(0)\n w = f32[8,8,3,16]{3,2,1,0} parameter(1)\n"
        " ROOT c = f32[8,1,8,16]{3,2,1,0} convolution(x,w), window={size=8x8 stride=8x8}, " FORWARD " }";
    HloText text = {0};
    int64_t times[2];
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        text.length = 0;
        hlo_text_format(&text, "HloModule t%s\n%s", scheduled ? ", is_scheduled=true" : "", program);
        EmuReport *report = simulated(text.data, "v5p-8");
        times[scheduled] = report->step_picoseconds;
        cr_expect_gt(report->temp_bytes, 0);
        emu_report_free(report);
    }
    hlo_text_free(&text);
    cr_assert_eq(times[0], times[1]);
}
