// SPDX-License-Identifier: Apache-2.0
// The two small extensions: shardings of executables, memories of device descriptions.
#include "pjrt/extensions.h"

#include <string.h>

#include "pjrt/objects.h"

// ---- shardings

// Serialised OpShardings, which live as long as the executable.
static void give_shardings(PjrtShardingsArgs *args, const PjrtStrings *strings) {
    // A count of zero means a program of one device, or one without results.
    args->count = strings->count;
    args->shardings = strings->count ? strings->items : NULL;
    args->sharding_sizes = strings->count ? strings->sizes : NULL;
}

static PjrtError *parameter_shardings(void *arguments) {
    PjrtShardingsArgs *args = arguments;
    give_shardings(args, &args->executable->parameter_shardings);
    return NULL;
}

static PjrtError *output_shardings(void *arguments) {
    PjrtShardingsArgs *args = arguments;
    give_shardings(args, &args->executable->result_shardings);
    return NULL;
}

// ---- memories: a description is a memory of the client below, the default one first

static PjrtError *device_memories(void *arguments) {
    PjrtDeviceMemoriesArgs *args = arguments;
    const TargetDevice *device = args->device_description->device;
    args->memories = (const PjrtMemoryDescription *const *)(const void *)device->memories;
    args->count = (size_t)device->memory_count;
    return NULL;
}

static PjrtError *memory_kind(void *arguments) {
    PjrtMemoryDescriptionKindArgs *args = arguments;
    const TargetMemory *memory = (const void *)args->memory_description;
    args->kind = memory->kind;
    args->kind_size = strlen(memory->kind);
    args->kind_id = (int32_t)memory->kind_id;
    return NULL;
}

PjrtMemoryDescriptionsExtension pjrt_memory_descriptions_extension = {
    .node = {.struct_size = sizeof(PjrtMemoryDescriptionsExtension),
             .type = PJRT_EXTENSION_MEMORY_DESCRIPTIONS,
             .next = &pjrt_custom_partitioner_extension.node},
    .memories = device_memories,
    .kind = memory_kind,
};

PjrtShardingsExtension pjrt_shardings_extension = {
    .node = {.struct_size = sizeof(PjrtShardingsExtension),
             .type = PJRT_EXTENSION_SHARDINGS,
             .next = &pjrt_cross_host_transfers_extension.node},
    .parameters = parameter_shardings,
    .outputs = output_shardings,
};
