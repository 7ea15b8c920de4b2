// SPDX-License-Identifier: Apache-2.0
// Joining: every process listens at its address and connects to those of lower numbers, authenticates, compares
// identity and exchanges addresses of UCX. A process has joined when all its connections are established and all others
// have said the same, so that either all join or none does.
//
// What two processes say, the one that connects first:
//     hello     magic, the two processes' numbers, their count, whether there is a secret, a nonce
//     proof     with a secret: HMAC of it over both hellos and the role
//     identity  process id, address, identity text, address of UCX
//     ready     all connections of this process are established
// A stranger cannot end the joining of others: what comes on an incoming connection before its proof is at most noted,
// for the message when the time is over.
#ifdef MESHLO_UCX

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/text.h"
#include "transport/address.h"
#include "transport/joined.h"
#include "transport/secret.h"

enum {
    kMostStrangers = 64,     // incoming connections that have not said who they are
    kMostHelloBytes = 4096,  // of frames before the proof
    kRetry = 20000000,       // nanoseconds between attempts to connect
    kPollTime = 50,          // milliseconds
    kMostIdentityBytes = 16384,
};

#define MAGIC 0x314f4c4853454d00u  // "\0MESHLO1" in memory, which also tells the byte order

typedef struct Hello {
    uint64_t magic;
    uint32_t process, other, count, has_secret;
    unsigned char nonce[TRANSPORT_NONCE_BYTES];
} Hello;

// The fixed part of an identity; followed by the address, the identity and the address of UCX.
typedef struct Identity {
    uint32_t pid, address_bytes, identity_bytes, ucx_bytes;
} Identity;

typedef enum Handshake {
    kConnecting,
    kAwaitsHello,
    kAwaitsProof,
    kAwaitsIdentity,
} Handshake;

// A connection that is not established yet.
typedef struct Candidate {
    struct Candidate *next;
    Link link;
    Handshake step;
    bool is_outgoing, is_over;  // is_over: to be freed
    int64_t process;            // -1: a stranger
    char from[80];              // the address of the other end
    Hello own, other;
} Candidate;

// The known facts about another process before it has joined.
typedef struct Other {
    const char *address_text;  // or NULL
    char *from_store;          // owned
    bool has_candidate, is_connected, is_ready;
    int64_t retry_at;
    char trouble[200];  // what happened last
} Other;

typedef struct Joining {
    const TransportOptions *options;
    Joined *joined;
    int64_t count, index, deadline;
    const char *secret, *identity;
    TransportAddress address;  // at which this process listens
    char address_text[280];
    int listener;
    Candidate *candidates;
    Other *others;
    HloStatus failure;  // ends joining
    // UCX did not connect to a process, perhaps because that one has given up: it then says why on its connection,
    // which is awaited until that time.
    HloStatus unexplained;
    int64_t unexplained_until;
    bool has_said_ready;
} Joining;

static HloStatus no_memory(void) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to join");
}

static void fail(Joining *joining, HloStatus error) {
    if (joining->failure) {
        hlo_status_free(error);
    } else {
        joining->failure = error;
    }
}

static const char *name_of(const Joining *joining, int64_t process) {
    return joining->joined->base.peers[process].name;
}

// Sets the name of a process for messages.
static void set_name(Joining *joining, int64_t process, const char *address, int64_t pid) {
    HloText text = {0};
    hlo_text_format(&text, "process %lld (", (long long)process);
    hlo_text_string(&text, address && *address ? address : "address unknown");
    if (pid > 0) hlo_text_format(&text, ", pid %lld", (long long)pid);
    hlo_text_string(&text, ")");
    TransportPeer *peer = &joining->joined->base.peers[process];
    if (text.failed) {
        hlo_text_free(&text);
        if (!peer->name) fail(joining, no_memory());
        return;
    }
    hlo_free(peer->name);
    peer->name = text.data;
}

static void __attribute__((format(printf, 3, 4))) note(Joining *joining, int64_t process, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(joining->others[process].trouble, sizeof joining->others[process].trouble, format, list);
    va_end(list);
}

// ---- candidates

