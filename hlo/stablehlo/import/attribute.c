// SPDX-License-Identifier: Apache-2.0
// Properties of an operation besides its operands: its source location, and its attributes by name.
//
// The form of an attribute depends on the reader: bytecode has lists of integers as tensors, text also as array<i64:
// ..>; enumerators are ordinals, or words in the attributes of a composite. Handlers see one form. A missing attribute
// returns the caller's default; one of another kind is an error that names it.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"

// ---------------------------------------------------------------------------------------------------------------------
// Places

// The parts of a location that HLO keeps: the first file and line, and the outermost name.
typedef struct SourcePlace {
    const char *file, *name;
    int64_t line;
    int depth, visits;
} SourcePlace;

// Locations share their parts, so twenty lines may describe a tree of 4^20 locations: the search ends when everything
// is found, or when it has taken longer than the location of any real program needs.
static void search_place(const MlirAttribute *location, SourcePlace *place) {
    enum { DEEPEST_LOCATION = 20, MOST_VISITS = 2000 };
    if (!location || location->kind != MLIR_LOCATION || (place->file && place->name)) return;
    if (place->depth > DEEPEST_LOCATION || place->visits++ > MOST_VISITS) return;
    const bool is_file = location->count == 0 && location->string;
    if (is_file && !place->file) {
        place->file = location->string;
        place->line = location->integer;
    } else if (!is_file && location->string && !place->name) {
        place->name = location->string;
    }
    place->depth++;
    for (int64_t i = 0; i < location->count; i++) search_place(location->items[i], place);
    place->depth--;
}

static SourcePlace find_place(const MlirAttribute *location) {
    SourcePlace place = {0};
    search_place(location, &place);
    return place;
}

HloStatus import_error(const ImportPlace *place, HloCode code, const char *format, ...) {
    assert(format);
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    const SourcePlace source = find_place(place->operation->location);
    if (!source.file) return hlo_error(code, "%s: %s", place->operation->name, message);
    return hlo_error(code, "%s at %s:%lld: %s", place->operation->name, source.file, (long long)source.line, message);
}

const HloMetadata *import_metadata(const ImportPlace *place, const MlirAttribute *location) {
    if (!location) return NULL;
    if (location->lowered) return location->lowered;
    const SourcePlace source = find_place(location);
    if (!source.file && !source.name) return NULL;
    HloArena *arena = import_arena(place);
    HloMetadata *metadata = HLO_ARENA_NEW(arena, HloMetadata, 1);
    if (source.name) metadata->op_name = hlo_arena_text(arena, source.name);
    Importer *importer = place->importer;
    if (source.file && source.file != importer->picture_file) {
        importer->picture_file = source.file;
        importer->module_file = hlo_arena_text(arena, source.file);
    }
    if (source.file) metadata->source_file = importer->module_file;
    metadata->source_line = (int32_t)source.line;  // as XLA's importer casts it
    ((MlirAttribute *)(uintptr_t)location)->lowered = metadata;
    return metadata;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

HloStatus import_required(const ImportPlace *place, const char *name) {
    if (mlir_attribute(place->operation, name)) return HLO_SUCCESS;
    return import_error(place, HLO_INVALID_ARGUMENT, "it has no attribute %s", name);
}

HloStatus import_int(const ImportPlace *place, const char *name, int64_t fallback, int64_t *value) {
    assert(name && value);
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    *value = fallback;
    if (!attribute) return HLO_SUCCESS;
    if (attribute->kind != MLIR_INTEGER && attribute->kind != MLIR_BOOL && attribute->kind != MLIR_ENUM) {
        return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is not an integer", name);
    }
    *value = attribute->integer;
    return HLO_SUCCESS;
}

HloStatus import_bool(const ImportPlace *place, const char *name, bool fallback, bool *value) {
    int64_t number;
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    if (attribute && attribute->kind == MLIR_UNIT) {
        *value = true;
        return HLO_SUCCESS;
    }
    HLO_TRY(import_int(place, name, fallback, &number));
    *value = number != 0;
    return HLO_SUCCESS;
}

// Both forms occur: array<i64: ...> in newer programs, dense<...> : tensor<nxi64> in older ones and in bytecode.
HloStatus import_ints(const ImportPlace *place, const char *name, HloInts *ints) {
    assert(name && ints);
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    HloArena *arena = import_arena(place);
    *ints = (HloInts){0};
    if (!attribute) return HLO_SUCCESS;
    if (attribute->kind == MLIR_INTS) {
        *ints = hlo_ints_copy(arena, attribute->ints);
        return HLO_SUCCESS;
    }
    if (attribute->kind == MLIR_ARRAY && attribute->count == 0) return HLO_SUCCESS;
    if (attribute->kind != MLIR_TENSOR) {
        return import_error(place, HLO_INVALID_ARGUMENT, "attribute %s is not a list of integers", name);
    }
    const HloLiteral *literal = mlir_tensor_literal(arena, attribute);
    int64_t count = hlo_shape_elements(literal->shape);
    int64_t *items = HLO_ARENA_NEW(arena, int64_t, count);
    for (int64_t i = 0; i < count; i++) items[i] = hlo_literal_get_int64(literal, i);
    *ints = (HloInts){items, count};
    return HLO_SUCCESS;
}

// Enumerations of dialects that bytecode does not support, such as chlo's in the attributes of a composite, are written
// as their words: "HIGHEST".
static HloStatus enum_word(const ImportPlace *place, const char *word, const HloEnumTable *table, int32_t *value) {
    *value = hlo_enum_from_any_case(table, word, strlen(word));
    if (*value < 0) return import_error(place, HLO_INVALID_ARGUMENT, "unknown %s '%s'", table->name, word);
    return HLO_SUCCESS;
}

static HloStatus enum_value(const ImportPlace *place, const MlirAttribute *attribute, const HloEnumTable *table,
                            int32_t *value) {
    int64_t number = attribute->integer;
    if (attribute->kind == MLIR_STRING) return enum_word(place, attribute->string, table, value);
    if (attribute->kind != MLIR_ENUM && attribute->kind != MLIR_INTEGER)
        return import_error(place, HLO_INVALID_ARGUMENT, "expected an attribute of kind %s", table->name);
    bool known = number >= 0 && number < table->count && table->texts[number];
    if (!known) return import_error(place, HLO_INVALID_ARGUMENT, "unknown %s", table->name);
    *value = (int32_t)number;
    return HLO_SUCCESS;
}

HloStatus import_enum(const ImportPlace *place, const char *name, const HloEnumTable *table, int32_t fallback,
                      int32_t *value) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    *value = fallback;
    if (!attribute) return HLO_SUCCESS;
    return enum_value(place, attribute, table, value);
}

