// SPDX-License-Identifier: Apache-2.0
// Shardy's annotations as JAX leaves them in frontend attributes: xla.sdy.meshes, xla.sdy.sharding and the in and out
// shardings and manual axes of manual computations.
#ifndef MESHLO_SPMD_PARTITIONER_SDY_H_
#define MESHLO_SPMD_PARTITIONER_SDY_H_

#include "spmd_partitioner/convert.h"

// The axes of the first mesh in the text of xla.sdy.meshes that has `device_count` devices (0: any) and no device order
// of its own. Returns the number of axes, 0 if there is none.
int64_t spmd_sdy_mesh(HloArena *arena, const char *text, int64_t device_count, const SpmdMeshAxis **axes);
// Reads value number `index` of "#sdy.sharding<@mesh, [...]>" or "#sdy.sharding_per_value<[<@mesh, [...]>, …]>". False
// when the text is not of that form, uses axes that the mesh does not have, or one of them twice: then the caller
// falls back to `sharding=`.
bool spmd_sdy_sharding(HloArena *arena, const SpmdMesh *mesh, const char *text, int64_t index, int64_t rank,
                       SpmdAnnotation *annotation);
// The axes of "#sdy<manual_axes{"x", "y"}>"; false when one is not in the mesh.
bool spmd_sdy_manual_axes(const SpmdMesh *mesh, const char *text, SpmdAtomSet *axes);

#endif
