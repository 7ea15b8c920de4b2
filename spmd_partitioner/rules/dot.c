// SPDX-License-Identifier: Apache-2.0
// Matrix products: batch and free dimensions are local, contracting ones give partial sums.
//
//     f32[B,M,N] dot(f32[B,M,K], f32[B,K,N])    factors B, K, M, N
//     B and M sharded: nothing is sent.  K sharded on both sides: each device has a part of the sum.
//
// Scaled products (scaled-dot) have a scale for each block of neighbours, so that a dimension of n elements in b blocks
// is two factors, b and n / b, of which scales have the first alone: a shard must not split a block. Ragged products
// (ragged-dot) take consecutive runs of one dimension for one group each. Group sizes are data, so a device whose part
// of that dimension begins in the middle of a run works out at run time how much of each run is its own (own_sizes).
#include <assert.h>

#include "hlo/eval/known.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/known.h"

// The result's dimensions are batch, then free ones of the left side, then of the right.
static void dot_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_DOT));
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    const HloShape *lhs = op->operands[0]->shape, *rhs = op->operands[1]->shape;
    int32_t result = spmd_rule_result(rule, 0);
    int64_t at = 0;
    for (int64_t i = 0; i < dot->lhs_batch.count; i++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, lhs->dims[dot->lhs_batch.items[i]]);
        spmd_rule_map(rule, 0, dot->lhs_batch.items[i], factor);
        spmd_rule_map(rule, 1, dot->rhs_batch.items[i], factor);
        spmd_rule_map(rule, result, at++, factor);
    }
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_REDUCE, lhs->dims[dot->lhs_contracting.items[i]]);
        spmd_rule_map(rule, 0, dot->lhs_contracting.items[i], factor);
        spmd_rule_map(rule, 1, dot->rhs_contracting.items[i], factor);
    }
    for (int32_t side = 0; side < 2; side++) {
        const HloShape *shape = side ? rhs : lhs;
        HloInts batch = side ? dot->rhs_batch : dot->lhs_batch;
        HloInts contracting = side ? dot->rhs_contracting : dot->lhs_contracting;
        for (int32_t d = 0; d < shape->rank; d++) {
            if (hlo_ints_contain(batch, d) || hlo_ints_contain(contracting, d)) continue;
            int32_t factor = spmd_rule_factor(rule, SPMD_PASS, shape->dims[d]);
            spmd_rule_map(rule, side, d, factor);
            spmd_rule_map(rule, result, at++, factor);
        }
    }
    rule->reduction = op->shape->type == HLO_PRED ? HLO_OP_OR : HLO_OP_ADD;
}

// ---- products with known weights, most of which are zero

// A product whose side `weights` is known and sharded along free dimension `free` alone, by the axes that the summed
// dimension of the other side, `data`, has.
typedef struct Banded {
    int32_t weights, data;  // operands
    int64_t summed[2];      // their contracting dimensions
    int32_t free;
    SpmdAxes axes;
    SpmdAxes *factors;       // of the result
    SpmdSharding *sharding;  // of the data, with the axes on the summed dimension
    SpmdNeed *need;
    int64_t cost;
} Banded;

// What each part of the free dimension needs of the summed one: where any of its weights is not zero.
static SpmdNeed *need_of_weights(SpmdPartitioner *partitioner, const Banded *banded, const HloInstruction *weights,
                                 const HloLiteral *value) {
    const HloShape *shape = weights->shape;
    const int64_t summed = banded->summed[banded->weights], size = shape->dims[summed];
    const int64_t positions = spmd_axes_product(partitioner->mesh, &banded->axes);
    const int64_t part = spmd_shard_size(shape->dims[banded->free], positions);
    int64_t inner = 1, free_inner = 1;
    for (int64_t d = summed + 1; d < shape->rank; d++) inner *= shape->dims[d];
    for (int32_t d = banded->free + 1; d < shape->rank; d++) free_inner *= shape->dims[d];
    uint8_t *needed = spmd_need_table(partitioner->arena, positions, size);
    if (!needed) return NULL;
    for (int64_t i = 0, count = hlo_shape_elements(shape); i < count; i++) {
        if (hlo_literal_get_double(value, i) == 0) continue;
        needed[i / free_inner % shape->dims[banded->free] / part * size + i / inner % size] = 1;
    }
    return spmd_need_new(partitioner->arena, positions, size, needed, 1);
}

