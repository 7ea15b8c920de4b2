// SPDX-License-Identifier: Apache-2.0
// Reads the attributes of the builtin, vhlo and sdy dialects as entries of bytecode: a code (format.h) and its parts.
//
// Entries refer to each other by number, in any order, and are decoded on first use. So an unknown code is an error
// only where a program needs the attribute; the content of unused entries does not matter.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/format.h"
#include "hlo/stablehlo/bytecode/read_entry.h"
#include "hlo/stablehlo/bytecode/reader.h"

enum { DEEPEST_NESTING = 200 };

static const MlirAttribute *decode_attribute(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor);

// ---------------------------------------------------------------------------------------------------------------------
// The tables, decoded on demand

// The entry's own cursor ends where the next entry begins, so that a wrong length cannot read another entry's bytes.
// Entries that refer to themselves, directly or through others, are detected by `is_busy`.
static const void *decode_new_entry(MlirFile *file, MlirCursor *from, MlirEntry *entry, bool is_type) {
    if (entry->is_busy || file->depth >= DEEPEST_NESTING) {
        mlir_cursor_fail(from, "attributes or types nest too deeply or contain themselves");
        return NULL;
    }
    MlirCursor cursor = {.begin = from->begin, .next = entry->data, .end = entry->data + entry->length};
    entry->is_busy = true;
    file->depth++;
    entry->decoded = is_type ? (const void *)mlir_decode_type(file, entry, &cursor)
                             : (const void *)decode_attribute(file, entry, &cursor);
    file->depth--;
    entry->is_busy = false;
    if (cursor.error) {
        from->error = cursor.error;
        entry->decoded = NULL;
    }
    return entry->decoded;
}

static inline const void *decode_entry(MlirFile *file, MlirCursor *from, MlirEntry *entries, int64_t count,
                                       uint64_t index, bool is_type) {
    assert(count >= 0);
    if (from->error) return NULL;
    if (index >= (uint64_t)count) {
        mlir_cursor_fail(from, "there is no %s %llu", is_type ? "type" : "attribute", (unsigned long long)index);
        return NULL;
    }
    return entries[index].decoded ? entries[index].decoded : decode_new_entry(file, from, &entries[index], is_type);
}

const MlirType *mlir_type_at(MlirFile *file, MlirCursor *cursor, uint64_t index) {
    return decode_entry(file, cursor, file->types, file->type_count, index, true);
}

const MlirType *mlir_read_type(MlirFile *file, MlirCursor *cursor) {
    return mlir_type_at(file, cursor, mlir_read_varint(cursor));
}

const MlirAttribute *mlir_attribute_at(MlirFile *file, MlirCursor *cursor, uint64_t index) {
    return decode_entry(file, cursor, file->attributes, file->attribute_count, index, false);
}

const MlirAttribute *mlir_read_attribute(MlirFile *file, MlirCursor *cursor) {
    return mlir_attribute_at(file, cursor, mlir_read_varint(cursor));
}

// index << 1 | 1, or 0 for none.
static const MlirAttribute *read_optional(MlirFile *file, MlirCursor *cursor) {
    uint64_t tagged = mlir_read_varint(cursor);
    return tagged & 1 ? mlir_attribute_at(file, cursor, tagged >> 1) : NULL;
}

static const MlirAttribute *new_attribute(MlirFile *file, MlirAttribute attribute) {
    return hlo_arena_copy(file->arena, &attribute, sizeof(attribute));
}

// A list of attributes, as an attribute of this kind with no other field set.
static MlirAttribute read_list(MlirFile *file, MlirCursor *cursor, MlirAttributeKind kind) {
    int64_t count = mlir_read_count(cursor);
    const MlirAttribute **items = HLO_ARENA_NEW(file->arena, const MlirAttribute *, count);
    for (int64_t i = 0; i < count && !cursor->error; i++) items[i] = mlir_read_attribute(file, cursor);
    return (MlirAttribute){.kind = kind, .items = items, .count = count};
}

