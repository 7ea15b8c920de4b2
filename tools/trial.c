// SPDX-License-Identifier: Apache-2.0
// Trials share the program and nothing else, so that their order does not matter.
#include "tools/trial.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "targets/spmd_machine.h"
#include "tools/prepare.h"

HloStatus cli_trial_run(CliContext *context, const HloModule *module, const CliTrialOptions *options, CliTrial *trial) {
    assert(module && options && options->topology && trial);
    *trial = (CliTrial){0};
    SpmdMachine machine;
    const bool prices = target_spmd_machine(options->topology, &machine);
    const bool per_device = cli_is_per_device(module, options->mesh.count || options->shard_count);
    CompileOptions compile = {.spmd = {.mesh = options->mesh.axes,
                                       .mesh_axis_count = options->mesh.count,
                                       .shards = options->shards,
                                       .shard_count = options->shard_count,
                                       .machine = prices ? &machine : NULL,
                                       .async = emu_topology_overlaps(options->topology) && !options->is_synchronous},
                              .is_per_device = per_device,
                              .is_verified = true};
    if (per_device && (options->mesh.count || options->shard_count))
        return cli_usage_error(
            context, "%s: the program is that of one device already: no --mesh or --shard changes it", module->name);
    cli_mesh_describe(context, module, &options->mesh, &trial->mesh, &trial->mesh_source);
    const EmuOptions emulation = {
        .mesh = trial->mesh, .mesh_source = trial->mesh_source, .kernel_costs = options->kernel_costs};
    return advice_trial_run(module, &compile, options->topology, &emulation, &trial->result);
}

void cli_trial_free(CliTrial *trial) {
    advice_trial_free(&trial->result);
    *trial = (CliTrial){0};
}

HloStatus cli_budget(CliContext *context, double otherwise, double *seconds) {
    const char *text = cli_text(context, "budget");
    *seconds = otherwise;
    if (!text || cli_duration_parse(text, seconds)) return HLO_SUCCESS;
    return cli_usage_error(context, "--budget wants a time like 30s, 2m or 500ms, not '%s'", text);
}

// ---- lists of slices

HloStatus cli_topologies_open(CliContext *context, const char *text, EmuTopology ***topologies, int64_t *count) {
    HLO_VECTOR(EmuTopology *) all = {0};
    HloStringVector names = {0};
    HloStatus status = HLO_SUCCESS;
    const char *source =
        text ? hlo_arena_format(context->arena, "--%s", cli_option_name(context, "on")) : "MESHLO_TOPOLOGY";
    if (!text) text = getenv("MESHLO_TOPOLOGY");
    if (!text || !*text) return cli_usage_error(context, "no topology given, and MESHLO_TOPOLOGY is not set");
    for (const char *at = text; at && !status;) {
        size_t length = strcspn(at, ",");
        // Options of a slice follow its name: v5e:4x4,wrap=none.
        while (at[length] && strcspn(at + length + 1, "=") < strcspn(at + length + 1, ","))
            length += 1 + strcspn(at + length + 1, ",");
        EmuTopology *topology = NULL;
        const char *name = hlo_arena_string(context->arena, at, length);
        if (*name)
            status = cli_topology_open(context, name, NULL, &topology);
        else
            status = cli_usage_error(context, "'%s' has no name of a slice between commas", text);
        for (int64_t i = 0; i < names.count && !status; ++i)
            if (!strcmp(names.items[i], name))
                status = cli_usage_error(context, "'%s' names the slice %s twice", text, name);
        if (status) status = hlo_status_annotate(status, "%s", source);
        if (topology) hlo_vector_push(context->arena, &all, topology);
        hlo_vector_push(context->arena, &names, name);
        at = at[length] ? at + length + 1 : NULL;
    }
    for (int64_t i = 0; i < all.count && status; ++i) emu_topology_free(all.items[i]);
    *topologies = all.items;
    *count = status ? 0 : all.count;
    return status;
}

// ---- patterns of meshes

HloStatus cli_meshes_expand(CliContext *context, const char *pattern, int64_t devices, bool orders, CliMesh **meshes,
                            int64_t *count) {
    const AdviceMesh *found;
    HloStatus status = advice_meshes(context->arena, pattern, devices, orders, &found, count);
    if (status) {
        const char *message = hlo_arena_text(context->arena, hlo_status_message(status));
        hlo_status_free(status);
        return cli_usage_error(context, "--%s", message);
    }
    *meshes = HLO_ARENA_NEW(context->arena, CliMesh, *count);
    for (int64_t i = 0; i < *count; ++i) (*meshes)[i] = (CliMesh){found[i].axes, found[i].count, devices};
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
        for (int64_t k = 0; k < i; ++k)
            for (int64_t t = 0; t < count; ++t)
                if (prices(values.items[i], topologies[t]) && prices(values.items[k], topologies[t]))
                    return cli_usage_error(context, "--price %s: %s has a price already", values.items[i],
                                           topologies[t]->chip.name);
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
