// SPDX-License-Identifier: Apache-2.0
// Manual regions (shard_map) have no brackets in HLO: two custom calls mark their boundary, and everything between is
// manual because its operands are. Here the manual axes are propagated to everything inside, and a boundary's declared
// sharding is split into its manual prefix, which the region removes, and the rest, which the partitioner still owns.
//
//     %o = f32[8,16] ...                                   outside: [{x,y}, {}]
//     %i = f32[4,16] custom-call(%o), "SPMDFullToShardShape"   manual over x (size 2)
//     ...                                                  inside:  [{y}, {}], manual {x}
//     %r = f32[8,16] custom-call(%j), "SPMDShardToFullShape"
// The manual axes must come first in a dimension: a manual part is sharded further, never the other way round.
//
// Marking runs to a fixpoint, since loops bring results back as operands: forward along data (mark_instruction), and
// backward to values that no operand ties to a region but that differ from device to device, as collectives of
// constants do (mark_inward). Each pass adds an axis somewhere, so it terminates.
#include "spmd_partitioner/custom_call.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/collective.h"
#include "spmd_partitioner/sdy.h"

// GSPMD's barriers say it by their targets: nothing comes from the operand of ShardBarrierFrom, and nothing goes to
// that of ShardBarrierTo. For Shardy's, xla.sdy.allowed_direction is a number of Shardy's enumeration, perhaps with its
// type ("2 : i64"), or its word.
SpmdDirections spmd_call_directions(const HloInstruction *op) {
    static const char *const words[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};
    if (!hlo_is(op, HLO_OP_CUSTOM_CALL)) return SPMD_BOTH_WAYS;
    const char *target = HLO_ATTRIBUTES(op, CustomCall)->target;
    if (strcmp(target, "ShardBarrierFrom") == 0) return SPMD_BACKWARD;
    if (strcmp(target, "ShardBarrierTo") == 0) return SPMD_FORWARD;
    const char *said = hlo_instruction_frontend_attribute(op, "xla.sdy.allowed_direction");
    if (!said) return SPMD_BOTH_WAYS;
    for (int i = 0; i < 4; i++) {
        if (said[0] == '0' + i || strncmp(said, words[i], strlen(words[i])) == 0) return (SpmdDirections)i;
    }
    return SPMD_BOTH_WAYS;
}

// A short name for spmd_plan_array().
static const SpmdArray *array_of(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf) {
    return spmd_plan_array(plan, op, leaf);
}

// The axes that a call names itself, or those of the annotation with them. The annotation of a call that leaves a
// region is about what it leaves for: axes that it names are those of a region around, which stay manual.
static SpmdAtomSet named_manual(const SpmdPlan *plan, const HloInstruction *op) {
    const SpmdShardyText *text = spmd_shardy_text(plan->shardy, op);
    const HloSharding *sharding = text && text->manual_axes ? text->manual_axes : NULL;
    if (!sharding && hlo_custom_call_kind(op) == HLO_CALL_SHARD_TO_FULL) return 0;
    const int64_t rank = sharding ? 0 : op->shape->rank;
    if (!sharding) sharding = op->sharding;
    SpmdAnnotation annotation;
    if (!sharding || sharding->kind == HLO_SHARDING_TUPLE) return 0;
    // spmd_manual_boundary() reports one that cannot be read.
    HloStatus status = spmd_annotation_from_hlo(plan->arena, plan->mesh, sharding, rank, &annotation);
    hlo_status_free(status);
    return status ? 0 : annotation.sharding->manual;
}

// Adds axes to an array; true if that was news.
// `op` may share the array with others, which then are marked too: that is how tuples and loops
// pass axes on.
static bool mark(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf, SpmdAtomSet axes) {
    SpmdSharding *sharding = array_of(plan, op, leaf)->sharding;
    bool news = (axes & ~sharding->manual) != 0;
    sharding->manual |= axes;
    return news;
}

// Code inside a manual region is code whose operands come from it. Manual axes propagate along data, since HLO has no
// brackets around a region.
static SpmdAtomSet manual_of_operands(const SpmdPlan *plan, const HloInstruction *op) {
    SpmdAtomSet axes = 0;
    for (int32_t i = 0; i < op->operand_count; i++) {
        int64_t leaves = hlo_shape_leaf_count(op->operands[i]->shape);
        for (int64_t k = 0; k < leaves; k++) axes |= array_of(plan, op->operands[i], k)->sharding->manual;
    }
    return axes;
}

