// SPDX-License-Identifier: Apache-2.0
// Recognises loops that count. The pattern is what front ends write: the condition compares an element of the state
// with a constant (or with an element that never changes and starts as one), and the body adds a constant to that
// element. Everything else about the loop may be arbitrary. The trip count is then arithmetic, with care for overflow:
// a counter of s8 that steps over its end becomes negative, and the trip count of that loop is unknown, not finite.
#include "hlo/analysis/loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// The element of the computation's one parameter that `instruction` is: -1 for the parameter itself, -2 for none. Looks
// through copies, and through bitcasts that keep the number's meaning: a counter of u32 that is compared as s32 does
// not count in the way that this file assumes.
static int64_t state_element(const HloInstruction *instruction) {
    const HloType type = instruction->shape->type;
    while (instruction->opcode == HLO_OP_COPY || instruction->opcode == HLO_OP_BITCAST) {
        instruction = instruction->operands[0];
        if (instruction->shape->type != type) return -2;
    }
    if (instruction->opcode == HLO_OP_PARAMETER) return -1;
    bool element =
        instruction->opcode == HLO_OP_GET_TUPLE_ELEMENT && instruction->operands[0]->opcode == HLO_OP_PARAMETER;
    return element ? HLO_ATTRIBUTES(instruction, TupleIndex)->index : -2;
}

// Element `index` of an instruction's value (-1: the value itself); NULL if it cannot be determined.
static const HloInstruction *element_of(const HloInstruction *instruction, int64_t index) {
    if (index == -1) return instruction;
    if (instruction->opcode != HLO_OP_TUPLE || index >= instruction->operand_count) return NULL;
    return instruction->operands[index];
}

// The value of a scalar integer constant, also through copies. False for a u64 beyond 2^63, which no int64_t can hold.
static bool integer_constant(const HloInstruction *instruction, int64_t *value) {
    if (!instruction) return false;
    while (instruction->opcode == HLO_OP_COPY) instruction = instruction->operands[0];
    if (instruction->opcode != HLO_OP_CONSTANT || instruction->shape->rank != 0) return false;
    if (!hlo_type_is_integer(instruction->shape->type)) return false;
    const HloLiteral *literal = hlo_constant_literal(instruction);
    if (!literal || literal->elided) return false;
    *value = hlo_literal_get_int64(literal, 0);
    return instruction->shape->type != HLO_U64 || *value >= 0;
}

const HloInstruction *hlo_loop_around(const HloInstruction *parameter) {
    const HloComputation *computation = parameter->parent;
    const HloInstruction *caller = computation->callers.count == 1 ? computation->callers.items[0] : NULL;
    return caller && hlo_is(caller, HLO_OP_WHILE) ? caller : NULL;
}

// Only an element that is passed through directly is known to be invariant; one that is recomputed equally is not
// found.
bool hlo_loop_element_is_invariant(const HloInstruction *loop, int64_t index) {
    const HloInstruction *out = element_of(loop->called[1]->root, index);
    return out && state_element(out) == index;
}

// A constant, or an invariant element of the state that starts as a constant.
static bool known_in_loop(const HloInstruction *loop, const HloInstruction *instruction, int64_t *value) {
    if (integer_constant(instruction, value)) return true;
    int64_t index = state_element(instruction);
    return index >= 0 && hlo_loop_element_is_invariant(loop, index) &&
           integer_constant(element_of(loop->operands[0], index), value);
}

// Reads the condition `counter OP limit`.
static bool read_condition(const HloInstruction *loop, const HloInstruction *root, HloCountedLoop *counted) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    if (root->opcode != HLO_OP_COMPARE) return false;
    counted->direction = HLO_ATTRIBUTES(root, Compare)->direction;
    const HloInstruction *counter = root->operands[0], *limit = root->operands[1];
    bool invariant = state_element(counter) >= 0 && hlo_loop_element_is_invariant(loop, state_element(counter));
    if (state_element(counter) == -2 || invariant) {
        counter = root->operands[1];
        limit = root->operands[0];
        counted->direction = hlo_comparison_exchanged(counted->direction);
    }
    counted->index = state_element(counter);
    return counted->index != -2 && known_in_loop(loop, limit, &counted->limit);
}

