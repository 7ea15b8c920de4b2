// SPDX-License-Identifier: Apache-2.0
// Slice, pad, reverse and concatenate: dimensions they leave alone are local, along the others each device asks its
// neighbours for what it lacks.
#include "spmd_partitioner/emit.h"

static bool is_whole(const HloSliceAttributes *slice, const HloShape *operand, int32_t dim) {
    return slice->starts.items[dim] == 0 && slice->limits.items[dim] == operand->dims[dim] &&
           (!slice->strides.count || slice->strides.items[dim] == 1);
}

// One factor a dimension.
static void add_dim(SpmdRule *rule, int32_t dim, SpmdFactorKind kind) {
    int32_t result = spmd_rule_result(rule, 0);
    int64_t size = rule->tensors[result].shape->dims[dim];
    int32_t factor = spmd_rule_factor(rule, kind, size);
    spmd_rule_map(rule, 0, dim, factor);
    spmd_rule_map(rule, result, dim, factor);
}

// What all windowed ops of this file share: the operand in the chosen sharding, and the axes of windowed dimensions.
typedef struct Windowed {
    const SpmdRule *rule;
    SpmdAxes *factors;
    SpmdLocal operand;
    SpmdSharding *sharding;  // of the result
    const HloShape *shape;   // local, of the result
    SpmdReason reason;
} Windowed;

static Windowed begin(SpmdPartitioner *partitioner, const HloInstruction *op) {
    Windowed windowed = {.rule = partitioner->plan->rules[op->id],
                         .reason = {.op = op, .what = "neighbours' elements"}};
    windowed.factors = spmd_choose(partitioner, windowed.rule, true);
    windowed.operand = spmd_factor_operand(partitioner, windowed.rule, windowed.factors, 0);
    windowed.sharding =
        spmd_rule_sharding(windowed.rule, partitioner->arena, partitioner->mesh, spmd_rule_result(windowed.rule, 0),
                           windowed.factors, spmd_manual_axes(partitioner, op));
    windowed.shape = spmd_local_shape(partitioner->module->arena, partitioner->mesh, op->shape, windowed.sharding);
    return windowed;
}

// True if dimension `dim` is windowed and sharded.
static bool moves(const Windowed *windowed, int32_t dim) {
    int32_t factor = windowed->rule->tensors[0].dims[dim].items[0];
    return windowed->rule->factors.items[factor].kind == SPMD_PERMUTE && windowed->sharding->dims[dim].count;
}

// The window of one dimension; the next dimension works on what it gives.
static void take_window(SpmdPartitioner *partitioner, Windowed *windowed, int32_t dim, int64_t scale, int64_t offset,
                        int64_t size, HloInstruction *fill) {
    windowed->operand.hlo =
        spmd_emit_window(partitioner, windowed->operand, dim, scale, offset, size, fill, &windowed->reason);
}

static void slice_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloShape *operand = op->operands[0]->shape;
    for (int32_t d = 0; d < operand->rank; d++) {
        add_dim(rule, d, is_whole(HLO_ATTRIBUTES(op, Slice), operand, d) ? SPMD_PASS : SPMD_PERMUTE);
    }
}

static HloStatus slice_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloSliceAttributes *slice = HLO_ATTRIBUTES(op, Slice);
    Windowed windowed = begin(partitioner, op);
    HloArena *arena = partitioner->module->arena;
    int32_t rank = op->shape->rank;
    int64_t *starts = HLO_ARENA_NEW(arena, int64_t, rank), *limits = HLO_ARENA_NEW(arena, int64_t, rank);
    int64_t *strides = HLO_ARENA_NEW(arena, int64_t, rank);
    for (int32_t d = 0; d < rank; d++) {
        int64_t stride = slice->strides.count ? slice->strides.items[d] : 1;
        strides[d] = stride;
        if (moves(&windowed, d)) {
            int64_t size = windowed.shape->dims[d];
            limits[d] = (size - 1) * stride + 1;
            take_window(partitioner, &windowed, d, stride * size, slice->starts.items[d], limits[d], NULL);
        } else {
            bool whole = is_whole(slice, op->operands[0]->shape, d);
            starts[d] = slice->starts.items[d];
            limits[d] = whole ? windowed.operand.hlo->shape->dims[d] : slice->limits.items[d];
        }
    }
    HloInstruction *made = spmd_clone(partitioner, op, windowed.shape, &windowed.operand.hlo, 1);
    HloSliceAttributes attributes = {{starts, rank}, {limits, rank}, {strides, rank}};
    hlo_instruction_set_attributes(made, &attributes);
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_slice = {.name = "slice", .rule = slice_rule, .partition = slice_partition};

