// SPDX-License-Identifier: Apache-2.0
// Gathers from known positions: rows start, start + step, start + 2 step … of an array are a slice, read backwards if
// the step is negative, and repeated if it is 0. A slice of a sharded array moves the elements between neighbours; a
// gather moves the array.
//
//   gather(f32[64,32] x, iota + 16), rows of x    ->   slice(x), slice={[16:48], [0:32]}
//
// Positions are known where they are constants, counters, or sums and multiples of both.
#include <assert.h>

#include "hlo/analysis/progression.h"
#include "hlo/pass/simplify/simplify.h"

enum { MOST_LEVELS = 8 };

static bool read_literal(const HloLiteral *literal, HloProgression *p) {
    if (!literal || literal->elided || !literal->data) return false;
    const int64_t count = hlo_shape_elements(literal->shape);
    p->start = hlo_literal_get_int64(literal, 0);
    if (count > 1 && __builtin_sub_overflow(hlo_literal_get_int64(literal, 1), p->start, &p->step)) return false;
    if (!hlo_progression_fits(*p, count, literal->shape->type)) return false;
    for (int64_t k = 2; k < count; k++)
        if (hlo_literal_get_int64(literal, k) != p->start + k * p->step) return false;
    return true;
}

// A counter along the only dimension that has more than one element, or zeros.
static bool read_iota(const HloInstruction *x, HloProgression *p) {
    const int64_t size = x->shape->dims[HLO_ATTRIBUTES(x, Iota)->dimension];
    p->step = size > 1;
    return size == hlo_shape_elements(x->shape) || size == 1;
}

// Reads an array of integers in row-major order.
static bool read_progression(const HloInstruction *x, int level, HloProgression *p) {
    if (!hlo_shape_is_array(x->shape) || !hlo_type_is_integer(x->shape->type) || level == MOST_LEVELS) return false;
    const int64_t count = hlo_shape_elements(x->shape);
    if (count < 1 || count > HLO_PASS_MANY) return false;
    *p = (HloProgression){0, 0};
    HloProgression b;
    bool known = false;
    switch (x->opcode) {
        case HLO_OP_CONSTANT: known = read_literal(hlo_constant_literal(x), p); break;
        case HLO_OP_IOTA: known = read_iota(x, p); break;
        case HLO_OP_BROADCAST:
            known = hlo_shape_elements(x->operands[0]->shape) == 1 && read_progression(x->operands[0], level + 1, p);
            p->step = 0;
            break;
        case HLO_OP_RESHAPE:
        case HLO_OP_CONVERT: known = read_progression(x->operands[0], level + 1, p); break;
        case HLO_OP_ADD:
        case HLO_OP_SUBTRACT:
        case HLO_OP_MULTIPLY:
            known = read_progression(x->operands[0], level + 1, p) && read_progression(x->operands[1], level + 1, &b) &&
                    hlo_progression_combine(x->opcode, *p, b, p);
            break;
        default: break;
    }
    return known && hlo_progression_fits(*p, count, x->shape->type);
}

static bool contains(HloInts list, int64_t number) {
    for (int64_t i = 0; i < list.count; i++)
        if (list.items[i] == number) return true;
    return false;
}

// The dimension of the operand from which a gather takes single rows, whole in all others; -1 for other gathers.
static int64_t gathered_dimension(const HloInstruction *i) {
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(i, Gather);
    const HloShape *x = i->operands[0]->shape;
    if (gather->start_index_map.count != 1 || gather->collapsed_slice_dims.count != 1) return -1;
    const int64_t dimension = gather->start_index_map.items[0];
    if (gather->operand_batching_dims.count || gather->collapsed_slice_dims.items[0] != dimension) return -1;
    for (int64_t d = 0; d < x->rank; d++)
        if (d != dimension && gather->slice_sizes.items[d] != x->dims[d]) return -1;
    return dimension;
}

// Where the gathered rows are in the result, if they are next to each other: the number of dimensions before them.
static int64_t rows_position(const HloInstruction *i, int64_t rows_rank) {
    const HloInts offsets = HLO_ATTRIBUTES(i, Gather)->offset_dims;
    int64_t first = 0;
    while (first < i->shape->rank && contains(offsets, first)) first++;
    for (int64_t d = first; d < first + rows_rank; d++)
        if (contains(offsets, d)) return -1;
    return first;
}

