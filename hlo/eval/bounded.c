// SPDX-License-Identifier: Apache-2.0
// Ops on arrays whose actual sizes are smaller than their bounds. A value keeps all elements up to its bounds, and
// handlers see those. This file defines the meaning of an op for the actual elements, in one of three ways:
// - ops that compute one element at a time, and those that copy elements by index, run up to the bounds and keep the
//   sizes: elements beyond the sizes are whatever the same op computes from the padding, as in XLA's padded programs;
// - ops that mix elements run on arrays that are sliced to their sizes, which is what the program means, and their
//   results are padded to the bounds again with zeros;
// - calls, tuples and the like pass values on as they are.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/infer.h"

typedef enum Meaning {
    MEANING_UNKNOWN,    // refused
    MEANING_HANDLER,    // the handler supports sizes
    MEANING_POINTWISE,  // run on whole bounds, sizes as those of the operands
    MEANING_BLOCK,      // run on whole bounds, sizes where a whole dimension of operand 0 is taken
    MEANING_ACTUAL,     // run on the actual elements
} Meaning;

// Custom calls with one operand and a result of the same shape are annotations and elementwise functions.
static Meaning meaning_of_call(const HloInstruction *call) {
    const char *target = HLO_ATTRIBUTES(call, CustomCall)->target;
    if (target && !strcmp(target, "PadToStatic")) return MEANING_HANDLER;
    const bool same =
        call->operand_count == 1 && hlo_shape_equal(call->shape, call->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT);
    return same ? MEANING_POINTWISE : MEANING_UNKNOWN;
}

// The meaning of an op on arrays of dynamic size, opcode by opcode. A new op is MEANING_UNKNOWN, and rejected by name,
// until a meaning is chosen for it.
static Meaning meaning_of(const HloInstruction *instruction) {
    if (hlo_eval_forwards_operands(instruction->opcode)) return MEANING_HANDLER;
    switch (instruction->opcode) {
        case HLO_OP_AFTER_ALL:
        case HLO_OP_BROADCAST:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_RESHAPE:
        case HLO_OP_DYNAMIC_RESHAPE:
        case HLO_OP_GET_DIMENSION_SIZE:
        case HLO_OP_SET_DIMENSION_SIZE:
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_SLICE: return MEANING_HANDLER;
        case HLO_OP_CUSTOM_CALL: return meaning_of_call(instruction);
        case HLO_OP_MAP: return MEANING_POINTWISE;
        case HLO_OP_GATHER:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_COLLECTIVE_BROADCAST:
        case HLO_OP_COLLECTIVE_PERMUTE: return MEANING_BLOCK;
        case HLO_OP_REDUCE:
        case HLO_OP_DOT:
        case HLO_OP_CONVOLUTION:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SELECT_AND_SCATTER:
        case HLO_OP_SCATTER:
        case HLO_OP_SORT:
        case HLO_OP_TOPK:
        case HLO_OP_REVERSE:
        case HLO_OP_CONCATENATE:
        case HLO_OP_PAD:
        case HLO_OP_BITCAST_CONVERT:
        case HLO_OP_FFT:
        case HLO_OP_CHOLESKY:
        case HLO_OP_TRIANGULAR_SOLVE:
        case HLO_OP_BATCH_NORM_TRAINING:
        case HLO_OP_BATCH_NORM_INFERENCE:
        case HLO_OP_BATCH_NORM_GRAD: return MEANING_ACTUAL;
        default: return hlo_op_is(instruction->opcode, HLO_OP_IS_ELEMENTWISE) ? MEANING_POINTWISE : MEANING_UNKNOWN;
    }
}

// ---- between bounds and sizes

typedef struct Copy {
    const HloShape *shape;
    const int64_t *sizes;
    const char *from;
    char *to;
    int64_t bytes;  // of an element
    bool pack;
} Copy;

