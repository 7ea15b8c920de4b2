// SPDX-License-Identifier: Apache-2.0
// The capacity doubles; the old items remain in the arena, which costs as much again as the vector holds.
#include "hlo/base/vector.h"

#include <assert.h>
#include <string.h>

void *hlo_vector_grow(HloArena *arena, const void *items, int64_t count, int64_t *capacity, int64_t minimum,
                      size_t bytes_each) {
    assert(count >= 0 && count <= *capacity);
    assert(items || count == 0);
    assert(bytes_each > 0);
    assert(minimum > count);
    int64_t wanted = *capacity < 2 ? 2 : *capacity * 2;
    if (wanted < minimum) wanted = minimum;
    char *grown = hlo_arena_allocate_uninitialised(arena, hlo_array_bytes((size_t)wanted, bytes_each));
    if (count > 0) memcpy(grown, items, (size_t)count * bytes_each);
    *capacity = wanted;
    assert(*capacity >= minimum);
    return grown;
}
