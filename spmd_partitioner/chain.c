// SPDX-License-Identifier: Apache-2.0
// Along a sharded dimension a slice and a pad each exchange elements with neighbours. One after the other they would
// send nearly all of an array back and forth, where their composition is a shift by an element:
//     %p = f32[65] pad(f32[64] %x, %v), padding=1_0      %s = f32[64] slice(%p), slice={[0:64]}
//     is  f32[64] pad(%x, %v), padding=1_-1              one element to the next device
//
// The rules, all for slices with a stride of 1 and pads without holes where two of them meet:
//     slice(pad(x, v))                   a pad; amounts may become negative
//     slice(slice(x))                    a slice, with any strides
//     pad(pad(x, v), v)                  a pad, unless the outer one adds where the inner one removes
//     windows of a pad                   windows with that padding (padded_window.c)
//     updates at a known place           a select of the update, moved (placed_window.c)
//     concatenate(v …, slice(x), v …)    a pad, where v … are arrays of one value: a shift as jnp and models write it
//     slice(pad(x, v) + pad(y, w))       the sum of both slices, which are pads: the derivative of a sum of shifts
//     several slices of that sum         slices of a pad of the sum, by what all pads have in common: filters that are
//                                        applied along one dimension after the other
// A slice with strides whose elements another one takes too goes the other way: it becomes a slice of that one. Every
// second element from 0 on lies on the devices that hold the elements, and those from 2 on are the same, shifted by one
// (a level of an associative scan). Slice by slice both would be moved.
#include "spmd_partitioner/chain.h"

#include <assert.h>

#include "hlo/ir/instruction.h"
#include "hlo/ir/literal.h"
#include "spmd_partitioner/passes/passes.h"

// Whether `at` may be computed from the operand of `inner`: a link, or annotated like one of its neighbours, as in
// programs in which every array is annotated.
static bool links(const HloInstruction *inner, const HloInstruction *at) {
    return spmd_is_link(inner) ||
           (spmd_is_free_to_move(inner) && (hlo_sharding_equal(inner->sharding, at->sharding) ||
                                            hlo_sharding_equal(inner->sharding, inner->operands[0]->sharding)));
}

// What a chain is replaced by. `operand` alone is set by the plan; the rest by its kind.
typedef struct Joined {
    HloInstruction *operand, *value;  // value: of a pad; NULL for a slice
    int64_t *low, *high;              // of a pad
    int64_t *starts, *limits, *strides;
} Joined;

static int64_t stride_of(const HloSliceAttributes *slice, int32_t dim) {
    return slice->strides.count ? slice->strides.items[dim] : 1;
}

int64_t spmd_sliced_dim(const HloShape *part, const HloShape *whole) {
    assert(part->rank == whole->rank);
    int64_t found = -1;
    for (int32_t d = 0; d < whole->rank; d++) {
        if (part->dims[d] == whole->dims[d]) continue;
        if (found >= 0) return -1;
        found = d;
    }
    return found;
}

const HloInstruction *spmd_without_added(const HloInstruction *at, int32_t *places) {
    const bool broadcasts = hlo_is(at, HLO_OP_BROADCAST);
    for (int32_t d = 0; d < at->shape->rank; d++) places[d] = d;
    if ((!broadcasts && !hlo_is(at, HLO_OP_RESHAPE)) || !spmd_is_free_to_move(at)) return at;
    const HloShape *inner = at->operands[0]->shape, *outer = at->shape;
    const HloInts dims = broadcasts ? HLO_ATTRIBUTES(at, Dimensions)->dimensions : (HloInts){NULL, 0};
    int32_t next = 0;
    bool fits = true;
    for (int32_t d = 0; d < outer->rank; d++) {
        const bool left = next < inner->rank;
        if (left && (broadcasts ? dims.items[next] == d : inner->dims[next] == outer->dims[d]))
            places[next++] = d;
        else
            fits &= outer->dims[d] == 1;
    }
    if (fits && next == inner->rank) return at->operands[0];
    for (int32_t d = 0; d < outer->rank; d++) places[d] = d;
    return at;
}

