// SPDX-License-Identifier: Apache-2.0
#include "hlo/proto/field_table.h"

#include <assert.h>

// fields.def in its order, in which the rows of one family stand together.
static const HloProtoRow rows[] = {
#define PROTO_FIELD(family, field, message, number) \
    {HLO_FAMILY_##family, offsetof(Hlo##family##Attributes, field), message, number},
#include "hlo/proto/fields.def"
#undef PROTO_FIELD
};

const HloProtoRow *hlo_proto_rows(HloFamily family, int64_t *count) {
    assert(family >= 0 && family < HLO_FAMILY_COUNT && count);
    const HloProtoRow *first = NULL;
    *count = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(rows); i++) {
        if (rows[i].family != family) continue;
        if (!first) first = &rows[i];
        ++*count;
    }
    return first;
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
