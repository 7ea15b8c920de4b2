// SPDX-License-Identifier: Apache-2.0
// convolution in any number of dimensions: patches of the input as rows, the kernel as a matrix, one product per block.
//
// Shapes are first brought into one order: input [batch][spatial][features], kernel [spatial][input features][output
// features]. A row of the patch matrix then contains all inputs of one output position, in the order of the kernel's
// rows, with zeros for padding and the holes of a dilated input; rows times kernel are the outputs. The matrix would be
// larger than the input by the number of elements in the window, so it is made one block of rows at a time. Groups of
// features or of the batch are separate convolutions, each with its part of the kernel's columns.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hlo/eval/internal.h"
#include "hlo/ir/infer/support.h"

// Rows of the patch matrix that are made at a time: a thousand, or as many as fit 64 MiB, but at least LEAST_ROWS.
enum { LEAST_ROWS = 64, MOST_ROWS = 1024, BLOCK_NUMBERS = 1 << 23 };

typedef struct Convolution {
    HloEvalDevice *device;
    const HloWindowDimension *window;
    int64_t spatial_rank;
    int64_t batch, features;  // of the input
    int64_t kernel_features, out_features;
    int64_t out_batch;
    int64_t feature_groups, batch_groups;
    int64_t *input_dims, *kernel_dims, *out_dims;  // spatial sizes
    int64_t *input_strides;                        // of the arranged input, in features
    int64_t positions, taps;                       // spatial outputs, spatial kernel elements
    HloEvalAccumulator accumulator;
    size_t bytes;  // of an accumulator number
    HloEvalPasses passes;
    HloType type;  // of the result
    char *input;   // accumulator numbers [batch][spatial][features]
    char *kernel;  // [spatial][kernel features][output features]
    char *output;  // result type [batch][spatial][features]
} Convolution;

// order[0] is `first`, and the spatial dimensions begin at order[at].
static void spatial_order(int64_t first, HloInts spatial, int64_t *order, int64_t at) {
    order[0] = first;
    for (int64_t i = 0; i < spatial.count; i++) order[at + i] = spatial.items[i];
}

// Transposes an operand to the order of the loops, as accumulator numbers.
static char *arrange(Convolution *c, const HloEvalValue *value, const int64_t *order) {
    assert(c && value && order);
    HloType type = value->shape->type;
    int64_t count = hlo_eval_elements(value);
    bool in_order = true;
    for (int64_t i = 0; i < value->shape->rank; i++) in_order = in_order && order[i] == i;
    char *numbers = hlo_eval_scratch(c->device, count, c->bytes);
    HloArenaMark mark = hlo_arena_mark(c->device->scratch);
    const void *data = value->data;
    if (!in_order) {
        void *moved = hlo_eval_scratch(c->device, count, (size_t)hlo_type_bytes(type));
        hlo_eval_transpose_into(c->device, value, order, moved);
        data = moved;
    }
    hlo_eval_to_accumulator(c->accumulator, type, data, count, numbers);
    hlo_arena_reset(c->device->scratch, mark);
    return numbers;
}

// Computes sizes and strides in the order of the loops.
static void describe(Convolution *c, const HloInstruction *instruction, HloEvalValue *const *operands) {
    assert(operands[0] && operands[1]);
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(instruction, Convolution);
    const HloConvolutionLabels *labels = attributes->labels;
    const HloShape *input = operands[0]->shape, *kernel = operands[1]->shape, *out = instruction->shape;
    c->spatial_rank = labels->input_spatial.count;
    c->window = attributes->window ? attributes->window->dims : NULL;
    c->feature_groups = attributes->feature_group_count > 1 ? attributes->feature_group_count : 1;
    c->batch_groups = attributes->batch_group_count > 1 ? attributes->batch_group_count : 1;
    c->batch = input->dims[labels->input_batch];
    c->features = input->dims[labels->input_feature];
    c->kernel_features = kernel->dims[labels->kernel_input_feature];
    c->out_features = kernel->dims[labels->kernel_output_feature];
    c->out_batch = out->dims[labels->output_batch];
    c->type = out->type;
    c->input_dims = HLO_EVAL_SCRATCH(c->device, int64_t, c->spatial_rank);
    c->kernel_dims = HLO_EVAL_SCRATCH(c->device, int64_t, c->spatial_rank);
    c->out_dims = HLO_EVAL_SCRATCH(c->device, int64_t, c->spatial_rank);
    c->input_strides = HLO_EVAL_SCRATCH(c->device, int64_t, c->spatial_rank);
    c->positions = c->taps = 1;
    for (int64_t i = 0; i < c->spatial_rank; i++) {
        c->input_dims[i] = input->dims[labels->input_spatial.items[i]];
        c->kernel_dims[i] = kernel->dims[labels->kernel_spatial.items[i]];
        c->out_dims[i] = out->dims[labels->output_spatial.items[i]];
        c->positions *= c->out_dims[i];
        c->taps *= c->kernel_dims[i];
    }
    hlo_eval_strides(c->input_dims, c->spatial_rank, c->input_strides);
    c->accumulator = hlo_eval_accumulator(input->type, kernel->type);
    c->bytes = (size_t)hlo_eval_accumulator_bytes(c->accumulator);
    c->passes =
        hlo_eval_passes(c->device, input->type, kernel->type, attributes->precision, HLO_DotAlgorithm_UNSET, false);
}

