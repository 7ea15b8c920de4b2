// SPDX-License-Identifier: Apache-2.0
#ifdef MESHLO_UCX

#include "transport/ucx.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/clock.h"
#include "hlo/base/text.h"
#include "transport/channel.h"
#include "transport/ucx_library.h"

enum {
    kEagerBytes = 16384,     // larger messages are offered first
    kMessageId = 1,          // of UCX's active messages
    kLastWords = 100000000,  // how long the last messages of a process that has left are awaited
    kStopTime = 200000000,   // how long a failure waits for UCX to stop receives
    kLooks = 8,              // how often a waiting thread looks for messages before it looks at the clock
    kMostSpin = 20000,       // how long it looks at most before it sleeps
    kSpinAgain = 32,         // after so many sleeps without looking it tries to look again
    kLeastNap = 20000,       // how long it sleeps first, and at most, while messages cannot go out
    kMostNap = 1000000,
};

// ---- what travels

typedef enum MessageKind {
    kEager,     // a message with its data
    kOffer,     // a large message
    kWithdraw,  // an offer is withdrawn
    kAccept,    // the receive of an offer has been posted
    kDrop,      // no one wants an offer
    kLeave,     // no more messages follow
} MessageKind;

// Everything in it comes from another process and is checked.
typedef struct Header {
    uint32_t kind, from;
    uint64_t number;  // of the message among those from this sender, from 0
    uint64_t tag;     // of kEager and kOffer
    uint64_t offer;   // the offer's number among those from its sender
    int64_t bytes;    // of kEager and kOffer
} Header;

// ---- pending requests

typedef enum Phase {
    kUnmatched,  // a receive without its message; a large send that has not been accepted
    kMoving,     // UCX has the memory
    kHeld,       // UCX is done with it, but the end of the request is not known yet
} Phase;

typedef struct UcxRequest {
    TransportRequest base;
    Phase phase;
    bool is_large;
    bool is_cancelled, is_withdrawn;  // by the caller; by the sender, and the receive is unmatched again
    uint64_t order;                   // of a receive among those from its sender
    uint64_t offer;
    void *handle;  // of UCX, while it moves
    struct Note *note;
} UcxRequest;

// A message that came before its receive.
typedef struct Arrival {
    struct Arrival *next;
    uint64_t tag, offer;
    int64_t bytes;
    bool is_offer;
    char data[];
} Arrival;

// What UCX calls back with: a header on its way, with the send that ends when it has gone, or a large transfer.
typedef struct Note {
    struct Note *next, *next_of_all;  // of unused ones; of all
    Ucx *ucx;
    UcxRequest *request;  // or NULL, also when the request has ended without UCX
    Header header;
} Note;

// Where the data of an accepted message goes whose receive was cancelled.
typedef struct Waste {
    struct Waste *next;
    Ucx *ucx;
    char data[];
} Waste;

typedef struct UcxPeer {
    Ucx *ucx;
    ucp_ep_h endpoint;
    TransportChannel receives, offers, moving, held;
    Arrival *arrivals, **last_arrival;
    uint64_t sent, received, offered, ordered;  // numbers of the next ones
    bool has_left;                              // its last message has arrived
    bool is_quiet;                              // see ucx_note_quiet()
    int64_t broken_since;                       // time of UCX's first error, 0 for none
    ucs_status_t broken;
} UcxPeer;

struct Ucx {
    Ucx *next_abandoned;
    Transport *transport;
    const UcxLibrary *library;
    bool (*is_good)(Transport *transport, int64_t process);
    char *devices;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int event_file, wake_file;
    _Atomic int64_t waiter_count;
    _Atomic int64_t spin, sleep_count;  // see ucx_wait()
    _Atomic int64_t nap;                // see sleep_for(); 0 after UCX has moved something
    _Atomic bool completed;             // a request became done since ucx_progress() said so
    pthread_mutex_t lock;               // protects everything below and all calls of UCX
    UcxPeer *peers;
    bool has_failed;    // the transport has
    bool is_over;       // UCX is not called any more
    HloStatus failure;  // found while UCX was calling, to be raised after it
    Note *unused_notes, *all_notes;
    Waste *wastes;
    int64_t pending_notes;
};

static int64_t process_of(const UcxPeer *peer) {
    return peer - peer->ucx->peers;
}

static UcxPeer *peer_of(Ucx *ucx, const UcxRequest *request) {
    return &ucx->peers[request->base.process];
}

static void complete(Ucx *ucx, UcxRequest *request, HloStatus status) {
    if (transport_complete(&request->base, status)) atomic_store(&ucx->completed, true);
}

static void note_failure(Ucx *ucx, HloStatus error) {
    if (ucx->failure) {
        hlo_status_free(error);
    } else {
        ucx->failure = error;
    }
}

static void note_broken(UcxPeer *peer, ucs_status_t status) {
    if (peer->broken_since) return;
    peer->broken_since = hlo_clock_nanoseconds();
    peer->broken = status;
}

// The number of an offer as UCX's tag, unique among the messages to one receiver.
static ucp_tag_t offer_tag(int64_t sender, uint64_t offer) {
    return (uint64_t)sender << TRANSPORT_TAG_BITS | (offer & ((1ull << TRANSPORT_TAG_BITS) - 1));
}

// ---- ends of transfers

