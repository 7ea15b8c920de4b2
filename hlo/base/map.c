// SPDX-License-Identifier: Apache-2.0
// Linear probing in a power of two of entries, at most three quarters full. The memory is an arena's, so a table that
// has grown leaves its smaller predecessors behind, in total as large as the table itself. There is no removal: tables
// are built once and then looked up.
#include "hlo/base/map.h"

#include <assert.h>
#include <string.h>

struct HloStringMapEntry {
    const char *key;
    size_t length;
    uint64_t hash;
    void *value;  // NULL marks a free entry
};

struct HloIntMapEntry {
    uint64_t key;
    int64_t value;
    bool used;
};

static uint64_t load_word(const unsigned char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

// Processes eight bytes per step, and long keys in four lanes, since a step waits for the product of the one before.
// Not designed to withstand keys chosen to collide.
uint64_t hlo_hash_bytes(const void *data, size_t length) {
    assert(data || length == 0);
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0x243F6A8885A308D3) ^ length;
    if (length >= 256) {
        uint64_t lanes[4] = {hash, hash + 1, hash + 2, hash + 3};
        for (; length >= 32; bytes += 32, length -= 32)
            for (int i = 0; i < 4; i++) lanes[i] = hlo_hash_mix(lanes[i], load_word(bytes + 8 * i));
        for (int i = 0; i < 4; i++) hash = hlo_hash_mix(hash, lanes[i]);
    }
    while (length >= 8) {
        hash = hlo_hash_mix(hash, load_word(bytes));
        bytes += 8;
        length -= 8;
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < length; i++) tail |= (uint64_t)bytes[i] << (8 * i);
    hash = hlo_hash_mix(hash, tail);
    return hash ^ (hash >> 32);
}

// The entry with the key, or the free one where it belongs. The low bits of a hash depend too little on the end of a
// short key: they ignored the last digits of names such as add.1234, which made runs of a hundred entries. The middle
// of another product depends on all of it.
static struct HloStringMapEntry *string_slot(struct HloStringMapEntry *entries, int64_t capacity, const char *key,
                                             size_t length, uint64_t hash) {
    const uint64_t start = hash * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    for (uint64_t i = start & (uint64_t)(capacity - 1);; i = (i + 1) & (uint64_t)(capacity - 1)) {
        struct HloStringMapEntry *entry = &entries[i];
        if (!entry->value) return entry;
        if (entry->hash != hash || entry->length != length) continue;
        if (length == 0 || memcmp(entry->key, key, length) == 0) return entry;  // an empty key may be NULL
    }
}

void *hlo_string_map_get(const HloStringMap *map, const char *key, size_t length) {
    assert(map->count < map->capacity || map->count == 0);  // a search ends at a free entry
    if (map->count == 0) return NULL;
    return string_slot(map->entries, map->capacity, key, length, hlo_hash_bytes(key, length))->value;
}

// Hashes are stored, so that keys are not read again.
static void grow(HloArena *arena, HloStringMap *map, int64_t capacity) {
    assert(capacity > map->count && (capacity & (capacity - 1)) == 0); /* probing wraps by a mask, and ends at a hole */
    struct HloStringMapEntry *entries = HLO_ARENA_NEW(arena, struct HloStringMapEntry, capacity);
    for (int64_t i = 0; i < map->capacity; i++) {
        const struct HloStringMapEntry *old = &map->entries[i];
        if (old->value) *string_slot(entries, capacity, old->key, old->length, old->hash) = *old;
    }
    map->entries = entries;
    map->capacity = capacity;
}

void hlo_string_map_reserve(HloArena *arena, HloStringMap *map, int64_t count) {
    int64_t capacity = map->capacity ? map->capacity : 16;
    while (4 * count > 3 * capacity) capacity *= 2;
    if (capacity > map->capacity) grow(arena, map, capacity);
}

// The entry of the key; it is new if it has no value.
static struct HloStringMapEntry *entry_of(HloArena *arena, HloStringMap *map, const char *key, size_t length) {
    if (4 * (map->count + 1) > 3 * map->capacity) grow(arena, map, map->capacity ? map->capacity * 2 : 16);
    uint64_t hash = hlo_hash_bytes(key, length);
    struct HloStringMapEntry *entry = string_slot(map->entries, map->capacity, key, length, hash);
    if (entry->value) return entry;
    map->count++;
    *entry = (struct HloStringMapEntry){.key = key, .length = length, .hash = hash};
    return entry;
}

void *hlo_string_map_set(HloArena *arena, HloStringMap *map, const char *key, size_t length, void *value) {
    HLO_BUG_IF(!value);
    struct HloStringMapEntry *entry = entry_of(arena, map, key, length);
    void *former = entry->value;
    entry->value = value;
    return former;
}

bool hlo_string_map_add(HloArena *arena, HloStringMap *map, const char *key, size_t length, void *value) {
    HLO_BUG_IF(!value);
    struct HloStringMapEntry *entry = entry_of(arena, map, key, length);
    if (entry->value) return false;
    entry->value = value;
    return true;
}

static struct HloIntMapEntry *int_slot(struct HloIntMapEntry *entries, int64_t capacity, uint64_t key) {
    assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    uint64_t hash = hlo_hash_mix(UINT64_C(0x13198A2E03707344), key);
    for (uint64_t i = hash & (uint64_t)(capacity - 1);; i = (i + 1) & (uint64_t)(capacity - 1)) {
        if (!entries[i].used || entries[i].key == key) return &entries[i];
    }
}

int64_t *hlo_int_map_find(const HloIntMap *map, uint64_t key) {
    if (map->count == 0) return NULL;
    struct HloIntMapEntry *entry = int_slot(map->entries, map->capacity, key);
    return entry->used ? &entry->value : NULL;
}

void hlo_int_map_set(HloArena *arena, HloIntMap *map, uint64_t key, int64_t value) {
    assert(arena && map);
    if (4 * (map->count + 1) > 3 * map->capacity) {
        int64_t capacity = map->capacity ? map->capacity * 2 : 16;
        struct HloIntMapEntry *entries = HLO_ARENA_NEW(arena, struct HloIntMapEntry, capacity);
        for (int64_t i = 0; i < map->capacity; i++) {
            if (map->entries[i].used) *int_slot(entries, capacity, map->entries[i].key) = map->entries[i];
        }
        map->entries = entries;
        map->capacity = capacity;
    }
    struct HloIntMapEntry *entry = int_slot(map->entries, map->capacity, key);
    if (!entry->used) map->count++;
    *entry = (struct HloIntMapEntry){.key = key, .value = value, .used = true};
}
