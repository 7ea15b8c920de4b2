// SPDX-License-Identifier: Apache-2.0
// Processes on this machine over UCX: joining, exchanging, and every way to fail.
#ifdef MESHLO_UCX

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hlo/base/clock.h"
#include "hlo/base/memory.h"
#include "processes.h"

// kShortTimeout: seconds in which processes join even on a machine that is busy, for tests that wait until it is over.
enum { kMilli = 1000, kShortTimeout = 2 };

static HloStatus nothing(Transport *transport) {
    (void)transport;
    return HLO_SUCCESS;
}

static void expect_all_well(Processes *processes) {
    for (int64_t i = 0; i < processes->count; i++) cr_expect_str_eq(await_report(processes, i, 60), "");
}

// ---- exchanging

Test(transport_processes, four_exchange_with_all) {
    Processes processes;
    exchange_rounds = 40;
    prepare_processes(&processes, 4, exchange_body);
    start_processes(&processes);
    expect_all_well(&processes);
}

// Over TCP, as between machines.
Test(transport_processes, four_exchange_over_tcp) {
    Processes processes;
    exchange_rounds = 10;
    setenv("UCX_TLS", "tcp,self", 1);
    prepare_processes(&processes, 4, exchange_body);
    start_processes(&processes);
    expect_all_well(&processes);
}

// Process 1 returns what it gets.
static HloStatus play(Transport *transport) {
    static const int64_t kSizes[] = {0, 8, 1000, 16384, 16385, 70000, 24 << 20};
    const int64_t own = transport_process_index(transport);
    char *data = hlo_allocate_zeroed(24 << 20, 1);
    HloStatus status = HLO_SUCCESS;
    for (size_t i = 0; i < HLO_COUNT_OF(kSizes) * 4 && !status; i++) {
        const int64_t bytes = kSizes[i / 4];
        TransportRequest *request = NULL;
        for (int step = 0; step < 2 && !status; step++) {
            if (own == step) {
                if (own == 0) fill(data, bytes, i);
                status = transport_send(transport, 1 - own, i, data, bytes, &request);
            } else {
                if (own == 0) memset(data, 0, (size_t)bytes);
                status = transport_receive(transport, 1 - own, i, data, bytes, &request);
            }
            if (!status) status = transport_finish(request);
        }
        if (!status && !is_filled(data, bytes, i)) status = hlo_error(HLO_DATA_LOSS, "message %zu is wrong", i);
    }
    hlo_free(data);
    return status;
}

Test(transport_processes, messages_go_to_and_fro) {
    Processes processes;
    prepare_processes(&processes, 2, play);
    start_processes(&processes);
    expect_all_well(&processes);
}

// ---- the process is as it was

static HloStatus compare_process(Transport *transport);
static struct sigaction actions_before[NSIG];
static unsigned char code_before[4][16];

static void read_code(unsigned char code[4][16]) {
    memcpy(code[0], (const void *)(uintptr_t)&mmap, 16);
    memcpy(code[1], (const void *)(uintptr_t)&munmap, 16);
    memcpy(code[2], (const void *)(uintptr_t)&free, 16);
    memcpy(code[3], (const void *)(uintptr_t)&brk, 16);
}

static void remember_process(TransportOptions *options) {
    (void)options;
    signal(SIGHUP, SIG_IGN);
    for (int i = 1; i < NSIG; i++) sigaction(i, NULL, &actions_before[i]);
    read_code(code_before);
}

// Signals, the memory functions of the C library, and the environment are as before.
static HloStatus compare_process(Transport *transport) {
    extern char **environ;
    (void)transport;
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != actions_before[i].sa_handler)
            return hlo_error(HLO_INTERNAL, "signal %d has another handler", i);
    }
    unsigned char code[4][16];
    read_code(code);
    for (int i = 0; i < 4; i++)
        if (memcmp(code[i], code_before[i], sizeof code[i]) != 0)
            return hlo_error(HLO_INTERNAL, "memory function %d has a hook", i);
    for (char **one = environ; *one; one++)
        if (strncmp(*one, "UCX_", 4) == 0) return hlo_error(HLO_INTERNAL, "%s is in the environment", *one);
    return HLO_SUCCESS;
}

