// SPDX-License-Identifier: Apache-2.0
// Slice, pad, reverse and concatenate: dimensions that they do not change are local; along the others each device
// fetches what it lacks from its neighbours.
//
// Each of them is an interval of the operand for every shard of the result: a slice begins further on, a pad earlier
// (in holes, if it puts some between elements), a reversal counts backwards. spmd_emit_window() fetches the interval,
// and the remaining local work is the same op without its offset. Concatenation has several sources and plans its moves
// itself.
//
// Where shard i of the result (s elements) begins in the operand (n elements), and how many it takes there:
//     slice [a:b:t]          t s i + a              (s - 1) t + 1
//     pad lo, hi, inside k   (s i - lo) / (k + 1)   about s / (k + 1); the remainder is the phase
//     reverse                n - s (i + 1)          s
//
//     concatenate of sharded %a, %b: every device sends from a local array "shard of %a, shard of %b"
//     position i needs [s i, s i + s) of the result; the parts in %a and in %b are separate moves (moves.c)
// A concatenation of parts of an array, as jnp.roll is lowered to, is assembled of that array (assemble.h).
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "spmd_partitioner/chain.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"
#include "spmd_partitioner/parts/assemble.h"
#include "spmd_partitioner/parts/halo.h"
#include "spmd_partitioner/parts/owned.h"
#include "spmd_partitioner/parts/pieces.h"
#include "spmd_partitioner/parts/split.h"

// Whether a slice keeps a dimension as it is: then any sharding of it will do.
static bool is_whole(const HloSliceAttributes *slice, const HloShape *operand, int32_t dim) {
    return slice->starts.items[dim] == 0 && slice->limits.items[dim] == operand->dims[dim] &&
           (!slice->strides.count || slice->strides.items[dim] == 1);
}

// Adds a factor for one dimension of operand 0 and of the result.
static void add_dim(SpmdRule *rule, int32_t dim, SpmdFactorKind kind) {
    int32_t result = spmd_rule_result(rule, 0);
    int64_t size = rule->tensors[result].shape->dims[dim];
    int32_t factor = spmd_rule_factor(rule, kind, size);
    spmd_rule_map(rule, 0, dim, factor);
    spmd_rule_map(rule, result, dim, factor);
}

// What all windowed ops of this file share: the operand in the chosen sharding, and the axes of windowed dimensions.
typedef struct Windowed {
    const SpmdRule *rule;
    SpmdAxes *factors;
    SpmdLocal operand;
    SpmdSharding *sharding;  // of the result
    const HloShape *shape;   // local, of the result
    SpmdReason reason;
} Windowed;

// True if dimension `dim` is windowed and sharded.
// Each dimension here has exactly one factor (add_dim).
static bool moves(const Windowed *windowed, int32_t dim) {
    int32_t factor = windowed->rule->tensors[0].dims[dim].items[0];
    return windowed->rule->factors.items[factor].kind == SPMD_PERMUTE && windowed->sharding->dims[dim].count;
}

// A dimension that is windowed may still stay whole: spmd_choose() decides, by the bytes that its neighbours' edges
// would cost.
static Windowed begin_with(SpmdPartitioner *partitioner, const HloInstruction *op, SpmdAxes *factors) {
    Windowed windowed = {.rule = partitioner->plan->rules[op->id],
                         .factors = factors,
                         .reason = {.op = op, .what = "neighbours' elements"}};
    windowed.sharding =
        spmd_rule_sharding(windowed.rule, partitioner->arena, partitioner->mesh, spmd_rule_result(windowed.rule, 0),
                           windowed.factors, spmd_manual_axes(partitioner, op));
    windowed.shape = spmd_local_shape(partitioner->module->arena, partitioner->mesh, op->shape, windowed.sharding);
    bool *moved = HLO_ARENA_NEW(partitioner->arena, bool, op->shape->rank);
    for (int32_t d = 0; d < op->shape->rank; d++) moved[d] = moves(&windowed, d);
    windowed.operand = spmd_windowed_operand(partitioner, windowed.rule, factors, 0, moved);
    return windowed;
}

