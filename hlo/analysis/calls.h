// SPDX-License-Identifier: Apache-2.0
// Calls: which computations run, and calls of calls, which multiply.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_CALLS_H_
#define MESHLO_HLO_ANALYSIS_CALLS_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// True for instructions whose computations are code that runs in their place (calls, loops, branches), as opposed to
// functions that are applied to elements.
HLO_EXPORT bool hlo_runs_what_it_calls(const HloInstruction *caller);
// Returns the index of the branch that a conditional runs for `selector`: 0 for true and 1 for false, and the last one
// for a number out of range.
HLO_EXPORT int64_t hlo_selected_branch(const HloInstruction *conditional, int64_t selector);
// UNIMPLEMENTED, with the name of a caller, when the module would grow by more than a million instructions if every
// instruction got its own copy of the computations that it calls. Code that inlines, copies, times or runs computations
// per caller checks this first: nested calls multiply, and forty computations that each call the next one twice would
// be 2^40. Takes time and memory of `scratch` in proportion to the module.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_check_call_copies(const HloModule *module, HloArena *scratch);

HLO_END_C

#endif
