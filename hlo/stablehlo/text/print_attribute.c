// SPDX-License-Identifier: Apache-2.0
// Prints types, attributes and tensors as MLIR writes them.
//
// Output must be MLIR's byte for byte, so that programs can be compared as text: the rules are those of
// mlir/lib/IR/AsmPrinter.cpp and, for floats, of llvm/lib/Support/APFloat.cpp (toString), which rounds differently from
// printf. A float is tried with six digits, then with as many as identify it, and is printed as its bits if neither
// reads back as the same number:
//
//   1.000000e+00   1.23456788   0x7F800000 (an infinity)   0xFFC00000 (a NaN)
//
// Attributes are flat in our in-memory module (lhs_contracting_dimensions is an attribute of the operation); in the
// text, some are fields of a structured one (#stablehlo.dot<..>), which is reassembled here by the rows of
// mlir/dialect.def.
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"
#include "hlo/stablehlo/text/printer.h"

// Tensors with more elements are written as hexadecimal bytes: AsmPrinter's default for printing elements as a string.
enum { MOST_WRITTEN_ELEMENTS = 100 };

// ---------------------------------------------------------------------------------------------------------------------
// Words

static bool is_plain_word(const char *word) {
    if (!isalpha((unsigned char)*word) && *word != '_') return false;
    for (const char *c = word; *c; c++) {
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '$' && *c != '.') return false;
    }
    return true;
}

void print_bytes(Printer *printer, const char *bytes, int64_t length) {
    assert(bytes && length >= 0);
    hlo_text_char(printer->text, '"');
    for (const char *c = bytes; c < bytes + length; c++) {
        if (*c == '\\') {
            hlo_text_string(printer->text, "\\\\");
        } else if (*c >= ' ' && *c < 127 && *c != '"') {
            hlo_text_char(printer->text, *c);
        } else {
            hlo_text_format(printer->text, "\\%02X", (unsigned)(unsigned char)*c);
        }
    }
    hlo_text_char(printer->text, '"');
}

void print_string(Printer *printer, const char *string) {
    assert(string);
    print_bytes(printer, string, (int64_t)strlen(string));
}

void print_word(Printer *printer, const char *word) {
    assert(word);
    if (is_plain_word(word)) {
        hlo_text_string(printer->text, word);
    } else {
        print_string(printer, word);
    }
}

void print_int_list(Printer *printer, HloInts ints) {
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < ints.count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        hlo_text_int64(printer->text, ints.items[i]);
    }
    hlo_text_char(printer->text, ']');
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

// Types whose name in MLIR does not follow from their kind and width.
static const char *element_text(HloType type) {
    switch (type) {
        case HLO_PRED: return "i1";
        case HLO_F8E5M2: return "f8E5M2";
        case HLO_F8E4M3: return "f8E4M3";
        case HLO_F8E4M3FN: return "f8E4M3FN";
        case HLO_F8E5M2FNUZ: return "f8E5M2FNUZ";
        case HLO_F8E4M3FNUZ: return "f8E4M3FNUZ";
        case HLO_F8E4M3B11FNUZ: return "f8E4M3B11FNUZ";
        case HLO_F8E3M4: return "f8E3M4";
        case HLO_F8E8M0FNU: return "f8E8M0FNU";
        case HLO_F4E2M1FN: return "f4E2M1FN";
        case HLO_C64: return "complex<f32>";
        case HLO_C128: return "complex<f64>";
        default: return NULL;
    }
}

static void print_element(Printer *printer, HloType type) {
    const char *text = element_text(type);
    int bits = hlo_type_info(type)->bits;
    if (text) {
        hlo_text_string(printer->text, text);
    } else if (hlo_type_is_integer(type)) {
        hlo_text_format(printer->text, "%s%d", hlo_type_kind(type) == HLO_KIND_UNSIGNED ? "ui" : "i", bits);
    } else {
        hlo_text_string(printer->text, hlo_type_text(type));
    }
}