Test(transport_processes, leave_the_program_alone) {
    Processes processes;
    prepare_processes(&processes, 2, compare_process);
    processes.prepare = remember_process;
    start_processes(&processes);
    expect_all_well(&processes);
}

// The shared memory of a process has no name any more, so that it ends with the last process that uses it.
static void expect_nameless_memory(pid_t pid) {
    char path[64], line[512];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, "ucx_shm")) continue;
        cr_expect_not_null(strstr(line, "(deleted)"), "%s", line);
        count++;
    }
    fclose(maps);
    cr_expect_gt(count, 0);
}

Test(transport_processes, killed_all_leave_no_shared_memory) {
    Processes processes;
    exchange_rounds = 0;
    prepare_processes(&processes, 3, exchange_body);
    start_processes(&processes);
    for (int64_t i = 0; i < 3; i++) await_joined(&processes, i);
    for (int64_t i = 0; i < 3; i++) expect_nameless_memory(processes.pids[i]);
    for (int64_t i = 0; i < 3; i++) kill(processes.pids[i], SIGKILL);
    for (int64_t i = 0; i < 3; i++) kill_process(&processes, i);
}

// ---- dying, stopping

static void expect_named(Processes *processes, int64_t index, const char *code, const char *what, int64_t culprit) {
    char name[64];
    snprintf(name, sizeof name, "process %lld (%s, pid %d)%s", (long long)culprit, processes->addresses[culprit],
             processes->pids[culprit], what);
    expect_report(processes, index, 20, code, name);
}

// At some moment, each process in turn. MESHLO_RANDOM_PROGRAMS sets how often.
Test(transport_processes, a_killed_process_is_named) {
    const char *times = getenv("MESHLO_RANDOM_PROGRAMS");
    const int64_t most = times ? atoll(times) : 6;
    exchange_rounds = 0;
    for (int64_t i = 0; i < most; i++) {
        Processes processes;
        prepare_processes(&processes, 3, exchange_body);
        start_processes(&processes);
        for (int64_t j = 0; j < 3; j++) await_joined(&processes, j);
        usleep((useconds_t)(i * 7919 % 23000));
        const int64_t began = hlo_clock_nanoseconds();
        kill_process(&processes, i % 3);
        for (int64_t j = 1; j < 3; j++) expect_named(&processes, (i + j) % 3, "UNAVAILABLE", " has died (", i % 3);
        cr_expect_lt(hlo_clock_nanoseconds() - began, 5000000000, "not at once");
    }
}

// Those that have seen it end give up, and the others may not find their memory any more: that is not what they report.
Test(transport_processes, a_process_killed_while_joining_is_named) {
    static const int kMoments[] = {4, 9, 16};  // milliseconds after the start; joining takes about 20
    exchange_rounds = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(kMoments); i++) {
        Processes processes;
        prepare_processes(&processes, 4, exchange_body);
        processes.options.timeout_seconds = kShortTimeout;
        start_processes(&processes);
        usleep((useconds_t)(kMoments[i] * kMilli));
        kill_process(&processes, 2);
        for (int64_t j = 0; j < 4; j++) {
            const char *report = j == 2 ? "process 2" : await_report(&processes, j, 20);
            cr_expect(strstr(report, "process 2") != NULL, "%s", report);
        }
    }
}

// Its connections end with it even if a child that it has forked off lives on.
static HloStatus exchange_with_child(Transport *transport) {
    if (transport_process_index(transport) == 1 && fork() == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        for (int file = 3; file < 10; file++) close(file);  // the end of the test's pipe
        sleep(5);
        _exit(0);
    }
    return exchange_body(transport);
}

Test(transport_processes, a_killed_process_with_a_child_is_named) {
    Processes processes;
    exchange_rounds = 0;
    prepare_processes(&processes, 2, exchange_with_child);
    start_processes(&processes);
    for (int64_t j = 0; j < 2; j++) await_joined(&processes, j);
    usleep(20 * kMilli);
    const int64_t began = hlo_clock_nanoseconds();
    kill_process(&processes, 1);
    expect_named(&processes, 0, "UNAVAILABLE", " has died (", 1);
    cr_expect_lt(hlo_clock_nanoseconds() - began, 4000000000, "not at once");
}

