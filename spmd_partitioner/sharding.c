// SPDX-License-Identifier: Apache-2.0
// Shardings are values: made in an arena, compared by content, never changed once they are shared. Unused elements of a
// list of axes are zero, so that hashes and comparisons of whole structs agree.
#include "spmd_partitioner/sharding.h"

#include <assert.h>
#include <string.h>

SpmdSharding *spmd_sharding_new(HloArena *arena, int64_t rank, SpmdAtomSet manual) {
    assert(rank >= 0); /* of an array */
    SpmdSharding *sharding = HLO_ARENA_NEW(arena, SpmdSharding, 1);
    sharding->rank = (int32_t)rank;
    sharding->manual = manual;
    sharding->dims = HLO_ARENA_NEW(arena, SpmdAxes, rank);
    return sharding;
}

SpmdSharding *spmd_sharding_copy(HloArena *arena, const SpmdSharding *sharding) {
    SpmdSharding *copy = spmd_sharding_new(arena, sharding->rank, sharding->manual);
    copy->unreduced = sharding->unreduced;
    memcpy(copy->dims, sharding->dims, (size_t)sharding->rank * sizeof(SpmdAxes));
    return copy;
}

bool spmd_axes_equal(const SpmdAxes *a, const SpmdAxes *b) {
    return a->count == b->count && !memcmp(a->items, b->items, a->count);
}

// `a` shards no finer than `b` and in the same order: each part under `b` lies within one part under `a`, so going from
// `a` to `b` is a slice and back a gather.
bool spmd_axes_is_prefix(const SpmdAxes *a, const SpmdAxes *b) {
    return a->count <= b->count && !memcmp(a->items, b->items, a->count);
}

bool spmd_same_dims(const SpmdSharding *a, const SpmdSharding *b) {
    if (a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++) {
        if (!spmd_axes_equal(&a->dims[i], &b->dims[i])) return false;
    }
    return true;
}

bool spmd_sharding_equal(const SpmdSharding *a, const SpmdSharding *b) {
    assert(a && b);
    if (a == b) return true;
    return a->manual == b->manual && a->unreduced == b->unreduced && spmd_same_dims(a, b);
}

SpmdAtomSet spmd_axes_set(const SpmdAxes *axes) {
    SpmdAtomSet set = 0;
    for (int32_t i = 0; i < axes->count; i++) set |= (SpmdAtomSet)1 << axes->items[i];
    return set;
}

SpmdAtomSet spmd_sharding_used(const SpmdSharding *sharding) {
    SpmdAtomSet set = 0;
    for (int32_t i = 0; i < sharding->rank; i++) set |= spmd_axes_set(&sharding->dims[i]);
    return set;
}

bool spmd_sharding_is_replicated(const SpmdSharding *sharding) {
    for (int32_t i = 0; i < sharding->rank; i++) {
        if (sharding->dims[i].count) return false;
    }
    return true;
}

int64_t spmd_axes_product(const SpmdMesh *mesh, const SpmdAxes *axes) {
    int64_t product = 1;
    for (int32_t i = 0; i < axes->count; i++) product *= mesh->atoms[axes->items[i]].size;
    return product;
}

void spmd_axes_push(SpmdAxes *axes, int32_t atom) {
    assert(atom >= 0 && atom < SPMD_MAX_ATOMS); /* a number of the mesh */
    assert(!(spmd_axes_set(axes) >> atom & 1)); /* an axis cuts a dimension once */
    HLO_BUG_IF(axes->count == SPMD_MAX_ATOMS);
    axes->items[axes->count++] = (uint8_t)atom;
}

void spmd_axes_push_set(SpmdAxes *axes, SpmdAtomSet atoms) {
    for (int32_t i = 0; atoms >> i; i++) {
        if (atoms >> i & 1) spmd_axes_push(axes, i);
    }
}

// Most lists that are appended are empty or replace an empty one.
void spmd_axes_append(SpmdAxes *axes, const SpmdAxes *tail) {
    assert(!(spmd_axes_set(axes) & spmd_axes_set(tail))); /* an axis cuts a dimension once */
    HLO_BUG_IF(axes->count + tail->count > SPMD_MAX_ATOMS);
    if (!axes->count) {
        *axes = *tail;
        return;
    }
    for (int32_t i = 0; i < tail->count; i++) axes->items[axes->count + i] = tail->items[i];
    axes->count = (uint8_t)(axes->count + tail->count);
}

SpmdAxes spmd_axes_head(const SpmdAxes *axes, int32_t count) {
    assert(count >= 0 && count <= axes->count); /* the beginning of what is there */
    SpmdAxes head = *axes;
    for (int32_t i = count; i < axes->count; i++) head.items[i] = 0;
    head.count = (uint8_t)count;
    return head;
}

SpmdAxes spmd_axes_tail(const SpmdAxes *axes, int32_t count) {
    assert(count >= 0 && count <= axes->count); /* the rest of what is there */
    SpmdAxes tail = {.count = (uint8_t)(axes->count - count)};
    for (int32_t i = 0; i < tail.count; i++) tail.items[i] = axes->items[count + i];
    return tail;
}

