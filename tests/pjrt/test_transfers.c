// SPDX-License-Identifier: Apache-2.0
// Buffers that are filled later, views, other names of the same bytes, topologies that travel, poisoned launches.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "pjrt/abi_transfer.h"
#include "tests/pjrt/harness.h"
#include "tests/support/compiled.h"

enum { kF32 = 11, kS32 = 4 };

static const char kTwice[] =
    "HloModule twice\nENTRY e {\n p = f32[2,3] parameter(0)\n ROOT a = f32[2,3] add(p, p)\n}\n";
static const int64_t kDims[2] = {2, 3};

static PjrtMemory *first_memory(PjrtClient *client, int device) {
    PjrtDeviceDefaultMemoryArgs memory = {.struct_size = sizeof(memory), .device = harness_device(client, device)};
    harness_must(CALL(Device_DefaultMemory, &memory), "DefaultMemory");
    return memory.memory;
}

static bool is_ready(PjrtBuffer *buffer) {
    PjrtBufferReadyEventArgs ready = {.struct_size = sizeof(ready), .buffer = buffer};
    harness_must(CALL(Buffer_ReadyEvent, &ready), "ReadyEvent");
    PjrtEventIsReadyArgs is = {.struct_size = sizeof(is), .event = ready.event};
    harness_must(CALL(Event_IsReady, &is), "IsReady");
    harness_destroy_event(ready.event);
    return is.is_ready;
}

static PjrtError *error_of(PjrtBuffer *buffer) {
    PjrtBufferReadyEventArgs ready = {.struct_size = sizeof(ready), .buffer = buffer};
    harness_must(CALL(Buffer_ReadyEvent, &ready), "ReadyEvent");
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = ready.event};
    PjrtError *error = CALL(Event_Await, &wait);
    harness_destroy_event(ready.event);
    return error;
}

static bool is_deleted(PjrtBuffer *buffer) {
    PjrtBufferIsDeletedArgs args = {.struct_size = sizeof(args), .buffer = buffer};
    harness_must(CALL(Buffer_IsDeleted, &args), "IsDeleted");
    return args.is_deleted;
}

static PjrtBuffer *launch(PjrtLoadedExecutable *executable, PjrtBuffer *argument, int64_t launch_id) {
    PjrtBuffer *result = NULL;
    PjrtExecuteOptions options = {.struct_size = sizeof(options), .launch_id = launch_id};
    harness_must(harness_launch(executable, argument, &options, NULL, &result), "Execute");
    return result;
}

static void expect_numbers(PjrtBuffer *buffer, float first, float step) {
    float numbers[6];
    harness_read(buffer, numbers, 6);
    for (int i = 0; i < 6; i++) cr_expect_eq(numbers[i], first + step * (float)i, "%d: %g", i, (double)numbers[i]);
}

// ---- transfers in pieces

static PjrtTransferManager *new_manager(PjrtClient *client, size_t count) {
    PjrtShapeSpec specs[2] = {
        {.struct_size = sizeof(PjrtShapeSpec), .dims = kDims, .num_dims = 2, .element_type = kF32},
        {.struct_size = sizeof(PjrtShapeSpec), .dims = kDims, .num_dims = 1, .element_type = kS32}};
    PjrtClientCreateBuffersForAsyncHostToDeviceArgs args = {.struct_size = sizeof(args),
                                                            .client = client,
                                                            .specs = specs,
                                                            .num_specs = count,
                                                            .memory = first_memory(client, 0)};
    harness_must(CALL(Client_CreateBuffersForAsyncHostToDevice, &args), "CreateBuffersForAsyncHostToDevice");
    return args.manager;
}

static PjrtError *send_piece(PjrtTransferManager *manager, int index, const void *data, int64_t offset, int64_t size,
                             bool last) {
    PjrtTransferManagerTransferDataArgs args = {.struct_size = sizeof(args),
                                                .manager = manager,
                                                .buffer_index = index,
                                                .data = data,
                                                .offset = offset,
                                                .size = size,
                                                .is_last_transfer = last};
    PjrtError *error = CALL(AsyncHostToDeviceTransferManager_TransferData, &args);
    if (!error) harness_destroy_event(args.done);
    return error;
}

static PjrtBuffer *retrieve(PjrtTransferManager *manager, int index) {
    PjrtTransferManagerBufferArgs args = {.struct_size = sizeof(args), .manager = manager, .buffer_index = index};
    harness_must(CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, &args), "RetrieveBuffer");
    return args.answer.buffer;
}

static void destroy_manager(PjrtTransferManager *manager) {
    PjrtTransferManagerArgs args = {.struct_size = 24, .manager = manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_Destroy, &args), "Destroy");
}

