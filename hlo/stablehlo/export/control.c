// SPDX-License-Identifier: Apache-2.0
// Exports calls, loops, branches, custom calls, collectives, tokens and transfers.
//
// StableHLO has no tuples where HLO has them: operations have leaves as operands and results, and a region has one
// argument per leaf.
//
//   w = (s32[], f32[8]) while(init), condition=c, body=b
//   ->  %0:2 = stablehlo.while(%iterArg = %i, %iterArg_0 = %x) : tensor<i32>, tensor<8xf32> cond {..} do {..}
//
// Branches are the exception: their regions have no arguments and use the operand's leaves from outside. The two halves
// of an asynchronous operation become one operation at the position of the start. Anything that HLO can express and
// StableHLO cannot is refused with the instruction's name.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/hexadecimal.h"
#include "hlo/ir/collective.h"
#include "hlo/ir/custom_call.h"
#include "hlo/stablehlo/export/export.h"
#include "hlo/stablehlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Calls

// @name, a reference to a function.
static const MlirAttribute *symbol(const ExportPlace *place, const char *name) {
    return mlir_new_attribute(place->exporter->arena, (MlirAttribute){.kind = MLIR_SYMBOL, .string = name});
}

// The dictionary in a text; NULL if there is none, or if it contains something that we cannot write (text may name any
// attribute and type of MLIR).
static const MlirAttribute *parse_dictionary(const ExportPlace *place, const char *text) {
    if (!text || *text != '{') return NULL;
    const MlirAttribute *attribute = NULL;
    HloStatus status = mlir_parse_attribute(place->exporter->arena, text, strlen(text), &attribute);
    hlo_status_free(status);
    return status || !mlir_can_write(attribute) ? NULL : attribute;
}

// Composites are calls with frontend attributes (composite.name and so on), which import_composite() and XLA write as
// text, and the verifier has checked.
static HloStatus export_composite(ExportPlace *place, const char *function, ExportLeaves *result) {
    const HloInstruction *call = place->instruction;
    const char *name = hlo_instruction_frontend_attribute(call, "composite.name");
    const char *version = hlo_instruction_frontend_attribute(call, "composite.version");
    const char *attributes = hlo_instruction_frontend_attribute(call, "composite.attributes");
    const MlirAttribute *dictionary = parse_dictionary(place, attributes);
    MlirOperation *operation;
    if (attributes && !dictionary)
        return export_error(place, HLO_UNIMPLEMENTED, "composite.attributes is no dictionary of MLIR: %s", attributes);
    if (!mlir_is_operation_name(name))
        return export_error(place, HLO_UNIMPLEMENTED, "composite.name must be like \"dialect.operation\", not \"%s\"",
                            name ? name : "");
    HLO_TRY(export_plain(place, "stablehlo.composite", result, &operation));
    if (dictionary && dictionary->count) export_attribute(place, operation, "composite_attributes", dictionary);
    export_attribute(place, operation, "decomposition", symbol(place, function));
    export_attribute(place, operation, "name", export_string(place, name));
    const int64_t number = version ? strtoll(version, NULL, 10) : 0;
    if (number) export_attribute(place, operation, "version", export_i32(place, number));
    return HLO_SUCCESS;
}

// Writes the function, unless it is already written, and a call of it or a composite.
static HloStatus call_function(ExportPlace *place, const HloComputation *computation, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(export_function(place, computation));
    const HloInstruction *call = place->instruction;
    if (hlo_is(call, HLO_OP_CALL) && HLO_ATTRIBUTES(call, Call)->is_composite)
        return export_composite(place, computation->name, result);
    HLO_TRY(export_plain(place, "func.call", result, &operation));
    export_attribute(place, operation, "callee", symbol(place, computation->name));
    return HLO_SUCCESS;
}

