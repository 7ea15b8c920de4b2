// SPDX-License-Identifier: Apache-2.0
// Shape inference of collectives, and of transfers between memories, hosts and devices.
//
// On groups of g devices, along `dimension` of size d:
//
//   all-gather          d * g                        all-reduce, collective-permute, -broadcast   the operands
//   reduce-scatter      d / g                        all-to-all (dimension)                        the operand
//   all-to-all (tuple)  g operands of one shape      ragged-all-to-all                             the output operand
//
// The group size follows from the replica groups, or without these from the module's counts; if neither is known, it is
// the ratio of the hint's sizes to the operand's (growth()). Start ops return what their done needs:
//
//   all-gather-start, collective-permute-start   (operands, results, contexts..)
//   copy-start    (destination, source, context)            send, recv   (data, u32[] context, token)
#include <assert.h>

#include "hlo/ir/collective.h"
#include "hlo/ir/infer/reducer.h"

// The results have the shapes of the operands.
static HloStatus same_as_operands(const HloInferRequest *request, int64_t count, const HloShape **result) {
    assert(count <= request->operand_count);
    HLO_REFUSE_IF(count < 1, "no operands");
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) {
        HLO_TRY(hlo_infer_need_array(request, i));
        elements[i] = hlo_shape_without_layout(request->arena, request->operands[i]);
    }
    *result = hlo_infer_one_or_tuple(request->arena, elements, count);
    return HLO_SUCCESS;
}

// a * b, or 0 (unknown) if it exceeds the number of devices of any machine.
static int64_t product_or_zero(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

// The number of devices per group, 0 if unknown.
static int64_t group_size(const HloInferRequest *request) {
    const HloCollectiveAttributes *attributes = HLO_INFER_ATTRIBUTES(request, Collective);
    const HloReplicaGroups *groups = attributes->replica_groups;
    int64_t written = groups ? hlo_replica_groups_size(groups) : 0;
    bool empty = !groups || (groups->form == HLO_GROUPS_LIST && groups->count == 0);
    if (!empty && written <= 0) return 0;
    const HloGroupMode mode = hlo_group_mode(request->opcode, attributes);
    if (mode == HLO_GROUPS_OF_REPLICAS_PARTITIONS) {
        return product_or_zero(empty ? request->replica_count : written, request->num_partitions);
    }
    if (!empty) return written;
    if (mode == HLO_GROUPS_OF_DEVICES) return product_or_zero(request->replica_count, request->num_partitions);
    return mode == HLO_GROUPS_OF_PARTITIONS ? request->num_partitions : request->replica_count;
}

// Sets *dimension to the single dimension of all-gather or reduce-scatter.
static HloStatus collective_dimension(const HloInferRequest *request, int64_t *dimension) {
    assert(dimension);
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Collective)->dimensions;
    HLO_REFUSE_IF(request->operand_count < 1, "no operands");
    HLO_REFUSE_IF(dimensions.count != 1, "%lld dimensions instead of one", (long long)dimensions.count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        HLO_TRY(hlo_infer_need_array(request, i));
        HLO_TRY(hlo_infer_check_dimensions(request->arena, dimensions, request->operands[i]->rank, "dimensions"));
    }
    *dimension = dimensions.items[0];
    return HLO_SUCCESS;
}

// The hint's shape for result `index`, or NULL.
static const HloShape *hinted_result(const HloInferRequest *request, const HloShape *hint, int64_t index) {
    if (!hint) return NULL;
    const HloShape *shape = hint;
    if (hlo_shape_is_tuple(hint)) shape = index < hint->element_count ? hint->elements[index] : NULL;
    return shape && hlo_shape_is_array(shape) && shape->rank == request->operands[index]->rank ? shape : NULL;
}

// The first operand from which the growth can be inferred: an empty one stays empty, whatever the factor. Operand 0 if
// there is none.
static int64_t telling_operand(const HloInferRequest *request, const HloShape *hint, int64_t dimension, bool gathers) {
    for (int64_t i = 0; i < request->operand_count; i++) {
        const HloShape *given = hinted_result(request, hint, i);
        if (given && (gathers ? request->operands[i] : given)->dims[dimension] != 0) return i;
    }
    return 0;
}

