// SPDX-License-Identifier: Apache-2.0
#include "emulator/trip_count.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// A counter that no program needs: loops that run longer are taken as unknown.
#define MAX_TRIPS (INT64_C(1) << 40)

// Looks through what does not change a value.
static const HloInstruction *look_through(const HloInstruction *value) {
    while (value->opcode == HLO_OP_COPY || value->opcode == HLO_OP_BITCAST || value->opcode == HLO_OP_RESHAPE ||
           value->opcode == HLO_OP_CONVERT)
        value = value->operands[0];
    return value;
}

// Reads an integer constant of reasonable size, maybe behind copies.
static bool constant_of(const HloInstruction *value, int64_t *number) {
    value = look_through(value);
    if (value->opcode != HLO_OP_CONSTANT || !hlo_type_is_integer(value->shape->type)) return false;
    const HloLiteral *literal = hlo_constant_literal(value);
    if (!literal || literal->elided || hlo_shape_elements(value->shape) != 1) return false;
    *number = hlo_literal_get_int64(literal, 0);
    return *number <= MAX_TRIPS && *number >= -MAX_TRIPS;
}

// The tuple element that a value reads from the parameter of its computation, -1 if it is none.
static int64_t element_of(const HloInstruction *value) {
    value = look_through(value);
    if (value->opcode != HLO_OP_GET_TUPLE_ELEMENT || value->operands[0]->opcode != HLO_OP_PARAMETER) return -1;
    return HLO_ATTRIBUTES(value, TupleIndex)->index;
}

// "known_trip_count":{"n":"10"} in a backend config.
static int64_t written_count(const HloInstruction *loop) {
    const char *at = loop->backend_config ? strstr(loop->backend_config, "\"known_trip_count\"") : NULL;
    at = at ? strstr(at, "\"n\"") : NULL;
    if (!at) return -1;
    at += 3;
    while (*at && !isdigit((unsigned char)*at)) at++;
    return *at ? strtoll(at, NULL, 10) : -1;
}

// The comparison at the root of a condition, with both sides seen from the condition's own parameter: a fusion around it
// is looked into.
static bool comparison_of(const HloComputation *condition, const HloInstruction **left, const HloInstruction **right,
                          int32_t *direction) {
    const HloInstruction *root = look_through(condition->root);
    const HloInstruction *outer = NULL;
    if (root->opcode == HLO_OP_FUSION) {
        outer = root;
        root = look_through(root->called[0]->root);
    }
    if (root->opcode != HLO_OP_COMPARE) return false;
    const HloInstruction *sides[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = look_through(root->operands[i]);
        if (outer && sides[i]->opcode == HLO_OP_PARAMETER) sides[i] = outer->operands[hlo_parameter_number(sides[i])];
    }
    *left = sides[0];
    *right = sides[1];
    *direction = HLO_ATTRIBUTES(root, Compare)->direction;
    return true;
}

// What the body adds to tuple element `element` each time; false when it does something else.
static bool step_of(const HloComputation *body, int64_t element, int64_t *step) {
    const HloInstruction *root = body->root;
    if (root->opcode != HLO_OP_TUPLE || element >= root->operand_count) return false;
    const HloInstruction *next = look_through(root->operands[element]);
    const HloInstruction *outer = NULL;
    if (next->opcode == HLO_OP_FUSION) {
        outer = next;
        next = look_through(next->called[0]->root);
    }
    if (next->opcode != HLO_OP_ADD && next->opcode != HLO_OP_SUBTRACT) return false;
    for (int i = 0; i < 2; i++) {
        const HloInstruction *counter = look_through(next->operands[i]);
        if (outer && counter->opcode == HLO_OP_PARAMETER) counter = outer->operands[hlo_parameter_number(counter)];
        if (element_of(counter) != element || !constant_of(next->operands[1 - i], step)) continue;
        if (next->opcode == HLO_OP_SUBTRACT) *step = i ? 0 : -*step;
        return *step != 0;
    }
    return false;
}

// How many values start, start + step, … satisfy `value direction limit` before the first that does not.
static int64_t count_steps(int64_t start, int64_t step, int64_t limit, int32_t direction) {
    if (direction == HLO_ComparisonDirection_LE) limit++;
    if (direction == HLO_ComparisonDirection_GE) limit--;
    const bool rising = direction == HLO_ComparisonDirection_LT || direction == HLO_ComparisonDirection_LE;
    const bool falling = direction == HLO_ComparisonDirection_GT || direction == HLO_ComparisonDirection_GE;
    if (direction == HLO_ComparisonDirection_NE && (limit - start) % step == 0 && (limit - start) / step >= 0)
        return (limit - start) / step;
    if (rising && step > 0) return start >= limit ? 0 : (limit - start + step - 1) / step;
    if (falling && step < 0) return start <= limit ? 0 : (start - limit - step - 1) / -step;
    return -1;
}

// a < b is b > a.
static int32_t mirrored(int32_t direction) {
    switch (direction) {
        case HLO_ComparisonDirection_LT: return HLO_ComparisonDirection_GT;
        case HLO_ComparisonDirection_LE: return HLO_ComparisonDirection_GE;
        case HLO_ComparisonDirection_GT: return HLO_ComparisonDirection_LT;
        case HLO_ComparisonDirection_GE: return HLO_ComparisonDirection_LE;
        default: return direction;
    }
}

int64_t emu_trip_count(const HloInstruction *loop) {
    const int64_t written = written_count(loop);
    if (written >= 0 && written <= MAX_TRIPS) return written;
    const HloComputation *condition = loop->called[0], *body = loop->called[1];
    const HloInstruction *left, *right, *initial = look_through(loop->operands[0]);
    int32_t direction;
    int64_t start, step, limit;
    if (!comparison_of(condition, &left, &right, &direction)) return -1;
    if (element_of(left) < 0) {
        const HloInstruction *swap = left;
        left = right;
        right = swap;
        direction = mirrored(direction);
    }
    const int64_t element = element_of(left), limit_element = element_of(right);
    if (element < 0 || initial->opcode != HLO_OP_TUPLE || element >= initial->operand_count) return -1;
    // The limit may be a constant of the condition, or an element that the body hands on unchanged.
    const HloInstruction *limit_value = right;
    if (limit_element >= 0) {
        if (body->root->opcode != HLO_OP_TUPLE || limit_element >= initial->operand_count ||
            element_of(body->root->operands[limit_element]) != limit_element)
            return -1;
        limit_value = initial->operands[limit_element];
    }
    if (!constant_of(limit_value, &limit) || !constant_of(initial->operands[element], &start)) return -1;
    if (!step_of(body, element, &step)) return -1;
    return count_steps(start, step, limit, direction);
}
