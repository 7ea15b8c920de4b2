// SPDX-License-Identifier: Apache-2.0
// Rules for bits, comparisons and selections.
//
// Predicates are treated as integers of one bit: all ones is `true`. Rules about order apply only to integers if NaN
// would break them, and their comments state it.
#include <assert.h>

#include "hlo/pass/simplify/simplify.h"

// True if every element is +0: -0 compares equal to it, but has other bits.
static bool is_zero(const HloInstruction *i) {
    return hlo_pass_is_all(i, 0);
}
// x and 0 = 0, x and -1 = x; for `or` the other way around.
static HloInstruction *with_constant(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_AND) || hlo_is(i, HLO_OP_OR));
    bool is_and = i->opcode == HLO_OP_AND;
    for (int k = 0; k < 2; k++) {
        HloInstruction *constant = i->operands[k], *other = i->operands[1 - k];
        bool zero = is_zero(constant), ones = !zero && hlo_pass_is_all_ones(constant);
        if (is_and ? zero : ones) return constant;
        if (is_and ? ones : zero) return other;
    }
    return NULL;
}

// x ^ x = 0, x ^ 0 = x, and x ^ -1 inverts.
static HloInstruction *simplify_xor(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_XOR));
    if (i->operands[0] == i->operands[1]) {
        return hlo_pass_splat(i, i->shape->type, hlo_shape_dims(i->shape), 0);
    }
    for (int k = 0; k < 2; k++) {
        if (is_zero(i->operands[k])) return i->operands[1 - k];
        if (hlo_pass_is_all_ones(i->operands[k])) return hlo_pass_unary(i, HLO_OP_NOT, i->operands[1 - k]);
    }
    return NULL;
}

// The comparison that is true exactly where this one is false, among ordered numbers.
static int32_t opposite(int32_t direction) {
    static const int32_t opposites[] = {
        [HLO_ComparisonDirection_EQ] = HLO_ComparisonDirection_NE,
        [HLO_ComparisonDirection_NE] = HLO_ComparisonDirection_EQ,
        [HLO_ComparisonDirection_GE] = HLO_ComparisonDirection_LT,
        [HLO_ComparisonDirection_GT] = HLO_ComparisonDirection_LE,
        [HLO_ComparisonDirection_LE] = HLO_ComparisonDirection_GT,
        [HLO_ComparisonDirection_LT] = HLO_ComparisonDirection_GE,
    };
    return opposites[direction];
}

// not(not(x)) = x; not(a < b) = a >= b for types without NaN.
static HloInstruction *simplify_not(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_NOT));
    HloInstruction *x = i->operands[0];
    if (x->opcode == HLO_OP_NOT) return x->operands[0];
    if (x->opcode != HLO_OP_COMPARE || x->users.count != 1) return NULL;
    HloCompareAttributes attributes = *HLO_ATTRIBUTES(x, Compare);
    bool equality =
        attributes.direction == HLO_ComparisonDirection_EQ || attributes.direction == HLO_ComparisonDirection_NE;
    if (!equality && !hlo_simplify_is_exact(x->operands[0])) return NULL;
    attributes.direction = opposite(attributes.direction);
    return hlo_pass_make(
        i, &(HloBuildRequest){
               .opcode = HLO_OP_COMPARE, .operands = x->operands, .operand_count = 2, .attributes = &attributes});
}

// A shift by 0 of any kind is its operand.
static HloInstruction *shift_by_nothing(HloInstruction *i) {
    return is_zero(i->operands[1]) ? i->operands[0] : NULL;
}

// x == x is true, x != x false. Not for floats: NaN does not equal itself.
static HloInstruction *compare_same(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    if (i->operands[0] != i->operands[1] || !hlo_simplify_is_exact(i->operands[0])) return NULL;
    int32_t direction = HLO_ATTRIBUTES(i, Compare)->direction;
    return hlo_simplify_pred_like(i, direction == HLO_ComparisonDirection_EQ ||
                                         direction == HLO_ComparisonDirection_GE ||
                                         direction == HLO_ComparisonDirection_LE);
}

// x == true is x, x == false is not x; and likewise for !=.
static HloInstruction *compare_with_pred(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_COMPARE));
    HloInstruction *x = i->operands[0], *constant = i->operands[1];
    int32_t direction = HLO_ATTRIBUTES(i, Compare)->direction;
    bool equal = direction == HLO_ComparisonDirection_EQ;
    if (x->shape->type != HLO_PRED || (!equal && direction != HLO_ComparisonDirection_NE)) return NULL;
    bool zero = is_zero(constant);
    if (!zero && !hlo_pass_is_all_ones(constant)) return NULL;
    return zero != equal ? x : hlo_pass_unary(i, HLO_OP_NOT, x);
}

// A select with a constant predicate or two equal choices is one of them.
static HloInstruction *select_known(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    if (!hlo_shape_is_array(i->shape))
        return NULL;  // a select of tuples, which XLA does not have: refused later, by name
    HloInstruction *predicate = i->operands[0];
    if (i->operands[1] == i->operands[2]) return i->operands[1];
    if (is_zero(predicate)) return i->operands[2];
    return hlo_pass_is_all_ones(predicate) ? i->operands[1] : NULL;
}