// A program is launched on the buffer before its pieces arrive, out of order.
Test(pjrt_transfers, pieces_make_a_buffer) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kTwice);
    PjrtTransferManager *manager = new_manager(client, 2);
    PjrtTransferManagerArgs count = {.struct_size = sizeof(count), .manager = manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_BufferCount, &count), "BufferCount");
    cr_expect_eq(count.answer.count, 2);
    PjrtTransferManagerArgs device = {.struct_size = sizeof(device), .manager = manager};
    harness_must(CALL(AsyncHostToDeviceTransferManager_Device, &device), "Device");
    cr_expect_eq(device.answer.device, harness_device(client, 0));
    PjrtTransferManagerBufferArgs size = {.struct_size = sizeof(size), .manager = manager, .buffer_index = 1};
    harness_must(CALL(AsyncHostToDeviceTransferManager_BufferSize, &size), "BufferSize");
    cr_expect_eq(size.answer.size, 8);
    const float data[6] = {0, 1, 2, 3, 4, 5};
    PjrtBuffer *buffer = retrieve(manager, 0), *result = launch(executable, buffer, 0);
    harness_must(send_piece(manager, 0, data + 2, 8, 16, false), "piece");
    cr_expect(!is_ready(buffer));
    cr_expect(!is_ready(result));
    harness_refused(send_piece(manager, 0, data, 20, 8, false), 3, "8 bytes at 20");
    harness_refused(send_piece(manager, 5, data, 0, 8, false), 3, "buffer index 5 is out of range");
    harness_must(send_piece(manager, 0, data, 0, 8, true), "last piece");
    expect_numbers(buffer, 0, 1);
    expect_numbers(result, 0, 2);
    harness_refused(send_piece(manager, 0, data, 0, 8, true), 9, "last transfer");
    PjrtTransferManagerBufferArgs again = {.struct_size = sizeof(again), .manager = manager};
    harness_refused(CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, &again), 9, "retrieved");
    PjrtBuffer *orphan = retrieve(manager, 1);
    destroy_manager(manager);
    harness_refused(error_of(orphan), 1, "abandoned");
    harness_destroy_buffer(orphan);
    harness_destroy_buffer(buffer);
    harness_destroy_buffer(result);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

Test(pjrt_transfers, literals_and_errors_fill_buffers_too) {
    PjrtClient *client = harness_client("v2-8");
    PjrtTransferManager *manager = new_manager(client, 2);
    const float data[6] = {5, 6, 7, 8, 9, 10};
    PjrtTransferManagerTransferLiteralArgs literal = {
        .struct_size = sizeof(literal), .manager = manager, .data = data, .dims = kDims, .num_dims = 1, .type = kF32};
    harness_refused(CALL(AsyncHostToDeviceTransferManager_TransferLiteral, &literal), 3, "8 bytes for a buffer of 24");
    literal.num_dims = 2;
    harness_must(CALL(AsyncHostToDeviceTransferManager_TransferLiteral, &literal), "TransferLiteral");
    harness_destroy_event(literal.done);
    PjrtBuffer *buffer = retrieve(manager, 0), *failed = retrieve(manager, 1);
    expect_numbers(buffer, 5, 1);
    PjrtTransferManagerSetBufferErrorArgs error = {.struct_size = sizeof(error),
                                                   .manager = manager,
                                                   .buffer_index = 1,
                                                   .error_code = 15,
                                                   .error_message = "lost at sea",
                                                   .error_message_size = 4};
    harness_must(CALL(AsyncHostToDeviceTransferManager_SetBufferError, &error), "SetBufferError");
    harness_refused(error_of(failed), 15, "lost");
    harness_refused(CALL(AsyncHostToDeviceTransferManager_SetBufferError, &error), 9, "last transfer");
    PjrtNamedValue note = {.struct_size = sizeof(note), .name = "n", .name_size = 1, .type = PJRT_VALUE_INT64};
    struct {
        PJRT_HEAD;
        PjrtTransferManager *manager;
        const PjrtNamedValue *notes;
        size_t count;
    } metadata = {.struct_size = sizeof(metadata), .manager = manager, .notes = &note, .count = 1};
    harness_must(CALL(AsyncHostToDeviceTransferManager_AddMetadata, &metadata), "AddMetadata");
    destroy_manager(manager);
    harness_destroy_buffer(buffer);
    harness_destroy_buffer(failed);
    harness_destroy_client(client);
}

// ---- promised buffers

static PjrtClientCreateAliasBufferArgs new_alias(PjrtClient *client) {
    PjrtClientCreateAliasBufferArgs args = {.struct_size = sizeof(args),
                                            .client = client,
                                            .memory = first_memory(client, 0),
                                            .dims = kDims,
                                            .num_dims = 2,
                                            .type = kF32};
    harness_must(CALL(Client_CreateAliasBuffer, &args), "CreateAliasBuffer");
    return args;
}

