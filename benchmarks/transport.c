// SPDX-License-Identifier: Apache-2.0
// Latency and bandwidth between two processes of this machine, by every way that a transport could use: the transport
// over UCX (shared memory, and TCP as between machines), a plain copy through shared memory, and plain TCP as gloo uses
// it. transport_mpi.c measures Open MPI in the same way; benchmarks/transport runs both and prints one table.
//
//     meshlo_transport_benchmark [NAME…]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/ping_pong.h"
#include "transport/transport.h"

// ---- the transport

static void die(HloStatus status) {
    fprintf(stderr, "%s\n", hlo_status_message(status));
    exit(1);
}

static void *open_transport(int rank) {
    static const char *addresses[] = {"127.0.0.1:47611", "127.0.0.1:47612"};
    const TransportOptions options = {.process_count = 2, .process_index = rank, .addresses = addresses};
    Transport *transport;
    HloStatus status = transport_join(&options, &transport);
    if (status) die(status);
    return transport;
}

static void *open_ucx(int rank) {
    setenv("UCX_TLS", "posix,cma,self", 1);
    return open_transport(rank);
}

static void *open_ucx_tcp(int rank) {
    setenv("UCX_TLS", "tcp,self", 1);
    return open_transport(rank);
}

static void finish(HloStatus status, TransportRequest *request) {
    if (!status) status = transport_finish(request);
    if (status) die(status);
}

static void send_transport(void *state, int rank, const void *data, size_t bytes) {
    TransportRequest *request;
    HloStatus status = transport_send(state, 1 - rank, 0, data, (int64_t)bytes, &request);
    finish(status, request);
}

static void receive_transport(void *state, int rank, void *data, size_t bytes) {
    TransportRequest *request;
    HloStatus status = transport_receive(state, 1 - rank, 0, data, (int64_t)bytes, &request);
    finish(status, request);
}

static void close_transport(void *state) {
    transport_release(state);
}

// ---- a copy through shared memory: a ring of pieces in each direction, which both processes watch

enum { kPieces = 8, kPieceBytes = 64 << 10 };

typedef struct Ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) char pieces[kPieces][kPieceBytes];
} Ring;

static Ring *rings;  // [0] from rank 0 to rank 1

static void *open_copy(int rank) {
    (void)rank;
    return rings;
}

static void send_copy(void *state, int rank, const void *data, size_t bytes) {
    Ring *ring = (Ring *)state + rank;
    for (size_t at = 0; at < bytes; at += kPieceBytes) {
        const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
        while (written - atomic_load_explicit(&ring->read, memory_order_acquire) == kPieces) sched_yield();
        memcpy(ring->pieces[written % kPieces], (const char *)data + at,
               bytes - at < kPieceBytes ? bytes - at : kPieceBytes);
        atomic_store_explicit(&ring->written, written + 1, memory_order_release);
    }
}

static void receive_copy(void *state, int rank, void *data, size_t bytes) {
    Ring *ring = (Ring *)state + (1 - rank);
    for (size_t at = 0; at < bytes; at += kPieceBytes) {
        const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
        while (atomic_load_explicit(&ring->written, memory_order_acquire) == read) sched_yield();
        memcpy((char *)data + at, ring->pieces[read % kPieces], bytes - at < kPieceBytes ? bytes - at : kPieceBytes);
        atomic_store_explicit(&ring->read, read + 1, memory_order_release);
    }
}

static void close_nothing(void *state) {
    (void)state;
}

// ---- plain TCP

static int listener;

static void *open_tcp(int rank) {
    static int file;
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    const int on = 1;
    (void)getsockname(listener, (struct sockaddr *)&address, &bytes);
    if (rank == 0) {
        file = accept(listener, NULL, NULL);
    } else {
        file = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(file, (struct sockaddr *)&address, bytes) != 0) exit(1);
    }
    (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return &file;
}

static void send_tcp(void *state, int rank, const void *data, size_t bytes) {
    (void)rank;
    for (size_t at = 0; at < bytes;) {
        const ssize_t count = send(*(int *)state, (const char *)data + at, bytes - at, 0);
        if (count <= 0) exit(1);
        at += (size_t)count;
    }
}

static void receive_tcp(void *state, int rank, void *data, size_t bytes) {
    (void)rank;
    for (size_t at = 0; at < bytes;) {
        const ssize_t count = recv(*(int *)state, (char *)data + at, bytes - at, 0);
        if (count <= 0) exit(1);
        at += (size_t)count;
    }
}

// ---- the whole

static const struct {
    const char *name;
    PingPong functions;
} kWays[] = {
    {"transport", {open_ucx, send_transport, receive_transport, close_transport}},
    {"transport-tcp", {open_ucx_tcp, send_transport, receive_transport, close_transport}},
    {"copy", {open_copy, send_copy, receive_copy, close_nothing}},
    {"tcp", {open_tcp, send_tcp, receive_tcp, close_nothing}},
};

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1) != 0) return 1;
    rings = mmap(NULL, 2 * sizeof *rings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rings == MAP_FAILED) return 1;
    for (size_t i = 0; i < sizeof kWays / sizeof kWays[0]; i++) {
        bool is_wanted = count == 1;
        for (int j = 1; j < count; j++) is_wanted |= strcmp(arguments[j], kWays[i].name) == 0;
        if (!is_wanted) continue;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            ping_pong(kWays[i].name, &kWays[i].functions, 1);
            _exit(0);
        }
        ping_pong(kWays[i].name, &kWays[i].functions, 0);
        waitpid(child, NULL, 0);
    }
    return 0;
}
