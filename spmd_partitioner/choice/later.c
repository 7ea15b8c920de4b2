// SPDX-License-Identifier: Apache-2.0
// A sum over devices can be finished at once, or after the ops that follow if these are linear in it and nothing else
// uses it. That is worth it where they make less of it. Rows of a sharded table that are looked up, weighted and added
// up are the common case:
//
//     %g = f32[64,4,8] gather(f32[1024,8] %table, s32[64,4] %i)    the table sharded by rows, a part of the rows found
//     %m = f32[64,4,8] multiply(%g, %w)                            on each device
//     %s = f32[64,8] reduce(%m), dimensions={1}
//     finished at %g    a reduce-scatter of f32[64,4,8]
//     finished at %s    a reduce-scatter of f32[64,8]; the weights of all rows are gathered for %m
//
// The same question is asked again at each op on the way, when more of the cost has been paid: a sum that waits is
// finished before an op that turns out not to be able to take it.
#include "spmd_partitioner/later.h"

#include <assert.h>

#include "hlo/ir/literal.h"
#include "spmd_partitioner/contraction.h"
#include "spmd_partitioner/emit.h"

// Ops that are followed, at most.
enum { MOST_STEPS = 12 };

static bool is_zero(const HloInstruction *at) {
    if (hlo_is(at, HLO_OP_BROADCAST)) at = at->operands[0];
    return hlo_is(at, HLO_OP_CONSTANT) && hlo_literal_is_zero(hlo_constant_literal(at));
}

// Integers of a sum wrap on each device: a result of another type would not wrap where they did.
static bool wraps_as(const HloInstruction *operand, const HloInstruction *op) {
    return operand->shape->type == op->shape->type || !hlo_type_is_integer(operand->shape->type);
}

// Whether `op` is linear in operand `index` alone, while the others are fixed.
static bool is_linear_in(const HloInstruction *op, int32_t index) {
    switch (op->opcode) {
        case HLO_OP_NEGATE:
        case HLO_OP_MULTIPLY: return true;
        case HLO_OP_DOT: return wraps_as(op->operands[index], op);
        // Integers are rounded by each device.
        case HLO_OP_DIVIDE: return index == 0 && !hlo_type_is_integer(op->shape->type);
        case HLO_OP_SELECT: return index > 0 && is_zero(op->operands[3 - index]);
        case HLO_OP_CONVERT: return spmd_keeps_sum(op);
        case HLO_OP_REDUCE:
            return index == 0 && op->operand_count == 2 && is_zero(op->operands[1]) &&
                   spmd_rule_combiner(op->called[0]) == HLO_OP_ADD;
        default: return hlo_op_is(op->opcode, HLO_OP_IS_REARRANGES);
    }
}

static const SpmdLocal *local_of(const SpmdPartitioner *partitioner, const HloInstruction *op) {
    return partitioner->locals[partitioner->plan->first_leaf[op->id]];
}

// Which operand of its only user `op` is, if that can take it as a sum and no other operand is one; -1 otherwise.
static int32_t taken_as(const SpmdPartitioner *partitioner, const HloInstruction *op) {
    if (op->users.count != 1 || hlo_instruction_is_root(op) || hlo_type_kind(op->shape->type) == HLO_KIND_PRED ||
        spmd_plan_array(partitioner->plan, op, 0)->annotated)
        return -1;
    const HloInstruction *user = op->users.items[0];
    if (!hlo_shape_is_array(user->shape) || hlo_shape_is_dynamic(user->shape)) return -1;
    int32_t found = -1;
    for (int32_t i = 0; i < user->operand_count; i++) {
        const SpmdLocal *local = local_of(partitioner, user->operands[i]);
        if (user->operands[i] == op) {
            if (found >= 0) return -1;
            found = i;
        } else if (!hlo_shape_is_array(user->operands[i]->shape) || (local && local->waits)) {
            return -1;
        }
    }
    return is_linear_in(user, found) ? found : -1;
}

// What it costs to have an operand that may not have been made yet in a form, from where the plan has it. A broadcast
// is made there from its operand.
static int64_t other_cost(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *to) {
    const SpmdPlan *plan = partitioner->plan;
    if (plan->free[op->id] || !op->shape->rank) return 0;
    const int64_t cost = spmd_path(partitioner, op->shape, spmd_plan_array(plan, op, 0)->sharding, 0, to)->cost;
    if (!cost || !hlo_is(op, HLO_OP_BROADCAST) || !plan->rules[op->id]) return cost;
    const SpmdRule *rule = plan->rules[op->id];
    SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), to, factors);
    const SpmdSharding *wanted =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, 0, factors, to->manual);
    const int64_t remade = other_cost(partitioner, op->operands[0], wanted);
    return remade < cost ? remade : cost;
}