// Exports a fusion as a call: a fusion specifies how something is computed, not what.
static HloStatus export_call(ExportPlace *place, ExportLeaves *result) {
    return call_function(place, place->instruction->called[0], result);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loops and branches

// The condition's region, then the body's; each takes the leaves of the loop's tuple.
static HloStatus export_while(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_WHILE));
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.while", result, &operation));
    operation->regions = HLO_ARENA_NEW(place->exporter->arena, MlirRegion, 2);
    operation->region_count = 2;
    for (int i = 0; i < 2; i++) {
        HLO_TRY(export_region(place, place->instruction->called[i], NULL, &operation->regions[i]));
    }
    return HLO_SUCCESS;
}

// Branches use their operands from outside. A predicate selects the first branch when it is true.
static HloStatus export_conditional(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_CONDITIONAL));
    const HloInstruction *instruction = place->instruction;
    Exporter *exporter = place->exporter;
    bool is_if = instruction->operands[0]->shape->type == HLO_PRED;
    const MlirType **types;
    int64_t count;
    HLO_TRY(export_leaf_types(place, instruction->shape, &types, &count));
    MlirOperation *operation = export_append(place, is_if ? "stablehlo.if" : "stablehlo.case",
                                             exporter->leaves[instruction->operands[0]->id].items, 1, types, count);
    operation->regions = HLO_ARENA_NEW(exporter->arena, MlirRegion, instruction->called_count);
    operation->region_count = instruction->called_count;
    for (int32_t i = 0; i < instruction->called_count; i++) {
        ExportLeaves bound = exporter->leaves[instruction->operands[1 + i]->id];
        HLO_TRY(export_region(place, instruction->called[i], &bound, &operation->regions[i]));
    }
    *result = export_results(operation);
    return HLO_SUCCESS;
}

