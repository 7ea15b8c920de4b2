// SPDX-License-Identifier: Apache-2.0
// Imports constants, shape and data movement, conversions, indexed ops.
//
// Where StableHLO allows more than HLO, the difference is made explicit here, as in XLA's importer, so that passes and
// kernels see one form:
//
//   broadcast_in_dim of a dimension of size 1 that grows   ->  reshape without it, then broadcast
//   select, clamp with scalar operands                     ->  broadcast of these
//   constant with many equal elements                      ->  broadcast of one
//   convert from complex to real                           ->  real, then convert
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"

// A large array of equal elements becomes the broadcast of one, as in XLA.
static HloStatus import_splat(ImportPlace *place, const HloLiteral *value, const HloShape *shape) {
    HloArena *arena = import_arena(place);
    const HloShape *scalar = hlo_shape_with_default_layout(arena, hlo_shape_scalar(arena, shape->type));
    HloLiteral *literal = hlo_literal_in_arena(arena, scalar);
    HloInstruction *number, *result;
    memcpy(literal->data, value->data, (size_t)hlo_type_bytes(shape->type));
    const HloConstantAttributes attributes = {.literal = literal};
    HLO_TRY(import_emit(place, HLO_OP_CONSTANT, scalar, NULL, 0, &attributes, NULL, 0, &number));
    HLO_TRY(import_broadcast_to(place, number, (HloInts){0}, shape, &result));
    place->operation->results[0]->is_constant = true;
    return import_set_results(place, result);
}

// An annotation must stay on one instruction, so an annotated constant is not decomposed.
static bool has_sharding(const MlirOperation *operation) {
    return mlir_attribute(operation, "mhlo.sharding") || mlir_attribute(operation, "sdy.sharding");
}

// A splat becomes the broadcast of a scalar, unless the constant itself is annotated.
static HloStatus import_constant(ImportPlace *place) {
    const MlirAttribute *value = mlir_attribute(place->operation, "value");
    if (!value || value->kind != MLIR_TENSOR) {
        return import_error(place, HLO_INVALID_ARGUMENT, "a constant has no tensor value");
    }
    const HloShape *shape = NULL;
    HLO_TRY(import_result_shape(place, &shape));
    // The value is interpreted with the result's shape.
    if (!hlo_shape_equal(value->type->shape, shape, HLO_COMPARE_IGNORE_LAYOUT)) {
        return import_error(place, HLO_INVALID_ARGUMENT,
                            "the value of a constant has a different type than its result");
    }
    // Elements that are listed individually may still be equal.
    const bool is_splat = value->splat || (hlo_shape_elements(shape) >= MLIR_MANY_ELEMENTS && value->literal &&
                                           hlo_literal_is_splat(value->literal));
    if (is_splat && !has_sharding(place->operation))
        return import_splat(place, value->splat ? value->splat : value->literal, shape);
    const HloLiteral *elements = mlir_tensor_literal(place->importer->arena, value);
    HloLiteral *literal = hlo_literal_copy_to_arena(import_arena(place), elements);
    literal->shape = shape;
    HloConstantAttributes attributes = {.literal = literal};
    place->operation->results[0]->is_constant = true;
    return import_plain(place, HLO_OP_CONSTANT, &attributes);
}

