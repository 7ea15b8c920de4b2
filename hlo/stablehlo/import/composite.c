// SPDX-License-Identifier: Apache-2.0
// Imports composites: operations of any dialect with a function that computes the same, their decomposition. Portable
// artifacts contain chlo only in this form.
//
// A composite that represents a chlo operation becomes that operation, which we compute better than its decomposition.
// All others become calls that record their origin in frontend attributes (as in XLA), so that they can be exported
// again. Either way the composite must be valid, since other readers run its decomposition: where we do not need the
// function, it is converted nevertheless, checked, and removed (import_check_composites()).
#include <stdio.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"
#include "hlo/stablehlo/mlir/dialect.h"
#include "hlo/verify/verify.h"

// A composite that became an operation of its own, with the operands of its decomposition.
typedef struct ImportedComposite {
    ImportPlace place;
    HloInstruction **operands;
    const char *decomposition;
    HloInstruction *call;  // while it is checked
    struct ImportedComposite *next;
} ImportedComposite;

// ---------------------------------------------------------------------------------------------------------------------
// Operations of chlo

// Ragged dots write their six lists of dimensions as an array of tensors, in the order of the fields of
// #chlo.ragged_dot.
static HloStatus composite_ragged_dot(ImportPlace *place) {
    enum { LISTS = 6 };
    static const char kind[] = "ragged_dot";
    const MlirAttribute *options = mlir_attribute(place->operation, "composite_attributes");
    const MlirAttribute *lists = mlir_entry(options, "ragged_dot_dimension_numbers");
    const MlirAttribute *precision = mlir_entry(options, "precision_config");
    if (!lists || lists->kind != MLIR_ARRAY || lists->count != LISTS)
        return import_error(place, HLO_INVALID_ARGUMENT, "the dimensions of a ragged dot must be six lists");
    const char *all_names[LISTS + 1];
    const MlirAttribute *values[LISTS + 1];
    const char *fields = mlir_fields(kind, sizeof(kind) - 1);
    MlirFieldInfo field;
    for (int i = 0; i < LISTS && mlir_next_field(&fields, &field); i++) {
        all_names[i] = hlo_arena_string(place->importer->arena, field.flat, field.flat_length);
        values[i] = lists->items[i];
    }
    all_names[LISTS] = "precision_config";
    values[LISTS] = precision;
    MlirOperation operation = *place->operation;
    operation.attribute_names = all_names;
    operation.attributes = values;
    operation.attribute_count = precision ? LISTS + 1 : LISTS;
    ImportPlace at = {place->importer, place->computation, &operation};
    return import_with_fields(&at, HLO_OP_RAGGED_DOT);
}

// k is in the composite's dictionary here, not an attribute of the operation.
static HloStatus composite_top_k(ImportPlace *place) {
    const MlirAttribute *k = mlir_entry(mlir_attribute(place->operation, "composite_attributes"), "k");
    if (!k || k->kind != MLIR_INTEGER) return import_error(place, HLO_INVALID_ARGUMENT, "a top_k has no k");
    const HloTopKAttributes attributes = {.k = k->integer, .largest = true};
    return import_plain(place, HLO_OP_TOPK, &attributes);
}

// Finds the row of the chlo operation by the composite's name.
static HloStatus composite_elementwise(ImportPlace *place) {
    HloInstruction **operands, *result;
    HLO_TRY(import_operands(place, &operands));
    const char *name = import_string(place, "name");
    HLO_TRY(import_chlo_value(place, name, operands, place->operation->operand_count, &result));
    return import_set_results(place, result);
}

// A composite that represents an operation. `options` are the entries that its dictionary may have, with blanks around
// each.
typedef struct CompositeRow {
    const char *name;
    ImportHandler *handler;
    int operands;
    const char *options;
} CompositeRow;

static const CompositeRow rows[] = {
    {"chlo.acos", composite_elementwise, 1, ""},
    {"chlo.acosh", composite_elementwise, 1, ""},
    {"chlo.asin", composite_elementwise, 1, ""},
    {"chlo.asinh", composite_elementwise, 1, ""},
    {"chlo.atanh", composite_elementwise, 1, ""},
    {"chlo.cosh", composite_elementwise, 1, ""},
    {"chlo.erf", composite_elementwise, 1, ""},
    {"chlo.mulhi", composite_elementwise, 2, ""},
    {"chlo.ragged_dot", composite_ragged_dot, 3, " ragged_dot_dimension_numbers precision_config "},
    {"chlo.sinh", composite_elementwise, 1, ""},
    {"chlo.top_k", composite_top_k, 1, " k "},
};

static bool has_only(const MlirAttribute *dictionary, const char *options) {
    for (int64_t i = 0; dictionary && i < dictionary->count; i++) {
        const char *key = dictionary->keys[i];
        if (!*key || strchr(key, ' ')) return false;  // it would match the blanks around the options
        const char *found = strstr(options, key);
        if (!found || found[-1] != ' ' || found[strlen(key)] != ' ') return false;
    }
    return true;
}

