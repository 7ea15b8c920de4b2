// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format: tags, varints and length-delimited fields. Source:
// protobuf.dev/programming-guides/encoding.
#ifndef MESHLO_HLO_PROTO_WIRE_H_
#define MESHLO_HLO_PROTO_WIRE_H_

#include "hlo/base/text.h"
#include "hlo/base/vector.h"
#include "hlo/ir/attributes.h"

typedef enum HloWireType {
    HLO_WIRE_VARINT = 0,
    HLO_WIRE_FIXED64 = 1,
    HLO_WIRE_BYTES = 2,
    HLO_WIRE_FIXED32 = 5
} HloWireType;

// A borrowed byte range.
typedef struct HloSpan {
    const unsigned char *data;
    size_t length;
} HloSpan;

// One field of a message as it was read.
typedef struct HloWireField {
    int32_t number;
    HloWireType type;
    uint64_t value;  // of a varint or fixed field
    HloSpan bytes;   // of a length-delimited field
} HloWireField;

// Reads one field after another from a span. `begin` is the start of the whole input, for offsets in messages.
typedef struct HloWireReader {
    const unsigned char *begin, *next, *end;
} HloWireReader;

// A reader of `span`, which lies inside the input that starts at `begin`.
HloWireReader hlo_wire_reader(const unsigned char *begin, HloSpan span);
// True and the next field, or false at the end or (with *status set) on malformed bytes.
bool hlo_wire_next(HloWireReader *reader, HloWireField *field, HloStatus *status);
// Appends the numbers of a repeated integer field, packed or not, to `list`.
HLO_NODISCARD HloStatus hlo_wire_read_ints(HloArena *arena, const unsigned char *begin, const HloWireField *field,
                                           HloInt64Vector *list);
// The span as a NUL-terminated string in `arena`. INVALID_ARGUMENT if it contains a zero byte, which would truncate it.
HLO_NODISCARD HloStatus hlo_wire_string(HloArena *arena, HloSpan span, const char **string);

// Writers append to `text`. Scalars with the value zero are omitted, as in proto3, unless the name says otherwise.
void hlo_wire_varint(HloText *text, int32_t number, uint64_t value);
// The same, written at zero too.
void hlo_wire_varint_always(HloText *text, int32_t number, uint64_t value);
// Nothing for NULL and "".
void hlo_wire_string_field(HloText *text, int32_t number, const char *string);
// Length-delimited bytes, written even when there are none.
void hlo_wire_bytes(HloText *text, int32_t number, const void *data, size_t length);
// A fixed32 field.
void hlo_wire_float(HloText *text, int32_t number, float value);
// A fixed64 field.
void hlo_wire_double(HloText *text, int32_t number, double value);
// A packed repeated integer field; nothing for an empty list.
void hlo_wire_ints(HloText *text, int32_t number, HloInts ints);

// A bare number, inside a packed list that hlo_wire_begin() opened.
void hlo_wire_number(HloText *text, uint64_t value);

// Opens a nested message: returns a mark for hlo_wire_end(), which writes its length. The content between the two is
// moved once by the width of the length.
size_t hlo_wire_begin(HloText *text, int32_t number);
// Closes the message that hlo_wire_begin() opened with this mark.
void hlo_wire_end(HloText *text, size_t mark);

#endif
