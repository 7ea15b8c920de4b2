// SPDX-License-Identifier: Apache-2.0
// Top-k: each shard gives its k best with their indices in the whole array; those are gathered, and the k best of them
// are the result. Padding after the last element is set to the value that a top-k takes last.
//
//     topk(f32[10], k=2) on 2 devices    shards   3 9 1 7 4  |  8 2 6 9 5
//     best of each, with indices         9@1 7@3             |  9@8 8@5
//     gathered 9 7 9 8, indices 1 3 8 5  chosen 9@1, 9@8
// Shards are gathered in order and a top-k prefers the earlier of equal elements, so ties are resolved as in the whole
// array. Each shard sends k values and k indices instead of the row. Where the row itself is less, it is gathered; and
// where there are many rows, candidates (or shards of rows, if they are less) are exchanged for those of whole rows,
// and only the winners are sent.
#include <assert.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "spmd_partitioner/emit.h"

static void topk_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_TOPK));
    const HloShape *shape = op->operands[0]->shape;
    for (int32_t d = 0; d + 1 < shape->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
    int32_t along = spmd_rule_factor(rule, SPMD_PERMUTE, shape->dims[shape->rank - 1]);
    rule->factors.items[along].blocked = true;
    spmd_rule_map(rule, 0, shape->rank - 1, along);
}

// The axes of the searched dimension.
static const SpmdAxes *searched_axes(const SpmdRule *rule, const SpmdAxes *factors) {
    const SpmdTensor *array = &rule->tensors[0];
    return &factors[array->dims[array->shape->rank - 1].items[0]];
}

// How the shards' candidates come together.
typedef struct Meeting {
    int32_t dim;   // of the rows, which each device gets a part of; -1: all devices get all candidates
    int64_t cost;  // of the transfers, the winners' included
} Meeting;

// The cheaper way for `bytes` of candidates a device. A dimension of rows must divide evenly among the devices.
static Meeting plan_meeting(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors,
                            int64_t bytes) {
    const SpmdAxes *axes = searched_axes(rule, factors);
    const SpmdAtomSet atoms = spmd_axes_set(axes);
    SpmdCosts *costs = partitioner->plan->costs;
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes);
    const int64_t gathered = spmd_times_bytes(bytes, shards - 1), part = bytes / shards * (shards - 1);
    Meeting best = {-1, spmd_transfer_cost(costs, SPMD_TRANSFER_GATHER, atoms, gathered, false)};
    const SpmdSharding *rows = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, 0);
    const SpmdSharding *wanted = spmd_planned(partitioner, 0);
    for (int32_t d = 0; d + 1 < rows->rank; d++) {
        const int64_t few = spmd_axes_product(partitioner->mesh, &rows->dims[d]),
                      size = rule->tensors[0].shape->dims[d];
        if (!size || size % (few * shards)) continue;
        SpmdAxes joined = rows->dims[d];
        spmd_axes_append(&joined, axes);
        int64_t cost = spmd_transfer_cost(costs, SPMD_TRANSFER_EXCHANGE, atoms, part, false);
        if (!spmd_axes_equal(&joined, &wanted->dims[d]))
            cost = spmd_add_bytes(cost, spmd_transfer_cost(costs, SPMD_TRANSFER_GATHER, atoms, part, false));
        if (cost < best.cost) best = (Meeting){d, cost};
    }
    return best;
}

// What it costs to send the candidates, which are values and indices. What would be no less than the shards themselves
// must not be chosen.
static int64_t topk_moved(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const SpmdAxes *axes = searched_axes(rule, factors);
    const HloShape *array = rule->tensors[0].shape, *places = rule->tensors[spmd_rule_result(rule, 1)].shape;
    if (!axes->count) return 0;
    const int64_t shards = spmd_axes_product(partitioner->mesh, axes);
    const int64_t shard = spmd_shard_size(array->dims[array->rank - 1], shards);
    const int64_t k = hlo_smaller(HLO_ATTRIBUTES(rule->op, TopK)->k, shard);
    const int64_t value = hlo_type_bytes(array->type), pair = value + hlo_type_bytes(places->type);
    if (k * pair >= shard * value || hlo_type_is_complex(array->type)) return SPMD_MOST_BYTES;
    const SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, 0);
    const int64_t rows = spmd_local_bytes(partitioner->mesh, array, sharding) / (shard * value);
    return plan_meeting(partitioner, rule, factors, spmd_times_bytes(rows, k * pair)).cost;
}

