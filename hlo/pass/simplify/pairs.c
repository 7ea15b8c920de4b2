// SPDX-License-Identifier: Apache-2.0
// Rules for two ops of which one undoes, repeats or hides the other.
//
// No one writes -(-x); these pairs result from other rules, from inlining, and from frontends that wrap everything in a
// conversion or an update. A rule looks only one operand down, so that a visit takes constant time and long chains
// collapse link by link, each link being visited again after the previous one was replaced.
//
// Most rules require exact types, because floats break them in three ways: NaN compares with nothing (absorption,
// merging of bounds), zeros have signs (differences, repeated extrema), and a sum is rounded (x + y - y). The remaining
// rules for floats only move signs, repeat a rounding to whole numbers, or select.
#include "hlo/pass/simplify/simplify.h"

// The operand of `i` if `i` is `opcode`, else NULL.
static HloInstruction *inside(const HloInstruction *i, HloOpcode opcode) {
    return i->opcode == opcode ? i->operands[0] : NULL;
}

// A splat of zeros, or of ones in every bit, with the shape of `i`, for which hlo_simplify_is_exact() is true.
static HloInstruction *bits_like(const HloInstruction *i, bool ones) {
    assert(hlo_simplify_is_exact(i));
    HloInstruction *scalar = hlo_pass_integer(i, i->shape->type, ones ? i->shape->type == HLO_PRED ? 1 : -1 : 0);
    return i->shape->rank == 0 ? scalar : hlo_pass_broadcast(i, scalar, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// ---------------------------------------------------------------------------------------------------------------------
// Arithmetic

// f(f(x)) = f(x) for roundings, absolute values and signs. Not for signs of complex numbers, which are on the unit
// circle only up to rounding: the second sign rounds once more.
static HloInstruction *same_again(HloInstruction *i) {
    HloInstruction *x = i->operands[0];
    if (hlo_type_is_complex(i->shape->type)) return NULL;
    return x->opcode == i->opcode && x->shape->type == i->operands[0]->operands[0]->shape->type ? x : NULL;
}

// |-x| = |x|, for complex numbers too.
static HloInstruction *abs_of_negative(HloInstruction *i) {
    HloInstruction *x = inside(i->operands[0], HLO_OP_NEGATE);
    return x ? hlo_pass_unary(i, HLO_OP_ABS, x) : NULL;
}

// clamp(a, clamp(a, x, b), b) = clamp(a, x, b).
static HloInstruction *clamp_again(HloInstruction *i) {
    HloInstruction *x = i->operands[1];
    bool same = x->opcode == HLO_OP_CLAMP && x->operands[0] == i->operands[0] && x->operands[2] == i->operands[2];
    return same ? x : NULL;
}

// (-x) op (-y) = x op y. Not for quotients of integers: the least integer is its own negative.
static HloInstruction *of_negatives(HloInstruction *i) {
    HloInstruction *x = inside(i->operands[0], HLO_OP_NEGATE), *y = inside(i->operands[1], HLO_OP_NEGATE);
    bool holds = hlo_type_is_float(i->shape->type) || (hlo_simplify_is_exact(i) && i->opcode == HLO_OP_MULTIPLY);
    return x && y && holds ? hlo_pass_binary(i, i->opcode, x, y) : NULL;
}

// (x + y) - y = x and (y + x) - y = x, modulo the width of integers.
static HloInstruction *subtract_what_was_added(HloInstruction *i) {
    const HloInstruction *sum = i->operands[0], *y = i->operands[1];
    if (!hlo_type_is_integer(i->shape->type) || sum->opcode != HLO_OP_ADD) return NULL;
    if (sum->operands[1] == y) return sum->operands[0];
    return sum->operands[0] == y ? sum->operands[1] : NULL;
}

// x - (x + y) = -y, x - (x - y) = y and (x - y) - x = -y for integers.
static HloInstruction *subtract_from_part(HloInstruction *i) {
    HloInstruction *a = i->operands[0], *b = i->operands[1];
    if (!hlo_type_is_integer(i->shape->type)) return NULL;
    if (b->opcode == HLO_OP_SUBTRACT && b->operands[0] == a) return b->operands[1];
    if (a->opcode == HLO_OP_SUBTRACT && a->operands[0] == b) return hlo_pass_unary(i, HLO_OP_NEGATE, a->operands[1]);
    if (b->opcode != HLO_OP_ADD || (b->operands[0] != a && b->operands[1] != a)) return NULL;
    return hlo_pass_unary(i, HLO_OP_NEGATE, b->operands[b->operands[0] == a]);
}

// (x - y) + y = x for integers.
static HloInstruction *add_what_was_subtracted(HloInstruction *i) {
    if (!hlo_type_is_integer(i->shape->type)) return NULL;
    for (int k = 0; k < 2; k++) {
        const HloInstruction *difference = i->operands[k];
        if (difference->opcode == HLO_OP_SUBTRACT && difference->operands[1] == i->operands[1 - k]) {
            return difference->operands[0];
        }
    }
    return NULL;
}

// -(x - y) = y - x for integers: for floats, the zero of equal operands would change its sign.
static HloInstruction *negate_difference(HloInstruction *i) {
    const HloInstruction *x = i->operands[0];
    if (!hlo_type_is_integer(i->shape->type) || x->opcode != HLO_OP_SUBTRACT) return NULL;
    return hlo_pass_binary(i, HLO_OP_SUBTRACT, x->operands[1], x->operands[0]);
}

// Rounding a whole number changes nothing.
static HloInstruction *round_of_whole(HloInstruction *i) {
    HloInstruction *x = i->operands[0];
    switch (x->opcode) {
        case HLO_OP_CEIL:
        case HLO_OP_FLOOR:
        case HLO_OP_ROUND_NEAREST_AFZ:
        case HLO_OP_ROUND_NEAREST_EVEN: return x;
        case HLO_OP_SIGN: return hlo_type_is_float(x->shape->type) ? x : NULL;
        case HLO_OP_CONVERT: return hlo_simplify_is_exact(x->operands[0]) ? x : NULL;
        default: return NULL;
    }
}

// cos(-x) = cos(x) = cos(|x|).
static HloInstruction *even_function(HloInstruction *i) {
    const HloInstruction *sign = i->operands[0];
    const bool changes_sign = sign->opcode == HLO_OP_NEGATE || sign->opcode == HLO_OP_ABS;
    if (!hlo_type_is_float(i->shape->type) || !changes_sign || sign->operands[0]->shape->type != i->shape->type)
        return NULL;
    return hlo_pass_unary(i, i->opcode, sign->operands[0]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Bits and order

// The other op of the lattice: x and (x or y) = x, in both pairs.
static HloOpcode dual_of(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_AND: return HLO_OP_OR;
        case HLO_OP_OR: return HLO_OP_AND;
        case HLO_OP_MAXIMUM: return HLO_OP_MINIMUM;
        default: assert(opcode == HLO_OP_MINIMUM); return HLO_OP_MAXIMUM;  // the only other opcode in the table
    }
}

// max(x, min(x, y)) = x and the like: the inner op never exceeds x. Not for floats, because of NaN.
static HloInstruction *absorb(HloInstruction *i) {
    if (!hlo_simplify_is_exact(i)) return NULL;
    for (int k = 0; k < 2; k++) {
        const HloInstruction *inner = i->operands[1 - k];
        HloInstruction *x = i->operands[k];
        if (inner->opcode == dual_of(i->opcode) && (inner->operands[0] == x || inner->operands[1] == x)) return x;
    }
    return NULL;
}

// max(max(x, c), d) = max(x, the greater of c and d), for integers.
static HloInstruction *merge_bounds(HloInstruction *i) {
    HloInstruction *inner = i->operands[0];
    int64_t c, d;
    if (!hlo_type_is_integer(i->shape->type) || inner->opcode != i->opcode) return NULL;
    if (!hlo_pass_integer_value(inner->operands[1], &c) || !hlo_pass_integer_value(i->operands[1], &d)) return NULL;
    bool is_unsigned = hlo_type_kind(i->shape->type) == HLO_KIND_UNSIGNED;
    bool greater = is_unsigned ? (uint64_t)d > (uint64_t)c : d > c;
    bool outer = greater == (i->opcode == HLO_OP_MAXIMUM);
    return hlo_pass_binary(i, i->opcode, inner->operands[0], outer ? i->operands[1] : inner->operands[1]);
}

// x op (x op y) = x op y, for idempotent ops. For floats the order of zeros matters.
static HloInstruction *once_more(HloInstruction *i) {
    if (!hlo_simplify_is_exact(i)) return NULL;
    for (int k = 0; k < 2; k++) {
        HloInstruction *inner = i->operands[1 - k], *x = i->operands[k];
        if (inner->opcode == i->opcode && (inner->operands[0] == x || inner->operands[1] == x)) return inner;
    }
    return NULL;
}

// x and not x is all zeros, x or not x all ones.
static HloInstruction *with_complement(HloInstruction *i) {
    bool complement =
        inside(i->operands[0], HLO_OP_NOT) == i->operands[1] || inside(i->operands[1], HLO_OP_NOT) == i->operands[0];
    return hlo_simplify_is_exact(i) && complement ? bits_like(i, i->opcode == HLO_OP_OR) : NULL;
}

// Shifts by the width or more leave no bit; the arithmetic one leaves copies of the sign.
static HloInstruction *shift_out(HloInstruction *i) {
    int64_t count, bits = hlo_type_info(i->shape->type)->bits;
    const HloInstruction *by =
        i->operands[1]->opcode == HLO_OP_BROADCAST ? i->operands[1]->operands[0] : i->operands[1];
    // Counts are unsigned: a negative one is larger than every width.
    bool known = by->shape->rank == 0 && hlo_pass_integer_value(by, &count);
    return known && hlo_simplify_is_exact(i) && (count < 0 || count >= bits) ? bits_like(i, false) : NULL;
}

// 0 shifted by anything is 0.
static HloInstruction *shift_of_nothing(HloInstruction *i) {
    return hlo_simplify_is_exact(i) && hlo_pass_is_all(i->operands[0], 0) ? i->operands[0] : NULL;
}

// Two shifts in the same direction are one by the sum of the counts; if that leaves no bit, it is zero, or the largest
// shift that keeps the sign.
static HloInstruction *shift_twice(HloInstruction *i) {
    const HloInstruction *x = i->operands[0];
    int64_t first, second, bits = hlo_type_info(i->shape->type)->bits;
    if (x->opcode != i->opcode || !hlo_type_is_integer(i->shape->type)) return NULL;
    if (!hlo_pass_integer_value(x->operands[1], &first) || !hlo_pass_integer_value(i->operands[1], &second))
        return NULL;
    if (first < 0 || first >= bits || second < 0 || second >= bits) return NULL;
    int64_t sum = first + second;
    if (sum >= bits && i->opcode != HLO_OP_SHIFT_RIGHT_ARITHMETIC) return bits_like(i, false);
    if (sum >= bits) sum = bits - 1;
    HloInstruction *by = hlo_pass_integer(i, i->shape->type, sum);
    if (i->shape->rank) by = hlo_pass_broadcast(i, by, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
    return hlo_pass_binary(i, i->opcode, x->operands[0], by);
}

// convert(p) != 0 is p, convert(p) == 0 is not p.
static HloInstruction *compare_of_converted(HloInstruction *i) {
    HloInstruction *p = inside(i->operands[0], HLO_OP_CONVERT);
    int32_t direction = HLO_ATTRIBUTES(i, Compare)->direction;
    bool equal = direction == HLO_ComparisonDirection_EQ;
    if (!p || p->shape->type != HLO_PRED || (!equal && direction != HLO_ComparisonDirection_NE)) return NULL;
    if (!hlo_type_is_integer(i->operands[0]->shape->type) || !hlo_pass_is_all(i->operands[1], 0)) return NULL;
    return equal ? hlo_pass_unary(i, HLO_OP_NOT, p) : p;
}

// ---------------------------------------------------------------------------------------------------------------------
// Parts of arrays

// True if the start operands from `a_first` and `b_first` on are the same instructions.
static bool same_place(const HloInstruction *a, int64_t a_first, const HloInstruction *b, int64_t b_first) {
    if (a->operand_count - a_first != b->operand_count - b_first) return false;
    for (int64_t k = 0; a_first + k < a->operand_count; k++) {
        if (a->operands[a_first + k] != b->operands[b_first + k]) return false;
    }
    return true;
}

// An update that is overwritten at the same position by one of the same size is removed.
static HloInstruction *update_twice(HloInstruction *i) {
    const HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_DYNAMIC_UPDATE_SLICE || !same_place(i, 2, x, 2)) return NULL;
    if (!hlo_same_dims(i->operands[1]->shape, x->operands[1]->shape)) return NULL;
    HloInstruction **operands =
        hlo_arena_copy(i->parent->module->arena, i->operands, (size_t)i->operand_count * sizeof(*operands));
    operands[0] = x->operands[0];
    return hlo_pass_make(
        i, &(HloBuildRequest){
               .opcode = HLO_OP_DYNAMIC_UPDATE_SLICE, .operands = operands, .operand_count = i->operand_count});
}

// Writing back the part that was read from the same position changes nothing.
static HloInstruction *update_with_own(HloInstruction *i) {
    const HloInstruction *update = i->operands[1];
    bool own = update->opcode == HLO_OP_DYNAMIC_SLICE && update->operands[0] == i->operands[0];
    return own && same_place(i, 2, update, 1) ? i->operands[0] : NULL;
}

// Reading the part that was just written gives the update: both starts are clamped in the same way.
static HloInstruction *slice_of_update(HloInstruction *i) {
    const HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_DYNAMIC_UPDATE_SLICE || !same_place(i, 1, x, 2)) return NULL;
    return hlo_same_dims(i->shape, x->operands[1]->shape) ? x->operands[1] : NULL;
}

// A scatter of no updates is its operand.
static HloInstruction *scatter_nothing(HloInstruction *i) {
    bool empty = i->operand_count == 3 && hlo_shape_elements(i->operands[2]->shape) == 0;
    return empty ? i->operands[0] : NULL;
}

// The size of an array that is not dynamic is a constant.
static HloInstruction *known_size(HloInstruction *i) {
    const HloShape *shape = i->operands[0]->shape;
    int64_t dimension = HLO_ATTRIBUTES(i, Dimensions)->dimensions.items[0];
    return hlo_pass_integer(i, i->shape->type, shape->dims[dimension]);
}

// Setting the size that an array already has changes nothing.
static HloInstruction *set_known_size(HloInstruction *i) {
    const HloShape *shape = i->operands[0]->shape;
    int64_t dimension = HLO_ATTRIBUTES(i, Dimensions)->dimensions.items[0], size;
    const bool same = hlo_pass_integer_value(i->operands[1], &size) && size == shape->dims[dimension];
    return same && hlo_same_dims(shape, i->shape) ? i->operands[0] : NULL;
}

// A permutation in which every device sends to itself is its operand. Devices that no pair names receive zeros.
static HloInstruction *permute_to_self(HloInstruction *i) {
    const HloPermuteAttributes *permute = HLO_ATTRIBUTES(i, Permute);
    const HloModule *module = i->parent->module;
    if (i->operand_count != 1) return NULL;
    if (permute->source_target_pairs.count !=
        (permute->channel_id > 0 ? module->num_partitions : module->replica_count))
        return NULL;
    for (int64_t k = 0; k < permute->source_target_pairs.count; k++) {
        if (permute->source_target_pairs.items[k].source != permute->source_target_pairs.items[k].target) return NULL;
    }
    return i->operands[0];
}

// ---------------------------------------------------------------------------------------------------------------------
// Conversions

// Of two reinterpretations of the bits only the last is needed, if all three types have the same width.
static HloInstruction *bitcast_twice(HloInstruction *i) {
    HloInstruction *x = inside(i->operands[0], HLO_OP_BITCAST_CONVERT);
    if (!x || !hlo_same_dims(x->shape, i->shape) || !hlo_same_dims(i->operands[0]->shape, i->shape)) return NULL;
    if (i->operands[0]->shape->type == HLO_PRED) return NULL;  // which keeps no bits, only whether there were any
    if (x->shape->type == i->shape->type) return x;
    return hlo_pass_make(
        i, &(HloBuildRequest){
               .opcode = HLO_OP_BITCAST_CONVERT, .operands = &x, .operand_count = 1, .type = i->shape->type});
}

// Integers lose the same upper bits in one step as in two.
static HloInstruction *narrow_twice(HloInstruction *i) {
    HloInstruction *inner = i->operands[0], *x = inside(inner, HLO_OP_CONVERT);
    if (!x || !hlo_type_is_integer(x->shape->type) || !hlo_type_is_integer(inner->shape->type)) return NULL;
    int middle = hlo_type_info(inner->shape->type)->bits, last = hlo_type_info(i->shape->type)->bits;
    bool narrows = hlo_type_is_integer(i->shape->type) && middle >= last;
    return narrows && x->shape->type != i->shape->type ? hlo_pass_convert(i, x, i->shape->type) : NULL;
}

// A second rounding to a wider format changes nothing.
static HloInstruction *reduce_precision_twice(HloInstruction *i) {
    HloInstruction *x = i->operands[0];
    if (x->opcode != HLO_OP_REDUCE_PRECISION) return NULL;
    const HloReducePrecisionAttributes *inner = HLO_ATTRIBUTES(x, ReducePrecision);
    const HloReducePrecisionAttributes *outer = HLO_ATTRIBUTES(i, ReducePrecision);
    const bool keeps = outer->exponent_bits >= inner->exponent_bits && outer->mantissa_bits >= inner->mantissa_bits;
    return keeps ? x : NULL;
}

// A map of one op over one array is that op.
static HloInstruction *map_of_unary(HloInstruction *i) {
    const HloInstruction *root = i->called[0]->root;
    bool plain = i->operand_count == 1 && root->operand_count == 1 && root->operands[0]->opcode == HLO_OP_PARAMETER &&
                 hlo_op_is(root->opcode, HLO_OP_IS_ELEMENTWISE) && root->called_count == 0;
    if (!plain || !hlo_pass_may_replace(root)) return NULL;
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = root->opcode,
                                               .operands = i->operands,
                                               .operand_count = 1,
                                               .attributes = root->attributes,
                                               .type = i->shape->type});
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_ABS, same_again},
    {HLO_OP_CEIL, same_again},
    {HLO_OP_FLOOR, same_again},
    {HLO_OP_ROUND_NEAREST_AFZ, same_again},
    {HLO_OP_ROUND_NEAREST_EVEN, same_again},
    {HLO_OP_SIGN, same_again},
    {HLO_OP_ABS, abs_of_negative},
    {HLO_OP_CLAMP, clamp_again},
    {HLO_OP_MULTIPLY, of_negatives},
    {HLO_OP_DIVIDE, of_negatives},
    {HLO_OP_SUBTRACT, subtract_what_was_added},
    {HLO_OP_SUBTRACT, subtract_from_part},
    {HLO_OP_CEIL, round_of_whole},
    {HLO_OP_FLOOR, round_of_whole},
    {HLO_OP_ROUND_NEAREST_AFZ, round_of_whole},
    {HLO_OP_ROUND_NEAREST_EVEN, round_of_whole},
    {HLO_OP_COS, even_function},
    {HLO_OP_ADD, add_what_was_subtracted},
    {HLO_OP_NEGATE, negate_difference},
    {HLO_OP_AND, absorb},
    {HLO_OP_OR, absorb},
    {HLO_OP_MAXIMUM, absorb},
    {HLO_OP_MINIMUM, absorb},
    {HLO_OP_MAXIMUM, merge_bounds},
    {HLO_OP_MINIMUM, merge_bounds},
    {HLO_OP_AND, once_more},
    {HLO_OP_OR, once_more},
    {HLO_OP_MAXIMUM, once_more},
    {HLO_OP_MINIMUM, once_more},
    {HLO_OP_AND, with_complement},
    {HLO_OP_OR, with_complement},
    {HLO_OP_SHIFT_LEFT, shift_out},
    {HLO_OP_SHIFT_RIGHT_LOGICAL, shift_out},
    {HLO_OP_SHIFT_LEFT, shift_of_nothing},
    {HLO_OP_SHIFT_RIGHT_ARITHMETIC, shift_of_nothing},
    {HLO_OP_SHIFT_RIGHT_LOGICAL, shift_of_nothing},
    {HLO_OP_SHIFT_LEFT, shift_twice},
    {HLO_OP_SHIFT_RIGHT_ARITHMETIC, shift_twice},
    {HLO_OP_SHIFT_RIGHT_LOGICAL, shift_twice},
    {HLO_OP_COMPARE, compare_of_converted},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, update_twice},
    {HLO_OP_DYNAMIC_UPDATE_SLICE, update_with_own},
    {HLO_OP_DYNAMIC_SLICE, slice_of_update},
    {HLO_OP_SCATTER, scatter_nothing},
    {HLO_OP_GET_DIMENSION_SIZE, known_size},
    {HLO_OP_SET_DIMENSION_SIZE, set_known_size},
    {HLO_OP_COLLECTIVE_PERMUTE, permute_to_self},
    {HLO_OP_REDUCE_PRECISION, reduce_precision_twice},
    {HLO_OP_BITCAST_CONVERT, bitcast_twice},
    {HLO_OP_CONVERT, narrow_twice},
    {HLO_OP_MAP, map_of_unary},
};

HloSimplifyTable hlo_simplify_pairs(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
