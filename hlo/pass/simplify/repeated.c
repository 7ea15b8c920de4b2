// SPDX-License-Identifier: Apache-2.0
// Rules for repeated values: ops on broadcasts are done once and then repeated, and ops that only repeat or pad become
// broadcasts or pads.
//
// Programs broadcast early, because their authors think in whole arrays; doing an op once and repeating the result is
// cheaper by the factor of the broadcast. Elementwise ops are pure functions of their elements, so this changes no bit.
//
//   add(broadcast(f32[8] x), broadcast(f32[8] y))        ->   broadcast(add(x, y))
//   concatenate(x, x, x), dimensions={0}, x of size 1    ->   broadcast(reshape(x))
#include <assert.h>
#include <math.h>

#include "hlo/pass/simplify/simplify.h"

static HloInts dimensions_of(const HloInstruction *i) {
    return HLO_ATTRIBUTES(i, Dimensions)->dimensions;
}

// ---------------------------------------------------------------------------------------------------------------------
// Elementwise ops

enum { MOST_OPERANDS = 3 };

// The broadcast to whose source the op can be applied: all operands repeat along the same dimensions, or are scalars.
// NULL if there is none.
static HloInstruction *common_broadcast(const HloInstruction *i) {
    HloInstruction *widest = NULL;
    for (int32_t k = 0; k < i->operand_count; k++) {
        HloInstruction *x = i->operands[k];
        if (x->shape->rank == 0 && i->shape->rank != 0) continue;  // of a select or clamp
        if (x->opcode != HLO_OP_BROADCAST) return NULL;
        if (!widest || hlo_pass_repeats_scalar(widest)) widest = x;
        if (!hlo_pass_repeats_scalar(x) && !hlo_ints_equal(dimensions_of(x), dimensions_of(widest))) return NULL;
    }
    return widest;
}

// False if float types mix, since the result's type then cannot be inferred from the operands.
static bool has_one_type(const HloInstruction *i) {
    HloType type = i->operands[i->operand_count - 1]->shape->type;
    for (int32_t k = i->opcode == HLO_OP_SELECT; k < i->operand_count; k++) {
        if (i->operands[k]->shape->type != type) return false;
    }
    bool changes_type = i->opcode == HLO_OP_COMPARE || i->opcode == HLO_OP_CONVERT || i->opcode == HLO_OP_ABS;
    return changes_type || i->shape->type == type;
}

// op(broadcast(x), broadcast(y)) = broadcast(op(x, y)).
static HloInstruction *broadcast_later(HloInstruction *i) {
    assert(i->operand_count > 0 && i->operand_count <= MOST_OPERANDS);
    const HloInstruction *widest = common_broadcast(i);
    if (!widest || !has_one_type(i)) return NULL;
    HloInts dims = hlo_shape_dims(widest->operands[0]->shape), mapping = dimensions_of(widest);
    if (mapping.count == i->shape->rank) return NULL;  // it only permutes
    HloInstruction *sources[MOST_OPERANDS];
    for (int32_t k = 0; k < i->operand_count; k++) {
        HloInstruction *x = i->operands[k], *source = x->shape->rank == 0 ? x : x->operands[0];
        bool widen = dims.count > 0 && source->shape->rank == 0 && x->shape->rank != 0;
        sources[k] = widen ? hlo_pass_broadcast(i, source, dims, (HloInts){NULL, 0}) : source;
    }
    HloInstruction *once =
        hlo_pass_make(i, &(HloBuildRequest){.opcode = i->opcode,
                                            .operands = sources,
                                            .operand_count = i->operand_count,
                                            .attributes = i->attributes,
                                            .type = i->opcode == HLO_OP_CONVERT ? i->shape->type : HLO_INVALID});
    assert(once->shape->type == i->shape->type);
    return hlo_pass_broadcast(i, once, hlo_shape_dims(i->shape), mapping);
}

// ---------------------------------------------------------------------------------------------------------------------
// Slices, reductions, transposes

