// SPDX-License-Identifier: Apache-2.0
// A stencil over an array whose edges are repeated, mirrored or taken from the other end is written as windows of a
// longer array. That one is cut at other places than the array itself, so that nearly every device sends elements to
// make it, and again for the windows:
//
//     %x = f32[64] of 4 devices, 16 elements each
//     %p = f32[66] concatenate(slice(%x), [63:64], %x, slice(%x), [0:1])      17 elements each
//     %c = f32[64] a window of 3 over %p                                      16 elements each
//     position i needs [16 i, 16 i + 18) of %p, which are [16 i - 1, 16 i + 17) of %x, counted modulo 64:
//     its own elements, and one of each neighbour
//
// So the windows are taken from %x, dimension by dimension: those of the second one from the first one's result, so
// that corners come with it. Dimensions of one element that the program adds for a convolution (f32[1,1,66,66] of
// f32[66,66]) are added at the end.
#include "spmd_partitioner/parts/composed.h"

#include <assert.h>

#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/parts/owned.h"
#include "spmd_partitioner/parts/pieces.h"

enum { MOST_DEPTH = 6 };  // of ops that an array is put together of, as far as costs are looked at

struct SpmdComposed {
    const HloInstruction *whole;  // the operand
    const HloInstruction *array;  // the same without added dimensions, to which all below refers
    int32_t *places;              // by dimension: that of `whole`
    SpmdPiecewise pieces;
    SpmdSharding *sharding;
    SpmdInterval *intervals;  // by dimension
    SpmdMoves **moves;        // by dimension; NULL where nothing moves
    int64_t cost, saving;
};

static int64_t positions_along(const SpmdPartitioner *partitioner, const SpmdSharding *sharding, int32_t dim) {
    return spmd_axes_product(partitioner->mesh, &sharding->dims[dim]);
}

// Whether a dimension without axes becomes smaller: then less is sent if it is cut first.
static bool shrinks(const SpmdComposed *composed, int32_t dim) {
    return !composed->sharding->dims[dim].count &&
           composed->array->shape->dims[dim] < composed->pieces.base->shape->dims[dim];
}

// Whether every position has what it needs of a dimension already.
static bool is_there(const SpmdPartitioner *partitioner, const SpmdComposed *composed, int32_t dim) {
    const int64_t size = composed->array->shape->dims[dim];
    const int64_t shard = spmd_shard_size(size, positions_along(partitioner, composed->sharding, dim));
    const SpmdInterval *interval = &composed->intervals[dim];
    const bool own = interval->size == shard && interval->scale == shard && !interval->offset &&
                     interval->divisor == 1 && interval->step == 1 && !interval->shift;
    return own && composed->pieces.base->shape->dims[dim] == size &&
           spmd_pieces_are_whole(&composed->pieces.dims[dim], size);
}

// Whether nothing but `array` needs an op that it is put together of.
static bool is_only_for(const HloInstruction *at, const HloInstruction *array, int32_t depth) {
    if (at == array) return true;
    if (depth == 0 || hlo_instruction_is_root(at)) return false;
    for (int64_t i = 0; i < at->users.count; i++)
        if (!is_only_for(at->users.items[i], array, depth - 1)) return false;
    return true;
}

// What slices and concatenations have sent to put an array together, if nothing else needs them.
static int64_t cost_of_parts(SpmdPartitioner *partitioner, const HloInstruction *at, const HloInstruction *array,
                             int32_t depth) {
    const SpmdRule *rule = partitioner->plan->rules[at->id];
    const SpmdOp *row = spmd_op(at->opcode);
    if (depth == 0 || !rule || !row->moved || !is_only_for(at, array, MOST_DEPTH)) return 0;
    SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), spmd_local(partitioner, at, 0)->sharding,
                      factors);
    const HloInstruction *op = partitioner->op;
    partitioner->op = at;
    int64_t cost = row->moved(partitioner, rule, factors);
    partitioner->op = op;
    if (hlo_is(at, HLO_OP_SLICE)) cost = spmd_add_bytes(cost, spmd_owned_cost(partitioner, at));
    for (int32_t i = 0; i < at->operand_count; i++)
        if (hlo_is(at, HLO_OP_CONCATENATE) || i == 0)
            cost = spmd_add_bytes(cost, cost_of_parts(partitioner, at->operands[i], array, depth - 1));
    return cost;
}

// Plans the moves along each sharded dimension, and adds up what they cost. `dims` are the sizes that the array on one
// device has by then.
static bool plan_moves(SpmdPartitioner *partitioner, SpmdComposed *composed, int64_t *dims) {
    const HloShape *base = composed->pieces.base->shape;
    for (int32_t d = 0; d < base->rank; d++) {
        const SpmdAxes *axes = &composed->sharding->dims[d];
        if (!axes->count || is_there(partitioner, composed, d)) continue;
        SpmdMoves *moves = spmd_pieces_moves(partitioner, &composed->pieces.dims[d], base->dims[d],
                                             &composed->intervals[d], spmd_axes_product(partitioner->mesh, axes));
        if (!moves) return false;
        int64_t bytes = spmd_times_bytes(hlo_type_bytes(base->type), moves->sent);
        for (int32_t e = 0; e < base->rank; e++)
            if (e != d) bytes = spmd_times_bytes(bytes, dims[e]);
        const int64_t rounds = moves->rounds - moves->own_rounds;
        composed->cost =
            spmd_add_bytes(composed->cost, spmd_permutes_cost(partitioner->plan->costs, axes, bytes, rounds, false));
        composed->moves[d] = moves;
        dims[d] = composed->intervals[d].size;
    }
    return true;
}

