// SPDX-License-Identifier: Apache-2.0
// Imports operations of chlo that are more than a function of elements: implicit broadcasts, top_k, scan.
//
// An implicit broadcast is NumPy's: shapes are aligned at their last dimensions (or as given by broadcast_dimensions),
// and a size of 1 stretches.
//
//   chlo.broadcast_add %a, %b : (tensor<4x1xf32>, tensor<3xf32>) -> tensor<4x3xf32>
//   ->  add(broadcast(reshape(a)), broadcast(b))
#include <assert.h>
#include <string.h>

#include "hlo/ir/infer/support.h"
#include "hlo/stablehlo/import/import.h"

// ---------------------------------------------------------------------------------------------------------------------
// Implicit broadcasts

// broadcast_add and its siblings are the operation without the prefix, after NumPy's broadcasting of their operands to
// one shape.
typedef struct BroadcastRow {
    const char *name;
    HloOpcode opcode;  // HLO_OPCODE_COUNT: the operation of chlo without "broadcast_"
} BroadcastRow;

// clang-format off
//  ROW(name, opcode as above, number of operands)
#define BROADCAST_ROWS(ROW) \
    ROW(add,                    HLO_OP_ADD,                     2)   \
    ROW(and,                    HLO_OP_AND,                     2)   \
    ROW(atan2,                  HLO_OP_ATAN2,                   2)   \
    ROW(compare,                HLO_OP_COMPARE,                 2)   \
    ROW(complex,                HLO_OP_COMPLEX,                 2)   \
    ROW(divide,                 HLO_OP_DIVIDE,                  2)   \
    ROW(maximum,                HLO_OP_MAXIMUM,                 2)   \
    ROW(minimum,                HLO_OP_MINIMUM,                 2)   \
    ROW(multiply,               HLO_OP_MULTIPLY,                2)   \
    ROW(next_after,             HLO_OPCODE_COUNT,               2)   \
    ROW(or,                     HLO_OP_OR,                      2)   \
    ROW(polygamma,              HLO_OPCODE_COUNT,               2)   \
    ROW(power,                  HLO_OP_POWER,                   2)   \
    ROW(remainder,              HLO_OP_REMAINDER,               2)   \
    ROW(select,                 HLO_OP_SELECT,                  3)   \
    ROW(shift_left,             HLO_OP_SHIFT_LEFT,              2)   \
    ROW(shift_right_arithmetic, HLO_OP_SHIFT_RIGHT_ARITHMETIC,  2)   \
    ROW(shift_right_logical,    HLO_OP_SHIFT_RIGHT_LOGICAL,     2)   \
    ROW(subtract,               HLO_OP_SUBTRACT,                2)   \
    ROW(xor,                    HLO_OP_XOR,                     2)   \
    ROW(zeta,                   HLO_OPCODE_COUNT,               2)
// clang-format on

static const BroadcastRow broadcast_rows[] = {
#define ROW(name, opcode, operands) {#name, opcode},
    BROADCAST_ROWS(ROW)
#undef ROW
};

static const size_t prefix_length = sizeof("chlo.broadcast_") - 1;

// The dimensions of the result that an operand's dimensions become: the last ones, unless the operation lists them for
// an operand of smaller rank.
static HloStatus places_of(const ImportPlace *place, const HloShape *operand, int64_t rank, HloInts *dims) {
    HLO_TRY(import_ints(place, "broadcast_dimensions", dims));
    if (dims->count == operand->rank && operand->rank < rank) return HLO_SUCCESS;
    if (dims->count && operand->rank < rank && place->operation->operand_count == 2)
        return import_error(place, HLO_INVALID_ARGUMENT, "%lld broadcast dimensions for an operand of rank %lld",
                            (long long)dims->count, (long long)operand->rank);
    int64_t *items = HLO_ARENA_NEW(import_arena(place), int64_t, operand->rank);
    for (int64_t i = 0; i < operand->rank; i++) items[i] = rank - operand->rank + i;
    *dims = (HloInts){items, operand->rank};
    return HLO_SUCCESS;
}

