// SPDX-License-Identifier: Apache-2.0
// Batching rules of calls, branches and loops. A branch whose selector is batched becomes a selection among the results
// of all branches; a loop whose condition is batched runs until all items of the batch have ended, and those that have
// keep their state.
#include "hlo/transform/batch.h"
#include "hlo/transform/structure.h"

static bool *flags_of(const HloBatch *v, int64_t index) {
    const int64_t *flags = hlo_int_map_find(&v->flags, (uint64_t)v->old->operands[index]->id);
    return (bool *)(intptr_t)*flags;
}

static void unpack(HloBatch *v, HloInstruction *tuple, int64_t count, HloInstruction **out) {
    for (int64_t k = 0; k < count; k++) out[k] = hlo_build_get(v->b, tuple, k);
}

// The mapped form of a function, all parameters of which are mapped.
typedef struct Mapped {
    HloBatch v;
    HloInstruction *root;
    const HloBatch *outer;
} Mapped;

static HloStatus mapped_function(void *argument) {
    Mapped *m = argument;
    HloBatch *v = &m->v;
    const HloComputation *from = m->outer->old->called[0];
    const int64_t count = hlo_shape_leaf_count(from->root->shape);
    HloInstruction **results = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    for (int64_t i = 0; i < hlo_parameter_count(from); i++) {
        HloInstruction **leaf = HLO_ARENA_NEW(v->scratch, HloInstruction *, 1);
        bool *flag = HLO_ARENA_NEW(v->scratch, bool, 1);
        flag[0] = true;
        leaf[0] = hlo_build_parameter_shape(v->b, i, hlo_batch_shape(v, from->parameters.items[i]->shape), NULL);
        hlo_batch_bind(v, from->parameters.items[i], leaf, flag);
    }
    if (!v->b->status) hlo_batch_walk(v, from, results, m->outer->out_flags);
    m->root = hlo_shape_is_tuple(from->root->shape) ? hlo_build_tuple(v->b, results, count) : results[0];
    return hlo_transform_status(v->b);
}

// True if a call stays one: derivatives know its function by name.
static bool stays_call(const HloInstruction *call) {
    const HloShape *result = call->shape;
    for (int32_t i = 0; i < call->operand_count; i++)
        if (!hlo_shape_is_array(call->operands[i]->shape)) return false;
    return hlo_transform_is_named(call->called[0]) &&
           (!hlo_shape_is_tuple(result) || result->element_count == hlo_shape_leaf_count(result));
}

static void call_mapped(HloBatch *v, HloInstruction **out) {
    const HloInstruction *old = v->old;
    HloComputation *mapped = NULL;
    Mapped m = {.v = {.scratch = v->scratch, .size = v->size, .axis = v->axis}, .outer = v};
    HloStatus status =
        hlo_transform_build(v->b->module, old->called[0]->name, mapped_function, &m, &m.v.b, &m.root, &mapped);
    if (status) {
        hlo_builder_fail(v->b, status);
        return;
    }
    HloInstruction **operands = HLO_ARENA_NEW(v->scratch, HloInstruction *, old->operand_count + 1);
    for (int32_t i = 0; i < old->operand_count; i++) operands[i] = hlo_batch_operand(v, i);
    out[0] = hlo_build_call(v->b, operands, old->operand_count, mapped);
    if (hlo_shape_is_tuple(old->shape)) unpack(v, out[0], old->shape->element_count, out);
}

void hlo_batch_call(HloBatch *v, HloInstruction **out) {
    HloComputation *called = v->old->called[0];
    if (stays_call(v->old)) {
        call_mapped(v, out);
        return;
    }
    for (int32_t i = 0; i < v->old->operand_count; i++)
        hlo_batch_bind(v, called->parameters.items[i], hlo_batch_leaves(v, i), flags_of(v, i));
    hlo_batch_walk(v, called, out, v->out_flags);
}

// ---------------------------------------------------------------------------------------------------------------------
// Branches

// A flat tuple of the leaves of operand `index`.
static HloInstruction *flat_operand(HloBatch *v, int64_t index) {
    return hlo_build_tuple(v->b, hlo_batch_leaves(v, index), hlo_shape_leaf_count(v->old->operands[index]->shape));
}