bool spmd_is_link(const HloInstruction *at) {
    return !at->sharding && spmd_is_free_to_move(at);
}

bool spmd_is_free_to_move(const HloInstruction *at) {
    return !at->control_predecessors.count && !at->control_successors.count && !hlo_shape_is_dynamic(at->shape) &&
           !hlo_shape_is_dynamic(at->operands[0]->shape);
}

// A pad of `size` elements by these amounts takes away no more than there is.
static bool is_plain(int64_t low, int64_t high, int64_t size) {
    return low >= -size && high >= -size && low + high + size >= 0;
}

static bool join_slice_of_pad(const HloInstruction *at, Joined *joined) {
    const HloInstruction *inner = at->operands[0];
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(at, Slice);
    const HloPadding *padding = &HLO_ATTRIBUTES(inner, Pad)->padding;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        const HloPadDimension *pad = &padding->items[d];
        const int64_t cut = inner->shape->dims[d] - slice->limits.items[d];
        joined->low[d] = pad->low - slice->starts.items[d];
        joined->high[d] = pad->high - cut;
        if (pad->interior || stride_of(slice, d) != 1 ||
            !is_plain(joined->low[d], joined->high[d], inner->operands[0]->shape->dims[d]))
            return false;
    }
    joined->value = inner->operands[1];
    return true;
}

// The only dimension in which a slice takes not every element; -1 if there are several or none.
static int32_t strided_dim(const HloInstruction *at) {
    int32_t found = -1;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (stride_of(HLO_ATTRIBUTES(at, Slice), d) == 1) continue;
        if (found >= 0) return -1;
        found = d;
    }
    return found;
}

// Whether a slice takes consecutive elements of `other`, another slice of the same array with the same strides, and
// from which on.
static bool is_part_of(const HloInstruction *at, const HloInstruction *other, int32_t dim, int64_t *from) {
    if (other == at || !hlo_is(other, HLO_OP_SLICE) || !spmd_is_link(other)) return false;
    const HloSliceAttributes *part = HLO_ATTRIBUTES(at, Slice), *all = HLO_ATTRIBUTES(other, Slice);
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (stride_of(part, d) != stride_of(all, d)) return false;
        if (d != dim && (part->starts.items[d] != all->starts.items[d] || at->shape->dims[d] != other->shape->dims[d]))
            return false;
    }
    const int64_t offset = part->starts.items[dim] - all->starts.items[dim], stride = stride_of(part, dim);
    *from = offset / stride;
    return offset >= 0 && offset % stride == 0 && at->shape->dims[dim] < other->shape->dims[dim] &&
           *from + at->shape->dims[dim] <= other->shape->dims[dim];
}

// Users of an array that are looked through for such a slice, at most.
enum { MOST_USERS = 64 };

static bool join_strided(const HloInstruction *at, Joined *joined) {
    const int32_t dim = strided_dim(at);
    HloInstruction *array = at->operands[0];
    if (dim < 0) return false;
    for (int64_t i = 0; i < array->users.count && i < MOST_USERS; i++) {
        HloInstruction *other = array->users.items[i];
        int64_t from;
        if (!is_part_of(at, other, dim, &from)) continue;
        for (int32_t d = 0; d < at->shape->rank; d++) {
            joined->starts[d] = d == dim ? from : 0;
            joined->limits[d] = joined->starts[d] + at->shape->dims[d];
            joined->strides[d] = 1;
        }
        joined->operand = other;
        joined->value = NULL;
        return true;
    }
    return false;
}

