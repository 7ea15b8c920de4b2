// SPDX-License-Identifier: Apache-2.0
// Rematerialisation: what the backward part computes again.
#ifndef MESHLO_HLO_TRANSFORM_REMAT_H_
#define MESHLO_HLO_TRANSFORM_REMAT_H_

#include "hlo/transform/internal.h"

// Makes the instructions after `last` use copies of those up to it, except of parameters, constants and those that
// options->remat saves.
void hlo_transform_rematerialise(HloBuilder *b, HloArena *scratch, const HloGradientOptions *options,
                                 const HloInstruction *last);

// Whether a value is there without being computed, so that it is neither saved nor computed again.
static inline bool hlo_remat_is_given(const HloInstruction *i) {
    return hlo_is(i, HLO_OP_PARAMETER) || hlo_is(i, HLO_OP_CONSTANT) || hlo_is(i, HLO_OP_IOTA);
}

// How hlo_remat_keeping() keeps a value.
enum { HLO_REMAT_KEPT, HLO_REMAT_KEPT_ON_HOST };

// The same for a computation that is there already: what comes after the `count` instructions `first`, with which the
// computation begins, uses copies of them, except of parameters, constants and what `kept` has, by id.
void hlo_remat_keeping(HloBuilder *b, HloArena *scratch, const HloIntMap *kept, HloInstruction *const *first,
                       int64_t count);

// The body of a loop, or a branch, whose backward part is a computation of its own.
typedef struct HloRematSplit {
    const HloInstruction *parameter;
    HloRemat policy;
    bool repeats;              // it is the body of a loop
    const bool *is_invariant;  // per leaf of the parameter: the body returns it as it was
} HloRematSplit;

// Replaces `values`, which the backward part needs, by those that it gets, and appends to `again`, in the order of the
// program, what it computes from these. Whatever the policy, slices of a loop's invariants are not stacked, and
// broadcasts are made again.
void hlo_remat_split(HloArena *scratch, const HloRematSplit *split, HloInstructionVector *values,
                     HloInstructionVector *again);
// True if the policy moves a value to host memory.
bool hlo_remat_is_offloaded(HloRemat policy, const HloInstruction *i);
// A copy of x in a memory space.
HloInstruction *hlo_remat_placed(HloBuilder *b, HloInstruction *x, int64_t space);

#endif
