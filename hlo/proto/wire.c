// SPDX-License-Identifier: Apache-2.0
// The wire encoding of protobuf: a message is a sequence of fields, each a number and a type (varint, 4 or 8 bytes, or
// a length and as many bytes), in any order, repeated or missing. Reading never copies: a field of bytes is a span of
// the input. Writing appends to a text; the length of a nested message comes before its content and is not known in
// advance, so hlo_wire_end() moves the content up by as many bytes as the length takes. Source:
// protobuf.dev/programming-guides/encoding.
#include "hlo/proto/wire.h"

#include <assert.h>

HloWireReader hlo_wire_reader(const unsigned char *begin, HloSpan span) {
    // A field without bytes needs a non-NULL address.
    static const unsigned char nothing;
    const unsigned char *data = span.data ? span.data : &nothing;
    return (HloWireReader){begin, data, data + span.length};
}

// The offset is counted from the beginning of the file, not of the message.
static HloStatus malformed(const HloWireReader *reader, const char *what) {
    return hlo_error(HLO_INVALID_ARGUMENT, "malformed protobuf at byte %lld: %s",
                     (long long)(reader->next - reader->begin), what);
}

// Seven bits per byte, lowest first. Ten bytes suffice for 64 bits; more are malformed.
static bool read_long_varint(HloWireReader *reader, uint64_t *value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && reader->next < reader->end; shift += 7) {
        unsigned char byte = *reader->next++;
        if (shift < 64) result |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = result;
            return true;
        }
    }
    return false;
}

// Most tags, lengths and numbers are one byte or two.
static inline bool read_varint(HloWireReader *reader, uint64_t *value) {
    const unsigned char *at = reader->next;
    if (reader->end - at < 2) return read_long_varint(reader, value);
    if (at[0] < 0x80) {
        *value = at[0];
        reader->next = at + 1;
        return true;
    }
    if (at[1] >= 0x80) return read_long_varint(reader, value);
    *value = (uint64_t)(at[0] & 0x7F) | (uint64_t)at[1] << 7;
    reader->next = at + 2;
    return true;
}

// Little-endian, like the supported machines.
static bool read_fixed(HloWireReader *reader, size_t bytes, uint64_t *value) {
    assert(bytes <= sizeof(*value));
    if ((size_t)(reader->end - reader->next) < bytes) return false;
    *value = 0;
    memcpy(value, reader->next, bytes);
    reader->next += bytes;
    return true;
}

// Groups (types 3 and 4) were removed in protobuf 3, and are malformed here.
bool hlo_wire_next(HloWireReader *reader, HloWireField *field, HloStatus *status) {
    assert(field && status);
    *status = HLO_SUCCESS;
    if (reader->next == reader->end) return false;
    uint64_t tag;
    if (!read_varint(reader, &tag) || tag >> 3 == 0 || tag >> 3 > INT32_MAX) {
        *status = malformed(reader, "bad field tag");
        return false;
    }
    *field = (HloWireField){.number = (int32_t)(tag >> 3), .type = (HloWireType)(tag & 7)};
    bool whole = false;
    switch (field->type) {
        case HLO_WIRE_VARINT: whole = read_varint(reader, &field->value); break;
        case HLO_WIRE_FIXED64: whole = read_fixed(reader, 8, &field->value); break;
        case HLO_WIRE_FIXED32: whole = read_fixed(reader, 4, &field->value); break;
        case HLO_WIRE_BYTES: {
            uint64_t length;
            whole = read_varint(reader, &length) && length <= (uint64_t)(reader->end - reader->next);
            if (whole) {
                field->bytes = (HloSpan){reader->next, (size_t)length};
                reader->next += length;
            }
            break;
        }
    }
    if (!whole) *status = malformed(reader, "field is cut short or has an unknown wire type");
    return whole;
}

