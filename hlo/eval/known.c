// SPDX-License-Identifier: Apache-2.0
// Values that a program computes from constants and iotas alone.
//
// The evaluator takes some 10 ns an element, so that MOST_ELEMENTS bound the time per array to some 10 ms; larger
// arrays are treated as data. Only ops whose results are the same in every engine are evaluated: no transcendental
// functions, and sums of floats only where a caller takes them as estimates.
#include "hlo/eval/known.h"

#include <string.h>

#include "hlo/eval/eval.h"

enum {
    UNKNOWN = -1,
    MOST_OPS = 96,            // that an array is computed from
    MOST_ELEMENTS = 1 << 20,  // of all of them together
};

// The ops that an array is computed from, operands first, and their values.
typedef struct Cone {
    const HloInstruction *ops[MOST_OPS];
    HloLiteral *values[MOST_OPS];
    int64_t count, elements;
    bool exact;
    int64_t partition;  // whose values are wanted; UNKNOWN: those that all partitions have
} Cone;

// Whether a called computation is a function of scalars that only calculates.
static bool is_plain(const HloComputation *called) {
    for (const HloInstruction *at = called->first; at; at = at->next) {
        const bool calculates =
            hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE) && hlo_op_info(at->opcode)->family != HLO_FAMILY_Accuracy;
        if (at->called_count || !(calculates || hlo_is(at, HLO_OP_PARAMETER) || hlo_is(at, HLO_OP_CONSTANT)))
            return false;
    }
    return true;
}

// Whether the value of an op follows from those of its operands, the same in every engine.
static bool can_evaluate(const Cone *cone, const HloInstruction *op) {
    if (!hlo_shape_is_array(op->shape) || hlo_shape_is_dynamic(op->shape) || hlo_instruction_has_side_effect(op) ||
        hlo_op_is(op->opcode, HLO_OP_IS_NONDETERMINISTIC))
        return false;
    switch (op->opcode) {
        case HLO_OP_CONSTANT: return !HLO_ATTRIBUTES(op, Constant)->literal->elided;
        case HLO_OP_BROADCAST:
        case HLO_OP_CONCATENATE:
        case HLO_OP_COPY:
        case HLO_OP_GATHER:
        case HLO_OP_IOTA:
        case HLO_OP_PAD:
        case HLO_OP_RESHAPE:
        case HLO_OP_REVERSE:
        case HLO_OP_SLICE:
        case HLO_OP_TRANSPOSE: return true;
        case HLO_OP_REDUCE:
            return op->operand_count == 2 && is_plain(op->called[0]) &&
                   (!cone->exact || hlo_type_is_integer(op->shape->type) || op->shape->type == HLO_PRED);
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_PARTITION_ID: return cone->partition != UNKNOWN;
        case HLO_OP_POWER:
        case HLO_OP_ATAN2:
        case HLO_OP_STOCHASTIC_CONVERT: return false;
        default:
            return hlo_op_is(op->opcode, HLO_OP_IS_ELEMENTWISE) && !op->called_count &&
                   hlo_op_info(op->opcode)->family != HLO_FAMILY_Accuracy;
    }
}

// The number of an op in the cone, -1 if it is not in it.
static int64_t position_of(const Cone *cone, const HloInstruction *op) {
    for (int64_t i = cone->count - 1; i >= 0; i--)
        if (cone->ops[i] == op) return i;
    return -1;
}

// Appends an op after its operands. False if it, or anything that it is computed from, cannot be evaluated. Each level
// of recursion adds an op, and the first that has no room ends it.
static bool collect(Cone *cone, const HloInstruction *op, int32_t depth) {
    if (position_of(cone, op) >= 0) return true;
    if (depth == MOST_OPS || !can_evaluate(cone, op)) return false;
    for (int32_t i = 0; i < op->operand_count; i++)
        if (!collect(cone, op->operands[i], depth + 1)) return false;
    if (cone->count == MOST_OPS) return false;
    for (int32_t i = -1; i < (hlo_is(op, HLO_OP_REDUCE) ? 1 : 0); i++)
        cone->elements += hlo_shape_elements(i < 0 ? op->shape : op->operands[i]->shape);
    cone->ops[cone->count++] = op;
    return cone->elements <= MOST_ELEMENTS;
}

// The number of the partition, in the type of the op that asks for it.
static HloStatus partition_number(const Cone *cone, const HloInstruction *op, HloLiteral **result) {
    *result = hlo_literal_new(op->shape);
    if (!*result) return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for the number of a partition");
    hlo_literal_set_int64(*result, 0, cone->partition);
    return HLO_SUCCESS;
}

// Evaluates all ops; `result` gets the value of the last one. Literals on the heap are freed before it returns.
static bool evaluate(Cone *cone, const HloLiteral **operands, HloLiteral *result) {
    bool known = true;
    int64_t made = 0;
    while (known && made < cone->count) {
        const HloInstruction *at = cone->ops[made];
        for (int32_t i = 0; i < at->operand_count; i++) operands[i] = cone->values[position_of(cone, at->operands[i])];
        HloStatus status = hlo_is(at, HLO_OP_PARTITION_ID)
                               ? partition_number(cone, at, &cone->values[made])
                               : hlo_evaluate_instruction(at, operands, NULL, &cone->values[made]);
        known = !status;
        if (known) made++;
        if (status) hlo_status_free(status);  // what cannot be evaluated is data
    }
    if (known) memcpy(result->data, cone->values[made - 1]->data, (size_t)hlo_shape_bytes(result->shape));
    while (made > 0) hlo_literal_free(cone->values[--made]);
    return known;
}

const HloLiteral *hlo_known_value(HloArena *arena, const HloInstruction *op, bool exact) {
    return hlo_known_value_on(arena, op, exact, UNKNOWN);
}

const HloLiteral *hlo_known_value_on(HloArena *arena, const HloInstruction *op, bool exact, int64_t partition) {
    Cone *cone = HLO_ARENA_NEW(arena, Cone, 1);
    *cone = (Cone){.exact = exact, .partition = partition};
    if (!collect(cone, op, 0)) return NULL;
    int32_t most = 1;
    for (int64_t i = 0; i < cone->count; i++)
        if (cone->ops[i]->operand_count > most) most = cone->ops[i]->operand_count;
    const HloLiteral **operands = HLO_ARENA_NEW(arena, const HloLiteral *, most);
    HloLiteral *result = hlo_literal_in_arena(arena, hlo_shape_without_layout(arena, op->shape));
    return evaluate(cone, operands, result) ? result : NULL;
}
