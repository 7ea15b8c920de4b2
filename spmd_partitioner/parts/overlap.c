// SPDX-License-Identifier: Apache-2.0
// Sums of neighbours, moving averages and convolutions by hand take slices of one array that overlap. Each slice needs
// elements of other devices, where its shards do not begin with the array's; together they need hardly more than the
// one that reaches furthest:
//
//     p = f32[512] of 8 devices, 64 elements each; nine slices of 504, 63 elements each, from 0, 1, … 8 on
//     device i needs [63 i, 63 i + 63) of the first, [63 i + 8, 63 i + 71) of the last, [63 i, 63 i + 71) of all
//     one by one: 47 elements in 16 permutes; together: 8 elements in one
//
// What all of them need is one window (spmd_emit_window()), of which each is a slice that every device takes for
// itself; with strides (wavelets, sums of every second element) they have the same ones. Along two sharded dimensions
// the second window is taken from the first one's result, so that corners come with it.
#include <assert.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/parts/composed.h"
#include "spmd_partitioner/parts/siblings.h"
#include "spmd_partitioner/parts/split.h"

// Slices of one array and of one shape, the first of which is being partitioned.
typedef struct Group {
    HLO_VECTOR(const HloInstruction *) slices;
    const SpmdSharding *sharding;  // of the array and of all of them
    int64_t *least, *largest;      // where slices begin, by dimension
} Group;

// Where a slice is in what its group has exchanged.
typedef struct Part {
    HloInstruction *array;  // NULL: they were not exchanged together
    const int64_t *least;
    const SpmdSharding *sharding;
} Part;

static const Part *part_of(const SpmdPartitioner *partitioner, const HloInstruction *at) {
    const int64_t *found = hlo_int_map_find(&partitioner->scope->overlaps, (uint64_t)at->id + 1);
    return found ? (const Part *)(intptr_t)*found : NULL;
}

// Elements from the first to the last of a shard of the slice.
static int64_t reach(const HloInstruction *at, int32_t dim, int64_t shard) {
    return (shard - 1) * spmd_slice_stride(at, dim) + 1;
}

// Whether a slice takes a part of a dimension that is sharded.
static bool is_windowed(const Group *group, const HloInstruction *at, int32_t dim) {
    return group->sharding->dims[dim].count && at->shape->dims[dim] != at->operands[0]->shape->dims[dim];
}

static int64_t positions_along(const SpmdPartitioner *partitioner, const Group *group, int32_t dim) {
    return spmd_axes_product(partitioner->mesh, &group->sharding->dims[dim]);
}

// The elements of the array between the beginnings of two shards of the current op.
static int64_t shard_along(const SpmdPartitioner *partitioner, const Group *group, int32_t dim) {
    const HloInstruction *op = partitioner->op;
    return spmd_shard_size(op->shape->dims[dim], positions_along(partitioner, group, dim)) * spmd_slice_stride(op, dim);
}

// Whether a slice is of the shape of the current op, another one of the same array, and begins less than a shard away.
static bool is_near(const SpmdPartitioner *partitioner, const Group *group, const HloInstruction *at) {
    const HloInstruction *op = partitioner->op;
    const bool needed = at->users.count || hlo_instruction_is_root(at);
    if (at == op || !hlo_is(at, HLO_OP_SLICE) || !needed || part_of(partitioner, at)) return false;
    if (partitioner->locals[partitioner->plan->first_leaf[at->id]]) return false;  // it was partitioned before
    if (!hlo_shape_equal(at->shape, op->shape, HLO_COMPARE_DIMS_ONLY)) return false;
    if (!spmd_sharding_equal(spmd_plan_array(partitioner->plan, at, 0)->sharding, group->sharding)) return false;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (spmd_slice_stride(at, d) != spmd_slice_stride(op, d)) return false;
        if (!is_windowed(group, op, d)) continue;
        const int64_t shard = shard_along(partitioner, group, d);
        const int64_t distance =
            HLO_ATTRIBUTES(at, Slice)->starts.items[d] - HLO_ATTRIBUTES(op, Slice)->starts.items[d];
        if (distance >= shard || -distance >= shard) return false;
    }
    return true;
}

