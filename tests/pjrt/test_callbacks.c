// SPDX-License-Identifier: Apache-2.0
// Host callbacks through the C API, as jaxlib makes them of jax.pure_callback on TPUs.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/pjrt/harness.h"

static const char kAsk[] =
    "HloModule ask\nENTRY e {\n p = f32[2,3] parameter(0)\n t = token[] after-all()\n"
    " s = (f32[2,3], u32[], token[]) send(p, t), channel_id=7, is_host_transfer=true\n"
    " sd = token[] send-done(s), channel_id=7, is_host_transfer=true\n"
    " r = (f32[2,3], u32[], token[]) recv(sd), channel_id=8, is_host_transfer=true\n"
    " rd = (f32[2,3], token[]) recv-done(r), channel_id=8, is_host_transfer=true\n"
    " g = f32[2,3] get-tuple-element(rd), index=0\n ROOT a = f32[2,3] add(g, p)\n}\n";

// One callback: doubles what it gets.
typedef struct Callback {
    float values[6];
    bool fails;    // the send answers with an error
    bool late;     // another thread fills the stream
    bool foreign;  // the error has a table of the caller
    bool half;     // the stream is left half full
    bool kept;     // the stream is kept in `stream`, for the test to fill
    _Atomic(PjrtStream *) stream;
    atomic_int errors_freed;
    pthread_t thread;
} Callback;

// ---- an error that is not the plugin's

typedef struct ForeignError {
    const PjrtErrorFunctionTable *table;
    Callback *callback;
} ForeignError;

static void foreign_destroy(PjrtErrorDestroyArgs *args) {
    ForeignError *error = (ForeignError *)args->object;
    atomic_fetch_add(&error->callback->errors_freed, 1);
    free(error);
}
static void foreign_message(PjrtErrorMessageArgs *args) {
    args->message = "from abroad";
    args->message_size = strlen(args->message);
}
static PjrtError *foreign_code(PjrtErrorGetCodeArgs *args) {
    args->code = 15;
    return NULL;
}
static const PjrtErrorFunctionTable foreign_table = {.struct_size = sizeof(PjrtErrorFunctionTable),
                                                     .destroy = foreign_destroy,
                                                     .message = foreign_message,
                                                     .get_code = foreign_code};

// ---- the callbacks

static PjrtError *take(PjrtChunk *chunk, PjrtCallbackError **make_error, size_t total, bool done, void *user_arg) {
    Callback *callback = user_arg;
    cr_assert_eq(total, sizeof(callback->values));
    cr_assert_eq(chunk->size, total);
    cr_assert(done);
    for (int i = 0; i < 6; i++) callback->values[i] = 2 * ((const float *)chunk->data)[i];
    chunk->deleter(chunk->data, chunk->deleter_arg);
    if (callback->foreign) {
        ForeignError *error = malloc(sizeof(*error));
        *error = (ForeignError){&foreign_table, callback};
        return (PjrtError *)error;
    }
    return callback->fails ? (*make_error)(9, "not today, thanks", 9) : NULL;
}

static void keep_chunk(void *data, void *argument) {
    (void)data;
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void destroy_stream(PjrtStream *stream) {
    PjrtCopyToDeviceStreamDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = stream};
    harness_must(CALL(CopyToDeviceStream_Destroy, &destroy), "Destroy");
}

static int64_t current_bytes(PjrtStream *stream) {
    PjrtCopyToDeviceStreamCurrentBytesArgs current = {.struct_size = sizeof(current), .stream = stream};
    harness_must(CALL(CopyToDeviceStream_CurrentBytes, &current), "CurrentBytes");
    return current.current_bytes;
}

