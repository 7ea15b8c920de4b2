// SPDX-License-Identifier: Apache-2.0
// The pool: one job at a time over a range of indices. The range is divided into equal shares, one per worker; each
// claims pieces of its own share, then of the others', so that late workers get help and neighbours stay with one
// worker (its caches). A caller works too. Idle workers spin for 50 us, as the next loop of a program usually follows
// immediately, and then sleep on a futex. A caller that finds the pool busy, or calls from inside a job, runs its range
// itself: there is no nesting and nothing to deadlock on.
//
// Threads take part in a job by entering its gate (gate.h), which the caller closes when the whole range has been
// claimed. The job's fields are written before the gate opens, and not again before the last thread has left.
//
// A thread that loses its processor inside a job makes all others wait for it. If this happens in a short job, the
// machine has fewer free processors than threads, and callers work by themselves for a while.
#include "targets/cpu/host/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/clock.h"
#include "hlo/base/memory.h"
#include "targets/cpu/host/code_choice.h"
#include "targets/cpu/host/fork_flags.h"
#include "targets/cpu/host/gate.h"

enum { kMaximumWorkers = 1024, kCacheLine = 64, kScratchSlots = 16 };

// One worker's share of the running job: indices [next, end) are still to be claimed.
typedef struct Share {
    _Alignas(kCacheLine) _Atomic int64_t next;
    int64_t end;
} Share;

typedef struct Worker {
    CpuPool *pool;
    int number;
    pthread_t thread;
} Worker;

// A cached block of scratch memory. `bytes` is stored before the memory that the kernel sees.
typedef struct ScratchHeader {
    size_t bytes;
} ScratchHeader;

struct CpuPool {
    int worker_count;
    CpuFeatures features;
    CpuBlasChoice blas;
    CpuTopology topology;
    Share *shares;
    Worker *workers;
    int started;               // threads running (worker_count - 1 once started, fewer when the system had no more)
    _Atomic(uint32_t) *alive;  // 1 while this process has the threads; fork() sets it to 0 in the child
    _Alignas(kCacheLine) atomic_flag busy;  // set by the one parallel call that uses the threads
    // The job. Written by the caller before it opens the gate, read by workers that have entered.
    CpuTask *task;
    void *argument;
    int64_t grain;
    bool in_order;                                // all workers claim from share 0
    _Alignas(kCacheLine) _Atomic uint32_t epoch;  // futex: rises by one per job
    _Alignas(kCacheLine) CpuGate gate;
    _Atomic uint32_t sleepers;  // threads in futex wait on `epoch`
    _Atomic bool stop;
    _Atomic bool interrupted;     // a thread lost its processor inside of the job
    _Atomic int64_t alone_until;  // on the clock: until then callers run their jobs by themselves
    _Atomic(ScratchHeader *) scratch[kScratchSlots];
};

// ---- waiting

