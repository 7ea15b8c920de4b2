// SPDX-License-Identifier: Apache-2.0
// Writes strings, types, attributes and locations as entries of the bytecode's tables.
//
// An entry is written as bytes and looked up by them, so that equal attributes and types get one number regardless of
// how they were made. Entries may only refer to earlier entries: the parts of one are put into the table first.
// format.h describes the entries and the varints that they consist of.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/format.h"
#include "hlo/stablehlo/bytecode/writer.h"

// ---------------------------------------------------------------------------------------------------------------------
// Bytes

void write_byte(Writer *writer, WriteBytes *bytes, unsigned value) {
    hlo_vector_push(writer->arena, bytes, (unsigned char)value);
}

void write_run(Writer *writer, WriteBytes *bytes, const void *data, int64_t length) {
    if (length <= 0) return;
    if (bytes->count + length > bytes->capacity) {
        enum { SMALLEST_RUN = 16 };  // most entries have a few bytes: allocate these at the start
        const int64_t wanted = bytes->count + length;
        hlo_vector_reserve(writer->arena, bytes, wanted > SMALLEST_RUN ? wanted : SMALLEST_RUN);
    }
    memcpy(bytes->items + bytes->count, data, (size_t)length);
    bytes->count += length;
}

// `count` bytes in all: the marker bit is shifted in below the number.
void write_varint(Writer *writer, WriteBytes *bytes, uint64_t value) {
    int count = 1;
    while (count < 9 && value >> (7 * count)) count++;
    if (count == 9) {
        write_byte(writer, bytes, 0);
        write_run(writer, bytes, &value, 8);
        return;
    }
    uint64_t marked = (value << 1 | 1) << (count - 1);
    write_run(writer, bytes, &marked, count);
}

// A varint in zigzag form, the sign in the lowest bit.
static void write_signed(Writer *writer, WriteBytes *bytes, int64_t value) {
    write_varint(writer, bytes, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

// The key is the dialect and the bytes; the entry shares them.
static uint64_t add_entry(Writer *writer, WriteTable *table, WriteDialect dialect, const WriteBytes *bytes) {
    WriteBytes key = {0};
    write_byte(writer, &key, dialect);
    write_run(writer, &key, bytes->items, bytes->count);
    uintptr_t known = (uintptr_t)hlo_string_map_get(&table->index, (const char *)key.items, (size_t)key.count);
    if (known) return known - 1;
    WriteEntry entry = {dialect, key.items + 1, bytes->count};
    hlo_vector_push(writer->arena, &table->entries, entry);
    hlo_string_map_set(writer->arena, &table->index, (const char *)key.items, (size_t)key.count,
                       (void *)(uintptr_t)table->entries.count);
    return (uint64_t)table->entries.count - 1;
}

// The same as write_string_index() for a string of `length` bytes, which may include NULs.
static uint64_t write_bytes_index(Writer *writer, const char *bytes, int64_t length) {
    assert(bytes && length >= 0);
    uintptr_t known = (uintptr_t)hlo_string_map_get(&writer->string_index, bytes, (size_t)length);
    if (known) return known - 1;
    hlo_vector_push(writer->arena, &writer->strings, ((WriteString){bytes, length}));
    hlo_string_map_set(writer->arena, &writer->string_index, bytes, (size_t)length,
                       (void *)(uintptr_t)writer->strings.count);
    return (uint64_t)writer->strings.count - 1;
}

uint64_t write_string_index(Writer *writer, const char *string) {
    assert(string);
    return write_bytes_index(writer, string, (int64_t)strlen(string));
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

typedef struct ElementCode {
    HloType type;
    int code;
    int64_t since;  // release
} ElementCode;

static const ElementCode element_codes[] = {
#define VHLO_TYPE(type, code, since) {HLO_##type, code, since},
#include "hlo/stablehlo/bytecode/vhlo_types.def"
#undef VHLO_TYPE
};

static uint64_t element_index(Writer *writer, HloType type) {
    WriteBytes bytes = {0};
    if (hlo_type_is_complex(type)) {
        uint64_t part = element_index(writer, hlo_type_real_part(type));
        write_varint(writer, &bytes, VHLO_COMPLEX_TYPE);
        write_varint(writer, &bytes, part);
        return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
    }
    for (size_t i = 0; i < HLO_COUNT_OF(element_codes); i++) {
        if (element_codes[i].type != type) continue;
        if (element_codes[i].since > writer->target) write_fail(writer, "type %s", hlo_type_text(type));
        write_varint(writer, &bytes, (uint64_t)element_codes[i].code);
        return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
    }
    HLO_BUG_IF(true);  // export_type() refuses the others
    return 0;
}

static uint64_t index_type(Writer *writer) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_INDEX_TYPE);
    return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
}

// A ranked tensor without an encoding.
static uint64_t tensor_of(Writer *writer, uint64_t element, const int64_t *dims, int64_t rank) {
    assert(rank >= 0);
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_TENSOR_TYPE);
    write_varint(writer, &bytes, (uint64_t)rank);
    for (int64_t i = 0; i < rank; i++) write_signed(writer, &bytes, dims[i]);
    write_varint(writer, &bytes, element);
    return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
}

