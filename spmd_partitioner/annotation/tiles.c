// SPDX-License-Identifier: Apache-2.0
#include "spmd_partitioner/annotation/tiles.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "spmd_partitioner/convert.h"

int64_t spmd_product_of(HloInts ints) {
    int64_t product = 1;
    for (int64_t i = 0; i < ints.count; i++) {
        if (ints.items[i] < 0 || __builtin_mul_overflow(product, ints.items[i], &product)) return -1;
    }
    return product;
}

// Takes `size` devices off the major end of the transposed reshape list; false when it does not split evenly. A tile
// dimension may end inside of a run, which is then split in two: [8] for tiles of 2 and 4 devices is a run of stride 4
// and one of stride 1.
static bool take_factors(HloArena *arena, SpmdSegments *rest, int64_t *first, int64_t size, SpmdSegments *out) {
    assert(size > 0 && out);
    while (size > 1) {
        if (*first == rest->count) return false;
        SpmdSegment *segment = &rest->items[*first];
        if (size % segment->size == 0) {
            hlo_vector_push(arena, out, *segment);
            size /= segment->size;
            ++*first;
        } else if (segment->size % size == 0) {
            int64_t below = segment->size / size;
            SpmdSegment major = {segment->stride * below, size};
            hlo_vector_push(arena, out, major);
            segment->size = below;
            return true;
        } else {
            return false;
        }
    }
    return true;
}

// The device order of V2 text: reshape 0, 1, 2 ... to `dims`, transpose by `permutation`, flatten. Transposing only
// changes the order in which runs are listed, so the devices need not be written out.
static bool tiles_from_iota(HloArena *arena, const HloSharding *sharding, SpmdTiles *tiles) {
    const HloIotaDevices *iota = &sharding->iota;
    int64_t count = iota->dims.count;
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, count);
    int64_t stride = 1;
    for (int64_t i = count - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= iota->dims.items[i];
    }
    SpmdSegments order = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t from = iota->permutation.count ? iota->permutation.items[i] : i;
        SpmdSegment segment = {strides[from], iota->dims.items[from]};
        if (segment.size > 1) hlo_vector_push(arena, &order, segment);
    }
    int64_t first = 0;
    for (int64_t i = 0; i < tiles->count; i++) {
        if (!take_factors(arena, &order, &first, sharding->tile_dims.items[i], &tiles->dims[i])) return false;
    }
    return true;
}

// Finds the factors of one tile dimension of a device list; `weight` is the distance of neighbours in the list. Runs
// are found minor first, by how far the distance of the first two devices continues. A run that does not divide the
// size is shortened until it does. False where no run begins.
static bool list_factors(HloArena *arena, const int64_t *devices, int64_t weight, int64_t size, SpmdSegments *out) {
    assert(weight > 0 && size > 0);
    SpmdSegments minor_first = {0};
    for (int64_t done = 1; done < size;) {
        int64_t delta = devices[weight * done] - devices[0];
        int64_t run = 2;
        while (run * done < size && devices[weight * done * run] - devices[0] == delta * run) run++;
        while (run > 1 && size / done % run) run--;
        if (delta <= 0 || run < 2) return false;
        SpmdSegment segment = {delta, run};
        hlo_vector_push(arena, &minor_first, segment);
        done *= run;
    }
    for (int64_t i = minor_first.count - 1; i >= 0; i--) hlo_vector_push(arena, out, minor_first.items[i]);
    return true;
}

// Returns the device at list position `index` by the factors: the inverse of taking the list apart.
static int64_t device_at(const SpmdTiles *tiles, int64_t index) {
    assert(index >= 0);
    int64_t device = 0;
    for (int64_t i = tiles->count - 1; i >= 0; i--) {
        for (int64_t k = tiles->dims[i].count - 1; k >= 0; k--) {
            device += index % tiles->dims[i].items[k].size * tiles->dims[i].items[k].stride;
            index /= tiles->dims[i].items[k].size;
        }
    }
    return device;
}

