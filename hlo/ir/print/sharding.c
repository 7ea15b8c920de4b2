// SPDX-License-Identifier: Apache-2.0
// Shardings and replica groups in the three text forms: device lists, iota tilings, named axes. The same 4 devices as 2
// x 2 tiles, and groups of two along the first axis:
//
//   V1  {devices=[2,2]0,1,2,3}                    {{0,2},{1,3}}
//   V2  {devices=[2,2]<=[4]}                      [2,2]<=[2,2]T(1,0)
//   V3  {mesh['x'=2,'y'=2], [{'x'}, {'y'}]}       mesh['x'=2,'y'=2] {'x'}
//
// The grammar is that of HloSharding::ToString and NamedSharding::ToString (xla/hlo/ir).
#include <assert.h>

#include "hlo/ir/attributes.h"
#include "hlo/ir/instruction.h"
#include "hlo/ir/replica_groups.h"
#include "hlo/ir/sharding.h"

// [dims]T(permutation)
static void print_iota(HloText *text, const HloIotaDevices *iota) {
    hlo_text_char(text, '[');
    hlo_ints_print(text, iota->dims);
    hlo_text_char(text, ']');
    if (iota->permutation.count > 1) {
        hlo_text_append(text, "T(", 2);
        hlo_ints_print(text, iota->permutation);
        hlo_text_char(text, ')');
    }
}

static void print_mesh(HloText *text, const HloMesh *mesh) {
    if (mesh->is_maximal) {
        hlo_text_format(text, "maximal_mesh[device_id=%lld]", (long long)mesh->device_ids.items[0]);
        return;
    }
    hlo_text_string(text, "mesh[");
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_axis_name_print(text, mesh->axis_names[i]);
        hlo_text_char(text, '=');
        hlo_text_int64(text, mesh->axis_sizes.items[i]);
    }
    hlo_text_char(text, ']');
    if (mesh->iota.dims.count == 0 && mesh->device_ids.count == 0) return;
    hlo_text_string(text, ", device_ids=(");
    if (mesh->iota.dims.count) {
        print_iota(text, &mesh->iota);
    } else {
        hlo_ints_print(text, mesh->device_ids);
    }
    hlo_text_char(text, ')');
}

static void print_axis(HloText *text, const HloMesh *mesh, const HloAxisRef *axis) {
    hlo_axis_name_print(text, mesh->axis_names[axis->axis]);
    if (axis->size) hlo_text_format(text, ":(%lld)%lld", (long long)axis->pre_size, (long long)axis->size);
}

static void print_axes(HloText *text, const HloMesh *mesh, const HloAxisRefs *axes, const char *separator) {
    assert(mesh && axes);
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < axes->count; i++) {
        if (i > 0) hlo_text_string(text, separator);
        print_axis(text, mesh, &axes->items[i]);
    }
    if (axes->open) hlo_text_string(text, axes->count ? ", ?" : "?");
    hlo_text_char(text, '}');
}

static void print_named_axes(HloText *text, const char *name, const HloMesh *mesh, const HloAxisRefs *axes) {
    if (axes->count == 0) return;
    hlo_text_string(text, name);
    print_axes(text, mesh, axes, ", ");
}

static const char *kind_text(HloShardingKind kind) {
    switch (kind) {
        case HLO_SHARDING_REPLICATED: return "replicated";
        case HLO_SHARDING_MAXIMAL: return "maximal";
        case HLO_SHARDING_MANUAL: return "manual";
        case HLO_SHARDING_UNKNOWN: return "unknown";
        case HLO_SHARDING_UNREDUCED: return "unreduced";
        default: return "";
    }
}

static void print_named(HloText *text, const HloNamedSharding *named) {
    assert(named);
    print_mesh(text, &named->mesh);
    if (named->mesh.is_maximal) return;
    hlo_text_append(text, ", ", 2);
    if (named->whole != HLO_SHARDING_TILED) {
        hlo_text_string(text, kind_text(named->whole));
        return;
    }
    hlo_text_char(text, '[');
    for (int64_t i = 0; i < named->dim_count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        print_axes(text, &named->mesh, &named->dims[i], ", ");
    }
    hlo_text_char(text, ']');
    print_named_axes(text, ", replicated=", &named->mesh, &named->replicated);
    print_named_axes(text, ", unreduced=", &named->mesh, &named->unreduced);
    print_named_axes(text, ", manual=", &named->mesh, &named->manual);
}