Test(transport_processes, a_process_killed_over_tcp_is_named) {
    Processes processes;
    exchange_rounds = 0;
    setenv("UCX_TLS", "tcp,self", 1);
    prepare_processes(&processes, 3, exchange_body);
    start_processes(&processes);
    for (int64_t j = 0; j < 3; j++) await_joined(&processes, j);
    usleep(20 * kMilli);
    kill_process(&processes, 1);
    expect_named(&processes, 0, "UNAVAILABLE", " has died (", 1);
    expect_named(&processes, 2, "UNAVAILABLE", " has died (", 1);
}

// The one that was stopped learns when it goes on that the others have given up.
Test(transport_processes, a_stopped_process_is_named) {
    Processes processes;
    exchange_rounds = 0;
    prepare_processes(&processes, 3, exchange_body);
    processes.options.timeout_seconds = kShortTimeout;
    start_processes(&processes);
    for (int64_t j = 0; j < 3; j++) await_joined(&processes, j);
    usleep(5 * kMilli);
    kill(processes.pids[1], SIGSTOP);
    expect_named(&processes, 0, "DEADLINE_EXCEEDED", " has not answered", 1);
    expect_named(&processes, 2, "DEADLINE_EXCEEDED", " has not answered", 1);
    kill(processes.pids[1], SIGCONT);
    expect_report(&processes, 1, 20, "DEADLINE_EXCEEDED", "process 1 (");
}

// More than the receiver's memory for messages holds. It is an error if the thread is woken more often than its naps
// allow, where it could only look again.
static HloStatus send_to_stopped(Transport *transport) {
    enum { kCount = 2000, kBytes = 8000, kMostInSecond = 2000, kLong = 100000000 };
    static char data[kBytes];
    static TransportRequest *requests[kCount];
    if (transport_process_index(transport) == 1) {
        raise(SIGSTOP);
        return HLO_SUCCESS;
    }
    for (int i = 0; i < kCount; i++) HLO_TRY(transport_send(transport, 1, 0, data, kBytes, &requests[i]));
    HloStatus status = HLO_SUCCESS;
    const int64_t began = hlo_clock_nanoseconds();
    int64_t waits = 0;
    for (; !transport_request_is_done(requests[kCount - 1], &status); waits++) {
        const int64_t seen = transport_events(transport);
        if (!transport_progress(transport)) transport_wait(transport, seen, kLong);
    }
    const double seconds = (double)(hlo_clock_nanoseconds() - began) * 1e-9;
    for (int i = 0; i < kCount; i++) transport_request_free(requests[i]);
    if ((double)waits <= kMostInSecond * seconds) return status;
    hlo_status_free(status);
    return hlo_error(HLO_INTERNAL, "%lld waits in %g s", (long long)waits, seconds);
}

Test(transport_processes, a_wait_for_a_stopped_process_takes_no_processor) {
    Processes processes;
    prepare_processes(&processes, 2, send_to_stopped);
    processes.options.timeout_seconds = kShortTimeout;
    start_processes(&processes);
    expect_named(&processes, 0, "DEADLINE_EXCEEDED", " has not answered", 1);
    kill(processes.pids[1], SIGKILL);
    kill_process(&processes, 1);
}

// Shorter than the timeout.
Test(transport_processes, a_delayed_process_goes_on) {
    Processes processes;
    exchange_rounds = 200;
    prepare_processes(&processes, 2, exchange_body);
    start_processes(&processes);
    for (int64_t j = 0; j < 2; j++) await_joined(&processes, j);
    kill(processes.pids[1], SIGSTOP);
    usleep(100 * kMilli);
    kill(processes.pids[1], SIGCONT);
    expect_all_well(&processes);
}

static HloStatus abort_one(Transport *transport) {
    if (transport_process_index(transport) == 2)
        transport_abort(transport, hlo_error(HLO_FAILED_PRECONDITION, "runs another program"));
    return exchange_body(transport);
}

