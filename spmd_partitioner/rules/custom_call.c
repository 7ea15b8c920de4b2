// SPDX-License-Identifier: Apache-2.0
// Custom calls that the partitioner understands (spmd_partitioner/custom_call.h), and the collectives of manual
// regions.
//
// By kind (column `kind` of hlo/ir/custom_calls.def): annotations only reshard their operand; inspections report its
// sharding to the user; elementwise ones and decompositions of batches of matrices are sharded along the dimensions
// that they work on one by one; top-k along all but its own; region boundaries change how a local array is seen, and
// move only what does not fit. Everything else is computed whole on every device, or refused where it would have a side
// effect there.
//
// A collective in the source program is one among the region's own devices. It is kept as it is, and only dimensions
// that it does not work on may be sharded by the axes that the region leaves to the partitioner.
#include "spmd_partitioner/custom_call.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/collective.h"
#include "hlo/ir/custom_call.h"

#include "hlo/stablehlo/import/shardy.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/sharding_rule.h"

// The first `dims` dimensions of all tensors are the same, but for `along` (-1: none), which is needed whole.
static void same_dims(SpmdRule *rule, int32_t dims, int64_t along) {
    const HloShape *result = rule->tensors[spmd_rule_result(rule, 0)].shape;
    for (int32_t d = 0; d < dims; d++) {
        if (d == along) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, result->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
            if (rule->tensors[t].shape->rank > d) spmd_rule_map(rule, t, d, factor);
        }
    }
}

// Decompositions of batches of matrices. The right-hand sides of a triangular solve are independent of each other too:
// columns, or rows where the triangle is on the right.
static void batched_rule(SpmdRule *rule, const HloInstruction *op) {
    const int32_t rank = rule->operand_count ? rule->tensors[0].shape->rank : 0, result = spmd_rule_result(rule, 0);
    same_dims(rule, rank - 2, -1);
    if (hlo_custom_call_routine(op) != HLO_CALL_ROUTINE_trsm || rule->operand_count != 2 || rank < 2 ||
        rule->tensors[1].shape->rank != rank || rule->tensors[result].shape->rank != rank)
        return;
    const int32_t side = rank - (hlo_custom_call_option(op, "side", 'L') == 'L' ? 1 : 2);
    const int32_t factor = spmd_rule_factor(rule, SPMD_PASS, rule->tensors[result].shape->dims[side]);
    spmd_rule_map(rule, 1, side, factor);
    spmd_rule_map(rule, result, side, factor);
}

// The rule that the user gives to a call which is not known here. Sums are what Shardy takes reductions for.
static void users_rule(SpmdRule *rule, const char *text) {
    rule->unreadable = !spmd_sharding_rule_read(rule, text);
    for (int64_t f = 0; f < rule->factors.count; f++)
        if (rule->factors.items[f].kind == SPMD_REDUCE) rule->reduction = HLO_OP_ADD;
}

// Without factors all dimensions are needed whole.
static void custom_call_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_CUSTOM_CALL));
    const char *given = hlo_instruction_frontend_attribute(op, HLO_SDY_SHARDING_RULE);
    if (given && hlo_custom_call_kind(op) == HLO_CALL_UNKNOWN) {
        users_rule(rule, given);
        return;
    }
    if (!rule->result_count) {
        if (hlo_custom_call_kind(op) == HLO_CALL_SINK && rule->operand_count == 1)
            for (int32_t d = 0; d < rule->tensors[0].shape->rank; d++)
                spmd_rule_map(rule, 0, d, spmd_rule_factor(rule, SPMD_PASS, rule->tensors[0].shape->dims[d]));
        return;
    }
    int32_t rank = rule->tensors[spmd_rule_result(rule, 0)].shape->rank;
    switch (hlo_custom_call_kind(op)) {
        case HLO_CALL_SHARDING:
        case HLO_CALL_IDENTITY:
        case HLO_CALL_INSPECT:
        case HLO_CALL_ELEMENTWISE: same_dims(rule, rank, -1); return;
        case HLO_CALL_TOPK: same_dims(rule, rank, hlo_custom_call_top_k_dimension(op)); return;
        case HLO_CALL_BATCHED: batched_rule(rule, op); return;
        case HLO_CALL_SINK:
        case HLO_CALL_FULL_TO_SHARD:
        case HLO_CALL_SHARD_TO_FULL:
        case HLO_CALL_UNKNOWN: return;
    }
}

