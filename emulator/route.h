// SPDX-License-Identifier: Apache-2.0
// The links of a slice and the routes through them. Links are directed and numbered:
//   chip * 6 + axis * 2 + direction   from a chip to its neighbour along x, y, z; direction 0 goes up, 1 goes down
//   package_base + device position    from a device to the other device of its chip
//   dcn_base + host * 2 + direction   a host's connection to the network between slices; 0 goes out, 1 comes in
// Numbers of links that do not exist (beyond the end of an axis that does not wrap) are skipped.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_ROUTE_H_
#define MESHLO_EMULATOR_ROUTE_H_

#include "emulator/topology.h"

HLO_BEGIN_C

typedef enum EmuLinkKind { EMU_LINK_ICI, EMU_LINK_PACKAGE, EMU_LINK_DCN } EmuLinkKind;

// What a link connects.
typedef struct EmuLink {
    EmuLinkKind kind;
    bool exists;
    int64_t from, to;  // positions of devices (their chip's first for ICI); -1: the network between slices
} EmuLink;

// Numbers are below this one.
static inline int64_t emu_link_limit(const EmuTopology *topology) {
    return topology->chip_count * 6 + topology->device_count + topology->host_count * 2;
}
// The link from chip `chip` along `axis` (0..2), up (direction 0) or down (1).
static inline int64_t emu_ici_link(int64_t chip, int64_t axis, int64_t direction) {
    return chip * 6 + axis * 2 + direction;
}
// The link from the device at position `place` to the other one of its chip.
static inline int64_t emu_package_link(const EmuTopology *topology, int64_t place) {
    return topology->chip_count * 6 + place;
}
// The connection of `host` to the network between slices: direction 0 out, 1 in.
static inline int64_t emu_dcn_link(const EmuTopology *topology, int64_t host, int64_t direction) {
    return topology->chip_count * 6 + topology->device_count + host * 2 + direction;
}
// Describes a link number.
HLO_EXPORT EmuLink emu_link_describe(const EmuTopology *topology, int64_t link);
// Bytes a second in the link's direction, as specified (without the efficiency that is reached).
HLO_EXPORT double emu_link_bytes_per_second(const EmuTopology *topology, EmuLinkKind kind);

// The longest route through a slice and between two, in links.
#define EMU_MAX_ROUTE (4 * EMU_MAX_AXIS)

// Whether going around this axis shifts the others: the short axes of a twisted torus, half-way along the long ones.
static inline bool emu_axis_is_twisted(const EmuTopology *topology, int axis) {
    return topology->twisted && 2 * topology->shape[axis] == topology->shape[2];
}

// The route from one device to another, both given by position: core, then x, y, z in the shorter direction (where both
// are equally short, senders alternate: even coordinates go up, odd ones down), through the network between slices if
// they are on different slices. Writes at most EMU_MAX_ROUTE link numbers and returns how many; 0 for a device to
// itself.
HLO_EXPORT int64_t emu_route(const EmuTopology *topology, int64_t from_place, int64_t to_place, int64_t *links);

// Chips crossed along one axis from coordinate `from` to `to`: positive up, negative down, on the shorter side. Where
// both are equally long, even coordinates go up and odd ones down.
HLO_EXPORT int64_t emu_axis_distance(const EmuTopology *topology, int axis, int64_t from, int64_t to);

HLO_END_C

#endif
