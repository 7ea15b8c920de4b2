// SPDX-License-Identifier: Apache-2.0
// Running programs: clients, devices, memories, buffers, executables and events. The public header of targets/.
//
// A client is created from the name of a machine: `cpu:8` gives eight virtual host devices, `v2-8` the eight devices of
// a TPU v2 slice. They compute real numbers (by targets/cpu on this host), but have the identity of the named machine.
//
//     TargetClient *client;
//     TargetExecutable *executable;
//     TargetBuffer *argument, *result;
//     HLO_TRY(target_client_new("v2-8", &client));
//     HLO_TRY(target_compile(client, module, NULL, &executable));
//     HLO_TRY(target_buffer_from_literal(literal, target_device_default_memory(target_client_device(client, 0)),
//                                        &argument));
//     ... one list of arguments and of results per device ...
//     HLO_TRY(target_execute(executable, NULL, arguments, 1, results, NULL));
//     HLO_TRY(target_buffer_to_literal(result, &value));      // waits for the result
//
// Rules that apply to all functions here:
// - Threads. Every function may be called from any number of threads concurrently, even on the same objects. No thread
//   is started before the first execution; a client survives fork() (the child starts its own threads at its next use).
// - Asynchrony. target_execute() may return before the program has run. Its results exist immediately and become ready
//   later; reading one waits. Executions of one client run in the order in which they were submitted.
// - Errors travel with buffers: when an execution fails, its results are buffers that hold the error, an execution
//   that gets one of them as an argument fails with the same error, and reading one returns it as a HloStatus.
//   Errors that can be detected at submission (wrong counts, shapes, deleted buffers) are returned by the call itself.
// - References. Objects made by `_new`, `_from_…`, `compile` and `execute` have one reference; `_retain` adds one,
//   `_release` takes one (and accepts NULL); the last one frees. A buffer and an executable keep their client alive.
//   Devices and memories belong to their client.
// - Callbacks run without any lock held, once, on the thread that makes the event ready or, if it is ready already, on
//   the caller's. They may call anything here, even release the event.
// - Arrays are dense and row-major on devices, whatever layouts shapes name; from_host and to_host convert.
//
// Stability: stable.
//
// Terms:
//   client       the devices of one machine and the threads that run them.
//   process      one of several that play the hosts of a machine, each with a client of its own: see
//                target_client_connect(). A device is local to one of them. Without that, all devices are local.
//   device       holds buffers and runs its part of a program. Virtual: all of them share the processors of this host.
//   memory       a kind of memory of a device or host, as PJRT names them.
//   buffer       an array on a device. It may not be ready yet, and it may hold an error.
//   event        becomes ready once, with or without an error.
//   executable   a compiled program; an execution is one run of it on all its devices.
//   donation     an argument gives its memory to a result.
#ifndef MESHLO_TARGETS_CLIENT_H_
#define MESHLO_TARGETS_CLIENT_H_

#include "hlo/ir/module.h"
#include "transport/transport.h"

HLO_BEGIN_C

typedef struct TargetClient TargetClient;
typedef struct TargetDevice TargetDevice;
typedef struct TargetMemory TargetMemory;
typedef struct TargetBuffer TargetBuffer;
typedef struct TargetExecutable TargetExecutable;
typedef struct TargetEvent TargetEvent;

// ---- events