Test(pjrt_transfers, aliases_get_their_content_later) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kTwice);
    PjrtClientCreateAliasBufferArgs alias = new_alias(client), broken = new_alias(client);
    PjrtBuffer *result = launch(executable, alias.buffer, 0), *after = launch(executable, result, 0);
    cr_expect(!is_ready(after));
    PjrtBuffer *small = harness_numbers(client, 0, 1, 2, 0), *content = harness_numbers(client, 0, 2, 3, 1);
    PjrtClientFulfillAliasBufferArgs fulfil = {
        .struct_size = sizeof(fulfil), .client = client, .buffer = small, .promise = alias.promise};
    harness_refused(CALL(Client_FulfillAliasBuffer, &fulfil), 3, "8 bytes for an alias of 24 bytes");
    fulfil.buffer = alias.buffer;  // aborted
    harness_refused(CALL(Client_FulfillAliasBuffer, &fulfil), 3, "itself");
    fulfil.buffer = content;
    harness_must(CALL(Client_FulfillAliasBuffer, &fulfil), "FulfillAliasBuffer");
    harness_destroy_buffer(content);
    expect_numbers(alias.buffer, 1, 1);
    expect_numbers(after, 4, 4);
    PjrtClientFulfillAliasBufferArgs fail = {.struct_size = sizeof(fail),
                                             .client = client,
                                             .error_code = 14,
                                             .error_message = "nobody came",
                                             .error_message_size = 11,
                                             .promise = broken.promise};
    harness_must(CALL(Client_FulfillAliasBuffer, &fail), "FulfillAliasBuffer");
    PjrtBuffer *doomed = launch(executable, broken.buffer, 0);
    harness_refused(error_of(doomed), 14, "nobody came");
    PjrtBuffer *const all[] = {alias.buffer, broken.buffer, result, after, small, doomed};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) harness_destroy_buffer(all[i]);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// A reshaped result reuses the memory of its argument; one of another size does not.
Test(pjrt_transfers, a_donated_array_serves_a_result_of_other_sizes) {
    static const struct {
        const char *text;
        bool taken;
    } cases[] = {
        {"HloModule m, buffer_donor={ (0, {}) }, entry_computation_layout={(f32[2,3]{1,0})->f32[6]{0}}\n"
         "ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[6] reshape(x) }\n",
         true},
        {"HloModule m, buffer_donor={ (0, {}) }, entry_computation_layout={(f32[2,3]{1,0})->f32[2,2]{1,0}}\n"
         "ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,2] slice(x), slice={[0:2], [0:2]} }\n",
         false},
        {"HloModule m, buffer_donor={ (0, {}) }, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{0,1}}\n"
         "ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] negate(x) }\n",
         false},
    };
    PjrtClient *client = harness_client("v2-8");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PjrtLoadedExecutable *executable = harness_compile_text(client, cases[i].text);
        PjrtBuffer *x = harness_numbers(client, 0, 2, 3, 1), *y = launch(executable, x, 0);
        cr_expect_eq(is_deleted(x), cases[i].taken, "%s", cases[i].text);
        harness_destroy_buffer(x);
        harness_destroy_buffer(y);
        harness_destroy_executable(executable);
    }
    harness_destroy_client(client);
}

Test(pjrt_transfers, donations_wait_for_what_they_depend_on) {
    PjrtClient *client = harness_client("v2-8");
    for (int code = 0; code <= 10; code += 10) {
        PjrtBuffer *buffer = harness_numbers(client, 0, 2, 3, 3);
        PjrtBufferDonateWithControlDependencyArgs args = {.struct_size = sizeof(args), .buffer = buffer};
        harness_must(CALL(Buffer_DonateWithControlDependency, &args), "DonateWithControlDependency");
        cr_expect(is_deleted(buffer));
        cr_expect(!is_ready(args.out_buffer));
        harness_destroy_buffer(buffer);
        PjrtDependencyReadyArgs ready = {.struct_size = sizeof(ready),
                                         .callback_data = args.callback_data,
                                         .error_code = code,
                                         .error_message = "called off",
                                         .error_message_size = code ? 10 : 0};
        args.ready(&ready);
        if (code)
            harness_refused(error_of(args.out_buffer), 10, "called off");
        else
            expect_numbers(args.out_buffer, 3, 1);
        harness_destroy_buffer(args.out_buffer);
    }
    harness_destroy_client(client);
}

Test(pjrt_transfers, raw_copies_wait_for_their_destination) {
    PjrtClient *client = harness_client("v2-8");
    PjrtBuffer *buffer = harness_numbers(client, 2, 2, 3, 3);
    for (int code = 0; code <= 10; code += 10) {
        PjrtBufferCopyRawToHostFutureArgs args = {
            .struct_size = sizeof(args), .buffer = buffer, .offset = 4, .transfer_size = 8};
        harness_must(CALL(Buffer_CopyRawToHostFuture, &args), "CopyRawToHostFuture");
        float out[2] = {0, 0};
        PjrtCopyRawReadyArgs ready = {.struct_size = sizeof(ready),
                                      .callback_data = args.callback_data,
                                      .error_code = code,
                                      .error_message = "no room",
                                      .error_message_size = code ? 7 : 0,
                                      .dst = out};
        args.ready(&ready);
        PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = args.event};
        PjrtError *error = CALL(Event_Await, &wait);
        if (code)
            harness_refused(error, 10, "no room");
        else
            harness_must(error, "copy");
        cr_expect_eq(out[0], code ? 0.0f : 4.0f);
        cr_expect_eq(out[1], code ? 0.0f : 5.0f);
        harness_destroy_event(args.event);
    }
    harness_destroy_buffer(buffer);
    harness_destroy_client(client);
}

