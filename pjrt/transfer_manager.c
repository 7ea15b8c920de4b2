// SPDX-License-Identifier: Apache-2.0
// Transfers in pieces: buffers that exist immediately and are filled by any number of TransferData calls. A slot stages
// the pieces; the last piece (or a literal) turns the staging area into the buffer's content. The lock guards only the
// slots: events are set without it, since their callbacks may come back here.
//
// The API: PJRT_Client_CreateBuffersForAsyncHostToDevice and PJRT_AsyncHostToDeviceTransferManager_*
// (xla/pjrt/c/pjrt_c_api.h). Buffers are returned before their content is known, may be used by launches immediately,
// and become ready with the last piece; pieces may come in any order and from any thread. Buffers that are never filled
// fail when the manager is destroyed, so that nothing waits forever.
#include <assert.h>
#include <string.h>

#include "pjrt/abi_transfer.h"
#include "pjrt/objects.h"

typedef struct Slot {
    TargetBuffer *pending;  // a reference until it is filled or has failed
    TargetBuffer *buffer;   // a reference until it is retrieved
    char *staging;          // what has arrived
    int64_t size;
    char *layout;
} Slot;

struct PjrtTransferManager {
    PjrtClient *client;
    TargetMemory *memory;
    pthread_mutex_t lock;  // guards the slots
    size_t count;
    Slot slots[];
};

