// SPDX-License-Identifier: Apache-2.0
// Special functions that are no ops of HLO, as graphs of elementwise ones. The builder and the doors that read other
// dialects append instructions in ways of their own (shapes with or without layouts, their own errors and
// annotations), so the formulas are written once over the two things that they need.
#ifndef MESHLO_HLO_IR_SPECIAL_H_
#define MESHLO_HLO_IR_SPECIAL_H_

#include "hlo/ir/instruction.h"

// Where a graph is made. All its values have one shape, but for predicates.
typedef struct HloGraph {
    // Appends an elementwise operation. After the first error, which the context keeps, it returns NULL without looking
    // at its operands, so that formulas need not ask after each step.
    HloInstruction *(*append)(void *context, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                              const void *attributes);
    // The same number everywhere, rounded to the type of the values.
    HloInstruction *(*number)(void *context, double value);
    void *context;
} HloGraph;

// c[0] x^(n-1) + ... + c[n-1] by Horner's rule, `count` (at least one) coefficients for all elements. NULL after an
// error.
HloInstruction *hlo_graph_polynomial(const HloGraph *graph, HloInstruction *x, const double *coefficients,
                                     size_t count);
// The inverse of the error function, +-infinity at +-1, where the values are of `type`: F32 or F64. NULL after an
// error.
HloInstruction *hlo_graph_erf_inv(const HloGraph *graph, HloInstruction *x, HloType type);

#endif
