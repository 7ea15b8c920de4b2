// SPDX-License-Identifier: Apache-2.0
// Adds up the memory of a program, and lists its largest buffers.
//
//   peak = arguments + outputs - outputs in donated arguments + temporaries
//
// Constants are part of the program and do not count.
#include <assert.h>
#include <stdlib.h>

#include "emulator/layout/layout.h"
#include "emulator/memory/liveness.h"

int64_t emu_program_called_peak(EmuProgram *program, const EmuKernel *kernel) {
    int64_t most = 0;
    if (kernel->kind != EMU_OP_CONTROL) return 0;
    for (int32_t i = 0; i < kernel->members[0]->called_count; i++) {
        const int64_t peak = emu_program_temp_peak(program, kernel->members[0]->called[i]);
        if (peak > most) most = peak;
    }
    return most;
}

// The same of the result.
static const HloShape *result_shape(const HloModule *module) {
    return module->entry_result_layout ? module->entry_result_layout : module->entry->root->shape;
}

int64_t emu_plan_peak(EmuProgram *program, const EmuPlan *plan) {
    int64_t where;
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    EmuLiveness *liveness =
        emu_liveness_new(program, program->scratch, plan->computation, plan->computation == program->module->entry);
    emu_liveness_place(liveness);
    const int64_t peak = emu_liveness_find_peak(liveness, emu_liveness_bytes(liveness), &where);
    hlo_arena_reset(program->scratch, mark);
    return peak;
}

// Bytes by kernel, to keep when the analysis is given back.
static const int64_t *copy_alive(const EmuLiveness *liveness, const int64_t *alive) {
    return hlo_arena_copy(liveness->program->arena, alive, (size_t)liveness->plan->kernel_count * sizeof(*alive));
}

const int64_t *emu_program_alive(EmuProgram *program, const HloComputation *computation) {
    assert(computation != program->module->entry);
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    EmuLiveness *liveness = emu_liveness_new(program, program->scratch, computation, false);
    emu_liveness_place(liveness);
    const int64_t *alive = copy_alive(liveness, emu_liveness_bytes(liveness));
    hlo_arena_reset(program->scratch, mark);
    return alive;
}

int64_t emu_program_temp_peak(EmuProgram *program, const HloComputation *computation) {
    int64_t *known = &program->temp_peaks[computation->id];
    if (*known < 0)
        *known = emu_plan_peak(program, emu_program_plan(program, computation)) + program->extra_bytes[computation->id];
    return *known;
}

// Largest first, equal ones in program order.
static int compare_buffers(const void *left, const void *right) {
    const EmuBuffer *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->instruction->id > b->instruction->id) - (a->instruction->id < b->instruction->id);
}

// Bytes of outputs that take over an argument's buffer. Compilation has already turned donors into aliases.
static int64_t aliased_bytes(const EmuProgram *program, const EmuChip *chip) {
    int64_t total = 0;
    const HloModule *module = program->module;
    const HloShape *result = result_shape(module);
    for (int64_t i = 0; i < module->aliases.count; i++) {
        const HloShape *shape = hlo_shape_at(result, module->aliases.items[i].output_index);
        if (shape) total += emu_hbm_bytes(chip, shape);
    }
    return total;
}

// The call whose temporaries a control kernel has at its peak; NULL if it has none.
static const HloComputation *largest_called(EmuProgram *program, const EmuKernel *kernel) {
    const HloComputation *found = NULL;
    int64_t most = 0;
    for (int32_t i = 0; kernel->kind == EMU_OP_CONTROL && i < kernel->members[0]->called_count; i++) {
        const int64_t peak = emu_program_temp_peak(program, kernel->members[0]->called[i]);
        if (peak <= most) continue;
        most = peak;
        found = kernel->members[0]->called[i];
    }
    return found;
}

void emu_program_collect_held(EmuProgram *program, HloArena *arena, const HloComputation *body,
                              const HloInstruction *loop, EmuBufferVector *buffers) {
    const HloInstructionVector *held = &program->held[body->id];
    for (int64_t i = 0; i < held->count; i++) {
        const HloShape *shape = NULL;
        int64_t largest = 0;
        const EmuChip *chip = &program->topology->chip;
        for (int64_t leaf = 0; leaf < hlo_shape_leaf_count(held->items[i]->shape); leaf++) {
            const HloShape *candidate = hlo_shape_leaf(held->items[i]->shape, leaf);
            if (shape && emu_hbm_bytes(chip, candidate) <= emu_hbm_bytes(chip, shape)) continue;
            shape = candidate;
            largest = leaf;
        }
        const EmuBuffer buffer = {.instruction = held->items[i],
                                  .shape = shape,
                                  .leaf = largest,
                                  .bytes = emu_hbm_bytes(chip, shape),
                                  .unpadded_bytes = emu_unpadded_bytes(shape),
                                  .kind = EMU_BUFFER_TEMPORARY,
                                  .caller = loop};
        hlo_vector_push(arena, buffers, buffer);
    }
}

// The temporaries that are alive while kernel `where` runs, with those of what it calls at their own peak.
static void collect_alive(const EmuLiveness *liveness, int64_t where, const HloInstruction *caller,
                          EmuBufferVector *buffers) {
    EmuProgram *program = liveness->program;
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        const EmuLive *live = liveness->buffers.items[i];
        if (!emu_live_is_counted(live) || live->first > where || live->last < where) continue;
        EmuBuffer buffer = live->buffer;
        buffer.caller = caller;
        hlo_vector_push(liveness->arena, buffers, buffer);
    }
    if (where >= liveness->plan->kernel_count) return;
    const EmuKernel *kernel = &liveness->plan->kernels[where];
    const HloComputation *called = largest_called(program, kernel);
    if (!called) return;
    EmuLiveness *inner = emu_liveness_new(program, liveness->arena, called, false);
    emu_liveness_place(inner);
    int64_t peak;
    emu_liveness_find_peak(inner, emu_liveness_bytes(inner), &peak);
    collect_alive(inner, peak, kernel->members[0], buffers);
    emu_program_collect_held(program, liveness->arena, called, kernel->members[0], buffers);
}

