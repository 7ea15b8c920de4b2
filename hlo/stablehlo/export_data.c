// SPDX-License-Identifier: Apache-2.0
// Elementwise ops, constants, shape and data movement, indexed ops.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/dialect.h"
#include "hlo/stablehlo/export.h"

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise

// "stablehlo.round_nearest_afz" for an opcode that has the same name there, "chlo.erf" for one that only chlo has.
static const char *elementwise_name(HloOpcode opcode) {
    static const char *const dialects[] = {"stablehlo.", "chlo."};
    char text[64];
    for (size_t d = 0; d < HLO_COUNT_OF(dialects); d++) {
        size_t length = strlen(dialects[d]);
        const char *name = hlo_op_text(opcode);
        memcpy(text, dialects[d], length);
        for (; *name && length + 1 < sizeof(text); name++) text[length++] = *name == '-' ? '_' : *name;
        const MlirOpInfo *info = mlir_op_info(text, length);
        if (info) return info->name;
    }
    return NULL;
}

static HloStatus export_elementwise(ExportPlace *place, ExportLeaves *result) {
    const HloInstruction *instruction = place->instruction;
    MlirOperation *operation;
    HLO_TRY(export_plain(place, elementwise_name(instruction->opcode), result, &operation));
    if (hlo_op_info(instruction->opcode)->family != HLO_FAMILY_Accuracy) return HLO_SUCCESS;
    const HloAccuracy *accuracy = HLO_ATTRIBUTES(instruction, Accuracy)->accuracy;
    if (!accuracy || strncmp(operation->name, "chlo", 4) == 0) return HLO_SUCCESS;
    MlirAttribute attribute = {.kind = MLIR_ACCURACY, .accuracy = accuracy};
    export_attribute(place, operation, "result_accuracy", mlir_new_attribute(place->exporter->arena, attribute));
    return HLO_SUCCESS;
}

static HloStatus export_compare(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_COMPARE));
    const HloCompareAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Compare);
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.compare", result, &operation));
    if (attributes->type != HLO_ComparisonType_DEFAULT) {
        export_attribute(place, operation, "compare_type", export_enum(place, "comparison_type", attributes->type));
    }
    export_attribute(place, operation, "comparison_direction",
                     export_enum(place, "comparison_direction", attributes->direction));
    return HLO_SUCCESS;
}

static HloStatus export_reduce_precision(ExportPlace *place, ExportLeaves *result) {
    const HloReducePrecisionAttributes *attributes = HLO_ATTRIBUTES(place->instruction, ReducePrecision);
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.reduce_precision", result, &operation));
    export_attribute(place, operation, "exponent_bits", export_i32(place, attributes->exponent_bits));
    export_attribute(place, operation, "mantissa_bits", export_i32(place, attributes->mantissa_bits));
    return HLO_SUCCESS;
}

static HloStatus export_bitcast_convert(ExportPlace *place, ExportLeaves *result) {
    return export_plain(place, "stablehlo.bitcast_convert", result, NULL);
}

// Copies, domains and data dependencies say nothing about values: what they are given stands for them. Only a sharding
// that is written at one is kept, as the constraint that it is; that of a result stands at the result.
static HloStatus export_identity(ExportPlace *place, ExportLeaves *result) {
    const HloInstruction *instruction = place->instruction;
    *result = place->exporter->leaves[instruction->operands[0]->id];
    if (!instruction->sharding || hlo_instruction_is_root(instruction) || result->count != 1) return HLO_SUCCESS;
    MlirOperation *operation =
        export_append(place, "stablehlo.custom_call", result->items, 1, &result->items[0]->type, 1);
    export_attribute(place, operation, "call_target_name", export_string(place, "Sharding"));
    *result = export_results(operation);
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Data movement

static HloStatus export_constant(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_CONSTANT));
    const HloLiteral *literal = hlo_constant_literal(place->instruction);
    if (literal->elided) return export_error(place, HLO_UNIMPLEMENTED, "its values were left out of the text");
    if (!hlo_shape_is_array(literal->shape)) return export_error(place, HLO_UNIMPLEMENTED, "a constant of a structure");
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.constant", result, &operation));
    const MlirType *type = operation->results[0]->type;
    HloLiteral *same = hlo_arena_copy(place->exporter->arena, literal, sizeof(*literal));
    same->shape = type->shape;
    MlirAttribute value = {.kind = MLIR_TENSOR, .literal = same, .type = type};
    export_attribute(place, operation, "value", mlir_new_attribute(place->exporter->arena, value));
    return HLO_SUCCESS;
}

static HloStatus export_iota(ExportPlace *place, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.iota", result, &operation));
    export_attribute(place, operation, "iota_dimension",
                     export_i64(place, HLO_ATTRIBUTES(place->instruction, Iota)->dimension));
    return HLO_SUCCESS;
}

