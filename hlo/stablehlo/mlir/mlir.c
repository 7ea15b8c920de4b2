// SPDX-License-Identifier: Apache-2.0
// Builds and inspects in-memory MLIR modules: types, tensors and look-ups that the readers and the writers share.
//
// The readers (text/parse_*.c, bytecode/read*.c) build a module; the writers (text/print_*.c, bytecode/write*.c)
// receive one from export/. Everything is in one arena and does not change once made, except for marks.
//
// Constants are the large part of a file. One whose elements are all equal stays a splat (one element and a type) until
// its elements are requested, and every constant is checked before it is made: a few bytes of dense<0> :
// tensor<1000000x1000000xf32> must not take all memory.
#include "hlo/stablehlo/mlir/mlir.h"

#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/mlir/dialect.h"

// ---------------------------------------------------------------------------------------------------------------------
// Types

const MlirType *mlir_new_type(HloArena *arena, MlirType type) {
    return hlo_arena_copy(arena, &type, sizeof(type));
}

const MlirAttribute *mlir_new_attribute(HloArena *arena, MlirAttribute attribute) {
    return hlo_arena_copy(arena, &attribute, sizeof(attribute));
}

const MlirType *mlir_element_type(HloArena *arena, HloType element) {
    return mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_ELEMENT, .element = element});
}

const MlirType *mlir_other_type(HloArena *arena, const char *name) {
    return mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_OTHER, .name = name});
}

// i1 is HLO's pred; i4 and the like are signed in HLO, since signless integers of StableHLO are.
const MlirType *mlir_integer_type(HloArena *arena, uint64_t width, bool is_unsigned) {
    assert(arena);
    static const struct {
        uint64_t width;
        HloType is_signed, is_unsigned;
    } table[] = {{2, HLO_S2, HLO_U2},    {4, HLO_S4, HLO_U4},    {8, HLO_S8, HLO_U8},
                 {16, HLO_S16, HLO_U16}, {32, HLO_S32, HLO_U32}, {64, HLO_S64, HLO_U64}};
    if (width == 1) return mlir_element_type(arena, HLO_PRED);
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (table[i].width == width)
            return mlir_element_type(arena, is_unsigned ? table[i].is_unsigned : table[i].is_signed);
    }
    return mlir_other_type(arena, "integer of an unusual width");
}

const MlirType *mlir_complex_type(HloArena *arena, const MlirType *part) {
    if (!part || part->kind != MLIR_TYPE_ELEMENT) return mlir_other_type(arena, "complex");
    if (part->element == HLO_F32) return mlir_element_type(arena, HLO_C64);
    if (part->element == HLO_F64) return mlir_element_type(arena, HLO_C128);
    return mlir_other_type(arena, "complex numbers of an unsupported type");
}

// All shapes of a program pass through here: rank, sizes and bytes are checked once, by hlo_shape_check_dims().
HloStatus mlir_tensor_type(HloArena *arena, const MlirType *element, const int64_t *sizes, int64_t rank,
                           const HloInts *bounds, const MlirType **result) {
    assert(element && rank >= 0 && result);
    bool is_index = element->kind == MLIR_TYPE_INDEX;
    if (element->kind == MLIR_TYPE_OTHER) {
        *result = element;
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(element->kind != MLIR_TYPE_ELEMENT && !is_index, HLO_INVALID_ARGUMENT, "a tensor has no element type");
    HLO_FAIL_IF(bounds && bounds->count != rank, HLO_INVALID_ARGUMENT, "%lld bounds for %lld dimensions",
                (long long)bounds->count, (long long)rank);
    HloType type = is_index ? HLO_S64 : element->element;  // layouts are tensors of index: 64-bit numbers
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank);
    bool *dynamic = HLO_ARENA_NEW(arena, bool, rank);
    bool any = false;
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = sizes[i];
        if (sizes[i] >= 0) continue;
        any = dynamic[i] = true;
        bool bounded = bounds && i < bounds->count && bounds->items[i] >= 0;
        dims[i] = bounded ? bounds->items[i] : HLO_UNBOUNDED;
    }
    HLO_TRY(hlo_shape_check_dims(type, dims, rank));
    HloShape *shape = (HloShape *)(uintptr_t)hlo_shape_array(arena, type, dims, rank);
    if (any) shape->dynamic = dynamic;
    bool is_open = false;
    for (int64_t i = 0; i < rank; i++) is_open |= dims[i] == HLO_UNBOUNDED;
    *result = mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape, .is_open = is_open});
    return HLO_SUCCESS;
}