static Windowed begin(SpmdPartitioner *partitioner, const HloInstruction *op, bool windows) {
    return begin_with(partitioner, op, spmd_choose(partitioner, partitioner->plan->rules[op->id], windows));
}

// Takes the window of one dimension; the next dimension works on its result.
static void take_window(SpmdPartitioner *partitioner, Windowed *windowed, int32_t dim, SpmdIntervalOf interval_of,
                        HloInstruction *fill) {
    const SpmdInterval interval = interval_of(partitioner->mesh, windowed->rule->op, dim,
                                              &windowed->sharding->dims[dim], windowed->shape->dims[dim]);
    windowed->operand.hlo = spmd_emit_window(partitioner, windowed->operand, dim, &windowed->sharding->dims[dim],
                                             interval, fill, &windowed->reason);
}

int64_t spmd_slice_stride(const HloInstruction *op, int32_t dim) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    const int64_t stride = slice->strides.count ? slice->strides.items[dim] : 1;
    const int64_t size = op->operands[0]->shape->dims[dim];
    return size > 0 && stride > size ? size : stride;
}

// Shard number i of the result begins at element i * size, which is element start + stride * i * size of the operand,
// and its last element is (size - 1) strides further.
static SpmdInterval slice_interval(const SpmdMesh *mesh, const HloInstruction *op, int32_t dim, const SpmdAxes *axes,
                                   int64_t size) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    const int64_t stride = spmd_slice_stride(op, dim);
    (void)mesh;
    (void)axes;
    SpmdInterval interval =
        spmd_interval(stride * size, slice->starts.items[dim], 1, size ? (size - 1) * stride + 1 : 0);
    interval.end = slice->limits.items[dim];
    return interval;
}

// Bytes that one device sends for its windows.
static int64_t slice_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    return spmd_windowed_bytes(partitioner, rule, 0, factors, slice_interval);
}

// The factor has the result's size, which is smaller than the operand's: shards of both are split by the same axes, and
// begin at different elements.
static void slice_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *operand = op->operands[0]->shape;
    for (int32_t d = 0; d < operand->rank; d++) {
        add_dim(rule, d, is_whole(HLO_ATTRIBUTES(op, Slice), operand, d) ? SPMD_PASS : SPMD_PERMUTE);
    }
}

// Returns the operand of a slice without trailing padding that the slice does not reach: it need not be made.
static HloInstruction *without_trailing_padding(HloInstruction *operand, const int64_t *limits) {
    if (!hlo_is(operand, HLO_OP_PAD)) return operand;
    const HloShape *inner = operand->operands[0]->shape;
    for (int32_t d = 0; d < inner->rank; d++) {
        const HloPadDimension *pad = &HLO_ATTRIBUTES(operand, Pad)->padding.items[d];
        if (pad->low || pad->interior || limits[d] > inner->dims[d]) return operand;
    }
    return operand->operands[0];
}

