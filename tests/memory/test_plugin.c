// SPDX-License-Identifier: Apache-2.0
// Short of memory below the plugin's table: every call answers RESOURCE_EXHAUSTED or succeeds, and what it gave can be
// destroyed. The process is the user's.
#include <criterion/criterion.h>
#include <string.h>

#include "tests/memory/plugin.h"
#include "tests/support/cases.h"

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

static HloStatus compile_door(const World *world) {
    PjrtError *error = NULL;
    PjrtLoadedExecutable *executable =
        harness_compile_as(client_of(world), world->bytecode.data, world->bytecode.length, "mlir", 1, &error);
    HloStatus status = status_of(error);
    if (executable) harness_destroy_executable(executable);
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

// The questions of jaxlib about an executable after compiling it.
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

static const NamedDoor doors[] = {{"client", client_door, NULL, NULL},
                                  {"compile", compile_door, open_client, close_all},
                                  {"transfer", transfer_door, open_client, close_all},
                                  {"describe", describe_door, open_executable, close_all},
                                  {"execute", execute_door, open_executable, close_all}};

CaseList(memory, plugin) {
    return cases_numbered(sizeof(doors) / sizeof(doors[0]));
}

CaseTest(const int *number, memory, plugin) {
    door_must_survive(&doors[*number]);
}
