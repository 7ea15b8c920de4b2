// SPDX-License-Identifier: Apache-2.0
// Reshape: dimensions that split or join share factors; where sizes have nothing in common the op needs both sides
// whole. Both shapes are walked from the major end. The largest factor that the current dimensions have in common is
// one factor of the rule; the remainder of a dimension continues with the next of the other side. 2x3x4 to 6x4 gives 2,
// 3 (both of the 6) and 4; 6 to 2x3 the same the other way round; 4x6 to 3x8 shares nothing at the front, so those
// dimensions are needed whole.
#include <assert.h>

#include "hlo/base/arithmetic.h"
#include "hlo/eval/layout.h"
#include "spmd_partitioner/emit.h"

// Walks one side of a reshape, from major to minor.
typedef struct Side {
    const HloShape *shape;
    int32_t tensor;
    int32_t dim;   // current one
    int64_t left;  // of its size, not covered by factors yet
} Side;

// Steps to the next dimension that has something left; false at the end.
static bool advance(Side *side) {
    assert(side->left > 0); /* the array has elements */
    while (side->left == 1) {
        if (++side->dim >= side->shape->rank) return false;
        side->left = side->shape->dims[side->dim];
    }
    return true;
}

// Adds a factor of one side alone. It fills the dimension's position in the list of factors but can have no axes.
static void add_alone(SpmdRule *rule, Side *side) {
    spmd_rule_map(rule, side->tensor, side->dim, spmd_rule_factor(rule, SPMD_REPLICATE, side->left));
    side->left = 1;
}

// Covers both sides with factors of their own until as many elements are covered on each.
static void add_apart(SpmdRule *rule, Side *a, Side *b) {
    int64_t covered_a = a->left, covered_b = b->left;
    add_alone(rule, a);
    add_alone(rule, b);
    while (covered_a != covered_b) {
        bool a_lags = covered_a < covered_b;
        Side *lagging = a_lags ? a : b;
        if (!advance(lagging)) return;
        *(a_lags ? &covered_a : &covered_b) *= lagging->left;
        add_alone(rule, lagging);
    }
}

// Invariant of the loop: as many elements are covered on one side as on the other.
static void reshape_rule(SpmdRule *rule, const HloInstruction *op) {
    assert(op->operand_count >= 1);
    const HloShape *from = op->operands[0]->shape;
    Side a = {.shape = from, .tensor = 0, .dim = -1, .left = 1};
    Side b = {.shape = op->shape, .tensor = spmd_rule_result(rule, 0), .dim = -1, .left = 1};
    if (hlo_shape_elements(from) != hlo_shape_elements(op->shape) || hlo_shape_elements(from) == 0) return;
    while (advance(&a) && advance(&b)) {
        int64_t common = hlo_gcd(a.left, b.left);
        if (common == 1) {
            add_apart(rule, &a, &b);
            continue;
        }
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, common);
        spmd_rule_map(rule, a.tensor, a.dim, factor);
        spmd_rule_map(rule, b.tensor, b.dim, factor);
        a.left /= common;
        b.left /= common;
        if (a.left > 1 && b.left > 1) add_apart(rule, &a, &b);
    }
}
const SpmdOp spmd_op_reshape = {.name = "reshape", .rule = reshape_rule, .is_certain = true};

// Flattening has spelled out those that move data between orders of dimensions.
static HloStatus bitcast_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    if (!hlo_shape_is_array(op->shape)) return spmd_partition_data_flow(partitioner, op);
    HLO_FAIL_IF(hlo_type_bytes(op->shape->type) != hlo_type_bytes(op->operands[0]->shape->type), HLO_UNIMPLEMENTED,
                "bitcast that changes the element width cannot be partitioned");
    HLO_FAIL_IF(!hlo_bitcast_is_reshape(op->operands[0]->shape, op->shape), HLO_UNIMPLEMENTED,
                "bitcast that goes through the padding of tiles cannot be partitioned");
    return spmd_partition_default(partitioner, op);
}
const SpmdOp spmd_op_bitcast = {
    .name = "bitcast", .rule = reshape_rule, .partition = bitcast_partition, .is_certain = true};
