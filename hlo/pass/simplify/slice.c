// SPDX-License-Identifier: Apache-2.0
// Rules for slices, and for dynamic slices with known starts.
//
// A slice moves down as far as it can, so that less is computed above it: through broadcasts, pads, reversals,
// transposes, and into the only operand of a concatenation that it reads. It stays if the whole array has another user
// (x->users.count != 1), since the whole is computed anyway. Dynamic starts are clamped into the array first (0 <=
// start <= size - part), in the rules as in the op.
//
//   slice(concatenate(f32[4] a, f32[4] b)), slice={[5:7]}   ->   slice(b), slice={[1:3]}
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

// Lists of starts, limits and strides for `rank` dimensions, in one allocation.
typedef struct SliceLists {
    int64_t *starts, *limits, *strides;
    int64_t rank;
} SliceLists;

static SliceLists new_lists(const HloInstruction *like, int64_t rank) {
    int64_t *all = hlo_pass_ints(like, 3 * rank);
    return (SliceLists){all, all + rank, all + 2 * rank, rank};
}

// x[starts : limits : strides] with such lists.
static HloInstruction *make_slice(const HloInstruction *like, HloInstruction *x, const SliceLists *lists) {
    return hlo_pass_slice(like, x, (HloInts){lists->starts, lists->rank}, (HloInts){lists->limits, lists->rank},
                          (HloInts){lists->strides, lists->rank});
}

// The slice `i` of a part of its operand, which begins at `begin` along one dimension.
static HloInstruction *slice_of_part(const HloInstruction *i, HloInstruction *part, int64_t dimension, int64_t begin) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    assert(dimension >= 0 && dimension < i->shape->rank);
    SliceLists lists = new_lists(i, i->shape->rank);
    for (int64_t d = 0; d < lists.rank; d++) {
        const int64_t moved = d == dimension ? begin : 0;
        lists.starts[d] = slice->starts.items[d] - moved;
        lists.limits[d] = slice->limits.items[d] - moved;
        lists.strides[d] = slice->strides.items[d];
    }
    return make_slice(i, part, &lists);
}

//   slice(slice(x, [2:20:3]), [1:5:2])  ->  slice(x, [5:12:6])
//
// Element k of the result is element (outer.start + k * outer.stride) of the inner slice, and that one is inner.start +
// (that) * inner.stride. The limit is after the last element taken.
static HloInstruction *slice_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_SLICE) return NULL;
    const HloSliceAttributes *outer = HLO_ATTRIBUTES(i, Slice), *inner = HLO_ATTRIBUTES(x, Slice);
    SliceLists lists = new_lists(i, i->shape->rank);
    for (int64_t d = 0; d < lists.rank; d++) {
        int64_t stride = inner->strides.items[d], size = i->shape->dims[d];
        // A stride may be any number if only one element is taken, so its products may overflow.
        if (__builtin_mul_overflow(outer->starts.items[d], stride, &lists.starts[d])) return NULL;
        if (__builtin_add_overflow(lists.starts[d], inner->starts.items[d], &lists.starts[d])) return NULL;
        if (__builtin_mul_overflow(stride, outer->strides.items[d], &lists.strides[d])) return NULL;
        lists.limits[d] = size == 0 ? lists.starts[d] : lists.starts[d] + (size - 1) * lists.strides[d] + 1;
        // An empty slice at the far end may begin outside of the array.
        if (lists.starts[d] > x->operands[0]->shape->dims[d]) return NULL;
    }
    return make_slice(i, x->operands[0], &lists);
}

