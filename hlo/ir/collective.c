// SPDX-License-Identifier: Apache-2.0
// A channel id means that partitions take part; without one a collective is among replicas. With a channel id, ops that
// have the flag for global ids count devices if it is set, and replicas with all their partitions if it is not; ops
// without the flag count partitions.
#include "hlo/ir/collective.h"

#include <assert.h>

#include "hlo/base/arithmetic.h"

HloGroupMode hlo_group_mode(HloOpcode opcode, const HloCollectiveAttributes *attributes) {
    if (attributes->channel_id <= 0) return HLO_GROUPS_OF_REPLICAS;
    if (attributes->use_global_device_ids) return HLO_GROUPS_OF_DEVICES;
    switch (opcode) {
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_RAGGED_ALL_TO_ALL:
        case HLO_OP_COLLECTIVE_BROADCAST: return HLO_GROUPS_OF_PARTITIONS;
        default: return HLO_GROUPS_OF_REPLICAS_PARTITIONS;
    }
}

HloGroupMode hlo_group_mode_of(const HloInstruction *collective) {
    if (hlo_op_info(collective->opcode)->family == HLO_FAMILY_Permute) {
        const bool channel = HLO_ATTRIBUTES(collective, Permute)->channel_id > 0;
        return channel ? HLO_GROUPS_OF_PARTITIONS : HLO_GROUPS_OF_REPLICAS;
    }
    assert(hlo_op_info(collective->opcode)->family == HLO_FAMILY_Collective);
    return hlo_group_mode(collective->opcode, HLO_ATTRIBUTES(collective, Collective));
}

int64_t hlo_group_mode_numbers(HloGroupMode mode, int64_t replicas, int64_t partitions) {
    int64_t devices;
    switch (mode) {
        case HLO_GROUPS_OF_PARTITIONS: return partitions;
        case HLO_GROUPS_OF_DEVICES:  // the counts come from a header, which may have any value
            return __builtin_mul_overflow(replicas, partitions, &devices) ? INT64_MAX : devices;
        default: return replicas;
    }
}

int64_t hlo_group_mode_copies(HloGroupMode mode, int64_t replicas, int64_t partitions) {
    switch (mode) {
        case HLO_GROUPS_OF_REPLICAS: return partitions;
        case HLO_GROUPS_OF_PARTITIONS: return replicas;
        default: return 1;
    }
}

HloInts hlo_group_mode_devices(HloGroupMode mode, HloInts numbers, int64_t copy, int64_t partitions, HloArena *arena) {
    assert(numbers.count >= 0 && copy >= 0 && partitions > 0 && arena);
    const int64_t each = mode == HLO_GROUPS_OF_REPLICAS_PARTITIONS ? partitions : 1;
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, numbers.count * each);
    for (int64_t i = 0; i < numbers.count; i++) {
        const int64_t number = numbers.items[i];
        int64_t first = number;
        switch (mode) {
            case HLO_GROUPS_OF_REPLICAS: first = number * partitions + copy; break;
            case HLO_GROUPS_OF_PARTITIONS: first = copy * partitions + number; break;
            case HLO_GROUPS_OF_REPLICAS_PARTITIONS: first = number * partitions; break;
            case HLO_GROUPS_OF_DEVICES: break;
        }
        for (int64_t k = 0; k < each; k++) devices[i * each + k] = first + k;
    }
    return (HloInts){devices, numbers.count * each};
}

// The least number linked with `number` so far; shortens the way to it.
static int64_t least_linked(int64_t *parents, int64_t number) {
    for (; parents[number] != number; number = parents[number]) parents[number] = parents[parents[number]];
    return number;
}

void hlo_permute_groups(const HloPairs *pairs, int64_t numbers, HloArena *arena, const HloInts **groups,
                        int64_t *count) {
    assert(pairs && numbers >= 0 && arena && groups && count);
    int64_t *parents = HLO_ARENA_NEW(arena, int64_t, numbers), *group_of = HLO_ARENA_NEW(arena, int64_t, numbers);
    int64_t *members = HLO_ARENA_NEW(arena, int64_t, numbers), *ends = HLO_ARENA_NEW(arena, int64_t, numbers);
    HloInts *made = HLO_ARENA_NEW(arena, HloInts, numbers);
    for (int64_t i = 0; i < numbers; i++) parents[i] = i;
    for (int64_t i = 0; i < pairs->count; i++) {
        const HloPair pair = pairs->items[i];
        if (pair.source < 0 || pair.source >= numbers || pair.target < 0 || pair.target >= numbers) continue;
        const int64_t a = least_linked(parents, pair.source), b = least_linked(parents, pair.target);
        parents[hlo_larger(a, b)] = hlo_smaller(a, b);
    }
    *count = 0;
    for (int64_t i = 0; i < numbers; i++) {
        const int64_t least = least_linked(parents, i);
        group_of[i] = least == i ? (*count)++ : group_of[least];
        made[group_of[i]].count++;
    }
    for (int64_t g = 0, end = 0; g < *count; g++) {
        made[g].items = members + end;
        ends[g] = end;
        end += made[g].count;
    }
    for (int64_t i = 0; i < numbers; i++) members[ends[group_of[i]]++] = i;
    *groups = made;
}

int64_t hlo_permute_slices(const HloShape *starts, int64_t index) {
    if (starts->type != HLO_TUPLE || index >= starts->element_count) return 1;
    const HloShape *inner = starts->elements[index];
    return inner->type == HLO_TUPLE && inner->element_count > 0 && inner->elements[0]->type == HLO_TUPLE
               ? inner->element_count
               : 1;
}
