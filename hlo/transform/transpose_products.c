// SPDX-License-Identifier: Apache-2.0
// Transposes of products: dot, convolution, Fourier transform, triangular solve.
#include "hlo/transform/structure.h"

// ---------------------------------------------------------------------------------------------------------------------
// Dot

// The dimensions of one side that are neither batch nor contracted, in order.
static int64_t free_dimensions(const HloShape *shape, HloInts batch, HloInts contracting, int64_t *free) {
    int64_t count = 0;
    for (int64_t i = 0; i < shape->rank; i++)
        if (!hlo_ints_contain(batch, i) && !hlo_ints_contain(contracting, i)) free[count++] = i;
    return count;
}

// The wider of both types: a product of operands of different types is made in it.
static HloInstruction *widened(HloBuilder *b, HloInstruction *x, HloType type) {
    return x && x->shape->type != type && hlo_type_info(x->shape->type)->bits < hlo_type_info(type)->bits
               ? hlo_build_convert(b, x, type)
               : x;
}

// x[batch, x free, contracted] . y = z[batch, x free, y free]: the cotangent of x is z . y over y's free dimensions,
// brought into x's order. `left` is false if y is the left operand.
void hlo_transpose_dot(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(t->instruction, Dot);
    bool left = hlo_transposer_is_linear(t, 0);
    const HloShape *x = t->instruction->operands[left ? 0 : 1]->shape;
    HloInstruction *y = hlo_transposer_residual(t, left ? 1 : 0);
    HloInts x_batch = left ? dot->lhs_batch : dot->rhs_batch, y_batch = left ? dot->rhs_batch : dot->lhs_batch;
    HloInts x_sum = left ? dot->lhs_contracting : dot->rhs_contracting;
    HloInts y_sum = left ? dot->rhs_contracting : dot->lhs_contracting;
    int64_t x_free[HLO_MAXIMUM_RANK], y_free[HLO_MAXIMUM_RANK], z_batch[HLO_MAXIMUM_RANK], z_sum[HLO_MAXIMUM_RANK];
    int64_t x_count = free_dimensions(x, x_batch, x_sum, x_free);
    int64_t y_count = free_dimensions(y->shape, y_batch, y_sum, y_free), batch = x_batch.count;
    for (int64_t i = 0; i < batch; i++) z_batch[i] = i;
    for (int64_t i = 0; i < y_count; i++) z_sum[i] = batch + (left ? x_count : 0) + i;
    int32_t precision[2] = {0, 0};
    for (int64_t i = 0; i < 2 && i < dot->precision.count; i++) precision[i] = dot->precision.items[i];
    HloDotAttributes attributes = {.lhs_batch = {z_batch, batch},
                                   .rhs_batch = y_batch,
                                   .lhs_contracting = {z_sum, y_count},
                                   .rhs_contracting = {y_free, y_count},
                                   .precision = {precision, dot->precision.count},
                                   .algorithm = dot->algorithm};
    HloType wide = cotangent->shape->type;
    y = widened(b, y, wide);
    HloInstruction *z = widened(b, cotangent, y ? y->shape->type : wide);
    HloInstruction *product = hlo_build_dot(b, z, y, &attributes, z ? z->shape->type : wide);
    // The product's dimensions: batch, x's free ones, then the contracted ones in y's order.
    int64_t order[HLO_MAXIMUM_RANK];
    bool ordered = true;
    for (int64_t i = 0; i < batch; i++) order[x_batch.items[i]] = i;
    for (int64_t i = 0; i < x_count; i++) order[x_free[i]] = batch + i;
    for (int64_t i = 0; i < x_sum.count; i++) {
        int64_t rank = 0;
        for (int64_t k = 0; k < y_sum.count; k++) rank += y_sum.items[k] < y_sum.items[i];
        order[x_sum.items[i]] = batch + x_count + rank;
    }
    for (int64_t i = 0; i < x->rank; i++) ordered &= order[i] == i;
    if (!ordered) product = hlo_build_transpose(b, product, (HloInts){order, x->rank});
    if (product && product->shape->type != x->type) product = hlo_build_convert(b, product, x->type);
    hlo_transposer_give(t, left ? 0 : 1, product);
}

