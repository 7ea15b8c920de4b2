// SPDX-License-Identifier: Apache-2.0
// Replica groups: creation, comparison, and expansion to lists of devices.
//
// XLA has three forms (CollectiveDeviceList, IotaReplicaGroupList and MeshAxesReplicaGroupList): lists, the iota
// formula of shardings, and axes of a mesh. They are kept as written, because printing must reproduce them; code that
// runs or analyses a collective requests the lists. Nothing in them can be trusted before hlo_replica_groups_expand()
// has checked it.
#include "hlo/ir/replica_groups.h"

#include <assert.h>
#include <string.h>

#include "hlo/base/map.h"
#include "hlo/ir/attributes.h"

const HloReplicaGroups *hlo_replica_groups_list(HloArena *arena, const HloInts *groups, int64_t count) {
    assert(arena && count >= 0);
    HloReplicaGroups *result = HLO_ARENA_NEW(arena, HloReplicaGroups, 1);
    HloInts *copies = HLO_ARENA_NEW(arena, HloInts, count);
    for (int64_t i = 0; i < count; i++) copies[i] = hlo_ints_copy(arena, groups[i]);
    result->form = HLO_GROUPS_LIST;
    result->groups = copies;
    result->count = count;
    return result;
}

const HloReplicaGroups *hlo_replica_groups_iota(HloArena *arena, int64_t groups, int64_t size, const int64_t *dims,
                                                const int64_t *permutation, int64_t rank) {
    assert(arena && groups >= 0 && size >= 0 && rank >= 0);
    HloReplicaGroups *result = HLO_ARENA_NEW(arena, HloReplicaGroups, 1);
    result->form = HLO_GROUPS_IOTA;
    result->count = groups;
    result->size = size;
    result->iota.dims = hlo_ints(arena, dims, rank);
    if (permutation) result->iota.permutation = hlo_ints(arena, permutation, rank);
    return result;
}

// The `total` devices of a mesh in its order. An explicit order is not copied: the result must not be modified.
static const int64_t *mesh_devices(const HloMesh *mesh, int64_t total, HloArena *arena) {
    assert(total >= 0);
    if (mesh->device_ids.count > 0) return mesh->device_ids.items;
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, total);
    if (mesh->iota.dims.count > 0) {
        hlo_iota_devices_expand(&mesh->iota, devices);
    } else {
        for (int64_t i = 0; i < total; i++) devices[i] = i;
    }
    return devices;
}

// Computes, for a mesh position, its rank within its group and the number of the group: the digits of the named
// (sub-)axes in their order form the rank, all other digits the group.
static void split_position(const HloReplicaGroups *groups, int64_t position, int64_t *rank, int64_t *group) {
    assert(position >= 0);
    const HloInts sizes = groups->mesh.axis_sizes;
    *rank = 0;
    for (int64_t a = 0; a < groups->axis_count; a++) {
        const HloAxisRef *ref = &groups->axes[a];
        int64_t below = 1;
        for (int64_t i = ref->axis + 1; i < sizes.count; i++) below *= sizes.items[i];
        int64_t axis_size = sizes.items[ref->axis];
        int64_t coordinate = position / below % axis_size;
        int64_t size = ref->size ? ref->size : axis_size;
        int64_t minor = ref->size ? axis_size / (ref->pre_size * ref->size) : 1;
        int64_t digit = coordinate / minor % size;
        *rank = *rank * size + digit;
        position -= digit * minor * below;  // the remainder identifies the group
    }
    *group = position;
}

