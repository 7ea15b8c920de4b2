// SPDX-License-Identifier: Apache-2.0
// Buffers. A handle is a reference to an array of targets/client.h and the name of its layout. Types are numbers of the
// ABI, listed in one table. Bytes of host arrays are read before a call returns, whatever the caller promised about
// them, so that there is no lifetime to track.
#include <assert.h>
#include <string.h>

#include "pjrt/objects.h"

// ---- types

// PJRT_Buffer_Type by its number.
static const HloType types[] = {
    HLO_INVALID,       HLO_PRED,       HLO_S8,         HLO_S16, HLO_S32,  HLO_S64,   HLO_U8,   HLO_U16,    HLO_U32,
    HLO_U64,           HLO_F16,        HLO_F32,        HLO_F64, HLO_BF16, HLO_C64,   HLO_C128, HLO_F8E5M2, HLO_F8E4M3FN,
    HLO_F8E4M3B11FNUZ, HLO_F8E5M2FNUZ, HLO_F8E4M3FNUZ, HLO_S4,  HLO_U4,   HLO_TOKEN, HLO_S2,   HLO_U2,     HLO_F8E4M3,
    HLO_F8E3M4,        HLO_F8E8M0FNU,  HLO_F4E2M1FN,   HLO_S1,  HLO_U1,
};

// Searching thirty numbers costs nothing compared with the call that needs it.
int32_t pjrt_type_from_hlo(HloType type) {
    for (size_t i = 1; i < HLO_COUNT_OF(types); i++) {
        if (types[i] == type) return (int32_t)i;
    }
    return 0;
}

// HLO_INVALID for numbers that are unknown here.
static HloType type_to_hlo(int32_t type) {
    return type > 0 && (size_t)type < HLO_COUNT_OF(types) ? types[type] : HLO_INVALID;
}

HloStatus pjrt_shape_read(int32_t type, const int64_t *dims, size_t num_dims, HloShape *shape) {
    assert(shape);
    *shape = (HloShape){.type = type_to_hlo(type), .dims = dims};
    HLO_FAIL_IF(shape->type == HLO_INVALID, HLO_UNIMPLEMENTED, "buffer type %d is unknown", type);
    HLO_FAIL_IF(num_dims > PJRT_MOST_DIMS, HLO_INVALID_ARGUMENT, "an array of rank %zu", num_dims);
    HLO_FAIL_IF(num_dims && !dims, HLO_INVALID_ARGUMENT, "%zu dimensions at address zero", num_dims);
    shape->rank = (int32_t)num_dims;
    for (size_t i = 0; i < num_dims; i++)
        HLO_FAIL_IF(dims[i] == HLO_UNBOUNDED, HLO_INVALID_ARGUMENT, "dimension %zu has no size", i);
    return hlo_shape_check_dims(shape->type, dims, shape->rank);
}

HloStatus pjrt_array_read(int32_t type, const int64_t *dims, size_t num_dims, HloShape *shape) {
    HLO_TRY(pjrt_shape_read(type, dims, num_dims, shape));
    HLO_FAIL_IF(!hlo_type_is_array(shape->type), HLO_UNIMPLEMENTED, "an array of type %s", hlo_type_text(shape->type));
    return HLO_SUCCESS;
}

// ---- making and unmaking

PjrtBuffer *pjrt_buffer_from(PjrtClient *client, TargetBuffer *buffer, const char *layout) {
    assert(client && buffer);
    if (layout && !*layout) layout = NULL;
    // One block: the handle and its layout.
    const size_t size = layout ? strlen(layout) + 1 : 0;
    PjrtBuffer *handle = buffer ? hlo_allocate(sizeof(*handle) + size) : NULL;
    if (!handle) {
        target_buffer_release(buffer);
        return NULL;
    }
    handle->buffer = buffer;
    handle->client = client;
    handle->layout = layout ? (char *)(handle + 1) : NULL;
    atomic_init(&handle->lists, NULL);
    if (layout) memcpy(handle->layout, layout, size);
    return handle;
}

