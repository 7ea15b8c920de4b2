// SPDX-License-Identifier: Apache-2.0
// Messages between the processes that are the hosts of one machine. The public header of transport/, which is above
// hlo/base only and knows nothing of programs.
//
// A transport connects `process_count` processes, numbered from 0. A message is matched by its sender and its tag;
// messages with the same sender and tag arrive in the order in which they were sent. Two engines move messages: UCX
// (through shared memory within a machine, by TCP or RDMA between machines), and an in-process one for embedding and
// for tests, where several clients of one process play the hosts.
//
//     Transport *transport;
//     TransportRequest *request;
//     HLO_TRY(transport_join(&options, &transport));
//     HLO_TRY(transport_receive(transport, 0, tag, data, bytes, &request));
//     HLO_TRY(transport_finish(request));  // waits, frees the request, and returns its error
//
// or, for a thread that has other work too:
//
//     const int64_t seen = transport_events(transport);
//     while (transport_progress(transport)) {}
//     if (transport_request_is_done(request, &status)) ...
//     ... else, with nothing else to do:
//     transport_wait(transport, seen, 1000000);
//
// Terms:
//   process      a host of the machine: a program that has joined the transport, with its number.
//   engine       the way in which messages move: UCX between processes, or a hub within one (internal.h).
//   request      one send or receive under way. It is done, with success or an error, before its memory is reused.
//   event        anything that may have changed a request; events are counted, so that a thread can wait for the next.
//   control      the TCP connection between two processes, for joining, heartbeats, probes and errors (joined.h).
//   activity     the text that a process gives of what it does, for the messages of the others.
//   probe        a question to a process whether it still waits: a deadlock counts only while all answer.
//
// Rules that apply to all functions here:
// - Threads. Every function may be called from any thread, also concurrently, except that a request and a transport are
//   freed once, with no other call on them running. Messages move only while some thread calls transport_progress()
//   or transport_finish(). Liveness does not depend on this: a thread of the transport, which transport_join() starts,
//   sends and watches heartbeats.
// - Failure. A process that dies, that stops answering or that aborts ends the transport for all others: pending and
//   later requests fail with one error, which names the process, what happened and when. There is no recovery: the
//   processes must be started again (and what UCX has in a process whose transport failed is freed at its end). A
//   process that leaves in order (transport_release()) fails only the requests that it would have had to answer.
// - fork(). The child has no transport: its calls return FAILED_PRECONDITION, and transport_release() frees what it
//   can. The parent is not affected.
// - Environment. Nothing is printed, no signal handler stays installed and no environment variable is changed.
//
// Stability: experimental.
#ifndef MESHLO_TRANSPORT_TRANSPORT_H_
#define MESHLO_TRANSPORT_TRANSPORT_H_

#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/status.h"

HLO_BEGIN_C

typedef struct Transport Transport;
typedef struct TransportRequest TransportRequest;

enum {
    TRANSPORT_TAG_BITS = 48,                 // tags are the caller's: 0 <= tag < 2^48
    TRANSPORT_MAXIMUM_PROCESSES = 1 << 15,   // the sender's number and one bit of the transport's own fill 64 bits
    TRANSPORT_DISCARD_RULES = 64,            // see transport_discard()
    TRANSPORT_DEFAULT_TIMEOUT_SECONDS = 10,  // for joining, and for the silence after which a process counts as stopped
};

// ---- who takes part

// The number of processes.
HLO_EXPORT int64_t transport_process_count(const Transport *transport);
// The number of this process, from 0.
HLO_EXPORT int64_t transport_process_index(const Transport *transport);
// The engine, for people: "UCX 1.13.1 (posix, cma)", "in-process". Lives as long as `transport`.
HLO_EXPORT const char *transport_description(const Transport *transport);
// The name of a process in messages: "process 2 (host-2:8476, pid 4711)". Lives as long as `transport`.
HLO_EXPORT const char *transport_process_name(const Transport *transport, int64_t process);

// ---- messages

// Starts sending `bytes` bytes at `data` to process `to`, another process than this one. `data` must stay valid and
// unchanged until the request is done, which may be only after the receiver has asked for the message. `data` may be
// NULL if `bytes` is 0. On success sets *request, which the caller frees; on error (the transport has ended, the
// process has left, no memory) sets it to NULL.
HLO_EXPORT HLO_NODISCARD HloStatus transport_send(Transport *transport, int64_t to, uint64_t tag, const void *data,
                                                  int64_t bytes, TransportRequest **request);
// Starts receiving a message from process `from`, another process than this one, into the `bytes` bytes at `data`,
// which are undefined until the request is done. A message of another size ends the transport with INTERNAL, naming
// both sizes. As transport_send() otherwise.
HLO_EXPORT HLO_NODISCARD HloStatus transport_receive(Transport *transport, int64_t from, uint64_t tag, void *data,
                                                     int64_t bytes, TransportRequest **request);
// Returns true when the transfer is over and its memory is the caller's again, and sets *status to its error or NULL;
// the caller owns that copy. `status` may be NULL. Does not move messages.
HLO_EXPORT bool transport_request_is_done(TransportRequest *request, HloStatus *status);
// Waits for the request, moving messages; frees it and returns its error.
HLO_EXPORT HLO_NODISCARD HloStatus transport_finish(TransportRequest *request);
// Frees a request; accepts NULL. One that is not done is cancelled first, which does not wait for the other process
// unless the message is on its way: a message that arrives for a cancelled receive later goes to the next receive with
// the same sender and tag, and the message of a cancelled send may arrive or not. Returns when the memory is no longer
// touched.
HLO_EXPORT void transport_request_free(TransportRequest *request);
// Drops messages that no one will receive: from now on those of process `from` for which (tag & mask) == `tag`, and
// those that have arrived already, unless a receive is pending for them; their sends are done as if they had been
// received. Of the rules for a process the last TRANSPORT_DISCARD_RULES are in force.
HLO_EXPORT void transport_discard(Transport *transport, int64_t from, uint64_t tag, uint64_t mask);

