// SPDX-License-Identifier: Apache-2.0
// Rules of the pass dynamic-padder: ops that move elements.
//
// Ops that only move elements pass sizes on from dimension to dimension. Three of them have to move elements
// differently if sizes are known only at run time: a concatenation puts its second part where the first one really
// ends, a reversal must move the surplus back to the end, and a reshape that merges or splits dynamic dimensions has to
// compute the new position of each element (rearrange).
#include <assert.h>

#include "hlo/pass/pad/padder.h"

// Collectives whose results have the dimensions of their operands. The size of a dimension that they split or
// concatenate cannot be known to a single device.
HloStatus hlo_padder_same_dims(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    (void)result;
    // Leaf i comes from operand i, or all of them from a single operand.
    const int64_t leaves = hlo_shape_leaf_count(op->shape);
    for (int64_t i = 0; i < leaves; i++) {
        const HloShape *shape = hlo_shape_leaf(op->shape, i), *declared = hlo_shape_leaf(padder->declared, i);
        if (!hlo_shape_is_array(shape)) continue;
        const bool single = op->operand_count == 1 || i >= op->operand_count;
        const HloInstruction *from = op->operands[single ? 0 : i];
        const int64_t leaf = single && hlo_shape_is_tuple(from->shape) ? i : 0;
        const HloShape *source = hlo_shape_leaf(from->shape, leaf);
        for (int32_t d = 0; d < shape->rank; d++) {
            if (!declared->dynamic || !declared->dynamic[d]) continue;
            if (source->rank != shape->rank || source->dims[d] != shape->dims[d])
                return hlo_padder_refuse(op, "splitting a dimension");
            hlo_padder_set_size(padder, op, i, d, hlo_padder_size(padder, from, leaf, d));
        }
    }
    return HLO_SUCCESS;
}

// A bitcast-convert between widths adds or removes the last dimension; those before it are kept.
HloStatus hlo_padder_leading_dims(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    (void)result;
    const int32_t from = op->operands[0]->shape->rank;
    for (int32_t d = 0; d < op->shape->rank && d < from; d++)
        hlo_padder_set_size(padder, op, 0, d, hlo_padder_size(padder, op->operands[0], 0, d));
    return HLO_SUCCESS;
}

// New dimensions are static; the others have the size of the dimension that they repeat.
HloStatus hlo_padder_broadcast(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_BROADCAST));
    (void)result;
    const HloInts to = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int64_t i = 0; i < to.count; i++)
        hlo_padder_set_size(padder, op, 0, to.items[i], hlo_padder_size(padder, op->operands[0], 0, i));
    return HLO_SUCCESS;
}

// Sizes are permuted like their dimensions.
HloStatus hlo_padder_transpose(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_TRANSPOSE));
    (void)result;
    const HloInts from = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int64_t i = 0; i < from.count; i++)
        hlo_padder_set_size(padder, op, 0, i, hlo_padder_size(padder, op->operands[0], 0, from.items[i]));
    return HLO_SUCCESS;
}

// The table entry is the result: the op disappears.
HloStatus hlo_padder_get_dimension_size(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_GET_DIMENSION_SIZE));
    const int64_t dim = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    *result = hlo_padder_any_size(padder, op, op->operands[0], 0, dim);
    return HLO_SUCCESS;
}

// The one op that changes a size without moving anything.
HloStatus hlo_padder_set_dimension_size(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_SET_DIMENSION_SIZE));
    const int64_t dim = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    HloInstruction *array = op->operands[0];
    // A copy, which can have other sizes than the operand.
    *result = hlo_pass_unary(op, HLO_OP_COPY, array);
    hlo_padder_copy_sizes(padder, array, *result);
    // A program that sets too large a size is wrong; its masks and offsets must nevertheless stay within the array.
    hlo_padder_set_size(padder, *result, 0, dim, hlo_padder_between(op, op->operands[1], 0, op->shape->dims[dim]));
    return HLO_SUCCESS;
}

// ---- reshapes

// The strides of an array whose sizes are only known at run time: s32 or s64 scalars, each the product over the
// dimensions after its own.
static HloInstruction **strides_of(const HloInstruction *like, HloInstruction *const *sizes, int64_t rank,
                                   HloType type) {
    HloInstruction **strides = HLO_ARENA_NEW(like->parent->module->arena, HloInstruction *, rank);
    HloInstruction *stride = hlo_pass_integer(like, type, 1);
    for (int64_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride = hlo_pass_binary(like, HLO_OP_MULTIPLY, stride, sizes[d]);
    }
    return strides;
}

