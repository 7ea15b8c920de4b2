// SPDX-License-Identifier: Apache-2.0
// Lowers nodes to steps: loops, structure and ops without a form of their own.
//
// A step is a unit of execution: fused loops, a kernel on whole arrays, a collective, a nested list. lower_region()
// walks the nodes of a region; nodes whose values are computed inside other loops have no step. Ops that loops support
// become one (lower_elementwise), other opcodes have a row in kLowerRows, and the evaluator runs the rest
// (cpu_lower_fallback).
//
//     %m = multiply(%a, %b); %s = add(%m, %c); %r = reduce(%s)
//     fuse.c gives a buffer only to %r: one step, a loop that multiplies, adds and reduces
//
// Fusion decides without emitting, so emitting may fail: an array turns out to need a buffer, or a node a loop of its
// own. Then it is marked and lowering starts again (`retry`). Every pass marks something that was not marked before, so
// this terminates.
#include "targets/cpu/lower/lower.h"
#include "hlo/analysis/loop.h"
#include "hlo/base/arithmetic.h"
#include "hlo/ir/transfer.h"

#include <assert.h>

#include "targets/cpu/element/copy.h"
#include "targets/cpu/graph/match.h"
#include "targets/cpu/isa/move.h"
#include "targets/cpu/lower/bands.h"
#include "targets/cpu/lower/fallbacks.h"
#include "targets/cpu/lower/fuse.h"

static HloStatus lower_region(CpuLowering *lowering, CpuRegion *region, CpuSteps *steps);

// ---- the evaluator

// Leaves the node to the evaluator. The cost only guides scheduling: the evaluator is assumed to be 50 times slower per
// element than a kernel.
HloStatus cpu_lower_fallback(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    // "mhlo.tan" of integers: only an op's verifier rejects types, a custom call may have any.
    const bool by_name = hlo_is(node->instruction, HLO_OP_CUSTOM_CALL) && node->opcode != HLO_OP_CUSTOM_CALL;
    HLO_FAIL_IF(by_name, HLO_UNIMPLEMENTED, "%%%s: %s of %s", node->instruction->name, hlo_op_text(node->opcode),
                hlo_type_text(node->results[0]->shape->type));
    // Some programs get here too, such as a set-dimension-size whose result has no dynamic size. For all others,
    // tests/cpu/test_every_op.c checks the table.
    HLO_FAIL_IF(!cpu_fallback_reason(node->opcode), HLO_UNIMPLEMENTED, "%%%s: %s in this form", node->instruction->name,
                hlo_op_text(node->opcode));
    step->kind = CPU_STEP_FALLBACK;
    cpu_step_operands(lowering, node, step);
    step->cost *= 50;
    hlo_vector_push(lowering->arena, &lowering->fallbacks, node);
    return HLO_SUCCESS;
}

// ---- loops

// Completes a step from the `count` loops that emission functions have filled in, or handles their failure.
static HloStatus end_loops(CpuLowering *lowering, CpuNode *node, CpuStep *step, HloStatus emitted,
                           const CpuEmitFailure *failure, const CpuFusedLoop *loops, int32_t count) {
    HloStatus status;
    if (cpu_lower_emitted(lowering, node, emitted, failure, &status)) cpu_step_loops(lowering, step, loops, count);
    return status;
}

// Transposes an array in memory.
typedef struct TransposeKernel {
    int rank, width;
    const int64_t *sizes, *to, *from;
} TransposeKernel;

static HloStatus run_transpose(const void *data, void *const *arguments, CpuPool *pool) {
    const TransposeKernel *k = data;
    cpu_copy_strided(pool, k->rank, k->sizes, k->width, arguments[1], k->to, arguments[0], k->from);
    return HLO_SUCCESS;
}

// Returns strides in elements.
static const int64_t *row_major_strides(HloArena *arena, const HloShape *shape) {
    return cpu_view_row_major(arena, shape->rank, shape->dims).strides;
}

