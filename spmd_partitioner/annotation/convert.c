// SPDX-License-Identifier: Apache-2.0
// Annotations are converted to axes of a mesh, and axes back to annotations.
//
// A tiled annotation lists devices in the order of its tiles. Most lists are products: each tile dimension is a few
// runs of devices at equal distances (segments), and a segment is a set of atoms of the mesh. A list that is no
// product (tiles.h), or not one in the module's mesh (infer.c), is foreign: it gets any atoms of the right sizes, and a
// table of which device must hold what, which one permute at the boundary establishes.
//
// Reading (spmd_annotation_from_hlo) accepts V1 lists, V2 iotas and V3 named axes; writing (spmd_sharding_to_hlo) gives
// V2, or a V1 list where the mesh has a device order of its own and for foreign orders.
#include "spmd_partitioner/convert.h"

#include <assert.h>
#include <string.h>

#include "spmd_partitioner/annotation/tiles.h"

// ---- reading ----

// Appends the atoms of a factor, major to minor: those between the segment's stride and its end. False when the mesh
// does not split there, that is, when their product is less than the segment.
static bool push_segment(const SpmdMesh *mesh, SpmdSegment segment, SpmdAxes *out) {
    assert(segment.size > 0);
    int64_t size = 1;
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        const SpmdAtom *atom = &mesh->atoms[i];
        if (atom->stride < segment.stride || atom->stride * atom->size > segment.stride * segment.size) continue;
        spmd_axes_push(out, i);
        size *= atom->size;
    }
    return size == segment.size;
}

// Which set trailing tile dimension `index` (counted from the array's rank) fills; NULL for plain replication.
static SpmdAtomSet *subgroup_set(const HloSharding *sharding, int64_t index, SpmdAnnotation *annotation) {
    if (index >= sharding->subgroup_count) return NULL;
    if (sharding->subgroups[index] == HLO_SHARDING_MANUAL) return &annotation->sharding->manual;
    if (sharding->subgroups[index] == HLO_SHARDING_UNREDUCED) return &annotation->sharding->unreduced;
    return NULL;
}

// The trailing tile dimensions are subgroups (last_tile_dims); atoms in none of the lists are replicated.
static bool annotation_from_tiles(const SpmdMesh *mesh, const HloSharding *sharding, const SpmdTiles *tiles,
                                  int64_t rank, SpmdAnnotation *annotation) {
    for (int64_t i = 0; i < tiles->count; i++) {
        SpmdAxes axes = {0};
        for (int64_t k = 0; k < tiles->dims[i].count; k++) {
            if (!push_segment(mesh, tiles->dims[i].items[k], &axes)) return false;
        }
        if (i < rank) {
            annotation->sharding->dims[i] = axes;
        } else {
            SpmdAtomSet *set = subgroup_set(sharding, i - rank, annotation);
            if (set) *set |= spmd_axes_set(&axes);
        }
    }
    return true;
}

// Picks any atoms, major first, whose product is `size`. Every prime factor is available because the device counts
// agree.
static SpmdAxes pick_atoms(const SpmdMesh *mesh, int64_t size, SpmdAtomSet *used) {
    assert(size > 0 && used);
    SpmdAxes axes = {0};
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if ((*used >> i & 1) || size % mesh->atoms[i].size) continue;
        spmd_axes_push(&axes, i);
        *used |= (SpmdAtomSet)1 << i;
        size /= mesh->atoms[i].size;
    }
    return axes;
}

// Devices in the order of the tiles of `sharding`: its dimensions' atoms, then all other atoms.
static void tile_order(const SpmdMesh *mesh, const SpmdSharding *sharding, int64_t *devices) {
    SpmdAxes order = {0};
    for (int32_t i = 0; i < sharding->rank; i++) spmd_axes_append(&order, &sharding->dims[i]);
    SpmdAtomSet used = spmd_axes_set(&order);
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if (!(used >> i & 1)) spmd_axes_push(&order, i);
    }
    for (int64_t device = 0; device < mesh->device_count; device++) {
        devices[spmd_axes_index(mesh, &order, device)] = device;
    }
}

