// SPDX-License-Identifier: Apache-2.0
// dot, ragged-dot, scaled-dot.
//
// Every dot is a number of matrix products, one for each combination of batch indices: the left side in the order
// batch, rows, terms, the right side in the order batch, terms, columns, and the result in the order that HLO defines.
// Numbers are widened before they are multiplied and rounded once at the end (product.c). A ragged dot is a dot whose
// rows or terms fall into consecutive groups, each with its own right side or result; the sizes of the groups are data
// and may have any value.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/infer/support.h"

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

// Returns the data in that order: transposed into scratch memory, or unchanged.
static const char *arrange(HloEvalDevice *device, const Side *side) {
    int64_t rank = side->value->shape->rank;
    bool identity = true;
    for (int64_t i = 0; i < rank; i++) identity = identity && side->order[i] == i;
    if (identity) return side->value->data;
    void *moved =
        hlo_eval_scratch(device, hlo_eval_elements(side->value), (size_t)hlo_type_bytes(side->value->shape->type));
    hlo_eval_transpose_into(device, side->value, side->order, moved);
    return moved;
}

// The three buffers hold one batch at a time.
static void multiply_batches(HloEvalDevice *device, const Side *left, const Side *right, const HloEvalPasses *passes,
                             HloEvalValue *result) {
    assert(left && right && passes);
    int64_t m = left->free, n = right->free, k = left->contracting;
    HloType lhs = left->value->shape->type, rhs = right->value->shape->type, type = result->shape->type;
    HloEvalAccumulator accumulator = hlo_eval_accumulator(lhs, rhs);
    size_t bytes = (size_t)hlo_eval_accumulator_bytes(accumulator);
    const char *a_data = arrange(device, left), *b_data = arrange(device, right);
    void *a = hlo_eval_scratch(device, m * k, bytes), *b = hlo_eval_scratch(device, k * n, bytes);
    void *c = hlo_eval_scratch(device, m * n, bytes);
    // There may be 10^15 products without elements: a size of zero elsewhere in the shape makes any batch valid.
    for (int64_t batch = 0; batch < left->batch && m * n > 0; batch++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        hlo_eval_to_accumulator(accumulator, lhs, a_data + batch * m * k * hlo_type_bytes(lhs), m * k, a);
        hlo_eval_to_accumulator(accumulator, rhs, b_data + batch * k * n * hlo_type_bytes(rhs), k * n, b);
        memset(c, 0, (size_t)(m * n) * bytes);
        if (passes->count) {
            hlo_eval_multiply_passes(device, passes, a, b, c, m, n, k);
        } else {
            hlo_eval_matrix_multiply(accumulator, a, b, c, m, n, k);
        }
        hlo_eval_from_accumulator(accumulator, type, c, m * n,
                                  (char *)result->data + batch * m * n * hlo_type_bytes(type));
        hlo_arena_reset(device->scratch, mark);
    }
}

// The product of the first two operands.
static HloStatus plain_dot(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                           HloEvalValue **result) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(instruction, Dot);
    Side left = sort_dimensions(device, operands[0], dot->lhs_batch, dot->lhs_contracting, true);
    Side right = sort_dimensions(device, operands[1], dot->rhs_batch, dot->rhs_contracting, false);
    bool matrix_vector = left.free == 1 || right.free == 1;
    HloEvalPasses passes = hlo_eval_passes(device, operands[0]->shape->type, operands[1]->shape->type, dot->precision,
                                           dot->algorithm, matrix_vector);
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    multiply_batches(device, &left, &right, &passes, *result);
    return HLO_SUCCESS;
}

// The third operand of a sparse dot encodes which elements are present, in a GPU's packing.
HloStatus hlo_eval_dot(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                       HloEvalValue **result) {
    if (instruction->operand_count > 2) return hlo_eval_unsupported(instruction, "a sparse dot");
    if (hlo_product_converts(instruction))
        return hlo_eval_converting_product(device, instruction, operands, plain_dot, result);
    return plain_dot(device, instruction, operands, result);
}

// ---- scaled-dot: left, right, and the scales of each

// Multiplies the numbers of a side by their scales, each of which applies to a block of neighbours, as f64.
static HloStatus apply_scales(HloEvalDevice *device, const HloEvalValue *side, const HloEvalValue *scale,
                              HloEvalValue **result) {
    const HloShape *shape = side->shape, *scale_shape = scale->shape;
    HLO_TRY(hlo_eval_new(device, hlo_shape_with_type(device->scratch, shape, HLO_F64), result));
    int64_t count = hlo_shape_elements(shape), scale_count = hlo_shape_elements(scale_shape);
    double *numbers = (*result)->data, *scales = HLO_EVAL_SCRATCH(device, double, scale_count);
    hlo_eval_decode_double(shape->type, side->data, count, numbers);
    hlo_eval_decode_double(scale_shape->type, scale->data, scale_count, scales);
    int64_t *index = HLO_ARENA_NEW(device->scratch, int64_t, shape->rank);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (int32_t d = 0; d < scale_shape->rank; d++) {
            at = at * scale_shape->dims[d] + index[d] / (shape->dims[d] / scale_shape->dims[d]);
        }
        numbers[i] *= scales[at];
        hlo_eval_next_index(shape->dims, shape->rank, index);
    }
    return HLO_SUCCESS;
}

