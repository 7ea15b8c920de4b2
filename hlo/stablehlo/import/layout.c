// SPDX-License-Identifier: Apache-2.0
// Imports the layouts of the arguments and results of @main: mhlo.memory_kind and mhlo.layout_mode become the module's
// entry layouts; the layouts left open are recorded for code that knows the machine. JAX gives layouts in attributes of
// @main's arguments and results; XLA, when it writes a module as StableHLO, in attributes of the module. Both become
// entry_computation_layout. Layouts are orders of dimensions, minor to major, tiles included; memory kinds are numbers
// of memory spaces (shape.h).
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"

// Layouts are shared between shapes, so the shape gets a copy of its layout.
static const HloShape *in_space(HloArena *arena, const HloShape *shape, int64_t space) {
    assert(shape && space >= 0);
    if (!hlo_shape_is_array(shape)) return shape;
    shape = hlo_shape_with_default_layout(arena, shape);
    HloLayout *layout = hlo_arena_copy(arena, shape->layout, sizeof(*layout));
    layout->memory_space = space;
    return hlo_shape_with_layout(arena, shape, layout);
}

HloStatus import_placement(const ImportPlace *place, const char *kind, const HloShape **shape) {
    const int64_t space = mlir_memory_space(kind);
    if (space == HLO_ABSENT) return import_error(place, HLO_UNIMPLEMENTED, "memory kind \"%s\"", kind);
    *shape = in_space(import_arena(place), *shape, space);
    return HLO_SUCCESS;
}

// A shape with its dimensions in this order.
static const HloShape *with_order(HloArena *arena, const HloShape *shape, const int64_t *minor_to_major) {
    const HloShape *plain = hlo_shape_with_default_layout(arena, hlo_shape_without_layout(arena, shape));
    HloLayout *layout = hlo_arena_copy(arena, plain->layout, sizeof(*layout));
    layout->minor_to_major = hlo_ints(arena, minor_to_major, shape->rank);
    return hlo_shape_with_layout(arena, plain, layout);
}

// The order of `rank` dimensions that a tensor lists, in the module's arena; NULL if it is not a valid order.
static const int64_t *order_of(HloArena *arena, const MlirAttribute *attribute, int32_t rank) {
    const HloLiteral *order = attribute && attribute->kind == MLIR_TENSOR ? attribute->literal : NULL;
    if (!order || !hlo_type_is_integer(order->shape->type) || hlo_shape_elements(order->shape) != rank) return NULL;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank + 1);
    bool *seen = HLO_ARENA_NEW(arena, bool, rank + 1);
    for (int32_t i = 0; i < rank; i++) {
        dims[i] = hlo_literal_get_int64(order, i);
        if (dims[i] < 0 || dims[i] >= rank || seen[dims[i]]) return NULL;
        seen[dims[i]] = true;
    }
    return dims;
}

HloStatus import_result_layout(const ImportPlace *place, const HloShape **shape) {
    const MlirAttribute *list = mlir_attribute(place->operation, "result_layouts");
    if (!list || list->kind != MLIR_ARRAY || list->count != 1 || !hlo_shape_is_array(*shape)) return HLO_SUCCESS;
    const int64_t *dims = order_of(import_arena(place), list->items[0], (*shape)->rank);
    if (!dims) return import_error(place, HLO_INVALID_ARGUMENT, "a layout that is not a permutation of the dimensions");
    *shape = with_order(import_arena(place), *shape, dims);
    return HLO_SUCCESS;
}

// Parses a layout in text, "{0,1:T(8,128)}", and sets it on a shape.
static HloStatus parse_layout(HloArena *arena, const char *mode, const HloShape **shape) {
    assert(mode && shape && *shape);
    if ((*shape)->rank == 0) return HLO_SUCCESS;  // "{}": there is nothing to order
    HloText text = {0};
    hlo_shape_print(&text, *shape, false);
    hlo_text_string(&text, mode);
    const size_t length = text.length;
    return hlo_parse_shape(arena, hlo_text_to_arena(arena, &text), length, shape);
}

// The layout mode of an argument or result: "default", "auto" or a layout in text.
static const char *layout_mode(const MlirAttribute *entry) {
    const MlirAttribute *mode = entry ? mlir_entry(entry, "mhlo.layout_mode") : NULL;
    return mode && mode->string ? mode->string : "default";
}

