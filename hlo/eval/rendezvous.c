// SPDX-License-Identifier: Apache-2.0
// Runs several devices at the same time: one thread per device, with as many computing as there are processors. Devices
// synchronise at collectives. When no device is computing while some still wait, the run ends with an error that names
// which device waits where.
//
// One lock and one condition guard everything: devices are few, and synchronise seldom compared with their work in
// between. A device counts as active while it neither waits nor has finished. The last one to stop being active checks
// whether another still waits (check_deadlock). The check is exact, because only active devices can wake waiting ones.
// The first failure stops the run: the others see `stopped` at their next wait or rendezvous.
#include <assert.h>
#include <pthread.h>
#include <unistd.h>

#include "hlo/base/countdown.h"
#include "hlo/eval/internal.h"

#define STACK_BYTES (4 << 20)

// A collective that some of its group have reached.
typedef struct PendingCollective {
    struct PendingCollective *next;
    const HloInstruction *instruction;
    const int64_t *group;  // of the first to arrive
    int64_t count, arrived, left;
    bool closed;  // all have arrived
    bool done;
    HloEvalParty *parties;
} PendingCollective;

// Another condition that a device waits for.
typedef struct Wait {
    const HloInstruction *instruction;  // NULL while it does not wait
    HloEvalReady *ready;
    const void *context;
} Wait;

typedef struct HloEvalRendezvous {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    PendingCollective *collectives;  // until the last one of the group has left
    PendingCollective **waiting;     // by device; NULL while it works
    Wait *waits;                     // by device
    bool *finished;                  // by device
    int64_t active;                  // devices neither waiting nor finished
    int64_t free_slots;
    bool stopped;  // a device failed
    HloStatus failure;
} HloEvalRendezvous;

// Keeps the first failure and wakes all devices to see it.
static void fail(HloEvalRendezvous *rendezvous, HloStatus status) {
    assert(status);
    if (rendezvous->stopped) {
        hlo_status_free(status);
    } else {
        rendezvous->failure = status;
        rendezvous->stopped = true;
    }
    pthread_cond_broadcast(&rendezvous->changed);
}

// Whether a member of the rendezvous' group has already arrived.
static bool has_come(const PendingCollective *pending, int64_t device) {
    for (int64_t i = 0; i < pending->count; i++) {
        if (pending->group[i] == device) return pending->parties[i].device != NULL;
    }
    return false;
}

// "device 3 waits at %x (all-reduce) for device 1, 2 (finished)": at most eight names.
static void describe_wait(HloText *text, const HloEvalWorld *world, int64_t device, const PendingCollective *pending) {
    hlo_text_format(text, "%sdevice %lld waits at %%%s (%s) for", text->length ? "; " : "", (long long)device,
                    pending->instruction->name, hlo_op_text(pending->instruction->opcode));
    int64_t named = 0;
    for (int64_t i = 0; i < pending->count && named < 8; i++) {
        int64_t other = pending->group[i];
        if (has_come(pending, other)) continue;
        const char *why = world->rendezvous->finished[other] ? " (finished)" : "";
        hlo_text_format(text, "%s %lld%s", named++ ? "," : " device", (long long)other, why);
    }
}

// Called with the lock held whenever a device stops working. If no device works and one waits, it would wait forever.
static void check_deadlock(HloEvalWorld *world) {
    HloEvalRendezvous *rendezvous = world->rendezvous;
    if (rendezvous->active > 0 || rendezvous->stopped) return;
    HloText text = {0};
    int64_t named = 0, waiting = 0;
    for (int64_t d = 0; d < world->device_count; d++) {
        const PendingCollective *pending = rendezvous->waiting[d];
        const HloInstruction *receives = rendezvous->waits[d].instruction;
        if (!pending && !receives) continue;
        waiting++;
        if (named < 8 && pending) describe_wait(&text, world, d, pending);
        if (named < 8 && receives)
            hlo_text_format(&text, "%sdevice %lld waits at %%%s (%s) for a message", text.length ? "; " : "",
                            (long long)d, receives->name, hlo_op_text(receives->opcode));
        named++;
    }
    if (waiting) {
        fail(rendezvous, hlo_error(HLO_FAILED_PRECONDITION, "deadlock, %lld of %lld devices wait: %s",
                                   (long long)waiting, (long long)world->device_count, text.data ? text.data : ""));
    }
    hlo_text_free(&text);
}

