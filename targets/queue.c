// SPDX-License-Identifier: Apache-2.0
// Tasks in order. One thread per client, started when the first task is left to it. Programs of a client run one after
// the other, in the order of their launches, each over all its devices. A small program runs on the caller's thread if
// the queue is empty, since passing it to the thread would take longer. While a running program waits in a host
// callback, tasks that are ready run beside it: the callback may wait for them.
//
// After a fork the child has no thread and locks in any state; it detects this by a page that fork() wipes, and running
// tasks are abandoned with an error.
//
// Order and locks. `running` is the current task of the queue; it is set and cleared under the lock, and the task's own
// work is done without it. If no task is running, two kinds of threads may run the next: the queue's thread, or a
// caller whose task is small. A task's `finish` comes after `running` is cleared, because events call back from there,
// and a callback may submit to this very queue.
//
// A task that runs aside is counted only in `aside`: it is never in the queue, and must not depend on queued tasks
// (`is_ready`), or it could wait for the task that waits for it.
#include <assert.h>
#include <signal.h>

#include "targets/internal.h"

static void init_conditions(TargetQueue *queue) {
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

void target_queue_init(TargetQueue *queue, TargetStorePool *store, _Atomic(uint32_t) *alive) {
    assert(queue && store && alive);
    *queue = (TargetQueue){.store = store, .alive = alive};
    pthread_mutex_init(&queue->lock, NULL);
    init_conditions(queue);
    atomic_store(queue->alive, 1);
}

// Removes the first task. Lock held, or no other thread exists; the queue must not be empty.
static TargetTask *take_first(TargetQueue *queue) {
    assert(queue->first);
    TargetTask *task = queue->first;
    queue->first = task->next;
    if (!queue->first) queue->last = NULL;
    return task;
}

// Removes the tasks from the queue whose submitters wait for them, and returns them in a list.
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

// In the child of a fork: the thread is gone, the locks may be in any state, and running tasks will never end. The
// threads that waited for a queued task are gone too: the answer would be written to the stack of one of them.
static void recover_from_fork(TargetQueue *queue) {
    if (atomic_load_explicit(queue->alive, memory_order_acquire)) return;
    pthread_mutex_init(&queue->lock, NULL);
    init_conditions(queue);
    target_store_pool_after_fork(queue->store);
    queue->started = false;
    queue->callbacks = queue->aside = 0;
    TargetTask *lost = queue->running, *awaited = take_awaited(queue);
    queue->running = NULL;
    atomic_store(queue->alive, 1);
    if (lost) lost->abandon(lost, hlo_error(HLO_ABORTED, "the process forked while this was running"));
    for (TargetTask *next; awaited; awaited = next) {
        next = awaited->next;
        awaited->abandon(awaited, hlo_error(HLO_ABORTED, "the process forked while this was pending"));
    }
}

// Called with the lock held, when the queue or what it runs has changed. The queue's own thread is woken only if there
// is a task for it: after a task in a caller's thread that would take longer than small tasks do.
static void tell(TargetQueue *queue) {
    if (queue->first || queue->stop) pthread_cond_signal(&queue->work);
    pthread_cond_broadcast(&queue->changed);
}

// Called with the lock held; runs the task that `running` points to without it.
static void run_task(TargetQueue *queue, TargetTask *task) {
    assert(task);
    queue->running = task;
    pthread_mutex_unlock(&queue->lock);
    task->run(task);
    pthread_mutex_lock(&queue->lock);
    queue->running = NULL;
    if (task->done) *task->done = true;
    tell(queue);
    pthread_mutex_unlock(&queue->lock);
    task->finish(task);
    pthread_mutex_lock(&queue->lock);
}

// The queue that this thread serves; NULL on all others.
static _Thread_local TargetQueue *own_queue;

// Called with the lock held; returns after something has changed. Callbacks run on the queue's own thread too and may
// wait there: it then runs the queued tasks itself, in the same order. (This does not help a callback of the running
// task, and need not: the tasks it waits for run aside.)
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
        while (queue->running || (!queue->first && !queue->stop)) pthread_cond_wait(&queue->work, &queue->lock);
        if (!queue->first) break;
        run_task(queue, take_first(queue));
    }
    void (*last_words)(void *owner) = queue->last_words;
    void *owner = queue->owner;
    pthread_mutex_unlock(&queue->lock);
    if (last_words) last_words(owner);
    return NULL;
}