// The input position of a tap, in spatial positions; -1 in padding and holes.
static int64_t tap_position(const Convolution *c, const int64_t *out_index, const int64_t *tap) {
    int64_t at = 0;
    for (int64_t i = 0; i < c->spatial_rank; i++) {
        const HloWindowDimension *dim = &c->window[i];
        int64_t step = dim->reversal ? c->kernel_dims[i] - 1 - tap[i] : tap[i];
        int64_t position = out_index[i] * dim->stride + step * dim->window_dilation - dim->padding_low;
        if (position < 0 || position % dim->base_dilation != 0) return -1;
        position /= dim->base_dilation;
        if (position >= c->input_dims[i]) return -1;
        at += position * c->input_strides[i];
    }
    return at;
}

// Fills one row of the patch matrix: for every tap, the features of its input position (zeros outside).
static void fill_row(const Convolution *c, int64_t batch, int64_t first_feature, const int64_t *out_index, int64_t *tap,
                     char *row) {
    size_t run = (size_t)c->kernel_features * c->bytes;
    int64_t spatial = 1;
    for (int64_t i = 0; i < c->spatial_rank; i++) {
        spatial *= c->input_dims[i];
        tap[i] = 0;
    }
    for (int64_t t = 0; t < c->taps; t++) {
        int64_t position = tap_position(c, out_index, tap);
        if (position < 0) {
            memset(row, 0, run);
        } else {
            memcpy(row, c->input + ((batch * spatial + position) * c->features + first_feature) * (int64_t)c->bytes,
                   run);
        }
        row += run;
        hlo_eval_next_index(c->kernel_dims, c->spatial_rank, tap);
    }
}

// Multiplies m rows of patches by the kernel, in one product or in the passes of a matrix unit.
static void multiply_block(const Convolution *c, const char *rows, const char *kernel, char *sums, int64_t m, int64_t n,
                           int64_t k) {
    assert(m >= 0 && n >= 0 && k >= 0);
    memset(sums, 0, (size_t)(m * n) * c->bytes);
    if (!c->passes.count) {
        hlo_eval_matrix_multiply(c->accumulator, rows, kernel, sums, m, n, k);
        return;
    }
    hlo_eval_multiply_passes(c->device, &c->passes, (const double *)rows, (const double *)kernel, (double *)sums, m, n,
                             k);
}

// The kernel's columns of one group, as a separate matrix.
static const char *group_kernel(const Convolution *c, int64_t group, int64_t groups) {
    assert(group >= 0 && group < groups);
    if (groups == 1) return c->kernel;
    int64_t n = c->out_features / groups, k = c->taps * c->kernel_features;
    char *kernel = hlo_eval_scratch(c->device, k * n, c->bytes);
    for (int64_t i = 0; i < k; i++) {
        memcpy(kernel + (size_t)(i * n) * c->bytes, c->kernel + (size_t)(i * c->out_features + group * n) * c->bytes,
               (size_t)n * c->bytes);
    }
    return kernel;
}

static int64_t rows_at_a_time(int64_t total, int64_t k) {
    assert(total > 0 && k >= 0);
    int64_t rows = BLOCK_NUMBERS / (k + 1);
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    if (rows > MOST_ROWS) rows = MOST_ROWS;
    return rows < total ? rows : total;
}

