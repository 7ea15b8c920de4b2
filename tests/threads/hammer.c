// SPDX-License-Identifier: Apache-2.0
// Hammers the plugin from many threads without Python and without Criterion, so that it runs under ThreadSanitizer:
// usage: pjrt_hammer [THREADS [ROUNDS]]. Every thread makes rounds of what jaxlib's threads do at once on one client
// (put and read, delete while others read, compile and drop, launch on one and on all devices, answer callbacks, fill
// buffers in pieces, take profiles) and checks the numbers. Exits 0 when all were right; aborts with a message
// otherwise.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/abi_transfer.h"
#include "pjrt/extensions.h"
#include "tests/pjrt/harness.h"

enum { kDevices = 8, kShared = 8, kRows = 4, kColumns = 8, kCount = kRows * kColumns };

static const char kDouble[] =
    "module @double {\n  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
    "    %0 = stablehlo.add %arg0, %arg0 : tensor<4x8xf32>\n    return %0 : tensor<4x8xf32>\n  }\n}\n";

static const char kSum[] =
    "module @sum attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
    "  sdy.mesh @mesh = <[\"x\"=8]>\n"
    "  func.func public @main(%arg0: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) -> "
    "(tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {\n"
    "    %cst = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0] : "
    "(tensor<32x8xf32>, tensor<f32>) -> tensor<8xf32>\n    return %0 : tensor<8xf32>\n  }\n}\n";

static const char kAsk[] =
    "module @ask {\n  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
    "    %t = stablehlo.create_token : !stablehlo.token\n"
    "    %s = \"stablehlo.send\"(%arg0, %t) {channel_handle = #stablehlo.channel_handle<handle = 7, type = 2>, "
    "is_host_transfer = true} : (tensor<4x8xf32>, !stablehlo.token) -> !stablehlo.token\n"
    "    %r:2 = \"stablehlo.recv\"(%s) {channel_handle = #stablehlo.channel_handle<handle = 8, type = 3>, "
    "is_host_transfer = true} : (!stablehlo.token) -> (tensor<4x8xf32>, !stablehlo.token)\n"
    "    return %r#0 : tensor<4x8xf32>\n  }\n}\n";

// The objects that all threads use.
typedef struct Shared {
    PjrtClient *client;
    PjrtDevice *const *devices;
    PjrtLoadedExecutable *twice, *sum, *ask;
    PjrtBuffer *_Atomic buffers[kShared];  // any thread may read or delete one; who takes it out destroys it
    atomic_int readers[kShared];           // threads that hold the address now
    atomic_long checked;                   // numbers compared
    int rounds;
} Shared;

static void destroy_error(PjrtError *error) {
    PjrtErrorDestroyArgs args = {.struct_size = sizeof(args), .object = error};
    if (error) CALL(Error_Destroy, &args);
}

static void expect(Shared *shared, float have, float want, const char *what) {
    if (have != want) harness_fail("%s: %g, not %g", what, (double)have, (double)want);
    atomic_fetch_add(&shared->checked, 1);
}

// ---- buffers

