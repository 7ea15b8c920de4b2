// SPDX-License-Identifier: Apache-2.0
// From values to instructions: registers for the values of one block, and the machine code of each.
#ifndef MESHLO_TARGETS_CPU_JIT_EMIT_H_
#define MESHLO_TARGETS_CPU_JIT_EMIT_H_

#include "targets/cpu/jit/values.h"
#include "targets/cpu/jit/x86.h"

// A jump to a step whose code may not be there yet.
typedef struct CpuJitJump {
    int64_t jump;
    int32_t step;
} CpuJitJump;

typedef struct CpuJitEmitter {
    CpuX86 x86;
    HLO_VECTOR(CpuJitJump) jumps;
    HLO_VECTOR(int64_t) leaving;  // jumps to the end of the code
    bool fits;
} CpuJitEmitter;

// The beginning of the code, a function as CpuJitEntry says: it keeps the caller's registers, makes room for what
// blocks put aside, takes the bases into registers and jumps to where it is told to begin.
void cpu_jit_emit_begin(CpuJitEmitter *emitter);
// The end, behind all blocks: where jumps land that leave the code, the way back to the caller, the pool of constants.
void cpu_jit_emit_end(CpuJitEmitter *emitter);

// The code of a block, which must be finished.
void cpu_jit_emit_block(CpuJitEmitter *emitter, CpuJitBlock *block);

// bases, scratch, moved, and where in the code to begin; gives what CPU_EFFECT_LEAVE says.
typedef int64_t CpuJitEntry(char *const *bases, char *scratch, char **moved, const char *begin);

#endif
