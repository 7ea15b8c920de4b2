// SPDX-License-Identifier: Apache-2.0
// The walk: every computation that data flows through is written anew for one device.
//
// Source and target are two modules. Each leaf of each source instruction has an SpmdLocal that describes its
// counterpart in the target: an instruction, its sharding, and the axes over which its values are still partial sums.
// Partition functions (rules/) request operands in the form that they need (spmd_reshard() makes it, once for each
// form) and define their results (spmd_define()). Free arrays, which depend on nothing but indices and scalars, have no
// instruction until a form of them is requested.
//
//     source  %d = f32[64,128] dot(%a, %b), both sharded along k by x (4 devices)
//     target  %dot = f32[64,128] dot(f32[64,8] %a', f32[8,128] %b')
//     local   {hlo = %dot, sharding = [{}, {}], partial = {x}, reduction = add, summed = %d}
// spmd_define() finishes the sum at once, unless %d's only user passes it on: an all-reduce, or a reduce-scatter where
// the plan shards %d by x.
//
// Invariants: operands are visited before their users, so locals exist when they are requested; an instruction of one
// computation is never used in another (a scope for each, with its own caches); values in the padding of uneven shards
// are undefined.
//
// Other files decide which sharding an array gets (plan.c, propagate.c), which axes an op works along (choose.c), and
// the cheapest path from one sharding to another (reshard.c), and clean up (passes/).
#include "spmd_partitioner/partitioner.h"

#include <assert.h>
#include <string.h>

#include "hlo/analysis/redundant.h"
#include "spmd_partitioner/boundary.h"
#include "spmd_partitioner/custom_call.h"
#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/later.h"

// A form of an array that was made before.
// Chains hang in SpmdScope.reshards and .frees, keyed by instruction id + 1.
typedef struct Cached {
    SpmdLocal local;
    SpmdAtomSet keep;
    const SpmdSharding *to;
    struct Cached *next;
} Cached;

// Several users often need an operand in the same other form: it is gathered once. Arrays of different global sizes may
// have the same shards: elements of one are padding of the other.
static const Cached *cache_find(const HloIntMap *map, int32_t id, const HloShape *global, const SpmdSharding *to,
                                SpmdAtomSet keep) {
    int64_t *found = hlo_int_map_find(map, (uint64_t)id + 1);
    for (const Cached *at = found ? (const Cached *)(intptr_t)*found : NULL; at; at = at->next) {
        if (at->keep == keep && spmd_sharding_equal(at->to, to) &&
            hlo_shape_equal(at->local.global, global, HLO_COMPARE_DIMS_ONLY))
            return at;
    }
    return NULL;
}

static void cache_add(HloArena *arena, HloIntMap *map, int32_t id, const SpmdSharding *to, SpmdAtomSet keep,
                      SpmdLocal local) {
    assert(to && local.hlo); /* what was asked for, and made */
    int64_t *found = hlo_int_map_find(map, (uint64_t)id + 1);
    Cached *entry = HLO_ARENA_NEW(arena, Cached, 1);
    *entry = (Cached){.local = local, .keep = keep, .to = to, .next = found ? (Cached *)(intptr_t)*found : NULL};
    hlo_int_map_set(arena, map, (uint64_t)id + 1, (intptr_t)entry);
}

SpmdLocal *spmd_local(SpmdPartitioner *partitioner, const HloInstruction *source, int64_t leaf) {
    assert(leaf >= 0 && leaf < hlo_shape_leaf_count(source->shape)); /* a leaf of its value */
    SpmdLocal *local = partitioner->locals[partitioner->plan->first_leaf[source->id] + leaf];
    HLO_BUG_IF(!local);
    return local;
}

// A plan is a wish: an op may make its result in another sharding, and its users reshard.
const SpmdSharding *spmd_planned(SpmdPartitioner *partitioner, int64_t leaf) {
    return spmd_plan_array(partitioner->plan, partitioner->op, leaf)->sharding;
}

// All arrays of a region are manual over the same axes, so any of them will do.
SpmdAtomSet spmd_manual_axes(SpmdPartitioner *partitioner, const HloInstruction *op) {
    // A call may have no results; its operands then determine the region.
    while (hlo_shape_leaf_count(op->shape) == 0) {
        if (!op->operand_count) return 0;
        op = op->operands[0];
    }
    return spmd_plan_array(partitioner->plan, op, 0)->sharding->manual;
}

// ---- copies ----

// Shardy's attributes have been applied; the next partitioner would apply them a second time.
static void drop_sharding_attributes(HloInstruction *clone) {
    clone->frontend_attributes =
        hlo_key_values_without(clone->parent->module->arena, clone->frontend_attributes, "xla.sdy.");
}