const MlirType *mlir_future_type(HloArena *arena, const MlirType *content) {
    MlirType future = *content;
    future.is_future = true;
    return mlir_new_type(arena, future);
}

HloStatus mlir_tuple_type(HloArena *arena, const MlirType *const *types, int64_t count, const MlirType **result) {
    assert(count >= 0 && result);
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, count);
    int64_t parts = 1;
    for (int64_t i = 0; i < count; i++) {
        *result = types[i];
        if (types[i]->kind == MLIR_TYPE_OTHER) return HLO_SUCCESS;
        HLO_FAIL_IF(types[i]->kind != MLIR_TYPE_SHAPE, HLO_INVALID_ARGUMENT, "a tuple has an element without a shape");
        elements[i] = types[i]->shape;
        parts += types[i]->parts ? types[i]->parts : 1;
        HLO_FAIL_IF(parts > MLIR_MOST_TUPLE_PARTS, HLO_INVALID_ARGUMENT, "a tuple has more than %lld types",
                    (long long)MLIR_MOST_TUPLE_PARTS);
    }
    const HloShape *shape = hlo_shape_tuple(arena, elements, count);
    *result = mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape, .parts = parts});
    return HLO_SUCCESS;
}

static bool equal_lists(const MlirType *const *a, const MlirType *const *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!mlir_type_equal(a[i], b[i])) return false;
    }
    return true;
}

// Compares by structure. Layouts do not count: MLIR's types have none.
bool mlir_type_equal(const MlirType *a, const MlirType *b) {
    if (a == b) return true;
    if (!a || !b || a->kind != b->kind || a->is_future != b->is_future) return false;
    switch (a->kind) {
        case MLIR_TYPE_ELEMENT: return a->element == b->element;
        case MLIR_TYPE_SHAPE: return hlo_shape_equal(a->shape, b->shape, HLO_COMPARE_IGNORE_LAYOUT);
        case MLIR_TYPE_FUNCTION:
            return a->input_count == b->input_count && a->result_count == b->result_count &&
                   equal_lists(a->inputs, b->inputs, a->input_count) &&
                   equal_lists(a->results, b->results, a->result_count);
        case MLIR_TYPE_INDEX:
        case MLIR_TYPE_NONE: return true;
        case MLIR_TYPE_OTHER: return strcmp(a->name, b->name) == 0;
    }
    return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

// Least significant bit first, as MLIR packs i1.
static void unpack_bits(HloLiteral *literal, const unsigned char *bytes, int64_t count) {
    unsigned char *out = literal->data;
    for (int64_t i = 0; i < count; i++) out[i] = bytes[i / 8] >> (i % 8) & 1;
}

// Narrow signed integers are stored as bytes whose high bits need not be the sign.
static void extend_signs(HloLiteral *literal) {
    const HloTypeInfo *info = hlo_type_info(literal->shape->type);
    if (info->kind != HLO_KIND_SIGNED || info->bits >= 8) return;
    int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) hlo_literal_set_int64(literal, i, ((const signed char *)literal->data)[i]);
}

// Copies the elements byte for byte, as they are stored in a file.
static void take_bytes(HloLiteral *literal, const unsigned char *bytes) {
    const int64_t count = hlo_shape_elements(literal->shape);
    if (count) memcpy(literal->data, bytes, (size_t)hlo_shape_bytes(literal->shape));
    // MLIR reads as many bits of a byte as the type has.
    const int bits = literal->shape->type == HLO_PRED ? 1 : hlo_type_info(literal->shape->type)->bits;
    const unsigned char low = (unsigned char)((1U << (bits < 8 ? bits : 8)) - 1);
    for (int64_t i = 0; bits < 8 && i < count; i++) ((unsigned char *)literal->data)[i] &= low;
    extend_signs(literal);
}