static HloInts read_signed_list(MlirFile *file, MlirCursor *cursor) {
    int64_t count = mlir_read_count(cursor);
    int64_t *items = HLO_ARENA_NEW(file->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) items[i] = mlir_read_signed(cursor);
    return (HloInts){items, count};
}

static const MlirAttribute *read_string_attribute(MlirFile *file, MlirCursor *cursor, MlirAttributeKind kind) {
    MlirAttribute attribute = {.kind = kind};
    attribute.string = mlir_read_bytes_string(file, cursor, &attribute.string_length);
    return new_attribute(file, attribute);
}

static const char *string_of(const MlirAttribute *attribute) {
    return attribute && attribute->string ? attribute->string : "";
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

// The bits of an integer or float of `bits` bits: one byte up to 8 of them, else a zigzag number (MLIR's
// readAPIntWithKnownWidth, for widths up to 64).
static int64_t read_wide(MlirCursor *cursor, int bits) {
    return bits <= 8 ? (int64_t)mlir_read_byte(cursor) : mlir_read_signed(cursor);
}

// The number of bits that a number of the type has in the file. The index type has 64, and a boolean one.
static int type_bits(const MlirType *type) {
    if (!type || type->kind == MLIR_TYPE_INDEX) return 64;
    if (type->kind != MLIR_TYPE_ELEMENT) return 64;
    return type->element == HLO_PRED ? 1 : hlo_type_info(type->element)->bits;
}

// The bits of a number of `bits` bits. Some writers write them without a sign (a byte, or MLIR's own numbers of up to
// 64 bits), others with it; anything wider than the type is an error.
static bool read_pattern(MlirCursor *cursor, int bits, uint64_t *pattern) {
    const int64_t value = read_wide(cursor, bits);
    const uint64_t mask = UINT64_MAX >> (64 - bits);
    const bool fits = bits == 64 || (value >= -((int64_t)1 << (bits - 1)) && value <= (int64_t)mask);
    if (!cursor->error && !fits) mlir_cursor_fail(cursor, "a number of more than %d bits, the size of its type", bits);
    *pattern = (uint64_t)value & mask;
    return fits;
}

// Extends the sign.
static const MlirAttribute *read_integer(MlirFile *file, MlirCursor *cursor) {
    const MlirType *type = mlir_read_type(file, cursor);
    const int bits = type_bits(type);
    uint64_t pattern;
    if (!read_pattern(cursor, bits, &pattern)) return NULL;
    bool is_signed = type && type->kind == MLIR_TYPE_ELEMENT && hlo_type_kind(type->element) == HLO_KIND_SIGNED;
    int64_t value = (int64_t)pattern;
    if (is_signed && bits < 64 && pattern >> (bits - 1) & 1) value -= (int64_t)1 << bits;
    return new_attribute(file,
                         (MlirAttribute){.kind = bits == 1 ? MLIR_BOOL : MLIR_INTEGER, .integer = value, .type = type});
}

// Floats are stored as their bit pattern.
static const MlirAttribute *read_float(MlirFile *file, MlirCursor *cursor) {
    const MlirType *type = mlir_read_type(file, cursor);
    uint64_t pattern;
    if (!read_pattern(cursor, type_bits(type), &pattern)) return NULL;
    double value = type && type->kind == MLIR_TYPE_ELEMENT && hlo_type_is_float(type->element)
                       ? hlo_float_decode(type->element, pattern)
                       : 0;
    return new_attribute(file, (MlirAttribute){.kind = MLIR_FLOAT, .real = value, .type = type});
}

static double double_from_bits(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

// Turns an error of another module into one of the cursor, with the offset.
static const MlirAttribute *tensor_attribute(MlirFile *file, MlirCursor *cursor, const MlirType *type,
                                             const unsigned char *bytes, uint64_t length) {
    if (cursor->error) return NULL;
    MlirAttribute tensor = {0};
    HloStatus status = mlir_tensor_from_bytes(file->arena, type, bytes, length, &tensor);
    if (status) {
        mlir_cursor_fail(cursor, "%s", hlo_status_message(status));
        hlo_status_free(status);
        return NULL;
    }
    return new_attribute(file, tensor);
}

static const MlirAttribute *read_tensor(MlirFile *file, MlirCursor *cursor) {
    const MlirType *type = mlir_read_type(file, cursor);
    uint64_t length = mlir_read_varint(cursor);
    const unsigned char *bytes = mlir_read_bytes(cursor, length);
    return tensor_attribute(file, cursor, type, bytes, length);
}

// A dense array: element type, count, raw bytes.
static const MlirAttribute *read_dense_array(MlirFile *file, MlirCursor *cursor) {
    const MlirType *type = mlir_read_type(file, cursor);
    int64_t count = mlir_read_count(cursor);
    uint64_t length = mlir_read_varint(cursor);
    const unsigned char *bytes = mlir_read_bytes(cursor, length);
    int64_t each = (type_bits(type) + 7) / 8;
    if (each < 1 || each > (int64_t)sizeof(int64_t)) {
        mlir_cursor_fail(cursor, "a dense array of elements that are not numbers");
        return NULL;
    }
    if (!bytes || length != (uint64_t)(count * each)) {
        mlir_cursor_fail(cursor, "a dense array has a wrong size");
        return NULL;
    }
    int64_t *items = HLO_ARENA_NEW(file->arena, int64_t, count);
    const bool is_signed = type_bits(type) > 1 && !(type && type->kind == MLIR_TYPE_ELEMENT &&
                                                    hlo_type_kind(type->element) == HLO_KIND_UNSIGNED);
    for (int64_t i = 0; i < count; i++) {
        memcpy(&items[i], bytes + i * each, (size_t)each);
        if (type_bits(type) == 1 && items[i] > 1) {
            mlir_cursor_fail(cursor, "a boolean of a dense array is neither 0 nor 1");
            return NULL;
        }
        int shift = 64 - (int)each * 8;
        if (is_signed) items[i] = (int64_t)((uint64_t)items[i] << shift) >> shift;
    }
    return new_attribute(file, (MlirAttribute){.kind = MLIR_INTS, .ints = {items, count}});
}

// ---------------------------------------------------------------------------------------------------------------------
// Locations: what a source line is made of

static const MlirAttribute *read_fused(MlirFile *file, MlirCursor *cursor, bool has_metadata) {
    MlirAttribute location = read_list(file, cursor, MLIR_LOCATION);
    if (has_metadata) mlir_read_attribute(file, cursor);
    return new_attribute(file, location);
}

// A range is a list of one to four numbers; the first is the line (MLIR's FileLineColRange).
static const MlirAttribute *read_file_line(MlirFile *file, MlirCursor *cursor, bool is_range) {
    const MlirAttribute *name = mlir_read_attribute(file, cursor);
    int64_t line;
    if (is_range) {
        int64_t count = mlir_read_count(cursor);
        line = count ? (int64_t)mlir_read_varint(cursor) : 0;
        for (int64_t i = 1; i < count; i++) mlir_read_varint(cursor);
    } else {
        line = (int64_t)mlir_read_varint(cursor);
        mlir_read_varint(cursor);
    }
    return new_attribute(file,
                         (MlirAttribute){.kind = MLIR_LOCATION, .string = string_of(name), .integer = (uint32_t)line});
}

static const MlirAttribute *read_name_location(MlirFile *file, MlirCursor *cursor) {
    const MlirAttribute *name = mlir_read_attribute(file, cursor);
    const MlirAttribute **child = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 1);
    *child = mlir_read_attribute(file, cursor);
    return new_attribute(file,
                         (MlirAttribute){.kind = MLIR_LOCATION, .string = string_of(name), .items = child, .count = 1});
}

// Callers beyond half of the depth that we read are left out: nothing of them is used, and a call stack may be deeper.
static const MlirAttribute *read_call_site(MlirFile *file, MlirCursor *cursor) {
    const MlirAttribute **children = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 2);
    children[0] = mlir_read_attribute(file, cursor);
    const uint64_t caller = mlir_read_varint(cursor);
    const bool skipped = file->depth > DEEPEST_NESTING / 2 && caller < (uint64_t)file->attribute_count &&
                         !file->attributes[caller].decoded;
    children[1] =
        skipped ? new_attribute(file, (MlirAttribute){.kind = MLIR_LOCATION}) : mlir_attribute_at(file, cursor, caller);
    return new_attribute(file, (MlirAttribute){.kind = MLIR_LOCATION, .items = children, .count = 2});
}

