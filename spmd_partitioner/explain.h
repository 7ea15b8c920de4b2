// SPDX-License-Identifier: Apache-2.0
// Reports, and the annotated copy that --propagate-only prints.
#ifndef MESHLO_SPMD_PARTITIONER_EXPLAIN_H_
#define MESHLO_SPMD_PARTITIONER_EXPLAIN_H_

#include "spmd_partitioner/propagate.h"

// Writes the plan's shardings on the instructions of `copy`, a clone of the plan's module with the same names.
HloStatus spmd_plan_annotate(const SpmdPlan *plan, HloModule *copy);

#endif
