// SPDX-License-Identifier: Apache-2.0
// Exports layouts: lists of orders of dimensions, and the layouts of the entry's arguments and results, in the
// attributes that XLA writes.
#include <assert.h>

#include "hlo/stablehlo/export/export.h"

// dense<[...]> : tensor<?xindex>
static const MlirAttribute *index_tensor(const ExportPlace *place, const int64_t *numbers, int64_t count) {
    HloArena *arena = place->exporter->arena;
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_array(arena, HLO_S64, &count, 1));
    for (int64_t d = 0; d < count; d++) hlo_literal_set_int64(literal, d, numbers[d]);
    return mlir_new_attribute(arena,
                              (MlirAttribute){.kind = MLIR_TENSOR,
                                              .literal = literal,
                                              .type = mlir_new_type(arena, (MlirType){.kind = MLIR_TYPE_INDEX})});
}

const MlirAttribute *export_layouts(const ExportPlace *place, const HloShape *const *shapes, int64_t shape_count) {
    assert(shape_count >= 0);
    HloArena *arena = place->exporter->arena;
    HLO_VECTOR(const MlirAttribute *) list = {0};
    for (int64_t s = 0; s < shape_count; s++) {
        const int64_t leaves = hlo_shape_leaf_count(shapes[s]);
        for (int64_t i = 0; i < leaves; i++) {
            const HloShape *leaf = hlo_shape_leaf(shapes[s], i);
            if (!leaf->layout && hlo_shape_is_array(leaf)) leaf = hlo_shape_with_default_layout(arena, leaf);
            const HloInts order = leaf->layout ? leaf->layout->minor_to_major : (HloInts){0};
            hlo_vector_push(arena, &list, index_tensor(place, order.items, order.count));
        }
    }
    return export_array(place, list.items, list.count);
}

// A list of tiles for every leaf.
static const MlirAttribute *tile_lists(const ExportPlace *place, const HloShape *const *shapes, int64_t shape_count) {
    HloArena *arena = place->exporter->arena;
    HLO_VECTOR(const MlirAttribute *) list = {0};
    for (int64_t s = 0; s < shape_count; s++) {
        const int64_t leaves = hlo_shape_leaf_count(shapes[s]);
        for (int64_t i = 0; i < leaves; i++) {
            const HloLayout *layout = hlo_shape_leaf(shapes[s], i)->layout;
            const int64_t count = layout ? layout->tile_count : 0;
            const MlirAttribute **tiles = HLO_ARENA_NEW(arena, const MlirAttribute *, count);
            for (int64_t t = 0; t < count; t++)
                tiles[t] = index_tensor(place, layout->tiles[t].items, layout->tiles[t].count);
            hlo_vector_push(arena, &list, export_array(place, tiles, count));
        }
    }
    return export_array(place, list.items, list.count);
}

const char *export_placement(const HloInstruction *instruction) {
    if (!hlo_is(instruction, HLO_OP_COPY) || !hlo_shape_is_array(instruction->shape)) return NULL;
    const int64_t from = hlo_shape_memory_space(instruction->operands[0]->shape);
    const int64_t to = hlo_shape_memory_space(instruction->shape);
    // A program says so also where an array is in that memory already.
    const bool is_named = hlo_instruction_frontend_attribute(instruction, MLIR_BUFFER_PLACEMENT) != NULL;
    return from != to || is_named ? mlir_memory_kind(to) : NULL;
}

// True if all arrays are row-major without tiles, which needs no attribute.
static bool all_plain(const HloShape *const *shapes, int64_t shape_count) {
    for (int64_t s = 0; s < shape_count; s++) {
        const int64_t leaves = hlo_shape_leaf_count(shapes[s]);
        for (int64_t i = 0; i < leaves; i++) {
            const HloLayout *layout = hlo_shape_leaf(shapes[s], i)->layout;
            if (!layout) continue;
            const HloInts order = layout->minor_to_major;
            if (layout->tile_count) return false;
            for (int64_t d = 0; d < order.count; d++)
                if (order.items[d] != order.count - 1 - d) return false;
        }
    }
    return true;
}

void export_entry_layouts(const ExportPlace *place, MlirOperation *module_operation) {
    const HloModule *module = place->exporter->module;
    assert(module->entry && module->entry->root);
    const HloShape *const *arguments = module->entry_parameter_layouts;
    const int64_t count = arguments ? module->entry_parameter_layout_count : 0;
    const HloShape *result = module->entry_result_layout;
    if (all_plain(arguments, count) && (!result || all_plain(&result, 1))) return;
    if (!result) result = module->entry->root->shape;
    export_attribute(place, module_operation, MLIR_ARGUMENT_LAYOUTS, export_layouts(place, arguments, count));
    export_attribute(place, module_operation, MLIR_ARGUMENT_TILES, tile_lists(place, arguments, count));
    export_attribute(place, module_operation, MLIR_RESULT_LAYOUTS, export_layouts(place, &result, 1));
    export_attribute(place, module_operation, MLIR_RESULT_TILES, tile_lists(place, &result, 1));
}