static void add(HloArena *arena, Group *group, const HloInstruction *at) {
    const int64_t *starts = HLO_ATTRIBUTES(at, Slice)->starts.items;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (!group->slices.count || starts[d] < group->least[d]) group->least[d] = starts[d];
        if (!group->slices.count || starts[d] > group->largest[d]) group->largest[d] = starts[d];
    }
    hlo_vector_push(arena, &group->slices, at);
}

// The slices that may be exchanged with the current op, which is the first.
static Group collect(SpmdPartitioner *partitioner) {
    const HloInstruction *op = partitioner->op;
    HloArena *arena = partitioner->arena;
    Group group = {.sharding = spmd_planned(partitioner, 0),
                   .least = HLO_ARENA_NEW(arena, int64_t, op->shape->rank),
                   .largest = HLO_ARENA_NEW(arena, int64_t, op->shape->rank)};
    add(arena, &group, op);
    int32_t dim = 0;
    while (dim < op->shape->rank && !is_windowed(&group, op, dim)) dim++;
    if (dim == op->shape->rank || group.sharding->unreduced) return group;
    const SpmdSibling *siblings;
    const int64_t count = spmd_near_siblings(partitioner, op, dim, shard_along(partitioner, &group, dim), &siblings);
    for (int64_t i = 0; i < count; i++)
        if (is_near(partitioner, &group, siblings[i].slice)) add(arena, &group, siblings[i].slice);
    return group;
}

// What all slices of the group need along a dimension.
static SpmdInterval hull(const SpmdPartitioner *partitioner, const Group *group, int32_t dim) {
    const int64_t size = spmd_shard_size(partitioner->op->shape->dims[dim], positions_along(partitioner, group, dim));
    const int64_t length = reach(partitioner->op, dim, size) + group->largest[dim] - group->least[dim];
    return spmd_interval(size * spmd_slice_stride(partitioner->op, dim), group->least[dim], 1, length);
}

// The windows of the array that theirs is put together of (composed.h); NULL if it is not.
static const SpmdComposed *plan_composed(SpmdPartitioner *partitioner, const Group *group) {
    const HloInstruction *array = partitioner->op->operands[0];
    SpmdInterval *intervals = HLO_ARENA_NEW(partitioner->arena, SpmdInterval, array->shape->rank);
    for (int32_t d = 0; d < array->shape->rank; d++) {
        const int64_t positions = positions_along(partitioner, group, d);
        intervals[d] = is_windowed(group, partitioner->op, d)
                           ? hull(partitioner, group, d)
                           : spmd_own_interval(spmd_shard_size(array->shape->dims[d], positions));
    }
    return spmd_composed_plan(partitioner, array, group->slices.count, group->sharding, intervals);
}

// What the windows cost, with the array in the sharding that they begin with. The second one is as long as the first
// has made the array.
static int64_t cost_directly(SpmdPartitioner *partitioner, const Group *group) {
    const HloInstruction *op = partitioner->op;
    const HloShape *global = op->operands[0]->shape;
    const SpmdLocal local = spmd_operand(partitioner, 0);
    int64_t cost = spmd_form_cost(partitioner, &local, group->sharding);
    for (int32_t d = 0; d < global->rank; d++) {
        if (!is_windowed(group, op, d)) continue;
        const SpmdInterval interval = hull(partitioner, group, d);
        cost = spmd_add_bytes(cost, spmd_window_bytes(partitioner, global, group->sharding, d, interval));
        global = spmd_resized(partitioner, global, d,
                              spmd_times_bytes(interval.size, positions_along(partitioner, group, d)));
    }
    return cost;
}