// ---------------------------------------------------------------------------------------------------------------------
// Dialects

// The dictionaries of both MLIR and vhlo have attributes as keys.
static const MlirAttribute *read_dictionary(MlirFile *file, MlirCursor *cursor, bool keys_are_attributes) {
    int64_t count = mlir_read_count(cursor);
    const char **keys = HLO_ARENA_NEW(file->arena, const char *, count);
    const MlirAttribute **items = HLO_ARENA_NEW(file->arena, const MlirAttribute *, count);
    for (int64_t i = 0; i < count && !cursor->error; i++) {
        keys[i] = keys_are_attributes ? string_of(mlir_read_attribute(file, cursor)) : mlir_read_string(file, cursor);
        items[i] = mlir_read_attribute(file, cursor);
    }
    return new_attribute(file, (MlirAttribute){.kind = MLIR_DICTIONARY, .keys = keys, .items = items, .count = count});
}

// The type of a string has no meaning in HLO.
static const MlirAttribute *read_typed_string(MlirFile *file, MlirCursor *cursor) {
    const char *string = mlir_read_string(file, cursor);
    mlir_read_type(file, cursor);
    return new_attribute(file, (MlirAttribute){.kind = MLIR_STRING, .string = string});
}

static const MlirAttribute *decode_builtin(MlirFile *file, MlirCursor *cursor) {
    uint64_t code = mlir_read_varint(cursor);
    switch (code) {
        case BUILTIN_ARRAY: return new_attribute(file, read_list(file, cursor, MLIR_ARRAY));
        case BUILTIN_DICTIONARY: return read_dictionary(file, cursor, true);
        case BUILTIN_STRING: return read_string_attribute(file, cursor, MLIR_STRING);
        case BUILTIN_TYPED_STRING: return read_typed_string(file, cursor);
        case BUILTIN_FLAT_SYMBOL:
        case BUILTIN_SYMBOL:
            return new_attribute(
                file, (MlirAttribute){.kind = MLIR_SYMBOL, .string = string_of(mlir_read_attribute(file, cursor))});
        case BUILTIN_TYPE:
            return new_attribute(file, (MlirAttribute){.kind = MLIR_TYPE, .type = mlir_read_type(file, cursor)});
        case BUILTIN_UNIT: return new_attribute(file, (MlirAttribute){.kind = MLIR_UNIT});
        case BUILTIN_INTEGER: return read_integer(file, cursor);
        case BUILTIN_FLOAT: return read_float(file, cursor);
        case BUILTIN_CALL_SITE: return read_call_site(file, cursor);
        case BUILTIN_FILE_LINE: return read_file_line(file, cursor, false);
        case BUILTIN_FUSED: return read_fused(file, cursor, false);
        case BUILTIN_FUSED_WITH_METADATA: return read_fused(file, cursor, true);
        case BUILTIN_NAME_LOCATION: return read_name_location(file, cursor);
        case BUILTIN_UNKNOWN_LOCATION: return new_attribute(file, (MlirAttribute){.kind = MLIR_LOCATION});
        case BUILTIN_DENSE_ARRAY: return read_dense_array(file, cursor);
        case BUILTIN_TENSOR: return read_tensor(file, cursor);
        case BUILTIN_FILE_LINE_RANGE: return read_file_line(file, cursor, true);
        default: break;
    }
    mlir_cursor_fail(cursor, "builtin attribute code %llu is unknown", (unsigned long long)code);
    return NULL;
}