// Layout constraints name the operands' shapes: the local ones now.
static void custom_call_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                               const HloShape *result) {
    HloCustomCallAttributes *call = attributes;
    (void)result;
    if (!call->operand_layouts.count) return;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, call->operand_layouts.count);
    for (int64_t i = 0; i < call->operand_layouts.count; i++) {
        const HloShape *written = call->operand_layouts.items[i];
        shapes[i] = i < rule->operand_count ? hlo_shape_with_layout(arena, operands[i], written->layout) : written;
    }
    call->operand_layouts.items = shapes;
}
// The local array keeps the layout that the program requests; a caller's choice of a result's layout follows it.
static void keep_layout(SpmdPartitioner *partitioner, const HloInstruction *op, SpmdLocal *local) {
    assert(local->hlo && op->operand_count == 1); /* spmd_reshard() has made an array of every free one */
    HloArena *arena = partitioner->module->arena;
    const HloShape *shape = hlo_shape_with_layout(arena, local->hlo->shape, hlo_shape_copy(arena, op->shape)->layout);
    HloInstruction *clone = spmd_clone(partitioner, op, shape, &local->hlo, 1);
    HloCustomCallAttributes attributes = *HLO_ATTRIBUTES(clone, CustomCall);
    custom_call_adjust(&(SpmdRule){.operand_count = 1}, arena, &attributes, &local->hlo->shape, shape);
    hlo_instruction_set_attributes(clone, &attributes);
    local->hlo = clone;
}

// The call itself is removed, but for a LayoutConstraint: its work is the reshard.
static HloStatus identity_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HLO_FAIL_IF(op->operand_count != 1 || !hlo_shape_is_array(op->shape), HLO_UNIMPLEMENTED,
                "custom-call %s of several arrays cannot be partitioned", HLO_ATTRIBUTES(op, CustomCall)->target);
    SpmdLocal local = spmd_operand(partitioner, 0);
    SpmdReason reason = {.op = op, .what = "annotated array"};
    const bool annotated = spmd_plan_array(partitioner->plan, op, 0)->annotated;
    const SpmdAtomSet keep = annotated || !local.hlo ? 0 : spmd_passed_sums(partitioner, op);
    local = spmd_reshard(partitioner, local, spmd_planned(partitioner, 0), keep, reason);
    if (strcmp(HLO_ATTRIBUTES(op, CustomCall)->target, "LayoutConstraint") == 0) keep_layout(partitioner, op, &local);
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}

// The sharding inside of a manual region: the one outside without the manual axes.
static SpmdSharding *inside_of(SpmdPartitioner *partitioner, const SpmdSharding *outside, SpmdAtomSet manual) {
    SpmdSharding *inside = spmd_sharding_new(partitioner->arena, outside->rank, outside->manual | manual);
    inside->unreduced = outside->unreduced & ~manual;
    for (int32_t d = 0; d < outside->rank; d++) {
        for (int32_t i = 0; i < outside->dims[d].count; i++) {
            if (!(manual >> outside->dims[d].items[i] & 1)) spmd_axes_push(&inside->dims[d], outside->dims[d].items[i]);
        }
    }
    return inside;
}