// A slice of a broadcast along the repeated dimensions is a smaller broadcast; along others the operand is sliced.
//
//   slice(f32[8,6] broadcast(f32[6] x), [0:3], [1:4])  ->  f32[3,3] broadcast(slice(x, [1:4]))
static HloInstruction *slice_of_broadcast(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_BROADCAST) return NULL;
    HloInts mapping = HLO_ATTRIBUTES(x, Dimensions)->dimensions;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    SliceLists lists = new_lists(i, mapping.count);
    HloInstruction *source = x->operands[0];
    bool whole = true;
    for (int64_t d = 0; d < mapping.count; d++) {
        int64_t from = mapping.items[d];
        lists.starts[d] = slice->starts.items[from];
        lists.limits[d] = slice->limits.items[from];
        lists.strides[d] = slice->strides.items[from];
        whole &= i->shape->dims[from] == source->shape->dims[d];
    }
    if (!whole) source = make_slice(i, source, &lists);
    return hlo_pass_broadcast(i, source, hlo_shape_dims(i->shape), mapping);
}

// A slice of an iota that keeps its whole dimension: f32[8,6] iota along 1, [0:3], [0:6]  ->  f32[3,6] iota along 1.
static HloInstruction *slice_of_iota(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_IOTA) return NULL;
    int64_t dimension = HLO_ATTRIBUTES(x, Iota)->dimension;
    if (i->shape->dims[dimension] != x->shape->dims[dimension]) return NULL;
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                               .attributes = x->attributes,
                                               .type = i->shape->type,
                                               .dims = hlo_shape_dims(i->shape),
                                               .has_dims = true});
}

// A slice within one operand of a concatenation.
static HloInstruction *slice_of_concatenate(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_CONCATENATE || hlo_shape_elements(i->shape) == 0) return NULL;
    int64_t dimension = HLO_ATTRIBUTES(x, Dimensions)->dimensions.items[0], begin = 0;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    int64_t start = slice->starts.items[dimension], limit = slice->limits.items[dimension];
    for (int64_t k = 0; k < x->operand_count; k++) {
        HloInstruction *part = x->operands[k];
        int64_t size = part->shape->dims[dimension];
        if (start >= begin && limit <= begin + size && part->shape->type == i->shape->type) {
            return slice_of_part(i, part, dimension, begin);
        }
        begin += size;
    }
    return NULL;
}

// A slice over some operands of a concatenation needs no others.
//
//   slice(concatenate(f32[4] a, f32[4] b, f32[4] c), [5:9])  ->  slice(concatenate(b, c), [1:5])
static HloInstruction *slice_of_some_operands(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_CONCATENATE || x->users.count != 1 || hlo_shape_elements(i->shape) == 0) return NULL;
    int64_t dimension = HLO_ATTRIBUTES(x, Dimensions)->dimensions.items[0], begin = 0, end = 0, first = 0, last;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    while (begin + x->operands[first]->shape->dims[dimension] <= slice->starts.items[dimension]) {
        begin += x->operands[first++]->shape->dims[dimension];
    }
    for (last = first, end = begin; end < slice->limits.items[dimension]; last++) {
        end += x->operands[last]->shape->dims[dimension];
    }
    int64_t count = last - first;
    if (count < 2 || count == x->operand_count) return NULL;
    HloInstruction *part = hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_CONCATENATE,
                                                               .operands = x->operands + first,
                                                               .operand_count = count,
                                                               .attributes = x->attributes});
    return slice_of_part(i, part, dimension, begin);
}