static void match_arrivals(UcxPeer *peer, UcxRequest *receive);

// Puts a receive whose message was withdrawn where it was.
static void receive_again(UcxPeer *peer, UcxRequest *receive) {
    TransportRequest *previous = peer->receives.last;
    while (previous && ((UcxRequest *)previous)->order > receive->order) previous = previous->previous;
    receive->phase = kUnmatched;
    receive->is_withdrawn = false;
    transport_insert(&peer->receives, previous, &receive->base);
    match_arrivals(peer, receive);
}

// UCX no longer touches the request's memory. `bytes` is the size of the message that a receive got.
static void end_move(Ucx *ucx, UcxRequest *request, ucs_status_t status, int64_t bytes) {
    UcxPeer *peer = peer_of(ucx, request);
    transport_take(&peer->moving, &request->base);
    request->handle = NULL;
    if (request->is_cancelled) {
        complete(ucx, request, hlo_error(HLO_CANCELLED, "the request was cancelled"));
        return;
    }
    if (!ucx->has_failed && request->is_withdrawn && status == UCS_ERR_CANCELED) {
        receive_again(peer, request);
        return;
    }
    if (!ucx->has_failed && status == UCS_OK) {
        if (request->base.is_send) {
            complete(ucx, request, HLO_SUCCESS);
            return;
        }
        if (bytes != request->base.bytes) {
            note_failure(ucx, transport_size_error(ucx->transport, process_of(peer), bytes, request->base.bytes));
        } else if (ucx->is_good(ucx->transport, process_of(peer))) {
            complete(ucx, request, HLO_SUCCESS);
            return;
        }
    } else if (!ucx->has_failed) {
        note_broken(peer, status);
    } else if (!request->base.is_send || !request->is_large || peer->is_quiet) {
        complete(ucx, request, transport_error(ucx->transport));
        return;
    }
    request->phase = kHeld;
    transport_append(&peer->held, &request->base);
}

// ---- headers

static Note *take_note(Ucx *ucx) {
    Note *note = ucx->unused_notes;
    if (note) {
        ucx->unused_notes = note->next;
    } else if ((note = hlo_allocate(sizeof *note))) {
        note->next_of_all = ucx->all_notes;
        ucx->all_notes = note;
    }
    return note;
}

static void give_note(Ucx *ucx, Note *note) {
    note->next = ucx->unused_notes;
    ucx->unused_notes = note;
}

static void note_ended(void *handle, ucs_status_t status, void *argument) {
    Note *note = argument;
    Ucx *ucx = note->ucx;
    UcxRequest *request = note->request;
    ucx->library->ucp_request_free(handle);
    ucx->pending_notes--;
    give_note(ucx, note);
    if (request) end_move(ucx, request, status, request->base.bytes);
}

// Sends a header, with the data of `request` unless that is NULL. False when memory is short. An error of UCX is noted.
static bool send_note(UcxPeer *peer, MessageKind kind, uint64_t tag, uint64_t offer, int64_t bytes,
                      UcxRequest *request) {
    Ucx *ucx = peer->ucx;
    Note *note = take_note(ucx);
    if (!note) return false;
    note->ucx = ucx;
    note->request = request;
    note->header = (Header){.kind = kind,
                            .from = (uint32_t)ucx->transport->process_index,
                            .number = peer->sent++,
                            .tag = tag,
                            .offer = offer,
                            .bytes = bytes};
    const ucp_request_param_t parameters = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb = {.send = note_ended},
        .user_data = note};
    const void *data = request ? request->base.data : NULL;
    const size_t length = request ? (size_t)request->base.bytes : 0;
    void *handle = ucx->library->ucp_am_send_nbx(peer->endpoint, kMessageId, &note->header, sizeof note->header, data,
                                                 length, &parameters);
    if (UCS_PTR_IS_PTR(handle)) {
        ucx->pending_notes++;
        if (!request) return true;
        request->handle = handle;
        request->note = note;
        request->phase = kMoving;
        transport_append(&peer->moving, &request->base);
        return true;
    }
    give_note(ucx, note);
    if (UCS_PTR_IS_ERR(handle)) note_broken(peer, UCS_PTR_STATUS(handle));
    if (!request) return true;
    if (handle) {
        request->phase = kHeld;
        transport_append(&peer->held, &request->base);
    } else {
        complete(ucx, request, HLO_SUCCESS);
    }
    return true;
}

// A header that must be sent: without it the other process would wait.
static void send_answer(UcxPeer *peer, MessageKind kind, uint64_t offer) {
    if (!send_note(peer, kind, 0, offer, 0, NULL))
        note_failure(peer->ucx, hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for an answer to %s",
                                          peer->ucx->transport->peers[process_of(peer)].name));
}

// ---- large messages

static void large_ended(void *handle, ucs_status_t status, Note *note, int64_t bytes) {
    Ucx *ucx = note->ucx;
    UcxRequest *request = note->request;
    ucx->library->ucp_request_free(handle);
    give_note(ucx, note);
    if (request) end_move(ucx, request, status, bytes);
}

static void send_ended(void *handle, ucs_status_t status, void *argument) {
    large_ended(handle, status, argument, 0);
}

static void receive_ended(void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *argument) {
    large_ended(handle, status, argument, status == UCS_OK ? (int64_t)info->length : 0);
}

