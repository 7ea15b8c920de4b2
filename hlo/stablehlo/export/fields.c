// SPDX-License-Identifier: Apache-2.0
// Exports instructions whose record contains the operation's attributes, by the rows of mlir/fields.def.
#include "hlo/stablehlo/mlir/fields.h"

#include <assert.h>

#include "hlo/stablehlo/export/export.h"

// Makes the attribute of one field; *attribute stays NULL if it is omitted.
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
    assert(opcode < HLO_OPCODE_COUNT && mlir_fields_rows[opcode].name && operation);
    for (const MlirField *field = mlir_fields_rows[opcode].fields; field->name; field++) {
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
    HLO_TRY(export_plain(place, mlir_fields_rows[instruction->opcode].name, result, &operation));
    HLO_TRY(export_fields(place, operation, instruction->opcode, instruction->attributes));
    if (made) *made = operation;
    return instruction->called_count ? export_regions(place, operation) : HLO_SUCCESS;
}

static HloStatus export_only_fields(ExportPlace *place, ExportLeaves *result) {
    return export_with_fields(place, result, NULL);
}

ExportHandler *export_fields_handler(HloOpcode opcode) {
    assert(opcode < HLO_OPCODE_COUNT);
    return mlir_fields_rows[opcode].out ? export_only_fields : NULL;
}
