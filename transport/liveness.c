// SPDX-License-Identifier: Apache-2.0
// The thread of a joined transport: heartbeats, failures and leaving, on the control connections.
#ifdef MESHLO_UCX

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "transport/joined.h"

enum { kTick = 100000000, kMostBeat = 1000000000, kFarewell = 200000000 };

void joined_time_of_day(char *text, size_t capacity) {
    const time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    (void)strftime(text, capacity, "%H:%M:%S UTC", &parts);
}

void joined_tell(Link *link, const struct HloError *error) {
    const char *message = hlo_status_message(error);
    const int32_t code = (int32_t)hlo_status_code(error);
    const size_t length = strnlen(message, kMostFailureBytes);
    char *data = hlo_allocate(sizeof code + length);
    if (data) {
        memcpy(data, &code, sizeof code);
        memcpy(data + sizeof code, message, length);
    }
    link_queue(link, kFail, data, data ? sizeof code + length : 0);
    hlo_free(data);
    link_flush(link);
}

HloStatus joined_told(const Frame *frame) {
    int32_t code;
    if (frame->bytes < sizeof code) return hlo_error(HLO_UNAVAILABLE, "a process has failed because memory is short");
    memcpy(&code, frame->data, sizeof code);
    return hlo_error(hlo_code_from_number(code), "%.*s", (int)(frame->bytes - sizeof code),
                     (const char *)frame->data + sizeof code);
}

// Keeps the first failure, for the thread to raise.
static void note_failure(Joined *joined, HloStatus error, TransportFailure kind) {
    if (joined->pending || atomic_load(&joined->base.has_failed)) {
        hlo_status_free(error);
        return;
    }
    joined->pending = error;
    joined->pending_kind = kind;
}

// Adds what the process was doing, if it said so.
static HloStatus with_activity(Joined *joined, int64_t process, HloStatus error) {
    char *activity = transport_activity(&joined->base, process, NULL);
    HloStatus result = error;
    if (activity && *activity)
        result = hlo_error(hlo_status_code(error), "%s; what it did last: %s", hlo_status_message(error), activity);
    if (result != error) hlo_status_free(error);
    hlo_free(activity);
    return result;
}

// Returns the number at the beginning of a frame; 0 if it is too short.
static int64_t number_in(const Frame *frame) {
    int64_t number = 0;
    if (frame->bytes >= sizeof number) memcpy(&number, frame->data, sizeof number);
    return number;
}

static void read_beat(Joined *joined, int64_t process, const Frame *frame) {
    const int64_t mark = number_in(frame);
    if (frame->bytes < sizeof mark || frame->bytes > sizeof mark + kMostActivityBytes) return;
    transport_note_activity(&joined->base, process, (const char *)frame->data + sizeof mark, frame->bytes - sizeof mark,
                            mark);
}

// Handles all frames that have come from a process.
static void read_control(Joined *joined, int64_t process) {
    Control *control = &joined->controls[process];
    Link *link = &control->link;
    Frame frame;
    if (link->file < 0) return;
    link_read(link);
    while (link_next(link, kMostControlBytes, &frame)) {
        atomic_store(&joined->base.peers[process].last_seen, hlo_clock_nanoseconds());
        switch (frame.kind) {
            case kBeat: read_beat(joined, process, &frame); break;
            case kProbe: control->probe_received = number_in(&frame); break;
            case kAnswer: transport_note_answer(&joined->base, process, number_in(&frame)); break;
            case kFail: note_failure(joined, joined_told(&frame), kTransportToldFailure); break;
            case kQuiet: control->is_quiet = true; break;
            case kGone: control->has_gone = true; break;
            default: break;  // of a later version
        }
    }
    if (!link->is_broken) return;
    if (!control->has_gone) {
        char now[32];
        joined_time_of_day(now, sizeof now);
        note_failure(joined,
                     with_activity(joined, process,
                                   hlo_error(HLO_UNAVAILABLE, "%s has died (its connection %s at %s)",
                                             joined->base.peers[process].name, link_reason(link), now)),
                     kTransportSeenFailure);
    }
    control->is_quiet = true;
    link_close(link);
}

