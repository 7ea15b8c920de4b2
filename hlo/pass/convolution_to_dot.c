// SPDX-License-Identifier: Apache-2.0
// Turns convolutions into dots if every spatial dimension is one of
//   rows      the kernel has size 1:                               out[o] = in[o] * kernel[0]
//   terms     the window covers all of the input, once:            out[0] = sum of in[i] * kernel[i]
//   columns   the input has size 1, padded for the whole kernel:   out[o] = in[0] * kernel[o]
//   batch     size=n stride=n-1 lhs_dilate=n, n > 1:               out[o] = in[o] * kernel[o]
// TPU pipelines write dots in these forms, and 1x1 convolutions are the first one.
//
// The four roles of a spatial dimension correspond to the four kinds of indices of a dot. `rows` and `columns` are free
// dimensions of the left and the right side, `terms` are contracted, `batch` is on both sides and in the result. In a
// batch dimension the window of size n moves by n - 1 over an input that is dilated by n: of its n positions at output
// o only number o is on an element, which is element o. The feature dimensions are terms (input feature) and a column
// (output feature), the batch is a row.
//
// Sharding propagation and partitioning see the dimensions of a dot for what they are, but `columns` and `batch` of a
// convolution as windows that reach over all of the array. So before partitioning convolutions with such dimensions are
// rewritten; the others are partitioned as well as dots, and keep the form that the program gave them.
//
//   convolution(f32[8,16,16,32] x, f32[1,1,32,64] k), dim_labels=b01f_01io->b01f
//   ->  dot(x, f32[32,64] reshape(k)), lhs_contracting_dims={3}, rhs_contracting_dims={0}
#include <assert.h>

#include "hlo/pass/support.h"

typedef enum Role { ROLE_NONE, ROLE_ROWS, ROLE_TERMS, ROLE_COLUMNS, ROLE_BATCH } Role;

// `input` and `output` are the sizes of the dimension in the input and in the result. The dilation of a window of size
// 1 and the stride over one output have no effect, so neither is checked.
static Role role_of(const HloWindowDimension *w, int64_t input, int64_t output) {
    bool plain = w->base_dilation == 1 && w->padding_low == 0 && w->padding_high == 0;
    if (plain && w->size == 1 && w->stride == 1) return ROLE_ROWS;
    if (plain && w->window_dilation == 1 && w->size == input && output == 1) return ROLE_TERMS;
    bool whole = w->padding_low == w->size - 1 && w->padding_high == w->size - 1;
    if (input == 1 && whole && w->stride == 1 && w->window_dilation == 1) return ROLE_COLUMNS;
    int64_t n = w->size;
    bool diagonal = n > 1 && n == input && n == output && w->stride == n - 1 && w->base_dilation == n &&
                    w->padding_low == 0 && w->padding_high == 0 && w->window_dilation == 1;
    return diagonal && !w->reversal ? ROLE_BATCH : ROLE_NONE;
}

typedef struct Plan {
    const HloInstruction *convolution;
    const HloConvolutionLabels *labels;
    const HloWindow *window;
    Role *roles;                     // by spatial dimension
    int64_t *lhs_index, *rhs_index;  // numbers of the kept dimensions of input and kernel, -1 if dropped
} Plan;

// Fills in the roles; false if some dimension has none. Grouped convolutions are several dots, not one.
static bool find_roles(Plan *plan, HloArena *scratch) {
    assert(scratch);
    const HloConvolutionAttributes *attributes = HLO_ATTRIBUTES(plan->convolution, Convolution);
    plan->labels = attributes->labels;
    plan->window = attributes->window;
    if (attributes->feature_group_count > 1 || attributes->batch_group_count > 1) return false;
    int64_t spatial = plan->labels->input_spatial.count;
    plan->roles = HLO_ARENA_NEW(scratch, Role, spatial);
    for (int64_t s = 0; s < spatial; s++) {
        int64_t input = plan->convolution->operands[0]->shape->dims[plan->labels->input_spatial.items[s]];
        int64_t output = plan->convolution->shape->dims[plan->labels->output_spatial.items[s]];
        plan->roles[s] = role_of(&plan->window->dims[s], input, output);
        if (plan->roles[s] == ROLE_NONE) return false;
    }
    return true;
}

