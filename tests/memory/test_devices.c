// SPDX-License-Identifier: Apache-2.0
// Short of memory while a program is partitioned, run on one device and on four, and timed on a slice.
#include <criterion/criterion.h>

#include "emulator/draw.h"
#include "emulator/export_hwloc.h"
#include "emulator/mesh_order.h"
#include "emulator/report.h"
#include "emulator/simulate.h"
#include "targets/program.h"
#include "tests/memory/doors.h"
#include "tests/support/cases.h"

// The rows of the first argument and the columns of the second are cut: each op of the program gets collectives.
static const SpmdMeshAxis mesh[] = {{"a", 2}, {"b", 2}};
static const char *const shards[] = {"p0=a,-", "p1=-,b"};
static const SpmdOptions on_a_mesh = {.mesh = mesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 2};

static HloStatus propagate_door(const World *world) {
    HloModule *annotated = NULL;
    HloStatus status = spmd_propagate(world->module, &on_a_mesh, &annotated);
    hlo_module_free(annotated);
    return status;
}

// Partitions, reads the boundary of the result, and prints why it communicates.
static HloStatus partition_door(const World *world) {
    HloModule *partitioned = NULL;
    SpmdReport *report = NULL, *read = NULL;
    SpmdBoundary *boundary = NULL;
    HloText table = {0}, json = {0};
    HloStatus status = spmd_partition(world->module, &on_a_mesh, &partitioned, &report);
    if (!status) status = spmd_boundary_new(partitioned, &boundary);
    if (!status) status = spmd_report_new(partitioned, &read);
    if (!status) {
        cr_expect_gt(report->collective_count, 0);
        cr_expect_eq(report->collective_count, read->collective_count);
        HloJsonWriter writer = {.text = &json, .lines = 2};
        spmd_report_print(&table, report);
        spmd_report_json(&writer, report);
        status = hlo_text_status(&table);
    }
    if (!status) status = hlo_text_status(&json);
    hlo_text_free(&table);
    hlo_text_free(&json);
    spmd_boundary_free(boundary);
    spmd_report_free(read);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    return status;
}

static HloStatus call(const World *world, const TargetProgramOptions *options) {
    TargetProgram *program = NULL;
    HloLiteral *results[16] = {0};
    HloStatus status = target_program_new(world->client, world->module, options, &program);
    if (!status) {
        status =
            target_program_call(program, (const HloLiteral *const *)world->arguments, world->argument_count, results);
    }
    for (size_t i = 0; i < HLO_COUNT_OF(results); i++) hlo_literal_free(results[i]);
    target_program_free(program);
    return status;
}

static HloStatus one_device_door(const World *world) {
    return call(world, NULL);
}

static HloStatus four_devices_door(const World *world) {
    const TargetProgramOptions options = {.spmd = on_a_mesh};
    return call(world, &options);
}

static HloStatus spread_door(const World *world) {
    TargetProgram *program = NULL;
    TargetArray *array = NULL;
    HloLiteral *whole = NULL;
    HloText picture = {0};
    const TargetProgramOptions options = {.spmd = on_a_mesh};
    HloStatus status = target_program_new(world->client, world->module, &options, &program);
    if (!status) status = target_program_place(program, 0, world->arguments[0], &array);
    if (!status) status = target_array_to_literal(array, &whole);
    if (!status) status = target_array_draw(array, &picture);
    if (!status) {
        cr_expect(hlo_literal_equal(whole, world->arguments[0]));
        cr_expect_not_null(picture.data);
    }
    hlo_text_free(&picture);
    hlo_literal_free(whole);
    target_array_release(array);
    target_program_free(program);
    return status;
}

// One device's program on a slice, and every form of the report.
static HloStatus emulate_door(const World *world) {
    EmuReport *report = NULL;
    HloModule *partitioned = NULL;
    void (*const writers[])(const EmuReport *, HloText *) = {emu_report_write_json, emu_report_write_chrome_trace,
                                                             emu_report_write_summary, emu_report_write_out_of_memory};
    HloStatus status = spmd_partition(world->module, &on_a_mesh, &partitioned, NULL);
    if (!status) status = emu_simulate(partitioned, world->topology, NULL, &report);
    for (size_t i = 0; i <= HLO_COUNT_OF(writers) && !status; i++) {
        HloText text = {0};
        if (i < HLO_COUNT_OF(writers))
            writers[i](report, &text);
        else
            emu_report_write_html(report, world->topology, &text);
        status = hlo_text_status(&text);
        hlo_text_free(&text);
    }
    emu_report_free(report);
    hlo_module_free(partitioned);
    return status;
}

static HloStatus machine_door(const World *world) {
    (void)world;
    EmuTopology *topology = NULL;
    HloText picture = {0};
    int64_t ids[8];
    const int64_t sizes[] = {4, 2};
    HloStatus status = emu_topology_parse("v2-8", &topology);
    if (!status) status = emu_mesh_order(topology, sizes, 2, false, ids);
    if (!status) status = emu_export_hwloc(topology, &picture);
    if (!status) {
        emu_draw_topology(topology, &picture);
        status = hlo_text_status(&picture);
    }
    hlo_text_free(&picture);
    emu_topology_free(topology);
    return status;
}

static const NamedDoor doors[] = {
    {.name = "propagate", .door = propagate_door},   {.name = "partition", .door = partition_door},
    {.name = "one device", .door = one_device_door}, {.name = "four devices", .door = four_devices_door},
    {.name = "spread", .door = spread_door},         {.name = "emulate", .door = emulate_door},
    {.name = "machine", .door = machine_door}};

CaseList(memory, devices) {
    return cases_numbered(HLO_COUNT_OF(doors));
}

CaseTest(const int *number, memory, devices) {
    door_must_survive(&doors[*number]);
}
