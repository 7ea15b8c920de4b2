// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/run/messages.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

#include "hlo/base/clock.h"
#include "hlo/base/text.h"
#include "targets/cpu/host/gate.h"

enum {
    kPollNanoseconds = 20000,     // polling, where every process can have a processor
    kYieldNanoseconds = 100000,   // yielding, after that
    kCrowdedNanoseconds = 30000,  // yielding, where they cannot
    kShortSleep = 1000000,        // while other workers are busy
    kLongSleep = 100000000,
    kActivityNanoseconds = 10000000,  // when others learn where this process waits
};

// A message of a channel, to or from another process.
struct CpuRunMessage {
    struct CpuRunMessage *next;
    TransportRequest *request;
    int64_t process;
    CpuDevice *device;      // the receiver
    const CpuThunk *thunk;  // where it waits
    void *to;               // its memory
    char data[];            // sends: a copy
};

typedef struct CpuRunMessage Message;

// ---- messages between devices

bool cpu_messages_come_from_elsewhere(const CpuRun *run, const CpuP2pTransfer *peer, int64_t device) {
    return run->span && peer->has_pairs && peer->sources[device] >= 0 && run->span->elsewhere[peer->sources[device]];
}

static HloStatus no_memory(int64_t bytes) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message of %lld bytes", (long long)bytes);
}

// The copy lives until it has arrived, so that the sender continues at once, as with a receiver in its own process.
static HloStatus send_to(CpuRun *run, const CpuP2pTransfer *peer, int64_t source, int64_t target, const void *data) {
    const int64_t route = cpu_span_route(run->span, peer->channel, source, target);
    const int64_t process = run->span->processes[target];
    assert(route >= 0); /* the span has the routes of all sends */
    Message *message = hlo_allocate(sizeof *message + (size_t)peer->bytes);
    if (!message) return no_memory(peer->bytes);
    *message = (Message){.next = run->messages.sends, .process = process};
    if (peer->bytes) memcpy(message->data, data, (size_t)peer->bytes);
    const HloStatus status = transport_send(cpu_launch_transport(run->launch), process,
                                            cpu_launch_tag(run->launch, process, CPU_MESSAGE_CHANNEL, route),
                                            message->data, peer->bytes, &message->request);
    if (status)
        hlo_free(message);
    else
        run->messages.sends = message;
    return status;
}

HloStatus cpu_messages_send(CpuRun *run, const CpuP2pTransfer *peer, int64_t device, const void *data) {
    if (!run->span || !peer->has_pairs) return HLO_SUCCESS;
    for (const int64_t *target = peer->targets[device]; *target >= 0; target++)
        if (run->span->elsewhere[*target]) HLO_TRY(send_to(run, peer, device, *target, data));
    return HLO_SUCCESS;
}

HloStatus cpu_messages_receive(CpuRun *run, CpuDevice *device, const CpuThunk *thunk, void *data) {
    const CpuP2pTransfer *peer = thunk->kernel;
    Message *message = hlo_allocate_zeroed(1, sizeof *message);
    if (!message) return no_memory(peer->bytes);
    *message = (Message){.next = run->messages.receives,
                         .process = run->span->processes[peer->sources[device->number]],
                         .device = device,
                         .thunk = thunk,
                         .to = data};
    device->waits_at = thunk;
    run->messages.receives = message;
    return HLO_SUCCESS;
}

// Posts a receive when its sender is known to run this program: the sizes of others' messages would not fit.
static HloStatus listen_now(CpuRun *run, Message *message) {
    if (message->request || !cpu_launch_is_checked(run->launch, message->process)) return HLO_SUCCESS;
    const CpuP2pTransfer *peer = message->thunk->kernel;
    const int64_t target = message->device->number;
    const int64_t route = cpu_span_route(run->span, peer->channel, peer->sources[target], target);
    assert(route >= 0); /* the span has the routes of all receives */
    return transport_receive(cpu_launch_transport(run->launch), message->process,
                             cpu_launch_tag(run->launch, message->process, CPU_MESSAGE_CHANNEL, route), message->to,
                             peer->bytes, &message->request);
}

