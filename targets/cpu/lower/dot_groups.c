// SPDX-License-Identifier: Apache-2.0
// Lowers dots whose rows are in groups, each with a matrix of its own, to a product for each group: ragged dots, and
// products of ranges of rows (CpuNode.ranges).
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/element/integer.h"
#include "targets/cpu/lower/dot_plan.h"

// ---- ragged dots

// Group g covers the next sizes[g] steps of the ragged dimension: either rows of the left side and of the result, with
// one matrix of the right side per group, or terms of both sides, with one result per group.
typedef struct RaggedKernel {
    CpuDotKernel dot;
    bool contracting;
    HloType sizes_type;
    int64_t groups, steps;      // number of groups, and of steps of the ragged dimension
    int64_t ragged_strides[3];  // per step of it, in elements
    int64_t group_strides[3];   // per group
    CpuDotDim *lists;           // the dimensions with a separate list of sizes per index
    int64_t list_rank;
    int64_t out_bytes;
} RaggedKernel;

// Clamps a position: groups beyond the ragged dimension's end have no rows.
static int64_t within(int64_t position, int64_t steps) {
    return position < 0 ? 0 : position > steps ? steps : position;
}

// Encodes zero in a type, which is not always bytes of zeros (f8e8m0fnu has powers of two only).
static void encode_zero(CpuPool *pool, HloType type, unsigned char zero[16]) {
    const CpuLoopKernels *kernels = cpu_isa_loop_kernels(cpu_pool_features(pool));
    static const double kZero[2] = {0, 0};
    memset(zero, 0, 16);
    if (cpu_is_widened(kernels, type)) cpu_narrow(kernels, type, zero, kZero, 1);
}

// Multiplies the steps from `from` to before `to` with what belongs to group g.
static HloStatus run_group(const RaggedKernel *kernel, const char *const sides[2], int64_t g, int64_t from, int64_t to,
                           char *out, CpuPool *pool) {
    assert(0 <= from && from <= to && to <= kernel->steps);
    if (from == to) return HLO_SUCCESS;
    CpuMatmul matmul = kernel->dot.matmul;
    *(kernel->contracting ? &matmul.k : &matmul.m) = to - from;
    int64_t offset[3];
    for (int i = 0; i < 3; i++)
        offset[i] = (g * kernel->group_strides[i] + from * kernel->ragged_strides[i]) * kernel->dot.widths[i];
    return cpu_dot_run_products(&kernel->dot, &matmul, sides[0] + offset[0], sides[1] + offset[1], out + offset[2],
                                pool);
}

// Runs the groups of one list. Sizes may sum to anything, even to negative values: `start` saturates.
static HloStatus run_groups(const RaggedKernel *kernel, const char *const sides[2], const void *sizes, int64_t list,
                            char *out, CpuPool *pool) {
    assert(list >= 0);
    int64_t start = 0;
    for (int64_t g = 0; g < kernel->groups; g++) {
        const int64_t size = cpu_read_integer(sizes, kernel->sizes_type, list * kernel->groups + g);
        int64_t end;  // sizes are the program's data, and may be anything
        if (__builtin_add_overflow(start, size, &end)) end = size < 0 ? INT64_MIN : INT64_MAX;
        const int64_t from = within(start, kernel->steps), to = within(end, kernel->steps);
        start = end;
        if (from < to) HLO_TRY(run_group(kernel, sides, g, from, to, out, pool));
    }
    return HLO_SUCCESS;
}

static void zero_result(const RaggedKernel *kernel, void *out, CpuPool *pool) {
    unsigned char zero[16];
    const HloType type = kernel->dot.matmul.out_type;
    encode_zero(pool, type, zero);
    cpu_fill(pool, out, zero, kernel->out_bytes / hlo_type_bytes(type), hlo_type_bytes(type));
}

