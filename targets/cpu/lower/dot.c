// SPDX-License-Identifier: Apache-2.0
// Lowers dots to matrix products: dimensions of each role are merged if all arrays step through them evenly; dimensions
// that cannot be merged become loops.
//
// Every dimension of a dot has a role: batch (in all three arrays), m (left and result), n (right and result) or k
// (both operands, contracted). Per role, neighbours are merged if all arrays step through them evenly, so that most
// dots become a single product of matrices whatever their rank. Of the remaining ones, the largest dimension of each
// role is passed to the kernel (dense/matmul.h takes any strides, so that transposed operands need no copy), and the
// others become an outer loop nest. Only a sum over two dimensions that cannot be merged has no such form. One side, or
// both, are then packed:
//
//   left[i, a, j, b] * right[b, a, n], summed over b and a: left' = transpose(left) to [i, j, b, a], where b and a are
//   one
//
// unless the numbers to move are as many as the multiplications, where a fused loop does it.
//
// Numerics: on a TPU f32 operands are rounded to bf16 (one pass; `high` three, `highest` six), products with a single
// row or column stay in f32 (docs/accuracy.md).
#include <assert.h>
#include <string.h>

#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/element/copy.h"
#include "targets/cpu/lower/dot_plan.h"
#include "targets/cpu/lower/lower.h"

// Appends a dimension, merging it into the last one if that one's stride is this one's stride times its size in all
// three arrays. The order within a role is that of the dimension numbers, so a dimension can only merge with the one
// before it, which is all that row-major arrays can offer.
static void append(CpuDotDims *dims, CpuDotDim dim) {
    if (dim.size == 1) return;
    CpuDotDim *last = dims->count ? &dims->items[dims->count - 1] : NULL;
    bool merge = last != NULL;
    for (int i = 0; i < 3 && merge; i++) merge = last->strides[i] == dim.strides[i] * dim.size;
    if (!merge) {
        dims->items[dims->count++] = dim;
        return;
    }
    last->size *= dim.size;
    for (int i = 0; i < 3; i++) last->strides[i] = dim.strides[i];
}

// Returns a list with room for all dimensions of one role.
static CpuDotDims new_dims(HloArena *arena, int64_t count) {
    return (CpuDotDims){HLO_ARENA_NEW(arena, CpuDotDim, count + 1), 0};
}

// Sorts dimensions by role. The result's dimensions are batch, then the left side's free ones, then the right side's
// (HLO's definition of dot); `place` is the current one.
CpuDotRoles cpu_dot_sort(HloArena *arena, const HloDotAttributes *dot, const CpuView *views) {
    const CpuView *left = &views[0], *right = &views[1], *out = &views[2];
    const int64_t total = left->rank + right->rank;
    CpuDotRoles roles = {new_dims(arena, total), new_dims(arena, total), new_dims(arena, total),
                         new_dims(arena, total)};
    int64_t place = 0;
    for (int64_t i = 0; i < dot->lhs_batch.count; i++, place++) {
        const int64_t l = dot->lhs_batch.items[i], r = dot->rhs_batch.items[i];
        append(&roles.batch, (CpuDotDim){left->dims[l], {left->strides[l], right->strides[r], out->strides[place]}});
    }
    for (int64_t d = 0; d < left->rank; d++) {
        if (hlo_ints_contain(dot->lhs_batch, d) || hlo_ints_contain(dot->lhs_contracting, d)) continue;
        append(&roles.m, (CpuDotDim){left->dims[d], {left->strides[d], 0, out->strides[place++]}});
    }
    for (int64_t d = 0; d < right->rank; d++) {
        if (hlo_ints_contain(dot->rhs_batch, d) || hlo_ints_contain(dot->rhs_contracting, d)) continue;
        append(&roles.n, (CpuDotDim){right->dims[d], {0, right->strides[d], out->strides[place++]}});
    }
    for (int64_t i = 0; i < dot->lhs_contracting.count; i++) {
        const int64_t l = dot->lhs_contracting.items[i], r = dot->rhs_contracting.items[i];
        append(&roles.k, (CpuDotDim){left->dims[l], {left->strides[l], right->strides[r], 0}});
    }
    return roles;
}

CpuDotDim cpu_dot_take(CpuDotDims *dims, CpuDotKernel *kernel) {
    int64_t best = 0;
    for (int64_t i = 1; i < dims->count; i++)
        if (dims->items[i].size > dims->items[best].size) best = i;
    for (int64_t i = 0; i < dims->count; i++)
        if (i != best) kernel->outer[kernel->outer_count++] = dims->items[i];
    return dims->count ? dims->items[best] : (CpuDotDim){.size = 1};
}

