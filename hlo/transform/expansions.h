// SPDX-License-Identifier: Apache-2.0
// Ops that other ops abbreviate, written out: batch normalisations, map, scan and scaled-dot.
#ifndef MESHLO_HLO_TRANSFORM_EXPANSIONS_H_
#define MESHLO_HLO_TRANSFORM_EXPANSIONS_H_

#include "hlo/ir/module.h"

// Appends to the instruction's module a computation of its value, whose parameters are its operands; the caller removes
// it. UNIMPLEMENTED, at the instruction, for ranks whose formula would have more dimensions than an array may have. A
// batch normalisation may have a dynamic batch; the callers keep other operands of dynamic sizes away. `scratch` needs
// to live until it returns.
HloStatus hlo_write_out(const HloInstruction *instruction, HloArena *scratch, HloComputation **result);

#endif
