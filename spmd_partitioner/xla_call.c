// SPDX-License-Identifier: Apache-2.0
// Custom calls that XLA's partitioner knows beside those of hlo/ir/custom_calls.def (xla/service/spmd/
// custom_call_handler.cc). They become ops that compute the same.
//
// Compilers that write HLO for it (Enzyme-JAX) ask for an array in other places of a sharded dimension. XLA takes for
// granted that amounts are smaller than a shard; here they may be as large as the dimension.
//     custom-call(%x), "_SPMDInternalOp_RotateRight", "dimension=0,amount=1"
//         element i is that of %x at i - 1, modulo the size
//     custom-call(%x), "_SPMDInternalOp_MultiRotate", "dimension=0,left_amount=2,right_amount=1"
//         a tuple: %x from 2, from 1, from 0 and from -1 on
//     custom-call(%x), "_SPMDInternalOp_Wrap", "dimension=0,left_amount=2,right_amount=1"
//         %x with its last two elements before it and its first one after it
//     custom-call(%x), "_SPMDInternalOp_MultiSlice",
//         "dimension=0,amount=2,start_indices=[3],limit_indices=[9],strides=[1]"
//         a tuple: the slice of %x, and those that begin and end one and two elements later along the dimension
//     custom-call(%x, %value), "_SPMDInternalOp_MultiPad", "dimension=0,amt=2"
//         a tuple: %x after two, one and no elements of the value, which follow it to the size of the results too
//
// Products of narrow types with a scale for each block, as jax.nn.scaled_matmul makes them:
//     custom-call(%a, %b, %scales_of_a, %scales_of_b), "__op$block_scaled_dot"
//         scaled-dot over the last dimensions, with the first of three as a batch
#include <assert.h>
#include <string.h>

#include "hlo/ir/custom_call.h"
#include "hlo/pass/support.h"
#include "spmd_partitioner/flatten.h"

typedef enum Kind { NONE, ROTATE, ROTATIONS, WRAP, SLICES, PADS } Kind;

// What a call asks for along `dim`. Rotations are by at most the size of the dimension; several slices or pads are
// `left` + 1.
typedef struct Call {
    Kind kind;
    int64_t dim, left, right;
    HloSliceAttributes first;  // the first of several slices
} Call;

static Kind kind_of(const HloInstruction *at) {
    if (!hlo_is(at, HLO_OP_CUSTOM_CALL)) return NONE;
    const char *target = HLO_ATTRIBUTES(at, CustomCall)->target;
    if (!target) return NONE;
    return !strcmp(target, "_SPMDInternalOp_RotateRight")   ? ROTATE
           : !strcmp(target, "_SPMDInternalOp_MultiRotate") ? ROTATIONS
           : !strcmp(target, "_SPMDInternalOp_Wrap")        ? WRAP
           : !strcmp(target, "_SPMDInternalOp_MultiSlice")  ? SLICES
           : !strcmp(target, "_SPMDInternalOp_MultiPad")    ? PADS
                                                            : NONE;
}

// Whether the results are those of such a call.
static bool fits(const HloInstruction *at, const Call *call) {
    const HloShape *shape = at->operands[0]->shape, *result = at->shape;
    if (call->kind == ROTATIONS) {
        if (!hlo_shape_is_tuple(result) || result->element_count != call->left + call->right + 1) return false;
        for (int32_t i = 0; i < result->element_count; i++)
            if (!hlo_shape_equal(result->elements[i], shape, HLO_COMPARE_IGNORE_LAYOUT)) return false;
        return true;
    }
    if (!hlo_shape_is_array(result) || result->rank != shape->rank || result->type != shape->type) return false;
    const int64_t more = call->kind == WRAP ? call->left + call->right : 0;
    for (int32_t d = 0; d < shape->rank; d++)
        if (result->dims[d] != shape->dims[d] + (d == call->dim ? more : 0)) return false;
    return true;
}

// Whether the results are `count` arrays of one shape, of the rank and type of `shape`.
static bool gives_alike(const HloInstruction *at, int64_t count, const HloShape *shape) {
    if (!hlo_shape_is_tuple(at->shape) || count < 1 || at->shape->element_count != count) return false;
    const HloShape *first = at->shape->elements[0];
    for (int32_t i = 0; i < count; i++)
        if (!hlo_shape_equal(at->shape->elements[i], first, HLO_COMPARE_IGNORE_LAYOUT)) return false;
    return hlo_shape_is_array(first) && first->rank == shape->rank && first->type == shape->type &&
           !hlo_shape_is_dynamic(first);
}

