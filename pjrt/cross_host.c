// SPDX-License-Identifier: Apache-2.0
// The extension CrossHostTransfers: arrays that move between devices of different processes outside of programs, as
// jax.device_put() asks for. Both sides are called with the same key for an array; it becomes the tag of a message.
//
// Each call has a thread that waits for the arrays and the messages: the framework's thread must not, since the other
// side's call may come after this one. What is received is a pending buffer until then.
#include <string.h>

#include "pjrt/extensions.h"
#include "pjrt/objects.h"

// Tags from 2^46 to 2^47 are these transfers'. The engine has 0 and those from 2^47 on.
enum { TAG_BIT = 46 };

typedef struct Part {
    int64_t peer;
    uint64_t tag;
    TargetBuffer *buffer;  // to send, or pending
    TargetEvent *event;    // of a send
    HloLiteral *array;     // that is received into
    TransportRequest *request;
} Part;

// The arrays of one call. Holds the client, whose transport it uses.
typedef struct Call {
    TargetClient *client;
    Transport *transport;
    bool sends;
    size_t count;
    Part parts[];
} Call;

static void free_call(Call *call) {
    for (size_t i = 0; i < call->count; i++) {
        transport_request_free(call->parts[i].request);
        hlo_literal_free(call->parts[i].array);
        target_buffer_release(call->parts[i].buffer);
        target_event_release(call->parts[i].event);
    }
    target_client_release(call->client);
    hlo_free(call);
}

// The process of a device that must be another one's; takes part in errors by its name.
static HloStatus find_peer(const PjrtClient *client, int32_t id, int64_t *peer) {
    const TargetDevice *device = target_client_find_device(client->client, id);
    HLO_FAIL_IF(!device, HLO_INVALID_ARGUMENT, "there is no device with id %d", id);
    HLO_FAIL_IF(target_device_is_local(device), HLO_INVALID_ARGUMENT,
                "%s belongs to this process; transfers between processes need a device of another one", device->text);
    *peer = device->process_index;
    return HLO_SUCCESS;
}

static HloStatus open_call(const PjrtClient *client, size_t count, bool sends, Call **result) {
    HLO_FAIL_IF(!client->transport, HLO_UNIMPLEMENTED, "this process is not connected with others");
    Call *call = hlo_allocate_zeroed(1, sizeof(*call) + count * sizeof(call->parts[0]));
    HLO_FAIL_IF(!call, HLO_RESOURCE_EXHAUSTED, "out of memory");
    call->client = target_client_retain(client->client);
    call->transport = client->transport;
    call->sends = sends;
    call->count = count;
    *result = call;
    return HLO_SUCCESS;
}

// Waits for the array, then for the message to be taken.
static HloStatus send_part(const Call *call, Part *part) {
    HLO_TRY(target_buffer_to_literal(part->buffer, &part->array));
    HLO_TRY(transport_send(call->transport, part->peer, part->tag, part->array->data,
                           hlo_shape_bytes(part->array->shape), &part->request));
    TransportRequest *request = part->request;
    part->request = NULL;
    return transport_finish(request);
}

static HloStatus receive_part(Part *part) {
    TransportRequest *request = part->request;
    part->request = NULL;
    HLO_TRY(transport_finish(request));
    TargetBuffer *received;
    HLO_TRY(target_buffer_from_literal(part->array, target_buffer_memory(part->buffer), &received));
    HloStatus status = target_buffer_fulfil(part->buffer, received);
    target_buffer_release(received);
    return status;
}

static void *serve(void *argument) {
    Call *call = argument;
    for (size_t i = 0; i < call->count; i++) {
        Part *part = &call->parts[i];
        HloStatus status = call->sends ? send_part(call, part) : receive_part(part);
        if (call->sends)
            target_event_set(part->event, status);
        else if (status)
            target_buffer_fail(part->buffer, status);
        hlo_literal_free(part->array);
        part->array = NULL;
    }
    free_call(call);
    return NULL;
}

// Takes the call over, also on failure.
static HloStatus start_call(Call *call) {
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, serve, call);
    if (!error) pthread_detach(thread);
    if (error) free_call(call);
    HLO_FAIL_IF(error, HLO_RESOURCE_EXHAUSTED, "no thread for a transfer: %s", strerror(error));
    return HLO_SUCCESS;
}

static uint64_t tag_of(int64_t key) {
    return UINT64_C(1) << TAG_BIT | ((uint64_t)key & ((UINT64_C(1) << TAG_BIT) - 1));
}

