// SPDX-License-Identifier: Apache-2.0
// Rules for sums, products and the like.
//
// Integers form a ring modulo 2^width, so they may be reordered freely; floats may not: x + 0 is not x for -0, x - x is
// not 0 for infinities, x * 0 is not 0 for NaN. Rules for floats are therefore limited to those in which both forms
// round the same exact value. Complex numbers are excluded almost everywhere, since their products consist of several
// operations in a particular order.
#include <assert.h>
#include <math.h>

#include "hlo/pass/simplify/simplify.h"

enum { MOST_USERS = 64 };  // of a value, among which a rule looks for another op

// Predicates of the rules on the type of an instruction's result.
static bool is_float(const HloInstruction *i) {
    return hlo_type_is_float(i->shape->type);
}
static bool is_integer(const HloInstruction *i) {
    return hlo_type_is_integer(i->shape->type);
}
static bool is_unsigned(const HloInstruction *i) {
    return hlo_type_kind(i->shape->type) == HLO_KIND_UNSIGNED;
}

// An array of zeros with the shape of `i`.
static HloInstruction *zeros_like(const HloInstruction *i) {
    return hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 0);
}

// A splat of an integer with the shape of `i`.
static HloInstruction *integers_like(const HloInstruction *i, int64_t value) {
    HloInstruction *scalar = hlo_pass_integer(i, i->shape->type, value);
    return i->shape->rank == 0 ? scalar : hlo_pass_broadcast(i, scalar, hlo_shape_dims(i->shape), (HloInts){NULL, 0});
}

// True for the identity of addition: 0 for integers and pred, -0 for floats (0 would turn -0 into 0).
static bool adds_nothing(const HloInstruction *value) {
    if (is_float(value)) return hlo_pass_is_all(value, -0.0);
    return !hlo_type_is_complex(value->shape->type) && hlo_pass_is_all(value, 0);
}

// x + 0 is x for floats too where x cannot be -0, as in a sum of sums that Python began with 0.
static HloInstruction *add_nothing(HloInstruction *i) {
    for (int k = 1; k >= 0; k--) {
        HloInstruction *x = i->operands[1 - k], *nothing = i->operands[k];
        if (adds_nothing(nothing)) return x;
        if (is_float(i) && hlo_pass_is_all(nothing, 0) && hlo_simplify_has_no_negative_zero(x)) return x;
    }
    return NULL;
}

// x + (-y) = x - y.
static HloInstruction *add_negative(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_ADD));
    HloInstruction *a = i->operands[0], *b = i->operands[1];
    if (b->opcode == HLO_OP_NEGATE) return hlo_pass_binary(i, HLO_OP_SUBTRACT, a, b->operands[0]);
    if (a->opcode == HLO_OP_NEGATE) return hlo_pass_binary(i, HLO_OP_SUBTRACT, b, a->operands[0]);
    return NULL;
}

// The integer ops that commute and associate, bit by bit or modulo 2^64.
static uint64_t combine(HloOpcode opcode, uint64_t c, uint64_t d) {
    switch (opcode) {
        case HLO_OP_ADD: return c + d;
        case HLO_OP_MULTIPLY: return c * d;
        case HLO_OP_AND: return c & d;
        case HLO_OP_OR: return c | d;
        default: assert(opcode == HLO_OP_XOR); return c ^ d;  // the only other opcode in the tables
    }
}

// (x op c) op d = x op (c op d) for integers: sums, products and bit operations.
static HloInstruction *merge_constants(HloInstruction *i) {
    HloInstruction *inner = i->operands[0];
    int64_t outer_value, inner_value, value;
    if (!is_integer(i) || inner->opcode != i->opcode || !hlo_pass_integer_value(i->operands[1], &outer_value) ||
        !hlo_pass_integer_value(inner->operands[1], &inner_value)) {
        return NULL;
    }
    // Computed modulo 2^64 and then, by the type, modulo its width: the same as in two steps.
    value = (int64_t)combine(i->opcode, (uint64_t)inner_value, (uint64_t)outer_value);
    return hlo_pass_binary(i, i->opcode, inner->operands[0], integers_like(i, value));
}

