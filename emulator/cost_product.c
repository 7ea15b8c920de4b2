// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on the systolic arrays.
//
// A batched product, rows x depth times depth x columns, is divided into tiles of the systolic array: depth and columns
// are rounded up to its side, and rows to the eight that enter together. Types that the array cannot multiply are
// computed in passes of types that it can. Convolutions are products whose depth is the window, position by position.
#include <assert.h>
#include <math.h>

#include "emulator/cost.h"
#include "hlo/analysis/cost.h"

static double round_up(double value, double multiple) {
    return ceil(value / multiple) * multiple;
}

// The product of the sizes of some dimensions; 1 for none.
static double sizes_of(const HloShape *shape, HloInts dims) {
    double product = 1;
    for (int64_t i = 0; i < dims.count; i++) product *= (double)shape->dims[dims.items[i]];
    return product;
}

// The number of bf16 passes for one f32 multiplication: set by the algorithm if one is named, else by the highest
// requested precision.
static int64_t f32_passes(HloPrecisions precision, int32_t algorithm) {
    switch (algorithm) {
        case HLO_DotAlgorithm_BF16_BF16_F32_X3:
        case HLO_DotAlgorithm_TF32_TF32_F32: return 3;
        case HLO_DotAlgorithm_BF16_BF16_F32_X6:
        case HLO_DotAlgorithm_TF32_TF32_F32_X3:
        case HLO_DotAlgorithm_F32_F32_F32: return 6;
        case HLO_DotAlgorithm_BF16_BF16_F32_X9: return 9;
        case HLO_DotAlgorithm_BF16_BF16_BF16:
        case HLO_DotAlgorithm_BF16_BF16_F32: return 1;
        default: break;
    }
    int64_t passes = 1;
    for (int64_t i = 0; i < precision.count; i++) {
        if (precision.items[i] == HLO_Precision_HIGH && passes < 3) passes = 3;
        if (precision.items[i] == HLO_Precision_HIGHEST) passes = 6;
    }
    return passes;
}

// Peak rate and passes for operands of a type.
static void choose_rate(const EmuChip *chip, HloType type, HloPrecisions precision, int32_t algorithm,
                        EmuProduct *product) {
    assert(chip && product);
    const double devices = (double)chip->devices_per_chip;
    const HloTypeInfo *info = hlo_type_info(type);
    product->peak_flops = chip->bf16_flops_per_chip / devices;
    product->passes = 1;
    if (hlo_type_is_integer(type) || type == HLO_PRED) {
        product->peak_flops = chip->int8_flops_per_chip / devices;
        product->passes = info->bits <= 8 ? 1 : info->bits <= 16 ? 4 : 16;
    } else if (info->bits <= 8) {
        product->peak_flops = chip->fp8_flops_per_chip / devices;
    } else if (type == HLO_F32) {
        product->passes = f32_passes(precision, algorithm);
    } else if (type == HLO_C64) {
        product->passes = 4 * f32_passes(precision, algorithm);
    } else if (type == HLO_F64) {
        product->passes = 36;
    } else if (type == HLO_C128) {
        product->passes = 144;
    }
}

// The wider of two operand types sets the rate.
static HloType wider(const HloShape *left, const HloShape *right) {
    return hlo_type_info(left->type)->bits >= hlo_type_info(right->type)->bits ? left->type : right->type;
}

EmuProduct emu_product_of_shapes(const EmuChip *chip, const HloShape *left, const HloShape *right,
                                 const HloDotAttributes *dot) {
    assert(chip && left && right && dot);
    EmuProduct product = {.batch = sizes_of(left, dot->lhs_batch), .depth = sizes_of(left, dot->lhs_contracting)};
    const double shared = product.batch * product.depth;
    product.rows = shared > 0 ? (double)hlo_shape_elements(left) / shared : 0;
    const double right_shared = sizes_of(right, dot->rhs_batch) * sizes_of(right, dot->rhs_contracting);
    product.columns = right_shared > 0 ? (double)hlo_shape_elements(right) / right_shared : 0;
    // The groups of a ragged dot divide the rows among them; without any group there is nothing to multiply.
    const double groups = sizes_of(right, dot->rhs_group);
    product.columns = groups > 0 ? product.columns / groups : 0;
    product.is_divided = product.batch > 1;
    choose_rate(chip, wider(left, right), dot->precision, dot->algorithm, &product);
    return product;
}

// Lanes of a register, to which features are padded.
#define LANES 128
// Features of which several positions of a window share one padding: those of images.
#define FEW_FEATURES 8

// The depth of a convolution: each position of the window is a product of its own, over features that are padded to
// the lanes. Where there are few features, the positions along the last dimension of the window are gathered first and
// padded together.
static double window_depth(const HloShape *kernel, const HloConvolutionLabels *labels, double features) {
    const double positions = sizes_of(kernel, labels->kernel_spatial);
    const int64_t dimensions = labels->kernel_spatial.count;
    if (features > FEW_FEATURES || dimensions == 0) return positions * round_up(features, LANES);
    const double last = (double)kernel->dims[labels->kernel_spatial.items[dimensions - 1]];
    return last > 0 ? positions / last * round_up(last * features, LANES) : 0;
}

static EmuProduct product_of_convolution(const EmuChip *chip, const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_CONVOLUTION));
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(instruction, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const HloShape *kernel = instruction->operands[1]->shape, *output = instruction->shape;
    const double groups = (double)((convolution->feature_group_count > 1 ? convolution->feature_group_count : 1) *
                                   (convolution->batch_group_count > 1 ? convolution->batch_group_count : 1));
    const double outputs = (double)output->dims[labels->output_feature] / groups,
                 inputs = (double)kernel->dims[labels->kernel_input_feature];
    // Groups that are narrower than the lanes share a product, whose other elements are zero.
    const double together = fmax(1, fmin(groups, floor(LANES / fmax(1, fmax(inputs, outputs)))));
    EmuProduct product = {.batch = ceil(groups / together), .columns = together * outputs, .is_divided = true};
    const double features = (double)output->dims[labels->output_feature];
    product.rows = features > 0 ? (double)hlo_shape_elements(output) / features : 0;
    product.depth = window_depth(kernel, labels, together * inputs);
    // Operations on padding and in the gaps of a dilated input are no work, but take their time.
    HloCost cost = {0};
    hlo_cost_convolution(NULL, instruction, &cost);
    product.flops = cost.flops;
    choose_rate(chip, wider(instruction->operands[0]->shape, kernel), convolution->precision, HLO_DotAlgorithm_UNSET,
                &product);
    return product;
}

EmuProduct emu_product_of(const EmuChip *chip, const HloInstruction *instruction) {
    if (instruction->opcode == HLO_OP_CONVOLUTION) return product_of_convolution(chip, instruction);
    assert(instruction->operand_count >= 2);
    return emu_product_of_shapes(chip, instruction->operands[0]->shape, instruction->operands[1]->shape,
                                 HLO_ATTRIBUTES(instruction, Dot));
}

double emu_product_seconds(const EmuChip *chip, const EmuProduct *product) {
    const double side = (double)chip->mxu_dimension;
    // The operand that stays in the array enters by eight rows at a time as well, while the other one passes.
    const double least = product->is_divided ? side : 0;
    const double straight = fmax(round_up(product->rows, 8), least) * round_up(product->columns, side);
    const double turned = fmax(round_up(product->columns, 8), least) * round_up(product->rows, side);
    const double area = straight < turned ? straight : turned;
    const double flops = 2 * product->batch * area * round_up(product->depth, side) * (double)product->passes;
    return flops / (product->peak_flops * chip->mxu_efficiency);
}
