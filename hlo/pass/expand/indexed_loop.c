// SPDX-License-Identifier: Apache-2.0
// Index vectors in one matrix and loops over its rows, for the expanders of gather and scatter (and, only the loop, of
// scan).
//
// Gather and scatter allow the index vectors along any dimension of the indices, implicitly of size one if that is one
// past the last, and batching dimensions of the operand that follow the position in the batch. Both are normalised
// here: vectors become rows, and batching dimensions become columns that contain the position itself, so that a row
// fully describes one slice. Everything is s64, whatever type the indices had.
//
//   indices s32[2,3,1], index_vector_dim=2, one batching dimension that follows dimension 0 of the indices
//   ->  s64[6,2]: the index, and 0 0 0 1 1 1
#include "hlo/pass/expand/indexed_loop.h"

#include <assert.h>

// The coordinate along batch dimension `dimension` of every index vector: s64[batch dims].
static HloInstruction *coordinate(const HloInstruction *like, HloInts batch_dims, int64_t dimension) {
    assert(dimension >= 0 && dimension < batch_dims.count);
    return hlo_pass_make(like, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                                  .attributes = &(HloIotaAttributes){dimension},
                                                  .type = HLO_S64,
                                                  .dims = batch_dims,
                                                  .has_dims = true});
}

// The indices with the index vector last: s64[batch dims, columns].
static HloInstruction *vectors_last(const HloInstruction *like, HloInstruction *indices, int64_t vector,
                                    HloInts batch_dims) {
    assert(vector >= 0 && vector <= indices->shape->rank);
    int64_t rank = indices->shape->rank;
    if (indices->shape->type ==
        HLO_U64) {  // numbers without a signed form are past every end, not before the beginning
        HloInstruction *far = hlo_pass_splat(like, HLO_U64, hlo_shape_dims(indices->shape), 0x1p62);
        indices = hlo_pass_binary(like, HLO_OP_MINIMUM, indices, far);
    }
    if (indices->shape->type != HLO_S64) indices = hlo_pass_convert(like, indices, HLO_S64);
    int64_t *dims = hlo_pass_ints(like, batch_dims.count + 1);
    for (int64_t i = 0; i < batch_dims.count; i++) dims[i] = batch_dims.items[i];
    dims[batch_dims.count] = vector < rank ? indices->shape->dims[vector] : 1;
    if (vector < rank - 1) {
        int64_t *permutation = hlo_pass_ints(like, rank);
        for (int64_t i = 0; i < rank - 1; i++) permutation[i] = i + (i >= vector);
        permutation[rank - 1] = vector;
        indices = hlo_pass_transpose(like, indices, (HloInts){permutation, rank});
    }
    return hlo_pass_reshape(like, indices, (HloInts){dims, batch_dims.count + 1});
}

// The sizes of the indices without the index vector, in order; *rows is their product.
static HloInts batch_sizes(const HloInstruction *like, const HloShape *indices, int64_t vector, int64_t *rows) {
    assert(vector >= 0 && rows);
    int64_t *dims = hlo_pass_ints(like, indices->rank), count = 0;
    *rows = 1;
    for (int64_t i = 0; i < indices->rank; i++) {
        if (i == vector) continue;
        dims[count++] = indices->dims[i];
        *rows *= indices->dims[i];
    }
    return (HloInts){dims, count};
}

// The given columns first, then one column of coordinates for each batching dimension.
HloIndexMatrix hlo_pass_index_matrix(const HloInstruction *like, HloInstruction *indices, int64_t index_vector_dim,
                                     HloInts to_operand, HloInts batching, HloInts index_batching) {
    assert(index_vector_dim >= 0 && index_vector_dim <= indices->shape->rank);
    assert(batching.count == index_batching.count);
    HloIndexMatrix result = {.columns = to_operand.count + batching.count};
    HloArena *arena = like->parent->module->arena;
    result.batch_dims = batch_sizes(like, indices->shape, index_vector_dim, &result.rows);
    int64_t *map = hlo_pass_ints(like, result.columns);
    HloInstruction **parts = HLO_ARENA_NEW(arena, HloInstruction *, batching.count + 1);
    HloInstruction *given = vectors_last(like, indices, index_vector_dim, result.batch_dims);
    parts[0] = hlo_pass_reshape(like, given, HLO_DIMS(result.rows, to_operand.count));
    for (int64_t i = 0; i < to_operand.count; i++) map[i] = to_operand.items[i];
    for (int64_t b = 0; b < batching.count; b++) {
        int64_t dimension = index_batching.items[b] - (index_batching.items[b] > index_vector_dim);
        HloInstruction *own = coordinate(like, result.batch_dims, dimension);
        parts[b + 1] = hlo_pass_reshape(like, own, HLO_DIMS(result.rows, 1));
        map[to_operand.count + b] = batching.items[b];
    }
    result.to_operand = (HloInts){map, result.columns};
    result.matrix = parts[0];
    if (batching.count == 0) return result;
    result.matrix = hlo_pass_make(like, &(HloBuildRequest){.opcode = HLO_OP_CONCATENATE,
                                                           .operands = parts,
                                                           .operand_count = batching.count + 1,
                                                           .attributes = &(HloDimensionsAttributes){HLO_DIMS(1)}});
    return result;
}

