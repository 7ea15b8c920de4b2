// SPDX-License-Identifier: Apache-2.0
// A slice as an hwloc topology, for lstopo and other tools of that family.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_EXPORT_HWLOC_H_
#define MESHLO_EMULATOR_EXPORT_HWLOC_H_

#include "emulator/topology.h"

HLO_BEGIN_C

// The most chips of one export: hwloc is made for machines, and its matrix of distances grows with their square.
#define EMU_HWLOC_MAX_CHIPS 1024

// Writes hwloc's XML: hosts are groups, chips are packages ("TPUChip") with their HBM as a NUMA node, devices are cores
// under an L2 cache of the size of VMEM; infos hold ids and coordinates, and a matrix "TPUICIHops" the links between
// chips. INVALID_ARGUMENT for host processors, UNIMPLEMENTED above EMU_HWLOC_MAX_CHIPS chips, RESOURCE_EXHAUSTED when
// hwloc runs out of memory. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus emu_export_hwloc(const EmuTopology *topology, HloText *xml);

HLO_END_C

#endif
