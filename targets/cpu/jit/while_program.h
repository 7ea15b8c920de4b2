// SPDX-License-Identifier: Apache-2.0
// Loops whose iterations are short: the thunks of condition and body, and of loops and conditionals within them, as one
// list of calls. All addresses but those of dynamic slices are found out once a run of the loop; an iteration is then
// one indirect call a kernel, where walking thunks takes several times as long as such kernels.
#ifndef MESHLO_TARGETS_CPU_JIT_WHILE_PROGRAM_H_
#define MESHLO_TARGETS_CPU_JIT_WHILE_PROGRAM_H_

#include "targets/cpu/thunk/thunk.h"

HLO_BEGIN_C

// Runs one thunk that is no loop or conditional, for the device that `context` stands for.
typedef HloStatus CpuWhileThunk(void *context, const CpuThunk *thunk);

// Sets `program` of the while thunks that can be run so, outermost first; `scratch` is for the planning alone.
void cpu_while_programs_plan(HloArena *arena, HloArena *scratch, const CpuThunkList *list);

// Frees what while programs hold beside the arena.
void cpu_while_programs_free(const CpuThunkList *list);

// Runs a loop to its end. `bases` are the device's; thunks that are no calls of kernels go to `run_thunk`.
HLO_NODISCARD HloStatus cpu_while_run(const CpuWhileProgram *program, char *const *bases, CpuPool *pool,
                                      CpuWhileThunk *run_thunk, void *context);

// True if a thunk in it may be run once for several devices: then only a run without sharing can take it.
bool cpu_while_may_share(const CpuWhileProgram *program);

HLO_END_C

#endif
