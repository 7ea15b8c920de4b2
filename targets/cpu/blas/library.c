// SPDX-License-Identifier: Apache-2.0
// Opens OpenBLAS and keeps threads out of it while the process forks.
//
// Its constructor starts a thread for each processor that the opening thread may use, so it is opened by a thread that
// may use one: nothing is started, whatever OPENBLAS_NUM_THREADS says, and the environment is not touched.
//
// Which kernels it has chosen is taken from openblas_get_corename(). Release 0.3.21 does not know recent processors,
// and falls back to kernels for SSE3 (core Prescott). Its only remedy is the environment variable OPENBLAS_CORETYPE,
// read by the constructor: a library must not set that in its host, where another thread may be reading the
// environment. So the core decides (choice.c): where it is below the processor's level, our own kernels compute.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hlo/base/memory.h"
#include "targets/cpu/blas/blas.h"

// Debian's path comes first: the bare name may lead to the serial build.
static const char *const kNames[] = {
#if defined(__linux__) && defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
#elif defined(__linux__) && defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
#endif
    "libopenblas.so.0", "libopenblasp.so.0"};

// Written once.
static struct {
    CpuBlas blas;
    bool usable;
    char reason[256];  // why it is not usable
} library;

// ---- opening

// Finds a function; on failure sets the reason.
static bool find(void *handle, const char *name, void *function) {
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    if (!address) snprintf(library.reason, sizeof library.reason, "it has no %s", name);
    return address != NULL;
}

