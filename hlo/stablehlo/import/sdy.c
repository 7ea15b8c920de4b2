// SPDX-License-Identifier: Apache-2.0
// Imports operations of Shardy's dialect: constraints, named and manual computations, collectives that represent a
// change of sharding, groups of equally sharded values. HLO has none of them: they become the custom calls that express
// the same to GSPMD's own partitioner ("Sharding", SPMDFullToShardShape and so on, as Shardy's exporter writes them),
// and regions are inlined in their place. sharding.c converts the sharding attributes.
#include <assert.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/import/import.h"

// A custom call that gives one array a sharding.
static HloStatus sharding_call(ImportPlace *place, const char *target, const HloShape *shape, HloInstruction *operand,
                               const HloSharding *sharding, HloInstruction **result) {
    HloCustomCallAttributes attributes = {.target = target};
    HLO_TRY(import_emit(place, HLO_OP_CUSTOM_CALL, shape, &operand, 1, &attributes, NULL, 0, result));
    (*result)->sharding = sharding;
    return HLO_SUCCESS;
}

// The operand with the sharding in attribute `name`.
static HloStatus import_resharded(ImportPlace *place, const char *name) {
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    const HloSharding *sharding;
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    if (!attribute || place->operation->operand_count != 1) {
        return import_error(place, HLO_INVALID_ARGUMENT, "it takes one operand and a sharding");
    }
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_sharding(place->importer, attribute, shape->rank, &sharding));
    HLO_TRY(sharding_call(place, "Sharding", shape, operands[0], sharding, &result));
    HLO_TRY(import_sharding_text(place->importer, &attribute, result));
    return import_set_results(place, result);
}

static HloStatus import_constraint(ImportPlace *place) {
    return import_resharded(place, "sharding");
}

// Shardy's collectives operate on global values, which they do not change: the sharding of the result determines the
// communication.
static HloStatus import_collective(ImportPlace *place) {
    return import_resharded(place, "out_sharding");
}

// A cast between the same tensor type of two dialects.
static HloStatus import_cast(ImportPlace *place) {
    HloInstruction **operands = NULL;
    HLO_TRY(import_operands(place, &operands));
    if (place->operation->operand_count != place->operation->result_count) {
        return import_error(place, HLO_UNIMPLEMENTED, "a cast that changes the number of values");
    }
    for (int64_t i = 0; i < place->operation->result_count; i++) {
        HLO_TRY(import_check_type(place, operands[i], place->operation->results[i]->type));
        place->operation->results[i]->lowered = operands[i];
    }
    return HLO_SUCCESS;
}

HloStatus import_group_member(ImportPlace *place, int64_t group, HloInstruction **member) {
    HloSharding *sharding = HLO_ARENA_NEW(import_arena(place), HloSharding, 1);
    const HloSharding *old = (*member)->sharding;
    *sharding = old ? *old : (HloSharding){.kind = HLO_SHARDING_UNKNOWN};
    if (old && old->group != HLO_SHARD_GROUP_NONE) {
        // An annotation has one group only: from here on, the value is a copy that is in the other group.
        *sharding = (HloSharding){.kind = HLO_SHARDING_UNKNOWN};
        HLO_TRY(sharding_call(place, "Sharding", (*member)->shape, *member, sharding, member));
    }
    sharding->group = HLO_SHARD_AS;
    sharding->group_id = group;
    (*member)->sharding = sharding;
    return HLO_SUCCESS;
}

static HloStatus import_sharding_group(ImportPlace *place) {
    HloInstruction **operands = NULL;
    int64_t group;
    if (place->operation->operand_count != 1 || !mlir_attribute(place->operation, "group_id"))
        return import_error(place, HLO_INVALID_ARGUMENT, "a sharding group without a member or a number");
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_int(place, "group_id", 0, &group));
    HLO_TRY(import_group_member(place, group, &operands[0]));
    place->operation->operands[0]->lowered = operands[0];
    return HLO_SUCCESS;
}

// The end of an edge of a loop or branch: its value, with the sharding of the edge, if any.
static HloStatus import_edge(ImportPlace *place) {
    return mlir_attribute(place->operation, "sharding") ? import_constraint(place) : import_cast(place);
}

// A custom call that returns its operand and specifies where shardings may propagate, as XLA writes it.
static HloStatus import_barrier(ImportPlace *place) {
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(sharding_call(place, "xla.sdy.PropagationBarrier", shape, operands[0], NULL, &result));
    const MlirAttribute *direction = mlir_attribute(place->operation, "allowed_direction");
    const char *said = direction && direction->string ? direction->string
                       : direction ? hlo_arena_format(import_arena(place), "%lld : i64", (long long)direction->integer)
                                   : "NONE";
    hlo_instruction_set_frontend_attribute(result, "xla.sdy.allowed_direction", said);
    return import_set_results(place, result);
}

static HloStatus import_sdy_constant(ImportPlace *place) {
    ImportPlace as_constant = *place;
    static const char constant[] = "stablehlo.constant";  // the same attribute, the same meaning
    const ImportRow *row = hlo_string_map_get(&place->importer->rows, constant, strlen(constant));
    return row->handler(&as_constant);
}