// A slot is the right to work: no more devices compute at the same time than there are processors, however many threads
// there are.
static void take_slot(HloEvalRendezvous *rendezvous) {
    while (rendezvous->free_slots == 0) pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    rendezvous->free_slots--;
}

// All threads are woken: those that wait for a slot and those that wait for a rendezvous share the condition.
static void give_slot(HloEvalRendezvous *rendezvous) {
    rendezvous->free_slots++;
    pthread_cond_broadcast(&rendezvous->changed);
}

// The open rendezvous of this instruction and group; makes one if needed. NULL when memory is short. In a loop an
// instruction may run again while slow devices are still leaving its last rendezvous, which is closed by then. Groups
// do not overlap, so the first member identifies the group.
static PendingCollective *find_pending(HloEvalRendezvous *rendezvous, const HloInstruction *instruction,
                                       HloInts group) {
    assert(group.count > 0);
    for (PendingCollective *m = rendezvous->collectives; m; m = m->next) {
        if (!m->closed && m->instruction == instruction && m->count == group.count && m->group[0] == group.items[0])
            return m;
    }
    PendingCollective *pending = hlo_allocate_zeroed(1, sizeof(*pending));
    HloEvalParty *parties = hlo_allocate_zeroed((size_t)group.count, sizeof(*parties));
    if (!pending || !parties) {
        hlo_free(pending);
        hlo_free(parties);
        return NULL;
    }
    *pending = (PendingCollective){.next = rendezvous->collectives,
                                   .instruction = instruction,
                                   .group = group.items,
                                   .count = group.count,
                                   .parties = parties};
    rendezvous->collectives = pending;
    return pending;
}

// Removes a rendezvous from the list of open and unfinished ones.
static void free_pending(HloEvalRendezvous *rendezvous, PendingCollective *pending) {
    PendingCollective **at = &rendezvous->collectives;
    while (*at != pending) at = &(*at)->next;
    *at = pending->next;
    hlo_free(pending->parties);
    hlo_free(pending);
}

// With the lock held: waits until the rendezvous is done or the run has stopped.
static void wait_for_others(HloEvalDevice *device, PendingCollective *pending) {
    HloEvalRendezvous *rendezvous = device->world->rendezvous;
    rendezvous->waiting[device->number] = pending;
    rendezvous->active--;
    check_deadlock(device->world);
    give_slot(rendezvous);
    while (!pending->done && !rendezvous->stopped) pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    take_slot(rendezvous);
}

// ---- other conditions

// With a single device there is no contention, and no lock.
void hlo_eval_lock(HloEvalWorld *world) {
    if (world->rendezvous) pthread_mutex_lock(&world->rendezvous->lock);
}

void hlo_eval_unlock(HloEvalWorld *world) {
    if (world->rendezvous) pthread_mutex_unlock(&world->rendezvous->lock);
}

// Checks the condition of every waiting device with the lock held. A device whose condition is true counts as active
// from here on, before it has woken up, or a deadlock might be seen in between.
void hlo_eval_announce(HloEvalWorld *world) {
    HloEvalRendezvous *rendezvous = world->rendezvous;
    if (!rendezvous) return;
    for (int64_t d = 0; d < world->device_count; d++) {
        Wait *wait = &rendezvous->waits[d];
        if (!wait->instruction || !wait->ready(&world->devices[d], wait->context)) continue;
        wait->instruction = NULL;
        rendezvous->active++;
    }
    pthread_cond_broadcast(&rendezvous->changed);
}

static HloStatus stopped_status(void);

