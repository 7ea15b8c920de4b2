// SPDX-License-Identifier: Apache-2.0
// Ops whose result element depends on the operands' elements at the same, or a rearranged, index. These rules have no
// partition function: every dimension of the result is a factor, which operands share where they have it. The padding
// of uneven shards is computed too and never read.
#include <assert.h>

#include "spmd_partitioner/emit.h"

static void elementwise_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *result = rule->tensors[spmd_rule_result(rule, 0)].shape;
    (void)op;
    for (int32_t d = 0; d < result->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, result->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
            // A scalar predicate or bound applies to all elements.
            if (rule->tensors[t].shape->rank == result->rank) spmd_rule_map(rule, t, d, factor);
        }
    }
}
const SpmdOp spmd_op_elementwise = {.name = "elementwise", .rule = elementwise_rule, .is_certain = true};
const SpmdOp spmd_op_map = {.name = "map", .rule = elementwise_rule};

static HloStatus copy_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_COPY));
    if (!hlo_shape_is_array(op->shape)) return spmd_partition_data_flow(partitioner, op);
    return spmd_partition_default(partitioner, op);
}
const SpmdOp spmd_op_copy = {.name = "copy", .rule = elementwise_rule, .partition = copy_partition, .is_certain = true};

static void broadcast_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_BROADCAST));
    HloInts dimensions = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    int32_t result = spmd_rule_result(rule, 0);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[d]);
        spmd_rule_map(rule, result, d, factor);
        for (int64_t i = 0; i < dimensions.count; i++) {
            if (dimensions.items[i] == d) spmd_rule_map(rule, 0, i, factor);
        }
    }
}
const SpmdOp spmd_op_broadcast = {.name = "broadcast", .rule = broadcast_rule, .is_certain = true};

static void transpose_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_TRANSPOSE));
    HloInts permutation = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int64_t d = 0; d < permutation.count; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[d]);
        spmd_rule_map(rule, 0, permutation.items[d], factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}
const SpmdOp spmd_op_transpose = {.name = "transpose", .rule = transpose_rule, .is_certain = true};

// The minor dimension that a change of element width adds or removes stays whole.
static void bitcast_convert_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(hlo_is(op, HLO_OP_BITCAST_CONVERT));
    const HloShape *from = op->operands[0]->shape;
    int32_t shared = from->rank < op->shape->rank ? from->rank : op->shape->rank;
    for (int32_t d = 0; d < shared; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, from->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}
const SpmdOp spmd_op_bitcast_convert = {.name = "bitcast-convert", .rule = bitcast_convert_rule, .is_certain = true};

static void batch_norm_inference_rule(SpmdRule *rule, const HloInstruction *op) {
    int64_t feature = HLO_ATTRIBUTES(op, BatchNorm)->feature_index;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
        for (int32_t t = 1; d == feature && t < rule->operand_count; t++) spmd_rule_map(rule, t, 0, factor);
    }
}
const SpmdOp spmd_op_batch_norm_inference = {.name = "batch-norm-inference", .rule = batch_norm_inference_rule};

// Training and gradient sum over everything but the feature dimension: those dimensions are needed whole.
static void batch_norm_rule(SpmdRule *rule, const HloInstruction *op) {
    int64_t feature = HLO_ATTRIBUTES(op, BatchNorm)->feature_index;
    int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->operands[0]->shape->dims[feature]);
    for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) {
        spmd_rule_map(rule, t, rule->tensors[t].shape->rank == 1 ? 0 : feature, factor);
    }
}
const SpmdOp spmd_op_batch_norm = {.name = "batch-norm", .rule = batch_norm_rule};