// A scalar repeated to `dims`.
static HloInstruction *spread(const HloInstruction *like, HloInstruction *scalar, HloInts dims) {
    return hlo_pass_broadcast(like, scalar, dims, (HloInts){NULL, 0});
}

// Makes a reshape, or a dynamic-reshape to sizes `sizes` (of all dimensions), whose element positions depend on sizes.
// If a reshape moves elements across dynamic dimensions, their new positions are not known statically: the number of
// each among the valid elements is computed, and from that its position within the bounds. Elements beyond the sizes
// read some arbitrary element.
static HloInstruction *rearrange(HloPadder *padder, HloInstruction *like, HloInstruction *value, const HloShape *shape,
                                 HloInstruction *const *sizes) {
    const HloShape *from = value->shape;
    const int64_t elements = hlo_shape_elements(shape), count = hlo_shape_elements(from);
    const HloType type = elements > INT32_MAX || count > INT32_MAX ? HLO_S64 : HLO_S32;
    const int32_t most = shape->rank > from->rank ? shape->rank : from->rank;
    HloInstruction **scalars = HLO_ARENA_NEW(padder->scratch, HloInstruction *, most);
    const HloInts dims = hlo_shape_dims(shape);
    for (int32_t d = 0; d < shape->rank; d++)
        scalars[d] = type == HLO_S32 ? sizes[d] : hlo_pass_convert(like, sizes[d], type);
    HloInstruction **strides = strides_of(like, scalars, shape->rank, type);
    // The number of an element among the valid ones.
    HloInstruction *number = spread(like, hlo_pass_integer(like, type, 0), dims);
    for (int32_t d = 0; d < shape->rank; d++) {
        HloInstruction *at = hlo_pass_make(like, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                                                    .attributes = &(HloIotaAttributes){d},
                                                                    .type = type,
                                                                    .dims = dims,
                                                                    .has_dims = true});
        number = hlo_pass_binary(like, HLO_OP_ADD, number,
                                 hlo_pass_binary(like, HLO_OP_MULTIPLY, at, spread(like, strides[d], dims)));
    }
    // The position of that element within the bounds of the operand.
    for (int32_t d = 0; d < from->rank; d++) {
        HloInstruction *size = hlo_padder_any_size(padder, like, value, 0, d);
        scalars[d] = type == HLO_S32 ? size : hlo_pass_convert(like, size, type);
    }
    strides = strides_of(like, scalars, from->rank, type);
    HloInstruction *place = spread(like, hlo_pass_integer(like, type, 0), dims);
    for (int32_t d = 0; d < from->rank; d++) {
        HloInstruction *row = hlo_pass_binary(like, HLO_OP_DIVIDE, number, spread(like, strides[d], dims));
        HloInstruction *index = hlo_pass_binary(like, HLO_OP_REMAINDER, row, spread(like, scalars[d], dims));
        HloInstruction *bound = spread(like, hlo_pass_integer(like, type, from->dims[d]), dims);
        place = hlo_pass_binary(like, HLO_OP_ADD, hlo_pass_binary(like, HLO_OP_MULTIPLY, place, bound), index);
    }
    HloInstruction *operands[] = {hlo_pass_reshape(like, value, HLO_DIMS(count)),
                                  hlo_pass_reshape(like, place, HLO_DIMS(elements, 1))};
    const HloGatherAttributes gather = {.collapsed_slice_dims = HLO_DIMS(0),
                                        .start_index_map = HLO_DIMS(0),
                                        .index_vector_dim = 1,
                                        .slice_sizes = HLO_DIMS(1)};
    HloInstruction *taken = hlo_pass_make(
        like,
        &(HloBuildRequest){.opcode = HLO_OP_GATHER, .operands = operands, .operand_count = 2, .attributes = &gather});
    return hlo_pass_reshape(like, taken, dims);
}

// Sizes are operands. Empty arrays are created without reading the operand: a gather from an empty array is not valid.
HloStatus hlo_padder_dynamic_reshape(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_RESHAPE));
    const int32_t rank = op->shape->rank;
    HloInstruction **sizes = HLO_ARENA_NEW(padder->scratch, HloInstruction *, rank);
    for (int32_t d = 0; d < rank; d++) {
        HloInstruction *size = op->operands[1 + d];
        if (size->shape->type != HLO_S32) size = hlo_pass_convert(op, size, HLO_S32);
        sizes[d] = hlo_padder_between(op, size, 0, op->shape->dims[d]);
    }
    if (hlo_shape_elements(op->shape) == 0 || hlo_shape_elements(op->operands[0]->shape) == 0)
        *result = hlo_pass_splat(op, op->shape->type, hlo_shape_dims(op->shape), 0);
    else
        *result = rearrange(padder, op, op->operands[0], op->shape, sizes);
    for (int32_t d = 0; d < rank; d++) hlo_padder_set_size(padder, *result, 0, d, sizes[d]);
    return HLO_SUCCESS;
}