HloStatus mlir_tensor_check(const MlirType *type) {
    HLO_FAIL_IF(type && type->kind == MLIR_TYPE_OTHER, HLO_UNIMPLEMENTED, "a constant's type has no form in HLO: %s",
                type->name);
    HLO_FAIL_IF(!type || type->kind != MLIR_TYPE_SHAPE || !hlo_shape_is_array(type->shape), HLO_INVALID_ARGUMENT,
                "a constant has no tensor type");
    HLO_FAIL_IF(hlo_shape_is_dynamic(type->shape), HLO_INVALID_ARGUMENT, "a constant has dynamic dimensions");
    // A splat makes a large constant from a few bytes, and may be written out later: it must not take all memory.
    HLO_FAIL_IF(hlo_shape_bytes(type->shape) > MLIR_LARGEST_CONSTANT_BYTES, HLO_INVALID_ARGUMENT,
                "a constant is larger than %lld bytes", (long long)MLIR_LARGEST_CONSTANT_BYTES);
    return HLO_SUCCESS;
}

HloStatus mlir_tensor_new(HloArena *arena, const MlirType *type, HloLiteral **literal, MlirAttribute *attribute) {
    assert(arena && literal && attribute);
    HLO_TRY(mlir_tensor_check(type));
    *literal = hlo_literal_in_arena(arena, type->shape);
    *attribute = (MlirAttribute){.kind = MLIR_TENSOR, .literal = *literal, .type = type};
    return HLO_SUCCESS;
}

// Writes small constants out immediately, so that later code need not distinguish them.
HloStatus mlir_tensor_splat(HloArena *arena, const MlirType *type, const HloLiteral *scalar, MlirAttribute *attribute) {
    HLO_TRY(mlir_tensor_check(type));
    assert(hlo_shape_elements(scalar->shape) == 1 && scalar->shape->type == type->shape->type);
    *attribute = (MlirAttribute){.kind = MLIR_TENSOR, .splat = scalar, .type = type};
    if (hlo_shape_elements(type->shape) >= MLIR_MANY_ELEMENTS) return HLO_SUCCESS;
    attribute->literal = mlir_tensor_literal(arena, attribute);
    attribute->splat = NULL;
    return HLO_SUCCESS;
}

// Writes all elements: the filled part is copied to twice its length until the array is full.
const HloLiteral *mlir_tensor_literal(HloArena *arena, const MlirAttribute *attribute) {
    assert(attribute->kind == MLIR_TENSOR);
    if (!attribute->splat) return attribute->literal;
    HloLiteral *literal = hlo_literal_in_arena(arena, attribute->type->shape);
    const size_t total = (size_t)hlo_shape_bytes(literal->shape), each = (size_t)hlo_type_bytes(literal->shape->type);
    if (total) memcpy(literal->data, attribute->splat->data, each);
    for (size_t done = each, more; done < total; done += more) {
        more = done < total - done ? done : total - done;
        memcpy((char *)literal->data + done, literal->data, more);
    }
    return literal;
}

