// SPDX-License-Identifier: Apache-2.0
// Short of memory in the plugin's smaller functions: buffers that are filled later, views, layouts, events, serialised
// executables and topologies, profiles, host callbacks.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/abi_transfer.h"
#include "pjrt/extensions.h"
#include "tests/memory/plugin.h"
#include "tests/support/cases.h"

enum { kF32 = 11 };

static const int64_t dims[2] = {2, 3};
static float numbers[6] = {1, 2, 3, 4, 5, 6};

static void destroy_buffer(PjrtBuffer *buffer) {
    if (buffer) harness_destroy_buffer(buffer);
}

static HloStatus uninitialised_door(const World *world) {
    PjrtClientCreateUninitializedBufferArgs args = {.struct_size = sizeof(args),
                                                    .client = client_of(world),
                                                    .dims = dims,
                                                    .num_dims = 2,
                                                    .type = kF32,
                                                    .memory = first_memory(client_of(world))};
    HloStatus status = status_of(CALL(Client_CreateUninitializedBuffer, &args));
    if (!status) destroy_buffer(args.buffer);
    return status;
}

static HloStatus failed_door(const World *world) {
    PjrtClientCreateErrorBufferArgs args = {.struct_size = sizeof(args),
                                            .client = client_of(world),
                                            .error_code = 8,
                                            .error_message = "it was lost",
                                            .error_message_size = 11,
                                            .dims = dims,
                                            .num_dims = 2,
                                            .type = kF32,
                                            .memory = first_memory(client_of(world))};
    HloStatus status = status_of(CALL(Client_CreateErrorBuffer, &args));
    if (!status) destroy_buffer(args.buffer);
    return status;
}

// Promises an array, then fulfils it with another one.
static HloStatus alias_door(const World *world) {
    PjrtClientCreateAliasBufferArgs open = {.struct_size = sizeof(open),
                                            .client = client_of(world),
                                            .memory = first_memory(client_of(world)),
                                            .dims = world->arguments[0]->shape->dims,
                                            .num_dims = 2,
                                            .type = kF32};
    HloStatus status = status_of(CALL(Client_CreateAliasBuffer, &open));
    if (status) return status;
    PjrtClientFulfillAliasBufferArgs fulfil = {.struct_size = sizeof(fulfil),
                                               .client = client_of(world),
                                               .buffer = ((const Ready *)world->more)->arguments[0],
                                               .promise = open.promise};
    status = status_of(CALL(Client_FulfillAliasBuffer, &fulfil));
    if (status) {  // the promise was made: it is given up
        fulfil.buffer = NULL;
        fulfil.error_code = 1;
        harness_must(CALL(Client_FulfillAliasBuffer, &fulfil), "give up");
    }
    destroy_buffer(open.buffer);
    return status;
}

static HloStatus view_door(const World *world) {
    static _Alignas(64) float aligned[6];
    float *const places[] = {aligned, numbers + 1};  // seen in place, and copied
    HloStatus status = NULL;
    for (int i = 0; i < 2 && !status; i++) {
        PjrtClientCreateViewOfDeviceBufferArgs args = {.struct_size = sizeof(args),
                                                       .client = client_of(world),
                                                       .device_buffer_ptr = places[i],
                                                       .dims = dims,
                                                       .num_dims = 1,
                                                       .element_type = kF32,
                                                       .device = first_device(client_of(world))};
        status = status_of(CALL(Client_CreateViewOfDeviceBuffer, &args));
        if (!status) destroy_buffer(args.buffer);
    }
    return status;
}

// Other names, places and layouts of an array that is there.
static HloStatus names_door(const World *world) {
    PjrtBuffer *buffer = ((const Ready *)world->more)->arguments[0];
    static const int64_t flat[] = {16 * 8};
    PjrtBufferBitcastArgs cast = {
        .struct_size = sizeof(cast), .buffer = buffer, .element_type = kF32, .dims = flat, .num_dims = 1};
    HloStatus status = status_of(CALL(Buffer_Bitcast, &cast));
    if (status) return status;
    PjrtBufferGetMemoryLayoutArgs layout = {.struct_size = sizeof(layout), .buffer = cast.out_buffer};
    status = status_of(CALL(Buffer_GetMemoryLayout, &layout));
    destroy_buffer(cast.out_buffer);
    if (status) return status;
    PjrtBufferCopyToMemoryArgs copy = {
        .struct_size = sizeof(copy), .buffer = buffer, .dst_memory = first_memory(client_of(world))};
    status = status_of(CALL(Buffer_CopyToMemory, &copy));
    if (!status) destroy_buffer(copy.dst_buffer);
    return status;
}

