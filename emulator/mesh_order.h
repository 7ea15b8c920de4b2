// SPDX-License-Identifier: Apache-2.0
// The order of devices in a mesh: the orders that jax.make_mesh, mesh_utils.create_device_mesh and
// mesh_utils.create_hybrid_device_mesh choose, reproduced exactly (JAX 0.10.2 to 0.11; the algorithm is described in
// docs/machine-model.md).
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_MESH_ORDER_H_
#define MESHLO_EMULATOR_MESH_ORDER_H_

#include "emulator/topology.h"

HLO_BEGIN_C

// The most axes that a mesh may have here.
#define EMU_MAX_MESH_AXES 16

// The number of positions in a mesh of these sizes. INVALID_ARGUMENT when a size is below one or the machine has fewer
// devices.
HLO_EXPORT HLO_NODISCARD HloStatus emu_mesh_positions(const EmuTopology *topology, const int64_t *sizes, int64_t count,
                                                      int64_t *places);

// jax.make_mesh: writes the device ids of a mesh with `count` axes of the given sizes, row-major, to `ids_out`, which
// must hold their product. A mesh smaller than the slice uses the first devices. Physical axes are split if
// `allow_split` is set, and always on v5e, as in JAX. INVALID_ARGUMENT when the slice has fewer devices; UNIMPLEMENTED,
// with the reason, for a mesh that JAX does not place: axes that are not products of whole physical axes, several
// slices, devices that do not form a box.
HLO_EXPORT HLO_NODISCARD HloStatus emu_mesh_order(const EmuTopology *topology, const int64_t *sizes, int64_t count,
                                                  bool allow_split, int64_t *ids_out);

// create_hybrid_device_mesh: slices form a mesh of `dcn_sizes`, the devices of each slice one of `sizes`. The result
// has sizes[i] * dcn_sizes[i] along axis i with the slice as its major part. Errors as above.
HLO_EXPORT HLO_NODISCARD HloStatus emu_mesh_order_hybrid(const EmuTopology *topology, const int64_t *sizes,
                                                         const int64_t *dcn_sizes, int64_t count, bool allow_split,
                                                         int64_t *ids_out);

// Blocks of chips around which a mesh axis goes as a ring: `along` and `across` are physical axes (0 to 2). A block is
// two chips wide across and half the axis' size long along.
typedef struct EmuRings {
    int64_t axis;  // of the mesh
    int along, across;
} EmuRings;

// An order that JAX does not choose, for slices whose torus is not closed: the devices of one mesh axis walk around
// blocks of chips, so that the first and the last are neighbours too, and the blocks follow the other axes in row-major
// order (as in MaxText's hybrid_ring meshes).
//
//     axis of 8 on blocks of 4x2:     0 - 1 - 2 - 3
//                                     |           |
//                                     7 - 6 - 5 - 4
//
// False where that does not work: an axis of odd size or below four, blocks that do not fill the slice, several slices,
// chips of two devices, other sizes than those of the slice. `ids_out` as for emu_mesh_order().
HLO_EXPORT bool emu_mesh_ring_order(const EmuTopology *topology, const int64_t *sizes, int64_t count, EmuRings rings,
                                    int64_t *ids_out);

// Options of create_device_mesh.
typedef struct EmuMeshOptions {
    bool allow_split_physical_axes;
    bool contiguous_submeshes;
} EmuMeshOptions;

// create_device_mesh over any list of devices of one kind: writes positions in the list. The product of the sizes must
// be `device_count`. Errors as above.
HLO_EXPORT HLO_NODISCARD HloStatus emu_device_mesh(const EmuDevice *devices, int64_t device_count,
                                                   const char *device_kind, const int64_t *sizes, int64_t count,
                                                   EmuMeshOptions options, int64_t *places_out);

// A grid of devices for the mesh algorithms: positions in the device list, the last axis fastest.
typedef struct EmuPhysicalMesh {
    int64_t rank;      // 3 or 4
    int64_t sizes[4];  // x, y, z, core (on v2 and v3: x, y, core)
    int64_t *places;
} EmuPhysicalMesh;

// How much of physical axis p logical axis l takes: sizes[p * axes + l].
typedef struct EmuMeshAssignment {
    int64_t axes;  // logical
    int64_t sizes[4 * EMU_MAX_MESH_AXES];
} EmuMeshAssignment;

// Chooses physical axes for the logical ones, last axis first, whole axes only. UNIMPLEMENTED when that does not work.
HLO_EXPORT HLO_NODISCARD HloStatus emu_mesh_assign(const EmuPhysicalMesh *physical, const int64_t *sizes, int64_t count,
                                                   EmuMeshAssignment *assignment);
// The same, splitting physical axes. INVALID_ARGUMENT when the products differ.
HLO_EXPORT HLO_NODISCARD HloStatus emu_mesh_assign_split(const EmuPhysicalMesh *physical, const int64_t *sizes,
                                                         int64_t count, EmuMeshAssignment *assignment);

HLO_END_C

#endif