static PjrtError *send_buffers(void *arguments) {
    PjrtCrossHostSendArgs *args = arguments;
    PJRT_CHECK_SIZE(args, send_events);
    Call *call = NULL;
    PJRT_TRY(open_call(args->client, args->num_buffers, true, &call));
    HloStatus status = HLO_SUCCESS;
    size_t made = 0;
    for (size_t i = 0; i < args->num_buffers && !status; i++) {
        Part *part = &call->parts[i];
        part->tag = tag_of(args->transfer_keys[i]);
        part->buffer = target_buffer_retain(args->buffers[i]->buffer);
        part->event = target_event_new();
        status = find_peer(args->client, args->dst_device_ids[i], &part->peer);
        if (status) break;
        args->send_events[i] = pjrt_event_from(part->event ? target_event_retain(part->event) : NULL);
        if (!args->send_events[i]) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
        made += args->send_events[i] != NULL;
    }
    if (status)
        free_call(call);
    else
        status = start_call(call);
    for (size_t i = 0; status && i < made; i++)
        pjrt_event_destroy(&(PjrtEventDestroyArgs){.object = args->send_events[i]});
    return pjrt_error_from(status);
}

// Makes one pending buffer and starts to receive into the array that it will be fulfilled with.
static HloStatus begin_receive(const PjrtCrossHostReceiveArgs *args, size_t index, Call *call, HloText *layout) {
    Part *part = &call->parts[index];
    HloShape shape;
    TargetMemory *memory = target_device_default_memory(args->device->device);
    part->tag = tag_of(args->transfer_keys[index]);
    HLO_TRY(find_peer(args->client, args->src_device_ids[index], &part->peer));
    HLO_TRY(pjrt_array_read(args->element_types[index], args->dims[index], args->num_dims[index], &shape));
    HLO_TRY(pjrt_layout_choose(memory, &shape, args->layouts ? args->layouts[index] : NULL, layout));
    HLO_TRY(target_buffer_pending(&shape, memory, &part->buffer));
    part->array = hlo_literal_new(target_buffer_shape(part->buffer));
    HLO_FAIL_IF(!part->array, HLO_RESOURCE_EXHAUSTED, "out of memory");
    return transport_receive(call->transport, part->peer, part->tag, part->array->data, hlo_shape_bytes(&shape),
                             &part->request);
}

static PjrtError *receive_buffers(void *arguments) {
    PjrtCrossHostReceiveArgs *args = arguments;
    PJRT_CHECK_SIZE(args, buffers);
    Call *call = NULL;
    PJRT_TRY(open_call(args->client, args->num_shapes, false, &call));
    HloStatus status = HLO_SUCCESS;
    size_t made = 0;
    if (!pjrt_is_local(args->device))
        status = hlo_error(HLO_INVALID_ARGUMENT, "%s belongs to another process", args->device->device->text);
    for (size_t i = 0; i < args->num_shapes && !status; i++) {
        HloText layout = {0};
        status = begin_receive(args, i, call, &layout);
        if (!status) {
            args->buffers[i] = pjrt_buffer_from(args->client, target_buffer_retain(call->parts[i].buffer), layout.data);
            if (!args->buffers[i]) status = hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
            made += args->buffers[i] != NULL;
        }
        hlo_text_free(&layout);
    }
    if (status)
        free_call(call);
    else
        status = start_call(call);
    for (size_t i = 0; status && i < made; i++)
        pjrt_buffer_destroy(&(PjrtBufferDestroyArgs){.object = args->buffers[i]});
    return pjrt_error_from(status);
}

// ---- the earlier form, in which the receiver does not say who sends: frameworks use it where the other one is missing

static PjrtError *make_receive_buffers(void *arguments) {
    (void)arguments;
    return pjrt_fail(HLO_UNIMPLEMENTED, "MakeCrossHostReceiveBuffers; CrossHostReceiveBuffers is implemented");
}

static void copy_to_remote_device(void *arguments) {
    PjrtCopyToRemoteDeviceArgs *args = arguments;
    if (args->event) pjrt_event_destroy(&(PjrtEventDestroyArgs){.object = args->event});
    if (args->on_done)
        args->on_done(pjrt_fail(HLO_UNIMPLEMENTED, "CopyToRemoteDevice; CrossHostSendBuffers is implemented"), false,
                      args->user_arg);
}

PjrtCrossHostTransfersExtension pjrt_cross_host_transfers_extension = {
    .node = {.struct_size = sizeof(PjrtCrossHostTransfersExtension),
             .type = PJRT_EXTENSION_CROSS_HOST_TRANSFERS,
             .next = &pjrt_layouts_extension.node},
    .make_receive_buffers = make_receive_buffers,
    .copy_to_remote_device = copy_to_remote_device,
    .receive_buffers = receive_buffers,
    .send_buffers = send_buffers,
};
