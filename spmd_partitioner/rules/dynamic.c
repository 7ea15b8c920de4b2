// SPDX-License-Identifier: Apache-2.0
// Dynamic slices and updates. Dimensions taken whole are local. Along a sharded dimension that is indexed, no device
// gathers the operand: a slice is summed from the parts that each device has, an update is written by the devices that
// own its elements. Start indices are clamped to the bounds of the whole array, as the unsharded op does.
//
// A slice of 3 from 5 on, of s32[10] in shards of 5 (devices 0 and 1):
//     device 0   . . . 0 1 2 3 4 . . .     a margin of 3 on each side, of the identity
//     device 1   . . . 5 6 7 8 9 . . .
//     starts     min(max(start - 5 i + 3, 0), 8): 8 on device 0 (only margin), 3 on device 1 (5 6 7)
//     result     the sum of both
// An update at the same index is written at those starts into margins and shard alike, and the margins are sliced off.
//
// Loops are a special case (gather_for_loop): a body that slices a loop-invariant array would sum in every iteration,
// where gathering the array once before the loop (passes/hoist.c) may send less.
#include <assert.h>

#include "hlo/analysis/loop.h"
#include "spmd_partitioner/emit.h"

// A partially taken dimension is a summed factor: each device contributes the elements that it has, and nothing
// elsewhere.
static void dynamic_slice_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_SLICE));
    const HloShape *operand = op->operands[0]->shape;
    for (int32_t d = 0; d < operand->rank; d++) {
        bool whole = operand->dims[d] == op->shape->dims[d];
        int32_t factor = spmd_rule_factor(rule, whole ? SPMD_PASS : SPMD_REDUCE, operand->dims[d]);
        rule->factors.items[factor].blocked = !whole;
        spmd_rule_map(rule, 0, d, factor);
        if (whole) spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
    rule->reduction = spmd_rule_joiner(op->shape->type);
}

// The sizes are those of the local result.
static void dynamic_slice_adjust(const SpmdRule *rule, HloArena *arena, void *attributes,
                                 const HloShape *const *operands, const HloShape *result) {
    HloDynamicSliceAttributes *slice = attributes;
    (void)rule;
    (void)operands;
    slice->sizes = hlo_ints(arena, result->dims, result->rank);
}

// The start of dimension `dim` (operand `index` of the op), clamped to [0, size - taken], as s64 or s32.
// The limit is applied in the index's own type; one that cannot hold it has no index beyond it.
static HloInstruction *clamped_start(SpmdPartitioner *partitioner, int64_t index, int64_t size, int64_t taken) {
    assert(taken <= size); /* shape inference refuses larger slices */
    if (taken == size) return spmd_emit_scalar(partitioner, HLO_S32, 0);
    HloInstruction *start = spmd_operand_whole(partitioner, index);
    // Unsigned indices beyond the signed range would turn negative: clamp in their own type first.
    HloType type = start->shape->type;
    int bits = hlo_type_info(type)->bits - (hlo_type_kind(type) == HLO_KIND_SIGNED);
    if (bits >= 63 || size - taken < (INT64_C(1) << bits)) {
        HloInstruction *limit = spmd_emit_scalar(partitioner, type, size - taken);
        start = spmd_emit_binary(partitioner, HLO_OP_MINIMUM, start, limit);
    }
    if (hlo_type_kind(type) != HLO_KIND_UNSIGNED) {
        start = spmd_emit_binary(partitioner, HLO_OP_MAXIMUM, start, spmd_emit_scalar(partitioner, type, 0));
    }
    return spmd_emit_convert(partitioner, start, spmd_place_type(size));
}