// Hands the memory of a large message to UCX, which calls back when it is done with it.
static void move(UcxPeer *peer, UcxRequest *request) {
    Ucx *ucx = peer->ucx;
    const bool is_send = request->base.is_send;
    Note *note = take_note(ucx);
    if (!note) {
        note_failure(ucx, hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message"));
        request->phase = kHeld;
        transport_append(&peer->held, &request->base);
        return;
    }
    note->ucx = ucx;
    note->request = request;
    request->note = note;
    ucp_request_param_t parameters = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .user_data = note};
    request->phase = kMoving;
    transport_append(&peer->moving, &request->base);
    void *handle;
    if (is_send) {
        parameters.cb.send = send_ended;
        handle = ucx->library->ucp_tag_send_nbx(peer->endpoint, request->base.data, (size_t)request->base.bytes,
                                                offer_tag(ucx->transport->process_index, request->offer), &parameters);
    } else {
        parameters.cb.recv = receive_ended;
        handle = ucx->library->ucp_tag_recv_nbx(ucx->worker, request->base.data, (size_t)request->base.bytes,
                                                offer_tag(process_of(peer), request->offer), UINT64_MAX, &parameters);
    }
    if (UCS_PTR_IS_PTR(handle)) {
        request->handle = handle;
    } else {
        give_note(ucx, note);
        end_move(ucx, request, UCS_PTR_STATUS(handle), request->base.bytes);
    }
}

// A receive has found its offer. It must be known to UCX before the sender may send.
static void accept_offer(UcxPeer *peer, UcxRequest *receive, uint64_t offer, int64_t bytes) {
    Ucx *ucx = peer->ucx;
    if (bytes != receive->base.bytes) {
        note_failure(ucx, transport_size_error(ucx->transport, process_of(peer), bytes, receive->base.bytes));
        receive->phase = kHeld;
        transport_append(&peer->held, &receive->base);
        return;
    }
    receive->is_large = true;
    receive->offer = offer;
    move(peer, receive);
    send_answer(peer, kAccept, offer);
}

static void waste_ended(void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *argument) {
    Waste *waste = argument;
    Waste **link = &waste->ucx->wastes;
    (void)status;
    (void)info;
    waste->ucx->library->ucp_request_free(handle);
    while (*link != waste) link = &(*link)->next;
    *link = waste->next;
    hlo_free(waste);
}

// The sender of an accepted message sends it, whatever has become of the receive.
static void waste(UcxPeer *peer, const UcxRequest *receive) {
    Ucx *ucx = peer->ucx;
    Waste *scratch = hlo_allocate(sizeof *scratch + (size_t)receive->base.bytes);
    if (!scratch) {
        note_failure(ucx, hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message of %lld bytes that was cancelled",
                                    (long long)receive->base.bytes));
        return;
    }
    scratch->ucx = ucx;
    const ucp_request_param_t parameters = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb = {.recv = waste_ended},
        .user_data = scratch};
    void *handle = ucx->library->ucp_tag_recv_nbx(ucx->worker, scratch->data, (size_t)receive->base.bytes,
                                                  offer_tag(process_of(peer), receive->offer), UINT64_MAX, &parameters);
    if (UCS_PTR_IS_PTR(handle)) {
        scratch->next = ucx->wastes;
        ucx->wastes = scratch;
    } else {
        note_broken(peer, UCS_PTR_STATUS(handle));
        hlo_free(scratch);
    }
}

// ---- arrivals

// Gives a receive the bytes of a small message.
static void deliver(UcxPeer *peer, UcxRequest *receive, const void *data, int64_t bytes) {
    Ucx *ucx = peer->ucx;
    if (bytes != receive->base.bytes) {
        note_failure(ucx, transport_size_error(ucx->transport, process_of(peer), bytes, receive->base.bytes));
        receive->phase = kHeld;
        transport_append(&peer->held, &receive->base);
        return;
    }
    if (bytes > 0) memcpy(receive->base.data, data, (size_t)bytes);
    complete(ucx, receive, HLO_SUCCESS);
}

static void take_arrival(UcxPeer *peer, Arrival **link) {
    Arrival *arrival = *link;
    *link = arrival->next;
    if (!*link) peer->last_arrival = link;
    hlo_free(arrival);
}

// Gives a receive that is the oldest of its tag the oldest message of it, if there is one.
static void match_arrivals(UcxPeer *peer, UcxRequest *receive) {
    for (Arrival **link = &peer->arrivals; *link; link = &(*link)->next) {
        Arrival *arrival = *link;
        if (arrival->tag != receive->base.tag) continue;
        transport_take(&peer->receives, &receive->base);
        if (arrival->is_offer) {
            accept_offer(peer, receive, arrival->offer, arrival->bytes);
        } else {
            deliver(peer, receive, arrival->data, arrival->bytes);
        }
        take_arrival(peer, link);
        return;
    }
}

