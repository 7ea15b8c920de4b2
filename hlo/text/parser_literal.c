// SPDX-License-Identifier: Apache-2.0
// Literals: nested braces with numbers, tuples in parentheses. Every value is checked against the range of its type.
//
// Text is the only format in which the number of elements and the declared shape can disagree, so the reader counts
// rows at every level (Cursor) and reports the dimension with too many or too few. Elements are written directly into
// the literal's memory. {...}, which XLA prints instead of large constants, has no values: the caller's options
// determine whether that is an error, zeros, or a literal marked as having none.
#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "hlo/text/parser.h"

// Above this, zeros and made-up values for {...} are refused: the text does not bound their number.
#define LARGEST_FILLED_BYTES (INT64_C(1) << 31)

// Bits of a NaN payload that the type can hold; 0 for types with a single NaN.
static int payload_bits(HloType type) {
    assert(hlo_type_is_float(type));
    switch (type) {
        case HLO_F8E4M3FN:
        case HLO_F8E4M3B11FNUZ:
        case HLO_F8E5M2FNUZ:
        case HLO_F8E4M3FNUZ:
        case HLO_F4E2M1FN:
        case HLO_F8E8M0FNU: return 0;
        default: return hlo_type_info(type)->mantissa_bits;
    }
}

// The lower bytes: supported machines are little-endian.
static void store_bits(void *to, uint64_t bits, int bytes) {
    memcpy(to, &bits, (size_t)bytes);
}

// Stores a NaN whose payload is that of the double.
static bool set_nan(HloParser *parser, const char *where, HloType type, double value, void *to) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint64_t payload = bits & ((UINT64_C(1) << 52) - 1);
    bool plain = payload == UINT64_C(1) << 51;
    int mantissa = payload_bits(type);
    const HloTypeInfo *info = hlo_type_info(type);
    if (mantissa == 0) {
        if (!plain) return hlo_parser_fail(parser, where, "a NaN of %s has no payload", info->text);
        store_bits(to, hlo_float_encode(type, value), info->storage_bytes);
        return true;
    }
    if (plain) payload = UINT64_C(1) << (mantissa - 1);
    if (payload >> mantissa) {
        return hlo_parser_fail(parser, where, "NaN payload 0x%" PRIx64 " does not fit in %s", payload, info->text);
    }
    uint64_t exponent = ((UINT64_C(1) << info->exponent_bits) - 1) << mantissa;
    uint64_t sign = (bits >> 63) << (info->exponent_bits + mantissa);
    store_bits(to, sign | exponent | payload, info->storage_bytes);
    return true;
}

// A number that rounds to infinity is an error: only an explicit infinity is accepted.
static bool set_float(HloParser *parser, const char *where, HloType type, double value, void *to) {
    assert(hlo_type_is_float(type) && to);
    if (isnan(value)) return set_nan(parser, where, type, value, to);
    if (type == HLO_F32) {
        float narrow = (float)value;
        memcpy(to, &narrow, sizeof(narrow));
        if (!isinf(narrow) || isinf(value)) return true;
    } else if (type == HLO_F64) {
        memcpy(to, &value, sizeof(value));
        return true;
    } else {
        uint64_t bits = hlo_float_encode(type, value);
        store_bits(to, bits, hlo_type_bytes(type));
        if (isinf(value) || isfinite(hlo_float_decode(type, bits))) return true;
    }
    return hlo_parser_fail(parser, where, "value %g is out of range for %s", value, hlo_type_text(type));
}

// Any number but 0 is true, as in XLA's parser; others must fit in their type.
static bool set_int(HloParser *parser, const char *where, HloType type, int64_t value, void *to) {
    assert(to);
    const HloTypeInfo *info = hlo_type_info(type);
    if (info->kind == HLO_KIND_PRED) {
        *(uint8_t *)to = value != 0;
        return true;
    }
    bool fits = true;
    if (info->bits < 64) {
        int64_t limit = INT64_C(1) << (info->kind == HLO_KIND_SIGNED ? info->bits - 1 : info->bits);
        fits = info->kind == HLO_KIND_SIGNED ? value >= -limit && value < limit : value >= 0 && value < limit;
    }
    if (!fits) return hlo_parser_fail(parser, where, "value %" PRId64 " is out of range for %s", value, info->text);
    store_bits(to, (uint64_t)value, info->storage_bytes);
    return true;
}

