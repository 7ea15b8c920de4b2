// SPDX-License-Identifier: Apache-2.0
// Expands scatters of one array to loops: for each index vector, in row-major order, the window is read, combined with
// its update and written back, unless any part of it is outside. Scatters of several arrays at once stay.
//
// The order is row-major because updates of the same element are combined one after the other: for combiners that do
// not commute, the evaluator's result depends on the order, and this agrees with it bit for bit. A window that is
// partly outside is dropped as a whole. It is written back in either case, with the old values if the new ones are
// dropped: a branch in the loop would cost more than copying a window.
#include <assert.h>

#include "hlo/pass/expand/indexed_loop.h"

typedef struct ScatterStep {
    const HloInstruction *scatter;
    HloIndexMatrix indices;
    HloInts window;  // sizes in the operand
} ScatterStep;

// True where start >= 0 and start + size <= limit for all dimensions that have a column.
static HloInstruction *is_inside(HloInstruction *row, const ScatterStep *step, HloInstruction *const *starts) {
    HloInstruction *inside = hlo_pass_integer(row, HLO_PRED, 1);
    const HloShape *operand = step->scatter->operands[0]->shape;
    for (int64_t i = 0; i < step->indices.to_operand.count; i++) {
        int64_t d = step->indices.to_operand.items[i];
        HloInstruction *zero = hlo_pass_integer(row, HLO_S64, 0);
        HloInstruction *most = hlo_pass_integer(row, HLO_S64, operand->dims[d] - step->window.items[d]);
        HloInstruction *from = hlo_pass_compare(row, starts[d], zero, HLO_ComparisonDirection_GE);
        HloInstruction *to = hlo_pass_compare(row, starts[d], most, HLO_ComparisonDirection_LE);
        inside = hlo_pass_binary(row, HLO_OP_AND, inside, hlo_pass_binary(row, HLO_OP_AND, from, to));
    }
    return inside;
}

// x[starts...] of `sizes`; dynamic-slice clamps starts, which is harmless, since the values read there are written back
// there.
static HloInstruction *read_window(HloInstruction *row, HloInstruction *x, HloInstruction *const *starts,
                                   HloInts sizes) {
    HloInstruction **operands = HLO_ARENA_NEW(row->parent->module->arena, HloInstruction *, sizes.count + 1);
    operands[0] = x;
    for (int64_t i = 0; i < sizes.count; i++) operands[i + 1] = starts[i];
    return hlo_pass_make(row, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                                 .operands = operands,
                                                 .operand_count = sizes.count + 1,
                                                 .attributes = &(HloDynamicSliceAttributes){sizes}});
}

// Row `row` of the updates (rows, window), with the sizes of the window in the operand.
static HloInstruction *read_update(HloInstruction *row, HloInstruction *updates, HloInts window) {
    HloInstruction **starts = HLO_ARENA_NEW(row->parent->module->arena, HloInstruction *, updates->shape->rank);
    int64_t *sizes = hlo_pass_ints(row, updates->shape->rank);
    HloInstruction *zero = hlo_pass_integer(row, HLO_S64, 0);
    for (int64_t i = 0; i < updates->shape->rank; i++) {
        starts[i] = i == 0 ? row : zero;
        sizes[i] = i == 0 ? 1 : updates->shape->dims[i];
    }
    return hlo_pass_reshape(row, read_window(row, updates, starts, (HloInts){sizes, updates->shape->rank}), window);
}

// Applies the combiner to whole windows.
static HloInstruction *combine(HloInstruction *row, const ScatterStep *step, HloInstruction *old,
                               HloInstruction *update) {
    HloInstruction *operands[] = {old, update};
    int64_t *all = hlo_pass_ints(row, step->window.count);
    for (int64_t i = 0; i < step->window.count; i++) all[i] = i;
    return hlo_pass_make(row, &(HloBuildRequest){.opcode = HLO_OP_MAP,
                                                 .operands = operands,
                                                 .operand_count = 2,
                                                 .attributes = &(HloDimensionsAttributes){{all, step->window.count}},
                                                 .called = step->scatter->called,
                                                 .called_count = 1});
}

