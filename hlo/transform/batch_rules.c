// SPDX-License-Identifier: Apache-2.0
// Batching rules of ops that work on arrays alone.
#include "hlo/ir/custom_call.h"
#include "hlo/ir/infer/support.h"
#include "hlo/transform/batch.h"

static HloInstruction **operand_list(HloBatch *v) {
    return HLO_ARENA_NEW(v->scratch, HloInstruction *, v->old->operand_count);
}

// All operands, batched.
static HloInstruction **all_batched(HloBatch *v) {
    HloInstruction **operands = operand_list(v);
    for (int32_t i = 0; i < v->old->operand_count; i++) operands[i] = hlo_batch_operand(v, i);
    return operands;
}

static void set_result(HloBatch *v, HloInstruction *result, HloInstruction **out) {
    if (result) hlo_transform_leaves(v->b, result, out);
}

void hlo_batch_refused(HloBatch *v, HloInstruction **out) {
    (void)out;
    hlo_batch_fail(v, "%s: %s cannot be mapped over an axis", v->old->name, hlo_op_text(v->old->opcode));
}

void hlo_batch_leading(HloBatch *v, HloInstruction **out) {
    set_result(v, hlo_batch_clone(v, all_batched(v), NULL), out);
}

// Scalars that an op repeats (predicates, bounds) are repeated to the batched sizes.
void hlo_batch_elementwise(HloBatch *v, HloInstruction **out) {
    HloInstruction **operands = operand_list(v);
    for (int32_t i = 0; i < v->old->operand_count; i++) {
        operands[i] = hlo_batch_operand(v, i);
        if (v->old->operands[i]->shape->rank == 0 && v->old->shape->rank > 0 && operands[i])
            operands[i] = hlo_build_broadcast(
                v->b, operands[i], hlo_batch_prepend(v, hlo_shape_dims(v->old->shape), v->size), HLO_DIMS(0));
    }
    out[0] = hlo_batch_clone(v, operands, NULL);
}

void hlo_batch_passed(HloBatch *v, HloInstruction **out) {
    int64_t count = hlo_shape_leaf_count(v->old->shape);
    memcpy(out, hlo_batch_leaves(v, 0), (size_t)count * sizeof *out);
    const int64_t *flags = hlo_int_map_find(&v->flags, (uint64_t)v->old->operands[0]->id);
    memcpy(v->out_flags, (const void *)(intptr_t)*flags, (size_t)count * sizeof *v->out_flags);
}

void hlo_batch_tuple(HloBatch *v, HloInstruction **out) {
    bool *next = v->out_flags;
    for (int32_t i = 0; i < v->old->operand_count; i++) {
        int64_t count = hlo_shape_leaf_count(v->old->operands[i]->shape);
        const int64_t *flags = hlo_int_map_find(&v->flags, (uint64_t)v->old->operands[i]->id);
        memcpy(out, hlo_batch_leaves(v, i), (size_t)count * sizeof *out);
        memcpy(next, (const void *)(intptr_t)*flags, (size_t)count * sizeof *next);
        out += count;
        next += count;
    }
}

void hlo_batch_get_tuple_element(HloBatch *v, HloInstruction **out) {
    int64_t first = hlo_shape_first_leaf(v->old->operands[0]->shape, HLO_ATTRIBUTES(v->old, TupleIndex)->index);
    int64_t count = hlo_shape_leaf_count(v->old->shape);
    const int64_t *flags = hlo_int_map_find(&v->flags, (uint64_t)v->old->operands[0]->id);
    memcpy(out, hlo_batch_leaves(v, 0) + first, (size_t)count * sizeof *out);
    memcpy(v->out_flags, (const bool *)(intptr_t)*flags + first, (size_t)count * sizeof *v->out_flags);
}

// ---------------------------------------------------------------------------------------------------------------------
// Data movement

// The op with a list of dimensions moved by one, `first` before them.
static void with_dimensions(HloBatch *v, HloInstruction **out, int64_t first) {
    HloInts dimensions = HLO_ATTRIBUTES(v->old, Dimensions)->dimensions;
    HloDimensionsAttributes attributes = {hlo_batch_shift(v, dimensions, first)};
    set_result(v, hlo_batch_clone(v, all_batched(v), &attributes), out);
}