// Returns the precision. An algorithm defines the computation exactly, so it comes before precision_config; "any" and
// f32 algorithms are exact. The higher of the two operands' precisions counts, as in XLA.
CpuPrecision cpu_lower_precision(const CpuLowering *lowering, const CpuNode *node, HloPrecisions precisions,
                                 int32_t algorithm, bool matrix_vector) {
    assert(node->operand_count >= 2 && precisions.count >= 0);
    const HloType left = node->operands[0]->shape->type, right = node->operands[1]->shape->type;
    const bool rounds =
        (left == HLO_F32 && (right == HLO_F32 || right == HLO_BF16)) || (left == HLO_BF16 && right == HLO_F32);
    if (!lowering->tpu_numerics || !rounds) return CPU_PRECISION_EXACT;
    switch (algorithm) {
        case HLO_DotAlgorithm_UNSET: break;
        case HLO_DotAlgorithm_BF16_BF16_BF16:
        case HLO_DotAlgorithm_BF16_BF16_F32: return CPU_PRECISION_BF16_1;
        case HLO_DotAlgorithm_BF16_BF16_F32_X3: return CPU_PRECISION_BF16_3;
        case HLO_DotAlgorithm_BF16_BF16_F32_X6:
        case HLO_DotAlgorithm_BF16_BF16_F32_X9:
            return CPU_PRECISION_BF16_6;  // three more passes, below the precision of f32
        default: return CPU_PRECISION_EXACT;
    }
    if (matrix_vector) return CPU_PRECISION_EXACT;
    int32_t highest = HLO_Precision_DEFAULT;
    for (int64_t i = 0; i < precisions.count; i++) {
        if (precisions.items[i] <= HLO_Precision_HIGHEST && precisions.items[i] > highest)
            highest = precisions.items[i];
    }
    if (highest == HLO_Precision_HIGHEST) return CPU_PRECISION_BF16_6;
    return highest == HLO_Precision_HIGH ? CPU_PRECISION_BF16_3 : CPU_PRECISION_BF16_1;
}

// Returns the precision of a dot; convolutions call cpu_lower_precision() themselves.
CpuPrecision cpu_dot_precision(const CpuLowering *lowering, const CpuNode *node, bool matrix_vector) {
    const HloDotAttributes *dot = HLO_ATTRIBUTES(node->instruction, Dot);
    return cpu_lower_precision(lowering, node, dot->precision, dot->algorithm, matrix_vector);
}

// Runs the product at every index of the outer loops. `matmul` is the kernel's, possibly with other sizes. `index` has
// room for the free dimensions of two arrays of maximum rank. Addresses change by differences, like an odometer; an
// outer dimension of size 0 means that there is nothing to do.
HloStatus cpu_dot_run_products(const CpuDotKernel *kernel, const CpuMatmul *matmul, const char *left, const char *right,
                               char *out, CpuPool *pool) {
    if (kernel->outer_count == 0)
        return cpu_matmul(pool, matmul, out, kernel->swapped ? right : left, kernel->swapped ? left : right);
    int64_t index[2 * 64] = {0};
    for (int64_t d = 0; d < kernel->outer_count;) {
        if (kernel->outer[d++].size == 0) return HLO_SUCCESS;
    }
    for (;;) {
        HLO_TRY(cpu_matmul(pool, matmul, out, kernel->swapped ? right : left, kernel->swapped ? left : right));
        int64_t d = 0;
        for (; d < kernel->outer_count; d++) {
            const CpuDotDim *dim = &kernel->outer[d];
            const int64_t step = ++index[d] < dim->size ? 1 : 1 - dim->size;
            left += step * dim->strides[CPU_DOT_LEFT] * kernel->widths[CPU_DOT_LEFT];
            right += step * dim->strides[CPU_DOT_RIGHT] * kernel->widths[CPU_DOT_RIGHT];
            out += step * dim->strides[CPU_DOT_OUT] * kernel->widths[CPU_DOT_OUT];
            if (step == 1) break;
            index[d] = 0;
        }
        if (d == kernel->outer_count) return HLO_SUCCESS;
    }
}

HloStatus cpu_dot_run(const void *data, void *const *arguments, CpuPool *pool) {
    const CpuDotKernel *kernel = data;
    return cpu_dot_run_products(kernel, &kernel->matmul, arguments[0], arguments[1], arguments[2], pool);
}

