// SPDX-License-Identifier: Apache-2.0
// How a round looks inside: what while_program.c plans and runs, and code.c makes machine code of.
#ifndef MESHLO_TARGETS_CPU_JIT_INTERNAL_H_
#define MESHLO_TARGETS_CPU_JIT_INTERNAL_H_

#include "targets/cpu/jit/while_program.h"
#include "targets/cpu/loop/internal.h"

typedef enum CpuRoundKind {
    CPU_ROUND_CALL,    // a kernel, or a copy of a few bytes
    CPU_ROUND_MOVE,    // finds out where a dynamic slice stands, for the calls that follow
    CPU_ROUND_COPY,    // of many bytes
    CPU_ROUND_THUNK,   // whatever else has no regions
    CPU_ROUND_UNLESS,  // goes to `target` where the predicate is false
    CPU_ROUND_GO,      // goes to `target`
    CPU_ROUND_CHOOSE,  // goes to one of `targets` by a conditional's predicate
} CpuRoundKind;

// A place of a call that moves with a dynamic slice.
typedef struct CpuRoundMoved {
    int32_t step, place;
    int64_t offset;
} CpuRoundMoved;

typedef struct CpuRoundStep {
    CpuRoundKind kind;
    int32_t target;
    const CpuThunkLoop *loop;  // of a call: this and the following ones are the loop's; else a thunk's or a copy
    CpuCopy copy;
    const CpuThunkBuffer *buffer;
    const CpuRoundMoved *moved;
    int64_t moved_count;
    const CpuThunk *thunk;
    CpuSlice predicate;
    const int32_t *targets;
} CpuRoundStep;

// Machine code for a round.
typedef struct CpuRoundCode CpuRoundCode;

struct CpuRound {
    const CpuRoundStep *steps;
    int64_t count;
    bool may_share;
    CpuRoundCode *code;  // or NULL
};

// Makes the machine code of a round from its steps; NULL where there is none for this processor, or the system allows
// none. Its memory is freed by cpu_round_code_free(), all else is the arena's.
CpuRoundCode *cpu_round_code_make(HloArena *scratch, HloArena *arena, const CpuRound *round);
// Gives the pages with the instructions back to the system; NULL is allowed. The arena does not do that, so whoever
// frees the arena comes by here before.
void cpu_round_code_free(CpuRoundCode *code);

enum { CPU_ROUND_MOVED = 64 };  // moved addresses of a round at most
// Runs the round from step `at` on, up to a step that is not in the code (a copy of many bytes, a thunk, a choice), and
// gives its number, or the number of steps at the end. `scratch` is CPU_TINY_SCRATCH bytes, aligned to 64; `moved` is
// CPU_ROUND_MOVED addresses. Both and `bases` are the same in all calls of one run.
int64_t cpu_round_code_run(const CpuRoundCode *code, int64_t at, char *const *bases, char *scratch, char **moved);

#endif
