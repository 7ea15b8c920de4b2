// SPDX-License-Identifier: Apache-2.0
// Internal: the axes of a mesh that collectives are along, as reports name them.
#ifndef MESHLO_EMULATOR_REPORT_MESH_AXES_H_
#define MESHLO_EMULATOR_REPORT_MESH_AXES_H_

#include "hlo/ir/module.h"

// The mesh that a program was partitioned for: names and sizes of its axes.
typedef struct EmuMeshAxes {
    const char **names;
    int64_t *sizes;
    int64_t count;
} EmuMeshAxes;

// Reads "data=4,model=2". What is not of that form, or NULL, has no axes. Memory errors of this and of
// emu_mesh_axes_along() jump to hlo_protect().
EmuMeshAxes emu_mesh_axes_read(HloArena *arena, const char *mesh);
// The names of the axes that a collective of the module, or its start, is along: "data,model", in the arena; "" if they
// are unknown.
const char *emu_mesh_axes_along(const EmuMeshAxes *mesh, HloArena *arena, const HloModule *module,
                                const HloInstruction *collective);

#endif
