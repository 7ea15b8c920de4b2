// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as the name of a slice, and as faults of one.
#include <string.h>

#include "emulator/emulator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char spec[256];
    if (size >= sizeof(spec)) return 0;
    memcpy(spec, data, size);
    spec[size] = 0;
    if (strstr(spec, ".xml")) return 0;  // names a file
    EmuTopology *topology = NULL;
    hlo_status_free(emu_topology_parse(spec, &topology));
    emu_topology_free(topology);
    hlo_status_free(emu_topology_parse("v2-8", &topology));
    HloArena *arena = hlo_arena_new();
    if (topology && arena) {
        EmuFaults faults;
        hlo_status_free(emu_faults_parse(arena, topology, spec, &faults));
    }
    hlo_arena_free(arena);
    emu_topology_free(topology);
    return 0;
}
