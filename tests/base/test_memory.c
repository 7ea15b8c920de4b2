// SPDX-License-Identifier: Apache-2.0
// Arenas and maps: memory of every size is aligned, apart and given back; keys are found however similar they are.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/map.h"
#include "hlo/base/memory.h"
#include "hlo/base/text.h"

// Sizes around the limits of blocks and of huge pages.
static const size_t sizes[] = {0,
                               1,
                               15,
                               16,
                               4000,
                               4096,
                               (1 << 20) - 1,
                               1 << 20,
                               1 << 21,
                               3 << 20,
                               (1 << 21) - 32,
                               (1 << 21) + 1,
                               (1 << 23) + 5,
                               9 << 20};

Test(memory, arena_blocks_of_every_size) {
    HloArena *arena = hlo_arena_new();
    cr_assert(arena);
    unsigned char *all[HLO_COUNT_OF(sizes)];
    size_t total = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(sizes); i++) {
        all[i] = hlo_arena_allocate(arena, sizes[i]);
        cr_assert_eq((uintptr_t)all[i] % 16, 0, "size %zu", sizes[i]);
        for (size_t j = 0; j < sizes[i]; j += 997) cr_assert_eq(all[i][j], 0, "size %zu", sizes[i]);
        memset(all[i], (int)i + 1, sizes[i]);
        total += sizes[i];
    }
    cr_assert_geq(hlo_arena_bytes(arena), total);
    for (size_t i = 0; i < HLO_COUNT_OF(sizes); i++) {
        for (size_t j = 0; j < sizes[i]; j += 997) cr_assert_eq(all[i][j], i + 1, "size %zu was overwritten", sizes[i]);
    }
    hlo_arena_free(arena);
}

Test(memory, arena_takes_back_what_came_after_a_mark) {
    HloArena *arena = hlo_arena_new();
    char *kept = hlo_arena_text(arena, "kept");
    const size_t before = hlo_arena_bytes(arena);
    const HloArenaMark mark = hlo_arena_mark(arena);
    for (int i = 0; i < 100; i++) memset(hlo_arena_allocate(arena, 100000), 1, 100000);
    cr_assert_gt(hlo_arena_bytes(arena), before);
    hlo_arena_reset(arena, mark);
    cr_assert_eq(hlo_arena_bytes(arena), before);
    cr_assert_str_eq(kept, "kept");
    hlo_arena_free(arena);
}

// bug: an arena that had been reset often requested two megabytes whenever it needed a few bytes.
Test(memory, an_arena_that_is_reset_often_stays_small) {
    HloArena *arena = hlo_arena_new();
    hlo_arena_text(arena, "kept");
    const HloArenaMark mark = hlo_arena_mark(arena);
    for (int i = 0; i < 100; i++) {
        memset(hlo_arena_allocate(arena, 8000), 1, 8000);
        cr_assert_leq(hlo_arena_bytes(arena), (size_t)1 << 16, "after %d resets", i);
        hlo_arena_reset(arena, mark);
    }
    hlo_arena_free(arena);
}

static HloStatus fill(void *argument) {
    HloArena *arena = argument;
    for (int i = 0; i < 1000; i++) hlo_arena_allocate(arena, (size_t)1 << 20);
    return HLO_SUCCESS;
}

Test(memory, a_failure_in_large_blocks_is_a_status) {
    HloArena *arena = hlo_arena_new();
    hlo_allocation_fail_after(20);
    HloStatus status = hlo_protect(fill, arena);
    hlo_allocation_fail_after(-1);
    cr_assert_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED);
    hlo_status_free(status);
    hlo_arena_free(arena);
}

// bug: the last digits of short names had no influence on the position of an entry.
static void *fill_arena(void *argument) {
    enum { kPieces = 1500, kWords = 250 };
    const uint64_t mark = (uint64_t)(uintptr_t)argument;
    HloArena *arena = hlo_arena_new();
    uint64_t *pieces[kPieces];
    bool good = arena != NULL;
    for (int i = 0; good && i < kPieces; i++) {
        pieces[i] = HLO_ARENA_NEW(arena, uint64_t, kWords);
        for (int k = 0; k < kWords; k++) {
            good &= pieces[i][k] == 0;
            pieces[i][k] = mark + (uint64_t)i;
        }
    }
    for (int i = 0; good && i < kPieces; i++)
        for (int k = 0; k < kWords; k++) good &= pieces[i][k] == mark + (uint64_t)i;
    hlo_arena_free(arena);
    return good ? argument : NULL;
}