static Candidate *add_candidate(Joining *joining, int file, int64_t process) {
    Candidate *candidate = hlo_allocate_zeroed(1, sizeof *candidate);
    if (!candidate) {
        close(file);
        fail(joining, no_memory());
        return NULL;
    }
    const int on = 1;
    (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    link_open(&candidate->link, file);
    candidate->process = process;
    candidate->is_outgoing = process >= 0;
    candidate->step = candidate->is_outgoing ? kConnecting : kAwaitsHello;
    candidate->next = joining->candidates;
    joining->candidates = candidate;
    return candidate;
}

static void end_candidate(Joining *joining, Candidate *candidate) {
    if (candidate->is_outgoing) {
        joining->others[candidate->process].has_candidate = false;
        joining->others[candidate->process].retry_at = hlo_clock_nanoseconds() + kRetry;
    }
    candidate->is_over = true;
}

static void sweep(Joining *joining) {
    for (Candidate **link = &joining->candidates; *link;) {
        Candidate *candidate = *link;
        if (candidate->is_over) {
            *link = candidate->next;
            link_close(&candidate->link);
            hlo_free(candidate);
        } else {
            link = &candidate->next;
        }
    }
}

// Tells the other end why it cannot join, and ends the connection.
static void refuse(Joining *joining, Candidate *candidate, HloCode code, const char *why) {
    HloStatus error = hlo_error(code, "%s", why);
    HloText text = {0};
    hlo_text_format(&text, "%d %s", (int)code, hlo_status_message(error));
    if (!text.failed) link_queue(&candidate->link, kRefuse, text.data, text.length);
    link_flush(&candidate->link);
    hlo_text_free(&text);
    hlo_status_free(error);
    // What it has sent must be read: otherwise closing resets the connection, and the refusal is lost.
    link_read(&candidate->link);
    end_candidate(joining, candidate);
}

// ---- messages that are sent

static void say_hello(Joining *joining, Candidate *candidate) {
    candidate->own = (Hello){.magic = MAGIC,
                             .process = (uint32_t)joining->index,
                             .other = (uint32_t)candidate->process,
                             .count = (uint32_t)joining->count,
                             .has_secret = joining->secret != NULL};
    HloStatus status = transport_make_nonce(candidate->own.nonce);
    if (status) fail(joining, status);
    link_queue(&candidate->link, kHello, &candidate->own, sizeof candidate->own);
}

// The proof of the process that connected or of the other one, over what both have said.
static void make_proof(const Joining *joining, const Candidate *candidate, bool of_outgoing,
                       unsigned char proof[TRANSPORT_PROOF_BYTES]) {
    struct {
        char label[24];
        Hello first, second;
    } text = {.label = "meshlo transport 1"};
    text.label[sizeof text.label - 1] = of_outgoing ? 'c' : 'a';
    text.first = candidate->is_outgoing ? candidate->own : candidate->other;
    text.second = candidate->is_outgoing ? candidate->other : candidate->own;
    transport_prove(joining->secret, &text, sizeof text, proof);
}

static void say_proof(Joining *joining, Candidate *candidate) {
    unsigned char proof[TRANSPORT_PROOF_BYTES];
    make_proof(joining, candidate, candidate->is_outgoing, proof);
    link_queue(&candidate->link, kProof, proof, sizeof proof);
}

static void say_identity(Joining *joining, Candidate *candidate) {
    size_t ucx_bytes;
    const void *ucx = ucx_address(joining->joined->ucx, &ucx_bytes);
    const Identity fixed = {.pid = (uint32_t)getpid(),
                            .address_bytes = (uint32_t)strlen(joining->address_text),
                            .identity_bytes = (uint32_t)strlen(joining->identity),
                            .ucx_bytes = (uint32_t)ucx_bytes};
    HloText text = {0};
    hlo_text_append(&text, (const char *)&fixed, sizeof fixed);
    hlo_text_append(&text, joining->address_text, fixed.address_bytes);
    hlo_text_append(&text, joining->identity, fixed.identity_bytes);
    hlo_text_append(&text, ucx, ucx_bytes);
    if (text.failed || text.length > kMostControlBytes) {
        fail(joining, text.failed
                          ? no_memory()
                          : hlo_error(HLO_INTERNAL, "UCX's address has %zu bytes, which is too long", ucx_bytes));
    } else {
        link_queue(&candidate->link, kIdentity, text.data, text.length);
    }
    hlo_text_free(&text);
}

// ---- messages that are received

static void hear_nonsense(Joining *joining, Candidate *candidate) {
    if (candidate->is_outgoing)
        fail(joining, hlo_error(HLO_FAILED_PRECONDITION, "what answers as %s speaks another protocol or version",
                                name_of(joining, candidate->process)));
    end_candidate(joining, candidate);
}

static void hear_hello_of_stranger(Joining *joining, Candidate *candidate) {
    const Hello *hello = &candidate->other;
    char why[200] = "";
    if (hello->count != (uint32_t)joining->count) {
        snprintf(why, sizeof why, "process %lld is one of %lld processes, not of %u", (long long)joining->index,
                 (long long)joining->count, hello->count);
    } else if (hello->other != (uint32_t)joining->index) {
        snprintf(why, sizeof why, "this is process %lld, not process %u", (long long)joining->index, hello->other);
    } else if (hello->process <= (uint32_t)joining->index || hello->process >= (uint32_t)joining->count) {
        snprintf(why, sizeof why, "two processes say that they are process %u", hello->process);
    } else if (hello->has_secret != (joining->secret != NULL)) {
        snprintf(why, sizeof why, "process %lld has %s secret, and process %u has %s", (long long)joining->index,
                 joining->secret ? "a" : "no", hello->process, joining->secret ? "none" : "one");
    }
    const int64_t process = hello->process < (uint32_t)joining->count ? hello->process : joining->index;
    if (why[0]) {
        note(joining, process, "a connection from %s was refused: %s", candidate->from, why);
        refuse(joining, candidate, HLO_FAILED_PRECONDITION, why);
        return;
    }
    candidate->process = process;
    say_hello(joining, candidate);
    candidate->step = joining->secret ? kAwaitsProof : kAwaitsIdentity;
    if (!joining->secret) say_identity(joining, candidate);
}

static void hear_hello(Joining *joining, Candidate *candidate, const Frame *frame) {
    Hello *hello = &candidate->other;
    if (frame->bytes == sizeof *hello) memcpy(hello, frame->data, sizeof *hello);
    if (frame->bytes != sizeof *hello || hello->magic != MAGIC) {
        hear_nonsense(joining, candidate);
    } else if (!candidate->is_outgoing) {
        hear_hello_of_stranger(joining, candidate);
    } else if (hello->process != (uint32_t)candidate->process) {
        fail(joining, hlo_error(HLO_FAILED_PRECONDITION, "at the address of %s there is process %u",
                                name_of(joining, candidate->process), hello->process));
    } else if (joining->secret) {
        say_proof(joining, candidate);
        candidate->step = kAwaitsProof;
    } else {
        say_identity(joining, candidate);
        candidate->step = kAwaitsIdentity;
    }
}

static void hear_proof(Joining *joining, Candidate *candidate, const Frame *frame) {
    unsigned char expected[TRANSPORT_PROOF_BYTES];
    make_proof(joining, candidate, !candidate->is_outgoing, expected);
    if (frame->bytes == sizeof expected && transport_same_proof(frame->data, expected)) {
        if (!candidate->is_outgoing) say_proof(joining, candidate);
        say_identity(joining, candidate);
        candidate->step = kAwaitsIdentity;
    } else if (candidate->is_outgoing) {
        fail(joining, hlo_error(HLO_UNAUTHENTICATED, "%s has another secret", name_of(joining, candidate->process)));
    } else {
        note(joining, candidate->process, "a connection from %s has another secret", candidate->from);
        refuse(joining, candidate, HLO_UNAUTHENTICATED, "the secret of the other process differs");
    }
}

// Names the first difference of two identities, with what surrounds it.
static HloStatus identity_error(const Joining *joining, int64_t process, const char *theirs, size_t bytes) {
    enum { kBefore = 40, kShown = 120 };
    const char *own = joining->identity;
    const size_t own_bytes = strlen(own);
    size_t same = 0;
    while (same < bytes && same < own_bytes && own[same] == theirs[same]) same++;
    const size_t from = bytes <= kShown && own_bytes <= kShown ? 0 : same > kBefore ? same - kBefore : 0;
    const size_t own_left = own_bytes - from, left = bytes - from;
    return hlo_error(HLO_FAILED_PRECONDITION, "%s and %s do not belong together: here '%s%.*s%s', there '%s%.*s%s'",
                     name_of(joining, joining->index), name_of(joining, process), from ? "…" : "",
                     (int)(own_left < kShown ? own_left : kShown), own + from, own_left > kShown ? "…" : "",
                     from ? "…" : "", (int)(left < kShown ? left : kShown), theirs + from, left > kShown ? "…" : "");
}

static void hear_identity(Joining *joining, Candidate *candidate, const Frame *frame) {
    const int64_t process = candidate->process;
    Other *other = &joining->others[process];
    Identity fixed;
    if (frame->bytes >= sizeof fixed) memcpy(&fixed, frame->data, sizeof fixed);
    if (frame->bytes < sizeof fixed || fixed.address_bytes > 300 || fixed.identity_bytes > kMostIdentityBytes ||
        frame->bytes != sizeof fixed + (size_t)fixed.address_bytes + fixed.identity_bytes + fixed.ucx_bytes ||
        fixed.ucx_bytes == 0) {
        fail(joining,
             hlo_error(HLO_INTERNAL, "%s says who it is in a way that makes no sense", name_of(joining, process)));
        return;
    }
    const char *address = (const char *)frame->data + sizeof fixed, *identity = address + fixed.address_bytes;
    if (other->is_connected) {
        fail(joining, hlo_error(HLO_ALREADY_EXISTS, "two processes are process %lld: %s and another with pid %u",
                                (long long)process, name_of(joining, process), fixed.pid));
        return;
    }
    char text[301];
    snprintf(text, sizeof text, "%.*s", (int)fixed.address_bytes, address);
    set_name(joining, process, other->address_text ? other->address_text : text, fixed.pid);
    if (fixed.identity_bytes != strlen(joining->identity) ||
        memcmp(identity, joining->identity, fixed.identity_bytes) != 0) {
        fail(joining, identity_error(joining, process, identity, fixed.identity_bytes));
        return;
    }
    // UCX reads the address at any alignment, as it comes from the network.
    HloStatus status = ucx_connect(joining->joined->ucx, process, identity + fixed.identity_bytes);
    if (status && joining->unexplained) {
        hlo_status_free(status);
    } else if (status) {
        joining->unexplained = status;
        joining->unexplained_until = hlo_clock_nanoseconds() + UCX_GRACE;
    }
    other->is_connected = true;
    joining->joined->controls[process].link = candidate->link;
    candidate->link = (Link){.file = -1};
    candidate->is_over = true;
}

static void hear_refusal(Joining *joining, Candidate *candidate, const Frame *frame) {
    if (!candidate->is_outgoing) {
        end_candidate(joining, candidate);
        return;
    }
    int code = 0, skipped = 0;
    char text[kMostHelloBytes + 1];
    snprintf(text, sizeof text, "%.*s", (int)frame->bytes, (const char *)frame->data);
    if (sscanf(text, "%d %n", &code, &skipped) < 1) code = HLO_UNKNOWN;
    fail(joining, hlo_error(hlo_code_from_number(code), "%s refuses this process: %s",
                            name_of(joining, candidate->process), text + skipped));
}

static void hear(Joining *joining, Candidate *candidate, const Frame *frame) {
    if (frame->kind == kRefuse) {
        hear_refusal(joining, candidate, frame);
    } else if (frame->kind == kFail && candidate->step == kAwaitsIdentity) {
        fail(joining, joined_told(frame));
    } else if (frame->kind == kHello && candidate->step == kAwaitsHello) {
        hear_hello(joining, candidate, frame);
    } else if (frame->kind == kProof && candidate->step == kAwaitsProof) {
        hear_proof(joining, candidate, frame);
    } else if (frame->kind == kIdentity && candidate->step == kAwaitsIdentity) {
        hear_identity(joining, candidate, frame);
    } else {
        hear_nonsense(joining, candidate);
    }
}

// ---- connecting

static void listen_at_address(Joining *joining) {
    const struct sockaddr *socket_address = (const struct sockaddr *)&joining->address.socket;
    const int on = 1;
    const int file = socket(socket_address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    joining->listener = file;
    if (file >= 0) (void)setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (file < 0 || bind(file, socket_address, joining->address.bytes) != 0 || listen(file, SOMAXCONN) != 0) {
        const int error = errno;
        fail(joining, hlo_error(error == EADDRINUSE ? HLO_ALREADY_EXISTS : HLO_UNAVAILABLE,
                                "process %lld cannot listen at its address %s: %s%s", (long long)joining->index,
                                joining->address_text, strerror(error),
                                error == EADDRINUSE ? " (by another process of this number?)" : ""));
        return;
    }
    joining->address.bytes = sizeof joining->address.socket;
    (void)getsockname(file, (struct sockaddr *)&joining->address.socket, &joining->address.bytes);
}

static void connect_to(Joining *joining, int64_t process) {
    Other *other = &joining->others[process];
    TransportAddress address;
    other->retry_at = hlo_clock_nanoseconds() + kRetry;
    HloStatus status = transport_resolve(other->address_text, false, &address);
    if (status) {  // a machine's name may become known later
        note(joining, process, "%s", hlo_status_message(status));
        other->retry_at += 10 * kRetry;
        hlo_status_free(status);
        return;
    }
    const int file = socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) {
        fail(joining, hlo_error(HLO_RESOURCE_EXHAUSTED, "no socket to join: %s", strerror(errno)));
    } else if (connect(file, (const struct sockaddr *)&address.socket, address.bytes) != 0 && errno != EINPROGRESS) {
        note(joining, process, "%s", strerror(errno));
        close(file);
    } else {
        Candidate *candidate = add_candidate(joining, file, process);
        if (!candidate) return;
        transport_print_address(&address, candidate->from, sizeof candidate->from);
        other->has_candidate = true;
    }
}

static void accept_strangers(Joining *joining) {
    for (;;) {
        TransportAddress address = {.bytes = sizeof address.socket};
        const int file = accept4(joining->listener, (struct sockaddr *)&address.socket, &address.bytes,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (file < 0) return;
        Candidate *candidate = add_candidate(joining, file, -1), *oldest = NULL;
        if (!candidate) return;
        transport_print_address(&address, candidate->from, sizeof candidate->from);
        int strangers = 0;
        for (Candidate *one = joining->candidates; one; one = one->next)
            if (one->process < 0 && !one->is_over) {
                strangers++;
                oldest = one;
            }
        if (strangers > kMostStrangers) oldest->is_over = true;
    }
}

// A connection to a port of this machine at which no one listens may be answered by itself.
static bool is_to_itself(int file) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
    return getsockname(file, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(file, (struct sockaddr *)&other, &other_bytes) == 0 && own_bytes == other_bytes &&
           memcmp(&own, &other, own_bytes) == 0;
}

static void advance(Joining *joining, Candidate *candidate, short events) {
    if (candidate->step == kConnecting) {
        int error = 0;
        socklen_t bytes = sizeof error;
        if (!(events & (POLLOUT | POLLERR | POLLHUP))) return;
        (void)getsockopt(candidate->link.file, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error == 0 && is_to_itself(candidate->link.file)) error = ECONNREFUSED;
        if (error != 0) {
            note(joining, candidate->process, "%s", strerror(error));
            end_candidate(joining, candidate);
            return;
        }
        note(joining, candidate->process, "it does not answer");
        candidate->step = kAwaitsHello;
        say_hello(joining, candidate);
    }
    Frame frame;
    if (events & (POLLIN | POLLERR | POLLHUP)) link_read(&candidate->link);
    while (
        !candidate->is_over && !joining->failure &&
        link_next(&candidate->link, candidate->step == kAwaitsIdentity ? kMostControlBytes : kMostHelloBytes, &frame))
        hear(joining, candidate, &frame);
    if (candidate->is_over || joining->failure) return;
    link_flush(&candidate->link);
    if (!candidate->link.is_broken) return;
    if (candidate->link.error == LINK_NONSENSE) {
        hear_nonsense(joining, candidate);
        return;
    }
    if (candidate->process >= 0) note(joining, candidate->process, "the connection %s", link_reason(&candidate->link));
    end_candidate(joining, candidate);
}

// ---- established connections

static void hear_connected(Joining *joining, int64_t process) {
    Link *link = &joining->joined->controls[process].link;
    Frame frame;
    link_read(link);
    // What follows ready is left to the thread.
    while (!joining->others[process].is_ready && !joining->failure && link_next(link, kMostControlBytes, &frame)) {
        if (frame.kind == kReady) joining->others[process].is_ready = true;
        if (frame.kind == kFail) fail(joining, joined_told(&frame));
    }
    if (link->is_broken && !joining->failure && !joining->others[process].is_ready)
        fail(joining, hlo_error(HLO_UNAVAILABLE, "%s has died while the processes were joining (its connection %s)",
                                name_of(joining, process), link_reason(link)));
}

static bool all_others(const Joining *joining, bool ready) {
    for (int64_t i = 0; i < joining->count; i++)
        if (i != joining->index && !(ready ? joining->others[i].is_ready : joining->others[i].is_connected))
            return false;
    return true;
}

static void say_ready(Joining *joining) {
    if (joining->has_said_ready || joining->unexplained || !all_others(joining, false)) return;
    joining->has_said_ready = true;
    for (int64_t i = 0; i < joining->count; i++) {
        if (i == joining->index) continue;
        link_queue(&joining->joined->controls[i].link, kReady, NULL, 0);
        link_flush(&joining->joined->controls[i].link);
    }
}

static HloStatus timeout_error(const Joining *joining) {
    HloText text = {0};
    int64_t missing = 0, named = 0;
    for (int64_t i = 0; i < joining->count; i++) {
        const Other *other = &joining->others[i];
        if (i == joining->index || other->is_connected) continue;
        if (missing++ >= 8) continue;
        hlo_text_format(&text, "%s%s", named++ ? "; " : "", name_of(joining, i));
        if (other->trouble[0]) {
            hlo_text_format(&text, ": %s", other->trouble);
        } else {
            hlo_text_string(&text, i < joining->index ? ": it does not answer" : ": it has not connected");
        }
    }
    for (int64_t i = 0; i < joining->count && missing == 0; i++)
        if (i != joining->index && !joining->others[i].is_ready)
            hlo_text_format(&text, "%s%s, which waits for others", named++ ? "; " : "", name_of(joining, i));
    const char *own = joining->others[joining->index].trouble;  // of connections that gave no number of this machine
    HloStatus error = hlo_error(
        HLO_DEADLINE_EXCEEDED, "process %lld of %lld waited %.3g s for the others to join at %s; missing: %s%s%s%s",
        (long long)joining->index, (long long)joining->count, (double)joining->joined->timeout * 1e-9,
        joining->address_text, text.data ? text.data : "", missing > 8 ? " and others" : "", own[0] ? "; " : "", own);
    hlo_text_free(&text);
    return error;
}

// ---- the loop

static struct pollfd *poll_all(Joining *joining) {
    size_t count = 1 + (size_t)joining->count, at = 0;
    for (const Candidate *one = joining->candidates; one; one = one->next) count++;
    struct pollfd *files = hlo_allocate_zeroed(count, sizeof *files);
    if (!files) {
        fail(joining, no_memory());
        return NULL;
    }
    files[at++] = (struct pollfd){.fd = joining->listener, .events = POLLIN};
    for (int64_t i = 0; i < joining->count; i++) {
        Link *link = &joining->joined->controls[i].link;
        files[at++] =
            (struct pollfd){.fd = link->file, .events = (short)(link_flush(link) ? POLLIN : POLLIN | POLLOUT)};
    }
    for (const Candidate *one = joining->candidates; one; one = one->next) {
        const bool writes = one->step == kConnecting || one->link.output_bytes > 0;
        files[at++] = (struct pollfd){.fd = one->link.file, .events = (short)(writes ? POLLIN | POLLOUT : POLLIN)};
    }
    int64_t wake = joining->deadline;
    for (int64_t i = 0; i < joining->index; i++) {
        const Other *other = &joining->others[i];
        if (!other->is_connected && !other->has_candidate && other->retry_at < wake) wake = other->retry_at;
    }
    const int64_t left = (wake - hlo_clock_nanoseconds()) / 1000000 + 1;
    (void)poll(files, (nfds_t)count, left < 0 ? 0 : left < kPollTime ? (int)left : kPollTime);
    return files;
}

static void join_all(Joining *joining) {
    while (!joining->failure && !(joining->has_said_ready && all_others(joining, true))) {
        const int64_t now = hlo_clock_nanoseconds();
        if (joining->unexplained && now >= joining->unexplained_until) {
            joining->failure = joining->unexplained;
            joining->unexplained = NULL;
            break;
        }
        if (now >= joining->deadline) {
            fail(joining, timeout_error(joining));
            break;
        }
        for (int64_t i = 0; i < joining->index && !joining->failure; i++) {
            const Other *other = &joining->others[i];
            if (!other->is_connected && !other->has_candidate && now >= other->retry_at) connect_to(joining, i);
        }
        struct pollfd *files = poll_all(joining);
        if (!files) break;
        size_t at = 1 + (size_t)joining->count;
        for (Candidate *one = joining->candidates; one && !joining->failure; one = one->next)
            advance(joining, one, files[at++].revents);
        for (int64_t i = 0; i < joining->count && !joining->failure; i++)
            if (joining->others[i].is_connected) hear_connected(joining, i);
        if (files[0].revents && !joining->failure) accept_strangers(joining);
        hlo_free(files);
        sweep(joining);
        say_ready(joining);
    }
}

// Tells everyone that this process does not join, so that they need not wait for it.
static void tell_failure(Joining *joining) {
    enum { kFarewell = 100000000, kMoment = 2000 };
    HloStatus error = transport_copy_error(joining->failure);
    error = hlo_status_annotate(error, "process %lld", (long long)joining->index);
    bool all_written = false;
    for (int64_t i = 0; i < joining->count; i++)
        if (joining->others[i].is_connected) joined_tell(&joining->joined->controls[i].link, error);
    for (Candidate *one = joining->candidates; one; one = one->next)
        if (one->step == kAwaitsIdentity) joined_tell(&one->link, error);
    for (const int64_t until = hlo_clock_nanoseconds() + kFarewell; !all_written && hlo_clock_nanoseconds() < until;) {
        all_written = true;
        for (int64_t i = 0; i < joining->count; i++)
            if (!link_flush(&joining->joined->controls[i].link)) all_written = false;
        if (!all_written) usleep(kMoment);
    }
    for (Candidate *one = joining->candidates; one; one = one->next) {
        link_flush(&one->link);
        link_read(&one->link);  // see refuse()
        one->is_over = true;
    }
    hlo_status_free(error);
}

// ---- addresses

static HloStatus store_error(HloStatus status, const char *what, int64_t process) {
    return hlo_status_annotate(status, "the address of process %lld cannot be %s the key-value store",
                               (long long)process, what);
}

static void store_key(int64_t process, char *key, size_t capacity) {
    snprintf(key, capacity, "meshlo/transport/%lld", (long long)process);
}

static HloStatus publish(const Joining *joining) {
    const TransportStore *store = joining->options->store;
    char key[64];
    store_key(joining->index, key, sizeof key);
    HloStatus status = store->put(store->context, key, joining->address_text, (int64_t)strlen(joining->address_text));
    return status ? store_error(status, "written to", joining->index) : HLO_SUCCESS;
}

static HloStatus look_up(Joining *joining, int64_t process) {
    const TransportStore *store = joining->options->store;
    Other *other = &joining->others[process];
    char key[64], *value = NULL;
    int64_t bytes = 0;
    store_key(process, key, sizeof key);
    const double left = (double)(joining->deadline - hlo_clock_nanoseconds()) * 1e-9;
    HloStatus status = store->get(store->context, key, left > 0.001 ? left : 0.001, &value, &bytes);
    if (status) return store_error(status, "read from", process);
    if (value && bytes > 0 && bytes < 280 && !memchr(value, 0, (size_t)bytes)) {
        other->from_store = hlo_allocate((size_t)bytes + 1);
        if (other->from_store) {
            memcpy(other->from_store, value, (size_t)bytes);
            other->from_store[bytes] = 0;
        }
    }
    hlo_free(value);
    HLO_FAIL_IF(!other->from_store, HLO_INVALID_ARGUMENT, "the key-value store has no address of process %lld",
                (long long)process);
    other->address_text = other->from_store;
    set_name(joining, process, other->address_text, 0);
    return HLO_SUCCESS;
}

// Another process is on this machine, or there is a secret and this process can be reached.
static HloStatus check_reach(const Joining *joining, int64_t process) {
    TransportAddress address;
    HloStatus status = transport_resolve(joining->others[process].address_text, false, &address);
    if (hlo_status_code(status) == HLO_INVALID_ARGUMENT) return status;
    const bool is_near = !status && address.is_loopback;
    hlo_status_free(status);
    HLO_FAIL_IF(is_near != joining->address.is_loopback, HLO_INVALID_ARGUMENT,
                "%s and %s cannot reach each other: one of the addresses is on the loopback interface of its machine",
                name_of(joining, joining->index), name_of(joining, process));
    return HLO_SUCCESS;
}

static HloStatus find_address(Joining *joining) {
    const TransportOptions *options = joining->options;
    const char *text = options->addresses ? options->addresses[joining->index] : NULL;
    HLO_FAIL_IF(!text && !options->store, HLO_INVALID_ARGUMENT, "process %lld has no address",
                (long long)joining->index);
    const bool is_found = options->store != NULL;
    if (!text) text = "127.0.0.1";
    HLO_FAIL_IF(strlen(text) >= 256, HLO_INVALID_ARGUMENT, "the address of process %lld is too long",
                (long long)joining->index);
    HLO_TRY(transport_resolve(text, is_found, &joining->address));
    snprintf(joining->address_text, sizeof joining->address_text, "%s", text);
    HLO_FAIL_IF(
        !joining->address.is_loopback && !joining->secret, HLO_FAILED_PRECONDITION,
        "process %lld would listen at %s, beyond this machine, without a secret by which the processes know each "
        "other",
        (long long)joining->index, text);
    for (int64_t i = 0; i < joining->count; i++) {
        joining->others[i].address_text = options->addresses ? options->addresses[i] : NULL;
        set_name(joining, i, joining->others[i].address_text, i == joining->index ? getpid() : 0);
    }
    return joining->failure;
}

static HloStatus find_others(Joining *joining) {
    const TransportOptions *options = joining->options;
    // With the port that the system has chosen, a numeric address is what others can use.
    if (options->store) {
        transport_print_address(&joining->address, joining->address_text, sizeof joining->address_text);
        set_name(joining, joining->index, joining->address_text, getpid());
        HLO_TRY(publish(joining));
    }
    for (int64_t i = 0; i < joining->count; i++) {
        if (i == joining->index) continue;
        if (!joining->others[i].address_text) {
            HLO_FAIL_IF(!options->store, HLO_INVALID_ARGUMENT, "process %lld has no address", (long long)i);
            if (i > joining->index) continue;  // it will connect to this one
            HLO_TRY(look_up(joining, i));
        }
        HLO_TRY(check_reach(joining, i));
    }
    return HLO_SUCCESS;
}

// ---- the whole

static HloStatus make_joined(Joining *joining) {
    Joined *joined = hlo_allocate_zeroed(1, sizeof *joined);
    if (!joined) return no_memory();
    joined->wake_file = -1;
    if (pthread_mutex_init(&joined->control_lock, NULL) != 0) {
        hlo_free(joined);
        return no_memory();
    }
    if (!transport_initialise(&joined->base, &joined_engine, joining->count, joining->index)) {
        pthread_mutex_destroy(&joined->control_lock);
        hlo_free(joined);
        return no_memory();
    }
    joining->joined = joined;
    const double seconds = joining->options->timeout_seconds;
    joined->timeout = (int64_t)((seconds > 0 ? seconds : TRANSPORT_DEFAULT_TIMEOUT_SECONDS) * 1e9);
    joined->controls = hlo_allocate_zeroed((size_t)joining->count, sizeof *joined->controls);
    joining->others = hlo_allocate_zeroed((size_t)joining->count, sizeof *joining->others);
    joined->wake_file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int64_t i = 0; i < joining->count && joined->controls; i++) joined->controls[i].link.file = -1;
    return joined->controls && joining->others && joined->wake_file >= 0 ? HLO_SUCCESS : no_memory();
}

static HloStatus open_messages(Joining *joining) {
    char *devices = NULL;
    if (!joining->address.is_loopback) HLO_TRY(transport_find_devices(&joining->address, &devices));
    const UcxOptions options = {.devices = devices, .is_good = joined_is_good};
    HloStatus status = ucx_open(&joining->joined->base, &options, &joining->joined->ucx);
    hlo_free(devices);
    if (status) return status;
    joining->joined->base.description = ucx_description(joining->joined->ucx);
    return joining->joined->base.description ? HLO_SUCCESS : no_memory();
}

static HloStatus join(Joining *joining) {
    HLO_TRY(make_joined(joining));
    joining->deadline = hlo_clock_nanoseconds() + joining->joined->timeout;
    if (joining->secret) HLO_TRY(transport_check_secrets());
    HLO_TRY(find_address(joining));
    listen_at_address(joining);
    if (joining->failure) return joining->failure;
    HLO_TRY(open_messages(joining));
    HLO_TRY(find_others(joining));
    join_all(joining);
    if (joining->failure) return joining->failure;
    const int64_t now = hlo_clock_nanoseconds();
    for (int64_t i = 0; i < joining->count; i++) atomic_store(&joining->joined->base.peers[i].last_seen, now);
    return joined_start(joining->joined);
}

HloStatus transport_join_processes(const TransportOptions *options, Transport **transport) {
    Joining joining = {.options = options,
                       .count = options->process_count,
                       .index = options->process_index,
                       .secret = options->secret && *options->secret ? options->secret : NULL,
                       .identity = options->identity ? options->identity : "",
                       .listener = -1};
    HLO_FAIL_IF(strlen(joining.identity) > kMostIdentityBytes, HLO_INVALID_ARGUMENT,
                "the identity of a process has more than %d bytes", kMostIdentityBytes);
    HloStatus status = join(&joining);
    if (status) joining.failure = status;
    if (status && joining.joined && joining.joined->controls && joining.others) tell_failure(&joining);
    sweep(&joining);
    if (joining.listener >= 0) close(joining.listener);
    for (int64_t i = 0; i < joining.count && joining.others; i++) hlo_free(joining.others[i].from_store);
    hlo_free(joining.others);
    hlo_status_free(joining.unexplained);
    if (status && joining.joined) joined_free(joining.joined);
    if (!status) *transport = &joining.joined->base;
    return status;
}

#else
typedef int JoinIsNotBuilt;  // C wants a declaration
#endif