// A copy that was requested before the array was donated is still made when the destination comes.
Test(pjrt_transfers, bug_a_raw_copy_whose_destination_comes_after_the_donation) {
    PjrtClient *client = harness_client("v2-8");
    PjrtBuffer *buffer = harness_numbers(client, 2, 2, 3, 3);
    PjrtBufferCopyRawToHostFutureArgs args = {
        .struct_size = sizeof(args), .buffer = buffer, .offset = 4, .transfer_size = 8};
    harness_must(CALL(Buffer_CopyRawToHostFuture, &args), "CopyRawToHostFuture");
    PjrtBufferDeleteArgs delete = {.struct_size = sizeof(delete), .object = buffer};
    harness_must(CALL(Buffer_Delete, &delete), "Delete");
    PjrtBufferCopyRawToHostFutureArgs late = {.struct_size = sizeof(late), .buffer = buffer, .transfer_size = 8};
    harness_refused(CALL(Buffer_CopyRawToHostFuture, &late), 3, "deleted");
    harness_destroy_buffer(buffer);
    float out[2] = {0, 0};
    PjrtCopyRawReadyArgs ready = {.struct_size = sizeof(ready), .callback_data = args.callback_data, .dst = out};
    args.ready(&ready);
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = args.event};
    harness_must(CALL(Event_Await, &wait), "copy");
    cr_expect_eq(out[0], 4.0f);
    cr_expect_eq(out[1], 5.0f);
    harness_destroy_event(args.event);
    harness_destroy_client(client);
}

// ---- made from nothing, or from an error

Test(pjrt_transfers, uninitialised_and_failed_buffers) {
    PjrtClient *client = harness_client("v2-8");
    PjrtClientCreateUninitializedBufferArgs empty = {.struct_size = sizeof(empty),
                                                     .client = client,
                                                     .dims = kDims,
                                                     .num_dims = 2,
                                                     .type = kF32,
                                                     .device = harness_device(client, 3)};
    harness_must(CALL(Client_CreateUninitializedBuffer, &empty), "CreateUninitializedBuffer");
    PjrtBufferOnDeviceSizeInBytesArgs size = {.struct_size = sizeof(size), .buffer = empty.buffer};
    harness_must(CALL(Buffer_OnDeviceSizeInBytes, &size), "OnDeviceSizeInBytes");
    cr_expect_eq(size.on_device_size_in_bytes, 24);
    empty.device = NULL;
    harness_refused(CALL(Client_CreateUninitializedBuffer, &empty), 3, "memory");
    PjrtClientCreateErrorBufferArgs failed = {.struct_size = sizeof(failed),
                                              .client = client,
                                              .error_code = 11,
                                              .error_message = "too far",
                                              .error_message_size = 7,
                                              .dims = kDims,
                                              .num_dims = 2,
                                              .type = kF32,
                                              .memory = first_memory(client, 0)};
    harness_must(CALL(Client_CreateErrorBuffer, &failed), "CreateErrorBuffer");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kTwice);
    PjrtBuffer *result = launch(executable, failed.buffer, 0);
    harness_refused(error_of(result), 11, "too far");
    failed.type = 99;
    harness_refused(CALL(Client_CreateErrorBuffer, &failed), 12, "99");
    harness_destroy_buffer(result);
    harness_destroy_buffer(empty.buffer);
    harness_destroy_buffer(failed.buffer);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// ---- views and other names

static void count_deletion(void *data, void *argument) {
    (void)data;
    atomic_fetch_add((atomic_int *)argument, 1);
}

// Aligned memory is used as it is and does not outlive its owner; a donation does not write into it.
Test(pjrt_transfers, views_do_not_copy) {
    PjrtClient *client = harness_client("v2-8");
    float *data = aligned_alloc(64, 128);
    for (int i = 0; i < 7; i++) data[i] = (float)i;
    for (int shift = 0; shift < 2; shift++) {  // the second one is not aligned
        atomic_int deleted = 0;
        PjrtClientCreateViewOfDeviceBufferArgs view = {.struct_size = sizeof(view),
                                                       .client = client,
                                                       .device_buffer_ptr = data + shift,
                                                       .dims = kDims,
                                                       .num_dims = 2,
                                                       .element_type = kF32,
                                                       .device = harness_device(client, 0),
                                                       .on_delete_callback = count_deletion,
                                                       .on_delete_callback_arg = &deleted};
        harness_must(CALL(Client_CreateViewOfDeviceBuffer, &view), "CreateViewOfDeviceBuffer");
        cr_expect_eq(deleted, shift);
        PjrtBufferUnsafePointerArgs pointer = {.struct_size = sizeof(pointer), .buffer = view.buffer};
        harness_must(CALL(Buffer_UnsafePointer, &pointer), "UnsafePointer");
        cr_expect_eq(pointer.buffer_pointer == (uintptr_t)(data + shift), shift == 0);
        expect_numbers(view.buffer, (float)shift, 1);
        PjrtLoadedExecutable *executable =
            harness_compile_text(client,
                                 "HloModule d, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e {\n"
                                 " p = f32[2,3] parameter(0)\n ROOT a = f32[2,3] add(p, p)\n}\n");
        PjrtBuffer *result = launch(executable, view.buffer, 0);
        expect_numbers(result, 2 * (float)shift, 2);
        cr_expect(is_deleted(view.buffer));
        for (int i = 0; i < 7; i++) cr_expect_eq(data[i], (float)i, "a view was written to");
        harness_destroy_buffer(result);
        harness_destroy_buffer(view.buffer);
        harness_destroy_executable(executable);
        cr_expect_eq(deleted, 1);
    }
    harness_destroy_client(client);
    free(data);
}

