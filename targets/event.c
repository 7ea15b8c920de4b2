// SPDX-License-Identifier: Apache-2.0
// Events: ready once, with an error or without. Ready is an atomic flag, so that checking it costs nothing; status and
// callbacks are guarded by a lock until then, and the status never changes afterwards. Publishing and calling back are
// two steps, because a task makes its results ready while it holds the queue, and callbacks must not run then.
//
// References: an event lives as long as it has references, and target_event_call() holds one too, as callbacks release
// events. Callbacks that were never called (an event fully released before it was set) are dropped with it. Only
// target_event_new(), target_event_on_ready() and copies of an error allocate, so that making an event ready cannot
// fail.
#include <assert.h>
#include <time.h>

#include "targets/internal.h"

typedef struct Callback {
    TargetEventCallback *call;
    void *argument;
    struct Callback *next;
} Callback;

struct TargetEvent {
    _Atomic int64_t references;
    _Atomic bool ready;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    HloStatus status;     // does not change once ready
    Callback *callbacks;  // in reverse order
};

// Statuses have one owner, while an event returns its error to every caller. When memory is short the copy is the error
// for that (hlo_error() has one that needs no memory): never success.
HloStatus target_status_copy(const struct HloError *status) {
    if (!status) return HLO_SUCCESS;
    const HloPlace *place = hlo_status_place(status);
    if (place) return hlo_error_at(hlo_status_code(status), place, "%s", hlo_status_message(status));
    return hlo_error(hlo_status_code(status), "%s", hlo_status_message(status));
}

// Waiting with a limit uses the monotonic clock: with the wall clock, setting the time would change the wait.
TargetEvent *target_event_new(void) {
    TargetEvent *event = hlo_allocate_zeroed(1, sizeof *event);
    if (!event) return NULL;
    event->references = 1;
    pthread_mutex_init(&event->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);  // a clock that is never set back
    pthread_cond_init(&event->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return event;
}

TargetEvent *target_event_retain(TargetEvent *event) {
    atomic_fetch_add(&event->references, 1);
    return event;
}

void target_event_release(TargetEvent *event) {
    if (!event || atomic_fetch_sub(&event->references, 1) != 1) return;
    for (Callback *next, *callback = event->callbacks; callback; callback = next) {
        next = callback->next;
        hlo_free(callback);
    }
    hlo_status_free(event->status);
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    hlo_free(event);
}

// The status is written before the flag, and the flag is sequentially consistent: a thread that reads `ready` without
// the lock sees the status. Only the first call counts, since results may be failed (poison, fork) while their producer
// still runs.
void target_event_publish(TargetEvent *event, HloStatus status) {
    assert(event);
    pthread_mutex_lock(&event->lock);
    const bool first = !atomic_load(&event->ready);
    if (first) {
        event->status = status;
        atomic_store(&event->ready, true);
        pthread_cond_broadcast(&event->changed);
    }
    pthread_mutex_unlock(&event->lock);
    if (!first) hlo_status_free(status);
}

// Calls callbacks in the order in which they were added. The event is retained meanwhile: one of them may release it.
void target_event_call(TargetEvent *event) {
    target_event_retain(event);
    pthread_mutex_lock(&event->lock);
    Callback *reversed = event->callbacks, *callbacks = NULL;
    event->callbacks = NULL;
    pthread_mutex_unlock(&event->lock);
    while (reversed) {
        Callback *next = reversed->next;
        reversed->next = callbacks;
        callbacks = reversed;
        reversed = next;
    }
    while (callbacks) {
        Callback *next = callbacks->next;
        callbacks->call(target_status_copy(event->status), callbacks->argument);
        hlo_free(callbacks);
        callbacks = next;
    }
    target_event_release(event);
}

// A waiter may release the event as soon as it is ready, before its callbacks have run: it is retained until then.
void target_event_set(TargetEvent *event, HloStatus status) {
    target_event_retain(event);
    target_event_publish(event, status);
    target_event_call(event);
    target_event_release(event);
}

bool target_event_is_ready(const TargetEvent *event) {
    return atomic_load(&((TargetEvent *)(uintptr_t)event)->ready);
}

HloStatus target_event_error(const TargetEvent *event) {
    return target_event_is_ready(event) ? target_status_copy(event->status) : HLO_SUCCESS;
}

HloStatus target_event_wait(TargetEvent *event) {
    assert(event);
    if (!target_event_is_ready(event) && !target_queue_help(event)) {
        pthread_mutex_lock(&event->lock);
        while (!atomic_load(&event->ready)) pthread_cond_wait(&event->changed, &event->lock);
        pthread_mutex_unlock(&event->lock);
    }
    return target_status_copy(event->status);
}

// Milliseconds are split so that neither the sum of nanoseconds nor that of seconds overflows for any realistic int64.
bool target_event_wait_for(TargetEvent *event, int64_t milliseconds) {
    assert(event && milliseconds >= 0);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&event->lock);
    int late = 0;
    while (!late && !atomic_load(&event->ready)) late = pthread_cond_timedwait(&event->changed, &event->lock, &until);
    pthread_mutex_unlock(&event->lock);
    return target_event_is_ready(event);
}

// The entry is allocated before the lock is taken: an error then leaves nothing to undo.
HloStatus target_event_on_ready(TargetEvent *event, TargetEventCallback *callback, void *argument) {
    assert(event && callback);
    Callback *entry = hlo_allocate(sizeof *entry);
    HLO_FAIL_IF(!entry, HLO_RESOURCE_EXHAUSTED, "no memory for a callback");
    *entry = (Callback){callback, argument, NULL};
    pthread_mutex_lock(&event->lock);
    const bool ready = atomic_load(&event->ready);
    if (!ready) {
        entry->next = event->callbacks;
        event->callbacks = entry;
    }
    pthread_mutex_unlock(&event->lock);
    if (!ready) return HLO_SUCCESS;
    hlo_free(entry);
    callback(target_status_copy(event->status), argument);
    return HLO_SUCCESS;
}