static void print_tiled(HloText *text, const HloSharding *sharding) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    hlo_text_string(text, "devices=[");
    hlo_ints_print(text, sharding->tile_dims);
    hlo_text_char(text, ']');
    if (sharding->iota.dims.count) {
        hlo_text_append(text, "<=", 2);
        print_iota(text, &sharding->iota);
    } else {
        hlo_ints_print(text, sharding->devices);
    }
    if (sharding->last_tile_dim_replicate) hlo_text_string(text, " last_tile_dim_replicate");
    if (sharding->subgroup_count == 0) return;
    hlo_text_string(text, " last_tile_dims={");
    for (int64_t i = 0; i < sharding->subgroup_count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        hlo_text_string(text, kind_text(sharding->subgroups[i]));
    }
    hlo_text_char(text, '}');
}

static void print_tuple(HloText *text, const HloSharding *sharding, bool metadata) {
    assert(sharding->kind == HLO_SHARDING_TUPLE);
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < sharding->element_count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        if (i > 0 && i % 5 == 0) hlo_text_format(text, "/*index=%lld*/", (long long)i);
        hlo_sharding_print_with(text, sharding->elements[i], metadata);
    }
    hlo_text_char(text, '}');
}

void hlo_sharding_print(HloText *text, const HloSharding *sharding) {
    hlo_sharding_print_with(text, sharding, false);
}

// A single one has only the outer braces, except in a named sharding.
static void print_origins(HloText *text, const HloSharding *sharding) {
    assert(sharding->metadata_count > 0);
    const bool is_named = sharding->kind == HLO_SHARDING_NAMED, braces = is_named || sharding->metadata_count > 1;
    hlo_text_string(text, is_named ? ", metadata={" : " metadata={");
    for (int64_t i = 0; i < sharding->metadata_count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        if (braces) hlo_text_char(text, '{');
        hlo_metadata_print(text, sharding->metadata[i]);
        if (braces) hlo_text_char(text, '}');
    }
    hlo_text_char(text, '}');
}

void hlo_sharding_print_with(HloText *text, const HloSharding *sharding, bool metadata) {
    assert(text && sharding);
    if (sharding->kind == HLO_SHARDING_TUPLE) {
        print_tuple(text, sharding, metadata);
        return;
    }
    hlo_text_char(text, '{');
    if (sharding->kind == HLO_SHARDING_NAMED) {
        print_named(text, sharding->named);
    } else if (sharding->kind == HLO_SHARDING_TILED) {
        print_tiled(text, sharding);
    } else {
        hlo_text_string(text, kind_text(sharding->kind));
    }
    if (sharding->kind == HLO_SHARDING_MAXIMAL) {
        hlo_text_format(text, " device=%lld", (long long)sharding->maximal_device);
    }
    if (sharding->group != HLO_SHARD_GROUP_NONE) {
        hlo_text_format(text, " shard_%s %lld", sharding->group == HLO_SHARD_AS ? "as" : "like",
                        (long long)sharding->group_id);
    }
    if (metadata && sharding->metadata_count) print_origins(text, sharding);
    hlo_text_char(text, '}');
}

void hlo_replica_groups_print(HloText *text, const HloReplicaGroups *groups) {
    assert(text && groups);
    if (groups->form == HLO_GROUPS_IOTA) {
        hlo_text_format(text, "[%lld,%lld]<=", (long long)groups->count, (long long)groups->size);
        print_iota(text, &groups->iota);
        return;
    }
    if (groups->form == HLO_GROUPS_MESH) {
        HloAxisRefs axes = {.items = groups->axes, .count = groups->axis_count};
        print_mesh(text, &groups->mesh);
        hlo_text_char(text, ' ');
        print_axes(text, &groups->mesh, &axes, ",");
        return;
    }
    hlo_text_char(text, '{');
    for (int64_t i = 0; i < groups->count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_text_char(text, '{');
        hlo_ints_print(text, groups->groups[i]);
        hlo_text_char(text, '}');
    }
    hlo_text_char(text, '}');
}
