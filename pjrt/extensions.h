// SPDX-License-Identifier: Apache-2.0
// The extensions of the C API that this plugin offers, declared in our own words as in pjrt/abi.h: for each a node and
// its functions. Source: xla/pjrt/c/pjrt_c_api_*_extension.h, xla/backends/profiler/plugin/profiler_c_api.h of the XLA
// inside jaxlib 0.10.2.
#ifndef MESHLO_PJRT_EXTENSIONS_H_
#define MESHLO_PJRT_EXTENSIONS_H_

#include "pjrt/abi.h"

// ---- shardings of executables (type 19)

typedef struct PjrtShardingsExtension {
    PjrtExtension node;
    PjrtFunction *parameters;  // both take PjrtShardingsArgs
    PjrtFunction *outputs;
} PjrtShardingsExtension;
_Static_assert(sizeof(PjrtShardingsExtension) == 40, "the ABI's size of the shardings extension");

// ---- layouts (type 4)

typedef struct PjrtLayout PjrtLayout;

typedef struct PjrtLayoutDestroyArgs {
    PJRT_HEAD;
    PjrtLayout *layout;
} PjrtLayoutDestroyArgs;

typedef struct PjrtLayoutSerializeArgs {
    PJRT_HEAD;
    PjrtLayout *layout;
    const char *serialized_bytes;  // "{1,0:T(8,128)}"
    size_t serialized_bytes_size;
    void *serialized_layout;
    PjrtDeleter *serialized_layout_deleter;
} PjrtLayoutSerializeArgs;

typedef struct PjrtBufferLayoutArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtLayout *layout;  // the caller destroys it
} PjrtBufferLayoutArgs;

// For a client or for a topology.
typedef struct PjrtDefaultLayoutArgs {
    PJRT_HEAD;
    void *owner;
    int32_t type;
    const int64_t *dims;
    size_t num_dims;
    PjrtLayout *layout;  // the caller destroys it
} PjrtDefaultLayoutArgs;

typedef struct PjrtExecutableLayoutsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t count;
    PjrtLayout **layouts;  // the executable's
} PjrtExecutableLayoutsArgs;

typedef struct PjrtLayoutsExtension {
    PjrtExtension node;
    PjrtFunction *destroy;
    PjrtFunction *serialize;
    PjrtFunction *client_default;
    PjrtFunction *buffer;
    PjrtFunction *topology_default;
    PjrtFunction *outputs;
    PjrtFunction *parameters;
} PjrtLayoutsExtension;
_Static_assert(sizeof(PjrtLayoutsExtension) == 80, "the ABI's size of the layouts extension");

// ---- memories of device descriptions (type 6)

typedef struct PjrtMemoryDescription PjrtMemoryDescription;

typedef struct PjrtDeviceMemoriesArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    const PjrtMemoryDescription *const *memories;
    size_t count;
} PjrtDeviceMemoriesArgs;

typedef struct PjrtMemoryDescriptionKindArgs {
    PJRT_HEAD;
    const PjrtMemoryDescription *memory_description;
    const char *kind;
    size_t kind_size;
    int32_t kind_id;
} PjrtMemoryDescriptionKindArgs;

typedef struct PjrtMemoryDescriptionsExtension {
    PjrtExtension node;
    PjrtFunction *memories;
    PjrtFunction *kind;
} PjrtMemoryDescriptionsExtension;
_Static_assert(sizeof(PjrtMemoryDescriptionsExtension) == 40, "the ABI's size of the memory descriptions extension");

// ---- profiler (type 1): structs of its own, without extension_start; errors are PjrtError

typedef struct PjrtProfiler PjrtProfiler;

typedef struct PjrtProfilerCreateArgs {
    size_t struct_size;
    const char *options;  // ProfileOptions
    size_t options_size;
    PjrtProfiler *profiler;
} PjrtProfilerCreateArgs;

// Destroy, Start and Stop.
typedef struct PjrtProfilerArgs {
    size_t struct_size;
    PjrtProfiler *profiler;
} PjrtProfilerArgs;

typedef struct PjrtProfilerCollectArgs {
    size_t struct_size;
    PjrtProfiler *profiler;
    uint8_t *buffer;  // NULL: points to the profiler's bytes afterwards
    size_t buffer_size_in_bytes;
} PjrtProfilerCollectArgs;

typedef struct PjrtProfilerApi {
    size_t struct_size;
    void *unused;
    PjrtFunction *error_destroy, *error_message, *error_get_code;
    PjrtFunction *create, *destroy, *start, *stop, *collect_data;
} PjrtProfilerApi;
_Static_assert(sizeof(PjrtProfilerApi) == 80, "the ABI's size of the profiler's table");

typedef struct PjrtProfilerExtension {
    PjrtExtension node;
    const PjrtProfilerApi *api;
    int64_t traceme_context_id;
} PjrtProfilerExtension;
_Static_assert(sizeof(PjrtProfilerExtension) == 40, "the ABI's size of the profiler extension");

// ---- custom partitioners (type 2): structs of their own

// The target of the custom calls that JAX's custom_partitioning makes.
#define PJRT_JAX_PARTITIONING_CALL "CustomSPMDPartitioning"

typedef struct PjrtPartitionerString {
    const char *data;
    size_t size;
} PjrtPartitionerString;

typedef struct PjrtPartitionerArray {
    PjrtPartitionerString shape;  // ShapeProto
    bool has_sharding;
    PjrtPartitionerString sharding;  // OpSharding
} PjrtPartitionerArray;

typedef struct PjrtPartitionerHeader {
    int64_t api_version;  // 0
    void *data;           // out
    void (*cleanup)(void *data);
    bool has_error;
    int32_t code;
    PjrtPartitionerString error;
} PjrtPartitionerHeader;