static HloStatus layouts_door(const World *world) {
    const Ready *ready = world->more;
    PjrtLayoutsExtension *layouts = (PjrtLayoutsExtension *)(void *)harness_extension(PJRT_EXTENSION_LAYOUTS);
    PjrtBufferLayoutArgs of_buffer = {.struct_size = sizeof(of_buffer), .buffer = ready->arguments[0]};
    HloStatus status = status_of(layouts->buffer(&of_buffer));
    if (status) return status;
    PjrtLayoutSerializeArgs text = {.struct_size = sizeof(text), .layout = of_buffer.layout};
    status = status_of(layouts->serialize(&text));
    if (!status && text.serialized_layout_deleter) text.serialized_layout_deleter(text.serialized_layout);
    PjrtLayoutDestroyArgs destroy = {.struct_size = sizeof(destroy), .layout = of_buffer.layout};
    harness_must(layouts->destroy(&destroy), "destroy");
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = ready->executable};
    if (!status) status = status_of(CALL(LoadedExecutable_GetExecutable, &get));
    if (status) return status;
    PjrtExecutableLayoutsArgs lists = {.struct_size = sizeof(lists), .executable = get.executable};
    status = status_of(layouts->outputs(&lists));
    if (!status) status = status_of(layouts->parameters(&lists));
    PjrtExecutableDestroyArgs gone = {.struct_size = sizeof(gone), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &gone), "Executable_Destroy");
    return status;
}

static void ignore(PjrtError *error, void *argument) {
    hlo_status_free(status_of(error));
    *(int *)argument += 1;
}

static HloStatus events_door(const World *world) {
    int calls = 0;
    (void)world;
    PjrtEventCreateArgs create = {.struct_size = sizeof(create)};
    HloStatus status = status_of(CALL(Event_Create, &create));
    if (status) return status;
    PjrtEventOnReadyArgs on_ready = {
        .struct_size = sizeof(on_ready), .event = create.object, .callback = ignore, .user_arg = &calls};
    status = status_of(CALL(Event_OnReady, &on_ready));
    const bool called_later = !status;
    PjrtEventSetArgs set = {.struct_size = sizeof(set),
                            .event = create.object,
                            .error_code = 8,
                            .error_message = "lost",
                            .error_message_size = 4};
    harness_must(CALL(Event_Set, &set), "Event_Set");
    cr_expect_eq(calls, called_later);
    destroy_event(create.object);
    return status;
}

static HloStatus pieces_door(const World *world) {
    const PjrtShapeSpec spec = {.struct_size = sizeof(spec), .dims = dims, .num_dims = 2, .element_type = kF32};
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs open = {.struct_size = sizeof(open),
                                                            .client = client_of(world),
                                                            .specs = &spec,
                                                            .num_specs = 1,
                                                            .memory = first_memory(client_of(world))};
    HloStatus status = status_of(CALL(Client_CreateBuffersForAsyncHostToDevice, &open));
    if (status) return status;
    PjrtTransferManagerBufferArgs retrieve = {.struct_size = sizeof(retrieve), .manager = open.manager};
    status = status_of(CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, &retrieve));
    PjrtBuffer *buffer = status ? NULL : retrieve.answer.buffer;
    PjrtTransferManagerTransferDataArgs data = {.struct_size = sizeof(data),
                                                .manager = open.manager,
                                                .data = numbers,
                                                .size = sizeof(numbers),
                                                .is_last_transfer = true};
    if (!status) status = status_of(CALL(AsyncHostToDeviceTransferManager_TransferData, &data));
    if (!status) {
        float out[6];
        destroy_event(data.done);
        status = to_host(buffer, out, sizeof(out));
        if (!status) cr_expect_eq(memcmp(out, numbers, sizeof(out)), 0);
    }
    PjrtTransferManagerArgs destroy = {.struct_size = sizeof(destroy), .manager = open.manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_Destroy, &destroy), "close");
    destroy_buffer(buffer);
    return status;
}

// A copy whose destination comes later, and a donation that waits.
static HloStatus later_door(const World *world) {
    PjrtBuffer *buffer = ((const Ready *)world->more)->arguments[0];
    float out[6] = {0};
    PjrtBufferCopyRawToHostFutureArgs copy = {
        .struct_size = sizeof(copy), .buffer = buffer, .transfer_size = sizeof(out)};
    HloStatus status = status_of(CALL(Buffer_CopyRawToHostFuture, &copy));
    if (status) return status;
    copy.ready(&(PjrtCopyRawReadyArgs){
        .struct_size = sizeof(PjrtCopyRawReadyArgs), .callback_data = copy.callback_data, .dst = out});
    status = wait_for(copy.event);
    destroy_event(copy.event);
    PjrtBuffer *given = NULL;
    if (!status) status = to_device(client_of(world), world->arguments[0], &given);
    if (status) return status;
    PjrtBufferDonateWithControlDependencyArgs donate = {.struct_size = sizeof(donate), .buffer = given};
    status = status_of(CALL(Buffer_DonateWithControlDependency, &donate));
    if (!status) {
        donate.ready(&(PjrtDependencyReadyArgs){.struct_size = sizeof(PjrtDependencyReadyArgs),
                                                .callback_data = donate.callback_data});
        destroy_buffer(donate.out_buffer);
    }
    destroy_buffer(given);
    return status;
}

