// SPDX-License-Identifier: Apache-2.0
// Brings convolutions into one form: input and result as batch x spatial... x features, the kernel as spatial... x
// input features x output features. Other orders are transposed into it, and the result back.
//
// Kernels of CPUs and TPUs take their arrays in this order: features are contiguous, so that each step of a window is a
// product with a matrix of kernel weights. XLA's CPU pipeline brings convolutions into this form too. Windows and
// groups refer to spatial dimensions by their number and to features by their position, neither of which changes; so
// the window and the group counts are kept unchanged.
//
//   convolution(x, k), dim_labels=bf01_oi01->bf01
//   ->  transpose(convolution(transpose(x), transpose(k)), dim_labels=b01f_01io->b01f)
#include <assert.h>

#include "hlo/pass/support.h"

// The order first, spatial..., second; or spatial..., first, second for a kernel.
static HloInts order_of(const HloInstruction *like, int64_t first, HloInts spatial, int64_t second, bool is_kernel) {
    int64_t *order = hlo_pass_ints(like, spatial.count + 2), at = 0;
    if (!is_kernel) order[at++] = first;
    for (int64_t s = 0; s < spatial.count; s++) order[at++] = spatial.items[s];
    if (is_kernel) order[at++] = first;
    order[at++] = second;
    return (HloInts){order, at};
}

static HloInstruction *ordered(const HloInstruction *like, HloInstruction *x, HloInts order) {
    return hlo_pass_is_identity(order) ? x : hlo_pass_transpose(like, x, order);
}

// The canonical labels for this many spatial dimensions.
static HloConvolutionLabels *canonical_labels(const HloInstruction *like, int64_t spatial) {
    HloConvolutionLabels *labels = HLO_ARENA_NEW(like->parent->module->arena, HloConvolutionLabels, 1);
    int64_t *kernel = hlo_pass_ints(like, spatial), *array = hlo_pass_ints(like, spatial);
    for (int64_t s = 0; s < spatial; s++) {
        kernel[s] = s;
        array[s] = s + 1;
    }
    *labels = (HloConvolutionLabels){.input_feature = spatial + 1,
                                     .input_spatial = {array, spatial},
                                     .kernel_input_feature = spatial,
                                     .kernel_output_feature = spatial + 1,
                                     .kernel_spatial = {kernel, spatial},
                                     .output_feature = spatial + 1,
                                     .output_spatial = {array, spatial}};
    return labels;
}

// Checks everything before it creates anything. The sharding of the old convolution moves to the last transpose, whose
// dimensions it refers to; the new convolution must not inherit it.
static bool canonicalize(HloInstruction *convolution) {
    if (convolution->opcode != HLO_OP_CONVOLUTION || !hlo_pass_may_replace(convolution)) return false;
    if (hlo_shape_is_dynamic(convolution->shape)) return false;
    HloConvolutionAttributes attributes = *HLO_ATTRIBUTES(convolution, Convolution);
    const HloConvolutionLabels *labels = attributes.labels;
    const HloInts input =
        order_of(convolution, labels->input_batch, labels->input_spatial, labels->input_feature, false);
    const HloInts kernel = order_of(convolution, labels->kernel_input_feature, labels->kernel_spatial,
                                    labels->kernel_output_feature, true);
    const HloInts output =
        order_of(convolution, labels->output_batch, labels->output_spatial, labels->output_feature, false);
    if (hlo_pass_is_identity(input) && hlo_pass_is_identity(kernel) && hlo_pass_is_identity(output)) return false;
    HloInstruction *operands[] = {ordered(convolution, convolution->operands[0], input),
                                  ordered(convolution, convolution->operands[1], kernel)};
    attributes.labels = canonical_labels(convolution, labels->input_spatial.count);
    HloInstruction *made = hlo_pass_make(convolution, &(HloBuildRequest){.opcode = HLO_OP_CONVOLUTION,
                                                                         .operands = operands,
                                                                         .operand_count = 2,
                                                                         .attributes = &attributes,
                                                                         .type = convolution->shape->type});
    return hlo_pass_replace(convolution, ordered(convolution, made, hlo_pass_inverse(convolution, output)));
}

HloStatus hlo_pass_convolution_canonicalizer(HloModule *module, const HloPassEnv *env, bool *changed) {
    assert(env && changed);
    HloPassWalk walk = hlo_pass_walk(module);
    for (HloInstruction *i; (i = hlo_pass_next(&walk));) *changed |= canonicalize(i);
    return HLO_SUCCESS;
}
