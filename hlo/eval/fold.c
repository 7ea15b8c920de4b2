// SPDX-License-Identifier: Apache-2.0
// Running totals of reductions.
//
// A fold is an array of accumulators that take inputs one run at a time. Sums and products of floats below f64 are
// accumulated in double: up to one rounding, their result does not depend on how a reduction is split into pieces, so
// it can serve as the reference for engines that add in other orders. Everything else calls the computation with the
// accumulator on the left, as HLO defines reductions.
#include <assert.h>
#include <string.h>

#include "hlo/eval/internal.h"

struct HloEvalFold {
    int64_t values, count, width;
    HloType *types;
    char **accumulators;
    HloEvalScalar *scalar;
    double *totals;  // used instead for plain sums and products
    bool multiply;
};

// Only for a plain add or multiply: a computation that does more could distinguish rounded values from others.
bool hlo_eval_fold_is_in_double(const HloComputation *computation, HloType type) {
    if (!hlo_type_is_float(type) || type == HLO_F64) return false;
    const HloOpcode opcode = hlo_eval_scalar_opcode(computation);
    return opcode == HLO_OP_ADD || opcode == HLO_OP_MULTIPLY;
}

// Batches of calls have up to a chunk of elements, or the usual run if that is shorter.
HloStatus hlo_eval_fold_new(HloEvalDevice *device, const HloComputation *computation, HloEvalValue *const *inits,
                            int64_t values, int64_t count, int64_t width, HloEvalFold **result) {
    assert(values <= HLO_EVAL_MAX_VALUES); /* hlo_eval_check_types() has asked, and whether the types fit */
    HloArena *arena = device->scratch;
    HloEvalFold *fold = HLO_ARENA_NEW(arena, HloEvalFold, 1);
    *result = fold;
    fold->values = values;
    fold->count = count;
    fold->width = width < 1 ? 1 : width < HLO_EVAL_CHUNK ? width : HLO_EVAL_CHUNK;
    fold->types = HLO_ARENA_NEW(arena, HloType, values);
    for (int64_t v = 0; v < values; v++) fold->types[v] = inits[v]->shape->type;
    if (values == 1 && hlo_eval_fold_is_in_double(computation, fold->types[0])) {
        fold->multiply = hlo_eval_scalar_opcode(computation) == HLO_OP_MULTIPLY;
        fold->totals = HLO_EVAL_SCRATCH(device, double, count);
        bool scalar = inits[0]->shape->rank == 0;
        hlo_eval_decode_double(fold->types[0], inits[0]->data, scalar && count > 1 ? 1 : count, fold->totals);
        if (scalar) {
            for (int64_t i = 1; i < count; i++) fold->totals[i] = fold->totals[0];
        }
        return HLO_SUCCESS;
    }
    fold->accumulators = HLO_ARENA_NEW(arena, char *, values);
    for (int64_t v = 0; v < values; v++) {
        int64_t bytes = hlo_type_bytes(fold->types[v]);
        fold->accumulators[v] = hlo_eval_scratch(device, count, (size_t)bytes);
        if (inits[v]->shape->rank == 0) {
            hlo_eval_fill(fold->accumulators[v], inits[v]->data, bytes, count);
        } else {
            memcpy(fold->accumulators[v], inits[v]->data, (size_t)(count * bytes));
        }
    }
    return hlo_eval_scalar_prepare(device, computation, fold->width, &fold->scalar);
}

// The input of one run, added or multiplied.
static void add_totals(HloEvalFold *fold, double *totals, const char *input, int64_t count) {
    assert(count >= 0);
    double values[HLO_EVAL_CHUNK];
    int64_t bytes = hlo_type_bytes(fold->types[0]);
    for (int64_t start = 0; start < count; start += HLO_EVAL_CHUNK) {
        int64_t length = count - start < HLO_EVAL_CHUNK ? count - start : HLO_EVAL_CHUNK;
        hlo_eval_decode_double(fold->types[0], input + start * bytes, length, values);
        double *target = totals + start;
        if (fold->multiply) {
            for (int64_t i = 0; i < length; i++) target[i] *= values[i];
        } else {
            for (int64_t i = 0; i < length; i++) target[i] += values[i];
        }
    }
}

HloStatus hlo_eval_fold_add(HloEvalFold *fold, int64_t first, const void *const *inputs, int64_t count) {
    assert(first >= 0 && count >= 0);
    if (fold->totals) {
        add_totals(fold, fold->totals + first, inputs[0], count);
        return HLO_SUCCESS;
    }
    const void *operands[2 * HLO_EVAL_MAX_VALUES];
    void *outputs[HLO_EVAL_MAX_VALUES];
    for (int64_t start = 0; start < count; start += fold->width) {
        int64_t length = count - start < fold->width ? count - start : fold->width;
        for (int64_t v = 0; v < fold->values; v++) {
            int64_t bytes = hlo_type_bytes(fold->types[v]);
            outputs[v] = fold->accumulators[v] + (first + start) * bytes;
            operands[v] = outputs[v];
            operands[fold->values + v] = (const char *)inputs[v] + start * bytes;
        }
        HLO_TRY(hlo_eval_scalar_call(fold->scalar, operands, outputs, length));
    }
    return HLO_SUCCESS;
}

// The only rounding happens here.
void hlo_eval_fold_write(const HloEvalFold *fold, int64_t index, void *out) {
    assert(index >= 0);
    if (fold->totals) {
        hlo_eval_encode_double(fold->types[0], fold->totals, fold->count, out);
    } else {
        memcpy(out, fold->accumulators[index], (size_t)(fold->count * hlo_type_bytes(fold->types[index])));
    }
}