// The sizes that all operands are stretched to.
static HloStatus common_sizes(const ImportPlace *place, HloInstruction *const *operands, int64_t count, int64_t rank,
                              int64_t *sizes) {
    for (int64_t d = 0; d < rank; d++) sizes[d] = 1;
    for (int64_t i = 0; i < count; i++) {
        const HloShape *shape = operands[i]->shape;
        HloInts dims;
        HLO_TRY(places_of(place, shape, rank, &dims));
        for (int64_t d = 0; d < shape->rank; d++) {
            if (dims.items[d] < 0 || dims.items[d] >= rank)
                return import_error(place, HLO_INVALID_ARGUMENT, "broadcast dimension %lld is out of range",
                                    (long long)dims.items[d]);
            int64_t *size = &sizes[dims.items[d]];
            const bool fits = *size == 1 || shape->dims[d] == 1 || *size == shape->dims[d];
            if (!fits)
                return import_error(place, HLO_INVALID_ARGUMENT, "sizes %lld and %lld are incompatible",
                                    (long long)*size, (long long)shape->dims[d]);
            if (shape->dims[d] != 1) *size = shape->dims[d];
        }
    }
    return HLO_SUCCESS;
}

// Stretches the operands to one shape.
static HloStatus stretch(ImportPlace *place, HloInstruction **operands, int64_t count) {
    HloArena *arena = import_arena(place);
    int64_t rank = 0;
    bool alike = true, dynamic = false;
    for (int64_t i = 0; i < count; i++) {
        const HloShape *shape = operands[i]->shape;
        if (!hlo_shape_is_array(shape)) return import_error(place, HLO_INVALID_ARGUMENT, "an operand is not an array");
        if (shape->rank > rank) rank = shape->rank;
        alike = alike && hlo_shape_equal(shape, operands[0]->shape, HLO_COMPARE_DIMS_ONLY);
        dynamic = dynamic || hlo_shape_is_dynamic(shape);
    }
    if (alike) return HLO_SUCCESS;
    if (dynamic) return import_error(place, HLO_UNIMPLEMENTED, "sizes to broadcast to are not constant");
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, rank);
    HLO_TRY(common_sizes(place, operands, count, rank, sizes));
    for (int64_t i = 0; i < count; i++) {
        HLO_TRY(hlo_shape_check_dims(operands[i]->shape->type, sizes, rank));
        const HloShape *wanted = hlo_shape_with_dims(arena, operands[i]->shape, sizes, rank);
        if (hlo_shape_equal(wanted, operands[i]->shape, HLO_COMPARE_DIMS_ONLY)) continue;
        HloInts dims;
        HLO_TRY(places_of(place, operands[i]->shape, rank, &dims));
        HLO_TRY(import_broadcast_to(place, operands[i], dims, wanted, &operands[i]));
        operands[i]->sharding = NULL;
    }
    return HLO_SUCCESS;
}

// Finds a row by the part of the name that follows "chlo.broadcast_".
static const BroadcastRow *find_broadcast(const char *name) {
    for (size_t i = 0; i < HLO_COUNT_OF(broadcast_rows); i++) {
        if (strcmp(broadcast_rows[i].name, name + prefix_length) == 0) return &broadcast_rows[i];
    }
    return NULL;
}

// broadcast_compare is the only one with its own attributes.
static HloStatus import_broadcasting(ImportPlace *place) {
    const BroadcastRow *row = find_broadcast(place->operation->name);
    assert(row); /* the rows of operations have the same names */
    HloInstruction **operands, *result;
    const int64_t count = place->operation->operand_count;
    HloCompareAttributes compare = {0};
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(stretch(place, operands, count));
    if (row->opcode == HLO_OPCODE_COUNT) {
        const char *name = hlo_arena_format(place->importer->arena, "chlo.%s", row->name);
        HLO_TRY(import_chlo_value(place, name, operands, count, &result));
        return import_set_results(place, result);
    }
    const bool is_compare = row->opcode == HLO_OP_COMPARE;
    if (is_compare) HLO_TRY(import_compare_attributes(place, &compare));
    const HloShape *shape;
    HLO_TRY(import_result_shape(place, &shape));
    HLO_TRY(import_emit(place, row->opcode, shape, operands, count, is_compare ? &compare : NULL, NULL, 0, &result));
    return import_set_results(place, result);
}

// ---------------------------------------------------------------------------------------------------------------------
// Others

