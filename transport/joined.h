// SPDX-License-Identifier: Apache-2.0
// A transport between processes: messages by UCX, and a control connection over TCP between every two processes, on
// which a thread sends and watches heartbeats. Not a public header.
//
// Locks, in the order in which they may be taken: the lock of the messages (ucx.c), `control_lock`, the transport's
// `state_lock`.
#ifndef MESHLO_TRANSPORT_JOINED_H_
#define MESHLO_TRANSPORT_JOINED_H_

#include "transport/internal.h"
#include "transport/link.h"
#include "transport/ucx.h"

// What control connections carry.
typedef enum ControlKind {
    // While processes join (join.c).
    kHello = 1,
    kProof,
    kIdentity,
    kRefuse,
    kReady,
    // Always: the process has failed, with an int32_t code of HloCode and a text.
    kFail,
    // Afterwards (liveness.c).
    kBeat,    // a heartbeat, with the process's mark (int64_t) and activity
    kQuiet,   // after kFail: the process no longer touches the memory of others
    kGone,    // it leaves in order
    kProbe,   // a probe, with its number (int64_t)
    kAnswer,  // the answer to a probe, with its number
} ControlKind;

enum {
    kMostControlBytes = 65536,  // of a frame
    kMostActivityBytes = 4096,  // of an activity that travels; longer ones are shortened
    kMostFailureBytes = 16384,  // of an error that travels
};

// A control connection.
typedef struct Control {
    Link link;
    bool has_gone, is_quiet;             // it has said so
    bool has_told_gone, has_told_quiet;  // the messages know
    int64_t probe_sent;                  // the last probe that has been sent to it
    int64_t probe_received, probe_answered;
} Control;

typedef struct Joined {
    Transport base;
    Ucx *ucx;
    int64_t timeout;  // nanoseconds
    pthread_t thread;
    bool has_thread;
    int wake_file;  // wakes the thread
    _Atomic bool stop, activity_changed;
    pthread_mutex_t control_lock;  // protects all below
    Control *controls;             // by process
    HloStatus pending;             // a failure that was seen or reported, until the thread raises it
    TransportFailure pending_kind;
    int64_t failed_at;  // clock, 0: not
} Joined;

extern const TransportEngine joined_engine;

// Starts the thread.
HloStatus joined_start(Joined *joined);
// Frees everything; there is no thread.
void joined_free(Joined *joined);
// Reads what process `process` has said; false if it or this process has failed. For UcxOptions.
bool joined_is_good(Transport *transport, int64_t process);
// Queues and writes a failure on a link.
void joined_tell(Link *link, const struct HloError *error);
// Reads a failure from a frame.
HloStatus joined_told(const Frame *frame);
// Writes the time of day in UTC, "19:31:04 UTC".
void joined_time_of_day(char *text, size_t capacity);

#endif
