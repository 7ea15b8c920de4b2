// SPDX-License-Identifier: Apache-2.0
// Clients that are the processes of one machine, all of them in the test's own process: a thread plays each.
#ifndef MESHLO_TESTS_SUPPORT_HOSTS_H_
#define MESHLO_TESTS_SUPPORT_HOSTS_H_

#include "targets/client.h"
#include "transport/transport.h"

enum { kMostHosts = 8 };

typedef struct Hosts {
    int64_t count;
    TargetClient *clients[kMostHosts];
    Transport *transports[kMostHosts];  // the clients'
} Hosts;

// How devices are dealt to processes: neighbours to one, or each to the next.
typedef enum HostsOrder { HOSTS_IN_ROWS, HOSTS_IN_TURN } HostsOrder;

// Makes `count` processes of a machine of `devices` host devices. `threads`: workers of each. `timeout`: for programs
// that wait for other processes, in seconds; 0: the default. The test fails when that does not succeed.
void hosts_new(Hosts *hosts, int64_t count, int64_t devices, HostsOrder order, int threads, double timeout);
// Frees all clients that are still there.
void hosts_free(Hosts *hosts);

// The body of process `process`.
typedef void HostFunction(Hosts *hosts, int64_t process, void *context);
// Calls the function for every process, all at the same time, and waits for all.
void hosts_run(Hosts *hosts, HostFunction *function, void *context);

#endif
