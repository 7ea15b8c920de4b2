// SPDX-License-Identifier: Apache-2.0
// From the values of a block to the instructions of x86-64.
#ifndef MESHLO_TARGETS_CPU_JIT_EMIT_H_
#define MESHLO_TARGETS_CPU_JIT_EMIT_H_

#include "targets/cpu/jit/registers.h"
#include "targets/cpu/jit/x86.h"

// A jump to a step whose code may not exist yet.
typedef struct CpuJitJump {
    int64_t jump;
    int32_t step;
} CpuJitJump;

// A CPU_VALUE_SCALE_EXP of which some lanes need more than an addition to the exponent. The code for these is after the
// function's end, and goes back to where it came from.
typedef struct CpuJitRare {
    int64_t jump, back;
    int to, x, power, shifted;  // registers
} CpuJitRare;

typedef struct CpuJitEmitter {
    CpuX86 x86;
    HLO_VECTOR(CpuJitRare) rare;
    HLO_VECTOR(CpuJitJump) jumps;
    HLO_VECTOR(int64_t) leaving;  // jumps to the end of the code
    int rest;                     // the mask register with the lanes of a row's rest, 0 while vectors are whole
    bool fits;
} CpuJitEmitter;

// A block that does for `vectors` vectors what another one does for one: its addresses have the offsets of the
// elements, in bytes. Without one, `vectors` is 1.
enum { CPU_JIT_VECTORS = 4 };
typedef struct CpuJitWide {
    CpuJitBlock *block;
    int vectors;
} CpuJitWide;

// Emits the beginning of the code, a function of type CpuJitEntry: it saves the caller's registers, allocates the frame
// for spilled values, loads the bases into registers and jumps to the given start address.
void cpu_jit_emit_begin(CpuJitEmitter *emitter);
// Emits the end, after all blocks: the target of jumps that leave the code, the return to the caller, the constant
// pool.
void cpu_jit_emit_end(CpuJitEmitter *emitter);

// Emits the code of a block, which must be finished.
void cpu_jit_emit_block(CpuJitEmitter *emitter, CpuJitBlock *block);

// Emits a function of type CpuJitVectors that runs a block for all elements of `count` lists, at least 1 and at most
// CPU_JIT_LISTS, in vectors of `lanes`: 8 with the instructions of AVX2, 16 with those of AVX-512. Memory values and
// stores of the block, of 1, 2 or 4 bytes, have the number of their list as base. All operations are on 32-bit lanes;
// elements narrower than that have zeros above their bits. One list may be a sum: its first number is
// that of the first element. The code starts from the sums at a further address, which follows those of the lists.
// `wide` runs instead of the block as long as there are elements for it; it must not sum. If `row` is
// not 0 the code also takes that many elements, which with AVX-512 need be no multiple of the lanes, and several such
// rows one after the other: there are at most CPU_JIT_LISTS - 1 lists then.
void cpu_jit_emit_vectors(CpuJitEmitter *emitter, CpuJitBlock *block, CpuJitWide wide, CpuJitList *lists, int count,
                          int lanes, int64_t row);

// Returns how many vectors at once a block is best run for, at least 1 and at most
// CPU_JIT_VECTORS: a block of many dependent operations needs
// several, each of which has its turn while the others wait for their results, as far as registers suffice.
int cpu_jit_vectors_at_once(CpuJitBlock *block, const CpuJitList *lists, int lanes);

// Arguments: the addresses of the lists; the number of elements, a multiple of the lanes above 0, or the row's.
// Of code that takes rows, the address that sums start from (or nothing) is followed by the lists' distances from one
// row to the next, in bytes, and by the number of rows, which the code counts down.
typedef void CpuJitVectors(char **lists, int64_t count);

// Arguments: bases, scratch, moved addresses, and the code address to begin at. Returns the value of CPU_EFFECT_LEAVE.
typedef int64_t CpuJitEntry(char *const *bases, char *scratch, char **moved, const char *begin);

#endif
