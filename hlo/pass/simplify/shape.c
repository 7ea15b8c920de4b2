// SPDX-License-Identifier: Apache-2.0
// Rules for reshapes, transposes, broadcasts, reversals, concatenations and padding.
//
// None of these ops computes anything: they map elements of the operands to elements of the result. Two of them in a
// row are two such maps, and most rules here compose them; the result is the shortest form of the same map. Sharded
// instructions and those with control edges are excluded by hlo_pass_replace().
//
//   transpose(transpose(x), {1,2,0}), {1,2,0}   ->   transpose(x), {2,0,1}
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

static HloInts dimensions_of(const HloInstruction *i) {
    return HLO_ATTRIBUTES(i, Dimensions)->dimensions;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reshape

// Both keep the row-major order, so the sizes in between do not matter.
static HloInstruction *reshape_twice(HloInstruction *i) {
    HloInstruction *x = i->operands[0];
    return x->opcode == HLO_OP_RESHAPE ? hlo_pass_reshape(i, x->operands[0], hlo_shape_dims(i->shape)) : NULL;
}

// A reshape of a scalar or of a splat is a broadcast: equal values have no order.
static HloInstruction *reshape_of_splat(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_RESHAPE));
    HloInstruction *x = i->operands[0];
    if (x->shape->rank) {
        if (!hlo_pass_repeats_scalar(x)) return NULL;
        x = x->operands[0];
    }
    if (i->shape->rank == 0) return x;
    return hlo_pass_broadcast(i, x, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// A reshape of an iota that only adds or removes dimensions of size 1 is an iota.
static HloInstruction *reshape_of_iota(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_RESHAPE));
    const HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_IOTA || hlo_shape_is_dynamic(i->shape)) return NULL;
    const int64_t counted = HLO_ATTRIBUTES(x, Iota)->dimension;
    int64_t dimension = -1;
    if (x->shape->dims[counted] < 2) return NULL;  // zeros
    for (int64_t a = 0, b = 0; a < x->shape->rank || b < i->shape->rank;) {
        if (a < x->shape->rank && x->shape->dims[a] == 1) {
            a++;
        } else if (b < i->shape->rank && i->shape->dims[b] == 1) {
            b++;
        } else {
            if (a == x->shape->rank || b == i->shape->rank || x->shape->dims[a] != i->shape->dims[b]) return NULL;
            if (a++ == counted) dimension = b;
            b++;
        }
    }
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                               .attributes = &(HloIotaAttributes){dimension},
                                               .type = i->shape->type,
                                               .dims = hlo_shape_dims(i->shape),
                                               .has_dims = true});
}

// ---------------------------------------------------------------------------------------------------------------------
// Transpose

static HloInstruction *transpose_identity(HloInstruction *i) {
    return hlo_pass_is_identity(dimensions_of(i)) ? i->operands[0] : NULL;
}

// Dimension d of the result is dimension inner[outer[d]] of the array below both.
static HloInstruction *transpose_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_TRANSPOSE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_TRANSPOSE) return NULL;
    HloInts outer = dimensions_of(i), inner = dimensions_of(x);
    int64_t *both = hlo_pass_ints(i, outer.count);
    for (int64_t d = 0; d < outer.count; d++) both[d] = inner.items[outer.items[d]];
    return hlo_pass_transpose(i, x->operands[0], (HloInts){both, outer.count});
}

// The broadcast gets other dimension numbers instead: moved[m] is the new position of dimension mapping[m].
static HloInstruction *transpose_of_broadcast(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_TRANSPOSE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_BROADCAST) return NULL;
    HloInts permutation = dimensions_of(i), mapping = dimensions_of(x);
    int64_t *moved = hlo_pass_ints(i, mapping.count);
    for (int64_t m = 0; m < mapping.count; m++) {
        for (int64_t d = 0; d < permutation.count; d++) {
            if (permutation.items[d] == mapping.items[m]) moved[m] = d;
        }
    }
    return hlo_pass_broadcast(i, x->operands[0], hlo_shape_dims(i->shape), (HloInts){moved, mapping.count});
}

// A transpose that only moves dimensions of size 1 is a reshape.
static HloInstruction *transpose_of_ones(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_TRANSPOSE));
    HloInts permutation = dimensions_of(i);
    const HloShape *x = i->operands[0]->shape;
    int64_t last = -1;
    if (hlo_pass_is_identity(permutation)) return NULL;
    for (int64_t d = 0; d < permutation.count; d++) {
        if (x->dims[permutation.items[d]] == 1) continue;
        if (permutation.items[d] < last) return NULL;
        last = permutation.items[d];
    }
    return hlo_pass_reshape(i, i->operands[0], hlo_shape_dims(i->shape));
}

