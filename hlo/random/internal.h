// SPDX-License-Identifier: Apache-2.0
// Declarations that the files of hlo/random share.
#ifndef MESHLO_HLO_RANDOM_INTERNAL_H_
#define MESHLO_HLO_RANDOM_INTERNAL_H_

#include "hlo/ir/build/internal.h"
#include "hlo/random/random.h"

// Records INVALID_ARGUMENT in the builder, with the function and the argument that it rejects; returns NULL for the
// caller to return.
HloInstruction *hlo_random_refuse(HloBuilder *builder, const char *function, const char *complaint);
// As hlo_build_with_number() for integers of up to 64 bits: `number` wraps to the type of x. NULL when the builder
// holds an error.
HloInstruction *hlo_random_with(HloBuilder *builder, HloBuildBinary *op, HloInstruction *x, uint64_t number);

#endif
