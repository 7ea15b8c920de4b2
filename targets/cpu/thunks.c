// SPDX-License-Identifier: Apache-2.0
// Steps to thunks: arrays become addresses.
// The last step of compiling. Buffers have been assigned, so each array of a step is a slice: a base (arena, constants,
// argument or result) and an offset. Thunks know nothing of graphs or arrays and are read by all devices at once, hence
// never written to after this. What a region hands to the next round of its loop, or to its conditional, is a parallel
// assignment, which is turned into copies in an order here.
#include "targets/cpu/fallback.h"
#include "targets/cpu/thunk.h"

typedef HLO_VECTOR(CpuCopy) CopyVector;

typedef struct ThunkBuilder {
    HloArena *arena;
    CpuAssignment *assignment;
    int32_t shareable;
} ThunkBuilder;

static bool same_slice(CpuSlice a, CpuSlice b) {
    return a.base == b.base && a.offset == b.offset;
}

static const CpuThunkStart *build_starts(ThunkBuilder *builder, const CpuLoopBuffer *buffer) {
    CpuThunkStart *starts = HLO_ARENA_NEW(builder->arena, CpuThunkStart, buffer->start_count);
    for (int32_t i = 0; i < buffer->start_count; i++) {
        const CpuDynamicStart *from = &buffer->starts[i];
        starts[i] =
            (CpuThunkStart){cpu_array_slice(from->index), from->index->shape->type, from->limit, from->stride_bytes};
    }
    return starts;
}

// Fused loops, each with the slices of its buffers and the start indices that are read at run time.
static void build_loops(ThunkBuilder *builder, const CpuStep *step, CpuThunk *thunk) {
    CpuThunkLoop *loops = HLO_ARENA_NEW(builder->arena, CpuThunkLoop, step->loop_count);
    for (int32_t i = 0; i < step->loop_count; i++) {
        const CpuFusedLoop *from = &step->loops[i];
        CpuThunkBuffer *buffers = HLO_ARENA_NEW(builder->arena, CpuThunkBuffer, from->buffer_count);
        for (int32_t k = 0; k < from->buffer_count; k++)
            buffers[k] = (CpuThunkBuffer){cpu_array_slice(from->buffers[k].array),
                                          build_starts(builder, &from->buffers[k]), from->buffers[k].start_count};
        loops[i] = (CpuThunkLoop){from->loop, buffers, from->buffer_count};
    }
    thunk->loops = loops;
    thunk->loop_count = step->loop_count;
}

// Copies onto themselves are the usual case, as buffer assignment puts loop state in place wherever it can.
static void add_copy(ThunkBuilder *builder, CopyVector *copies, CpuSlice from, CpuSlice to, int64_t bytes) {
    if (same_slice(from, to) || bytes == 0) return;
    const CpuCopy copy = {from, to, bytes};
    hlo_vector_push(builder->arena, copies, copy);
}

// A parallel assignment as a sequence: a copy whose source is overwritten by another one goes first, and circles are
// broken through the staging place behind the arena's end that build_list() gave them.
static CopyVector sequence_copies(ThunkBuilder *builder, CopyVector all) {
    CopyVector done = {0};
    bool *emitted = HLO_ARENA_NEW(builder->arena, bool, all.count);
    for (int64_t left = all.count; left > 0;) {
        bool progress = false;
        for (int64_t i = 0; i < all.count; i++) {
            bool blocked = emitted[i];
            for (int64_t k = 0; k < all.count && !blocked; k++)
                blocked = k != i && !emitted[k] && same_slice(all.items[k].from, all.items[i].to);
            if (blocked) continue;
            hlo_vector_push(builder->arena, &done, all.items[i]);
            emitted[i] = progress = true;
            left--;
        }
        if (progress) continue;
        for (int64_t i = 0; i < all.count; i++) {
            if (emitted[i]) continue;
            CpuAssignment *assignment = builder->assignment;
            const CpuSlice staging = {CPU_BASE_ARENA, assignment->arena_bytes};
            assignment->arena_bytes += (all.items[i].bytes + 63) / 64 * 64;
            add_copy(builder, &done, all.items[i].from, staging, all.items[i].bytes);
            all.items[i].from = staging;
            break;
        }
    }
    return done;
}

static void build_list(ThunkBuilder *builder, const CpuSteps *steps, const CpuSlice *targets, CpuThunkList *list,
                       int32_t level, int32_t *depth);

// The results of a step with regions lie where its regions leave theirs: each ends with copies there. A loop first
// copies its initial state to that place, and its condition writes nothing but a predicate.
static void build_regions(ThunkBuilder *builder, const CpuStep *step, CpuThunk *thunk, int32_t level, int32_t *depth) {
    const bool loop = step->kind == CPU_STEP_WHILE;
    CpuSlice *targets = HLO_ARENA_NEW(builder->arena, CpuSlice, step->write_count);
    CopyVector inits = {0};
    for (int32_t i = 0; i < step->write_count; i++) {
        targets[i] = cpu_array_slice(step->writes[i]);
        if (loop) add_copy(builder, &inits, cpu_array_slice(step->reads[i]), targets[i], step->writes[i]->bytes);
    }
    thunk->copies = inits.items;
    thunk->copy_count = (int32_t)inits.count;
    CpuThunkList *regions = HLO_ARENA_NEW(builder->arena, CpuThunkList, step->node->region_count);
    for (int32_t i = 0; i < step->node->region_count; i++) {
        const bool condition = loop && i == 0;
        build_list(builder, &step->regions[i], condition ? NULL : targets, &regions[i], level + 1, depth);
        if (condition) regions[i].predicate = cpu_array_slice(step->regions[i].region->results.items[0]);
    }
    thunk->regions = regions;
    thunk->region_count = step->node->region_count;
    if (!loop) thunk->predicate_type = step->node->operands[0]->shape->type;
}