static void free_message(Message *message) {
    transport_request_free(message->request);
    hlo_free(message);
}

// Queues the devices whose messages have arrived.
static HloStatus take_received(CpuRun *run) {
    for (Message **at = &run->messages.receives; *at;) {
        Message *message = *at;
        HloStatus status = listen_now(run, message);
        if (!status && (!message->request || !transport_request_is_done(message->request, &status))) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        CpuDevice *device = message->device;
        const CpuThunk *thunk = message->thunk;
        free_message(message);
        if (status) return hlo_status_annotate(status, "%%%s", thunk->name);
        cpu_run_resume(run, device);
    }
    return HLO_SUCCESS;
}

static HloStatus take_sent(CpuRun *run) {
    for (Message **at = &run->messages.sends; *at;) {
        Message *message = *at;
        HloStatus status = HLO_SUCCESS;
        if (!transport_request_is_done(message->request, &status)) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        free_message(message);
        if (status) return status;
    }
    return HLO_SUCCESS;
}

// ---- exchanges

HloStatus cpu_messages_advance(CpuRun *run, CpuRendezvous *rendezvous, bool *done) {
    if (!rendezvous->remote)
        HLO_TRY(cpu_remote_new(rendezvous->collective, rendezvous->group, rendezvous - run->rendezvous_list, run->span,
                               run->launch, run->pool, &rendezvous->remote));
    HloStatus status = HLO_SUCCESS;
    do {
        HLO_TRY(cpu_remote_advance(rendezvous->remote, rendezvous->addresses, done));
    } while (!*done && cpu_remote_is_ready(rendezvous->remote, &status) && !status);
    return status;
}

void cpu_messages_add(CpuRun *run, CpuRendezvous *rendezvous) {
    rendezvous->next = run->messages.exchanges;
    run->messages.exchanges = rendezvous;
}

static HloStatus take_exchanges(CpuRun *run) {
    for (CpuRendezvous **at = &run->messages.exchanges; *at;) {
        CpuRendezvous *rendezvous = *at;
        HloStatus status;
        if (!cpu_remote_is_ready(rendezvous->remote, &status)) {
            at = &rendezvous->next;
            continue;
        }
        *at = rendezvous->next;
        if (status) return hlo_status_annotate(status, "%%%s", rendezvous->collective->instruction->name);
        cpu_run_push_work(run, (CpuWork){.rendezvous = rendezvous, .is_remote = true});
    }
    return HLO_SUCCESS;
}

bool cpu_messages_are_awaited(const CpuRun *run) {
    return run->messages.exchanges || run->messages.receives;
}

// ---- long waits

// Adds the processes that a place waits for, and the words for people.
static void add_waits(CpuRun *run, CpuWaitReport *report, int32_t place, int64_t process, HloText *text) {
    const bool first = report->process_count == 0 || report->process_places[report->process_count - 1] != place;
    hlo_text_format(text, "%s%s", first ? " for " : ", ",
                    transport_process_name(cpu_launch_transport(run->launch), process));
    if (report->process_count == CPU_WAIT_PROCESSES) {
        report->is_complete = 0;
        return;
    }
    report->processes[report->process_count] = (int32_t)process;
    report->process_places[report->process_count++] = place;
}

