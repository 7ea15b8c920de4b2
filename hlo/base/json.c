// SPDX-License-Identifier: Apache-2.0
// A writer and a parser of JSON (RFC 8259).
//
// The writer produces text immediately and keeps no stack: one bit, `has_item`, records whether a comma is due, and
// only for the innermost container, since after a container closes its parent certainly has an item. Numbers get the
// fewest digits that read back as the same double; values that JSON cannot express (NaN, infinities) become null.
//
// The parser is recursive descent with a depth limit, and strict where parsers would otherwise disagree: no duplicate
// keys, no control characters in strings, surrogates in pairs. Values live in the arena. Integers of up to 18 digits
// are kept exactly beside their double.
#include "hlo/base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hlo/base/decimal.h"
#include "hlo/base/map.h"
#include "hlo/base/printable.h"
#include "hlo/base/vector.h"

enum { MAX_DEPTH = 100 };

// Writes the comma and the line break before a key, or before a value without a key.
static void begin_item(HloJsonWriter *writer) {
    assert(writer->text && writer->depth >= 0);
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    if (writer->has_item) hlo_text_char(writer->text, ',');
    writer->has_item = true;
    if (writer->depth > 0 && writer->depth <= writer->lines) {
        hlo_text_char(writer->text, '\n');
        for (int64_t i = 0; i < writer->depth; ++i) hlo_text_char(writer->text, ' ');
    }
}

static void open_container(HloJsonWriter *writer, char bracket) {
    begin_item(writer);
    hlo_text_char(writer->text, bracket);
    ++writer->depth;
    writer->has_item = false;
}

static void close_container(HloJsonWriter *writer, char bracket) {
    assert(writer->depth > 0);   // a key without its value
    assert(!writer->after_key);  // a key without its value
    HLO_BUG_IF(writer->depth == 0 || writer->after_key);
    if (writer->has_item && writer->depth <= writer->lines) hlo_text_char(writer->text, '\n');
    --writer->depth;
    writer->has_item = true;
    hlo_text_char(writer->text, bracket);
}

void hlo_json_begin_object(HloJsonWriter *writer) {
    open_container(writer, '{');
}

void hlo_json_end_object(HloJsonWriter *writer) {
    close_container(writer, '}');
}

void hlo_json_begin_array(HloJsonWriter *writer) {
    open_container(writer, '[');
}

void hlo_json_end_array(HloJsonWriter *writer) {
    close_container(writer, ']');
}

// Escapes only what RFC 8259, section 7, requires. JSON is UTF-8 (section 8.1): a byte that is not part of a character
// becomes the replacement character, so that one bad name does not make the document unreadable.
static void write_quoted(HloText *text, const char *value, size_t length) {
    hlo_text_char(text, '"');
    for (size_t i = 0; i < length; ++i) {
        unsigned char c = (unsigned char)value[i];
        const int bytes = c < 0x80 ? 1 : hlo_utf8_length(value + i, length - i, NULL);
        if (bytes != 1) {
            if (bytes == 0) hlo_text_string(text, "\xEF\xBF\xBD");
            if (bytes > 1) hlo_text_append(text, value + i, (size_t)bytes);
            i += bytes > 1 ? (size_t)bytes - 1 : 0;
            continue;
        }
        switch (c) {
            case '"': hlo_text_string(text, "\\\""); break;
            case '\\': hlo_text_string(text, "\\\\"); break;
            case '\n': hlo_text_string(text, "\\n"); break;
            case '\t': hlo_text_string(text, "\\t"); break;
            default:
                if (c < 0x20) {
                    hlo_text_format(text, "\\u%04x", c);
                } else {
                    hlo_text_char(text, (char)c);
                }
        }
    }
    hlo_text_char(text, '"');
}

void hlo_json_key(HloJsonWriter *writer, const char *key) {
    assert(writer->depth > 0 && !writer->after_key && key);
    HLO_BUG_IF(writer->after_key);
    begin_item(writer);
    write_quoted(writer->text, key, strlen(key));
    hlo_text_char(writer->text, ':');
    writer->after_key = true;
}

void hlo_json_bytes(HloJsonWriter *writer, const char *value, size_t length) {
    begin_item(writer);
    write_quoted(writer->text, value, length);
}

void hlo_json_string(HloJsonWriter *writer, const char *value) {
    if (value) {
        hlo_json_bytes(writer, value, strlen(value));
    } else {
        hlo_json_null(writer);
    }
}

void hlo_json_int64(HloJsonWriter *writer, int64_t value) {
    begin_item(writer);
    hlo_text_int64(writer->text, value);
}

void hlo_json_double(HloJsonWriter *writer, double value) {
    if (!isfinite(value)) {
        hlo_json_null(writer);
        return;
    }
    char digits[40];
    for (int precision = 15; precision <= 17; ++precision) {
        hlo_snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (hlo_strtod(digits, NULL) == value) break;
    }
    begin_item(writer);
    hlo_text_string(writer->text, digits);
}

