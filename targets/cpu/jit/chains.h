// SPDX-License-Identifier: Apache-2.0
// Generated code for fused loops: neighbouring kernels of a loop become one function whose intermediate values stay in
// vector registers. The loop's other steps are interpreted as before, and the bits of its results are the same.
#ifndef MESHLO_TARGETS_CPU_JIT_CHAINS_H_
#define MESHLO_TARGETS_CPU_JIT_CHAINS_H_

#include "targets/cpu/thunk/thunk.h"

HLO_BEGIN_C

// The code of some loops; it must outlive all their runs.
typedef struct CpuChains CpuChains;

// Generates code for all loops of a list and of its regions. Returns NULL if there is none: no loop gains from it, its
// kernels are portable C only, or the system allows no executable memory. `scratch` is used during
// the call only; the rest belongs to `arena`, and cpu_chains_free() frees what does not.
CpuChains *cpu_chains_of_program(HloArena *arena, HloArena *scratch, const CpuThunkList *list);
// Does the same for one loop, which must not be running.
CpuChains *cpu_chains_of_loop(HloArena *arena, HloArena *scratch, const CpuLoop *loop);
// Returns the instructions' size in bytes, and how many kernels they replace.
int64_t cpu_chains_bytes(const CpuChains *chains);
int64_t cpu_chains_kernels(const CpuChains *chains);
// Frees the code; accepts NULL.
void cpu_chains_free(CpuChains *chains);

HLO_END_C

#endif
