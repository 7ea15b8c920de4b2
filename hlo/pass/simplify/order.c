// SPDX-License-Identifier: Apache-2.0
// Rules for comparisons, bounds and signs: facts about two numbers that are known without their values.
//
// Facts are derived on demand, from a few ops up (FAR), instead of being kept as ranges for every instruction: a table
// would have to be updated after each rewrite, and nearly all derivations end at an iota, a constant or a square. A
// comparison with a known result is removed, and often with it a mask or the guard of a loop that a frontend wrote for
// sizes which turned out to be constant.
//
// For floats a rule may only use facts that also hold for NaN: "not below zero" includes NaN, so it may decide x < 0
// (false either way), but never x >= 0. Numbers are compared as doubles, so integers from 2^53 on are treated as
// unknown (real_value()).
#include <assert.h>
#include <math.h>

#include "hlo/pass/simplify/simplify.h"

typedef enum Direction {
    EQ = HLO_ComparisonDirection_EQ,
    NE = HLO_ComparisonDirection_NE,
    GE = HLO_ComparisonDirection_GE,
    GT = HLO_ComparisonDirection_GT,
    LE = HLO_ComparisonDirection_LE,
    LT = HLO_ComparisonDirection_LT,
} Direction;

static bool is_integer(const HloInstruction *i) {
    return hlo_type_is_integer(i->shape->type);
}

static bool is_signed(const HloInstruction *i) {
    return hlo_type_kind(i->shape->type) == HLO_KIND_SIGNED;
}

static Direction direction_of(const HloInstruction *i) {
    return (Direction)HLO_ATTRIBUTES(i, Compare)->direction;
}

// In the total order of floats -0 is below 0 and NaN at the ends: the rules below are for the natural order.
static bool is_natural(const HloInstruction *i) {
    return HLO_ATTRIBUTES(i, Compare)->type != HLO_ComparisonType_TOTALORDER ||
           !hlo_type_is_float(i->operands[0]->shape->type);
}

// ---------------------------------------------------------------------------------------------------------------------
// Signs

// True if no element can be below zero, or be -0.
static bool is_nonnegative(const HloInstruction *i, int depth) {
    HloType type = i->shape->type;
    if (depth == 0) return false;
    if (type == HLO_PRED || hlo_type_kind(type) == HLO_KIND_UNSIGNED) return true;
    const HloLiteral *literal;
    switch (i->opcode) {
        case HLO_OP_CONSTANT:
            if (!hlo_is_splat(i, &literal) || hlo_type_is_complex(type)) return false;
            return !signbit(hlo_literal_get_double(literal, 0)) && !isnan(hlo_literal_get_double(literal, 0));
        case HLO_OP_IOTA: {
            int64_t size = i->shape->dims[HLO_ATTRIBUTES(i, Iota)->dimension];
            int bits = hlo_type_info(type)->bits;
            return hlo_type_is_float(type) || (is_integer(i) && (bits >= 63 || size <= (INT64_C(1) << (bits - 1))));
        }
        case HLO_OP_ABS:
        case HLO_OP_EXP: return hlo_type_is_float(type);
        case HLO_OP_MULTIPLY: return hlo_type_is_float(type) && i->operands[0] == i->operands[1];
        case HLO_OP_CONVERT: {
            HloType from = i->operands[0]->shape->type;
            bool keeps = hlo_type_is_float(type) || hlo_type_info(from)->bits < hlo_type_info(type)->bits;
            return keeps && (from == HLO_PRED || hlo_type_is_integer(from)) &&
                   is_nonnegative(i->operands[0], depth - 1);
        }
        case HLO_OP_BROADCAST:
        case HLO_OP_RESHAPE:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_SLICE:
        case HLO_OP_COPY: return is_nonnegative(i->operands[0], depth - 1);
        default: return false;
    }
}

enum { FAR = 6 };  // maximum number of ops to follow up when deriving a sign

// |x| = x; the type differs only for complex numbers.
static HloInstruction *abs_of_nonnegative(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_ABS));
    HloInstruction *x = i->operands[0];
    return x->shape->type == i->shape->type && is_nonnegative(x, FAR) ? x : NULL;
}

