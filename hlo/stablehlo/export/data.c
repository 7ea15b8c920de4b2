// SPDX-License-Identifier: Apache-2.0
// Exports elementwise ops, constants, shape and data movement, indexed ops.
//
// The names of elementwise operations follow from the opcode's. Tuples are split: the value of an instruction is a list
// of values, one per leaf of its shape, and tuple, get-tuple-element, copy and the like only rearrange these lists and
// write nothing.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/export/export.h"
#include "hlo/stablehlo/mlir/dialect.h"

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise

// "stablehlo.round_nearest_afz" for an opcode that has the same name there, "chlo.erf" for one that only chlo has.
static const char *find_elementwise_name(HloOpcode opcode) {
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

// The same, looked up once per module.
static const char *elementwise_name(const ExportPlace *place, HloOpcode opcode) {
    const char **known = &place->exporter->elementwise_names[opcode];
    if (!*known) *known = find_elementwise_name(opcode);
    return *known;
}

// Accuracies exist only in StableHLO: operations of chlo have none.
static HloStatus export_elementwise(ExportPlace *place, ExportLeaves *result) {
    const HloInstruction *instruction = place->instruction;
    MlirOperation *operation;
    HLO_TRY(export_plain(place, elementwise_name(place, instruction->opcode), result, &operation));
    if (hlo_op_info(instruction->opcode)->family != HLO_FAMILY_Accuracy) return HLO_SUCCESS;
    const HloAccuracy *accuracy = HLO_ATTRIBUTES(instruction, Accuracy)->accuracy;
    if (!accuracy || strncmp(operation->name, "chlo", 4) == 0) return HLO_SUCCESS;
    MlirAttribute attribute = {.kind = MLIR_ACCURACY, .accuracy = accuracy};
    export_attribute(place, operation, "result_accuracy", mlir_new_attribute(place->exporter->arena, attribute));
    return HLO_SUCCESS;
}

// The default type is omitted: it follows from the operands.
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

// Instructions that only pass values on become no operation; if the float precision of the result differs from the
// operand's, the values are converted.
static HloStatus convert_leaves(ExportPlace *place, ExportLeaves *leaves) {
    const HloShape *shape = place->instruction->shape;
    if (hlo_shape_leaf_count(shape) != leaves->count) return HLO_SUCCESS;  // the start of a copy has more of them
    MlirValue **items = NULL;
    for (int64_t i = 0; i < leaves->count; i++) {
        const HloShape *leaf = hlo_shape_leaf(shape, i), *have = leaves->items[i]->type->shape;
        if (!have || !hlo_shape_is_array(leaf) || have->type == leaf->type) continue;
        const MlirType *type;
        HLO_TRY(export_type(place, leaf, &type));
        if (!items)
            items = hlo_arena_copy(place->exporter->arena, leaves->items, (size_t)leaves->count * sizeof(*items));
        items[i] = export_append(place, "stablehlo.convert", &leaves->items[i], 1, &type, 1)->results[0];
    }
    if (items) leaves->items = items;
    return HLO_SUCCESS;
}

// Copies, domains and data dependencies do not change values: their operands replace them. Only a sharding on one of
// them is kept, as a sharding constraint; the sharding of a result is kept at the result.
static HloStatus export_identity(ExportPlace *place, ExportLeaves *result) {
    const HloInstruction *instruction = place->instruction;
    *result = place->exporter->leaves[instruction->operands[0]->id];
    HLO_TRY(convert_leaves(place, result));
    if (!instruction->sharding || hlo_instruction_is_root(instruction) || result->count != 1) return HLO_SUCCESS;
    MlirOperation *operation =
        export_append(place, "stablehlo.custom_call", result->items, 1, &result->items[0]->type, 1);
    export_attribute(place, operation, "call_target_name", export_string(place, "Sharding"));
    *result = export_results(operation);
    return HLO_SUCCESS;
}

// A copy to another memory is the custom call that JAX writes for it, whose frontend attribute names the memory.
static HloStatus export_copy(ExportPlace *place, ExportLeaves *result) {
    if (!export_placement(place->instruction)) return export_identity(place, result);
    MlirOperation *operation;
    HLO_TRY(export_plain(place, "stablehlo.custom_call", result, &operation));
    export_attribute(place, operation, "backend_config", export_string(place, ""));
    export_attribute(place, operation, "call_target_name", export_string(place, "annotate_device_placement"));
    export_attribute(place, operation, "has_side_effect", export_bool(place, true));
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Data movement

// Shares the literal with the module, with a shape without layout, since the type has none.
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
    return export_plain(place, "stablehlo.reshape", result, NULL);
}

// Old programs have all start indices in one array: StableHLO has one operand per dimension.
static HloStatus check_indices(const ExportPlace *place, int64_t first) {
    int64_t rank = place->instruction->operands[0]->shape->rank;
    if (place->operands.count == first + rank) return HLO_SUCCESS;
    return export_error(place, HLO_UNIMPLEMENTED, "start indices in one array");
}

static HloStatus export_dynamic_slice(ExportPlace *place, ExportLeaves *result) {
    HLO_TRY(check_indices(place, 1));
    return export_with_fields(place, result, NULL);
}

static HloStatus export_dynamic_update_slice(ExportPlace *place, ExportLeaves *result) {
    HLO_TRY(check_indices(place, 2));
    return export_with_fields(place, result, NULL);
}

// Three lists where HLO has a record per dimension.
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

// StableHLO has the sizes in one list: each becomes a list of one, and these are concatenated.
static HloStatus export_dynamic_reshape(ExportPlace *place, ExportLeaves *result) {
    const HloInstruction *reshape = place->instruction;
    assert(hlo_is(reshape, HLO_OP_DYNAMIC_RESHAPE));
    HloArena *arena = place->exporter->arena;
    const int64_t one = 1, count = reshape->shape->rank;
    // When read back, it would be a reshape that ignores the sizes.
    if (!hlo_shape_is_dynamic(reshape->shape))
        return export_error(place, HLO_UNIMPLEMENTED, "sizes of a result that has none of its own");
    const HloShape *size = reshape->operands[1]->shape;
    for (int64_t i = 1; i < count; i++)
        if (reshape->operands[1 + i]->shape->type != size->type)
            return export_error(place, HLO_UNIMPLEMENTED, "sizes of several types");
    const MlirType *each, *list, *type;
    HLO_TRY(export_type(place, hlo_shape_array(arena, size->type, &one, 1), &each));
    HLO_TRY(export_type(place, hlo_shape_array(arena, size->type, &count, 1), &list));
    HLO_TRY(export_type(place, reshape->shape, &type));
    MlirValue **numbers = HLO_ARENA_NEW(arena, MlirValue *, count);
    for (int64_t i = 0; i < count; i++) {
        const MlirOperation *number =
            export_known(place, "stablehlo.reshape", &place->operands.items[1 + i], 1, each, NULL);
        numbers[i] = number->results[0];
    }
    MlirValue *sizes = numbers[0];
    if (count > 1) {
        MlirOperation *joined = export_known(place, "stablehlo.concatenate", numbers, count, list, NULL);
        if (!mlir_attribute(joined, "dimension")) export_attribute(place, joined, "dimension", export_i64(place, 0));
        sizes = joined->results[0];
    }
    MlirValue *operands[] = {place->operands.items[0], sizes};
    *result = export_results(export_append(place, "stablehlo.dynamic_reshape", operands, 2, &type, 1));
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tuples

// A tuple's leaves are its operands' leaves, one after the other.
static HloStatus export_tuple(ExportPlace *place, ExportLeaves *result) {
    *result = place->operands;
    return convert_leaves(place, result);
}

static HloStatus export_get_tuple_element(ExportPlace *place, ExportLeaves *result) {
    assert(hlo_is(place->instruction, HLO_OP_GET_TUPLE_ELEMENT));
    int64_t index = HLO_ATTRIBUTES(place->instruction, TupleIndex)->index;
    const HloShape *tuple = place->instruction->operands[0]->shape;
    int64_t first = hlo_shape_first_leaf(tuple, index);
    *result = (ExportLeaves){place->operands.items + first, hlo_shape_leaf_count(tuple->elements[index])};
    return convert_leaves(place, result);
}

ExportHandler *export_data_handler(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_COMPARE: return export_compare;
        case HLO_OP_COPY: return export_copy;
        case HLO_OP_DOMAIN:
        case HLO_OP_ADD_DEPENDENCY:
        case HLO_OP_COPY_START:
        case HLO_OP_COPY_DONE: return export_identity;
        case HLO_OP_BITCAST: return export_bitcast;
        case HLO_OP_CONSTANT: return export_constant;
        case HLO_OP_DYNAMIC_SLICE: return export_dynamic_slice;
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return export_dynamic_update_slice;
        case HLO_OP_DYNAMIC_RESHAPE: return export_dynamic_reshape;
        case HLO_OP_PAD: return export_pad;
        case HLO_OP_TUPLE: return export_tuple;
        case HLO_OP_GET_TUPLE_ELEMENT: return export_get_tuple_element;
        default: break;
    }
    return hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE) && find_elementwise_name(opcode) ? export_elementwise : NULL;
}
