// SPDX-License-Identifier: Apache-2.0
// Buffers that get their content later (transfers in pieces, aliases, donations that wait for something else), and
// copies whose destination comes later. All of these are a pending buffer of targets/client.h, which is fulfilled or
// failed later. Every promise ends in one of the two: nothing waits for a promise that was abandoned.
#include <string.h>

#include "pjrt/abi_transfer.h"
#include "pjrt/objects.h"

static PjrtError *no_memory(void) {
    return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// ---- shapes of arguments

typedef struct WantedShape {
    TargetMemory *memory;  // in which the array is wanted
    HloShape shape;        // with the caller's dims
    HloText layout;        // to be freed
} WantedShape;

// On an error there is nothing to free.
static HloStatus choose_layout(int32_t type, const int64_t *dims, size_t num_dims, const PjrtMemoryLayout *layout,
                               WantedShape *wanted) {
    HLO_TRY(pjrt_shape_read(type, dims, num_dims, &wanted->shape));
    return pjrt_layout_choose(wanted->memory, &wanted->shape, layout, &wanted->layout);
}

// Reads the arguments that describe a new buffer; of these `memory`, `device` and `layout` may be NULL.
static PjrtError *read_shape(PjrtMemory *memory, PjrtDevice *device, int32_t type, const int64_t *dims, size_t num_dims,
                             const PjrtMemoryLayout *layout, WantedShape *wanted) {
    *wanted = (WantedShape){0};
    PjrtError *refused = pjrt_choose_memory(memory, device, &memory);
    if (refused) return refused;
    wanted->memory = memory->memory;
    return pjrt_error_from(choose_layout(type, dims, num_dims, layout, wanted));
}

// Returns a buffer of a shape through *out, and frees what read_shape() made; with `buffer` NULL, only the latter.
// Takes the reference to `buffer` even when there is no memory for a handle.
static PjrtError *give_buffer(PjrtClient *client, TargetBuffer *buffer, WantedShape *wanted, PjrtBuffer **out) {
    *out = buffer ? pjrt_buffer_from(client, buffer, wanted->layout.data) : NULL;
    hlo_text_free(&wanted->layout);
    return *out ? NULL : no_memory();
}

// ---- uninitialised and failed buffers

PjrtError *pjrt_client_create_uninitialized_buffer(void *arguments) {
    PjrtClientCreateUninitializedBufferArgs *args = arguments;
    PJRT_CHECK_SIZE(args, buffer);
    WantedShape wanted;
    TargetBuffer *buffer;
    PjrtError *refused =
        read_shape(args->memory, args->device, args->type, args->dims, args->num_dims, args->layout, &wanted);
    if (refused) return refused;
    HloStatus status = target_buffer_uninitialized(&wanted.shape, wanted.memory, &buffer);
    if (!status) return give_buffer(args->client, buffer, &wanted, &args->buffer);
    hlo_text_free(&wanted.layout);
    return pjrt_error_from(status);
}

// An array that is an error from the beginning: frameworks put it where a result would have been.
PjrtError *pjrt_client_create_error_buffer(void *arguments) {
    PjrtClientCreateErrorBufferArgs *args = arguments;
    PJRT_CHECK_SIZE(args, buffer);
    WantedShape wanted;
    TargetBuffer *buffer;
    PjrtError *refused = read_shape(args->memory, NULL, args->type, args->dims, args->num_dims, args->layout, &wanted);
    if (refused) return refused;
    HloStatus error = pjrt_status_of(args->error_code, args->error_message, args->error_message_size);
    HloStatus status = target_buffer_from_error(&wanted.shape, wanted.memory, error, &buffer);
    if (!status) return give_buffer(args->client, buffer, &wanted, &args->buffer);
    hlo_text_free(&wanted.layout);
    return pjrt_error_from(status);
}

// ---- alias buffers

struct PjrtPromise {
    TargetBuffer *buffer;  // a reference
};

PjrtError *pjrt_client_create_alias_buffer(void *arguments) {
    PjrtClientCreateAliasBufferArgs *args = arguments;
    PJRT_CHECK_SIZE(args, promise);
    WantedShape wanted;
    TargetBuffer *buffer;
    PjrtError *refused = read_shape(args->memory, NULL, args->type, args->dims, args->num_dims, args->layout, &wanted);
    if (refused) return refused;
    PjrtPromise *promise = hlo_allocate(sizeof(*promise));
    HloStatus status = promise ? target_buffer_pending(&wanted.shape, wanted.memory, &buffer)
                               : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (status) {
        hlo_text_free(&wanted.layout);
        hlo_free(promise);
        return pjrt_error_from(status);
    }
    promise->buffer = target_buffer_retain(buffer);
    PjrtError *error = give_buffer(args->client, buffer, &wanted, &args->buffer);
    if (error) {
        target_buffer_release(promise->buffer);
        hlo_free(promise);
        return error;
    }
    args->promise = promise;
    return NULL;
}

// Uses the promise up, unless the content does not fit: then the caller may try again.
PjrtError *pjrt_client_fulfill_alias_buffer(void *arguments) {
    PjrtClientFulfillAliasBufferArgs *args = arguments;
    PJRT_CHECK_SIZE(args, promise);
    TargetBuffer *pending = args->promise->buffer;
    if (args->error_code || !args->buffer) {
        target_buffer_fail(pending, pjrt_status_of(args->error_code, args->error_message, args->error_message_size));
    } else {
        TargetBuffer *with = args->buffer->buffer;
        HloStatus status = NULL;
        if (with == pending)
            status = hlo_error(HLO_INVALID_ARGUMENT, "an alias cannot be fulfilled with itself");
        else if (target_buffer_bytes(with) != target_buffer_bytes(pending))
            status = hlo_error(HLO_INVALID_ARGUMENT, "%lld bytes for an alias of %lld bytes",
                               (long long)target_buffer_bytes(with), (long long)target_buffer_bytes(pending));
        if (!status) status = target_buffer_fulfil(pending, with);
        if (status) return pjrt_error_from(status);  // the promise remains open
    }
    target_buffer_release(pending);
    hlo_free(args->promise);
    return NULL;
}

// ---- donation that waits for something else

typedef struct Donation {
    TargetBuffer *content, *pending;
} Donation;

// Called once by the caller, on any thread. If fulfilling fails (memory is short), the promise fails, and what waits
// for it gets the error.
static void dependency_ready(PjrtDependencyReadyArgs *args) {
    Donation *donation = args->callback_data;
    HloStatus status = NULL;
    if (args->error_code)
        status = pjrt_status_of(args->error_code, args->error_message, args->error_message_size);
    else
        status = target_buffer_fulfil(donation->pending, donation->content);
    if (status) target_buffer_fail(donation->pending, status);
    target_buffer_release(donation->content);
    target_buffer_release(donation->pending);
    hlo_free(donation);
}

// Takes a reference to the content immediately, so that deleting the donated buffer does not lose it; passes it on when
// the dependency is ready.
PjrtError *pjrt_buffer_donate_with_control_dependency(void *arguments) {
    PjrtBufferDonateWithControlDependencyArgs *args = arguments;
    PJRT_CHECK_SIZE(args, out_buffer);
    TargetBuffer *buffer = args->buffer->buffer;
    Donation *donation = hlo_allocate_zeroed(1, sizeof(*donation));
    if (!donation) return no_memory();
    HloStatus status = target_buffer_copy_to_memory(buffer, target_buffer_memory(buffer), &donation->content);
    if (!status) {
        status = target_buffer_pending(target_buffer_shape(buffer), target_buffer_memory(buffer), &donation->pending);
    }
    if (!status) {
        args->out_buffer =
            pjrt_buffer_from(args->buffer->client, target_buffer_retain(donation->pending), args->buffer->layout);
        if (!args->out_buffer) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (status) {
        target_buffer_release(donation->content);
        target_buffer_release(donation->pending);
        hlo_free(donation);
        return pjrt_error_from(status);
    }
    target_buffer_delete(buffer);
    args->callback_data = donation;
    args->ready = dependency_ready;
    return NULL;
}

// ---- raw copies to a destination that comes later

typedef struct RawCopy {
    TargetBuffer *buffer;  // another name for the content: the caller's buffer may be deleted or donated meanwhile
    int64_t offset, size;
    TargetEvent *event;
    void *destination;
} RawCopy;

// Runs when both content and destination are there, on whatever thread brought the last of them. Takes ownership of the
// status.
// The offset and the size are checked here, against the buffer; a range outside of it is the error of the event.
static void finish_raw_copy(HloStatus status, void *argument) {
    RawCopy *copy = argument;
    if (!status) status = target_buffer_to_host_raw(copy->buffer, copy->destination, copy->offset, copy->size);
    target_event_set(copy->event, status);
    target_event_release(copy->event);
    target_buffer_release(copy->buffer);
    hlo_free(copy);
}

// Called once by the caller; an error code in place of an address cancels the copy. From here on `copy` belongs to
// finish_raw_copy(), which may run before this returns.
static void destination_ready(PjrtCopyRawReadyArgs *args) {
    RawCopy *copy = args->callback_data;
    if (args->error_code) {
        finish_raw_copy(pjrt_status_of(args->error_code, args->error_message, args->error_message_size), copy);
        return;
    }
    copy->destination = args->dst;
    TargetEvent *ready = target_buffer_ready_event(copy->buffer);
    HloStatus status = target_event_on_ready(ready, finish_raw_copy, copy);
    target_event_release(ready);
    if (status) finish_raw_copy(status, copy);
}

PjrtError *pjrt_buffer_copy_raw_to_host_future(void *arguments) {
    PjrtBufferCopyRawToHostFutureArgs *args = arguments;
    PJRT_CHECK_SIZE(args, ready);
    RawCopy *copy = hlo_allocate(sizeof(*copy));
    TargetEvent *done = target_event_new();
    PjrtEvent *handle = copy && done ? pjrt_event_from(target_event_retain(done)) : NULL;
    TargetBuffer *buffer = args->buffer->buffer, *content = NULL;
    HloStatus status = handle ? target_buffer_copy_to_memory(buffer, target_buffer_memory(buffer), &content)
                              : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    if (status) {
        hlo_free(copy);
        target_event_release(done);
        pjrt_event_destroy(&(PjrtEventDestroyArgs){.object = handle});
        return pjrt_error_from(status);
    }
    *copy = (RawCopy){content, args->offset, args->transfer_size, done, NULL};
    args->event = handle;
    args->callback_data = copy;
    args->ready = destination_ready;
    return NULL;
}
