// SPDX-License-Identifier: Apache-2.0
// Splitting global arrays into shards and reassembling them. Works on written shardings, one device at a time, so that
// any device order will do.
//
// copy_block() does all of it: the box of the global array at a device's offsets, row by row, truncated where an uneven
// shard extends beyond it. Replicas overwrite each other, the first device last, so that the first one's values count.
//
//     f32[3,5], sharding={devices=[1,2]<=[2]}: shards of 3 (5 / 2 rounded up)
//       device 0        device 1
//       0  1  2         3  4  .        offsets [0,0] and [0,3]; elements marked . are
//       5  6  7         8  9  .        zero after splitting, and ignored when joining
//      10 11 12        13 14  .
//
// Cost: one pass over the array for each device that holds a part; positions in a transposed iota are computed, those
// in a list of devices searched. Three forms of a sharding are read: V1 tiles with a list of devices, V2 tiles with a
// transposed iota, and named axes over a mesh (V3); all other kinds (replicated, maximal, manual) mean the whole array
// everywhere.
#include <assert.h>
#include <string.h>

#include "spmd_partitioner/boundary.h"
#include "spmd_partitioner/convert.h"

// 1 for dimensions beyond the list, and for shardings that divide nothing. An axis without a size is taken whole, one
// with a size is a part of it.
int64_t spmd_tiles_of_dim(const HloSharding *sharding, int64_t dim) {
    assert(dim >= 0); /* of an array */
    if (sharding->kind == HLO_SHARDING_TILED)
        return dim < sharding->tile_dims.count ? sharding->tile_dims.items[dim] : 1;
    if (sharding->kind != HLO_SHARDING_NAMED || sharding->named->whole != HLO_SHARDING_TILED) return 1;
    const HloNamedSharding *named = sharding->named;
    int64_t tiles = 1;
    for (int64_t i = 0; dim < named->dim_count && i < named->dims[dim].count; i++) {
        const HloAxisRef *axis = &named->dims[dim].items[i];
        tiles *= axis->size ? axis->size : named->mesh.axis_sizes.items[axis->axis];
    }
    return tiles;
}

// Position of a device in a list written as a transposed iota, or -1.
// The list is iota(dims) transposed by `permutation`; a device's position is found by taking its number apart along the
// dimensions of the iota and putting the parts together in the order of the list. O(rank²), ranks are small.
static int64_t position_in_iota(const HloIotaDevices *iota, int64_t device) {
    assert(device >= 0);
    int64_t position = 0, stride = 1;
    for (int64_t i = iota->dims.count - 1; i >= 0; i--) {
        int64_t from = iota->permutation.count ? iota->permutation.items[i] : i;
        int64_t below = 1;
        for (int64_t k = from + 1; k < iota->dims.count; k++) below *= iota->dims.items[k];
        position += device / below % iota->dims.items[from] * stride;
        stride *= iota->dims.items[from];
    }
    return device < stride ? position : -1;
}

// Position of a device in a list of all of them, or -1.
static int64_t position_of(const HloIotaDevices *iota, HloInts devices, int64_t device) {
    if (iota->dims.count) return position_in_iota(iota, device);
    for (int64_t i = 0; i < devices.count; i++) {
        if (devices.items[i] == device) return i;
    }
    return -1;
}

// Position of a device in a tiled annotation's list, or -1.
// By the inverse of the list.
static int64_t tile_of_device(const HloSharding *sharding, int64_t device) {
    return position_of(&sharding->iota, sharding->devices, device);
}

// Position of a device in a named mesh. Without a device order, positions are the device numbers. A device that the
// mesh does not have keeps its number: the annotation has been checked where it was read.
static int64_t mesh_position(const HloMesh *mesh, int64_t device) {
    bool own_order = mesh->iota.dims.count || mesh->device_ids.count;
    int64_t position = own_order ? position_of(&mesh->iota, mesh->device_ids, device) : device;
    return position < 0 ? device : position;
}

