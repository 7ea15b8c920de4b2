// SPDX-License-Identifier: Apache-2.0
// Recognises argmax and argmin as jnp.argmax writes them: a reduction of the values together with an iota, whose
// computation keeps the better value, of floats NaN above all, and among equals the lower index.
#include "targets/cpu/graph/match.h"

#include <assert.h>
#include <math.h>

#include "targets/cpu/kernels/sort_keys.h"

// ---- the computation

static bool is_parameter(const HloInstruction *instruction, int64_t number) {
    return instruction->opcode == HLO_OP_PARAMETER && hlo_parameter_number(instruction) == number;
}

// Whether this is compare(parameter a, parameter b) in this direction.
static bool compares(const HloInstruction *test, int64_t a, int64_t b, int32_t direction) {
    return test->opcode == HLO_OP_COMPARE && HLO_ATTRIBUTES(test, Compare)->direction == direction &&
           HLO_ATTRIBUTES(test, Compare)->type != HLO_ComparisonType_TOTALORDER && is_parameter(test->operands[0], a) &&
           is_parameter(test->operands[1], b);
}

// Whether this tests that the accumulated value (parameter 0) is better than the new one (parameter 2), or NaN. Only
// floats need the test for NaN.
static bool keeps_value(const HloInstruction *test, bool is_float, bool *largest) {
    if (test->opcode == HLO_OP_OR && compares(test->operands[1], 0, 0, HLO_ComparisonDirection_NE))
        test = test->operands[0];
    else if (is_float)
        return false;
    *largest = compares(test, 0, 2, HLO_ComparisonDirection_GT);
    return *largest || compares(test, 0, 2, HLO_ComparisonDirection_LT);
}

// Whether this tests the same, or that the values are equal and the accumulated index (parameter 1) is lower than the
// new one (parameter 3).
static bool keeps_place(const HloInstruction *test, const HloInstruction *value_test) {
    if (test->opcode != HLO_OP_OR || test->operands[0] != value_test) return false;
    const HloInstruction *tie = test->operands[1];
    return tie->opcode == HLO_OP_AND && compares(tie->operands[0], 0, 2, HLO_ComparisonDirection_EQ) &&
           compares(tie->operands[1], 1, 3, HLO_ComparisonDirection_LT);
}

static bool selects(const HloInstruction *select, int64_t yes, int64_t no) {
    return select->opcode == HLO_OP_SELECT && is_parameter(select->operands[1], yes) &&
           is_parameter(select->operands[2], no);
}

static bool reads_computation(const HloComputation *computation, bool is_float, bool *largest) {
    const HloInstruction *root = computation->root;
    if (root->opcode != HLO_OP_TUPLE || root->operand_count != 2) return false;
    const HloInstruction *value = root->operands[0], *place = root->operands[1];
    return selects(value, 0, 2) && selects(place, 1, 3) && keeps_value(value->operands[0], is_float, largest) &&
           keeps_place(place->operands[0], value->operands[0]);
}

// ---- the operands

// Whether the array holds the indices along `dimension`, possibly broadcast over others.
static bool counts_along(const CpuArray *array, int64_t dimension) {
    assert(dimension >= 0);
    const CpuNode *node = array->producer;
    if (!node) return false;
    if (node->opcode == HLO_OP_IOTA) return HLO_ATTRIBUTES(node->instruction, Iota)->dimension == dimension;
    if (node->opcode != HLO_OP_BROADCAST) return false;
    const HloInts dimensions = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions;
    for (int64_t i = 0; i < dimensions.count; i++)
        if (dimensions.items[i] == dimension) return counts_along(node->operands[0], i);
    return false;
}

static const HloLiteral *literal_of(const CpuArray *array) {
    return cpu_array_root((CpuArray *)(uintptr_t)array)->literal;
}

// Whether the value is one that no element is worse than.
static bool is_worst(const CpuArray *init, bool largest) {
    const HloLiteral *literal = literal_of(init);
    if (!literal) return false;
    const double value = hlo_literal_get_double(literal, 0);
    const HloTypeInfo *info = hlo_type_info(init->shape->type);
    switch (info->kind) {
        case HLO_KIND_FLOAT: return isinf(value) && (value < 0) == largest;
        case HLO_KIND_SIGNED: return value == (largest ? -ldexp(1, info->bits - 1) : ldexp(1, info->bits - 1) - 1);
        case HLO_KIND_PRED: return value == !largest;
        case HLO_KIND_UNSIGNED: return value == (largest ? 0 : ldexp(1, info->bits) - 1);
        default: return false;
    }
}

bool cpu_match_argminmax(const CpuNode *node, bool *largest) {
    assert(node && largest);
    if (node->opcode != HLO_OP_REDUCE || node->operand_count != 4 || node->state != CPU_NODE_NORMAL) return false;
    const HloInts reduced = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions;
    const HloShape *shape = node->operands[0]->shape;
    const HloType place = node->results[1]->shape->type;
    const bool is_float = hlo_type_is_float(shape->type);
    if (reduced.count != 1 || !reads_computation(node->instruction->called[0], is_float, largest)) return false;
    const int64_t length = shape->dims[reduced.items[0]];
    const HloLiteral *first = literal_of(node->operands[3]);
    return length >= 1 && length <= INT32_MAX && hlo_type_is_integer(place) && hlo_type_bytes(place) >= 4 &&
           (hlo_type_bytes(shape->type) <= 4 || is_float) && cpu_sort_has_keys(shape->type) &&
           is_worst(node->operands[2], *largest) && first && hlo_literal_get_double(first, 0) == 0 &&
           counts_along(node->operands[1], reduced.items[0]);
}