static const MlirAttribute *read_alias(MlirFile *file, MlirCursor *cursor) {
    const MlirAttribute **lists = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 2);
    lists[0] = new_attribute(file, (MlirAttribute){.kind = MLIR_INTS, .ints = read_signed_list(file, cursor)});
    int64_t operand = mlir_read_signed(cursor);
    lists[1] = new_attribute(file, (MlirAttribute){.kind = MLIR_INTS, .ints = read_signed_list(file, cursor)});
    return new_attribute(file, (MlirAttribute){.kind = MLIR_ALIAS, .integer = operand, .items = lists, .count = 2});
}

static const MlirAttribute *read_accuracy(MlirFile *file, MlirCursor *cursor) {
    HloAccuracy *accuracy = HLO_ARENA_NEW(file->arena, HloAccuracy, 1);
    accuracy->atol = double_from_bits(mlir_read_signed(cursor));
    accuracy->rtol = double_from_bits(mlir_read_signed(cursor));
    accuracy->ulps = mlir_read_signed(cursor);
    const MlirAttribute *mode = mlir_read_attribute(file, cursor);
    mlir_accuracy_set_mode(accuracy, mode ? mode->integer : 0);
    return new_attribute(file, (MlirAttribute){.kind = MLIR_ACCURACY, .accuracy = accuracy});
}