// Marks every leaf of a value; true if that changed one of them.
static bool mark_all(const SpmdPlan *plan, const HloInstruction *op, SpmdAtomSet axes) {
    bool news = false;
    int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < leaves; i++) news |= mark(plan, op, i, axes);
    return news;
}

// Tuples pass each element's axes on by sharing arrays; everything else takes those of all its operands.
static bool mark_instruction(const SpmdPlan *plan, const HloInstruction *op) {
    bool news = false;
    SpmdAtomSet axes = manual_of_operands(plan, op);
    if (hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD) return mark_all(plan, op, axes | named_manual(plan, op));
    if (hlo_custom_call_kind(op) == HLO_CALL_SHARD_TO_FULL) return false;
    if (hlo_is(op, HLO_OP_TUPLE) || hlo_is(op, HLO_OP_GET_TUPLE_ELEMENT)) return false;
    if (!axes) return false;
    if (spmd_is_flow_op(op->opcode)) {
        for (int32_t c = 0; c < op->called_count; c++) {
            for (int64_t p = 0; p < op->called[c]->parameters.count; p++) {
                news |= mark_all(plan, op->called[c]->parameters.items[p], axes);
            }
        }
    }
    return mark_all(plan, op, axes) || news;
}

// ---- values without operands from the region
//
// A collective of a constant, or a value computed from the device's number, is in a region too, although nothing that
// enters the region reaches it. Its users determine the region: such values have no meaning outside, so unlike
// constants they are never shared with it, and they have the axes of all their users.

typedef struct Inward {
    const SpmdPlan *plan;
    bool *tells_devices_apart;  // by instruction id: may differ from device to device
    SpmdAtomSet *wanted;        // by instruction id: the manual axes of those that use it
} Inward;

bool spmd_is_across_replicas(const HloInstruction *op) {
    const HloFamily family = hlo_op_info(op->opcode)->family;
    return op->parent->module->replica_count > 1 && (family == HLO_FAMILY_Collective || family == HLO_FAMILY_Permute) &&
           hlo_group_mode_of(op) == HLO_GROUPS_OF_REPLICAS;
}

bool spmd_names_devices(const HloInstruction *op) {
    if (hlo_is(op, HLO_OP_SEND) || hlo_is(op, HLO_OP_RECV)) return !HLO_ATTRIBUTES(op, Transfer)->is_host_transfer;
    return hlo_is(op, HLO_OP_PARTITION_ID) ||
           (hlo_op_is(op->opcode, HLO_OP_IS_COLLECTIVE) && !spmd_is_across_replicas(op));
}

// Whether a value may differ from device to device: the op names devices itself, depends on one that does, or calls a
// computation that contains one. Leaving a region makes a value whole again.
static bool tells_devices_apart(const Inward *inward, const HloInstruction *op) {
    if (hlo_custom_call_kind(op) == HLO_CALL_SHARD_TO_FULL) return false;
    if (spmd_names_devices(op)) return true;
    for (int32_t i = 0; i < op->operand_count; i++)
        if (inward->tells_devices_apart[op->operands[i]->id]) return true;
    for (int32_t c = 0; spmd_is_flow_op(op->opcode) && c < op->called_count; c++) {
        for (const HloInstruction *at = op->called[c]->first; at; at = at->next)
            if (inward->tells_devices_apart[at->id]) return true;
    }
    return false;
}

// All manual axes that some leaf of a value has.
static SpmdAtomSet manual_of_leaves(const SpmdPlan *plan, const HloInstruction *op) {
    SpmdAtomSet axes = 0;
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t k = 0; k < leaves; k++) axes |= array_of(plan, op, k)->sharding->manual;
    return axes;
}

// The axes that are manual where `user` takes its operands.
static SpmdAtomSet manual_before(const Inward *inward, const HloInstruction *user) {
    const SpmdAtomSet after = manual_of_leaves(inward->plan, user);
    switch (hlo_custom_call_kind(user)) {
        case HLO_CALL_FULL_TO_SHARD: return after & ~named_manual(inward->plan, user);
        case HLO_CALL_SHARD_TO_FULL: return after | named_manual(inward->plan, user);
        default: break;
    }
    // The elements of a tuple may belong to different regions.
    const bool bundles = hlo_is(user, HLO_OP_TUPLE) || hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT);
    return inward->wanted[user->id] | (bundles ? 0 : after);
}