// HLO's broadcast keeps sizes; a dimension of size 1 that grows is dropped by a reshape first.
HloStatus import_broadcast_to(ImportPlace *place, HloInstruction *operand, HloInts dims, const HloShape *shape,
                              HloInstruction **result) {
    if (dims.count != operand->shape->rank) {
        return import_error(place, HLO_INVALID_ARGUMENT, "there are %lld broadcast_dimensions for rank %d",
                            (long long)dims.count, operand->shape->rank);
    }
    HloInt64Vector kept_sizes = {0}, kept_dims = {0};
    for (int64_t i = 0; i < dims.count; i++) {
        int64_t to = dims.items[i];
        if (to < 0 || to >= shape->rank) {
            return import_error(place, HLO_INVALID_ARGUMENT, "broadcast dimension %lld is out of range", (long long)to);
        }
        if (operand->shape->dims[i] == 1 && shape->dims[to] != 1) continue;
        hlo_vector_push(import_arena(place), &kept_sizes, operand->shape->dims[i]);
        hlo_vector_push(import_arena(place), &kept_dims, to);
    }
    if (kept_dims.count != dims.count) {
        const HloShape *smaller =
            hlo_shape_with_dims(import_arena(place), operand->shape, kept_sizes.items, kept_sizes.count);
        HloReshapeAttributes reshape = {.inferred_dimension = HLO_ABSENT};
        HLO_TRY(import_emit(place, HLO_OP_RESHAPE, smaller, &operand, 1, &reshape, NULL, 0, &operand));
        operand->sharding = NULL;
    }
    HloDimensionsAttributes attributes = {{kept_dims.items, kept_dims.count}};
    return import_emit(place, HLO_OP_BROADCAST, shape, &operand, 1, &attributes, NULL, 0, result);
}

// Sizes of one may grow here, which HLO's broadcast does not allow: import_broadcast_to() drops them first.
static HloStatus import_broadcast_in_dim(ImportPlace *place) {
    HloInts dims;
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    HLO_TRY(import_ints(place, "broadcast_dimensions", &dims));
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_broadcast_to(place, operands[0], dims, shape, &result));
    return import_set_results(place, result);
}

// The old form: the given sizes come before the operand's dimensions.
static HloStatus import_broadcast(ImportPlace *place) {
    HloInts sizes;
    HLO_TRY(import_ints(place, "broadcast_sizes", &sizes));
    const MlirType *type = place->operation->operand_count ? place->operation->operands[0]->type : NULL;
    int64_t rank = type && type->kind == MLIR_TYPE_SHAPE ? type->shape->rank : 0;
    int64_t *dims = HLO_ARENA_NEW(import_arena(place), int64_t, rank);
    for (int64_t i = 0; i < rank; i++) dims[i] = sizes.count + i;
    const HloShape *shape;
    HLO_TRY(import_result_shape(place, &shape));
    // The leading sizes appear twice, here and in the result's type; inference sees only the latter.
    for (int64_t i = 0; i < sizes.count && i < shape->rank; i++) {
        if (shape->dims[i] != sizes.items[i] && shape->dims[i] != HLO_UNBOUNDED)
            return import_error(place, HLO_INVALID_ARGUMENT,
                                "broadcast_sizes have %lld, but the result's type has %lld", (long long)sizes.items[i],
                                (long long)shape->dims[i]);
    }
    HloDimensionsAttributes attributes = {{dims, rank}};
    return import_plain(place, HLO_OP_BROADCAST, &attributes);
}

// HLO's inferred dimension is only for dynamic reshapes.
static HloStatus import_reshape(ImportPlace *place) {
    HloReshapeAttributes attributes = {.inferred_dimension = HLO_ABSENT};
    return import_plain(place, HLO_OP_RESHAPE, &attributes);
}

static HloStatus import_pad(ImportPlace *place) {
    HloInts low, high, interior;
    HLO_TRY(import_ints(place, "edge_padding_low", &low));
    HLO_TRY(import_ints(place, "edge_padding_high", &high));
    HLO_TRY(import_ints(place, "interior_padding", &interior));
    if (low.count != high.count || low.count != interior.count) {
        return import_error(place, HLO_INVALID_ARGUMENT, "the lists of paddings differ in length");
    }
    HloPadDimension *dims = HLO_ARENA_NEW(import_arena(place), HloPadDimension, low.count);
    for (int64_t i = 0; i < low.count; i++) {
        dims[i] = (HloPadDimension){low.items[i], high.items[i], interior.items[i]};
    }
    HloPadAttributes attributes = {{dims, low.count}};
    return import_plain(place, HLO_OP_PAD, &attributes);
}