// |x| * |x| = x * x, for integers too (modulo their width).
static HloInstruction *square_of_abs(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MULTIPLY));
    HloInstruction *x = i->operands[0];
    if (x != i->operands[1] || x->opcode != HLO_OP_ABS || x->operands[0]->shape->type != i->shape->type) return NULL;
    return hlo_pass_binary(i, HLO_OP_MULTIPLY, x->operands[0], x->operands[0]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Comparisons

// max(a, b) > a is b > a, and a > min(a, b) is a > b: with NaN both sides are false.
static HloInstruction *compare_with_limit_of(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    HloInstruction *larger = i->operands[0], *smaller = i->operands[1];
    if (direction_of(i) == LT) {
        larger = i->operands[1];
        smaller = i->operands[0];
    } else if (direction_of(i) != GT) {
        return NULL;
    }
    if (!is_natural(i) || hlo_type_is_complex(larger->shape->type)) return NULL;
    for (int k = 0; k < 2; k++) {
        if (larger->opcode == HLO_OP_MAXIMUM && larger->operands[k] == smaller) {
            return hlo_pass_compare(i, larger->operands[1 - k], smaller, GT);
        }
        if (smaller->opcode == HLO_OP_MINIMUM && smaller->operands[k] == larger) {
            return hlo_pass_compare(i, larger, smaller->operands[1 - k], GT);
        }
    }
    return NULL;
}

// Integers against a bound of their type: nothing is beyond it, and reaching it means equality.
static HloInstruction *compare_with_bound(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    HloInstruction *x = i->operands[0], *bound = i->operands[1];
    Direction direction = direction_of(i);
    if (!is_integer(x) || hlo_type_info(x->shape->type)->bits < 2) return NULL;
    int64_t value, sign = -(INT64_C(1) << (hlo_type_info(x->shape->type)->bits - 2)) * 2;
    bool all_ones = hlo_pass_is_all_ones(bound), known = hlo_pass_integer_value(bound, &value);
    bool least = known && value == (is_signed(x) ? sign : 0);
    bool most = is_signed(x) ? known && value == -(sign + 1) : all_ones;
    bool zero_and_nonnegative = known && value == 0 && is_signed(x) && is_nonnegative(x, FAR);
    if (least || zero_and_nonnegative) {
        if (direction == LT) return hlo_simplify_pred_like(i, false);
        if (direction == GE) return hlo_simplify_pred_like(i, true);
    }
    if (most) {
        if (direction == GT) return hlo_simplify_pred_like(i, false);
        if (direction == LE) return hlo_simplify_pred_like(i, true);
    }
    bool reaches = (least && (direction == LE || direction == GT)) || (most && (direction == GE || direction == LT));
    if (!reaches) return NULL;
    return hlo_pass_compare(i, x, bound, direction == LE || direction == GE ? EQ : NE);
}

// An iota over a size is below every bound from that size on.
static HloInstruction *compare_iota(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    const HloInstruction *x = i->operands[0];
    const Direction direction = direction_of(i);
    int64_t bound;
    if (x->opcode != HLO_OP_IOTA || !is_integer(x) || !hlo_pass_integer_value(i->operands[1], &bound)) return NULL;
    const int64_t size = x->shape->dims[HLO_ATTRIBUTES(x, Iota)->dimension];
    const int64_t least = direction == LT || direction == GE ? size : size - 1;  // the smallest bound that decides
    if (direction == EQ || direction == NE || !is_nonnegative(x, FAR) || bound < least) return NULL;
    return hlo_simplify_pred_like(i, direction == LT || direction == LE);
}

// For floats: nothing is beyond infinity, and non-negative values are not below zero. This includes NaN.
static HloInstruction *compare_beyond(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    const HloInstruction *x = i->operands[0];
    const HloLiteral *literal;
    if (!hlo_type_is_float(x->shape->type) || !is_natural(i) || !hlo_is_splat(i->operands[1], &literal)) return NULL;
    const double bound = hlo_literal_get_double(literal, 0);
    const Direction direction = direction_of(i);
    const bool below = direction == LT && (bound == -INFINITY || (bound <= 0 && is_nonnegative(x, FAR)));
    return below || (direction == GT && bound == INFINITY) ? hlo_simplify_pred_like(i, false) : NULL;
}

// Moves constants of comparisons to the right, where other rules expect them.
static HloInstruction *constant_to_the_right(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    const HloLiteral *literal;
    if (!hlo_is_splat(i->operands[0], &literal) || hlo_is_splat(i->operands[1], &literal)) return NULL;
    HloCompareAttributes attributes = *HLO_ATTRIBUTES(i, Compare);
    attributes.direction = hlo_comparison_exchanged(attributes.direction);
    HloInstruction *operands[] = {i->operands[1], i->operands[0]};
    return hlo_pass_make(
        i, &(HloBuildRequest){
               .opcode = HLO_OP_COMPARE, .operands = operands, .operand_count = 2, .attributes = &attributes});
}

// Compares two constants as the op does: false with a NaN on either side, except for "not equal".
static bool compare_numbers(Direction direction, double a, double b) {
    switch (direction) {
        case EQ: return a == b;
        case NE: return a != b;
        case GE: return a >= b;
        case GT: return a > b;
        case LE: return a <= b;
        default: return a < b;
    }
}

// Sets *value for a real splat that a double represents exactly.
static bool real_value(const HloInstruction *i, double *value) {
    const HloLiteral *literal;
    if (hlo_type_is_complex(i->shape->type) || !hlo_is_splat(i, &literal)) return false;
    *value = hlo_literal_get_double(literal, 0);
    return hlo_type_is_float(i->shape->type) || fabs(*value) < 0x1p53;
}

// A comparison of select(p, constant, constant) with a third constant is p, its negation, or constant.
static HloInstruction *compare_of_select(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    HloInstruction *x = i->operands[0];
    double yes, no, bound;
    if (x->opcode != HLO_OP_SELECT || !is_natural(i) || !real_value(i->operands[1], &bound)) return NULL;
    if (!real_value(x->operands[1], &yes) || !real_value(x->operands[2], &no)) return NULL;
    bool if_yes = compare_numbers(direction_of(i), yes, bound), if_no = compare_numbers(direction_of(i), no, bound);
    HloInstruction *predicate = x->operands[0];
    if (if_yes == if_no) return hlo_simplify_pred_like(i, if_yes);
    if (!hlo_same_dims(predicate->shape, i->shape)) return NULL;
    return if_yes ? predicate : hlo_pass_unary(i, HLO_OP_NOT, predicate);
}

// x < 10 and x < 100: only one of two bounds on the same side matters. Integers only.
static HloInstruction *join_bounds(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_AND) || hlo_is(i, HLO_OP_OR));
    HloInstruction *a = i->operands[0], *b = i->operands[1];
    int64_t first, second;
    if (a->opcode != HLO_OP_COMPARE || b->opcode != HLO_OP_COMPARE || a->operands[0] != b->operands[0]) return NULL;
    Direction direction = direction_of(a);
    if (direction != direction_of(b) || direction == EQ || direction == NE || !is_integer(a->operands[0])) return NULL;
    if (!hlo_pass_integer_value(a->operands[1], &first) || !hlo_pass_integer_value(b->operands[1], &second))
        return NULL;
    bool smaller_is_stricter = direction == LT || direction == LE, needs_stricter = i->opcode == HLO_OP_AND;
    return (first < second) == (smaller_is_stricter == needs_stricter) ? a : b;
}