// Drops dimensions of size 1 that the dot does not need from `operand`; sets `index` to the numbers of the others.
static HloInstruction *drop(const Plan *plan, HloInstruction *operand, HloInts spatial, Role dropped, int64_t *index) {
    const HloShape *shape = operand->shape;
    int64_t *dims = hlo_pass_ints(plan->convolution, shape->rank), rank = 0;
    for (int64_t d = 0; d < shape->rank; d++) {
        index[d] = 0;
        for (int64_t s = 0; s < spatial.count; s++) {
            if (spatial.items[s] == d && plan->roles[s] == dropped) index[d] = -1;
        }
        if (index[d] < 0) continue;
        index[d] = rank;
        dims[rank++] = shape->dims[d];
    }
    return rank == shape->rank ? operand : hlo_pass_reshape(plan->convolution, operand, (HloInts){dims, rank});
}

// Reverses the kernel in the forms that read it backwards: terms with reversal, columns without.
static HloInstruction *turned_kernel(const Plan *plan, HloInstruction *kernel) {
    int64_t *dimensions = hlo_pass_ints(plan->convolution, kernel->shape->rank), count = 0;
    for (int64_t s = 0; s < plan->labels->kernel_spatial.count; s++) {
        bool reversal = plan->window->dims[s].reversal;
        bool turn = (plan->roles[s] == ROLE_TERMS && reversal) || (plan->roles[s] == ROLE_COLUMNS && !reversal);
        if (turn) dimensions[count++] = plan->labels->kernel_spatial.items[s];
    }
    if (count == 0) return kernel;
    HloDimensionsAttributes attributes = {{dimensions, count}};
    return hlo_pass_make(
        plan->convolution,
        &(HloBuildRequest){
            .opcode = HLO_OP_REVERSE, .operands = &kernel, .operand_count = 1, .attributes = &attributes});
}

// The dimension lists of the dot.
static HloDotAttributes dot_dims(const Plan *plan) {
    const HloConvolutionLabels *labels = plan->labels;
    int64_t spatial = labels->input_spatial.count, batch = 0, terms = 0;
    int64_t *all = hlo_pass_ints(plan->convolution, 4 * (spatial + 1));
    int64_t *lhs_batch = all, *rhs_batch = all + spatial + 1, *lhs_terms = rhs_batch + spatial + 1;
    int64_t *rhs_terms = lhs_terms + spatial + 1;
    for (int64_t s = 0; s < spatial; s++) {
        int64_t in = plan->lhs_index[labels->input_spatial.items[s]];
        int64_t kernel = plan->rhs_index[labels->kernel_spatial.items[s]];
        if (plan->roles[s] == ROLE_BATCH) {
            lhs_batch[batch] = in;
            rhs_batch[batch++] = kernel;
        } else if (plan->roles[s] == ROLE_TERMS) {
            lhs_terms[terms] = in;
            rhs_terms[terms++] = kernel;
        }
    }
    lhs_terms[terms] = plan->lhs_index[labels->input_feature];
    rhs_terms[terms++] = plan->rhs_index[labels->kernel_input_feature];
    return (HloDotAttributes){.lhs_batch = {lhs_batch, batch},
                              .rhs_batch = {rhs_batch, batch},
                              .lhs_contracting = {lhs_terms, terms},
                              .rhs_contracting = {rhs_terms, terms},
                              .precision = HLO_ATTRIBUTES(plan->convolution, Convolution)->precision};
}

