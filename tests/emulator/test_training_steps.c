// SPDX-License-Identifier: Apache-2.0
// Training steps of language models, from StableHLO to the report: partitioned, timed against published numbers, and
// counted against the closed forms of their arithmetic.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "emulator/emulator.h"
#include "hlo/base/file.h"
#include "hlo/stablehlo/stablehlo.h"
#include "spmd_partitioner/spmd.h"
#include "tests/support/cases.h"

// A step of examples/models/steps.py, and the work of a device in it.
typedef struct Step {
    char file[32];
    char topology[16];
    double published;  // seconds; docs/machine-model.md has the sources
    double tolerance;  // relative
    double layers, width, heads, key_heads, head_width, hidden, vocabulary, sequence;
    double examples;    // a chip
    double recomputed;  // 1: the products of a layer are computed a second time but for the last, which nothing needs
    double kernels;     // causal products of an attention kernel over all passes: 2 forward, 4 and 3 backward
} Step;

CaseList(emulator_training_steps, steps) {
    static Step steps[] = {
        {"llama_8b_step", "v6e-8", 3.443, 0.25, 32, 4096, 32, 8, 128, 14336, 128256, 8192, 3, 1, 2 + 2 + 7},
        // MaxText states its speed in operations a second and chip of its own count of a step: 120e12 of 1.237e15.
        {"decoder_16b_step", "v5e-256", 1.237e15 / 120e12, 0.15, 64, 4096, 32, 32, 128, 14336, 32000, 2048, 6, 1,
         2 + 2 + 7},
        // And 328e12 of 2.394e15.
        {"decoder_32b_step", "v5p-128", 2.394e15 / 328e12, 0.1, 32, 8192, 64, 64, 128, 28672, 32000, 2048, 6, 0,
         2 + 2 + 7},
    };
    return cr_make_param_array(Step, steps, sizeof(steps) / sizeof(steps[0]));
}

static HloModule *read_step(const char *file) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/examples/%s.mlir.xz", MESHLO_SOURCE_DIR, file);
    HloFileContent content = {0};
    HloModule *module = NULL;
    HloStatus status = hlo_file_read(path, 1 << 24, &content);
    if (!status) status = hlo_module_from_stablehlo_text(content.data, content.size, file, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    hlo_file_content_free(&content);
    return module;
}

// Operations of the products that a chip does: of the layers, of the attention kernels (as their estimates say), of the
// projection to the vocabulary. Forward they are done once, backward twice.
static double expected_flops(const Step *step) {
    const double tokens = step->examples * step->sequence;
    const double attention = step->width * step->head_width * (2 * step->heads + 2 * step->key_heads);
    const double layer = 2 * tokens * (attention + 3 * step->width * step->hidden);
    const double kernels =
        step->kernels * step->examples * step->heads * step->sequence * step->sequence * step->head_width;
    const double again = step->recomputed * (layer - 2 * tokens * step->width * step->hidden);
    return step->layers * (3 * layer + again + kernels) + 3 * 2 * tokens * step->width * step->vocabulary;
}

CaseTest(Step *step, emulator_training_steps, steps) {
    HloModule *module = read_step(step->file), *partitioned = NULL;
    SpmdReport *counted = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloStatus status = spmd_partition(module, &(SpmdOptions){.async = true}, &partitioned, &counted);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(emu_topology_parse(step->topology, &topology));
    status = emu_simulate(partitioned, topology, NULL, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const double seconds = (double)report->step_picoseconds * 1e-12;
    cr_log_info("%s: published %.4g s, predicted %.4g s, %+.1f %%", step->file, step->published, seconds,
                100 * (seconds / step->published - 1));
    cr_expect_leq(fabs(seconds / step->published - 1), step->tolerance, "%.4g s", seconds);
    const double flops = expected_flops(step);
    cr_expect_float_eq(report->matrix_flops_per_device / flops, 1, 0.01, "%.4g operations, %.4g expected",
                       report->matrix_flops_per_device, flops);
    cr_expect_not(emu_report_out_of_memory(report), "%.3f GiB", (double)report->hbm_peak_bytes / 0x1p30);
    cr_expect_eq(report->unknown_calls + report->unknown_trip_counts, 0);
    cr_expect_eq(report->collective_bytes_per_device, counted->total_bytes_per_device);
    emu_report_free(report);
    emu_topology_free(topology);
    spmd_report_free(counted);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}
