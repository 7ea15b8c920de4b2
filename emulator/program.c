// SPDX-License-Identifier: Apache-2.0
#include "emulator/program.h"

EmuProgram *emu_program_new(HloArena *arena, const HloModule *module, const EmuTopology *topology) {
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

EmuPlan *emu_program_plan(EmuProgram *program, const HloComputation *computation) {
    EmuPlan **plan = &program->plans[computation->id];
    if (!*plan) *plan = emu_plan(program->arena, computation, program->kernel_of);
    return *plan;
}
