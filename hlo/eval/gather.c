// SPDX-License-Identifier: Apache-2.0
// gather and scatter.
//
// Both ops walk over index vectors. Each index vector names a window of the operand; gather copies it into the result,
// scatter combines an update into it. On the other side a window has fewer dimensions than in the operand (collapsed,
// inserted and batching ones are missing), so the walk inside a window covers the dimensions that both sides have, with
// strides on either side.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

// Start indices read vector by vector: one for each position of the batch dimensions.
typedef struct IndexWalk {
    const HloEvalValue *indices;
    int64_t vector_dim;
    int64_t batch_rank;
    int64_t *batch_dims;     // of the indices array: sizes, without the vector dimension
    int64_t *batch_strides;  // their strides, in elements
    int64_t *position;
    int64_t vector_stride;
} IndexWalk;

// The index vector may be along any dimension; one past the last means vectors of one number.
static IndexWalk new_walk(HloEvalDevice *device, const HloEvalValue *indices, int64_t vector_dim) {
    assert(vector_dim >= 0 && vector_dim <= indices->shape->rank);
    const HloShape *shape = indices->shape;
    IndexWalk walk = {.indices = indices, .vector_dim = vector_dim};
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, shape->rank + 1);
    hlo_eval_strides(shape->dims, shape->rank, strides);
    walk.vector_stride = vector_dim < shape->rank ? strides[vector_dim] : 0;
    walk.batch_dims = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    walk.batch_strides = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    walk.position = HLO_ARENA_NEW(device->scratch, int64_t, shape->rank);
    for (int64_t i = 0; i < shape->rank; i++) {
        if (i == vector_dim) continue;
        walk.batch_dims[walk.batch_rank] = shape->dims[i];
        walk.batch_strides[walk.batch_rank++] = strides[i];
    }
    return walk;
}

// Reads the position of the window in the operand: the start in every dimension. Batching dimensions take the batch
// index.
static void read_window_start(const IndexWalk *walk, HloInts index_map, HloInts operand_batching,
                              HloInts indices_batching, int64_t rank, int64_t *start) {
    assert(operand_batching.count == indices_batching.count);
    memset(start, 0, (size_t)rank * sizeof(int64_t));
    int64_t offset = 0;
    for (int64_t i = 0; i < walk->batch_rank; i++) offset += walk->position[i] * walk->batch_strides[i];
    for (int64_t i = 0; i < index_map.count; i++) {
        int64_t value = hlo_eval_integer_at(walk->indices, offset + i * walk->vector_stride);
        if (walk->indices->shape->type == HLO_U64 && value < 0) value = INT64_MAX;
        start[index_map.items[i]] = value;
    }
    for (int64_t i = 0; i < operand_batching.count; i++) {
        int64_t dim = indices_batching.items[i];
        start[operand_batching.items[i]] = walk->position[dim > walk->vector_dim ? dim - 1 : dim];
    }
}

// Strides and sizes of the window's dimensions in operand order, without those that the other side does not have.
typedef struct Window {
    int64_t rank;
    int64_t *dims, *operand_strides, *other_strides;
} Window;

// Starts are clamped, so that every element of the result has a source.
HloStatus hlo_eval_gather(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                          HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_GATHER));
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(instruction, Gather);
    const HloShape *from = operands[0]->shape, *shape = instruction->shape;
    HLO_TRY(hlo_eval_new_zeroed(device, shape, result));
    // A collapsed dimension of slice size 0 leaves nothing to read: the result stays zero.
    bool empty = hlo_shape_elements(shape) == 0 || hlo_ints_contain(gather->slice_sizes, 0);
    if (empty) return HLO_SUCCESS;
    IndexWalk walk = new_walk(device, operands[1], gather->index_vector_dim);
    int64_t rank = from->rank, bytes = hlo_type_bytes(shape->type);
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, rank), *start = HLO_EVAL_SCRATCH(device, int64_t, rank);
    int64_t *result_strides = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    int64_t *batch_strides = HLO_EVAL_SCRATCH(device, int64_t, shape->rank), batches = 0;
    hlo_eval_strides(from->dims, rank, strides);
    hlo_eval_strides(shape->dims, shape->rank, result_strides);
    for (int64_t i = 0; i < shape->rank; i++) {
        if (!hlo_ints_contain(gather->offset_dims, i)) batch_strides[batches++] = result_strides[i];
    }
    Window window = {.dims = HLO_EVAL_SCRATCH(device, int64_t, rank)};
    window.operand_strides = HLO_EVAL_SCRATCH(device, int64_t, rank);
    window.other_strides = HLO_EVAL_SCRATCH(device, int64_t, rank);
    for (int64_t i = 0; i < rank; i++) {
        if (hlo_ints_contain(gather->collapsed_slice_dims, i) || hlo_ints_contain(gather->operand_batching_dims, i))
            continue;
        window.dims[window.rank] = gather->slice_sizes.items[i];
        window.operand_strides[window.rank] = strides[i];
        window.other_strides[window.rank] = result_strides[gather->offset_dims.items[window.rank]];
        window.rank++;
    }
    do {
        read_window_start(&walk, gather->start_index_map, gather->operand_batching_dims,
                          gather->start_indices_batching_dims, rank, start);
        int64_t source = 0, target = 0;
        for (int64_t i = 0; i < rank; i++) {
            int64_t limit = from->dims[i] - gather->slice_sizes.items[i];
            source += (start[i] < 0 ? 0 : start[i] > limit ? limit : start[i]) * strides[i];
        }
        for (int64_t i = 0; i < batches; i++) target += walk.position[i] * batch_strides[i];
        hlo_eval_copy_strided((char *)(*result)->data + target * bytes, window.other_strides,
                              (const char *)operands[0]->data + source * bytes, window.operand_strides, window.dims,
                              window.rank, bytes);
    } while (hlo_eval_next_index(walk.batch_dims, walk.batch_rank, walk.position));
    return HLO_SUCCESS;
}

