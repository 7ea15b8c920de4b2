// SPDX-License-Identifier: Apache-2.0
// Inside the room: a replica group as a part of the torus.
#ifndef MESHLO_EMULATOR_COLLECTIVE_GROUPS_H_
#define MESHLO_EMULATOR_COLLECTIVE_GROUPS_H_

#include "emulator/collective.h"

// Axes of a grid: x, y, z, the devices of a chip.
#define EMU_GRID_AXES 4

// The members of a group inside one slice. If they are a grid, that is every combination of some coordinates along each
// axis, `members[((x * ny + y) * nz + z) * nc + c]` is the place of each.
typedef struct EmuGrid {
    bool is_grid;
    int64_t sizes[EMU_GRID_AXES];
    int64_t *members;
    int64_t count;
    bool closes[EMU_GRID_AXES];  // along this axis the members make a ring
} EmuGrid;

// Finds the grid of `count` places of one slice. Allocates in the network's arena.
EmuGrid emu_find_grid(EmuNetwork *network, const int64_t *places, int64_t count);

// Groups of a collective as lists of places.
typedef struct EmuGroups {
    const HloInts *lists;
    int64_t count;
} EmuGroups;

// Writes the groups of a collective out, by the meaning that its channel and flags give them.
HLO_NODISCARD HloStatus emu_groups_of(EmuNetwork *network, const HloInstruction *collective, EmuGroups *groups);

#endif