// Numbers the dimensions whose size is not 1; -1 for the rest. Returns how many there are.
static int64_t number_wide(const HloShape *shape, int64_t *numbers) {
    int64_t count = 0;
    for (int64_t d = 0; d < shape->rank; d++) numbers[d] = shape->dims[d] == 1 ? -1 : count++;
    return count;
}

// A reshape that only adds or removes dimensions of size 1 moves after the transpose, where it can be merged with
// others.
static HloInstruction *transpose_of_reshape(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_TRANSPOSE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_RESHAPE || x->users.count != 1 || hlo_shape_elements(x->shape) < 2) return NULL;
    const HloShape *from = x->operands[0]->shape;
    int64_t *before = hlo_pass_ints(i, from->rank), *after = hlo_pass_ints(i, x->shape->rank);
    int64_t wide = number_wide(from, before), *order = hlo_pass_ints(i, from->rank), count = 0;
    if (number_wide(x->shape, after) != wide) return NULL;
    for (int64_t a = 0, b = 0; a < from->rank; a++) {
        if (before[a] < 0) continue;
        while (after[b] != before[a]) b++;
        if (from->dims[a] != x->shape->dims[b]) return NULL;
    }
    HloInts permutation = dimensions_of(i);
    for (int64_t d = 0; d < permutation.count; d++) {
        for (int64_t a = 0; a < from->rank && after[permutation.items[d]] >= 0; a++) {
            if (before[a] == after[permutation.items[d]]) order[count++] = a;
        }
    }
    for (int64_t a = 0; a < from->rank; a++) {
        if (before[a] < 0) order[count++] = a;
    }
    assert(count == from->rank);
    HloInstruction *moved = hlo_pass_transpose(i, x->operands[0], (HloInts){order, count});
    return hlo_pass_reshape(i, moved, hlo_shape_dims(i->shape));
}

// ---------------------------------------------------------------------------------------------------------------------
// Broadcast and iota

// A broadcast that repeats and moves nothing is its operand.
static HloInstruction *broadcast_same(HloInstruction *i) {
    bool same = hlo_pass_is_identity(dimensions_of(i)) && hlo_same_dims(i->shape, i->operands[0]->shape);
    return same ? i->operands[0] : NULL;
}

// A broadcast that only adds dimensions of size 1, as JAX writes it, is a reshape, as XLA's reader of StableHLO has it.
static HloInstruction *broadcast_of_ones(HloInstruction *i) {
    if (i->operands[0]->shape->rank == 0 || hlo_shape_is_dynamic(i->shape) || !hlo_pass_is_view(i)) return NULL;
    return hlo_pass_reshape(i, i->operands[0], hlo_shape_dims(i->shape));
}

// A broadcast of a broadcast is one broadcast, with composed dimension mappings.
static HloInstruction *broadcast_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_BROADCAST));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_BROADCAST) return NULL;
    HloInts outer = dimensions_of(i), inner = dimensions_of(x);
    int64_t *both = hlo_pass_ints(i, inner.count);
    for (int64_t d = 0; d < inner.count; d++) both[d] = outer.items[inner.items[d]];
    return hlo_pass_broadcast(i, x->operands[0], hlo_shape_dims(i->shape), (HloInts){both, inner.count});
}

// True if a reshape only adds or removes dimensions of size 1, and so is not needed before a broadcast. Fills `mapping`
// (one entry per dimension of the reshape's operand).
static bool skips_ones(const HloShape *from, const HloShape *to, HloInts outer, int64_t *mapping) {
    int64_t a = 0, b = 0;
    while (a < from->rank || b < to->rank) {
        if (a < from->rank && b < to->rank && from->dims[a] == to->dims[b]) {
            if (mapping) mapping[a] = outer.items[b];
            a++, b++;
        } else if (b < to->rank && to->dims[b] == 1) {
            b++;
        } else {
            return false;
        }
    }
    return true;
}