// A number in the shape of the operand.
static HloStatus import_constant_like(ImportPlace *place) {
    const MlirAttribute *value = mlir_attribute(place->operation, "value");
    HloInstruction **operands, *number, *result;
    const HloShape *shape;
    HloArena *arena = import_arena(place);
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_result_shape(place, &shape));
    if (!value || !hlo_shape_is_array(shape) || !hlo_shape_is_array(operands[0]->shape))
        return import_error(place, HLO_INVALID_ARGUMENT, "a value and an array are needed");
    if (value->type && value->type->kind == MLIR_TYPE_ELEMENT && value->type->element != shape->type)
        return import_error(place, HLO_INVALID_ARGUMENT, "a value of type %s in an array of %s",
                            hlo_type_text(value->type->element), hlo_type_text(shape->type));
    const HloShape *like = hlo_shape_with_type(arena, operands[0]->shape, shape->type);
    if (!hlo_shape_is_dynamic(shape) && !hlo_shape_equal(shape, like, HLO_COMPARE_IGNORE_LAYOUT))
        return import_error(place, HLO_INVALID_ARGUMENT, "the result has another shape than the operand");
    const HloShape *scalar = hlo_shape_with_default_layout(arena, hlo_shape_scalar(arena, shape->type));
    if (hlo_shape_is_dynamic(like)) return import_error(place, HLO_UNIMPLEMENTED, "the sizes are not constant");
    HloLiteral *literal = hlo_literal_in_arena(arena, scalar);
    switch (value->kind) {
        case MLIR_FLOAT: hlo_literal_set_double(literal, 0, value->real); break;
        case MLIR_INTEGER:
        case MLIR_BOOL: hlo_literal_set_int64(literal, 0, value->integer); break;
        default: return import_error(place, HLO_UNIMPLEMENTED, "the value is neither a number nor a boolean");
    }
    const HloConstantAttributes constant = {literal};
    HLO_TRY(import_emit(place, HLO_OP_CONSTANT, scalar, NULL, 0, &constant, NULL, 0, &number));
    HLO_TRY(import_broadcast_to(place, number, (HloInts){0}, like, &result));
    return import_set_results(place, result);
}

// chlo.top_k only selects the largest elements; mhlo.topk could also select the smallest.
static HloStatus import_top_k(ImportPlace *place) {
    HloTopKAttributes attributes = {.largest = true};
    HLO_TRY(import_fields(place, HLO_OP_TOPK, &attributes));
    return import_plain(place, HLO_OP_TOPK, &attributes);
}

// The operands are inputs and carried values, in this order; so are the arguments of the region. Its results are the
// stacked values, then the carried ones, which HLO counts.
static HloStatus import_scan(ImportPlace *place) {
    const MlirOperation *operation = place->operation;
    HloScanAttributes attributes = {0};
    const MlirAttribute *associative = mlir_attribute(operation, "is_associative");
    HloInts segments;
    int64_t dimension;
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_int(place, "dimension", 0, &dimension));
    HLO_TRY(import_bool(place, "is_reverse", false, &attributes.is_reverse));
    HLO_TRY(import_ints(place, "operandSegmentSizes", &segments));
    if (segments.count != 2 || segments.items[1] < 0 || segments.items[1] > operation->operand_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "the number of carried operands is missing");
    // The length of the inputs may be given again, for loops without inputs; HLO does not record it.
    const MlirAttribute *length = mlir_attribute(operation, "scan_dim_size");
    for (int64_t i = 0; length && i < operation->operand_count - segments.items[1]; i++) {
        const HloShape *shape = operands[i]->shape;
        if (dimension >= 0 && dimension < shape->rank && !hlo_sizes_agree(shape->dims[dimension], length->integer))
            return import_error(place, HLO_INVALID_ARGUMENT, "input %lld has %lld elements, but %lld are scanned",
                                (long long)i, (long long)shape->dims[dimension], (long long)length->integer);
    }
    attributes.num_carries = segments.items[1];
    attributes.dimensions = hlo_ints(import_arena(place), &dimension, 1);
    if (associative) attributes.is_associative = associative->integer ? 1 : 2;  // as attributes.h counts
    return import_with_region(place, HLO_OP_SCAN, &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// The rows

const ImportRow *import_chlo_structured_rows(int64_t *count) {
    static const ImportRow rows[] = {{"chlo.constant_like", import_constant_like, 1},
                                     {"chlo.scan", import_scan, 0},
                                     {"chlo.top_k", import_top_k, 1},
#define ROW(name, opcode, operands) {"chlo.broadcast_" #name, import_broadcasting, operands},
                                     BROADCAST_ROWS(ROW)
#undef ROW
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
