// SPDX-License-Identifier: Apache-2.0
// Converts steps to thunks: arrays become addresses.
//
// This is the last stage of compilation. Buffers have been assigned, so each array of a step is a slice: a base (arena,
// constants, argument or result) and an offset. Thunks know nothing of graphs or arrays. All devices read them
// concurrently, so they are never written after this stage. What a region passes to the next iteration of its loop, or
// to its conditional, is a parallel assignment, which is turned into a sequence of copies here.
//
//     a loop's body ends with the state (b, a) for the slices (A, B): both must be read before either is written
//     copies   temp <- B;  B <- A;  A <- temp      a cycle, broken by a staging slice after the arena's end
//
// A chain (A <- B, B <- C) needs no staging slice, only the right order: A first, since B is overwritten next.
#include <stdlib.h>

#include "targets/cpu/element/integer.h"
#include "targets/cpu/thunk/thunk.h"

typedef HLO_VECTOR(CpuCopy) CopyVector;

// `shareable` counts the kernels that devices with equal operands may share (run/share.h).
typedef struct ThunkBuilder {
    HloArena *arena;
    CpuAssignment *assignment;
    int32_t shareable;
} ThunkBuilder;

// Whether both are the same memory location.
static bool same_slice(CpuSlice a, CpuSlice b) {
    return a.base == b.base && a.offset == b.offset;
}

// Builds the starts: the index gets its address here, while lower/emit.c has computed limits and strides.
static const CpuThunkStart *build_starts(ThunkBuilder *builder, const CpuLoopBuffer *buffer) {
    CpuThunkStart *starts = HLO_ARENA_NEW(builder->arena, CpuThunkStart, buffer->start_count);
    for (int32_t i = 0; i < buffer->start_count; i++) {
        const CpuDynamicStart *from = &buffer->starts[i];
        starts[i] =
            (CpuThunkStart){cpu_array_slice(from->index), from->index->shape->type, from->limit, from->stride_bytes};
    }
    return starts;
}

// Builds fused loops, each with the slices of its buffers and the start indices that are read at run time.
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

// Skips copies of a slice onto itself. They are the usual case, as buffer assignment puts loop state in place wherever
// it can.
static void add_copy(ThunkBuilder *builder, CopyVector *copies, CpuSlice from, CpuSlice to, int64_t bytes) {
    if (same_slice(from, to) || bytes == 0) return;
    const CpuCopy copy = {from, to, bytes};
    hlo_vector_push(builder->arena, copies, copy);
}

// The copies of a parallel assignment while they are put in sequence.
typedef struct Sequencer {
    CpuCopy *copies;  // by target
    int64_t count;
    int64_t *readers;  // how many pending copies read the target of this one
    bool *emitted;
    HLO_VECTOR(int64_t) ready;  // copies whose target no pending copy reads
} Sequencer;

// Orders slices, by which targets are looked up; any total order will do.
static int compare_slices(CpuSlice a, CpuSlice b) {
    if (a.base != b.base) return a.base < b.base ? -1 : 1;
    return (a.offset > b.offset) - (a.offset < b.offset);
}

// Compares targets, for qsort().
static int compare_targets(const void *a, const void *b) {
    return compare_slices(((const CpuCopy *)a)->to, ((const CpuCopy *)b)->to);
}