HloStatus cpu_dot_run_packed(const void *data, void *const *arguments, CpuPool *pool) {
    const CpuDotKernel *kernel = data;
    const char *sides[2] = {arguments[0], arguments[1]};
    char *copies[2] = {NULL, NULL};
    HloStatus status = NULL;
    for (int i = 0; i < 2 && !status; i++) {
        const CpuDotPacking *packing = &kernel->packing[i];
        if (!packing->bytes) continue;
        sides[i] = copies[i] = cpu_pool_scratch_take(pool, (size_t)packing->bytes);
        if (copies[i])
            cpu_copy_strided(pool, packing->rank, packing->sizes, (int)kernel->widths[i], copies[i], packing->to,
                             arguments[i], packing->from);
        else
            status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to pack %lld bytes of a product's operand",
                               (long long)packing->bytes);
    }
    if (!status) status = cpu_dot_run_products(kernel, &kernel->matmul, sides[0], sides[1], arguments[2], pool);
    for (int i = 0; i < 2; i++)
        if (copies[i]) cpu_pool_scratch_give(pool, copies[i]);
    return status;
}

// Runs a dot that is one small product: see CpuSmallKernel.
static void run_small_dot(void *out, const void *left, const void *right, const void *third, int64_t n, int64_t data) {
    const CpuDotKernel *kernel = (const CpuDotKernel *)(intptr_t)data;
    (void)third, (void)n;
    cpu_matmul_small(kernel->small, out, kernel->swapped ? right : left, kernel->swapped ? left : right);
}

bool cpu_dot_has_kernel(HloType type) {
    return type != HLO_PRED && (hlo_type_is_float(type) || hlo_type_is_complex(type) || hlo_type_is_integer(type));
}

// Swaps the sides: a result that is stored column by column is the transposed product, row by row.
static void swap_sides(CpuMatmul *matmul) {
    const CpuMatmul from = *matmul;
    matmul->lhs_type = from.rhs_type;
    matmul->rhs_type = from.lhs_type;
    matmul->m = from.n;
    matmul->n = from.m;
    matmul->lhs_batch_stride = from.rhs_batch_stride;
    matmul->rhs_batch_stride = from.lhs_batch_stride;
    matmul->lhs_m_stride = from.rhs_n_stride;
    matmul->lhs_k_stride = from.rhs_k_stride;
    matmul->rhs_n_stride = from.lhs_m_stride;
    matmul->rhs_k_stride = from.lhs_k_stride;
    matmul->out_m_stride = from.out_n_stride;
    matmul->out_n_stride = from.out_m_stride;
}

void cpu_dot_fill(CpuMatmul *matmul, CpuDotDim batch, CpuDotDim m, CpuDotDim n, CpuDotDim k) {
    assert(matmul);
    matmul->batch = batch.size;
    matmul->m = m.size;
    matmul->n = n.size;
    matmul->k = k.size;
    matmul->lhs_batch_stride = batch.strides[CPU_DOT_LEFT];
    matmul->rhs_batch_stride = batch.strides[CPU_DOT_RIGHT];
    matmul->out_batch_stride = batch.strides[CPU_DOT_OUT];
    matmul->lhs_m_stride = m.strides[CPU_DOT_LEFT];
    matmul->out_m_stride = m.strides[CPU_DOT_OUT];
    matmul->rhs_n_stride = n.strides[CPU_DOT_RIGHT];
    matmul->out_n_stride = n.strides[CPU_DOT_OUT];
    matmul->lhs_k_stride = k.strides[CPU_DOT_LEFT];
    matmul->rhs_k_stride = k.strides[CPU_DOT_RIGHT];
}

// Lowers a product whose contracting dimensions cannot be merged, or of a type without a kernel, as a reduction over
// the product of two loads. It is slower, but works for any form of dot.
static HloStatus lower_as_loop(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const CpuDotRoles roles = cpu_dot_sort(lowering->arena, HLO_ATTRIBUTES(node->instruction, Dot), node->views);
    const CpuPrecision precision = cpu_dot_precision(lowering, node, roles.m.count == 0 || roles.n.count == 0);
    CpuFusedLoop *loop = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 1);
    CpuEmitFailure failure = {0};
    HloStatus status;
    const HloStatus emitted = cpu_emit_dot(lowering->arena, lowering->features, node, precision, loop, &failure);
    if (cpu_lower_emitted(lowering, node, emitted, &failure, &status)) cpu_step_loops(lowering, step, loop, 1);
    return status;
}

