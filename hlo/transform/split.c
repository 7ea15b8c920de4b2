// SPDX-License-Identifier: Apache-2.0
// Differentiates computations by themselves, for loops and branches. Splitting first builds both parts in one
// computation, then moves the transposes into a computation of their own, to which residuals are parameters.
#include "hlo/transform/control.h"

#include <assert.h>

#include "hlo/transform/remat.h"
#include "hlo/transform/structure.h"

typedef struct Part {
    HloJvp jvp;  // jvp.b is the builder of the computation
    HloJvp *parent;
    const HloComputation *from;
    const bool *active_in, *active_out;
    const HloTransformFactors *factors;  // NULL if there are none
    HloInstruction *root;
    HloInstruction **values, **tangents, **seeds;  // leaves of the result; of the parameter, NULL if inactive
    HloInstruction *parameter;
    HloInstructionVector residuals, again;  // what the backward part gets, and what it computes from that
    bool repeats;
    HloTransposer transposer;  // t.b is the builder of the backward computation
    HloInstruction *backward_root;
    HloTransformSplit *split;
} Part;

int64_t hlo_transform_count(const bool *flags, int64_t count) {
    int64_t result = 0;
    for (int64_t i = 0; i < count; i++) result += flags[i];
    return result;
}

static HloInstruction **new_leaves(const Part *p, const HloShape *shape) {
    return HLO_ARENA_NEW(p->parent->scratch, HloInstruction *, hlo_shape_leaf_count(shape) + 1);
}

static const HloShape *input_shape(const Part *p) {
    return p->from->parameters.items[0]->shape;
}

static const HloShape *output_shape(const Part *p) {
    return p->from->root->shape;
}

// Binds the parameter to a value, of whose leaves some are factors.
static void bind_factors(Part *p, HloInstruction *value) {
    HloBuilder *b = p->jvp.b;
    HloArena *scratch = p->parent->scratch;
    HloInstruction **leaves = new_leaves(p, input_shape(p)), **tangents = new_leaves(p, input_shape(p));
    hlo_transform_leaves(b, value, leaves);
    for (int64_t k = 0; k < hlo_shape_leaf_count(input_shape(p)) && !b->status; k++) {
        tangents[k] = p->seeds[k];
        if (!p->factors->taken[k]) continue;
        HloFactorTangents own = {.permuted = p->seeds[k]};
        tangents[k] = hlo_transform_factors_tangent(b, leaves[k], p->seeds[k], &own.solved);
        hlo_transform_store(scratch, &p->jvp.factors, leaves[k], hlo_arena_copy(scratch, &own, sizeof own));
    }
    if (!b->status)
        hlo_jvp_bind(&p->jvp, p->from->parameters.items[0], hlo_transform_assemble(b, input_shape(p), leaves),
                     tangents);
}

static void return_factors(Part *p) {
    for (int64_t k = 0; k < hlo_shape_leaf_count(output_shape(p)); k++) {
        if (!p->factors->returned[k] || !p->tangents[k]) continue;
        const HloFactorTangents *own = hlo_transform_factors(&p->jvp, p->values[k]);
        assert(own);
        p->tangents[k] = own->permuted;
    }
}

// The walk through the computation; false after an error.
static bool walk(Part *p, HloInstruction *value) {
    HloInstruction *root = NULL;
    p->tangents = new_leaves(p, output_shape(p));
    p->values = new_leaves(p, output_shape(p));
    if (p->factors && p->factors->taken)
        bind_factors(p, value);
    else
        hlo_jvp_bind(&p->jvp, p->from->parameters.items[0], value, p->seeds);
    if (!p->jvp.b->status) hlo_jvp_walk(&p->jvp, p->from, p->active_out, &root, p->tangents);
    if (p->jvp.b->status) return false;
    hlo_transform_leaves(p->jvp.b, root, p->values);
    if (p->factors && !p->jvp.b->status) return_factors(p);
    return !p->jvp.b->status;
}

static HloJvp nested(const HloJvp *j, bool split) {
    return (HloJvp){.scratch = j->scratch,
                    .memory = j->memory,
                    .rules = j->rules,
                    .rule_count = j->rule_count,
                    .remat = j->remat,
                    .split = split};
}

// ---------------------------------------------------------------------------------------------------------------------
// Forward mode

