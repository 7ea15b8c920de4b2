// SPDX-License-Identifier: Apache-2.0
// Axes are split into prime factors, larger strides first, where annotations split them. Everything else uses these
// atoms: a set of atoms is a bit mask, a list of them a shard order.
#include "spmd_partitioner/mesh.h"

#include <assert.h>

// Appends the prime factors of `size` as atoms of `axis`, larger strides first; `stride` is that of the last one.
static void push_primes(SpmdMesh *mesh, int32_t axis, int64_t size, int64_t stride) {
    assert(size >= 1 && stride >= 1); /* parts of an axis that check_axes() has seen */
    int64_t rest = size, above = stride * size;
    for (int64_t prime = 2; rest > 1; prime++) {
        if (prime * prime > rest) prime = rest;
        while (rest % prime == 0) {
            assert(mesh->atom_count < SPMD_MAX_ATOMS); /* no more prime factors than SPMD_MAX_DEVICES has */
            above /= prime;
            mesh->atoms[mesh->atom_count++] = (SpmdAtom){.axis = axis, .size = prime, .stride = above};
            rest /= prime;
        }
    }
}

// Sizes, names and the product; everything below may take them for granted.
static HloStatus check_axes(const SpmdMeshAxis *axes, int64_t axis_count, int64_t *device_count) {
    int64_t product = 1;
    for (int64_t i = 0; i < axis_count; i++) {
        HLO_FAIL_IF(axes[i].size < 1, HLO_INVALID_ARGUMENT, "mesh axis '%s' has size %lld: it must be at least 1",
                    axes[i].name, (long long)axes[i].size);
        for (int64_t j = 0; j < i; j++) {
            HLO_FAIL_IF(!strcmp(axes[i].name, axes[j].name), HLO_INVALID_ARGUMENT, "mesh axis '%s' is named twice",
                        axes[i].name);
        }
        HLO_FAIL_IF(__builtin_mul_overflow(product, axes[i].size, &product) || product > SPMD_MAX_DEVICES,
                    HLO_INVALID_ARGUMENT, "a mesh of more than %lld devices is not supported",
                    (long long)SPMD_MAX_DEVICES);
    }
    *device_count = product;
    return HLO_SUCCESS;
}

static const SpmdMeshAxis *copy_axes(HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count) {
    SpmdMeshAxis *copy = HLO_ARENA_NEW(arena, SpmdMeshAxis, axis_count + 1);
    for (int64_t i = 0; i < axis_count; i++) {
        copy[i] = (SpmdMeshAxis){hlo_arena_text(arena, axes[i].name), axes[i].size};
    }
    return copy;
}

// Splits one axis, whose minor neighbour has stride `low`, at the cuts inside of it.
static void push_axis(SpmdMesh *mesh, int32_t axis, int64_t low, const int64_t *splits, int64_t split_count) {
    assert(low >= 1 && axis < mesh->axis_count); /* the stride of its minor neighbour */
    int64_t high = low * mesh->axes[axis].size;
    for (int64_t i = split_count - 1; i >= 0; i--) {
        if (splits[i] >= high || splits[i] <= low || high % splits[i] || splits[i] % low) continue;
        push_primes(mesh, axis, high / splits[i], splits[i]);
        high = splits[i];
    }
    push_primes(mesh, axis, high / low, low);
}

HloStatus spmd_mesh_with_splits(HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count, const int64_t *splits,
                                int64_t split_count, const SpmdDeviceOrder *order, const SpmdMesh **result) {
    assert(arena && axis_count >= 0 && split_count >= 0 && result);
    SpmdMesh *mesh = HLO_ARENA_NEW(arena, SpmdMesh, 1);
    HLO_TRY(check_axes(axes, axis_count, &mesh->device_count));
    mesh->axes = copy_axes(arena, axes, axis_count);
    mesh->axis_count = (int32_t)axis_count;
    if (order) mesh->order = *order;
    int64_t low = mesh->device_count;
    for (int32_t axis = 0; axis < mesh->axis_count; axis++) {
        low /= axes[axis].size;
        push_axis(mesh, axis, low, splits, split_count);
    }
    *result = mesh;
    return HLO_SUCCESS;
}

HloStatus spmd_mesh_new(HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count, const SpmdMesh **mesh) {
    return spmd_mesh_with_splits(arena, axes, axis_count, NULL, 0, NULL, mesh);
}

// The number of devices that differ in these atoms.
int64_t spmd_atoms_product(const SpmdMesh *mesh, SpmdAtomSet atoms) {
    int64_t product = 1;
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if (atoms >> i & 1) product *= mesh->atoms[i].size;
    }
    return product;
}

// A run of atoms that are neighbours in the mesh and in the requested order: one dimension of an iota.
typedef struct Run {
    int32_t first, last;  // atom numbers, inclusive
    int64_t size;
    int64_t order;  // its position among the runs in mesh order
} Run;

// Splits `order` (a permutation of all atoms) into runs.
static int32_t find_runs(const SpmdMesh *mesh, const uint8_t *order, Run *runs) {
    assert(mesh->atom_count <= SPMD_MAX_ATOMS); /* the tables have no more room */
    int32_t count = 0;
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        int32_t atom = order[i];
        if (i == 0 || runs[count - 1].last + 1 != atom) {
            runs[count++] = (Run){.first = atom, .last = atom, .size = mesh->atoms[atom].size};
        } else {
            runs[count - 1].last = atom;
            runs[count - 1].size *= mesh->atoms[atom].size;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < count; j++) runs[i].order += runs[j].first < runs[i].first;
    }
    return count;
}

// Order: first the atoms that differ between groups, then those of the group, as requested. Atoms that are neighbours
// in both orders join into runs, and the runs are the dimensions of a transposed iota: [groups,size]<=[runs]T(order).
const HloReplicaGroups *spmd_mesh_groups(HloArena *arena, const SpmdMesh *mesh, int64_t replicas, const uint8_t *atoms,
                                         int32_t count) {
    assert(count >= 0 && count <= mesh->atom_count); /* each atom once */
    assert(replicas > 0);
    uint8_t order[SPMD_MAX_ATOMS];
    SpmdAtomSet inside = 0;
    int32_t total = 0;
    int64_t size = 1;
    for (int32_t i = 0; i < count; i++) {
        inside |= (SpmdAtomSet)1 << atoms[i];
        size *= mesh->atoms[atoms[i]].size;
    }
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if (!(inside >> i & 1)) order[total++] = (uint8_t)i;
    }
    memcpy(order + total, atoms, (size_t)count);
    Run runs[SPMD_MAX_ATOMS + 1] = {{0}};
    int32_t run_count = find_runs(mesh, order, runs);
    int64_t dims[SPMD_MAX_ATOMS + 2], permutation[SPMD_MAX_ATOMS + 2];
    const int64_t devices = replicas * mesh->device_count;
    if (run_count <= 1) return hlo_replica_groups_iota(arena, devices / size, size, &devices, NULL, 1);
    const int32_t major = replicas > 1;  // replicas are one more dimension, before all others
    dims[0] = replicas;
    permutation[0] = 0;
    for (int32_t i = 0; i < run_count; i++) {
        dims[runs[i].order + major] = runs[i].size;
        permutation[i + major] = runs[i].order + major;
    }
    return hlo_replica_groups_iota(arena, devices / size, size, dims, permutation, run_count + major);
}