// Describes where this process waits: "waits at all-reduce %a for process 1 (…)". Lock held.
static void describe(CpuRun *run, CpuWaitReport *report, HloText *text) {
    *report =
        (CpuWaitReport){.is_complete = 1, .progress = run->messages.progress, .has_sends = run->messages.sends != NULL};
    const char *word = "waits at";
    for (const CpuRendezvous *at = run->messages.exchanges; at; at = at->next, word = "; at") {
        if (report->place_count == CPU_WAIT_PLACES) {
            report->is_complete = 0;
            return;
        }
        const int32_t place = (int32_t)report->place_count++;
        report->places[place] = cpu_remote_rendezvous(at->remote);
        hlo_text_format(text, "%s %s %%%s", word, hlo_op_text(at->collective->opcode),
                        at->collective->instruction->name);
        for (int64_t p = -1; (p = cpu_remote_awaited(at->remote, p)) >= 0;) add_waits(run, report, place, p, text);
    }
    for (const Message *at = run->messages.receives; at; at = at->next, word = "; at") {
        hlo_text_format(text, "%s recv-done %%%s for %s", word, at->thunk->name,
                        transport_process_name(cpu_launch_transport(run->launch), at->process));
        if (report->process_count == CPU_WAIT_PROCESSES) {
            report->is_complete = 0;
            return;
        }
        report->processes[report->process_count] = (int32_t)at->process;
        report->process_places[report->process_count++] = -1;
    }
}

// Names whom this process has waited for, and what they were last known to do.
static HloStatus timeout_error(CpuRun *run, const CpuWaitReport *report, const char *where) {
    HloText silent = {0}, text = {0};
    cpu_launch_print_silent(run->launch, &silent);
    for (int64_t k = 0; k < report->process_count && k < 8; k++) {
        hlo_text_string(&text, "; ");
        cpu_launch_print_peer(run->launch, report->processes[k], &text);
    }
    Transport *transport = cpu_launch_transport(run->launch);
    const HloStatus status =
        hlo_error(HLO_DEADLINE_EXCEEDED, "launch %lld, %s: %s%s has waited %.3g s; it %s%s",
                  (long long)cpu_launch_ordinal(run->launch), run->executable->module->name,
                  silent.data ? silent.data : "", transport_process_name(transport, transport_process_index(transport)),
                  (double)cpu_launch_timeout(run->launch) / 1e9, where, text.data ? text.data : "");
    hlo_text_free(&silent);
    hlo_text_free(&text);
    return status;
}

// Tells the others where this process waits, and decides whether that is in vain. Lock held.
static HloStatus judge_wait(CpuRun *run, int64_t elapsed) {
    CpuMessages *messages = &run->messages;
    const int64_t due =
        messages->reports ? messages->reports * cpu_launch_report_interval(run->launch) : kActivityNanoseconds;
    if (elapsed < due && elapsed < cpu_launch_timeout(run->launch)) return HLO_SUCCESS;
    HloText text = {0};
    CpuWaitReport report;
    describe(run, &report, &text);
    const char *where = text.data ? text.data : "waits";
    HloStatus status = HLO_SUCCESS;
    if (elapsed >= cpu_launch_timeout(run->launch)) status = timeout_error(run, &report, where);
    if (!status && messages->reports++ == 0) cpu_launch_set_activity(run->launch, where);
    if (!status && messages->reports > 1) {
        cpu_launch_report(run->launch, &report);
        cpu_launch_probe(run->launch);
        status = cpu_launch_deadlock(run->launch, &report, hlo_clock_nanoseconds() - elapsed, where);
    }
    hlo_text_free(&text);
    return status;
}

// ---- moving messages

// Lock held, but released while messages move.
static HloStatus poll_once(CpuRun *run) {
    pthread_mutex_unlock(&run->lock);
    const HloStatus status = cpu_launch_poll(run->launch);
    pthread_mutex_lock(&run->lock);
    if (status) return status;
    HLO_TRY(take_sent(run));
    HLO_TRY(take_received(run));
    return take_exchanges(run);
}

void cpu_messages_poll(CpuRun *run) {
    CpuMessages *messages = &run->messages;
    if (messages->is_driven || !cpu_messages_are_awaited(run)) return;
    messages->is_driven = true;
    const HloStatus status = poll_once(run);
    messages->is_driven = false;
    if (status) cpu_run_fail(run, status);
}