// In two chunks; a third one is refused.
static void fill(PjrtStream *stream, Callback *callback) {
    PjrtCopyToDeviceStreamTotalBytesArgs total = {.struct_size = sizeof(total), .stream = stream};
    harness_must(CALL(CopyToDeviceStream_TotalBytes, &total), "TotalBytes");
    cr_assert_eq(total.total_bytes, (int64_t)sizeof(callback->values));
    PjrtCopyToDeviceStreamGranuleSizeArgs granule = {.struct_size = sizeof(granule), .stream = stream};
    harness_must(CALL(CopyToDeviceStream_GranuleSize, &granule), "GranuleSize");
    cr_assert_eq(8 % granule.granule_size_in_bytes, 0);
    atomic_int deleted = 0;
    PjrtChunk chunk = {.data = callback->values, .size = 8, .deleter = keep_chunk, .deleter_arg = &deleted};
    PjrtCopyToDeviceStreamAddChunkArgs add = {.struct_size = sizeof(add), .stream = stream, .chunk = &chunk};
    harness_must(CALL(CopyToDeviceStream_AddChunk, &add), "AddChunk");
    harness_destroy_event(add.transfer_complete);
    cr_assert_eq(current_bytes(stream), 8);
    if (!callback->half) {
        PjrtChunk too_much = {.data = callback->values, .size = 17, .deleter = keep_chunk, .deleter_arg = &deleted};
        add.chunk = &too_much;
        harness_refused(CALL(CopyToDeviceStream_AddChunk, &add), 3, "17");
        PjrtChunk rest = {.data = callback->values + 2, .size = 16, .deleter = keep_chunk, .deleter_arg = &deleted};
        add.chunk = &rest;
        harness_must(CALL(CopyToDeviceStream_AddChunk, &add), "AddChunk");
        harness_destroy_event(add.transfer_complete);
    }
    cr_assert_eq(deleted, callback->half ? 1 : 3);
    destroy_stream(stream);
}

typedef struct LateFill {
    PjrtStream *stream;
    Callback *callback;
} LateFill;

static void *fill_late(void *argument) {
    LateFill late = *(LateFill *)argument;
    free(argument);
    usleep(20000);
    fill(late.stream, late.callback);
    return NULL;
}

static void give(PjrtStream *stream, void *user_arg) {
    Callback *callback = user_arg;
    if (callback->kept) {
        atomic_store(&callback->stream, stream);
        return;
    }
    if (!callback->late) {
        fill(stream, callback);
        return;
    }
    LateFill *late = malloc(sizeof(*late));
    *late = (LateFill){stream, callback};
    pthread_create(&callback->thread, NULL, fill_late, late);
}

// ---- launches

static PjrtError *launch(PjrtLoadedExecutable *executable, PjrtBuffer *argument, Callback *callback, size_t sends,
                         PjrtBuffer **result, PjrtEvent **done) {
    const PjrtSendCallbackInfo send = {.channel_id = 7, .user_arg = callback, .send_callback = take};
    const PjrtRecvCallbackInfo recv = {.channel_id = 8, .user_arg = callback, .recv_callback = give};
    const PjrtSendCallbackInfo *const send_lists[] = {&send};
    const PjrtRecvCallbackInfo *const recv_lists[] = {&recv};
    PjrtExecuteOptions options = {.struct_size = sizeof(options),
                                  .send_callbacks = send_lists,
                                  .recv_callbacks = recv_lists,
                                  .num_send_ops = sends,
                                  .num_recv_ops = 1};
    PjrtBuffer *const arguments[] = {argument};
    PjrtBuffer *const *const argument_lists[] = {arguments};
    PjrtBuffer **const result_lists[] = {result};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = executable,
                                            .options = &options,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = 1,
                                            .output_lists = result_lists,
                                            .device_complete_events = done};
    return CALL(LoadedExecutable_Execute, &args);
}

static PjrtError *await_event(PjrtEvent *event) {
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = event};
    PjrtError *error = CALL(Event_Await, &wait);
    harness_destroy_event(event);
    return error;
}

static bool is_ready(PjrtBuffer *buffer) {
    PjrtBufferReadyEventArgs args = {.struct_size = sizeof(args), .buffer = buffer};
    harness_must(CALL(Buffer_ReadyEvent, &args), "ReadyEvent");
    PjrtEventIsReadyArgs ready = {.struct_size = sizeof(ready), .event = args.event};
    harness_must(CALL(Event_IsReady, &ready), "IsReady");
    harness_destroy_event(args.event);
    return ready.is_ready;
}

static PjrtError *await_buffer(PjrtBuffer *buffer) {
    PjrtBufferReadyEventArgs ready = {.struct_size = sizeof(ready), .buffer = buffer};
    harness_must(CALL(Buffer_ReadyEvent, &ready), "ReadyEvent");
    return await_event(ready.event);
}