// Applies one update. carried: the array, the index matrix, the updates.
static void update_row(void *context, HloInstruction *row, HloInstruction **carried) {
    const ScatterStep *step = context;
    int64_t rank = step->window.count;
    HloInstruction **operands = HLO_ARENA_NEW(row->parent->module->arena, HloInstruction *, rank + 2);
    hlo_pass_row_starts(carried[1], row, step->indices.to_operand, rank, operands + 2);
    HloInstruction *old = read_window(row, carried[0], operands + 2, step->window);
    HloInstruction *update = read_update(row, carried[2], step->window);
    HloInstruction *combined = combine(row, step, old, update);
    operands[0] = carried[0];
    operands[1] = hlo_pass_select(row, is_inside(row, step, operands + 2), combined, old);
    carried[0] = hlo_pass_make(
        row,
        &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_UPDATE_SLICE, .operands = operands, .operand_count = rank + 2});
}

// The updates as (rows, window dims): batch dimensions first.
static HloInstruction *updates_by_row(const HloInstruction *scatter, int64_t rows) {
    assert(hlo_is(scatter, HLO_OP_SCATTER) && rows >= 0);
    HloInts window = HLO_ATTRIBUTES(scatter, Scatter)->update_window_dims;
    HloInstruction *updates = scatter->operands[2];
    int64_t rank = updates->shape->rank, at = 0, count = 1;
    int64_t *permutation = hlo_pass_ints(scatter, rank), *dims = hlo_pass_ints(scatter, window.count + 1);
    for (int64_t i = 0; i < rank; i++) {
        if (!hlo_ints_contain(window, i)) permutation[at++] = i;
    }
    dims[0] = rows;
    for (int64_t i = 0; i < window.count; i++) {
        permutation[at++] = window.items[i];
        dims[count++] = updates->shape->dims[window.items[i]];
    }
    HloInstruction *ordered = hlo_pass_transpose(scatter, updates, (HloInts){permutation, rank});
    return hlo_pass_reshape(scatter, ordered, (HloInts){dims, count});
}

// Sizes of an update's window in the operand's dimensions: those that the updates lack have size one.
static HloInts window_sizes(const HloInstruction *scatter) {
    assert(hlo_is(scatter, HLO_OP_SCATTER));
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(scatter, Scatter);
    const HloShape *operand = scatter->operands[0]->shape, *updates = scatter->operands[2]->shape;
    int64_t *sizes = hlo_pass_ints(scatter, operand->rank), next = 0;
    for (int64_t d = 0; d < operand->rank; d++) {
        bool dropped = hlo_ints_contain(attributes->inserted_window_dims, d) ||
                       hlo_ints_contain(attributes->input_batching_dims, d);
        sizes[d] = dropped ? 1 : updates->dims[attributes->update_window_dims.items[next++]];
    }
    return (HloInts){sizes, operand->rank};
}

// True if the window fits into the operand at all, and all types are the same.
static bool may_expand(const HloInstruction *scatter) {
    assert(scatter->parent);
    if (scatter->opcode != HLO_OP_SCATTER || scatter->operand_count != 3 || !hlo_pass_may_replace(scatter))
        return false;
    const HloShape *operand = scatter->operands[0]->shape, *updates = scatter->operands[2]->shape;
    if (hlo_shape_is_dynamic(operand) || hlo_shape_is_dynamic(updates) || hlo_shape_elements(updates) == 0)
        return false;
    if (operand->type != updates->type || scatter->called[0]->root->shape->type != operand->type) return false;
    for (int64_t d = 0; d < operand->rank; d++) {
        if (operand->dims[d] == 0) return false;
    }
    if (hlo_shape_elements(scatter->operands[1]->shape) >= HLO_PASS_MANY) return false;
    if (hlo_shape_elements(updates) >= HLO_PASS_MANY) return false;
    return !hlo_shape_is_tuple(scatter->called[0]->root->shape);
}

// The loop's state includes the indices and the updates, because a body reads only its state.
static bool expand(HloInstruction *scatter, const HloPassEnv *env) {
    (void)env;
    if (!may_expand(scatter)) return false;
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(scatter, Scatter);
    ScatterStep step = {.scatter = scatter, .window = window_sizes(scatter)};
    step.indices = hlo_pass_index_matrix(scatter, scatter->operands[1], attributes->index_vector_dim,
                                         attributes->scatter_dims_to_operand_dims, attributes->input_batching_dims,
                                         attributes->scatter_indices_batching_dims);
    HloInstruction *carried[] = {scatter->operands[0], step.indices.matrix, updates_by_row(scatter, step.indices.rows)};
    HloInstruction *loop = hlo_pass_row_loop(scatter, step.indices.rows, carried, 3, update_row, &step);
    return hlo_pass_replace(scatter, hlo_pass_get(scatter, loop, 1));
}

HloStatus hlo_pass_scatter_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, expand, changed);
}