Test(transport_processes, an_abort_is_named) {
    Processes processes;
    exchange_rounds = 0;
    prepare_processes(&processes, 3, abort_one);
    start_processes(&processes);
    expect_named(&processes, 0, "FAILED_PRECONDITION", ": runs another program", 2);
    expect_report(&processes, 1, 20, "FAILED_PRECONDITION", "runs another program");
    expect_report(&processes, 2, 20, "FAILED_PRECONDITION", "runs another program");
}

// ---- processes that cannot join

Test(transport_processes, a_missing_process_is_named) {
    Processes sets[2];
    for (int64_t set = 0; set < 2; set++) {
        prepare_processes(&sets[set], 3, nothing);
        sets[set].options.timeout_seconds = kShortTimeout;
        for (int64_t i = 0; i < 3; i++)
            if (i != 2 * set) start_process(&sets[set], i);
    }
    for (int64_t set = 0; set < 2; set++) {
        char name[64];
        snprintf(name, sizeof name, "missing: process %lld (%s)", (long long)(2 * set), sets[set].addresses[2 * set]);
        for (int64_t i = 0; i < 3; i++)
            if (i != 2 * set) expect_report(&sets[set], i, 10, "DEADLINE_EXCEEDED", name);
    }
}

static void set_identity(TransportOptions *options) {
    options->identity = options->process_index == 1 ? "jax 0.10.2; v5e-8" : "jax 0.10.2; v5e-16";
}

Test(transport_processes, another_identity_is_named) {
    Processes processes;
    prepare_processes(&processes, 2, nothing);
    processes.prepare = set_identity;
    start_processes(&processes);
    for (int64_t i = 0; i < 2; i++) expect_report(&processes, i, 20, "FAILED_PRECONDITION", "'jax 0.10.2; v5e-8'");
}

static void set_count(TransportOptions *options) {
    if (options->process_index == 1) options->process_count = 3;
    options->timeout_seconds = kShortTimeout;
}

Test(transport_processes, another_count_is_named) {
    Processes processes;
    prepare_processes(&processes, 2, nothing);
    processes.addresses[2] = "127.0.0.1:9";
    processes.prepare = set_count;
    start_processes(&processes);
    expect_report(&processes, 0, 20, "DEADLINE_EXCEEDED", "process 0 is one of 2 processes, not of 3");
    expect_report(&processes, 1, 20, "FAILED_PRECONDITION", "process 0 is one of 2 processes, not of 3");
}

static HloStatus wait_for_end(Transport *transport) {
    HloStatus status;
    while (!(status = transport_error(transport))) transport_wait(transport, transport_events(transport), 100000000);
    return status;
}

Test(transport_processes, a_number_that_is_taken_is_named) {
    Processes processes;
    prepare_processes(&processes, 3, wait_for_end);
    processes.options.timeout_seconds = 5;
    start_process(&processes, 1);
    usleep(100 * kMilli);
    const pid_t first = processes.pids[1];
    const int pipe_of_first = processes.pipes[1];
    start_process(&processes, 1);
    expect_report(&processes, 1, 20, "ALREADY_EXISTS", "cannot listen at its address 127.0.0.1:");
    processes.pids[1] = first;
    processes.pipes[1] = pipe_of_first;
    kill_process(&processes, 1);
}

// With addresses of their own two processes can both say that they are process 2.
static void set_other_address(TransportOptions *options) {
    static const char *addresses[3];
    memcpy(addresses, options->addresses, sizeof addresses);
    if (getenv("MESHLO_TEST_ADDRESS")) addresses[2] = getenv("MESHLO_TEST_ADDRESS");
    options->addresses = addresses;
}

Test(transport_processes, two_of_a_number_are_named) {
    Processes processes, spare;
    prepare_processes(&processes, 3, wait_for_end);
    prepare_processes(&spare, 1, wait_for_end);
    processes.options.timeout_seconds = 3;
    processes.prepare = set_other_address;
    start_process(&processes, 2);
    setenv("MESHLO_TEST_ADDRESS", spare.addresses[0], 1);
    usleep(50 * kMilli);
    spare = processes;
    start_process(&spare, 2);
    unsetenv("MESHLO_TEST_ADDRESS");
    start_process(&processes, 0);  // the third, process 1, never comes
    expect_report(&processes, 0, 20, "ALREADY_EXISTS", "two processes are process 2: process 2 (");
    expect_report(&processes, 2, 20, "ALREADY_EXISTS", "two processes are process 2");
    expect_report(&spare, 2, 10, "ALREADY_EXISTS", "two processes are process 2");
}

