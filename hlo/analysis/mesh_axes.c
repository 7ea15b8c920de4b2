// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/mesh_axes.h"

#include <assert.h>

#include "hlo/ir/collective.h"

enum { MOST_AXES = 63 };  // that have a bit

typedef struct Mesh {
    const int64_t *sizes;
    int64_t count;
} Mesh;

// The axes in whose coordinates two partitions differ.
static uint64_t differing(const Mesh *mesh, int64_t a, int64_t b) {
    uint64_t axes = 0;
    for (int64_t i = mesh->count; i-- > 0;) {
        const int64_t size = mesh->sizes[i];
        if (a % size != b % size && i < MOST_AXES) axes |= UINT64_C(1) << i;
        a /= size;
        b /= size;
    }
    return axes;
}

static uint64_t axes_of_pairs(const Mesh *mesh, const HloInstruction *permute) {
    const HloPairs pairs = HLO_ATTRIBUTES(permute, Permute)->source_target_pairs;
    uint64_t axes = 0;
    for (int64_t i = 0; i < pairs.count; i++) axes |= differing(mesh, pairs.items[i].source, pairs.items[i].target);
    return axes;
}

uint64_t hlo_collective_axes(HloArena *arena, const HloModule *module, const HloInstruction *collective,
                             const int64_t *sizes, int64_t count) {
    assert(arena && module && collective && (sizes || !count));
    const HloFamily family = hlo_op_info(collective->opcode)->family;
    const int64_t replicas = module->replica_count > 0 ? module->replica_count : 1;
    const int64_t partitions = module->num_partitions > 0 ? module->num_partitions : 1;
    const Mesh mesh = {sizes, count};
    int64_t devices = 1;
    for (int64_t i = 0; i < count; i++) {
        if (sizes[i] < 1 || sizes[i] > partitions / devices) return 0;
        devices *= sizes[i];
    }
    if (devices != partitions) return 0;
    if (family == HLO_FAMILY_Permute)
        return HLO_ATTRIBUTES(collective, Permute)->channel_id > 0 ? axes_of_pairs(&mesh, collective) : 0;
    if (family != HLO_FAMILY_Collective) return 0;
    const HloGroupMode mode = hlo_group_mode_of(collective);
    const HloReplicaGroups *groups = HLO_ATTRIBUTES(collective, Collective)->replica_groups;
    if (mode == HLO_GROUPS_OF_REPLICAS || mode == HLO_GROUPS_OF_REPLICAS_PARTITIONS) return 0;
    if (!groups) return (UINT64_C(1) << (count < MOST_AXES ? count : MOST_AXES)) - 1;
    const HloArenaMark mark = hlo_arena_mark(arena);
    const HloInts *lists;
    int64_t list_count;
    HloStatus status = hlo_replica_groups_expand(groups, hlo_group_mode_numbers(mode, replicas, partitions), arena,
                                                 &lists, &list_count);
    uint64_t axes = 0;
    for (int64_t i = 0; !status && list_count && i < lists[0].count; i++)
        axes |= differing(&mesh, lists[0].items[0] % partitions, lists[0].items[i] % partitions);
    hlo_status_free(status);
    hlo_arena_reset(arena, mark);
    return axes;
}