// Moves constants of commuting integer ops to the right, where merge_constants() expects them.
static HloInstruction *constant_to_the_right(HloInstruction *i) {
    int64_t value;
    if (!is_integer(i) || !hlo_pass_integer_value(i->operands[0], &value)) return NULL;
    if (hlo_pass_integer_value(i->operands[1], &value)) return NULL;
    return hlo_pass_binary(i, i->opcode, i->operands[1], i->operands[0]);
}

// a * c + b * c = (a + b) * c and a * c - b * c = (a - b) * c for integers, if that saves a multiplication.
static HloInstruction *factor_out(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_ADD) || hlo_is(i, HLO_OP_SUBTRACT));
    HloInstruction *x = i->operands[0], *y = i->operands[1];
    if (!is_integer(i) || x->opcode != HLO_OP_MULTIPLY || y->opcode != HLO_OP_MULTIPLY) return NULL;
    if (x->users.count != 1 || y->users.count != 1) return NULL;
    for (int k = 0; k < 4; k++) {
        HloInstruction *a = x->operands[k / 2], *b = y->operands[k % 2], *c = x->operands[1 - k / 2];
        if (c != y->operands[1 - k % 2]) continue;
        return hlo_pass_binary(i, HLO_OP_MULTIPLY, hlo_pass_binary(i, i->opcode, a, b), c);
    }
    return NULL;
}

// x - c = x + -c for integers, so that constants of sums and differences can be merged.
static HloInstruction *subtract_constant(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SUBTRACT));
    int64_t value, other;
    if (!is_integer(i) || !hlo_pass_integer_value(i->operands[1], &value)) return NULL;
    if (hlo_pass_integer_value(i->operands[0], &other)) return NULL;
    HloInstruction *negative = integers_like(i, (int64_t)(0 - (uint64_t)value));
    return hlo_pass_binary(i, HLO_OP_ADD, i->operands[0], negative);
}

// (c - x) + d = (c + d) - x for integers.
static HloInstruction *add_to_difference(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_ADD));
    HloInstruction *x = i->operands[0];
    int64_t c, d;
    if (!is_integer(i) || x->opcode != HLO_OP_SUBTRACT || !hlo_pass_integer_value(i->operands[1], &d)) return NULL;
    if (!hlo_pass_integer_value(x->operands[0], &c)) return NULL;
    HloInstruction *sum = integers_like(i, (int64_t)((uint64_t)c + (uint64_t)d));
    return hlo_pass_binary(i, HLO_OP_SUBTRACT, sum, x->operands[1]);
}

// An integer times a truth value is itself or 0. (Not for floats: infinity times 0 is NaN.)
static HloInstruction *multiply_by_truth(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MULTIPLY));
    for (int k = 0; k < 2 && is_integer(i); k++) {
        HloInstruction *truth = i->operands[k];
        if (truth->opcode != HLO_OP_CONVERT || truth->operands[0]->shape->type != HLO_PRED) continue;
        return hlo_pass_select(i, truth->operands[0], i->operands[1 - k], zeros_like(i));
    }
    return NULL;
}

// x - 0 = x, for all floats too: -0 - 0 is -0.
static HloInstruction *subtract_nothing(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SUBTRACT));
    HloInstruction *b = i->operands[1];
    if (!hlo_type_is_complex(b->shape->type) && hlo_pass_is_all(b, 0)) return i->operands[0];
    return NULL;
}

// x - x = 0. Not for floats: infinity minus infinity is NaN.
static HloInstruction *subtract_same(HloInstruction *i) {
    return is_integer(i) && i->operands[0] == i->operands[1] ? zeros_like(i) : NULL;
}