// A plan without moves; NULL for what is no composition.
static SpmdComposed *begin(SpmdPartitioner *partitioner, const HloInstruction *whole, const SpmdSharding *sharding,
                           const SpmdInterval *intervals) {
    HloArena *arena = partitioner->arena;
    SpmdComposed *composed = HLO_ARENA_NEW(arena, SpmdComposed, 1);
    *composed = (SpmdComposed){.whole = whole, .places = HLO_ARENA_NEW(arena, int32_t, whole->shape->rank + 1)};
    composed->array = spmd_without_added(whole, composed->places);
    const int32_t rank = composed->array->shape->rank;
    if (!composed->array->operand_count) return NULL;
    composed->pieces = spmd_piecewise(partitioner, composed->array, HLO_ARENA_NEW(arena, bool, rank + 1));
    if (composed->pieces.base == composed->array || !spmd_local(partitioner, composed->pieces.base, 0)->hlo)
        return NULL;
    composed->sharding = spmd_sharding_new(arena, rank, sharding->manual);
    composed->intervals = HLO_ARENA_NEW(arena, SpmdInterval, rank + 1);
    composed->moves = HLO_ARENA_NEW(arena, SpmdMoves *, rank + 1);
    for (int32_t d = 0; d < rank; d++) {
        composed->sharding->dims[d] = sharding->dims[composed->places[d]];
        composed->intervals[d] = intervals[composed->places[d]];
    }
    // An added dimension is not sharded.
    return spmd_sharding_used(composed->sharding) == spmd_sharding_used(sharding) ? composed : NULL;
}

SpmdComposed *spmd_composed_plan(SpmdPartitioner *partitioner, const HloInstruction *array, int64_t users,
                                 const SpmdSharding *sharding, const SpmdInterval *intervals) {
    assert(array && sharding && intervals);
    if (!array->operand_count || !hlo_shape_is_array(array->shape) || hlo_shape_is_dynamic(array->shape) ||
        !hlo_shape_elements(array->shape) || sharding->unreduced)
        return NULL;
    SpmdComposed *composed = begin(partitioner, array, sharding, intervals);
    if (!composed) return NULL;
    const HloShape *base = composed->pieces.base->shape;
    composed->cost = spmd_form_cost(partitioner, spmd_local(partitioner, composed->pieces.base, 0), composed->sharding);
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, base->rank + 1);
    for (int32_t d = 0; d < base->rank; d++)
        dims[d] = shrinks(composed, d)
                      ? composed->array->shape->dims[d]
                      : spmd_shard_size(base->dims[d], positions_along(partitioner, composed->sharding, d));
    if (!plan_moves(partitioner, composed, dims)) return NULL;
    const bool only = array->users.count == users && !hlo_instruction_is_root(array) &&
                      (array == composed->array || is_only_for(composed->array, array, 1));
    if (only) composed->saving = cost_of_parts(partitioner, composed->array, composed->array, MOST_DEPTH);
    return composed;
}

int64_t spmd_composed_cost(const SpmdComposed *composed) {
    return composed->cost;
}

int64_t spmd_composed_saving(const SpmdComposed *composed) {
    return composed->saving;
}

// The dimensions without axes, either those that become smaller or all others.
static HloInstruction *emit_whole_dims(SpmdPartitioner *partitioner, const SpmdComposed *composed, HloInstruction *made,
                                       bool smaller) {
    const HloShape *shape = composed->array->shape;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (composed->sharding->dims[d].count || shrinks(composed, d) != smaller) continue;
        const SpmdPieces *pieces = &composed->pieces.dims[d];
        if (made->shape->dims[d] == shape->dims[d] && spmd_pieces_are_whole(pieces, shape->dims[d])) continue;
        made = spmd_emit_pieces(partitioner, made, d, pieces, shape->dims[d]);
    }
    return made;
}

HloInstruction *spmd_emit_composed(SpmdPartitioner *partitioner, const SpmdComposed *composed, const bool *windowed,
                                   HloInstruction *fill, const SpmdReason *reason) {
    const SpmdLocal *local = spmd_local(partitioner, composed->pieces.base, 0);
    const SpmdSharding *sharding = composed->sharding;
    HloInstruction *made = spmd_reshard(partitioner, *local, sharding, 0, *reason).hlo;
    made = emit_whole_dims(partitioner, composed, made, true);
    for (int32_t d = 0; d < sharding->rank; d++)
        if (composed->moves[d])
            made = spmd_emit_moves(partitioner, made, d, &sharding->dims[d], composed->moves[d],
                                   composed->intervals[d].size, reason);
    made = emit_whole_dims(partitioner, composed, made, false);
    for (int32_t d = 0; d < sharding->rank && windowed; d++)
        if (windowed[composed->places[d]])
            made = spmd_emit_fill_outside(partitioner, made, d, &sharding->dims[d], &composed->intervals[d],
                                          composed->array->shape->dims[d], fill);
    if (composed->whole == composed->array) return made;
    const int32_t rank = composed->whole->shape->rank;
    int64_t *sizes = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + 1);
    for (int32_t d = 0; d < rank; d++) sizes[d] = 1;
    for (int32_t d = 0; d < composed->array->shape->rank; d++) sizes[composed->places[d]] = made->shape->dims[d];
    return spmd_emit_reshape(partitioner, made, sizes, rank);
}