// Looks for the dimension of the weights that the plan shards as the summed dimension of the data is.
static bool find_free(SpmdPartitioner *partitioner, const SpmdRule *rule, Banded *banded) {
    const SpmdTensor *weights = &rule->tensors[banded->weights];
    for (int32_t d = 0; d < weights->shape->rank; d++) {
        const SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, banded->weights, d, banded->factors);
        if (!spmd_axes_equal(&axes, &banded->axes)) continue;
        banded->free = d;
        return d != banded->summed[banded->weights];
    }
    return false;
}

// False if side `weights` is not known, or not sharded so that the data need not be summed over devices.
static bool plan_banded(SpmdPartitioner *partitioner, const SpmdRule *rule, int32_t weights, Banded *banded) {
    const HloInstruction *op = rule->op;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    const int32_t data = 1 - weights;
    const SpmdLocal local = spmd_operand(partitioner, data), other = spmd_operand(partitioner, weights);
    const HloType type = op->operands[weights]->shape->type;
    const bool real = hlo_type_is_float(type) || hlo_type_is_integer(type);
    if (dot->lhs_contracting.count != 1 || dot->lhs_batch.count || !local.hlo || local.partial || other.partial ||
        !real || hlo_shape_is_dynamic(local.global))
        return false;
    *banded = (Banded){.weights = weights, .data = data};
    banded->summed[0] = dot->lhs_contracting.items[0];
    banded->summed[1] = dot->rhs_contracting.items[0];
    banded->axes = local.sharding->dims[banded->summed[data]];
    if (!banded->axes.count) return false;
    banded->factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), spmd_planned(partitioner, 0),
                      banded->factors);
    spmd_rule_resolve(rule, partitioner->mesh, banded->factors);
    if (!find_free(partitioner, rule, banded)) return false;
    const HloLiteral *value = hlo_known_value(partitioner->arena, op->operands[weights], false);
    if (value) banded->need = need_of_weights(partitioner, banded, op->operands[weights], value);
    if (!banded->need) return false;
    const SpmdAtomSet manual = spmd_manual_axes(partitioner, op);
    banded->sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, data, banded->factors, manual);
    banded->sharding->dims[banded->summed[data]] = banded->axes;
    const SpmdSharding *wanted =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, weights, banded->factors, manual);
    banded->cost = spmd_need_cost(partitioner, local.global, banded->sharding, banded->summed[data], banded->need);
    banded->cost = spmd_add_bytes(banded->cost, spmd_form_cost(partitioner, &local, banded->sharding));
    banded->cost = spmd_add_bytes(banded->cost, spmd_form_cost(partitioner, &other, wanted));
    return true;
}

// The weights of this device's run of the summed dimension; those beyond the dimension are zero.
static HloInstruction *weights_of_run(SpmdPartitioner *partitioner, const SpmdRule *rule, const Banded *banded) {
    const SpmdNeed *need = banded->need;
    const int64_t summed = banded->summed[banded->weights];
    HloInstruction *weights = spmd_factor_operand(partitioner, rule, banded->factors, banded->weights).hlo;
    weights = spmd_emit_pad(partitioner, weights, summed, 0, need->size, NULL);
    int64_t *firsts = HLO_ARENA_NEW(partitioner->arena, int64_t, need->positions);
    for (int64_t p = 0; p < need->positions; p++) firsts[p] = need->runs[p].first;
    HloInstruction *first = spmd_emit_look_up(partitioner, &banded->axes, firsts, need->positions);
    return spmd_emit_dynamic_slice(partitioner, weights, summed, first, need->size);
}

// The data of this device's run. What a shorter run leaves undefined meets weights that are zero: it must be a number.
static HloInstruction *data_of_run(SpmdPartitioner *partitioner, const SpmdRule *rule, const Banded *banded) {
    const SpmdNeed *need = banded->need;
    const int64_t summed = banded->summed[banded->data];
    const SpmdReason reason = {.op = rule->op, .what = spmd_operand_name(partitioner, banded->data)};
    const SpmdLocal local =
        spmd_reshard(partitioner, spmd_operand(partitioner, banded->data), banded->sharding, 0, reason);
    HloInstruction *data =
        spmd_emit_moves(partitioner, local.hlo, summed, &banded->axes, need->moves, need->size, &reason);
    int64_t *sizes = HLO_ARENA_NEW(partitioner->arena, int64_t, need->positions);
    bool full = true;
    for (int64_t p = 0; p < need->positions; p++) full &= (sizes[p] = need->runs[p].size) == need->size;
    if (full) return data;
    const HloShape *shape = data->shape;
    const HloType type = spmd_place_type(need->size);
    HloInstruction *count = spmd_emit_iota(partitioner, type, shape->dims, shape->rank, summed);
    HloInstruction *size = spmd_emit_look_up(partitioner, &banded->axes, sizes, need->positions);
    size = spmd_emit_splat(partitioner, spmd_emit_convert(partitioner, size, type), shape->dims, shape->rank);
    HloInstruction *zero = spmd_emit_scalar(partitioner, shape->type, 0);
    return spmd_emit_select(partitioner, spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, count, size), data,
                            spmd_emit_splat(partitioner, zero, shape->dims, shape->rank));
}