// ---- scatter

typedef struct Scatter {
    const HloScatterAttributes *attributes;
    HloEvalScalar *combine;
    int64_t values, rank;
    HloEvalValue *const *inputs;  // being updated
    HloEvalValue *const *updates;
    Window window;
    int64_t *window_index;
    int64_t run;  // elements of the last window dimension that are contiguous on both sides, else 1
} Scatter;

// Combines `count` neighbouring elements of every array in one batch of calls.
static HloStatus combine_run(const Scatter *scatter, int64_t target, int64_t source, int64_t count) {
    assert(target >= 0 && source >= 0 && count >= 0);
    const void *inputs[2 * HLO_EVAL_MAX_VALUES];
    void *outputs[HLO_EVAL_MAX_VALUES];
    for (int64_t v = 0; v < scatter->values; v++) {
        int64_t bytes = hlo_type_bytes(scatter->inputs[v]->shape->type);
        outputs[v] = (char *)scatter->inputs[v]->data + target * bytes;
        inputs[v] = outputs[v];
        inputs[scatter->values + v] = (const char *)scatter->updates[v]->data + source * bytes;
    }
    return hlo_eval_scalar_call(scatter->combine, inputs, outputs, count);
}

// The last dimension is processed in runs where it is contiguous on both sides.
static HloStatus combine_window(const Scatter *scatter, int64_t target, int64_t source) {
    assert(target >= 0 && source >= 0);
    const Window *window = &scatter->window;
    int64_t outer = scatter->run > 1 ? window->rank - 1 : window->rank;
    memset(scatter->window_index, 0, (size_t)window->rank * sizeof(int64_t));
    do {
        int64_t to = target, from = source;
        for (int64_t i = 0; i < outer; i++) {
            to += scatter->window_index[i] * window->operand_strides[i];
            from += scatter->window_index[i] * window->other_strides[i];
        }
        for (int64_t done = 0; done < scatter->run; done += HLO_EVAL_CHUNK) {
            int64_t count = scatter->run - done < HLO_EVAL_CHUNK ? scatter->run - done : HLO_EVAL_CHUNK;
            HLO_TRY(combine_run(scatter, to + done, from + done, count));
        }
    } while (hlo_eval_next_index(window->dims, outer, scatter->window_index));
    return HLO_SUCCESS;
}

// Window dimensions are in operand order on both sides.
static void prepare_window(HloEvalDevice *device, Scatter *scatter, const int64_t *strides,
                           const int64_t *update_strides) {
    const HloScatterAttributes *attributes = scatter->attributes;
    const HloShape *update = scatter->updates[0]->shape;
    Window *window = &scatter->window;
    window->dims = HLO_EVAL_SCRATCH(device, int64_t, scatter->rank);
    window->operand_strides = HLO_EVAL_SCRATCH(device, int64_t, scatter->rank);
    window->other_strides = HLO_EVAL_SCRATCH(device, int64_t, scatter->rank);
    scatter->window_index = HLO_EVAL_SCRATCH(device, int64_t, scatter->rank);
    for (int64_t i = 0; i < scatter->rank; i++) {
        if (hlo_ints_contain(attributes->inserted_window_dims, i) ||
            hlo_ints_contain(attributes->input_batching_dims, i)) {
            continue;
        }
        int64_t dim = attributes->update_window_dims.items[window->rank];
        window->dims[window->rank] = update->dims[dim];
        window->operand_strides[window->rank] = strides[i];
        window->other_strides[window->rank] = update_strides[dim];
        window->rank++;
    }
    int64_t last = window->rank - 1;
    bool together = window->rank > 0 && window->operand_strides[last] == 1 && window->other_strides[last] == 1;
    scatter->run = together ? window->dims[last] : 1;
}

