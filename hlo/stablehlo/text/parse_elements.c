// SPDX-License-Identifier: Apache-2.0
// Reads tensors of MLIR text: dense<...> and dense_resource<...>. Their type follows them, so the text between the
// angle brackets is located first and read afterwards. Elements are written directly into the literal: constants make
// up nearly all of the bytes of a model with its weights inside, and a tree of them would take ten times the memory.
// There are three spellings: one element for all of them (a splat), nested lists, and "0x..." with the bytes of all
// elements as stored in memory (little-endian), which MLIR prints for large tensors. Resources are like the last with
// four bytes of alignment before the data.
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Hexadecimal bytes

// A table, since this is the inner loop over megabytes of weights; in a function, so that it is private to its readers.
static const signed char *hex_values(void) {
    static const signed char values[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
        ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
        ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16};
    return values;  // one more than the digit, so that 0 means none
}

// The bytes of `length` digits; NULL with an error unless they are pairs of hexadecimal digits. Bad digits are only
// noted in the loop and refused after it, which keeps it free of branches.
static unsigned char *hex_bytes(AsmParser *parser, const char *digits, size_t length, uint64_t *count) {
    assert(digits && count);
    const signed char *values = hex_values();
    if (length % 2) {
        asm_fail_at(parser, digits, "an odd number of hexadecimal digits");
        return NULL;
    }
    unsigned char *bytes = hlo_arena_allocate_uninitialised(parser->arena, length / 2 + 1);
    int bad = 0;
    for (size_t i = 0; i < length / 2; i++) {
        int high = values[(unsigned char)digits[2 * i]], low = values[(unsigned char)digits[2 * i + 1]];
        bad |= high == 0 || low == 0;
        bytes[i] = (unsigned char)(((high - 1) & 15) << 4 | ((low - 1) & 15));
    }
    if (bad) {
        asm_fail_at(parser, digits, "a string of bytes that is not hexadecimal");
        return NULL;
    }
    *count = length / 2;
    return bytes;
}

