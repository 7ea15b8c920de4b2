// SPDX-License-Identifier: Apache-2.0
// How the environment divides a machine, and how processes that only share a store find out where they are.
#include "targets/join.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "compile/xla_flags.h"
#include "emulator/topology.h"
#include "hlo/base/decimal.h"
#include "hlo/base/text.h"
#include "hlo/base/version.h"
#include "targets/internal.h"
#include "transport/directory.h"

// ---- the machine

// What the environment makes of a machine, per slice.
typedef struct Division {
    int64_t shape[3], chips[3], slices;
} Division;

static int64_t volume(const int64_t sizes[3]) {
    return sizes[0] * sizes[1] * sizes[2];
}

static const char *sizes_text(HloArena *arena, const int64_t sizes[3]) {
    return hlo_arena_format(arena, "%lldx%lldx%lld", (long long)sizes[0], (long long)sizes[1], (long long)sizes[2]);
}

static HloStatus divide(const EmuTopology *topology, const TransportEnvironment *environment, HloArena *arena,
                        Division *division) {
    const bool has_processes = environment->process_bounds_source, has_chips = environment->chip_bounds_source;
    const int64_t *named = topology->shape;
    *division = (Division){.slices = topology->slice_count};
    memcpy(division->shape, named, sizeof(division->shape));
    memcpy(division->chips, has_chips ? environment->chip_bounds : topology->host_bounds, sizeof(division->chips));
    if (environment->slice_source) {
        HLO_FAIL_IF(topology->slice_count > 1 && environment->slice_count != topology->slice_count,
                    HLO_INVALID_ARGUMENT, "%s is %lld, but %s has %lld slices", environment->slice_source,
                    (long long)environment->slice_count, topology->name, (long long)topology->slice_count);
        division->slices = environment->slice_count;
    }
    // One process with chips of its own, and nothing about others: those chips are its slice.
    const bool is_single = has_chips && !has_processes && environment->process_count == 1 && !environment->is_alone;
    for (int axis = 0; axis < 3; axis++) {
        if (has_processes) division->shape[axis] = environment->process_bounds[axis] * division->chips[axis];
        if (is_single) division->shape[axis] = division->chips[axis];
        HLO_FAIL_IF(division->shape[axis] > named[axis], HLO_INVALID_ARGUMENT,
                    "%s and %s make a slice of %s chips, but %s has %s",
                    has_processes ? environment->process_bounds_source : "the hosts",
                    has_chips ? environment->chip_bounds_source : "the chips of a host",
                    sizes_text(arena, division->shape), topology->name, sizes_text(arena, named));
        HLO_FAIL_IF(division->shape[axis] % division->chips[axis], HLO_INVALID_ARGUMENT,
                    "%s of %s does not divide %s of %s chips", has_chips ? environment->chip_bounds_source : "a host",
                    sizes_text(arena, division->chips), topology->name, sizes_text(arena, named));
    }
    return HLO_SUCCESS;
}

// Writes the name of the divided machine. That of a file stays: what the file says of the chips has no other name.
static HloStatus name_machine(const EmuTopology *topology, const Division *division, HloArena *arena,
                              const char **machine) {
    const bool same_shape = memcmp(division->shape, topology->shape, sizeof(division->shape)) == 0;
    const bool same_hosts = memcmp(division->chips, topology->host_bounds, sizeof(division->chips)) == 0;
    *machine = hlo_arena_text(arena, topology->name);
    if (same_shape && same_hosts && division->slices == topology->slice_count) return HLO_SUCCESS;
    HLO_FAIL_IF(strstr(topology->name, ".xml"), HLO_UNIMPLEMENTED,
                "%s: the environment divides the slice in another way than the file; name the hosts there",
                topology->name);
    HloText text = {0};
    if (division->slices > 1) hlo_text_format(&text, "%lldx", (long long)division->slices);
    hlo_text_format(&text, "%s:%lldx%lld", topology->chip.name, (long long)division->shape[0],
                    (long long)division->shape[1]);
    if (topology->chip.torus_axes == 3) hlo_text_format(&text, "x%lld", (long long)division->shape[2]);
    if (topology->twisted && same_shape) hlo_text_string(&text, "_twisted");
    hlo_text_format(&text, ",hosts=%s", sizes_text(arena, division->chips));
    if (same_shape) {  // a part of a slice has the links that slices of its shape have
        hlo_text_string(&text, ",wrap=");
        for (int axis = 0; axis < 3; axis++)
            if (topology->wrap[axis]) hlo_text_char(&text, "xyz"[axis]);
        if (!topology->wrap[0] && !topology->wrap[1] && !topology->wrap[2]) hlo_text_string(&text, "none");
    }
    const EmuChip *usual = emu_chip_by_kind(topology->device_kind);
    if (usual && usual->devices_per_chip != topology->chip.devices_per_chip) hlo_text_string(&text, ",megacore=no");
    *machine = hlo_text_to_arena(arena, &text);
    return HLO_SUCCESS;
}