static bool join_slices(const HloInstruction *at, Joined *joined) {
    const HloInstruction *inner = at->operands[0];
    const HloSliceAttributes *outer = HLO_ATTRIBUTES(at, Slice), *first = HLO_ATTRIBUTES(inner, Slice);
    if (strided_dim(at) < 0 && strided_dim(inner) >= 0 && inner->users.count > 1) return false;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        const int64_t stride = stride_of(first, d), count = at->shape->dims[d];
        joined->starts[d] = first->starts.items[d] + outer->starts.items[d] * stride;
        if (__builtin_mul_overflow(stride, stride_of(outer, d), &joined->strides[d])) return false;
        if (count < 2) joined->strides[d] = 1;
        joined->limits[d] = count ? joined->starts[d] + (count - 1) * joined->strides[d] + 1 : joined->starts[d];
        if (joined->limits[d] > inner->operands[0]->shape->dims[d]) return false;
    }
    joined->value = NULL;
    return true;
}

static bool join_pads(const HloInstruction *at, Joined *joined) {
    const HloInstruction *inner = at->operands[0];
    for (int32_t d = 0; d < at->shape->rank; d++) {
        const HloPadDimension *a = &HLO_ATTRIBUTES(inner, Pad)->padding.items[d];
        const HloPadDimension *b = &HLO_ATTRIBUTES(at, Pad)->padding.items[d];
        joined->low[d] = a->low + b->low;
        joined->high[d] = a->high + b->high;
        const bool hides = (a->low < 0 && b->low > 0) || (a->high < 0 && b->high > 0);
        if (a->interior || b->interior || hides ||
            !is_plain(joined->low[d], joined->high[d], inner->operands[0]->shape->dims[d]))
            return false;
    }
    joined->value = inner->operands[1];
    return at->operands[1] == inner->operands[1];
}

// The scalar that all elements of an array are; NULL for any other array. *literal is set where it is in a constant.
static HloInstruction *value_of(const HloInstruction *at, const HloLiteral **literal) {
    *literal = NULL;
    if (at->sharding) return NULL;
    if (hlo_is(at, HLO_OP_BROADCAST) && hlo_shape_is_scalar(at->operands[0]->shape)) return at->operands[0];
    if (!hlo_is(at, HLO_OP_CONSTANT) || !hlo_literal_is_splat(hlo_constant_literal(at))) return NULL;
    *literal = hlo_constant_literal(at);
    return (HloInstruction *)at;
}

// The one part of a concatenation that is a slice, with all others arrays of one and the same scalar; -1 if it is
// another concatenation.
static int32_t shifted_part(const HloInstruction *at) {
    const HloInstruction *value = NULL;
    int32_t part = -1;
    for (int32_t i = 0; i < at->operand_count; i++) {
        const HloLiteral *literal;
        const HloInstruction *scalar = value_of(at->operands[i], &literal);
        if (scalar) {
            // A constant would have to be made as a scalar: what JAX writes are broadcasts.
            if (literal || (value && value != scalar)) return -1;
            value = scalar;
        } else if (part >= 0 || !hlo_is(at->operands[i], HLO_OP_SLICE)) {
            return -1;
        } else {
            part = i;
        }
    }
    return value ? part : -1;
}

static bool join_shift(const HloInstruction *at, Joined *joined) {
    const int32_t part = shifted_part(at);
    const int64_t along = HLO_ATTRIBUTES(at, Dimensions)->dimensions.items[0];
    if (part < 0 || !links(at->operands[part], at)) return false;
    const HloInstruction *slice = at->operands[part];
    const HloInstruction *array = slice->operands[0];
    const HloSliceAttributes *attributes = HLO_ATTRIBUTES(slice, Slice);
    int64_t before = 0, after = 0;
    for (int32_t i = 0; i < at->operand_count; i++) {
        if (i != part) *(i < part ? &before : &after) += at->operands[i]->shape->dims[along];
    }
    for (int32_t d = 0; d < at->shape->rank; d++) {
        joined->low[d] = -attributes->starts.items[d];
        joined->high[d] = attributes->limits.items[d] - array->shape->dims[d];
        // A pad cannot take elements away and put others in their place.
        if (d == along && ((before && joined->low[d]) || (after && joined->high[d]))) return false;
        if (d == along) joined->low[d] += before;
        if (d == along) joined->high[d] += after;
        if (stride_of(attributes, d) != 1 || !is_plain(joined->low[d], joined->high[d], array->shape->dims[d]))
            return false;
    }
    joined->operand = slice->operands[0];
    joined->value = at->operands[part ? 0 : 1]->operands[0];
    return true;
}