// All DEFAULT means the same as no precisions, which is how HLO writes it.
HloStatus import_precisions(const ImportPlace *place, HloPrecisions *precisions) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, "precision_config");
    *precisions = (HloPrecisions){0};
    if (!attribute || attribute->kind != MLIR_ARRAY) return HLO_SUCCESS;
    if (attribute->count > 2)
        return import_error(place, HLO_INVALID_ARGUMENT, "precision_config has %lld entries for two operands",
                            (long long)attribute->count);
    int32_t *items = HLO_ARENA_NEW(import_arena(place), int32_t, attribute->count);
    bool all_default = true;
    for (int64_t i = 0; i < attribute->count; i++) {
        HLO_TRY(enum_value(place, attribute->items[i], &hlo_enum_Precision, &items[i]));
        all_default &= items[i] == HLO_Precision_DEFAULT;
    }
    if (!all_default) *precisions = (HloPrecisions){items, attribute->count};
    return HLO_SUCCESS;
}

const char *import_string(const ImportPlace *place, const char *name) {
    const MlirAttribute *attribute = mlir_attribute(place->operation, name);
    return attribute ? attribute->string : NULL;
}

// Adds a dictionary's entries to those that the instruction already has, in one step: setting one after the other would
// copy the list for each. Values that are not strings count as empty ones: XLA only writes strings.
void import_frontend_attributes(const MlirAttribute *dictionary, HloInstruction *instruction) {
    if (!dictionary || dictionary->kind != MLIR_DICTIONARY) return;
    HloArena *arena = instruction->parent->module->arena;
    const HloKeyValues old = instruction->frontend_attributes;
    HloKeyValue *items = HLO_ARENA_NEW(arena, HloKeyValue, old.count + dictionary->count);
    for (int64_t i = 0; i < old.count; i++) items[i] = old.items[i];
    for (int64_t i = 0; i < dictionary->count; i++) {
        const char *value = dictionary->items[i] ? dictionary->items[i]->string : NULL;
        items[old.count + i] =
            (HloKeyValue){hlo_arena_text(arena, dictionary->keys[i]), hlo_arena_text(arena, value ? value : "")};
    }
    instruction->frontend_attributes = hlo_key_values_sorted(arena, items, old.count + dictionary->count);
}
