// SPDX-License-Identifier: Apache-2.0
// Announcements, failures and reports between processes. Of each peer a few control messages are always being received,
// in order; sent ones are kept until the transport is done with them.
//
// An announcement is compared when both sides of it are known: `own` are launches here that the peer has not announced
// yet, `theirs` those that it announced before this process came to them. One of both lists is always empty. A launch
// keeps its announcement there even after it has ended: a program whose data only goes out may end before the peer
// begins it, and is compared later.
#include "targets/cpu/run/hosts.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/text.h"

// Tags: bit 47 marks messages of launches, bit 46 those of channels; then the launch's number in the pair, and the
// index.
enum { kIndexBits = 24, kNumberBits = 20, kChannelBit = 46, kLaunchBit = 47 };
enum {
    kControlTag = 0,
    kUnusedTag = 2,  // never sent
    kControlDepth = 4,
    kControlBytes = 1024,
    kNameBytes = 256,
    kLastPolls = 1000,
    kFreshReports = 3
};
typedef enum ControlKind { CONTROL_LAUNCH = 1, CONTROL_FAILURE, CONTROL_REPORT } ControlKind;

typedef struct ControlHead {
    int64_t kind;
    int64_t number;   // of the launch, in the pair
    int64_t ordinal;  // of the launch, in the sender
    uint64_t fingerprint;
    int64_t code;  // of a failure
} ControlHead;

// What travels. Texts end with a zero, and are cut to fit.
typedef union Control {
    struct {
        ControlHead head;
        char text[kControlBytes - sizeof(ControlHead)];
    } text;
    struct {
        ControlHead head;
        CpuWaitReport report;
    } wait;
} Control;
_Static_assert(sizeof(Control) == kControlBytes, "control messages have one size");

typedef struct SentControl {
    struct SentControl *next;
    TransportRequest *request;
    Control control;
} SentControl;

// A launch as one side knows it.
typedef struct Announcement {
    struct Announcement *next;
    int64_t number, ordinal;
    uint64_t fingerprint;
    char name[kNameBytes];
} Announcement;

typedef struct AnnouncementList {
    Announcement *first, *last;
} AnnouncementList;

// A failure that arrived before this process came to the launch.
typedef struct EarlyFailure {
    struct EarlyFailure *next;
    int64_t number;
    HloStatus status;
} EarlyFailure;

typedef struct Peer {
    int64_t launched;   // launches here that this peer takes part in
    int64_t compared;   // how many of them have been compared
    int64_t discarded;  // 1 + the last one whose messages are dropped; 0: none
    AnnouncementList own, theirs;
    EarlyFailure *failures;
    TransportRequest *requests[kControlDepth];  // a ring
    Control received[kControlDepth];
    int64_t next_request;
    bool gone;  // it has left, or the transport has ended
} Peer;

struct CpuHosts {
    Transport *transport;
    int64_t timeout;
    pid_t pid;                    // in the child of a fork nothing here can be used, the lock least of all
    _Atomic int64_t seen_events;  // the transport's, when control messages were last looked at
    pthread_mutex_t lock;         // guards everything below
    Peer *peers;                  // by process
    int64_t process_count, process;
    int64_t ordinal;  // of the last launch
    CpuLaunch *launches;
    SentControl *sent;
    HloStatus error;  // ends all launches
    // Probes, one at a time. All processes have answered each of those sent from `answered_from` to `answered_to`
    // before the next one was due.
    int64_t probe, probed_at;  // the last one, and when it was sent; 0: none
    bool is_late;              // it was still unanswered when the next one was due
    int64_t answered_from, answered_to;
};

typedef struct LaunchPeer {
    int64_t process, number;
    int64_t their_ordinal;  // 0: not announced
    CpuWaitReport report;
    int64_t reported_at;      // 0: never
    int64_t unchanged_since;  // when the first of the last reports came that show no progress in between
    int64_t finished_at;      // when it was first seen to have ended the launch; 0: it has not
} LaunchPeer;

struct CpuLaunch {
    CpuLaunch *next;
    CpuHosts *hosts;
    const CpuSpan *span;
    const char *name;
    int64_t ordinal;
    HloStatus failure;  // of a peer
    int64_t failed_by;  // that peer
    bool announced;     // peers know of it
    LaunchPeer *peers;  // as in the span
};

Transport *cpu_launch_transport(const CpuLaunch *launch) {
    return launch->hosts->transport;
}

int64_t cpu_launch_timeout(const CpuLaunch *launch) {
    return launch->hosts->timeout;
}

