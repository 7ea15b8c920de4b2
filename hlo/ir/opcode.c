// SPDX-License-Identifier: Apache-2.0
// The table of opcodes, expanded from hlo/ops.def, and the search by name.
#include "hlo/ir/opcode.h"

#include <assert.h>
#include <string.h>

// The flags column is written without prefix; 0 stays 0 and each name becomes its bit.
enum {
    ELEMENTWISE = HLO_OP_IS_ELEMENTWISE,
    COMMUTES = HLO_OP_IS_COMMUTES,
    CALLS = HLO_OP_IS_CALLS,
    COLLECTIVE = HLO_OP_IS_COLLECTIVE,
    SIDE_EFFECT = HLO_OP_IS_SIDE_EFFECT,
    MAY_HAVE_EFFECT = HLO_OP_IS_MAY_HAVE_EFFECT,
    NONDETERMINISTIC = HLO_OP_IS_NONDETERMINISTIC,
    ASYNC_START = HLO_OP_IS_ASYNC_START,
    ASYNC_DONE = HLO_OP_IS_ASYNC_DONE,
    LINEAR = HLO_OP_IS_LINEAR,
    MULTILINEAR = HLO_OP_IS_MULTILINEAR,
    LINEAR_IN_FIRST = HLO_OP_IS_LINEAR_IN_FIRST,
    REARRANGES = HLO_OP_IS_REARRANGES,
    PRODUCT = HLO_OP_IS_PRODUCT,
};

// The kinds column likewise.
enum {
    PRED = 1 << HLO_KIND_PRED,
    SIGNED = 1 << HLO_KIND_SIGNED,
    INTEGER = SIGNED | 1 << HLO_KIND_UNSIGNED,
    FLOAT = 1 << HLO_KIND_FLOAT,
    INEXACT = FLOAT | 1 << HLO_KIND_COMPLEX,
    NUMBER = INTEGER | INEXACT,
    ANY = PRED | NUMBER,
};

static const HloOpInfo infos[HLO_OPCODE_COUNT] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    [HLO_OP_##name] = {text, #name, arity, flags, HLO_FAMILY_##family, kinds},
#include "hlo/ops.def"
#undef HLO_OP
};

const HloOpInfo *hlo_op_info(HloOpcode opcode) {
    assert((unsigned)opcode < HLO_OPCODE_COUNT);
    return &infos[opcode];
}

HloFieldPresence hlo_field_presence(HloOpcode opcode, int32_t field) {
    static const struct {
        HloOpcode opcode;
        size_t offset;
        HloFieldPresence presence;
    } rules[] = {
#define HLO_FAMILY(family)
#define HLO_FIELD(family, field, kind, text, presence)
#define HLO_FAMILY_END(family)
#define HLO_FIELD_RULE(opcode, family, field, presence) \
    {HLO_OP_##opcode, offsetof(Hlo##family##Attributes, field), HLO_FIELD_##presence},
#include "hlo/ir/attributes.def"
#undef HLO_FAMILY
#undef HLO_FIELD
#undef HLO_FAMILY_END
#undef HLO_FIELD_RULE
    };
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(opcode)->family);
    assert(field >= 0 && field < family->field_count);
    for (size_t i = 0; i < HLO_COUNT_OF(rules); i++)
        if (rules[i].opcode == opcode && rules[i].offset == family->fields[field].offset) return rules[i].presence;
    return family->fields[field].presence;
}

// Scans the rows once; nearly all differ from the text in their first letter.
HloOpcode hlo_op_from_text(const char *text, size_t length) {
    assert(text || length == 0);
    for (int opcode = 0; length && opcode < HLO_OPCODE_COUNT; opcode++) {
        const char *name = infos[opcode].text;
        if (name[0] == text[0] && strlen(name) == length && memcmp(name, text, length) == 0) return (HloOpcode)opcode;
    }
    return HLO_OPCODE_COUNT;
}