// Computes the factor by which dimension `dimension` grows (gather) or shrinks (scatter): the group size, or the hint's
// factor if the groups are not known. A group of one determines nothing, as in XLA: a module without counts has one
// device.
static HloStatus growth(const HloInferRequest *request, const HloShape *hint, int64_t dimension, bool gathers,
                        int64_t *factor) {
    assert(dimension >= 0 && dimension < request->operands[0]->rank);
    *factor = group_size(request);
    const int64_t telling = telling_operand(request, hint, dimension, gathers);
    const HloShape *operand = request->operands[telling], *given = hinted_result(request, hint, telling);
    if (*factor > 1 || (*factor == 1 && !given)) return HLO_SUCCESS;
    HLO_REFUSE_IF(!given, "the result shape cannot be inferred without the number of devices");
    int64_t small = gathers ? operand->dims[dimension] : given->dims[dimension];
    int64_t large = gathers ? given->dims[dimension] : operand->dims[dimension];
    HLO_REFUSE_IF(small < 0 || (small == 0 ? large != 0 : large % small != 0),
                  "dimension %lld goes from size %lld to %lld", (long long)dimension,
                  (long long)operand->dims[dimension], (long long)given->dims[dimension]);
    *factor = small == 0 ? 1 : large / small;
    HLO_REFUSE_IF(*factor < 1, "dimension %lld goes from size %lld to %lld", (long long)dimension,
                  (long long)operand->dims[dimension], (long long)given->dims[dimension]);
    return HLO_SUCCESS;
}

// The results of all-gather, as an array or a tuple; `hint` is the hint for these only.
static HloStatus gathered(const HloInferRequest *request, const HloShape *hint, const HloShape **result) {
    int64_t dimension = 0, factor = 1;
    HLO_TRY(collective_dimension(request, &dimension));
    HLO_TRY(growth(request, hint, dimension, true, &factor));
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        HloDims dims = hlo_dims_of(request->arena, request->operands[i]);
        int64_t *size = &dims.sizes[dimension];
        HLO_REFUSE_IF(*size != HLO_UNBOUNDED && __builtin_mul_overflow(*size, factor, size), "dimension %lld overflows",
                      (long long)dimension);
        HLO_TRY(hlo_dims_shape(request->arena, request->operands[i]->type, &dims, &elements[i]));
    }
    *result = hlo_infer_one_or_tuple(request->arena, elements, request->operand_count);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_all_gather(const HloInferRequest *request, const HloShape **result) {
    return gathered(request, request->hint, result);
}

// (operands, results) of a start op; several of each become tuples. The rest of the hint is context.
static HloStatus with_operands(const HloInferRequest *request, const HloShape *results, const HloShape **result) {
    int64_t extra = request->hint && hlo_shape_is_tuple(request->hint) ? request->hint->element_count - 2 : 0;
    if (extra < 0) extra = 0;
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, 2 + extra);
    const HloShape **operands = HLO_ARENA_NEW(request->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        operands[i] = hlo_shape_without_layout(request->arena, request->operands[i]);
    }
    elements[0] = hlo_infer_one_or_tuple(request->arena, operands, request->operand_count);
    elements[1] = results;
    for (int64_t i = 0; i < extra; i++) elements[2 + i] = request->hint->elements[2 + i];
    *result = hlo_shape_tuple(request->arena, elements, 2 + extra);
    return HLO_SUCCESS;
}

// The results part of a start op's hint.
static const HloShape *hinted_results(const HloInferRequest *request) {
    const HloShape *hint = request->hint;
    return hint && hlo_shape_is_tuple(hint) && hint->element_count >= 2 ? hint->elements[1] : NULL;
}

HloStatus hlo_infer_all_gather_start(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_ALL_GATHER_START);
    const HloShape *results = NULL;
    HLO_TRY(gathered(request, hinted_results(request), &results));
    return with_operands(request, results, result);
}

HloStatus hlo_infer_collective_done(const HloInferRequest *request, const HloShape **result) {
    return hlo_infer_async_done(request, result);
}