// Reducers and comparators are copied as they are; computations through which arrays flow (loops, calls) are
// partitioned instead, and set by rules/flow.c.
HloInstruction *spmd_clone(SpmdPartitioner *partitioner, const HloInstruction *op, const HloShape *shape,
                           HloInstruction *const *operands, int64_t operand_count) {
    assert(operand_count >= 0 && shape);
    HloInstruction *clone = hlo_instruction_clone(partitioner->scope->target, op, shape, operands, operand_count);
    clone->sharding = NULL;
    drop_sharding_attributes(clone);
    if (op->called_count && !spmd_is_flow_op(op->opcode)) {
        HloComputation **called = HLO_ARENA_NEW(partitioner->arena, HloComputation *, op->called_count);
        for (int32_t i = 0; i < op->called_count; i++) called[i] = spmd_called(partitioner, op->called[i]);
        hlo_instruction_set_called(clone, called, op->called_count);
    }
    return clone;
}

// Annotations have no meaning in a reducer.
static void drop_annotations(HloComputation *computation) {
    for (HloInstruction *at = computation->first, *next; at; at = next) {
        next = at->next;
        at->sharding = NULL;
        if (!hlo_custom_call_returns_operand(at)) continue;
        hlo_instruction_replace_uses(at, at->operands[0]);
        hlo_instruction_remove(at);
    }
}

// One copy serves all ops that call it.
HloComputation *spmd_called(SpmdPartitioner *partitioner, const HloComputation *called) {
    HloComputation **clone = &partitioner->clones[called->id];
    if (!*clone) {
        *clone = hlo_computation_clone(partitioner->module, called, called->name);
        drop_annotations(*clone);
    }
    return *clone;
}

// Makes `op` the one that instructions are emitted for. They carry its metadata, so that profiles and explanations
// point at the user's source line.
static void set_op(SpmdPartitioner *partitioner, const HloInstruction *op) {
    partitioner->op = op;
    partitioner->metadata = hlo_metadata_copy(partitioner->module->arena, op->metadata);
}

// ---- free arrays ----

static SpmdLocal demand(SpmdPartitioner *partitioner, const HloInstruction *source, const SpmdSharding *to);

// A constant with one value throughout costs nothing to make at shard size. Any other is kept whole and sliced by
// device: its values differ from device to device, and the program is the same on all of them. That costs a slice on
// each device and no communication.
static HloInstruction *demand_constant(SpmdPartitioner *partitioner, const HloInstruction *source,
                                       const SpmdSharding *to) {
    assert(hlo_is(source, HLO_OP_CONSTANT));
    const HloLiteral *literal = hlo_constant_literal(source);
    const HloShape *local = spmd_local_shape(partitioner->module->arena, partitioner->mesh, source->shape, to);
    if (hlo_literal_is_splat(literal) && !spmd_sharding_is_replicated(to)) {
        HloLiteral *scalar = hlo_literal_in_arena(partitioner->module->arena,
                                                  hlo_shape_scalar(partitioner->module->arena, source->shape->type));
        memcpy(scalar->data, literal->data, (size_t)hlo_type_bytes(source->shape->type));
        HloConstantAttributes attributes = {scalar};
        HloInstruction *value = spmd_emit(partitioner, HLO_OP_CONSTANT, scalar->shape, NULL, 0, &attributes);
        return spmd_emit_splat(partitioner, value, local->dims, local->rank);
    }
    SpmdLocal whole = {.global = source->shape,
                       .sharding = spmd_sharding_new(partitioner->arena, to->rank, to->manual)};
    whole.hlo = spmd_clone(partitioner, source, source->shape, NULL, 0);
    const SpmdPath *path = spmd_path(partitioner, source->shape, whole.sharding, 0, to);
    SpmdReason reason = {.op = source, .what = "value"};
    return spmd_emit_path(partitioner, whole, path, &reason).hlo;
}

// Counts in integers that hold every index, so that narrow and floating types round as the unsharded op does.
static HloInstruction *demand_iota(SpmdPartitioner *partitioner, const HloInstruction *source, const SpmdSharding *to) {
    assert(to->rank == source->shape->rank); /* a sharding of its array */
    int64_t dim = HLO_ATTRIBUTES(source, Iota)->dimension;
    const HloShape *local = spmd_local_shape(partitioner->module->arena, partitioner->mesh, source->shape, to);
    if (!to->dims[dim].count) {
        return spmd_emit_iota(partitioner, source->shape->type, local->dims, local->rank, dim);
    }
    HloInstruction *offset = spmd_emit_offset(partitioner, &to->dims[dim], local->dims[dim]);
    HloType type = offset->shape->type;
    HloType wanted = source->shape->type;
    if (hlo_type_is_integer(wanted) && hlo_type_bytes(wanted) >= hlo_type_bytes(type)) type = wanted;
    offset = spmd_emit_convert(partitioner, offset, type);
    HloInstruction *count = spmd_emit_iota(partitioner, type, local->dims, local->rank, dim);
    HloInstruction *spread = spmd_emit_splat(partitioner, offset, local->dims, local->rank);
    return spmd_emit_convert(partitioner, spmd_emit_binary(partitioner, HLO_OP_ADD, count, spread), wanted);
}