// Groups are numbered by their first position. `number` is indexed by the position of a group's first member, which is
// what split_position() leaves when the rank's digits are removed. The axes have been checked.
static void expand_mesh(const HloReplicaGroups *groups, HloArena *arena, const HloInts **lists, int64_t *count) {
    int64_t total = 1, size = 1;
    for (int64_t i = 0; i < groups->mesh.axis_sizes.count; i++) total *= groups->mesh.axis_sizes.items[i];
    for (int64_t a = 0; a < groups->axis_count; a++) {
        const HloAxisRef *ref = &groups->axes[a];
        size *= ref->size ? ref->size : groups->mesh.axis_sizes.items[ref->axis];
    }
    const int64_t *devices = mesh_devices(&groups->mesh, total, arena);
    int64_t *number = HLO_ARENA_NEW(arena, int64_t, total);  // group key -> 1 + position in the result
    HloInts *result = HLO_ARENA_NEW(arena, HloInts, total / size);
    int64_t found = 0;
    for (int64_t position = 0; position < total; position++) {
        int64_t rank, group;
        split_position(groups, position, &rank, &group);
        if (!number[group]) {
            result[found] = (HloInts){HLO_ARENA_NEW(arena, int64_t, size), size};
            number[group] = ++found;
        }
        ((int64_t *)(uintptr_t)result[number[group] - 1].items)[rank] = devices[position];
    }
    *lists = result;
    *count = found;
}

static void expand_iota(const HloReplicaGroups *groups, HloArena *arena, const HloInts **lists, int64_t *count) {
    assert(groups->form == HLO_GROUPS_IOTA);
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, groups->count * groups->size);
    hlo_iota_devices_expand(&groups->iota, devices);
    HloInts *result = HLO_ARENA_NEW(arena, HloInts, groups->count);
    for (int64_t i = 0; i < groups->count; i++) result[i] = (HloInts){devices + i * groups->size, groups->size};
    *lists = result;
    *count = groups->count;
}

static void expand_everyone(int64_t device_count, HloArena *arena, const HloInts **lists, int64_t *count) {
    assert(device_count >= 0);
    int64_t *devices = HLO_ARENA_NEW(arena, int64_t, device_count);
    for (int64_t i = 0; i < device_count; i++) devices[i] = i;
    HloInts *result = HLO_ARENA_NEW(arena, HloInts, 1);
    result[0] = (HloInts){devices, device_count};
    *lists = result;
    *count = 1;
}

// True for empty groups, which XLA treats as one group of all devices.
static bool names_no_device(const HloReplicaGroups *groups) {
    return !groups || (groups->form == HLO_GROUPS_LIST && groups->count == 0);
}

// Checks groups over axes of a mesh: each axis exists, each part is a whole number of steps of its axis, and none is
// named twice.
static HloStatus check_mesh_axes(const HloReplicaGroups *groups) {
    assert(groups->form == HLO_GROUPS_MESH);
    const HloInts sizes = groups->mesh.axis_sizes;
    for (int64_t a = 0; a < groups->axis_count; a++) {
        const HloAxisRef *ref = &groups->axes[a];
        const bool known = ref->axis >= 0 && ref->axis < sizes.count;
        HLO_FAIL_IF(
            !known || (ref->size && (ref->size < 1 || ref->pre_size < 1 || ref->pre_size > sizes.items[ref->axis] ||
                                     ref->size > sizes.items[ref->axis] / ref->pre_size ||
                                     sizes.items[ref->axis] % (ref->pre_size * ref->size))),
            HLO_INVALID_ARGUMENT, "the replica groups are over part of an axis that the mesh does not have");
        for (int64_t b = 0; b < a; b++) {
            const HloAxisRef *other = &groups->axes[b];
            if (other->axis != ref->axis) continue;
            const bool apart =
                ref->size && other->size &&
                (ref->pre_size >= other->pre_size * other->size || other->pre_size >= ref->pre_size * ref->size);
            HLO_FAIL_IF(!apart, HLO_INVALID_ARGUMENT, "the replica groups are over an axis of the mesh twice");
        }
    }
    return HLO_SUCCESS;
}