// Reads written forms one device at a time: splitting a literal needs no mesh, and works for any annotation that a file
// may have. Trailing tile dimensions (beyond the array's rank) are replication or subgroups: they take part in the
// device's number and move nothing. Offsets may lie beyond the array where sharding is uneven and a device has nothing.
HloStatus spmd_shard_offsets(const HloShape *global, const HloSharding *sharding, int64_t device, int64_t *offsets) {
    assert(global && sharding && offsets);
    for (int32_t d = 0; d < global->rank; d++) offsets[d] = 0;
    if (sharding->kind == HLO_SHARDING_NAMED && sharding->named->whole == HLO_SHARDING_TILED) {
        HLO_FAIL_IF(sharding->named->dim_count > global->rank, HLO_INVALID_ARGUMENT, "the sharding's rank differs");
        int64_t position = mesh_position(&sharding->named->mesh, device);
        for (int32_t d = 0; d < sharding->named->dim_count; d++) {
            int64_t shard = spmd_shard_size(global->dims[d], spmd_tiles_of_dim(sharding, d));
            offsets[d] = spmd_mesh_coordinate(&sharding->named->mesh, &sharding->named->dims[d], position) * shard;
        }
        return HLO_SUCCESS;
    }
    if (sharding->kind != HLO_SHARDING_TILED) return HLO_SUCCESS;
    HLO_FAIL_IF(sharding->tile_dims.count < global->rank, HLO_INVALID_ARGUMENT, "the sharding's rank differs");
    int64_t tile = tile_of_device(sharding, device);
    HLO_FAIL_IF(tile < 0, HLO_INVALID_ARGUMENT, "device %lld is not in the sharding", (long long)device);
    for (int64_t d = sharding->tile_dims.count - 1; d >= 0; d--) {
        int64_t tiles = sharding->tile_dims.items[d];
        if (d < global->rank) offsets[d] = tile % tiles * spmd_shard_size(global->dims[d], tiles);
        tile /= tiles;
    }
    return HLO_SUCCESS;
}

// The shape is the same on every device: the last uneven shards are padded.
HloStatus spmd_shard_shape(HloArena *arena, const HloShape *global, const HloSharding *sharding,
                           const HloShape **local) {
    *local = global;
    if (!hlo_shape_is_array(global)) return HLO_SUCCESS;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, global->rank + 1);
    bool tiled = sharding->kind == HLO_SHARDING_TILED;
    HLO_FAIL_IF(tiled && sharding->tile_dims.count < global->rank, HLO_INVALID_ARGUMENT, "the sharding's rank differs");
    for (int32_t d = 0; d < global->rank; d++) {
        dims[d] = spmd_shard_size(global->dims[d], spmd_tiles_of_dim(sharding, d));
    }
    *local = hlo_shape_with_dims(arena, global, dims, global->rank);
    return HLO_SUCCESS;
}

// Copies the part of `global` at `offsets` to or from a shard; elements outside of the global array are left alone.
// Shards at the end of an uneven dimension extend beyond the array. `split` is the direction. Rows are runs of the
// innermost dimension. The index of a row is computed from its number: a division a dimension and row, small beside the
// copy of the row.
static void copy_block(const HloLiteral *from, HloLiteral *to, const HloShape *global, const HloShape *local,
                       const int64_t *offsets, bool split) {
    assert(from->shape->type == to->shape->type && offsets);
    int64_t bytes = hlo_type_bytes(global->type), rank = global->rank;
    int64_t row = rank ? local->dims[rank - 1] : 1, rows = rank ? hlo_shape_elements(local) : 1;
    if (rows == 0) return;
    if (rank && offsets[rank - 1] + row > global->dims[rank - 1]) row = global->dims[rank - 1] - offsets[rank - 1];
    rows = rank ? rows / local->dims[rank - 1] : 1;
    for (int64_t r = 0; r < rows && row > 0; r++) {
        int64_t rest = r, whole = 0, stride = 1, inside = 1;
        for (int64_t d = rank - 2; d >= 0; d--) {
            int64_t index = rest % local->dims[d] + offsets[d];
            rest /= local->dims[d];
            inside &= index < global->dims[d];
            stride *= global->dims[d + 1];
            whole += index * stride;
        }
        if (!inside) continue;
        size_t global_at = (size_t)((whole + (rank ? offsets[rank - 1] : 0)) * bytes);
        size_t local_at = (size_t)(r * (rank ? local->dims[rank - 1] : 1) * bytes);
        memcpy((char *)to->data + (split ? local_at : global_at),
               (const char *)from->data + (split ? global_at : local_at), (size_t)(row * bytes));
    }
}

