// SPDX-License-Identifier: Apache-2.0
// The machine model: what a TPU slice is and how long a program takes on it. This header documents the library and
// includes its parts:
//
//   chip.h        generations of chips and every number about them, with sources (emulator/chips.def)
//   topology.h    slices by name or from XML: shape, wrapping links, hosts, devices as JAX lists them
//   mesh_order.h  the position of each device in a mesh, as JAX chooses it
//   route.h       links of the torus and routes through it
//   draw.h        drawings of slices and of sharded arrays
//   export_hwloc.h  a slice as an hwloc topology
//   layout.h      padded sizes and default layouts of arrays
//   cost.h        the time of a kernel; fusion.h which instructions form a kernel; op_class.h the cost of an opcode
//   collective.h  collectives as transfers on links
//   fault.h       what-if: slow links, stragglers, dead chips
//   simulate.h    one step of a program: emu_simulate() and its EmuReport
//   report.h      JSON, traces, tables and out-of-memory texts from a report
//
// Nothing here prints, starts threads or keeps state: all functions may be called from any thread on objects that no
// other thread changes. Times are integers in picoseconds, sizes in bytes, unless a name says otherwise.
//
// Stability: stable.
//
// Terms:
//   chip         a package with one or two cores, HBM and links; a generation is a kind of chip.
//   slice        the chips of a job: a torus or a part of one. A host is a machine with some of its chips.
//   link         one direction of a wire between neighbouring chips.
//   wrap         a link from one end of a dimension of the torus to the other.
//   kernel       the instructions that run as one on a core, after fusion.
//   roofline     the model of a kernel's time: the longest of its matrix, vector and memory work.
//   padded size  bytes or elements after layout, with tiles filled up.
//   timeline     what each core and link does when, in picoseconds.
#ifndef MESHLO_EMULATOR_EMULATOR_H_
#define MESHLO_EMULATOR_EMULATOR_H_

#include "emulator/chip.h"
#include "emulator/collective.h"
#include "emulator/draw.h"
#include "emulator/export_hwloc.h"
#include "emulator/fault.h"
#include "emulator/layout/layout.h"
#include "emulator/mesh_order.h"
#include "emulator/report.h"
#include "emulator/route.h"
#include "emulator/simulate.h"
#include "emulator/topology.h"

#endif
