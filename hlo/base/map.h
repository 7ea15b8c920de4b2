// SPDX-License-Identifier: Apache-2.0
// Hash maps in an arena: by string and by 64-bit integer (pointers are cast to uintptr_t). Open addressing; entries
// cannot be removed, but a value can be overwritten. Zero-initialise to get an empty map. One thread at a time.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_MAP_H_
#define MESHLO_HLO_BASE_MAP_H_

#include "hlo/base/memory.h"

HLO_BEGIN_C

typedef struct HloStringMap {
    struct HloStringMapEntry *entries;
    int64_t count;
    int64_t capacity;
} HloStringMap;

// The value for the key of `length` bytes at `key`, or NULL.
HLO_EXPORT void *hlo_string_map_get(const HloStringMap *map, const char *key, size_t length);
// Sets a value (not NULL). The key is not copied: it must live as long as the map. Returns the previous value or NULL.
HLO_EXPORT void *hlo_string_map_set(HloArena *arena, HloStringMap *map, const char *key, size_t length, void *value);

// Sets the value of a key that has none; false, and nothing is changed, if it has one.
HLO_EXPORT bool hlo_string_map_add(HloArena *arena, HloStringMap *map, const char *key, size_t length, void *value);
// Makes room for `count` keys, so that this many can be set without growing the map.
HLO_EXPORT void hlo_string_map_reserve(HloArena *arena, HloStringMap *map, int64_t count);

typedef struct HloIntMap {
    struct HloIntMapEntry *entries;
    int64_t count;
    int64_t capacity;
} HloIntMap;

// A pointer to the value of `key`, or NULL if the key is absent. Valid until the next insertion.
HLO_EXPORT int64_t *hlo_int_map_find(const HloIntMap *map, uint64_t key);
// Sets the value of a key.
HLO_EXPORT void hlo_int_map_set(HloArena *arena, HloIntMap *map, uint64_t key, int64_t value);

// A 64-bit hash of `length` bytes; the same on every machine and run.
HLO_EXPORT uint64_t hlo_hash_bytes(const void *data, size_t length);
// Mixes `value` into `seed`.
static inline uint64_t hlo_hash_mix(uint64_t seed, uint64_t value) {
    uint64_t x = (seed ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ (x >> 29);
}

HLO_END_C

#endif