// The treatment of a group of dimensions of a reshape.
typedef struct Regroup {
    HloReshapeGroup dims;
    int32_t open;          // the result's dimension whose size is computed, or -1
    HloInstruction *size;  // its size
    bool moves;            // elements change their positions
} Regroup;

// A reshape splits into groups of dimensions that are reshaped among themselves. In each group one dimension of the
// result is left open: its size is the number of elements divided by the others' sizes.
static Regroup regroup(HloPadder *padder, HloInstruction *op, HloReshapeGroup dims) {
    const HloInstruction *value = op->operands[0];
    const HloShape *from = value->shape, *declared = padder->declared;
    const int64_t inferred = HLO_ATTRIBUTES(op, Reshape)->inferred_dimension;
    Regroup group = {.dims = dims, .open = -1};
    HloInstruction *count = NULL;
    int64_t known = 1, outer = 1, ahead = 1;
    for (int32_t d = dims.from_begin; d < dims.from_end; d++) {
        HloInstruction *size = hlo_padder_size(padder, value, 0, d);
        if (size) count = count ? hlo_pass_binary(op, HLO_OP_MULTIPLY, count, size) : size;
        // Rows of dynamic length move closer together; a dynamic number of rows does not move them.
        if (size && outer > 1) group.moves = true;
        if (!size) known *= from->dims[d];
        outer *= from->dims[d];
    }
    if (!count) return group;
    if (known != 1) count = hlo_pass_binary(op, HLO_OP_MULTIPLY, count, hlo_padder_number(op, known));
    known = 1;
    for (int32_t d = dims.to_begin; d < dims.to_end; d++)
        if (declared->dynamic && declared->dynamic[d] && (group.open < 0 || d == inferred)) group.open = d;
    for (int32_t d = dims.to_begin; d < dims.to_end; d++) {
        if (d < group.open) ahead *= op->shape->dims[d];
        if (d != group.open) known *= op->shape->dims[d];
    }
    if (ahead > 1) group.moves = true;
    // A single dimension that stays one, whatever its position, keeps its elements.
    if (dims.from_end - dims.from_begin == 1 && dims.to_end - dims.to_begin == 1) group.moves = false;
    group.size =
        known == 1 ? count : hlo_pass_binary(op, HLO_OP_DIVIDE, count, hlo_padder_number(op, known ? known : 1));
    return group;
}

// Treats group by group (see regroup()); elements are moved only if some group requires it, but then all at once, since
// a gather costs the same for one group as for all.
HloStatus hlo_padder_reshape(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_RESHAPE));
    const HloShape *from = op->operands[0]->shape;
    const int32_t rank = op->shape->rank;
    HloInstruction **sizes = HLO_ARENA_NEW(padder->scratch, HloInstruction *, rank);
    HloReshapeGroup dims = {0};
    bool moves = false;
    while (hlo_reshape_next_group(from, op->shape, &dims)) {
        const Regroup group = regroup(padder, op, dims);
        moves = moves || group.moves;
        if (group.open >= 0 && group.size)
            sizes[group.open] = hlo_padder_between(op, group.size, 0, op->shape->dims[group.open]);
    }
    if (moves && hlo_shape_elements(from) > 0) {
        HloInstruction **all = HLO_ARENA_NEW(padder->scratch, HloInstruction *, rank);
        for (int32_t d = 0; d < rank; d++) all[d] = sizes[d] ? sizes[d] : hlo_padder_number(op, op->shape->dims[d]);
        *result = rearrange(padder, op, op->operands[0], op->shape, all);
    }
    for (int32_t d = 0; d < rank; d++) hlo_padder_set_size(padder, *result, 0, d, sizes[d]);
    return HLO_SUCCESS;
}

// ---- parts

// The number of positions start, start + stride, … below `size`: at most `most`.
static HloInstruction *positions(const HloInstruction *like, HloInstruction *size, int64_t start, int64_t stride,
                                 int64_t most) {
    assert(stride > 0 && most >= 0);
    HloInstruction *left = hlo_padder_plus(like, size, stride - 1 - start);
    if (stride > 1) {  // truncated: a negative count is zero in any case
        left = hlo_padder_between(like, left, 0, INT32_MAX);
        left = hlo_pass_binary(like, HLO_OP_DIVIDE, left, hlo_padder_number(like, stride));
    }
    return hlo_padder_between(like, left, 0, most);
}