// A slice that reads only padding: slice(pad(x, 0, low=4), [0:3])  ->  broadcast(0).
static HloInstruction *slice_of_padding(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_PAD || hlo_shape_elements(i->shape) == 0) return NULL;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    HloPadding padding = HLO_ATTRIBUTES(x, Pad)->padding;
    bool outside = false;
    for (int64_t d = 0; d < padding.count; d++) {
        int64_t size = x->operands[0]->shape->dims[d], low = padding.items[d].low;
        int64_t end = low + (size ? (size - 1) * (padding.items[d].interior + 1) + 1 : 0);
        int64_t start = slice->starts.items[d], last = start + (i->shape->dims[d] - 1) * slice->strides.items[d];
        outside = outside || last < low || start >= end;
    }
    if (!outside || x->operands[1]->shape->type != i->shape->type) return NULL;
    return hlo_pass_broadcast(i, x->operands[1], hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// A slice of a reversed array is a reversed slice, counted from the other end. With a stride it has to begin at the
// last element that was taken, not at the end of the range:
//
//   slice(reverse(f32[10] x), [1:8:3])   takes 1 4 7 of the reversed, which are 8 5 2 of x
//   ->  reverse(slice(x, [2:9:3]))
static HloInstruction *slice_of_reverse(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_REVERSE || x->users.count != 1 || hlo_shape_elements(i->shape) == 0) return NULL;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    HloInts reversed = HLO_ATTRIBUTES(x, Dimensions)->dimensions;
    SliceLists lists = new_lists(i, i->shape->rank);
    for (int64_t d = 0; d < lists.rank; d++) {
        int64_t start = slice->starts.items[d], stride = slice->strides.items[d], size = x->shape->dims[d];
        int64_t last = start + (i->shape->dims[d] - 1) * stride;
        bool turned = hlo_ints_contain(reversed, d);
        lists.starts[d] = turned ? size - 1 - last : start;
        lists.limits[d] = turned ? size - start : slice->limits.items[d];
        lists.strides[d] = stride;
    }
    HloInstruction *cut = make_slice(i, x->operands[0], &lists);
    return hlo_pass_make(
        i, &(HloBuildRequest){
               .opcode = HLO_OP_REVERSE, .operands = &cut, .operand_count = 1, .attributes = x->attributes});
}

// A slice of a padded array, within the original: slice(pad(x, 0, low=2), [3:5])  ->  slice(x, [1:3]).
static HloInstruction *slice_of_pad(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_PAD || x->operands[0]->shape->type != i->shape->type) return NULL;
    if (hlo_shape_elements(i->shape) == 0) return NULL;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    HloPadding padding = HLO_ATTRIBUTES(x, Pad)->padding;
    const HloShape *original = x->operands[0]->shape;
    for (int64_t d = 0; d < padding.count; d++) {
        int64_t low = padding.items[d].low;
        if (padding.items[d].interior || slice->starts.items[d] < low) return NULL;
        if (slice->limits.items[d] - low > original->dims[d]) return NULL;
    }
    SliceLists lists = new_lists(i, padding.count);
    for (int64_t d = 0; d < padding.count; d++) {
        lists.starts[d] = slice->starts.items[d] - padding.items[d].low;
        lists.limits[d] = slice->limits.items[d] - padding.items[d].low;
        lists.strides[d] = slice->strides.items[d];
    }
    return make_slice(i, x->operands[0], &lists);
}

// Moves a slice below a transpose, where it can be merged with others. (Slices of elementwise ops stay.)
static HloInstruction *slice_of_transpose(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_TRANSPOSE || x->users.count != 1) return NULL;
    HloInts permutation = HLO_ATTRIBUTES(x, Dimensions)->dimensions;
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(i, Slice);
    SliceLists lists = new_lists(i, permutation.count);
    for (int64_t d = 0; d < permutation.count; d++) {
        lists.starts[permutation.items[d]] = slice->starts.items[d];
        lists.limits[permutation.items[d]] = slice->limits.items[d];
        lists.strides[permutation.items[d]] = slice->strides.items[d];
    }
    return hlo_pass_transpose(i, make_slice(i, x->operands[0], &lists), permutation);
}

// ---------------------------------------------------------------------------------------------------------------------
// Dynamic slices

// Computes the start along dimension `d`, clamped as by the op; false if it is not known.
static bool known_start(const HloInstruction *i, int64_t first, int64_t d, int64_t size, int64_t *start) {
    const HloShape *x = i->operands[0]->shape;
    if (i->operand_count - first != x->rank || i->operands[first]->shape->rank != 0) return false;
    *start = 0;
    if (size == x->dims[d]) return true;
    if (!hlo_pass_integer_value(i->operands[first + d], start)) return false;
    if (*start < 0) *start = 0;
    if (*start > x->dims[d] - size) *start = x->dims[d] - size;
    return true;
}

