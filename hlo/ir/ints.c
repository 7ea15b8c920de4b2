// SPDX-License-Identifier: Apache-2.0
// Lists of numbers, used by attributes, shardings and replica groups.
#include <assert.h>
#include <string.h>

#include "hlo/base/map.h"
#include "hlo/ir/attributes.h"

HloInts hlo_ints(HloArena *arena, const int64_t *items, int64_t count) {
    return (HloInts){hlo_arena_copy(arena, items, (size_t)count * sizeof(*items)), count};
}

bool hlo_ints_equal(HloInts a, HloInts b) {
    return a.count == b.count && (a.count == 0 || memcmp(a.items, b.items, (size_t)a.count * sizeof(*a.items)) == 0);
}

void hlo_ints_print(HloText *text, HloInts ints) {
    assert(ints.count >= 0);
    for (int64_t i = 0; i < ints.count; i++) {
        if (i > 0) hlo_text_char(text, ',');
        hlo_text_int64(text, ints.items[i]);
    }
}

bool hlo_ints_contain(HloInts ints, int64_t value) {
    for (int64_t i = 0; i < ints.count; i++) {
        if (ints.items[i] == value) return true;
    }
    return false;
}

uint64_t hlo_ints_hash(HloInts list) {
    return list.count ? hlo_hash_bytes(list.items, (size_t)list.count * sizeof(*list.items)) : 1;
}
