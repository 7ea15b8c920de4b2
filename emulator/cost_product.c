// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on the systolic arrays.
//
// A batched product, rows x depth times depth x columns, is divided into tiles of the systolic array: depth and columns
// are rounded up to its side, and rows to the eight that enter together. Types that the array cannot multiply are
// computed in passes of types that it can. Convolutions are products whose depth is the window, position by position.
#include <assert.h>
#include <math.h>

#include "emulator/cost.h"
#include "emulator/layout/convolution.h"
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

// Lanes and sublanes of a register.
#define LANES 128
#define SUBLANES 8

// The depth of a convolution: each position of the window is a product of its own, over features that are padded to
// the lanes. Images have few features, and kernel gradients the batch in their place, which is in the sublanes: then
// positions are gathered first, of images those along the last dimension of the window, and padded together.
static double window_depth(const EmuConvolution *convolution, const HloShape *kernel) {
    const double window = (double)convolution->window, features = (double)convolution->inputs;
    const int64_t dimensions = convolution->labels->kernel_spatial.count;
    if (convolution->makes_batch_in_lanes) return window * round_up(features, SUBLANES);
    if (convolution->is_gradient)  // whose features are the batch of what it reads
        return window *
               round_up(features, emu_batch_fills_lanes(convolution->inputs, convolution->batch) ? LANES : SUBLANES);
    if (features > SUBLANES || dimensions == 0 || convolution->makes_image) return window * round_up(features, LANES);
    const double last = (double)kernel->dims[convolution->labels->kernel_spatial.items[dimensions - 1]];
    return last > 0 ? window / last * round_up(last * features, LANES) : 0;
}

// The share of a window's positions that meet an element of the image, not a gap that dilation has put between two: the
// places of a result are divided into those that meet the same positions, and each part is a convolution of its own
// [RT: gradients of images under strided convolutions, transposed convolutions].
static double share_of_positions(const HloWindow *window) {
    double share = 1;
    for (int64_t i = 0; window && i < window->count; i++) share /= (double)window->dims[i].base_dilation;
    return share;
}

static EmuProduct product_of_convolution(const EmuChip *chip, const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_CONVOLUTION));
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(instruction, Convolution);
    const HloShape *kernel = instruction->operands[1]->shape, *output = instruction->shape;
    const EmuConvolution convolution = emu_convolution_of(instruction);
    const double features = (double)output->dims[convolution.labels->output_feature];
    EmuProduct product = {
        .batch = (double)convolution.groups, .columns = (double)convolution.outputs, .is_convolution = true};
    product.rows = features > 0 ? (double)hlo_shape_elements(output) / features : 0;
    product.depth = window_depth(&convolution, kernel) * share_of_positions(attributes->window);
    product.has_few_filters = convolution.makes_image;
    if (convolution.makes_batch_in_lanes || convolution.makes_image) {
        // The filters pass what is read for one place of the result.
        product.batch *= (double)convolution.places;
        product.rows = (double)convolution.outputs;
        product.columns = (double)convolution.batch;
    }
    // Operations on padding and in the gaps of a dilated input are no work, but take their time.
    HloCost cost = {0};
    hlo_cost_convolution(NULL, instruction, &cost);
    product.flops = cost.flops;
    choose_rate(chip, wider(instruction->operands[0]->shape, kernel), attributes->precision, HLO_DotAlgorithm_UNSET,
                &product);
    return product;
}

// Cycles that the vector unit takes for one position of a window and one register: to load, multiply and add what a
// depthwise filter reads there [RT: estimated cycles of convolutions with 9 to 49 positions].
#define DEPTHWISE_CYCLES 2

double emu_convolution_vector_operations(const EmuChip *chip, const HloInstruction *instruction) {
    const EmuConvolution convolution = emu_convolution_of(instruction);
    const double steps = (double)convolution.window * (double)chip->vector_alus;
    if (convolution.is_depthwise) {
        const HloShape *output = instruction->shape;
        const double features = (double)output->dims[convolution.labels->output_feature];
        const double padded = features > 0 ? round_up(features, LANES) / features : 0;
        return DEPTHWISE_CYCLES * steps * (double)convolution.inputs * (double)hlo_shape_elements(output) * padded;
    }
    if (!convolution.makes_batch_in_lanes) return 0;
    // Arguments may be wider than what is multiplied, which others are made in.
    const HloInstruction *image = instruction->operands[0];
    const double bits = hlo_type_info(image->shape->type)->bits;
    const double parts = hlo_is(image, HLO_OP_PARAMETER) && bits > 16 ? bits / 16 : 1;
    return chip->gather_cycles * parts * steps * (double)convolution.groups * (double)convolution.places *
           round_up((double)convolution.batch, LANES) * round_up((double)convolution.inputs, SUBLANES);
}

EmuProduct emu_product_of(const EmuChip *chip, const HloInstruction *instruction) {
    if (instruction->opcode == HLO_OP_CONVOLUTION) return product_of_convolution(chip, instruction);
    assert(instruction->operand_count >= 2);
    return emu_product_of_shapes(chip, instruction->operands[0]->shape, instruction->operands[1]->shape,
                                 HLO_ATTRIBUTES(instruction, Dot));
}

double emu_product_seconds(const EmuChip *chip, const EmuProduct *product) {
    const double side = (double)chip->mxu_dimension;
    // The operand that stays in the array enters while the one before is used, and by two rows for each of the other: a
    // register has 16 rows of bf16, but 8 of the results, which limit the other.
    const bool is_divided = (product->is_divided || product->is_convolution) && !product->has_few_filters;
    const double least = is_divided ? fmin(side, round_up(product->depth, 16)) / 2 : 0;
    double area = fmax(round_up(product->rows, 8), least) * round_up(product->columns, side);
    if (!product->is_convolution && !product->is_kernel)
        area = fmin(area, fmax(round_up(product->columns, 8), least) * round_up(product->rows, side));
    const double depth = round_up(product->depth, product->is_convolution ? LANES : side);
    const double flops = 2 * product->batch * area * depth * (double)product->passes;
    return flops / (product->peak_flops * chip->mxu_efficiency);
}
