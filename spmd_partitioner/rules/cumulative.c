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
// Over many shards the totals go in levels: those of each group of neighbours are gathered, and then the totals of the
// groups. 4,096 shards in twelve levels of two send 12 elements instead of 4,095.
//
// From the end (pad=0_7) everything is mirrored. The combiner must be add, multiply, minimum or maximum of one operand;
// the init value is combined once at the end, since each device starts from the identity. Or it is log(exp(a) + exp(b))
// as JAX writes it, from its identity, minus infinity.
#include "spmd_partitioner/rules/cumulative.h"

#include <assert.h>
#include <math.h>

#include "hlo/ir/literal.h"
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

static bool is_of(const HloInstruction *at, HloOpcode opcode, const HloInstruction *a, const HloInstruction *b) {
    return hlo_is(at, opcode) &&
           ((at->operands[0] == a && at->operands[1] == b) ||
            (hlo_op_is(opcode, HLO_OP_IS_COMMUTES) && at->operands[0] == b && at->operands[1] == a));
}

// The operand of a chain of unary ops, from the outside in; NULL if it is none.
static const HloInstruction *under(const HloInstruction *at, const HloOpcode *opcodes, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (!hlo_is(at, opcodes[i])) return NULL;
        at = at->operands[0];
    }
    return at;
}

// Whether a computation of two scalars is select(d != d, a + b, max(a, b) + log1p(exp(-abs(d)))) with d = a - b.
static bool adds_exponentials(const HloComputation *computation) {
    static const HloOpcode chain[] = {HLO_OP_LOG1P, HLO_OP_EXP, HLO_OP_NEGATE, HLO_OP_ABS};
    const HloInstruction *root = computation->root;
    if (computation->parameters.count != 2 || !hlo_is(root, HLO_OP_SELECT)) return false;
    const HloInstruction *a = computation->parameters.items[0], *b = computation->parameters.items[1];
    const HloInstruction *test = root->operands[0], *sum = root->operands[2];
    if (!hlo_is(test, HLO_OP_COMPARE) || !hlo_is(sum, HLO_OP_ADD)) return false;
    const HloInstruction *difference = test->operands[0];
    return is_of(difference, HLO_OP_SUBTRACT, a, b) && test->operands[1] == difference &&
           HLO_ATTRIBUTES(test, Compare)->direction == HLO_ComparisonDirection_NE &&
           is_of(root->operands[1], HLO_OP_ADD, a, b) && is_of(sum->operands[0], HLO_OP_MAXIMUM, a, b) &&
           under(sum->operands[1], chain, HLO_COUNT_OF(chain)) == difference;
}

// Whether a reduce-window adds exponentials of its elements to none.
static bool is_logarithmic(const HloInstruction *op) {
    if (op->operand_count != 2 || !hlo_is(op->operands[1], HLO_OP_CONSTANT)) return false;
    const HloLiteral *init = hlo_constant_literal(op->operands[1]);
    return hlo_type_is_float(op->shape->type) && hlo_literal_get_double(init, 0) == -INFINITY &&
           adds_exponentials(op->called[0]);
}

// What the op's computation makes of two arrays, element by element.
static HloInstruction *emit_combined(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *a,
                                     HloInstruction *b) {
    const HloOpcode opcode = combining_op(op);
    if (opcode != HLO_OPCODE_COUNT) return spmd_emit_binary(partitioner, opcode, a, b);
    const HloComputation *called = op->called[0];
    HloIntMap made = {0};
    hlo_int_map_set(partitioner->arena, &made, (uint64_t)called->parameters.items[0]->id + 1, (intptr_t)a);
    hlo_int_map_set(partitioner->arena, &made, (uint64_t)called->parameters.items[1]->id + 1, (intptr_t)b);
    HloInstruction *last = NULL;
    for (const HloInstruction *at = called->first; at; at = at->next) {
        if (hlo_is(at, HLO_OP_PARAMETER)) continue;
        HloInstruction *operands[3];
        assert(at->operand_count <= 3); /* of a select: adds_exponentials() has looked */
        for (int32_t i = 0; i < at->operand_count; i++)
            operands[i] = (HloInstruction *)(intptr_t)*hlo_int_map_find(&made, (uint64_t)at->operands[i]->id + 1);
        const HloShape *shape = hlo_shape_with_type(spmd_arena(partitioner), a->shape, at->shape->type);
        HloInstruction *emitted =
            spmd_emit(partitioner, at->opcode, shape, operands, at->operand_count, at->attributes);
        hlo_int_map_set(partitioner->arena, &made, (uint64_t)at->id + 1, (intptr_t)emitted);
        if (at == called->root) last = emitted;
    }
    return last;
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
    if (combining_op(op) == HLO_OPCODE_COUNT && !is_logarithmic(op)) return false;
    int32_t dim = accumulated_dimension(op);
    return dim >= 0 && sharding->dims[dim].count > 0;
}

