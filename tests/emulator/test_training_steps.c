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
        {"decoder_16b_step", "v5e-256", 1.237e15 / 120e12, 0.15, 32, 4096, 64, 64, 128, 28672, 32000, 2048, 6, 1,
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
    const double block = 2048;  // of an attention kernel, which takes whole blocks of the causal pairs
    const double kernels =
        step->kernels * step->examples * step->heads * step->sequence * (step->sequence + block) * step->head_width;
    const double again = step->recomputed * (layer - 2 * tokens * step->width * step->hidden);
    return step->layers * (3 * layer + again + kernels) + 3 * 2 * tokens * step->width * step->vocabulary;
}

// The report of a file of examples/ on a slice, partitioned. *counted is the partitioner's own report.
static EmuReport *report_of(const char *file, const char *slice, SpmdReport **counted) {
    HloModule *module = read_step(file), *partitioned = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    HloStatus status = spmd_partition(module, &(SpmdOptions){.async = true}, &partitioned, counted);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_null(emu_topology_parse(slice, &topology));
    status = emu_simulate(partitioned, topology, NULL, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    emu_topology_free(topology);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    return report;
}

CaseTest(Step *step, emulator_training_steps, steps) {
    SpmdReport *counted = NULL;
    EmuReport *report = report_of(step->file, step->topology, &counted);
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
    spmd_report_free(counted);
}

// A step of a published recipe, and the matrix work of a device in the program that MaxText lowers for it.
typedef struct Recipe {
    char file[40], slice[16];
    double teraflops;
} Recipe;

CaseList(emulator_training_steps, recipes) {
    static Recipe recipes[] = {
        {"models/llama_8b_v6e_8", "v6e-8", 1639.836},         {"models/llama_70b_v6e_128", "v6e-128", 18596.15},
        {"models/mistral_7b_v6e_8", "v6e-8", 3085.856},       {"models/llama_70b_v7_64", "tpu7x:4x4x4", 9078.167},
        {"models/gpt_oss_120b_v7_64", "tpu7x:4x4x4", 5045.4}, {"models/deepseek_v3_v7_128", "tpu7x:4x4x8", 13728.01},
    };
    return cr_make_param_array(Recipe, recipes, sizeof(recipes) / sizeof(recipes[0]));
}

// The attention of packed documents, tokens looked up by a product, what is recomputed, and whole tiles of grouped
// products: one of these left out is 3 % of the work or more. (gpt-oss has another attention kernel.)
CaseTest(Recipe *recipe, emulator_training_steps, recipes) {
    SpmdReport *counted = NULL;
    EmuReport *report = report_of(recipe->file, recipe->slice, &counted);
    const double teraflops = report->matrix_flops_per_device * 1e-12;
    cr_expect_float_eq(teraflops / recipe->teraflops, 1, 0.025, "%.7g TFLOP", teraflops);
    emu_report_free(report);
    spmd_report_free(counted);
}
