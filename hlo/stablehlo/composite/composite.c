// SPDX-License-Identifier: Apache-2.0
// Writes chlo operations as composites: portable artifacts have no chlo.
//
// JAX and XLA agree on this form (StableHLO's ChloLegalizeToStablehlo, "chlo-preserve-high-level-ops"): the operation
// becomes stablehlo.composite with the name of the chlo operation, its attributes and a function that computes the
// same:
//
//   chlo.erf %x : tensor<8xf32>
//   ->  stablehlo.composite "chlo.erf" %x {decomposition = @chlo.erf.impl, version = 1 : i32}
//
// A reader that knows chlo.erf uses its name; any other reader uses the function. The functions are made as HLO in a
// scratch module by the same code that imports chlo, and exported from there. Releases older than composites get calls
// of the functions.
#include "hlo/stablehlo/composite/composite.h"

#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/bytecode/writer.h"
#include "hlo/stablehlo/export/export.h"
#include "hlo/stablehlo/mlir/dialect.h"
#include "hlo/stablehlo/text/printer.h"

// The first release that has composites.
enum { FIRST_COMPOSITES = 10900 };

// `made` has one decomposition for each combination of name, attributes and types, however often it occurs.
typedef struct Composites {
    HloArena *arena;
    bool only_calls;    // the release is older than composites
    Importer importer;  // for the scratch module
    HloStringMap made;  // name, options and types -> HloComputation
    HLO_VECTOR(HloComputation *) all;
} Composites;

// Copies an attribute into the module's arena.
static const MlirAttribute *make(Composites *composites, MlirAttribute attribute) {
    return mlir_new_attribute(composites->arena, attribute);
}

// Precisions as words: bytecode has no enumerations of chlo.
static const MlirAttribute *words_of(Composites *composites, const MlirAttribute *precisions) {
    const char *words = mlir_words("precision", sizeof("precision") - 1);
    const MlirAttribute **items = HLO_ARENA_NEW(composites->arena, const MlirAttribute *, precisions->count);
    for (int64_t i = 0; i < precisions->count; i++) {
        size_t length;
        const char *word = mlir_number_word(words, precisions->items[i]->integer, &length);
        assert(word); /* the exporter refuses precisions that StableHLO does not have */
        items[i] = make(composites, (MlirAttribute){.kind = MLIR_STRING,
                                                    .string = hlo_arena_string(composites->arena, word, length)});
    }
    return make(composites, (MlirAttribute){.kind = MLIR_ARRAY, .items = items, .count = precisions->count});
}

// Converts a list of numbers to a tensor.
static const MlirAttribute *tensor_of(Composites *composites, HloInts ints) {
    const HloShape *shape = hlo_shape_array(composites->arena, HLO_S64, &ints.count, 1);
    HloLiteral *literal = hlo_literal_in_arena(composites->arena, shape);
    for (int64_t i = 0; i < ints.count; i++) hlo_literal_set_int64(literal, i, ints.items[i]);
    const MlirType *type = mlir_new_type(composites->arena, (MlirType){.kind = MLIR_TYPE_SHAPE, .shape = shape});
    return make(composites, (MlirAttribute){.kind = MLIR_TENSOR, .literal = literal, .type = type});
}

// Lists of dimensions that chlo keeps in one attribute, in the order of its fields.
static const MlirAttribute *dimensions_of(Composites *composites, const MlirOperation *operation, const char *fields) {
    HLO_VECTOR(const MlirAttribute *) lists = {0};
    MlirFieldInfo field;
    while (mlir_next_field(&fields, &field)) {
        const char *name = hlo_arena_string(composites->arena, field.flat, field.flat_length);
        const MlirAttribute *list = mlir_attribute(operation, name);
        assert(list && list->kind == MLIR_INTS); /* the exporter gives all of them */
        hlo_vector_push(composites->arena, &lists, tensor_of(composites, list->ints));
    }
    return make(composites, (MlirAttribute){.kind = MLIR_ARRAY, .items = lists.items, .count = lists.count});
}

// The operation's attributes as the composite's dictionary, in XLA's form; NULL if there are none.
static const MlirAttribute *options_of(Composites *composites, const MlirOperation *operation) {
    const MlirOpInfo *info = mlir_op_info(operation->name, strlen(operation->name));
    assert(info); /* the exporter writes no operation that the table does not have */
    HloArena *arena = composites->arena;
    HLO_VECTOR(const char *) keys = {0};
    HLO_VECTOR(const MlirAttribute *) items = {0};
    const char *list = info->attributes;
    MlirFieldInfo field;
    while (mlir_next_field(&list, &field)) {
        const char *key = hlo_arena_string(arena, field.text, field.text_length);
        const char *fields = mlir_fields(field.kind, field.kind_length);
        const MlirAttribute *item =
            fields ? dimensions_of(composites, operation, fields) : mlir_attribute(operation, key);
        if (!item) continue;
        if (strcmp(key, "precision_config") == 0) item = words_of(composites, item);
        hlo_vector_push(arena, &keys, key);
        hlo_vector_push(arena, &items, item);
    }
    if (keys.count == 0) return NULL;
    return make(
        composites,
        (MlirAttribute){.kind = MLIR_DICTIONARY, .keys = keys.items, .items = items.items, .count = keys.count});
}

