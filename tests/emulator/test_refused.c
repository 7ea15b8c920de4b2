// SPDX-License-Identifier: Apache-2.0
// Refusals of the emulator's functions when a program calls them, beyond those that the command's options reach.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/draw.h"
#include "emulator/export_hwloc.h"
#include "emulator/mesh_order.h"
#include "emulator/simulate.h"
#include "hlo/hlo.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static EmuTopology *topology_of(const char *spec) {
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse(spec, &topology));
    return topology;
}

// ---------------------------------------------------------------------------------------------------------------------
// Meshes

typedef struct MeshCase {
    int64_t sizes[3], count;
    const char *part;  // of the message
} MeshCase;

static const MeshCase mesh_cases[] = {
    {{4, 4}, 2, "the mesh has 16 positions"},
    {{0, 8}, 2, "mesh axis 0 has the impossible size 0"},
    {{8, -1}, 2, "mesh axis 1 has the impossible size -1"},
    {{INT64_C(1) << 62, 4}, 2, "mesh axis 1 has the impossible size 4"},
};

Test(emulator_refused, meshes_that_no_slice_holds) {
    EmuTopology *topology = topology_of("v2-8");
    int64_t ids[64];
    for (size_t i = 0; i < HLO_COUNT_OF(mesh_cases); i++) {
        const MeshCase *one = &mesh_cases[i];
        must_fail(emu_mesh_order(topology, one->sizes, one->count, false, ids), HLO_INVALID_ARGUMENT, one->part);
        must_fail(emu_default_assignment(topology, one->sizes, one->count, ids), HLO_INVALID_ARGUMENT,
                  i == 0 ? "16" : one->part);
    }
    emu_topology_free(topology);
}