// What an op's work costs with these axes.
static double work_price(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    const SpmdSharding *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, 0);
    const double bytes = 2 * (double)spmd_local_bytes(partitioner->mesh, rule->op->shape, sharding);
    return spmd_work_price(partitioner->plan->costs, bytes, spmd_local_points(rule, partitioner->mesh, factors));
}

// The work beyond what the op takes where the plan has its result.
static int64_t more_work(SpmdPartitioner *partitioner, const SpmdRule *rule, const SpmdAxes *factors) {
    SpmdAxes *planned = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    const SpmdSharding *wanted = spmd_plan_array(partitioner->plan, rule->op, 0)->sharding;
    spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), wanted, planned);
    const double more = work_price(partitioner, rule, factors) - work_price(partitioner, rule, planned);
    return more > 0 ? spmd_price_cost(more) : 0;
}

// The factors of an op that takes operand `at` in `sharding`; NULL if it would have to be sent for it.
static SpmdAxes *factors_by(SpmdPartitioner *partitioner, const SpmdRule *rule, int32_t at,
                            const SpmdSharding *sharding) {
    SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    if (!spmd_rule_project(rule, partitioner->mesh, at, sharding, factors)) return NULL;
    spmd_rule_resolve(rule, partitioner->mesh, factors);
    const SpmdSharding *takes =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, at, factors, sharding->manual);
    return spmd_sharding_equal(takes, sharding) ? factors : NULL;
}

// Adds to *cost what the user of a sum at `at` costs but for the collective, and sets *sharding to where its result is.
static bool take_step(SpmdPartitioner *partitioner, const HloInstruction *user, int32_t at,
                      const SpmdSharding **sharding, SpmdAtomSet *partial, int64_t *cost) {
    const SpmdRule *rule = partitioner->plan->rules[user->id];
    const SpmdAxes *factors = rule ? factors_by(partitioner, rule, at, *sharding) : NULL;
    if (!factors) return false;
    const SpmdAtomSet manual = (*sharding)->manual;
    for (int32_t i = 0; i < user->operand_count; i++) {
        if (i == at) continue;
        const SpmdSharding *wanted =
            spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, i, factors, manual);
        *cost = spmd_add_bytes(*cost, other_cost(partitioner, user->operands[i], wanted));
    }
    *cost = spmd_add_bytes(*cost, more_work(partitioner, rule, factors));
    *partial |= spmd_partial_axes(rule, factors);
    *sharding =
        spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0), factors, manual);
    return true;
}

// Whether a sum may be worth finishing at `op`: it adds up, or needs a part of its result only.
static bool may_finish(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_REDUCE) || hlo_is(op, HLO_OP_DOT);
}

bool spmd_can_wait(const SpmdPartitioner *partitioner, const HloInstruction *op) {
    for (int32_t i = 0; i < MOST_STEPS && taken_as(partitioner, op) >= 0; i++) {
        op = op->users.items[0];
        if (may_finish(op)) return true;
    }
    return false;
}

int64_t spmd_later_cost(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *sharding,
                        SpmdAtomSet partial) {
    assert(partial);
    int64_t cost = 0, least = SPMD_MOST_BYTES;
    for (int32_t i = 0, at; i < MOST_STEPS && (at = taken_as(partitioner, op)) >= 0; i++) {
        op = op->users.items[0];
        if (!take_step(partitioner, op, at, &sharding, &partial, &cost) || cost >= least) break;
        if (!may_finish(op)) continue;
        const SpmdSharding *wanted = spmd_plan_array(partitioner->plan, op, 0)->sharding;
        const int64_t all = spmd_add_bytes(cost, spmd_path(partitioner, op->shape, sharding, partial, wanted)->cost);
        if (all < least) least = all;
    }
    return least;
}

int32_t spmd_waiting_operand(SpmdPartitioner *partitioner, const HloInstruction *op) {
    for (int32_t i = 0; i < op->operand_count; i++) {
        const SpmdLocal *local = local_of(partitioner, op->operands[i]);
        if (local && local->waits) return i;
    }
    return -1;
}

SpmdAxes *spmd_waiting_factors(SpmdPartitioner *partitioner, const SpmdRule *rule, int32_t sum) {
    SpmdAxes *factors = factors_by(partitioner, rule, sum, spmd_operand(partitioner, sum).sharding);
    HLO_BUG_IF(!factors);
    return factors;
}

