// SPDX-License-Identifier: Apache-2.0
// The plugin through its C API, in the order in which jaxlib calls it (docs: PJRT 0.112).
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/pjrt/harness.h"

typedef struct Golden {
    const char *name;
    const unsigned char *bytes;
    size_t length;
} Golden;
#include "tests/stablehlo/golden.inc"

static const Golden *golden(const char *name) {
    for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
        if (strcmp(goldens[i].name, name) == 0) return &goldens[i];
    }
    cr_assert_fail("no golden %s", name);
    return NULL;
}

Test(pjrt_plugin, the_table_is_whole) {
    const PjrtApi *api = harness_api();
    cr_assert_eq(api->struct_size, 1144);
    cr_assert_eq(api->version.major, 0);
    cr_assert_eq(api->version.minor, 112);
    cr_assert_eq(PJRT_AT_END, PJRT_FUNCTION_COUNT);
    for (int i = 0; i < PJRT_FUNCTION_COUNT; i++) cr_assert(api->functions[i], "function %d is missing", i);
    // Spot checks of the ABI: offsets of functions in the table.
    cr_assert_eq(offsetof(PjrtApi, functions[PJRT_AT_Client_Create]), 120);
    cr_assert_eq(offsetof(PjrtApi, functions[PJRT_AT_LoadedExecutable_Execute]), 480);
    cr_assert_eq(offsetof(PjrtApi, functions[PJRT_AT_Error_ForEachPayload]), 1096);
}

// G1 of the reference: the eight cores of a TPU v2 host.
Test(pjrt_plugin, eight_cores) {
    static const int64_t coords[8][3] = {{0, 0, 0}, {0, 0, 0}, {1, 0, 0}, {1, 0, 0},
                                         {0, 1, 0}, {0, 1, 0}, {1, 1, 0}, {1, 1, 0}};
    PjrtClient *client = harness_client("v2-8");
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    cr_assert_eq(devices.num_devices, 8);
    for (int i = 0; i < 8; i++) {
        PjrtDeviceGetDescriptionArgs get = {.struct_size = sizeof(get), .device = devices.devices[i]};
        harness_must(CALL(Device_GetDescription, &get), "GetDescription");
        PjrtDeviceDescriptionIdArgs id = {.struct_size = sizeof(id), .device_description = get.device_description};
        harness_must(CALL(DeviceDescription_Id, &id), "Id");
        cr_assert_eq(id.id, i);
        PjrtDeviceDescriptionAttributesArgs list = {.struct_size = sizeof(list),
                                                    .device_description = get.device_description};
        harness_must(CALL(DeviceDescription_Attributes, &list), "Attributes");
        cr_assert_eq(list.attributes[0].type, PJRT_VALUE_INT64_LIST);
        cr_assert_eq(memcmp(list.attributes[0].value.numbers, coords[i], sizeof(coords[i])), 0, "device %d", i);
        cr_assert_eq(list.attributes[1].value.number, i % 2);
    }
    harness_destroy_client(client);
}

Test(pjrt_plugin, unknown_topology_is_refused) {
    PjrtNamedValue option = {
        .struct_size = sizeof(option), .name = "topology", .name_size = 8, .type = PJRT_VALUE_STRING, .value_size = 4};
    option.value.string = "v2-9";
    PjrtClientCreateArgs args = {.struct_size = sizeof(args), .create_options = &option, .num_options = 1};
    harness_refused(CALL(Client_Create, &args), 3, "v2-9");
}

Test(pjrt_plugin, one_device_adds_one) {
    PjrtClient *client = harness_client("v2-8");
    PjrtError *error;
    PjrtLoadedExecutable *executable = harness_compile(client, golden("add")->bytes, golden("add")->length, 1, &error);
    harness_must(error, "compile");
    PjrtBuffer *argument = harness_numbers(client, 0, 8, 16, 0), *result = NULL;
    PjrtBuffer *const arguments[] = {argument};
    PjrtBuffer *const *const argument_lists[] = {arguments};
    PjrtBuffer **const result_lists[] = {&result};
    PjrtEvent *done = NULL;
    PjrtExecuteOptions options = {.struct_size = sizeof(options)};
    PjrtLoadedExecutableExecuteArgs args = {.struct_size = sizeof(args),
                                            .executable = executable,
                                            .options = &options,
                                            .argument_lists = argument_lists,
                                            .num_devices = 1,
                                            .num_args = 1,
                                            .output_lists = result_lists,
                                            .device_complete_events = &done};
    harness_must(CALL(LoadedExecutable_Execute, &args), "Execute");
    float numbers[128];
    harness_read(result, numbers, 128);
    for (int i = 0; i < 128; i++) cr_assert_eq(numbers[i], (float)i + 1);
    args.num_args = 0;
    harness_refused(CALL(LoadedExecutable_Execute, &args), 3, "argument");
    args.num_args = 1;
    args.num_devices = 2;
    harness_refused(CALL(LoadedExecutable_Execute, &args), 3, "devices");
    PjrtEventDestroyArgs event = {.struct_size = sizeof(event), .object = done};
    harness_must(CALL(Event_Destroy, &event), "Event_Destroy");
    harness_destroy_buffer(argument);
    harness_destroy_buffer(result);
    harness_destroy_executable(executable);
    harness_destroy_client(client);
}

