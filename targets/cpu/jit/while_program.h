// SPDX-License-Identifier: Apache-2.0
// Loops whose iterations are short: the thunks of condition and body, and of loops and conditionals within them, as one
// list of calls. All addresses except those of dynamic slices are computed once per run of the loop; an iteration is
// then one indirect call per kernel, where walking thunks takes several times as long as these kernels.
#ifndef MESHLO_TARGETS_CPU_JIT_WHILE_PROGRAM_H_
#define MESHLO_TARGETS_CPU_JIT_WHILE_PROGRAM_H_

#include "targets/cpu/thunk/thunk.h"

HLO_BEGIN_C

// Runs one thunk that is neither a loop nor a conditional, for the device of `context`.
typedef HloStatus CpuWhileThunk(void *context, const CpuThunk *thunk);

// Sets `program` of the while thunks that can be run as programs, outermost first; `scratch` is only for the planning.
// `code`: whether they may have machine code.
void cpu_while_programs_plan(HloArena *arena, HloArena *scratch, const CpuThunkList *list, bool code);

// Frees the memory of while programs that is outside the arena.
void cpu_while_programs_free(const CpuThunkList *list);

// Runs a loop to its end. `bases` are the device's; `run_thunk` runs thunks that are not kernel calls.
HLO_NODISCARD HloStatus cpu_while_run(const CpuWhileProgram *program, char *const *bases, CpuPool *pool,
                                      CpuWhileThunk *run_thunk, void *context);

// True if a thunk in it may be run once for several devices: then only a run without sharing can use the program.
bool cpu_while_may_share(const CpuWhileProgram *program);

HLO_END_C

#endif