// Counting oneself as a sleeper before checking the epoch once more ensures that the caller does not miss the sleeper.
static void await_job(CpuPool *pool, uint32_t seen) {
    while (atomic_load_explicit(&pool->epoch, memory_order_acquire) == seen) {
        if (cpu_spin_while_equal(&pool->epoch, seen)) return;
        atomic_fetch_add(&pool->sleepers, 1);
        if (atomic_load(&pool->epoch) == seen) cpu_futex_wait(&pool->epoch, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

// ---- busy machines

// Jobs, and a thread's time in a job, are checked if they take this long: losing a processor costs a millisecond and
// more. After longer jobs callers need not work by themselves, as the loss is a small part of such a job.
enum { kShortest = 400000, kLongest = 20000000 };
// How long callers work by themselves, in multiples of the job, and at most: trying again costs a small part of that.
enum { kAloneTimes = 16, kAloneMost = 100000000 };

// True if this thread has lost its processor to another one since its last call. A system call, so it is not used for
// short times. Losses before the first call are unknown, and do not count.
static bool was_interrupted(void) {
    static _Thread_local long seen = -1;
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) return false;
    const bool more = seen >= 0 && usage.ru_nivcsw > seen;
    seen = usage.ru_nivcsw;
    return more;
}

static void judge_stay(CpuPool *pool, int64_t began) {
    if (hlo_clock_nanoseconds() - began >= kShortest && was_interrupted())
        atomic_store_explicit(&pool->interrupted, true, memory_order_relaxed);
}

// Decides after a job whether callers work by themselves for a while.
static void judge_job(CpuPool *pool, int64_t began) {
    const int64_t now = hlo_clock_nanoseconds(), took = now - began;
    judge_stay(pool, began);
    if (!atomic_exchange_explicit(&pool->interrupted, false, memory_order_relaxed) || took > kLongest) return;
    atomic_store_explicit(&pool->alone_until, now + hlo_smaller(kAloneTimes * took, kAloneMost), memory_order_relaxed);
}

// ---- running a job

// The load before the claim keeps a finished share's line from moving between the cores of all threads that read it.
static void drain_share(CpuPool *pool, Share *share, int worker) {
    const int64_t grain = pool->grain;
    while (atomic_load_explicit(&share->next, memory_order_relaxed) < share->end) {
        const int64_t begin = atomic_fetch_add_explicit(&share->next, grain, memory_order_relaxed);
        if (begin >= share->end) return;
        const int64_t end = share->end - begin < grain ? share->end : begin + grain;
        pool->task(pool->argument, begin, end, worker);
    }
}

// Works on the own share first, then on the others' in a ring: helpers visit late workers in different orders, so that
// they do not crowd.
static void work(CpuPool *pool, int worker) {
    const int shares = pool->in_order ? 1 : pool->worker_count;
    const int first = pool->in_order ? 0 : worker;
    for (int i = 0; i < shares; i++) drain_share(pool, &pool->shares[(first + i) % shares], worker);
}

// `seen` is the epoch of the last job that the thread saw. A thread that is so late that the next job is already open
// enters that one; it may then find the same job again, with nothing left to claim.
static void *worker_main(void *argument) {
    const Worker *self = argument;
    CpuPool *pool = self->pool;
    cpu_topology_bind_thread(&pool->topology, self->number);
    (void)was_interrupted();
    for (uint32_t seen = 0;;) {
        await_job(pool, seen);
        seen = atomic_load(&pool->epoch);
        if (atomic_load(&pool->stop)) return NULL;
        if (!cpu_gate_enter(&pool->gate)) continue;
        const int64_t began = hlo_clock_nanoseconds();
        work(pool, self->number);
        judge_stay(pool, began);
        cpu_gate_leave(&pool->gate);
    }
}

// Starts the threads if this process has none: at the first use, and in the child of a fork, which inherits the pool's
// memory but not its threads. Signals are blocked in workers so that the program's handlers run in its threads.
static void ensure_threads(CpuPool *pool) {
    if (atomic_load_explicit(pool->alive, memory_order_acquire)) return;
    atomic_store(&pool->epoch, 0);
    cpu_gate_reset(&pool->gate);
    atomic_store(&pool->sleepers, 0);
    pool->started = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < pool->worker_count; i++) {
        Worker *worker = &pool->workers[i];
        *worker = (Worker){.pool = pool, .number = i};
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store_explicit(pool->alive, 1, memory_order_release);
}

// Shares differ by one index at most. With in_order there is a single share, from which all claim.
static void deal_shares(CpuPool *pool, int64_t count) {
    const int shares = pool->in_order ? 1 : pool->worker_count;
    for (int i = 0; i < shares; i++) {
        const int64_t each = count / shares, more = count % shares;
        const int64_t begin = each * i + (i < more ? i : more);
        atomic_store_explicit(&pool->shares[i].next, begin, memory_order_relaxed);
        pool->shares[i].end = begin + each + (i < more);
    }
}

// Spinning workers see the epoch; the system call is for sleeping ones.
static void open_job(CpuPool *pool) {
    cpu_gate_open(&pool->gate);
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers)) cpu_futex_wake(&pool->epoch, pool->worker_count);
}

