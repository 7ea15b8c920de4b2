// SPDX-License-Identifier: Apache-2.0
// Slice, pad, reverse and concatenate: dimensions they leave alone are local, the others need neighbours' elements.
#include "spmd_partitioner/emit.h"

static bool is_whole(const HloSliceAttributes *slice, const HloShape *operand, int32_t dim) {
    return slice->starts.items[dim] == 0 && slice->limits.items[dim] == operand->dims[dim] &&
           (!slice->strides.count || slice->strides.items[dim] == 1);
}

// One factor a dimension, windowed where `local` says that elements move.
static void add_dim(SpmdRule *rule, int32_t dim, bool local) {
    int32_t result = spmd_rule_result(rule, 0);
    int64_t size = rule->tensors[result].shape->dims[dim];
    int32_t factor = spmd_rule_factor(rule, local ? SPMD_PASS : SPMD_PERMUTE, size);
    spmd_rule_map(rule, 0, dim, factor);
    spmd_rule_map(rule, result, dim, factor);
}

static void slice_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *operand = op->operands[0]->shape;
    for (int32_t d = 0; d < operand->rank; d++) add_dim(rule, d, is_whole(HLO_ATTRIBUTES(op, Slice), operand, d));
}

// The limits of dimensions that are taken whole follow the local size.
static void slice_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                         const HloShape *result) {
    HloSliceAttributes *slice = attributes;
    int64_t *limits = HLO_ARENA_NEW(arena, int64_t, result->rank);
    for (int32_t d = 0; d < result->rank; d++) {
        bool whole = is_whole(HLO_ATTRIBUTES(rule->op, Slice), rule->op->operands[0]->shape, d);
        limits[d] = whole ? operands[0]->dims[d] : slice->limits.items[d];
    }
    slice->limits.items = limits;
}
const SpmdOp spmd_op_slice = {.name = "slice", .rule = slice_rule, .adjust = slice_adjust};

static void pad_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloPadding *padding = &HLO_ATTRIBUTES(op, Pad)->padding;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        const HloPadDimension *pad = &padding->items[d];
        add_dim(rule, d, pad->low == 0 && pad->high == 0 && pad->interior == 0);
    }
}
const SpmdOp spmd_op_pad = {.name = "pad", .rule = pad_rule};

static void reverse_rule(SpmdRule *rule, const HloInstruction *op) {
    HloInts dimensions = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int32_t d = 0; d < op->shape->rank; d++) add_dim(rule, d, !hlo_ints_contain(dimensions, d));
}
const SpmdOp spmd_op_reverse = {.name = "reverse", .rule = reverse_rule};

static void concatenate_rule(SpmdRule *rule, const HloInstruction *op) {
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (d == along) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}
const SpmdOp spmd_op_concatenate = {.name = "concatenate", .rule = concatenate_rule};