// select(not(p), a, b) = select(p, b, a); the negation may then become unused.
static HloInstruction *select_of_not(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    HloInstruction *predicate = i->operands[0];
    if (predicate->opcode != HLO_OP_NOT) return NULL;
    return hlo_pass_select(i, predicate->operands[0], i->operands[2], i->operands[1]);
}

// select(p, true, false) = p.
static HloInstruction *select_of_truth(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    HloInstruction *predicate = i->operands[0], *yes = i->operands[1], *no = i->operands[2];
    bool same_sizes = hlo_shape_equal(predicate->shape, i->shape, HLO_COMPARE_IGNORE_LAYOUT);
    if (i->shape->type != HLO_PRED || !same_sizes) return NULL;
    if (hlo_pass_is_all_ones(yes) && is_zero(no)) return predicate;
    if (is_zero(yes) && hlo_pass_is_all_ones(no)) return hlo_pass_unary(i, HLO_OP_NOT, predicate);
    return NULL;
}

// select(p, select(p, a, b), c) = select(p, a, c), and likewise on the other side.
static HloInstruction *select_again(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    HloInstruction *predicate = i->operands[0], *yes = i->operands[1], *no = i->operands[2];
    bool on_yes = yes->opcode == HLO_OP_SELECT && yes->operands[0] == predicate;
    bool on_no = no->opcode == HLO_OP_SELECT && no->operands[0] == predicate;
    if (!on_yes && !on_no) return NULL;
    return hlo_pass_select(i, predicate, on_yes ? yes->operands[1] : yes, on_no ? no->operands[2] : no);
}

// The most instructions between two selects of one predicate that select_within_choice() looks at.
enum { MOST_WITHIN = 256, SLOTS = 2 * MOST_WITHIN };

// Puts an instruction into a table of them, which is never full; false if it is there already.
static bool take_slot(const HloInstruction **slots, const HloInstruction *at) {
    unsigned slot = (unsigned)at->id % SLOTS;
    while (slots[slot] && slots[slot] != at) slot = (slot + 1) % SLOTS;
    if (slots[slot]) return false;
    slots[slot] = at;
    return true;
}

// Of the operands 1 and 2 of selects by `predicate`, those that all uses of i's elements end in, as a set of bits; 0 if
// a use ends elsewhere or too far away. Between are elementwise ops only, in which elements keep their places.
static unsigned chosen_sides(const HloInstruction *i, const HloInstruction *predicate) {
    const HloInstruction *seen[MOST_WITHIN] = {i}, *slots[SLOTS] = {NULL};
    unsigned sides = 0;
    take_slot(slots, i);
    for (int at = 0, count = 1; at < count; at++) {
        if (seen[at]->parent->root == seen[at]) return 0;
        for (int64_t k = 0; k < seen[at]->users.count; k++) {
            const HloInstruction *user = seen[at]->users.items[k];
            if (hlo_is(user, HLO_OP_SELECT) && user->operands[0] == predicate) {
                for (int side = 1; side <= 2; side++)
                    if (user->operands[side] == seen[at]) sides |= 1U << side;
                continue;
            }
            if (!hlo_op_is(user->opcode, HLO_OP_IS_ELEMENTWISE)) return 0;
            if (!take_slot(slots, user)) continue;
            if (count == MOST_WITHIN) return 0;
            seen[count++] = user;
        }
    }
    return sides;
}

// select(p, a, b) is b where all that is computed from it is chosen by p again, as in select(p, c, sqrt(select(p, 1,
// x))): the elements in which it is a are chosen nowhere. Formulas have these guards for their derivatives, where they
// must stay.
static HloInstruction *select_within_choice(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_SELECT));
    const HloInstruction *predicate = i->operands[0];
    if (predicate->users.count < 2) return NULL;
    const unsigned sides = chosen_sides(i, predicate);
    return sides == 1U << 1 ? i->operands[1] : sides == 1U << 2 ? i->operands[2] : NULL;
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_AND, hlo_simplify_equal_operands},
    {HLO_OP_AND, with_constant},
    {HLO_OP_OR, hlo_simplify_equal_operands},
    {HLO_OP_OR, with_constant},
    {HLO_OP_XOR, simplify_xor},
    {HLO_OP_NOT, simplify_not},
    {HLO_OP_SHIFT_LEFT, shift_by_nothing},
    {HLO_OP_SHIFT_RIGHT_ARITHMETIC, shift_by_nothing},
    {HLO_OP_SHIFT_RIGHT_LOGICAL, shift_by_nothing},
    {HLO_OP_COMPARE, compare_same},
    {HLO_OP_COMPARE, compare_with_pred},
    {HLO_OP_SELECT, select_known},
    {HLO_OP_SELECT, select_of_not},
    {HLO_OP_SELECT, select_of_truth},
    {HLO_OP_SELECT, select_again},
    {HLO_OP_SELECT, select_within_choice},
};

HloSimplifyTable hlo_simplify_logic(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