// Creates an event that is not ready. NULL when memory is short.
HLO_EXPORT TargetEvent *target_event_new(void);
// Adds a reference; returns `event`.
HLO_EXPORT TargetEvent *target_event_retain(TargetEvent *event);
// Takes a reference; accepts NULL. Callbacks that wait for the event still run.
HLO_EXPORT void target_event_release(TargetEvent *event);
// Makes the event ready, with an error or NULL; takes ownership of `status`. Only the first call counts.
HLO_EXPORT void target_event_set(TargetEvent *event, HloStatus status);
// True once the event is ready.
HLO_EXPORT bool target_event_is_ready(const TargetEvent *event);
// Returns a copy of the error of a ready event; NULL if it has none or is not ready.
HLO_EXPORT HLO_NODISCARD HloStatus target_event_error(const TargetEvent *event);
// Blocks until the event is ready; returns a copy of its error.
HLO_EXPORT HLO_NODISCARD HloStatus target_event_wait(TargetEvent *event);
// Blocks until the event is ready, but no longer than `milliseconds`; true if it is ready then.
HLO_EXPORT bool target_event_wait_for(TargetEvent *event, int64_t milliseconds);
// Called by target_event_on_ready(): `status` is a copy of the event's error, owned by the callback.
typedef void TargetEventCallback(HloStatus status, void *argument);
// Calls callback(error, argument) once when the event becomes ready, or immediately if it is. RESOURCE_EXHAUSTED if
// there is no memory to store the callback (it is not called then).
HLO_EXPORT HLO_NODISCARD HloStatus target_event_on_ready(TargetEvent *event, TargetEventCallback *callback,
                                                         void *argument);

// ---- clients, devices, memories

// How f32 matrix products are computed.
typedef enum TargetNumerics {
    TARGET_NUMERICS_DEFAULT,  // TPU on a TPU slice, EXACT on host devices
    TARGET_NUMERICS_EXACT,    // in f32
    TARGET_NUMERICS_TPU,      // operands rounded to bf16 (one pass; `high` three, `highest` six), sums in f32;
                              // products with a single row or column stay in f32
} TargetNumerics;

// Reads "exact" or "tpu"; NULL and "" mean TARGET_NUMERICS_DEFAULT. INVALID_ARGUMENT for other words, with `source`
// (the option or variable that the text is from) in the message. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus target_numerics_parse(const char *text, const char *source,
                                                         TargetNumerics *numerics);
// Reads the environment's MESHLO_NUMERICS in the same way. Any thread, as long as no other one changes the environment.
HLO_EXPORT HLO_NODISCARD HloStatus target_numerics_from_environment(TargetNumerics *numerics);

// A device of a client. Read-only.
struct TargetDevice {
    TargetClient *client;
    int64_t index;  // index in the client's list (jax.devices() order)
    int64_t id;     // unique, not always dense
    int64_t process_index;
    int64_t local_hardware_id;
    int64_t coords[3];  // chip coordinates; zeros on host devices
    int64_t core_on_chip;
    int64_t slice_index;
    bool has_coords;                // false on host devices
    const char *kind;               // "TPU v2", "cpu"
    const char *text;               // "TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0)"
    const char *debug_text;         // "TPU_0(process=0,(0,0,0,0))"
    TargetMemory *const *memories;  // the default one first
    int64_t memory_count;
};

typedef enum TargetMemoryKind {
    TARGET_MEMORY_DEVICE,  // HBM of a TPU
    TARGET_MEMORY_PINNED_HOST,
    TARGET_MEMORY_UNPINNED_HOST,
    TARGET_MEMORY_KIND_COUNT
} TargetMemoryKind;

// A memory of one device. Read-only.
struct TargetMemory {
    TargetDevice *device;
    int64_t id;  // unique in the client
    TargetMemoryKind kind_id;
    const char *kind;  // "device", "pinned_host", "unpinned_host"
    const char *text;  // for messages
};

// The contents of a device's HBM, as on a chip: every buffer counts on its own device, even if buffers share their
// bytes on this host, and so do the temporaries of running programs. Dense bytes, without the padding of tiles.
typedef struct TargetMemoryStatistics {
    int64_t bytes_in_use;
    int64_t peak_bytes_in_use;
    int64_t largest_allocation;
    int64_t allocation_count;  // live allocations
    int64_t bytes_limit;       // HBM that the emulated device has for programs; 0 if unlimited (host devices)
} TargetMemoryStatistics;

