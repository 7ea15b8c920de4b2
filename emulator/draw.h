// SPDX-License-Identifier: Apache-2.0
// Drawings: which device holds which part of an array (as jax.debug.visualize_array_sharding draws it), and the chips
// of a slice in text or SVG.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_DRAW_H_
#define MESHLO_EMULATOR_DRAW_H_

#include "emulator/topology.h"

HLO_BEGIN_C

// The part of an array that one device holds: elements start (included) to limit (excluded) along each dimension.
typedef struct EmuShard {
    int64_t device_id;
    int64_t start[2];
    int64_t limit[2];
} EmuShard;

// How a dimension of an array is sharded: over the mesh axes with these indices, major first; none if it is not
// sharded.
typedef struct EmuSpecDimension {
    const int64_t *axes;
    int64_t count;
} EmuSpecDimension;

// The parts that the devices of a mesh hold. `ids` are its devices, row-major over `mesh_rank` axes of sizes
// `mesh_sizes`; `spec` has one entry for each of the 1 or 2 dimensions `dims`. Writes one shard for each device to
// `shards`. INVALID_ARGUMENT when an axis is unknown or used twice, or does not divide the dimension.
HLO_EXPORT HLO_NODISCARD HloStatus emu_shards_of_spec(const int64_t *ids, const int64_t *mesh_sizes, int64_t mesh_rank,
                                                      const int64_t *dims, int64_t rank, const EmuSpecDimension *spec,
                                                      EmuShard *shards);

typedef enum EmuBoxStyle {
    EMU_BOX_LINES,  // boxes with lines, as JAX draws without colour
    EMU_BOX_PLAIN,  // no lines and one more blank around each label, as JAX lays it out on coloured ground
} EmuBoxStyle;

// Draws an array of 1 or 2 dimensions split into `count` shards; devices with equal shards share a box. `label`
// precedes the device numbers ("TPU"). Boxes are as JAX draws them, up to its 80 columns; where that is too little they
// become wider rather than losing their labels. INVALID_ARGUMENT when the parts do not tile the array as a grid.
HLO_EXPORT HLO_NODISCARD HloStatus emu_draw_sharding(const char *label, const int64_t *dims, int64_t rank,
                                                     const EmuShard *shards, int64_t count, EmuBoxStyle style,
                                                     HloText *text);

// The chips of one slice as a text drawing, plane by plane, with their devices, links and hosts.
HLO_EXPORT void emu_draw_topology(const EmuTopology *topology, HloText *text);

// The same as SVG: chips coloured by host, links along the axes, wrapping links as arcs. `link_load`, if not NULL, has
// a number from 0 to 1 for each link (emulator/route.h) and colours them.
HLO_EXPORT void emu_draw_topology_svg(const EmuTopology *topology, const double *link_load, HloText *text);

HLO_END_C

#endif