// After the quote: "0x0123...". A splat of bytes is allowed as well: mlir_tensor_from_bytes() uses one element's bytes
// for all elements.
static const MlirAttribute *tensor_of_hex(AsmParser *parser, AsmSlice string, const MlirType *type) {
    uint64_t count;
    if (string.length < 2 || string.text[0] != '0' || (string.text[1] | 32) != 'x') {
        asm_fail_at(parser, string.text, "a tensor of strings, which HLO does not have");
        return NULL;
    }
    const unsigned char *bytes = hex_bytes(parser, string.text + 2, string.length - 2, &count);
    if (!bytes) return NULL;
    MlirAttribute tensor = {0};
    HloStatus status = mlir_tensor_from_bytes(parser->arena, type, bytes, count, &tensor);
    return asm_take(parser, string.text, status) ? asm_make(parser, tensor) : NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Lists

// The literal is dense and row-major, which is the order in which the text has them.
typedef struct Elements {
    HloLiteral *literal;
    const HloShape *shape;
    int64_t next;  // element to set
    int64_t count;
} Elements;

// One real number: a decimal for floats, an integer for integers, a bit pattern in hexadecimal for both. `*is_integer`
// tells which of the two results was set. For floats, a hexadecimal number is a bit pattern, which is how MLIR writes
// infinities and NaNs (LangRef, "dense elements"); decimal ones must have a point or an exponent, since MLIR refuses
// integers there. A pattern is also returned as `*real`, for the parts of complex numbers.
static bool parse_real(AsmParser *parser, HloType type, double *real, int64_t *integer, bool *is_integer) {
    const char *start = parser->at;
    char next = asm_peek(parser);
    *is_integer = !hlo_type_is_float(type);
    if (type == HLO_PRED && next > '9') {
        bool truth;
        if (!asm_bool(parser, &truth)) return false;
        *integer = truth;
        return true;
    }
    AsmNumber number;
    if (*is_integer) return asm_number(parser, &number) && asm_number_of_type(parser, &number, type, integer);
    const char *digits = parser->at + (next == '-');
    if (digits[0] == '0' && digits[1] == 'x') {
        uint64_t pattern;
        if (!asm_number(parser, &number) || !asm_number_of_bits(parser, &number, type, &pattern)) return false;
        *integer = (int64_t)pattern;
        *real = hlo_float_decode(type, pattern);
        *is_integer = true;
        return true;
    }
    while (*digits >= '0' && *digits <= '9') digits++;
    if (*digits != '.' && (*digits | 32) != 'e') return asm_fail_at(parser, start, "expected a decimal number");
    if (!asm_double(parser, real)) return false;
    *real = asm_double_of_type(type, *real);
    return true;
}

// Sets the bits of a float from a pattern: NaNs keep their payload.
static void set_pattern(HloLiteral *literal, int64_t index, int64_t pattern) {
    size_t each = (size_t)hlo_type_bytes(literal->shape->type);
    memcpy((char *)literal->data + (size_t)index * each, &pattern, each);
}

// (1.0, -2.0): both parts are stored in the element's bytes, real part first.
static bool parse_complex(AsmParser *parser, Elements *elements) {
    HloType part = hlo_type_real_part(elements->shape->type);
    size_t each = (size_t)hlo_type_bytes(part);
    char *to = (char *)elements->literal->data + (size_t)elements->next * 2 * each;
    if (!asm_expect(parser, '(')) return false;
    for (int i = 0; i < 2; i++) {
        double real = 0;
        int64_t integer = 0;
        bool is_integer;
        if (i && !asm_expect(parser, ',')) return false;
        if (!parse_real(parser, part, &real, &integer, &is_integer)) return false;
        uint64_t pattern = is_integer ? (uint64_t)integer : hlo_float_encode(part, real);
        memcpy(to + (size_t)i * each, &pattern, each);
    }
    return asm_expect(parser, ')');
}

// f32 has its own branch, since most constants have this type: hlo_literal_set_double() looks the type up each time.
static bool parse_element(AsmParser *parser, Elements *elements) {
    HloType type = elements->shape->type;
    double real = 0;
    int64_t integer = 0;
    bool is_integer;
    assert(elements->next < elements->count); /* lists are walked by the sizes that the count is made of */
    if (hlo_type_is_complex(type)) {
        if (!parse_complex(parser, elements)) return false;
    } else {
        if (!parse_real(parser, type, &real, &integer, &is_integer)) return false;
        if (!is_integer && type == HLO_F32) {
            ((float *)elements->literal->data)[elements->next] = (float)real;
        } else if (!is_integer) {
            hlo_literal_set_double(elements->literal, elements->next, real);
        } else if (hlo_type_is_float(type)) {
            set_pattern(elements->literal, elements->next, integer);
        } else {
            hlo_literal_set_int64(elements->literal, elements->next, integer);
        }
    }
    elements->next++;
    return true;
}

// Recurses over dimensions, so that lists that are too short or too long are reported where they are. The depth is the
// tensor's rank, which asm_enter() limits as well.
static bool parse_list(AsmParser *parser, Elements *elements, int64_t dimension) {
    assert(dimension >= 0);
    if (dimension == elements->shape->rank) return parse_element(parser, elements);
    int64_t size = elements->shape->dims[dimension];
    if (!asm_enter(parser) || !asm_expect(parser, '[')) return false;
    for (int64_t i = 0; i < size; i++) {
        if (i && !asm_expect(parser, ',')) return false;
        if (!parse_list(parser, elements, dimension + 1)) return false;
    }
    asm_leave(parser);
    return asm_expect(parser, ']');
}

// One value for all elements; also read if there are none, to check it.
static bool parse_splat(AsmParser *parser, const MlirType *type, MlirAttribute *tensor) {
    const HloShape *scalar = hlo_shape_scalar(parser->arena, type->shape->type);
    HloLiteral *value = hlo_literal_in_arena(parser->arena, scalar);
    Elements one = {value, scalar, 0, 1};
    const char *start = parser->at;
    return parse_element(parser, &one) &&
           asm_take(parser, start, mlir_tensor_splat(parser->arena, type, value, tensor));
}

static bool parse_elements(AsmParser *parser, const MlirType *type, MlirAttribute *tensor) {
    HloLiteral *literal = NULL;
    const char *start = parser->at, first = asm_peek(parser);
    const int64_t count = hlo_shape_elements(type->shape);
    const bool is_list = first == '[' && type->shape->rank;
    if (!is_list && first != '>') return parse_splat(parser, type, tensor);
    if (!asm_take(parser, start, mlir_tensor_new(parser->arena, type, &literal, tensor))) return false;
    if (!is_list) return count == 0 || asm_expected(parser, "elements");
    Elements elements = {literal, type->shape, 0, count};
    return parse_list(parser, &elements, 0);
}

// Goes back to the body once the type is known, and then to the end of the type. mlir_tensor_check() has checked the
// literal's size before anything is allocated: the type may claim more elements than memory has.
static const MlirAttribute *tensor_of_list(AsmParser *parser, AsmSlice body, const MlirType *type) {
    MlirAttribute tensor = {0};
    const char *after = parser->at;
    if (!asm_take(parser, body.text, mlir_tensor_check(type))) return NULL;
    parser->at = body.text;
    bool done = parse_elements(parser, type, &tensor);
    if (done && asm_peek(parser) != '>') done = asm_expected(parser, "'>'");
    parser->at = after;
    return done ? asm_make(parser, tensor) : NULL;
}

// Moves past the `>`; the body is the text before it.
static bool find_body(AsmParser *parser, AsmSlice *body) {
    if (!asm_expect(parser, '<')) return false;
    asm_skip(parser);
    const char *start = parser->at;
    const char *close = memchr(start + (*start == '"'), *start == '"' ? '"' : '>', (size_t)(parser->end - start));
    if (!close) return asm_fail_at(parser, start, "unterminated tensor");
    *body = (AsmSlice){start, (size_t)(close - start)};
    parser->at = close + (*start == '"');
    return asm_expect(parser, '>');
}

// The first character of the body determines its form.
const MlirAttribute *asm_dense(AsmParser *parser) {
    AsmSlice body = {0};
    if (!find_body(parser, &body) || !asm_expect(parser, ':')) return NULL;
    const MlirType *type = asm_type(parser);
    if (!type) return NULL;
    if (*body.text != '"') return tensor_of_list(parser, body, type);
    return tensor_of_hex(parser, (AsmSlice){body.text + 1, body.length - 1}, type);
}

// The blobs are at the end of the file; note_resources() has located them before anything was parsed.
const MlirAttribute *asm_dense_resource(AsmParser *parser) {
    const char *name = NULL, *start = parser->at;
    if (!asm_expect(parser, '<')) return NULL;
    if (asm_peek(parser) == '"') {
        if (!asm_string(parser, &name)) return NULL;
    } else {
        AsmSlice word = asm_word(parser);
        name = hlo_arena_string(parser->arena, word.text, word.length);
    }
    if (!asm_expect(parser, '>') || !asm_expect(parser, ':')) return NULL;
    const MlirType *type = asm_type(parser);
    if (!type) return NULL;
    const AsmSlice *digits = hlo_string_map_get(&parser->resources, name, strlen(name));
    uint64_t count = 0;
    const unsigned char *bytes = digits ? hex_bytes(parser, digits->text, digits->length, &count) : NULL;
    // The first four bytes are the alignment of the rest.
    if (!bytes || count < 4) {
        asm_fail_at(parser, start, "there is no resource \"%.80s\"", name);
        return NULL;
    }
    MlirAttribute tensor = {0};
    HloStatus status = mlir_tensor_from_bytes(parser->arena, type, bytes + 4, count - 4, &tensor);
    return asm_take(parser, start, status) ? asm_make(parser, tensor) : NULL;
}