void hlo_json_bool(HloJsonWriter *writer, bool value) {
    begin_item(writer);
    hlo_text_string(writer->text, value ? "true" : "false");
}

void hlo_json_null(HloJsonWriter *writer) {
    begin_item(writer);
    hlo_text_string(writer->text, "null");
}

void hlo_json_int64_array(HloJsonWriter *writer, const int64_t *values, int64_t count) {
    assert(count >= 0);
    int64_t lines = writer->lines;
    hlo_json_begin_array(writer);
    writer->lines = 0;
    for (int64_t i = 0; i < count; ++i) hlo_json_int64(writer, values[i]);
    hlo_json_end_array(writer);
    writer->lines = lines;
}

typedef struct Parser {
    HloArena *arena;
    const char *name;
    const char *start;
    const char *at;
    const char *end;
    int depth;
    HloJsonValue *root;
} Parser;

static HloStatus parse_value(Parser *parser, HloJsonValue *value);

// Makes an error at the parser's position, with its line.
static HloStatus fail(const Parser *parser, const char *message) {
    int64_t line = 1;
    const char *line_start = parser->start;
    for (const char *p = parser->start; p < parser->at; ++p) {
        if (*p != '\n') continue;
        ++line;
        line_start = p + 1;
    }
    const char *line_end = line_start;
    while (line_end < parser->end && *line_end != '\n' && line_end - line_start < 300) ++line_end;
    char shown[301];
    memcpy(shown, line_start, (size_t)(line_end - line_start));
    shown[line_end - line_start] = 0;
    HloPlace place = {.file = parser->name, .line = line, .column = parser->at - line_start + 1, .line_text = shown};
    return hlo_error_at(HLO_INVALID_ARGUMENT, &place, "JSON: %s", message);
}

static void skip_space(Parser *parser) {
    while (parser->at < parser->end && memchr(" \t\r\n", *parser->at, 4)) ++parser->at;
}

static bool accept(Parser *parser, char character) {
    skip_space(parser);
    if (parser->at == parser->end || *parser->at != character) return false;
    ++parser->at;
    return true;
}

// Skips no blanks: within a string this reads the second half of a surrogate pair.
static bool accept_word(Parser *parser, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0) return false;
    parser->at += length;
    return true;
}

// Reads the four digits of \uXXXX; -1 if they are missing.
static int32_t parse_hex4(Parser *parser) {
    int32_t value = 0;
    if (parser->end - parser->at < 4) return -1;
    for (int i = 0; i < 4; ++i) {
        char c = *parser->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

// Parses \uXXXX, with the second half of a surrogate pair if one is needed.
static HloStatus parse_unicode_escape(Parser *parser, char **out) {
    int32_t code = parse_hex4(parser);
    if (code >= 0xD800 && code < 0xDC00) {
        int32_t low = accept_word(parser, "\\u") ? parse_hex4(parser) : -1;
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : -1;
    } else if (code >= 0xDC00 && code < 0xE000) {
        code = -1;
    }
    if (code < 0) return fail(parser, "\\u needs four hexadecimal digits, and surrogates in pairs");
    *out = hlo_utf8_put(*out, (uint32_t)code);
    return HLO_SUCCESS;
}

static HloStatus parse_escape(Parser *parser, char **out) {
    static const char names[] = "\"\\/bfnrt";
    static const char characters[] = "\"\\/\b\f\n\r\t";
    char c = parser->at < parser->end ? *parser->at : 0;
    if (c == 'u') {
        ++parser->at;
        return parse_unicode_escape(parser, out);
    }
    const char *found = c ? strchr(names, c) : NULL;
    if (!found) return fail(parser, "unknown escape in a string");
    ++parser->at;
    *(*out)++ = characters[found - names];
    return HLO_SUCCESS;
}

// Parses the text after an opening quote. No escape is shorter than the character it encodes, so the raw length is
// enough room.
static HloStatus parse_string(Parser *parser, const char **string, size_t *length) {
    const char *close = parser->at;
    while (close < parser->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= parser->end) return fail(parser, "unterminated string");
    char *out = hlo_arena_allocate_uninitialised(parser->arena, (size_t)(close - parser->at) + 1);
    *string = out;
    while (*parser->at != '"') {
        if ((unsigned char)*parser->at < 0x20) return fail(parser, "control character in a string");
        if (*parser->at != '\\') {
            *out++ = *parser->at++;
            continue;
        }
        ++parser->at;
        HLO_TRY(parse_escape(parser, &out));
    }
    ++parser->at;
    *out = 0;
    *length = (size_t)(out - *string);
    return HLO_SUCCESS;
}

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') ++at;
    return at;
}

// Up to 18 digits are also kept as an integer, which certainly fits.
static HloStatus parse_number(Parser *parser, HloJsonValue *value) {
    const char *start = parser->at, *at = start, *end = parser->end;
    if (at < end && *at == '-') ++at;
    const char *digits = at;
    at = skip_digits(at, end);
    if (at == digits || (*digits == '0' && at > digits + 1)) return fail(parser, "expected a value");
    bool whole = true;
    if (at < end && *at == '.') {
        const char *fraction = at + 1;
        at = skip_digits(fraction, end);
        if (at == fraction) return fail(parser, "a digit must follow the decimal point");
        whole = false;
    }
    if (at < end && (*at | 32) == 'e') {
        const char *exponent = at + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) ++exponent;
        at = skip_digits(exponent, end);
        if (at == exponent) return fail(parser, "a digit must follow the exponent sign");
        whole = false;
    }
    char *copy = hlo_arena_string(parser->arena, start, (size_t)(at - start));
    value->kind = HLO_JSON_NUMBER;
    value->number = hlo_strtod(copy, NULL);
    value->is_integer = whole && at - digits <= 18;
    if (value->is_integer) value->integer = strtoll(copy, NULL, 10);
    parser->at = at;
    return HLO_SUCCESS;
}

