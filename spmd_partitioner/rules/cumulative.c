// SPDX-License-Identifier: Apache-2.0
// Running totals: each shard accumulates its own elements, the shards' totals are gathered (one element each), and
// every device adds the totals before it. That sends one element a shard, where a window as long as the array would
// gather everything.
//
//     reduce-window(s32[8]), window={size=8 pad=7_0}, add, on 2 devices
//     shards    1 2 3 4    |  5 6 7 8
//     totals    1 3 6 10   |  5 11 18 26     gathered: 10, 26
//     result    1 3 6 10   |  15 21 28 36    10 is added on the second
//
// From the end (pad=0_7) everything is mirrored. The combiner must be add, multiply, minimum or maximum of one operand;
// the init value is combined once at the end, since each device starts from the identity.
#include "spmd_partitioner/rules/cumulative.h"

#include <assert.h>

#include "spmd_partitioner/emit.h"

// A window at every element, without holes.
static bool is_plain(const HloWindowDimension *window) {
    return window->stride == 1 && window->base_dilation == 1 && window->window_dilation == 1;
}

// 1 for a dimension accumulated from its start, -1 from its end, 0 for one that is left alone, 2 for anything else.
static int direction_of(const HloWindowDimension *window, int64_t size) {
    if (!is_plain(window)) return 2;
    if (window->size == 1 && window->padding_low == 0 && window->padding_high == 0) return 0;
    if (window->size != size) return 2;
    if (window->padding_low == size - 1 && window->padding_high == 0) return 1;
    return window->padding_low == 0 && window->padding_high == size - 1 ? -1 : 2;
}

// HLO_OPCODE_COUNT for any computation but these.
static HloOpcode combining_op(const HloInstruction *op) {
    HloOpcode opcode = op->operand_count == 2 ? hlo_computation_binary_opcode(op->called[0]) : HLO_OPCODE_COUNT;
    switch (opcode) {
        case HLO_OP_ADD:
        case HLO_OP_MULTIPLY:
        case HLO_OP_MINIMUM:
        case HLO_OP_MAXIMUM: return opcode;
        default: return HLO_OPCODE_COUNT;
    }
}

// The dimension that is accumulated; -1 if there is not exactly one.
static int32_t accumulated_dimension(const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    const HloShape *shape = op->operands[0]->shape;
    int32_t found = -1;
    for (int32_t d = 0; d < shape->rank; d++) {
        int direction = direction_of(&window->dims[d], shape->dims[d]);
        if (direction == 0) continue;
        if (direction == 2 || found >= 0) return -1;
        found = d;
    }
    return found;
}

// Also used on a choice of factors: a dimension that is not sharded is an ordinary window.
bool spmd_is_cumulative(const HloInstruction *op, const SpmdSharding *sharding) {
    if (combining_op(op) == HLO_OPCODE_COUNT) return false;
    int32_t dim = accumulated_dimension(op);
    return dim >= 0 && sharding->dims[dim].count > 0;
}

// Counts the totals alone: one element along the dimension to each other position.
int64_t spmd_cumulative_bytes(const SpmdPartitioner *partitioner, const HloInstruction *op,
                              const SpmdSharding *sharding) {
    assert(spmd_is_cumulative(op, sharding)); /* there is a dimension that is accumulated and cut */
    const HloShape *global = op->operands[0]->shape;
    const int32_t dim = accumulated_dimension(op);
    int64_t shards = spmd_axes_product(partitioner->mesh, &sharding->dims[dim]);
    int64_t size = spmd_shard_size(global->dims[dim], shards);
    return size ? spmd_times_bytes(spmd_local_bytes(partitioner->mesh, global, sharding) / size, shards - 1) : 0;
}