// An order that the mesh cannot hold: the same tile counts on the mesh, and where each device's part belongs.
static HloStatus annotation_foreign(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                    SpmdAnnotation *annotation) {
    for (int64_t i = rank; i < sharding->tile_dims.count; i++) {
        bool special = i - rank < sharding->subgroup_count && sharding->subgroups[i - rank] != HLO_SHARDING_REPLICATED;
        HLO_FAIL_IF(special && sharding->tile_dims.items[i] > 1, HLO_UNIMPLEMENTED,
                    "manual or unreduced subgroups with a device order that the mesh cannot hold");
    }
    SpmdAtomSet used = 0;
    for (int64_t i = 0; i < rank; i++) {
        annotation->sharding->dims[i] = pick_atoms(mesh, sharding->tile_dims.items[i], &used);
    }
    int64_t count = mesh->device_count;
    int64_t *ours = HLO_ARENA_NEW(arena, int64_t, count), *map = HLO_ARENA_NEW(arena, int64_t, count);
    tile_order(mesh, annotation->sharding, ours);
    const int64_t *theirs = hlo_sharding_devices(arena, sharding);
    for (int64_t i = 0; i < count; i++) map[ours[i]] = spmd_position_of(&mesh->order, theirs[i]);
    annotation->devices = map;
    return HLO_SUCCESS;
}

// Every device once.
static HloStatus check_list(HloArena *arena, HloInts devices) {
    bool *seen = HLO_ARENA_NEW(arena, bool, devices.count);
    for (int64_t i = 0; i < devices.count; i++) {
        int64_t device = devices.items[i];
        HLO_FAIL_IF(device < 0 || device >= devices.count || seen[device], HLO_INVALID_ARGUMENT,
                    "device %lld is repeated or out of range in a sharding", (long long)device);
        seen[device] = true;
    }
    return HLO_SUCCESS;
}

// Checks the annotation in full before it is read: a file may contain anything.
static HloStatus annotation_from_tiled(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                       SpmdAnnotation *annotation) {
    assert(sharding->kind == HLO_SHARDING_TILED && rank >= 0);
    int64_t devices = spmd_product_of(sharding->tile_dims);
    HLO_FAIL_IF(spmd_tiled_rank(sharding) != rank, HLO_INVALID_ARGUMENT,
                "a sharding of %lld dimensions on an array of rank %lld", (long long)spmd_tiled_rank(sharding),
                (long long)rank);
    HLO_FAIL_IF(devices != mesh->device_count, HLO_INVALID_ARGUMENT, "a sharding of %lld devices on a mesh of %lld",
                (long long)devices, (long long)mesh->device_count);
    int64_t listed = sharding->iota.dims.count ? spmd_product_of(sharding->iota.dims) : sharding->devices.count;
    HLO_FAIL_IF(listed != devices, HLO_INVALID_ARGUMENT, "a sharding of %lld tiles lists %lld devices",
                (long long)devices, (long long)listed);
    if (!sharding->iota.dims.count) HLO_TRY(check_list(arena, sharding->devices));
    SpmdTiles tiles;
    if (spmd_tiles_new(arena, &mesh->order, sharding, &tiles) &&
        annotation_from_tiles(mesh, sharding, &tiles, rank, annotation)) {
        return HLO_SUCCESS;
    }
    annotation->sharding = spmd_sharding_new(arena, rank, 0);
    return annotation_foreign(arena, mesh, sharding, rank, annotation);
}

// The axes of V3 text are names in the annotation's own mesh, whose sizes and strides may be split differently from the
// module's. By strides both describe the same devices. False where the module's mesh does not split there.
static bool axes_from_named(HloArena *arena, const SpmdMesh *mesh, const HloNamedSharding *named,
                            const HloAxisRefs *refs, SpmdAxes *out) {
    SpmdSegments segments = {0};
    spmd_segments_of_axes(arena, &named->mesh, refs, &segments);
    for (int64_t i = 0; i < segments.count; i++) {
        if (segments.items[i].size > 1 && !push_segment(mesh, segments.items[i], out)) return false;
    }
    return true;
}

// All lists of a named sharding in the plain order.
static bool annotation_from_axes(HloArena *arena, const SpmdMesh *mesh, const HloNamedSharding *named,
                                 SpmdAnnotation *annotation) {
    for (int64_t i = 0; i < named->dim_count; i++) {
        if (!axes_from_named(arena, mesh, named, &named->dims[i], &annotation->sharding->dims[i])) return false;
    }
    const HloAxisRefs *refs[3] = {&named->replicated, &named->unreduced, &named->manual};
    SpmdAxes sets[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        if (!axes_from_named(arena, mesh, named, refs[i], &sets[i])) return false;
    }
    annotation->replicated = spmd_axes_set(&sets[0]);
    annotation->sharding->unreduced = spmd_axes_set(&sets[1]);
    annotation->sharding->manual = spmd_axes_set(&sets[2]);
    return true;
}

