// SPDX-License-Identifier: Apache-2.0
// Which processes play a slice, where they run, and what their environment says.
//
// The variables are those of a Cloud TPU host, so that programs and JAX find what they find there; where several slices
// are played, which no variable of the TPU runtime can list, MESHLO_PROCESS_ADDRESSES has the processes of all.
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/launch.h"
#include "transport/environment.h"

// ---- dividing a slice

static int64_t volume(const int64_t bounds[3]) {
    return bounds[0] * bounds[1] * bounds[2];
}

// Chooses the chips of one process: a host's, halved or doubled along x, y or z, whichever comes first, until they are
// as many as `chips`.
static bool divide(const EmuTopology *topology, int64_t chips, int64_t bounds[3]) {
    memcpy(bounds, topology->host_bounds, 3 * sizeof(*bounds));
    bool changed = true;
    while (changed && volume(bounds) != chips) {
        changed = false;
        for (int axis = 0; axis < 3 && !changed; axis++) {
            int64_t *size = &bounds[axis];
            if (volume(bounds) > chips && *size % 2 == 0) {
                *size /= 2;
                changed = true;
            } else if (volume(bounds) < chips && topology->shape[axis] % (*size * 2) == 0) {
                *size *= 2;
                changed = true;
            }
        }
    }
    return volume(bounds) == chips;
}

static HloStatus divide_slice(CliContext *context, const EmuTopology *topology, int64_t processes, LaunchPlan *plan) {
    if (!emu_topology_is_tpu(topology))
        return cli_usage_error(context, "%s has no hosts; a TPU slice is expected, such as v5e-16", topology->name);
    plan->spec = topology->name;
    plan->slice_count = topology->slice_count;
    plan->host_chips = volume(topology->host_bounds);
    plan->count = processes ? processes : topology->host_count;
    const int64_t chips = topology->chip_count / plan->count;
    if (topology->chip_count % plan->count || plan->count % plan->slice_count ||
        !divide(topology, chips, plan->chip_bounds)) {
        return cli_usage_error(context, "--processes %lld: %s of %lld chips cannot be divided so", (long long)processes,
                               topology->name, (long long)topology->chip_count);
    }
    for (int axis = 0; axis < 3; axis++) plan->process_bounds[axis] = topology->shape[axis] / plan->chip_bounds[axis];
    return HLO_SUCCESS;
}

// ---- hosts and ports

// True if processes for this host are started directly: it is the loopback, or this machine by its own name.
static bool is_here(const char *host) {
    char own[256];
    if (!strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1")) return true;
    return gethostname(own, sizeof(own)) == 0 && memchr(own, 0, sizeof(own)) && strcmp(own, host) == 0;
}

// A name of a host or user@host, as ssh takes it: nothing that a shell or ssh could read as something else.
static bool is_host_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:";
    return *name && *name != '-' && name[strspn(name, letters)] == 0;
}

// Chooses a port that is free on this machine, and holds it with a socket that does not listen, so that the system
// gives it to no other program in the meantime. A socket that may share its address (SO_REUSEADDR), as those of the
// transport and of gRPC, can listen there nevertheless. Errors: no free port, or too many open files.
static HloStatus hold_port(LaunchPlan *plan, int64_t *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(address);
    const int on = 1, file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0) plan->sockets[plan->socket_count++] = file;
    const bool is_held = file >= 0 && setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                         bind(file, (const struct sockaddr *)&address, size) == 0 &&
                         getsockname(file, (struct sockaddr *)&address, &size) == 0;
    HLO_FAIL_IF(!is_held, HLO_RESOURCE_EXHAUSTED, "no port of this machine for %lld processes: %s",
                (long long)plan->count, strerror(errno));
    *port = ntohs(address.sin_port);
    return HLO_SUCCESS;
}

// The names of --hosts; each gets as many neighbouring processes.
static HloStatus read_hosts(CliContext *context, const char *hosts, HloStringVector *list) {
    for (const char *at = hosts; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const char *name = hlo_arena_string(context->arena, at, strcspn(at, ","));
        if (!is_host_name(name)) return cli_usage_error(context, "--hosts %s: '%s' is not a host's name", hosts, name);
        hlo_vector_push(context->arena, list, name);
    }
    return HLO_SUCCESS;
}

