// SPDX-License-Identifier: Apache-2.0
// Reads the types of the builtin and vhlo dialects. Codes: format.h. As with attributes, a type that HLO cannot express
// is kept by a descriptive name (MLIR_TYPE_OTHER) and refused only where a value has it. Unknown codes are not errors
// here: a type's entry has its own length, and nothing follows.
#include <assert.h>

#include "hlo/stablehlo/bytecode/format.h"
#include "hlo/stablehlo/bytecode/read_entry.h"
#include "hlo/stablehlo/bytecode/reader.h"

static const MlirType *shape_type(MlirFile *file, const HloShape *shape) {
    return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape});
}

static const MlirType *const *read_types(MlirFile *file, MlirCursor *cursor, int64_t *count) {
    *count = mlir_read_count(cursor);
    const MlirType **types = HLO_ARENA_NEW(file->arena, const MlirType *, *count);
    for (int64_t i = 0; i < *count && !cursor->error; i++) types[i] = mlir_read_type(file, cursor);
    return types;
}

// Inputs, then results.
static const MlirType *read_function(MlirFile *file, MlirCursor *cursor) {
    MlirType type = {.kind = MLIR_TYPE_FUNCTION};
    type.inputs = read_types(file, cursor, &type.input_count);
    type.results = read_types(file, cursor, &type.result_count);
    return mlir_new_type(file->arena, type);
}

// Records an error of another module in the cursor, which adds the offset.
static void take_status(MlirCursor *cursor, HloStatus status) {
    if (!status) return;
    mlir_cursor_fail(cursor, "%s", hlo_status_message(status));
    hlo_status_free(status);
}

static const MlirType *read_tuple(MlirFile *file, MlirCursor *cursor) {
    int64_t count;
    const MlirType *const *types = read_types(file, cursor, &count);
    const MlirType *tuple = NULL;
    if (!cursor->error) take_status(cursor, mlir_tuple_type(file->arena, types, count, &tuple));
    return cursor->error ? NULL : tuple;
}

// A future of one value; StableHLO's own operations produce no others.
static const MlirType *read_future(MlirFile *file, MlirCursor *cursor) {
    int64_t count;
    const MlirType *const *types = read_types(file, cursor, &count);
    if (cursor->error) return NULL;
    return count == 1 ? mlir_future_type(file->arena, types[0])
                      : mlir_other_type(file->arena, "future of several values");
}

// `encoded`: with an encoding attribute, which vhlo has before the sizes and builtin after the element type. Bounds are
// the only encoding that has a meaning here.
static const MlirType *read_tensor(MlirFile *file, MlirCursor *cursor, bool encoded, bool encoding_first) {
    const MlirAttribute *encoding = encoded && encoding_first ? mlir_read_attribute(file, cursor) : NULL;
    HloInt64Vector dims = {0};
    int64_t rank = mlir_read_count(cursor);
    for (int64_t i = 0; i < rank; i++) hlo_vector_push(file->arena, &dims, mlir_read_signed(cursor));
    const MlirType *element = mlir_read_type(file, cursor);
    if (encoded && !encoding_first) encoding = mlir_read_attribute(file, cursor);
    if (cursor->error || !element) return NULL;
    const HloInts *bounds = encoding && encoding->kind == MLIR_BOUNDS ? &encoding->ints : NULL;
    const MlirType *type = NULL;
    take_status(cursor, mlir_tensor_type(file->arena, element, dims.items, dims.count, bounds, &type));
    return type;
}

static const MlirType *read_complex(MlirFile *file, MlirCursor *cursor) {
    return mlir_complex_type(file->arena, mlir_read_type(file, cursor));
}

// The shape of a vector or of an array in memory. What follows in the entry, the layout, has no meaning here.
static const MlirType *read_kernel_type(MlirFile *file, MlirCursor *cursor, uint64_t code) {
    switch (code) {
        case BUILTIN_MEMREF_WITH_SPACE_TYPE: return read_tensor(file, cursor, true, true);
        case BUILTIN_MEMREF_TYPE:
        case BUILTIN_VECTOR_TYPE: return read_tensor(file, cursor, false, false);
        default: return NULL;
    }
}