// A free op has a rule and operands that are free or scalars: its factors say what part of each operand the wanted part
// needs.
static HloInstruction *demand_op(SpmdPartitioner *partitioner, const HloInstruction *source, const SpmdSharding *to) {
    assert(source->operand_count > 0); /* constants and iotas have been made before */
    const SpmdRule *rule = partitioner->plan->rules[source->id];
    SpmdAxes *factors = HLO_ARENA_NEW(partitioner->arena, SpmdAxes, rule->factors.count);
    spmd_rule_project(rule, partitioner->mesh, spmd_rule_result(rule, 0), to, factors);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, source->operand_count);
    for (int32_t i = 0; i < source->operand_count; i++) {
        SpmdSharding *wanted = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, i, factors, to->manual);
        SpmdReason reason = {.op = source, .what = "scalar operand"};
        operands[i] =
            spmd_reshard(partitioner, *spmd_local(partitioner, source->operands[i], 0), wanted, 0, reason).hlo;
    }
    const HloShape *local = spmd_local_shape(partitioner->arena, partitioner->mesh, source->shape, to);
    return spmd_clone(partitioner, source, local, operands, source->operand_count);
}

// Makes a free array in the requested sharding. The instructions carry the metadata of `source`, not of the op that
// requested it.
static SpmdLocal demand(SpmdPartitioner *partitioner, const HloInstruction *source, const SpmdSharding *to) {
    const Cached *cached = cache_find(&partitioner->scope->frees, source->id, source->shape, to, 0);
    if (cached) return cached->local;
    const HloInstruction *op = partitioner->op;
    const HloMetadata *metadata = partitioner->metadata;
    set_op(partitioner, source);
    SpmdLocal local = {.global = source->shape, .sharding = to};
    if (hlo_is(source, HLO_OP_CONSTANT)) {
        local.hlo = demand_constant(partitioner, source, to);
    } else if (hlo_is(source, HLO_OP_IOTA)) {
        local.hlo = demand_iota(partitioner, source, to);
    } else {
        local.hlo = demand_op(partitioner, source, to);
    }
    partitioner->op = op;
    partitioner->metadata = metadata;
    cache_add(partitioner->arena, &partitioner->scope->frees, source->id, to, 0, local);
    return local;
}

// ---- operands and results ----

// A complete array as a sum over `axes`: the first device of each group holds it, the others zeros.
// Selecting rather than multiplying by 0 or 1: the zeros must not become NaN where the value is
// infinite.
static SpmdLocal spread(SpmdPartitioner *partitioner, SpmdLocal local, SpmdAtomSet axes) {
    assert(local.hlo && axes && !(local.partial & axes)); /* a complete array, over axes that it is not a sum over */
    SpmdAxes list = {0};
    spmd_axes_push_set(&list, axes);
    const HloShape *shape = local.hlo->shape;
    HloInstruction *first =
        spmd_emit_compare(partitioner, HLO_ComparisonDirection_EQ, spmd_emit_index(partitioner, &list),
                          spmd_emit_scalar(partitioner, HLO_S32, 0));
    HloInstruction *zero = spmd_emit_scalar(partitioner, shape->type, 0);
    first = spmd_emit_splat(partitioner, first, shape->dims, shape->rank);
    zero = spmd_emit_splat(partitioner, zero, shape->dims, shape->rank);
    local.hlo = spmd_emit_select(partitioner, first, local.hlo, zero);
    local.partial |= axes;
    local.reduction = HLO_OP_ADD;
    return local;
}