// Scales are applied in double, exactly for all types that have them, and the product is then an ordinary one.
HloStatus hlo_eval_scaled_dot(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_SCALED_DOT));
    const HloDotAttributes *dot = HLO_ATTRIBUTES(instruction, Dot);
    HloEvalValue *sides[2];
    HLO_TRY(apply_scales(device, operands[0], operands[2], &sides[0]));
    HLO_TRY(apply_scales(device, operands[1], operands[3], &sides[1]));
    Side left = sort_dimensions(device, sides[0], dot->lhs_batch, dot->lhs_contracting, true);
    Side right = sort_dimensions(device, sides[1], dot->rhs_batch, dot->rhs_contracting, false);
    HloEvalPasses exact = {0};
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    multiply_batches(device, &left, &right, &exact, *result);
    hlo_eval_release(device, sides[0]);
    hlo_eval_release(device, sides[1]);
    return HLO_SUCCESS;
}

// ---- ragged-dot: group g takes the next sizes[g] steps of the left side's ragged dimension

// A ragged product; one batch of it is computed at a time.
typedef struct Ragged {
    HloEvalDevice *device;
    HloEvalAccumulator accumulator;
    size_t bytes;
    HloEvalPasses passes;
    int64_t m, n, k;
    int64_t size, inner;  // steps of the ragged dimension, rows (or columns) that one step spans
    int64_t groups;
    int64_t lists;          // of sizes, for each index of the dimensions before the ragged one; 0: one list for all
    const int64_t *starts;  // for each list, where its groups start and where the last one ends
} Ragged;

// Multiplies the first m rows of a by the group's matrix b; c is overwritten.
static void multiply(const Ragged *ragged, const void *a, const void *b, void *c, int64_t m) {
    memset(c, 0, (size_t)(m * ragged->n) * ragged->bytes);
    if (ragged->passes.count) {
        hlo_eval_multiply_passes(ragged->device, &ragged->passes, a, b, c, m, ragged->n, ragged->k);
    } else {
        hlo_eval_matrix_multiply(ragged->accumulator, a, b, c, m, ragged->n, ragged->k);
    }
}

// Whether the step of row or column `position` of a batch belongs to the group. Steps beyond the array do not.
static bool covers(const Ragged *ragged, int64_t batch, int64_t group, int64_t position) {
    int64_t step = position / ragged->inner, list = 0;
    if (ragged->lists) list = batch * ragged->lists + step / ragged->size;
    step %= ragged->size;
    const int64_t *start = ragged->starts + list * (ragged->groups + 1) + group;
    return step >= start[0] && step < start[1];
}

// Sizes are the program's data: a negative one makes its group empty and moves the start of the next group back;
// immense ones saturate.
static const int64_t *group_starts(HloEvalDevice *device, const HloEvalValue *sizes, int64_t groups) {
    assert(groups >= 0);
    int64_t lists = hlo_shape_elements(sizes->shape) / (groups ? groups : 1);
    int64_t *starts = HLO_EVAL_SCRATCH(device, int64_t, lists * (groups + 1));
    for (int64_t list = 0; list < lists; list++) {
        int64_t *at = starts + list * (groups + 1);
        at[0] = 0;
        for (int64_t g = 0; g < groups; g++) {
            int64_t size = hlo_eval_integer_at(sizes, list * groups + g);
            if (__builtin_add_overflow(at[g], size, &at[g + 1])) at[g + 1] = size < 0 ? INT64_MIN : INT64_MAX;
        }
    }
    return starts;
}

// Multiplies the rows of the left side that the group covers by the group's matrix; the other rows of c are unchanged.
static void multiply_rows(const Ragged *ragged, int64_t batch, int64_t group, const char *a, const char *b, char *c) {
    size_t row = (size_t)ragged->k * ragged->bytes, out = (size_t)ragged->n * ragged->bytes;
    char *rows = hlo_eval_scratch(ragged->device, ragged->m, row),
         *sums = hlo_eval_scratch(ragged->device, ragged->m, out);
    int64_t count = 0;
    for (int64_t i = 0; i < ragged->m; i++) {
        if (covers(ragged, batch, group, i)) memcpy(rows + (size_t)count++ * row, a + (size_t)i * row, row);
    }
    multiply(ragged, rows, b, sums, count);
    count = 0;
    for (int64_t i = 0; i < ragged->m; i++) {
        if (covers(ragged, batch, group, i)) memcpy(c + (size_t)i * out, sums + (size_t)count++ * out, out);
    }
}

// Computes the product over the columns of the left side that the group covers.
static void multiply_columns(const Ragged *ragged, int64_t batch, int64_t group, const char *a, const char *b,
                             char *c) {
    char *masked = hlo_eval_scratch(ragged->device, ragged->m * ragged->k, ragged->bytes);
    memcpy(masked, a, (size_t)(ragged->m * ragged->k) * ragged->bytes);
    for (int64_t i = 0; i < ragged->m * ragged->k; i++) {
        if (!covers(ragged, batch, group, i % ragged->k)) memset(masked + (size_t)i * ragged->bytes, 0, ragged->bytes);
    }
    multiply(ragged, masked, b, c, ragged->m);
}

