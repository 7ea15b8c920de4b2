// SPDX-License-Identifier: Apache-2.0
// Collects Shardy's annotations, which survive in HLO as text in frontend attributes.
#include "spmd_partitioner/sdy.h"

#include <assert.h>
#include <string.h>

#include "spmd_partitioner/custom_call.h"

typedef struct Collector {
    HloArena *arena;
    const HloModule *module;
    HloSdyMeshes meshes;
    HloStringMap read;  // text -> HloSdyShardings: most arrays of a program are annotated alike
    SpmdShardy *shardy;
} Collector;

const SpmdShardyText *spmd_shardy_text(const SpmdShardy *shardy, const HloInstruction *op) {
    const int64_t *found = hlo_int_map_find(&shardy->texts, (uintptr_t)op);
    return found ? (const SpmdShardyText *)(uintptr_t)*found : NULL;
}

const HloSharding *spmd_shardy_sharding(const SpmdShardy *shardy, const HloInstruction *op) {
    const SpmdShardyText *text = spmd_shardy_text(shardy, op);
    return text && text->sharding ? text->sharding : op->sharding;
}

static const char *module_attribute(const HloModule *module, const char *key) {
    for (int64_t i = 0; i < module->frontend_attributes.count; i++)
        if (!strcmp(module->frontend_attributes.items[i].key, key)) return module->frontend_attributes.items[i].value;
    return NULL;
}

static HloStatus read_shardings(Collector *collector, const char *text, const HloSdyShardings **shardings) {
    const size_t length = strlen(text);
    *shardings = hlo_string_map_get(&collector->read, text, length);
    if (*shardings) return HLO_SUCCESS;
    HloSdyShardings *read = HLO_ARENA_NEW(collector->arena, HloSdyShardings, 1);
    HLO_TRY(hlo_sdy_shardings(collector->arena, &collector->meshes, text, read));
    hlo_string_map_set(collector->arena, &collector->read, text, length, read);
    *shardings = read;
    return HLO_SUCCESS;
}

// A transfer is one value or two in StableHLO, which Shardy's lists count, and three in HLO.
static bool is_transfer(const HloInstruction *op) {
    switch (op->opcode) {
        case HLO_OP_SEND:
        case HLO_OP_SEND_DONE:
        case HLO_OP_RECV:
        case HLO_OP_RECV_DONE: return true;
        default: return false;
    }
}

static HloStatus check_leaf(const HloShape *leaf, const HloSdySharding *sharding) {
    return hlo_sdy_check_rank(sharding->sharding, hlo_shape_is_array(leaf) ? leaf->rank : 0);
}

// Gives the instruction the shardings of its leaves, `count` of them.
static HloStatus set_leaves(Collector *collector, const HloInstruction *op, const HloSdySharding *items, int64_t count,
                            SpmdShardyText *text) {
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    // An op without results may be annotated as on all devices or on one.
    if (is_transfer(op) || (leaves == 0 && count == 1)) return HLO_SUCCESS;
    HLO_FAIL_IF(count != leaves, HLO_INVALID_ARGUMENT, "there are %lld shardings for %lld arrays", (long long)count,
                (long long)leaves);
    if (leaves == 0) return HLO_SUCCESS;
    const HloSharding **elements = HLO_ARENA_NEW(collector->arena, const HloSharding *, leaves);
    for (int64_t i = 0; i < leaves; i++) {
        HLO_TRY(check_leaf(hlo_shape_leaf(op->shape, i), &items[i]));
        elements[i] = items[i].sharding;
    }
    text->leaves = items;
    text->sharding =
        hlo_shape_is_tuple(op->shape) ? hlo_sharding_tuple(collector->arena, elements, leaves) : elements[0];
    return HLO_SUCCESS;
}

static HloStatus read_sharding(Collector *collector, const HloInstruction *op, SpmdShardyText *text) {
    const char *written = hlo_instruction_frontend_attribute(op, HLO_SDY_SHARDING);
    const HloSdyShardings *shardings;
    if (!written) return HLO_SUCCESS;
    HloStatus status = read_shardings(collector, written, &shardings);
    if (!status) status = set_leaves(collector, op, shardings->items, shardings->count, text);
    return hlo_status_annotate(status, HLO_SDY_SHARDING);
}

// The shardings outside of a manual region, one for each value that enters or leaves it.
static HloStatus read_boundary_list(Collector *collector, const HloInstruction *op, const char *written,
                                    SpmdShardyText *text) {
    const bool entering = hlo_custom_call_kind(op) == HLO_CALL_FULL_TO_SHARD;
    const int64_t values = entering ? op->operand_count : hlo_shape_leaf_count(op->shape);
    const HloSdyShardings *shardings;
    HLO_TRY(read_shardings(collector, written, &shardings));
    HLO_FAIL_IF(shardings->count != values, HLO_INVALID_ARGUMENT, "there are %lld shardings for %lld arrays",
                (long long)shardings->count, (long long)values);
    for (int64_t i = 0; i < values; i++)
        HLO_TRY(check_leaf(entering ? op->operands[i]->shape : hlo_shape_leaf(op->shape, i), &shardings->items[i]));
    if (values) text->boundaries = shardings->items;
    return HLO_SUCCESS;
}

