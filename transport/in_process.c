// SPDX-License-Identifier: Apache-2.0
// The in-process transport: several transports of one process that copy messages to each other. A send stays pending
// until its receive is there, whatever its size, which shows a caller that counts on buffering.
#include <errno.h>
#include <string.h>
#include <time.h>

#include "hlo/base/clock.h"
#include "hlo/base/text.h"
#include "transport/channel.h"
#include "transport/internal.h"

typedef struct InProcess InProcess;

typedef struct InProcessRequest {
    TransportRequest base;
    bool is_moving;  // a thread copies the message
} InProcessRequest;

// What the transports share. `lock` protects the members and all channels.
typedef struct Hub {
    pthread_mutex_t lock;
    int64_t count, member_count;
    InProcess **members;  // NULL once released
} Hub;

struct InProcess {
    Transport base;
    Hub *hub;
    TransportChannel *sends, *receives;  // by the other process: its sends to this one, and this one's receives from it
    _Atomic int64_t progressed;          // events that transport_progress() has reported
    bool is_mute;                        // transport_in_process_mute(); under the hub's lock
    pthread_mutex_t wait_lock;           // taken after the hub's
    pthread_cond_t changed;
};

// The channel of a request whose other process is a member.
static TransportChannel *channel_of(TransportRequest *request) {
    InProcess *own = (InProcess *)request->transport;
    if (!request->is_send) return &own->receives[request->process];
    return &own->hub->members[request->process]->sends[own->base.process_index];
}

// Both requests are out of their channels and marked as moving: the copy needs no lock.
static void transfer(Hub *hub, TransportRequest *send, TransportRequest *receive) {
    if (send->bytes == receive->bytes && send->bytes > 0) memcpy(receive->data, send->data, (size_t)send->bytes);
    Transport *receiver = receive->transport;
    HloStatus error = HLO_SUCCESS;
    if (send->bytes != receive->bytes)
        error = transport_size_error(receiver, receive->process, send->bytes, receive->bytes);
    HloStatus copy = transport_copy_error(error);
    pthread_mutex_lock(&hub->lock);
    // Neither transport can be released before its request is done and the lock is free.
    transport_complete(send, transport_copy_error(error));
    if (!error) transport_complete(receive, HLO_SUCCESS);
    pthread_mutex_unlock(&hub->lock);
    if (!error) return;
    // The receive stays pending, so that its transport cannot be released meanwhile.
    transport_abort(receiver, error);
    pthread_mutex_lock(&hub->lock);
    transport_complete(receive, copy);
    pthread_mutex_unlock(&hub->lock);
}

static HloStatus start(Transport *transport, TransportRequest *request) {
    InProcess *own = (InProcess *)transport;
    Hub *hub = own->hub;
    pthread_mutex_lock(&hub->lock);
    HloStatus error = HLO_SUCCESS;
    TransportRequest *match = NULL;
    InProcess *other = hub->members[request->process];
    if (atomic_load(&transport->has_failed)) {
        error = transport_error(transport);
    } else if (!other) {
        error = transport_left_error(transport, request->process);
    } else {
        TransportChannel *opposite =
            request->is_send ? &other->receives[transport->process_index] : &own->sends[request->process];
        match = transport_find(opposite, request->tag);
        if (match) {
            transport_take(opposite, match);
            ((InProcessRequest *)match)->is_moving = ((InProcessRequest *)request)->is_moving = true;
        } else if (request->is_send && transport_drops(&other->base, transport->process_index, request->tag)) {
            transport_complete(request, HLO_SUCCESS);
        } else {
            transport_append(channel_of(request), request);
        }
    }
    pthread_mutex_unlock(&hub->lock);
    if (match) transfer(hub, request->is_send ? request : match, request->is_send ? match : request);
    return error;
}

static void wait_for_event(Transport *transport, int64_t seen, int64_t nanoseconds) {
    InProcess *own = (InProcess *)transport;
    const int64_t now = hlo_clock_nanoseconds();
    const int64_t until = nanoseconds < INT64_MAX - now ? now + nanoseconds : INT64_MAX;
    const struct timespec time = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    pthread_mutex_lock(&own->wait_lock);
    while (transport_events(transport) == seen)
        if (pthread_cond_timedwait(&own->changed, &own->wait_lock, &time) == ETIMEDOUT) break;
    pthread_mutex_unlock(&own->wait_lock);
}