// ---------------------------------------------------------------------------------------------------------------------
// Choices

// select(a == b, a, b) = b and the like: where they are equal, either will do. Not for floats: 0 equals -0.
static HloInstruction *select_of_equal(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    const HloInstruction *predicate = i->operands[0];
    HloInstruction *yes = i->operands[1], *no = i->operands[2];
    if (predicate->opcode != HLO_OP_COMPARE || !(is_integer(i) || i->shape->type == HLO_PRED)) return NULL;
    const HloInstruction *a = predicate->operands[0], *b = predicate->operands[1];
    if (!((a == yes && b == no) || (a == no && b == yes))) return NULL;
    if (direction_of(predicate) == EQ) return no;
    return direction_of(predicate) == NE ? yes : NULL;
}

// select(a > b, a, b) = max(a, b), and likewise for the minimum. Not for floats, whose maximum is NaN with a NaN on
// either side; nor for scalars, as targets know an argmax by the select in its computation.
static HloInstruction *select_of_larger(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    const HloInstruction *predicate = i->operands[0];
    HloInstruction *yes = i->operands[1], *no = i->operands[2];
    if (predicate->opcode != HLO_OP_COMPARE || !hlo_simplify_is_exact(i) || i->shape->rank == 0) return NULL;
    const Direction direction = direction_of(predicate);
    const bool more = direction == GT || direction == GE, less = direction == LT || direction == LE;
    const bool same = predicate->operands[0] == yes && predicate->operands[1] == no;
    const bool swapped = predicate->operands[0] == no && predicate->operands[1] == yes;
    if (!(more || less) || !(same || swapped)) return NULL;
    return hlo_pass_binary(i, more == same ? HLO_OP_MAXIMUM : HLO_OP_MINIMUM, yes, no);
}

