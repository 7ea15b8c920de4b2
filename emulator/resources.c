// SPDX-License-Identifier: Apache-2.0
#include "emulator/resources.h"

#include <assert.h>

#include "emulator/amount.h"
#include "hlo/base/arithmetic.h"

static int64_t *time_of_set(HloArena *arena, EmuResources *times, int32_t set) {
    assert(set >= 0);
    for (int64_t i = 0; i < times->links.count; i++)
        if (times->links.items[i].set == set) return &times->links.items[i].time;
    hlo_vector_push(arena, &times->links, ((EmuSetTime){.set = set}));
    return &times->links.items[times->links.count - 1].time;
}

int64_t *emu_resources_at(HloArena *arena, EmuResources *times, EmuResource resource) {
    return resource.set < 0 ? &times->engines[resource.engine] : time_of_set(arena, times, resource.set);
}

EmuResources emu_resources_copy(HloArena *arena, const EmuResources *times) {
    EmuResources copy = *times;
    const size_t size = (size_t)times->links.count * sizeof(*times->links.items);
    copy.links.items = hlo_arena_copy(arena, times->links.items, size);
    copy.links.capacity = times->links.count;
    return copy;
}

int64_t emu_resources_free(EmuResources *free_at, const EmuLinkSets *sets, int32_t set, int64_t now) {
    int64_t kept = 0, latest = now;
    for (int64_t i = 0; i < free_at->links.count; i++) {
        const EmuSetTime at = free_at->links.items[i];
        if (at.time <= now) continue;
        free_at->links.items[kept++] = at;
        if (at.time > latest && emu_link_sets_meet(sets, set, at.set)) latest = at.time;
    }
    free_at->links.count = kept;
    return latest;
}

bool emu_resources_taken(const EmuResources *free_at, int64_t now) {
    for (int64_t i = 0; i < free_at->links.count; i++)
        if (free_at->links.items[i].time > now) return true;
    for (int engine = 0; engine < EMU_COPY_ENGINES; engine++)
        if (free_at->engines[engine] > now) return true;
    return false;
}

int64_t emu_resources_latest(const EmuResources *times, const EmuLinkSets *sets, EmuResource resource) {
    int64_t latest = 0;
    if (resource.set < 0) return times->engines[resource.engine];
    for (int64_t i = 0; i < times->links.count; i++) {
        const EmuSetTime at = times->links.items[i];
        if (at.time > latest && emu_link_sets_meet(sets, resource.set, at.set)) latest = at.time;
    }
    return latest;
}

void emu_resources_raise(HloArena *arena, EmuResources *times, const EmuResources *other) {
    for (int64_t i = 0; i < other->links.count; i++) {
        int64_t *time = time_of_set(arena, times, other->links.items[i].set);
        *time = hlo_larger(*time, other->links.items[i].time);
    }
    for (int engine = 0; engine < EMU_COPY_ENGINES; engine++)
        times->engines[engine] = hlo_larger(times->engines[engine], other->engines[engine]);
}

void emu_resources_add(HloArena *arena, EmuResources *times, const EmuResources *other, int64_t count) {
    for (int64_t i = 0; i < other->links.count; i++) {
        int64_t *time = time_of_set(arena, times, other->links.items[i].set);
        *time = emu_add(*time, emu_times(other->links.items[i].time, (double)count));
    }
    for (int engine = 0; engine < EMU_COPY_ENGINES; engine++)
        times->engines[engine] = emu_add(times->engines[engine], emu_times(other->engines[engine], (double)count));
}

int64_t emu_resources_busiest_link(HloArena *arena, const EmuResources *busy, const EmuLinkSets *sets,
                                   int64_t link_limit) {
    int64_t busiest = 0;
    if (!busy->links.count) return 0;
    int64_t *sums = HLO_ARENA_NEW(arena, int64_t, link_limit);
    for (int64_t i = 0; i < busy->links.count; i++)
        emu_link_sets_add(sets, busy->links.items[i].set, busy->links.items[i].time, sums);
    for (int64_t link = 0; link < link_limit; link++) busiest = hlo_larger(busiest, sums[link]);
    return busiest;
}