// Along windowed dimensions the window holds exactly what the device needs, so the slice there starts at 0; along
// others it is the program's own.
static HloStatus slice_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_SLICE));
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    SpmdAxes *factors = spmd_choose(partitioner, partitioner->plan->rules[op->id], true);
    const HloInstruction *operand = op->operands[0];
    if (hlo_is(operand, HLO_OP_CONCATENATE) && spmd_may_follow(operand) &&
        (spmd_shift(partitioner) || spmd_overlap_composed(partitioner, factors) || spmd_assemble(partitioner, factors)))
        return HLO_SUCCESS;
    if (spmd_split(partitioner, factors) || spmd_overlap(partitioner, factors)) return HLO_SUCCESS;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    const int64_t cost =
        spmd_add_bytes(spmd_factors_cost(partitioner, rule, factors), slice_moved(partitioner, rule, factors));
    if (spmd_broadcast_slice(partitioner, cost)) return HLO_SUCCESS;
    Windowed windowed = begin_with(partitioner, op, factors);
    HloArena *arena = partitioner->module->arena;
    int32_t rank = op->shape->rank;
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, rank), *limits = HLO_ARENA_NEW(arena, int64_t, rank);
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int32_t d = 0; d < rank; d++) {
        strides[d] = spmd_slice_stride(op, d);
        if (moves(&windowed, d)) {
            take_window(partitioner, &windowed, d, slice_interval, NULL);
            limits[d] = windowed.operand.hlo->shape->dims[d];
        } else {
            bool whole = is_whole(slice, op->operands[0]->shape, d);
            starts[d] = slice->starts.items[d];
            limits[d] = whole ? windowed.operand.hlo->shape->dims[d] : slice->limits.items[d];
        }
    }
    windowed.operand.hlo = without_trailing_padding(windowed.operand.hlo, limits);
    HloInstruction *made = spmd_clone(partitioner, op, windowed.shape, &windowed.operand.hlo, 1);
    HloSliceAttributes attributes = {{starts, rank}, {limits, rank}, {strides, rank}};
    hlo_instruction_set_attributes(made, &attributes);
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_slice = {.name = "slice", .rule = slice_rule, .partition = slice_partition, .moved = slice_moved};

static void pad_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_PAD));
    const HloPadding *padding = &HLO_ATTRIBUTES(op, Pad)->padding;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        const HloPadDimension *pad = &padding->items[d];
        bool none = pad->low == 0 && pad->high == 0 && pad->interior == 0;
        add_dim(rule, d, none ? SPMD_PASS : SPMD_PERMUTE);
    }
}

// How many positions of every shard of the result come before its first element, where they are as many in all of them
// and some element follows; 0 elsewhere.
static int64_t leading_holes(const SpmdMesh *mesh, const SpmdAxes *axes, const SpmdInterval *interval, int64_t size) {
    int64_t least, largest;
    spmd_interval_phases(mesh, axes, interval, &least, &largest);
    const int64_t holes = least > 0 && least == largest ? interval->divisor - least : 0;
    return holes < size ? holes : 0;
}

// With interior padding, elements are `interior + 1` apart: a shard begins somewhere between two of them. It needs the
// one before only where another shard begins with an element.
static SpmdInterval pad_interval(const SpmdMesh *mesh, const HloInstruction *op, int32_t dim, const SpmdAxes *axes,
                                 int64_t size) {
    const HloPadDimension *pad = &HLO_ATTRIBUTES(op, Pad)->padding.items[dim];
    SpmdInterval interval = spmd_interval(size, -pad->low, pad->interior + 1, size);
    const int64_t holes = leading_holes(mesh, axes, &interval, size);
    interval.offset += holes;
    int64_t least, largest;
    spmd_interval_phases(mesh, axes, &interval, &least, &largest);
    if (size) interval.size = (size - holes - 1 + largest) / interval.divisor + 1;
    return interval;
}

static int64_t pad_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    return spmd_windowed_bytes(partitioner, rule, 0, factors, pad_interval);
}

// Takes the window of a padded dimension and returns the padding that is left to do inside it: after the last element,
// as far as the shard with the largest phase reaches.
static HloPadDimension take_padded(SpmdPartitioner *partitioner, Windowed *windowed, int32_t dim,
                                   HloInstruction *fill) {
    const SpmdAxes *axes = &windowed->sharding->dims[dim];
    int64_t size = windowed->shape->dims[dim], least, largest;
    const SpmdInterval interval = pad_interval(partitioner->mesh, windowed->rule->op, dim, axes, size);
    spmd_interval_phases(partitioner->mesh, axes, &interval, &least, &largest);
    take_window(partitioner, windowed, dim, pad_interval, fill);
    if (interval.size == 0) return (HloPadDimension){0};
    int64_t spread = (interval.size - 1) * interval.divisor + 1;
    const int64_t holes = interval.offset + HLO_ATTRIBUTES(windowed->rule->op, Pad)->padding.items[dim].low;
    assert(largest + size >= holes + spread); /* the last element taken is one that the shard holds */
    return (HloPadDimension){.low = holes, .high = largest + size - holes - spread, .interior = interval.divisor - 1};
}

