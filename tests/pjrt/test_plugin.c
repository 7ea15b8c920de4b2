// SPDX-License-Identifier: Apache-2.0
// The plugin through its C API, in the order in which jaxlib calls it (docs: PJRT 0.112).
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "pjrt/extensions.h"
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
    harness_destroy_event(done);
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
    harness_refused(error, 3, "the operation 'no' is unknown");
    free(bytes);
    harness_destroy_client(client);
}

Test(pjrt_plugin, programs_may_come_as_text) {
    static const char text[] =
        "module @m {\n  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<2x3xf32>\n    return %0 : tensor<2x3xf32>\n  }\n}\n";
    PjrtClient *client = harness_client("v2-8");
    PjrtError *error;
    PjrtLoadedExecutable *executable = harness_compile(client, text, sizeof(text) - 1, 1, &error);
    harness_must(error, "compile");
    harness_destroy_executable(executable);
    // Errors keep their place: the third line of this one.
    static const char wrong[] =
        "module @m {\n  func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>\n    return %0 : tensor<2x3xf32>\n  }\n}\n";
    harness_compile(client, wrong, sizeof(wrong) - 1, 1, &error);
    harness_refused(error, 3,
                    "program:3:31: error: %arg1 is not defined here\n"
                    "    %0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>\n"
                    "                              ^");
    harness_destroy_client(client);
}

