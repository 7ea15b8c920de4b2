// SPDX-License-Identifier: Apache-2.0
// What the handles of the PJRT C API point to, and what all files of the plugin share. The work is done in the layers
// below: a handle is a reference to an object of targets/client.h, with the strings and lists that the API returns.
//
// Terms:
//   handle       an object of the C API (PJRT_Client, PJRT_Buffer ...): a struct of this file, freed by its Destroy.
//   table        the struct of function pointers that PJRT_Api or an extension is; abi.c checks every offset.
//   extension    a further table in the list of PJRT_Api.extension_start, each with its own version.
//   event        the completion of something asynchronous: pending, ready, or ready with an error.
//   launch       a call of PJRT_LoadedExecutable_Execute; its positions are the addressable devices in order.
//   donation     giving up an argument's memory to a result, at the latest when the launch begins.
//   addressable  belonging to this process; with several processes each has the devices of its hosts only.
//
// Threads: handles are immutable except for the atomic reference counts, or guard their lazily made parts with a mutex.
#ifndef MESHLO_PJRT_OBJECTS_H_
#define MESHLO_PJRT_OBJECTS_H_

#include <pthread.h>
#include <stdatomic.h>

#include "compile/pipeline.h"
#include "hlo/base/text.h"
#include "pjrt/abi.h"
#include "spmd_partitioner/spmd.h"
#include "targets/client.h"
#include "transport/transport.h"

// True if the caller's struct is long enough to have this field.
#define PJRT_HAS(arguments, field) \
    ((arguments)->struct_size >= offsetof(__typeof__(*(arguments)), field) + sizeof((arguments)->field))

// ---- errors
// ----------------------------------------------------------------------------------------------------------

struct PjrtError {
    const PjrtErrorFunctionTable *table;  // the ABI's first member
    HloStatus status;
    char *text;  // the message with its position, for an error in a program's text; else NULL
};

// Wraps an error; takes ownership. NULL stays NULL (success). When memory is short a static error comes back.
PjrtError *pjrt_error_from(HloStatus status);
// The caller's error as a status, never success: codes that absl does not have are UNKNOWN. `message` has `size` bytes
// and may be NULL.
HLO_NODISCARD HloStatus pjrt_status_of(int32_t code, const char *message, size_t size);
// Makes an error with a printf-style message.
PjrtError *pjrt_fail(HloCode code, const char *format, ...) HLO_PRINTF(2, 3);

// Returns from a handler when `expression` (a HloStatus) is an error.
#define PJRT_TRY(expression)                                            \
    do {                                                                \
        HloStatus pjrt_try_status_ = (expression);                      \
        if (pjrt_try_status_) return pjrt_error_from(pjrt_try_status_); \
    } while (0)

// Returns INVALID_ARGUMENT from a handler when the caller's struct ends before its last required field.
#define PJRT_CHECK_SIZE(arguments, last)                                                                   \
    do {                                                                                                   \
        if (!PJRT_HAS(arguments, last)) {                                                                  \
            return pjrt_fail(HLO_INVALID_ARGUMENT, "%s: the argument struct has %zu bytes only", __func__, \
                             (arguments)->struct_size);                                                    \
        }                                                                                                  \
    } while (0)

// ---- events
// ----------------------------------------------------------------------------------------------------------

struct PjrtEvent {
    TargetEvent *event;
};

// A handle on an event; takes the reference. NULL when memory is short (the reference is released then), or was already
// when the event was to be made: `event` may be NULL.
PjrtEvent *pjrt_event_from(TargetEvent *event);
// An event that is ready already.
PjrtEvent *pjrt_event_ready(void);

// ---- clients, devices, memories, topologies
// --------------------------------------------------------------------------

struct PjrtMemory {
    const PjrtMemoryFunctionTable *table;  // NULL: allowed by the ABI
    TargetMemory *memory;
    PjrtDevice *device;
    int32_t id;
};

enum { PJRT_DEVICE_ATTRIBUTES = 4 };

struct PjrtDeviceDescription {
    const TargetDevice *device;
    PjrtNamedValue attributes[PJRT_DEVICE_ATTRIBUTES];
    size_t attribute_count;
};

