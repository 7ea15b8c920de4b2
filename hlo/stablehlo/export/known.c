// SPDX-License-Identifier: Apache-2.0
// Auxiliary operations of instructions, each once per block. They are found by a key of all their properties; a block's
// operations get their keys on the first look-up, so that blocks without look-ups cost nothing.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/export/export.h"

// An operation's name, the addresses of its type and operands, and a constant's numbers, one after the other.
typedef HLO_VECTOR(char) Key;

static void add_part(HloArena *arena, Key *key, const void *part, int64_t length) {
    if (length == 0) return;
    hlo_vector_reserve(arena, key, key->count + length);
    memcpy(key->items + key->count, part, (size_t)length);
    key->count += length;
}

static Key make_key(HloArena *arena, const char *name, MlirValue *const *operands, int64_t operand_count,
                    const MlirType *type, const HloLiteral *value) {
    Key key = {0};
    add_part(arena, &key, name, (int64_t)strlen(name) + 1);
    add_part(arena, &key, &type, (int64_t)sizeof(type));
    add_part(arena, &key, operands, operand_count * (int64_t)sizeof(*operands));
    if (value) add_part(arena, &key, value->data, hlo_shape_elements(value->shape) * (int64_t)sizeof(int64_t));
    return key;
}

static bool is_list(const HloShape *shape) {
    return shape && shape->type == HLO_S64 && shape->rank == 1;
}

// Adds the operations that were appended since the last look-up to the map.
static void note_operations(HloArena *arena, ExportBlock *block) {
    for (; block->noted < block->operations.count; block->noted++) {
        MlirOperation *operation = block->operations.items[block->noted];
        const bool is_constant = strcmp(operation->name, "stablehlo.constant") == 0;
        const bool is_kept = is_constant || strcmp(operation->name, "stablehlo.reshape") == 0 ||
                             strcmp(operation->name, "stablehlo.concatenate") == 0;
        if (!is_kept) continue;
        const MlirType *type = operation->results[0]->type;
        if (is_constant && !is_list(type->shape)) continue;
        const MlirAttribute *value = is_constant ? mlir_attribute(operation, "value") : NULL;
        const Key key = make_key(arena, operation->name, operation->operands, operation->operand_count, type,
                                 value ? value->literal : NULL);
        hlo_string_map_add(arena, &block->known, key.items, (size_t)key.count, operation);
    }
}

MlirOperation *export_known(ExportPlace *place, const char *name, MlirValue *const *operands, int64_t operand_count,
                            const MlirType *type, const HloLiteral *value) {
    assert(type && (!value || is_list(value->shape)));
    HloArena *arena = place->exporter->arena;
    note_operations(arena, place->block);
    const Key key = make_key(arena, name, operands, operand_count, type, value);
    MlirOperation *known = hlo_string_map_get(&place->block->known, key.items, (size_t)key.count);
    if (known) return known;
    known = export_append(place, name, operands, operand_count, &type, 1);
    if (value) {
        const MlirAttribute attribute = {.kind = MLIR_TENSOR, .literal = value, .type = type};
        export_attribute(place, known, "value", mlir_new_attribute(arena, attribute));
    }
    return known;
}