// The slot is released while waiting, and taken again afterwards.
HloStatus hlo_eval_await(HloEvalDevice *device, const HloInstruction *instruction, HloEvalReady *ready,
                         const void *context) {
    assert(instruction && ready);
    HloEvalRendezvous *rendezvous = device->world->rendezvous;
    if (ready(device, context)) return HLO_SUCCESS;
    HLO_FAIL_IF(!rendezvous, HLO_FAILED_PRECONDITION,
                "deadlock: %%%s (%s) waits for a message, but no other device is running", instruction->name,
                hlo_op_text(instruction->opcode));
    if (rendezvous->stopped) return stopped_status();
    Wait *wait = &rendezvous->waits[device->number];
    *wait = (Wait){instruction, ready, context};
    rendezvous->active--;
    check_deadlock(device->world);
    give_slot(rendezvous);
    while (wait->instruction && !rendezvous->stopped) pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    *wait = (Wait){0};  // `context` lives only as long as this call: an announcement to a stopped run must not use it
    take_slot(rendezvous);
    return rendezvous->stopped ? stopped_status() : HLO_SUCCESS;
}

// With the lock held: the last device to arrive computes for all.
static void conclude(HloEvalDevice *device, PendingCollective *pending, HloEvalExchange *exchange) {
    HloEvalRendezvous *rendezvous = device->world->rendezvous;
    pending->closed = true;
    pthread_mutex_unlock(&rendezvous->lock);
    HloStatus status = exchange(device, pending->instruction, pending->parties, pending->count);
    pthread_mutex_lock(&rendezvous->lock);
    if (status) fail(rendezvous, status);
    pending->done = true;
    for (int64_t i = 0; i < pending->count; i++) {
        int64_t number = pending->group[i];
        if (!rendezvous->waiting[number]) continue;
        rendezvous->waiting[number] = NULL;
        rendezvous->active++;
    }
    pthread_cond_broadcast(&rendezvous->changed);
}

// The error of devices that another device's failure stopped; only the first failure is shown.
static HloStatus stopped_status(void) {
    return hlo_error(HLO_ABORTED, "another device has failed");
}

// The last device to arrive computes the results, and each takes its own when it leaves; the last to leave frees the
// rendezvous.
static HloStatus meet_locked(HloEvalDevice *device, const HloInstruction *instruction, HloInts group, int64_t position,
                             HloEvalValue *const *operands, HloEvalExchange *exchange, HloEvalValue **result) {
    assert(position >= 0 && position < group.count);
    HloEvalRendezvous *rendezvous = device->world->rendezvous;
    if (rendezvous->stopped) return stopped_status();
    PendingCollective *pending = find_pending(rendezvous, instruction, group);
    HLO_FAIL_IF(!pending, HLO_RESOURCE_EXHAUSTED, "out of memory while evaluating");
    pending->parties[position] = (HloEvalParty){.device = device, .operands = operands};
    if (++pending->arrived == pending->count) {
        conclude(device, pending, exchange);
    } else {
        wait_for_others(device, pending);
    }
    *result = pending->parties[position].result;
    // A rendezvous that a failure interrupted is freed with the run: other devices may still use it.
    if (pending->done && ++pending->left == pending->count) free_pending(rendezvous, pending);
    return rendezvous->stopped ? stopped_status() : HLO_SUCCESS;
}

// A group of one does not wait, and works without threads.
HloStatus hlo_eval_meet(HloEvalDevice *device, const HloInstruction *instruction, HloInts group,
                        HloEvalValue *const *operands, HloEvalExchange *exchange, HloEvalValue **result) {
    assert(group.count > 0 && exchange);
    int64_t position = -1;
    for (int64_t i = 0; i < group.count; i++) {
        if (group.items[i] == device->number) position = i;
    }
    assert(position >= 0); /* callers ask for the device's own group */
    if (group.count == 1) {
        HloEvalParty party = {.device = device, .operands = operands};
        HLO_TRY(exchange(device, instruction, &party, 1));
        *result = party.result;
        return HLO_SUCCESS;
    }
    assert(device->world->rendezvous); /* groups of a run of one device have one member */
    pthread_mutex_t *lock = &device->world->rendezvous->lock;
    pthread_mutex_lock(lock);
    HloStatus status = meet_locked(device, instruction, group, position, operands, exchange, result);
    pthread_mutex_unlock(lock);
    return status;
}

// ---- threads