// A second, or a small part of a short timeout.
static int64_t report_interval(const CpuHosts *hosts) {
    enum { kSecond = 1000000000, kPart = 10 };
    return hosts->timeout / kPart < kSecond ? hosts->timeout / kPart : kSecond;
}

int64_t cpu_launch_report_interval(const CpuLaunch *launch) {
    return report_interval(launch->hosts);
}

int64_t cpu_launch_ordinal(const CpuLaunch *launch) {
    return launch->ordinal;
}

static HloStatus copy_status(const struct HloError *status) {
    return status ? hlo_error(hlo_status_code(status), "%s", hlo_status_message(status)) : HLO_SUCCESS;
}

// ---- sending control messages (lock held)

static HloStatus send_control(CpuHosts *hosts, int64_t process, const Control *control) {
    SentControl *sent = hlo_allocate_zeroed(1, sizeof *sent);
    HLO_FAIL_IF(!sent, HLO_RESOURCE_EXHAUSTED, "no memory for a message to another process");
    sent->control = *control;
    const HloStatus status =
        transport_send(hosts->transport, process, kControlTag, &sent->control, sizeof sent->control, &sent->request);
    if (status) {
        hlo_free(sent);
        return status;
    }
    sent->next = hosts->sent;
    hosts->sent = sent;
    return HLO_SUCCESS;
}

static void free_sent(SentControl *sent) {
    transport_request_free(sent->request);
    hlo_free(sent);
}

// Errors are those of the transport, which the receives show too.
static void reap_sent(CpuHosts *hosts) {
    for (SentControl **at = &hosts->sent; *at;) {
        SentControl *sent = *at;
        HloStatus status = HLO_SUCCESS;
        if (!transport_request_is_done(sent->request, &status)) {
            at = &sent->next;
            continue;
        }
        hlo_status_free(status);
        *at = sent->next;
        free_sent(sent);
    }
}

// Writes a text that fits; `to` has room for `bytes`.
static void put_text(char *to, size_t bytes, const char *text) {
    snprintf(to, bytes, "%s", text ? text : "");
}

// ---- comparing launches (lock held)

static void append(AnnouncementList *list, Announcement *announcement) {
    *(list->last ? &list->last->next : &list->first) = announcement;
    list->last = announcement;
}

static Announcement *take(AnnouncementList *list) {
    Announcement *first = list->first;
    if (!first) return NULL;
    list->first = first->next;
    if (!list->first) list->last = NULL;
    first->next = NULL;
    return first;
}

static void free_announcements(AnnouncementList *list) {
    for (Announcement *first; (first = take(list));) hlo_free(first);
}

static CpuLaunch *find_launch(const CpuHosts *hosts, int64_t process, int64_t number, LaunchPeer **peer) {
    for (CpuLaunch *launch = hosts->launches; launch; launch = launch->next) {
        for (int64_t i = 0; i < launch->span->peer_count; i++) {
            *peer = &launch->peers[i];
            if ((*peer)->process == process && (*peer)->number == number) return launch;
        }
    }
    return NULL;
}

// Ends everything: programs that differ leave messages under way that belong to no one.
static void end_all(CpuHosts *hosts, HloStatus error) {
    transport_abort(hosts->transport, copy_status(error));
    if (hosts->error)
        hlo_status_free(error);
    else
        hosts->error = error;
}

// Compares the two sides of a launch and frees both.
static void compare(CpuHosts *hosts, int64_t process, Announcement *own, Announcement *theirs) {
    Peer *peer = &hosts->peers[process];
    if (own->fingerprint == theirs->fingerprint && own->number == theirs->number) {
        peer->compared++;
        LaunchPeer *found;
        if (find_launch(hosts, process, own->number, &found)) found->their_ordinal = theirs->ordinal;
    } else if (strcmp(own->name, theirs->name) != 0) {
        end_all(hosts,
                hlo_error(HLO_FAILED_PRECONDITION,
                          "the processes run different programs: launch %lld of %s is %s, where %s runs %s (its "
                          "launch %lld). All processes must launch the same programs in the same order",
                          (long long)own->ordinal, transport_process_name(hosts->transport, hosts->process), own->name,
                          transport_process_name(hosts->transport, process), theirs->name, (long long)theirs->ordinal));
    } else {
        end_all(hosts,
                hlo_error(HLO_FAILED_PRECONDITION,
                          "the processes run different programs: launch %lld of %s and launch %lld of %s are "
                          "both called %s, but differ in their instructions, shapes, devices or options "
                          "(fingerprints %016llx and %016llx)",
                          (long long)own->ordinal, transport_process_name(hosts->transport, hosts->process),
                          (long long)theirs->ordinal, transport_process_name(hosts->transport, process), own->name,
                          (unsigned long long)own->fingerprint, (unsigned long long)theirs->fingerprint));
    }
    hlo_free(own);
    hlo_free(theirs);
}

