// SPDX-License-Identifier: Apache-2.0
#include "emulator/report/mesh_axes.h"

#include <stdlib.h>
#include <string.h>

#include "emulator/op_class.h"
#include "hlo/analysis/mesh_axes.h"
#include "hlo/base/text.h"

EmuMeshAxes emu_mesh_axes_read(HloArena *arena, const char *mesh) {
    EmuMeshAxes axes = {0};
    int64_t most = 1;
    for (const char *at = mesh; at && *at; at++) most += *at == ',';
    axes.names = HLO_ARENA_NEW(arena, const char *, most);
    axes.sizes = HLO_ARENA_NEW(arena, int64_t, most);
    for (const char *at = mesh; at && *at;) {
        const size_t length = strcspn(at, ","), name = strcspn(at, "=,");
        const long long size = name < length ? strtoll(at + name + 1, NULL, 10) : 0;
        if (size < 1) return (EmuMeshAxes){0};
        axes.names[axes.count] = hlo_arena_string(arena, at, name);
        axes.sizes[axes.count++] = size;
        at += length + (at[length] == ',');
    }
    return axes;
}

const char *emu_mesh_axes_along(const EmuMeshAxes *mesh, HloArena *arena, const HloModule *module,
                                const HloInstruction *collective) {
    if (!mesh->count) return "";
    const HloInstruction *one = emu_synchronous_instruction(collective);
    const uint64_t axes = hlo_collective_axes(arena, module, one, mesh->sizes, mesh->count);
    HloText text = {0};
    for (int64_t i = 0; i < mesh->count && i < 63; i++)
        if (axes >> i & 1) hlo_text_format(&text, "%s%s", text.length ? "," : "", mesh->names[i]);
    return hlo_text_to_arena(arena, &text);
}