typedef struct Worker {
    HloEvalDevice *device;
    const HloComputation *computation;
    const HloLiteral *const *arguments;
    HloLiteral **result;
    int64_t allocations;  // number until one fails, as at the start of the run (hlo_allocation_countdown())
    pthread_t thread;
} Worker;

// Runs the body under hlo_protect(): running out of memory ends one device, not the process.
static HloStatus run_worker(void *argument) {
    Worker *worker = argument;
    return hlo_eval_run_device(worker->device, worker->computation, worker->arguments, worker->result);
}

// The thread of one device: works while it has a slot.
static void *worker_main(void *argument) {
    Worker *worker = argument;
    HloEvalRendezvous *rendezvous = worker->device->world->rendezvous;
    hlo_allocation_fail_after(worker->allocations);
    pthread_mutex_lock(&rendezvous->lock);
    take_slot(rendezvous);
    pthread_mutex_unlock(&rendezvous->lock);
    HloStatus status = hlo_protect(run_worker, worker);
    pthread_mutex_lock(&rendezvous->lock);
    if (status) fail(rendezvous, status);
    rendezvous->finished[worker->device->number] = true;
    rendezvous->active--;
    check_deadlock(worker->device->world);
    give_slot(rendezvous);
    pthread_mutex_unlock(&rendezvous->lock);
    return NULL;
}

// The number of devices that work at the same time: one per processor.
static int64_t slot_count(const HloEvalOptions *options) {
    if (options->thread_count > 0) return options->thread_count;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? processors : 1;
}

// Starts one thread per worker and waits for all of them.
static HloStatus run_threads(HloEvalRendezvous *rendezvous, Worker *workers, int64_t count) {
    assert(count > 0 && workers);
    pthread_attr_t attributes;
    const bool ready = !pthread_attr_init(&attributes);
    if (ready) (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int64_t started = 0;
    while (ready && started < count &&
           !pthread_create(&workers[started].thread, &attributes, worker_main, &workers[started])) {
        started++;
    }
    if (ready) pthread_attr_destroy(&attributes);
    if (started < count) {
        pthread_mutex_lock(&rendezvous->lock);
        fail(rendezvous, hlo_error(HLO_RESOURCE_EXHAUSTED, "only %lld of %lld device threads could be created",
                                   (long long)started, (long long)count));
        pthread_mutex_unlock(&rendezvous->lock);
    }
    for (int64_t d = 0; d < started; d++) pthread_join(workers[d].thread, NULL);
    return rendezvous->failure;
}

// Sets all results or none.
HloStatus hlo_eval_run_world(HloEvalWorld *world, const HloComputation *computation,
                             const HloLiteral *const *const *arguments, HloLiteral **results) {
    assert(world->device_count > 0 && results);
    int64_t count = world->device_count;
    HloEvalRendezvous *rendezvous = HLO_ARENA_NEW(world->arena, HloEvalRendezvous, 1);
    rendezvous->active = count;
    rendezvous->free_slots = slot_count(&world->options);
    rendezvous->waiting = HLO_ARENA_NEW(world->arena, PendingCollective *, count);
    rendezvous->waits = HLO_ARENA_NEW(world->arena, Wait, count);
    rendezvous->finished = HLO_ARENA_NEW(world->arena, bool, count);
    Worker *workers = HLO_ARENA_NEW(world->arena, Worker, count);
    for (int64_t d = 0; d < count; d++) {
        results[d] = NULL;
        workers[d] = (Worker){.device = &world->devices[d],
                              .computation = computation,
                              .arguments = arguments[d],
                              .result = &results[d],
                              .allocations = hlo_allocation_countdown()};
    }
    pthread_mutex_init(&rendezvous->lock, NULL);
    pthread_cond_init(&rendezvous->changed, NULL);
    world->rendezvous = rendezvous;
    HloStatus status = run_threads(rendezvous, workers, count);
    while (rendezvous->collectives) free_pending(rendezvous, rendezvous->collectives);
    pthread_cond_destroy(&rendezvous->changed);
    pthread_mutex_destroy(&rendezvous->lock);
    if (!status) return HLO_SUCCESS;
    for (int64_t d = 0; d < count; d++) {
        hlo_literal_free(results[d]);
        results[d] = NULL;
    }
    return status;
}
