// SPDX-License-Identifier: Apache-2.0
// A growable array of any type, in an arena. Growing leaves the old items in the arena: amortised twice the final size.
// Declare one with `HLO_VECTOR(int64_t) ids = {0};`, or name the type with a typedef to pass it on.
//
// Stability: experimental.
#ifndef MESHLO_HLO_BASE_VECTOR_H_
#define MESHLO_HLO_BASE_VECTOR_H_

#include "hlo/base/memory.h"

HLO_BEGIN_C

#define HLO_VECTOR(type)  \
    struct {              \
        type *items;      \
        int64_t count;    \
        int64_t capacity; \
    }

// Appends `value`, growing by doubling. `vector` is evaluated several times.
#define hlo_vector_push(arena, vector, value)                                                                       \
    ((vector)->count == (vector)->capacity                                                                          \
         ? (void)((vector)->items = hlo_vector_grow((arena), (vector)->items, (vector)->count, &(vector)->capacity, \
                                                    (vector)->count + 1, sizeof(*(vector)->items)))                 \
         : (void)0,                                                                                                 \
     (void)((vector)->items[(vector)->count++] = (value)))

// Makes room for `total` items in all.
#define hlo_vector_reserve(arena, vector, total)                                                                    \
    ((total) > (vector)->capacity                                                                                   \
         ? (void)((vector)->items = hlo_vector_grow((arena), (vector)->items, (vector)->count, &(vector)->capacity, \
                                                    (total), sizeof(*(vector)->items)))                             \
         : (void)0)

// Makes a larger copy of `items` for the macros above; updates `capacity`. Never NULL.
HLO_EXPORT void *hlo_vector_grow(HloArena *arena, const void *items, int64_t count, int64_t *capacity, int64_t minimum,
                                 size_t bytes_each);

typedef HLO_VECTOR(int64_t) HloInt64Vector;
typedef HLO_VECTOR(const char *) HloStringVector;

HLO_END_C

#endif