// Returns the index of the copy that writes to the slice, or -1. No two copies have the same target.
static int64_t writer_of(const Sequencer *sequencer, CpuSlice slice) {
    int64_t low = 0, high = sequencer->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (compare_slices(sequencer->copies[middle].to, slice) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sequencer->count && same_slice(sequencer->copies[low].to, slice) ? low : -1;
}

// Removes one pending read of the slice; a copy to it may become ready.
static void drop_reader(HloArena *arena, Sequencer *sequencer, CpuSlice slice) {
    const int64_t writer = writer_of(sequencer, slice);
    if (writer >= 0 && --sequencer->readers[writer] == 0) hlo_vector_push(arena, &sequencer->ready, writer);
}

// Turns a parallel assignment into a sequence. A copy whose source is overwritten by another copy goes first, and
// cycles are broken through staging slices after the arena's end. Linear except for the look-ups, as programs have
// loops over thousands of arrays.
static CopyVector sequence_copies(ThunkBuilder *builder, CopyVector all) {
    HloArena *arena = builder->arena;
    CopyVector done = {0};
    Sequencer sequencer = {.copies = all.items,
                           .count = all.count,
                           .readers = HLO_ARENA_NEW(arena, int64_t, all.count),
                           .emitted = HLO_ARENA_NEW(arena, bool, all.count)};
    if (all.count > 1) qsort(all.items, (size_t)all.count, sizeof *all.items, compare_targets);
    for (int64_t i = 0; i < all.count; i++) {
        const int64_t writer = writer_of(&sequencer, all.items[i].from);
        if (writer >= 0) sequencer.readers[writer]++;
    }
    for (int64_t i = 0; i < all.count; i++)
        if (sequencer.readers[i] == 0) hlo_vector_push(arena, &sequencer.ready, i);
    for (int64_t next = 0, aside = 0, left = all.count; left > 0;) {
        if (next < sequencer.ready.count) {
            const CpuCopy copy = all.items[sequencer.ready.items[next]];
            sequencer.emitted[sequencer.ready.items[next++]] = true;
            hlo_vector_push(arena, &done, copy);
            drop_reader(arena, &sequencer, copy.from);
            left--;
            continue;
        }
        // Only cycles are left: save the source of one copy, so that it may be overwritten.
        while (sequencer.emitted[aside]) aside++;
        CpuCopy *copy = &all.items[aside++];
        const CpuSlice from = copy->from;
        copy->from = (CpuSlice){CPU_BASE_ARENA, builder->assignment->arena_bytes};
        builder->assignment->arena_bytes += (copy->bytes + 63) / 64 * 64;
        add_copy(builder, &done, from, copy->from, copy->bytes);
        drop_reader(arena, &sequencer, from);
    }
    return done;
}

static void build_list(ThunkBuilder *builder, const CpuSteps *steps, const CpuSlice *targets, CpuThunkList *list,
                       int32_t level, int32_t *depth);

// Builds the thunks of a step's regions. The step's results are where its regions leave theirs: each region ends with
// copies to there. A loop first copies its initial state there, and its condition writes only a predicate.
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

// Whether this is a kernel whose results take far longer to compute than to copy.
static bool is_worth_sharing(const CpuStep *step) {
    enum { kMinimumElements = 1024, kCostAnElement = 8 };
    int64_t elements = 0;
    for (int32_t i = 0; i < step->write_count; i++) elements += step->writes[i]->elements;
    return step->kind == CPU_STEP_KERNEL && elements >= kMinimumElements && step->cost >= elements * kCostAnElement;
}

// Copies from the step everything that a device needs at run time, and nothing else.
static CpuThunk build_thunk(ThunkBuilder *builder, const CpuStep *step, int32_t level, int32_t *depth) {
    CpuThunk thunk = {.kind = step->kind,
                      .name = step->node->instruction->name,
                      .run = step->run,
                      .small = step->small,
                      .product = step->product,
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
    if (step->kind == CPU_STEP_FALLBACK) thunk.kernel = step->node->instruction;
    thunk.replica = step->node->opcode == HLO_OP_REPLICA_ID;
    return thunk;
}

// Builds the thunks of a region. `targets` are the destinations of its results, or NULL.
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

// ---- reading thunks

// Adds the starts to the slice's address; several may refer to one dimension. Limits were computed from the sizes, so
// no start can leave the array.
char *cpu_thunk_buffer_address(const CpuThunkBuffer *buffer, char *const *bases) {
    char *at = cpu_slice_address(bases, buffer->slice);
    for (int32_t i = 0; i < buffer->start_count; i++) {
        const CpuThunkStart *start = &buffer->starts[i];
        int64_t index = cpu_read_integer(cpu_slice_address(bases, start->index), start->type, 0);
        index = index < 0 ? 0 : index > start->limit ? start->limit : index;
        at += index * start->stride_bytes;
    }
    return at;
}

// Reads the operand that selects the branch. For a predicate, true selects branch 0; for a number, one that is out of
// range selects the last branch, as HLO defines.
int32_t cpu_thunk_branch(const CpuThunk *thunk, char *const *bases) {
    const CpuSlice slice = thunk->slices[0];
    const int64_t branch = cpu_read_integer(cpu_slice_address(bases, slice), thunk->predicate_type, 0);
    if (thunk->predicate_type == HLO_PRED) return branch ? 0 : 1;
    return branch < 0 || branch >= thunk->region_count ? thunk->region_count - 1 : (int32_t)branch;
}
