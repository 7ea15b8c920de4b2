// SPDX-License-Identifier: Apache-2.0
// Sums over devices that are finished after the ops that follow, where those make less of them.
#ifndef MESHLO_SPMD_PARTITIONER_LATER_H_
#define MESHLO_SPMD_PARTITIONER_LATER_H_

#include "spmd_partitioner/partitioner.h"

// Whether there are ops after `op` for which a sum that it leaves may wait. Most have none, so that this is asked
// first.
bool spmd_can_wait(const SpmdPartitioner *partitioner, const HloInstruction *op);
// What it costs to finish the sum over `partial` that `op` leaves, in sharding `sharding`, after linear ops that follow
// it, each of them the only user of the one before: the operands that these need, their work beyond what the plan has,
// and the collective. SPMD_MOST_BYTES where no such op can take it.
int64_t spmd_later_cost(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdSharding *sharding,
                        SpmdAtomSet partial);
// The operand of the current op that is left to it as a sum (SpmdLocal.waits); -1 if none is.
int32_t spmd_waiting_operand(SpmdPartitioner *partitioner, const HloInstruction *op);
// The axes of the factors of an op to which operand `sum` is left as a sum: those of that operand.
SpmdAxes *spmd_waiting_factors(SpmdPartitioner *partitioner, const SpmdRule *rule, int32_t sum);

// Where a device does not have what is looked up, it adds zeros to the sum. These must not become NaN where another
// operand is infinite. Returns `made`, what `op` makes of the sum at operand `sum`, with zeros again where there were
// zeros. Products that add up at once get the other factor with zeros there: spmd_mask_factors() returns their
// operands.
HloInstruction *spmd_keep_zeros(SpmdPartitioner *partitioner, const HloInstruction *op, int32_t sum,
                                HloInstruction *made);
HloInstruction *const *spmd_mask_factors(SpmdPartitioner *partitioner, const HloInstruction *op, int32_t sum,
                                         HloInstruction *const *operands);

#endif
