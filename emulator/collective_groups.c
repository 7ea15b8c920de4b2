// SPDX-License-Identifier: Apache-2.0
// Who takes part in a collective, and whether its members form a grid on the torus. The numbers in replica groups mean
// replicas, partitions or participants, depending on channel_id and use_global_device_ids (XLA's
// CollectiveOpGroupMode); here all of them become places on the slice.
#include "emulator/collective_groups.h"

#include <assert.h>
#include <string.h>

// x, y, z, and as a fourth the core on its chip.
static int64_t coordinate(const EmuDevice *device, int axis) {
    return axis < 3 ? device->coords[axis] : device->core_on_chip;
}

// The distinct coordinates along an axis, ascending; returns how many.
static int64_t distinct(const EmuNetwork *network, const int64_t *places, int64_t count, int axis, int64_t *values) {
    assert(count > 0 && axis >= 0 && values);
    bool seen[EMU_MAX_AXIS] = {false};
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = coordinate(&network->topology->devices[places[i]], axis);
        assert(at >= 0 && at < EMU_MAX_AXIS);
        seen[at] = true;
    }
    int64_t found = 0;
    for (int64_t at = 0; at < EMU_MAX_AXIS; at++)
        if (seen[at]) values[found++] = at;
    return found;
}

// Whether members at these coordinates close to a ring: the way from the last to the first is no longer than the
// others.
static bool closes_ring(const EmuTopology *topology, int axis, const int64_t *values, int64_t count) {
    if (axis == 3 || !topology->wrap[axis] || emu_axis_is_twisted(topology, axis) || count < 3) return false;
    int64_t longest = 0;
    for (int64_t i = 1; i < count; i++)
        if (values[i] - values[i - 1] > longest) longest = values[i] - values[i - 1];
    return topology->shape[axis] - (values[count - 1] - values[0]) <= longest;
}

EmuGrid emu_find_grid(EmuNetwork *network, const int64_t *places, int64_t count) {
    assert(places && count > 0);
    EmuGrid grid = {.count = count};
    int64_t values[EMU_GRID_AXES][EMU_MAX_AXIS], product = 1;
    for (int axis = 0; axis < EMU_GRID_AXES; axis++) {
        grid.sizes[axis] = distinct(network, places, count, axis, values[axis]);
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

// How the numbers in the replica groups of a collective name participants.
typedef enum GroupMode {
    GROUPS_OF_REPLICAS,             // in each partition on its own
    GROUPS_OF_PARTITIONS,           // in each replica on its own
    GROUPS_OF_REPLICAS_PARTITIONS,  // of replicas, all their partitions together
    GROUPS_OF_PARTICIPANTS,         // numbers over replicas and partitions
} GroupMode;

// XLA's rules: global ids with a channel are participants; without a channel groups are of replicas; with one,
// all-to-alls and broadcasts are among partitions, and reductions among replicas with all their partitions.
static GroupMode mode_of(const HloInstruction *collective) {
    const HloInstruction *inner = emu_synchronous_instruction(collective);
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(inner, Collective);
    if (attributes->use_global_device_ids) return GROUPS_OF_PARTICIPANTS;
    if (!attributes->channel_id) return GROUPS_OF_REPLICAS;
    const HloOpcode opcode = emu_synchronous_opcode(collective);
    const bool across =
        opcode == HLO_OP_ALL_TO_ALL || opcode == HLO_OP_COLLECTIVE_BROADCAST || opcode == HLO_OP_RAGGED_ALL_TO_ALL;
    return across ? GROUPS_OF_PARTITIONS : GROUPS_OF_REPLICAS_PARTITIONS;
}

// Participants that one number of a list stands for in group mode `mode`, for copy `copy` of the list.
static void append_participants(const EmuNetwork *network, GroupMode mode, int64_t number, int64_t copy,
                                int64_t *participants, int64_t *count) {
    assert(number >= 0 && copy >= 0 && *count >= 0);
    const int64_t partitions = network->partition_count;
    switch (mode) {
        case GROUPS_OF_REPLICAS: participants[(*count)++] = number * partitions + copy; return;
        case GROUPS_OF_PARTITIONS: participants[(*count)++] = copy * partitions + number; return;
        case GROUPS_OF_PARTICIPANTS: participants[(*count)++] = number; return;
        case GROUPS_OF_REPLICAS_PARTITIONS:
            for (int64_t p = 0; p < partitions; p++) participants[(*count)++] = number * partitions + p;
            return;
    }
}

// No groups at all means one of everybody. Each list stands for as many groups as there are copies of it: one in each
// partition, or in each replica.
HloStatus emu_groups_of(EmuNetwork *network, const HloInstruction *collective, EmuGroups *groups) {
    assert(network && groups);
    const HloInstruction *inner = emu_synchronous_instruction(collective);
    const HloReplicaGroups *written = HLO_ATTRIBUTES(inner, Collective)->replica_groups;
    const GroupMode mode = mode_of(collective);
    const int64_t total = network->replica_count * network->partition_count;
    const int64_t numbers = mode == GROUPS_OF_PARTICIPANTS ? total
                            : mode == GROUPS_OF_PARTITIONS ? network->partition_count
                                                           : network->replica_count;
    const int64_t copies = mode == GROUPS_OF_REPLICAS     ? network->partition_count
                           : mode == GROUPS_OF_PARTITIONS ? network->replica_count
                                                          : 1;
    const HloInts *lists = NULL;
    int64_t count = 0;
    static const HloReplicaGroups everyone = {.form = HLO_GROUPS_LIST};
    if (!written) written = &everyone;
    // Whom a broadcast leaves out has nothing to send: a group of its own costs nothing.
    HloStatus status =
        inner->opcode == HLO_OP_COLLECTIVE_BROADCAST
            ? hlo_replica_groups_complete(written, numbers, network->arena, &lists, &count, &(int64_t){0})
            : hlo_replica_groups_expand(written, numbers, network->arena, &lists, &count);
    if (status) return hlo_status_annotate(status, "%s", inner->name);
    HloInts *expanded = HLO_ARENA_NEW(network->arena, HloInts, count * copies);
    for (int64_t copy = 0; copy < copies; copy++)
        for (int64_t g = 0; g < count; g++) {
            const int64_t each = mode == GROUPS_OF_REPLICAS_PARTITIONS ? network->partition_count : 1;
            int64_t *members = HLO_ARENA_NEW(network->arena, int64_t, lists[g].count * each), filled = 0;
            for (int64_t i = 0; i < lists[g].count; i++)
                append_participants(network, mode, lists[g].items[i], copy, members, &filled);
            for (int64_t i = 0; i < filled; i++) members[i] = network->places[members[i]];
            expanded[copy * count + g] = (HloInts){members, filled};
        }
    *groups = (EmuGroups){expanded, count * copies};
    return HLO_SUCCESS;
}