static void keep(UcxPeer *peer, const Header *header, const void *data) {
    const bool is_offer = header->kind == kOffer;
    const size_t bytes = is_offer ? 0 : (size_t)header->bytes;
    Arrival *arrival = hlo_allocate(sizeof *arrival + bytes);
    if (!arrival) {
        note_failure(peer->ucx,
                     hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message of %lld bytes from %s",
                               (long long)header->bytes, peer->ucx->transport->peers[process_of(peer)].name));
        return;
    }
    *arrival = (Arrival){.tag = header->tag, .offer = header->offer, .bytes = header->bytes, .is_offer = is_offer};
    if (bytes > 0) memcpy(arrival->data, data, bytes);
    *peer->last_arrival = arrival;
    peer->last_arrival = &arrival->next;
}

static UcxRequest *find_offer(const TransportChannel *channel, bool is_send, uint64_t offer) {
    for (TransportRequest *request = channel->first; request; request = request->next) {
        UcxRequest *own = (UcxRequest *)request;
        if (request->is_send == is_send && own->is_large && own->offer == offer) return own;
    }
    return NULL;
}

static void take_message(UcxPeer *peer, const Header *header, const void *data) {
    Ucx *ucx = peer->ucx;
    TransportRequest *receive = transport_find(&peer->receives, header->tag);
    if (receive) {
        transport_take(&peer->receives, receive);
        if (header->kind == kOffer) {
            accept_offer(peer, (UcxRequest *)receive, header->offer, header->bytes);
        } else {
            deliver(peer, (UcxRequest *)receive, data, header->bytes);
        }
    } else if (!transport_drops(ucx->transport, process_of(peer), header->tag)) {
        keep(peer, header, data);
    } else if (header->kind == kOffer) {
        send_answer(peer, kDrop, header->offer);
    }
}

// The sender withdraws an offer, perhaps after its acceptance.
static void withdraw(UcxPeer *peer, uint64_t offer) {
    Ucx *ucx = peer->ucx;
    for (Arrival **link = &peer->arrivals; *link; link = &(*link)->next) {
        if (!(*link)->is_offer || (*link)->offer != offer) continue;
        take_arrival(peer, link);
        return;
    }
    UcxRequest *receive = find_offer(&peer->moving, false, offer);
    if (!receive) return;
    receive->is_withdrawn = true;
    ucx->library->ucp_request_cancel(ucx->worker, receive->handle);
}

static void leave(UcxPeer *peer) {
    HloStatus error = transport_left_error(peer->ucx->transport, process_of(peer));
    peer->has_left = true;
    transport_fail_channel(&peer->receives, error);
    atomic_store(&peer->ucx->completed, true);
    hlo_status_free(error);
}

static bool is_sound(const Ucx *ucx, const Header *header, size_t header_bytes, size_t bytes, uint64_t flags) {
    return header_bytes == sizeof *header && header->from < (uint64_t)ucx->transport->process_count &&
           header->from != (uint64_t)ucx->transport->process_index && !(flags & UCP_AM_RECV_ATTR_FLAG_RNDV) &&
           header->kind <= kLeave && header->bytes >= 0 && !(header->tag >> TRANSPORT_TAG_BITS) &&
           header->number == ucx->peers[header->from].received &&
           bytes == (header->kind == kEager ? (size_t)header->bytes : 0);
}

// Called by UCX for every small message, in the order in which their sender sent them.
static ucs_status_t arrived(void *argument, const void *head, size_t header_bytes, void *data, size_t bytes,
                            const ucp_am_recv_param_t *parameters) {
    Ucx *ucx = argument;
    Header header = {0};
    if (header_bytes == sizeof header) memcpy(&header, head, sizeof header);
    if (ucx->has_failed || ucx->failure) return UCS_OK;
    if (!is_sound(ucx, &header, header_bytes, bytes, parameters->recv_attr)) {
        note_failure(ucx, hlo_error(HLO_INTERNAL,
                                    "a message that makes no sense has arrived (kind %u from process %u, number %llu)",
                                    header.kind, header.from, (unsigned long long)header.number));
        return UCS_OK;
    }
    UcxPeer *peer = &ucx->peers[header.from];
    peer->received++;
    UcxRequest *send =
        header.kind == kAccept || header.kind == kDrop ? find_offer(&peer->offers, true, header.offer) : NULL;
    switch (header.kind) {
        case kEager:
        case kOffer: take_message(peer, &header, data); break;
        case kWithdraw: withdraw(peer, header.offer); break;
        case kLeave: leave(peer); break;
        default:  // an answer to an offer that was withdrawn meanwhile is too late
            if (!send) break;
            transport_take(&peer->offers, &send->base);
            if (header.kind == kAccept) {
                move(peer, send);
            } else {
                complete(ucx, send, HLO_SUCCESS);
            }
    }
    return UCS_OK;
}

// ---- the engine's functions

_Static_assert(sizeof(UcxRequest) <= UCX_REQUEST_BYTES, "transport.c allocates the requests");

static HloStatus start_send(UcxPeer *peer, UcxRequest *request) {
    Ucx *ucx = peer->ucx;
    if (atomic_load(&ucx->transport->peers[request->base.process].has_left)) {
        // What it sent before it left arrives first: it may say why.
        const int64_t until = hlo_clock_nanoseconds() + kLastWords;
        while (!peer->has_left && !ucx->has_failed && !ucx->failure && hlo_clock_nanoseconds() < until)
            ucx->library->ucp_worker_progress(ucx->worker);
        return transport_left_error(ucx->transport, request->base.process);
    }
    bool good;
    if (request->base.bytes <= kEagerBytes) {
        good = send_note(peer, kEager, request->base.tag, 0, request->base.bytes, request);
    } else {
        request->is_large = true;
        request->offer = peer->offered++;
        good = send_note(peer, kOffer, request->base.tag, request->offer, request->base.bytes, NULL);
        if (good) transport_append(&peer->offers, &request->base);
    }
    return good ? HLO_SUCCESS : hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message");
}