static HloStatus forward_body(void *argument) {
    Part *p = argument;
    HloBuilder *b = p->jvp.b;
    HloArena *scratch = p->parent->scratch;
    int64_t in = hlo_shape_leaf_count(input_shape(p)), out = hlo_shape_leaf_count(output_shape(p)), count = in;
    const HloShape **shapes = HLO_ARENA_NEW(scratch, const HloShape *, 2 * in + 1);
    HloInstruction **leaves = new_leaves(p, input_shape(p));
    HloInstructionVector results = {0};
    for (int64_t k = 0; k < in; k++) {
        shapes[k] = hlo_shape_leaf(input_shape(p), k);
        if (p->active_in[k]) shapes[count++] = shapes[k];
    }
    HloInstruction *all = hlo_build_parameter_shape(b, 0, hlo_shape_tuple(scratch, shapes, count), NULL);
    for (int64_t k = 0, next = in; k < in; k++) {
        leaves[k] = hlo_build_get(b, all, k);
        if (p->active_in[k]) p->seeds[k] = hlo_build_get(b, all, next++);
    }
    if (b->status || !walk(p, hlo_transform_assemble(b, input_shape(p), leaves))) return hlo_transform_status(b);
    for (int64_t k = 0; k < out; k++) hlo_vector_push(scratch, &results, p->values[k]);
    for (int64_t k = 0; k < out; k++) {
        if (!p->active_out[k]) continue;
        HloInstruction *tangent = p->tangents[k];
        if (!tangent) tangent = hlo_transform_zeros(b, hlo_shape_leaf(output_shape(p), k));
        hlo_vector_push(scratch, &results, tangent);
    }
    p->root = hlo_build_tuple(b, results.items, results.count);
    return hlo_transform_status(b);
}

