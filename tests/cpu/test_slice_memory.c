// SPDX-License-Identifier: Apache-2.0
// The memory of programs on a slice, and programs for slices that are only described.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/emulator.h"
#include "hlo/text/text.h"
#include "tests/support/compiled.h"

static TargetClient *new_client(const char *spec) {
    TargetClient *client = NULL;
    must_succeed(target_client_new_with_threads(spec, 1, &client));
    return client;
}

// The machine model's answers about a program.
static EmuReport *simulated(const char *text, const char *spec) {
    HloModule *module = compiled_must_parse(text);
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    must_succeed(emu_topology_parse(spec, &topology));
    must_succeed(emu_simulate(module, topology, NULL, &report));
    emu_topology_free(topology);
    hlo_module_free(module);
    return report;
}

static void expect_equal(const EmuReport *report, const TargetMemoryAnalysis *memory) {
    cr_expect_eq(memory->argument_bytes, report->argument_bytes);
    cr_expect_eq(memory->output_bytes, report->output_bytes);
    cr_expect_eq(memory->alias_bytes, report->alias_bytes);
    cr_expect_eq(memory->temporary_bytes, report->temp_bytes);
    cr_expect_eq(memory->peak_bytes, report->hbm_peak_bytes);
}

// Shapes that tiles pad, an alias, and a temporary.
static const char kPadded[] =
    "HloModule padded, input_output_alias={ {0}: (0, {}, may-alias) }\n"
    "ENTRY main {\n  p = f32[3,200] parameter(0)\n  q = bf16[200,5] parameter(1)\n"
    "  n = f32[3,200] negate(p)\n  c = f32[200,5] convert(q)\n"
    "  d = f32[3,5] dot(n, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT t = (f32[3,200], f32[3,5]) tuple(n, d)\n}\n";

Test(slice_memory, is_that_of_the_machine_model) {
    static const char *const slices[] = {"v3-8", "v5e-8", "v6e-8", "tpu7x-8"};
    for (size_t i = 0; i < HLO_COUNT_OF(slices); i++) {
        EmuReport *report = simulated(kPadded, slices[i]);
        TargetClient *client = new_client(slices[i]);
        HloModule *module = compiled_must_parse(kPadded);
        for (int keeps = 0; keeps < 2; keeps++) {
            TargetExecutable *executable = NULL;
            const TargetCompileOptions options = {.keeps_module = keeps};
            must_succeed(target_compile(client, module, &options, &executable));
            TargetMemoryAnalysis memory;
            for (int again = 0; again < 2; again++) {
                target_executable_memory_analysis(executable, &memory);
                expect_equal(report, &memory);
            }
            cr_expect_gt(memory.argument_bytes, (3 * 200 * 4) + (200 * 5 * 2), "%s: tiles pad", slices[i]);
            target_executable_release(executable);
        }
        TargetMemoryStatistics statistics;
        target_device_memory_statistics(target_client_device(client, 0), &statistics);
        cr_expect_eq(statistics.bytes_limit, report->hbm_capacity_bytes, "%s", slices[i]);
        hlo_module_free(module);
        target_client_release(client);
        emu_report_free(report);
    }
}

// Dense bytes would fit: a row of 128 lanes holds 3 elements.
Test(slice_memory, refuses_what_only_tiles_make_too_large) {
    TargetClient *client = new_client("v2-8");
    HloModule *module = compiled_must_parse(
        "HloModule padded\nENTRY main {\n  p = f32[30000,100,3]{2,1,0:T(8,128)} parameter(0)\n"
        "  ROOT n = f32[30000,100,3]{2,1,0:T(8,128)} negate(p)\n}\n");
    bool exceeds = false;
    const TargetCompileOptions options = {.exceeds_device = &exceeds};
    TargetExecutable *executable = NULL;
    must_succeed(target_compile(client, module, &options, &executable));  // 2 x 1.5 GiB of 8
    target_executable_release(executable);
    hlo_module_free(module);
    module = compiled_must_parse(
        "HloModule padded\nENTRY main {\n  p = f32[90000,100,3]{2,1,0:T(8,128)} parameter(0)\n"
        "  ROOT n = f32[90000,100,3]{2,1,0:T(8,128)} negate(p)\n}\n");
    must_fail(target_compile(client, module, &options, &executable), HLO_RESOURCE_EXHAUSTED,
              "f32[90000,100,3]{2,1,0:T(8,128)}, argument");
    cr_expect(exceeds);
    hlo_module_free(module);
    target_client_release(client);
}

