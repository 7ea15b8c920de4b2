// SPDX-License-Identifier: Apache-2.0
// Times of products of little depth, beside the estimated cycles of libtpu 0.0.42 for the same programs.
#include <criterion/criterion.h>
#include <stdio.h>

#include "emulator/emulator.h"
#include "tests/emulator/simulated.h"

#define DOT(type, rows, depth, columns)                                                              \
    "HloModule t\nENTRY e { a = bf16[" rows "," depth "] parameter(0)\n b = bf16[" depth "," columns \
    "] parameter(1)\n ROOT d = " type "[" rows "," columns                                           \
    "] dot(a,b), lhs_contracting_dims={1}, "                                                         \
    "rhs_contracting_dims={0} }"

#define BATCH(batch, rows, depth, columns)                                                                   \
    "HloModule t\nENTRY e { a = bf16[" batch "," rows "," depth "] parameter(0)\n b = bf16[" batch "," depth \
    "," columns "] parameter(1)\n ROOT d = bf16[" batch "," rows "," columns                                 \
    "] dot(a,b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1} }"

typedef struct Stated {
    const char *text, *slice;
    double microseconds;
} Stated;

// Steps without the launch, within a share of what is stated.
static void expect_times(const Stated *stated, size_t count, double within) {
    for (size_t i = 0; i < count; i++) {
        EmuReport *report = simulated(stated[i].text, stated[i].slice);
        const double ratio =
            (double)(report->step_picoseconds - report->launch_picoseconds) / 1e6 / stated[i].microseconds;
        cr_expect(ratio > 1 - within && ratio < 1 + within, "row %zu on %s: %.2f of the time", i, stated[i].slice,
                  ratio);
        emu_report_free(report);
    }
}

// bug: results of bf16 cost no more than the bytes that they have. They leave the systolic arrays in f32, and the
// vector unit makes them narrow, which takes longer than to multiply where the depth is small.
Test(emulator_products, bug_narrow_results_take_the_vector_unit) {
    static const Stated stated[] = {
        {DOT("bf16", "8192", "192", "8192"), "v5e-1", 617},   {DOT("bf16", "8192", "192", "8192"), "v6e-1", 281},
        {DOT("bf16", "8192", "192", "8192"), "tpu7x-2", 123}, {DOT("bf16", "3000", "200", "1000"), "v5e-1", 34},
        {DOT("bf16", "3000", "200", "1000"), "v6e-1", 14},    {DOT("bf16", "16384", "512", "4096"), "v5e-1", 622},
        {DOT("bf16", "16384", "512", "4096"), "v6e-1", 281},  {DOT("bf16", "16384", "1024", "4096"), "v5e-1", 731},
    };
    expect_times(stated, sizeof stated / sizeof *stated, 0.2);
}

// bug: products moved their operands and results as fast as copies do, and all of that overlapped with multiplying.
// libtpu counts on less, and nothing overlaps with the first block that is read and the last one that is written.
Test(emulator_products, bug_blocks_overlap_from_the_first_to_the_last) {
    static const Stated stated[] = {
        {DOT("bf16", "1024", "1024", "1024"), "v5e-1", 20.1}, {DOT("bf16", "1024", "512", "4096"), "v5e-1", 47.2},
        {DOT("bf16", "1536", "1024", "1536"), "v5e-1", 36.1}, {DOT("bf16", "4096", "4096", "4096"), "v5e-1", 722},
        {DOT("bf16", "1024", "1024", "1024"), "v5p-8", 9.7},  {DOT("bf16", "1024", "512", "4096"), "v5p-8", 20},
        {DOT("bf16", "1536", "1024", "1536"), "v5p-8", 16.7}, {DOT("bf16", "4096", "4096", "4096"), "v5p-8", 311},
        {DOT("bf16", "1024", "512", "4096"), "v6e-1", 22},    {DOT("bf16", "4096", "4096", "4096"), "v6e-1", 172},
    };
    expect_times(stated, sizeof stated / sizeof *stated, 0.1);
}

// bug: on v7 memory and matrix time added up by a product's size, also where it moves so much that most of both
// overlaps (up to 1.7 of the time), and batches of small matrices were not copied out of the lanes (0.3 of the time).
Test(emulator_products, bug_products_overlap_by_size_on_v7) {
    static const struct {
        const char *text;
        double microseconds;  // the estimated cycles of kernels and copies over the clock
    } times[] = {
        {DOT("bf16", "2048", "2048", "2048"), 20.8}, {DOT("bf16", "1024", "1024", "4096"), 13.9},
        {DOT("bf16", "4096", "512", "512"), 7.5},    {DOT("f32", "4096", "1024", "4096"), 40.4},
        {BATCH("256", "32", "32", "32"), 11.6},      {BATCH("12", "512", "64", "512"), 8.5},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        EmuReport *report = simulated(times[i].text, "tpu7x-2");
        const double ratio = (double)report->step_picoseconds / 1e6 / times[i].microseconds;
        cr_expect(ratio > 0.85 && ratio < 1.15, "row %zu: %.2f of the time", i, ratio);
        emu_report_free(report);
    }
}

// bug: batches of bf16 matrices that the vector unit multiplies by vectors passed it as fast as copies: 0.3 of the
// time.
Test(emulator_products, bug_vectors_were_multiplied_as_fast_as_copied) {
    static const char batch[] =
        "HloModule t\nENTRY e { a = bf16[32,1,1024] parameter(0)\n b = bf16[32,1024,1024] parameter(1)\n ROOT d = "
        "bf16[32,1,1024] dot(a,b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1} }";
    static const Stated stated[] = {{batch, "v5e-1", 313}, {batch, "v5p-8", 106}};
    expect_times(stated, sizeof stated / sizeof *stated, 0.1);
}

// Wide results leave the arrays as they are: they take the time of their bytes.
Test(emulator_products, wide_results_take_the_time_of_their_bytes) {
    EmuReport *wide = simulated(DOT("f32", "8192", "128", "8192"), "v5e-1"),
              *narrow = simulated(DOT("bf16", "8192", "128", "8192"), "v5e-1");
    cr_expect_lt(wide->step_picoseconds, narrow->step_picoseconds);
    emu_report_free(wide);
    emu_report_free(narrow);
}
