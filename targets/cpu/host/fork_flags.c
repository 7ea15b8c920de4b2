// SPDX-License-Identifier: Apache-2.0
// Linux wipes pages in the child that were marked for it (MADV_WIPEONFORK, since 4.14), which needs no code to run at a
// fork. If a sandbox or an old kernel refuses, a handler of pthread_atfork() wipes the pages in a list.
#include "targets/cpu/host/fork_flags.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

// One page: the flags come first, so that their address is the page's.
typedef struct FlagPage FlagPage;
struct FlagPage {
    _Atomic(uint32_t) flags[CPU_FORK_FLAGS];
    bool listed;
    FlagPage *next;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static FlagPage *list;

static void before_fork(void) {
    pthread_mutex_lock(&list_lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void) {
    for (FlagPage *page = list; page; page = page->next)
        for (int i = 0; i < CPU_FORK_FLAGS; i++) atomic_store(&page->flags[i], 0);
    pthread_mutex_unlock(&list_lock);
}

static bool handlers_registered;
static void register_handlers(void) {
    handlers_registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

// Adds a page to the list; false if there is no memory to register the handlers.
static bool enlist(FlagPage *page) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_handlers);
    if (!handlers_registered) return false;
    pthread_mutex_lock(&list_lock);
    page->listed = true;
    page->next = list;
    list = page;
    pthread_mutex_unlock(&list_lock);
    return true;
}

static void delist(const FlagPage *page) {
    pthread_mutex_lock(&list_lock);
    for (FlagPage **at = &list; *at; at = &(*at)->next)
        if (*at == page) {
            *at = page->next;
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

_Atomic(uint32_t) *cpu_fork_flags_new(void) {
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    FlagPage *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0 || enlist(page)) return page->flags;
    munmap(page, bytes);
    return NULL;
}

// In the child of a fork `listed` is wiped with the rest of a page that is not in the list.
void cpu_fork_flags_free(_Atomic(uint32_t) *flags) {
    FlagPage *page = (FlagPage *)(void *)flags;
    if (!page) return;
    if (page->listed) delist(page);
    munmap(page, (size_t)sysconf(_SC_PAGESIZE));
}
