// SPDX-License-Identifier: Apache-2.0
// Buffer assignment: where each materialised array is stored. The bases are arguments, results, constants and one arena
// of temporaries per device. Arrays whose live ranges do not overlap share arena memory, and arrays that succeed one
// another (loop states, in-place updates, elementwise chains) share one slice so that nothing is copied.
#ifndef MESHLO_TARGETS_CPU_THUNK_BUFFERS_H_
#define MESHLO_TARGETS_CPU_THUNK_BUFFERS_H_

#include "targets/cpu/lower/step.h"

HLO_BEGIN_C

// Numbers of bases. Arguments and then results follow the first two.
enum { CPU_BASE_ARENA = 0, CPU_BASE_CONSTANTS = 1, CPU_BASE_FIRST_ARGUMENT = 2 };

// A memory location: `offset` bytes from a base.
typedef struct CpuSlice {
    int32_t base;
    int64_t offset;
} CpuSlice;
// Returns the slice's address in a run with these bases.
static inline char *cpu_slice_address(char *const *bases, CpuSlice slice) {
    return bases[slice.base] + slice.offset;
}

// A range of positions in which an array of a storage holds a value that is still needed.
typedef struct CpuSegment {
    CpuArray *array;
    int64_t begin, end;
} CpuSegment;

// Memory that one or several arrays use, one after the other.
typedef struct CpuStorage {
    struct CpuStorage *joined;  // the storage that this one was merged into, or NULL
    int64_t bytes;
    int32_t base;  // CPU_BASE_ARENA until fixed to a result, a constant or an argument
    int64_t offset;
    HLO_VECTOR(CpuSegment) segments;
} CpuStorage;

typedef struct CpuAssignment {
    int64_t arena_bytes;
    int64_t constant_bytes;
    CpuArrayVector constants;  // arrays that are stored in the constants
    int64_t position_count;
    int64_t *result_alias;    // by result: the argument whose memory it may take over, or -1
    CpuArrayVector results;   // roots of the program's results
    CpuSlice *result_slices;  // by result: its base; equal to the root's slice unless it has to be copied there
} CpuAssignment;

// Gives every materialised array of the program a storage with base and offset. `alias_argument[k]` is the argument
// that result k should take over according to the program, or -1. Numbers the steps. Allocates from `arena`.
void cpu_assign_buffers(HloArena *arena, CpuProgram *program, CpuSteps *steps, const int64_t *alias_argument,
                        CpuAssignment *assignment);

// Returns the slice of the array, or of the array that it views.
CpuSlice cpu_array_slice(CpuArray *array);

HLO_END_C

#endif