// From the last user to the first, callers before what they call.
static bool mark_inward(const Inward *inward) {
    const SpmdPlan *plan = inward->plan;
    bool news = false;
    for (int64_t c = plan->computation_count - 1; c >= 0; c--) {
        for (HloInstruction *at = plan->computations[c]->last; at; at = at->previous) {
            SpmdAtomSet *wanted = &inward->wanted[at->id];
            for (int64_t u = 0; u < at->users.count; u++) *wanted |= manual_before(inward, at->users.items[u]);
            for (int32_t k = 0; spmd_is_flow_op(at->opcode) && k < at->called_count; k++)
                inward->wanted[at->called[k]->root->id] |= *wanted | manual_of_leaves(plan, at);
            const bool bundles = hlo_is(at, HLO_OP_TUPLE) || hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT);
            if (*wanted && inward->tells_devices_apart[at->id] && !bundles) news |= mark_all(plan, at, *wanted);
        }
    }
    return news;
}

// Goes in program order, callees first: the operands of an op are known by then.
static Inward inward_new(const SpmdPlan *plan) {
    const int64_t limit = plan->module->instruction_limit;
    Inward inward = {.plan = plan,
                     .tells_devices_apart = HLO_ARENA_NEW(plan->arena, bool, limit),
                     .wanted = HLO_ARENA_NEW(plan->arena, SpmdAtomSet, limit)};
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (const HloInstruction *at = plan->computations[c]->first; at; at = at->next)
            inward.tells_devices_apart[at->id] = tells_devices_apart(&inward, at);
    }
    return inward;
}

// Repeats until nothing changes: axes flow through loops, whose results come back as their operands.
void spmd_plan_manual(SpmdPlan *plan) {
    bool any = false;
    for (int64_t c = 0; c < plan->computation_count; c++) {
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            // Nothing enters a region of constants alone.
            any |= hlo_custom_call_is_region_boundary(at);
        }
    }
    if (!any) return;
    const Inward inward = inward_new(plan);
    while (any) {
        any = mark_inward(&inward);
        for (int64_t c = plan->computation_count - 1; c >= 0; c--) {
            for (HloInstruction *at = plan->computations[c]->first; at; at = at->next)
                any |= mark_instruction(plan, at);
        }
    }
}

// The sharding at the boundary that the call's own attribute or the annotations of operand and result give. *written is
// true if it comes from the call's own attribute; else `annotation` is what the plan knows so far.
static HloStatus declared(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf, int64_t rank,
                          SpmdAnnotation *annotation, bool *written) {
    assert(leaf >= 0 && rank >= 0);
    bool entering = hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD;
    const SpmdShardyText *text = spmd_shardy_text(plan->shardy, op);
    *written = text && text->boundaries;
    if (text && text->manual_axes) {
        SpmdAnnotation axes;
        HLO_TRY(spmd_annotation_from_hlo(plan->arena, plan->mesh, text->manual_axes, 0, &axes));
    }
    if (*written) {
        HLO_TRY(spmd_annotation_from_hlo(plan->arena, plan->mesh, text->boundaries[leaf].sharding, rank, annotation));
        HLO_FAIL_IF(annotation->devices, HLO_UNIMPLEMENTED,
                    "a manual region whose mesh has a device order that the program's mesh cannot hold");
        return HLO_SUCCESS;
    }
    const SpmdArray *array = entering ? array_of(plan, op->operands[leaf], 0) : array_of(plan, op, leaf);
    *annotation = (SpmdAnnotation){.sharding = array->sharding, .open = array->open};
    return HLO_SUCCESS;
}