struct PjrtDevice {
    PjrtDeviceDescription description;
    TargetDevice *device;
    PjrtClient *client;
    PjrtMemory **memories;  // of this device, the default one first
    size_t memory_count;
};

// The devices of a machine: a client's, or those of an ahead-of-time topology (which owns its client then).
struct PjrtTopology {
    TargetClient *client;
    char platform[32];  // the name the user chose, or "" for the machine's own: tpu or cpu
    PjrtDeviceDescription **descriptions;
    size_t count;
    bool owned;  // made by TopologyDescription_Create: its user destroys it
};

struct PjrtClient {
    TargetClient *client;
    PjrtDevice *devices;
    PjrtDevice **device_list;
    size_t device_count;
    PjrtMemory *memories;
    PjrtMemory **memory_list;
    size_t memory_count;
    PjrtTopology topology;
    HloText platform_version;
    int32_t process_index;            // the host that this process plays
    bool is_alone;                    // it plays only that one, without the others
    Transport *transport;             // to the other processes, the client\'s; NULL without them
    size_t first_local, local_count;  // its devices in device_list: all of them unless other processes play the rest
    size_t first_memory, local_memories;  // their memories in memory_list
};

// The slice's name: the option `topology`, else MESHLO_TOPOLOGY, else the eight cores of a TPU v2 host, as in the
// documents; other options (frameworks pass their name and version) are ignored. INVALID_ARGUMENT when it does not fit.
HLO_NODISCARD HloStatus pjrt_choose_spec(const PjrtNamedValue *options, size_t count, char *spec, size_t size);
// Copies the string option `name`, if given, into `text`, with a NUL; `text` stays as it is otherwise. INVALID_ARGUMENT
// when it is not a string or does not fit.
HLO_NODISCARD HloStatus pjrt_read_option(const PjrtNamedValue *options, size_t count, const char *name, char *text,
                                         size_t size);
// The platform's name: the option `platform`, for frameworks that treat TPUs in their own way, or the machine's own.
const char *pjrt_platform_name(const PjrtTopology *topology);
// Fills a description with the attributes that frameworks read.
void pjrt_describe_device(PjrtDeviceDescription *description, const TargetDevice *device, bool several_slices);
// True if the machine is more than one slice.
bool pjrt_has_several_slices(const TargetClient *client);

// Makes the client of the machine `spec` as this process takes part in it, and sets what PjrtClient says of that once
// pjrt_choose_local() has been called. The environment, jax.distributed and the options decide
// (transport/environment.h): several processes are connected, and each has its host's devices; one process alone has
// all hosts' as one; the option `process_index` or MESHLO_PROCESS_INDEX make it one host without the others, whose
// devices are known but run nothing. Errors as target_client_join(). Processes that cannot be connected are refused:
// each would play a slice of its own.
HLO_NODISCARD HloStatus pjrt_join(const PjrtClientCreateArgs *args, const char *spec, PjrtClient *client);
// Fills in which devices and memories are this process's, when all are listed.
void pjrt_choose_local(PjrtClient *client);
// True if the device is one of this process's host.
bool pjrt_is_local(const PjrtDevice *device);
// INVALID_ARGUMENT unless a memory belongs to this process.
HLO_NODISCARD HloStatus pjrt_check_local(const PjrtMemory *memory);

typedef struct PjrtStore PjrtStore;
// The framework's key-value store, of the callbacks that Client_Create got; NULL if it got none. Free with
// pjrt_store_free() before the call returns.
HLO_NODISCARD HloStatus pjrt_store_new(const PjrtClientCreateArgs *args, PjrtStore **store);
// Begins to use it as this process: clients that one process makes one after the other get keys of their own, which are
// the same in all processes if these make as many.
HLO_NODISCARD HloStatus pjrt_store_begin(PjrtStore *store, int64_t process);
// The store in the form of the layers below; NULL for NULL.
const TransportStore *pjrt_store_transport(PjrtStore *store);
void pjrt_store_free(PjrtStore *store);

// The status of an error that a callback returned, which may be another library's; destroys the error. NULL: success.
HLO_NODISCARD HloStatus pjrt_status_from_foreign(PjrtError *error);
// Makes an error for a callback, which gets this function's address with its arguments.
PjrtError *pjrt_make_error(int32_t code, const char *message, size_t message_size);