bool joined_is_good(Transport *transport, int64_t process) {
    Joined *joined = (Joined *)transport;
    pthread_mutex_lock(&joined->control_lock);
    read_control(joined, process);
    const bool is_good = !joined->pending && !atomic_load(&transport->has_failed);
    pthread_mutex_unlock(&joined->control_lock);
    const uint64_t one = 1;
    if (!is_good) (void)!write(joined->wake_file, &one, sizeof one);
    return is_good;
}

// ---- the thread

static void send_beats(Joined *joined) {
    char *activity = transport_activity(&joined->base, joined->base.process_index, NULL);
    const int64_t mark = transport_mark(&joined->base, joined->base.process_index);
    char beat[sizeof mark + kMostActivityBytes];
    const size_t length = activity ? strnlen(activity, kMostActivityBytes) : 0;
    memcpy(beat, &mark, sizeof mark);
    if (length) memcpy(beat + sizeof mark, activity, length);
    hlo_free(activity);
    for (int64_t i = 0; i < joined->base.process_count; i++) {
        // Where the last one is still waiting to be written the process does not read.
        if (joined->controls[i].link.output_bytes == 0)
            link_queue(&joined->controls[i].link, kBeat, beat, sizeof mark + length);
    }
}

// Sends the latest probe and answers those of others, where nothing is waiting to be written.
static void exchange_probes(Joined *joined) {
    const int64_t latest = atomic_load(&joined->base.probes);
    for (int64_t i = 0; i < joined->base.process_count; i++) {
        Control *control = &joined->controls[i];
        if (control->link.file < 0 || control->link.output_bytes > 0) continue;
        if (control->probe_sent < latest) {
            control->probe_sent = latest;
            link_queue(&control->link, kProbe, &latest, sizeof latest);
        }
        if (control->probe_answered != control->probe_received) {
            control->probe_answered = control->probe_received;
            link_queue(&control->link, kAnswer, &control->probe_received, sizeof control->probe_received);
        }
    }
}

// After a failure the process counts as quiet when nothing can be heard of it any more.
static void watch_silence(Joined *joined, int64_t now) {
    for (int64_t i = 0; i < joined->base.process_count; i++) {
        Control *control = &joined->controls[i];
        const int64_t silence = now - atomic_load(&joined->base.peers[i].last_seen);
        if (control->link.file < 0 || control->has_gone || silence < joined->timeout) continue;
        char now_text[32];
        joined_time_of_day(now_text, sizeof now_text);
        note_failure(joined,
                     with_activity(joined, i,
                                   hlo_error(HLO_DEADLINE_EXCEEDED,
                                             "%s has not answered for %.1f s (at %s): it is stopped "
                                             "or out of reach",
                                             joined->base.peers[i].name, (double)silence * 1e-9, now_text)),
                     kTransportSeenFailure);
        if (joined->failed_at) control->is_quiet = true;
    }
}

// Hands what the connections said to the messages; no lock is held.
static void act(Joined *joined) {
    pthread_mutex_lock(&joined->control_lock);
    HloStatus failure = transport_copy_error(joined->pending);
    const TransportFailure kind = joined->pending_kind;
    pthread_mutex_unlock(&joined->control_lock);
    if (failure) {
        transport_fail(&joined->base, failure, kind);
        // Only now: until then joined_is_good() must see it.
        pthread_mutex_lock(&joined->control_lock);
        hlo_status_free(joined->pending);
        joined->pending = NULL;
        pthread_mutex_unlock(&joined->control_lock);
    } else if ((failure = ucx_unexplained_error(joined->ucx))) {
        transport_fail(&joined->base, failure, kTransportSeenFailure);
    }
    for (int64_t i = 0; i < joined->base.process_count; i++) {
        Control *control = &joined->controls[i];
        pthread_mutex_lock(&joined->control_lock);
        // A failure that was read since is raised first: it says why the process has gone.
        const bool tell_gone = control->has_gone && !control->has_told_gone && !joined->pending;
        const bool tell_quiet = control->is_quiet && joined->failed_at && !control->has_told_quiet;
        control->has_told_gone |= tell_gone;
        control->has_told_quiet |= tell_quiet;
        pthread_mutex_unlock(&joined->control_lock);
        if (tell_gone) {
            atomic_store(&joined->base.peers[i].has_left, true);
            ucx_note_leaving(joined->ucx, i);
            transport_count_event(&joined->base);
        }
        if (tell_quiet) ucx_note_quiet(joined->ucx, i);
    }
}

