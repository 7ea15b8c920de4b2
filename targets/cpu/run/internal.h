// SPDX-License-Identifier: Apache-2.0
// The executable that compile.c makes and execute.c runs.
#ifndef MESHLO_TARGETS_CPU_RUN_INTERNAL_H_
#define MESHLO_TARGETS_CPU_RUN_INTERNAL_H_

#include "targets/cpu/executable.h"
#include "targets/cpu/graph/collective.h"
#include "targets/cpu/thunk/thunk.h"

HLO_BEGIN_C

struct CpuExecutable {
    HloArena *arena;           // owns everything below
    HloModule *module;         // a copy of the program
    struct CpuChains *chains;  // generated code of its loops, or NULL
    void *constants;           // constant_bytes
    CpuSignature signature;
    CpuThunkList entry;
    int32_t depth;  // deepest nesting of thunk lists below the entry
    int64_t replica_count, partition_count;
    bool tpu_numerics;
    const CpuCollective *const *collectives;  // by index
    int32_t collective_count;
    int32_t shareable_count;  // number of share indices given to thunks
    int32_t array_count;
    const int32_t *argument_arrays;  // ids of the arguments' arrays
};

HLO_END_C

#endif
