// SPDX-License-Identifier: Apache-2.0
// Clients, devices, memories and topologies.
// Handles of devices and memories are made with the client, in arrays, and live as long as it does: callers compare
// their addresses. Several processes may play the hosts of one slice (hosts.c); then all devices are listed, and some
// of them are not addressable.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pjrt/objects.h"

// ---- attributes

// `name` must be static: the attribute keeps its address.
static PjrtNamedValue number_value(const char *name, int64_t number) {
    assert(name);
    PjrtNamedValue value = {.struct_size = sizeof(value),
                            .name = name,
                            .name_size = strlen(name),
                            .type = PJRT_VALUE_INT64,
                            .value_size = 1};
    value.value.number = number;
    return value;
}

void pjrt_describe_device(PjrtDeviceDescription *description, const TargetDevice *device, bool several_slices) {
    assert(description && device);
    description->device = device;
    description->attribute_count = 0;
    if (!device->has_coords) return;
    PjrtNamedValue coords = {.struct_size = sizeof(coords),
                             .name = "coords",
                             .name_size = 6,
                             .type = PJRT_VALUE_INT64_LIST,
                             .value_size = 3};
    coords.value.numbers = device->coords;
    description->attributes[description->attribute_count++] = coords;
    description->attributes[description->attribute_count++] = number_value("core_on_chip", device->core_on_chip);
    description->attributes[description->attribute_count++] = number_value("num_cores", 1);
    // Frameworks take more than one value of slice_index for several slices, and its absence for one.
    if (several_slices) {
        description->attributes[description->attribute_count++] = number_value("slice_index", device->slice_index);
    }
}

// The last device is in the last slice.
bool pjrt_has_several_slices(const TargetClient *client) {
    int64_t count = target_client_device_count(client);
    return count &&
           target_client_device(client, count - 1)->slice_index != target_client_device(client, 0)->slice_index;
}

// ---- making and unmaking

// Arrays, buffers and executables hold references to the client below, so it may live on when the handle has gone.
// Also of a client that is only half made.
static void free_client(PjrtClient *client) {
    hlo_free(client->topology.descriptions);
    for (size_t i = 0; client->devices && i < client->device_count; i++) hlo_free(client->devices[i].memories);
    hlo_free(client->devices);
    hlo_free(client->device_list);
    hlo_free(client->memories);
    hlo_free(client->memory_list);
    hlo_text_free(&client->platform_version);
    target_client_release(client->client);
    hlo_free(client);
}

// False when memory is short; free_client() frees what exists.
static bool allocate_lists(PjrtClient *client) {
    size_t devices = client->device_count, memories = client->memory_count;
    client->devices = hlo_allocate_zeroed(devices, sizeof(*client->devices));
    client->device_list = hlo_allocate_zeroed(devices, sizeof(*client->device_list));
    client->memories = hlo_allocate_zeroed(memories, sizeof(*client->memories));
    client->memory_list = hlo_allocate_zeroed(memories, sizeof(*client->memory_list));
    client->topology.descriptions = hlo_allocate_zeroed(devices, sizeof(*client->topology.descriptions));
    return client->devices && client->device_list && client->memories && client->memory_list &&
           client->topology.descriptions;
}

// Memories are numbered through all devices; *next_memory is the first free number.
static bool fill_device(PjrtClient *client, size_t index, size_t *next_memory, bool several_slices) {
    PjrtDevice *device = &client->devices[index];
    device->device = target_client_device(client->client, (int64_t)index);
    device->client = client;
    device->memory_count = (size_t)device->device->memory_count;
    device->memories = hlo_allocate_zeroed(device->memory_count, sizeof(*device->memories));
    if (!device->memories) return false;
    pjrt_describe_device(&device->description, device->device, several_slices);
    for (size_t i = 0; i < device->memory_count; i++) {
        PjrtMemory *memory = &client->memories[*next_memory];
        *memory = (PjrtMemory){.memory = device->device->memories[i], .device = device, .id = (int32_t)*next_memory};
        client->memory_list[(*next_memory)++] = memory;
        device->memories[i] = memory;
    }
    client->device_list[index] = device;
    client->topology.descriptions[index] = &device->description;
    return true;
}