// x[first : last + 1 : step] along one dimension.
static HloInstruction *slice_rows(HloInstruction *i, int64_t dimension, int64_t first, int64_t last, int64_t step) {
    HloInstruction *x = i->operands[0];
    int64_t *starts = hlo_pass_ints(i, x->shape->rank), *limits = hlo_pass_ints(i, x->shape->rank);
    int64_t *strides = hlo_pass_ints(i, x->shape->rank);
    for (int64_t d = 0; d < x->shape->rank; d++) {
        starts[d] = d == dimension ? first : 0;
        limits[d] = d == dimension ? last + 1 : x->shape->dims[d];
        strides[d] = d == dimension ? step : 1;
    }
    const HloInts rank = {starts, x->shape->rank};
    return hlo_pass_slice(i, x, rank, (HloInts){limits, rank.count}, (HloInts){strides, rank.count});
}

static HloInstruction *reversed(HloInstruction *i, HloInstruction *x, int64_t dimension) {
    int64_t *dimensions = hlo_pass_ints(i, 1);
    dimensions[0] = dimension;
    return hlo_pass_make(i, &(HloBuildRequest){.opcode = HLO_OP_REVERSE,
                                               .operands = &x,
                                               .operand_count = 1,
                                               .attributes = &(HloDimensionsAttributes){{dimensions, 1}}});
}

// Moves dimension `from` of x to the position `to` among the others, which stay in order.
static HloInstruction *moved(HloInstruction *i, HloInstruction *x, int64_t from, int64_t to) {
    int64_t *permutation = hlo_pass_ints(i, x->shape->rank), other = 0;
    if (from == to) return x;
    for (int64_t d = 0; d < x->shape->rank; d++) {
        other += d != to && other == from;
        permutation[d] = d == to ? from : other++;
    }
    return hlo_pass_transpose(i, x, (HloInts){permutation, x->shape->rank});
}

// One row, repeated.
static HloInstruction *repeat_row(HloInstruction *i, HloInstruction *row, int64_t dimension) {
    int64_t *dims = hlo_pass_ints(i, row->shape->rank), count = 0;
    for (int64_t d = 0; d < row->shape->rank; d++)
        if (d != dimension) dims[count++] = row->shape->dims[d];
    HloInstruction *flat = hlo_pass_reshape(i, row, (HloInts){dims, count});
    return hlo_pass_broadcast(i, flat, hlo_shape_dims(i->shape), HLO_ATTRIBUTES(i, Gather)->offset_dims);
}

static HloInstruction *gather_of_rows(HloInstruction *i) {
    assert(hlo_is(i, HLO_OP_GATHER));
    const HloShape *x = i->operands[0]->shape, *indices = i->operands[1]->shape;
    const int64_t dimension = gathered_dimension(i), vector = HLO_ATTRIBUTES(i, Gather)->index_vector_dim;
    if (dimension < 0 || x->type != i->shape->type) return NULL;
    if (vector < indices->rank && indices->dims[vector] != 1) return NULL;
    const int64_t rows_rank = indices->rank - (vector < indices->rank), position = rows_position(i, rows_rank);
    HloProgression rows;
    if (position < 0 || !read_progression(i->operands[1], 0, &rows)) return NULL;
    const int64_t count = hlo_shape_elements(i->operands[1]->shape), last = rows.start + (count - 1) * rows.step;
    const int64_t size = x->dims[dimension];
    if (rows.start < 0 || last < 0 || rows.start >= size || last >= size) return NULL;  // clamped
    if (rows.step == 0 && count > 1)
        return repeat_row(i, slice_rows(i, dimension, rows.start, rows.start, 1), dimension);
    HloInstruction *made = rows.step < 0
                               ? reversed(i, slice_rows(i, dimension, last, rows.start, -rows.step), dimension)
                               : slice_rows(i, dimension, rows.start, last, rows.step ? rows.step : 1);
    made = moved(i, made, dimension, rows_rank ? position : dimension);
    return hlo_same_dims(made->shape, i->shape) ? made : hlo_pass_reshape(i, made, hlo_shape_dims(i->shape));
}

static const HloSimplifyRule rules[] = {
    {HLO_OP_GATHER, gather_of_rows},
};

HloSimplifyTable hlo_simplify_gather(void) {
    return (HloSimplifyTable){rules, HLO_COUNT_OF(rules)};
}
