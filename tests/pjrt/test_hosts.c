// SPDX-License-Identifier: Apache-2.0
// Slices of several hosts through the C API: all of them in one process, or one process a host.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/pjrt/harness.h"
#include "tests/support/cases.h"

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

// The same host without the others, named in two ways.
typedef struct HostCase {
    char name[16];
    int64_t value;
    char environment[4];
} HostCase;

CaseList(pjrt_hosts, one_process_is_one_host) {
    static HostCase cases[] = {
        {"process_index", 1, ""},
        {"", 0, "1"},
        {"process_index", 1, "3"},  // an option says otherwise than the environment
    };
    return cr_make_param_array(HostCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(HostCase *param, pjrt_hosts, one_process_is_one_host) {
    PjrtNamedValue options[3] = {text_option("topology", "v5e-16")};
    size_t count = 1;
    if (*param->name) options[count++] = number_option(param->name, param->value);
    if (*param->environment)
        setenv("MESHLO_PROCESS_INDEX", param->environment, 1);
    else
        unsetenv("MESHLO_PROCESS_INDEX");  // of an earlier case
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
    harness_refused(harness_launch(compile.executable, argument, NULL, all.devices[0], &result), 3,
                    "belongs to process 0; this is process 1");
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
    harness_refused(create(options, 3, &client), 3, "jax.distributed has 3 processes, but v5e-16 has 4 hosts");
    // As many processes as hosts, but without a connection: each would be a slice of its own.
    options[1] = number_option("num_nodes", 4);
    harness_refused(create(options, 3, &client), 9, "jax.distributed has 4 processes, but nothing says how they reach");
    options[1] = text_option("process_index", "one");
    harness_refused(create(options, 2, &client), 3, "process_index is not a number");
    setenv("MESHLO_PROCESS_INDEX", "first", 1);
    harness_refused(create(options, 1, &client), 3, "MESHLO_PROCESS_INDEX is 'first'");
}

// ---- two processes, played by two threads, that only a key-value store of the caller's connects

typedef struct Entry {
    char key[128], value[256];
    size_t size;
} Entry;

// The store, as jaxlib passes it: values are put once, and getting one waits.
typedef struct Store {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Entry entries[64];
    int count;
} Store;

static Entry *find_entry(Store *store, const char *key, size_t size) {
    for (int i = 0; i < store->count; i++)
        if (strlen(store->entries[i].key) == size && memcmp(store->entries[i].key, key, size) == 0)
            return &store->entries[i];
    return NULL;
}

static PjrtError *put_value(PjrtKeyValuePutArgs *args) {
    Store *store = args->user_arg;
    pthread_mutex_lock(&store->lock);
    const bool exists = find_entry(store, args->key, args->key_size) != NULL;
    if (!exists && store->count < 64 && args->key_size < sizeof(store->entries[0].key) &&
        args->value_size <= sizeof(store->entries[0].value)) {
        Entry *entry = &store->entries[store->count++];
        memcpy(entry->key, args->key, args->key_size);
        memcpy(entry->value, args->value, args->value_size);
        entry->size = args->value_size;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->lock);
    return exists ? (*args->callback_error)(6, "it exists", 9) : NULL;
}

static void free_value(char *value) {
    free(value);
}

static PjrtError *get_value(PjrtKeyValueGetArgs *args) {
    Store *store = args->user_arg;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += args->timeout_in_ms / 1000 + 1;
    pthread_mutex_lock(&store->lock);
    const Entry *entry;
    int late = 0;
    while (!(entry = find_entry(store, args->key, args->key_size)) && !late)
        late = pthread_cond_timedwait(&store->changed, &store->lock, &end);
    if (entry) {
        args->value = malloc(entry->size + 1);
        memcpy(args->value, entry->value, entry->size);
        args->value_size = entry->size;
        args->value_deleter = free_value;
    }
    pthread_mutex_unlock(&store->lock);
    return entry ? NULL : (*args->callback_error)(4, "no one has put it", 17);
}

typedef struct Process {
    Store *store;
    int index;
    PjrtClient *client;
    PjrtError *error;
    float sums[4];
} Process;

static const char sum_of_all[] =
    "module @sum attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
    "  func.func public @main(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"
    "    %0 = \"stablehlo.custom_call\"(%arg0) {call_target_name = \"Sharding\", mhlo.sharding = \"{replicated}\"} : "
    "(tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    "    %1 = \"stablehlo.custom_call\"(%0) {call_target_name = \"SPMDFullToShardShape\", mhlo.sharding = "
    "\"{manual}\"} : (tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    "    %2 = \"stablehlo.all_reduce\"(%1) ({\n"
    "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
    "      %s = stablehlo.add %a, %b : tensor<f32>\n"
    "      stablehlo.return %s : tensor<f32>\n"
    "    }) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = "
    "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    "    %3 = \"stablehlo.custom_call\"(%2) {call_target_name = \"Sharding\", mhlo.sharding = \"{manual}\"} : "
    "(tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    "    %4 = \"stablehlo.custom_call\"(%3) {call_target_name = \"SPMDShardToFullShape\", mhlo.sharding = "
    "\"{replicated}\"} : (tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    "    return %4 : tensor<2x2xf32>\n  }\n}\n";

