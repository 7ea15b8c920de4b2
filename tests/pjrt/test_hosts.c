// SPDX-License-Identifier: Apache-2.0
// Slices of several hosts through the C API: all of them in one process, or one process a host.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pjrt/harness.h"

static PjrtNamedValue text_option(const char *name, const char *value) {
    PjrtNamedValue option = {.struct_size = sizeof(option),
                             .name = name,
                             .name_size = strlen(name),
                             .type = PJRT_VALUE_STRING,
                             .value_size = strlen(value)};
    option.value.string = value;
    return option;
}

static PjrtNamedValue number_option(const char *name, int64_t value) {
    PjrtNamedValue option = {.struct_size = sizeof(option),
                             .name = name,
                             .name_size = strlen(name),
                             .type = PJRT_VALUE_INT64,
                             .value_size = 1};
    option.value.number = value;
    return option;
}

static PjrtError *create(PjrtNamedValue *options, size_t count, PjrtClient **client) {
    PjrtClientCreateArgs args = {.struct_size = sizeof(args), .create_options = options, .num_options = count};
    PjrtError *error = CALL(Client_Create, &args);
    *client = args.client;
    return error;
}

static int process_of(PjrtDevice *device) {
    PjrtDeviceGetDescriptionArgs get = {.struct_size = sizeof(get), .device = device};
    harness_must(CALL(Device_GetDescription, &get), "GetDescription");
    PjrtDeviceDescriptionProcessIndexArgs of = {.struct_size = sizeof(of),
                                                .device_description = get.device_description};
    harness_must(CALL(DeviceDescription_ProcessIndex, &of), "ProcessIndex");
    return of.process_index;
}

static int local_id(PjrtDevice *device) {
    PjrtDeviceLocalHardwareIdArgs args = {.struct_size = sizeof(args), .device = device};
    harness_must(CALL(Device_LocalHardwareId, &args), "LocalHardwareId");
    return args.local_hardware_id;
}

// Frameworks refuse a process whose addressable devices belong to several: one that has all hosts is their only one.
Test(pjrt_hosts, one_process_plays_all_hosts) {
    PjrtClient *client = harness_client("v5e-16");
    PjrtClientAddressableDevicesArgs list = {.struct_size = sizeof(list), .client = client};
    harness_must(CALL(Client_AddressableDevices, &list), "AddressableDevices");
    cr_assert_eq(list.num_addressable_devices, 16);
    for (int i = 0; i < 16; i++) {
        cr_expect_eq(process_of(list.addressable_devices[i]), 0);
        cr_expect_eq(local_id(list.addressable_devices[i]), i);
    }
    PjrtDeviceGetDescriptionArgs get = {.struct_size = sizeof(get), .device = list.addressable_devices[15]};
    harness_must(CALL(Device_GetDescription, &get), "GetDescription");
    PjrtDeviceDescriptionToStringArgs text = {.struct_size = sizeof(text),
                                              .device_description = get.device_description};
    harness_must(CALL(DeviceDescription_ToString, &text), "ToString");
    cr_expect(strstr(text.to_string, "process_index=0, coords=(3,3,0)"), "%s", text.to_string);
    harness_destroy_client(client);
}

// The same host, named in three ways.
typedef struct HostCase {
    char names[2][16];
    int64_t values[2];
    char environment[4];
} HostCase;