// Creates a client for the machine that `spec` names: `cpu:N`, or a slice as in emulator/topology.h (`v2-8`, `v5e:4x4`,
// `2xv5e-16`, an XML file); NULL or "" means the environment's MESHLO_TOPOLOGY, else `cpu:1`. Starts no thread.
// INVALID_ARGUMENT for unknown names, with near matches.
HLO_EXPORT HLO_NODISCARD HloStatus target_client_new(const char *spec, TargetClient **client);
// Does the same with a given number of worker threads (0: one per core, or MESHLO_NUM_THREADS).
HLO_EXPORT HLO_NODISCARD HloStatus target_client_new_with_threads(const char *spec, int threads, TargetClient **client);
// Adds a reference; returns `client`.
HLO_EXPORT TargetClient *target_client_retain(TargetClient *client);
// Takes a reference; accepts NULL. The last one waits for work in flight, stops the threads and frees.
HLO_EXPORT void target_client_release(TargetClient *client);
// Returns "tpu" or "cpu".
HLO_EXPORT const char *target_client_platform(const TargetClient *client);
// Returns the version of this library and its instruction set, for messages.
HLO_EXPORT const char *target_client_platform_version(const TargetClient *client);
// Returns the name that the client was created from.
HLO_EXPORT const char *target_client_spec(const TargetClient *client);
// Returns the numerics that TARGET_NUMERICS_DEFAULT means on this client.
HLO_EXPORT TargetNumerics target_client_numerics(const TargetClient *client);
// Sets them. Call this before the client compiles: executables keep the numerics that they were compiled with.
HLO_EXPORT void target_client_set_numerics(TargetClient *client, TargetNumerics numerics);
// Returns the number of hosts of the machine; each of them is a process to frameworks that run on all.
HLO_EXPORT int64_t target_client_host_count(const TargetClient *client);
// Renumbers all devices as local to process 0, consecutively, for a framework that has all hosts' devices in one
// process. Call this before the devices are used.
HLO_EXPORT HLO_NODISCARD HloStatus target_client_join_hosts(TargetClient *client);

typedef struct TargetConnectOptions {
    // The process of each device, by its index in the client's list; NULL: the host of the machine that it is on.
    const int64_t *process_indices;
    double collective_timeout_seconds;  // how long a program waits for another process; 0: 600
} TargetConnectOptions;
// Makes the client one of several processes that are the hosts of one machine: its devices with this process's index
// are local, and only these have buffers and run programs here. Every process makes a client of the same machine,
// compiles the same programs and launches them in the same order. What devices of different processes exchange goes
// over the transport; results have the same bits as in one process. Call this before the client makes or compiles
// anything. The client owns the transport from now on, and leaves it when it is freed; after an error the caller still
// does. INVALID_ARGUMENT unless each process has a device and each device a process. `options` NULL: defaults.
//
// Failure. A program that fails in one process fails in all that exchange something with it there, with an error that
// names the process; later launches work. After the loss of a process, and when processes launch different programs,
// all launches that exchange something fail; the processes must be started again. A process that does not arrive ends
// a launch with DEADLINE_EXCEEDED, sooner with FAILED_PRECONDITION if it cannot arrive any more.
HLO_EXPORT HLO_NODISCARD HloStatus target_client_connect(TargetClient *client, Transport *transport,
                                                         const TargetConnectOptions *options);