// ---------------------------------------------------------------------------------------------------------------------
// Convolution

// Splits dimension `from` into (groups, rest) and merges the groups into dimension `to`, as its slower part.
static HloInstruction *move_groups(HloBuilder *b, HloInstruction *x, int64_t from, int64_t to, int64_t groups) {
    if (!x) return NULL;
    int64_t split[HLO_MAXIMUM_RANK + 1], order[HLO_MAXIMUM_RANK + 1], dims[HLO_MAXIMUM_RANK], count = 0;
    int64_t rank = x->shape->rank;
    for (int64_t i = 0, k = 0; i < rank; i++) {
        if (i == from) split[k++] = groups;
        split[k++] = i == from ? x->shape->dims[i] / groups : x->shape->dims[i];
        dims[i] = i == from ? x->shape->dims[i] / groups : i == to ? x->shape->dims[i] * groups : x->shape->dims[i];
    }
    for (int64_t i = 0; i < rank; i++) {
        if (i == to) order[count++] = from;
        order[count++] = i >= from ? i + 1 : i;
    }
    HloInstruction *parts = hlo_build_reshape(b, x, (HloInts){split, rank + 1});
    return hlo_build_reshape(b, hlo_build_transpose(b, parts, (HloInts){order, rank + 1}), (HloInts){dims, rank});
}

static int64_t dilated(int64_t size, int64_t dilation) {
    return size ? (size - 1) * dilation + 1 : 0;
}

// The window of one spatial dimension of the transposes, from the sizes of input, kernel and output.
static HloWindowDimension window_for_input(HloWindowDimension w, int64_t input, int64_t kernel, int64_t output) {
    int64_t reach = dilated(kernel, w.window_dilation), before = reach - w.padding_low - 1;
    int64_t after = dilated(input, w.base_dilation) + reach - 1 - dilated(output, w.stride) - before;
    return (HloWindowDimension){.size = kernel,
                                .stride = w.base_dilation,
                                .padding_low = before,
                                .padding_high = after,
                                .base_dilation = w.stride,
                                .window_dilation = w.window_dilation};
}

static HloWindowDimension window_for_kernel(HloWindowDimension w, int64_t input, int64_t kernel, int64_t output) {
    int64_t high = dilated(output, w.stride) - dilated(input, w.base_dilation) + dilated(kernel, w.window_dilation) -
                   w.padding_low - 1;
    return (HloWindowDimension){.size = output,
                                .stride = w.window_dilation,
                                .padding_low = w.padding_low,
                                .padding_high = high,
                                .base_dilation = w.base_dilation,
                                .window_dilation = w.stride};
}

static int64_t groups_of(int64_t count) {
    return count > 1 ? count : 1;
}

typedef struct Transposed {
    HloConvolutionAttributes attributes;
    HloConvolutionLabels labels;
    HloWindow window;
    HloWindowDimension dims[HLO_MAXIMUM_RANK];
} Transposed;

static void begin_convolution(HloTransposer *t, HloInstruction *cotangent, bool for_input, Transposed *c) {
    const HloConvolutionAttributes *from = HLO_ATTRIBUTES(t->instruction, Convolution);
    const HloConvolutionLabels *l = from->labels;
    const HloShape *input = t->instruction->operands[0]->shape, *kernel = t->instruction->operands[1]->shape;
    c->attributes = *from;
    for (int64_t i = 0; i < from->window->count; i++) {
        HloWindowDimension w = from->window->dims[i];
        int64_t sizes[] = {input->dims[l->input_spatial.items[i]], kernel->dims[l->kernel_spatial.items[i]],
                           cotangent->shape->dims[l->output_spatial.items[i]]};
        c->dims[i] = for_input ? window_for_input(w, sizes[0], sizes[1], sizes[2])
                               : window_for_kernel(w, sizes[0], sizes[1], sizes[2]);
    }
    c->window = (HloWindow){c->dims, from->window->count};
    c->attributes.window = &c->window;
    c->attributes.labels = &c->labels;
}

