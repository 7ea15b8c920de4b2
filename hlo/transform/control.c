// SPDX-License-Identifier: Apache-2.0
// What the rules of calls, branches and loops share: lists of leaves and tangents, and placeholders.
#include "hlo/transform/control.h"

bool *hlo_control_flags(HloJvp *j, HloInstruction *const *tangents, const HloShape *shape) {
    int64_t count = hlo_shape_leaf_count(shape);
    bool *flags = HLO_ARENA_NEW(j->scratch, bool, count + 1);
    for (int64_t k = 0; tangents && k < count; k++) flags[k] = tangents[k] != NULL;
    return flags;
}

int64_t hlo_transform_parameter_leaf(const HloInstruction *parameter, const HloInstruction *value) {
    int64_t leaf = 0;
    if (!hlo_shape_is_array(value->shape)) return -1;
    while (value != parameter && hlo_is(value, HLO_OP_GET_TUPLE_ELEMENT)) {
        leaf += hlo_shape_first_leaf(value->operands[0]->shape, HLO_ATTRIBUTES(value, TupleIndex)->index);
        value = value->operands[0];
    }
    return value == parameter ? leaf : -1;
}

// The tangents of the active leaves of operand `index`, zeros where it has none.
void hlo_control_push_tangents(HloJvp *j, int64_t index, const bool *active, HloInstructionVector *list) {
    const HloShape *shape = j->old->operands[index]->shape;
    HloInstruction **tangents = hlo_jvp_tangents(j, index);
    for (int64_t k = 0; k < hlo_shape_leaf_count(shape); k++) {
        if (!active[k]) continue;
        HloInstruction *t = tangents ? tangents[k] : NULL;
        hlo_vector_push(j->scratch, list, t ? t : hlo_transform_zeros(j->b, hlo_shape_leaf(shape, k)));
    }
}

void hlo_control_push_leaves(HloJvp *j, HloInstruction *value, HloInstructionVector *list) {
    int64_t count = hlo_shape_leaf_count(value->shape);
    HloInstruction **leaves = HLO_ARENA_NEW(j->scratch, HloInstruction *, count + 1);
    hlo_transform_leaves(j->b, value, leaves);
    for (int64_t k = 0; k < count; k++) hlo_vector_push(j->scratch, list, leaves[k]);
}

// Sets the result and its tangents from a tuple of (leaves..., tangents of the active ones...).
void hlo_control_unpack(HloJvp *j, HloInstruction *tuple, const bool *active, HloInstruction **out) {
    int64_t count = hlo_shape_leaf_count(j->old->shape), next = count;
    HloInstruction **leaves = HLO_ARENA_NEW(j->scratch, HloInstruction *, count + 1);
    for (int64_t k = 0; k < count; k++) {
        leaves[k] = hlo_build_get(j->b, tuple, k);
        if (out && active[k]) out[k] = hlo_build_get(j->b, tuple, next++);
    }
    if (!j->b->status) j->result = hlo_transform_assemble(j->b, j->old->shape, leaves);
}

// The tangents that a placeholder returns, which go to the active leaves.
void hlo_control_place(HloJvp *j, const HloLinear *linear, HloInstruction *const *operands, const bool *active,
                       HloInstruction **out) {
    int64_t leaves = hlo_shape_leaf_count(j->old->shape), count = 0;
    const HloShape **shapes = HLO_ARENA_NEW(j->scratch, const HloShape *, leaves + 1);
    HloInstruction **tangents = HLO_ARENA_NEW(j->scratch, HloInstruction *, leaves + 1);
    for (int64_t k = 0; k < leaves; k++)
        if (active[k]) shapes[count++] = hlo_shape_leaf(j->old->shape, k);
    hlo_jvp_placeholder(j, linear, operands, shapes, count, tangents);
    for (int64_t k = 0, next = 0; k < leaves; k++)
        if (active[k]) out[k] = tangents[next++];
}

// The cotangents of a placeholder's results, zeros where there are none.
HloInstruction **hlo_control_filled(HloTransposer *t, HloInstruction *const *cotangents) {
    const HloShape *shape = t->instruction->shape;
    HloInstruction **result = HLO_ARENA_NEW(t->scratch, HloInstruction *, shape->element_count + 1);
    for (int32_t k = 0; k < shape->element_count; k++)
        result[k] = cotangents[k] ? cotangents[k] : hlo_transform_zeros(t->b, shape->elements[k]);
    return result;
}

void hlo_control_give(HloTransposer *t, const HloLinear *linear, HloInstruction *tuple, int64_t first) {
    for (int64_t i = 0; i < linear->tangent_count; i++)
        if (hlo_transposer_is_linear(t, linear->residual_count + i))
            hlo_transposer_give(t, linear->residual_count + i, hlo_build_get(t->b, tuple, first + i));
}
