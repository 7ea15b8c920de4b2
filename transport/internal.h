// SPDX-License-Identifier: Apache-2.0
// What the engines of transport/ share: the parts of a transport and of a request that transport.c looks after. Not a
// public header.
//
// Locks. Each engine has its own lock for its messages. `state_lock` below protects the error and the activities; it is
// taken last, and nothing is called while it is held.
#ifndef MESHLO_TRANSPORT_INTERNAL_H_
#define MESHLO_TRANSPORT_INTERNAL_H_

#include <pthread.h>
#include <stdatomic.h>

#include "hlo/base/memory.h"
#include "transport/transport.h"

typedef enum TransportFailure {
    kTransportOwnFailure,   // the caller of this process has aborted: the others' errors name this process
    kTransportSeenFailure,  // this process has seen that another one failed, or found an error in what it sent
    kTransportToldFailure,  // another process has reported it to all
} TransportFailure;

// What an engine implements. The functions of transport.c have checked the arguments and that the transport works.
typedef struct TransportEngine {
    size_t request_bytes;  // of its requests, which begin with a TransportRequest
    // Starts a transfer; may complete it at once.
    HloStatus (*start)(Transport *transport, TransportRequest *request);
    // Makes a request done, unless it is; returns when its memory is no longer touched.
    void (*cancel)(Transport *transport, TransportRequest *request);
    // As transport_discard().
    void (*discard)(Transport *transport, int64_t from, uint64_t tag, uint64_t mask);
    // As transport_progress().
    bool (*progress)(Transport *transport);
    // As transport_wait(), after `seen` has been compared once.
    void (*wait)(Transport *transport, int64_t seen, int64_t nanoseconds);
    // Makes waiting threads return.
    void (*wake)(Transport *transport);
    // Called once, after `error` has been set, from the thread that set it: tells the other processes the error, unless
    // one of them has reported it, and makes pending requests done, now or later.
    void (*fail)(Transport *transport, TransportFailure failure);
    // Tells the other processes an activity that has changed, or leaves that to the next heartbeat. May be NULL.
    void (*tell_activity)(Transport *transport);
    // Asks the other processes for an answer to a probe; transport_note_answer() notes the answers.
    void (*probe)(Transport *transport, int64_t probe);
    // Leaves and frees what the engine owns, the transport itself too.
    void (*release)(Transport *transport);
    // The same in a child of the process that created the transport: must not touch what the parent still uses.
    void (*abandon)(Transport *transport);
    // Called in a child when it has been forked off; may only close files. May be NULL.
    void (*forked)(Transport *transport);
} TransportEngine;

// Messages to drop: those whose tag, masked, is `tag`.
typedef struct TransportRule {
    uint64_t tag, mask;
} TransportRule;

// The known facts about a process.
typedef struct TransportPeer {
    char *name;                 // for messages; never NULL
    char *activity;             // NULL: none
    TransportRule *rules;       // TRANSPORT_DISCARD_RULES of them once there is one; under the engine's lock
    int64_t rule_count;         // ever made: the latest overwrite the oldest
    _Atomic int64_t last_seen;  // clock of the last sign of life
    _Atomic int64_t mark;       // transport_mark()
    _Atomic int64_t answered;   // the latest probe of this process that it has answered
    _Atomic bool has_left;      // it has released its transport
} TransportPeer;

// The beginning of every engine's transport.
struct Transport {
    const TransportEngine *engine;
    int64_t process_count, process_index;
    char *description;
    TransportPeer *peers;
    int64_t fork_count;      // differs in a child of the process that created it
    _Atomic int64_t events;  // transport_events()
    _Atomic int64_t probes;  // sent so far
    pthread_mutex_t state_lock;
    HloStatus error;          // once set, never changed
    _Atomic bool has_failed;  // `error` is set
    Transport *next;          // of all transports of this process
};

typedef enum TransportRequestState {
    kTransportPending,
    kTransportCompleting,  // one thread has taken it upon itself to complete the request
    kTransportDone,
} TransportRequestState;

struct TransportRequest {
    Transport *transport;
    int64_t process;  // the receiver of a send, the sender of a receive
    uint64_t tag;
    char *data;
    int64_t bytes;
    bool is_send;
    _Atomic int state;  // TransportRequestState
    HloStatus status;   // constant once done
    // The engine's.
    TransportRequest *previous, *next;  // a list of pending requests
};

// Initialises the common part for `count` processes without names; false when memory is short (nothing is left to
// free).
bool transport_initialise(Transport *transport, const TransportEngine *engine, int64_t count, int64_t index);
// Frees the common part.
void transport_finalise(Transport *transport);
// Returns a copy of an error; NULL for NULL.
HloStatus transport_copy_error(const struct HloError *error);
// Makes a request done, unless it is: takes ownership of `status`. Returns false if it was done, or is being completed
// by another thread. The request may be freed by its owner as soon as this function has begun to return.
bool transport_complete(TransportRequest *request, HloStatus status);
// Notes a rule of transport_discard(). False when memory is short. The caller holds the engine's lock.
bool transport_note_rule(Transport *transport, int64_t from, uint64_t tag, uint64_t mask);
// True if a rule drops messages of `from` with this tag. The caller holds the engine's lock.
bool transport_drops(const Transport *transport, int64_t from, uint64_t tag);
// Counts an event and wakes waiting threads.
void transport_count_event(Transport *transport);
// Ends the transport with `error`, of which it takes ownership. The first failure counts, others are dropped.
void transport_fail(Transport *transport, HloStatus error, TransportFailure failure);
// The error of requests with a process that has left.
HloStatus transport_left_error(const Transport *transport, int64_t process);
// The error when a message of `process` has another size than its receive.
HloStatus transport_size_error(const Transport *transport, int64_t process, int64_t sent, int64_t expected);
// Stores the activity of a process (NULL or "": none) and its mark.
void transport_note_activity(Transport *transport, int64_t process, const char *text, size_t length, int64_t mark);
// Notes that a process has answered a probe.
void transport_note_answer(Transport *transport, int64_t process, int64_t probe);
// For tests: while an in-process transport is mute it answers no probe, like a process that is stopped; it answers the
// last one afterwards.
void transport_in_process_mute(Transport *transport, bool is_mute);
// transport_join() with checked options and more than one process.
HloStatus transport_join_processes(const TransportOptions *options, Transport **transport);
// True in a child of the process that created the transport.
bool transport_is_forked(const Transport *transport);

#endif