// The cotangent convolved with the reversed kernel, whose features exchange their roles.
static void convolution_input(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    const HloConvolutionAttributes *from = HLO_ATTRIBUTES(t->instruction, Convolution);
    const HloConvolutionLabels *l = from->labels;
    Transposed c;
    HloInstruction *kernel = hlo_transposer_residual(t, 1);
    int64_t features = groups_of(from->feature_group_count), batches = groups_of(from->batch_group_count);
    int64_t groups = features > 1 ? features : batches;
    begin_convolution(t, cotangent, true, &c);
    c.labels = (HloConvolutionLabels){.input_batch = l->output_batch,
                                      .input_feature = l->output_feature,
                                      .input_spatial = l->output_spatial,
                                      .kernel_input_feature = l->kernel_output_feature,
                                      .kernel_output_feature = l->kernel_input_feature,
                                      .kernel_spatial = l->kernel_spatial,
                                      .output_batch = l->input_batch,
                                      .output_feature = l->input_feature,
                                      .output_spatial = l->input_spatial};
    if (groups > 1) kernel = move_groups(b, kernel, l->kernel_output_feature, l->kernel_input_feature, groups);
    c.attributes.feature_group_count = groups;
    c.attributes.batch_group_count = 1;
    kernel = hlo_build_reverse(b, kernel, l->kernel_spatial);
    HloType type = t->instruction->operands[0]->shape->type;
    HloInstruction *result = hlo_build_convolution(b, cotangent, widened(b, kernel, cotangent->shape->type),
                                                   &c.attributes, cotangent->shape->type);
    if (batches > 1) result = move_groups(b, result, l->input_feature, l->input_batch, batches);
    if (result && result->shape->type != type) result = hlo_build_convert(b, result, type);
    hlo_transposer_give(t, 0, result);
}

// The input convolved with the cotangent as kernel: batch and features exchange their roles.
static void convolution_kernel(HloTransposer *t, HloInstruction *cotangent) {
    HloBuilder *b = t->b;
    const HloConvolutionAttributes *from = HLO_ATTRIBUTES(t->instruction, Convolution);
    const HloConvolutionLabels *l = from->labels;
    Transposed c;
    int64_t features = groups_of(from->feature_group_count), batches = groups_of(from->batch_group_count);
    begin_convolution(t, cotangent, false, &c);
    c.labels = (HloConvolutionLabels){.input_batch = l->input_feature,
                                      .input_feature = l->input_batch,
                                      .input_spatial = l->input_spatial,
                                      .kernel_input_feature = l->output_batch,
                                      .kernel_output_feature = l->output_feature,
                                      .kernel_spatial = l->output_spatial,
                                      .output_batch = l->kernel_input_feature,
                                      .output_feature = l->kernel_output_feature,
                                      .output_spatial = l->kernel_spatial};
    c.attributes.feature_group_count = batches;
    c.attributes.batch_group_count = batches > 1 ? 1 : features;
    HloType type = t->instruction->operands[1]->shape->type;
    HloInstruction *input = widened(b, hlo_transposer_residual(t, 0), cotangent->shape->type);
    HloInstruction *result = hlo_build_convolution(b, input, cotangent, &c.attributes, cotangent->shape->type);
    if (result && result->shape->type != type) result = hlo_build_convert(b, result, type);
    hlo_transposer_give(t, 1, result);
}

void hlo_transpose_convolution(HloTransposer *t, HloInstruction *cotangent) {
    if (hlo_transposer_is_linear(t, 0))
        convolution_input(t, cotangent);
    else
        convolution_kernel(t, cotangent);
}

// ---------------------------------------------------------------------------------------------------------------------
// Fourier transforms

