// SPDX-License-Identifier: Apache-2.0
// Loops that count: how often a while runs.
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_LOOP_H_
#define MESHLO_HLO_ANALYSIS_LOOP_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The known properties of a loop `for (i = start; i OP limit; i += step)`.
typedef struct HloCountedLoop {
    int64_t index;  // element of the loop's tuple that counts; -1 when the loop's state is the counter itself
    int64_t start, step, limit;
    int32_t direction;  // HLO_ComparisonDirection_*: counter OP limit
    int64_t trip_count;
} HloCountedLoop;

// True when `loop` (a while) counts an integer from a constant by a constant to a constant (or to a loop-invariant
// element that starts as one). Any thread.
HLO_EXPORT bool hlo_counted_loop(const HloInstruction *loop, HloCountedLoop *counted);
// The number of times that the body of a while runs: by hlo_counted_loop(), or by known_trip_count in its backend
// config; -1 if unknown.
HLO_EXPORT int64_t hlo_trip_count(const HloInstruction *loop);
// The greatest number of times that the body of a while may run, where its condition is `counter OP limit and ...`; -1
// if none is known. Any thread.
HLO_EXPORT int64_t hlo_trip_bound(const HloInstruction *loop);
// How often a computation runs, over all that call it: the sum over its callers of their runs, times the trip count of
// a while where that is known. `runs` holds the results so far by computation id, 0 at first; the entry runs once.
// Calls are as deep as the module nests. O(callers) for each computation that is not in `runs` yet.
HLO_EXPORT double hlo_computation_runs(const HloComputation *computation, double *runs);
// Returns the while loop whose body or condition has this parameter; NULL for other parameters.
HLO_EXPORT const HloInstruction *hlo_loop_around(const HloInstruction *parameter);
// True when the body returns element `index` of the loop's tuple unchanged.
HLO_EXPORT bool hlo_loop_element_is_invariant(const HloInstruction *loop, int64_t index);

HLO_END_C

#endif
