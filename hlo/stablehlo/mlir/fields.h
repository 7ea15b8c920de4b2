// SPDX-License-Identifier: Apache-2.0
// The attributes of StableHLO operations that are fields of an HLO instruction, expanded from fields.def. The importer
// (import/fields.c) and the exporter (export/fields.c) walk the same rows, one in each direction. Private to
// hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_MLIR_FIELDS_H_
#define MESHLO_HLO_STABLEHLO_MLIR_FIELDS_H_

#include "hlo/stablehlo/mlir/mlir.h"

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

// One field of an attribute record.
typedef struct MlirField {
    const char *name;
    MlirFieldKind kind;
    size_t offset;              // within the struct
    const HloEnumTable *table;  // of a choice, as are the next two
    const char *words;
    int32_t fallback;
} MlirField;

// The fields of one opcode.
typedef struct MlirFieldsRow {
    const char *name;         // of the operation; NULL: the opcode has no row
    const MlirField *fields;  // up to one without a name
    bool in, out;             // the import, the export needs nothing but these fields
} MlirFieldsRow;

extern const MlirFieldsRow mlir_fields_rows[HLO_OPCODE_COUNT];

#endif