// Calls that cannot run here: a kernel that states its work, and an unknown target.
static const char kCalls[] =
    "HloModule calls, num_partitions=8, input_output_alias={ {1}: (0, {}, may-alias) }\n"
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT a = f32[] add(x, y) }\n"
    "ENTRY main {\n  p = f32[512,512] parameter(0)\n  q = f32[16,4] parameter(1)\n"
    "  k = f32[512,512] custom-call(p), custom_call_target=\"tpu_custom_call\", "
    "backend_config={\"custom_call_config\": "
    "{\"cost_estimate\": {\"flops\": 5000000, \"transcendentals\": 0, \"bytes_accessed\": 1000000}}}\n"
    "  u = f32[16,4] custom-call(q), custom_call_target=\"made_elsewhere\"\n"
    "  r = f32[16,4] all-reduce(u), channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=sum\n"
    "  ROOT t = (f32[16,4], f32[512,512]) tuple(r, k)\n}\n";

Test(slice_memory, programs_for_described_slices_may_call_what_nothing_runs) {
    TargetClient *client = new_client("v6e-8");
    HloModule *module = compiled_must_parse(kCalls);
    TargetExecutable *executable = NULL;
    must_fail(target_compile(client, module, NULL, &executable), HLO_UNIMPLEMENTED, "tpu_custom_call");
    const TargetCompileOptions options = {.is_inspected = true};
    must_succeed(target_compile(client, module, &options, &executable));
    cr_expect_eq(target_executable_argument_count(executable), 2);
    cr_expect_eq(target_executable_result_count(executable), 2);
    cr_expect_eq(target_executable_result_alias(executable, 0), -1);
    cr_expect_eq(target_executable_result_alias(executable, 1), 0);
    cr_expect(target_executable_argument_is_donated(executable, 0));
    cr_expect_not(target_executable_argument_is_donated(executable, 1));
    TargetCostAnalysis cost;
    target_executable_cost_analysis(executable, &cost);
    cr_expect_geq(cost.flops, 5000000);
    cr_expect_eq(cost.collective_count, 1);
    cr_expect_float_eq(cost.collective_bytes, 2 * 0.75 * 256, 0);
    TargetMemoryAnalysis memory;
    target_executable_memory_analysis(executable, &memory);
    EmuReport *report = simulated(kCalls, "v6e-8");
    cr_expect_eq(memory.argument_bytes, report->argument_bytes);
    cr_expect_eq(memory.alias_bytes, 512 * 512 * 4);
    emu_report_free(report);
    TargetBuffer *const *const arguments[8] = {0};
    TargetBuffer **const results[8] = {0};
    must_fail(target_execute(executable, NULL, arguments, 2, results, NULL), HLO_FAILED_PRECONDITION,
              "compiled to be inspected");
    target_executable_release(executable);
    hlo_module_free(module);
    target_client_release(client);
}

Test(slice_memory, programs_for_described_slices_must_still_fit) {
    TargetClient *client = new_client("v5e-8");
    HloModule *module = compiled_must_parse(
        "HloModule large\nENTRY main {\n  p = f32[65536,65536] parameter(0)\n  ROOT k = f32[65536,65536] "
        "custom-call(p), custom_call_target=\"tpu_custom_call\"\n}\n");
    TargetExecutable *executable = NULL;
    const TargetCompileOptions options = {.is_inspected = true};
    must_fail(target_compile(client, module, &options, &executable), HLO_RESOURCE_EXHAUSTED, "exceeds available HBM");
    hlo_module_free(module);
    target_client_release(client);
}