// (real, imaginary)
static bool set_complex(HloParser *parser, HloType type, void *to) {
    HloType part = hlo_type_real_part(type);
    double real, imaginary;
    hlo_lex(&parser->lexer);
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_double(parser, &real) || !set_float(parser, where, part, real, to) ||
        !hlo_parser_expect(parser, ',', "',' of a complex number")) {
        return false;
    }
    where = parser->lexer.token.start;
    return hlo_parse_double(parser, &imaginary) &&
           set_float(parser, where, part, imaginary, (char *)to + hlo_type_bytes(part)) &&
           hlo_parser_expect(parser, ')', "')' of a complex number");
}

// pred may be written as a word or as a number; floats may be written as integers.
static bool set_element(HloParser *parser, HloType type, void *to) {
    const char *where = parser->lexer.token.start;
    HloTypeKind kind = hlo_type_kind(type);
    if (kind == HLO_KIND_COMPLEX) {
        if (hlo_parser_kind(parser) != '(') return hlo_parser_unexpected(parser, "a complex number, (real, imaginary)");
        return set_complex(parser, type, to);
    }
    if (kind == HLO_KIND_FLOAT) {
        double value;
        return hlo_parse_double(parser, &value) && set_float(parser, where, type, value, to);
    }
    int64_t integer;
    if (kind == HLO_KIND_PRED && hlo_parser_kind(parser) == HLO_TOKEN_IDENTIFIER) {
        bool value;
        if (!hlo_parse_bool(parser, &value)) return false;
        integer = value;
    } else if (!hlo_parse_int(parser, &integer)) {
        return false;
    }
    return set_int(parser, where, type, integer, to);
}

// The state of reading nested braces.
typedef struct Cursor {
    const HloShape *shape;
    char *next;                      // element to fill
    int level;                       // open braces
    int64_t seen[HLO_MAXIMUM_RANK];  // elements or rows seen in the innermost open row of each dimension
} Cursor;

// `seen` counts rows of the dimension that contains the new row.
static bool open_row(HloParser *parser, Cursor *cursor) {
    assert(cursor->level >= 0);
    const HloShape *shape = cursor->shape;
    if (cursor->level >= shape->rank) {
        return HLO_PARSER_FAIL(parser, "the literal is nested deeper than its %d dimensions", shape->rank);
    }
    if (cursor->level > 0 && ++cursor->seen[cursor->level - 1] > shape->dims[cursor->level - 1]) {
        return HLO_PARSER_FAIL(parser, "more than %" PRId64 " rows in dimension %d", shape->dims[cursor->level - 1],
                               cursor->level - 1);
    }
    cursor->seen[cursor->level++] = 0;
    return true;
}

static bool close_row(HloParser *parser, Cursor *cursor) {
    if (cursor->level == 0) return HLO_PARSER_FAIL(parser, "unexpected '}'");
    int dimension = --cursor->level;
    if (cursor->seen[dimension] == cursor->shape->dims[dimension]) return true;
    return HLO_PARSER_FAIL(parser, "expected %" PRId64 " elements in dimension %d, but there are %" PRId64,
                           cursor->shape->dims[dimension], dimension, cursor->seen[dimension]);
}

static bool read_element(HloParser *parser, Cursor *cursor) {
    const HloShape *shape = cursor->shape;
    if (cursor->level != shape->rank) {
        return HLO_PARSER_FAIL(parser, "an element is at depth %d, but the literal has %d dimensions", cursor->level,
                               shape->rank);
    }
    if (shape->rank > 0 && ++cursor->seen[shape->rank - 1] > shape->dims[shape->rank - 1]) {
        return HLO_PARSER_FAIL(parser, "more than %" PRId64 " elements in a row", shape->dims[shape->rank - 1]);
    }
    if (!set_element(parser, shape->type, cursor->next)) return false;
    cursor->next += hlo_type_bytes(shape->type);
    return true;
}

