// SPDX-License-Identifier: Apache-2.0
// Short of memory below the plugin's table: every call answers RESOURCE_EXHAUSTED or does what was asked, and what it
// gave can be destroyed. The process is the user's.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "tests/memory/doors.h"
#include "tests/pjrt/harness.h"
#include "tests/support/compiled.h"

// A pending error as a status; destroys it.
static HloStatus status_of(PjrtError *error) {
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

static void destroy_event(PjrtEvent *event) {
    PjrtEventDestroyArgs args = {.struct_size = sizeof(args), .object = event};
    if (event) harness_must(CALL(Event_Destroy, &args), "Event_Destroy");
}

static HloStatus wait_for(PjrtEvent *event) {
    PjrtEventAwaitArgs args = {.struct_size = sizeof(args), .object = event};
    return event ? status_of(CALL(Event_Await, &args)) : HLO_SUCCESS;
}

static HloStatus create_client(PjrtClient **client) {
    PjrtNamedValue option = {
        .struct_size = sizeof(option), .name = "topology", .name_size = 8, .type = PJRT_VALUE_STRING, .value_size = 4};
    option.value.string = "v2-8";
    PjrtClientCreateArgs args = {.struct_size = sizeof(args), .create_options = &option, .num_options = 1};
    HloStatus status = status_of(CALL(Client_Create, &args));
    *client = status ? NULL : args.client;
    return status;
}

static HloStatus client_door(const World *world) {
    PjrtClient *client = NULL;
    (void)world;
    HloStatus status = create_client(&client);
    if (client) harness_destroy_client(client);
    return status;
}

// What the doors below find ready: memory is short while they use it, not while it is made.
typedef struct Ready {
    PjrtClient *client;
    PjrtLoadedExecutable *executable;
    PjrtBuffer *arguments[16];
} Ready;

static PjrtClient *client_of(const World *world) {
    return ((const Ready *)world->more)->client;
}

static HloStatus compile_door(const World *world) {
    PjrtError *error = NULL;
    PjrtLoadedExecutable *executable =
        harness_compile_as(client_of(world), world->bytecode.data, world->bytecode.length, "mlir", 1, &error);
    HloStatus status = status_of(error);
    if (executable) harness_destroy_executable(executable);
    return status;
}

static PjrtDevice *first_device(PjrtClient *client) {
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    return devices.devices[0];
}

static HloStatus to_device(PjrtClient *client, const HloLiteral *literal, PjrtBuffer **buffer) {
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

static HloStatus to_host(PjrtBuffer *buffer, float *out, size_t size) {
    PjrtBufferToHostBufferArgs args = {.struct_size = sizeof(args), .src = buffer, .dst = out, .dst_size = size};
    HloStatus status = status_of(CALL(Buffer_ToHostBuffer, &args));
    if (status) return status;
    status = wait_for(args.event);
    destroy_event(args.event);
    return status;
}

static HloStatus transfer_door(const World *world) {
    PjrtBuffer *buffer = NULL;
    float out[16 * 8] = {0};
    HloStatus status = to_device(client_of(world), world->arguments[0], &buffer);
    if (!status) status = to_host(buffer, out, sizeof(out));
    if (!status) cr_expect_eq(memcmp(out, world->arguments[0]->data, sizeof(out)), 0);
    if (buffer) harness_destroy_buffer(buffer);
    return status;
}

// What jaxlib asks of an executable after compiling it.
static HloStatus describe_door(const World *world) {
    const Ready *ready = world->more;
    PjrtLoadedExecutableGetExecutableArgs get = {.struct_size = sizeof(get), .loaded_executable = ready->executable};
    HloStatus status = status_of(CALL(LoadedExecutable_GetExecutable, &get));
    if (status) return status;
    PjrtExecutableGetCostAnalysisArgs cost = {.struct_size = sizeof(cost), .executable = get.executable};
    PjrtExecutableOutputDimensionsArgs dims = {.struct_size = sizeof(dims), .executable = get.executable};
    PjrtExecutableOptimizedProgramArgs program = {.struct_size = sizeof(program), .executable = get.executable};
    PjrtProgram text = {.struct_size = sizeof(text)};
    program.program = &text;
    status = status_of(CALL(Executable_GetCostAnalysis, &cost));
    if (!status) status = status_of(CALL(Executable_OutputDimensions, &dims));
    if (!status) status = status_of(CALL(Executable_OptimizedProgram, &program));
    PjrtExecutableDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = get.executable};
    harness_must(CALL(Executable_Destroy, &destroy), "Executable_Destroy");
    return status;
}

enum { kResults = 5 };  // of the world's program

static HloStatus execute_door(const World *world) {
    const Ready *ready = world->more;
    PjrtBuffer *results[kResults] = {0};
    PjrtBuffer *const *const argument_lists[] = {ready->arguments};
    PjrtBuffer **const result_lists[] = {results};
    PjrtEvent *done = NULL;
    PjrtExecuteOptions options = {.struct_size = sizeof(options)};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = ready->executable,
                                            .options = &options,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = (size_t)world->argument_count,
                                            .output_lists = result_lists,
                                            .device_complete_events = &done};
    HloStatus status = status_of(CALL(LoadedExecutable_Execute, &args));
    if (status) return status;
    float out[16];
    status = wait_for(done);
    destroy_event(done);
    if (!status) status = to_host(results[0], out, sizeof(out));
    for (int i = 0; i < kResults; i++) harness_destroy_buffer(results[i]);
    return status;
}

static void open_client(World *world) {
    Ready *ready = calloc(1, sizeof(*ready));
    cr_assert(ready);
    ready->client = harness_client("v2-8");
    world->more = ready;
}

static void open_executable(World *world) {
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

static void close_all(World *world) {
    Ready *ready = world->more;
    for (size_t i = 0; i < sizeof(ready->arguments) / sizeof(ready->arguments[0]); i++) {
        if (ready->arguments[i]) harness_destroy_buffer(ready->arguments[i]);
    }
    if (ready->executable) harness_destroy_executable(ready->executable);
    harness_destroy_client(ready->client);
    free(ready);
}

static const NamedDoor doors[] = {{"client", client_door, NULL, NULL},
                                  {"compile", compile_door, open_client, close_all},
                                  {"transfer", transfer_door, open_client, close_all},
                                  {"describe", describe_door, open_executable, close_all},
                                  {"execute", execute_door, open_executable, close_all}};

ParameterizedTestParameters(memory, plugin) {
    return doors_numbered(sizeof(doors) / sizeof(doors[0]));
}

ParameterizedTest(const int *number, memory, plugin) {
    door_must_survive(&doors[*number]);
}
