// SPDX-License-Identifier: Apache-2.0
// Shape inference of gather and scatter, including batching dimensions. Rules are numbered as in the StableHLO
// specification for gather (C1-C22) and scatter (C1-C23).
//
// The result of a gather has one dimension for each dimension of the indices except the index vector, and one for each
// dimension of the operand that is kept in a slice; `offset_dims` gives the positions of these window dimensions.
// Taking rows of a table:
//
//   operand f32[100,8]   indices s32[5,1]   offset_dims {1}, collapsed_slice_dims {0}, start_index_map {0},
//   index_vector_dim 1, slice_sizes {1,8}                                                 ->   f32[5,8]
//
// A scatter is the reverse, with updates instead of the result and update sizes instead of slice_sizes; it returns
// arrays of its operands' shapes.
#include <assert.h>

#include "hlo/ir/infer/reducer.h"

// The dimension numbers of one op under common names, so that gather and scatter share the checks.
typedef struct IndexedDims {
    HloInts window;      // offset_dims, update_window_dims
    HloInts dropped;     // collapsed_slice_dims, inserted_window_dims
    HloInts to_operand;  // start_index_map, scatter_dims_to_operand_dims
    HloInts batching;    // of the operand
    HloInts index_batching;
    int64_t index_vector_dim;
    const char *window_name, *dropped_name, *to_operand_name, *batching_name, *index_batching_name;
} IndexedDims;

// Checks for distinct dimensions of an array of `rank`, in ascending order.
static HloStatus check_sorted(HloArena *arena, HloInts list, int64_t rank, const char *what) {
    HLO_TRY(hlo_infer_check_dimensions(arena, list, rank, what));
    for (int64_t i = 1; i < list.count; i++) {
        HLO_REFUSE_IF(list.items[i] < list.items[i - 1], "%s %s is not in ascending order", what,
                      hlo_ints_message(arena, list));
    }
    return HLO_SUCCESS;
}

// Checks that no dimension is in both lists.
static HloStatus check_apart(HloArena *arena, HloInts a, HloInts b, const char *a_name, const char *b_name) {
    for (int64_t i = 0; i < a.count; i++) {
        HLO_REFUSE_IF(hlo_ints_contain(b, a.items[i]), "dimension %lld is in both %s %s and %s %s",
                      (long long)a.items[i], a_name, hlo_ints_message(arena, a), b_name, hlo_ints_message(arena, b));
    }
    return HLO_SUCCESS;
}

static HloStatus check_index_batching(HloArena *arena, const IndexedDims *numbers, const HloShape *operand,
                                      const HloShape *indices) {
    HLO_TRY(hlo_infer_check_dimensions(arena, numbers->index_batching, indices->rank, numbers->index_batching_name));
    HLO_REFUSE_IF(hlo_ints_contain(numbers->index_batching, numbers->index_vector_dim),
                  "%s %s has the index vector dimension %lld", numbers->index_batching_name,
                  hlo_ints_message(arena, numbers->index_batching), (long long)numbers->index_vector_dim);
    HLO_REFUSE_IF(numbers->batching.count != numbers->index_batching.count, "%lld dimensions in %s, %lld in %s",
                  (long long)numbers->batching.count, numbers->batching_name, (long long)numbers->index_batching.count,
                  numbers->index_batching_name);
    for (int64_t i = 0; i < numbers->batching.count; i++) {
        int64_t mine = operand->dims[numbers->batching.items[i]];
        int64_t theirs = indices->dims[numbers->index_batching.items[i]];
        HLO_REFUSE_IF(!hlo_sizes_agree(mine, theirs),
                      "batching dimension %lld has size %lld in the operand and %lld in "
                      "the indices",
                      (long long)i, (long long)mine, (long long)theirs);
    }
    return HLO_SUCCESS;
}