// Position of a device along the unreduced axes: 0 for the first of those that hold parts of one sum. Devices of one
// position hold the whole array (or its shards) once; the value is the sum over positions.
static int64_t place_in_sum(const HloSharding *sharding, int64_t device) {
    if (sharding->kind == HLO_SHARDING_UNREDUCED) return device;
    if (sharding->kind == HLO_SHARDING_NAMED) {
        const HloNamedSharding *named = sharding->named;
        if (named->whole == HLO_SHARDING_UNREDUCED) return device;
        return spmd_mesh_coordinate(&named->mesh, &named->unreduced, mesh_position(&named->mesh, device));
    }
    if (sharding->kind != HLO_SHARDING_TILED) return 0;
    int64_t tile = tile_of_device(sharding, device), place = 0, stride = 1;
    int64_t rank = sharding->tile_dims.count - sharding->subgroup_count;
    for (int64_t d = sharding->tile_dims.count - 1; d >= rank; d--) {
        int64_t size = sharding->tile_dims.items[d];
        if (sharding->subgroups[d - rank] == HLO_SHARDING_UNREDUCED) {
            place += tile % size * stride;
            stride *= size;
        }
        tile /= size;
    }
    return place;
}

// Adds `part` to `sum`, in the precision of the type.
// Iterations to the type after each part.
static void add_literal(HloLiteral *sum, const HloLiteral *part) {
    assert(hlo_shape_equal(sum->shape, part->shape, HLO_COMPARE_IGNORE_LAYOUT));
    HloType type = sum->shape->type;
    int64_t count = hlo_shape_elements(sum->shape);
    for (int64_t i = 0; i < count; i++) {
        if (hlo_type_is_complex(type)) {
            hlo_literal_set_complex(sum, i, hlo_literal_get_complex(sum, i) + hlo_literal_get_complex(part, i));
        } else if (hlo_type_is_float(type)) {
            hlo_literal_set_double(sum, i, hlo_literal_get_double(sum, i) + hlo_literal_get_double(part, i));
        } else {
            uint64_t total = (uint64_t)hlo_literal_get_int64(sum, i) + (uint64_t)hlo_literal_get_int64(part, i);
            hlo_literal_set_int64(sum, i, (int64_t)total);
        }
    }
}

// What split() and join() need; both run under hlo_protect(), which passes one argument.
typedef struct Job {
    const HloLiteral *global;
    const HloSharding *sharding;
    int64_t count;
    HloLiteral **shards;               // of a split
    const HloLiteral *const *sources;  // of a join
    const HloShape *shape;
    HloLiteral *result;
    HloArena *arena;
} Job;

// The inverse of join(): an array that is split and joined again is unchanged. On failure the caller frees what was
// made.
static HloStatus split(void *argument) {
    Job *job = argument;
    const HloShape *global = job->global->shape, *local;
    HLO_TRY(spmd_shard_shape(job->arena, global, job->sharding, &local));
    int64_t *offsets = HLO_ARENA_NEW(job->arena, int64_t, global->rank + 1);
    for (int64_t i = 0; i < job->count; i++) {
        HLO_TRY(spmd_shard_offsets(global, job->sharding, i, offsets));
        job->shards[i] = hlo_literal_new(local);
        HLO_FAIL_IF(!job->shards[i], HLO_RESOURCE_EXHAUSTED, "out of memory");
        // One device holds all of an unreduced array, the others zeros.
        if (place_in_sum(job->sharding, i)) continue;
        copy_block(job->global, job->shards[i], global, local, offsets, true);
    }
    return HLO_SUCCESS;
}