// Dimensions without a bound are ShapedType::kDynamic, the smallest 64-bit number.
static uint64_t bounds_index(Writer *writer, const HloShape *shape) {
    assert(shape);
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_TYPE_EXTENSIONS);
    write_varint(writer, &bytes, (uint64_t)shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) {
        bool known = shape->dynamic[i] && shape->dims[i] != HLO_UNBOUNDED;
        write_signed(writer, &bytes, known ? shape->dims[i] : INT64_MIN);
    }
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

// Bounds are the encoding of a ranked tensor.
static uint64_t shape_index(Writer *writer, const HloShape *shape) {
    assert(shape);
    WriteBytes bytes = {0};
    if (shape->type == HLO_TOKEN) {
        write_varint(writer, &bytes, VHLO_TOKEN_TYPE);
        return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
    }
    uint64_t element = element_index(writer, shape->type);
    if (!shape->dynamic) return tensor_of(writer, element, shape->dims, shape->rank);
    bool bounded = false;
    for (int32_t i = 0; i < shape->rank; i++) bounded |= shape->dynamic[i] && shape->dims[i] != HLO_UNBOUNDED;
    uint64_t bounds = bounded ? bounds_index(writer, shape) : 0;
    write_varint(writer, &bytes, bounded ? VHLO_ENCODED_TENSOR_TYPE : VHLO_TENSOR_TYPE);
    if (bounded) write_varint(writer, &bytes, bounds);
    write_varint(writer, &bytes, (uint64_t)shape->rank);
    for (int32_t i = 0; i < shape->rank; i++) {
        write_signed(writer, &bytes, shape->dynamic[i] ? INT64_MIN : shape->dims[i]);
    }
    write_varint(writer, &bytes, element);
    return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
}

static void write_type_list(Writer *writer, WriteBytes *bytes, const MlirType *const *types, int64_t count) {
    write_varint(writer, bytes, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) write_varint(writer, bytes, write_type_index(writer, types[i]));
}

// The exporter uses no other types (and mlir_can_write() allows no others).
static uint64_t make_type(Writer *writer, const MlirType *type) {
    assert(type);
    WriteBytes bytes = {0};
    if (type->kind == MLIR_TYPE_SHAPE) return shape_index(writer, type->shape);
    if (type->kind == MLIR_TYPE_ELEMENT) return element_index(writer, type->element);
    if (type->kind == MLIR_TYPE_INDEX) return index_type(writer);
    const bool is_tf32 = type->kind == MLIR_TYPE_OTHER && strcmp(type->name, MLIR_TF32) == 0;
    HLO_BUG_IF(type->kind != MLIR_TYPE_FUNCTION && type->kind != MLIR_TYPE_NONE && !is_tf32);
    if (type->kind != MLIR_TYPE_FUNCTION) {
        write_varint(writer, &bytes, is_tf32 ? VHLO_TF32_TYPE : VHLO_NONE_TYPE);
        return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
    }
    write_varint(writer, &bytes, VHLO_FUNCTION_TYPE);
    write_type_list(writer, &bytes, type->inputs, type->input_count);
    write_type_list(writer, &bytes, type->results, type->result_count);
    return add_entry(writer, &writer->types, WRITE_VHLO, &bytes);
}

