// SPDX-License-Identifier: Apache-2.0
// Argument structs of the C API, continued from pjrt/abi.h: buffers that are filled later, views, copies, topologies.
// Same source and rules; what the caller fills in comes first, what comes back is marked.
#ifndef MESHLO_PJRT_ABI_TRANSFER_H_
#define MESHLO_PJRT_ABI_TRANSFER_H_

#include "pjrt/abi.h"

// ---- uninitialised and failed buffers

typedef struct PjrtClientCreateUninitializedBufferArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    PjrtMemoryLayout *layout;
    PjrtDevice *device;
    PjrtMemory *memory;
    PjrtBuffer *buffer;  // out
} PjrtClientCreateUninitializedBufferArgs;

typedef struct PjrtClientCreateErrorBufferArgs {
    PJRT_HEAD;
    PjrtClient *client;
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    PjrtMemoryLayout *layout;
    PjrtMemory *memory;
    PjrtBuffer *buffer;  // out
} PjrtClientCreateErrorBufferArgs;

// ---- alias buffers: promised now, another buffer's content later

typedef struct PjrtPromise PjrtPromise;

typedef struct PjrtClientCreateAliasBufferArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtMemory *memory;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    PjrtMemoryLayout *layout;
    PjrtBuffer *buffer;    // out
    PjrtPromise *promise;  // out; passed to one FulfillAliasBuffer
} PjrtClientCreateAliasBufferArgs;

typedef struct PjrtClientFulfillAliasBufferArgs {
    PJRT_HEAD;
    PjrtClient *client;
    PjrtBuffer *buffer;  // NULL with an error
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
    PjrtPromise *promise;
} PjrtClientFulfillAliasBufferArgs;

// ---- transfers in pieces

typedef struct PjrtTransferManager PjrtTransferManager;

typedef struct PjrtClientCreateBuffersForAsyncHostToDeviceArgs {
    PJRT_HEAD;
    PjrtClient *client;
    const PjrtShapeSpec *specs;  // the size of each is its struct_size
    size_t num_specs;
    PjrtMemoryLayout **layouts;
    size_t num_layouts;
    PjrtMemory *memory;
    PjrtTransferManager *manager;  // out
} PjrtClientCreateBuffersForAsyncHostToDeviceArgs;

// Destroy, Device and BufferCount.
typedef struct PjrtTransferManagerArgs {
    PJRT_HEAD;
    PjrtTransferManager *manager;
    union {
        PjrtDevice *device;  // out
        size_t count;        // out
    } answer;
} PjrtTransferManagerArgs;

typedef struct PjrtTransferManagerTransferDataArgs {
    PJRT_HEAD;
    PjrtTransferManager *manager;
    int32_t buffer_index;
    const void *data;
    int64_t offset;
    int64_t size;
    bool is_last_transfer;
    PjrtEvent *done;  // out
} PjrtTransferManagerTransferDataArgs;

typedef struct PjrtTransferManagerTransferLiteralArgs {
    PJRT_HEAD;
    PjrtTransferManager *manager;
    int32_t buffer_index;
    const void *data;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    PjrtMemoryLayout *layout;
    PjrtEvent *done;  // out
} PjrtTransferManagerTransferLiteralArgs;

// RetrieveBuffer and BufferSize.
typedef struct PjrtTransferManagerBufferArgs {
    PJRT_HEAD;
    PjrtTransferManager *manager;
    int32_t buffer_index;
    union {
        PjrtBuffer *buffer;  // out
        size_t size;         // out
    } answer;
} PjrtTransferManagerBufferArgs;

typedef struct PjrtTransferManagerSetBufferErrorArgs {
    PJRT_HEAD;
    PjrtTransferManager *manager;
    int32_t buffer_index;
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
} PjrtTransferManagerSetBufferErrorArgs;

// ---- copies whose destination comes later: the plugin provides the function that the caller calls

typedef struct PjrtCopyRawReadyArgs {
    size_t struct_size;
    void *callback_data;
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
    void *dst;
} PjrtCopyRawReadyArgs;