// V1 text lists every device, in any permutation. Two lists may begin alike, so the result of list_factors() is
// compared with the whole list. The list may name any device, but only existing devices form a product of strides.
static bool tiles_from_list(HloArena *arena, HloInts tile_dims, const int64_t *devices, SpmdTiles *tiles) {
    if (devices[0] != 0) return false;
    for (int64_t i = 0; i < tiles->devices; i++)
        if (devices[i] < 0 || devices[i] >= tiles->devices) return false;
    int64_t weight = tiles->devices;
    for (int64_t i = 0; i < tiles->count; i++) {
        weight /= tile_dims.items[i];
        if (!list_factors(arena, devices, weight, tile_dims.items[i], &tiles->dims[i])) return false;
    }
    for (int64_t i = 0; i < tiles->devices; i++) {
        if (device_at(tiles, i) != devices[i]) return false;
    }
    return true;
}

int64_t spmd_copies_of(const HloSharding *sharding) {
    const int64_t last = sharding->subgroup_count - 1;
    const bool copies =
        sharding->last_tile_dim_replicate || (last >= 0 && sharding->subgroups[last] == HLO_SHARDING_REPLICATED);
    return copies ? sharding->tile_dims.items[sharding->tile_dims.count - 1] : 1;
}

// The positions of the listed devices, those of copies in ascending order. NULL where a number is no device.
static const int64_t *positions_of(HloArena *arena, const SpmdDeviceOrder *order, const HloSharding *sharding,
                                   int64_t count) {
    const int64_t *devices = hlo_sharding_devices(arena, sharding);
    int64_t *positions = HLO_ARENA_NEW(arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) {
        if (devices[i] < 0 || devices[i] >= count) return NULL;
        positions[i] = spmd_position_of(order, devices[i]);
    }
    const int64_t copies = spmd_copies_of(sharding);
    for (int64_t i = 0; copies > 1 && i < count; i += copies)
        qsort(positions + i, (size_t)copies, sizeof(*positions), hlo_compare_int64);
    return positions;
}

bool spmd_tiles_new(HloArena *arena, const SpmdDeviceOrder *order, const HloSharding *sharding, SpmdTiles *tiles) {
    assert(sharding->kind == HLO_SHARDING_TILED);
    *tiles = (SpmdTiles){.count = sharding->tile_dims.count, .devices = spmd_product_of(sharding->tile_dims)};
    tiles->dims = HLO_ARENA_NEW(arena, SpmdSegments, tiles->count);
    const bool iota = sharding->iota.dims.count > 0;
    const int64_t listed = iota ? spmd_product_of(sharding->iota.dims) : sharding->devices.count;
    if (tiles->devices < 1 || listed != tiles->devices) return false;
    if (order->devices && order->count != listed) return false;
    if (iota && !order->devices) return tiles_from_iota(arena, sharding, tiles);
    const int64_t *positions = positions_of(arena, order, sharding, listed);
    return positions && tiles_from_list(arena, sharding->tile_dims, positions, tiles);
}

bool spmd_is_permutation(HloArena *arena, const int64_t *devices, int64_t count) {
    bool *seen = HLO_ARENA_NEW(arena, bool, count);
    for (int64_t i = 0; i < count; i++) {
        if (devices[i] < 0 || devices[i] >= count || seen[devices[i]]) return false;
        seen[devices[i]] = true;
    }
    return true;
}

void spmd_segments_of_axes(HloArena *arena, const HloMesh *mesh, const HloAxisRefs *axes, SpmdSegments *out) {
    for (int64_t i = 0; i < axes->count; i++) {
        const HloAxisRef *axis = &axes->items[i];
        int64_t stride = 1, full = mesh->axis_sizes.items[axis->axis];
        for (int64_t k = axis->axis + 1; k < mesh->axis_sizes.count; k++) stride *= mesh->axis_sizes.items[k];
        int64_t size = axis->size ? axis->size : full;
        SpmdSegment segment = {stride * (full / (axis->pre_size * size)), size};
        hlo_vector_push(arena, out, segment);
    }
}

