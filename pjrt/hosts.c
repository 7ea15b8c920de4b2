// SPDX-License-Identifier: Apache-2.0
// Several hosts: which of a slice's devices belong to this process. Frameworks need all addressable devices in one
// process, so either this process plays all hosts as one, or it is one of them, connected with the others' processes.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/interpreter.h"
#include "pjrt/objects.h"
#include "targets/join.h"

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

// What the framework says of its processes: options, or what JAX tells when it is asked, since it passes the options
// only to plugins that it finds by their entry point. *has_store becomes false where JAX has connected no processes:
// jaxlib then leaves the callbacks of Client_Create uninitialised. JAX's version goes into *version.
static HloStatus read_framework(const PjrtClientCreateArgs *args, TransportFramework *framework, bool *has_store,
                                char version[32]) {
    *framework = (TransportFramework){"jax.distributed", -1, -1};
    PjrtDistributed distributed = {0};
    int64_t count = -1, index = -1;
    HLO_TRY(read_number(args->create_options, args->num_options, "num_nodes", &count));
    HLO_TRY(read_number(args->create_options, args->num_options, "node_id", &index));
    HloStatus status = pjrt_interpreter_distributed(&distributed);
    memcpy(version, distributed.version, sizeof(distributed.version));
    const bool no_python = hlo_status_code(status) == HLO_FAILED_PRECONDITION;
    if (status && !no_python) return hlo_status_annotate(status, "cannot ask JAX for its processes");
    hlo_status_free(status);
    *has_store = no_python || !*version || distributed.is_initialized;
    if (count > 1) {
        framework->process_count = count;
        framework->process_index = index;
    } else if (distributed.is_initialized) {
        framework->process_count = distributed.process_count;
        framework->process_index = distributed.process_index;
    }
    return HLO_SUCCESS;
}

typedef struct JoinCall {
    const PjrtClientCreateArgs *args;
    const char *spec;
    PjrtClient *client;
    HloArena *arena;
    PjrtStore *store;
} JoinCall;

static HloStatus join_protected(void *argument) {
    JoinCall *call = argument;
    PjrtClient *client = call->client;
    TransportEnvironment environment;
    TransportFramework framework;
    char version[32] = "", numerics[8] = "";
    int64_t process = -1;
    bool has_store = false;
    HLO_TRY(read_framework(call->args, &framework, &has_store, version));
    if (has_store) HLO_TRY(pjrt_store_new(call->args, &call->store));
    HLO_TRY(read_number(call->args->create_options, call->args->num_options, "process_index", &process));
    HLO_FAIL_IF(process < -1, HLO_INVALID_ARGUMENT, "process %lld is out of range", (long long)process);
    if (process >= 0)
        environment =
            (TransportEnvironment){.process_count = 1, .process_index = process, .slice_count = 1, .is_alone = true};
    else
        HLO_TRY(transport_environment_read(call->arena, NULL, &framework, &environment));
    if (call->store && environment.process_count > 1) HLO_TRY(pjrt_store_begin(call->store, environment.process_index));
    HLO_TRY(
        pjrt_read_option(call->args->create_options, call->args->num_options, "numerics", numerics, sizeof(numerics)));
    const TargetJoinOptions options = {
        .environment = &environment,
        .store = pjrt_store_transport(call->store),
        .transport = &client->transport,
        .identity = hlo_arena_format(call->arena, "jax: %s\nthe option numerics: %s", version, numerics)};
    HLO_TRY(target_client_join(call->spec, &options, &client->client));
    client->is_alone = environment.is_alone && target_client_host_count(client->client) > 1;
    if (client->is_alone || target_client_process_count(client->client) > 1) {
        client->process_index = (int32_t)environment.process_index;
        return HLO_SUCCESS;
    }
    return target_client_host_count(client->client) > 1 ? target_client_join_hosts(client->client) : HLO_SUCCESS;
}

HloStatus pjrt_join(const PjrtClientCreateArgs *args, const char *spec, PjrtClient *client) {
    JoinCall call = {.args = args, .spec = spec, .client = client, .arena = hlo_arena_new()};
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(join_protected, &call);
    pjrt_store_free(call.store);
    hlo_arena_free(call.arena);
    return status;
}

// Devices are listed host by host (emulator/topology.h), so a process's devices and their memories are contiguous in
// the lists: a start and a count describe them.
void pjrt_choose_local(PjrtClient *client) {
    client->first_local = client->local_count = client->first_memory = client->local_memories = 0;
    for (size_t i = 0; i < client->device_count; i++) {
        const PjrtDevice *device = &client->devices[i];
        if (device->device->process_index < client->process_index) {
            client->first_local++;
            client->first_memory += device->memory_count;
        } else if (device->device->process_index == client->process_index) {
            assert(i == client->first_local + client->local_count); /* devices are listed host by host */
            client->local_count++;
            client->local_memories += device->memory_count;
        }
    }
    assert(client->local_count > 0);
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
