// SPDX-License-Identifier: Apache-2.0
// The PJRT C API 0.112, declared in our own words: the layout that jaxlib and other clients read and write. Names
// follow ours; orders, types and offsets are facts of the ABI, checked by assertions in abi.c (x86-64 and aarch64,
// LP64). Every argument struct begins with its size as the caller knows it: a caller may be older or newer than this.
// Source: xla/pjrt/c/pjrt_c_api.h of the XLA inside jaxlib 0.10.2.
#ifndef MESHLO_PJRT_ABI_H_
#define MESHLO_PJRT_ABI_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_API_MAJOR = 0, PJRT_API_MINOR = 112 };

// Handles, which the plugin defines (pjrt/objects.h). Errors and memories begin with a table of functions.
typedef struct PjrtClient PjrtClient;
typedef struct PjrtDevice PjrtDevice;
typedef struct PjrtDeviceDescription PjrtDeviceDescription;
typedef struct PjrtBuffer PjrtBuffer;
typedef struct PjrtEvent PjrtEvent;
typedef struct PjrtExecutable PjrtExecutable;
typedef struct PjrtLoadedExecutable PjrtLoadedExecutable;
typedef struct PjrtTopology PjrtTopology;
typedef struct PjrtStream PjrtStream;
typedef struct PjrtError PjrtError;
typedef struct PjrtMemory PjrtMemory;
typedef struct PjrtErrorGetCodeArgs PjrtErrorGetCodeArgs;
typedef struct PjrtErrorMessageArgs PjrtErrorMessageArgs;
typedef struct PjrtErrorDestroyArgs PjrtErrorDestroyArgs;
typedef struct PjrtErrorForEachPayloadArgs PjrtErrorForEachPayloadArgs;

// A node of an extension chain; the functions of the extension follow.
typedef struct PjrtExtension {
    size_t struct_size;
    int32_t type;
    struct PjrtExtension *next;
} PjrtExtension;
// Extension types that this plugin offers.
enum {
    PJRT_EXTENSION_PROFILER = 1,
    PJRT_EXTENSION_CUSTOM_PARTITIONER = 2,
    PJRT_EXTENSION_LAYOUTS = 4,
    PJRT_EXTENSION_MEMORY_DESCRIPTIONS = 6,
    PJRT_EXTENSION_CROSS_HOST_TRANSFERS = 12,
    PJRT_EXTENSION_SHARDINGS = 19
};

// How every argument struct begins.
#define PJRT_HEAD       \
    size_t struct_size; \
    PjrtExtension *extension_start

// A name with a value: attributes and options.
typedef enum PjrtNamedValueType {
    PJRT_VALUE_STRING,
    PJRT_VALUE_INT64,
    PJRT_VALUE_INT64_LIST,
    PJRT_VALUE_FLOAT,
    PJRT_VALUE_BOOL
} PjrtNamedValueType;
typedef struct PjrtNamedValue {
    PJRT_HEAD;
    const char *name;
    size_t name_size;
    int32_t type;  // PjrtNamedValueType
    union {
        const char *string;
        int64_t number;
        const int64_t *numbers;
        float real;
        bool truth;
    } value;
    size_t value_size;  // bytes of a string, items of a list, 1 for a scalar
} PjrtNamedValue;

typedef struct PjrtErrorFunctionTable {
    size_t struct_size;
    size_t instance_size;
    PjrtExtension *extension_start;
    void (*destroy)(PjrtErrorDestroyArgs *arguments);
    void (*message)(PjrtErrorMessageArgs *arguments);
    PjrtError *(*get_code)(PjrtErrorGetCodeArgs *arguments);
    PjrtError *(*for_each_payload)(PjrtErrorForEachPayloadArgs *arguments);
} PjrtErrorFunctionTable;

typedef struct PjrtMemoryFunctionTable PjrtMemoryFunctionTable;

// Called once when an event is ready; the callee owns the error (NULL if none).
typedef void PjrtOnReady(PjrtError *error, void *user_arg);
// Frees what the struct that carries it points to.
typedef void PjrtDeleter(void *object);

