// SPDX-License-Identifier: Apache-2.0
// Expands gathers to loops: one dynamic-slice per index vector, written to its row of the result.
//
// The loop builds a matrix with one row per index vector, whose columns are the elements of its slice in row-major
// order; this is then reshaped and transposed to the dimensions of the result. dynamic-slice clamps starts exactly as
// gather defines it, so no clamping is needed here. This is a last resort for backends without gathers: it takes one
// iteration per index vector.
//
//   gather(f32[100,8] table, s32[5,1] i) of rows
//   ->  for k in 0..4:  result = dynamic-update-slice(result, dynamic-slice(table, i[k], 0), k, 0)
#include <assert.h>

#include "hlo/pass/expand/indexed_loop.h"

typedef struct GatherStep {
    const HloInstruction *gather;
    HloIndexMatrix indices;
    HloInts row_dims;  // {1, sizes of the slice without the dropped dimensions}
} GatherStep;

// Copies one row. carried: the operand, the index matrix, the rows so far.
static void copy_row(void *context, HloInstruction *row, HloInstruction **carried) {
    const GatherStep *step = context;
    HloInts sizes = HLO_ATTRIBUTES(step->gather, Gather)->slice_sizes;
    HloArena *arena = row->parent->module->arena;
    HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, sizes.count + step->row_dims.count + 2);
    operands[0] = carried[0];
    hlo_pass_row_starts(carried[1], row, step->indices.to_operand, sizes.count, operands + 1);
    HloInstruction *slice = hlo_pass_make(row, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                                                  .operands = operands,
                                                                  .operand_count = sizes.count + 1,
                                                                  .attributes = &(HloDynamicSliceAttributes){sizes}});
    HloInstruction *zero = hlo_pass_integer(row, HLO_S64, 0);
    operands[0] = carried[2];
    operands[1] = hlo_pass_reshape(row, slice, step->row_dims);
    operands[2] = row;
    for (int64_t i = 1; i < step->row_dims.count; i++) operands[2 + i] = zero;
    carried[2] = hlo_pass_make(row, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_UPDATE_SLICE,
                                                       .operands = operands,
                                                       .operand_count = step->row_dims.count + 2});
}

// Brings rows (batch dims, window dims) into the order of the result.
static HloInstruction *arrange(const HloInstruction *gather, HloInstruction *rows, const GatherStep *step) {
    assert(hlo_is(gather, HLO_OP_GATHER) && step);
    HloInts offsets = HLO_ATTRIBUTES(gather, Gather)->offset_dims;
    int64_t rank = gather->shape->rank, batch = step->indices.batch_dims.count, next_batch = 0, next_offset = batch;
    int64_t *dims = hlo_pass_ints(gather, rank), *permutation = hlo_pass_ints(gather, rank);
    for (int64_t i = 0; i < batch; i++) dims[i] = step->indices.batch_dims.items[i];
    for (int64_t i = 1; i < step->row_dims.count; i++) dims[batch + i - 1] = step->row_dims.items[i];
    for (int64_t i = 0; i < rank; i++) permutation[i] = hlo_ints_contain(offsets, i) ? next_offset++ : next_batch++;
    HloInstruction *split = hlo_pass_reshape(gather, rows, (HloInts){dims, rank});
    return hlo_pass_transpose(gather, split, (HloInts){permutation, rank});
}

// Empty results and slices need no loop, and the s64 counter cannot count immense ones: these gathers stay.
static bool expand(HloInstruction *gather, const HloPassEnv *env) {
    (void)env;
    if (gather->opcode != HLO_OP_GATHER || !hlo_pass_may_replace(gather)) return false;
    if (hlo_shape_is_dynamic(gather->shape) || hlo_shape_elements(gather->shape) == 0) return false;
    if (hlo_shape_elements(gather->operands[1]->shape) >= HLO_PASS_MANY) return false;
    if (hlo_shape_elements(gather->shape) >= HLO_PASS_MANY) return false;
    const HloGatherAttributes *attributes = HLO_ATTRIBUTES(gather, Gather);
    if (hlo_ints_contain(attributes->slice_sizes, 0)) return false;
    GatherStep step = {.gather = gather};
    step.indices =
        hlo_pass_index_matrix(gather, gather->operands[1], attributes->index_vector_dim, attributes->start_index_map,
                              attributes->operand_batching_dims, attributes->start_indices_batching_dims);
    int64_t *dims = hlo_pass_ints(gather, attributes->slice_sizes.count + 1), count = 0;
    dims[count++] = 1;
    for (int64_t d = 0; d < attributes->slice_sizes.count; d++) {
        bool dropped = hlo_ints_contain(attributes->collapsed_slice_dims, d) ||
                       hlo_ints_contain(attributes->operand_batching_dims, d);
        if (!dropped) dims[count++] = attributes->slice_sizes.items[d];
    }
    step.row_dims = (HloInts){dims, count};
    int64_t *all = hlo_pass_ints(gather, count);
    for (int64_t i = 0; i < count; i++) all[i] = i == 0 ? step.indices.rows : dims[i];
    HloInstruction *empty = hlo_pass_splat(gather, gather->shape->type, (HloInts){all, count}, 0);
    HloInstruction *carried[] = {gather->operands[0], step.indices.matrix, empty};
    HloInstruction *loop = hlo_pass_row_loop(gather, step.indices.rows, carried, 3, copy_row, &step);
    return hlo_pass_replace(gather, arrange(gather, hlo_pass_get(gather, loop, 3), &step));
}

HloStatus hlo_pass_gather_expander(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, expand, changed);
}