// Rows outside all groups are zeros, by the definition of ragged_dot.
static HloStatus run_ragged(const void *data, void *const *arguments, CpuPool *pool) {
    const RaggedKernel *kernel = data;
    zero_result(kernel, arguments[3], pool);
    int64_t lists = 1;
    for (int64_t d = 0; d < kernel->list_rank; d++) lists *= kernel->lists[d].size;
    for (int64_t list = 0; list < lists; list++) {
        int64_t offset[3] = {0};
        for (int64_t d = kernel->list_rank, rest = list; d-- > 0; rest /= kernel->lists[d].size)
            for (int i = 0; i < 3; i++)
                offset[i] += rest % kernel->lists[d].size * kernel->lists[d].strides[i] * kernel->dot.widths[i];
        const char *const sides[] = {(char *)arguments[0] + offset[0], (char *)arguments[1] + offset[1]};
        HLO_TRY(run_groups(kernel, sides, arguments[2], list, (char *)arguments[3] + offset[2], pool));
    }
    return HLO_SUCCESS;
}

// Returns the view of the whole array in memory order.
static CpuView row_major_view(HloArena *arena, const CpuArray *array) {
    return cpu_view_row_major(arena, array->shape->rank, array->shape->dims);
}

// Returns the view without one of its dimensions.
static CpuView without_dimension(HloArena *arena, CpuView view, int64_t dimension) {
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, 2 * view.rank), *strides = dims + view.rank;
    int64_t rank = 0;
    for (int64_t d = 0; d < view.rank; d++) {
        if (d == dimension) continue;
        dims[rank] = view.dims[d];
        strides[rank++] = view.strides[d];
    }
    return (CpuView){rank, dims, strides};
}

// Renumbers a list of dimensions after dimension `gone` has been removed.
static HloInts without(HloArena *arena, HloInts list, int64_t gone) {
    int64_t *items = HLO_ARENA_NEW(arena, int64_t, list.count + 1), count = 0;
    for (int64_t i = 0; i < list.count; i++)
        if (list.items[i] != gone) items[count++] = list.items[i] - (list.items[i] > gone);
    return (HloInts){items, count};
}

// Returns the result dimension that corresponds to the free dimension `dimension` of the left side.
static int64_t free_place(const HloDotAttributes *dot, int64_t dimension) {
    int64_t place = dot->lhs_batch.count;
    for (int64_t d = 0; d < dimension; d++)
        place += !hlo_ints_contain(dot->lhs_batch, d) && !hlo_ints_contain(dot->lhs_contracting, d);
    return place;
}

// Records the dimensions with a separate list of sizes per index (those of `sizes` before the last: batch dimensions,
// then free ones before the ragged one) and leaves one element of each in the views. Returns false if there are
// contracting ones.
static bool take_lists(HloArena *arena, const HloDotAttributes *dot, const HloShape *sizes, CpuView *views,
                       RaggedKernel *kernel) {
    const int64_t batch = dot->lhs_batch.count;
    kernel->list_rank = sizes->rank - 1;
    kernel->lists = HLO_ARENA_NEW(arena, CpuDotDim, sizes->rank);
    if (kernel->contracting && kernel->list_rank > batch) return false;
    int64_t *dims[3];
    for (int i = 0; i < 3; i++) {
        dims[i] = HLO_ARENA_NEW(arena, int64_t, views[i].rank + 1);
        for (int64_t d = 0; d < views[i].rank; d++) dims[i][d] = views[i].dims[d];
        views[i].dims = dims[i];
    }
    int64_t free = -1;
    for (int64_t j = 0; j < kernel->list_rank; j++) {
        int64_t places[3] = {-1, -1, -1};
        if (j < batch) {
            places[0] = dot->lhs_batch.items[j];
            places[1] = dot->rhs_batch.items[j];
            places[2] = j + kernel->contracting;
        } else {
            do places[0] = ++free;
            while (hlo_ints_contain(dot->lhs_batch, free) || hlo_ints_contain(dot->lhs_contracting, free));
            places[2] = free_place(dot, free);
        }
        kernel->lists[j].size = sizes->dims[j];
        for (int i = 0; i < 3; i++) {
            if (places[i] < 0) continue;
            kernel->lists[j].strides[i] = views[i].strides[places[i]];
            dims[i][places[i]] = 1;
        }
    }
    return true;
}