// Leaves the other processes in order: waits for everything submitted, and then until all have left or the transport's
// timeout has passed. Launches that exchange something with others are UNAVAILABLE from now on. Freeing the client does
// the same, but that happens only with its last buffer and executable: a process that ends earlier looks to the others
// as if it had died. Does nothing for a client that is not connected. No other thread may launch at the same time.
HLO_EXPORT void target_client_leave(TargetClient *client);
// Returns the number of processes that share the machine: 1 without target_client_connect().
HLO_EXPORT int64_t target_client_process_count(const TargetClient *client);
// Returns the number of this process, from 0.
HLO_EXPORT int64_t target_client_process_index(const TargetClient *client);
// Returns the name of a process in messages; NULL without target_client_connect(). Lives until the client leaves.
HLO_EXPORT const char *target_client_process_name(const TargetClient *client, int64_t process);
// True if this process runs the device.
HLO_EXPORT bool target_device_is_local(const TargetDevice *device);
// Returns the number of devices of the machine; those of other processes can only be named.
HLO_EXPORT int64_t target_client_device_count(const TargetClient *client);
// Returns device number `index` of the client's list, in jax.devices() order; NULL outside it.
HLO_EXPORT TargetDevice *target_client_device(const TargetClient *client, int64_t index);
// Returns the device with this id, or NULL.
HLO_EXPORT TargetDevice *target_client_find_device(const TargetClient *client, int64_t id);
// Returns the device's memory of that kind.
HLO_EXPORT TargetMemory *target_device_memory(const TargetDevice *device, TargetMemoryKind kind);
// Returns the kind of memory that the layout of an array (not a tuple) requests (HLO_SPACE_PINNED_HOST and so on);
// spaces without a memory of their own, and shapes without a layout, count as device. Any thread.
HLO_EXPORT TargetMemoryKind target_memory_kind_of(const HloShape *shape);
// Returns memories[0], which contains arguments and results.
HLO_EXPORT TargetMemory *target_device_default_memory(const TargetDevice *device);
// Returns the layout that the machine's runtime gives an array in a memory, allocated in `arena`: tiled on a TPU, with
// the order of dimensions that pads least, or in the order `minor_to_major` (each dimension once; NULL: the machine
// chooses). Row-major without tiles on host devices and, in the default order, in unpinned host memory. It only informs
// people and frameworks: buffers here are dense regardless.
HLO_EXPORT const HloLayout *target_memory_layout(const TargetMemory *memory, const HloShape *shape,
                                                 const HloInts *minor_to_major, HloArena *arena);
// Does the same as a CompileLayoutFunction (compile/layouts.h): `device` is a TargetDevice, the memory is the one that
// the shape's own layout names.
HLO_EXPORT const HloLayout *target_machine_layout(void *device, HloArena *arena, const HloShape *shape,
                                                  const HloInts *minor_to_major);
// Reads the current and peak contents of the device's buffers.
HLO_EXPORT void target_device_memory_statistics(const TargetDevice *device, TargetMemoryStatistics *statistics);
// Resets the peak.
HLO_EXPORT void target_device_memory_statistics_clear(TargetDevice *device);
// Waits until everything submitted before has run.
HLO_EXPORT void target_client_synchronize(TargetClient *client);

// ---- buffers

// An array in the caller's memory.
typedef struct TargetHostArray {
    const void *data;
    HloType type;
    int64_t rank;
    const int64_t *dims;
    const int64_t *byte_strides;  // per dimension, may be 0 or negative; NULL for dense row-major
} TargetHostArray;

// Creates a buffer in `memory` with a copy of a host array. The data has been read when the call returns.
// INVALID_ARGUMENT for negative sizes and types without elements, RESOURCE_EXHAUSTED when memory is short.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_from_host(const TargetHostArray *array, TargetMemory *memory,
                                                           TargetBuffer **buffer);
// Does the same from an array literal (tuples: INVALID_ARGUMENT, create one buffer per leaf).
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_from_literal(const HloLiteral *literal, TargetMemory *memory,
                                                              TargetBuffer **buffer);
// Creates a buffer of this array or token shape with undefined content, or zeros.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_uninitialized(const HloShape *shape, TargetMemory *memory,
                                                               TargetBuffer **buffer);
// Creates a buffer that holds an error instead of data; takes ownership of `error`, which must not be NULL.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_from_error(const HloShape *shape, TargetMemory *memory,
                                                            HloStatus error, TargetBuffer **buffer);