// Checked twice, first without a list, because a rule must create nothing if it does not apply.
static HloInstruction *broadcast_of_reshape(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_BROADCAST));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_RESHAPE) return NULL;
    const HloShape *from = x->operands[0]->shape;
    if (!skips_ones(from, x->shape, dimensions_of(i), NULL)) return NULL;
    int64_t *mapping = hlo_pass_ints(i, from->rank);
    skips_ones(from, x->shape, dimensions_of(i), mapping);
    return hlo_pass_broadcast(i, x->operands[0], hlo_shape_dims(i->shape), (HloInts){mapping, from->rank});
}

// A broadcast of an iota is an iota; one along a dimension of size 1 is zero.
static HloInstruction *broadcast_of_iota(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_BROADCAST));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_IOTA) return NULL;
    int64_t dimension = dimensions_of(i).items[HLO_ATTRIBUTES(x, Iota)->dimension];
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                               .attributes = &(HloIotaAttributes){dimension},
                                               .type = i->shape->type,
                                               .dims = hlo_shape_dims(i->shape),
                                               .has_dims = true});
}

// An iota along a dimension of size one (or zero) is zeros.
static HloInstruction *iota_of_one(HloInstruction *i) {
    if (i->shape->dims[HLO_ATTRIBUTES(i, Iota)->dimension] > 1) return NULL;
    return hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reverse

// A reversal of x along these dimensions; x itself if there are none.
static HloInstruction *reverse_dims(const HloInstruction *i, HloInstruction *x, HloInts dimensions) {
    if (dimensions.count == 0) return x;
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_REVERSE,
                                               .operands = &x,
                                               .operand_count = 1,
                                               .attributes = &(HloDimensionsAttributes){dimensions}});
}

// Dimensions of size 1, and those along which a broadcast repeats, are the same when reversed.
static HloInstruction *reverse_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REVERSE));
    HloInstruction *x = i->operands[0];
    HloInts dimensions = dimensions_of(i);
    int64_t *kept = hlo_pass_ints(i, dimensions.count), count = 0;
    for (int64_t d = 0; d < dimensions.count; d++) {
        int64_t dimension = dimensions.items[d];
        bool repeated = x->opcode == HLO_OP_BROADCAST && !hlo_ints_contain(dimensions_of(x), dimension);
        if (i->shape->dims[dimension] > 1 && !repeated) kept[count++] = dimension;
    }
    return count == dimensions.count ? NULL : reverse_dims(i, x, (HloInts){kept, count});
}

// A dimension that is reversed twice is not reversed.
static HloInstruction *reverse_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REVERSE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_REVERSE) return NULL;
    HloInts outer = dimensions_of(i), inner = dimensions_of(x);
    int64_t *once = hlo_pass_ints(i, outer.count + inner.count), count = 0;
    for (int64_t d = 0; d < i->shape->rank; d++) {
        if (hlo_ints_contain(outer, d) != hlo_ints_contain(inner, d)) once[count++] = d;
    }
    return reverse_dims(i, x->operands[0], (HloInts){once, count});
}

// ---------------------------------------------------------------------------------------------------------------------
// Concatenate

// A concatenation of other operands like `i`; a single operand needs none.
static HloInstruction *concatenate(const HloInstruction *i, HloInstruction *const *operands, int64_t count) {
    if (count == 1) return operands[0];
    return hlo_pass_make(
        i,
        &(HloBuildRequest){
            .opcode = HLO_OP_CONCATENATE, .operands = operands, .operand_count = count, .attributes = i->attributes});
}

static bool is_empty(const HloInstruction *i) {
    return hlo_shape_elements(i->shape) == 0;
}

// Whether an operand of concatenation `i` is one along the same dimension, which nothing else uses.
static bool is_nested(const HloInstruction *operand, const HloInstruction *i) {
    return hlo_is(operand, HLO_OP_CONCATENATE) && hlo_ints_equal(dimensions_of(operand), dimensions_of(i)) &&
           operand->users.count == 1 && operand->shape->type == i->shape->type;
}

// Whether concatenate_flat() changes `i`.
static bool is_to_flatten(const HloInstruction *i) {
    bool changes = i->operand_count == 1;
    for (int64_t k = 0; k < i->operand_count && !changes; k++)
        changes = is_nested(i->operands[k], i) || (is_empty(i->operands[k]) && !is_empty(i));
    return changes;
}

// Pushes the operands, the first one on top.
static void push_operands(HloArena *arena, const HloInstruction *i, HloInstructionVector *stack) {
    for (int64_t k = i->operand_count; k-- > 0;) hlo_vector_push(arena, stack, i->operands[k]);
}