// A dynamic slice with known starts is a slice: dynamic-slice(f32[10] x, 7), size 5  ->  slice(x, [5:10]), as 7 is
// clamped. The starts are read twice, since a rule creates nothing before it is sure to apply.
static HloInstruction *dynamic_slice_known(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_SLICE));
    HloInts sizes = hlo_shape_dims(i->shape);
    int64_t start;
    for (int64_t d = 0; d < sizes.count; d++) {
        if (!known_start(i, 1, d, sizes.items[d], &start)) return NULL;
    }
    SliceLists lists = new_lists(i, sizes.count);
    for (int64_t d = 0; d < sizes.count; d++) {
        known_start(i, 1, d, sizes.items[d], &lists.starts[d]);
        lists.limits[d] = lists.starts[d] + sizes.items[d];
        lists.strides[d] = 1;
    }
    return make_slice(i, i->operands[0], &lists);
}

// A dynamic slice of a splat is a splat, whatever the start.
static HloInstruction *dynamic_slice_of_splat(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_BROADCAST || x->operands[0]->shape->rank != 0 || i->shape->rank == 0) return NULL;
    return hlo_pass_broadcast(i, x->operands[0], hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// One element of an iota is its index, clamped as by the op: a loop over jnp.arange() reads it.
static HloInstruction *dynamic_slice_of_iota(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_SLICE));
    const HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_IOTA || i->operand_count != x->shape->rank + 1) return NULL;
    const int64_t d = HLO_ATTRIBUTES(x, Iota)->dimension;
    HloInstruction *start = i->operands[1 + d];
    const HloType type = start->shape->type;
    const bool is_real = hlo_type_is_integer(i->shape->type) || hlo_type_is_float(i->shape->type);
    if (i->shape->dims[d] != 1 || start->shape->rank != 0 || !is_real) return NULL;
    // The type of the start must represent the last index, and must treat the same numbers as negative.
    const int64_t last = x->shape->dims[d] - 1;
    const int bits = hlo_type_info(type)->bits;
    if (hlo_type_kind(type) != HLO_KIND_SIGNED || (bits < 64 && last >> (bits - 1))) return NULL;
    HloInstruction *bounds[] = {hlo_pass_integer(i, type, 0), start, hlo_pass_integer(i, type, last)};
    HloInstruction *place =
        hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_CLAMP, .operands = bounds, .operand_count = 3});
    if (type != i->shape->type) place = hlo_pass_convert(i, place, i->shape->type);
    return hlo_pass_broadcast(i, place, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// A dynamic slice of a dynamic slice is one, if along each dimension only one of the two moves: the other takes all,
// and starts at 0.
static HloInstruction *dynamic_slice_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_SLICE));
    const HloInstruction *x = i->operands[0];
    const int32_t rank = i->shape->rank;
    if (x->opcode != HLO_OP_DYNAMIC_SLICE || i->operand_count != rank + 1 || x->operand_count != rank + 1) return NULL;
    const HloShape *whole = x->operands[0]->shape;
    for (int32_t d = 0; d < rank; d++) {
        if (x->shape->dims[d] != whole->dims[d] && x->shape->dims[d] != i->shape->dims[d]) return NULL;
        if (x->operands[d + 1]->shape->rank != 0 || i->operands[d + 1]->shape->rank != 0) return NULL;
        if (x->operands[d + 1]->shape->type != i->operands[d + 1]->shape->type) return NULL;
    }
    HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, rank + 1);
    operands[0] = x->operands[0];
    for (int32_t d = 0; d < rank; d++)
        operands[d + 1] = x->shape->dims[d] == whole->dims[d] ? i->operands[d + 1] : x->operands[d + 1];
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                               .operands = operands,
                                               .operand_count = rank + 1,
                                               .attributes = i->attributes});
}