static void count_ready(PjrtError *error, void *argument) {
    destroy_error(error);
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void put_and_read(Shared *shared, int thread, int round) {
    PjrtBuffer *buffer = harness_numbers(shared->client, (thread + round) % kDevices, kRows, kColumns, (float)round);
    atomic_int calls = 0;
    PjrtBufferReadyEventArgs ready = {.struct_size = sizeof(ready), .buffer = buffer};
    harness_must(CALL(Buffer_ReadyEvent, &ready), "ReadyEvent");
    PjrtEventOnReadyArgs on_ready = {
        .struct_size = sizeof(on_ready), .event = ready.event, .callback = count_ready, .user_arg = &calls};
    harness_must(CALL(Event_OnReady, &on_ready), "OnReady");
    PjrtEventAwaitArgs await = {.struct_size = sizeof(await), .object = ready.event};
    harness_must(CALL(Event_Await, &await), "Await");
    harness_destroy_event(ready.event);
    if (atomic_load(&calls) != 1) harness_fail("%d calls of one callback", atomic_load(&calls));
    PjrtDeviceDefaultMemoryArgs memory = {.struct_size = sizeof(memory),
                                          .device = shared->devices[(thread + round + 1) % kDevices]};
    harness_must(CALL(Device_DefaultMemory, &memory), "DefaultMemory");
    PjrtBufferCopyToMemoryArgs copy = {.struct_size = sizeof(copy), .buffer = buffer, .dst_memory = memory.memory};
    harness_must(CALL(Buffer_CopyToMemory, &copy), "CopyToMemory");
    harness_destroy_buffer(buffer);
    float numbers[kCount];
    harness_read(copy.dst_buffer, numbers, kCount);
    expect(shared, numbers[kCount - 1], (float)(round + kCount - 1), "a copy");
    harness_destroy_buffer(copy.dst_buffer);
}

// Reads, copies or deletes a buffer that other threads use at the same time: each gets the numbers or an error.
static void share_buffer(Shared *shared, int thread, int round) {
    const int slot = (thread * 5 + round) % kShared;
    atomic_fetch_add(&shared->readers[slot], 1);
    PjrtBuffer *buffer = atomic_load(&shared->buffers[slot]);
    if (buffer && round % 3 == 0) {
        PjrtBufferDeleteArgs args = {.struct_size = sizeof(args), .object = buffer};
        harness_must(CALL(Buffer_Delete, &args), "Buffer_Delete");
    } else if (buffer) {
        float numbers[kCount];
        PjrtBufferToHostBufferArgs args = {
            .struct_size = sizeof(args), .src = buffer, .dst = numbers, .dst_size = sizeof(numbers)};
        PjrtError *error = CALL(Buffer_ToHostBuffer, &args);
        if (!error) {
            PjrtEventAwaitArgs await = {.struct_size = sizeof(await), .object = args.event};
            PjrtError *late = CALL(Event_Await, &await);
            if (!late) expect(shared, numbers[1], (float)slot + 1, "a shared buffer");
            destroy_error(late);
            harness_destroy_event(args.event);
        }
        destroy_error(error);
    }
    atomic_fetch_sub(&shared->readers[slot], 1);
    if (round % 7 != 0) return;
    // The handle is freed when no thread holds its address: that is the caller's duty in the C API.
    PjrtBuffer *fresh = harness_numbers(shared->client, slot, kRows, kColumns, (float)slot);
    PjrtBuffer *old = atomic_exchange(&shared->buffers[slot], fresh);
    while (atomic_load(&shared->readers[slot])) sched_yield();
    if (old) harness_destroy_buffer(old);
}

// ---- launches

static PjrtError *launch(PjrtLoadedExecutable *executable, PjrtBuffer *const *arguments, size_t devices,
                         PjrtExecuteOptions *options, PjrtBuffer **results, PjrtEvent **events) {
    PjrtBuffer *const *argument_lists[kDevices];
    PjrtBuffer **result_lists[kDevices];
    for (size_t d = 0; d < devices; d++) {
        argument_lists[d] = &arguments[d];
        result_lists[d] = &results[d];
    }
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = executable,
                                            .options = options,
                                            .argument_lists = argument_lists,
                                            .num_devices = devices,
                                            .num_args = 1,
                                            .output_lists = result_lists,
                                            .device_complete_events = events};
    return CALL(LoadedExecutable_Execute, &args);
}

static PjrtBuffer *run_on_one(PjrtLoadedExecutable *executable, PjrtBuffer *argument, PjrtExecuteOptions *options) {
    PjrtExecuteOptions plain = {.struct_size = sizeof(plain)};
    PjrtBuffer *result = NULL;
    PjrtEvent *done = NULL;
    harness_must(launch(executable, &argument, 1, options ? options : &plain, &result, &done), "Execute");
    harness_destroy_event(done);
    return result;
}

static void check_and_drop(Shared *shared, PjrtBuffer *result, float want, const char *what) {
    float numbers[kCount];
    harness_read(result, numbers, kCount);
    expect(shared, numbers[kCount - 1], want, what);
    harness_destroy_buffer(result);
}

