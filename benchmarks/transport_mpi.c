// SPDX-License-Identifier: Apache-2.0
// The measurement of transport.c with Open MPI. Needs libopenmpi-dev, which nothing else does: benchmarks/transport
// compiles it if mpicc is there.
#include <mpi.h>

#include "benchmarks/ping_pong.h"

static void *open_mpi(int rank) {
    (void)rank;
    return NULL;
}

static void send_mpi(void *state, int rank, const void *data, size_t bytes) {
    (void)state;
    MPI_Send(data, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
}

static void receive_mpi(void *state, int rank, void *data, size_t bytes) {
    (void)state;
    MPI_Recv(data, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void close_mpi(void *state) {
    (void)state;
}

int main(int count, char **arguments) {
    static const PingPong kWay = {open_mpi, send_mpi, receive_mpi, close_mpi};
    int rank;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ping_pong(count > 1 ? arguments[1] : "open-mpi", &kWay, rank);
    MPI_Finalize();
    return 0;
}