const HloShape *spmd_local_shape(HloArena *arena, const SpmdMesh *mesh, const HloShape *global,
                                 const SpmdSharding *sharding) {
    assert(hlo_shape_is_array(global));
    if (!hlo_shape_is_array(global) || spmd_sharding_is_replicated(sharding)) return global;
    HLO_BUG_IF(global->rank != sharding->rank);
    HloShape *local = HLO_ARENA_NEW(arena, HloShape, 1);
    int64_t *dims = HLO_ARENA_NEW(arena, int64_t, global->rank);
    for (int32_t i = 0; i < global->rank; i++) {
        dims[i] = spmd_shard_size(global->dims[i], spmd_axes_product(mesh, &sharding->dims[i]));
    }
    *local = *global;
    local->dims = dims;
    return local;
}

// With the padding that uneven parts have: what a device really holds and sends.
int64_t spmd_local_bytes(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *sharding) {
    if (!hlo_shape_is_array(global)) return 0;
    int64_t bytes = hlo_type_bytes(global->type);
    for (int32_t i = 0; i < global->rank; i++) {
        const int64_t size = spmd_shard_size(global->dims[i], spmd_axes_product(mesh, &sharding->dims[i]));
        if (size == 0) return 0;  // even if other dimensions are too large
        bytes = spmd_times_bytes(bytes, size);
    }
    return bytes;
}

// Which part a device has along a dimension: the coordinates of its axes read as one number, the first axis most
// significant.
int64_t spmd_axes_index(const SpmdMesh *mesh, const SpmdAxes *axes, int64_t device) {
    assert(device >= 0 && device < mesh->device_count); /* a device of the mesh */
    int64_t index = 0;
    for (int32_t i = 0; i < axes->count; i++) {
        const SpmdAtom *atom = &mesh->atoms[axes->items[i]];
        index = index * atom->size + device / atom->stride % atom->size;
    }
    return index;
}

// The first device of a group that is met is the one at position 0: it has the lowest number.
SpmdPlaces spmd_places(HloArena *arena, const SpmdMesh *mesh, const SpmdAxes *axes) {
    const int64_t devices = mesh->device_count, positions = spmd_axes_product(mesh, axes);
    SpmdPlaces places = {.axes = *axes,
                         .position = HLO_ARENA_NEW(arena, int64_t, devices),
                         .offset = HLO_ARENA_NEW(arena, int64_t, positions)};
    int64_t made = 1;
    for (int32_t i = axes->count - 1; i >= 0; i--) {
        const SpmdAtom *atom = &mesh->atoms[axes->items[i]];
        for (int64_t k = made; k < made * atom->size; k++) places.offset[k] = places.offset[k - made] + atom->stride;
        made *= atom->size;
    }
    for (int64_t i = 0; i < devices; i++) places.position[i] = -1;
    for (int64_t first = 0; first < devices; first++)
        for (int64_t k = 0; places.position[first] < 0 && k < positions; k++) {
            const int64_t at = positions - 1 - k;
            places.position[first + places.offset[at]] = at;
        }
    return places;
}

// The atoms of one axis that follow each other without a gap, from list position `first`; returns how many.
// So that people read "batch" and not the prime factors of it.
static int32_t axis_run(const SpmdMesh *mesh, const SpmdAxes *axes, int32_t first) {
    int32_t count = 1;
    assert(first < axes->count); /* a run has a first atom */
    while (first + count < axes->count && axes->items[first + count] == axes->items[first] + count &&
           mesh->atoms[axes->items[first + count]].axis == mesh->atoms[axes->items[first]].axis) {
        count++;
    }
    return count;
}

// A part of an axis is written as V3 text writes it, axis:(size before)size.
static void print_run(HloText *text, const SpmdMesh *mesh, const uint8_t *atoms, int32_t count) {
    assert(count > 0); /* a run has a first atom */
    int32_t axis = mesh->atoms[atoms[0]].axis;
    int64_t size = 1, pre = 1;
    for (int32_t i = 0; i < count; i++) size *= mesh->atoms[atoms[i]].size;
    for (int32_t i = 0; i < atoms[0]; i++) {
        if (mesh->atoms[i].axis == axis) pre *= mesh->atoms[i].size;
    }
    hlo_text_string(text, mesh->axes[axis].name);
    if (size != mesh->axes[axis].size) hlo_text_format(text, ":(%lld)%lld", (long long)pre, (long long)size);
}

void spmd_axes_print(HloText *text, const SpmdMesh *mesh, const SpmdAxes *axes) {
    for (int32_t i = 0; i < axes->count;) {
        int32_t count = axis_run(mesh, axes, i);
        if (i) hlo_text_char(text, '+');
        print_run(text, mesh, axes->items + i, count);
        i += count;
    }
}

void spmd_sharding_print(HloText *text, const SpmdMesh *mesh, const SpmdSharding *sharding) {
    hlo_text_char(text, '[');
    for (int32_t i = 0; i < sharding->rank; i++) {
        if (i) hlo_text_string(text, ", ");
        hlo_text_char(text, '{');
        spmd_axes_print(text, mesh, &sharding->dims[i]);
        hlo_text_char(text, '}');
    }
    hlo_text_char(text, ']');
}

const char *spmd_sharding_text(HloArena *arena, const SpmdMesh *mesh, const SpmdSharding *sharding) {
    HloText text = {0};
    spmd_sharding_print(&text, mesh, sharding);
    return hlo_text_to_arena(arena, &text);
}