static HloStatus read_boundary(Collector *collector, const HloInstruction *op, SpmdShardyText *text) {
    const HloCustomCallKind kind = hlo_custom_call_kind(op);
    if (kind != HLO_CALL_FULL_TO_SHARD && kind != HLO_CALL_SHARD_TO_FULL) return HLO_SUCCESS;
    const char *key = kind == HLO_CALL_FULL_TO_SHARD ? HLO_SDY_IN_SHARDINGS : HLO_SDY_OUT_SHARDINGS;
    const char *written = hlo_instruction_frontend_attribute(op, key),
               *axes = hlo_instruction_frontend_attribute(op, HLO_SDY_MANUAL_AXES);
    if (written) HLO_TRY(hlo_status_annotate(read_boundary_list(collector, op, written, text), "%s", key));
    if (!axes) return HLO_SUCCESS;
    const HloMesh *mesh = NULL;
    const int64_t values = kind == HLO_CALL_FULL_TO_SHARD ? op->operand_count : hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; text->boundaries && i < values && !mesh; i++) {
        const HloMesh *one = &text->boundaries[i].sharding->named->mesh;
        if (one->axis_sizes.count) mesh = one;
    }
    return hlo_status_annotate(
        hlo_sdy_manual_axes(collector->arena, &collector->meshes, mesh, axes, &text->manual_axes), HLO_SDY_MANUAL_AXES);
}

static HloStatus read_instruction(Collector *collector, const HloInstruction *op) {
    if (!op->frontend_attributes.count) return HLO_SUCCESS;
    SpmdShardyText text = {0};
    const char *rule = hlo_instruction_frontend_attribute(op, HLO_SDY_SHARDING_RULE);
    if (rule) HLO_TRY(hlo_status_annotate(hlo_sdy_check_rule(collector->arena, rule), HLO_SDY_SHARDING_RULE));
    HLO_TRY(read_sharding(collector, op, &text));
    HLO_TRY(read_boundary(collector, op, &text));
    if (!text.leaves && !text.boundaries && !text.manual_axes) return HLO_SUCCESS;
    const SpmdShardyText *kept = hlo_arena_copy(collector->arena, &text, sizeof(text));
    hlo_int_map_set(collector->arena, &collector->shardy->texts, (uintptr_t)op, (int64_t)(uintptr_t)kept);
    return HLO_SUCCESS;
}

// Reads one list for the leaves of all parameters, in order. A parameter's own attribute takes precedence.
static HloStatus read_arguments(Collector *collector) {
    const char *written = module_attribute(collector->module, HLO_SDY_ARGUMENT_SHARDINGS);
    const HloSdyShardings *shardings;
    int64_t first = 0;
    if (!written) return HLO_SUCCESS;
    HLO_TRY(read_shardings(collector, written, &shardings));
    const HloComputation *entry = collector->module->entry;
    for (int64_t p = 0; p < entry->parameters.count; p++)
        first += hlo_shape_leaf_count(entry->parameters.items[p]->shape);
    HLO_FAIL_IF(first != shardings->count, HLO_INVALID_ARGUMENT, "there are %lld shardings for %lld arguments",
                (long long)shardings->count, (long long)first);
    first = 0;
    for (int64_t p = 0; p < entry->parameters.count; p++) {
        const HloInstruction *parameter = entry->parameters.items[p];
        const int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        SpmdShardyText text = {0};
        HloStatus status = set_leaves(collector, parameter, &shardings->items[first], leaves, &text);
        if (status)
            return hlo_status_at_instruction(hlo_status_annotate(status, "instruction %%%s", parameter->name),
                                             parameter);
        first += leaves;
        if (leaves == 0 || spmd_shardy_text(collector->shardy, parameter)) continue;
        const SpmdShardyText *kept = hlo_arena_copy(collector->arena, &text, sizeof(text));
        hlo_int_map_set(collector->arena, &collector->shardy->texts, (uintptr_t)parameter, (int64_t)(uintptr_t)kept);
    }
    return HLO_SUCCESS;
}

static HloStatus read_results(Collector *collector) {
    const char *written = module_attribute(collector->module, HLO_SDY_RESULT_SHARDINGS);
    const HloSdyShardings *shardings;
    if (!written) return HLO_SUCCESS;
    HLO_TRY(read_shardings(collector, written, &shardings));
    const HloShape *shape = collector->module->entry->root->shape;
    const int64_t leaves = hlo_shape_leaf_count(shape);
    HLO_FAIL_IF(leaves != shardings->count, HLO_INVALID_ARGUMENT, "there are %lld shardings for %lld results",
                (long long)shardings->count, (long long)leaves);
    for (int64_t i = 0; i < leaves; i++) HLO_TRY(check_leaf(hlo_shape_leaf(shape, i), &shardings->items[i]));
    collector->shardy->results = *shardings;
    return HLO_SUCCESS;
}

static HloStatus read_meshes(Collector *collector) {
    HLO_TRY(hlo_sdy_meshes(collector->arena, collector->module, &collector->meshes));
    HloMesh *meshes = HLO_ARENA_NEW(collector->arena, HloMesh, collector->meshes.count);
    for (int64_t i = 0; i < collector->meshes.count; i++)
        HLO_TRY(hlo_sdy_mesh(collector->arena, &collector->meshes, i, &meshes[i]));
    collector->shardy->meshes = meshes;
    collector->shardy->mesh_count = collector->meshes.count;
    return HLO_SUCCESS;
}

HloStatus spmd_shardy_read(HloArena *arena, const HloModule *module, const SpmdShardy **result) {
    assert(arena && module && module->entry && result);
    SpmdShardy *shardy = HLO_ARENA_NEW(arena, SpmdShardy, 1);
    Collector collector = {.arena = arena, .module = module, .shardy = shardy};
    *result = shardy;
    HLO_TRY(read_meshes(&collector));
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            HloStatus status = read_instruction(&collector, at);
            if (status) return hlo_status_at_instruction(hlo_status_annotate(status, "instruction %%%s", at->name), at);
        }
    }
    HLO_TRY(hlo_status_annotate(read_arguments(&collector), HLO_SDY_ARGUMENT_SHARDINGS));
    return hlo_status_annotate(read_results(&collector), HLO_SDY_RESULT_SHARDINGS);
}
