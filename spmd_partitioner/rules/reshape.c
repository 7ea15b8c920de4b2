// SPDX-License-Identifier: Apache-2.0
// Reshape: dimensions that split or join share factors; where sizes have nothing in common the op needs both sides
// whole. Both shapes are walked from the major end. The largest factor that the current dimensions have in common is
// one factor of the rule; the remainder of a dimension continues with the next of the other side. 2x3x4 to 6x4 gives 2,
// 3 (both of the 6) and 4; 6 to 2x3 the same the other way round; 4x6 to 3x8 shares nothing at the front, so those
// dimensions are needed whole.
//
// Where axes do not divide a common factor, shards begin at different elements on both sides. If the major dimensions
// of both have the axes, shards still are intervals of one flat dimension, and devices send each other what is missing:
//     f32[60] in shards of 8 to f32[5,12] in shards of a row    device 1 has 8..15 and needs 12..23
#include <assert.h>

#include "hlo/base/arithmetic.h"
#include "hlo/eval/layout.h"
#include "hlo/ir/custom_call.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/moves.h"

// Walks one side of a reshape, from major to minor.
typedef struct Side {
    const HloShape *shape;
    int32_t tensor;
    int32_t dim;   // current one
    int64_t left;  // of its size, not covered by factors yet
} Side;

// Steps to the next dimension that has something left; false at the end.
static bool advance(Side *side) {
    assert(side->left > 0); /* the array has elements */
    while (side->left == 1) {
        if (++side->dim >= side->shape->rank) return false;
        side->left = side->shape->dims[side->dim];
    }
    return true;
}

// Adds a factor of one side alone. It fills the dimension's position in the list of factors but can have no axes.
static void add_alone(SpmdRule *rule, Side *side) {
    spmd_rule_map(rule, side->tensor, side->dim, spmd_rule_factor(rule, SPMD_REPLICATE, side->left));
    side->left = 1;
}

// Covers both sides with factors of their own until as many elements are covered on each.
static void add_apart(SpmdRule *rule, Side *a, Side *b) {
    int64_t covered_a = a->left, covered_b = b->left;
    add_alone(rule, a);
    add_alone(rule, b);
    while (covered_a != covered_b) {
        bool a_lags = covered_a < covered_b;
        Side *lagging = a_lags ? a : b;
        if (!advance(lagging)) return;
        *(a_lags ? &covered_a : &covered_b) *= lagging->left;
        add_alone(rule, lagging);
    }
}

// Invariant of the loop: as many elements are covered on one side as on the other.
static void reshape_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(op->operand_count >= 1);
    const HloShape *from = op->operands[0]->shape;
    Side a = {.shape = from, .tensor = 0, .dim = -1, .left = 1};
    Side b = {.shape = op->shape, .tensor = spmd_rule_result(rule, 0), .dim = -1, .left = 1};
    if (hlo_shape_elements(from) != hlo_shape_elements(op->shape) || hlo_shape_elements(from) == 0) return;
    while (advance(&a) && advance(&b)) {
        int64_t common = hlo_gcd(a.left, b.left);
        if (common == 1) {
            add_apart(rule, &a, &b);
            continue;
        }
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, common);
        spmd_rule_map(rule, a.tensor, a.dim, factor);
        spmd_rule_map(rule, b.tensor, b.dim, factor);
        a.left /= common;
        b.left /= common;
        if (a.left > 1 && b.left > 1) add_apart(rule, &a, &b);
    }
}

// ---- shards that begin at different elements

// Dimensions [from, from_end) of a reshape's operand and [to, to_end) of its result that hold the same elements, where
// both sides shard the first dimension by `axes` and no other.
typedef struct Group {
    int32_t from, from_end, to, to_end;
    int64_t elements;
    SpmdAxes axes;
} Group;

// Extends a group that begins at `from` and `to` to the first dimensions after which both sides have as many elements.
static Group group_at(const HloShape *a, const HloShape *b, int32_t from, int32_t to) {
    Group group = {.from = from, .from_end = from + 1, .to = to, .to_end = to + 1};
    int64_t left = a->dims[from], right = b->dims[to];
    while (left != right) {
        if (left < right) {
            left *= a->dims[group.from_end++];
        } else {
            right *= b->dims[group.to_end++];
        }
    }
    group.elements = left;
    return group;
}

// Whether a sharding has axes on dimensions [first, end).
static bool has_axes(const SpmdSharding *sharding, int32_t first, int32_t end) {
    for (int32_t d = first; d < end; d++)
        if (sharding->dims[d].count) return true;
    return false;
}