int64_t spmd_mesh_coordinate(const HloMesh *mesh, const HloAxisRefs *axes, int64_t position) {
    assert(position >= 0);
    int64_t index = 0;
    for (int64_t i = 0; i < axes->count; i++) {
        const HloAxisRef *axis = &axes->items[i];
        int64_t below = 1, full = mesh->axis_sizes.items[axis->axis];
        for (int64_t k = axis->axis + 1; k < mesh->axis_sizes.count; k++) below *= mesh->axis_sizes.items[k];
        int64_t size = axis->size ? axis->size : full;
        below *= full / (axis->pre_size * size);
        index = index * size + position / below % size;
    }
    return index;
}

int64_t spmd_product_of_axes(const HloMesh *mesh, const HloAxisRefs *axes) {
    int64_t product = 1;
    for (int64_t i = 0; i < axes->count; i++) {
        product *= axes->items[i].size ? axes->items[i].size : mesh->axis_sizes.items[axes->items[i].axis];
    }
    return product;
}

static bool is_plain(const HloMesh *mesh) {
    return !mesh->iota.dims.count && !mesh->device_ids.count;
}

const int64_t *spmd_mesh_devices(HloArena *arena, const HloMesh *mesh) {
    if (mesh->device_ids.count) return mesh->device_ids.items;
    const int64_t count = spmd_product_of(mesh->axis_sizes);
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) devices[i] = i;
    if (mesh->iota.dims.count && spmd_product_of(mesh->iota.dims) == count)
        hlo_iota_devices_expand(&mesh->iota, devices);
    return devices;
}

bool spmd_mesh_follows(HloArena *arena, const HloMesh *mesh, const SpmdDeviceOrder *order) {
    if (is_plain(mesh) || !order->devices) return is_plain(mesh) && !order->devices;
    if (spmd_product_of(mesh->axis_sizes) != order->count) return false;
    return !memcmp(spmd_mesh_devices(arena, mesh), order->devices, (size_t)order->count * sizeof(int64_t));
}

HloSharding *spmd_tiled_from_named(HloArena *arena, const HloNamedSharding *named, int64_t rank) {
    const HloMesh *mesh = &named->mesh;
    static const HloAxisRefs none = {0};
    const HloAxisRefs *special[2] = {&named->manual, &named->unreduced};
    static const HloShardingKind kinds[3] = {HLO_SHARDING_MANUAL, HLO_SHARDING_UNREDUCED, HLO_SHARDING_REPLICATED};
    int64_t count = spmd_product_of(mesh->axis_sizes), tiles = 1;
    HloSharding *tiled = HLO_ARENA_NEW(arena, HloSharding, 1);
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank + 3);
    for (int64_t d = 0; d < rank + 2; d++) {
        dims[d] = spmd_product_of_axes(mesh, d < named->dim_count ? &named->dims[d]
                                             : d < rank           ? &none
                                                                  : special[d - rank]);
        tiles *= dims[d];
    }
    dims[rank + 2] = count / tiles;
    int64_t *list = HLO_ARENA_NEW(arena, int64_t, count), *filled = HLO_ARENA_NEW(arena, int64_t, tiles);
    const int64_t *devices = spmd_mesh_devices(arena, mesh);
    for (int64_t position = 0; position < count; position++) {
        int64_t tile = 0;
        for (int64_t d = 0; d < rank + 2; d++) {
            const HloAxisRefs *axes = d < named->dim_count ? &named->dims[d] : d < rank ? &none : special[d - rank];
            tile = tile * dims[d] + spmd_mesh_coordinate(mesh, axes, position);
        }
        list[tile * dims[rank + 2] + filled[tile]++] = devices[position];
    }
    tiled->kind = HLO_SHARDING_TILED;
    tiled->tile_dims = (HloInts){dims, rank + 3};
    tiled->devices = (HloInts){list, count};
    tiled->subgroups = kinds;
    tiled->subgroup_count = 3;
    return tiled;
}

bool spmd_uses_no_axes(const HloNamedSharding *named) {
    if (named->whole != HLO_SHARDING_TILED) return named->whole == HLO_SHARDING_REPLICATED;
    int64_t used = named->unreduced.count + named->manual.count;
    for (int64_t i = 0; i < named->dim_count; i++) used += named->dims[i].count;
    return used == 0;
}