static void launch_on_one(Shared *shared, int thread, int round) {
    (void)thread;
    PjrtBuffer *argument = harness_numbers(shared->client, 0, kRows, kColumns, (float)round);
    PjrtBuffer *once = run_on_one(shared->twice, argument, NULL);
    PjrtBuffer *again = run_on_one(shared->twice, once, NULL);  // before the first one is known to be ready
    harness_destroy_buffer(argument);
    harness_destroy_buffer(once);
    check_and_drop(shared, again, 4 * (float)(round + kCount - 1), "four times");
}

static void launch_on_all(Shared *shared, int thread, int round) {
    PjrtBuffer *arguments[kDevices], *results[kDevices];
    PjrtEvent *events[kDevices];
    for (int d = 0; d < kDevices; d++)
        arguments[d] = harness_numbers(shared->client, d, kRows, kColumns, (float)(thread + round));
    PjrtExecuteOptions options = {.struct_size = sizeof(options), .launch_id = round};
    harness_must(launch(shared->sum, arguments, kDevices, &options, results, events), "Execute");
    for (int d = 0; d < kDevices; d++) {
        harness_destroy_buffer(arguments[d]);
        harness_destroy_event(events[d]);
    }
    // Column 0 of each shard holds start, start + 8, start + 16, start + 24.
    const float want = kDevices * (4 * (float)(thread + round) + 48);
    for (int d = 0; d < kDevices; d++) {
        float numbers[kColumns];
        harness_read(results[d], numbers, kColumns);
        expect(shared, numbers[0], want, "a sum over all devices");
        harness_destroy_buffer(results[d]);
    }
}

// ---- programs

static void compile_and_drop(Shared *shared, int thread, int round) {
    char text[512];
    snprintf(text, sizeof(text),
             "module @add {\n  func.func public @main(%%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
             "    %%c = stablehlo.constant dense<%d.0> : tensor<4x8xf32>\n"
             "    %%0 = stablehlo.add %%arg0, %%c : tensor<4x8xf32>\n    return %%0 : tensor<4x8xf32>\n  }\n}\n",
             thread);
    PjrtError *error;
    PjrtLoadedExecutable *executable = harness_compile(shared->client, text, strlen(text), 1, &error);
    harness_must(error, "compile");
    PjrtBuffer *argument = harness_numbers(shared->client, 0, kRows, kColumns, (float)round);
    PjrtBuffer *result = run_on_one(executable, argument, NULL);
    harness_destroy_executable(executable);  // while it may still run
    harness_destroy_buffer(argument);
    check_and_drop(shared, result, (float)(thread + round + kCount - 1), "a sum with a constant");
}

// Answers that executables compute when first asked.
static void ask_about_program(Shared *shared, int thread, int round) {
    (void)thread;
    (void)round;
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = shared->sum};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    PjrtProgram program = {.struct_size = sizeof(program)};
    PjrtExecutableOptimizedProgramArgs text = {
        .struct_size = sizeof(text), .executable = get.executable, .program = &program};
    harness_must(CALL(Executable_OptimizedProgram, &text), "OptimizedProgram");
    program.code = malloc(program.code_size);
    harness_must(CALL(Executable_OptimizedProgram, &text), "OptimizedProgram");
    free(program.code);
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtExecutableLayoutsArgs list = {.struct_size = sizeof(list), .executable = get.executable};
    harness_must(layouts->outputs(&list), "GetOutputLayouts");
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
}

// ---- callbacks

typedef struct Answer {
    float numbers[kCount];
    PjrtStream *_Atomic stream;
} Answer;

static PjrtError *take(PjrtChunk *chunk, PjrtCallbackError **make_error, size_t total, bool done, void *argument) {
    (void)make_error;
    (void)done;
    Answer *answer = argument;
    if (total != sizeof(answer->numbers)) harness_fail("%zu bytes were sent", total);
    for (int i = 0; i < kCount; i++) answer->numbers[i] = 3 * ((const float *)chunk->data)[i];
    chunk->deleter(chunk->data, chunk->deleter_arg);
    return NULL;
}

static void keep_stream(PjrtStream *stream, void *argument) {
    atomic_store(&((Answer *)argument)->stream, stream);
}

static void keep_chunk(void *data, void *argument) {
    (void)data;
    (void)argument;
}