// Moves messages, without blocking. Returns true if any request became done.
HLO_EXPORT bool transport_progress(Transport *transport);
// A number that rises whenever a request becomes done, the transport fails or transport_wake() is called. Pass the
// number from before a look at requests to transport_wait(), which then misses nothing that other threads do.
HLO_EXPORT int64_t transport_events(const Transport *transport);
// Blocks until there may be something to progress (a message has arrived, another thread has started a transfer), until
// transport_events() differs from `seen`, or for `nanoseconds`. May return early. Several threads may wait.
HLO_EXPORT void transport_wait(Transport *transport, int64_t seen, int64_t nanoseconds);
// Makes threads in transport_wait() return: for a thread that has made other work for them.
HLO_EXPORT void transport_wake(Transport *transport);

// ---- liveness and failure

// Says what this process does, for messages of the others: "waits at all-reduce %psum.3 of jit_step (launch 17)". NULL
// or "": it is in no collective. The text is copied; it travels with the heartbeats, and soon after it changes. Cheap
// enough for every wait. Without memory for the copy the activity becomes unknown. `mark` is a number of the caller's
// that travels with the text: the text is for people, and programs decide by the mark.
HLO_EXPORT void transport_set_activity(Transport *transport, const char *text, int64_t mark);
// Returns the last known mark of a process; 0 before it has set one.
HLO_EXPORT int64_t transport_mark(const Transport *transport, int64_t process);
// Asks all other processes for a sign of life. Returns the number of the probe; numbers rise from 1. The answer does
// not depend on what a process computes or waits for: one that does not answer is stopped, out of reach, or gets no
// processor.
HLO_EXPORT int64_t transport_probe(Transport *transport);
// Returns true if the process has answered this probe or a later one, or has left in order.
HLO_EXPORT bool transport_has_answered(const Transport *transport, int64_t process, int64_t probe);
// Returns the last known activity of a process, "" if there is none, to be freed with hlo_free(); NULL when memory is
// short. Sets *age_seconds, unless NULL, to the time since its last sign of life.
HLO_EXPORT char *transport_activity(Transport *transport, int64_t process, double *age_seconds);
// Returns a copy of the error that ended the transport, or NULL.
HLO_EXPORT HloStatus transport_error(Transport *transport);
// Ends the transport for all processes because of an error of this one (mismatched programs, …): all fail with it, the
// others with the name of this process before it. Takes ownership of `error`. Only the first failure counts.
HLO_EXPORT void transport_abort(Transport *transport, HloStatus error);
// Leaves in order and frees the transport; accepts NULL. All its requests must have been freed. Waits until all
// processes have left, the transport has failed or the timeout has passed: until then the others may still need this
// process to pass their messages on. In-process transports do not wait.
HLO_EXPORT void transport_release(Transport *transport);

// ---- joining

// A key-value store that all processes share, for instance that of jax.distributed (PJRT's key-value callbacks).
typedef struct TransportStore {
    // Stores a value, which is copied, under a key that has none.
    HloStatus (*put)(void *context, const char *key, const char *value, int64_t bytes);
    // Waits until the key has a value and sets *value to a copy, which the caller frees with hlo_free(), and *bytes.
    HloStatus (*get)(void *context, const char *key, double timeout_seconds, char **value, int64_t *bytes);
    void *context;
} TransportStore;

typedef struct TransportOptions {
    int64_t process_count;  // 1 to TRANSPORT_MAXIMUM_PROCESSES
    int64_t process_index;  // this process, 0 <= process_index < process_count
    // "host:port" of each process ("[address]:port" for IPv6): this process listens at its own and connects to those of
    // lower numbers. With `store` it may be NULL (all processes are on this machine and listen on its loopback
    // interface, at ports that the system chooses), or have an entry for this process only ("host" or "host:port").
    const char *const *addresses;
    const TransportStore *store;  // where the processes publish their addresses, or NULL
    // A secret that all processes share, with which they authenticate each other. Required unless all addresses are on
    // the loopback interface. NULL or "": none.
    const char *secret;
    // A text that must be equal in all processes (topology, versions, …), or NULL; an error names the differences.
    const char *identity;
    double timeout_seconds;  // for joining and for silence; 0 for the default
} TransportOptions;

// Connects this process with the others; returns when all of them are connected. On failure (an address that does not
// answer or is in use, a process that is missing or has another identity or secret, a build without UCX) the error
// names the process and its address, no later than the timeout, and nothing stays open.
HLO_EXPORT HLO_NODISCARD HloStatus transport_join(const TransportOptions *options, Transport **transport);
// Creates `count` connected transports in this process: list[i] is that of process i, and each is released by itself.
// They start no thread. 1 <= count <= TRANSPORT_MAXIMUM_PROCESSES. RESOURCE_EXHAUSTED when memory is short.
HLO_EXPORT HLO_NODISCARD HloStatus transport_in_process(int64_t count, Transport **list);

HLO_END_C

#endif