uint64_t write_type_index(Writer *writer, const MlirType *type) {
    int64_t *known = hlo_int_map_find(&writer->type_index, (uintptr_t)type);
    if (known) return (uint64_t)*known;
    uint64_t index = make_type(writer, type);
    hlo_int_map_set(writer->arena, &writer->type_index, (uintptr_t)type, (int64_t)index);
    return index;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

static void pack_bits(Writer *writer, WriteBytes *bytes, const unsigned char *flags, int64_t count) {
    assert(count >= 0);
    for (int64_t i = 0; i < count; i += 8) {
        unsigned byte = 0;
        for (int64_t j = i; j < count && j < i + 8; j++) byte |= (unsigned)(flags[j] & 1) << (j - i);
        write_byte(writer, bytes, byte);
    }
}

// Element type, sizes and raw values: one of them if all are equal; predicates as bits.
static uint64_t add_tensor(Writer *writer, uint64_t type, HloType element, const void *data, int64_t count) {
    assert(count >= 0);
    WriteBytes bytes = {0};
    int64_t each = hlo_type_bytes(element);
    bool splat = count > 0;
    for (int64_t i = 1; i < count && splat; i++) {
        splat = memcmp(data, (const char *)data + i * each, (size_t)each) == 0;
    }
    write_varint(writer, &bytes, VHLO_TENSOR);
    write_varint(writer, &bytes, type);
    if (element == HLO_PRED && splat && count > 1) {
        write_varint(writer, &bytes, 1);
        write_byte(writer, &bytes, *(const unsigned char *)data ? 0xFF : 0);
    } else if (element == HLO_PRED) {
        write_varint(writer, &bytes, (uint64_t)(count + 7) / 8);
        pack_bits(writer, &bytes, data, count);
    } else {
        int64_t length = splat ? each : each * count;
        int bits = hlo_type_info(element)->bits;
        write_varint(writer, &bytes, (uint64_t)length);
        write_run(writer, &bytes, data, length);
        unsigned char mask = (unsigned char)(bits < 8 ? (1U << bits) - 1 : 0xFF);
        for (int64_t i = bytes.count - length; bits < 8 && i < bytes.count; i++) bytes.items[i] &= mask;
    }
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

// Tensors of index are lists of dimensions: layouts.
static uint64_t tensor_index(Writer *writer, const MlirAttribute *attribute) {
    const HloLiteral *literal = mlir_tensor_literal(writer->arena, attribute);
    bool is_index = attribute->type && attribute->type->kind == MLIR_TYPE_INDEX;
    uint64_t type =
        is_index ? tensor_of(writer, index_type(writer), literal->shape->dims, 1) : shape_index(writer, literal->shape);
    return add_tensor(writer, type, literal->shape->type, literal->data, hlo_shape_elements(literal->shape));
}

// vhlo has no dense arrays: it has tensors instead.
static uint64_t ints_index(Writer *writer, const MlirAttribute *attribute) {
    bool is_pred =
        attribute->type && attribute->type->kind == MLIR_TYPE_ELEMENT && attribute->type->element == HLO_PRED;
    HloType element = is_pred ? HLO_PRED : HLO_S64;
    int64_t count = attribute->ints.count;
    uint64_t type = tensor_of(writer, element_index(writer, element), &count, 1);
    if (!is_pred) return add_tensor(writer, type, element, attribute->ints.items, count);
    unsigned char *flags = HLO_ARENA_NEW(writer->arena, unsigned char, count);
    for (int64_t i = 0; i < count; i++) flags[i] = attribute->ints.items[i] != 0;
    return add_tensor(writer, type, element, flags, count);
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes of vhlo

static uint64_t enum_code(const char *kind) {
    static const struct {
        const char *kind;
        VhloAttributeCode code;
    } table[] = {{"comparison_direction", VHLO_COMPARISON_DIRECTION},
                 {"comparison_type", VHLO_COMPARISON_TYPE},
                 {"api_version", VHLO_API_VERSION},
                 {"fft_type", VHLO_FFT_TYPE},
                 {"precision", VHLO_PRECISION},
                 {"rng_algorithm", VHLO_RNG_ALGORITHM},
                 {"rng_distribution", VHLO_RNG_DISTRIBUTION},
                 {"transpose", VHLO_TRANSPOSE},
                 {"result_accuracy_mode", VHLO_RESULT_ACCURACY_MODE}};
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (strcmp(table[i].kind, kind) == 0) return table[i].code;
    }
    HLO_BUG_IF(true);  // nothing that mlir/dialect.def or the exporter has
    return 0;
}

static uint64_t enum_index(Writer *writer, const char *kind, int64_t number) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, enum_code(kind));
    write_varint(writer, &bytes, (uint64_t)number);
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

// Numbers of at most 8 bits are a byte, others a signed varint of their bits.
static void write_wide(Writer *writer, WriteBytes *bytes, int bits, uint64_t value) {
    assert(bits > 0); /* narrow types take a whole byte, in which their own bits are the low ones */
    if (bits < 64) value &= (UINT64_C(1) << bits) - 1;
    if (bits <= 8) {
        write_byte(writer, bytes, (unsigned)value);
    } else {
        write_signed(writer, bytes, (int64_t)value);
    }
}

// Numbers of type index are written as 64-bit ones.
static uint64_t number_index(Writer *writer, const MlirAttribute *attribute) {
    WriteBytes bytes = {0};
    HloType type = attribute->type->kind == MLIR_TYPE_INDEX ? HLO_S64 : attribute->type->element;
    uint64_t type_index = write_type_index(writer, attribute->type);
    bool is_float = attribute->kind == MLIR_FLOAT;
    uint64_t value = is_float ? hlo_float_encode(type, attribute->real) : (uint64_t)attribute->integer;
    write_varint(writer, &bytes, is_float ? VHLO_FLOAT : VHLO_INTEGER);
    write_varint(writer, &bytes, type_index);
    write_wide(writer, &bytes, hlo_type_info(type)->bits, value);
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

static uint64_t bytes_attribute(Writer *writer, const char *string, int64_t length) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_STRING);
    write_varint(writer, &bytes, write_bytes_index(writer, string, length));
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

static uint64_t string_attribute(Writer *writer, const char *string) {
    return bytes_attribute(writer, string, (int64_t)strlen(string));
}

static void write_int_list(Writer *writer, WriteBytes *bytes, HloInts ints) {
    write_varint(writer, bytes, (uint64_t)ints.count);
    for (int64_t i = 0; i < ints.count; i++) write_signed(writer, bytes, ints.items[i]);
}

// The part of an operand that shares its buffer with a part of the result.
static uint64_t alias_index(Writer *writer, const MlirAttribute *alias) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_OUTPUT_OPERAND_ALIAS);
    write_int_list(writer, &bytes, alias->items[0]->ints);
    write_signed(writer, &bytes, alias->integer);
    write_int_list(writer, &bytes, alias->items[1]->ints);
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

