// SPDX-License-Identifier: Apache-2.0
// Any bytes as the XML description of a pod.
#include "emulator/pod_grammar.h"
#include "emulator/slice/topology_build.h"
#include "tests/fuzz/named_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Reading {
    HloArena *arena;
    const char *path;
    EmuPodGrammar *grammar;
} Reading;

static HloStatus read_description(void *argument) {
    const Reading *reading = argument;
    EmuTopology *topology = NULL;  // lives in the arena
    return emu_topology_read_xml(reading->arena, reading->path, reading->grammar, &topology);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static EmuPodGrammar *grammar;  // one a process: parsing it takes a hundred times as long as reading a description
    if (!grammar) grammar = emu_pod_grammar_new();
    Reading reading = {hlo_arena_new(), fuzz_file(data, size), grammar};
    if (!grammar || !reading.arena) abort();
    hlo_status_free(hlo_protect(read_description, &reading));
    hlo_arena_free(reading.arena);
    return 0;
}
