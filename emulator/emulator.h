// SPDX-License-Identifier: Apache-2.0
// The machine model: what a TPU slice is and how long a program takes on it. This header is the room's manual; it brings
// in the parts:
//
//   chip.h        generations of chips and every number about them, with sources (emulator/chips.def)
//   topology.h    slices by name or from XML: shape, wrapping links, hosts, devices as JAX lists them
//   mesh_order.h  which device stands where in a mesh, as JAX chooses it
//   route.h       links of the torus and ways through it
//   draw.h        drawings of slices and of sharded arrays
//
// Nothing here prints, starts threads or keeps state: all calls may be made from any thread on objects that no other
// thread changes. Times are integers in picoseconds, sizes in bytes, unless a name says otherwise.
#ifndef MESHLO_EMULATOR_EMULATOR_H_
#define MESHLO_EMULATOR_EMULATOR_H_

#include "emulator/chip.h"
#include "emulator/draw.h"
#include "emulator/mesh_order.h"
#include "emulator/route.h"
#include "emulator/topology.h"

#endif