// What one launch with this callback gives: 3 x the argument, or an error. A callback that no one waits for makes both
// known at once, as on XLA's CPU; after an error there are no results.
static void expect(Callback callback, int code, const char *message) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kAsk);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
    PjrtEvent *done = NULL;
    PjrtError *error = launch(executable, argument, &callback, 1, &result, &done);
    if (code) {
        harness_refused(error, code, message);
    } else {
        float numbers[6];
        harness_must(error, "Execute");
        cr_expect(is_ready(result));
        harness_must(await_event(done), "done");
        harness_read(result, numbers, 6);
        for (int i = 0; i < 6; i++) cr_expect_eq(numbers[i], (float)(3 * (i + 1)));
        harness_destroy_buffer(result);
    }
    if (callback.late) pthread_join(callback.thread, NULL);
    cr_expect_eq(callback.errors_freed, callback.foreign);
    harness_destroy_buffer(argument);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

Test(pjrt_callbacks, give_what_they_are_asked_for) {
    expect((Callback){0}, 0, NULL);
}

Test(pjrt_callbacks, may_answer_later_from_another_thread) {
    expect((Callback){.late = true}, 0, NULL);
}

Test(pjrt_callbacks, bug_errors_were_known_only_where_somebody_waits) {
    expect((Callback){.fails = true}, 9, "not today");
}

Test(pjrt_callbacks, errors_of_the_caller_are_freed_by_their_own_table) {
    expect((Callback){.foreign = true}, 15, "from abroad");
}

Test(pjrt_callbacks, a_stream_that_is_left_is_an_error_not_a_hang) {
    expect((Callback){.half = true}, 13, "8 of 24 bytes");
}

Test(pjrt_callbacks, a_channel_without_callback_is_refused_at_launch) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kAsk);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
    Callback callback = {0};
    harness_refused(launch(executable, argument, &callback, 0, &result, NULL), 3, "channel 7");
    harness_destroy_buffer(argument);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// Like jax.debug.print: the host returns nothing.
static const char kTell[] =
    "HloModule tell\nENTRY e {\n p = f32[2,3] parameter(0)\n t = token[] after-all()\n"
    " s = (f32[2,3], u32[], token[]) send(p, t), channel_id=7, is_host_transfer=true\n"
    " sd = token[] send-done(s), channel_id=7, is_host_transfer=true\n ROOT a = f32[2,3] add(p, p)\n}\n";

// As JAX writes it: the host returns a value that is not used.
static const char kTellWithSign[] =
    "HloModule sign\nENTRY e {\n p = f32[2,3] parameter(0)\n t = token[] after-all()\n"
    " s = (f32[2,3], u32[], token[]) send(p, t), channel_id=7, is_host_transfer=true\n"
    " sd = token[] send-done(s), channel_id=7, is_host_transfer=true\n"
    " r = (f32[2,3], u32[], token[]) recv(sd), channel_id=8, is_host_transfer=true\n"
    " rd = (f32[2,3], token[]) recv-done(r), channel_id=8, is_host_transfer=true\n ROOT a = f32[2,3] add(p, p)\n}\n";

// The output of a callback must precede what the program prints after its launch.
static void expect_over(const char *text, bool late) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, text);
    for (int i = 0; i < 20; i++) {
        PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
        Callback callback = {.late = late};
        harness_must(launch(executable, argument, &callback, 1, &result, NULL), "Execute");
        cr_expect_eq(callback.values[5], 12.0f);
        cr_expect(is_ready(result));
        if (late) pthread_join(callback.thread, NULL);
        harness_destroy_buffer(argument);
        harness_destroy_buffer(result);
    }
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

Test(pjrt_callbacks, are_over_when_the_launch_returns) {
    expect_over(kTell, false);
}

Test(pjrt_callbacks, bug_an_unread_sign_is_not_an_answer) {
    expect_over(kTellWithSign, true);
}

