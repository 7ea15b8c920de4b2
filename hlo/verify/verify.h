// SPDX-License-Identifier: Apache-2.0
// The verifier: checks that a module has the properties that all other code assumes.
//
// It checks the structure (lists, users, callers, control edges, order, names, roots, no recursion), infers every shape
// again and compares it with the written one (layouts aside), the attributes that inference does not need (replica
// groups, source-target pairs, shardings, layouts), the pairing of async ops, and the module's header (entry layout,
// aliasing, donors, counts). Other code need not check these properties again.
//
// Stability: stable.
#ifndef MESHLO_HLO_VERIFY_VERIFY_H_
#define MESHLO_HLO_VERIFY_VERIFY_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Returns INVALID_ARGUMENT for the first error, with the instruction's name and, if its metadata has it, the line of
// the user's program as the place. Only reads: any number of threads may verify a module at once.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_verify(const HloModule *module);

HLO_END_C

#endif