// Whether `at` ends a chain, and what of. The arrays of `joined` have room for its dimensions.
static bool join(const HloInstruction *at, Joined *joined) {
    if (!hlo_shape_is_array(at->shape) || hlo_shape_is_dynamic(at->shape) || !at->operand_count) return false;
    HloInstruction *inner = at->operands[0];
    joined->operand = hlo_is(at, HLO_OP_CONCATENATE) ? NULL : inner->operand_count ? inner->operands[0] : NULL;
    switch (at->opcode) {
        case HLO_OP_CONCATENATE: return join_shift(at, joined);
        case HLO_OP_PAD: return hlo_is(inner, HLO_OP_PAD) && links(inner, at) && join_pads(at, joined);
        case HLO_OP_SLICE:
            if (hlo_is(inner, HLO_OP_PAD)) return links(inner, at) && join_slice_of_pad(at, joined);
            if (hlo_is(inner, HLO_OP_SLICE) && links(inner, at) && join_slices(at, joined)) return true;
            return join_strided(at, joined);
        default: return false;
    }
}

bool spmd_is_elementwise(const HloInstruction *at) {
    return hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE) && !at->called_count && !hlo_instruction_has_side_effect(at) &&
           !hlo_op_is(at->opcode, HLO_OP_IS_NONDETERMINISTIC);
}

// ---- parts of what is computed of pads

// Ops between a slice and the pads below, one below the other, at most.
enum { MOST_DEPTH = 64 };

// Whether `at` takes a part of its operand, and which: a slice, or a pad that only takes away.
static bool takes_part(const HloInstruction *at, Joined *joined) {
    if (!hlo_is(at, HLO_OP_SLICE) && !hlo_is(at, HLO_OP_PAD)) return false;
    const HloShape *whole = at->operands[0]->shape;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (hlo_is(at, HLO_OP_SLICE)) {
            joined->starts[d] = HLO_ATTRIBUTES(at, Slice)->starts.items[d];
            if (stride_of(HLO_ATTRIBUTES(at, Slice), d) != 1) return false;
        } else {
            const HloPadDimension *pad = &HLO_ATTRIBUTES(at, Pad)->padding.items[d];
            joined->starts[d] = -pad->low;
            if (pad->interior || pad->low > 0 || pad->high > 0 || -pad->low > whole->dims[d]) return false;
        }
        joined->limits[d] = joined->starts[d] + at->shape->dims[d];
        joined->strides[d] = 1;
    }
    return true;
}

// Whether an array is one scalar, a pad, or computed elementwise of pads and scalars for nothing but its one user;
// *pads counts the pads.
static bool is_of_pads(const HloInstruction *at, int64_t *pads, int32_t depth) {
    const HloLiteral *literal;
    if (depth == 0 || !at->operand_count || !spmd_is_link(at)) return false;
    if (value_of(at, &literal)) return !literal;
    if (hlo_instruction_is_root(at) || at->users.count != 1) return false;
    if (hlo_is(at, HLO_OP_PAD)) {
        for (int32_t d = 0; d < at->shape->rank; d++)
            if (HLO_ATTRIBUTES(at, Pad)->padding.items[d].interior) return false;
        ++*pads;
        return true;
    }
    if (!spmd_is_elementwise(at)) return false;
    for (int32_t i = 0; i < at->operand_count; i++)
        if (!hlo_shape_is_scalar(at->operands[i]->shape) && !is_of_pads(at->operands[i], pads, depth - 1)) return false;
    return true;
}

