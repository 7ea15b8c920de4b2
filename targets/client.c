// SPDX-License-Identifier: Apache-2.0
// Clients, devices and memories. A client is a topology of devices, a pool of workers, a store of memory and a queue of
// tasks. It is counted: buffers, executables and executions hold references, so that the last of them frees it, on
// whatever thread that is.
//
// Order of creation and destruction: topology, pool, devices, then the queue, which may start a thread, and the
// transport of a client that is connected with others; freeing is in
// reverse order, after the queue has ended its work (free_parts()). A client whose creation failed half-way is freed by
// the same function, so each part accepts not having been created.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/layout/layout.h"
#include "emulator/topology.h"
#include "targets/internal.h"
#include "targets/tpu/identity.h"

static const char *const kMemoryKinds[TARGET_MEMORY_KIND_COUNT] = {"device", "pinned_host", "unpinned_host"};

// ---- devices

// Creates three kinds per device; all of them are this host's memory. Ids count device by device, kinds in the order of
// TargetMemoryKind: frameworks keep them in tables, and the same machine must number them the same in every process.
static HloStatus make_memories(TargetDeviceState *state) {
    for (int k = 0; k < TARGET_MEMORY_KIND_COUNT; k++) {
        HloText text = {0};
        hlo_text_format(&text, "%s memory of %s", kMemoryKinds[k], state->device.debug_text);
        HLO_TRY(hlo_text_status(&text));
        state->memories[k] = (TargetMemory){.device = &state->device,
                                            .id = state->device.index * TARGET_MEMORY_KIND_COUNT + k,
                                            .kind_id = (TargetMemoryKind)k,
                                            .kind = kMemoryKinds[k],
                                            .text = text.data};
        state->memory_list[k] = &state->memories[k];
    }
    state->device.memories = state->memory_list;
    state->device.memory_count = TARGET_MEMORY_KIND_COUNT;
    return HLO_SUCCESS;
}

// Frees only the texts; the structs stay, since handles point to them (target_client_join_hosts() recreates the texts).
static void free_texts(TargetDeviceState *state) {
    hlo_free((char *)(uintptr_t)state->device.text);
    hlo_free((char *)(uintptr_t)state->device.debug_text);
    state->device.text = state->device.debug_text = NULL;
    for (int k = 0; k < TARGET_MEMORY_KIND_COUNT; k++) {
        hlo_free((char *)(uintptr_t)state->memories[k].text);
        state->memories[k].text = NULL;
    }
}

// O(devices), and as many texts. The meter's limit is what one device's share of its chip's HBM has for programs; host
// devices have none.
static HloStatus make_devices(TargetClient *client) {
    const EmuTopology *topology = client->topology;
    client->device_count = topology->device_count;
    client->devices = hlo_allocate_zeroed((size_t)client->device_count, sizeof(TargetDeviceState));
    HLO_FAIL_IF(!client->devices, HLO_RESOURCE_EXHAUSTED, "no memory for %lld devices",
                (long long)client->device_count);
    for (int64_t i = 0; i < client->device_count; i++) {
        TargetDeviceState *state = &client->devices[i];
        state->device.client = client;
        state->device.index = i;
        HLO_TRY(target_tpu_identify(topology, i, &state->device));
        state->meter.limit = emu_topology_is_tpu(topology) ? emu_chip_capacity(&topology->chip) : 0;
        HLO_TRY(make_memories(state));
    }
    return HLO_SUCCESS;
}

// Also accepts a client that is only partly created.
static void free_devices(TargetClient *client) {
    for (int64_t i = 0; client->devices && i < client->device_count; i++) free_texts(&client->devices[i]);
    hlo_free(client->devices);
}

HloStatus target_client_join_hosts(TargetClient *client) {
    for (int64_t i = 0; i < client->device_count; i++) {
        TargetDeviceState *state = &client->devices[i];
        free_texts(state);
        HLO_TRY(target_tpu_identify_as(client->topology, i, 0, i, &state->device));
        HLO_TRY(make_memories(state));
    }
    return HLO_SUCCESS;
}

int64_t target_client_host_count(const TargetClient *client) {
    return client->topology->host_count;
}

// ---- several processes

// Numbers the devices of each process from 0 in `locals`, which has a place for each process.
static HloStatus assign_processes(TargetClient *client, const int64_t *processes, int64_t count, int64_t *locals) {
    for (int64_t i = 0; i < client->device_count; i++) {
        TargetDeviceState *state = &client->devices[i];
        const int64_t process = processes ? processes[i] : client->topology->devices[i].process_index;
        HLO_FAIL_IF(process < 0 || process >= count, HLO_INVALID_ARGUMENT,
                    "device %lld of %s belongs to process %lld; there are %lld", (long long)i, client->spec,
                    (long long)process, (long long)count);
        free_texts(state);
        HLO_TRY(target_tpu_identify_as(client->topology, i, process, locals[process]++, &state->device));
        HLO_TRY(make_memories(state));
    }
    for (int64_t p = 0; p < count; p++)
        HLO_FAIL_IF(locals[p] == 0, HLO_INVALID_ARGUMENT, "process %lld of %lld has no device of %s", (long long)p,
                    (long long)count, client->spec);
    return HLO_SUCCESS;
}

