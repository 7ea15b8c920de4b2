// SPDX-License-Identifier: Apache-2.0
// Checks shared by all kinds of reductions: the operands (values, then initial values) and the reducer that they call.
#ifndef MESHLO_HLO_IR_INFER_REDUCER_H_
#define MESHLO_HLO_IR_INFER_REDUCER_H_

#include "hlo/ir/infer/support.h"

// Checks N arrays of equal dimensions followed by N scalars, and the reducer's 2N scalar parameters and results.
HLO_NODISCARD HloStatus hlo_infer_reduction_operands(const HloInferRequest *request);
// Checks that called computation 0 takes scalars of types `types` twice (accumulators, then values), `count` each, and
// returns `count` of them.
HLO_NODISCARD HloStatus hlo_infer_check_reducer(const HloInferRequest *request, const HloType *types, int64_t count);

#endif