// Copies the part of the array whose first `dim` indices lead to `linear`; `place` counts elements in the dense form.
static void copy_part(const Copy *copy, int32_t dim, int64_t linear, int64_t *place) {
    const HloShape *shape = copy->shape;
    if (dim + 1 < shape->rank) {
        for (int64_t i = 0; i < copy->sizes[dim]; i++)
            copy_part(copy, dim + 1, linear * shape->dims[dim + 1] + i * shape->dims[dim + 1], place);
        return;
    }
    const int64_t run = shape->rank ? copy->sizes[dim] : 1;
    const int64_t to = copy->pack ? *place : linear, from = copy->pack ? linear : *place;
    memcpy(copy->to + to * copy->bytes, copy->from + from * copy->bytes, (size_t)(run * copy->bytes));
    *place += run;
}

void hlo_eval_copy_actual(const HloShape *shape, const int64_t *sizes, const void *from, void *to, bool pack) {
    assert(hlo_shape_is_array(shape) && (sizes || shape->rank == 0));
    int64_t place = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        assert(sizes[d] >= 0 && sizes[d] <= shape->dims[d]); /* the callers have compared them with the bounds */
        if (sizes[d] == 0) return;
    }
    const Copy copy = {shape, sizes, from, to, hlo_type_bytes(shape->type), pack};
    copy_part(&copy, 0, 0, &place);
}

// Copies the elements below `sizes` to an array of exactly that size.
static HloStatus shrink(HloEvalDevice *device, const HloEvalValue *value, const int64_t *sizes, HloEvalValue **result) {
    const HloShape *shape = hlo_shape_with_dims(device->scratch, value->shape, sizes, value->shape->rank);
    HLO_TRY(hlo_eval_new(device, shape, result));
    hlo_eval_copy_actual(value->shape, sizes, value->data, (*result)->data, true);
    return HLO_SUCCESS;
}

