// SPDX-License-Identifier: Apache-2.0
#include "hlo/ir/names.h"

#include <assert.h>
#include <string.h>

// Length of `name` without a trailing ".123", whose number goes to *number; the whole length and 0 if there is none.
static size_t stem_length(const char *name, size_t length, int64_t *number) {
    assert(name);
    *number = 0;
    size_t end = length;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
    if (end == length || end < 2 || name[end - 1] != '.') return length;
    int64_t value = 0;
    for (size_t i = end; i < length; i++) {
        int64_t digit = name[i] - '0';
        if (value > (INT64_MAX - digit) / 10) return length;  // no number to XLA either
        value = 10 * value + digit;
    }
    *number = value;
    return end - 1;
}

// Writes ".123" and gives its length; `to` has room for 21 characters. Printing through printf() took a tenth of the
// time in which programs are read.
static size_t write_number(char *to, int64_t number) {
    char digits[20];
    size_t count = 0, length = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    to[length++] = '.';
    while (count) to[length++] = digits[--count];
    return length;
}

// True if number `number` of a stem is in use. Number 0 is the bare stem and "stem.0": one name to XLA.
static bool is_taken(HloArena *arena, const HloStringMap *taken, const char *stem, size_t length, int64_t number) {
    assert(number >= 0);
    if (number == 0 && hlo_string_map_get(taken, stem, length)) return true;
    char small[256];
    size_t room = length + 24;
    char *name = room <= sizeof(small) ? small : hlo_arena_allocate_uninitialised(arena, room);
    memcpy(name, stem, length);
    return hlo_string_map_get(taken, name, length + write_number(name + length, number)) != NULL;
}

// The next number of a stem that is in use, or NULL.
static int64_t *counter_of(HloArena *arena, HloStringMap *counters, const char *stem, size_t length, bool make) {
    int64_t *next = hlo_string_map_get(counters, stem, length);
    if (next || !make) return next;
    next = HLO_ARENA_NEW(arena, int64_t, 1);
    hlo_string_map_set(arena, counters, hlo_arena_string(arena, stem, length), length, next);
    return next;
}

const char *hlo_unique_name(HloArena *arena, HloStringMap *taken, HloStringMap *counters, const char *wanted,
                            void *owner) {
    assert(wanted && owner);
    size_t length = strlen(wanted);
    int64_t number;
    size_t stem = stem_length(wanted, length, &number);
    const bool numbered = stem < length;
    // Names are never given back: number 0 of a stem that has a counter is in use, as all below the counter are.
    int64_t *next = numbered ? NULL : counter_of(arena, counters, wanted, stem, false);
    if (!next && is_taken(arena, taken, wanted, stem, number)) next = counter_of(arena, counters, wanted, stem, true);
    if (next && *next == 0 && is_taken(arena, taken, wanted, stem, 0)) ++*next;
    char *name = hlo_arena_allocate_uninitialised(arena, stem + 24);
    memcpy(name, wanted, stem);
    size_t end;
    do {
        if (next) number = (*next)++;
        end = stem + (numbered || number > 0 ? write_number(name + stem, number) : 0);
        name[end] = 0;
    } while (!hlo_string_map_add(arena, taken, name, end, owner));
    return name;
}
