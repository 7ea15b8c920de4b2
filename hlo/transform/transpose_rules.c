// SPDX-License-Identifier: Apache-2.0
// Transposes of elementwise ops, data movement, sums and collectives.
#include "hlo/transform/structure.h"

static const HloShape *operand_shape(const HloTransposer *t, int64_t index) {
    return t->instruction->operands[index]->shape;
}

static HloInts operand_dims(const HloTransposer *t, int64_t index) {
    return (HloInts){operand_shape(t, index)->dims, operand_shape(t, index)->rank};
}

HloInstruction *hlo_transpose_applied(HloTransposer *t, HloInstruction *cotangent) {
    return hlo_instruction_clone(t->b->computation, t->instruction, t->instruction->shape, &cotangent, 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise

void hlo_transpose_add(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, cotangent);
    hlo_transposer_give(t, 1, cotangent);
}

void hlo_transpose_subtract(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, cotangent);
    if (hlo_transposer_is_linear(t, 1)) hlo_transposer_give(t, 1, hlo_build_negate(t->b, cotangent));
}

void hlo_transpose_negate(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_build_negate(t->b, cotangent));
}

void hlo_transpose_copy(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, cotangent);
}

void hlo_transpose_multiply(HloTransposer *t, HloInstruction *cotangent) {
    int64_t linear = hlo_transposer_is_linear(t, 0) ? 0 : 1;
    hlo_transposer_give(t, linear, hlo_build_mul(t->b, cotangent, hlo_transposer_residual(t, 1 - linear)));
}

void hlo_transpose_divide(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_build_div(t->b, cotangent, hlo_transposer_residual(t, 1)));
}

void hlo_transpose_convert(HloTransposer *t, HloInstruction *cotangent) {
    HloType type = operand_shape(t, 0)->type;
    if (hlo_type_is_complex(cotangent->shape->type) && !hlo_type_is_complex(type))
        cotangent = hlo_build_real(t->b, cotangent);
    if (cotangent && cotangent->shape->type != type) cotangent = hlo_build_convert(t->b, cotangent, type);
    hlo_transposer_give(t, 0, cotangent);
}

void hlo_transpose_reduce_precision(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_transpose_applied(t, cotangent));
}

void hlo_transpose_real(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_build_complex(t->b, cotangent, hlo_build_splat_like(t->b, cotangent, 0)));
}

void hlo_transpose_imag(HloTransposer *t, HloInstruction *cotangent) {
    HloInstruction *zero = hlo_build_splat_like(t->b, cotangent, 0);
    hlo_transposer_give(t, 0, hlo_build_complex(t->b, zero, hlo_build_negate(t->b, cotangent)));
}

void hlo_transpose_complex(HloTransposer *t, HloInstruction *cotangent) {
    if (hlo_transposer_is_linear(t, 0)) hlo_transposer_give(t, 0, hlo_build_real(t->b, cotangent));
    if (hlo_transposer_is_linear(t, 1))
        hlo_transposer_give(t, 1, hlo_build_negate(t->b, hlo_build_imag(t->b, cotangent)));
}

void hlo_transpose_select(HloTransposer *t, HloInstruction *cotangent) {
    HloInstruction *predicate = hlo_transposer_residual(t, 0), *zero = hlo_build_splat_like(t->b, cotangent, 0);
    if (t->instruction->operands[1] == t->instruction->operands[2]) {
        // Where the second is chosen, the cotangent is a product with zero: zero, or not a number.
        HloInstruction *number = hlo_build_compare(t->b, cotangent, cotangent, HLO_ComparisonDirection_EQ);
        if (number && predicate && predicate->shape->rank < number->shape->rank)
            predicate = hlo_build_broadcast(t->b, predicate, hlo_build_dims(number), HLO_DIMS());
        hlo_transposer_give(t, 1, hlo_build_select(t->b, hlo_build_or(t->b, predicate, number), cotangent, zero));
        return;
    }
    if (hlo_transposer_is_linear(t, 1)) hlo_transposer_give(t, 1, hlo_build_select(t->b, predicate, cotangent, zero));
    if (hlo_transposer_is_linear(t, 2)) hlo_transposer_give(t, 2, hlo_build_select(t->b, predicate, zero, cotangent));
}

// ---------------------------------------------------------------------------------------------------------------------
// Data movement

