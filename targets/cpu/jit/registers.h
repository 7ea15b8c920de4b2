// SPDX-License-Identifier: Apache-2.0
// Registers for the values of one block, for the emitters of all architectures.
//
// Registers are allocated while instructions are written: cpu_jit_block_finish() has walked the block backwards and
// recorded for each use the next one, so that a register is free after the last use of its value. If none is free, the
// value that is needed last is spilled to the frame (Belady's choice, which is optimal for straight-line code).
// Constants are never spilled, since the pool after the code contains them.
#ifndef MESHLO_TARGETS_CPU_JIT_REGISTERS_H_
#define MESHLO_TARGETS_CPU_JIT_REGISTERS_H_

#include "targets/cpu/jit/values.h"

enum { CPU_JIT_REGISTERS = 40, CPU_JIT_SLOTS = 256, CPU_JIT_NO_VALUE = -1, CPU_JIT_NEVER = INT32_MAX };

// A list of elements that vectors are loaded from or stored to; `one` if it is one element, for all lanes. `sum` if it
// is CPU_REDUCE_LANES numbers of f32, to which the elements that the block sums are added by turns.
typedef struct CpuJitList {
    bool one, sum;
    int address;  // the general register with its address, assigned by the emitter
} CpuJitList;
enum { CPU_JIT_LISTS = 11 };

typedef struct CpuJitRegisters CpuJitRegisters;
typedef void CpuJitMove(CpuJitRegisters *registers, int32_t value, int reg);

// Registers have numbers from 0 on: those of vectors first, then those of masks if the processor has any.
struct CpuJitRegisters {
    const CpuJitBlock *block;
    const CpuJitList *lists;  // of vectors, else NULL
    void *code;               // of the emitter, for the two functions below
    CpuJitMove *spill;        // writes the instruction that stores a register in the value's slot
    CpuJitMove *load;         // writes the one that loads a constant, an element that is one for all, or from a slot
    bool fits;                // false: there was no slot
    int slots;                // of the frame
    int fixed;                // the vector registers below change their values; from here on and below `temporary` they
                              // contain values of all iterations
    int temporary;            // the first one of those that are used within one operation
    int sum;                  // the one that elements are added to
    int first_mask, end_mask;           // both 0 without mask registers
    int32_t holder[CPU_JIT_REGISTERS];  // the value in each register
    bool pinned[CPU_JIT_REGISTERS];     // the current operation reads it
    int8_t *register_of;                // by value, -1 without one
    int16_t *slot_of;                   // by value: its slot, -1 without one
    int32_t *next_use;                  // by value
    bool slot_taken[CPU_JIT_SLOTS];
};

// Prepares a block, which this finishes; all registers are empty. The caller sets what is not allocated here: `code`,
// the functions, the numbers of registers and slots.
CpuJitRegisters cpu_jit_registers_new(CpuJitBlock *block);

bool cpu_jit_is_constant(const CpuJitRegisters *r, int32_t value);
// Whether the register contains a value of all iterations.
bool cpu_jit_is_fixed(const CpuJitRegisters *r, int reg);
// Whether the value belongs in a mask register.
bool cpu_jit_is_in_mask(const CpuJitRegisters *r, int32_t value);
// Whether the operand's register may be overwritten by the value that reads it.
bool cpu_jit_is_spent(const CpuJitRegisters *r, const CpuJitValue *value, int32_t operand);

// Gives the value a register, after a spill if need be, and returns it.
int cpu_jit_hold(CpuJitRegisters *r, int32_t value);
// Returns the register of a value, which stays until cpu_jit_release().
int cpu_jit_in_register(CpuJitRegisters *r, int32_t value);
// After the operands have been read: forgets those that have no other use.
void cpu_jit_release(CpuJitRegisters *r, const CpuJitValue *value);
// Gives the value the register of an operand that has just been released.
void cpu_jit_replace(CpuJitRegisters *r, int32_t value, int reg);
// Spills all needed values before a call, since the called function may use all vector registers.
void cpu_jit_clear_registers(CpuJitRegisters *r);

// Returns how many vector registers the values take that change, at most at a time.
int cpu_jit_count_registers(const CpuJitRegisters *r);
// Returns the cycles of the longest path from an operand of the block to a result.
int cpu_jit_longest_path(const CpuJitRegisters *r);

// Loads values that are the same in all iterations in front of the loop, as far as there are registers for them: those
// that are read more than once first.
void cpu_jit_load_invariants(CpuJitRegisters *r);

#endif