Test(memory, kept_blocks_belong_to_one_arena_at_a_time) {
    enum { kThreads = 4, kRounds = 8 };
    for (int round = 0; round < kRounds; round++) {
        pthread_t threads[kThreads];
        for (uintptr_t i = 0; i < kThreads; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, fill_arena, (void *)((i + 1) << 32)), 0);
        if (round % 3 == 2) hlo_arena_free_kept();
        for (uintptr_t i = 0; i < kThreads; i++) {
            void *result;
            pthread_join(threads[i], &result);
            cr_assert_eq(result, (void *)((i + 1) << 32), "round %d, thread %d", round, (int)i);
        }
    }
    hlo_arena_free_kept();
    hlo_arena_free_kept();  // nothing is left
}

Test(memory, names_that_end_in_numbers) {
    enum { COUNT = 20000 };
    static int values[COUNT];
    HloArena *arena = hlo_arena_new();
    HloStringMap map = {0};
    hlo_string_map_reserve(arena, &map, COUNT / 2);
    const int64_t capacity = map.capacity;
    cr_assert_geq(3 * capacity, 4 * (COUNT / 2));
    for (int i = 0; i < COUNT; i++) {
        const char *name = hlo_arena_format(arena, "add.%d", i);
        cr_assert(hlo_string_map_add(arena, &map, name, strlen(name), &values[i]));
        if (i < COUNT / 2) cr_assert_eq(map.capacity, capacity, "it grew at %d", i);
    }
    for (int i = 0; i < COUNT; i++) {
        char name[20];
        const size_t length = (size_t)snprintf(name, sizeof(name), "add.%d", i);
        cr_assert_eq(hlo_string_map_get(&map, name, length), &values[i]);
        cr_assert(!hlo_string_map_add(arena, &map, name, length, &values[0]));
        cr_assert_eq(hlo_string_map_set(arena, &map, hlo_arena_text(arena, name), length, &values[0]), &values[i]);
    }
    cr_assert_eq(map.count, COUNT);
    cr_assert_null(hlo_string_map_get(&map, "add.", 4));
    hlo_arena_free(arena);
}

Test(memory, a_text_on_the_heap_is_a_copy) {
    char text[] = "cpu:8";
    char *copy = hlo_allocate_text(text);
    text[0] = 'X';
    cr_assert_str_eq(copy, "cpu:8");
    hlo_free(copy);
    copy = hlo_allocate_text("");
    cr_assert_str_eq(copy, "");
    hlo_free(copy);
    cr_expect_null(hlo_allocate_text(NULL));
    hlo_allocation_fail_after(0);
    cr_expect_null(hlo_allocate_text("no memory for this"));
    hlo_allocation_fail_after(-1);
}

static HloStatus keep_a_text(void *argument) {
    HloText text = {0};
    hlo_text_string(&text, "a text that is longer than what an arena has left when its first block is full");
    char *kept = hlo_text_to_arena(argument, &text);
    cr_expect_eq(strlen(kept), 78);
    return HLO_SUCCESS;
}

// The jump of an arena without memory leaked the text; the leak sanitizer detects this.
Test(memory, bug_a_text_was_lost_on_its_way_into_an_arena) {
    HloArena *arena = hlo_arena_new();
    (void)hlo_arena_allocate(arena, 1);  // the first block
    int kept = 0, refused = 0;
    for (int64_t i = 0; i < 4000 && !refused; i++) {
        hlo_allocation_fail_after(1);  // the text itself is allocated
        HloStatus status = hlo_protect(keep_a_text, arena);
        hlo_allocation_fail_after(-1);
        kept += !status;
        refused += hlo_status_code(status) == HLO_RESOURCE_EXHAUSTED;
        hlo_status_free(status);
    }
    cr_expect_gt(kept, 0);
    cr_expect_eq(refused, 1);
    hlo_arena_free(arena);
}