// Applies the attributes of an argument or result to its shape. Layouts that are left open stay row-major.
static HloStatus apply_entry(HloArena *arena, const MlirAttribute *entry, const HloShape **shape) {
    if (!entry || !hlo_shape_is_array(*shape)) return HLO_SUCCESS;
    const MlirAttribute *kind = mlir_entry(entry, "mhlo.memory_kind");
    const char *mode = layout_mode(entry);
    if (strcmp(mode, "auto") != 0 && strcmp(mode, "default") != 0) {
        HloStatus status = parse_layout(arena, mode, shape);
        if (status) {  // without its position, which is one within the text of the mode
            HloStatus told =
                hlo_error(hlo_status_code(status), "mhlo.layout_mode %s: %s", mode, hlo_status_message(status));
            hlo_status_free(status);
            return told;
        }
    }
    const int64_t space = kind && kind->string ? mlir_memory_space(kind->string) : HLO_SPACE_DEVICE;
    HLO_FAIL_IF(space == HLO_ABSENT, HLO_UNIMPLEMENTED, "memory kind \"%s\"", kind->string);
    if (space != HLO_SPACE_DEVICE) *shape = in_space(arena, *shape, space);
    return HLO_SUCCESS;
}

// NULL if the list is missing or too short, which means "default".
static const MlirAttribute *entry_of(const MlirAttribute *list, int64_t index) {
    return list && list->kind == MLIR_ARRAY && index < list->count ? list->items[index] : NULL;
}

static const HloShape *default_layouts(HloArena *arena, const HloShape *shape) {
    return hlo_shape_with_default_layout(arena, hlo_shape_without_layout(arena, shape));
}

// Records in the module's frontend attribute `key` which layouts are left open, "default;{0,1};auto" as XLA writes it;
// nothing if all are the default.
static HloStatus note_modes(HloModule *module, const char *key, const MlirAttribute *list, int64_t count) {
    bool plain = true;
    for (int64_t i = 0; i < count; i++) plain &= strcmp(layout_mode(entry_of(list, i)), "default") == 0;
    if (plain) return HLO_SUCCESS;
    HloText text = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i) hlo_text_char(&text, ';');
        hlo_text_string(&text, layout_mode(entry_of(list, i)));
    }
    hlo_module_set_frontend_attribute(module, key, hlo_text_to_arena(module->arena, &text));
    return HLO_SUCCESS;
}

// A result that is a tuple by its root's opcode has an entry for each element.
HloStatus import_entry_layouts(Importer *importer, const MlirOperation *function) {
    HloModule *module = importer->module;
    HloArena *arena = module->arena;
    const MlirAttribute *arguments = mlir_attribute(function, "arg_attrs");
    const MlirAttribute *results = mlir_attribute(function, "res_attrs");
    const int64_t count = module->entry->parameters.count;
    const HloShape **parameters = HLO_ARENA_NEW(arena, const HloShape *, count + 1);
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *parameter = module->entry->parameters.items[i];
        parameters[i] = default_layouts(arena, parameter->shape);
        HLO_TRY(apply_entry(arena, entry_of(arguments, i), &parameters[i]));
        parameter->shape = parameters[i];
    }
    module->entry_parameter_layouts = parameters;
    module->entry_parameter_layout_count = count;
    const HloInstruction *root = module->entry->root;
    const HloShape *result = default_layouts(arena, root->shape);
    const bool tuple = hlo_is(root, HLO_OP_TUPLE);
    if (!tuple) {
        if (!hlo_shape_is_tuple(result)) HLO_TRY(apply_entry(arena, entry_of(results, 0), &result));
    } else {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, root->operand_count);
        for (int32_t i = 0; i < root->operand_count; i++) {
            elements[i] = result->elements[i];
            HLO_TRY(apply_entry(arena, entry_of(results, i), &elements[i]));
        }
        result = hlo_shape_tuple(arena, elements, root->operand_count);
    }
    module->entry_result_layout = result;
    HLO_TRY(note_modes(module, HLO_ARGUMENT_LAYOUT_MODES, arguments, count));
    return note_modes(module, HLO_RESULT_LAYOUT_MODES, results, tuple ? root->operand_count : 1);
}