// A copy of `sharding` in which dimension `first` has the axes and those up to `end` have none.
static SpmdSharding *major_only(SpmdPartitioner *partitioner, const SpmdSharding *sharding, int32_t first, int32_t end,
                                const SpmdAxes *axes) {
    SpmdSharding *copy = spmd_sharding_copy(partitioner->arena, sharding);
    for (int32_t d = first; d < end; d++) copy->dims[d] = (SpmdAxes){0};
    copy->dims[first] = *axes;
    return copy;
}

// A way to reshape shards that do not begin at the same elements.
typedef struct Exchange {
    Group group;
    SpmdSharding *operand, *result;
    SpmdMoves *moves;
    int64_t had, needs;  // elements of the group on one device, before and after
    int64_t cost;
} Exchange;

// What the result should be: an annotation of its only user counts more than what propagation made of it, which does
// not shard a dimension into more parts than it has elements.
static const SpmdSharding *wanted_result(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloInstruction *user = op->users.count == 1 ? op->users.items[0] : op;
    const bool asks = user != op && hlo_custom_call_returns_operand(user) && user->operand_count == 1 &&
                      hlo_shape_is_array(user->shape) && !spmd_plan_array(partitioner->plan, op, 0)->annotated;
    return asks ? spmd_plan_array(partitioner->plan, user, 0)->sharding : spmd_planned(partitioner, 0);
}

// The cost of a path with its messages, which those of an exchange are compared with: a machine's prices have them.
static int64_t path_cost(const SpmdPartitioner *partitioner, const SpmdPath *path) {
    const bool has_prices = partitioner->plan->costs && partitioner->plan->costs->machine;
    return spmd_add_bytes(path->cost, has_prices ? 0 : path->messages * SPMD_MESSAGE_BYTES);
}

// What the devices send beside the exchange itself: of the operand before, and of the result after it.
static int64_t reshard_cost(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *operand,
                            const SpmdSharding *result) {
    const SpmdSharding *now = spmd_operand(partitioner, 0).sharding, *wanted = wanted_result(partitioner, op);
    return spmd_add_bytes(path_cost(partitioner, spmd_path(partitioner, op->operands[0]->shape, now, 0, operand)),
                          path_cost(partitioner, spmd_path(partitioner, op->shape, result, 0, wanted)));
}

// Plans the exchange of one group: false where that is impossible. `operand` and `result` are the shardings of both
// sides by the rule's factors.
static bool plan_group(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *operand,
                       const SpmdSharding *result, Exchange *exchange) {
    const Group *group = &exchange->group;
    const SpmdMesh *mesh = partitioner->mesh;
    exchange->operand = major_only(partitioner, operand, group->from, group->from_end, &group->axes);
    exchange->result = major_only(partitioner, result, group->to, group->to_end, &group->axes);
    const SpmdSharding *sides[2] = {exchange->operand, exchange->result};
    for (int side = 0; side < 2; side++) {
        const SpmdAtomSet own = spmd_axes_set(&group->axes);
        const SpmdSharding *others = major_only(partitioner, sides[side], side ? group->to : group->from,
                                                side ? group->to + 1 : group->from + 1, &(SpmdAxes){0});
        if ((spmd_sharding_used(others) | others->manual) & own) return false;
    }
    const HloShape *before = spmd_local_shape(partitioner->arena, mesh, op->operands[0]->shape, exchange->operand);
    const HloShape *after = spmd_local_shape(partitioner->arena, mesh, op->shape, exchange->result);
    exchange->had = exchange->needs = 1;
    for (int32_t d = group->from; d < group->from_end; d++) exchange->had *= before->dims[d];
    for (int32_t d = group->to; d < group->to_end; d++) exchange->needs *= after->dims[d];
    const int64_t shards = spmd_axes_product(mesh, &group->axes);
    exchange->moves = spmd_moves_new(partitioner->arena, shards);
    const SpmdShardedDim sharded = {.global = group->elements, .shard = exchange->had};
    for (int64_t i = 0; i < shards; i++)
        spmd_moves_add(partitioner->arena, exchange->moves, &sharded, i, i * exchange->needs, exchange->needs, 0);
    if (!spmd_moves_plan(partitioner->arena, exchange->moves)) return false;
    const int64_t messages = exchange->moves->rounds - exchange->moves->own_rounds;
    const int64_t bytes = hlo_shape_bytes(before) / exchange->had;
    exchange->cost = spmd_permutes_cost(partitioner->plan->costs, &group->axes,
                                        spmd_times_bytes(bytes, exchange->moves->sent), messages, true);
    exchange->cost = spmd_add_bytes(exchange->cost, reshard_cost(partitioner, op, exchange->operand, exchange->result));
    return true;
}

