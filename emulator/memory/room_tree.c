// SPDX-License-Identifier: Apache-2.0
#include "emulator/memory/room_tree.h"

#include <assert.h>

#include "hlo/base/arithmetic.h"

// A complete binary tree in an array: node n has the children 2n and 2n + 1, the leaves are the places in their order.
struct EmuRoomTree {
    int64_t leaves;        // a power of two; those beyond the places have no room
    EmuRoomBounds *nodes;  // from 1 on
};

// A place without room, which leaves the bounds of the others as they are.
static const EmuRoomBounds nowhere = {-1, INT64_MIN, INT64_MIN, INT64_MAX};

// The bounds that hold for both: the more room of each kind, and the time in which both are taken.
static EmuRoomBounds either(const EmuRoomBounds *a, const EmuRoomBounds *b) {
    return (EmuRoomBounds){hlo_larger(a->bytes, b->bytes), hlo_larger(a->free_until, b->free_until),
                           hlo_larger(a->taken_from, b->taken_from), hlo_smaller(a->taken_to, b->taken_to)};
}

EmuRoomTree *emu_room_tree_new(HloArena *arena, const EmuRoomBounds *bounds, int64_t count) {
    assert(arena && count >= 0);
    EmuRoomTree *tree = HLO_ARENA_NEW(arena, EmuRoomTree, 1);
    tree->leaves = 1;
    while (tree->leaves < count) tree->leaves *= 2;
    tree->nodes = HLO_ARENA_NEW(arena, EmuRoomBounds, 2 * tree->leaves);
    for (int64_t i = 0; i < tree->leaves; i++) tree->nodes[tree->leaves + i] = i < count ? bounds[i] : nowhere;
    for (int64_t n = tree->leaves - 1; n > 0; n--)
        tree->nodes[n] = either(&tree->nodes[2 * n], &tree->nodes[2 * n + 1]);
    return tree;
}

void emu_room_tree_set(EmuRoomTree *tree, int64_t place, EmuRoomBounds bounds) {
    assert(place >= 0 && place < tree->leaves);
    int64_t node = tree->leaves + place;
    tree->nodes[node] = bounds;
    while ((node /= 2) > 0) tree->nodes[node] = either(&tree->nodes[2 * node], &tree->nodes[2 * node + 1]);
}

static bool may_fit(const EmuRoomBounds *bounds, int64_t bytes, int64_t first, int64_t last) {
    if (bytes > bounds->bytes || last >= bounds->free_until) return false;
    return bounds->taken_from > bounds->taken_to || last < bounds->taken_from || first > bounds->taken_to;
}

int64_t emu_room_tree_find(const EmuRoomTree *tree, int64_t from, int64_t bytes, int64_t first, int64_t last) {
    assert(from >= 0 && from <= tree->leaves);
    if (from == tree->leaves) return -1;
    // Down to the leaf where there may be room, else on to what follows the node, whose number is odd above it.
    for (int64_t node = tree->leaves + from;;) {
        if (may_fit(&tree->nodes[node], bytes, first, last)) {
            if (node >= tree->leaves) return node - tree->leaves;
            node *= 2;
            continue;
        }
        while (node % 2 == 1) node /= 2;
        if (node == 0) return -1;
        node++;
    }
}
