// SPDX-License-Identifier: Apache-2.0
// Builder: linear algebra, reductions, windows and order. Reductions create the computation that combines two elements;
// windows are completed (completed()) from the few numbers that the caller gives.
#include <assert.h>
#include <math.h>

#include "hlo/ir/build/internal.h"

enum { MAXIMUM_ARRAYS = 64 };

// Builds an operation with an element type chosen by the caller; HLO_INVALID leaves it to inference.
static HloInstruction *typed(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                             const void *attributes, HloType type) {
    return hlo_build(
        builder,
        &(HloBuildRequest){
            .opcode = opcode, .operands = operands, .operand_count = count, .attributes = attributes, .type = type});
}

HloInstruction *hlo_build_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                              const HloDotAttributes *attributes, HloType type) {
    HloInstruction *operands[] = {lhs, rhs};
    return typed(builder, HLO_OP_DOT, operands, 2, attributes, type);
}

HloInstruction *hlo_build_matmul(HloBuilder *builder, HloInstruction *a, HloInstruction *b) {
    if (!a || !b) return NULL;
    int64_t rank_a = a->shape->rank, rank_b = b->shape->rank;
    int64_t batch[HLO_MAXIMUM_RANK], count = 0;
    if (rank_a < 1 || rank_b < 1 || rank_a > HLO_MAXIMUM_RANK) {
        hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "matmul: arrays of rank %lld and %lld",
                                            (long long)rank_a, (long long)rank_b));
        return NULL;
    }
    if (rank_a == rank_b) {
        for (; count < rank_a - 2; count++) batch[count] = count;
    }
    HloDotAttributes attributes = {.lhs_batch = {batch, count},
                                   .rhs_batch = {batch, count},
                                   .lhs_contracting = HLO_DIMS(rank_a - 1),
                                   .rhs_contracting = HLO_DIMS(rank_b == 1 ? 0 : rank_b - 2)};
    return hlo_build_dot(builder, a, b, &attributes, HLO_INVALID);
}

HloInstruction *hlo_build_ragged_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                     HloInstruction *group_sizes, const HloDotAttributes *attributes, HloType type) {
    HloInstruction *operands[] = {lhs, rhs, group_sizes};
    return typed(builder, HLO_OP_RAGGED_DOT, operands, 3, attributes, type);
}

HloInstruction *hlo_build_scaled_dot(HloBuilder *builder, HloInstruction *lhs, HloInstruction *rhs,
                                     HloInstruction *lhs_scale, HloInstruction *rhs_scale,
                                     const HloDotAttributes *attributes, HloType type) {
    HloInstruction *operands[] = {lhs, rhs, lhs_scale, rhs_scale};
    return typed(builder, HLO_OP_SCALED_DOT, operands, 4, attributes, type);
}

// The window with its zeros filled in: sizes from the kernel's dimensions, if there is one (NULL: kept), strides and
// dilations 1. A convolution may omit the window, which then has the labels' rank; reductions have neither kernel nor
// labels.
static HloWindow completed(const HloWindow *window, HloWindowDimension *dims, const HloShape *kernel,
                           const HloConvolutionLabels *labels) {
    assert(dims);
    int64_t count = window ? window->count : labels ? labels->kernel_spatial.count : 0;
    if (count > HLO_MAXIMUM_RANK) return window ? *window : (HloWindow){NULL, 0};
    for (int64_t i = 0; i < count; i++) {
        dims[i] = window ? window->dims[i] : (HloWindowDimension){0};
        bool known = kernel && labels && i < labels->kernel_spatial.count && labels->kernel_spatial.items[i] >= 0 &&
                     labels->kernel_spatial.items[i] < kernel->rank;
        if (dims[i].size == 0 && known) dims[i].size = kernel->dims[labels->kernel_spatial.items[i]];
        if (dims[i].stride == 0) dims[i].stride = 1;
        if (dims[i].base_dilation == 0) dims[i].base_dilation = 1;
        if (dims[i].window_dilation == 0) dims[i].window_dilation = 1;
    }
    return (HloWindow){dims, count};
}

HloInstruction *hlo_build_convolution(HloBuilder *builder, HloInstruction *input, HloInstruction *kernel,
                                      const HloConvolutionAttributes *attributes, HloType type) {
    HloWindowDimension dims[HLO_MAXIMUM_RANK];
    HloConvolutionAttributes complete = *attributes;
    HloWindow window = completed(attributes->window, dims, kernel ? kernel->shape : NULL, attributes->labels);
    complete.window = &window;
    HloInstruction *operands[] = {input, kernel};
    return typed(builder, HLO_OP_CONVOLUTION, operands, 2, &complete, type);
}

