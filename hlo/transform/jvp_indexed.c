// SPDX-License-Identifier: Apache-2.0
// Tangents of sorting, gathering and scattering.
#include "hlo/transform/structure.h"

HloInstruction *hlo_transform_take_along(HloBuilder *b, HloInstruction *x, HloInstruction *indices, int64_t dimension) {
    if (!x || !indices) return NULL;
    int64_t others[HLO_MAXIMUM_RANK], ones[HLO_MAXIMUM_RANK], dims[HLO_MAXIMUM_RANK + 1], count = 0;
    int64_t rank = x->shape->rank;
    for (int64_t i = 0; i < rank; i++) {
        if (i != dimension) others[count++] = i;
        ones[i] = 1;
        dims[i] = indices->shape->dims[i];
    }
    dims[rank] = 1;
    HloGatherAttributes attributes = {.collapsed_slice_dims = HLO_DIMS(dimension),
                                      .start_index_map = HLO_DIMS(dimension),
                                      .operand_batching_dims = {others, count},
                                      .start_indices_batching_dims = {others, count},
                                      .index_vector_dim = rank,
                                      .slice_sizes = {ones, rank}};
    return hlo_build_gather(b, x, hlo_build_reshape(b, indices, (HloInts){dims, rank + 1}), &attributes);
}

HloInstruction *hlo_transform_take_rows(HloBuilder *b, HloInstruction *x, HloInstruction *rows) {
    if (!x || !rows) return NULL;
    const int64_t rank = x->shape->rank;
    int64_t sizes[HLO_MAXIMUM_RANK], batch[HLO_MAXIMUM_RANK], dims[HLO_MAXIMUM_RANK];
    for (int64_t d = 0; d < rank; d++) {
        sizes[d] = d == rank - 1 ? x->shape->dims[d] : 1;
        batch[d] = d;
        dims[d] = d == rank - 1 ? 1 : rows->shape->dims[d];
    }
    HloGatherAttributes attributes = {.offset_dims = HLO_DIMS(rank - 1),
                                      .collapsed_slice_dims = HLO_DIMS(rank - 2),
                                      .start_index_map = HLO_DIMS(rank - 2),
                                      .operand_batching_dims = {batch, rank - 2},
                                      .start_indices_batching_dims = {batch, rank - 2},
                                      .index_vector_dim = rank - 1,
                                      .slice_sizes = {sizes, rank}};
    return hlo_build_gather(b, x, hlo_build_reshape(b, rows, (HloInts){dims, rank}), &attributes);
}

typedef struct Comparator {
    HloBuilder *b;
    HloInstruction *root;
    HloArena *scratch;
    const HloComputation *from;
} Comparator;

// The comparator with two more parameters, which it ignores: positions.
static HloStatus comparator_body(void *argument) {
    Comparator *c = argument;
    int64_t count = hlo_parameter_count(c->from);
    HloInstruction **parameters = HLO_ARENA_NEW(c->scratch, HloInstruction *, count + 2);
    for (int64_t i = 0; i < count; i++)
        parameters[i] = hlo_build_parameter_shape(c->b, i, c->from->parameters.items[i]->shape, NULL);
    hlo_build_parameter(c->b, count, HLO_S32, HLO_DIMS(), NULL);
    hlo_build_parameter(c->b, count + 1, HLO_S32, HLO_DIMS(), NULL);
    c->root = hlo_transform_inline(c->b, c->scratch, c->from, parameters);
    return hlo_transform_status(c->b);
}

// Sorts the positions too, and gathers the tangents by them.
void hlo_jvp_sort(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    int32_t count = j->old->operand_count;
    const HloSortAttributes *attributes = HLO_ATTRIBUTES(j->old, Sort);
    int64_t dimension = attributes->dimensions.count ? attributes->dimensions.items[0] : 0;
    HloInstruction **operands = HLO_ARENA_NEW(j->scratch, HloInstruction *, count + 1);
    for (int32_t i = 0; i < count; i++) operands[i] = hlo_jvp_operand(j, i);
    Comparator comparator = {.scratch = j->scratch, .from = j->old->called[0]};
    HloComputation *computation = NULL;
    HloStatus status = hlo_transform_build(b->module, comparator.from->name, comparator_body, &comparator,
                                           &comparator.b, &comparator.root, &computation);
    if (status) {
        hlo_builder_fail(b, status);
        return;
    }
    operands[count] = hlo_build_iota(b, HLO_S32, hlo_build_dims(operands[0]), dimension);
    HloInstruction *sorted = hlo_build_sort(b, operands, count + 1, dimension, attributes->is_stable, computation);
    HloInstruction *order = hlo_build_get(b, sorted, count);
    for (int32_t i = 0; i < count; i++) {
        operands[i] = hlo_build_get(b, sorted, i);
        HloInstruction *t = hlo_jvp_tangent(j, i);
        if (t) out[i] = hlo_transform_take_along(b, t, order, dimension);
    }
    j->result = count == 1 ? operands[0] : hlo_build_tuple(b, operands, count);
}