// Copies large transposed arrays block by block, as a loop over a transposed operand would touch another cache line
// with every element. Small arrays fit in the cache, and are better fused with their readers.
static HloStatus lower_transpose(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(step);
    const HloInts permutation = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions;
    const HloShape *from = node->operands[0]->shape, *to = node->results[0]->shape;
    const int64_t *strides = row_major_strides(lowering->arena, from);
    int64_t *permuted = HLO_ARENA_NEW(lowering->arena, int64_t, from->rank);
    for (int64_t i = 0; i < permutation.count; i++) permuted[i] = strides[permutation.items[i]];
    TransposeKernel *kernel = HLO_ARENA_NEW(lowering->arena, TransposeKernel, 1);
    *kernel = (TransposeKernel){to->rank, hlo_type_bytes(to->type),
                                hlo_arena_copy(lowering->arena, to->dims, sizeof(int64_t) * (size_t)to->rank),
                                row_major_strides(lowering->arena, to), permuted};
    cpu_step_kernel(lowering, node, step, run_transpose, kernel);
    return HLO_SUCCESS;
}

// Emits a loop over rows. If this fails, the reductions of the rows get separate loops.
static HloStatus lower_rows(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    CpuFusedLoop *loop = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 1);
    CpuEmitFailure failure = {0};
    const HloStatus emitted = cpu_emit_rows(lowering->arena, lowering->features, node, loop, &failure);
    return end_loops(lowering, node, step, emitted, &failure, loop, 1);
}

// A part of an elementwise domain: its bounds by dimension, as `trim` of cpu_emit_elementwise().
typedef struct Part {
    int64_t *trim;
} Part;

static Part copy_part(HloArena *arena, Part part, int64_t rank) {
    return (Part){hlo_arena_copy(arena, part.trim, sizeof(int64_t) * 2 * (size_t)rank)};
}

// Emits one loop for parts that are the columns of an array of few: a loop of each would touch every cache line, and
// write element by element (loop/merge.c). Returns false if they are not.
static bool lower_columns(CpuLowering *lowering, CpuNode *node, const Part *parts, int32_t count, CpuFusedLoop *loop) {
    const HloShape *shape = node->results[0]->shape;
    const int64_t last = shape->rank - 1;
    if (count > CPU_MOVE_MOST || count != shape->dims[last]) return false;
    const int64_t *trims[CPU_MOVE_MOST];
    for (int32_t i = 0; i < count; i++) {
        trims[i] = parts[i].trim;
        for (int64_t d = 0; d < last; d++)
            if (trims[i][2 * d] != 0 || trims[i][2 * d + 1] != shape->dims[d]) return false;
    }
    CpuEmitFailure failure = {0};
    const HloStatus emitted =
        cpu_emit_parts(lowering->arena, lowering->features, count, node->results[0], trims, loop, &failure);
    hlo_status_free(emitted);
    return !emitted;
}