// Called with the lock held. Signals are blocked in the thread, so that the program's handlers run in its own threads.
// False if the system cannot start a thread. The thread is started at the first task that needs one and not with the
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

// Called with the lock held. True if no task is running or queued.
static bool is_idle(const TargetQueue *queue) {
    return !queue->running && !queue->first;
}

// Raises a counter rather than a flag: several devices of one program may call out concurrently, each on its own
// worker.
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

// Runs a task beside the running one; `finish` comes after the count, as it may release the last client.
static void run_aside(TargetQueue *queue, TargetTask *task) {
    task->run(task);
    pthread_mutex_lock(&queue->lock);
    assert(queue->aside > 0); /* incremented when the task was started */
    queue->aside--;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    task->finish(task);
}

// Runs the thread of one task. It is detached: target_queue_drain() waits for the count in `aside`, not for the thread.
static void *aside_main(void *argument) {
    TargetTask *task = argument;
    run_aside(task->queue, task);
    return NULL;
}

// Starts a thread for a task that waits for the host, which may be the very thread that submits it. False on failure.
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

// Runs the task in one of three ways: immediately, beside a task that is in a callback, or in the queue.
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
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "cannot create a thread to run programs on");
    }
    bool done = false;
    task->next = NULL;
    task->done = wait ? &done : NULL;
    if (queue->last)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
    tell(queue);
    while (wait && !done) await_change(queue);  // not for an idle queue: other threads may keep it busy forever
    pthread_mutex_unlock(&queue->lock);
    return HLO_SUCCESS;
}

// `visit` must not call back into the queue: the lock is held, and is not recursive.
void target_queue_visit(TargetQueue *queue, void (*visit)(TargetTask *task, void *argument), void *argument) {
    pthread_mutex_lock(&queue->lock);
    for (TargetTask *task = queue->first; task; task = task->next) visit(task, argument);
    pthread_mutex_unlock(&queue->lock);
}

// Tasks that run aside count too. Tasks that the parent left in the queue when it forked are abandoned if no thread can
// be started for them: their results may be waited for.
void target_queue_drain(TargetQueue *queue) {
    recover_from_fork(queue);
    pthread_mutex_lock(&queue->lock);
    while (queue->first && !ensure_thread(queue)) {
        TargetTask *task = take_first(queue);
        pthread_mutex_unlock(&queue->lock);
        task->abandon(task, hlo_error(HLO_RESOURCE_EXHAUSTED, "cannot create a thread to run programs on"));
        pthread_mutex_lock(&queue->lock);
    }
    while (!is_idle(queue) || queue->aside) await_change(queue);
    pthread_mutex_unlock(&queue->lock);
}

// Closes the queue in one of two ways. From another thread: everything is finished, then the thread is told to stop and
// joined, and the caller frees. On the queue's own thread (the last reference to the client was an execution's,
// released in `finish`) joining would wait forever: the thread is detached, finishes its work, and at its very end
// frees the client itself by last_words().
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
    tell(queue);
    pthread_mutex_unlock(&queue->lock);
    if (!own_thread && queue->started) pthread_join(queue->thread, NULL);
    return !own_thread;
}

// `alive` is NULL if target_queue_init() never ran: there is nothing to destroy then.
void target_queue_destroy(TargetQueue *queue) {
    if (!queue->alive) return;
    pthread_cond_destroy(&queue->work);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}
