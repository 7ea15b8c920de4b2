// SPDX-License-Identifier: Apache-2.0
// Reverse mode through loops of unknown length whose elements do not depend on each other: the series and continued
// fractions by which front ends write special functions (igamma, betainc, expn). Element by element such a loop is a
// function of few numbers, so its derivative is a small matrix per element, which forward mode finds while the loop
// runs, without stacks:
//
//     (state, d state[0] / d input[0], d state[1] / d input[0], ...)
//
// The tangents of the results are then sums of products with the tangents of the inputs, outside the loop, which
// reverse mode transposes as any other. The loops that qualify are those that every element leaves on its own, by
// selects that keep its old values, and those that end after a known number of iterations at the latest.
#include "hlo/analysis/loop.h"
#include "hlo/transform/control.h"

// Where stacks are possible too, they are smaller than more derivatives than these.
enum { kMostSlopes = 16 };

typedef struct Lanes {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloComputation *from;  // the condition, or the forward derivative of the body
    const HloShape *state;       // leaves, then the derivatives with respect to one input after the other
    const HloShape *old_state;
    int64_t leaves, active, inputs;
} Lanes;

// The instruction that a value is, without a tuple that it was put in.
static const HloInstruction *untupled(const HloInstruction *i) {
    while (hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) && hlo_is(i->operands[0], HLO_OP_TUPLE))
        i = i->operands[0]->operands[HLO_ATTRIBUTES(i, TupleIndex)->index];
    return i;
}

static int64_t leaf_of(const HloComputation *derived, const HloInstruction *value) {
    return hlo_transform_parameter_leaf(derived->parameters.items[0], value);
}

// True if the derived body may keep an element of this leaf as it was.
static bool keeps(const HloComputation *derived, int64_t leaf) {
    const HloInstruction *value = untupled(derived->root->operands[leaf]);
    if (!hlo_is(value, HLO_OP_SELECT)) return leaf_of(derived, value) == leaf;
    return leaf_of(derived, untupled(value->operands[1])) == leaf ||
           leaf_of(derived, untupled(value->operands[2])) == leaf;
}

// True if every tangent of the derived body is computed element by element from others of `shape`.
static bool is_elementwise(HloArena *scratch, const HloComputation *derived, int64_t leaves, const HloShape *shape) {
    HloIntMap tangents = {0};
    for (const HloInstruction *i = derived->first; i; i = i->next) {
        bool linear = leaf_of(derived, i) >= leaves;
        for (int32_t k = 0; k < i->operand_count && !linear; k++)
            linear = hlo_int_map_find(&tangents, (uint64_t)i->operands[k]->id) != NULL;
        if (!linear || i == derived->root) continue;
        const bool own = hlo_is(i, HLO_OP_GET_TUPLE_ELEMENT) || hlo_op_is(i->opcode, HLO_OP_IS_ELEMENTWISE);
        if (!own || !hlo_shape_equal(i->shape, shape, HLO_COMPARE_IGNORE_LAYOUT)) return false;
        hlo_int_map_set(scratch, &tangents, (uint64_t)i->id, 1);
    }
    return true;
}

// The one shape of all active leaves; NULL if they have several, or are complex.
static const HloShape *common_shape(const HloShape *state, const bool *active) {
    const HloShape *shape = NULL;
    for (int64_t k = 0; k < hlo_shape_leaf_count(state); k++) {
        const HloShape *leaf = hlo_shape_leaf(state, k);
        if (!active[k]) continue;
        if (!hlo_type_is_float(leaf->type) || (shape && !hlo_shape_equal(shape, leaf, HLO_COMPARE_IGNORE_LAYOUT)))
            return NULL;
        shape = leaf;
    }
    return shape;
}

// True if every run of the body does the same and nothing else: it runs once for each input then.
static bool is_repeatable(const HloComputation *body) {
    for (const HloInstruction *i = body->first; i; i = i->next)
        if (hlo_instruction_is_nondeterministic(i)) return false;
    return !hlo_computation_has_effects(body);
}

static bool qualifies(HloJvp *j, const HloComputation *derived, const bool *active, const HloShape *shape) {
    const int64_t leaves = hlo_shape_leaf_count(j->old->shape);
    bool keeping = true;
    if (!hlo_is(derived->root, HLO_OP_TUPLE) || !is_repeatable(derived)) return false;
    for (int64_t k = 0; k < leaves; k++) keeping &= !active[k] || keeps(derived, k);
    return (keeping || hlo_trip_bound(j->old) >= 0) && is_elementwise(j->scratch, derived, leaves, shape);
}

// Appends the derived body for the derivatives from `first` on, and returns copies of the operands of its root.
static HloInstruction **derived_body(Lanes *p, HloInstruction *all, int64_t first) {
    HloIntMap copies = {0};
    HloInstruction **results = HLO_ARENA_NEW(p->scratch, HloInstruction *, p->leaves + p->active + 1);
    for (const HloInstruction *i = p->from->first; i; i = i->next) {
        if (hlo_is(i, HLO_OP_PARAMETER) || i == p->from->root) continue;
        HloInstruction *copy;
        const int64_t leaf = leaf_of(p->from, i);
        if (leaf >= 0) {
            copy = hlo_build_get(p->b, all, leaf < p->leaves ? leaf : leaf + first);
        } else {
            HloInstruction **operands = HLO_ARENA_NEW(p->scratch, HloInstruction *, i->operand_count + 1);
            for (int32_t k = 0; k < i->operand_count; k++) operands[k] = hlo_transform_lookup(&copies, i->operands[k]);
            copy = hlo_instruction_clone(p->b->computation, i, i->shape, operands, i->operand_count);
        }
        if (p->b->status) return results;
        hlo_transform_store(p->scratch, &copies, i, copy);
    }
    for (int64_t k = 0; k < p->leaves + p->active; k++)
        results[k] = hlo_transform_lookup(&copies, p->from->root->operands[k]);
    return results;
}

