// SPDX-License-Identifier: Apache-2.0
// Half of StableHLO's operations are one opcode of HLO with attributes that are fields of its record. A table of them
// (fields.def) replaces a pair of functions for each: import_fields() and export_fields() walk it, one in each
// direction, so that both know the same attributes. Members are found by their offset in the record.
//
//   FIELDS(TRANSPOSE, "stablehlo.transpose", BOTH)
//     FIELD(HloDimensionsAttributes, dimensions, INTS, "permutation")
//
// reads and writes  %1 = stablehlo.transpose %0, dims = [1, 0]  <->  transpose(p0), dimensions={1,0}.
#include "hlo/stablehlo/mlir/fields.h"

#include <stddef.h>

// One array of fields an opcode. Operations without any have an empty first element, since C has no empty arrays.
#define FIELDS(opcode, name, way) static const MlirField fields_##opcode[] = {
#define FIELD(type, member, kind, name) {name, MLIR_FIELD_##kind, offsetof(type, member), NULL, NULL, 0},
#define CHOICE(type, member, enumeration, words, fallback, name) \
    {name, MLIR_FIELD_CHOICE, offsetof(type, member), &hlo_enum_##enumeration, words, fallback},
#define FIELDS_END(opcode)                     \
    { NULL, MLIR_FIELD_INT, 0, NULL, NULL, 0 } \
    }                                          \
    ;
#include "hlo/stablehlo/mlir/fields.def"
#undef FIELDS
#undef FIELD
#undef CHOICE
#undef FIELDS_END

#define WAY_BOTH true, true
#define WAY_IN true, false
#define WAY_OUT false, true
#define WAY_PARTS false, false
const MlirFieldsRow mlir_fields_rows[HLO_OPCODE_COUNT] = {
#define FIELDS(opcode, name, way) [HLO_OP_##opcode] = {name, fields_##opcode, WAY_##way},
#define FIELD(type, member, kind, name)
#define CHOICE(type, member, enumeration, words, fallback, name)
#define FIELDS_END(opcode)
#include "hlo/stablehlo/mlir/fields.def"
#undef FIELDS
#undef FIELD
#undef CHOICE
#undef FIELDS_END
};
