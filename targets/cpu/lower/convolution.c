// SPDX-License-Identifier: Apache-2.0
// Lowers convolutions: the instruction's labels and windows become sizes and strides of a CpuConvolution, which
// kernels/convolution.h computes. Labels name the dimensions in any order, separately for inputs, kernels and outputs.
// As strides, these orders need no separate cases, so the kernels handle one strided layout and need not know of NHWC
// or OIHW. The method (as products, directly, by windows) is chosen at run time, when the processor's instruction set
// is known.
//
// Types whose products have no kernel, and labels of dimensions that are neither batch, feature nor spatial, are left
// to the evaluator.
#include <assert.h>

#include "targets/cpu/dense/matmul_internal.h"
#include "targets/cpu/kernels/convolution.h"
#include "targets/cpu/lower/lower.h"

static HloStatus run_convolution(const void *data, void *const *arguments, CpuPool *pool) {
    return cpu_convolution(pool, data, arguments[2], arguments[0], arguments[1]);
}

static int64_t stride_of(const HloShape *shape, int64_t dimension) {
    int64_t stride = 1;
    for (int64_t d = dimension + 1; d < shape->rank; d++) stride *= shape->dims[d];
    return stride;
}

static const CpuConvolutionDim *copy_spatial(HloArena *arena, const HloConvolutionLabels *labels,
                                             const HloWindow *window, const HloShape *input, const HloShape *kernel,
                                             const HloShape *output) {
    const int64_t rank = labels->input_spatial.count;
    CpuConvolutionDim *dims = HLO_ARENA_NEW(arena, CpuConvolutionDim, rank);
    for (int64_t i = 0; i < rank; i++) {
        const int64_t in = labels->input_spatial.items[i], k = labels->kernel_spatial.items[i];
        const int64_t out = labels->output_spatial.items[i];
        const HloWindowDimension from =
            window && i < window->count
                ? window->dims[i]
                : (HloWindowDimension){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
        dims[i] = (CpuConvolutionDim){.input_size = input->dims[in],
                                      .kernel_size = kernel->dims[k],
                                      .output_size = output->dims[out],
                                      .stride = from.stride,
                                      .padding_low = from.padding_low,
                                      .base_dilation = from.base_dilation,
                                      .window_dilation = from.window_dilation,
                                      .reversal = from.reversal,
                                      .input_stride = stride_of(input, in),
                                      .kernel_stride = stride_of(kernel, k),
                                      .output_stride = stride_of(output, out)};
    }
    return dims;
}

// Converts labels and window to sizes and strides, which the kernels use for any order of dimensions.
HloStatus cpu_lower_convolution(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 2 && node->result_count == 1);
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(node->instruction, Convolution);
    const HloConvolutionLabels *labels = attributes->labels;
    const HloShape *input = node->operands[0]->shape, *kernel = node->operands[1]->shape;
    const HloShape *output = node->results[0]->shape;
    if (labels->input_unknown.count || labels->kernel_unknown.count || labels->output_unknown.count ||
        output->type == HLO_PRED || cpu_matmul_compute_type(input->type, kernel->type, output->type) == HLO_INVALID)
        return cpu_lower_give_up(lowering, node);
    CpuConvolution *data = HLO_ARENA_NEW(lowering->arena, CpuConvolution, 1);
    *data = (CpuConvolution){
        .lhs_type = input->type,
        .rhs_type = kernel->type,
        .out_type = output->type,
        .precision = cpu_lower_precision(lowering, node, attributes->precision, HLO_DotAlgorithm_UNSET, false),
        .rank = (int)labels->input_spatial.count,
        .dims = copy_spatial(lowering->arena, labels, attributes->window, input, kernel, output),
        .batch = input->dims[labels->input_batch],
        .input_features = input->dims[labels->input_feature],
        .output_features = output->dims[labels->output_feature],
        .feature_groups = attributes->feature_group_count ? attributes->feature_group_count : 1,
        .batch_groups = attributes->batch_group_count ? attributes->batch_group_count : 1,
        .input_batch_stride = stride_of(input, labels->input_batch),
        .input_feature_stride = stride_of(input, labels->input_feature),
        .kernel_input_stride = stride_of(kernel, labels->kernel_input_feature),
        .kernel_output_stride = stride_of(kernel, labels->kernel_output_feature),
        .output_batch_stride = stride_of(output, labels->output_batch),
        .output_feature_stride = stride_of(output, labels->output_feature)};
    cpu_step_kernel(lowering, node, step, run_convolution, data);
    const int64_t per_output = node->operands[1]->elements / (data->output_features ? data->output_features : 1);
    step->cost = (double)node->results[0]->elements * (double)(per_output / 16 + 1);
    return HLO_SUCCESS;
}