// Weights that the program computes from constants and iotas, as those of an interpolation, are mostly zero: a device
// only needs the elements of the summed dimension that one of its weights takes. Products with the others are left out,
// also where the element is infinite or not a number.
//
//     f32[128,32] dot(f32[128,64] %w, f32[64,32] %x)    %x and the result are split in 8 along the first dimension; an
//     element depends on two neighbours: one row is sent in each direction instead of a gather of %x
static HloStatus dot_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_DOT));
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    for (int32_t weights = 0; weights < 2; weights++) {
        Banded banded;
        if (!plan_banded(partitioner, rule, weights, &banded)) continue;
        const SpmdAxes *factors = spmd_choose(partitioner, rule, false);
        if (banded.cost >= spmd_factors_cost(partitioner, rule, factors)) break;
        HloInstruction *operands[2];
        operands[weights] = weights_of_run(partitioner, rule, &banded);
        operands[1 - weights] = data_of_run(partitioner, rule, &banded);
        return spmd_emit_by_factors(partitioner, rule, banded.factors, operands);
    }
    return spmd_partition_default(partitioner, op);
}
const SpmdOp spmd_op_dot = {.name = "dot", .rule = dot_rule, .partition = dot_partition};

// ---- scaled-dot: one scale for each block of neighbours

// The scales along one dimension of a side, and whether they are an array at all.
static int64_t scale_count(const HloInstruction *op, int32_t side, int64_t dim) {
    const HloShape *scale = op->operands[2 + side]->shape;
    return scale->rank ? scale->dims[dim] : 1;
}

// Maps the factors of a dimension that one or both sides have (-1 for a side without it): blocks and their elements, so
// that no block is split. Where the sides' blocks differ, the dimension is needed whole. `result_dim` is -1 for a
// contracting dimension, which the result does not have.
static void map_scaled(SpmdRule *rule, SpmdFactorKind kind, const int64_t dims[2], int64_t result_dim) {
    const HloInstruction *op = rule->op;
    int64_t size = 0, blocks = 0;
    for (int32_t side = 0; side < 2; side++) {
        if (dims[side] < 0) continue;
        size = op->operands[side]->shape->dims[dims[side]];
        int64_t count = scale_count(op, side, dims[side]);
        if (count == 1 || count == size) continue;
        if (blocks && blocks != count) kind = SPMD_REPLICATE;
        blocks = count;
    }
    int32_t factors[2] = {spmd_rule_factor(rule, kind, blocks ? blocks : size), -1};
    rule->factors.items[factors[0]].exact |= kind == SPMD_REDUCE;  // padding has no scale that is zero
    if (blocks) factors[1] = spmd_rule_factor(rule, kind, size / blocks);
    for (int32_t side = 0; side < 2; side++) {
        if (dims[side] < 0) continue;
        int64_t count = scale_count(op, side, dims[side]);
        for (int i = 0; i < 2 && factors[i] >= 0; i++) {
            spmd_rule_map(rule, side, dims[side], factors[i]);
            if (count > 1 && (i == 0 || count == size)) spmd_rule_map(rule, 2 + side, dims[side], factors[i]);
        }
    }
    for (int i = 0; result_dim >= 0 && i < 2 && factors[i] >= 0; i++) {
        spmd_rule_map(rule, spmd_rule_result(rule, 0), result_dim, factors[i]);
    }
}

// As a dot's, with each dimension in blocks and elements of a block, which scales and values share.
static void scaled_dot_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_SCALED_DOT));
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    int64_t at = 0;
    for (int64_t i = 0; i < dot->lhs_batch.count; i++) {
        map_scaled(rule, SPMD_PASS, (int64_t[2]){dot->lhs_batch.items[i], dot->rhs_batch.items[i]}, at++);
    }
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++) {
        map_scaled(rule, SPMD_REDUCE, (int64_t[2]){dot->lhs_contracting.items[i], dot->rhs_contracting.items[i]}, -1);
    }
    for (int32_t side = 0; side < 2; side++) {
        HloInts batch = side ? dot->rhs_batch : dot->lhs_batch;
        HloInts contracting = side ? dot->rhs_contracting : dot->lhs_contracting;
        for (int32_t d = 0; d < op->operands[side]->shape->rank; d++) {
            if (hlo_ints_contain(batch, d) || hlo_ints_contain(contracting, d)) continue;
            map_scaled(rule, SPMD_PASS, (int64_t[2]){side ? -1 : d, side ? d : -1}, at++);
        }
    }
    rule->reduction = HLO_OP_ADD;
}
const SpmdOp spmd_op_scaled_dot = {.name = "scaled-dot", .rule = scaled_dot_rule};

