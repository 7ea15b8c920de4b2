// SPDX-License-Identifier: Apache-2.0
// Divides an executable among processes: which devices are here, which members of each group, and with which processes
// this one exchanges anything. All of it follows from the program and the assignment of devices, so that every process
// finds the same without asking.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "targets/cpu/graph/p2p.h"
#include "targets/cpu/run/hosts.h"

typedef struct SpanBuilder {
    const CpuExecutable *executable;
    CpuSpan *span;
    bool *is_peer;  // by process
    int64_t process_limit, route_capacity;
} SpanBuilder;

static HloStatus no_memory(void) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to divide a program among processes");
}

static bool is_here(const CpuSpan *span, int64_t device) {
    return span->processes[device] == span->process;
}

// ---- collectives

// A permute only joins the ends of its pairs.
static void add_permute_peers(SpanBuilder *builder, const CpuCollective *collective, const CpuCollectiveGroup *group) {
    for (int64_t m = 0; m < group->count; m++) {
        const int64_t to = group->devices[m], from = collective->sources[to];
        if (from < 0) continue;
        if (is_here(builder->span, from)) builder->is_peer[builder->span->processes[to]] = true;
        if (is_here(builder->span, to)) builder->is_peer[builder->span->processes[from]] = true;
    }
}

// Counts a group's local members. If there are any, the processes of the other members become peers.
static void read_group(SpanBuilder *builder, const CpuCollective *collective, const CpuCollectiveGroup *group,
                       int32_t *members) {
    for (int64_t m = 0; m < group->count; m++) *members += is_here(builder->span, group->devices[m]);
    if (collective->opcode == HLO_OP_COLLECTIVE_PERMUTE) {
        add_permute_peers(builder, collective, group);
        return;
    }
    for (int64_t m = 0; *members && !group->is_left_out && m < group->count; m++)
        builder->is_peer[builder->span->processes[group->devices[m]]] = true;
}

static HloStatus read_collectives(SpanBuilder *builder) {
    const CpuExecutable *executable = builder->executable;
    CpuSpan *span = builder->span;
    for (int32_t i = 0; i < executable->collective_count; i++)
        span->rendezvous_count += executable->collectives[i]->group_count;
    HLO_FAIL_IF(span->rendezvous_count >= CPU_MESSAGE_INDEX_LIMIT, HLO_UNIMPLEMENTED,
                "%lld groups of collectives in a program of several processes", (long long)span->rendezvous_count);
    span->members = hlo_allocate_zeroed((size_t)span->rendezvous_count + 1, sizeof *span->members);
    if (!span->members) return no_memory();
    int32_t *next = span->members;
    for (int32_t i = 0; i < executable->collective_count; i++)
        for (int64_t g = 0; g < executable->collectives[i]->group_count; g++)
            read_group(builder, executable->collectives[i], &executable->collectives[i]->groups[g], next++);
    return HLO_SUCCESS;
}

// ---- messages

static int compare_routes(const void *a, const void *b) {
    const CpuSpanRoute *x = a, *y = b;
    if (x->channel != y->channel) return x->channel < y->channel ? -1 : 1;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return (x->target > y->target) - (x->target < y->target);
}

static HloStatus add_route(SpanBuilder *builder, CpuSpanRoute route) {
    CpuSpan *span = builder->span;
    if (span->route_count == builder->route_capacity) {
        const int64_t capacity = builder->route_capacity ? 2 * builder->route_capacity : 16;
        CpuSpanRoute *more = hlo_allocate((size_t)capacity * sizeof *more);
        if (!more) return no_memory();
        if (span->route_count) memcpy(more, span->routes, (size_t)span->route_count * sizeof *more);
        hlo_free(span->routes);
        span->routes = more;
        builder->route_capacity = capacity;
    }
    span->routes[span->route_count++] = route;
    return HLO_SUCCESS;
}

// Adds the routes of a send between processes; a receive takes a route that some send has.
static HloStatus read_send(SpanBuilder *builder, const CpuThunk *thunk) {
    const CpuP2pTransfer *peer = thunk->kernel;
    CpuSpan *span = builder->span;
    HLO_FAIL_IF(!peer->has_pairs, HLO_UNIMPLEMENTED,
                "%%%s: channel %lld has no source_target_pairs, which a program of several processes needs",
                thunk->name, (long long)peer->channel);
    for (int64_t source = 0; source < span->device_count; source++) {
        for (const int64_t *target = peer->targets[source]; *target >= 0; target++) {
            if (span->processes[source] == span->processes[*target]) continue;
            HLO_TRY(add_route(builder, (CpuSpanRoute){peer->channel, source, *target}));
            if (is_here(span, source)) builder->is_peer[span->processes[*target]] = true;
            if (is_here(span, *target)) builder->is_peer[span->processes[source]] = true;
        }
    }
    return HLO_SUCCESS;
}

