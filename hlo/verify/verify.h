// SPDX-License-Identifier: Apache-2.0
// The verifier: whether a module is what the rest of the house may take for granted.
//
// It checks the structure (lists, users, callers, control edges, order, names, roots, no recursion), infers every shape
// again and compares it with the written one (layouts aside), the attributes that inference does not need (replica
// groups, source-target pairs, shardings, layouts), the pairing of async ops, and the module's header (entry layout,
// aliasing, donors, counts). What holds afterwards need not be checked anywhere else.
//
// Stability: stable.
#ifndef MESHLO_HLO_VERIFY_VERIFY_H_
#define MESHLO_HLO_VERIFY_VERIFY_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// INVALID_ARGUMENT for the first thing that is wrong, with the instruction's name and, where its metadata tells, the
// line of the user's program as the place. Reads only: any number of threads may verify a module at once.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_verify(const HloModule *module);

HLO_END_C

#endif
