// SPDX-License-Identifier: Apache-2.0
// fields.def as a table, combined with the field descriptions of hlo/ir/attributes. Private to hlo/proto.
#ifndef MESHLO_HLO_PROTO_FIELD_TABLE_H_
#define MESHLO_HLO_PROTO_FIELD_TABLE_H_

#include "hlo/ir/attributes.h"

// Fields of HloInstructionProto that need more than a row of fields.def: lists of dimensions that some opcodes have as
// a number, the three lists of a slice as one list of messages, and the flag that makes operand layouts count.
enum { HLO_PROTO_DIMENSIONS = 14, HLO_PROTO_SLICES = 17, HLO_PROTO_CONSTRAIN_LAYOUT = 56 };

typedef struct HloProtoRow {
    HloFamily family;
    size_t offset;    // of the field in the family's struct
    int32_t message;  // 0: in the instruction itself
    int32_t number;
} HloProtoRow;

// The rows of one family: *count of them, next to each other. NULL when the family has none.
const HloProtoRow *hlo_proto_rows(HloFamily family, int64_t *count);

// The description of the row's field.
const HloField *hlo_proto_row_field(const HloProtoRow *row);

// True for fields of the instruction that have an enumerator by name instead of by number.
static inline bool hlo_proto_is_named_enum(int32_t number) {
    return number == 11 || number == 63 || number == 72;
}

#endif