// Creates a buffer of shape `bounds`, whose dimensions of dynamic size are as large as those of the literal: the form
// of an argument with such a shape. INVALID_ARGUMENT if the literal does not fit; RESOURCE_EXHAUSTED.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_from_literal_bounded(const HloLiteral *literal, const HloShape *bounds,
                                                                      TargetMemory *memory, TargetBuffer **buffer);
// Adds a reference; returns `buffer`.
HLO_EXPORT TargetBuffer *target_buffer_retain(TargetBuffer *buffer);
// Takes a reference; accepts NULL. Executions in flight keep the memory that they need.
HLO_EXPORT void target_buffer_release(TargetBuffer *buffer);
// Returns the array's shape, without layout. Lives as long as the buffer.
HLO_EXPORT const HloShape *target_buffer_shape(const TargetBuffer *buffer);
// Returns the memory it was created in.
HLO_EXPORT TargetMemory *target_buffer_memory(const TargetBuffer *buffer);
// Returns the device of that memory.
static inline TargetDevice *target_buffer_device(const TargetBuffer *buffer) {
    return target_buffer_memory(buffer)->device;
}
// Returns the bytes that the buffer takes on its device.
HLO_EXPORT int64_t target_buffer_bytes(const TargetBuffer *buffer);
// Releases the memory as soon as executions in flight allow; using the buffer is INVALID_ARGUMENT from now on.
HLO_EXPORT void target_buffer_delete(TargetBuffer *buffer);
// True after target_buffer_delete() and after the buffer was donated to an execution.
HLO_EXPORT bool target_buffer_is_deleted(const TargetBuffer *buffer);
// Returns the event that becomes ready with the content (or the error); a new reference that the caller releases.
HLO_EXPORT TargetEvent *target_buffer_ready_event(TargetBuffer *buffer);
// Waits, then copies the array to `destination`: `bytes` must be its dense size; `minor_to_major` NULL for row-major.
// Returns the buffer's error if it holds one.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_to_host(TargetBuffer *buffer, void *destination, int64_t bytes,
                                                         const int64_t *minor_to_major);
// Does the same without waiting: *event (a new reference) becomes ready when the copy is complete; `destination` must
// stay valid. The buffer may be deleted or donated meanwhile: copies requested before are still made. Errors of the
// arguments are returned immediately.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_to_host_async(TargetBuffer *buffer, void *destination, int64_t bytes,
                                                               const int64_t *minor_to_major, TargetEvent **event);
// Waits and copies part of the raw bytes.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_to_host_raw(TargetBuffer *buffer, void *destination, int64_t offset,
                                                             int64_t bytes);
// Waits and sets the actual sizes of the dimensions: those of dynamic size at most their bounds. `sizes` has room for
// the rank.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_sizes(TargetBuffer *buffer, int64_t *sizes);
// Waits and creates a literal on the heap (free with hlo_literal_free()), of the array's actual size.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_to_literal(TargetBuffer *buffer, HloLiteral **literal);
// Copies to another memory of the same client. Asynchronous; an error is propagated. UNIMPLEMENTED for a device of
// another process: programs move data between processes.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_copy_to_memory(TargetBuffer *buffer, TargetMemory *memory,
                                                                TargetBuffer **copy);
// Returns the same bytes as an array of another type or other dims. INVALID_ARGUMENT unless the sizes are equal.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_bitcast(TargetBuffer *buffer, const HloShape *shape,
                                                         TargetBuffer **result);
// Creates a buffer that the caller promises to fill: it becomes ready by one of the two functions below. Executions
// that take it wait for that, and so do those submitted after them.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_pending(const HloShape *shape, TargetMemory *memory,
                                                         TargetBuffer **pending);
// Gives a pending buffer the content of another one of its size, as soon as that is ready; an error is propagated.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_fulfil(TargetBuffer *pending, TargetBuffer *with);
// Breaks the promise: the buffer holds the error from now on. Takes ownership of `error`.
HLO_EXPORT void target_buffer_fail(TargetBuffer *pending, HloStatus error);
// Creates a buffer that is the memory at `data`, row-major, without a copy, if that is aligned to 64 bytes; else a
// copy. It must not change until release(data, argument) is called: once, on any thread, when the buffer is freed and
// nothing reads it.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_view(const HloShape *shape, TargetMemory *memory, void *data,
                                                      void (*release)(void *data, void *argument), void *argument,
                                                      TargetBuffer **buffer);