// Where a sum that waits is not zero on this device for certain, if a lookup left it: NULL for other sums, and where
// elements have been added up since.
static HloInstruction *mask_of(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloInstruction *local = local_of(partitioner, op)->hlo;
    const int32_t sum = spmd_waiting_operand(partitioner, op);
    if (sum < 0) return hlo_is(local, HLO_OP_SELECT) && is_zero(local->operands[2]) ? local->operands[0] : NULL;
    if (hlo_is(op, HLO_OP_REDUCE) || hlo_is(op, HLO_OP_DOT)) return NULL;
    HloInstruction *mask = mask_of(partitioner, op->operands[sum]);
    if (!mask) return NULL;
    if (hlo_is(local, HLO_OP_TRANSPOSE))
        return spmd_emit_transpose(partitioner, mask, HLO_ATTRIBUTES(local, Dimensions)->dimensions.items);
    if (hlo_is(local, HLO_OP_RESHAPE))
        return spmd_emit_reshape(partitioner, mask, local->shape->dims, local->shape->rank);
    return hlo_shape_equal(mask->shape, local->shape, HLO_COMPARE_DIMS_ONLY) ? mask : NULL;
}

static HloInstruction *select_or_zero(SpmdPartitioner *partitioner, HloInstruction *mask, HloInstruction *array) {
    HloInstruction *zero = spmd_emit_scalar(partitioner, array->shape->type, 0);
    HloInstruction *zeros = spmd_emit_splat(partitioner, zero, array->shape->dims, array->shape->rank);
    return spmd_emit_select(partitioner, mask, array, zeros);
}

HloInstruction *spmd_keep_zeros(SpmdPartitioner *partitioner, const HloInstruction *op, int32_t sum,
                                HloInstruction *made) {
    const bool scales = hlo_is(op, HLO_OP_MULTIPLY) || hlo_is(op, HLO_OP_DIVIDE);
    if (!scales || hlo_type_is_integer(op->shape->type)) return made;
    HloInstruction *mask = mask_of(partitioner, op->operands[sum]);
    return mask ? select_or_zero(partitioner, mask, made) : made;
}

// The dimension of a product's other operand that is dimension `dim` of operand `sum`; -1 if there is none.
static int64_t dim_of_other(const HloDotAttributes *dot, int32_t sum, int64_t dim) {
    const HloInts *batch[2] = {&dot->lhs_batch, &dot->rhs_batch};
    const HloInts *contracted[2] = {&dot->lhs_contracting, &dot->rhs_contracting};
    for (int64_t i = 0; i < batch[sum]->count; i++)
        if (batch[sum]->items[i] == dim) return batch[!sum]->items[i];
    for (int64_t i = 0; i < contracted[sum]->count; i++)
        if (contracted[sum]->items[i] == dim) return contracted[!sum]->items[i];
    return -1;
}

HloInstruction *const *spmd_mask_factors(SpmdPartitioner *partitioner, const HloInstruction *op, int32_t sum,
                                         HloInstruction *const *operands) {
    if (!hlo_is(op, HLO_OP_DOT) || hlo_type_is_integer(op->shape->type)) return operands;
    const HloInstruction *mask = mask_of(partitioner, op->operands[sum]);
    if (!mask || !hlo_is(mask, HLO_OP_BROADCAST)) return operands;
    // Rows are found or not as a whole: the mask repeats along the other dimensions.
    const HloInts dims = HLO_ATTRIBUTES(mask, Dimensions)->dimensions;
    const HloShape *other = operands[!sum]->shape;
    int64_t *places = HLO_ARENA_NEW(partitioner->arena, int64_t, other->rank), count = 0;
    int64_t *order = HLO_ARENA_NEW(partitioner->module->arena, int64_t, dims.count);
    for (int32_t d = 0; d < other->rank; d++) places[d] = -1;
    for (int64_t i = 0; i < dims.count; i++) {
        const int64_t at = dim_of_other(HLO_ATTRIBUTES(op, Dot), sum, dims.items[i]);
        if (at < 0) return operands;
        places[at] = i;
    }
    int64_t *targets = HLO_ARENA_NEW(partitioner->module->arena, int64_t, dims.count);
    for (int32_t d = 0; d < other->rank; d++) {
        if (places[d] < 0) continue;
        order[count] = places[d];
        targets[count++] = d;
    }
    HloInstruction *found = spmd_emit_transpose(partitioner, mask->operands[0], order);
    HloShape *shape = hlo_arena_copy(partitioner->module->arena, other, sizeof(*other));
    shape->type = HLO_PRED;
    HloDimensionsAttributes attributes = {{targets, count}};
    found = spmd_emit(partitioner, HLO_OP_BROADCAST, shape, &found, 1, &attributes);
    HloInstruction **masked = hlo_arena_copy(partitioner->arena, operands, 2 * sizeof(*operands));
    masked[!sum] = select_or_zero(partitioner, found, operands[!sum]);
    return masked;
}