// ---- strangers

typedef struct Stranger {
    int listener;
    uint16_t port;
} Stranger;

static Stranger listen_on_loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(file, (struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(listen(file, 4), 0);
    cr_assert_eq(getsockname(file, (struct sockaddr *)&address, &bytes), 0);
    return (Stranger){.listener = file, .port = ntohs(address.sin_port)};
}

Test(transport_processes, another_service_at_an_address_is_named) {
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    Processes processes;
    Stranger stranger = listen_on_loopback();
    prepare_processes(&processes, 2, nothing);
    processes.options.timeout_seconds = 2;
    snprintf(processes.ports[0], sizeof processes.ports[0], "127.0.0.1:%u", stranger.port);
    start_process(&processes, 1);
    const int file = accept(stranger.listener, NULL, NULL);
    cr_assert_eq(write(file, answer, sizeof answer - 1), (ssize_t)sizeof answer - 1);
    expect_report(&processes, 1, 20, "FAILED_PRECONDITION", "what answers as process 0 (127.0.0.1:");
    close(file);
    close(stranger.listener);
}

Test(transport_processes, a_silent_service_at_an_address_is_named) {
    Processes processes;
    Stranger stranger = listen_on_loopback();
    prepare_processes(&processes, 2, nothing);
    processes.options.timeout_seconds = 0.3;
    snprintf(processes.ports[0], sizeof processes.ports[0], "127.0.0.1:%u", stranger.port);
    start_process(&processes, 1);
    expect_report(&processes, 1, 20, "DEADLINE_EXCEEDED", "it does not answer");
    close(stranger.listener);
}

// Random bytes, half a frame, frames that are too long and nothing at all on the port do not keep processes from
// joining.
Test(transport_processes, strangers_do_not_disturb) {
    enum { kStrangers = 80 };
    Processes processes;
    int files[kStrangers];
    unsigned port = 0;
    prepare_processes(&processes, 2, nothing);
    cr_assert_eq(sscanf(processes.addresses[0], "127.0.0.1:%u", &port), 1);
    start_process(&processes, 0);
    for (int i = 0; i < kStrangers; i++) {
        const struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        unsigned char bytes[256];
        files[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        for (int attempt = 0; connect(files[i], (const struct sockaddr *)&address, sizeof address) != 0; attempt++) {
            cr_assert_lt(attempt, 500);
            usleep(10 * kMilli);
        }
        fill(bytes, sizeof bytes, (uint64_t)i);
        // Frames begin with their kind and length.
        const uint32_t kind = (uint32_t)i / 2 % 12, length = i % 4 == 0 ? 56 : i % 4 == 1 ? 200 : UINT32_MAX;
        if (i % 8 < 6) memcpy(bytes, &kind, 4), memcpy(bytes + 4, &length, 4);
        if (i % 8 < 7) (void)!write(files[i], bytes, i % 3 ? sizeof bytes : 11);
    }
    start_process(&processes, 1);
    expect_all_well(&processes);
    for (int i = 0; i < kStrangers; i++) close(files[i]);
}

// ---- secrets and addresses

static void expect_refused(TransportOptions options, HloCode code, const char *part) {
    Transport *transport;
    expect_error(transport_join(&options, &transport), code, part);
    cr_expect_null(transport);
}

Test(transport_processes, meaningless_options_are_refused) {
    const char *one[] = {"127.0.0.1:8476", "127.0.0.1"}, *far[] = {"127.0.0.1:47123", "192.0.2.1:8476"};
    const char *strange[] = {"127.0.0.1:99999", "127.0.0.1:1"}, *none[] = {NULL, NULL};
    expect_refused((TransportOptions){.process_count = 0}, HLO_INVALID_ARGUMENT, "0 processes");
    expect_refused((TransportOptions){.process_count = 2, .process_index = 2}, HLO_INVALID_ARGUMENT,
                   "process 2 is not");
    expect_refused((TransportOptions){.process_count = 2}, HLO_INVALID_ARGUMENT, "process 0 has no address");
    expect_refused((TransportOptions){.process_count = 2, .timeout_seconds = -1}, HLO_INVALID_ARGUMENT,
                   "timeout of -1");
    expect_refused((TransportOptions){.process_count = 2, .process_index = 1, .addresses = one}, HLO_INVALID_ARGUMENT,
                   "'127.0.0.1' is not the address");
    expect_refused((TransportOptions){.process_count = 2, .addresses = strange}, HLO_INVALID_ARGUMENT,
                   "'127.0.0.1:99999' has no port");
    expect_refused((TransportOptions){.process_count = 2, .addresses = none}, HLO_INVALID_ARGUMENT, "has no address");
    expect_refused((TransportOptions){.process_count = 2, .addresses = far}, HLO_INVALID_ARGUMENT, "cannot reach");
    expect_refused((TransportOptions){.process_count = 2, .process_index = 1, .addresses = far},
                   HLO_FAILED_PRECONDITION, "without a secret");
}

Test(transport_processes, a_single_process_needs_nothing) {
    Transport *transport;
    expect_success(transport_join(&(TransportOptions){.process_count = 1}, &transport));
    cr_expect_eq(transport_process_count(transport), 1);
    transport_release(transport);
}

#ifdef MESHLO_NETTLE
static void set_secret(TransportOptions *options) {
    options->secret = options->process_index == 0 ? "correct horse" : "correct house";
}

Test(transport_processes, another_secret_is_named) {
    Processes processes;
    prepare_processes(&processes, 2, nothing);
    processes.options.timeout_seconds = kShortTimeout;
    processes.prepare = set_secret;
    start_processes(&processes);
    expect_report(&processes, 0, 20, "DEADLINE_EXCEEDED", "has another secret");
    expect_report(&processes, 1, 20, "UNAUTHENTICATED", "process 0 (");
}

static void set_secret_of_one(TransportOptions *options) {
    options->secret = options->process_index == 0 ? "correct horse" : NULL;
}

Test(transport_processes, a_missing_secret_is_named) {
    Processes processes;
    prepare_processes(&processes, 2, nothing);
    processes.options.timeout_seconds = kShortTimeout;
    processes.prepare = set_secret_of_one;
    start_processes(&processes);
    expect_report(&processes, 0, 20, "DEADLINE_EXCEEDED", "process 1 has none");
    expect_report(&processes, 1, 20, "FAILED_PRECONDITION", "process 1 has none");
}

Test(transport_processes, equal_secrets_join) {
    Processes processes;
    exchange_rounds = 3;
    prepare_processes(&processes, 3, exchange_body);
    processes.options.secret = "correct horse battery staple";
    start_processes(&processes);
    expect_all_well(&processes);
}

// At an address of this machine that others could reach: with a secret only, and messages go through its interface.
Test(transport_processes, addresses_beyond_loopback_join_with_a_secret) {
    struct ifaddrs *list = NULL;
    char host[INET_ADDRSTRLEN] = "";
    cr_assert_eq(getifaddrs(&list), 0);
    for (const struct ifaddrs *one = list; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && strcmp(one->ifa_name, "lo") != 0)
            inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr, host, sizeof host);
    freeifaddrs(list);
    if (!host[0]) cr_skip_test("this machine has no network interface");
    Processes processes;
    exchange_rounds = 3;
    prepare_processes(&processes, 2, exchange_body);
    processes.options.secret = "correct horse battery staple";
    for (int i = 0; i < 2; i++) {
        char port[16];
        snprintf(port, sizeof port, "%s", strrchr(processes.ports[i], ':'));
        snprintf(processes.ports[i], sizeof processes.ports[i], "%s%s", host, port);
    }
    start_processes(&processes);
    expect_all_well(&processes);
}
#endif

#else
#include "harness.h"

// The message of a build without UCX.
Test(transport_processes, a_build_without_ucx_says_so) {
    const char *addresses[] = {"127.0.0.1:1", "127.0.0.1:2"};
    const TransportOptions options = {.process_count = 2, .addresses = addresses};
    Transport *transport;
    expect_error(transport_join(&options, &transport), HLO_UNIMPLEMENTED, "this build has no UCX (libucx-dev)");
}
#endif