// Takes ownership of the announcement of this process or of the peer.
static void announce(CpuHosts *hosts, int64_t process, Announcement *announcement, bool is_own) {
    Peer *peer = &hosts->peers[process];
    Announcement *other = take(is_own ? &peer->theirs : &peer->own);
    if (other)
        compare(hosts, process, is_own ? announcement : other, is_own ? other : announcement);
    else
        append(is_own ? &peer->own : &peer->theirs, announcement);
}

static Announcement *new_announcement(int64_t number, int64_t ordinal, uint64_t fingerprint, const char *name) {
    Announcement *made = hlo_allocate_zeroed(1, sizeof *made);
    if (!made) return NULL;
    made->number = number;
    made->ordinal = ordinal;
    made->fingerprint = fingerprint;
    put_text(made->name, sizeof made->name, name);
    return made;
}

// ---- receiving control messages (lock held)

static void take_launch(CpuHosts *hosts, int64_t process, Control *control) {
    const ControlHead *head = &control->text.head;
    control->text.text[sizeof control->text.text - 1] = 0;
    Announcement *theirs = new_announcement(head->number, head->ordinal, head->fingerprint, control->text.text);
    if (theirs)
        announce(hosts, process, theirs, false);
    else
        end_all(hosts, hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a message of another process"));
}

// A launch that has ended here is not concerned any more.
static void take_failure(CpuHosts *hosts, int64_t process, Control *control) {
    const ControlHead *head = &control->text.head;
    control->text.text[sizeof control->text.text - 1] = 0;
    const HloStatus status = hlo_error(hlo_code_from_number(head->code), "%s", control->text.text);
    Peer *peer = &hosts->peers[process];
    LaunchPeer *found;
    CpuLaunch *launch = find_launch(hosts, process, head->number, &found);
    if (launch && !launch->failure) {
        launch->failure = status;
        launch->failed_by = process;
        return;
    }
    EarlyFailure *early = head->number >= peer->launched ? hlo_allocate(sizeof *early) : NULL;
    if (!early) {
        hlo_status_free(status);
        return;
    }
    *early = (EarlyFailure){peer->failures, head->number, status};
    peer->failures = early;
}

static bool is_valid(const CpuWaitReport *report) {
    if (report->place_count < 0 || report->place_count > CPU_WAIT_PLACES || report->process_count < 0 ||
        report->process_count > CPU_WAIT_PROCESSES)
        return false;
    for (int64_t i = 0; i < report->process_count; i++)
        if (report->process_places[i] < -1 || report->process_places[i] >= report->place_count) return false;
    return true;
}

static void take_report(CpuHosts *hosts, int64_t process, const Control *control) {
    LaunchPeer *peer;
    const CpuWaitReport *report = &control->wait.report;
    if (!find_launch(hosts, process, control->wait.head.number, &peer) || !is_valid(report)) return;
    const int64_t now = hlo_clock_nanoseconds();
    const bool is_stable = peer->reported_at && now - peer->reported_at < kFreshReports * report_interval(hosts) &&
                           peer->report.progress == report->progress;
    if (!is_stable) peer->unchanged_since = now;
    peer->report = *report;
    peer->reported_at = now;
}

static void take_control(CpuHosts *hosts, int64_t process, Control *control) {
    switch (control->text.head.kind) {
        case CONTROL_LAUNCH: take_launch(hosts, process, control); return;
        case CONTROL_FAILURE: take_failure(hosts, process, control); return;
        case CONTROL_REPORT: take_report(hosts, process, control); return;
        default:
            end_all(hosts,
                    hlo_error(HLO_INTERNAL, "a message of unknown kind %lld from %s",
                              (long long)control->text.head.kind, transport_process_name(hosts->transport, process)));
    }
}

static HloStatus receive_next(CpuHosts *hosts, int64_t process, int64_t slot) {
    Peer *peer = &hosts->peers[process];
    return transport_receive(hosts->transport, process, kControlTag, &peer->received[slot], sizeof(Control),
                             &peer->requests[slot]);
}

// A peer that has left in order sends nothing more; launches that still need it see that in their own requests.
static void take_controls(CpuHosts *hosts, int64_t process) {
    Peer *peer = &hosts->peers[process];
    while (!peer->gone && !hosts->error) {
        const int64_t slot = peer->next_request % kControlDepth;
        HloStatus status = HLO_SUCCESS;
        if (!transport_request_is_done(peer->requests[slot], &status)) return;
        transport_request_free(peer->requests[slot]);
        peer->requests[slot] = NULL;
        if (!status) {
            take_control(hosts, process, &peer->received[slot]);
            peer->next_request++;
            status = receive_next(hosts, process, slot);
        }
        peer->gone = status != NULL;
        hlo_status_free(status);
    }
}

// Reads the messages that have come since the last call.
static void look(CpuHosts *hosts) {
    const int64_t events = transport_events(hosts->transport);
    if (atomic_load_explicit(&hosts->seen_events, memory_order_relaxed) == events) return;
    atomic_store_explicit(&hosts->seen_events, events, memory_order_relaxed);
    for (int64_t p = 0; p < hosts->process_count; p++)
        if (p != hosts->process) take_controls(hosts, p);
    reap_sent(hosts);
    if (!hosts->error) hosts->error = transport_error(hosts->transport);
}

// ---- the state of a process

HloStatus cpu_hosts_new(Transport *transport, double timeout_seconds, CpuHosts **result) {
    assert(transport && timeout_seconds > 0 && result);
    CpuHosts *hosts = hlo_allocate_zeroed(1, sizeof *hosts);
    HLO_FAIL_IF(!hosts, HLO_RESOURCE_EXHAUSTED, "no memory for a client");
    pthread_mutex_init(&hosts->lock, NULL);
    hosts->transport = transport;
    hosts->timeout = (int64_t)(timeout_seconds * 1e9);
    hosts->pid = getpid();
    atomic_init(&hosts->seen_events, -1);
    hosts->process = transport_process_index(transport);
    hosts->process_count = transport_process_count(transport);
    hosts->peers = hlo_allocate_zeroed((size_t)hosts->process_count, sizeof(Peer));
    HloStatus status = HLO_SUCCESS;
    if (!hosts->peers) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a client");
    for (int64_t p = 0; p < hosts->process_count && !status; p++)
        for (int64_t slot = 0; slot < kControlDepth && p != hosts->process && !status; slot++)
            status = receive_next(hosts, p, slot);
    if (status)
        cpu_hosts_free(hosts);
    else
        *result = hosts;
    return status;
}

static void free_peer(Peer *peer) {
    for (int64_t slot = 0; slot < kControlDepth; slot++) transport_request_free(peer->requests[slot]);
    free_announcements(&peer->own);
    free_announcements(&peer->theirs);
    for (EarlyFailure *next; peer->failures; peer->failures = next) {
        next = peer->failures->next;
        hlo_status_free(peer->failures->status);
        hlo_free(peer->failures);
    }
}

// Lets messages that are still being sent go out: a peer may wait for them.
static void flush(CpuHosts *hosts, int polls) {
    for (int i = 0; i < polls && hosts->sent; i++) {
        transport_progress(hosts->transport);
        reap_sent(hosts);
    }
}

void cpu_hosts_free(CpuHosts *hosts) {
    if (!hosts) return;
    assert(!hosts->launches);
    flush(hosts, kLastPolls);
    for (SentControl *next; hosts->sent; hosts->sent = next) {
        next = hosts->sent->next;
        free_sent(hosts->sent);
    }
    for (int64_t p = 0; hosts->peers && p < hosts->process_count; p++) free_peer(&hosts->peers[p]);
    hlo_free(hosts->peers);
    hlo_status_free(hosts->error);
    pthread_mutex_destroy(&hosts->lock);
    hlo_free(hosts);
}

// ---- launches

// Takes failures of this launch that have come before it. Lock held.
static void take_early_failures(CpuLaunch *launch, const LaunchPeer *peer) {
    for (EarlyFailure **at = &launch->hosts->peers[peer->process].failures; *at;) {
        EarlyFailure *early = *at;
        if (early->number > peer->number) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        if (early->number == peer->number && !launch->failure) {
            launch->failure = early->status;
            launch->failed_by = peer->process;
        } else {
            hlo_status_free(early->status);
        }
        hlo_free(early);
    }
}

// Numbers of launches in tags wrap around. Well before a number comes again, the transport's rules that drop its
// messages are displaced by others.
static void forget_discards(CpuHosts *hosts, int64_t process) {
    Peer *peer = &hosts->peers[process];
    if (!peer->discarded || peer->launched - peer->discarded < INT64_C(1) << (kNumberBits - 1)) return;
    for (int i = 0; i < TRANSPORT_DISCARD_RULES; i++)
        transport_discard(hosts->transport, process, kUnusedTag, (UINT64_C(1) << TRANSPORT_TAG_BITS) - 1);
    peer->discarded = 0;
}

// Lock held. The number counts up even if the message cannot be sent: the peer counts this launch too.
static HloStatus announce_to(CpuLaunch *launch, LaunchPeer *peer, int64_t process, uint64_t fingerprint) {
    CpuHosts *hosts = launch->hosts;
    *peer = (LaunchPeer){.process = process, .number = hosts->peers[process].launched++};
    forget_discards(hosts, process);
    Announcement *own = new_announcement(peer->number, launch->ordinal, fingerprint, launch->name);
    HLO_FAIL_IF(!own, HLO_RESOURCE_EXHAUSTED, "no memory to launch %s", launch->name);
    const Announcement *known = hosts->peers[process].theirs.first;
    peer->their_ordinal = known ? known->ordinal : 0;
    announce(hosts, process, own, true);
    Control control = {0};
    control.text.head = (ControlHead){CONTROL_LAUNCH, peer->number, launch->ordinal, fingerprint, 0};
    put_text(control.text.text, kNameBytes, launch->name);
    HLO_TRY(send_control(hosts, process, &control));
    take_early_failures(launch, peer);
    return HLO_SUCCESS;
}

// The first error counts, but all peers are told: each of them counts this launch.
static HloStatus announce_to_all(CpuLaunch *launch, uint64_t fingerprint) {
    CpuHosts *hosts = launch->hosts;
    HloStatus first = HLO_SUCCESS;
    pthread_mutex_lock(&hosts->lock);
    launch->ordinal = ++hosts->ordinal;
    launch->next = hosts->launches;
    hosts->launches = launch;
    launch->announced = true;
    for (int64_t i = 0; i < launch->span->peer_count; i++) {
        const HloStatus status = announce_to(launch, &launch->peers[i], launch->span->peers[i], fingerprint);
        if (first)
            hlo_status_free(status);
        else
            first = status;
    }
    pthread_mutex_unlock(&hosts->lock);
    return first;
}

// Publishes what this process does in the launch. The mark is the lowest ordinal of the launches that still run: a peer
// sees from it which ones have ended here. Lock held.
static void set_activity(const CpuLaunch *launch, const char *text) {
    const CpuHosts *hosts = launch->hosts;
    int64_t mark = hosts->ordinal + 1;
    for (const CpuLaunch *at = hosts->launches; at; at = at->next)
        if (at->ordinal < mark) mark = at->ordinal;
    char line[kNameBytes];
    snprintf(line, sizeof line, "launch %lld of %s: %s", (long long)launch->ordinal, launch->name, text);
    transport_set_activity(hosts->transport, line, mark);
}

HloStatus cpu_launch_begin(CpuHosts *hosts, const CpuSpan *span, const char *name, uint64_t fingerprint,
                           CpuLaunch **result) {
    assert(hosts && span && name && result);
    *result = NULL;
    HLO_FAIL_IF(getpid() != hosts->pid, HLO_FAILED_PRECONDITION,
                "%s runs in several processes; the child of a fork is none of them", name);
    CpuLaunch *launch = hlo_allocate_zeroed(1, sizeof *launch);
    HLO_FAIL_IF(!launch, HLO_RESOURCE_EXHAUSTED, "no memory to launch %s", name);
    launch->hosts = hosts;
    launch->span = span;
    launch->name = name;
    launch->peers = hlo_allocate_zeroed((size_t)span->peer_count + 1, sizeof(LaunchPeer));
    HloStatus status = HLO_SUCCESS;
    if (!launch->peers) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to launch %s", name);
    if (!status) status = announce_to_all(launch, fingerprint);
    if (!status) {
        cpu_launch_set_activity(launch, "runs");
        *result = launch;
        return HLO_SUCCESS;
    }
    cpu_launch_end(launch, status);
    return status;
}

// Tells the peers of an error, except the one that it is from. Lock held.
static void tell_failure(CpuLaunch *launch, const struct HloError *status) {
    CpuHosts *hosts = launch->hosts;
    HloText text = {0};
    const bool is_theirs =
        launch->failure && strcmp(hlo_status_message(launch->failure), hlo_status_message(status)) == 0;
    if (is_theirs)
        hlo_text_string(&text, hlo_status_message(status));
    else
        hlo_text_format(&text, "%s failed in launch %lld, %s: %s",
                        transport_process_name(hosts->transport, hosts->process), (long long)launch->ordinal,
                        launch->name, hlo_status_message(status));
    for (int64_t i = 0; i < launch->span->peer_count; i++) {
        const LaunchPeer *peer = &launch->peers[i];
        if (is_theirs && launch->failed_by == peer->process) continue;
        Control control = {0};
        control.text.head = (ControlHead){.kind = CONTROL_FAILURE,
                                          .number = peer->number,
                                          .ordinal = launch->ordinal,
                                          .code = hlo_status_code(status)};
        put_text(control.text.text, sizeof control.text.text, text.data);
        hlo_status_free(send_control(hosts, peer->process, &control));  // a peer that is gone need not know
    }
    hlo_text_free(&text);
}

// Number and tag of the messages of a launch, without their index.
static uint64_t tag_of(const LaunchPeer *peer) {
    const uint64_t number = (uint64_t)peer->number & ((UINT64_C(1) << kNumberBits) - 1);
    return UINT64_C(1) << kLaunchBit | number << kIndexBits;
}

// Drops what peers have sent for a launch that has failed here: they may wait for that.
static void discard_messages(const CpuLaunch *launch) {
    const uint64_t mask = UINT64_C(1) << kLaunchBit | ((UINT64_C(1) << kNumberBits) - 1) << kIndexBits;
    for (int64_t i = 0; i < launch->span->peer_count; i++) {
        const LaunchPeer *peer = &launch->peers[i];
        transport_discard(launch->hosts->transport, peer->process, tag_of(peer), mask);
        launch->hosts->peers[peer->process].discarded = peer->number + 1;
    }
}

void cpu_launch_end(CpuLaunch *launch, const struct HloError *status) {
    if (!launch) return;
    CpuHosts *hosts = launch->hosts;
    if (launch->announced) {
        pthread_mutex_lock(&hosts->lock);
        if (status && !hosts->error) tell_failure(launch, status);
        for (CpuLaunch **at = &hosts->launches; *at; at = &(*at)->next) {
            if (*at != launch) continue;
            *at = launch->next;
            break;
        }
        flush(hosts, kLastPolls);
        if (status) discard_messages(launch);
        set_activity(launch, "has finished");
        pthread_mutex_unlock(&hosts->lock);
    }
    hlo_status_free(launch->failure);
    hlo_free(launch->peers);
    hlo_free(launch);
}

static LaunchPeer *peer_of(const CpuLaunch *launch, int64_t process) {
    for (int64_t i = 0; i < launch->span->peer_count; i++)
        if (launch->peers[i].process == process) return &launch->peers[i];
    HLO_BUG_IF(true);
}

uint64_t cpu_launch_tag(const CpuLaunch *launch, int64_t process, CpuMessageKind kind, int64_t index) {
    assert(index >= 0 && index < CPU_MESSAGE_INDEX_LIMIT);
    const uint64_t channel = (uint64_t)(kind == CPU_MESSAGE_CHANNEL) << kChannelBit;
    return tag_of(peer_of(launch, process)) | channel | (uint64_t)index;
}

HloStatus cpu_launch_poll(CpuLaunch *launch) {
    CpuHosts *hosts = launch->hosts;
    transport_progress(hosts->transport);
    pthread_mutex_lock(&hosts->lock);
    look(hosts);
    HloStatus status = HLO_SUCCESS;
    if (hosts->error || launch->failure) status = copy_status(launch->failure ? launch->failure : hosts->error);
    pthread_mutex_unlock(&hosts->lock);
    return status;
}

bool cpu_launch_is_checked(CpuLaunch *launch, int64_t process) {
    CpuHosts *hosts = launch->hosts;
    pthread_mutex_lock(&hosts->lock);
    const bool checked = hosts->peers[process].compared > peer_of(launch, process)->number;
    pthread_mutex_unlock(&hosts->lock);
    return checked;
}

// ---- long waits

void cpu_launch_set_activity(CpuLaunch *launch, const char *text) {
    pthread_mutex_lock(&launch->hosts->lock);
    set_activity(launch, text);
    pthread_mutex_unlock(&launch->hosts->lock);
}

void cpu_launch_report(CpuLaunch *launch, const CpuWaitReport *report) {
    CpuHosts *hosts = launch->hosts;
    pthread_mutex_lock(&hosts->lock);
    for (int64_t i = 0; i < launch->span->peer_count; i++) {
        Control control = {0};
        control.wait.head =
            (ControlHead){.kind = CONTROL_REPORT, .number = launch->peers[i].number, .ordinal = launch->ordinal};
        control.wait.report = *report;
        hlo_status_free(send_control(hosts, launch->peers[i].process, &control));
    }
    pthread_mutex_unlock(&hosts->lock);
}

static bool all_have_answered(const CpuHosts *hosts) {
    for (int64_t p = 0; p < hosts->process_count; p++)
        if (!transport_has_answered(hosts->transport, p, hosts->probe)) return false;
    return true;
}

// Lock held.
static void keep_probing(CpuHosts *hosts) {
    const int64_t now = hlo_clock_nanoseconds();
    if (hosts->probe && now - hosts->probed_at < report_interval(hosts) / 2) return;  // of another launch
    if (hosts->probe && !all_have_answered(hosts)) {
        hosts->is_late = true;
        hosts->answered_from = hosts->answered_to = 0;
        return;
    }
    if (hosts->probe && !hosts->is_late) {
        if (!hosts->answered_from) hosts->answered_from = hosts->probed_at;
        hosts->answered_to = hosts->probed_at;
    }
    hosts->is_late = false;
    hosts->probed_at = now;
    hosts->probe = transport_probe(hosts->transport);
}

void cpu_launch_probe(CpuLaunch *launch) {
    pthread_mutex_lock(&launch->hosts->lock);
    keep_probing(launch->hosts);
    pthread_mutex_unlock(&launch->hosts->lock);
}

void cpu_launch_print_silent(CpuLaunch *launch, HloText *text) {
    enum { kOverdueIntervals = 2, kMostNames = 8 };
    CpuHosts *hosts = launch->hosts;
    pthread_mutex_lock(&hosts->lock);
    const int64_t age = hlo_clock_nanoseconds() - hosts->probed_at;
    const bool is_overdue = hosts->probe && age >= kOverdueIntervals * report_interval(hosts);
    int64_t count = 0;
    for (int64_t p = 0; p < hosts->process_count && is_overdue; p++) {
        if (transport_has_answered(hosts->transport, p, hosts->probe)) continue;
        if (count++ < kMostNames)
            hlo_text_format(text, "%s has not answered for %.1f s; ", transport_process_name(hosts->transport, p),
                            (double)age * 1e-9);
    }
    if (count > kMostNames) hlo_text_format(text, "nor have %lld other processes; ", (long long)(count - kMostNames));
    pthread_mutex_unlock(&hosts->lock);
}

// Whether nothing more can come from the peer: it ended the launch some time ago, so that what it sent before has
// arrived.
static bool has_finished(const CpuLaunch *launch, LaunchPeer *peer, int64_t now) {
    const int64_t mark = transport_mark(launch->hosts->transport, peer->process);
    if (!peer->their_ordinal || mark <= peer->their_ordinal) return false;
    if (!peer->finished_at) peer->finished_at = now;
    return now - peer->finished_at >= report_interval(launch->hosts);
}

// The iteration of a loop does not matter: a process that is there in another one has sent, or will send, what the
// slower one needs.
static bool is_at(const CpuWaitReport *report, int64_t rendezvous) {
    for (int64_t i = 0; i < report->place_count; i++)
        if (report->places[i] == rendezvous) return true;
    return false;
}

// The processes that wait, with this one first.
typedef struct WaitSet {
    const CpuWaitReport **reports;  // NULL: the process has finished
    int64_t *processes;
    int64_t *since;  // when the state of the process last changed, as far as is known here
    bool *stuck;
    int64_t count;
} WaitSet;

static int64_t index_in(const WaitSet *set, int64_t process) {
    for (int64_t i = 0; i < set->count; i++)
        if (set->processes[i] == process) return i;
    return -1;
}

// Whether waiting for `process` at that place of the report is in vain: it is stuck elsewhere.
static bool is_in_vain(const WaitSet *set, const CpuWaitReport *report, int64_t k) {
    const int64_t other = index_in(set, report->processes[k]);
    if (other < 0 || !set->stuck[other]) return false;
    const int32_t place = report->process_places[k];
    const CpuWaitReport *theirs = set->reports[other];
    if (!theirs) return true;
    return place < 0 ? !theirs->has_sends : !is_at(theirs, report->places[place]);
}

// A place is stuck if one of the processes that it waits for does not come; a process, if all its places are.
static bool is_stuck(const WaitSet *set, const CpuWaitReport *report) {
    bool stuck = report->process_count > 0;
    for (int64_t place = -1; place < report->place_count; place++) {
        bool waits = false, vain = false;
        for (int64_t k = 0; k < report->process_count; k++) {
            if (report->process_places[k] != place) continue;
            waits = true;
            // Each message of a channel counts by itself.
            if (place < 0 && !is_in_vain(set, report, k)) return false;
            vain = vain || is_in_vain(set, report, k);
        }
        if (place >= 0 && !waits) return false;  // its messages have just arrived
        stuck = stuck && (!waits || vain);
    }
    return stuck;
}

static void find_stuck(WaitSet *set) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t i = 0; i < set->count; i++) {
            if (!set->stuck[i] || !set->reports[i] || is_stuck(set, set->reports[i])) continue;
            set->stuck[i] = false;
            changed = true;
        }
    }
}