// 1 or 2 for each frequency of a half spectrum: how often it occurs in the whole one.
static HloInstruction *multiplicity(HloBuilder *b, HloType type, HloInts dims, int64_t length) {
    int64_t last = dims.count - 1;
    HloInstruction *k = hlo_build_iota(b, HLO_S32, dims, last);
    HloInstruction *once = hlo_build_compare(b, k, hlo_build_splat(b, HLO_S32, dims, 0), HLO_ComparisonDirection_EQ);
    if (length % 2 == 0) {
        HloInstruction *middle = hlo_build_splat(b, HLO_S32, dims, (double)(length / 2));
        once = hlo_build_or(b, once, hlo_build_compare(b, k, middle, HLO_ComparisonDirection_EQ));
    }
    return hlo_build_select(b, once, hlo_build_splat(b, type, dims, 1), hlo_build_splat(b, type, dims, 2));
}

static HloInstruction *fft(HloBuilder *b, HloInstruction *x, int32_t type, HloInts length) {
    return hlo_build_fft(b, x, type, length);
}

// The real part of the transform of the cotangent, whose missing half is zero.
static HloInstruction *of_rfft(HloTransposer *t, HloInstruction *cotangent, HloInts length) {
    int64_t low[HLO_MAXIMUM_RANK] = {0}, high[HLO_MAXIMUM_RANK] = {0}, rank = cotangent->shape->rank;
    high[rank - 1] = length.items[length.count - 1] - cotangent->shape->dims[rank - 1];
    HloInstruction *zero = hlo_build_scalar(t->b, cotangent->shape->type, 0);
    HloInstruction *whole =
        hlo_build_pad(t->b, cotangent, zero, (HloInts){low, rank}, (HloInts){high, rank}, HLO_DIMS());
    return hlo_build_real(t->b, fft(t->b, whole, HLO_FftType_FFT, length));
}

// The half spectrum of the cotangent, conjugated, divided by the number of elements, twice for frequencies that occur
// twice.
static HloInstruction *of_irfft(HloTransposer *t, HloInstruction *cotangent, HloInts length) {
    HloBuilder *b = t->b;
    HloInstruction *x = fft(b, cotangent, HLO_FftType_RFFT, length);
    if (!x) return NULL;
    int64_t count = 1;
    for (int64_t i = 0; i < length.count; i++) count *= length.items[i];
    HloInstruction *times = multiplicity(b, cotangent->shape->type, hlo_build_dims(x), length.items[length.count - 1]);
    HloInstruction *scale = hlo_transform_scale(b, times, 1.0 / (double)(count ? count : 1));
    return hlo_build_complex(b, hlo_build_mul(b, hlo_build_real(b, x), scale),
                             hlo_build_negate(b, hlo_build_mul(b, hlo_build_imag(b, x), scale)));
}

void hlo_transpose_fft(HloTransposer *t, HloInstruction *cotangent) {
    const HloFftAttributes *attributes = HLO_ATTRIBUTES(t->instruction, Fft);
    switch (attributes->type) {
        case HLO_FftType_RFFT: hlo_transposer_give(t, 0, of_rfft(t, cotangent, attributes->length)); break;
        case HLO_FftType_IRFFT: hlo_transposer_give(t, 0, of_irfft(t, cotangent, attributes->length)); break;
        default: hlo_transposer_give(t, 0, fft(t->b, cotangent, attributes->type, attributes->length));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Triangular solve

void hlo_transpose_triangular_solve(HloTransposer *t, HloInstruction *cotangent) {
    HloTriangularSolveAttributes attributes = *HLO_ATTRIBUTES(t->instruction, TriangularSolve);
    HloInstruction *a = hlo_transposer_residual(t, 0);
    if (attributes.transpose_a == HLO_Transpose_ADJOINT) a = hlo_transform_conjugate(t->b, a);
    attributes.transpose_a =
        attributes.transpose_a == HLO_Transpose_NO_TRANSPOSE ? HLO_Transpose_TRANSPOSE : HLO_Transpose_NO_TRANSPOSE;
    hlo_transposer_give(t, 1, hlo_build_triangular_solve(t->b, a, cotangent, &attributes));
}
