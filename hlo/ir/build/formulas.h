// SPDX-License-Identifier: Apache-2.0
// Special functions that are not HLO ops, as graphs of elementwise ops. The builder and the importers of other dialects
// append instructions in different ways (shapes with or without layouts, their own errors and annotations), so the
// formulas are written once in terms of the two functions that they need.
#ifndef MESHLO_HLO_IR_BUILD_FORMULAS_H_
#define MESHLO_HLO_IR_BUILD_FORMULAS_H_

#include "hlo/ir/builder.h"

// The context in which a graph is built. All its values have one shape, except predicates.
typedef struct HloGraph {
    // Appends an elementwise operation. After the first error, which the context keeps, it returns NULL without reading
    // its operands, so that formulas need not check each step.
    HloInstruction *(*append)(void *context, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                              const void *attributes);
    // A constant for all elements, rounded to the type of the values.
    HloInstruction *(*number)(void *context, double value);
    void *context;
} HloGraph;

// c[0] x^(n-1) + ... + c[n-1] by Horner's rule, with `count` (at least one) coefficients for all elements. NULL after
// an error.
HloInstruction *hlo_graph_polynomial(const HloGraph *graph, HloInstruction *x, const double *coefficients,
                                     size_t count);
// The inverse of the error function, +-infinity at +-1, for values of `type` F32 or F64. NULL after an error.
HloInstruction *hlo_graph_erf_inv(const HloGraph *graph, HloInstruction *x, HloType type);

// The logarithm of the absolute value of the gamma function, for values of type F32 or F64. NULL after an error.
HloInstruction *hlo_graph_lgamma(const HloGraph *graph, HloInstruction *x);
// Its derivative, NaN at 0, -1, -2 ... NULL after an error.
HloInstruction *hlo_graph_digamma(const HloGraph *graph, HloInstruction *x);
// The same, appended by a builder. NULL if x is.
HloInstruction *hlo_build_digamma(HloBuilder *builder, HloInstruction *x);

#endif