// Takes the ragged and the group dimension out of the views, and records their strides. The rest of the dot then has no
// ragged dimension, and the ordinary roles can be sorted; each group is a separate product.
static HloDotAttributes take_ragged(HloArena *arena, const HloDotAttributes *dot, CpuView *views,
                                    RaggedKernel *kernel) {
    HloDotAttributes rest = *dot;
    const int64_t ragged = dot->lhs_ragged.items[0];
    kernel->steps = views[0].dims[ragged];
    kernel->ragged_strides[CPU_DOT_LEFT] = views[0].strides[ragged];
    rest.lhs_batch = without(arena, dot->lhs_batch, ragged);
    rest.lhs_contracting = without(arena, dot->lhs_contracting, ragged);
    if (kernel->contracting) {
        int64_t at = 0;
        while (dot->lhs_contracting.items[at] != ragged) at++;
        const int64_t other = dot->rhs_contracting.items[at];
        kernel->ragged_strides[CPU_DOT_RIGHT] = views[1].strides[other];
        kernel->group_strides[CPU_DOT_OUT] = views[2].strides[0];
        rest.rhs_batch = without(arena, dot->rhs_batch, other);
        rest.rhs_contracting = without(arena, dot->rhs_contracting, other);
        views[1] = without_dimension(arena, views[1], other);
        views[2] = without_dimension(arena, views[2], 0);
    } else {
        const int64_t group = dot->rhs_group.items[0], place = free_place(dot, ragged);
        kernel->ragged_strides[CPU_DOT_OUT] = views[2].strides[place];
        kernel->group_strides[CPU_DOT_RIGHT] = views[1].strides[group];
        rest.rhs_batch = without(arena, dot->rhs_batch, group);
        rest.rhs_contracting = without(arena, dot->rhs_contracting, group);
        views[1] = without_dimension(arena, views[1], group);
        views[2] = without_dimension(arena, views[2], place);
    }
    views[0] = without_dimension(arena, views[0], ragged);
    return rest;
}

// Makes the ragged dimension that of the product; all other dimensions of its role become loops. Returns false if the
// rest is not one product: the node then falls back to the evaluator.
static bool fill_ragged(RaggedKernel *kernel, CpuDotRoles *roles) {
    CpuDotDim step = {.size = 0};
    for (int i = 0; i < 3; i++) step.strides[i] = kernel->ragged_strides[i];
    CpuDotKernel *dot = &kernel->dot;
    const CpuDotDim batch = cpu_dot_take(&roles->batch, dot), n = cpu_dot_take(&roles->n, dot);
    if (kernel->contracting) {
        if (roles->k.count) return false;  // sums over two dimensions: not one product
        cpu_dot_fill(&dot->matmul, batch, cpu_dot_take(&roles->m, dot), n, step);
        return true;
    }
    if (roles->k.count > 1) return false;
    for (int64_t i = 0; i < roles->m.count; i++) dot->outer[dot->outer_count++] = roles->m.items[i];
    cpu_dot_fill(&dot->matmul, batch, step, n, cpu_dot_take(&roles->k, dot));
    return true;
}