// Pads an array to the bounds of `shape` with zeros. Takes over the reference.
static HloStatus spread_out(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue *value,
                            const HloShape *shape, HloEvalValue **result) {
    if (value->elements) {
        HLO_TRY(hlo_eval_new(device, shape, result));
        for (int32_t i = 0; i < shape->element_count; i++)
            HLO_TRY(spread_out(device, instruction, hlo_eval_retain(value->elements[i]), shape->elements[i],
                               &(*result)->elements[i]));
        hlo_eval_release(device, value);
        return HLO_SUCCESS;
    }
    for (int32_t d = 0; d < shape->rank; d++) {
        const int64_t size = value->shape->dims[d];
        const bool fits = shape->dynamic && shape->dynamic[d] ? size <= shape->dims[d] : size == shape->dims[d];
        HLO_FAIL_IF(!fits, HLO_INVALID_ARGUMENT,
                    "%%%s: dimension %d has size %lld at run time, but was declared as %lld", instruction->name, (int)d,
                    (long long)size, (long long)shape->dims[d]);
    }
    HLO_TRY(hlo_eval_new_zeroed(device, shape, result));
    hlo_eval_copy_actual(shape, value->shape->dims, value->data, (*result)->data, false);
    HLO_TRY(hlo_eval_set_sizes(device, *result, value->shape->dims));
    hlo_eval_release(device, value);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_borrow_argument(HloEvalDevice *device, const HloLiteral *literal, const HloShape *shape,
                                   HloEvalValue **result) {
    assert(literal && shape && result);
    if (hlo_shape_equal(literal->shape, shape, HLO_COMPARE_BOUNDS)) return hlo_eval_borrow(device, literal, result);
    HLO_TRY(hlo_eval_new_zeroed(device, shape, result));
    if (shape->type == HLO_TUPLE) {
        for (int32_t i = 0; i < shape->element_count; i++) {
            hlo_eval_release(device, (*result)->elements[i]);
            (*result)->elements[i] = NULL;
            HLO_TRY(
                hlo_eval_borrow_argument(device, literal->elements[i], shape->elements[i], &(*result)->elements[i]));
        }
        return HLO_SUCCESS;
    }
    hlo_eval_copy_actual(shape, literal->shape->dims, literal->data, (*result)->data, false);
    // As in hlo_eval_borrow(): buffers from the caller may have any upper bits in a byte.
    if (hlo_type_is_integer(shape->type)) hlo_eval_wrap_narrow(shape->type, (*result)->data, hlo_shape_elements(shape));
    return hlo_eval_set_sizes(device, *result, literal->shape->dims);
}

bool hlo_eval_argument_fits(const HloShape *given, const HloShape *wanted) {
    assert(given && wanted);
    if (given->type != wanted->type || given->rank != wanted->rank || given->element_count != wanted->element_count)
        return false;
    for (int32_t i = 0; i < wanted->element_count; i++)
        if (!hlo_eval_argument_fits(given->elements[i], wanted->elements[i])) return false;
    for (int32_t d = 0; d < wanted->rank; d++) {
        const bool bounded = wanted->dynamic && wanted->dynamic[d];
        if (bounded ? given->dims[d] > wanted->dims[d] : given->dims[d] != wanted->dims[d]) return false;
    }
    return true;
}

// ---- ops on the actual elements

// Replaces the sizes of whole dimensions in attributes by the actual sizes; other attributes are unchanged.
static HloStatus actual_shape(HloEvalDevice *device, const HloInstruction *at, const HloShape **shape) {
    const HloShape **operands = HLO_ARENA_NEW(device->scratch, const HloShape *, at->operand_count);
    for (int32_t k = 0; k < at->operand_count; k++) operands[k] = at->operands[k]->shape;
    const HloShape *hint = at->shape;
    if (at->opcode == HLO_OP_BITCAST_CONVERT) {  // a dimension of element parts may be added or removed at the end
        const HloShape *from = operands[0];
        int64_t *dims = HLO_ARENA_NEW(device->scratch, int64_t, hint->rank);
        for (int32_t d = 0; d < hint->rank; d++)
            dims[d] = d < from->rank && hint->dynamic && hint->dynamic[d] ? from->dims[d] : hint->dims[d];
        hint = hlo_shape_with_dims(device->scratch, hint, dims, hint->rank);
    }
    const HloInferRequest request = {.arena = device->scratch,
                                     .opcode = at->opcode,
                                     .operands = operands,
                                     .operand_count = at->operand_count,
                                     .attributes = at->attributes,
                                     .called = at->called,
                                     .called_count = at->called_count,
                                     .hint = hint};
    const HloStatus status = hlo_infer_shape(&request, shape);
    if (!status) return HLO_SUCCESS;
    const HloStatus refused = hlo_error(HLO_INVALID_ARGUMENT, "%%%s (%s) does not fit the sizes of its operands: %s",
                                        at->name, hlo_op_text(at->opcode), hlo_status_message(status));
    hlo_status_free(status);
    return refused;
}

// Whether operand `index` keeps its bounds: the sizes of the array that a scatter writes into do not affect the
// scatter.
static bool stays_whole(const HloInstruction *instruction, int64_t index) {
    return instruction->opcode == HLO_OP_SCATTER && index < (instruction->operand_count - 1) / 2;
}

// Sizes by operand and dimension, to be made equal where an op iterates over operands together.
typedef struct ActualSizes {
    int64_t **items;
} ActualSizes;

// Gives two dimensions that an op iterates over together the smaller of their sizes.
static void join(ActualSizes *sizes, int64_t a, int64_t a_dim, int64_t b, int64_t b_dim) {
    int64_t *left = &sizes->items[a][a_dim], *right = &sizes->items[b][b_dim];
    *left = *right = *left < *right ? *left : *right;
}

// Gives the first `count` operands equal sizes in all dimensions except `apart`. Once joined with each in turn, operand
// 0 has the smallest size of all; the second iteration passes it to the operands that were joined before it was found.
static void join_all(ActualSizes *sizes, const HloInstruction *at, int64_t count, int64_t apart) {
    for (int64_t round = 0; round < 2; round++)
        for (int64_t k = 1; k < count; k++)
            for (int64_t d = 0; d < at->operands[0]->shape->rank; d++)
                if (d != apart) join(sizes, 0, d, k, d);
}

// The updates share their batch dimensions with the indices, and their window dimensions with each other.
static void join_scatter(ActualSizes *sizes, const HloInstruction *at) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(at, Scatter);
    const int64_t arrays = (at->operand_count - 1) / 2;
    for (int64_t round = 0; round < 2; round++)
        for (int64_t v = 0; v < arrays; v++) {
            int64_t batch = 0;
            for (int64_t d = 0; d < at->operands[arrays + 1 + v]->shape->rank; d++) {
                if (hlo_ints_contain(scatter->update_window_dims, d)) {
                    join(sizes, arrays + 1, d, arrays + 1 + v, d);
                    continue;
                }
                if (batch == scatter->index_vector_dim) batch++;
                join(sizes, arrays, batch++, arrays + 1 + v, d);
            }
        }
}

