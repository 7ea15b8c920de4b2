// SPDX-License-Identifier: Apache-2.0
// Shape inference of ops with windows: convolution, reduce-window, select-and-scatter. Reducers: hlo/ir/infer/reduce.c.
//
// The arithmetic is XLA's: a base of n elements dilated by d takes (n - 1) d + 1 positions, padding adds or removes
// some at both ends, and a window that takes e positions fits (positions - e) / stride + 1 times, or not at all.
// hlo_infer_window_output() computes that for one dimension, and bounds every number, so that evaluators and backends
// may add and multiply positions without checking for overflow. An unbounded size stays unbounded throughout.
#include <assert.h>

#include "hlo/ir/infer/reducer.h"
#include "hlo/ir/infer/support.h"

// A missing attribute is zero, and means one group.
static int64_t group_count(int64_t written) {
    return written == 0 ? 1 : written;
}

// Checks that every dimension of an array of rank `rank` has exactly one role.
static HloStatus check_roles(HloArena *arena, int64_t first, int64_t second, HloInts spatial, int64_t rank,
                             const char *what) {
    HLO_REFUSE_IF(spatial.count + 2 != rank, "dim_labels describe %lld dimensions of the %s, but it has %lld",
                  (long long)(spatial.count + 2), what, (long long)rank);
    int64_t *all = HLO_ARENA_NEW(arena, int64_t, rank);
    all[0] = first;
    all[1] = second;
    for (int64_t i = 0; i < spatial.count; i++) all[i + 2] = spatial.items[i];
    return hlo_infer_check_dimensions(arena, (HloInts){all, rank}, rank, what);
}

// Checks that input, kernel and output each name every dimension once; '?' is allowed in text, but has no meaning in
// any op.
static HloStatus check_labels(const HloInferRequest *request, const HloConvolutionLabels *labels) {
    const HloShape *input = request->operands[0], *kernel = request->operands[1];
    HLO_REFUSE_IF(labels->input_unknown.count || labels->kernel_unknown.count || labels->output_unknown.count,
                  "dimensions without a role ('?') are not supported");
    HLO_TRY(check_roles(request->arena, labels->input_batch, labels->input_feature, labels->input_spatial, input->rank,
                        "input"));
    HLO_TRY(check_roles(request->arena, labels->kernel_input_feature, labels->kernel_output_feature,
                        labels->kernel_spatial, kernel->rank, "kernel"));
    HLO_TRY(check_roles(request->arena, labels->output_batch, labels->output_feature, labels->output_spatial,
                        input->rank, "output"));
    HLO_REFUSE_IF(labels->kernel_spatial.count != labels->input_spatial.count,
                  "%lld spatial dimensions of the kernel, %lld of the input", (long long)labels->kernel_spatial.count,
                  (long long)labels->input_spatial.count);
    return HLO_SUCCESS;
}

// Checks that feature and batch groups divide the dimensions that they split.
static HloStatus check_groups(const HloInferRequest *request) {
    const HloConvolutionAttributes *conv = HLO_INFER_ATTRIBUTES(request, Convolution);
    const HloConvolutionLabels *labels = conv->labels;
    int64_t feature_groups = group_count(conv->feature_group_count),
            batch_groups = group_count(conv->batch_group_count);
    int64_t features = request->operands[0]->dims[labels->input_feature];
    int64_t batch = request->operands[0]->dims[labels->input_batch];
    int64_t kernel_in = request->operands[1]->dims[labels->kernel_input_feature];
    int64_t kernel_out = request->operands[1]->dims[labels->kernel_output_feature];
    HLO_REFUSE_IF(feature_groups < 1 || batch_groups < 1, "%lld feature groups and %lld batch groups",
                  (long long)feature_groups, (long long)batch_groups);
    HLO_REFUSE_IF(feature_groups > 1 && batch_groups > 1, "both feature groups (%lld) and batch groups (%lld)",
                  (long long)feature_groups, (long long)batch_groups);
    HLO_REFUSE_IF(features != HLO_UNBOUNDED && kernel_in != HLO_UNBOUNDED &&
                      (features % feature_groups != 0 || features / feature_groups != kernel_in),
                  "%lld input features in %lld groups do not fit kernels of %lld", (long long)features,
                  (long long)feature_groups, (long long)kernel_in);
    HLO_REFUSE_IF(kernel_out != HLO_UNBOUNDED && (kernel_out % feature_groups != 0 || kernel_out % batch_groups != 0),
                  "%lld output features do not divide into %lld groups", (long long)kernel_out,
                  (long long)(feature_groups > 1 ? feature_groups : batch_groups));
    HLO_REFUSE_IF(batch != HLO_UNBOUNDED && batch % batch_groups != 0, "a batch of %lld in %lld groups",
                  (long long)batch, (long long)batch_groups);
    return HLO_SUCCESS;
}

