// SPDX-License-Identifier: Apache-2.0
// From values to instructions: registers for the values of one block, and the machine code of each.
#ifndef MESHLO_TARGETS_CPU_JIT_EMIT_H_
#define MESHLO_TARGETS_CPU_JIT_EMIT_H_

#include "targets/cpu/jit/values.h"
#include "targets/cpu/jit/x86.h"

// A jump to a step whose code may not exist yet.
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

// Emits the beginning of the code, a function of type CpuJitEntry: it saves the caller's registers, allocates the frame
// for spilled values, loads the bases into registers and jumps to the given start address.
void cpu_jit_emit_begin(CpuJitEmitter *emitter);
// Emits the end, after all blocks: the target of jumps that leave the code, the return to the caller, the constant
// pool.
void cpu_jit_emit_end(CpuJitEmitter *emitter);

// Emits the code of a block, which must be finished.
void cpu_jit_emit_block(CpuJitEmitter *emitter, CpuJitBlock *block);

// Arguments: bases, scratch, moved addresses, and the code address to begin at. Returns the value of CPU_EFFECT_LEAVE.
typedef int64_t CpuJitEntry(char *const *bases, char *scratch, char **moved, const char *begin);

#endif