ParameterizedTestParameters(pjrt_hosts, one_process_is_one_host) {
    static HostCase cases[] = {
        {{"process_index", ""}, {1, 0}, ""},
        {{"num_nodes", "node_id"}, {4, 1}, ""},
        {{"", ""}, {0, 0}, "1"},
        {{"process_index", ""}, {1, 0}, "3"},  // an option says otherwise than the environment
    };
    return cr_make_param_array(HostCase, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(HostCase *param, pjrt_hosts, one_process_is_one_host) {
    PjrtNamedValue options[3] = {text_option("topology", "v5e-16")};
    size_t count = 1;
    for (int i = 0; i < 2; i++)
        if (*param->names[i]) options[count++] = number_option(param->names[i], param->values[i]);
    if (*param->environment) setenv("MESHLO_PROCESS_INDEX", param->environment, 1);
    PjrtClient *client;
    harness_must(create(options, count, &client), "Client_Create");
    PjrtClientProcessIndexArgs process = {.struct_size = sizeof(process), .client = client};
    harness_must(CALL(Client_ProcessIndex, &process), "ProcessIndex");
    cr_expect_eq(process.process_index, 1);
    PjrtClientDevicesArgs all = {.struct_size = sizeof(all), .client = client};
    harness_must(CALL(Client_Devices, &all), "Client_Devices");
    cr_assert_eq(all.num_devices, 16);
    PjrtClientAddressableDevicesArgs list = {.struct_size = sizeof(list), .client = client};
    harness_must(CALL(Client_AddressableDevices, &list), "AddressableDevices");
    cr_assert_eq(list.num_addressable_devices, 4);
    PjrtClientAddressableMemoriesArgs memories = {.struct_size = sizeof(memories), .client = client};
    harness_must(CALL(Client_AddressableMemories, &memories), "AddressableMemories");
    cr_expect_eq(memories.num_addressable_memories, 12);
    for (int i = 0; i < 16; i++) {
        PjrtDeviceIsAddressableArgs is = {.struct_size = sizeof(is), .device = all.devices[i]};
        harness_must(CALL(Device_IsAddressable, &is), "IsAddressable");
        cr_expect_eq(process_of(all.devices[i]), i / 4);
        cr_expect_eq(is.is_addressable, i / 4 == 1);
        cr_expect_eq(local_id(all.devices[i]), i / 4 == 1 ? i % 4 : -1);
        if (is.is_addressable) cr_expect_eq(list.addressable_devices[i % 4], all.devices[i]);
    }
    PjrtClientLookupAddressableDeviceArgs lookup = {
        .struct_size = sizeof(lookup), .client = client, .local_hardware_id = 3};
    harness_must(CALL(Client_LookupAddressableDevice, &lookup), "LookupAddressableDevice");
    cr_expect_eq(lookup.addressable_device, all.devices[7]);
    harness_destroy_client(client);
}

// Arrays on devices of others, and programs over them, are refused; programs of this host's devices run.
Test(pjrt_hosts, what_other_hosts_would_have_to_do_is_refused) {
    static const char add[] =
        "module @add attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
        "  func.func public @main(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<2x2xf32>\n    return %0 : tensor<2x2xf32>\n  }\n}\n";
    PjrtNamedValue options[2] = {text_option("topology", "v5e:2x4"), number_option("process_index", 0)};
    PjrtClient *client;
    harness_must(create(options, 2, &client), "Client_Create");
    PjrtClientDevicesArgs all = {.struct_size = sizeof(all), .client = client};
    harness_must(CALL(Client_Devices, &all), "Client_Devices");
    const float data[4] = {0, 1, 2, 3};
    const int64_t dims[2] = {2, 2};
    PjrtClientBufferFromHostBufferArgs put = {.struct_size = sizeof(put),
                                              .client = client,
                                              .data = data,
                                              .type = 11,
                                              .dims = dims,
                                              .num_dims = 2,
                                              .device = all.devices[5]};
    harness_refused(CALL(Client_BufferFromHostBuffer, &put), 3, "belongs to process 1; this is process 0");
    PjrtBuffer *buffer = harness_numbers(client, 1, 2, 2, 0);
    PjrtDeviceDefaultMemoryArgs memory = {.struct_size = sizeof(memory), .device = all.devices[5]};
    harness_must(CALL(Device_DefaultMemory, &memory), "DefaultMemory");
    PjrtBufferCopyToMemoryArgs copy = {.struct_size = sizeof(copy), .buffer = buffer, .dst_memory = memory.memory};
    harness_refused(CALL(Buffer_CopyToMemory, &copy), 3, "belongs to process 1");
    PjrtError *error;
    PjrtLoadedExecutable *wide = harness_compile(client, add, strlen(add), 8, &error);
    harness_must(error, "compile for all");
    PjrtLoadedExecutableAddressableDevicesArgs devices = {.struct_size = sizeof(devices), .executable = wide};
    harness_must(CALL(LoadedExecutable_AddressableDevices, &devices), "AddressableDevices");
    cr_expect_eq(devices.num_addressable_devices, 4);
    PjrtBuffer *const arguments[] = {buffer}, *result = NULL;
    PjrtBuffer *const *const argument_lists[] = {arguments, arguments, arguments, arguments};
    PjrtBuffer **const result_lists[] = {(PjrtBuffer **)&result, (PjrtBuffer **)&result, (PjrtBuffer **)&result,
                                         (PjrtBuffer **)&result};
    PjrtLoadedExecutableExecuteArgs execute = {.struct_size = sizeof(execute),
                                               .executable = wide,
                                               .argument_lists = argument_lists,
                                               .num_devices = 4,
                                               .num_args = 1,
                                               .output_lists = result_lists};
    harness_refused(CALL(LoadedExecutable_Execute, &execute), 12, "arrays cannot be exchanged between processes");
    harness_destroy_executable(wide);
    harness_destroy_buffer(buffer);
    harness_destroy_client(client);
}

// The device that it was compiled for is the first one, which is another process's.
Test(pjrt_hosts, bug_portable_programs_run_on_every_host) {
    static const char twice[] =
        "module @twice {\n  func.func public @main(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<2x2xf32>\n    return %0 : tensor<2x2xf32>\n  }\n}\n";
    PjrtNamedValue options[2] = {text_option("topology", "v5e:2x4"), number_option("process_index", 1)};
    PjrtClient *client;
    harness_must(create(options, 2, &client), "Client_Create");
    PjrtClientDevicesArgs all = {.struct_size = sizeof(all), .client = client};
    harness_must(CALL(Client_Devices, &all), "Client_Devices");
    // CompileOptionsProto {3: {4: 1, 5: 1}, 4: compile_portable_executable}
    const unsigned char portable[] = {0x1A, 4, 0x20, 1, 0x28, 1, 0x20, 1};
    PjrtProgram program = {.struct_size = sizeof(program),
                           .code = (char *)(uintptr_t)twice,
                           .code_size = strlen(twice),
                           .format = "mlir",
                           .format_size = 4};
    PjrtClientCompileArgs compile = {.struct_size = sizeof(compile),
                                     .client = client,
                                     .program = &program,
                                     .compile_options = (const char *)portable,
                                     .compile_options_size = sizeof(portable)};
    harness_must(CALL(Client_Compile, &compile), "Compile");
    PjrtBuffer *argument = harness_numbers(client, 5, 2, 2, 1), *result = NULL;
    harness_must(harness_launch(compile.executable, argument, NULL, all.devices[5], &result), "Execute");
    float numbers[4];
    harness_read(result, numbers, 4);
    cr_expect_eq(numbers[3], 8.0f);
    harness_destroy_buffer(result);
    harness_refused(harness_launch(compile.executable, argument, NULL, all.devices[0], &result), 12,
                    "cannot be exchanged");
    harness_destroy_buffer(argument);
    harness_destroy_executable(compile.executable);
    harness_destroy_client(client);
}

Test(pjrt_hosts, hosts_that_there_are_not_are_refused) {
    PjrtClient *client;
    PjrtNamedValue options[3] = {text_option("topology", "v5e-16"), number_option("process_index", 4)};
    harness_refused(create(options, 2, &client), 3, "process 4 is out of range: v5e-16 has 4 hosts");
    options[1] = number_option("process_index", -7);
    harness_refused(create(options, 2, &client), 3, "process -7");
    options[1] = number_option("num_nodes", 3);
    options[2] = number_option("node_id", 0);
    harness_refused(create(options, 3, &client), 3, "there are 3 processes, but v5e-16 has 4 hosts");
    options[1] = text_option("process_index", "one");
    harness_refused(create(options, 2, &client), 3, "process_index is not a number");
    setenv("MESHLO_PROCESS_INDEX", "first", 1);
    harness_refused(create(options, 1, &client), 3, "MESHLO_PROCESS_INDEX is 'first'");
}
