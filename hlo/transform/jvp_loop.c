// SPDX-License-Identifier: Apache-2.0
// Tangents of loops. In forward mode the state of the loop gets the tangents of its active leaves. In reverse mode the
// forward loop also stacks the residuals of each iteration, and a second loop runs through the stacks backwards. A loop
// that may end early has stacks for the most iterations that it may run, and counts them. Stacks leave out residuals
// that are elements of the state which the body passes through.
#include "hlo/analysis/loop.h"
#include "hlo/transform/control.h"
#include "hlo/transform/remat.h"

// A computation for a loop over a flat state.
typedef struct LoopPart {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloShape *state;  // of the new loop
    const HloComputation *from;
    const HloShape *old_state;
    // of the stacking body and the backward body
    const HloTransformSplit *split;
    const bool *is_stacked, *is_offloaded;
    bool is_bounded;  // it may end before trip_count
    int64_t leaves, trip_count, cotangents;
} LoopPart;

static HloComputation *build_part(HloBuilder *b, const char *prefix, HloStatus (*body)(void *), LoopPart *part) {
    HloComputation *result = NULL;
    const char *name = hlo_arena_format(part->scratch, "%s_%s", prefix, part->from->name);
    HloStatus status = hlo_transform_build(b->module, name, body, part, &part->b, &part->root, &result);
    if (status) hlo_builder_fail(b, status);
    return result;
}

static HloInstruction *state_parameter(LoopPart *p) {
    return hlo_build_parameter_shape(p->b, 0, p->state, "state");
}

// The old condition, on the leaves at the beginning of the new state.
static HloStatus old_condition(void *argument) {
    LoopPart *p = argument;
    int64_t count = hlo_shape_leaf_count(p->old_state);
    HloInstruction **leaves = HLO_ARENA_NEW(p->scratch, HloInstruction *, count + 1), *all = state_parameter(p);
    for (int64_t k = 0; k < count; k++) leaves[k] = hlo_build_get(p->b, all, k);
    if (p->b->status) return hlo_transform_status(p->b);
    HloInstruction *state = hlo_transform_assemble(p->b, p->old_state, leaves);
    if (state) p->root = hlo_transform_inline(p->b, p->scratch, p->from, &state);
    return hlo_transform_status(p->b);
}

