// SPDX-License-Identifier: Apache-2.0
// Tangents of calls, branches and loops. In reverse mode a branch or loop is split: its forward part also returns
// residuals (those of a loop stacked, one row per iteration), and a placeholder represents its tangents.
#include "hlo/analysis/calls.h"
#include "hlo/eval/known.h"
#include "hlo/transform/control.h"
#include "hlo/transform/structure.h"

// ---------------------------------------------------------------------------------------------------------------------
// Calls

static void transpose_custom(HloTransposer *t, const HloLinear *linear, HloInstruction *const *cotangents) {
    int64_t count = t->instruction->shape->element_count;
    HloInstruction **arguments = HLO_ARENA_NEW(t->scratch, HloInstruction *, linear->residual_count + count + 1);
    HloInstruction **given = hlo_control_filled(t, cotangents);
    for (int64_t i = 0; i < linear->residual_count; i++) arguments[i] = hlo_transposer_residual(t, i);
    for (int64_t i = 0; i < count; i++) arguments[linear->residual_count + i] = given[i];
    hlo_control_give(t, linear, hlo_build_call(t->b, arguments, linear->residual_count + count, linear->backward[0]),
                     0);
}

// Values for the tangents of all continuous operands, each an array.
static bool continuous_tangents(HloJvp *j, HloInstructionVector *list) {
    for (int32_t i = 0; i < j->old->operand_count; i++) {
        const HloShape *shape = j->old->operands[i]->shape;
        if (hlo_shape_is_tuple(shape)) {
            hlo_jvp_fail(j, HLO_INVALID_ARGUMENT, "%s: a computation with a derivative rule has arrays as parameters",
                         j->old->name);
            return false;
        }
        if (hlo_transform_is_continuous(shape->type)) hlo_vector_push(j->scratch, list, hlo_jvp_tangent_or_zeros(j, i));
    }
    return true;
}

static bool *continuous_leaves(HloJvp *j) {
    int64_t count = hlo_shape_leaf_count(j->old->shape);
    bool *flags = HLO_ARENA_NEW(j->scratch, bool, count + 1);
    for (int64_t k = 0; k < count; k++) flags[k] = hlo_transform_is_continuous(hlo_shape_leaf(j->old->shape, k)->type);
    return flags;
}

// Checks the number of parameters and results of a rule's computation; `results` -1: any.
static bool rule_fits(HloJvp *j, const HloComputation *c, int64_t parameters, int64_t results) {
    const HloShape *shape = c->root->shape;
    bool fits = hlo_parameter_count(c) == parameters && hlo_shape_is_tuple(shape) && shape->is_flat &&
                (results < 0 || shape->element_count == results);
    if (!fits)
        hlo_jvp_fail(j, HLO_INVALID_ARGUMENT,
                     "%s: the derivative rule %s should have %lld parameters and return a tuple of %lld arrays",
                     j->old->name, c->name, (long long)parameters, (long long)results);
    return fits;
}

static void custom_jvp(HloJvp *j, const HloDerivativeRule *rule, HloInstruction **out) {
    HloInstructionVector arguments = {0};
    const bool *continuous = continuous_leaves(j);
    int64_t leaves = hlo_shape_leaf_count(j->old->shape), active = hlo_transform_count(continuous, leaves);
    for (int32_t i = 0; i < j->old->operand_count; i++) hlo_vector_push(j->scratch, &arguments, hlo_jvp_operand(j, i));
    if (!continuous_tangents(j, &arguments) || !rule_fits(j, rule->jvp, arguments.count, leaves + active)) return;
    HloInstruction *root = hlo_transform_inline(j->b, j->scratch, rule->jvp, arguments.items);
    if (root && hlo_is(root, HLO_OP_TUPLE)) {
        // Without the tuple, values stay apart from tangents, of which alone reverse mode makes transposes.
        HloInstruction **values = root->operands;
        for (int64_t k = 0, next = leaves; k < leaves; k++)
            if (continuous[k]) out[k] = values[next++];
        j->result = hlo_transform_assemble(j->b, j->old->shape, values);
    } else {
        hlo_control_unpack(j, root, continuous, out);
    }
}