// Checks the reducer of two scalars, which applies to all operands, whatever their precision.
static HloStatus check_reducer(const HloInferRequest *request) {
    HLO_TRY(hlo_infer_need_called(request, 1));
    const HloComputation *reducer = request->called[0];
    HLO_REFUSE_IF(reducer->parameters.count != 2, "computation %s takes %lld parameters instead of 2", reducer->name,
                  (long long)reducer->parameters.count);
    const HloShape *root = reducer->root->shape;
    HLO_REFUSE_IF(!hlo_shape_is_scalar(root), "computation %s returns %s instead of a scalar", reducer->name,
                  hlo_shape_message(request->arena, root));
    for (int64_t i = 0; i < 2; i++) {
        const HloShape *parameter = reducer->parameters.items[i]->shape;
        HLO_REFUSE_IF(!hlo_shapes_mix(parameter, root), "computation %s takes %s as parameter %lld, but returns %s",
                      reducer->name, hlo_shape_message(request->arena, parameter), (long long)i,
                      hlo_shape_message(request->arena, root));
    }
    for (int64_t i = 0; i < request->operand_count; i++)
        HLO_REFUSE_IF(!hlo_types_mix(request->operands[i]->type, root->type),
                      "computation %s returns %s, but the elements are %s", reducer->name,
                      hlo_shape_message(request->arena, root), hlo_type_text(request->operands[i]->type));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_all_reduce(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_ALL_REDUCE || request->opcode == HLO_OP_ALL_REDUCE_START);
    HLO_TRY(same_as_operands(request, request->operand_count, result));
    return check_reducer(request);
}

HloStatus hlo_infer_reduce_scatter(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_REDUCE_SCATTER);
    int64_t dimension = 0, factor = 1;
    HLO_TRY(collective_dimension(request, &dimension));
    HLO_TRY(growth(request, request->hint, dimension, false, &factor));
    HLO_TRY(check_reducer(request));
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, request->operand_count);
    for (int64_t i = 0; i < request->operand_count; i++) {
        HloDims dims = hlo_dims_of(request->arena, request->operands[i]);
        int64_t size = dims.sizes[dimension];
        HLO_REFUSE_IF(size != HLO_UNBOUNDED && size % factor != 0,
                      "dimension %lld of size %lld is not divisible by %lld devices", (long long)dimension,
                      (long long)size, (long long)factor);
        if (size != HLO_UNBOUNDED) dims.sizes[dimension] = size / factor;
        HLO_TRY(hlo_dims_shape(request->arena, request->operands[i]->type, &dims, &elements[i]));
    }
    *result = hlo_infer_one_or_tuple(request->arena, elements, request->operand_count);
    return HLO_SUCCESS;
}

// There are two forms. With a dimension: one array, split along it into as many parts as a group has devices and
// reassembled from the others' parts, so that its shape stays the same. Without: an array for each device of the group,
// all of one shape, and as many results, in a tuple even if there is only one.
HloStatus hlo_infer_all_to_all(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_ALL_TO_ALL);
    HloInts dimensions = HLO_INFER_ATTRIBUTES(request, Collective)->dimensions;
    int64_t size = group_size(request);
    if (dimensions.count > 0) {
        int64_t dimension;
        HLO_REFUSE_IF(request->operand_count != 1, "%lld operands with a split dimension",
                      (long long)request->operand_count);
        HLO_TRY(collective_dimension(request, &dimension));
        int64_t split = request->operands[0]->dims[dimension];
        HLO_REFUSE_IF(size > 0 && split != HLO_UNBOUNDED && split % size != 0,
                      "dimension %lld of size %lld is not divisible by %lld devices", (long long)dimension,
                      (long long)split, (long long)size);
        return same_as_operands(request, 1, result);
    }
    HLO_REFUSE_IF(size > 0 && size != request->operand_count, "%lld operands for groups of %lld devices",
                  (long long)request->operand_count, (long long)size);
    HLO_TRY(same_as_operands(request, request->operand_count, result));
    for (int64_t i = 1; i < request->operand_count; i++) {
        HLO_REFUSE_IF(!hlo_shapes_mix(request->operands[i], request->operands[0]), "operands of shapes %s and %s",
                      hlo_shape_message(request->arena, request->operands[0]),
                      hlo_shape_message(request->arena, request->operands[i]));
    }
    if (request->operand_count == 1) *result = hlo_shape_tuple(request->arena, result, 1);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_collective_broadcast(const HloInferRequest *request, const HloShape **result) {
    return same_as_operands(request, request->operand_count, result);
}

// True for the in-place form: input, output, where to read, where to write; the result is the output.
static bool is_in_place(const HloInferRequest *request) {
    return HLO_INFER_ATTRIBUTES(request, Permute)->slice_sizes.count > 0;
}

