// SPDX-License-Identifier: Apache-2.0
// Random sharded programs on slices: every partitioned program can be timed, the simulation sends the bytes that the
// partitioner counted, and its times and sizes bound one another. Half as many are tried as for their numbers.
#include <criterion/criterion.h>

#include "emulator/emulator.h"
#include "tests/spmd/generate.h"
#include "tests/support/cases.h"

static void must(HloStatus status, const char *what, uint64_t seed, const char *text) {
    cr_assert(!status, "%s of seed %llu: %s\n%s", what, (unsigned long long)seed, hlo_status_message(status), text);
}

static void check_report(const EmuReport *report, const SpmdReport *counted, const char *text) {
    cr_expect_eq(report->collective_bytes_per_device, counted->total_bytes_per_device,
                 "simulated %lld bytes, counted %lld\n%s", (long long)report->collective_bytes_per_device,
                 (long long)counted->total_bytes_per_device, text);
    cr_expect_leq(report->exposed_picoseconds, report->collective_picoseconds,
                  "waits longer than the network works\n%s", text);
    cr_expect_geq(report->step_picoseconds, report->exposed_picoseconds + report->compute_picoseconds, "%s", text);
    cr_expect_geq(report->hbm_peak_bytes, report->argument_bytes, "%s", text);
    cr_expect_eq(report->unknown_calls, 0, "an op without a cost in\n%s", text);
}

static void simulate_seed(uint64_t seed, const char *family) {
    static const char *const slices[] = {"v2-8", "v5e-8", "v4:2x2x2", "v5p-16", "tpu7x-8", "v6e-16"};
    char *text = generate_program(seed, family);
    HloModule *module = parse_text(text), *partitioned = NULL;
    SpmdReport *counted = NULL;
    EmuTopology *topology = NULL;
    EmuReport *report = NULL;
    must(spmd_partition(module, &(SpmdOptions){0}, &partitioned, &counted), "partitioning", seed, text);
    must(emu_topology_parse(slices[seed % HLO_COUNT_OF(slices)], &topology), "the slice", seed, text);
    must(emu_simulate(partitioned, topology, NULL, &report), "simulation", seed, text);
    check_report(report, counted, text);
    emu_report_free(report);
    emu_topology_free(topology);
    spmd_report_free(counted);
    hlo_module_free(partitioned);
    hlo_module_free(module);
    hlo_free(text);
}

CaseList(emulated, families) {
    return generate_families();
}

CaseTest(FamilyName *family, emulated, families) {
    const int64_t count = generate_trials() / 80;
    const int64_t first = generate_first_seed();
    for (int64_t seed = first; seed < first + count; seed++) simulate_seed((uint64_t)seed, family->text);
}