// x - (-y) = x + y: negation only changes a sign, which is exact.
static HloInstruction *subtract_negative(HloInstruction *i) {
    HloInstruction *b = i->operands[1];
    return b->opcode == HLO_OP_NEGATE ? hlo_pass_binary(i, HLO_OP_ADD, i->operands[0], b->operands[0]) : NULL;
}

// 0 - x = -x. Not for floats: 0 - 0 is 0, and its negation is -0.
static HloInstruction *subtract_from_zero(HloInstruction *i) {
    if (!is_integer(i) || !hlo_pass_is_all(i->operands[0], 0)) return NULL;
    return hlo_pass_unary(i, HLO_OP_NEGATE, i->operands[1]);
}

static HloInstruction *multiply_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MULTIPLY));
    if (hlo_type_is_complex(i->shape->type)) return NULL;
    if (hlo_pass_is_all(i->operands[1], 1)) return i->operands[0];
    return hlo_pass_is_all(i->operands[0], 1) ? i->operands[1] : NULL;
}

// x * 0 = 0. Not for floats: infinity times 0 is NaN, and -1 times 0 is -0.
static HloInstruction *multiply_zero(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MULTIPLY));
    if (!is_integer(i)) return NULL;
    bool zero = hlo_pass_is_all(i->operands[0], 0) || hlo_pass_is_all(i->operands[1], 0);
    return zero ? zeros_like(i) : NULL;
}

static HloInstruction *divide_one(HloInstruction *i) {
    bool one = !hlo_type_is_complex(i->shape->type) && hlo_pass_is_all(i->operands[1], 1);
    return one ? i->operands[0] : NULL;
}

// The exponent k if every element is 2^k, k >= 0; -1 otherwise.
static int power_of_two(const HloInstruction *i) {
    int64_t value;
    if (!hlo_pass_integer_value(i, &value) || value <= 0 || (value & (value - 1)) != 0) return -1;
    return __builtin_ctzll((uint64_t)value);
}

// (x / c) / d = x / (c * d) for integers, if the type can represent the product: both truncate towards zero.
static HloInstruction *divide_twice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DIVIDE));
    const HloInstruction *x = i->operands[0];
    int64_t c, d, product;
    if (!is_integer(i) || x->opcode != HLO_OP_DIVIDE) return NULL;
    if (!hlo_pass_integer_value(x->operands[1], &c) || !hlo_pass_integer_value(i->operands[1], &d)) return NULL;
    // Unsigned numbers of 2^63 or more look negative here, and have no product that fits.
    if (c <= 0 || d <= 0 || __builtin_mul_overflow(c, d, &product)) return NULL;
    const int value_bits = hlo_type_info(i->shape->type)->bits - !is_unsigned(i);
    if (value_bits < 63 && product >> value_bits) return NULL;
    return hlo_pass_binary(i, HLO_OP_DIVIDE, x->operands[0], integers_like(i, product));
}

// True for types whose numbers all have a negative.
static bool is_signed_float(const HloInstruction *i) {
    const HloType type = i->shape->type;
    return type == HLO_F16 || type == HLO_BF16 || type == HLO_F32 || type == HLO_F64;
}

// (-x) * c = x * -c: signs are exact.
static HloInstruction *multiply_negative(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MULTIPLY));
    for (int k = 0; k < 2; k++) {
        const HloInstruction *x = i->operands[k], *constant = i->operands[1 - k];
        const HloLiteral *literal;
        int64_t value;
        if (x->opcode != HLO_OP_NEGATE) continue;
        if (is_integer(i) && hlo_pass_integer_value(constant, &value)) {
            HloInstruction *negative = integers_like(i, (int64_t)(0 - (uint64_t)value));
            return hlo_pass_binary(i, HLO_OP_MULTIPLY, x->operands[0], negative);
        }
        if (is_signed_float(i) && hlo_is_splat(constant, &literal)) {
            const double negative = -hlo_literal_get_double(literal, 0);
            return hlo_pass_binary(i, HLO_OP_MULTIPLY, x->operands[0],
                                   hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), negative));
        }
    }
    return NULL;
}

