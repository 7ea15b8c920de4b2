// SPDX-License-Identifier: Apache-2.0
// Compiled programs of the CPU backend and how they run. targets/client.h is the public face of this.
//
// Terms:
//   array          one value of the program: an array or a token. Tuples are their leaves.
//   node           one operation of the graph; a region is a list of nodes: the entry, a loop's body, a branch.
//   view           an array that holds the bytes of another one, so that it needs no buffer (reshape, parameters).
//   materialised   has a buffer. Other arrays are computed inside the loops that read them.
//   fused loop     a program of kernels over blocks of about a thousand elements, kept in registers of scratch
//                  memory.
//   level          how often a value of a fused loop exists: once per loop, per kept index, or per element.
//   small loop     a fused loop over at most 64 elements, as a list of kernel calls.
//   kernel         a compiled function on blocks (isa/) or on whole arrays (dense/, kernels/).
//   step           one unit of work in terms of arrays: fused loops, a kernel, a while, a collective.
//   thunk          a step in terms of addresses. All devices read the same thunks.
//   base, slice    a base is where an argument, a result, the constants or the arena begins; a slice is base plus
//                  offset.
//   while program  a while loop with all that is in it as one flat list of calls and jumps; it may become machine
//                  code.
//   device         a virtual device: a program counter over the thunks, with bases of its own. Workers run devices.
//   rendezvous     a group of devices at one collective. The last one to arrive runs the exchange.
//   channel end    a send or recv-done between devices (CpuP2pTransfer). Messages under way are in the run's mail.
//   sharing        running a costly kernel once for several devices whose operands are equal.
//   host           a process of several that run one program, each its own devices. They share a transport.
//   span           how an executable is divided among hosts; its peers are those that this process exchanges data with.
//   launch         one run of an executable on several hosts, which they announce to each other.
//   fallback       the reference evaluator runs a node that has no compiled form.
#ifndef MESHLO_TARGETS_CPU_EXECUTABLE_H_
#define MESHLO_TARGETS_CPU_EXECUTABLE_H_

#include "hlo/base/text.h"
#include "hlo/ir/module.h"
#include "targets/cpu/host/pool.h"
#include "transport/transport.h"

HLO_BEGIN_C

typedef struct CpuExecutable CpuExecutable;

// Channels of infeed and outfeed, which the program does not number; those of send and recv are positive.
enum { CPU_CHANNEL_INFEED = -1, CPU_CHANNEL_OUTFEED = -2 };

// A transfer of one array between a device and the host over a numbered channel.
typedef struct CpuTransfer {
    int64_t channel;
    const HloShape *shape;  // without layout
    bool to_host;
    bool unread;  // received but never used
} CpuTransfer;

// Callbacks of an execution for its transfers with the host. They run on the thread that runs the device, which waits
// meanwhile. `device` is the device's number. Calls from one device come in program order; calls from different devices
// may run concurrently. An error ends the execution.
typedef struct CpuHost {
    HloStatus (*send)(void *context, int64_t device, int64_t channel, const HloShape *shape, const void *data);
    HloStatus (*receive)(void *context, int64_t device, int64_t channel, const HloShape *shape, void *data);
    void *context;
} CpuHost;

typedef struct CpuCompileOptions {
    int64_t replica_count, partition_count;  // at least 1
    bool tpu_numerics;
    CpuFeatures features;
    HloAliases aliases;  // which result may reuse which argument; all leaves named here exist
} CpuCompileOptions;

// Compiles a per-device module, which is read only during the call. INVALID_ARGUMENT for programs that cannot run,
// UNIMPLEMENTED for ops that this target does not compute. Any thread.
HLO_NODISCARD HloStatus cpu_compile(const HloModule *module, const CpuCompileOptions *options,
                                    CpuExecutable **executable);
// Frees the executable; accepts NULL. No execution may be running.
void cpu_executable_free(CpuExecutable *executable);

// Everything a caller needs to know. Lives as long as the executable.
typedef struct CpuSignature {
    int64_t argument_count, result_count;    // leaves
    const HloShape *const *argument_shapes;  // without layouts
    const HloShape *const *result_shapes;
    const bool *argument_donated;         // the program donates it
    const int64_t *result_alias;          // the argument whose memory the result may take over, or -1
    int64_t arena_bytes, constant_bytes;  // of one device; of the executable
    double cost;                          // rough number of elementary operations of one device
    double iteration_cost;                // the same with each loop counted once: the work of one iteration
    double collective_bytes;  // bytes that one device sends in collectives, each counted once, by the ring algorithm
    int64_t collective_count;
    const char *fallbacks;         // lines "opcode name" of what the reference evaluator runs; "" when all is compiled
    const CpuTransfer *transfers;  // with the host, as the program names them
    int64_t transfer_count;
} CpuSignature;
// Returns the signature, which lives as long as the executable.
const CpuSignature *cpu_executable_signature(const CpuExecutable *executable);