// Only the dimensions along which the broadcast does not repeat need to be sliced.
static HloInstruction *dynamic_slice_of_broadcast(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DYNAMIC_SLICE));
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_BROADCAST || i->operand_count - 1 != x->shape->rank) return NULL;
    if (x->shape->rank > 0 && i->operands[1]->shape->rank != 0) return NULL;  // starts in one array
    HloInts mapping = dimensions_of(x), sizes = hlo_shape_dims(i->shape);
    HloInstruction *source = x->operands[0];
    int64_t *cut = hlo_pass_ints(i, mapping.count);
    HloInstruction **operands = HLO_ARENA_NEW(i->parent->module->arena, HloInstruction *, mapping.count + 1);
    bool whole = true;
    operands[0] = source;
    for (int64_t d = 0; d < mapping.count; d++) {
        cut[d] = sizes.items[mapping.items[d]];
        whole = whole && cut[d] == source->shape->dims[d];
        operands[d + 1] = i->operands[mapping.items[d] + 1];
    }
    if (!whole) {
        source = hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_DYNAMIC_SLICE,
                                                     .operands = operands,
                                                     .operand_count = mapping.count + 1,
                                                     .attributes = &(HloDynamicSliceAttributes){{cut, mapping.count}}});
    }
    return hlo_pass_broadcast(i, source, sizes, mapping);
}

// The combination of `count` equal integers under `opcode`: one of them, or `count` times one, or NULL.
static HloInstruction *combine_equal(const HloInstruction *i, HloOpcode opcode, HloInstruction *x, int64_t count) {
    switch (opcode) {
        case HLO_OP_MAXIMUM:
        case HLO_OP_MINIMUM:
        case HLO_OP_AND:
        case HLO_OP_OR: return x;
        case HLO_OP_ADD: break;
        default: return NULL;
    }
    if (x->shape->type == HLO_PRED) return x;  // the sum of truth values is "or"
    HloInstruction *times = hlo_pass_integer(i, x->shape->type, count);
    if (x->shape->rank) times = hlo_pass_broadcast(i, times, hlo_shape_dims(x->shape), (HloInts){NULL, 0});
    return hlo_pass_binary(i, HLO_OP_MULTIPLY, x, times);
}

// True if a reduction by `opcode` from `initial` over equal elements gives the bits of one of them: for exact types,
// and for extrema of floats, which are not rounded, from an initial value beyond all of them (zeros of both signs would
// tie).
static bool keeps_bits(HloOpcode opcode, const HloInstruction *initial) {
    if (hlo_simplify_is_exact(initial)) return true;
    if (!hlo_type_is_float(initial->shape->type)) return false;
    return (opcode == HLO_OP_MAXIMUM && hlo_pass_is_all(initial, -(double)INFINITY)) ||
           (opcode == HLO_OP_MINIMUM && hlo_pass_is_all(initial, (double)INFINITY));
}

// A reduction along dimensions along which a broadcast repeats, for integers or extrema. (Sums of floats would be
// rounded differently.)
static HloInstruction *reduce_of_broadcast(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE));
    HloInstruction *x = i->operands[0];
    HloOpcode opcode = hlo_computation_binary_opcode(i->called[0]);
    if (i->operand_count != 2 || x->opcode != HLO_OP_BROADCAST || x->shape->type != i->shape->type) return NULL;
    if (!keeps_bits(opcode, i->operands[1])) return NULL;
    HloInts reduced = dimensions_of(i), mapping = dimensions_of(x);
    int64_t *moved = hlo_pass_ints(i, mapping.count), count = 1;
    for (int64_t d = 0; d < reduced.count; d++) count *= x->shape->dims[reduced.items[d]];
    if (count == 0) return NULL;
    for (int64_t m = 0; m < mapping.count; m++) {
        if (hlo_ints_contain(reduced, mapping.items[m])) return NULL;
        moved[m] = mapping.items[m];
        for (int64_t d = 0; d < reduced.count; d++) moved[m] -= reduced.items[d] < mapping.items[m];
    }
    HloInstruction *one = combine_equal(i, opcode, x->operands[0], count), *initial = i->operands[1];
    if (!one) return NULL;
    HloInts dims = hlo_shape_dims(i->shape);
    if (dims.count) {
        one = hlo_pass_broadcast(i, one, dims, (HloInts){moved, mapping.count});
        initial = hlo_pass_broadcast(i, initial, dims, (HloInts){NULL, 0});
    }
    return hlo_pass_binary(i, opcode, initial, one);
}

// A broadcast without new dimensions is a transpose.
static HloInstruction *broadcast_is_transpose(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_BROADCAST));
    HloInts mapping = dimensions_of(i);
    if (mapping.count != i->shape->rank) return NULL;
    int64_t *permutation = hlo_pass_ints(i, mapping.count);
    for (int64_t d = 0; d < mapping.count; d++) permutation[mapping.items[d]] = d;
    return hlo_pass_transpose(i, i->operands[0], (HloInts){permutation, mapping.count});
}

