// SPDX-License-Identifier: Apache-2.0
// Emits computations of scalars (as reductions, sorts, maps and scatters call them) inside loops. A tuple is its
// leaves, a call is its callee's operations, a conditional is a selection among the results of all its branches: these
// operations have no effects or traps, so computing too much is harmless.
#include <assert.h>
#include <string.h>

#include "targets/cpu/lower/emit.h"

// Calls of scalar computations nest a few levels; deeper ones are left to the evaluator.
enum { kMaximumDepth = 16 };

// Whether the operation on a scalar returns the same scalar.
static bool is_identity(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_COPY:
        case HLO_OP_RESHAPE:
        case HLO_OP_BROADCAST:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_OPTIMIZATION_BARRIER: return true;
        case HLO_OP_BITCAST: return instruction->shape->type == instruction->operands[0]->shape->type;
        default: return false;
    }
}

// Whether the shape is a scalar or a tuple of such shapes; an empty tuple is not.
static bool is_of_scalars(const HloShape *shape) {
    if (!hlo_shape_is_tuple(shape)) return hlo_shape_is_scalar(shape);
    bool all = shape->element_count > 0;
    for (int32_t i = 0; i < shape->element_count; i++) all = all && is_of_scalars(shape->elements[i]);
    return all;
}

static bool can_inline(const HloComputation *computation, int depth);

// Whether cpu_emit_computation() can emit the instruction into a loop, element by element: scalars, and tuples of them,
// for which nothing is emitted. Calls are inlined, and both sides of a conditional are computed and selected from,
// which is correct since these operations have no effects; can_inline() limits the depth.
static bool can_inline_instruction(const HloInstruction *instruction, int depth) {
    if (!is_of_scalars(instruction->shape)) return false;
    switch (instruction->opcode) {
        case HLO_OP_PARAMETER:
        case HLO_OP_TUPLE:
        case HLO_OP_GET_TUPLE_ELEMENT: return true;
        case HLO_OP_CONSTANT: return !hlo_shape_is_tuple(instruction->shape);
        case HLO_OP_BITCAST_CONVERT:
            return hlo_type_bytes(instruction->shape->type) == hlo_type_bytes(instruction->operands[0]->shape->type);
        case HLO_OP_CALL:
        case HLO_OP_FUSION:
        case HLO_OP_CONDITIONAL: {
            bool all = true;
            for (int32_t i = 0; i < instruction->called_count; i++)
                all = all && can_inline(instruction->called[i], depth + 1);
            return all;
        }
        default:
            return is_identity(instruction) ? is_of_scalars(instruction->operands[0]->shape)
                                            : cpu_emit_has_operation(instruction->opcode);
    }
}

static bool can_inline(const HloComputation *computation, int depth) {
    if (depth > kMaximumDepth) return false;
    for (const HloInstruction *i = computation->first; i; i = i->next)
        if (!can_inline_instruction(i, depth)) return false;
    return true;
}

bool cpu_emit_can_inline_computation(const HloComputation *computation) {
    return can_inline(computation, 0);
}

// ---- emission

// The values of one instantiation of a computation; those of an instruction's leaves are consecutive.
typedef struct Scalars {
    HloArena *arena;
    CpuLoopBuilder *builder;
    HloIntMap first;  // by address of the instruction: the index of its first value
    HLO_VECTOR(CpuValue) values;
} Scalars;

static const CpuValue *values_of(const Scalars *scalars, const HloInstruction *instruction) {
    const int64_t *found = hlo_int_map_find(&scalars->first, (uint64_t)(uintptr_t)instruction);
    assert(found); /* operands come before their users */
    return scalars->values.items + *found;
}

// Concatenates the leaves of all operands from `begin` on.
static CpuValue *operand_values(const Scalars *scalars, const HloInstruction *instruction, int32_t begin) {
    int64_t count = 0;
    for (int32_t i = begin; i < instruction->operand_count; i++)
        count += hlo_shape_leaf_count(instruction->operands[i]->shape);
    CpuValue *all = HLO_ARENA_NEW(scalars->arena, CpuValue, count + 3);  // operations read three operands
    for (int32_t i = begin, to = 0; i < instruction->operand_count; i++) {
        const CpuValue *values = values_of(scalars, instruction->operands[i]);
        for (int64_t k = 0; k < hlo_shape_leaf_count(instruction->operands[i]->shape); k++) all[to++] = values[k];
    }
    return all;
}

