// SPDX-License-Identifier: Apache-2.0
// The program of one device keeps the shardings of its parameters, and their whole sizes in the frontend attribute
// meshlo.global_dims (spmd_partitioner/spmd.h). Where that is missing, as in a compiler's dump, a whole size is the
// local one times the number of parts.
#include "emulator/report/parameters.h"

#include <assert.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/vector.h"

// The sizes of the tiles of a sharding along the dimensions of an array of this rank; none if it has no tiles.
static HloInts tiles_of(const HloSharding *sharding, int64_t rank) {
    const bool has_tiles = sharding && sharding->kind == HLO_SHARDING_TILED && sharding->tile_dims.count >= rank;
    return has_tiles ? (HloInts){sharding->tile_dims.items, rank} : (HloInts){0};
}

static const HloShape *whole_shape(HloArena *arena, const HloInstruction *parameter, const HloShape *local) {
    const char *text = hlo_instruction_frontend_attribute(parameter, HLO_GLOBAL_DIMS_KEY);
    const int64_t *dims = hlo_global_dims(arena, text, 0, local->rank);
    const HloInts tiles = tiles_of(parameter->sharding, local->rank);
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, local->rank + 1);
    for (int64_t d = 0; d < local->rank; d++)
        sizes[d] = dims ? dims[d] : local->dims[d] * (tiles.count ? tiles.items[d] : 1);
    return hlo_shape_array(arena, local->type, sizes, local->rank);
}

void emu_parameters_find(EmuReport *report, const HloModule *module) {
    const HloInstructionVector *parameters = &module->entry->parameters;
    HLO_VECTOR(EmuParameter) found = {0};
    for (int64_t p = 0; p < parameters->count; p++) {
        const HloInstruction *parameter = parameters->items[p];
        const char *scope = parameter->metadata ? parameter->metadata->op_name : NULL;
        const char *name = scope && *scope ? scope : parameter->name;
        for (int64_t leaf = 0; leaf < hlo_shape_leaf_count(parameter->shape); leaf++) {
            const HloShape *local = hlo_shape_leaf(parameter->shape, leaf);
            if (!hlo_shape_is_array(local)) continue;
            const bool is_tuple = parameter->shape->type == HLO_TUPLE;
            const EmuParameter one = {
                .name = is_tuple ? hlo_arena_format(report->arena, "%s[%lld]", name, (long long)leaf)
                                 : hlo_arena_text(report->arena, name),
                .shape = is_tuple ? hlo_shape_copy(report->arena, local) : whole_shape(report->arena, parameter, local),
                .local_shape = hlo_shape_copy(report->arena, local),
                .sharding = is_tuple ? NULL : hlo_sharding_copy(report->arena, parameter->sharding)};
            hlo_vector_push(report->arena, &found, one);
        }
    }
    report->parameters = found.items;
    report->parameter_count = found.count;
}

EmuParts emu_parameter_parts(HloArena *arena, const EmuParameter *parameter, int64_t count) {
    assert(count > 0);
    const HloSharding *sharding = parameter->sharding;
    EmuParts parts = {.tiles = tiles_of(sharding, parameter->local_shape->rank), .count = count};
    int64_t *holders = HLO_ARENA_NEW(arena, int64_t, count);
    parts.holders = holders;
    if (sharding && sharding->kind == HLO_SHARDING_MAXIMAL)
        for (int64_t p = 0; p < count; p++) holders[p] = p == sharding->maximal_device ? 0 : -1;
    if (!parts.tiles.count) return parts;
    const int64_t all = hlo_sharding_device_count(sharding), tiles = hlo_product(parts.tiles.items, parts.tiles.count);
    const bool lists_all = sharding->iota.dims.count || sharding->devices.count == all;
    const int64_t *devices = hlo_sharding_devices(arena, sharding);
    for (int64_t p = 0; p < count; p++) holders[p] = -1;
    for (int64_t i = 0; lists_all && i < all; i++)
        if (devices[i] >= 0 && devices[i] < count) holders[devices[i]] = i / (all / tiles);
    return parts;
}