static void forward_loop(HloJvp *j, const bool *active, HloInstruction **out) {
    const HloInstruction *old = j->old;
    HloInstructionVector list = {0};
    HloComputation *body = hlo_transform_forward(j, old->called[1], active, active, NULL);
    if (!body) return;
    hlo_control_push_leaves(j, hlo_jvp_operand(j, 0), &list);
    hlo_control_push_tangents(j, 0, active, &list);
    HloInstruction *initial = hlo_build_tuple(j->b, list.items, list.count);
    if (!initial) return;
    LoopPart part = {
        .scratch = j->scratch, .state = initial->shape, .from = old->called[0], .old_state = old->operands[0]->shape};
    HloComputation *condition = build_part(j->b, "jvp_of", old_condition, &part);
    if (condition) hlo_control_unpack(j, hlo_build_while(j->b, initial, condition, body), active, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reverse mode. The forward state: (leaves..., iteration, stacks...); the backward state: (iteration, cotangents...,
// residuals and their stacks...), and last, for a loop that may end early, the iterations so far, whose limit a further
// derivative finds.

static HloInstruction *iteration_start(HloBuilder *b, int64_t value) {
    return hlo_build_scalar_int64(b, HLO_S32, value);
}

// The loop ends when the old one does; where the number of iterations is known, that alone counts.
static HloStatus forward_condition(void *argument) {
    LoopPart *p = argument;
    if (p->is_bounded) return old_condition(argument);
    HloInstruction *iteration = hlo_build_get(p->b, state_parameter(p), p->leaves);
    p->root = hlo_build_compare(p->b, iteration, iteration_start(p->b, p->trip_count), HLO_ComparisonDirection_LT);
    return hlo_transform_status(p->b);
}

static HloStatus backward_condition(void *argument) {
    LoopPart *p = argument;
    HloInstruction *all = state_parameter(p), *iteration = hlo_build_get(p->b, all, 0);
    p->root = hlo_build_compare(p->b, iteration, iteration_start(p->b, 0), HLO_ComparisonDirection_GE);
    if (p->is_bounded) {
        HloInstruction *done = hlo_build_get(p->b, all, p->state->element_count - 1);
        HloInstruction *limit = iteration_start(p->b, p->trip_count);
        p->root = hlo_build_and(p->b, p->root, hlo_build_compare(p->b, done, limit, HLO_ComparisonDirection_LT));
    }
    return hlo_transform_status(p->b);
}

static HloInts row_dims(HloArena *scratch, int64_t rows, const HloShape *shape) {
    int64_t *dims = HLO_ARENA_NEW(scratch, int64_t, shape->rank + 1);
    dims[0] = rows;
    for (int32_t i = 0; i < shape->rank; i++) dims[i + 1] = shape->dims[i];
    return (HloInts){dims, shape->rank + 1};
}

// The start indices of row `iteration` of a stack.
static HloInstruction **row_starts(LoopPart *p, HloInstruction *iteration, const HloShape *shape) {
    HloInstruction **starts = HLO_ARENA_NEW(p->scratch, HloInstruction *, shape->rank + 1);
    starts[0] = iteration;
    for (int32_t i = 0; i < shape->rank; i++) starts[i + 1] = iteration_start(p->b, 0);
    return starts;
}

static HloStatus forward_loop_body(void *argument) {
    LoopPart *p = argument;
    HloBuilder *b = p->b;
    HloInstruction *all = state_parameter(p), *iteration = hlo_build_get(b, all, p->leaves);
    HloInstruction **leaves = HLO_ARENA_NEW(p->scratch, HloInstruction *, p->leaves + 1);
    HloInstructionVector results = {0};
    for (int64_t k = 0; k < p->leaves; k++) leaves[k] = hlo_build_get(b, all, k);
    if (b->status) return hlo_transform_status(b);
    HloInstruction *state = hlo_transform_assemble(b, p->old_state, leaves);
    if (!state) return hlo_transform_status(b);
    HloInstruction *root = hlo_transform_inline(b, p->scratch, p->split->forward, &state);
    for (int64_t k = 0; k < p->leaves && root; k++) hlo_vector_push(p->scratch, &results, root->operands[k]);
    hlo_vector_push(p->scratch, &results, hlo_build_add(b, iteration, iteration_start(b, 1)));
    for (int64_t r = 0, next = p->leaves + 1; r < p->split->residual_count && root; r++) {
        if (!p->is_stacked[r]) continue;
        const HloShape *shape = p->split->residuals[r];
        HloInstruction *row = hlo_build_reshape(b, root->operands[p->leaves + r], row_dims(p->scratch, 1, shape));
        if (p->is_offloaded[r]) row = hlo_remat_placed(b, row, HLO_SPACE_PINNED_HOST);
        HloInstruction *stack = hlo_build_get(b, all, next++);
        hlo_vector_push(p->scratch, &results,
                        hlo_build_dynamic_update_slice(b, stack, row, row_starts(p, iteration, shape)));
    }
    p->root = hlo_build_tuple(b, results.items, results.count);
    return hlo_transform_status(b);
}

static HloStatus backward_loop_body(void *argument) {
    LoopPart *p = argument;
    HloBuilder *b = p->b;
    HloInstruction *all = state_parameter(p), *iteration = hlo_build_get(b, all, 0);
    int64_t residuals = p->split->residual_count, first = 1 + p->cotangents;
    HloInstruction **arguments = HLO_ARENA_NEW(p->scratch, HloInstruction *, residuals + p->cotangents + 1);
    HloInstructionVector results = {0};
    for (int64_t r = 0; r < residuals && !b->status; r++) {
        const HloShape *shape = p->split->residuals[r];
        HloInstruction *residual = hlo_build_get(b, all, first + r);
        if (p->is_stacked[r]) {
            HloInts row = row_dims(p->scratch, 1, shape);
            residual = hlo_build_dynamic_slice(b, residual, row_starts(p, iteration, shape), row);
            if (p->is_offloaded[r]) residual = hlo_remat_placed(b, residual, HLO_SPACE_DEVICE);
            residual = hlo_build_reshape(b, residual, hlo_shape_dims(shape));
        }
        arguments[r] = residual;
    }
    for (int64_t k = 0; k < p->cotangents; k++) arguments[residuals + k] = hlo_build_get(b, all, 1 + k);
    if (b->status) return hlo_transform_status(b);
    HloInstruction *root = hlo_transform_inline(b, p->scratch, p->split->backward, arguments);
    hlo_vector_push(p->scratch, &results, hlo_build_sub(b, iteration, iteration_start(b, 1)));
    for (int64_t k = 0; k < p->cotangents && root; k++) hlo_vector_push(p->scratch, &results, root->operands[k]);
    for (int64_t r = 0; r < residuals; r++) hlo_vector_push(p->scratch, &results, hlo_build_get(b, all, first + r));
    if (p->is_bounded)
        hlo_vector_push(p->scratch, &results,
                        hlo_build_add(b, hlo_build_get(b, all, first + residuals), iteration_start(b, 1)));
    p->root = hlo_build_tuple(b, results.items, results.count);
    return hlo_transform_status(b);
}

static void transpose_loop(HloTransposer *t, const HloLinear *linear, HloInstruction *const *cotangents) {
    HloBuilder *b = t->b;
    int64_t count = t->instruction->shape->element_count, residuals = linear->residual_count - linear->is_bounded;
    HloInstruction **given = hlo_control_filled(t, cotangents);
    HloInstructionVector list = {0};
    const HloShape **shapes = HLO_ARENA_NEW(t->scratch, const HloShape *, residuals + 1);
    HloInstruction *last = iteration_start(b, linear->trip_count - 1);
    if (linear->is_bounded) last = hlo_build_sub(b, hlo_transposer_residual(t, residuals), iteration_start(b, 1));
    hlo_vector_push(t->scratch, &list, last);
    for (int64_t k = 0; k < count; k++) hlo_vector_push(t->scratch, &list, given[k]);
    for (int64_t r = 0; r < residuals; r++) {
        hlo_vector_push(t->scratch, &list, hlo_transposer_residual(t, r));
        shapes[r] = linear->backward[0]->parameters.items[r]->shape;
    }
    if (linear->is_bounded) hlo_vector_push(t->scratch, &list, iteration_start(b, 0));
    HloInstruction *initial = hlo_build_tuple(b, list.items, list.count);
    if (!initial) return;
    HloTransformSplit split = {.backward = linear->backward[0], .residual_count = residuals, .residuals = shapes};
    LoopPart part = {.scratch = t->scratch,
                     .state = initial->shape,
                     .from = linear->backward[0],
                     .split = &split,
                     .is_stacked = linear->is_stacked,
                     .is_offloaded = linear->is_offloaded,
                     .is_bounded = linear->is_bounded,
                     .trip_count = linear->trip_count,
                     .cotangents = count};
    HloComputation *condition = build_part(b, "condition_of", backward_condition, &part);
    HloComputation *body = build_part(b, "body_of", backward_loop_body, &part);
    if (condition && body) hlo_control_give(t, linear, hlo_build_while(b, initial, condition, body), 1);
}

// The forward loop's initial state: the old one, iteration 0, and empty stacks.
static HloInstruction *initial_state(HloJvp *j, const HloTransformSplit *split, const bool *is_stacked,
                                     int64_t trip_count) {
    HloInstructionVector list = {0};
    hlo_control_push_leaves(j, hlo_jvp_operand(j, 0), &list);
    hlo_vector_push(j->scratch, &list, iteration_start(j->b, 0));
    for (int64_t r = 0; r < split->residual_count; r++) {
        if (!is_stacked[r]) continue;
        HloInts dims = row_dims(j->scratch, trip_count > 0 ? trip_count : 1, split->residuals[r]);
        hlo_vector_push(j->scratch, &list, hlo_build_splat(j->b, split->residuals[r]->type, dims, 0));
    }
    return hlo_build_tuple(j->b, list.items, list.count);
}

static void reverse_loop(HloJvp *j, const bool *active, HloInstruction **out) {
    const HloInstruction *old = j->old;
    const HloShape *state = old->operands[0]->shape;
    int64_t trip_count = hlo_trip_bound(old), leaves = hlo_shape_leaf_count(state);
    const bool is_bounded = hlo_trip_count(old) < 0;
    HloTransformSplit split;
    if (trip_count < 0 || trip_count > INT32_MAX) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s: reverse mode needs the number of iterations or a limit to it, which cannot be told from the "
                     "loop's condition; forward mode (jvp) does not",
                     old->name);
        return;
    }
    if (!hlo_transform_split(j, old->called[1], active, active, NULL, true, &split)) return;
    bool *is_stacked = HLO_ARENA_NEW(j->scratch, bool, split.residual_count + 1);
    for (int64_t r = 0; r < split.residual_count; r++)
        is_stacked[r] = split.leaves[r] < 0 || !split.is_invariant[split.leaves[r]];
    HloInstruction *initial = initial_state(j, &split, is_stacked, trip_count);
    if (!initial) return;
    LoopPart part = {.scratch = j->scratch,
                     .state = initial->shape,
                     .from = old->called[1],
                     .old_state = state,
                     .split = &split,
                     .is_stacked = is_stacked,
                     .is_offloaded = split.is_offloaded,
                     .is_bounded = is_bounded,
                     .leaves = leaves,
                     .trip_count = trip_count};
    if (is_bounded) part.from = old->called[0];
    HloComputation *condition = build_part(j->b, "condition_of", forward_condition, &part);
    part.from = old->called[1];
    HloComputation *body = build_part(j->b, "body_of", forward_loop_body, &part);
    if (!condition || !body) return;
    HloInstruction *both = hlo_build_while(j->b, initial, condition, body);
    HloInstructionVector list = {0};
    hlo_control_unpack(j, both, active, NULL);
    for (int64_t r = 0, next = leaves + 1; r < split.residual_count; r++)
        hlo_vector_push(j->scratch, &list,
                        is_stacked[r] ? hlo_build_get(j->b, both, next++) : initial->operands[split.leaves[r]]);
    if (is_bounded) hlo_vector_push(j->scratch, &list, hlo_build_get(j->b, both, leaves));
    const int64_t residuals = list.count;
    hlo_control_push_tangents(j, 0, active, &list);
    HloLinear linear = {.transpose = transpose_loop,
                        .residual_count = residuals,
                        .tangent_count = list.count - residuals,
                        .is_bounded = is_bounded,
                        .backward = hlo_arena_copy(j->scratch, &split.backward, sizeof split.backward),
                        .backward_count = 1,
                        .is_stacked = is_stacked,
                        .is_offloaded = split.is_offloaded,
                        .trip_count = trip_count};
    if (!j->b->status) hlo_control_place(j, &linear, list.items, active, out);
}

// Clears the flags of leaves whose tangents matter to no result, as those of a metric that a loop adds up.
static void keep_needed(HloJvp *j, bool *active, int64_t leaves) {
    bool *needed = hlo_arena_copy(j->scratch, hlo_jvp_needed(j), (size_t)leaves * sizeof *needed);
    for (bool changed = true; changed;) {
        bool *before = HLO_ARENA_NEW(j->scratch, bool, leaves + 1);
        hlo_jvp_need(j, j->old->called[1], needed, before);
        changed = false;
        for (int64_t k = 0; k < leaves; k++) {
            changed |= before[k] && !needed[k];
            needed[k] |= before[k];
        }
    }
    for (int64_t k = 0; k < leaves; k++) active[k] = active[k] && needed[k];
}

void hlo_jvp_while(HloJvp *j, HloInstruction **out) {
    const HloShape *state = j->old->operands[0]->shape;
    int64_t leaves = hlo_shape_leaf_count(state);
    bool *active = hlo_control_flags(j, hlo_jvp_tangents(j, 0), state);
    for (bool changed = true; changed;) {
        bool *next = HLO_ARENA_NEW(j->scratch, bool, leaves + 1);
        hlo_jvp_activity(j, j->old->called[1], &active, next);
        changed = false;
        for (int64_t k = 0; k < leaves; k++) {
            changed |= next[k] && !active[k];
            active[k] |= next[k];
        }
    }
    keep_needed(j, active, leaves);
    if (hlo_transform_count(active, leaves) == 0) return;
    if (j->split && hlo_trip_count(j->old) < 0 && hlo_transform_lanes(j, active, out)) return;
    if (j->split)
        reverse_loop(j, active, out);
    else
        forward_loop(j, active, out);
}