// Joins dimensions of different operands that are one dimension of the op (contracted ones, batches, those that arrays
// of a sort share): they must have one size, so the smaller one is used for both.
static void join_sizes(ActualSizes *sizes, const HloInstruction *at) {
    switch (at->opcode) {
        case HLO_OP_DOT: {
            const HloDotAttributes *dot = HLO_ATTRIBUTES(at, Dot);
            for (int64_t i = 0; i < dot->lhs_batch.count; i++)
                join(sizes, 0, dot->lhs_batch.items[i], 1, dot->rhs_batch.items[i]);
            for (int64_t i = 0; i < dot->lhs_contracting.count; i++)
                join(sizes, 0, dot->lhs_contracting.items[i], 1, dot->rhs_contracting.items[i]);
            return;
        }
        case HLO_OP_CONVOLUTION: {
            const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(at, Convolution);
            if (convolution->feature_group_count > 1 || convolution->batch_group_count > 1) return;
            join(sizes, 0, convolution->labels->input_feature, 1, convolution->labels->kernel_input_feature);
            return;
        }
        case HLO_OP_SORT: join_all(sizes, at, at->operand_count, -1); return;
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW: join_all(sizes, at, at->operand_count / 2, -1); return;
        case HLO_OP_CONCATENATE:
            join_all(sizes, at, at->operand_count, HLO_ATTRIBUTES(at, Dimensions)->dimensions.items[0]);
            return;
        case HLO_OP_SCATTER: join_scatter(sizes, at); return;
        default: return;
    }
}

static HloStatus shrink_operands(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands) {
    const int32_t count = instruction->operand_count;
    ActualSizes sizes = {HLO_ARENA_NEW(device->scratch, int64_t *, count)};
    for (int32_t k = 0; k < count; k++) {
        const int32_t rank = operands[k]->shape->rank;
        sizes.items[k] = HLO_ARENA_NEW(device->scratch, int64_t, rank);
        for (int32_t d = 0; d < rank; d++) sizes.items[k][d] = hlo_eval_size(operands[k], d);
    }
    join_sizes(&sizes, instruction);
    for (int32_t k = 0; k < count; k++) {
        const HloShape *shape = operands[k]->shape;
        if (stays_whole(instruction, k) || !hlo_shape_is_array(shape)) continue;
        if (hlo_ints_equal((HloInts){sizes.items[k], shape->rank}, hlo_shape_dims(shape))) continue;
        HloEvalValue *shrunk;
        HLO_TRY(shrink(device, operands[k], sizes.items[k], &shrunk));
        hlo_eval_release(device, operands[k]);
        operands[k] = shrunk;
    }
    return HLO_SUCCESS;
}