// Appends the output dimensions of one side's free dimensions, in the order of that side.
static void append_free(const Plan *plan, bool left, int64_t *outputs, int64_t *count) {
    const HloConvolutionLabels *labels = plan->labels;
    HloInts spatial = left ? labels->input_spatial : labels->kernel_spatial;
    int64_t own = left ? labels->input_batch : labels->kernel_output_feature;
    for (int64_t d = 0; d < plan->convolution->operands[!left]->shape->rank; d++) {
        if (d == own) outputs[(*count)++] = left ? labels->output_batch : labels->output_feature;
        for (int64_t s = 0; s < spatial.count; s++) {
            if (spatial.items[s] != d || plan->roles[s] != (left ? ROLE_ROWS : ROLE_COLUMNS)) continue;
            outputs[(*count)++] = labels->output_spatial.items[s];
        }
    }
}

// Transposes the dot's dimensions into the order of the convolution's result; terms become dimensions of size 1.
static HloInstruction *arrange(const Plan *plan, HloInstruction *dot) {
    assert(hlo_is(dot, HLO_OP_DOT));
    const HloInstruction *convolution = plan->convolution;
    int64_t rank = dot->shape->rank, count = 0, at = 0;
    int64_t *outputs = hlo_pass_ints(convolution, convolution->shape->rank + 1);
    for (int64_t s = 0; s < plan->labels->input_spatial.count; s++) {
        if (plan->roles[s] == ROLE_BATCH) outputs[count++] = plan->labels->output_spatial.items[s];
    }
    append_free(plan, true, outputs, &count);
    append_free(plan, false, outputs, &count);
    HLO_BUG_IF(count != rank);
    int64_t *permutation = hlo_pass_ints(convolution, rank);
    for (int64_t o = 0; o < convolution->shape->rank; o++) {
        for (int64_t d = 0; d < rank; d++) {
            if (outputs[d] == o) permutation[at++] = d;
        }
    }
    HloInstruction *ordered = hlo_pass_transpose(convolution, dot, (HloInts){permutation, rank});
    return hlo_pass_reshape(convolution, ordered, hlo_shape_dims(convolution->shape));
}

static bool has_role(const Plan *plan, Role role) {
    for (int64_t s = 0; s < plan->labels->input_spatial.count; s++)
        if (plan->roles[s] == role) return true;
    return false;
}

// Drops dimensions of size 1 on either side, multiplies, and moves the dimensions of the product to their positions in
// the convolution. Everything is checked before anything is created.
static bool rewrite(HloInstruction *convolution, const HloPassEnv *env) {
    HloArena *scratch = env->scratch;
    if (convolution->opcode != HLO_OP_CONVOLUTION || !hlo_pass_may_replace(convolution)) return false;
    if (hlo_shape_is_dynamic(convolution->shape) || hlo_shape_elements(convolution->shape) == 0) return false;
    Plan plan = {.convolution = convolution};
    if (!find_roles(&plan, scratch)) return false;
    if (env->before_partitioning && !has_role(&plan, ROLE_COLUMNS) && !has_role(&plan, ROLE_BATCH)) return false;
    plan.lhs_index = HLO_ARENA_NEW(scratch, int64_t, convolution->operands[0]->shape->rank);
    plan.rhs_index = HLO_ARENA_NEW(scratch, int64_t, convolution->operands[1]->shape->rank);
    HloInstruction *kernel = turned_kernel(&plan, convolution->operands[1]);
    HloInstruction *operands[] = {
        drop(&plan, convolution->operands[0], plan.labels->input_spatial, ROLE_COLUMNS, plan.lhs_index),
        drop(&plan, kernel, plan.labels->kernel_spatial, ROLE_ROWS, plan.rhs_index)};
    HloDotAttributes attributes = dot_dims(&plan);
    HloInstruction *dot = hlo_pass_make(convolution, &(HloBuildRequest){.opcode = HLO_OP_DOT,
                                                                        .operands = operands,
                                                                        .operand_count = 2,
                                                                        .attributes = &attributes,
                                                                        .type = convolution->shape->type});
    return hlo_pass_replace(convolution, arrange(&plan, dot));
}

HloStatus hlo_pass_convolution_to_dot(HloModule *module, const HloPassEnv *env, bool *changed) {
    return hlo_pass_each(module, env, rewrite, changed);
}
