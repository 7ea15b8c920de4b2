// SPDX-License-Identifier: Apache-2.0
// The tree finds what a loop over all places finds.
#include <criterion/criterion.h>

#include "emulator/memory/room_tree.h"
#include "hlo/base/arithmetic.h"
#include "tests/support/random.h"

// Times and bytes are below this, so that many of them are equal.
enum { kMost = 12 };

static EmuRoomBounds random_bounds(Random *random) {
    EmuRoomBounds bounds = {.bytes = (int64_t)random_under(random, kMost),
                            .free_until = (int64_t)random_under(random, kMost),
                            .taken_from = (int64_t)random_under(random, kMost)};
    bounds.taken_to = bounds.taken_from + (int64_t)random_under(random, kMost) - 3;
    return bounds;
}

static int64_t find_by_loop(const EmuRoomBounds *bounds, int64_t count, int64_t from, int64_t bytes, int64_t first,
                            int64_t last) {
    for (int64_t i = from; i < count; i++) {
        const EmuRoomBounds *at = &bounds[i];
        const bool is_taken = hlo_larger(first, at->taken_from) <= hlo_smaller(last, at->taken_to);
        if (bytes <= at->bytes && last < at->free_until && !is_taken) return i;
    }
    return -1;
}

Test(room_tree, finds_what_a_loop_finds) {
    Random random = {.state = 1};
    for (int64_t count = 0; count < 40; count++) {
        HloArena *arena = hlo_arena_new();
        EmuRoomBounds bounds[40];
        for (int64_t i = 0; i < count; i++) bounds[i] = random_bounds(&random);
        EmuRoomTree *tree = emu_room_tree_new(arena, bounds, count);
        for (int turn = 0; turn < 200; turn++) {
            if (count) {
                const int64_t place = (int64_t)random_under(&random, (uint64_t)count);
                bounds[place] = random_bounds(&random);
                emu_room_tree_set(tree, place, bounds[place]);
            }
            const int64_t from = (int64_t)random_under(&random, (uint64_t)count + 1);
            const int64_t bytes = (int64_t)random_under(&random, kMost), first = (int64_t)random_under(&random, kMost);
            const int64_t last = first + (int64_t)random_under(&random, 4);
            cr_assert_eq(emu_room_tree_find(tree, from, bytes, first, last),
                         find_by_loop(bounds, count, from, bytes, first, last));
        }
        hlo_arena_free(arena);
    }
}