// Emits one loop for each part of the domain in which the expression reads one piece of each concatenation and pad. If
// these are too many or too small, the one that asks for the last cut gets a buffer.
static HloStatus lower_in_parts(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    enum { kMostParts = 32, kLeastElements = 64 };
    HloArena *arena = lowering->arena;
    const HloShape *shape = node->results[0]->shape;
    const int64_t fewest = node->results[0]->elements / kLeastElements,
                  most = fewest < kMostParts ? fewest : kMostParts;
    CpuFusedLoop *loops = HLO_ARENA_NEW(arena, CpuFusedLoop, kMostParts);
    Part parts[kMostParts] = {{HLO_ARENA_NEW(arena, int64_t, 2 * shape->rank)}}, done[kMostParts];
    for (int64_t d = 0; d < shape->rank; d++) parts[0].trim[2 * d + 1] = shape->dims[d];
    const CpuStoreBox box = {0};  // no result takes the place of an operand: other loops read it too
    int32_t count = 0, left = 1;
    while (left > 0) {
        CpuEmitFailure failure = {0};
        const Part part = parts[--left];
        HloStatus emitted = cpu_emit_elementwise(arena, lowering->features, 1, node->results, node->results, &box,
                                                 part.trim, &loops[count], &failure);
        if (!emitted) {
            done[count++] = part;
            continue;
        }
        if (!failure.cut_at || count + left + 2 > most)
            return end_loops(lowering, node, step, emitted, &failure, NULL, 0);
        hlo_status_free(emitted);
        const Part other = copy_part(arena, part, shape->rank);
        const int64_t at = part.trim[2 * failure.cut_dimension] + failure.cut_at;
        part.trim[2 * failure.cut_dimension + 1] = other.trim[2 * failure.cut_dimension] = at;
        parts[left++] = part;
        parts[left++] = other;
    }
    if (lower_columns(lowering, node, done, count, &loops[0])) count = 1;
    return end_loops(lowering, node, step, HLO_SUCCESS, NULL, loops, count);
}

// Lowers results that need a buffer only: intermediate values without one are computed inside the same loop and have no
// step of their own.
static HloStatus lower_elementwise(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    enum { kWorthBlocking = 4096 };
    if (node->row_shape) return lower_rows(lowering, node, step);
    if (node->opcode == HLO_OP_TRANSPOSE && cpu_array_root(node->operands[0])->materialized &&
        node->results[0]->elements >= kWorthBlocking)
        return lower_transpose(lowering, node, step);
    CpuFusedLoop *loop = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 1);
    CpuEmitFailure failure = {0};
    const HloStatus emitted = cpu_emit_elementwise(lowering->arena, lowering->features, 1, node->results, node->results,
                                                   NULL, NULL, loop, &failure);
    if (emitted && failure.cut_at) {
        hlo_status_free(emitted);
        return lower_in_parts(lowering, node, step);
    }
    return end_loops(lowering, node, step, emitted, &failure, loop, 1);
}

// Emits a reduction. If its computation contains a loop, it cannot be emitted inside a fused loop, and the evaluator
// runs it.
HloStatus cpu_lower_reduce(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    bool largest;
    if (cpu_match_argminmax(node, &largest)) return cpu_lower_argminmax(lowering, node, step);
    if (node->row_shape) return lower_rows(lowering, node, step);
    if (!cpu_emit_can_inline_computation(node->instruction->called[0])) return cpu_lower_give_up(lowering, node);
    CpuFusedLoop *loop = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 1);
    CpuEmitFailure failure = {0};
    const HloStatus emitted = cpu_emit_reduce(lowering->arena, lowering->features, node, loop, &failure);
    return end_loops(lowering, node, step, emitted, &failure, loop, 1);
}

// Whether the pieces are the columns of an array of few.
static bool are_columns(const CpuNode *node) {
    const HloShape *shape = node->results[0]->shape;
    return shape->rank > 0 && shape->dims[shape->rank - 1] == node->operand_count &&
           node->operands[0]->shape->dims[shape->rank - 1] == 1;
}

// Returns whether one loop can compute all pieces: few expressions over the same dims, which mostly read the same
// arrays, or are columns (coordinates of points).
static bool has_equal_pieces(const CpuNode *node) {
    enum { kMostPieces = 4 };
    const HloShape *first = node->operands[0]->shape;
    if (node->operand_count < 2 || node->operand_count > kMostPieces) return false;
    for (int32_t i = 0; i < node->operand_count; i++) {
        CpuArray *piece = node->operands[i];
        const bool in_memory = cpu_array_root(piece)->materialized || piece->materialized;
        if ((in_memory && !are_columns(node)) || piece->elements == 0) return false;
        for (int64_t d = 0; d < first->rank; d++)
            if (piece->shape->dims[d] != first->dims[d]) return false;
    }
    return true;
}