static HloStatus export_barrier(ExportPlace *place, ExportLeaves *result) {
    return export_plain(place, "stablehlo.optimization_barrier", result, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Custom calls

// NULL if nothing is aliased: the attribute is then omitted.
static const MlirAttribute *alias_list(const ExportPlace *place, HloAliases aliases) {
    HloArena *arena = place->exporter->arena;
    if (aliases.count == 0) return NULL;
    const MlirAttribute **items = HLO_ARENA_NEW(arena, const MlirAttribute *, aliases.count);
    for (int64_t i = 0; i < aliases.count; i++) {
        const MlirAttribute **lists = HLO_ARENA_NEW(arena, const MlirAttribute *, 2);
        lists[0] = export_ints(place, aliases.items[i].output_index);
        lists[1] = export_ints(place, aliases.items[i].operand_index);
        MlirAttribute alias = {.kind = MLIR_ALIAS, .integer = aliases.items[i].operand, .items = lists, .count = 2};
        items[i] = mlir_new_attribute(arena, alias);
    }
    return export_array(place, items, aliases.count);
}

// Computations that a custom call names become functions.
static HloStatus called_list(ExportPlace *place, MlirOperation *operation) {
    const HloInstruction *instruction = place->instruction;
    if (instruction->called_count == 0) return HLO_SUCCESS;
    const MlirAttribute **items =
        HLO_ARENA_NEW(place->exporter->arena, const MlirAttribute *, instruction->called_count);
    for (int32_t i = 0; i < instruction->called_count; i++) {
        HLO_TRY(export_function(place, instruction->called[i]));
        items[i] = symbol(place, instruction->called[i]->name);
    }
    export_attribute(place, operation, "called_computations", export_array(place, items, instruction->called_count));
    return HLO_SUCCESS;
}

// Text, except for the targets whose configuration was bytes before it was read: the reader turned these into digits.
static const MlirAttribute *configuration(const ExportPlace *place, const char *target, const char *config) {
    const size_t length = strlen(config);
    if (hlo_custom_call_takes_bytes(target)) {
        char *bytes = HLO_ARENA_NEW(place->exporter->arena, char, length / 2 + 2);
        if (hlo_bytes_of_hexadecimal(config, bytes)) return export_bytes(place, bytes, (int64_t)length / 2);
    }
    return export_string(place, config);
}

// Attributes in the order of their names. Layouts are written for both sides if the operands have any.
static HloStatus export_custom_call(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_CUSTOM_CALL));
    const HloInstruction *instruction = place->instruction;
    const HloCustomCallAttributes *attributes = HLO_ATTRIBUTES(instruction, CustomCall);
    bool plain = !attributes->window && !attributes->labels && !attributes->literal && !attributes->schedule;
    if (!plain) return export_error(place, HLO_UNIMPLEMENTED, "a window, labels, literal or schedule");
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.custom_call", result, &operation));
    bool typed = attributes->api_version == HLO_CustomCallApi_TYPED_FFI;
    if (attributes->api_version > HLO_CustomCallApi_ORIGINAL) {
        export_attribute(place, operation, "api_version", export_enum(place, "api_version", attributes->api_version));
    }
    const char *config = instruction->backend_config;
    const MlirAttribute *dictionary = typed ? parse_dictionary(place, config) : NULL;
    if (config && *config) {
        if (!dictionary) dictionary = configuration(place, attributes->target, config);
        export_attribute(place, operation, "backend_config", dictionary);
    }
    export_attribute(place, operation, "call_target_name", export_string(place, attributes->target));
    HLO_TRY(called_list(place, operation));
    if (attributes->has_side_effect) export_attribute(place, operation, "has_side_effect", export_bool(place, true));
    if (attributes->operand_layouts.count) {
        const HloShape *const *shapes = attributes->operand_layouts.items;
        export_attribute(place, operation, "operand_layouts",
                         export_layouts(place, shapes, attributes->operand_layouts.count));
    }
    export_attribute(place, operation, "output_operand_aliases", alias_list(place, attributes->aliasing));
    if (attributes->operand_layouts.count) {
        export_attribute(place, operation, "result_layouts", export_layouts(place, &instruction->shape, 1));
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Collectives

// The largest implicit group that is written out.
enum { MOST_MEMBERS = 1 << 20 };

// An all-to-all gives the number of pieces, which must equal the number of members of a group. So an omitted group,
// which means all devices, is written out.
static HloStatus everybody(const ExportPlace *place, const HloInts **group) {
    const HloModule *module = place->exporter->module;
    const int64_t count =
        hlo_group_mode_numbers(hlo_group_mode_of(place->instruction), module->replica_count, module->num_partitions);
    // The header's numbers of replicas and partitions are unchecked input.
    if (count > MOST_MEMBERS)
        return export_error(place, HLO_UNIMPLEMENTED, "a group of %lld members", (long long)count);
    int64_t *numbers = HLO_ARENA_NEW(place->exporter->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) numbers[i] = i;
    HloInts *result = HLO_ARENA_NEW(place->exporter->arena, HloInts, 1);
    *result = (HloInts){numbers, count};
    *group = result;
    return HLO_SUCCESS;
}

// One row per group; shorter groups end with -1. No groups at all are an empty matrix.
static HloStatus export_groups(ExportPlace *place, const HloReplicaGroups *groups, const MlirAttribute **matrix) {
    HloArena *arena = place->exporter->arena;
    const HloInts *lists = NULL;
    int64_t count = 0, width = 0;
    bool is_empty = !groups || (groups->form == HLO_GROUPS_LIST && groups->count == 0);
    if (is_empty && hlo_is(place->instruction, HLO_OP_ALL_TO_ALL)) {
        HLO_TRY(everybody(place, &lists));
        count = 1;
    } else if (!is_empty && groups->form == HLO_GROUPS_LIST) {
        lists = groups->groups;
        count = groups->count;
    } else if (!is_empty) {
        int64_t devices = place->exporter->module->replica_count * place->exporter->module->num_partitions;
        if (groups->form == HLO_GROUPS_IOTA) devices = groups->count * groups->size;
        HLO_TRY(hlo_replica_groups_expand(groups, devices, arena, &lists, &count));
    }
    for (int64_t i = 0; i < count; i++) width = lists[i].count > width ? lists[i].count : width;
    int64_t *numbers = HLO_ARENA_NEW(arena, int64_t, count * width);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            numbers[i * width + j] = j < lists[i].count ? lists[i].items[j] : -1;
        }
    }
    *matrix = export_matrix(place, numbers, count, width);
    return HLO_SUCCESS;
}

