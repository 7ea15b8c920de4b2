// SPDX-License-Identifier: Apache-2.0
// Imports operations whose attributes are fields of the instruction's record, by the rows of mlir/fields.def.
#include "hlo/stablehlo/mlir/fields.h"

#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"

// True for attributes without a default in StableHLO. Lists may be missing where an operand implies them
// (dynamic_gather), and inference refuses most other empty ones; a dimension or a number would silently be 0.
static bool is_required(MlirFieldKind kind) {
    return kind == MLIR_FIELD_INT || kind == MLIR_FIELD_INT_32 || kind == MLIR_FIELD_ONE || kind == MLIR_FIELD_FLOAT ||
           kind == MLIR_FIELD_CHOICE;
}

// `member` points into the record of the opcode's family; the row's kind determines its type (MlirFieldKind).
static HloStatus import_field(ImportPlace *place, const MlirField *field, void *member) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, field->name);
    const char *string;
    int64_t number;
    if (is_required(field->kind)) HLO_TRY(import_required(place, field->name));
    switch (field->kind) {
        case MLIR_FIELD_INT:
        case MLIR_FIELD_INT_32: return import_int(place, field->name, 0, member);
        case MLIR_FIELD_INTS: return import_ints(place, field->name, member);
        case MLIR_FIELD_BOOL:
        case MLIR_FIELD_FLAG: return import_bool(place, field->name, false, member);
        case MLIR_FIELD_PRECISIONS: return import_precisions(place, member);
        case MLIR_FIELD_CHOICE: return import_enum(place, field->name, field->table, field->fallback, member);
        case MLIR_FIELD_ONE:
            HLO_TRY(import_int(place, field->name, 0, &number));
            *(HloInts *)member = hlo_ints(import_arena(place), &number, 1);
            return HLO_SUCCESS;
        case MLIR_FIELD_FLOAT:
            if (attribute->kind != MLIR_FLOAT)
                return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is not a decimal number", field->name);
            *(float *)member = (float)attribute->real;
            return HLO_SUCCESS;
        case MLIR_FIELD_STRING:
            if (attribute && attribute->kind != MLIR_STRING)
                return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is not a string", field->name);
            string = import_string(place, field->name);
            if (string && *string) *(const char **)member = hlo_arena_text(import_arena(place), string);
            return HLO_SUCCESS;
    }
    HLO_BUG_IF(true);  // the switch has every kind
    return HLO_SUCCESS;
}

HloStatus import_fields(ImportPlace *place, HloOpcode opcode, void *attributes) {
    assert(opcode < HLO_OPCODE_COUNT && mlir_fields_rows[opcode].name && attributes);
    for (const MlirField *field = mlir_fields_rows[opcode].fields; field->name; field++) {
        HLO_TRY(import_field(place, field, (char *)attributes + field->offset));
    }
    return HLO_SUCCESS;
}

// HLO_OPCODE_COUNT if the operation has no row, or needs more than its fields.
HloOpcode import_fields_opcode(const char *name) {
    for (int opcode = 0; opcode < HLO_OPCODE_COUNT; opcode++) {
        if (mlir_fields_rows[opcode].in && strcmp(mlir_fields_rows[opcode].name, name) == 0) return (HloOpcode)opcode;
    }
    return HLO_OPCODE_COUNT;
}

HloStatus import_with_fields(ImportPlace *place, HloOpcode opcode) {
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(opcode)->family);
    void *attributes = hlo_arena_allocate(place->importer->arena, family->bytes);
    HLO_TRY(import_fields(place, opcode, attributes));
    if (hlo_op_is(opcode, HLO_OP_IS_CALLS)) return import_with_region(place, opcode, attributes);
    return import_plain(place, opcode, attributes);
}