// The row of a composite that is known to compute what its name says; NULL for all others, also for later versions of a
// known name and for options that say more than we know: what these compute is their decomposition.
static const CompositeRow *find_row(const ImportPlace *place, const char *name, int64_t version) {
    enum { KNOWN_VERSION = 1 };  // that all of XLA's have; 0 is that of a text without one
    const MlirAttribute *options = mlir_attribute(place->operation, "composite_attributes");
    if (version > KNOWN_VERSION || place->operation->region_count) return NULL;
    for (size_t i = 0; i < HLO_COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        const bool fits = rows[i].operands == place->operation->operand_count && has_only(options, rows[i].options);
        return fits ? &rows[i] : NULL;
    }
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Composites

// Reads what every composite has, as StableHLO's verifier demands it.
static HloStatus read_composite(const ImportPlace *place, const char **name, const char **decomposition,
                                int64_t *version) {
    *name = import_string(place, "name");
    *decomposition = import_string(place, "decomposition");
    const MlirAttribute *options = mlir_attribute(place->operation, "composite_attributes");
    if (!*name || !mlir_is_operation_name(*name))
        return import_error(place, HLO_INVALID_ARGUMENT, "a composite needs a name like \"dialect.operation\"");
    if (!*decomposition) return import_error(place, HLO_INVALID_ARGUMENT, "composite %s has no decomposition", *name);
    if (options && options->kind != MLIR_DICTIONARY)
        return import_error(place, HLO_INVALID_ARGUMENT, "the attributes of composite %s are no dictionary", *name);
    HLO_TRY(import_int(place, "version", 0, version));
    if (*version < 0 || *version > INT32_MAX)
        return import_error(place, HLO_INVALID_ARGUMENT, "composite %s has version %lld", *name, (long long)*version);
    return HLO_SUCCESS;
}

// Converts the composite to its operation, and notes its decomposition for import_check_composites().
static HloStatus import_recognised(ImportPlace *place, const CompositeRow *row, const char *decomposition) {
    Importer *importer = place->importer;
    ImportedComposite *composite = HLO_ARENA_NEW(importer->arena, ImportedComposite, 1);
    *composite = (ImportedComposite){.place = *place, .decomposition = decomposition, .next = importer->composites};
    HLO_TRY(import_operands(place, &composite->operands));
    importer->composites = composite;
    return row->handler(place);
}

// The attributes of any other composite are text in HLO. Regions only describe the operation; HLO cannot hold them.
static HloStatus import_other(ImportPlace *place, const char *name, const char *decomposition, int64_t version) {
    HloInstruction *result;
    char number[24];
    const MlirAttribute *options = mlir_attribute(place->operation, "composite_attributes");
    if (place->operation->region_count)
        return import_error(place, HLO_UNIMPLEMENTED, "composite %s has regions, which HLO cannot express", name);
    for (int64_t i = 0; options && i < options->count; i++)
        if (!mlir_can_write(options->items[i]))
            return import_error(place, HLO_UNIMPLEMENTED, "attribute '%s' of composite %s cannot be written in HLO",
                                options->keys[i], name);
    HLO_TRY(import_call_of(place, decomposition, true, &result));
    hlo_instruction_set_frontend_attribute(result, "composite.attributes",
                                           options ? mlir_attribute_text(import_arena(place), options) : "{}");
    hlo_instruction_set_frontend_attribute(result, "composite.name", hlo_arena_text(import_arena(place), name));
    hlo_instruction_set_frontend_attribute(result, "composite.version",
                                           (snprintf(number, sizeof(number), "%lld", (long long)version), number));
    return import_set_results(place, result);
}

static HloStatus import_composite(ImportPlace *place) {
    const char *name, *decomposition;
    int64_t version;
    HLO_TRY(read_composite(place, &name, &decomposition, &version));
    const CompositeRow *row = find_row(place, name, version);
    return row ? import_recognised(place, row, decomposition) : import_other(place, name, decomposition, version);
}

const ImportRow *import_composite_rows(int64_t *count) {
    static const ImportRow all[] = {{"stablehlo.composite", import_composite, 0}};
    *count = (int64_t)HLO_COUNT_OF(all);
    return all;
}

// ---------------------------------------------------------------------------------------------------------------------
// The decompositions of operations

// Appends a call of the decomposition, which infers its results and compares them with the composite's. A call beside
// the operation also lets the verifier find decompositions that contain the composite themselves.
static HloStatus call_decomposition(ImportedComposite *composite) {
    ImportPlace *place = &composite->place;
    const int64_t count = place->operation->operand_count;
    const HloCallAttributes attributes = {0};
    HloComputation *called;
    const HloShape *shape;
    HLO_TRY(import_function(place, composite->decomposition, composite->operands, count, &called));
    HLO_TRY(import_result_shape(place, &shape));
    return import_emit(place, HLO_OP_CALL, shape, composite->operands, count, &attributes, &called, 1,
                       &composite->call);
}

// Decompositions may contain further composites, which their conversion adds to the importer's list.
HloStatus import_check_composites(Importer *importer) {
    ImportedComposite *called = NULL, *composite;
    while ((composite = importer->composites)) {
        importer->composites = composite->next;
        HLO_TRY(import_with_place(importer, composite->place.operation, call_decomposition(composite)));
        composite->next = called;
        called = composite;
    }
    if (!called) return HLO_SUCCESS;
    HLO_TRY(hlo_verify(importer->module));
    for (; called; called = called->next) hlo_instruction_remove(called->call);
    hlo_module_remove_unreachable(importer->module);
    return HLO_SUCCESS;
}