// Dynamic sizes are question marks; their bounds follow as an encoding.
static void print_tensor_type(Printer *printer, const HloShape *shape) {
    assert(shape);
    bool bounded = false;
    hlo_text_string(printer->text, "tensor<");
    for (int32_t i = 0; i < shape->rank; i++) {
        bool dynamic = shape->dynamic && shape->dynamic[i];
        bounded |= dynamic && shape->dims[i] != HLO_UNBOUNDED;
        if (dynamic) {
            hlo_text_string(printer->text, "?x");
        } else {
            hlo_text_int64(printer->text, shape->dims[i]);
            hlo_text_char(printer->text, 'x');
        }
    }
    print_element(printer, shape->type);
    if (bounded) {
        hlo_text_string(printer->text, ", #stablehlo.bounds<");
        for (int32_t i = 0; i < shape->rank; i++) {
            if (i) hlo_text_string(printer->text, ", ");
            bool known = shape->dynamic[i] && shape->dims[i] != HLO_UNBOUNDED;
            if (known) hlo_text_int64(printer->text, shape->dims[i]);
            if (!known) hlo_text_char(printer->text, '?');
        }
        hlo_text_char(printer->text, '>');
    }
    hlo_text_char(printer->text, '>');
}

static void print_types(Printer *printer, const MlirType *const *types, int64_t count) {
    hlo_text_char(printer->text, '(');
    for (int64_t i = 0; i < count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_type(printer, types[i]);
    }
    hlo_text_char(printer->text, ')');
}