static void custom_vjp(HloJvp *j, const HloDerivativeRule *rule, HloInstruction **out) {
    HloInstructionVector arguments = {0}, operands = {0};
    const bool *continuous = continuous_leaves(j);
    int64_t leaves = hlo_shape_leaf_count(j->old->shape), active = hlo_transform_count(continuous, leaves);
    if (!j->split) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: %s has a rule for reverse mode only", j->old->name,
                     j->old->called[0]->name);
        return;
    }
    for (int32_t i = 0; i < j->old->operand_count; i++) hlo_vector_push(j->scratch, &arguments, hlo_jvp_operand(j, i));
    if (!rule_fits(j, rule->forward, arguments.count, -1)) return;
    HloInstruction *both = hlo_build_call(j->b, arguments.items, arguments.count, rule->forward);
    if (!both) return;
    int64_t residuals = both->shape->element_count - leaves;
    for (int64_t i = 0; i < residuals; i++)
        hlo_vector_push(j->scratch, &operands, hlo_build_get(j->b, both, leaves + i));
    if (!continuous_tangents(j, &operands)) return;
    if (!rule_fits(j, rule->backward, residuals + active, operands.count - residuals)) return;
    hlo_control_unpack(j, both, continuous, NULL);
    HloLinear linear = {.transpose = transpose_custom,
                        .residual_count = residuals,
                        .tangent_count = operands.count - residuals,
                        .backward = hlo_arena_copy(j->scratch, &rule->backward, sizeof rule->backward),
                        .backward_count = 1};
    if (!j->b->status) hlo_control_place(j, &linear, operands.items, continuous, out);
}

void hlo_jvp_inline(HloJvp *j, const HloComputation *computation, int64_t first, HloInstruction **out) {
    HloInstruction *root = NULL;
    for (int64_t i = 0; i < hlo_parameter_count(computation); i++)
        hlo_jvp_bind(j, computation->parameters.items[i], hlo_jvp_operand(j, first + i),
                     hlo_jvp_tangents(j, first + i));
    hlo_jvp_walk(j, computation, hlo_jvp_needed(j), &root, out);
    j->result = root;
}