// A piece of a host transfer; its owner calls the deleter.
typedef struct PjrtChunk {
    void *data;
    size_t size;
    void (*deleter)(void *data, void *deleter_arg);
    void *deleter_arg;
} PjrtChunk;

// Layouts of host arrays.
typedef enum PjrtLayoutType { PJRT_LAYOUT_TILED, PJRT_LAYOUT_STRIDES } PjrtLayoutType;
typedef struct PjrtLayoutTiled {
    PJRT_HEAD;
    const int64_t *minor_to_major;
    size_t minor_to_major_size;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t num_tiles;
} PjrtLayoutTiled;

typedef struct PjrtLayoutStrides {
    PJRT_HEAD;
    const int64_t *byte_strides;
    size_t num_byte_strides;
} PjrtLayoutStrides;

typedef struct PjrtMemoryLayout {
    PJRT_HEAD;
    union {
        PjrtLayoutTiled tiled;
        PjrtLayoutStrides strides;
    } layout;
    int32_t type;  // PjrtLayoutType
} PjrtMemoryLayout;

// How long the caller's array stays readable.
typedef enum PjrtHostBufferSemantics {
    PJRT_HOST_ONLY_DURING_CALL,
    PJRT_HOST_UNTIL_TRANSFER_COMPLETES,
    PJRT_HOST_IMMUTABLE_ZERO_COPY,
    PJRT_HOST_MUTABLE_ZERO_COPY
} PjrtHostBufferSemantics;

typedef struct PjrtLogicalId {
    int32_t replica;
    int32_t partition;
} PjrtLogicalId;

typedef struct PjrtProgram {
    PJRT_HEAD;
    char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} PjrtProgram;

// Makes an error of the plugin for a callback of the caller; `message` is copied.
typedef PjrtError *PjrtCallbackError(int32_t code, const char *message, size_t message_size);
// Takes what a device sends: owns `chunk`. The error, if any, is the callback's own or made with *callback_error.
typedef PjrtError *PjrtSendCallback(PjrtChunk *chunk, PjrtCallbackError **callback_error, size_t total_size, bool done,
                                    void *user_arg);
// Fills `stream`, now or later, and destroys it.
typedef void PjrtRecvCallback(PjrtStream *stream, void *user_arg);
typedef struct PjrtSendCallbackInfo {
    int64_t channel_id;
    void *user_arg;
    PjrtSendCallback *send_callback;
} PjrtSendCallbackInfo;
typedef struct PjrtRecvCallbackInfo {
    int64_t channel_id;
    void *user_arg;
    PjrtRecvCallback *recv_callback;
} PjrtRecvCallbackInfo;

typedef struct PjrtExecuteOptions {
    PJRT_HEAD;
    const PjrtSendCallbackInfo *const *send_callbacks;  // [device][send op]
    const PjrtRecvCallbackInfo *const *recv_callbacks;  // [device][recv op]
    size_t num_send_ops;
    size_t num_recv_ops;
    int64_t launch_id;
    const int64_t *non_donatable_input_indices;
    size_t num_non_donatable_input_indices;
    void *context;
    void *call_location;
    size_t num_tasks;
    void *task_ids;
    void *incarnation_ids;
    void *multi_slice_config;
    bool use_major_to_minor_data_layout_for_callbacks;
    void *hlo_output_callbacks;
    size_t num_hlo_output_callbacks;
} PjrtExecuteOptions;

struct PjrtErrorMessageArgs {
    PJRT_HEAD;
    PjrtError *error;
    const char *message;
    size_t message_size;
};
struct PjrtErrorGetCodeArgs {
    PJRT_HEAD;
    PjrtError *error;
    int32_t code;
};
struct PjrtErrorForEachPayloadArgs {
    PJRT_HEAD;
    PjrtError *error;
    void *visitor;
    void *user_arg;
};

typedef struct PjrtPluginInitializeArgs {
    PJRT_HEAD;
} PjrtPluginInitializeArgs;

typedef struct PjrtPluginAttributesArgs {
    PJRT_HEAD;
    const PjrtNamedValue *attributes;
    size_t num_attributes;
} PjrtPluginAttributesArgs;

typedef struct PjrtEventIsReadyArgs {
    PJRT_HEAD;
    PjrtEvent *event;
    bool is_ready;
} PjrtEventIsReadyArgs;