// Spends a moment of a wait that has lasted `elapsed` nanoseconds. `events` are the transport's from before the last
// poll. Without the lock.
static void pass_time(CpuRun *run, int64_t events, int64_t elapsed, bool others_are_busy) {
    Transport *transport = cpu_launch_transport(run->launch);
    const bool crowded = transport_process_count(transport) > cpu_pool_worker_count(run->pool);
    if (!crowded && elapsed < kPollNanoseconds) {
        cpu_pause();
    } else if (elapsed < (crowded ? kCrowdedNanoseconds : kYieldNanoseconds)) {
        sched_yield();
    } else {
        transport_wait(transport, events, others_are_busy ? kShortSleep : kLongSleep);
    }
}

static bool has_work(const CpuRun *run) {
    return run->queue_begin != run->queue_end || run->status || run->finished == run->local_count;
}

// The time that counts begins with the last thing that happened in the run, and `progress` counts these. While another
// worker computes, this process waits for itself.
void cpu_messages_wait(CpuRun *run) {
    CpuMessages *messages = &run->messages;
    Transport *transport = cpu_launch_transport(run->launch);
    messages->is_driven = true;
    messages->reports = 0;
    messages->progress++;
    int64_t begin = hlo_clock_nanoseconds();
    while (!has_work(run)) {
        const int64_t events = transport_events(transport);
        HloStatus status = poll_once(run);
        if (has_work(run) && !status) break;
        const int64_t now = hlo_clock_nanoseconds(), elapsed = now - begin;
        const bool busy = run->busy > 0;
        if (!status && !busy) status = judge_wait(run, elapsed);
        if (status) {
            cpu_run_fail(run, status);
            break;
        }
        if (busy && elapsed > kActivityNanoseconds) begin = now - kActivityNanoseconds;
        messages->is_asleep = elapsed > kCrowdedNanoseconds;
        pthread_mutex_unlock(&run->lock);
        pass_time(run, events, elapsed, busy);
        pthread_mutex_lock(&run->lock);
        messages->is_asleep = false;
    }
    messages->is_driven = false;
    cpu_run_notify(run);  // workers that wait for news may have to take over
}

HloStatus cpu_messages_finish(CpuRun *run) {
    const int64_t begin = hlo_clock_nanoseconds();
    Transport *transport = run->launch ? cpu_launch_transport(run->launch) : NULL;
    HloStatus status = HLO_SUCCESS;
    while (run->messages.sends && !status) {
        const int64_t events = transport_events(transport);
        status = cpu_launch_poll(run->launch);
        if (!status) status = take_sent(run);
        const int64_t elapsed = hlo_clock_nanoseconds() - begin;
        if (status || !run->messages.sends) break;
        if (elapsed > cpu_launch_report_interval(run->launch)) cpu_launch_probe(run->launch);
        if (elapsed > cpu_launch_timeout(run->launch)) {
            const int64_t process = run->messages.sends->process;
            HloText text = {0};
            cpu_launch_print_silent(run->launch, &text);
            cpu_launch_print_peer(run->launch, process, &text);
            status = hlo_error(HLO_DEADLINE_EXCEEDED, "launch %lld, %s: a message has not been received: %s",
                               (long long)cpu_launch_ordinal(run->launch), run->executable->module->name,
                               text.data ? text.data : "");
            hlo_text_free(&text);
        }
        pass_time(run, events, elapsed, false);
    }
    return status;
}

static void free_messages(Message *list) {
    for (Message *next; list; list = next) {
        next = list->next;
        free_message(list);
    }
}

void cpu_messages_free(CpuRun *run) {
    free_messages(run->messages.sends);
    free_messages(run->messages.receives);
    for (int64_t i = 0; i < run->rendezvous_count; i++) cpu_remote_free(run->rendezvous_list[i].remote);
}