// Whether the dot is a batch of products of short vectors: the call of a kernel for each would be most of the time.
static bool is_of_short_vectors(const CpuDotKernel *kernel) {
    enum { kShortVector = 64 };
    const CpuMatmul *mm = &kernel->matmul;
    return mm->batch > 1 && mm->m == 1 && mm->n == 1 && mm->k <= kShortVector && hlo_type_is_float(mm->lhs_type) &&
           hlo_type_is_float(mm->rhs_type) && hlo_type_is_float(mm->out_type);
}

// ---- sums over dimensions that cannot be merged

// Returns the contracting dimensions of one side as indices into the list, from the most major in memory to the most
// minor.
static int64_t *order_in_memory(HloArena *arena, const CpuView *view, HloInts summed) {
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, summed.count);
    for (int64_t i = 0; i < summed.count; i++) {
        int64_t at = i;
        for (; at > 0 && view->strides[summed.items[order[at - 1]]] < view->strides[summed.items[i]]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

// Whether the dimensions merge into one in this order.
static bool merges(const CpuView *view, HloInts summed, const int64_t *order) {
    int64_t major = -1;
    for (int64_t i = 0; i < summed.count; i++) {
        const int64_t d = summed.items[order[i]];
        if (view->dims[d] == 1) continue;
        if (major >= 0 && view->strides[major] != view->strides[d] * view->dims[d]) return false;
        major = d;
    }
    return true;
}

static HloInts reordered(HloArena *arena, HloInts list, const int64_t *order) {
    int64_t *items = HLO_ARENA_NEW(arena, int64_t, list.count);
    for (int64_t i = 0; i < list.count; i++) items[i] = list.items[order[i]];
    return (HloInts){items, list.count};
}

// Plans a copy of a side that ends with the contracting dimensions in the order of their list, and returns the view of
// the copy.
static CpuView pack_side(HloArena *arena, const CpuView *view, HloInts batch, HloInts summed, int64_t width,
                         CpuDotPacking *packing) {
    const int64_t rank = view->rank;
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, 5 * rank), *sizes = order + rank, *from = sizes + rank,
            *to = from + rank, *strides = to + rank;
    int64_t place = 0, elements = 1;
    for (int64_t i = 0; i < batch.count; i++) order[place++] = batch.items[i];
    for (int64_t d = 0; d < rank; d++)
        if (!hlo_ints_contain(batch, d) && !hlo_ints_contain(summed, d)) order[place++] = d;
    for (int64_t i = 0; i < summed.count; i++) order[place++] = summed.items[i];
    assert(place == rank);
    while (place-- > 0) {
        const int64_t d = order[place];
        sizes[place] = view->dims[d];
        from[place] = view->strides[d];
        to[place] = strides[d] = elements;
        elements *= view->dims[d];
    }
    *packing = (CpuDotPacking){(int)rank, elements * width, sizes, from, to};
    return (CpuView){rank, view->dims, strides};
}

// Copies the smaller side if the other's contracting dimensions merge into one in some order, else both; `dot` and
// `views` then describe the dot of the copies. Returns false if a loop is as good.
static bool plan_packing(HloArena *arena, const CpuNode *node, HloDotAttributes *dot, CpuView *views,
                         CpuDotPacking *packing) {
    const HloInts summed[2] = {dot->lhs_contracting, dot->rhs_contracting}, batch[2] = {dot->lhs_batch, dot->rhs_batch};
    const double elements[2] = {(double)node->operands[0]->elements, (double)node->operands[1]->elements};
    int64_t *orders[2];
    bool fits[2];
    double multiplications = (double)node->results[0]->elements;
    for (int64_t i = 0; i < summed[0].count; i++) multiplications *= (double)views[0].dims[summed[0].items[i]];
    for (int i = 0; i < 2; i++) {
        orders[i] = order_in_memory(arena, &views[i], summed[i]);
        fits[i] = merges(&views[i], summed[i], orders[i]);
    }
    const int kept = fits[0] && (!fits[1] || elements[0] >= elements[1]) ? 0 : fits[1] ? 1 : -1;
    const double moved = kept < 0 ? elements[0] + elements[1] : elements[1 - kept];
    if (multiplications < CPU_COPY_MULTIPLICATIONS || multiplications < CPU_COPY_REUSE * moved) return false;
    const int64_t *order = orders[kept < 0 ? 0 : kept];
    dot->lhs_contracting = reordered(arena, summed[0], order);
    dot->rhs_contracting = reordered(arena, summed[1], order);
    for (int i = 0; i < 2; i++) {
        const HloInts list = i ? dot->rhs_contracting : dot->lhs_contracting;
        const int64_t width = hlo_type_bytes(node->operands[i]->shape->type);
        if (i != kept) views[i] = pack_side(arena, &views[i], batch[i], list, width, &packing[i]);
    }
    return true;
}

CpuDotKernel *cpu_dot_plan(const CpuLowering *lowering, const CpuNode *node, const CpuView *of, bool *packed) {
    HloArena *arena = lowering->arena;
    HloDotAttributes dot = *HLO_ATTRIBUTES(node->instruction, Dot);
    CpuView views[3] = {of[0], of[1], of[2]};
    CpuDotRoles roles = cpu_dot_sort(arena, &dot, views);
    // The chip's compiler ignores dimensions of size 1.
    const CpuPrecision precision = cpu_dot_precision(lowering, node, roles.m.count == 0 || roles.n.count == 0);
    const HloType types[3] = {node->operands[0]->shape->type, node->operands[1]->shape->type,
                              node->results[0]->shape->type};
    const bool products = cpu_dot_has_kernel(types[0]) && cpu_dot_has_kernel(types[1]) && cpu_dot_has_kernel(types[2]);
    CpuDotPacking packing[2] = {{0}, {0}};
    *packed = products && roles.k.count > 1 && plan_packing(arena, node, &dot, views, packing);
    if (*packed) roles = cpu_dot_sort(arena, &dot, views);
    if (!products || roles.k.count > 1) return NULL;
    CpuDotKernel *kernel = HLO_ARENA_NEW(arena, CpuDotKernel, 1);
    memcpy(kernel->packing, packing, sizeof packing);
    kernel->outer = HLO_ARENA_NEW(arena, CpuDotDim, roles.batch.count + roles.m.count + roles.n.count);
    kernel->batch = cpu_dot_take(&roles.batch, kernel);
    kernel->m = cpu_dot_take(&roles.m, kernel);
    kernel->n = cpu_dot_take(&roles.n, kernel);
    kernel->k = cpu_dot_take(&roles.k, kernel);
    kernel->matmul =
        (CpuMatmul){.lhs_type = types[0], .rhs_type = types[1], .out_type = types[2], .precision = precision};
    cpu_dot_fill(&kernel->matmul, kernel->batch, kernel->m, kernel->n, kernel->k);
    kernel->swapped = kernel->m.size > 1 && kernel->matmul.out_m_stride == 1 && kernel->matmul.out_n_stride != 1;
    if (kernel->swapped) swap_sides(&kernel->matmul);
    for (int i = 0; i < 3; i++) kernel->widths[i] = hlo_type_bytes(types[i]);
    return kernel;
}

// Views are NULL if an operand is not laid out by plain strides; the node is then lowered again after its operands have
// been stored (retry).
HloStatus cpu_lower_dot(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == (node->ranges ? 4 : 2) && node->result_count == 1);
    if (node->ranges) return cpu_lower_ranges_dot(lowering, node, step);
    if (!node->views) {
        node->state = CPU_NODE_FALLBACK;
        lowering->retry = true;
        return HLO_SUCCESS;
    }
    bool packed;
    CpuDotKernel *kernel = cpu_dot_plan(lowering, node, node->views, &packed);
    if (!kernel || is_of_short_vectors(kernel)) return lower_as_loop(lowering, node, step);
    cpu_step_kernel(lowering, node, step, packed ? cpu_dot_run_packed : cpu_dot_run, kernel);
    if (kernel->outer_count == 0 && !packed)
        kernel->small = cpu_matmul_plan_small(lowering->arena, lowering->features, &kernel->matmul);
    if (kernel->small) {
        CpuSmallProduct *product = HLO_ARENA_NEW(lowering->arena, CpuSmallProduct, 1);
        *product = (CpuSmallProduct){kernel->small, kernel->swapped};
        step->small = run_small_dot;
        step->product = product;
    }
    step->cost = (double)node->results[0]->elements * (double)(kernel->matmul.k / 16 + 1);
    return HLO_SUCCESS;
}

const CpuDotKernel *cpu_dot_kernel(const CpuStep *step) {
    return step->kind == CPU_STEP_KERNEL && step->run == cpu_dot_run ? step->kernel : NULL;
}
