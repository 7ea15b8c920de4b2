// SPDX-License-Identifier: Apache-2.0
// Lowers gather and scatter. This only describes them: dimension numbers are copied from the instruction into the form
// of kernels/gather.h, in the program's arena, since the module is gone at run time. Types do not matter to a gather
// (bytes move). A scatter combines with an operation that its kernel supports, or else calls the compiled computation
// for each element.
#include <assert.h>
#include <string.h>

#include "targets/cpu/element/copy.h"
#include "targets/cpu/kernels/gather.h"
#include "targets/cpu/lower/scalar.h"

static const int64_t *copy_list(HloArena *arena, HloInts list, int *count) {
    *count = (int)list.count;
    return hlo_arena_copy(arena, list.items, sizeof(int64_t) * (size_t)list.count);
}

static void describe(HloArena *arena, const HloShape *operand, const HloShape *indices, const HloShape *result,
                     CpuIndexing *indexing) {
    indexing->operand_rank = operand->rank;
    indexing->indices_rank = indices->rank;
    indexing->result_rank = result->rank;
    indexing->operand_sizes = cpu_copy_dims(arena, operand);
    indexing->indices_sizes = cpu_copy_dims(arena, indices);
    indexing->result_sizes = cpu_copy_dims(arena, result);
    indexing->index_type = indices->type;
}

// Sets the index vectors' components, which may be read before negative ones are counted from the end.
static void describe_components(HloArena *arena, const CpuNode *node, HloInts map, CpuIndexing *indexing) {
    indexing->start_index_map = copy_list(arena, map, &indexing->map_count);
    if (node->wraps) indexing->wraps = hlo_arena_copy(arena, node->wraps, sizeof(int64_t) * (size_t)map.count);
}

// ---- gather

typedef struct GatherKernel {
    CpuIndexing indexing;
    int width;
    int64_t unread;    // bytes of a result that empty slices leave zero; 0 if there are elements to gather
    const void *fill;  // the element that is written over masked slices, or NULL
} GatherKernel;

static HloStatus run_gather(const void *data, void *const *arguments, CpuPool *pool) {
    const GatherKernel *kernel = data;
    const CpuIndexing *indexing = &kernel->indexing;
    const int mask = 1 + (indexing->split ? indexing->map_count : 1);
    void *result = arguments[mask + (kernel->fill ? 1 : 0)];
    if (kernel->unread)
        memset(result, 0, (size_t)kernel->unread);
    else
        HLO_TRY(cpu_gather(pool, indexing, kernel->width, result, arguments[0], (const void *const *)arguments + 1));
    if (!kernel->fill) return HLO_SUCCESS;
    return cpu_gather_fill(pool, indexing, kernel->width, result, arguments[mask], kernel->fill);
}

HloStatus cpu_lower_gather(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count >= 2 && node->result_count == 1);
    HloArena *arena = lowering->arena;
    const HloGatherAttributes *gather = HLO_ATTRIBUTES(node->instruction, Gather);
    GatherKernel *kernel = HLO_ARENA_NEW(arena, GatherKernel, 1);
    CpuIndexing *indexing = &kernel->indexing;
    int count;
    indexing->split = node->operand_count - (node->fill ? 1 : 0) > 2;
    // The indices may be in an array of another shape, with the same elements in the same order.
    describe(arena, node->operands[0]->shape, node->instruction->operands[1]->shape, node->results[0]->shape, indexing);
    if (indexing->split) {
        int64_t *sizes =
            hlo_arena_copy(arena, indexing->indices_sizes, sizeof(int64_t) * (size_t)indexing->indices_rank);
        sizes[gather->index_vector_dim] = 1;
        indexing->indices_sizes = sizes;
    }
    indexing->index_vector_dim = (int)gather->index_vector_dim;
    indexing->window_dims = copy_list(arena, gather->offset_dims, &indexing->window_count);
    indexing->collapsed_dims = copy_list(arena, gather->collapsed_slice_dims, &indexing->collapsed_count);
    describe_components(arena, node, gather->start_index_map, indexing);
    indexing->operand_batching_dims = copy_list(arena, gather->operand_batching_dims, &indexing->batching_count);
    indexing->indices_batching_dims = copy_list(arena, gather->start_indices_batching_dims, &count);
    indexing->slice_sizes = copy_list(arena, gather->slice_sizes, &count);
    kernel->width = hlo_type_bytes(node->operands[0]->shape->type);
    if (hlo_ints_contain(gather->slice_sizes, 0)) kernel->unread = node->results[0]->bytes;
    if (node->fill) kernel->fill = hlo_arena_copy(arena, node->fill->literal->data, (size_t)kernel->width);
    cpu_step_kernel(lowering, node, step, run_gather, kernel);
    return HLO_SUCCESS;
}