// The launching thread answers, after its launch.
static void ask_host(Shared *shared, int thread, int round) {
    (void)thread;
    Answer answer = {.stream = NULL};
    const PjrtSendCallbackInfo send = {.channel_id = 7, .user_arg = &answer, .send_callback = take};
    const PjrtRecvCallbackInfo recv = {.channel_id = 8, .user_arg = &answer, .recv_callback = keep_stream};
    const PjrtSendCallbackInfo *const sends[] = {&send};
    const PjrtRecvCallbackInfo *const recvs[] = {&recv};
    PjrtExecuteOptions options = {.struct_size = sizeof(options),
                                  .send_callbacks = sends,
                                  .recv_callbacks = recvs,
                                  .num_send_ops = 1,
                                  .num_recv_ops = 1};
    PjrtBuffer *argument = harness_numbers(shared->client, 0, kRows, kColumns, (float)round);
    PjrtBuffer *result = run_on_one(shared->ask, argument, &options);
    harness_destroy_buffer(argument);
    while (!atomic_load(&answer.stream)) sched_yield();
    PjrtChunk chunk = {.data = answer.numbers, .size = sizeof(answer.numbers), .deleter = keep_chunk};
    PjrtCopyToDeviceStreamAddChunkArgs add = {
        .struct_size = sizeof(add), .stream = atomic_load(&answer.stream), .chunk = &chunk};
    harness_must(CALL(CopyToDeviceStream_AddChunk, &add), "AddChunk");
    harness_destroy_event(add.transfer_complete);
    PjrtCopyToDeviceStreamDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = add.stream};
    harness_must(CALL(CopyToDeviceStream_Destroy, &destroy), "Stream_Destroy");
    check_and_drop(shared, result, 3 * (float)(round + kCount - 1), "the host's answer");
}

// ---- buffers that are filled later

typedef struct Filling {
    PjrtTransferManager *manager;
    float start;
} Filling;

static void *fill_half(void *argument) {
    const Filling *filling = argument;
    float numbers[kCount / 2];
    for (int i = 0; i < kCount / 2; i++) numbers[i] = filling->start + (float)(kCount / 2 + i);
    PjrtTransferManagerTransferDataArgs args = {.struct_size = sizeof(args),
                                                .manager = filling->manager,
                                                .data = numbers,
                                                .offset = sizeof(numbers),
                                                .size = sizeof(numbers)};
    harness_must(CALL(AsyncHostToDeviceTransferManager_TransferData, &args), "TransferData");
    harness_destroy_event(args.done);
    return NULL;
}

// Launched on before it is full; two threads fill it.
static void fill_later(Shared *shared, int thread, int round) {
    (void)thread;
    const int64_t dims[] = {kRows, kColumns};
    PjrtShapeSpec spec = {.struct_size = sizeof(spec), .dims = dims, .num_dims = 2, .element_type = 11};
    PjrtDeviceDefaultMemoryArgs memory = {.struct_size = sizeof(memory), .device = shared->devices[0]};
    harness_must(CALL(Device_DefaultMemory, &memory), "DefaultMemory");
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs create = {.struct_size = sizeof(create),
                                                              .client = shared->client,
                                                              .specs = &spec,
                                                              .num_specs = 1,
                                                              .memory = memory.memory};
    harness_must(CALL(Client_CreateBuffersForAsyncHostToDevice, &create), "CreateBuffers");
    PjrtTransferManagerBufferArgs retrieve = {.struct_size = sizeof(retrieve), .manager = create.manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, &retrieve), "RetrieveBuffer");
    Filling filling = {create.manager, (float)round};
    pthread_t helper;
    if (pthread_create(&helper, NULL, fill_half, &filling)) harness_fail("no thread");
    pthread_join(helper, NULL);
    float numbers[kCount / 2];
    for (int i = 0; i < kCount / 2; i++) numbers[i] = (float)(round + i);
    PjrtTransferManagerTransferDataArgs args = {.struct_size = sizeof(args),
                                                .manager = create.manager,
                                                .data = numbers,
                                                .size = sizeof(numbers),
                                                .is_last_transfer = true};
    harness_must(CALL(AsyncHostToDeviceTransferManager_TransferData, &args), "TransferData");
    harness_destroy_event(args.done);
    PjrtTransferManagerArgs destroy = {.struct_size = sizeof(destroy), .manager = create.manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_Destroy, &destroy), "Destroy");
    PjrtBuffer *result = run_on_one(shared->twice, retrieve.answer.buffer, NULL);
    harness_destroy_buffer(retrieve.answer.buffer);
    check_and_drop(shared, result, 2 * (float)(round + kCount - 1), "twice what came in pieces");
}