// Checks everything that does not depend on slice or update sizes. `*batch_rank` is the number of index dimensions
// other than the index vector.
static HloStatus check_numbers(HloArena *arena, const IndexedDims *numbers, const HloShape *operand,
                               const HloShape *indices, int64_t *batch_rank) {
    int64_t vector = numbers->index_vector_dim;
    HLO_REFUSE_IF(!hlo_type_is_integer(indices->type), "indices must be integers, not %s",
                  hlo_shape_message(arena, indices));
    HLO_REFUSE_IF(vector < 0 || vector > indices->rank, "index_vector_dim %lld of %s", (long long)vector,
                  hlo_shape_message(arena, indices));
    int64_t vector_size = vector < indices->rank ? indices->dims[vector] : 1;
    HLO_REFUSE_IF(!hlo_sizes_agree(vector_size, numbers->to_operand.count), "%s %s for index vectors of size %lld",
                  numbers->to_operand_name, hlo_ints_message(arena, numbers->to_operand), (long long)vector_size);
    HLO_TRY(hlo_infer_check_dimensions(arena, numbers->to_operand, operand->rank, numbers->to_operand_name));
    HLO_TRY(check_sorted(arena, numbers->dropped, operand->rank, numbers->dropped_name));
    HLO_TRY(check_sorted(arena, numbers->batching, operand->rank, numbers->batching_name));
    HLO_TRY(check_apart(arena, numbers->dropped, numbers->batching, numbers->dropped_name, numbers->batching_name));
    HLO_TRY(
        check_apart(arena, numbers->to_operand, numbers->batching, numbers->to_operand_name, numbers->batching_name));
    HLO_TRY(check_index_batching(arena, numbers, operand, indices));
    int64_t kept = operand->rank - numbers->dropped.count - numbers->batching.count;
    HLO_REFUSE_IF(numbers->window.count != kept, "%s %s names %lld dimensions, but %lld of the operand's %lld remain",
                  numbers->window_name, hlo_ints_message(arena, numbers->window), (long long)numbers->window.count,
                  (long long)kept, (long long)operand->rank);
    *batch_rank = indices->rank - (vector < indices->rank);
    return check_sorted(arena, numbers->window, *batch_rank + numbers->window.count, numbers->window_name);
}

// The operand dimension of window dimension number `index`.
static int64_t kept_dimension(const IndexedDims *numbers, int64_t index) {
    int64_t dimension = 0;
    for (;; dimension++) {
        if (hlo_ints_contain(numbers->dropped, dimension) || hlo_ints_contain(numbers->batching, dimension)) continue;
        if (index-- == 0) return dimension;
    }
}

static HloStatus check_slice_sizes(const HloInferRequest *request, HloInts sizes) {
    const HloGatherAttributes *gather = HLO_INFER_ATTRIBUTES(request, Gather);
    const HloShape *operand = request->operands[0];
    HLO_REFUSE_IF(sizes.count != operand->rank, "%lld slice sizes for %s", (long long)sizes.count,
                  hlo_shape_message(request->arena, operand));
    for (int64_t i = 0; i < sizes.count; i++) {
        int64_t size = sizes.items[i];
        HLO_REFUSE_IF(size < 0 || (operand->dims[i] != HLO_UNBOUNDED && size > operand->dims[i]),
                      "slice size %lld of dimension %lld, which has size %lld", (long long)size, (long long)i,
                      (long long)operand->dims[i]);
        bool dropped =
            hlo_ints_contain(gather->collapsed_slice_dims, i) || hlo_ints_contain(gather->operand_batching_dims, i);
        HLO_REFUSE_IF(dropped && size > 1, "slice size %lld of dimension %lld, which is collapsed", (long long)size,
                      (long long)i);
    }
    return HLO_SUCCESS;
}

// Result dimensions in offset_dims have the sizes of the slice, in the order of the kept operand dimensions; the others
// have those of the indices, without the index vector, in their order.
HloStatus hlo_infer_gather(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_GATHER);
    assert(request->operand_count == 2);
    const HloGatherAttributes *gather = HLO_INFER_ATTRIBUTES(request, Gather);
    HLO_TRY(hlo_infer_need_arrays(request));
    const HloShape *operand = request->operands[0], *indices = request->operands[1];
    IndexedDims numbers = {gather->offset_dims,
                           gather->collapsed_slice_dims,
                           gather->start_index_map,
                           gather->operand_batching_dims,
                           gather->start_indices_batching_dims,
                           gather->index_vector_dim,
                           "offset_dims",
                           "collapsed_slice_dims",
                           "start_index_map",
                           "operand_batching_dims",
                           "start_indices_batching_dims"};
    int64_t batch_rank;
    HLO_TRY(check_numbers(request->arena, &numbers, operand, indices, &batch_rank));
    HLO_TRY(check_slice_sizes(request, gather->slice_sizes));
    HloDims dims = hlo_dims_new(request->arena, batch_rank + numbers.window.count);
    int64_t window = 0, index = 0;
    for (int64_t i = 0; i < dims.rank; i++) {
        if (hlo_ints_contain(numbers.window, i)) {
            int64_t from = kept_dimension(&numbers, window++), size = gather->slice_sizes.items[from];
            dims.sizes[i] = size;
            dims.dynamic[i] = size == operand->dims[from] && hlo_shape_dimension_is_dynamic(operand, from);
            continue;
        }
        if (index == numbers.index_vector_dim) index++;
        hlo_dims_take(&dims, i, indices, index++);
    }
    return hlo_dims_shape(request->arena, operand->type, &dims, result);
}

