// SPDX-License-Identifier: Apache-2.0
// Thunks: the compiled form. There is one list per region; every device of an execution walks the same lists with its
// own bases.
#ifndef MESHLO_TARGETS_CPU_THUNK_THUNK_H_
#define MESHLO_TARGETS_CPU_THUNK_THUNK_H_

#include "targets/cpu/thunk/buffers.h"

HLO_BEGIN_C

typedef struct CpuCopy {
    CpuSlice from, to;
    int64_t bytes;
} CpuCopy;

// A start index read at run time: see CpuDynamicStart.
typedef struct CpuThunkStart {
    CpuSlice index;
    HloType type;
    int64_t limit, stride_bytes;
} CpuThunkStart;

typedef struct CpuThunkBuffer {
    CpuSlice slice;
    const CpuThunkStart *starts;
    int32_t start_count;
} CpuThunkBuffer;

typedef struct CpuThunkLoop {
    const CpuLoop *loop;
    const CpuThunkBuffer *buffers;
    int32_t buffer_count;
} CpuThunkLoop;

typedef struct CpuThunk CpuThunk;

// A while loop as one list of calls: see jit/while_program.h.
typedef struct CpuWhileProgram CpuWhileProgram;

// A region's thunks.
typedef struct CpuThunkList {
    const CpuThunk *thunks;
    int64_t count;
    const CpuCopy *end_copies;  // results to their slices, in order
    int32_t end_copy_count;
    CpuSlice predicate;      // of a condition: its result
    const int32_t *results;  // ids of the arrays that are the region's results
} CpuThunkList;

struct CpuThunk {
    CpuStepKind kind;
    const char *name;  // the instruction's
    const CpuThunkLoop *loops;
    int32_t loop_count;
    const CpuCopy *copies;  // made before anything else
    int32_t copy_count;
    const CpuSlice *slices;  // reads, then writes
    const int32_t *arrays;   // ids of the arrays in those slices
    int32_t read_count, write_count;
    const int64_t *slice_bytes;  // of the writes
    int32_t share_index;         // for a kernel worth running once for several devices, else -1
    bool varies;                 // equal inputs may give different results
    CpuKernelFunction *run;
    CpuSmallKernel *small;           // or NULL
    const CpuSmallProduct *product;  // what `small` computes if it is a product, else NULL
    const void *kernel;  // of run; the CpuCollective of a collective; the HloInstruction of a fallback; the CpuTransfer
    bool replica;        // device id: the replica's number rather than the partition's
    const CpuThunkList *regions;
    int32_t region_count;
    const CpuWhileProgram *program;  // of an outermost while with short iterations, or NULL
    HloType predicate_type;          // of a conditional: pred or s32, in slices[0]
    double cost;
};

// Returns the address of a buffer in this run, using the current values of the start indices in memory. Starts of
// dynamic slices are clamped so that the slice fits, as HLO defines; the loop itself then needs no check.
char *cpu_thunk_buffer_address(const CpuThunkBuffer *buffer, char *const *bases);

// Returns the branch that a conditional takes.
int32_t cpu_thunk_branch(const CpuThunk *thunk, char *const *bases);

// Turns steps into thunks in `arena`, after buffer assignment. `depth` receives the deepest nesting of lists,
// `shareable` the number of share indices. The arena of temporaries may grow by staging slices.
void cpu_thunks_build(HloArena *arena, const CpuSteps *steps, CpuAssignment *assignment, CpuThunkList *list,
                      int32_t *depth, int32_t *shareable);

HLO_END_C

#endif