static uint64_t accuracy_index(Writer *writer, const HloAccuracy *accuracy) {
    WriteBytes bytes = {0};
    uint64_t mode_index = enum_index(writer, "result_accuracy_mode", mlir_accuracy_mode(accuracy));
    int64_t atol, rtol;
    memcpy(&atol, &accuracy->atol, sizeof(atol));
    memcpy(&rtol, &accuracy->rtol, sizeof(rtol));
    write_varint(writer, &bytes, VHLO_RESULT_ACCURACY);
    write_signed(writer, &bytes, atol);
    write_signed(writer, &bytes, rtol);
    write_signed(writer, &bytes, accuracy->ulps);
    write_varint(writer, &bytes, mode_index);
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

static uint64_t list_index(Writer *writer, const MlirAttribute *list) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_ARRAY);
    write_varint(writer, &bytes, (uint64_t)list->count);
    for (int64_t i = 0; i < list->count; i++)
        write_varint(writer, &bytes, write_attribute_index(writer, list->items[i]));
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

static uint64_t dictionary_index(Writer *writer, const MlirAttribute *dictionary) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, VHLO_DICTIONARY);
    write_varint(writer, &bytes, (uint64_t)dictionary->count);
    for (int64_t i = 0; i < dictionary->count; i++) {
        uint64_t key = string_attribute(writer, dictionary->keys[i]);
        uint64_t value = write_attribute_index(writer, dictionary->items[i]);
        write_varint(writer, &bytes, key);
        write_varint(writer, &bytes, value);
    }
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