// As slice_of_transpose(), for dynamic slices.
static HloInstruction *dynamic_slice_of_transpose(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_TRANSPOSE || x->users.count != 1 || i->operand_count != x->shape->rank + 1) return NULL;
    if (x->shape->rank == 0 || i->operands[1]->shape->rank != 0) return NULL;
    HloInts permutation = HLO_ATTRIBUTES(x, Dimensions)->dimensions;
    int64_t *sizes = hlo_pass_ints(i, permutation.count);
    HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, permutation.count + 1);
    operands[0] = x->operands[0];
    for (int64_t d = 0; d < permutation.count; d++) {
        sizes[permutation.items[d]] = i->shape->dims[d];
        operands[permutation.items[d] + 1] = i->operands[d + 1];
    }
    HloInstruction *cut =
        hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                            .operands = operands,
                                            .operand_count = permutation.count + 1,
                                            .attributes = &(HloDynamicSliceAttributes){{sizes, permutation.count}}});
    return hlo_pass_transpose(i, cut, permutation);
}

// The start along a dimension that is taken whole is 0 whatever its operand, which need not be computed. `first` is the
// first start among the operands, `part` the shape of the part that is taken or updated.
static HloInstruction *forget_starts(HloInstruction *i, int64_t first, const HloShape *part) {
    assert(first < i->operand_count || part->rank == 0);
    const HloShape *x = i->operands[0]->shape;
    int64_t value, forgotten = 0;
    if (i->operand_count - first != x->rank) return NULL;
    HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, i->operand_count);
    for (int64_t k = 0; k < i->operand_count; k++) operands[k] = i->operands[k];
    for (int64_t d = 0; d < x->rank; d++) {
        const HloInstruction *start = i->operands[first + d];
        if (start->shape->rank != 0) return NULL;
        bool said = hlo_pass_integer_value(start, &value) && value == 0;
        forgotten += part->dims[d] == x->dims[d] && !said;
    }
    if (!forgotten) return NULL;
    for (int64_t d = 0; d < x->rank; d++) {
        if (part->dims[d] == x->dims[d]) operands[first + d] = hlo_pass_integer(i, operands[first + d]->shape->type, 0);
    }
    return hlo_pass_make(
        i,
        &(HloBuildRequest){
            .opcode = i->opcode, .operands = operands, .operand_count = i->operand_count, .attributes = i->attributes});
}

// The part is the result itself.
static HloInstruction *forget_slice_starts(HloInstruction *i) {
    return forget_starts(i, 1, i->shape);
}

// The part is the update.
static HloInstruction *forget_update_starts(HloInstruction *i) {
    return forget_starts(i, 2, i->operands[1]->shape);
}

// An update at a known position of a splat is that update, padded.
static HloInstruction *update_of_splat(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_UPDATE_SLICE));
    HloInstruction *x = i->operands[0], *update = i->operands[1];
    int64_t rank = x->shape->rank;
    if (x->opcode != HLO_OP_BROADCAST || x->operands[0]->shape->rank != 0 || rank == 0) return NULL;
    if (update->shape->type != i->shape->type || hlo_shape_elements(update->shape) == 0) return NULL;
    int64_t start;
    for (int64_t d = 0; d < rank; d++) {
        if (!known_start(i, 2, d, update->shape->dims[d], &start)) return NULL;
    }
    HloPadDimension *items = HLO_ARENA_NEW(i->parent->module->arena, HloPadDimension, rank);
    for (int64_t d = 0; d < rank; d++) {
        known_start(i, 2, d, update->shape->dims[d], &start);
        items[d] = (HloPadDimension){.low = start, .high = x->shape->dims[d] - update->shape->dims[d] - start};
    }
    HloInstruction *operands[] = {update, x->operands[0]};
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_PAD,
                                               .operands = operands,
                                               .operand_count = 2,
                                               .attributes = &(HloPadAttributes){{items, rank}}});
}

