// SPDX-License-Identifier: Apache-2.0
// Matching donors with results, by a map from what an array needs of memory to the results that need it.
#include "compile/donors.h"

#include <assert.h>

// ---- what an array needs

// Whether an array has the layout that the machine would choose. Arrays without a layout have it.
static bool has_default_layout(HloArena *arena, const CompileLayouts *layouts, const HloShape *shape) {
    if (!shape->layout) return true;
    const HloShape *chosen = shape;
    if (layouts->machine) {
        HloLayout *layout =
            hlo_arena_copy(arena, layouts->machine(layouts->context, arena, shape, NULL), sizeof(HloLayout));
        layout->memory_space = hlo_shape_memory_space(shape);
        chosen = hlo_shape_with_layout(arena, shape, layout);
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        const int64_t wanted = layouts->machine ? chosen->layout->minor_to_major.items[i] : shape->rank - 1 - i;
        if (shape->layout->minor_to_major.count != shape->rank || shape->layout->minor_to_major.items[i] != wanted)
            return false;
    }
    return true;
}

// What memory must provide for an array: a number of bytes in one space, and an order of elements. Arrays with equal
// needs can share memory. `layout` is NULL for the machine's own order, which arrays of different shape share.
typedef struct Need {
    int64_t bytes, space;
    const HloShape *layout;
} Need;

static Need need_of(HloArena *arena, const CompileLayouts *layouts, const HloShape *shape) {
    Need need = {hlo_shape_is_array(shape) ? hlo_shape_bytes(shape) : 0, hlo_shape_memory_space(shape), NULL};
    if (hlo_shape_is_dynamic(shape)) need.layout = shape;  // sizes travel with the elements
    if (hlo_shape_is_array(shape) && !has_default_layout(arena, layouts, shape)) need.layout = shape;
    return need;
}

static uint64_t hash_of(const Need *need) {
    const uint64_t size = hlo_hash_mix((uint64_t)need->bytes, (uint64_t)need->space);
    return need->layout ? hlo_hash_mix(size, hlo_shape_hash(need->layout)) : size;
}

static bool equal_needs(const Need *a, const Need *b) {
    if (a->bytes != b->bytes || a->space != b->space || !a->layout != !b->layout) return false;
    return !a->layout || hlo_shape_equal(a->layout, b->layout, HLO_COMPARE_ALL);
}

// ---- matching

typedef struct Matching {
    HloArena *arena;
    const HloModule *module;
    const CompileLayouts *layouts;
    const HloShape *results;  // with the entry's layouts
    Need *needs;              // by result
    bool *taken;              // by result: an argument's memory has been given to it
    HloIntMap first;          // hash of a need -> the first result that may not be taken yet
    int64_t *next;            // by result: the next one of the same hash, or -1
    HloAlias *aliases;
    int64_t count;
} Matching;

// The shape of parameter `number` in the layout of the entry; NULL if there is none.
static const HloShape *parameter_shape(const HloModule *module, int64_t number) {
    if (number < 0 || number >= module->entry->parameters.count) return NULL;
    if (module->entry_parameter_layouts && number < module->entry_parameter_layout_count)
        return module->entry_parameter_layouts[number];
    return module->entry->parameters.items[number]->shape;
}

// The part of a shape at this index; NULL if there is none or it is a tuple.
static const HloShape *leaf_at(const HloShape *shape, HloInts index) {
    const HloShape *part = shape ? hlo_shape_at(shape, index) : NULL;
    return part && !hlo_shape_is_tuple(part) ? part : NULL;
}

