// SPDX-License-Identifier: Apache-2.0
// Any bytes as the strings of shardings: a spec over mesh axes, the sharding of an HLO text, replica groups.
#include "hlo/text/text.h"
#include "spmd_partitioner/spmd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const SpmdMeshAxis axes[] = {{"batch", 4}, {"model", 2}};
    HloArena *arena = hlo_arena_new();
    const HloSharding *sharding;
    const HloReplicaGroups *groups;
    char spec[512];
    if (arena && size < sizeof(spec)) {
        for (size_t i = 0; i < size; i++) spec[i] = (char)data[i];
        spec[size] = 0;
        for (int64_t rank = 0; rank < 4; rank++) {
            hlo_status_free(spmd_spec_parse(arena, axes, 2, spec, rank, &sharding));
        }
    }
    if (arena) {
        hlo_status_free(hlo_parse_sharding(arena, (const char *)data, size, &sharding));
        hlo_status_free(hlo_parse_replica_groups(arena, (const char *)data, size, &groups));
    }
    hlo_arena_free(arena);
    return 0;
}