typedef struct PjrtBufferCopyRawToHostFutureArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    int64_t offset;
    int64_t transfer_size;
    PjrtEvent *event;                           // out
    void *callback_data;                        // out
    void (*ready)(PjrtCopyRawReadyArgs *args);  // out; called once
} PjrtBufferCopyRawToHostFutureArgs;

typedef struct PjrtDependencyReadyArgs {
    size_t struct_size;
    void *callback_data;
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
} PjrtDependencyReadyArgs;

typedef struct PjrtBufferDonateWithControlDependencyArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    void *callback_data;                           // out
    void (*ready)(PjrtDependencyReadyArgs *args);  // out; called once
    PjrtBuffer *out_buffer;                        // out
} PjrtBufferDonateWithControlDependencyArgs;

// ---- other functions of buffers and clients

typedef struct PjrtBufferCopyToDeviceArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtDevice *dst_device;
    PjrtBuffer *dst_buffer;  // out
} PjrtBufferCopyToDeviceArgs;

typedef struct PjrtBufferGetMemoryLayoutArgs {
    PJRT_HEAD;
    PjrtBuffer *buffer;
    PjrtMemoryLayout layout;  // out; its lists are the buffer's
} PjrtBufferGetMemoryLayoutArgs;

typedef struct PjrtClientDmaMapArgs {
    PJRT_HEAD;
    PjrtClient *client;
    void *data;
    size_t size;
} PjrtClientDmaMapArgs;

typedef struct PjrtClientDmaUnmapArgs {
    PJRT_HEAD;
    PjrtClient *client;
    void *data;
} PjrtClientDmaUnmapArgs;

typedef struct PjrtExecuteContextArgs {
    PJRT_HEAD;
    void *context;
} PjrtExecuteContextArgs;

typedef struct PjrtDevicePoisonExecutionArgs {
    PJRT_HEAD;
    PjrtDevice *device;
    int32_t launch_id;
    int32_t error_code;
    const char *error_message;
    size_t error_message_size;
    bool poisoned;  // out
} PjrtDevicePoisonExecutionArgs;

typedef struct PjrtCanonicalShapeArgs {
    PJRT_HEAD;
    const PjrtTopology *topology;
    int32_t memory_kind_id;
    const int64_t *dims;
    size_t num_dims;
    int32_t type;
    const PjrtMemoryLayout *layout;
    const char *serialized_shape;  // out: ShapeProto
    size_t serialized_shape_size;  // out
    void (*deleter)(const char *serialized_shape);
} PjrtCanonicalShapeArgs;

#define PJRT_PLACE(type, field, at) _Static_assert(offsetof(type, field) == (at), #type "." #field)
PJRT_PLACE(PjrtClientCreateUninitializedBufferArgs, buffer, 72);
PJRT_PLACE(PjrtClientCreateErrorBufferArgs, buffer, 88);
PJRT_PLACE(PjrtClientCreateAliasBufferArgs, promise, 72);
PJRT_PLACE(PjrtClientFulfillAliasBufferArgs, promise, 56);
PJRT_PLACE(PjrtClientCreateBuffersForAsyncHostToDeviceArgs, manager, 64);
PJRT_PLACE(PjrtTransferManagerTransferDataArgs, done, 64);
PJRT_PLACE(PjrtTransferManagerTransferLiteralArgs, done, 72);
PJRT_PLACE(PjrtTransferManagerBufferArgs, answer, 32);
PJRT_PLACE(PjrtTransferManagerSetBufferErrorArgs, error_message_size, 40);
PJRT_PLACE(PjrtCopyRawReadyArgs, dst, 40);
PJRT_PLACE(PjrtBufferCopyRawToHostFutureArgs, ready, 56);
PJRT_PLACE(PjrtDependencyReadyArgs, error_message_size, 32);
PJRT_PLACE(PjrtBufferDonateWithControlDependencyArgs, out_buffer, 40);
PJRT_PLACE(PjrtBufferGetMemoryLayoutArgs, layout, 24);
PJRT_PLACE(PjrtDevicePoisonExecutionArgs, poisoned, 48);
PJRT_PLACE(PjrtCanonicalShapeArgs, deleter, 80);
#undef PJRT_PLACE

#endif
