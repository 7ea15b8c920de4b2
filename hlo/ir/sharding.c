// SPDX-License-Identifier: Apache-2.0
// Sharding annotations: creation, copying and comparison in their written form. An annotation is immutable, so
// instructions share it by pointer; everything that it points to is in the same arena.
//
// Two annotations that mean the same but are written differently (a device list and its iota formula) are not equal
// here: the partitioner (spmd_partitioner/sharding.h), which has one form for all, compares meanings.
#include "hlo/ir/sharding.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/map.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/instruction.h"

static HloSharding *new_sharding(HloArena *arena, HloShardingKind kind) {
    HloSharding *sharding = HLO_ARENA_NEW(arena, HloSharding, 1);
    sharding->kind = kind;
    return sharding;
}

const HloSharding *hlo_sharding_simple(HloArena *arena, HloShardingKind kind) {
    return new_sharding(arena, kind);
}

const HloSharding *hlo_sharding_maximal(HloArena *arena, int64_t device) {
    HloSharding *sharding = new_sharding(arena, HLO_SHARDING_MAXIMAL);
    sharding->maximal_device = device;
    return sharding;
}

const HloSharding *hlo_sharding_tuple(HloArena *arena, const HloSharding *const *elements, int64_t count) {
    assert(arena && count >= 0);
    HloSharding *sharding = new_sharding(arena, HLO_SHARDING_TUPLE);
    sharding->elements = hlo_arena_copy(arena, elements, (size_t)count * sizeof(*elements));
    sharding->element_count = count;
    return sharding;
}

// The maximum number of dimensions of a device order: text and protobuf readers refuse more.
enum { MOST_DIMS = 64 };

// Computes iota(n) reshaped to `dims`, transposed by `permutation`, in row-major order: an odometer over the transposed
// sizes, whose steps are the strides of the dimensions before the transpose. Linear in the number of devices, without a
// division.
//
//   [2,3]T(1,0)    0 1 2    transposed   0 3    devices 0 3 1 4 2 5
//                  3 4 5                 1 4
//                                        2 5
// A part covers the factors of the axis from pre_size up to, but without, pre_size * size.
bool hlo_axis_refs_overlap(const HloAxisRef *a, const HloAxisRef *b) {
    if (a->axis != b->axis) return false;
    if (!a->size || !b->size) return true;
    return a->pre_size < b->pre_size * b->size && b->pre_size < a->pre_size * a->size;
}

void hlo_iota_devices_expand(const HloIotaDevices *iota, int64_t *devices) {
    assert(iota->dims.count > 0);
    assert(iota->permutation.count == 0 || iota->permutation.count == iota->dims.count);
    int64_t rank = iota->dims.count;
    HLO_BUG_IF(rank > MOST_DIMS);
    int64_t strides[MOST_DIMS], sizes[MOST_DIMS], steps[MOST_DIMS], index[MOST_DIMS] = {0};
    int64_t total = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        strides[i] = total;
        total *= iota->dims.items[i];
    }
    for (int64_t i = 0; i < rank; i++) {
        int64_t from = iota->permutation.count ? iota->permutation.items[i] : i;
        sizes[i] = iota->dims.items[from];
        steps[i] = strides[from];
    }
    int64_t device = 0;
    for (int64_t position = 0; position < total; position++) {
        devices[position] = device;
        for (int64_t i = rank - 1; i >= 0; i--) {
            device += steps[i];
            if (++index[i] < sizes[i]) break;
            device -= steps[i] * sizes[i];
            index[i] = 0;
        }
    }
}

const int64_t *hlo_sharding_devices(HloArena *arena, const HloSharding *sharding) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    if (!sharding->iota.dims.count) return sharding->devices.items;
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, hlo_sharding_device_count(sharding));
    hlo_iota_devices_expand(&sharding->iota, devices);
    return devices;
}

