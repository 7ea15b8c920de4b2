// SPDX-License-Identifier: Apache-2.0
#include "tools/hosts.h"

#include <string.h>

// The engine's messages have tag 0 and tags from 2^47 on.
enum { kResultTag = 1 };

HloStatus cli_hosts_join(CliContext *context, const char *machine, TargetClient **client, CliHosts *hosts) {
    TransportEnvironment environment;
    *hosts = (CliHosts){.process_count = 1};
    *client = NULL;
    HLO_TRY(transport_environment_read(context->arena, NULL, NULL, &environment));
    if (environment.is_alone) environment.plays_all_hosts = true;  // one host of a slice is not what a program runs on
    const TargetJoinOptions options = {.environment = &environment, .transport = &hosts->transport};
    context->stage = CLI_STAGE_USAGE;
    HLO_TRY(target_client_join(machine, &options, client));
    if (!hosts->transport) return HLO_SUCCESS;
    hosts->process_count = transport_process_count(hosts->transport);
    hosts->process_index = transport_process_index(hosts->transport);
    return HLO_SUCCESS;
}

HloStatus cli_hosts_refuse(CliContext *context, const char *what) {
    TransportEnvironment environment;
    HLO_TRY(transport_environment_read(context->arena, NULL, NULL, &environment));
    if (environment.process_count == 1) return HLO_SUCCESS;
    return cli_usage_error(context, "%s runs in one process, but %s has %lld", what, environment.source,
                           (long long)environment.process_count);
}

static HloStatus transfer(const CliHosts *hosts, int64_t peer, bool sends, void *data, int64_t bytes) {
    TransportRequest *request;
    if (sends)
        HLO_TRY(transport_send(hosts->transport, peer, kResultTag, data, bytes, &request));
    else
        HLO_TRY(transport_receive(hosts->transport, peer, kResultTag, data, bytes, &request));
    return transport_finish(request);
}

// Sizes of dynamic dimensions are not known before: they are sent first.
HloStatus cli_hosts_bring(const CliHosts *hosts, const TargetDevice *device, const HloShape *local, HloArena *arena,
                          HloLiteral **part) {
    const int64_t owner = device->process_index;
    const bool sends = hosts->process_index != 0;
    if (hosts->process_count == 1 || owner == 0 || (sends && owner != hosts->process_index)) return HLO_SUCCESS;
    const int64_t peer = sends ? 0 : owner;
    const HloShape *shape = sends ? (*part)->shape : local;
    if (hlo_shape_is_array(local) && hlo_shape_is_dynamic(local)) {
        int64_t *dims = HLO_ARENA_NEW(arena, int64_t, local->rank + 1);
        if (sends) memcpy(dims, shape->dims, (size_t)local->rank * sizeof(*dims));
        HLO_TRY(transfer(hosts, peer, sends, dims, local->rank * (int64_t)sizeof(*dims)));
        for (int32_t d = 0; d < local->rank; d++)
            HLO_FAIL_IF(dims[d] < 0 || dims[d] > local->dims[d], HLO_INTERNAL,
                        "a result of process %lld is larger than its bound", (long long)owner);
        shape = hlo_shape_array(arena, local->type, dims, local->rank);
    }
    if (!sends) {
        *part = hlo_literal_new(shape);
        HLO_FAIL_IF(!*part, HLO_RESOURCE_EXHAUSTED, "out of memory for the results");
    }
    return transfer(hosts, peer, sends, (*part)->data, hlo_shape_bytes(shape));
}