// Groups given by a formula name as many devices as it has positions. A few characters can request 2^60: that is
// detected before they are expanded, not at the first number that is too large.
static HloStatus check_count(const HloReplicaGroups *groups, int64_t device_count) {
    int64_t total = 1;
    bool overflow = false;
    if (groups->form == HLO_GROUPS_IOTA) overflow = __builtin_mul_overflow(groups->count, groups->size, &total);
    for (int64_t i = 0; groups->form == HLO_GROUPS_MESH && i < groups->mesh.axis_sizes.count; i++) {
        const int64_t size = groups->mesh.axis_sizes.items[i];
        HLO_FAIL_IF(size < 1, HLO_INVALID_ARGUMENT, "an axis of the replica groups' mesh has size %lld",
                    (long long)size);
        overflow |= __builtin_mul_overflow(total, size, &total);
    }
    HLO_FAIL_IF(groups->form != HLO_GROUPS_LIST && (overflow || total > device_count), HLO_INVALID_ARGUMENT,
                "the replica groups name more than the %lld devices of the run", (long long)device_count);
    const bool is_mesh = groups->form == HLO_GROUPS_MESH;
    const HloInts dims = is_mesh ? groups->mesh.iota.dims : groups->iota.dims;
    // Both orders are written into an array of `total`; a mesh without either counts from 0.
    int64_t listed = is_mesh && groups->mesh.device_ids.count ? groups->mesh.device_ids.count : total;
    if (dims.count && listed == total) {
        listed = 1;
        for (int64_t i = 0; i < dims.count; i++) overflow |= __builtin_mul_overflow(listed, dims.items[i], &listed);
    }
    HLO_FAIL_IF(groups->form != HLO_GROUPS_LIST && (overflow || listed != total), HLO_INVALID_ARGUMENT,
                "the device order of the replica groups lists %lld devices, not %lld", (long long)listed,
                (long long)total);
    return HLO_SUCCESS;
}

// Expands the written groups, and marks the devices that they name: each at most once.
static HloStatus expand_written(const HloReplicaGroups *groups, int64_t device_count, HloArena *arena,
                                const HloInts **lists, int64_t *count, const bool **named) {
    assert(arena && lists && count && named);
    HLO_TRY(check_count(groups, device_count));
    if (groups->form == HLO_GROUPS_MESH) HLO_TRY(check_mesh_axes(groups));
    switch (groups->form) {
        case HLO_GROUPS_LIST:
            *lists = groups->groups;
            *count = groups->count;
            break;
        case HLO_GROUPS_IOTA: expand_iota(groups, arena, lists, count); break;
        case HLO_GROUPS_MESH: expand_mesh(groups, arena, lists, count); break;
    }
    bool *seen = HLO_ARENA_NEW(arena, bool, device_count);
    for (int64_t i = 0; i < *count; i++) {
        for (int64_t j = 0; j < (*lists)[i].count; j++) {
            int64_t device = (*lists)[i].items[j];
            HLO_FAIL_IF(device < 0 || device >= device_count, HLO_INVALID_ARGUMENT,
                        "replica group %lld names device %lld, but there are %lld devices", (long long)i,
                        (long long)device, (long long)device_count);
            HLO_FAIL_IF(seen[device], HLO_INVALID_ARGUMENT, "device %lld is in the replica groups twice",
                        (long long)device);
            seen[device] = true;
        }
    }
    *named = seen;
    return HLO_SUCCESS;
}

HloStatus hlo_replica_groups_expand(const HloReplicaGroups *groups, int64_t device_count, HloArena *arena,
                                    const HloInts **lists, int64_t *count) {
    assert(arena && lists && count);
    if (names_no_device(groups)) {
        expand_everyone(device_count, arena, lists, count);
        return HLO_SUCCESS;
    }
    const bool *seen;
    HLO_TRY(expand_written(groups, device_count, arena, lists, count, &seen));
    for (int64_t device = 0; device < device_count; device++) {
        HLO_FAIL_IF(!seen[device], HLO_INVALID_ARGUMENT, "device %lld is in no replica group", (long long)device);
    }
    return HLO_SUCCESS;
}