void hlo_jvp_topk(HloJvp *j, HloInstruction **out) {
    HloInstruction *t = hlo_jvp_tangent(j, 0), *result = hlo_jvp_result(j);
    if (!t || !result) return;
    int64_t dimension = hlo_is(j->old, HLO_OP_TOPK) ? t->shape->rank - 1 : hlo_custom_call_top_k_dimension(j->old);
    if (!hlo_shape_is_tuple(result->shape) || result->shape->element_count != 2)
        hlo_jvp_refused(j, out);
    else
        out[0] = hlo_transform_take_along(j->b, t, hlo_build_get(j->b, result, 1), dimension);
}

// ---------------------------------------------------------------------------------------------------------------------
// Scatter

HloInstruction *hlo_transform_gather_updates(HloBuilder *b, HloInstruction *x, HloInstruction *indices,
                                             const HloScatterAttributes *s, const HloShape *updates) {
    if (!x || !indices) return NULL;
    int64_t sizes[HLO_MAXIMUM_RANK], window = 0;
    for (int64_t i = 0; i < x->shape->rank; i++) {
        bool one = hlo_ints_contain(s->inserted_window_dims, i) || hlo_ints_contain(s->input_batching_dims, i);
        sizes[i] = one ? 1 : updates->dims[s->update_window_dims.items[window++]];
    }
    HloGatherAttributes attributes = {.offset_dims = s->update_window_dims,
                                      .collapsed_slice_dims = s->inserted_window_dims,
                                      .start_index_map = s->scatter_dims_to_operand_dims,
                                      .operand_batching_dims = s->input_batching_dims,
                                      .start_indices_batching_dims = s->scatter_indices_batching_dims,
                                      .index_vector_dim = s->index_vector_dim,
                                      .slice_sizes = {sizes, x->shape->rank},
                                      .indices_are_sorted = s->indices_are_sorted};
    return hlo_build_gather(b, x, indices, &attributes);
}

// An update that overwrites: which of several to one place remains is found by scattering their numbers, from 1 on.
static void overwriting_scatter(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(j->old, Scatter);
    HloInstruction *x = hlo_jvp_operand(j, 0), *indices = hlo_jvp_operand(j, 1), *updates = hlo_jvp_operand(j, 2);
    HloInstruction *t = hlo_jvp_tangent(j, 0), *u = hlo_jvp_tangent(j, 2);
    HloInts dims = hlo_build_dims(updates);
    HloType type = hlo_shape_elements(updates->shape) < INT32_MAX ? HLO_S32 : HLO_S64;
    HloInstruction *counted = hlo_build_iota(b, type, HLO_DIMS(hlo_shape_elements(updates->shape)), 0);
    HloInstruction *numbers = hlo_build_add(b, hlo_build_reshape(b, counted, dims), hlo_build_splat(b, type, dims, 1));
    HloInstruction *none = hlo_build_splat(b, type, hlo_build_dims(x), 0);
    HloInstruction *winners =
        hlo_build_scatter(b, &none, indices, &numbers, 1, attributes, hlo_build_combiner(b, HLO_OP_MAXIMUM, type));
    HloInstruction *kept = hlo_build_compare(b, winners, none, HLO_ComparisonDirection_EQ);
    HloInstruction *zeros = hlo_build_splat_like(b, x, 0);
    if (t) out[0] = hlo_build_select(b, kept, t, zeros);
    if (!u) return;
    HloInstruction *won =
        hlo_build_compare(b, numbers, hlo_transform_gather_updates(b, winners, indices, attributes, updates->shape),
                          HLO_ComparisonDirection_EQ);
    HloInstruction *used = hlo_build_select(b, won, u, hlo_build_splat_like(b, updates, 0));
    HloInstruction *base = out[0] ? out[0] : zeros;
    out[0] =
        hlo_build_scatter(b, &base, indices, &used, 1, attributes, hlo_build_combiner(b, HLO_OP_ADD, x->shape->type));
}

