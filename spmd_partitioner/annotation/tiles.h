// SPDX-License-Identifier: Apache-2.0
// Tiled annotations taken apart: most device lists are products of runs of devices at equal distances.
//
//     devices=[2,4]<=[4,2]T(1,0)    tiles  0 2 4 6 / 1 3 5 7
//     dimension 0: one run of 2 devices, 1 apart   segment {stride 1, size 2}
//     dimension 1: one run of 4 devices, 2 apart   segment {stride 2, size 4}
//
// A mesh may have a device order of its own. Lists are then taken apart as lists of positions in it:
//
//     devices=[8]7,6,5,4,3,2,1,0    on the mesh of the devices 7 to 0: positions 0 to 7, one run
#ifndef MESHLO_SPMD_PARTITIONER_ANNOTATION_TILES_H_
#define MESHLO_SPMD_PARTITIONER_ANNOTATION_TILES_H_

#include "spmd_partitioner/mesh.h"

// A run of devices at equal distances: one factor of a device order.
typedef struct SpmdSegment {
    int64_t stride, size;
} SpmdSegment;
typedef HLO_VECTOR(SpmdSegment) SpmdSegments;

// A tiled annotation taken apart: the factors of each tile dimension, major to minor.
typedef struct SpmdTiles {
    int64_t count;  // of tile dimensions, subgroups included
    SpmdSegments *dims;
    int64_t devices;
} SpmdTiles;

// Takes a tiled annotation apart; false when its devices, in the order of the mesh, are no product of strides.
bool spmd_tiles_new(HloArena *arena, const SpmdDeviceOrder *order, const HloSharding *sharding, SpmdTiles *tiles);
// Whether each of the devices 0, 1 … `count` - 1 is in the list once.
bool spmd_is_permutation(HloArena *arena, const int64_t *devices, int64_t count);
// The number of devices of a tiled annotation that have the same part: they are neighbours in its list, in any order.
int64_t spmd_copies_of(const HloSharding *sharding);

// Appends the factors of a list of V3 axes, in the strides of their own mesh.
void spmd_segments_of_axes(HloArena *arena, const HloMesh *mesh, const HloAxisRefs *axes, SpmdSegments *out);
// Whether a written mesh has its devices in this order.
bool spmd_mesh_follows(HloArena *arena, const HloMesh *mesh, const SpmdDeviceOrder *order);
// A named sharding as the V1 tiling that it means. Manual, unreduced and replicated axes become three trailing
// subgroups, each of size 1 where there are none. Devices of one tile are listed by their position in the annotation's
// mesh.
HloSharding *spmd_tiled_from_named(HloArena *arena, const HloNamedSharding *named, int64_t rank);
// True if the axes of the mesh split, reduce or fix nothing: the array is whole on every device, of however many, as in
// Shardy, which makes a plain {replicated} of it.
bool spmd_uses_no_axes(const HloNamedSharding *named);

// The product of sizes; -1 when it does not fit.
int64_t spmd_product_of(HloInts ints);
// The number of parts into which a list of V3 axes splits a dimension. An axis without a size of its own is taken
// whole.
int64_t spmd_product_of_axes(const HloMesh *mesh, const HloAxisRefs *axes);
// Devices by position in a written mesh: its own list, or in the arena.
const int64_t *spmd_mesh_devices(HloArena *arena, const HloMesh *mesh);
// Number of array dimensions that a tiled annotation describes: trailing tile dimensions are subgroups or replication.
static inline int64_t spmd_tiled_rank(const HloSharding *sharding) {
    return sharding->tile_dims.count - sharding->subgroup_count - (sharding->last_tile_dim_replicate ? 1 : 0);
}

#endif