// Returns the index of the first leaf of parameter `number` among those of all parameters.
static int64_t first_parameter_leaf(const HloComputation *computation, int64_t number) {
    int64_t first = 0;
    for (int64_t i = 0; i < number; i++) first += hlo_shape_leaf_count(computation->parameters.items[i]->shape);
    return first;
}

// Emits all branches, and the selection among their results: by a predicate (true first), or by a number, where any
// value out of range selects the last branch.
static void emit_conditional(const Scalars *scalars, const HloInstruction *instruction, CpuValue *results) {
    CpuLoopBuilder *builder = scalars->builder;
    const int64_t leaves = hlo_shape_leaf_count(instruction->shape);
    const CpuValue chooser = *values_of(scalars, instruction->operands[0]);
    CpuValue *branch = HLO_ARENA_NEW(scalars->arena, CpuValue, leaves);
    assert(instruction->called_count > 0); /* the verifier requires a branch */
    for (int32_t b = instruction->called_count; b-- > 0;) {
        const bool last = b + 1 == instruction->called_count;
        cpu_emit_computation(scalars->arena, builder, instruction->called[b],
                             values_of(scalars, instruction->operands[b + 1]), last ? results : branch);
        if (last) continue;
        CpuValue taken = chooser;
        if (instruction->operands[0]->shape->type != HLO_PRED)
            taken = cpu_loop_op(builder, CPU_OP_EQ, chooser, cpu_loop_constant(builder, HLO_S32, &b), 0);
        for (int64_t k = 0; k < leaves; k++)
            results[k] = cpu_loop_op(builder, CPU_OP_SELECT, taken, branch[k], results[k]);
    }
}

// Emits one instruction of a computation on scalars as values of the loop; tuples are lists of their leaves.
static void emit_instruction(const Scalars *scalars, const HloInstruction *instruction, const CpuValue *parameters,
                             CpuValue *results) {
    const int64_t leaves = hlo_shape_leaf_count(instruction->shape);
    const CpuValue *from;
    switch (instruction->opcode) {
        case HLO_OP_PARAMETER:
            from = parameters + first_parameter_leaf(instruction->parent, hlo_parameter_number(instruction));
            break;
        case HLO_OP_CONSTANT:
            results[0] =
                cpu_loop_constant(scalars->builder, instruction->shape->type, hlo_constant_literal(instruction)->data);
            return;
        case HLO_OP_GET_TUPLE_ELEMENT:
            from =
                values_of(scalars, instruction->operands[0]) +
                hlo_shape_first_leaf(instruction->operands[0]->shape, HLO_ATTRIBUTES(instruction, TupleIndex)->index);
            break;
        case HLO_OP_TUPLE: from = operand_values(scalars, instruction, 0); break;
        case HLO_OP_CALL:
        case HLO_OP_FUSION:
            cpu_emit_computation(scalars->arena, scalars->builder, instruction->called[0],
                                 operand_values(scalars, instruction, 0), results);
            return;
        case HLO_OP_CONDITIONAL: emit_conditional(scalars, instruction, results); return;
        default:
            from = operand_values(scalars, instruction, 0);
            if (is_identity(instruction)) break;
            results[0] =
                cpu_emit_operation(scalars->builder, instruction->opcode, instruction, instruction->shape->type, from);
            return;
    }
    memcpy(results, from, sizeof(CpuValue) * (size_t)leaves);
}

void cpu_emit_computation(HloArena *arena, CpuLoopBuilder *builder, const HloComputation *computation,
                          const CpuValue *parameters, CpuValue *results) {
    Scalars scalars = {.arena = arena, .builder = builder};
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        const int64_t leaves = hlo_shape_leaf_count(i->shape);
        CpuValue *values = HLO_ARENA_NEW(arena, CpuValue, leaves);
        emit_instruction(&scalars, i, parameters, values);
        hlo_int_map_set(arena, &scalars.first, (uint64_t)(uintptr_t)i, scalars.values.count);
        for (int64_t k = 0; k < leaves; k++) hlo_vector_push(arena, &scalars.values, values[k]);
    }
    memcpy(results, values_of(&scalars, computation->root),
           sizeof(CpuValue) * (size_t)hlo_shape_leaf_count(computation->root->shape));
}
