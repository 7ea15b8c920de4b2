// SPDX-License-Identifier: Apache-2.0
// Sizes and masks of the pass dynamic-padder.
//
// The table of sizes has one entry per dynamic dimension of a leaf of a value. A later entry for the same dimension
// replaces an earlier one, so a rule may copy the sizes of an operand and then set those that differ. Sizes are
// instructions of the same computation as their value.
#include <assert.h>
#include <math.h>

#include "hlo/ir/custom_call.h"
#include "hlo/pass/pad/padder.h"

// A key of 34 bits for the instruction, 20 for the leaf, 10 for the dimension.
static uint64_t place_of(const HloInstruction *value, int64_t leaf, int64_t dim) {
    assert(leaf >= 0 && leaf < (1 << 20) && dim >= 0 && dim < (1 << 10)); /* they are stored in one number */
    return (uint64_t)value->id << 30 | (uint64_t)leaf << 10 | (uint64_t)dim;
}

HloInstruction *hlo_padder_size(const HloPadder *padder, const HloInstruction *value, int64_t leaf, int64_t dim) {
    const int64_t *place = hlo_int_map_find(&padder->places, place_of(value, leaf, dim));
    return place ? padder->sizes.items[*place] : NULL;
}

HloInstruction *hlo_padder_any_size(const HloPadder *padder, const HloInstruction *like, const HloInstruction *value,
                                    int64_t leaf, int64_t dim) {
    HloInstruction *size = hlo_padder_size(padder, value, leaf, dim);
    return size ? size : hlo_padder_number(like, hlo_shape_leaf(value->shape, leaf)->dims[dim]);
}

// A dimension declared static needs no size even if an operand's was dynamic: the program declares that it is full.
void hlo_padder_set_size(HloPadder *padder, HloInstruction *value, int64_t leaf, int64_t dim, HloInstruction *size) {
    const HloShape *shape = hlo_shape_leaf(padder->declared, leaf);
    if (!size || !shape->dynamic || !shape->dynamic[dim]) return;
    assert(size->parent == value->parent && hlo_shape_is_scalar(size->shape) && size->shape->type == HLO_S32);
    hlo_int_map_set(padder->scratch, &padder->places, place_of(value, leaf, dim), padder->sizes.count);
    hlo_vector_push(padder->scratch, &padder->sizes, size);
}

bool hlo_padder_is_sized(const HloPadder *padder, const HloInstruction *value) {
    const int64_t leaves = hlo_shape_leaf_count(value->shape);
    for (int64_t i = 0; i < leaves; i++) {
        const HloShape *shape = hlo_shape_leaf(value->shape, i);
        for (int32_t d = 0; d < shape->rank; d++)
            if (hlo_padder_size(padder, value, i, d)) return true;
    }
    return false;
}

void hlo_padder_copy_sizes(HloPadder *padder, const HloInstruction *value, HloInstruction *result) {
    const int64_t leaves = hlo_shape_leaf_count(value->shape);
    assert(leaves == hlo_shape_leaf_count(result->shape)); /* the same shape */
    for (int64_t i = 0; i < leaves; i++) {
        const HloShape *shape = hlo_shape_leaf(value->shape, i);
        for (int32_t d = 0; d < shape->rank; d++)
            hlo_padder_set_size(padder, result, i, d, hlo_padder_size(padder, value, i, d));
    }
}

HloStatus hlo_padder_refuse(const HloInstruction *op, const char *what) {
    if (hlo_is(op, HLO_OP_CUSTOM_CALL) && hlo_custom_call_is_unknown(op)) return hlo_custom_call_refuse(op);
    return hlo_error(HLO_UNIMPLEMENTED, "%%%s (%s): %s of dynamic size", op->name, hlo_op_text(op->opcode), what);
}

// ---- arithmetic

HloInstruction *hlo_padder_number(const HloInstruction *like, int64_t value) {
    return hlo_pass_integer(like, HLO_S32, value);
}

HloInstruction *hlo_padder_plus(const HloInstruction *like, HloInstruction *a, int64_t number) {
    return number ? hlo_pass_binary(like, HLO_OP_ADD, a, hlo_padder_number(like, number)) : a;
}

// `high` is applied first, so that a size beyond its bound becomes the bound and a negative one zero.
HloInstruction *hlo_padder_between(const HloInstruction *like, HloInstruction *a, int64_t low, int64_t high) {
    assert(low <= high);
    HloInstruction *low_enough = hlo_pass_binary(like, HLO_OP_MINIMUM, a, hlo_padder_number(like, high));
    return hlo_pass_binary(like, HLO_OP_MAXIMUM, low_enough, hlo_padder_number(like, low));
}

