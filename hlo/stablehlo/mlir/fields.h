// SPDX-License-Identifier: Apache-2.0
// Attributes of operations and fields of instructions that are the same thing, both ways: expanded from fields.def.
// Private to hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_MLIR_FIELDS_H_
#define MESHLO_HLO_STABLEHLO_MLIR_FIELDS_H_

#include "hlo/stablehlo/export/export.h"
#include "hlo/stablehlo/import/import.h"

// What an attribute is, and the C type of the member that holds it.
typedef enum MlirFieldKind {
    MLIR_FIELD_INT,         // integer; int64_t
    MLIR_FIELD_INT_32,      // integer of 32 bits; int64_t
    MLIR_FIELD_ONE,         // integer; HloInts of that one number
    MLIR_FIELD_INTS,        // list of integers; HloInts
    MLIR_FIELD_BOOL,        // boolean; bool
    MLIR_FIELD_FLAG,        // the same, but left out when false
    MLIR_FIELD_FLOAT,       // f32; float
    MLIR_FIELD_STRING,      // string, left out when empty; const char *, NULL then
    MLIR_FIELD_PRECISIONS,  // precision_config; HloPrecisions
    MLIR_FIELD_CHOICE,      // enumerator; int32_t
} MlirFieldKind;

// Reads the fields of `opcode` into the struct, which must be the one that fields.def names for it, and zero so far.
// A missing attribute leaves what StableHLO means by that; one of another kind is INVALID_ARGUMENT.
HLO_NODISCARD HloStatus import_fields(ImportPlace *place, HloOpcode opcode, void *attributes);
// The opcode whose fields are all there is to an operation of that name; HLO_OPCODE_COUNT for other names.
HloOpcode import_fields_opcode(const char *name);
// The whole operation as an instruction of `opcode`: its fields, all operands, and its regions if the opcode calls any.
HLO_NODISCARD HloStatus import_with_fields(ImportPlace *place, HloOpcode opcode);

// Adds the fields of `opcode` to an operation, from the struct that fields.def names for it. Lists are not copied.
// INVALID_ARGUMENT when a list of one number has not one.
HLO_NODISCARD HloStatus export_fields(ExportPlace *place, MlirOperation *operation, HloOpcode opcode,
                                      const void *attributes);
// The whole instruction as the operation that fields.def has for its opcode, with a region for each computation that it
// calls. `operation` may be NULL.
HLO_NODISCARD HloStatus export_with_fields(ExportPlace *place, ExportLeaves *result, MlirOperation **operation);
// A region for each computation that the instruction calls.
HLO_NODISCARD HloStatus export_regions(ExportPlace *place, MlirOperation *operation);

#endif
