// SPDX-License-Identifier: Apache-2.0
// Convolution, reduce-window and select-and-scatter.
#include "spmd_partitioner/emit.h"

static bool is_trivial(const HloWindowDimension *window) {
    return window->size == 1 && window->stride == 1 && window->padding_low == 0 && window->padding_high == 0 &&
           window->base_dilation == 1;
}

static void reduce_window_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    int32_t inputs = op->operand_count / 2;
    const HloShape *result = rule->tensors[spmd_rule_result(rule, 0)].shape;
    for (int32_t d = 0; d < result->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, is_trivial(&window->dims[d]) ? SPMD_PASS : SPMD_PERMUTE, result->dims[d]);
        for (int32_t i = 0; i < inputs; i++) {
            spmd_rule_map(rule, i, d, factor);
            spmd_rule_map(rule, spmd_rule_result(rule, i), d, factor);
        }
    }
}
const SpmdOp spmd_op_reduce_window = {.name = "reduce-window", .rule = reduce_window_rule};

static void select_and_scatter_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!is_trivial(&window->dims[d])) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, op->shape->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, 1, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}
const SpmdOp spmd_op_select_and_scatter = {.name = "select-and-scatter", .rule = select_and_scatter_rule};

static void convolution_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const HloShape *input = op->operands[0]->shape, *kernel = op->operands[1]->shape;
    int32_t result = spmd_rule_result(rule, 0);
    if (convolution->batch_group_count <= 1) {
        int32_t batch = spmd_rule_factor(rule, SPMD_PASS, input->dims[labels->input_batch]);
        spmd_rule_map(rule, 0, labels->input_batch, batch);
        spmd_rule_map(rule, result, labels->output_batch, batch);
    }
    if (convolution->feature_group_count > 1 || convolution->batch_group_count > 1) return;
    int32_t feature = spmd_rule_factor(rule, SPMD_REDUCE, input->dims[labels->input_feature]);
    spmd_rule_map(rule, 0, labels->input_feature, feature);
    spmd_rule_map(rule, 1, labels->kernel_input_feature, feature);
    int32_t output = spmd_rule_factor(rule, SPMD_PASS, kernel->dims[labels->kernel_output_feature]);
    spmd_rule_map(rule, 1, labels->kernel_output_feature, output);
    spmd_rule_map(rule, result, labels->output_feature, output);
    rule->reduction = HLO_OP_ADD;
}
const SpmdOp spmd_op_convolution = {.name = "convolution", .rule = convolution_rule};
