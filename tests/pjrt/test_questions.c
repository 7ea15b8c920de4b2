// SPDX-License-Identifier: Apache-2.0
// The plugin's answers about clients, devices, memories, buffers and programs, as jaxlib asks: each is that of the
// thing that was asked about.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/text/text.h"
#include "pjrt/extensions.h"
#include "tests/pjrt/harness.h"

enum { kF32 = 11 };  // PJRT_Buffer_Type

// Asks function NAME for the fields of its argument struct; `args` is declared here.
#define ASK(NAME, Type, args, ...)                          \
    Type args = {.struct_size = sizeof(args), __VA_ARGS__}; \
    harness_must(CALL(NAME, &args), #NAME)

// A text with its size.
static void expect_text(const char *text, size_t size, const char *want) {
    cr_assert_not_null(text, "no text where %s was to come", want);
    cr_expect(size == strlen(want) && memcmp(text, want, size) == 0, "%.*s, not %s", (int)size, text, want);
}

Test(pjrt_questions, the_plugin) {
    harness_must(CALL(Plugin_Initialize, NULL), "Plugin_Initialize");
    ASK(Plugin_Attributes, PjrtPluginAttributesArgs, args, .attributes = NULL);
    static const char *const names[] = {"stablehlo_current_version", "stablehlo_minimum_version",
                                        "sdy_current_version"};
    cr_assert_eq(args.num_attributes, 3);
    for (size_t i = 0; i < 3; i++) {
        const PjrtNamedValue *value = &args.attributes[i];
        expect_text(value->name, value->name_size, names[i]);
        cr_expect_eq(value->type, PJRT_VALUE_INT64_LIST);
        cr_expect_eq(value->value_size, 3);
    }
    cr_expect_eq(args.attributes[0].value.numbers[0], 1);
}

Test(pjrt_questions, clients_and_devices) {
    PjrtClient *client = harness_client("2xv2-8");
    PjrtDevice *device = harness_device(client, 9);
    ASK(Client_PlatformVersion, PjrtClientPlatformVersionArgs, version, .client = client);
    cr_expect_eq(memcmp(version.platform_version, "meshlo", 6), 0);
    harness_must(CALL(Client_UpdateGlobalProcessInfo, NULL), "UpdateGlobalProcessInfo");
    ASK(Device_GetDescription, PjrtDeviceGetDescriptionArgs, of, .device = device);
    ASK(DeviceDescription_Kind, PjrtDeviceDescriptionKindArgs, kind, .device_description = of.device_description);
    expect_text(kind.device_kind, kind.device_kind_size, "TPU v2");
    ASK(DeviceDescription_DebugString, PjrtDeviceDescriptionDebugStringArgs, text,
        .device_description = of.device_description);
    cr_expect_not_null(strstr(text.debug_string, "(0,0,0,1)"), "%s", text.debug_string);
    // With several slices each device has the number of its slice.
    ASK(Device_GetAttributes, PjrtDeviceGetAttributesArgs, list, .device = device);
    bool sliced = false;
    for (size_t i = 0; i < list.num_attributes; i++)
        if (strcmp(list.attributes[i].name, "slice_index") == 0) sliced = list.attributes[i].value.number == 1;
    cr_expect(sliced);
    list.attributes_deleter(list.device_attributes);
    ASK(Device_CreateAsyncTrackingEvent, PjrtDeviceCreateAsyncTrackingEventArgs, tracking, .device = device,
        .description = "x", .description_size = 1);
    cr_expect_null(tracking.event);
    harness_must(CALL(AsyncTrackingEvent_Destroy, NULL), "AsyncTrackingEvent_Destroy");
    ASK(DeviceDescription_Id, PjrtDeviceDescriptionIdArgs, id, .device_description = of.device_description);
    ASK(Client_LookupDevice, PjrtClientLookupDeviceArgs, lookup, .client = client, .id = id.id);
    cr_expect_eq(lookup.device, device);
    harness_destroy_client(client);
}

// The peak falls back to the bytes in use.
Test(pjrt_questions, the_peak_of_memory_is_cleared) {
    PjrtClient *client = harness_client("v2-8");
    PjrtDevice *device = harness_device(client, 0);
    PjrtBuffer *kept = harness_numbers(client, 0, 8, 16, 0), *gone = harness_numbers(client, 0, 64, 128, 0);
    harness_destroy_buffer(gone);
    ASK(Device_MemoryStats, PjrtDeviceMemoryStatsArgs, before, .device = device);
    cr_expect_gt(before.peak_bytes_in_use, before.bytes_in_use);
    ASK(Device_ClearMemoryStats, PjrtDeviceClearMemoryStatsArgs, clear, .object = device);
    ASK(Device_MemoryStats, PjrtDeviceMemoryStatsArgs, after, .device = device);
    cr_expect_eq(after.peak_bytes_in_use, after.bytes_in_use);
    cr_expect_eq(after.bytes_in_use, before.bytes_in_use);
    harness_destroy_buffer(kept);
    harness_destroy_client(client);
}

Test(pjrt_questions, memories) {
    PjrtClient *client = harness_client("v2-8");
    PjrtDevice *device = harness_device(client, 3);
    PjrtBuffer *buffer = harness_numbers(client, 3, 2, 2, 0);
    ASK(Device_AddressableMemories, PjrtDeviceAddressableMemoriesArgs, all, .device = device);
    cr_assert_eq(all.num_memories, 3);
    for (size_t i = 0; i < all.num_memories; i++) {
        PjrtMemory *memory = all.memories[i];
        ASK(Memory_Id, PjrtMemoryIdArgs, id, .memory = memory);
        ASK(Memory_Kind_Id, PjrtMemoryKindIdArgs, kind, .memory = memory);
        ASK(Memory_DebugString, PjrtMemoryDebugStringArgs, debug, .memory = memory);
        ASK(Memory_ToString, PjrtMemoryToStringArgs, text, .memory = memory);
        ASK(Memory_AddressableByDevices, PjrtMemoryAddressableByDevicesArgs, by, .memory = memory);
        cr_expect_eq(kind.kind_id, (int32_t)i);
        cr_expect_eq(id.id, 3 * 3 + (int32_t)i, "id %d of memory %zu of device 3", id.id, i);
        expect_text(text.to_string, text.to_string_size, debug.debug_string);
        cr_expect_eq(by.num_devices, 1);
        cr_expect_eq(by.devices[0], device);
    }
    ASK(Device_DefaultMemory, PjrtDeviceDefaultMemoryArgs, first, .device = device);
    ASK(Buffer_Memory, PjrtBufferMemoryArgs, of, .buffer = buffer);
    cr_expect_eq(of.memory, first.memory);
    harness_destroy_buffer(buffer);
    harness_destroy_client(client);
}

Test(pjrt_questions, buffers) {
    PjrtClient *client = harness_client("v2-8");
    PjrtBuffer *buffer = harness_numbers(client, 0, 2, 3, 7);
    ASK(Buffer_ElementType, PjrtBufferElementTypeArgs, type, .buffer = buffer);
    cr_expect_eq(type.type, kF32);
    ASK(Buffer_Dimensions, PjrtBufferDimensionsArgs, dims, .buffer = buffer);
    cr_assert_eq(dims.num_dims, 2);
    cr_expect(dims.dims[0] == 2 && dims.dims[1] == 3);
    ASK(Buffer_UnpaddedDimensions, PjrtBufferUnpaddedDimensionsArgs, unpadded, .buffer = buffer);
    cr_assert_eq(unpadded.num_dims, 2);
    cr_expect(unpadded.unpadded_dims[0] == 2 && unpadded.unpadded_dims[1] == 3);
    ASK(Buffer_DynamicDimensionIndices, PjrtBufferDynamicDimensionIndicesArgs, dynamic, .buffer = buffer);
    cr_expect_eq(dynamic.num_dynamic_dims, 0);
    ASK(Buffer_IsOnCpu, PjrtBufferIsOnCpuArgs, on_cpu, .buffer = buffer);
    cr_expect_not(on_cpu.is_on_cpu);
    ASK(Buffer_OpaqueDeviceMemoryDataPointer, PjrtBufferOpaqueDeviceMemoryDataPointerArgs, data, .buffer = buffer);
    cr_expect_eq(((const float *)data.device_memory_ptr)[5], 12);
    // While the address is held, a donation cannot take the memory over.
    ASK(Buffer_IncreaseExternalReferenceCount, PjrtBufferIncreaseExternalReferenceCountArgs, hold, .object = buffer);
    ASK(Buffer_DecreaseExternalReferenceCount, PjrtBufferDecreaseExternalReferenceCountArgs, drop, .object = buffer);
    harness_destroy_buffer(buffer);
    harness_destroy_client(client);
}

static const char kTwo[] =
    "HloModule two, num_partitions=2, entry_computation_layout={(f32[4]{0}, f32[8]{0:S(5)})->(f32[4]{0}, s32[4]{0})}\n"
    "ENTRY e {\n p = f32[4] parameter(0), sharding={devices=[2]0,1}\n q = f32[8] parameter(1), sharding={replicated}\n"
    " a = f32[4] negate(p)\n b = s32[4] convert(p)\n"
    " ROOT r = (f32[4], s32[4]) tuple(a, b), sharding={{devices=[2]0,1}, {replicated}}\n}\n";

Test(pjrt_questions, executables) {
    PjrtClient *client = harness_client("v2-8");
    HloModule *module = NULL;
    HloText bytes = {0};
    cr_assert_null(hlo_parse(kTwo, sizeof(kTwo) - 1, NULL, &module));
    cr_assert_null(hlo_module_to_proto(module, &bytes));
    PjrtError *error;
    PjrtLoadedExecutable *loaded = harness_compile_as(client, bytes.data, bytes.length, "hlo", 2, &error);
    harness_must(error, "compile");
    ASK(LoadedExecutable_GetExecutable, PjrtLoadedExecutableGetExecutableArgs, get, .loaded_executable = loaded);
    PjrtExecutable *executable = get.executable;
    ASK(Executable_Name, PjrtExecutableNameArgs, name, .executable = executable);
    expect_text(name.executable_name, name.executable_name_size, "two");
    ASK(Executable_NumReplicas, PjrtExecutableNumReplicasArgs, replicas, .executable = executable);
    cr_expect_eq(replicas.num_replicas, 1);
    ASK(Executable_NumPartitions, PjrtExecutableNumPartitionsArgs, partitions, .executable = executable);
    cr_expect_eq(partitions.num_partitions, 2);
    ASK(Executable_NumOutputs, PjrtExecutableNumOutputsArgs, outputs, .executable = executable);
    cr_expect_eq(outputs.num_outputs, 2);
    ASK(Executable_SizeOfGeneratedCodeInBytes, PjrtExecutableSizeOfGeneratedCodeInBytesArgs, code,
        .executable = executable);
    cr_expect_geq(code.size_in_bytes, 0);
    ASK(Executable_OutputElementTypes, PjrtExecutableOutputElementTypesArgs, types, .executable = executable);
    cr_assert_eq(types.num_output_types, 2);
    cr_expect_eq(types.output_types[0], kF32);
    ASK(Executable_ParameterMemoryKinds, PjrtExecutableParameterMemoryKindsArgs, kinds, .executable = executable);
    cr_assert_eq(kinds.num_parameters, 2);
    expect_text(kinds.memory_kinds[0], kinds.memory_kind_sizes[0], "device");
    ASK(Executable_Fingerprint, PjrtExecutableFingerprintArgs, print, .executable = executable);
    cr_expect_gt(print.executable_fingerprint_size, 0);
    ASK(LoadedExecutable_AddressableDeviceLogicalIds, PjrtLoadedExecutableAddressableDeviceLogicalIdsArgs, ids,
        .executable = loaded);
    cr_assert_eq(ids.num_addressable_device_logical_ids, 2);
    cr_expect_eq(ids.addressable_device_logical_ids[1].partition, 1);
    PjrtShardingsExtension *extension = (PjrtShardingsExtension *)(void *)harness_extension(PJRT_EXTENSION_SHARDINGS);
    PjrtShardingsArgs shardings = {.struct_size = sizeof(shardings), .executable = executable};
    harness_must(extension->parameters(&shardings), "parameters");
    cr_assert_eq(shardings.count, 2);
    cr_expect_gt(shardings.sharding_sizes[0], shardings.sharding_sizes[1]);
    harness_must(extension->outputs(&shardings), "outputs");
    cr_assert_eq(shardings.count, 2);
    ASK(Executable_Destroy, PjrtExecutableDestroyArgs, destroy, .object = executable);
    harness_destroy_executable(loaded);
    harness_destroy_client(client);
    hlo_text_free(&bytes);
    hlo_module_free(module);
}

// The options that the real runtime takes beside a name are parts of our name for the machine.
Test(pjrt_questions, topologies) {
    static const int64_t rings[] = {1, 0, 1}, none[] = {0, 0, 0};
    PjrtNamedValue options[] = {{.struct_size = sizeof(options[0]),
                                 .name = "num_slices",
                                 .name_size = 10,
                                 .type = PJRT_VALUE_INT64,
                                 .value.number = 2,
                                 .value_size = 1},
                                {.struct_size = sizeof(options[0]),
                                 .name = "wrap",
                                 .name_size = 4,
                                 .type = PJRT_VALUE_INT64_LIST,
                                 .value.numbers = rings,
                                 .value_size = 3}};
    for (int i = 0; i < 2; i++) {
        options[1].value.numbers = i ? none : rings;
        ASK(TopologyDescription_Create, PjrtTopologyDescriptionCreateArgs, create, .topology_name = "v4:2x2x2",
            .topology_name_size = 8, .create_options = options, .num_options = 2);
        ASK(TopologyDescription_PlatformName, PjrtTopologyDescriptionPlatformNameArgs, name,
            .topology = create.topology);
        expect_text(name.platform_name, name.platform_name_size, "tpu");
        ASK(TopologyDescription_PlatformVersion, PjrtTopologyDescriptionPlatformVersionArgs, version,
            .topology = create.topology);
        cr_expect_eq(memcmp(version.platform_version, "meshlo", 6), 0);
        ASK(TopologyDescription_GetDeviceDescriptions, PjrtTopologyDescriptionGetDeviceDescriptionsArgs, list,
            .topology = create.topology);
        cr_expect_eq(list.num_descriptions, 32, "%zu devices", list.num_descriptions);
        ASK(TopologyDescription_Attributes, PjrtTopologyDescriptionAttributesArgs, attributes,
            .topology = create.topology);
        cr_expect_eq(attributes.num_attributes, 0);
        PjrtTopologyDescriptionDestroyArgs destroy = {.struct_size = sizeof(destroy), .object = create.topology};
        harness_must(CALL(TopologyDescription_Destroy, &destroy), "Destroy");
    }
}

// jaxlib asks each error for payloads, by the table and by the error's own functions.
Test(pjrt_questions, errors_have_no_payloads) {
    PjrtNamedValue option = {
        .struct_size = sizeof(option), .name = "topology", .name_size = 8, .type = PJRT_VALUE_STRING, .value_size = 4};
    option.value.string = "v2-9";
    PjrtClientCreateArgs args = {.struct_size = sizeof(args), .create_options = &option, .num_options = 1};
    PjrtError *error = CALL(Client_Create, &args);
    cr_assert_not_null(error);

    cr_expect_null(CALL(Error_ForEachPayload, NULL));
    const PjrtErrorFunctionTable *table = *(const PjrtErrorFunctionTable *const *)(const void *)error;
    cr_expect_null(table->for_each_payload(NULL));
    harness_refused(error, 3, "v2-9");
}