// A child of fork() may inherit `busy` set by the parent; it then runs everything inline, which is correct.
static void run(CpuPool *pool, int64_t count, int64_t grain, bool in_order, CpuTask *task, void *argument) {
    if (count <= 0) return;
    const bool shared = pool && pool->worker_count > 1 && count > grain;
    const int64_t began = shared ? hlo_clock_nanoseconds() : 0;
    if (!shared || began < atomic_load_explicit(&pool->alone_until, memory_order_relaxed) ||
        atomic_flag_test_and_set(&pool->busy)) {
        task(argument, 0, count, 0);
        return;
    }
    ensure_threads(pool);
    pool->task = task;
    pool->argument = argument;
    pool->grain = grain;
    pool->in_order = in_order;
    deal_shares(pool, count);
    open_job(pool);
    work(pool, 0);
    cpu_gate_close(&pool->gate);
    judge_job(pool, began);
    atomic_flag_clear(&pool->busy);
}

void cpu_pool_parallel_for_grain(CpuPool *pool, int64_t count, int64_t grain, CpuTask *task, void *argument) {
    run(pool, count, grain > 0 ? grain : 1, false, task, argument);
}

void cpu_pool_parallel_for(CpuPool *pool, int64_t count, CpuTask *task, void *argument) {
    const int workers = cpu_pool_worker_count(pool);
    run(pool, count, count / workers + (count % workers != 0), false, task, argument);
}

// For tasks that must be started in order, or that occupy a worker for the whole run (run/execute.c).
void cpu_pool_parallel_claim(CpuPool *pool, int64_t count, CpuTask *task, void *argument) {
    run(pool, count, 1, true, task, argument);
}

// ---- scratch

// Takes the first available block. One that is too small is freed and replaced, so that the slots grow to the sizes
// that the program needs. NULL when memory is short; without a pool nothing is kept. The content is undefined.
void *cpu_pool_scratch_take(CpuPool *pool, size_t bytes) {
    for (int i = 0; pool && i < kScratchSlots; i++) {
        ScratchHeader *found = atomic_exchange(&pool->scratch[i], NULL);
        if (!found) continue;
        if (found->bytes >= bytes) return (char *)found + kCacheLine;
        hlo_free(found);
        break;
    }
    if (bytes > SIZE_MAX - kCacheLine) return NULL;
    ScratchHeader *fresh = hlo_allocate_aligned(bytes + kCacheLine);
    if (!fresh) return NULL;
    fresh->bytes = bytes;
    return (char *)fresh + kCacheLine;
}

void cpu_pool_scratch_give(CpuPool *pool, void *scratch) {
    if (!scratch) return;
    ScratchHeader *header = (ScratchHeader *)(void *)((char *)scratch - kCacheLine);
    for (int i = 0; pool && i < kScratchSlots; i++) {
        ScratchHeader *empty = NULL;
        if (atomic_compare_exchange_strong(&pool->scratch[i], &empty, header)) return;
    }
    hlo_free(header);
}

// ---- making and freeing

int cpu_pool_worker_count(const CpuPool *pool) {
    return pool ? pool->worker_count : 1;
}

