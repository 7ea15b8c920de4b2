// SPDX-License-Identifier: Apache-2.0
// From written annotations (HloSharding V1, V2, V3) to the canonical form and back, and the one mesh that a module's
// annotations have in common.
#ifndef MESHLO_SPMD_PARTITIONER_CONVERT_H_
#define MESHLO_SPMD_PARTITIONER_CONVERT_H_

#include "spmd_partitioner/sharding.h"

// The annotation of one array.
typedef struct SpmdAnnotation {
    SpmdSharding *sharding;
    bool *open;              // per dimension: propagation may add axes; NULL when none may
    SpmdAtomSet replicated;  // must not be added by propagation
    // Per dimension: the pass of propagation in which it starts to take part, 0 being the first; NULL when all take
    // part in it.
    const int32_t *priorities;
    // For a device order that the module's mesh cannot express: devices[d] is the device that must hold what the
    // canonical form gives to device d. NULL for the mesh's own order.
    const int64_t *devices;
} SpmdAnnotation;

// The mesh: the options' axes, else those of the module's sdy meshes or of its V3 annotations, else axes named axis0,
// axis1 … made from the strides that annotations use. Refined so that as many annotations as possible fit.
HloStatus spmd_mesh_infer(HloArena *arena, const HloModule *module, const SpmdOptions *options, const SpmdMesh **mesh);
// Body of spmd_remesh(). Fills *result with the changed copy, which the caller frees, also after an error; NULL where
// nothing changes.
HloStatus spmd_mesh_apply(HloArena *arena, const HloModule *module, const SpmdMeshAxis *axes, int64_t count,
                          HloModule **result);
// Reads an annotation that is not a tuple. INVALID_ARGUMENT when its rank or device count is wrong; UNIMPLEMENTED for a
// manual sharding whose device order does not fit the mesh.
HloStatus spmd_annotation_from_hlo(HloArena *arena, const SpmdMesh *mesh, const HloSharding *sharding, int64_t rank,
                                   SpmdAnnotation *annotation);
// Closes the dynamic dimensions of the annotated array. UNIMPLEMENTED when the annotation shards one.
HloStatus spmd_annotation_keep_dynamic(const HloShape *shape, SpmdAnnotation *annotation);
// Coordinate of position `position` of a written mesh along some of its axes, major to minor.
int64_t spmd_mesh_coordinate(const HloMesh *mesh, const HloAxisRefs *axes, int64_t position);
// The V2 form of a sharding (the V1 form, with `devices` as in SpmdAnnotation, where the order is foreign).
const HloSharding *spmd_sharding_to_hlo(HloArena *arena, const SpmdMesh *mesh, const SpmdSharding *sharding,
                                        const int64_t *devices);

#endif
