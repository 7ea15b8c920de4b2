// SPDX-License-Identifier: Apache-2.0
// Types of the builtin and vhlo dialects. Codes: mlir BuiltinDialectBytecode.td, stablehlo VhloBytecode.cpp.
// As with attributes, a type that HLO has no word for is kept by a name that says what it is (MLIR_TYPE_OTHER) and
// refused only where a value is of it. Unknown codes are no errors here: a type's entry has its own length, and nothing
// follows.
#include <assert.h>

#include "hlo/stablehlo/bytecode.h"
#include "hlo/stablehlo/bytecode_entry.h"

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

// Leaves an error of another room in the cursor, which gives it the offset.
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

// A future of one value; StableHLO's own operations give no others.
static const MlirType *read_future(MlirFile *file, MlirCursor *cursor) {
    int64_t count;
    const MlirType *const *types = read_types(file, cursor, &count);
    if (cursor->error) return NULL;
    return count == 1 ? mlir_future_type(file->arena, types[0])
                      : mlir_other_type(file->arena, "future of several values");
}

// `encoded`: with an encoding attribute, which vhlo has before the sizes and builtin behind the element type. Bounds
// are the only encoding that means something here.
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

static const MlirType *decode_builtin(MlirFile *file, MlirCursor *cursor) {
    uint64_t code = mlir_read_varint(cursor);
    switch (code) {
        case 0: {
            uint64_t tagged = mlir_read_varint(cursor);
            return mlir_integer_type(file->arena, tagged >> 2, (tagged & 3) == 2);
        }
        case 1: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_INDEX});
        case 2: return read_function(file, cursor);
        case 3: return mlir_element_type(file->arena, HLO_BF16);
        case 4: return mlir_element_type(file->arena, HLO_F16);
        case 5: return mlir_element_type(file->arena, HLO_F32);
        case 6: return mlir_element_type(file->arena, HLO_F64);
        case 9: return read_complex(file, cursor);
        case 12: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_NONE});
        case 13: return read_tensor(file, cursor, false, false);
        case 14: return read_tensor(file, cursor, true, false);
        case 15: return read_tuple(file, cursor);
        case 18: return mlir_other_type(file->arena, "unranked tensor");
        default: break;
    }
    return mlir_other_type(file->arena, "a builtin type that HLO does not know");
}

// Codes of vhlo_encoding::TypeCode in VhloBytecode.cpp; the table has the element types.
static const MlirType *decode_vhlo(MlirFile *file, MlirCursor *cursor) {
    static const HloType elements[] = {
        [0] = HLO_PRED,       [2] = HLO_BF16,   [3] = HLO_F16,         [4] = HLO_F32,         [5] = HLO_F64,
        [6] = HLO_F8E4M3FN,   [7] = HLO_F8E5M2, [10] = HLO_S4,         [11] = HLO_S8,         [12] = HLO_S16,
        [13] = HLO_S32,       [14] = HLO_S64,   [15] = HLO_U4,         [16] = HLO_U8,         [17] = HLO_U16,
        [18] = HLO_U32,       [19] = HLO_U64,   [27] = HLO_F8E4M3FNUZ, [28] = HLO_F8E5M2FNUZ, [29] = HLO_F8E4M3B11FNUZ,
        [31] = HLO_S2,        [32] = HLO_U2,    [35] = HLO_F8E4M3,     [36] = HLO_F8E3M4,     [37] = HLO_F4E2M1FN,
        [40] = HLO_F8E8M0FNU,
    };
    uint64_t code = mlir_read_varint(cursor);
    if (code < HLO_COUNT_OF(elements) && elements[code] != HLO_INVALID)
        return mlir_element_type(file->arena, elements[code]);
    switch (code) {
        case 1: return read_complex(file, cursor);
        case 8: return read_function(file, cursor);
        case 9: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_INDEX});
        case 20: return read_tensor(file, cursor, false, false);
        case 21: return read_tensor(file, cursor, true, true);
        case 22: return shape_type(file, hlo_shape_token(file->arena));
        case 23: return read_tuple(file, cursor);
        case 33: return mlir_new_type(file->arena, (MlirType){.kind = MLIR_TYPE_NONE});
        case 34: return mlir_other_type(file->arena, MLIR_TF32);
        case 24:
        case 30: return mlir_other_type(file->arena, "quantized type");
        case 38:
        case 39: return mlir_other_type(file->arena, "6-bit float type");
        case 42: return read_future(file, cursor);
        case 41: return read_tensor(file, cursor, false, false);  // a buffer (what Pin gives) is its array
        default: break;
    }
    return mlir_other_type(file->arena, "a vhlo type that HLO does not know");
}

const MlirType *mlir_decode_type(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor) {
    assert(entry && cursor);
    if (!entry->is_custom) return mlir_other_type(file->arena, "a type in assembly form");
    if (entry->dialect == MLIR_DIALECT_BUILTIN) return decode_builtin(file, cursor);
    if (entry->dialect == MLIR_DIALECT_VHLO) return decode_vhlo(file, cursor);
    // The one type that stands unchanged beside vhlo, where sdy operations take tokens.
    if (entry->dialect == MLIR_DIALECT_STABLEHLO && mlir_read_varint(cursor) == 0)
        return shape_type(file, hlo_shape_token(file->arena));
    return mlir_other_type(file->arena, "a type of an unknown dialect");
}
