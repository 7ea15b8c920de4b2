// SPDX-License-Identifier: Apache-2.0
// Trials share the program and nothing else, so that their order does not matter.
#include "tools/trial.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "targets/program.h"
#include "tools/prepare.h"

static HloStatus simulate(CliContext *context, const HloModule *module, const CliTrialOptions *options,
                          CliTrial *trial) {
    const int64_t partitions =
        trial->compiled->module->num_partitions > 0 ? trial->compiled->module->num_partitions : 1;
    const int64_t replicas = module->replica_count > 0 ? module->replica_count : 1;
    EmuOptions emulation = {.mesh = trial->mesh, .mesh_source = trial->mesh_source};
    HLO_FAIL_IF(partitions > options->topology->device_count / replicas, HLO_INVALID_ARGUMENT,
                "the program needs %lld devices, %s has %lld", (long long)(partitions * replicas),
                options->topology->name, (long long)options->topology->device_count);
    if (emu_topology_is_tpu(options->topology) && replicas == 1) {
        int64_t *ids = HLO_ARENA_NEW(context->arena, int64_t, partitions);
        HLO_TRY(target_default_assignment(options->topology, module, options->mesh.axes, options->mesh.count,
                                          partitions, ids));
        emulation.device_assignment = ids;
        emulation.device_assignment_count = partitions;
    }
    return emu_simulate(trial->compiled->module, options->topology, &emulation, &trial->report);
}

HloStatus cli_trial_run(CliContext *context, const HloModule *module, const CliTrialOptions *options, CliTrial *trial) {
    assert(module && options && options->topology && trial);
    *trial = (CliTrial){0};
    const bool per_device = spmd_is_partitioned(module) || (module->is_scheduled && module->num_partitions > 1);
    CompileOptions compile = {.spmd = {.mesh = options->mesh.axes,
                                       .mesh_axis_count = options->mesh.count,
                                       .shards = options->shards,
                                       .shard_count = options->shard_count,
                                       .async = options->topology->chip.overlaps_collectives != 0},
                              .is_per_device = per_device,
                              .is_verified = true};
    if (per_device && (options->mesh.count || options->shard_count))
        return cli_usage_error(
            context, "%s: the program is that of one device already: no --mesh or --shard changes it", module->name);
    cli_mesh_describe(context, module, &options->mesh, &trial->mesh, &trial->mesh_source);
    HLO_TRY(compile_module(module, &compile, &trial->compiled));
    return simulate(context, module, options, trial);
}

void cli_trial_free(CliTrial *trial) {
    emu_report_free(trial->report);
    compiled_module_free(trial->compiled);
    *trial = (CliTrial){0};
}

// ---- lists of slices

HloStatus cli_topologies_open(CliContext *context, const char *text, EmuTopology ***topologies, int64_t *count) {
    HLO_VECTOR(EmuTopology *) all = {0};
    HloStatus status = HLO_SUCCESS;
    if (!text) text = getenv("MESHLO_TOPOLOGY");
    if (!text || !*text) return cli_usage_error(context, "no topology given, and MESHLO_TOPOLOGY is not set");
    for (const char *at = text; at && !status;) {
        size_t length = strcspn(at, ",");
        // Options of a slice follow its name: v5e:4x4,wrap=none.
        while (at[length] && strcspn(at + length + 1, "=") < strcspn(at + length + 1, ","))
            length += 1 + strcspn(at + length + 1, ",");
        EmuTopology *topology = NULL;
        const char *name = hlo_arena_string(context->arena, at, length);
        status = cli_topology_open(context, name, NULL, &topology);
        if (status) status = hlo_status_annotate(status, "--%s", cli_option_name(context->verb, "on"));
        if (topology) hlo_vector_push(context->arena, &all, topology);
        at = at[length] ? at + length + 1 : NULL;
    }
    for (int64_t i = 0; i < all.count && status; ++i) emu_topology_free(all.items[i]);
    *topologies = all.items;
    *count = status ? 0 : all.count;
    return status;
}

// ---- patterns of meshes

enum { kMostAxes = 6 };

typedef struct Expansion {
    CliContext *context;
    const char *names[kMostAxes];
    int64_t fixed[kMostAxes];  // 0: any
    int64_t sizes[kMostAxes];
    int64_t axis_count, devices;
    bool orders;
    HLO_VECTOR(CliMesh) meshes;
} Expansion;

static bool same_order(const CliMesh *a, const SpmdMeshAxis *axes, int64_t count) {
    int64_t i = 0, k = 0;
    for (;;) {
        while (i < a->count && a->axes[i].size == 1) ++i;
        while (k < count && axes[k].size == 1) ++k;
        if (i == a->count || k == count) return i == a->count && k == count;
        if (a->axes[i].size != axes[k].size || strcmp(a->axes[i].name, axes[k].name) != 0) return false;
        ++i;
        ++k;
    }
}

// Adds the sizes in this order of axes, unless it differs from another mesh only in the place of an axis of one device.
static void add_order(Expansion *expansion, const int *order) {
    SpmdMeshAxis *axes = HLO_ARENA_NEW(expansion->context->arena, SpmdMeshAxis, expansion->axis_count);
    for (int64_t i = 0; i < expansion->axis_count; ++i)
        axes[i] = (SpmdMeshAxis){expansion->names[order[i]], expansion->sizes[order[i]]};
    for (int64_t i = 0; i < expansion->meshes.count; ++i)
        if (same_order(&expansion->meshes.items[i], axes, expansion->axis_count)) return;
    const CliMesh mesh = {axes, expansion->axis_count, expansion->devices};
    hlo_vector_push(expansion->context->arena, &expansion->meshes, mesh);
}

