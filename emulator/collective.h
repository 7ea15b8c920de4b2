// SPDX-License-Identifier: Apache-2.0
// Collectives as transfers over the links of a slice. A collective runs in stages (for example: between the devices of
// a chip, then over the torus); in each stage every group puts its bytes on the links of its routes, and the busiest
// link sets the time. Formulas: docs/machine-model.md.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_COLLECTIVE_H_
#define MESHLO_EMULATOR_COLLECTIVE_H_

#include "emulator/fault.h"
#include "emulator/op_class.h"
#include "emulator/route.h"

HLO_BEGIN_C

// The devices that a program runs on, and scratch tables.
typedef struct EmuNetwork {
    const EmuTopology *topology;
    const int64_t *places;  // position in the device list of each participant (replica * num_partitions + partition)
    int64_t replica_count;
    int64_t partition_count;
    HloArena *arena;
    int32_t *load_numbers;  // by link, while the loads of a stage are listed; else all zero
    int64_t *touched;       // links with a load in this stage
    int64_t touched_count;
    const EmuFaults *faults;
    struct EmuTransferMemo *memo;  // transfers that were timed; NULL: none are remembered
    struct EmuLinkSets *sets;      // of links, that transfers use; NULL: none are remembered
} EmuNetwork;

// Makes a network in `arena`; `places` and `faults` are borrowed and must outlive it. Memory errors jump to
// hlo_protect().
HLO_EXPORT EmuNetwork *emu_network_new(HloArena *arena, const EmuTopology *topology, const int64_t *places,
                                       int64_t replica_count, int64_t partition_count, const EmuFaults *faults);

// Makes the network remember the transfers of groups, in `arena`, which must outlive it and is not reset meanwhile:
// equal collectives of many layers are timed once, and routes are followed once for all sizes. Memory errors jump to
// hlo_protect().
HLO_EXPORT void emu_network_remember(EmuNetwork *network, HloArena *arena);

// Makes the network use and extend what `other`, which outlives it, remembers; false if that is not a network of the
// same places in the same slice. Both have the same faults and are used by one thread.
bool emu_network_share(EmuNetwork *network, const EmuNetwork *other);

// The number of what a link carries in one stage of a transfer: many links carry the same.
typedef struct EmuLinkLoad {
    int32_t link;
    int32_t load;
} EmuLinkLoad;

// The load that a collective puts on the network.
typedef struct EmuTransfer {
    int64_t group_size;
    int64_t group_count;
    int64_t bytes_per_device;  // sent by one device in a ring algorithm (emu_collective_bytes)
    int64_t picoseconds;
    const EmuLinkLoad *links;  // each link at most once per stage
    int64_t link_count;
    const double *loads;  // bytes by load
    int32_t set;          // the number of its links in the network's sets; -1 without links, or if none are remembered
} EmuTransfer;

// The bytes that entry `number` of a transfer's links carries.
static inline double emu_transfer_link_bytes(const EmuTransfer *transfer, int64_t number) {
    return transfer->loads[transfer->links[number].load];
}

// The bytes that one device of a group of `group_size` sends: all-gather and reduce-scatter (g-1)/g of the full array,
// all-reduce twice that, all-to-all (g-1)/g of its operand, collective-permute and -broadcast the operand.
HLO_EXPORT int64_t emu_collective_bytes(const HloInstruction *collective, int64_t group_size);

// Times a collective (its synchronous form or its start). INVALID_ARGUMENT when its groups do not fit the participants;
// UNAVAILABLE when its routes cross a dead chip.
HLO_EXPORT HLO_NODISCARD HloStatus emu_transfer(EmuNetwork *network, const HloInstruction *collective,
                                                EmuTransfer *transfer);

HLO_END_C

#endif
