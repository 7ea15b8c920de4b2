// SPDX-License-Identifier: Apache-2.0
// Convolution, reduce-window and select-and-scatter: windows along sharded dimensions ask neighbours for their borders.
#include <string.h>

#include "spmd_partitioner/emit.h"
#include "spmd_partitioner/rules/cumulative.h"

static bool is_trivial(const HloWindowDimension *window) {
    return window->size == 1 && window->stride == 1 && window->padding_low == 0 && window->padding_high == 0 &&
           window->base_dilation == 1;
}

// A dilated base has no affine windows: such a dimension is needed whole.
static SpmdFactorKind window_kind(const HloWindowDimension *window) {
    if (is_trivial(window)) return SPMD_PASS;
    return window->base_dilation == 1 ? SPMD_PERMUTE : SPMD_REPLICATE;
}

// The part of one dimension that the local windows need; `size` of them are computed here.
static HloInstruction *take_window(SpmdPartitioner *partitioner, SpmdLocal local, int64_t dim,
                                   const HloWindowDimension *window, int64_t size, HloInstruction *fill,
                                   const SpmdReason *reason) {
    int64_t reach = (size - 1) * window->stride + (window->size - 1) * window->window_dilation + 1;
    return spmd_emit_window(partitioner, local, dim, window->stride * size, -window->padding_low, reach, fill, reason);
}

// ---- reduce-window ----

static void reduce_window_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    int32_t inputs = op->operand_count / 2;
    const HloShape *result = rule->tensors[spmd_rule_result(rule, 0)].shape;
    for (int32_t d = 0; d < result->rank; d++) {
        int32_t factor = spmd_rule_factor(rule, window_kind(&window->dims[d]), result->dims[d]);
        for (int32_t i = 0; i < inputs; i++) {
            spmd_rule_map(rule, i, d, factor);
            spmd_rule_map(rule, spmd_rule_result(rule, i), d, factor);
        }
    }
}

// What may stand outside of the array without changing a window's result: the op's identity where it is known, else the
// init value, which programs that are split must choose so.
static HloInstruction *neutral(SpmdPartitioner *partitioner, const HloInstruction *op, HloInstruction *init) {
    HloOpcode opcode = op->operand_count == 2 ? hlo_computation_binary_opcode(op->called[0]) : HLO_OPCODE_COUNT;
    switch (opcode) {
        case HLO_OP_ADD:
        case HLO_OP_MULTIPLY:
        case HLO_OP_MINIMUM:
        case HLO_OP_MAXIMUM:
        case HLO_OP_AND:
        case HLO_OP_OR: return spmd_emit_identity(partitioner, opcode, init->shape->type);
        default: return init;
    }
}

// A copy of a window in which the dimensions of `taken` are not padded: their windows came with the padding in them.
static const HloWindow *without_padding(HloArena *arena, const HloWindow *window, const bool *taken) {
    HloWindowDimension *dims = HLO_ARENA_NEW(arena, HloWindowDimension, window->count);
    memcpy(dims, window->dims, (size_t)window->count * sizeof(*dims));
    for (int64_t d = 0; d < window->count; d++) {
        if (taken[d]) dims[d].padding_low = dims[d].padding_high = 0;
    }
    HloWindow *copy = HLO_ARENA_NEW(arena, HloWindow, 1);
    *copy = (HloWindow){dims, window->count};
    return copy;
}