// Finds or makes the computation that decomposes the operation; the key is a text of everything that it depends on.
static HloStatus decomposition_of(Composites *composites, const MlirOperation *operation, const MlirAttribute *options,
                                  HloComputation **computation) {
    HloText key = {0};
    Printer printer = {.arena = composites->arena, .text = &key, .dialect = "chlo"};
    hlo_text_string(&key, operation->name);
    if (options) print_attribute(&printer, options);
    for (int64_t i = 0; i < operation->operand_count; i++) print_type(&printer, operation->operands[i]->type);
    for (int64_t i = 0; i < operation->result_count; i++) print_type(&printer, operation->results[i]->type);
    const size_t length = key.length;
    const char *kept = hlo_text_to_arena(composites->arena, &key);
    *computation = hlo_string_map_get(&composites->made, kept, length);
    if (*computation) return HLO_SUCCESS;
    HLO_TRY(composite_decompose(&composites->importer, operation, computation));
    hlo_string_map_set(composites->arena, &composites->made, kept, length, *computation);
    hlo_vector_push(composites->arena, &composites->all, *computation);
    return HLO_SUCCESS;
}

// Turns the operation into a call of its decomposition, for releases without composites.
static void make_call(Composites *composites, MlirOperation *operation, const HloComputation *decomposition) {
    const MlirAttribute *callee = make(composites, (MlirAttribute){.kind = MLIR_SYMBOL, .string = decomposition->name});
    static const char *const callee_name[] = {"callee"};
    operation->name = "func.call";
    operation->attribute_names = callee_name;
    operation->attributes = hlo_arena_copy(composites->arena, &callee, sizeof(callee));
    operation->attribute_count = 1;
}

// Turns the operation into a composite of version 1, as XLA writes them, with its own attributes in one dictionary.
static HloStatus make_composite(Composites *composites, MlirOperation *operation) {
    enum { MOST = 4 };
    HloArena *arena = composites->arena;
    const MlirAttribute *options = options_of(composites, operation);
    HloComputation *decomposition;
    HLO_TRY(decomposition_of(composites, operation, options, &decomposition));
    if (composites->only_calls) {
        make_call(composites, operation, decomposition);
        return HLO_SUCCESS;
    }
    const int64_t room = MOST + operation->attribute_count;
    const char **names = HLO_ARENA_NEW(arena, const char *, room);
    const MlirAttribute **values = HLO_ARENA_NEW(arena, const MlirAttribute *, room);
    int64_t count = 0;
    if (options) {
        names[count] = "composite_attributes";
        values[count++] = options;
    }
    names[count] = "decomposition";
    values[count++] = make(composites, (MlirAttribute){.kind = MLIR_SYMBOL, .string = decomposition->name});
    names[count] = "name";
    values[count++] = make(composites, (MlirAttribute){.kind = MLIR_STRING, .string = operation->name});
    names[count] = "version";
    values[count++] = make(
        composites, (MlirAttribute){.kind = MLIR_INTEGER, .integer = 1, .type = mlir_element_type(arena, HLO_S32)});
    assert(count <= MOST);
    // Shardings and similar attributes, which have a dot in their names, remain attributes of the operation.
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        if (!strchr(operation->attribute_names[i], '.')) continue;
        names[count] = operation->attribute_names[i];
        values[count++] = operation->attributes[i];
    }
    operation->name = "stablehlo.composite";
    operation->attribute_names = names;
    operation->attributes = values;
    operation->attribute_count = count;
    return HLO_SUCCESS;
}

// Visits inner operations first: composites have no regions.
static HloStatus walk(Composites *composites, MlirOperation *operation) {
    for (int64_t r = 0; r < operation->region_count; r++) {
        for (int64_t b = 0; b < operation->regions[r].block_count; b++) {
            const MlirBlock *block = &operation->regions[r].blocks[b];
            for (int64_t i = 0; i < block->operation_count; i++) HLO_TRY(walk(composites, block->operations[i]));
        }
    }
    return strncmp(operation->name, "chlo.", 5) == 0 ? make_composite(composites, operation) : HLO_SUCCESS;
}

HloStatus mlir_make_composites(HloArena *arena, MlirOperation *top, const char *release, HloModule *scratch) {
    int64_t number;
    HLO_TRY(mlir_release_number(release, &number));
    Composites composites = {
        .only_calls = number < FIRST_COMPOSITES, .arena = arena, .importer = {.module = scratch, .arena = arena}};
    assert(top->region_count == 1 && top->regions[0].block_count == 1); /* a module */
    MlirBlock *block = &top->regions[0].blocks[0];
    // A function of the program may have the name of a decomposition; the decomposition is then renamed.
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirAttribute *name = mlir_attribute(block->operations[i], "sym_name");
        if (!name || !name->string) continue;
        hlo_names_reserve(scratch->arena, &scratch->computation_names, name->string);
    }
    HLO_TRY(walk(&composites, top));
    if (!composites.all.count) return HLO_SUCCESS;
    MlirOperationVector functions = {0};
    HLO_TRY(mlir_export_functions(scratch, arena, composites.all.items, composites.all.count, &functions));
    const int64_t count = block->operation_count;
    MlirOperation **all = HLO_ARENA_NEW(arena, MlirOperation *, count + functions.count);
    memcpy(all, block->operations, sizeof(*all) * (size_t)count);
    memcpy(all + count, functions.items, sizeof(*all) * (size_t)functions.count);
    block->operations = all;
    block->operation_count = count + functions.count;
    return HLO_SUCCESS;
}
