// SPDX-License-Identifier: Apache-2.0
// Rules for conversions and copies.
//
// A lossless conversion can be skipped on the way to a third type. Exponent and mantissa widths of hlo/ir/types.def,
// not names, determine whether it is lossless; the 8-bit floats are excluded, since several of them have no infinity or
// only one zero and saturate in different ways.
//
//   f16 convert(f32 convert(bf16 x))   ->   f16 convert(x): f32 represents every bf16
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

// True for the IEEE formats and bf16, which differ only in widths.
static bool is_plain_float(HloType type) {
    return type == HLO_F16 || type == HLO_BF16 || type == HLO_F32 || type == HLO_F64;
}

// True if every value of `from` is a value of `to`.
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

// a -> b -> c is a -> c if a -> b is lossless.
static HloInstruction *convert_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CONVERT));
    HloInstruction *inner = i->operands[0];
    if (inner->opcode != HLO_OP_CONVERT) return NULL;
    HloInstruction *x = inner->operands[0];
    if (!is_lossless(x->shape->type, inner->shape->type)) return NULL;
    bool known = hlo_type_is_integer(i->shape->type) || is_plain_float(i->shape->type) || i->shape->type == HLO_PRED;
    if (!known) return NULL;
    // Integers wrap around where the intermediate floats would have saturated.
    bool wraps = hlo_type_is_integer(x->shape->type) && hlo_type_is_float(inner->shape->type) &&
                 hlo_type_is_integer(i->shape->type) && !is_lossless(x->shape->type, i->shape->type);
    if (wraps) return NULL;
    return x->shape->type == i->shape->type ? x : hlo_pass_convert(i, x, i->shape->type);
}

// A bitcast-convert to the same type, or to another one and back, is its operand. (Not by way of pred, which keeps only
// whether any bit was set.)
static HloInstruction *bitcast_convert_same(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_BITCAST_CONVERT));
    HloInstruction *x = i->operands[0];
    if (hlo_shape_equal(x->shape, i->shape, HLO_COMPARE_IGNORE_LAYOUT)) return x;
    if (x->opcode != HLO_OP_BITCAST_CONVERT || x->shape->type == HLO_PRED) return NULL;
    return hlo_shape_equal(x->operands[0]->shape, i->shape, HLO_COMPARE_IGNORE_LAYOUT) ? x->operands[0] : NULL;
}

// Rounding to a format that is at least as wide in both respects changes nothing.
static HloInstruction *reduce_precision_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REDUCE_PRECISION));
    const HloReducePrecisionAttributes *attributes = HLO_ATTRIBUTES(i, ReducePrecision);
    const HloTypeInfo *type = hlo_type_info(hlo_type_reduced_as(i->shape->type));
    bool keeps = attributes->exponent_bits >= type->exponent_bits && attributes->mantissa_bits >= type->mantissa_bits;
    return keeps ? i->operands[0] : NULL;
}

// A copy to the same layout and memory space is its operand. A copy after a parameter or before the root may be
// intended for aliasing, but does not affect the values.
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
