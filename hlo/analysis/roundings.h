// SPDX-License-Identifier: Apache-2.0
// How many roundings one after the other lead to a value: two runs of a program may differ by as many (HloTolerance).
#ifndef MESHLO_HLO_ANALYSIS_ROUNDINGS_H_
#define MESHLO_HLO_ANALYSIS_ROUNDINGS_H_

#include "hlo/base/map.h"
#include "hlo/ir/module.h"

// What is known about the called computations of a module. Starts zeroed, with an arena that outlives it. Of a module
// that changes, only computations that no longer change may have been asked for. One thread.
typedef struct HloRoundings {
    HloArena *arena;
    HloIntMap paths;  // by the computation's id
} HloRoundings;

// Fills `depths`, by instruction id (module->instruction_limit of them), with the roundings on the longest path to each
// value of `computation` that its root depends on; returns the root's. A computing instruction of a floating type is
// one; a sum over devices is one for each of them, since a rounded partial sum comes from each; copies and slices are
// none. A loop counts its body once an iteration, or once where the number of iterations is unknown. At most 1e15.
// O(instructions).
double hlo_roundings_fill(HloRoundings *roundings, const HloComputation *computation, double *depths);
// The longest path through a called computation. O(instructions) the first time.
double hlo_roundings_through(HloRoundings *roundings, const HloComputation *called);

#endif
