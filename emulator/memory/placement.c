// SPDX-License-Identifier: Apache-2.0
// Decides where the buffers of a computation are: results, also as copies in the layout that callers expect;
// temporaries in VMEM (vmem.c) or in the memory of results that are made later, as XLA's buffer assignment does.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/layout/layout.h"
#include "emulator/layout/stored.h"
#include "emulator/memory/liveness.h"
#include "emulator/memory/room_tree.h"

// Makes a result of the entry a copy, where the kernel makes it in another layout than the caller expects.
static void copy_result(EmuLiveness *liveness, EmuLive *result) {
    const HloShape *made = result->buffer.shape, *wanted = result->buffer.instruction->shape;
    if (!hlo_shape_is_array(wanted) || emu_same_minor(liveness->arena, liveness->chip, made, wanted)) return;
    result->is_copied = true;
    result->buffer.shape = wanted;
    result->buffer.bytes = emu_hbm_bytes(liveness->chip, wanted);
    emu_liveness_add_copy(liveness, result, made, result->first, result->last);
}

// The results of a called computation are buffers of the caller and do not count here.
static void mark_results(EmuLiveness *liveness) {
    const EmuLeaves *results = emu_liveness_leaves(liveness, liveness->plan->computation->root);
    const bool is_entry = liveness->plan->computation == liveness->program->module->entry;
    for (int64_t i = 0; i < results->count; i++) {
        EmuLive *result = results->items[i];
        if (result->buffer.kind != EMU_BUFFER_TEMPORARY) continue;
        result->buffer.kind = EMU_BUFFER_OUTPUT;
        if (is_entry && liveness->chip) copy_result(liveness, result);
    }
}

// Whether units beside the cores make a copy, which then only takes memory's time.
static bool is_offloaded(const EmuChip *chip, const EmuLive *live) {
    const int64_t least = chip->copy_offload_bytes;
    return least > 0 && !live->in_vmem && emu_padded_bytes(chip, live->copied) >= least &&
           emu_padded_bytes(chip, live->buffer.shape) >= least;
}

// Notes the copies for the kernels that need them: what is read or written in HBM beside the kernel's own, and the time
// of the vector unit. A kernel counts the array itself, which only the copying reads (or writes, of a result): the copy
// is written and read beside that, if it is in HBM.
static void note_copies(EmuLiveness *liveness) {
    EmuProgram *program = liveness->program;
    for (int64_t i = 0; i < liveness->plan->order_count; i++)
        program->copies[liveness->plan->order[i]->id] = (EmuCopies){0};
    for (int64_t i = 0; i < liveness->buffers.count; i++) {
        const EmuLive *live = liveness->buffers.items[i];
        if (!live->copied || live->first >= liveness->plan->kernel_count) continue;
        EmuCopies *copies = &program->copies[liveness->plan->kernels[live->first].members[0]->id];
        const HloShape *from = live->copied, *to = live->buffer.shape;
        if (!live->in_vmem) copies->bytes += 2 * (double)live->buffer.bytes;
        const EmuCopyKind kind = {.turns = !emu_same_lanes(liveness->arena, liveness->chip, from, to),
                                  .in_hbm = !live->in_vmem};
        if (!is_offloaded(liveness->chip, live)) copies->cycles += emu_copy_cycles(liveness->chip, from, to, kind);
    }
}

bool *emu_liveness_aliased_results(const EmuLiveness *liveness) {
    const HloModule *module = liveness->program->module;
    const HloShape *root = module->entry->root->shape;
    bool *aliased = HLO_ARENA_NEW(liveness->arena, bool, hlo_shape_leaf_count(root));
    for (int64_t i = 0; i < module->aliases.count; i++)
        aliased[hlo_shape_leaf_number(root, module->aliases.items[i].output_index)] = true;
    return aliased;
}

// The memory of a result, and the temporaries that have been put there: the first one that is made is the first.
typedef struct Room {
    const EmuLive *result;
    EmuLiveVector guests;
} Room;

// Largest first, then the one that is made first.
static int compare_sizes(const void *left, const void *right) {
    const EmuLive *a = *(EmuLive *const *)left, *b = *(EmuLive *const *)right;
    if (a->buffer.bytes != b->buffer.bytes) return a->buffer.bytes > b->buffer.bytes ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->buffer.instruction->id > b->buffer.instruction->id) -
           (a->buffer.instruction->id < b->buffer.instruction->id);
}