// Channel 0 means none. The type is StableHLO's: 0 where all devices are alike, 1 .. 3 for transfers.
static void add_channel(ExportPlace *place, MlirOperation *operation, int64_t channel, int64_t type) {
    if (channel == 0) return;
    export_attribute(place, operation, "channel_id", export_i64(place, channel));
    export_attribute(place, operation, "channel_type", export_i64(place, type));
}

// Adds the parts common to all collectives: channel, groups, numbering of devices, and the reduction's region.
static HloStatus add_collective(ExportPlace *place, MlirOperation *operation) {
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Collective);
    const MlirAttribute *groups;
    add_channel(place, operation, attributes->channel_id, 0);
    HLO_TRY(export_groups(place, attributes->replica_groups, &groups));
    export_attribute(place, operation, "replica_groups", groups);
    MlirAttribute unit = {.kind = MLIR_UNIT};
    if (attributes->use_global_device_ids) {
        export_attribute(place, operation, "use_global_device_ids", mlir_new_attribute(place->exporter->arena, unit));
    }
    if (place->instruction->called_count == 0) return HLO_SUCCESS;
    operation->regions = HLO_ARENA_NEW(place->exporter->arena, MlirRegion, 1);
    operation->region_count = 1;
    return export_region(place, place->instruction->called[0], NULL, operation->regions);
}

static HloStatus export_all_reduce(ExportPlace *place, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.all_reduce", result, &operation));
    return add_collective(place, operation);
}

static HloStatus export_collective_broadcast(ExportPlace *place, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.collective_broadcast", result, &operation));
    return add_collective(place, operation);
}

// HLO has forms for several dimensions or none, which StableHLO does not have.
static HloStatus collective_dimension(const ExportPlace *place, int64_t *dimension) {
    const HloInts dimensions = HLO_ATTRIBUTES(place->instruction, Collective)->dimensions;
    if (dimensions.count != 1) return export_error(place, HLO_UNIMPLEMENTED, "a form without one dimension");
    *dimension = dimensions.items[0];
    return HLO_SUCCESS;
}

static HloStatus export_all_gather(ExportPlace *place, ExportLeaves *result) {
    MlirOperation *operation;
    int64_t dimension = 0;
    HLO_TRY(collective_dimension(place, &dimension));
    HLO_TRY(export_plain(place, "stablehlo.all_gather", result, &operation));
    export_attribute(place, operation, "all_gather_dim", export_i64(place, dimension));
    return add_collective(place, operation);
}

// Adds the attributes of a collective to one of its operations.
typedef HloStatus AddAttributes(ExportPlace *place, MlirOperation *operation);

// HLO's collectives of several arrays are as many operations where StableHLO's take one array each.
static HloStatus export_each(ExportPlace *place, const char *name, AddAttributes *add, ExportLeaves *result) {
    const MlirType **types;
    int64_t count;
    HLO_TRY(export_leaf_types(place, place->instruction->shape, &types, &count));
    assert(count == place->operands.count); /* a result for each operand */
    result->items = HLO_ARENA_NEW(place->exporter->arena, MlirValue *, count);
    result->count = count;
    for (int64_t i = 0; i < count; i++) {
        MlirOperation *operation = export_append(place, name, &place->operands.items[i], 1, &types[i], 1);
        HLO_TRY(add(place, operation));
        result->items[i] = operation->results[0];
    }
    return HLO_SUCCESS;
}