// Emits topk(operand) with another k; leaves[0] are the values, leaves[1] their indices.
static void emit_topk(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *operand, int64_t k,
                      HloInstruction **leaves) {
    assert(k >= 0 && leaves);
    HloArena *arena = partitioner->module->arena;
    const int32_t last = operand->shape->rank - 1;
    assert(k <= operand->shape->dims[last]); /* no more than there are */
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, 2);
    shapes[0] = spmd_resized(partitioner, operand->shape, last, k);
    shapes[1] = hlo_shape_with_type(arena, shapes[0], hlo_shape_leaf(op->shape, 1)->type);
    HloInstruction *made = spmd_clone(partitioner, op, hlo_shape_tuple(arena, shapes, 2), &operand, 1);
    HloTopKAttributes attributes = *HLO_ATTRIBUTES(op, TopK);
    attributes.k = k;
    hlo_instruction_set_attributes(made, &attributes);
    spmd_emit_leaves(partitioner, made, leaves);
}

// The scalar that a top-k takes last. Floats are taken in their total order, in which NaNs are beyond the infinities: a
// number would be taken before them. One of the four patterns is the outermost in every floating type: all ones (the
// NaN of most, the finite number of f4e2m1fn), the same without the sign, the sign alone (the NaN of the types whose
// zero has no sign) and zero (the least of the type that has no sign at all).
static HloInstruction *taken_last(SpmdPartitioner *partitioner, HloType type, bool largest) {
    if (!hlo_type_is_float(type)) {
        return spmd_emit_identity(partitioner, largest ? HLO_OP_MAXIMUM : HLO_OP_MINIMUM, type);
    }
    const int bits = hlo_type_info(type)->bits;
    const uint64_t ones = UINT64_MAX >> (64 - bits), sign = UINT64_C(1) << (bits - 1);
    const uint64_t patterns[] = {ones, ones ^ sign, sign, 0};
    uint64_t last = 0;
    int64_t last_key = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(patterns); i++) {
        const double value = hlo_float_decode(type, patterns[i]);
        int64_t key;
        memcpy(&key, &value, sizeof(key));
        if (key < 0) key ^= INT64_MAX;  // integers that are ordered as the floats are
        if (i && (largest ? key >= last_key : key <= last_key)) continue;
        last = patterns[i];
        last_key = key;
    }
    HloArena *arena = partitioner->module->arena;
    HloLiteral *literal = hlo_literal_in_arena(arena, hlo_shape_scalar(arena, type));
    memcpy(literal->data, &last, (size_t)hlo_type_bytes(type));  // by bits: a NaN would lose its own on the way
    HloConstantAttributes attributes = {literal};
    return spmd_emit(partitioner, HLO_OP_CONSTANT, literal->shape, NULL, 0, &attributes);
}

// array[..., places[..., j]] along the last dimension.
static HloInstruction *emit_take(SpmdPartitioner *partitioner, HloInstruction *array, HloInstruction *places) {
    HloArena *arena = partitioner->module->arena;
    int64_t rank = array->shape->rank, last = rank - 1;
    int64_t *numbers = HLO_ARENA_NEW(arena, int64_t, rank), *sizes = HLO_ARENA_NEW(arena, int64_t, rank);
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, rank + 1);
    for (int64_t d = 0; d < rank; d++) {
        numbers[d] = d;
        sizes[d] = array->shape->dims[d] > 0;  // a slice of one where there is one
        dims[d] = places->shape->dims[d];
    }
    dims[rank] = 1;
    HloInts only = hlo_ints(arena, &last, 1);
    HloGatherAttributes attributes = {.collapsed_slice_dims = only,
                                      .start_index_map = only,
                                      .index_vector_dim = rank,
                                      .operand_batching_dims = {numbers, last},
                                      .start_indices_batching_dims = {numbers, last},
                                      .slice_sizes = {sizes, rank}};
    HloInstruction *operands[2] = {array, spmd_emit_reshape(partitioner, places, dims, rank + 1)};
    const HloShape *shape = hlo_shape_with_type(arena, places->shape, array->shape->type);
    assert(array->shape->rank == places->shape->rank); /* rows beside rows */
    return spmd_emit(partitioner, HLO_OP_GATHER, shape, operands, 2, &attributes);
}