// The number of guests that are made no later than at `time`.
static int64_t guests_until(const Room *room, int64_t time) {
    int64_t low = 0, high = room->guests.count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (room->guests.items[middle]->first <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// No two guests are alive at the same time: of those that are made before the end of another buffer, the last one is
// the last to go.
static bool has_room(const Room *room, const EmuLive *live) {
    const EmuLive *result = room->result;
    const bool is_made_in_it = live->copied && live->buffer.instruction == result->buffer.instruction;
    const bool is_later = result->is_copied && !is_made_in_it;
    const int64_t written = result->first + is_later;
    if (live->buffer.bytes > result->buffer.bytes || live->last >= written) return false;
    const int64_t before = guests_until(room, live->last);
    return !before || room->guests.items[before - 1]->last < live->first;
}

static void add_guest(HloArena *arena, Room *room, EmuLive *guest) {
    const int64_t at = guests_until(room, guest->first);
    hlo_vector_push(arena, &room->guests, guest);
    EmuLive **place = &room->guests.items[at];
    memmove(place + 1, place, (size_t)(room->guests.count - 1 - at) * sizeof(*place));
    *place = guest;
}

// Notes that a temporary is in a room: of the times in which the room is taken, the bounds have the longest interval.
static void take_room(EmuRoomBounds *bounds, const EmuLive *guest) {
    if (guest->last - guest->first <= bounds->taken_to - bounds->taken_from) return;
    bounds->taken_from = guest->first;
    bounds->taken_to = guest->last;
}

// Puts each temporary into the first room that it fits.
static void place_guests(const EmuLiveness *liveness, Room *rooms, int64_t count, const EmuLiveVector *guests) {
    EmuRoomBounds *bounds = HLO_ARENA_NEW(liveness->arena, EmuRoomBounds, count);
    for (int64_t r = 0; r < count; r++) {
        const EmuLive *result = rooms[r].result;
        bounds[r] = (EmuRoomBounds){result->buffer.bytes, result->first + result->is_copied, 0, -1};
    }
    EmuRoomTree *tree = emu_room_tree_new(liveness->arena, bounds, count);
    for (int64_t i = 0; i < guests->count; i++) {
        EmuLive *guest = guests->items[i];
        int64_t r = -1;
        do {
            r = emu_room_tree_find(tree, r + 1, guest->buffer.bytes, guest->first, guest->last);
        } while (r >= 0 && !has_room(&rooms[r], guest));
        if (r < 0) continue;
        guest->in_result = true;
        add_guest(liveness->arena, &rooms[r], guest);
        take_room(&bounds[r], guest);
        emu_room_tree_set(tree, r, bounds[r]);
    }
}

// Puts temporaries, the largest first, where results will be that are made later, as XLA's buffer assignment does. The
// results in donated arguments are not free before.
static void place_in_results(EmuLiveness *liveness) {
    const HloComputation *entry = liveness->program->module->entry;
    if (liveness->plan->computation != entry) return;
    const bool *aliased = emu_liveness_aliased_results(liveness);
    const EmuLeaves *results = emu_liveness_leaves(liveness, entry->root);
    HLO_VECTOR(Room) rooms = {0};
    EmuLiveVector guests = {0};
    // A root whose leaves are not those of its shape has no aliases that could be told.
    const int64_t count = hlo_shape_leaf_count(entry->root->shape);
    for (int64_t i = 0; i < results->count && i < count; i++)
        if (results->items[i]->buffer.kind == EMU_BUFFER_OUTPUT && !aliased[i])
            hlo_vector_push(liveness->arena, &rooms, ((Room){results->items[i], {0}}));
    for (int64_t i = 0; rooms.count && i < liveness->buffers.count; i++) {
        EmuLive *live = liveness->buffers.items[i];
        if (live->buffer.kind == EMU_BUFFER_TEMPORARY && live->buffer.bytes > 0 && emu_live_takes_room(live))
            hlo_vector_push(liveness->arena, &guests, live);
    }
    if (guests.count) qsort(guests.items, (size_t)guests.count, sizeof(EmuLive *), compare_sizes);
    place_guests(liveness, rooms.items, rooms.count, &guests);
}

void emu_liveness_place(EmuLiveness *liveness) {
    mark_results(liveness);
    emu_liveness_place_in_vmem(liveness);
    place_in_results(liveness);
    note_copies(liveness);
}
