// SPDX-License-Identifier: Apache-2.0
// meshlo shardings: which device holds which part of an array, as a box drawing.
//
// The drawing is that of jax.debug.visualize_array_sharding(), made by emulator/draw_sharding.c from the part of each
// device; shardings are spelt as for --shard.
#include <assert.h>

#include "tools/machine.h"

static const CliOption kOptions[] = {
    {"mesh", CLI_TEXT, "a=4,b=2", "The mesh: axes and their sizes, major first."},
    {"shape", CLI_TEXT, "8192,8192", "The array's dimensions, one or two."},
    {"spec", CLI_TEXT, "a,b", "One item a dimension: an axis, several (a+b), or - for none."},
    {"on", CLI_TEXT, "TOPOLOGY", "The slice whose devices make the mesh; also --topology (default: host devices)."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// The last parts of an unevenly sharded dimension are shorter, and some may be empty: start and limit are both clamped
// to the array's end.
static HloStatus make_shards(CliContext *context, const CliMesh *mesh, const int64_t *ids, const int64_t *dims,
                             int64_t rank, EmuShard *shards) {
    assert(rank > 0 && shards);
    const HloSharding *sharding;
    const HloShape *local;
    const HloShape *global = hlo_shape_array(context->arena, HLO_F32, dims, rank);
    HLO_TRY(hlo_status_annotate(
        spmd_spec_parse(context->arena, mesh->axes, mesh->count, cli_text_or(context, "spec", ""), rank, &sharding),
        "--spec"));
    HLO_TRY(spmd_shard_shape(context->arena, global, sharding, &local));
    for (int64_t i = 0; i < mesh->devices; ++i) {
        shards[i].device_id = ids[i];
        HLO_TRY(spmd_shard_offsets(global, sharding, i, shards[i].start));
        for (int64_t d = 0; d < rank; ++d) {
            int64_t limit = shards[i].start[d] + local->dims[d];
            shards[i].limit[d] = limit < dims[d] ? limit : dims[d];
        }
    }
    return HLO_SUCCESS;
}

// Element types do not matter to a sharding; f32 represents them all.
static HloStatus draw(CliContext *context, const EmuTopology *topology, const CliMesh *mesh) {
    int64_t dims[2], rank, sizes[EMU_MAX_MESH_AXES];
    const int64_t *ids;
    HLO_TRY(cli_numbers_parse(context, "shape", cli_text_or(context, "shape", ""), 2, dims, &rank));
    if (rank == 0) return cli_usage_error(context, "--shape is missing: one or two dimensions");
    HLO_TRY(hlo_status_annotate(hlo_shape_check_dims(HLO_F32, dims, rank), "--shape"));
    for (int64_t i = 0; i < mesh->count; ++i) sizes[i] = mesh->axes[i].size;
    HLO_TRY(cli_mesh_ids(context, topology, sizes, mesh->count, false, &ids));
    EmuShard *shards = HLO_ARENA_NEW(context->arena, EmuShard, mesh->devices);
    HLO_TRY(make_shards(context, mesh, ids, dims, rank, shards));
    return emu_draw_sharding(emu_topology_is_tpu(topology) ? "TPU" : "CPU", dims, rank, shards, mesh->devices,
                             EMU_BOX_LINES, &context->out);
}

static HloStatus run_shardings(CliContext *context) {
    CliMesh mesh;
    EmuTopology *topology = NULL;
    if (!cli_text(context, "mesh")) return cli_usage_error(context, "--mesh is missing");
    HLO_TRY(cli_mesh_parse(context, cli_text(context, "mesh"), &mesh));
    if (mesh.count > EMU_MAX_MESH_AXES)
        return cli_usage_error(context, "a mesh has at most %d axes", EMU_MAX_MESH_AXES);
    const char *otherwise = hlo_arena_format(context->arena, "cpu:%lld", (long long)mesh.devices);
    HLO_TRY(cli_topology_open(context, cli_text(context, "on"), otherwise, &topology));
    HloStatus status = draw(context, topology, &mesh);
    emu_topology_free(topology);
    return status;
}

const CliVerb cli_verb_shardings = {
    .name = "shardings",
    .arguments = "",
    .summary = "Draw which device holds which part of an array.",
    .examples =
        "meshlo shardings --mesh a=4,b=2 --shape 8192,8192 --spec a,b --on v2-8\n"
        "meshlo shardings --mesh a=4,b=2 --shape 8192,8192 --spec a+b,- --on v2-8",
    .tables = {&kTable},
    .run = run_shardings,
};