// Computes the part of a dynamic dimension within start, limit and stride.
HloStatus hlo_padder_slice(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_SLICE));
    (void)result;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        HloInstruction *size = hlo_padder_size(padder, op->operands[0], 0, d);
        if (!size) continue;
        const int64_t stride = slice->strides.count ? slice->strides.items[d] : 1;
        hlo_padder_set_size(padder, op, 0, d, positions(op, size, slice->starts.items[d], stride, op->shape->dims[d]));
    }
    return HLO_SUCCESS;
}

// A dimension that is taken whole keeps its size. Others are static: the op takes the given number, and a program that
// reads beyond the size reads surplus elements, as in XLA.
HloStatus hlo_padder_dynamic_slice(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_SLICE));
    (void)result;
    for (int32_t d = 0; d < op->shape->rank; d++)
        if (op->shape->dims[d] == op->operands[0]->shape->dims[d])
            hlo_padder_set_size(padder, op, 0, d, hlo_padder_size(padder, op->operands[0], 0, d));
    return HLO_SUCCESS;
}

// The array keeps its sizes: an update does not make it longer.
HloStatus hlo_padder_dynamic_update_slice(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_DYNAMIC_UPDATE_SLICE));
    (void)result;
    HloInstruction *array = op->operands[0], *update = op->operands[1];
    HloInstruction *inside = hlo_padder_all_inside(padder, op, update);
    hlo_padder_copy_sizes(padder, array, op);
    if (!inside) return HLO_SUCCESS;
    // Elements beyond the update's sizes are written back unchanged.
    HloInstruction **operands = HLO_ARENA_NEW(padder->scratch, HloInstruction *, op->operand_count - 1);
    operands[0] = array;
    for (int32_t k = 2; k < op->operand_count; k++) operands[k - 1] = op->operands[k];
    const HloDynamicSliceAttributes attributes = {hlo_shape_dims(update->shape)};
    HloInstruction *old = hlo_pass_make(op, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                                               .operands = operands,
                                                               .operand_count = op->operand_count - 1,
                                                               .attributes = &attributes});
    hlo_instruction_set_operand(op, 1, hlo_pass_select(op, inside, update, old));
    return HLO_SUCCESS;
}

// `value` with `high` more elements of `fill` at the end of each dimension.
static HloInstruction *pad_high(const HloInstruction *like, HloInstruction *value, HloInstruction *fill,
                                const int64_t *high) {
    const int64_t rank = value->shape->rank;
    HloPadDimension *dims = HLO_ARENA_NEW(like->parent->module->arena, HloPadDimension, rank);
    for (int64_t d = 0; d < rank; d++) dims[d].high = high[d];
    HloInstruction *operands[] = {value, fill};
    return hlo_pass_make(like, &(HloBuildRequest){.opcode = HLO_OP_PAD,
                                                  .operands = operands,
                                                  .operand_count = 2,
                                                  .attributes = &(HloPadAttributes){{dims, rank}}});
}

// Sets the start indices after `first` operands: `at` along `dim`, zero elsewhere.
static void set_starts(const HloInstruction *like, HloInstruction **operands, int64_t first, int64_t rank, int64_t dim,
                       HloInstruction *at) {
    for (int64_t d = 0; d < rank; d++) operands[first + d] = d == dim ? at : hlo_padder_number(like, 0);
}

// The parts follow each other without gaps at run time, so each begins where the sizes of those before it end.
HloStatus hlo_padder_concatenate(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_CONCATENATE));
    const int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0], rank = op->shape->rank;
    HloInstruction *total = NULL, **operands = HLO_ARENA_NEW(padder->scratch, HloInstruction *, rank + 2);
    bool moves = false;
    for (int32_t k = 0; k < op->operand_count; k++) moves |= hlo_padder_size(padder, op->operands[k], 0, along) != NULL;
    // Each part overwrites the surplus of the one before it; there is room for its bounds.
    for (int32_t k = 0; k < op->operand_count && moves; k++) {
        HloInstruction *part = op->operands[k];
        HloInstruction *size = hlo_padder_any_size(padder, op, part, 0, along);
        if (k == 0) {
            int64_t *high = hlo_pass_ints(op, rank);
            high[along] = op->shape->dims[along] - part->shape->dims[along];
            *result = pad_high(op, part, hlo_pass_scalar(op, op->shape->type, 0), high);
            total = size;
            continue;
        }
        operands[0] = *result;
        operands[1] = part;
        set_starts(op, operands, 2, rank, along, total);
        *result = hlo_pass_make(
            op,
            &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_UPDATE_SLICE, .operands = operands, .operand_count = rank + 2});
        total = hlo_pass_binary(op, HLO_OP_ADD, total, size);
    }
    for (int32_t k = op->operand_count; k-- > 0;)
        for (int64_t d = 0; d < rank; d++)
            if (d != along) hlo_padder_set_size(padder, *result, 0, d, hlo_padder_size(padder, op->operands[k], 0, d));
    hlo_padder_set_size(padder, *result, 0, along, total);
    return HLO_SUCCESS;
}

