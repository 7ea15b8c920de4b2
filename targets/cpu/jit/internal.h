// SPDX-License-Identifier: Apache-2.0
// How a while program looks inside: what while_program.c plans and runs, and code.c makes machine code of.
#ifndef MESHLO_TARGETS_CPU_JIT_INTERNAL_H_
#define MESHLO_TARGETS_CPU_JIT_INTERNAL_H_

#include "targets/cpu/jit/while_program.h"
#include "targets/cpu/loop/internal.h"

typedef enum CpuWhileKind {
    CPU_WHILE_CALL,    // a kernel, or a copy of a few bytes
    CPU_WHILE_MOVE,    // finds out where a dynamic slice stands, for the calls that follow
    CPU_WHILE_COPY,    // of many bytes
    CPU_WHILE_THUNK,   // whatever else has no regions
    CPU_WHILE_UNLESS,  // goes to `target` where the predicate is false
    CPU_WHILE_GO,      // goes to `target`
    CPU_WHILE_CHOOSE,  // goes to one of `targets` by a conditional's predicate
} CpuWhileKind;

// A place of a call that moves with a dynamic slice.
typedef struct CpuWhileMoved {
    int32_t step, place;
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

// Makes the machine code of a while program from its steps; NULL where there is none for this processor, or the system
// allows none. Its memory is freed by cpu_while_code_free(), all else is the arena's.
CpuWhileCode *cpu_while_code_make(HloArena *scratch, HloArena *arena, const CpuWhileProgram *program);
// Gives the pages with the instructions back to the system; NULL is allowed. The arena does not do that, so whoever
// frees the arena comes by here before.
void cpu_while_code_free(CpuWhileCode *code);

enum { CPU_WHILE_MOVED = 64 };  // moved addresses of a program at most
// Runs the program from step `at` on, up to a step that is not in the code (a copy of many bytes, a thunk, a choice),
// and gives its number, or the number of steps at the end. `scratch` is CPU_TINY_SCRATCH bytes, aligned to 64; `moved`
// is CPU_WHILE_MOVED addresses. Both and `bases` are the same in all calls of one run.
int64_t cpu_while_code_run(const CpuWhileCode *code, int64_t at, char *const *bases, char *scratch, char **moved);

#endif