const int64_t *hlo_global_dims(HloArena *arena, const char *text, int64_t leaf, int64_t rank) {
    assert(leaf >= 0 && rank >= 0); /* of a shape */
    for (int64_t i = 0; text && i < leaf; i++) {
        text = strchr(text, ';');
        if (text) text++;
    }
    if (!text) return NULL;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank + 1);
    for (int64_t d = 0; d < rank; d++) {
        char *end;
        dims[d] = strtoll(text, &end, 10);
        if (end == text || dims[d] < 0) return NULL;
        text = *end == ',' ? end + 1 : end;
    }
    return dims;
}

void hlo_mesh_copy(HloArena *arena, HloMesh *mesh) {
    const char **names = HLO_ARENA_NEW(arena, const char *, mesh->axis_sizes.count);
    for (int64_t i = 0; mesh->axis_names && i < mesh->axis_sizes.count; i++) {
        names[i] = hlo_arena_text(arena, mesh->axis_names[i]);
    }
    mesh->axis_names = mesh->axis_names ? names : NULL;
    mesh->axis_sizes = hlo_ints_copy(arena, mesh->axis_sizes);
    mesh->iota.dims = hlo_ints_copy(arena, mesh->iota.dims);
    mesh->iota.permutation = hlo_ints_copy(arena, mesh->iota.permutation);
    mesh->device_ids = hlo_ints_copy(arena, mesh->device_ids);
}

bool hlo_mesh_equal(const HloMesh *a, const HloMesh *b) {
    assert(a && b);
    if (a->is_maximal != b->is_maximal || !hlo_ints_equal(a->axis_sizes, b->axis_sizes) ||
        !hlo_ints_equal(a->iota.dims, b->iota.dims) || !hlo_ints_equal(a->iota.permutation, b->iota.permutation) ||
        !hlo_ints_equal(a->device_ids, b->device_ids) || !a->axis_names != !b->axis_names) {
        return false;
    }
    for (int64_t i = 0; a->axis_names && i < a->axis_sizes.count; i++) {
        if (strcmp(a->axis_names[i], b->axis_names[i]) != 0) return false;
    }
    return true;
}

static HloAxisRefs copy_axes(HloArena *arena, HloAxisRefs axes) {
    axes.items = hlo_arena_copy(arena, axes.items, (size_t)axes.count * sizeof(*axes.items));
    return axes;
}

static const HloNamedSharding *copy_named(HloArena *arena, const HloNamedSharding *named) {
    assert(named);
    HloNamedSharding *copy = hlo_arena_copy(arena, named, sizeof(*named));
    hlo_mesh_copy(arena, &copy->mesh);
    HloAxisRefs *dims = HLO_ARENA_NEW(arena, HloAxisRefs, named->dim_count);
    for (int64_t i = 0; i < named->dim_count; i++) dims[i] = copy_axes(arena, named->dims[i]);
    copy->dims = dims;
    copy->replicated = copy_axes(arena, named->replicated);
    copy->unreduced = copy_axes(arena, named->unreduced);
    copy->manual = copy_axes(arena, named->manual);
    return copy;
}

const HloSharding *hlo_sharding_copy(HloArena *arena, const HloSharding *sharding) {
    if (!sharding) return NULL;
    HloSharding *copy = hlo_arena_copy(arena, sharding, sizeof(*sharding));
    copy->tile_dims = hlo_ints_copy(arena, sharding->tile_dims);
    copy->iota.dims = hlo_ints_copy(arena, sharding->iota.dims);
    copy->iota.permutation = hlo_ints_copy(arena, sharding->iota.permutation);
    copy->devices = hlo_ints_copy(arena, sharding->devices);
    copy->subgroups =
        hlo_arena_copy(arena, sharding->subgroups, (size_t)sharding->subgroup_count * sizeof(*sharding->subgroups));
    if (sharding->named) copy->named = copy_named(arena, sharding->named);
    const HloMetadata **metadata = HLO_ARENA_NEW(arena, const HloMetadata *, sharding->metadata_count);
    for (int64_t i = 0; i < sharding->metadata_count; i++) {
        metadata[i] = hlo_metadata_copy(arena, sharding->metadata[i]);
    }
    copy->metadata = metadata;
    const HloSharding **elements = HLO_ARENA_NEW(arena, const HloSharding *, sharding->element_count);
    for (int64_t i = 0; i < sharding->element_count; i++) {
        elements[i] = hlo_sharding_copy(arena, sharding->elements[i]);
    }
    copy->elements = elements;
    return copy;
}