static void wake(Transport *transport) {
    InProcess *own = (InProcess *)transport;
    pthread_mutex_lock(&own->wait_lock);
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->wait_lock);
}

static void cancel(Transport *transport, TransportRequest *request) {
    enum { kMoment = 1000000 };
    InProcess *own = (InProcess *)transport;
    pthread_mutex_lock(&own->hub->lock);
    if (atomic_load(&request->state) != kTransportDone && !((InProcessRequest *)request)->is_moving) {
        transport_take(channel_of(request), request);
        transport_complete(request, hlo_error(HLO_CANCELLED, "the request was cancelled"));
    }
    pthread_mutex_unlock(&own->hub->lock);
    // Another thread copies the message.
    while (atomic_load(&request->state) != kTransportDone)
        wait_for_event(transport, transport_events(transport), kMoment);
}

static void discard(Transport *transport, int64_t from, uint64_t tag, uint64_t mask) {
    InProcess *own = (InProcess *)transport;
    pthread_mutex_lock(&own->hub->lock);
    (void)transport_note_rule(transport, from, tag, mask);  // without memory the messages stay
    for (TransportRequest *request = own->sends[from].first, *next; request; request = next) {
        next = request->next;
        if (!transport_drops(transport, from, request->tag)) continue;
        transport_take(&own->sends[from], request);
        transport_complete(request, HLO_SUCCESS);
    }
    pthread_mutex_unlock(&own->hub->lock);
}

// Everything moves when the second of two requests starts.
static bool progress(Transport *transport) {
    InProcess *own = (InProcess *)transport;
    const int64_t events = transport_events(transport);
    return atomic_exchange(&own->progressed, events) != events;
}

// Processes that are informed of a failure hold the lock. Only this transport's own requests fail here: its sends are
// in the others' channels.
static void fail(Transport *transport, TransportFailure failure) {
    const bool told = failure == kTransportToldFailure;
    InProcess *own = (InProcess *)transport;
    Hub *hub = own->hub;
    if (!told) pthread_mutex_lock(&hub->lock);
    for (int64_t i = 0; i < hub->count; i++) {
        transport_fail_channel(&own->receives[i], transport->error);
        if (hub->members[i])
            transport_fail_channel(&hub->members[i]->sends[transport->process_index], transport->error);
    }
    for (int64_t i = 0; i < hub->count && !told; i++) {
        if (!hub->members[i] || hub->members[i] == own) continue;
        HloStatus copy = transport_copy_error(transport->error);
        transport_fail(&hub->members[i]->base,
                       hlo_status_annotate(copy, "%s", transport->peers[transport->process_index].name),
                       kTransportToldFailure);
    }
    if (!told) pthread_mutex_unlock(&hub->lock);
}

static void tell_activity(Transport *transport) {
    InProcess *own = (InProcess *)transport;
    char *text = transport_activity(transport, transport->process_index, NULL);
    const int64_t mark = transport_mark(transport, transport->process_index);
    pthread_mutex_lock(&own->hub->lock);
    for (int64_t i = 0; i < own->hub->count; i++) {
        InProcess *member = own->hub->members[i];
        if (!member || member == own) continue;
        atomic_store(&member->base.peers[transport->process_index].last_seen, hlo_clock_nanoseconds());
        transport_note_activity(&member->base, transport->process_index, text, text ? strlen(text) : 0, mark);
    }
    pthread_mutex_unlock(&own->hub->lock);
    hlo_free(text);
}

static void probe_members(Transport *transport, int64_t probe) {
    InProcess *own = (InProcess *)transport;
    pthread_mutex_lock(&own->hub->lock);
    for (int64_t i = 0; i < own->hub->count; i++)
        if (own->hub->members[i] && !own->hub->members[i]->is_mute) transport_note_answer(transport, i, probe);
    pthread_mutex_unlock(&own->hub->lock);
}

void transport_in_process_mute(Transport *transport, bool is_mute) {
    InProcess *own = (InProcess *)transport;
    pthread_mutex_lock(&own->hub->lock);
    own->is_mute = is_mute;
    for (int64_t i = 0; i < own->hub->count && !is_mute; i++) {
        InProcess *member = own->hub->members[i];
        if (member) transport_note_answer(&member->base, transport->process_index, atomic_load(&member->base.probes));
    }
    pthread_mutex_unlock(&own->hub->lock);
}