// A mesh without a device order has the plain order, in which strides follow from the sizes. One with an order goes
// through tiles, as V1 text does, because its strides do not determine devices. So does one that is split where the
// module's mesh is not (thirds of an axis of six beside halves of it).
static HloStatus annotation_from_named(HloArena *arena, const SpmdMesh *mesh, const HloNamedSharding *named,
                                       int64_t rank, SpmdAnnotation *annotation) {
    assert(rank >= 0 && annotation);
    if (named->mesh.is_maximal || named->whole == HLO_SHARDING_REPLICATED) return HLO_SUCCESS;
    if (named->whole == HLO_SHARDING_MANUAL) annotation->sharding->manual = spmd_mesh_all(mesh);
    if (named->whole == HLO_SHARDING_UNREDUCED) annotation->sharding->unreduced = spmd_mesh_all(mesh);
    if (named->whole != HLO_SHARDING_TILED) return HLO_SUCCESS;
    // Dimensions that it does not list are not sharded.
    HLO_FAIL_IF(named->dim_count > rank, HLO_INVALID_ARGUMENT, "a sharding of %lld dimensions on an array of rank %lld",
                (long long)named->dim_count, (long long)rank);
    bool *open = HLO_ARENA_NEW(arena, bool, rank);
    for (int64_t i = 0; i < named->dim_count; i++) open[i] = named->dims[i].open;
    // A mesh without axes is Shardy's way to say that all devices have the whole.
    const bool fits =
        named->mesh.axis_sizes.count == 0 || spmd_product_of(named->mesh.axis_sizes) == mesh->device_count;
    if (!fits && spmd_uses_no_axes(named)) {
        annotation->open = open;
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT, "a sharding of %lld devices on a mesh of %lld",
                (long long)spmd_product_of(named->mesh.axis_sizes), (long long)mesh->device_count);
    if (!spmd_mesh_follows(arena, &named->mesh, &mesh->order) ||
        !annotation_from_axes(arena, mesh, named, annotation)) {
        annotation->sharding = spmd_sharding_new(arena, rank, 0);
        HLO_TRY(annotation_from_tiled(arena, mesh, spmd_tiled_from_named(arena, named, rank), rank, annotation));
    }
    annotation->open = open;
    return HLO_SUCCESS;
}

// Only the run determines how much of a dynamic dimension there is.
HloStatus spmd_annotation_keep_dynamic(const HloShape *shape, SpmdAnnotation *annotation) {
    for (int32_t d = 0; shape->dynamic && d < shape->rank; d++) {
        if (!shape->dynamic[d]) continue;
        HLO_FAIL_IF(annotation->sharding->dims[d].count, HLO_UNIMPLEMENTED,
                    "dimension %d has dynamic size and cannot be sharded", d);
        if (annotation->open) annotation->open[d] = false;
    }
    return HLO_SUCCESS;
}

// One case a kind of annotation; a maximal one (all on one device) is read as replicated, because every device runs the
// program.
HloStatus spmd_annotation_from_hlo(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                   SpmdAnnotation *annotation) {
    assert(sharding && rank >= 0 && annotation);
    *annotation = (SpmdAnnotation){.sharding = spmd_sharding_new(arena, rank, 0)};
    switch (sharding->kind) {
        case HLO_SHARDING_TILED: return annotation_from_tiled(arena, mesh, sharding, rank, annotation);
        case HLO_SHARDING_NAMED: return annotation_from_named(arena, mesh, sharding->named, rank, annotation);
        case HLO_SHARDING_MANUAL: annotation->sharding->manual = spmd_mesh_all(mesh); return HLO_SUCCESS;
        case HLO_SHARDING_UNREDUCED: annotation->sharding->unreduced = spmd_mesh_all(mesh); return HLO_SUCCESS;
        case HLO_SHARDING_UNKNOWN:
            annotation->open = HLO_ARENA_NEW(arena, bool, rank);
            for (int64_t i = 0; i < rank; i++) annotation->open[i] = true;
            return HLO_SUCCESS;
        case HLO_SHARDING_REPLICATED:
        case HLO_SHARDING_MAXIMAL: return HLO_SUCCESS;
        case HLO_SHARDING_TUPLE: break;
    }
    return hlo_error(HLO_INVALID_ARGUMENT, "a tuple sharding on an array");
}

// ---- writing ----

