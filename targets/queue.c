// SPDX-License-Identifier: Apache-2.0
// Tasks in order. One thread a client, started when a task is first left to it.
// Programs of a client run one after the other, in the order of their launches, each over all its devices. A small
// program that finds the line empty runs on the caller's thread, since handing it over would take longer than it does.
// While a running program waits in a host callback, tasks that are ready run beside it: the callback may wait for them.
//
// After a fork the child has no thread and locks in any state; a page that fork() wipes tells it so, and what was
// running is given up with an error.
//
// Order and locks. `running` is the one task in line that is being done; it is set and cleared under the lock, and the
// task's own work is done without it. Whoever finds nobody running may take the place: the queue's thread, or a caller
// whose task is small. A task's `finish` comes after its place is free again, because events call back from there, and
// a callback may submit to this very queue.
//
// A task aside counts in `aside` only: it never stands in line, and must depend on nothing that does (`is_ready`), or
// it could wait for the task that waits for it.
#include <assert.h>
#include <signal.h>

#include "targets/internal.h"

void target_queue_init(TargetQueue *queue, TargetStorePool *store, _Atomic(uint32_t) *alive) {
    assert(queue && store && alive);
    *queue = (TargetQueue){.store = store, .alive = alive};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    atomic_store(queue->alive, 1);
}

// Lock held, or nobody else there; the line must not be empty.
static TargetTask *take_first(TargetQueue *queue) {
    assert(queue->first);
    TargetTask *task = queue->first;
    queue->first = task->next;
    if (!queue->first) queue->last = NULL;
    return task;
}

// Takes the tasks out of the line whose submitters wait for them, and gives them back in a list.
static TargetTask *take_awaited(TargetQueue *queue) {
    TargetTask *all = queue->first, *awaited = NULL;
    queue->first = queue->last = NULL;
    for (TargetTask *next; all; all = next) {
        next = all->next;
        if (all->done) {
            all->next = awaited;
            awaited = all;
            continue;
        }
        all->next = NULL;
        *(queue->last ? &queue->last->next : &queue->first) = all;
        queue->last = all;
    }
    return awaited;
}

// In the child of a fork: the thread is gone, the locks may be in any state, and what was running will never end. Nor
// is anybody left who waited for a task in line: the answer would be written to the stack of a thread that is no more.
static void recover_from_fork(TargetQueue *queue) {
    if (atomic_load_explicit(queue->alive, memory_order_acquire)) return;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    target_store_pool_after_fork(queue->store);
    queue->started = false;
    queue->callbacks = queue->aside = 0;
    TargetTask *lost = queue->running, *awaited = take_awaited(queue);
    queue->running = NULL;
    atomic_store(queue->alive, 1);
    if (lost) lost->abandon(lost, hlo_error(HLO_ABORTED, "the process forked while this was running"));
    for (TargetTask *next; awaited; awaited = next) {
        next = awaited->next;
        awaited->abandon(awaited, hlo_error(HLO_ABORTED, "the process forked while this was waited for"));
    }
}

// Lock held; runs the task that `running` names without it.
static void run_task(TargetQueue *queue, TargetTask *task) {
    assert(task);
    queue->running = task;
    pthread_mutex_unlock(&queue->lock);
    task->run(task);
    pthread_mutex_lock(&queue->lock);
    queue->running = NULL;
    if (task->done) *task->done = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    task->finish(task);
    pthread_mutex_lock(&queue->lock);
}

// The queue whose thread this is; NULL on all others.
static _Thread_local TargetQueue *own_queue;

// Lock held; returns after something has changed. Callbacks run on the queue's own thread too and may wait there: it
// then does what stands in line itself, in the same order. (A callback of the running task cannot be helped so, and
// need not: what it waits for runs aside.)
static void await_change(TargetQueue *queue) {
    if (own_queue == queue && queue->first && !queue->running)
        run_task(queue, take_first(queue));
    else
        pthread_cond_wait(&queue->changed, &queue->lock);
}

typedef struct Awakening {
    TargetQueue *queue;
    bool called;  // under the queue's lock
} Awakening;

static void wake(HloStatus status, void *argument) {
    Awakening *awakening = argument;
    TargetQueue *queue = awakening->queue;
    hlo_status_free(status);
    pthread_mutex_lock(&queue->lock);
    awakening->called = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

// Waits for its own callback rather than for the event: that still points to this stack when the event is ready.
bool target_queue_help(TargetEvent *event) {
    TargetQueue *queue = own_queue;
    if (!queue) return false;
    Awakening awakening = {queue, false};
    const HloStatus status = target_event_on_ready(event, wake, &awakening);
    if (status) {
        hlo_status_free(status);
        return false;
    }
    pthread_mutex_lock(&queue->lock);
    while (!awakening.called) await_change(queue);
    pthread_mutex_unlock(&queue->lock);
    return true;
}

static void *thread_main(void *argument) {
    TargetQueue *queue = argument;
    own_queue = queue;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (queue->running || (!queue->first && !queue->stop)) pthread_cond_wait(&queue->changed, &queue->lock);
        if (!queue->first) break;
        run_task(queue, take_first(queue));
    }
    void (*last_words)(void *owner) = queue->last_words;
    void *owner = queue->owner;
    pthread_mutex_unlock(&queue->lock);
    if (last_words) last_words(owner);
    return NULL;
}