// Emits one loop for all pieces if these are equal, else one loop per piece.
HloStatus cpu_lower_concatenate(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(step && node->result_count == 1);
    HloArena *arena = lowering->arena;
    CpuFusedLoop *loops = HLO_ARENA_NEW(arena, CpuFusedLoop, node->operand_count);
    CpuEmitFailure failure = {0};
    const int64_t dimension = HLO_ATTRIBUTES(node->instruction, Dimensions)->dimensions.items[0];
    const int64_t rank = node->results[0]->shape->rank;
    CpuStoreBox *boxes = HLO_ARENA_NEW(arena, CpuStoreBox, node->operand_count);
    CpuArray **targets = HLO_ARENA_NEW(arena, CpuArray *, node->operand_count);
    for (int64_t i = 0, start = 0; i < node->operand_count; start += node->operands[i++]->shape->dims[dimension]) {
        int64_t *offset = HLO_ARENA_NEW(arena, int64_t, rank);
        offset[dimension] = start;
        boxes[i].offset = offset;
        targets[i] = node->results[0];
    }
    HloStatus emitted = HLO_SUCCESS;
    if (has_equal_pieces(node)) {
        emitted = cpu_emit_elementwise(arena, lowering->features, node->operand_count, node->operands, targets, boxes,
                                       NULL, &loops[0], &failure);
        if (!emitted || hlo_status_code(emitted) == HLO_ABORTED)
            return end_loops(lowering, node, step, emitted, &failure, loops, 1);
        hlo_status_free(emitted);
        emitted = HLO_SUCCESS;
    }
    int32_t count = 0;
    for (int32_t i = 0; i < node->operand_count && !emitted; i++)
        if (node->operands[i]->elements > 0)
            emitted = cpu_emit_elementwise(arena, lowering->features, 1, &node->operands[i], targets, &boxes[i], NULL,
                                           &loops[count++], &failure);
    return end_loops(lowering, node, step, emitted, &failure, loops, count);
}

// Finds the part of the operand that ends up in the result; returns false if there is none.
static bool pad_trim(const HloPadDimension *padding, const HloShape *from, const HloShape *to, int64_t *trim) {
    assert(from->rank == to->rank && trim);
    bool some = true;
    for (int64_t d = 0; d < from->rank; d++) {
        const int64_t step = padding[d].interior + 1, low = padding[d].low, room = to->dims[d] - 1 - low;
        const int64_t begin = low < 0 ? hlo_divide_up(-low, step) : 0;
        const int64_t end = room < 0 ? 0 : room / step + 1;
        trim[2 * d] = begin;
        trim[2 * d + 1] = end < from->dims[d] ? end : from->dims[d];
        some = some && trim[2 * d] < trim[2 * d + 1];
    }
    return some;
}

// Fills the whole result with the padding value, then stores the operand over it in a box with gaps for interior
// padding.
HloStatus cpu_lower_pad(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count == 2);
    const HloPadding padding = HLO_ATTRIBUTES(node->instruction, Pad)->padding;
    CpuArray *operand = node->operands[0], *result = node->results[0];
    const int64_t rank = operand->shape->rank;
    CpuFusedLoop *loops = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 2);
    int64_t *offset = HLO_ARENA_NEW(lowering->arena, int64_t, 4 * rank + 1);
    int64_t *stride = offset + rank, *trim = stride + rank;
    for (int64_t d = 0; d < rank; d++) {
        offset[d] = padding.items[d].low;
        stride[d] = padding.items[d].interior + 1;
    }
    CpuEmitFailure failure = {0};
    int32_t count = 1;
    HloStatus emitted =
        cpu_emit_fill(lowering->arena, lowering->features, node->operands[1], result, &loops[0], &failure);
    if (!emitted && pad_trim(padding.items, operand->shape, result->shape, trim)) {
        const CpuStoreBox box = {.offset = offset, .step = stride};
        emitted = cpu_emit_elementwise(lowering->arena, lowering->features, 1, &operand, &result, &box, trim,
                                       &loops[count++], &failure);
    }
    return end_loops(lowering, node, step, emitted, &failure, loops, count);
}