// ---- ragged-dot: consecutive runs of the ragged dimension belong to groups

// Group sizes are usually one list. Several lists, one for each index of the dimensions before the ragged one, are
// sharded with those dimensions, but the ragged one is not: each device would have to work out its own share.
static bool has_one_list(const HloInstruction *op) {
    return op->operands[2]->shape->rank == 1;
}

// The dimension of several lists of sizes that corresponds to dimension `lhs` of the left side, -1 if none does: batch
// dimensions come first, then those before the ragged one that are of its kind.
static int64_t list_dimension(const HloInstruction *op, int64_t lhs) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    const int64_t ragged = dot->lhs_ragged.items[0], last = op->operands[2]->shape->rank - 1;
    int64_t at = 0;
    for (; at < dot->lhs_batch.count; at++)
        if (dot->lhs_batch.items[at] == lhs) return at < last ? at : -1;
    const bool contracting = hlo_ints_contain(dot->lhs_contracting, ragged);
    for (int64_t i = 0; at < last; i++) {
        const int64_t dim = contracting ? dot->lhs_contracting.items[i] : i;
        if (!contracting && (hlo_ints_contain(dot->lhs_batch, i) || hlo_ints_contain(dot->lhs_contracting, i)))
            continue;
        if (dim == lhs) return at;
        at++;
    }
    return -1;
}

// One dimension of the sides and the result that have it (-1: not).
static void map_ragged(SpmdRule *rule, SpmdFactorKind kind, int64_t lhs, int64_t rhs, int64_t result) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(rule->op, Dot);
    const HloShape *shape = rule->op->operands[lhs >= 0 ? 0 : 1]->shape;
    if (lhs >= 0 && lhs == dot->lhs_ragged.items[0] && !has_one_list(rule->op)) kind = SPMD_REPLICATE;
    int32_t factor = spmd_rule_factor(rule, kind, shape->dims[lhs >= 0 ? lhs : rhs]);
    const int64_t list = lhs >= 0 ? list_dimension(rule->op, lhs) : -1;
    if (list >= 0) spmd_rule_map(rule, 2, list, factor);
    if (lhs >= 0) spmd_rule_map(rule, 0, lhs, factor);
    if (rhs >= 0) spmd_rule_map(rule, 1, rhs, factor);
    if (result >= 0) spmd_rule_map(rule, spmd_rule_result(rule, 0), result, factor);
}

// The group dimension of the right side has no factor: every device may need every group.
static void ragged_dot_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_RAGGED_DOT));
    const HloDotAttributes *dot = HLO_ATTRIBUTES(op, Dot);
    int64_t ragged = dot->lhs_ragged.items[0];
    int64_t at = hlo_ints_contain(dot->lhs_contracting, ragged) ? 1 : 0;  // the result has one part a group in front
    for (int64_t i = 0; i < dot->lhs_batch.count; i++) {
        SpmdFactorKind kind = dot->lhs_batch.items[i] == ragged ? SPMD_REPLICATE : SPMD_PASS;
        map_ragged(rule, kind, dot->lhs_batch.items[i], dot->rhs_batch.items[i], at++);
    }
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++) {
        map_ragged(rule, SPMD_REDUCE, dot->lhs_contracting.items[i], dot->rhs_contracting.items[i], -1);
    }
    for (int32_t side = 0; side < 2; side++) {
        HloInts batch = side ? dot->rhs_batch : dot->lhs_batch;
        HloInts contracting = side ? dot->rhs_contracting : dot->lhs_contracting;
        for (int32_t d = 0; d < op->operands[side]->shape->rank; d++) {
            if (hlo_ints_contain(batch, d) || hlo_ints_contain(contracting, d)) continue;
            if (side && hlo_ints_contain(dot->rhs_group, d)) continue;
            map_ragged(rule, SPMD_PASS, side ? -1 : d, side ? d : -1, at++);
        }
    }
    rule->reduction = HLO_OP_ADD;
}