HloComputation *hlo_transform_forward(HloJvp *j, const HloComputation *computation, const bool *active_in,
                                      const bool *active_out, const HloTransformFactors *factors) {
    Part p = {.parent = j, .from = computation, .active_in = active_in, .active_out = active_out, .factors = factors};
    HloComputation *result = NULL;
    p.jvp = nested(j, false);
    p.seeds = new_leaves(&p, input_shape(&p));
    const char *name = hlo_arena_format(j->scratch, "jvp_of_%s", computation->name);
    HloStatus status = hlo_transform_build(j->b->module, name, forward_body, &p, &p.jvp.b, &p.root, &result);
    if (status) hlo_builder_fail(j->b, status);
    return status ? NULL : result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reverse mode

// Records what the residuals are; they become results of the forward part.
static void describe_residuals(Part *p) {
    HloArena *scratch = p->parent->scratch;
    int64_t count = p->residuals.count;
    const HloShape **shapes = HLO_ARENA_NEW(scratch, const HloShape *, count + 1);
    int64_t *leaves = HLO_ARENA_NEW(scratch, int64_t, count + 1);
    bool *offloaded = HLO_ARENA_NEW(scratch, bool, count + 1);
    for (int64_t i = 0; i < count; i++) {
        shapes[i] = p->residuals.items[i]->shape;
        leaves[i] = hlo_transform_parameter_leaf(p->parameter, p->residuals.items[i]);
        offloaded[i] = hlo_remat_is_offloaded(p->jvp.remat, p->residuals.items[i]);
    }
    p->split->residual_count = count;
    p->split->residuals = shapes;
    p->split->leaves = leaves;
    p->split->is_offloaded = offloaded;
}

// Chooses which of the values that the backward part needs are residuals, and which it computes again.
static void choose_residuals(Part *p) {
    HloArena *scratch = p->parent->scratch;
    const int64_t in = hlo_shape_leaf_count(input_shape(p));
    bool *invariant = HLO_ARENA_NEW(scratch, bool, in + 1);
    for (int64_t k = 0; k < in && p->repeats; k++)
        invariant[k] = hlo_transform_parameter_leaf(p->parameter, p->values[k]) == k;
    p->split->is_invariant = invariant;
    hlo_remat_split(
        scratch,
        &(HloRematSplit){
            .parameter = p->parameter, .policy = p->jvp.remat, .repeats = p->repeats, .is_invariant = invariant},
        &p->residuals, &p->again);
}

// Computes again, in the backward part, what is not a residual.
static void append_again(Part *p) {
    HloTransposer *t = &p->transposer;
    for (int64_t i = 0; i < p->again.count; i++) {
        HloInstruction *old = p->again.items[i];
        HloInstruction **operands = HLO_ARENA_NEW(t->scratch, HloInstruction *, old->operand_count + 1);
        for (int32_t k = 0; k < old->operand_count; k++) operands[k] = hlo_transposer_map(t, old->operands[k]);
        HloInstruction *copy = hlo_instruction_clone(t->b->computation, old, old->shape, operands, old->operand_count);
        hlo_transform_store(t->scratch, &t->mapped, old, copy);
    }
}

static HloStatus backward_body(void *argument) {
    Part *p = argument;
    HloTransposer *t = &p->transposer;
    HloBuilder *b = t->b;
    HloInstructionVector results = {0};
    int64_t number = 0, in = hlo_shape_leaf_count(input_shape(p)), out = hlo_shape_leaf_count(output_shape(p));
    for (int64_t i = 0; i < p->residuals.count; i++) {
        HloInstruction *parameter = hlo_build_parameter_shape(b, number++, p->split->residuals[i], NULL);
        hlo_transform_store(t->scratch, &t->mapped, p->residuals.items[i], parameter);
    }
    for (int64_t k = 0; k < out; k++) {
        if (!p->active_out[k]) continue;
        HloInstruction *cotangent =
            hlo_build_parameter_shape(b, number++, hlo_shape_leaf(output_shape(p), k), "cotangent");
        if (p->tangents[k]) hlo_transposer_add(t, p->tangents[k], cotangent);
    }
    if (!b->status) append_again(p);
    hlo_transposer_run(t);
    for (int64_t k = 0; k < in && !b->status; k++) {
        if (!p->active_in[k]) continue;
        HloInstruction *cotangent = hlo_transposer_cotangent(t, p->seeds[k]);
        if (!cotangent) cotangent = hlo_transform_zeros(b, hlo_shape_leaf(input_shape(p), k));
        hlo_vector_push(t->scratch, &results, cotangent);
    }
    p->backward_root = hlo_build_tuple(b, results.items, results.count);
    return hlo_transform_status(b);
}

static HloStatus split_body(void *argument) {
    Part *p = argument;
    HloBuilder *b = p->jvp.b;
    HloArena *scratch = p->parent->scratch;
    HloInstructionVector results = {0};
    int64_t in = hlo_shape_leaf_count(input_shape(p)), out = hlo_shape_leaf_count(output_shape(p));
    p->parameter = hlo_build_parameter_shape(b, 0, input_shape(p), NULL);
    for (int64_t k = 0; k < in; k++)
        if (p->active_in[k]) p->seeds[k] = hlo_jvp_seed(&p->jvp, hlo_shape_leaf(input_shape(p), k));
    if (b->status || !walk(p, p->parameter)) return hlo_transform_status(b);
    p->transposer = (HloTransposer){.scratch = scratch, .jvp = &p->jvp};
    hlo_transposer_begin(&p->transposer);
    hlo_transposer_residuals(&p->transposer, p->tangents, out, &p->residuals);
    choose_residuals(p);
    describe_residuals(p);
    const char *name = hlo_arena_format(scratch, "transpose_of_%s", p->from->name);
    HLO_TRY(hlo_transform_build(b->module, name, backward_body, p, &p->transposer.b, &p->backward_root,
                                &p->split->backward));
    hlo_transposer_remove_linear(&p->transposer);
    for (int64_t k = 0; k < out; k++) hlo_vector_push(scratch, &results, p->values[k]);
    for (int64_t i = 0; i < p->residuals.count; i++) hlo_vector_push(scratch, &results, p->residuals.items[i]);
    p->root = hlo_build_tuple(b, results.items, results.count);
    return hlo_transform_status(b);
}

bool hlo_transform_split(HloJvp *j, const HloComputation *computation, const bool *active_in, const bool *active_out,
                         const HloTransformFactors *factors, bool repeats, HloTransformSplit *split) {
    Part p = {.parent = j,
              .from = computation,
              .active_in = active_in,
              .active_out = active_out,
              .factors = factors,
              .repeats = repeats,
              .split = split};
    p.jvp = nested(j, true);
    p.seeds = new_leaves(&p, input_shape(&p));
    const char *name = hlo_arena_format(j->scratch, "forward_of_%s", computation->name);
    HloStatus status = hlo_transform_build(j->b->module, name, split_body, &p, &p.jvp.b, &p.root, &split->forward);
    if (status) {
        hlo_builder_fail(j->b, status);
        return false;
    }
    hlo_transform_tidy(split->forward, j->scratch);
    hlo_transform_tidy(split->backward, j->scratch);
    return true;
}