// V2 order: reshape the devices to runs of neighbouring atoms, and transpose the runs into tile order. Runs are
// numbered by their position in the mesh, which is the order of the iota's dimensions; `permutation` lists them in tile
// order.
static void set_iota(HloArena *arena, const SpmdMesh *mesh, const SpmdAxes *order, HloSharding *out) {
    int64_t sizes[SPMD_MAX_ATOMS] = {0}, firsts[SPMD_MAX_ATOMS] = {0};
    int64_t count = 0;
    for (int32_t i = 0; i < order->count; i++) {
        if (i && order->items[i] == order->items[i - 1] + 1) {
            sizes[count - 1] *= mesh->atoms[order->items[i]].size;
        } else {
            firsts[count] = order->items[i];
            sizes[count++] = mesh->atoms[order->items[i]].size;
        }
    }
    int64_t dims[SPMD_MAX_ATOMS + 1], permutation[SPMD_MAX_ATOMS + 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0;
        for (int64_t j = 0; j < count; j++) place += firsts[j] < firsts[i];
        dims[place] = sizes[i];
        permutation[i] = place;
    }
    if (count == 0) dims[count++] = 1;
    out->iota.dims = hlo_ints(arena, dims, count);
    if (count > 1) out->iota.permutation = hlo_ints(arena, permutation, count);
}

// An order of devices has no form as runs: every device is listed. `devices` is NULL for the mesh's own order.
static void set_list(HloArena *arena, const SpmdMesh *mesh, const SpmdAxes *order, const int64_t *devices,
                     HloSharding *out) {
    int64_t *list = HLO_ARENA_NEW(arena, int64_t, mesh->device_count);
    for (int64_t device = 0; device < mesh->device_count; device++) {
        const int64_t position = devices ? devices[device] : device;
        list[spmd_axes_index(mesh, order, device)] = mesh->order.devices ? mesh->order.devices[position] : position;
    }
    out->devices = (HloInts){list, mesh->device_count};
}

// The V2 form, as short as it can be: fully manual, unreduced and replicated ones by their words, plain replication as
// last_tile_dim_replicate, other subgroups by name.
const HloSharding *spmd_sharding_to_hlo(HloArena *arena, const SpmdMesh *mesh, const SpmdSharding *sharding,
                                        const int64_t *devices) {
    assert(arena && mesh && sharding);
    SpmdAtomSet all = spmd_mesh_all(mesh), used = spmd_sharding_used(sharding);
    if (sharding->manual && sharding->manual == all) return hlo_sharding_simple(arena, HLO_SHARDING_MANUAL);
    if (sharding->unreduced && sharding->unreduced == all) return hlo_sharding_simple(arena, HLO_SHARDING_UNREDUCED);
    SpmdAtomSet special = sharding->manual | sharding->unreduced;
    if (!used && !special) return hlo_sharding_simple(arena, HLO_SHARDING_REPLICATED);
    SpmdAtomSet groups[3] = {sharding->manual, sharding->unreduced, all & ~used & ~special};
    HloShardingKind kinds[3] = {HLO_SHARDING_MANUAL, HLO_SHARDING_UNREDUCED, HLO_SHARDING_REPLICATED};
    HloSharding *out = HLO_ARENA_NEW(arena, HloSharding, 1);
    HloShardingKind *subgroups = HLO_ARENA_NEW(arena, HloShardingKind, 3);
    int64_t *tiles = HLO_ARENA_NEW(arena, int64_t, sharding->rank + 3);
    SpmdAxes order = {0};
    out->kind = HLO_SHARDING_TILED;
    for (int32_t i = 0; i < sharding->rank; i++) {
        tiles[i] = spmd_axes_product(mesh, &sharding->dims[i]);
        spmd_axes_append(&order, &sharding->dims[i]);
    }
    for (int g = 0; g < 3; g++) {
        if (!groups[g]) continue;
        spmd_axes_push_set(&order, groups[g]);
        subgroups[out->subgroup_count] = kinds[g];
        tiles[sharding->rank + out->subgroup_count++] = spmd_atoms_product(mesh, groups[g]);
    }
    out->tile_dims = (HloInts){tiles, sharding->rank + out->subgroup_count};
    out->last_tile_dim_replicate = out->subgroup_count == 1 && !special;
    if (out->last_tile_dim_replicate) out->subgroup_count = 0;
    if (out->subgroup_count) out->subgroups = subgroups;
    if (devices || mesh->order.devices) {
        set_list(arena, mesh, &order, devices, out);
    } else {
        set_iota(arena, mesh, &order, out);
    }
    return out;
}