void print_type(Printer *printer, const MlirType *type) {
    switch (type->kind) {
        case MLIR_TYPE_ELEMENT: print_element(printer, type->element); return;
        case MLIR_TYPE_SHAPE:
            if (type->shape->type == HLO_TOKEN) {
                hlo_text_string(printer->text, "!stablehlo.token");
            } else {
                print_tensor_type(printer, type->shape);
            }
            return;
        case MLIR_TYPE_FUNCTION:
            print_types(printer, type->inputs, type->input_count);
            hlo_text_string(printer->text, " -> ");
            if (type->result_count == 1) {
                print_type(printer, type->results[0]);
            } else {
                print_types(printer, type->results, type->result_count);
            }
            return;
        case MLIR_TYPE_INDEX: hlo_text_string(printer->text, "index"); return;
        case MLIR_TYPE_NONE: hlo_text_string(printer->text, "none"); return;
        case MLIR_TYPE_OTHER: hlo_text_string(printer->text, type->name); return;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Numbers

// The maximal number of digits of a double's exact decimal expansion, and room for its point.
enum { EXACT_DIGITS = 1600 };

// All digits of |value| = digits * 10^exponent, exactly; returns their number. A double is a binary fraction, which has
// a finite decimal expansion: printf prints all of it.
static int exact_digits(double value, char *digits, int *exponent) {
    int binary, fraction = 0, count = 0;
    double mantissa = frexp(fabs(value), &binary);
    // Each binary digit after the point takes one decimal digit.
    while (mantissa != floor(mantissa)) {
        mantissa *= 2;
        binary--;
    }
    if (binary < 0) fraction = -binary;
    char text[EXACT_DIGITS];
    hlo_snprintf(text, sizeof(text), "%.*f", fraction, fabs(value));
    for (const char *at = text; *at; at++) {
        if (*at != '.' && (count || *at != '0')) digits[count++] = *at;
    }
    *exponent = -fraction;
    return count;
}

// Rounds to `precision` digits as LLVM's APFloat::toString does: it first drops the digits that a rough estimate in
// bits finds superfluous, then rounds the rest half up. Trailing zeros are dropped. The estimate 59/196 is LLVM's
// rational for log10(2).
static int rounded_digits(double value, int precision, char *digits, int *exponent) {
    assert(precision > 0 && digits && exponent);
    int count = exact_digits(value, digits, exponent), binary;
    double mantissa = frexp(fabs(value), &binary);
    int bits = (int)floor(log2(mantissa) + binary - *exponent * 3.321928094887362348) + 1;
    int needed = (precision * 196 + 58) / 59;
    int cut = bits > needed ? (bits - needed) * 59 / 196 : 0;
    count -= cut;
    *exponent += cut;
    if (count > precision) {
        bool up = digits[precision] >= '5';
        *exponent += count - precision;
        count = precision;
        while (up && count > 0 && digits[count - 1] == '9') {
            count--;
            ++*exponent;
        }
        if (up && count > 0) digits[count - 1]++;
        if (up && count == 0) {
            digits[count++] = '1';
        }
    }
    while (count > 1 && digits[count - 1] == '0') {
        count--;
        ++*exponent;
    }
    digits[count] = 0;
    return count;
}

// d.dddddde+XX: six digits, and zeros where there are fewer.
static void print_few_digits(HloText *text, double value) {
    char digits[EXACT_DIGITS] = "0";
    int exponent = 0, count = value == 0 ? 1 : rounded_digits(value, 6, digits, &exponent);
    if (signbit(value)) hlo_text_char(text, '-');
    hlo_text_format(text, "%c.%s%.*se%+03d", digits[0], digits + 1, 7 - count, "000000", exponent + count - 1);
}

// As many digits as identify the number among those of its type, in the shorter of two notations.
static void print_many_digits(HloText *text, double value, int precision) {
    char digits[EXACT_DIGITS];
    int exponent, count = rounded_digits(value, precision, digits, &exponent);
    int whole = count + exponent;  // digits before the point
    bool scientific = exponent >= 0 ? exponent > 3 || whole > precision : whole <= 0 && 1 - whole > 3;
    if (signbit(value)) hlo_text_char(text, '-');
    if (scientific) {
        hlo_text_format(text, "%c.%sE%+d", digits[0], count > 1 ? digits + 1 : "0", whole - 1);
    } else if (exponent >= 0) {
        hlo_text_format(text, "%s%.*s", digits, exponent, "000");
    } else if (whole > 0) {
        hlo_text_format(text, "%.*s.%s", whole, digits, digits + whole);
    } else {
        hlo_text_format(text, "0.%.*s%s", -whole, "000", digits);
    }
}

// A number of a floating-point type as MLIR writes it: 1.000000e+00, 0.333333343, 0x7FC00000. Six digits first; if
// those do not read back as the same number, as many as needed; as a last resort, and for infinities and NaNs, the bit
// pattern.
static void print_float(Printer *printer, HloType type, uint64_t pattern) {
    assert(hlo_type_is_float(type));
    HloText *text = printer->text;
    double value = hlo_float_decode(type, pattern);
    int bits = hlo_type_info(type)->bits;
    size_t start = text->length;
    if (isfinite(value)) {
        print_few_digits(text, value);
        if (text->data && hlo_float_encode(type, hlo_strtod(text->data + start, NULL)) == pattern) return;
        text->length = start;
        // f64's 53 bits need 17 digits, f32's 24 nine: LLVM's formula, from the bits with the hidden one.
        print_many_digits(text, value, 2 + (hlo_type_info(type)->mantissa_bits + 1) * 59 / 196);
        if (text->data && memchr(text->data + start, '.', text->length - start)) return;
        text->length = start;
    }
    hlo_text_format(text, "0x%0*llX", (bits + 3) / 4, (unsigned long long)pattern);
}

// The bits of element `index`; complex numbers count as pairs.
static uint64_t pattern_at(const HloLiteral *literal, HloType part, int64_t index) {
    size_t each = (size_t)hlo_type_bytes(part);
    uint64_t pattern = 0;
    memcpy(&pattern, (const char *)literal->data + (size_t)index * each, each);
    return pattern;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

static void print_element_value(Printer *printer, const HloLiteral *literal, int64_t index) {
    assert(index >= 0);
    HloType type = literal->shape->type;
    if (hlo_type_is_complex(type)) {
        HloType part = hlo_type_real_part(type);
        hlo_text_char(printer->text, '(');
        print_float(printer, part, pattern_at(literal, part, 2 * index));
        hlo_text_char(printer->text, ',');
        print_float(printer, part, pattern_at(literal, part, 2 * index + 1));
        hlo_text_char(printer->text, ')');
    } else if (hlo_type_is_float(type)) {
        print_float(printer, type, pattern_at(literal, type, index));
    } else if (type == HLO_PRED) {
        hlo_text_string(printer->text, hlo_literal_get_int64(literal, index) ? "true" : "false");
    } else if (hlo_type_kind(type) == HLO_KIND_UNSIGNED) {
        hlo_text_uint64(printer->text, (uint64_t)hlo_literal_get_int64(literal, index));
    } else {
        hlo_text_int64(printer->text, hlo_literal_get_int64(literal, index));
    }
}

// One pair of brackets per dimension; returns the index of the next element.
static int64_t print_nested(Printer *printer, const HloLiteral *literal, int32_t dimension, int64_t index) {
    if (dimension == literal->shape->rank) {
        print_element_value(printer, literal, index);
        return index + 1;
    }
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < literal->shape->dims[dimension]; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        index = print_nested(printer, literal, dimension + 1, index);
    }
    hlo_text_char(printer->text, ']');
    return index;
}

// Narrow integers are stored in bytes, of which only their own bits are written.
static void print_hex(Printer *printer, const HloLiteral *literal) {
    static const char digits[] = "0123456789ABCDEF";
    const HloTypeInfo *info = hlo_type_info(literal->shape->type);
    int64_t bytes = hlo_shape_bytes(literal->shape);
    unsigned mask = info->bits < 8 ? (1U << info->bits) - 1 : 0xFF;
    hlo_text_string(printer->text, "\"0x");
    char *out = hlo_text_reserve(printer->text, (size_t)bytes * 2);
    if (!out) return;
    for (int64_t i = 0; i < bytes; i++) {
        unsigned byte = ((const unsigned char *)literal->data)[i] & mask;
        out[2 * i] = digits[byte >> 4];
        out[2 * i + 1] = digits[byte & 15];
    }
    printer->text->length += (size_t)bytes * 2;
    hlo_text_char(printer->text, '"');
}

// A splat's element is written once.
static void print_tensor(Printer *printer, const MlirAttribute *attribute) {
    assert(attribute->kind == MLIR_TENSOR);
    const HloLiteral *literal = attribute->splat ? attribute->splat : attribute->literal;
    int64_t count = hlo_shape_elements(literal->shape);
    hlo_text_string(printer->text, "dense<");
    if (count > 0 && hlo_literal_is_splat(literal)) {
        print_element_value(printer, literal, 0);
    } else if (count > MOST_WRITTEN_ELEMENTS) {
        print_hex(printer, literal);
    } else if (count > 0) {
        print_nested(printer, literal, 0, 0);
    }
    hlo_text_string(printer->text, "> : ");
    if (attribute->type->kind == MLIR_TYPE_INDEX) {
        hlo_text_format(printer->text, "tensor<%lldxindex>", (long long)count);
    } else {
        print_type(printer, attribute->type);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

static void print_ints(Printer *printer, const MlirAttribute *attribute) {
    assert(attribute->kind == MLIR_INTS);
    bool is_pred =
        attribute->type && attribute->type->kind == MLIR_TYPE_ELEMENT && attribute->type->element == HLO_PRED;
    hlo_text_string(printer->text, is_pred ? "array<i1" : "array<i64");
    for (int64_t i = 0; i < attribute->ints.count; i++) {
        hlo_text_string(printer->text, i ? ", " : ": ");
        if (is_pred) {
            hlo_text_string(printer->text, attribute->ints.items[i] ? "true" : "false");
        } else {
            hlo_text_int64(printer->text, attribute->ints.items[i]);
        }
    }
    hlo_text_char(printer->text, '>');
}

static void print_enum(Printer *printer, const MlirAttribute *attribute) {
    assert(attribute->kind == MLIR_ENUM);
    size_t length;
    const char *kind = attribute->string;
    const char *words = kind ? mlir_words(kind, strlen(kind)) : NULL;
    const char *word = words ? mlir_number_word(words, attribute->integer, &length) : NULL;
    if (word) {
        hlo_text_format(printer->text, "#%s<%s %.*s>", printer->dialect, kind, (int)length, word);
    } else {
        hlo_text_format(printer->text, "%lld : i32", (long long)attribute->integer);
    }
}

static void print_accuracy(Printer *printer, const HloAccuracy *accuracy) {
    hlo_text_string(printer->text, "#stablehlo.result_accuracy<");
    const double numbers[] = {accuracy->atol, accuracy->rtol};
    for (int i = 0; i < 2; i++) {
        uint64_t pattern;
        memcpy(&pattern, &numbers[i], sizeof(pattern));
        if (numbers[i] == 0) continue;
        hlo_text_string(printer->text, i ? "rtol = " : "atol = ");
        print_float(printer, HLO_F64, pattern);
        hlo_text_string(printer->text, ", ");
    }
    if (accuracy->ulps) hlo_text_format(printer->text, "ulps = %lld, ", (long long)accuracy->ulps);
    static const char *const modes[] = {"DEFAULT", "HIGHEST", "TOLERANCE"};
    hlo_text_format(printer->text, "mode = #stablehlo.result_accuracy_mode<%s>>", modes[mlir_accuracy_mode(accuracy)]);
}

static void print_alias(Printer *printer, const MlirAttribute *alias) {
    hlo_text_string(printer->text, "#stablehlo.output_operand_alias<output_tuple_indices = ");
    print_int_list(printer, alias->items[0]->ints);
    hlo_text_format(printer->text, ", operand_index = %lld, operand_tuple_indices = ", (long long)alias->integer);
    print_int_list(printer, alias->items[1]->ints);
    hlo_text_char(printer->text, '>');
}

// The type is always written: without one, a reader assumes f64.
static void print_typed_float(Printer *printer, const MlirAttribute *attribute) {
    HloType type = attribute->type->element;
    print_float(printer, type, hlo_float_encode(type, attribute->real));
    hlo_text_string(printer->text, " : ");
    print_type(printer, attribute->type);
}

static void print_list(Printer *printer, const MlirAttribute *list) {
    assert(list->kind == MLIR_ARRAY);
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < list->count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_attribute(printer, list->items[i]);
    }
    hlo_text_char(printer->text, ']');
}

typedef struct KeyedItem {
    const char *key;
    const MlirAttribute *item;
} KeyedItem;

// Compares in the order of bytes, which is MLIR's.
static int compare_keys(const void *a, const void *b) {
    return strcmp(((const KeyedItem *)a)->key, ((const KeyedItem *)b)->key);
}

// Entries are in the order of their keys, as in MLIR.
static void print_entries(Printer *printer, const MlirAttribute *dictionary) {
    assert(dictionary->kind == MLIR_DICTIONARY);
    KeyedItem *entries = HLO_ARENA_NEW(printer->arena, KeyedItem, dictionary->count);
    for (int64_t i = 0; i < dictionary->count; i++) entries[i] = (KeyedItem){dictionary->keys[i], dictionary->items[i]};
    qsort(entries, (size_t)dictionary->count, sizeof(*entries), compare_keys);
    hlo_text_char(printer->text, '{');
    for (int64_t i = 0; i < dictionary->count; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        print_word(printer, entries[i].key);
        if (entries[i].item->kind == MLIR_UNIT) continue;
        hlo_text_string(printer->text, " = ");
        print_attribute(printer, entries[i].item);
    }
    hlo_text_char(printer->text, '}');
}

void print_attribute(Printer *printer, const MlirAttribute *attribute) {
    switch (attribute->kind) {
        case MLIR_UNIT: hlo_text_string(printer->text, "unit"); return;
        case MLIR_BOOL: hlo_text_string(printer->text, attribute->integer ? "true" : "false"); return;
        case MLIR_INTEGER:
            hlo_text_format(printer->text, "%lld : ", (long long)attribute->integer);
            print_type(printer, attribute->type);
            return;
        case MLIR_FLOAT: print_typed_float(printer, attribute); return;
        case MLIR_STRING: print_bytes(printer, attribute->string, mlir_string_length(attribute)); return;
        case MLIR_SYMBOL:
            hlo_text_char(printer->text, '@');
            print_word(printer, attribute->string);
            return;
        case MLIR_TYPE: print_type(printer, attribute->type); return;
        case MLIR_ARRAY: print_list(printer, attribute); return;
        case MLIR_DICTIONARY: print_entries(printer, attribute); return;
        case MLIR_TENSOR: print_tensor(printer, attribute); return;
        case MLIR_INTS: print_ints(printer, attribute); return;
        case MLIR_ENUM: print_enum(printer, attribute); return;
        case MLIR_ALIAS: print_alias(printer, attribute); return;
        case MLIR_ACCURACY: print_accuracy(printer, attribute->accuracy); return;
        default: HLO_BUG_IF(true); return;  // nothing that the exporter makes
    }
}

typedef struct TextRequest {
    HloArena *arena;
    const MlirAttribute *attribute;
    HloText text;
} TextRequest;

static HloStatus print_request(void *argument) {
    TextRequest *request = argument;
    Printer printer = {.arena = request->arena, .text = &request->text, .dialect = "stablehlo"};
    print_attribute(&printer, request->attribute);
    return HLO_SUCCESS;
}

// The text grows outside of the arena while dictionaries allocate from it: a jump in between must not leak the text.
const char *mlir_attribute_text(HloArena *arena, const MlirAttribute *attribute) {
    assert(mlir_can_write(attribute));
    TextRequest request = {arena, attribute, {0}};
    HloStatus status = hlo_protect(print_request, &request);
    if (!status) return hlo_text_to_arena(arena, &request.text);
    hlo_status_free(status);
    hlo_text_free(&request.text);
    hlo_out_of_memory();
}

// ---------------------------------------------------------------------------------------------------------------------
// Structured attributes

// [b, f, 0, 1]
static void print_roles(Printer *printer, const MlirOperation *operation, const char *const names[3],
                        const char *letters) {
    const HloInts spatial = mlir_attribute(operation, names[2])->ints;
    int64_t first = mlir_attribute(operation, names[0])->integer;
    int64_t second = mlir_attribute(operation, names[1])->integer;
    hlo_text_char(printer->text, '[');
    for (int64_t i = 0; i < spatial.count + 2; i++) {
        if (i) hlo_text_string(printer->text, ", ");
        if (i == first || i == second) {
            hlo_text_char(printer->text, letters[i == second]);
            continue;
        }
        for (int64_t j = 0; j < spatial.count; j++) {
            if (spatial.items[j] == i) hlo_text_int64(printer->text, j);
        }
    }
    hlo_text_char(printer->text, ']');
}

void print_convolution_dimensions(Printer *printer, const MlirOperation *operation) {
    static const char *const names[3][3] = {
        {"input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"},
        {"kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"},
        {"output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"}};
    print_roles(printer, operation, names[0], "bf");
    hlo_text_char(printer->text, 'x');
    print_roles(printer, operation, names[1], "io");
    hlo_text_string(printer->text, "->");
    print_roles(printer, operation, names[2], "bf");
}

void print_fields(Printer *printer, const MlirOperation *operation, const char *kind, size_t length) {
    assert(kind && length > 0);
    const char *fields = mlir_fields(kind, length), *separator = "";
    bool all = strncmp(kind, "channel_handle", length) == 0 || strncmp(kind, "dot_algorithm", length) == 0;
    MlirFieldInfo field;
    hlo_text_char(printer->text, '<');
    while (mlir_next_field(&fields, &field)) {
        const char *flat = hlo_arena_string(printer->arena, field.flat, field.flat_length);
        const MlirAttribute *attribute = mlir_attribute(operation, flat);
        bool is_empty = !attribute || (attribute->kind == MLIR_INTS && attribute->ints.count == 0) ||
                        (attribute->kind == MLIR_INTEGER && attribute->integer == 0);
        if (!attribute || (is_empty && !all)) continue;
        hlo_text_format(printer->text, "%s%.*s = ", separator, (int)field.text_length, field.text);
        separator = ", ";
        if (attribute->kind == MLIR_INTS) {
            print_int_list(printer, attribute->ints);
        } else if (attribute->kind == MLIR_INTEGER) {
            hlo_text_int64(printer->text, attribute->integer);
        } else {
            print_attribute(printer, attribute);
        }
    }
    hlo_text_char(printer->text, '>');
}

typedef struct Entry {
    const char *name;
    MlirFieldInfo field;             // of a structured attribute
    const MlirAttribute *attribute;  // NULL for a structured one
} Entry;

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const Entry *)a)->name, ((const Entry *)b)->name);
}

