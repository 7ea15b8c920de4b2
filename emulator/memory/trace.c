// SPDX-License-Identifier: Apache-2.0
// Lists when the buffers of a program are made and freed.
#include <assert.h>
#include <stdlib.h>

#include "emulator/memory/liveness.h"

// The buffers of a trace after which a call's temporaries become one buffer.
#define MOST_TRACED 20000

// A temporary and its number in the trace.
typedef struct Traced {
    const EmuLive *live;
    int64_t number;
} Traced;

typedef struct Tracer {
    EmuProgram *program;
    EmuBufferVector buffers;
    HLO_VECTOR(EmuMemoryEvent) events;
} Tracer;

static void trace_event(Tracer *tracer, int64_t buffer, bool is_freed, const HloInstruction *at) {
    hlo_vector_push(tracer->program->arena, &tracer->events, ((EmuMemoryEvent){buffer, is_freed, at}));
}

static int64_t trace_buffer(Tracer *tracer, EmuBuffer buffer, const HloInstruction *caller) {
    buffer.caller = caller;
    hlo_vector_push(tracer->program->arena, &tracer->buffers, buffer);
    return tracer->buffers.count - 1;
}

static int compare_first_uses(const void *left, const void *right) {
    const EmuLive *a = ((const Traced *)left)->live, *b = ((const Traced *)right)->live;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->buffer.instruction->id > b->buffer.instruction->id) -
           (a->buffer.instruction->id < b->buffer.instruction->id);
}

// Equal ones in the order of their numbers.
static int compare_last_uses(const void *left, const void *right) {
    const Traced *a = left, *b = right;
    if (a->live->last != b->live->last) return a->live->last < b->live->last ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static void trace_computation(Tracer *tracer, const EmuLiveness *liveness, const HloInstruction *caller);

// What a kernel calls has its temporaries one computation after another.
static void trace_calls(Tracer *tracer, const EmuKernel *kernel) {
    EmuProgram *program = tracer->program;
    HloInstruction *caller = kernel->members[0];
    for (int32_t i = 0; kernel->kind == EMU_OP_CONTROL && i < caller->called_count; i++) {
        const int64_t peak = emu_program_temp_peak(program, caller->called[i]);
        if (!peak) continue;
        if (tracer->buffers.count < MOST_TRACED) {
            EmuLiveness *inner = emu_liveness_new(program, program->arena, caller->called[i], false);
            emu_liveness_place(inner);
            trace_computation(tracer, inner, caller);
            continue;
        }
        const EmuBuffer whole = {
            .instruction = caller, .shape = caller->shape, .leaf = -1, .bytes = peak, .kind = EMU_BUFFER_TEMPORARY};
        const int64_t number = trace_buffer(tracer, whole, caller);
        trace_event(tracer, number, false, caller);
        trace_event(tracer, number, true, caller);
    }
}

// What was started an iteration ahead is alive all the time.
static void trace_computation(Tracer *tracer, const EmuLiveness *liveness, const HloInstruction *caller) {
    const EmuPlan *plan = liveness->plan;
    const int64_t held = tracer->buffers.count;
    if (caller) emu_program_collect_held(tracer->program, liveness->arena, plan->computation, caller, &tracer->buffers);
    const int64_t held_end = tracer->buffers.count;
    for (int64_t i = held; i < held_end; i++) trace_event(tracer, i, false, tracer->buffers.items[i].instruction);
    Traced *starts = HLO_ARENA_NEW(liveness->arena, Traced, liveness->buffers.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < liveness->buffers.count; i++)
        if (emu_live_is_counted(liveness->buffers.items[i]) && liveness->buffers.items[i]->first < plan->kernel_count)
            starts[count++].live = liveness->buffers.items[i];
    qsort(starts, (size_t)count, sizeof(*starts), compare_first_uses);
    for (int64_t i = 0; i < count; i++) starts[i].number = trace_buffer(tracer, starts[i].live->buffer, caller);
    Traced *ends = hlo_arena_copy(liveness->arena, starts, (size_t)(count + 1) * sizeof(*starts));
    qsort(ends, (size_t)count, sizeof(*ends), compare_last_uses);
    int64_t made = 0, freed = 0;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        const EmuKernel *kernel = &plan->kernels[k];
        for (; made < count && starts[made].live->first == k; made++)
            trace_event(tracer, starts[made].number, false, starts[made].live->buffer.instruction);
        trace_calls(tracer, kernel);
        for (; freed < count && ends[freed].live->last == k; freed++)
            trace_event(tracer, ends[freed].number, true, kernel->members[kernel->member_count - 1]);
    }
    for (; freed < made; freed++) trace_event(tracer, ends[freed].number, true, plan->computation->root);
    for (int64_t i = held; i < held_end; i++) trace_event(tracer, i, true, plan->computation->root);
}

void emu_program_trace_memory(EmuProgram *program, EmuMemoryTrace *trace) {
    assert(program && trace);
    Tracer tracer = {.program = program};
    EmuLiveness *liveness = emu_liveness_new(program, program->arena, program->module->entry, true);
    emu_liveness_place(liveness);
    trace_computation(&tracer, liveness, NULL);
    *trace = (EmuMemoryTrace){tracer.buffers.items, tracer.buffers.count, tracer.events.items, tracer.events.count};
}