static void same_branch(HloBatch *v, HloInstruction **out) {
    int64_t branches = v->old->called_count, leaves = hlo_shape_leaf_count(v->old->shape);
    HloComputation **computations = HLO_ARENA_NEW(v->scratch, HloComputation *, branches);
    HloInstruction **operands = HLO_ARENA_NEW(v->scratch, HloInstruction *, branches);
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, leaves + 1);
    // Twice: what one branch batches, all have to.
    for (int round = 0; round < 2; round++)
        for (int64_t i = 0; i < branches && !v->b->status; i++)
            computations[i] = hlo_batch_computation(v, v->old->called[i], flags_of(v, i + 1), flags);
    for (int64_t i = 0; i < branches; i++) operands[i] = flat_operand(v, i + 1);
    if (v->b->status) return;
    HloInstruction *selector = hlo_batch_plain(v, 0);
    bool two = selector->shape->type == HLO_PRED;
    HloInstruction *result =
        two ? hlo_build_if(v->b, selector, operands[0], computations[0], operands[1], computations[1])
            : hlo_build_switch(v->b, selector, operands, computations, branches);
    memcpy(v->out_flags, flags, (size_t)leaves * sizeof *flags);
    unpack(v, result, leaves, out);
}

// `on_true` where the item's predicate holds. Both are batched.
static HloInstruction *choose(HloBatch *v, HloInstruction *predicate, HloInstruction *on_true,
                              HloInstruction *on_false) {
    if (!predicate || !on_true || !on_false || on_true == on_false) return on_true;
    HloInstruction *mask = hlo_build_broadcast(v->b, predicate, hlo_build_dims(on_true), HLO_DIMS(0));
    return hlo_build_select(v->b, mask, on_true, on_false);
}

// True for the items whose selector picks branch `index` of those from 0 on, or one before it.
static HloInstruction *picks(HloBatch *v, HloInstruction *selector, int64_t index) {
    if (selector->shape->type == HLO_PRED) return selector;
    HloInstruction *number = hlo_build_splat(v->b, selector->shape->type, hlo_build_dims(selector), (double)index);
    return hlo_build_compare(v->b, selector, number, HLO_ComparisonDirection_EQ);
}

static void every_branch(HloBatch *v, HloInstruction **out) {
    const HloInstruction *old = v->old;
    int64_t branches = old->called_count, leaves = hlo_shape_leaf_count(old->shape);
    HloInstruction *selector = hlo_batch_plain(v, 0);
    for (int64_t i = branches - 1; i >= 0 && !v->b->status; i--) {
        HloComputation *branch = old->called[i];
        HloInstruction **results = HLO_ARENA_NEW(v->scratch, HloInstruction *, leaves + 1);
        bool *flags = HLO_ARENA_NEW(v->scratch, bool, leaves + 1);
        if (hlo_computation_has_effects(branch)) {
            hlo_batch_fail(v, "%s: a branch with effects, whose selector is mapped", old->name);
            return;
        }
        hlo_batch_bind(v, branch->parameters.items[0], hlo_batch_leaves(v, i + 1), flags_of(v, i + 1));
        hlo_batch_walk(v, branch, results, flags);
        // The last branch is also that of selectors out of range.
        HloInstruction *mine = i < branches - 1 ? picks(v, selector, i) : NULL;
        for (int64_t k = 0; k < leaves && !v->b->status; k++) {
            HloInstruction *result = flags[k] ? results[k] : hlo_batch_repeat(v, results[k]);
            out[k] = mine ? choose(v, mine, result, out[k]) : result;
        }
    }
}