Test(pjrt_transfers, bytes_under_other_names) {
    PjrtClient *client = harness_client("v2-8");
    PjrtBuffer *buffer = harness_numbers(client, 1, 2, 3, 1);
    const int64_t flat[1] = {6}, wrong[1] = {5};
    PjrtBufferBitcastArgs cast = {
        .struct_size = sizeof(cast), .buffer = buffer, .element_type = kS32, .dims = flat, .num_dims = 1};
    harness_must(CALL(Buffer_Bitcast, &cast), "Bitcast");
    int32_t bits[6];
    PjrtBufferToHostBufferArgs read = {
        .struct_size = sizeof(read), .src = cast.out_buffer, .dst = bits, .dst_size = sizeof(bits)};
    harness_must(CALL(Buffer_ToHostBuffer, &read), "ToHostBuffer");
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = read.event};
    harness_must(CALL(Event_Await, &wait), "Await");
    harness_destroy_event(read.event);
    cr_expect_eq(bits[1], 0x40000000);
    cast.dims = wrong;
    harness_refused(CALL(Buffer_Bitcast, &cast), 3, "24 bytes");
    PjrtBufferCopyToDeviceArgs copy = {
        .struct_size = sizeof(copy), .buffer = buffer, .dst_device = harness_device(client, 5)};
    harness_must(CALL(Buffer_CopyToDevice, &copy), "CopyToDevice");
    PjrtBufferDeviceArgs where = {.struct_size = sizeof(where), .buffer = copy.dst_buffer};
    harness_must(CALL(Buffer_Device, &where), "Device");
    cr_expect_eq(where.device, harness_device(client, 5));
    PjrtBufferGetMemoryLayoutArgs layout = {.struct_size = 100, .buffer = buffer};
    harness_must(CALL(Buffer_GetMemoryLayout, &layout), "GetMemoryLayout");
    cr_assert_eq(layout.layout.layout.tiled.minor_to_major_size, 2);
    cr_expect_eq(layout.layout.layout.tiled.minor_to_major[0], 1);
    cr_expect_eq(layout.layout.layout.tiled.num_tiles, 1);
    cr_expect_eq(layout.layout.layout.tiled.tile_dims[1], 128);
    int there;
    PjrtClientDmaMapArgs map = {.struct_size = sizeof(map), .client = client, .data = &there, .size = sizeof(there)};
    harness_must(CALL(Client_DmaMap, &map), "DmaMap");
    PjrtClientDmaUnmapArgs unmap = {.struct_size = sizeof(unmap), .client = client, .data = &there};
    harness_must(CALL(Client_DmaUnmap, &unmap), "DmaUnmap");
    PjrtExecuteContextArgs context = {.struct_size = sizeof(context)};
    harness_must(CALL(ExecuteContext_Create, &context), "ExecuteContext_Create");
    cr_expect(context.context);
    harness_must(CALL(ExecuteContext_Destroy, &context), "ExecuteContext_Destroy");
    harness_destroy_buffer(cast.out_buffer);
    harness_destroy_buffer(copy.dst_buffer);
    harness_destroy_buffer(buffer);
    harness_destroy_client(client);
}

// ---- poison

Test(pjrt_transfers, poison_reaches_what_waits) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kTwice);
    PjrtClientCreateAliasBufferArgs alias = new_alias(client);
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1);
    PjrtBuffer *first = launch(executable, alias.buffer, 1), *second = launch(executable, argument, 2);
    PjrtBuffer *third = launch(executable, argument, 3);
    PjrtDevicePoisonExecutionArgs poison = {.struct_size = sizeof(poison),
                                            .device = harness_device(client, 0),
                                            .launch_id = 3,
                                            .error_code = 10,
                                            .error_message = "peer is gone",
                                            .error_message_size = 12};
    harness_must(CALL(Device_PoisonExecution, &poison), "PoisonExecution");
    cr_expect(poison.poisoned);
    poison.launch_id = 4;
    harness_must(CALL(Device_PoisonExecution, &poison), "PoisonExecution");
    cr_expect(!poison.poisoned);
    PjrtClientFulfillAliasBufferArgs fulfil = {
        .struct_size = sizeof(fulfil), .client = client, .buffer = argument, .promise = alias.promise};
    harness_must(CALL(Client_FulfillAliasBuffer, &fulfil), "FulfillAliasBuffer");
    expect_numbers(first, 2, 2);
    expect_numbers(second, 2, 2);
    harness_refused(error_of(third), 10, "peer is gone");
    PjrtBuffer *const all[] = {alias.buffer, argument, first, second, third};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) harness_destroy_buffer(all[i]);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// ---- topologies