// a > b or a == b is a >= b, for all types: with a NaN neither holds. Not for scalars, as above.
static HloInstruction *more_or_equal(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_OR));
    for (int k = 0; k < 2; k++) {
        const HloInstruction *order = i->operands[k], *equality = i->operands[1 - k];
        if (i->shape->rank == 0 || order->opcode != HLO_OP_COMPARE || equality->opcode != HLO_OP_COMPARE) continue;
        if (!is_natural(order) || !is_natural(equality) || direction_of(equality) != EQ) continue;
        const Direction direction = direction_of(order);
        HloInstruction *a = order->operands[0], *b = order->operands[1];
        const bool same = equality->operands[0] == a && equality->operands[1] == b;
        const bool swapped = equality->operands[0] == b && equality->operands[1] == a;
        if ((direction != GT && direction != LT) || !(same || swapped)) continue;
        return hlo_pass_compare(i, a, b, direction == GT ? GE : LE);
    }
    return NULL;
}

// min(max(x, low), high) and max(min(x, high), low) are clamps if low <= high. The sign of float zeros may depend on
// the order of operands.
static HloInstruction *two_bounds(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MAXIMUM) || hlo_is(i, HLO_OP_MINIMUM));
    HloOpcode other = i->opcode == HLO_OP_MINIMUM ? HLO_OP_MAXIMUM : HLO_OP_MINIMUM;
    double outer, inner;
    for (int k = 0; k < 2; k++) {
        HloInstruction *x = i->operands[k];
        if (x->opcode != other || x->users.count != 1 || !real_value(i->operands[1 - k], &outer)) continue;
        for (int j = 0; j < 2; j++) {
            if (!real_value(x->operands[j], &inner)) continue;
            bool ordered = i->opcode == HLO_OP_MINIMUM ? inner <= outer : outer <= inner;
            bool zero = hlo_type_is_float(i->shape->type) && (inner == 0 || outer == 0);
            if (!ordered || zero || i->shape->type == HLO_PRED) return NULL;
            HloInstruction *bounds[] = {x->operands[j], i->operands[1 - k]};
            bool high_is_inner = i->opcode == HLO_OP_MAXIMUM;
            HloInstruction *operands[] = {bounds[high_is_inner], x->operands[1 - j], bounds[!high_is_inner]};
            return hlo_pass_make(i,
                                 &(HloBuildRequest){.opcode = HLO_OP_CLAMP, .operands = operands, .operand_count = 3});
        }
    }
    return NULL;
}

// max(min(x, low), high) = high if low <= high, and the other way around. For integers: NaN passes through both.
static HloInstruction *crossed_bounds(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MAXIMUM) || hlo_is(i, HLO_OP_MINIMUM));
    const HloOpcode other = i->opcode == HLO_OP_MINIMUM ? HLO_OP_MAXIMUM : HLO_OP_MINIMUM;
    double outer, inner;
    if (!is_integer(i)) return NULL;
    for (int k = 0; k < 2; k++) {
        const HloInstruction *x = i->operands[k];
        HloInstruction *bound = i->operands[1 - k];
        if (x->opcode != other || !real_value(bound, &outer)) continue;
        for (int j = 0; j < 2; j++) {
            if (!real_value(x->operands[j], &inner)) continue;
            if (i->opcode == HLO_OP_MAXIMUM ? inner <= outer : inner >= outer) return bound;
        }
    }
    return NULL;
}

