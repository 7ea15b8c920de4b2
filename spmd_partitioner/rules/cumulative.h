// SPDX-License-Identifier: Apache-2.0
// Cumulative sums, products, minima and maxima, which programs write as reduce-windows as long as the array.
#ifndef MESHLO_SPMD_PARTITIONER_RULES_CUMULATIVE_H_
#define MESHLO_SPMD_PARTITIONER_RULES_CUMULATIVE_H_

#include "spmd_partitioner/partitioner.h"

// True if the current op, a reduce-window, accumulates along exactly one dimension, which is sharded by `sharding`,
// with an op whose partial results can be combined.
bool spmd_is_cumulative(const HloInstruction *op, const SpmdSharding *sharding);
// Bytes that one device sends for the totals of the shards. spmd_is_cumulative() must hold.
int64_t spmd_cumulative_bytes(const SpmdPartitioner *partitioner, const HloInstruction *op,
                              const SpmdSharding *sharding);
// Accumulates each shard and adds the totals of the shards before it (after it, for a reversed one). `sharding` is that
// of operand and result.
HloStatus spmd_partition_cumulative(SpmdPartitioner *partitioner, const HloInstruction *op, const SpmdRule *rule,
                                    const SpmdAxes *factors, const SpmdSharding *sharding);

#endif
