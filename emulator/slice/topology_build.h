// SPDX-License-Identifier: Apache-2.0
// Internal: builds a topology once its numbers are known.
#ifndef MESHLO_EMULATOR_SLICE_TOPOLOGY_BUILD_H_
#define MESHLO_EMULATOR_SLICE_TOPOLOGY_BUILD_H_

#include "emulator/topology.h"
#include "hlo/base/memory.h"

typedef struct EmuPodGrammar EmuPodGrammar;  // emulator/pod_grammar.h

// The owner of the memory of a topology.
typedef struct EmuTopologyStorage {
    HloArena *arena;
    int64_t *position_by_local_id;  // per slice: position of a device in its slice's part of the list, by its id
} EmuTopologyStorage;

// The input from which a topology is built.
typedef struct EmuTopologyPlan {
    const char *name;
    const EmuChip *chip;  // copied
    int64_t shape[3];
    int64_t host_bounds[3];  // 0: as on the chip
    int64_t slice_count;
    bool cores_are_devices;  // no megacore: a chip of two cores is two devices
    bool wrap_given;         // else the chip's rule decides
    bool wrap[3];
    bool twisted;
} EmuTopologyPlan;

// Checks a plan and builds the topology in `arena`, which the topology then owns; on errors the caller keeps the arena.
HLO_NODISCARD HloStatus emu_topology_build(HloArena *arena, const EmuTopologyPlan *plan, EmuTopology **topology);
// The same for `count` host processors.
HLO_NODISCARD HloStatus emu_topology_build_cpu(HloArena *arena, const char *name, int64_t count,
                                               EmuTopology **topology);
// Reads an XML pod description (a path, optionally with `#slice` after it); ownership as emu_topology_build().
// `grammar` may be NULL, which parses one for this description alone.
HLO_NODISCARD HloStatus emu_topology_read_xml(HloArena *arena, const char *spec, EmuPodGrammar *grammar,
                                              EmuTopology **topology);

// The most devices a topology may have: above any real machine, below what would exhaust memory.
#define EMU_MAX_DEVICES (INT64_C(1) << 20)

#endif
