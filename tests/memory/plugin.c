// SPDX-License-Identifier: Apache-2.0
#include "tests/memory/plugin.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/compiled.h"

// A pending error as a status; destroys it.
HloStatus status_of(PjrtError *error) {
    if (!error) return HLO_SUCCESS;
    PjrtErrorMessageArgs message = {.struct_size = sizeof(message), .error = error};
    PjrtErrorGetCodeArgs code = {.struct_size = sizeof(code), .error = error};
    CALL(Error_Message, &message);
    harness_must(CALL(Error_GetCode, &code), "code");
    cr_expect_neq(code.code, 0);
    cr_expect_gt(message.message_size, 0);
    HloStatus status = hlo_error((HloCode)code.code, "%.*s", (int)message.message_size, message.message);
    PjrtErrorDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = error};
    CALL(Error_Destroy, &destroy);
    return status;
}

void destroy_event(PjrtEvent *event) {
    PjrtEventDestroyArgs args = {.struct_size = sizeof(args), .object = event};
    if (event) harness_must(CALL(Event_Destroy, &args), "Event_Destroy");
}

HloStatus wait_for(PjrtEvent *event) {
    PjrtEventAwaitArgs args = {.struct_size = sizeof(args), .object = event};
    return event ? status_of(CALL(Event_Await, &args)) : HLO_SUCCESS;
}

PjrtClient *client_of(const World *world) {
    return ((const Ready *)world->more)->client;
}

PjrtDevice *first_device(PjrtClient *client) {
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    return devices.devices[0];
}

PjrtMemory *first_memory(PjrtClient *client) {
    PjrtDeviceDefaultMemoryArgs memory = {.struct_size = sizeof(memory), .device = first_device(client)};
    harness_must(CALL(Device_DefaultMemory, &memory), "DefaultMemory");
    return memory.memory;
}

HloStatus to_device(PjrtClient *client, const HloLiteral *literal, PjrtBuffer **buffer) {
    PjrtClientBufferFromHostBufferArgs args = {.struct_size = sizeof(args),
                                               .client = client,
                                               .data = literal->data,
                                               .type = 11,  // f32
                                               .dims = literal->shape->dims,
                                               .num_dims = (size_t)literal->shape->rank,
                                               .device = first_device(client)};
    HloStatus status = status_of(CALL(Client_BufferFromHostBuffer, &args));
    *buffer = status ? NULL : args.buffer;
    if (!status) {
        status = wait_for(args.done_with_host_buffer);
        destroy_event(args.done_with_host_buffer);
    }
    return status;
}

HloStatus to_host(PjrtBuffer *buffer, float *out, size_t size) {
    PjrtBufferToHostBufferArgs args = {.struct_size = sizeof(args), .src = buffer, .dst = out, .dst_size = size};
    HloStatus status = status_of(CALL(Buffer_ToHostBuffer, &args));
    if (status) return status;
    status = wait_for(args.event);
    destroy_event(args.event);
    return status;
}

void open_client(World *world) {
    Ready *ready = calloc(1, sizeof(*ready));
    cr_assert(ready);
    ready->client = harness_client("v2-8");
    world->more = ready;
}

void open_executable(World *world) {
    PjrtError *error = NULL;
    open_client(world);
    Ready *ready = world->more;
    ready->executable =
        harness_compile_as(ready->client, world->bytecode.data, world->bytecode.length, "mlir", 1, &error);
    harness_must(error, "compile");
    for (int64_t i = 0; i < world->argument_count; i++) {
        must_succeed(to_device(ready->client, world->arguments[i], &ready->arguments[i]));
    }
}

void close_all(World *world) {
    Ready *ready = world->more;
    for (size_t i = 0; i < sizeof(ready->arguments) / sizeof(ready->arguments[0]); i++) {
        if (ready->arguments[i]) harness_destroy_buffer(ready->arguments[i]);
    }
    if (ready->executable) harness_destroy_executable(ready->executable);
    harness_destroy_client(ready->client);
    free(ready);
}