// Runs the op on the actual elements: shape inference sees a copy of the instruction whose operands have their actual
// sizes, so that every handler works unchanged and does not need to know about bounds. Only the handler sees the copy.
// The result is padded to the bounds again.
static HloStatus run_actual(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                            HloEvalValue **result) {
    const int32_t count = instruction->operand_count;
    HloInstruction *at = hlo_arena_copy(device->scratch, instruction, sizeof *instruction);
    at->operands = HLO_ARENA_NEW(device->scratch, HloInstruction *, count);
    // The sizes of the arrays that a scatter writes into, one per result: the handler may take over their values.
    int64_t **kept = HLO_ARENA_NEW(device->scratch, int64_t *, count);
    HLO_TRY(shrink_operands(device, instruction, operands));
    for (int32_t k = 0; k < count; k++) {
        at->operands[k] = hlo_arena_copy(device->scratch, instruction->operands[k], sizeof *instruction);
        at->operands[k]->shape = operands[k]->shape;
        if (!operands[k]->sizes || !stays_whole(instruction, k)) continue;
        kept[k] =
            hlo_arena_copy(device->scratch, operands[k]->sizes, sizeof(int64_t) * (size_t)operands[k]->shape->rank);
    }
    HLO_TRY(actual_shape(device, at, &at->shape));
    HloEvalValue *actual;
    HLO_TRY(hlo_eval_handler(instruction->opcode)(device, at, operands, &actual));
    HLO_TRY(spread_out(device, instruction, actual, instruction->shape, result));
    for (int32_t k = 0; k < count; k++) {
        if (kept[k])
            HLO_TRY(hlo_eval_set_sizes(device, (*result)->elements ? (*result)->elements[k] : *result, kept[k]));
    }
    return HLO_SUCCESS;
}

// ---- ops up to the bounds

// The common size of dimension `dim` of two operands: the smaller one, except that an array of size one broadcasts.
static int64_t meet(int64_t a, int64_t b) {
    const int64_t low = a < b ? a : b, high = a < b ? b : a;
    return low == 1 ? high : low;
}

// Copies the elements at index 0 of dimension `dim` to all other indices.
static void repeat_first(HloEvalValue *value, int32_t dim) {
    const HloShape *shape = value->shape;
    int64_t inner = hlo_type_bytes(shape->type), outer = 1;
    for (int32_t d = 0; d < dim; d++) outer *= shape->dims[d];
    for (int32_t d = dim + 1; d < shape->rank; d++) inner *= shape->dims[d];
    for (int64_t o = 0; o < outer; o++) {
        char *row = (char *)value->data + o * inner * shape->dims[dim];
        for (int64_t i = 1; i < shape->dims[dim]; i++) memcpy(row + i * inner, row, (size_t)inner);
    }
}

// In each dimension the result is as large as the smallest operand that has a dynamic size there. A size of 1 yields to
// any other, as in StableHLO's implicit broadcasts: its element is repeated first.
static HloStatus run_pointwise(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    const HloShape *shape = instruction->shape;
    if (!hlo_shape_is_array(shape)) return hlo_eval_handler(instruction->opcode)(device, instruction, operands, result);
    int64_t *sizes = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++) {
        int64_t size = -1;
        for (int32_t k = 0; k < instruction->operand_count; k++) {
            const HloShape *from = operands[k]->shape;
            if (from->rank != shape->rank || !from->dynamic || !from->dynamic[d]) continue;
            const int64_t own = hlo_eval_size(operands[k], d);
            size = size < 0 ? own : meet(size, own);
        }
        sizes[d] = size < 0 ? shape->dims[d] : size;
    }
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        for (int32_t d = 0; operands[k]->sizes && d < shape->rank; d++) {
            if (operands[k]->sizes[d] != 1 || sizes[d] <= 1) continue;
            HloEvalValue *copy;
            HLO_TRY(hlo_eval_copy_value(device, operands[k], &copy));
            repeat_first(copy, d);
            copy->sizes[d] = sizes[d];
            hlo_eval_release(device, operands[k]);
            operands[k] = copy;
        }
    }
    HLO_TRY(hlo_eval_handler(instruction->opcode)(device, instruction, operands, result));
    return hlo_eval_set_sizes(device, *result, sizes);
}