// The number of bytes determines their meaning: packed bits of i1, one element for all, or all elements.
HloStatus mlir_tensor_from_bytes(HloArena *arena, const MlirType *type, const unsigned char *bytes, uint64_t length,
                                 MlirAttribute *attribute) {
    assert(arena && attribute);
    HLO_TRY(mlir_tensor_check(type));
    HloLiteral *literal;
    const int64_t count = hlo_shape_elements(type->shape);
    const uint64_t each = (uint64_t)hlo_type_bytes(type->shape->type);
    const bool is_pred = type->shape->type == HLO_PRED;
    if (is_pred && count > 1 && length == (uint64_t)(count + 7) / 8 && !(length == 1 && (bytes[0] == 0xFF))) {
        // One byte may be a splat of false, which packs to the same zeros.
        HLO_TRY(mlir_tensor_new(arena, type, &literal, attribute));
        unpack_bits(literal, bytes, count);
    } else if (length == each && count != 1) {
        literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, type->shape->type));
        take_bytes(literal, bytes);
        HLO_TRY(mlir_tensor_splat(arena, type, literal, attribute));
    } else {
        HLO_FAIL_IF(length != each * (uint64_t)count, HLO_INVALID_ARGUMENT,
                    "a constant of %lld elements has %llu bytes", (long long)count, (unsigned long long)length);
        HLO_TRY(mlir_tensor_new(arena, type, &literal, attribute));
        take_bytes(literal, bytes);
    }
    return HLO_SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------------
// Whether an attribute can be written

// StableHLO's value types cannot express tuples; futures are only read.
static bool can_write_type(const MlirType *type) {
    if (!type || type->is_future) return false;
    switch (type->kind) {
        case MLIR_TYPE_ELEMENT:
        case MLIR_TYPE_INDEX:
        case MLIR_TYPE_NONE: return true;
        case MLIR_TYPE_SHAPE: return hlo_shape_is_array(type->shape) || type->shape->type == HLO_TOKEN;
        case MLIR_TYPE_FUNCTION:
            for (int64_t i = 0; i < type->input_count; i++) {
                if (!can_write_type(type->inputs[i])) return false;
            }
            for (int64_t i = 0; i < type->result_count; i++) {
                if (!can_write_type(type->results[i])) return false;
            }
            return true;
        case MLIR_TYPE_OTHER: break;
    }
    return false;
}

// The type of a number must be numeric: text may contain 5 : none.
static bool can_write_number(const MlirAttribute *number) {
    const MlirType *type = number->type;
    if (!type) return false;
    if (type->kind == MLIR_TYPE_INDEX) return number->kind == MLIR_INTEGER;
    if (type->kind != MLIR_TYPE_ELEMENT) return false;
    return number->kind == MLIR_FLOAT ? hlo_type_is_float(type->element) : hlo_type_is_integer(type->element);
}

int64_t mlir_string_length(const MlirAttribute *attribute) {
    assert(attribute->kind == MLIR_STRING && attribute->string);
    return attribute->string_length ? attribute->string_length : (int64_t)strlen(attribute->string);
}

