// SPDX-License-Identifier: Apache-2.0
// reduce and map.
//
// Reduced dimensions are moved to the front, so that each row of the array has one element for every result. Row by row
// is then the row-major order of reduced elements that eval.h promises for each result, and every step works on a whole
// row of accumulators.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

typedef struct Reduction {
    int64_t rank, kept, reduced;  // numbers of dimensions and …
    int64_t outer, inner;         // … elements reduced, elements kept
    int64_t *order;               // reduced dimensions, then kept ones
    bool identity;
} Reduction;

// Makes two passes over the dimensions, reduced ones first; `identity` is true if they are in this order already.
static Reduction plan_reduction(HloEvalDevice *device, const HloShape *shape, HloInts dimensions) {
    assert(hlo_shape_is_array(shape));
    Reduction plan = {.rank = shape->rank, .outer = 1, .inner = 1, .identity = true};
    plan.order = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    for (int64_t pass = 0; pass < 2; pass++) {
        for (int64_t dim = 0; dim < shape->rank; dim++) {
            if (hlo_ints_contain(dimensions, dim) != (pass == 0)) continue;
            plan.identity = plan.identity && plan.kept + plan.reduced == dim;
            plan.order[plan.kept + plan.reduced] = dim;
            if (pass == 0) {
                plan.reduced++;
                plan.outer *= shape->dims[dim];
            } else {
                plan.kept++;
                plan.inner *= shape->dims[dim];
            }
        }
    }
    return plan;
}

// Adds each reduced element to every accumulator.
static HloStatus fold_rows(HloEvalFold *fold, const Reduction *plan, const char **inputs, int64_t count,
                           const HloType *types) {
    assert(count > 0);
    for (int64_t row = 0; row < plan->outer && plan->inner > 0; row++) {
        const void *rows[HLO_EVAL_MAX_VALUES];
        for (int64_t v = 0; v < count; v++) rows[v] = inputs[v] + row * plan->inner * hlo_type_bytes(types[v]);
        HLO_TRY(hlo_eval_fold_add(fold, 0, rows, plan->inner));
    }
    return HLO_SUCCESS;
}

// Arrays whose reduced dimensions do not come first are transposed into scratch memory.
HloStatus hlo_eval_reduce(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                          HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_REDUCE));
    int64_t count = instruction->operand_count / 2;
    const HloEvalValue *first = operands[0];
    Reduction plan = plan_reduction(device, first->shape, HLO_ATTRIBUTES(instruction, Dimensions)->dimensions);
    HloEvalFold *fold;
    HLO_TRY(hlo_eval_fold_new(device, instruction->called[0], operands + count, count, plan.inner, plan.inner, &fold));
    const char *inputs[HLO_EVAL_MAX_VALUES];
    HloType types[HLO_EVAL_MAX_VALUES];
    for (int64_t v = 0; v < count; v++) {
        types[v] = operands[v]->shape->type;
        inputs[v] = operands[v]->data;
        if (plan.identity) continue;
        char *moved = hlo_eval_scratch(device, hlo_eval_elements(operands[v]), (size_t)hlo_type_bytes(types[v]));
        hlo_eval_transpose_into(device, operands[v], plan.order, moved);
        inputs[v] = moved;
    }
    HLO_TRY(fold_rows(fold, &plan, inputs, count, types));
    HloEvalValue *arrays[HLO_EVAL_MAX_VALUES];
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, count, result, arrays));
    for (int64_t v = 0; v < count; v++) hlo_eval_fold_write(fold, v, arrays[v]->data);
    return HLO_SUCCESS;
}

// Map's dimensions must be all of them, so elements are simply processed in order.
HloStatus hlo_eval_map(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_MAP));
    HloEvalScalar *scalar;
    HLO_TRY(hlo_eval_scalar_prepare(device, instruction->called[0], HLO_EVAL_CHUNK, &scalar));
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    int64_t count = hlo_eval_elements(*result), bytes = hlo_type_bytes(instruction->shape->type);
    const void **inputs = HLO_EVAL_SCRATCH(device, const void *, instruction->operand_count);
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        for (int32_t k = 0; k < instruction->operand_count; k++) {
            inputs[k] = (const char *)operands[k]->data + start * hlo_type_bytes(operands[k]->shape->type);
        }
        void *outputs[1] = {(char *)(*result)->data + start * bytes};
        HLO_TRY(hlo_eval_scalar_call(scalar, inputs, outputs, length));
    }
    return HLO_SUCCESS;
}
