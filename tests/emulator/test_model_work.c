// SPDX-License-Identifier: Apache-2.0
// The operations of a model by the program before it was partitioned, against those that are written down here.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/spmd.h"

#define PRODUCT "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
#define SQUARE "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
#define FLOPS (2.0 * 256 * 256 * 256)  // of a product below

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, (int64_t)strlen(text), NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return module;
}

// The report of a program that is partitioned by its annotations.
static EmuReport *simulate(const char *text) {
    HloModule *whole = parse(text), *per_device = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    cr_assert_null(spmd_partition(whole, NULL, &per_device, NULL));
    cr_assert_null(emu_topology_parse("v5e-8", &topology));
    HloStatus status = emu_simulate(per_device, topology, &(EmuOptions){.whole = whole}, &report);
    cr_assert_null(status, "%s", hlo_status_message(status));
    emu_topology_free(topology);
    hlo_module_free(per_device);
    hlo_module_free(whole);
    return report;
}

// With the rows over two of eight devices, four compute each product alike: their work counted as the model's, so that
// a plan that wastes three quarters of the machine had the higher utilisation.
Test(model_work, bug_mfu_counted_what_several_devices_compute_alike) {
    EmuReport *report = simulate(
        "HloModule m, num_partitions=8\nENTRY e {\n"
        " x = f32[256,256] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
        " w = f32[256,256] parameter(1), sharding={replicated}\n ROOT y = f32[256,256] " PRODUCT "\n}\n");
    cr_expect_eq(report->matrix_flops_per_device, FLOPS / 2, "%g", report->matrix_flops_per_device);
    cr_expect_eq(report->model_flops_per_device, FLOPS / 8, "%g", report->model_flops_per_device);
    cr_expect_float_eq(report->mfu, report->hfu / 4, 1e-12);
    emu_report_free(report);
}

// bug: the summary called work that devices do alike recomputation, in programs that recompute nothing.
Test(model_work, bug_work_that_devices_do_alike_was_called_recomputation) {
    EmuReport *report = simulate(
        "HloModule m, num_partitions=8\nENTRY e {\n x = f32[256,256] parameter(0)\n ROOT y = f32[256,256] " SQUARE
        "\n}\n");
    HloText summary = {0};
    emu_report_write_summary(report, &summary);
    cr_expect_not_null(strstr(summary.data, ", of all products HFU "), "%s", summary.data);
    cr_expect_null(strstr(summary.data, "with recomputation"), "%s", summary.data);
    hlo_text_free(&summary);
    emu_report_free(report);
}

// What runs more than once, in one of several branches, again for the backward pass, or for no result.
Test(model_work, loops_branches_and_recomputed_products) {
    static const struct {
        const char *body;
        double products;
    } cases[] = {
        {"ROOT y = f32[256,256] call(x), to_apply=twice", 2},
        {"c = f32[256,256] call(x), to_apply=twice\n ROOT y = f32[256,256] call(c), to_apply=twice", 4},
        {"z = s32[] constant(0)\n t = (s32[], f32[256,256]) tuple(z, x)\n l = (s32[], f32[256,256]) while(t), "
         "condition=goes_on, body=squares\n ROOT y = f32[256,256] get-tuple-element(l), index=1",
         5},
        {"z = s32[] constant(0)\n ROOT y = f32[256,256] conditional(z, x, x), branch_computations={once, twice}", 2},
        {"c = f32[256,256] call(x), to_apply=twice, metadata={op_name=\"jit(f)/checkpoint/rematted_computation\"}\n "
         "ROOT y = f32[256,256] dot(c, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
         1},
        {"unused = f32[256,256] " SQUARE "\n ROOT y = f32[256,256] negate(x)", 0},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m, num_partitions=1\nonce {\n x = f32[256,256] parameter(0)\n"
                        " ROOT y = f32[256,256] " SQUARE
                        "\n}\ntwice {\n x = f32[256,256] parameter(0)\n"
                        " a = f32[256,256] " SQUARE
                        "\n ROOT y = f32[256,256] dot(a, x), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n}\ngoes_on {\n t = (s32[], f32[256,256]) parameter(0)\n"
                        " i = s32[] get-tuple-element(t), index=0\n five = s32[] constant(5)\n"
                        " ROOT p = pred[] compare(i, five), direction=LT\n}\nsquares {\n"
                        " t = (s32[], f32[256,256]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n"
                        " x = f32[256,256] get-tuple-element(t), index=1\n y = f32[256,256] " SQUARE
                        "\n"
                        " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
                        " ROOT r = (s32[], f32[256,256]) tuple(j, y)\n}\nENTRY e {\n"
                        " x = f32[256,256] parameter(0)\n %s\n}\n",
                        cases[i].body);
        EmuReport *report = simulate(text.data);
        cr_expect_eq(report->model_flops_per_device, cases[i].products * FLOPS, "case %zu: %g products", i,
                     report->model_flops_per_device / FLOPS);
        emu_report_free(report);
        hlo_text_free(&text);
    }
}

// In a manual region arrays are those of one device: what that computes counts.
Test(model_work, manual_regions_are_counted_by_device) {
    EmuReport *report = simulate(
        "HloModule m, num_partitions=8\nENTRY e {\n"
        " a = f32[2048,256] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        " s = f32[2048,256] custom-call(a), custom_call_target=\"Sharding\", sharding={devices=[8,1]<=[8]}\n"
        " x = f32[256,256] custom-call(s), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n"
        " y = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={manual}\n"
        " t = f32[256,256] custom-call(y), custom_call_target=\"Sharding\", sharding={manual}\n"
        " ROOT z = f32[2048,256] custom-call(t), custom_call_target=\"SPMDShardToFullShape\", "
        "sharding={devices=[8,1]<=[8]}\n}\n");
    cr_expect_eq(report->model_flops_per_device, FLOPS, "%g", report->model_flops_per_device);
    emu_report_free(report);
}
