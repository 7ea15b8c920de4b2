// SPDX-License-Identifier: Apache-2.0
// Custom calls that their author partitions (SpmdCustomPartitioner; in JAX, custom_partitioning).
//
// The author's functions are called twice. During propagation, unless there is a sharding rule: how are the results
// sharded if the operands are sharded in this way? When the call is partitioned: which shardings should operands and
// results have, and what is the program of one device for these? The operands are resharded, the program replaces the
// call, and its results have the author's shardings.
//
//     %y = f32[8,4] custom-call(%x), "CustomSPMDPartitioning"      %x is sharded by d (4 devices) along dimension 0
//     the author's program: f32[2,4] -> f32[2,4]                   its instructions are copied in place of %y
#include <assert.h>

#include "spmd_partitioner/boundary.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/emit.h"

const SpmdCustomPartitioner *spmd_author_of(const SpmdOptions *options, const HloInstruction *op) {
    const SpmdCustomPartitioner *author = options->custom_partitioner;
    return author && hlo_is(op, HLO_OP_CUSTOM_CALL) && author->knows(author->context, op) ? author : NULL;
}

// ---- shardings for the author, and back

// The sharding of one array of the plan as HLO has it.
static const HloSharding *written(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf) {
    const SpmdArray *array = spmd_plan_array(plan, op, leaf);
    return spmd_sharding_to_hlo(plan->arena, plan->mesh, array->sharding, NULL);
}

static const HloSharding *const *written_operands(const SpmdPlan *plan, const HloInstruction *op) {
    const HloSharding **shardings = HLO_ARENA_NEW(plan->arena, const HloSharding *, op->operand_count + 1);
    for (int32_t i = 0; i < op->operand_count; i++) shardings[i] = written(plan, op->operands[i], 0);
    return shardings;
}

static const HloSharding *written_result(const SpmdPlan *plan, const HloInstruction *op) {
    if (!hlo_shape_is_tuple(op->shape)) return written(plan, op, 0);
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    const HloSharding **elements = HLO_ARENA_NEW(plan->arena, const HloSharding *, leaves + 1);
    for (int64_t i = 0; i < leaves; i++) elements[i] = written(plan, op, i);
    HloSharding *tuple = HLO_ARENA_NEW(plan->arena, HloSharding, 1);
    *tuple = (HloSharding){.kind = HLO_SHARDING_TUPLE, .elements = elements, .element_count = leaves};
    return tuple;
}

// Reads the author's sharding of one array.
static HloStatus read_back(const SpmdPlan *plan, const HloSharding *said, const HloShape *shape, SpmdSharding **read) {
    SpmdAnnotation annotation;
    HLO_TRY(spmd_annotation_from_hlo(plan->arena, plan->mesh, said, shape->rank, &annotation));
    HLO_FAIL_IF(annotation.devices, HLO_UNIMPLEMENTED,
                "its custom partitioner requests a device order that is not the mesh's");
    *read = annotation.sharding;
    return HLO_SUCCESS;
}

// The author's sharding of leaf `leaf` of the results.
static HloStatus result_leaf(const HloInstruction *op, const HloSharding *said, int64_t leaf,
                             const HloSharding **sharding) {
    *sharding = said;
    if (said->kind != HLO_SHARDING_TUPLE) return HLO_SUCCESS;
    HLO_FAIL_IF(said->element_count != hlo_shape_leaf_count(op->shape), HLO_INVALID_ARGUMENT,
                "its custom partitioner returned %lld shardings for %lld results", (long long)said->element_count,
                (long long)hlo_shape_leaf_count(op->shape));
    *sharding = said->elements[leaf];
    return HLO_SUCCESS;
}

// ---- while shardings are propagated

HloStatus spmd_author_infer(const SpmdPlan *plan, const HloInstruction *op, SpmdSharding **results) {
    const SpmdCustomPartitioner *author = spmd_author_of(plan->options, op);
    const HloSharding *said = NULL;
    assert(author && results);
    HLO_TRY(author->infer(author->context, plan->arena, op, written_operands(plan, op), &said));
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < leaves; i++) {
        const HloSharding *sharding = NULL;
        results[i] = NULL;
        if (!said) continue;  // the author has no opinion
        HLO_TRY(result_leaf(op, said, i, &sharding));
        HLO_TRY(read_back(plan, sharding, hlo_shape_leaf(op->shape, i), &results[i]));
    }
    return HLO_SUCCESS;
}

// ---- when the call is partitioned

// Gives the channels of the author's program numbers that differ from ours.
static void renumber_channels(SpmdPartitioner *partitioner, HloModule *body) {
    const int64_t base = partitioner->next_channel - 1;
    partitioner->next_channel += hlo_module_next_channel(body) - 1;
    for (int64_t c = 0; c < body->computations.count; c++) {
        for (HloInstruction *at = body->computations.items[c]->first; at; at = at->next) {
            if (hlo_op_info(at->opcode)->family == HLO_FAMILY_Collective) {
                HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(at, Collective);
                if (attributes.channel_id > 0) attributes.channel_id += base;
                hlo_instruction_set_attributes(at, &attributes);
            } else if (hlo_op_info(at->opcode)->family == HLO_FAMILY_Permute) {
                HloPermuteAttributes attributes = *HLO_ATTRIBUTES(at, Permute);
                if (attributes.channel_id > 0) attributes.channel_id += base;
                hlo_instruction_set_attributes(at, &attributes);
            }
        }
    }
}

