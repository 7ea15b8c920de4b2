// SPDX-License-Identifier: Apache-2.0
// The internals of a while program, which while_program.c plans and runs, and code.c compiles to machine code.
#ifndef MESHLO_TARGETS_CPU_JIT_INTERNAL_H_
#define MESHLO_TARGETS_CPU_JIT_INTERNAL_H_

#include "targets/cpu/jit/while_program.h"
#include "targets/cpu/loop/internal.h"

typedef enum CpuWhileKind {
    CPU_WHILE_CALL,    // a kernel, or a copy of a few bytes
    CPU_WHILE_MOVE,    // finds the position of a dynamic slice, for the calls that follow
    CPU_WHILE_COPY,    // of many bytes
    CPU_WHILE_THUNK,   // any other thunk without regions
    CPU_WHILE_UNLESS,  // jumps to `target` if the predicate is false
    CPU_WHILE_GO,      // jumps to `target`
    CPU_WHILE_CHOOSE,  // jumps to one of `targets` by a conditional's predicate
} CpuWhileKind;

// An address argument of a call that moves with a dynamic slice.
typedef struct CpuWhileMoved {
    int32_t step, address;
    int64_t offset;
} CpuWhileMoved;

typedef struct CpuWhileStep {
    CpuWhileKind kind;
    int32_t target;
    const CpuThunkLoop *loop;  // of a call: this and the following ones are the loop's; else a thunk's or a copy
    CpuCopy copy;
    const CpuThunkBuffer *buffer;
    const CpuWhileMoved *moved;
    int64_t moved_count;
    const CpuThunk *thunk;
    CpuSlice predicate;
    const int32_t *targets;
} CpuWhileStep;

// Machine code for a while program.
typedef struct CpuWhileCode CpuWhileCode;

struct CpuWhileProgram {
    const CpuWhileStep *steps;
    int64_t count;
    bool may_share;
    CpuWhileCode *code;  // or NULL
};

// Compiles a while program's steps to machine code; NULL if this processor is not supported, or the system allows no
// executable memory. cpu_while_code_free() frees that memory, everything else belongs to the arena.
CpuWhileCode *cpu_while_code_make(HloArena *scratch, HloArena *arena, const CpuWhileProgram *program);
// Returns the pages with the instructions to the system; accepts NULL. The arena does not do that, so call this before
// freeing the arena.
void cpu_while_code_free(CpuWhileCode *code);

enum { CPU_WHILE_MOVED = 64 };  // maximum number of moved addresses of a program
// Runs the program from step `at` on, up to a step that is not in the code (a copy of many bytes, a thunk, a choice),
// and returns its number, or the number of steps at the end. `scratch` is CPU_SMALL_SCRATCH bytes, aligned to 64;
// `moved` is CPU_WHILE_MOVED addresses. Both and `bases` are the same in all calls of one run.
int64_t cpu_while_code_run(const CpuWhileCode *code, int64_t at, char *const *bases, char *scratch, char **moved);

#endif