// Compares the environment's number of processes with the machine's of hosts.
static HloStatus check_count(const TransportEnvironment *environment, const char *machine, int64_t hosts) {
    if (environment->plays_all_hosts) return HLO_SUCCESS;
    if (environment->is_alone) {
        HLO_FAIL_IF(environment->process_index >= hosts, HLO_INVALID_ARGUMENT,
                    "process %lld is out of range: %s has %lld hosts", (long long)environment->process_index, machine,
                    (long long)hosts);
        return HLO_SUCCESS;
    }
    HLO_FAIL_IF(
        environment->process_count > 1 && environment->process_count != hosts, HLO_INVALID_ARGUMENT,
        "%s has %lld processes, but %s has %lld host%s; name a slice with as many hosts, divide this one by "
        "TPU_PROCESS_BOUNDS and TPU_CHIPS_PER_PROCESS_BOUNDS, or set MESHLO_PROCESS_INDEX=all for processes that "
        "do not belong together",
        environment->source, (long long)environment->process_count, machine, (long long)hosts, hosts == 1 ? "" : "s");
    return HLO_SUCCESS;
}

// The part of a topology that the process's environment names.
typedef struct DivisionCall {
    const EmuTopology *topology;
    const TransportEnvironment *environment;
    HloArena *arena;
    const char **machine;
    int64_t *hosts;
} DivisionCall;

static HloStatus divide_protected(void *argument) {
    const DivisionCall *call = argument;
    Division division;
    HLO_TRY(divide(call->topology, call->environment, call->arena, &division));
    HLO_TRY(name_machine(call->topology, &division, call->arena, call->machine));
    *call->hosts = division.slices * volume(division.shape) / volume(division.chips);
    return HLO_SUCCESS;
}

HloStatus target_join_machine(const char *spec, const TransportEnvironment *environment, HloArena *arena,
                              const char **machine, int64_t *hosts) {
    EmuTopology *topology;
    HLO_TRY(emu_topology_parse(spec, &topology));
    *machine = spec;
    *hosts = topology->host_count;
    HloStatus status = HLO_SUCCESS;
    if (emu_topology_is_tpu(topology) && !environment->plays_all_hosts) {
        // Protected here, so that the topology is freed when the arena finds no memory.
        DivisionCall call = {topology, environment, arena, machine, hosts};
        status = hlo_protect(divide_protected, &call);
    }
    emu_topology_free(topology);
    return status ? status : check_count(environment, *machine, *hosts);
}

// ---- the way to the others

// Where a process is: equal texts mean the same machine and the same network, so that the loopback interface connects
// them.
static void describe_place(char place[256]) {
    char boot[64] = "", network[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof(boot), file)) boot[0] = 0;
    if (file) fclose(file);
    const ssize_t size = readlink("/proc/self/ns/net", network, sizeof(network) - 1);
    network[size > 0 ? size : 0] = 0;
    boot[strcspn(boot, "\n")] = 0;
    snprintf(place, 256, "%s %s", boot, network);
}

// What the processes tell each other through a store before they join.
typedef struct Meeting {
    const TransportEnvironment *environment;
    const TransportStore *store;
    double timeout;
} Meeting;