// True if the window at `start` is within the operand. A scatter skips windows that are not, unlike a gather, which
// clamps them.
static bool window_fits(const Scatter *scatter, const int64_t *start) {
    const HloShape *shape = scatter->inputs[0]->shape;
    int64_t w = 0;
    for (int64_t i = 0; i < scatter->rank; i++) {
        bool inserted = hlo_ints_contain(scatter->attributes->inserted_window_dims, i) ||
                        hlo_ints_contain(scatter->attributes->input_batching_dims, i);
        int64_t size = inserted ? 1 : scatter->window.dims[w++];
        if (start[i] < 0 || start[i] > shape->dims[i] - size) return false;
    }
    return true;
}

// Combines windows in row-major order of the indices. HLO does not define the order where they overlap; a fixed one
// makes results repeatable.
static HloStatus scatter_all(HloEvalDevice *device, Scatter *scatter, const HloEvalValue *indices) {
    const HloScatterAttributes *attributes = scatter->attributes;
    const HloShape *shape = scatter->inputs[0]->shape, *update = scatter->updates[0]->shape;
    int64_t *strides = HLO_EVAL_SCRATCH(device, int64_t, scatter->rank),
            *start = HLO_EVAL_SCRATCH(device, int64_t, scatter->rank);
    int64_t *update_strides = HLO_EVAL_SCRATCH(device, int64_t, update->rank);
    int64_t *batch_strides = HLO_EVAL_SCRATCH(device, int64_t, update->rank), batches = 0;
    hlo_eval_strides(shape->dims, scatter->rank, strides);
    hlo_eval_strides(update->dims, update->rank, update_strides);
    for (int64_t i = 0; i < update->rank; i++) {
        if (!hlo_ints_contain(attributes->update_window_dims, i)) batch_strides[batches++] = update_strides[i];
    }
    prepare_window(device, scatter, strides, update_strides);
    IndexWalk walk = new_walk(device, indices, attributes->index_vector_dim);
    do {
        read_window_start(&walk, attributes->scatter_dims_to_operand_dims, attributes->input_batching_dims,
                          attributes->scatter_indices_batching_dims, scatter->rank, start);
        if (!window_fits(scatter, start)) continue;
        int64_t target = 0, source = 0;
        for (int64_t i = 0; i < scatter->rank; i++) target += start[i] * strides[i];
        for (int64_t i = 0; i < batches; i++) source += walk.position[i] * batch_strides[i];
        HLO_TRY(combine_window(scatter, target, source));
    } while (hlo_eval_next_index(walk.batch_dims, walk.batch_rank, walk.position));
    return HLO_SUCCESS;
}

// Updates the operands' own memory if there are no other references to it.
HloStatus hlo_eval_scatter(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SCATTER));
    int64_t values = instruction->operand_count / 2;
    assert(values <= HLO_EVAL_MAX_VALUES); /* hlo_eval_check_types() has asked */
    Scatter scatter = {.attributes = HLO_ATTRIBUTES(instruction, Scatter),
                       .values = values,
                       .rank = operands[0]->shape->rank,
                       .updates = operands + values + 1};
    HLO_TRY(hlo_eval_scalar_prepare(device, instruction->called[0], HLO_EVAL_CHUNK, &scatter.combine));
    HloEvalValue **inputs = HLO_EVAL_SCRATCH(device, HloEvalValue *, values);
    for (int64_t v = 0; v < values; v++) {
        HLO_TRY(hlo_eval_with_shape(device, operands[v], operands[v]->shape, &inputs[v]));
    }
    scatter.inputs = inputs;
    if (hlo_eval_elements(scatter.updates[0]) > 0) HLO_TRY(scatter_all(device, &scatter, operands[values]));
    if (instruction->shape->type != HLO_TUPLE) {
        *result = inputs[0];
        return HLO_SUCCESS;
    }
    HLO_TRY(hlo_eval_new_tuple(device, instruction->shape, inputs, values, result));
    for (int64_t v = 0; v < values; v++) hlo_eval_release(device, inputs[v]);
    return HLO_SUCCESS;
}