// Caches the detected set, as kernels without a pool call this every time. An unknown name in the variable is reported
// to the caller that creates a pool.
static CpuFeatures default_features(void) {
    static _Atomic int known = -1;
    int features = atomic_load_explicit(&known, memory_order_relaxed);
    if (features < 0) {
        CpuFeatures chosen;
        HloStatus status = cpu_features_choose(&chosen);
        if (status) chosen = cpu_features_detect();
        hlo_status_free(status);
        features = (int)chosen;
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return (CpuFeatures)features;
}

CpuFeatures cpu_pool_features(const CpuPool *pool) {
    return pool ? pool->features : default_features();
}

CpuBlasChoice cpu_pool_blas(const CpuPool *pool) {
    return pool ? pool->blas : CPU_BLAS_BUILTIN;
}

void cpu_pool_set_blas(CpuPool *pool, CpuBlasChoice blas) {
    pool->blas = blas;
}

// The page of flags has more than the pool's own flag.
_Atomic(uint32_t) *cpu_pool_fork_flag(const CpuPool *pool) {
    return pool->alive + 1;
}

static HloStatus allocate_parts(CpuPool *pool) {
    HLO_TRY(cpu_topology_discover(&pool->topology));
    if (pool->worker_count == 0)
        pool->worker_count = pool->topology.core_count < kMaximumWorkers ? pool->topology.core_count : kMaximumWorkers;
    pool->shares = hlo_allocate_aligned(sizeof(Share) * (size_t)pool->worker_count);
    pool->workers = hlo_allocate_zeroed((size_t)pool->worker_count, sizeof(Worker));
    pool->alive = cpu_fork_flags_new();
    HLO_FAIL_IF(!pool->shares || !pool->workers || !pool->alive, HLO_RESOURCE_EXHAUSTED,
                "no memory for a pool of %d workers", pool->worker_count);
    return HLO_SUCCESS;
}

// Creates a pool; zero workers mean one per core.
static HloStatus make_pool(int workers, CpuFeatures features, CpuBlasChoice blas, CpuPool **result) {
    CpuPool *pool = hlo_allocate_aligned(sizeof *pool);
    HLO_FAIL_IF(!pool, HLO_RESOURCE_EXHAUSTED, "no memory for a worker pool");
    *pool = (CpuPool){.worker_count = workers, .features = features, .blas = blas, .busy = ATOMIC_FLAG_INIT};
    cpu_gate_reset(&pool->gate);
    const HloStatus status = allocate_parts(pool);
    if (status) {
        cpu_pool_free(pool);
        return status;
    }
    *result = pool;
    return HLO_SUCCESS;
}

// Sets 0 if the variable is not set: one worker per core.
static HloStatus read_thread_count(int *count) {
    const char *text = getenv("MESHLO_NUM_THREADS");
    *count = 0;
    if (!text || !*text) return HLO_SUCCESS;
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    HLO_FAIL_IF(errno || *end || value < 1 || value > kMaximumWorkers, HLO_INVALID_ARGUMENT,
                "MESHLO_NUM_THREADS is '%s'; expected a number from 1 to %d", text, kMaximumWorkers);
    *count = (int)value;
    return HLO_SUCCESS;
}

HloStatus cpu_pool_new(CpuPool **pool) {
    int workers;
    HLO_TRY(read_thread_count(&workers));
    return cpu_pool_new_of(workers, pool);
}

HloStatus cpu_pool_new_of(int workers, CpuPool **pool) {
    CpuFeatures features;
    CpuBlasChoice blas;
    bool code;
    HLO_TRY(cpu_features_choose(&features));
    HLO_TRY(cpu_blas_choose(&blas));
    HLO_TRY(cpu_code_choose(&code));  // compiling reads it again
    return make_pool(workers, features, blas, pool);
}

HloStatus cpu_pool_new_with(int workers, CpuFeatures features, CpuPool **pool) {
    const CpuFeatures here = default_features();
    return make_pool(workers < 1 ? 1 : workers, features < here ? features : here, CPU_BLAS_BUILTIN, pool);
}

// The child of a fork has no threads, and `alive` is 0.
static void stop_threads(CpuPool *pool) {
    if (!pool->alive || !atomic_load(pool->alive)) return;
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->epoch, 1);
    cpu_futex_wake(&pool->epoch, pool->worker_count);
    for (int i = 1; i <= pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
}

void cpu_pool_free(CpuPool *pool) {
    if (!pool) return;
    stop_threads(pool);
    cpu_fork_flags_free(pool->alive);
    for (int i = 0; i < kScratchSlots; i++) hlo_free(atomic_load(&pool->scratch[i]));
    cpu_topology_free(&pool->topology);
    hlo_free(pool->shares);
    hlo_free(pool->workers);
    hlo_free(pool);
}