// True if all processes are on one machine.
static HloStatus is_one_machine(const Meeting *meeting, bool *one) {
    char place[256];
    const int64_t count = meeting->environment->process_count, own = meeting->environment->process_index;
    describe_place(place);
    char key[64];
    snprintf(key, sizeof(key), "meshlo/place/%lld", (long long)own);
    HLO_TRY(meeting->store->put(meeting->store->context, key, place, (int64_t)strlen(place)));
    *one = true;
    for (int64_t i = 0; i < count; i++) {
        if (i == own) continue;
        char *value = NULL;
        int64_t bytes;
        snprintf(key, sizeof(key), "meshlo/place/%lld", (long long)i);
        HloStatus status = meeting->store->get(meeting->store->context, key, meeting->timeout, &value, &bytes);
        if (status)
            return hlo_status_annotate(status, "process %lld of %lld (%s) did not join", (long long)i, (long long)count,
                                       meeting->environment->source);
        *one &= bytes == (int64_t)strlen(place) && memcmp(value, place, (size_t)bytes) == 0;
        hlo_free(value);
    }
    return HLO_SUCCESS;
}

// A secret of the store's: who can read that may join anyway. Process 0 makes it.
static HloStatus share_secret(const Meeting *meeting, HloArena *arena, const char **secret) {
    static const char key[] = "meshlo/secret";
    if (meeting->environment->process_index == 0) {
        unsigned char random[32];
        HLO_FAIL_IF(getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random), HLO_UNAVAILABLE,
                    "no random numbers for a secret: %s", strerror(errno));
        HloText text = {0};
        for (size_t i = 0; i < sizeof(random); i++) hlo_text_format(&text, "%02x", random[i]);
        *secret = hlo_text_to_arena(arena, &text);
        return meeting->store->put(meeting->store->context, key, *secret, (int64_t)strlen(*secret));
    }
    char *value = NULL;
    int64_t bytes;
    HLO_TRY(meeting->store->get(meeting->store->context, key, meeting->timeout, &value, &bytes));
    *secret = hlo_arena_string(arena, value, (size_t)bytes);
    hlo_free(value);
    return HLO_SUCCESS;
}

// Fills in how processes with a store reach each other: over the loopback interface on one machine, else by this
// machine's name, or the address that MESHLO_ADDRESS says.
static HloStatus meet(const Meeting *meeting, HloArena *arena, TransportOptions *options) {
    bool one;
    HLO_TRY(is_one_machine(meeting, &one));
    options->store = meeting->store;
    if (one) return HLO_SUCCESS;
    const char *own = getenv("MESHLO_ADDRESS");
    char name[256] = "";
    if (!own || !*own) {
        HLO_FAIL_IF(gethostname(name, sizeof(name) - 1), HLO_UNAVAILABLE,
                    "this machine has no name; set MESHLO_ADDRESS");
        own = hlo_arena_text(arena, name);
    }
    const char **addresses = HLO_ARENA_NEW(arena, const char *, options->process_count);
    for (int64_t i = 0; i < options->process_count; i++) addresses[i] = NULL;
    addresses[options->process_index] = own;
    options->addresses = addresses;
    return options->secret ? HLO_SUCCESS : share_secret(meeting, arena, &options->secret);
}

// Joins through the addresses that the environment has, the framework's store, or a directory of the scheduler's job.
static HloStatus join(const TargetJoinOptions *options, HloArena *arena, const char *identity, Transport **transport) {
    const TransportEnvironment *environment = options->environment;
    TransportOptions join = {.process_count = environment->process_count,
                             .process_index = environment->process_index,
                             .addresses = environment->addresses,
                             .secret = environment->secret,
                             .identity = identity,
                             .timeout_seconds = environment->timeout_seconds};
    if (join.addresses) return transport_join(&join, transport);
    Meeting meeting = {environment, options->store, environment->timeout_seconds};
    if (meeting.timeout <= 0) meeting.timeout = TRANSPORT_DEFAULT_TIMEOUT_SECONDS;
    TransportDirectory *directory = NULL;
    HLO_FAIL_IF(!meeting.store && !environment->job, HLO_FAILED_PRECONDITION,
                "%s has %lld processes, but nothing says how they reach each other; call jax.distributed.initialize() "
                "first, start them by meshlo launch, or set TPU_PROCESS_ADDRESSES and CLOUD_TPU_TASK_ID",
                environment->source, (long long)environment->process_count);
    if (!meeting.store) {
        HLO_TRY(transport_directory_open(environment->job, &directory));
        meeting.store = transport_directory_store(directory);
    }
    HloStatus status = meet(&meeting, arena, &join);
    if (!status) status = transport_join(&join, transport);
    transport_directory_close(directory);
    return status;
}

