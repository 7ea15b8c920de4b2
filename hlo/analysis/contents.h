// SPDX-License-Identifier: Apache-2.0
// Questions about all instructions of a module, whichever computation they are in, and about what they pass on. Any
// thread.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_CONTENTS_H_
#define MESHLO_HLO_ANALYSIS_CONTENTS_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Returns the first instruction, computation by computation, for which `is_wanted` holds; NULL if there is none. Takes
// time in proportion to the instructions before it.
HLO_EXPORT const HloInstruction *hlo_module_find(const HloModule *module,
                                                 bool (*is_wanted)(const HloInstruction *instruction));
// True if the module has an instruction of this opcode. Time as hlo_module_find().
HLO_EXPORT bool hlo_module_has(const HloModule *module, HloOpcode opcode);
// True if the module has a collective. Time as hlo_module_find().
HLO_EXPORT bool hlo_module_has_collectives(const HloModule *module);
// Returns the value that a get-tuple-element takes out of a tuple, seen through optimization barriers; the
// get-tuple-element itself where the tuple is made in another way.
HLO_EXPORT const HloInstruction *hlo_passed_element(const HloInstruction *element);
// The number of instructions of a module. Time in proportion to its computations.
HLO_EXPORT int64_t hlo_module_instruction_count(const HloModule *module);

HLO_END_C

#endif
