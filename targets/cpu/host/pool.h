// SPDX-License-Identifier: Apache-2.0
// The worker pool: one thread per core, started at the first parallel call. The calling thread works
// too (it is worker 0), so a pool of N workers owns N - 1 threads.
//
// Results never depend on the pool: it only decides which thread runs a part. Wherever the division could change a
// result (reductions), callers divide their work into parts whose boundaries do not depend on the number of workers.
//
// Workers spin for a short while after a job (a fork and join then takes about 0.3 us) and sleep on a futex after that
// (waking costs about 40 us), so a job should be worth several microseconds before it is divided.
#ifndef MESHLO_TARGETS_CPU_HOST_POOL_H_
#define MESHLO_TARGETS_CPU_HOST_POOL_H_

#include <stddef.h>
#include <stdint.h>

#include "hlo/base/status.h"
#include "targets/cpu/host/blas_choice.h"
#include "targets/cpu/host/features.h"
#include "targets/cpu/host/topology.h"

HLO_BEGIN_C

typedef struct CpuPool CpuPool;

// Runs the part [begin, end) of a parallel call's work. `worker` is the number of the running worker, below
// cpu_pool_worker_count(); no two calls with the same number run concurrently within one parallel call.
typedef void CpuTask(void *argument, int64_t begin, int64_t end, int worker);

// Creates a pool for this host. MESHLO_NUM_THREADS (1 to 1024) sets the number of workers, the default is one per core
// that this process may use. Starts no thread. INVALID_ARGUMENT for a bad variable (MESHLO_CPU_FEATURES,
// MESHLO_BLAS and MESHLO_GENERATED_CODE are read here as well).
HLO_NODISCARD HloStatus cpu_pool_new(CpuPool **pool);

// As cpu_pool_new(), with this number of workers (0: one per core) whatever MESHLO_NUM_THREADS says.
HLO_NODISCARD HloStatus cpu_pool_new_of(int workers, CpuPool **pool);

// Creates a pool with a given number of workers (at least 1) and instruction set, and CPU_BLAS_BUILTIN: for tests.
HLO_NODISCARD HloStatus cpu_pool_new_with(int workers, CpuFeatures features, CpuPool **pool);

// Stops and joins the threads and frees the pool; accepts NULL. No parallel call may be running.
void cpu_pool_free(CpuPool *pool);

// Returns the number of workers, the caller included. A NULL pool has one.
int cpu_pool_worker_count(const CpuPool *pool);
// Returns the instruction set of kernels run on this pool; the best one of the machine for a NULL pool.
CpuFeatures cpu_pool_features(const CpuPool *pool);
// Returns the engine for linear algebra of kernels run on this pool; CPU_BLAS_BUILTIN for a NULL pool.
CpuBlasChoice cpu_pool_blas(const CpuPool *pool);
// Changes it: for tests and benchmarks. No parallel call may be running.
void cpu_pool_set_blas(CpuPool *pool, CpuBlasChoice blas);
// Returns a flag for the pool's owner. Starts at 0; reset to 0 in a forked child. It lives as long as the pool.
_Atomic(uint32_t) *cpu_pool_fork_flag(const CpuPool *pool);

// Runs task(argument, begin, end, worker) so that [0, count) is covered once, and returns when all parts are done. Each
// worker first gets one contiguous share (worker w always the same one: first touch stays local), divided into pieces
// of `grain` (at least 1) which idle workers take over. A call from inside a task, or while another thread uses the
// pool, or on a NULL pool, runs inline as worker 0. Any thread. In the child of a fork the threads are started anew.
void cpu_pool_parallel_for_grain(CpuPool *pool, int64_t count, int64_t grain, CpuTask *task, void *argument);

// Does the same with one piece per worker: fixed partitions.
void cpu_pool_parallel_for(CpuPool *pool, int64_t count, CpuTask *task, void *argument);

// Runs work of uneven size: workers claim single indices of [0, count) in rising order.
void cpu_pool_parallel_claim(CpuPool *pool, int64_t count, CpuTask *task, void *argument);

// Takes scratch memory of at least `bytes`, aligned to 64, cached by the pool for re-use: kernels take it once per
// call, usually for all workers together. Content undefined. NULL when memory is short; a NULL pool allocates. Any
// thread.
void *cpu_pool_scratch_take(CpuPool *pool, size_t bytes);
// Returns scratch memory to the pool; accepts NULL.
void cpu_pool_scratch_give(CpuPool *pool, void *scratch);

HLO_END_C

#endif