// Along a sharded dimension each device takes what its part of the result needs of the operand, with the halo, pads
// that by the largest padding of any device, and slices its own window out of it. Along other dimensions it pads as the
// op does.
static HloStatus pad_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_PAD));
    const HloPadding *padding = &HLO_ATTRIBUTES(op, Pad)->padding;
    if (spmd_shift(partitioner)) return HLO_SUCCESS;
    Windowed windowed = begin(partitioner, op, true);
    HloArena *arena = partitioner->module->arena;
    HloInstruction *operands[2] = {NULL, spmd_operand_whole(partitioner, 1)};
    HloPadDimension *local = HLO_ARENA_NEW(arena, HloPadDimension, op->shape->rank);
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, op->shape->rank);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        const bool sharded = moves(&windowed, d);
        local[d] = sharded ? take_padded(partitioner, &windowed, d, operands[1]) : padding->items[d];
        const int64_t taken = windowed.operand.hlo->shape->dims[d];
        const int64_t between = taken > 1 ? (taken - 1) * local[d].interior : 0;
        dims[d] = sharded ? local[d].low + taken + between + local[d].high : windowed.shape->dims[d];
    }
    operands[0] = windowed.operand.hlo;
    const HloShape *shape = spmd_with_dims(partitioner, windowed.shape, dims);
    HloInstruction *made = spmd_clone(partitioner, op, shape, operands, 2);
    HloPadAttributes attributes = {{local, op->shape->rank}};
    hlo_instruction_set_attributes(made, &attributes);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!moves(&windowed, d) || dims[d] == 0) continue;
        const SpmdAxes *axes = &windowed.sharding->dims[d];
        const SpmdInterval interval = pad_interval(partitioner->mesh, op, d, axes, windowed.shape->dims[d]);
        made = spmd_emit_phase(partitioner, made, d, axes, &interval, windowed.shape->dims[d]);
    }
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_pad = {.name = "pad", .rule = pad_rule, .partition = pad_partition, .moved = pad_moved};

static void reverse_rule(SpmdRule *rule, const HloInstruction *op) {
    HloInts dimensions = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        add_dim(rule, d, hlo_ints_contain(dimensions, d) ? SPMD_PERMUTE : SPMD_PASS);
    }
}

// Shard i of the result is the mirror of the shard as far from the end: intervals run backwards.
static SpmdInterval reverse_interval(const SpmdMesh *mesh, const HloInstruction *op, int32_t dim, const SpmdAxes *axes,
                                     int64_t size) {
    (void)mesh;
    (void)axes;
    return spmd_interval(-size, op->shape->dims[dim] - size, 1, size);
}

// Whether a dimension is reversed and sharded.
static bool is_turned(const HloInstruction *op, const SpmdSharding *sharding, int32_t dim) {
    return sharding->dims[dim].count && hlo_ints_contain(HLO_ATTRIBUTES(op, Dimensions)->dimensions, dim);
}

// An array that is reversed shard by shard, with the padding of its last shards, which then comes first.
static const HloShape *turned_shape(SpmdPartitioner *partitioner, const HloInstruction *op,
                                    const SpmdSharding *sharding) {
    int64_t *dims = hlo_arena_copy(spmd_arena(partitioner), op->shape->dims, sizeof(*dims) * (size_t)op->shape->rank);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        const int64_t shards = spmd_axes_product(partitioner->mesh, &sharding->dims[d]);
        if (is_turned(op, sharding, d)) dims[d] = shards * spmd_shard_size(dims[d], shards);
    }
    return hlo_shape_with_dims(spmd_arena(partitioner), op->shape, dims, op->shape->rank);
}

// What shard i of the result is of that: the elements after the padding.
static SpmdInterval turned_interval(const HloInstruction *op, const HloShape *turned, int32_t dim, int64_t size) {
    return spmd_interval(size, turned->dims[dim] - op->shape->dims[dim], 1, size);
}

