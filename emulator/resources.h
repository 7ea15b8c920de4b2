// SPDX-License-Identifier: Apache-2.0
// Internal: times of what transfers use, sets of links and the engines that copy between memories.
#ifndef MESHLO_EMULATOR_RESOURCES_H_
#define MESHLO_EMULATOR_RESOURCES_H_

#include "emulator/link_sets.h"
#include "hlo/base/vector.h"

// The engines that copy between memories.
typedef enum EmuCopyEngine {
    EMU_ENGINE_TO_DEVICE,
    EMU_ENGINE_TO_HOST,
    EMU_ENGINE_ON_DEVICE,
    EMU_COPY_ENGINES
} EmuCopyEngine;

// What a transfer uses: a set of links, or an engine that copies between memories.
typedef struct EmuResource {
    int32_t set;           // its number (link_sets.h); -1: the engine
    EmuCopyEngine engine;  // if there is no set
} EmuResource;

// The time of the transfers that use one set of links.
typedef struct EmuSetTime {
    int32_t set;
    int64_t time;
} EmuSetTime;

// Times in picoseconds: when resources are free again, or for how long they are busy. Zeroed, there are none. The
// functions take the arena in which it grows; memory errors jump to hlo_protect().
typedef struct EmuResources {
    HLO_VECTOR(EmuSetTime) links;  // each set once; of those that are free again there need be none
    int64_t engines[EMU_COPY_ENGINES];
} EmuResources;

// The time of a resource, 0 at first. Valid until the next set is added.
int64_t *emu_resources_at(HloArena *arena, EmuResources *times, EmuResource resource);
// A copy that can change by itself.
EmuResources emu_resources_copy(HloArena *arena, const EmuResources *times);

// When all links of a set are free, `now` at the earliest. Forgets sets that are free at `now`, which must not go back.
int64_t emu_resources_free(EmuResources *free_at, const EmuLinkSets *sets, int32_t set, int64_t now);
// Whether something is not free at `now`.
bool emu_resources_taken(const EmuResources *free_at, int64_t now);
// The latest time of the engine, or of what shares a link with the set; 0 if nothing does.
int64_t emu_resources_latest(const EmuResources *times, const EmuLinkSets *sets, EmuResource resource);
// Makes each time at least that of `other`.
void emu_resources_raise(HloArena *arena, EmuResources *times, const EmuResources *other);

// Adds `count` times the times of `other`.
void emu_resources_add(HloArena *arena, EmuResources *times, const EmuResources *other, int64_t count);
// The largest sum of times over the sets that have a link, of the links below `link_limit`.
int64_t emu_resources_busiest_link(HloArena *arena, const EmuResources *busy, const EmuLinkSets *sets,
                                   int64_t link_limit);

#endif
