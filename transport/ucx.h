// SPDX-License-Identifier: Apache-2.0
// The messages of a joined transport, over UCX. Not a public header.
//
// Matching is done here: UCX delivers small messages, of any tag, to one handler in the order of their sends. A message
// of up to kEagerBytes travels with its header. A larger one is offered by its header only; when its receive is there,
// the receiver posts it to UCX under the number of the offer and accepts, and UCX moves the data between the two
// buffers (through shared memory the receiver copies them out of the sender's memory). So a send that no one has
// accepted is not known to UCX and can be withdrawn, which UCX's own sends cannot.
//
// Memory and failure. UCX completes sends of a dead or stopped receiver when their endpoints are closed by force. But a
// receiver that lives may still copy from a sender which has given up. Therefore (1) a process that fails stops its
// receives before it says that it is quiet, (2) the memory of sends that were being copied is given back only when the
// receiver is quiet, dead, or has been silent for the timeout, and (3) a large message counts as received only when the
// control connection of the sender, which is read after the copy, has no failure on it: a process that is continued
// after a stop sees there that the sender has given up.
#ifndef MESHLO_TRANSPORT_UCX_H_
#define MESHLO_TRANSPORT_UCX_H_

#include "transport/internal.h"

typedef struct Ucx Ucx;

enum {
    UCX_REQUEST_BYTES = 192,  // of TransportEngine
    UCX_GRACE = 500000000,    // nanoseconds that an error of UCX waits for a failure that explains it
};

// What the messages need of the control connections.
typedef struct UcxOptions {
    // Network devices of UCX ("eth0,mlx5_0:1") through which other machines are reached; NULL: all processes are on
    // this one, and only shared memory is used.
    const char *devices;
    // Reads what `process` has said on its control connection; false if it, or this process, has failed. Called with
    // the lock of the messages held.
    bool (*is_good)(Transport *transport, int64_t process);
} UcxOptions;

// Opens UCX for the processes of `transport`, none of which is connected.
HloStatus ucx_open(Transport *transport, const UcxOptions *options, Ucx **result);
// The address by which others reach this process. Lives as long as `ucx`.
const void *ucx_address(const Ucx *ucx, size_t *bytes);
// The version of the library and what it uses, to be freed with hlo_free().
char *ucx_description(const Ucx *ucx);
// Connects to the process with this address, which was sent by it. Does not communicate.
HloStatus ucx_connect(Ucx *ucx, int64_t process, const void *address);
// Frees it; accepts NULL. Nothing is pending.
void ucx_free(Ucx *ucx);

// The functions of TransportEngine.
HloStatus ucx_start(Ucx *ucx, TransportRequest *request);
void ucx_cancel(Ucx *ucx, TransportRequest *request);
void ucx_discard(Ucx *ucx, int64_t from, uint64_t tag, uint64_t mask);
bool ucx_progress(Ucx *ucx);
void ucx_wait(Ucx *ucx, int64_t seen, int64_t nanoseconds);
void ucx_wake(Ucx *ucx);

// Ends all requests with the transport's error. When it returns, no receive of this process touches the memory of
// another one any more.
void ucx_fail(Ucx *ucx);
// After a failure: process `process` does not touch the memory of this one any more.
void ucx_note_quiet(Ucx *ucx, int64_t process);
// The process has said that it leaves: it takes no more messages.
void ucx_note_leaving(Ucx *ucx, int64_t process);
// Tells the others that no messages follow; returns when all that was sent is on its way, or at `until`, a time of the
// clock.
void ucx_leave(Ucx *ucx, int64_t until);
// An error of UCX that no failure of a process has explained in half a second, or NULL.
HloStatus ucx_unexplained_error(Ucx *ucx);

#endif
