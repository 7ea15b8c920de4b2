// SPDX-License-Identifier: Apache-2.0
// Ops that pass arrays on: tuples, calls, loops, branches, barriers. They have no factors; the plan has edges instead.
//
// Values that cross a boundary (of a call, loop or branch) arrive in the sharding that the plan gives to the other
// side, and leave in the one that the other side made. A loop's carry has one sharding in all iterations.
//
//     %w = (s32[], f32[8,16]) while(%init), body=%b     carry 1 planned [{x}, {}]
//     the leaves of %init are resharded to the plan before the loop, the root of %b at its end;
//     the loop's own leaves are get-tuple-elements of the new while, defined in that form
// Each computation is written for the form in which its result is wanted, once for equal forms
// (spmd_partition_computation). Every while and call is split into its leaves as soon as it is written, which
// passes/hoist.c relies on.
#include <assert.h>

#include "spmd_partitioner/emit.h"

// Leaf `leaf` of `source` in the sharding of `array`.
static HloInstruction *leaf_as(SpmdPartitioner *partitioner, const HloInstruction *source, int64_t leaf,
                               const SpmdArray *array, const char *what) {
    SpmdReason reason = {.op = partitioner->op, .what = what};
    return spmd_reshard(partitioner, *spmd_local(partitioner, source, leaf), array->sharding, 0, reason).hlo;
}

// All of `source`, each leaf as the leaf of `like` is planned, as one value.
static HloInstruction *tree_as(SpmdPartitioner *partitioner, const HloInstruction *source, const HloInstruction *like,
                               const char *what) {
    int64_t count = hlo_shape_leaf_count(source->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) {
        const char *name = hlo_arena_format(partitioner->arena, "%s %lld", what, (long long)i);
        leaves[i] = leaf_as(partitioner, source, i, spmd_plan_array(partitioner->plan, like, i), name);
    }
    return spmd_emit_tree(partitioner, source->shape, leaves);
}

// The planned arrays of an instruction's leaves.
static const SpmdArray **planned_arrays(SpmdPartitioner *partitioner, const HloInstruction *op) {
    int64_t count = hlo_shape_leaf_count(op->shape);
    const SpmdArray **arrays = HLO_ARENA_NEW(partitioner->arena, const SpmdArray *, count);
    for (int64_t i = 0; i < count; i++) arrays[i] = spmd_plan_array(partitioner->plan, op, i);
    return arrays;
}

// The leaves of the new instruction are the current op's results, sharded as `like` is planned.
static void define_leaves(SpmdPartitioner *partitioner, HloInstruction *made, const HloInstruction *like) {
    const HloInstruction *op = partitioner->op;
    int64_t count = hlo_shape_leaf_count(op->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int64_t i = 0; i < count; i++) {
        spmd_define(partitioner, i, leaves[i], spmd_plan_array(partitioner->plan, like, i)->sharding, 0,
                    HLO_OPCODE_COUNT);
    }
}

// Makes no instruction: a user that needs the tuple builds it from its leaves. Only an annotated tuple reshards them.
static HloStatus tuple_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_TUPLE));
    int64_t leaf = 0;
    for (int32_t i = 0; i < op->operand_count; i++) {
        int64_t count = hlo_shape_leaf_count(op->operands[i]->shape);
        for (int64_t k = 0; k < count; k++, leaf++) {
            SpmdLocal local = *spmd_local(partitioner, op->operands[i], k);
            if (op->sharding) {
                SpmdReason reason = {.op = op, .what = "element"};
                local = spmd_reshard(partitioner, local, spmd_planned(partitioner, leaf), 0, reason);
            }
            spmd_define_as(partitioner, leaf, &local);
        }
    }
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_tuple = {.name = "tuple", .partition = tuple_partition};

// The inverse: leaves of the operand become the op's own.
static HloStatus get_tuple_element_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_GET_TUPLE_ELEMENT));
    int64_t offset = spmd_leaf_offset(op->operands[0]->shape, HLO_ATTRIBUTES(op, TupleIndex)->index);
    int64_t count = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < count; i++) {
        SpmdLocal local = *spmd_local(partitioner, op->operands[0], offset + i);
        if (op->sharding) {
            SpmdReason reason = {.op = op, .what = "element"};
            local = spmd_reshard(partitioner, local, spmd_planned(partitioner, i), 0, reason);
        }
        spmd_define_as(partitioner, i, &local);
    }
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_get_tuple_element = {.name = "get-tuple-element", .partition = get_tuple_element_partition};