static HloStatus add_reduce_scatter(ExportPlace *place, MlirOperation *operation) {
    int64_t dimension = 0;
    HLO_TRY(collective_dimension(place, &dimension));
    HLO_TRY(add_collective(place, operation));
    export_attribute(place, operation, "scatter_dimension", export_i64(place, dimension));
    return HLO_SUCCESS;
}

static HloStatus export_reduce_scatter(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_REDUCE_SCATTER));
    return export_each(place, "stablehlo.reduce_scatter", add_reduce_scatter, result);
}

// HLO's array form splits and concatenates along one dimension; split_count is the group size.
static HloStatus export_all_to_all(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_ALL_TO_ALL));
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Collective);
    MlirOperation *operation;
    int64_t dimension = 0;
    HLO_TRY(collective_dimension(place, &dimension));
    int64_t count = attributes->replica_groups ? hlo_replica_groups_size(attributes->replica_groups) : 0;
    const HloInts *group;
    HLO_TRY(everybody(place, &group));
    if (count == 0) count = group->count;
    HLO_TRY(export_plain(place, "stablehlo.all_to_all", result, &operation));
    export_attribute(place, operation, "concat_dimension", export_i64(place, dimension));
    HLO_TRY(add_collective(place, operation));
    export_attribute(place, operation, "split_count", export_i64(place, count));
    export_attribute(place, operation, "split_dimension", export_i64(place, dimension));
    return HLO_SUCCESS;
}

// StableHLO has no operation for this; XLA reads and writes this custom call.
static HloStatus export_ragged_all_to_all(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_RAGGED_ALL_TO_ALL));
    const HloCollectiveAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Collective);
    const char *keys[] = {"channel_id", "replica_groups"};
    const MlirAttribute *items[] = {export_i64(place, attributes->channel_id), NULL};
    const int64_t absent = attributes->channel_id == 0;
    MlirOperation *operation;
    HLO_TRY(export_groups(place, attributes->replica_groups, &items[1]));
    HLO_TRY(export_plain(place, "stablehlo.custom_call", result, &operation));
    export_attribute(place, operation, "api_version", export_enum(place, "api_version", HLO_CustomCallApi_TYPED_FFI));
    export_attribute(place, operation, "backend_config",
                     export_dictionary(place, keys + absent, items + absent, 2 - absent));
    export_attribute(place, operation, "call_target_name", export_string(place, "ragged_all_to_all"));
    return HLO_SUCCESS;
}

static HloStatus add_permute(ExportPlace *place, MlirOperation *operation) {
    const HloPermuteAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Permute);
    add_channel(place, operation, attributes->channel_id, 0);
    int64_t count = attributes->source_target_pairs.count;
    int64_t *numbers = HLO_ARENA_NEW(place->exporter->arena, int64_t, 2 * count);
    for (int64_t i = 0; i < count; i++) {
        numbers[2 * i] = attributes->source_target_pairs.items[i].source;
        numbers[2 * i + 1] = attributes->source_target_pairs.items[i].target;
    }
    export_attribute(place, operation, "source_target_pairs", export_matrix(place, numbers, count, 2));
    return HLO_SUCCESS;
}

// HLO's form with slice sizes copies within a buffer (dynamic updates); only XLA's own passes create it.
static HloStatus export_collective_permute(ExportPlace *place, ExportLeaves *result) {
    if (HLO_ATTRIBUTES(place->instruction, Permute)->slice_sizes.count)
        return export_error(place, HLO_UNIMPLEMENTED, "a permutation in place");
    return export_each(place, "stablehlo.collective_permute", add_permute, result);
}