// Sums over the dimensions that a broadcast added or repeated.
void hlo_transpose_broadcast(HloTransposer *t, HloInstruction *cotangent) {
    HloInts mapping = HLO_ATTRIBUTES(t->instruction, Dimensions)->dimensions;
    int64_t added[HLO_MAXIMUM_RANK], order[HLO_MAXIMUM_RANK], count = 0;
    bool ordered = true;
    for (int64_t i = 0; i < cotangent->shape->rank; i++)
        if (!hlo_ints_contain(mapping, i)) added[count++] = i;
    HloInstruction *sum = count ? hlo_build_reduce_op(t->b, HLO_OP_ADD, cotangent, (HloInts){added, count}) : cotangent;
    for (int64_t i = 0; i < mapping.count; i++) {
        order[i] = 0;
        for (int64_t k = 0; k < mapping.count; k++) order[i] += mapping.items[k] < mapping.items[i];
        ordered &= order[i] == i;
    }
    if (!ordered) sum = hlo_build_transpose(t->b, sum, (HloInts){order, mapping.count});
    hlo_transposer_give(t, 0, sum);
}

void hlo_transpose_reduce(HloTransposer *t, HloInstruction *cotangent) {
    HloInts reduced = HLO_ATTRIBUTES(t->instruction, Dimensions)->dimensions;
    hlo_transposer_give(t, 0, hlo_build_spread(t->b, cotangent, operand_dims(t, 0), reduced));
}

void hlo_transpose_reshape(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_build_reshape(t->b, cotangent, operand_dims(t, 0)));
}

void hlo_transpose_transpose(HloTransposer *t, HloInstruction *cotangent) {
    HloInts permutation = HLO_ATTRIBUTES(t->instruction, Dimensions)->dimensions;
    int64_t inverse[HLO_MAXIMUM_RANK];
    for (int64_t i = 0; i < permutation.count; i++) inverse[permutation.items[i]] = i;
    hlo_transposer_give(t, 0, hlo_build_transpose(t->b, cotangent, (HloInts){inverse, permutation.count}));
}

void hlo_transpose_reverse(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_transpose_applied(t, cotangent));
}

static HloInstruction *zero_of(HloTransposer *t, HloInstruction *like) {
    return hlo_build_scalar(t->b, like->shape->type, 0);
}

void hlo_transpose_slice(HloTransposer *t, HloInstruction *cotangent) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(t->instruction, Slice);
    int64_t low[HLO_MAXIMUM_RANK], high[HLO_MAXIMUM_RANK], interior[HLO_MAXIMUM_RANK];
    int64_t rank = cotangent->shape->rank;
    for (int64_t i = 0; i < rank; i++) {
        int64_t stride = slice->strides.count ? slice->strides.items[i] : 1, size = cotangent->shape->dims[i];
        low[i] = size ? slice->starts.items[i] : operand_shape(t, 0)->dims[i];
        interior[i] = stride - 1;
        high[i] = size ? operand_shape(t, 0)->dims[i] - low[i] - (size - 1) * stride - 1 : 0;
    }
    hlo_transposer_give(t, 0,
                        hlo_build_pad(t->b, cotangent, zero_of(t, cotangent), (HloInts){low, rank},
                                      (HloInts){high, rank}, (HloInts){interior, rank}));
}

// The elements that were padded are those that a pad with the opposite numbers, and strides, finds again.
void hlo_transpose_pad(HloTransposer *t, HloInstruction *cotangent) {
    HloPadding padding = HLO_ATTRIBUTES(t->instruction, Pad)->padding;
    int64_t low[HLO_MAXIMUM_RANK], high[HLO_MAXIMUM_RANK], zeros[HLO_MAXIMUM_RANK] = {0}, strides[HLO_MAXIMUM_RANK];
    int64_t all[HLO_MAXIMUM_RANK], rank = cotangent->shape->rank;
    bool cut = false, strided = false;
    HloBuilder *b = t->b;
    for (int64_t i = 0; i < rank; i++) {
        low[i] = -padding.items[i].low;
        high[i] = -padding.items[i].high;
        strides[i] = padding.items[i].interior + 1;
        all[i] = i;
        cut |= low[i] != 0 || high[i] != 0;
        strided |= strides[i] != 1;
    }
    HloInstruction *inner = cotangent;
    if (cut)
        inner = hlo_build_pad(b, inner, zero_of(t, cotangent), (HloInts){low, rank}, (HloInts){high, rank}, HLO_DIMS());
    if (strided && inner)
        inner = hlo_build_slice(b, inner, (HloInts){zeros, rank}, hlo_build_dims(inner), (HloInts){strides, rank});
    hlo_transposer_give(t, 0, inner);
    if (!hlo_transposer_is_linear(t, 1)) return;
    HloInts every = {all, rank};
    HloInstruction *total = hlo_build_reduce_op(b, HLO_OP_ADD, cotangent, every);
    hlo_transposer_give(t, 1, hlo_build_sub(b, total, hlo_build_reduce_op(b, HLO_OP_ADD, inner, every)));
}

