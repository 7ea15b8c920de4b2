// SPDX-License-Identifier: Apache-2.0
// Any bytes as the XML description of a pod.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "emulator/emulator.h"
#include "hlo/base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[64];  // one file a process, written again for each input
    if (!*path) snprintf(path, sizeof(path), "/tmp/meshlo-fuzz-%lld.xml", (long long)getpid());
    if (hlo_file_write(path, data, size)) abort();
    EmuTopology *topology = NULL;
    hlo_status_free(emu_topology_parse(path, &topology));
    emu_topology_free(topology);
    unlink(path);
    return 0;
}
