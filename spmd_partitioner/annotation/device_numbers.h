// SPDX-License-Identifier: Apache-2.0
// The device numbers that a program uses itself, on another mesh.
#ifndef MESHLO_SPMD_PARTITIONER_ANNOTATION_DEVICE_NUMBERS_H_
#define MESHLO_SPMD_PARTITIONER_ANNOTATION_DEVICE_NUMBERS_H_

#include "hlo/ir/module.h"

// Renumbers the groups and pairs of a collective among partitions from one mesh to another one. Members of a group may
// differ only along axes that both meshes have in one size. Other axes must not matter: along these, the groups are the
// same everywhere, and are made anew for the other mesh. INVALID_ARGUMENT, naming the axis, where that does not hold,
// and where numbers count replicas too. The result is in the module's arena; `scratch` is for the rest.
HloStatus spmd_renumber_collective(HloArena *scratch, HloInstruction *op, const HloMesh *before, const HloMesh *after);

#endif
