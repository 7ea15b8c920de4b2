// SPDX-License-Identifier: Apache-2.0
// Collectives between the virtual devices of one execution. A device that reaches a collective waits until its whole
// group has arrived; the last one runs the exchange for all. Reductions combine in group order, so the bits do not
// depend on the order of arrival.
#ifndef MESHLO_TARGETS_CPU_GRAPH_COLLECTIVE_H_
#define MESHLO_TARGETS_CPU_GRAPH_COLLECTIVE_H_

#include "targets/cpu/graph/graph.h"
#include "targets/cpu/loop/loop.h"

HLO_BEGIN_C

typedef struct CpuCollectiveGroup {
    const int64_t *devices;  // numbers in the execution: replica * partitions + partition
    int64_t count;
    bool is_left_out;  // a device that the groups of a collective-broadcast do not name: it gets zeros
} CpuCollectiveGroup;

typedef struct CpuCollective CpuCollective;

// Exchanges part `part` of `parts` of the work. addresses[i][m] is the address of array i of member m: first the
// operands, then the results. All parts together do the whole exchange; they may run concurrently. A result without an
// address (NULL) is that of a device in another process and is not written; an operand without one is not needed, or
// its part of the result is already in place.
typedef HloStatus CpuExchangeFunction(const CpuCollective *collective, const CpuCollectiveGroup *group,
                                      void *const *const *addresses, int64_t part, int64_t parts, CpuPool *pool);

// Data of one array of a collective.
typedef struct CpuCollectiveArray {
    const HloShape *operand, *result;
    int64_t outer, chunk_bytes;  // an operand as outer pieces of chunk bytes along the collective's dimension
    const CpuLoop **loops;       // reductions, by group: its operands to one or all results, a part of `loop_elements`
    const CpuLoop **tails;       // the last part
    const CpuLoop *packed;       // reduce-scatter: one chunk of each member to one result, all of them dense
    int64_t loop_elements;
} CpuCollectiveArray;

struct CpuCollective {
    const HloInstruction *instruction;
    HloOpcode opcode;
    int32_t index;  // among the program's collectives
    int64_t group_count;
    const CpuCollectiveGroup *groups;
    const int32_t *group_of;   // by device
    const int32_t *member_of;  // its index in its group
    const CpuCollectiveArray *arrays;
    int32_t array_count;
    int64_t bytes;           // of one device's operands
    int64_t parts;           // how many parts are worth running in parallel
    const int64_t *sources;  // collective-permute, by device: the device that sends to it, or -1
    CpuExchangeFunction *exchange;
};

// Returns the groups of a collective as device numbers, from its replica groups, channel and global-id flag.
HLO_NODISCARD HloStatus cpu_collective_groups(HloArena *arena, const HloInstruction *instruction, int64_t replica_count,
                                              int64_t partition_count, CpuCollective *collective);

HLO_END_C

#endif
