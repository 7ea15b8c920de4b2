// SPDX-License-Identifier: Apache-2.0
// Half of StableHLO's operations are one opcode of HLO with attributes that are fields of its record. A table of them
// (fields.def) replaces a pair of functions for each: import_fields() and export_fields() walk it either way, so that
// what one direction knows the other knows too. Members are found by their offset in the record.
//
//   FIELDS(TRANSPOSE, "stablehlo.transpose", BOTH)
//     FIELD(HloDimensionsAttributes, dimensions, INTS, "permutation")
//
// reads and writes  %1 = stablehlo.transpose %0, dims = [1, 0]  <->  transpose(p0), dimensions={1,0}.
#include "hlo/stablehlo/mlir/fields.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

typedef struct MlirField {
    const char *name;
    MlirFieldKind kind;
    size_t offset;              // within the struct
    const HloEnumTable *table;  // of a choice, as are the next two
    const char *words;
    int32_t fallback;
} MlirField;

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

typedef struct FieldsRow {
    const char *name;         // of the operation; NULL: the opcode has no row
    const MlirField *fields;  // up to one without a name
    bool in, out;             // whether an instruction comes, and becomes, nothing but these fields
} FieldsRow;

#define WAY_BOTH true, true
#define WAY_IN true, false
#define WAY_OUT false, true
#define WAY_PARTS false, false
static const FieldsRow rows[HLO_OPCODE_COUNT] = {
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

// ---------------------------------------------------------------------------------------------------------------------
// Import

// True for what StableHLO has no default for. Lists may be missing where an operand says the same (dynamic_gather), and
// inference refuses most others that are empty; a dimension or a number would be 0 without a word.
static bool is_required(MlirFieldKind kind) {
    return kind == MLIR_FIELD_INT || kind == MLIR_FIELD_INT_32 || kind == MLIR_FIELD_ONE || kind == MLIR_FIELD_FLOAT ||
           kind == MLIR_FIELD_CHOICE;
}

// `member` points into the record of the opcode's family, whose type the row's kind says (MlirFieldKind).
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
                return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is no decimal number", field->name);
            *(float *)member = (float)attribute->real;
            return HLO_SUCCESS;
        case MLIR_FIELD_STRING:
            if (attribute && attribute->kind != MLIR_STRING)
                return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is no string", field->name);
            string = import_string(place, field->name);
            if (string && *string) *(const char **)member = hlo_arena_text(import_arena(place), string);
            return HLO_SUCCESS;
    }
    HLO_BUG_IF(true);  // the switch has every kind
    return HLO_SUCCESS;
}

HloStatus import_fields(ImportPlace *place, HloOpcode opcode, void *attributes) {
    assert(opcode < HLO_OPCODE_COUNT && rows[opcode].name && attributes);
    for (const MlirField *field = rows[opcode].fields; field->name; field++) {
        HLO_TRY(import_field(place, field, (char *)attributes + field->offset));
    }
    return HLO_SUCCESS;
}

// HLO_OPCODE_COUNT where an operation is no row, or needs more than its fields.
HloOpcode import_fields_opcode(const char *name) {
    for (int opcode = 0; opcode < HLO_OPCODE_COUNT; opcode++) {
        if (rows[opcode].in && strcmp(rows[opcode].name, name) == 0) return (HloOpcode)opcode;
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

// ---------------------------------------------------------------------------------------------------------------------
// Export

// The reverse; *attribute stays NULL for what is left out.
static HloStatus export_field(ExportPlace *place, const MlirField *field, const void *member,
                              const MlirAttribute **attribute) {
    HloArena *arena = place->exporter->arena;
    const char *string;
    HloInts ints;
    int32_t number;
    switch (field->kind) {
        case MLIR_FIELD_INT: *attribute = export_i64(place, *(const int64_t *)member); break;
        case MLIR_FIELD_INT_32:
            if (*(const int64_t *)member != (int32_t) * (const int64_t *)member)
                return export_error(place, HLO_UNIMPLEMENTED, "%s %lld has more than 32 bits", field->name,
                                    (long long)*(const int64_t *)member);
            *attribute = export_i32(place, *(const int64_t *)member);
            break;
        case MLIR_FIELD_INTS: *attribute = export_ints(place, *(const HloInts *)member); break;
        case MLIR_FIELD_BOOL: *attribute = export_bool(place, *(const bool *)member); break;
        case MLIR_FIELD_FLAG: *attribute = *(const bool *)member ? export_bool(place, true) : NULL; break;
        case MLIR_FIELD_PRECISIONS: return export_precisions(place, *(const HloPrecisions *)member, attribute);
        case MLIR_FIELD_CHOICE:
            number = *(const int32_t *)member;
            *attribute = export_enum(place, field->words, number ? number : field->fallback);
            break;
        case MLIR_FIELD_STRING:
            string = *(const char *const *)member;
            *attribute = string && *string ? export_string(place, string) : NULL;
            break;
        case MLIR_FIELD_ONE:
            ints = *(const HloInts *)member;
            assert(ints.count == 1); /* the module is verified */
            *attribute = export_i64(place, ints.items[0]);
            break;
        case MLIR_FIELD_FLOAT:
            *attribute = mlir_new_attribute(arena, (MlirAttribute){.kind = MLIR_FLOAT,
                                                                   .real = *(const float *)member,
                                                                   .type = mlir_element_type(arena, HLO_F32)});
            break;
    }
    return HLO_SUCCESS;
}

HloStatus export_fields(ExportPlace *place, MlirOperation *operation, HloOpcode opcode, const void *attributes) {
    assert(opcode < HLO_OPCODE_COUNT && rows[opcode].name && operation);
    for (const MlirField *field = rows[opcode].fields; field->name; field++) {
        const MlirAttribute *attribute = NULL;
        HLO_TRY(export_field(place, field, (const char *)attributes + field->offset, &attribute));
        export_attribute(place, operation, field->name, attribute);
    }
    return HLO_SUCCESS;
}

HloStatus export_regions(ExportPlace *place, MlirOperation *operation) {
    int32_t count = place->instruction->called_count;
    operation->regions = HLO_ARENA_NEW(place->exporter->arena, MlirRegion, count);
    operation->region_count = count;
    for (int32_t i = 0; i < count; i++) {
        HLO_TRY(export_region(place, place->instruction->called[i], NULL, &operation->regions[i]));
    }
    return HLO_SUCCESS;
}

HloStatus export_with_fields(ExportPlace *place, ExportLeaves *result, MlirOperation **made) {
    const HloInstruction *instruction = place->instruction;
    MlirOperation *operation;
    HLO_TRY(export_plain(place, rows[instruction->opcode].name, result, &operation));
    HLO_TRY(export_fields(place, operation, instruction->opcode, instruction->attributes));
    if (made) *made = operation;
    return instruction->called_count ? export_regions(place, operation) : HLO_SUCCESS;
}

static HloStatus export_only_fields(ExportPlace *place, ExportLeaves *result) {
    return export_with_fields(place, result, NULL);
}

ExportHandler *export_fields_handler(HloOpcode opcode) {
    assert(opcode < HLO_OPCODE_COUNT);
    return rows[opcode].out ? export_only_fields : NULL;
}