// Entering and leaving a manual region moves nothing: the same local array is seen with other axes.
static HloStatus manual_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    for (int32_t i = 0; i < op->operand_count; i++) {
        SpmdManualBoundary boundary;
        HLO_TRY(spmd_manual_boundary(partitioner->plan, op, i, &boundary));
        SpmdSharding *outside = spmd_manual_boundary_outside(partitioner->plan, op, i, &boundary);
        SpmdSharding *inside = inside_of(partitioner, outside, boundary.manual);
        SpmdReason reason = {.op = op, .what = spmd_operand_name(partitioner, i)};
        SpmdLocal local = spmd_operand(partitioner, i);
        local = spmd_reshard(partitioner, local, boundary.entering ? outside : inside, 0, reason);
        spmd_define(partitioner, i, local.hlo, boundary.entering ? inside : outside, 0, HLO_OPCODE_COUNT);
    }
    return HLO_SUCCESS;
}

// Reports to the user here, when shardings are final.
static HloStatus inspect_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HLO_FAIL_IF(op->operand_count != 1 || !hlo_shape_is_array(op->operands[0]->shape), HLO_INVALID_ARGUMENT,
                "custom-call InspectSharding takes one array");
    const SpmdLocal local = spmd_operand(partitioner, 0);
    const SpmdOptions *options = partitioner->plan->options;
    if (options->inspect) {
        const SpmdArray *array = spmd_plan_array(partitioner->plan, op->operands[0], 0);
        HLO_TRY(options->inspect(
            options->inspect_context, op,
            spmd_sharding_to_hlo(partitioner->arena, partitioner->mesh, local.sharding, array->devices)));
    }
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}

// Partitions a call to an unknown target, such as a kernel of Pallas. Inside a region that is manual over the whole
// mesh it is local to one device. Elsewhere every device makes the whole call, as in XLA: its rule has no factors, so
// the operands are gathered, with the call as the reason. A side effect would then happen on all devices.
static HloStatus opaque_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const SpmdAtomSet manual = spmd_manual_axes(partitioner, op), all = spmd_mesh_all(partitioner->mesh);
    const char *target = HLO_ATTRIBUTES(op, CustomCall)->target;
    if (spmd_author_of(partitioner->plan->options, op)) return spmd_author_partition(partitioner, op);
    HLO_FAIL_IF((manual & all) != all && hlo_instruction_has_side_effect(op), HLO_UNIMPLEMENTED,
                "custom-call target \"%s\" has a side effect and no partition rule: it would occur on every device",
                target ? target : "");
    return spmd_partition_default(partitioner, op);
}

// One way for each kind of call in hlo/ir/custom_calls.def.
static HloStatus custom_call_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_CUSTOM_CALL));
    HloCustomCallKind kind = hlo_custom_call_kind(op);
    switch (kind) {
        case HLO_CALL_SHARDING:
        case HLO_CALL_IDENTITY: return identity_partition(partitioner, op);
        case HLO_CALL_INSPECT: return inspect_partition(partitioner, op);
        case HLO_CALL_FULL_TO_SHARD:
        case HLO_CALL_SHARD_TO_FULL: return manual_partition(partitioner, op);
        case HLO_CALL_SINK:
        case HLO_CALL_ELEMENTWISE:
        case HLO_CALL_BATCHED:
        case HLO_CALL_TOPK: return spmd_partition_default(partitioner, op);
        case HLO_CALL_UNKNOWN: return opaque_partition(partitioner, op);
    }
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_custom_call = {.name = "custom-call",
                                    .rule = custom_call_rule,
                                    .partition = custom_call_partition,
                                    .adjust = custom_call_adjust,
                                    .is_certain = true};

// ---- collectives of the program itself ----

// Maps dimension d of a collective's operand `index` and of its result to `factor`.
static void map_exchanged(SpmdRule *rule, int32_t index, int32_t result, int32_t d, int32_t factor) {
    spmd_rule_map(rule, index, d, factor);
    spmd_rule_map(rule, spmd_rule_result(rule, result), d, factor);
}