static PjrtTopology *new_topology(const char *name) {
    PjrtTopologyDescriptionCreateArgs args = {
        .struct_size = sizeof(args), .topology_name = name, .topology_name_size = strlen(name)};
    harness_must(CALL(TopologyDescription_Create, &args), "TopologyDescription_Create");
    return args.topology;
}

static void destroy_topology(PjrtTopology *topology) {
    PjrtTopologyDescriptionDestroyArgs args = {.struct_size = sizeof(args), .object = topology};
    harness_must(CALL(TopologyDescription_Destroy, &args), "TopologyDescription_Destroy");
}

static uint64_t fingerprint(PjrtTopology *topology) {
    PjrtTopologyDescriptionFingerprintArgs args = {.struct_size = sizeof(args), .topology = topology};
    harness_must(CALL(TopologyDescription_Fingerprint, &args), "Fingerprint");
    return (uint64_t)args.fingerprint;
}

Test(pjrt_transfers, topologies_travel) {
    PjrtTopology *slice = new_topology("v5e-16"), *other = new_topology("v5e-8");
    PjrtTopologyDescriptionSerializeArgs bytes = {.struct_size = sizeof(bytes), .topology = slice};
    harness_must(CALL(TopologyDescription_Serialize, &bytes), "Serialize");
    PjrtTopologyDescriptionDeserializeArgs read = {.struct_size = sizeof(read),
                                                   .serialized_topology = bytes.serialized_bytes,
                                                   .serialized_topology_size = bytes.serialized_bytes_size};
    harness_must(CALL(TopologyDescription_Deserialize, &read), "Deserialize");
    cr_expect_eq(fingerprint(read.topology), fingerprint(slice));
    cr_expect_neq(fingerprint(read.topology), fingerprint(other));
    PjrtTopologyDescriptionDeserializeArgs bad = {
        .struct_size = sizeof(bad), .serialized_topology = "v5e-16", .serialized_topology_size = 6};
    harness_refused(CALL(TopologyDescription_Deserialize, &bad), 3, "not a Meshlo topology");
    bytes.serialized_topology_deleter((void *)(uintptr_t)bytes.serialized_topology);
    PjrtTopologyDescriptionGetMemorySpaceKindIdsArgs kinds = {.struct_size = sizeof(kinds), .topology = slice};
    harness_must(CALL(TopologyDescription_GetMemorySpaceKindIds, &kinds), "GetMemorySpaceKindIds");
    cr_expect_eq(kinds.num_memory_space_kind_ids, 3);
    // ShapeProto {2: F32, 3: [2, 3], 5: {1: [1, 0], 8: 5}}
    PjrtCanonicalShapeArgs shape = {.struct_size = sizeof(shape),
                                    .topology = slice,
                                    .memory_kind_id = kinds.memory_space_kind_ids[1],
                                    .dims = kDims,
                                    .num_dims = 2,
                                    .type = kF32};
    harness_must(CALL(TopologyDescription_MakeCanonicalShapeForMemorySpace, &shape), "MakeCanonicalShape");
    cr_expect_gt(shape.serialized_shape_size, 8);
    cr_expect_eq(shape.serialized_shape[0], 2 << 3);
    cr_expect_eq(shape.serialized_shape[1], 11);
    shape.deleter(shape.serialized_shape);
    shape.memory_kind_id = 9;
    harness_refused(CALL(TopologyDescription_MakeCanonicalShapeForMemorySpace, &shape), 3, "memory kind 9");
    destroy_topology(slice);
    destroy_topology(other);
    destroy_topology(read.topology);
}

// ---- portable executables

static PjrtLoadedExecutable *compile_portable(PjrtClient *client) {
    HloText message = {0}, bytes = {0};
    HloModule *module = compiled_parse(kTwice, &message);
    cr_assert(module && !hlo_module_to_proto(module, &bytes));
    // CompileOptionsProto {3: {4: 1, 5: 1}, 4: compile_portable_executable}
    const unsigned char options[] = {0x1A, 4, 0x20, 1, 0x28, 1, 0x20, 1};
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = bytes.data,
                           .code_size = bytes.length,
                           .format = "hlo",
                           .format_size = 3};
    PjrtClientCompileArgs args = {.struct_size = sizeof(args),
                                  .client = client,
                                  .program = &program,
                                  .compile_options = (const char *)options,
                                  .compile_options_size = sizeof(options)};
    harness_must(CALL(Client_Compile, &args), "Compile");
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return args.executable;
}

