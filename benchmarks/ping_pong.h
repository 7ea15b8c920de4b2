// SPDX-License-Identifier: Apache-2.0
// A message goes to the other process and back: the measurement that benchmarks/transport.c and transport_mpi.c share.
#ifndef MESHLO_BENCHMARKS_PING_PONG_H_
#define MESHLO_BENCHMARKS_PING_PONG_H_

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A way to move messages between ranks 0 and 1. `send` and `receive` return when the data may be used again.
typedef struct PingPong {
    void *(*open)(int rank);
    void (*send)(void *state, int rank, const void *data, size_t bytes);
    void (*receive)(void *state, int rank, void *data, size_t bytes);
    void (*close)(void *state);
} PingPong;

static double ping_pong_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Half of the shortest mean time of a round trip, over several batches: what a busy machine disturbs least.
static double ping_pong_time(const PingPong *way, void *state, int rank, char *data, size_t bytes, int trips,
                             int batches) {
    double best = 1e9;
    for (int batch = 0; batch < batches; batch++) {
        const double began = ping_pong_seconds();
        for (int i = 0; i < trips; i++) {
            if (rank == 0) way->send(state, rank, data, bytes);
            way->receive(state, rank, data, bytes);
            if (rank == 1) way->send(state, rank, data, bytes);
        }
        const double took = (ping_pong_seconds() - began) / trips / 2;
        if (took < best) best = took;
    }
    return best;
}

// Measures and, as rank 0, prints a row: the time of 8 bytes in us, and bandwidths in GB/s of 64 KiB, 1 MiB and 64 MiB.
static void ping_pong(const char *name, const PingPong *way, int rank) {
    const size_t largest = 64 << 20;
    char *data = malloc(largest);
    if (!data) exit(1);
    memset(data, rank, largest);
    void *state = way->open(rank);
    const double small = ping_pong_time(way, state, rank, data, 8, 300, 100);
    const double medium = ping_pong_time(way, state, rank, data, 64 << 10, 20, 60);
    const double large = ping_pong_time(way, state, rank, data, 1 << 20, 5, 40);
    const double huge = ping_pong_time(way, state, rank, data, largest, 1, 10);
    way->close(state);
    if (rank == 0)
        printf("%-16s %10.2f %10.2f %10.2f %10.2f\n", name, small * 1e6, 65536 / medium * 1e-9, 1048576 / large * 1e-9,
               (double)largest / huge * 1e-9);
    free(data);
}

#endif