void hlo_jvp_call(HloJvp *j, HloInstruction **out) {
    const HloInstruction *call = j->old;
    HloComputation *called = call->called[0];
    for (int64_t i = 0; i < j->rule_count; i++) {
        if (j->rules[i].computation != called) continue;
        if (j->rules[i].jvp && (!j->split || !j->rules[i].forward))
            custom_jvp(j, &j->rules[i], out);
        else
            custom_vjp(j, &j->rules[i], out);
        return;
    }
    if (!hlo_transform_named(j, out) && !j->b->status) hlo_jvp_inline(j, called, 0, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Branches

// JAX writes what it does differently on each platform as a switch by a constant.
int64_t hlo_jvp_known_branch(const HloJvp *j) {
    const HloInstruction *selector = hlo_jvp_operand(j, 0);
    const HloLiteral *known = selector ? hlo_known_value(j->scratch, selector, true) : NULL;
    return known ? hlo_selected_branch(j->old, hlo_literal_get_int64(known, 0)) : -1;
}

// The forward part of a branch that returns the residuals of all branches, those of others as zeros.
typedef struct Branch {
    HloBuilder *b;
    HloInstruction *root;
    HloJvp *j;
    const HloTransformSplit *splits;
    int64_t index, count, leaves;
} Branch;

static HloStatus residual_branch(void *argument) {
    Branch *c = argument;
    const HloComputation *forward = c->splits[c->index].forward;
    HloInstruction *parameter = hlo_build_parameter_shape(c->b, 0, forward->parameters.items[0]->shape, NULL);
    HloInstruction *own = hlo_transform_inline(c->b, c->j->scratch, forward, &parameter);
    HloInstructionVector results = {0};
    for (int64_t k = 0; k < c->leaves && own; k++) hlo_vector_push(c->j->scratch, &results, own->operands[k]);
    for (int64_t i = 0; i < c->count && own; i++) {
        for (int64_t r = 0; r < c->splits[i].residual_count; r++) {
            bool mine = i == c->index;
            HloInstruction *value =
                mine ? own->operands[c->leaves + r] : hlo_transform_zeros(c->b, c->splits[i].residuals[r]);
            hlo_vector_push(c->j->scratch, &results, value);
        }
    }
    c->root = hlo_build_tuple(c->b, results.items, results.count);
    return hlo_transform_status(c->b);
}

static HloInstruction *conditional(HloBuilder *b, HloInstruction *selector, HloInstruction *const *operands,
                                   HloComputation *const *branches, int64_t count) {
    if (selector && selector->shape->type == HLO_PRED)
        return hlo_build_if(b, selector, operands[0], branches[0], operands[1], branches[1]);
    return hlo_build_switch(b, selector, operands, branches, count);
}

// Each branch's operand has its own tangents; a branch returns zeros for those of the others.
typedef struct Returned {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloComputation *from;
    const HloInstruction *placeholder;
    const HloShape *shape;
    int64_t first, count, total, residual_count;
} Returned;

static HloStatus returned_body(void *argument) {
    Returned *c = argument;
    HloInstruction *all = hlo_build_parameter_shape(c->b, 0, c->shape, NULL);
    int64_t parameters = hlo_parameter_count(c->from);
    HloInstruction **arguments = HLO_ARENA_NEW(c->scratch, HloInstruction *, parameters + 1);
    HloInstruction **results = HLO_ARENA_NEW(c->scratch, HloInstruction *, c->total + 1);
    for (int64_t i = 0; i < parameters; i++) arguments[i] = hlo_build_get(c->b, all, i);
    if (c->b->status) return hlo_transform_status(c->b);
    HloInstruction *own = hlo_transform_inline(c->b, c->scratch, c->from, arguments);
    for (int64_t i = 0; i < c->total && own; i++) {
        bool mine = i >= c->first && i < c->first + c->count;
        results[i] = mine ? own->operands[i - c->first]
                          : hlo_transform_zeros(c->b, c->placeholder->operands[c->residual_count + i]->shape);
    }
    c->root = hlo_build_tuple(c->b, results, c->total);
    return hlo_transform_status(c->b);
}

// Residual 0 is the selector; each branch has its own after it, and its own tangents.
static void transpose_conditional(HloTransposer *t, const HloLinear *linear, HloInstruction *const *cotangents) {
    HloInstruction **given = hlo_control_filled(t, cotangents);
    int64_t branches = linear->backward_count, results = t->instruction->shape->element_count;
    HloComputation **computations = HLO_ARENA_NEW(t->scratch, HloComputation *, branches);
    HloInstruction **operands = HLO_ARENA_NEW(t->scratch, HloInstruction *, branches);
    for (int64_t i = 0, first = 0; i < branches && !t->b->status; i++) {
        HloInstructionVector list = {0};
        for (int64_t r = linear->residual_first[i]; r < linear->residual_first[i + 1]; r++)
            hlo_vector_push(t->scratch, &list, hlo_transposer_residual(t, r));
        for (int64_t k = 0; k < results; k++) hlo_vector_push(t->scratch, &list, given[k]);
        operands[i] = hlo_build_tuple(t->b, list.items, list.count);
        if (!operands[i]) return;
        int64_t own = linear->backward[i]->root->operand_count;
        Returned c = {.scratch = t->scratch,
                      .from = linear->backward[i],
                      .placeholder = t->instruction,
                      .shape = operands[i]->shape,
                      .first = first,
                      .count = own,
                      .total = linear->tangent_count,
                      .residual_count = linear->residual_count};
        first += own;
        HloStatus status = hlo_transform_build(t->b->module, linear->backward[i]->name, returned_body, &c, &c.b,
                                               &c.root, &computations[i]);
        if (status) hlo_builder_fail(t->b, status);
    }
    if (t->b->status) return;
    HloInstruction *selector = hlo_transposer_residual(t, 0);
    hlo_control_give(t, linear, conditional(t->b, selector, operands, computations, branches), 0);
}

// The factors of LU decompositions that the branches take and return.
typedef struct BranchFactors {
    HloTransformFactors *each;  // per branch; all return the same
    int64_t *from;              // per leaf of the result, if it is returned: the branch that decomposes
} BranchFactors;

// `in`: the active leaves of each branch's parameter; `sets`: the leaves of the result that have tangents in each.
static BranchFactors branch_factors(HloJvp *j, bool *const *in, bool *const *sets, const bool *active) {
    const HloInstruction *old = j->old, *selector = hlo_jvp_operand(j, 0);
    const int64_t leaves = hlo_shape_leaf_count(old->shape);
    BranchFactors f = {.each = HLO_ARENA_NEW(j->scratch, HloTransformFactors, old->called_count),
                       .from = HLO_ARENA_NEW(j->scratch, int64_t, leaves + 1)};
    bool *returned = HLO_ARENA_NEW(j->scratch, bool, leaves + 1);
    for (int64_t i = 0; i < old->called_count && !j->b->status; i++) {
        HloInstruction *operand = hlo_jvp_operand(j, i + 1);
        if (!operand) break;
        const int64_t count = hlo_shape_leaf_count(operand->shape);
        HloInstruction **values = HLO_ARENA_NEW(j->scratch, HloInstruction *, count + 1);
        bool *taken = HLO_ARENA_NEW(j->scratch, bool, count + 1);
        hlo_transform_leaves(j->b, operand, values);
        for (int64_t k = 0; k < count && !j->b->status; k++) {
            const HloFactorTangents *own = in[i][k] ? hlo_transform_lookup(&j->factors, values[k]) : NULL;
            // In another branch the values may be those of no decomposition.
            taken[k] = own && own->selector && own->selector == selector && own->branch == i;
        }
        f.each[i] = (HloTransformFactors){hlo_transform_count(taken, count) > 0 ? taken : NULL, returned};
    }
    for (int64_t k = 0; k < leaves; k++) {
        int64_t count = 0;
        for (int64_t i = 0; i < old->called_count; i++) {
            if (!sets[i][k]) continue;
            f.from[k] = i;
            count += hlo_transform_returns_factors(j, old->called[i], f.each[i].taken, k) ? 1 : 2;
        }
        returned[k] = active[k] && count == 1;
    }
    return f;
}

// Appends the tangents of a branch's operand: of factors, P A'.
static void push_tangents(HloJvp *j, int64_t branch, const bool *in, const HloTransformFactors *factors,
                          HloInstructionVector *list) {
    HloInstruction *operand = hlo_jvp_operand(j, branch + 1);
    const int64_t leaves = hlo_shape_leaf_count(operand->shape);
    HloInstruction **values = HLO_ARENA_NEW(j->scratch, HloInstruction *, leaves + 1);
    int64_t next = list->count;
    hlo_control_push_tangents(j, branch + 1, in, list);
    hlo_transform_leaves(j->b, operand, values);
    for (int64_t k = 0; k < leaves && !j->b->status; k++) {
        if (!in[k]) continue;
        if (factors->taken && factors->taken[k]) {
            const HloFactorTangents *own = hlo_transform_lookup(&j->factors, values[k]);
            list->items[next] = own->permuted;
        }
        next++;
    }
}

// Whether a branch of j->old runs: the last one also does for numbers that no branch has.
static HloInstruction *runs(HloJvp *j, int64_t branch) {
    HloBuilder *b = j->b;
    HloInstruction *selector = hlo_jvp_operand(j, 0), *zero, *last;
    const int64_t end = j->old->called_count - 1;
    if (selector->shape->type == HLO_PRED) return branch == 0 ? selector : hlo_build_not(b, selector);
    if (branch < end)
        return hlo_build_compare(b, selector, hlo_build_scalar(b, HLO_S32, (double)branch), HLO_ComparisonDirection_EQ);
    zero = hlo_build_scalar(b, HLO_S32, 0);
    last = hlo_build_scalar(b, HLO_S32, (double)end);
    return hlo_build_or(b, hlo_build_compare(b, selector, zero, HLO_ComparisonDirection_LT),
                        hlo_build_compare(b, selector, last, HLO_ComparisonDirection_GE));
}

// Makes tangents of the factors that branches return from P A', which they give instead.
static void unpack_factors(HloJvp *j, const BranchFactors *f, HloInstruction **out) {
    HloBuilder *b = j->b;
    const int64_t leaves = hlo_shape_leaf_count(j->old->shape);
    HloInstruction **values = HLO_ARENA_NEW(j->scratch, HloInstruction *, leaves + 1);
    if (!b->status) hlo_transform_leaves(b, j->result, values);
    for (int64_t k = 0; k < leaves && !b->status; k++) {
        if (!f->each[0].returned[k] || !out[k]) continue;
        HloFactorTangents own = {.permuted = out[k], .selector = hlo_jvp_operand(j, 0), .branch = f->from[k]};
        // Other branches return values that may be singular; P A' is 0 then.
        HloInstruction *on = hlo_build_broadcast(b, runs(j, f->from[k]), hlo_build_dims(values[k]), HLO_DIMS());
        HloInstruction *lu = hlo_build_select(b, on, values[k], hlo_build_splat_like(b, values[k], 1));
        out[k] = hlo_transform_factors_tangent(b, lu, own.permuted, &own.solved);
        hlo_transform_store(j->scratch, &j->factors, values[k], hlo_arena_copy(j->scratch, &own, sizeof own));
    }
}

static void split_conditional(HloJvp *j, const bool *const *in, const bool *active, const BranchFactors *factors,
                              HloInstruction **out) {
    const HloInstruction *old = j->old;
    int64_t branches = old->called_count, leaves = hlo_shape_leaf_count(old->shape), residuals = 1;
    HloTransformSplit *splits = HLO_ARENA_NEW(j->scratch, HloTransformSplit, branches);
    HloComputation **forward = HLO_ARENA_NEW(j->scratch, HloComputation *, branches);
    HloComputation **backward = HLO_ARENA_NEW(j->scratch, HloComputation *, branches);
    HloInstruction **operands = HLO_ARENA_NEW(j->scratch, HloInstruction *, branches);
    int64_t *first = HLO_ARENA_NEW(j->scratch, int64_t, branches + 1);
    HloInstructionVector list = {0};
    for (int64_t i = 0; i < branches; i++) {
        if (!hlo_transform_split(j, old->called[i], in[i], active, &factors->each[i], false, &splits[i])) return;
        operands[i] = hlo_jvp_operand(j, i + 1);
        backward[i] = splits[i].backward;
        first[i] = residuals;
        residuals += splits[i].residual_count;
    }
    first[branches] = residuals;
    for (int64_t i = 0; i < branches; i++) {
        Branch c = {.j = j, .splits = splits, .index = i, .count = branches, .leaves = leaves};
        HloStatus status =
            hlo_transform_build(j->b->module, splits[i].forward->name, residual_branch, &c, &c.b, &c.root, &forward[i]);
        if (status) {
            hlo_builder_fail(j->b, status);
            return;
        }
    }
    HloInstruction *both = conditional(j->b, hlo_jvp_operand(j, 0), operands, forward, branches);
    hlo_control_unpack(j, both, active, NULL);
    hlo_vector_push(j->scratch, &list, hlo_jvp_operand(j, 0));
    for (int64_t r = 1; r < residuals; r++)
        hlo_vector_push(j->scratch, &list, hlo_build_get(j->b, both, leaves + r - 1));
    for (int64_t i = 0; i < branches && !j->b->status; i++) push_tangents(j, i, in[i], &factors->each[i], &list);
    HloLinear linear = {.transpose = transpose_conditional,
                        .residual_count = residuals,
                        .tangent_count = list.count - residuals,
                        .backward = backward,
                        .backward_count = branches,
                        .residual_first = first};
    if (!j->b->status) hlo_control_place(j, &linear, list.items, active, out);
}

void hlo_jvp_conditional(HloJvp *j, HloInstruction **out) {
    const HloInstruction *old = j->old;
    int64_t branches = old->called_count, leaves = hlo_shape_leaf_count(old->shape);
    bool *active = HLO_ARENA_NEW(j->scratch, bool, leaves + 1), **in = HLO_ARENA_NEW(j->scratch, bool *, branches);
    bool **sets = HLO_ARENA_NEW(j->scratch, bool *, branches);
    for (int64_t i = 0; i < branches; i++) {
        bool *one = sets[i] = HLO_ARENA_NEW(j->scratch, bool, leaves + 1);
        in[i] = hlo_control_flags(j, hlo_jvp_tangents(j, i + 1), old->operands[i + 1]->shape);
        hlo_jvp_activity(j, old->called[i], &in[i], one);
        for (int64_t k = 0; k < leaves; k++) active[k] |= one[k] && hlo_jvp_needed(j)[k];
    }
    if (hlo_transform_count(active, leaves) == 0) return;
    for (int64_t i = 0; i < branches; i++) {
        // Branches that share an operand do not all use all of it.
        const int64_t count = hlo_shape_leaf_count(old->operands[i + 1]->shape);
        bool *of_use = HLO_ARENA_NEW(j->scratch, bool, count + 1);
        hlo_jvp_need(j, old->called[i], active, of_use);
        for (int64_t k = 0; k < count; k++) in[i][k] &= of_use[k];
    }
    const BranchFactors factors = branch_factors(j, in, sets, active);
    if (j->b->status) return;
    if (j->split) {
        split_conditional(j, (const bool *const *)in, active, &factors, out);
        unpack_factors(j, &factors, out);
        return;
    }
    HloComputation **computations = HLO_ARENA_NEW(j->scratch, HloComputation *, branches);
    HloInstruction **operands = HLO_ARENA_NEW(j->scratch, HloInstruction *, branches);
    for (int64_t i = 0; i < branches && !j->b->status; i++) {
        HloInstructionVector list = {0};
        computations[i] = hlo_transform_forward(j, old->called[i], in[i], active, &factors.each[i]);
        hlo_control_push_leaves(j, hlo_jvp_operand(j, i + 1), &list);
        push_tangents(j, i, in[i], &factors.each[i], &list);
        operands[i] = hlo_build_tuple(j->b, list.items, list.count);
    }
    if (!j->b->status)
        hlo_control_unpack(j, conditional(j->b, hlo_jvp_operand(j, 0), operands, computations, branches), active, out);
    unpack_factors(j, &factors, out);
}