static const MlirType *decode_builtin(MlirFile *file, MlirCursor *cursor) {
    uint64_t code = mlir_read_varint(cursor);
    if (file->is_kernel) {
        const MlirType *type = read_kernel_type(file, cursor, code);
        if (type || cursor->error) return type;
    }
    switch (code) {
        case BUILTIN_INTEGER_TYPE: {
            // The width, and two bits for the sign: 0 signless, 1 signed, 2 unsigned.
            uint64_t tagged = mlir_read_varint(cursor);
            return mlir_integer_type(file->arena, tagged >> 2, (tagged & 3) == 2);
        }
        case BUILTIN_INDEX_TYPE: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_INDEX});
        case BUILTIN_FUNCTION_TYPE: return read_function(file, cursor);
        case BUILTIN_BF16_TYPE: return mlir_element_type(file->arena, HLO_BF16);
        case BUILTIN_F16_TYPE: return mlir_element_type(file->arena, HLO_F16);
        case BUILTIN_F32_TYPE: return mlir_element_type(file->arena, HLO_F32);
        case BUILTIN_F64_TYPE: return mlir_element_type(file->arena, HLO_F64);
        case BUILTIN_COMPLEX_TYPE: return read_complex(file, cursor);
        case BUILTIN_NONE_TYPE: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_NONE});
        case BUILTIN_TENSOR_TYPE: return read_tensor(file, cursor, false, false);
        case BUILTIN_ENCODED_TENSOR_TYPE: return read_tensor(file, cursor, true, false);
        case BUILTIN_TUPLE_TYPE: return read_tuple(file, cursor);
        case BUILTIN_UNRANKED_TENSOR_TYPE: return mlir_other_type(file->arena, "unranked tensor");
        default: break;
    }
    return mlir_other_type(file->arena, "a builtin type that HLO does not have");
}

static const MlirType *decode_vhlo(MlirFile *file, MlirCursor *cursor) {
    static const HloType elements[] = {
#define VHLO_TYPE(type, code, since) [code] = HLO_##type,
#include "hlo/stablehlo/bytecode/vhlo_types.def"
#undef VHLO_TYPE
    };
    uint64_t code = mlir_read_varint(cursor);
    if (code < HLO_COUNT_OF(elements) && elements[code] != HLO_INVALID)
        return mlir_element_type(file->arena, elements[code]);
    switch (code) {
        case VHLO_COMPLEX_TYPE: return read_complex(file, cursor);
        case VHLO_FUNCTION_TYPE: return read_function(file, cursor);
        case VHLO_INDEX_TYPE: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_INDEX});
        case VHLO_TENSOR_TYPE: return read_tensor(file, cursor, false, false);
        case VHLO_ENCODED_TENSOR_TYPE: return read_tensor(file, cursor, true, true);
        case VHLO_TOKEN_TYPE: return shape_type(file, hlo_shape_token(file->arena));
        case VHLO_TUPLE_TYPE: return read_tuple(file, cursor);
        case VHLO_NONE_TYPE: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_NONE});
        case VHLO_TF32_TYPE: return mlir_other_type(file->arena, MLIR_TF32);
        case VHLO_QUANTIZED_TYPE:
        case VHLO_QUANTIZED_PER_AXIS_TYPE: return mlir_other_type(file->arena, "quantized type");
        case VHLO_F6E2M3FN_TYPE:
        case VHLO_F6E3M2FN_TYPE: return mlir_other_type(file->arena, "6-bit float type");
        case VHLO_FUTURE_TYPE: return read_future(file, cursor);
        case VHLO_BUFFER_TYPE:
            return read_tensor(file, cursor, false, false);  // a buffer (the result of Pin) is its array
        default: break;
    }
    return mlir_other_type(file->arena, "a vhlo type that HLO does not have");
}

const MlirType *mlir_decode_type(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor) {
    assert(entry && cursor);
    if (!entry->is_custom) return mlir_other_type(file->arena, "a type in assembly form");
    if (entry->dialect == MLIR_DIALECT_BUILTIN) return decode_builtin(file, cursor);
    if (entry->dialect == MLIR_DIALECT_VHLO) return decode_vhlo(file, cursor);
    if (entry->dialect == MLIR_DIALECT_STABLEHLO && mlir_read_varint(cursor) == STABLEHLO_TOKEN_TYPE)
        return shape_type(file, hlo_shape_token(file->arena));
    return mlir_other_type(file->arena, "a type of an unknown dialect");
}