// Whether both are the same number whatever it is.
static bool same_index(CpuArray *a, CpuArray *b) {
    if (a->literal && b->literal)
        return hlo_literal_get_int64(a->literal, 0) == hlo_literal_get_int64(b->literal, 0) &&
               a->shape->type == b->shape->type;
    return cpu_array_root(a) == cpu_array_root(b);
}

// Whether two slices begin at the same position whatever the indices are.
static bool same_starts(const CpuDynamicStart *a, const CpuDynamicStart *b, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const bool same = a[i].limit == 0 || same_index(a[i].index, b[i].index);
        if (!same || a[i].limit != b[i].limit || a[i].stride_bytes != b[i].stride_bytes) return false;
    }
    return true;
}

// Whether the loop reads only the elements of the array that it overwrites, each in the iteration that does:
// x.at[i].set(where(valid, y, x[i])).
static bool updates_what_it_reads(const CpuFusedLoop *loop, const CpuArray *array, const CpuStoreBox *box) {
    for (int32_t i = 0; i < loop->buffer_count; i++) {
        const CpuLoopBuffer *buffer = &loop->buffers[i];
        if (buffer->array != array || buffer->written) continue;
        if (!buffer->in_place || buffer->start_count != box->start_count) return false;
        if (!same_starts(buffer->starts, box->starts, box->start_count)) return false;
    }
    for (int32_t i = 0; i < box->start_count; i++)
        if (cpu_array_root(box->starts[i].index) == array) return false;
    return true;
}

// Returns where an update writes. If the starts are constants, the box is known now, and the loop may read the array
// through a slice of the same elements.
static CpuStoreBox update_box(HloArena *arena, const CpuNode *node) {
    const HloShape *whole = node->operands[0]->shape, *part = node->operands[1]->shape;
    CpuDynamicStart *starts = HLO_ARENA_NEW(arena, CpuDynamicStart, whole->rank + 1);
    int64_t *offset = HLO_ARENA_NEW(arena, int64_t, whole->rank + 1);
    bool known = true;
    int64_t stride = hlo_type_bytes(whole->type);
    for (int64_t d = whole->rank; d-- > 0;) {
        CpuArray *index = node->operands[2 + d];
        const int64_t limit = whole->dims[d] - part->dims[d];
        starts[d] = (CpuDynamicStart){index, limit, stride};
        stride *= whole->dims[d];
        known = known && index->literal;
        offset[d] = index->literal ? hlo_literal_get_int64(index->literal, 0) : 0;
        const bool huge = hlo_type_kind(index->shape->type) == HLO_KIND_UNSIGNED && offset[d] < 0;
        offset[d] = huge || offset[d] > limit ? limit : offset[d] < 0 ? 0 : offset[d];
    }
    return (CpuStoreBox){.offset = known ? offset : NULL, .starts = starts, .start_count = known ? 0 : whole->rank};
}

// Moves the operand to the result's memory (often it is already there), then writes the update over it.
HloStatus cpu_lower_dynamic_update_slice(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    assert(node->operand_count >= 2);
    CpuArray *operand = node->operands[0], *update = node->operands[1];
    const CpuStoreBox box = update_box(lowering->arena, node);
    CpuFusedLoop *loop = HLO_ARENA_NEW(lowering->arena, CpuFusedLoop, 1);
    CpuEmitFailure failure = {0};
    const HloStatus emitted = cpu_emit_elementwise(lowering->arena, lowering->features, 1, &update, node->results, &box,
                                                   NULL, loop, &failure);
    HLO_TRY(end_loops(lowering, node, step, emitted, &failure, loop, 1));
    if (emitted) return HLO_SUCCESS;
    CpuArray *root = cpu_array_root(operand);
    CpuArray **reads = HLO_ARENA_NEW(lowering->arena, CpuArray *, step->read_count + 1);
    reads[0] = root;
    for (int32_t i = 0; i < step->read_count; i++) reads[i + 1] = step->reads[i];
    step->reads = reads;
    step->read_count++;
    step->kind = CPU_STEP_COPY_LOOPS;
    step->update_in_place = updates_what_it_reads(loop, root, &box) ? 0 : -1;
    return HLO_SUCCESS;
}

