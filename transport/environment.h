// SPDX-License-Identifier: Apache-2.0
// Which process of how many this one is, and how it reaches the others, as the environment describes it.
//
// Several conventions describe that; the first one that applies decides, and the others must agree about the number of
// processes (an error names the two variables that do not):
//   1. Meshlo's own: MESHLO_PROCESS_INDEX and MESHLO_PROCESS_ADDRESSES, as `meshlo launch` sets them.
//   2. Those of the TPU runtime: TPU_PROCESS_ADDRESSES with CLOUD_TPU_TASK_ID and TPU_PROCESS_PORT, or
//      TPU_WORKER_HOSTNAMES with TPU_WORKER_ID; TPU_PROCESS_BOUNDS, TPU_CHIPS_PER_PROCESS_BOUNDS, TPU_VISIBLE_CHIPS
//      (and their earlier names TPU_HOST_BOUNDS, TPU_CHIPS_PER_HOST_BOUNDS, TPU_VISIBLE_DEVICES); for several slices
//      MEGASCALE_NUM_SLICES and MEGASCALE_SLICE_ID.
//   3. The framework's: the number of processes and the number of this one, which jax.distributed passes on.
//   4. Schedulers: Open MPI, Slurm, PMI (MPICH, Intel MPI).
//
// Bounds and visible chips are read whatever decides, since they say how a slice is divided, not who is there.
//
// Stability: experimental.
#ifndef MESHLO_TRANSPORT_ENVIRONMENT_H_
#define MESHLO_TRANSPORT_ENVIRONMENT_H_

#include "hlo/base/memory.h"

HLO_BEGIN_C

// The port of processes that only their host names describe: that of the TPU runtime's slice builder.
enum { TRANSPORT_DEFAULT_PORT = 8471 };

// Where variables come from: `get` returns a value or NULL. getenv() unless a test or a launcher says otherwise.
typedef struct TransportVariables {
    const char *(*get)(void *context, const char *name);
    void *context;
} TransportVariables;

// What a framework says about itself; -1 for what it does not say.
typedef struct TransportFramework {
    const char *name;  // for messages: "jax.distributed"
    int64_t process_count, process_index;
} TransportFramework;

// Who this process is. Strings and lists belong to the arena that they were read into.
typedef struct TransportEnvironment {
    int64_t process_count;         // of all slices; 1 if nothing describes others
    int64_t process_index;         // counted through all slices
    const char *source;            // the variable that gave process_count, for messages; NULL if nothing did
    const char *const *addresses;  // "host:port" of each process; NULL if they are not known
    bool is_alone;                 // MESHLO_PROCESS_INDEX without addresses: one host of the slice, without the others
    bool plays_all_hosts;          // MESHLO_PROCESS_INDEX=all: nothing else counts
    int64_t process_bounds[3];     // processes of one slice along x, y, z; zeros if they are not given
    int64_t chip_bounds[3];        // chips of one process along x, y, z; zeros if they are not given
    const char *process_bounds_source, *chip_bounds_source;  // variables, for messages; NULL if they are not given
    int64_t slice_count, slice_index;                        // 1 and 0 without MEGASCALE_*
    const char *slice_source;                                // "MEGASCALE_NUM_SLICES" or NULL
    // A text that the processes of one job on one machine have in common, and those of no other job; NULL where the
    // scheduler has placed processes on several machines, or where there is none.
    const char *job;
    const char *secret;      // MESHLO_SECRET; NULL if it is not set
    double timeout_seconds;  // MESHLO_HOST_TIMEOUT; 0 if it is not set
} TransportEnvironment;

// The variables of this process.
HLO_EXPORT TransportVariables transport_process_variables(void);

// Reads the environment. `variables` NULL: those of this process; `framework` may be NULL. INVALID_ARGUMENT for values
// that are malformed and for variables that contradict each other, by name. Jumps to hlo_protect() when memory is
// short.
HLO_EXPORT HLO_NODISCARD HloStatus transport_environment_read(HloArena *arena, const TransportVariables *variables,
                                                              const TransportFramework *framework,
                                                              TransportEnvironment *environment);

HLO_END_C

#endif
