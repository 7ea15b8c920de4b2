// SPDX-License-Identifier: Apache-2.0
#include "hlo/ir/names.h"

#include <string.h>

// Length of `name` without a trailing ".123".
static size_t stem_length(const char *name, size_t length) {
    size_t end = length;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
    return end < length && end > 1 && name[end - 1] == '.' ? end - 1 : length;
}

// The name without leading zeros of its number, "add.01" as "add.1": the two are one name to XLA.
static const char *plain_number(HloArena *arena, const char *name, size_t *length) {
    size_t stem = stem_length(name, *length);
    size_t digits = stem + 1;
    if (stem == *length || name[digits] != '0' || digits + 1 == *length) return name;
    while (digits + 1 < *length && name[digits] == '0') digits++;
    const char *plain = hlo_arena_format(arena, "%.*s.%s", (int)stem, name, name + digits);
    *length = strlen(plain);
    return plain;
}

const char *hlo_unique_name(HloArena *arena, HloStringMap *taken, HloStringMap *counters, const char *wanted,
                            void *owner) {
    size_t length = strlen(wanted);
    wanted = plain_number(arena, wanted, &length);
    if (!hlo_string_map_get(taken, wanted, length)) {
        const char *name = hlo_arena_string(arena, wanted, length);
        hlo_string_map_set(arena, taken, name, length, owner);
        return name;
    }
    size_t stem = stem_length(wanted, length);
    int64_t *counter = hlo_string_map_get(counters, wanted, stem);
    if (!counter) {
        counter = HLO_ARENA_NEW(arena, int64_t, 1);
        hlo_string_map_set(arena, counters, hlo_arena_string(arena, wanted, stem), stem, counter);
    }
    for (;;) {
        char *name = hlo_arena_format(arena, "%.*s.%lld", (int)stem, wanted, (long long)++*counter);
        size_t name_length = strlen(name);
        if (hlo_string_map_get(taken, name, name_length)) continue;
        hlo_string_map_set(arena, taken, name, name_length, owner);
        return name;
    }
}
