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

static int64_t step_of(const char *text, const EmuTopology *topology, const SpmdMachine *machine) {
    HloModule *module = parse(text);
    const CompileOptions compile = {.spmd = {.machine = machine}};
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
        const int64_t by_bytes = step_of(programs[i], topology, NULL),
                      by_time = step_of(programs[i], topology, &machine);
        cr_expect_leq(by_time, by_bytes, "%s", programs[i]);
        faster += by_time < by_bytes;
    }
    cr_expect_geq(faster, 2);
    emu_topology_free(topology);
}