// Checks that the updates have the batch dimensions of the indices, and windows that fit into the operand.
static HloStatus check_update(const HloInferRequest *request, const IndexedDims *numbers, const HloShape *update,
                              int64_t batch_rank) {
    const HloShape *operand = request->operands[0], *indices = request->operands[request->operand_count / 2];
    HLO_REFUSE_IF(update->rank != batch_rank + numbers->window.count, "updates must have rank %lld, not %s",
                  (long long)(batch_rank + numbers->window.count), hlo_shape_message(request->arena, update));
    int64_t window = 0, index = 0;
    for (int64_t i = 0; i < update->rank; i++) {
        if (hlo_ints_contain(numbers->window, i)) {
            int64_t limit = operand->dims[kept_dimension(numbers, window++)];
            HLO_REFUSE_IF(limit != HLO_UNBOUNDED && update->dims[i] > limit,
                          "dimension %lld of the updates has size %lld, the operand only %lld", (long long)i,
                          (long long)update->dims[i], (long long)limit);
            continue;
        }
        if (index == numbers->index_vector_dim) index++;
        HLO_REFUSE_IF(!hlo_sizes_agree(update->dims[i], indices->dims[index]),
                      "dimension %lld of the updates has size %lld, but dimension %lld of the indices has %lld",
                      (long long)i, (long long)update->dims[i], (long long)index, (long long)indices->dims[index]);
        index++;
    }
    return HLO_SUCCESS;
}

// Operands: n arrays, the indices, n updates. Results have the shapes of the arrays.
HloStatus hlo_infer_scatter(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SCATTER);
    const HloScatterAttributes *scatter = HLO_INFER_ATTRIBUTES(request, Scatter);
    int64_t count = request->operand_count / 2;
    HLO_REFUSE_IF(count < 1 || request->operand_count % 2 == 0,
                  "%lld operands: needs as many updates as inputs, and indices", (long long)request->operand_count);
    HLO_TRY(hlo_infer_need_arrays(request));
    IndexedDims numbers = {scatter->update_window_dims,
                           scatter->inserted_window_dims,
                           scatter->scatter_dims_to_operand_dims,
                           scatter->input_batching_dims,
                           scatter->scatter_indices_batching_dims,
                           scatter->index_vector_dim,
                           "update_window_dims",
                           "inserted_window_dims",
                           "scatter_dims_to_operand_dims",
                           "input_batching_dims",
                           "scatter_indices_batching_dims"};
    int64_t batch_rank;
    HLO_TRY(check_numbers(request->arena, &numbers, request->operands[0], request->operands[count], &batch_rank));
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, count);
    HloType *types = HLO_ARENA_NEW(request->arena, HloType, count);
    HloDims dims = hlo_dims_of(request->arena, request->operands[0]);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *operand = request->operands[i], *update = request->operands[count + 1 + i];
        HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, operand, i));
        HLO_REFUSE_IF(!hlo_types_mix(operand->type, update->type), "updates of element type %s for %s",
                      hlo_type_text(update->type), hlo_shape_message(request->arena, operand));
        HLO_TRY(check_update(request, &numbers, update, batch_rank));
        elements[i] = hlo_shape_without_layout(request->arena, operand);
        types[i] = operand->type;
    }
    HLO_TRY(hlo_infer_check_reducer(request, types, count));
    *result = hlo_infer_one_or_tuple(request->arena, elements, count);
    return HLO_SUCCESS;
}
