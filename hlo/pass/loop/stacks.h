// SPDX-License-Identifier: Apache-2.0
// What the loop over the layers of a training step stacks for its backward part.
#ifndef MESHLO_HLO_PASS_LOOP_STACKS_H_
#define MESHLO_HLO_PASS_LOOP_STACKS_H_

#include "hlo/ir/module.h"

// Makes loops of a computation that read what an earlier loop stacked compute it again from the carries of that loop,
// which are stacked instead; only what is cheap, if `cheap`. The results have the same bits. Returns whether anything
// changed. Equal instructions in the bodies must have been merged. Memory errors jump to hlo_protect().
bool hlo_pass_recompute_stacks(HloComputation *computation, bool cheap);

#endif