void hlo_transpose_concatenate(HloTransposer *t, HloInstruction *cotangent) {
    int64_t dimension = HLO_ATTRIBUTES(t->instruction, Dimensions)->dimensions.items[0], rank = cotangent->shape->rank;
    int64_t starts[HLO_MAXIMUM_RANK] = {0}, limits[HLO_MAXIMUM_RANK];
    for (int64_t i = 0; i < rank; i++) limits[i] = cotangent->shape->dims[i];
    for (int32_t i = 0; i < t->instruction->operand_count; i++) {
        limits[dimension] = starts[dimension] + operand_shape(t, i)->dims[dimension];
        if (hlo_transposer_is_linear(t, i))
            hlo_transposer_give(
                t, i, hlo_build_slice(t->b, cotangent, (HloInts){starts, rank}, (HloInts){limits, rank}, HLO_DIMS()));
        starts[dimension] = limits[dimension];
    }
}

static HloInstruction **starts_of(HloTransposer *t, int32_t first) {
    int32_t count = t->instruction->operand_count - first;
    HloInstruction **starts = HLO_ARENA_NEW(t->scratch, HloInstruction *, count + 1);
    for (int32_t i = 0; i < count; i++) starts[i] = hlo_transposer_residual(t, first + i);
    return starts;
}

// Adds to the slice in place if the operand has a cotangent already: a loop over the slices of an array takes time in
// proportion to the array then, not to its square.
void hlo_transpose_dynamic_slice(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    HloInstruction **starts = starts_of(t, 1), *operand = t->instruction->operands[0];
    HloInstruction **sum = hlo_transposer_cotangents(t, operand);
    if (sum[0]) {
        HloInstruction *old = hlo_build_dynamic_slice(b, sum[0], starts, hlo_build_dims(cotangent));
        sum[0] = hlo_build_dynamic_update_slice(b, sum[0], hlo_build_add(b, old, cotangent), starts);
    } else {
        sum[0] = hlo_build_dynamic_update_slice(b, hlo_transform_zeros(b, operand->shape), cotangent, starts);
    }
}

void hlo_transpose_dynamic_update_slice(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    HloInstruction **starts = starts_of(t, 2);
    if (hlo_transposer_is_linear(t, 1))
        hlo_transposer_give(t, 1, hlo_build_dynamic_slice(b, cotangent, starts, operand_dims(t, 1)));
    if (hlo_transposer_is_linear(t, 0))
        hlo_transposer_give(
            t, 0, hlo_build_dynamic_update_slice(b, cotangent, hlo_transform_zeros(b, operand_shape(t, 1)), starts));
}

// ---------------------------------------------------------------------------------------------------------------------
// Indexed

static int64_t greatest(HloType type) {
    int bits = hlo_type_info(type)->bits - (hlo_type_kind(type) == HLO_KIND_SIGNED);
    return bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
}

// Start indices limited to the range in which slices fit: a gather moves the others there, a scatter would drop them.
static HloInstruction *clamped(HloTransposer *t, HloInstruction *indices, const HloGatherAttributes *g,
                               const HloShape *operand) {
    HloBuilder *b = t->b;
    HloType type = indices->shape->type;
    int64_t count = g->start_index_map.count, rank = indices->shape->rank;
    HloLiteral *limits = hlo_literal_in_arena(t->scratch, hlo_shape_array(t->scratch, type, &count, 1));
    for (int64_t i = 0; i < count; i++) {
        int64_t dimension = g->start_index_map.items[i],
                limit = operand->dims[dimension] - g->slice_sizes.items[dimension];
        hlo_literal_set_int64(limits, i, hlo_type_holds(type, limit) ? limit : greatest(type));
    }
    HloInstruction *high = hlo_build_constant(b, limits);
    if (g->index_vector_dim == rank)
        high = hlo_build_broadcast(b, hlo_build_reshape(b, high, HLO_DIMS()), hlo_build_dims(indices), HLO_DIMS());
    else
        high = hlo_build_broadcast(b, high, hlo_build_dims(indices), HLO_DIMS(g->index_vector_dim));
    return hlo_build_clamp(b, hlo_build_scalar(b, type, 0), indices, high);
}

