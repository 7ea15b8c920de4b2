// SPDX-License-Identifier: Apache-2.0
// What ops cost: floating-point operations, transcendental functions, bytes read and written. Counts as XLA's
// HloCostAnalysis does (checked against jaxlib 0.10.2 in tests/ir/test_cost.c), except that a while loop counts its
// body as often as it runs where that is known, and that constants, tuples and the like move no bytes.
//
// Bytes are of the dense storage (hlo_shape_bytes: types below 8 bits take a byte); a caller that models padded layouts
// scales them. Fusions read their operands and write their results, no more; slicing ops touch what they slice.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_COST_H_
#define MESHLO_HLO_ANALYSIS_COST_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// Counts are doubles because immense programs must not overflow; they are whole numbers, exact up to 2^53.
typedef struct HloCost {
    double flops;            // multiplications, additions, comparisons ... one each; a fused multiply-add is two
    double transcendentals;  // exp, log, tanh, sqrt; division is not one
    double bytes_read;
    double bytes_written;
} HloCost;

typedef struct HloCostAnalysis HloCostAnalysis;

// Analyses every computation of a module. NULL when memory is short. Holds pointers into the module, which must not
// change while the analysis lives. Free with hlo_cost_analysis_free().
HLO_EXPORT HloCostAnalysis *hlo_cost_analysis_new(const HloModule *module);
// Frees an analysis; accepts NULL.
HLO_EXPORT void hlo_cost_analysis_free(HloCostAnalysis *analysis);
// The cost of one execution of one instruction, including all that it calls. Safe for any number of threads at the same
// time.
HLO_EXPORT HloCost hlo_cost_of_instruction(const HloCostAnalysis *analysis, const HloInstruction *instruction);
// The cost of one execution of one computation.
HLO_EXPORT HloCost hlo_cost_of_computation(const HloCostAnalysis *analysis, const HloComputation *computation);

// A handler of the `cost` column of hlo/ops.def: adds to *cost.
typedef void HloCostFunction(const HloCostAnalysis *analysis, const HloInstruction *instruction, HloCost *cost);

#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    HloCostFunction hlo_cost_##cost;
#include "hlo/ops.def"
#undef HLO_OP

HLO_END_C

#endif