// The axes of one of `levels` groups of totals; the last one is of neighbours.
static SpmdAxes level_axes(const SpmdAxes *axes, int32_t level, int32_t levels) {
    assert(level < levels && levels <= axes->count); /* no level is without axes */
    const SpmdAxes head = spmd_axes_head(axes, axes->count * (level + 1) / levels);
    return spmd_axes_tail(&head, axes->count * level / levels);
}

enum { LEVEL_KERNELS = 2 };  // that a further level takes: the totals of groups, and those on one side

// What the totals cost in so many levels; `row` is the bytes of one shard's.
static int64_t levels_cost(const SpmdPartitioner *partitioner, const SpmdAxes *axes, int64_t row, int32_t levels,
                           bool counts_messages) {
    int64_t cost = spmd_price_cost(partitioner->plan->costs->kernel_price * LEVEL_KERNELS * (levels - 1));
    for (int32_t level = 0; level < levels; level++) {
        const SpmdAxes part = level_axes(axes, level, levels);
        const int64_t bytes = spmd_times_bytes(row, spmd_axes_product(partitioner->mesh, &part) - 1);
        cost = spmd_add_bytes(cost, spmd_transfer_cost(partitioner->plan->costs, SPMD_TRANSFER_GATHER,
                                                       spmd_axes_set(&part), bytes, counts_messages));
    }
    return cost;
}

// In how many levels totals of `row` bytes cost least, with their messages; the fewest of those.
static int32_t best_levels(const SpmdPartitioner *partitioner, const SpmdAxes *axes, int64_t row) {
    int32_t best = 1;
    int64_t least = levels_cost(partitioner, axes, row, 1, true);
    for (int32_t levels = 2; levels <= axes->count; levels++) {
        const int64_t cost = levels_cost(partitioner, axes, row, levels, true);
        if (cost >= least) continue;
        least = cost;
        best = levels;
    }
    return best;
}