// The bytes that a device sends if whole shards change places along all dimensions at once, and their neighbours'
// elements fill up what the padding has shifted.
static int64_t turned_bytes(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *sharding) {
    const HloShape *turned = turned_shape(partitioner, op, sharding);
    int64_t bytes = spmd_local_bytes(partitioner->mesh, op->shape, sharding);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        const int64_t size =
            spmd_shard_size(op->shape->dims[d], spmd_axes_product(partitioner->mesh, &sharding->dims[d]));
        if (is_turned(op, sharding, d))
            bytes = spmd_add_bytes(
                bytes, spmd_window_bytes(partitioner, turned, sharding, d, turned_interval(op, turned, d, size)));
    }
    return bytes;
}

// Dimension by dimension.
static int64_t windowed_bytes(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    return spmd_windowed_bytes(partitioner, rule, 0, factors, reverse_interval);
}

static int64_t reverse_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const SpmdSharding *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, 0);
    const int64_t one_by_one = windowed_bytes(partitioner, rule, factors);
    return hlo_smaller(one_by_one, turned_bytes(partitioner, rule->op, sharding));
}

// Whole shards change places, each is reversed, and then shifted over the padding.
static HloInstruction *turn(SpmdPartitioner *partitioner, const Windowed *windowed) {
    const HloInstruction *op = windowed->rule->op;
    const SpmdSharding *sharding = windowed->sharding;
    SpmdLocal local = {
        .hlo = windowed->operand.hlo, .global = turned_shape(partitioner, op, sharding), .sharding = sharding};
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!is_turned(op, sharding, d)) continue;
        const int64_t shards = spmd_axes_product(partitioner->mesh, &sharding->dims[d]);
        int64_t *sources = HLO_ARENA_NEW(partitioner->arena, int64_t, shards);
        for (int64_t i = 0; i < shards; i++) sources[i] = shards - 1 - i;
        local.hlo =
            spmd_emit_permute(partitioner, local.hlo, spmd_pairs_of_positions(partitioner, &sharding->dims[d], sources),
                              &windowed->reason);
    }
    local.hlo = spmd_clone(partitioner, op, windowed->shape, &local.hlo, 1);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!is_turned(op, sharding, d) || local.global->dims[d] == op->shape->dims[d]) continue;
        const SpmdInterval interval = turned_interval(op, local.global, d, windowed->shape->dims[d]);
        local.hlo = spmd_emit_window(partitioner, local, d, &sharding->dims[d], interval, NULL, &windowed->reason);
    }
    return local.hlo;
}

// The window of a reversed dimension is the mirrored shard in the operand's order; the local op reverses it. Several
// uneven dimensions are turned together where that sends less.
static HloStatus reverse_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_REVERSE));
    Windowed windowed = begin(partitioner, op, true);
    bool uneven = false, sharded = true;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!is_turned(op, windowed.sharding, d)) continue;
        const int64_t shards = spmd_axes_product(partitioner->mesh, &windowed.sharding->dims[d]);
        uneven |= op->shape->dims[d] % shards != 0;
        sharded &= windowed.operand.sharding->dims[d].count > 0;
    }
    HloInstruction *made;
    if (uneven && sharded &&
        turned_bytes(partitioner, op, windowed.sharding) <
            windowed_bytes(partitioner, windowed.rule, windowed.factors)) {
        made = turn(partitioner, &windowed);
    } else {
        for (int32_t d = 0; d < op->shape->rank; d++) {
            if (moves(&windowed, d)) take_window(partitioner, &windowed, d, reverse_interval, NULL);
        }
        made = spmd_clone(partitioner, op, windowed.shape, &windowed.operand.hlo, 1);
    }
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_reverse = {
    .name = "reverse", .rule = reverse_rule, .partition = reverse_partition, .moved = reverse_moved};