// Turns the shards of an array into a sum over the axes that shard it, without communication: each device puts its part
// into zeros. Dimensions whose shards do not begin where those of the coarser sharding do are left as they are.
static SpmdLocal spread_shards(SpmdPartitioner *partitioner, SpmdLocal local, SpmdAtomSet axes) {
    SpmdSharding *after = spmd_sharding_copy(partitioner->arena, local.sharding);
    HloInstruction *zero = spmd_emit_scalar(partitioner, local.hlo->shape->type, 0);
    for (int32_t d = 0; d < after->rank; d++) {
        const SpmdAxes *now = &local.sharding->dims[d];
        int32_t keep = now->count;
        while (keep > 0 && (axes >> now->items[keep - 1] & 1)) keep--;
        if (keep == now->count) continue;
        SpmdAxes gone = spmd_axes_tail(now, keep);
        int64_t times = spmd_axes_product(partitioner->mesh, &gone), shard = local.hlo->shape->dims[d];
        int64_t whole = spmd_shard_size(local.global->dims[d], spmd_axes_product(partitioner->mesh, now) / times);
        if (whole > times * shard || (keep && whole != times * shard)) continue;  // parts start elsewhere
        after->dims[d] = spmd_axes_head(now, keep);
        local.hlo = spmd_emit_mask(partitioner, local.hlo, d, now, local.global->dims[d], zero);
        local.hlo = spmd_emit_pad(partitioner, local.hlo, d, (times - 1) * shard, (times - 1) * shard, zero);
        HloInstruction *offset = spmd_emit_offset(partitioner, &gone, shard);
        HloInstruction *first = spmd_emit_scalar(partitioner, offset->shape->type, (times - 1) * shard);
        first = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, first, offset);
        local.hlo = spmd_emit_dynamic_slice(partitioner, local.hlo, d, first, whole);
        local.partial |= spmd_axes_set(&gone);
        local.reduction = HLO_OP_ADD;
    }
    local.sharding = after;
    return local;
}

// A free array, as a sum if requested.
static SpmdLocal demand_unreduced(SpmdPartitioner *partitioner, const HloInstruction *source, const SpmdSharding *to) {
    if (!to->unreduced) return demand(partitioner, source, to);
    SpmdSharding *complete = spmd_sharding_copy(partitioner->arena, to);
    complete->unreduced = 0;
    SpmdLocal local = spread(partitioner, demand(partitioner, source, complete), to->unreduced);
    local.sharding = to;
    return local;
}

// The instructions carry the metadata of the op that is computed again, not of the one that needs the array.
static SpmdLocal remake(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    const HloInstruction *op = partitioner->op;
    const HloMetadata *metadata = partitioner->metadata;
    set_op(partitioner, local->source);
    const SpmdLocal made = spmd_remake(partitioner, local, to);
    partitioner->op = op;
    partitioner->metadata = metadata;
    return made;
}

// True if an array can be made in any form for nothing: a free one, or a constant or an iota that an annotation had
// made in one form.
static bool is_free(const SpmdPartitioner *partitioner, const SpmdLocal *local) {
    if (!local->hlo) return true;
    const HloInstruction *source = local->source;
    return source && source->parent == partitioner->op->parent &&
           (hlo_is(source, HLO_OP_CONSTANT) || hlo_is(source, HLO_OP_IOTA));
}

bool spmd_has_form(const SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdSharding *to) {
    if (is_free(partitioner, local)) return true;
    if (!local->partial && spmd_sharding_equal(local->sharding, to)) return true;
    return cache_find(&partitioner->scope->reshards, local->hlo->id, local->global, to, 0) != NULL;
}

// In order: a free array is made in the wanted form; an array that is in it already is returned; one that was made
// before comes from the scope's cache (instructions of another computation would be out of reach); one that is better
// computed again from its operands is remade (remake.c); otherwise the planner's path is emitted. An array that is
// wanted unreduced, as a sum over axes, becomes one by zeros everywhere but on the first device.
SpmdLocal spmd_reshard(SpmdPartitioner *partitioner, SpmdLocal local, const SpmdSharding *to, SpmdAtomSet keep,
                       SpmdReason reason) {
    if (is_free(partitioner, &local)) return demand_unreduced(partitioner, local.source, to);
    if (!hlo_shape_is_array(local.global)) return local;
    keep &= ~spmd_sharding_used(to);  // a sum cannot be sharded along its own axes
    if (!(local.partial & ~keep) && spmd_sharding_equal(local.sharding, to)) return local;
    const Cached *cached = cache_find(&partitioner->scope->reshards, local.hlo->id, local.global, to, keep);
    if (cached) return cached->local;
    const HloInstruction *before = local.hlo;
    if (spmd_should_remake(partitioner, &local, to)) {
        const SpmdLocal made = remake(partitioner, &local, to);
        cache_add(partitioner->arena, &partitioner->scope->reshards, before->id, to, keep, made);
        return made;
    }
    SpmdAtomSet spread_over = to->unreduced & spmd_sharding_used(local.sharding) & ~local.partial;
    if (spread_over && (!local.partial || local.reduction == HLO_OP_ADD)) {
        local = spread_shards(partitioner, local, spread_over);
    }
    const SpmdSharding *goal = to;
    if (to->unreduced && local.partial && local.reduction != HLO_OP_ADD) {  // only sums can stay unreduced
        SpmdSharding *complete = spmd_sharding_copy(partitioner->arena, to);
        complete->unreduced = 0;
        goal = complete;
    }
    const SpmdPath *path = spmd_reshard_path(&partitioner->paths, partitioner->arena, partitioner->mesh, local.global,
                                             local.sharding, local.partial, goal, keep);
    if (!reason.from) reason.from = local.sharding;
    if (!reason.to) reason.to = to;
    reason.summed = local.summed;
    SpmdLocal result = spmd_emit_path(partitioner, local, path, &reason);
    SpmdAtomSet missing = to->unreduced & ~result.partial;
    if (missing) result = spread(partitioner, result, missing);
    result.sharding = to;
    if (!result.partial) result.summed = NULL;
    cache_add(partitioner->arena, &partitioner->scope->reshards, before->id, to, keep, result);
    return result;
}