// The position of global index `start` in this device's shard with `margin` elements added before it, clamped to [0,
// shard + margin].
static HloInstruction *shifted_start(SpmdPartitioner *partitioner, HloInstruction *start, const SpmdAxes *axes,
                                     int64_t shard, int64_t margin) {
    assert(shard > 0 && margin >= 0); /* of a cut dimension */
    HloType type = start->shape->type;
    HloInstruction *offset = spmd_emit_convert(partitioner, spmd_emit_offset(partitioner, axes, shard), type);
    HloInstruction *at = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, start, offset);
    at = spmd_emit_binary(partitioner, HLO_OP_ADD, at, spmd_emit_scalar(partitioner, type, margin));
    at = spmd_emit_binary(partitioner, HLO_OP_MAXIMUM, at, spmd_emit_scalar(partitioner, type, 0));
    return spmd_emit_binary(partitioner, HLO_OP_MINIMUM, at, spmd_emit_scalar(partitioner, type, shard + margin));
}

// Converts the start indices to a common type: XLA requires all of one type.
static void unify_indices(SpmdPartitioner *partitioner, HloInstruction **indices, int64_t count) {
    HloType type = HLO_S32;
    for (int64_t i = 0; i < count; i++) {
        if (indices[i]->shape->type == HLO_S64) type = HLO_S64;
    }
    for (int64_t i = 0; i < count; i++) indices[i] = spmd_emit_convert(partitioner, indices[i], type);
}

// Arrays beyond this size are not gathered for the sake of a loop: what a device saves on links it would pay in memory.
enum { GATHERED_ONCE = 64 << 20 };

// How often an op runs on one array: the trip count of the enclosing loop if the op's first operand is invariant in it,
// 1 elsewhere and where the trip count is unknown.
static int64_t iterations_on_one_array(const HloInstruction *op) {
    const HloInstruction *element = op->operands[0];
    if (op->parent->callers.count != 1 || !hlo_is(op->parent->callers.items[0], HLO_OP_WHILE)) return 1;
    if (!hlo_is(element, HLO_OP_GET_TUPLE_ELEMENT) || !hlo_is(element->operands[0], HLO_OP_PARAMETER)) return 1;
    const HloInstruction *loop = op->parent->callers.items[0];
    int64_t iterations = hlo_trip_count(loop);
    bool same = loop->called[1] == op->parent &&
                hlo_loop_element_is_invariant(loop, HLO_ATTRIBUTES(element, TupleIndex)->index);
    return same && iterations > 0 ? iterations : 1;
}

// A loop that slices an array along a sharded dimension sums in every iteration. If that sends more than gathering the
// array once, which passes/hoist.c does before the loop, the factors lose those axes.
static void gather_for_loop(SpmdPartitioner *partitioner, const SpmdRule *rule, SpmdAxes *factors) {
    const HloInstruction *op = rule->op;
    int64_t iterations = iterations_on_one_array(op);
    if (iterations == 1 || !spmd_partial_axes(rule, factors)) return;
    SpmdAxes *whole = hlo_arena_copy(partitioner->arena, factors, (size_t)rule->factors.count * sizeof(*factors));
    for (int64_t f = 0; f < rule->factors.count; f++) {
        if (rule->factors.items[f].kind == SPMD_REDUCE) whole[f] = (SpmdAxes){0};
    }
    const int32_t result = spmd_rule_result(rule, 0);
    const SpmdMesh *mesh = partitioner->mesh;
    int64_t array =
        spmd_local_bytes(mesh, op->operands[0]->shape, spmd_rule_sharding(rule, partitioner->arena, mesh, 0, whole, 0));
    int64_t slice =
        spmd_local_bytes(mesh, op->shape, spmd_rule_sharding(rule, partitioner->arena, mesh, result, whole, 0));
    assert(slice <= array); /* a slice is no larger than what it is taken from */
    if (array > GATHERED_ONCE || 2 * (double)slice * (double)iterations <= (double)array) return;
    for (int64_t f = 0; f < rule->factors.count; f++) factors[f] = whole[f];
}

