// SPDX-License-Identifier: Apache-2.0
// Short of memory in calls that the other tests reach late, where they try one allocation in many: each is alone here,
// after all that it needs.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/draw.h"
#include "emulator/mesh_order.h"
#include "emulator/simulate.h"
#include "hlo/base/memory.h"
#include "targets/program.h"
#include "tests/memory/doors.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tools/feeds.h"

// ---- programs

// A sum over a sharded dimension, and a call.
static const char sum_text[] =
    "HloModule m, num_partitions=4\ntwice {\n a = f32[8,8] parameter(0)\n ROOT b = f32[8,8] add(a, a)\n}\n"
    "ENTRY e {\n x = f32[8,8] parameter(0), sharding={devices=[1,4]<=[4]}\n"
    " y = f32[8,8] parameter(1), sharding={devices=[4,1]<=[4]}\n z = f32[8,8] call(y), to_apply=twice\n"
    " p = f32[8,8] dot(x, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}\n"
    " ROOT r = f32[8,8] negate(p), sharding={replicated}\n}\n";

typedef struct Corner {
    HloModule *module, *partitioned;
    SpmdBoundary *boundary;
    HloLiteral *literals[2];
    TargetClient *client;
    TargetProgram *program;
    TargetArray *array;
    EmuTopology *topology;
} Corner;

static void open_corner(World *world) {
    Corner *corner = calloc(1, sizeof *corner);
    corner->module = compiled_must_parse(sum_text);
    must_succeed(spmd_partition(corner->module, NULL, &corner->partitioned, NULL));
    must_succeed(spmd_boundary_new(corner->partitioned, &corner->boundary));
    must_succeed(target_client_new("v2-8", &corner->client));
    must_succeed(target_program_new(corner->client, corner->module, NULL, &corner->program));
    for (int i = 0; i < 2; i++)
        corner->literals[i] = compiled_random(corner->module->entry->parameters.items[i]->shape, (uint64_t)i);
    must_succeed(target_program_place(corner->program, 0, corner->literals[0], &corner->array));
    must_succeed(emu_topology_parse("2xv5e-4", &corner->topology));
    world->more = corner;
}

static void close_corner(World *world) {
    Corner *corner = world->more;
    emu_topology_free(corner->topology);
    target_array_release(corner->array);
    for (int i = 0; i < 2; i++) hlo_literal_free(corner->literals[i]);
    target_program_free(corner->program);
    target_client_release(corner->client);
    spmd_boundary_free(corner->boundary);
    hlo_module_free(corner->partitioned);
    hlo_module_free(corner->module);
    free(corner);
}

static HloStatus halves_door(const World *world) {
    const Corner *corner = world->more;
    const SpmdOptions options = {.async = true};
    HloModule *partitioned = NULL;
    HloStatus status = spmd_partition(corner->module, &options, &partitioned, NULL);
    hlo_module_free(partitioned);
    return status;
}

static HloStatus shards_door(const World *world) {
    const Corner *corner = world->more;
    HloLiteral *shards[4] = {0};
    HloStatus status = spmd_shard_literal(corner->literals[0], corner->boundary->parameters[0].sharding, 4, shards);
    for (int i = 0; i < 4; i++) hlo_literal_free(shards[i]);
    return status;
}

static HloStatus call_door(const World *world) {
    const Corner *corner = world->more;
    HloLiteral *result = NULL;
    HloStatus status = target_program_call(corner->program, (const HloLiteral *const *)corner->literals, 2, &result);
    hlo_literal_free(result);
    return status;
}

// The program of one device: taken as it is, for devices in the order of a mesh.
static HloStatus program_door(const World *world) {
    const Corner *corner = world->more;
    TargetProgram *program = NULL;
    HloStatus status = target_program_new(corner->client, corner->partitioned, NULL, &program);
    target_program_free(program);
    return status;
}

static HloStatus drawing_door(const World *world) {
    const Corner *corner = world->more;
    HloText picture = {0};
    HloStatus status = target_array_draw(corner->array, &picture);
    hlo_text_free(&picture);
    return status;
}

// ---- machines

static HloStatus boxes_door(const World *world) {
    static const int64_t dims[] = {4, 4};
    static const EmuShard halves[] = {{.device_id = 0, .start = {0, 0}, .limit = {2, 4}},
                                      {.device_id = 1, .start = {2, 0}, .limit = {4, 4}}};
    HloText picture = {0};
    (void)world;
    HloStatus status = emu_draw_sharding("TPU", dims, 2, halves, 2, EMU_BOX_LINES, &picture);
    if (!status) status = hlo_text_status(&picture);
    hlo_text_free(&picture);
    return status;
}

static HloStatus slices_door(const World *world) {
    const Corner *corner = world->more;
    static const int64_t inner[] = {1, 4}, across[] = {2, 1};
    int64_t ids[8];
    return emu_mesh_order_hybrid(corner->topology, inner, across, 2, false, ids);
}

static HloStatus calls_door(const World *world) {
    const Corner *corner = world->more;
    EmuReport *report = NULL;
    HloStatus status = emu_simulate(corner->module, world->topology, NULL, &report);
    emu_report_free(report);
    return status;
}

// An unknown name, and no known one that is near.
static HloStatus name_door(const World *world) {
    EmuTopology *topology = NULL;
    (void)world;
    HloStatus status = emu_topology_parse("v5e-3", &topology);
    if (hlo_status_code(status) != HLO_INVALID_ARGUMENT) return status;
    cr_expect(strstr(hlo_status_message(status), "there is no such slice; did you mean"));
    hlo_status_free(status);
    return HLO_SUCCESS;
}

// ---- the command

static HloStatus outfeed_door(const World *world) {
    CliArrays given = {0};
    CliFeeds feeds = {.devices = 1, .given = &given};
    const TargetHostTransfers host = cli_feeds_transfers(&feeds);
    HloStatus status =
        host.send(host.context, 0, TARGET_CHANNEL_OUTFEED, world->arguments[0]->shape, world->arguments[0]->data);
    if (!status) cr_expect(hlo_literal_equal(given.items[0], world->arguments[0]));
    cli_feeds_free(&feeds);
    return status;
}

static const NamedDoor doors[] = {{"halves", halves_door, open_corner, close_corner},
                                  {"shards", shards_door, open_corner, close_corner},
                                  {"call", call_door, open_corner, close_corner},
                                  {"program", program_door, open_corner, close_corner},
                                  {"drawing", drawing_door, open_corner, close_corner},
                                  {"boxes", boxes_door, NULL, NULL},
                                  {"slices", slices_door, open_corner, close_corner},
                                  {"calls", calls_door, open_corner, close_corner},
                                  {"name", name_door, NULL, NULL},
                                  {"outfeed", outfeed_door, NULL, NULL}};

CaseList(memory, corners) {
    return cases_numbered(HLO_COUNT_OF(doors));
}
CaseTest(const int *number, memory, corners) {
    door_must_survive(&doors[*number]);
}