// The handle of a device or memory of the client below.
PjrtDevice *pjrt_device_of(PjrtClient *client, const TargetDevice *device);
// Every memory of the client has one handle.
PjrtMemory *pjrt_memory_of(PjrtClient *client, const TargetMemory *memory);

// ---- buffers
// ---------------------------------------------------------------------------------------------------------

// Arrays are row-major in memory whatever layout they have: that is a name which the array carries along.
struct PjrtBuffer {
    TargetBuffer *buffer;
    PjrtClient *client;
    char *layout;                           // "{0,1:T(8,128)}"; NULL for the default of its shape and memory
    struct PjrtLayoutLists *_Atomic lists;  // the same as lists, made on demand
};

// A handle for a buffer; takes the reference. `layout` (copied) comes from an executable or another buffer; NULL for
// the default one. NULL when memory is short (the reference is released then).
PjrtBuffer *pjrt_buffer_from(PjrtClient *client, TargetBuffer *buffer, const char *layout);

// ---- layouts
// ---------------------------------------------------------------------------------------------------------

// Appends the layout of an array shape, row-major where it has none, without its memory space.
void pjrt_layout_print(HloText *text, const HloShape *shape);
// The layout of an array in a memory, made in `arena`: the one that the caller requests, with the machine's tiles if it
// names none; the machine's own for NULL. UNIMPLEMENTED for strides, and in unpinned host memory for orders other than
// row-major; INVALID_ARGUMENT for another rank or for an invalid order. To be called under hlo_protect().
HLO_NODISCARD HloStatus pjrt_layout_make(HloArena *arena, const TargetMemory *memory, const HloShape *shape,
                                         const PjrtMemoryLayout *asked, const HloLayout **layout);
// Writes that layout to the empty `text`, which stays empty when it is the default one. Errors as above.
HLO_NODISCARD HloStatus pjrt_layout_choose(const TargetMemory *memory, const HloShape *shape,
                                           const PjrtMemoryLayout *asked, HloText *text);
// Appends the layout that an array has in a memory by default.
HLO_NODISCARD HloStatus pjrt_layout_default(const TargetMemory *memory, const HloShape *shape, HloText *text);
// True if `layout` is that one.
bool pjrt_layout_is_default(const TargetMemory *memory, const HloShape *shape, const char *layout);
// INVALID_ARGUMENT for a layout of another rank, with an invalid order of dimensions or with invalid tiles;
// UNIMPLEMENTED for strides.
HLO_NODISCARD HloStatus pjrt_layout_check(const PjrtMemoryLayout *asked, size_t rank);
// UNIMPLEMENTED, with `what` in the message, unless the bytes that the caller describes are dense and row-major, as
// NULL means.
HLO_NODISCARD HloStatus pjrt_layout_check_row_major(const PjrtMemoryLayout *asked, size_t rank, const char *what);

// Element types of the ABI and ours; 0 and HLO_INVALID for those without a partner.
int32_t pjrt_type_from_hlo(HloType type);
// The largest numbers of dimensions that a caller's array may have, and of tiles that its layout may.
enum { PJRT_MOST_DIMS = 64, PJRT_MOST_TILES = 8 };
// Reads a shape that the caller describes: *shape borrows `dims` and has no layout. UNIMPLEMENTED for an unknown type
// (a token is known), INVALID_ARGUMENT for too many dimensions, sizes that are negative, unbounded or too large in all.
HLO_NODISCARD HloStatus pjrt_shape_read(int32_t type, const int64_t *dims, size_t num_dims, HloShape *shape);
// The same of what must be an array: UNIMPLEMENTED for a token too.
HLO_NODISCARD HloStatus pjrt_array_read(int32_t type, const int64_t *dims, size_t num_dims, HloShape *shape);
// The memory that a call is about: the one named, or the device's default one. INVALID_ARGUMENT when neither is, and
// when it belongs to another process.
PjrtError *pjrt_choose_memory(PjrtMemory *memory, PjrtDevice *device, PjrtMemory **chosen);

// ---- executables
// -----------------------------------------------------------------------------------------------------

// Serialised shardings, memory kinds and the like: one string an argument or result.
typedef struct PjrtStrings {
    const char **items;
    size_t *sizes;
    size_t count;
} PjrtStrings;

