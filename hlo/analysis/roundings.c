// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/roundings.h"

#include <assert.h>
#include <math.h>

#include "hlo/analysis/loop.h"
#include "hlo/ir/collective.h"

// More than matter: the tolerance has ceased to grow.
static const double kMostRoundings = 1e15;

double hlo_roundings_through(HloRoundings *roundings, const HloComputation *called) {
    const int64_t *known = hlo_int_map_find(&roundings->paths, (uint64_t)called->id);
    if (known) return (double)*known;
    HloArena *scratch = hlo_arena_scratch_new();
    double *depths = HLO_ARENA_NEW(scratch, double, called->module->instruction_limit + 1);
    const double path = hlo_roundings_fill(roundings, called, depths);
    hlo_arena_free(scratch);
    hlo_int_map_set(roundings->arena, &roundings->paths, (uint64_t)called->id, (int64_t)path);
    return path;
}

// Values that a machine has rounded.
static bool is_rounded(const HloInstruction *one) {
    return hlo_shape_is_array(one->shape) && hlo_type_is_float(hlo_type_real_part(one->shape->type));
}

// The devices that one sum over devices adds up.
static double summed_devices(const HloInstruction *one) {
    const HloModule *module = one->parent->module;
    const HloGroupMode mode = hlo_group_mode_of(one);
    const HloReplicaGroups *groups = HLO_ATTRIBUTES(one, Collective)->replica_groups;
    const int64_t written = groups ? hlo_replica_groups_size(groups) : 0;
    const double numbers =
        (double)(written ? written : hlo_group_mode_numbers(mode, module->replica_count, module->num_partitions));
    return mode == HLO_GROUPS_OF_REPLICAS_PARTITIONS ? numbers * (double)module->num_partitions : numbers;
}

// How many roundings an instruction adds to a path.
static double roundings_of(HloRoundings *roundings, const HloInstruction *one) {
    double most = 0;
    switch (one->opcode) {
        case HLO_OP_WHILE: {
            const int64_t trips = hlo_trip_count(one), bound = trips >= 0 ? trips : hlo_trip_bound(one);
            return hlo_roundings_through(roundings, one->called[1]) * (double)(bound >= 0 ? bound : 1);
        }
        case HLO_OP_CALL:
        case HLO_OP_FUSION:
        case HLO_OP_CONDITIONAL:
            for (int32_t i = 0; i < one->called_count; i++)
                most = fmax(most, hlo_roundings_through(roundings, one->called[i]));
            return most;
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START:
        case HLO_OP_REDUCE_SCATTER: return summed_devices(one);
        case HLO_OP_PARAMETER:
        case HLO_OP_CONSTANT:
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_BROADCAST:
        case HLO_OP_SLICE:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_CONCATENATE:
        case HLO_OP_GATHER:
        case HLO_OP_PAD:
        case HLO_OP_COPY:
        case HLO_OP_GET_TUPLE_ELEMENT: return 0;
        default: return is_rounded(one);
    }
}

double hlo_roundings_fill(HloRoundings *roundings, const HloComputation *computation, double *depths) {
    assert(roundings->arena);
    HloArena *scratch = hlo_arena_scratch_new();
    int64_t count;
    HloInstruction **order = hlo_computation_post_order(computation, scratch, &count);
    for (int64_t i = 0; i < count; i++) {
        double before = 0;
        for (int32_t k = 0; k < order[i]->operand_count; k++) before = fmax(before, depths[order[i]->operands[k]->id]);
        depths[order[i]->id] = fmin(before + roundings_of(roundings, order[i]), kMostRoundings);
    }
    hlo_arena_free(scratch);
    return depths[computation->root->id];
}