// The part of an array that is_of_pads(), before `end`.
static HloInstruction *emit_part(HloInstruction *at, HloInstruction *end, const Joined *part) {
    HloArena *arena = at->parent->module->arena;
    const int64_t rank = at->shape->rank;
    const HloShape *shape = hlo_shape_with_type(arena, end->shape, at->shape->type);
    HloInstruction *made;
    const HloLiteral *literal;
    if (hlo_is(at, HLO_OP_PAD)) {
        HloSliceAttributes attributes = {hlo_ints(arena, part->starts, rank), hlo_ints(arena, part->limits, rank),
                                         hlo_ints(arena, part->strides, rank)};
        made = hlo_instruction_new(at->parent, HLO_OP_SLICE, shape, &at, 1, &attributes, NULL);
    } else {
        HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, at->operand_count);
        const bool uniform = value_of(at, &literal) != NULL;
        for (int32_t i = 0; i < at->operand_count; i++) {
            HloInstruction *operand = at->operands[i];
            operands[i] = uniform || hlo_shape_is_scalar(operand->shape) ? operand : emit_part(operand, end, part);
        }
        made = hlo_instruction_clone(at->parent, at, shape, operands, at->operand_count);
    }
    hlo_instruction_move_before(made, end);
    return made;
}

// Whether `at` takes a part of what is computed of two pads or more.
static bool is_part_of_pads(const HloInstruction *at, Joined *part) {
    if (!hlo_shape_is_array(at->shape) || !at->operand_count || hlo_shape_is_dynamic(at->shape) ||
        !takes_part(at, part) || hlo_is(at->operands[0], HLO_OP_PAD))
        return false;
    int64_t pads = 0;
    return is_of_pads(at->operands[0], &pads, MOST_DEPTH) && pads > 1;
}

// Computes that part of parts. What is new comes right before `at`; returns the first of it, where chains may end.
static HloInstruction *split_part(HloInstruction *at, const Joined *part) {
    HloInstruction *before = at->previous, *inner = at->operands[0];
    HloInstruction *made = emit_part(inner, at, part), *first = before->next;
    hlo_instruction_copy_annotations(made, at);
    const char *name = at->name;
    hlo_instruction_replace_uses(at, made);
    hlo_instruction_remove(at);
    hlo_instruction_set_name(made, name);
    spmd_remove_unused(inner);
    return first;
}

// Whether an array that several ops use is computed elementwise of nothing but pads and scalars, and only parts of it
// are used; low and high get what all of the pads add at least.
static bool is_used_in_parts(const HloInstruction *at, Joined *part) {
    if (!spmd_is_link(at) || !spmd_is_elementwise(at) || hlo_instruction_is_root(at) || at->users.count < 2)
        return false;
    for (int64_t i = 0; i < at->users.count; i++)
        if (!takes_part(at->users.items[i], part)) return false;
    return true;
}

// Lowers part->low and part->high to what the pads below `at` add. False if there is something else below it.
static bool find_common(const HloInstruction *at, Joined *part, int32_t depth) {
    const HloLiteral *literal;
    int64_t pads = 0;
    if (value_of(at, &literal)) return !literal && spmd_is_link(at);
    if (hlo_is(at, HLO_OP_PAD)) {
        if (!is_of_pads(at, &pads, 1)) return false;
        for (int32_t d = 0; d < at->shape->rank; d++) {
            const HloPadDimension *pad = &HLO_ATTRIBUTES(at, Pad)->padding.items[d];
            if (pad->low < part->low[d]) part->low[d] = pad->low < 0 ? 0 : pad->low;
            if (pad->high < part->high[d]) part->high[d] = pad->high < 0 ? 0 : pad->high;
        }
        return true;
    }
    if (depth == 0 || !at->operand_count || !spmd_is_link(at) || !spmd_is_elementwise(at)) return false;
    for (int32_t i = 0; i < at->operand_count; i++) {
        const HloInstruction *operand = at->operands[i];
        if (hlo_shape_is_scalar(operand->shape)) continue;
        if (operand->users.count != 1 || !find_common(operand, part, depth - 1)) return false;
    }
    return true;
}