// The candidates of all shards: of all rows, or of this device's part of dimension `dim` of them.
static HloInstruction *bring_candidates(SpmdPartitioner *partitioner, HloInstruction *best, const SpmdLocal *searched,
                                        int32_t dim) {
    const SpmdReason reason = {.op = partitioner->op, .what = "candidates of the shards"};
    const int32_t last = best->shape->rank - 1;
    const SpmdAxes *axes = &searched->sharding->dims[last];
    if (dim < 0) return spmd_emit_all_gather(partitioner, best, last, axes, &reason);
    int64_t *dims = hlo_arena_copy(partitioner->arena, searched->global->dims, sizeof(*dims) * (size_t)(last + 1));
    dims[last] = best->shape->dims[last] * spmd_axes_product(partitioner->mesh, axes);
    const HloShape *global = hlo_shape_array(spmd_arena(partitioner), best->shape->type, dims, last + 1);
    SpmdSharding *rows = spmd_sharding_copy(partitioner->arena, searched->sharding);
    spmd_axes_append(&rows->dims[dim], axes);
    rows->dims[last] = (SpmdAxes){0};
    const SpmdLocal candidates = {.hlo = best, .global = global, .sharding = searched->sharding};
    return spmd_reshard(partitioner, candidates, rows, 0, reason).hlo;
}

// The best of each shard, brought together, and the best of those: shards come in order, so equal elements keep theirs.
static HloStatus topk_in_two_stages(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule,
                                    const SpmdAxes *factors) {
    const HloShape *global = op->operands[0]->shape;
    int32_t last = global->rank - 1;
    SpmdLocal local = spmd_factor_operand(partitioner, rule, factors, 0);
    const SpmdAxes *axes = &local.sharding->dims[last];
    const HloTopKAttributes *attributes = HLO_ATTRIBUTES(op, TopK);
    HloInstruction *worst = taken_last(partitioner, global->type, attributes->largest);
    HloInstruction *operand = spmd_emit_mask(partitioner, local.hlo, last, axes, global->dims[last], worst);
    int64_t shard = operand->shape->dims[last], k = attributes->k < shard ? attributes->k : shard;
    HloInstruction *best[2], *chosen[2];
    emit_topk(partitioner, op, operand, k, best);
    HloInstruction *offset =
        spmd_emit_convert(partitioner, spmd_emit_offset(partitioner, axes, shard), best[1]->shape->type);
    offset = spmd_emit_splat(partitioner, offset, best[1]->shape->dims, global->rank);
    best[1] = spmd_emit_binary(partitioner, HLO_OP_ADD, best[1], offset);
    const int64_t bytes = hlo_shape_bytes(best[0]->shape) + hlo_shape_bytes(best[1]->shape);
    const int32_t dim = plan_meeting(partitioner, rule, factors, bytes).dim;
    for (int i = 0; i < 2; i++) best[i] = bring_candidates(partitioner, best[i], &local, dim);
    emit_topk(partitioner, op, best[0], attributes->k, chosen);
    chosen[1] = emit_take(partitioner, best[1], chosen[1]);
    for (int i = 0; i < 2; i++) {
        SpmdSharding *sharding =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, i), factors,
                               spmd_manual_axes(partitioner, op));
        if (dim >= 0) spmd_axes_append(&sharding->dims[dim], axes);
        spmd_define(partitioner, i, chosen[i], sharding, 0, HLO_OPCODE_COUNT);
    }
    return HLO_SUCCESS;
}

// Two stages only where the searched dimension is sharded: spmd_choose() has compared that with rows that are whole,
// gathered or exchanged for a sharding of other dimensions.
static HloStatus topk_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_TOPK));
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    assert(rule && rule->result_count == 2); /* of one array, giving values and places: shape inference has seen them */
    SpmdAxes *factors = spmd_choose(partitioner, rule, true);
    const SpmdLocal array = spmd_operand(partitioner, 0);
    HLO_FAIL_IF(
        hlo_type_is_complex(array.global->type) && array.hlo && array.sharding->dims[array.sharding->rank - 1].count,
        HLO_UNIMPLEMENTED, "complex numbers have no order");
    if (searched_axes(rule, factors)->count) return topk_in_two_stages(partitioner, op, rule, factors);
    HloInstruction *operand = spmd_factor_operand(partitioner, rule, factors, 0).hlo;
    return spmd_emit_by_factors(partitioner, rule, factors, &operand);
}
const SpmdOp spmd_op_topk = {.name = "topk", .rule = topk_rule, .partition = topk_partition, .moved = topk_moved};