// True if the pretty form prints the attribute, found by looking for its directive in the row's form.
static bool is_said(const MlirOperation *operation, const MlirOpInfo *info, const char *name) {
    static const struct {
        const char *mark, *names;
    } special[] = {{"$*slice", "limit_indices start_indices strides"},
                   {"$*window", "window_strides padding lhs_dilation rhs_dilation window_reversal"},
                   {"$*conv", "dimension_numbers"},
                   {"$*dot", "dot_dimension_numbers"},
                   {"$*precision", "precision_config"},
                   {"$*algorithm", "algorithm"},
                   {"$*format", "exponent_bits mantissa_bits"}};
    size_t length = strlen(name);
    if (!info->pretty) return strcmp(operation->name, "stablehlo.reduce") == 0 && strcmp(name, "dimensions") == 0;
    for (const char *at = strchr(info->pretty, '$'); at; at = strchr(at + 1, '$')) {
        const char *word = at + 1 + (at[1] == '?' || at[1] == '@');
        if (strncmp(word, name, length) == 0 && !isalnum((unsigned char)word[length]) && word[length] != '_')
            return true;
    }
    for (size_t i = 0; i < HLO_COUNT_OF(special); i++) {
        const char *found = strstr(info->pretty, special[i].mark) ? strstr(special[i].names, name) : NULL;
        if (found && (found[length] == ' ' || found[length] == 0)) return true;
    }
    return false;
}