// Removes operands without elements; flattens operands that are concatenations along the same dimension, and theirs:
// one that is itself such an operand waits for its user, else a chain of them would take time by its square.
static HloInstruction *concatenate_flat(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CONCATENATE));
    HloArena *arena = i->parent->module->arena;
    const HloInstruction *user = i->users.count == 1 ? i->users.items[0] : NULL;
    if (!is_to_flatten(i)) return NULL;
    if (user && hlo_is(user, HLO_OP_CONCATENATE) && is_nested(i, user) && hlo_pass_may_replace(user)) return NULL;
    HloInstructionVector flat = {0}, stack = {0};
    push_operands(arena, i, &stack);
    while (stack.count) {
        HloInstruction *operand = stack.items[--stack.count];
        if (is_empty(operand) && !is_empty(i)) continue;
        if (is_nested(operand, i))
            push_operands(arena, operand, &stack);
        else
            hlo_vector_push(arena, &flat, operand);
    }
    return concatenate(i, flat.items, flat.count);
}

// A concatenation whose operands all repeat one scalar repeats that scalar.
static HloInstruction *concatenate_splats(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CONCATENATE));
    HloInstruction *scalar = NULL;
    for (int64_t k = 0; k < i->operand_count; k++) {
        const HloInstruction *operand = i->operands[k];
        if (operand->opcode != HLO_OP_BROADCAST || operand->operands[0]->shape->rank != 0) return NULL;
        if (scalar && operand->operands[0] != scalar) return NULL;
        scalar = operand->operands[0];
    }
    if (!scalar || scalar->shape->type != i->shape->type) return NULL;
    return hlo_pass_broadcast(i, scalar, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// True if slice `b` begins where slice `a` of the same array ends, along `dimension`, and both are equal elsewhere.
static bool continues(const HloInstruction *a, const HloInstruction *b, int64_t dimension) {
    if (a->opcode != HLO_OP_SLICE || b->opcode != HLO_OP_SLICE || a->operands[0] != b->operands[0]) return false;
    const HloSliceAttributes *x = HLO_ATTRIBUTES(a, Slice), *y = HLO_ATTRIBUTES(b, Slice);
    if (!hlo_ints_equal(x->strides, y->strides) || x->strides.items[dimension] != 1) return false;
    for (int64_t d = 0; d < x->starts.count; d++) {
        if (d == dimension) continue;
        if (x->starts.items[d] != y->starts.items[d] || x->limits.items[d] != y->limits.items[d]) return false;
    }
    return x->limits.items[dimension] == y->starts.items[dimension];
}

// Adjacent operands that are adjacent slices of one array become one slice. All runs in one step: one at a time, a
// concatenation of n slices would be rebuilt n times.
static HloInstruction *concatenate_slices(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CONCATENATE));
    int64_t dimension = dimensions_of(i).items[0], count = 0;
    bool any = false;
    for (int64_t k = 0; k + 1 < i->operand_count && !any; k++) {
        any = continues(i->operands[k], i->operands[k + 1], dimension);
    }
    if (!any) return NULL;
    HloInstruction **joined = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, i->operand_count);
    for (int64_t k = 0, end; k < i->operand_count; k = end) {
        HloInstruction *first = i->operands[k];
        for (end = k + 1; end < i->operand_count; end++) {
            if (!continues(i->operands[end - 1], i->operands[end], dimension)) break;
        }
        joined[count++] = first;
        if (end == k + 1) continue;
        const HloSliceAttributes *x = HLO_ATTRIBUTES(first, Slice);
        const HloSliceAttributes *y = HLO_ATTRIBUTES(i->operands[end - 1], Slice);
        joined[count - 1] = hlo_pass_slice(i, first->operands[0], x->starts, y->limits, x->strides);
    }
    return concatenate(i, joined, count);
}

// ---------------------------------------------------------------------------------------------------------------------
// Pad

// Equal dims do not suffice: low padding of 1 and high padding of -1 shift the elements.
static HloInstruction *pad_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_PAD));
    return hlo_same_dims(i->shape, i->operands[0]->shape) &&
                   hlo_attributes_equal(
                       HLO_FAMILY_Pad, i->attributes,
                       &(HloPadAttributes){
                           {HLO_ARENA_NEW(i->parent->module->arena, HloPadDimension, i->shape->rank), i->shape->rank}})
               ? i->operands[0]
               : NULL;
}