static HloStatus start_receive(UcxPeer *peer, UcxRequest *request) {
    // Whether an older receive of this tag waits: then no message of it has arrived.
    const bool is_first = !transport_find(&peer->receives, request->base.tag);
    request->order = peer->ordered++;
    transport_append(&peer->receives, &request->base);
    if (is_first) match_arrivals(peer, request);
    if (!peer->has_left || request->phase != kUnmatched || atomic_load(&request->base.state) == kTransportDone)
        return HLO_SUCCESS;
    transport_take(&peer->receives, &request->base);
    return transport_left_error(peer->ucx->transport, request->base.process);
}

HloStatus ucx_start(Ucx *ucx, TransportRequest *request) {
    UcxRequest *own = (UcxRequest *)request;
    UcxPeer *peer = &ucx->peers[request->process];
    pthread_mutex_lock(&ucx->lock);
    HloStatus status = ucx->has_failed    ? transport_error(ucx->transport)
                       : request->is_send ? start_send(peer, own)
                                          : start_receive(peer, own);
    pthread_mutex_unlock(&ucx->lock);
    ucx_wake(ucx);  // a thread that sleeps may have to move what was started
    return status;
}

void ucx_cancel(Ucx *ucx, TransportRequest *request) {
    enum { kMoment = 1000000 };
    UcxRequest *own = (UcxRequest *)request;
    UcxPeer *peer = peer_of(ucx, own);
    pthread_mutex_lock(&ucx->lock);
    const bool is_pending = atomic_load(&request->state) != kTransportDone;
    if (is_pending && own->phase == kUnmatched) {
        transport_take(request->is_send ? &peer->offers : &peer->receives, request);
        if (request->is_send) send_answer(peer, kWithdraw, own->offer);
        complete(ucx, own, hlo_error(HLO_CANCELLED, "the request was cancelled"));
    } else if (is_pending && own->phase == kMoving && !request->is_send && !own->is_cancelled && !ucx->is_over) {
        own->is_cancelled = true;
        if (!own->is_withdrawn && !ucx->has_failed) waste(peer, own);
        ucx->library->ucp_request_cancel(ucx->worker, own->handle);
    }
    pthread_mutex_unlock(&ucx->lock);
    while (atomic_load(&request->state) != kTransportDone) {
        const int64_t seen = transport_events(ucx->transport);
        if (!ucx_progress(ucx)) ucx_wait(ucx, seen, kMoment);
    }
}

void ucx_discard(Ucx *ucx, int64_t from, uint64_t tag, uint64_t mask) {
    UcxPeer *peer = &ucx->peers[from];
    pthread_mutex_lock(&ucx->lock);
    const bool noted = transport_note_rule(ucx->transport, from, tag, mask);  // without memory the messages stay
    for (Arrival **link = &peer->arrivals; *link && noted && !ucx->has_failed;) {
        if (transport_drops(ucx->transport, from, (*link)->tag)) {
            if ((*link)->is_offer) send_answer(peer, kDrop, (*link)->offer);
            take_arrival(peer, link);
        } else {
            link = &(*link)->next;
        }
    }
    pthread_mutex_unlock(&ucx->lock);
    ucx_wake(ucx);
}

bool ucx_progress(Ucx *ucx) {
    enum { kMost = 64 };
    // Another thread moves messages already.
    if (pthread_mutex_trylock(&ucx->lock) != 0) return false;
    bool moved = false;
    for (int i = 0; i < kMost && !ucx->is_over && ucx->library->ucp_worker_progress(ucx->worker); i++) moved = true;
    if (moved) atomic_store_explicit(&ucx->nap, 0, memory_order_relaxed);
    HloStatus failure = ucx->failure;
    if (failure && !ucx->has_failed) {
        ucx->failure = NULL;
    } else {
        failure = NULL;
    }
    pthread_mutex_unlock(&ucx->lock);
    if (failure) transport_fail(ucx->transport, failure, kTransportOwnFailure);
    return atomic_load_explicit(&ucx->completed, memory_order_relaxed) && atomic_exchange(&ucx->completed, false);
}

void ucx_wake(Ucx *ucx) {
    if (atomic_load(&ucx->waiter_count) == 0) return;
    const uint64_t one = 1;
    (void)!write(ucx->wake_file, &one, sizeof one);
}

// How long a thread sleeps though UCX is busy. It has news at first; when nothing has moved since, it keeps messages
// whose receivers have no room for more, slow processes or stopped ones. It does not say when that changes, so the
// thread looks again after naps that grow.
static int64_t busy_nap(Ucx *ucx) {
    const int64_t nap = atomic_load_explicit(&ucx->nap, memory_order_relaxed);
    const int64_t next = nap == 0 ? kLeastNap : 2 * nap;
    atomic_store_explicit(&ucx->nap, next < kMostNap ? next : kMostNap, memory_order_relaxed);
    return nap;
}