// A deleted buffer is refused, not read.
Test(pjrt_plugin, deleted_buffer_is_refused) {
    PjrtClient *client = harness_client("v2-8");
    PjrtBuffer *buffer = harness_numbers(client, 3, 2, 2, 0);
    PjrtBufferDeleteArgs remove = {.struct_size = sizeof(remove), .object = buffer};
    harness_must(CALL(Buffer_Delete, &remove), "Buffer_Delete");
    float out[4];
    PjrtBufferToHostBufferArgs args = {.struct_size = sizeof(args), .src = buffer, .dst = out, .dst_size = sizeof(out)};
    PjrtError *error = CALL(Buffer_ToHostBuffer, &args);
    harness_refused(error, 3, "delete");
    harness_destroy_buffer(buffer);
    harness_destroy_client(client);
}

Test(pjrt_plugin, hostile_programs_are_refused) {
    PjrtClient *client = harness_client("v2-8");
    const Golden *program = golden("softmax");
    unsigned char *bytes = malloc(program->length);
    for (size_t i = 0; i < program->length; i += 5) {
        memcpy(bytes, program->bytes, program->length);
        bytes[i] ^= 0x5A;
        PjrtError *error;
        PjrtLoadedExecutable *executable = harness_compile(client, bytes, program->length, 1, &error);
        if (executable) harness_destroy_executable(executable);
        if (!error) continue;
        PjrtErrorDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = error};
        CALL(Error_Destroy, &destroy);
    }
    PjrtError *error;
    harness_compile(client, "no bytecode", 11, 1, &error);
    harness_refused(error, 12, "bytecode");
    free(bytes);
    harness_destroy_client(client);
}

// An older client's struct ends earlier: nothing behind its end is touched.
Test(pjrt_plugin, shorter_structs_stay_untouched_behind_their_end) {
    PjrtClient *client = harness_client("v2-8");
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    PjrtDeviceMemoryStatsArgs stats;
    memset(&stats, 0xEE, sizeof(stats));
    stats.struct_size = SIZE_TO(PjrtDeviceMemoryStatsArgs, largest_free_block_bytes_is_set);
    stats.device = devices.devices[0];
    harness_must(CALL(Device_MemoryStats, &stats), "MemoryStats");
    const unsigned char *bytes = (const unsigned char *)&stats;
    for (size_t i = stats.struct_size; i < offsetof(PjrtDeviceMemoryStatsArgs, pool_bytes_is_set); i++) {
        cr_assert_eq(bytes[i], 0xEE, "byte %zu was written", i);
    }
    harness_destroy_client(client);
}

Test(pjrt_plugin, missing_functions_answer_by_name) {
    harness_refused(CALL(Client_DmaMap, NULL), 12, "PJRT_Client_DmaMap");
    harness_refused(CALL(Buffer_Bitcast, NULL), 12, "PJRT_Buffer_Bitcast");
}

static void count_call(PjrtError *error, void *argument) {
    cr_assert(!error);
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void *put_and_read(void *argument) {
    PjrtClient *client = argument;
    for (int i = 0; i < 50; i++) {
        PjrtBuffer *buffer = harness_numbers(client, i % 8, 4, 4, (float)i);
        float numbers[16];
        harness_read(buffer, numbers, 16);
        cr_assert_eq(numbers[15], (float)i + 15);
        atomic_int calls = 0;
        PjrtBufferReadyEventArgs ready = {.struct_size = sizeof(ready), .buffer = buffer};
        harness_must(CALL(Buffer_ReadyEvent, &ready), "ReadyEvent");
        PjrtEventOnReadyArgs on_ready = {
            .struct_size = sizeof(on_ready), .event = ready.event, .callback = count_call, .user_arg = &calls};
        harness_must(CALL(Event_OnReady, &on_ready), "OnReady");
        cr_assert_eq(atomic_load(&calls), 1);
        PjrtEventDestroyArgs event = {.struct_size = sizeof(event), .object = ready.event};
        harness_must(CALL(Event_Destroy, &event), "Event_Destroy");
        harness_destroy_buffer(buffer);
    }
    return NULL;
}

Test(pjrt_plugin, many_threads_put_and_read) {
    PjrtClient *client = harness_client("v2-8");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, put_and_read, client);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    harness_destroy_client(client);
}
