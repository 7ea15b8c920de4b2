// SPDX-License-Identifier: Apache-2.0
// dot, ragged-dot, scaled-dot.
#include <math.h>
#include <string.h>

#include "hlo/eval/internal.h"

// One side of a dot: its dimensions sorted into batch, free and contracting ones.
typedef struct Side {
    const HloEvalValue *value;
    int64_t *order;  // for transposing to [batch, rows, columns]
    int64_t free_count;
    int64_t batch, free, contracting;  // products of sizes
} Side;

// `free_first`: batch, free, contracting (the left side); else batch, contracting, free.
static Side sort_dimensions(HloEvalDevice *device, const HloEvalValue *value, HloInts batch, HloInts contracting,
                            bool free_first) {
    const HloShape *shape = value->shape;
    Side side = {.value = value, .batch = 1, .free = 1, .contracting = 1};
    side.order = HLO_EVAL_SCRATCH(device, int64_t, shape->rank);
    side.free_count = shape->rank - batch.count - contracting.count;
    int64_t at = 0;
    for (int64_t i = 0; i < batch.count; i++) {
        side.order[at++] = batch.items[i];
        side.batch *= shape->dims[batch.items[i]];
    }
    int64_t free_at = free_first ? at : at + contracting.count;
    int64_t contracting_at = free_first ? at + side.free_count : at;
    for (int64_t i = 0; i < contracting.count; i++) {
        side.order[contracting_at++] = contracting.items[i];
        side.contracting *= shape->dims[contracting.items[i]];
    }
    for (int64_t dim = 0; dim < shape->rank; dim++) {
        if (hlo_ints_contain(batch, dim) || hlo_ints_contain(contracting, dim)) continue;
        side.order[free_at++] = dim;
        side.free *= shape->dims[dim];
    }
    return side;
}

static const char *arrange(HloEvalDevice *device, const Side *side) {
    int64_t rank = side->value->shape->rank;
    bool identity = true;
    for (int64_t i = 0; i < rank; i++) identity = identity && side->order[i] == i;
    if (identity) return side->value->data;
    void *moved = hlo_eval_scratch(device, hlo_eval_elements(side->value),
                                   (size_t)hlo_type_bytes(side->value->shape->type));
    hlo_eval_transpose_into(device, side->value, side->order, moved);
    return moved;
}

// c += a * b in passes; NaN from infinities in the small parts is dropped before the last, main product.
static void multiply_passes(HloEvalDevice *device, const HloEvalPasses *passes, const double *a, const double *b,
                            double *c, int64_t m, int64_t n, int64_t k) {
    double *part_a = HLO_EVAL_SCRATCH(device, double, m * k), *part_b = HLO_EVAL_SCRATCH(device, double, k * n);
    for (int p = 0; p < passes->count; p++) {
        if (p > 0 && p == passes->count - 1) {
            for (int64_t i = 0; i < m * n; i++) c[i] = isnan(c[i]) ? 0 : c[i];
        }
        hlo_eval_split_part(a, m * k, passes->parts, passes->lhs[p], part_a);
        hlo_eval_split_part(b, k * n, passes->parts, passes->rhs[p], part_b);
        hlo_eval_matrix_multiply(HLO_EVAL_DOUBLE, part_a, part_b, c, m, n, k);
    }
}

static HloStatus multiply_batches(HloEvalDevice *device, const Side *left, const Side *right, const HloEvalPasses *passes,
                                  HloEvalValue *result) {
    int64_t m = left->free, n = right->free, k = left->contracting;
    HloType lhs = left->value->shape->type, rhs = right->value->shape->type, type = result->shape->type;
    HloEvalAccumulator accumulator = hlo_eval_accumulator(lhs, rhs);
    size_t bytes = (size_t)hlo_eval_accumulator_bytes(accumulator);
    const char *a_data = arrange(device, left), *b_data = arrange(device, right);
    void *a = hlo_eval_scratch(device, m * k, bytes), *b = hlo_eval_scratch(device, k * n, bytes);
    void *c = hlo_eval_scratch(device, m * n, bytes);
    for (int64_t batch = 0; batch < left->batch; batch++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        hlo_eval_to_accumulator(accumulator, lhs, a_data + batch * m * k * hlo_type_bytes(lhs), m * k, a);
        hlo_eval_to_accumulator(accumulator, rhs, b_data + batch * k * n * hlo_type_bytes(rhs), k * n, b);
        memset(c, 0, (size_t)(m * n) * bytes);
        if (passes->count) {
            multiply_passes(device, passes, a, b, c, m, n, k);
        } else {
            hlo_eval_matrix_multiply(accumulator, a, b, c, m, n, k);
        }
        hlo_eval_from_accumulator(accumulator, type, c, m * n, (char *)result->data + batch * m * n * hlo_type_bytes(type));
        hlo_arena_reset(device->scratch, mark);
    }
    return HLO_SUCCESS;
}

HloStatus hlo_eval_dot(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(instruction, Dot);
    if (operands[0]->sizes || operands[1]->sizes) return hlo_eval_unsupported(instruction, "a dot of dynamic arrays");
    if (instruction->operand_count > 2) return hlo_eval_unsupported(instruction, "a sparse dot");
    Side left = sort_dimensions(device, operands[0], dot->lhs_batch, dot->lhs_contracting, true);
    Side right = sort_dimensions(device, operands[1], dot->rhs_batch, dot->rhs_contracting, false);
    bool matrix_vector = left.free_count == 0 || right.free_count == 0;
    HloEvalPasses passes = hlo_eval_passes(device, operands[0]->shape->type, operands[1]->shape->type, dot->precision,
                                           dot->algorithm, matrix_vector);
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    return multiply_batches(device, &left, &right, &passes, *result);
}