Test(emulator_refused, meshes_of_chosen_devices) {
    EmuTopology *topology = topology_of("v4-16");
    const EmuMeshOptions options = {0};
    const int64_t sizes[EMU_MAX_MESH_AXES + 1] = {8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t none[] = {0};
    int64_t places[8];
    EmuDevice twins[8];
    memcpy(twins, topology->devices, sizeof(twins));
    memcpy(twins[7].coords, twins[6].coords, sizeof(twins[7].coords));
    twins[7].core_on_chip = twins[6].core_on_chip;
    must_fail(emu_device_mesh(topology->devices, 8, "TPU v4", sizes, EMU_MAX_MESH_AXES + 1, options, places),
              HLO_INVALID_ARGUMENT, "a mesh has at most 16 axes");
    must_fail(emu_device_mesh(topology->devices, 8, "TPU v4", none, 1, options, places), HLO_INVALID_ARGUMENT,
              "impossible size 0");
    must_fail(emu_device_mesh(topology->devices, 4, "TPU v4", sizes, 1, options, places), HLO_INVALID_ARGUMENT,
              "the mesh has 8 positions for 4 devices");
    const EmuMeshOptions contiguous = {.contiguous_submeshes = true};
    must_fail(emu_device_mesh(topology->devices, 8, "TPU v4", (const int64_t[]){2, 4}, 2, contiguous, places),
              HLO_INVALID_ARGUMENT, "contiguous submeshes are not known for this mesh on 2x2x2 chips");
    must_fail(emu_device_mesh(twins, 8, "TPU v4", (const int64_t[]){2, 4}, 2, options, places), HLO_INVALID_ARGUMENT,
              "the same coordinates");
    emu_topology_free(topology);
}

// Each factor is possible; their product ran over before anybody compared the number of slices.
Test(emulator_refused, bug_an_axis_over_slices_overflowed) {
    EmuTopology *topology = topology_of("v2-8");
    const int64_t eight[] = {8}, most[] = {INT64_MAX / 2};
    int64_t ids[64];
    must_fail(emu_mesh_order_hybrid(topology, eight, most, 1, false, ids), HLO_INVALID_ARGUMENT, "an impossible size");
    emu_topology_free(topology);
}

Test(emulator_refused, meshes_over_slices) {
    EmuTopology *topology = topology_of("v2-8");
    const int64_t eight[] = {8}, one[] = {1}, two[] = {2}, none[] = {0};
    int64_t ids[64];
    must_fail(emu_mesh_order_hybrid(topology, eight, one, 0, false, ids), HLO_INVALID_ARGUMENT,
              "a mesh has 1 to 16 axes");
    must_fail(emu_mesh_order_hybrid(topology, eight, none, 1, false, ids), HLO_INVALID_ARGUMENT, "an impossible size");
    must_fail(emu_mesh_order_hybrid(topology, eight, two, 1, false, ids), HLO_INVALID_ARGUMENT,
              "a mesh over 2 slices on a machine with 1");
    emu_topology_free(topology);
}

// ---------------------------------------------------------------------------------------------------------------------
// Drawings

Test(emulator_refused, drawings_of_shards_that_are_not_a_grid) {
    const int64_t ids[4] = {0, 1, 2, 3}, sizes[EMU_MAX_MESH_AXES + 1] = {4}, dims[3] = {8, 8, 8}, axis[] = {0};
    const EmuSpecDimension spec[3] = {{axis, 1}};
    EmuShard shards[4];
    HloText text = {0};
    must_fail(emu_shards_of_spec(ids, sizes, 1, dims, 3, spec, shards), HLO_INVALID_ARGUMENT, "one or two dimensions");
    must_fail(emu_shards_of_spec(ids, sizes, 1, dims, 0, spec, shards), HLO_INVALID_ARGUMENT, "one or two dimensions");
    must_fail(emu_shards_of_spec(ids, sizes, EMU_MAX_MESH_AXES + 1, dims, 1, spec, shards), HLO_INVALID_ARGUMENT,
              "a mesh has at most 16 axes");
    const int64_t six[] = {6};
    must_fail(emu_shards_of_spec(ids, sizes, 1, six, 1, spec, shards), HLO_INVALID_ARGUMENT,
              "dimension 0 of size 6 is not divisible into 4 parts");
    // Two parts that leave a hole, and three of which one lies across the boundary of the others.
    const EmuShard holes[] = {{0, {0, 0}, {4, 4}}, {1, {4, 4}, {8, 8}}};
    must_fail(emu_draw_sharding("x", dims, 2, holes, 2, EMU_BOX_LINES, &text), HLO_INVALID_ARGUMENT, "do not tile");
    const EmuShard across[] = {{0, {0, 0}, {4, 4}}, {1, {0, 4}, {4, 8}}, {2, {4, 2}, {8, 6}}};
    must_fail(emu_draw_sharding("x", dims, 2, across, 3, EMU_BOX_LINES, &text), HLO_INVALID_ARGUMENT, "do not tile");
    hlo_text_free(&text);
}

Test(emulator_refused, host_devices_as_a_slice) {
    EmuTopology *topology = topology_of("cpu:4");
    HloText xml = {0};
    must_fail(emu_export_hwloc(topology, &xml), HLO_INVALID_ARGUMENT, "is not a TPU slice");
    hlo_text_free(&xml);
    emu_topology_free(topology);
}

// ---------------------------------------------------------------------------------------------------------------------
// Programs

static void expect_not_simulated(HloModule *module, const EmuTopology *topology, const char *part) {
    EmuReport *report = NULL;
    must_fail(emu_simulate(module, topology, NULL, &report), HLO_INVALID_ARGUMENT, part);
    cr_expect_null(report);
}

Test(emulator_refused, programs_for_other_machines) {
    EmuTopology *topology = topology_of("v5e-4");
    HloModule *module = compiled_must_parse("HloModule m\nENTRY e {\n  ROOT p = f32[8] parameter(0)\n}\n");
    module->num_partitions = 8;
    expect_not_simulated(module, topology, "the program is for 8 devices, v5e-4 has 4");
    module->num_partitions = 0;
    expect_not_simulated(module, topology, "impossible replica or partition counts");
    module->num_partitions = INT64_C(1) << 40;
    module->replica_count = INT64_C(1) << 40;
    expect_not_simulated(module, topology, "impossible replica or partition counts");
    hlo_module_free(module);
    emu_topology_free(topology);
}

// Nested loops: the simulator recurses into them, and refuses them before the stack overflows.
Test(emulator_refused, loops_that_nest_too_deep) {
    enum { kLoops = 70 };
    EmuTopology *topology = topology_of("v5e-4");
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m\nc {\n p = f32[8] parameter(0)\n ROOT t = pred[] constant(false)\n}\n"
                    "body0 {\n p = f32[8] parameter(0)\n ROOT r = f32[8] negate(p)\n}\n");
    for (int i = 1; i <= kLoops; i++) {
        hlo_text_format(&text,
                        "%s%d {\n p = f32[8] parameter(0)\n ROOT r = f32[8] while(p), condition=c, body=body%d\n}\n",
                        i == kLoops ? "ENTRY body" : "body", i, i - 1);
    }
    HloModule *module = compiled_must_parse(text.data);
    EmuReport *report = NULL;
    must_fail(emu_simulate(module, topology, NULL, &report), HLO_UNIMPLEMENTED, "more than 64 levels deep");
    cr_expect_null(report);
    hlo_module_free(module);
    hlo_text_free(&text);
    emu_topology_free(topology);
}