// The scatter that writes where the gather reads.
static HloScatterAttributes opposite(const HloGatherAttributes *g) {
    return (HloScatterAttributes){.update_window_dims = g->offset_dims,
                                  .inserted_window_dims = g->collapsed_slice_dims,
                                  .scatter_dims_to_operand_dims = g->start_index_map,
                                  .input_batching_dims = g->operand_batching_dims,
                                  .scatter_indices_batching_dims = g->start_indices_batching_dims,
                                  .index_vector_dim = g->index_vector_dim,
                                  .indices_are_sorted = g->indices_are_sorted};
}

// Adds to the sum in place. What is sharded is added to zeros first: each device then has a part of the sum, as of a
// product, and both parts are summed over the devices in one collective.
void hlo_transpose_gather(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    const HloGatherAttributes *g = HLO_ATTRIBUTES(t->instruction, Gather);
    HloScatterAttributes attributes = opposite(g);
    HloInstruction *indices = clamped(t, hlo_transposer_residual(t, 1), g, operand_shape(t, 0));
    HloInstruction **sum = hlo_transposer_cotangents(t, t->instruction->operands[0]);
    const bool is_apart = sum[0] && t->instruction->operands[0]->sharding && !hlo_is(sum[0], HLO_OP_SCATTER);
    HloInstruction *base = sum[0] && !is_apart ? sum[0] : hlo_transform_zeros(b, operand_shape(t, 0));
    HloInstruction *written = hlo_build_scatter(b, &base, indices, &cotangent, 1, &attributes,
                                                hlo_build_combiner(b, HLO_OP_ADD, cotangent->shape->type));
    sum[0] = is_apart ? hlo_build_add(b, sum[0], written) : written;
}

// True for updates whose window lies inside the operand: the others were dropped.
static HloInstruction *inside(HloTransposer *t, HloInstruction *indices, const HloScatterAttributes *s) {
    HloBuilder *b = t->b;
    const HloShape *operand = operand_shape(t, 0), *updates = operand_shape(t, 2);
    HloGatherAttributes gather = {.start_index_map = s->scatter_dims_to_operand_dims,
                                  .index_vector_dim = s->index_vector_dim};
    int64_t sizes[HLO_MAXIMUM_RANK], mapping[HLO_MAXIMUM_RANK], window = 0, count = 0;
    for (int64_t i = 0; i < operand->rank; i++) {
        bool one = hlo_ints_contain(s->inserted_window_dims, i) || hlo_ints_contain(s->input_batching_dims, i);
        sizes[i] = one ? 1 : updates->dims[s->update_window_dims.items[window++]];
    }
    gather.slice_sizes = (HloInts){sizes, operand->rank};
    HloInstruction *fits =
        hlo_build_compare(b, clamped(t, indices, &gather, operand), indices, HLO_ComparisonDirection_EQ);
    if (s->index_vector_dim < indices->shape->rank)
        fits = hlo_build_reduce_op(b, HLO_OP_AND, fits, HLO_DIMS(s->index_vector_dim));
    for (int64_t i = 0; i < updates->rank; i++)
        if (!hlo_ints_contain(s->update_window_dims, i)) mapping[count++] = i;
    return hlo_build_broadcast(b, fits, (HloInts){updates->dims, updates->rank}, (HloInts){mapping, count});
}