// Lock held.
static void fill_set(const CpuLaunch *launch, const CpuWaitReport *own, int64_t since, WaitSet *set) {
    const int64_t now = hlo_clock_nanoseconds();
    set->reports[0] = own;
    set->processes[0] = launch->hosts->process;
    set->since[0] = since;
    set->stuck[0] = own->is_complete;
    set->count = 1;
    for (int64_t i = 0; i < launch->span->peer_count; i++) {
        LaunchPeer *peer = &launch->peers[i];
        const bool finished = has_finished(launch, peer, now);
        const bool fresh =
            peer->reported_at && now - peer->reported_at < kFreshReports * report_interval(launch->hosts);
        set->processes[set->count] = peer->process;
        set->reports[set->count] = finished ? NULL : &peer->report;
        set->since[set->count] = finished ? peer->finished_at : peer->unchanged_since;
        set->stuck[set->count++] = finished || (fresh && peer->report.is_complete);
    }
}

// Whether every process, of the set or not, has been at work for a while since the stuck ones last got further. A
// process that is stopped may hold up the messages between others: shared memory delivers them in order, after one that
// it has only begun to write.
static bool is_confirmed(const CpuHosts *hosts, const WaitSet *set) {
    int64_t since = hosts->answered_from;
    for (int64_t i = 0; i < set->count; i++)
        if (set->stuck[i] && set->since[i] > since) since = set->since[i];
    return hosts->answered_from && hosts->answered_to - since >= report_interval(hosts);
}