// Waits and returns the address of the content, which may be read while the buffer is neither deleted nor released.
HLO_EXPORT HLO_NODISCARD HloStatus target_buffer_data(TargetBuffer *buffer, const void **data);
// Prevents in-place donation of the buffer: a donation copies until the matching target_buffer_drop_external().
HLO_EXPORT void target_buffer_hold_external(TargetBuffer *buffer);
// Ends a target_buffer_hold_external().
HLO_EXPORT void target_buffer_drop_external(TargetBuffer *buffer);

// ---- executables

typedef struct TargetCompileOptions {
    int64_t replica_count;    // 0: the module's count
    int64_t partition_count;  // 0: the module's count
    // Device ids, replica_count rows of partition_count; NULL: the client's first devices in order.
    const int64_t *device_assignment;
    TargetNumerics numerics;
    // Set to true when a program is rejected because a device has less memory than it needs. RESOURCE_EXHAUSTED is also
    // returned when this machine lacks memory for compiling. May be NULL.
    bool *exceeds_device;
    // The program is only asked about, for a machine that need not exist, and never runs: what nothing here could run,
    // such as a kernel for a TPU's cores, is accepted. target_execute() refuses it with FAILED_PRECONDITION.
    bool is_inspected;
    // The module stays as it is while the executable lives, so that its memory can be analysed on request.
    bool keeps_module;
} TargetCompileOptions;

// Compiles a module that is already the program of one device (made by the partitioner, or written so). The module is
// read only during the call. Entry parameters and results are flattened: argument number i is leaf i of all parameters
// in order, result number i is leaf i of the root. INVALID_ARGUMENT for programs that cannot run (groups that leave
// devices out, unknown devices), FAILED_PRECONDITION for collectives that some members of a group never reach (naming
// which device waits where for which), UNIMPLEMENTED naming an op that this target does not support, RESOURCE_EXHAUSTED
// for programs that need more memory than the devices have. `options` NULL: defaults.
HLO_EXPORT HLO_NODISCARD HloStatus target_compile(TargetClient *client, const HloModule *module,
                                                  const TargetCompileOptions *options, TargetExecutable **executable);