static const MlirAttribute *read_enum(MlirFile *file, MlirCursor *cursor) {
    return new_attribute(file, (MlirAttribute){.kind = MLIR_ENUM, .integer = (int64_t)mlir_read_varint(cursor)});
}

static const MlirAttribute *sdy_with_ints(MlirFile *file, MlirSdyCode code, const char *name, HloInts ints) {
    return new_attribute(file, (MlirAttribute){.kind = MLIR_SDY, .code = code, .string = name, .ints = ints});
}

// Parts of replica groups by mesh axes, in the form of sdy's attributes of the same meaning.
static const MlirAttribute *read_mesh_part(MlirFile *file, MlirCursor *cursor, uint64_t code) {
    int64_t sizes[2];
    if (code == VHLO_SUB_AXIS) {
        sizes[0] = mlir_read_signed(cursor);
        sizes[1] = mlir_read_signed(cursor);
        return sdy_with_ints(file, MLIR_SDY_SUB_AXIS, NULL, hlo_ints(file->arena, sizes, 2));
    }
    const MlirAttribute *first = mlir_read_attribute(file, cursor);
    if (code == VHLO_MESH_AXIS) {
        sizes[0] = mlir_read_signed(cursor);
        return sdy_with_ints(file, MLIR_SDY_MESH_AXIS, string_of(first), hlo_ints(file->arena, sizes, 1));
    }
    const MlirAttribute *second = read_optional(file, cursor);
    if (cursor->error || !first) return NULL;
    if (code == VHLO_AXIS_REF) {
        const MlirAttribute **part = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 1);
        *part = second;
        return new_attribute(file, (MlirAttribute){.kind = MLIR_SDY,
                                                   .code = MLIR_SDY_AXIS_REF,
                                                   .string = string_of(first),
                                                   .items = part,
                                                   .count = second ? 1 : 0});
    }
    HloInt64Vector devices = {0};
    const HloLiteral *ids = second && second->kind == MLIR_TENSOR ? mlir_tensor_literal(file->arena, second) : NULL;
    for (int64_t i = 0; ids && i < hlo_shape_elements(ids->shape); i++) {
        hlo_vector_push(file->arena, &devices, hlo_literal_get_int64(ids, i));
    }
    return new_attribute(file, (MlirAttribute){.kind = MLIR_SDY,
                                               .code = MLIR_SDY_MESH,
                                               .items = first->items,
                                               .count = first->count,
                                               .ints = {devices.items, devices.count}});
}