// All objects that the C API hands out addresses of are made here once, in arrays: clients compare those addresses, and
// devices have the same one in every list.
// After it the order of devices, and of memories device by device, never changes.
static HloStatus make_client(const PjrtClientCreateArgs *args, const char *spec, PjrtClient **result) {
    assert(spec && result);
    PjrtClient *client = hlo_allocate_zeroed(1, sizeof(*client));
    HLO_FAIL_IF(!client, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = pjrt_join(args, spec, client);
    if (status) {
        target_client_release(client->client);
        hlo_free(client);
        return status;
    }
    client->device_count = (size_t)target_client_device_count(client->client);
    for (size_t i = 0; i < client->device_count; i++) {
        client->memory_count += (size_t)target_client_device(client->client, (int64_t)i)->memory_count;
    }
    bool whole = allocate_lists(client);
    size_t next_memory = 0;
    bool several_slices = pjrt_has_several_slices(client->client);
    for (size_t i = 0; whole && i < client->device_count; i++) {
        whole = fill_device(client, i, &next_memory, several_slices);
    }
    if (whole) pjrt_choose_local(client);
    client->topology.client = client->client;
    client->topology.count = client->device_count;
    hlo_text_format(&client->platform_version, "meshlo %s", target_client_platform_version(client->client));
    if (!whole || client->platform_version.failed) {
        free_client(client);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    *result = client;
    return HLO_SUCCESS;
}

HloStatus pjrt_read_option(const PjrtNamedValue *options, size_t count, const char *name, char *text, size_t size) {
    assert(name && text && size > 0);
    for (size_t i = 0; i < count; i++) {
        const PjrtNamedValue *option = &options[i];
        if (option->name_size != strlen(name) || memcmp(option->name, name, option->name_size) != 0) continue;
        HLO_FAIL_IF(option->type != PJRT_VALUE_STRING, HLO_INVALID_ARGUMENT, "the option %s is not a string", name);
        HLO_FAIL_IF(option->value_size >= size, HLO_INVALID_ARGUMENT, "the option %s is too long", name);
        memcpy(text, option->value.string, option->value_size);
        text[option->value_size] = 0;
    }
    return HLO_SUCCESS;
}

// The option `topology` of Client_Create, else the environment, else the eight cores of a TPU v2 host. The caller
// provides the buffer for the spec; a name that does not fit is refused rather than truncated.
HloStatus pjrt_choose_spec(const PjrtNamedValue *options, size_t count, char *spec, size_t size) {
    const char *environment = getenv("MESHLO_TOPOLOGY");
    const char *chosen = environment && *environment ? environment : "v2-8";
    HLO_FAIL_IF(strlen(chosen) >= size, HLO_INVALID_ARGUMENT, "MESHLO_TOPOLOGY is too long");
    memcpy(spec, chosen, strlen(chosen) + 1);
    return pjrt_read_option(options, count, "topology", spec, size);
}

const char *pjrt_platform_name(const PjrtTopology *topology) {
    return *topology->platform ? topology->platform : target_client_platform(topology->client);
}

// The option `numerics` overrides MESHLO_NUMERICS.
static HloStatus choose_numerics(const PjrtNamedValue *options, size_t count, TargetClient *client) {
    char text[8] = "";
    HLO_TRY(pjrt_read_option(options, count, "numerics", text, sizeof(text)));
    TargetNumerics numerics;
    HLO_TRY(target_numerics_parse(text, "the option numerics", &numerics));
    if (numerics != TARGET_NUMERICS_DEFAULT) target_client_set_numerics(client, numerics);
    return HLO_SUCCESS;
}

// Options that determine the client are read before it is made, the others after it.
static HloStatus make_chosen_client(const PjrtClientCreateArgs *args, PjrtClient **result) {
    const PjrtNamedValue *options = args->create_options;
    const size_t count = args->num_options;
    char spec[1024], platform[sizeof((*result)->topology.platform)] = "";
    HLO_TRY(pjrt_choose_spec(options, count, spec, sizeof(spec)));
    HLO_TRY(pjrt_read_option(options, count, "platform", platform, sizeof(platform)));
    HLO_TRY(make_client(args, spec, result));
    memcpy((*result)->topology.platform, platform, sizeof(platform));
    HloStatus status = choose_numerics(options, count, (*result)->client);
    if (!status) return HLO_SUCCESS;
    free_client(*result);
    *result = NULL;
    return status;
}

PjrtError *pjrt_client_create(void *arguments) {
    PjrtClientCreateArgs *args = arguments;
    PJRT_CHECK_SIZE(args, client);
    return pjrt_error_from(make_chosen_client(args, &args->client));
}

PjrtError *pjrt_client_destroy(void *arguments) {
    PjrtClientDestroyArgs *args = arguments;
    if (args->object) free_client(args->object);
    return NULL;
}

// Both lists have the same order.
PjrtDevice *pjrt_device_of(PjrtClient *client, const TargetDevice *device) {
    return &client->devices[device->index];
}

// By address: both sides have one object a memory.
PjrtMemory *pjrt_memory_of(PjrtClient *client, const TargetMemory *memory) {
    PjrtDevice *device = pjrt_device_of(client, memory->device);
    for (size_t i = 0; i < device->memory_count; i++) {
        if (device->memories[i]->memory == memory) return device->memories[i];
    }
    return device->memories[0];
}

// ---- clients

PjrtError *pjrt_client_platform_name(void *arguments) {
    PjrtClientPlatformNameArgs *args = arguments;
    args->platform_name = pjrt_platform_name(&args->client->topology);
    args->platform_name_size = strlen(args->platform_name);
    return NULL;
}

PjrtError *pjrt_client_platform_version(void *arguments) {
    PjrtClientPlatformVersionArgs *args = arguments;
    args->platform_version = args->client->platform_version.data;
    args->platform_version_size = args->client->platform_version.length;
    return NULL;
}

PjrtError *pjrt_client_process_index(void *arguments) {
    PjrtClientProcessIndexArgs *args = arguments;
    args->process_index = args->client->process_index;
    return NULL;
}

PjrtError *pjrt_client_devices(void *arguments) {
    PjrtClientDevicesArgs *args = arguments;
    args->devices = args->client->device_list;
    args->num_devices = args->client->device_count;
    return NULL;
}

PjrtError *pjrt_client_addressable_devices(void *arguments) {
    PjrtClientAddressableDevicesArgs *args = arguments;
    args->addressable_devices = args->client->device_list + args->client->first_local;
    args->num_addressable_devices = args->client->local_count;
    return NULL;
}

// By the global id, also of a device that belongs to another process.
PjrtError *pjrt_client_lookup_device(void *arguments) {
    PjrtClientLookupDeviceArgs *args = arguments;
    TargetDevice *device = target_client_find_device(args->client->client, args->id);
    if (!device) return pjrt_fail(HLO_INVALID_ARGUMENT, "there is no device with id %d", args->id);
    args->device = pjrt_device_of(args->client, device);
    return NULL;
}

// Only among this process's devices: local numbers repeat from host to host.
PjrtError *pjrt_client_lookup_addressable_device(void *arguments) {
    PjrtClientLookupAddressableDeviceArgs *args = arguments;
    const PjrtClient *client = args->client;
    for (size_t i = client->first_local; i < client->first_local + client->local_count; i++) {
        if (client->devices[i].device->local_hardware_id != args->local_hardware_id) continue;
        args->addressable_device = client->device_list[i];
        return NULL;
    }
    return pjrt_fail(HLO_INVALID_ARGUMENT, "there is no device with local hardware id %d", args->local_hardware_id);
}

PjrtError *pjrt_client_addressable_memories(void *arguments) {
    PjrtClientAddressableMemoriesArgs *args = arguments;
    args->addressable_memories = args->client->memory_list + args->client->first_memory;
    args->num_addressable_memories = args->client->local_memories;
    return NULL;
}

PjrtError *pjrt_client_topology_description(void *arguments) {
    PjrtClientTopologyDescriptionArgs *args = arguments;
    args->topology = &args->client->topology;
    return NULL;
}

// Replica-major, one device id for each partition. Ids are in list order, not in that of make_mesh: frameworks that
// need meshes send their own assignments. The product of two int32 fits in 64 bits.
PjrtError *pjrt_client_default_device_assignment(void *arguments) {
    PjrtClientDefaultDeviceAssignmentArgs *args = arguments;
    int64_t count = (int64_t)args->num_replicas * args->num_partitions;
    if (args->num_replicas < 1 || args->num_partitions < 1 || count > (int64_t)args->client->device_count) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "%d replicas of %d partitions need more than the available %zu devices",
                         args->num_replicas, args->num_partitions, args->client->device_count);
    }
    if ((int64_t)args->default_assignment_size < count) {
        return pjrt_fail(HLO_INVALID_ARGUMENT, "there is room for %zu of %lld device ids",
                         args->default_assignment_size, (long long)count);
    }
    // This process's devices if they are enough.
    const int64_t first = count <= (int64_t)args->client->local_count ? (int64_t)args->client->first_local : 0;
    for (int64_t i = 0; i < count; i++) {
        args->default_assignment[i] = (int32_t)target_client_device(args->client->client, first + i)->id;
    }
    return NULL;
}

