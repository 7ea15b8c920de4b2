// SPDX-License-Identifier: Apache-2.0
// Runs nodes in the reference evaluator.
//
// It serves ops without a kernel, and forms of ops that no kernel takes (lower/lowerings.def lists them with reasons).
// It is slow, but right by definition, as the evaluator is the oracle. Operands are read in place; the result is copied
// to its buffer.
#include "targets/cpu/run/fallback.h"

#include <assert.h>
#include <string.h>

#include "hlo/eval/eval.h"

// Makes a literal of `shape` whose leaves are the memory at the next addresses. Nothing is copied, because the
// evaluator only reads its operands.
static HloLiteral *view_literal(HloArena *arena, const HloShape *shape, void *const **next) {
    assert(shape && next);
    HloLiteral *literal = HLO_ARENA_NEW(arena, HloLiteral, 1);
    literal->shape = shape;
    if (!hlo_shape_is_tuple(shape)) {
        literal->data = *(*next)++;
        return literal;
    }
    literal->elements = HLO_ARENA_NEW(arena, HloLiteral *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++)
        literal->elements[i] = view_literal(arena, shape->elements[i], next);
    return literal;
}

// Copies the leaves out in the order in which the node's results are numbered.
static void store_literal(const HloLiteral *literal, void *const **next) {
    assert(literal && next);
    if (!hlo_shape_is_tuple(literal->shape)) {
        const int64_t bytes = hlo_shape_bytes(literal->shape);
        void *to = *(*next)++;
        if (bytes) memcpy(to, literal->data, (size_t)bytes);
        return;
    }
    for (int32_t i = 0; i < literal->shape->element_count; i++) store_literal(literal->elements[i], next);
}

typedef struct FallbackCall {
    const HloInstruction *instruction;
    void *const *arguments;
    bool tpu_numerics;
    HloArena *arena;
} FallbackCall;

// Evaluates the node. The arguments are the addresses of the operands' leaves, then those of the results'.
static HloStatus run_protected(void *argument) {
    const FallbackCall *call = argument;
    const HloInstruction *instruction = call->instruction;
    void *const *next = call->arguments;
    const HloLiteral **operands = HLO_ARENA_NEW(call->arena, const HloLiteral *, instruction->operand_count);
    for (int32_t i = 0; i < instruction->operand_count; i++)
        operands[i] = view_literal(call->arena, instruction->operands[i]->shape, &next);
    const HloEvalOptions options = {.numerics = call->tpu_numerics ? HLO_NUMERICS_TPU : HLO_NUMERICS_EXACT};
    HloLiteral *result = NULL;
    HLO_TRY(hlo_evaluate_instruction(instruction, operands, &options, &result));
    store_literal(result, &next);
    hlo_literal_free(result);
    return HLO_SUCCESS;
}

// May run on any worker: each call has its own arena, and the evaluator has no state.
HloStatus cpu_fallback_run(const HloInstruction *instruction, void *const *arguments, bool tpu_numerics) {
    FallbackCall call = {instruction, arguments, tpu_numerics, hlo_arena_new()};
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "no memory to evaluate %%%s", instruction->name);
    const HloStatus status = hlo_protect(run_protected, &call);
    hlo_arena_free(call.arena);
    return status;
}