static void add_orders(Expansion *expansion, int *order, int64_t done, unsigned used) {
    if (done == expansion->axis_count) {
        add_order(expansion, order);
        return;
    }
    for (int axis = 0; axis < expansion->axis_count; ++axis) {
        if (used >> axis & 1) continue;
        if (!expansion->orders && axis != done) continue;
        order[done] = axis;
        add_orders(expansion, order, done + 1, used | 1u << axis);
    }
}

// The recursion is as deep as the mesh has axes.
static void add_sizes(Expansion *expansion, int64_t axis, int64_t left) {
    int order[kMostAxes];
    if (axis == expansion->axis_count) {
        if (left == 1) add_orders(expansion, order, 0, 0);
        return;
    }
    for (int64_t size = left; size >= 1; --size) {
        if (left % size || (expansion->fixed[axis] && expansion->fixed[axis] != size)) continue;
        expansion->sizes[axis] = size;
        add_sizes(expansion, axis + 1, left / size);
    }
}

HloStatus cli_meshes_expand(CliContext *context, const char *pattern, int64_t devices, bool orders, CliMesh **meshes,
                            int64_t *count) {
    assert(pattern && devices > 0 && meshes && count);
    Expansion expansion = {.context = context, .devices = devices, .orders = orders};
    for (const char *at = pattern; at;) {
        const size_t length = strcspn(at, ",");
        const char *item = hlo_arena_string(context->arena, at, length), *equals = strchr(item, '=');
        char *end = NULL;
        if (expansion.axis_count == kMostAxes)
            return cli_usage_error(context, "--mesh %s: more than %d axes", pattern, kMostAxes);
        const bool any = equals && !strcmp(equals + 1, "*");
        const int64_t size = equals && !any ? strtoll(equals + 1, &end, 10) : 0;
        if (!equals || equals == item || (!any && (end == equals + 1 || *end || size < 1 || size > devices)))
            return cli_usage_error(context, "--mesh %s: '%s' is no axis like x=* or x=4 of %lld devices", pattern, item,
                                   (long long)devices);
        expansion.names[expansion.axis_count] = hlo_arena_string(context->arena, item, (size_t)(equals - item));
        for (int64_t i = 0; i < expansion.axis_count; ++i)
            if (!strcmp(expansion.names[i], expansion.names[expansion.axis_count]))
                return cli_usage_error(context, "--mesh %s: the axis %s is there twice", pattern, expansion.names[i]);
        expansion.fixed[expansion.axis_count++] = size;
        at = at[length] ? at + length + 1 : NULL;
    }
    add_sizes(&expansion, 0, devices);
    if (!expansion.meshes.count)
        return cli_usage_error(context, "--mesh %s: no such mesh has %lld devices", pattern, (long long)devices);
    *meshes = expansion.meshes.items;
    *count = expansion.meshes.count;
    return HLO_SUCCESS;
}

HloStatus cli_mesh_pattern(CliContext *context, const HloModule *module, const char **pattern) {
    const SpmdMeshAxis *axes;
    int64_t count;
    HloText text = {0};
    *pattern = NULL;
    HLO_TRY(spmd_named_axes(context->arena, module, &axes, &count));
    if (!count) return HLO_SUCCESS;
    for (int64_t i = 0; i < count; ++i) hlo_text_format(&text, "%s%s=*", i ? "," : "", axes[i].name);
    *pattern = hlo_text_to_arena(context->arena, &text);
    return HLO_SUCCESS;
}

// ---- prices

// The price in one value of --price; below 0 if it is not of the form v5e=1.20.
static double read_price(const char *value) {
    const char *equals = strchr(value, '=');
    char *end = NULL;
    const double price = equals ? hlo_strtod(equals + 1, &end) : -1;
    return equals && end != equals + 1 && !*end && price >= 0 && price < 1e12 ? price : -1;
}

// Whether the value's generation is that of the slice.
static bool prices(const char *value, const EmuTopology *topology) {
    const char *name = topology->chip.name;
    return name && !strncmp(value, name, strlen(name)) && value[strlen(name)] == '=';
}

HloStatus cli_prices_check(CliContext *context, EmuTopology *const *topologies, int64_t count) {
    const HloStringVector values = cli_list(context, "price");
    for (int64_t i = 0; i < values.count; ++i) {
        if (read_price(values.items[i]) < 0)
            return cli_usage_error(context, "--price %s: wants a generation and a number, as in v5e=1.20",
                                   values.items[i]);
        bool found = false;
        for (int64_t t = 0; t < count; ++t) found |= prices(values.items[i], topologies[t]);
        if (!found)
            return cli_usage_error(context, "--price %s: no slice of --on is of that generation", values.items[i]);
    }
    return HLO_SUCCESS;
}

double cli_price_of(CliContext *context, const EmuTopology *topology) {
    const HloStringVector values = cli_list(context, "price");
    double price = -1;
    for (int64_t i = 0; i < values.count; ++i)
        if (prices(values.items[i], topology)) price = read_price(values.items[i]);
    return price;
}
