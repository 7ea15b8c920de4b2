// SPDX-License-Identifier: Apache-2.0
// hwloc's description of the host: the cores this process may use, their caches and NUMA nodes. The machine is read
// once in a process; what the process may use of it is asked for each pool, whose owner keeps the answer.
#ifndef MESHLO_TARGETS_CPU_HOST_TOPOLOGY_H_
#define MESHLO_TARGETS_CPU_HOST_TOPOLOGY_H_

#include <stdint.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

typedef struct CpuTopology {
    int core_count;                    // cores that this process is allowed to run on and has the time of, at least 1
    int numa_node_count;               // at least 1
    int64_t l1_bytes;                  // first-level data cache of one core
    int64_t l2_bytes;                  // second-level cache of one core
    int64_t l3_bytes;                  // last-level cache that one core sees, 0 if there is none
    struct CpuTopologyHandle *handle;  // hwloc's tree and the set of cores that may be used
} CpuTopology;

// Discovers the host, from any thread. RESOURCE_EXHAUSTED when memory is short; if hwloc finds nothing, one core with
// common cache sizes is described. Free with cpu_topology_free().
HLO_NODISCARD HloStatus cpu_topology_discover(CpuTopology *topology);

// Binds the calling thread to core number `core` modulo core_count (its first hardware thread). Does nothing if the
// topology is a synthetic one or the system refuses: binding is only for speed.
void cpu_topology_bind_thread(const CpuTopology *topology, int core);

// Releases what discovery allocated for this description; the description of the machine stays for the next one.
void cpu_topology_free(CpuTopology *topology);

HLO_END_C

#endif