// Commas are not checked: XLA's parser skips them, too.
static bool parse_values(HloParser *parser, HloLiteral *literal) {
    assert(literal->shape && hlo_shape_is_array(literal->shape));
    Cursor cursor = {.shape = literal->shape, .next = literal->data};
    do {
        int kind = hlo_parser_kind(parser);
        if (kind == '{') {
            if (!open_row(parser, &cursor)) return false;
            hlo_lex(&parser->lexer);
        } else if (kind == '}') {
            if (!close_row(parser, &cursor)) return false;
            hlo_lex(&parser->lexer);
        } else if (kind == ',') {
            hlo_lex(&parser->lexer);
        } else if (!read_element(parser, &cursor)) {
            return false;
        }
    } while (cursor.level > 0);
    return true;
}

// Distinct values, so that no two constants are mistaken for equal: words that count up, as in XLA's parser. Odd bytes
// after the last word are filled as in XLA too.
static void fill(HloParser *parser, HloLiteral *literal) {
    assert(literal->shape);
    HloType type = literal->shape->type;
    int64_t bytes = hlo_shape_bytes(literal->shape);
    unsigned char *data = literal->data;
    uint32_t mask = type == HLO_PRED ? 0x01010101 : 0xFFFFFFFF;
    for (int64_t i = 0; i < bytes / 4; i++) {
        uint32_t word = parser->elided_word++ & mask;
        memcpy(data + 4 * i, &word, sizeof(word));
    }
    for (int64_t i = 0; i < bytes % 4; i++) data[bytes / 4 + i] = parser->elided_byte++ & (unsigned char)mask;
    int bits = hlo_type_info(type)->bits;
    if (bits >= 8) return;
    for (int64_t i = 0; i < bytes; i++) {
        bool negative = hlo_type_kind(type) == HLO_KIND_SIGNED && data[i] >> (bits - 1) & 1;
        unsigned low = (1U << bits) - 1;
        data[i] = (unsigned char)(negative ? data[i] | ~low : data[i] & low);
    }
}

// Counts the bytes that the text does not bound.
static bool take_filled_bytes(HloParser *parser, const HloShape *shape) {
    parser->elided_bytes += hlo_shape_bytes(shape);
    if (parser->elided_bytes <= LARGEST_FILLED_BYTES) return true;
    return HLO_PARSER_FAIL(parser, "constants of more than %" PRId64 " bytes are too large to be filled in",
                           LARGEST_FILLED_BYTES);
}

// f32[2,2] constant(3): XLA sets the first element and leaves the others zero.
static bool parse_first_element(HloParser *parser, const HloShape *shape, HloLiteral **literal) {
    if (hlo_shape_elements(shape) == 0) return HLO_PARSER_FAIL(parser, "a value in a literal without elements");
    if (!take_filled_bytes(parser, shape)) return false;
    *literal = hlo_literal_in_arena(parser->arena, shape);
    return set_element(parser, shape->type, (*literal)->data);
}

// A literal without values, or with those that the options request.
static bool make_elided(HloParser *parser, const HloShape *shape, HloLiteral **result) {
    assert(shape && result);
    HloLiteral *literal = HLO_ARENA_NEW(parser->arena, HloLiteral, 1);
    literal->shape = shape;
    *result = literal;
    if (shape->type == HLO_TUPLE) {
        literal->elements = HLO_ARENA_NEW(parser->arena, HloLiteral *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++) {
            if (!make_elided(parser, shape->elements[i], &literal->elements[i])) return false;
        }
        return true;
    }
    if (!hlo_shape_is_array(shape)) {
        return HLO_PARSER_FAIL(parser, "there are no literals of type %s", hlo_type_text(shape->type));
    }
    if (parser->options.elided == HLO_ELIDED_KEEP) {
        literal->elided = true;
        return true;
    }
    if (!take_filled_bytes(parser, shape)) return false;
    *result = hlo_literal_in_arena(parser->arena, shape);
    if (parser->options.elided == HLO_ELIDED_FILL) fill(parser, *result);
    return true;
}

// True before {...}.
static bool at_elided(const HloParser *parser) {
    if (hlo_parser_kind(parser) != '{') return false;
    const char *dots = parser->lexer.at;
    while (*dots == ' ') dots++;
    return strncmp(dots, "...", 3) == 0;
}

// {...}
static bool parse_elided(HloParser *parser, const HloShape *shape, HloLiteral **result) {
    hlo_lex(&parser->lexer);
    hlo_lex(&parser->lexer);
    return make_elided(parser, shape, result) && hlo_parser_expect(parser, '}', "'}'");
}