// The results that are not in donated arguments, also those that are arguments as they came.
static void collect_results(EmuLiveness *liveness, EmuBufferVector *buffers) {
    const HloModule *module = liveness->program->module;
    const HloShape *result = result_shape(module);
    const EmuLeaves *leaves = emu_liveness_leaves(liveness, module->entry->root);
    const int64_t count = hlo_shape_leaf_count(result);
    const bool *aliased = emu_liveness_aliased_results(liveness);
    for (int64_t i = 0; i < count && i < leaves->count; i++) {
        const HloShape *shape = hlo_shape_leaf(result, i);
        const int64_t bytes = emu_hbm_bytes(liveness->chip, shape);
        const EmuBuffer buffer = {.instruction = leaves->items[i]->buffer.instruction,
                                  .shape = shape,
                                  .leaf = leaves->items[i]->buffer.leaf,
                                  .bytes = bytes,
                                  .unpadded_bytes = emu_unpadded_bytes(shape),
                                  .kind = EMU_BUFFER_OUTPUT};
        if (bytes && !aliased[i]) hlo_vector_push(liveness->arena, buffers, buffer);
    }
}

// The tables of addresses that represent the tuples of the result.
static void collect_tables(EmuLiveness *liveness, EmuBufferVector *buffers) {
    const HloModule *module = liveness->program->module;
    const int64_t bytes = emu_tuple_table_bytes(liveness->chip, result_shape(module));
    if (!bytes) return;
    int64_t count = hlo_shape_leaf_count(result_shape(module));
    if (4 * count > bytes) count = bytes / 4;
    const EmuBuffer buffer = {.instruction = module->entry->root,
                              .shape = hlo_shape_array(liveness->arena, HLO_U32, &count, 1),
                              .leaf = -1,
                              .bytes = bytes,
                              .unpadded_bytes = 4 * count,
                              .kind = EMU_BUFFER_TABLE};
    hlo_vector_push(liveness->arena, buffers, buffer);
}

static bool is_argument(const EmuLive *live) {
    return live->buffer.kind == EMU_BUFFER_ARGUMENT && live->buffer.bytes;
}

// Adds up the memory of a program, but for the list of its largest buffers, with an analysis in `arena`. Arguments and
// outputs count for the whole step, less the bytes that they share; temporaries count with the most that are alive at
// one time, *where.
static EmuLiveness *measure(EmuProgram *program, HloArena *arena, EmuMemory *memory, int64_t *where) {
    EmuLiveness *liveness = emu_liveness_new(program, arena, program->module->entry, true);
    const HloShape *result = result_shape(program->module);
    const EmuChip *chip = liveness->chip;
    emu_liveness_place(liveness);
    *memory = (EmuMemory){.output_bytes = emu_hbm_bytes(chip, result) + emu_tuple_table_bytes(chip, result),
                          .alias_bytes = aliased_bytes(program, chip),
                          .alive = emu_liveness_bytes(liveness)};
    memory->temp_bytes = emu_liveness_find_peak(liveness, memory->alive, where);
    for (int64_t i = 0; i < liveness->buffers.count; i++)
        if (is_argument(liveness->buffers.items[i])) memory->argument_bytes += liveness->buffers.items[i]->buffer.bytes;
    assert(memory->alias_bytes <= memory->output_bytes);
    memory->peak_bytes = memory->argument_bytes + memory->output_bytes - memory->alias_bytes + memory->temp_bytes;
    return liveness;
}

int64_t emu_program_peak(EmuProgram *program) {
    assert(program);
    EmuMemory memory;
    int64_t where;
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    measure(program, program->scratch, &memory, &where);
    hlo_arena_reset(program->scratch, mark);
    return memory.peak_bytes;
}

// The same with that list, in `arena` too. The largest buffers are those of the moment with the most temporaries.
static EmuLiveness *measure_all(EmuProgram *program, HloArena *arena, EmuMemory *memory) {
    int64_t where;
    EmuLiveness *liveness = measure(program, arena, memory, &where);
    EmuBufferVector buffers = {0};
    for (int64_t i = 0; i < liveness->buffers.count; i++)
        if (is_argument(liveness->buffers.items[i]))
            hlo_vector_push(arena, &buffers, liveness->buffers.items[i]->buffer);
    collect_results(liveness, &buffers);
    collect_tables(liveness, &buffers);
    collect_alive(liveness, where, NULL, &buffers);
    if (buffers.count) qsort(buffers.items, (size_t)buffers.count, sizeof(*buffers.items), compare_buffers);
    memory->largest = buffers.items;
    memory->largest_count = buffers.count;
    return liveness;
}

void emu_program_memory(EmuProgram *program, EmuMemory *memory) {
    assert(program && memory);
    measure_all(program, program->arena, memory);
}

// What calls need is analysed as for the lists, so that what is in VMEM does not depend on who asks.
void emu_program_usage(EmuProgram *program, EmuMemory *memory) {
    assert(program && memory);
    const HloArenaMark mark = hlo_arena_mark(program->scratch);
    const EmuLiveness *liveness = measure_all(program, program->scratch, memory);
    memory->alive = copy_alive(liveness, memory->alive);
    memory->largest = NULL;
    memory->largest_count = 0;
    hlo_arena_reset(program->scratch, mark);
}
