// SPDX-License-Identifier: Apache-2.0
// Sharding annotations as written in HLO text and protobuf (V1 device lists, V2 iota tilings, V3 named axes). The
// partitioner's own canonical form is in spmd_partitioner/sharding.h.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_SHARDING_H_
#define MESHLO_HLO_IR_SHARDING_H_

#include "hlo/ir/shape.h"

HLO_BEGIN_C

// A device order given by iota: reshape iota(n) to `dims`, transpose by `permutation`, flatten.
typedef struct HloIotaDevices {
    HloInts dims;
    HloInts permutation;  // empty for the identity
} HloIotaDevices;

// mesh[a=2,b=4], device_ids=...
typedef struct HloMesh {
    const char *const *axis_names;
    HloInts axis_sizes;
    HloIotaDevices iota;  // used when iota.dims.count > 0
    HloInts device_ids;   // explicit order; empty with an empty iota: 0, 1, 2 ...
    bool is_maximal;      // maximal_mesh[device_id=N]: device_ids holds N
} HloMesh;

// An axis or a part of it: `x`, `x:(pre)size`.
typedef struct HloAxisRef {
    int64_t axis;      // index into the mesh
    int64_t pre_size;  // 1 and
    int64_t size;      // 0 for the whole axis
} HloAxisRef;

typedef struct HloAxisRefs {
    const HloAxisRef *items;
    int64_t count;
    bool open;  // ends with '?': propagation may add axes
} HloAxisRefs;

typedef enum HloShardingKind {
    HLO_SHARDING_REPLICATED,
    HLO_SHARDING_MAXIMAL,  // {maximal device=N}
    HLO_SHARDING_MANUAL,
    HLO_SHARDING_UNKNOWN,
    HLO_SHARDING_UNREDUCED,
    HLO_SHARDING_TILED,  // {devices=[...]...}
    HLO_SHARDING_NAMED,  // {mesh[...], ...}
    HLO_SHARDING_TUPLE,
} HloShardingKind;

typedef enum HloShardGroup { HLO_SHARD_GROUP_NONE, HLO_SHARD_AS, HLO_SHARD_LIKE } HloShardGroup;

typedef struct HloSharding HloSharding;
typedef struct HloMetadata HloMetadata;  // hlo/ir/instruction.h

// {mesh[..], [{a}, {b:(1)2, ?}], replicated={..}, unreduced={..}, manual={..}}
typedef struct HloNamedSharding {
    HloMesh mesh;
    HloShardingKind whole;  // REPLICATED, UNREDUCED or MANUAL for `{mesh[..], replicated}`; else TILED
    const HloAxisRefs *dims;
    int64_t dim_count;
    HloAxisRefs replicated;
    HloAxisRefs unreduced;
    HloAxisRefs manual;
} HloNamedSharding;

struct HloSharding {
    HloShardingKind kind;
    HloInts tile_dims;    // TILED: with the trailing subgroup dimensions
    HloIotaDevices iota;  // TILED, V2: used when iota.dims.count > 0
    HloInts devices;      // TILED, V1: row-major over tile_dims
    bool last_tile_dim_replicate;
    const HloShardingKind *subgroups;  // last_tile_dims={...}: kinds of the trailing tile dimensions
    int64_t subgroup_count;
    int64_t maximal_device;
    const HloNamedSharding *named;
    HloShardGroup group;  // shard_as N / shard_like N
    int64_t group_id;
    const HloMetadata *const *metadata;  // the origin of the annotation: metadata={...}, metadata={{...}, {...}}
    int64_t metadata_count;
    const HloSharding *const *elements;  // TUPLE: one per leaf
    int64_t element_count;
};

// Makes {replicated}, {manual}, {unknown} or {unreduced}.
HLO_EXPORT const HloSharding *hlo_sharding_simple(HloArena *arena, HloShardingKind kind);
// Makes {maximal device=N}.
HLO_EXPORT const HloSharding *hlo_sharding_maximal(HloArena *arena, int64_t device);
// Makes a tuple of one sharding per leaf, kept by pointer.
HLO_EXPORT const HloSharding *hlo_sharding_tuple(HloArena *arena, const HloSharding *const *elements, int64_t count);
// Returns a deep copy in another arena; NULL stays NULL.
HLO_EXPORT const HloSharding *hlo_sharding_copy(HloArena *arena, const HloSharding *sharding);
// True if written the same way (metadata ignored). NULL equals only NULL.
HLO_EXPORT bool hlo_sharding_equal(const HloSharding *a, const HloSharding *b);
// Hashes a sharding: equal shardings have equal hashes.
HLO_EXPORT uint64_t hlo_sharding_hash(const HloSharding *sharding);
// The number of devices that the annotation names: 0 for replicated, manual and the like; that of the first leaf for
// tuples.
HLO_EXPORT int64_t hlo_sharding_device_count(const HloSharding *sharding);
// Replaces every list and name of `mesh` by a copy in `arena`.
HLO_EXPORT void hlo_mesh_copy(HloArena *arena, HloMesh *mesh);
// True if names, sizes and device order are the same and written the same way.
HLO_EXPORT bool hlo_mesh_equal(const HloMesh *a, const HloMesh *b);
// Hashes a mesh: equal meshes have equal hashes.
HLO_EXPORT uint64_t hlo_mesh_hash(const HloMesh *mesh);
// True if two references to axes of one mesh share a part of an axis.
HLO_EXPORT bool hlo_axis_refs_overlap(const HloAxisRef *a, const HloAxisRef *b);
// Writes the devices of an iota order to `devices`: as many as the product of its dims.
HLO_EXPORT void hlo_iota_devices_expand(const HloIotaDevices *iota, int64_t *devices);
// The frontend attribute in which the program of one device keeps the dimensions of a whole parameter or result:
// "8,128;4" for two leaves.
#define HLO_GLOBAL_DIMS_KEY "meshlo.global_dims"
// Returns the `rank` dimensions of leaf `leaf` in the text of such an attribute, which may be NULL; NULL where it does
// not have as many, or a negative one: the attribute may come from a file that was written by hand.
HLO_EXPORT const int64_t *hlo_global_dims(HloArena *arena, const char *text, int64_t leaf, int64_t rank);
// The devices of a tiled sharding, tile by tile, as many as the product of its tile_dims: its own list, or in the arena
// the order that an iota describes.
HLO_EXPORT const int64_t *hlo_sharding_devices(HloArena *arena, const HloSharding *sharding);
// Rewrites the order in XLA's shortest form: without dimensions of size 1, and with dimensions merged that stay
// neighbours. The lists are new, in the arena. Does nothing above rank 64, which no text reaches.
HLO_EXPORT void hlo_iota_devices_simplify(HloArena *arena, HloIotaDevices *iota);
// Appends "{devices=[2,2]<=[4]}" and so on, as XLA prints it, without metadata={...}.
HLO_EXPORT void hlo_sharding_print(HloText *text, const HloSharding *sharding);
// As hlo_sharding_print(), with or without metadata={...}.
HLO_EXPORT void hlo_sharding_print_with(HloText *text, const HloSharding *sharding, bool metadata);

HLO_END_C

#endif