static HloStatus lanes_body(void *argument) {
    Lanes *p = argument;
    HloInstruction *all = hlo_build_parameter_shape(p->b, 0, p->state, "state");
    HloInstructionVector results = {0};
    for (int64_t i = 0; i < p->inputs && !p->b->status; i++) {
        HloInstruction **one = derived_body(p, all, i * p->active);
        for (int64_t k = i ? p->leaves : 0; k < p->leaves + p->active; k++)
            hlo_vector_push(p->scratch, &results, one[k]);
    }
    if (!p->b->status) p->root = hlo_build_tuple(p->b, results.items, results.count);
    return hlo_transform_status(p->b);
}

static HloStatus lanes_condition(void *argument) {
    Lanes *p = argument;
    HloInstruction *all = hlo_build_parameter_shape(p->b, 0, p->state, "state");
    HloInstruction **leaves = HLO_ARENA_NEW(p->scratch, HloInstruction *, p->leaves + 1);
    for (int64_t k = 0; k < p->leaves; k++) leaves[k] = hlo_build_get(p->b, all, k);
    if (p->b->status) return hlo_transform_status(p->b);
    HloInstruction *state = hlo_transform_assemble(p->b, p->old_state, leaves);
    if (state) p->root = hlo_transform_inline(p->b, p->scratch, p->from, &state);
    return hlo_transform_status(p->b);
}

// The loop that also computes the derivatives of its active leaves with respect to the inputs.
static HloInstruction *loop_with_derivatives(HloJvp *j, const HloComputation *derived, const bool *active,
                                             const bool *inputs, const HloShape *shape) {
    HloBuilder *b = j->b;
    const HloShape *state = j->old->shape;
    const int64_t leaves = hlo_shape_leaf_count(state);
    HloInstructionVector list = {0};
    hlo_control_push_leaves(j, hlo_jvp_operand(j, 0), &list);
    HloInstruction *zeros = hlo_transform_zeros(b, shape), *ones = zeros ? hlo_build_splat_like(b, zeros, 1) : NULL;
    for (int64_t i = 0; i < leaves; i++)
        for (int64_t k = 0; k < leaves && inputs[i]; k++)
            if (active[k]) hlo_vector_push(j->scratch, &list, i == k ? ones : zeros);
    HloInstruction *initial = b->status ? NULL : hlo_build_tuple(b, list.items, list.count);
    if (!initial) return NULL;
    Lanes part = {.scratch = j->scratch,
                  .from = derived,
                  .state = initial->shape,
                  .old_state = state,
                  .leaves = leaves,
                  .active = hlo_transform_count(active, leaves),
                  .inputs = hlo_transform_count(inputs, leaves)};
    HloComputation *condition = NULL, *body = NULL;
    HloStatus status = hlo_transform_build(b->module, derived->name, lanes_body, &part, &part.b, &part.root, &body);
    part.from = j->old->called[0];
    if (!status)
        status =
            hlo_transform_build(b->module, part.from->name, lanes_condition, &part, &part.b, &part.root, &condition);
    if (status) {
        hlo_builder_fail(b, status);
        return NULL;
    }
    hlo_transform_tidy(body, j->scratch);
    return hlo_build_while(b, initial, condition, body);
}

bool hlo_transform_lanes(HloJvp *j, const bool *active, HloInstruction **out) {
    const HloShape *state = j->old->shape, *shape = common_shape(state, active);
    const int64_t leaves = hlo_shape_leaf_count(state);
    bool *inputs = hlo_control_flags(j, hlo_jvp_tangents(j, 0), state);
    for (int64_t k = 0; k < leaves; k++) inputs[k] = inputs[k] && active[k];
    HloInstruction **tangents = hlo_jvp_tangents(j, 0);
    const int64_t slopes = hlo_transform_count(inputs, leaves) * hlo_transform_count(active, leaves);
    if (!shape || (slopes > kMostSlopes && hlo_trip_bound(j->old) >= 0)) return false;
    HloComputation *derived = hlo_transform_forward(j, j->old->called[1], active, active, NULL);
    if (!derived) return true;
    if (qualifies(j, derived, active, shape)) {
        HloInstruction *loop = loop_with_derivatives(j, derived, active, inputs, shape);
        if (!loop) return true;
        hlo_control_unpack(j, loop, active, NULL);
        for (int64_t i = 0, next = leaves; i < leaves; i++) {
            for (int64_t k = 0; k < leaves && inputs[i]; k++) {
                if (!active[k]) continue;
                HloInstruction *slope = hlo_build_get(j->b, loop, next++);
                out[k] = hlo_transform_sum(j->b, out[k], hlo_build_mul(j->b, tangents[i], slope));
            }
        }
        hlo_computation_remove(derived);
        return true;
    }
    hlo_computation_remove(derived);
    return false;
}