// x * -1 = -x. The -1 of integers, including unsigned ones, has all its bits set.
static HloInstruction *multiply_minus_one(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MULTIPLY));
    for (int k = 0; k < 2; k++) {
        const HloInstruction *constant = i->operands[k];
        const bool minus_one =
            is_integer(i) ? hlo_pass_is_all_ones(constant) : is_signed_float(i) && hlo_pass_is_all(constant, -1);
        if (minus_one) return hlo_pass_unary(i, HLO_OP_NEGATE, i->operands[1 - k]);
    }
    return NULL;
}

// x / 2^k = x >> k. Unsigned only: a shift of a negative number rounds down, a division truncates.
static HloInstruction *divide_by_power(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DIVIDE));
    int power = is_unsigned(i) ? power_of_two(i->operands[1]) : -1;
    if (power < 0) return NULL;
    return hlo_pass_binary(i, HLO_OP_SHIFT_RIGHT_LOGICAL, i->operands[0], integers_like(i, power));
}

// What is added to a negative x, so that a shift by k rounds its quotient up as a division does: 2^k - 1, and 0 to
// others.
static HloInstruction *rounding_of(const HloInstruction *i, HloInstruction *x, int power) {
    const int bits = hlo_type_info(i->shape->type)->bits;
    HloInstruction *signs = hlo_pass_binary(i, HLO_OP_SHIFT_RIGHT_ARITHMETIC, x, integers_like(i, bits - 1));
    return hlo_pass_binary(i, HLO_OP_SHIFT_RIGHT_LOGICAL, signs, integers_like(i, bits - power));
}

// The k of a signed division by 2^k that shifts replace, or -1. Not of scalars, which analyses of indices and of device
// numbers follow through divisions, nor of iotas (divide_iota() in order.c).
static int signed_power(const HloInstruction *i) {
    const bool replaced = hlo_type_kind(i->shape->type) == HLO_KIND_SIGNED &&
                          hlo_type_info(i->shape->type)->bits >= 8 && i->shape->rank > 0 &&
                          i->operands[0]->opcode != HLO_OP_IOTA;
    const int power = replaced ? power_of_two(i->operands[1]) : -1;
    return power > 0 ? power : -1;
}

// x / 2^k = (x + (x < 0 ? 2^k - 1 : 0)) >> k for signed x.
static HloInstruction *divide_signed_by_power(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DIVIDE));
    const int power = signed_power(i);
    if (power < 0) return NULL;
    HloInstruction *x = i->operands[0];
    HloInstruction *sum = hlo_pass_binary(i, HLO_OP_ADD, x, rounding_of(i, x, power));
    return hlo_pass_binary(i, HLO_OP_SHIFT_RIGHT_ARITHMETIC, sum, integers_like(i, power));
}

// The same of the remainder, which has the sign of x.
static HloInstruction *remainder_of_signed_by_power(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REMAINDER));
    const int power = signed_power(i);
    if (power < 0) return NULL;
    HloInstruction *x = i->operands[0], *rounding = rounding_of(i, x, power);
    HloInstruction *sum = hlo_pass_binary(i, HLO_OP_ADD, x, rounding);
    HloInstruction *low = hlo_pass_binary(i, HLO_OP_AND, sum, integers_like(i, (INT64_C(1) << power) - 1));
    return hlo_pass_binary(i, HLO_OP_SUBTRACT, low, rounding);
}

// x rem y = x - x / y * y where the quotient is computed anyway, modulo the width also for a y of 0 (quotient -1) or
// -1. A quotient with control predecessors may have to wait for what uses the remainder.
static HloInstruction *remainder_beside_quotient(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REMAINDER));
    HloInstruction *x = i->operands[0], *y = i->operands[1];
    if (!is_integer(i) || hlo_type_info(i->shape->type)->bits < 8 || i->shape->rank == 0) return NULL;
    const HloInstruction *shorter = x->users.count < y->users.count ? x : y;
    for (int64_t u = 0; u < shorter->users.count && u < MOST_USERS; u++) {
        HloInstruction *quotient = shorter->users.items[u];
        if (quotient->opcode != HLO_OP_DIVIDE || quotient->operands[0] != x || quotient->operands[1] != y) continue;
        if (quotient->control_predecessors.count) continue;
        return hlo_pass_binary(i, HLO_OP_SUBTRACT, x, hlo_pass_binary(i, HLO_OP_MULTIPLY, quotient, y));
    }
    return NULL;
}

