// SPDX-License-Identifier: Apache-2.0
// Reuses the conversion of repeated operations. The layers of a network repeat the same code: operations of one name
// with the same attributes, and with operands and results of the same types, become the same instructions, whose checks
// need not be repeated. The first conversion is stored as a recipe, which the others follow.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"

// An operation with more operands, or one that becomes more instructions, is rare, and is converted each time.
enum { MOST_OPERANDS = 4, MOST_STEPS = 3 };
// Recipes are in a table of this many slots; on a collision, the newer recipe replaces the older one.
enum { PLACES = 1024 };

// One instruction. `operands` count the operation's operands from 0, and the steps before from MOST_OPERANDS.
typedef struct RecipeStep {
    HloOpcode opcode;
    const HloShape *shape;
    const void *attributes;
    const HloSharding *sharding;
    HloKeyValues frontend_attributes;
    int operand_count;
    int operands[MOST_OPERANDS];
} RecipeStep;

// Properties that must be equal, compared by address: the readers keep one copy of each name, type and attribute.
typedef struct Key {
    const char *name;
    const char *const *attribute_names;
    const MlirAttribute *const *attributes;
    int64_t attribute_count;
    const MlirType *type;
    const HloShape *shapes[MOST_OPERANDS];
} Key;

typedef struct Recipe {
    Key key;
    int step_count, result;  // `result`: the step that makes the operation's result
    RecipeStep steps[MOST_STEPS];
} Recipe;

struct ImportRepeats {
    const Recipe *places[PLACES];
};

// False for an operation that no recipe can describe, or whose operands are not defined here, which its handler
// reports.
static bool key_of(const ImportPlace *place, Key *key) {
    const MlirOperation *operation = place->operation;
    // The text reader makes a separate list of attributes for every operation.
    if (place->importer->text && operation->attribute_count) return false;
    if (operation->operand_count > MOST_OPERANDS || operation->result_count != 1 || operation->region_count)
        return false;
    *key = (Key){.name = operation->name,
                 .attribute_names = operation->attribute_names,
                 .attributes = operation->attributes,
                 .attribute_count = operation->attribute_count,
                 .type = operation->results[0]->type};
    for (int64_t i = 0; i < operation->operand_count; i++) {
        const HloInstruction *operand = operation->operands[i]->lowered;
        if (!operand || operand->parent != place->computation) return false;
        key->shapes[i] = operand->shape;
    }
    return true;
}

static const Recipe **place_of(const Importer *importer, const Key *key) {
    assert(importer->repeats && key->name);
    uint64_t hash = hlo_hash_mix((uintptr_t)key->name, (uintptr_t)key->type);
    for (int64_t i = 0; i < key->attribute_count; i++) hash = hlo_hash_mix(hash, (uintptr_t)key->attributes[i]);
    for (int i = 0; i < MOST_OPERANDS && key->shapes[i]; i++) hash = hlo_hash_mix(hash, (uintptr_t)key->shapes[i]);
    return &importer->repeats->places[hash >> 32 & (PLACES - 1)];
}

// Addresses suffice: two types that are equal but distinct only cost a second conversion.
static bool same_key(const Key *a, const Key *b) {
    bool same = a->name == b->name && a->type == b->type && a->attribute_count == b->attribute_count;
    // Most operations share the lists too; those that also have attributes of other dialects have their own lists.
    const bool one_list = same && a->attributes == b->attributes && a->attribute_names == b->attribute_names;
    for (int64_t i = 0; same && !one_list && i < a->attribute_count; i++)
        same = a->attributes[i] == b->attributes[i] && a->attribute_names[i] == b->attribute_names[i];
    for (int i = 0; same && i < MOST_OPERANDS; i++) same = a->shapes[i] == b->shapes[i];
    return same;
}