Test(pjrt_transfers, portable_programs_run_where_they_are_sent) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = compile_portable(client);
    PjrtLoadedExecutableAddressableDevicesArgs devices = {.struct_size = sizeof(devices), .executable = executable};
    harness_must(CALL(LoadedExecutable_AddressableDevices, &devices), "AddressableDevices");
    cr_expect_eq(devices.num_addressable_devices, 0);
    PjrtLoadedExecutableGetDeviceAssignmentArgs assignment = {.struct_size = sizeof(assignment),
                                                              .executable = executable};
    harness_must(CALL(LoadedExecutable_GetDeviceAssignment, &assignment), "GetDeviceAssignment");
    cr_expect_eq(assignment.serialized_bytes_size, 0);
    for (int d = 0; d < 8; d += 5) {
        PjrtBuffer *argument = harness_numbers(client, d, 2, 3, 1), *result = NULL;
        harness_must(harness_launch(executable, argument, NULL, harness_device(client, d), &result), "Execute");
        PjrtBufferDeviceArgs where = {.struct_size = sizeof(where), .buffer = result};
        harness_must(CALL(Buffer_Device, &where), "Device");
        cr_expect_eq(where.device, harness_device(client, d));
        expect_numbers(result, 2, 2);
        harness_destroy_buffer(result);
        PjrtDevice *other = harness_device(client, 1);
        harness_refused(harness_launch(executable, argument, NULL, other, &result), 3, "argument 0");
        harness_refused(harness_launch(executable, argument, NULL, NULL, &result), 3, "portable");
        harness_destroy_buffer(argument);
    }
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// bug: the devices of another client were taken for those of this one.
Test(pjrt_transfers, bug_a_program_of_a_topology_is_loaded_on_a_client) {
    PjrtTopologyDescriptionCreateArgs create = {
        .struct_size = sizeof(create), .topology_name = "v5e-16", .topology_name_size = strlen("v5e-16")};
    harness_must(CALL(TopologyDescription_Create, &create), "TopologyDescription_Create");
    HloText message = {0}, bytes = {0};
    HloModule *module = compiled_parse(kTwice, &message);
    cr_assert(module && !hlo_module_to_proto(module, &bytes));
    const unsigned char options[] = {0x1A, 4, 0x20, 1, 0x28, 1};
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = bytes.data,
                           .code_size = bytes.length,
                           .format = "hlo",
                           .format_size = 3};
    PjrtCompileArgs compile = {.struct_size = sizeof(compile),
                               .topology = create.topology,
                               .program = &program,
                               .compile_options = (const char *)options,
                               .compile_options_size = sizeof(options)};
    harness_must(CALL(Compile, &compile), "Compile");
    hlo_text_free(&bytes);
    hlo_module_free(module);
    PjrtClient *client = harness_client("v2-8");
    PjrtClientLoadArgs load = {.struct_size = sizeof(load), .client = client, .executable = compile.executable};
    harness_must(CALL(Client_Load, &load), "Client_Load");
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *result = launch(load.loaded_executable, argument, 0);
    expect_numbers(result, 2, 2);
    harness_destroy_buffer(argument);
    harness_destroy_buffer(result);
    harness_destroy_executable(load.loaded_executable);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = compile.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    destroy_topology(create.topology);
    harness_destroy_client(client);
}

static PjrtExecutable *program_of(PjrtLoadedExecutable *loaded) {
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = loaded};
    harness_must(CALL(LoadedExecutable_GetExecutable, &get), "GetExecutable");
    return get.executable;
}

static bool program_is_deleted(PjrtLoadedExecutable *loaded) {
    PjrtLoadedExecutableIsDeletedArgs args = {.struct_size = sizeof(args), .executable = loaded};
    harness_must(CALL(LoadedExecutable_IsDeleted, &args), "IsDeleted");
    return args.is_deleted;
}

// bug: a second executable of a program could not be launched after the first was deleted.
Test(pjrt_transfers, bug_a_deletion_is_that_of_one_loading) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *first = harness_compile_text(client, kTwice);
    PjrtExecutable *program = program_of(first);
    PjrtClientLoadArgs load = {.struct_size = sizeof(load), .client = client, .executable = program};
    harness_must(CALL(Client_Load, &load), "Client_Load");
    PjrtLoadedExecutable *second = load.loaded_executable;
    PjrtBuffer *argument = harness_numbers(client, 0, 2, 3, 1), *early = launch(first, argument, 0), *none = NULL;
    PjrtLoadedExecutableDeleteArgs remove = {.struct_size = sizeof(remove), .object = first};
    for (int i = 0; i < 2; i++) harness_must(CALL(LoadedExecutable_Delete, &remove), "Delete");
    cr_expect(program_is_deleted(first));
    cr_expect_not(program_is_deleted(second));
    harness_refused(harness_launch(first, argument, NULL, NULL, &none), 9, "executable twice has been deleted");
    PjrtBuffer *late = launch(second, argument, 0);
    expect_numbers(early, 2, 2);
    expect_numbers(late, 2, 2);
    // Executables that are loaded from the program afterwards are not deleted either.
    harness_must(CALL(Client_Load, &load), "Client_Load");
    cr_expect_not(program_is_deleted(load.loaded_executable));
    harness_destroy_executable(load.loaded_executable);
    harness_destroy_executable(first);
    cr_expect_not(program_is_deleted(second));
    harness_destroy_executable(second);
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = program};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    PjrtBuffer *all[] = {argument, early, late};
    for (int i = 0; i < 3; i++) harness_destroy_buffer(all[i]);
    harness_destroy_client(client);
}

