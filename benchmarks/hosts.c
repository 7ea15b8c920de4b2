// SPDX-License-Identifier: Apache-2.0
// Collectives between processes of this machine: usage: meshlo_host_benchmarks [PROCESSES [MEBIBYTES]]. Each process
// has one device. Prints, by process 0: microseconds of an all-reduce of 8 bytes, one at a time and with many in
// flight, and GB/s of a large one (bytes of the operand a second) beside a plain message of that size.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/text.h"
#include "hlo/text/text.h"
#include "targets/client.h"

enum { kMostProcesses = 64, kWarmUp = 100, kSmallRounds = 2000, kLargeRounds = 10 };

static void check(HloStatus status) {
    if (!status) return;
    fprintf(stderr, "%s\n", hlo_status_message(status));
    _exit(1);
}

// Finds free ports on the loopback interface.
static void choose_addresses(int64_t count, char (*texts)[32], const char **addresses) {
    int sockets[kMostProcesses];
    for (int64_t i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t bytes = sizeof address;
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(sockets[i], (struct sockaddr *)&address, bytes) ||
            getsockname(sockets[i], (struct sockaddr *)&address, &bytes)) {
            perror("bind");
            exit(1);
        }
        snprintf(texts[i], sizeof *texts, "127.0.0.1:%d", ntohs(address.sin_port));
        addresses[i] = texts[i];
    }
    for (int64_t i = 0; i < count; i++) close(sockets[i]);
}

static TargetExecutable *compile_sum(TargetClient *client, int64_t elements) {
    const int64_t devices = target_client_device_count(client);
    HloText text = {0};
    hlo_text_format(&text,
                    "HloModule sum, replica_count=%lld\n"
                    "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
                    "ENTRY e { x = f32[%lld] parameter(0)\n"
                    " ROOT r = f32[%lld] all-reduce(x), replica_groups={}, to_apply=add }",
                    (long long)devices, (long long)elements, (long long)elements);
    HloModule *module;
    TargetExecutable *executable;
    check(hlo_parse(text.data, text.length, NULL, &module));
    check(target_compile(client, module, NULL, &executable));
    hlo_module_free(module);
    hlo_text_free(&text);
    return executable;
}

// Launches on the own device, whose number is the process's.
static TargetBuffer *launch(TargetExecutable *executable, int64_t place, TargetBuffer *argument) {
    TargetBuffer *result, **results[kMostProcesses] = {0}, *const * arguments[kMostProcesses] = {0};
    arguments[place] = &argument;
    results[place] = &result;
    check(target_execute(executable, NULL, arguments, 1, results, NULL));
    return result;
}

static void await(TargetBuffer *buffer) {
    const void *data;
    check(target_buffer_data(buffer, &data));
    target_buffer_release(buffer);
}

// Seconds a round, `in_flight` at a time.
static double measure(TargetClient *client, int64_t elements, int rounds, int in_flight) {
    const int64_t place = target_client_process_index(client);
    TargetExecutable *executable = compile_sum(client, elements);
    TargetBuffer *argument, *results[64];
    check(target_buffer_uninitialized(target_executable_argument_shape(executable, 0),
                                      target_device_default_memory(target_client_device(client, place)), &argument));
    int64_t begin = 0;
    const int warm_up = rounds > kWarmUp ? kWarmUp : 2;
    for (int i = -warm_up; i < rounds; i += in_flight) {
        if (i <= 0) begin = hlo_clock_nanoseconds();
        for (int k = 0; k < in_flight; k++) results[k] = launch(executable, place, argument);
        for (int k = 0; k < in_flight; k++) await(results[k]);
    }
    const double seconds = (double)(hlo_clock_nanoseconds() - begin) / 1e9 / rounds;
    target_buffer_release(argument);
    target_executable_release(executable);
    return seconds;
}

// Seconds of a message from process 0 to 1; the others do nothing.
static double measure_message(Transport *transport, int64_t bytes) {
    const int64_t process = transport_process_index(transport);
    int64_t begin = 0;
    if (process > 1) return 0;
    char *data = malloc((size_t)bytes);
    memset(data, 1, (size_t)bytes);
    for (int i = -2; i < kLargeRounds; i++) {
        TransportRequest *request;
        char ready = 0;
        if (i == 0) begin = hlo_clock_nanoseconds();
        check(process ? transport_receive(transport, 0, 3, data, bytes, &request)
                      : transport_send(transport, 1, 3, data, bytes, &request));
        check(transport_finish(request));
        check(process ? transport_send(transport, 0, 4, &ready, 1, &request)
                      : transport_receive(transport, 1, 4, &ready, 1, &request));
        check(transport_finish(request));
    }
    free(data);
    return (double)(hlo_clock_nanoseconds() - begin) / 1e9 / kLargeRounds;
}

static void run_process(int64_t count, int64_t index, const char *const *addresses, int64_t bytes) {
    const TransportOptions options = {.process_count = count, .process_index = index, .addresses = addresses};
    Transport *transport;
    TargetClient *client;
    char spec[32];
    int64_t processes[kMostProcesses];
    for (int64_t i = 0; i < count; i++) processes[i] = i;
    snprintf(spec, sizeof spec, "cpu:%d", (int)count);
    check(transport_join(&options, &transport));
    const double message = measure_message(transport, bytes);
    check(target_client_new(spec, &client));
    check(target_client_connect(client, transport, &(TargetConnectOptions){.process_indices = processes}));
    const double small = measure(client, 2, kSmallRounds, 1), many = measure(client, 2, kSmallRounds, 50);
    const double large = measure(client, bytes / 4, kLargeRounds, 1);
    if (index == 0)
        printf(
            "%d processes, %s\nall-reduce of 8 bytes: %.1f us, in flight %.1f us\n"
            "all-reduce of %.0f MiB: %.2f GB/s; a message: %.2f GB/s\n",
            (int)count, transport_description(transport), small * 1e6, many * 1e6, (double)bytes / (1 << 20),
            (double)bytes / large / 1e9, (double)bytes / message / 1e9);
    fflush(stdout);
    target_client_leave(client);
    target_client_release(client);
    _exit(0);
}

int main(int argc, char **argv) {
    const int64_t count = argc > 1 ? atoi(argv[1]) : 4, bytes = (argc > 2 ? atoi(argv[2]) : 64) * (int64_t)(1 << 20);
    char texts[kMostProcesses][32];
    const char *addresses[kMostProcesses];
    if (count < 2 || count > kMostProcesses || bytes < 1) {
        fprintf(stderr, "usage: %s [PROCESSES [MEBIBYTES]]\n", argv[0]);
        return 2;
    }
    choose_addresses(count, texts, addresses);
    for (int64_t i = 0; i < count; i++)
        if (fork() == 0) run_process(count, i, addresses, bytes);
    int result = 0, all = 0;
    while (wait(&result) > 0) all |= result;
    return all != 0;
}