static PjrtError *no_memory(void) {
    return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// Buffers that can no longer be filled get an error.
static void free_manager(PjrtTransferManager *manager) {
    assert(manager);
    for (size_t i = 0; i < manager->count; i++) {
        Slot *slot = &manager->slots[i];
        if (slot->pending)
            target_buffer_fail(slot->pending, hlo_error(HLO_CANCELLED, "the transfer was abandoned before its end"));
        target_buffer_release(slot->pending);
        target_buffer_release(slot->buffer);
        hlo_free(slot->staging);
        hlo_free(slot->layout);
    }
    pthread_mutex_destroy(&manager->lock);
    hlo_free(manager);
}

// Everything made is stored in the slot; free_manager() frees it.
static HloStatus open_slot(PjrtTransferManager *manager, Slot *slot, const PjrtShapeSpec *spec,
                           const PjrtMemoryLayout *layout) {
    HloShape shape;
    HLO_TRY(pjrt_array_read(spec->element_type, spec->dims, spec->num_dims, &shape));
    HLO_TRY(target_buffer_pending(&shape, manager->memory, &slot->pending));
    slot->buffer = target_buffer_retain(slot->pending);
    slot->size = target_buffer_bytes(slot->pending);
    slot->staging = hlo_allocate(slot->size ? (size_t)slot->size : 1);
    HLO_FAIL_IF(!slot->staging, HLO_RESOURCE_EXHAUSTED, "no memory for %lld bytes", (long long)slot->size);
    HloText text = {0};
    HLO_TRY(pjrt_layout_choose(manager->memory, &shape, layout, &text));
    slot->layout = text.data;
    return HLO_SUCCESS;
}

PjrtError *pjrt_client_create_buffers_for_async_host_to_device(void *arguments) {
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs *args = arguments;
    PJRT_CHECK_SIZE(args, manager);
    if (args->num_layouts && args->num_layouts != args->num_specs)
        return pjrt_fail(HLO_INVALID_ARGUMENT, "%zu layouts for %zu arrays", args->num_layouts, args->num_specs);
    PjrtMemory *memory;
    PjrtError *refused = pjrt_choose_memory(args->memory, NULL, &memory);
    if (refused) return refused;
    PjrtTransferManager *manager = hlo_allocate_zeroed(1, sizeof(*manager) + args->num_specs * sizeof(Slot));
    if (!manager) return no_memory();
    manager->client = args->client;
    manager->memory = memory->memory;
    pthread_mutex_init(&manager->lock, NULL);
    HloStatus status = NULL;
    for (size_t i = 0; i < args->num_specs && !status; i++) {
        manager->count++;
        status = open_slot(manager, &manager->slots[i], &args->specs[i], args->num_layouts ? args->layouts[i] : NULL);
    }
    if (status) {
        free_manager(manager);
        return pjrt_error_from(status);
    }
    args->manager = manager;
    return NULL;
}

PjrtError *pjrt_transfer_manager_destroy(void *arguments) {
    PjrtTransferManagerArgs *args = arguments;
    if (args->manager) free_manager(args->manager);
    return NULL;
}

PjrtError *pjrt_transfer_manager_device(void *arguments) {
    PjrtTransferManagerArgs *args = arguments;
    args->answer.device = pjrt_device_of(args->manager->client, args->manager->memory->device);
    return NULL;
}

PjrtError *pjrt_transfer_manager_buffer_count(void *arguments) {
    PjrtTransferManagerArgs *args = arguments;
    args->answer.count = args->manager->count;
    return NULL;
}

// NULL for numbers that are none.
// Numbers come from the caller; the list itself never changes, so no lock is needed to look.
static Slot *find_slot(PjrtTransferManager *manager, int32_t index) {
    return index < 0 || (size_t)index >= manager->count ? NULL : &manager->slots[index];
}

static PjrtError *no_slot(const PjrtTransferManager *manager, int32_t index) {
    return pjrt_fail(HLO_INVALID_ARGUMENT, "buffer index %d is out of range; there are %zu buffers", index,
                     manager->count);
}

PjrtError *pjrt_transfer_manager_buffer_size(void *arguments) {
    PjrtTransferManagerBufferArgs *args = arguments;
    const Slot *slot = find_slot(args->manager, args->buffer_index);
    if (!slot) return no_slot(args->manager, args->buffer_index);
    args->answer.size = (size_t)slot->size;
    return NULL;
}

// Passes the manager's reference to the caller, once for each slot. The reference leaves the slot under the lock: if
// two threads request the same buffer, one gets it and the other an error.
PjrtError *pjrt_transfer_manager_retrieve_buffer(void *arguments) {
    PjrtTransferManagerBufferArgs *args = arguments;
    Slot *slot = find_slot(args->manager, args->buffer_index);
    if (!slot) return no_slot(args->manager, args->buffer_index);
    pthread_mutex_lock(&args->manager->lock);
    TargetBuffer *buffer = slot->buffer;
    slot->buffer = NULL;
    pthread_mutex_unlock(&args->manager->lock);
    if (!buffer) return pjrt_fail(HLO_FAILED_PRECONDITION, "buffer %d has been retrieved before", args->buffer_index);
    args->answer.buffer = pjrt_buffer_from(args->manager->client, buffer, slot->layout);
    return args->answer.buffer ? NULL : no_memory();
}

// Makes the received bytes the buffer's content. Called without the lock, since callbacks that wait for the buffer run.
// The content becomes a buffer of its own first, because that is where narrow integers are extended and equal arrays
// share memory; the pending buffer then takes over its storage. Consumes the reference to `pending`.
static void complete(const PjrtTransferManager *manager, TargetBuffer *pending, const void *data) {
    assert(manager && pending);
    const HloShape *shape = target_buffer_shape(pending);
    const TargetHostArray array = {data, shape->type, shape->rank, shape->dims, NULL};
    TargetBuffer *content = NULL;
    HloStatus status = target_buffer_from_host(&array, manager->memory, &content);
    if (!status) status = target_buffer_fulfil(pending, content);
    if (status) target_buffer_fail(pending, status);
    target_buffer_release(content);
    target_buffer_release(pending);
}

// Copies under the lock: another thread may be copying the last piece, and the content that it completes must include
// all pieces accepted before. Pending buffer and staging area leave the slot under the lock too, so that only one piece
// can be the last. Pieces may overlap; the later one counts. After the last piece the staging area is freed
// immediately.
static PjrtError *add_data(PjrtTransferManager *manager, int32_t index, const void *data, int64_t offset, int64_t size,
                           bool last, PjrtEvent **done) {
    Slot *slot = find_slot(manager, index);
    if (!slot) return no_slot(manager, index);
    pthread_mutex_lock(&manager->lock);
    HloStatus status = NULL;
    if (!slot->pending)
        status = hlo_error(HLO_FAILED_PRECONDITION, "buffer %d has had its last transfer", index);
    else if (offset < 0 || size < 0 || offset > slot->size || size > slot->size - offset)
        status = hlo_error(HLO_INVALID_ARGUMENT, "%lld bytes at %lld of a buffer of %lld", (long long)size,
                           (long long)offset, (long long)slot->size);
    if (!status && size) memcpy(slot->staging + offset, data, (size_t)size);
    TargetBuffer *pending = NULL;
    char *staging = NULL;
    if (!status && last) {
        pending = slot->pending;
        staging = slot->staging;
        slot->pending = NULL;
        slot->staging = NULL;
    }
    pthread_mutex_unlock(&manager->lock);
    PJRT_TRY(status);
    if (pending) complete(manager, pending, staging);
    hlo_free(staging);
    *done = pjrt_event_ready();
    return *done ? NULL : no_memory();
}

PjrtError *pjrt_transfer_manager_transfer_data(void *arguments) {
    PjrtTransferManagerTransferDataArgs *args = arguments;
    PJRT_CHECK_SIZE(args, done);
    return add_data(args->manager, args->buffer_index, args->data, args->offset, args->size, args->is_last_transfer,
                    &args->done);
}

// A literal is dense and row-major, as our buffers are.
PjrtError *pjrt_transfer_manager_transfer_literal(void *arguments) {
    PjrtTransferManagerTransferLiteralArgs *args = arguments;
    PJRT_CHECK_SIZE(args, done);
    HloShape shape;
    PJRT_TRY(pjrt_array_read(args->type, args->dims, args->num_dims, &shape));
    PJRT_TRY(pjrt_layout_check_row_major(args->layout, args->num_dims, "literals"));
    Slot *slot = find_slot(args->manager, args->buffer_index);
    if (!slot) return no_slot(args->manager, args->buffer_index);
    if (hlo_shape_bytes(&shape) != slot->size)
        return pjrt_fail(HLO_INVALID_ARGUMENT, "a literal of %lld bytes for a buffer of %lld",
                         (long long)hlo_shape_bytes(&shape), (long long)slot->size);
    return add_data(args->manager, args->buffer_index, args->data, 0, slot->size, true, &args->done);
}

// The staging area stays until the manager is destroyed: a late piece of another thread is refused because `pending` is
// missing, not because the area is.
PjrtError *pjrt_transfer_manager_set_buffer_error(void *arguments) {
    PjrtTransferManagerSetBufferErrorArgs *args = arguments;
    Slot *slot = find_slot(args->manager, args->buffer_index);
    if (!slot) return no_slot(args->manager, args->buffer_index);
    HloStatus status = pjrt_status_of(args->error_code, args->error_message, args->error_message_size);
    pthread_mutex_lock(&args->manager->lock);
    TargetBuffer *pending = slot->pending;
    slot->pending = NULL;
    pthread_mutex_unlock(&args->manager->lock);
    if (!pending) {
        hlo_status_free(status);
        return pjrt_fail(HLO_FAILED_PRECONDITION, "buffer %d has had its last transfer", args->buffer_index);
    }
    target_buffer_fail(pending, status);
    target_buffer_release(pending);
    return NULL;
}

// Notes for people who read traces; there is nothing to do with them.
PjrtError *pjrt_transfer_manager_add_metadata(void *arguments) {
    (void)arguments;
    return NULL;
}