// ---- clients and profiles

static void another_client(Shared *shared, int thread, int round) {
    if (round % 8) return;
    PjrtClient *client = harness_client(thread % 2 ? "v5e-8" : "cpu:2");
    PjrtBuffer *buffer = harness_numbers(client, 1, kRows, kColumns, (float)thread);
    check_and_drop(shared, buffer, (float)(thread + kCount - 1), "a buffer of another client");
    harness_destroy_client(client);
}

static void take_profile(Shared *shared, int thread, int round) {
    if (thread || round % 16) return;  // one profile at a time
    const PjrtProfilerApi *api = ((PjrtProfilerExtension *)(void *)harness_extension(PJRT_EXTENSION_PROFILER))->api;
    PjrtProfilerCreateArgs create = {.struct_size = sizeof(create)};
    harness_must(api->create(&create), "Profiler_Create");
    PjrtProfilerArgs args = {.struct_size = sizeof(args), .profiler = create.profiler};
    harness_must(api->start(&args), "Profiler_Start");
    launch_on_one(shared, thread, round);
    harness_must(api->stop(&args), "Profiler_Stop");
    PjrtProfilerCollectArgs collect = {.struct_size = sizeof(collect), .profiler = create.profiler};
    harness_must(api->collect_data(&collect), "Profiler_CollectData");
    harness_must(api->destroy(&args), "Profiler_Destroy");
}

static void (*const actions[])(Shared *, int thread, int round) = {
    put_and_read, share_buffer,      launch_on_one, launch_on_all,  compile_and_drop,
    ask_host,     ask_about_program, fill_later,    another_client, take_profile,
};
enum { kActions = sizeof(actions) / sizeof(actions[0]) };

typedef struct Worker {
    Shared *shared;
    int number;
    pthread_t thread;
} Worker;

// Every thread begins elsewhere in the list, so that all actions meet.
static void *work(void *argument) {
    const Worker *worker = argument;
    for (int round = 0; round < worker->shared->rounds; round++)
        for (int i = 0; i < kActions; i++)
            actions[(i + worker->number) % kActions](worker->shared, worker->number, round);
    return NULL;
}

static PjrtLoadedExecutable *compile(PjrtClient *client, const char *text, int partitions) {
    PjrtError *error;
    PjrtLoadedExecutable *executable = harness_compile(client, text, strlen(text), partitions, &error);
    harness_must(error, "compile");
    return executable;
}

static int number_of(const char *text, int otherwise) {
    const long number = text ? strtol(text, NULL, 10) : otherwise;
    return number > 0 && number <= 1000000 ? (int)number : otherwise;
}

int main(int argc, char **argv) {
    const int threads = number_of(argc > 1 ? argv[1] : NULL, 8);
    Shared shared = {.client = harness_client("v2-8"), .rounds = number_of(argc > 2 ? argv[2] : NULL, 40)};
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = shared.client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    shared.devices = devices.devices;
    shared.twice = compile(shared.client, kDouble, 1);
    shared.sum = compile(shared.client, kSum, kDevices);
    shared.ask = compile(shared.client, kAsk, 1);
    Worker *workers = calloc((size_t)threads, sizeof(*workers));
    if (!workers) harness_fail("out of memory");
    for (int i = 0; i < threads; i++) {
        workers[i] = (Worker){.shared = &shared, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) harness_fail("no thread");
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    free(workers);
    for (int i = 0; i < kShared; i++)
        if (shared.buffers[i]) harness_destroy_buffer(shared.buffers[i]);
    harness_destroy_executable(shared.twice);
    harness_destroy_executable(shared.sum);
    harness_destroy_executable(shared.ask);
    harness_destroy_client(shared.client);
    printf("%d threads, %d rounds, %ld numbers\n", threads, shared.rounds, atomic_load(&shared.checked));
    return 0;
}
