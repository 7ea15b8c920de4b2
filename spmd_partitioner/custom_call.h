// SPDX-License-Identifier: Apache-2.0
// Manual regions and the custom calls that the partitioner understands, and the --shard option.
#ifndef MESHLO_SPMD_PARTITIONER_CUSTOM_CALL_H_
#define MESHLO_SPMD_PARTITIONER_CUSTOM_CALL_H_

#include "hlo/ir/custom_call.h"
#include "spmd_partitioner/partitioner.h"
#include "spmd_partitioner/propagate.h"

// The directions in which a call lets shardings through: both, unless it is a propagation barrier that restricts them.
SpmdDirections spmd_call_directions(const HloInstruction *op);
// The custom partitioner of the options that handles this instruction; NULL where there is none.
const SpmdCustomPartitioner *spmd_author_of(const SpmdOptions *options, const HloInstruction *op);
// The shardings, by leaf of its result, that this partitioner infers from those of the operands in the plan; NULL for
// those that it leaves open.
HloStatus spmd_author_infer(const SpmdPlan *plan, const HloInstruction *op, SpmdSharding **results);
// Replaces the call by the program that this partitioner makes.
HloStatus spmd_author_partition(SpmdPartitioner *partitioner, const HloInstruction *op);
// Whether a collective's groups are of replicas: each partition works with its like, and sees parts of arrays as it
// sees whole ones.
bool spmd_is_across_replicas(const HloInstruction *op);
// Whether an op speaks of devices by their numbers: a collective among partitions, a transfer, the device's own number.
bool spmd_names_devices(const HloInstruction *op);
// Marks every array inside of a manual region with its manual axes.
void spmd_plan_manual(SpmdPlan *plan);
// The boundary of a manual region, for one array.
typedef struct SpmdManualBoundary {
    bool entering;
    SpmdAtomSet manual;     // axes that become manual, or stop to be
    SpmdAtomSet unreduced;  // axes over which the array outside is unreduced
    SpmdAxes *prefix;       // per dimension: the manual axes by which the array outside is sharded
} SpmdManualBoundary;

// Reads the boundary of leaf `leaf` of an entering or leaving call. The result outside gets the sharding that the call
// declares. INVALID_ARGUMENT where sizes inside and outside do not agree.
HloStatus spmd_manual_boundary(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf,
                               SpmdManualBoundary *boundary);
// The sharding outside that corresponds to the plan's sharding of the array inside.
SpmdSharding *spmd_manual_boundary_outside(const SpmdPlan *plan, const HloInstruction *op, int64_t leaf,
                                           const SpmdManualBoundary *boundary);
// Applies the options' "TARGET=SPEC" lines to the plan. INVALID_ARGUMENT for targets, axes or ranks that do not exist.
HloStatus spmd_apply_shard_options(SpmdPlan *plan, const SpmdOptions *options);

#endif