// Whether `at` takes a part of an array, as others do, that is computed of pads which have something in common.
static bool has_common_padding(const HloInstruction *at, Joined *part) {
    if (!at->operand_count || !hlo_shape_is_array(at->shape) || !takes_part(at, part)) return false;
    const HloInstruction *whole = at->operands[0];
    if (hlo_shape_is_dynamic(whole->shape) || !whole->operand_count || !is_used_in_parts(whole, part)) return false;
    for (int32_t d = 0; d < at->shape->rank; d++) part->low[d] = part->high[d] = INT64_MAX;
    if (!find_common(whole, part, MOST_DEPTH)) return false;
    int64_t most = 0;
    for (int32_t d = 0; d < at->shape->rank; d++) {
        if (part->low[d] == INT64_MAX) return false;  // of scalars alone
        if (part->low[d] > most) most = part->low[d];
        if (part->high[d] > most) most = part->high[d];
    }
    return most > 0;
}

// What `at` is in the padding that all pads have in common, a scalar, if `dims` is NULL; else what it is without that
// padding, with these dimensions. It comes before `end`.
static HloInstruction *emit_without(HloInstruction *at, HloInstruction *end, const Joined *part, const int64_t *dims) {
    HloArena *arena = at->parent->module->arena;
    const int64_t rank = at->shape->rank;
    const HloLiteral *literal;
    if (hlo_shape_is_scalar(at->shape)) return at;
    if (!dims && hlo_is(at, HLO_OP_PAD)) return at->operands[1];
    HloInstruction *value = value_of(at, &literal);
    if (!dims && value) return value;
    const HloShape *shape = hlo_shape_array(arena, at->shape->type, dims, dims ? rank : 0);
    HloInstruction **operands = HLO_ARENA_NEW(arena, HloInstruction *, at->operand_count), *made;
    if (hlo_is(at, HLO_OP_PAD)) {
        HloPadDimension *left = HLO_ARENA_NEW(arena, HloPadDimension, rank);
        bool pads = false;
        for (int64_t d = 0; d < rank; d++) {
            left[d] = HLO_ATTRIBUTES(at, Pad)->padding.items[d];
            left[d].low -= part->low[d];
            left[d].high -= part->high[d];
            pads |= left[d].low || left[d].high;
        }
        if (!pads) return at->operands[0];
        HloPadAttributes attributes = {{left, rank}};
        made = hlo_instruction_new(at->parent, HLO_OP_PAD, shape, at->operands, 2, &attributes, NULL);
    } else {
        for (int32_t i = 0; i < at->operand_count; i++)
            operands[i] = value ? at->operands[i] : emit_without(at->operands[i], end, part, dims);
        made = hlo_instruction_clone(at->parent, at, shape, operands, at->operand_count);
    }
    hlo_instruction_move_before(made, end);
    return made;
}

// Pads what is computed of pads instead of these. What is new comes before the array, the first of it is returned.
static HloInstruction *pad_later(HloInstruction *whole, const Joined *part) {
    HloArena *arena = whole->parent->module->arena;
    const int64_t rank = whole->shape->rank;
    HloInstruction *before = whole->previous;
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, rank);
    HloPadDimension *padding = HLO_ARENA_NEW(arena, HloPadDimension, rank);
    for (int64_t d = 0; d < rank; d++) {
        padding[d] = (HloPadDimension){.low = part->low[d], .high = part->high[d]};
        dims[d] = whole->shape->dims[d] - part->low[d] - part->high[d];
    }
    HloInstruction *operands[2] = {emit_without(whole, whole, part, dims), emit_without(whole, whole, part, NULL)};
    HloPadAttributes attributes = {{padding, rank}};
    HloInstruction *made = hlo_instruction_new(whole->parent, HLO_OP_PAD, whole->shape, operands, 2, &attributes, NULL);
    hlo_instruction_move_before(made, whole);
    hlo_instruction_copy_annotations(made, whole);
    hlo_instruction_replace_uses(whole, made);
    HloInstruction *first = before->next;
    spmd_remove_unused(whole);
    return first;
}