// Records the dimensions that propagation may still shard, in GSPMD's form: at a region's boundary, the text of the
// whole sharding would describe the array on the other side.
static void set_open_dims(ImportPlace *place, HloInstruction *call, const MlirAttribute *sharding) {
    HloText text = {0};
    const MlirAttribute *dims = sharding->kind == MLIR_SDY && sharding->count == 4 ? sharding->items[1] : NULL;
    for (int64_t i = 0; dims && i < dims->count; i++) {
        if (!import_dimension_is_open(dims->items[i])) continue;
        hlo_text_format(&text, text.length ? ",%lld" : "unspecified_dims=[%lld", (long long)i);
    }
    if (text.length) {
        hlo_text_char(&text, ']');
        call->backend_config = hlo_text_to_arena(import_arena(place), &text);
    }
}

// A value with its sharding from a list; the value itself if the list has none.
static HloStatus constrain(ImportPlace *place, const MlirAttribute *list, int64_t index, HloInstruction **value) {
    assert(index >= 0 && value);
    if (!list || index >= list->count || (*value)->shape->type == HLO_TOKEN) return HLO_SUCCESS;
    const MlirAttribute *attribute = list->items[index];
    const HloSharding *sharding;
    HLO_TRY(import_sharding(place->importer, attribute, (*value)->shape->rank, &sharding));
    HLO_TRY(sharding_call(place, "Sharding", (*value)->shape, *value, sharding, value));
    return import_sharding_text(place->importer, &attribute, *value);
}

// Inlines a function's body, with the shardings of its arguments and results.
static HloStatus import_named_computation(ImportPlace *place) {
    const MlirOperation *operation = place->operation, *terminator = NULL;
    const MlirAttribute *in = mlir_attribute(operation, "in_shardings"),
                        *out = mlir_attribute(operation, "out_shardings");
    HloInstruction **operands = NULL, **returned = NULL;
    bool whole = operation->region_count == 1 && operation->regions[0].block_count == 1 &&
                 operation->regions[0].blocks[0].argument_count == operation->operand_count;
    if (!whole) return import_error(place, HLO_INVALID_ARGUMENT, "a body with one argument per operand is missing");
    const MlirBlock *block = &operation->regions[0].blocks[0];
    HLO_TRY(import_operands(place, &operands));
    for (int64_t i = 0; i < operation->operand_count; i++) {
        HLO_TRY(import_check_type(place, operands[i], block->arguments[i]->type));
        HLO_TRY(constrain(place, in, i, &operands[i]));
        block->arguments[i]->lowered = operands[i];
    }
    HLO_TRY(import_block(place->importer, place->computation, block, &terminator));
    ImportPlace end = {place->importer, place->computation, (MlirOperation *)(uintptr_t)terminator};
    HLO_TRY(import_operands(&end, &returned));
    if (terminator->operand_count != operation->result_count) {
        return import_error(place, HLO_INVALID_ARGUMENT, "the body returns a different number of values");
    }
    for (int64_t i = 0; i < operation->result_count; i++) {
        HLO_TRY(import_check_type(place, returned[i], operation->results[i]->type));
        HLO_TRY(constrain(place, out, i, &returned[i]));
        operation->results[i]->lowered = returned[i];
    }
    return HLO_SUCCESS;
}

typedef struct ManualRegion {
    const MlirAttribute *axes;
    const MlirAttribute *in, *out;  // one sharding an operand, a result
    const MlirBlock *block;
} ManualRegion;

// Collects the parts of a manual computation, and checks their numbers against each other.
static HloStatus find_manual(ImportPlace *place, ManualRegion *manual) {
    const MlirOperation *operation = place->operation;
    manual->axes = mlir_attribute(operation, "manual_axes");
    manual->in = mlir_attribute(operation, "in_shardings");
    manual->out = mlir_attribute(operation, "out_shardings");
    bool whole = manual->axes && manual->in && manual->out && operation->region_count == 1 &&
                 operation->regions[0].block_count == 1;
    if (!whole) return import_error(place, HLO_INVALID_ARGUMENT, "attributes or body are missing");
    manual->block = &operation->regions[0].blocks[0];
    bool agree = manual->in->count == operation->operand_count && manual->out->count == operation->result_count &&
                 manual->block->argument_count == operation->operand_count;
    if (!agree) return import_error(place, HLO_INVALID_ARGUMENT, "the numbers of shardings and values differ");
    return HLO_SUCCESS;
}

// The number of parts along a dimension; 0 if a sharding does not tell.
static int64_t parts_along(const HloSharding *sharding, int64_t dimension) {
    if (sharding->kind == HLO_SHARDING_TILED) return sharding->tile_dims.items[dimension];
    return sharding->kind == HLO_SHARDING_MANUAL || sharding->kind == HLO_SHARDING_REPLICATED ? 1 : 0;
}

