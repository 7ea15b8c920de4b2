// SPDX-License-Identifier: Apache-2.0
// Imports operations that StableHLO has replaced by others: einsum, unary_einsum, torch_index_select. Also asynchronous
// ones: running the started operation immediately does not change the meaning of a program.
//
// An einsum "ab,bcd->da" becomes sums, a dot and a transpose:
//
//   c is only in one input           ->  reduce over it first
//   b in both inputs, not in output  ->  contracting dimension (a letter in all three is a batch dimension)
//   result of the dot: a, d          ->  transpose to d, a
//
// Letters that occur twice in one input (diagonals) and ellipses are refused.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/import/import.h"

// ---------------------------------------------------------------------------------------------------------------------
// Einstein's sums

// One side of "ab,bc->ac": one letter per dimension.
typedef struct Labels {
    const char *text;
    int64_t count;
} Labels;

// The position of the letter, or -1.
static int64_t find_label(Labels labels, char label) {
    for (int64_t i = 0; i < labels.count; i++) {
        if (labels.text[i] == label) return i;
    }
    return -1;
}

// Checks that every dimension has its own letter.
static HloStatus check_labels(const ImportPlace *place, Labels labels, const HloShape *shape) {
    if (shape && labels.count != shape->rank)
        return import_error(place, HLO_INVALID_ARGUMENT, "'%.*s' does not have a letter for each of %d dimensions",
                            (int)labels.count, labels.text, shape->rank);
    for (int64_t i = 0; i < labels.count; i++) {
        const char c = labels.text[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter) return import_error(place, HLO_UNIMPLEMENTED, "'%c' in an einsum", c);
        if (find_label((Labels){labels.text, i}, c) >= 0)
            return import_error(place, HLO_UNIMPLEMENTED, "a diagonal: '%c' is twice in '%.*s'", c, (int)labels.count,
                                labels.text);
    }
    return HLO_SUCCESS;
}

// Splits the configuration: `count` inputs, then the output.
static HloStatus split_labels(const ImportPlace *place, Labels *labels, int count) {
    const char *at = import_string(place, "einsum_config");
    for (int i = 0; at && i <= count; i++) {
        const size_t length = strcspn(at, ",-");
        labels[i] = (Labels){at, (int64_t)length};
        at += length;
        if (i + 1 < count && *at == ',') {
            at++;
        } else if (i + 1 == count && strncmp(at, "->", 2) == 0) {
            at += 2;
        } else if (i < count || *at) {
            at = NULL;
        }
    }
    return at ? HLO_SUCCESS : import_error(place, HLO_INVALID_ARGUMENT, "an einsum without 'inputs->output'");
}

// The scalar 0 of a type: a literal in an arena is zeroed.
static HloStatus zero_of(ImportPlace *place, HloType type, HloInstruction **zero) {
    HloArena *arena = import_arena(place);
    const HloShape *scalar = hlo_shape_with_default_layout(arena, hlo_shape_scalar(arena, type));
    const HloConstantAttributes constant = {hlo_literal_in_arena(arena, scalar)};
    return import_emit(place, HLO_OP_CONSTANT, scalar, NULL, 0, &constant, NULL, 0, zero);
}

// Sums over the dimensions whose letters occur nowhere else, and removes these from `labels`.
static HloStatus sum_lone_labels(ImportPlace *place, HloInstruction **operand, Labels *labels, Labels other,
                                 Labels output) {
    HloArena *arena = import_arena(place);
    HloInt64Vector lone = {0};
    char *kept = HLO_ARENA_NEW(arena, char, labels->count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < labels->count; i++) {
        const char c = labels->text[i];
        if (find_label(other, c) >= 0 || find_label(output, c) >= 0) {
            kept[count++] = c;
        } else {
            hlo_vector_push(arena, &lone, i);
        }
    }
    if (!lone.count) return HLO_SUCCESS;
    *labels = (Labels){kept, count};
    const HloDimensionsAttributes attributes = {{lone.items, lone.count}};
    HloInstruction *operands[2] = {*operand};
    HloComputation *sum;
    HLO_TRY(zero_of(place, (*operand)->shape->type, &operands[1]));
    sum = import_adder(place, (*operand)->shape->type);
    return import_emit(place, HLO_OP_REDUCE, NULL, operands, 2, &attributes, &sum, 1, operand);
}