static Joined room_for(HloArena *arena, int64_t rank) {
    int64_t *room = HLO_ARENA_NEW(arena, int64_t, 5 * rank + 1);
    return (Joined){.low = room,
                    .high = room + rank,
                    .starts = room + 2 * rank,
                    .limits = room + 3 * rank,
                    .strides = room + 4 * rank};
}

// Whether an op may end a chain, by its opcode.
static bool may_end(HloOpcode opcode) {
    return opcode == HLO_OP_SLICE || opcode == HLO_OP_PAD || opcode == HLO_OP_CONCATENATE ||
           opcode == HLO_OP_REDUCE_WINDOW || opcode == HLO_OP_CONVOLUTION || opcode == HLO_OP_SCATTER ||
           opcode == HLO_OP_DYNAMIC_UPDATE_SLICE;
}

bool spmd_has_chains(const HloModule *module) {
    HloArena *scratch = hlo_arena_scratch_new();
    bool found = spmd_has_reversals(module);
    for (int64_t c = 0; c < module->computations.count && !found; c++) {
        for (const HloInstruction *at = module->computations.items[c]->first; at && !found; at = at->next) {
            if (!may_end(at->opcode)) continue;
            Joined joined = room_for(scratch, hlo_shape_is_array(at->shape) ? at->shape->rank : 0);
            found = spmd_is_padded_window(at) || spmd_is_placed_window(at) || join(at, &joined) ||
                    is_part_of_pads(at, &joined) || has_common_padding(at, &joined);
        }
    }
    hlo_arena_free(scratch);
    return found;
}

// The op that replaces `at`, before it, with its annotations.
static HloInstruction *emit(HloInstruction *at, const Joined *joined) {
    HloArena *arena = at->parent->module->arena;
    const int64_t rank = at->shape->rank;
    HloInstruction *operands[2] = {joined->operand, joined->value}, *made;
    if (joined->value) {
        HloPadDimension *dims = HLO_ARENA_NEW(arena, HloPadDimension, rank);
        for (int64_t d = 0; d < rank; d++) dims[d] = (HloPadDimension){.low = joined->low[d], .high = joined->high[d]};
        HloPadAttributes attributes = {{dims, rank}};
        made = hlo_instruction_new(at->parent, HLO_OP_PAD, at->shape, operands, 2, &attributes, at->name);
    } else {
        // What a slice shares its operand with may come later.
        if (joined->operand->operand_count && joined->operand->operands[0] == at->operands[0])
            hlo_instruction_move_after(joined->operand, at->operands[0]);
        HloSliceAttributes attributes = {hlo_ints(arena, joined->starts, rank), hlo_ints(arena, joined->limits, rank),
                                         hlo_ints(arena, joined->strides, rank)};
        made = hlo_instruction_new(at->parent, HLO_OP_SLICE, at->shape, operands, 1, &attributes, at->name);
    }
    hlo_instruction_copy_annotations(made, at);
    hlo_instruction_move_before(made, at);
    return made;
}

// Operands come first, so that a chain of several ops becomes one step by step.
void spmd_join_chains(HloModule *module) {
    spmd_join_reversals(module);
    HloArena *scratch = hlo_arena_scratch_new();
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            if (!may_end(at->opcode) || at->control_predecessors.count || at->control_successors.count) continue;
            Joined joined = room_for(scratch, hlo_shape_is_array(at->shape) ? at->shape->rank : 0);
            if (is_part_of_pads(at, &joined)) {
                next = split_part(at, &joined);
                continue;
            }
            if (has_common_padding(at, &joined)) {
                next = pad_later(at->operands[0], &joined);
                continue;
            }
            HloInstruction *made = spmd_is_padded_window(at)   ? spmd_join_padded_window(at)
                                   : spmd_is_placed_window(at) ? spmd_join_placed_window(at)
                                   : join(at, &joined)         ? emit(at, &joined)
                                                               : NULL;
            if (!made) continue;
            const char *name = at->name;
            hlo_instruction_replace_uses(at, made);
            hlo_instruction_remove(at);
            hlo_instruction_set_name(made, name);
        }
    }
    hlo_arena_free(scratch);
}
