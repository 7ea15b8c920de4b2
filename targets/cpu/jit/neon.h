// SPDX-License-Identifier: Apache-2.0
// From the values of a block to the instructions of aarch64's Advanced SIMD (NEON), for vectors of four 32-bit lanes.
#ifndef MESHLO_TARGETS_CPU_JIT_NEON_H_
#define MESHLO_TARGETS_CPU_JIT_NEON_H_

#include "targets/cpu/jit/registers.h"

enum { CPU_JIT_NEON_LANES = 4 };

// The code of one function: instructions and constants, words in memory's order of a little-endian processor. It can be
// written on any machine.
typedef struct CpuNeonCode {
    HloArena *arena;
    HLO_VECTOR(uint32_t) words;
    bool fits;  // false: the values take more registers than the frame has room for
} CpuNeonCode;

// Emits a function of type CpuJitVectors (emit.h) that runs a block for all elements of `count` lists, at least 1 and
// at most CPU_JIT_LISTS, in vectors of CPU_JIT_NEON_LANES. What is said of cpu_jit_emit_vectors() holds here too, but
// no list may be a sum.
void cpu_jit_emit_neon(CpuNeonCode *code, CpuJitBlock *block, CpuJitList *lists, int count);

#endif