// A tuple of known shape: elements are values without shapes.
static bool parse_tuple(HloParser *parser, const HloShape *shape, HloLiteral **result) {
    HloLiteral *literal = HLO_ARENA_NEW(parser->arena, HloLiteral, 1);
    literal->shape = shape;
    literal->elements = HLO_ARENA_NEW(parser->arena, HloLiteral *, shape->element_count);
    if (!hlo_parser_expect(parser, '(', "'(' of a tuple literal")) return false;
    for (int32_t i = 0; i < shape->element_count; i++) {
        if (i > 0 && !hlo_parser_expect(parser, ',', "','")) return false;
        // Elements may be elided whatever their rank, since tuples with elided values are printed this way.
        bool ok = at_elided(parser) ? parse_elided(parser, shape->elements[i], &literal->elements[i])
                                    : hlo_parse_literal_value(parser, shape->elements[i], &literal->elements[i]);
        if (!ok) return false;
    }
    *result = literal;
    return hlo_parser_expect(parser, ')', "')' of a tuple literal");
}

// The number of elements is checked against the remaining text before memory for them is allocated.
static bool parse_value(HloParser *parser, const HloShape *shape, HloLiteral **literal) {
    bool tuple = shape->type == HLO_TUPLE;
    if ((tuple || shape->rank > 0) && at_elided(parser)) return parse_elided(parser, shape, literal);
    if (tuple) return parse_tuple(parser, shape, literal);
    if (!hlo_shape_is_array(shape)) {
        return HLO_PARSER_FAIL(parser, "there are no literals of type %s", hlo_type_text(shape->type));
    }
    if (shape->rank > 0 && hlo_parser_kind(parser) != '{') return parse_first_element(parser, shape, literal);
    int64_t elements = hlo_shape_elements(shape);
    if (elements > parser->lexer.end - parser->lexer.token.start) {
        return HLO_PARSER_FAIL(parser, "the text is too short for the %" PRId64 " elements of the literal", elements);
    }
    *literal = hlo_literal_in_arena(parser->arena, shape);
    return parse_values(parser, *literal);
}

bool hlo_parse_literal_value(HloParser *parser, const HloShape *shape, HloLiteral **literal) {
    if (!hlo_parser_enter(parser)) return false;
    bool ok = parse_value(parser, shape, literal);
    parser->depth--;
    return ok;
}

// (literal, literal), where every element has its shape.
static bool parse_shaped_tuple(HloParser *parser, HloLiteral **result) {
    HLO_VECTOR(HloLiteral *) elements = {0};
    hlo_lex(&parser->lexer);
    if (hlo_parser_kind(parser) != ')') {
        do {
            HloLiteral *element;
            if (!hlo_parse_literal_here(parser, &element)) return false;
            hlo_vector_push(parser->arena, &elements, element);
        } while (hlo_parser_eat(parser, ','));
    }
    const HloShape **shapes = HLO_ARENA_NEW(parser->arena, const HloShape *, elements.count);
    for (int64_t i = 0; i < elements.count; i++) shapes[i] = elements.items[i]->shape;
    HloLiteral *literal = HLO_ARENA_NEW(parser->arena, HloLiteral, 1);
    literal->shape = hlo_shape_tuple(parser->arena, shapes, elements.count);
    literal->elements = elements.items;
    *result = literal;
    return hlo_parser_expect(parser, ')', "')' of a tuple literal");
}

// True before a tuple shape that a value follows, (s32[], f32[]) (1, 2): the form in which these literals are printed,
// while XLA's parser expects (s32[] 1, f32[] 2).
static bool at_tuple_shape(const HloParser *parser) {
    int64_t depth = 0;
    for (const char *at = parser->lexer.token.start; *at; at++) {
        if (*at == '(') depth++;
        if (*at == ')' && --depth == 0) {
            for (at++; *at == ' ';) at++;
            return *at == '(' || *at == '{';
        }
    }
    return false;
}

bool hlo_parse_literal_here(HloParser *parser, HloLiteral **literal) {
    if (!hlo_parser_enter(parser)) return false;
    const HloShape *shape;
    bool ok = hlo_parser_kind(parser) == '(' && !at_tuple_shape(parser)
                  ? parse_shaped_tuple(parser, literal)
                  : hlo_parse_shape_here(parser, &shape) && hlo_parse_literal_value(parser, shape, literal);
    parser->depth--;
    return ok;
}