HloStatus target_client_connect(TargetClient *client, Transport *transport, const TargetConnectOptions *options) {
    enum { kTimeoutSeconds = 600 };
    static const TargetConnectOptions kDefaults = {0};
    assert(client && transport && !client->process_count);
    if (!options) options = &kDefaults;
    const int64_t count = transport_process_count(transport);
    int64_t *locals = hlo_allocate_zeroed((size_t)count, sizeof *locals);
    HLO_FAIL_IF(!locals, HLO_RESOURCE_EXHAUSTED, "no memory for a client");
    HloStatus status = assign_processes(client, options->process_indices, count, locals);
    hlo_free(locals);
    const double timeout = options->collective_timeout_seconds;
    if (!status) status = cpu_hosts_new(transport, timeout > 0 ? timeout : kTimeoutSeconds, &client->hosts);
    if (status) return status;
    client->transport = transport;
    client->process_index = transport_process_index(transport);
    client->process_count = count;
    return HLO_SUCCESS;
}

void target_client_leave(TargetClient *client) {
    target_queue_drain(&client->queue);
    cpu_hosts_free(client->hosts);
    client->hosts = NULL;
    Transport *transport = client->transport;
    client->transport = NULL;
    transport_release(transport);
}

int64_t target_client_process_count(const TargetClient *client) {
    return client->process_count ? client->process_count : 1;
}

int64_t target_client_process_index(const TargetClient *client) {
    return client->process_index;
}

const char *target_client_process_name(const TargetClient *client, int64_t process) {
    return client->transport ? transport_process_name(client->transport, process) : NULL;
}

bool target_device_is_local(const TargetDevice *device) {
    return !device->client->process_count || device->process_index == device->client->process_index;
}

HloStatus target_memory_check_local(const TargetMemory *memory) {
    const TargetDevice *device = memory->device;
    HLO_FAIL_IF(!target_device_is_local(device), HLO_UNIMPLEMENTED,
                "%s belongs to process %lld; this is process %lld, which cannot reach its memory", device->text,
                (long long)device->process_index, (long long)device->client->process_index);
    return HLO_SUCCESS;
}

// ---- making and freeing

HloStatus target_numerics_parse(const char *text, const char *source, TargetNumerics *numerics) {
    *numerics = TARGET_NUMERICS_DEFAULT;
    if (!text || !*text) return HLO_SUCCESS;
    const bool tpu = strcmp(text, "tpu") == 0;
    HLO_FAIL_IF(!tpu && strcmp(text, "exact") != 0, HLO_INVALID_ARGUMENT, "%s is '%s'; expected exact or tpu", source,
                text);
    *numerics = tpu ? TARGET_NUMERICS_TPU : TARGET_NUMERICS_EXACT;
    return HLO_SUCCESS;
}

HloStatus target_numerics_from_environment(TargetNumerics *numerics) {
    return target_numerics_parse(getenv("MESHLO_NUMERICS"), "MESHLO_NUMERICS", numerics);
}

// By default a TPU slice rounds f32 products as TPUs do.
static HloStatus choose_numerics(TargetClient *client) {
    HLO_TRY(target_numerics_from_environment(&client->numerics));
    if (client->numerics == TARGET_NUMERICS_DEFAULT)
        client->numerics = emu_topology_is_tpu(client->topology) ? TARGET_NUMERICS_TPU : TARGET_NUMERICS_EXACT;
    return HLO_SUCCESS;
}

// MESHLO_TOPOLOGY replaces a missing name here and not in the callers, so that all entry points (C API, command,
// plugin) use the same default machine.
static HloStatus fill_client(TargetClient *client, const char *spec, int threads) {
    const char *from_environment = getenv("MESHLO_TOPOLOGY");
    if (!spec || !*spec) spec = from_environment && *from_environment ? from_environment : "cpu:1";
    client->spec = hlo_allocate_text(spec);
    HLO_FAIL_IF(!client->spec, HLO_RESOURCE_EXHAUSTED, "no memory for a client");
    HLO_TRY(emu_topology_parse(spec, &client->topology));
    HLO_TRY(choose_numerics(client));
    HLO_TRY(threads > 0 ? cpu_pool_new_of(threads, &client->pool) : cpu_pool_new(&client->pool));
    HloText version = {0};
    hlo_text_format(&version, "meshlo, %s, %d threads", cpu_features_name(cpu_pool_features(client->pool)),
                    cpu_pool_worker_count(client->pool));
    HLO_TRY(hlo_text_status(&version));
    client->version = version.data;
    HLO_TRY(make_devices(client));
    target_queue_init(&client->queue, &client->store, cpu_pool_fork_flag(client->pool));
    return HLO_SUCCESS;
}