// Makes the instructions of the recipe, with this operation's operands and location. Attributes are shared: they are
// never changed in place.
static void follow(const ImportPlace *place, const Recipe *recipe) {
    assert(recipe->step_count > 0 && recipe->result < recipe->step_count);
    HloInstruction *made[MOST_STEPS], *operands[MOST_OPERANDS];
    const HloMetadata *metadata = import_metadata(place, place->operation->location);
    for (int s = 0; s < recipe->step_count; s++) {
        const RecipeStep *step = &recipe->steps[s];
        for (int i = 0; i < step->operand_count; i++) {
            const int from = step->operands[i];
            operands[i] = from < MOST_OPERANDS ? place->operation->operands[from]->lowered : made[from - MOST_OPERANDS];
        }
        made[s] = hlo_instruction_new(place->computation, step->opcode, step->shape, operands, step->operand_count,
                                      step->attributes, NULL);
        made[s]->metadata = metadata;
        made[s]->sharding = step->sharding;
        made[s]->frontend_attributes = step->frontend_attributes;
    }
    place->operation->results[0]->lowered = made[recipe->result];
}

// A slot that another recipe has replaced is a miss.
bool import_repeated(const ImportPlace *place) {
    Key key;
    if (!key_of(place, &key)) return false;
    const Recipe *recipe = *place_of(place->importer, &key);
    if (!recipe || !same_key(&recipe->key, &key)) return false;
    follow(place, recipe);
    return true;
}

// The source of a step's operand; -1 if it is neither an operand of the operation nor an earlier step.
static int source_of(const MlirOperation *operation, HloInstruction *const *made, int made_count,
                     const HloInstruction *operand) {
    for (int64_t i = 0; i < operation->operand_count; i++)
        if (operation->operands[i]->lowered == operand) return (int)i;
    for (int s = 0; s < made_count; s++)
        if (made[s] == operand) return MOST_OPERANDS + s;
    return -1;
}

// True if two operands are one value: the operand that an instruction uses is then ambiguous.
static bool has_twins(const MlirOperation *operation) {
    for (int64_t i = 0; i < operation->operand_count; i++)
        for (int64_t j = 0; j < i; j++)
            if (operation->operands[i]->lowered == operation->operands[j]->lowered) return true;
    return false;
}

// False for an instruction that a recipe cannot describe: one with computations or a configuration, or with operands
// from elsewhere.
static bool note_step(const MlirOperation *operation, HloInstruction *const *made, int made_count, RecipeStep *step) {
    const HloInstruction *instruction = made[made_count];
    if (instruction->operand_count > MOST_OPERANDS || instruction->called_count || instruction->backend_config)
        return false;
    *step = (RecipeStep){.opcode = instruction->opcode,
                         .shape = instruction->shape,
                         .attributes = instruction->attributes,
                         .sharding = instruction->sharding,
                         .frontend_attributes = instruction->frontend_attributes,
                         .operand_count = instruction->operand_count};
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        step->operands[i] = source_of(operation, made, made_count, instruction->operands[i]);
        if (step->operands[i] < 0) return false;
    }
    return true;
}

// All instructions from `before` to the end must fit the recipe, and one of them must be the result.
void import_note_repeat(const ImportPlace *place, const HloInstruction *before) {
    const MlirOperation *operation = place->operation;
    Recipe recipe = {.result = -1};
    HloInstruction *made[MOST_STEPS];
    if (!key_of(place, &recipe.key) || has_twins(operation)) return;
    for (HloInstruction *at = before ? before->next : place->computation->first; at; at = at->next) {
        if (recipe.step_count == MOST_STEPS) return;
        made[recipe.step_count] = at;
        if (!note_step(operation, made, recipe.step_count, &recipe.steps[recipe.step_count])) return;
        if (operation->results[0]->lowered == at) recipe.result = recipe.step_count;
        recipe.step_count++;
    }
    if (recipe.result < 0) return;
    *place_of(place->importer, &recipe.key) = hlo_arena_copy(place->importer->arena, &recipe, sizeof(recipe));
}

// By name, since a handler that makes computations or inspects values would repeat more than its instructions.
bool import_may_repeat(const char *name) {
    static const char *const names[] = {"stablehlo.broadcast",   "stablehlo.broadcast_in_dim",
                                        "stablehlo.clamp",       "stablehlo.compare",
                                        "stablehlo.constant",    "stablehlo.convert",
                                        "stablehlo.convolution", "stablehlo.dot",
                                        "stablehlo.dot_general", "stablehlo.pad",
                                        "stablehlo.reshape",     "stablehlo.select"};
    for (size_t i = 0; i < HLO_COUNT_OF(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

struct ImportRepeats *import_repeats_new(HloArena *arena) {
    return HLO_ARENA_NEW(arena, struct ImportRepeats, 1);
}