// The shard gets margins of the identity as wide as the slice on both sides. A slice that begins at the shifted start,
// clamped to shard and margins, then holds this device's elements in their positions and the identity elsewhere,
// whether it lies inside, across a boundary, or on another device altogether.
static HloStatus dynamic_slice_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_SLICE));
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    const HloShape *global = op->operands[0]->shape;
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    gather_for_loop(partitioner, rule, factors);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    operands[0] = spmd_factor_operand(partitioner, rule, factors, 0).hlo;
    bool masked = spmd_partial_axes(rule, factors) != 0;
    HloInstruction *nothing = masked ? spmd_emit_identity(partitioner, rule->reduction, global->type) : NULL;
    for (int32_t d = 0; d < global->rank; d++) {
        int64_t taken = op->shape->dims[d];
        SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, d, factors);
        operands[d + 1] =
            masked ? clamped_start(partitioner, d + 1, global->dims[d], taken) : spmd_operand_whole(partitioner, d + 1);
        if (!axes.count || taken == global->dims[d]) continue;
        int64_t shard = operands[0]->shape->dims[d];
        operands[d + 1] = shifted_start(partitioner, operands[d + 1], &axes, shard, taken);
        operands[0] = spmd_emit_mask(partitioner, operands[0], d, &axes, global->dims[d], nothing);
        operands[0] = spmd_emit_pad(partitioner, operands[0], d, taken, taken, nothing);
    }
    if (masked) unify_indices(partitioner, operands + 1, global->rank);
    return spmd_emit_by_factors(partitioner, rule, factors, operands);
}
const SpmdOp spmd_op_dynamic_slice = {.name = "dynamic-slice",
                                      .rule = dynamic_slice_rule,
                                      .partition = dynamic_slice_partition,
                                      .adjust = dynamic_slice_adjust,
                                      .is_certain = true};

// The update is sharded only along dimensions that it fills. Along others every device needs all of it, and writes the
// elements in its shard.
static void dynamic_update_slice_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_UPDATE_SLICE));
    const HloShape *operand = op->operands[0]->shape, *update = op->operands[1]->shape;
    for (int32_t d = 0; d < operand->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, operand->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
        if (operand->dims[d] == update->dims[d]) spmd_rule_map(rule, 1, d, factor);
    }
}

// As for slices the shard gets margins, here to be overwritten: an update beside the shard, or half in it, goes into a
// margin, and the margins are sliced off again.
static HloStatus dynamic_update_slice_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_UPDATE_SLICE));
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    const HloShape *global = op->shape, *update = op->operands[1]->shape;
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    operands[0] = spmd_factor_operand(partitioner, rule, factors, 0).hlo;
    operands[1] = spmd_factor_operand(partitioner, rule, factors, 1).hlo;
    int64_t *margins = HLO_ARENA_NEW(partitioner->arena, int64_t, global->rank);
    const HloShape *local = operands[0]->shape;
    bool shifted = false;
    for (int32_t d = 0; d < global->rank; d++) {
        const bool cut = spmd_rule_dim_axes(rule, partitioner->mesh, 0, d, factors).count > 0;
        shifted |= cut && update->dims[d] != global->dims[d];
    }
    for (int32_t d = 0; d < global->rank; d++) {
        SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, d, factors);
        operands[d + 2] = shifted ? clamped_start(partitioner, d + 2, global->dims[d], update->dims[d])
                                  : spmd_operand_whole(partitioner, d + 2);
        if (!axes.count || update->dims[d] == global->dims[d]) continue;
        margins[d] = update->dims[d];
        operands[d + 2] = shifted_start(partitioner, operands[d + 2], &axes, local->dims[d], margins[d]);
        operands[0] = spmd_emit_pad(partitioner, operands[0], d, margins[d], margins[d], NULL);
    }
    if (!shifted) return spmd_emit_by_factors(partitioner, rule, factors, operands);
    unify_indices(partitioner, operands + 2, global->rank);
    HloInstruction *made = spmd_clone(partitioner, op, operands[0]->shape, operands, op->operand_count);
    for (int32_t d = 0; d < global->rank; d++) {
        if (margins[d]) made = spmd_emit_slice(partitioner, made, d, margins[d], margins[d] + local->dims[d], 1);
    }
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    SpmdAtomSet sums = spmd_passed_sums(partitioner, op) & ~spmd_factor_atoms(rule, factors);
    spmd_define(partitioner, 0, made, sharding, sums, sums ? HLO_OP_ADD : HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_dynamic_update_slice = {
    .name = "dynamic-update-slice", .rule = dynamic_update_slice_rule, .partition = dynamic_update_slice_partition};
