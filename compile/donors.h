// SPDX-License-Identifier: Apache-2.0
// Donation: which result reuses the memory of which argument. The one rule for running, timing and reporting.
//
// Programs declare it in two ways: input_output_alias names both sides, buffer_donor only the argument. A donor is
// matched with the first result that fits and has no argument yet, in the order in which the module lists donors; a
// donor that fits no result stays with the caller. A result fits if it has as many bytes in the same memory space and
// the same layout, or both have the layout that the machine would choose.
//
//     buffer_donor={(0, {}), (1, {})}, f32[4] p0, f32[8] p1 -> (f32[8], f32[2,2], f32[8])
//     becomes input_output_alias={ {1}: (0, {}), {0}: (1, {}) }
//
// Bound: linear in arguments and results; steps of large models donate thousands of arguments.
#ifndef MESHLO_COMPILE_DONORS_H_
#define MESHLO_COMPILE_DONORS_H_

#include "compile/layouts.h"

HLO_BEGIN_C

// Sets *aliases, in `arena`, to the aliases of `module` and those that its donors make. INVALID_ARGUMENT for an alias
// or a donor that names what does not exist. Only `machine` and `context` of `layouts` are used. Memory errors jump to
// hlo_protect().
HLO_NODISCARD HloStatus compile_match_donors(HloArena *arena, const HloModule *module, const CompileLayouts *layouts,
                                             HloAliases *aliases);

HLO_END_C

#endif