static HloStatus read_thunks(SpanBuilder *builder, const CpuThunkList *list) {
    for (int64_t i = 0; i < list->count; i++) {
        const CpuThunk *thunk = &list->thunks[i];
        if (thunk->kind == CPU_STEP_SEND || thunk->kind == CPU_STEP_RECEIVE) HLO_TRY(read_send(builder, thunk));
        for (int32_t r = 0; r < thunk->region_count; r++) HLO_TRY(read_thunks(builder, &thunk->regions[r]));
    }
    return HLO_SUCCESS;
}

static HloStatus number_routes(CpuSpan *span) {
    if (span->route_count == 0) return HLO_SUCCESS;
    qsort(span->routes, (size_t)span->route_count, sizeof *span->routes, compare_routes);
    int64_t kept = 1;
    for (int64_t i = 1; i < span->route_count; i++)
        if (compare_routes(&span->routes[kept - 1], &span->routes[i]) != 0) span->routes[kept++] = span->routes[i];
    span->route_count = kept;
    HLO_FAIL_IF(kept >= CPU_MESSAGE_INDEX_LIMIT, HLO_UNIMPLEMENTED, "%lld routes of messages between processes",
                (long long)kept);
    return HLO_SUCCESS;
}

int64_t cpu_span_route(const CpuSpan *span, int64_t channel, int64_t source, int64_t target) {
    const CpuSpanRoute key = {channel, source, target};
    if (!span->route_count) return -1;
    const CpuSpanRoute *found =
        bsearch(&key, span->routes, (size_t)span->route_count, sizeof *span->routes, compare_routes);
    return found ? found - span->routes : -1;
}

// ---- making and freeing

static HloStatus read_devices(SpanBuilder *builder, const int64_t *processes) {
    CpuSpan *span = builder->span;
    const size_t count = (size_t)span->device_count;
    span->processes = hlo_allocate(count * sizeof *span->processes);
    span->elsewhere = hlo_allocate(count * sizeof *span->elsewhere);
    if (!span->processes || !span->elsewhere) return no_memory();
    for (int64_t d = 0; d < span->device_count; d++) {
        span->processes[d] = (int32_t)processes[d];
        span->elsewhere[d] = processes[d] != span->process;
        if (!span->elsewhere[d]) span->local_count++;
        if (processes[d] >= builder->process_limit) builder->process_limit = processes[d] + 1;
    }
    builder->is_peer = hlo_allocate_zeroed((size_t)builder->process_limit + 1, sizeof(bool));
    return builder->is_peer ? HLO_SUCCESS : no_memory();
}

static HloStatus list_peers(SpanBuilder *builder) {
    CpuSpan *span = builder->span;
    span->peers = hlo_allocate((size_t)(builder->process_limit + 1) * sizeof *span->peers);
    if (!span->peers) return no_memory();
    for (int64_t p = 0; p < builder->process_limit; p++)
        if (builder->is_peer[p] && p != span->process) span->peers[span->peer_count++] = p;
    return HLO_SUCCESS;
}

HloStatus cpu_span_new(const CpuExecutable *executable, const int64_t *processes, int64_t process, CpuSpan **result) {
    assert(executable && processes && result);
    const int64_t devices = executable->replica_count * executable->partition_count;
    *result = NULL;
    bool all_here = true;
    for (int64_t d = 0; d < devices; d++) all_here = all_here && processes[d] == process;
    if (all_here) return HLO_SUCCESS;
    CpuSpan *span = hlo_allocate_zeroed(1, sizeof *span);
    if (!span) return no_memory();
    span->process = process;
    span->device_count = devices;
    SpanBuilder builder = {.executable = executable, .span = span};
    HloStatus status = read_devices(&builder, processes);
    if (!status) status = read_collectives(&builder);
    if (!status) status = read_thunks(&builder, &executable->entry);
    if (!status) status = number_routes(span);
    if (!status) status = list_peers(&builder);
    hlo_free(builder.is_peer);
    if (status)
        cpu_span_free(span);
    else
        *result = span;
    return status;
}

void cpu_span_free(CpuSpan *span) {
    if (!span) return;
    hlo_free(span->processes);
    hlo_free(span->elsewhere);
    hlo_free(span->members);
    hlo_free(span->peers);
    hlo_free(span->routes);
    hlo_free(span);
}

bool cpu_span_has_peers(const CpuSpan *span) {
    return span && span->peer_count > 0;
}