// The window repeats the kernel's sizes; the two must agree.
static HloStatus convolution_spatial(const HloInferRequest *request, HloDims *dims) {
    const HloConvolutionAttributes *conv = HLO_INFER_ATTRIBUTES(request, Convolution);
    const HloConvolutionLabels *labels = conv->labels;
    int64_t windows = conv->window ? conv->window->count : 0;
    HLO_REFUSE_IF(windows != labels->input_spatial.count, "a window of %lld dimensions for %lld spatial ones",
                  (long long)windows, (long long)labels->input_spatial.count);
    for (int64_t i = 0; i < windows; i++) {
        const HloWindowDimension *window = &conv->window->dims[i];
        int64_t kernel = request->operands[1]->dims[labels->kernel_spatial.items[i]];
        HLO_REFUSE_IF(!hlo_sizes_agree(window->size, kernel),
                      "window size %lld in spatial dimension %lld, where the kernel has %lld", (long long)window->size,
                      (long long)i, (long long)kernel);
        int64_t from = labels->input_spatial.items[i], to = labels->output_spatial.items[i];
        hlo_dims_take(dims, to, request->operands[0], from);
        HLO_TRY(hlo_infer_window_output(window, i, request->operands[0]->dims[from], &dims->sizes[to]));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_infer_convolution(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_CONVOLUTION);
    assert(request->operand_count == 2);
    const HloConvolutionAttributes *conv = HLO_INFER_ATTRIBUTES(request, Convolution);
    HLO_TRY(hlo_infer_need_arrays(request));
    HLO_REFUSE_IF(!conv->labels, "no dim_labels");
    const HloShape *input = request->operands[0], *kernel = request->operands[1];
    HLO_TRY(check_labels(request, conv->labels));
    HLO_TRY(check_groups(request));
    HloDims dims = hlo_dims_new(request->arena, input->rank);
    HLO_TRY(convolution_spatial(request, &dims));
    int64_t batch = conv->labels->output_batch;
    hlo_dims_take(&dims, batch, input, conv->labels->input_batch);
    if (dims.sizes[batch] != HLO_UNBOUNDED) dims.sizes[batch] /= group_count(conv->batch_group_count);
    hlo_dims_take(&dims, conv->labels->output_feature, kernel, conv->labels->kernel_output_feature);
    return hlo_dims_shape(request->arena, hlo_infer_product_type(request), &dims, result);
}

// Computes the dimensions that result from sliding a window over `base`.
static HloStatus windowed_dims(const HloInferRequest *request, const HloShape *base, HloDims *dims) {
    const HloWindow *window = HLO_INFER_ATTRIBUTES(request, Window)->window;
    int64_t count = window ? window->count : 0;
    HLO_REFUSE_IF(count != base->rank, "a window of %lld dimensions over %s", (long long)count,
                  hlo_shape_message(request->arena, base));
    *dims = hlo_dims_of(request->arena, base);
    for (int64_t i = 0; i < count; i++) {
        HLO_TRY(hlo_infer_window_output(&window->dims[i], i, base->dims[i], &dims->sizes[i]));
    }
    return HLO_SUCCESS;
}

HloStatus hlo_infer_reduce_window(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_REDUCE_WINDOW);
    HloDims dims;
    HLO_TRY(hlo_infer_reduction_operands(request));
    HLO_TRY(windowed_dims(request, request->operands[0], &dims));
    // Unlike those of a reduce, which come from the computation, the types are those of the initial values.
    int64_t count = request->operand_count / 2;
    const HloShape **elements = HLO_ARENA_NEW(request->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++)
        HLO_TRY(hlo_dims_shape(request->arena, request->operands[count + i]->type, &dims, &elements[i]));
    bool tuple = hlo_shape_is_tuple(request->called[0]->root->shape);
    *result = tuple ? hlo_shape_tuple(request->arena, elements, count) : elements[0];
    return HLO_SUCCESS;
}

// Operands: the array, one source element per window, the initial value. `select` compares two elements of a window,
// `scatter` combines the elements that are added at one position; the result has the array's shape.
HloStatus hlo_infer_select_and_scatter(const HloInferRequest *request, const HloShape **result) {
    assert(request->opcode == HLO_OP_SELECT_AND_SCATTER);
    assert(request->operand_count == 3);
    HLO_TRY(hlo_infer_need_arrays(request));
    HLO_TRY(hlo_infer_need_called(request, 2));
    const HloShape *operand = request->operands[0], *source = request->operands[1], *initial = request->operands[2];
    HLO_REFUSE_IF(initial->rank != 0, "the initial value must be a scalar, not %s",
                  hlo_shape_message(request->arena, initial));
    HLO_REFUSE_IF(!hlo_types_mix(source->type, operand->type) || !hlo_types_mix(initial->type, operand->type),
                  "operands of element types %s, %s and %s", hlo_type_text(operand->type), hlo_type_text(source->type),
                  hlo_type_text(initial->type));
    const HloShape *scalar = hlo_shape_scalar(request->arena, operand->type);
    const HloShape *two[2] = {scalar, scalar};
    HLO_TRY(hlo_infer_check_parameters(request, 0, two, 2));
    HLO_TRY(hlo_infer_check_parameters(request, 1, two, 2));
    const HloShape *chosen = request->called[0]->root->shape, *sum = request->called[1]->root->shape;
    HLO_REFUSE_IF(!hlo_shape_is_scalar(chosen) || chosen->type != HLO_PRED, "select must return pred[], not %s",
                  hlo_shape_message(request->arena, chosen));
    HLO_REFUSE_IF(!hlo_shapes_mix(sum, scalar), "scatter must return %s, not %s",
                  hlo_shape_message(request->arena, scalar), hlo_shape_message(request->arena, sum));
    HloDims dims;
    HLO_TRY(windowed_dims(request, operand, &dims));
    HLO_TRY(hlo_infer_merge_dims(request->arena, &dims, source, 1));
    *result = hlo_shape_without_layout(request->arena, operand);
    return HLO_SUCCESS;
}
