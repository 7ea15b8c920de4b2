// SPDX-License-Identifier: Apache-2.0
// Places a mesh whose axes are not products of whole physical axes. The search compares all ways to distribute the
// prime factors of a logical axis over the physical ones. The order of preference is total, so the order of the search
// does not matter.
#include <assert.h>
#include <string.h>

#include "emulator/mesh_order.h"

// The search for one logical axis.
typedef struct Search {
    int64_t rank;
    const int64_t *physical;  // sizes
    int64_t taken[4];         // of each physical axis by the logical axes placed so far
    int64_t best[4];
    bool found;
} Search;

// Ranks a choice by criteria other than its own numbers, from the most to the least important.
static void rank_choice(const Search *search, const int64_t *choice, int64_t worth[3]) {
    assert(choice && worth);
    worth[0] = 1;  // product of the whole axes used
    worth[1] = 0;  // how many whole axes
    worth[2] = 1;  // product over axes that are taken in part already: JAX prefers more, against its own comment
    for (int64_t axis = 0; axis < search->rank; axis++) {
        if (choice[axis] == search->physical[axis]) {
            worth[0] *= choice[axis];
            worth[1] += choice[axis] > 1;
        }
        if (search->taken[axis] > 1) worth[2] *= choice[axis];
    }
}

// Whether `choice` is preferred over the best so far.
static bool preferred(const Search *search, const int64_t *choice) {
    int64_t left[3], right[3];
    rank_choice(search, choice, left);
    rank_choice(search, search->best, right);
    for (int i = 0; i < 3; i++)
        if (left[i] != right[i]) return left[i] > right[i];
    for (int64_t axis = 0; axis < search->rank; axis++)
        if (choice[axis] != search->best[axis]) return choice[axis] > search->best[axis];
    return false;
}

// Tries every divisor of `size` on physical axis `axis`, and the rest on the later ones.
static void search_axis(Search *search, int64_t *choice, int64_t axis, int64_t size) {
    assert(axis >= 0 && size > 0);
    if (axis == search->rank) {
        if (size != 1 || (search->found && !preferred(search, choice))) return;
        memcpy(search->best, choice, sizeof(search->best));
        search->found = true;
        return;
    }
    const int64_t available = search->physical[axis] / search->taken[axis];
    for (int64_t divisor = 1; divisor <= available && divisor <= size; divisor++) {
        if (available % divisor || size % divisor) continue;
        choice[axis] = divisor;
        search_axis(search, choice, axis + 1, size / divisor);
    }
}

HloStatus emu_mesh_assign_split(const EmuPhysicalMesh *physical, const int64_t *sizes, int64_t count,
                                EmuMeshAssignment *assignment) {
    assert(physical && sizes && count > 0 && assignment);
    Search search = {.rank = physical->rank, .physical = physical->sizes, .taken = {1, 1, 1, 1}};
    int64_t devices = 1, places = 1;
    for (int64_t axis = 0; axis < physical->rank; axis++) devices *= physical->sizes[axis];
    for (int64_t i = 0; i < count; i++) places *= sizes[i];
    assert(devices == places); /* the physical mesh is the part of the slice that the devices fill */
    assignment->axes = count;
    for (int64_t logical = count - 1; logical >= 0; logical--) {
        int64_t choice[4] = {1, 1, 1, 1};
        search.found = false;
        search_axis(&search, choice, 0, sizes[logical]);
        // The remaining physical axes multiply to the remaining mesh, so every prime of a size is available.
        assert(search.found);
        for (int64_t axis = 0; axis < physical->rank; axis++) {
            assignment->sizes[axis * count + logical] = search.best[axis];
            search.taken[axis] *= search.best[axis];
        }
    }
    return HLO_SUCCESS;
}