// One tensor of sizes per tile, as XLA writes them.
static HloStatus read_tiles(HloArena *arena, const MlirAttribute *list, HloLayout *layout) {
    assert(list && layout);
    HLO_FAIL_IF(list->kind != MLIR_ARRAY, HLO_INVALID_ARGUMENT, "the tiles of an argument or result are not a list");
    HloInts *tiles = HLO_ARENA_NEW(arena, HloInts, list->count);
    for (int64_t t = 0; t < list->count; t++) {
        const HloLiteral *sizes = list->items[t]->kind == MLIR_TENSOR ? list->items[t]->literal : NULL;
        HLO_FAIL_IF(!sizes || !hlo_type_is_integer(sizes->shape->type), HLO_INVALID_ARGUMENT,
                    "a tile of an argument or result is not a list of sizes");
        const int64_t count = hlo_shape_elements(sizes->shape);
        int64_t *numbers = HLO_ARENA_NEW(arena, int64_t, count);
        for (int64_t i = 0; i < count; i++) numbers[i] = hlo_literal_get_int64(sizes, i);
        tiles[t] = (HloInts){numbers, count};
    }
    layout->tiles = tiles;
    layout->tile_count = list->count;
    return HLO_SUCCESS;
}

// Sets the orders and tiles on shapes that have none of their own.
static HloStatus lay_out(HloArena *arena, const MlirAttribute *orders, const MlirAttribute *tiles,
                         const HloShape **shapes, int64_t count) {
    if (!orders) return HLO_SUCCESS;
    const bool fits = orders->kind == MLIR_ARRAY && orders->count == count &&
                      (!tiles || (tiles->kind == MLIR_ARRAY && tiles->count == count));
    HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT, "the number of layouts differs from the number of arguments or results");
    for (int64_t i = 0; i < count; i++) {
        if (!hlo_shape_is_array(shapes[i])) continue;
        const int64_t *dims = order_of(arena, orders->items[i], shapes[i]->rank);
        HLO_FAIL_IF(!dims, HLO_INVALID_ARGUMENT, "layout %lld of the module is not a permutation of the dimensions",
                    (long long)i);
        const HloShape *plain = default_layouts(arena, shapes[i]);
        if (shapes[i]->layout && !hlo_shape_equal(shapes[i], plain, HLO_COMPARE_ALL)) continue;
        shapes[i] = with_order(arena, shapes[i], dims);
        if (!tiles || (tiles->items[i]->kind == MLIR_ARRAY && !tiles->items[i]->count)) continue;
        HloLayout *layout = hlo_arena_copy(arena, shapes[i]->layout, sizeof(*layout));
        HLO_TRY(read_tiles(arena, tiles->items[i], layout));
        shapes[i] = hlo_shape_with_layout(arena, shapes[i], layout);
    }
    return HLO_SUCCESS;
}

// The order matters: layouts from the function's own attributes stay (lay_out() skips these shapes).
HloStatus import_module_layouts(Importer *importer, const MlirOperation *top) {
    HloModule *module = importer->module;
    const int64_t count = module->entry_parameter_layout_count;
    assert(module->entry_result_layout && count == module->entry->parameters.count); /* import_entry_layouts() */
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, count + 1);
    for (int64_t i = 0; i < count; i++) shapes[i] = module->entry_parameter_layouts[i];
    HLO_TRY(lay_out(module->arena, mlir_attribute(top, MLIR_ARGUMENT_LAYOUTS), mlir_attribute(top, MLIR_ARGUMENT_TILES),
                    shapes, count));
    for (int64_t i = 0; i < count; i++) module->entry->parameters.items[i]->shape = shapes[i];
    module->entry_parameter_layouts = shapes;
    const HloShape *result = module->entry_result_layout;
    const bool tuple = hlo_shape_is_tuple(result);
    const int64_t results = tuple ? result->element_count : 1;
    const HloShape **leaves = HLO_ARENA_NEW(module->arena, const HloShape *, results + 1);
    for (int64_t i = 0; i < results; i++) leaves[i] = tuple ? result->elements[i] : result;
    HLO_TRY(lay_out(module->arena, mlir_attribute(top, MLIR_RESULT_LAYOUTS), mlir_attribute(top, MLIR_RESULT_TILES),
                    leaves, results));
    module->entry_result_layout = tuple ? hlo_shape_tuple(module->arena, leaves, results) : leaves[0];
    return HLO_SUCCESS;
}
