// SPDX-License-Identifier: Apache-2.0
// Trials share the program and nothing else, so that their order does not matter.
#include "advice/trial.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "targets/program.h"

HloStatus advice_simulate(const HloModule *module, const CompileOptions *compile, const CompiledModule *compiled,
                          const EmuTopology *topology, const EmuOptions *emulation, EmuReport **report) {
    assert(module && compiled && topology && report);
    const int64_t partitions = compiled->module->num_partitions > 0 ? compiled->module->num_partitions : 1;
    const int64_t replicas = module->replica_count > 0 ? module->replica_count : 1;
    EmuOptions options = emulation ? *emulation : (EmuOptions){0};
    HLO_FAIL_IF(partitions > topology->device_count / replicas, HLO_INVALID_ARGUMENT,
                "the program needs %lld devices, %s has %lld", (long long)(partitions * replicas), topology->name,
                (long long)topology->device_count);
    if (!options.whole && !compiled->was_per_device) options.whole = module;
    const bool places = emu_topology_is_tpu(topology) && replicas == 1 && !options.device_assignment;
    int64_t *ids = places ? hlo_allocate_zeroed((size_t)partitions, sizeof(*ids)) : NULL;
    HLO_FAIL_IF(places && !ids, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = HLO_SUCCESS;
    if (places) {
        status = target_default_assignment(topology, module, compile ? compile->spmd.mesh : NULL,
                                           compile ? compile->spmd.mesh_axis_count : 0, partitions, ids);
        options.device_assignment = ids;
        options.device_assignment_count = partitions;
    }
    if (!status) status = emu_simulate(compiled->module, topology, &options, report);
    hlo_free(ids);
    return status;
}

HloStatus advice_trial_run(const HloModule *module, const CompileOptions *compile, const EmuTopology *topology,
                           const EmuOptions *emulation, AdviceTrial *trial) {
    assert(module && topology && trial);
    *trial = (AdviceTrial){0};
    HLO_TRY(compile_module(module, compile, &trial->compiled));
    return advice_simulate(module, compile, trial->compiled, topology, emulation, &trial->report);
}

void advice_trial_free(AdviceTrial *trial) {
    emu_report_free(trial->report);
    compiled_module_free(trial->compiled);
    *trial = (AdviceTrial){0};
}

// ---- patterns of meshes

enum { MOST_AXES = 6 };

typedef struct Expansion {
    HloArena *arena;
    const char *pattern;
    const char *names[MOST_AXES];
    int64_t fixed[MOST_AXES];  // 0: any
    int64_t sizes[MOST_AXES];
    int64_t axis_count, devices;
    bool orders;
    HLO_VECTOR(AdviceMesh) meshes;
} Expansion;

static bool same_order(const AdviceMesh *a, const SpmdMeshAxis *axes, int64_t count) {
    int64_t i = 0, k = 0;
    for (;;) {
        while (i < a->count && a->axes[i].size == 1) i++;
        while (k < count && axes[k].size == 1) k++;
        if (i == a->count || k == count) return i == a->count && k == count;
        if (a->axes[i].size != axes[k].size || strcmp(a->axes[i].name, axes[k].name) != 0) return false;
        i++;
        k++;
    }
}

// Adds the sizes in this order of axes, unless it differs from another mesh only in the place of an axis of one device.
static void add_order(Expansion *expansion, const int *order) {
    SpmdMeshAxis *axes = HLO_ARENA_NEW(expansion->arena, SpmdMeshAxis, expansion->axis_count);
    for (int64_t i = 0; i < expansion->axis_count; i++)
        axes[i] = (SpmdMeshAxis){expansion->names[order[i]], expansion->sizes[order[i]]};
    for (int64_t i = 0; i < expansion->meshes.count; i++)
        if (same_order(&expansion->meshes.items[i], axes, expansion->axis_count)) return;
    const AdviceMesh mesh = {axes, expansion->axis_count};
    hlo_vector_push(expansion->arena, &expansion->meshes, mesh);
}

static void add_orders(Expansion *expansion, int *order, int64_t done, unsigned used) {
    if (done == expansion->axis_count) {
        add_order(expansion, order);
        return;
    }
    for (int axis = 0; axis < expansion->axis_count; axis++) {
        if (used >> axis & 1) continue;
        if (!expansion->orders && axis != done) continue;
        order[done] = axis;
        add_orders(expansion, order, done + 1, used | 1u << axis);
    }
}

// The recursion is as deep as the mesh has axes.
static void add_sizes(Expansion *expansion, int64_t axis, int64_t left) {
    int order[MOST_AXES];
    if (axis == expansion->axis_count) {
        if (left == 1) add_orders(expansion, order, 0, 0);
        return;
    }
    for (int64_t size = left; size >= 1; size--) {
        if (left % size || (expansion->fixed[axis] && expansion->fixed[axis] != size)) continue;
        expansion->sizes[axis] = size;
        add_sizes(expansion, axis + 1, left / size);
    }
}

// Reads the pattern: `name=size` or `name=*`, with commas between them.
static HloStatus read_pattern(Expansion *expansion, const char *pattern) {
    HloArena *arena = expansion->arena;
    const int64_t devices = expansion->devices;
    for (const char *at = pattern; at;) {
        const size_t length = strcspn(at, ",");
        const char *item = hlo_arena_string(arena, at, length), *equals = strchr(item, '=');
        char *end = NULL;
        HLO_FAIL_IF(expansion->axis_count == MOST_AXES, HLO_INVALID_ARGUMENT, "mesh %s: more than %d axes", pattern,
                    MOST_AXES);
        const bool any = equals && !strcmp(equals + 1, "*");
        const int64_t size = equals && !any ? strtoll(equals + 1, &end, 10) : 0;
        HLO_FAIL_IF(!equals || equals == item || (!any && (end == equals + 1 || *end || size < 1 || size > devices)),
                    HLO_INVALID_ARGUMENT, "mesh %s: '%s' is no axis like x=* or x=4 of %lld devices", pattern, item,
                    (long long)devices);
        const char *name = hlo_arena_string(arena, item, (size_t)(equals - item));
        for (int64_t i = 0; i < expansion->axis_count; i++)
            HLO_FAIL_IF(!strcmp(expansion->names[i], name), HLO_INVALID_ARGUMENT, "mesh %s: the axis %s is there twice",
                        pattern, name);
        expansion->names[expansion->axis_count] = name;
        expansion->fixed[expansion->axis_count++] = size;
        at = at[length] ? at + length + 1 : NULL;
    }
    return HLO_SUCCESS;
}

static HloStatus expand(void *argument) {
    Expansion *expansion = argument;
    HLO_TRY(read_pattern(expansion, expansion->pattern));
    add_sizes(expansion, 0, expansion->devices);
    HLO_FAIL_IF(!expansion->meshes.count, HLO_INVALID_ARGUMENT, "mesh %s: no such mesh has %lld devices",
                expansion->pattern, (long long)expansion->devices);
    return HLO_SUCCESS;
}

HloStatus advice_meshes(HloArena *arena, const char *pattern, int64_t devices, bool orders, const AdviceMesh **meshes,
                        int64_t *count) {
    assert(arena && pattern && devices > 0 && meshes && count);
    Expansion expansion = {.arena = arena, .pattern = pattern, .devices = devices, .orders = orders};
    HLO_TRY(hlo_protect(expand, &expansion));
    *meshes = expansion.meshes.items;
    *count = expansion.meshes.count;
    return HLO_SUCCESS;
}

HloStatus advice_mesh_pattern(HloArena *arena, const HloModule *module, const char **pattern) {
    const SpmdMeshAxis *axes;
    int64_t count;
    HloText text = {0};
    *pattern = NULL;
    HLO_TRY(spmd_named_axes(arena, module, &axes, &count));
    if (!count) return HLO_SUCCESS;
    for (int64_t i = 0; i < count; i++) hlo_text_format(&text, "%s%s=*", i ? "," : "", axes[i].name);
    *pattern = hlo_text_to_arena(arena, &text);
    return HLO_SUCCESS;
}

// ---- the mesh in words

typedef struct Description {
    HloArena *arena;
    const HloModule *module;
    const SpmdMeshAxis *axes;
    int64_t count;
    const char *given, *text, *source;
} Description;

// A program whose mesh cannot be read is refused elsewhere.
static HloStatus describe(void *argument) {
    Description *description = argument;
    const SpmdMeshAxis *axes = description->axes, *named;
    int64_t count = description->count, named_count = 0, devices = 1;
    const char *source = description->given;
    if (!count) {
        HloStatus status = spmd_named_axes(description->arena, description->module, &named, &named_count);
        if (!status) status = spmd_module_mesh(description->arena, description->module, &axes, &count);
        source = named_count                                  ? "the program's"
                 : spmd_has_device_lists(description->module) ? "from the program's device lists"
                                                              : "the program's number of partitions";
        if (status) count = 0;
        hlo_status_free(status);
    }
    for (int64_t i = 0; i < count; i++) devices *= axes[i].size;
    const bool one = devices == 1 && !description->count;
    description->source = one ? "one device" : hlo_arena_text(description->arena, source);
    description->text = one ? "" : spmd_mesh_text(description->arena, axes, count);
    return HLO_SUCCESS;
}

HloStatus advice_mesh_describe(HloArena *arena, const HloModule *module, const SpmdMeshAxis *axes, int64_t count,
                               const char *given, const char **text, const char **source) {
    assert(arena && module && (axes || !count) && text && source);
    Description description = {arena, module, axes, count, given ? given : "", "", ""};
    HloStatus status = hlo_protect(describe, &description);
    *text = description.text;
    *source = description.source;
    return status;
}
