// SPDX-License-Identifier: Apache-2.0
// Determines which devices take part in a collective together. Replica groups name replicas, partitions or both,
// depending on the mode; the engine knows devices only, numbered replica * partitions + partition. So a group becomes
// the list of its devices, repeated for each replica or partition in which it exists separately. At run time each
// device then needs two numbers: its group, and its index in it. The pairs of a permute make groups of what they link:
// only those devices wait for one another, so that some may permute in a branch that others do not take.
#include <assert.h>

#include "hlo/ir/collective.h"
#include "targets/cpu/graph/collective.h"

typedef struct GroupBuilder {
    HloArena *arena;
    const HloInstruction *instruction;
    int64_t replicas, partitions;
    HloGroupMode mode;
    HLO_VECTOR(CpuCollectiveGroup) groups;
} GroupBuilder;

static bool is_permute(const HloInstruction *instruction) {
    return hlo_op_info(instruction->opcode)->family == HLO_FAMILY_Permute;
}

// Adds the group `ids` as it exists in replica or partition number `copy`.
static void add_group(GroupBuilder *builder, HloInts ids, int64_t copy, bool is_left_out) {
    assert(ids.count >= 0 && copy >= 0);
    const HloInts devices = hlo_group_mode_devices(builder->mode, ids, copy, builder->partitions, builder->arena);
    const CpuCollectiveGroup group = {devices.items, devices.count, is_left_out};
    hlo_vector_push(builder->arena, &builder->groups, group);
}

// Expands lists to groups. The lists from `*named` on are the devices that a broadcast leaves out.
static HloStatus expand_groups(const GroupBuilder *builder, const HloInts **lists, int64_t *count, int64_t *named) {
    const int64_t ids = hlo_group_mode_numbers(builder->mode, builder->replicas, builder->partitions);
    const HloReplicaGroups *groups = NULL;
    if (!is_permute(builder->instruction)) groups = HLO_ATTRIBUTES(builder->instruction, Collective)->replica_groups;
    if (groups && builder->instruction->opcode == HLO_OP_COLLECTIVE_BROADCAST)
        return hlo_replica_groups_complete(groups, ids, builder->arena, lists, count, named);
    *named = INT64_MAX;
    if (groups) return hlo_replica_groups_expand(groups, ids, builder->arena, lists, count);
    if (is_permute(builder->instruction)) {
        const HloPairs *pairs = &HLO_ATTRIBUTES(builder->instruction, Permute)->source_target_pairs;
        hlo_permute_groups(pairs, ids, builder->arena, lists, count);
        return HLO_SUCCESS;
    }
    int64_t *all = HLO_ARENA_NEW(builder->arena, int64_t, ids);
    for (int64_t i = 0; i < ids; i++) all[i] = i;
    HloInts *list = HLO_ARENA_NEW(builder->arena, HloInts, 1);
    *list = (HloInts){all, ids};
    *lists = list;
    *count = 1;
    return HLO_SUCCESS;
}

// Makes groups of device numbers (replica * partitions + partition) from lists that mean replicas, partitions or both,
// by the collective's mode. Groups that name only replicas exist once per partition, and vice versa. The lists are
// inverted at the end, so that a device finds its group and its index in it directly.
HloStatus cpu_collective_groups(HloArena *arena, const HloInstruction *instruction, int64_t replica_count,
                                int64_t partition_count, CpuCollective *collective) {
    assert(replica_count > 0 && partition_count > 0);
    GroupBuilder builder = {.arena = arena,
                            .instruction = instruction,
                            .replicas = replica_count,
                            .partitions = partition_count,
                            .mode = hlo_group_mode_of(instruction)};
    const HloInts *lists;
    int64_t list_count, named;
    const HloStatus expanded = expand_groups(&builder, &lists, &list_count, &named);
    if (expanded)
        return hlo_status_annotate(expanded, "%s %%%s on %lld replicas of %lld partitions",
                                   hlo_op_text(instruction->opcode), instruction->name, (long long)replica_count,
                                   (long long)partition_count);
    const int64_t copies = hlo_group_mode_copies(builder.mode, replica_count, partition_count);
    for (int64_t copy = 0; copy < copies; copy++)
        for (int64_t i = 0; i < list_count; i++) add_group(&builder, lists[i], copy, i >= named);
    const int64_t devices = replica_count * partition_count;
    int32_t *group_of = HLO_ARENA_NEW(arena, int32_t, devices), *member_of = HLO_ARENA_NEW(arena, int32_t, devices);
    for (int64_t d = 0; d < devices; d++) group_of[d] = -1;
    for (int64_t g = 0; g < builder.groups.count; g++) {
        for (int64_t m = 0; m < builder.groups.items[g].count; m++) {
            group_of[builder.groups.items[g].devices[m]] = (int32_t)g;
            member_of[builder.groups.items[g].devices[m]] = (int32_t)m;
        }
    }
    collective->groups = builder.groups.items;
    collective->group_count = builder.groups.count;
    collective->group_of = group_of;
    collective->member_of = member_of;
    for (int64_t d = 0; d < devices; d++) assert(group_of[d] >= 0); /* expand_groups() returns each number once */
    return HLO_SUCCESS;
}
