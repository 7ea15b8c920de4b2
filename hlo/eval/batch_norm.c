// SPDX-License-Identifier: Apache-2.0
// batch-norm-training, -inference and -grad, in double.
//
// Mean and variance are over all dimensions except the feature dimension, the variance without Bessel's correction.
// With n elements per feature, s = variance + epsilon and y the incoming gradient:
//
//   inference       (x - mean) / sqrt(s) * scale + offset
//   training        the same with the mean and variance of x itself, which are results too
//   grad of x       scale / sqrt(s) * (y - mean(y) - (x - mean) * mean(y (x - mean)) / s)
//   grad of scale   sum(y (x - mean)) / sqrt(s)
//   grad of offset  sum(y)
#include <assert.h>
#include <math.h>

#include "hlo/eval/internal.h"

// An array as [outer][features][inner].
typedef struct Norm {
    const HloShape *shape;
    int64_t outer, features, inner;
    double epsilon;
} Norm;

static Norm describe(const HloInstruction *instruction, const HloShape *shape) {
    const HloBatchNormAttributes *attributes = HLO_ATTRIBUTES(instruction, BatchNorm);
    Norm norm = {.shape = shape, .outer = 1, .inner = 1, .epsilon = (double)attributes->epsilon};
    norm.features = shape->dims[attributes->feature_index];
    for (int64_t i = 0; i < attributes->feature_index; i++) norm.outer *= shape->dims[i];
    for (int64_t i = attributes->feature_index + 1; i < shape->rank; i++) norm.inner *= shape->dims[i];
    if (norm.inner == 0) norm.outer = 0;  // no elements: do not iterate over 10^15 empty rows
    return norm;
}

static double *decode(HloEvalDevice *device, const HloEvalValue *value) {
    int64_t count = hlo_eval_elements(value);
    double *numbers = HLO_EVAL_SCRATCH(device, double, count);
    hlo_eval_decode_double(value->shape->type, value->data, count, numbers);
    return numbers;
}

static void encode(const double *numbers, HloEvalValue *value) {
    hlo_eval_encode_double(value->shape->type, numbers, hlo_eval_elements(value), value->data);
}

// Sums of first[i] * (second ? second[i] - shift[feature] : 1) by feature.
static void feature_sums(const Norm *norm, const double *first, const double *second, const double *shift,
                         double *sums) {
    for (int64_t f = 0; f < norm->features; f++) {
        double sum = 0;
        for (int64_t o = 0; o < norm->outer; o++) {
            for (int64_t i = 0; i < norm->inner; i++) {
                int64_t at = (o * norm->features + f) * norm->inner + i;
                sum += second ? first[at] * (second[at] - shift[f]) : first[at];
            }
        }
        sums[f] = sum;
    }
}

// Normalises in place.
static void normalise(const Norm *norm, double *x, const double *scale, const double *offset, const double *mean,
                      const double *variance) {
    for (int64_t at = 0; at < norm->outer * norm->features * norm->inner; at++) {
        int64_t f = at / norm->inner % norm->features;
        x[at] = (x[at] - mean[f]) / sqrt(variance[f] + norm->epsilon) * scale[f] + offset[f];
    }
}

HloStatus hlo_eval_batch_norm_inference(HloEvalDevice *device, const HloInstruction *instruction,
                                        HloEvalValue **operands, HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_BATCH_NORM_INFERENCE));
    Norm norm = describe(instruction, operands[0]->shape);
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    double *x = decode(device, operands[0]);
    normalise(&norm, x, decode(device, operands[1]), decode(device, operands[2]), decode(device, operands[3]),
              decode(device, operands[4]));
    encode(x, *result);
    return HLO_SUCCESS;
}

// Returns (normalised, mean, variance).
HloStatus hlo_eval_batch_norm_training(HloEvalDevice *device, const HloInstruction *instruction,
                                       HloEvalValue **operands, HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_BATCH_NORM_TRAINING));
    Norm norm = describe(instruction, operands[0]->shape);
    HloEvalValue *arrays[3];
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 3, result, arrays));
    double *x = decode(device, operands[0]), *mean = HLO_EVAL_SCRATCH(device, double, norm.features);
    double *variance = HLO_EVAL_SCRATCH(device, double, norm.features);
    feature_sums(&norm, x, NULL, NULL, mean);
    for (int64_t f = 0; f < norm.features; f++) {
        mean[f] /= (double)(norm.outer * norm.inner);
        double sum = 0;
        for (int64_t o = 0; o < norm.outer; o++) {
            for (int64_t i = 0; i < norm.inner; i++) {
                double difference = x[(o * norm.features + f) * norm.inner + i] - mean[f];
                sum += difference * difference;
            }
        }
        variance[f] = sum / (double)(norm.outer * norm.inner);
    }
    normalise(&norm, x, decode(device, operands[1]), decode(device, operands[2]), mean, variance);
    encode(x, arrays[0]);
    encode(mean, arrays[1]);
    encode(variance, arrays[2]);
    return HLO_SUCCESS;
}

// Operands activations, scale, mean, variance, gradient of the output; returns (grad of activations, of scale, of
// offset).
HloStatus hlo_eval_batch_norm_grad(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                   HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_BATCH_NORM_GRAD));
    Norm norm = describe(instruction, operands[0]->shape);
    HloEvalValue *arrays[3];
    HLO_TRY(hlo_eval_new_results(device, instruction->shape, 3, result, arrays));
    double *x = decode(device, operands[0]), *scale = decode(device, operands[1]), *mean = decode(device, operands[2]);
    double *variance = decode(device, operands[3]), *grad = decode(device, operands[4]);
    double *grad_sum = HLO_EVAL_SCRATCH(device, double, norm.features);
    double *product_sum = HLO_EVAL_SCRATCH(device, double, norm.features);
    feature_sums(&norm, grad, NULL, NULL, grad_sum);
    feature_sums(&norm, grad, x, mean, product_sum);
    double count = (double)(norm.outer * norm.inner);
    for (int64_t at = 0; at < norm.outer * norm.features * norm.inner; at++) {
        int64_t f = at / norm.inner % norm.features;
        double spread = variance[f] + norm.epsilon, grad_mean = grad_sum[f] / count;
        double slope = product_sum[f] / count / spread;
        x[at] = scale[f] / sqrt(spread) * (grad[at] - grad_mean - (x[at] - mean[f]) * slope);
    }
    for (int64_t f = 0; f < norm.features; f++) product_sum[f] /= sqrt(variance[f] + norm.epsilon);
    encode(x, arrays[0]);
    encode(product_sum, arrays[1]);
    encode(grad_sum, arrays[2]);
    return HLO_SUCCESS;
}
