// SPDX-License-Identifier: Apache-2.0
// What all transports have in common: checks of arguments, the one error, activities, and the life of a request.
#include "transport/transport.h"

#include <string.h>

#include "hlo/base/clock.h"
#include "transport/internal.h"

// ---- the common part

// How often this process has been forked off since its ancestor created its first transport: asking for the process's
// number would be a system call for each message.
static _Atomic int64_t fork_count;

// The transports of this process.
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static Transport *list;

static void before_fork(void) {
    pthread_mutex_lock(&list_lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void) {
    atomic_fetch_add(&fork_count, 1);
    for (Transport *transport = list; transport; transport = transport->next)
        if (transport->engine->forked) transport->engine->forked(transport);
    list = NULL;
    pthread_mutex_unlock(&list_lock);
}

static void register_fork_handlers(void) {
    // Fails without memory only; then the calls of a child are not detected.
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool transport_initialise(Transport *transport, const TransportEngine *engine, int64_t count, int64_t index) {
    transport->engine = engine;
    transport->process_count = count;
    transport->process_index = index;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    transport->fork_count = atomic_load(&fork_count);
    transport->peers = hlo_allocate_zeroed((size_t)count, sizeof *transport->peers);
    if (!transport->peers) return false;
    if (pthread_mutex_init(&transport->state_lock, NULL) != 0) {
        hlo_free(transport->peers);
        transport->peers = NULL;
        return false;
    }
    const int64_t now = hlo_clock_nanoseconds();
    for (int64_t i = 0; i < count; i++) atomic_store(&transport->peers[i].last_seen, now);
    pthread_mutex_lock(&list_lock);
    transport->next = list;
    list = transport;
    pthread_mutex_unlock(&list_lock);
    return true;
}

void transport_finalise(Transport *transport) {
    pthread_mutex_lock(&list_lock);
    Transport **link = &list;
    while (*link != transport) link = &(*link)->next;
    *link = transport->next;
    pthread_mutex_unlock(&list_lock);
    for (int64_t i = 0; i < transport->process_count; i++) {
        hlo_free(transport->peers[i].name);
        hlo_free(transport->peers[i].activity);
        hlo_free(transport->peers[i].rules);
    }
    hlo_free(transport->peers);
    hlo_free(transport->description);
    hlo_status_free(transport->error);
    pthread_mutex_destroy(&transport->state_lock);
}

HloStatus transport_copy_error(const struct HloError *error) {
    return error ? hlo_error(hlo_status_code(error), "%s", hlo_status_message(error)) : HLO_SUCCESS;
}

bool transport_is_forked(const Transport *transport) {
    return atomic_load_explicit(&fork_count, memory_order_relaxed) != transport->fork_count;
}

static HloStatus forked_error(void) {
    return hlo_error(HLO_FAILED_PRECONDITION,
                     "a transport does not survive fork(): this process is a child of the one that joined");
}

int64_t transport_process_count(const Transport *transport) {
    return transport->process_count;
}

int64_t transport_process_index(const Transport *transport) {
    return transport->process_index;
}

const char *transport_description(const Transport *transport) {
    return transport->description;
}

const char *transport_process_name(const Transport *transport, int64_t process) {
    assert(process >= 0 && process < transport->process_count);
    return transport->peers[process].name;
}

// ---- requests

static HloStatus check(const Transport *transport, int64_t process, uint64_t tag, const void *data, int64_t bytes) {
    HLO_FAIL_IF(process < 0 || process >= transport->process_count || process == transport->process_index,
                HLO_INVALID_ARGUMENT, "process %lld exchanges messages with the other processes of %lld, not with %lld",
                (long long)transport->process_index, (long long)transport->process_count, (long long)process);
    HLO_FAIL_IF(tag >> TRANSPORT_TAG_BITS, HLO_INVALID_ARGUMENT, "tag %llu has more than %d bits",
                (unsigned long long)tag, TRANSPORT_TAG_BITS);
    HLO_FAIL_IF(bytes < 0 || (bytes > 0 && !data), HLO_INVALID_ARGUMENT, "a message of %lld bytes%s", (long long)bytes,
                data ? "" : " without memory");
    return HLO_SUCCESS;
}

static HloStatus start(Transport *transport, int64_t process, uint64_t tag, void *data, int64_t bytes, bool is_send,
                       TransportRequest **result) {
    *result = NULL;
    HLO_TRY(check(transport, process, tag, data, bytes));
    if (transport_is_forked(transport)) return forked_error();
    if (atomic_load(&transport->has_failed)) return transport_error(transport);
    TransportRequest *request = hlo_allocate_zeroed(1, transport->engine->request_bytes);
    HLO_FAIL_IF(!request, HLO_RESOURCE_EXHAUSTED, "no memory for a message of %lld bytes", (long long)bytes);
    *request = (TransportRequest){
        .transport = transport, .process = process, .tag = tag, .data = data, .bytes = bytes, .is_send = is_send};
    HloStatus status = transport->engine->start(transport, request);
    if (status) {
        hlo_free(request);
        if (!atomic_load(&transport->has_failed)) return status;
        // The engine may only have seen what followed, such as that the other process has left.
        hlo_status_free(status);
        return transport_error(transport);
    }
    *result = request;
    return HLO_SUCCESS;
}

HloStatus transport_send(Transport *transport, int64_t to, uint64_t tag, const void *data, int64_t bytes,
                         TransportRequest **request) {
    return start(transport, to, tag, (void *)(uintptr_t)data, bytes, true, request);
}

HloStatus transport_receive(Transport *transport, int64_t from, uint64_t tag, void *data, int64_t bytes,
                            TransportRequest **request) {
    return start(transport, from, tag, data, bytes, false, request);
}

// A thread that sees the request done may free it: nothing of it is read after the last store.
bool transport_complete(TransportRequest *request, HloStatus status) {
    Transport *transport = request->transport;
    int pending = kTransportPending;
    if (!atomic_compare_exchange_strong(&request->state, &pending, kTransportCompleting)) {
        hlo_status_free(status);
        return false;
    }
    request->status = status;
    atomic_store(&request->state, kTransportDone);
    transport_count_event(transport);
    return true;
}

bool transport_request_is_done(TransportRequest *request, HloStatus *status) {
    if (atomic_load(&request->state) == kTransportDone) {
        if (status) *status = transport_copy_error(request->status);
        return true;
    }
    if (!transport_is_forked(request->transport)) return false;
    if (status) *status = forked_error();
    return true;
}

HloStatus transport_finish(TransportRequest *request) {
    enum { kNapNanoseconds = 100000000 };
    Transport *transport = request->transport;
    HloStatus status = HLO_SUCCESS;
    for (;;) {
        const int64_t seen = transport_events(transport);
        if (transport_request_is_done(request, &status)) break;
        if (!transport_progress(transport)) transport_wait(transport, seen, kNapNanoseconds);
    }
    transport_request_free(request);
    return status;
}

void transport_request_free(TransportRequest *request) {
    if (!request) return;
    Transport *transport = request->transport;
    if (atomic_load(&request->state) != kTransportDone && !transport_is_forked(transport))
        transport->engine->cancel(transport, request);
    hlo_status_free(request->status);
    hlo_free(request);
}

// ---- rules

bool transport_note_rule(Transport *transport, int64_t from, uint64_t tag, uint64_t mask) {
    TransportPeer *peer = &transport->peers[from];
    if (!peer->rules) peer->rules = hlo_allocate_zeroed(TRANSPORT_DISCARD_RULES, sizeof *peer->rules);
    if (!peer->rules) return false;
    peer->rules[peer->rule_count++ % TRANSPORT_DISCARD_RULES] = (TransportRule){.tag = tag, .mask = mask};
    return true;
}

bool transport_drops(const Transport *transport, int64_t from, uint64_t tag) {
    const TransportPeer *peer = &transport->peers[from];
    const int64_t count = peer->rule_count < TRANSPORT_DISCARD_RULES ? peer->rule_count : TRANSPORT_DISCARD_RULES;
    for (int64_t i = 0; i < count; i++)
        if ((tag & peer->rules[i].mask) == peer->rules[i].tag) return true;
    return false;
}

void transport_discard(Transport *transport, int64_t from, uint64_t tag, uint64_t mask) {
    assert(from >= 0 && from < transport->process_count && from != transport->process_index);
    if (!transport_is_forked(transport)) transport->engine->discard(transport, from, tag, mask);
}

// ---- progress

bool transport_progress(Transport *transport) {
    return !transport_is_forked(transport) && transport->engine->progress(transport);
}

int64_t transport_events(const Transport *transport) {
    return atomic_load(&transport->events);
}

void transport_wait(Transport *transport, int64_t seen, int64_t nanoseconds) {
    if (transport_is_forked(transport) || nanoseconds <= 0 || atomic_load(&transport->events) != seen) return;
    transport->engine->wait(transport, seen, nanoseconds);
}

void transport_wake(Transport *transport) {
    if (!transport_is_forked(transport)) transport_count_event(transport);
}

void transport_count_event(Transport *transport) {
    atomic_fetch_add(&transport->events, 1);
    transport->engine->wake(transport);
}

// ---- activities and the error

void transport_note_activity(Transport *transport, int64_t process, const char *text, size_t length, int64_t mark) {
    char *copy = NULL;
    if (length > 0 && (copy = hlo_allocate(length + 1))) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    TransportPeer *peer = &transport->peers[process];
    pthread_mutex_lock(&transport->state_lock);
    char *old = peer->activity;
    peer->activity = copy;
    atomic_store(&peer->mark, mark);
    pthread_mutex_unlock(&transport->state_lock);
    hlo_free(old);
}

void transport_set_activity(Transport *transport, const char *text, int64_t mark) {
    if (transport_is_forked(transport)) return;
    transport_note_activity(transport, transport->process_index, text, text ? strlen(text) : 0, mark);
    if (transport->engine->tell_activity) transport->engine->tell_activity(transport);
}

int64_t transport_mark(const Transport *transport, int64_t process) {
    assert(process >= 0 && process < transport->process_count);
    return atomic_load(&transport->peers[process].mark);
}

// ---- probes

int64_t transport_probe(Transport *transport) {
    const int64_t probe = atomic_fetch_add(&transport->probes, 1) + 1;
    if (!transport_is_forked(transport)) transport->engine->probe(transport, probe);
    return probe;
}

void transport_note_answer(Transport *transport, int64_t process, int64_t probe) {
    _Atomic int64_t *answered = &transport->peers[process].answered;
    int64_t before = atomic_load(answered);
    while (before < probe && !atomic_compare_exchange_weak(answered, &before, probe)) {
    }
}

bool transport_has_answered(const Transport *transport, int64_t process, int64_t probe) {
    assert(process >= 0 && process < transport->process_count);
    const TransportPeer *peer = &transport->peers[process];
    return process == transport->process_index || atomic_load(&peer->has_left) || atomic_load(&peer->answered) >= probe;
}

char *transport_activity(Transport *transport, int64_t process, double *age_seconds) {
    assert(process >= 0 && process < transport->process_count);
    TransportPeer *peer = &transport->peers[process];
    if (age_seconds) {
        const bool is_self = process == transport->process_index;
        const int64_t last_seen = atomic_load(&peer->last_seen);
        *age_seconds = is_self ? 0 : (double)(hlo_clock_nanoseconds() - last_seen) * 1e-9;
    }
    pthread_mutex_lock(&transport->state_lock);
    char *copy = hlo_allocate_text(peer->activity ? peer->activity : "");
    pthread_mutex_unlock(&transport->state_lock);
    return copy;
}

HloStatus transport_error(Transport *transport) {
    if (transport_is_forked(transport)) return forked_error();
    pthread_mutex_lock(&transport->state_lock);
    HloStatus copy = transport_copy_error(transport->error);
    pthread_mutex_unlock(&transport->state_lock);
    return copy;
}

HloStatus transport_left_error(const Transport *transport, int64_t process) {
    return hlo_error(HLO_UNAVAILABLE, "%s has left", transport->peers[process].name);
}

HloStatus transport_size_error(const Transport *transport, int64_t process, int64_t sent, int64_t expected) {
    return hlo_error(HLO_INTERNAL, "a message of %s has %lld bytes, where %lld were expected",
                     transport->peers[process].name, (long long)sent, (long long)expected);
}

void transport_fail(Transport *transport, HloStatus error, TransportFailure failure) {
    assert(error);
    pthread_mutex_lock(&transport->state_lock);
    const bool is_first = !transport->error;
    if (is_first) {
        transport->error = error;
        atomic_store(&transport->has_failed, true);
    }
    pthread_mutex_unlock(&transport->state_lock);
    if (!is_first) {
        hlo_status_free(error);
        return;
    }
    transport->engine->fail(transport, failure);
    transport_count_event(transport);
}

void transport_abort(Transport *transport, HloStatus error) {
    if (transport_is_forked(transport)) {
        hlo_status_free(error);
        return;
    }
    transport_fail(transport, error, kTransportOwnFailure);
}

void transport_release(Transport *transport) {
    if (!transport) return;
    if (transport_is_forked(transport)) {
        transport->engine->abandon(transport);
    } else {
        transport->engine->release(transport);
    }
}

// ---- joining

#ifndef MESHLO_UCX
HloStatus transport_join_processes(const TransportOptions *options, Transport **transport) {
    (void)transport;
    return hlo_error(HLO_UNIMPLEMENTED,
                     "this build has no UCX (libucx-dev), which connects the %lld processes of a machine",
                     (long long)options->process_count);
}
#endif

HloStatus transport_join(const TransportOptions *options, Transport **transport) {
    const int64_t count = options->process_count, index = options->process_index;
    *transport = NULL;
    HLO_FAIL_IF(count < 1 || count > TRANSPORT_MAXIMUM_PROCESSES, HLO_INVALID_ARGUMENT,
                "%lld processes, where 1 to %d are possible", (long long)count, TRANSPORT_MAXIMUM_PROCESSES);
    HLO_FAIL_IF(index < 0 || index >= count, HLO_INVALID_ARGUMENT, "process %lld is not one of %lld processes",
                (long long)index, (long long)count);
    HLO_FAIL_IF(!(options->timeout_seconds >= 0 && options->timeout_seconds < 1e9), HLO_INVALID_ARGUMENT,
                "a timeout of %g s", options->timeout_seconds);
    return count == 1 ? transport_in_process(1, transport) : transport_join_processes(options, transport);
}