// Every enumeration is one varint; the code that uses the attribute knows its meaning.
static const MlirAttribute *decode_vhlo(MlirFile *file, MlirCursor *cursor) {
    uint64_t code = mlir_read_varint(cursor);
    switch (code) {
        case VHLO_ARRAY: return new_attribute(file, read_list(file, cursor, MLIR_ARRAY));
        case VHLO_BOOL:
            return new_attribute(file, (MlirAttribute){.kind = MLIR_BOOL, .integer = mlir_read_varint(cursor) != 0});
        case VHLO_DICTIONARY: return read_dictionary(file, cursor, true);
        case VHLO_FLOAT: return read_float(file, cursor);
        case VHLO_INTEGER: return read_integer(file, cursor);
        case VHLO_OUTPUT_OPERAND_ALIAS: return read_alias(file, cursor);
        case VHLO_COMPARISON_DIRECTION:
        case VHLO_COMPARISON_TYPE:
        case VHLO_API_VERSION:
        case VHLO_FFT_TYPE:
        case VHLO_PRECISION:
        case VHLO_RNG_ALGORITHM:
        case VHLO_RNG_DISTRIBUTION:
        case VHLO_TRANSPOSE:
        case VHLO_RESULT_ACCURACY_MODE: return read_enum(file, cursor);
        case VHLO_STRING: return read_string_attribute(file, cursor, MLIR_STRING);
        case VHLO_TENSOR: return read_tensor(file, cursor);
        case VHLO_TYPE_ATTRIBUTE:
            return new_attribute(file, (MlirAttribute){.kind = MLIR_TYPE, .type = mlir_read_type(file, cursor)});
        case VHLO_TYPE_EXTENSIONS:
            return new_attribute(file, (MlirAttribute){.kind = MLIR_BOUNDS, .ints = read_signed_list(file, cursor)});
        case VHLO_RESULT_ACCURACY: return read_accuracy(file, cursor);
        case VHLO_SUB_AXIS:
        case VHLO_AXIS_REF:
        case VHLO_MESH_AXIS:
        case VHLO_MESH: return read_mesh_part(file, cursor, code);
        case VHLO_MESH_GROUPS: {
            const MlirAttribute **parts = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 2);
            parts[0] = mlir_read_attribute(file, cursor);
            parts[1] = mlir_read_attribute(file, cursor);
            return new_attribute(file, (MlirAttribute){.kind = MLIR_MESH_GROUPS, .items = parts, .count = 2});
        }
        default: break;
    }
    mlir_cursor_fail(cursor, "vhlo attribute code %llu is unknown", (unsigned long long)code);
    return NULL;
}

static const MlirAttribute *list_attribute(MlirFile *file, MlirCursor *cursor) {
    return new_attribute(file, read_list(file, cursor, MLIR_ARRAY));
}

static const MlirAttribute *read_sdy_sharding(MlirFile *file, MlirCursor *cursor, bool has_unreduced) {
    const MlirAttribute **parts = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 4);
    parts[0] = mlir_read_attribute(file, cursor);
    parts[1] = list_attribute(file, cursor);
    parts[2] = list_attribute(file, cursor);
    parts[3] = has_unreduced ? list_attribute(file, cursor) : new_attribute(file, (MlirAttribute){.kind = MLIR_ARRAY});
    return new_attribute(file,
                         (MlirAttribute){.kind = MLIR_SDY, .code = MLIR_SDY_SHARDING, .items = parts, .count = 4});
}

// Closed or open, then the priority with a presence bit.
static const MlirAttribute *read_dim_sharding(MlirFile *file, MlirCursor *cursor) {
    MlirAttribute dim = read_list(file, cursor, MLIR_SDY);
    int64_t *flags = HLO_ARENA_NEW(file->arena, int64_t, 2);
    flags[0] = mlir_read_byte(cursor);
    uint64_t priority = mlir_read_varint(cursor);
    flags[1] = priority & 1 ? (int64_t)(priority >> 1) : -1;
    dim.code = MLIR_SDY_DIM_SHARDING;
    dim.ints = (HloInts){flags, 2};
    return new_attribute(file, dim);
}