// Few of the names are ever printed, so the usual ones are not made each time.
const char *spmd_operand_name(SpmdPartitioner *partitioner, int64_t index) {
    static const char *const names[] = {"operand 0", "operand 1", "operand 2", "operand 3"};
    assert(index >= 0);
    if (index < (int64_t)HLO_COUNT_OF(names)) return names[index];
    return hlo_arena_format(partitioner->arena, "operand %lld", (long long)index);
}

// The reason names the operand, so that `explain` can say which one had to move.
HloInstruction *spmd_operand_as(SpmdPartitioner *partitioner, int64_t index, const SpmdSharding *to) {
    SpmdReason reason = {.op = partitioner->op, .what = spmd_operand_name(partitioner, index)};
    return spmd_reshard(partitioner, spmd_operand(partitioner, index), to, 0, reason).hlo;
}

// Manual axes stay: inside of a region "whole" means whole on the devices that share its part.
HloInstruction *spmd_operand_whole(SpmdPartitioner *partitioner, int64_t index) {
    SpmdLocal local = spmd_operand(partitioner, index);
    SpmdAtomSet manual = local.sharding ? local.sharding->manual : 0;
    return spmd_operand_as(partitioner, index, spmd_sharding_new(partitioner->arena, local.global->rank, manual));
}

// The struct is copied: callers keep theirs on the stack.
void spmd_define_as(SpmdPartitioner *partitioner, int64_t leaf, const SpmdLocal *local) {
    assert(local->global); /* also of what is no array */
    int32_t number = partitioner->plan->first_leaf[partitioner->op->id] + (int32_t)leaf;
    partitioner->locals[number] = hlo_arena_copy(partitioner->arena, local, sizeof(*local));
}

// The axes over which all users of an array take it as a sum: its own annotation, or those of all users. Only users
// that are annotations (custom-call Sharding and its like) take a sum; for any other op it is finished.
static SpmdAtomSet taken_as_sum(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf) {
    assert(leaf >= 0);
    const SpmdArray *array = spmd_plan_array(plan, op, leaf);
    if (array->annotated) return array->sharding->unreduced;
    SpmdAtomSet axes = spmd_mesh_all(plan->mesh);
    if (hlo_instruction_is_root(op)) {
        if (op->parent != plan->module->entry) return 0;
        axes &= plan->arrays.items[plan->results[leaf]].sharding->unreduced;
    } else if (!op->users.count) {
        return 0;
    }
    for (int64_t i = 0; i < op->users.count; i++) {
        const HloInstruction *user = op->users.items[i];
        if (!hlo_custom_call_returns_operand(user)) return 0;
        axes &= spmd_plan_array(plan, user, 0)->sharding->unreduced;
    }
    return axes;
}

// Only linear ops may pass a sum on: f(a + b) = f(a) + f(b). A product does as long as one side only is a sum; sums of
// sums would bring mixed terms.
SpmdAtomSet spmd_passed_sums(SpmdPartitioner *partitioner, const HloInstruction *op) {
    SpmdAtomSet partial[2] = {0};
    for (int32_t i = 0; i < op->operand_count && i < 2; i++) {
        if (!hlo_shape_is_array(op->operands[i]->shape)) return 0;
        const SpmdLocal *local = spmd_local(partitioner, op->operands[i], 0);
        if (local->partial && local->reduction != HLO_OP_ADD) return 0;
        partial[i] = local->partial;
    }
    if (!(partial[0] | partial[1])) return 0;
    SpmdAtomSet sums = 0;
    if (hlo_op_is(op->opcode, HLO_OP_IS_LINEAR)) {
        sums = op->operand_count > 1 ? partial[0] & partial[1] : partial[0];
    } else if (hlo_op_is(op->opcode, HLO_OP_IS_MULTILINEAR)) {
        sums = partial[0] && partial[1] ? 0 : partial[0] | partial[1];
    } else if (hlo_op_is(op->opcode, HLO_OP_IS_LINEAR_IN_FIRST)) {
        sums = partial[1] ? 0 : partial[0];
    } else if (hlo_is(op, HLO_OP_CONVERT)) {
        // A conversion rounds each part. A program that requests the sum after it has chosen so.
        const bool floats = hlo_type_is_float(op->shape->type) && hlo_type_is_float(op->operands[0]->shape->type);
        sums = floats ? partial[0] : 0;
    } else if (hlo_custom_call_returns_operand(op)) {
        sums = partial[0];
    }
    return sums & taken_as_sum(partitioner->plan, op, 0);
}