// A program that is scheduled keeps its calls, and each of them is timed: functions that call the next one twice made
// the time exponential in their number. Refused at once, and not after the first sixteen million.
Test(emulator_refused, bug_calls_of_calls_without_end) {
    EmuTopology *topology = topology_of("v5e-4");
    HloText text = {0};
    cases_call_tree(&text, ", is_scheduled=true", 60);
    HloModule *module = compiled_must_parse(text.data);
    EmuReport *report = NULL;
    must_fail(emu_simulate(module, topology, NULL, &report), HLO_UNIMPLEMENTED,
              "with a copy of %c17 there are more than 1048576 instructions in copies");
    hlo_module_free(module);
    hlo_text_free(&text);
    emu_topology_free(topology);
}

// A channel without pairs has no devices to name.
Test(emulator_refused, messages_without_a_sender) {
    EmuTopology *topology = topology_of("v2-8");
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY e {\n a = token[] after-all()\n r = (f32[4], u32[], token[]) recv(a), channel_id=1\n"
        " d = (f32[4], token[]) recv-done(r), channel_id=1\n ROOT v = f32[4] get-tuple-element(d), index=0\n}\n");
    EmuReport *report = NULL;
    must_fail(emu_simulate(module, topology, NULL, &report), HLO_ABORTED,
              "deadlock: a device would wait forever at recv-done %d for a message on channel 1");
    hlo_module_free(module);
    emu_topology_free(topology);
}

// The size of an array without a bound overflowed on its way to bytes.
Test(emulator_refused, bug_arrays_without_bounds) {
    EmuTopology *topology = topology_of("v5e-8");
    HloModule *module = compiled_must_parse(
        "HloModule m\nENTRY main {\n x = f32[4] parameter(0)\n w = f32[?] parameter(1)\n"
        " ROOT r = (f32[4], f32[?]) tuple(x, w)\n}\n");
    EmuReport *report = NULL;
    must_fail(emu_simulate(module, topology, NULL, &report), HLO_UNIMPLEMENTED,
              "%w: an array with an unbounded dimension");
    hlo_module_free(module);
    emu_topology_free(topology);
}

// ---------------------------------------------------------------------------------------------------------------------
// Names of slices

typedef struct NameCase {
    const char *spec, *part;  // of the message
} NameCase;