void hlo_transpose_scatter(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    const HloScatterAttributes *attributes = HLO_ATTRIBUTES(t->instruction, Scatter);
    hlo_transposer_give(t, 0, cotangent);
    if (!hlo_transposer_is_linear(t, 2)) return;
    HloInstruction *indices = hlo_transposer_residual(t, 1);
    HloInstruction *read = hlo_transform_gather_updates(b, cotangent, indices, attributes, operand_shape(t, 2));
    hlo_transposer_give(
        t, 2,
        hlo_build_select(b, inside(t, indices, attributes), read, read ? hlo_build_splat_like(b, read, 0) : NULL));
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows

// A sum over windows spreads the cotangent: a window over the dilated cotangent, padded so that the sizes agree.
void hlo_transpose_reduce_window(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    const HloWindow *window = HLO_ATTRIBUTES(t->instruction, Window)->window;
    HloWindowDimension dims[HLO_MAXIMUM_RANK];
    int64_t low[HLO_MAXIMUM_RANK], high[HLO_MAXIMUM_RANK], interior[HLO_MAXIMUM_RANK], rank = window->count;
    int64_t zeros[HLO_MAXIMUM_RANK] = {0}, strides[HLO_MAXIMUM_RANK];
    bool strided = false;
    for (int64_t i = 0; i < rank; i++) {
        HloWindowDimension w = window->dims[i];
        int64_t base = w.base_dilation > 1 ? w.base_dilation : 1,
                dilation = w.window_dilation > 1 ? w.window_dilation : 1;
        int64_t size = operand_shape(t, 0)->dims[i], reach = (w.size - 1) * dilation;
        int64_t dilated = size ? (size - 1) * base + 1 : 0, out = cotangent->shape->dims[i];
        int64_t spread = out ? (out - 1) * w.stride + 1 : 0;
        interior[i] = w.stride - 1;
        low[i] = reach - w.padding_low;
        high[i] = dilated + reach - spread - low[i];
        dims[i] = (HloWindowDimension){.size = w.size, .stride = 1, .window_dilation = dilation, .base_dilation = 1};
        strides[i] = base;
        strided |= base > 1;
    }
    HloInstruction *padded = hlo_build_pad(b, cotangent, zero_of(t, cotangent), (HloInts){low, rank},
                                           (HloInts){high, rank}, (HloInts){interior, rank});
    HloInstruction *sum = hlo_build_reduce_window_op(b, HLO_OP_ADD, padded, &(HloWindow){dims, rank});
    if (strided && sum)
        sum = hlo_build_slice(b, sum, (HloInts){zeros, rank}, hlo_build_dims(sum), (HloInts){strides, rank});
    hlo_transposer_give(t, 0, sum);
}

void hlo_transpose_select_and_scatter(HloTransposer *t, HloInstruction *cotangent) {
    const HloInstruction *root = t->instruction->called[0]->root;
    int32_t direction = hlo_is(root, HLO_OP_COMPARE) ? HLO_ATTRIBUTES(root, Compare)->direction : -1;
    bool in_order = root->operand_count == 2 && hlo_is(root->operands[0], HLO_OP_PARAMETER) &&
                    hlo_is(root->operands[1], HLO_OP_PARAMETER) && hlo_parameter_number(root->operands[0]) == 0;
    if (!in_order || (direction != HLO_ComparisonDirection_GE && direction != HLO_ComparisonDirection_LE)) {
        hlo_builder_fail(t->b, hlo_error(HLO_UNIMPLEMENTED, "%s: there is no reverse derivative of a selection by %s",
                                         t->instruction->name, t->instruction->called[0]->name));
        return;
    }
    hlo_transposer_give(t, 1,
                        hlo_transform_window_gather(t->b, hlo_transposer_residual(t, 0), cotangent,
                                                    HLO_ATTRIBUTES(t->instruction, Window)->window, direction));
}

// ---------------------------------------------------------------------------------------------------------------------
// Annotations and collectives

// An annotation holds for the cotangent too.
void hlo_transpose_custom_call(HloTransposer *t, HloInstruction *cotangent) {
    if (hlo_custom_call_is_region_boundary(t->instruction))
        hlo_transpose_boundary(t, cotangent);
    else
        hlo_transposer_give(
            t, 0, hlo_instruction_clone(t->b->computation, t->instruction, operand_shape(t, 0), &cotangent, 1));
}

void hlo_transpose_all_gather(HloTransposer *t, HloInstruction *cotangent) {
    HloType type = cotangent->shape->type;
    hlo_transposer_give(t, 0,
                        hlo_build_reduce_scatter(t->b, &cotangent, 1, HLO_ATTRIBUTES(t->instruction, Collective),
                                                 hlo_build_combiner(t->b, HLO_OP_ADD, type)));
}

void hlo_transpose_reduce_scatter(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_build_all_gather(t->b, &cotangent, 1, HLO_ATTRIBUTES(t->instruction, Collective)));
}

// Splits and concatenates along one dimension, so that the way back is the same.
void hlo_transpose_all_to_all(HloTransposer *t, HloInstruction *cotangent) {
    hlo_transposer_give(t, 0, hlo_transpose_applied(t, cotangent));
}

void hlo_transpose_collective_permute(HloTransposer *t, HloInstruction *cotangent) {
    const HloPermuteAttributes *attributes = HLO_ATTRIBUTES(t->instruction, Permute);
    HloPair *pairs = HLO_ARENA_NEW(t->scratch, HloPair, attributes->source_target_pairs.count);
    for (int64_t i = 0; i < attributes->source_target_pairs.count; i++)
        pairs[i] =
            (HloPair){attributes->source_target_pairs.items[i].target, attributes->source_target_pairs.items[i].source};
    hlo_transposer_give(
        t, 0,
        hlo_build_collective_permute(t->b, cotangent, (HloPairs){pairs, attributes->source_target_pairs.count},
                                     attributes->channel_id));
}