// Lock held. Signals are blocked in the thread, so that the program's handlers run in its own threads.
// False when the system gives no thread. The thread is started at the first task that needs one and not with the
// client, so that a process may fork before that without losing anything.
static bool ensure_thread(TargetQueue *queue) {
    if (queue->started) return true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    queue->started = pthread_create(&queue->thread, NULL, thread_main, queue) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return queue->started;
}

// Lock held. True if nobody is ahead.
static bool is_idle(const TargetQueue *queue) {
    return !queue->running && !queue->first;
}

// A counter and no flag: several devices of one program may call out at once, each on its own worker.
void target_queue_callback_begin(TargetQueue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->callbacks++;
    pthread_mutex_unlock(&queue->lock);
}

void target_queue_callback_end(TargetQueue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->callbacks--;
    pthread_mutex_unlock(&queue->lock);
}

// Does a task beside the running one; `finish` comes after the count, as it may release the last client.
static void run_aside(TargetQueue *queue, TargetTask *task) {
    task->run(task);
    pthread_mutex_lock(&queue->lock);
    assert(queue->aside > 0); /* raised when the task was taken on */
    queue->aside--;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    task->finish(task);
}

// A thread for one task. It is detached: target_queue_drain() waits for the count in `aside`, not for the thread.
static void *aside_main(void *argument) {
    TargetTask *task = argument;
    run_aside(task->queue, task);
    return NULL;
}

// The thread of a task that waits for the host, which may be the very thread that submits it. False when there is none.
static bool start_aside(TargetTask *task) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread, NULL, aside_main, task) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) pthread_detach(thread);
    return started;
}

// Three ways: here and now, beside a task that calls back, or in line.
HloStatus target_queue_submit(TargetQueue *queue, TargetTask *task, bool wait) {
    assert(queue && task);
    recover_from_fork(queue);
    pthread_mutex_lock(&queue->lock);
    if ((wait || (task->small && task->is_ready(task))) && is_idle(queue)) {
        run_task(queue, task);
        pthread_mutex_unlock(&queue->lock);
        return HLO_SUCCESS;
    }
    if (queue->callbacks > 0 && task->is_ready(task)) {
        queue->aside++;
        task->aside = true;
        task->queue = queue;
        pthread_mutex_unlock(&queue->lock);
        if (wait || !task->waits_for_host || !start_aside(task)) run_aside(queue, task);
        return HLO_SUCCESS;
    }
    if (!ensure_thread(queue)) {
        pthread_mutex_unlock(&queue->lock);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "the system gives no thread to run programs on");
    }
    bool done = false;
    task->next = NULL;
    task->done = wait ? &done : NULL;
    if (queue->last)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
    pthread_cond_broadcast(&queue->changed);
    while (wait && !done) await_change(queue);  // not for an idle queue: others may never let it come to that
    pthread_mutex_unlock(&queue->lock);
    return HLO_SUCCESS;
}

// `visit` must not call back into the queue: the lock is held, and is no recursive one.
void target_queue_visit(TargetQueue *queue, void (*visit)(TargetTask *task, void *argument), void *argument) {
    pthread_mutex_lock(&queue->lock);
    for (TargetTask *task = queue->first; task; task = task->next) visit(task, argument);
    pthread_mutex_unlock(&queue->lock);
}

// Tasks beside the line count too. What a parent left in line when it forked is given up if there can be no thread for
// it: somebody may wait for its results.
void target_queue_drain(TargetQueue *queue) {
    recover_from_fork(queue);
    pthread_mutex_lock(&queue->lock);
    while (queue->first && !ensure_thread(queue)) {
        TargetTask *task = take_first(queue);
        pthread_mutex_unlock(&queue->lock);
        task->abandon(task, hlo_error(HLO_RESOURCE_EXHAUSTED, "the system gives no thread to run programs on"));
        pthread_mutex_lock(&queue->lock);
    }
    while (!is_idle(queue) || queue->aside) await_change(queue);
    pthread_mutex_unlock(&queue->lock);
}

// Two ways to end. From another thread: everything is done first, then the thread is told to stop and joined, and the
// caller frees. On the queue's own thread (the last reference to the client was an execution's, given back in `finish`)
// joining would wait for ever: the thread is detached, runs out of work, and frees the client itself by last_words() as
// the last thing that it does.
bool target_queue_close(TargetQueue *queue, void (*last_words)(void *owner), void *owner) {
    assert(queue);
    if (!queue->alive) return true;
    recover_from_fork(queue);
    const bool own_thread = queue->started && pthread_equal(queue->thread, pthread_self());
    if (!own_thread) target_queue_drain(queue);
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    if (own_thread) {
        queue->last_words = last_words;
        queue->owner = owner;
        pthread_detach(queue->thread);
    }
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    if (!own_thread && queue->started) pthread_join(queue->thread, NULL);
    return !own_thread;
}

// `alive` is NULL where target_queue_init() never ran: there is nothing to destroy then.
void target_queue_destroy(TargetQueue *queue) {
    if (!queue->alive) return;
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}