// A flow op of the new module.
static HloInstruction *emit_flow(SpmdPartitioner *partitioner, HloOpcode opcode, const HloShape *shape,
                                 HloInstruction *const *operands, int64_t operand_count, HloComputation *const *called,
                                 int64_t called_count) {
    HloInstruction *made = spmd_emit(partitioner, opcode, shape, operands, operand_count, NULL);
    hlo_instruction_set_called(made, called, called_count);
    hlo_instruction_set_name(made, partitioner->op->name);
    return made;
}

// Fusions become calls: what they computed locally may communicate now.
static HloStatus call_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(op->called_count == 1);
    const HloComputation *body = op->called[0];
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++) {
        operands[i] = tree_as(partitioner, op->operands[i], body->parameters.items[i], "call argument");
    }
    HloComputation *made;
    HLO_TRY(spmd_partition_computation(partitioner, body, planned_arrays(partitioner, body->root), &made));
    HloInstruction *call =
        emit_flow(partitioner, HLO_OP_CALL, made->root->shape, operands, op->operand_count, &made, 1);
    define_leaves(partitioner, call, body->root);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_call = {.name = "call", .partition = call_partition};

// The condition is partitioned too: every device decides for itself, from the same values.
static HloStatus while_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_WHILE));
    HloInstruction *init = tree_as(partitioner, op->operands[0], op, "initial loop value");
    HloComputation *called[2];
    const HloComputation *condition = op->called[0], *body = op->called[1];
    HLO_TRY(
        spmd_partition_computation(partitioner, condition, planned_arrays(partitioner, condition->root), &called[0]));
    HLO_TRY(spmd_partition_computation(partitioner, body, planned_arrays(partitioner, op), &called[1]));
    HloInstruction *loop = emit_flow(partitioner, HLO_OP_WHILE, init->shape, &init, 1, called, 2);
    define_leaves(partitioner, loop, op);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_while = {.name = "while", .partition = while_partition};

// All branches give their results in the planned shardings of the op, so that they have one shape. The predicate is the
// same on all devices that share a collective inside.
static HloStatus conditional_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_CONDITIONAL));
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    HloComputation **called = HLO_ARENA_NEW(partitioner->arena, HloComputation *, op->called_count);
    operands[0] = spmd_operand_whole(partitioner, 0);
    for (int32_t i = 0; i < op->called_count; i++) {
        operands[i + 1] =
            tree_as(partitioner, op->operands[i + 1], op->called[i]->parameters.items[0], "branch argument");
        HLO_TRY(spmd_partition_computation(partitioner, op->called[i], planned_arrays(partitioner, op), &called[i]));
    }
    HloInstruction *made = emit_flow(partitioner, HLO_OP_CONDITIONAL, called[0]->root->shape, operands,
                                     op->operand_count, called, op->called_count);
    define_leaves(partitioner, made, op);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_conditional = {.name = "conditional", .partition = conditional_partition};

// Barriers keep their meaning. Domains mark boundaries that no longer exist, and a copy or bitcast of a tuple does not
// constrain its arrays.
HloStatus spmd_partition_data_flow(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloInstruction *value = tree_as(partitioner, op->operands[0], op, "element");
    if (hlo_is(op, HLO_OP_OPTIMIZATION_BARRIER)) value = spmd_clone(partitioner, op, value->shape, &value, 1);
    define_leaves(partitioner, value, op);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_data_flow = {.name = "data-flow", .partition = spmd_partition_data_flow};

// Tokens order side effects and have nothing to shard.
static HloStatus token_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t i = 0; i < op->operand_count; i++) operands[i] = spmd_local(partitioner, op->operands[i], 0)->hlo;
    SpmdLocal local = {.global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    local.hlo = spmd_clone(partitioner, op, op->shape, operands, op->operand_count);
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_token = {.name = "token", .partition = token_partition};

// add-dependency: the token only orders.
static HloStatus first_operand_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    HloInstruction *operands[2] = {tree_as(partitioner, op->operands[0], op, "operand"),
                                   spmd_local(partitioner, op->operands[1], 0)->hlo};
    define_leaves(partitioner, spmd_clone(partitioner, op, operands[0]->shape, operands, 2), op);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_first_operand = {.name = "add-dependency", .partition = first_operand_partition};
