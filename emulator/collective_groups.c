// SPDX-License-Identifier: Apache-2.0
// Finds the participants of a collective and whether they form a grid on the torus. hlo/ir/collective.h explains what
// the numbers in replica groups mean; here all of them become positions on the slice.
#include "emulator/collective_groups.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/collective.h"

// The coordinate x, y or z, or as a fourth axis the core on its chip.
static int64_t coordinate(const EmuDevice *device, int axis) {
    return axis < 3 ? device->coords[axis] : device->core_on_chip;
}

int64_t emu_distinct_coordinates(const EmuTopology *topology, const int64_t *places, int64_t count, int axis,
                                 int64_t *values) {
    assert(count > 0 && axis >= 0 && values);
    bool seen[EMU_MAX_AXIS] = {false};
    int64_t found = 0, last = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = coordinate(&topology->devices[places[i]], axis);
        assert(at >= 0 && at < EMU_MAX_AXIS);
        seen[at] = true;
        if (at > last) last = at;
    }
    for (int64_t at = 0; at <= last; at++)
        if (seen[at]) values[found++] = at;
    return found;
}

// Whether members at these coordinates form a closed ring: the route from the last to the first is no longer than the
// others.
static bool closes_ring(const EmuTopology *topology, int axis, const int64_t *values, int64_t count) {
    if (axis == 3 || !topology->wrap[axis] || emu_axis_is_twisted(topology, axis) || count < 3) return false;
    int64_t longest = 0;
    for (int64_t i = 1; i < count; i++)
        if (values[i] - values[i - 1] > longest) longest = values[i] - values[i - 1];
    return topology->shape[axis] - (values[count - 1] - values[0]) <= longest;
}

// A group is a grid if it has all combinations of its coordinates: x, y, z, and the core of a chip. The product of the
// numbers of distinct coordinates is then the number of members, and each combination occurs once.
//
//   chips (0,0) (0,2) (1,0) (1,2)   x: 0 1, y: 0 2, product 4 of 4 members   a grid of 2 x 2, its members in that order
//   chips (0,0) (0,1) (1,2)         x: 0 1, y: 0 1 2, product 6 of 3         no grid: a ring over the members
EmuGrid emu_find_grid(EmuNetwork *network, const int64_t *places, int64_t count) {
    assert(places && count > 0);
    EmuGrid grid = {.count = count};
    int64_t values[EMU_GRID_AXES][EMU_MAX_AXIS], product = 1;
    for (int axis = 0; axis < EMU_GRID_AXES; axis++) {
        grid.sizes[axis] = emu_distinct_coordinates(network->topology, places, count, axis, values[axis]);
        product *= grid.sizes[axis];
        assert(product > 0);
        if (product > count) return grid;
        grid.closes[axis] = closes_ring(network->topology, axis, values[axis], grid.sizes[axis]);
    }
    if (product != count) return grid;
    grid.members = HLO_ARENA_NEW(network->arena, int64_t, count);
    memset(grid.members, -1, (size_t)count * sizeof(int64_t));
    for (int64_t i = 0; i < count; i++) {
        int64_t index = 0;
        for (int axis = 0; axis < EMU_GRID_AXES; axis++) {
            const int64_t at = coordinate(&network->topology->devices[places[i]], axis);
            int64_t rank = 0;
            while (values[axis][rank] != at) rank++;
            assert(rank < grid.sizes[axis]);
            index = index * grid.sizes[axis] + rank;
        }
        if (grid.members[index] >= 0) return grid;
        grid.members[index] = places[i];
    }
    grid.is_grid = true;
    return grid;
}

const HloReplicaGroups *emu_written_groups(const HloInstruction *collective, HloGroupMode *mode) {
    static const HloReplicaGroups everyone = {.form = HLO_GROUPS_LIST};
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(emu_synchronous_instruction(collective), Collective);
    *mode = hlo_group_mode(emu_synchronous_opcode(collective), attributes);
    return attributes->replica_groups ? attributes->replica_groups : &everyone;
}

// An empty list of groups means one group of all participants. Each list describes as many groups as there are copies
// of it: one in each partition, or in each replica.
HloStatus emu_groups_of(EmuNetwork *network, const HloInstruction *collective, EmuGroups *groups) {
    assert(network && groups);
    const HloInstruction *inner = emu_synchronous_instruction(collective);
    HloGroupMode mode;
    const HloReplicaGroups *written = emu_written_groups(collective, &mode);
    const int64_t partitions = network->partition_count;
    const int64_t numbers = hlo_group_mode_numbers(mode, network->replica_count, partitions);
    const int64_t copies = hlo_group_mode_copies(mode, network->replica_count, partitions);
    const HloInts *lists = NULL;
    int64_t count = 0;
    // A member that a broadcast leaves out sends nothing: as a group of its own it costs nothing.
    HloStatus status =
        inner->opcode == HLO_OP_COLLECTIVE_BROADCAST
            ? hlo_replica_groups_complete(written, numbers, network->arena, &lists, &count, &(int64_t){0})
            : hlo_replica_groups_expand(written, numbers, network->arena, &lists, &count);
    if (status) return hlo_status_annotate(status, "%s", inner->name);
    HloInts *expanded = HLO_ARENA_NEW(network->arena, HloInts, count * copies);
    for (int64_t copy = 0; copy < copies; copy++)
        for (int64_t g = 0; g < count; g++) {
            const HloInts devices = hlo_group_mode_devices(mode, lists[g], copy, partitions, network->arena);
            int64_t *members = HLO_ARENA_NEW(network->arena, int64_t, devices.count);
            for (int64_t i = 0; i < devices.count; i++) members[i] = network->places[devices.items[i]];
            expanded[copy * count + g] = (HloInts){members, devices.count};
        }
    *groups = (EmuGroups){expanded, count * copies};
    return HLO_SUCCESS;
}