// The accumulation of the local shard.
static HloInstruction *emit_local(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *operand,
                                  HloInstruction *identity, int32_t dim, bool forward) {
    assert(dim >= 0 && dim < operand->shape->rank);
    HloArena *arena = partitioner->module->arena;
    int64_t size = operand->shape->dims[dim];
    HloWindowDimension *dims = HLO_ARENA_NEW(arena, HloWindowDimension, operand->shape->rank);
    assert(operand->shape->dims[dim] > 0); /* a shard of a cut dimension */
    for (int32_t d = 0; d < operand->shape->rank; d++) {
        dims[d] = (HloWindowDimension){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    }
    dims[dim].size = size;
    *(forward ? &dims[dim].padding_low : &dims[dim].padding_high) = size - 1;
    HloWindow *window = HLO_ARENA_NEW(arena, HloWindow, 1);
    *window = (HloWindow){dims, operand->shape->rank};
    HloInstruction *operands[2] = {operand, identity};
    HloInstruction *made = spmd_clone(partitioner, op, operand->shape, operands, 2);
    HloWindowAttributes attributes = {window};
    hlo_instruction_set_attributes(made, &attributes);
    return made;
}

// What the shards on one side of this device's come to, as an array without dimension `dim`.
static HloInstruction *emit_before(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *totals,
                                   HloInstruction *identity, const SpmdAxes *axes, int32_t dim, bool forward) {
    assert(dim >= 0);
    const HloShape *shape = totals->shape;
    HloArena *arena = partitioner->module->arena;
    HloInstruction *index = spmd_emit_index(partitioner, axes);
    HloInstruction *place = spmd_emit_iota(partitioner, HLO_S32, shape->dims, shape->rank, dim);
    HloInstruction *here = spmd_emit_splat(partitioner, index, shape->dims, shape->rank);
    int32_t side = forward ? HLO_ComparisonDirection_LT : HLO_ComparisonDirection_GT;
    HloInstruction *counts = spmd_emit_compare(partitioner, side, place, here);
    HloInstruction *nothing = spmd_emit_splat(partitioner, identity, shape->dims, shape->rank);
    HloInstruction *operands[2] = {spmd_emit_select(partitioner, counts, totals, nothing), identity};
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank - 1; d++) dims[d] = shape->dims[d < dim ? d : d + 1];
    int64_t reduced = dim;
    HloDimensionsAttributes attributes = {hlo_ints(arena, &reduced, 1)};
    const HloShape *result =
        hlo_shape_with_default_layout(arena, hlo_shape_array(arena, shape->type, dims, shape->rank - 1));
    HloInstruction *made = spmd_emit(partitioner, HLO_OP_REDUCE, result, operands, 2, &attributes);
    HloComputation *called = spmd_called(partitioner, op->called[0]);
    hlo_instruction_set_called(made, &called, 1);
    return made;
}

// Spreads an array without dimension `dim` over that dimension again.
static HloInstruction *emit_spread(SpmdPartitioner *partitioner, HloInstruction *value, const HloShape *shape,
                                   int32_t dim) {
    assert(value->shape->rank == shape->rank - 1); /* one dimension was summed up */
    int64_t *targets = HLO_ARENA_NEW(partitioner->module->arena, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank - 1; d++) targets[d] = d < dim ? d : d + 1;
    HloDimensionsAttributes attributes = {{targets, shape->rank - 1}};
    return spmd_emit(partitioner, HLO_OP_BROADCAST, shape, &value, 1, &attributes);
}

// Padding of the last shard is set to the identity first: mirrored totals would begin with it.
HloStatus spmd_partition_cumulative(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule,
                                    const SpmdAxes *factors, const SpmdSharding *sharding) {
    assert(spmd_is_cumulative(op, sharding)); /* the caller has asked */
    int32_t dim = accumulated_dimension(op);
    const HloShape *global = op->operands[0]->shape;
    bool forward = direction_of(&HLO_ATTRIBUTES(op, Window)->window->dims[dim], global->dims[dim]) == 1;
    HloOpcode opcode = combining_op(op);
    HloInstruction *identity = spmd_emit_identity(partitioner, opcode, global->type);
    HloInstruction *operand = spmd_factor_operand(partitioner, rule, factors, 0).hlo;
    operand = spmd_emit_mask(partitioner, operand, dim, &sharding->dims[dim], global->dims[dim], identity);
    HloInstruction *made = emit_local(partitioner, op, operand, identity, dim, forward);
    int64_t last = forward ? operand->shape->dims[dim] - 1 : 0;
    HloInstruction *total = spmd_emit_slice(partitioner, made, dim, last, last + 1, 1);
    SpmdReason reason = {.op = op, .what = "totals of the shards"};
    HloInstruction *totals = spmd_emit_all_gather(partitioner, total, dim, &sharding->dims[dim], &reason);
    HloInstruction *before = emit_before(partitioner, op, totals, identity, &sharding->dims[dim], dim, forward);
    made = spmd_emit_binary(partitioner, opcode, made, emit_spread(partitioner, before, made->shape, dim));
    HloInstruction *init = spmd_operand_whole(partitioner, 1);
    made = spmd_emit_binary(partitioner, opcode, made,
                            spmd_emit_splat(partitioner, init, made->shape->dims, global->rank));
    spmd_define(partitioner, 0, made, sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
