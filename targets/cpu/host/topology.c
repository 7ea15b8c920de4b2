// SPDX-License-Identifier: Apache-2.0
// The host, by hwloc: cores, caches, NUMA nodes, and the part that this process may use (control groups, taskset, a
// batch system's binding). If hwloc fails, the online cores are counted and the rest has defaults; if it describes
// another machine (HWLOC_XMLFILE), no thread is bound.
#include "targets/cpu/host/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/memory.h"
#include "targets/cpu/host/quota.h"

struct CpuTopologyHandle {
    hwloc_topology_t tree;   // shared, see below
    hwloc_bitmap_t allowed;  // this process's binding when the pool was created
};

// The tree of the machine, which all pools of the process read. It is loaded once and kept until the process ends,
// since hwloc opens its plugins and hundreds of files of the system for each tree: that takes longer than many programs
// run.
static pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;
static hwloc_topology_t shared_tree;

// The first cache of a level represents all: blocks are sized by it.
static int64_t cache_bytes(hwloc_topology_t tree, hwloc_obj_type_t type, int64_t otherwise) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(tree, type, 0);
    return cache && cache->attr && cache->attr->cache.size ? (int64_t)cache->attr->cache.size : otherwise;
}

// Skips devices on buses, distances and memory attributes: nothing here needs them, and discovering them takes time.
static bool load(hwloc_topology_t tree) {
    hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_flags(
        tree, HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
    return hwloc_topology_load(tree) == 0;
}

// Counts the cores inside the allowed set, not all that exist: two processes on one machine then share it. Hardware
// threads are not counted: two kernels on one core would share its units.
static void describe(CpuTopology *topology) {
    const hwloc_topology_t tree = topology->handle->tree;
    const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(tree, topology->handle->allowed, HWLOC_OBJ_CORE);
    const int nodes = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_NUMANODE);
    topology->core_count = cores > 0 ? cores : 1;
    topology->numa_node_count = nodes > 0 ? nodes : 1;
    topology->l1_bytes = cache_bytes(tree, HWLOC_OBJ_L1CACHE, topology->l1_bytes);
    topology->l2_bytes = cache_bytes(tree, HWLOC_OBJ_L2CACHE, topology->l2_bytes);
    topology->l3_bytes = cache_bytes(tree, HWLOC_OBJ_L3CACHE, 0);
}

// True if the affinity may be queried. A sandbox may refuse that; hwloc then retries forever, with larger and larger
// sets, as it takes every error for a set that is too small.
static bool may_ask_affinity(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 || errno == EINVAL;
}

// Returns the tree, loaded by the first call that succeeds; NULL if hwloc fails.
static hwloc_topology_t tree_of_machine(void) {
    pthread_mutex_lock(&tree_lock);
    hwloc_topology_t tree = shared_tree;
    if (!tree && hwloc_topology_init(&tree) == 0) {
        if (load(tree)) {
            shared_tree = tree;
        } else {
            hwloc_topology_destroy(tree);
            tree = NULL;
        }
    }
    pthread_mutex_unlock(&tree_lock);
    return tree;
}

// Finds the tree, and the part of it that the process may use now. False, with nothing left allocated, if hwloc fails.
static bool open_tree(struct CpuTopologyHandle *handle) {
    handle->tree = may_ask_affinity() ? tree_of_machine() : NULL;
    handle->allowed = handle->tree ? hwloc_bitmap_alloc() : NULL;
    if (!handle->allowed) return false;
    if (!hwloc_topology_is_thissystem(handle->tree) ||
        hwloc_get_cpubind(handle->tree, handle->allowed, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(handle->allowed, hwloc_topology_get_allowed_cpuset(handle->tree));
    return true;
}

// Limits the cores to the quota. A process that is allowed the time of two processors has no use for more workers: all
// of them would be stopped once that time is used up.
static void respect_quota(CpuTopology *topology) {
    const int allowed = cpu_quota_processors("");
    if (allowed > 0 && allowed < topology->core_count) topology->core_count = allowed;
}

// Only lack of memory for our own struct is an error.
HloStatus cpu_topology_discover(CpuTopology *topology) {
    *topology = (CpuTopology){.core_count = 1, .numa_node_count = 1, .l1_bytes = 32 << 10, .l2_bytes = 1 << 20};
    struct CpuTopologyHandle *handle = hlo_allocate_zeroed(1, sizeof *handle);
    HLO_FAIL_IF(!handle, HLO_RESOURCE_EXHAUSTED, "no memory for the description of the host");
    if (open_tree(handle)) {
        topology->handle = handle;
        describe(topology);
    } else {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        topology->core_count = online > 0 ? (int)hlo_smaller(online, INT32_MAX) : 1;
        hlo_free(handle);
    }
    respect_quota(topology);
    return HLO_SUCCESS;
}

// A failure to bind is not an error.
void cpu_topology_bind_thread(const CpuTopology *topology, int core) {
    const struct CpuTopologyHandle *handle = topology->handle;
    if (!handle || topology->numa_node_count < 2 || !hwloc_topology_is_thissystem(handle->tree)) return;
    const hwloc_obj_t object = hwloc_get_obj_inside_cpuset_by_type(handle->tree, handle->allowed, HWLOC_OBJ_CORE,
                                                                   (unsigned)(core % topology->core_count));
    hwloc_bitmap_t nodes = object ? hwloc_bitmap_dup(object->nodeset) : NULL, set = hwloc_bitmap_alloc();
    if (nodes && set) {
        hwloc_cpuset_from_nodeset(handle->tree, set, nodes);
        hwloc_bitmap_and(set, set, handle->allowed);
        if (!hwloc_bitmap_iszero(set)) (void)hwloc_set_cpubind(handle->tree, set, HWLOC_CPUBIND_THREAD);
    }
    hwloc_bitmap_free(nodes);
    hwloc_bitmap_free(set);
}

void cpu_topology_free(CpuTopology *topology) {
    if (!topology->handle) return;
    hwloc_bitmap_free(topology->handle->allowed);
    hlo_free(topology->handle);
    topology->handle = NULL;
}