// ---------------------------------------------------------------------------------------------------------------------
// Concatenations and gathers

// The same array repeated along a dimension of size 1 is a broadcast.
static HloInstruction *concatenate_of_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CONCATENATE));
    HloInstruction *x = i->operands[0];
    int64_t dimension = dimensions_of(i).items[0], rank = i->shape->rank;
    if (i->operand_count < 2 || x->shape->dims[dimension] != 1 || x->shape->type != i->shape->type) return NULL;
    for (int32_t k = 1; k < i->operand_count; k++) {
        if (i->operands[k] != x) return NULL;
    }
    int64_t *dims = hlo_pass_ints(i, rank), *mapping = hlo_pass_ints(i, rank), count = 0;
    for (int64_t d = 0; d < rank; d++) {
        if (d == dimension) continue;
        dims[count] = x->shape->dims[d];
        mapping[count++] = d;
    }
    HloInstruction *without = hlo_pass_reshape(i, x, (HloInts){dims, count});
    return hlo_pass_broadcast(i, without, hlo_shape_dims(i->shape), (HloInts){mapping, count});
}

// A gather from an array of one element repeats that element: starts are clamped.
static HloInstruction *gather_of_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_GATHER));
    HloInstruction *x = i->operands[0];
    if (hlo_shape_elements(x->shape) != 1 || x->shape->type != i->shape->type) return NULL;
    HloInstruction *scalar = x->shape->rank ? hlo_pass_reshape(i, x, (HloInts){NULL, 0}) : x;
    return i->shape->rank ? hlo_pass_broadcast(i, scalar, hlo_shape_dims(i->shape), (HloInts){NULL, 0}) : scalar;
}

// clamp(broadcast(a), x, broadcast(b)) of scalars a and b = clamp(a, x, b). Programs from StableHLO have either form.
static HloInstruction *clamp_by_scalars(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CLAMP));
    HloInstruction *operands[] = {i->operands[0], i->operands[1], i->operands[2]};
    if (i->shape->rank == 0 || (operands[0]->shape->rank == 0 && operands[2]->shape->rank == 0)) return NULL;
    for (int k = 0; k < 3; k += 2) {
        if (operands[k]->shape->rank == 0) continue;
        if (!hlo_pass_repeats_scalar(operands[k])) return NULL;
        operands[k] = operands[k]->operands[0];
    }
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_CLAMP, .operands = operands, .operand_count = 3});
}

// clang-format off
static const HloSimplifyRule rules[] = {
    {HLO_OP_ABS, broadcast_later},
    {HLO_OP_CONVERT, broadcast_later},
    {HLO_OP_COS, broadcast_later},
    {HLO_OP_EXP, broadcast_later},
    {HLO_OP_FLOOR, broadcast_later},
    {HLO_OP_LOG, broadcast_later},
    {HLO_OP_LOGISTIC, broadcast_later},
    {HLO_OP_NEGATE, broadcast_later},
    {HLO_OP_NOT, broadcast_later},
    {HLO_OP_RSQRT, broadcast_later},
    {HLO_OP_SIN, broadcast_later},
    {HLO_OP_SQRT, broadcast_later},
    {HLO_OP_TANH, broadcast_later},
    {HLO_OP_ADD, broadcast_later},
    {HLO_OP_AND, broadcast_later},
    {HLO_OP_COMPARE, broadcast_later},
    {HLO_OP_DIVIDE, broadcast_later},
    {HLO_OP_MAXIMUM, broadcast_later},
    {HLO_OP_MINIMUM, broadcast_later},
    {HLO_OP_MULTIPLY, broadcast_later},
    {HLO_OP_OR, broadcast_later},
    {HLO_OP_POWER, broadcast_later},
    {HLO_OP_REMAINDER, broadcast_later},
    {HLO_OP_SUBTRACT, broadcast_later},
    {HLO_OP_XOR, broadcast_later},
    {HLO_OP_CLAMP, broadcast_later},
    {HLO_OP_CLAMP, clamp_by_scalars},
    {HLO_OP_SELECT, broadcast_later},
    {HLO_OP_DYNAMIC_SLICE, dynamic_slice_of_broadcast},
    {HLO_OP_REDUCE, reduce_of_broadcast},
    {HLO_OP_BROADCAST, broadcast_is_transpose},
    {HLO_OP_CONCATENATE, concatenate_of_one},
    {HLO_OP_GATHER, gather_of_one},
};
// clang-format on

HloSimplifyTable hlo_simplify_repeated(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
