// SPDX-License-Identifier: Apache-2.0
// Programs whose mesh has a device order of its own. Up to here devices were counted by their positions in the mesh:
// groups and pairs get the numbers of the devices at these positions, and a device looks its position up.
//
//     mesh of the devices 3, 2, 1, 0:    replica_groups={{0,1},{2,3}}    becomes    {{3,2},{1,0}}
//                                        partition-id()                  becomes    {3,2,1,0}[partition-id()]
#include <assert.h>

#include "hlo/ir/collective.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/passes/passes.h"

static int64_t number_of(const SpmdDeviceOrder *order, int64_t position) {
    return position / order->count * order->count + order->devices[position % order->count];  // in its replica
}

static HloStatus number_groups(HloInstruction *at, const SpmdDeviceOrder *order, HloArena *scratch) {
    const HloModule *module = at->parent->module;
    const HloGroupMode mode = hlo_group_mode_of(at);
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(at, Collective);
    if (!attributes.replica_groups) return HLO_SUCCESS;  // all devices
    const HloInts *groups;
    int64_t count, named;
    const int64_t numbers = hlo_group_mode_numbers(mode, module->replica_count, order->count);
    HLO_TRY(hlo_replica_groups_complete(attributes.replica_groups, numbers, scratch, &groups, &count, &named));
    HloInts *lists = HLO_ARENA_NEW(scratch, HloInts, named);
    for (int64_t g = 0; g < named; g++) {
        int64_t *devices = HLO_ARENA_NEW(scratch, int64_t, groups[g].count);
        for (int64_t i = 0; i < groups[g].count; i++) devices[i] = number_of(order, groups[g].items[i]);
        lists[g] = (HloInts){devices, groups[g].count};
    }
    attributes.replica_groups = hlo_replica_groups_list(module->arena, lists, named);
    at->attributes = hlo_arena_copy(module->arena, &attributes, sizeof(attributes));
    return HLO_SUCCESS;
}

static void number_pairs(HloInstruction *at, const SpmdDeviceOrder *order) {
    HloArena *arena = at->parent->module->arena;
    HloPermuteAttributes attributes = *HLO_ATTRIBUTES(at, Permute);
    const HloPairs from = attributes.source_target_pairs;
    HloPair *pairs = HLO_ARENA_NEW(arena, HloPair, from.count);
    for (int64_t i = 0; i < from.count; i++)
        pairs[i] = (HloPair){number_of(order, from.items[i].source), number_of(order, from.items[i].target)};
    attributes.source_target_pairs = (HloPairs){pairs, from.count};
    at->attributes = hlo_arena_copy(arena, &attributes, sizeof(attributes));
}

// Has the users of a device's number use its position instead.
static void look_up_position(HloInstruction *id, const SpmdDeviceOrder *order) {
    HloArena *arena = id->parent->module->arena;
    const int64_t one = 1;
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_array(arena, id->shape->type, &order->count, 1));
    for (int64_t i = 0; i < order->count; i++) hlo_literal_set_int64(literal, i, order->positions[i]);
    const HloConstantAttributes constant = {literal};
    const HloDynamicSliceAttributes slice = {.sizes = hlo_ints(arena, &one, 1)};
    const HloReshapeAttributes reshape = {.inferred_dimension = -1};
    HloInstruction *made[3], *operands[2] = {NULL, id}, *after = id->next;
    made[0] = operands[0] = hlo_instruction_new(id->parent, HLO_OP_CONSTANT, literal->shape, NULL, 0, &constant, NULL);
    made[1] = hlo_instruction_new(id->parent, HLO_OP_DYNAMIC_SLICE, hlo_shape_array(arena, id->shape->type, &one, 1),
                                  operands, 2, &slice, NULL);
    made[2] = hlo_instruction_new(id->parent, HLO_OP_RESHAPE, id->shape, &made[1], 1, &reshape, NULL);
    for (int i = 0; i < 3; i++) {
        made[i]->metadata = id->metadata;
        if (after) hlo_instruction_move_before(made[i], after);
    }
    hlo_instruction_replace_uses(id, made[2]);
    hlo_instruction_set_operand(made[1], 1, id);
}

HloStatus spmd_number_devices(HloModule *module, const SpmdDeviceOrder *order, HloArena *scratch) {
    assert(module->num_partitions == order->count || !order->devices);
    if (!order->devices) return HLO_SUCCESS;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            if (hlo_is(at, HLO_OP_PARTITION_ID)) look_up_position(at, order);
            if (!hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE) || spmd_is_across_replicas(at)) continue;
            const HloFamily family = hlo_op_info(at->opcode)->family;
            if (family == HLO_FAMILY_Permute) number_pairs(at, order);
            if (family == HLO_FAMILY_Collective) HLO_TRY(number_groups(at, order, scratch));
        }
    }
    return HLO_SUCCESS;
}
