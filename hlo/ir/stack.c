// SPDX-License-Identifier: Apache-2.0
// Rewrites the stack tables of a module with the rows that instructions refer to.
//
// Metadata names a frame, a frame names its location and the frame that called it, a location names its file and
// function, all by row number. XLA keeps only the rows that instructions use, numbered by first use; so do we, after
// reading a program and before writing one that passes have changed (passes leave the tables unchanged, since numbers
// in metadata are row numbers). Equal rows are merged. O(instructions + rows).
#include <assert.h>
#include <string.h>

#include "hlo/ir/module.h"

typedef struct Renumbering {
    HloArena *arena, *scratch;  // of the new tables, and of the maps that find their rows
    const HloStackTables *from;
    HloStackTables to;
    HloStringMap files, functions, places, frames;  // content -> new row number
    int64_t *frame_of;                              // new number by old one; 0: not yet, -1: invalid
} Renumbering;

// The number of `key` in a map of rows, adding it as number `next` if it is new. Rows are counted from 1, so that a
// number stored as a pointer is never NULL.
static int64_t number_of(Renumbering *work, HloStringMap *map, const void *key, size_t length, int64_t next) {
    assert(next > 0);
    void *found = hlo_string_map_get(map, key, length);
    if (found) return (int64_t)(intptr_t)found;
    hlo_string_map_set(work->scratch, map, hlo_arena_copy(work->scratch, key, length), length, (void *)(intptr_t)next);
    return next;
}

// Invalid numbers mean an empty name.
static int64_t add_string(Renumbering *work, HloStringMap *map, HloStringVector *to, const HloStringVector *from,
                          int64_t id) {
    const char *string = id >= 1 && id <= from->count ? from->items[id - 1] : "";
    int64_t number = number_of(work, map, string, strlen(string) + 1, to->count + 1);
    if (number > to->count) hlo_vector_push(work->arena, to, string);
    return number;
}

// Equal locations share a row.
static int64_t add_place(Renumbering *work, int64_t id) {
    assert(id >= 1 && id <= work->from->locations.count);
    HloFileLocation place = work->from->locations.items[id - 1];
    place.file_name_id =
        add_string(work, &work->files, &work->to.file_names, &work->from->file_names, place.file_name_id);
    place.function_name_id = add_string(work, &work->functions, &work->to.function_names, &work->from->function_names,
                                        place.function_name_id);
    int64_t number = number_of(work, &work->places, &place, sizeof(place), work->to.locations.count + 1);
    if (number > work->to.locations.count) hlo_vector_push(work->arena, &work->to.locations, place);
    return number;
}

// The frames on the path from a frame are marked with its number. A path that reaches its own mark contains a cycle,
// which ends at its last frame; a path that reaches an older mark continues as a path that is already free of cycles.
void hlo_stack_end_cycles(HloStackTables *stack, HloArena *scratch) {
    assert(stack && scratch);
    const int64_t count = stack->frames.count;
    int64_t *mark = HLO_ARENA_NEW(scratch, int64_t, count + 1);
    for (int64_t start = 1; start <= count; start++) {
        int64_t last = 0, id = start;
        while (id >= 1 && id <= count && mark[id] == 0) {
            mark[id] = start;
            last = id;
            id = stack->frames.items[id - 1].parent_frame_id;
        }
        if (last && id >= 1 && id <= count && mark[id] == start) stack->frames.items[last - 1].parent_frame_id = 0;
    }
}

// The new number of a frame, after adding its ancestors. 0 if it, or an ancestor, does not exist. A loop instead of a
// recursion, since the stacks of recursive programs are deep.
static int64_t add_frame(Renumbering *work, int64_t id) {
    HloInt64Vector path = {0};
    int64_t frame_count = work->from->frames.count;
    int64_t parent = 0;
    while (id >= 1 && id <= frame_count && work->frame_of[id] == 0) {
        if (path.count > frame_count) break;
        hlo_vector_push(work->scratch, &path, id);
        id = work->from->frames.items[id - 1].parent_frame_id;
    }
    // A frame that is its own ancestor is invalid, like one with an ancestor that does not exist.
    bool valid = id == 0 || (id >= 1 && id <= frame_count && work->frame_of[id] > 0);
    if (id >= 1 && valid) parent = work->frame_of[id];
    for (int64_t i = path.count - 1; i >= 0; i--) {
        int64_t place = work->from->frames.items[path.items[i] - 1].file_location_id;
        valid = valid && place >= 1 && place <= work->from->locations.count;
        if (!valid) {
            work->frame_of[path.items[i]] = -1;
            continue;
        }
        HloStackFrame frame = {.file_location_id = add_place(work, place), .parent_frame_id = parent};
        int64_t number = number_of(work, &work->frames, &frame, sizeof(frame), work->to.frames.count + 1);
        if (number > work->to.frames.count) hlo_vector_push(work->arena, &work->to.frames, frame);
        work->frame_of[path.items[i]] = parent = number;
    }
    return valid ? parent : 0;
}

// Instructions may share metadata, so each gets its own copy if the number changes. Frames that do not exist become 0.
void hlo_module_renumber_frames(HloModule *module) {
    assert(module);
    HloStackTables from = module->stack;
    HloArena *scratch = hlo_arena_scratch_new();
    Renumbering work = {.arena = module->arena, .scratch = scratch, .from = &from};
    work.frame_of = HLO_ARENA_NEW(scratch, int64_t, from.frames.count + 1);
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            const int64_t id = at->metadata ? at->metadata->stack_frame_id : 0;
            const bool known = id >= 1 && id <= from.frames.count;
            const int64_t number = !known ? 0 : work.frame_of[id] > 0 ? work.frame_of[id] : add_frame(&work, id);
            if (id == number) continue;
            HloMetadata *metadata = hlo_arena_copy(module->arena, at->metadata, sizeof *metadata);
            metadata->stack_frame_id = number;
            at->metadata = metadata;
        }
    }
    module->stack = work.to;
    hlo_arena_free(scratch);
}