// Several slices: all within the array, and as large as the results.
static bool read_slices(const HloInstruction *at, Call *call) {
    const HloShape *shape = at->operands[0]->shape;
    HloArena *arena = at->parent->module->arena;
    int64_t *places = HLO_ARENA_NEW(arena, int64_t, 3 * shape->rank);
    static const char *const names[] = {"start_indices", "limit_indices", "strides"};
    for (int i = 0; i < 3; i++)
        if (!hlo_custom_call_list_option(at, names[i], places + (ptrdiff_t)i * shape->rank, shape->rank)) return false;
    call->first = (HloSliceAttributes){.starts = {places, shape->rank},
                                       .limits = {places + shape->rank, shape->rank},
                                       .strides = {places + 2 * (ptrdiff_t)shape->rank, shape->rank}};
    call->left = hlo_custom_call_option(at, "amount", -1);
    if (call->left < 0 || call->left > shape->dims[call->dim] || !gives_alike(at, call->left + 1, shape)) return false;
    for (int32_t d = 0; d < shape->rank; d++) {
        const int64_t start = places[d], limit = places[shape->rank + d], stride = places[2 * shape->rank + d];
        const int64_t later = d == call->dim ? call->left : 0;
        if (start < 0 || limit < start || limit > shape->dims[d] - later || stride < 1) return false;
        if (at->shape->elements[0]->dims[d] != (limit - start) / stride + ((limit - start) % stride != 0)) return false;
    }
    return true;
}

// Several pads, none of which cuts elements off.
static bool read_pads(const HloInstruction *at, Call *call) {
    const HloShape *shape = at->operands[0]->shape, *value = at->operands[1]->shape;
    call->left = hlo_custom_call_option(at, "amt", -1);
    if (call->left < 0 || call->left >= INT32_MAX || !gives_alike(at, call->left + 1, shape) ||
        !hlo_shape_is_array(value) || value->rank != 0 || value->type != shape->type)
        return false;
    const HloShape *result = at->shape->elements[0];
    for (int32_t d = 0; d < shape->rank; d++)
        if (d == call->dim ? result->dims[d] - call->left < shape->dims[d] : result->dims[d] != shape->dims[d])
            return false;
    return true;
}

// False for other calls, and for those whose shapes and amounts do not fit: they stay as they are.
static bool read_internal(const HloInstruction *at, Call *call) {
    *call = (Call){.kind = kind_of(at)};
    if (call->kind == NONE || at->operand_count != (call->kind == PADS ? 2 : 1) ||
        !hlo_shape_is_array(at->operands[0]->shape))
        return false;
    const HloShape *shape = at->operands[0]->shape;
    call->dim = hlo_custom_call_option(at, "dimension", -1);
    if (call->dim < 0 || call->dim >= shape->rank || hlo_shape_is_dynamic(shape)) return false;
    if (call->kind == SLICES) return read_slices(at, call);
    if (call->kind == PADS) return read_pads(at, call);
    const int64_t size = shape->dims[call->dim];
    if (call->kind == ROTATE) {
        const int64_t amount = hlo_custom_call_option(at, "amount", -1);
        call->right = amount >= 0 && size > 0 ? amount % size : amount;
    } else {
        call->left = hlo_custom_call_option(at, "left_amount", -1);
        call->right = hlo_custom_call_option(at, "right_amount", -1);
    }
    return call->left >= 0 && call->left <= size && call->right >= 0 && call->right <= size && fits(at, call);
}

// Whether operand 2 + `side` has a scale for each block of operand `side`.
static bool has_scales(const HloInstruction *at, int32_t side) {
    const HloShape *shape = at->operands[side]->shape, *scales = at->operands[2 + side]->shape;
    if (!hlo_shape_is_array(shape) || !hlo_shape_is_array(scales) || scales->rank != shape->rank ||
        hlo_shape_is_dynamic(shape) || hlo_shape_is_dynamic(scales))
        return false;
    for (int32_t d = 0; d < shape->rank; d++)
        if (scales->dims[d] <= 0 || shape->dims[d] % scales->dims[d]) return false;
    return true;
}

static bool is_scaled_dot(const HloInstruction *at) {
    const char *target = hlo_is(at, HLO_OP_CUSTOM_CALL) ? HLO_ATTRIBUTES(at, CustomCall)->target : NULL;
    if (!target || strcmp(target, "__op$block_scaled_dot") != 0 || at->operand_count != 4 ||
        !hlo_shape_is_array(at->shape) || !has_scales(at, 0) || !has_scales(at, 1))
        return false;
    const HloShape *lhs = at->operands[0]->shape, *rhs = at->operands[1]->shape;
    const int32_t rank = lhs->rank;
    return (rank == 2 || rank == 3) && rhs->rank == rank && at->shape->rank == rank &&
           lhs->dims[rank - 1] == rhs->dims[rank - 1] && at->shape->dims[rank - 2] == lhs->dims[rank - 2] &&
           at->shape->dims[rank - 1] == rhs->dims[rank - 2] &&
           (rank == 2 || (lhs->dims[0] == rhs->dims[0] && lhs->dims[0] == at->shape->dims[0]));
}

bool spmd_is_xla_call(const HloInstruction *at) {
    Call call;
    return is_scaled_dot(at) || read_internal(at, &call);
}