// All parts are sharded alike along the concatenated dimension, which has a factor of the result's size. Elements of
// one part rarely stay on their device, so it counts as moved.
static void concatenate_rule(SpmdRule *rule, const HloInstruction *op) {
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    for (int32_t d = 0; d < op->shape->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, d == along ? SPMD_PERMUTE : SPMD_PASS, op->shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}

// Whether shards of part `p` have to be sent: not those of a free one, which is made where it is needed, nor of one
// that every device has whole.
static bool is_sent(SpmdPartitioner *partitioner, int32_t p, int64_t along, const SpmdAxes *axes) {
    return spmd_operand(partitioner, p).hlo && !spmd_has_whole(partitioner, p, (int32_t)along, axes);
}

// Plans the moves along a sharded dimension: every device sends from its shards of all parts, one after the other, but
// for those that are not sent. NULL if the moves cannot be planned. `first` is where the part begins in the result;
// `cut.base` where its shard begins in the array that every device sends from.
static SpmdMoves *plan_parts(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdAxes *axes) {
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0], first = 0;
    int64_t shards = spmd_axes_product(partitioner->mesh, axes);
    int64_t size = spmd_shard_size(op->shape->dims[along], shards);
    SpmdMoves *moves = spmd_moves_new(partitioner->arena, shards);
    SpmdShardedDim sharded = {0};
    for (int32_t p = 0; p < op->operand_count; p++) {
        sharded.global = op->operands[p]->shape->dims[along];
        sharded.shard = spmd_shard_size(sharded.global, shards);
        const bool moved = sharded.global > 0 && is_sent(partitioner, p, along, axes);
        for (int64_t i = 0; moved && i < shards; i++) {
            spmd_moves_add(partitioner->arena, moves, &sharded, i, i * size - first, size, 0);
        }
        if (moved) sharded.base += sharded.shard;
        first += sharded.global;
    }
    return spmd_moves_plan(partitioner->arena, moves) ? moves : NULL;
}

// What the moves send.
static int64_t concatenate_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const HloInstruction *op = rule->op;
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    const SpmdSharding *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, 0);
    const SpmdAxes *axes = &sharding->dims[along];
    if (!axes->count) return 0;
    const SpmdMoves *moves = plan_parts(partitioner, op, axes);
    int64_t bytes = spmd_local_bytes(partitioner->mesh, op->shape, sharding);
    int64_t size = spmd_shard_size(op->shape->dims[along], spmd_axes_product(partitioner->mesh, axes));
    // What cannot be planned must not be chosen: it costs more than the whole array everywhere.
    if (!moves) return hlo_shape_bytes(op->shape);
    if (!size) return 0;
    return spmd_permutes_cost(partitioner->plan->costs, axes, spmd_times_bytes(bytes / size, moves->sent),
                              moves->rounds - moves->own_rounds, false);
}

// Returns this device's `size` elements of an array that starts at `first` of the result: it is there whole, or is made
// so, and is sliced. The start is clamped, so that devices whose shard the part does not reach get padding, which
// choose_by_position() leaves out.
static HloInstruction *extract_part(SpmdPartitioner *partitioner, const Windowed *windowed, int32_t part, int64_t along,
                                    int64_t first, int64_t size) {
    assert(along >= 0 && size >= 0);
    SpmdSharding *whole = spmd_rule_sharding(windowed->rule, partitioner->arena, partitioner->mesh, part,
                                             windowed->factors, windowed->sharding->manual);
    whole->dims[along] = (SpmdAxes){0};
    HloInstruction *array = spmd_operand_as(partitioner, part, whole);
    int64_t length = array->shape->dims[along];
    array = spmd_emit_pad(partitioner, array, along, size, size, NULL);
    HloInstruction *at = spmd_emit_offset(partitioner, &windowed->sharding->dims[along], size);
    HloType type = at->shape->type;
    at = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, at, spmd_emit_scalar(partitioner, type, first - size));
    at = spmd_emit_binary(partitioner, HLO_OP_MAXIMUM, at, spmd_emit_scalar(partitioner, type, 0));
    at = spmd_emit_binary(partitioner, HLO_OP_MINIMUM, at, spmd_emit_scalar(partitioner, type, size + length));
    return spmd_emit_dynamic_slice(partitioner, array, along, at, size);
}

