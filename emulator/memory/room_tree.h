// SPDX-License-Identifier: Apache-2.0
// Finds, among the places of a computation's results, the first one where a temporary may be. A program has thousands
// of both, and most places are taken: a tree over the places, with bounds of what is free in each part of it, skips
// those that have no room.
#ifndef MESHLO_EMULATOR_MEMORY_ROOM_TREE_H_
#define MESHLO_EMULATOR_MEMORY_ROOM_TREE_H_

#include "hlo/base/memory.h"

// What is free in a place. Times are the numbers of kernels.
typedef struct EmuRoomBounds {
    int64_t bytes;                 // of the largest temporary that fits
    int64_t free_until;            // the time before which a temporary must have been read for the last time
    int64_t taken_from, taken_to;  // one interval, both ends included, in which it is taken; from > to: none is known
} EmuRoomBounds;

typedef struct EmuRoomTree EmuRoomTree;

// A tree of `count` places, allocated in `arena`. `bounds` is copied. Memory errors jump to hlo_protect().
EmuRoomTree *emu_room_tree_new(HloArena *arena, const EmuRoomBounds *bounds, int64_t count);
// Changes the bounds of a place.
void emu_room_tree_set(EmuRoomTree *tree, int64_t place, EmuRoomBounds bounds);
// Returns the first place from number `from` on whose bounds leave room for a temporary of `bytes` that is alive from
// time `first` to `last`; -1 if there is none.
int64_t emu_room_tree_find(const EmuRoomTree *tree, int64_t from, int64_t bytes, int64_t first, int64_t last);

#endif
