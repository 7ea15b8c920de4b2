// SPDX-License-Identifier: Apache-2.0
// A set has a bit for each link. The links of one are often close to each other: only the words between its first and
// its last one are kept.
#include "emulator/link_sets.h"

#include <assert.h>
#include <string.h>

#include "emulator/amount.h"
#include "hlo/base/arithmetic.h"
#include "hlo/base/map.h"
#include "hlo/base/vector.h"

enum { WORD_BITS = 64 };

typedef struct LinkSet {
    const uint64_t *bits;  // of the words from `begin` to `end`; its first and last one are not 0
    int64_t begin, end;
} LinkSet;

struct EmuLinkSets {
    HloArena *arena;
    int64_t words;      // of all links
    HloIntMap by_hash;  // equal hashes occupy the next numbers
    HLO_VECTOR(LinkSet) items;
};

EmuLinkSets *emu_link_sets_new(HloArena *arena, int64_t link_limit) {
    EmuLinkSets *sets = HLO_ARENA_NEW(arena, EmuLinkSets, 1);
    sets->arena = arena;
    sets->words = link_limit / WORD_BITS + 1;
    return sets;
}

// The set of these links, in the arena.
static LinkSet set_of(const EmuLinkSets *sets, const EmuLinkLoad *links, int64_t count) {
    LinkSet set = {.begin = sets->words, .end = 0};
    for (int64_t i = 0; i < count; i++) {
        set.begin = hlo_smaller(set.begin, links[i].link / WORD_BITS);
        set.end = hlo_larger(set.end, links[i].link / WORD_BITS + 1);
    }
    assert(set.begin >= 0 && set.end <= sets->words);
    uint64_t *bits = HLO_ARENA_NEW(sets->arena, uint64_t, set.end - set.begin);
    for (int64_t i = 0; i < count; i++)
        bits[links[i].link / WORD_BITS - set.begin] |= (uint64_t)1 << links[i].link % WORD_BITS;
    set.bits = bits;
    return set;
}

static size_t bytes_of(const LinkSet *set) {
    return (size_t)(set->end - set->begin) * sizeof *set->bits;
}

static bool same_set(const LinkSet *a, const LinkSet *b) {
    return a->begin == b->begin && a->end == b->end && !memcmp(a->bits, b->bits, bytes_of(a));
}

int32_t emu_link_sets_find(EmuLinkSets *sets, const EmuLinkLoad *links, int64_t count) {
    assert(sets && links && count > 0);
    const HloArenaMark mark = hlo_arena_mark(sets->arena);
    const LinkSet set = set_of(sets, links, count);
    uint64_t hash = hlo_hash_mix((uint64_t)set.begin, hlo_hash_bytes(set.bits, bytes_of(&set)));
    for (const int64_t *at; (at = hlo_int_map_find(&sets->by_hash, hash)); hash++) {
        if (!same_set(&sets->items.items[*at], &set)) continue;
        hlo_arena_reset(sets->arena, mark);
        return (int32_t)*at;
    }
    // The set first: where memory ends between the two, the map is still right.
    hlo_vector_push(sets->arena, &sets->items, set);
    hlo_int_map_set(sets->arena, &sets->by_hash, hash, sets->items.count - 1);
    return (int32_t)(sets->items.count - 1);
}

static const LinkSet *set_number(const EmuLinkSets *sets, int32_t number) {
    assert(number >= 0 && number < sets->items.count);
    return &sets->items.items[number];
}

bool emu_link_sets_meet(const EmuLinkSets *sets, int32_t a, int32_t b) {
    const LinkSet *one = set_number(sets, a), *other = set_number(sets, b);
    const int64_t end = hlo_smaller(one->end, other->end);
    for (int64_t w = hlo_larger(one->begin, other->begin); w < end; w++)
        if (one->bits[w - one->begin] & other->bits[w - other->begin]) return true;
    return false;
}

void emu_link_sets_add(const EmuLinkSets *sets, int32_t set, int64_t amount, int64_t *sums) {
    const LinkSet *at = set_number(sets, set);
    for (int64_t w = at->begin; w < at->end; w++)
        for (int bit = 0; bit < WORD_BITS; bit++)
            if (at->bits[w - at->begin] >> bit & 1)
                sums[w * WORD_BITS + bit] = emu_add(sums[w * WORD_BITS + bit], amount);
}