// Reads the step `counter + constant` or `counter - constant`.
static bool read_step(const HloInstruction *loop, HloCountedLoop *counted) {
    assert(hlo_is(loop, HLO_OP_WHILE));
    const HloInstruction *next = element_of(loop->called[1]->root, counted->index);
    while (next && next->opcode == HLO_OP_COPY) next = next->operands[0];
    if (!next || (next->opcode != HLO_OP_ADD && next->opcode != HLO_OP_SUBTRACT)) return false;
    const HloInstruction *counter = next->operands[0], *step = next->operands[1];
    if (next->opcode == HLO_OP_ADD && state_element(counter) != counted->index) {
        counter = next->operands[1];
        step = next->operands[0];
    }
    if (state_element(counter) != counted->index || !known_in_loop(loop, step, &counted->step)) return false;
    if (next->opcode != HLO_OP_SUBTRACT) return true;
    return !__builtin_sub_overflow(0, counted->step, &counted->step);
}

// ceil(distance / step) for positive numbers.
static int64_t steps_to(int64_t distance, int64_t step) {
    return distance <= 0 ? 0 : (distance - 1) / step + 1;
}

// Computes the trip count; false when the loop does not end before the counter overflows its type.
static bool count_trips(HloCountedLoop *counted, HloType type) {
    assert(hlo_type_is_integer(type));
    int64_t distance, step = counted->step, last;
    bool up = step > 0;
    if (step == 0 || __builtin_sub_overflow(counted->limit, counted->start, &distance)) return false;
    if (step == INT64_MIN || distance == INT64_MIN) return false;
    if (!up) {
        distance = -distance;
        step = -step;
    }
    switch (counted->direction) {
        case HLO_ComparisonDirection_LT:
        case HLO_ComparisonDirection_GT:
            if (up != (counted->direction == HLO_ComparisonDirection_LT)) return false;
            break;
        case HLO_ComparisonDirection_LE:
        case HLO_ComparisonDirection_GE:
            if (up != (counted->direction == HLO_ComparisonDirection_LE) || distance == INT64_MAX) return false;
            distance++;
            break;
        case HLO_ComparisonDirection_NE:
            if (distance < 0 || distance % step != 0) return false;
            break;
        default: return false;
    }
    counted->trip_count = steps_to(distance, step);
    if (__builtin_mul_overflow(counted->trip_count, counted->step, &last) ||
        __builtin_add_overflow(last, counted->start, &last)) {
        return false;
    }
    int bits = hlo_type_info(type)->bits;
    bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    if (!is_signed && last < 0) return false;
    if (bits >= 64) return true;
    int64_t most = (INT64_C(1) << (bits - is_signed)) - 1;
    return last <= most && last >= (is_signed ? -most - 1 : 0);
}

// Determines condition, step and start, and only then the trip count.
static bool count_loop(const HloInstruction *loop, const HloInstruction *condition, HloCountedLoop *counted) {
    *counted = (HloCountedLoop){.trip_count = -1};
    if (!read_condition(loop, condition, counted) || !read_step(loop, counted)) return false;
    if (!integer_constant(element_of(loop->operands[0], counted->index), &counted->start)) return false;
    const HloShape *shape = loop->shape;
    HloType type = counted->index < 0 ? shape->type : shape->elements[counted->index]->type;
    return count_trips(counted, type);
}

bool hlo_counted_loop(const HloInstruction *loop, HloCountedLoop *counted) {
    assert(loop && counted);
    *counted = (HloCountedLoop){.trip_count = -1};
    if (loop->opcode != HLO_OP_WHILE || loop->called_count != 2) return false;
    return count_loop(loop, loop->called[0]->root, counted);
}