// Elements [first, first + count) of dimension `dim`, counted modulo its size, before `at`.
static HloInstruction *emit_part(HloInstruction *at, int64_t dim, int64_t first, int64_t count) {
    HloInstruction *array = at->operands[0], *parts[4];
    HloArena *arena = at->parent->module->arena;
    const int64_t size = array->shape->dims[dim];
    int64_t parts_count = 0;
    for (int64_t from = size ? (first % size + size) % size : 0; count > 0; from = 0) {
        const int64_t length = size - from < count ? size - from : count;
        assert(parts_count < (int64_t)HLO_COUNT_OF(parts)); /* three times the array at most, from anywhere in it */
        parts[parts_count] = hlo_pass_slice_along(at, array, dim, from, from + length);
        if (parts[parts_count] != array) hlo_instruction_move_before(parts[parts_count], at);
        parts_count++;
        count -= length;
    }
    if (parts_count == 0) return array;
    int64_t *dims = hlo_arena_copy(arena, array->shape->dims, (size_t)array->shape->rank * sizeof(*dims));
    dims[dim] = 0;
    for (int64_t i = 0; i < parts_count; i++) dims[dim] += parts[i]->shape->dims[dim];
    const HloShape *shape =
        hlo_shape_with_default_layout(arena, hlo_shape_array(arena, array->shape->type, dims, array->shape->rank));
    const HloDimensionsAttributes along = {hlo_ints(arena, &dim, 1)};
    HloInstruction *made = hlo_instruction_new(at->parent, HLO_OP_CONCATENATE, shape, parts, parts_count, &along, NULL);
    made->metadata = at->metadata;
    hlo_instruction_move_before(made, at);
    return made;
}

// Several slices or pads, as a tuple.
static HloInstruction *expand_several(HloInstruction *at, const Call *call) {
    HloArena *arena = at->parent->module->arena;
    const HloShape *shape = at->operands[0]->shape;
    const int64_t count = call->left + 1, dim = call->dim;
    HloInstruction **results = HLO_ARENA_NEW(arena, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *result = at->shape->elements[i];
        if (call->kind == PADS) {
            HloPadDimension *dims = HLO_ARENA_NEW(arena, HloPadDimension, shape->rank);
            dims[dim] = (HloPadDimension){.low = call->left - i,
                                          .high = result->dims[dim] - shape->dims[dim] - (call->left - i)};
            const HloPadAttributes pad = {.padding = {dims, shape->rank}};
            results[i] = hlo_instruction_new(at->parent, HLO_OP_PAD, result, at->operands, 2, &pad, NULL);
        } else {
            const HloInts from = call->first.starts, to = call->first.limits;
            int64_t *starts = hlo_arena_copy(arena, from.items, (size_t)from.count * sizeof(*starts));
            int64_t *limits = hlo_arena_copy(arena, to.items, (size_t)to.count * sizeof(*limits));
            starts[dim] += i;
            limits[dim] += i;
            const HloSliceAttributes slice = {{starts, from.count}, {limits, to.count}, call->first.strides};
            results[i] = hlo_instruction_new(at->parent, HLO_OP_SLICE, result, at->operands, 1, &slice, NULL);
        }
        results[i]->metadata = at->metadata;
        hlo_instruction_move_before(results[i], at);
    }
    return hlo_instruction_new(at->parent, HLO_OP_TUPLE, at->shape, results, count, NULL, NULL);
}

static HloInstruction *expand_internal(HloInstruction *at, const Call *call) {
    const int64_t dim = call->dim;
    if (call->kind == SLICES || call->kind == PADS) return expand_several(at, call);
    if (call->kind != ROTATIONS) {
        const int64_t before = call->kind == WRAP ? call->left : call->right;
        return emit_part(at, dim, -before, at->shape->dims[dim]);
    }
    const int64_t count = call->left + call->right + 1, size = at->operands[0]->shape->dims[dim];
    HloInstruction **results = HLO_ARENA_NEW(at->parent->module->arena, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) results[i] = emit_part(at, dim, call->left - i, size);
    return hlo_instruction_new(at->parent, HLO_OP_TUPLE, at->shape, results, count, NULL, NULL);
}

static HloInstruction *expand_scaled_dot(HloInstruction *at) {
    HloArena *arena = at->parent->module->arena;
    const int64_t batch = 0, last = at->shape->rank - 1;
    HloDotAttributes dot = {.lhs_contracting = hlo_ints(arena, &last, 1), .rhs_contracting = hlo_ints(arena, &last, 1)};
    if (at->shape->rank == 3) dot.lhs_batch = dot.rhs_batch = hlo_ints(arena, &batch, 1);
    return hlo_instruction_new(at->parent, HLO_OP_SCALED_DOT, at->shape, at->operands, 4, &dot, NULL);
}

HloInstruction *spmd_expand_xla_call(HloInstruction *at) {
    assert(spmd_is_xla_call(at));
    Call call;
    HloInstruction *made = read_internal(at, &call) ? expand_internal(at, &call) : expand_scaled_dot(at);
    if (made == at->operands[0]) return made;
    // The call's configuration is its own.
    made->metadata = at->metadata;
    made->sharding = at->sharding;
    made->frontend_attributes = at->frontend_attributes;
    hlo_instruction_move_before(made, at);
    return made;
}
