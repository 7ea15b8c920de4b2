// SPDX-License-Identifier: Apache-2.0
// Launches over several processes. Each process runs its own devices of a program; what devices of different processes
// exchange goes over the transport.
//
//     process 0              process 1
//     launch 17 of jit_f     launch 17 of jit_f      announced to each other: fingerprint, name
//     all-reduce %a          all-reduce %a           messages of launch 17, rendezvous 0
//     all-gather %b          all-gather %b           messages of launch 17, rendezvous 1
//
// Pairs. Two processes number the launches in which they exchange something, each for itself, in the order in which it
// runs them. Since both run the same programs in the same order, their numbers agree, and the first launch that differs
// is found by comparing the announcements. No message is used before the announcement of its sender has been compared.
//
// Control messages have one size and tag. Of each peer one is always being received, so that nothing else has to be
// posted for a message that rarely comes: announcements, failures, and reports of long waits.
//
// Failure. A launch that fails in one process fails in all that exchange something with it, with the same error, and
// those tell their peers. Later launches are not affected. Programs that differ end the transport.
//
// Deadlocks. A process that can do nothing but wait for others reports after a while to its peers where it waits, and
// for whom. When each process of a set reports that it waits for others of the set, and none of these is where it is
// waited for, no message can come any more. That is only believed while all processes answer probes (transport.h): one
// that is stopped can hold up messages between others, and errors name it then.
//
// Locks: a launch's run calls these functions without the run's lock; hosts->lock guards everything that launches
// share.
#ifndef MESHLO_TARGETS_CPU_RUN_HOSTS_H_
#define MESHLO_TARGETS_CPU_RUN_HOSTS_H_

#include "targets/cpu/run/internal.h"
#include "transport/transport.h"

HLO_BEGIN_C

// A channel end between devices of different processes.
typedef struct CpuSpanRoute {
    int64_t channel, source, target;
} CpuSpanRoute;

// How an executable is divided among processes.
struct CpuSpan {
    int64_t process;  // this one
    int64_t device_count;
    int32_t *processes;  // by device
    int64_t local_count;
    int32_t *members;  // by rendezvous (collective by collective, group by group): local members
    int64_t rendezvous_count;
    int64_t peer_count;  // processes that exchange something with this one
    int64_t *peers;      // rising
    int64_t route_count;
    CpuSpanRoute *routes;  // sorted
    bool *elsewhere;       // by device: of another process
};

// Returns the number of a route that messages between devices of different processes take; -1 if there is none.
int64_t cpu_span_route(const CpuSpan *span, int64_t channel, int64_t source, int64_t target);

enum { CPU_WAIT_PLACES = 16, CPU_WAIT_PROCESSES = 64 };

// A report of a process that can do nothing but wait, as its peers get it.
typedef struct CpuWaitReport {
    int64_t place_count, process_count;
    int64_t places[CPU_WAIT_PLACES];             // rendezvous at which all members of this process are
    int32_t processes[CPU_WAIT_PROCESSES];       // it waits for these
    int32_t process_places[CPU_WAIT_PROCESSES];  // at this one of the places; -1: for a message of a channel
    int64_t progress;                            // changes when anything happens in the run
    int64_t is_complete;                         // 0: there is more than fits
    int64_t has_sends;                           // 1: messages of channels are under way
} CpuWaitReport;

// Returns the transport of the launch's processes.
Transport *cpu_launch_transport(const CpuLaunch *launch);
// Returns how long a launch may wait for other processes, in nanoseconds.
int64_t cpu_launch_timeout(const CpuLaunch *launch);
// Returns how long a process waits before it reports that, and between reports, in nanoseconds.
int64_t cpu_launch_report_interval(const CpuLaunch *launch);
// Returns the launch's number in this process, for messages.
int64_t cpu_launch_ordinal(const CpuLaunch *launch);

// Rendezvous and routes of a program are numbered below this.
enum { CPU_MESSAGE_INDEX_LIMIT = 1 << 24 };

// Kinds of messages between the devices of a launch.
typedef enum CpuMessageKind { CPU_MESSAGE_EXCHANGE, CPU_MESSAGE_CHANNEL } CpuMessageKind;

// Returns the tag of a launch's messages to and from a peer. `index`: of the rendezvous or route.
uint64_t cpu_launch_tag(const CpuLaunch *launch, int64_t process, CpuMessageKind kind, int64_t index);
// Moves messages and reads control messages. Returns the error that ends the launch: a failure of a peer, programs that
// differ, or the transport's end.
HLO_NODISCARD HloStatus cpu_launch_poll(CpuLaunch *launch);
// Whether the peer's announcement has been compared with this launch.
bool cpu_launch_is_checked(CpuLaunch *launch, int64_t process);
// Says what this process does, for the others' messages.
void cpu_launch_set_activity(CpuLaunch *launch, const char *text);
// Sends a report to all peers.
void cpu_launch_report(CpuLaunch *launch, const CpuWaitReport *report);
// Sends a probe to all processes when the last one has been answered. To be called between reports, once in each
// interval.
void cpu_launch_probe(CpuLaunch *launch);
// Returns an error when the reports of peers, with this process's own, show that no message can come any more. `since`:
// when this process last got further. `text`: where it waits.
HLO_NODISCARD HloStatus cpu_launch_deadlock(CpuLaunch *launch, const CpuWaitReport *own, int64_t since,
                                            const char *text);
// Names the processes that have not answered for some time, for the beginning of an error's message; writes nothing if
// all answer.
void cpu_launch_print_silent(CpuLaunch *launch, HloText *text);
// Describes what a process was last known to do, for the message of an error.
void cpu_launch_print_peer(CpuLaunch *launch, int64_t process, HloText *text);

HLO_END_C

#endif