// Reads "known_trip_count":{"n":"12"}, as XLA's passes store it in the backend config.
static int64_t configured_trip_count(const char *config) {
    const char *found = config ? strstr(config, "known_trip_count") : NULL;
    found = found ? strstr(found, "\"n\"") : NULL;
    if (!found) return -1;
    found += 3;
    while (*found == ' ' || *found == ':' || *found == '"' || *found == '\\') found++;
    if (*found < '0' || *found > '9') return -1;
    return strtoll(found, NULL, 10);
}

// A proven count takes precedence over the one in the config.
int64_t hlo_trip_count(const HloInstruction *loop) {
    HloCountedLoop counted;
    if (hlo_counted_loop(loop, &counted)) return counted.trip_count;
    return configured_trip_count(loop->backend_config);
}

// Appends a part of a conjunction that is not in the list yet.
static void add_part(const HloInstruction **parts, int64_t *count, const HloInstruction *part) {
    for (int64_t i = 0; i < *count; i++)
        if (parts[i] == part) return;
    parts[(*count)++] = part;
}

// The truth value in a constant, or broadcast from it; -1 if there is none.
static int constant_truth(const HloInstruction *i) {
    while (i->opcode == HLO_OP_BROADCAST) i = i->operands[0];
    if (i->opcode != HLO_OP_CONSTANT || i->shape->type != HLO_PRED || hlo_shape_elements(i->shape) != 1) return -1;
    return hlo_literal_get_int64(hlo_constant_literal(i), 0) != 0;
}

// Strips conversions to the same type, and `x != false` and `x == true`, as JAX writes a conjunction of values that are
// not known to be truth values.
static const HloInstruction *stripped(const HloInstruction *i) {
    for (;;) {
        const HloInstruction *inner = NULL;
        if (i->opcode == HLO_OP_CONVERT || i->opcode == HLO_OP_COPY) {
            inner = i->operands[0];
        } else if (i->opcode == HLO_OP_COMPARE) {
            const int32_t direction = HLO_ATTRIBUTES(i, Compare)->direction;
            for (int k = 0; k < 2; k++) {
                const int truth = constant_truth(i->operands[1 - k]);
                if ((direction == HLO_ComparisonDirection_NE && truth == 0) ||
                    (direction == HLO_ComparisonDirection_EQ && truth == 1))
                    inner = i->operands[k];
            }
        }
        if (!inner || inner->shape->type != HLO_PRED) return i;
        i = inner;
    }
}

// Each part of a conjunction ends the loop. A limit from the first parts is a limit, so that a few are enough.
int64_t hlo_trip_bound(const HloInstruction *loop) {
    const int64_t known = hlo_trip_count(loop);
    if (known >= 0 || loop->opcode != HLO_OP_WHILE || loop->called_count != 2) return known;
    enum { MOST = 32 };
    const HloInstruction *parts[MOST] = {loop->called[0]->root};
    int64_t bound = -1;
    for (int64_t i = 0, count = 1; i < count; i++) {
        const HloInstruction *part = stripped(parts[i]);
        HloCountedLoop counted;
        if (part->opcode == HLO_OP_AND && count + 2 <= MOST) {
            add_part(parts, &count, part->operands[0]);
            add_part(parts, &count, part->operands[1]);
        } else if (count_loop(loop, part, &counted) && (bound < 0 || counted.trip_count < bound)) {
            bound = counted.trip_count;
        }
    }
    return bound;
}

double hlo_computation_runs(const HloComputation *computation, double *runs) {
    double *known = &runs[computation->id];
    if (*known > 0) return *known;
    *known = computation == computation->module->entry ? 1 : 0;
    for (int64_t i = 0; i < computation->callers.count; i++) {
        const HloInstruction *caller = computation->callers.items[i];
        const int64_t trips = hlo_is(caller, HLO_OP_WHILE) ? hlo_trip_count(caller) : 1;
        *known += hlo_computation_runs(caller->parent, runs) * (trips > 0 ? (double)trips : 1);
    }
    return *known;
}