// Sleeps until UCX or ucx_wake() has something, unless an event came before this thread counted as a waiter.
static void sleep_for(Ucx *ucx, int64_t seen, int64_t nanoseconds) {
    pthread_mutex_lock(&ucx->lock);
    const ucs_status_t armed = ucx->is_over ? UCS_ERR_CANCELED : ucx->library->ucp_worker_arm(ucx->worker);
    pthread_mutex_unlock(&ucx->lock);
    if (armed == UCS_ERR_BUSY) nanoseconds = hlo_smaller(nanoseconds, busy_nap(ucx));
    if (nanoseconds == 0) return;
    const struct timespec time = {.tv_sec = (time_t)(nanoseconds / 1000000000),
                                  .tv_nsec = (long)(nanoseconds % 1000000000)};
    struct pollfd files[] = {{.fd = ucx->wake_file, .events = POLLIN}, {.fd = ucx->event_file, .events = POLLIN}};
    atomic_fetch_add(&ucx->waiter_count, 1);
    if (transport_events(ucx->transport) == seen) (void)ppoll(files, armed == UCS_OK ? 2 : 1, &time, NULL);
    // The last one to leave resets the event; while others wait it stays, so that none misses it.
    if (atomic_fetch_sub(&ucx->waiter_count, 1) == 1) {
        uint64_t count;
        (void)!read(ucx->wake_file, &count, sizeof count);
    }
}

void ucx_wait(Ucx *ucx, int64_t seen, int64_t nanoseconds) {
    // How long looking is worth while depends on whether the other process runs at the same time: where processors are
    // too few, looking delays it. Never with sched_yield(): on a busy machine that costs a time slice of another
    // program, while a sleeper is woken at once.
    const int64_t spin = atomic_load_explicit(&ucx->spin, memory_order_relaxed), began = hlo_clock_nanoseconds();
    int64_t waited = 0;
    while (waited < nanoseconds && waited < spin) {
        for (int i = 0; i < kLooks; i++) {
            if (!ucx_progress(ucx) && transport_events(ucx->transport) == seen) continue;
            atomic_store_explicit(&ucx->spin, kMostSpin, memory_order_relaxed);
            return;
        }
        waited = hlo_clock_nanoseconds() - began;
    }
    if (waited >= nanoseconds) return;
    const int64_t sleeps = atomic_fetch_add_explicit(&ucx->sleep_count, 1, memory_order_relaxed);
    atomic_store_explicit(&ucx->spin, sleeps % kSpinAgain == 0 ? kMostSpin : spin / 2, memory_order_relaxed);
    sleep_for(ucx, seen, nanoseconds - waited);
}

// ---- the end

static void free_arrivals(UcxPeer *peer) {
    while (peer->arrivals) take_arrival(peer, &peer->arrivals);
}

// Makes the requests of a list done whose memory no one touches, now that UCX does not run any more.
static void end_channel(UcxPeer *peer, TransportChannel *channel) {
    for (TransportRequest *request = channel->first, *next; request; request = next) {
        UcxRequest *own = (UcxRequest *)request;
        next = request->next;
        if (request->is_send && own->is_large && !peer->is_quiet) continue;
        transport_take(channel, request);
        if (own->phase == kMoving) own->note->request = NULL;
        complete(peer->ucx, own, transport_error(peer->ucx->transport));
    }
}

static bool is_receiving(const Ucx *ucx) {
    for (int64_t i = 0; i < ucx->transport->process_count; i++)
        for (const TransportRequest *request = ucx->peers[i].moving.first; request; request = request->next)
            if (!request->is_send) return true;
    return false;
}

// Receives that UCX is about to fill are awaited for a moment; then UCX is not called again, so that it touches
// nothing. Endpoints are not closed by force: while other processes run, a closed one is opened again by their messages
// under another number, about which UCX there aborts the program.
void ucx_fail(Ucx *ucx) {
    const int64_t until = hlo_clock_nanoseconds() + kStopTime;
    pthread_mutex_lock(&ucx->lock);
    for (int64_t i = 0; i < ucx->transport->process_count; i++) {
        UcxPeer *peer = &ucx->peers[i];
        transport_fail_channel(&peer->receives, ucx->transport->error);
        transport_fail_channel(&peer->offers, ucx->transport->error);
        free_arrivals(peer);
        for (TransportRequest *request = peer->moving.first, *next; request; request = next) {
            next = request->next;
            if (!request->is_send) ucx->library->ucp_request_cancel(ucx->worker, ((UcxRequest *)request)->handle);
        }
    }
    ucx->has_failed = true;
    while (is_receiving(ucx) && hlo_clock_nanoseconds() < until) ucx->library->ucp_worker_progress(ucx->worker);
    for (int64_t i = 0; i < ucx->transport->process_count; i++) {
        end_channel(&ucx->peers[i], &ucx->peers[i].moving);
        end_channel(&ucx->peers[i], &ucx->peers[i].held);
    }
    ucx->is_over = true;
    atomic_store(&ucx->completed, true);
    pthread_mutex_unlock(&ucx->lock);
}

void ucx_note_quiet(Ucx *ucx, int64_t process) {
    pthread_mutex_lock(&ucx->lock);
    ucx->peers[process].is_quiet = true;
    if (ucx->is_over) {
        end_channel(&ucx->peers[process], &ucx->peers[process].moving);
        end_channel(&ucx->peers[process], &ucx->peers[process].held);
    }
    pthread_mutex_unlock(&ucx->lock);
}

