// SPDX-License-Identifier: Apache-2.0
#include "emulator/layout/convolution.h"

#include <assert.h>

#include "hlo/base/arithmetic.h"
#include "hlo/ir/shape.h"

// Lanes of a register.
#define LANES 128

bool emu_batch_fills_lanes(int64_t batch, int64_t features) {
    if (batch <= 0 || features <= 0) return false;
    return (double)hlo_round_up(batch, LANES) * (double)features <
           (double)hlo_round_up(features, LANES) * (double)batch;
}

// The product of the sizes of some dimensions.
static int64_t positions(const HloShape *shape, HloInts dimensions) {
    int64_t count = 1;
    for (int64_t i = 0; i < dimensions.count; i++) count *= shape->dims[dimensions.items[i]];
    return count;
}

EmuConvolution emu_convolution_of(const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_CONVOLUTION));
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(instruction, Convolution);
    const HloConvolutionLabels *labels = attributes->labels;
    const HloShape *kernel = instruction->operands[1]->shape, *output = instruction->shape;
    const int64_t of_features = attributes->feature_group_count > 1 ? attributes->feature_group_count : 1;
    const int64_t of_batch = attributes->batch_group_count > 1 ? attributes->batch_group_count : 1;
    EmuConvolution convolution = {.labels = labels,
                                  .groups = of_features * of_batch,
                                  .batch = output->dims[labels->output_batch],
                                  .inputs = kernel->dims[labels->kernel_input_feature],
                                  .window = positions(kernel, labels->kernel_spatial),
                                  .places = positions(output, labels->output_spatial)};
    convolution.outputs = output->dims[labels->output_feature] / convolution.groups;
    convolution.is_gradient = convolution.window > convolution.places;
    convolution.is_depthwise = (of_features > 1 && convolution.inputs == 1) ||  // also of several filters a feature
                               (of_batch > 1 && convolution.outputs == 1);
    const bool may_turn = labels->input_spatial.count >= 2 && !convolution.is_depthwise && !convolution.is_gradient;
    convolution.has_batch_in_lanes =
        may_turn && of_batch == 1 && emu_batch_fills_lanes(convolution.batch, convolution.inputs);
    convolution.makes_batch_in_lanes =
        convolution.has_batch_in_lanes && emu_batch_fills_lanes(convolution.batch, convolution.outputs);
    convolution.makes_image = may_turn && of_batch == 1 && of_features == 1 && !convolution.has_batch_in_lanes &&
                              convolution.outputs <= EMU_IMAGE_FEATURES && convolution.batch >= EMU_LEAST_BATCH;
    return convolution;
}