// Interior padding has no affine windows: such a dimension is needed whole.
static void pad_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloPadding *padding = &HLO_ATTRIBUTES(op, Pad)->padding;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        const HloPadDimension *pad = &padding->items[d];
        bool none = pad->low == 0 && pad->high == 0 && pad->interior == 0;
        add_dim(rule, d, none ? SPMD_PASS : pad->interior ? SPMD_REPLICATE : SPMD_PERMUTE);
    }
}

static HloStatus pad_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    const HloPadding *padding = &HLO_ATTRIBUTES(op, Pad)->padding;
    Windowed windowed = begin(partitioner, op);
    HloInstruction *operands[2] = {NULL, spmd_operand_whole(partitioner, 1)};
    HloPadDimension *local = HLO_ARENA_NEW(partitioner->module->arena, HloPadDimension, op->shape->rank);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (moves(&windowed, d)) {
            int64_t size = windowed.shape->dims[d];
            take_window(partitioner, &windowed, d, size, -padding->items[d].low, size, operands[1]);
        } else {
            local[d] = padding->items[d];
        }
    }
    operands[0] = windowed.operand.hlo;
    HloInstruction *made = spmd_clone(partitioner, op, windowed.shape, operands, 2);
    HloPadAttributes attributes = {{local, op->shape->rank}};
    hlo_instruction_set_attributes(made, &attributes);
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_pad = {.name = "pad", .rule = pad_rule, .partition = pad_partition};

static void reverse_rule(SpmdRule *rule, const HloInstruction *op) {
    HloInts dimensions = HLO_ATTRIBUTES(op, Dimensions)->dimensions;
    for (int32_t d = 0; d < op->shape->rank; d++) {
        add_dim(rule, d, hlo_ints_contain(dimensions, d) ? SPMD_PERMUTE : SPMD_PASS);
    }
}

static HloStatus reverse_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    Windowed windowed = begin(partitioner, op);
    for (int32_t d = 0; d < op->shape->rank; d++) {
        int64_t size = windowed.shape->dims[d];
        if (moves(&windowed, d)) take_window(partitioner, &windowed, d, -size, op->shape->dims[d] - size, size, NULL);
    }
    HloInstruction *made = spmd_clone(partitioner, op, windowed.shape, &windowed.operand.hlo, 1);
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_reverse = {.name = "reverse", .rule = reverse_rule, .partition = reverse_partition};

// Parts beyond this number would make more messages than gathering them: such a dimension is needed whole.
enum { CONCATENATED_PARTS = 8 };

static void concatenate_rule(SpmdRule *rule, const HloInstruction *op) {
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0];
    for (int32_t d = 0; d < op->shape->rank; d++) {
        if (d == along && op->operand_count > CONCATENATED_PARTS) continue;
        int32_t factor = spmd_rule_factor(rule, d == along ? SPMD_PERMUTE : SPMD_PASS, op->shape->dims[d]);
        for (int32_t t = 0; t < spmd_rule_tensors(rule); t++) spmd_rule_map(rule, t, d, factor);
    }
}

