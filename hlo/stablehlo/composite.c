// SPDX-License-Identifier: Apache-2.0
// Operations of chlo in portable artifacts, which have no chlo: as composites.
//
// JAX and XLA agree on this form (StableHLO's ChloLegalizeToStablehlo, "chlo-preserve-high-level-ops"): the operation
// becomes stablehlo.composite with the name of the chlo operation, its attributes and a function that computes the
// same:
//
//   chlo.erf %x : tensor<8xf32>
//   ->  stablehlo.composite "chlo.erf" %x {decomposition = @chlo.erf.impl, version = 1 : i32}
//
// A reader that knows chlo.erf takes it by its name, any other the function. The functions are made as HLO in a scratch
// module by the same code that imports chlo, and exported from there; releases older than composites get calls of them.
#include "hlo/stablehlo/composite.h"

#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/export.h"
#include "hlo/stablehlo/write.h"

// The first release that has composites.
enum { FIRST_COMPOSITES = 10900 };

// `made` has one decomposition for each name, list of shapes and k, however often the operation occurs.
typedef struct Composites {
    HloArena *arena;
    bool only_calls;    // the release is older than composites
    Importer importer;  // for the scratch module
    HloStringMap made;  // name and shapes -> HloComputation
    HLO_VECTOR(HloComputation *) all;
} Composites;

// A copy in the picture's arena.
static const MlirAttribute *make(Composites *composites, MlirAttribute attribute) {
    return mlir_new_attribute(composites->arena, attribute);
}

// The computation that does what the operation does, found by a text of all that it depends on.
static HloStatus decomposition_of(Composites *composites, const MlirOperation *operation, const MlirAttribute *k,
                                  HloComputation **computation) {
    const HloShape **shapes = HLO_ARENA_NEW(composites->arena, const HloShape *, operation->operand_count);
    const CompositeRequest request = {.name = operation->name,
                                      .operands = shapes,
                                      .operand_count = operation->operand_count,
                                      .k = k ? k->integer : 0};
    HloText key = {0};
    hlo_text_format(&key, "%s %lld", operation->name, (long long)request.k);
    for (int64_t i = 0; i < operation->operand_count; i++) {
        assert(operation->operands[i]->type->kind == MLIR_TYPE_SHAPE); /* the exporter has no other types */
        shapes[i] = operation->operands[i]->type->shape;
        hlo_text_string(&key, " ");
        hlo_shape_print(&key, shapes[i], false);
    }
    const size_t length = key.length;
    const char *kept = hlo_text_to_arena(composites->arena, &key);
    *computation = hlo_string_map_get(&composites->made, kept, length);
    if (*computation) return HLO_SUCCESS;
    HLO_TRY(composite_decompose(&composites->importer, &request, computation));
    hlo_string_map_set(composites->arena, &composites->made, kept, length, *computation);
    hlo_vector_push(composites->arena, &composites->all, *computation);
    return HLO_SUCCESS;
}

// The operation becomes a composite of version 1, as XLA writes them, with k as its only attribute.
static HloStatus make_composite(Composites *composites, MlirOperation *operation) {
    enum { MOST = 4 };
    HloArena *arena = composites->arena;
    const MlirAttribute *k = mlir_attribute(operation, "k");
    HloComputation *decomposition;
    HLO_TRY(decomposition_of(composites, operation, k, &decomposition));
    if (composites->only_calls) {
        const MlirAttribute *callee =
            make(composites, (MlirAttribute){.kind = MLIR_SYMBOL, .string = decomposition->name});
        static const char *const callee_name[] = {"callee"};
        operation->name = "func.call";
        operation->attribute_names = callee_name;
        operation->attributes = hlo_arena_copy(arena, &callee, sizeof(callee));
        operation->attribute_count = 1;
        return HLO_SUCCESS;
    }
    const int64_t room = MOST + operation->attribute_count;
    const char **names = HLO_ARENA_NEW(arena, const char *, room);
    const MlirAttribute **values = HLO_ARENA_NEW(arena, const MlirAttribute *, room);
    int64_t count = 0;
    if (k) {
        static const char *const keys[] = {"k"};
        const MlirAttribute *items = k;
        names[count] = "composite_attributes";
        values[count++] = make(composites, (MlirAttribute){.kind = MLIR_DICTIONARY,
                                                           .keys = keys,
                                                           .items = hlo_arena_copy(arena, &items, sizeof(items)),
                                                           .count = 1});
    }
    names[count] = "decomposition";
    values[count++] = make(composites, (MlirAttribute){.kind = MLIR_SYMBOL, .string = decomposition->name});
    names[count] = "name";
    values[count++] = make(composites, (MlirAttribute){.kind = MLIR_STRING, .string = operation->name});
    names[count] = "version";
    values[count++] = make(
        composites, (MlirAttribute){.kind = MLIR_INTEGER, .integer = 1, .type = mlir_element_type(arena, HLO_S32)});
    assert(count <= MOST);
    // Shardings and the like stay where they are.
    for (int64_t i = 0; i < operation->attribute_count; i++) {
        if (operation->attributes[i] == k) continue;
        names[count] = operation->attribute_names[i];
        values[count++] = operation->attributes[i];
    }
    operation->name = "stablehlo.composite";
    operation->attribute_names = names;
    operation->attributes = values;
    operation->attribute_count = count;
    return HLO_SUCCESS;
}

// Inner operations first: what an operation becomes has no regions.
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
    // A function of the program may be called as a decomposition: those get other names then.
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