bool spmd_keeps_partial(HloOpcode opcode, HloOpcode reduction) {
    return hlo_op_is(opcode, HLO_OP_IS_REARRANGES) || (opcode == HLO_OP_NEGATE && reduction == HLO_OP_ADD);
}

// True if the only user would give the same partial sum: then finishing it can wait.
// The user must be an op that spmd_factor_operand() passes partial results through.
static bool can_stay_partial(const SpmdPartitioner *partitioner, const HloInstruction *op, HloOpcode reduction) {
    if (op->users.count != 1 || hlo_instruction_is_root(op)) return false;
    const HloInstruction *user = op->users.items[0];
    if (spmd_plan_array(partitioner->plan, op, 0)->annotated) return false;
    return spmd_keeps_partial(user->opcode, reduction);
}

// Whether a partial result of the current op costs less if it is finished after the ops that follow.
static bool should_wait(SpmdPartitioner *partitioner, const SpmdLocal *local, const SpmdArray *array) {
    if (array->annotated || local->reduction != HLO_OP_ADD || local->sharding->unreduced || !local->source ||
        !spmd_can_wait(partitioner, local->source))
        return false;
    const int64_t now = spmd_path(partitioner, local->global, local->sharding, local->partial, array->sharding)->cost;
    return spmd_later_cost(partitioner, local->source, local->sharding, local->partial) < now;
}

// An annotated array gets its sharding at once, since the user asked for it there. A partial one is finished at once
// too, unless its only user passes it on: a postponed all-reduce may be merged with another or become a reduce-scatter,
// but two users would finish it twice.
void spmd_define(SpmdPartitioner *partitioner, int64_t leaf, HloInstruction *hlo, const SpmdSharding *sharding,
                 SpmdAtomSet partial, HloOpcode reduction) {
    assert(hlo && sharding); /* an array that was made, and where it lies */
    const HloInstruction *op = partitioner->op;
    const SpmdArray *array = spmd_plan_array(partitioner->plan, op, leaf);
    SpmdLocal local = {.hlo = hlo,
                       .source = hlo_shape_is_array(op->shape) ? op : NULL,
                       .global = hlo_shape_leaf(op->shape, leaf),
                       .sharding = sharding,
                       .partial = partial,
                       .reduction = reduction};
    if (partial) {
        // What passes a partial result on did not make it.
        const int32_t waiting = spmd_waiting_operand(partitioner, op);
        const int32_t sum = op->operand_count == 1 ? 0 : waiting;
        const HloInstruction *summed = sum < 0 ? NULL : spmd_operand(partitioner, sum).summed;
        local.summed = summed ? summed : op;
    }
    if (sharding->unreduced) {
        local.partial |= sharding->unreduced;
        local.reduction = HLO_OP_ADD;
    }
    bool now = array->annotated || (partial && !can_stay_partial(partitioner, op, reduction));
    SpmdAtomSet keep = partial && reduction == HLO_OP_ADD ? taken_as_sum(partitioner->plan, op, leaf) : 0;
    if (!array->annotated && partial && !(partial & ~keep)) now = false;  // its users take the sum as it is
    local.waits = partial && !keep && should_wait(partitioner, &local, array);
    now &= !local.waits;
    if (now) local = spmd_reshard(partitioner, local, array->sharding, keep, (SpmdReason){.op = op, .what = "result"});
    spmd_define_as(partitioner, leaf, &local);
}

// ---- tuples ----

// Walks the tuple's shape; *next counts the leaves that are used up.
static HloInstruction *emit_tree(SpmdPartitioner *partitioner, const HloShape *shape, HloInstruction *const *leaves,
                                 int64_t *next) {
    assert(next && *next >= 0);
    if (!hlo_shape_is_tuple(shape)) return leaves[(*next)++];
    HloInstruction **parts = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, shape->element_count);
    const HloShape **shapes = HLO_ARENA_NEW(partitioner->module->arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) {
        parts[i] = emit_tree(partitioner, shape->elements[i], leaves, next);
        shapes[i] = parts[i]->shape;
    }
    const HloShape *tuple = hlo_shape_tuple(partitioner->module->arena, shapes, shape->element_count);
    return spmd_emit(partitioner, HLO_OP_TUPLE, tuple, parts, shape->element_count, NULL);
}