// x / 2^k = x * 2^-k: both are the nearest number to the same value, as long as 2^-k is a normal number.
static HloInstruction *divide_by_float_power(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_DIVIDE));
    const HloLiteral *literal;
    if (i->shape->type != HLO_F32 && i->shape->type != HLO_F64) return NULL;
    if (!hlo_is_splat(i->operands[1], &literal)) return NULL;
    double divisor = hlo_literal_get_double(literal, 0);
    int exponent;
    if (!isfinite(divisor) || divisor == 0 || fabs(frexp(divisor, &exponent)) != 0.5) return NULL;
    if (exponent < -100 || exponent > 100) return NULL;
    HloInstruction *inverse = hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 1 / divisor);
    return hlo_pass_binary(i, HLO_OP_MULTIPLY, i->operands[0], inverse);
}

// x % 2^k = x & (2^k - 1) for unsigned numbers; x % 1 = 0 for negative ones too.
static HloInstruction *remainder_by_power(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_REMAINDER));
    int power = is_integer(i) ? power_of_two(i->operands[1]) : -1;
    if (power == 0) return zeros_like(i);
    if (power < 0 || !is_unsigned(i)) return NULL;
    int64_t mask = (int64_t)((UINT64_C(1) << power) - 1);
    return hlo_pass_binary(i, HLO_OP_AND, i->operands[0], integers_like(i, mask));
}

// op(op(x)) = x for an op that is its own inverse.
static HloInstruction *undone(HloInstruction *i) {
    return i->operands[0]->opcode == i->opcode ? i->operands[0]->operands[0] : NULL;
}

// op(op(x)) = op(x) for an idempotent op.
static HloInstruction *idempotent(HloInstruction *i) {
    return i->operands[0]->opcode == i->opcode ? i->operands[0] : NULL;
}

// True if `value` is the least (or greatest) value of its type.
static bool is_limit(const HloInstruction *value, bool least) {
    const HloLiteral *literal;
    HloType type = value->shape->type;
    if (is_float(value)) {
        bool has_infinity = type == HLO_F16 || type == HLO_BF16 || type == HLO_F32 || type == HLO_F64;
        return has_infinity && hlo_pass_is_all(value, least ? -(double)INFINITY : (double)INFINITY);
    }
    if (type == HLO_PRED || is_unsigned(value)) return least ? hlo_pass_is_all(value, 0) : hlo_pass_is_all_ones(value);
    if (!is_integer(value) || !hlo_is_splat(value, &literal)) return false;
    int64_t lowest = -(INT64_C(1) << (hlo_type_info(type)->bits - 2)) * 2;
    return hlo_literal_get_int64(literal, 0) == (least ? lowest : -(lowest + 1));
}

// max(x, least) = x and max(x, greatest) = greatest, and likewise for minima. The latter not for floats, because of
// NaN.
static HloInstruction *bounded_by_all(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_MAXIMUM) || hlo_is(i, HLO_OP_MINIMUM));
    bool least = i->opcode == HLO_OP_MAXIMUM;
    if (hlo_type_is_complex(i->shape->type) || hlo_type_info(i->shape->type)->bits < 2) return NULL;
    for (int k = 0; k < 2; k++) {
        if (is_limit(i->operands[k], least)) return i->operands[1 - k];
        if (!is_float(i) && is_limit(i->operands[k], !least)) return i->operands[k];
    }
    return NULL;
}

