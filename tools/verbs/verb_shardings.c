// SPDX-License-Identifier: Apache-2.0
// meshlo shardings: which device holds which part of an array, as a box drawing and in words.
//
// The drawing is that of jax.debug.visualize_array_sharding(), made by emulator/draw_sharding.c from the part of each
// device; shardings are spelt as for --shard. Arrays of more than two dimensions have the words alone.
#include <assert.h>
#include <string.h>

#include "hlo/text/text.h"
#include "tools/machine.h"

static const CliOption kOptions[] = {
    {"mesh", CLI_TEXT, "a=4,b=2", "The mesh: axes and their sizes, major first."},
    {"shape", CLI_TEXT, "8192,8192", "The array's dimensions, or its shape with the type: bf16[8192,8192]."},
    {"spec", CLI_TEXT, "a,b", "One item a dimension: an axis, several (a+b), or - for none."},
    {"on", CLI_TEXT, "TOPOLOGY", "The slice whose devices make the mesh; also --topology (default: host devices)."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// An array, how it is sharded, and the devices in the order of the mesh.
typedef struct Sharded {
    const HloShape *global, *local;
    bool has_type;  // that of --shape
    const HloSharding *sharding;
    const int64_t *ids;
    int64_t device_count;
    int64_t *starts;  // of the part of each device, one for each dimension
    int64_t *parts;   // into which each dimension is cut
} Sharded;

enum { MOST_DIMENSIONS = 32, MOST_LISTED = 16 };

// Element types do not matter to a sharding; f32 represents them all where none is given.
static HloStatus read_shape(CliContext *context, Sharded *sharded) {
    const char *text = cli_text_or(context, "shape", "");
    sharded->has_type = strchr(text, '[') != NULL;
    if (sharded->has_type) {
        HLO_TRY(hlo_status_annotate(hlo_parse_shape(context->arena, text, strlen(text), &sharded->global), "--shape"));
        if (!hlo_shape_is_array(sharded->global)) return cli_usage_error(context, "--shape: '%s' is no array", text);
    } else {
        int64_t dims[MOST_DIMENSIONS], rank;
        HLO_TRY(cli_numbers_parse(context, "shape", text, MOST_DIMENSIONS, dims, &rank));
        HLO_TRY(hlo_status_annotate(hlo_shape_check_dims(HLO_F32, dims, rank), "--shape"));
        sharded->global = hlo_shape_array(context->arena, HLO_F32, dims, rank);
    }
    if (sharded->global->rank == 0) return cli_usage_error(context, "--shape is missing: the array's dimensions");
    return HLO_SUCCESS;
}

static void print_shape(HloText *text, const Sharded *sharded, const HloShape *shape) {
    if (sharded->has_type) hlo_text_string(text, hlo_type_info(shape->type)->text);
    for (int64_t d = 0; d < shape->rank; d++) hlo_text_format(text, "%s%lld", d ? "," : "[", (long long)shape->dims[d]);
    hlo_text_char(text, ']');
}

static int64_t start_of(const Sharded *sharded, int64_t device, int64_t dim) {
    return sharded->starts[device * sharded->global->rank + dim];
}

// The end of the part of a device along a dimension: the last parts of an unevenly sharded one are shorter, and some
// may be empty, which begin at or after the array's end.
static int64_t limit_of(const Sharded *sharded, int64_t device, int64_t dim) {
    const int64_t limit = start_of(sharded, device, dim) + sharded->local->dims[dim];
    return limit < sharded->global->dims[dim] ? limit : sharded->global->dims[dim];
}

static HloStatus find_parts(CliContext *context, Sharded *sharded) {
    const int64_t rank = sharded->global->rank;
    HLO_TRY(spmd_shard_shape(context->arena, sharded->global, sharded->sharding, &sharded->local));
    sharded->starts = HLO_ARENA_NEW(context->arena, int64_t, sharded->device_count * rank);
    sharded->parts = HLO_ARENA_NEW(context->arena, int64_t, rank);
    for (int64_t i = 0; i < sharded->device_count; ++i) {
        HLO_TRY(spmd_shard_offsets(sharded->global, sharded->sharding, i, &sharded->starts[i * rank]));
        for (int64_t d = 0; d < rank; ++d) {
            const int64_t size = sharded->local->dims[d], part = size ? start_of(sharded, i, d) / size : 0;
            if (part >= sharded->parts[d]) sharded->parts[d] = part + 1;
        }
    }
    return HLO_SUCCESS;
}

static HloStatus draw(CliContext *context, const Sharded *sharded, const char *label) {
    const HloShape *global = sharded->global;
    EmuShard *shards = HLO_ARENA_NEW(context->arena, EmuShard, sharded->device_count);
    for (int64_t i = 0; i < sharded->device_count; ++i) {
        shards[i].device_id = sharded->ids[i];
        for (int64_t d = 0; d < global->rank; ++d) {
            shards[i].start[d] = start_of(sharded, i, d);
            shards[i].limit[d] = limit_of(sharded, i, d);
        }
    }
    return emu_draw_sharding(label, global->dims, global->rank, shards, sharded->device_count, EMU_BOX_LINES,
                             &context->out);
}

// Lists some devices.
static void print_devices(HloText *text, HloInts devices) {
    hlo_text_string(text, devices.count == 1 ? "device " : "devices ");
    for (int64_t i = 0; i < devices.count && i < MOST_LISTED; ++i)
        hlo_text_format(text, "%s%lld", i ? "," : "", (long long)devices.items[i]);
    if (devices.count > MOST_LISTED) hlo_text_format(text, " and %lld more", (long long)(devices.count - MOST_LISTED));
}

// Says of a dimension that is not divided evenly how large its parts are, and which devices have less than the others.
static void describe_uneven(CliContext *context, const Sharded *sharded, int64_t dim) {
    const int64_t size = sharded->global->dims[dim], part = sharded->local->dims[dim], parts = sharded->parts[dim];
    if (part * parts == size) return;
    const int64_t whole = size / part, rest = size % part, empty = parts - whole - (rest > 0);
    HloText *out = &context->out;
    hlo_text_format(out, "Dimension %lld is uneven: %lld elements in %lld parts are %lld of %lld", (long long)dim,
                    (long long)size, (long long)parts, (long long)whole, (long long)part);
    if (rest) hlo_text_format(out, "%s 1 of %lld", empty ? "," : " and", (long long)rest);
    if (empty) hlo_text_format(out, " and %lld that %s empty", (long long)empty, empty == 1 ? "is" : "are");
    HLO_VECTOR(int64_t) less = {0};
    for (int64_t i = 0; i < sharded->device_count; ++i)
        if (limit_of(sharded, i, dim) - start_of(sharded, i, dim) < part)
            hlo_vector_push(context->arena, &less, sharded->ids[i]);
    hlo_text_string(out, ". Less: ");
    print_devices(out, (HloInts){less.items, less.count});
    hlo_text_string(out, ".\n");
}

static void describe(CliContext *context, const Sharded *sharded) {
    HloText *out = &context->out;
    int64_t parts = 1;
    for (int64_t d = 0; d < sharded->global->rank; ++d) parts *= sharded->parts[d];
    hlo_text_string(out, "A device holds ");
    if (parts == 1) hlo_text_string(out, "all of ");
    print_shape(out, sharded, sharded->local);
    if (parts > 1) {
        hlo_text_format(out, ", one of %lld parts of ", (long long)parts);
        print_shape(out, sharded, sharded->global);
    }
    if (sharded->has_type) {
        hlo_text_string(out, ": ");
        hlo_text_size(out, hlo_shape_bytes(sharded->local));
    }
    hlo_text_string(out, ".");
    if (parts > 1 && parts < sharded->device_count)
        hlo_text_format(out, " Each part is on %lld devices.", (long long)(sharded->device_count / parts));
    hlo_text_char(out, '\n');
    for (int64_t d = 0; d < sharded->global->rank; ++d) describe_uneven(context, sharded, d);
}

static HloStatus show(CliContext *context, const EmuTopology *topology, const CliMesh *mesh) {
    Sharded sharded = {.device_count = mesh->devices};
    int64_t sizes[EMU_MAX_MESH_AXES];
    HLO_TRY(read_shape(context, &sharded));
    for (int64_t i = 0; i < mesh->count; ++i) sizes[i] = mesh->axes[i].size;
    HLO_TRY(cli_mesh_ids(context, topology, sizes, mesh->count, false, &sharded.ids));
    HLO_TRY(
        hlo_status_annotate(spmd_spec_parse(context->arena, mesh->axes, mesh->count, cli_text_or(context, "spec", ""),
                                            sharded.global->rank, &sharded.sharding),
                            "--spec"));
    HLO_TRY(find_parts(context, &sharded));
    if (sharded.global->rank <= 2) HLO_TRY(draw(context, &sharded, emu_topology_is_tpu(topology) ? "TPU" : "CPU"));
    describe(context, &sharded);
    return HLO_SUCCESS;
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
    HloStatus status = show(context, topology, &mesh);
    emu_topology_free(topology);
    return status;
}

const CliVerb cli_verb_shardings = {
    .name = "shardings",
    .arguments = "",
    .summary = "Draw which device holds which part of an array, and say it in words.",
    .examples =
        "meshlo shardings --mesh a=4,b=2 --shape 8192,8192 --spec a,b --on v2-8\n"
        "meshlo shardings --mesh a=4,b=2 --shape 'bf16[8192,8192]' --spec a+b,- --on v2-8",
    .tables = {&kTable},
    .run = run_shardings,
};