// Finds the group whose exchange costs least, and less than `cost`; false if there is none.
static bool find_exchange(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *operand,
                          const SpmdSharding *result, int64_t cost, Exchange *best) {
    const HloShape *a = op->operands[0]->shape, *b = op->shape;
    const SpmdSharding *planned = wanted_result(partitioner, op);
    bool found = false;
    for (int32_t from = 0, to = 0; from < a->rank && to < b->rank;) {
        // Dimensions of one element belong to no group.
        if (a->dims[from] == 1 || b->dims[to] == 1) {
            *(a->dims[from] == 1 ? &from : &to) += 1;
            continue;
        }
        Exchange exchange = {.group = group_at(a, b, from, to)};
        Group *group = &exchange.group;
        from = group->from_end;
        to = group->to_end;
        group->axes = planned->dims[group->to];
        const bool single = from == group->from + 1 && to == group->to + 1;
        if (single || !group->axes.count || has_axes(planned, group->to + 1, to) ||
            spmd_axes_equal(&result->dims[group->to], &group->axes))
            continue;
        if (!plan_group(partitioner, op, operand, result, &exchange) || exchange.cost >= cost) continue;
        cost = exchange.cost;
        *best = exchange;
        found = true;
    }
    return found;
}

// Emits the exchange along the flat dimension of the group, between a reshape to it and one from it.
static HloStatus exchange_group(SpmdPartitioner *partitioner, const HloInstruction *op, const Exchange *exchange) {
    const Group *group = &exchange->group;
    const SpmdReason reason = {.op = op, .what = "elements of other shards"};
    HloInstruction *operand = spmd_operand_as(partitioner, 0, exchange->operand);
    int64_t *dims = HLO_ARENA_NEW(partitioner->arena, int64_t, operand->shape->rank), rank = 0;
    for (int32_t d = 0; d < operand->shape->rank; d++) {
        if (d == group->from) {
            dims[rank++] = exchange->had;
        } else if (d < group->from || d >= group->from_end) {
            dims[rank++] = operand->shape->dims[d];
        }
    }
    HloInstruction *flat = spmd_emit_reshape(partitioner, operand, dims, rank);
    flat = spmd_emit_moves(partitioner, flat, group->from, &group->axes, exchange->moves, exchange->needs, &reason);
    const HloShape *local = spmd_local_shape(partitioner->arena, partitioner->mesh, op->shape, exchange->result);
    HloInstruction *made = spmd_emit_reshape(partitioner, flat, local->dims, local->rank);
    spmd_define(partitioner, 0, made, exchange->result, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}

// By the rule, unless the result should have axes that the rule cannot express and devices can exchange what is missing
// for less. Sums stay with the rule, which passes them on.
static HloStatus reshape_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    const SpmdLocal local = spmd_operand(partitioner, 0);
    const bool fixed = rule && local.hlo && !local.partial && !hlo_shape_is_dynamic(op->shape) &&
                       !hlo_shape_is_dynamic(local.global) && hlo_shape_elements(op->shape) > 0;
    if (!fixed || spmd_sharding_is_replicated(wanted_result(partitioner, op)) ||
        spmd_sharding_is_replicated(local.sharding))
        return spmd_partition_default(partitioner, op);
    SpmdAxes *factors = spmd_choose(partitioner, rule, false);
    const SpmdAtomSet manual = spmd_manual_axes(partitioner, op);
    const SpmdSharding *operand = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, manual);
    const SpmdSharding *result =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, manual);
    const int64_t cost = reshard_cost(partitioner, op, operand, result);
    Exchange exchange;
    if (cost && find_exchange(partitioner, op, operand, result, cost, &exchange))
        return exchange_group(partitioner, op, &exchange);
    return spmd_partition_default(partitioner, op);
}
const SpmdOp spmd_op_reshape = {
    .name = "reshape", .rule = reshape_rule, .partition = reshape_partition, .is_certain = true};

// Flattening has spelled out those that move data between orders of dimensions.
static HloStatus bitcast_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    if (!hlo_shape_is_array(op->shape)) return spmd_partition_data_flow(partitioner, op);
    HLO_FAIL_IF(hlo_type_bytes(op->shape->type) != hlo_type_bytes(op->operands[0]->shape->type), HLO_UNIMPLEMENTED,
                "bitcast that changes the element width cannot be partitioned");
    HLO_FAIL_IF(!hlo_bitcast_is_reshape(op->operands[0]->shape, op->shape), HLO_UNIMPLEMENTED,
                "bitcast that goes through the padding of tiles cannot be partitioned");
    return reshape_partition(partitioner, op);
}
const SpmdOp spmd_op_bitcast = {
    .name = "bitcast", .rule = reshape_rule, .partition = bitcast_partition, .is_certain = true};