// The number of neighbouring positions of a side's rows or columns that share one step of dimension `dim`.
static int64_t span_of(const Side *side, int64_t dim, int64_t from, int64_t to) {
    int64_t inner = 1;
    for (int64_t i = to - 1; i >= from && side->order[i] != dim; i--) inner *= side->value->shape->dims[side->order[i]];
    return inner;
}

// Computes group after group: rows are gathered, multiplied and copied back; terms of other groups are zeros.
static void ragged_batches(const Ragged *ragged, const Side *left, const Side *right, bool contracting,
                           HloEvalValue *result) {
    HloEvalDevice *device = ragged->device;
    HloType lhs = left->value->shape->type, rhs = right->value->shape->type, type = result->shape->type;
    int64_t m = ragged->m, n = ragged->n, k = ragged->k;
    const char *a_data = arrange(device, left), *b_data = arrange(device, right);
    char *a = hlo_eval_scratch(device, m * k, ragged->bytes), *b = hlo_eval_scratch(device, k * n, ragged->bytes);
    char *c = hlo_eval_scratch(device, m * n, ragged->bytes);
    for (int64_t batch = 0; batch < left->batch && m * n > 0; batch++) {  // as in multiply_batches()
        hlo_eval_to_accumulator(ragged->accumulator, lhs, a_data + batch * m * k * hlo_type_bytes(lhs), m * k, a);
        memset(c, 0, (size_t)(m * n) * ragged->bytes);
        for (int64_t g = 0; g < ragged->groups; g++) {
            HloArenaMark mark = hlo_arena_mark(device->scratch);
            int64_t matrix = contracting ? batch : g * left->batch + batch;
            hlo_eval_to_accumulator(ragged->accumulator, rhs, b_data + matrix * k * n * hlo_type_bytes(rhs), k * n, b);
            if (contracting) {
                multiply_columns(ragged, batch, g, a, b, c);
                hlo_eval_from_accumulator(
                    ragged->accumulator, type, c, m * n,
                    (char *)result->data + (g * left->batch + batch) * m * n * hlo_type_bytes(type));
            } else {
                multiply_rows(ragged, batch, g, a, b, c);
            }
            hlo_arena_reset(device->scratch, mark);
        }
        if (contracting) continue;
        hlo_eval_from_accumulator(ragged->accumulator, type, c, m * n,
                                  (char *)result->data + batch * m * n * hlo_type_bytes(type));
    }
}

// Ragged batch dimensions need no groups: each batch has a right side anyway.
HloStatus hlo_eval_ragged_dot(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                              HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_RAGGED_DOT));
    const HloDotAttributes *dot = HLO_ATTRIBUTES(instruction, Dot);
    int64_t dim = dot->lhs_ragged.items[0];
    if (hlo_ints_contain(dot->lhs_batch, dim)) return plain_dot(device, instruction, operands, result);
    bool contracting = hlo_ints_contain(dot->lhs_contracting, dim);
    HloInts batch = dot->rhs_batch;
    if (!contracting) {  // the group dimension leads the batch dimensions of the right side
        int64_t *dims = HLO_EVAL_SCRATCH(device, int64_t, batch.count + 1);
        dims[0] = dot->rhs_group.items[0];
        for (int64_t i = 0; i < batch.count; i++) dims[i + 1] = batch.items[i];
        batch = (HloInts){.items = dims, .count = batch.count + 1};
    }
    Side left = sort_dimensions(device, operands[0], dot->lhs_batch, dot->lhs_contracting, true);
    Side right = sort_dimensions(device, operands[1], batch, dot->rhs_contracting, false);
    HloType lhs = operands[0]->shape->type, rhs = operands[1]->shape->type;
    Ragged ragged = {.device = device,
                     .accumulator = hlo_eval_accumulator(lhs, rhs),
                     .m = left.free,
                     .n = right.free,
                     .k = left.contracting,
                     .size = operands[0]->shape->dims[dim]};
    const HloShape *sizes = operands[2]->shape;
    ragged.groups = sizes->dims[sizes->rank - 1];
    ragged.lists = sizes->rank > 1;
    for (int64_t i = dot->lhs_batch.count; i < sizes->rank - 1; i++) ragged.lists *= sizes->dims[i];
    ragged.starts = group_starts(device, operands[2], ragged.groups);
    ragged.bytes = (size_t)hlo_eval_accumulator_bytes(ragged.accumulator);
    ragged.passes = hlo_eval_passes(device, lhs, rhs, dot->precision, dot->algorithm, false);
    int64_t rank = operands[0]->shape->rank, columns = rank - dot->lhs_contracting.count;
    ragged.inner =
        contracting ? span_of(&left, dim, columns, rank) : span_of(&left, dim, dot->lhs_batch.count, columns);
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    ragged_batches(&ragged, &left, &right, contracting, *result);
    return HLO_SUCCESS;
}