HloInstruction *spmd_emit_tree(SpmdPartitioner *partitioner, const HloShape *shape, HloInstruction *const *leaves) {
    int64_t next = 0;
    return emit_tree(partitioner, shape, leaves, &next);
}

// The inverse: a get-tuple-element for each step down.
static void emit_leaves(SpmdPartitioner *partitioner, HloInstruction *tree, HloInstruction **leaves, int64_t *next) {
    if (!hlo_shape_is_tuple(tree->shape)) {
        leaves[(*next)++] = tree;
        return;
    }
    for (int32_t i = 0; i < tree->shape->element_count; i++) {
        HloTupleIndexAttributes attributes = {i};
        HloInstruction *part =
            spmd_emit(partitioner, HLO_OP_GET_TUPLE_ELEMENT, tree->shape->elements[i], &tree, 1, &attributes);
        emit_leaves(partitioner, part, leaves, next);
    }
}

void spmd_emit_leaves(SpmdPartitioner *partitioner, HloInstruction *tree, HloInstruction **leaves) {
    int64_t next = 0;
    emit_leaves(partitioner, tree, leaves, &next);
}

// ---- computations ----

// Errors get the instruction's name and place here, so that rules need not know about texts.
static HloStatus partition_instruction(SpmdPartitioner *partitioner, const HloInstruction *op) {
    set_op(partitioner, op);
    if (partitioner->plan->free[op->id]) {
        SpmdLocal local = {.global = op->shape, .source = op, .sharding = spmd_planned(partitioner, 0)};
        spmd_define_as(partitioner, 0, &local);
        return HLO_SUCCESS;
    }
    const SpmdOp *row = spmd_op(op->opcode);
    HloStatus status = row->partition ? row->partition(partitioner, op) : spmd_partition_default(partitioner, op);
    return hlo_status_at_instruction(hlo_status_annotate(status, "instruction %%%s", op->name), op);
}

// The wanted form of every leaf of a computation's root.
static HloInstruction *emit_root(SpmdPartitioner *partitioner, const HloInstruction *root,
                                 const SpmdArray *const *wanted) {
    int64_t count = hlo_shape_leaf_count(root->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, count);
    set_op(partitioner, root);
    for (int64_t i = 0; i < count; i++) {
        SpmdReason reason = {.op = root, .what = hlo_arena_format(partitioner->arena, "result %lld", (long long)i)};
        leaves[i] = spmd_reshard(partitioner, *spmd_local(partitioner, root, i), wanted[i]->sharding, 0, reason).hlo;
        bool leaves_program = root == partitioner->plan->module->entry->root;
        reason.what = "device order";
        if (leaves_program && wanted[i]->devices)
            leaves[i] = spmd_emit_to_foreign(partitioner, leaves[i], wanted[i], reason);
    }
    return spmd_emit_tree(partitioner, root->shape, leaves);
}

// Each computation has a scope of its own: caches hold instructions, and those of another computation cannot be used.
// On failure the scope of the caller is restored; the written instructions are freed with the module.
static HloStatus write_computation(SpmdPartitioner *partitioner, const HloComputation *source,
                                   const SpmdArray *const *wanted, HloComputation **made) {
    assert(source->root && made);
    SpmdScope *outer = partitioner->scope;
    const HloInstruction *op = partitioner->op;
    const HloMetadata *metadata = partitioner->metadata;
    SpmdScope scope = {.target = hlo_computation_new(partitioner->module, source->name)};
    partitioner->scope = &scope;
    scope.target->execution_thread = NULL;
    for (const HloInstruction *at = source->first; at; at = at->next) {
        if (!partitioner->needed[at->id]) continue;
        HloStatus status = partition_instruction(partitioner, at);
        if (status) {
            partitioner->scope = outer;
            return status;
        }
    }
    hlo_computation_set_root(scope.target, emit_root(partitioner, source->root, wanted));
    partitioner->scope = outer;
    partitioner->op = op;
    partitioner->metadata = metadata;
    *made = scope.target;
    return HLO_SUCCESS;
}

// One partitioned form of a source computation.
struct SpmdWritten {
    struct SpmdWritten *next;
    const SpmdSharding **shardings;  // of the results' leaves
    HloComputation *made;
};

static bool has_shardings(const struct SpmdWritten *written, const SpmdArray *const *wanted, int64_t leaves) {
    for (int64_t i = 0; i < leaves; i++)
        if (!spmd_sharding_equal(written->shardings[i], wanted[i]->sharding)) return false;
    return true;
}

