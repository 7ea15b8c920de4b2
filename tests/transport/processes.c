// SPDX-License-Identifier: Apache-2.0
#include "processes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/memory.h"

int64_t exchange_rounds;

void prepare_processes(Processes *processes, int64_t count, ProcessBody *body) {
    int sockets[kMaximumCount];
    *processes = (Processes){.count = count, .body = body};
    for (int64_t i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t bytes = sizeof address;
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_eq(bind(sockets[i], (struct sockaddr *)&address, bytes), 0);
        cr_assert_eq(getsockname(sockets[i], (struct sockaddr *)&address, &bytes), 0);
        snprintf(processes->ports[i], sizeof processes->ports[i], "127.0.0.1:%d", ntohs(address.sin_port));
        processes->addresses[i] = processes->ports[i];
    }
    for (int64_t i = 0; i < count; i++) close(sockets[i]);
    processes->options = (TransportOptions){.process_count = count, .timeout_seconds = 10};
}

// The life of a process: everything that it prints goes to the pipe too, where it is an error.
static void live(Processes *processes, int64_t index, int pipe_end) {
    Transport *transport = NULL;
    TransportOptions options = processes->options;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    options.process_index = index;
    options.addresses = processes->addresses;
    if (processes->prepare) processes->prepare(&options);
    dup2(pipe_end, STDOUT_FILENO);
    dup2(pipe_end, STDERR_FILENO);
    HloStatus status = transport_join(&options, &transport);
    if (!status) {
        dprintf(pipe_end, "joined\n");
        status = processes->body(transport);
        if (!processes->body_releases) transport_release(transport);
    }
    if (status) dprintf(pipe_end, "%s %s\n", hlo_code_name(hlo_status_code(status)), hlo_status_message(status));
    hlo_status_free(status);
    fflush(NULL);
    _exit(0);
}

void start_process(Processes *processes, int64_t index) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        close(ends[0]);
        live(processes, index, ends[1]);
    }
    close(ends[1]);
    processes->pids[index] = pid;
    processes->pipes[index] = ends[0];
    processes->reports[index][0] = 0;
}

void start_processes(Processes *processes) {
    for (int64_t i = 0; i < processes->count; i++) start_process(processes, i);
}

// Reads more of the report; false at its end.
static bool read_report(Processes *processes, int64_t index, int64_t until) {
    char *report = processes->reports[index];
    const size_t length = strlen(report);
    struct pollfd file = {.fd = processes->pipes[index], .events = POLLIN};
    const int64_t left = (until - hlo_clock_nanoseconds()) / 1000000;
    cr_assert(left > 0 && poll(&file, 1, (int)left) == 1, "process %lld does not end: '%s'", (long long)index, report);
    const ssize_t count = read(file.fd, report + length, sizeof processes->reports[index] - 1 - length);
    report[length + (size_t)(count > 0 ? count : 0)] = 0;
    return count > 0;
}

void await_joined(Processes *processes, int64_t index) {
    const int64_t until = hlo_clock_nanoseconds() + 20000000000;
    while (!strchr(processes->reports[index], '\n') && read_report(processes, index, until)) {
    }
    cr_assert_eq(strncmp(processes->reports[index], "joined\n", 7), 0, "process %lld: %s", (long long)index,
                 processes->reports[index]);
}

const char *await_report(Processes *processes, int64_t index, double seconds) {
    const int64_t until = hlo_clock_nanoseconds() + (int64_t)(seconds * 1e9);
    while (read_report(processes, index, until)) {
    }
    int result = -1;
    close(processes->pipes[index]);
    cr_assert_eq(waitpid(processes->pids[index], &result, 0), processes->pids[index]);
    cr_assert_eq(result, 0, "process %lld ended with %x: %s", (long long)index, (unsigned)result,
                 processes->reports[index]);
    const char *report = processes->reports[index];
    if (strncmp(report, "joined\n", 7) == 0) report += 7;
    cr_assert(!strchr(report, '\n') || !strchr(report, '\n')[1], "process %lld printed: %s", (long long)index, report);
    return report;
}

void expect_report(Processes *processes, int64_t index, double seconds, const char *code, const char *part) {
    const char *report = await_report(processes, index, seconds);
    cr_expect(strncmp(report, code, strlen(code)) == 0 && strstr(report, part),
              "process %lld: '%s' is not %s with '%s'", (long long)index, report, code, part);
}

void kill_process(Processes *processes, int64_t index) {
    kill(processes->pids[index], SIGKILL);
    waitpid(processes->pids[index], NULL, 0);
    close(processes->pipes[index]);
}

// The size of the message from one process to another in a round: mostly small, some large.
static int64_t size_of(uint64_t seed) {
    seed = seed * 2862933555777941757u + 3037000493u;
    return (int64_t)((seed >> 33) % (seed % 7 == 0 ? 700000 : 5000));
}

// Starts to send and receive all messages of a round.
static HloStatus exchange_round(Transport *transport, int64_t round) {
    const int64_t count = transport_process_count(transport), own = transport_process_index(transport);
    TransportRequest *requests[2 * kMaximumCount] = {NULL};
    char *data[2 * kMaximumCount] = {NULL};
    HloStatus status = HLO_SUCCESS;
    for (int64_t i = 0; i < 2 * count; i++) {
        const int64_t other = i / 2,
                      bytes = size_of((uint64_t)(round * 64 + (i % 2 ? other * 8 + own : own * 8 + other)));
        if (other == own || status) continue;
        data[i] = hlo_allocate((size_t)bytes);
        if (i % 2) {
            status = transport_receive(transport, other, 1, data[i], bytes, &requests[i]);
        } else {
            fill(data[i], bytes, (uint64_t)(round * 64 + own * 8 + other));
            status = transport_send(transport, other, 1, data[i], bytes, &requests[i]);
        }
    }
    for (int64_t i = 0; i < 2 * count; i++) {
        if (!requests[i]) continue;
        HloStatus error = transport_finish(requests[i]);
        const uint64_t seed = (uint64_t)(round * 64 + i / 2 * 8 + own);
        if (!error && i % 2 && !is_filled(data[i], size_of(seed), seed))
            error = hlo_error(HLO_DATA_LOSS, "round %lld: a message of process %lld is wrong", (long long)round,
                              (long long)i / 2);
        if (!status) {
            status = error;
        } else {
            hlo_status_free(error);
        }
    }
    for (int64_t i = 0; i < 2 * count; i++) {
        // Memory that others may still read must not change until the requests are done.
        if (data[i] && i / 2 != own)
            memset(data[i], 0xee,
                   (size_t)size_of((uint64_t)(round * 64 + (i % 2 ? i / 2 * 8 + own : own * 8 + i / 2))));
        hlo_free(data[i]);
    }
    return status;
}

HloStatus exchange_body(Transport *transport) {
    HloStatus status = HLO_SUCCESS;
    for (int64_t round = 0; !status && (exchange_rounds == 0 || round < exchange_rounds); round++) {
        transport_set_activity(transport, "exchanges random messages", 0);
        status = exchange_round(transport, round);
    }
    return status;
}
