// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the files of targets/, not part of client.h.
#ifndef MESHLO_TARGETS_INTERNAL_H_
#define MESHLO_TARGETS_INTERNAL_H_

#include <pthread.h>
#include <stdatomic.h>

#include "targets/client.h"
#include "targets/cpu/executable.h"
#include "targets/meter.h"
#include "targets/storage.h"

HLO_BEGIN_C

struct EmuReport;
struct TargetExecutable;
typedef struct TargetTask TargetTask;

// One task of a queue: see queue.c. Executions (execution.c) are the only kind.
struct TargetTask {
    void (*run)(TargetTask *task);                        // does the work and records errors where readers find them
    void (*finish)(TargetTask *task);                     // makes events ready (callbacks run here) and frees the task
    void (*abandon)(TargetTask *task, HloStatus status);  // instead of both, after a fork; owns the status
    bool (*is_ready)(const TargetTask *task);             // true if it depends on no unfinished task
    bool small;                 // worth running in the caller's thread when the queue is empty
    bool waits_for_host;        // receives from the host while it runs
    bool aside;                 // set by the queue: runs beside another task
    struct TargetQueue *queue;  // set by the queue for a task that runs aside
    bool *done;                 // set by the queue: its submitter waits for this, under the lock
    TargetTask *next;
};

// Tasks of a client, run one after the other.
typedef struct TargetQueue {
    pthread_mutex_t lock;
    pthread_cond_t work;     // there is a task for the queue's own thread, or an end of it
    pthread_cond_t changed;  // something has changed that other threads wait for
    TargetTask *first, *last;
    TargetTask *running;
    int64_t callbacks;  // callbacks of running tasks in progress: see target_queue_callback_begin()
    int64_t aside;      // tasks that run beside the queued one
    bool started, stop;
    pthread_t thread;
    TargetStorePool *store;           // its lock is re-created after a fork
    void (*last_words)(void *owner);  // called by the thread when it ends, if it had to close the queue itself
    void *owner;
    _Atomic(uint32_t) *alive;  // 1 while this process has the thread; fork() wipes it: see cpu_pool_fork_flag()
} TargetQueue;

// Prepares an empty queue; starts nothing. `alive` is a number that fork() sets to 0, and outlives the queue.
void target_queue_init(TargetQueue *queue, TargetStorePool *store, _Atomic(uint32_t) *alive);
// Waits for everything and stops the thread: true. On the queue's own thread, which cannot wait for itself: false, and
// last_words(owner) is called when the thread has ended its work; the caller must not use the queue then.
bool target_queue_close(TargetQueue *queue, void (*last_words)(void *owner), void *owner);
// Frees the members of a closed queue.
void target_queue_destroy(TargetQueue *queue);
// Runs the task: immediately if it is small (or `wait` is set) and no task precedes it or the current task is in a
// callback, else on the queue's thread. With `wait` returns only when it is done. RESOURCE_EXHAUSTED if no thread can
// be started (the task is not run).
HLO_NODISCARD HloStatus target_queue_submit(TargetQueue *queue, TargetTask *task, bool wait);
// Begins a callback of the running task to the user, who may submit tasks and wait for them: until _end, tasks that are
// ready when they are submitted run immediately beside the running one: on the submitting thread or, if they wait for
// the host, on a separate one.
void target_queue_callback_begin(TargetQueue *queue);
// Ends a target_queue_callback_begin().
void target_queue_callback_end(TargetQueue *queue);
// Calls visit(task, argument) for every queued task, under the queue's lock.
void target_queue_visit(TargetQueue *queue, void (*visit)(TargetTask *task, void *argument), void *argument);
// Called when a callback waits for an event. On the queue's own thread: runs the queued tasks until the event is ready,
// as no other thread would, and returns true. On any other thread, and when memory is short: returns false immediately.
bool target_queue_help(TargetEvent *event);
// Waits until everything submitted so far is done.
void target_queue_drain(TargetQueue *queue);

typedef struct TargetDeviceState {
    TargetDevice device;
    TargetMemory memories[TARGET_MEMORY_KIND_COUNT];
    TargetMemory *memory_list[TARGET_MEMORY_KIND_COUNT];
    TargetMeter meter;
} TargetDeviceState;

struct TargetClient {
    _Atomic int64_t references;
    struct EmuTopology *topology;
    char *spec, *version;
    TargetDeviceState *devices;
    int64_t device_count;
    TargetNumerics numerics;
    CpuPool *pool;
    TargetStorePool store;
    TargetQueue queue;
    int64_t process_index, process_count;  // 0 of 0: one process with all devices
    Transport *transport;                  // NULL: not connected, or no more
    CpuHosts *hosts;
};

