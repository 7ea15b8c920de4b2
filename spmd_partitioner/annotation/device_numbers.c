// SPDX-License-Identifier: Apache-2.0
// A number is taken apart: its place along the axes that keep their sizes, and its place along the others. Groups that
// differ in the former alone are listed once, for place 0 of the latter, and written for each of the new mesh's:
//
//     data=4, model=2 to data=2, model=2    {{0,1},{2,3},{4,5},{6,7}}    pattern {0,1} over model
//                                           {{0,1},{2,3}}
#include "spmd_partitioner/annotation/device_numbers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/base/vector.h"
#include "hlo/ir/collective.h"

// An axis as factor of a number: the place along it is number / stride % size.
typedef struct Factor {
    const char *name;
    int64_t stride, size;
} Factor;

typedef struct Factors {
    Factor *items;  // from major to minor
    int64_t count;
} Factors;

// A mesh with its axes that the other mesh has in the same size, in the same order in both, and the others.
typedef struct Numbering {
    Factors kept, others;
    int64_t devices;
} Numbering;

typedef HLO_VECTOR(HloInts) Groups;

static int64_t find_axis(const HloMesh *mesh, const char *name, int64_t size) {
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++)
        if (!strcmp(mesh->axis_names[i], name) && mesh->axis_sizes.items[i] == size) return i;
    return -1;
}

static Factor factor_of(const HloMesh *mesh, int64_t axis) {
    Factor factor = {mesh->axis_names[axis], 1, mesh->axis_sizes.items[axis]};
    for (int64_t i = axis + 1; i < mesh->axis_sizes.count; i++) factor.stride *= mesh->axis_sizes.items[i];
    return factor;
}

// Kept axes are in the order of `order`, one of the two meshes.
static Numbering numbering_of(HloArena *arena, const HloMesh *mesh, const HloMesh *other, const HloMesh *order) {
    const int64_t count = mesh->axis_sizes.count;
    Numbering numbering = {.devices = 1};
    numbering.kept.items = HLO_ARENA_NEW(arena, Factor, order->axis_sizes.count + 1);
    numbering.others.items = HLO_ARENA_NEW(arena, Factor, count + 1);
    for (int64_t i = 0; i < order->axis_sizes.count; i++) {
        const char *name = order->axis_names[i];
        const int64_t size = order->axis_sizes.items[i], axis = find_axis(mesh, name, size);
        if (axis < 0 || find_axis(other, name, size) < 0) continue;
        numbering.kept.items[numbering.kept.count++] = factor_of(mesh, axis);
    }
    for (int64_t i = 0; i < count; i++) {
        numbering.devices *= mesh->axis_sizes.items[i];
        if (find_axis(other, mesh->axis_names[i], mesh->axis_sizes.items[i]) < 0)
            numbering.others.items[numbering.others.count++] = factor_of(mesh, i);
    }
    return numbering;
}

static int64_t product_of(const Factors *factors) {
    int64_t product = 1;
    for (int64_t i = 0; i < factors->count; i++) product *= factors->items[i].size;
    return product;
}

static int64_t place_of(const Factors *factors, int64_t number) {
    int64_t place = 0;
    for (int64_t i = 0; i < factors->count; i++)
        place = place * factors->items[i].size + number / factors->items[i].stride % factors->items[i].size;
    return place;
}

// The part of a number that a place along some of the axes makes.
static int64_t number_of(const Factors *factors, int64_t place) {
    int64_t number = 0;
    for (int64_t i = factors->count; i-- > 0;) {
        number += place % factors->items[i].size * factors->items[i].stride;
        place /= factors->items[i].size;
    }
    return number;
}

// The error for a group with the members a and b.
static HloStatus changes(const HloInstruction *op, const Numbering *before, int64_t a, int64_t b) {
    const Factors *others = &before->others;
    const char *name = "";
    for (int64_t i = others->count; i-- > 0;) {
        const Factor *axis = &others->items[i];
        if (a / axis->stride % axis->size != b / axis->stride % axis->size) name = axis->name;
    }
    return hlo_error(HLO_INVALID_ARGUMENT,
                     "%s uses the device numbers of the program's own mesh along the axis '%s', whose size changes",
                     hlo_op_text(op->opcode), name);
}

// In the order of their first members.
static int compare_groups(const void *a, const void *b) {
    const HloInts *x = a, *y = b;
    const int64_t least = x->count < y->count ? x->count : y->count;
    for (int64_t i = 0; i < least; i++)
        if (x->items[i] != y->items[i]) return hlo_compare_int64(&x->items[i], &y->items[i]);
    return hlo_compare_int64(&x->count, &y->count);
}

static void sort_groups(Groups *groups) {
    if (groups->count) qsort(groups->items, (size_t)groups->count, sizeof(HloInts), compare_groups);
}

// The places of a group along the kept axes, each a number in the new mesh at place 0 of its other axes.
static HloStatus read_group(HloArena *arena, const HloInstruction *op, const Numbering *before, const Numbering *after,
                            const HloInts *group, HloInts *result) {
    int64_t *places = HLO_ARENA_NEW(arena, int64_t, group->count);
    for (int64_t i = 0; i < group->count; i++) {
        HLO_FAIL_IF(group->items[i] < 0 || group->items[i] >= before->devices, HLO_INVALID_ARGUMENT,
                    "%s names device %lld of %lld", hlo_op_text(op->opcode), (long long)group->items[i],
                    (long long)before->devices);
        if (place_of(&before->others, group->items[i]) != place_of(&before->others, group->items[0]))
            return changes(op, before, group->items[0], group->items[i]);
        places[i] = number_of(&after->kept, place_of(&before->kept, group->items[i]));
    }
    *result = (HloInts){places, group->count};
    return HLO_SUCCESS;
}