// An op whose only attribute is its list of dimensions.
static HloStatus export_dimensions(ExportPlace *place, const char *name, const char *attribute, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(export_plain(place, name, result, &operation));
    export_attribute(place, operation, attribute,
                     export_ints(place, HLO_ATTRIBUTES(place->instruction, Dimensions)->dimensions));
    return HLO_SUCCESS;
}

static HloStatus export_broadcast(ExportPlace *place, ExportLeaves *result) {
    return export_dimensions(place, "stablehlo.broadcast_in_dim", "broadcast_dimensions", result);
}
static HloStatus export_transpose(ExportPlace *place, ExportLeaves *result) {
    return export_dimensions(place, "stablehlo.transpose", "permutation", result);
}
static HloStatus export_reverse(ExportPlace *place, ExportLeaves *result) {
    return export_dimensions(place, "stablehlo.reverse", "dimensions", result);
}
static HloStatus export_reshape(ExportPlace *place, ExportLeaves *result) {
    return export_plain(place, "stablehlo.reshape", result, NULL);
}

static bool has_default_layout(const HloShape *shape) {
    if (!shape->layout) return true;
    const HloInts order = shape->layout->minor_to_major;
    for (int64_t i = 0; i < order.count; i++) {
        if (order.items[i] != order.count - 1 - i) return false;
    }
    return true;
}

// A bitcast between row-major arrays of one type is a reshape.
static HloStatus export_bitcast(ExportPlace *place, ExportLeaves *result) {
    const HloShape *from = place->instruction->operands[0]->shape, *to = place->instruction->shape;
    bool plain =
        hlo_shape_is_array(from) && from->type == to->type && has_default_layout(from) && has_default_layout(to);
    if (!plain) return export_error(place, HLO_UNIMPLEMENTED, "a bitcast that changes the type or the layout");
    return export_reshape(place, result);
}

static HloStatus export_dimension(ExportPlace *place, const char *name, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(export_plain(place, name, result, &operation));
    const HloInts dimensions = HLO_ATTRIBUTES(place->instruction, Dimensions)->dimensions;
    if (dimensions.count != 1) return export_error(place, HLO_INVALID_ARGUMENT, "one dimension is needed");
    export_attribute(place, operation, "dimension", export_i64(place, dimensions.items[0]));
    return HLO_SUCCESS;
}

static HloStatus export_concatenate(ExportPlace *place, ExportLeaves *result) {
    return export_dimension(place, "stablehlo.concatenate", result);
}
static HloStatus export_get_dimension_size(ExportPlace *place, ExportLeaves *result) {
    return export_dimension(place, "stablehlo.get_dimension_size", result);
}
static HloStatus export_set_dimension_size(ExportPlace *place, ExportLeaves *result) {
    return export_dimension(place, "stablehlo.set_dimension_size", result);
}

static HloStatus export_slice(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_SLICE));
    const HloSliceAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Slice);
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.slice", result, &operation));
    export_attribute(place, operation, "limit_indices", export_ints(place, attributes->limits));
    export_attribute(place, operation, "start_indices", export_ints(place, attributes->starts));
    export_attribute(place, operation, "strides", export_ints(place, attributes->strides));
    return HLO_SUCCESS;
}

// Old programs give all start indices in one array: StableHLO has one operand a dimension.
static HloStatus check_indices(const ExportPlace *place, int64_t first) {
    int64_t rank = place->instruction->operands[0]->shape->rank;
    if (place->operands.count == first + rank) return HLO_SUCCESS;
    return export_error(place, HLO_UNIMPLEMENTED, "start indices in one array");
}

static HloStatus export_dynamic_slice(ExportPlace *place, ExportLeaves *result) {
    MlirOperation *operation;
    HLO_TRY(check_indices(place, 1));
    HLO_TRY(export_plain(place, "stablehlo.dynamic_slice", result, &operation));
    export_attribute(place, operation, "slice_sizes",
                     export_ints(place, HLO_ATTRIBUTES(place->instruction, DynamicSlice)->sizes));
    return HLO_SUCCESS;
}

static HloStatus export_dynamic_update_slice(ExportPlace *place, ExportLeaves *result) {
    HLO_TRY(check_indices(place, 2));
    return export_plain(place, "stablehlo.dynamic_update_slice", result, NULL);
}

static HloStatus export_pad(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_PAD));
    const HloPadding padding = HLO_ATTRIBUTES(place->instruction, Pad)->padding;
    HloArena *arena = place->exporter->arena;
    int64_t *lists[3];
    for (int l = 0; l < 3; l++) lists[l] = HLO_ARENA_NEW(arena, int64_t, padding.count);
    for (int64_t i = 0; i < padding.count; i++) {
        lists[0][i] = padding.items[i].high;
        lists[1][i] = padding.items[i].low;
        lists[2][i] = padding.items[i].interior;
    }
    static const char *const names[] = {"edge_padding_high", "edge_padding_low", "interior_padding"};
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.pad", result, &operation));
    for (int l = 0; l < 3; l++) {
        export_attribute(place, operation, names[l], export_ints(place, (HloInts){lists[l], padding.count}));
    }
    return HLO_SUCCESS;
}