// A code followed by one varint.
static uint64_t coded_index(Writer *writer, VhloAttributeCode code, uint64_t value) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, code);
    write_varint(writer, &bytes, value);
    return add_entry(writer, &writer->attributes, WRITE_VHLO, &bytes);
}

uint64_t write_attribute_index(Writer *writer, const MlirAttribute *attribute) {
    assert(attribute);
    switch (attribute->kind) {
        case MLIR_UNIT: return coded_index(writer, VHLO_BOOL, 1);
        case MLIR_BOOL: return coded_index(writer, VHLO_BOOL, attribute->integer != 0);
        case MLIR_INTEGER:
        case MLIR_FLOAT: return number_index(writer, attribute);
        case MLIR_STRING: return bytes_attribute(writer, attribute->string, mlir_string_length(attribute));
        case MLIR_SYMBOL: return string_attribute(writer, attribute->string);
        case MLIR_TYPE: return coded_index(writer, VHLO_TYPE_ATTRIBUTE, write_type_index(writer, attribute->type));
        case MLIR_ARRAY: return list_index(writer, attribute);
        case MLIR_DICTIONARY: return dictionary_index(writer, attribute);
        case MLIR_TENSOR: return tensor_index(writer, attribute);
        case MLIR_INTS: return ints_index(writer, attribute);
        case MLIR_ENUM: return enum_index(writer, attribute->string, attribute->integer);
        case MLIR_ALIAS: return alias_index(writer, attribute);
        case MLIR_ACCURACY: return accuracy_index(writer, attribute->accuracy);
        default: HLO_BUG_IF(true); return 0;  // nothing that the exporter makes
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Builtin attributes and locations

uint64_t write_builtin_string(Writer *writer, const char *string) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, BUILTIN_STRING);
    write_varint(writer, &bytes, write_string_index(writer, string));
    return add_entry(writer, &writer->attributes, WRITE_BUILTIN, &bytes);
}

uint64_t write_dictionary_index(Writer *writer, const uint64_t *names, const uint64_t *values, int64_t count) {
    assert(count >= 0);
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, BUILTIN_DICTIONARY);
    write_varint(writer, &bytes, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        write_varint(writer, &bytes, names[i]);
        write_varint(writer, &bytes, values[i]);
    }
    return add_entry(writer, &writer->attributes, WRITE_BUILTIN, &bytes);
}

// A signless integer type: the width, and two bits for the sign.
static uint64_t builtin_integer_type(Writer *writer, int bits) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, BUILTIN_INTEGER_TYPE);
    write_varint(writer, &bytes, (uint64_t)bits << 2);
    return add_entry(writer, &writer->types, WRITE_BUILTIN, &bytes);
}

static uint64_t builtin_list(Writer *writer, const MlirAttribute *list) {
    WriteBytes bytes = {0};
    write_varint(writer, &bytes, BUILTIN_ARRAY);
    write_varint(writer, &bytes, (uint64_t)list->count);
    for (int64_t i = 0; i < list->count; i++) write_varint(writer, &bytes, write_builtin_index(writer, list->items[i]));
    return add_entry(writer, &writer->attributes, WRITE_BUILTIN, &bytes);
}

// A list of numbers of type index: dense<[1, 0]> : tensor<2xindex>.
static uint64_t builtin_index_tensor(Writer *writer, const HloLiteral *numbers) {
    assert(numbers->shape->type == HLO_S64 && numbers->shape->rank == 1);
    WriteBytes element = {0}, type = {0}, bytes = {0};
    write_varint(writer, &element, BUILTIN_INDEX_TYPE);
    const uint64_t index = add_entry(writer, &writer->types, WRITE_BUILTIN, &element);
    write_varint(writer, &type, BUILTIN_TENSOR_TYPE);
    write_varint(writer, &type, 1);  // the rank
    write_signed(writer, &type, numbers->shape->dims[0]);
    write_varint(writer, &type, index);
    const uint64_t tensor = add_entry(writer, &writer->types, WRITE_BUILTIN, &type);
    const int64_t length = hlo_shape_bytes(numbers->shape);
    write_varint(writer, &bytes, BUILTIN_TENSOR);
    write_varint(writer, &bytes, tensor);
    write_varint(writer, &bytes, (uint64_t)length);
    write_run(writer, &bytes, numbers->data, length);
    return add_entry(writer, &writer->attributes, WRITE_BUILTIN, &bytes);
}