// This device's `size` elements of a free array that starts at `first` of the result: made whole, then cut.
static HloInstruction *cut_free(SpmdPartitioner *partitioner, const Windowed *windowed, int32_t part, int64_t along,
                                int64_t first, int64_t size) {
    SpmdSharding *whole = spmd_rule_sharding(windowed->rule, partitioner->arena, partitioner->mesh, part,
                                             windowed->factors, windowed->sharding->manual);
    whole->dims[along] = (SpmdAxes){0};
    HloInstruction *array = spmd_operand_as(partitioner, part, whole);
    int64_t length = array->shape->dims[along];
    array = spmd_emit_pad(partitioner, array, along, size, size, NULL);
    HloInstruction *at = spmd_emit_offset(partitioner, &windowed->sharding->dims[along], size);
    HloType type = at->shape->type;
    at = spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, at, spmd_emit_scalar(partitioner, type, first - size));
    at = spmd_emit_binary(partitioner, HLO_OP_MAXIMUM, at, spmd_emit_scalar(partitioner, type, 0));
    at = spmd_emit_binary(partitioner, HLO_OP_MINIMUM, at, spmd_emit_scalar(partitioner, type, size + length));
    return spmd_emit_dynamic_slice(partitioner, array, along, at, size);
}

// select(position < first, before, behind) along one dimension, by position in the whole result.
static HloInstruction *choose_by_position(SpmdPartitioner *partitioner, const Windowed *windowed, int64_t along,
                                          int64_t first, HloInstruction *before, HloInstruction *behind) {
    const HloShape *shape = before->shape;
    HloInstruction *offset = spmd_emit_offset(partitioner, &windowed->sharding->dims[along], shape->dims[along]);
    HloType type = offset->shape->type;
    HloInstruction *border =
        spmd_emit_binary(partitioner, HLO_OP_SUBTRACT, spmd_emit_scalar(partitioner, type, first), offset);
    HloInstruction *place = spmd_emit_iota(partitioner, type, shape->dims, shape->rank, along);
    HloInstruction *inside = spmd_emit_compare(partitioner, HLO_ComparisonDirection_LT, place,
                                               spmd_emit_splat(partitioner, border, shape->dims, shape->rank));
    return spmd_emit_select(partitioner, inside, before, behind);
}

// Along a cut dimension each device asks for what it lacks of every part, and puts them together by position.
static HloStatus concatenate_partition(SpmdPartitioner *partitioner, const HloInstruction *op) {
    int64_t along = HLO_ATTRIBUTES(op, Dimensions)->dimensions.items[0], first = 0;
    Windowed windowed = begin(partitioner, op);
    HloInstruction **operands = HLO_ARENA_NEW(partitioner->arena, HloInstruction *, op->operand_count);
    bool cut = windowed.sharding->dims[along].count > 0;
    int64_t size = windowed.shape->dims[along];
    HloInstruction *made = NULL;
    for (int32_t i = 0; i < op->operand_count; i++) {
        int64_t length = op->operands[i]->shape->dims[along];
        bool is_free = !spmd_operand(partitioner, i).hlo;
        if (cut && length == 0) continue;
        if (!cut || !is_free) windowed.operand = spmd_factor_operand(partitioner, windowed.rule, windowed.factors, i);
        if (cut && is_free) {
            operands[i] = cut_free(partitioner, &windowed, i, along, first, size);
        } else {
            if (cut) take_window(partitioner, &windowed, (int32_t)along, size, -first, size, NULL);
            operands[i] = windowed.operand.hlo;
        }
        if (cut) {
            made = made ? choose_by_position(partitioner, &windowed, along, first, made, operands[i]) : operands[i];
        }
        first += length;
    }
    if (!cut) return spmd_emit_by_factors(partitioner, windowed.rule, windowed.factors, operands);
    spmd_define(partitioner, 0, made, windowed.sharding, 0, HLO_OPCODE_COUNT);
    return HLO_SUCCESS;
}
const SpmdOp spmd_op_concatenate = {
    .name = "concatenate", .rule = concatenate_rule, .partition = concatenate_partition};
