// SPDX-License-Identifier: Apache-2.0
#include "hlo/stablehlo/mosaic/windows.h"

#include <assert.h>
#include <string.h>

enum {
    MOST_INDICES = 16,      // of a block
    MOST_POINTS = 1 << 14,  // of the grid that are walked for a window
    // Points, scalars and operations of all windows together: a bound on the time that hostile input takes.
    MOST_STEPS = 1 << 25,
};

const MosaicSlot *mosaic_addressed_by(MosaicScalars *scalars, const MlirValue *address, int64_t *factor) {
    assert(scalars && factor);
    *factor = 1;
    const int32_t start = mosaic_slot(scalars, address);
    const MosaicSlot *items = scalars->slots.items, *slot = &items[start];
    for (int i = 0; i < MOSAIC_DEEPEST_SCALAR; i++) {
        const bool has_second =
            slot->rule == MOSAIC_MULTIPLY || slot->rule == MOSAIC_ADD || slot->rule == MOSAIC_SUBTRACT;
        if (slot->rule == MOSAIC_LOAD) return slot->literal || slot->table_length <= 1 ? NULL : slot;
        if (!has_second && slot->rule != MOSAIC_COPY) return NULL;
        const MosaicSlot *first = &items[slot->operands[0]], *second = &items[slot->operands[has_second ? 1 : 0]];
        const bool swap = has_second && first->rule == MOSAIC_CONSTANT;
        const MosaicSlot *constant = swap ? first : second;
        if (slot->rule == MOSAIC_MULTIPLY && (constant->rule != MOSAIC_CONSTANT || constant->constant <= 0 ||
                                              __builtin_mul_overflow(*factor, constant->constant, factor)))
            return NULL;
        slot = swap ? second : first;
    }
    return NULL;
}

// The function of this name beside the kernel; NULL if there is none.
static const MlirBlock *function_named(const MosaicGrid *grid, const char *name) {
    const MlirBlock *block = &grid->top->regions[0].blocks[0];
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirAttribute *symbol = mlir_attribute(block->operations[i], "sym_name");
        if (!symbol || symbol->kind != MLIR_STRING || strcmp(symbol->string, name) != 0) continue;
        const MlirOperation *function = block->operations[i];
        return function->region_count && function->regions[0].block_count ? &function->regions[0].blocks[0] : NULL;
    }
    return NULL;
}

// A member of a window's description.
static const MlirAttribute *member(const MlirAttribute *window, const char *name) {
    if (!window || window->kind != MLIR_DICTIONARY) return NULL;
    for (int64_t i = 0; i < window->count; i++)
        if (!strcmp(window->keys[i], name)) return window->items[i];
    return NULL;
}

// Reads the function of a window: its arguments are the point of the grid and the tables, as those of the kernel are.
static const MlirOperation *read_function(MosaicScalars *scalars, const MosaicGrid *grid, const MlirBlock *function) {
    for (int64_t i = 0; i < function->argument_count; i++) {
        const int32_t slot = mosaic_slot(scalars, function->arguments[i]);
        scalars->slots.items[slot].argument = i;
        if (i < grid->rank) mosaic_set(scalars, slot, true, 0);
    }
    for (int64_t i = 0; i < function->operation_count; i++)
        mosaic_define(scalars, function->operations[i], mosaic_plain_name(function->operations[i]));
    return function->operation_count ? function->operations[function->operation_count - 1] : NULL;
}

// A grid with too many points is walked in part: its outer axes, over which the rest repeats, are shortened. Returns
// how many runs of the whole each run of the part represents.
static double shorten(const MosaicGrid *grid, int64_t *bounds) {
    double weight = grid->weight;
    for (int64_t i = grid->rank - 1, points = 1; i >= 0; i--) {
        const int64_t room = MOST_POINTS / points;
        bounds[i] = grid->bounds[i] <= room ? grid->bounds[i] : room;
        weight *= bounds[i] ? (double)grid->bounds[i] / (double)bounds[i] : 0;
        points *= bounds[i] > 0 ? bounds[i] : 1;
    }
    return weight;
}

// The share of a block along dimension `i` that is inside of the array: less than 1 at an edge that blocks do not fill.
static double share_inside(const HloShape *whole, HloInts block, int64_t i, int64_t index) {
    if (!whole || i >= whole->rank || i >= block.count || block.items[i] <= 0) return 1;
    const double left = (double)whole->dims[i] - (double)index * (double)block.items[i];
    return left <= 0 || left >= (double)block.items[i] ? 1 : left / (double)block.items[i];
}

