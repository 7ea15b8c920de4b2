// SPDX-License-Identifier: Apache-2.0
// A layer that computes queries, keys and values by one product splits the result along its sharded dimension. Each of
// the three moves nearly everything that is left of it, and in each most devices neither send nor receive:
//
//     y = f32[24] of 4 devices, 6 elements each; q, k and v of 8, 2 elements each
//     q   0: [0,2)   1: [2,4)   2: [4,6)   3: [6,8)       all from device 0, but for the last
//     k, v   from devices 1 and 2, and 2 and 3
//     together: device i needs three ranges of 2 elements, and sends three at most: three permutes of 2 elements
//
// A permute sends as much as its longest move, however few devices take part, so that moves of all slices in the same
// rounds (moves.h) send less than one set of rounds for each.
#include "spmd_partitioner/parts/split.h"

#include <assert.h>

#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"
#include "spmd_partitioner/parts/siblings.h"

enum { MOST_SLICES = 32 };

// Slices of one array, the first of which is being partitioned.
typedef struct Group {
    const HloInstruction *slices[MOST_SLICES];
    int64_t count, along;
    const SpmdSharding *sharding;  // of the array and of all of them
    SpmdMoves *moves;
    int64_t size;  // of the array that a device receives
} Group;

// Where a slice is in what its group has exchanged.
typedef struct Part {
    HloInstruction *array;
    int64_t start, along;
    const SpmdSharding *sharding;
} Part;

// The one dimension that a slice cuts, without a stride; -1 for other slices.
static int64_t cut_dim(const HloInstruction *at) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(at, Slice);
    for (int64_t d = 0; d < slice->strides.count; d++)
        if (slice->strides.items[d] != 1) return -1;
    return spmd_sliced_dim(at->shape, at->operands[0]->shape);
}

static int64_t start_of(const HloInstruction *at, int64_t along) {
    return HLO_ATTRIBUTES(at, Slice)->starts.items[along];
}

// Whether a slice takes nothing that one of the group takes.
static bool is_apart(const Group *group, const HloInstruction *at) {
    const int64_t start = start_of(at, group->along), end = start + at->shape->dims[group->along];
    for (int64_t i = 0; i < group->count; i++) {
        const int64_t other = start_of(group->slices[i], group->along);
        if (start < other + group->slices[i]->shape->dims[group->along] && other < end) return false;
    }
    return true;
}

// Where a slice is in what has been exchanged; NULL if it is in nothing.
static const Part *part_of(const SpmdPartitioner *partitioner, const HloInstruction *at) {
    const int64_t *found = hlo_int_map_find(&partitioner->scope->splits, (uint64_t)at->id + 1);
    return found ? (const Part *)(intptr_t)*found : NULL;
}

// Whether a slice was exchanged before, alone or with others.
static bool is_exchanged(const SpmdPartitioner *partitioner, const HloInstruction *at) {
    return part_of(partitioner, at) || partitioner->locals[partitioner->plan->first_leaf[at->id]];
}

// The slices of the current op's operand that take different parts of it and were not exchanged before, this one first.
static Group collect(SpmdPartitioner *partitioner) {
    const HloInstruction *op = partitioner->op, *array = op->operands[0];
    Group group = {.slices = {op}, .count = 1, .along = cut_dim(op), .sharding = spmd_planned(partitioner, 0)};
    if (group.along < 0 || !group.sharding->dims[group.along].count || group.sharding->unreduced) return group;
    const int64_t first = spmd_first_open_sibling(partitioner, array);
    for (int64_t i = first; i < array->users.count && group.count < MOST_SLICES; i++) {
        const HloInstruction *user = array->users.items[i];
        const bool needed = user->users.count || hlo_instruction_is_root(user);
        if (user != op && hlo_is(user, HLO_OP_SLICE) && needed && cut_dim(user) == group.along &&
            hlo_shape_elements(user->shape) > 0 && !is_exchanged(partitioner, user) && is_apart(&group, user) &&
            spmd_sharding_equal(spmd_plan_array(partitioner->plan, user, 0)->sharding, group.sharding))
            group.slices[group.count++] = user;
    }
    return group;
}

static int64_t positions_of(const SpmdPartitioner *partitioner, const Group *group) {
    return spmd_axes_product(partitioner->mesh, &group->sharding->dims[group->along]);
}