// x^0 is 1 even for NaN, as in C's pow() and in XLA.
static HloInstruction *small_power(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_POWER));
    HloInstruction *x = i->operands[0];
    if (!is_float(i) && !is_integer(i)) return NULL;
    if (hlo_pass_is_all(i->operands[1], 1)) return x;
    if (hlo_pass_is_all(i->operands[1], 2)) return hlo_pass_binary(i, HLO_OP_MULTIPLY, x, x);
    if (hlo_pass_is_all(i->operands[1], 0)) return hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 1);
    return NULL;
}

static HloInstruction *part_of_complex(HloInstruction *i) {
    HloInstruction *x = i->operands[0];
    return x->opcode == HLO_OP_COMPLEX ? x->operands[i->opcode == HLO_OP_IMAG] : NULL;
}

static HloInstruction *complex_of_parts(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPLEX));
    HloInstruction *a = i->operands[0], *b = i->operands[1];
    bool parts = a->opcode == HLO_OP_REAL && b->opcode == HLO_OP_IMAG && a->operands[0] == b->operands[0] &&
                 hlo_type_is_complex(a->operands[0]->shape->type);
    return parts ? a->operands[0] : NULL;
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_ADD, add_nothing},
    {HLO_OP_ADD, constant_to_the_right},
    {HLO_OP_ADD, merge_constants},
    {HLO_OP_ADD, add_to_difference},
    {HLO_OP_ADD, add_negative},
    {HLO_OP_ADD, factor_out},
    {HLO_OP_SUBTRACT, subtract_nothing},
    {HLO_OP_SUBTRACT, subtract_same},
    {HLO_OP_SUBTRACT, subtract_negative},
    {HLO_OP_SUBTRACT, subtract_from_zero},
    {HLO_OP_SUBTRACT, subtract_constant},
    {HLO_OP_SUBTRACT, factor_out},
    {HLO_OP_MULTIPLY, multiply_one},
    {HLO_OP_MULTIPLY, multiply_zero},
    {HLO_OP_MULTIPLY, constant_to_the_right},
    {HLO_OP_MULTIPLY, merge_constants},
    {HLO_OP_MULTIPLY, multiply_by_truth},
    {HLO_OP_MULTIPLY, multiply_minus_one},
    {HLO_OP_MULTIPLY, multiply_negative},
    {HLO_OP_AND, constant_to_the_right},
    {HLO_OP_AND, merge_constants},
    {HLO_OP_OR, constant_to_the_right},
    {HLO_OP_OR, merge_constants},
    {HLO_OP_XOR, constant_to_the_right},
    {HLO_OP_XOR, merge_constants},
    {HLO_OP_DIVIDE, divide_one},
    {HLO_OP_DIVIDE, divide_twice},
    {HLO_OP_DIVIDE, divide_by_power},
    {HLO_OP_DIVIDE, divide_signed_by_power},
    {HLO_OP_DIVIDE, divide_by_float_power},
    {HLO_OP_REMAINDER, remainder_by_power},
    {HLO_OP_REMAINDER, remainder_of_signed_by_power},
    {HLO_OP_REMAINDER, remainder_beside_quotient},
    {HLO_OP_NEGATE, undone},
    {HLO_OP_ABS, idempotent},
    {HLO_OP_CEIL, idempotent},
    {HLO_OP_FLOOR, idempotent},
    {HLO_OP_ROUND_NEAREST_AFZ, idempotent},
    {HLO_OP_ROUND_NEAREST_EVEN, idempotent},
    {HLO_OP_MAXIMUM, hlo_simplify_equal_operands},
    {HLO_OP_MAXIMUM, bounded_by_all},
    {HLO_OP_MINIMUM, hlo_simplify_equal_operands},
    {HLO_OP_MINIMUM, bounded_by_all},
    {HLO_OP_POWER, small_power},
    {HLO_OP_REAL, part_of_complex},
    {HLO_OP_IMAG, part_of_complex},
    {HLO_OP_COMPLEX, complex_of_parts},
};

HloSimplifyTable hlo_simplify_arithmetic(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
