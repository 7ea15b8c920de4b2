// SPDX-License-Identifier: Apache-2.0
// A program with its kernel plans, which are made when first needed. If the order of a computation is not fixed, the
// order as written and a depth-first one are compared by the memory that they need, and the better one is kept, as a
// scheduler would.
#include "emulator/program.h"

#include <assert.h>

// -1 marks peaks that are not known yet.
EmuProgram *emu_program_new(HloArena *arena, const HloModule *module, const EmuTopology *topology) {
    assert(module->entry && topology);
    EmuProgram *program = HLO_ARENA_NEW(arena, EmuProgram, 1);
    program->arena = arena;
    program->module = module;
    program->topology = topology;
    program->plans = HLO_ARENA_NEW(arena, EmuPlan *, module->computation_limit);
    program->kernel_of = HLO_ARENA_NEW(arena, int32_t, module->instruction_limit);
    program->temp_peaks = HLO_ARENA_NEW(arena, int64_t, module->computation_limit);
    for (int32_t i = 0; i < module->computation_limit; i++) program->temp_peaks[i] = -1;
    return program;
}

// Whether the order of a computation may be changed: it is not marked as a schedule, and no asynchronous work was
// placed in it.
static bool may_reorder(const EmuProgram *program, const EmuPlan *plan) {
    if (program->module->is_scheduled || plan->kernel_count < 3) return false;
    for (int64_t i = 0; i < plan->kernel_count; i++)
        if (hlo_op_is(plan->kernels[i].members[0]->opcode, HLO_OP_IS_ASYNC_START | HLO_OP_IS_SIDE_EFFECT)) return false;
    return true;
}

EmuPlan *emu_program_plan(EmuProgram *program, const HloComputation *computation) {
    assert(computation->root);
    EmuPlan **plan = &program->plans[computation->id];
    if (*plan) return *plan;
    *plan = emu_plan(program->arena, computation, &program->topology->chip, program->kernel_of);
    if (!may_reorder(program, *plan)) return *plan;
    EmuPlan *written = *plan;
    EmuPlan *other = emu_plan_depth_first(program->arena, written, &program->topology->chip, program->kernel_of);
    const int64_t written_peak = emu_plan_peak(program, written);
    *plan = other;
    emu_plan_number(other, program->kernel_of);
    if (emu_plan_peak(program, other) >= written_peak) {
        *plan = written;
        emu_plan_number(written, program->kernel_of);
    }
    return *plan;
}