// A computation is written once for each combination of wanted results: the parameters' shardings follow from the plan
// and are the same each time. Callers want few combinations, so the list of forms is short. Device orders do not count:
// only the entry's results have one, and the entry is written once.
HloStatus spmd_partition_computation(SpmdPartitioner *partitioner, const HloComputation *source,
                                     const SpmdArray *const *wanted, HloComputation **made) {
    const int64_t leaves = hlo_shape_leaf_count(source->root->shape);
    struct SpmdWritten **forms = &partitioner->written[source->id];
    for (const struct SpmdWritten *at = *forms; at; at = at->next) {
        if (!has_shardings(at, wanted, leaves)) continue;
        *made = at->made;
        return HLO_SUCCESS;
    }
    HLO_TRY(write_computation(partitioner, source, wanted, made));
    struct SpmdWritten *written = HLO_ARENA_NEW(partitioner->arena, struct SpmdWritten, 1);
    *written = (struct SpmdWritten){*forms, HLO_ARENA_NEW(partitioner->arena, const SpmdSharding *, leaves), *made};
    for (int64_t i = 0; i < leaves; i++) written->shardings[i] = wanted[i]->sharding;
    *forms = written;
    return HLO_SUCCESS;
}

// ---- the module ----

void spmd_set_device_count(HloModule *module, int64_t device_count) {
    module->num_partitions = device_count;
    module->use_spmd_partitioning = device_count > 1;
    module->propagate_to_parameters = (HloBools){NULL, 0};
    module->propagate_to_output = (HloBools){NULL, 0};
}

// Aliases between a parameter and a result that are no longer of one shape are dropped.
static void set_boundary(const SpmdPlan *plan, HloModule *module) {
    spmd_set_device_count(module, plan->mesh->device_count);
    module->is_scheduled = false;
    spmd_boundary_write(plan, module);
}

// Marks what a computation needs: unused instructions are not partitioned. They would leave their operands in forms
// that others then have for nothing, and choose for that reason.
static void mark_needed(const HloComputation *computation, bool *needed) {
    for (const HloInstruction *at = computation->last; at; at = at->previous) {
        needed[at->id] = hlo_instruction_is_root(at) || hlo_is(at, HLO_OP_PARAMETER) ||
                         at->control_predecessors.count || at->control_successors.count ||
                         hlo_instruction_has_side_effect(at);
        for (int64_t i = 0; i < at->users.count; i++) needed[at->id] |= needed[at->users.items[i]->id];
    }
}

// *partitioned is an empty module, which gets the header of the source, the partitioned entry and all that it calls.
HloStatus spmd_partition_plan(const SpmdPlan *plan, HloModule **partitioned) {
    assert(plan && partitioned);
    HloModule *module = *partitioned;
    SpmdPartitioner partitioner = {
        .arena = plan->arena, .plan = plan, .mesh = plan->mesh, .module = module, .next_channel = 1};
    int64_t leaves = 0;
    partitioner.needed = HLO_ARENA_NEW(plan->arena, bool, plan->module->instruction_limit);
    for (int64_t c = 0; c < plan->computation_count; c++) {
        mark_needed(plan->computations[c], partitioner.needed);
        for (HloInstruction *at = plan->computations[c]->first; at; at = at->next) {
            leaves += hlo_shape_leaf_count(at->shape);
        }
    }
    partitioner.locals = HLO_ARENA_NEW(plan->arena, SpmdLocal *, leaves);
    partitioner.clones = HLO_ARENA_NEW(plan->arena, HloComputation *, plan->module->computation_limit);
    partitioner.written = HLO_ARENA_NEW(plan->arena, struct SpmdWritten *, plan->module->computation_limit);
    partitioner.next_channel = hlo_module_next_channel(plan->module);
    const SpmdArray **wanted = HLO_ARENA_NEW(plan->arena, const SpmdArray *, plan->result_count);
    for (int64_t i = 0; i < plan->result_count; i++) wanted[i] = &plan->arrays.items[plan->results[i]];
    hlo_module_copy_header(module, plan->module);
    HloComputation *entry;
    partitioner.paths.arena = hlo_arena_scratch_new();
    partitioner.paths.costs = plan->costs;
    HloStatus status = spmd_partition_computation(&partitioner, plan->module->entry, wanted, &entry);
    hlo_arena_free(partitioner.paths.arena);
    HLO_TRY(status);
    hlo_module_set_entry(module, entry);
    for (int64_t i = 0; i < module->computations.count; i++) hlo_computation_remove_dead(module->computations.items[i]);
    hlo_module_remove_unreachable(module);
    set_boundary(plan, module);
    return HLO_SUCCESS;
}