// Rows are ragged; the other dimensions of the input and of the array that it is written to are alike.
static void ragged_all_to_all_rule(SpmdRule *rule) {
    const HloShape *input = rule->tensors[0].shape, *output = rule->tensors[1].shape;
    if (input->rank != output->rank) return;
    for (int32_t d = 1; d < output->rank; d++) {
        if (input->dims[d] != output->dims[d]) continue;
        const int32_t factor = spmd_rule_factor(rule, SPMD_PASS, output->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        map_exchanged(rule, 1, 0, d, factor);
    }
}

// Operands of an all-to-all that become one another's results are sharded alike.
static void operands_alike_rule(SpmdRule *rule) {
    const HloShape *shape = rule->tensors[0].shape;
    for (int32_t d = 0; d < shape->rank; d++) {
        const int32_t factor = spmd_rule_factor(rule, SPMD_PASS, shape->dims[d]);
        for (int32_t i = 0; i < rule->operand_count; i++) map_exchanged(rule, i, i, d, factor);
    }
}

// Automatic axes may shard its operands along dimensions that the collective does not work on: every device of a group
// has the same part then. A permute in place copies slices at positions of the whole array.
static void collective_rule(SpmdRule *rule, const HloInstruction *op) {
    const bool permutes = hlo_op_info(op->opcode)->family == HLO_FAMILY_Permute;
    if (permutes && HLO_ATTRIBUTES(op, Permute)->slice_sizes.count) return;
    const HloInts busy = permutes ? (HloInts){NULL, 0} : HLO_ATTRIBUTES(op, Collective)->dimensions;
    if (hlo_is(op, HLO_OP_RAGGED_ALL_TO_ALL)) {
        ragged_all_to_all_rule(rule);
        return;
    }
    if (hlo_is(op, HLO_OP_ALL_TO_ALL) && !busy.count) {
        operands_alike_rule(rule);
        return;
    }
    for (int32_t i = 0; i < rule->result_count && i < rule->operand_count; i++) {
        const HloShape *shape = rule->tensors[spmd_rule_result(rule, i)].shape;
        if (shape->rank != rule->tensors[i].shape->rank) continue;
        for (int32_t d = 0; d < shape->rank; d++)
            if (!hlo_ints_contain(busy, d))
                map_exchanged(rule, i, i, d, spmd_rule_factor(rule, SPMD_PASS, shape->dims[d]));
    }
}

// True if the user says anywhere how an array is laid out.
static bool is_annotated(const SpmdPlan *plan) {
    for (int64_t i = 0; i < plan->arrays.count; i++)
        if (plan->arrays.items[i].annotated) return true;
    return false;
}

// As XLA: outside of manual regions each part of an array is exchanged for itself by permutes between devices and
// summed for itself over replicas. For other collectives every device brings the whole array. A sum over devices is
// then one of equal arrays: a program without any sharding that has one is more likely that of one device.
static HloStatus collective_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const bool has_meaning = spmd_manual_axes(partitioner, op) || spmd_is_across_replicas(op);
    const bool sums = hlo_is(op, HLO_OP_ALL_REDUCE), permutes = hlo_is(op, HLO_OP_COLLECTIVE_PERMUTE);
    const bool across_devices = hlo_group_mode_of(op) != HLO_GROUPS_OF_REPLICAS;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    if (!rule || has_meaning || partitioner->mesh->device_count == 1 || (sums && !across_devices) ||
        (permutes && across_devices))
        return spmd_partition_default(partitioner, op);
    HLO_FAIL_IF(sums && !is_annotated(partitioner->plan), HLO_UNIMPLEMENTED,
                "%s outside of a manual region has no meaning for a program of all devices; is this the program of one "
                "device already?",
                hlo_op_text(op->opcode));
    const SpmdAxes *none = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++) operands[i] = spmd_factor_operand(partitioner, rule, none, i).hlo;
    return spmd_emit_by_factors(partitioner, rule, none, operands);
}
const SpmdOp spmd_op_collective = {.name = "collective", .rule = collective_rule, .partition = collective_partition};