// The size of dimension `dim` of the result of a gather: a batch dimension has that of the indices, a window dimension
// that of the operand where the window is as large as the operand's bound.
static int64_t gathered_size(const HloInstruction *gather, HloEvalValue *const *operands, int32_t dim) {
    const HloGatherAttributes *numbers = HLO_ATTRIBUTES(gather, Gather);
    const HloEvalValue *operand = operands[0], *indices = operands[1];
    int64_t before = 0;  // offset dimensions before this one
    for (int32_t d = 0; d < dim; d++) before += hlo_ints_contain(numbers->offset_dims, d);
    if (!hlo_ints_contain(numbers->offset_dims, dim)) {
        int64_t batch = dim - before;
        if (numbers->index_vector_dim <= batch && numbers->index_vector_dim < indices->shape->rank) batch++;
        return hlo_eval_size(indices, batch);
    }
    for (int32_t d = 0; d < operand->shape->rank; d++) {
        if (hlo_ints_contain(numbers->collapsed_slice_dims, d) || hlo_ints_contain(numbers->operand_batching_dims, d))
            continue;
        if (before-- > 0) continue;
        const bool whole = numbers->slice_sizes.items[d] == operand->shape->dims[d];
        return whole ? hlo_eval_size(operand, d) : numbers->slice_sizes.items[d];
    }
    return gather->shape->dims[dim];
}

// Leaf `index` of the result keeps the sizes of operand `index`: dimensions with the same bound have the same size.
static HloStatus run_block(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    const HloShape *whole = instruction->shape;
    const int32_t leaves = hlo_shape_is_tuple(whole) ? whole->element_count : 1;
    int64_t **sizes = HLO_EVAL_SCRATCH(device, int64_t *, leaves);
    for (int32_t i = 0; i < leaves; i++) {
        const HloShape *shape = hlo_shape_value(whole, i);
        const HloEvalValue *operand = operands[i < instruction->operand_count ? i : 0];
        sizes[i] = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
        for (int32_t d = 0; d < shape->rank; d++) {
            const bool dynamic = shape->dynamic && shape->dynamic[d], gathers = hlo_is(instruction, HLO_OP_GATHER);
            sizes[i][d] = shape->dims[d];
            if (dynamic && gathers) sizes[i][d] = gathered_size(instruction, operands, d);
            if (!dynamic || gathers) continue;
            if (shape->rank != operand->shape->rank || shape->dims[d] != operand->shape->dims[d])
                return hlo_eval_unsupported(instruction, "splitting a dimension of dynamic size");
            sizes[i][d] = hlo_eval_size(operand, d);
        }
    }
    HLO_TRY(hlo_eval_handler(instruction->opcode)(device, instruction, operands, result));
    for (int32_t i = 0; i < leaves; i++)
        HLO_TRY(hlo_eval_set_sizes(device, hlo_shape_is_tuple(whole) ? (*result)->elements[i] : *result, sizes[i]));
    return HLO_SUCCESS;
}

HloStatus hlo_eval_apply(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                         HloEvalValue **result) {
    assert(instruction && operands && result);
    bool sized = false;
    for (int32_t k = 0; k < instruction->operand_count; k++) sized = sized || operands[k]->sizes;
    if (!sized) return hlo_eval_handler(instruction->opcode)(device, instruction, operands, result);
    switch (meaning_of(instruction)) {
        case MEANING_HANDLER: return hlo_eval_handler(instruction->opcode)(device, instruction, operands, result);
        case MEANING_POINTWISE: return run_pointwise(device, instruction, operands, result);
        case MEANING_BLOCK: return run_block(device, instruction, operands, result);
        case MEANING_ACTUAL: return run_actual(device, instruction, operands, result);
        default: return hlo_eval_unsupported(instruction, "an array of dynamic size");
    }
}