HloInstruction *hlo_build_cholesky(HloBuilder *builder, HloInstruction *a, bool lower) {
    return hlo_build_1(builder, HLO_OP_CHOLESKY, a, &(HloCholeskyAttributes){lower});
}

HloInstruction *hlo_build_triangular_solve(HloBuilder *builder, HloInstruction *a, HloInstruction *b,
                                           const HloTriangularSolveAttributes *attributes) {
    return hlo_build_2(builder, HLO_OP_TRIANGULAR_SOLVE, a, b, attributes);
}

HloInstruction *hlo_build_fft(HloBuilder *builder, HloInstruction *x, int32_t type, HloInts length) {
    return hlo_build_1(builder, HLO_OP_FFT, x, &(HloFftAttributes){type, length});
}

HloInstruction *hlo_build_batch_norm_training(HloBuilder *builder, HloInstruction *x, HloInstruction *scale,
                                              HloInstruction *offset, float epsilon, int64_t feature) {
    return hlo_build_3(builder, HLO_OP_BATCH_NORM_TRAINING, x, scale, offset,
                       &(HloBatchNormAttributes){epsilon, feature});
}

HloInstruction *hlo_build_batch_norm_inference(HloBuilder *builder, HloInstruction *const operands[5], float epsilon,
                                               int64_t feature) {
    return hlo_build_n(builder, HLO_OP_BATCH_NORM_INFERENCE, operands, 5, &(HloBatchNormAttributes){epsilon, feature});
}

HloInstruction *hlo_build_batch_norm_grad(HloBuilder *builder, HloInstruction *const operands[5], float epsilon,
                                          int64_t feature) {
    return hlo_build_n(builder, HLO_OP_BATCH_NORM_GRAD, operands, 5, &(HloBatchNormAttributes){epsilon, feature});
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions

typedef struct MakeCombiner {
    HloBuilder *builder;
    HloOpcode opcode;
    HloType type;
    HloComputation *result;
} MakeCombiner;

// Reducers of one kind are shared: a training step has thousands of sums, and passes recognise a reducer by its
// computation.
static HloStatus combiner_body(void *argument) {
    MakeCombiner *make = argument;
    HloModule *module = make->builder->module;
    const HloOpInfo *info = hlo_op_info(make->opcode);
    HLO_FAIL_IF(info->arity != 2 || info->family != HLO_FAMILY_None || !hlo_op_is(make->opcode, HLO_OP_IS_ELEMENTWISE),
                HLO_INVALID_ARGUMENT, "%s does not combine two values", info->text);
    make->result = hlo_computation_find_binary(module, make->opcode, make->type);
    if (make->result) return HLO_SUCCESS;
    const char *name = hlo_arena_format(module->arena, "%s_%s", info->text, hlo_type_text(make->type));
    make->result =
        hlo_computation_new_binary(module, name, make->opcode, hlo_shape_scalar(module->arena, make->type), NULL);
    return HLO_SUCCESS;
}

HloComputation *hlo_build_combiner(HloBuilder *builder, HloOpcode opcode, HloType type) {
    MakeCombiner make = {builder, opcode, type, NULL};
    hlo_builder_run(builder, combiner_body, &make);
    return make.result;
}

// The least or greatest value of a type: -inf and inf for floats that have them.
static HloInstruction *limit(HloBuilder *builder, HloType type, bool least) {
    HloTypeKind kind = hlo_type_kind(type);
    int bits = hlo_type_info(type)->bits;
    if (kind == HLO_KIND_PRED) return hlo_build_scalar_int64(builder, type, !least);
    if (kind == HLO_KIND_SIGNED) {
        int64_t lowest = bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
        return hlo_build_scalar_int64(builder, type, least ? lowest : -(lowest + 1));
    }
    if (kind == HLO_KIND_UNSIGNED) return hlo_build_scalar_int64(builder, type, least ? 0 : -1);
    return hlo_build_scalar(builder, type, hlo_float_limit(type, !least));
}

HloInstruction *hlo_build_identity_value(HloBuilder *builder, HloOpcode opcode, HloType type) {
    switch (opcode) {
        case HLO_OP_ADD:
        case HLO_OP_OR:
        case HLO_OP_XOR: return hlo_build_scalar(builder, type, 0);
        case HLO_OP_MULTIPLY: return hlo_build_scalar(builder, type, 1);
        case HLO_OP_AND: return hlo_build_scalar_int64(builder, type, type == HLO_PRED ? 1 : -1);
        case HLO_OP_MAXIMUM: return limit(builder, type, true);
        case HLO_OP_MINIMUM: return limit(builder, type, false);
        default:
            hlo_builder_fail(builder, hlo_error(HLO_INVALID_ARGUMENT, "%s has no identity", hlo_op_text(opcode)));
            return NULL;
    }
}

// Builds a reduction: the operands are the arrays followed by the initial values.
static HloInstruction *reduction(HloBuilder *builder, HloOpcode opcode, HloInstruction *const *arrays,
                                 HloInstruction *const *initial, int64_t count, const void *attributes,
                                 HloComputation *combiner) {
    assert(count >= 0);
    HloInstruction *operands[2 * MAXIMUM_ARRAYS];
    if (count > MAXIMUM_ARRAYS) {
        hlo_builder_fail(builder,
                         hlo_error(HLO_INVALID_ARGUMENT, "%s of %lld arrays", hlo_op_text(opcode), (long long)count));
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        operands[i] = arrays[i];
        operands[count + i] = initial[i];
    }
    return hlo_build_calling(builder, opcode, operands, 2 * count, attributes, combiner);
}

HloInstruction *hlo_build_reduce(HloBuilder *builder, HloInstruction *const *arrays, HloInstruction *const *initial,
                                 int64_t count, HloInts dimensions, HloComputation *combiner) {
    return reduction(builder, HLO_OP_REDUCE, arrays, initial, count, &(HloDimensionsAttributes){dimensions}, combiner);
}

HloInstruction *hlo_build_reduce_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x, HloInts dimensions) {
    if (!x) return NULL;
    HloInstruction *initial = hlo_build_identity_value(builder, opcode, x->shape->type);
    HloComputation *combiner = hlo_build_combiner(builder, opcode, x->shape->type);
    return hlo_build_reduce(builder, &x, &initial, 1, dimensions, combiner);
}

