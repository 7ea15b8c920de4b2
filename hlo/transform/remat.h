// SPDX-License-Identifier: Apache-2.0
// Rematerialisation: what the backward part computes again.
#ifndef MESHLO_HLO_TRANSFORM_REMAT_H_
#define MESHLO_HLO_TRANSFORM_REMAT_H_

#include "hlo/transform/internal.h"

// Makes the instructions after `last` use copies of those up to it, except of parameters, constants and those that
// options->remat saves.
void hlo_transform_rematerialise(HloBuilder *b, HloArena *scratch, const HloGradientOptions *options,
                                 const HloInstruction *last);

#endif
