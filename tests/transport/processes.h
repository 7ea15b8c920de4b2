// SPDX-License-Identifier: Apache-2.0
// Processes of a test that join each other on this machine.
#ifndef MESHLO_TESTS_TRANSPORT_PROCESSES_H_
#define MESHLO_TESTS_TRANSPORT_PROCESSES_H_

#include <sys/types.h>

#include "harness.h"

// The body of a process after it has joined; it reports the error to the test.
typedef HloStatus ProcessBody(Transport *transport);

typedef struct Processes {
    int64_t count;
    TransportOptions options;  // of all; the index is set for each
    ProcessBody *body;
    void (*prepare)(TransportOptions *options);  // changes the options of one process; or NULL
    bool body_releases;                          // the body gives the transport to an owner, or releases it
    char ports[kMaximumCount][32];
    const char *addresses[kMaximumCount];
    pid_t pids[kMaximumCount];
    int pipes[kMaximumCount];
    char reports[kMaximumCount][2048];  // "CODE message" of the error, "joined" before; see await_report()
} Processes;

// Sets the count, loopback addresses with free ports, and a timeout of 10 s.
void prepare_processes(Processes *processes, int64_t count, ProcessBody *body);
// Starts process `index`.
void start_process(Processes *processes, int64_t index);
void start_processes(Processes *processes);
// Waits until the process reports that it has joined; fails the test if it reports an error instead.
void await_joined(Processes *processes, int64_t index);
// Waits until the process has ended and returns its error as "CODE message", "" if it had none. Fails the test if it
// was not ended by itself, or printed anything, or if `seconds` have passed.
const char *await_report(Processes *processes, int64_t index, double seconds);
// Expects that the report has this code and contains `part`.
void expect_report(Processes *processes, int64_t index, double seconds, const char *code, const char *part);
// Ends the process and waits for it.
void kill_process(Processes *processes, int64_t index);

// A body that exchanges random messages with all others until an error, or for `exchange_rounds` rounds (0: without
// end).
ProcessBody exchange_body;
extern int64_t exchange_rounds;

#endif