// If one truth value selects between an array and an update of it, selects the written part instead: the rest is the
// same.
static HloInstruction *select_of_update(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    HloInstruction *predicate = i->operands[0];
    if (predicate->opcode == HLO_OP_BROADCAST) predicate = predicate->operands[0];
    if (predicate->shape->rank != 0 || i->shape->rank == 0) return NULL;
    for (int k = 1; k <= 2; k++) {
        HloInstruction *x = i->operands[k], *base = i->operands[3 - k];
        if (x->opcode != HLO_OP_DYNAMIC_UPDATE_SLICE || x->operands[0] != base || x->users.count != 1) continue;
        HloInstruction *update = x->operands[1];
        if (update->shape->type != i->shape->type || x->operand_count != i->shape->rank + 2) return NULL;
        HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, x->operand_count);
        for (int64_t d = 2; d < x->operand_count; d++) operands[d - 1] = x->operands[d];
        operands[0] = base;
        HloInstruction *old = hlo_pass_make(
            i, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                  .operands = operands,
                                  .operand_count = x->operand_count - 1,
                                  .attributes = &(HloDynamicSliceAttributes){hlo_shape_dims(update->shape)}});
        HloInts dims = hlo_shape_dims(update->shape);
        HloInstruction *wide = dims.count ? hlo_pass_broadcast(i, predicate, dims, (HloInts){NULL, 0}) : predicate;
        HloInstruction *chosen = hlo_pass_select(i, wide, k == 1 ? update : old, k == 1 ? old : update);
        for (int64_t d = 0; d < x->operand_count; d++) operands[d] = d == 1 ? chosen : x->operands[d];
        return hlo_pass_make(
            i, &(HloBuildRequest){
                   .opcode = HLO_OP_DYNAMIC_UPDATE_SLICE, .operands = operands, .operand_count = x->operand_count});
    }
    return NULL;
}

// An update of the whole array can only begin at 0, and is the update itself.
static HloInstruction *update_all(HloInstruction *i) {
    HloInstruction *update = i->operands[1];
    return hlo_shape_equal(update->shape, i->shape, HLO_COMPARE_IGNORE_LAYOUT) ? update : NULL;
}

// An update without elements changes nothing.
static HloInstruction *update_nothing(HloInstruction *i) {
    return hlo_shape_elements(i->operands[1]->shape) == 0 ? i->operands[0] : NULL;
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_SLICE, hlo_simplify_to_operand_of_same_dims},
    {HLO_OP_SLICE, slice_twice},
    {HLO_OP_SLICE, slice_of_broadcast},
    {HLO_OP_SLICE, slice_of_iota},
    {HLO_OP_SLICE, slice_of_concatenate},
    {HLO_OP_SLICE, slice_of_some_operands},
    {HLO_OP_SLICE, slice_of_pad},
    {HLO_OP_SLICE, slice_of_padding},
    {HLO_OP_SLICE, slice_of_transpose},
    {HLO_OP_SLICE, slice_of_reverse},
    {HLO_OP_DYNAMIC_SLICE, hlo_simplify_to_operand_of_same_dims},
    {HLO_OP_DYNAMIC_SLICE, dynamic_slice_known},
    {HLO_OP_DYNAMIC_SLICE, dynamic_slice_of_splat},
    {HLO_OP_DYNAMIC_SLICE, dynamic_slice_of_iota},
    {HLO_OP_DYNAMIC_SLICE, dynamic_slice_twice},
    {HLO_OP_DYNAMIC_SLICE, dynamic_slice_of_transpose},
    {HLO_OP_DYNAMIC_SLICE, forget_slice_starts},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, update_all},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, update_nothing},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, update_of_splat},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, forget_update_starts},
    {HLO_OP_SELECT, select_of_update},
};

HloSimplifyTable hlo_simplify_slice(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