// Padding begins where the elements end, so surplus elements become padding; negative padding removes elements from the
// real end, since the total size includes it.
HloStatus hlo_padder_pad(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_PAD));
    (void)result;
    const HloPadding padding = HLO_ATTRIBUTES(op, Pad)->padding;
    HloInstruction *value = op->operands[0];
    int64_t *masked = hlo_pass_ints(op, padding.count), count = 0;
    for (int64_t d = 0; d < padding.count; d++) {
        const HloPadDimension by = padding.items[d];
        HloInstruction *size = hlo_padder_size(padder, value, 0, d);
        if (!size) continue;
        if (by.low || by.high || by.interior) masked[count++] = d;
        HloInstruction *total = size;
        if (by.interior) {
            HloInstruction *gaps = hlo_padder_between(op, hlo_padder_plus(op, size, -1), 0, INT32_MAX);
            gaps = hlo_pass_binary(op, HLO_OP_MULTIPLY, gaps, hlo_padder_number(op, by.interior));
            total = hlo_pass_binary(op, HLO_OP_ADD, size, gaps);
        }
        total = hlo_padder_plus(op, total, by.low + by.high);
        hlo_padder_set_size(padder, op, 0, d, hlo_padder_between(op, total, 0, op->shape->dims[d]));
    }
    hlo_instruction_set_operand(op, 0, hlo_padder_masked(padder, op, value, (HloInts){masked, count}, op->operands[1]));
    return HLO_SUCCESS;
}

// The reversed array has its surplus at the front. After appending a whole array of padding, a slice that begins at
// bound - size has the elements first.
HloStatus hlo_padder_reverse(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_REVERSE));
    const HloInts reversed = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    HloInstruction *array = op->operands[0];
    const int64_t rank = op->shape->rank;
    int64_t *high = hlo_pass_ints(op, rank);
    HloInstruction **operands = HLO_ARENA_NEW(padder->scratch, HloInstruction *, rank + 1);
    set_starts(op, operands, 1, rank, -1, NULL);
    bool moves = false;
    for (int64_t i = 0; i < reversed.count; i++) {
        const int64_t d = reversed.items[i];
        HloInstruction *size = hlo_padder_size(padder, array, 0, d);
        if (!size) continue;
        moves = true;
        high[d] = op->shape->dims[d];  // room for the slice wherever it starts
        operands[1 + d] = hlo_pass_binary(op, HLO_OP_SUBTRACT, hlo_padder_number(op, op->shape->dims[d]), size);
    }
    if (moves) {
        const HloDynamicSliceAttributes attributes = {hlo_shape_dims(op->shape)};
        operands[0] = pad_high(op, op, hlo_pass_scalar(op, op->shape->type, 0), high);
        *result = hlo_pass_make(op, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                                       .operands = operands,
                                                       .operand_count = rank + 1,
                                                       .attributes = &attributes});
    }
    hlo_padder_copy_sizes(padder, array, *result);
    return HLO_SUCCESS;
}

// Batch dimensions have the sizes of the indices, window dimensions those of the array if the slice takes all of it.
HloStatus hlo_padder_gather(HloPadder *padder, HloInstruction *op, HloInstruction **result) {
    assert(hlo_is(op, HLO_OP_GATHER));
    (void)result;
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const HloInstruction *array = op->operands[0], *indices = op->operands[1];
    int64_t batch = 0, window = 0;
    for (int64_t d = 0; d < op->shape->rank; d++) {
        if (!hlo_ints_contain(gather->offset_dims, d)) {
            if (batch == gather->index_vector_dim) batch++;
            hlo_padder_set_size(padder, op, 0, d, hlo_padder_size(padder, indices, 0, batch++));
            continue;
        }
        while (hlo_ints_contain(gather->collapsed_slice_dims, window) ||
               hlo_ints_contain(gather->operand_batching_dims, window))
            window++;
        if (gather->slice_sizes.items[window] == array->shape->dims[window])
            hlo_padder_set_size(padder, op, 0, d, hlo_padder_size(padder, array, 0, window));
        window++;
    }
    return HLO_SUCCESS;
}
