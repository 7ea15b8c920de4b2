// SPDX-License-Identifier: Apache-2.0
// The metadata of instructions and shardings as text, and strings in quotes, both written and read.
//
//   metadata={op_name="jit(f)/add" source_file="a.py" source_line=3}
//
// Strings have XLA's escapes (absl's CEscape and CUnescape): \n \r \t, quotes, backslashes and octal bytes are written;
// the other escapes of C are read as well, and \u and \U become UTF-8.
#include <assert.h>

#include "hlo/base/printable.h"
#include "hlo/ir/instruction.h"

static void print_escaped(HloText *text, const char *string, char quote) {
    assert(text && string);
    hlo_text_char(text, quote);
    const char *plain = string;
    for (const char *at = string;; at++) {
        unsigned char c = (unsigned char)*at;
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '\'') continue;
        hlo_text_append(text, plain, (size_t)(at - plain));
        plain = at + 1;
        if (c == 0) break;
        hlo_text_char(text, '\\');
        if (c == '"' || c == '\\' || c == '\'') {
            hlo_text_char(text, (char)c);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            hlo_text_char(text, c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        } else {
            hlo_text_format(text, "%03o", c);
        }
    }
    hlo_text_char(text, quote);
}

void hlo_quoted_print(HloText *text, const char *string) {
    print_escaped(text, string, '"');
}

void hlo_axis_name_print(HloText *text, const char *name) {
    print_escaped(text, name, '\'');
}

bool hlo_is_attribute_key(const char *key) {
    assert(key);
    for (const char *at = key; *at; at++) {
        const bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
        if (!letter && (at == key || !((*at >= '0' && *at <= '9') || *at == '.' || *at == '-'))) return false;
    }
    return *key != 0;
}

// The value of a digit, or -1 for other characters. Setting the bit that distinguishes small letters from capitals in
// ASCII before the comparison turns no other character into a letter from a to f.
static int hex_digit(char character) {
    if (character >= '0' && character <= '9') return character - '0';
    int lower = character | 32;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Decodes a \x, \u or \U escape after its letter: reads up to `most` digits. NULL if malformed.
static const char *unescape_hex(const char *at, const char *end, char letter, char **to) {
    int most = letter == 'u' ? 4 : letter == 'U' ? 8 : 1 << 20;
    uint32_t value = 0;
    int count = 0;
    for (; at < end && count < most && hex_digit(*at) >= 0; at++, count++) {
        if (value >> 28) return NULL;
        value = value << 4 | (uint32_t)hex_digit(*at);
    }
    if (letter == 'x') {
        if (count == 0 || value > 255) return NULL;
        *(*to)++ = (char)value;
        return at;
    }
    if (count != most || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return NULL;
    *to = hlo_utf8_put(*to, value);
    return at;
}

// Decodes one to three digits after the backslash, up to 255. NULL if malformed.
static const char *unescape_octal(const char *at, const char *end, char **to) {
    int value = 0;
    for (int i = 0; i < 3 && at < end && *at >= '0' && *at <= '7'; i++) value = value * 8 + (*at++ - '0');
    if (value > 255) return NULL;
    *(*to)++ = (char)value;
    return at;
}

// The escapes are those of absl::CUnescape, which XLA's lexer uses to read strings. No escape is shorter than its
// decoded form, so the result fits over the source.
int64_t hlo_quoted_unescape(char *text, size_t length) {
    assert(text || length == 0);
    static const char letters[] = "abfnrtv\\?'\"";
    static const char values[] = "\a\b\f\n\r\t\v\\?'\"";
    const char *at = text, *end = text + length;
    char *to = text;
    while (at && at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        if (++at >= end) return -1;
        char letter = *at;
        const char *known = strchr(letters, letter);
        if (known && letter) {
            *to++ = values[known - letters];
            at++;
        } else if (letter >= '0' && letter <= '7') {
            at = unescape_octal(at, end, &to);
        } else if (letter == 'x' || letter == 'X' || letter == 'u' || letter == 'U') {
            at = unescape_hex(at + 1, end, letter == 'X' ? 'x' : letter, &to);
        } else {
            return -1;
        }
    }
    if (!at || memchr(text, 0, (size_t)(to - text))) return -1;
    *to = 0;
    return to - text;
}

typedef struct MetadataWriter {
    HloText *text;
    bool any;
} MetadataWriter;

static void write_key(MetadataWriter *writer, const char *key) {
    if (writer->any) hlo_text_char(writer->text, ' ');
    writer->any = true;
    hlo_text_string(writer->text, key);
}

// Protobuf does not distinguish empty strings and zeros from absent ones, so XLA prints neither. A payload is a message
// of its own, and is printed even if it is empty.
static void write_string(MetadataWriter *writer, const char *key, const char *value) {
    if (!value || !*value) return;
    write_key(writer, key);
    hlo_quoted_print(writer->text, value);
}

static void write_number(MetadataWriter *writer, const char *key, int64_t value) {
    if (value == 0) return;
    write_key(writer, key);
    hlo_text_int64(writer->text, value);
}

void hlo_metadata_print(HloText *text, const HloMetadata *metadata) {
    assert(text && metadata);
    MetadataWriter writer = {.text = text};
    write_string(&writer, "op_type=", metadata->op_type);
    write_string(&writer, "op_name=", metadata->op_name);
    write_string(&writer, "source_file=", metadata->source_file);
    write_number(&writer, "source_line=", metadata->source_line);
    write_number(&writer, "source_end_line=", metadata->source_end_line);
    write_number(&writer, "source_column=", metadata->source_column);
    write_number(&writer, "source_end_column=", metadata->source_end_column);
    if (metadata->profile_type && *metadata->profile_type) {
        write_key(&writer, "profile_type={");
        hlo_text_string(text, metadata->profile_type);
        hlo_text_char(text, '}');
    }
    write_string(&writer, "deduplicated_name=", metadata->deduplicated_name);
    write_string(&writer, "scheduling_name=", metadata->scheduling_name);
    write_number(&writer, "stack_frame_id=", metadata->stack_frame_id);
    if (metadata->payload) {
        write_key(&writer, "metadata_payload=");
        hlo_quoted_print(text, metadata->payload);
    }
}

const HloMetadata *hlo_metadata_copy(HloArena *arena, const HloMetadata *metadata) {
    if (!metadata) return NULL;
    HloMetadata *copy = hlo_arena_copy(arena, metadata, sizeof(*metadata));
    copy->op_type = hlo_arena_text(arena, metadata->op_type);
    copy->op_name = hlo_arena_text(arena, metadata->op_name);
    copy->source_file = hlo_arena_text(arena, metadata->source_file);
    copy->profile_type = hlo_arena_text(arena, metadata->profile_type);
    copy->deduplicated_name = hlo_arena_text(arena, metadata->deduplicated_name);
    copy->scheduling_name = hlo_arena_text(arena, metadata->scheduling_name);
    copy->payload = hlo_arena_text(arena, metadata->payload);
    return copy;
}