// Computes all outputs of one group: output features [group * n, ...) from its input features and batches.
static void convolve_group(const Convolution *c, int64_t group, int64_t groups) {
    assert(group >= 0 && group < groups);
    int64_t n = c->out_features / groups, k = c->taps * c->kernel_features, bytes = hlo_type_bytes(c->type);
    int64_t first_feature = c->feature_groups > 1 ? group * c->kernel_features : 0;
    int64_t first_batch = c->batch_groups > 1 ? group * (c->batch / c->batch_groups) : 0;
    HloEvalDevice *device = c->device;
    const char *kernel = group_kernel(c, group, groups);
    int64_t total = c->out_batch * c->positions, block = rows_at_a_time(total, k);
    char *rows = hlo_eval_scratch(device, block * k, c->bytes), *sums = hlo_eval_scratch(device, block * n, c->bytes);
    int64_t *index = HLO_ARENA_NEW(device->scratch, int64_t, c->spatial_rank);
    int64_t *tap = HLO_EVAL_SCRATCH(device, int64_t, c->spatial_rank);
    for (int64_t start = 0; start < total; start += block) {
        int64_t m = total - start < block ? total - start : block;
        for (int64_t r = 0; r < m; r++) {
            int64_t batch = (start + r) / c->positions;
            fill_row(c, first_batch + batch, first_feature, index, tap, rows + (size_t)(r * k) * c->bytes);
            hlo_eval_next_index(c->out_dims, c->spatial_rank, index);
        }
        multiply_block(c, rows, kernel, sums, m, n, k);
        for (int64_t r = 0; r < m; r++) {
            hlo_eval_from_accumulator(c->accumulator, c->type, sums + (size_t)(r * n) * c->bytes, n,
                                      c->output + ((start + r) * c->out_features + group * n) * bytes);
        }
    }
}

// Transposes the result from [batch][spatial][features] to the order of dimensions in the labels.
static void deliver(const Convolution *c, const HloConvolutionLabels *labels, const HloShape *shape, char *target) {
    int64_t rank = shape->rank, *strides = HLO_EVAL_SCRATCH(c->device, int64_t, rank);
    int64_t *dims = HLO_EVAL_SCRATCH(c->device, int64_t, rank), *order = HLO_EVAL_SCRATCH(c->device, int64_t, rank);
    int64_t *target_strides = HLO_EVAL_SCRATCH(c->device, int64_t, rank),
            *from = HLO_EVAL_SCRATCH(c->device, int64_t, rank);
    spatial_order(labels->output_batch, labels->output_spatial, order, 1);
    order[rank - 1] = labels->output_feature;
    hlo_eval_strides(shape->dims, rank, strides);
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = shape->dims[order[i]];
        target_strides[i] = strides[order[i]];
    }
    hlo_eval_strides(dims, rank, from);
    hlo_eval_copy_strided(target, target_strides, c->output, from, dims, rank, hlo_type_bytes(shape->type));
}

// All three arrays are first transposed to one order (batch, spatial dimensions, feature; the kernel's features last).
// Each group is then a plain nest of loops, and the result is transposed to the order in the labels.
static HloStatus plain_convolution(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                                   HloEvalValue **result) {
    assert(hlo_is(instruction, HLO_OP_CONVOLUTION));
    const HloConvolutionLabels *labels = HLO_ATTRIBUTES(instruction, Convolution)->labels;
    HLO_TRY(hlo_eval_new(device, instruction->shape, result));
    if (hlo_eval_elements(*result) == 0) return HLO_SUCCESS;
    if (hlo_eval_elements(operands[1]) == 0) {  // empty sums; a kernel without features may have 10^15 taps
        memset((*result)->data, 0, (size_t)hlo_shape_bytes(instruction->shape));
        return HLO_SUCCESS;
    }
    Convolution c = {.device = device};
    describe(&c, instruction, operands);
    int64_t rank = instruction->shape->rank, *order = HLO_EVAL_SCRATCH(device, int64_t, rank);
    spatial_order(labels->input_batch, labels->input_spatial, order, 1);
    order[rank - 1] = labels->input_feature;
    c.input = arrange(&c, operands[0], order);
    for (int64_t i = 0; i < c.spatial_rank; i++) order[i] = labels->kernel_spatial.items[i];
    order[rank - 2] = labels->kernel_input_feature;
    order[rank - 1] = labels->kernel_output_feature;
    c.kernel = arrange(&c, operands[1], order);
    c.output = hlo_eval_scratch(device, hlo_eval_elements(*result), (size_t)hlo_type_bytes(c.type));
    int64_t groups = c.feature_groups * c.batch_groups;
    for (int64_t g = 0; g < groups; g++) {
        HloArenaMark mark = hlo_arena_mark(device->scratch);
        convolve_group(&c, g, groups);
        hlo_arena_reset(device->scratch, mark);
    }
    deliver(&c, labels, instruction->shape, (*result)->data);
    return HLO_SUCCESS;
}

HloStatus hlo_eval_convolution(HloEvalDevice *device, const HloInstruction *instruction, HloEvalValue **operands,
                               HloEvalValue **result) {
    if (hlo_product_converts(instruction))
        return hlo_eval_converting_product(device, instruction, operands, plain_convolution, result);
    return plain_convolution(device, instruction, operands, result);
}