void ucx_note_leaving(Ucx *ucx, int64_t process) {
    HloStatus error = transport_left_error(ucx->transport, process);
    pthread_mutex_lock(&ucx->lock);
    transport_fail_channel(&ucx->peers[process].offers, error);
    atomic_store(&ucx->completed, true);
    pthread_mutex_unlock(&ucx->lock);
    hlo_status_free(error);
}

void ucx_leave(Ucx *ucx, int64_t until) {
    pthread_mutex_lock(&ucx->lock);
    // A failure that another thread is reporting now counts: who leaves after one has not left of its own accord.
    for (int64_t i = 0; i < ucx->transport->process_count && !atomic_load(&ucx->transport->has_failed); i++)
        if (ucx->peers[i].endpoint && !atomic_load(&ucx->transport->peers[i].has_left))
            (void)send_note(&ucx->peers[i], kLeave, 0, 0, 0, NULL);
    while (ucx->pending_notes > 0 && !ucx->is_over && hlo_clock_nanoseconds() < until) {
        const bool moved = ucx->library->ucp_worker_progress(ucx->worker);
        pthread_mutex_unlock(&ucx->lock);  // for the thread that would report a failure
        if (!moved) sched_yield();
        pthread_mutex_lock(&ucx->lock);
    }
    pthread_mutex_unlock(&ucx->lock);
}

HloStatus ucx_unexplained_error(Ucx *ucx) {
    HloStatus error = HLO_SUCCESS;
    const int64_t now = hlo_clock_nanoseconds();
    pthread_mutex_lock(&ucx->lock);
    for (int64_t i = 0; i < ucx->transport->process_count && !error && !ucx->has_failed; i++) {
        const UcxPeer *peer = &ucx->peers[i];
        if (!peer->broken_since || now - peer->broken_since < UCX_GRACE) continue;
        if (atomic_load(&ucx->transport->peers[i].has_left)) continue;
        error = hlo_error(HLO_UNAVAILABLE, "messages to or from %s fail, though it is alive (UCX: %s)",
                          ucx->transport->peers[i].name, ucx->library->ucs_status_string(peer->broken));
    }
    pthread_mutex_unlock(&ucx->lock);
    return error;
}

// ---- opening

static void broke(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    (void)endpoint;
    note_broken(argument, status);
}

static HloStatus ucx_error(const Ucx *ucx, ucs_status_t status, const char *what) {
    return hlo_error(HLO_UNAVAILABLE, "UCX cannot %s: %s", what, ucx->library->ucs_status_string(status));
}

// UCX's settings that are not the caller's: it prints nothing, has no hooks in the memory functions and no signals, and
// completes requests with a dead process. A variable of UCX's in the environment decides about what it names.
static ucs_status_t configure(const Ucx *ucx, ucp_config_t *config) {
    const struct {
        const char *name, *variable, *value;
    } settings[] = {
        {"LOG_LEVEL", "UCX_LOG_LEVEL", "fatal"},
        {"WARN_UNUSED_ENV_VARS", NULL, "n"},
        {"HANDLE_ERRORS", NULL, "none"},
        {"DEBUG_SIGNO", NULL, "0"},
        {"MEMTYPE_CACHE", NULL, "n"},
        {"RCACHE_ENABLE", NULL, "n"},
        {"REG_METHODS", "UCX_IB_REG_METHODS", "direct"},
        {"MM_ERROR_HANDLING", NULL, "y"},  // of shared memory
        // Without it UCX copies large messages twice and in pieces, since it cannot end a copy by a process that has
        // given up. ucx.h says how that is dealt with here.
        {"MEMORY_INVALIDATE", NULL, "y"},
        {"KEEPALIVE_INTERVAL", NULL, "inf"},  // liveness.c does that
        {"MAX_EAGER_LANES", NULL, "1"},       // keeps the order of small messages
        {"NET_DEVICES", "UCX_NET_DEVICES", ucx->devices ? ucx->devices : "lo"},
        // System V segments can outlive their processes. GPUs have no part in this.
        {"TLS", "UCX_TLS", ucx->devices ? "^sysv,cuda,rocm,gdr_copy,ze" : "posix,cma,self"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(settings); i++) {
        if (settings[i].variable && getenv(settings[i].variable)) continue;
        const ucs_status_t status = ucx->library->ucp_config_modify(config, settings[i].name, settings[i].value);
        if (status != UCS_OK && status != UCS_ERR_NO_ELEM) return status;  // one that this version lacks is not needed
    }
    return UCS_OK;
}

static HloStatus open_context(Ucx *ucx) {
    ucp_config_t *config;
    ucs_status_t status = ucx->library->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return ucx_error(ucx, status, "read its configuration");
    status = configure(ucx, config);
    const ucp_params_t parameters = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)ucx->transport->process_count};
    if (status == UCS_OK)
        status = ucx->library->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &ucx->context);
    ucx->library->ucp_config_release(config);
    return status == UCS_OK ? HLO_SUCCESS : ucx_error(ucx, status, "start");
}