// A whole axis has no parts: its pre_size is then meaningless.
static bool equal_axes(HloAxisRefs a, HloAxisRefs b) {
    if (a.count != b.count || a.open != b.open) return false;
    for (int64_t i = 0; i < a.count; i++) {
        const HloAxisRef *x = &a.items[i], *y = &b.items[i];
        if (x->axis != y->axis || x->size != y->size || (x->size && x->pre_size != y->pre_size)) return false;
    }
    return true;
}

static bool equal_named(const HloNamedSharding *a, const HloNamedSharding *b) {
    if (!a || !b) return a == b;
    if (a->whole != b->whole || a->dim_count != b->dim_count || !hlo_mesh_equal(&a->mesh, &b->mesh) ||
        !equal_axes(a->replicated, b->replicated) || !equal_axes(a->unreduced, b->unreduced) ||
        !equal_axes(a->manual, b->manual)) {
        return false;
    }
    for (int64_t i = 0; i < a->dim_count; i++) {
        if (!equal_axes(a->dims[i], b->dims[i])) return false;
    }
    return true;
}

bool hlo_sharding_equal(const HloSharding *a, const HloSharding *b) {
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind || a->last_tile_dim_replicate != b->last_tile_dim_replicate ||
        a->subgroup_count != b->subgroup_count || a->maximal_device != b->maximal_device || a->group != b->group ||
        a->group_id != b->group_id || a->element_count != b->element_count ||
        !hlo_ints_equal(a->tile_dims, b->tile_dims) || !hlo_ints_equal(a->iota.dims, b->iota.dims) ||
        !hlo_ints_equal(a->iota.permutation, b->iota.permutation) || !hlo_ints_equal(a->devices, b->devices)) {
        return false;
    }
    for (int64_t i = 0; i < a->subgroup_count; i++) {
        if (a->subgroups[i] != b->subgroups[i]) return false;
    }
    for (int64_t i = 0; i < a->element_count; i++) {
        if (!hlo_sharding_equal(a->elements[i], b->elements[i])) return false;
    }
    return equal_named(a->named, b->named);
}

uint64_t hlo_mesh_hash(const HloMesh *mesh) {
    assert(mesh);
    const HloInts lists[] = {mesh->axis_sizes, mesh->iota.dims, mesh->iota.permutation, mesh->device_ids};
    uint64_t hash = mesh->is_maximal;
    for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) hash = hlo_hash_mix(hash, hlo_ints_hash(lists[i]));
    for (int64_t i = 0; mesh->axis_names && i < mesh->axis_sizes.count; i++) {
        hash = hlo_hash_mix(hash, hlo_hash_bytes(mesh->axis_names[i], strlen(mesh->axis_names[i])));
    }
    return hash;
}

static uint64_t hash_axes(uint64_t hash, HloAxisRefs axes) {
    hash = hlo_hash_mix(hash, (uint64_t)axes.count * 2 + axes.open);
    for (int64_t i = 0; i < axes.count; i++) {
        const HloAxisRef *axis = &axes.items[i];
        hash = hlo_hash_mix(hlo_hash_mix(hash, (uint64_t)axis->axis), (uint64_t)axis->size);
        if (axis->size) hash = hlo_hash_mix(hash, (uint64_t)axis->pre_size);
    }
    return hash;
}

static uint64_t hash_named(const HloNamedSharding *named) {
    assert(named);
    uint64_t hash = hlo_hash_mix(hlo_mesh_hash(&named->mesh), (uint64_t)named->whole);
    for (int64_t i = 0; i < named->dim_count; i++) hash = hash_axes(hash, named->dims[i]);
    return hash_axes(hash_axes(hash_axes(hash, named->replicated), named->unreduced), named->manual);
}