static bool find_functions(void *handle) {
    CpuBlas *blas = &library.blas;
#define CPU_BLAS_REAL_AND_COMPLEX(member, f32, f64, c64, c128, parameters)                                      \
    if (!find(handle, #f32, &blas->member[CPU_BLAS_F32]) || !find(handle, #f64, &blas->member[CPU_BLAS_F64]) || \
        !find(handle, #c64, &blas->member[CPU_BLAS_C64]) || !find(handle, #c128, &blas->member[CPU_BLAS_C128])) \
        return false;
#define CPU_BLAS_PAIR(member, narrow, wide, parameters)                                                           \
    if (!find(handle, #narrow, &blas->member[CPU_BLAS_F32]) || !find(handle, #wide, &blas->member[CPU_BLAS_F64])) \
        return false;
#include "targets/cpu/blas/functions.def"
    return true;
}

// Returns the instruction set of a core's kernels.
static CpuFeatures core_level(const char *core) {
    static const struct {
        const char *core;
        CpuFeatures level;
    } cores[] = {{"Haswell", CPU_FEATURES_AVX2},
                 {"Zen", CPU_FEATURES_AVX2},
                 {"SkylakeX", CPU_FEATURES_AVX512},
                 {"Cooperlake", CPU_FEATURES_AVX512},
                 {"SapphireRapids", CPU_FEATURES_AVX512}};
    for (size_t i = 0; i < HLO_COUNT_OF(cores); i++)
        if (!strcmp(core, cores[i].core)) return cores[i].level;
    return CPU_FEATURES_BASELINE;
}

// Checks that this is the build that we can call, and prepares it.
static bool accept(void *handle) {
    enum { kThreads = 1 };  // what openblas_get_parallel() returns for POSIX threads
    int (*get_parallel)(void);
    void (*set_threads)(int);
    char *(*get_config)(void), *(*get_core)(void);
    if (!find(handle, "openblas_get_parallel", &get_parallel) ||
        !find(handle, "openblas_set_num_threads", &set_threads) || !find(handle, "openblas_get_config", &get_config) ||
        !find(handle, "openblas_get_corename", &get_core))
        return false;
    const char *refused = NULL;
    if (get_parallel() != kThreads)
        refused = "it is not the build with POSIX threads";
    else if (strstr(get_config(), "USE64BITINT"))
        refused = "its integers have 64 bits";
    if (refused) {
        snprintf(library.reason, sizeof library.reason, "%s", refused);
        return false;
    }
    if (!find_functions(handle)) return false;
    set_threads(1);
    library.blas.config = get_config();
    library.blas.core = get_core();
    library.blas.level = core_level(library.blas.core);
    return true;
}

// Copies a file into memory; returns a descriptor, or -1.
static int copy_to_memory(const char *path) {
    const int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("meshlo-openblas", MFD_CLOEXEC);
    struct stat about;
    bool done = from >= 0 && to >= 0 && fstat(from, &about) == 0;
    for (off_t copied = 0; done && copied < about.st_size;)
        done = sendfile(to, from, &copied, (size_t)(about.st_size - copied)) > 0;
    if (from >= 0) close(from);
    if (!done && to >= 0) close(to);
    return done ? to : -1;
}

// Opens a second copy of a library that the process has open: the loader knows files by device and number. That works
// only if the first copy's functions are not visible to all libraries, since the second one's would call them.
static void *open_again(void *theirs) {
    struct link_map *map = NULL;
    void *copy = NULL;
    char path[64];
    const bool visible = dlsym(RTLD_DEFAULT, "dgemm_") != NULL;
    const int file = !visible && dlinfo(theirs, RTLD_DI_LINKMAP, &map) == 0 ? copy_to_memory(map->l_name) : -1;
    if (file >= 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        close(file);
    }
    if (!copy)
        snprintf(library.reason, sizeof library.reason, "the host process has opened it already, and %s",
                 visible ? "shows it to all libraries" : "a copy of it could not be opened");
    return copy;
}

// Runs on a thread of its own, which may use one processor.
static void *open_library(void *unused) {
    cpu_set_t one;
    const int here = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(here < 0 ? 0 : here, &one);
    if (sched_setaffinity(0, sizeof one, &one)) {
        snprintf(library.reason, sizeof library.reason, "the system does not allow a thread to be bound");
        return unused;
    }
    for (size_t i = 0; i < HLO_COUNT_OF(kNames); i++) {
        void *theirs = dlopen(kNames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        void *handle = theirs ? open_again(theirs) : dlopen(kNames[i], RTLD_NOW | RTLD_LOCAL);
        if (theirs) dlclose(theirs);
        if (!handle && theirs) continue;
        if (!handle) {
            // The first error is the one to report, unless a file that is there cannot be opened.
            const char *error = dlerror();
            if (!*library.reason || access(kNames[i], F_OK) == 0)
                snprintf(library.reason, sizeof library.reason, "%s", error ? error : kNames[i]);
            continue;
        }
        library.usable = accept(handle);
        if (library.usable) return unused;
        dlclose(handle);
    }
    return unused;
}

// ---- forks

// A thread adds itself and then looks for a fork; a fork is announced before `inside` is read: one of the two sees the
// other. The lock is taken only to wait, and to wake those who do.
static struct {
    _Atomic int inside, waiting;
    _Atomic bool forking;
    pthread_mutex_t lock;
    pthread_cond_t left;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

// Waits until no thread is inside. The lock is held until after the fork.
static void before_fork(void) {
    pthread_mutex_lock(&gate.lock);
    atomic_store(&gate.forking, true);
    atomic_fetch_add(&gate.waiting, 1);
    while (atomic_load(&gate.inside)) pthread_cond_wait(&gate.left, &gate.lock);
    atomic_fetch_sub(&gate.waiting, 1);
}

static void after_fork_in_parent(void) {
    atomic_store(&gate.forking, false);
    pthread_cond_broadcast(&gate.left);
    pthread_mutex_unlock(&gate.lock);
}

// The child has only this thread, so none waits.
static void after_fork_in_child(void) {
    atomic_store(&gate.forking, false);
    atomic_store(&gate.waiting, 0);
    pthread_cond_init(&gate.left, NULL);
    pthread_mutex_init(&gate.lock, NULL);
}

static bool is_full(void) {
    return atomic_load(&gate.forking) || atomic_load(&gate.inside) >= CPU_BLAS_THREADS;
}

void cpu_blas_enter(void) {
    while (atomic_fetch_add(&gate.inside, 1) >= CPU_BLAS_THREADS || atomic_load(&gate.forking)) {
        cpu_blas_leave();
        pthread_mutex_lock(&gate.lock);
        atomic_fetch_add(&gate.waiting, 1);
        while (is_full()) pthread_cond_wait(&gate.left, &gate.lock);
        atomic_fetch_sub(&gate.waiting, 1);
        pthread_mutex_unlock(&gate.lock);
    }
}

void cpu_blas_leave(void) {
    atomic_fetch_sub(&gate.inside, 1);
    if (!atomic_load(&gate.waiting)) return;
    pthread_mutex_lock(&gate.lock);
    pthread_cond_broadcast(&gate.left);
    pthread_mutex_unlock(&gate.lock);
}

// ---- once

static void open_once(void) {
    pthread_t opener;
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) ||
        pthread_create(&opener, NULL, open_library, NULL)) {
        snprintf(library.reason, sizeof library.reason, "there is no memory to open it");
        return;
    }
    pthread_join(opener, NULL);
}

HloStatus cpu_blas_open(const CpuBlas **blas) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    HLO_FAIL_IF(!library.usable, HLO_UNAVAILABLE, "libopenblas.so.0 (Debian: libopenblas0-pthread) cannot be used: %s",
                library.reason);
    *blas = &library.blas;
    return HLO_SUCCESS;
}