typedef struct PjrtEventOnReadyArgs {
    PJRT_HEAD;
    PjrtEvent *event;
    PjrtOnReady *callback;
    void *user_arg;
} PjrtEventOnReadyArgs;

typedef struct PjrtEventSetArgs {
    PJRT_HEAD;
    PjrtEvent *event;
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
} PjrtEventSetArgs;

// What the key-value callbacks of Client_Create get. A value that was got is freed by its deleter.
typedef struct PjrtKeyValueGetArgs {
    PJRT_HEAD;
    const char *key;
    size_t key_size;
    int32_t timeout_in_ms;
    PjrtCallbackError **callback_error;
    void *user_arg;
    char *value;
    size_t value_size;
    void (*value_deleter)(char *value);
} PjrtKeyValueGetArgs;

typedef struct PjrtKeyValuePutArgs {
    PJRT_HEAD;
    const char *key;
    size_t key_size;
    const char *value;
    size_t value_size;
    PjrtCallbackError **callback_error;
    void *user_arg;
} PjrtKeyValuePutArgs;

typedef struct PjrtClientCreateArgs {
    PJRT_HEAD;
    const PjrtNamedValue *create_options;
    size_t num_options;
    PjrtError *(*kv_get_callback)(PjrtKeyValueGetArgs *args);
    void *kv_get_user_arg;
    PjrtError *(*kv_put_callback)(PjrtKeyValuePutArgs *args);
    void *kv_put_user_arg;
    PjrtClient *client;
    void *kv_try_get_callback;
    void *kv_try_get_user_arg;
} PjrtClientCreateArgs;

typedef struct PjrtClientPlatformNameArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const char *platform_name;
    size_t platform_name_size;
} PjrtClientPlatformNameArgs;

typedef struct PjrtClientProcessIndexArgs {
    PJRT_HEAD;
    PjrtClient *client;
    int32_t process_index;
} PjrtClientProcessIndexArgs;

typedef struct PjrtClientPlatformVersionArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const char *platform_version;
    size_t platform_version_size;
} PjrtClientPlatformVersionArgs;

typedef struct PjrtClientTopologyDescriptionArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtTopology *topology;
} PjrtClientTopologyDescriptionArgs;

typedef struct PjrtClientDevicesArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtDevice *const *devices;
    size_t num_devices;
} PjrtClientDevicesArgs;

typedef struct PjrtClientAddressableDevicesArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtDevice *const *addressable_devices;
    size_t num_addressable_devices;
} PjrtClientAddressableDevicesArgs;

typedef struct PjrtClientLookupDeviceArgs {
    PJRT_HEAD;
    PjrtClient *client;
    int32_t id;
    PjrtDevice *device;
} PjrtClientLookupDeviceArgs;

typedef struct PjrtClientLookupAddressableDeviceArgs {
    PJRT_HEAD;
    PjrtClient *client;
    int32_t local_hardware_id;
    PjrtDevice *addressable_device;
} PjrtClientLookupAddressableDeviceArgs;

typedef struct PjrtClientUpdateGlobalProcessInfoArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const void *process_infos;
    size_t num_process_infos;
} PjrtClientUpdateGlobalProcessInfoArgs;

typedef struct PjrtClientAddressableMemoriesArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtMemory *const *addressable_memories;
    size_t num_addressable_memories;
} PjrtClientAddressableMemoriesArgs;

typedef struct PjrtClientCompileArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtProgram *program;
    const char *compile_options;
    size_t compile_options_size;
    PjrtLoadedExecutable *executable;
} PjrtClientCompileArgs;

typedef struct PjrtClientLoadArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtExecutable *executable;
    const char *compile_options;
    size_t compile_options_size;
    PjrtLoadedExecutable *loaded_executable;
} PjrtClientLoadArgs;

typedef struct PjrtClientDefaultDeviceAssignmentArgs {
    PJRT_HEAD;
    PjrtClient *client;
    int32_t num_replicas;
    int32_t num_partitions;
    size_t default_assignment_size;
    int32_t *default_assignment;
} PjrtClientDefaultDeviceAssignmentArgs;