// Transposes the value, whose dimensions have the letters `from`, to the order `to`.
static HloStatus finish_in_order(ImportPlace *place, HloInstruction *value, Labels from, Labels to) {
    HloArena *arena = import_arena(place);
    int64_t *permutation = HLO_ARENA_NEW(arena, int64_t, to.count);
    bool is_identity = true;
    for (int64_t i = 0; i < to.count; i++) {
        permutation[i] = find_label(from, to.text[i]);
        if (permutation[i] < 0) return import_error(place, HLO_INVALID_ARGUMENT, "'%c' is in no input", to.text[i]);
        is_identity &= permutation[i] == i;
    }
    assert(from.count == to.count); /* dimensions that the output lacks were summed or contracted */
    const HloShape *shape;
    HLO_TRY(import_result_shape(place, &shape));
    if (!is_identity) {
        const HloDimensionsAttributes attributes = {{permutation, to.count}};
        HLO_TRY(import_emit(place, HLO_OP_TRANSPOSE, shape, &value, 1, &attributes, NULL, 0, &value));
    } else if (!hlo_shape_equal(value->shape, shape, HLO_COMPARE_IGNORE_LAYOUT) && !hlo_shape_is_dynamic(shape)) {
        return import_error(place, HLO_INVALID_ARGUMENT, "the shape of the result does not match its letters");
    }
    return import_set_results(place, value);
}

// Letters in both inputs are batch dimensions if the output has them too, else contracted; letters of one input that
// are not in the output are summed first. The dot's result has batch, left and right letters in this order, and is
// transposed last.
static HloStatus import_einsum(ImportPlace *place) {
    HloArena *arena = import_arena(place);
    Labels labels[3];
    HloInstruction **operands, *dot;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(split_labels(place, labels, 2));
    for (int i = 0; i < 3; i++) HLO_TRY(check_labels(place, labels[i], i < 2 ? operands[i]->shape : NULL));
    const Labels lhs_all = labels[0];
    HLO_TRY(sum_lone_labels(place, &operands[0], &labels[0], labels[1], labels[2]));
    HLO_TRY(sum_lone_labels(place, &operands[1], &labels[1], lhs_all, labels[2]));
    HloInt64Vector batch[2] = {{0}}, contracting[2] = {{0}};
    // Letters of the dot: batch dimensions, then those of one side only.
    char *letters = HLO_ARENA_NEW(arena, char, labels[0].count + labels[1].count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < labels[0].count; i++) {
        const char c = labels[0].text[i];
        const int64_t there = find_label(labels[1], c);
        if (there < 0) continue;
        const bool is_batch = find_label(labels[2], c) >= 0;
        hlo_vector_push(arena, is_batch ? &batch[0] : &contracting[0], i);
        hlo_vector_push(arena, is_batch ? &batch[1] : &contracting[1], there);
        if (is_batch) letters[count++] = c;
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < labels[side].count; i++) {
            const char c = labels[side].text[i];
            if (find_label(labels[1 - side], c) < 0) letters[count++] = c;
        }
    }
    const HloDotAttributes attributes = {.lhs_batch = {batch[0].items, batch[0].count},
                                         .rhs_batch = {batch[1].items, batch[1].count},
                                         .lhs_contracting = {contracting[0].items, contracting[0].count},
                                         .rhs_contracting = {contracting[1].items, contracting[1].count}};
    HLO_TRY(import_emit(place, HLO_OP_DOT, NULL, operands, 2, &attributes, NULL, 0, &dot));
    return finish_in_order(place, dot, (Labels){letters, count}, labels[2]);
}