typedef HLO_VECTOR(Entry) EntryVector;

// Collects the attributes that the op's row names, with structured ones reassembled.
static void collect_own(Printer *printer, const MlirOperation *operation, const MlirOpInfo *info, bool all,
                        EntryVector *entries) {
    const char *list = info->attributes;
    MlirFieldInfo field;
    while (mlir_next_field(&list, &field)) {
        Entry entry = {.name = hlo_arena_string(printer->arena, field.text, field.text_length), .field = field};
        const char *fields = mlir_fields(field.kind, field.kind_length);
        bool is_conv = field.kind_length == 4 && memcmp(field.kind, "conv", 4) == 0;
        bool present;
        if (fields || is_conv) {
            MlirFieldInfo first = {.flat = "input_batch_dimension", .flat_length = 21};
            if (fields) mlir_next_field(&fields, &first);
            const char *flat = hlo_arena_string(printer->arena, first.flat, first.flat_length);
            present = mlir_attribute(operation, flat) != NULL;
        } else {
            entry.attribute = mlir_attribute(operation, entry.name);
            present = entry.attribute != NULL;
        }
        if (present && (all || !is_said(operation, info, entry.name))) hlo_vector_push(printer->arena, entries, entry);
    }
}

// Attributes of other dialects are recognised by the dot in their names.
static void collect_other(Printer *printer, const MlirOperation *operation, EntryVector *entries) {
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        const char *name = operation->attribute_names[i];
        Entry entry = {.name = name, .attribute = operation->attributes[i]};
        if (strchr(name, '.')) hlo_vector_push(printer->arena, entries, entry);
    }
}

