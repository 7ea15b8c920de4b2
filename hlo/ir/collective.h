// SPDX-License-Identifier: Apache-2.0
// Who takes part in a collective: what the numbers in its groups or pairs count. Everybody who reads groups (shapes,
// verifier, evaluator, engine, reports, machine model) asks here, so that they mean the same devices.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_COLLECTIVE_H_
#define MESHLO_HLO_IR_COLLECTIVE_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The modes of XLA's GetCollectiveOpGroupMode(). A device is number replica * partitions + partition.
typedef enum HloGroupMode {
    HLO_GROUPS_OF_REPLICAS,             // replicas, the same groups in every partition
    HLO_GROUPS_OF_PARTITIONS,           // partitions, the same groups in every replica
    HLO_GROUPS_OF_REPLICAS_PARTITIONS,  // replicas, each with all its partitions
    HLO_GROUPS_OF_DEVICES,              // devices
} HloGroupMode;

// The mode of a collective with these attributes. The first half of an asynchronous collective has that of the whole.
HLO_EXPORT HloGroupMode hlo_group_mode(HloOpcode opcode, const HloCollectiveAttributes *attributes);
// The same of an instruction, permutes included.
HLO_EXPORT HloGroupMode hlo_group_mode_of(const HloInstruction *collective);
// How many numbers the groups of a mode may name.
HLO_EXPORT int64_t hlo_group_mode_numbers(HloGroupMode mode, int64_t replicas, int64_t partitions);
// How often each group of a mode stands in the program: once in each partition, or in each replica, or once.
HLO_EXPORT int64_t hlo_group_mode_copies(HloGroupMode mode, int64_t replicas, int64_t partitions);
// The devices that the numbers of a group stand for in copy `copy` of it, in their order; in the arena.
HLO_EXPORT HloInts hlo_group_mode_devices(HloGroupMode mode, HloInts numbers, int64_t copy, int64_t partitions,
                                          HloArena *arena);

HLO_END_C

#endif
