// SPDX-License-Identifier: Apache-2.0
// Shortens a program by most of its equal layers, so that a search can cost plans on a small program.
//
// A training step of 32 equal layers holds the same instructions 32 times forward, 32 times backward, and 32 times in
// the update. Such stretches are found in the list of instructions, where they repeat with a fixed period, and the same
// number of copies is left out of each. What referred to a copy that is left out refers to the copy that takes its
// place.
//
// Parameters and results keep their numbers and shapes: a plan for the program is a plan for the shorter one, and each
// layer that is left out costs the same. The cost of the whole program is therefore close to linear in the layers:
//
//     cost(N) = cost(a) + (N - a) * (cost(a) - cost(b)) / (a - b)
//
// Stability: experimental.
#ifndef MESHLO_SPMD_PARTITIONER_SEARCH_REPEATS_H_
#define MESHLO_SPMD_PARTITIONER_SEARCH_REPEATS_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Makes a copy of `module` that has `layers` of its equal layers (at least 2). *all is how many it has, *shorter the
// copy, to be freed by the caller. *shorter is NULL where no stretch repeats more than `layers` + 1 times, or where an
// instruction outside of the stretches needs all copies. The shorter program computes something else. Errors:
// RESOURCE_EXHAUSTED, and those of the passes that inline calls. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_search_shorten(const HloModule *module, int64_t layers, HloModule **shorter,
                                                       int64_t *all);

HLO_END_C

#endif
