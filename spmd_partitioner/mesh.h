// SPDX-License-Identifier: Apache-2.0
// Meshes: the devices as a grid of named axes, each split into prime factors. With prime factors ("atoms") every
// sub-axis that a reshard could need is a whole number of atoms, so the rest of the partitioner never splits an axis.
#ifndef MESHLO_SPMD_PARTITIONER_MESH_H_
#define MESHLO_SPMD_PARTITIONER_MESH_H_

#include "hlo/base/vector.h"
#include "spmd_partitioner/spmd.h"

// More prime factors than any machine has devices for: 2^23 devices.
#define SPMD_MAX_ATOMS 23
#define SPMD_MAX_DEVICES (INT64_C(1) << SPMD_MAX_ATOMS)

// A prime factor of the device count.
typedef struct SpmdAtom {
    int32_t axis;    // the named axis that it is a part of
    int64_t size;    // prime
    int64_t stride;  // distance of neighbours in mesh positions
} SpmdAtom;

// A set of atoms: bit k is atom k.
typedef uint32_t SpmdAtomSet;

// Devices in an order of their own. Devices are numbers below `count`, and so are the positions of a mesh.
typedef struct SpmdDeviceOrder {
    const int64_t *devices;    // by position; NULL: device p is at position p
    const int64_t *positions;  // by device; NULL as `devices`
    int64_t count;             // of devices; 0 as `devices`
} SpmdDeviceOrder;

static inline int64_t spmd_position_of(const SpmdDeviceOrder *order, int64_t device) {
    return order->positions ? order->positions[device] : device;
}

// Everything between the reading of annotations and passes/number.c counts devices by their positions.
typedef struct SpmdMesh {
    int64_t device_count;
    const SpmdMeshAxis *axes;  // from major to minor
    int32_t axis_count;
    int32_t atom_count;
    SpmdAtom atoms[SPMD_MAX_ATOMS];  // from major to minor
    SpmdDeviceOrder order;
} SpmdMesh;

// A mesh of these axes over devices 0..n-1. INVALID_ARGUMENT when a size is not positive, a name repeats or there are
// more than SPMD_MAX_DEVICES. The axes are copied.
HloStatus spmd_mesh_new(HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count, const SpmdMesh **mesh);
// A mesh of the same axes whose atoms also respect `cuts`: strides (ascending, each dividing the next) at which some
// annotation separates devices. The devices have an order of their own, which is not copied (NULL: the plain one).
HloStatus spmd_mesh_with_splits(HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count, const int64_t *splits,
                                int64_t split_count, const SpmdDeviceOrder *order, const SpmdMesh **mesh);
// Product of the sizes of a set of atoms.
int64_t spmd_atoms_product(const SpmdMesh *mesh, SpmdAtomSet atoms);
// All atoms of the mesh.
static inline SpmdAtomSet spmd_mesh_all(const SpmdMesh *mesh) {
    return ((SpmdAtomSet)1 << mesh->atom_count) - 1;
}

// The groups of devices that differ only in `atoms` (in that order, major to minor), as V2 iota groups: those of each
// of `replicas` copies of the mesh, numbered one after another.
const HloReplicaGroups *spmd_mesh_groups(HloArena *arena, const SpmdMesh *mesh, int64_t replicas, const uint8_t *atoms,
                                         int32_t count);

#endif