// Padding an array without elements, or with the value that it repeats, repeats the value.
static HloInstruction *pad_of_splat(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_PAD));
    HloInstruction *x = i->operands[0], *value = i->operands[1];
    bool same = x->opcode == HLO_OP_BROADCAST && x->operands[0] == value;
    if ((!same && !is_empty(x)) || value->shape->type != i->shape->type) return NULL;
    if (i->shape->rank == 0) return NULL;
    return hlo_pass_broadcast(i, value, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// Padding by zero or negative amounts everywhere is a slice.
static HloInstruction *pad_less(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_PAD));
    HloPadding padding = HLO_ATTRIBUTES(i, Pad)->padding;
    const HloShape *x = i->operands[0]->shape;
    if (x->type != i->shape->type) return NULL;
    for (int64_t d = 0; d < padding.count; d++) {
        const HloPadDimension *p = &padding.items[d];
        if (p->low > 0 || p->high > 0 || p->interior != 0 || -p->low > x->dims[d] || -p->high > x->dims[d]) return NULL;
    }
    int64_t *starts = hlo_pass_ints(i, 3 * padding.count), *limits = starts + padding.count;
    int64_t *strides = limits + padding.count;
    for (int64_t d = 0; d < padding.count; d++) {
        starts[d] = -padding.items[d].low;
        limits[d] = x->dims[d] + padding.items[d].high;
        strides[d] = 1;
    }
    return hlo_pass_slice(i, i->operands[0], (HloInts){starts, padding.count}, (HloInts){limits, padding.count},
                          (HloInts){strides, padding.count});
}

// pad(pad(x)) with the same value is one pad, if both only grow.
static HloInstruction *pad_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_PAD));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_PAD || x->operands[1] != i->operands[1] || x->shape->type != i->shape->type) return NULL;
    HloPadding outer = HLO_ATTRIBUTES(i, Pad)->padding, inner = HLO_ATTRIBUTES(x, Pad)->padding;
    for (int64_t d = 0; d < outer.count; d++) {
        const HloPadDimension *o = &outer.items[d], *n = &inner.items[d];
        if (o->low < 0 || o->high < 0 || n->low < 0 || n->high < 0 || o->interior || n->interior) return NULL;
    }
    HloPadDimension *both = HLO_ARENA_NEW(i->parent->module->arena, HloPadDimension, outer.count);
    for (int64_t d = 0; d < outer.count; d++) {
        both[d] =
            (HloPadDimension){outer.items[d].low + inner.items[d].low, outer.items[d].high + inner.items[d].high, 0};
    }
    HloInstruction *operands[] = {x->operands[0], i->operands[1]};
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_PAD,
                                               .operands = operands,
                                               .operand_count = 2,
                                               .attributes = &(HloPadAttributes){{both, outer.count}}});
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_RESHAPE, hlo_simplify_to_operand_of_same_dims},
    {HLO_OP_RESHAPE, reshape_twice},
    {HLO_OP_RESHAPE, reshape_of_splat},
    {HLO_OP_RESHAPE, reshape_of_iota},
    {HLO_OP_TRANSPOSE, transpose_identity},
    {HLO_OP_TRANSPOSE, transpose_twice},
    {HLO_OP_TRANSPOSE, transpose_of_broadcast},
    {HLO_OP_TRANSPOSE, transpose_of_ones},
    {HLO_OP_TRANSPOSE, transpose_of_reshape},
    {HLO_OP_BROADCAST, broadcast_same},
    {HLO_OP_BROADCAST, broadcast_twice},
    {HLO_OP_BROADCAST, broadcast_of_reshape},
    {HLO_OP_BROADCAST, broadcast_of_iota},
    {HLO_OP_BROADCAST, broadcast_of_ones},
    {HLO_OP_IOTA, iota_of_one},
    {HLO_OP_REVERSE, reverse_nothing},
    {HLO_OP_REVERSE, reverse_twice},
    {HLO_OP_CONCATENATE, concatenate_flat},
    {HLO_OP_CONCATENATE, concatenate_splats},
    {HLO_OP_CONCATENATE, concatenate_slices},
    {HLO_OP_PAD, pad_nothing},
    {HLO_OP_PAD, pad_of_splat},
    {HLO_OP_PAD, pad_less},
    {HLO_OP_PAD, pad_twice},
};

HloSimplifyTable hlo_simplify_shape(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