bool print_dictionary(Printer *printer, const MlirOperation *operation, PrintWhich which, const char *before,
                      const char *after) {
    assert(before && after);
    const MlirOpInfo *info = mlir_op_info(operation->name, strlen(operation->name));
    EntryVector entries = {0};
    if (which != PRINT_OTHER) collect_own(printer, operation, info, which == PRINT_OWN, &entries);
    if (which != PRINT_OWN) collect_other(printer, operation, &entries);
    if (entries.count == 0) return false;
    qsort(entries.items, (size_t)entries.count, sizeof(*entries.items), compare_entries);
    printer->dialect = strncmp(operation->name, "chlo.", 5) == 0 ? "chlo" : "stablehlo";
    hlo_text_string(printer->text, before);
    for (int64_t i = 0; i < entries.count; i++) {
        const Entry *entry = &entries.items[i];
        if (i) hlo_text_string(printer->text, ", ");
        print_word(printer, entry->name);
        if (entry->attribute && entry->attribute->kind == MLIR_UNIT) continue;
        hlo_text_string(printer->text, " = ");
        if (entry->attribute) {
            print_attribute(printer, entry->attribute);
        } else if (mlir_fields(entry->field.kind, entry->field.kind_length)) {
            hlo_text_format(printer->text, "#%s.%.*s", printer->dialect, (int)entry->field.kind_length,
                            entry->field.kind);
            print_fields(printer, operation, entry->field.kind, entry->field.kind_length);
        } else {
            hlo_text_string(printer->text, "#stablehlo.conv<");
            print_convolution_dimensions(printer, operation);
            hlo_text_char(printer->text, '>');
        }
    }
    hlo_text_string(printer->text, after);
    printer->dialect = "stablehlo";
    return true;
}