static const MlirAttribute *read_axis_ref(MlirFile *file, MlirCursor *cursor) {
    MlirAttribute axis = {.kind = MLIR_SDY, .code = MLIR_SDY_AXIS_REF, .string = mlir_read_string(file, cursor)};
    const MlirAttribute *part = read_optional(file, cursor);
    if (part) {
        const MlirAttribute **items = HLO_ARENA_NEW(file->arena, const MlirAttribute *, 1);
        items[0] = part;
        axis.items = items;
        axis.count = 1;
    }
    return new_attribute(file, axis);
}

// ---- sharding rules, assembled as Shardy prints them

// Parts are shared, so a short file may describe rules of unlimited length.
enum { LONGEST_RULE = 1 << 16 };

// Factors are i, j … z, then z_1, z_2 …
static void print_factor(MlirCursor *cursor, HloText *text, int64_t factor) {
    static const int64_t letters = 'z' - 'i';
    if (factor < 0)
        mlir_cursor_fail(cursor, "a sharding rule names factor %lld", (long long)factor);
    else if (factor <= letters)
        hlo_text_char(text, (char)('i' + factor));
    else
        hlo_text_format(text, "z_%lld", (long long)(factor - letters));
}

static const MlirAttribute *rule_attribute(MlirFile *file, MlirCursor *cursor, HloText *text) {
    if (text->length > LONGEST_RULE) mlir_cursor_fail(cursor, "a sharding rule of more than %d bytes", LONGEST_RULE);
    const char *kept = hlo_text_to_arena(file->arena, text);
    return new_attribute(file, (MlirAttribute){.kind = MLIR_SDY, .code = MLIR_SDY_RULE, .string = kept});
}

// "ij": the factors of one dimension.
static const MlirAttribute *read_dim_mapping(MlirFile *file, MlirCursor *cursor) {
    const HloInts factors = read_signed_list(file, cursor);
    HloText text = {0};
    for (int64_t i = 0; i < factors.count && !cursor->error; i++) print_factor(cursor, &text, factors.items[i]);
    return rule_attribute(file, cursor, &text);
}

// Appends the parts with commas between them.
static void print_parts(HloText *text, const MlirAttribute *list) {
    for (int64_t i = 0; i < list->count && text->length <= LONGEST_RULE; i++)
        hlo_text_format(text, "%s%s", i ? ", " : "", string_of(list->items[i]));
}

// "[i, jk]": the dimensions of one tensor.
static const MlirAttribute *read_tensor_mapping(MlirFile *file, MlirCursor *cursor) {
    const MlirAttribute dims = read_list(file, cursor, MLIR_ARRAY);
    HloText text = {0};
    hlo_text_char(&text, '[');
    if (!cursor->error) print_parts(&text, &dims);
    hlo_text_char(&text, ']');
    return rule_attribute(file, cursor, &text);
}

// "([i, j])->([i]) {i=8, j=4} reduction={j}"
static const MlirAttribute *read_sharding_rule(MlirFile *file, MlirCursor *cursor) {
    static const char *const kinds[] = {"reduction", "need_replication", "permutation", "blocked_propagation"};
    const HloInts sizes = read_signed_list(file, cursor);
    const MlirAttribute operands = read_list(file, cursor, MLIR_ARRAY), results = read_list(file, cursor, MLIR_ARRAY);
    HloText text = {0};
    hlo_text_string(&text, "#sdy.op_sharding_rule<(");
    if (!cursor->error) print_parts(&text, &operands);
    hlo_text_string(&text, ")->(");
    if (!cursor->error) print_parts(&text, &results);
    hlo_text_string(&text, ") {");
    for (int64_t i = 0; i < sizes.count; i++) {
        if (i) hlo_text_string(&text, ", ");
        print_factor(cursor, &text, i);
        hlo_text_format(&text, "=%lld", (long long)sizes.items[i]);
    }
    hlo_text_char(&text, '}');
    for (size_t k = 0; k < HLO_COUNT_OF(kinds); k++) {
        const HloInts factors = read_signed_list(file, cursor);
        if (factors.count) hlo_text_format(&text, " %s={", kinds[k]);
        for (int64_t i = 0; i < factors.count; i++) {
            if (i) hlo_text_string(&text, ", ");
            print_factor(cursor, &text, factors.items[i]);
        }
        if (factors.count) hlo_text_char(&text, '}');
    }
    hlo_text_string(&text, mlir_read_byte(cursor) ? ", custom>" : ">");
    return rule_attribute(file, cursor, &text);
}