static HloStatus open_worker(Ucx *ucx) {
    const ucp_worker_params_t parameters = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = kMessageId,
        .cb = arrived,
        .arg = ucx};
    ucs_status_t status = ucx->library->ucp_worker_create(ucx->context, &parameters, &ucx->worker);
    if (status == UCS_OK) status = ucx->library->ucp_worker_set_am_recv_handler(ucx->worker, &handler);
    if (status == UCS_OK) status = ucx->library->ucp_worker_get_efd(ucx->worker, &ucx->event_file);
    if (status == UCS_OK)
        status = ucx->library->ucp_worker_get_address(ucx->worker, &ucx->address, &ucx->address_bytes);
    return status == UCS_OK ? HLO_SUCCESS : ucx_error(ucx, status, "open its transports");
}

HloStatus ucx_open(Transport *transport, const UcxOptions *options, Ucx **result) {
    const int64_t count = transport->process_count;
    Ucx *ucx = hlo_allocate_zeroed(1, sizeof *ucx);
    HLO_FAIL_IF(!ucx, HLO_RESOURCE_EXHAUSTED, "no memory for a transport");
    if (pthread_mutex_init(&ucx->lock, NULL) != 0) {
        hlo_free(ucx);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a transport");
    }
    ucx->transport = transport;
    ucx->is_good = options->is_good;
    ucx->event_file = -1;
    ucx->wake_file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ucx->devices = hlo_allocate_text(options->devices);
    ucx->peers = hlo_allocate_zeroed((size_t)count, sizeof *ucx->peers);
    for (int64_t i = 0; i < count && ucx->peers; i++) {
        ucx->peers[i].ucx = ucx;
        ucx->peers[i].last_arrival = &ucx->peers[i].arrivals;
    }
    HloStatus status = HLO_SUCCESS;
    if (!ucx->peers || (options->devices && !ucx->devices))
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a transport");
    if (!status && ucx->wake_file < 0)
        status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no event file for a transport: %s", strerror(errno));
    // Threads that UCX starts must not be those that handle the program's signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!status) status = ucx_library_open(&ucx->library);
    if (!status) status = open_context(ucx);
    if (!status) status = open_worker(ucx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status) {
        ucx_free(ucx);
        return status;
    }
    *result = ucx;
    return HLO_SUCCESS;
}

const void *ucx_address(const Ucx *ucx, size_t *bytes) {
    *bytes = ucx->address_bytes;
    return ucx->address;
}

char *ucx_description(const Ucx *ucx) {
    HloText text = {0};
    const char *given = getenv("UCX_TLS");
    hlo_text_format(&text, "UCX %s (%s)", ucx->library->ucp_get_version_string(),
                    given          ? given
                    : ucx->devices ? ucx->devices
                                   : "shared memory");
    if (text.failed) hlo_text_free(&text);
    return text.data;
}

HloStatus ucx_connect(Ucx *ucx, int64_t process, const void *address) {
    UcxPeer *peer = &ucx->peers[process];
    const ucp_ep_params_t parameters = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                        .address = address,
                                        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                        .err_handler = {.cb = broke, .arg = peer}};
    pthread_mutex_lock(&ucx->lock);
    const ucs_status_t status = ucx->library->ucp_ep_create(ucx->worker, &parameters, &peer->endpoint);
    if (status != UCS_OK) peer->endpoint = NULL;
    pthread_mutex_unlock(&ucx->lock);
    HLO_FAIL_IF(status != UCS_OK, HLO_UNAVAILABLE, "UCX finds no way to %s: %s", ucx->transport->peers[process].name,
                ucx->library->ucs_status_string(status));
    return HLO_SUCCESS;
}

// Those that have failed. UCX aborts the program when a worker is destroyed that still has requests, and does not end
// requests with a process that is stopped; so after a failure it keeps its memory, and what it may still point to.
static Ucx *abandoned;
static pthread_mutex_t abandoned_lock = PTHREAD_MUTEX_INITIALIZER;

void ucx_free(Ucx *ucx) {
    if (!ucx) return;
    if (ucx->is_over) {
        pthread_mutex_lock(&abandoned_lock);
        ucx->next_abandoned = abandoned;
        abandoned = ucx;
        pthread_mutex_unlock(&abandoned_lock);
        return;
    }
    const UcxLibrary *library = ucx->library;
    if (ucx->worker) {
        ucx->has_failed = true;
        if (ucx->address) library->ucp_worker_release_address(ucx->worker, ucx->address);
        library->ucp_worker_destroy(ucx->worker);
    }
    if (ucx->context) library->ucp_cleanup(ucx->context);
    for (int64_t i = 0; i < ucx->transport->process_count && ucx->peers; i++) free_arrivals(&ucx->peers[i]);
    while (ucx->all_notes) {
        Note *note = ucx->all_notes;
        ucx->all_notes = note->next_of_all;
        hlo_free(note);
    }
    while (ucx->wastes) {
        Waste *scratch = ucx->wastes;
        ucx->wastes = scratch->next;
        hlo_free(scratch);
    }
    if (ucx->wake_file >= 0) close(ucx->wake_file);
    pthread_mutex_destroy(&ucx->lock);
    hlo_status_free(ucx->failure);
    hlo_free(ucx->devices);
    hlo_free(ucx->peers);
    hlo_free(ucx);
}

#else
typedef int UcxIsNotBuilt;  // C wants a declaration
#endif