// ---- races

typedef struct Race {
    PjrtClient *client;
    PjrtLoadedExecutable *executable;
    PjrtBuffer *shared;
    atomic_bool start;
} Race;

static void *launch_shared(void *argument) {
    Race *race = argument;
    while (!atomic_load(&race->start)) {
    }
    for (int i = 0; i < 50; i++) {
        PjrtBuffer *result = NULL;
        PjrtError *error = harness_launch(race->executable, race->shared, NULL, NULL, &result);
        if (error) {  // another thread has deleted it
            harness_refused(error, 3, "deleted");
            continue;
        }
        error = error_of(result);  // or deletes it in this moment
        if (error)
            harness_refused(error, 3, "deleted");
        else
            expect_numbers(result, 2, 2);
        harness_destroy_buffer(result);
    }
    return NULL;
}

static void *delete_shared(void *argument) {
    Race *race = argument;
    while (!atomic_load(&race->start)) {
    }
    PjrtBufferDeleteArgs args = {.struct_size = sizeof(args), .object = race->shared};
    harness_must(CALL(Buffer_Delete, &args), "Delete");
    return NULL;
}

// A buffer is deleted while others launch programs on it: each launch gets all of it or is refused.
Test(pjrt_transfers, deletion_races_with_launches) {
    PjrtClient *client = harness_client("v2-8");
    PjrtLoadedExecutable *executable = harness_compile_text(client, kTwice);
    for (int round = 0; round < 10; round++) {
        Race race = {.client = client, .executable = executable, .shared = harness_numbers(client, 0, 2, 3, 1)};
        pthread_t threads[4];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, launch_shared, &race);
        pthread_create(&threads[3], NULL, delete_shared, &race);
        atomic_store(&race.start, true);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        harness_destroy_buffer(race.shared);
    }
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// ---- bits

// Sends 256 elements of a type to device 0, copies them to device 1, and reads them there.
static void check_bits(PjrtClient *client, HloType type, int number) {
    const int64_t dims[] = {256};
    const HloTypeInfo *info = hlo_type_info(type);
    const size_t size = 256 * (size_t)info->storage_bytes;
    const size_t part = (size_t)info->storage_bytes / (info->kind == HLO_KIND_COMPLEX ? 2 : 1);
    unsigned char sent[256 * 16], got[256 * 16] = {0};
    // The last byte of a part runs through all values, which are signs and exponents, the first ones are payloads.
    for (size_t i = 0; i < size; i++) sent[i] = (unsigned char)(i / (size_t)info->storage_bytes + i % part);
    for (size_t i = 0; i < size && info->bits < 8; i++) sent[i] &= (unsigned char)((1 << info->bits) - 1);
    PjrtClientBufferFromHostBufferArgs args = {.struct_size = sizeof(args),
                                               .client = client,
                                               .data = sent,
                                               .type = number,
                                               .dims = dims,
                                               .num_dims = 1,
                                               .device = harness_device(client, 0)};
    harness_must(CALL(Client_BufferFromHostBuffer, &args), "BufferFromHostBuffer");
    harness_destroy_event(args.done_with_host_buffer);
    PjrtBufferCopyToDeviceArgs copy = {
        .struct_size = sizeof(copy), .buffer = args.buffer, .dst_device = harness_device(client, 1)};
    harness_must(CALL(Buffer_CopyToDevice, &copy), "CopyToDevice");
    PjrtBufferToHostBufferArgs back = {
        .struct_size = sizeof(back), .src = copy.dst_buffer, .dst = got, .dst_size = size};
    harness_must(CALL(Buffer_ToHostBuffer, &back), "ToHostBuffer");
    PjrtEventAwaitArgs wait = {.struct_size = sizeof(wait), .object = back.event};
    harness_must(CALL(Event_Await, &wait), "Await");
    harness_destroy_event(back.event);
    cr_expect_eq(memcmp(got, sent, size), 0, "%s", info->text);
    harness_destroy_buffer(args.buffer);
    harness_destroy_buffer(copy.dst_buffer);
}

// PJRT's numbers of types differ from HLO's.
Test(pjrt_transfers, keep_bits) {
    static const struct {
        HloType type;
        int number;
    } types[] = {{HLO_F16, 10},           {HLO_F32, 11},        {HLO_F64, 12},        {HLO_BF16, 13},
                 {HLO_C64, 14},           {HLO_C128, 15},       {HLO_F8E5M2, 16},     {HLO_F8E4M3FN, 17},
                 {HLO_F8E4M3B11FNUZ, 18}, {HLO_F8E5M2FNUZ, 19}, {HLO_F8E4M3FNUZ, 20}, {HLO_F8E4M3, 26},
                 {HLO_F8E3M4, 27},        {HLO_F8E8M0FNU, 28},  {HLO_F4E2M1FN, 29}};
    PjrtClient *client = harness_client("v2-8");
    for (size_t i = 0; i < HLO_COUNT_OF(types); i++) check_bits(client, types[i].type, types[i].number);
    harness_destroy_client(client);
}