// Checks that each slice of each input has a list of sizes, one for each dimension.
static HloStatus check_slice_sizes(const HloInferRequest *request) {
    const HloIntsList lists = HLO_INFER_ATTRIBUTES(request, Permute)->slice_sizes;
    const HloShape *input = request->operands[0];
    const bool tuple = hlo_shape_is_tuple(input);
    int64_t used = 0;
    for (int32_t i = 0; i < (tuple ? input->element_count : 1); i++) {
        const HloShape *from = tuple ? input->elements[i] : input;
        const int64_t slices = tuple ? hlo_permute_slices(request->operands[2], i) : lists.count;
        for (int64_t j = 0; j < slices; j++, used++) {
            HLO_REFUSE_IF(used >= lists.count, "%lld lists of slice sizes are not enough", (long long)lists.count);
            const HloInts sizes = lists.items[used];
            HLO_REFUSE_IF(sizes.count != from->rank, "%lld slice sizes for %s", (long long)sizes.count,
                          hlo_shape_message(request->arena, from));
            for (int64_t d = 0; d < sizes.count; d++)
                HLO_REFUSE_IF(sizes.items[d] < 0 || (from->dims[d] >= 0 && sizes.items[d] > from->dims[d]),
                              "slice size %lld in dimension %lld of %s", (long long)sizes.items[d], (long long)d,
                              hlo_shape_message(request->arena, from));
        }
    }
    HLO_REFUSE_IF(used != lists.count, "%lld lists of slice sizes for %lld slices", (long long)lists.count,
                  (long long)used);
    return HLO_SUCCESS;
}

// Checks for arrays, or tuples of the same length on both sides; indices are integers.
static HloStatus check_in_place(const HloInferRequest *request) {
    HLO_REFUSE_IF(request->operand_count != 4, "the in-place form has 4 operands, not %lld",
                  (long long)request->operand_count);
    const HloShape *input = request->operands[0], *output = request->operands[1];
    const bool tuples = hlo_shape_is_tuple(input) && hlo_shape_is_tuple(output);
    const int32_t count = tuples ? input->element_count : 1;
    HLO_REFUSE_IF(tuples && count != output->element_count, "%d inputs for %d outputs", (int)count,
                  (int)output->element_count);
    for (int32_t i = 0; i < count; i++) {
        const HloShape *from = tuples ? input->elements[i] : input, *to = tuples ? output->elements[i] : output;
        HLO_REFUSE_IF(!hlo_shape_is_array(from) || from->type != to->type, "input %s for output %s",
                      hlo_shape_message(request->arena, from), hlo_shape_message(request->arena, to));
    }
    return check_slice_sizes(request);
}

HloStatus hlo_infer_collective_permute(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_COLLECTIVE_PERMUTE);
    if (!is_in_place(request)) return same_as_operands(request, request->operand_count, result);
    HLO_TRY(check_in_place(request));
    *result = hlo_shape_without_layout(request->arena, request->operands[1]);
    return HLO_SUCCESS;
}

// In place, the contexts after the two buffers are those of the hint.
HloStatus hlo_infer_collective_permute_start(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_COLLECTIVE_PERMUTE_START);
    const HloShape *results = NULL;
    if (!is_in_place(request)) {
        HLO_TRY(same_as_operands(request, request->operand_count, &results));
        return with_operands(request, results, result);
    }
    HLO_TRY(check_in_place(request));
    HloInferRequest buffers = *request;
    buffers.operand_count = 1;
    return with_operands(&buffers, hlo_shape_without_layout(request->arena, request->operands[1]), result);
}

HloStatus hlo_infer_ragged_all_to_all(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RAGGED_ALL_TO_ALL);
    HLO_REFUSE_IF(request->operand_count != 6, "takes 6 operands, but has %lld", (long long)request->operand_count);
    HLO_TRY(hlo_infer_need_arrays(request));
    for (int64_t i = 2; i < 6; i++) {
        HLO_REFUSE_IF(!hlo_type_is_integer(request->operands[i]->type), "operand %lld must be integers, not %s",
                      (long long)i, hlo_shape_message(request->arena, request->operands[i]));
        HLO_REFUSE_IF(!hlo_shape_equal(request->operands[i], request->operands[2], HLO_COMPARE_IGNORE_LAYOUT),
                      "offsets and sizes of shapes %s and %s", hlo_shape_message(request->arena, request->operands[2]),
                      hlo_shape_message(request->arena, request->operands[i]));
    }
    HLO_REFUSE_IF(request->operands[0]->type != request->operands[1]->type, "operands of element types %s and %s",
                  hlo_type_text(request->operands[0]->type), hlo_type_text(request->operands[1]->type));
    *result = hlo_shape_without_layout(request->arena, request->operands[1]);
    return HLO_SUCCESS;
}

