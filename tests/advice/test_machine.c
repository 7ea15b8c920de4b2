// SPDX-License-Identifier: Apache-2.0
// Slices as machines of the partitioner: its prices are the emulator's, and the plan chosen by them is not slower
// there.
#include <criterion/criterion.h>
#include <string.h>

#include "advice/trial.h"
#include "hlo/text/text.h"
#include "spmd_partitioner/costs.h"
#include "targets/spmd_machine.h"

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, (int64_t)strlen(text), NULL, &module);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text);
    return module;
}

// One collective of `text`, a program for eight devices, against the cost of its kind along all atoms of a mesh of one
// axis, on a slice whose links are shared.
static void expect_price(const char *slice, const char *collective, SpmdTransferKind kind) {
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule m, num_partitions=8\ns {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = "
                    "f32[] add(a, b)\n}\nENTRY e {\n p = f32[80000] parameter(0)\n ROOT r = %s\n}\n",
                    collective);
    HloModule *module = parse(text.data);
    EmuTopology *topology = NULL;
    cr_assert_null(emu_topology_parse(slice, &topology));
    SpmdMachine machine;
    cr_assert(target_spmd_machine(topology, &machine));
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axis = {"x", 8};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, &axis, 1, &mesh));
    SpmdCosts costs;
    spmd_costs_open(&costs, mesh, &machine);
    const int64_t bytes = spmd_collective_bytes(module->entry->root, 8);
    const double cost = (double)spmd_transfer_cost(&costs, kind, spmd_mesh_all(mesh), bytes, true);
    const double seconds = machine.seconds(costs.session, module->entry->root);
    cr_expect_float_eq(cost / machine.link_bytes_per_second, seconds, 1e-3 * seconds, "%s on %s", collective, slice);
    spmd_costs_close(&costs);
    hlo_arena_free(arena);
    emu_topology_free(topology);
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(spmd_machine, prices_are_the_times_of_the_emulator) {
    static const char *const slices[] = {"v2-8", "v5e-8", "v4-16", "v6e-8", "tpu7x-8"};
#define EVERYBODY "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}"
    for (size_t i = 0; i < HLO_COUNT_OF(slices); i++) {
        expect_price(slices[i], "f32[640000] all-gather(p), " EVERYBODY ", use_global_device_ids=true, dimensions={0}",
                     SPMD_TRANSFER_GATHER);
        expect_price(slices[i],
                     "f32[10000] reduce-scatter(p), " EVERYBODY
                     ", use_global_device_ids=true, dimensions={0}, to_apply=s",
                     SPMD_TRANSFER_SCATTER);
        expect_price(slices[i], "f32[80000] all-reduce(p), " EVERYBODY ", use_global_device_ids=true, to_apply=s",
                     SPMD_TRANSFER_REDUCE);
        expect_price(slices[i], "f32[80000] all-to-all(p), " EVERYBODY ", dimensions={0}", SPMD_TRANSFER_EXCHANGE);
        expect_price(slices[i],
                     "f32[80000] collective-permute(p), channel_id=1, "
                     "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}",
                     SPMD_TRANSFER_SHIFT);
    }
}

Test(spmd_machine, hosts_have_none) {
    EmuTopology *topology = NULL;
    SpmdMachine machine;
    cr_assert_null(emu_topology_parse("cpu:8", &topology));
    cr_expect_not(target_spmd_machine(topology, &machine));
    cr_expect_null(machine.open);
    emu_topology_free(topology);
}

static int64_t step_of(const char *text, const EmuTopology *topology, const SpmdMachine *machine, bool async) {
    HloModule *module = parse(text);
    const CompileOptions compile = {.spmd = {.machine = machine, .async = async}};
    AdviceTrial trial;
    HloStatus status = advice_trial_run(module, &compile, topology, NULL, &trial);
    cr_assert_null(status, "%s\n%s", hlo_status_message(status), text);
    const int64_t step = trial.report->step_picoseconds;
    advice_trial_free(&trial);
    hlo_module_free(module);
    return step;
}

// Halves that change places, a merge of sorted shards, and the rows of a table: small arrays in many messages.
Test(spmd_machine, plans_by_the_machine_are_not_slower) {
#define CUT ", sharding={devices=[8]<=[8]}"
    static const char *const programs[] = {
        "HloModule m, num_partitions=8\nENTRY e {\n p = f32[70] parameter(0)" CUT
        "\n a = f32[33] slice(p), "
        "slice={[0:33]}\n b = f32[37] slice(p), slice={[33:70]}\n ROOT c = f32[70] concatenate(b, a), "
        "dimensions={0}" CUT "\n}\n",
        "HloModule m, num_partitions=8\nless {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT l = pred[] "
        "compare(x, y), direction=LT\n}\nENTRY e {\n p = f32[1024] parameter(0)" CUT
        "\n ROOT s = f32[1024] sort(p), dimensions={0}, to_apply=less" CUT "\n}\n",
        "HloModule m, num_partitions=8\nENTRY e {\n p = f32[64,40] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        " q = f32[40,64] transpose(p), dimensions={1,0}\n ROOT r = f32[20,128] reshape(q), "
        "sharding={devices=[8,1]<=[8]}\n}\n"};
    EmuTopology *topology = NULL;
    SpmdMachine machine;
    cr_assert_null(emu_topology_parse("v5e-8", &topology));
    cr_assert(target_spmd_machine(topology, &machine));
    int64_t faster = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(programs); i++) {
        const int64_t by_bytes = step_of(programs[i], topology, NULL, false),
                      by_time = step_of(programs[i], topology, &machine, false);
        cr_expect_leq(by_time, by_bytes, "%s", programs[i]);
        faster += by_time < by_bytes;
    }
    cr_expect_geq(faster, 2);
    emu_topology_free(topology);
}