// Counts the totals alone: one element along the dimension to each other position of a level.
int64_t spmd_cumulative_bytes(const SpmdPartitioner *partitioner, const HloInstruction *op,
                              const SpmdSharding *sharding) {
    assert(spmd_is_cumulative(op, sharding)); /* there is a dimension that is accumulated and cut */
    const HloShape *global = op->operands[0]->shape;
    const int32_t dim = accumulated_dimension(op);
    const SpmdAxes *axes = &sharding->dims[dim];
    int64_t size = spmd_shard_size(global->dims[dim], spmd_axes_product(partitioner->mesh, axes));
    if (!size) return 0;
    const int64_t row = spmd_local_bytes(partitioner->mesh, global, sharding) / size;
    return levels_cost(partitioner, axes, row, best_levels(partitioner, axes, row), false);
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

// Totals of the shards on one side of this device's in their group; the others' become the identity.
static HloInstruction *emit_side(SpmdPartitioner *partitioner, HloInstruction *totals, HloInstruction *identity,
                                 const SpmdAxes *axes, int32_t dim, bool forward) {
    assert(dim >= 0);
    const HloShape *shape = totals->shape;
    HloInstruction *index = spmd_emit_index(partitioner, axes);
    HloInstruction *place = spmd_emit_iota(partitioner, HLO_S32, shape->dims, shape->rank, dim);
    HloInstruction *here = spmd_emit_splat(partitioner, index, shape->dims, shape->rank);
    int32_t side = forward ? HLO_ComparisonDirection_LT : HLO_ComparisonDirection_GT;
    HloInstruction *counts = spmd_emit_compare(partitioner, side, place, here);
    HloInstruction *nothing = spmd_emit_splat(partitioner, identity, shape->dims, shape->rank);
    return spmd_emit_select(partitioner, counts, totals, nothing);
}

// What totals come to together, as an array without dimension `dim`.
static HloInstruction *emit_together(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *totals,
                                     HloInstruction *identity, int32_t dim) {
    HloArena *arena = partitioner->module->arena;
    const HloShape *shape = totals->shape;
    HloInstruction *operands[2] = {totals, identity};
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

// The total of this shard, `operand`, whose accumulation is `made`. Of a small one the elements are added up again, so
// that the totals can be sent while it is accumulated.
static HloInstruction *emit_total(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *operand,
                                  HloInstruction *made, HloInstruction *identity, int32_t dim, bool forward) {
    const SpmdCosts *costs = partitioner->plan->costs;
    if (spmd_work_price(costs, (double)hlo_shape_bytes(operand->shape), 0) < costs->kernel_price) {
        int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, operand->shape->rank);
        for (int32_t d = 0; d < operand->shape->rank; d++) dims[d] = d == dim ? 1 : operand->shape->dims[d];
        HloInstruction *together = emit_together(partitioner, op, operand, identity, dim);
        return spmd_emit_reshape(partitioner, together, dims, operand->shape->rank);
    }
    const int64_t last = forward ? operand->shape->dims[dim] - 1 : 0;
    return spmd_emit_slice(partitioner, made, dim, last, last + 1, 1);
}

// What the shards on one side of this device's come to, as an array without dimension `dim`, from the total of this
// one. Each level adds those of the groups that it gathers.
static HloInstruction *emit_before(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *total,
                                   HloInstruction *identity, const SpmdAxes *axes, int32_t dim, bool forward) {
    const int64_t row = hlo_shape_bytes(total->shape);
    const int32_t levels = best_levels(partitioner, axes, row);
    const SpmdReason reason = {.op = op, .what = "totals of the shards"};
    HloInstruction *before = NULL;
    for (int32_t level = levels - 1; level >= 0; level--) {
        const SpmdAxes part = level_axes(axes, level, levels);
        HloInstruction *totals = spmd_emit_all_gather(partitioner, total, dim, &part, &reason);
        HloInstruction *side = emit_side(partitioner, totals, identity, &part, dim, forward);
        HloInstruction *here = emit_together(partitioner, op, side, identity, dim);
        before = before ? emit_combined(partitioner, op, here, before) : here;
        if (level == 0) break;
        total = spmd_emit_reshape(partitioner, emit_together(partitioner, op, totals, identity, dim),
                                  total->shape->dims, total->shape->rank);
    }
    return before;
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
    const HloOpcode opcode = combining_op(op);
    HloInstruction *init = spmd_operand_whole(partitioner, 1);
    HloInstruction *identity =
        opcode == HLO_OPCODE_COUNT ? init : spmd_emit_identity(partitioner, opcode, global->type);
    HloInstruction *operand = spmd_factor_operand(partitioner, rule, factors, 0).hlo;
    operand = spmd_emit_mask(partitioner, operand, dim, &sharding->dims[dim], global->dims[dim], identity);
    HloInstruction *made = emit_local(partitioner, op, operand, identity, dim, forward);
    HloInstruction *total = emit_total(partitioner, op, operand, made, identity, dim, forward);
    HloInstruction *before = emit_before(partitioner, op, total, identity, &sharding->dims[dim], dim, forward);
    made = emit_combined(partitioner, op, made, emit_spread(partitioner, before, made->shape, dim));
    if (identity != init)
        made =
            emit_combined(partitioner, op, made, spmd_emit_splat(partitioner, init, made->shape->dims, global->rank));
    spmd_define(partitioner, 0, made, sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