// Adds a reference; returns `executable`.
HLO_EXPORT TargetExecutable *target_executable_retain(TargetExecutable *executable);
// Takes a reference; accepts NULL. Executions in flight finish first.
HLO_EXPORT void target_executable_release(TargetExecutable *executable);
// Forbids further executions (they return FAILED_PRECONDITION).
HLO_EXPORT void target_executable_delete(TargetExecutable *executable);
// True after target_executable_delete().
HLO_EXPORT bool target_executable_is_deleted(const TargetExecutable *executable);
// Returns the module's name.
HLO_EXPORT const char *target_executable_name(const TargetExecutable *executable);
// Returns the client it was compiled for; no new reference.
HLO_EXPORT TargetClient *target_executable_client(const TargetExecutable *executable);
// Returns the number of replicas: copies of the program that share only cross-replica collectives.
HLO_EXPORT int64_t target_executable_replica_count(const TargetExecutable *executable);
// Returns the number of partitions: the devices of one replica.
HLO_EXPORT int64_t target_executable_partition_count(const TargetExecutable *executable);
// Returns replica_count * partition_count: the length of the lists that target_execute() takes.
HLO_EXPORT int64_t target_executable_device_count(const TargetExecutable *executable);
// Returns the device at `index` of the assignment: replica index / partition_count, partition index % partition_count.
HLO_EXPORT TargetDevice *target_executable_device(const TargetExecutable *executable, int64_t index);
// Returns the number of flattened arguments of one device.
HLO_EXPORT int64_t target_executable_argument_count(const TargetExecutable *executable);
// Returns the shape of flattened argument `index`, without layout.
HLO_EXPORT const HloShape *target_executable_argument_shape(const TargetExecutable *executable, int64_t index);
// Returns the number of flattened results of one device.
HLO_EXPORT int64_t target_executable_result_count(const TargetExecutable *executable);
// Returns the shape of flattened result `index`, without layout.
HLO_EXPORT const HloShape *target_executable_result_shape(const TargetExecutable *executable, int64_t index);
// Returns the memory in which the program expects flattened argument `index`, by the layouts of the module's entry
// (HLO_SPACE_DEVICE, HLO_SPACE_PINNED_HOST, HLO_SPACE_UNPINNED_HOST; others count as device).
HLO_EXPORT TargetMemoryKind target_executable_argument_memory(const TargetExecutable *executable, int64_t index);
// Returns the memory in which the program creates result `index`, in the same way.
HLO_EXPORT TargetMemoryKind target_executable_result_memory(const TargetExecutable *executable, int64_t index);
// Returns the argument whose memory result `index` takes over when it is donated, or -1.
HLO_EXPORT int64_t target_executable_result_alias(const TargetExecutable *executable, int64_t index);
// True if the program donates this argument: input_output_alias or buffer_donor names it.
HLO_EXPORT bool target_executable_argument_is_donated(const TargetExecutable *executable, int64_t index);
// Returns the number of transfers with the host that the program names.
HLO_EXPORT int64_t target_executable_transfer_count(const TargetExecutable *executable);
// Returns the channel of transfer `index`; *to_host is true if the device sends.
HLO_EXPORT int64_t target_executable_transfer(const TargetExecutable *executable, int64_t index, bool *to_host);
// True for a received value that the program does not use: a sign that the host is done, as JAX's callbacks without
// results send it.
HLO_EXPORT bool target_executable_transfer_is_unread(const TargetExecutable *executable, int64_t index);
// Returns a number that is the same for equal programs compiled with equal options.
HLO_EXPORT uint64_t target_executable_fingerprint(const TargetExecutable *executable);

// Bytes of one device. On a slice they are those of the machine model (emulator/simulate.h), padded to tiles, as
// `meshlo emulate` reports them; on host processors dense, as buffer assignment determined them.
typedef struct TargetMemoryAnalysis {
    int64_t argument_bytes, output_bytes;
    int64_t alias_bytes;      // of outputs that reuse an argument's memory
    int64_t temporary_bytes;  // on host processors the arena, less host_temporary_bytes
    int64_t constant_bytes;
    int64_t generated_code_bytes;
    int64_t host_argument_bytes, host_output_bytes, host_alias_bytes;  // the same in host memory, counted separately
    int64_t host_temporary_bytes;                                      // of values that the program keeps there
    int64_t peak_bytes;                                                // arguments + outputs - aliased + temporaries
    int64_t dense_temporary_bytes;  // what the temporaries take on this host while the program runs
} TargetMemoryAnalysis;
// Returns the memory that one device needs. Any thread.
HLO_EXPORT void target_executable_memory_analysis(const TargetExecutable *executable, TargetMemoryAnalysis *analysis);

// Work of one device.
typedef struct TargetCostAnalysis {
    double flops, transcendentals, bytes_accessed;
    double collective_bytes;   // sent by one device, ring algorithm
    int64_t collective_count;  // static ones
} TargetCostAnalysis;
// Returns the work of one device, as hlo/analysis counts it.
HLO_EXPORT void target_executable_cost_analysis(const TargetExecutable *executable, TargetCostAnalysis *analysis);

// Returns the instructions without a compiled form, which the reference evaluator runs (slowly): one "opcode name" line
// each, "" if there are none. Lives as long as the executable.
HLO_EXPORT const char *target_executable_fallbacks(const TargetExecutable *executable);
// Prints the compiled form for people: thunks, fused loops, buffers. Free with hlo_free(); NULL when memory is short.
HLO_EXPORT char *target_executable_to_text(const TargetExecutable *executable);

