// SPDX-License-Identifier: Apache-2.0
// Declarations that the files of hlo/random share.
#ifndef MESHLO_HLO_RANDOM_INTERNAL_H_
#define MESHLO_HLO_RANDOM_INTERNAL_H_

#include "hlo/ir/build/internal.h"
#include "hlo/random/random.h"

// Records INVALID_ARGUMENT in the builder, with the function and the argument that it rejects; returns NULL for the
// caller to return.
HloInstruction *hlo_random_refuse(HloBuilder *builder, const char *function, const char *complaint);
// x with every element combined with the same number: `op` is one of the builder's functions of two operands.
typedef HloInstruction *HloRandomBinary(HloBuilder *builder, HloInstruction *a, HloInstruction *b);
// Applies `op` in this way; `number` wraps to the type of x. NULL when the builder holds an error.
HloInstruction *hlo_random_with(HloBuilder *builder, HloRandomBinary *op, HloInstruction *x, uint64_t number);

#endif
