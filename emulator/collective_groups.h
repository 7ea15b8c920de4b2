// SPDX-License-Identifier: Apache-2.0
// Internal: a replica group as a part of the torus.
#ifndef MESHLO_EMULATOR_COLLECTIVE_GROUPS_H_
#define MESHLO_EMULATOR_COLLECTIVE_GROUPS_H_

#include "emulator/collective.h"
#include "hlo/ir/collective.h"

// Axes of a grid: x, y, z, the devices of a chip.
#define EMU_GRID_AXES 4

// The members of a group inside one slice. If they form a grid (every combination of some coordinates along each axis),
// `members[((x * ny + y) * nz + z) * nc + c]` is the position of each.
typedef struct EmuGrid {
    bool is_grid;
    int64_t sizes[EMU_GRID_AXES];
    int64_t *members;
    int64_t count;
    bool closes[EMU_GRID_AXES];  // the members form a ring along this axis
} EmuGrid;

// Collects the distinct coordinates of positions along an axis of a grid, ascending, in `values`, which has room for
// EMU_MAX_AXIS; returns how many.
int64_t emu_distinct_coordinates(const EmuTopology *topology, const int64_t *places, int64_t count, int axis,
                                 int64_t *values);

// Finds the grid that `count` positions of one slice form. Allocates in the network's arena.
EmuGrid emu_find_grid(EmuNetwork *network, const int64_t *places, int64_t count);

// The groups of a collective as lists of positions.
typedef struct EmuGroups {
    const HloInts *lists;
    int64_t count;
} EmuGroups;

// Returns the groups as a collective writes them, and sets what the numbers in them mean. Both live as long as it.
const HloReplicaGroups *emu_written_groups(const HloInstruction *collective, HloGroupMode *mode);

// Expands the groups of a collective; its channel and flags determine what the numbers mean.
HLO_NODISCARD HloStatus emu_groups_of(EmuNetwork *network, const HloInstruction *collective, EmuGroups *groups);

#endif