// ---- structure

// Assumed iterations of a loop whose trip count is unknown: enough that a body of some size does not run on the thread
// of a caller who wants to continue, few enough that a loop over a few scalars still does.
enum { kUnknownIterations = 1000 };

// Returns the trip count if it can be derived from the loop.
static double iterations_of(const CpuNode *node) {
    const int64_t known = node->opcode == HLO_OP_WHILE ? hlo_trip_count(node->instruction) : 1;
    return known < 0 ? kUnknownIterations : (double)known;
}

// Lowers the regions of a while or conditional. The cost of a conditional counts all branches, though only one of them
// runs.
HloStatus cpu_lower_regions(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    step->kind = node->opcode == HLO_OP_WHILE ? CPU_STEP_WHILE : CPU_STEP_CONDITIONAL;
    cpu_step_operands(lowering, node, step);
    step->regions = HLO_ARENA_NEW(lowering->arena, CpuSteps, node->region_count);
    double one_iteration = 0;
    for (int32_t i = 0; i < node->region_count; i++) {
        HLO_TRY(lower_region(lowering, node->regions[i], &step->regions[i]));
        for (int64_t k = 0; k < step->regions[i].steps.count; k++)
            one_iteration += step->regions[i].steps.items[k].cost;
    }
    step->cost += one_iteration * iterations_of(node);
    return HLO_SUCCESS;
}

HloStatus cpu_lower_device_id(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    step->kind = CPU_STEP_DEVICE_ID;
    cpu_step_operands(lowering, node, step);
    return HLO_SUCCESS;
}

// Lowers random numbers. The factor in the cost represents the generator's work; it only guides scheduling.
HloStatus cpu_lower_draw(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    CpuDraw *draw = HLO_ARENA_NEW(lowering->arena, CpuDraw, 1);
    draw->shape = hlo_shape_copy(lowering->arena, node->results[0]->shape);
    draw->is_state = node->opcode == HLO_OP_RNG_GET_AND_UPDATE_STATE;
    if (draw->is_state)
        draw->delta = (uint64_t)HLO_ATTRIBUTES(node->instruction, RngState)->delta;
    else
        draw->normal = HLO_ATTRIBUTES(node->instruction, Rng)->distribution == HLO_RandomDistribution_NORMAL;
    step->kind = CPU_STEP_DRAW;
    step->kernel = draw;
    cpu_step_operands(lowering, node, step);
    step->cost *= 32;
    return HLO_SUCCESS;
}

// Returns the channel; infeed and outfeed have channels of their own, which no program can name.
static int64_t channel_of(const CpuNode *node) {
    if (node->opcode == HLO_OP_INFEED) return CPU_CHANNEL_INFEED;
    if (node->opcode == HLO_OP_OUTFEED) return CPU_CHANNEL_OUTFEED;
    return HLO_ATTRIBUTES(node->instruction, Transfer)->channel_id;
}