// Walks the grid, the last axis fastest, and counts the blocks that are moved, those at an edge in part; -1 if a number
// of a block is not known.
static double count_changes(MosaicScalars *scalars, MosaicGrid *grid, const MlirBlock *function,
                            const MlirOperation *last, const HloShape *whole, HloInts block) {
    int64_t bounds[MOSAIC_MOST_AXES], point[MOSAIC_MOST_AXES] = {0}, before[MOST_INDICES] = {0};
    const double weight = shorten(grid, bounds);
    double changes = 0;
    for (bool more = weight > 0, is_first = true; more; is_first = false) {
        bool is_other = is_first;
        if (++grid->steps + scalars->steps > MOST_STEPS) return -1;
        double inside = 1;
        for (int64_t i = 0; i < last->operand_count; i++) {
            int64_t index;
            if (!mosaic_scalar_of(scalars, last->operands[i], &index)) return -1;
            is_other = is_other || index != before[i];
            before[i] = index;
            inside *= share_inside(whole, block, i, index);
        }
        changes += is_other ? inside : 0;
        more = false;
        for (int64_t i = grid->rank - 1; i >= 0 && !more; i--) {
            more = ++point[i] < bounds[i];
            if (!more) point[i] = 0;
            mosaic_set(scalars, mosaic_slot(scalars, function->arguments[i]), true, point[i]);
        }
    }
    return weight * changes;
}

// The blocks of a window that move, with scalars of their own for the function that maps points to them.
static double count_window(HloArena *arena, MosaicGrid *grid, int64_t argument, const MlirBlock *function,
                           HloInts block) {
    MosaicScalars scalars = {.arena = arena,
                             .operands = grid->of_kernel->operands,
                             .operand_count = grid->of_kernel->operand_count,
                             .shapes = grid->of_kernel->shapes,
                             .shape_count = grid->of_kernel->shape_count,
                             .first_operand = grid->of_kernel->first_operand};
    grid->steps += function->operation_count;
    if (grid->steps > MOST_STEPS) return -1;
    const MlirOperation *last = read_function(&scalars, grid, function);
    if (!last || last->operand_count > MOST_INDICES) return -1;
    const int64_t operand = argument + scalars.first_operand;
    const HloShape *whole = operand >= 0 && operand < scalars.shape_count ? scalars.shapes[operand] : NULL;
    if (whole && !hlo_shape_is_array(whole)) whole = NULL;
    for (int64_t i = 0; i < last->operand_count; i++) {
        int64_t factor;
        const MosaicSlot *load = mosaic_addressed_by(&scalars, last->operands[i], &factor);
        const int64_t size = load && i < block.count ? block.items[i] : 0;
        if (size > 0 && whole && i < whole->rank && whole->dims[i] > 0)
            scalars.slots.items[load->operands[0]].table_values = (whole->dims[i] - 1) / size + 1;
    }
    const double changes = count_changes(&scalars, grid, function, last, whole, block);
    grid->steps += scalars.steps;
    return changes;
}

double mosaic_window_changes(HloArena *arena, MosaicGrid *grid, int64_t argument) {
    assert(arena && grid && argument >= grid->rank && grid->rank <= MOSAIC_MOST_AXES);
    const MlirAttribute *windows = mlir_attribute(grid->kernel, "window_params");
    const MlirAttribute *tables = mlir_attribute(grid->kernel, "scalar_prefetch");
    const int64_t table_count = tables && tables->kind == MLIR_INTEGER ? tables->integer : 0;
    if (!windows || windows->kind != MLIR_ARRAY || table_count < 0) return 0;
    const int64_t number = argument - grid->rank - table_count;
    if (number < 0 || number >= windows->count) return 0;
    const MlirAttribute *name = member(windows->items[number], "transform_indices");
    const MlirAttribute *block = member(windows->items[number], "window_bounds");
    if (!name || name->kind != MLIR_SYMBOL || !block || block->kind != MLIR_INTS) return 0;
    const MlirBlock *function = function_named(grid, name->string);
    if (!function || function->argument_count < grid->rank) return -1;
    const HloArenaMark mark = hlo_arena_mark(arena);
    const double changes = count_window(arena, grid, argument, function, block->ints);
    hlo_arena_reset(arena, mark);
    return changes;
}