// ---- the client

typedef struct JoinCall {
    const char *spec;
    const TargetJoinOptions *options;
    TargetClient **client;
    HloArena *arena;
    Transport *transport;
} JoinCall;

// How long a launch waits for a process that is alive: MESHLO_COLLECTIVE_TIMEOUT, or the flags by which XLA limits the
// same; 0 if none is set.
static HloStatus read_collective_timeout(HloArena *arena, double *seconds) {
    static const char *const flags[] = {"xla_cpu_collective_call_terminate_timeout_seconds",
                                        "xla_cpu_collective_timeout_seconds",
                                        "xla_gpu_executable_terminate_timeout_seconds"};
    const char *name = "MESHLO_COLLECTIVE_TIMEOUT", *text = getenv(name);
    for (size_t i = 0; i < HLO_COUNT_OF(flags) && (!text || !*text); i++) {
        name = flags[i];
        text = compile_xla_flag(arena, name);
    }
    *seconds = 0;
    if (!text || !*text) return HLO_SUCCESS;
    char *end;
    *seconds = hlo_strtod(text, &end);
    HLO_FAIL_IF(*end || !(*seconds > 0) || !(*seconds <= 1e6), HLO_INVALID_ARGUMENT, "%s is '%s'; seconds are expected",
                name, text);
    return HLO_SUCCESS;
}

// The client is made before the others are waited for, so that a wrong machine is reported at once.
static HloStatus join_protected(void *argument) {
    JoinCall *call = argument;
    const TransportEnvironment *environment = call->options->environment;
    const char *machine, *named = getenv("MESHLO_TOPOLOGY");
    int64_t hosts;
    if (!call->spec || !*call->spec) call->spec = named && *named ? named : "cpu:1";
    HLO_TRY(target_join_machine(call->spec, environment, call->arena, &machine, &hosts));
    HLO_TRY(target_client_new_with_threads(machine, call->options->threads, call->client));
    if (environment->process_count < 2) return HLO_SUCCESS;
    const char *identity =
        hlo_arena_format(call->arena, "machine: %s\nmeshlo: version %lld, %s\nnumerics: %s\n%s", machine,
                         (long long)hlo_api_version(), cpu_features_name(cpu_pool_features((*call->client)->pool)),
                         target_client_numerics(*call->client) == TARGET_NUMERICS_EXACT ? "exact" : "tpu",
                         call->options->identity ? call->options->identity : "");
    HLO_TRY(join(call->options, call->arena, identity, &call->transport));
    TargetConnectOptions connect = {0};
    HLO_TRY(read_collective_timeout(call->arena, &connect.collective_timeout_seconds));
    HLO_TRY(target_client_connect(*call->client, call->transport, &connect));
    if (call->options->transport) *call->options->transport = call->transport;
    call->transport = NULL;  // the client's now
    return HLO_SUCCESS;
}

HloStatus target_client_join(const char *spec, const TargetJoinOptions *options, TargetClient **client) {
    JoinCall call = {.spec = spec, .options = options, .client = client, .arena = hlo_arena_new()};
    *client = NULL;
    if (options->transport) *options->transport = NULL;
    HLO_FAIL_IF(!call.arena, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(join_protected, &call);
    if (status) {
        transport_release(call.transport);
        target_client_release(*client);
        *client = NULL;
    }
    hlo_arena_free(call.arena);
    return status;
}