// Weights that are gathered while activations are, and sums that leave one after the other. A machine that does not
// know the time of whole programs adds up the times of transfers, which run at the same time here.
Test(spmd_machine, bug_transfers_that_run_beside_others_were_added_up) {
    static const char program[] =
        "HloModule m, num_partitions=8, allow_spmd_sharding_propagation_to_output={true}\nENTRY e {\n"
        " x = bf16[1024,2048] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        " a = bf16[2048,4096] parameter(1), sharding={devices=[2,4]<=[8]}\n"
        " b = bf16[4096,2048] parameter(2), sharding={devices=[4,2]<=[2,4]T(1,0)}\n"
        " h = bf16[1024,4096] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " t = bf16[1024,4096] tanh(h)\n"
        " ROOT y = bf16[1024,2048] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    EmuTopology *topology = NULL;
    SpmdMachine machine;
    cr_assert_null(emu_topology_parse("v4-16", &topology));
    cr_assert(target_spmd_machine(topology, &machine));
    const int64_t simulated = step_of(program, topology, &machine, true);
    machine.program_seconds = NULL;
    const int64_t added = step_of(program, topology, &machine, true);
    cr_expect_lt((double)simulated, 0.9 * (double)added, "%g instead of %g", (double)simulated, (double)added);
    emu_topology_free(topology);
}

// Sums of 4 and 8 MB: joined, the first would wait for the product that makes the second.
Test(spmd_machine, bug_large_sums_waited_for_each_other) {
    static const char program[] =
        "HloModule m, num_partitions=8\nENTRY e {\n"
        " x = bf16[16384,2048] parameter(0), sharding={devices=[8,1]<=[8]}\n"
        " y = bf16[16384,1024] parameter(1), sharding={devices=[8,1]<=[8]}\n"
        " z = bf16[16384,2048] parameter(2), sharding={devices=[8,1]<=[8]}\n"
        " a = bf16[2048,1024] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " b = bf16[2048,2048] dot(x, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        " ROOT t = (bf16[2048,1024], bf16[2048,2048]) tuple(a, b)\n}\n";
    EmuTopology *topology = NULL;
    SpmdMachine machine;
    HloModule *module = parse(program);
    cr_assert_null(emu_topology_parse("v4-16", &topology));
    cr_assert(target_spmd_machine(topology, &machine));
    for (int overlaps = 0; overlaps < 2; overlaps++) {
        const SpmdOptions options = {.machine = &machine, .overlaps = overlaps != 0};
        HloModule *partitioned = NULL;
        SpmdReport *report = NULL;
        cr_assert_null(spmd_partition(module, &options, &partitioned, &report));
        cr_expect_eq(report->collective_count, overlaps ? 2 : 1, "%lld", (long long)report->collective_count);
        spmd_report_free(report);
        hlo_module_free(partitioned);
    }
    emu_topology_free(topology);
    hlo_module_free(module);
}

// The gradient of a weight that few rows of activations make: parts of it were added up, 8 MB on each device, where the
// operands have 1 MB and 0.5 MB.
Test(spmd_machine, bug_parts_of_large_products_were_added_up) {
    static const char program[] =
        "HloModule m, num_partitions=8\nENTRY e {\n"
        " x = bf16[512,2048] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
        " y = bf16[512,8192] parameter(1), sharding={devices=[2,4]<=[8]}\n"
        " ROOT w = bf16[2048,8192] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n}\n";
    EmuTopology *topology = NULL;
    SpmdMachine machine;
    HloModule *module = parse(program), *partitioned = NULL;
    SpmdReport *report = NULL;
    cr_assert_null(emu_topology_parse("v4-16", &topology));
    cr_assert(target_spmd_machine(topology, &machine));
    cr_assert_null(
        spmd_partition(module, &(SpmdOptions){.machine = &machine, .overlaps = true}, &partitioned, &report));
    for (int64_t i = 0; i < report->collective_count; i++)
        cr_expect_str_neq(report->collectives[i].opcode, "all-reduce");
    cr_expect_gt(report->collective_count, 0);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    emu_topology_free(topology);
    hlo_module_free(module);
}
