// SPDX-License-Identifier: Apache-2.0
// The table of element types, expanded from types.def, and the search by name.
#include "hlo/ir/types.h"

#include <assert.h>
#include <string.h>

static const HloTypeInfo infos[HLO_TYPE_COUNT] = {
#define HLO_TYPE(name, text, number, kind, bits, bytes, exponent, mantissa) \
    [HLO_##name] = {text, HLO_KIND_##kind, bits, bytes, exponent, mantissa},
#include "hlo/ir/types.def"
#undef HLO_TYPE
};

const HloTypeInfo *hlo_type_info(HloType type) {
    assert((unsigned)type < HLO_TYPE_COUNT);
    return &infos[type];
}

HloType hlo_type_from_text(const char *text, size_t length) {
    assert(text || length == 0);
    for (int type = HLO_INVALID + 1; type < HLO_TYPE_COUNT; type++) {
        const char *name = infos[type].text;
        if (name[0] == text[0] && strlen(name) == length && memcmp(name, text, length) == 0) return (HloType)type;
    }
    return HLO_INVALID;
}

HloType hlo_type_real_part(HloType type) {
    return type == HLO_C64 ? HLO_F32 : type == HLO_C128 ? HLO_F64 : type;
}