// Plans the products of the groups of a dot whose arrays have these views; false if they have no form as products.
static bool plan_groups(const CpuLowering *lowering, const CpuNode *node, const HloDotAttributes *dot, CpuView *views,
                        RaggedKernel *kernel) {
    HloArena *arena = lowering->arena;
    const HloType types[3] = {node->operands[0]->shape->type, node->operands[1]->shape->type,
                              node->results[0]->shape->type};
    const HloDotAttributes rest = take_ragged(arena, dot, views, kernel);
    CpuDotRoles roles = cpu_dot_sort(arena, &rest, views);
    const bool matrix_vector = node->ranges && roles.n.count == 0;  // ragged dots have no precision of their own for it
    kernel->out_bytes = node->results[0]->bytes;
    kernel->dot.outer = HLO_ARENA_NEW(arena, CpuDotDim, roles.batch.count + roles.m.count + roles.n.count + 1);
    kernel->dot.matmul = (CpuMatmul){.lhs_type = types[0],
                                     .rhs_type = types[1],
                                     .out_type = types[2],
                                     .precision = cpu_dot_precision(lowering, node, matrix_vector)};
    for (int i = 0; i < 3; i++) kernel->dot.widths[i] = hlo_type_bytes(types[i]);
    return fill_ragged(kernel, &roles);
}

// Lowers a ragged dot. One whose ragged dimension is a batch dimension is left to the evaluator.
HloStatus cpu_lower_ragged_dot(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    HloArena *arena = lowering->arena;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(node->instruction, Dot);
    RaggedKernel *kernel = HLO_ARENA_NEW(arena, RaggedKernel, 1);
    const HloType types[3] = {node->operands[0]->shape->type, node->operands[1]->shape->type,
                              node->results[0]->shape->type};
    for (int i = 0; i < 3; i++)
        if (!cpu_dot_has_kernel(types[i])) return cpu_lower_give_up(lowering, node);
    const HloShape *sizes = node->operands[2]->shape;
    if (hlo_ints_contain(dot->lhs_batch, dot->lhs_ragged.items[0])) return cpu_lower_give_up(lowering, node);
    CpuView views[3] = {row_major_view(arena, node->operands[0]), row_major_view(arena, node->operands[1]),
                        row_major_view(arena, node->results[0])};
    kernel->contracting = hlo_ints_contain(dot->lhs_contracting, dot->lhs_ragged.items[0]);
    kernel->groups = sizes->dims[sizes->rank - 1];
    kernel->sizes_type = sizes->type;
    if (!take_lists(arena, dot, sizes, views, kernel)) return cpu_lower_give_up(lowering, node);
    if (!plan_groups(lowering, node, dot, views, kernel)) return cpu_lower_give_up(lowering, node);
    cpu_step_kernel(lowering, node, step, run_ragged, kernel);
    step->cost = (double)node->results[0]->elements *
                 (double)(node->operands[0]->shape->dims[node->operands[0]->shape->rank - 1] / 16 + 1);
    return HLO_SUCCESS;
}

// ---- dots of ranges of rows

// The product sum over g and k of (row in range g ? left[row, k] : 0) * right[g, k, column]. Zeros add nothing unless
// the right side has infinities or NaNs, and ranges are usually apart: each then is a product of its own. Otherwise the
// left side is copied for each group.
typedef struct RangesKernel {
    RaggedKernel ragged;
    CpuDotKernel *whole;  // of the copied left side
    bool packed;
    HloType types[2], bounds_type;
    int64_t right_elements;
    CpuDotPacking copy;  // of the left side; its sizes are those of one group
    int64_t row, group_stride;
} RangesKernel;

enum { kFiniteGrain = 1 << 16 };

typedef struct FiniteCheck {
    const void *data;
    HloType type;
    _Atomic(bool) infinite;
} FiniteCheck;

// Numbers that round to infinity when a TPU's product rounds them to bf16 count as infinite.
#define FIND_INFINITE(T, magnitude, least)                      \
    for (int64_t i = begin; i < end; i++) {                     \
        T bits;                                                 \
        memcpy(&bits, (const T *)check->data + i, sizeof bits); \
        any |= (bits & (T)(magnitude)) >= (T)(least);           \
    }