static HloStatus export_gather(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_GATHER));
    const HloGatherAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Gather);
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.gather", result, &operation));
    export_attribute(place, operation, "offset_dims", export_ints(place, attributes->offset_dims));
    export_attribute(place, operation, "collapsed_slice_dims", export_ints(place, attributes->collapsed_slice_dims));
    export_attribute(place, operation, "operand_batching_dims", export_ints(place, attributes->operand_batching_dims));
    export_attribute(place, operation, "start_indices_batching_dims",
                     export_ints(place, attributes->start_indices_batching_dims));
    export_attribute(place, operation, "start_index_map", export_ints(place, attributes->start_index_map));
    export_attribute(place, operation, "index_vector_dim", export_i64(place, attributes->index_vector_dim));
    export_attribute(place, operation, "indices_are_sorted", export_bool(place, attributes->indices_are_sorted));
    export_attribute(place, operation, "slice_sizes", export_ints(place, attributes->slice_sizes));
    return HLO_SUCCESS;
}

static HloStatus export_scatter(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_SCATTER));
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(place->instruction, Scatter);
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.scatter", result, &operation));
    export_attribute(place, operation, "indices_are_sorted", export_bool(place, attributes->indices_are_sorted));
    export_attribute(place, operation, "update_window_dims", export_ints(place, attributes->update_window_dims));
    export_attribute(place, operation, "inserted_window_dims", export_ints(place, attributes->inserted_window_dims));
    export_attribute(place, operation, "input_batching_dims", export_ints(place, attributes->input_batching_dims));
    export_attribute(place, operation, "scatter_indices_batching_dims",
                     export_ints(place, attributes->scatter_indices_batching_dims));
    export_attribute(place, operation, "scatter_dims_to_operand_dims",
                     export_ints(place, attributes->scatter_dims_to_operand_dims));
    export_attribute(place, operation, "index_vector_dim", export_i64(place, attributes->index_vector_dim));
    export_attribute(place, operation, "unique_indices", export_bool(place, attributes->unique_indices));
    operation->regions = HLO_ARENA_NEW(place->exporter->arena, MlirRegion, 1);
    operation->region_count = 1;
    return export_region(place, place->instruction->called[0], NULL, operation->regions);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tuples

static HloStatus export_tuple(ExportPlace *place, ExportLeaves *result) {
    *result = place->operands;
    return HLO_SUCCESS;
}

static HloStatus export_get_tuple_element(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_GET_TUPLE_ELEMENT));
    int64_t index = HLO_ATTRIBUTES(place->instruction, TupleIndex)->index, first = 0;
    const HloShape *tuple = place->instruction->operands[0]->shape;
    for (int64_t i = 0; i < index; i++) first += hlo_shape_leaf_count(tuple->elements[i]);
    *result = (ExportLeaves){place->operands.items + first, hlo_shape_leaf_count(tuple->elements[index])};
    return HLO_SUCCESS;
}

ExportHandler *export_data_handler(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_COMPARE: return export_compare;
        case HLO_OP_REDUCE_PRECISION: return export_reduce_precision;
        case HLO_OP_BITCAST_CONVERT: return export_bitcast_convert;
        case HLO_OP_COPY:
        case HLO_OP_DOMAIN:
        case HLO_OP_ADD_DEPENDENCY:
        case HLO_OP_COPY_START:
        case HLO_OP_COPY_DONE: return export_identity;
        case HLO_OP_BITCAST: return export_bitcast;
        case HLO_OP_CONSTANT: return export_constant;
        case HLO_OP_IOTA: return export_iota;
        case HLO_OP_BROADCAST: return export_broadcast;
        case HLO_OP_TRANSPOSE: return export_transpose;
        case HLO_OP_REVERSE: return export_reverse;
        case HLO_OP_RESHAPE: return export_reshape;
        case HLO_OP_CONCATENATE: return export_concatenate;
        case HLO_OP_GET_DIMENSION_SIZE: return export_get_dimension_size;
        case HLO_OP_SET_DIMENSION_SIZE: return export_set_dimension_size;
        case HLO_OP_SLICE: return export_slice;
        case HLO_OP_DYNAMIC_SLICE: return export_dynamic_slice;
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return export_dynamic_update_slice;
        case HLO_OP_PAD: return export_pad;
        case HLO_OP_GATHER: return export_gather;
        case HLO_OP_SCATTER: return export_scatter;
        case HLO_OP_TUPLE: return export_tuple;
        case HLO_OP_GET_TUPLE_ELEMENT: return export_get_tuple_element;
        default: break;
    }
    return hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE) && elementwise_name(opcode) ? export_elementwise : NULL;
}