// Repeated numbers may be packed into one field, one per field, or mixed; readers must accept all.
HloStatus hlo_wire_read_ints(HloArena *arena, const unsigned char *begin, const HloWireField *field,
                             HloInt64Vector *list) {
    assert(arena && begin && list);
    if (field->type != HLO_WIRE_BYTES) {
        hlo_vector_push(arena, list, (int64_t)field->value);
        return HLO_SUCCESS;
    }
    HloWireReader reader = hlo_wire_reader(begin, field->bytes);
    while (reader.next < reader.end) {
        uint64_t value;
        if (!read_varint(&reader, &value)) return malformed(&reader, "bad number in a packed list");
        hlo_vector_push(arena, list, (int64_t)value);
    }
    return HLO_SUCCESS;
}

// Strings end with a zero byte in memory, so they must not contain one.
HloStatus hlo_wire_string(HloArena *arena, HloSpan span, const char **string) {
    assert(arena && string && (span.data || span.length == 0));
    HLO_FAIL_IF(span.length && memchr(span.data, 0, span.length), HLO_INVALID_ARGUMENT,
                "a string of the protobuf contains a zero byte");
    *string = hlo_arena_string(arena, (const char *)span.data, span.length);
    return HLO_SUCCESS;
}

// Encodes into at most 10 bytes; returns their number.
static size_t encode_varint(char *bytes, uint64_t value) {
    size_t count = 0;
    do {
        bytes[count++] = (char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
    } while (value);
    return count;
}

// A number without a tag.
static void put_varint(HloText *text, uint64_t value) {
    char bytes[10];
    hlo_text_append(text, bytes, encode_varint(bytes, value));
}

void hlo_wire_number(HloText *text, uint64_t value) {
    put_varint(text, value);
}

// Field number and wire type.
static void put_tag(HloText *text, int32_t number, HloWireType type) {
    put_varint(text, (uint64_t)number << 3 | (uint64_t)type);
}

void hlo_wire_varint_always(HloText *text, int32_t number, uint64_t value) {
    put_tag(text, number, HLO_WIRE_VARINT);
    put_varint(text, value);
}

// Zero is omitted: a missing field has this value.
void hlo_wire_varint(HloText *text, int32_t number, uint64_t value) {
    if (value) hlo_wire_varint_always(text, number, value);
}

void hlo_wire_bytes(HloText *text, int32_t number, const void *data, size_t length) {
    put_tag(text, number, HLO_WIRE_BYTES);
    put_varint(text, length);
    if (length) hlo_text_append(text, data, length);
}

void hlo_wire_string_field(HloText *text, int32_t number, const char *string) {
    if (string && *string) hlo_wire_bytes(text, number, string, strlen(string));
}

void hlo_wire_float(HloText *text, int32_t number, float value) {
    if (value == 0) return;
    put_tag(text, number, HLO_WIRE_FIXED32);
    hlo_text_append(text, (const char *)&value, sizeof(value));
}

void hlo_wire_double(HloText *text, int32_t number, double value) {
    if (value == 0) return;
    put_tag(text, number, HLO_WIRE_FIXED64);
    hlo_text_append(text, (const char *)&value, sizeof(value));
}

void hlo_wire_ints(HloText *text, int32_t number, HloInts ints) {
    if (ints.count == 0) return;
    size_t mark = hlo_wire_begin(text, number);
    for (int64_t i = 0; i < ints.count; i++) put_varint(text, (uint64_t)ints.items[i]);
    hlo_wire_end(text, mark);
}

size_t hlo_wire_begin(HloText *text, int32_t number) {
    put_tag(text, number, HLO_WIRE_BYTES);
    return text->length;
}

// A message comes after its length, which is only known at its end: the content moves up by the length's one to ten
// bytes. A byte moves once for each enclosing message, and messages nest only a few levels.
void hlo_wire_end(HloText *text, size_t mark) {
    assert(text->failed || mark <= text->length);
    if (text->failed) return;
    char length[10];
    size_t content = text->length - mark;
    size_t width = encode_varint(length, content);
    if (!hlo_text_reserve(text, width)) return;
    memmove(text->data + mark + width, text->data + mark, content);
    memcpy(text->data + mark, length, width);
    text->length += width;
    text->data[text->length] = 0;
}
