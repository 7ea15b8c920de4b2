// SPDX-License-Identifier: Apache-2.0
// Types of the builtin and vhlo dialects. Codes: mlir BuiltinDialectBytecode.td, stablehlo VhloBytecode.cpp.
#include <string.h>

#include "hlo/stablehlo/bytecode.h"
#include "hlo/stablehlo/bytecode_entry.h"

static const MlirType *new_type(MlirFile *file, MlirType type) {
    return hlo_arena_copy(file->arena, &type, sizeof(type));
}

static const MlirType *element_type(MlirFile *file, HloType element) {
    return new_type(file, (MlirType){.kind = MLIR_TYPE_ELEMENT, .element = element});
}

static const MlirType *shape_type(MlirFile *file, const HloShape *shape) {
    return new_type(file, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape});
}

static const MlirType *other_type(MlirFile *file, const char *name) {
    return new_type(file, (MlirType){.kind = MLIR_TYPE_OTHER, .name = name});
}

static const MlirType *const *read_types(MlirFile *file, MlirCursor *cursor, int64_t *count) {
    *count = mlir_read_count(cursor);
    const MlirType **types = HLO_ARENA_NEW(file->arena, const MlirType *, *count);
    for (int64_t i = 0; i < *count && !cursor->error; i++) types[i] = mlir_read_type(file, cursor);
    return types;
}

static const MlirType *read_function(MlirFile *file, MlirCursor *cursor) {
    MlirType type = {.kind = MLIR_TYPE_FUNCTION};
    type.inputs = read_types(file, cursor, &type.input_count);
    type.results = read_types(file, cursor, &type.result_count);
    return new_type(file, type);
}

static const MlirType *read_tuple(MlirFile *file, MlirCursor *cursor) {
    int64_t count;
    const MlirType *const *types = read_types(file, cursor, &count);
    const HloShape **elements = HLO_ARENA_NEW(file->arena, const HloShape *, count);
    for (int64_t i = 0; i < count && !cursor->error; i++) {
        if (types[i]->kind != MLIR_TYPE_SHAPE) mlir_cursor_fail(cursor, "a tuple holds something that has no shape");
        elements[i] = types[i]->shape;
    }
    return cursor->error ? NULL : shape_type(file, hlo_shape_tuple(file->arena, elements, count));
}

// The bounds of dynamic dimensions, if the encoding has them.
static const MlirAttribute *bounds_of(const MlirAttribute *encoding) {
    return encoding && encoding->kind == MLIR_BOUNDS ? encoding : NULL;
}

static const HloShape *tensor_shape(MlirFile *file, MlirCursor *cursor, const HloInt64Vector *dims,
                                    const MlirType *element, const MlirAttribute *encoding) {
    if (cursor->error || !element) return NULL;
    // Layouts are tensors of index: 64-bit numbers.
    HloType type = element->kind == MLIR_TYPE_INDEX ? HLO_S64 : element->element;
    if (element->kind != MLIR_TYPE_ELEMENT && element->kind != MLIR_TYPE_INDEX) return NULL;
    const MlirAttribute *bounds = bounds_of(encoding);
    int64_t *sizes = HLO_ARENA_NEW(file->arena, int64_t, dims->count);
    bool *dynamic = HLO_ARENA_NEW(file->arena, bool, dims->count);
    bool any = false;
    for (int64_t i = 0; i < dims->count; i++) {
        sizes[i] = dims->items[i];
        if (dims->items[i] >= 0) continue;
        any = dynamic[i] = true;
        bool bounded = bounds && i < bounds->ints.count && bounds->ints.items[i] >= 0;
        sizes[i] = bounded ? bounds->ints.items[i] : HLO_UNBOUNDED;
    }
    HloStatus status = hlo_shape_check_dims(type, sizes, dims->count);
    if (status) {
        mlir_cursor_fail(cursor, "%s", hlo_status_message(status));
        hlo_status_free(status);
        return NULL;
    }
    HloShape *shape = (HloShape *)(uintptr_t)hlo_shape_array(file->arena, type, sizes, dims->count);
    if (any) shape->dynamic = dynamic;
    return shape;
}