// An update that multiplies, at one place at most once: x * u has the tangent x' * u + x * u'.
static void multiplying_scatter(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(j->old, Scatter);
    HloInstruction *x = hlo_jvp_operand(j, 0), *indices = hlo_jvp_operand(j, 1), *updates = hlo_jvp_operand(j, 2);
    HloInstruction *t = hlo_jvp_tangent(j, 0), *u = hlo_jvp_tangent(j, 2);
    HloType type = x->shape->type;
    if (t) {
        HloInstruction *ones = hlo_build_splat_like(b, x, 1);
        HloInstruction *factor =
            hlo_build_scatter(b, &ones, indices, &updates, 1, attributes, hlo_build_combiner(b, HLO_OP_MULTIPLY, type));
        out[0] = hlo_build_mul(b, t, factor);
    }
    if (u && !attributes->unique_indices) {
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED,
                     "%s: there is no derivative of a scatter that multiplies unless unique_indices=true says that "
                     "it does so once at each place",
                     j->old->name);
    } else if (u) {
        HloInstruction *zeros = hlo_build_splat_like(b, x, 0);
        HloInstruction *moved =
            hlo_build_scatter(b, &zeros, indices, &u, 1, attributes, hlo_build_combiner(b, HLO_OP_ADD, type));
        out[0] = hlo_transform_sum(b, out[0], hlo_build_mul(b, moved, x));
    }
}

// The greatest or least of an element and its updates. Those that are equal to the result share its tangent.
static void extreme_scatter(HloJvp *j, HloInstruction **out) {
    HloBuilder *b = j->b;
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(j->old, Scatter);
    HloInstruction *x = hlo_jvp_operand(j, 0), *indices = hlo_jvp_operand(j, 1), *updates = hlo_jvp_operand(j, 2);
    HloInstruction *t = hlo_jvp_tangent(j, 0), *u = hlo_jvp_tangent(j, 2), *result = hlo_jvp_result(j);
    HloComputation *sum = hlo_build_combiner(b, HLO_OP_ADD, x->shape->type);
    HloInstruction *zeros = hlo_build_splat_like(b, x, 0), *ones = hlo_build_splat_like(b, x, 1);
    HloInstruction *none = hlo_build_splat_like(b, updates, 0), *one = hlo_build_splat_like(b, updates, 1);
    HloInstruction *won =
        hlo_build_compare(b, updates, hlo_transform_gather_updates(b, result, indices, attributes, updates->shape),
                          HLO_ComparisonDirection_EQ);
    HloInstruction *each = hlo_build_select(b, won, one, none);
    HloInstruction *kept = hlo_build_compare(b, x, result, HLO_ComparisonDirection_EQ);
    HloInstruction *winners = hlo_build_add(b, hlo_build_scatter(b, &zeros, indices, &each, 1, attributes, sum),
                                            hlo_build_select(b, kept, ones, zeros));
    HloInstruction *share = hlo_build_div(b, ones, hlo_build_max(b, winners, ones));
    HloInstruction *total = t ? hlo_build_select(b, kept, t, zeros) : zeros;
    if (u) {
        HloInstruction *used = hlo_build_select(b, won, u, none);
        total = hlo_build_scatter(b, &total, indices, &used, 1, attributes, sum);
    }
    out[0] = hlo_build_mul(b, total, share);
}

// A sum, or a difference, of an element and its updates.
static void adding_scatter(HloJvp *j, HloOpcode opcode, HloInstruction **out) {
    HloInstruction *u = hlo_jvp_tangent(j, 2), *base = hlo_jvp_tangent_or_zeros(j, 0);
    out[0] = base;
    if (!u) return;
    if (opcode == HLO_OP_SUBTRACT) u = hlo_build_negate(j->b, u);
    out[0] = hlo_build_scatter(j->b, &base, hlo_jvp_operand(j, 1), &u, 1, HLO_ATTRIBUTES(j->old, Scatter),
                               hlo_build_combiner(j->b, HLO_OP_ADD, base ? base->shape->type : HLO_F32));
}

void hlo_jvp_scatter(HloJvp *j, HloInstruction **out) {
    const HloComputation *combiner = j->old->called[0];
    HloOpcode opcode = j->old->operand_count == 3 ? hlo_computation_binary_opcode(combiner) : HLO_OPCODE_COUNT;
    bool overwrites = hlo_is(combiner->root, HLO_OP_PARAMETER) && hlo_parameter_number(combiner->root) == 1;
    if (opcode == HLO_OP_ADD || opcode == HLO_OP_SUBTRACT)
        adding_scatter(j, opcode, out);
    else if (opcode == HLO_OP_MULTIPLY)
        multiplying_scatter(j, out);
    else if (opcode == HLO_OP_MAXIMUM || opcode == HLO_OP_MINIMUM)
        extreme_scatter(j, out);
    else if (overwrites && j->old->operand_count == 3)
        overwriting_scatter(j, out);
    else
        hlo_jvp_fail(j, HLO_UNIMPLEMENTED, "%s: there is no derivative of a scatter by the computation %s",
                     j->old->name, combiner->name);
}