typedef struct PjrtClientBufferFromHostBufferArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const void *data;
    int32_t type;
    const int64_t *dims;
    size_t num_dims;
    const int64_t *byte_strides;
    size_t num_byte_strides;
    int32_t host_buffer_semantics;
    PjrtDevice *device;
    PjrtMemory *memory;
    PjrtMemoryLayout *device_layout;
    PjrtEvent *done_with_host_buffer;
    PjrtBuffer *buffer;
} PjrtClientBufferFromHostBufferArgs;

typedef struct PjrtClientCreateViewOfDeviceBufferArgs {
    PJRT_HEAD;
    PjrtClient *client;
    void *device_buffer_ptr;
    const int64_t *dims;
    size_t num_dims;
    int32_t element_type;
    PjrtMemoryLayout *layout;
    PjrtDevice *device;
    void (*on_delete_callback)(void *device_buffer_ptr, void *user_arg);
    void *on_delete_callback_arg;
    intptr_t stream;
    PjrtBuffer *buffer;
    PjrtMemory *memory;
} PjrtClientCreateViewOfDeviceBufferArgs;

typedef struct PjrtShapeSpec {
    PJRT_HEAD;
    const int64_t *dims;
    size_t num_dims;
    int32_t element_type;
} PjrtShapeSpec;

typedef struct PjrtDeviceDescriptionIdArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    int32_t id;
} PjrtDeviceDescriptionIdArgs;

typedef struct PjrtDeviceDescriptionProcessIndexArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    int32_t process_index;
} PjrtDeviceDescriptionProcessIndexArgs;

typedef struct PjrtDeviceDescriptionAttributesArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    size_t num_attributes;
    const PjrtNamedValue *attributes;
} PjrtDeviceDescriptionAttributesArgs;

typedef struct PjrtDeviceDescriptionKindArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    const char *device_kind;
    size_t device_kind_size;
} PjrtDeviceDescriptionKindArgs;

typedef struct PjrtDeviceDescriptionDebugStringArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    const char *debug_string;
    size_t debug_string_size;
} PjrtDeviceDescriptionDebugStringArgs;

typedef struct PjrtDeviceDescriptionToStringArgs {
    PJRT_HEAD;
    PjrtDeviceDescription *device_description;
    const char *to_string;
    size_t to_string_size;
} PjrtDeviceDescriptionToStringArgs;

typedef struct PjrtDeviceGetDescriptionArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    PjrtDeviceDescription *device_description;
} PjrtDeviceGetDescriptionArgs;

typedef struct PjrtDeviceIsAddressableArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    bool is_addressable;
} PjrtDeviceIsAddressableArgs;

typedef struct PjrtDeviceLocalHardwareIdArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    int32_t local_hardware_id;
} PjrtDeviceLocalHardwareIdArgs;

typedef struct PjrtDeviceAddressableMemoriesArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    PjrtMemory *const *memories;
    size_t num_memories;
} PjrtDeviceAddressableMemoriesArgs;

typedef struct PjrtDeviceDefaultMemoryArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    PjrtMemory *memory;
} PjrtDeviceDefaultMemoryArgs;

typedef struct PjrtDeviceMemoryStatsArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    int64_t bytes_in_use;
    int64_t peak_bytes_in_use;
    bool peak_bytes_in_use_is_set;
    size_t num_allocs;
    bool num_allocs_is_set;
    size_t largest_alloc_size;
    bool largest_alloc_size_is_set;
    int64_t bytes_limit;
    bool bytes_limit_is_set;
    int64_t bytes_reserved;
    bool bytes_reserved_is_set;
    int64_t peak_bytes_reserved;
    bool peak_bytes_reserved_is_set;
    int64_t bytes_reservable_limit;
    bool bytes_reservable_limit_is_set;
    int64_t largest_free_block_bytes;
    bool largest_free_block_bytes_is_set;
    int64_t pool_bytes;
    bool pool_bytes_is_set;
    int64_t peak_pool_bytes;
    bool peak_pool_bytes_is_set;
} PjrtDeviceMemoryStatsArgs;

typedef struct PjrtDeviceGetAttributesArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    const PjrtNamedValue *attributes;
    size_t num_attributes;
    void *device_attributes;
    PjrtDeleter *attributes_deleter;
} PjrtDeviceGetAttributesArgs;

typedef struct PjrtMemoryIdArgs {
    PJRT_HEAD;
    PjrtMemory *memory;
    int32_t id;
} PjrtMemoryIdArgs;

typedef struct PjrtMemoryKindArgs {
    PJRT_HEAD;
    PjrtMemory *memory;
    const char *kind;
    size_t kind_size;
} PjrtMemoryKindArgs;

typedef struct PjrtMemoryKindIdArgs {
    PJRT_HEAD;
    PjrtMemory *memory;
    int32_t kind_id;
} PjrtMemoryKindIdArgs;

typedef struct PjrtMemoryDebugStringArgs {
    PJRT_HEAD;
    PjrtMemory *memory;
    const char *debug_string;
    size_t debug_string_size;
} PjrtMemoryDebugStringArgs;

typedef struct PjrtMemoryToStringArgs {
    PJRT_HEAD;
    PjrtMemory *memory;
    const char *to_string;
    size_t to_string_size;
} PjrtMemoryToStringArgs;

typedef struct PjrtMemoryAddressableByDevicesArgs {
    PJRT_HEAD;
    PjrtMemory *memory;
    PjrtDevice *const *devices;
    size_t num_devices;
} PjrtMemoryAddressableByDevicesArgs;

typedef struct PjrtLoadedExecutableGetExecutableArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *loaded_executable;
    PjrtExecutable *executable;
} PjrtLoadedExecutableGetExecutableArgs;

typedef struct PjrtLoadedExecutableGetDeviceAssignmentArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *executable;
    const char *serialized_bytes;
    size_t serialized_bytes_size;
    void *serialized_device_assignment;  // what the deleter frees
    PjrtDeleter *serialized_device_assignment_deleter;
} PjrtLoadedExecutableGetDeviceAssignmentArgs;

typedef struct PjrtExecutableNameArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    const char *executable_name;
    size_t executable_name_size;
} PjrtExecutableNameArgs;

typedef struct PjrtExecutableNumReplicasArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_replicas;
} PjrtExecutableNumReplicasArgs;

typedef struct PjrtExecutableNumPartitionsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_partitions;
} PjrtExecutableNumPartitionsArgs;

typedef struct PjrtLoadedExecutableAddressableDevicesArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *executable;
    PjrtDevice *const *addressable_devices;
    size_t num_addressable_devices;
} PjrtLoadedExecutableAddressableDevicesArgs;

typedef struct PjrtLoadedExecutableAddressableDeviceLogicalIdsArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *executable;
    PjrtLogicalId *addressable_device_logical_ids;
    size_t num_addressable_device_logical_ids;
} PjrtLoadedExecutableAddressableDeviceLogicalIdsArgs;

typedef struct PjrtExecutableOptimizedProgramArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    PjrtProgram *program;
} PjrtExecutableOptimizedProgramArgs;

typedef struct PjrtLoadedExecutableIsDeletedArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *executable;
    bool is_deleted;
} PjrtLoadedExecutableIsDeletedArgs;

typedef struct PjrtLoadedExecutableExecuteArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *executable;
    PjrtExecuteOptions *options;
    PjrtBuffer *const *const *argument_lists;
    size_t num_devices;
    size_t num_args;
    PjrtBuffer **const *output_lists;
    PjrtEvent **device_complete_events;
    PjrtDevice *execute_device;
} PjrtLoadedExecutableExecuteArgs;

typedef struct PjrtExecutableNumOutputsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_outputs;
} PjrtExecutableNumOutputsArgs;

typedef struct PjrtExecutableSizeOfGeneratedCodeInBytesArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    int64_t size_in_bytes;
} PjrtExecutableSizeOfGeneratedCodeInBytesArgs;

typedef struct PjrtExecutableFingerprintArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    const char *executable_fingerprint;
    size_t executable_fingerprint_size;
} PjrtExecutableFingerprintArgs;