// Returns an error that names the process of a memory that is not of this one. Any thread.
HLO_NODISCARD HloStatus target_memory_check_local(const TargetMemory *memory);

struct TargetBuffer {
    _Atomic int64_t references;
    TargetClient *client;
    TargetMemory *memory;
    HloShape *shape;  // one heap block with its dims
    TargetEvent *ready;
    pthread_mutex_t lock;    // guards the following members
    TargetStorage *storage;  // NULL before the producer ran, after deletion, and when there is an error
    bool deleted;
    int64_t claims;  // queued executions that will take the storage once it exists
    int64_t external_holds;
    bool charged;  // its bytes are counted by the meter of its device
};

// Creates a buffer without storage whose ready event is pending. NULL when memory is short.
TargetBuffer *target_buffer_new(const HloShape *shape, TargetMemory *memory);
// Returns the storage with a reference for the caller; NULL if it is deleted or does not exist yet.
TargetStorage *target_buffer_take_storage(TargetBuffer *buffer);
// Returns the storage of a buffer that had none when `claims` was incremented for it; decrements that. The last
// claimant of a deleted buffer empties it.
TargetStorage *target_buffer_take_claimed(TargetBuffer *buffer);
// Sets the storage of a buffer whose producer has run (takes the reference), unless it is no longer needed.
void target_buffer_fill(TargetBuffer *buffer, TargetStorage *storage);

// Counts the buffer on the meter of its device, if it is in HBM and its content is still needed. RESOURCE_EXHAUSTED if
// the HBM has no room for it, in the words of the TPU runtime. Does nothing if it is counted already.
HLO_NODISCARD HloStatus target_buffer_charge(TargetBuffer *buffer);
// Removes the buffer from the meter; the caller holds its lock or has the only reference.
void target_buffer_discharge(TargetBuffer *buffer);

// Makes the event ready without calling back; target_event_call() then calls. Takes ownership of `status`.
void target_event_publish(TargetEvent *event, HloStatus status);
// Calls the callbacks of a published event.
void target_event_call(TargetEvent *event);
// Returns a copy of a status.
HloStatus target_status_copy(const struct HloError *status);

// Returns the meter of a device's memory.
static inline TargetMeter *target_device_meter(const TargetDevice *device) {
    return &device->client->devices[device->index].meter;
}

struct TargetExecutable {
    _Atomic int64_t references;
    _Atomic bool deleted;
    TargetClient *client;
    CpuExecutable *program;
    const CpuSignature *signature;
    char *name;
    int64_t replica_count, partition_count, device_count;
    TargetDevice **devices;       // by index in the assignment
    CpuSpan *span;                // NULL: all of them are local
    uint64_t launch_fingerprint;  // of the program, its name and devices: the same in all processes of a launch
    TargetNumerics numerics;
    uint8_t *memory_kinds;  // TargetMemoryKind of arguments, then of results
    int64_t host_temporary_bytes;
    uint64_t fingerprint;
    CpuSharePlan *sharing;  // of the last execution; used only by the queue's running task
    TargetCostAnalysis cost;
    HloArena *arena;          // of the signature of a program that is only inspected (`program` is NULL then)
    const HloModule *module;  // if it stays: its memory on a slice is analysed on request
    pthread_mutex_t lock;     // guards the following members
    bool is_analysed;
    TargetMemoryAnalysis memory;  // on a slice
};

// Makes the signature of a program that is only inspected, without compiling it: executable->signature.
HLO_NODISCARD HloStatus target_inspect_signature(const HloModule *module, TargetExecutable *executable);
// Analyses the memory of one device of a slice by the machine model. With `report`, also passes on the model's report,
// which the caller frees. Errors as emu_simulate().
HLO_NODISCARD HloStatus target_slice_memory(const TargetExecutable *executable, const HloModule *module,
                                            TargetMemoryAnalysis *analysis, struct EmuReport **report);
// Ends the use of the module that TargetCompileOptions.keeps_module promised: the memory is analysed now.
void target_executable_forget_module(TargetExecutable *executable);
// Adds up what the engine's buffer assignment determined: dense bytes.
void target_dense_memory(const TargetExecutable *executable, TargetMemoryAnalysis *analysis);

HLO_END_C

#endif