// Imports it as sums and a transposition.
static HloStatus import_unary_einsum(ImportPlace *place) {
    Labels labels[2];
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(split_labels(place, labels, 1));
    for (int i = 0; i < 2; i++) HLO_TRY(check_labels(place, labels[i], i < 1 ? operands[i]->shape : NULL));
    HLO_TRY(sum_lone_labels(place, &operands[0], &labels[0], (Labels){0}, labels[1]));
    return finish_in_order(place, operands[0], labels[0], labels[1]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Selecting rows

// [first, end)
static HloInts range(HloArena *arena, int64_t first, int64_t end) {
    int64_t *items = HLO_ARENA_NEW(arena, int64_t, end - first);
    for (int64_t i = first; i < end; i++) items[i - first] = i;
    return (HloInts){items, end - first};
}

// result[b.., i.., j.., k..] = operand[b.., i.., index[b.., j..], k..]: a gather of slices that are one element along
// `dim` and along the batch dimensions.
static HloStatus import_torch_index_select(ImportPlace *place) {
    HloArena *arena = import_arena(place);
    HloInstruction **operands;
    int64_t dim, batch;
    HLO_TRY(import_operands(place, &operands));
    HLO_TRY(import_int(place, "dim", 0, &dim));
    HLO_TRY(import_int(place, "batch_dims", 0, &batch));
    const HloShape *array = operands[0]->shape, *index = operands[1]->shape;
    if (dim < batch || dim >= array->rank || batch < 0 || batch > index->rank)
        return import_error(place, HLO_INVALID_ARGUMENT, "dimension %lld after %lld batch dimensions is out of range",
                            (long long)dim, (long long)batch);
    HloInt64Vector offsets = {0};
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, array->rank);
    for (int64_t d = 0; d < array->rank; d++) {
        sizes[d] = d < batch || d == dim ? 1 : array->dims[d];
        if (d < batch || d == dim) continue;
        // Dimensions after the selected one come after those of the index.
        hlo_vector_push(arena, &offsets, d < dim ? d : d - 1 + index->rank - batch);
    }
    const HloGatherAttributes attributes = {.offset_dims = {offsets.items, offsets.count},
                                            .collapsed_slice_dims = hlo_ints(arena, &dim, 1),
                                            .start_index_map = hlo_ints(arena, &dim, 1),
                                            .operand_batching_dims = range(arena, 0, batch),
                                            .start_indices_batching_dims = range(arena, 0, batch),
                                            .index_vector_dim = index->rank,
                                            .slice_sizes = {sizes, array->rank}};
    return import_plain(place, HLO_OP_GATHER, &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Futures

// Imports the operations of the region in place: its arguments are the operands.
static HloStatus import_async_start(ImportPlace *place) {
    MlirOperation *operation = place->operation;
    HloInstruction **operands;
    const MlirOperation *terminator;
    HLO_TRY(import_operands(place, &operands));
    const MlirBlock *block = operation->region_count == 1 ? operation->regions[0].blocks : NULL;
    if (!block || operation->regions[0].block_count != 1 || block->argument_count != operation->operand_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "a region that takes the operands is required");
    for (int64_t i = 0; i < block->argument_count; i++) {
        HLO_TRY(import_check_type(place, operands[i], block->arguments[i]->type));
        block->arguments[i]->lowered = operands[i];
    }
    HLO_TRY(import_block(place->importer, place->computation, block, &terminator));
    if (terminator->operand_count != operation->result_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "the region does not return as many values as the operation");
    ImportPlace end = {place->importer, place->computation, (MlirOperation *)(uintptr_t)terminator};
    HloInstruction **returned;
    HLO_TRY(import_operands(&end, &returned));
    for (int64_t i = 0; i < operation->result_count; i++) {
        const MlirType *type = operation->results[i]->type;
        if (!type || !type->is_future)
            return import_error(place, HLO_INVALID_ARGUMENT, "async_start must return a future");
        HLO_TRY(import_check_type(place, returned[i], type));
        operation->results[i]->lowered = returned[i];
    }
    return HLO_SUCCESS;
}

// The future and its value are one instruction here, so only their types have to agree.
static HloStatus import_async_done(ImportPlace *place) {
    HloInstruction **operands;
    HLO_TRY(import_operands(place, &operands));
    if (place->operation->result_count != place->operation->operand_count)
        return import_error(place, HLO_INVALID_ARGUMENT, "one value per future is required");
    for (int64_t i = 0; i < place->operation->operand_count; i++) {
        const MlirType *from = place->operation->operands[i]->type, *to = place->operation->results[i]->type;
        if (!from || !from->is_future || (to && to->is_future))
            return import_error(place, HLO_INVALID_ARGUMENT, "the operand must be a future, and the result its value");
        HLO_TRY(import_check_type(place, operands[i], to));
        place->operation->results[i]->lowered = operands[i];
    }
    return HLO_SUCCESS;
}

const ImportRow *import_legacy_rows(int64_t *count) {
    static const ImportRow rows[] = {
        {"stablehlo.async_done", import_async_done, 0},
        {"stablehlo.async_start", import_async_start, 0},
        {"stablehlo.einsum", import_einsum, 2},
        {"stablehlo.torch_index_select", import_torch_index_select, 2},
        {"stablehlo.unary_einsum", import_unary_einsum, 1},
    };
    *count = (int64_t)HLO_COUNT_OF(rows);
    return rows;
}