typedef struct PjrtExecutableGetCostAnalysisArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_properties;
    const PjrtNamedValue *properties;
} PjrtExecutableGetCostAnalysisArgs;

typedef struct PjrtExecutableGetCompiledMemoryStatsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    int64_t generated_code_size_in_bytes;
    int64_t argument_size_in_bytes;
    int64_t output_size_in_bytes;
    int64_t alias_size_in_bytes;
    int64_t temp_size_in_bytes;
    int64_t host_generated_code_size_in_bytes;
    int64_t host_argument_size_in_bytes;
    int64_t host_output_size_in_bytes;
    int64_t host_alias_size_in_bytes;
    int64_t host_temp_size_in_bytes;
    int64_t peak_memory_in_bytes;
    int64_t total_size_in_bytes;
    int64_t total_allocation_bytes;
    int64_t indefinite_allocations;
    int64_t peak_unpadded_heap_bytes;
} PjrtExecutableGetCompiledMemoryStatsArgs;

typedef struct PjrtExecutableOutputElementTypesArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    int32_t *output_types;
    size_t num_output_types;
} PjrtExecutableOutputElementTypesArgs;

typedef struct PjrtExecutableOutputDimensionsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_outputs;
    const int64_t *dims;
    const size_t *dim_sizes;
} PjrtExecutableOutputDimensionsArgs;

typedef struct PjrtExecutableParameterMemoryKindsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_parameters;
    const char *const *memory_kinds;
    const size_t *memory_kind_sizes;
} PjrtExecutableParameterMemoryKindsArgs;

typedef struct PjrtExecutableOutputMemoryKindsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t num_outputs;
    const char *const *memory_kinds;
    const size_t *memory_kind_sizes;
} PjrtExecutableOutputMemoryKindsArgs;

typedef struct PjrtExecutableSerializeArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    const char *serialized_bytes;
    size_t serialized_bytes_size;
    const char *serialized_executable;
    PjrtDeleter *serialized_executable_deleter;
} PjrtExecutableSerializeArgs;

typedef struct PjrtExecutableGetCompileOptionsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    const char *serialized_bytes;
    size_t serialized_bytes_size;
    void *serialized_compile_options;
    PjrtDeleter *serialized_compile_options_deleter;
} PjrtExecutableGetCompileOptionsArgs;

typedef struct PjrtExecutableDeserializeAndLoadArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const char *serialized_executable;
    size_t serialized_executable_size;
    PjrtLoadedExecutable *loaded_executable;
    const char *overridden_serialized_compile_options;
    size_t overridden_serialized_compile_options_size;
    void *load_options;
} PjrtExecutableDeserializeAndLoadArgs;

typedef struct PjrtBufferElementTypeArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    int32_t type;
} PjrtBufferElementTypeArgs;

typedef struct PjrtBufferDimensionsArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    const int64_t *dims;
    size_t num_dims;
} PjrtBufferDimensionsArgs;

typedef struct PjrtBufferUnpaddedDimensionsArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    const int64_t *unpadded_dims;
    size_t num_dims;
} PjrtBufferUnpaddedDimensionsArgs;

typedef struct PjrtBufferDynamicDimensionIndicesArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    const size_t *dynamic_dim_indices;
    size_t num_dynamic_dims;
} PjrtBufferDynamicDimensionIndicesArgs;

typedef struct PjrtBufferToHostBufferArgs {
    PJRT_HEAD;
    PjrtBuffer *src;
    PjrtMemoryLayout *host_layout;
    void *dst;
    size_t dst_size;
    PjrtEvent *event;
} PjrtBufferToHostBufferArgs;

typedef struct PjrtBufferOnDeviceSizeInBytesArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    int64_t on_device_size_in_bytes;
} PjrtBufferOnDeviceSizeInBytesArgs;

typedef struct PjrtBufferIsDeletedArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    bool is_deleted;
} PjrtBufferIsDeletedArgs;

typedef struct PjrtBufferCopyRawToHostArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    void *dst;
    int64_t offset;
    size_t transfer_size;
    PjrtEvent *event;
} PjrtBufferCopyRawToHostArgs;

typedef struct PjrtBufferCopyToMemoryArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtMemory *dst_memory;
    PjrtBuffer *dst_buffer;
} PjrtBufferCopyToMemoryArgs;

typedef struct PjrtBufferBitcastArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    int32_t element_type;
    const int64_t *dims;
    size_t num_dims;
    PjrtMemoryLayout *device_layout;
    PjrtBuffer *out_buffer;
} PjrtBufferBitcastArgs;

typedef struct PjrtBufferIsOnCpuArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    bool is_on_cpu;
} PjrtBufferIsOnCpuArgs;

typedef struct PjrtBufferDeviceArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtDevice *device;
} PjrtBufferDeviceArgs;

typedef struct PjrtBufferMemoryArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtMemory *memory;
} PjrtBufferMemoryArgs;

typedef struct PjrtBufferReadyEventArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtEvent *event;
} PjrtBufferReadyEventArgs;

typedef struct PjrtBufferUnsafePointerArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    uintptr_t buffer_pointer;
} PjrtBufferUnsafePointerArgs;

typedef struct PjrtBufferOpaqueDeviceMemoryDataPointerArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    void *device_memory_ptr;
} PjrtBufferOpaqueDeviceMemoryDataPointerArgs;

typedef struct PjrtCopyToDeviceStreamAddChunkArgs {
    PJRT_HEAD;
    PjrtStream *stream;
    PjrtChunk *chunk;
    PjrtEvent *transfer_complete;
} PjrtCopyToDeviceStreamAddChunkArgs;

typedef struct PjrtCopyToDeviceStreamTotalBytesArgs {
    PJRT_HEAD;
    PjrtStream *stream;
    int64_t total_bytes;
} PjrtCopyToDeviceStreamTotalBytesArgs;

typedef struct PjrtCopyToDeviceStreamGranuleSizeArgs {
    PJRT_HEAD;
    PjrtStream *stream;
    int64_t granule_size_in_bytes;
} PjrtCopyToDeviceStreamGranuleSizeArgs;

typedef struct PjrtCopyToDeviceStreamCurrentBytesArgs {
    PJRT_HEAD;
    PjrtStream *stream;
    int64_t current_bytes;
} PjrtCopyToDeviceStreamCurrentBytesArgs;

typedef struct PjrtTopologyDescriptionCreateArgs {
    PJRT_HEAD;
    const char *topology_name;
    size_t topology_name_size;
    const PjrtNamedValue *create_options;
    size_t num_options;
    PjrtTopology *topology;
} PjrtTopologyDescriptionCreateArgs;

typedef struct PjrtTopologyDescriptionPlatformVersionArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    const char *platform_version;
    size_t platform_version_size;
} PjrtTopologyDescriptionPlatformVersionArgs;

typedef struct PjrtTopologyDescriptionPlatformNameArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    const char *platform_name;
    size_t platform_name_size;
} PjrtTopologyDescriptionPlatformNameArgs;

typedef struct PjrtTopologyDescriptionGetDeviceDescriptionsArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    PjrtDeviceDescription *const *descriptions;
    size_t num_descriptions;
} PjrtTopologyDescriptionGetDeviceDescriptionsArgs;

typedef struct PjrtTopologyDescriptionSerializeArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    const char *serialized_bytes;
    size_t serialized_bytes_size;
    const char *serialized_topology;
    PjrtDeleter *serialized_topology_deleter;
} PjrtTopologyDescriptionSerializeArgs;

typedef struct PjrtTopologyDescriptionDeserializeArgs {
    PJRT_HEAD;
    const char *serialized_topology;
    size_t serialized_topology_size;
    PjrtTopology *topology;
} PjrtTopologyDescriptionDeserializeArgs;

typedef struct PjrtTopologyDescriptionAttributesArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    const PjrtNamedValue *attributes;
    size_t num_attributes;
} PjrtTopologyDescriptionAttributesArgs;

typedef struct PjrtTopologyDescriptionFingerprintArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    int64_t fingerprint;
} PjrtTopologyDescriptionFingerprintArgs;

typedef struct PjrtTopologyDescriptionGetMemorySpaceKindIdsArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    const int32_t *memory_space_kind_ids;
    size_t num_memory_space_kind_ids;
} PjrtTopologyDescriptionGetMemorySpaceKindIdsArgs;