// Plans what every position needs of all slices, one after the other. False if that cannot be planned.
static bool plan_moves(SpmdPartitioner *partitioner, Group *group) {
    const int64_t positions = positions_of(partitioner, group), along = group->along;
    const int64_t global = partitioner->op->operands[0]->shape->dims[along];
    const SpmdShardedDim sharded = {.global = global, .shard = spmd_shard_size(global, positions)};
    group->moves = spmd_moves_new(partitioner->arena, positions);
    for (int64_t i = 0; i < group->count; i++) {
        const int64_t start = start_of(group->slices[i], along), length = group->slices[i]->shape->dims[along];
        const int64_t shard = spmd_shard_size(length, positions);
        for (int64_t to = 0; to * shard < length; to++) {
            const int64_t first = to * shard, size = length - first < shard ? length - first : shard;
            spmd_moves_add(partitioner->arena, group->moves, &sharded, to, start + first, size, group->size);
        }
        group->size += shard;
    }
    return spmd_moves_plan(partitioner->arena, group->moves);
}

// What the exchange costs, with the array in the sharding that it begins with.
static int64_t cost_together(SpmdPartitioner *partitioner, const Group *group) {
    const HloShape *global = partitioner->op->operands[0]->shape;
    const SpmdLocal local = spmd_operand(partitioner, 0);
    const int64_t shard = spmd_shard_size(global->dims[group->along], positions_of(partitioner, group));
    const int64_t row = spmd_local_bytes(partitioner->mesh, global, group->sharding) / shard;
    const int64_t rounds = group->moves->rounds - group->moves->own_rounds;
    const int64_t sent = spmd_permutes_cost(partitioner->plan->costs, &group->sharding->dims[group->along],
                                            spmd_times_bytes(row, group->moves->sent), rounds, false);
    return spmd_add_bytes(sent, spmd_form_cost(partitioner, &local, group->sharding));
}

// If the first one has its dimension whole, so have the others, of the same array.
int64_t spmd_slices_cost(SpmdPartitioner *partitioner, const HloInstruction *const *slices, int64_t count,
                         const SpmdSharding *sharding, const SpmdAxes *factors) {
    assert(count > 0 && slices[0] == partitioner->op);
    const SpmdOp *row = spmd_op(HLO_OP_SLICE);
    const SpmdRule *rule = partitioner->plan->rules[slices[0]->id];
    const int64_t moved = row->moved(partitioner, rule, factors);
    int64_t cost = spmd_add_bytes(moved, spmd_factors_cost(partitioner, rule, factors));
    for (int64_t i = 1; moved && i < count; i++) {
        const SpmdRule *other = partitioner->plan->rules[slices[i]->id];
        SpmdAxes *axes = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, other->factors.count);
        spmd_rule_project(other, partitioner->mesh, spmd_rule_result(other, 0), sharding, axes);
        cost = spmd_add_bytes(cost, row->moved(partitioner, other, axes));
    }
    return cost;
}

// Exchanges what the slices need, and notes for each where it is in that.
static void emit(SpmdPartitioner *partitioner, const Group *group) {
    const SpmdReason reason = {.op = partitioner->op, .what = "parts of several slices"};
    const SpmdLocal local = spmd_reshard(partitioner, spmd_operand(partitioner, 0), group->sharding, 0, reason);
    const SpmdAxes *axes = &group->sharding->dims[group->along];
    HloInstruction *array =
        spmd_emit_moves(partitioner, local.hlo, group->along, axes, group->moves, group->size, &reason);
    int64_t start = 0;
    for (int64_t i = 0; i < group->count; i++) {
        Part *part = HLO_ARENA_NEW(partitioner->arena, Part, 1);
        *part = (Part){array, start, group->along, group->sharding};
        hlo_int_map_set(partitioner->arena, &partitioner->scope->splits, (uint64_t)group->slices[i]->id + 1,
                        (intptr_t)part);
        start += spmd_shard_size(group->slices[i]->shape->dims[group->along], group->moves->positions);
    }
}

bool spmd_split(SpmdPartitioner *partitioner, const SpmdAxes *factors) {
    const HloInstruction *op = partitioner->op;
    const Part *part = part_of(partitioner, op);
    if (!part) {
        if (hlo_shape_elements(op->shape) == 0 || hlo_shape_is_dynamic(op->operands[0]->shape)) return false;
        Group group = collect(partitioner);
        if (group.count < 2 || !plan_moves(partitioner, &group) ||
            cost_together(partitioner, &group) >=
                spmd_slices_cost(partitioner, group.slices, group.count, group.sharding, factors))
            return false;
        emit(partitioner, &group);
        part = part_of(partitioner, op);
        assert(part);
    }
    const SpmdAxes *axes = &part->sharding->dims[part->along];
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes);
    const int64_t size = spmd_shard_size(op->shape->dims[part->along], shards);
    HloInstruction *made = spmd_emit_slice(partitioner, part->array, part->along, part->start, part->start + size, 1);
    spmd_define(partitioner, 0, made, part->sharding, 0, HLO_OPCODE_COUNT);
    return true;
}