// Lock held.
static void print_peer(CpuLaunch *launch, int64_t process, HloText *text) {
    double age = 0;
    char *activity = transport_activity(launch->hosts->transport, process, &age);
    hlo_text_format(text, "%s ", transport_process_name(launch->hosts->transport, process));
    if (activity && *activity)
        hlo_text_format(text, "was last heard of %.1f s ago (%s)", age, activity);
    else
        hlo_text_format(text, "was last heard of %.1f s ago, in no launch", age);
    hlo_free(activity);
}

void cpu_launch_print_peer(CpuLaunch *launch, int64_t process, HloText *text) {
    pthread_mutex_lock(&launch->hosts->lock);
    print_peer(launch, process, text);
    pthread_mutex_unlock(&launch->hosts->lock);
}

HloStatus cpu_launch_deadlock(CpuLaunch *launch, const CpuWaitReport *own, int64_t since, const char *text) {
    CpuHosts *hosts = launch->hosts;
    const size_t count = (size_t)launch->span->peer_count + 1;
    WaitSet set = {.reports = hlo_allocate_zeroed(count, sizeof(void *)),
                   .processes = hlo_allocate_zeroed(count, sizeof(int64_t)),
                   .since = hlo_allocate_zeroed(count, sizeof(int64_t)),
                   .stuck = hlo_allocate_zeroed(count, sizeof(bool))};
    HloStatus status = HLO_SUCCESS;
    if (set.reports && set.processes && set.since && set.stuck) {
        pthread_mutex_lock(&hosts->lock);
        fill_set(launch, own, since, &set);
        find_stuck(&set);
        if (set.stuck[0] && is_confirmed(hosts, &set)) {
            HloText others = {0};
            for (int64_t k = 0; k < own->process_count && k < 8; k++) {
                if (!is_in_vain(&set, own, k)) continue;
                hlo_text_string(&others, "; ");
                print_peer(launch, own->processes[k], &others);
            }
            status =
                hlo_error(HLO_FAILED_PRECONDITION, "deadlock in launch %lld, %s: %s %s%s", (long long)launch->ordinal,
                          launch->name, transport_process_name(hosts->transport, hosts->process), text,
                          others.data ? others.data : "");
            hlo_text_free(&others);
        }
        pthread_mutex_unlock(&hosts->lock);
    }
    hlo_free(set.reports);
    hlo_free(set.processes);
    hlo_free(set.since);
    hlo_free(set.stuck);
    return status;
}