typedef struct PjrtCompileArgs {
    PJRT_HEAD;
    PjrtTopology *topology;
    PjrtProgram *program;
    const char *compile_options;
    size_t compile_options_size;
    PjrtClient *client;
    PjrtExecutable *executable;
} PjrtCompileArgs;
struct PjrtErrorDestroyArgs {
    PJRT_HEAD;
    PjrtError *object;
};

typedef struct PjrtEventDestroyArgs {
    PJRT_HEAD;
    PjrtEvent *object;
} PjrtEventDestroyArgs;

typedef struct PjrtEventErrorArgs {
    PJRT_HEAD;
    PjrtEvent *object;
} PjrtEventErrorArgs;

typedef struct PjrtEventAwaitArgs {
    PJRT_HEAD;
    PjrtEvent *object;
} PjrtEventAwaitArgs;

typedef struct PjrtEventCreateArgs {
    PJRT_HEAD;
    PjrtEvent *object;
} PjrtEventCreateArgs;

typedef struct PjrtClientDestroyArgs {
    PJRT_HEAD;
    PjrtClient *object;
} PjrtClientDestroyArgs;

typedef struct PjrtDeviceClearMemoryStatsArgs {
    PJRT_HEAD;
    PjrtDevice *object;
} PjrtDeviceClearMemoryStatsArgs;

typedef struct PjrtExecutableDestroyArgs {
    PJRT_HEAD;
    PjrtExecutable *object;
} PjrtExecutableDestroyArgs;

typedef struct PjrtLoadedExecutableDestroyArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *object;
} PjrtLoadedExecutableDestroyArgs;

typedef struct PjrtLoadedExecutableDeleteArgs {
    PJRT_HEAD;
    PjrtLoadedExecutable *object;
} PjrtLoadedExecutableDeleteArgs;

typedef struct PjrtBufferDestroyArgs {
    PJRT_HEAD;
    PjrtBuffer *object;
} PjrtBufferDestroyArgs;

typedef struct PjrtBufferDeleteArgs {
    PJRT_HEAD;
    PjrtBuffer *object;
} PjrtBufferDeleteArgs;

typedef struct PjrtBufferIncreaseExternalReferenceCountArgs {
    PJRT_HEAD;
    PjrtBuffer *object;
} PjrtBufferIncreaseExternalReferenceCountArgs;

typedef struct PjrtBufferDecreaseExternalReferenceCountArgs {
    PJRT_HEAD;
    PjrtBuffer *object;
} PjrtBufferDecreaseExternalReferenceCountArgs;

typedef struct PjrtCopyToDeviceStreamDestroyArgs {
    PJRT_HEAD;
    PjrtStream *object;
} PjrtCopyToDeviceStreamDestroyArgs;

typedef struct PjrtTopologyDescriptionDestroyArgs {
    PJRT_HEAD;
    PjrtTopology *object;
} PjrtTopologyDescriptionDestroyArgs;
typedef struct PjrtDeviceCreateAsyncTrackingEventArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    const char *description;
    size_t description_size;
    void *event;
} PjrtDeviceCreateAsyncTrackingEventArgs;

// ---------------------------------------------------------------------------------------------------------------------
// Extensions

typedef struct PjrtShardingsArgs {
    PJRT_HEAD;
    PjrtExecutable *executable;
    size_t count;
    const char *const *shardings;  // serialised OpSharding
    const size_t *sharding_sizes;
} PjrtShardingsArgs;

// ---------------------------------------------------------------------------------------------------------------------
// The table of functions

typedef struct PjrtVersion {
    PJRT_HEAD;
    int32_t major;
    int32_t minor;
} PjrtVersion;

// Functions take their own argument struct; NULL means success. See pjrt/functions.def for their order.
typedef PjrtError *PjrtFunction(void *arguments);

enum { PJRT_FUNCTION_COUNT = 138 };

typedef struct PjrtApi {
    PJRT_HEAD;
    PjrtVersion version;
    PjrtFunction *functions[PJRT_FUNCTION_COUNT];
} PjrtApi;

#endif