// Checks that the shape in a manual region is the part of the shape around it that the manual axes leave to a device.
static HloStatus check_local_shape(ImportPlace *place, const HloShape *full, const HloShape *local,
                                   const HloSharding *outside, const HloSharding *inside) {
    if (full->rank != local->rank || full->type != local->type)
        return import_error(place, HLO_INVALID_ARGUMENT, "%s inside and %s outside of the manual region",
                            hlo_shape_message(import_arena(place), local),
                            hlo_shape_message(import_arena(place), full));
    for (int64_t d = 0; d < full->rank; d++) {
        const int64_t around = parts_along(outside, d), within = parts_along(inside, d);
        const bool known = around > 0 && within > 0 && full->dims[d] >= 0 && local->dims[d] >= 0;
        if (!known || (around % within == 0 && full->dims[d] % (around / within) == 0 &&
                       local->dims[d] == full->dims[d] / (around / within)))
            continue;
        return import_error(place, HLO_INVALID_ARGUMENT,
                            "dimension %lld is %lld inside and %lld outside of a manual region of %lld shards",
                            (long long)d, (long long)local->dims[d], (long long)full->dims[d],
                            (long long)(around / within));
    }
    return HLO_SUCCESS;
}

// The body is inlined between casts from the global to the local shape and back, as GSPMD writes manual regions.
static HloStatus import_manual_computation(ImportPlace *place) {
    ManualRegion manual = {0};
    HloInstruction **operands = NULL;
    HLO_TRY(find_manual(place, &manual));
    HLO_TRY(import_operands(place, &operands));
    for (int64_t i = 0; i < place->operation->operand_count; i++) {
        const HloSharding *outside, *inside;
        const HloShape *local;
        HloInstruction *value = operands[i];
        if (value->shape->type == HLO_TOKEN) {  // no dimensions to shard
            manual.block->arguments[i]->lowered = value;
            continue;
        }
        HLO_TRY(import_sharding(place->importer, manual.in->items[i], value->shape->rank, &outside));
        HLO_TRY(import_tiling(place->importer, manual.in->items[i], manual.axes, value->shape->rank, &inside));
        HLO_TRY(import_shape(place, manual.block->arguments[i]->type, &local));
        HLO_TRY(check_local_shape(place, value->shape, local, outside, inside));
        HLO_TRY(sharding_call(place, "Sharding", value->shape, value, outside, &value));
        set_open_dims(place, value, manual.in->items[i]);
        HLO_TRY(sharding_call(place, "SPMDFullToShardShape", local, value, inside, &value));
        set_open_dims(place, value, manual.in->items[i]);
        manual.block->arguments[i]->lowered = value;
    }
    const MlirOperation *terminator = NULL;
    HLO_TRY(import_block(place->importer, place->computation, manual.block, &terminator));
    ImportPlace end = {place->importer, place->computation, (MlirOperation *)(uintptr_t)terminator};
    HloInstruction **returned = NULL;
    HLO_TRY(import_operands(&end, &returned));
    if (terminator->operand_count != place->operation->result_count) {
        return import_error(place, HLO_INVALID_ARGUMENT, "the body returns a different number of values");
    }
    for (int64_t i = 0; i < place->operation->result_count; i++) {
        const HloSharding *outside, *inside;
        const HloShape *full;
        HloInstruction *value = returned[i];
        if (value->shape->type == HLO_TOKEN) {
            place->operation->results[i]->lowered = value;
            continue;
        }
        HLO_TRY(import_shape(place, place->operation->results[i]->type, &full));
        HLO_TRY(import_sharding(place->importer, manual.out->items[i], full->rank, &outside));
        HLO_TRY(import_tiling(place->importer, manual.out->items[i], manual.axes, full->rank, &inside));
        HLO_TRY(check_local_shape(place, full, value->shape, outside, inside));
        HLO_TRY(sharding_call(place, "Sharding", value->shape, value, inside, &value));
        set_open_dims(place, value, manual.out->items[i]);
        HLO_TRY(sharding_call(place, "SPMDShardToFullShape", full, value, outside, &value));
        set_open_dims(place, value, manual.out->items[i]);
        place->operation->results[i]->lowered = value;
    }
    return HLO_SUCCESS;
}

const ImportRow *import_sdy_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"sdy.sharding_constraint", import_constraint, 1},
        {"sdy.reshard", import_constraint, 1},
        {"builtin.unrealized_conversion_cast", import_cast, 0},
        {"sdy.sharding_group", import_sharding_group, 0},
        {"sdy.propagation_barrier", import_barrier, 1},
        {"sdy.data_flow_edge", import_edge, 1},
        {"sdy.constant", import_sdy_constant, 0},
        {"sdy.manual_computation", import_manual_computation, 0},
        {"sdy.named_computation", import_named_computation, 0},
        {"sdy.all_gather", import_collective, 1},
        {"sdy.all_reduce", import_collective, 1},
        {"sdy.all_slice", import_collective, 1},
        {"sdy.all_to_all", import_collective, 1},
        {"sdy.collective_permute", import_collective, 1},
        {"sdy.reduce_scatter", import_collective, 1},
        {"sdy.replicated_to_unreduced", import_collective, 1},
        {"sdy.sharded_to_unreduced", import_collective, 1},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