void hlo_batch_conditional(HloBatch *v, HloInstruction **out) {
    if (hlo_batch_has(v, 0))
        every_branch(v, out);
    else
        same_branch(v, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Loops

// A computation on the flat state of a loop.
typedef struct LoopPart {
    HloBatch v;
    HloInstruction *root;
    const HloInstruction *loop;
    const HloShape *state;
    bool *flags;
} LoopPart;

static HloInstruction **bind_state(LoopPart *p, const HloComputation *computation) {
    HloBatch *v = &p->v;
    int64_t count = p->state->element_count;
    HloInstruction **leaves = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    HloInstruction *all = hlo_build_parameter_shape(v->b, 0, p->state, NULL);
    unpack(v, all, count, leaves);
    hlo_batch_bind(v, computation->parameters.items[0], leaves, p->flags);
    return leaves;
}

static HloStatus condition_body(void *argument) {
    LoopPart *p = argument;
    HloBatch *v = &p->v;
    bool batched = false;
    bind_state(p, p->loop->called[0]);
    if (!v->b->status) hlo_batch_walk(v, p->loop->called[0], &p->root, &batched);
    if (batched && !v->b->status) p->root = hlo_build_reduce_op(v->b, HLO_OP_OR, p->root, HLO_DIMS(0));
    return hlo_transform_status(v->b);
}

static HloStatus guarded_body(void *argument) {
    LoopPart *p = argument;
    HloBatch *v = &p->v;
    int64_t count = p->state->element_count;
    HloInstruction **next = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1), *goes_on = NULL;
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, count + 1), batched = false;
    HloInstruction **leaves = bind_state(p, p->loop->called[0]);
    if (!v->b->status) hlo_batch_walk(v, p->loop->called[0], &goes_on, &batched);
    hlo_batch_bind(v, p->loop->called[1]->parameters.items[0], leaves, p->flags);
    if (!v->b->status) hlo_batch_walk(v, p->loop->called[1], next, flags);
    for (int64_t k = 0; k < count && !v->b->status; k++) {
        if (p->flags[k] && !flags[k]) next[k] = hlo_batch_repeat(v, next[k]);
        if (batched) next[k] = choose(v, goes_on, next[k], leaves[k]);
    }
    p->root = hlo_build_tuple(v->b, next, count);
    return hlo_transform_status(v->b);
}

static HloComputation *build_part(HloBatch *v, HloStatus (*body)(void *), LoopPart *p, const char *name) {
    HloComputation *result = NULL;
    p->v = (HloBatch){.scratch = v->scratch, .size = v->size, .axis = v->axis};
    HloStatus status = hlo_transform_build(v->b->module, name, body, p, &p->v.b, &p->root, &result);
    if (status) hlo_builder_fail(v->b, status);
    return result;
}

// Finds which leaves of the state become batched, and whether the condition does: then all are.
static bool find_batched(HloBatch *v, bool *flags, int64_t count) {
    for (bool changed = true; changed;) {
        bool *out = HLO_ARENA_NEW(v->scratch, bool, count + 1), *condition = HLO_ARENA_NEW(v->scratch, bool, 1);
        for (int64_t k = 0; k < count; k++) out[k] = flags[k];
        HloComputation *body = hlo_batch_computation(v, v->old->called[1], flags, out);
        HloComputation *test = body ? hlo_batch_computation(v, v->old->called[0], flags, condition) : NULL;
        if (!test) return false;
        hlo_computation_remove(body);
        hlo_computation_remove(test);
        changed = false;
        for (int64_t k = 0; k < count; k++) {
            out[k] |= condition[0];
            changed |= out[k] && !flags[k];
        }
        for (int64_t k = 0; k < count; k++) flags[k] = out[k];
    }
    return true;
}

void hlo_batch_while(HloBatch *v, HloInstruction **out) {
    const HloInstruction *old = v->old;
    int64_t count = hlo_shape_leaf_count(old->shape);
    bool *flags = HLO_ARENA_NEW(v->scratch, bool, count + 1);
    HloInstruction **initial = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    memcpy(flags, flags_of(v, 0), (size_t)count * sizeof *flags);
    if (!find_batched(v, flags, count)) return;
    for (int64_t k = 0; k < count; k++) {
        HloInstruction *leaf = hlo_batch_leaves(v, 0)[k];
        initial[k] = flags[k] && !flags_of(v, 0)[k] ? hlo_batch_repeat(v, leaf) : leaf;
    }
    HloInstruction *state = hlo_build_tuple(v->b, initial, count);
    if (!state) return;
    LoopPart part = {.loop = old, .state = state->shape, .flags = flags};
    HloComputation *condition = build_part(v, condition_body, &part, old->called[0]->name);
    HloComputation *body = condition ? build_part(v, guarded_body, &part, old->called[1]->name) : NULL;
    if (!body) return;
    memcpy(v->out_flags, flags, (size_t)count * sizeof *flags);
    unpack(v, hlo_build_while(v->b, state, condition, body), count, out);
}