static HloStatus choose_address(CliContext *context, LaunchPlan *plan, LaunchProcess *process, bool all_here,
                                int64_t port) {
    const char *host = process->host;
    int64_t own = port ? port + process->host_slot : 0;
    if (!own && host) own = TRANSPORT_DEFAULT_PORT + process->host_slot;
    if (!own) HLO_TRY(hold_port(plan, &own));
    if (own < 1 || own > 65535)
        return cli_usage_error(context, "--port %lld: no port for process %lld", (long long)port,
                               (long long)process->index);
    process->port = own;
    const char *at = host ? strrchr(host, '@') : NULL;  // of user@host, the others need the host
    const char *name = at ? at + 1 : host ? host : "127.0.0.1";
    char here[256] = "";
    if (!host && !all_here) {  // other machines must reach this one
        if (gethostname(here, sizeof(here) - 1)) return cli_usage_error(context, "this machine has no name");
        name = here;
    }
    process->address =
        hlo_arena_format(context->arena, strchr(name, ':') ? "[%s]:%lld" : "%s:%lld", name, (long long)own);
    return HLO_SUCCESS;
}

static HloStatus place(CliContext *context, const char *hosts, int64_t port, LaunchPlan *plan) {
    HloStringVector list = {0};
    HLO_TRY(read_hosts(context, hosts, &list));
    if (list.count && plan->count % list.count)
        return cli_usage_error(context, "--hosts has %lld names, which do not divide %lld processes",
                               (long long)list.count, (long long)plan->count);
    const int64_t each = list.count ? plan->count / list.count : plan->count;
    bool all_here = true;
    for (int64_t i = 0; i < list.count; i++) all_here &= is_here(list.items[i]);
    plan->processes = HLO_ARENA_NEW(context->arena, LaunchProcess, plan->count);
    plan->sockets = HLO_ARENA_NEW(context->arena, int, plan->count + 1);
    for (int64_t i = 0; i < plan->count; i++) {
        LaunchProcess *process = &plan->processes[i];
        const int64_t per_slice = plan->count / plan->slice_count;
        const char *name = list.count ? list.items[i / each] : NULL;
        *process = (LaunchProcess){.index = i,
                                   .slice = i / per_slice,
                                   .index_in_slice = i % per_slice,
                                   .host_slot = i % each,
                                   .host_processes = each,
                                   .host = name && !is_here(name) ? name : NULL};
        for (int64_t other = 0; name && other < i / each; other++)  // a name may be given again
            if (strcmp(list.items[other], name) == 0) process->host_slot += each;
        process->name = name ? hlo_arena_format(context->arena, "%lld %s", (long long)i, name)
                             : hlo_arena_format(context->arena, "%lld", (long long)i);
        HLO_TRY(choose_address(context, plan, process, all_here, port));
    }
    return plan->processes[0].host ? HLO_SUCCESS : hold_port(plan, &plan->coordinator_port);
}

HloStatus launch_plan(CliContext *context, const EmuTopology *topology, int64_t processes, const char *hosts,
                      int64_t port, LaunchPlan *plan) {
    *plan = (LaunchPlan){0};
    HLO_TRY(divide_slice(context, topology, processes, plan));
    HLO_TRY(place(context, hosts, port, plan));
    unsigned char random[32];
    HLO_FAIL_IF(getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random), HLO_UNAVAILABLE,
                "no random numbers for a secret: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(random); i++) {
        plan->secret[2 * i] = "0123456789abcdef"[random[i] >> 4];
        plan->secret[2 * i + 1] = "0123456789abcdef"[random[i] & 15];
    }
    return HLO_SUCCESS;
}

void launch_plan_free(LaunchPlan *plan) {
    for (int64_t i = 0; i < plan->socket_count; i++) close(plan->sockets[i]);
    plan->socket_count = 0;
}

// ---- the environment

static const char *bounds_text(HloArena *arena, const int64_t bounds[3]) {
    return hlo_arena_format(arena, "%lld,%lld,%lld", (long long)bounds[0], (long long)bounds[1], (long long)bounds[2]);
}

