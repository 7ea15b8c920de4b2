// SPDX-License-Identifier: Apache-2.0
// What `meshlo launch` is made of: the processes that a slice needs, their environment, and running them together.
#ifndef MESHLO_TOOLS_LAUNCH_H_
#define MESHLO_TOOLS_LAUNCH_H_

#include <sys/types.h>

#include "tools/machine.h"

// One process of a launch.
typedef struct LaunchProcess {
    int64_t index;  // among all processes
    int64_t slice, index_in_slice;
    int64_t host_slot, host_processes;  // which of the processes on its host it is, and how many those are
    const char *host;                   // as the user names it; NULL for this machine
    const char *name;                   // for messages and prefixes: "2", "2 host-c"
    int64_t port;                       // for the others
    const char *address;                // "host:port"
} LaunchProcess;

// All that is known before the first process starts. In the context's arena, except for the sockets.
typedef struct LaunchPlan {
    const char *spec;  // the machine
    int64_t count, slice_count;
    int64_t process_bounds[3], chip_bounds[3];  // of one slice: processes, and chips of each
    int64_t host_chips;                         // chips of a host of the machine
    LaunchProcess *processes;
    int64_t coordinator_port;  // free on process 0's host; 0 if that is another machine
    int *sockets;              // they hold ports that were chosen on this machine
    int64_t socket_count;
    char secret[65];  // hexadecimal digits; processes prove by it that they belong together
    const char *ssh;  // the command that starts a process on another host
} LaunchPlan;

// A variable of a process's environment; `value` NULL removes it.
typedef struct LaunchVariable {
    const char *name, *value;
} LaunchVariable;

// Plans the processes of a slice: one for each of its hosts, or `processes` of them (0: as many as hosts) with a part
// of the slice each, on the machines of `hosts` (a comma-separated list; NULL: this one). Errors: usage errors,
// RESOURCE_EXHAUSTED where this machine has no port.
// Whatever it returns, launch_plan_free() gives the ports back.
HLO_NODISCARD HloStatus launch_plan(CliContext *context, const EmuTopology *topology, int64_t processes,
                                    const char *hosts, int64_t port, LaunchPlan *plan);

// Closes the sockets that hold the ports of the plan.
void launch_plan_free(LaunchPlan *plan);

// The variables that tell a process who it is, in the context's arena; sets *count.
const LaunchVariable *launch_variables(CliContext *context, const LaunchPlan *plan, const LaunchProcess *process,
                                       int64_t *count);

// Starts all processes, passes on their output and the signals that this process gets, and waits for all. When one
// fails, the others are ended after `grace_seconds`. *exit_code is that of the first failure (128 + the signal that
// killed it), which is described on stderr. Errors: processes or pipes that cannot be made.
HLO_NODISCARD HloStatus launch_run(CliContext *context, const LaunchPlan *plan, const char *const *command,
                                   bool with_prefix, double grace_seconds, int *exit_code);

#endif