// Slices one row out of the matrix and splits it into scalars, the form that dynamic-slice requires.
void hlo_pass_row_starts(HloInstruction *matrix, HloInstruction *row, HloInts to_operand, int64_t rank,
                         HloInstruction **starts) {
    assert(matrix->shape->rank == 2);
    assert(to_operand.count <= rank);
    HloInstruction *zero = hlo_pass_integer(row, HLO_S64, 0);
    HloInstruction *operands[] = {matrix, row, zero};
    for (int64_t i = 0; i < rank; i++) starts[i] = zero;
    if (to_operand.count == 0) return;
    HloDynamicSliceAttributes attributes = {HLO_DIMS(1, to_operand.count)};
    HloInstruction *vector = hlo_pass_make(
        row, &(HloBuildRequest){
                 .opcode = HLO_OP_DYNAMIC_SLICE, .operands = operands, .operand_count = 3, .attributes = &attributes});
    for (int64_t i = 0; i < to_operand.count; i++) {
        HloInstruction *one = hlo_pass_slice(row, vector, HLO_DIMS(0, i), HLO_DIMS(1, i + 1), HLO_DIMS(1, 1));
        starts[to_operand.items[i]] = hlo_pass_reshape(row, one, HLO_DIMS());
    }
}

// A computation with the loop's state as its parameter.
static HloInstruction *new_computation(const HloInstruction *like, const char *name, const HloShape *state) {
    HloComputation *computation = hlo_computation_new(like->parent->module, name);
    HloParameterAttributes attributes = {.number = 0};
    HloInstruction *parameter = hlo_instruction_new(computation, HLO_OP_PARAMETER, state, NULL, 0, &attributes, NULL);
    parameter->metadata = like->metadata;
    return parameter;
}

// Creates the two computations in the module of `like`. `state` is used twice: for the operands of the initial tuple,
// then for the elements inside the body.
HloInstruction *hlo_pass_row_loop(const HloInstruction *like, int64_t rows, HloInstruction *const *carried,
                                  int64_t count, HloRowStep *step, void *context) {
    assert(rows >= 0 && count > 0 && step);
    HloArena *arena = like->parent->module->arena;
    HloInstruction **state = HLO_ARENA_NEW(arena, HloInstruction *, count + 1);
    state[0] = hlo_pass_integer(like, HLO_S64, 0);
    for (int64_t i = 0; i < count; i++) state[i + 1] = carried[i];
    HloInstruction *initial = hlo_pass_tuple(like, state, count + 1);
    if (rows == 0) return initial;  // a step takes a row, and there is none even to infer its shape from
    HloInstruction *tested = new_computation(like, "rows_left", initial->shape);
    HloInstruction *limit = hlo_pass_integer(tested, HLO_S64, rows);
    HloInstruction *less = hlo_pass_compare(tested, hlo_pass_get(tested, tested, 0), limit, HLO_ComparisonDirection_LT);
    hlo_computation_set_root(tested->parent, less);
    HloInstruction *parameter = new_computation(like, "row_step", initial->shape);
    HloInstruction *row = hlo_pass_get(parameter, parameter, 0);
    for (int64_t i = 0; i < count; i++) state[i + 1] = hlo_pass_get(parameter, parameter, i + 1);
    step(context, row, state + 1);
    state[0] = hlo_pass_binary(row, HLO_OP_ADD, row, hlo_pass_integer(row, HLO_S64, 1));
    hlo_computation_set_root(parameter->parent, hlo_pass_tuple(parameter, state, count + 1));
    HloComputation *called[] = {tested->parent, parameter->parent};
    return hlo_pass_make(
        like,
        &(HloBuildRequest){
            .opcode = HLO_OP_WHILE, .operands = &initial, .operand_count = 1, .called = called, .called_count = 2});
}