HloStatus hlo_replica_groups_complete(const HloReplicaGroups *groups, int64_t device_count, HloArena *arena,
                                      const HloInts **lists, int64_t *count, int64_t *named) {
    assert(arena && lists && count && named);
    if (names_no_device(groups)) {
        expand_everyone(device_count, arena, lists, count);
        *named = *count;
        return HLO_SUCCESS;
    }
    const bool *seen;
    HLO_TRY(expand_written(groups, device_count, arena, lists, count, &seen));
    *named = *count;
    HloInts *all = HLO_ARENA_NEW(arena, HloInts, *count + device_count);
    for (int64_t i = 0; i < *count; i++) all[i] = (*lists)[i];
    for (int64_t device = 0; device < device_count; device++)
        if (!seen[device]) all[(*count)++] = hlo_ints(arena, &device, 1);
    *lists = all;
    return HLO_SUCCESS;
}

int64_t hlo_replica_groups_size(const HloReplicaGroups *groups) {
    if (!groups) return 0;
    if (groups->form == HLO_GROUPS_IOTA) return groups->size;
    if (groups->form == HLO_GROUPS_MESH) {
        int64_t size = 1;
        for (int64_t a = 0; a < groups->axis_count; a++) {
            const HloAxisRef *ref = &groups->axes[a];
            const int64_t axis = ref->size ? ref->size : groups->mesh.axis_sizes.items[ref->axis];
            if (__builtin_mul_overflow(size, axis, &size)) return 0;
        }
        return size;
    }
    for (int64_t i = 1; i < groups->count; i++) {
        if (groups->groups[i].count != groups->groups[0].count) return 0;
    }
    return groups->count ? groups->groups[0].count : 0;
}

const HloReplicaGroups *hlo_replica_groups_copy(HloArena *arena, const HloReplicaGroups *groups) {
    HloReplicaGroups *copy = hlo_arena_copy(arena, groups, sizeof(*groups));
    if (groups->form == HLO_GROUPS_LIST) return hlo_replica_groups_list(arena, groups->groups, groups->count);
    copy->iota.dims = hlo_ints_copy(arena, groups->iota.dims);
    copy->iota.permutation = hlo_ints_copy(arena, groups->iota.permutation);
    hlo_mesh_copy(arena, &copy->mesh);
    copy->axes = hlo_arena_copy(arena, groups->axes, (size_t)groups->axis_count * sizeof(*groups->axes));
    return copy;
}

bool hlo_replica_groups_equal(const HloReplicaGroups *a, const HloReplicaGroups *b) {
    if (a->form != b->form || a->count != b->count || a->size != b->size || a->axis_count != b->axis_count ||
        !hlo_ints_equal(a->iota.dims, b->iota.dims) || !hlo_ints_equal(a->iota.permutation, b->iota.permutation) ||
        !hlo_mesh_equal(&a->mesh, &b->mesh)) {
        return false;
    }
    if (a->axis_count && memcmp(a->axes, b->axes, (size_t)a->axis_count * sizeof(*a->axes)) != 0) return false;
    for (int64_t i = 0; a->form == HLO_GROUPS_LIST && i < a->count; i++) {
        if (!hlo_ints_equal(a->groups[i], b->groups[i])) return false;
    }
    return true;
}

uint64_t hlo_replica_groups_hash(const HloReplicaGroups *groups) {
    assert(groups);
    const uint64_t numbers[] = {(uint64_t)groups->form, (uint64_t)groups->count, (uint64_t)groups->size,
                                (uint64_t)groups->axis_count};
    const HloInts lists[] = {groups->iota.dims, groups->iota.permutation};
    uint64_t hash = hlo_hash_mix(hlo_hash_bytes(numbers, sizeof(numbers)), hlo_mesh_hash(&groups->mesh));
    for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) hash = hlo_hash_mix(hash, hlo_ints_hash(lists[i]));
    for (int64_t i = 0; i < groups->axis_count; i++)
        hash = hlo_hash_mix(hash, hlo_hash_bytes(&groups->axes[i], sizeof(groups->axes[i])));
    for (int64_t i = 0; groups->form == HLO_GROUPS_LIST && i < groups->count; i++)
        hash = hlo_hash_mix(hash, hlo_ints_hash(groups->groups[i]));
    return hash;
}