// A tuple of two, or of three if `c` is not NULL.
static const HloShape *tuple_of(HloArena *arena, const HloShape *a, const HloShape *b, const HloShape *c) {
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, 3);
    elements[0] = a;
    elements[1] = b;
    elements[2] = c;
    return hlo_shape_tuple(arena, elements, c ? 3 : 2);
}

// Checks that operand `index` is a token.
static HloStatus need_token(const HloInferRequest *request, int64_t index) {
    HLO_REFUSE_IF(request->operands[index]->type != HLO_TOKEN, "operand %lld must be a token, not %s", (long long)index,
                  hlo_shape_message(request->arena, request->operands[index]));
    return HLO_SUCCESS;
}

// (destination, source, context)
HloStatus hlo_infer_copy_start(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_COPY_START);
    assert(request->operand_count == 1);
    const HloShape *operand = hlo_shape_without_layout(request->arena, request->operands[0]);
    const HloShape *hint = request->hint;
    bool hinted = hint && hlo_shape_is_tuple(hint) && hint->element_count == 3;
    const HloShape *context = hinted ? hint->elements[2] : hlo_shape_scalar(request->arena, HLO_U32);
    *result = tuple_of(request->arena, operand, operand, context);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_copy_done(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_COPY_DONE);
    assert(request->operand_count == 1);
    const HloShape *start = request->operands[0];
    HLO_REFUSE_IF(!hlo_shape_is_tuple(start) || start->element_count != 3,
                  "operand 0 must be the result of a copy-start, not %s", hlo_shape_message(request->arena, start));
    *result = start->elements[0];
    return HLO_SUCCESS;
}

HloStatus hlo_infer_send(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SEND);
    assert(request->operand_count == 2);
    HLO_TRY(need_token(request, 1));
    *result = tuple_of(request->arena, request->operands[0], hlo_shape_scalar(request->arena, HLO_U32),
                       hlo_shape_token(request->arena));
    return HLO_SUCCESS;
}

// Checks that the operand is (data, context, token), as returned by send and recv.
static HloStatus need_transfer(const HloInferRequest *request) {
    const HloShape *start = request->operands[0];
    HLO_REFUSE_IF(!hlo_shape_is_tuple(start) || start->element_count != 3 || start->elements[2]->type != HLO_TOKEN,
                  "operand 0 must be (data, context, token), not %s", hlo_shape_message(request->arena, start));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_send_done(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SEND_DONE);
    assert(request->operand_count == 1);
    HLO_TRY(need_transfer(request));
    *result = hlo_shape_token(request->arena);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_recv(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RECV);
    assert(request->operand_count == 1);
    HLO_TRY(need_token(request, 0));
    HLO_TRY(hlo_infer_need_hint(request, false));
    const HloShape *hint = request->hint;
    bool complete = hlo_shape_is_tuple(hint) && hint->element_count == 3 && hint->elements[2]->type == HLO_TOKEN;
    const HloShape *data = complete ? hint->elements[0] : hint;
    *result =
        tuple_of(request->arena, data, hlo_shape_scalar(request->arena, HLO_U32), hlo_shape_token(request->arena));
    return HLO_SUCCESS;
}

HloStatus hlo_infer_recv_done(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_RECV_DONE);
    assert(request->operand_count == 1);
    HLO_TRY(need_transfer(request));
    *result = tuple_of(request->arena, request->operands[0]->elements[0], hlo_shape_token(request->arena), NULL);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_infeed(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_INFEED);
    assert(request->operand_count == 1);
    HLO_TRY(need_token(request, 0));
    HLO_TRY(hlo_infer_need_hint(request, false));
    const HloShape *hint = request->hint;
    bool complete = hlo_shape_is_tuple(hint) && hint->element_count == 2 && hint->elements[1]->type == HLO_TOKEN;
    *result = complete ? hint : tuple_of(request->arena, hint, hlo_shape_token(request->arena), NULL);
    return HLO_SUCCESS;
}

HloStatus hlo_infer_outfeed(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_OUTFEED);
    assert(request->operand_count == 2);
    HLO_TRY(need_token(request, 1));
    const HloShape *shape = HLO_INFER_ATTRIBUTES(request, Outfeed)->shape;
    HLO_REFUSE_IF(shape && !hlo_shapes_mix(shape, request->operands[0]), "outfeed_shape %s for operand %s",
                  hlo_shape_message(request->arena, shape), hlo_shape_message(request->arena, request->operands[0]));
    *result = hlo_shape_token(request->arena);
    return HLO_SUCCESS;
}