static HloStatus reduce_window_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    HLO_FAIL_IF(!rule, HLO_UNIMPLEMENTED, "reduce-window of this form cannot be partitioned");
    int32_t inputs = op->operand_count / 2;
    SpmdAxes *factors = spmd_choose(partitioner, rule, true);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    if (spmd_is_cumulative(op, sharding)) return spmd_partition_cumulative(partitioner, op, rule, factors, sharding);
    const HloShape *global = rule->tensors[spmd_rule_result(rule, 0)].shape;
    const HloShape *result = spmd_local_shape(partitioner->arena, partitioner->mesh, global, sharding);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    const HloShape **shapes = HLO_ARENA_NEW(partitioner->module->arena, const HloShape *, inputs);
    bool *taken = HLO_ARENA_NEW(partitioner->arena, bool, window->count);
    SpmdReason reason = {.op = op, .what = "neighbours' elements"};
    for (int32_t i = 0; i < inputs; i++) {
        operands[inputs + i] = spmd_operand_whole(partitioner, inputs + i);
        SpmdLocal local = spmd_factor_operand(partitioner, rule, factors, i);
        HloInstruction *fill = neutral(partitioner, op, operands[inputs + i]);
        for (int32_t d = 0; d < result->rank; d++) {
            taken[d] = !is_trivial(&window->dims[d]) && sharding->dims[d].count;
            if (!taken[d]) continue;
            local.hlo = take_window(partitioner, local, d, &window->dims[d], result->dims[d], fill, &reason);
        }
        operands[i] = local.hlo;
        const HloShape *leaf = rule->tensors[spmd_rule_result(rule, i)].shape;
        shapes[i] = spmd_local_shape(partitioner->module->arena, partitioner->mesh, leaf, sharding);
    }
    const HloShape *shape =
        hlo_shape_is_tuple(op->shape) ? hlo_shape_tuple(partitioner->module->arena, shapes, inputs) : shapes[0];
    HloInstruction *made = spmd_clone(partitioner, op, shape, operands, op->operand_count);
    HloWindowAttributes attributes = {without_padding(partitioner->module->arena, window, taken)};
    hlo_instruction_set_attributes(made, &attributes);
    HloInstruction **leaves = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, inputs);
    spmd_emit_leaves(partitioner, made, leaves);
    for (int32_t i = 0; i < inputs; i++) spmd_define(partitioner, i, leaves[i], sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_reduce_window = {
    .name = "reduce-window", .rule = reduce_window_rule, .partition = reduce_window_partition};

// ---- select-and-scatter

// Windows inside of the array, and sums: then sources that do not exist add nothing, and nothing outside is selected.
static bool may_exchange(const HloInstruction *op, const HloWindowDimension *window) {
    return window->padding_low == 0 && window->padding_high == 0 && window->base_dilation == 1 &&
           window->window_dilation == 1 && hlo_computation_binary_opcode(op->called[1]) == HLO_OP_ADD;
}

static void select_and_scatter_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (!is_trivial(&window->dims[d]) && !may_exchange(op, &window->dims[d])) continue;
        SpmdFactorKind kind = is_trivial(&window->dims[d]) ? SPMD_PASS : SPMD_PERMUTE;
        int32_t factor = spmd_rule_factor(rule, kind, op->shape->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, 1, d, factor);
        spmd_rule_map(rule, spmd_rule_result(rule, 0), d, factor);
    }
}

// What one device needs along a cut dimension to make its `shard` of the result: all windows that touch it.
typedef struct ScatterHalo {
    int64_t first;  // number of the first window, counted from that which starts with the shard; 0 or less
    int64_t count;  // of windows
    int64_t start;  // of the shard in the elements that are needed
    int64_t size;   // of those elements
} ScatterHalo;

static ScatterHalo scatter_halo(const HloWindowDimension *window, int64_t shard) {
    int64_t before = (window->size - 1) / window->stride;
    ScatterHalo halo = {.first = -before, .count = shard / window->stride + before, .start = before * window->stride};
    halo.size = (halo.count - 1) * window->stride + window->size;
    if (halo.size < halo.start + shard) halo.size = halo.start + shard;
    return halo;
}

// Factors whose cut windowed dimensions begin every shard with a window.
static SpmdAxes *scatter_factors(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    SpmdAxes *factors = spmd_choose(partitioner, rule, true);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        SpmdAxes axes = spmd_rule_dim_axes(rule, partitioner->mesh, 0, d, factors);
        int64_t shard = spmd_shard_size(op->shape->dims[d], spmd_axes_product(partitioner->mesh, &axes));
        if (axes.count && shard % window->dims[d].stride) return spmd_choose(partitioner, rule, false);
    }
    return factors;
}