typedef struct PjrtPartitionerPartitionArgs {
    PjrtPartitionerHeader header;
    size_t operand_count;
    PjrtPartitionerArray *operands;
    PjrtPartitionerArray result;
    PjrtPartitionerString configuration;
    PjrtPartitionerString program;  // out: MLIR bytecode
    PjrtPartitionerString *operand_shardings;
    PjrtPartitionerString result_sharding;
} PjrtPartitionerPartitionArgs;
_Static_assert(sizeof(PjrtPartitionerPartitionArgs) == 160, "the ABI's size of the arguments of partition");

typedef struct PjrtPartitionerInferArgs {
    PjrtPartitionerHeader header;
    size_t operand_count;
    PjrtPartitionerArray *operands;
    PjrtPartitionerString result_shape;
    PjrtPartitionerString configuration;
    bool has_result_sharding;  // out
    PjrtPartitionerString result_sharding;
} PjrtPartitionerInferArgs;
_Static_assert(sizeof(PjrtPartitionerInferArgs) == 120, "the ABI's size of the arguments of infer_sharding");

typedef struct PjrtPartitionerUserArgs {
    PjrtPartitionerHeader header;
    PjrtPartitionerString configuration;
    PjrtPartitionerString result_shape;
    PjrtPartitionerString result_sharding;  // in, out
} PjrtPartitionerUserArgs;
_Static_assert(sizeof(PjrtPartitionerUserArgs) == 96, "the ABI's size of the arguments of propagate_user_sharding");

typedef struct PjrtPartitionerCallbacks {
    int64_t version;
    void *data;
    void (*destroy)(struct PjrtPartitionerCallbacks *callbacks);
    void (*partition)(struct PjrtPartitionerCallbacks *callbacks, PjrtPartitionerPartitionArgs *args);
    void (*infer)(struct PjrtPartitionerCallbacks *callbacks, PjrtPartitionerInferArgs *args);
    void (*propagate_user_sharding)(struct PjrtPartitionerCallbacks *callbacks, PjrtPartitionerUserArgs *args);
    bool side_effects_may_be_replicated;
} PjrtPartitionerCallbacks;

typedef struct PjrtRegisterPartitionerArgs {
    size_t struct_size;
    const char *name;
    size_t name_size;
    PjrtPartitionerCallbacks *callbacks;
} PjrtRegisterPartitionerArgs;

typedef struct PjrtCustomPartitionerExtension {
    PjrtExtension node;
    PjrtFunction *register_partitioner;  // takes PjrtRegisterPartitionerArgs
    PjrtFunction *register_batch_partitionable;
} PjrtCustomPartitionerExtension;
_Static_assert(sizeof(PjrtCustomPartitionerExtension) == 40, "the ABI's size of the custom partitioner extension");

// ---- arrays that move between processes outside of programs (type 12)

typedef struct PjrtCrossHostSendArgs {
    PJRT_HEAD;
    PjrtClient *client;
    size_t num_buffers;
    PjrtBuffer *const *buffers;
    const int32_t *dst_device_ids;  // of each buffer
    const int64_t *transfer_keys;   // the same as the receiver's
    PjrtEvent **send_events;        // out
} PjrtCrossHostSendArgs;

typedef struct PjrtCrossHostReceiveArgs {
    PJRT_HEAD;
    PjrtClient *client;
    size_t num_shapes;
    const size_t *num_dims;  // of each shape
    const int64_t *const *dims;
    const int32_t *element_types;
    PjrtMemoryLayout *const *layouts;
    PjrtDevice *device;
    const int32_t *src_device_ids;
    const int64_t *transfer_keys;
    PjrtBuffer **buffers;  // out
} PjrtCrossHostReceiveArgs;

typedef struct PjrtCopyToRemoteDeviceArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtEvent *event;
    char **serialized_descriptor;
    size_t *serialized_descriptor_size;
    void *user_arg;
    void (*on_done)(PjrtError *error, bool sends_were_enqueued, void *user_arg);
} PjrtCopyToRemoteDeviceArgs;

typedef struct PjrtCrossHostTransfersExtension {
    PjrtExtension node;
    PjrtFunction *make_receive_buffers;
    void (*copy_to_remote_device)(void *args);  // takes PjrtCopyToRemoteDeviceArgs
    PjrtFunction *receive_buffers;              // takes PjrtCrossHostReceiveArgs
    PjrtFunction *send_buffers;                 // takes PjrtCrossHostSendArgs
} PjrtCrossHostTransfersExtension;
_Static_assert(sizeof(PjrtCrossHostTransfersExtension) == 56, "the ABI's size of the transfers extension");
_Static_assert(offsetof(PjrtCrossHostSendArgs, send_events) == 56, "the ABI's place of send_events");
_Static_assert(offsetof(PjrtCrossHostReceiveArgs, buffers) == 88, "the ABI's place of buffers");

// ---- the chain: the nodes of the extensions, linked by `next`

// The chain that PjrtApi.extension_start points to, in its order. The ABI's links are not const, so these are not
// either, but they are never written.
extern PjrtShardingsExtension pjrt_shardings_extension;
extern PjrtCrossHostTransfersExtension pjrt_cross_host_transfers_extension;
extern PjrtLayoutsExtension pjrt_layouts_extension;  // of buffers, and of programs' arguments and results
extern PjrtMemoryDescriptionsExtension pjrt_memory_descriptions_extension;  // the kinds of memory that a device has
extern PjrtCustomPartitionerExtension pjrt_custom_partitioner_extension;    // custom calls that a framework partitions
extern PjrtProfilerExtension pjrt_profiler_extension;                       // traces for jax.profiler

#endif
