// SPDX-License-Identifier: Apache-2.0
// Host callbacks: a program's sends and receives go to the callbacks that the caller passed with the launch. What a
// device sends is copied into a chunk that the callback owns; what it receives comes through a stream, filled by the
// callback or later by some other thread while the device waits.
//
// The API: PJRT_SendCallbackInfo, PJRT_RecvCallbackInfo and PJRT_CopyToDeviceStream_* (xla/pjrt/c/pjrt_c_api.h).
// Threads: callbacks of one device are called one after the other, those of several devices concurrently; the lists of
// a launch are copied and never change.
#include <assert.h>
#include <string.h>

#include "pjrt/objects.h"

// ---- errors of callbacks

// For callbacks, which build their errors through the function pointer that they are given: codes that absl does not
// have are UNKNOWN.
PjrtError *pjrt_make_error(int32_t code, const char *message, size_t message_size) {
    return pjrt_fail(hlo_code_from_number(code), "%.*s", (int)message_size, message);
}

// The status of an error that a callback returned, which may have a table of its own; destroys the error.
// The error may be another library's: only its own table may look into it and free it. The message is copied before.
HloStatus pjrt_status_from_foreign(PjrtError *error) {
    if (!error) return HLO_SUCCESS;
    const PjrtErrorFunctionTable *table = error->table;
    PjrtErrorMessageArgs message = {.struct_size = sizeof(message), .error = error};
    PjrtErrorGetCodeArgs code = {.struct_size = sizeof(code), .error = error};
    PjrtErrorDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = error};
    table->message(&message);
    (void)table->get_code(&code);
    HloStatus status = pjrt_status_of((int32_t)code.code, message.message, message.message_size);
    table->destroy(&destroy);
    return status;
}

// ---- streams to a device

struct PjrtStream {
    atomic_int references;  // the waiting device's and the callee's
    pthread_mutex_t lock;   // guards what follows
    pthread_cond_t changed;
    char *data;  // NULL once the device waits no longer
    int64_t total, current;
    bool abandoned;  // destroyed by the callee
};

// The device's reference and the callee's go in any order.
static void release_stream(PjrtStream *stream) {
    if (atomic_fetch_sub(&stream->references, 1) != 1) return;
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    hlo_free(stream);
}

// Waits until the stream is full, or will never be.
// After it `data` is NULL: the memory is the program's again, and late bytes are refused (add_bytes()).
static HloStatus await_stream(PjrtStream *stream, int64_t channel) {
    assert(stream);
    pthread_mutex_lock(&stream->lock);
    while (stream->current < stream->total && !stream->abandoned) pthread_cond_wait(&stream->changed, &stream->lock);
    const int64_t current = stream->current;
    stream->data = NULL;
    pthread_mutex_unlock(&stream->lock);
    HLO_FAIL_IF(current < stream->total, HLO_INTERNAL, "channel %lld: the host sent %lld of %lld bytes and stopped",
                (long long)channel, (long long)current, (long long)stream->total);
    return HLO_SUCCESS;
}

PjrtError *pjrt_copy_to_device_stream_destroy(void *arguments) {
    PjrtCopyToDeviceStreamDestroyArgs *args = arguments;
    PjrtStream *stream = args->object;
    if (!stream) return NULL;
    pthread_mutex_lock(&stream->lock);
    stream->abandoned = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    release_stream(stream);
    return NULL;
}