// Nothing here depends on which processes are up.
PjrtError *pjrt_client_update_global_process_info(void *arguments) {
    (void)arguments;
    return NULL;
}

// ---- device descriptions

PjrtError *pjrt_device_description_id(void *arguments) {
    PjrtDeviceDescriptionIdArgs *args = arguments;
    args->id = (int32_t)args->device_description->device->id;
    return NULL;
}

PjrtError *pjrt_device_description_process_index(void *arguments) {
    PjrtDeviceDescriptionProcessIndexArgs *args = arguments;
    args->process_index = (int32_t)args->device_description->device->process_index;
    return NULL;
}

PjrtError *pjrt_device_description_attributes(void *arguments) {
    PjrtDeviceDescriptionAttributesArgs *args = arguments;
    args->attributes = args->device_description->attributes;
    args->num_attributes = args->device_description->attribute_count;
    return NULL;
}

// "TPU v4" and so on: what libraries choose their kernels by.
PjrtError *pjrt_device_description_kind(void *arguments) {
    PjrtDeviceDescriptionKindArgs *args = arguments;
    args->device_kind = args->device_description->device->kind;
    args->device_kind_size = strlen(args->device_kind);
    return NULL;
}

// The long form, with coordinates.
PjrtError *pjrt_device_description_debug_string(void *arguments) {
    PjrtDeviceDescriptionDebugStringArgs *args = arguments;
    args->debug_string = args->device_description->device->debug_text;
    args->debug_string_size = strlen(args->debug_string);
    return NULL;
}