static int wait_for_links(Joined *joined, struct pollfd *files, int64_t nanoseconds) {
    const int64_t count = joined->base.process_count;
    pthread_mutex_lock(&joined->control_lock);
    for (int64_t i = 0; i < count; i++) {
        const Link *link = &joined->controls[i].link;
        files[i] = (struct pollfd){.fd = link->file, .events = (short)(link->output_bytes ? POLLIN | POLLOUT : POLLIN)};
    }
    pthread_mutex_unlock(&joined->control_lock);
    files[count] = (struct pollfd){.fd = joined->wake_file, .events = POLLIN};
    const struct timespec time = {.tv_sec = (time_t)(nanoseconds / 1000000000),
                                  .tv_nsec = (long)(nanoseconds % 1000000000)};
    const int ready = ppoll(files, (nfds_t)count + 1, &time, NULL);
    uint64_t woken;
    if (ready > 0 && files[count].revents) (void)!read(joined->wake_file, &woken, sizeof woken);
    return ready;
}

static void *watch(void *argument) {
    Joined *joined = argument;
    const int64_t count = joined->base.process_count;
    const int64_t tick = joined->timeout / 10 < kTick ? joined->timeout / 10 : kTick;
    const int64_t beat = joined->timeout / 5 < kMostBeat ? joined->timeout / 5 : kMostBeat;
    struct pollfd *files = hlo_allocate_zeroed((size_t)count + 1, sizeof *files);
    int64_t last_beat = 0, last_time = hlo_clock_nanoseconds();
    bool is_first = true;
    while (files && !atomic_load(&joined->stop)) {
        (void)wait_for_links(joined, files, is_first ? 0 : tick);
        const int64_t now = hlo_clock_nanoseconds();
        pthread_mutex_lock(&joined->control_lock);
        for (int64_t i = 0; i < count; i++)
            if (files[i].revents || is_first) read_control(joined, i);
        // A process that was itself stopped knows nothing about the silence of others.
        for (int64_t i = 0; i < count && now - last_time > joined->timeout / 2; i++)
            atomic_store(&joined->base.peers[i].last_seen, now);
        watch_silence(joined, now);
        if (now - last_beat >= beat || (now - last_beat >= tick && atomic_exchange(&joined->activity_changed, false))) {
            last_beat = now;
            send_beats(joined);
        }
        for (int64_t i = 0; i < count; i++) link_flush(&joined->controls[i].link);
        exchange_probes(joined);
        for (int64_t i = 0; i < count; i++) link_flush(&joined->controls[i].link);
        pthread_mutex_unlock(&joined->control_lock);
        act(joined);
        (void)ucx_progress(joined->ucx);  // so that a peer's cancelled or dropped messages end though no one works here
        last_time = now;
        is_first = false;
    }
    hlo_free(files);
    return NULL;
}

HloStatus joined_start(Joined *joined) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&joined->thread, NULL, watch, joined);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    HLO_FAIL_IF(error != 0, HLO_RESOURCE_EXHAUSTED, "no thread for the transport: %s", strerror(error));
    joined->has_thread = true;
    return HLO_SUCCESS;
}

// ---- the engine

static HloStatus start(Transport *transport, TransportRequest *request) {
    return ucx_start(((Joined *)transport)->ucx, request);
}

static void cancel(Transport *transport, TransportRequest *request) {
    ucx_cancel(((Joined *)transport)->ucx, request);
}

static void discard(Transport *transport, int64_t from, uint64_t tag, uint64_t mask) {
    ucx_discard(((Joined *)transport)->ucx, from, tag, mask);
}

static bool progress(Transport *transport) {
    return ucx_progress(((Joined *)transport)->ucx);
}

static void wait_for_event(Transport *transport, int64_t seen, int64_t nanoseconds) {
    ucx_wait(((Joined *)transport)->ucx, seen, nanoseconds);
}

static void wake(Transport *transport) {
    ucx_wake(((Joined *)transport)->ucx);
}

static void tell_activity(Transport *transport) {
    atomic_store(&((Joined *)transport)->activity_changed, true);
}

static void wake_thread(Joined *joined) {
    const uint64_t one = 1;
    (void)!write(joined->wake_file, &one, sizeof one);
}

static void send_probe(Transport *transport, int64_t probe) {
    (void)probe;  // the thread sends the latest
    wake_thread((Joined *)transport);
}