static HloStatus export_device_number(ExportPlace *place, ExportLeaves *result) {
    bool replica = hlo_is(place->instruction, HLO_OP_REPLICA_ID);
    return export_plain(place, replica ? "stablehlo.replica_id" : "stablehlo.partition_id", result, NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tokens and transfers

static HloStatus export_after_all(ExportPlace *place, ExportLeaves *result) {
    return export_plain(place, place->operands.count ? "stablehlo.after_all" : "stablehlo.create_token", result, NULL);
}

// The two halves of a transfer in HLO are one operation in StableHLO, at the position of the first half; the second
// half has the results of the first.
static HloStatus export_transfer(ExportPlace *place, ExportLeaves *result) {
    const HloInstruction *instruction = place->instruction;
    const HloTransferAttributes *attributes = HLO_ATTRIBUTES(instruction, Transfer);
    bool is_send = hlo_is(instruction, HLO_OP_SEND);
    const HloShape *shape = instruction->shape;  // (data, context, token)
    const MlirType **types;
    int64_t count;
    if (is_send) {
        HLO_TRY(export_leaf_types(place, shape->elements[2], &types, &count));
    } else {
        const HloShape *parts[] = {shape->elements[0], shape->elements[2]};
        HLO_TRY(export_leaf_types(place, hlo_shape_tuple(place->exporter->arena, parts, 2), &types, &count));
    }
    MlirOperation *operation = export_append(place, is_send ? "stablehlo.send" : "stablehlo.recv",
                                             place->operands.items, place->operands.count, types, count);
    // The kind of a channel: 1 between devices, 2 to the host, 3 from the host.
    int64_t kind = !attributes->is_host_transfer ? 1 : is_send ? 2 : 3;
    export_attribute(place, operation, "channel_id", export_i64(place, attributes->channel_id));
    export_attribute(place, operation, "channel_type", export_i64(place, kind));
    export_attribute(place, operation, "is_host_transfer", export_bool(place, attributes->is_host_transfer));
    *result = export_results(operation);
    return HLO_SUCCESS;
}

// The first half has already produced the values.
static HloStatus export_done(ExportPlace *place, ExportLeaves *result) {
    *result = place->operands;
    return HLO_SUCCESS;
}

// An asynchronous operation becomes the operation that it wraps, at the position of its start.
static HloStatus export_async_start(ExportPlace *place, ExportLeaves *result) {
    const HloComputation *wrapped = place->instruction->called[0];
    MlirOperation *operation;
    HLO_TRY(export_function(place, wrapped));
    const MlirType **types;
    int64_t count;
    HLO_TRY(export_leaf_types(place, wrapped->root->shape, &types, &count));
    operation = export_append(place, "func.call", place->operands.items, place->operands.count, types, count);
    export_attribute(place, operation, "callee", symbol(place, wrapped->name));
    *result = export_results(operation);
    return HLO_SUCCESS;
}

ExportHandler *export_control_handler(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_CALL:
        case HLO_OP_FUSION: return export_call;
        case HLO_OP_WHILE: return export_while;
        case HLO_OP_CONDITIONAL: return export_conditional;
        case HLO_OP_OPTIMIZATION_BARRIER: return export_barrier;
        case HLO_OP_CUSTOM_CALL: return export_custom_call;
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START: return export_all_reduce;
        case HLO_OP_ALL_GATHER: return export_all_gather;
        case HLO_OP_REDUCE_SCATTER: return export_reduce_scatter;
        case HLO_OP_ALL_TO_ALL: return export_all_to_all;
        case HLO_OP_RAGGED_ALL_TO_ALL: return export_ragged_all_to_all;
        case HLO_OP_COLLECTIVE_BROADCAST: return export_collective_broadcast;
        case HLO_OP_COLLECTIVE_PERMUTE: return export_collective_permute;
        case HLO_OP_PARTITION_ID:
        case HLO_OP_REPLICA_ID: return export_device_number;
        case HLO_OP_AFTER_ALL: return export_after_all;
        case HLO_OP_SEND:
        case HLO_OP_RECV: return export_transfer;
        case HLO_OP_SEND_DONE:
        case HLO_OP_RECV_DONE:
        case HLO_OP_ALL_REDUCE_DONE:
        case HLO_OP_ASYNC_UPDATE:
        case HLO_OP_ASYNC_DONE: return export_done;
        case HLO_OP_ASYNC_START: return export_async_start;
        default: return NULL;
    }
}