uint64_t hlo_sharding_hash(const HloSharding *sharding) {
    assert(sharding);
    const HloInts lists[] = {sharding->tile_dims, sharding->iota.dims, sharding->iota.permutation, sharding->devices};
    const uint64_t numbers[] = {(uint64_t)sharding->kind, sharding->last_tile_dim_replicate,
                                (uint64_t)sharding->maximal_device, (uint64_t)sharding->group,
                                (uint64_t)sharding->group_id};
    uint64_t hash = hlo_hash_bytes(numbers, sizeof(numbers));
    for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) hash = hlo_hash_mix(hash, hlo_ints_hash(lists[i]));
    for (int64_t i = 0; i < sharding->subgroup_count; i++)
        hash = hlo_hash_mix(hash, (uint64_t)sharding->subgroups[i] + 1);
    for (int64_t i = 0; i < sharding->element_count; i++)
        hash = hlo_hash_mix(hash, hlo_sharding_hash(sharding->elements[i]));
    return sharding->named ? hlo_hash_mix(hash, hash_named(sharding->named)) : hash;
}

int64_t hlo_sharding_device_count(const HloSharding *sharding) {
    switch (sharding->kind) {
        case HLO_SHARDING_TILED: return hlo_product(sharding->tile_dims.items, sharding->tile_dims.count);
        case HLO_SHARDING_NAMED:
            return hlo_product(sharding->named->mesh.axis_sizes.items, sharding->named->mesh.axis_sizes.count);
        case HLO_SHARDING_MAXIMAL: return 1;
        case HLO_SHARDING_TUPLE: return sharding->element_count ? hlo_sharding_device_count(sharding->elements[0]) : 0;
        default: return 0;
    }
}

// One order can be written in many ways. XLA prints the shortest: dimensions of size 1 are dropped, and dimensions that
// are neighbours both before and after the transpose are merged:
//
//   [2,1,4]T(0,1,2) -> [8]     [2,3,4]T(2,0,1) -> [6,4]T(1,0)     dimensions 0 and 1 stay neighbours
//
// First the dimensions of size 1 are removed and the others renumbered (`order` is the permutation of the rest); then
// each run of consecutive numbers in `order` becomes one dimension, at the position of its first one among the sizes.
void hlo_iota_devices_simplify(HloArena *arena, HloIotaDevices *iota) {
    assert(arena && iota);
    int64_t rank = iota->dims.count;
    if (rank > MOST_DIMS) return;
    int64_t dims[MOST_DIMS], order[MOST_DIMS], new_index[MOST_DIMS], kept = 0, placed = 0;
    for (int64_t i = 0; i < rank; i++) {
        int64_t from = iota->permutation.count ? iota->permutation.items[i] : i;
        if (iota->dims.items[from] == 1) continue;
        order[placed++] = from;
    }
    for (int64_t i = 0; i < rank; i++) {
        if (iota->dims.items[i] == 1) continue;
        new_index[i] = kept;
        dims[kept++] = iota->dims.items[i];
    }
    for (int64_t i = 0; i < placed; i++) order[i] = new_index[order[i]];
    // Runs of consecutive source dimensions in the permuted order become one dimension.
    int64_t run_of[MOST_DIMS], runs = 0, run_start[MOST_DIMS];
    for (int64_t i = 0; i < placed; i++) {
        if (i > 0 && order[i] == order[i - 1] + 1) {
            run_of[order[i]] = runs - 1;
        } else {
            run_start[runs] = order[i];
            run_of[order[i]] = runs++;
        }
    }
    int64_t merged[MOST_DIMS], position_of_run[MOST_DIMS], count = 0;
    for (int64_t i = 0; i < kept; i++) {
        if (i == 0 || run_of[i] != run_of[i - 1] || run_start[run_of[i]] == i) {
            position_of_run[run_of[i]] = count;
            merged[count++] = dims[i];
        } else {
            merged[count - 1] *= dims[i];
        }
    }
    if (count == 0) merged[count++] = 1;
    bool identity = true;
    for (int64_t i = 0; i < runs; i++) identity &= position_of_run[i] == i;
    iota->dims = hlo_ints(arena, merged, count);
    iota->permutation = identity ? (HloInts){0} : hlo_ints(arena, position_of_run, runs);
}