static HloStatus select_and_scatter_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloWindow *window = HLO_ATTRIBUTES(op, Window)->window;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    SpmdAxes *factors = scatter_factors(partitioner, op, rule);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    const HloShape *result = spmd_local_shape(partitioner->arena, partitioner->mesh, op->shape, sharding);
    SpmdLocal array = spmd_factor_operand(partitioner, rule, factors, 0);
    SpmdLocal source = spmd_factor_operand(partitioner, rule, factors, 1);
    SpmdReason reason = {.op = op, .what = "neighbours' elements"};
    HloInstruction *zero = spmd_emit_scalar(partitioner, source.hlo->shape->type, 0);
    for (int32_t d = 0; d < result->rank; d++) {
        if (is_trivial(&window->dims[d]) || !sharding->dims[d].count) continue;
        int64_t stride = window->dims[d].stride, shard = result->dims[d];
        ScatterHalo halo = scatter_halo(&window->dims[d], shard);
        array.hlo = spmd_emit_window(partitioner, array, d, shard, -halo.start, halo.size, NULL, &reason);
        source.hlo = spmd_emit_window(partitioner, source, d, shard / stride, halo.first, halo.count, zero, &reason);
    }
    HloInstruction *operands[3] = {array.hlo, source.hlo, spmd_operand_whole(partitioner, 2)};
    HloInstruction *made = spmd_clone(partitioner, op, array.hlo->shape, operands, 3);
    for (int32_t d = 0; d < result->rank; d++) {
        if (is_trivial(&window->dims[d]) || !sharding->dims[d].count) continue;
        ScatterHalo halo = scatter_halo(&window->dims[d], result->dims[d]);
        made = spmd_emit_slice(partitioner, made, d, halo.start, halo.start + result->dims[d], 1);
    }
    spmd_define(partitioner, 0, made, sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_select_and_scatter = {
    .name = "select-and-scatter", .rule = select_and_scatter_rule, .partition = select_and_scatter_partition};

// ---- convolution ----

static int64_t group_count(int64_t written) {
    return written > 1 ? written : 1;
}

static void convolution_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const HloShape *input = op->operands[0]->shape, *kernel = op->operands[1]->shape;
    int64_t batch_groups = group_count(convolution->batch_group_count);
    int64_t groups = group_count(convolution->feature_group_count);
    int32_t result = spmd_rule_result(rule, 0);
    if (batch_groups * groups > 1) {
        int32_t group = spmd_rule_factor(rule, SPMD_PASS, batch_groups * groups);
        spmd_rule_map(rule, 0, batch_groups > 1 ? labels->input_batch : labels->input_feature, group);
        spmd_rule_map(rule, 1, labels->kernel_output_feature, group);
        spmd_rule_map(rule, result, labels->output_feature, group);
    }
    int32_t batch = spmd_rule_factor(rule, SPMD_PASS, input->dims[labels->input_batch] / batch_groups);
    spmd_rule_map(rule, 0, labels->input_batch, batch);
    spmd_rule_map(rule, result, labels->output_batch, batch);
    int32_t feature = spmd_rule_factor(rule, SPMD_REDUCE, kernel->dims[labels->kernel_input_feature]);
    spmd_rule_map(rule, 0, labels->input_feature, feature);
    spmd_rule_map(rule, 1, labels->kernel_input_feature, feature);
    int64_t outputs = kernel->dims[labels->kernel_output_feature] / (batch_groups * groups);
    int32_t output = spmd_rule_factor(rule, SPMD_PASS, outputs);
    spmd_rule_map(rule, 1, labels->kernel_output_feature, output);
    spmd_rule_map(rule, result, labels->output_feature, output);
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        int64_t size = op->shape->dims[labels->output_spatial.items[i]];
        int32_t factor = spmd_rule_factor(rule, window_kind(&convolution->window->dims[i]), size);
        spmd_rule_map(rule, 0, labels->input_spatial.items[i], factor);
        spmd_rule_map(rule, result, labels->output_spatial.items[i], factor);
    }
    rule->reduction = HLO_OP_ADD;
}