// Lowers host transfers; transfers between devices are in p2p.c.
HloStatus cpu_lower_transfer(CpuLowering *lowering, CpuNode *node, CpuStep *step) {
    const bool feed = node->opcode == HLO_OP_INFEED || node->opcode == HLO_OP_OUTFEED;
    if (!feed && !hlo_transfer_is_host(node->instruction))
        return (node->opcode == HLO_OP_SEND ? cpu_lower_send : cpu_lower_recv)(lowering, node, step);
    CpuTransfer *transfer = HLO_ARENA_NEW(lowering->arena, CpuTransfer, 1);
    const bool to_host = node->opcode == HLO_OP_SEND || node->opcode == HLO_OP_OUTFEED;
    assert(node->operand_count == (to_host ? 1 : 0)); /* graph/build.c makes one node per array */
    *transfer = (CpuTransfer){
        .channel = channel_of(node),
        .shape = hlo_shape_without_layout(
            lowering->arena, hlo_shape_copy(lowering->arena, (to_host ? node->operands : node->results)[0]->shape)),
        .to_host = to_host,
        .unread = !to_host && node->results[0]->use_count == 0};
    step->kind = CPU_STEP_TRANSFER;
    step->kernel = transfer;
    cpu_step_operands(lowering, node, step);
    return HLO_SUCCESS;
}

static CpuLowerFunction *const kLowerings[HLO_OPCODE_COUNT] = {
#define CPU_LOWERING(opcode, lowering, evaluated) [HLO_OP_##opcode] = cpu_lower_##lowering,
#include "targets/cpu/lower/lowerings.def"
#undef CPU_LOWERING
};

// Chooses in order: nodes that failed before, ops that loops support, the table.
static CpuLowerFunction *lower_function(const CpuNode *node) {
    if (node->state == CPU_NODE_FALLBACK) return cpu_lower_fallback;
    if (cpu_emit_role(node) != CPU_ROLE_NONE) return lower_elementwise;
    return kLowerings[node->opcode] ? kLowerings[node->opcode] : cpu_lower_fallback;
}

// Whether nothing has to run for the node: views, tokens, constants, and values computed inside other loops.
static bool needs_no_step(const CpuNode *node) {
    if (node->opcode == HLO_OP_AFTER_ALL) return true;
    if (node->opcode == HLO_OP_CONSTANT)
        return node->results[0]->literal->shape == node->results[0]->shape || !node->elementwise_map ||
               !node->results[0]->materialized;
    const bool one = node->result_count == 1 && node->region_count == 0;
    if (one && node->results[0]->view) return true;
    return one && !node->results[0]->materialized;
}

// Returns the negation, as the callback of cpu_lower_groups().
static bool needs_step(const CpuNode *node) {
    return !needs_no_step(node);
}

static HloStatus lower_region(CpuLowering *lowering, CpuRegion *region, CpuSteps *steps) {
    CpuGroup **groups = cpu_lower_groups(lowering, region, needs_step);
    steps->region = region;
    for (int64_t i = 0; i < region->nodes.count; i++) {
        CpuNode *node = region->nodes.items[i];
        if (needs_no_step(node)) continue;
        if (groups[i] && !cpu_group_ends(groups[i], i)) continue;
        CpuStep step = {.node = node, .update_in_place = -1};
        if (groups[i])
            HLO_TRY(cpu_lower_group(lowering, groups[i], &step));
        else
            HLO_TRY(hlo_status_at_instruction(lower_function(node)(lowering, node, &step), node->instruction));
        hlo_vector_push(lowering->arena, &steps->steps, step);
    }
    if (!lowering->retry) cpu_lower_bands(lowering, steps);
    return HLO_SUCCESS;
}

// Repeats lowering until nothing is marked. Every pass either succeeds or marks at least one node or array, so this
// terminates.
HloStatus cpu_lower(CpuLowering *lowering, CpuSteps **steps) {
    assert(steps);
    do {
        lowering->retry = false;
        lowering->fallbacks.count = 0;
        cpu_fuse(lowering->program);
        *steps = HLO_ARENA_NEW(lowering->arena, CpuSteps, 1);
        HLO_TRY(lower_region(lowering, lowering->program->entry, *steps));
    } while (lowering->retry);
    return HLO_SUCCESS;
}