static void fail(Transport *transport, TransportFailure failure) {
    Joined *joined = (Joined *)transport;
    HloStatus error = transport_copy_error(transport->error);
    if (failure == kTransportOwnFailure)
        error = hlo_status_annotate(error, "%s", transport->peers[transport->process_index].name);
    pthread_mutex_lock(&joined->control_lock);
    for (int64_t i = 0; i < transport->process_count; i++)
        if (joined->controls[i].link.file >= 0) joined_tell(&joined->controls[i].link, error);
    pthread_mutex_unlock(&joined->control_lock);
    hlo_status_free(error);
    ucx_fail(joined->ucx);
    pthread_mutex_lock(&joined->control_lock);
    joined->failed_at = hlo_clock_nanoseconds();
    for (int64_t i = 0; i < transport->process_count; i++) {
        link_queue(&joined->controls[i].link, kQuiet, NULL, 0);
        link_flush(&joined->controls[i].link);
    }
    pthread_mutex_unlock(&joined->control_lock);
    wake_thread(joined);
}

void joined_free(Joined *joined) {
    for (int64_t i = 0; i < joined->base.process_count && joined->controls; i++) {
        // What is still unread would make the system reset the connection, and what this process said last be lost.
        link_read(&joined->controls[i].link);
        link_close(&joined->controls[i].link);
    }
    ucx_free(joined->ucx);
    if (joined->wake_file >= 0) close(joined->wake_file);
    hlo_status_free(joined->pending);
    hlo_free(joined->controls);
    pthread_mutex_destroy(&joined->control_lock);
    transport_finalise(&joined->base);
    hlo_free(joined);
}

// True when nothing is left to write and, unless the transport has failed, all others have left too.
static bool is_over(Joined *joined) {
    bool over = true;
    pthread_mutex_lock(&joined->control_lock);
    for (int64_t i = 0; i < joined->base.process_count; i++) {
        const Control *control = &joined->controls[i];
        if (control->link.output_bytes > 0) over = false;
        if (i != joined->base.process_index && !control->has_gone && !joined->failed_at) over = false;
    }
    pthread_mutex_unlock(&joined->control_lock);
    return over;
}

static void release(Transport *transport) {
    enum { kMoment = 5000000 };
    Joined *joined = (Joined *)transport;
    int64_t until = hlo_clock_nanoseconds() + joined->timeout;
    ucx_leave(joined->ucx, until);
    pthread_mutex_lock(&joined->control_lock);
    for (int64_t i = 0; i < transport->process_count && !atomic_load(&transport->has_failed); i++) {
        link_queue(&joined->controls[i].link, kGone, NULL, 0);
        link_flush(&joined->controls[i].link);
    }
    pthread_mutex_unlock(&joined->control_lock);
    bool has_failed = false;
    while (!is_over(joined) && hlo_clock_nanoseconds() < until) {
        const int64_t seen = transport_events(transport);
        if (!has_failed && atomic_load(&transport->has_failed)) {
            has_failed = true;
            until = hlo_clock_nanoseconds() + kFarewell;
        }
        if (!ucx_progress(joined->ucx)) ucx_wait(joined->ucx, seen, kMoment);
    }
    atomic_store(&joined->stop, true);
    wake_thread(joined);
    pthread_join(joined->thread, NULL);
    joined_free(joined);
}

// In a child: the parent's connections must end with the parent, so the child closes its copies of them.
static void forked(Transport *transport) {
    Joined *joined = (Joined *)transport;
    for (int64_t i = 0; i < transport->process_count; i++) {
        if (joined->controls[i].link.file >= 0) close(joined->controls[i].link.file);
        joined->controls[i].link.file = -1;
    }
}

// Threads that the child does not have may hold UCX's locks: what UCX has is left to the end of the process.
static void abandon(Transport *transport) {
    (void)transport;
}

const TransportEngine joined_engine = {.request_bytes = UCX_REQUEST_BYTES,
                                       .start = start,
                                       .cancel = cancel,
                                       .discard = discard,
                                       .progress = progress,
                                       .wait = wait_for_event,
                                       .wake = wake,
                                       .fail = fail,
                                       .tell_activity = tell_activity,
                                       .probe = send_probe,
                                       .release = release,
                                       .abandon = abandon,
                                       .forked = forked};

#else
typedef int LivenessIsNotBuilt;  // C wants a declaration
#endif
