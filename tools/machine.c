// SPDX-License-Identifier: Apache-2.0
// Options that name machines and meshes. Topology strings are read by emulator/topology.h; here is what a shell adds to
// them: lists of numbers, `x=4,y=2`, environment variables.
#include "tools/machine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxDevices = 1 << 20 };

// The next item of a comma-separated list, copied; moves *at past it. NULL at the end.
// Empty items are returned as empty strings, for the caller to refuse.
static const char *next_item(HloArena *arena, const char **at) {
    if (!*at) return NULL;
    size_t length = strcspn(*at, ",");
    const char *item = hlo_arena_string(arena, *at, length);
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return item;
}

// Parses a number without sign, and nothing after it.
static bool read_count(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *text >= '0' && *text <= '9';
}

// `x=4`, or a size alone, which gets the name axisN.
// kMaxDevices bounds each axis, and cli_mesh_parse() the product, so that no product overflows.
static HloStatus parse_axis(CliContext *context, const char *text, const char *item, int64_t index,
                            SpmdMeshAxis *axis) {
    assert(item && index >= 0 && axis);
    const char *equals = strchr(item, '=');
    const char *size = equals ? equals + 1 : item;
    axis->name = equals ? hlo_arena_string(context->arena, item, (size_t)(equals - item))
                        : hlo_arena_format(context->arena, "axis%lld", (long long)index);
    if (!*axis->name || !read_count(size, &axis->size) || axis->size < 1 || axis->size > kMaxDevices) {
        return cli_usage_error(context, "--mesh %s: expected NAME=SIZE, got '%s'", text, item);
    }
    return HLO_SUCCESS;
}

// No text is a mesh without axes.
// Axes are major first. Names must differ, as --shard names them.
HloStatus cli_mesh_parse(CliContext *context, const char *text, CliMesh *mesh) {
    HLO_VECTOR(SpmdMeshAxis) axes = {0};
    *mesh = (CliMesh){.devices = 1};
    const char *at = text;
    for (const char *item; (item = next_item(context->arena, &at));) {
        SpmdMeshAxis axis;
        HLO_TRY(parse_axis(context, text, item, axes.count, &axis));
        for (int64_t i = 0; i < axes.count; ++i) {
            if (strcmp(axes.items[i].name, axis.name) == 0) {
                return cli_usage_error(context, "--mesh %s: axis %s is given twice", text, axis.name);
            }
        }
        mesh->devices *= axis.size;
        if (mesh->devices > kMaxDevices)
            return cli_usage_error(context, "--mesh %s: the mesh is larger than any slice", text);
        hlo_vector_push(context->arena, &axes, axis);
    }
    mesh->axes = axes.items;
    mesh->count = axes.count;
    return HLO_SUCCESS;
}

HloStatus cli_numbers_parse(CliContext *context, const char *option, const char *text, int64_t room, int64_t *numbers,
                            int64_t *count) {
    assert(option && text && room > 0 && numbers && count);
    *count = 0;
    if (!*text) return HLO_SUCCESS;
    const char *at = text;
    for (const char *item; (item = next_item(context->arena, &at));) {
        if (*count == room) return cli_usage_error(context, "--%s %s: more than %d numbers", option, text, (int)room);
        if (!read_count(item, &numbers[(*count)++])) {
            return cli_usage_error(context, "--%s %s: '%s' is not a number", option, text, item);
        }
    }
    return HLO_SUCCESS;
}

HloStatus cli_numbers(CliContext *context, const char *option, bool has_none, const char *what,
                      HloInt64Vector *numbers) {
    const char *text = cli_text(context, option), *at = text;
    for (const char *item; at && (item = next_item(context->arena, &at));) {
        int64_t number = -1;
        if (!(has_none && strcmp(item, "-") == 0) && !read_count(item, &number))
            return cli_usage_error(context, "--%s: '%s' is no list of %s", option, text, what);
        hlo_vector_push(context->arena, numbers, number);
    }
    return HLO_SUCCESS;
}

// `spec` NULL: MESHLO_TOPOLOGY, then `otherwise`. Errors in a name are wrong usage, with the nearest names in the
// message; those in a pod's description, which have a position in its file, are errors of reading it.
HloStatus cli_topology_open(CliContext *context, const char *spec, const char *otherwise, EmuTopology **topology) {
    const char *given = cli_option_name(context, "on");
    const char *source = !spec || !cli_has_option(context->verb, given) || cli_text(context, given) != spec
                             ? NULL
                             : hlo_arena_format(context->arena, "--%s", given);
    if (!spec) {
        spec = getenv("MESHLO_TOPOLOGY");
        source = "MESHLO_TOPOLOGY";
    }
    if (!spec || !*spec) spec = otherwise;
    if (!spec) return cli_usage_error(context, "no topology given, and MESHLO_TOPOLOGY is not set");
    context->stage = CLI_STAGE_USAGE;
    const HloStatus status = emu_topology_parse(spec, topology);
    if (status && hlo_status_place(status)) {
        context->stage = CLI_STAGE_PROGRAM;
        return status;
    }
    return status && source && spec != otherwise ? hlo_status_annotate(status, "%s", source) : status;
}

HloStatus cli_mesh_ids(CliContext *context, const EmuTopology *topology, const int64_t *sizes, int64_t count,
                       bool split, const int64_t **ids) {
    int64_t devices = 1;
    for (int64_t i = 0; i < count; ++i) devices *= sizes[i];
    int64_t *out = HLO_ARENA_NEW(context->arena, int64_t, devices);
    *ids = out;
    return emu_mesh_order(topology, sizes, count, split, out);
}

void cli_each_slice(CliContext *context, const EmuChip *chip,
                    void (*visit)(void *argument, const EmuTopology *topology), void *argument) {
    const int64_t most = chip->pod_x * chip->pod_y * chip->pod_z;
    // Names count the cores of the generations before v5e, and those of v5p; chips otherwise.
    for (int64_t number = 1; number <= most * chip->cores_per_chip; number *= 2) {
        EmuTopology *topology = NULL;
        const char *name = hlo_arena_format(context->arena, "%s-%lld", chip->name, (long long)number);
        HloStatus status = emu_topology_parse(name, &topology);
        hlo_status_free(status);
        if (!status) visit(argument, topology);
        emu_topology_free(topology);
    }
}