// As JAX prints a device.
PjrtError *pjrt_device_description_to_string(void *arguments) {
    PjrtDeviceDescriptionToStringArgs *args = arguments;
    args->to_string = args->device_description->device->text;
    args->to_string_size = strlen(args->to_string);
    return NULL;
}

// ---- devices

PjrtError *pjrt_device_get_description(void *arguments) {
    PjrtDeviceGetDescriptionArgs *args = arguments;
    args->device_description = &args->device->description;
    return NULL;
}

PjrtError *pjrt_device_is_addressable(void *arguments) {
    PjrtDeviceIsAddressableArgs *args = arguments;
    args->is_addressable = pjrt_is_local(args->device);
    return NULL;
}

// -1 for a device of another process.
PjrtError *pjrt_device_local_hardware_id(void *arguments) {
    PjrtDeviceLocalHardwareIdArgs *args = arguments;
    args->local_hardware_id = pjrt_is_local(args->device) ? (int32_t)args->device->device->local_hardware_id : -1;
    return NULL;
}

PjrtError *pjrt_device_addressable_memories(void *arguments) {
    PjrtDeviceAddressableMemoriesArgs *args = arguments;
    args->memories = args->device->memories;
    args->num_memories = pjrt_is_local(args->device) ? args->device->memory_count : 0;
    return NULL;
}

// The first of its memories is the device's own (HBM).
PjrtError *pjrt_device_default_memory(void *arguments) {
    PjrtDeviceDefaultMemoryArgs *args = arguments;
    args->memory = args->device->memories[0];
    return NULL;
}