// Appends a copy of the author's program to the current computation; returns its root's copy.
static HloInstruction *inline_body(SpmdPartitioner *partitioner, const HloModule *body,
                                   HloInstruction *const *operands) {
    HloComputation *entry = hlo_computation_clone(partitioner->module, body->entry, "custom_partitioning");
    HloInstruction **copies =
        HLO_ARENA_NEW(partitioner->arena, HloInstruction *, partitioner->module->instruction_limit);
    for (const HloInstruction *at = entry->first; at; at = at->next) {
        if (hlo_is(at, HLO_OP_PARAMETER)) {
            copies[at->id] = operands[hlo_parameter_number(at)];
            continue;
        }
        HloInstruction **inputs = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, at->operand_count + 1);
        for (int32_t i = 0; i < at->operand_count; i++) inputs[i] = copies[at->operands[i]->id];
        HloInstruction *copy =
            hlo_instruction_clone(partitioner->scope->target, at, at->shape, inputs, at->operand_count);
        copy->sharding = NULL;
        if (!copy->metadata) copy->metadata = partitioner->metadata;
        copies[at->id] = copy;
    }
    HloInstruction *root = copies[entry->root->id];
    hlo_computation_remove(entry);
    return root;
}

// The program must be one of this call's shards.
static HloStatus check_body(const HloModule *body, HloInstruction *const *operands, int64_t count,
                            const HloShape *const *results, int64_t result_count) {
    const HloComputation *entry = body->entry;
    HLO_FAIL_IF(entry->parameters.count != count || hlo_shape_leaf_count(entry->root->shape) != result_count,
                HLO_INVALID_ARGUMENT, "its custom partitioner returned a program of %lld arguments and %lld results",
                (long long)entry->parameters.count, (long long)hlo_shape_leaf_count(entry->root->shape));
    bool fits = true;
    for (int64_t i = 0; i < count; i++)
        fits &= hlo_shape_equal(entry->parameters.items[i]->shape, operands[i]->shape, HLO_COMPARE_IGNORE_LAYOUT);
    for (int64_t i = 0; i < result_count; i++)
        fits &= hlo_shape_equal(hlo_shape_leaf(entry->root->shape, i), results[i], HLO_COMPARE_IGNORE_LAYOUT);
    HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT,
                "the shapes of its custom partitioner's program are not those of the shards that it requests");
    return HLO_SUCCESS;
}

// Reshards the operands as the author requires, and computes each device's part of the results.
static HloStatus bring_operands(SpmdPartitioner *partitioner, const HloInstruction *op,
                                const HloSharding *const *wanted, HloInstruction **operands) {
    for (int32_t i = 0; i < op->operand_count; i++) {
        SpmdSharding *sharding = NULL;
        HLO_TRY(read_back(partitioner->plan, wanted[i], op->operands[i]->shape, &sharding));
        operands[i] = spmd_operand_as(partitioner, i, sharding);
    }
    return HLO_SUCCESS;
}

static HloStatus replace_call(SpmdPartitioner *partitioner, const HloInstruction *op, const HloSharding *const *wanted,
                              const HloSharding *made, HloModule *body) {
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count + 1);
    HloInstruction **results = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, leaves + 1);
    SpmdSharding **shardings = HLO_ARENA_NEW(partitioner->arena, SpmdSharding *, leaves + 1);
    const HloShape **shapes = HLO_ARENA_NEW(partitioner->arena, const HloShape *, leaves + 1);
    for (int64_t i = 0; i < leaves; i++) {
        const HloSharding *sharding = NULL;
        const HloShape *global = hlo_shape_leaf(op->shape, i);
        HLO_TRY(result_leaf(op, made, i, &sharding));
        HLO_TRY(read_back(partitioner->plan, sharding, global, &shardings[i]));
        shapes[i] = spmd_local_shape(partitioner->arena, partitioner->mesh, global, shardings[i]);
    }
    HLO_TRY(bring_operands(partitioner, op, wanted, operands));
    HLO_TRY(check_body(body, operands, op->operand_count, shapes, leaves));
    renumber_channels(partitioner, body);
    spmd_emit_leaves(partitioner, inline_body(partitioner, body, operands), results);
    for (int64_t i = 0; i < leaves; i++) spmd_define(partitioner, i, results[i], shardings[i], 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}

HloStatus spmd_author_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const SpmdPlan *plan = partitioner->plan;
    const SpmdCustomPartitioner *author = spmd_author_of(plan->options, op);
    assert(author);
    HLO_FAIL_IF(spmd_manual_axes(partitioner, op), HLO_UNIMPLEMENTED,
                "a custom partitioner inside of a region that is manual over some axes of the mesh only");
    for (int32_t i = 0; i < op->operand_count; i++)
        HLO_FAIL_IF(!hlo_shape_is_array(op->operands[i]->shape), HLO_UNIMPLEMENTED,
                    "operand %d of a call with a custom partitioner is not an array", i);
    const HloSharding **wanted = HLO_ARENA_NEW(plan->arena, const HloSharding *, op->operand_count + 1);
    const HloSharding *const *now = written_operands(plan, op), *made = written_result(plan, op);
    for (int32_t i = 0; i < op->operand_count; i++) wanted[i] = now[i];
    HloModule *body = NULL;
    HLO_TRY(author->partition(author->context, plan->arena, op, wanted, &made, &body));
    HloStatus status = replace_call(partitioner, op, wanted, made, body);
    hlo_module_free(body);
    return status;
}