// A clamp between two equal integers is that integer.
static HloInstruction *clamp_to_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_CLAMP));
    HloInstruction *low = i->operands[0], *high = i->operands[2];
    int64_t least, greatest;
    if (!is_integer(i) || !hlo_pass_integer_value(low, &least) || !hlo_pass_integer_value(high, &greatest)) return NULL;
    if (least != greatest) return NULL;
    return hlo_same_dims(high->shape, i->shape)
               ? high
               : hlo_pass_broadcast(i, high, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// max(x, 0) = x for non-negative x.
static HloInstruction *maximum_of_nonnegative(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MAXIMUM));
    double bound;
    for (int k = 0; k < 2; k++) {
        if (real_value(i->operands[1 - k], &bound) && bound <= 0 && is_nonnegative(i->operands[k], FAR))
            return i->operands[k];
    }
    return NULL;
}

// min(min(x, y), y) = min(x, y), and min(x, min(x, y)). For floats too: with the operands in the same positions ties
// are resolved in the same way.
static HloInstruction *bound_again(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MAXIMUM) || hlo_is(i, HLO_OP_MINIMUM));
    HloInstruction *a = i->operands[0], *b = i->operands[1];
    if (a->opcode == i->opcode && a->operands[1] == b) return a;
    return b->opcode == i->opcode && b->operands[0] == a ? b : NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Remainders

// (x % y) % y = x % y: the remainder is smaller than the divisor.
static HloInstruction *remainder_again(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REMAINDER));
    HloInstruction *x = i->operands[0];
    return x->opcode == HLO_OP_REMAINDER && x->operands[1] == i->operands[1] ? x : NULL;
}

// An iota over a size is below all divisors from that size on: the quotient is 0, and the remainder the iota itself.
static HloInstruction *divide_iota(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REMAINDER) || hlo_is(i, HLO_OP_DIVIDE));
    HloInstruction *x = i->operands[0];
    int64_t divisor;
    if (x->opcode != HLO_OP_IOTA || !is_integer(i) || !hlo_pass_integer_value(i->operands[1], &divisor)) return NULL;
    int64_t size = x->shape->dims[HLO_ATTRIBUTES(x, Iota)->dimension];
    if (!is_nonnegative(x, FAR) || divisor <= 0 || size > divisor) return NULL;
    return hlo_is(i, HLO_OP_REMAINDER) ? x : hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 0);
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_ABS, abs_of_nonnegative},
    {HLO_OP_MULTIPLY, square_of_abs},
    {HLO_OP_COMPARE, constant_to_the_right},
    {HLO_OP_COMPARE, compare_with_limit_of},
    {HLO_OP_COMPARE, compare_with_bound},
    {HLO_OP_COMPARE, compare_iota},
    {HLO_OP_COMPARE, compare_beyond},
    {HLO_OP_COMPARE, compare_of_select},
    {HLO_OP_AND, join_bounds},
    {HLO_OP_OR, join_bounds},
    {HLO_OP_SELECT, select_of_equal},
    {HLO_OP_SELECT, select_of_larger},
    {HLO_OP_OR, more_or_equal},
    {HLO_OP_MAXIMUM, two_bounds},
    {HLO_OP_MINIMUM, two_bounds},
    {HLO_OP_MAXIMUM, crossed_bounds},
    {HLO_OP_MINIMUM, crossed_bounds},
    {HLO_OP_MAXIMUM, maximum_of_nonnegative},
    {HLO_OP_CLAMP, clamp_to_one},
    {HLO_OP_MAXIMUM, bound_again},
    {HLO_OP_MINIMUM, bound_again},
    {HLO_OP_REMAINDER, remainder_again},
    {HLO_OP_REMAINDER, divide_iota},
    {HLO_OP_DIVIDE, divide_iota},
};

HloSimplifyTable hlo_simplify_order(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
