// SPDX-License-Identifier: Apache-2.0
// Has permutes send elements of the arrays that they come from, not of those that the elements were put into: what is
// the same then has the same name, and is sent once (share.c, merge.c).
//
//     %p = pad(%odd), padding=1_0_1     %i = add(pad(%even), padding=0_1_1, %p), an interleaving
//     collective-permute(slice(%i), the last element)     is     collective-permute(slice(%odd), the last element) + 0
//
// In an associative scan each level puts the level below between new elements, and moves by one element: the last one
// of a shard is the same in all levels.
#include <assert.h>
#include <string.h>

#include "hlo/pass/support.h"
#include "spmd_partitioner/passes/passes.h"

// Arrays that one permute is followed through, at most.
enum { MOST_STEPS = 64 };

// Elements starts[d], starts[d] + strides[d] … of an array, as many as the sent array has along dimension d.
typedef struct Part {
    HloInstruction *array;
    int64_t *starts, *strides;
    const int64_t *sizes;
    bool adds_zero;  // the sent elements are these plus zero: a negative zero becomes a positive one
} Part;

typedef enum Place {
    PLACE_INSIDE,   // all elements are the operand's
    PLACE_PADDING,  // none is
    PLACE_MIXED,
} Place;

// Where the part is along dimension `d` of a pad; changes the part to that of the operand if it is inside.
static Place step_into(const HloPadDimension *pad, int64_t operand, int64_t d, Part *part) {
    const int64_t gap = pad->interior + 1, size = part->sizes[d], step = size > 1 ? part->strides[d] : gap;
    const int64_t first = part->starts[d] - pad->low, last = first + (size - 1) * step;
    if (last < 0 || first > (operand - 1) * gap) return PLACE_PADDING;
    if (step % gap) return PLACE_MIXED;
    if (first % gap) return PLACE_PADDING;
    if (first < 0 || last > (operand - 1) * gap) return PLACE_MIXED;
    part->starts[d] = first / gap;
    part->strides[d] = step / gap;
    return PLACE_INSIDE;
}

static Part copy_part(HloArena *scratch, const Part *part) {
    const size_t size = (size_t)part->array->shape->rank * sizeof(*part->starts);
    Part copy = *part;
    copy.starts = hlo_arena_copy(scratch, part->starts, size);
    copy.strides = hlo_arena_copy(scratch, part->strides, size);
    return copy;
}

// Goes from a pad to its operand. What is in the padding along one dimension is nowhere in the operand.
static Place enter_pad(HloArena *scratch, Part *part) {
    const HloPadding pads = HLO_ATTRIBUTES(part->array, Pad)->padding;
    Part inner = copy_part(scratch, part);
    Place place = PLACE_INSIDE;
    for (int32_t d = 0; d < part->array->shape->rank; d++) {
        const Place here = step_into(&pads.items[d], part->array->operands[0]->shape->dims[d], d, &inner);
        if (here == PLACE_PADDING) return PLACE_PADDING;
        if (here == PLACE_MIXED) place = PLACE_MIXED;
    }
    if (place != PLACE_INSIDE) return place;
    inner.array = part->array->operands[0];
    *part = inner;
    return PLACE_INSIDE;
}

// Whether all elements of the part of `array` are the padding of a pad with zeros.
static bool is_zero(HloArena *scratch, const Part *part, HloInstruction *array) {
    Part zero = *part;
    zero.array = array;
    if (!hlo_is(array, HLO_OP_PAD) || enter_pad(scratch, &zero) != PLACE_PADDING) return false;
    if (!hlo_is(array->operands[1], HLO_OP_CONSTANT)) return false;
    const HloLiteral *value = hlo_constant_literal(array->operands[1]);
    // f8e8m0fnu has no zero: there these bits are the least number.
    return hlo_literal_is_zero(value) && hlo_literal_get_complex(value, 0) == 0;
}

// Goes from the sum of two arrays to the one that the other adds zeros to.
static bool enter_sum(HloArena *scratch, Part *part) {
    HloInstruction *sum = part->array;
    for (int32_t i = 0; i < 2; i++) {
        if (!is_zero(scratch, part, sum->operands[i])) continue;
        part->array = sum->operands[1 - i];
        const HloType type = sum->shape->type;
        part->adds_zero |= hlo_type_is_float(type) || hlo_type_is_complex(type);
        return true;
    }
    return false;
}

static bool enter_concatenate(Part *part) {
    const int64_t d = HLO_ATTRIBUTES(part->array, Dimensions)->dimensions.items[0];
    int64_t before = 0;
    for (int32_t i = 0; i < part->array->operand_count; i++) {
        HloInstruction *operand = part->array->operands[i];
        const int64_t first = part->starts[d] - before, last = first + (part->sizes[d] - 1) * part->strides[d];
        before += operand->shape->dims[d];
        if (first < 0 || last >= operand->shape->dims[d]) continue;
        part->starts[d] = first;
        part->array = operand;
        return true;
    }
    return false;
}