typedef HLO_VECTOR(HloJsonValue *) ValueVector;

static HloStatus parse_item(Parser *parser, ValueVector *items) {
    HloJsonValue *item = HLO_ARENA_NEW(parser->arena, HloJsonValue, 1);
    hlo_vector_push(parser->arena, items, item);
    return parse_value(parser, item);
}

static HloStatus parse_array(Parser *parser, HloJsonValue *value) {
    ValueVector items = {0};
    value->kind = HLO_JSON_ARRAY;
    if (accept(parser, ']')) return HLO_SUCCESS;
    do {
        HLO_TRY(parse_item(parser, &items));
    } while (accept(parser, ','));
    if (!accept(parser, ']')) return fail(parser, "expected ',' or ']'");
    value->items = items.items;
    value->count = items.count;
    return HLO_SUCCESS;
}

// A duplicate key is refused, since readers would disagree on which one counts.
static HloStatus parse_object(Parser *parser, HloJsonValue *value) {
    ValueVector items = {0};
    HloStringVector keys = {0};
    HloStringMap seen = {0};
    value->kind = HLO_JSON_OBJECT;
    if (accept(parser, '}')) return HLO_SUCCESS;
    do {
        const char *key;
        size_t length;
        if (!accept(parser, '"')) return fail(parser, "expected a key in quotes");
        HLO_TRY(parse_string(parser, &key, &length));
        if (hlo_string_map_set(parser->arena, &seen, key, length, parser)) return fail(parser, "duplicate key");
        if (!accept(parser, ':')) return fail(parser, "expected ':'");
        hlo_vector_push(parser->arena, &keys, key);
        HLO_TRY(parse_item(parser, &items));
    } while (accept(parser, ','));
    if (!accept(parser, '}')) return fail(parser, "expected ',' or '}'");
    value->items = items.items;
    value->keys = keys.items;
    value->count = items.count;
    return HLO_SUCCESS;
}

static HloStatus parse_container(Parser *parser, HloJsonValue *value, char bracket) {
    if (parser->depth == MAX_DEPTH) return fail(parser, "nested too deeply");
    ++parser->depth;
    HLO_TRY(bracket == '[' ? parse_array(parser, value) : parse_object(parser, value));
    --parser->depth;
    return HLO_SUCCESS;
}

static HloStatus parse_value(Parser *parser, HloJsonValue *value) {
    skip_space(parser);
    if (accept(parser, '[')) return parse_container(parser, value, '[');
    if (accept(parser, '{')) return parse_container(parser, value, '{');
    if (accept(parser, '"')) {
        value->kind = HLO_JSON_STRING;
        return parse_string(parser, &value->string, &value->length);
    }
    if (accept_word(parser, "null")) return HLO_SUCCESS;
    value->boolean = accept_word(parser, "true");
    if (value->boolean || accept_word(parser, "false")) {
        value->kind = HLO_JSON_BOOL;
        return HLO_SUCCESS;
    }
    return parse_number(parser, value);
}

static HloStatus parse_text(void *argument) {
    Parser *parser = argument;
    parser->root = HLO_ARENA_NEW(parser->arena, HloJsonValue, 1);
    HLO_TRY(parse_value(parser, parser->root));
    skip_space(parser);
    return parser->at == parser->end ? HLO_SUCCESS : fail(parser, "text after the value");
}

HloStatus hlo_json_parse(HloArena *arena, const char *name, const char *text, size_t length, HloJsonValue **value) {
    assert(arena && value);
    Parser parser = {.arena = arena, .name = name, .start = text, .at = text, .end = text + length};
    HLO_TRY(hlo_protect(parse_text, &parser));
    *value = parser.root;
    return HLO_SUCCESS;
}

const HloJsonValue *hlo_json_get(const HloJsonValue *object, const char *key) {
    if (!object || object->kind != HLO_JSON_OBJECT) return NULL;
    for (int64_t i = 0; i < object->count; ++i) {
        if (strcmp(object->keys[i], key) == 0) return object->items[i];
    }
    return NULL;
}