static const MlirType *read_tensor(MlirFile *file, MlirCursor *cursor, bool encoded, bool encoding_first) {
    const MlirAttribute *encoding = encoded && encoding_first ? mlir_read_attribute(file, cursor) : NULL;
    HloInt64Vector dims = {0};
    int64_t rank = mlir_read_count(cursor);
    for (int64_t i = 0; i < rank; i++) hlo_vector_push(file->arena, &dims, mlir_read_signed(cursor));
    const MlirType *element = mlir_read_type(file, cursor);
    if (encoded && !encoding_first) encoding = mlir_read_attribute(file, cursor);
    if (element && element->kind == MLIR_TYPE_OTHER) return element;
    const HloShape *shape = tensor_shape(file, cursor, &dims, element, encoding);
    if (!shape) {
        mlir_cursor_fail(cursor, "a tensor has no element type");
        return NULL;
    }
    return shape_type(file, shape);
}

static const MlirType *read_complex(MlirFile *file, MlirCursor *cursor) {
    const MlirType *part = mlir_read_type(file, cursor);
    if (!part || part->kind != MLIR_TYPE_ELEMENT) return other_type(file, "complex");
    if (part->element == HLO_F32) return element_type(file, HLO_C64);
    return part->element == HLO_F64 ? element_type(file, HLO_C128) : other_type(file, "complex of another type");
}

static const MlirType *integer_type(MlirFile *file, uint64_t width, bool is_unsigned) {
    static const struct {
        uint64_t width;
        HloType is_signed, is_unsigned;
    } table[] = {{2, HLO_S2, HLO_U2},    {4, HLO_S4, HLO_U4},    {8, HLO_S8, HLO_U8},
                 {16, HLO_S16, HLO_U16}, {32, HLO_S32, HLO_U32}, {64, HLO_S64, HLO_U64}};
    if (width == 1) return element_type(file, HLO_PRED);
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (table[i].width == width) return element_type(file, is_unsigned ? table[i].is_unsigned : table[i].is_signed);
    }
    return other_type(file, "integer of an unusual width");
}

static const MlirType *decode_builtin(MlirFile *file, MlirCursor *cursor) {
    uint64_t code = mlir_read_varint(cursor);
    switch (code) {
        case 0: {
            uint64_t tagged = mlir_read_varint(cursor);
            return integer_type(file, tagged >> 2, (tagged & 3) == 2);
        }
        case 1: return new_type(file, (MlirType){.kind = MLIR_TYPE_INDEX});
        case 2: return read_function(file, cursor);
        case 3: return element_type(file, HLO_BF16);
        case 4: return element_type(file, HLO_F16);
        case 5: return element_type(file, HLO_F32);
        case 6: return element_type(file, HLO_F64);
        case 9: return read_complex(file, cursor);
        case 12: return new_type(file, (MlirType){.kind = MLIR_TYPE_NONE});
        case 13: return read_tensor(file, cursor, false, false);
        case 14: return read_tensor(file, cursor, true, false);
        case 15: return read_tuple(file, cursor);
        case 18: return other_type(file, "unranked tensor");
        default: break;
    }
    return other_type(file, "a builtin type that HLO does not know");
}

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
    if (code < HLO_COUNT_OF(elements) && elements[code] != HLO_INVALID) return element_type(file, elements[code]);
    switch (code) {
        case 1: return read_complex(file, cursor);
        case 8: return read_function(file, cursor);
        case 9: return new_type(file, (MlirType){.kind = MLIR_TYPE_INDEX});
        case 20: return read_tensor(file, cursor, false, false);
        case 21: return read_tensor(file, cursor, true, true);
        case 22: return shape_type(file, hlo_shape_token(file->arena));
        case 23: return read_tuple(file, cursor);
        case 33: return new_type(file, (MlirType){.kind = MLIR_TYPE_NONE});
        case 24:
        case 30: return other_type(file, "quantized type");
        case 38:
        case 39: return other_type(file, "6-bit float type");
        case 41: {
            const MlirType *inner = read_tensor(file, cursor, false, false);
            return inner ? other_type(file, "buffer") : NULL;
        }
        default: break;
    }
    return other_type(file, "a vhlo type that HLO does not know");
}

const MlirType *mlir_decode_type(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor) {
    if (!entry->is_custom) return other_type(file, "a type in assembly form");
    if (entry->dialect == MLIR_DIALECT_BUILTIN) return decode_builtin(file, cursor);
    if (entry->dialect == MLIR_DIALECT_VHLO) return decode_vhlo(file, cursor);
    // The one type that stands unchanged beside vhlo, where sdy operations take tokens.
    if (entry->dialect == MLIR_DIALECT_STABLEHLO && mlir_read_varint(cursor) == 0)
        return shape_type(file, hlo_shape_token(file->arena));
    return other_type(file, "a type of an unknown dialect");
}