static const NameCase name_cases[] = {
    {"v5e-4,hosts=2x2x", "is incomplete"},
    {"v5e-4,hosts=2", "chips along x, y, z are expected"},
    {"v5e-4,hosts=0x2", "chips along x, y, z are expected"},
    {"v5e-4,hosts=2x2x1x1", "chips along x, y, z are expected"},
    {"v5e-16,hosts=3x2", "do not divide"},
    {"v5e-4,wrap=w", "axes are expected"},
    {"v5e-4,wrap=", "axes are expected"},
    {"v4-8,megacore=maybe", "yes or no is expected"},
    {"v5e-4,megacore=no", "cannot form a megacore"},
    {"v5e-4,speed=2", "the option 'speed=2' is unknown"},
    {"v5e-5", "did you mean v5e-4 or v5e-8"},
    {"v5e-1000000", "did you mean v5e-256"},
    {"v4-0", "did you mean v4-8"},
    {"v4-3", "there is no such slice"},
    {"v2-4", "did you mean v2-8"},
    {"v5e-", "a number is expected after '-'"},
    {"v5e-16x", "a number is expected after '-'; did you mean v5e-16"},
    {"v5-e16", "a number is expected after '-'; did you mean v5e-16"},
    {"2xv5-e16", "did you mean 2xv5e-16"},
    {"3xv4-7", "did you mean 3xv4-8"},
    {"2xv6f-8", "did you mean 2xv6e-8"},
    {"v5e-99999999999", "did you mean v5e-256"},
    {"v5e", "names a generation only"},
    {"v5e:4", "a shape has two or three sizes"},
    {"v5e:4x4x1x1", "at most three axes"},
    {"v5e:4x0", "sizes such as 2x2x1 are expected"},
    {"v5e:4x4x2", "slices have two axes, not three"},
    {"v5e:32x8", "larger than a v5e pod"},
    {"v4:4x4x4_twisted", "can be twisted"},
    {"v5e:4x8_twisted", "can be twisted"},
    {"v4:4x4x8_turned", "unexpected '_turned'"},
    {"0xv5e-16", "0 slices are out of range"},
    {"2000000xv5e-16", "slices are out of range"},
    {"cpu:0", "a number of devices is expected"},
    {"cpu:8x", "a number of devices is expected"},
    {"cpux", "a number of devices is expected"},
    {"cpu:2147483647", "devices are out of range"},
    {"v6f-8", "did you mean v6e-8"},
    {"gpu-8", "unknown topology 'gpu-8'"},
    {"", "unknown topology ''"},
};

CaseList(emulator_refused, names_of_slices) {
    return cases_numbered(HLO_COUNT_OF(name_cases));
}
CaseTest(int *number, emulator_refused, names_of_slices) {
    EmuTopology *topology = NULL;
    must_fail(emu_topology_parse(name_cases[*number].spec, &topology), HLO_INVALID_ARGUMENT, name_cases[*number].part);
    cr_expect_null(topology);
}

// ---------------------------------------------------------------------------------------------------------------------
// Drawings

// Shards that leave a cell empty, or are side by side, are not a grid; an empty array cannot be drawn.
Test(emulator_refused, shards_that_are_no_grid) {
    const int64_t dims[] = {4, 4}, nothing[] = {0, 4};
    const EmuShard diagonal[] = {{.device_id = 0, .start = {0, 0}, .limit = {2, 2}},
                                 {.device_id = 1, .start = {2, 2}, .limit = {4, 4}}};
    const EmuShard corner[] = {{.device_id = 0, .start = {0, 0}, .limit = {2, 2}},
                               {.device_id = 1, .start = {0, 0}, .limit = {2, 2}},
                               {.device_id = 2, .start = {2, 2}, .limit = {4, 4}},
                               {.device_id = 3, .start = {2, 2}, .limit = {4, 4}}};
    HloText text = {0};
    must_fail(emu_draw_sharding("TPU", dims, 2, diagonal, 2, EMU_BOX_LINES, &text), HLO_INVALID_ARGUMENT,
              "do not tile the array as a grid");
    must_fail(emu_draw_sharding("TPU", dims, 2, corner, 4, EMU_BOX_LINES, &text), HLO_INVALID_ARGUMENT,
              "do not tile the array as a grid");
    must_fail(emu_draw_sharding("TPU", nothing, 2, diagonal, 1, EMU_BOX_LINES, &text), HLO_INVALID_ARGUMENT,
              "nothing to draw");
    must_fail(emu_draw_sharding("TPU", dims, 3, diagonal, 1, EMU_BOX_LINES, &text), HLO_INVALID_ARGUMENT,
              "one or two dimensions");
    hlo_text_free(&text);
}

Test(emulator_refused, a_mesh_with_too_many_axes) {
    EmuTopology *topology = topology_of("v5e-4");
    int64_t sizes[EMU_MAX_MESH_AXES + 1], ids[4];
    for (int i = 0; i <= EMU_MAX_MESH_AXES; i++) sizes[i] = 1;
    must_fail(emu_default_assignment(topology, sizes, EMU_MAX_MESH_AXES + 1, ids), HLO_INVALID_ARGUMENT,
              "a mesh has at most 16 axes");
    emu_topology_free(topology);
}