// ---- scatter

static HloStatus run_scatter(const void *data, void *const *arguments, CpuPool *pool) {
    const CpuScatter *scatter = data;
    const int count = scatter->count;
    const void *const *operands = (const void *const *)arguments;
    return cpu_scatter(pool, scatter, arguments + 2 * count + 1, operands, arguments[count], operands + count + 1);
}

static bool is_assignment(const HloComputation *computation) {
    return computation->parameters.count == 2 && computation->root == computation->parameters.items[1];
}

// Finds the kernel's built-in operation for a scatter's computation. An assignment is the computation that returns its
// second parameter.
static bool scatter_op(const HloComputation *computation, CpuScatterOp *op) {
    if (is_assignment(computation)) return *op = CPU_SCATTER_ASSIGN, true;
    switch (hlo_computation_binary_opcode(computation)) {
        case HLO_OP_ADD: *op = CPU_SCATTER_ADD; return true;
        case HLO_OP_MULTIPLY: *op = CPU_SCATTER_MULTIPLY; return true;
        case HLO_OP_MINIMUM: *op = CPU_SCATTER_MINIMUM; return true;
        case HLO_OP_MAXIMUM: *op = CPU_SCATTER_MAXIMUM; return true;
        default: return false;
    }
}

// Whether the kernel has the operation built in for the type; other types are combined by the scalar function.
static bool has_builtin(HloType type, CpuScatterOp op) {
    if (op == CPU_SCATTER_ASSIGN) return true;
    return type != HLO_PRED && !hlo_type_is_complex(type) && hlo_type_info(type)->bits >= 8 &&
           !(hlo_type_is_float(type) && hlo_type_info(type)->bits < 16);
}

static void describe_scatter(CpuLowering *lowering, const CpuNode *node, int count, CpuIndexing *indexing) {
    assert(count > 0);
    const HloScatterAttributes *from = HLO_ATTRIBUTES(node->instruction, Scatter);
    HloArena *arena = lowering->arena;
    int ignored;
    describe(arena, node->operands[0]->shape, node->instruction->operands[count]->shape,
             node->operands[count + 1]->shape, indexing);
    indexing->index_vector_dim = (int)from->index_vector_dim;
    indexing->window_dims = copy_list(arena, from->update_window_dims, &indexing->window_count);
    indexing->collapsed_dims = copy_list(arena, from->inserted_window_dims, &indexing->collapsed_count);
    describe_components(arena, node, from->scatter_dims_to_operand_dims, indexing);
    indexing->operand_batching_dims = copy_list(arena, from->input_batching_dims, &indexing->batching_count);
    indexing->indices_batching_dims = copy_list(arena, from->scatter_indices_batching_dims, &ignored);
}

// Runs a scatter of one run of elements: see CpuSmallKernel.
static void run_small_scatter(void *result, const void *operand, const void *indices, const void *updates, int64_t n,
                              int64_t data) {
    (void)n;
    cpu_scatter_small(((const CpuScatter *)(intptr_t)data)->small, result, operand, indices, updates);
}

HloStatus cpu_lower_scatter(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count >= 3);
    const HloComputation *computation = node->instruction->called[0];
    const int count = node->operand_count / 2;
    const CpuScalarFunction *function = cpu_scalar_compile(lowering, computation);
    if (!function || 3 * count > CPU_SCALAR_LIMIT) {
        assert(!node->wraps); /* the evaluator would read other indices than the instruction's */
        return cpu_lower_give_up(lowering, node);
    }
    CpuScatter *kernel = HLO_ARENA_NEW(lowering->arena, CpuScatter, 1);
    HloType *types = HLO_ARENA_NEW(lowering->arena, HloType, count);
    for (int i = 0; i < count; i++) types[i] = node->operands[i]->shape->type;
    CpuScatterOp op = CPU_SCATTER_CALL;
    if (count > 1 || !scatter_op(computation, &op) || !has_builtin(types[0], op)) op = CPU_SCATTER_CALL;
    *kernel = (CpuScatter){.count = count,
                           .types = types,
                           .op = op,
                           .combine = cpu_scalar_combine,
                           .context = (void *)(uintptr_t)function};
    describe_scatter(lowering, node, count, &kernel->indexing);
    kernel->small = cpu_scatter_plan_small(lowering->arena, kernel);
    cpu_step_kernel(lowering, node, step, run_scatter, kernel);
    if (kernel->small) step->small = run_small_scatter;
    CpuArray *target = cpu_array_root(node->operands[0]);
    step->update_in_place = 0;
    for (int32_t i = 1; i < node->operand_count; i++)
        if (cpu_array_root(node->operands[i]) == target) step->update_in_place = -1;
    return HLO_SUCCESS;
}
