// SPDX-License-Identifier: Apache-2.0
// Rules for conversions and copies.
//
// A conversion that loses nothing can be skipped on the way to a third type. Whether it does is decided by exponent and
// mantissa widths of hlo/ir/types.def and not by names; the 8-bit floats are left out, since several of them have no
// infinity or one zero only and saturate in their own ways.
//
//   f16 convert(f32 convert(bf16 x))   ->   f16 convert(x): what bf16 holds, f32 holds too
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

// The IEEE formats and bf16, which differ in widths only.
static bool is_plain_float(HloType type) {
    return type == HLO_F16 || type == HLO_BF16 || type == HLO_F32 || type == HLO_F64;
}

// True when every value of `from` is one of `to`.
static bool is_lossless(HloType from, HloType to) {
    const HloTypeInfo *a = hlo_type_info(from), *b = hlo_type_info(to);
    if (from == to) return true;
    if (from == HLO_PRED) return hlo_type_is_integer(to) || is_plain_float(to);
    if (is_plain_float(from) && is_plain_float(to)) {
        return a->exponent_bits <= b->exponent_bits && a->mantissa_bits <= b->mantissa_bits;
    }
    if (!hlo_type_is_integer(from)) return false;
    int magnitude = a->bits - (a->kind == HLO_KIND_SIGNED);
    if (is_plain_float(to)) return magnitude <= b->mantissa_bits + 1 && to != HLO_F16;
    if (!hlo_type_is_integer(to)) return false;
    if (a->kind == HLO_KIND_SIGNED && b->kind == HLO_KIND_UNSIGNED) return false;
    return magnitude <= b->bits - (b->kind == HLO_KIND_SIGNED);
}

static HloInstruction *convert_same(HloInstruction *i) {
    return i->shape->type == i->operands[0]->shape->type ? i->operands[0] : NULL;
}

// a -> b -> c is a -> c when a -> b loses nothing.
static HloInstruction *convert_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CONVERT));
    HloInstruction *inner = i->operands[0];
    if (inner->opcode != HLO_OP_CONVERT) return NULL;
    HloInstruction *x = inner->operands[0];
    if (!is_lossless(x->shape->type, inner->shape->type)) return NULL;
    bool known = hlo_type_is_integer(i->shape->type) || is_plain_float(i->shape->type) || i->shape->type == HLO_PRED;
    if (!known) return NULL;
    // Integers wrap around where the floats between would have been cut off at the ends.
    bool wraps = hlo_type_is_integer(x->shape->type) && hlo_type_is_float(inner->shape->type) &&
                 hlo_type_is_integer(i->shape->type) && !is_lossless(x->shape->type, i->shape->type);
    if (wraps) return NULL;
    return x->shape->type == i->shape->type ? x : hlo_pass_convert(i, x, i->shape->type);
}

// There and back again, or nowhere at all. (Not by way of pred, which is left with nothing but whether any bit was
// set.)
static HloInstruction *bitcast_convert_same(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_BITCAST_CONVERT));
    HloInstruction *x = i->operands[0];
    if (hlo_shape_equal(x->shape, i->shape, HLO_COMPARE_IGNORE_LAYOUT)) return x;
    if (x->opcode != HLO_OP_BITCAST_CONVERT || x->shape->type == HLO_PRED) return NULL;
    return hlo_shape_equal(x->operands[0]->shape, i->shape, HLO_COMPARE_IGNORE_LAYOUT) ? x->operands[0] : NULL;
}

// Rounding to a format at least as wide in both respects.
static HloInstruction *reduce_precision_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE_PRECISION));
    const HloReducePrecisionAttributes *attributes = HLO_ATTRIBUTES(i, ReducePrecision);
    const HloTypeInfo *type = hlo_type_info(hlo_type_reduced_as(i->shape->type));
    bool keeps = attributes->exponent_bits >= type->exponent_bits && attributes->mantissa_bits >= type->mantissa_bits;
    return keeps ? i->operands[0] : NULL;
}

// A copy to the same layout and memory. One behind a parameter or before the root may be there for the sake of
// aliasing, but means nothing for the values.
static HloInstruction *copy_same(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COPY));
    HloInstruction *x = i->operands[0];
    if (!hlo_shape_equal(x->shape, i->shape, HLO_COMPARE_ALL)) return NULL;
    return i->backend_config || i->parent->module->is_scheduled ? NULL : x;
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_CONVERT, convert_same},
    {HLO_OP_CONVERT, convert_twice},
    {HLO_OP_BITCAST_CONVERT, bitcast_convert_same},
    {HLO_OP_REDUCE_PRECISION, reduce_precision_nothing},
    {HLO_OP_COPY, copy_same},
};

HloSimplifyTable hlo_simplify_convert(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
