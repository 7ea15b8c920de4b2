// SPDX-License-Identifier: Apache-2.0
// Nodes that the reference evaluator runs.
//
// For ops without a kernel, and forms of ops that no kernel takes (lower/fallbacks.def says which, and why): slow, but
// right by definition, as the evaluator is the oracle. Operands are read where they lie; the result is copied to its
// place.
#include "targets/cpu/run/fallback.h"

#include <assert.h>
#include <string.h>

#include "hlo/eval/eval.h"

static const CpuFallbackRow kRows[] = {
#define CPU_FALLBACK(opcode, when) {HLO_OP_##opcode, when},
#include "targets/cpu/lower/fallbacks.def"
#undef CPU_FALLBACK
};

const CpuFallbackRow *cpu_fallback_rows(int64_t *count) {
    *count = (int64_t)HLO_COUNT_OF(kRows);
    return kRows;
}

// A dozen rows: searched in order.
bool cpu_fallback_is_listed(HloOpcode opcode) {
    for (size_t i = 0; i < HLO_COUNT_OF(kRows); i++)
        if (kRows[i].opcode == opcode) return true;
    return false;
}

// Number `index` among those that the evaluator computes, in the order of custom_calls.def; NULL behind the last.
const char *cpu_fallback_custom_call(int64_t index) {
    static const struct {
        const char *target, *kernel;
    } kCalls[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) {target, #kernel},
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kCalls); i++)
        if (!strcmp(kCalls[i].kernel, "evaluator") && index-- == 0) return kCalls[i].target;
    return NULL;
}

struct CpuFallback {
    const HloInstruction *instruction;
};

const CpuFallback *cpu_fallback_new(HloArena *arena, const CpuNode *node) {
    CpuFallback *fallback = HLO_ARENA_NEW(arena, CpuFallback, 1);
    fallback->instruction = node->instruction;
    return fallback;
}

// A literal of `shape` whose leaves lie at the next addresses.
// Nothing is copied: the evaluator only reads its operands.
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

// Leaves in the order in which the node's results are numbered.
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
    const CpuFallback *fallback;
    void *const *arguments;
    bool tpu_numerics;
    HloArena *arena;
} FallbackCall;

// The arguments are the addresses of the operands' leaves, then those of the results'.
static HloStatus run_protected(void *argument) {
    const FallbackCall *call = argument;
    const HloInstruction *instruction = call->fallback->instruction;
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

// Any worker: each call has an arena of its own, and the evaluator no state.
HloStatus cpu_fallback_run(const CpuFallback *fallback, void *const *arguments, bool tpu_numerics) {
    FallbackCall call = {fallback, arguments, tpu_numerics, hlo_arena_new()};
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "no memory to evaluate %%%s", fallback->instruction->name);
    const HloStatus status = hlo_protect(run_protected, &call);
    hlo_arena_free(call.arena);
    return status;
}