static void find_infinite_task(void *argument, int64_t begin, int64_t end, int worker) {
    assert(argument && begin >= 0 && begin <= end);
    FiniteCheck *check = argument;
    bool any = false;
    (void)worker;
    if (check->type == HLO_BF16)
        FIND_INFINITE(uint16_t, 0x7fff, 0x7f80)
    else if (check->type == HLO_F16)
        FIND_INFINITE(uint16_t, 0x7fff, 0x7c00)
    else if (check->type == HLO_F32)
        FIND_INFINITE(uint32_t, INT32_MAX, 0x7f7f8000)
    else
        FIND_INFINITE(uint64_t, INT64_MAX, UINT64_C(0x7ff) << 52)
    if (any) atomic_store_explicit(&check->infinite, true, memory_order_relaxed);
}
#undef FIND_INFINITE

static bool is_finite(CpuPool *pool, HloType type, const void *data, int64_t elements) {
    FiniteCheck check = {.data = data, .type = type};
    cpu_pool_parallel_for_grain(pool, elements, kFiniteGrain, find_infinite_task, &check);
    return !atomic_load_explicit(&check.infinite, memory_order_relaxed);
}

// Returns the range of group g, within the rows.
static void range_of(const RangesKernel *kernel, void *const *arguments, int64_t g, int64_t *from, int64_t *to) {
    *from = within(cpu_read_integer(arguments[2], kernel->bounds_type, g), kernel->ragged.steps);
    *to = within(cpu_read_integer(arguments[3], kernel->bounds_type, g), kernel->ragged.steps);
    if (*to < *from) *to = *from;
}

// Whether no row is in two ranges. *all: every row is in one.
static bool ranges_are_apart(const RangesKernel *kernel, void *const *arguments, bool *all) {
    int64_t covered = 0, rows = 0;
    for (int64_t g = 0; g < kernel->ragged.groups; g++) {
        int64_t from, to;
        range_of(kernel, arguments, g, &from, &to);
        if (from == to) continue;
        if (from < covered) return false;
        covered = to;
        rows += to - from;
    }
    *all = rows == kernel->ragged.steps;
    return true;
}

// Copies the left side for each group, between zeros, and multiplies the copy.
static HloStatus run_copied(const RangesKernel *kernel, void *const *arguments, CpuPool *pool) {
    const int width = hlo_type_bytes(kernel->types[0]);
    const CpuDotPacking *plan = &kernel->copy;
    char *copy = cpu_pool_scratch_take(pool, (size_t)plan->bytes);
    HLO_FAIL_IF(!copy, HLO_RESOURCE_EXHAUSTED, "no memory to copy %lld bytes of a product's operand",
                (long long)plan->bytes);
    cpu_fill(pool, copy, &(uint64_t){0}, plan->bytes / width, width);
    int64_t sizes[CPU_KERNEL_RANK_LIMIT];
    memcpy(sizes, plan->sizes, sizeof(int64_t) * (size_t)plan->rank);
    for (int64_t g = 0; g < kernel->ragged.groups; g++) {
        int64_t from, to;
        range_of(kernel, arguments, g, &from, &to);
        sizes[kernel->row] = to - from;
        if (from < to)
            cpu_copy_strided(pool, plan->rank, sizes, width,
                             copy + (g * kernel->group_stride + from * plan->to[kernel->row]) * width, plan->to,
                             (const char *)arguments[0] + from * plan->from[kernel->row] * width, plan->from);
    }
    void *const operands[] = {copy, arguments[1], arguments[4]};
    const HloStatus status = (kernel->packed ? cpu_dot_run_packed : cpu_dot_run)(kernel->whole, operands, pool);
    cpu_pool_scratch_give(pool, copy);
    return status;
}