static const MlirAttribute *decode_sdy(MlirFile *file, MlirCursor *cursor) {
    uint64_t code = mlir_read_varint(cursor);
    MlirAttribute result = {.kind = MLIR_SDY, .code = (MlirSdyCode)code};
    switch (code) {
        case MLIR_SDY_MANUAL_AXES:
        case MLIR_SDY_PER_VALUE: {
            result = read_list(file, cursor, MLIR_SDY);
            result.code = (MlirSdyCode)code;
            break;
        }
        case MLIR_SDY_MESH_AXIS: {
            result.string = mlir_read_string(file, cursor);
            int64_t *size = HLO_ARENA_NEW(file->arena, int64_t, 1);
            *size = mlir_read_signed(cursor);
            result.ints = (HloInts){size, 1};
            break;
        }
        case MLIR_SDY_MESH: {
            result = read_list(file, cursor, MLIR_SDY);
            result.code = MLIR_SDY_MESH;
            result.ints = read_signed_list(file, cursor);
            break;
        }
        case MLIR_SDY_SUB_AXIS: {
            int64_t *sizes = HLO_ARENA_NEW(file->arena, int64_t, 2);
            sizes[0] = mlir_read_signed(cursor);
            sizes[1] = mlir_read_signed(cursor);
            result.ints = (HloInts){sizes, 2};
            break;
        }
        case MLIR_SDY_AXIS_REF: return read_axis_ref(file, cursor);
        case MLIR_SDY_DIM_SHARDING: return read_dim_sharding(file, cursor);
        case MLIR_SDY_SHARDING: return read_sdy_sharding(file, cursor, false);
        case SDY_NEWER_SHARDING: return read_sdy_sharding(file, cursor, true);
        case SDY_NEWER_PER_VALUE: {
            result = read_list(file, cursor, MLIR_SDY);
            result.code = MLIR_SDY_PER_VALUE;
            break;
        }
        case SDY_DIM_MAPPING: return read_dim_mapping(file, cursor);
        case SDY_TENSOR_MAPPING: return read_tensor_mapping(file, cursor);
        case MLIR_SDY_RULE: return read_sharding_rule(file, cursor);
        default: mlir_cursor_fail(cursor, "sdy attribute code %llu is unknown", (unsigned long long)code); return NULL;
    }
    return new_attribute(file, result);
}

// Decodes the entry in `cursor`; on an error, which the cursor keeps, the result is NULL. Attributes of unknown
// dialects and unknown codes are errors.
static const MlirAttribute *decode_attribute(MlirFile *file, const MlirEntry *entry, MlirCursor *cursor) {
    assert(entry && cursor);
    if (!entry->is_custom) {
        // Assembly text: kept as a string, which suffices for attributes that are never interpreted.
        const char *text = hlo_arena_string(file->arena, (const char *)entry->data, entry->length);
        return new_attribute(file, (MlirAttribute){.kind = MLIR_STRING, .string = text});
    }
    switch (entry->dialect) {
        case MLIR_DIALECT_BUILTIN: return decode_builtin(file, cursor);
        case MLIR_DIALECT_VHLO: return decode_vhlo(file, cursor);
        case MLIR_DIALECT_SDY: return decode_sdy(file, cursor);
        default: break;
    }
    mlir_cursor_fail(cursor, "an attribute belongs to an unknown dialect");
    return NULL;
}
