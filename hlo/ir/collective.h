// SPDX-License-Identifier: Apache-2.0
// The devices that take part in a collective, i.e. the meaning of the numbers in its groups or pairs. All readers of
// groups (shapes, verifier, evaluator, engine, reports, machine model) use these functions, so that they agree.
//
// Stability: experimental.
#ifndef MESHLO_HLO_IR_COLLECTIVE_H_
#define MESHLO_HLO_IR_COLLECTIVE_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The modes of XLA's GetCollectiveOpGroupMode(). A device is number replica * partitions + partition.
typedef enum HloGroupMode {
    HLO_GROUPS_OF_REPLICAS,             // replicas; the same groups in every partition
    HLO_GROUPS_OF_PARTITIONS,           // partitions; the same groups in every replica
    HLO_GROUPS_OF_REPLICAS_PARTITIONS,  // replicas, each with all its partitions
    HLO_GROUPS_OF_DEVICES,              // devices
} HloGroupMode;

// The mode of a collective with these attributes. The start of an asynchronous collective has the mode of the
// synchronous one.
HLO_EXPORT HloGroupMode hlo_group_mode(HloOpcode opcode, const HloCollectiveAttributes *attributes);
// The mode of an instruction; permutes included.
HLO_EXPORT HloGroupMode hlo_group_mode_of(const HloInstruction *collective);
// The number of distinct numbers that groups of this mode may contain.
HLO_EXPORT int64_t hlo_group_mode_numbers(HloGroupMode mode, int64_t replicas, int64_t partitions);
// The number of copies of each group in the program: one per partition, one per replica, or one.
HLO_EXPORT int64_t hlo_group_mode_copies(HloGroupMode mode, int64_t replicas, int64_t partitions);
// The devices that the numbers of a group denote in copy `copy` of it, in the same order; in the arena.
HLO_EXPORT HloInts hlo_group_mode_devices(HloGroupMode mode, HloInts numbers, int64_t copy, int64_t partitions,
                                          HloArena *arena);
// The numbers below `numbers` that the pairs of a permute link, directly or through others: only what is linked has to
// wait for one another. Sets *groups to lists of them, each ascending, and *count to their number; every number is in
// one, alone if no pair has it. Pairs of numbers that do not exist link nothing. In the arena; memory errors jump to
// hlo_protect(). Any thread.
HLO_EXPORT void hlo_permute_groups(const HloPairs *pairs, int64_t numbers, HloArena *arena, const HloInts **groups,
                                   int64_t *count);
// The number of slices that an in-place collective-permute takes from input `index`: as many as its operand number 2,
// the start indices, has tuples of them for it. slice_sizes has a list for each.
HLO_EXPORT int64_t hlo_permute_slices(const HloShape *starts, int64_t index);

HLO_END_C

#endif
