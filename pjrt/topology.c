// SPDX-License-Identifier: Apache-2.0
// Topologies: the devices of a machine that need not exist. An ahead-of-time topology owns a client of its own, whose
// machine is never used: it answers queries about devices, layouts and memories, and programs are compiled for it.
#include <string.h>

#include "hlo/base/map.h"
#include "hlo/proto/parts.h"
#include "pjrt/abi_transfer.h"
#include "pjrt/objects.h"

// Descriptions are in one block, whose address is that of the first one. The client has a pool of workers that never
// starts a thread, as nothing runs on it.
static HloStatus make_topology(const char *spec, PjrtTopology **result) {
    PjrtTopology *topology = hlo_allocate_zeroed(1, sizeof(*topology));
    HLO_FAIL_IF(!topology, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = target_client_new(spec, &topology->client);
    size_t count = status ? 0 : (size_t)target_client_device_count(topology->client);
    topology->descriptions = hlo_allocate_zeroed(count, sizeof(*topology->descriptions));
    PjrtDeviceDescription *all = hlo_allocate_zeroed(count, sizeof(*all));
    if (status || !topology->descriptions || !all) {
        hlo_free(topology->descriptions);
        hlo_free(all);
        if (!status) target_client_release(topology->client);
        hlo_free(topology);
        return status ? status : hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    bool several_slices = pjrt_has_several_slices(topology->client);
    for (size_t i = 0; i < count; i++) {
        pjrt_describe_device(&all[i], target_client_device(topology->client, (int64_t)i), several_slices);
        topology->descriptions[i] = &all[i];
    }
    topology->count = count;
    topology->owned = true;
    *result = topology;
    return HLO_SUCCESS;
}

// ---- the options that the real runtime takes beside a name, as options of our names

static const PjrtNamedValue *find_option(const PjrtTopologyDescriptionCreateArgs *args, const char *name) {
    for (size_t i = 0; i < args->num_options; i++) {
        const PjrtNamedValue *option = &args->create_options[i];
        if (option->name_size == strlen(name) && memcmp(option->name, name, option->name_size) == 0) return option;
    }
    return NULL;
}

// chips_per_host_bounds: chips along x, y, z.
// Bounds that are not given count as 1.
static HloStatus append_hosts(const PjrtNamedValue *option, HloText *spec) {
    if (!option) return HLO_SUCCESS;
    HLO_FAIL_IF(option->type != PJRT_VALUE_INT64_LIST || option->value_size < 1 || option->value_size > 3,
                HLO_INVALID_ARGUMENT, "chips_per_host_bounds is not a list of up to three numbers");
    for (size_t i = 0; i < 3; i++)
        hlo_text_format(spec, "%s%lld",
                        i ? "x" : ",hosts=", i < option->value_size ? (long long)option->value.numbers[i] : 1LL);
    return HLO_SUCCESS;
}

// wrap: whether each axis closes to a ring.
// "none" and not nothing when all are false: left out, the machine's own wrapping would count.
static HloStatus append_wrap(const PjrtNamedValue *option, HloText *spec) {
    if (!option) return HLO_SUCCESS;
    HLO_FAIL_IF(option->type != PJRT_VALUE_INT64_LIST || option->value_size > 3, HLO_INVALID_ARGUMENT,
                "wrap is not a list of up to three booleans");
    const size_t mark = spec->length;
    hlo_text_string(spec, ",wrap=");
    bool any = false;
    for (size_t i = 0; i < option->value_size; i++) {
        if (!option->value.numbers[i]) continue;
        hlo_text_format(spec, "%c", "xyz"[i]);
        any = true;
    }
    if (!any && spec->length > mark) hlo_text_string(spec, "none");
    return HLO_SUCCESS;
}

// chip_config_name: the runtime's own default makes a device of each core of a v4 chip; machines are set up otherwise.
// libtpu's names; the option decides between one device a chip (megacore) and one a core, which here only the v4 can
// choose.
static HloStatus append_config(const PjrtNamedValue *option, const char *name, size_t length, HloText *spec) {
    const bool v4 = length > 3 && strncmp(name, "v4", 2) == 0 && strchr("=_:", name[2]);
    char config[32] = "default";
    HLO_TRY(pjrt_read_option(option, option ? 1 : 0, "chip_config_name", config, sizeof(config)));
    const bool megacore = strcmp(config, "megacore") == 0;
    HLO_FAIL_IF(!megacore && strcmp(config, "default") != 0, HLO_INVALID_ARGUMENT,
                "chip_config_name is '%s'; expected megacore or default", config);
    if (v4 && !megacore) hlo_text_string(spec, ",megacore=no");
    return HLO_SUCCESS;
}

// Options become parts of our own name for a machine (emulator/topology.h), so that there is one reader of machines,
// and a topology can be sent to another process by its name.
static HloStatus spell_topology(const PjrtTopologyDescriptionCreateArgs *args, const char *name, size_t length,
                                HloText *spec) {
    const PjrtNamedValue *slices = find_option(args, "num_slices");
    HLO_FAIL_IF(slices && (slices->type != PJRT_VALUE_INT64 || slices->value.number < 1), HLO_INVALID_ARGUMENT,
                "num_slices is not a positive number");
    if (slices && slices->value.number > 1) hlo_text_format(spec, "%lldx", (long long)slices->value.number);
    hlo_text_append(spec, name, length);
    HLO_TRY(append_hosts(find_option(args, "chips_per_host_bounds"), spec));
    HLO_TRY(append_wrap(find_option(args, "wrap"), spec));
    return append_config(find_option(args, "chip_config_name"), name, length, spec);
}

// A name in the call comes before the option and the environment.
static HloStatus create_topology(PjrtTopologyDescriptionCreateArgs *args) {
    char platform[sizeof(args->topology->platform)] = "", chosen[1024];
    HLO_TRY(pjrt_read_option(args->create_options, args->num_options, "platform", platform, sizeof(platform)));
    HloText spec = {0};
    HloStatus status;
    if (args->topology_name_size) {
        status = spell_topology(args, args->topology_name, args->topology_name_size, &spec);
    } else {
        status = pjrt_choose_spec(args->create_options, args->num_options, chosen, sizeof(chosen));
        if (!status) status = spell_topology(args, chosen, strlen(chosen), &spec);
    }
    if (!status) status = hlo_text_status(&spec);
    if (!status) status = make_topology(spec.data, &args->topology);
    hlo_text_free(&spec);
    if (!status) memcpy(args->topology->platform, platform, sizeof(platform));
    return status;
}

PjrtError *pjrt_topology_description_create(void *arguments) {
    PjrtTopologyDescriptionCreateArgs *args = arguments;
    PJRT_CHECK_SIZE(args, topology);
    return pjrt_error_from(create_topology(args));
}

// A client's own topology is freed with the client.
PjrtError *pjrt_topology_description_destroy(void *arguments) {
    PjrtTopologyDescriptionDestroyArgs *args = arguments;
    PjrtTopology *topology = args->object;
    if (!topology || !topology->owned) return NULL;
    if (topology->count) hlo_free(topology->descriptions[0]);
    hlo_free(topology->descriptions);
    target_client_release(topology->client);
    hlo_free(topology);
    return NULL;
}

PjrtError *pjrt_topology_description_platform_name(void *arguments) {
    PjrtTopologyDescriptionPlatformNameArgs *args = arguments;
    args->platform_name = pjrt_platform_name(args->topology);
    args->platform_name_size = strlen(args->platform_name);
    return NULL;
}

PjrtError *pjrt_topology_description_platform_version(void *arguments) {
    PjrtTopologyDescriptionPlatformVersionArgs *args = arguments;
    args->platform_version = target_client_platform_version(args->topology->client);
    args->platform_version_size = strlen(args->platform_version);
    return NULL;
}

PjrtError *pjrt_topology_description_get_device_descriptions(void *arguments) {
    PjrtTopologyDescriptionGetDeviceDescriptionsArgs *args = arguments;
    args->descriptions = args->topology->descriptions;
    args->num_descriptions = args->topology->count;
    return NULL;
}

// ---- sending a topology to another process: its name is all there is to it

static const char topology_magic[] = "MESHLO-TOPOLOGY1 ";

static void free_text(void *object) {
    HloText *text = object;
    hlo_text_free(text);
    hlo_free(text);
}

PjrtError *pjrt_topology_description_serialize(void *arguments) {
    PjrtTopologyDescriptionSerializeArgs *args = arguments;
    PJRT_CHECK_SIZE(args, serialized_topology_deleter);
    HloText *text = hlo_allocate_zeroed(1, sizeof(*text));
    if (!text) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    hlo_text_format(text, "%s%s", topology_magic, target_client_spec(args->topology->client));
    if (text->failed) {
        free_text(text);
        return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    args->serialized_bytes = text->data;
    args->serialized_bytes_size = text->length;
    args->serialized_topology = (void *)text;
    args->serialized_topology_deleter = free_text;
    return NULL;
}

PjrtError *pjrt_topology_description_deserialize(void *arguments) {
    PjrtTopologyDescriptionDeserializeArgs *args = arguments;
    PJRT_CHECK_SIZE(args, topology);
    const size_t head = sizeof(topology_magic) - 1, size = args->serialized_topology_size;
    char spec[1024];
    if (size <= head || size - head >= sizeof(spec) || memcmp(args->serialized_topology, topology_magic, head) != 0)
        return pjrt_fail(HLO_INVALID_ARGUMENT, "not a Meshlo topology (wrong magic number)");
    memcpy(spec, args->serialized_topology + head, size - head);
    spec[size - head] = 0;
    return pjrt_error_from(make_topology(spec, &args->topology));
}

// Equal for topologies with the same devices.
PjrtError *pjrt_topology_description_fingerprint(void *arguments) {
    PjrtTopologyDescriptionFingerprintArgs *args = arguments;
    uint64_t hash = args->topology->count;
    for (size_t i = 0; i < args->topology->count; i++) {
        const TargetDevice *device = args->topology->descriptions[i]->device;
        hash = hlo_hash_mix(hash, hlo_hash_bytes(device->text, strlen(device->text)));
        hash = hlo_hash_mix(hash, hlo_hash_bytes(device->kind, strlen(device->kind)));
        hash = hlo_hash_mix(hash, (uint64_t)device->slice_index);
    }
    args->fingerprint = (__typeof__(args->fingerprint))hash;
    return NULL;
}

// ---- memories of a topology

PjrtError *pjrt_topology_description_get_memory_space_kind_ids(void *arguments) {
    static const int32_t kinds[] = {TARGET_MEMORY_DEVICE, TARGET_MEMORY_PINNED_HOST, TARGET_MEMORY_UNPINNED_HOST};
    PjrtTopologyDescriptionGetMemorySpaceKindIdsArgs *args = arguments;
    args->memory_space_kind_ids = kinds;
    args->num_memory_space_kind_ids = HLO_COUNT_OF(kinds);
    return NULL;
}

static void free_bytes(const char *bytes) {
    hlo_free((void *)(uintptr_t)bytes);
}

// The requested layout, else the machine's, in the memory of that kind. The caller expects a ShapeProto by itself; our
// writer makes fields of a message, whose tag and length are removed. Runs under hlo_protect(); the bytes belong to the
// caller, who frees them with the deleter.
static HloStatus canonical_shape(void *arguments) {
    static const int64_t spaces[] = {HLO_SPACE_DEVICE, HLO_SPACE_PINNED_HOST, HLO_SPACE_UNPINNED_HOST};
    PjrtCanonicalShapeArgs *args = arguments;
    HloShape plain;
    HLO_TRY(pjrt_array_read(args->type, args->dims, args->num_dims, &plain));
    HLO_FAIL_IF(args->memory_kind_id < 0 || (size_t)args->memory_kind_id >= HLO_COUNT_OF(spaces), HLO_INVALID_ARGUMENT,
                "memory kind %d", args->memory_kind_id);
    const TargetDevice *device = args->topology->descriptions[0]->device;
    HloText bytes = {0};
    HloArena *arena = hlo_arena_scratch_new();
    const HloLayout *made = NULL;
    const HloShape *shape = &plain;
    HloStatus status = pjrt_layout_make(arena, target_device_memory(device, (TargetMemoryKind)args->memory_kind_id),
                                        &plain, args->layout, &made);
    if (!status) {
        HloLayout *layout = hlo_arena_copy(arena, made, sizeof(*layout));
        layout->memory_space = spaces[args->memory_kind_id];
        shape = hlo_shape_with_layout(arena, &plain, layout);
    }
    if (!status) hlo_proto_write_shape(&bytes, 1, shape);
    hlo_arena_free(arena);
    if (!status) status = hlo_text_status(&bytes);
    if (status) {
        hlo_text_free(&bytes);
        return status;
    }
    // The shape is written as field 1 of something: a byte, the length, the bytes.
    size_t head = 1;
    while ((unsigned char)bytes.data[head] & 0x80) head++;
    head++;
    memmove(bytes.data, bytes.data + head, bytes.length - head);
    args->serialized_shape = bytes.data;
    args->serialized_shape_size = bytes.length - head;
    args->deleter = free_bytes;
    return HLO_SUCCESS;
}

PjrtError *pjrt_topology_description_make_canonical_shape_for_memory_space(void *arguments) {
    PjrtCanonicalShapeArgs *args = arguments;
    PJRT_CHECK_SIZE(args, deleter);
    return pjrt_error_from(hlo_protect(canonical_shape, args));
}

PjrtError *pjrt_topology_description_attributes(void *arguments) {
    PjrtTopologyDescriptionAttributesArgs *args = arguments;
    args->attributes = NULL;
    args->num_attributes = 0;
    return NULL;
}