// The addresses of processes [begin, end), with or without their ports.
static const char *address_list(HloArena *arena, const LaunchPlan *plan, int64_t begin, int64_t end, bool with_port) {
    HloText text = {0};
    for (int64_t i = begin; i < end; i++) {
        const char *address = plan->processes[i].address;
        if (i > begin) hlo_text_char(&text, ',');
        hlo_text_append(&text, address, with_port ? strlen(address) : (size_t)(strrchr(address, ':') - address));
    }
    return hlo_text_to_arena(arena, &text);
}

// The numbers of a process's chips among those of its host; NULL if it has all of them.
static const char *visible_chips(HloArena *arena, const LaunchPlan *plan, const LaunchProcess *process) {
    const int64_t chips = volume(plan->chip_bounds);
    if (chips >= plan->host_chips) return NULL;
    const int64_t first = process->index_in_slice % (plan->host_chips / chips) * chips;
    HloText text = {0};
    for (int64_t i = 0; i < chips; i++) hlo_text_format(&text, "%s%lld", i ? "," : "", (long long)(first + i));
    return hlo_text_to_arena(arena, &text);
}

const LaunchVariable *launch_variables(CliContext *context, const LaunchPlan *plan, const LaunchProcess *process,
                                       int64_t *count) {
    HloArena *arena = context->arena;
    HLO_VECTOR(LaunchVariable) list = {0};
    const int64_t per_slice = plan->count / plan->slice_count, first = process->slice * per_slice;
    const bool several = plan->slice_count > 1;
    const char *index = hlo_arena_format(arena, "%lld", (long long)process->index_in_slice);
    const char *coordinator = address_list(arena, plan, 0, 1, false);
    const LaunchVariable variables[] = {
        {"MESHLO_TOPOLOGY", plan->spec},
        {"MESHLO_PROCESS_INDEX", hlo_arena_format(arena, "%lld", (long long)process->index)},
        {"MESHLO_PROCESS_ADDRESSES", address_list(arena, plan, 0, plan->count, true)},
        {"MESHLO_SECRET", plan->secret},
        {"TPU_PROCESS_ADDRESSES", address_list(arena, plan, first, first + per_slice, true)},
        {"TPU_PROCESS_PORT", strrchr(process->address, ':') + 1},
        {"CLOUD_TPU_TASK_ID", index},
        {"TPU_PROCESS_BOUNDS", bounds_text(arena, plan->process_bounds)},
        {"TPU_CHIPS_PER_PROCESS_BOUNDS", bounds_text(arena, plan->chip_bounds)},
        {"TPU_VISIBLE_CHIPS", visible_chips(arena, plan, process)},
        {"TPU_WORKER_ID", index},
        {"TPU_WORKER_HOSTNAMES", address_list(arena, plan, first, first + per_slice, false)},
        {"TPU_HOST_BOUNDS", NULL},
        {"TPU_CHIPS_PER_HOST_BOUNDS", NULL},
        {"TPU_VISIBLE_DEVICES", NULL},
        // Empty for one slice: JAX asks a metadata server for what is missing.
        {"MEGASCALE_NUM_SLICES", several ? hlo_arena_format(arena, "%lld", (long long)plan->slice_count) : ""},
        {"MEGASCALE_SLICE_ID", several ? hlo_arena_format(arena, "%lld", (long long)process->slice) : ""},
        {"MEGASCALE_COORDINATOR_ADDRESS", several ? coordinator : ""},
        // jax.distributed.initialize() without arguments finds the processes as on a TPU host, if JAX takes this for
        // one.
        {"JAX_FORCE_TPU_INIT", "1"},
        {"TPU_SKIP_MDS_QUERY", "1"},
        {"JAX_COORDINATOR_ADDRESS", NULL},
        {"JAX_COORDINATOR_PORT",
         plan->coordinator_port ? hlo_arena_format(arena, "%lld", (long long)plan->coordinator_port) : NULL},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(variables); i++) hlo_vector_push(arena, &list, variables[i]);
    *count = list.count;
    return list.items;
}