// Looks at a part of the right side before each group's product, so that it is read from memory once.
static HloStatus run_ranges(const void *data, void *const *arguments, CpuPool *pool) {
    const RangesKernel *kernel = data;
    const char *const sides[] = {arguments[0], arguments[1]};
    const int64_t groups = kernel->ragged.groups;
    bool all;
    if (!ranges_are_apart(kernel, arguments, &all)) return run_copied(kernel, arguments, pool);
    if (!all) zero_result(&kernel->ragged, arguments[4], pool);
    for (int64_t g = 0; g < groups; g++) {
        const int64_t begin = kernel->right_elements / groups * g,
                      end = g + 1 < groups ? kernel->right_elements / groups * (g + 1) : kernel->right_elements;
        int64_t from, to;
        if (!is_finite(pool, kernel->types[1], sides[1] + begin * kernel->ragged.dot.widths[1], end - begin))
            return run_copied(kernel, arguments, pool);
        range_of(kernel, arguments, g, &from, &to);
        HLO_TRY(run_group(&kernel->ragged, sides, g, from, to, arguments[4], pool));
    }
    return HLO_SUCCESS;
}

// Plans the copy of the left side.
static CpuView plan_copy(HloArena *arena, const CpuNode *node, RangesKernel *kernel) {
    const CpuView *left = &node->views[0], copy = cpu_view_row_major(arena, left->rank, left->dims);
    const size_t size = sizeof(int64_t) * (size_t)left->rank;
    int64_t *sizes = hlo_arena_copy(arena, left->dims, size), elements = 1;
    for (int64_t d = 0; d < left->rank; d++) elements *= left->dims[d];
    sizes[node->ranges->group] = 1;
    kernel->copy = (CpuDotPacking){(int)left->rank, elements * hlo_type_bytes(kernel->types[0]), sizes,
                                   hlo_arena_copy(arena, left->strides, size), copy.strides};
    kernel->row = node->ranges->row;
    kernel->group_stride = copy.strides[node->ranges->group];
    return copy;
}

// Describes the dot without its groups as a ragged dot's, whose rows are those of the left side.
static bool plan_ragged(const CpuLowering *lowering, const CpuNode *node, RaggedKernel *kernel) {
    HloArena *arena = lowering->arena;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(node->instruction, Dot);
    const int64_t group = node->ranges->group, row = node->ranges->row;
    CpuView views[3] = {without_dimension(arena, node->views[0], group), node->views[1], node->views[2]};
    int64_t *lists = HLO_ARENA_NEW(arena, int64_t, 2), at = 0;
    while (dot->lhs_contracting.items[at] != group) at++;
    lists[0] = row - (row > group);
    lists[1] = dot->rhs_contracting.items[at];
    HloDotAttributes ragged = *dot;
    ragged.lhs_batch = without(arena, dot->lhs_batch, group);
    ragged.lhs_contracting = without(arena, dot->lhs_contracting, group);
    ragged.lhs_ragged = (HloInts){&lists[0], 1};
    ragged.rhs_group = (HloInts){&lists[1], 1};
    kernel->groups = node->views[0].dims[group];
    return plan_groups(lowering, node, &ragged, views, kernel);
}

// graph/simplify.c has ascertained that both forms exist.
HloStatus cpu_lower_ranges_dot(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    RangesKernel *kernel = HLO_ARENA_NEW(lowering->arena, RangesKernel, 1);
    for (int i = 0; i < 2; i++) kernel->types[i] = node->operands[i]->shape->type;
    kernel->bounds_type = node->operands[2]->shape->type;
    kernel->right_elements = node->operands[1]->elements;
    const CpuView views[3] = {plan_copy(lowering->arena, node, kernel), node->views[1], node->views[2]};
    kernel->whole = cpu_dot_plan(lowering, node, views, &kernel->packed);
    const bool fits = plan_ragged(lowering, node, &kernel->ragged);
    HLO_FAIL_IF(!kernel->whole || !fits, HLO_INTERNAL, "a product of ranges of rows has no kernel");
    cpu_step_kernel(lowering, node, step, run_ranges, kernel);
    step->cost = (double)node->results[0]->elements * (double)(kernel->ragged.dot.matmul.k / 16 + 1);
    return HLO_SUCCESS;
}
