// SPDX-License-Identifier: Apache-2.0
// Ops without operands: constants, iotas, parameters and device numbers. An array that any device can make for nothing
// has no local form of its own until one is requested (the source in SpmdLocal). The functions here handle annotated
// ones, tuples, and parameters, whose pieces the caller gives as planned.
#include <assert.h>

#include "spmd_partitioner/emit.h"

// A tuple is made whole, and each device takes its part of the sharded arrays.
static HloStatus tuple_constant_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_shape_is_tuple(op->shape));
    const int64_t count = hlo_shape_leaf_count(op->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    spmd_emit_leaves(partitioner, spmd_clone(partitioner, op, op->shape, NULL, 0), leaves);
    for (int64_t i = 0; i < count; i++) {
        const SpmdSharding *planned = spmd_planned(partitioner, i);
        SpmdSharding *whole = spmd_sharding_new(partitioner->arena, leaves[i]->shape->rank, planned->manual);
        SpmdLocal local = {.hlo = leaves[i], .global = leaves[i]->shape, .sharding = whole};
        local = spmd_reshard(partitioner, local, planned, 0, (SpmdReason){.op = op, .what = "result"});
        spmd_define_as(partitioner, i, &local);
    }
    return HLO_SUCCESS;
}

// Scalars are copied; annotated arrays are made in the annotated sharding. Most constants and iotas are free and never
// reach this function.
static HloStatus leaf_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    if (hlo_shape_is_tuple(op->shape)) return tuple_constant_partition(partitioner, op);
    SpmdLocal local = {.global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    if (hlo_shape_is_array(op->shape) && op->shape->rank > 0) {
        local.source = op;
        local = spmd_reshard(partitioner, local, local.sharding, 0, (SpmdReason){.op = op, .what = "result"});
        local.source = op;  // users that need another form have it made
    } else {
        local.hlo = spmd_clone(partitioner, op, op->shape, NULL, 0);
    }
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_constant = {.name = "constant", .partition = leaf_partition};
const SpmdOp spmd_op_iota = {.name = "iota", .partition = leaf_partition};

const HloShape *spmd_local_tree(SpmdPartitioner *partitioner, const HloInstruction *op, const HloShape *shape,
                                int64_t *leaf) {
    HloArena *arena = partitioner->module->arena;
    if (!hlo_shape_is_tuple(shape)) {
        const SpmdSharding *sharding = spmd_plan_array(partitioner->plan, op, (*leaf)++)->sharding;
        if (!hlo_shape_is_array(shape)) return hlo_shape_copy(arena, shape);
        return hlo_shape_copy(arena, spmd_local_shape(arena, partitioner->mesh, shape, sharding));
    }
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) {
        elements[i] = spmd_local_tree(partitioner, op, shape->elements[i], leaf);
    }
    return hlo_shape_tuple(arena, elements, shape->element_count);
}

// Unreduced parameters arrive as partial sums. A foreign device order is corrected at the entry; inside, every array is
// in the mesh's order.
static HloStatus parameter_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_PARAMETER));
    int64_t leaf = 0, count = hlo_shape_leaf_count(op->shape);
    const HloShape *shape = spmd_local_tree(partitioner, op, op->shape, &leaf);
    HloInstruction *made = spmd_clone(partitioner, op, shape, NULL, 0);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int64_t i = 0; i < count; i++) {
        const SpmdArray *array = spmd_plan_array(partitioner->plan, op, i);
        SpmdLocal local = {.hlo = leaves[i], .global = hlo_shape_leaf(op->shape, i), .sharding = array->sharding};
        if (array->sharding->unreduced) {
            local.partial = array->sharding->unreduced;
            local.reduction = HLO_OP_ADD;
        }
        if (array->devices && op->parent == partitioner->plan->module->entry) {
            SpmdReason reason = {.op = op, .what = "device order"};
            local.hlo = spmd_emit_from_foreign(partitioner, local.hlo, array, reason);
        }
        spmd_define_as(partitioner, i, &local);
    }
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_parameter = {.name = "parameter", .partition = parameter_partition};

// True if some array of the computation is inside a manual region: there each device speaks for itself.
static bool in_manual_region(const SpmdPlan *plan, const HloComputation *computation) {
    for (const HloInstruction *at = computation->first; at; at = at->next) {
        if (hlo_shape_is_array(at->shape) && spmd_plan_array(plan, at, 0)->sharding->manual) return true;
    }
    return false;
}

static HloStatus device_id_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HLO_FAIL_IF(hlo_is(op, HLO_OP_PARTITION_ID) && partitioner->mesh->device_count > 1 &&
                    !in_manual_region(partitioner->plan, op->parent),
                HLO_UNIMPLEMENTED,
                "partition-id outside of a manual region has no meaning for a program of all devices; is this the "
                "program of one device already?");
    SpmdLocal local = {.global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    local.hlo = spmd_clone(partitioner, op, op->shape, NULL, 0);
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_device_id = {.name = "device-id", .partition = device_id_partition};
