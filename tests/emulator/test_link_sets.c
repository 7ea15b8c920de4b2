// SPDX-License-Identifier: Apache-2.0
// Sets of links answer as loops over their links do.
#include <criterion/criterion.h>

#include "emulator/link_sets.h"
#include "hlo/base/arithmetic.h"
#include "tests/support/random.h"

// The links of slices end within a word, at its end, and in the next one.
enum { kSets = 60, kMostLinks = 400 };
static const int64_t kLimits[] = {1, 63, 64, 65, kMostLinks};

typedef struct Listed {
    EmuLinkLoad links[kMostLinks];
    int64_t count;
    bool has[kMostLinks];
    int32_t number;
} Listed;

// Links near each other or anywhere, some of them listed twice.
static void list_links(Random *random, int64_t limit, Listed *set) {
    const int64_t width = random_under(random, 2) ? limit : hlo_smaller(limit, 8);
    const int64_t first = (int64_t)random_under(random, (uint64_t)(limit - width) + 1);
    *set = (Listed){.count = 1 + (int64_t)random_under(random, (uint64_t)(random_under(random, 2) ? limit : 3))};
    for (int64_t i = 0; i < set->count; i++) {
        const int32_t link = (int32_t)(first + (int64_t)random_under(random, (uint64_t)width));
        set->links[i] = (EmuLinkLoad){.link = link};
        set->has[link] = true;
    }
}

static void check_pair(const EmuLinkSets *sets, const Listed *a, const Listed *b, int64_t limit) {
    bool meet = false, same = true;
    for (int64_t i = 0; i < limit; i++) {
        meet = meet || (a->has[i] && b->has[i]);
        same = same && a->has[i] == b->has[i];
    }
    cr_expect_eq(emu_link_sets_meet(sets, a->number, b->number), meet);
    cr_expect_eq(a->number == b->number, same);
}

Test(link_sets, answer_as_lists_do) {
    static Listed listed[kSets];
    Random random = {.state = 1};
    for (size_t l = 0; l < HLO_COUNT_OF(kLimits); l++) {
        HloArena *arena = hlo_arena_new();
        EmuLinkSets *sets = emu_link_sets_new(arena, kLimits[l]);
        int64_t sums[kMostLinks] = {0}, expected[kMostLinks] = {0};
        for (int64_t s = 0; s < kSets; s++) {
            list_links(&random, kLimits[l], &listed[s]);
            listed[s].number = emu_link_sets_find(sets, listed[s].links, listed[s].count);
            emu_link_sets_add(sets, listed[s].number, s, sums);
            for (int64_t i = 0; i < kLimits[l]; i++) expected[i] += listed[s].has[i] ? s : 0;
        }
        cr_expect_arr_eq(sums, expected, sizeof sums);
        for (int64_t s = 0; s < kSets; s++) {
            cr_expect_eq(emu_link_sets_find(sets, listed[s].links, listed[s].count), listed[s].number);
            for (int64_t other = 0; other < kSets; other++) check_pair(sets, &listed[s], &listed[other], kLimits[l]);
        }
        hlo_arena_free(arena);
    }
}