// Under the lock, in which the waiting device also stops to wait: no byte is written to memory that has been taken
// back.
static HloStatus add_bytes(PjrtStream *stream, const PjrtChunk *chunk) {
    assert(stream && chunk);
    HloStatus status = HLO_SUCCESS;
    pthread_mutex_lock(&stream->lock);
    if (chunk->size > (size_t)(stream->total - stream->current)) {
        status = hlo_error(HLO_INVALID_ARGUMENT, "a chunk of %zu bytes after %lld of %lld", chunk->size,
                           (long long)stream->current, (long long)stream->total);
    } else {
        assert(stream->data || !chunk->size); /* there is room only while the device waits, or the callee has let go */
        if (chunk->size) memcpy(stream->data + stream->current, chunk->data, chunk->size);
        stream->current += (int64_t)chunk->size;
    }
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

// The chunk is the stream's from here on, also when it is refused: its deleter is called.
PjrtError *pjrt_copy_to_device_stream_add_chunk(void *arguments) {
    PjrtCopyToDeviceStreamAddChunkArgs *args = arguments;
    PJRT_CHECK_SIZE(args, transfer_complete);
    PjrtChunk chunk = *args->chunk;
    HloStatus status = add_bytes(args->stream, &chunk);
    if (chunk.deleter) chunk.deleter(chunk.data, chunk.deleter_arg);
    args->transfer_complete = NULL;
    PJRT_TRY(status);
    args->transfer_complete = pjrt_event_ready();
    return args->transfer_complete ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

PjrtError *pjrt_copy_to_device_stream_total_bytes(void *arguments) {
    PjrtCopyToDeviceStreamTotalBytesArgs *args = arguments;
    args->total_bytes = args->stream->total;
    return NULL;
}

// Chunks may have any size.
PjrtError *pjrt_copy_to_device_stream_granule_size(void *arguments) {
    PjrtCopyToDeviceStreamGranuleSizeArgs *args = arguments;
    args->granule_size_in_bytes = 1;
    return NULL;
}

PjrtError *pjrt_copy_to_device_stream_current_bytes(void *arguments) {
    PjrtCopyToDeviceStreamCurrentBytesArgs *args = arguments;
    pthread_mutex_lock(&args->stream->lock);
    args->current_bytes = args->stream->current;
    pthread_mutex_unlock(&args->stream->lock);
    return NULL;
}

// ---- the callbacks of a launch

typedef struct Transfers {
    int64_t send_count, recv_count;  // of one device
    PjrtSendCallbackInfo *sends;     // [device of the assignment][send]; only those of this process's devices are set
    PjrtRecvCallbackInfo *recvs;     // [device of the assignment][recv]
} Transfers;

// NULL if no callback of that device serves the channel. A few entries: searched in order.
static const PjrtSendCallbackInfo *find_send(const Transfers *transfers, int64_t place, int64_t channel) {
    const PjrtSendCallbackInfo *list = transfers->sends + place * transfers->send_count;
    for (int64_t i = 0; i < transfers->send_count; i++)
        if (list[i].channel_id == channel) return &list[i];
    return NULL;
}

// The same for the device's receives.
static const PjrtRecvCallbackInfo *find_recv(const Transfers *transfers, int64_t place, int64_t channel) {
    const PjrtRecvCallbackInfo *list = transfers->recvs + place * transfers->recv_count;
    for (int64_t i = 0; i < transfers->recv_count; i++)
        if (list[i].channel_id == channel) return &list[i];
    return NULL;
}

static void free_chunk(void *data, void *unused) {
    (void)unused;
    hlo_free(data);
}

// A whole array in one chunk: the callback owns it, and may free it on any thread.
static HloStatus send_chunk(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    const PjrtSendCallbackInfo *info = find_send(context, place, channel);
    PjrtChunk chunk = {.data = hlo_allocate(bytes ? (size_t)bytes : 1), .size = (size_t)bytes, .deleter = free_chunk};
    HLO_FAIL_IF(!chunk.data, HLO_RESOURCE_EXHAUSTED, "no memory for %lld bytes on channel %lld", (long long)bytes,
                (long long)channel);
    if (bytes) memcpy(chunk.data, data, (size_t)bytes);
    static PjrtCallbackError *callback_error = pjrt_make_error;
    return pjrt_status_from_foreign(info->send_callback(&chunk, &callback_error, (size_t)bytes, true, info->user_arg));
}

// Two references, because either side may be the last to let go: the callee may fill the stream long after the callback
// has returned, or never.
static HloStatus receive_stream(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    const int64_t bytes = hlo_shape_bytes(shape);
    const PjrtRecvCallbackInfo *info = find_recv(context, place, channel);
    PjrtStream *stream = hlo_allocate_zeroed(1, sizeof(*stream));
    HLO_FAIL_IF(!stream, HLO_RESOURCE_EXHAUSTED, "no memory for a stream on channel %lld", (long long)channel);
    atomic_init(&stream->references, 2);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->data = data;
    stream->total = bytes;
    info->recv_callback(stream, info->user_arg);
    HloStatus status = await_stream(stream, channel);
    release_stream(stream);
    return status;
}

// Checks at launch, not when the program reaches the transfer, so that the caller learns of a missing callback and no
// device waits for it.
static HloStatus check_channels(const Transfers *transfers, const PjrtLoadedExecutable *loaded) {
    const TargetExecutable *executable = loaded->executable->executable;
    for (int64_t i = 0; i < target_executable_transfer_count(executable); i++) {
        bool to_host;
        const int64_t channel = target_executable_transfer(executable, i, &to_host);
        for (size_t l = 0; l < loaded->local_count; l++) {
            const int64_t place = (int64_t)loaded->local_places[l];
            const bool served =
                to_host ? find_send(transfers, place, channel) != NULL : find_recv(transfers, place, channel) != NULL;
            HLO_FAIL_IF(!served, HLO_INVALID_ARGUMENT,
                        "%s %s the host over channel %lld, for which no callback is registered",
                        target_executable_name(executable), to_host ? "sends to" : "receives from", (long long)channel);
        }
    }
    return HLO_SUCCESS;
}

// One block: the struct and both lists.
// The caller's lists, which are those of this process's devices, need not outlive the call of Execute, while the
// program runs on.
static Transfers *copy_callbacks(const PjrtExecuteOptions *options, const PjrtLoadedExecutable *loaded) {
    const size_t sends = options ? options->num_send_ops : 0, recvs = options ? options->num_recv_ops : 0;
    const size_t count = loaded->device_count;
    Transfers *transfers = hlo_allocate_zeroed(1, sizeof(*transfers) + count * sends * sizeof(PjrtSendCallbackInfo) +
                                                      count * recvs * sizeof(PjrtRecvCallbackInfo));
    if (!transfers) return NULL;
    transfers->send_count = (int64_t)sends;
    transfers->recv_count = (int64_t)recvs;
    transfers->sends = (PjrtSendCallbackInfo *)(transfers + 1);
    transfers->recvs = (PjrtRecvCallbackInfo *)(transfers->sends + count * sends);
    for (size_t l = 0; l < loaded->local_count; l++) {
        const size_t place = loaded->local_places[l];
        for (size_t i = 0; i < sends; i++) transfers->sends[place * sends + i] = options->send_callbacks[l][i];
        for (size_t i = 0; i < recvs; i++) transfers->recvs[place * recvs + i] = options->recv_callbacks[l][i];
    }
    return transfers;
}

HloStatus pjrt_transfers_new(const PjrtExecuteOptions *options, const PjrtLoadedExecutable *loaded,
                             TargetHostTransfers *result) {
    if (target_executable_transfer_count(loaded->executable->executable) == 0) return HLO_SUCCESS;
    Transfers *transfers = copy_callbacks(options, loaded);
    HLO_FAIL_IF(!transfers, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = check_channels(transfers, loaded);
    if (status) {
        hlo_free(transfers);
        return status;
    }
    *result =
        (TargetHostTransfers){.send = send_chunk, .receive = receive_stream, .release = hlo_free, .context = transfers};
    return HLO_SUCCESS;
}
