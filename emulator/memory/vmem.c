// SPDX-License-Identifier: Apache-2.0
// Puts temporaries into VMEM, as the compiler's memory-space assignment does, where no layout is fixed yet: each that
// finds room for all of its life. What calls and loops have in VMEM comes first.
#include <assert.h>
#include <stdlib.h>

#include "emulator/memory/liveness.h"

// The most kernels that an array stays in VMEM: the compiler evicts what waits longer.
#define LONGEST_RESIDENCE 256

// Shortest lives first, then copies, whose kernels do nothing else than move them, larger ones before smaller ones; of
// other arrays smaller ones come first. These save the most time for the room that they take.
static int compare_lives(const void *left, const void *right) {
    const EmuLive *a = *(EmuLive *const *)left, *b = *(EmuLive *const *)right;
    const int64_t length_a = a->last - a->first, length_b = b->last - b->first;
    if (length_a != length_b) return length_a < length_b ? -1 : 1;
    if (!a->copied != !b->copied) return a->copied ? -1 : 1;
    if (a->buffer.bytes != b->buffer.bytes) return (a->buffer.bytes < b->buffer.bytes) == !a->copied ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->buffer.instruction->id > b->buffer.instruction->id) -
           (a->buffer.instruction->id < b->buffer.instruction->id);
}

static bool is_loop(const EmuKernel *kernel) {
    return kernel->kind == EMU_OP_CONTROL && hlo_is(kernel->members[0], HLO_OP_WHILE);
}

// The temporaries that may be in VMEM: what kernels and loops alone make and read, with no call or branch in between.
static EmuLiveVector vmem_candidates(const EmuLiveness *liveness, int64_t budget) {
    const EmuPlan *plan = liveness->plan;
    EmuLiveVector candidates = {0};
    int64_t *calls = HLO_ARENA_NEW(liveness->arena, int64_t, plan->kernel_count + 1);  // before each kernel
    for (int64_t k = 0; k < plan->kernel_count; k++)
        calls[k + 1] = calls[k] + (plan->kernels[k].kind == EMU_OP_CONTROL && !is_loop(&plan->kernels[k]));
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        EmuLive *live = liveness->buffers.items[i];
        const bool fits = live->buffer.bytes > 0 && live->buffer.bytes <= budget;
        if (live->buffer.kind != EMU_BUFFER_TEMPORARY || live->is_pinned || !fits) continue;
        if (live->buffer.instruction->opcode == HLO_OP_CONSTANT || live->last >= plan->kernel_count) continue;
        if (live->last - live->first > LONGEST_RESIDENCE || calls[live->last + 1] > calls[live->first]) continue;
        hlo_vector_push(liveness->arena, &candidates, live);
    }
    return candidates;
}

// The most bytes that the computations which an instruction calls have in VMEM at a time.
static int64_t vmem_of_called(EmuProgram *program, const HloInstruction *caller) {
    int64_t most = 0;
    for (int32_t i = 0; i < caller->called_count; i++) {
        emu_program_temp_peak(program, caller->called[i]);  // places its arrays
        if (program->vmem_bytes[caller->called[i]->id] > most) most = program->vmem_bytes[caller->called[i]->id];
    }
    return most;
}

// Marks the leaves of a loop's state that its computations need in HBM.
static void pin_state(const EmuLiveness *liveness, const HloInstruction *loop) {
    const EmuLeaves *state = emu_liveness_leaves(liveness, loop);
    for (int32_t c = 0; c < loop->called_count; c++) {
        const bool *pinned = liveness->program->pinned[loop->called[c]->id];
        for (int64_t i = 0; pinned && i < state->count; i++) state->items[i]->is_pinned |= pinned[i];
    }
}

// Notes which leaves of the state a computation needs in HBM, if it may be that of a loop: the network or the host
// reads them, or makes the next ones.
static void note_pinned(EmuLiveness *liveness) {
    const HloComputation *computation = liveness->plan->computation;
    if (computation->parameters.count != 1) return;
    const HloInstruction *parameter = computation->parameters.items[0], *root = computation->root;
    const EmuLeaves *state = emu_liveness_leaves(liveness, parameter), *next = emu_liveness_leaves(liveness, root);
    bool **known = &liveness->program->pinned[computation->id], *pinned = *known;
    if (!pinned) pinned = *known = HLO_ARENA_NEW(liveness->program->arena, bool, state->count);
    const bool is_body =
        hlo_shape_equal(parameter->shape, root->shape, HLO_COMPARE_IGNORE_LAYOUT) && next->count == state->count;
    for (int64_t i = 0; i < state->count; i++)
        pinned[i] = state->items[i]->is_pinned || (is_body && next->items[i]->is_pinned);
}

// Tells the computations of a loop which leaves of its state are in VMEM. They are analysed anew if that has changed.
static void note_carried(const EmuLiveness *liveness, const HloInstruction *loop) {
    EmuProgram *program = liveness->program;
    const EmuLeaves *state = emu_liveness_leaves(liveness, loop);
    for (int32_t c = 0; c < loop->called_count; c++) {
        bool **carried = &program->carried[loop->called[c]->id], changed = false;
        if (!*carried) *carried = HLO_ARENA_NEW(program->arena, bool, state->count);
        for (int64_t i = 0; i < state->count; i++) {
            changed |= (*carried)[i] != state->items[i]->in_vmem;
            (*carried)[i] = state->items[i]->in_vmem;
        }
        if (!changed) continue;
        program->temp_peaks[loop->called[c]->id] = -1;
        emu_program_temp_peak(program, loop->called[c]);
    }
}

void emu_liveness_place_in_vmem(EmuLiveness *liveness) {
    EmuProgram *program = liveness->program;
    const EmuPlan *plan = liveness->plan;
    const int64_t budget = liveness->chip && !program->module->is_scheduled ? emu_chip_vmem(liveness->chip) : 0;
    int64_t *used = HLO_ARENA_NEW(liveness->arena, int64_t, plan->kernel_count);
    for (int64_t k = 0; k < plan->kernel_count && budget > 0; k++) {
        if (plan->kernels[k].kind != EMU_OP_CONTROL) continue;
        used[k] = vmem_of_called(program, plan->kernels[k].members[0]);
        if (is_loop(&plan->kernels[k])) pin_state(liveness, plan->kernels[k].members[0]);
    }
    if (budget > 0) note_pinned(liveness);
    EmuLiveVector candidates = budget > 0 ? vmem_candidates(liveness, budget) : (EmuLiveVector){0};
    if (candidates.count) qsort(candidates.items, (size_t)candidates.count, sizeof(EmuLive *), compare_lives);
    for (int64_t i = 0; i < candidates.count; i++) {
        EmuLive *live = candidates.items[i];
        live->in_vmem = true;
        for (int64_t k = live->first; k <= live->last && live->in_vmem; k++)
            live->in_vmem = used[k] + live->buffer.bytes <= budget;
        for (int64_t k = live->first; k <= live->last && live->in_vmem; k++) used[k] += live->buffer.bytes;
    }
    int64_t *most = &program->vmem_bytes[plan->computation->id];
    *most = 0;
    for (int64_t k = 0; k < plan->kernel_count; k++) {
        if (used[k] > *most) *most = used[k];
        if (budget > 0 && is_loop(&plan->kernels[k])) note_carried(liveness, plan->kernels[k].members[0]);
    }
    for (int64_t i = 0; i < plan->order_count; i++)
        program->resident[plan->order[i]->id] = liveness->leaves[i].count == 1 && liveness->leaves[i].items[0]->in_vmem;
}