// Returns a new buffer through *out. Takes the reference even when there is no memory for a handle.
static PjrtError *give_buffer(PjrtClient *client, TargetBuffer *buffer, const char *layout, PjrtBuffer **out) {
    *out = pjrt_buffer_from(client, buffer, layout);
    return *out ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// Checks the host array's properties other than its shape.
static HloStatus check_host_array(const PjrtClientBufferFromHostBufferArgs *args, HloType type) {
    HLO_FAIL_IF(args->num_byte_strides && args->num_byte_strides != args->num_dims, HLO_INVALID_ARGUMENT,
                "%zu byte strides for an array of rank %zu", args->num_byte_strides, args->num_dims);
    HLO_FAIL_IF(type == HLO_TOKEN && args->num_dims, HLO_INVALID_ARGUMENT, "a token of rank %zu", args->num_dims);
    return HLO_SUCCESS;
}

// A token has no content; only its existence is recorded. The layout that the caller requests is checked and
// remembered; the bytes are row-major anyway.
PjrtError *pjrt_client_buffer_from_host_buffer(void *arguments) {
    PjrtClientBufferFromHostBufferArgs *args = arguments;
    PJRT_CHECK_SIZE(args, buffer);
    PjrtMemory *memory;
    PjrtError *refused = pjrt_choose_memory(args->memory, args->device, &memory);
    if (refused) return refused;
    HloShape shape;
    PJRT_TRY(pjrt_shape_read(args->type, args->dims, args->num_dims, &shape));
    PJRT_TRY(check_host_array(args, shape.type));
    TargetBuffer *buffer;
    HloText layout = {0};
    HloStatus status = pjrt_layout_choose(memory->memory, &shape, args->device_layout, &layout);
    if (shape.type == HLO_TOKEN) {
        HloShape token = {.type = HLO_TOKEN};
        if (!status) status = target_buffer_uninitialized(&token, memory->memory, &buffer);
    } else {
        TargetHostArray array = {.data = args->data,
                                 .type = shape.type,
                                 .rank = (int64_t)args->num_dims,
                                 .dims = args->dims,
                                 .byte_strides = args->num_byte_strides ? args->byte_strides : NULL};
        if (!status) status = target_buffer_from_host(&array, memory->memory, &buffer);
    }
    if (status) {
        hlo_text_free(&layout);
        return pjrt_error_from(status);
    }
    // The data has been read: the caller may reuse the array now, whatever it promised.
    args->done_with_host_buffer = pjrt_event_ready();
    args->buffer = args->done_with_host_buffer ? pjrt_buffer_from(args->client, buffer, layout.data) : NULL;
    hlo_text_free(&layout);
    if (args->buffer) return NULL;
    if (args->done_with_host_buffer)
        pjrt_event_destroy(&(PjrtEventDestroyArgs){.object = args->done_with_host_buffer});
    else
        target_buffer_release(buffer);
    return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

PjrtError *pjrt_buffer_destroy(void *arguments) {
    PjrtBufferDestroyArgs *args = arguments;
    if (!args->object) return NULL;
    target_buffer_release(args->object->buffer);
    hlo_free(atomic_load(&args->object->lists));
    hlo_free(args->object);
    return NULL;
}

// The memory is freed when the last execution that reads it has ended; the handle stays valid until it is destroyed.
PjrtError *pjrt_buffer_delete(void *arguments) {
    PjrtBufferDeleteArgs *args = arguments;
    target_buffer_delete(args->object->buffer);
    return NULL;
}

PjrtError *pjrt_buffer_is_deleted(void *arguments) {
    PjrtBufferIsDeletedArgs *args = arguments;
    args->is_deleted = target_buffer_is_deleted(args->buffer->buffer);
    return NULL;
}

PjrtError *pjrt_buffer_copy_to_memory(void *arguments) {
    PjrtBufferCopyToMemoryArgs *args = arguments;
    TargetBuffer *copy;
    PJRT_TRY(pjrt_check_local(args->dst_memory));
    PJRT_TRY(target_buffer_copy_to_memory(args->buffer->buffer, args->dst_memory->memory, &copy));
    // Unpinned host memory has no layouts.
    const bool keeps = args->dst_memory->memory->kind_id != TARGET_MEMORY_UNPINNED_HOST;
    return give_buffer(args->buffer->client, copy, keeps ? args->buffer->layout : NULL, &args->dst_buffer);
}

// ---- what a buffer is

PjrtError *pjrt_buffer_element_type(void *arguments) {
    PjrtBufferElementTypeArgs *args = arguments;
    args->type = pjrt_type_from_hlo(target_buffer_shape(args->buffer->buffer)->type);
    return NULL;
}

PjrtError *pjrt_buffer_dimensions(void *arguments) {
    PjrtBufferDimensionsArgs *args = arguments;
    const HloShape *shape = target_buffer_shape(args->buffer->buffer);
    args->dims = shape->dims;
    args->num_dims = (size_t)shape->rank;
    return NULL;
}

// There are no dynamic dimensions: the unpadded ones are the dimensions.
PjrtError *pjrt_buffer_unpadded_dimensions(void *arguments) {
    PjrtBufferUnpaddedDimensionsArgs *args = arguments;
    const HloShape *shape = target_buffer_shape(args->buffer->buffer);
    args->unpadded_dims = shape->dims;
    args->num_dims = (size_t)shape->rank;
    return NULL;
}

PjrtError *pjrt_buffer_dynamic_dimension_indices(void *arguments) {
    PjrtBufferDynamicDimensionIndicesArgs *args = arguments;
    args->dynamic_dim_indices = NULL;
    args->num_dynamic_dims = 0;
    return NULL;
}

// Dense bytes: tiles are names here.
PjrtError *pjrt_buffer_on_device_size_in_bytes(void *arguments) {
    PjrtBufferOnDeviceSizeInBytesArgs *args = arguments;
    args->on_device_size_in_bytes =
        (__typeof__(args->on_device_size_in_bytes))target_buffer_bytes(args->buffer->buffer);
    return NULL;
}

PjrtError *pjrt_buffer_device(void *arguments) {
    PjrtBufferDeviceArgs *args = arguments;
    args->device = pjrt_device_of(args->buffer->client, target_buffer_device(args->buffer->buffer));
    return NULL;
}

PjrtError *pjrt_buffer_memory(void *arguments) {
    PjrtBufferMemoryArgs *args = arguments;
    args->memory = pjrt_memory_of(args->buffer->client, target_buffer_memory(args->buffer->buffer));
    return NULL;
}

// False although the bytes are in this process: true would let callers read device arrays without asking.
PjrtError *pjrt_buffer_is_on_cpu(void *arguments) {
    PjrtBufferIsOnCpuArgs *args = arguments;
    args->is_on_cpu = false;
    return NULL;
}

// A new event each time, which the caller destroys.
PjrtError *pjrt_buffer_ready_event(void *arguments) {
    PjrtBufferReadyEventArgs *args = arguments;
    args->event = pjrt_event_from(target_buffer_ready_event(args->buffer->buffer));
    return args->event ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// ---- reading

// The order of dimensions that a host layout requests; NULL for row-major. Strided host layouts are refused.
static HloStatus host_order(const PjrtMemoryLayout *layout, int64_t rank, const int64_t **order) {
    assert(rank >= 0 && order);
    *order = NULL;
    if (!layout) return HLO_SUCCESS;
    HLO_FAIL_IF(layout->type != PJRT_LAYOUT_TILED || layout->layout.tiled.num_tiles != 0, HLO_UNIMPLEMENTED,
                "host arrays with tiles or strides");
    HLO_TRY(pjrt_layout_check(layout, (size_t)rank));
    *order = layout->layout.tiled.minor_to_major;
    return HLO_SUCCESS;
}

// Without a destination, returns the size. With one, copies when the content is ready, in the order of dimensions that
// the caller requests; the buffer may be donated meanwhile.
PjrtError *pjrt_buffer_to_host_buffer(void *arguments) {
    PjrtBufferToHostBufferArgs *args = arguments;
    TargetBuffer *buffer = args->src->buffer;
    const HloShape *shape = target_buffer_shape(buffer);
    int64_t bytes = hlo_shape_bytes(shape);
    if (!args->dst) {
        args->dst_size = (size_t)bytes;
        return NULL;
    }
    if ((int64_t)args->dst_size < bytes) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "an array of %lld bytes does not fit in %zu", (long long)bytes,
                         args->dst_size);
    }
    if (target_buffer_is_deleted(buffer))
        return pjrt_fail(HLO_INVALID_ARGUMENT, "the buffer has been deleted or donated");
    const int64_t *order;
    TargetEvent *event;
    PJRT_TRY(host_order(args->host_layout, shape->rank, &order));
    PJRT_TRY(target_buffer_to_host_async(buffer, args->dst, bytes, order, &event));
    args->event = pjrt_event_from(event);
    return args->event ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// Waits for the content: the event that it returns is ready.
PjrtError *pjrt_buffer_copy_raw_to_host(void *arguments) {
    PjrtBufferCopyRawToHostArgs *args = arguments;
    PJRT_TRY(target_buffer_to_host_raw(args->buffer->buffer, args->dst, args->offset, (int64_t)args->transfer_size));
    args->event = pjrt_event_ready();
    return args->event ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// The address stays valid as long as the buffer is neither deleted nor donated; the caller should raise the external
// reference count.
PjrtError *pjrt_buffer_unsafe_pointer(void *arguments) {
    PjrtBufferUnsafePointerArgs *args = arguments;
    const void *data;
    PJRT_TRY(target_buffer_data(args->buffer->buffer, &data));
    args->buffer_pointer = (uintptr_t)data;
    return NULL;
}

PjrtError *pjrt_buffer_opaque_device_memory_data_pointer(void *arguments) {
    PjrtBufferOpaqueDeviceMemoryDataPointerArgs *args = arguments;
    const void *data;
    PJRT_TRY(target_buffer_data(args->buffer->buffer, &data));
    args->device_memory_ptr = (void *)(uintptr_t)data;
    return NULL;
}

PjrtError *pjrt_buffer_increase_external_reference_count(void *arguments) {
    PjrtBufferIncreaseExternalReferenceCountArgs *args = arguments;
    target_buffer_hold_external(args->object->buffer);
    return NULL;
}

PjrtError *pjrt_buffer_decrease_external_reference_count(void *arguments) {
    PjrtBufferDecreaseExternalReferenceCountArgs *args = arguments;
    target_buffer_drop_external(args->object->buffer);
    return NULL;
}