// The channels on which `infeed` and `outfeed` transfer: each of their arrays separately, in the order of the leaves.
enum { TARGET_CHANNEL_INFEED = -1, TARGET_CHANNEL_OUTFEED = -2 };

// The transfers of a program with the host: instructions send and recv with is_host_transfer, which name their channel,
// and infeed and outfeed. The program waits in each of them. They are called on any thread, without locks held, in
// program order for one index of the assignment and concurrently for several; they may do anything, even run programs
// of this client and wait for them (but not for those submitted after this execution, which would wait forever). An
// error ends the execution: its results hold it.
typedef struct TargetHostTransfers {
    // Takes the array of hlo_shape_bytes(shape) bytes that the device at `place` sends over `channel`; it is valid only
    // during the call.
    HloStatus (*send)(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data);
    // Fills an array for the device at `place` of the assignment.
    HloStatus (*receive)(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data);
    // Called once when no other call can follow, before the execution's events become ready; may be NULL.
    void (*release)(void *context);
    void *context;
} TargetHostTransfers;

// Receives trace events of the devices while a program runs, from any thread. Times are nanoseconds of CLOCK_REALTIME.
typedef struct TargetTrace {
    // `device` ran instruction `name`, or all of the program of that name. The name is valid only during the call.
    void (*event)(void *context, const TargetDevice *device, const char *name, bool program, int64_t begin_ns,
                  int64_t end_ns);
    // Called once when no other call can follow, before the execution's events become ready; may be NULL.
    void (*release)(void *context);
    void *context;
} TargetTrace;

// Learns how far a program is, from any thread, several at a time, until the execution's events become ready.
typedef struct TargetProgress {
    // The share of the estimated work that is done, from 0 to 1; shares of several threads may come out of order.
    void (*report)(void *context, double share);
    void *context;
} TargetProgress;

typedef struct TargetExecuteOptions {
    // Arguments that must not be donated even if the program donates them.
    const int64_t *non_donatable;
    int64_t non_donatable_count;
    bool synchronous;                      // run before returning; the status of the run is returned too
    const TargetHostTransfers *transfers;  // copied; taken over when the call succeeds. NULL: none
    const TargetTrace *trace;              // copied; taken over when the call succeeds. NULL: none
    const TargetProgress *progress;        // copied. NULL: none
    int64_t launch_id;                     // any number, for target_device_poison()
    TargetDevice *device;                  // replaces the device of a one-device program; NULL: its own
} TargetExecuteOptions;

// Runs the program once on all its devices; of several processes each runs those that are local, and entries of the
// lists for other devices are neither read nor written (INVALID_ARGUMENT if none is local). arguments[d][i] is argument
// i at index d of the assignment (and must be in a memory of that device); results[d][i] are filled with new buffers.
// device_events, when not NULL, gets one new event per device that becomes ready when it has finished. Donated
// arguments are deleted. The results of a failing run hold the error. INVALID_ARGUMENT for wrong counts, shapes,
// devices, deleted buffers, and for a buffer that is donated twice or donated and read; then no argument has been
// touched and no result created. A program with host transfers needs options->transfers (INVALID_ARGUMENT). `options`
// NULL: defaults.
HLO_EXPORT HLO_NODISCARD HloStatus target_execute(TargetExecutable *executable, const TargetExecuteOptions *options,
                                                  TargetBuffer *const *const *arguments, int64_t argument_count,
                                                  TargetBuffer **const *results, TargetEvent **device_events);
// Makes executions on the device that are still queued and were submitted with this launch id fail with `error` when
// their turn comes; takes ownership of it. False if there are none. They fail on all their devices: a program runs on
// all or none.
HLO_EXPORT bool target_device_poison(TargetDevice *device, int64_t launch_id, HloStatus error);

HLO_END_C

#endif