HloInstruction *hlo_build_reduce_window(HloBuilder *builder, HloInstruction *const *arrays,
                                        HloInstruction *const *initial, int64_t count, const HloWindow *window,
                                        HloComputation *combiner) {
    HloWindowDimension dims[HLO_MAXIMUM_RANK];
    HloWindow complete = completed(window, dims, NULL, NULL);
    return reduction(builder, HLO_OP_REDUCE_WINDOW, arrays, initial, count, &(HloWindowAttributes){&complete},
                     combiner);
}

HloInstruction *hlo_build_reduce_window_op(HloBuilder *builder, HloOpcode opcode, HloInstruction *x,
                                           const HloWindow *window) {
    if (!x) return NULL;
    HloInstruction *initial = hlo_build_identity_value(builder, opcode, x->shape->type);
    HloComputation *combiner = hlo_build_combiner(builder, opcode, x->shape->type);
    return hlo_build_reduce_window(builder, &x, &initial, 1, window, combiner);
}

HloInstruction *hlo_build_select_and_scatter(HloBuilder *builder, HloInstruction *x, HloInstruction *source,
                                             HloInstruction *initial, const HloWindow *window, HloComputation *select,
                                             HloComputation *scatter) {
    assert(select && scatter);
    HloWindowDimension dims[HLO_MAXIMUM_RANK];
    HloWindow complete = completed(window, dims, NULL, NULL);
    HloInstruction *operands[] = {x, source, initial};
    HloComputation *called[] = {select, scatter};
    return hlo_build(builder, &(HloBuildRequest){.opcode = HLO_OP_SELECT_AND_SCATTER,
                                                 .operands = operands,
                                                 .operand_count = 3,
                                                 .attributes = &(HloWindowAttributes){&complete},
                                                 .called = called,
                                                 .called_count = 2});
}

HloInstruction *hlo_build_map(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                              HloComputation *computation) {
    int64_t all[HLO_MAXIMUM_RANK], rank = count > 0 && operands[0] ? operands[0]->shape->rank : 0;
    assert(rank <= HLO_MAXIMUM_RANK); /* no array has more */
    for (int64_t i = 0; i < rank; i++) all[i] = i;
    return hlo_build_calling(builder, HLO_OP_MAP, operands, count, &(HloDimensionsAttributes){{all, rank}},
                             computation);
}

HloInstruction *hlo_build_sort(HloBuilder *builder, HloInstruction *const *operands, int64_t count, int64_t dimension,
                               bool stable, HloComputation *comparator) {
    HloSortAttributes attributes = {HLO_DIMS(dimension), stable};
    return hlo_build_calling(builder, HLO_OP_SORT, operands, count, &attributes, comparator);
}

HloInstruction *hlo_build_topk(HloBuilder *builder, HloInstruction *x, int64_t k, bool largest) {
    return hlo_build_1(builder, HLO_OP_TOPK, x, &(HloTopKAttributes){k, largest});
}

HloInstruction *hlo_build_scan(HloBuilder *builder, HloInstruction *const *operands, int64_t count,
                               const HloScanAttributes *attributes, HloComputation *computation) {
    return hlo_build_calling(builder, HLO_OP_SCAN, operands, count, attributes, computation);
}