// The module is of the builtin dialect and has builtin attributes, of the few kinds that export/export.c creates.
uint64_t write_builtin_index(Writer *writer, const MlirAttribute *attribute) {
    WriteBytes bytes = {0};
    if (attribute->kind == MLIR_STRING) return write_builtin_string(writer, attribute->string);
    if (attribute->kind == MLIR_ARRAY) return builtin_list(writer, attribute);
    if (attribute->kind == MLIR_TENSOR) return builtin_index_tensor(writer, attribute->literal);
    if (attribute->kind == MLIR_INTEGER) {
        int bits = hlo_type_info(attribute->type->element)->bits;
        uint64_t type = builtin_integer_type(writer, bits);
        write_varint(writer, &bytes, BUILTIN_INTEGER);
        write_varint(writer, &bytes, type);
        write_wide(writer, &bytes, bits, (uint64_t)attribute->integer);
        return add_entry(writer, &writer->attributes, WRITE_BUILTIN, &bytes);
    }
    HLO_BUG_IF(attribute->kind != MLIR_DICTIONARY);
    uint64_t *names = HLO_ARENA_NEW(writer->arena, uint64_t, attribute->count);
    uint64_t *values = HLO_ARENA_NEW(writer->arena, uint64_t, attribute->count);
    for (int64_t i = 0; i < attribute->count; i++) {
        names[i] = write_builtin_string(writer, attribute->keys[i]);
        values[i] = write_builtin_index(writer, attribute->items[i]);
    }
    return write_dictionary_index(writer, names, values, attribute->count);
}

// The kinds of location that export/export.c creates: a file's line, a name around another, a call site, unknown.
static uint64_t new_location_index(Writer *writer, const MlirAttribute *location) {
    WriteBytes bytes = {0};
    if (location->string && location->count == 0) {
        uint64_t file = write_builtin_string(writer, location->string);
        write_varint(writer, &bytes, BUILTIN_FILE_LINE);
        write_varint(writer, &bytes, file);
        write_varint(writer, &bytes, (uint64_t)location->integer);
        write_varint(writer, &bytes, location->ints.count ? (uint64_t)location->ints.items[0] : 0);
    } else if (location->string) {
        uint64_t name = write_builtin_string(writer, location->string);
        uint64_t child = write_location_index(writer, location->items[0]);
        write_varint(writer, &bytes, BUILTIN_NAME_LOCATION);
        write_varint(writer, &bytes, name);
        write_varint(writer, &bytes, child);
    } else if (location->count == 2) {
        uint64_t callee = write_location_index(writer, location->items[0]);
        uint64_t caller = write_location_index(writer, location->items[1]);
        write_varint(writer, &bytes, BUILTIN_CALL_SITE);
        write_varint(writer, &bytes, callee);
        write_varint(writer, &bytes, caller);
    } else {
        write_varint(writer, &bytes, BUILTIN_UNKNOWN_LOCATION);
    }
    return add_entry(writer, &writer->attributes, WRITE_BUILTIN, &bytes);
}

// Call stacks are trees that share their branches: each branch is written once, callers first, so that a stack of any
// depth needs no recursion.
uint64_t write_location_index(Writer *writer, const MlirAttribute *location) {
    HLO_VECTOR(const MlirAttribute *) path = {0};
    const int64_t *known;
    uint64_t index = 0;
    for (const MlirAttribute *at = location;; at = at->items[1]) {
        known = hlo_int_map_find(&writer->location_index, (uintptr_t)at);
        if (known) break;
        hlo_vector_push(writer->arena, &path, at);
        if (at->string || at->count != 2) break;
    }
    if (known) index = (uint64_t)*known;
    while (path.count > 0) {
        const MlirAttribute *at = path.items[--path.count];
        index = new_location_index(writer, at);
        hlo_int_map_set(writer->arena, &writer->location_index, (uintptr_t)at, (int64_t)index);
    }
    return index;
}
