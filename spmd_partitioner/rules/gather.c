// SPDX-License-Identifier: Apache-2.0
// Gather and scatter.
#include "spmd_partitioner/emit.h"


// The `index`-th dimension of `rank` that is not in `without`.
static int64_t pick_other(HloInts without, int64_t rank, int64_t index) {
    for (int64_t d = 0; d < rank; d++) {
        if (!hlo_ints_contain(without, d) && index-- == 0) return d;
    }
    return -1;
}

// Maps the batch dimensions of the indices to those of the gathered or updating array, and to an operand's batching
// dimension where there is one.
static void map_batch(SpmdRule *rule, const HloShape *indices, int64_t vector_dim, HloInts window_dims, int32_t batched,
                      HloInts operand_batching, HloInts indices_batching, const int32_t *operands, int32_t operand_count,
                      int32_t indices_tensor, int32_t batched_count, bool local) {
    int64_t batch = 0;
    int64_t rank = rule->tensors[batched].shape->rank;
    for (int32_t d = 0; d < indices->rank; d++) {
        if (d == vector_dim) continue;
        int64_t target = pick_other(window_dims, rank, batch++);
        bool paired = hlo_ints_contain(indices_batching, d);
        if (!local && !paired) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, indices->dims[d]);
        spmd_rule_map(rule, indices_tensor, d, factor);
        for (int32_t t = 0; t < batched_count; t++) spmd_rule_map(rule, batched + t, target, factor);
        for (int64_t k = 0; paired && k < indices_batching.count; k++) {
            if (indices_batching.items[k] != d) continue;
            for (int32_t t = 0; t < operand_count; t++) spmd_rule_map(rule, operands[t], operand_batching.items[k], factor);
        }
    }
}

static void gather_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(op, Gather);
    const HloShape *operand = op->operands[0]->shape, *indices = op->operands[1]->shape;
    int32_t result = spmd_rule_result(rule, 0), zero = 0;
    int64_t offset = 0;
    for (int32_t d = 0; d < operand->rank; d++) {
        if (hlo_ints_contain(gather->collapsed_slice_dims, d) || hlo_ints_contain(gather->operand_batching_dims, d)) continue;
        int64_t target = gather->offset_dims.items[offset++];
        if (gather->slice_sizes.items[d] != operand->dims[d]) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, operand->dims[d]);
        spmd_rule_map(rule, 0, d, factor);
        spmd_rule_map(rule, result, target, factor);
    }
    map_batch(rule, indices, gather->index_vector_dim, gather->offset_dims, result, gather->operand_batching_dims,
              gather->start_indices_batching_dims, &zero, 1, 1, 1, true);
}

static void gather_adjust(const SpmdRule *rule, HloArena *arena, void *attributes, const HloShape *const *operands,
                          const HloShape *result) {
    HloGatherAttributes *gather = attributes;
    const HloShape *operand = rule->op->operands[0]->shape;
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, operand->rank);
    (void)result;
    for (int32_t d = 0; d < operand->rank; d++) {
        int64_t size = gather->slice_sizes.items[d];
        sizes[d] = size == operand->dims[d] ? operands[0]->dims[d] : size;
    }
    gather->slice_sizes.items = sizes;
}
const SpmdOp spmd_op_gather = {.name = "gather", .rule = gather_rule, .adjust = gather_adjust};

static void scatter_rule(SpmdRule *rule, const HloInstruction *op) {
    const HloScatterAttributes *scatter = HLO_ATTRIBUTES(op, Scatter);
    int32_t inputs = (op->operand_count - 1) / 2;
    const HloShape *input = op->operands[0]->shape, *indices = op->operands[inputs]->shape;
    const HloShape *update = op->operands[inputs + 1]->shape;
    int32_t *operands = HLO_ARENA_NEW(rule->arena, int32_t, 2 * inputs);
    int64_t window = 0;
    for (int32_t i = 0; i < inputs; i++) {
        operands[i] = i;
        operands[inputs + i] = spmd_rule_result(rule, i);
    }
    for (int32_t d = 0; d < input->rank; d++) {
        if (hlo_ints_contain(scatter->inserted_window_dims, d) || hlo_ints_contain(scatter->input_batching_dims, d)) continue;
        int64_t target = scatter->update_window_dims.items[window++];
        if (update->dims[target] != input->dims[d]) continue;
        int32_t factor = spmd_rule_factor(rule, SPMD_PASS, input->dims[d]);
        for (int32_t t = 0; t < 2 * inputs; t++) spmd_rule_map(rule, operands[t], d, factor);
        for (int32_t i = 0; i < inputs; i++) spmd_rule_map(rule, inputs + 1 + i, target, factor);
    }
    map_batch(rule, indices, scatter->index_vector_dim, scatter->update_window_dims, inputs + 1,
              scatter->input_batching_dims, scatter->scatter_indices_batching_dims, operands, 2 * inputs, inputs, inputs,
              false);
}
const SpmdOp spmd_op_scatter = {.name = "scatter", .rule = scatter_rule};