static void free_member(InProcess *own) {
    transport_finalise(&own->base);
    pthread_cond_destroy(&own->changed);
    pthread_mutex_destroy(&own->wait_lock);
    hlo_free(own->sends);
    hlo_free(own->receives);
    hlo_free(own);
}

static void free_hub(Hub *hub) {
    pthread_mutex_destroy(&hub->lock);
    hlo_free(hub->members);
    hlo_free(hub);
}

static void release(Transport *transport) {
    InProcess *own = (InProcess *)transport;
    Hub *hub = own->hub;
    pthread_mutex_lock(&hub->lock);
    for (int64_t i = 0; i < hub->count; i++) {
        InProcess *member = hub->members[i];
        if (!member || member == own) continue;
        HloStatus error = transport_left_error(&member->base, transport->process_index);
        atomic_store(&member->base.peers[transport->process_index].has_left, true);
        transport_fail_channel(&own->sends[i], error);
        transport_fail_channel(&member->receives[transport->process_index], error);
        hlo_status_free(error);
    }
    hub->members[transport->process_index] = NULL;
    const bool is_last = --hub->member_count == 0;
    pthread_mutex_unlock(&hub->lock);
    free_member(own);
    if (is_last) free_hub(hub);
}

// The child has a copy of everything, but locks may have been held by threads that it does not have.
static void abandon(Transport *transport) {
    (void)transport;
}

static const TransportEngine kEngine = {.request_bytes = sizeof(InProcessRequest),
                                        .start = start,
                                        .cancel = cancel,
                                        .discard = discard,
                                        .progress = progress,
                                        .wait = wait_for_event,
                                        .wake = wake,
                                        .fail = fail,
                                        .tell_activity = tell_activity,
                                        .probe = probe_members,
                                        .release = release,
                                        .abandon = abandon};

static bool make_waiting(InProcess *own) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) return false;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool good = pthread_cond_init(&own->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (good && pthread_mutex_init(&own->wait_lock, NULL) != 0) {
        pthread_cond_destroy(&own->changed);
        good = false;
    }
    return good;
}

// Makes member `index`; false when memory is short.
static bool make_member(Hub *hub, int64_t index) {
    InProcess *own = hlo_allocate_zeroed(1, sizeof *own);
    if (!own) return false;
    if (!make_waiting(own)) {
        hlo_free(own);
        return false;
    }
    own->hub = hub;
    if (!transport_initialise(&own->base, &kEngine, hub->count, index)) {
        pthread_cond_destroy(&own->changed);
        pthread_mutex_destroy(&own->wait_lock);
        hlo_free(own);
        return false;
    }
    hub->members[index] = own;
    hub->member_count++;
    own->sends = hlo_allocate_zeroed((size_t)hub->count, sizeof *own->sends);
    own->receives = hlo_allocate_zeroed((size_t)hub->count, sizeof *own->receives);
    own->base.description = hlo_allocate_text("in-process");
    bool good = own->sends && own->receives && own->base.description;
    for (int64_t i = 0; i < hub->count && good; i++) {
        HloText name = {0};
        hlo_text_format(&name, "process %lld (in-process)", (long long)i);
        good = !name.failed;
        own->base.peers[i].name = name.data;
    }
    return good;
}

HloStatus transport_in_process(int64_t count, Transport **list) {
    assert(count >= 1 && count <= TRANSPORT_MAXIMUM_PROCESSES);
    Hub *hub = hlo_allocate_zeroed(1, sizeof *hub);
    bool good = hub && (hub->members = hlo_allocate_zeroed((size_t)count, sizeof(InProcess *))) &&
                pthread_mutex_init(&hub->lock, NULL) == 0;
    if (!good) {
        if (hub) hlo_free(hub->members);
        hlo_free(hub);
    } else {
        hub->count = count;
        for (int64_t i = 0; i < count && good; i++) good = make_member(hub, i);
        for (int64_t i = 0; i < count && !good; i++)
            if (hub->members[i]) free_member(hub->members[i]);
        if (!good) free_hub(hub);
    }
    HLO_FAIL_IF(!good, HLO_RESOURCE_EXHAUSTED, "no memory for %lld transports", (long long)count);
    for (int64_t i = 0; i < count; i++) list[i] = &hub->members[i]->base;
    return HLO_SUCCESS;
}
