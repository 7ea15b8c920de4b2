// SPDX-License-Identifier: Apache-2.0
// Unique names, assigned as by XLA's NameUniquer (xla/service/name_uniquer.cc): stem, dot, number.
//
// Nearly all names of a large program are a few stems with numbers. So there are two ways in which a name can be in
// use: it is in the map `taken`, or its number is above 0 and below the counter of its stem. The latter costs neither
// memory nor a look-up. Names that were read have arbitrary numbers and are in the map; `has_numbered` means that there
// are some, and that counters must skip them.
#include "hlo/ir/names.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/decimal.h"

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_allowed(char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

// Keywords of the text: "f32 = f32[] add(...)" would not parse as an assignment. "tuple" is not a keyword, and "buffer"
// is a common name.
static bool is_type_word(const char *name, size_t length) {
    const HloType type = hlo_type_from_text(name, length);
    return type != HLO_INVALID && type != HLO_TUPLE && type != HLO_BUFFER;
}

// The prefix "__" is reserved by backends, except for XLA's own names.
static bool is_reserved(const char *name) {
    return name[0] == '_' && name[1] == '_' && strncmp(name, "__xla_", 6) != 0;
}

const char *hlo_sanitized_name(HloArena *arena, const char *name) {
    assert(name);
    size_t length = 0;
    bool clean = is_letter(name[0]) || name[0] == 0, is_word = true;
    for (; name[length]; length++) {
        clean &= is_allowed(name[length]);
        is_word &= name[length] != '.';
    }
    const bool is_type = clean && is_word && is_type_word(name, length);  // no type has a dot, and most names have one
    if (clean && !is_type && !is_reserved(name)) return name;
    char *copy = hlo_arena_allocate(arena, length + 2);
    for (size_t i = 0; i < length; i++) copy[i] = (i ? is_allowed(name[i]) : is_letter(name[i])) ? name[i] : '_';
    if (is_type || is_type_word(copy, length)) copy[length] = '_';
    if (is_reserved(copy)) copy[0] = 'a';
    return copy;
}

// Length of `name` without a trailing ".123", whose number is stored in *number; the whole length and 0 if there is
// none.
static size_t stem_length(const char *name, size_t length, int64_t *number) {
    assert(name);
    *number = 0;
    size_t end = length;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
    if (end == length || end < 2 || name[end - 1] != '.') return length;
    int64_t value = 0;
    for (size_t i = end; i < length; i++) {
        int64_t digit = name[i] - '0';
        if (value > (INT64_MAX - digit) / 10) return length;  // XLA does not treat it as a number either
        value = 10 * value + digit;
    }
    *number = value;
    return end - 1;
}

// Writes ".123" and returns its length; `to` has room for 21 characters.
static size_t write_number(char *to, int64_t number) {
    *to = '.';
    return 1 + hlo_write_decimal(to + 1, (uint64_t)number);
}

// The next number of a stem that may be free, or NULL if all of the stem's names are in the map.
static int64_t *counter_of(const HloNames *names, const char *stem, size_t length) {
    return names->counters.count ? hlo_string_map_get(&names->counters, stem, length) : NULL;
}

// Copies the stem's text: `stem` is part of a longer name, or belongs to the caller.
static int64_t *new_counter(HloArena *arena, HloNames *names, const char *stem, size_t length) {
    int64_t *next = counter_of(names, stem, length);
    if (next) return next;
    next = HLO_ARENA_NEW(arena, int64_t, 1);
    hlo_string_map_set(arena, &names->counters, hlo_arena_string(arena, stem, length), length, next);
    return next;
}

// True if exactly this text is in use: it is in the map, or its number is below its stem's counter.
static bool is_name(const HloNames *names, const char *name, size_t length) {
    if (hlo_string_map_get(&names->taken, name, length)) return true;
    int64_t number;
    size_t stem = stem_length(name, length, &number);
    // Counters never produce numbers with leading zeros, and names that end with .0 are in the map.
    if (stem == length || name[stem + 1] == '0') return false;
    const int64_t *next = counter_of(names, name, stem);
    return next && number < *next;
}

// True if number 0 of a stem is in use: the bare stem or "stem.0", which are one name to XLA.
static bool is_zero_taken(HloArena *arena, const HloNames *names, const char *stem, size_t length) {
    const int64_t *next = counter_of(names, stem, length);
    if ((next && *next > 0) || is_name(names, stem, length)) return true;
    char small[256];
    size_t room = length + 24;
    char *name = room <= sizeof(small) ? small : hlo_arena_allocate_uninitialised(arena, room);
    memcpy(name, stem, length);
    return hlo_string_map_get(&names->taken, name, length + write_number(name + length, 0)) != NULL;
}

// Returns an unused name: the stem with the next free number. Names with a number above 0 are not added to the map: the
// counter, which never decreases, implies that they are in use. Most names of a generated program are of this kind, and
// if no other name has a number, they need no look-up.
static const char *count_name(HloArena *arena, HloNames *names, int64_t *next, const char *stem, size_t length,
                              bool numbered, void *owner) {
    assert(*next >= 0);
    if (*next > 0 && !names->has_numbered) {
        char number[24];
        const size_t digits = write_number(number, (*next)++);
        char *name = hlo_arena_allocate_uninitialised(arena, length + digits + 1);
        memcpy(name, stem, length);
        memcpy(name + length, number, digits);
        name[length + digits] = 0;
        return name;
    }
    char small[256];
    char *name = length + 24 <= sizeof(small) ? small : hlo_arena_allocate_uninitialised(arena, length + 24);
    memcpy(name, stem, length);
    size_t end;
    int64_t number;
    do {
        number = (*next)++;
        end = length + (numbered || number > 0 ? write_number(name + length, number) : 0);
    } while ((number == 0 || names->has_numbered) && hlo_string_map_get(&names->taken, name, end));
    const char *kept = hlo_arena_string(arena, name, end);
    if (number == 0) hlo_string_map_set(arena, &names->taken, kept, end, owner);
    return kept;
}

// Takes exactly this name; NULL if it is in use.
static const char *take_name(HloArena *arena, HloNames *names, const char *wanted, size_t stem, int64_t number,
                             bool numbered, void *owner) {
    assert(numbered || number == 0);
    // Numbers above 0 need no separate look-up: adding to the map reports whether the name was there.
    const int64_t *counter = counter_of(names, wanted, stem);
    if (number == 0 ? is_zero_taken(arena, names, wanted, stem) : counter && number < *counter) return NULL;
    char *name = hlo_arena_allocate_uninitialised(arena, stem + 24);
    memcpy(name, wanted, stem);
    size_t end = stem + (numbered ? write_number(name + stem, number) : 0);
    name[end] = 0;
    if (!hlo_string_map_add(arena, &names->taken, name, end, owner)) return NULL;
    names->has_numbered |= number > 0;
    return name;
}

const char *hlo_unique_name(HloArena *arena, HloNames *names, const char *wanted, void *owner) {
    assert(wanted && owner);
    wanted = hlo_sanitized_name(arena, wanted);
    size_t length = strlen(wanted);
    int64_t number;
    size_t stem = stem_length(wanted, length, &number);
    const bool numbered = stem < length;
    // Number 0 of a stem that has a counter is in use, like all numbers below the counter.
    int64_t *next = numbered ? NULL : counter_of(names, wanted, stem);
    if (!next) {
        const char *name = take_name(arena, names, wanted, stem, number, numbered, owner);
        if (name) return name;
        next = new_counter(arena, names, wanted, stem);
    }
    if (*next == 0 && is_zero_taken(arena, names, wanted, stem)) ++*next;
    return count_name(arena, names, next, wanted, stem, numbered, owner);
}

const char *hlo_opcode_name(HloArena *arena, HloNames *names, HloOpcode opcode, void *owner) {
    const char *text = hlo_op_text(opcode);
    int64_t *next = names->of_opcode[opcode];
    if (next && *next > 0) return count_name(arena, names, next, text, strlen(text), false, owner);
    const char *name = hlo_unique_name(arena, names, text, owner);
    names->of_opcode[opcode] = counter_of(names, text, strlen(text));
    return name;
}

void hlo_names_reserve(HloArena *arena, HloNames *names, const char *name) {
    assert(arena && name);
    hlo_string_map_set(arena, &names->taken, name, strlen(name), names);
    names->has_numbered = true;  // it may be numbered
}
