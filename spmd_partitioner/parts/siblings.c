// SPDX-License-Identifier: Apache-2.0
#include "spmd_partitioner/parts/siblings.h"

#include <assert.h>
#include <stdlib.h>

// The slices of an array, sorted by where they begin along one dimension.
typedef struct Siblings {
    SpmdSibling *items;
    int64_t count;
} Siblings;

static int64_t start_along(const HloInstruction *slice, int32_t dim) {
    return HLO_ATTRIBUTES(slice, Slice)->starts.items[dim];
}

static int compare_starts(const void *a, const void *b) {
    const SpmdSibling *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->slice->id > y->slice->id) - (x->slice->id < y->slice->id);
}

static const Siblings *list_siblings(SpmdPartitioner *partitioner, const HloInstruction *array, int32_t dim) {
    HloIntMap *lists = &partitioner->scope->siblings;
    const uint64_t key = (uint64_t)array->id * HLO_MAXIMUM_RANK + (uint64_t)dim;
    const int64_t *known = hlo_int_map_find(lists, key);
    if (known) return (const Siblings *)(intptr_t)*known;
    Siblings *list = HLO_ARENA_NEW(partitioner->arena, Siblings, 1);
    list->items = HLO_ARENA_NEW(partitioner->arena, SpmdSibling, array->users.count);
    for (int64_t i = 0; i < array->users.count; i++) {
        const HloInstruction *user = array->users.items[i];
        if (hlo_is(user, HLO_OP_SLICE)) list->items[list->count++] = (SpmdSibling){start_along(user, dim), user};
    }
    if (list->count) qsort(list->items, (size_t)list->count, sizeof(*list->items), compare_starts);
    hlo_int_map_set(partitioner->arena, lists, key, (intptr_t)list);
    return list;
}

// The number of siblings that begin before `start`.
static int64_t count_before(const Siblings *list, int64_t start) {
    int64_t low = 0, high = list->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list->items[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t spmd_near_siblings(SpmdPartitioner *partitioner, const HloInstruction *slice, int32_t dim, int64_t distance,
                           const SpmdSibling **siblings) {
    assert(hlo_is(slice, HLO_OP_SLICE) && distance > 0);
    const Siblings *list = list_siblings(partitioner, slice->operands[0], dim);
    const int64_t start = start_along(slice, dim), first = count_before(list, start - distance + 1);
    *siblings = list->items + first;
    return count_before(list, start + distance) - first;
}

int64_t spmd_first_open_sibling(SpmdPartitioner *partitioner, const HloInstruction *array) {
    HloIntMap *firsts = &partitioner->scope->open_siblings;
    const int64_t *known = hlo_int_map_find(firsts, (uint64_t)array->id);
    const int64_t before = known ? *known : 0;
    int64_t first = before;
    for (; first < array->users.count; first++) {
        const HloInstruction *user = array->users.items[first];
        if (hlo_is(user, HLO_OP_SLICE) && !partitioner->locals[partitioner->plan->first_leaf[user->id]]) break;
    }
    if (first != before) hlo_int_map_set(partitioner->arena, firsts, (uint64_t)array->id, first);
    return first;
}