// A kernel whose results take far longer to compute than to copy.
static bool is_worth_sharing(const CpuStep *step) {
    enum { kMinimumElements = 1024, kCostAnElement = 8 };
    int64_t elements = 0;
    for (int32_t i = 0; i < step->write_count; i++) elements += step->writes[i]->elements;
    return step->kind == CPU_STEP_KERNEL && elements >= kMinimumElements && step->cost >= elements * kCostAnElement;
}

static CpuThunk build_thunk(ThunkBuilder *builder, const CpuStep *step, int32_t level, int32_t *depth) {
    CpuThunk thunk = {.kind = step->kind,
                      .name = step->node->instruction->name,
                      .run = step->run,
                      .kernel = step->kernel,
                      .cost = step->cost,
                      .read_count = step->read_count,
                      .write_count = step->write_count};
    CpuSlice *slices = HLO_ARENA_NEW(builder->arena, CpuSlice, step->read_count + step->write_count);
    for (int32_t i = 0; i < step->read_count; i++) slices[i] = cpu_array_slice(step->reads[i]);
    for (int32_t i = 0; i < step->write_count; i++) slices[step->read_count + i] = cpu_array_slice(step->writes[i]);
    thunk.slices = slices;
    int32_t *arrays = HLO_ARENA_NEW(builder->arena, int32_t, step->read_count + step->write_count);
    for (int32_t i = 0; i < step->read_count; i++) arrays[i] = cpu_array_root(step->reads[i])->id;
    for (int32_t i = 0; i < step->write_count; i++) arrays[step->read_count + i] = cpu_array_root(step->writes[i])->id;
    thunk.arrays = arrays;
    int64_t *bytes = HLO_ARENA_NEW(builder->arena, int64_t, step->write_count);
    for (int32_t i = 0; i < step->write_count; i++) bytes[i] = step->writes[i]->bytes;
    thunk.slice_bytes = bytes;
    thunk.share_index = is_worth_sharing(step) ? builder->shareable++ : -1;
    thunk.varies = hlo_op_is(step->node->opcode, HLO_OP_IS_NONDETERMINISTIC | HLO_OP_IS_SIDE_EFFECT) ||
                   hlo_instruction_is_nondeterministic(step->node->instruction) ||
                   hlo_instruction_has_side_effect(step->node->instruction);
    if (step->loop_count) build_loops(builder, step, &thunk);
    if (step->kind == CPU_STEP_WHILE || step->kind == CPU_STEP_CONDITIONAL)
        build_regions(builder, step, &thunk, level, depth);
    if (step->kind == CPU_STEP_COPY_LOOPS) {
        CopyVector copy = {0};
        add_copy(builder, &copy, slices[0], slices[step->read_count], step->writes[0]->bytes);
        thunk.copies = copy.items;
        thunk.copy_count = (int32_t)copy.count;
    }
    if (step->kind == CPU_STEP_FALLBACK) thunk.kernel = cpu_fallback_new(builder->arena, step->node);
    thunk.replica = step->node->opcode == HLO_OP_REPLICA_ID;
    return thunk;
}

// `targets` say where the region's results go; NULL: nowhere.
static void build_list(ThunkBuilder *builder, const CpuSteps *steps, const CpuSlice *targets, CpuThunkList *list,
                       int32_t level, int32_t *depth) {
    if (level > *depth) *depth = level;
    CpuThunk *thunks = HLO_ARENA_NEW(builder->arena, CpuThunk, steps->steps.count);
    for (int64_t i = 0; i < steps->steps.count; i++)
        thunks[i] = build_thunk(builder, &steps->steps.items[i], level, depth);
    CopyVector copies = {0};
    for (int64_t i = 0; targets && i < steps->region->results.count; i++) {
        CpuArray *result = steps->region->results.items[i];
        add_copy(builder, &copies, cpu_array_slice(result), targets[i], result->bytes);
    }
    copies = sequence_copies(builder, copies);
    int32_t *results = HLO_ARENA_NEW(builder->arena, int32_t, steps->region->results.count);
    for (int64_t i = 0; i < steps->region->results.count; i++)
        results[i] = cpu_array_root(steps->region->results.items[i])->id;
    *list = (CpuThunkList){.thunks = thunks,
                           .count = steps->steps.count,
                           .results = results,
                           .end_copies = copies.items,
                           .end_copy_count = (int32_t)copies.count};
}

void cpu_thunks_build(HloArena *arena, const CpuSteps *steps, CpuAssignment *assignment, CpuThunkList *list,
                      int32_t *depth, int32_t *shareable) {
    ThunkBuilder builder = {arena, assignment, 0};
    *depth = 0;
    build_list(&builder, steps, assignment->result_slices, list, 0, depth);
    *shareable = builder.shareable;
}