// Takes the windows of the array itself.
static HloInstruction *take_directly(SpmdPartitioner *partitioner, const Group *group, const SpmdReason *reason) {
    const HloInstruction *op = partitioner->op;
    SpmdLocal local = spmd_reshard(partitioner, spmd_operand(partitioner, 0), group->sharding, 0, *reason);
    for (int32_t d = 0; d < op->shape->rank; d++)
        if (is_windowed(group, op, d))
            local.hlo = spmd_emit_window(partitioner, local, d, &group->sharding->dims[d], hull(partitioner, group, d),
                                         NULL, reason);
    return local.hlo;
}

// Notes for each slice of a group where it is in what was exchanged (NULL: nothing was): they are not looked at
// together again.
static const Part *note(SpmdPartitioner *partitioner, const Group *group, HloInstruction *array) {
    Part *part = HLO_ARENA_NEW(partitioner->arena, Part, 1);
    *part = (Part){array, group->least, group->sharding};
    for (int64_t i = 0; i < group->slices.count; i++)
        hlo_int_map_set(partitioner->arena, &partitioner->scope->overlaps, (uint64_t)group->slices.items[i]->id + 1,
                        (intptr_t)part);
    return part;
}

// Exchanges a group once, from what its array is put together of or from that itself, where that costs less than slice
// by slice. NULL, with nothing noted, where `composed` ones alone are wanted and this is none.
static const Part *exchange(SpmdPartitioner *partitioner, const SpmdAxes *factors, bool composed) {
    const Group group = collect(partitioner);
    const SpmdComposed *plan = group.slices.count > 1 ? plan_composed(partitioner, &group) : NULL;
    if (!plan && composed) return NULL;
    if (group.slices.count == 1) return note(partitioner, &group, NULL);
    const SpmdReason reason = {.op = partitioner->op, .what = "neighbours' elements for several slices"};
    int64_t least = spmd_slices_cost(partitioner, group.slices.items, group.slices.count, group.sharding, factors);
    const int64_t direct = cost_directly(partitioner, &group);
    const bool together = direct < least;
    if (together) least = direct;
    if (plan && spmd_composed_cost(plan) <= spmd_add_bytes(least, spmd_composed_saving(plan)))
        return note(partitioner, &group, spmd_emit_composed(partitioner, plan, NULL, NULL, &reason));
    if (composed) return NULL;
    return note(partitioner, &group, together ? take_directly(partitioner, &group, &reason) : NULL);
}

// `composed`: only where the slices' array is put together of another one, and taken from that.
static bool overlap(SpmdPartitioner *partitioner, const SpmdAxes *factors, bool composed) {
    const HloInstruction *op = partitioner->op;
    const HloShape *shape = op->shape;
    const Part *part = part_of(partitioner, op);
    if (!part) {
        if (hlo_shape_elements(shape) == 0 || hlo_shape_is_dynamic(op->operands[0]->shape)) return false;
        part = exchange(partitioner, factors, composed);
    }
    if (!part || !part->array) return false;
    HloInstruction *made = part->array;
    const int64_t *starts = HLO_ATTRIBUTES(op, Slice)->starts.items;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] == op->operands[0]->shape->dims[d]) continue;
        const bool sharded = part->sharding->dims[d].count > 0;
        const int64_t start = sharded ? starts[d] - part->least[d] : starts[d];
        const int64_t size =
            spmd_shard_size(shape->dims[d], spmd_axes_product(partitioner->mesh, &part->sharding->dims[d]));
        made = spmd_emit_slice(partitioner, made, d, start, start + reach(op, d, size), spmd_slice_stride(op, d));
    }
    spmd_define(partitioner, 0, made, part->sharding, 0, HLO_OPCODE_COUNT);
    return true;
}

bool spmd_overlap(SpmdPartitioner *partitioner, const SpmdAxes *factors) {
    return overlap(partitioner, factors, false);
}

bool spmd_overlap_composed(SpmdPartitioner *partitioner, const SpmdAxes *factors) {
    return overlap(partitioner, factors, true);
}