// select(position < first, before, after) along one dimension, by position in the whole result.
static HloInstruction *choose_by_position(SpmdPartitioner *partitioner, const Windowed *windowed, int64_t along,
                                          int64_t first, HloInstruction *before, HloInstruction *after) {
    HloInstruction *inside =
        spmd_emit_before(partitioner, before->shape, along, &windowed->sharding->dims[along], first);
    return spmd_emit_select(partitioner, inside, before, after);
}

// The parts that are sent, brought to where they belong; NULL if there are none.
static HloInstruction *bring_parts(SpmdPartitioner *partitioner, Windowed *windowed, const SpmdMoves *moves) {
    const HloInstruction *op = windowed->rule->op;
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0], count = 0;
    const SpmdAxes *axes = &windowed->sharding->dims[along];
    HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t p = 0; p < op->operand_count; p++) {
        if (!op->operands[p]->shape->dims[along] || !is_sent(partitioner, p, along, axes)) continue;
        parts[count++] = spmd_factor_operand(partitioner, windowed->rule, windowed->factors, p).hlo;
    }
    if (!count) return NULL;
    HloInstruction *all = spmd_emit_concatenate(partitioner, parts, count, along);
    return spmd_emit_moves(partitioner, all, along, &windowed->sharding->dims[along], moves,
                           windowed->shape->dims[along], &windowed->reason);
}

// Along a sharded dimension: the exchanged parts, overlaid by position with the others.
static HloStatus concatenate_sharded(SpmdPartitioner *partitioner, const HloInstruction *op, Windowed *windowed,
                                     const SpmdMoves *moves) {
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0], first = 0;
    int64_t size = windowed->shape->dims[along];
    HloInstruction *made = bring_parts(partitioner, windowed, moves);
    for (int32_t p = 0; p < op->operand_count; p++) {
        int64_t length = op->operands[p]->shape->dims[along];
        if (length > 0 && !is_sent(partitioner, p, along, &windowed->sharding->dims[along])) {
            HloInstruction *part = extract_part(partitioner, windowed, p, along, first, size);
            HloInstruction *after =
                made ? choose_by_position(partitioner, windowed, along, first + length, part, made) : part;
            made = made ? choose_by_position(partitioner, windowed, along, first, made, after) : part;
        }
        first += length;
    }
    assert(made); /* a cut dimension has elements, and some part holds them */
    spmd_define(partitioner, 0, made, windowed->sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}

// In order of preference: assembled of what the operands are parts of, the operands exchanged along the sharded
// dimension, or the factors of the other dimensions, with the concatenated one whole.
static HloStatus concatenate_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_CONCATENATE));
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    if (spmd_shift(partitioner)) return HLO_SUCCESS;
    SpmdAxes *factors = spmd_choose(partitioner, partitioner->plan->rules[op->id], true);
    if (spmd_assemble(partitioner, factors)) return HLO_SUCCESS;
    Windowed windowed = begin_with(partitioner, op, factors);
    const SpmdAxes *axes = &windowed.sharding->dims[along];
    if (axes->count) {
        // Of no elements there is nothing to exchange.
        const SpmdMoves *moves = op->shape->dims[along] ? plan_parts(partitioner, op, axes) : NULL;
        if (moves) return concatenate_sharded(partitioner, op, &windowed, moves);
        windowed = begin(partitioner, op, false);
    }
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    for (int32_t p = 0; p < op->operand_count; p++) {
        operands[p] = spmd_factor_operand(partitioner, windowed.rule, windowed.factors, p).hlo;
    }
    return spmd_emit_by_factors(partitioner, windowed.rule, windowed.factors, operands);
}
const SpmdOp spmd_op_concatenate = {
    .name = "concatenate", .rule = concatenate_rule, .partition = concatenate_partition, .moved = concatenate_moved};