// The thread that launched a program answers its callback after the launch, so the launch must not wait for the answer.
// Another program is launched while the first waits, and both are answered in the end.
Test(pjrt_callbacks, may_be_answered_by_the_launching_thread, .timeout = 60) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kAsk);
    PjrtBuffer *arguments[2], *results[2];
    Callback callbacks[2] = {{.kept = true}, {.kept = true}};
    for (int i = 0; i < 2; i++) {
        arguments[i] = harness_numbers(client, 0, 2, 3, 1);
        harness_must(launch(executable, arguments[i], &callbacks[i], 1, &results[i], NULL), "Execute");
        while (!atomic_load(&callbacks[i].stream)) usleep(1000);
        cr_expect(!is_ready(results[i]));
    }
    for (int i = 1; i >= 0; i--) {
        fill(atomic_load(&callbacks[i].stream), &callbacks[i]);
        float numbers[6];
        harness_read(results[i], numbers, 6);
        for (int k = 0; k < 6; k++) cr_expect_eq(numbers[k], (float)(3 * (k + 1)));
        harness_destroy_buffer(results[i]);
        harness_destroy_buffer(arguments[i]);
    }
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// The executable, its arguments and the client go while the callback is being waited for.
Test(pjrt_callbacks, everything_may_be_destroyed_meanwhile) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kAsk);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
    Callback callback = {.kept = true};
    PjrtEvent *done = NULL;
    harness_must(launch(executable, argument, &callback, 1, &result, &done), "Execute");
    harness_destroy_executable(executable);
    harness_destroy_buffer(argument);
    fill(atomic_load(&callback.stream), &callback);
    float numbers[6];
    harness_read(result, numbers, 6);
    cr_expect_eq(numbers[5], 18);
    harness_destroy_buffer(result);
    harness_must(await_event(done), "done");
    harness_destroy_client(client);
}

// Errors that come after the launch has returned are at its event and at its results alike.
Test(pjrt_callbacks, late_errors_surface_at_event_and_result) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kAsk);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
    Callback callback = {.kept = true, .half = true};
    PjrtEvent *done = NULL;
    harness_must(launch(executable, argument, &callback, 1, &result, &done), "Execute");
    cr_expect(!is_ready(result));
    fill(atomic_load(&callback.stream), &callback);
    harness_refused(await_event(done), 13, "8 of 24 bytes");
    harness_refused(await_buffer(result), 13, "8 of 24 bytes");
    harness_destroy_buffer(result);
    harness_destroy_buffer(argument);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// More than once over, in pieces and from any thread: each chunk is taken whole or refused, and a refused one leaves
// the stream as it was.
Test(pjrt_callbacks, chunks_that_do_not_fit_change_nothing) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kAsk);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = NULL;
    Callback callback = {.kept = true};
    PjrtEvent *done = NULL;
    harness_must(launch(executable, argument, &callback, 1, &result, &done), "Execute");
    PjrtStream *stream = atomic_load(&callback.stream);
    static const struct {
        size_t size;
        bool taken;
    } chunks[] = {{25, false}, {SIZE_MAX, false}, {0, true},  {1, true},  {24, false},
                  {11, true},  {13, false},       {12, true}, {1, false}, {0, true}};
    atomic_int deleted = 0;
    int64_t at = 0;
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        PjrtChunk chunk = {.data = (char *)callback.values + at,
                           .size = chunks[i].size,
                           .deleter = keep_chunk,
                           .deleter_arg = &deleted};
        PjrtCopyToDeviceStreamAddChunkArgs add = {.struct_size = sizeof(add), .stream = stream, .chunk = &chunk};
        PjrtError *error = CALL(CopyToDeviceStream_AddChunk, &add);
        cr_expect_eq(deleted, (int)i + 1, "chunk %zu is the stream's, taken or not", i);
        if (chunks[i].taken) {
            harness_must(error, "AddChunk");
            harness_destroy_event(add.transfer_complete);
            at += (int64_t)chunks[i].size;
        } else {
            cr_assert(error, "chunk %zu of %zu bytes is taken", i, chunks[i].size);
            harness_refused(error, 3, "a chunk of");
            cr_expect_null(add.transfer_complete);
        }
        cr_expect_eq(current_bytes(stream), at);
    }
    destroy_stream(stream);
    float numbers[6];
    harness_read(result, numbers, 6);
    cr_expect_eq(numbers[5], 18);
    harness_destroy_buffer(result);
    harness_must(await_event(done), "done");
    harness_destroy_buffer(argument);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}