// Called when nothing uses the client any more, the queue's thread included.
static void free_parts(void *argument) {
    TargetClient *client = argument;
    target_queue_destroy(&client->queue);
    cpu_hosts_free(client->hosts);
    transport_release(client->transport);
    cpu_pool_free(client->pool);
    free_devices(client);
    target_store_pool_destroy(&client->store);
    emu_topology_free(client->topology);
    hlo_free(client->spec);
    hlo_free(client->version);
    hlo_free(client);
}

// The last reference may be an execution's, released by the queue's own thread.
static void free_client(TargetClient *client) {
    if (target_queue_close(&client->queue, free_parts, client)) free_parts(client);
}

HloStatus target_client_new_with_threads(const char *spec, int threads, TargetClient **result) {
    assert(result);
    TargetClient *client = hlo_allocate_zeroed(1, sizeof *client);
    HLO_FAIL_IF(!client, HLO_RESOURCE_EXHAUSTED, "no memory for a client");
    client->references = 1;
    target_store_pool_init(&client->store);
    const HloStatus status = fill_client(client, spec, threads);
    if (status)
        free_client(client);
    else
        *result = client;
    return status;
}

HloStatus target_client_new(const char *spec, TargetClient **client) {
    return target_client_new_with_threads(spec, 0, client);
}

TargetClient *target_client_retain(TargetClient *client) {
    atomic_fetch_add(&client->references, 1);
    return client;
}

void target_client_release(TargetClient *client) {
    if (client && atomic_fetch_sub(&client->references, 1) == 1) free_client(client);
}

// ---- questions

const char *target_client_platform(const TargetClient *client) {
    return client->topology->platform;
}
const char *target_client_platform_version(const TargetClient *client) {
    return client->version;
}
const char *target_client_spec(const TargetClient *client) {
    return client->spec;
}
TargetNumerics target_client_numerics(const TargetClient *client) {
    return client->numerics;
}
void target_client_set_numerics(TargetClient *client, TargetNumerics numerics) {
    HLO_BUG_IF(numerics == TARGET_NUMERICS_DEFAULT);
    client->numerics = numerics;
}
int64_t target_client_device_count(const TargetClient *client) {
    return client->device_count;
}

TargetDevice *target_client_device(const TargetClient *client, int64_t index) {
    return index >= 0 && index < client->device_count ? &client->devices[index].device : NULL;
}

TargetDevice *target_client_find_device(const TargetClient *client, int64_t id) {
    return target_client_device(client, emu_topology_find_device(client->topology, id));
}

TargetMemory *target_device_memory(const TargetDevice *device, TargetMemoryKind kind) {
    return device->memories[kind];
}
TargetMemory *target_device_default_memory(const TargetDevice *device) {
    return device->memories[0];
}

// Tiles and orders are those of the real runtime, computed by emulator/layout.h. Unpinned host memory uses NumPy's
// layout: row-major without tiles.
const HloLayout *target_memory_layout(const TargetMemory *memory, const HloShape *shape, const HloInts *minor_to_major,
                                      HloArena *arena) {
    assert(memory && shape && arena);
    assert(hlo_shape_is_array(shape));                               /* others have no layout */
    assert(!minor_to_major || minor_to_major->count == shape->rank); /* the caller has checked the user's order */
    const EmuTopology *topology = memory->device->client->topology;
    if (emu_topology_is_tpu(topology) && memory->kind_id != TARGET_MEMORY_UNPINNED_HOST) {
        return minor_to_major ? emu_layout_in_order(arena, &topology->chip, shape, *minor_to_major)
                              : emu_default_layout(arena, &topology->chip, shape);
    }
    const HloShape bare = {.type = shape->type, .rank = shape->rank, .dims = shape->dims};
    const HloLayout *plain = hlo_shape_with_default_layout(arena, &bare)->layout;
    if (!minor_to_major) return plain;
    HloLayout *ordered = hlo_arena_copy(arena, plain, sizeof(*ordered));
    ordered->minor_to_major = hlo_ints(arena, minor_to_major->items, minor_to_major->count);
    return ordered;
}

void target_device_memory_statistics(const TargetDevice *device, TargetMemoryStatistics *statistics) {
    assert(device && statistics);
    TargetMeter *meter = target_device_meter(device);
    *statistics = (TargetMemoryStatistics){.bytes_in_use = atomic_load(&meter->in_use),
                                           .peak_bytes_in_use = atomic_load(&meter->peak),
                                           .largest_allocation = atomic_load(&meter->largest),
                                           .allocation_count = atomic_load(&meter->count),
                                           .bytes_limit = meter->limit};
}

// The current use is the new peak: a peak below it would make no sense.
void target_device_memory_statistics_clear(TargetDevice *device) {
    TargetMeter *meter = target_device_meter(device);
    atomic_store(&meter->peak, atomic_load(&meter->in_use));
}

void target_client_synchronize(TargetClient *client) {
    target_queue_drain(&client->queue);
}