// All dimensions of a rank: 0, 1, ….
static HloInts every_dimension(const HloInstruction *like, int64_t rank) {
    int64_t *dims = hlo_pass_ints(like, rank);
    for (int64_t d = 0; d < rank; d++) dims[d] = d;
    return (HloInts){dims, rank};
}

// The neutral element of float sums is -0: adding 0 would turn a sum of -0 into 0.
HloInstruction *hlo_padder_identity(const HloInstruction *like, HloOpcode op, HloType type) {
    const bool whole = hlo_type_is_integer(type) || type == HLO_PRED;
    const bool real = type == HLO_F64 || type == HLO_F32 || type == HLO_F16 || type == HLO_BF16;
    const bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    const int bits = hlo_type_info(type)->bits;
    if (!whole && !real) return NULL;
    switch (op) {
        case HLO_OP_ADD: return real ? hlo_pass_scalar(like, type, -0.0) : hlo_pass_integer(like, type, 0);
        case HLO_OP_MULTIPLY: return real ? hlo_pass_scalar(like, type, 1) : hlo_pass_integer(like, type, 1);
        case HLO_OP_OR:
        case HLO_OP_XOR: return whole ? hlo_pass_integer(like, type, 0) : NULL;
        case HLO_OP_AND: return whole ? hlo_pass_integer(like, type, type == HLO_PRED ? 1 : -1) : NULL;
        case HLO_OP_MAXIMUM:
            if (real) return hlo_pass_scalar(like, type, -INFINITY);
            return hlo_pass_integer(like, type, is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0);
        case HLO_OP_MINIMUM:
            if (real) return hlo_pass_scalar(like, type, INFINITY);
            if (type == HLO_PRED) return hlo_pass_integer(like, type, 1);
            return hlo_pass_integer(like, type, is_signed ? (int64_t) ~(UINT64_MAX << (bits - 1)) : -1);
        default: return NULL;
    }
}

// ---- masks

// Sizes are s32, and check_bounds() refuses bounds beyond that.
HloInstruction *hlo_padder_places(const HloInstruction *like, const HloShape *shape, int64_t dim) {
    assert(dim >= 0 && dim < shape->rank);
    return hlo_pass_make(like, &(HloBuildRequest){.opcode = HLO_OP_IOTA,
                                                  .attributes = &(HloIotaAttributes){dim},
                                                  .type = HLO_S32,
                                                  .dims = hlo_shape_dims(shape),
                                                  .has_dims = true});
}

HloInstruction *hlo_padder_inside(const HloInstruction *like, const HloShape *shape, int64_t dim,
                                  HloInstruction *size) {
    HloInstruction *at = hlo_padder_places(like, shape, dim);
    HloInstruction *limit = hlo_pass_broadcast(like, size, hlo_shape_dims(shape), (HloInts){NULL, 0});
    return hlo_pass_compare(like, at, limit, HLO_ComparisonDirection_LT);
}

// The conjunction over the dynamic dimensions among `dims`; NULL if there are none, which callers treat as "all of it".
static HloInstruction *inside(const HloPadder *padder, const HloInstruction *like, const HloInstruction *value,
                              HloInts dims) {
    HloInstruction *all = NULL;
    for (int64_t i = 0; i < dims.count; i++) {
        HloInstruction *size = hlo_padder_size(padder, value, 0, dims.items[i]);
        if (!size) continue;
        HloInstruction *one = hlo_padder_inside(like, value->shape, dims.items[i], size);
        all = all ? hlo_pass_binary(like, HLO_OP_AND, all, one) : one;
    }
    return all;
}

HloInstruction *hlo_padder_all_inside(const HloPadder *padder, const HloInstruction *like,
                                      const HloInstruction *value) {
    return inside(padder, like, value, every_dimension(like, value->shape->rank));
}

HloInstruction *hlo_padder_masked(const HloPadder *padder, HloInstruction *like, HloInstruction *value, HloInts dims,
                                  HloInstruction *fill) {
    assert(hlo_shape_is_scalar(fill->shape) && fill->shape->type == value->shape->type);
    HloInstruction *mask = inside(padder, like, value, dims);
    if (!mask) return value;
    HloInstruction *fills = hlo_pass_broadcast(like, fill, hlo_shape_dims(value->shape), (HloInts){NULL, 0});
    return hlo_pass_select(like, mask, value, fills);
}