// Reads the groups at place 0, and checks that they are the same at all others.
static HloStatus read_groups(HloArena *arena, const HloInstruction *op, const Numbering *before, const Numbering *after,
                             const HloInts *groups, int64_t count, Groups *pattern) {
    Groups rest = {0};
    for (int64_t g = 0; g < count; g++) {
        HloInts places;
        if (!groups[g].count) continue;
        HLO_TRY(read_group(arena, op, before, after, &groups[g], &places));
        if (place_of(&before->others, groups[g].items[0]) == 0)
            hlo_vector_push(arena, pattern, places);
        else
            hlo_vector_push(arena, &rest, places);
    }
    const int64_t others = product_of(&before->others) - 1;
    bool same = rest.count == pattern->count * others;
    sort_groups(pattern);
    sort_groups(&rest);
    for (int64_t i = 0; same && i < rest.count; i++)
        same = compare_groups(&rest.items[i], &pattern->items[i / others]) == 0;
    HLO_FAIL_IF(!same, HLO_INVALID_ARGUMENT,
                "%s uses the device numbers of the program's own mesh, and not the same ones along the axis '%s', "
                "whose size changes",
                hlo_op_text(op->opcode), before->others.items[0].name);
    return HLO_SUCCESS;
}

// The groups of the pattern at every place of the new mesh's other axes, in the order of their first members.
static void write_groups(HloArena *arena, const Numbering *after, const Groups *pattern, Groups *result) {
    const int64_t places = product_of(&after->others);
    for (int64_t place = 0; place < places; place++) {
        const int64_t first = number_of(&after->others, place);
        for (int64_t p = 0; p < pattern->count; p++) {
            int64_t *devices = HLO_ARENA_NEW(arena, int64_t, pattern->items[p].count);
            for (int64_t i = 0; i < pattern->items[p].count; i++) devices[i] = first + pattern->items[p].items[i];
            const HloInts group = {devices, pattern->items[p].count};
            hlo_vector_push(arena, result, group);
        }
    }
    sort_groups(result);
}

static HloStatus renumber_pairs(HloArena *scratch, HloInstruction *op, const Numbering *before,
                                const Numbering *after) {
    HloArena *arena = op->parent->module->arena;
    HloPermuteAttributes attributes = *HLO_ATTRIBUTES(op, Permute);
    const HloPairs from = attributes.source_target_pairs;
    HloInts *groups = HLO_ARENA_NEW(scratch, HloInts, from.count + 1);
    for (int64_t i = 0; i < from.count; i++) {
        const int64_t ends[2] = {from.items[i].source, from.items[i].target};
        groups[i] = hlo_ints(scratch, ends, 2);
    }
    Groups pattern = {0}, made = {0};
    HLO_TRY(read_groups(scratch, op, before, after, groups, from.count, &pattern));
    write_groups(scratch, after, &pattern, &made);
    HloPair *pairs = HLO_ARENA_NEW(arena, HloPair, made.count + 1);
    for (int64_t i = 0; i < made.count; i++) pairs[i] = (HloPair){made.items[i].items[0], made.items[i].items[1]};
    attributes.source_target_pairs = (HloPairs){pairs, made.count};
    op->attributes = hlo_arena_copy(arena, &attributes, sizeof(attributes));
    return HLO_SUCCESS;
}

static HloStatus renumber_groups(HloArena *scratch, HloInstruction *op, const Numbering *before,
                                 const Numbering *after) {
    HloArena *arena = op->parent->module->arena;
    HloCollectiveAttributes attributes = *HLO_ATTRIBUTES(op, Collective);
    const HloGroupMode mode = hlo_group_mode_of(op);
    const bool all = !attributes.replica_groups || mode == HLO_GROUPS_OF_REPLICAS_PARTITIONS;
    if (mode == HLO_GROUPS_OF_REPLICAS) return HLO_SUCCESS;  // of one replica
    HLO_FAIL_IF(all && (before->others.count || after->others.count), HLO_INVALID_ARGUMENT,
                "%s uses the device numbers of the program's own mesh: all of them", hlo_op_text(op->opcode));
    if (all) return HLO_SUCCESS;
    const HloInts *groups;
    int64_t count, named;
    Groups pattern = {0}, made = {0};
    HLO_TRY(hlo_replica_groups_complete(attributes.replica_groups, before->devices, scratch, &groups, &count, &named));
    HLO_TRY(read_groups(scratch, op, before, after, groups, named, &pattern));
    write_groups(scratch, after, &pattern, &made);
    attributes.replica_groups = hlo_replica_groups_list(arena, made.items, made.count);
    op->attributes = hlo_arena_copy(arena, &attributes, sizeof(attributes));
    return HLO_SUCCESS;
}

HloStatus spmd_renumber_collective(HloArena *scratch, HloInstruction *op, const HloMesh *before, const HloMesh *after) {
    assert(scratch && op && before && after);
    const HloFamily family = hlo_op_info(op->opcode)->family;
    HLO_FAIL_IF(op->parent->module->replica_count > 1, HLO_INVALID_ARGUMENT,
                "%s uses the device numbers of the program's own mesh, of %lld replicas", hlo_op_text(op->opcode),
                (long long)op->parent->module->replica_count);
    const Numbering from = numbering_of(scratch, before, after, before),
                    to = numbering_of(scratch, after, before, before);
    if (family == HLO_FAMILY_Permute) return renumber_pairs(scratch, op, &from, &to);
    return family == HLO_FAMILY_Collective ? renumber_groups(scratch, op, &from, &to) : HLO_SUCCESS;
}
