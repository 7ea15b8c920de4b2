// SPDX-License-Identifier: Apache-2.0
// Arrays of dynamic size. A dynamic dimension is never sharded (spmd_rule_new() sees to that): its size is one number
// for the whole array. All other dimensions are as usual.
#include "spmd_partitioner/emit.h"

// The dimension that is set must be whole; the others pass.
static void set_dimension_size_rule(SpmdRule *rule, const HloInstruction *op) {
    HloInts set = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        SpmdFactorKind kind = hlo_ints_contain(set, d) ? SPMD_REPLICATE : SPMD_PASS;
        int32_t factor = spmd_rule_factor(rule, kind, op->shape->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}
const SpmdOp spmd_op_set_dimension_size = {.name = "set-dimension-size", .rule = set_dimension_size_rule};

// Elements move between dimensions whose sizes only the run determines: all of them are needed whole.
static void dynamic_reshape_rule(SpmdRule *rule, const HloInstruction *op) {
    (void)rule;
    (void)op;
}
const SpmdOp spmd_op_dynamic_reshape = {.name = "dynamic-reshape", .rule = dynamic_reshape_rule};

// The size of a dimension is that of the whole array.
static HloStatus get_dimension_size_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloShape *shape = op->operands[0]->shape;
    int64_t dim = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    SpmdLocal local = {.global = op->shape, .sharding = spmd_planned(partitioner, 0)};
    if (shape->dynamic && shape->dynamic[dim]) {
        SpmdLocal operand = spmd_operand(partitioner, 0);
        HloInstruction *array = spmd_operand_as(partitioner, 0, operand.sharding);
        local.hlo = spmd_clone(partitioner, op, op->shape, &array, 1);
    } else {
        local.hlo = spmd_emit_scalar(partitioner, op->shape->type, shape->dims[dim]);
    }
    spmd_define_as(partitioner, 0, &local);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_get_dimension_size = {.name = "get-dimension-size", .partition = get_dimension_size_partition};
