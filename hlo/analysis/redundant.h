// SPDX-License-Identifier: Apache-2.0
// Instructions that a program does not need: dead ones, and a hash that finds repeated ones.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_REDUNDANT_H_
#define MESHLO_HLO_ANALYSIS_REDUNDANT_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// True if nothing depends on an instruction: it has no users, control edges or effects, and is neither the root nor a
// parameter. Any thread.
HLO_EXPORT bool hlo_instruction_is_dead(const HloInstruction *instruction);
// Removes the dead instructions of a computation, also those that are dead once their users are removed. Operands must
// come before their users in the list. Returns whether there were any. The thread that changes the module.
HLO_EXPORT bool hlo_computation_remove_dead(HloComputation *computation);
// A hash of opcode, shape, attributes, operands and called computations, without names and annotations: equal for
// instructions that hlo_instruction_identical() finds identical, and for those that differ only in the order of
// operands that commute. Any thread.
HLO_EXPORT uint64_t hlo_instruction_hash(const HloInstruction *instruction);
// A hash of the pairs of a permute: equal for equal pairs. There are as many pairs as devices, so that of long lists
// only some are looked at, which tell permutes of one program apart. Any thread.
HLO_EXPORT uint64_t hlo_pairs_hash(HloPairs pairs);

HLO_END_C

#endif