HloStatus spmd_shard_literal(const HloLiteral *global, const HloSharding *sharding, int64_t num_partitions,
                             HloLiteral **shards) {
    assert(global && sharding && shards && num_partitions > 0);
    HLO_FAIL_IF(!hlo_shape_is_array(global->shape) || !global->data, HLO_INVALID_ARGUMENT, "only arrays can be split");
    for (int64_t i = 0; i < num_partitions; i++) shards[i] = NULL;
    Job job = {.global = global, .sharding = sharding, .count = num_partitions, .shards = shards};
    job.arena = hlo_arena_new();
    HLO_FAIL_IF(!job.arena, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(split, &job);
    hlo_arena_free(job.arena);
    for (int64_t i = 0; status && i < num_partitions; i++) {
        hlo_literal_free(shards[i]);
        shards[i] = NULL;
    }
    return status;
}

// Replicas hold the same values; going from the last device to the first leaves the first one's. Unreduced parts are
// assembled position by position and added. Shapes are checked part by part: they come from a run, and a wrong sharding
// must not read beyond them.
static HloStatus join(void *argument) {
    Job *job = argument;
    const HloShape *local;
    HLO_TRY(spmd_shard_shape(job->arena, job->shape, job->sharding, &local));
    int64_t *offsets = HLO_ARENA_NEW(job->arena, int64_t, job->shape->rank + 1);
    int64_t places = 1;  // parts of one sum
    for (int64_t i = job->count - 1; i >= 0; i--) {
        HLO_FAIL_IF(!hlo_shape_equal(job->sources[i]->shape, local, HLO_COMPARE_IGNORE_LAYOUT), HLO_INVALID_ARGUMENT,
                    "the shard of device %lld does not have the shape that its sharding gives", (long long)i);
        HLO_TRY(spmd_shard_offsets(job->shape, job->sharding, i, offsets));
        int64_t place = place_in_sum(job->sharding, i);
        if (place >= places) places = place + 1;
        if (place == 0) copy_block(job->sources[i], job->result, job->shape, local, offsets, false);
    }
    HloLiteral *part = places > 1 ? hlo_literal_in_arena(job->arena, job->shape) : NULL;
    for (int64_t place = 1; place < places; place++) {
        memset(part->data, 0, (size_t)hlo_shape_bytes(job->shape));
        for (int64_t i = job->count - 1; i >= 0; i--) {
            if (place_in_sum(job->sharding, i) != place) continue;
            HLO_TRY(spmd_shard_offsets(job->shape, job->sharding, i, offsets));
            copy_block(job->sources[i], part, job->shape, local, offsets, false);
        }
        add_literal(job->result, part);
    }
    return HLO_SUCCESS;
}

HloStatus spmd_unshard_literal(const HloLiteral *const *shards, const HloSharding *sharding, int64_t num_partitions,
                               const HloShape *global_shape, HloLiteral **global) {
    assert(shards && sharding && global && num_partitions > 0);
    HLO_FAIL_IF(!hlo_shape_is_array(global_shape), HLO_INVALID_ARGUMENT, "only arrays can be reassembled");
    Job job = {.sharding = sharding, .count = num_partitions, .sources = shards, .shape = global_shape};
    job.arena = hlo_arena_new();
    job.result = hlo_literal_new(global_shape);
    HloStatus status = NULL;
    if (!job.arena || !job.result) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (!status) status = hlo_protect(join, &job);
    hlo_arena_free(job.arena);
    if (status) {
        hlo_literal_free(job.result);
        return status;
    }
    *global = job.result;
    return HLO_SUCCESS;
}