void hlo_batch_broadcast(HloBatch *v, HloInstruction **out) {
    with_dimensions(v, out, 0);
}

void hlo_batch_transpose(HloBatch *v, HloInstruction **out) {
    with_dimensions(v, out, 0);
}

void hlo_batch_reverse(HloBatch *v, HloInstruction **out) {
    with_dimensions(v, out, -1);
}

void hlo_batch_concatenate(HloBatch *v, HloInstruction **out) {
    with_dimensions(v, out, -1);
}

void hlo_batch_reshape(HloBatch *v, HloInstruction **out) {
    out[0] =
        hlo_build_reshape(v->b, hlo_batch_plain(v, 0), hlo_batch_prepend(v, hlo_shape_dims(v->old->shape), v->size));
}

void hlo_batch_slice(HloBatch *v, HloInstruction **out) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(v->old, Slice);
    HloInts strides =
        slice->strides.count || v->old->shape->rank == 0 ? hlo_batch_prepend(v, slice->strides, 1) : slice->strides;
    out[0] = hlo_build_slice(v->b, hlo_batch_plain(v, 0), hlo_batch_prepend(v, slice->starts, 0),
                             hlo_batch_prepend(v, slice->limits, v->size), strides);
}

// A padding value for each item of the batch is selected where the pad put it.
void hlo_batch_pad(HloBatch *v, HloInstruction **out) {
    HloBuilder *b = v->b;
    HloPadding old = HLO_ATTRIBUTES(v->old, Pad)->padding;
    HloPadDimension *items = HLO_ARENA_NEW(v->scratch, HloPadDimension, old.count + 1);
    for (int64_t i = 0; i < old.count; i++) items[i + 1] = old.items[i];
    HloPadAttributes attributes = {.padding = {items, old.count + 1}};
    HloInstruction *x = hlo_batch_operand(v, 0), *value = hlo_batch_plain(v, 1);
    if (!hlo_batch_has(v, 1)) {
        out[0] = hlo_batch_clone(v, (HloInstruction *[]){x, value}, &attributes);
        return;
    }
    HloInstruction *operands[] = {x, hlo_build_scalar(b, v->old->shape->type, 0)};
    HloInstruction *padded = hlo_batch_clone(v, operands, &attributes);
    if (!padded) return;
    HloInstruction *inside[] = {hlo_build_splat(b, HLO_PRED, hlo_build_dims(x), 1), hlo_build_scalar(b, HLO_PRED, 0)};
    HloInstruction *mask = hlo_build(
        b, &(HloBuildRequest){.opcode = HLO_OP_PAD, .operands = inside, .operand_count = 2, .attributes = &attributes});
    out[0] = hlo_build_select(b, mask, padded, hlo_build_broadcast(b, value, hlo_build_dims(padded), HLO_DIMS(0)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions and order

static bool initial_values_are_plain(HloBatch *v, int64_t first) {
    for (int64_t i = first; i < v->old->operand_count; i++) {
        if (!hlo_batch_has(v, i)) continue;
        hlo_batch_fail(v, "%s: a %s whose initial value is mapped", v->old->name, hlo_op_text(v->old->opcode));
        return false;
    }
    return true;
}

// The arrays batched, the initial values (or other scalars) from `first` on as they are.
static HloInstruction **arrays_batched(HloBatch *v, int64_t first) {
    HloInstruction **operands = operand_list(v);
    for (int32_t i = 0; i < v->old->operand_count; i++)
        operands[i] = i < first ? hlo_batch_operand(v, i) : hlo_batch_plain(v, i);
    return operands;
}

// An initial value for each item is combined with a reduction from the identity.
static bool reduce_from_each(HloBatch *v, HloInstruction **out, HloInts dimensions) {
    HloOpcode opcode = hlo_computation_binary_opcode(v->old->called[0]);
    bool known = opcode == HLO_OP_ADD || opcode == HLO_OP_MULTIPLY || opcode == HLO_OP_MAXIMUM ||
                 opcode == HLO_OP_MINIMUM || opcode == HLO_OP_AND || opcode == HLO_OP_OR;
    if (v->old->operand_count != 2 || !hlo_batch_has(v, 1) || !known) return false;
    HloInstruction *x = hlo_batch_operand(v, 0);
    HloInstruction *initial = hlo_build_identity_value(v->b, opcode, v->old->shape->type);
    HloInstruction *reduced = hlo_build_reduce(v->b, &x, &initial, 1, dimensions, v->old->called[0]);
    if (!reduced) return true;
    HloInstruction *first = hlo_build_broadcast(v->b, hlo_batch_plain(v, 1), hlo_build_dims(reduced), HLO_DIMS(0));
    out[0] = hlo_build_2(v->b, opcode, first, reduced, NULL);
    return true;
}

void hlo_batch_reduce(HloBatch *v, HloInstruction **out) {
    int64_t arrays = v->old->operand_count / 2;
    if (reduce_from_each(v, out, hlo_batch_shift(v, HLO_ATTRIBUTES(v->old, Dimensions)->dimensions, -1))) return;
    if (!initial_values_are_plain(v, arrays)) return;
    HloDimensionsAttributes attributes = {hlo_batch_shift(v, HLO_ATTRIBUTES(v->old, Dimensions)->dimensions, -1)};
    set_result(v, hlo_batch_clone(v, arrays_batched(v, arrays), &attributes), out);
}

static void windowed(HloBatch *v, HloInstruction **out, int64_t arrays) {
    const HloWindow *old = HLO_ATTRIBUTES(v->old, Window)->window;
    HloWindowDimension *dims = HLO_ARENA_NEW(v->scratch, HloWindowDimension, old->count + 1);
    dims[0] = (HloWindowDimension){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    for (int64_t i = 0; i < old->count; i++) dims[i + 1] = old->dims[i];
    HloWindow window = {dims, old->count + 1};
    if (!initial_values_are_plain(v, arrays)) return;
    set_result(v, hlo_batch_clone(v, arrays_batched(v, arrays), &(HloWindowAttributes){&window}), out);
}

void hlo_batch_reduce_window(HloBatch *v, HloInstruction **out) {
    windowed(v, out, v->old->operand_count / 2);
}

void hlo_batch_select_and_scatter(HloBatch *v, HloInstruction **out) {
    windowed(v, out, 2);
}

void hlo_batch_sort(HloBatch *v, HloInstruction **out) {
    HloSortAttributes attributes = *HLO_ATTRIBUTES(v->old, Sort);
    attributes.dimensions = attributes.dimensions.count ? hlo_batch_shift(v, attributes.dimensions, -1) : HLO_DIMS(1);
    set_result(v, hlo_batch_clone(v, all_batched(v), &attributes), out);
}

// A map names all dimensions.
void hlo_batch_map(HloBatch *v, HloInstruction **out) {
    HloDimensionsAttributes attributes = {hlo_batch_shift(v, HLO_ATTRIBUTES(v->old, Dimensions)->dimensions, 0)};
    out[0] = hlo_batch_clone(v, all_batched(v), &attributes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Products

HloInstruction *hlo_batch_move_dimension(HloBuilder *b, HloInstruction *x, int64_t from, int64_t to) {
    int64_t order[HLO_MAXIMUM_RANK], rank = x ? x->shape->rank : 0, next = 0;
    if (!x || from == to) return x;
    for (int64_t i = 0; i < rank; i++) {
        if (next == from) next++;
        order[i] = i == to ? from : next++;
    }
    return hlo_build_transpose(b, x, (HloInts){order, rank});
}

// If both sides are batched, the new dimension is a batch dimension; else one more free dimension of one side.
void hlo_batch_dot(HloBatch *v, HloInstruction **out) {
    HloDotAttributes dot = *HLO_ATTRIBUTES(v->old, Dot);
    bool left = hlo_batch_has(v, 0), right = hlo_batch_has(v, 1), both = left && right;
    if (v->old->operand_count != 2) {
        hlo_batch_refused(v, out);
        return;
    }
    int64_t batch = dot.lhs_batch.count;
    int64_t free = v->old->operands[0]->shape->rank - batch - dot.lhs_contracting.count;
    if (left) {
        dot.lhs_batch = hlo_batch_shift(v, dot.lhs_batch, both ? 0 : -1);
        dot.lhs_contracting = hlo_batch_shift(v, dot.lhs_contracting, -1);
    }
    if (right) {
        dot.rhs_batch = hlo_batch_shift(v, dot.rhs_batch, both ? 0 : -1);
        dot.rhs_contracting = hlo_batch_shift(v, dot.rhs_contracting, -1);
    }
    HloInstruction *product =
        hlo_build_dot(v->b, hlo_batch_plain(v, 0), hlo_batch_plain(v, 1), &dot, v->old->shape->type);
    out[0] = hlo_batch_move_dimension(v->b, product, both ? 0 : left ? batch : batch + free, 0);
}

// The first dimension merged into dimension `into` (counted without it), as its slower part.
static HloInstruction *merge(HloBatch *v, HloInstruction *x, int64_t into) {
    if (!x) return NULL;
    int64_t dims[HLO_MAXIMUM_RANK], rank = x->shape->rank - 1;
    for (int64_t i = 0; i < rank; i++) dims[i] = x->shape->dims[i + 1] * (i == into ? v->size : 1);
    return hlo_build_reshape(v->b, hlo_batch_move_dimension(v->b, x, 0, into), (HloInts){dims, rank});
}

// The opposite: the slower part of dimension `from` becomes the first dimension.
static HloInstruction *separate(HloBatch *v, HloInstruction *x, int64_t from) {
    if (!x) return NULL;
    int64_t dims[HLO_MAXIMUM_RANK], count = 0;
    for (int64_t i = 0; i < x->shape->rank; i++) {
        if (i == from) dims[count++] = v->size;
        dims[count++] = i == from ? x->shape->dims[i] / v->size : x->shape->dims[i];
    }
    return hlo_batch_move_dimension(v->b, hlo_build_reshape(v->b, x, (HloInts){dims, count}), from, 0);
}

// As merge(), into the batch of a convolution with batch groups: between the groups and what is in each.
static HloInstruction *merge_grouped(HloBatch *v, HloInstruction *x, int64_t into, int64_t groups) {
    if (!x || groups <= 1) return merge(v, x, into);
    int64_t split[HLO_MAXIMUM_RANK + 1], dims[HLO_MAXIMUM_RANK], rank = x->shape->rank, count = 0;
    for (int64_t i = 0; i < rank; i++) {
        if (i == into + 1) split[count++] = groups;
        split[count++] = i == into + 1 ? x->shape->dims[i] / groups : x->shape->dims[i];
        if (i > 0) dims[i - 1] = x->shape->dims[i] * (i == into + 1 ? v->size : 1);
    }
    HloInstruction *parts = hlo_build_reshape(v->b, x, (HloInts){split, count});
    return hlo_build_reshape(v->b, hlo_batch_move_dimension(v->b, parts, 0, into + 1), (HloInts){dims, rank - 1});
}

// A batch of inputs is a larger batch, a batch of kernels more output features, a batch of both more groups.
void hlo_batch_convolution(HloBatch *v, HloInstruction **out) {
    HloConvolutionAttributes attributes = *HLO_ATTRIBUTES(v->old, Convolution);
    const HloConvolutionLabels *l = attributes.labels;
    bool features = attributes.feature_group_count > 1, batches = attributes.batch_group_count > 1;
    HloType type = v->old->shape->type;
    HloInstruction *x = hlo_batch_plain(v, 0), *k = hlo_batch_plain(v, 1);
    if (!hlo_batch_has(v, 1)) {
        x = merge_grouped(v, x, l->input_batch, attributes.batch_group_count);
        out[0] = separate(v, hlo_build_convolution(v->b, x, k, &attributes, type), l->output_batch);
        return;
    }
    if (hlo_batch_has(v, 0) || features || batches) {
        x = merge(v, hlo_batch_operand(v, 0), batches ? l->input_batch : l->input_feature);
        if (batches)
            attributes.batch_group_count *= v->size;
        else
            attributes.feature_group_count = (features ? attributes.feature_group_count : 1) * v->size;
    }
    k = merge(v, k, l->kernel_output_feature);
    out[0] = separate(v, hlo_build_convolution(v->b, x, k, &attributes, type), l->output_feature);
}

// ---------------------------------------------------------------------------------------------------------------------
// Indexed

void hlo_batch_gather(HloBatch *v, HloInstruction **out) {
    HloGatherAttributes g = *HLO_ATTRIBUTES(v->old, Gather);
    bool arrays = hlo_batch_has(v, 0), indices = hlo_batch_has(v, 1), both = arrays && indices;
    g.offset_dims = hlo_batch_shift(v, g.offset_dims, arrays && !indices ? 0 : -1);
    if (arrays) {
        g.collapsed_slice_dims = hlo_batch_shift(v, g.collapsed_slice_dims, -1);
        g.start_index_map = hlo_batch_shift(v, g.start_index_map, -1);
        g.operand_batching_dims = hlo_batch_shift(v, g.operand_batching_dims, both ? 0 : -1);
        g.slice_sizes = hlo_batch_prepend(v, g.slice_sizes, both ? 1 : v->size);
    }
    if (indices) {
        g.start_indices_batching_dims = hlo_batch_shift(v, g.start_indices_batching_dims, both ? 0 : -1);
        g.index_vector_dim++;
        g.indices_are_sorted = false;
    }
    out[0] = hlo_build_gather(v->b, hlo_batch_plain(v, 0), hlo_batch_plain(v, 1), &g);
}

void hlo_batch_scatter(HloBatch *v, HloInstruction **out) {
    HloScatterAttributes s = *HLO_ATTRIBUTES(v->old, Scatter);
    int64_t arrays = (v->old->operand_count - 1) / 2;
    bool indices = hlo_batch_has(v, arrays);
    HloInstruction **operands = all_batched(v);
    if (!indices) operands[arrays] = hlo_batch_plain(v, arrays);
    s.update_window_dims = hlo_batch_shift(v, s.update_window_dims, indices ? -1 : 0);
    s.inserted_window_dims = hlo_batch_shift(v, s.inserted_window_dims, -1);
    s.scatter_dims_to_operand_dims = hlo_batch_shift(v, s.scatter_dims_to_operand_dims, -1);
    s.input_batching_dims = hlo_batch_shift(v, s.input_batching_dims, indices ? 0 : -1);
    if (indices) {
        s.scatter_indices_batching_dims = hlo_batch_shift(v, s.scatter_indices_batching_dims, 0);
        s.index_vector_dim++;
        s.indices_are_sorted = false;
    }
    set_result(v, hlo_batch_clone(v, operands, &s), out);
}

// The start indices from operand `first` on as rows of s32 or s64, one row per item of the batch.
static HloInstruction *index_rows(HloBatch *v, int64_t first) {
    int64_t count = v->old->operand_count - first;
    HloInstruction **columns = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    for (int64_t i = 0; i < count; i++)
        columns[i] = hlo_build_reshape(v->b, hlo_batch_operand(v, first + i), HLO_DIMS(v->size, 1));
    return hlo_build_concatenate(v->b, columns, count, 1);
}

static bool indices_are_batched(const HloBatch *v, int64_t first) {
    for (int64_t i = first; i < v->old->operand_count; i++)
        if (hlo_batch_has(v, i)) return true;
    return false;
}

// The start indices with 0 for the new dimension.
static HloInstruction **starts_of(HloBatch *v, int64_t first) {
    int64_t count = v->old->operand_count - first;
    HloInstruction **starts = HLO_ARENA_NEW(v->scratch, HloInstruction *, count + 1);
    HloType type = count ? v->old->operands[first]->shape->type : HLO_S32;
    starts[0] = hlo_build_scalar_int64(v->b, type, 0);
    for (int64_t i = 0; i < count; i++) starts[i + 1] = hlo_batch_plain(v, first + i);
    return starts;
}

static HloInts counted(const HloBatch *v, int64_t count) {
    int64_t *items = HLO_ARENA_NEW(v->scratch, int64_t, count + 1);
    for (int64_t i = 0; i < count; i++) items[i] = i + 1;
    return (HloInts){items, count};
}

// Different starts for each item of the batch make it a gather, which moves starts into range in the same way.
void hlo_batch_dynamic_slice(HloBatch *v, HloInstruction **out) {
    HloInts sizes = HLO_ATTRIBUTES(v->old, DynamicSlice)->sizes;
    if (!indices_are_batched(v, 1)) {
        out[0] =
            hlo_build_dynamic_slice(v->b, hlo_batch_plain(v, 0), starts_of(v, 1), hlo_batch_prepend(v, sizes, v->size));
        return;
    }
    bool array = hlo_batch_has(v, 0);
    HloInts all = counted(v, sizes.count), map = all;
    if (!array) {
        int64_t *items = HLO_ARENA_NEW(v->scratch, int64_t, sizes.count + 1);
        for (int64_t i = 0; i < sizes.count; i++) items[i] = i;
        map = (HloInts){items, sizes.count};
    }
    HloGatherAttributes g = {.offset_dims = all,
                             .start_index_map = map,
                             .operand_batching_dims = array ? HLO_DIMS(0) : HLO_DIMS(),
                             .start_indices_batching_dims = array ? HLO_DIMS(0) : HLO_DIMS(),
                             .index_vector_dim = 1,
                             .slice_sizes = array ? hlo_batch_prepend(v, sizes, 1) : sizes};
    out[0] = hlo_build_gather(v->b, hlo_batch_plain(v, 0), index_rows(v, 1), &g);
}

typedef struct Second {
    HloBuilder *b;
    HloInstruction *root;
    HloType type;
} Second;

static HloStatus second_body(void *argument) {
    Second *c = argument;
    hlo_build_parameter(c->b, 0, c->type, HLO_DIMS(), NULL);
    c->root = hlo_build_parameter(c->b, 1, c->type, HLO_DIMS(), NULL);
    return hlo_transform_status(c->b);
}

// Different starts make it a scatter, whose starts have to be moved into range first: it would drop the others.
void hlo_batch_dynamic_update_slice(HloBatch *v, HloInstruction **out) {
    HloBuilder *b = v->b;
    HloInstruction *x = hlo_batch_operand(v, 0), *update = hlo_batch_operand(v, 1);
    const HloShape *from = v->old->shape, *part = v->old->operands[1]->shape;
    if (!indices_are_batched(v, 2)) {
        out[0] = hlo_build_dynamic_update_slice(b, x, update, starts_of(v, 2));
        return;
    }
    HloInstruction *rows = index_rows(v, 2);
    if (!rows) return;
    HloType type = rows->shape->type;
    int64_t rank = from->rank;
    HloLiteral *limits = hlo_literal_in_arena(v->scratch, hlo_shape_array(v->scratch, type, &rank, 1));
    for (int64_t i = 0; i < rank; i++) hlo_literal_set_int64(limits, i, from->dims[i] - part->dims[i]);
    HloInstruction *high = hlo_build_broadcast(b, hlo_build_constant(b, limits), hlo_build_dims(rows), HLO_DIMS(1));
    rows = hlo_build_clamp(b, hlo_build_scalar(b, type, 0), rows, high);
    Second second = {.type = from->type};
    HloComputation *combiner = NULL;
    HloStatus status =
        hlo_transform_build(b->module, "second", second_body, &second, &second.b, &second.root, &combiner);
    if (status) {
        hlo_builder_fail(b, status);
        return;
    }
    HloScatterAttributes s = {.update_window_dims = counted(v, rank),
                              .scatter_dims_to_operand_dims = counted(v, rank),
                              .input_batching_dims = HLO_DIMS(0),
                              .scatter_indices_batching_dims = HLO_DIMS(0),
                              .index_vector_dim = 1,
                              .unique_indices = true};
    out[0] = hlo_build_scatter(b, &x, rows, &update, 1, &s, combiner);
}

// ---------------------------------------------------------------------------------------------------------------------
// Calls outside HLO, and collectives

void hlo_batch_custom_call(HloBatch *v, HloInstruction **out) {
    HloCustomCallKind kind = hlo_custom_call_kind(v->old);
    HloCustomCallAttributes attributes = *HLO_ATTRIBUTES(v->old, CustomCall);
    attributes.operand_layouts = (HloShapes){0};
    if (kind == HLO_CALL_SHARDING || kind == HLO_CALL_IDENTITY)
        hlo_batch_passed(v, out);
    else if (kind == HLO_CALL_BATCHED || kind == HLO_CALL_ELEMENTWISE || kind == HLO_CALL_TOPK)
        set_result(v, hlo_batch_clone(v, all_batched(v), &attributes), out);
    else
        hlo_batch_fail(v, "%s: the custom call to %s cannot be mapped over an axis", v->old->name, attributes.target);
}

// The rows of x that each item receives: from the item that a pair names, or zeros.
static HloInstruction *permuted(HloBatch *v, HloInstruction *x, HloPairs pairs) {
    HloInstruction **rows = HLO_ARENA_NEW(v->scratch, HloInstruction *, v->size);
    HloInts dims = hlo_build_dims(x);
    int64_t *start = HLO_ARENA_NEW(v->scratch, int64_t, dims.count),
            *limit = HLO_ARENA_NEW(v->scratch, int64_t, dims.count);
    int64_t *row = HLO_ARENA_NEW(v->scratch, int64_t, dims.count);
    for (int64_t i = 0; i < dims.count; i++) limit[i] = row[i] = dims.items[i];
    row[0] = 1;
    for (int64_t i = 0; i < v->size; i++)
        rows[i] = hlo_build_splat(v->b, x->shape->type, (HloInts){row, dims.count}, 0);
    for (int64_t i = 0; i < pairs.count; i++) {
        HloPair pair = pairs.items[i];
        if (pair.source < 0 || pair.source >= v->size || pair.target < 0 || pair.target >= v->size) {
            hlo_batch_fail(v, "%s: a pair {%lld,%lld} over an axis of %lld", v->old->name, (long long)pair.source,
                           (long long)pair.target, (long long)v->size);
            return NULL;
        }
        start[0] = pair.source;
        limit[0] = pair.source + 1;
        rows[pair.target] =
            hlo_build_slice(v->b, x, (HloInts){start, dims.count}, (HloInts){limit, dims.count}, HLO_DIMS());
    }
    return hlo_build_concatenate(v->b, rows, v->size, 0);
}

// Item i receives the i-th part of `from` of each item, side by side along `into`. Each part becomes a dimension of its
// own, which takes the place of the items.
static HloInstruction *redistributed(HloBatch *v, HloInstruction *x, int64_t from, int64_t into) {
    if (!x) return NULL;
    int64_t dims[HLO_MAXIMUM_RANK], rank = x->shape->rank - 1;
    HloInstruction *parts = separate(v, x, from + 1);  // (part, item, ...)
    if (!parts) return NULL;
    HloInstruction *moved = hlo_batch_move_dimension(v->b, parts, 1, into + 1);
    for (int64_t i = 0; i < rank; i++) {
        const int64_t size = i == from ? x->shape->dims[i + 1] / v->size : x->shape->dims[i + 1];
        dims[i + 1] = i == into ? size * v->size : size;
    }
    dims[0] = v->size;
    return hlo_build_reshape(v->b, moved, (HloInts){dims, rank + 1});
}

// The sum of all items, of which item i receives the i-th part.
static HloInstruction *scattered_sum(HloBatch *v, HloInstruction *x, int64_t dimension) {
    HloInstruction *initial =
        hlo_build_identity_value(v->b, hlo_computation_binary_opcode(v->old->called[0]), x->shape->type);
    return separate(v, hlo_build_reduce(v->b, &x, &initial, 1, HLO_DIMS(0), v->old->called[0]), dimension);
}

// The item that a collective-broadcast names first; 0 if it names none. -1 after an error.
static int64_t source_of(HloBatch *v) {
    const HloReplicaGroups *groups = HLO_ATTRIBUTES(v->old, Collective)->replica_groups;
    const HloInts *lists = NULL;
    int64_t count = 0;
    if (!groups || !hlo_replica_groups_size(groups)) return 0;
    HloStatus status = hlo_replica_groups_expand(groups, v->size, v->scratch, &lists, &count);
    if (status || count != 1) {
        hlo_status_free(status);
        hlo_batch_fail(v, "%s: groups of an axis of %lld other than one of all items", v->old->name,
                       (long long)v->size);
        return -1;
    }
    return lists[0].items[0];
}

// One item of x.
static HloInstruction *row_of(HloBatch *v, HloInstruction *x, int64_t row) {
    if (!x || row < 0) return NULL;
    HloInts dims = hlo_build_dims(x);
    int64_t *start = HLO_ARENA_NEW(v->scratch, int64_t, dims.count),
            *limit = HLO_ARENA_NEW(v->scratch, int64_t, dims.count);
    for (int64_t i = 1; i < dims.count; i++) limit[i] = dims.items[i];
    start[0] = row;
    limit[0] = row + 1;
    HloInstruction *slice =
        hlo_build_slice(v->b, x, (HloInts){start, dims.count}, (HloInts){limit, dims.count}, HLO_DIMS());
    return hlo_build_reshape(v->b, slice, hlo_shape_dims(v->old->shape));
}

// A collective over the new axis: the exchange is among the items of the batch.
static void over_axis(HloBatch *v, HloInstruction **out) {
    const HloInstruction *old = v->old;
    HloInstruction *x = old->operand_count == 1 ? hlo_batch_operand(v, 0) : NULL;
    if (!x) {
        hlo_batch_refused(v, out);
    } else if (hlo_is(old, HLO_OP_ALL_REDUCE)) {
        HloInstruction *initial =
            hlo_build_identity_value(v->b, hlo_computation_binary_opcode(old->called[0]), x->shape->type);
        out[0] = hlo_build_reduce(v->b, &x, &initial, 1, HLO_DIMS(0), old->called[0]);
        v->out_flags[0] = false;
    } else if (hlo_is(old, HLO_OP_ALL_GATHER)) {
        out[0] = merge(v, x, HLO_ATTRIBUTES(old, Collective)->dimensions.items[0]);
        v->out_flags[0] = false;
    } else if (hlo_is(old, HLO_OP_REDUCE_SCATTER)) {
        out[0] = scattered_sum(v, x, HLO_ATTRIBUTES(old, Collective)->dimensions.items[0]);
    } else if (hlo_is(old, HLO_OP_ALL_TO_ALL) && HLO_ATTRIBUTES(old, Collective)->dimensions.count == 1) {
        const int64_t dimension = HLO_ATTRIBUTES(old, Collective)->dimensions.items[0];
        out[0] = redistributed(v, x, dimension, dimension);
    } else if (hlo_is(old, HLO_OP_COLLECTIVE_BROADCAST)) {
        out[0] = row_of(v, x, source_of(v));
        v->out_flags[0] = false;
    } else if (hlo_is(old, HLO_OP_COLLECTIVE_PERMUTE)) {
        out[0] = permuted(v, x, HLO_ATTRIBUTES(old, Permute)->source_target_pairs);
    } else {
        hlo_batch_refused(v, out);
    }
}

// Each item of the batch takes part in the exchange; dimensions move by one.
void hlo_batch_collective(HloBatch *v, HloInstruction **out) {
    if (hlo_batch_is_over_axis(v, v->old)) {
        over_axis(v, out);
        return;
    }
    if (hlo_op_info(v->old->opcode)->family != HLO_FAMILY_Collective) {
        hlo_batch_leading(v, out);
        return;
    }
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(v->old, Collective);
    attributes.dimensions = hlo_batch_shift(v, attributes.dimensions, -1);
    set_result(v, hlo_batch_clone(v, all_batched(v), &attributes), out);
}