// An older client's struct ends earlier: nothing past its end is touched.
Test(pjrt_plugin, shorter_structs_stay_untouched_after_their_end) {
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

static void count_call(PjrtError *error, void *argument) {
    cr_expect(!error);
    atomic_fetch_add((atomic_int *)argument, 1);
}

// Runs on threads of its own, out of which Criterion must not jump: expectations, never assertions.
static void *put_and_read(void *argument) {
    PjrtClient *client = argument;
    for (int i = 0; i < 50; i++) {
        PjrtBuffer *buffer = harness_numbers(client, i % 8, 4, 4, (float)i);
        float numbers[16];
        harness_read(buffer, numbers, 16);
        cr_expect_eq(numbers[15], (float)i + 15);
        atomic_int calls = 0;
        PjrtBufferReadyEventArgs ready = {.struct_size = sizeof(ready), .buffer = buffer};
        harness_must(CALL(Buffer_ReadyEvent, &ready), "ReadyEvent");
        PjrtEventOnReadyArgs on_ready = {
            .struct_size = sizeof(on_ready), .event = ready.event, .callback = count_call, .user_arg = &calls};
        harness_must(CALL(Event_OnReady, &on_ready), "OnReady");
        cr_expect_eq(atomic_load(&calls), 1);
        harness_destroy_event(ready.event);
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

Test(pjrt_plugin, more_than_the_memory_of_a_device_is_refused_at_compile_time) {
    static const char program[] =
        "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n"
        " ROOT b = f32[1024,1024,1024,16] broadcast(p), dimensions={}\n}\n";
    PjrtClient *client = harness_client("v2-8");
    PjrtError *error;
    harness_try_text(client, program, &error);
    harness_refused(error, 8, "Ran out of memory on HBM");
    harness_destroy_client(client);
}

Test(pjrt_plugin, descriptions_of_devices_tell_memories) {
    PjrtMemoryDescriptionsExtension *extension =
        (PjrtMemoryDescriptionsExtension *)(void *)harness_extension(PJRT_EXTENSION_MEMORY_DESCRIPTIONS);
    PjrtClient *client = harness_client("v2-8");
    PjrtClientDevicesArgs devices = {.struct_size = sizeof(devices), .client = client};
    harness_must(CALL(Client_Devices, &devices), "Client_Devices");
    PjrtDeviceGetDescriptionArgs of = {.struct_size = sizeof(of), .device = devices.devices[2]};
    harness_must(CALL(Device_GetDescription, &of), "GetDescription");
    PjrtDeviceMemoriesArgs list = {.struct_size = sizeof(list), .device_description = of.device_description};
    harness_must(extension->memories(&list), "MemorySpaces");
    cr_assert_eq(list.count, 3);
    PjrtMemoryDescriptionKindArgs kind = {.struct_size = sizeof(kind), .memory_description = list.memories[1]};
    harness_must(extension->kind(&kind), "Kind");
    cr_expect_str_eq(kind.kind, "pinned_host");
    cr_expect_eq(kind.kind_id, 1);
    harness_destroy_client(client);
}

// A client made with these string options; *error is what the plugin says.
static PjrtClient *client_with(const char *const (*pairs)[2], size_t count, PjrtError **error) {
    PjrtNamedValue options[4];
    cr_assert_leq(count, 4);
    for (size_t i = 0; i < count; i++) {
        options[i] = (PjrtNamedValue){.struct_size = sizeof(options[i]),
                                      .name = pairs[i][0],
                                      .name_size = strlen(pairs[i][0]),
                                      .type = PJRT_VALUE_STRING,
                                      .value.string = pairs[i][1],
                                      .value_size = strlen(pairs[i][1])};
    }
    PjrtClientCreateArgs args = {.struct_size = sizeof(args), .create_options = options, .num_options = count};
    *error = CALL(Client_Create, &args);
    return args.client;
}

Test(pjrt_plugin, a_platform_of_another_name) {
    static const char *const pairs[][2] = {{"platform", "meshlo"}, {"topology", "v5e-4"}, {"numerics", "exact"}};
    PjrtError *error;
    PjrtClient *client = client_with(pairs, 3, &error);
    harness_must(error, "Client_Create");
    PjrtClientPlatformNameArgs name = {.struct_size = sizeof(name), .client = client};
    harness_must(CALL(Client_PlatformName, &name), "PlatformName");
    cr_expect_eq(name.platform_name_size, 6);
    cr_expect_str_eq(name.platform_name, "meshlo");
    harness_destroy_client(client);
}

Test(pjrt_plugin, create_options_without_sense_are_refused) {
    static const struct {
        const char *pair[1][2];
        const char *says;
    } cases[] = {{{{"numerics", "f64"}}, "expected exact or tpu"},
                 {{{"numerics", "exactly so"}}, "too long"},
                 {{{"platform", "a name of more than thirty-one letters"}}, "too long"},
                 {{{"topology", "v9-8"}}, "v9-8"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PjrtError *error;
        PjrtClient *client = client_with(cases[i].pair, 1, &error);
        cr_expect_null(client);
        harness_refused(error, 3, cases[i].says);
    }
}

// compiler_options of JAX: unknown names and values of the wrong kind are errors in XLA's words.
Test(pjrt_plugin, unknown_compile_options_are_refused) {
    static const struct {
        const char *name, *value, *want;
    } cases[] = {{"xla_embed_ir_in_executable", "false", NULL},
                 {"xla_some_flag_of_a_tpu", "whatever", NULL},
                 {"optimization_level", "2", NULL},
                 {"exec_time_optimization_effort", "0.5", NULL},
                 {"xla_embed_ir_in_executable", "perhaps", "is not a valid bool value."},
                 {"optimization_level", "two", "is not a valid int64 value."},
                 {"invalid_key", "x", "No such compile option: 'invalid_key'"}};
    PjrtClient *client = harness_client("v2-8");
    const Golden *add = golden("add");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        // CompileOptionsProto {7: {1: name, 2: {1: value}}}
        unsigned char options[128];
        const size_t name = strlen(cases[i].name), value = strlen(cases[i].value);
        size_t at = 0;
        const unsigned char head[] = {0x3A, (unsigned char)(name + value + 6), 0x0A, (unsigned char)name};
        const unsigned char middle[] = {0x12, (unsigned char)(value + 2), 0x0A, (unsigned char)value};
        memcpy(options + at, head, sizeof(head));
        at += sizeof(head);
        memcpy(options + at, cases[i].name, name);
        at += name;
        memcpy(options + at, middle, sizeof(middle));
        at += sizeof(middle);
        memcpy(options + at, cases[i].value, value);
        at += value;
        PjrtProgram program = {.struct_size = sizeof(program),
                               .code = (char *)(uintptr_t)add->bytes,
                               .code_size = add->length,
                               .format = "mlir",
                               .format_size = 4};
        PjrtClientCompileArgs args = {.struct_size = sizeof(args),
                                      .client = client,
                                      .program = &program,
                                      .compile_options = (const char *)options,
                                      .compile_options_size = at};
        PjrtError *error = CALL(Client_Compile, &args);
        if (cases[i].want) {
            harness_refused(error, 3, cases[i].want);
            continue;
        }
        harness_must(error, cases[i].name);
        harness_destroy_executable(args.executable);
    }
    harness_destroy_client(client);
}