// The manual axes at the head of each dimension outside, checked against the sizes inside.
static HloStatus boundary_prefix(const SpmdPlan *plan, const HloInstruction *op, const HloShape *inside,
                                 const HloShape *outside, const SpmdSharding *said, SpmdAtomSet manual,
                                 SpmdAxes *prefix) {
    assert(inside->rank == outside->rank);
    for (int32_t dim = 0; dim < outside->rank; dim++) {
        const SpmdAxes *axes = &said->dims[dim];
        int32_t count = 0;
        while (count < axes->count && (manual >> axes->items[count] & 1)) count++;
        SpmdAxes tail = spmd_axes_tail(axes, count);
        prefix[dim] = spmd_axes_head(axes, count);
        int64_t parts = spmd_axes_product(plan->mesh, &prefix[dim]);
        HLO_FAIL_IF(spmd_axes_set(&tail) & manual, HLO_UNIMPLEMENTED,
                    "instruction %%%s: manual axes come after other axes in dimension %d", op->name, dim);
        HLO_FAIL_IF(inside->dims[dim] * parts != outside->dims[dim], HLO_INVALID_ARGUMENT,
                    "instruction %%%s: dimension %d is %lld inside and %lld outside of a manual region of %lld shards",
                    op->name, dim, (long long)inside->dims[dim], (long long)outside->dims[dim], (long long)parts);
    }
    return HLO_SUCCESS;
}

// Inside and outside differ in size by the manual axes alone. A program whose sizes differ otherwise is refused here,
// before anything is sharded by them.
HloStatus spmd_manual_boundary(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf,
                               SpmdManualBoundary *boundary) {
    assert(leaf >= 0 && boundary);
    boundary->entering = hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD;
    HLO_FAIL_IF(leaf >= op->operand_count || hlo_shape_leaf_count(op->shape) != op->operand_count, HLO_INVALID_ARGUMENT,
                "instruction %%%s: operands and results of a manual region do not pair up", op->name);
    const HloShape *inside = boundary->entering ? hlo_shape_leaf(op->shape, leaf) : op->operands[leaf]->shape;
    const HloShape *outside = boundary->entering ? op->operands[leaf]->shape : hlo_shape_leaf(op->shape, leaf);
    HLO_FAIL_IF(!hlo_shape_is_array(inside) || !hlo_shape_is_array(outside) || inside->rank != outside->rank,
                HLO_INVALID_ARGUMENT, "instruction %%%s: rank changes at a manual region", op->name);
    boundary->manual = named_manual(plan, op);
    if (!boundary->entering && !boundary->manual) {
        boundary->manual =
            array_of(plan, op->operands[leaf], 0)->sharding->manual & ~array_of(plan, op, leaf)->sharding->manual;
    }
    SpmdAnnotation said;
    bool written = false;
    HloStatus status = declared(plan, op, leaf, outside->rank, &said, &written);
    if (status) return hlo_status_annotate(status, "instruction %%%s", op->name);
    boundary->unreduced = said.sharding->unreduced;
    boundary->prefix = HLO_ARENA_NEW(plan->arena, SpmdAxes, outside->rank);
    HLO_TRY(boundary_prefix(plan, op, inside, outside, said.sharding, boundary->manual, boundary->prefix));
    if (!boundary->entering && written) {
        SpmdArray *array = &plan->arrays.items[plan->array_of_leaf[plan->first_leaf[op->id] + leaf]];
        if (array->annotated) return HLO_SUCCESS;
        memcpy(array->sharding->dims, said.sharding->dims, (size_t)outside->rank * sizeof(SpmdAxes));
        array->sharding->unreduced = said.sharding->unreduced;
        for (int32_t i = 0; i < outside->rank; i++) array->open[i] = said.open && said.open[i];
        array->annotated = true;
    }
    return HLO_SUCCESS;
}

SpmdSharding *spmd_manual_boundary_outside(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf,
                                           const SpmdManualBoundary *boundary) {
    const HloInstruction *inner = boundary->entering ? op : op->operands[leaf];
    const SpmdArray *inside = array_of(plan, inner, boundary->entering ? leaf : 0);
    SpmdSharding *outside =
        spmd_sharding_new(plan->arena, inside->sharding->rank, inside->sharding->manual & ~boundary->manual);
    outside->unreduced = boundary->unreduced;
    for (int32_t dim = 0; dim < outside->rank; dim++) {
        outside->dims[dim] = boundary->prefix[dim];
        // A part that the free axes do not divide starts elsewhere than a shard of the whole would.
        if (inside->shape->dims[dim] % spmd_axes_product(plan->mesh, &inside->sharding->dims[dim])) continue;
        spmd_axes_append(&outside->dims[dim], &inside->sharding->dims[dim]);
    }
    return outside;
}