static HloStatus serialise_door(const World *world) {
    const Ready *ready = world->more;
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = ready->executable};
    HloStatus status = status_of(CALL(LoadedExecutable_GetExecutable, &get));
    if (status) return status;
    PjrtExecutableSerializeArgs bytes = {.struct_size = sizeof(bytes), .executable = get.executable};
    status = status_of(CALL(Executable_Serialize, &bytes));
    if (!status) {
        PjrtExecutableDeserializeAndLoadArgs load = {.struct_size = sizeof(load),
                                                     .client = ready->client,
                                                     .serialized_executable = bytes.serialized_bytes,
                                                     .serialized_executable_size = bytes.serialized_bytes_size};
        status = status_of(CALL(Executable_DeserializeAndLoad, &load));
        if (!status) harness_destroy_executable(load.loaded_executable);
        bytes.serialized_executable_deleter((void *)(uintptr_t)bytes.serialized_executable);
    }
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    return status;
}

static HloStatus topology_door(const World *world) {
    (void)world;
    PjrtTopologyDescriptionCreateArgs create = {
        .struct_size = sizeof(create), .topology_name = "v5e-4", .topology_name_size = 5};
    HloStatus status = status_of(CALL(TopologyDescription_Create, &create));
    if (status) return status;
    PjrtTopologyDescriptionSerializeArgs bytes = {.struct_size = sizeof(bytes), .topology = create.topology};
    status = status_of(CALL(TopologyDescription_Serialize, &bytes));
    if (!status) bytes.serialized_topology_deleter((void *)(uintptr_t)bytes.serialized_topology);
    PjrtCanonicalShapeArgs shape = {
        .struct_size = sizeof(shape), .topology = create.topology, .dims = dims, .num_dims = 2, .type = kF32};
    if (!status) status = status_of(CALL(TopologyDescription_MakeCanonicalShapeForMemorySpace, &shape));
    if (!status) shape.deleter(shape.serialized_shape);
    PjrtTopologyDescriptionDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = create.topology};
    harness_must(CALL(TopologyDescription_Destroy, &destroy), "Destroy");
    return status;
}

static HloStatus run(const Ready *ready, size_t argument_count, const PjrtExecuteOptions *options) {
    PjrtBuffer *results[8] = {0};
    PjrtBuffer *const *const argument_lists[] = {ready->arguments};
    PjrtBuffer **const result_lists[] = {results};
    PjrtEvent *done = NULL;
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = ready->executable,
                                            .options = (PjrtExecuteOptions *)(uintptr_t)options,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = argument_count,
                                            .output_lists = result_lists,
                                            .device_complete_events = &done};
    HloStatus status = status_of(CALL(LoadedExecutable_Execute, &args));
    if (status) return status;
    status = wait_for(done);
    destroy_event(done);
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) destroy_buffer(results[i]);
    return status;
}

static HloStatus profile_door(const World *world) {
    const PjrtProfilerApi *api = ((PjrtProfilerExtension *)(void *)harness_extension(PJRT_EXTENSION_PROFILER))->api;
    PjrtProfilerCreateArgs create = {.options = "", .options_size = 0};
    HloStatus status = status_of(api->create(&create));
    if (status) return status;
    PjrtProfilerArgs profiler = {.profiler = create.profiler};
    status = status_of(api->start(&profiler));
    if (!status) status = run(world->more, (size_t)world->argument_count, NULL);
    if (!status) status = status_of(api->stop(&profiler));
    PjrtProfilerCollectArgs collect = {.profiler = create.profiler};
    if (!status) status = status_of(api->collect_data(&collect));
    harness_must(api->destroy(&profiler), "destroy");
    return status;
}

