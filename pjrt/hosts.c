// SPDX-License-Identifier: Apache-2.0
// Several hosts: which of a slice's devices belong to this process. Frameworks need all addressable devices in one
// process, so either this process plays all hosts as one, or it is one of them and the others' devices are only names.
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/objects.h"

// NULL if it is not given.
static const PjrtNamedValue *number_option(const PjrtNamedValue *options, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        const PjrtNamedValue *option = &options[i];
        if (option->name_size == strlen(name) && memcmp(option->name, name, option->name_size) == 0) return option;
    }
    return NULL;
}

// Reads a number that may be given; *value stays as it is otherwise.
static HloStatus read_number(const PjrtNamedValue *options, size_t count, const char *name, int64_t *value) {
    const PjrtNamedValue *option = number_option(options, count, name);
    if (!option) return HLO_SUCCESS;
    HLO_FAIL_IF(option->type != PJRT_VALUE_INT64, HLO_INVALID_ARGUMENT, "the option %s is not a number", name);
    *value = option->value.number;
    return HLO_SUCCESS;
}

static HloStatus read_environment(int64_t *process) {
    const char *text = getenv("MESHLO_PROCESS_INDEX");
    if (!text || !*text) return HLO_SUCCESS;
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    HLO_FAIL_IF(errno || *end || number < 0, HLO_INVALID_ARGUMENT, "MESHLO_PROCESS_INDEX is '%s'; expected a number",
                text);
    *process = number;
    return HLO_SUCCESS;
}

// The host to play, or -1 for all.
// In rising order of weight: MESHLO_PROCESS_INDEX, num_nodes with node_id, process_index.
static HloStatus read_process(const PjrtClient *client, const PjrtNamedValue *options, size_t count, int64_t *process) {
    const int64_t hosts = target_client_host_count(client->client);
    int64_t nodes = 1, node = -1;
    *process = -1;
    HLO_TRY(read_environment(process));
    HLO_TRY(read_number(options, count, "num_nodes", &nodes));
    HLO_TRY(read_number(options, count, "node_id", &node));
    HLO_FAIL_IF(nodes > 1 && nodes != hosts, HLO_INVALID_ARGUMENT, "there are %lld processes, but %s has %lld hosts",
                (long long)nodes, target_client_spec(client->client), (long long)hosts);
    if (nodes > 1) *process = node;
    HLO_TRY(read_number(options, count, "process_index", process));
    HLO_FAIL_IF(*process >= hosts || *process < -1, HLO_INVALID_ARGUMENT,
                "process %lld is out of range: %s has %lld hosts", (long long)*process,
                target_client_spec(client->client), (long long)hosts);
    return HLO_SUCCESS;
}

// Devices are listed host by host (emulator/topology.h), so a process's devices and their memories are contiguous in
// the lists: a start and a count describe them.
HloStatus pjrt_choose_process(PjrtClient *client, const PjrtNamedValue *options, size_t count) {
    int64_t process;
    HLO_TRY(read_process(client, options, count, &process));
    client->local_count = client->device_count;
    client->local_memories = client->memory_count;
    if (target_client_host_count(client->client) == 1) return HLO_SUCCESS;
    if (process < 0) return target_client_join_hosts(client->client);
    client->process_index = (int32_t)process;
    client->local_count = client->local_memories = 0;
    for (size_t i = 0; i < client->device_count; i++) {
        const PjrtDevice *device = &client->devices[i];
        if (device->device->process_index < process) {
            client->first_local++;
            client->first_memory += device->memory_count;
        } else if (device->device->process_index == process) {
            assert(i == client->first_local + client->local_count); /* devices are listed host by host */
            client->local_count++;
            client->local_memories += device->memory_count;
        }
    }
    assert(client->local_count > 0);
    return HLO_SUCCESS;
}

// Devices of a process are neighbours in the list, and the subtraction wraps for those before them.
bool pjrt_is_local(const PjrtDevice *device) {
    const size_t index = (size_t)device->device->index;
    return index - device->client->first_local < device->client->local_count;
}

HloStatus pjrt_check_local(const PjrtMemory *memory) {
    HLO_FAIL_IF(!pjrt_is_local(memory->device), HLO_INVALID_ARGUMENT, "%s belongs to process %lld; this is process %d",
                memory->device->device->text, (long long)memory->device->device->process_index,
                memory->device->client->process_index);
    return HLO_SUCCESS;
}

PjrtError *pjrt_choose_memory(PjrtMemory *memory, PjrtDevice *device, PjrtMemory **chosen) {
    assert(chosen);
    *chosen = memory ? memory : device ? device->memories[0] : NULL;
    if (!*chosen) return pjrt_fail(HLO_INVALID_ARGUMENT, "neither a memory nor a device was named");
    return pjrt_error_from(pjrt_check_local(*chosen));
}
