// SPDX-License-Identifier: Apache-2.0
// Declarations that the files of hlo/nn share.
#ifndef MESHLO_HLO_NN_INTERNAL_H_
#define MESHLO_HLO_NN_INTERNAL_H_

#include "hlo/ir/build/internal.h"
#include "hlo/nn/nn.h"

// Records INVALID_ARGUMENT in the builder and returns NULL for the caller to return.
HloInstruction *hlo_nn_refuse(HloBuilder *builder, const char *format, ...) HLO_PRINTF(2, 3);
// The axis of x that `axis` means (negative: from the end), or -1 after recording an error.
int64_t hlo_nn_axis(HloBuilder *builder, const HloInstruction *x, int64_t axis);
// A vector of the last dimension of `like`, repeated to its sizes.
HloInstruction *hlo_nn_spread_last(HloBuilder *builder, HloInstruction *vector, const HloInstruction *like);

#endif