// The counts of groups that are left on one device follow from the local sizes.
static void convolution_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                               const HloShape *result) {
    HloConvolutionAttributes *convolution = attributes;
    const HloConvolutionLabels *labels = convolution->labels;
    (void)rule;
    (void)arena;
    if (convolution->feature_group_count > 1) {
        convolution->feature_group_count =
            operands[0]->dims[labels->input_feature] / operands[1]->dims[labels->kernel_input_feature];
    }
    if (convolution->batch_group_count > 1) {
        convolution->batch_group_count = operands[0]->dims[labels->input_batch] / result->dims[labels->output_batch];
    }
}

static HloStatus convolution_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloConvolutionAttributes *convolution = HLO_ATTRIBUTES(op, Convolution);
    const HloConvolutionLabels *labels = convolution->labels;
    const SpmdRule *rule = partitioner->plan->rules[op->id];
    SpmdAxes *factors = spmd_choose(partitioner, rule, true);
    SpmdSharding *sharding = spmd_rule_sharding(rule, partitioner->arena, partitioner->mesh, spmd_rule_result(rule, 0),
                                                factors, spmd_manual_axes(partitioner, op));
    const HloShape *result = spmd_local_shape(partitioner->module->arena, partitioner->mesh, op->shape, sharding);
    SpmdLocal local = spmd_factor_operand(partitioner, rule, factors, 0);
    HloInstruction *operands[2] = {local.hlo, spmd_factor_operand(partitioner, rule, factors, 1).hlo};
    bool *taken = HLO_ARENA_NEW(partitioner->arena, bool, labels->input_spatial.count + 1);
    SpmdReason reason = {.op = op, .what = "neighbours' elements"};
    for (int32_t i = 0; spmd_partial_axes(rule, factors) && i < 2; i++) {
        HloInstruction *zero = spmd_emit_scalar(partitioner, operands[i]->shape->type, 0);
        operands[i] = spmd_mask_reduced(partitioner, rule, factors, i, operands[i], zero);
    }
    local.hlo = operands[0];
    for (int64_t i = 0; i < labels->input_spatial.count; i++) {
        int64_t from = labels->input_spatial.items[i], to = labels->output_spatial.items[i];
        taken[i] = !is_trivial(&convolution->window->dims[i]) && sharding->dims[to].count;
        if (!taken[i]) continue;
        HloInstruction *zero = spmd_emit_scalar(partitioner, local.hlo->shape->type, 0);
        local.hlo =
            take_window(partitioner, local, from, &convolution->window->dims[i], result->dims[to], zero, &reason);
    }
    operands[0] = local.hlo;
    HloInstruction *made = spmd_clone(partitioner, op, result, operands, 2);
    HloConvolutionAttributes *attributes =
        hlo_attributes_copy(partitioner->module->arena, HLO_FAMILY_Convolution, op->attributes);
    // Without spatial dimensions (a dot, as a TPU compiler writes it) there is no window.
    if (convolution->window)
        attributes->window = without_padding(partitioner->module->arena, convolution->window, taken);
    const HloShape *shapes[2] = {operands[0]->shape, operands[1]->shape};
    convolution_adjust(rule, partitioner->module->arena, attributes, shapes, result);
    hlo_instruction_set_attributes(made, attributes);
    spmd_define(partitioner, 0, made, sharding, spmd_partial_axes(rule, factors), rule->reduction);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_convolution = {
    .name = "convolution", .rule = convolution_rule, .partition = convolution_partition};