// What process `index` puts on its devices is multiplied by its number plus one.
static void run_sum(Process *process) {
    PjrtClientAddressableDevicesArgs local = {.struct_size = sizeof(local), .client = process->client};
    harness_must(CALL(Client_AddressableDevices, &local), "AddressableDevices");
    cr_assert_eq(local.num_addressable_devices, 4);
    PjrtError *error;
    PjrtLoadedExecutable *sum = harness_compile(process->client, sum_of_all, strlen(sum_of_all), 8, &error);
    harness_must(error, "compile");
    PjrtBuffer *buffers[4], *results[4] = {0};
    PjrtBuffer *const *arguments[4];
    PjrtBuffer **lists[4];
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(process_of(local.addressable_devices[i]), process->index);
        buffers[i] = harness_numbers(process->client, process->index * 4 + i, 2, 2, (float)process->index * 10);
        arguments[i] = &buffers[i];
        lists[i] = &results[i];
    }
    PjrtLoadedExecutableExecuteArgs execute = {.struct_size = sizeof(execute),
                                               .executable = sum,
                                               .argument_lists = arguments,
                                               .num_devices = 4,
                                               .num_args = 1,
                                               .output_lists = lists};
    harness_must(CALL(LoadedExecutable_Execute, &execute), "Execute");
    harness_read(results[3], process->sums, 4);
    for (int i = 0; i < 4; i++) {
        harness_destroy_buffer(results[i]);
        harness_destroy_buffer(buffers[i]);
    }
    harness_destroy_executable(sum);
}

static void *play(void *argument) {
    Process *process = argument;
    PjrtNamedValue options[3] = {text_option("topology", "v5e:2x4"), number_option("num_nodes", 2),
                                 number_option("node_id", process->index)};
    for (int round = 0; round < 2; round++) {  // a second client finds keys of its own
        PjrtClientCreateArgs args = {.struct_size = sizeof(args),
                                     .create_options = options,
                                     .num_options = 3,
                                     .kv_get_callback = get_value,
                                     .kv_get_user_arg = process->store,
                                     .kv_put_callback = put_value,
                                     .kv_put_user_arg = process->store};
        process->error = CALL(Client_Create, &args);
        if (process->error) return NULL;
        process->client = args.client;
        run_sum(process);
        harness_destroy_client(process->client);
    }
    return NULL;
}

Test(pjrt_hosts, a_store_connects_processes) {
    Store store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    Process processes[2] = {{.store = &store, .index = 0}, {.store = &store, .index = 1}};
    pthread_t threads[2];
    harness_api();
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, play, &processes[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        harness_must(processes[i].error, "Client_Create");
        cr_expect_eq(processes[i].sums[3], 4 * 3 + 4 * 13.0f);
    }
}

// The other one does not come.
Test(pjrt_hosts, a_process_that_does_not_come_is_named) {
    Store store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    Process process = {.store = &store, .index = 1};
    setenv("MESHLO_HOST_TIMEOUT", "0.2", 1);
    play(&process);
    harness_refused(process.error, 4, "process 0 of 2 (jax.distributed) did not join");
}