struct PjrtExecutable {
    atomic_int references;
    TargetExecutable *executable;
    PjrtClient *client;            // NULL for one compiled for a topology only
    bool portable;                 // has no device of its own: each launch names one
    atomic_bool is_answered_late;  // a launch timed out: the program waits for an answer from the launching thread
    HloModule *whole;              // the program as it came; NULL once it is compiled
    CompiledModule *compiled;      // owns the two below
    const HloModule *module;       // the per-device program: what OptimizedProgram shows
    SpmdBoundary *boundary;        // global shapes and shardings; NULL for one device
    HloArena *arena;               // owns the lists below
    PjrtStrings parameter_shardings, result_shardings, parameter_memories, result_memories;
    PjrtStrings parameter_layouts, result_layouts;                    // "{1,0}", one an array
    const char **result_buffer_layouts;                               // the same, NULL where it is the default
    struct PjrtLayout **parameter_layout_list, **result_layout_list;  // handles on them, made on demand
    int32_t *result_types;
    int64_t *result_dims;
    size_t *result_ranks;
    size_t result_count;
    bool is_mlir;     // the format of `program`; else a protobuf
    HloText program;  // the caller's program and options, for serialisation
    HloText options;
    HloText optimised;     // HloModuleProtoWithConfig, made on demand
    pthread_mutex_t lock;  // guards what is made on demand
    char fingerprint[24];
    PjrtNamedValue costs[5];
};

struct PjrtLoadedExecutable {
    PjrtExecutable *executable;  // one reference
    PjrtDevice **devices;        // of the assignment; a portable one: any
    size_t device_count;
    PjrtDevice **local_devices;  // the devices of the assignment that this process reaches, and their indices in it
    PjrtLogicalId *logical_ids;
    size_t *local_places;  // the same indices in one number
    size_t local_count;
    HloText assignment;   // DeviceAssignmentProto
    atomic_bool deleted;  // this loading of the program; others of the same executable stay
};

// What to compile, and for which client.
typedef struct PjrtCompileRequest {
    PjrtClient *owner;     // NULL for a topology only
    TargetClient *client;  // the client that owns the devices
    const PjrtProgram *program;
    const char *options;  // CompileOptionsProto
    size_t options_size;
    bool stored;     // the program comes from a file: addresses in it mean nothing
    bool described;  // for a topology that is only described: nothing will run the program
} PjrtCompileRequest;

// Takes a reference; the last one frees.
void pjrt_executable_release(PjrtExecutable *executable);

// Tells the callback in the configuration of a custom-call InspectSharding what its operand's sharding is. For
// SpmdOptions.inspect; only for programs that this process has just lowered: the callback is an address.
HloStatus pjrt_inspect_sharding(void *unused, const HloInstruction *call, const HloSharding *sharding);

// The partitioner of all custom calls whose author has registered one, for SpmdOptions.custom_partitioner. If the
// program has calls of JAX's custom_partitioning without a registration, requests one from JAX. Only for programs that
// this process has just lowered: the calls name Python objects by their addresses.
HLO_NODISCARD HloStatus pjrt_find_partitioner(const HloModule *module, const SpmdCustomPartitioner **partitioner);
// True if a call of the program is one that a registered author partitions.
bool pjrt_asks_partitioner(const HloModule *module);

// The table of this plugin.
const PjrtApi *pjrt_api(void);

// ---- host callbacks
// --------------------------------------------------------------------------------------------------

// The transfers of one launch with the callbacks of `options`, for target_execute(): all is copied. INVALID_ARGUMENT
// when the program names a channel that no callback serves. *transfers is left alone for programs without transfers.
HLO_NODISCARD HloStatus pjrt_transfers_new(const PjrtExecuteOptions *options, const PjrtLoadedExecutable *loaded,
                                           TargetHostTransfers *transfers);

// Sets *trace, with a reference, to report an execution to the profile in progress; false when there is none.
bool pjrt_profiler_trace(TargetTrace *trace);

// Handlers of pjrt/functions.def.
#define PJRT_FUNCTION(name, handler) PjrtError *pjrt_##handler(void *arguments);
#include "pjrt/functions.def"
#undef PJRT_FUNCTION

#endif