bool mlir_can_write(const MlirAttribute *attribute) {
    if (!attribute) return false;
    bool fits = true;
    switch (attribute->kind) {
        case MLIR_UNIT:
        case MLIR_BOOL:
        case MLIR_INTS: return true;
        case MLIR_INTEGER:
        case MLIR_FLOAT: return can_write_number(attribute);
        case MLIR_STRING:
        case MLIR_SYMBOL: return attribute->string != NULL && !attribute->is_foreign;
        case MLIR_ENUM: return attribute->string != NULL && mlir_words(attribute->string, strlen(attribute->string));
        case MLIR_TYPE:
        case MLIR_TENSOR: return can_write_type(attribute->type);
        case MLIR_ARRAY:
        case MLIR_DICTIONARY:
            for (int64_t i = 0; fits && i < attribute->count; i++) fits = mlir_can_write(attribute->items[i]);
            return fits;
        default: return false;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Accuracy

enum { MODE_DEFAULT, MODE_HIGHEST, MODE_TOLERANCE };

int64_t mlir_accuracy_mode(const HloAccuracy *accuracy) {
    if (accuracy->has_tolerance) return MODE_TOLERANCE;
    return accuracy->mode == HLO_AccuracyMode_HIGHEST ? MODE_HIGHEST : MODE_DEFAULT;
}

void mlir_accuracy_set_mode(HloAccuracy *accuracy, int64_t ordinal) {
    accuracy->mode = ordinal == MODE_HIGHEST ? HLO_AccuracyMode_HIGHEST : HLO_AccuracyMode_DEFAULT;
    accuracy->has_tolerance = ordinal == MODE_TOLERANCE;
}

// ---------------------------------------------------------------------------------------------------------------------
// Look-up

const MlirAttribute *mlir_attribute(const MlirOperation *operation, const char *name) {
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        const char *key = operation->attribute_names[i];
        if (key[0] == name[0] && strcmp(key, name) == 0) return operation->attributes[i];
    }
    return NULL;
}

const MlirAttribute *mlir_entry(const MlirAttribute *dictionary, const char *name) {
    if (!dictionary || dictionary->kind != MLIR_DICTIONARY) return NULL;
    for (int64_t i = 0; i < dictionary->count; i++) {
        if (strcmp(dictionary->keys[i], name) == 0) return dictionary->items[i];
    }
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Marks

bool mlir_is_foreign(const char *name) {
    static const char *const known[] = {"builtin.", "func.", "stablehlo.", "mhlo.", "chlo.", "vhlo.", "sdy."};
    for (size_t i = 0; i < HLO_COUNT_OF(known); i++)
        if (!strncmp(name, known[i], strlen(known[i]))) return false;
    return strchr(name, '.') != NULL;
}

bool mlir_is_operation_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
    bool has_dot = false;
    if (!name || !*name || !strchr(letters, *name)) return false;
    for (const char *c = name; *c; c++) {
        const bool is_dot = *c == '.' && c[1] && c[1] != '.';
        if (!is_dot && (!strchr(others, *c) || (*c == '$' && !has_dot))) return false;
        has_dot |= is_dot;
    }
    return has_dot;
}

bool mlir_is_cast(const char *name) {
    return name[0] == 'b' && strcmp(name, "builtin.unrealized_conversion_cast") == 0;
}

// One pass suffices, as uses come after definitions; nested regions are marked on the way.
static bool mark_block(MlirBlock *block) {
    bool is_open = false;
    for (int64_t i = 0; i < block->argument_count; i++) {
        is_open |= block->arguments[i]->type && block->arguments[i]->type->is_open;
    }
    for (int64_t i = 0; i < block->operation_count; i++) {
        MlirOperation *operation = block->operations[i];
        for (int64_t j = 0; j < operation->operand_count; j++) {
            if (operation->operands[j]->same) operation->operands[j] = operation->operands[j]->same;
            operation->operands[j]->is_used = true;
        }
        for (int64_t j = 0; j < operation->result_count; j++) {
            is_open |= operation->results[j]->type && operation->results[j]->type->is_open;
        }
        bool is_cast = operation->operand_count == operation->result_count && mlir_is_cast(operation->name);
        for (int64_t j = 0; is_cast && j < operation->result_count; j++) {
            operation->results[j]->same = operation->operands[j];
        }
        if (operation->region_count) is_open |= mlir_mark(operation);
    }
    return is_open;
}

bool mlir_mark(MlirOperation *top) {
    bool is_open = false;
    for (int64_t r = 0; r < top->region_count; r++) {
        MlirRegion *region = &top->regions[r];
        for (int64_t b = 0; b < region->block_count; b++) region->is_open |= mark_block(&region->blocks[b]);
        is_open |= region->is_open;
    }
    return is_open;
}

// Memory kinds as JAX names them (jax/_src/memories).
static const struct {
    int64_t space;
    const char *kind;
} memory_kinds[] = {
    {HLO_SPACE_DEVICE, "device"},
    {HLO_SPACE_PINNED_HOST, "pinned_host"},
    {HLO_SPACE_UNPINNED_HOST, "unpinned_host"},
};

int64_t mlir_memory_space(const char *kind) {
    for (size_t i = 0; i < HLO_COUNT_OF(memory_kinds); i++)
        if (strcmp(memory_kinds[i].kind, kind) == 0) return memory_kinds[i].space;
    return HLO_ABSENT;
}

const char *mlir_memory_kind(int64_t space) {
    for (size_t i = 0; i < HLO_COUNT_OF(memory_kinds); i++)
        if (memory_kinds[i].space == space) return memory_kinds[i].kind;
    return NULL;
}