// Events that are asked for, and a context without content.
static HloStatus asked_door(const World *world) {
    const Ready *ready = world->more;
    float out[4];
    PjrtBufferReadyEventArgs event = {.struct_size = sizeof(event), .buffer = ready->arguments[0]};
    HloStatus status = status_of(CALL(Buffer_ReadyEvent, &event));
    if (status) return status;
    destroy_event(event.event);
    PjrtBufferCopyRawToHostArgs copy = {
        .struct_size = sizeof(copy), .buffer = ready->arguments[0], .dst = out, .transfer_size = sizeof(out)};
    status = status_of(CALL(Buffer_CopyRawToHost, &copy));
    if (status) return status;
    destroy_event(copy.event);
    PjrtExecuteContextArgs context = {.struct_size = sizeof(context)};
    status = status_of(CALL(ExecuteContext_Create, &context));
    if (!status) harness_must(CALL(ExecuteContext_Destroy, &context), "ExecuteContext_Destroy");
    return status;
}

// ---- a program that asks its host

static PjrtError *take_chunk(PjrtChunk *chunk, PjrtCallbackError **make_error, size_t total, bool done, void *unused) {
    (void)make_error, (void)total, (void)done, (void)unused;
    chunk->deleter(chunk->data, chunk->deleter_arg);
    return NULL;
}

// All at once. `error` keeps the error of a chunk that was taken without an event.
static void give_stream(PjrtStream *stream, void *error) {
    PjrtCopyToDeviceStreamTotalBytesArgs total = {.struct_size = sizeof(total), .stream = stream};
    harness_must(CALL(CopyToDeviceStream_TotalBytes, &total), "TotalBytes");
    PjrtChunk chunk = {.data = numbers, .size = (size_t)total.total_bytes};
    PjrtCopyToDeviceStreamAddChunkArgs add = {.struct_size = sizeof(add), .stream = stream, .chunk = &chunk};
    *(HloStatus *)error = status_of(CALL(CopyToDeviceStream_AddChunk, &add));
    destroy_event(add.transfer_complete);
    PjrtCopyToDeviceStreamDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = stream};
    harness_must(CALL(CopyToDeviceStream_Destroy, &destroy), "Destroy");
}

static void open_asking(World *world) {
    open_client(world);
    Ready *ready = world->more;
    ready->executable =
        harness_compile_text(ready->client,
                             "HloModule ask\nENTRY e {\n p = f32[2,3] parameter(0)\n t = token[] after-all()\n"
                             " s = (f32[2,3], u32[], token[]) send(p, t), channel_id=7, is_host_transfer=true\n"
                             " sd = token[] send-done(s), channel_id=7, is_host_transfer=true\n"
                             " r = (f32[2,3], u32[], token[]) recv(sd), channel_id=8, is_host_transfer=true\n"
                             " rd = (f32[2,3], token[]) recv-done(r), channel_id=8, is_host_transfer=true\n"
                             " ROOT g = f32[2,3] get-tuple-element(rd), index=0\n}\n");
    ready->arguments[0] = harness_numbers(ready->client, 0, 2, 3, 1);
}

static HloStatus asking_door(const World *world) {
    HloStatus refused = HLO_SUCCESS;
    const PjrtSendCallbackInfo send = {.channel_id = 7, .send_callback = take_chunk};
    const PjrtRecvCallbackInfo recv = {.channel_id = 8, .user_arg = &refused, .recv_callback = give_stream};
    const PjrtSendCallbackInfo *const send_lists[] = {&send};
    const PjrtRecvCallbackInfo *const recv_lists[] = {&recv};
    const PjrtExecuteOptions options = {.struct_size = sizeof(options),
                                        .send_callbacks = send_lists,
                                        .recv_callbacks = recv_lists,
                                        .num_send_ops = 1,
                                        .num_recv_ops = 1};
    HloStatus status = run(world->more, 1, &options);
    if (!status) return refused;
    hlo_status_free(refused);
    return status;
}

static const NamedDoor doors[] = {
    {"asking", asking_door, open_asking, close_all},
    {"asked", asked_door, open_executable, close_all},
    {"uninitialised", uninitialised_door, open_client, close_all},
    {"failed", failed_door, open_client, close_all},
    {"alias", alias_door, open_executable, close_all},
    {"view", view_door, open_client, close_all},
    {"names", names_door, open_executable, close_all},
    {"layouts", layouts_door, open_executable, close_all},
    {"events", events_door, NULL, NULL},
    {"pieces", pieces_door, open_client, close_all},
    {"later", later_door, open_executable, close_all},
    {"serialise", serialise_door, open_executable, close_all},
    {"topology", topology_door, NULL, NULL},
    {"profile", profile_door, open_executable, close_all},
};

CaseList(memory, plugin_functions) {
    return cases_numbered(sizeof(doors) / sizeof(doors[0]));
}

CaseTest(const int *number, memory, plugin_functions) {
    door_must_survive(&doors[*number]);
}
