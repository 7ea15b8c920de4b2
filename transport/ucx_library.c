// SPDX-License-Identifier: Apache-2.0
#ifdef MESHLO_UCX

#include "transport/ucx_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ucm/api/ucm.h>

// Loaded with libucs, libucm overwrites the code of mmap(), munmap() and others, which other threads may be running. It
// does so at most once, when it is first initialised: so it is opened and initialised alone before, with that switched
// off. (libucs sets the switch again, from the environment; then it is too late for hooks, unless a registration cache
// asks for them, which ucx.c does not allow.)
static void open_without_hooks(void) {
    // Lazily, as it calls functions of libucs, which is not there yet.
    void *handle = dlopen("libucm.so.0", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) return;
    ucm_global_config_t *settings = dlsym(handle, "ucm_global_opts");
    void *address = dlsym(handle, "ucm_library_init");
    if (!settings || !address) return;
    void (*initialise)(void);
    memcpy(&initialise, &address, sizeof address);
    settings->enable_events = 0;
    settings->mmap_hook_mode = UCM_MMAP_HOOK_NONE;
    initialise();
}

// libucs, on which libucp depends, installs handlers for SIGSEGV, SIGHUP and others when it is loaded, and only the
// environment could tell it not to.
static void *open_without_handlers(const char *name) {
    struct sigaction before[NSIG], after;
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &before[number]) != 0) before[number].sa_flags = -1;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (int number = 1; number < NSIG; number++) {
        if (before[number].sa_flags == -1 || sigaction(number, NULL, &after) != 0) continue;
        if (after.sa_handler != before[number].sa_handler) (void)sigaction(number, &before[number], NULL);
    }
    return handle;
}

// The library, and why there is none; written once.
static UcxLibrary opened;
static char reason[256];

static bool find_functions(void *handle) {
    struct {
        const char *name;
        void *place;
    } wanted[] = {
#define UCX_ROW(name) {#name, &opened.name},
        UCX_FUNCTIONS(UCX_ROW)
#undef UCX_ROW
    };
    for (size_t i = 0; i < HLO_COUNT_OF(wanted); i++) {
        void *address = dlsym(handle, wanted[i].name);
        if (!address) {
            snprintf(reason, sizeof reason, "it has no function %s", wanted[i].name);
            return false;
        }
        memcpy(wanted[i].place, &address, sizeof address);
    }
    return true;
}

static void open_once(void) {
    open_without_hooks();
    void *handle = open_without_handlers("libucp.so.0");
    if (!handle) {
        const char *error = dlerror();
        snprintf(reason, sizeof reason, "%s", error ? error : "unknown error");
    } else if (find_functions(handle)) {
        unsigned major, minor, release;
        opened.ucp_get_version(&major, &minor, &release);
        if (major != UCP_API_MAJOR || minor < UCP_API_MINOR)
            snprintf(reason, sizeof reason, "its version %u.%u is older than %d.%d, for which this build was made",
                     major, minor, UCP_API_MAJOR, UCP_API_MINOR);
    }
}

HloStatus ucx_library_open(const UcxLibrary **library) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    HLO_FAIL_IF(reason[0], HLO_UNIMPLEMENTED,
                "the library libucp.so.0 of UCX (Debian: libucx0), which connects the processes, cannot be used: %s",
                reason);
    *library = &opened;
    return HLO_SUCCESS;
}

#else
typedef int UcxLibraryIsNotBuilt;  // C wants a declaration
#endif