// min(max(position - start, 0), size): where a global position is in this device's part.
static HloInstruction *clamp_into(SpmdPartitioner *partitioner, HloInstruction *position, HloInstruction *start,
                                  int64_t size) {
    assert(size >= 0);
    const HloShape *shape = position->shape;
    HloInstruction *limits[2];
    for (int i = 0; i < 2; i++) {
        HloInstruction *limit = spmd_emit_scalar(partitioner, shape->type, i ? size : 0);
        limits[i] = spmd_emit_splat(partitioner, limit, shape->dims, shape->rank);
    }
    HloInstruction *at = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, position, start);
    at = spmd_emit_binary(partitioner, HLO_OP_MAXIMUM, at, limits[0]);
    return spmd_emit_binary(partitioner, HLO_OP_MINIMUM, at, limits[1]);
}

// For each group, the sum of the sizes up to it: where it ends.
// As a masked sum over a square of s64: a running total in the ops that every target has. Groups
// are few.
static HloInstruction *group_ends(SpmdPartitioner *partitioner, HloInstruction *sizes) {
    int64_t count = sizes->shape->dims[0], square[2] = {count, count}, minor = 1;
    HloInstruction *rows = spmd_emit_iota(partitioner, HLO_S64, square, 2, 0);
    HloInstruction *columns = spmd_emit_iota(partitioner, HLO_S64, square, 2, 1);
    HloInstruction *before = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LE, columns, rows);
    HloArena *arena = partitioner->module->arena;
    HloDimensionsAttributes along = {hlo_ints(arena, &minor, 1)};
    const HloShape *shape = hlo_shape_with_default_layout(arena, hlo_shape_array(arena, HLO_S64, square, 2));
    HloInstruction *spread = spmd_emit(partitioner, HLO_OP_BROADCAST, shape, &sizes, 1, &along);
    HloInstruction *zero = spmd_emit_scalar(partitioner, HLO_S64, 0);
    spread = spmd_emit_select(partitioner, before, spread, spmd_emit_splat(partitioner, zero, square, 2));
    HloInstruction *operands[2] = {spread, zero};
    HloInstruction *ends = spmd_emit(partitioner, HLO_OP_REDUCE, sizes->shape, operands, 2, &along);
    HloComputation *sum = spmd_reducer(partitioner, HLO_OP_ADD, HLO_S64);
    hlo_instruction_set_called(ends, &sum, 1);
    return ends;
}

// The number of rows of each group in this device's part of the ragged dimension.
static HloInstruction *own_sizes(SpmdPartitioner *partitioner, HloInstruction *sizes, const SpmdAxes *axes,
                                 int64_t shard) {
    HloType type = sizes->shape->type;
    HloInstruction *wide = spmd_emit_convert(partitioner, sizes, HLO_S64);
    HloInstruction *ends = group_ends(partitioner, wide);
    HloInstruction *begins = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, ends, wide);
    HloInstruction *start = spmd_emit_convert(partitioner, spmd_emit_offset(partitioner, axes, shard), HLO_S64);
    start = spmd_emit_splat(partitioner, start, wide->shape->dims, 1);
    ends = clamp_into(partitioner, ends, start, shard);
    begins = clamp_into(partitioner, begins, start, shard);
    return spmd_emit_convert(partitioner, spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, ends, begins), type);
}

// Groups are runs of the ragged dimension, so a device with a part of it has a part of each run. own_sizes() computes
// these parts, and the op runs on them.
static HloStatus ragged_dot_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_RAGGED_DOT));
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    HloInstruction *operands[3];
    for (int32_t i = 0; i < 2; i++) {
        operands[i] = spmd_factor_operand(partitioner, rule, factors, i).hlo;
        HloInstruction *zero = spmd_emit_scalar(partitioner, operands[i]->shape->type, 0);
        operands[i] = spmd_mask_reduced(partitioner, rule, factors, i, operands[i], zero);
    }
    operands[2] =
        has_one_list(op) ? spmd_operand_whole(partitioner, 2) : spmd_factor_operand(partitioner, rule, factors, 2).hlo;
    int64_t ragged = HLO_ATTRIBUTES(op, Dot)->lhs_ragged.items[0];
    SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, ragged, factors);
    if (axes.count) operands[2] = own_sizes(partitioner, operands[2], &axes, operands[0]->shape->dims[ragged]);
    return spmd_emit_by_factors(partitioner, rule, factors, operands);
}
const SpmdOp spmd_op_ragged_dot = {.name = "ragged-dot", .rule = ragged_dot_rule, .partition = ragged_dot_partition};
