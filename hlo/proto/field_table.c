// SPDX-License-Identifier: Apache-2.0
#include "hlo/proto/field_table.h"

#include <assert.h>

// fields.def in its order: that of the families in attributes.def.
static const HloProtoRow rows[] = {
#define PROTO_FIELD(family, field, message, number) \
    {HLO_FAMILY_##family, offsetof(Hlo##family##Attributes, field), message, number},
#include "hlo/proto/fields.def"
#undef PROTO_FIELD
};

// A binary search for the first row of the family: called for every instruction that is read or written.
const HloProtoRow *hlo_proto_rows(HloFamily family, int64_t *count) {
    assert(family >= 0 && family < HLO_FAMILY_COUNT && count);
    size_t first = 0, end = HLO_COUNT_OF(rows);
    while (first < end) {
        const size_t middle = (first + end) / 2;
        if (rows[middle].family < family) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    while (end < HLO_COUNT_OF(rows) && rows[end].family == family) end++;
    *count = (int64_t)(end - first);
    return first < end ? &rows[first] : NULL;
}

// By the offset, which fields.def and the families of hlo/ir/attributes.def both take from the same struct member.
const HloField *hlo_proto_row_field(const HloProtoRow *row) {
    const HloFamilyInfo *family = hlo_family_info(row->family);
    for (int32_t i = 0; i < family->field_count; i++) {
        if (family->fields[i].offset == row->offset) return &family->fields[i];
    }
    HLO_BUG_IF(true);
    return NULL;
}