// A complex number becomes a real one by its real part, as XLA's builder does.
static HloStatus import_convert(ImportPlace *place) {
    HloInstruction **operands, *result;
    const HloShape *shape;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    const bool drops_part = hlo_type_is_complex(operands[0]->shape->type) && !hlo_type_is_complex(shape->type);
    if (drops_part) HLO_TRY(import_emit(place, HLO_OP_REAL, NULL, operands, 1, NULL, NULL, 0, &operands[0]));
    if (drops_part && operands[0]->shape->type == shape->type) return import_set_results(place, operands[0]);
    HLO_TRY(import_emit(place, HLO_OP_CONVERT, shape, operands, 1, NULL, NULL, 0, &result));
    return import_set_results(place, result);
}

// Broadcasts a scalar operand of an elementwise op to the shape of the result, as XLA's builder does.
static HloStatus broadcast_scalar(ImportPlace *place, HloInstruction **operand, const HloShape *shape) {
    if ((*operand)->shape->rank == shape->rank) return HLO_SUCCESS;
    const HloShape *wanted = hlo_shape_with_type(import_arena(place), shape, (*operand)->shape->type);
    HloDimensionsAttributes none = {0};
    HloInstruction *scalar = *operand;
    HLO_TRY(import_emit(place, HLO_OP_BROADCAST, wanted, &scalar, 1, &none, NULL, 0, operand));
    (*operand)->sharding = NULL;
    return HLO_SUCCESS;
}

// StableHLO lets the predicate of select and the bounds of clamp be scalars; HLO's text form does too, but passes and
// kernels expect equal shapes.
static HloStatus import_ternary(ImportPlace *place, HloOpcode opcode) {
    HloInstruction **operands = NULL, *result = NULL;
    const HloShape *shape = NULL;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    // The second operand always has the result's shape, and may know sizes that its type leaves open.
    const HloShape *full =
        hlo_shape_is_dynamic(shape) && operands[1]->shape->rank == shape->rank && hlo_shape_is_array(operands[1]->shape)
            ? operands[1]->shape
            : shape;
    for (int64_t i = 0; i < place->operation->operand_count; i++) HLO_TRY(broadcast_scalar(place, &operands[i], full));
    HLO_TRY(import_emit(place, opcode, shape, operands, place->operation->operand_count, NULL, NULL, 0, &result));
    return import_set_results(place, result);
}

static HloStatus import_select(ImportPlace *place) {
    return import_ternary(place, HLO_OP_SELECT);
}
static HloStatus import_clamp(ImportPlace *place) {
    return import_ternary(place, HLO_OP_CLAMP);
}

HloStatus import_compare_attributes(ImportPlace *place, HloCompareAttributes *attributes) {
    HLO_TRY(import_required(place, "comparison_direction"));
    HLO_TRY(import_enum(place, "comparison_direction", &hlo_enum_ComparisonDirection, 0, &attributes->direction));
    HLO_TRY(import_enum(place, "compare_type", &hlo_enum_ComparisonType, 0, &attributes->type));
    // HLO writes an order only if it differs from the operand type's own.
    if (attributes->type != HLO_ComparisonType_TOTALORDER) attributes->type = HLO_ComparisonType_DEFAULT;
    return HLO_SUCCESS;
}

static HloStatus import_compare(ImportPlace *place) {
    HloCompareAttributes attributes = {0};
    HLO_TRY(import_compare_attributes(place, &attributes));
    return import_plain(place, HLO_OP_COMPARE, &attributes);
}

const ImportRow *import_data_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"stablehlo.constant", import_constant, 0},
        {"chlo.constant", import_constant, 0},
        {"stablehlo.broadcast_in_dim", import_broadcast_in_dim, 1},
        {"stablehlo.broadcast", import_broadcast, 0},
        {"stablehlo.reshape", import_reshape, 0},
        {"stablehlo.pad", import_pad, 0},
        {"stablehlo.convert", import_convert, 1},
        {"stablehlo.select", import_select, 3},
        {"stablehlo.clamp", import_clamp, 3},
        {"stablehlo.compare", import_compare, 0},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