static void enter_slice(Part *part) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(part->array, Slice);
    for (int32_t d = 0; d < part->array->shape->rank; d++) {
        const int64_t stride = slice->strides.count ? slice->strides.items[d] : 1;
        part->starts[d] = slice->starts.items[d] + part->starts[d] * stride;
        // A stride beyond the end of an array takes one element, and may be of any size.
        part->strides[d] = part->sizes[d] > 1 ? part->strides[d] * stride : 1;
    }
    part->array = part->array->operands[0];
}

// Goes on to an array that has the same elements. False at the array that they come from.
static bool step_back(HloArena *scratch, Part *part) {
    switch (part->array->opcode) {
        case HLO_OP_ADD:
        case HLO_OP_OR: return enter_sum(scratch, part);
        case HLO_OP_CONCATENATE: return enter_concatenate(part);
        case HLO_OP_PAD: return enter_pad(scratch, part) == PLACE_INSIDE;
        case HLO_OP_SLICE: enter_slice(part); return true;
        default: return false;
    }
}

// The part as an array, made before `next`.
static HloInstruction *cut_out(const Part *part, HloInstruction *next) {
    const HloShape *shape = part->array->shape;
    int64_t *starts = hlo_pass_ints(next, shape->rank), *limits = hlo_pass_ints(next, shape->rank),
            *strides = hlo_pass_ints(next, shape->rank);
    bool whole = true;
    for (int32_t d = 0; d < shape->rank; d++) {
        starts[d] = part->starts[d];
        strides[d] = part->sizes[d] > 1 ? part->strides[d] : 1;
        limits[d] = starts[d] + (part->sizes[d] - 1) * strides[d] + 1;
        whole &= part->sizes[d] == shape->dims[d];
    }
    if (whole) return part->array;
    HloInstruction *slice = hlo_pass_slice(next, part->array, (HloInts){starts, shape->rank},
                                           (HloInts){limits, shape->rank}, (HloInts){strides, shape->rank});
    hlo_instruction_move_before(slice, next);
    return slice;
}

// `sent` plus zero, before `next`.
static HloInstruction *add_zero(HloInstruction *sent, HloInstruction *next) {
    HloInstruction *zero = hlo_pass_splat(next, sent->shape->type, hlo_shape_dims(sent->shape), 0);
    HloInstruction *sum = hlo_pass_binary(next, HLO_OP_ADD, sent, zero);
    for (int32_t i = 0; i < zero->operand_count; i++) hlo_instruction_move_before(zero->operands[i], next);
    hlo_instruction_move_before(zero, next);
    hlo_instruction_move_before(sum, next);
    return sum;
}

static bool trace(HloInstruction *at, HloArena *scratch) {
    const HloShape *shape = at->shape;
    Part part = {.array = at->operands[0], .sizes = shape->dims};
    part.starts = HLO_ARENA_NEW(scratch, int64_t, shape->rank);
    part.strides = HLO_ARENA_NEW(scratch, int64_t, shape->rank);
    for (int32_t d = 0; d < shape->rank; d++) part.strides[d] = 1;
    bool moved = false;
    for (int32_t i = 0; i < MOST_STEPS; i++) {
        const bool slice = hlo_is(part.array, HLO_OP_SLICE);
        if (!step_back(scratch, &part)) break;
        moved |= !slice;
    }
    if (!moved) return false;
    HloInstruction *operand = cut_out(&part, at);
    if (!hlo_shape_equal(operand->shape, shape, HLO_COMPARE_ALL)) {
        spmd_remove_unused(operand);
        return false;
    }
    HloInstruction *sent = hlo_instruction_clone(at->parent, at, shape, &operand, 1);
    hlo_instruction_move_before(sent, at);
    hlo_instruction_replace_uses(at, part.adds_zero ? add_zero(sent, at) : sent);
    spmd_remove_unused(at);
    return true;
}

bool spmd_trace_permutes(HloModule *module, HloArena *scratch) {
    bool changed = false;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first, *next; at; at = next) {
            next = at->next;
            if (!hlo_is(at, HLO_OP_COLLECTIVE_PERMUTE) || at == at->parent->root || !spmd_may_replace(at)) continue;
            if (!hlo_shape_is_array(at->shape) || hlo_shape_is_dynamic(at->shape) || !hlo_shape_elements(at->shape))
                continue;
            const HloArenaMark mark = hlo_arena_mark(scratch);
            changed |= trace(at, scratch);
            hlo_arena_reset(scratch, mark);
        }
    }
    return changed;
}