// The caller's struct is not zeroed: every flag within its size is written. bytes_limit is that of the emulated HBM;
// the share of the host's memory is what could really be reserved.
PjrtError *pjrt_device_memory_stats(void *arguments) {
    PjrtDeviceMemoryStatsArgs *args = arguments;
    TargetMemoryStatistics statistics;
    target_device_memory_statistics(args->device->device, &statistics);
    size_t known = args->struct_size < sizeof(*args) ? args->struct_size : sizeof(*args);
    size_t first = offsetof(PjrtDeviceMemoryStatsArgs, bytes_in_use);
    if (known > first) memset((char *)args + first, 0, known - first);
    args->bytes_in_use = statistics.bytes_in_use;
    args->peak_bytes_in_use = statistics.peak_bytes_in_use;
    args->peak_bytes_in_use_is_set = true;
    args->num_allocs = statistics.allocation_count;
    args->num_allocs_is_set = true;
    args->largest_alloc_size = statistics.largest_allocation;
    args->largest_alloc_size_is_set = true;
    args->bytes_limit = statistics.bytes_limit;
    args->bytes_limit_is_set = statistics.bytes_limit > 0;
    if (PJRT_HAS(args, bytes_reservable_limit_is_set)) {
        // What this host can really provide for each device, if that is less than the emulated memory.
        const int64_t host = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
        const int64_t share = host / 2 / (int64_t)args->device->client->device_count;
        const bool limited = statistics.bytes_limit > 0 && statistics.bytes_limit < share;
        args->bytes_reservable_limit = limited ? statistics.bytes_limit : share;
        args->bytes_reservable_limit_is_set = true;
    }
    return NULL;
}

PjrtError *pjrt_device_clear_memory_stats(void *arguments) {
    PjrtDeviceClearMemoryStatsArgs *args = arguments;
    target_device_memory_statistics_clear(args->object->device);
    return NULL;
}

static void free_nothing(void *object) {
    (void)object;
}

PjrtError *pjrt_device_get_attributes(void *arguments) {
    PjrtDeviceGetAttributesArgs *args = arguments;
    args->attributes = args->device->description.attributes;
    args->num_attributes = args->device->description.attribute_count;
    args->device_attributes = NULL;
    args->attributes_deleter = free_nothing;
    return NULL;
}

// No tracking: a NULL event is allowed.
PjrtError *pjrt_device_create_async_tracking_event(void *arguments) {
    PjrtDeviceCreateAsyncTrackingEventArgs *args = arguments;
    args->event = NULL;
    return NULL;
}

PjrtError *pjrt_async_tracking_event_destroy(void *arguments) {
    (void)arguments;
    return NULL;
}

// ---- memories

PjrtError *pjrt_memory_id(void *arguments) {
    PjrtMemoryIdArgs *args = arguments;
    args->id = args->memory->id;
    return NULL;
}

PjrtError *pjrt_memory_kind(void *arguments) {
    PjrtMemoryKindArgs *args = arguments;
    args->kind = args->memory->memory->kind;
    args->kind_size = strlen(args->kind);
    return NULL;
}

PjrtError *pjrt_memory_kind_id(void *arguments) {
    PjrtMemoryKindIdArgs *args = arguments;
    args->kind_id = (int32_t)args->memory->memory->kind_id;
    return NULL;
}

PjrtError *pjrt_memory_debug_string(void *arguments) {
    PjrtMemoryDebugStringArgs *args = arguments;
    args->debug_string = args->memory->memory->text;
    args->debug_string_size = strlen(args->debug_string);
    return NULL;
}

PjrtError *pjrt_memory_to_string(void *arguments) {
    PjrtMemoryToStringArgs *args = arguments;
    args->to_string = args->memory->memory->text;
    args->to_string_size = strlen(args->to_string);
    return NULL;
}

// Each memory is reached by its own device only, host memories too: that is how TPU clients list them.
PjrtError *pjrt_memory_addressable_by_devices(void *arguments) {
    PjrtMemoryAddressableByDevicesArgs *args = arguments;
    args->devices = &args->memory->device->client->device_list[args->memory->device->device->index];
    args->num_devices = 1;
    return NULL;
}