// From the last result to the first, so that each list begins with its first result.
static void note_results(Matching *matching) {
    const int64_t count = hlo_shape_leaf_count(matching->results);
    matching->needs = HLO_ARENA_NEW(matching->arena, Need, count + 1);
    matching->taken = HLO_ARENA_NEW(matching->arena, bool, count + 1);
    matching->next = HLO_ARENA_NEW(matching->arena, int64_t, count + 1);
    for (int64_t i = count; i-- > 0;) {
        matching->needs[i] = need_of(matching->arena, matching->layouts, hlo_shape_leaf(matching->results, i));
        const uint64_t hash = hash_of(&matching->needs[i]);
        const int64_t *after = hlo_int_map_find(&matching->first, hash);
        matching->next[i] = after ? *after : -1;
        hlo_int_map_set(matching->arena, &matching->first, hash, i);
    }
}

// The first free result with the same needs as the donor, or -1. Removes it from its list, so that no result is matched
// twice.
static int64_t take_result(Matching *matching, const HloShape *donor) {
    const Need need = need_of(matching->arena, matching->layouts, donor);
    int64_t *first = hlo_int_map_find(&matching->first, hash_of(&need));
    if (!first) return -1;
    while (*first >= 0 && matching->taken[*first]) *first = matching->next[*first];
    if (*first < 0 || !equal_needs(&need, &matching->needs[*first])) return -1;
    matching->taken[*first] = true;
    return *first;
}

// Aliases name their result. Their sizes were compared by the verifier.
static HloStatus keep_alias(Matching *matching, const HloAlias *alias) {
    HLO_FAIL_IF(!leaf_at(parameter_shape(matching->module, alias->operand), alias->operand_index) ||
                    !leaf_at(matching->results, alias->output_index),
                HLO_INVALID_ARGUMENT, "input_output_alias names a parameter or result that does not exist");
    matching->taken[hlo_shape_leaf_number(matching->results, alias->output_index)] = true;
    matching->aliases[matching->count++] = *alias;
    return HLO_SUCCESS;
}

// The index of a leaf within its tuple. O(depth * width).
static HloInts index_of_leaf(HloArena *arena, const HloShape *shape, int64_t leaf) {
    HloInt64Vector index = {0};
    while (hlo_shape_is_tuple(shape)) {
        int32_t element = 0;
        for (int64_t leaves; leaf >= (leaves = hlo_shape_leaf_count(shape->elements[element])); element++)
            leaf -= leaves;
        hlo_vector_push(arena, &index, (int64_t)element);
        shape = shape->elements[element];
    }
    return (HloInts){index.items, index.count};
}

static HloStatus match_donor(Matching *matching, const HloDonor *donor) {
    const HloShape *given = leaf_at(parameter_shape(matching->module, donor->parameter), donor->index);
    HLO_FAIL_IF(!given, HLO_INVALID_ARGUMENT, "buffer_donor names a parameter that does not exist");
    const int64_t result = take_result(matching, given);
    if (result < 0) return HLO_SUCCESS;
    matching->aliases[matching->count++] =
        (HloAlias){.output_index = index_of_leaf(matching->arena, matching->results, result),
                   .operand = donor->parameter,
                   .operand_index = donor->index};
    return HLO_SUCCESS;
}

HloStatus compile_match_donors(HloArena *arena, const HloModule *module, const CompileLayouts *layouts,
                               HloAliases *aliases) {
    assert(arena && module->entry && layouts && aliases);
    *aliases = module->aliases;
    if (module->donor_count == 0 && module->aliases.count == 0) return HLO_SUCCESS;
    Matching matching = {.arena = arena, .module = module, .layouts = layouts};
    matching.results = module->entry_result_layout ? module->entry_result_layout : module->entry->root->shape;
    matching.aliases = HLO_ARENA_NEW(arena, HloAlias, module->aliases.count + module->donor_count);
    note_results(&matching);
    for (int64_t i = 0; i < module->aliases.count; i++) HLO_TRY(keep_alias(&matching, &module->aliases.items[i]));
    for (int64_t i = 0; i < module->donor_count; i++) HLO_TRY(match_donor(&matching, &module->donors[i]));
    *aliases = (HloAliases){matching.aliases, matching.count};
    return HLO_SUCCESS;
}