// Prints the thunks in readable form.
void cpu_executable_print(const CpuExecutable *executable, HloText *text);

// Which steps an execution computes only once: see run/share.h.
typedef struct CpuSharePlan CpuSharePlan;

// Callback that receives the trace events of a run, from any of its threads. Times are nanoseconds of CLOCK_REALTIME.
// `name` lives as long as the executable.
typedef struct CpuTrace {
    void (*event)(void *context, int64_t device, const char *name, int64_t begin, int64_t end);
    void *context;
} CpuTrace;

// Callback that learns how much of a run is done, after every thunk and from any of its threads, several at a time. The
// share is that of the estimated cost, from 0 to 1; shares of several threads may come out of order.
typedef struct CpuProgress {
    void (*report)(void *context, double share);
    void *context;
} CpuProgress;

// ---- several processes

// What launches of one process share: the state of its exchanges with the other processes. One per transport.
typedef struct CpuHosts CpuHosts;
// How an executable is divided among processes.
typedef struct CpuSpan CpuSpan;
// One run of an executable that exchanges data with other processes.
typedef struct CpuLaunch CpuLaunch;

// Creates the state; the transport stays the caller's and must outlive it. `timeout_seconds`: how long a launch may
// wait for another process. RESOURCE_EXHAUSTED; the transport's error.
HLO_NODISCARD HloStatus cpu_hosts_new(Transport *transport, double timeout_seconds, CpuHosts **hosts);
// Frees it; accepts NULL. No launch may be running.
void cpu_hosts_free(CpuHosts *hosts);

// Divides an executable: processes[d] runs device number d, `process` is this one. *span is NULL if all devices are
// this one's. UNIMPLEMENTED for messages between processes on channels without pairs. The span must not outlive the
// executable.
HLO_NODISCARD HloStatus cpu_span_new(const CpuExecutable *executable, const int64_t *processes, int64_t process,
                                     CpuSpan **span);
// Frees the span; accepts NULL.
void cpu_span_free(CpuSpan *span);
// Whether this process exchanges data with others when it runs the executable.
bool cpu_span_has_peers(const CpuSpan *span);

// Announces a run to the span's peers. Every run of an executable with peers begins with this, even one that fails
// before cpu_execute(). `fingerprint` and `name` tell whether all run the same program; both live as long as the
// launch. RESOURCE_EXHAUSTED, and the error of a peer that is gone.
HLO_NODISCARD HloStatus cpu_launch_begin(CpuHosts *hosts, const CpuSpan *span, const char *name, uint64_t fingerprint,
                                         CpuLaunch **launch);
// Ends the run; accepts NULL. An error is passed on to the peers, whose runs of this launch fail with it.
void cpu_launch_end(CpuLaunch *launch, const struct HloError *status);

// ---- running

// One run. Addresses are by device number (replica * partitions + partition) and aligned to 64 bytes. A result may
// share its address with the argument that result_alias names, and with nothing else.
typedef struct CpuExecution {
    void *const *const *arguments;
    void *const *const *results;
    void *const *arenas;          // arena_bytes each
    const CpuSharePlan *sharing;  // made for these arguments, or NULL
    const CpuHost *host;          // NULL for programs without transfers
    const CpuTrace *trace;        // NULL: no tracing
    const CpuProgress *progress;  // NULL: no one wants to know
    const CpuSpan *span;          // NULL: all devices are here. Else those of other processes have no addresses (NULL)
    CpuLaunch *launch;            // NULL if the span has no peers
} CpuExecution;

// Updates *plan (NULL at first) to match which argument addresses of this execution are equal. It becomes NULL when
// nothing can be shared. One thread at a time. Free it with cpu_share_plan_free().
void cpu_share_plan_update(const CpuExecutable *executable, const CpuExecution *execution, CpuSharePlan **plan);
// Frees the plan; accepts NULL.
void cpu_share_plan_free(CpuSharePlan *plan);
// Returns the first device whose result `result` equals that of `device`.
int64_t cpu_share_result_leader(const CpuSharePlan *plan, int64_t result, int64_t device);

// Runs the program on all its devices and returns when all have finished. FAILED_PRECONDITION when devices wait for
// each other forever, with a message that names which device waits where for which. Any thread; several runs of one
// executable may proceed concurrently. With a launch also UNAVAILABLE for a process that has left, DEADLINE_EXCEEDED
// for one that does not come, and the errors of other processes.
HLO_NODISCARD HloStatus cpu_execute(const CpuExecutable *executable, CpuPool *pool, const CpuExecution *execution);

HLO_END_C

#endif
