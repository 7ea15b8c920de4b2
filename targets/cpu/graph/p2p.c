// SPDX-License-Identifier: Apache-2.0
// Resolves the ends of channels: source_target_pairs as devices.
#include "targets/cpu/graph/p2p.h"

#include "hlo/ir/transfer.h"

// The pairs of a route, indexed by number: the targets of number n are targets[first[n]] up to targets[first[n + 1]],
// in the order of the pairs; sources[n] is the first that sends to n, or -1.
typedef struct RouteIndex {
    int64_t *first, *targets, *sources;
} RouteIndex;

static RouteIndex index_route(HloArena *arena, const HloTransferRoute *route, int64_t numbers) {
    RouteIndex index = {HLO_ARENA_NEW(arena, int64_t, numbers + 2), HLO_ARENA_NEW(arena, int64_t, route->pairs.count),
                        HLO_ARENA_NEW(arena, int64_t, numbers)};
    int64_t *next = index.first + 1;  // while targets are written, next[n] is the index of the next one of n
    for (int64_t n = 0; n < numbers; n++) index.sources[n] = -1;
    for (int64_t i = 0; i < route->pairs.count; i++) next[route->pairs.items[i].source + 1]++;
    for (int64_t n = 1; n <= numbers; n++) next[n] += next[n - 1];
    for (int64_t i = 0; i < route->pairs.count; i++) {
        const HloPair pair = route->pairs.items[i];
        index.targets[next[pair.source]++] = pair.target;
        if (index.sources[pair.target] < 0) index.sources[pair.target] = pair.source;
    }
    return index;
}

// Pairs are resolved to devices once, at compile time, so that a running send looks its targets up by its own number;
// lists end with -1. With several partitions the pairs number partitions, and each replica has the same pairs among its
// own; with one, they number the replicas (hlo_transfer_device()).
HloStatus cpu_p2p_transfer_of(HloArena *arena, const CpuProgram *program, const CpuNode *node, int64_t bytes,
                              const CpuP2pTransfer **result) {
    const int64_t partitions = program->partition_count;
    const int64_t devices = program->replica_count * partitions;
    HloTransferRoute route;
    HLO_TRY(hlo_transfer_route(arena, node->instruction, &route));
    const int64_t numbers = partitions > 1 ? partitions : devices;
    for (int64_t i = 0; i < route.pairs.count; i++) {
        const HloPair pair = route.pairs.items[i];
        HLO_FAIL_IF(pair.source >= numbers || pair.target >= numbers, HLO_INVALID_ARGUMENT,
                    "%%%s: pair {%lld,%lld} names a device outside of the %lld devices", node->instruction->name,
                    (long long)pair.source, (long long)pair.target, (long long)numbers);
    }
    CpuP2pTransfer *peer = HLO_ARENA_NEW(arena, CpuP2pTransfer, 1);
    *peer = (CpuP2pTransfer){
        .channel = route.channel, .bytes = bytes, .sends = node->opcode == HLO_OP_SEND, .has_pairs = route.has_pairs};
    *result = peer;
    const RouteIndex index = index_route(arena, &route, numbers);
    int64_t *sources = HLO_ARENA_NEW(arena, int64_t, devices);
    int64_t *list = HLO_ARENA_NEW(arena, int64_t, route.pairs.count * (devices / numbers) + devices);
    const int64_t **targets = HLO_ARENA_NEW(arena, const int64_t *, devices);
    for (int64_t d = 0; d < devices; d++) {
        const int64_t number = hlo_transfer_number(d, partitions), from = index.sources[number];
        sources[d] = from < 0 ? -1 : hlo_transfer_device(from, d, partitions);
        targets[d] = list;
        for (int64_t i = index.first[number]; i < index.first[number + 1]; i++)
            *list++ = hlo_transfer_device(index.targets[i], d, partitions);
        *list++ = -1;
    }
    peer->sources = sources;
    peer->targets = targets;
    return HLO_SUCCESS;
}
